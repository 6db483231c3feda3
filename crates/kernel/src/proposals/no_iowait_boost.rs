//! No boost of the clock for tasks that wait for I/O.

use super::proposal::{ProposalEntry, ProposalParam};

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "no-iowait-boost",
    what: "Tasks that wake from waiting for I/O do not raise the clock.",
    thread: "C. Loehle, cpufreq: cpuidle: Remove iowait behaviour, 2024-09, \
             https://lore.kernel.org/lkml/20240905092645.2885200-1-christian.loehle@arm.com/",
    differs: "Idle governors keep theirs, which is a gate (menu).",
    params: &[
        ProposalParam { name: "governor", what: "schedutil's boost is off: 0 or 1", min: 0, max: 1, default: 1 },
        ProposalParam {
            name: "intel",
            what: "intel_pstate's boosts are off, of HWP too: 0 or 1",
            min: 0,
            max: 1,
            default: 1,
        },
    ],
    excludes: &["task-iowait-boost"],
    needs: None,
    within: None,
    apply: |proposals, values| {
        proposals.sugov_iowait_boost = values.get("governor") == 0;
        proposals.intel_iowait_boost = values.get("intel") == 0;
    },
};
