//! The timers that are armed on one CPU: those that come by themselves, and those of the timer wheel, which wait for a tick.

use std::collections::BTreeSet;

use crate::ids::{CpuId, GroupId, TaskId};

/// How often a CPU of `nohz_full` that runs one task is ticked for (HZ jiffies).
pub(crate) const RESIDUAL_TICK_NS: u64 = 1_000_000_000;

/// What a timer does when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKind {
    /// Wakes the task.
    Wake(TaskId),
    /// Replenishes a deadline task: its next period begins (deadline.c:dl_task_timer()).
    Replenish(TaskId),
    /// Takes a deadline task's bandwidth away at its 0-lag time (deadline.c:inactive_task_timer()).
    Inactive(TaskId),
    /// Has a CPU's fair tasks served, or its real-time tasks run again (deadline.c:dl_server_timer(), v6.12;
    /// rt.c:sched_rt_period_timer(), v6.1).
    Starvation,
    /// Ends a period of a group's quota (fair.c:sched_cfs_period_timer()).
    CfsPeriod(GroupId),
    /// Hands out what the queues of a group gave back (fair.c:sched_cfs_slack_timer()).
    CfsSlack(GroupId),
    /// Runs the soft lockup detector (kernel/watchdog.c:watchdog_timer_fn()).
    Watchdog,
    /// Has a kworker tick for another CPU whose tick is stopped (core.c:sched_tick_remote()).
    RemoteTick(CpuId),
    /// One of the kernel's own that wakes nobody.
    Kernel,
}

/// An armed timer: when it comes at the latest, and in which order it was armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    /// Its time with its slack.
    pub(crate) latest_ns: u64,
    pub(crate) seq: u64,
    pub(crate) kind: TimerKind,
}

/// How many timers are kept in one array.
const NEAR: usize = 64;

/// Armed timers in order: the next ones in a short array, and what does not fit in a tree, as arrays of a hundred thousand
/// would be moved at each birth.
#[derive(Debug, Default)]
struct Timers {
    /// The next ones, latest first; empty only if there is none.
    near: Vec<Timer>,
    /// Those that come after all of these.
    far: BTreeSet<Timer>,
}

impl Timers {
    fn insert(&mut self, timer: Timer) {
        if self.far.first().is_some_and(|first| *first < timer) {
            self.far.insert(timer);
            return;
        }
        let place = self.near.partition_point(|other| *other > timer);
        self.near.insert(place, timer);
        if self.near.len() > NEAR {
            self.far.extend(self.near.drain(..NEAR / 2));
        }
    }

    fn first(&self) -> Option<&Timer> {
        self.near.last()
    }

    fn pop(&mut self) -> Option<Timer> {
        let timer = self.near.pop();
        self.fill();
        timer
    }

    /// Keeps the timers for which `is_kept` holds; whether anything was dropped.
    fn retain(&mut self, mut is_kept: impl FnMut(&Timer) -> bool) -> bool {
        let nr = self.near.len() + self.far.len();
        self.near.retain(&mut is_kept);
        self.far.retain(is_kept);
        self.fill();
        self.near.len() + self.far.len() != nr
    }

    fn fill(&mut self) {
        if self.near.is_empty() && !self.far.is_empty() {
            self.near.extend(std::iter::from_fn(|| self.far.pop_first()).take(NEAR / 2));
            self.near.reverse();
        }
    }
}

/// The timers of a CPU.
#[derive(Debug, Default)]
pub(crate) struct CpuTimers {
    own: Timers,
    /// Those that ticks serve.
    wheel: Timers,
}

impl CpuTimers {
    /// Arms a timer.
    pub(crate) fn add(&mut self, timer: Timer) {
        self.own.insert(timer);
    }

    /// Arms a timer of the wheel.
    pub(crate) fn add_to_wheel(&mut self, timer: Timer) {
        self.wheel.insert(timer);
    }

    /// Takes all timers: those of its own, and those of the wheel.
    pub(crate) fn take_all(&mut self) -> [Vec<Timer>; 2] {
        let take = |timers: &mut Timers| std::iter::from_fn(|| timers.pop()).collect();
        [take(&mut self.own), take(&mut self.wheel)]
    }

    /// Forgets the timers of this kind that are not of the wheel; whether there was one.
    pub(crate) fn cancel(&mut self, kind: TimerKind) -> bool {
        self.own.retain(|timer| timer.kind != kind)
    }

    /// The timer that must come first.
    pub(crate) fn first(&self) -> Option<Timer> {
        self.own.first().copied()
    }

    /// Takes the timer that must come first.
    pub(crate) fn pop(&mut self) -> Option<Timer> {
        self.own.pop()
    }

    /// Whether the wheel has something to serve at `now_ns`.
    pub(crate) fn wheel_is_due(&self, now_ns: u64) -> bool {
        self.wheel.first().is_some_and(|timer| timer.latest_ns <= now_ns)
    }

    /// Takes the first timer of the wheel.
    pub(crate) fn pop_wheel(&mut self) -> Option<Timer> {
        self.wheel.pop()
    }

    /// When the next timer comes by itself, or with `tick_stopped` the tick that the wheel needs.
    pub(crate) fn next_ns(&self, tick_stopped: bool, tick_ns: u64) -> Option<u64> {
        let own_ns = self.own.first().map(|timer| timer.latest_ns);
        match self.wheel.first() {
            Some(timer) if tick_stopped => {
                let wheel_ns = timer.latest_ns.div_ceil(tick_ns) * tick_ns;
                Some(own_ns.map_or(wheel_ns, |own_ns| own_ns.min(wheel_ns)))
            }
            _ => own_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(latest_ns: u64, seq: u64) -> Timer {
        Timer { latest_ns, seq, kind: TimerKind::Wake(TaskId(0)) }
    }

    #[test]
    fn timers_come_by_time_then_in_the_order_of_arming() {
        let mut timers = CpuTimers::default();
        for (latest_ns, seq) in [(30, 1), (10, 2), (30, 0), (20, 3)] {
            timers.add(timer(latest_ns, seq));
        }
        let order: Vec<_> = std::iter::from_fn(|| timers.pop()).map(|timer| (timer.latest_ns, timer.seq)).collect();
        assert_eq!(order, [(10, 2), (20, 3), (30, 0), (30, 1)]);
    }

    /// Goal: the order does not depend on where a timer is kept. Method: a thousand, armed and popped in a mixed order.
    #[test]
    fn many_timers_come_in_the_same_order() {
        let mut timers = CpuTimers::default();
        let (mut model, mut state) = (BTreeSet::new(), 1u64);
        for seq in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if seq < 1000 || state >> 62 < 2 {
                timers.add(timer(state >> 56, seq));
                model.insert(timer(state >> 56, seq));
            } else {
                assert_eq!(timers.pop(), model.pop_first());
            }
            assert_eq!(timers.first(), model.first().copied());
        }
        assert!(timers.cancel(TimerKind::Wake(TaskId(0))) && timers.first().is_none());
    }

    #[test]
    fn a_cancelled_kind_is_gone_and_the_others_stay() {
        let mut timers = CpuTimers::default();
        timers.add(timer(10, 0));
        timers.add(Timer { latest_ns: 5, seq: 1, kind: TimerKind::Inactive(TaskId(0)) });
        assert!(timers.cancel(TimerKind::Inactive(TaskId(0))));
        assert!(!timers.cancel(TimerKind::Inactive(TaskId(0))));
        assert_eq!(timers.first(), Some(timer(10, 0)));
    }

    #[test]
    fn a_stopped_tick_comes_back_for_the_wheel() {
        let mut timers = CpuTimers::default();
        timers.add(timer(90, 0));
        timers.add_to_wheel(timer(41, 1));
        assert_eq!(timers.next_ns(false, 40), Some(90));
        assert_eq!(timers.next_ns(true, 40), Some(80));
        assert!(!timers.wheel_is_due(40));
        assert!(timers.wheel_is_due(41));
    }
}
