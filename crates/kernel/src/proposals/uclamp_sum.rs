//! Clamps of tasks that add up over a queue, instead of the largest of all.

use super::proposal::{Need, ProposalEntry};
use crate::sched::fitness::Clamps;

/// What the clamps of a task add to its queue's utilisation (or take from it): its clamped utilisation less its own.
pub fn util_bias(util: u64, clamps: Clamps) -> i64 {
    util.clamp(clamps.min.min(clamps.max), clamps.max) as i64 - util as i64
}

/// A utilisation with the biases of the queue's tasks.
pub fn biased(util: u64, bias: i64) -> u64 {
    util.saturating_add_signed(bias)
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "uclamp-sum",
    what: "Utilisation clamps change each task's utilisation, and those add up, instead of the largest clamp of a queue.",
    thread: "H. Xia, uclamp sum aggregation, v2 2025-03, \
             https://lore.kernel.org/all/cover.1741091349.git.hongyan.xia2@arm.com/",
    differs: "Biases are those of queued tasks; that of a task that sleeps is gone at once, not decayed.",
    params: &[],
    excludes: &[],
    needs: Some(Need::Clamps),
    within: None,
    apply: |proposals, _| proposals.uclamp_sum = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_add_up() {
        let boosted = util_bias(100, Clamps { min: 300, ..Clamps::NONE });
        let capped = util_bias(1000, Clamps { max: 200, ..Clamps::NONE });
        assert_eq!((boosted, capped, util_bias(500, Clamps::NONE)), (200, -800, 0));
        assert_eq!(biased(1100, boosted + capped), 500);
        assert_eq!(biased(100, capped), 0);
    }
}
