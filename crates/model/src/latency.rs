//! How long tasks of a run wait: from a timer's due time, or else from being woken, to running; and from a timer to the end of the
//! activation that it started; of one that was due and had not ended, to the end of the run.

use std::collections::BTreeMap;

use opplab_stats::quantile::nearest_rank;

use crate::event::{Event, IDLE_TASK, Sink, TaskIdx};

/// The percentiles that are reported, in percent; 100 is the longest.
pub const PERCENTILES: [u32; 5] = [50, 90, 95, 99, 100];

/// Waits, collected from the events of a run.
#[derive(Debug, Default)]
pub struct Latencies {
    /// What was before does not count, ns.
    pub from_ns: u64,
    woken: BTreeMap<TaskIdx, u64>,
    /// Tasks that timers wake, and since when these were due.
    due: BTreeMap<TaskIdx, u64>,
    wakeup_ns: Vec<(TaskIdx, u64)>,
    response_ns: Vec<(TaskIdx, u64)>,
}

impl Latencies {
    /// Collects what begins at `from_ns` or later.
    pub fn from(from_ns: u64) -> Self {
        Self { from_ns, ..Self::default() }
    }

    /// To running: from the due time of the timer that woke the task, as rt-app's `wu_lat` is, and of other wake-ups
    /// from `sched_waking`. And from a loop's timer to its end: each a value for each of
    /// [`PERCENTILES`]; `None` if there was nothing.
    ///
    /// Tasks of `not_own`, in ascending order, do not count.
    pub fn percentiles(&self, not_own: &[TaskIdx]) -> (Option<[u64; 5]>, Option<[u64; 5]>) {
        let own = |task: &TaskIdx| not_own.binary_search(task).is_err();
        let of = |waits: &[(TaskIdx, u64)]| {
            percentiles(waits.iter().filter(|(task, _)| own(task)).map(|&(_, wait_ns)| wait_ns).collect())
        };
        (of(&self.wakeup_ns), of(&self.response_ns))
    }

    /// The waits themselves, in the order in which they ended.
    pub fn waits(&self) -> [&[(TaskIdx, u64)]; 2] {
        [&self.wakeup_ns, &self.response_ns]
    }
}

/// The value that so many percent do not exceed (nearest rank), for each of [`PERCENTILES`].
pub fn percentiles(mut values: Vec<u64>) -> Option<[u64; 5]> {
    values.sort_unstable();
    let longest = *values.last()?;
    Some(PERCENTILES.map(|percent| nearest_rank(&values, percent as usize).unwrap_or(longest)))
}

impl Sink for Latencies {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedWaking { task, .. } | Event::SchedWakeupNew { task, .. } => {
                let woken_ns = self.due.remove(&task).unwrap_or(now_ns);
                if now_ns >= self.from_ns {
                    self.woken.entry(task).or_insert(woken_ns);
                }
            }
            Event::SchedSwitch { next, .. } if next != IDLE_TASK => {
                if let Some(woken_ns) = self.woken.remove(&next) {
                    self.wakeup_ns.push((next, now_ns - woken_ns));
                }
            }
            Event::Activation { task, timed: true, response_ns: response_ns @ 1.., .. } if now_ns >= self.from_ns => {
                self.response_ns.push((task, response_ns));
            }
            _ => {}
        }
    }

    fn timer_due(&mut self, task: TaskIdx, due_ns: u64) {
        self.due.insert(task, due_ns);
    }

    fn activation_left(&mut self, _now_ns: u64, task: TaskIdx, _slack_ns: i64, response_ns: u64) {
        if response_ns > 0 {
            self.response_ns.push((task, response_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskState;

    #[test]
    fn a_wait_for_a_timer_begins_when_it_is_due() {
        let mut sink = Latencies::from(0);
        sink.timer_due(1, 100);
        sink.event(400, &Event::SchedWaking { cpu: 0, task: 1, target_cpu: 0 });
        sink.event(410, &Event::SchedSwitch { cpu: 0, prev: IDLE_TASK, prev_state: TaskState::Running, next: 1 });
        assert_eq!(sink.waits()[0], [(1, 310)]);
    }

    #[test]
    fn a_wait_ends_when_the_task_runs() {
        let mut sink = Latencies::from(100);
        let run = |next| Event::SchedSwitch { cpu: 0, prev: IDLE_TASK, prev_state: TaskState::Running, next };
        let wake = |task| Event::SchedWaking { cpu: 0, task, target_cpu: 0 };
        sink.event(50, &wake(1));
        sink.event(60, &run(1));
        sink.event(200, &wake(1));
        sink.event(230, &run(IDLE_TASK));
        sink.event(240, &run(1));
        sink.event(300, &wake(2));
        sink.event(310, &run(2));
        let activation = Event::Activation {
            task: 1,
            phase: 0,
            timed: true,
            period_ns: 9,
            run_ns: 5,
            wu_lat_ns: 2,
            response_ns: 7,
            slack_ns: 1,
            to_timer_ns: 1,
        };
        sink.event(400, &activation);
        assert_eq!(sink.percentiles(&[]), (Some([10, 40, 40, 40, 40]), Some([7; 5])));
        assert_eq!(sink.percentiles(&[1]), (Some([10; 5]), None));
        assert_eq!(Latencies::from(0).percentiles(&[]), (None, None));
    }
}
