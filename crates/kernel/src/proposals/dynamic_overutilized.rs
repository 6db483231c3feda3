//! A threshold of the overutilised state that follows what can happen until the next tick, instead of 80 %.

use super::proposal::{ProposalEntry, Within};
use super::response_time::approximate_util_avg;

/// Whether a CPU of `capacity` would be full if what uses `util` of it ran until the next tick. A CPU of less capacity is slower,
/// so that the signal rises more slowly there.
pub fn is_full_at_next_tick(util: u64, capacity: u64, tick_us: u64) -> bool {
    approximate_util_avg(util, tick_us * capacity / 1024) > capacity
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "dynamic-overutilized",
    what: "A CPU is overutilised if its capacity would be used up by running until the next tick, not at 80 % of it.",
    thread: "Q. Yousef, sched/fair/schedutil: Remove hardcoded margins, 2023-12, \
             https://lore.kernel.org/lkml/20231208002342.367117-1-qyousef@layalina.io/; OSPM 2025, \
             https://lwn.net/Articles/1022054/",
    differs: "Only the overutilised state; whether a task fits a CPU stays at 80 %.",
    params: &[],
    excludes: &[],
    needs: None,
    within: Some(Within::EnergyAware),
    apply: |proposals, _| proposals.overutilized_by_next_tick = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Small CPUs are full much earlier than at 80 %, the biggest one later.
    #[test]
    fn small_cpus_fill_first() {
        let threshold = |capacity| (0..=1024).find(|&util| is_full_at_next_tick(util, capacity, 4000));
        assert_eq!(threshold(1024), None);
        let little = threshold(160).expect("there is one");
        assert!((128..160).contains(&little), "{little}");
        assert!(threshold(800).is_some_and(|util| util > 640));
    }
}
