//! How late the events of a trace are: a CPU may be stopped, by the host of a virtual machine or an emulator, between the reading
//! of its clock and the event that records what was done at that time.
//!
//! One stretch of code shows it. The scheduler writes `sched_waking` and, with interrupts off and some microseconds later,
//! `sched_wakeup` (core.c:try_to_wake_up()); what that takes longer than usual is a stop. Other passes through the scheduler are
//! as long, and are stopped as often.

use crate::decode::{SchedEvent, SchedSink};
use opplab_trace::Event;

/// Of fewer wake-ups the slowest hundredth is no measure.
const SPANS_MIN: usize = 100;

/// The first so many are as good as all.
const SPANS_MAX: usize = 1 << 20;

/// Collects wake-ups that begin and end on one CPU; feed it with events in time order as a [`SchedSink`] or by its methods.
#[derive(Clone, Debug, Default)]
pub struct LateFinder {
    /// By CPU: the wake-up that has begun there, and when.
    begun: Vec<Option<(i32, u64)>>,
    spans_ns: Vec<u64>,
}

impl LateFinder {
    /// `sched_waking` of `pid`, written by `by_cpu`.
    pub fn waking(&mut self, time_ns: u64, by_cpu: u32, pid: i32) {
        let cpu = (by_cpu & 0xffff) as usize;
        if self.begun.len() <= cpu {
            self.begun.resize(cpu + 1, None);
        }
        self.begun[cpu] = Some((pid, time_ns));
    }

    /// `sched_wakeup` of `pid`, written by `by_cpu`.
    pub fn wakeup(&mut self, time_ns: u64, by_cpu: u32, pid: i32) {
        let begun = self.begun.get_mut((by_cpu & 0xffff) as usize).and_then(Option::take);
        if let Some((_, since_ns)) = begun.filter(|(begun, _)| *begun == pid && self.spans_ns.len() < SPANS_MAX) {
            self.spans_ns.push(time_ns.saturating_sub(since_ns));
        }
    }

    /// By how much one event in a hundred is later than usual, ns; 0 if there were not enough wake-ups.
    pub fn late_ns(&self) -> u64 {
        let mut spans = self.spans_ns.clone();
        if spans.len() < SPANS_MIN {
            return 0;
        }
        spans.sort_unstable();
        spans[spans.len() * 99 / 100] - spans[spans.len() / 2]
    }
}

impl SchedSink for LateFinder {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        match *what {
            SchedEvent::Waking { task } => self.waking(event.time_ns, event.cpu, task.pid),
            SchedEvent::Wakeup { task, new: false, .. } => self.wakeup(event.time_ns, event.cpu, task.pid),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wake-ups of 20 us; one in `slow` takes 3 ms.
    fn late_ns(n: u64, slow: u64) -> u64 {
        let mut finder = LateFinder::default();
        for nth in 0..n {
            let begin_ns = nth * 10_000_000;
            finder.waking(begin_ns, 1, 7);
            // Another CPU's is none of this one.
            finder.waking(begin_ns + 1_000, 0, 8);
            let takes_ns = if nth % slow == 0 { 3_000_000 } else { 20_000 };
            finder.wakeup(begin_ns + takes_ns, 1, 7);
            // It began on another CPU.
            finder.wakeup(begin_ns + 5_000_000, 1, 8);
        }
        finder.late_ns()
    }

    #[test]
    fn slow_wake_ups_tell_how_late_events_are() {
        assert_eq!(late_ns(300, 1000), 0);
        assert_eq!(late_ns(300, 20), 2_980_000);
        assert_eq!(late_ns(90, 20), 0, "too few");
    }
}
