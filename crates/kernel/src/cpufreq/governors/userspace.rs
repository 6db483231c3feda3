//! userspace: a frequency that somebody writes (drivers/cpufreq/cpufreq_userspace.c, v6.12).

use super::performance::performance_limits;
use super::powersave::powersave_limits;
use crate::cpufreq::fixed::Fixed;
use crate::cpufreq::freq_table::{FreqLimits, Relation};
use crate::cpufreq::governor::{GovernorEntry, Tunable, TunableKind, Worker};
use crate::cpufreq::request::FreqRequest;

/// The governor. The kernel starts with the present frequency; here it is written at once, the highest if none is given.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "userspace",
    what: "the frequency that is written to scaling_setspeed",
    tunables: &[Tunable::new(
        "scaling_setspeed",
        TunableKind::Number { min: 0, max: u32::MAX },
        "the highest",
        "the frequency, kHz",
    )],
    worker: Worker::Nobody,
    energy_aware: false,
    new: |setup| {
        let setspeed_khz = setup.tunable(&GOVERNOR, "scaling_setspeed")?.unwrap_or(setup.limits.max_khz);
        Ok(Fixed::start(&GOVERNOR, setup, userspace_limits, setspeed_khz))
    },
};

/// Back to the written frequency as far as the limits allow
/// (cpufreq_userspace.c:cpufreq_userspace_policy_limits(), v6.12).
pub fn userspace_limits(limits: FreqLimits, setspeed_khz: u32) -> FreqRequest {
    if limits.max_khz < setspeed_khz {
        performance_limits(limits)
    } else if limits.min_khz > setspeed_khz {
        powersave_limits(limits)
    } else {
        FreqRequest { target_khz: setspeed_khz, relation: Relation::L, efficient: false }
    }
}
