//! The ondemand governor (drivers/cpufreq/cpufreq_ondemand.c, v6.12).
//!
//! Above the threshold: the highest frequency at once. Below: the frequency is proportional to the load, between the
//! hardware's lowest (at load 0) and highest. `powersave_bias` takes some per mille off every choice and, where no
//! frequency matches, alternates between two.

use crate::cpufreq::facts::{CpuTimes, SampleNote, SampleRule};
use crate::cpufreq::freq_table::{FreqLimits, FreqTable, Relation};
use crate::cpufreq::governor::{GovernorEntry, Tunable, TunableKind, Worker};
use crate::cpufreq::request::FreqRequest;
use crate::cpufreq::sampling::{
    DbsPolicy, DbsTunables, IGNORE_NICE_LOAD, PolicyDbs, SAMPLING_RATE, Sampling, SamplingGovernor,
};

/// What a sample takes: a normal one, or the low half of a powersave-bias pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SampleType {
    /// `OD_NORMAL_SAMPLE`.
    #[default]
    Normal,
    /// `OD_SUB_SAMPLE`: go to the low frequency of the pair.
    Sub,
}

/// ondemand's tunables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OndemandTunables {
    /// Those shared with conservative.
    pub dbs: DbsTunables,
    /// Taken off every frequency, in 1/1000; 0..=1000.
    pub powersave_bias: u32,
}

impl OndemandTunables {
    /// The defaults (cpufreq_ondemand.c:od_init(), v6.12): threshold 95, as idle times are exact to the us wherever the
    /// tick stops when idle (80 otherwise). `io_is_busy` is the default on Intel since Core 2.
    pub const fn new(sampling_rate_us: u32, io_is_busy: bool) -> Self {
        Self {
            dbs: DbsTunables {
                sampling_rate: sampling_rate_us,
                up_threshold: 95,
                sampling_down_factor: 1,
                ignore_nice_load: false,
                io_is_busy,
            },
            powersave_bias: 0,
        }
    }
}

/// ondemand's state for one policy (`struct od_policy_dbs_info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ondemand {
    /// The tunables.
    pub tunables: OndemandTunables,
    /// The sampling state.
    pub policy_dbs: PolicyDbs,
    /// The low frequency of a powersave-bias pair, kHz; 0 if there is no pair.
    pub freq_lo_khz: u32,
    /// Time at the low frequency of the pair, us.
    pub freq_lo_delay_us: u32,
    /// Time at the high frequency of the pair, us.
    pub freq_hi_delay_us: u32,
    /// What the next sample is.
    pub sample_type: SampleType,
}

impl Ondemand {
    /// Takes up work with each CPU's cumulative times (cpufreq_ondemand.c:od_start(), v6.12).
    pub fn start(tunables: OndemandTunables, times: &[CpuTimes]) -> Self {
        Self {
            tunables,
            policy_dbs: PolicyDbs::start(times, tunables.dbs.sampling_rate),
            freq_lo_khz: 0,
            freq_lo_delay_us: 0,
            freq_hi_delay_us: 0,
            sample_type: SampleType::Normal,
        }
    }

    /// The frequency to take now so that the average is `powersave_bias`/1000 below `freq_next_khz`
    /// (cpufreq_ondemand.c:generic_powersave_bias_target(), v6.12). All in `unsigned int`, which wraps.
    fn powersave_bias_target(&mut self, policy: &DbsPolicy<'_>, freq_next_khz: u32, relation: Relation) -> u32 {
        let Some(table) = policy.table else {
            (self.freq_lo_khz, self.freq_lo_delay_us) = (0, 0);
            return freq_next_khz;
        };
        let freq_req = table.resolve(freq_next_khz, policy.limits, relation, true);
        let freq_avg = freq_req.wrapping_sub(freq_req.wrapping_mul(self.tunables.powersave_bias) / 1000);
        let lo = neighbour(table, freq_avg, policy.limits, Relation::H);
        let hi = neighbour(table, freq_avg, policy.limits, Relation::L);
        if hi == lo {
            (self.freq_lo_khz, self.freq_lo_delay_us) = (0, 0);
            return lo;
        }
        let rate = self.tunables.dbs.sampling_rate;
        let gap = hi.wrapping_sub(lo);
        let delay_hi = freq_avg.wrapping_sub(lo).wrapping_mul(rate).wrapping_add(gap / 2) / gap;
        self.freq_hi_delay_us = delay_hi;
        self.freq_lo_khz = lo;
        self.freq_lo_delay_us = rate.wrapping_sub(delay_hi);
        hi
    }

    /// cpufreq_ondemand.c:od_update(), v6.12.
    fn od_update(&mut self, policy: &DbsPolicy<'_>, times: &[CpuTimes]) -> Option<FreqRequest> {
        let load = self.policy_dbs.update(&self.tunables.dbs, times);
        let biased = self.tunables.powersave_bias != 0;
        self.freq_lo_khz = 0;
        let max_khz = policy.limits.max_khz;
        self.policy_dbs.note = SampleNote::of(load, self.tunables.dbs.up_threshold);
        if load > self.tunables.dbs.up_threshold {
            if policy.cur_khz < max_khz {
                self.policy_dbs.rate_mult = self.tunables.dbs.sampling_down_factor;
            }
            if biased {
                let freq_khz = self.powersave_bias_target(policy, max_khz, Relation::H);
                self.policy_dbs.note.take(SampleRule::Highest, freq_khz);
                return Some(FreqRequest::efficient(freq_khz, Relation::L));
            }
            self.policy_dbs.note.take(SampleRule::Highest, max_khz);
            return (policy.cur_khz != max_khz).then(|| FreqRequest::efficient(max_khz, Relation::H));
        }
        let FreqLimits { min_khz: lowest, max_khz: highest } = policy.cpuinfo;
        let mut freq_next = lowest.wrapping_add(load.wrapping_mul(highest.wrapping_sub(lowest)) / 100);
        self.policy_dbs.rate_mult = 1;
        if biased {
            freq_next = self.powersave_bias_target(policy, freq_next, Relation::L);
        }
        self.policy_dbs.note.take(SampleRule::InProportion, freq_next);
        Some(FreqRequest::efficient(freq_next, Relation::C))
    }
}

/// The efficient entry next to `target_khz`, which is limited first; unlike in a driver's request, an entry outside
/// the limits is not replaced (include/linux/cpufreq.h:cpufreq_table_find_index_h() and _l(), v6.12).
fn neighbour(table: &FreqTable, target_khz: u32, limits: FreqLimits, relation: Relation) -> u32 {
    const ANY: FreqLimits = FreqLimits { min_khz: 0, max_khz: u32::MAX };
    table.resolve(limits.clamp(target_khz), ANY, relation, true)
}

/// The governor.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "ondemand",
    what: "the highest frequency at a high load, else one in proportion to the load",
    tunables: &[
        SAMPLING_RATE,
        Tunable::new(
            "up_threshold",
            TunableKind::Number { min: 1, max: 100 },
            "95",
            "load above which the highest frequency is taken, percent",
        ),
        Tunable::new(
            "sampling_down_factor",
            TunableKind::Number { min: 1, max: 100_000 },
            "1",
            "at the highest frequency, sample so many times less often",
        ),
        IGNORE_NICE_LOAD,
        Tunable::new(
            "powersave_bias",
            TunableKind::Number { min: 0, max: 1000 },
            "0",
            "taken off every frequency, 1/1000",
        ),
        Tunable::new(
            "io_is_busy",
            TunableKind::Switch,
            "1 on Intel, 0 elsewhere",
            "count as busy the time in which a task waits for I/O",
        ),
    ],
    worker: Worker::Kworker,
    energy_aware: false,
    new: |setup| {
        Sampling::start(&GOVERNOR, setup, |rate_us, times| {
            Ondemand::start(OndemandTunables::new(rate_us, setup.io_is_busy), times)
        })
    },
};

impl SamplingGovernor for Ondemand {
    fn restart(&mut self, _: u32, times: &[CpuTimes]) {
        *self = Self::start(self.tunables, times);
    }

    /// cpufreq_ondemand.c:od_dbs_update(), v6.12.
    fn update(&mut self, policy: &DbsPolicy<'_>, times: &[CpuTimes]) -> (Option<FreqRequest>, u32) {
        let sample_type = std::mem::take(&mut self.sample_type);
        if sample_type == SampleType::Sub && self.policy_dbs.sample_delay_ns > 0 {
            self.policy_dbs.note.take(SampleRule::LowHalf, self.freq_lo_khz);
            return (Some(FreqRequest::efficient(self.freq_lo_khz, Relation::H)), self.freq_lo_delay_us);
        }
        let request = self.od_update(policy, times);
        if self.freq_lo_khz != 0 {
            self.sample_type = SampleType::Sub;
            return (request, self.freq_hi_delay_us);
        }
        (request, self.tunables.dbs.sampling_rate.wrapping_mul(self.policy_dbs.rate_mult))
    }

    /// cpufreq_ondemand.c:sampling_down_factor_store(), powersave_bias_store(), v6.12.
    fn retune(&mut self, fresh: &Self, times: &[CpuTimes]) {
        let before = std::mem::replace(&mut self.tunables, fresh.tunables);
        self.policy_dbs.retune(&before.dbs, &self.tunables.dbs, times);
        if before.dbs.sampling_down_factor != self.tunables.dbs.sampling_down_factor {
            self.policy_dbs.rate_mult = 1;
        }
        if before.powersave_bias != self.tunables.powersave_bias {
            self.freq_lo_khz = 0;
        }
    }

    fn store(&mut self, name: &str, value: u32) -> bool {
        match name {
            "powersave_bias" => self.tunables.powersave_bias = value,
            _ => self.tunables.dbs.store(name, value),
        }
        true
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

    fn times(wall_us: u64, idle_us: u64) -> [CpuTimes; 1] {
        [CpuTimes { wall_us, idle_us, ..CpuTimes::default() }]
    }

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_000_000, max_khz: 2_000_000 };

    fn policy(table: &FreqTable, cur_khz: u32) -> DbsPolicy<'_> {
        DbsPolicy { cur_khz, limits: LIMITS, cpuinfo: LIMITS, table: Some(table) }
    }

    /// Loads above the threshold go to the maximum; others to lowest + load% of the range.
    #[test]
    fn load_to_frequency() {
        let table = FreqTable::from_khz(&[1_000_000, 1_500_000, 2_000_000]).expect("a valid table");
        let check = |busy_us: u64, khz| {
            let mut governor = Ondemand::start(OndemandTunables::new(10_000, false), &times(0, 0));
            let (request, delay_us) = governor.update(&policy(&table, 1_000_000), &times(10_000, 10_000 - busy_us));
            assert_eq!(request.map(|request| request.resolve(Some(&table), LIMITS)), Some(khz), "busy {busy_us}");
            assert_eq!(delay_us, 10_000);
        };
        check(0, 1_000_000);
        check(5_000, 1_500_000);
        check(9_500, 2_000_000);
        check(9_600, 2_000_000);
    }

    /// A bias between two entries alternates between them in proportion.
    #[test]
    fn powersave_bias_alternates() {
        let table = FreqTable::from_khz(&[1_000_000, 1_500_000, 2_000_000]).expect("a valid table");
        let tunables = OndemandTunables { powersave_bias: 150, ..OndemandTunables::new(10_000, false) };
        let mut governor = Ondemand::start(tunables, &times(0, 0));
        let (request, delay_us) = governor.update(&policy(&table, 1_000_000), &times(10_000, 0));
        assert_eq!((request, delay_us), (Some(FreqRequest::efficient(2_000_000, Relation::L)), 4_000));
        governor.policy_dbs.sampled(delay_us);
        let (request, delay_us) = governor.update(&policy(&table, 2_000_000), &times(14_000, 0));
        assert_eq!((request, delay_us), (Some(FreqRequest::efficient(1_500_000, Relation::H)), 6_000));
    }

    proptest! {
        /// A higher load never asks for a lower frequency.
        #[test]
        fn load_is_monotonic(busy in 0..=10_000u64, more in 0..=10_000u64) {
            let table = FreqTable::from_khz(&[1_000_000, 1_250_000, 1_500_000, 2_000_000]).expect("a valid table");
            let khz = |busy: u64| {
                let mut governor = Ondemand::start(OndemandTunables::new(10_000, false), &times(0, 0));
                let (request, _) = governor.update(&policy(&table, 1_250_000), &times(10_000, 10_000 - busy.min(10_000)));
                request.map_or(1_250_000, |request| request.resolve(Some(&table), LIMITS))
            };
            prop_assert!(khz(busy + more) >= khz(busy));
        }

        /// Nothing panics, whatever the tunables, limits and times are.
        #[test]
        fn any_input(
            sampling_rate: u32, up_threshold: u32, sampling_down_factor: u32, powersave_bias: u32, hw: (u32, u32),
            freqs in proptest::collection::btree_set(any::<u32>(), 1..8),
            samples in proptest::collection::vec((any::<(u64, u64)>(), any::<(u32, u32, u32)>(), any::<u32>()), 0..20),
        ) {
            let freqs: Vec<u32> = freqs.into_iter().collect();
            let Ok(table) = FreqTable::from_khz(&freqs) else { return Ok(()) };
            let mut tunables = OndemandTunables::new(sampling_rate, true);
            tunables.dbs.up_threshold = up_threshold;
            tunables.dbs.sampling_down_factor = sampling_down_factor;
            tunables.powersave_bias = powersave_bias;
            let mut governor = Ondemand::start(tunables, &times(0, 0));
            for ((wall_us, idle_us), (cur_khz, min_khz, max_khz), delay_us) in samples {
                let policy = DbsPolicy {
                    cur_khz,
                    limits: FreqLimits { min_khz, max_khz },
                    cpuinfo: FreqLimits { min_khz: hw.0, max_khz: hw.1 },
                    table: (cur_khz % 5 != 0).then_some(&table),
                };
                governor.limits(&policy);
                governor.policy_dbs.sampled(delay_us);
                governor.update(&policy, &times(wall_us, idle_us));
            }
        }
    }
}
