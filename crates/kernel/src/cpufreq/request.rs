//! What a governor asks of a cpufreq driver.
//!
//! Not here: carrying a request out; that is the simulator's, a trace's or the host's business.

use super::freq_table::{FreqLimits, FreqTable, Relation, resolve_freq};

/// The arguments of `__cpufreq_driver_target()`: a frequency and how to round it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqRequest {
    /// The wanted frequency, kHz.
    pub target_khz: u32,
    /// Which table entry may stand for it.
    pub relation: Relation,
    /// Pass over entries marked inefficient (`CPUFREQ_RELATION_E`).
    pub efficient: bool,
}

impl FreqRequest {
    /// A request that passes over inefficient entries, as all in-tree governors make them.
    pub const fn efficient(target_khz: u32, relation: Relation) -> Self {
        Self { target_khz, relation, efficient: true }
    }

    /// The frequency that the driver sets: within the limits, and from the table if there is one.
    pub fn resolve(&self, table: Option<&FreqTable>, limits: FreqLimits) -> u32 {
        resolve_freq(table, self.target_khz, limits, self.relation, self.efficient)
    }

    /// What brings `cur_khz` back within changed limits, if it is outside
    /// (include/linux/cpufreq.h:cpufreq_policy_apply_limits(), v6.12).
    pub fn apply_limits(cur_khz: u32, limits: FreqLimits) -> Option<Self> {
        if limits.max_khz < cur_khz {
            Some(Self::efficient(limits.max_khz, Relation::H))
        } else if limits.min_khz > cur_khz {
            Some(Self::efficient(limits.min_khz, Relation::L))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_pull_the_frequency_inside() {
        let limits = FreqLimits { min_khz: 1_000, max_khz: 2_000 };
        assert_eq!(FreqRequest::apply_limits(1_500, limits), None);
        assert_eq!(FreqRequest::apply_limits(2_500, limits), Some(FreqRequest::efficient(2_000, Relation::H)));
        assert_eq!(FreqRequest::apply_limits(500, limits), Some(FreqRequest::efficient(1_000, Relation::L)));
    }
}
