//! The timers that are armed on one CPU: those that come by themselves, and those of the timer wheel, which wait for a tick.

use crate::ids::TaskId;

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
    /// Runs the soft lockup detector (kernel/watchdog.c:watchdog_timer_fn()).
    Watchdog,
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

/// The timers of a CPU, both lists latest first.
#[derive(Debug, Default)]
pub(crate) struct CpuTimers {
    own: Vec<Timer>,
    /// Those that ticks serve.
    wheel: Vec<Timer>,
}

impl CpuTimers {
    /// Arms a timer.
    pub(crate) fn add(&mut self, timer: Timer) {
        insert(&mut self.own, timer);
    }

    /// Arms a timer of the wheel.
    pub(crate) fn add_to_wheel(&mut self, timer: Timer) {
        insert(&mut self.wheel, timer);
    }

    /// Forgets the timers of this kind that are not of the wheel; whether there was one.
    pub(crate) fn cancel(&mut self, kind: TimerKind) -> bool {
        let nr = self.own.len();
        self.own.retain(|timer| timer.kind != kind);
        self.own.len() != nr
    }

    /// The timer that must come first.
    pub(crate) fn first(&self) -> Option<Timer> {
        self.own.last().copied()
    }

    /// Takes the timer that must come first.
    pub(crate) fn pop(&mut self) -> Option<Timer> {
        self.own.pop()
    }

    /// Whether the wheel has something to serve at `now_ns`.
    pub(crate) fn wheel_is_due(&self, now_ns: u64) -> bool {
        self.wheel.last().is_some_and(|timer| timer.latest_ns <= now_ns)
    }

    /// Takes the first timer of the wheel.
    pub(crate) fn pop_wheel(&mut self) -> Option<Timer> {
        self.wheel.pop()
    }

    /// When the next timer comes by itself, or with `tick_stopped` the tick that the wheel needs.
    pub(crate) fn next_ns(&self, tick_stopped: bool, tick_ns: u64) -> Option<u64> {
        let own = self.own.last().map(|timer| timer.latest_ns);
        let wheel = self.wheel.last().filter(|_| tick_stopped);
        let wheel = wheel.map(|timer| timer.latest_ns.div_ceil(tick_ns) * tick_ns);
        own.into_iter().chain(wheel).min()
    }
}

fn insert(timers: &mut Vec<Timer>, timer: Timer) {
    let place = timers.partition_point(|other| *other > timer);
    timers.insert(place, timer);
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
