//! A shorter half-life of load tracking, chosen at boot.

use super::proposal::{ProposalEntry, ProposalParam};

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "pelt-multiplier",
    what: "Load tracking forgets and learns this many times as fast.",
    thread: "Q. Yousef, sched/pelt: Introduce PELT multiplier, 2024-08, \
             https://lore.kernel.org/lkml/20240820163512.1096301-1-qyousef@layalina.io/; Android's sysctl_sched_pelt_multiplier",
    differs: "The half-life is that of the policy, 32 ms, over this; 3 is 4, as there are no tables between.",
    params: &[ProposalParam {
        name: "factor",
        what: "1, 2 or 4: a half-life of 32, 16 or 8 ms",
        min: 1,
        max: 4,
        default: 2,
    }],
    excludes: &[],
    needs: None,
    within: None,
    apply: |proposals, values| proposals.pelt_multiplier = [1, 2, 4, 4][values.get("factor") as usize - 1],
};
