//! The governors that do not look at the load: performance, powersave and userspace
//! (drivers/cpufreq/cpufreq_performance.c, cpufreq_powersave.c, cpufreq_userspace.c, v6.12).
//!
//! They ask once when the limits change; the hardware holds a request until the next one. With the drivers
//! intel_pstate and amd-pstate in active mode, "performance" and "powersave" are the driver's own policies and not
//! these: see [`crate::cpufreq::intel_pstate`].

use crate::cpufreq::freq_table::{FreqLimits, Relation};
use crate::cpufreq::request::FreqRequest;

/// performance: always the highest frequency (cpufreq_performance.c:cpufreq_gov_performance_limits(), v6.12).
pub fn performance_limits(limits: FreqLimits) -> FreqRequest {
    FreqRequest { target_khz: limits.max_khz, relation: Relation::H, efficient: false }
}

/// powersave: always the lowest frequency (cpufreq_powersave.c:cpufreq_gov_powersave_limits(), v6.12).
pub fn powersave_limits(limits: FreqLimits) -> FreqRequest {
    FreqRequest { target_khz: limits.min_khz, relation: Relation::L, efficient: false }
}

/// userspace: a frequency that somebody writes to `scaling_setspeed` (`struct userspace_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Userspace {
    /// The frequency that was written last, kHz; kept while the limits forbid it.
    pub setspeed_khz: u32,
}

impl Userspace {
    /// Starts with the present frequency (cpufreq_userspace.c:cpufreq_userspace_policy_start(), v6.12).
    pub const fn start(cur_khz: u32) -> Self {
        Self { setspeed_khz: cur_khz }
    }

    /// Somebody writes `freq_khz` (cpufreq_userspace.c:cpufreq_set(), v6.12).
    pub fn set(&mut self, freq_khz: u32) -> FreqRequest {
        self.setspeed_khz = freq_khz;
        FreqRequest { target_khz: freq_khz, relation: Relation::L, efficient: false }
    }

    /// The limits changed: back to the written frequency as far as they allow
    /// (cpufreq_userspace.c:cpufreq_userspace_policy_limits(), v6.12).
    pub fn limits(&self, limits: FreqLimits) -> FreqRequest {
        if limits.max_khz < self.setspeed_khz {
            performance_limits(limits)
        } else if limits.min_khz > self.setspeed_khz {
            powersave_limits(limits)
        } else {
            FreqRequest { target_khz: self.setspeed_khz, relation: Relation::L, efficient: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::freq_table::FreqTable;

    #[test]
    fn requests_within_limits() {
        let table = FreqTable::from_khz(&[1_000, 1_500, 2_000]).expect("a valid table");
        let limits = FreqLimits { min_khz: 1_200, max_khz: 1_900 };
        let khz = |request: FreqRequest| request.resolve(Some(&table), limits);
        assert_eq!(khz(performance_limits(limits)), 1_500);
        assert_eq!(khz(powersave_limits(limits)), 1_500);
        let mut userspace = Userspace::start(1_000);
        assert_eq!(userspace.limits(limits).target_khz, 1_200);
        assert_eq!(userspace.set(1_600).target_khz, 1_600);
        assert_eq!(userspace.limits(limits).target_khz, 1_600);
        userspace.set(2_000);
        assert_eq!(userspace.limits(limits).target_khz, 1_900);
    }
}
