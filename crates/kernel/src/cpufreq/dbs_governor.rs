//! ondemand or conservative, whichever a policy runs: the steps that cpufreq_governor.c calls through
//! `struct dbs_governor`, with requests resolved to frequencies.
//!
//! Not here: when a CPU may report, and carrying a request out.

use super::conservative::{Conservative, ConservativeTunables};
use super::ondemand::{Ondemand, OndemandTunables};
use super::request::{FreqRequest, TunableError};
use super::sampling::{CpuTimes, DbsPolicy, PolicyDbs};

/// A demand-based governor of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DbsGovernor {
    /// ondemand.
    Ondemand(Ondemand),
    /// conservative.
    Conservative(Conservative),
}

impl DbsGovernor {
    /// Names of the governors.
    pub const NAMES: [&'static str; 2] = ["ondemand", "conservative"];

    /// Starts the governor called `name` with its default tunables, at the present frequency in kHz and with one `times`
    /// a CPU; `None` if it is none of these.
    pub fn named(name: &str, sampling_rate_us: u32, cur_khz: u32, times: &[CpuTimes]) -> Option<Self> {
        match name {
            "ondemand" => Some(Self::Ondemand(Ondemand::start(OndemandTunables::new(sampling_rate_us, false), times))),
            "conservative" => {
                let tunables = ConservativeTunables::new(sampling_rate_us);
                Some(Self::Conservative(Conservative::start(tunables, cur_khz, times)))
            }
            _ => None,
        }
    }

    /// Starts again with the same tunables (cpufreq_governor.c:cpufreq_dbs_governor_start(), v6.12); no sample is due.
    pub fn restart(&mut self, cur_khz: u32, times: &[CpuTimes]) {
        match self {
            Self::Ondemand(governor) => *governor = Ondemand::start(governor.tunables, times),
            Self::Conservative(governor) => *governor = Conservative::start(governor.tunables, cur_khz, times),
        }
    }

    /// Sets a tunable by its sysfs name; `min_sampling_rate_us` is the least `sampling_rate`.
    ///
    /// # Errors
    /// [`TunableError`].
    pub fn store(&mut self, name: &str, value: &str, min_sampling_rate_us: u32) -> Result<(), TunableError> {
        match self {
            Self::Ondemand(governor) => governor.store(name, value, min_sampling_rate_us),
            Self::Conservative(governor) => governor.store(name, value, min_sampling_rate_us),
        }
    }

    /// The sampling state.
    pub fn policy_dbs(&self) -> &PolicyDbs {
        match self {
            Self::Ondemand(governor) => &governor.policy_dbs,
            Self::Conservative(governor) => &governor.policy_dbs,
        }
    }

    /// A CPU reports; whether a sample is due, which [`Self::sample`] is to take (see [`PolicyDbs::update_util`]).
    pub fn update_util(&mut self, time_ns: u64) -> bool {
        match self {
            Self::Ondemand(governor) => governor.policy_dbs.update_util(time_ns),
            Self::Conservative(governor) => governor.policy_dbs.update_util(time_ns),
        }
    }

    /// Takes the sample that is due and schedules the next one; the frequency to ask for in kHz, if any
    /// (cpufreq_governor.c:dbs_work_handler(), v6.12).
    pub fn sample(&mut self, policy: &DbsPolicy<'_>, times: &[CpuTimes]) -> Option<u32> {
        let (request, delay_us, state) = match self {
            Self::Ondemand(governor) => {
                let (request, delay_us) = governor.update(policy, times);
                (request, delay_us, &mut governor.policy_dbs)
            }
            Self::Conservative(governor) => {
                let (request, delay_us) = governor.update(policy, times);
                (request, delay_us, &mut governor.policy_dbs)
            }
        };
        state.sampled(delay_us);
        request.map(|request| request.resolve(policy.table, policy.limits))
    }

    /// The driver has set `cur_khz` without being asked: conservative's steps continue from it.
    pub fn follow(&mut self, cur_khz: u32) {
        if let Self::Conservative(governor) = self {
            governor.limits_applied(cur_khz);
        }
    }

    /// The policy's limits changed: the frequency to ask for at once in kHz, which is taken as carried out
    /// (cpufreq_governor.c:cpufreq_dbs_governor_limits(), v6.12).
    pub fn limits(&mut self, policy: &DbsPolicy<'_>) -> Option<u32> {
        let resolve = |request: FreqRequest| request.resolve(policy.table, policy.limits);
        match self {
            Self::Ondemand(governor) => governor.limits(policy).map(resolve),
            Self::Conservative(governor) => {
                let khz = governor.limits(policy).map(resolve);
                governor.limits_applied(khz.unwrap_or(policy.cur_khz));
                khz
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::freq_table::{FreqLimits, FreqTable};

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_000_000, max_khz: 3_000_000 };

    fn busy(wall_us: u64, idle_us: u64) -> [CpuTimes; 1] {
        [CpuTimes { wall_us, idle_us, nice_ns: 0 }]
    }

    /// Goal: both go up under load and within changed limits at once. Method: a busy CPU, then lower limits.
    #[test]
    fn both_are_driven_alike() {
        let table = FreqTable::from_khz(&[1_000_000, 2_000_000, 3_000_000]).expect("not empty");
        let policy = |cur_khz, limits| DbsPolicy { cur_khz, limits, cpuinfo: LIMITS, table: Some(&table) };
        for (name, first_khz) in DbsGovernor::NAMES.into_iter().zip([3_000_000, 1_000_000]) {
            let mut governor = DbsGovernor::named(name, 10_000, 1_000_000, &busy(0, 0)).expect("is one");
            assert!(!governor.update_util(9_999_999));
            assert!(governor.update_util(10_000_000));
            let asked = governor.sample(&policy(1_000_000, LIMITS), &busy(10_000, 0));
            assert_eq!(asked.unwrap_or(1_000_000), first_khz, "{name}");
            let lower = FreqLimits { max_khz: 2_000_000, ..LIMITS };
            assert_eq!(governor.limits(&policy(3_000_000, lower)), Some(2_000_000), "{name}");
            // Changed limits are looked at as soon as a CPU reports.
            assert!(governor.update_util(10_000_001), "{name}");
            governor.restart(2_000_000, &busy(20_000, 0));
            assert_eq!(governor.policy_dbs().max_sample_load, 0, "{name}");
            assert!(!governor.update_util(9_999_999), "{name}");
        }
        assert!(DbsGovernor::named("schedutil", 10_000, 0, &[]).is_none());
    }
}
