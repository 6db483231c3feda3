//! A task that has a CPU of the highest capacity for itself does not end energy-aware scheduling for everybody.

use super::proposal::{ProposalEntry, Within};

/// Whether the CPU is left out of what makes the root domain overutilised: one task at most, the highest capacity there is, and
/// nothing that takes capacity away.
pub fn is_lone(nr_running: u32, capacity: u64, capacity_of: u64, max_capacity: u64) -> bool {
    nr_running <= 1 && capacity == max_capacity && capacity_of == capacity
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "lone-task",
    what: "A CPU of the highest capacity with one task at most is never overutilised.",
    thread: "C. Loehle, 2025-12, \
             https://patchew.org/linux/20251230093037.427141-1-christian.loehle@arm.com",
    differs: "",
    params: &[],
    excludes: &[],
    needs: None,
    within: Some(Within::EnergyAware),
    apply: |proposals, _| proposals.lone_task = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_alone_on_the_biggest() {
        assert!(is_lone(1, 1024, 1024, 1024));
        assert!(!is_lone(2, 1024, 1024, 1024));
        assert!(!is_lone(1, 905, 905, 1024));
        assert!(!is_lone(1, 1024, 1000, 1024));
    }
}
