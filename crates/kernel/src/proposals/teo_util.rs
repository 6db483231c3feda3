//! teo looks at the CPU's utilisation, as it did from v6.3 to v6.10, in any kernel.

use super::proposal::{ProposalEntry, Within};

/// Whether a CPU is in use so much that shallow states are better (drivers/cpuidle/governors/teo.c:teo_cpu_is_utilized(),
/// v6.3): more than 1/64 of its capacity.
pub fn teo_cpu_is_utilized(util: u64, capacity: u64) -> bool {
    util > capacity >> 6
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "teo-util",
    what: "teo takes a shallower state on a CPU that uses more than 1/64 of its capacity.",
    thread: "K. Puchalski, cpuidle: teo: Introduce util-awareness, 2023-01, \
             https://lore.kernel.org/lkml/20230105145159.1089531-3-kajetan.puchalski@arm.com/; link from memory; merged in v6.3, taken back in v6.11",
    differs: "",
    params: &[],
    excludes: &[],
    needs: None,
    within: Some(Within::IdleGovernor("teo")),
    apply: |proposals, _| proposals.teo_util = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_64th() {
        assert!(!teo_cpu_is_utilized(16, 1024));
        assert!(teo_cpu_is_utilized(17, 1024));
        assert!(teo_cpu_is_utilized(6, 383));
    }
}
