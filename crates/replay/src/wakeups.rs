//! Wake-ups of which a recording does not show what comes of them under other clocks.
//!
//! ```text
//!   recorded   a ==|    ==|    ==|         b sleeps whenever a wakes it
//!              b    ====   ====   ====
//!   slower     a ====|  ====|  ====|       b still runs when a wakes it again
//!              b      ===========???
//! ```
//! A semaphore or a pipe keeps such a wake-up, a condition variable (rt-app's `resume`) loses it; a trace has the same events of both. A
//! closed loop keeps it. Where recorded tasks ended late, wake-ups may have been lost that a faster policy would not lose.

use std::collections::BTreeMap;

use opplab_model::workload::{Op, TaskSpec, Workload};

use crate::measure::Measured;

/// Work that hangs on whether wake-ups of running tasks are kept, in parts of 100 000 of what is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsure {
    /// What the changed policy does of wake-ups that came while their tasks ran: if they are lost, it is not done.
    pub kept: u64,
    /// What wake-ups would make of it that the recording may have lost: its tasks mostly wake others when they end, and did not always.
    pub lost: u64,
    /// The tasks whose work that is, most of it first.
    pub tasks: Vec<String>,
}

/// A task with less, in parts of 100 000 of the recorded work, is not named.
pub(crate) const NAMED: u64 = 1_000;

fn work_ns(task: &TaskSpec) -> u64 {
    task.ops.iter().map(|op| if let Op::Run { work_ns, .. } = op { *work_ns } else { 0 }).sum()
}

/// The semaphore at which a task is woken by others. The wait at the end of a program is for nothing that was recorded.
fn waits_at(task: &TaskSpec) -> Option<u32> {
    let ops = task.ops.strip_suffix(&[Op::Exit]).unwrap_or(&task.ops);
    let ops = ops.split_last().map_or(ops, |(_, before)| before);
    ops.iter().find_map(|op| if let Op::SemWait { sem } = op { Some(*sem) } else { None })
}

/// How often `task` ran until it slept, how often of these it woke `sem`, and with how many wake-ups.
fn wakes(task: &TaskSpec, sem: u32) -> (u64, u64, u64) {
    let (mut ran, mut woke, mut posts) = (0, 0, 0);
    let (mut runs, mut here) = (false, 0);
    for op in &task.ops {
        match op {
            Op::Run { .. } => runs = true,
            Op::SemPost { sem: of } if *of == sem => here += 1,
            Op::Sleep { .. } | Op::Timer { .. } | Op::SemWait { .. } | Op::Suspend { .. } | Op::Io { .. } => {
                ran += u64::from(runs || here > 0);
                woke += u64::from(here > 0);
                posts += here;
                (runs, here) = (false, 0);
            }
            _ => {}
        }
    }
    (ran, woke, posts)
}

/// The program of a workload whose semaphores that `loses` takes lose what is posted while nobody waits, and how many there are.
pub(crate) fn losing(workload: &Workload, loses: impl Fn(u32) -> bool) -> Workload {
    let mut losing = workload.clone();
    losing.nr_conds += workload.semaphores.len() as u32;
    for op in losing.tasks.iter_mut().flat_map(|task| &mut task.ops) {
        match *op {
            Op::SemWait { sem } if loses(sem) => *op = Op::Suspend { cond: workload.nr_conds + sem },
            Op::SemPost { sem } if loses(sem) => *op = Op::Resume { cond: workload.nr_conds + sem },
            _ => {}
        }
    }
    losing
}

/// What is unsure of `tasks` in pairs of runs: under their own policy, and under the changed one. `known`: of which tasks the recording
/// shows it.
pub(crate) fn unsure<'a>(
    tasks: &[TaskSpec],
    known: &[bool],
    pairs: impl Iterator<Item = (&'a Measured, &'a Measured)> + Clone,
) -> Unsure {
    let all: u128 = tasks.iter().map(|task| u128::from(work_ns(task))).sum();
    if all == 0 {
        return Unsure::default();
    }
    let mut wakeups: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (own, changed) in pairs {
        for (nth, run) in [own, changed].into_iter().enumerate() {
            for task in run.tasks.values() {
                wakeups.entry(task.name.as_str()).or_default()[nth] += task.wakeups;
            }
        }
    }
    let share = |work: u64, part: u64, of: u64| {
        u64::try_from(u128::from(work) * u128::from(part) * 100_000 / (u128::from(of.max(1)) * all)).unwrap_or(u64::MAX)
    };
    let mut found: Vec<(u64, u64, &str)> = Vec::new();
    for (task, _) in tasks.iter().zip(known).filter(|(_, known)| !**known) {
        let Some(sem) = waits_at(task) else { continue };
        let [own, changed] = wakeups.get(task.name.as_str()).copied().unwrap_or_default();
        // One that loses a wake-up has slept before the one after the next.
        let kept = share(work_ns(task), own.saturating_sub(changed).min(own / 2), own);
        let (mut missing, mut posts) = (0, 0);
        for (ran, woke, all_posts) in tasks.iter().map(|other| wakes(other, sem)) {
            posts += all_posts;
            // One that wakes it now and then had no reason to.
            missing += if 2 * woke >= ran { ran - woke } else { 0 };
        }
        found.push((kept, share(work_ns(task), missing, posts), task.name.as_str()));
    }
    found.sort_by_key(|(kept, lost, _)| u64::MAX - (kept + lost));
    Unsure {
        kept: found.iter().map(|(kept, ..)| kept).sum(),
        lost: found.iter().map(|(_, lost, _)| lost).sum(),
        tasks: found
            .iter()
            .filter(|(kept, lost, _)| kept + lost >= NAMED)
            .map(|(.., name)| (*name).to_owned())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::TaskTimes;

    fn task(name: &str, ops: Vec<Op>) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            initial: true,
            delay_ns: 0,
            policy: opplab_model::workload::SchedPolicy::default(),
            class: String::new(),
            cpus: None,
            spawn_cpu: None,
            seasoned: false,
            workqueue: None,
            assumed_bandwidth: false,
            ops,
            loop_slots: 0,
            nr_own_timers: 1,
            phases: Vec::new(),
        }
    }

    fn run(wakeups: u64) -> Measured {
        let woken = TaskTimes { name: "woken".into(), class_ns: Vec::new(), wakeups };
        Measured { tasks: [(1, woken)].into(), ..Measured::default() }
    }

    /// Goal: both shares are of the woken task's work. Method: ten wake-ups of which three are missing, and a waker that woke nobody twice.
    #[test]
    fn missing_wake_ups_are_shares_of_the_work() {
        let work = Op::Run { work_ns: 1_000, fixed: 0 };
        let wakes: Vec<Op> = (0..10).flat_map(|_| [work, Op::SemPost { sem: 1 }, Op::Sleep { ns: 1 }]).collect();
        let idles: Vec<Op> = (0..2).flat_map(|_| [work, Op::Sleep { ns: 1 }]).collect();
        let waker = task("waker", [wakes, idles, vec![Op::SemWait { sem: 0 }, Op::Exit]].concat());
        let waits: Vec<Op> = (0..10).flat_map(|_| [Op::SemWait { sem: 1 }, work]).collect();
        let woken = task("woken", [waits, vec![Op::SemWait { sem: 1 }, Op::Exit]].concat());
        let tasks = [waker, woken];
        let of = |own: u64, changed: u64| unsure(&tasks, &[false; 2], [(&run(own), &run(changed))].into_iter());
        // 10 of 22 us are the woken task's.
        let lost = 100_000 * 10 / 22 * 2 / 10;
        let check = |own: u64, changed: u64, kept: u64| {
            let found = of(own, changed);
            assert_eq!(found.kept, kept, "{own} {changed}");
            assert!(found.lost.abs_diff(lost) <= 1, "{} {lost}", found.lost);
            assert_eq!(found.tasks, ["woken"]);
        };
        check(10, 10, 0);
        check(10, 11, 0);
        check(10, 7, 100_000 * 10 * 3 / (22 * 10));
        // Of a task that never sleeps each second one is lost.
        check(10, 0, 100_000 * 10 * 5 / (22 * 10));
    }
}
