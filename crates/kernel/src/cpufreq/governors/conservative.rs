//! The conservative governor (drivers/cpufreq/cpufreq_conservative.c, v6.12).
//!
//! One step up while the load is above `up_threshold`, one step down while it is below `down_threshold`, a step being
//! `freq_step` percent of the highest frequency. What was asked for is tracked apart from the real frequency, so that
//! steps smaller than the distance between two table entries add up.
//!
//! The condition on deferred steps down (only when the sample's own load is below `down_threshold`) is a stable
//! backport that v6.12.0 does not have.

use crate::cpufreq::facts::{CpuTimes, SampleNote, SampleRule};
use crate::cpufreq::freq_table::Relation;
use crate::cpufreq::governor::{GovernorEntry, Tunable, TunableKind, Worker};
use crate::cpufreq::request::FreqRequest;
use crate::cpufreq::sampling::{
    DbsPolicy, DbsTunables, IGNORE_NICE_LOAD, PolicyDbs, SAMPLING_RATE, Sampling, SamplingGovernor,
};

/// A step of 0 kHz is replaced by this.
pub const DEF_FREQUENCY_STEP: u32 = 5;

/// conservative's tunables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConservativeTunables {
    /// Those shared with ondemand.
    pub dbs: DbsTunables,
    /// Load in percent below which the frequency is lowered.
    pub down_threshold: u32,
    /// Size of a step in percent of the highest frequency; 0 freezes the frequency.
    pub freq_step: u32,
}

impl ConservativeTunables {
    /// The defaults (cpufreq_conservative.c:cs_init(), v6.12).
    pub const fn new(sampling_rate_us: u32) -> Self {
        Self {
            dbs: DbsTunables {
                sampling_rate: sampling_rate_us,
                up_threshold: 80,
                sampling_down_factor: 1,
                ignore_nice_load: false,
                io_is_busy: false,
            },
            down_threshold: 20,
            freq_step: DEF_FREQUENCY_STEP,
        }
    }
}

/// conservative's state for one policy (`struct cs_policy_dbs_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conservative {
    /// The tunables.
    pub tunables: ConservativeTunables,
    /// The sampling state.
    pub policy_dbs: PolicyDbs,
    /// Samples without an increase since the last decrease.
    pub down_skip: u32,
    /// The frequency that was asked for, kHz; the driver may have set another.
    pub requested_khz: u32,
}

impl Conservative {
    /// Takes up work at `cur_khz` with each CPU's cumulative times (cpufreq_conservative.c:cs_start(), v6.12).
    pub fn start(tunables: ConservativeTunables, cur_khz: u32, times: &[CpuTimes]) -> Self {
        let policy_dbs = PolicyDbs::start(times, tunables.dbs.sampling_rate);
        Self { tunables, policy_dbs, down_skip: 0, requested_khz: cur_khz }
    }

    /// The size of a step in kHz (cpufreq_conservative.c:get_freq_step(), v6.12), in `unsigned int`.
    fn step_khz(&self, max_khz: u32) -> u32 {
        match self.tunables.freq_step.wrapping_mul(max_khz) / 100 {
            0 => DEF_FREQUENCY_STEP,
            step_khz => step_khz,
        }
    }

    fn step(&mut self, policy: &DbsPolicy<'_>, load: u32) -> Option<FreqRequest> {
        let (min_khz, max_khz) = (policy.limits.min_khz, policy.limits.max_khz);
        if self.requested_khz > max_khz || self.requested_khz < min_khz {
            self.requested_khz = policy.cur_khz;
        }
        let step_khz = self.step_khz(max_khz);
        let lowered = |khz: u32, by: u32| if khz > min_khz.wrapping_add(by) { khz.wrapping_sub(by) } else { min_khz };

        // Steps down that sleeping CPUs missed. They count only if this sample changes the frequency, too.
        let mut requested = self.requested_khz;
        if self.policy_dbs.max_sample_load < self.tunables.down_threshold
            && let Some(periods) = self.policy_dbs.idle_periods.take()
        {
            requested = lowered(requested, periods.wrapping_mul(step_khz));
        }

        if load > self.tunables.dbs.up_threshold {
            self.down_skip = 0;
            self.requested_khz = requested.wrapping_add(step_khz).min(max_khz);
            self.policy_dbs.note.take(SampleRule::StepUp, self.requested_khz);
            return Some(FreqRequest::efficient(self.requested_khz, Relation::H));
        }
        self.down_skip = self.down_skip.wrapping_add(1);
        if self.down_skip < self.tunables.dbs.sampling_down_factor {
            if load < self.tunables.down_threshold {
                self.policy_dbs.note = SampleNote::of(load, self.tunables.down_threshold);
                self.policy_dbs.note.take(SampleRule::NotYet, 0);
            }
            return None;
        }
        self.down_skip = 0;
        if load < self.tunables.down_threshold {
            self.requested_khz = lowered(requested, step_khz);
            self.policy_dbs.note = SampleNote::of(load, self.tunables.down_threshold);
            self.policy_dbs.note.take(SampleRule::StepDown, self.requested_khz);
            return Some(FreqRequest::efficient(self.requested_khz, Relation::L));
        }
        None
    }
}

/// The governor.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "conservative",
    what: "a step up at a high load, a step down at a low one",
    tunables: &[
        SAMPLING_RATE,
        Tunable::new(
            "sampling_down_factor",
            TunableKind::Number { min: 1, max: 10 },
            "1",
            "go down only at every so many-th sample",
        ),
        Tunable::new(
            "up_threshold",
            TunableKind::Number { min: 1, max: 100 },
            "80",
            "load above which the frequency is raised, percent; above down_threshold",
        ),
        Tunable::new(
            "down_threshold",
            TunableKind::Number { min: 1, max: 99 },
            "20",
            "load below which it is lowered, percent; below up_threshold",
        ),
        IGNORE_NICE_LOAD,
        Tunable::new(
            "freq_step",
            TunableKind::Number { min: 0, max: 100 },
            "5",
            "size of a step, percent of the highest frequency; 0: no steps",
        ),
    ],
    worker: Worker::Kworker,
    energy_aware: false,
    new: |setup| {
        let cur_khz = setup.cur_khz;
        Sampling::start(&GOVERNOR, setup, |rate_us, times| {
            Conservative::start(ConservativeTunables::new(rate_us), cur_khz, times)
        })
    },
};

impl SamplingGovernor for Conservative {
    fn restart(&mut self, cur_khz: u32, times: &[CpuTimes]) {
        *self = Self::start(self.tunables, cur_khz, times);
    }

    /// cpufreq_conservative.c:cs_dbs_update(), v6.12.
    fn update(&mut self, policy: &DbsPolicy<'_>, times: &[CpuTimes]) -> (Option<FreqRequest>, u32) {
        let load = self.policy_dbs.update(&self.tunables.dbs, times);
        self.policy_dbs.note = SampleNote::of(load, self.tunables.dbs.up_threshold);
        if self.tunables.freq_step == 0 {
            self.policy_dbs.note.take(SampleRule::NoStep, 0);
            return (None, self.tunables.dbs.sampling_rate);
        }
        let request = self.step(policy, load);
        (request, self.tunables.dbs.sampling_rate)
    }

    /// Steps continue from the frequency that the driver set (cpufreq_conservative.c:cs_limits(), v6.12).
    fn limits_applied(&mut self, cur_khz: u32) {
        self.requested_khz = cur_khz;
    }

    fn retune(&mut self, fresh: &Self, times: &[CpuTimes]) {
        let before = std::mem::replace(&mut self.tunables, fresh.tunables);
        self.policy_dbs.retune(&before.dbs, &self.tunables.dbs, times);
    }

    fn store(&mut self, name: &str, value: u32) -> bool {
        let tunables = &mut self.tunables;
        match name {
            "down_threshold" => tunables.down_threshold = value,
            "freq_step" => tunables.freq_step = value,
            _ => tunables.dbs.store(name, value),
        }
        tunables.down_threshold < tunables.dbs.up_threshold
    }

    fn policy_dbs(&self) -> &PolicyDbs {
        &self.policy_dbs
    }

    fn policy_dbs_mut(&mut self) -> &mut PolicyDbs {
        &mut self.policy_dbs
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cpufreq::freq_table::FreqLimits;

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_000_000, max_khz: 2_000_000 };

    fn policy(cur_khz: u32) -> DbsPolicy<'static> {
        DbsPolicy { cur_khz, limits: LIMITS, cpuinfo: LIMITS, table: None }
    }

    /// Steps of 5% of the maximum, up from 80% load, down below 20%.
    #[test]
    fn steps() {
        let times = |wall_us, idle_us| [CpuTimes { wall_us, idle_us, ..CpuTimes::default() }];
        let mut governor = Conservative::start(ConservativeTunables::new(10_000), 1_500_000, &times(0, 0));
        let mut check = |wall_us, idle_us, requested_khz| {
            governor.update(&policy(1_500_000), &times(wall_us, idle_us));
            assert_eq!(governor.requested_khz, requested_khz, "at {wall_us} us");
        };
        check(10_000, 0, 1_600_000);
        check(20_000, 5_000, 1_600_000);
        check(30_000, 14_000, 1_500_000);
        // Ten idle periods missed, and the load of before is carried over: nothing yet; then the rest at once.
        check(130_000, 114_000, 1_000_000);
    }

    proptest! {
        #[test]
        fn any_input(
            sampling_rate: u32, thresholds: (u32, u32), sampling_down_factor: u32, freq_step: u32, cur_khz: u32,
            samples in proptest::collection::vec((any::<(u64, u64)>(), any::<(u32, u32, u32)>()), 0..20),
        ) {
            let mut tunables = ConservativeTunables::new(sampling_rate);
            tunables.dbs.up_threshold = thresholds.0;
            tunables.dbs.sampling_down_factor = sampling_down_factor;
            tunables.down_threshold = thresholds.1;
            tunables.freq_step = freq_step;
            let mut governor = Conservative::start(tunables, cur_khz, &[CpuTimes::default()]);
            for ((wall_us, idle_us), (cur_khz, min_khz, max_khz)) in samples {
                let limits = FreqLimits { min_khz, max_khz };
                let policy = DbsPolicy { cur_khz, limits, cpuinfo: limits, table: None };
                governor.update(&policy, &[CpuTimes { wall_us, idle_us, ..CpuTimes::default() }]);
            }
        }
    }
}
