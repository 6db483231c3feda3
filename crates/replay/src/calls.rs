//! When the scheduler calls the governor of a CPU, and how long a governor's work takes: what an open loop keeps as recorded.
//!
//! A trace with a probe on the governor's hook ([`What::UpdateUtil`]) records each call. Without one the calls are those that
//! the rebuilt signals cause: at events, at the ticks of busy CPUs, and when the load of idle CPUs decays ([`crate::nohz`]).

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::governor::Worker;
use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::policy::Policy;
use opplab_signals::ticks::{EARLY_NS, TickFinder, Ticks};

use crate::events::{Events, Left, What};
use crate::tick::phase_ns;

/// The ticks, `tick_ns` apart: those of [`phase_ns`], else what preemptions show. Times are those of the events and `base_ns`.
pub(crate) fn find_ticks(events: &Events, tick_ns: u64, base_ns: u64) -> Option<Ticks> {
    if let Some(phase_ns) = phase_ns(events, tick_ns) {
        let phase_ns = (phase_ns + base_ns % tick_ns + tick_ns - EARLY_NS) % tick_ns;
        return Some(Ticks { period_ns: tick_ns, phase_ns });
    }
    told_ticks(events, base_ns)
}

/// The ticks that preemptions and idle CPUs show, of whatever period.
pub(crate) fn told_ticks(events: &Events, base_ns: u64) -> Option<Ticks> {
    let mut finder = TickFinder::default();
    for ev in &events.list {
        let now = ev.time_ns.saturating_add(base_ns);
        let who = |task: TaskIdx| {
            events.tasks.get(task as usize).map_or((0, 120), |task| (task.pid, task.prio_at(ev.time_ns)))
        };
        match ev.what {
            What::Switch { prev, left, next } => {
                finder.switch(now, ev.cpu, who(prev), u64::from(left != Left::Runnable), who(next));
            }
            What::Wakeup { cpu, .. } | What::WakeupNew { cpu, .. } | What::Migrate { dest_cpu: cpu, .. } => {
                finder.joins(now, cpu);
            }
            What::Idle { cpu, state } => finder.idle(now, cpu, state.is_some()),
            _ => {}
        }
    }
    finder.ticks()
}

/// One run of a policy's kthread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Work {
    woken_ns: u64,
    /// It takes what the governor wants by then.
    began_ns: u64,
    /// That is in force.
    done_ns: u64,
}

/// The work of a policy's kthread as it was recorded.
#[derive(Debug, Default)]
pub(crate) struct Kthread {
    /// Ascending.
    runs: Vec<Work>,
    /// From a wake-up to its run, and from there to its end, of the run of middle length.
    usual_ns: Option<(u64, u64)>,
}

/// Whether `task` is a kworker of one CPU under a governor whose samples such kworkers take: the engine has its own of these.
pub(crate) fn takes_samples(events: &Events, policy: &Policy, task: TaskIdx) -> bool {
    let bound = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit()) && !rest.ends_with('H');
    policy.governor_id().is_ok_and(|governor| governor.worker == Worker::Kworker)
        && events.name(task).strip_prefix("kworker/").is_some_and(bound)
}

/// Whether the recorded governor's tunables let it sample whenever that of `policy` does, if their periods do. At its highest frequency
/// ondemand samples `sampling_down_factor` times less often, and `powersave_bias` cuts its period in two.
pub(crate) fn samples_no_less(recorded: &Policy, policy: &Policy) -> bool {
    let given = |policy: &Policy, name: &str| policy.tunables.iter().find(|(known, _)| known == name).cloned();
    let same = |name: &str| given(recorded, name) == given(policy, name);
    same("powersave_bias") && (given(recorded, "sampling_down_factor").is_none() || same("sampling_down_factor"))
}

/// The kworkers that take the recorded governor's samples, if the replayed one samples at these times.
#[derive(Debug, Default)]
pub(crate) struct Kworkers {
    /// When each was woken, by which CPU, and when it began to run; ascending.
    runs: Vec<(u64, u32, u64)>,
}

impl Kworkers {
    /// The tasks of `events` that `is_one` takes.
    pub(crate) fn of(events: &Events, is_one: impl Fn(TaskIdx) -> bool) -> Self {
        let mut woken: BTreeMap<TaskIdx, (u64, u32)> = BTreeMap::new();
        let mut runs = Vec::new();
        for ev in &events.list {
            match ev.what {
                What::Waking { task } if is_one(task) => {
                    woken.entry(task).or_insert((ev.time_ns, ev.cpu));
                }
                What::Switch { next, .. } if is_one(next) => {
                    let (woken, by) = woken.remove(&next).unwrap_or((ev.time_ns, ev.cpu));
                    runs.push((woken, by, ev.time_ns));
                }
                _ => {}
            }
        }
        runs.sort_unstable();
        Self { runs }
    }

    /// No sample was recorded that is one of the replayed governor: its own are taken when they are due.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// When the work begins that CPU `by` queued at `woken_ns`; `None` if that woke none of these.
    pub(crate) fn began_ns(&self, woken_ns: u64, by: u32) -> Option<u64> {
        let at = self.runs.partition_point(|&(woken, _, _)| woken < woken_ns);
        let same = self.runs[at..].iter().take_while(|&&(woken, _, _)| woken == woken_ns);
        same.filter(|&&(_, waker, _)| waker == by).map(|&(_, _, began)| began).next()
    }
}

/// A recorded wake-up this soon after a request is the one that the request caused.
const SAME_REQUEST_NS: u64 = 500_000;
/// And so much earlier it may be, as the event of a request's cause comes after it was made.
const TOLD_LATE_NS: u64 = 100_000;

/// The hardware has answered a request by then.
const ANSWER_NS: u64 = 10_000_000;

impl Kthread {
    /// The runs of `sugov:N`, whose number is one of `cpus`.
    pub(crate) fn of(events: &Events, cpus: &[u32]) -> Self {
        let is_its = |task: TaskIdx| {
            let number = events.name(task).strip_prefix("sugov:").and_then(|cpu| cpu.parse().ok());
            number.is_some_and(|cpu: u32| cpus.contains(&cpu))
        };
        let mut runs: Vec<Work> = Vec::new();
        let (mut woken, mut began, mut changed_ns) = (None, None, None);
        for ev in &events.list {
            match ev.what {
                What::Frequency { cpu, .. } if cpus.contains(&cpu) => {
                    // The hardware answers while the thread sleeps, and wakes it.
                    woken.take_if(|since| *since == ev.time_ns);
                    if let (None, Some(run)) = (woken, runs.last_mut())
                        && ev.time_ns.saturating_sub(run.done_ns) < ANSWER_NS
                    {
                        run.done_ns = run.done_ns.max(ev.time_ns);
                        changed_ns = Some(ev.time_ns);
                    }
                }
                What::Waking { task } | What::Wakeup { task, .. } if is_its(task) && changed_ns != Some(ev.time_ns) => {
                    woken.get_or_insert(ev.time_ns);
                }
                What::Switch { prev, left, .. } if left != Left::Runnable && prev != IDLE_TASK && is_its(prev) => {
                    let run = |woken_ns| Work { woken_ns, began_ns: began.unwrap_or(woken_ns), done_ns: ev.time_ns };
                    runs.extend(woken.take().map(run));
                    began = None;
                }
                What::Switch { next, .. } if is_its(next) => {
                    began = began.or(woken.is_some().then_some(ev.time_ns));
                }
                _ => {}
            }
        }
        let mut by_length = runs.clone();
        by_length.sort_by_key(|run| run.done_ns.saturating_sub(run.woken_ns));
        let usual_ns = by_length
            .get(runs.len() / 2)
            .map(|run| (run.began_ns.saturating_sub(run.woken_ns), run.done_ns.saturating_sub(run.began_ns)));
        Self { runs, usual_ns }
    }

    /// Whether a change at `changed_ns` was asked for before `time_ns`.
    pub(crate) fn asked_before(&self, changed_ns: u64, time_ns: u64) -> bool {
        let asked = self.runs.partition_point(|run| run.woken_ns < time_ns);
        self.runs[..asked].last().is_some_and(|run| changed_ns <= run.done_ns)
    }

    /// When the work of a request of `time_ns` begins and when it is in force: with the recorded run that it caused, else after the usual
    /// times; `else_ns` after it where no run was recorded. Until `busy_ns` the thread does what was asked for before.
    pub(crate) fn work_ns(&self, time_ns: u64, else_ns: u64, busy_ns: u64) -> (u64, u64) {
        let first = self.runs.partition_point(|run| run.woken_ns.saturating_add(TOLD_LATE_NS) < time_ns);
        let mut soon =
            self.runs[first..].iter().take_while(|run| run.woken_ns < time_ns.saturating_add(SAME_REQUEST_NS));
        if let Some(run) = soon.find(|run| run.done_ns >= time_ns)
            && run.began_ns >= busy_ns
        {
            return (run.began_ns.max(time_ns), run.done_ns);
        }
        let (waits_ns, takes_ns) = self.usual_ns.unwrap_or((0, else_ns));
        let began_ns = time_ns.saturating_add(waits_ns).max(busy_ns);
        (began_ns, began_ns.saturating_add(takes_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Context, Ev, TaskInfo};

    /// Task 0 of that name is woken by CPU 1, runs on CPU 0 and sleeps, at these times.
    fn events(name: &str, runs: &[(u64, u64, u64)]) -> Events {
        let ev = |time_ns, cpu, what| Ev { time_ns, cpu, current: IDLE_TASK, context: Context::Unknown, what };
        let list = runs.iter().flat_map(|&(woken, began, done)| {
            let sleeps = What::Switch { prev: 0, left: Left::Asleep, next: IDLE_TASK };
            [
                ev(woken, 1, What::Waking { task: 0 }),
                ev(began, 0, What::Switch { prev: IDLE_TASK, left: Left::Runnable, next: 0 }),
                ev(done, 0, sleeps),
            ]
        });
        let task = TaskInfo { name: name.into(), prios: vec![(0, 120)], ..TaskInfo::new(7) };
        Events { list: list.collect(), tasks: vec![task], nr_cpus: 2, ..Events::default() }
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_is_in_force_when_the_recorded_kthread_was_done() {
        let runs = [(10 * MS, 11 * MS, 12 * MS), (20 * MS, 20 * MS, 21 * MS), (30 * MS, 30 * MS, 33 * MS)];
        let kthread = Kthread::of(&events("sugov:1", &runs), &[0, 1]);
        let check = |request: u64, done: u64| assert_eq!(kthread.work_ns(request, 0, 0).1, done, "{request}");
        check(10 * MS - 20_000, 12 * MS);
        // The cause was recorded after the wake-up.
        check(20 * MS + 50_000, 21 * MS);
        // The recorded kernel asked for nothing then: as long as usual.
        check(25 * MS, 27 * MS);
        assert_eq!(kthread.work_ns(10 * MS, 0, 0).0, 11 * MS);
        assert!(kthread.asked_before(12 * MS, 11 * MS) && !kthread.asked_before(21 * MS, 11 * MS));
        // It is at work until then.
        assert_eq!(kthread.work_ns(25 * MS, 0, 28 * MS), (28 * MS, 29 * MS));
        assert_eq!(Kthread::of(&events("sugov:4", &runs), &[0, 1]).work_ns(10 * MS, 5, 0).1, 10 * MS + 5);
    }

    /// A thread that sleeps while the hardware answers is woken by the answer, which is when the clock changes.
    #[test]
    fn a_request_is_in_force_when_the_clock_changes() {
        let mut events =
            events("sugov:1", &[(10 * MS, 11 * MS, 12 * MS), (15 * MS, 15 * MS, 16 * MS), (20 * MS, 20 * MS, 21 * MS)]);
        let what = What::Frequency { cpu: 0, freq_khz: 1 };
        let at = events.list.partition_point(|ev| ev.time_ns <= 15 * MS);
        events.list.insert(at, Ev { time_ns: 15 * MS, cpu: 0, current: IDLE_TASK, context: Context::Unknown, what });
        let kthread = Kthread::of(&events, &[0, 1]);
        assert_eq!(kthread.work_ns(10 * MS, 0, 0), (11 * MS, 15 * MS));
        assert_eq!(kthread.work_ns(20 * MS, 0, 0), (20 * MS, 21 * MS));
        assert_eq!(kthread.runs.len(), 2);
    }

    #[test]
    fn a_sample_is_taken_when_the_recorded_kworker_began() {
        let events = events("kworker/0:1", &[(10 * MS, 14 * MS, 15 * MS)]);
        let kworkers = Kworkers::of(&events, |_| true);
        assert_eq!(kworkers.began_ns(10 * MS, 1), Some(14 * MS));
        // Another CPU's work, or none.
        assert_eq!(kworkers.began_ns(10 * MS, 0), None);
        assert_eq!(kworkers.began_ns(12 * MS, 1), None);
        assert!(!kworkers.is_empty() && Kworkers::of(&events, |_| false).is_empty());
    }
}
