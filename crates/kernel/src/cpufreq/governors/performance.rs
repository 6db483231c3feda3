//! performance: always the highest frequency (drivers/cpufreq/cpufreq_performance.c, v6.12).
//!
//! The driver's own policy of this name, in the active modes of intel_pstate and amd-pstate, is another:
//! [`crate::cpufreq::intel_pstate`].

use crate::cpufreq::fixed::Fixed;
use crate::cpufreq::freq_table::{FreqLimits, Relation};
use crate::cpufreq::governor::{GovernorEntry, Worker};
use crate::cpufreq::request::FreqRequest;

/// The governor.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "performance",
    what: "the highest frequency that the limits allow",
    tunables: &[],
    worker: Worker::Nobody,
    energy_aware: false,
    new: |setup| Ok(Fixed::start(&GOVERNOR, setup, |limits, _| performance_limits(limits), 0)),
};

/// cpufreq_performance.c:cpufreq_gov_performance_limits(), v6.12.
pub fn performance_limits(limits: FreqLimits) -> FreqRequest {
    FreqRequest { target_khz: limits.max_khz, relation: Relation::H, efficient: false }
}
