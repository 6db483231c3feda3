//! powersave: always the lowest frequency (drivers/cpufreq/cpufreq_powersave.c, v6.12).

use crate::cpufreq::fixed::Fixed;
use crate::cpufreq::freq_table::{FreqLimits, Relation};
use crate::cpufreq::governor::{GovernorEntry, Worker};
use crate::cpufreq::request::FreqRequest;

/// The governor.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "powersave",
    what: "the lowest frequency that the limits allow",
    tunables: &[],
    worker: Worker::Nobody,
    energy_aware: false,
    new: |setup| Ok(Fixed::start(&GOVERNOR, setup, |limits, _| powersave_limits(limits), 0)),
};

/// cpufreq_powersave.c:cpufreq_gov_powersave_limits(), v6.12.
pub fn powersave_limits(limits: FreqLimits) -> FreqRequest {
    FreqRequest { target_khz: limits.min_khz, relation: Relation::L, efficient: false }
}
