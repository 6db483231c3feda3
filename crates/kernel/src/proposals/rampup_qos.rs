//! Estimates that grow while a task runs, faster than time.

use super::proposal::{Need, ProposalEntry, ProposalParam};
use super::response_time::approximate_util_avg;

/// The estimate of a task that has run for `delta_us` since it was last looked at; only of one that is busier than when it
/// last slept.
pub fn grown_estimate(estimate: u32, util_avg: u64, util_at_sleep: u64, delta_us: u64, multiplier: u32) -> u32 {
    if multiplier == 0 {
        return 0;
    }
    if util_avg <= util_at_sleep {
        return estimate;
    }
    approximate_util_avg(estimate.into(), delta_us * u64::from(multiplier)) as u32
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "rampup-qos",
    what: "The estimate of a task that gets busier grows while it runs, several times as fast as its utilisation.",
    thread: "Q. Yousef, sched/qos: Add rampup multiplier QoS, 2024-08, v2 2026-05, \
             https://lore.kernel.org/lkml/20240820163512.1096301-12-qyousef@layalina.io/",
    differs: "One multiplier for all tasks, as the thread's default has it, at ticks; kernels with one estimate a task (v6.8).",
    params: &[ProposalParam {
        name: "multiplier",
        what: "how many times as fast as its utilisation; 0: tasks have no estimate",
        min: 0,
        max: 16,
        default: 2,
    }],
    excludes: &[],
    needs: Some(Need::OneEstimate),
    within: None,
    apply: |proposals, values| proposals.rampup_multiplier = Some(values.get("multiplier")),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_gets_busier_grows() {
        assert_eq!(grown_estimate(100, 300, 300, 4096, 4), 100);
        assert_eq!(grown_estimate(0, 301, 300, 8192, 4), 512);
        assert_eq!(grown_estimate(400, 500, 300, 8192, 0), 0);
    }
}
