//! The overutilised state is cleared late, so that short gaps do not switch energy-aware scheduling on and off.

use super::proposal::{ProposalEntry, ProposalParam, Within};

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "lingering-overutilized",
    what: "The root domain stays overutilised for some ticks after the last time that a CPU was.",
    thread: "C. Loehle, Rethinking overutilized, OSPM 2025, https://lwn.net/Articles/1022054/",
    differs: "The talk does not name the place; here a balance pass that would clear the state checks the time.",
    params: &[ProposalParam { name: "ticks", what: "how long it stays", min: 1, max: 100, default: 1 }],
    excludes: &[],
    needs: None,
    within: Some(Within::EnergyAware),
    apply: |proposals, values| proposals.overutilized_linger_ticks = values.get("ticks"),
};
