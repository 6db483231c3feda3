//! What all governors have in common: what one is started with, its inputs, its answers.
//!
//! A governor is one policy's state machine. Whoever drives it (engine, open loop, live host) calls it when the kernel
//! would, lets it look at the policy's CPUs through a [`View`], and carries its [`Request`]s out.
//!
//! ```text
//!   new(setup) ─► limits ─► update_util ─► nothing
//!                   │          ├─► FastSwitch: the driver sets it now, in the scheduler's context
//!                   │          ├─► AdjustPerf: the same in performance levels
//!                   │          └─► QueueWork ─ ─ ► work ─► a frequency to set     (a kthread or kworker, later)
//!                   └─► a frequency to set now                follow: somebody else has set one
//! ```
//!
//! Not here: when a CPU reports, clocks, the thread that works, and what the hardware makes of a request.

use super::facts::{CpuFacts, CpuTimes, PolicyFacts, Request, SampleNote, SugovDecision, SugovFacts};
use super::freq_table::{FreqLimits, FreqTable, Relation};
use crate::profile::{KernelProfile, RateLimits};

/// Everything that a governor of one policy is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorSetup {
    /// The kernel.
    pub profile: KernelProfile,
    /// CPUs of the policy.
    pub n_cpus: usize,
    /// The hardware's limits, as the driver reports them.
    pub cpuinfo: FreqLimits,
    /// The policy's limits.
    pub limits: FreqLimits,
    /// The policy's frequency at the start, kHz.
    pub cur_khz: u32,
    /// The driver's table in its order, if it has one.
    pub table: Option<FreqTable>,
    /// The driver sets frequencies in the scheduler's context.
    pub fast_switch: bool,
    /// `CPUFREQ_NEED_UPDATE_LIMITS`.
    pub need_update_limits: bool,
    /// The driver takes performance levels (`cpufreq_driver_has_adjust_perf()`).
    pub adjust_perf: bool,
    /// `policy->transition_delay_us`; 0: the driver suggests none.
    pub transition_delay_us: u32,
    /// `cpuinfo.transition_latency`, ns.
    pub transition_latency_ns: u32,
    /// Length of a tick, ns.
    pub tick_ns: u64,
    /// ondemand's default of its tunable (cpufreq_ondemand.c:`should_io_be_busy()`, v6.12: Intel since Core 2).
    pub io_is_busy: bool,
    /// Tunables by sysfs name that are not left at their defaults.
    pub tunables: Vec<(String, String)>,
}

impl GovernorSetup {
    /// What was given for a tunable, as a number.
    ///
    /// # Errors
    /// [`GovernorError::BadValue`].
    pub fn tunable(&self, governor: &GovernorEntry, name: &str) -> Result<Option<u32>, GovernorError> {
        let Some((_, value)) = self.tunables.iter().find(|(known, _)| known == name) else { return Ok(None) };
        governor.check_tunable(&self.profile, name, value).map(Some)
    }

    /// `cpufreq_policy_transition_delay_us()` of the kernel: schedutil's default rate limit.
    pub fn rate_limit_us(&self) -> u32 {
        self.profile.rate_limit_us(self.transition_delay_us, self.transition_latency_ns)
    }
}

/// A CPU reports a change of its utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The CPU's clock, ns.
    pub time_ns: u64,
    /// Number in the policy of the CPU that reports.
    pub cpu: usize,
    /// 0 or [`super::schedutil::SCHED_CPUFREQ_IOWAIT`].
    pub flags: u32,
    /// The policy as it is.
    pub policy: PolicyFacts,
}

/// What a governor may look at: the utilisation and the times of its policy's CPUs.
pub trait View: SugovFacts {
    /// `get_cpu_idle_time()` of the policy's CPU number `index`.
    fn times(&self, index: usize) -> CpuTimes;
}

/// Facts that somebody has collected before.
#[derive(Debug, Clone, Copy)]
pub struct Collected<'a> {
    /// One a CPU.
    pub facts: &'a [CpuFacts],
    /// One a CPU.
    pub times: &'a [CpuTimes],
}

impl SugovFacts for Collected<'_> {
    fn cpu(&self, index: usize) -> CpuFacts {
        self.facts[index]
    }
}

impl View for Collected<'_> {
    fn times(&self, index: usize) -> CpuTimes {
        self.times[index]
    }
}

/// A governor of one policy (`struct cpufreq_governor` with its data).
pub trait Governor: core::any::Any + core::fmt::Debug + Send {
    /// The entry that made it.
    fn entry(&self) -> &'static GovernorEntry;

    /// Begins to watch, once there are times to begin with; a governor that does not get them begins with its first work.
    fn start(&mut self, cur_khz: u32, view: &dyn View) {
        let _ = (cur_khz, view);
    }

    /// The scheduler reports. With a `note`, what went into a decision by utilisation is left there.
    fn update_util(
        &mut self,
        report: &Report,
        view: &dyn View,
        note: Option<&mut Option<SugovDecision>>,
    ) -> Option<Request>;

    /// What [`Self::update_util`] would decide on if no rate limit held it back; nothing changes.
    fn update_unlimited(&self, report: &Report, view: &dyn View) -> Option<SugovDecision> {
        let _ = (report, view);
        None
    }

    /// The work that was queued is done: the frequency to set in kHz, if it is another than `cur_khz`.
    fn work(&mut self, cur_khz: u32, view: &dyn View) -> Option<u32> {
        let _ = (cur_khz, view);
        None
    }

    /// The policy got (or starts with) these limits: the frequency to set at once in kHz, if any.
    fn limits(&mut self, limits: FreqLimits, cur_khz: u32) -> Option<u32>;

    /// Somebody wrote tunables: `fresh`, of the same kind, has them. The frequency to set at once in kHz, if any.
    fn retune(&mut self, fresh: &dyn Governor, view: &dyn View) -> Option<u32>;

    /// The hardware's limits are these from now on: turbo was switched.
    fn set_cpuinfo(&mut self, cpuinfo: FreqLimits) {
        let _ = cpuinfo;
    }

    /// Somebody else has set `cur_khz`: go on from there.
    fn follow(&mut self, cur_khz: u32) {
        let _ = cur_khz;
    }

    /// The frequency that was decided on last, kHz; 0 before that.
    fn wanted_khz(&self) -> u32;

    /// How a driver without a table rounds the frequency that was asked for last (`relation` of `__cpufreq_driver_target()`).
    fn relation(&self) -> Relation {
        Relation::L
    }

    /// What the last sample was decided by, of a governor that samples.
    fn sample(&self) -> Option<SampleNote> {
        None
    }

    /// From when on a change to `_khz` is possible, by the CPUs' clock, ns.
    fn next_change_ns(&self, _khz: u32) -> u64 {
        0
    }
}

/// What a tunable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunableKind {
    /// A whole number within these bounds.
    Number {
        /// The least.
        min: u32,
        /// The most.
        max: u32,
    },
    /// 0 or 1.
    Switch,
}

impl core::fmt::Display for TunableKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number { min, max: u32::MAX } => write!(f, "a whole number from {min} on"),
            Self::Number { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Switch => write!(f, "0 or 1"),
        }
    }
}

/// A tunable of a governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunable {
    /// Its sysfs name.
    pub name: &'static str,
    /// What it does, with the unit.
    pub what: &'static str,
    /// What it takes.
    pub kind: TunableKind,
    /// What it is if nobody sets it, in words.
    pub default: &'static str,
    /// Kernels that have it; `None`: all.
    pub only: Option<RateLimits>,
}

impl Tunable {
    /// A tunable of all kernels.
    pub const fn new(name: &'static str, kind: TunableKind, default: &'static str, what: &'static str) -> Self {
        Self { name, what, kind, default, only: None }
    }

    fn is_of(&self, profile: &KernelProfile) -> bool {
        self.only.is_none_or(|only| only == profile.rate_limits)
    }
}

/// Who does the work that a governor queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// It queues none.
    Nobody,
    /// `sugov:N`, a deadline thread, unless the driver switches fast.
    Kthread,
    /// A kworker, which takes the sample that is due.
    Kworker,
}

/// A governor that can be named in a policy.
#[derive(Debug)]
pub struct GovernorEntry {
    /// Its name in `scaling_available_governors`.
    pub name: &'static str,
    /// What it does, in a line.
    pub what: &'static str,
    /// Its tunables.
    pub tunables: &'static [Tunable],
    /// Who does its work.
    pub worker: Worker,
    /// Energy-aware scheduling runs under it (`sugov_is_governor()`).
    pub energy_aware: bool,
    /// Makes one.
    pub new: fn(&GovernorSetup) -> Result<Box<dyn Governor>, GovernorError>,
}

impl GovernorEntry {
    /// The tunables that it has in a kernel.
    pub fn tunables_of(&self, profile: &KernelProfile) -> impl Iterator<Item = &'static Tunable> + use<> {
        let (tunables, profile) = (self.tunables, *profile);
        tunables.iter().filter(move |tunable| tunable.is_of(&profile))
    }

    /// The number that `value` is.
    ///
    /// # Errors
    /// [`GovernorError`] if there is no such tunable, or the value is none that it takes.
    pub fn check_tunable(&self, profile: &KernelProfile, name: &str, value: &str) -> Result<u32, GovernorError> {
        let Some(tunable) = self.tunables_of(profile).find(|tunable| tunable.name == name) else {
            return Err(GovernorError::UnknownTunable {
                governor: self.name,
                name: name.to_owned(),
                known: self.tunables_of(profile).map(|tunable| tunable.name).collect(),
            });
        };
        let number = value.parse().ok().filter(|_| value.bytes().all(|digit| digit.is_ascii_digit()));
        let taken = number.filter(|number| match tunable.kind {
            TunableKind::Number { min, max } => (min..=max).contains(number),
            TunableKind::Switch => *number <= 1,
        });
        taken.ok_or_else(|| GovernorError::BadValue {
            governor: self.name,
            name: name.to_owned(),
            value: value.to_owned(),
            why: tunable.kind.to_string(),
        })
    }
}

/// Why there is no such governor, or not with such tunables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GovernorError {
    /// No governor has this name.
    UnknownGovernor {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The governor has no such tunable in this kernel.
    UnknownTunable {
        /// The governor.
        governor: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A tunable does not take this value.
    BadValue {
        /// The governor.
        governor: &'static str,
        /// The tunable.
        name: String,
        /// What was asked for.
        value: String,
        /// What it takes.
        why: String,
    },
}

impl GovernorError {
    /// The name that is wrong and those that would not be, if it is a name.
    pub fn wrong_name(&self) -> Option<(&str, Vec<&'static str>)> {
        match self {
            Self::UnknownGovernor { name, known } => Some((name, known.clone())),
            Self::UnknownTunable { name, known, .. } => Some((name, known.clone())),
            Self::BadValue { .. } => None,
        }
    }
}

impl core::fmt::Display for GovernorError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownGovernor { name, known } => {
                write!(f, "unknown governor {name:?} (there are {})", known.join(", "))
            }
            Self::UnknownTunable { governor, name, known } if known.is_empty() => {
                write!(f, "governor {governor} has no tunable {name:?} (it has none)")
            }
            Self::UnknownTunable { governor, name, known } => {
                write!(f, "governor {governor} has no tunable {name:?} (it has {})", known.join(", "))
            }
            Self::BadValue { governor, name, value, why } => {
                write!(f, "tunable {name} of {governor} is {value:?}; it takes {why}")
            }
        }
    }
}

impl core::error::Error for GovernorError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::facts::CpuFacts;
    use crate::cpufreq::governors::GovernorId;

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_000_000, max_khz: 3_000_000 };

    fn setup(kernel: &str, tunables: &[(&str, &str)]) -> GovernorSetup {
        GovernorSetup {
            profile: KernelProfile::named(kernel).expect("a profile"),
            n_cpus: 1,
            cpuinfo: LIMITS,
            limits: LIMITS,
            cur_khz: 1_000_000,
            table: FreqTable::from_khz(&[1_000_000, 2_000_000, 3_000_000]).ok(),
            fast_switch: false,
            need_update_limits: false,
            adjust_perf: false,
            transition_delay_us: 1000,
            transition_latency_ns: 10_000,
            tick_ns: 4_000_000,
            io_is_busy: false,
            tunables: tunables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    fn refused(governor: &str, kernel: &str, tunables: &[(&str, &str)]) -> String {
        let governor = GovernorId::named(governor).expect("is one");
        governor.build(&setup(kernel, tunables)).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let unknown = refused("schedutil", "6.12", &[("rate_limit", "500")]);
        assert_eq!(unknown, "governor schedutil has no tunable \"rate_limit\" (it has rate_limit_us)");
        for value in ["", "x", "-1", "7 us", "99999999999", " 7"] {
            let error = refused("schedutil", "6.12", &[("rate_limit_us", value)]);
            assert_eq!(
                error,
                format!("tunable rate_limit_us of schedutil is {value:?}; it takes a whole number from 0 on")
            );
        }
        assert!(refused("performance", "6.12", &[("rate_limit_us", "1")]).ends_with("(it has none)"));
        assert!(refused("ondemand", "6.12", &[("up_threshold", "101")]).ends_with("a whole number from 1 to 100"));
        assert!(refused("ondemand", "6.12", &[("io_is_busy", "2")]).ends_with("0 or 1"));
        // Each alone would do.
        let pair = [("up_threshold", "30"), ("down_threshold", "40")];
        assert!(refused("conservative", "6.12", &pair).contains("down_threshold of conservative is \"40\""));
        let error = GovernorId::named("schedutl").expect_err("is none");
        assert_eq!(
            error.wrong_name().map(|(name, known)| (name.to_owned(), known.len())),
            Some(("schedutl".into(), 6))
        );
    }

    /// A time between samples below two ticks is refused, and the default stays: that of the driver if it is longer.
    #[test]
    fn a_sampling_rate_below_two_ticks_leaves_the_default() {
        let ondemand = GovernorId::named("ondemand").expect("is one");
        let runs = |transition_delay_us, given: &str| {
            let setup = GovernorSetup { transition_delay_us, ..setup("6.12", &[("sampling_rate", given)]) };
            format!("{:?}", ondemand.build(&setup).expect("a tunable"))
        };
        assert!(runs(1000, "7999").contains("sampling_rate: 8000,"));
        assert!(runs(20_000, "7999").contains("sampling_rate: 20000,"));
        assert!(runs(20_000, "8000").contains("sampling_rate: 8000,"));
    }

    /// Android's tunables are those of its kernel only.
    #[test]
    fn up_and_down_limits_are_androids() {
        let pair = [("up_rate_limit_us", "500"), ("down_rate_limit_us", "20000")];
        assert_eq!(refused("schedutil", "4.14-android", &pair), "");
        assert!(refused("schedutil", "6.12", &pair).contains("no tunable \"up_rate_limit_us\""));
    }

    /// Goal: each governor starts, asks for what its name promises, and a number as default is that default.
    /// Method: a CPU that is busy for so long that conservative climbs all its steps, then lower limits.
    #[test]
    fn every_governor_is_driven_alike() {
        for governor in GovernorId::all() {
            let setup = setup("6.12", &[]);
            let mut state = governor.build(&setup).expect("no tunables");
            assert_eq!(state.entry().name, governor.name);
            let mut cur_khz = state.limits(LIMITS, setup.cur_khz).unwrap_or(setup.cur_khz);
            for step in 0..100 {
                let facts = [CpuFacts { util_cfs: 1000, util_cfs_boost: 1000, ..CpuFacts::default() }];
                let times = [CpuTimes { wall_us: step * 4000, ..CpuTimes::default() }];
                let view = Collected { facts: &facts, times: &times };
                let policy = PolicyFacts { cur_khz, freq_ref_khz: 3_000_000, freq_invariant: true, can_update: true };
                let report = Report { time_ns: (1 << 30) + step * 4_000_000, cpu: 0, flags: 0, policy };
                if state.update_util(&report, &view, None) == Some(Request::QueueWork) {
                    assert_ne!(governor.worker, Worker::Nobody, "{governor}");
                    cur_khz = state.work(cur_khz, &view).unwrap_or(cur_khz);
                }
            }
            let expected = if governor.name == "powersave" { 1_000_000 } else { 3_000_000 };
            assert_eq!(cur_khz, expected, "{governor}");
            let lower = FreqLimits { max_khz: 2_000_000, ..LIMITS };
            let asked = state.limits(lower, cur_khz).unwrap_or(cur_khz);
            assert_eq!(asked, expected.min(2_000_000), "{governor}");
        }
    }
}
