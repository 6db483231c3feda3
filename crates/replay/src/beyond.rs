//! What a recording does not show: what its tasks do after what is recorded of them, where a changed policy does that sooner.
//!
//! ```text
//!   recorded   ############################|      a task that had not ended when the trace did
//!   changed    ##############              |      the same work on a faster clock
//!                            ^ from here on nothing of it is recorded
//! ```

use std::collections::BTreeMap;

use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::workload::{Op, TaskSpec};

use crate::events::{Events, Left, What};

/// What a changed policy leaves no recorded work for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beyond {
    /// The work that tasks would do more at their own pace, in parts of 100 000 of what is recorded.
    pub share: u64,
    /// The tasks that would do it, most of it first.
    pub tasks: Vec<String>,
}

/// From when to when a task of the workload had recorded work, ns after the start of a run; `None` if it never ran.
pub type Span = Option<(u64, u64)>;

/// A task whose recorded work ends sooner by less than one in so many parts of the recording does not: its last activation is shorter.
const SOONER: u64 = 50;
/// A task with less of what is missing, in parts of 100 000 of the recorded work, is not named.
const NAMED: u64 = 1_000;

/// The [`Span`] of each of `tasks` in the events of a run.
pub(crate) fn spans(events: &Events, tasks: &[TaskSpec]) -> Vec<Span> {
    // When it came, and since when it sleeps.
    let mut seen: BTreeMap<TaskIdx, (u64, Option<u64>)> = BTreeMap::new();
    for ev in &events.list {
        let mut awake = |task: TaskIdx| seen.entry(task).or_insert((ev.time_ns, None)).1 = None;
        match ev.what {
            What::Switch { prev, left, next } => {
                if next != IDLE_TASK {
                    awake(next);
                }
                if prev != IDLE_TASK && left != Left::Runnable {
                    seen.entry(prev).or_insert((0, None)).1 = Some(ev.time_ns);
                }
            }
            What::Waking { task } | What::WakeupNew { task, .. } => awake(task),
            _ => {}
        }
    }
    let by_name: BTreeMap<&str, (u64, u64)> = seen
        .into_iter()
        .map(|(task, (from_ns, asleep_ns))| (events.name(task), (from_ns, asleep_ns.unwrap_or(events.duration_ns))))
        .collect();
    tasks.iter().map(|task| by_name.get(task.name.as_str()).copied()).collect()
}

/// Whether a recovered task had not ended when the trace did: it waits for ever then.
fn goes_on(task: &TaskSpec) -> bool {
    matches!(task.ops[..], [.., Op::SemWait { .. } | Op::Suspend { .. }, Op::Exit])
}

fn work_ns(task: &TaskSpec) -> u64 {
    let of = |op: &Op| if let Op::Run { work_ns, .. } = op { *work_ns } else { 0 };
    task.ops.iter().map(of).sum()
}

/// What is beyond the recording of `tasks`, `duration_ns` long, in pairs of runs: under its own policy, and under the changed one.
pub(crate) fn beyond<'a>(
    tasks: &[TaskSpec],
    duration_ns: u64,
    pairs: impl Iterator<Item = (&'a [Span], &'a [Span])> + Clone,
) -> Beyond {
    let all: u128 = tasks.iter().map(|task| u128::from(work_ns(task))).sum();
    let runs = pairs.clone().count() as u128;
    if all == 0 || runs == 0 {
        return Beyond::default();
    }
    let share = |nth: usize, task: &TaskSpec| {
        let work = u128::from(work_ns(task));
        let more = |(own, changed): (&[Span], &[Span])| {
            let ((_, until_ns), (from_ns, to_ns)) = (own.get(nth).copied()??, changed.get(nth).copied()??);
            let missing_ns = until_ns.checked_sub(to_ns).filter(|&ns| ns > duration_ns / SOONER)?;
            Some(work * u128::from(missing_ns) / u128::from((to_ns - from_ns).max(1)))
        };
        u64::try_from(pairs.clone().filter_map(more).sum::<u128>() * 100_000 / (all * runs)).unwrap_or(u64::MAX)
    };
    let going_on = tasks.iter().enumerate().filter(|(_, task)| goes_on(task));
    let mut shares: Vec<(u64, &str)> = going_on.map(|(nth, task)| (share(nth, task), task.name.as_str())).collect();
    shares.sort_by_key(|&(share, _)| u64::MAX - share);
    Beyond {
        share: shares.iter().map(|(share, _)| share).fold(0, |sum, share| sum.saturating_add(*share)),
        tasks: shares.iter().filter(|(share, _)| *share >= NAMED).map(|(_, name)| (*name).to_owned()).collect(),
    }
}
