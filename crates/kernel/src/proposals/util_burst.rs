//! A size of tasks that does not count waiting for a CPU as sleep.

use super::proposal::{Need, ProposalEntry};
use super::response_time::approximate_util_avg;
use crate::pelt::{HalfLife32, decay_load};

/// The signal of one task: time that it ran while queued is accounted at once when it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UtilBurst {
    util: u64,
    since_us: u64,
}

impl UtilBurst {
    /// The task leaves its queue at `now_us`, having run for `run_us` (of a CPU at full speed) since it came at `came_us`.
    pub fn dequeue(&mut self, came_us: u64, now_us: u64, run_us: u64) -> u64 {
        let slept_us = came_us.saturating_sub(self.since_us);
        let left = decay_load::<HalfLife32>(self.util, slept_us / 1024);
        self.util = approximate_util_avg(left, run_us);
        self.since_us = now_us;
        self.util
    }
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "util-burst",
    what: "The estimate of a task is that of the time it ran and slept; time that it waited for a CPU is left out.",
    thread: "P. Gondois, Improving energy-aware scheduling through better utilization signals, OSPM 2025, \
             https://lwn.net/Articles/1022054/",
    differs: "The talk describes the signal, not who reads it; here it is what util_est takes at a dequeue where it is larger. \
              Running counts at the speed that the CPU has at the dequeue. Kernels with one estimate a task (v6.8).",
    params: &[],
    excludes: &[],
    needs: Some(Need::OneEstimate),
    within: None,
    apply: |proposals, _| proposals.util_burst = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Two that share a CPU half and half count as if each had it alone.
    #[test]
    fn waiting_is_no_sleep() {
        let (mut shared, mut alone) = (UtilBurst::default(), UtilBurst::default());
        for step in 0..20u64 {
            let came = step * 40_960;
            let with_waiting = shared.dequeue(came, came + 20_480, 10_240);
            assert_eq!(alone.dequeue(step * 30_720, step * 30_720 + 10_240, 10_240), with_waiting);
        }
    }
}
