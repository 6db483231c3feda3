//! Kernel profiles: what differs between versions, in one table of gates.
//!
//! A profile is a mainline release plus the backports of a point release. A policy names it ("5.18", "6.6.88"), never
//! single gates; for an experiment each gate can be overridden by name. A gate's value in a profile is the last one in the
//! table that the release has, from mainline or as a backport ([`KernelProfile::of`]).
//!
//! Sources and proofs are fields ([`crate::evidence`]). Orthogonal to all gates and not here: which f_max is taken ([`crate::freq_invariance::FreqMax`]), the drivers, tunables, CONFIG_HZ and the PELT half-life.

use crate::evidence::Source::{self, Changelog, Code, Commit, Doc, Mail, Memory, Recalled, Replaced, Text};
use crate::evidence::{Backport, Proof};
use crate::freq_invariance::{AmdPerfCaps, FreqMaxOf, amd_highest_perf_by_model, is_zen4};
use crate::proposals::proposal::parse;
use crate::proposals::{Need, ProposalError, Proposals};
use crate::release::{self, Release, Version, read_to};
use crate::util_est::UtilEstForm;

/// In no mainline release.
const NEVER: Version = (u16::MAX, 0);

/// The change of schedutil in v6.6.89 (stable commit ada8d7fa0ad4).
const REWORK_6_6: Source = Source::Mail(
    "stable 6.6: commit \"sched/cpufreq: Rework schedutil governor performance estimation\" causes a regression",
);
/// What that change needed: patch 478 of the 587 of v6.6.103.
const FREQ_REF_6_6: Source = Source::Mail("[PATCH 6.6 000/587] 6.6.103-rc1 review");
/// New idle balance: patch 711 of the 737 of v6.6.120.
const NEWIDLE_6_6: Source = Source::Mail("[PATCH 6.6 000/737] 6.6.120-rc1 review");

/// One possible value of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateValue {
    /// The value's name in policy files.
    pub name: &'static str,
    /// The first mainline release with it; `None`: no mainline release has it.
    pub since: Option<Version>,
    /// Point releases of older versions that have it, too.
    pub stable: &'static [Backport],
    /// What it means.
    pub what: &'static str,
    /// Where that is known from.
    pub sources: &'static [Source],
    /// How it is proven.
    pub proof: Proof,
}

impl GateValue {
    /// The releases that brought it, `None` for a value that no kernel has.
    pub fn since_text(&self) -> Option<String> {
        let mainline = self.since.map(|(major, minor)| format!("{major}.{minor}"));
        let all: Vec<String> = self.stable.iter().map(Backport::text).chain(mainline).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Its sources in words.
    pub fn source_text(&self) -> String {
        self.sources.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// One row of the table: a thing that kernels do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// The gate's name in policy files.
    pub name: &'static str,
    /// What differs.
    pub what: &'static str,
    /// Its values by the version that brought them.
    pub values: &'static [GateValue],
}

/// Why a gate was not overridden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateError {
    /// There is no gate of that name; the list is [`gate_names`].
    UnknownGate(String),
    /// The gate has no such value.
    UnknownValue {
        /// The gate.
        gate: &'static str,
        /// What was asked for.
        value: String,
        /// What there is.
        known: Vec<&'static str>,
    },
}

impl core::fmt::Display for GateError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownGate(name) => {
                write!(f, "unknown gate {name:?} (there are {})", gate_names().collect::<Vec<_>>().join(", "))
            }
            Self::UnknownValue { gate, value, known } => {
                write!(f, "gate {gate:?} has no value {value:?} (it has {})", known.join(", "))
            }
        }
    }
}

impl core::error::Error for GateError {}

macro_rules! listed {
    () => {
        &[]
    };
    ([$($item:expr),+]) => {
        &[$($item),+]
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($item:expr) => {
        Some($item)
    };
}

macro_rules! gates {
    ($(
        $field:ident: $type:ident, $what:literal {
            $($variant:ident = $name:literal since $since:expr, $(stable $stable:tt,)? $(vectors $vectors:tt,)? $(recorded $kernels:literal,)? $meaning:literal, [$($source:expr),+];)+
        }
    )+) => {
        $(
            #[doc = $what]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum $type {
                $(
                    #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                    $variant,
                )+
            }

            impl $type {
                /// All values, in the order of the releases that brought them.
                pub const ALL: &'static [Self] = &[$(Self::$variant),+];
                const SINCE: &'static [(Version, &'static [Backport])] = &[$(($since, listed!($($stable)?))),+];

                /// The name in policy files.
                pub const fn name(self) -> &'static str {
                    match self {
                        $(Self::$variant => $name,)+
                    }
                }

                /// The value called `name`.
                pub fn from_name(name: &str) -> Option<Self> {
                    Self::ALL.iter().copied().find(|value| value.name() == name)
                }

                /// The last value that a release has.
                fn of(version: Version, point: u16) -> Self {
                    let last = Self::SINCE.iter().rposition(|(since, stable)| {
                        *since <= version || stable.iter().any(|stable| stable.covers(version, point))
                    });
                    Self::ALL[last.unwrap_or(0)]
                }
            }
        )+

        /// The table: every gate with its values, releases and sources.
        pub const GATES: &[Gate] = &[
            $(Gate {
                name: stringify!($field),
                what: $what,
                values: &[
                    $(GateValue {
                        name: $name,
                        since: if $since.0 == NEVER.0 { None } else { Some($since) },
                        stable: listed!($($stable)?),
                        what: $meaning,
                        sources: &[$($source),+],
                        proof: Proof::of(
                            listed!($($vectors)?),
                            optional!($($kernels)?),
                            $since.0 != NEVER.0 || !<[Backport]>::is_empty(listed!($($stable)?)),
                            &[$($source),+],
                        ),
                    },)+
                ],
            },)+
        ];
        /// How a kernel of some version behaves: the value of every gate.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct KernelProfile {
            /// The mainline release.
            pub version: Version,
            /// The point release whose backports it has, too; 0: none.
            pub point: u16,
            /// What was posted for the kernel and not merged, and is added to it.
            pub proposals: Proposals,
            $(
                #[doc = $what]
                pub $field: $type,
            )+
        }

        impl KernelProfile {
            /// The gates of a mainline release; releases before v4.14 count as that.
            pub fn at(version: Version) -> Self {
                Self::of(version, 0)
            }

            /// The gates of point release `point` of `version`.
            pub fn of(version: Version, point: u16) -> Self {
                Self { version, point, proposals: Proposals::NONE, $($field: $type::of(version, point)),+ }
            }

            /// Overrides one gate by name.
            ///
            /// # Errors
            /// [`GateError`], with the names that there are.
            pub fn set(&mut self, gate: &str, value: &str) -> Result<(), GateError> {
                match gate {
                    $(
                        stringify!($field) => match $type::from_name(value) {
                            Some(value) => self.$field = value,
                            None => return Err(GateError::UnknownValue {
                                gate: stringify!($field),
                                value: value.to_owned(),
                                known: $type::ALL.iter().map(|value| value.name()).collect(),
                            }),
                        },
                    )+
                    _ => return Err(GateError::UnknownGate(gate.to_owned())),
                }
                Ok(())
            }

            /// The name of a gate's value; `None` if there is no such gate.
            pub fn show(&self, gate: &str) -> Option<&'static str> {
                match gate {
                    $(stringify!($field) => Some(self.$field.name()),)+
                    _ => None,
                }
            }
        }
    };
}

gates! {
    // Utilisation.
    invariance: Invariance, "How PELT follows the CPU's speed." {
        ScaledContribution = "scaled-contribution" since (4, 14), vectors ["oldpelt_se", "oldpelt_cfs"], "each contribution is multiplied by frequency and capacity", [Code("pelt.c:accumulate_sum()", "4.19"), Replaced("23127296889f")];
        TimeDilated = "time-dilated" since (5, 1), vectors ["clock_pelt"], "the clock runs slower on slow CPUs", [Commit("23127296889f"), Code("pelt.h:update_rq_clock_pelt()", "6.12.117")];
        None = "none" since NEVER, "busy time is taken as it is", [Text("002")];
    }
    arm_invariance: ArmInvariance, "Whether ARM machines know their speed relative to f_max." {
        Absent = "absent" since (4, 14), "no: nothing sets the frequency scale", [Recalled("0e27c567a4d3")];
        Present = "present" since (4, 15), "yes: the driver reports each change", [Recalled("0e27c567a4d3"), Recalled("e7d5459dfec2")];
    }
    x86_invariance: X86Invariance, "Which x86 machines know their speed relative to f_max." {
        Absent = "absent" since (4, 14), "none: the frequency scale is always 1024", [Replaced("1567c3e3467c")];
        Intel = "intel" since (5, 7), "Intel, with four-core turbo as f_max", [Commit("1567c3e3467c")];
        IntelAmd = "intel-amd" since (5, 11), vectors ["x86_intel_max_freq_ratio", "x86_amd_max_freq_ratio"], "AMD too, with the midpoint of max_boost and max_P as f_max", [Commit("41ea667227ba"), Commit("976df7e5730e")];
    }
    no_turbo_freq_max: NoTurboFreqMax, "What f_max is on Intel while intel_pstate's no_turbo is set." {
        Turbo = "turbo" since (4, 14), "that with turbo, so that utilisation stays below what the CPU is busy", [Replaced("addca285120b")];
        Base = "base" since (5, 19), "the base frequency", [Commit("addca285120b"), Mail("cpufreq: intel_pstate: Handle no_turbo in frequency invariance")];
    }
    no_turbo_cpuinfo_max: NoTurboCpuinfoMax, "What intel_pstate calls a policy's highest clock and level while no_turbo is set." {
        Turbo = "turbo" since (4, 14), "that with turbo: schedutil goes by it, whatever f_max is", [Replaced("f32587dcbe5f")];
        Base = "base" since (6, 10), "the base frequency", [Commit("f32587dcbe5f"), Commit("e8217b4bece3")];
    }
    runnable_signal: RunnableSignal, "What PELT keeps beside load and utilisation." {
        Load = "load" since (4, 14), vectors ["oldpelt_se", "oldpelt_cfs"], "the runnable load, runnable_load_avg", [Code("pelt.c:___update_load_sum()", "4.19"), Replaced("0dacee1bfa70"), Replaced("9f68395333ad")];
        Runnable = "runnable" since (5, 7), vectors ["pelt_cfs_hl32", "pelt_se_hl32"], "the number of runnable tasks, runnable_avg", [Commit("9f68395333ad"), Code("pelt.c:___update_load_sum()", "6.12.117")];
    }
    util_est: UtilEst, "How a task's utilisation is estimated at wake-up." {
        Absent = "absent" since (4, 14), "not at all: by its utilisation", [Replaced("7f65ea42eb00")];
        Quarter = "quarter" since (4, 17), "last activation and an average that moves by a quarter both ways", [Commit("7f65ea42eb00")];
        FastUp = "fast-up" since (5, 5), vectors ["v510_util_est"], "the average goes up at once", [Commit("b8c96361402a")];
        Filtered = "filtered" since (5, 12), stable [Backport::listed((5, 10), 36, "5.10.36")], vectors ["util_est_v61"], "small changes of the average still store the last activation", [Commit("b89997aa88f0")];
        Runnable = "filtered-runnable" since NEVER, "no decay while the task was kept waiting", [Commit("50181c0cff31")];
        Single = "single" since (6, 8), vectors ["util_est"], "one value", [Commit("11137d384996")];
    }
    util_est_decay: UtilEstDecay, "Whether the estimate of a task falls where its utilisation is above the CPU's capacity." {
        Any = "any" since (4, 14), "yes", [Replaced("10a35e6812aa")];
        Fitting = "fitting" since (5, 1), vectors ["v510_util_est", "util_est_v61", "util_est"], "no", [Commit("10a35e6812aa"), Code("fair.c:util_est_update()", "6.12.117")];
        AnyAgain = "any-again" since (6, 16), "yes", [Commit("f2d650618bc7")];
    }
    util_est_dequeue: UtilEstDequeue, "As of when a task that falls asleep is estimated." {
        AfterUpdate = "after-update" since (4, 14), "as of its leaving the queue", [Code("fair.c:dequeue_task_fair()", "6.1.192")];
        BeforeUpdate = "before-update" since (6, 12), "as of its last update before that, mostly a tick's", [Code("fair.c:dequeue_task_fair()", "6.12.117")];
    }
    migrate_pelt_lag: MigratePeltLag, "A task that leaves an idle CPU whose queue was not updated." {
        Ignored = "ignored" since (4, 14), "does not decay for that time", [Code("fair.c:migrate_task_rq_fair()", "5.10.262")];
        Estimated = "estimated" since (5, 19), "decays for it", [Code("fair.c:migrate_se_pelt_lag()", "6.1.192"), Commit("e2f3e35f1f5a")];
    }
    blocked_update: BlockedUpdate, "The averages that decay first where CPUs sleep." {
        FairFirst = "fair-first" since (4, 14), "those of the fair class; the governor hears of these only", [Replaced("bef69dd87828")];
        OthersFirst = "others-first" since (5, 5), stable [Backport::listed((5, 4), 15, "5.4.15")], "those of the other classes, and the governor hears of them", [Commit("bef69dd87828"), Code("fair.c:update_blocked_averages()", "5.10.262")];
    }
    irq_avg: IrqAvg, "Whether time in interrupts has a utilisation, where it is accounted for." {
        Absent = "absent" since (4, 14), "no", [Replaced("91c27493e78d")];
        Tracked = "tracked" since (4, 19), "yes", [Commit("91c27493e78d"), Code("pelt.c:update_irq_load_avg()", "5.10.262")];
    }
    dl_util: DlUtil, "By what the clock follows deadline tasks." {
        Highest = "highest" since (4, 14), "the highest frequency while one runs", [Replaced("d4edd662ac16")];
        Bandwidth = "bandwidth" since (4, 16), "their bandwidth", [Commit("d4edd662ac16"), Code("cpufreq_schedutil.c:schedutil_cpu_util()", "5.10.262")];
        Ran = "ran" since NEVER, "the time that they ran, as for real-time tasks", [Code("cpufreq_schedutil.c:sugov_get_util()", "Android's kernel/msm, android-msm-coral-4.14")];
    }
    // schedutil.
    sugov_util: SugovUtil, "Which utilisation schedutil computes." {
        Clamped = "clamped" since (4, 14), vectors ["v510_schedutil_cpu_util", "effective_cpu_util_v61"], "one number, clamped by uclamp", [Code("cpufreq_schedutil.c:schedutil_cpu_util()", "5.10.262")];
        Bounded = "bounded" since (6, 8), stable [Backport::known((6, 6), 89, REWORK_6_6)], vectors ["effective_cpu_util"], "the utilisation and its bounds apart", [Commit("9c0b4bb7f630"), Code("cpufreq_schedutil.c:sugov_effective_cpu_perf()", "6.12.117")];
    }
    headroom: HeadroomPlace, "Where schedutil's headroom of 1.25 is applied." {
        InFrequency = "in-frequency" since (4, 14), vectors ["v510_schedutil_cpu_util"], "on the reference frequency", [Code("cpufreq_schedutil.c:get_next_freq()", "5.10.262")];
        InClampedUtil = "in-clamped-util" since (5, 14), vectors ["sugov_seq_v61"], "on the clamped utilisation", [Commit("8f1b971b4750"), Code("cpufreq_schedutil.c:get_next_freq()", "6.1.192")];
        InEffectivePerf = "in-effective-perf" since (6, 8), stable [Backport::known((6, 6), 89, REWORK_6_6)], vectors ["sugov_seq"], "on the utilisation, before it is bounded", [Commit("9c0b4bb7f630"), Code("cpufreq_schedutil.c:sugov_effective_cpu_perf()", "6.12.117")];
    }
    noninvariant_headroom: NoninvariantHeadroom, "How often the headroom counts without frequency invariance." {
        Once = "once" since (4, 14), vectors ["sugov_seq_v61"], "1.25 * f_curr * util", [Text("002"), Code("cpufreq_schedutil.c:get_next_freq()", "6.1.192")];
        Missing = "missing" since NEVER, stable [Backport::known((6, 6), 89, REWORK_6_6).until(103)], "not at all: a busy CPU stays at its frequency", [Mail("sched/fair: Fix frequency selection for non-invariant case, 6.6"), Commit("e37617c8e53a")];
        Twice = "twice" since (6, 8), stable [Backport::known((6, 6), 103, FREQ_REF_6_6)], vectors ["sugov_seq"], "1.25 * f_curr * 1.25 * util", [Commit("e37617c8e53a"), Code("cpufreq_schedutil.c:get_capacity_ref_freq()", "6.12.117")];
    }
    freq_ref: FreqRef, "The frequency of which an invariant utilisation is a share." {
        CpuinfoMax = "cpuinfo-max" since (4, 14), vectors ["sugov_seq_v61"], "the policy's hardware maximum", [Code("cpufreq_schedutil.c:get_next_freq()", "6.1.192")];
        Arch = "arch" since (6, 8), stable [Backport::known((6, 6), 103, FREQ_REF_6_6)], vectors ["sugov_seq"], "arch_scale_freq_ref() where the architecture has one", [Commit("b3edde44e5d4"), Code("cpufreq_schedutil.c:get_capacity_ref_freq()", "6.12.117")];
    }
    acpi_cpuinfo_max: AcpiCpuinfoMax, "What acpi-cpufreq calls the policy's hardware maximum." {
        P0 = "p0" since (4, 14), "the highest entry of its table", [Text("000")];
        Boost = "boost" since (5, 12), stable [Backport::listed((5, 10), 20, "5.10.20")], "the highest boost frequency, where CPPC reports it", [Commit("538b0188da46"), Code("acpi-cpufreq.c:acpi_cpufreq_cpu_init()", "6.1.192")];
    }
    acpi_freq_max: AcpiFreqMax, "What f_max is on x86 where acpi-cpufreq finds no boost frequency." {
        Registers = "registers" since (4, 14), "that of the registers or of CPPC, boost or not", [Replaced("d11a1d08a082")];
        Base = "base" since (5, 11), stable [Backport::mailed((5, 10), 17, "[PATCH 5.10 000/104] 5.10.17-rc1 review")], "the base frequency", [Commit("d11a1d08a082"), Code("acpi-cpufreq.c:acpi_cpufreq_cpu_init()", "6.1.192")];
    }
    amd_highest_perf: AmdHighestPerf, "What counts as AMD's highest performance for f_max and for acpi-cpufreq's maximum." {
        Register = "register" since (4, 14), "the CPU's own, by CPPC", [Replaced("3743d55b289c")];
        Model = "model" since (5, 13), stable [Backport::mailed((5, 11), 22, "Linux 5.11.22"), Backport::mailed((5, 12), 5, "[PATCH 5.12 261/363] x86, sched: Fix the AMD CPPC maximum performance value on certain AMD Ryzen generations")], "166 on two lists of models, among them the EPYCs of Zen 2; 255 elsewhere", [Commit("3743d55b289c"), Code("amd.c:amd_get_highest_perf()", "6.1.192")];
        AllCpus = "all-cpus" since (6, 12), vectors ["x86_amd_max_freq_ratio"], "that of CPPC where all CPUs have the same, a constant where they differ", [Commit("279f838a61f9"), Code("cppc.c:amd_get_boost_ratio_numerator()", "6.12.117")];
    }
    runnable_boost: RunnableBoost, "Whether waiting tasks raise the utilisation that the governor sees." {
        Off = "off" since (4, 14), vectors ["sugov_seq_v61", "feec_v61"], "no", [Code("sched.h:cpu_util_cfs()", "6.1.192")];
        On = "on" since (6, 5), vectors ["sugov_seq", "feec"], "a larger runnable signal counts instead", [Commit("7d0583cf9ec7"), Code("fair.c:cpu_util()", "6.12.117")];
    }
    shared_stale_cpus: SharedStaleCpus, "CPUs of a shared policy that did not report for a tick." {
        Ignored = "ignored" since (4, 14), "are left out", [Recalled("8f111bc357aa"), Code("cpufreq_schedutil.c:sugov_next_freq_shared()", "Android's kernel/msm, android-msm-coral-4.14")];
        Counted = "counted" since (4, 17), "count with their decayed utilisation", [Recalled("8f111bc357aa"), Code("cpufreq_schedutil.c:sugov_next_freq_shared()", "5.10.262")];
    }
    sugov_iowait_boost: SugovIowaitBoost, "The unit of schedutil's boost for I/O." {
        Frequency = "frequency" since (4, 14), "kHz, from the lowest frequency on", [Memory];
        Capacity = "capacity" since (5, 1), vectors ["sugov_iowait", "sugov_iowait_v61"], "capacity, from 128 on", [Code("cpufreq_schedutil.c:sugov_iowait_boost()", "5.10.262")];
    }
    sugov_clamps: SugovClamps, "What utilisation clamps hold for beside the utilisation." {
        UtilOnly = "util-only" since (4, 14), "nothing", [Replaced("d37aee9018e6"), Code("cpufreq_schedutil.c:sugov_iowait_apply()", "5.10.262")];
        BoostToo = "boost-too" since (5, 18), vectors ["sugov_iowait_v61", "sugov_seq_v61"], "the boost for I/O too, and a cap lets the frequency of a busy CPU fall", [Commit("d37aee9018e6"), Commit("7a17e1db1265"), Code("cpufreq_schedutil.c:sugov_iowait_apply()", "6.1.192")];
    }
    rate_limit: RateLimit, "The transition delay if the driver suggests none: schedutil's default rate limit, and ondemand's and conservative's default time between samples where that is over two ticks." {
        Latency1000Max10ms = "latency-x1000-10ms" since (4, 14), "a thousand transition latencies, at most 10 ms", [Code("cpufreq.c:cpufreq_policy_transition_delay_us()", "6.1.192")];
        Latency1000Max2ms = "latency-x1000-2ms" since (6, 9), "a thousand transition latencies, at most 2 ms", [Commit("e13aa799c2a6")];
        Latency1_5 = "latency-x1.5" since (6, 12), vectors ["schedutil_map"], "one and a half transition latencies", [Commit("37c6dccd6837"), Code("cpufreq.c:cpufreq_policy_transition_delay_us()", "6.12.117")];
    }
    unknown_latency: UnknownLatency, "The transition latency of cpufreq-dt, scmi and scpi where it is not known." {
        Eternal = "eternal" since (4, 14), "CPUFREQ_ETERNAL, 4294967295 ns", [Replaced("f97aef092e19")];
        Millisecond = "1ms" since (6, 18), stable [Backport::listed((6, 12), 54, "6.12.54"), Backport::mailed((6, 17), 4, "[PATCH 6.17 013/371] cpufreq: Make drivers using CPUFREQ_ETERNAL specify transition latency")], "1 ms", [Commit("f97aef092e19")];
    }
    rate_limits: RateLimits, "schedutil's tunables of its rate limit." {
        One = "one" since (4, 14), "rate_limit_us", [Code("cpufreq_schedutil.c:rate_limit_us_store()", "6.12.117")];
        UpAndDown = "up-and-down" since NEVER, "up_rate_limit_us and down_rate_limit_us", [Code("cpufreq_schedutil.c", "Android's kernel/common, android-4.14")];
    }
    need_freq_update: NeedFreqUpdate, "How long schedutil goes by no equal frequency after its limits changed or deadline bandwidth grew. Drivers that want to know of limits are intel_cpufreq, amd-pstate and cppc_cpufreq." {
        Once = "once" since (4, 14), "one update", [Replaced("23a881852f3e")];
        Sticky = "sticky" since (5, 10), "one update, which starts the rate limit anew at an equal frequency, too; from then on for those drivers, and a busy CPU's frequency may fall", [Commit("23a881852f3e"), Replaced("8e461a1cb43d")];
        DriverOnce = "driver-once" since (6, 14), stable [Backport::listed((5, 10), 235, "5.10.235"), Backport::mailed((5, 15), 179, "[PATCH 5.15 053/620] cpufreq: schedutil: Fix superfluous updates caused by need_freq_update"), Backport::listed((6, 1), 129, "6.1.129"), Backport::mailed((6, 6), 76, "[PATCH 6.6 082/393] cpufreq: schedutil: Fix superfluous updates caused by need_freq_update"), Backport::listed((6, 12), 13, "6.12.13"), Backport::mailed((6, 13), 2, "[PATCH 6.13 122/623] cpufreq: schedutil: Fix superfluous updates caused by need_freq_update")], "one update, for those drivers; others hear of new limits only once the utilisation asks for another frequency", [Commit("8e461a1cb43d"), Replaced("cfde542df7dd")];
        OnceAgain = "once-again" since (6, 15), stable [Backport::listed((5, 10), 237, "5.10.237"), Backport::mailed((5, 15), 181, "[PATCH 5.15 153/373] cpufreq/sched: Fix the usage of CPUFREQ_NEED_UPDATE_LIMITS"), Backport::listed((6, 1), 135, "6.1.135"), Backport::mailed((6, 6), 88, "[PATCH 6.6 299/393] cpufreq/sched: Fix the usage of CPUFREQ_NEED_UPDATE_LIMITS"), Backport::listed((6, 12), 25, "6.12.25"), Backport::mailed((6, 14), 4, "[PATCH 6.14 129/241] cpufreq/sched: Explicitly synchronize limits_changed flag handling")], vectors ["sugov_seq", "sugov_seq_v61"], "one update", [Commit("cfde542df7dd"), Code("cpufreq_schedutil.c:sugov_update_next_freq()", "6.12.117")];
    }
    inefficient_opps: InefficientOpps, "Whether requests pass over frequencies that the energy model marks as inefficient, where the driver registers the model of its table." {
        Requested = "requested" since (4, 14), "no: only the limits and the table count", [Replaced("1f39fa0dccff")];
        PassedOver = "passed-over" since (5, 16), vectors ["freq_table"], "yes, up to the next efficient one within the limits (CPUFREQ_RELATION_E), but for performance, powersave and userspace", [Commit("1f39fa0dccff"), Commit("b894d20e6867"), Commit("e458716a92b5"), Code("cpufreq.h:cpufreq_frequency_table_target()", "6.12.117")];
    }
    policy_limits: PolicyLimits, "What scaling_min_freq and scaling_max_freq become where the table does not have them." {
        AsSet = "as-set" since (4, 14), "limits as they are set; a request may resolve to the entry beyond them", [Replaced("151717690694")];
        Resolved = "resolved" since (5, 16), "entries of the table: the lowest above the minimum, the highest below the maximum", [Commit("151717690694"), Code("cpufreq.c:cpufreq_set_policy()", "6.12.117")];
    }
    cpufreq_pressure: CpufreqPressure, "Whether a lowered maximum frequency lowers the capacity that the scheduler takes a CPU to have." {
        Absent = "absent" since (4, 14), "no: tasks are placed as if the CPU reached its highest frequency", [Replaced("75d659317bb1"), Replaced("f1f8d0a22422")];
        Present = "present" since (6, 10), "yes, in proportion, where the architecture has arch_scale_freq_ref()", [Commit("75d659317bb1"), Commit("f1f8d0a22422"), Mail("[PATCH v8 1/5] cpufreq: Add a cpufreq pressure feedback for the scheduler")];
    }
    sugov_affinity: SugovAffinity, "Whether user space may move schedutil's threads." {
        Bound = "bound" since (4, 14), recorded "6.1 and 6.12", "no: bound to the policy's CPUs", [Code("cpufreq_schedutil.c:sugov_kthread_create()", "6.12.117")];
        Free = "free" since (6, 14), "yes, where any CPU may change the frequency", [Text("004"), Commit("93940fbdc468"), Code("cpufreq_schedutil.c:sugov_kthread_create()", "7.2.13")];
    }
    // Energy-aware scheduling.
    eas: Eas, "Energy-aware task placement." {
        Absent = "absent" since (4, 14), "does not exist", [Replaced("732cd75b8c92")];
        Present = "present" since (5, 0), recorded "6.1 and 6.12", "find_energy_efficient_cpu()", [Commit("732cd75b8c92")];
        Groups = "groups" since NEVER, "energies of scheduling groups, all CPUs compared", [Code("fair.c", "Android's kernel/msm, android-msm-coral-4.14")];
    }
    overutilized: Overutilized, "Where it is noted that energy must not decide." {
        RootDomain = "root-domain" since (4, 14), recorded "6.1 and 6.12", "for all CPUs together", [Commit("2802bf3cd936")];
        EachDomain = "each-domain" since NEVER, "in each scheduling domain, from 95 % of a CPU on", [Code("fair.c", "Android's kernel/msm, android-msm-coral-4.14")];
    }
    feec_margin: FeecMargin, "What another CPU must save for a task to leave its previous one." {
        SixPercentPrev = "6-percent-of-prev" since (4, 14), "a sixteenth of the energy with the task on its previous CPU", [Replaced("eb92692b2544")];
        SixPercentTotal = "6-percent-of-total" since (5, 4), vectors ["v510_feec"], "a sixteenth of all energy", [Commit("eb92692b2544"), Code("fair.c:find_energy_efficient_cpu()", "5.10.262")];
        None = "none" since (6, 0), vectors ["feec_v61", "feec"], "anything", [Commit("b812fc9768e0")];
    }
    feec_energy: FeecEnergy, "How the energy with a task on a CPU is computed." {
        AllDomains = "all-domains" since (4, 14), "of all domains, with differences that may wrap", [Code("fair.c:compute_energy()", "5.10.262")];
        BusyTime = "busy-time" since (5, 14), "of the domains with a candidate, busy time apart from frequency", [Commit("619e090c8e40")];
        Clamped = "clamped" since (6, 0), "the frequency follows the clamped utilisation", [Commit("3e8c6c9aac42"), Code("fair.c:eenv_pd_max_util()", "6.1.192")];
        Bounded = "bounded" since (6, 8), stable [Backport::known((6, 6), 89, REWORK_6_6)], "the frequency follows the utilisation within its bounds, which has the headroom; until then the energy model added it", [Commit("9c0b4bb7f630"), Code("fair.c:eenv_pd_max_util()", "6.12.117"), Code("energy_model.h:em_cpu_energy()", "6.12.117")];
    }
    feec_runnable: FeecRunnable, "The runnable signal of a CPU that a waking task comes to or leaves, where it counts for the energy." {
        Whole = "whole" since (4, 14), recorded "6.18", "all of it, and the task's utilisation more or less", [Commit("7d0583cf9ec7")];
        Moved = "moved" since (7, 2), stable [Backport::listed((6, 12), 97, "6.12.97")], vectors ["feec"], "with the task's own runnable signal more or less", [Commit("29922fdfc2a4"), Code("fair.c:cpu_util()", "6.12.117")];
    }
    feec_full_cpus: FeecFullCpus, "Whether a CPU without spare capacity can be where energy-aware placement puts a capped task." {
        Never = "never" since (4, 14), "no", [Replaced("6b00a4014765"), Code("fair.c:find_energy_efficient_cpu()", "5.10.262")];
        Capped = "capped" since (6, 7), stable [Backport::listed((6, 1), 63, "6.1.63"), Backport::listed((6, 5), 12, "6.5.12"), Backport::mailed((6, 6), 2, "[PATCH 6.6 007/603] sched/uclamp: Set max_spare_cap_cpu even if max_spare_cap is 0")], vectors ["feec_v61", "feec"], "yes, where the task's cap lets it fit", [Commit("6b00a4014765"), Code("fair.c:find_energy_efficient_cpu()", "6.1.192")];
    }
    em_cost: EmCost, "How the energy model's costs are formed." {
        MilliWatt = "mW" since (4, 14), vectors ["v510_feec"], "fmax * mW / freq", [Code("energy_model.c:em_create_perf_table()", "5.10")];
        MilliWattThousandths = "mW-thousandths" since NEVER, stable [Backport::mailed((5, 4), 146, "[PATCH 5.4 082/144] PM: EM: Increase energy calculation precision"), Backport::listed((5, 10), 65, "5.10.65"), Backport::mailed((5, 13), 17, "[PATCH 5.13 161/300] PM: EM: Increase energy calculation precision")], "the same, in thousandths", [Commit("7fcc17d0cb12")];
        MilliWattCapped = "mW-capped" since (5, 14), "the frequency follows the utilisation within what the CPUs may do; costs are fmax * mW / freq", [Commit("8f1b971b4750")];
        MilliWattCappedThousandths = "mW-capped-thousandths" since (5, 15), stable [Backport::listed((5, 14), 4, "5.14.4")], "the same, in thousandths", [Commit("7fcc17d0cb12")];
        MilliWattEfficient = "mW-efficient" since (5, 16), "the same, inefficient states passed over", [Commit("8354eb9eb3dd")];
        MicroWatt = "uW" since (6, 0), vectors ["em_table_v61", "feec_v61"], "fmax * uW / freq", [Commit("ae6ccaa65038"), Code("energy_model.c:em_create_perf_table()", "6.1.192")];
        Performance = "performance" since (6, 9), vectors ["em_table", "feec"], "uW * 10 / performance", [Commit("1b600da51073"), Code("energy_model.c:em_compute_costs()", "6.12.117")];
    }
    // The fair class and placement.
    fair_class: FairClass, "How the fair class picks." {
        Cfs = "cfs" since (4, 14), vectors ["v510_cfs_seq", "v510_wakeup_preempt"], "the smallest virtual run time", [Code("fair.c:pick_next_entity()", "6.1.192")];
        Eevdf = "eevdf" since (6, 6), vectors ["eevdf_seq"], "the earliest virtual deadline of those eligible", [Commit("147f3efaa241"), Code("fair.c:pick_eevdf()", "6.12.117")];
    }
    base_slice: BaseSlice, "The base slice before scaling by the number of CPUs (CFS: the minimal granularity)." {
        Us750 = "0.75ms" since (4, 14), "0.75 ms", [Code("fair.c:sysctl_sched_min_granularity", "6.1.192"), Replaced("2ae891b82695")];
        Us700 = "0.70ms" since (6, 15), stable [Backport::mailed((6, 6), 93, "[PATCH 6.6 239/444] sched: Reduce the default slice to avoid tasks getting an extra tick"), Backport::listed((6, 12), 31, "6.12.31"), Backport::mailed((6, 14), 9, "[PATCH 6.14 466/783] sched: Reduce the default slice to avoid tasks getting an extra tick")], vectors ["eevdf_seq"], "0.70 ms", [Commit("2ae891b82695"), Code("fair.c:sysctl_sched_base_slice", "6.12.117")];
    }
    delay_dequeue: DelayDequeue, "Whether a task that sleeps while not eligible stays queued." {
        Off = "off" since (4, 14), "no", [Replaced("152e11f6df29")];
        On = "on" since (6, 12), vectors ["eevdf_seq"], "until it is eligible", [Commit("152e11f6df29"), Code("fair.c:dequeue_entity()", "6.12.117")];
    }
    tg_load: TgLoad, "How often a task group's queue reports its load to the group." {
        EachUpdate = "each-update" since (4, 14), "at each update that changes it by more than 1/64", [Replaced("1528c661c24b")];
        OncePerMs = "once-per-ms" since (6, 7), "the same, at most once a millisecond", [Commit("1528c661c24b"), Code("fair.c:update_tg_load_avg()", "6.12.117")];
    }
    cfs_period_timer: CfsPeriodTimer, "When the periods of a task group's quota begin." {
        Aligned = "aligned" since (4, 14), "at multiples of the period, those of all groups together", [Replaced("41abdba93747")];
        Interleaved = "interleaved" since (6, 4), "each group's at a time of its own, drawn at its creation", [Commit("41abdba93747"), Code("fair.c:init_cfs_bandwidth()", "6.12.117")];
    }
    cfs_first_runtime: CfsFirstRuntime, "What a queue of a group with a quota has before it took anything." {
        Nothing = "nothing" since (4, 14), "nothing: where the pool is empty, the first task waits for the next period", [Replaced("956dfda6a708"), Code("core.c:tg_set_cfs_bandwidth()", "6.12.117")];
        OneNs = "1ns" since (6, 18), recorded "6.18", "1 ns: the first task runs up to a tick before it is charged", [Commit("956dfda6a708")];
    }
    cfs_throttle: CfsThrottle, "What of a task group stops on a CPU whose quota has run out." {
        Queue = "queue" since (4, 14), "its queue, with all tasks in it, wherever they are", [Replaced("e1fad12dcb66"), Code("fair.c:throttle_cfs_rq()", "6.12.117")];
        Task = "task" since (6, 18), recorded "6.18", "each task when it is about to return to user space", [Commit("e1fad12dcb66")];
    }
    throttled_time: ThrottledTime, "From when a queue that a quota stopped counts as throttled (`throttled_usec`)." {
        Stopped = "stopped" since (4, 14), "from its stop on, empty or not", [Replaced("79462e8c879a"), Code("fair.c:throttle_cfs_rq()", "6.1.192")];
        WithTask = "with-task" since (6, 6), "from when it has a task", [Commit("79462e8c879a")];
    }
    cpu_pressure: CpuPressure, "What counts as pressure of CPUs (PSI)." {
        Absent = "absent" since (4, 14), "nothing: there is no PSI", [Memory];
        MoreThanOne = "more-than-one" since (4, 20), "some: a CPU has more than one task of the group that could run", [Memory];
        Waiting = "waiting" since (5, 7), "some: a task of the group could run and does not, throttled or behind another group's too", [Commit("b05e75d61138")];
        WithFull = "with-full" since (5, 13), "the same; full: none of those that could run does", [Commit("e7fcd7622823"), Code("psi.c:test_states()", "6.12.117")];
    }
    residual_tick: ResidualTick, "Who ticks once a second for a CPU of `nohz_full` whose tick is stopped." {
        Own = "own" since (4, 14), "the CPU itself", [Replaced("d84b31313ef8")];
        Remote = "remote" since (4, 17), "a CPU with housekeeping, which may not change every clock", [Commit("d84b31313ef8"), Code("core.c:sched_tick_remote()", "6.1.192")];
    }
    rt_throttling: RtThrottling, "What keeps fair tasks from starving behind real-time tasks." {
        Period = "period" since (4, 14), "real-time tasks have 950 ms of each second of a CPU", [Code("rt.c:sched_rt_runtime_exceeded()", "6.1.192")];
        FairServer = "fair-server" since (6, 12), "fair tasks have a deadline server of 50 ms in a second, deferred", [Commit("5f6bd380c7bd"), Commit("d741f297bcea"), Code("deadline.c:dl_server_start()", "6.12.117")];
        None = "none" since NEVER, "nothing: sched_rt_runtime_us is -1", [Doc("Documentation/scheduler/sched-rt-group.rst")];
    }
    grub: Grub, "What deadline tasks that reclaim bandwidth (SCHED_FLAG_RECLAIM) may use of a CPU together." {
        Whole = "whole" since (4, 14), "all of it, less what inactive tasks have and what is not admitted", [Code("deadline.c:grub_reclaim()", "6.1.192")];
        Limit = "limit" since (6, 5), "the share that deadline tasks may have, 95 %", [Commit("6a9d623aad89"), Code("deadline.c:grub_reclaim()", "6.12.117")];
    }
    select_idle_scan: SelectIdleScan, "What limits the search for an idle CPU at wake-up." {
        SisProp = "sis-prop" since (4, 14), "a 512th of the average idle time against the cost of scanning; cores, CPUs, then siblings", [Commit("4c77b18cf8b7"), Code("fair.c:select_idle_cpu()", "5.10.262")];
        SisPropAged = "sis-prop-aged" since (5, 14), "half the average idle time, aging while busy, against the cost of scanning; siblings first (the order is v5.13's)", [Commit("94aafc3ee31d"), Code("fair.c:select_idle_cpu()", "5.15")];
        SisUtil = "sis-util" since (5, 19), vectors ["select_idle_sibling", "lb_idle_scan"], "the utilisation of the cache domain", [Commit("70fb5ccf2ebb"), Code("fair.c:select_idle_cpu()", "6.12.117")];
    }
    idlest_group: IdlestGroup, "How a new task or an exec finds the group of CPUs that it goes to, and which loads a wake-up compares." {
        Loads = "loads" since (4, 14), "by the load of what is queued, with a margin, and on average; an exec by spare capacity first. A wake-up compares what is queued", [Code("fair.c:find_idlest_group()", "5.4"), Replaced("57abff067a08"), Replaced("11f10e5420f6")];
        Types = "types" since (5, 5), "by the type of group, then the number of idle CPUs; on its NUMA node while that has an idle CPU. A wake-up compares average loads", [Commit("57abff067a08"), Commit("11f10e5420f6")];
        Util = "util" since (5, 9), "by the utilisation, too, where as many are idle", [Commit("3edecfef0285")];
        NumaImbalance = "numa-imbalance" since (5, 11), "on its node only while few tasks run there", [Commit("7d2b5dd0bcc4"), Code("fair.c:find_idlest_group()", "6.1.192")];
    }
    far_nodes: FarNodes, "How far apart NUMA nodes are that no fork, exec or wake-up moves a task between (`node_reclaim_distance`)." {
        Beyond30 = "30" since (4, 14), "beyond 30 on every machine, and AMD's sockets are 32 apart", [Replaced("a55c7454a8c8")];
        Zen = "32-zen" since (5, 4), "beyond 32 on AMD's family 0x17, beyond 30 elsewhere", [Commit("a55c7454a8c8")];
        ZenOn = "32-zen-on" since (5, 7), "beyond 32 on AMD's families from 0x17 on, beyond 30 elsewhere", [Commit("753039ef8b2f"), Code("amd.c:init_amd_zen_common()", "6.12.117")];
    }
    wake_affine_idle: WakeAffineIdle, "Where an interrupt on an idle CPU starts the search for an idle CPU." {
        Here = "here" since (4, 14), "on the CPU of the interrupt, whatever cache the previous CPU has", [Replaced("7332dec055f2"), Replaced("806486c377e3")];
        Shared = "shared-cache" since (4, 16), vectors ["wake_affine"], "there, if both share a cache and the previous CPU is busy", [Commit("7332dec055f2"), Commit("806486c377e3"), Code("fair.c:wake_affine_idle()", "6.12.117")];
    }
    recent_used_cpu: RecentUsedCpu, "Whether a wake-up tries the CPU that the task used before its previous one." {
        Ignored = "ignored" since (4, 14), "no", [Recalled("32e839dda3ba")];
        Tried = "tried" since (4, 16), vectors ["select_idle_sibling"], "yes, where it shares the cache", [Recalled("32e839dda3ba"), Code("fair.c:select_idle_sibling()", "6.12.117")];
    }
    asym_wakes: AsymWakes, "Where a task wakes that the CPUs at hand are too small for, on a machine with CPUs of several capacities." {
        SlowPath = "idlest" since (4, 14), "in the idlest group of the widest domain (wake_cap()); the search near a CPU ignores capacities", [Replaced("b7a331615d25"), Replaced("000619680c37"), Replaced("a526d466798d")];
        Search = "search" since (5, 7), vectors ["select_idle_sibling"], "on an idle CPU that is large enough", [Commit("b7a331615d25"), Commit("000619680c37"), Commit("a526d466798d"), Code("fair.c:select_idle_capacity()", "6.12.117")];
    }
    wake_affine_prev: WakeAffinePrev, "Whether a wake-up on a busy CPU stays with the task's previous CPU because that is idle." {
        Compared = "compared" since (4, 14), "no, the loads are compared", [Replaced("d8fcb81f1acf")];
        Idle = "idle" since (5, 11), "yes", [Commit("d8fcb81f1acf")];
    }
    wake_affine_sync: WakeAffineSync, "Tasks that sleep with a delayed dequeue, where a waker is about to sleep and may hand its CPU on." {
        Counted = "counted" since (4, 14), "count as running, so that the waker is not alone", [Replaced("aa3ee4f0b754")];
        LeftOut = "left-out" since (6, 16), stable [Backport::known((6, 12), 37, Source::Mail("[PATCH 6.12 000/232] 6.12.37-rc1 review")), Backport::mailed((6, 15), 3, "[PATCH 6.15 048/780] sched/fair: Fixup wake_up_sync() vs DELAYED_DEQUEUE")], vectors ["wake_affine"], "do not count", [Commit("aa3ee4f0b754"), Code("fair.c:wake_affine_idle()", "6.12.117")];
    }
    wake_queue: WakeQueue, "Which CPUs queue by themselves the tasks that other CPUs wake on them." {
        Remote = "remote" since (4, 14), "those that share no cache with the waker", [Replaced("f3dd3f674555")];
        RemoteOrIdle = "remote-or-idle" since (6, 0), stable [Backport::mailed((5, 15), 61, "[PATCH 5.15 000/778] 5.15.61-rc2 review"), Backport::mailed((5, 18), 18, "Linux 5.18.18-rc1 (its list of commits)"), Backport::mailed((5, 19), 2, "Linux 5.19.2-rc2 (its list of commits)")], "those, and idle ones, which do so after their exit from idle", [Commit("f3dd3f674555")];
    }
    idle_sibling: IdleSibling, "Whether a wake-up without energy looks for an idle CPU." {
        Search = "search" since (4, 14), vectors ["select_idle_sibling"], "select_idle_sibling()", [Code("fair.c:select_idle_sibling()", "6.12.117")];
        Stay = "stay" since NEVER, "no: its search by idle state finds none", [Code("fair.c:select_idle_sibling_cstate_aware()", "Android's kernel/msm, android-msm-coral-4.14")];
    }
    bound_kworker_wakes: BoundKworkerWakes, "Where a thread of a bound workqueue wakes a task that slept on the thread's own CPU." {
        Elsewhere = "elsewhere" since (4, 14), "on another CPU, as its own is busy with the thread", [Replaced("52262ee567ad")];
        Stacks = "stacks" since (5, 6), "there, if nothing else is runnable on it", [Commit("52262ee567ad"), Code("fair.c:select_idle_sibling()", "6.12.117")];
    }
    xfs_cil: XfsCil, "Where XFS pushes its log." {
        Bound = "bound" since (4, 14), "on the CPU that asks for it", [Replaced("8ab39f11d974")];
        Unbound = "unbound" since (5, 4), "where the scheduler puts the worker", [Commit("8ab39f11d974"), Code("xfs_log_cil.c", "5.4")];
    }
    sched_idle_cpu: SchedIdleCpu, "A CPU with tasks of SCHED_IDLE only." {
        Busy = "busy" since (4, 14), "is busy for others", [Memory];
        Idle = "idle" since (5, 4), "is as good as idle for them", [Code("fair.c:sched_idle_cpu()", "5.10.262")];
    }
    uclamp: Uclamp, "Whether tasks have utilisation clamps (CONFIG_UCLAMP_TASK; Debian's kernels are built without it)." {
        Absent = "absent" since (4, 14), "no", [Replaced("69842cba9ace")];
        Present = "present" since (5, 3), vectors ["v510_schedutil_cpu_util", "effective_cpu_util"], "yes", [Commit("69842cba9ace"), Commit("982d9cdc22c9"), Code("core.c:uclamp_rq_inc()", "6.1.192")];
    }
    uclamp_fit: UclampFit, "How clamps count where it is asked whether something fits a CPU." {
        ClampedUtil = "clamped-util" since (4, 14), "the clamped utilisation must leave a fifth of the CPU free; the overutilised state knows no clamps", [Replaced("244226035a1f"), Replaced("c56ab1b3506b")];
        Bounds = "bounds" since (6, 2), stable [Backport::mailed((5, 10), 179, "[PATCH 5.10 40/68] sched/uclamp: Make cpu_overutilized() use util_fits_cpu()"), Backport::mailed((5, 15), 109, "[PATCH 5.15 46/73] sched/uclamp: Make cpu_overutilized() use util_fits_cpu()"), Backport::mailed((6, 0), 16, "[PATCH 6.0 0100/1073] sched/uclamp: Make cpu_overutilized() use util_fits_cpu()"), Backport::mailed((6, 1), 2, "[PATCH 6.1 0000/1146] 6.1.2-rc1 review")], "the utilisation must leave a fifth free, but a cap within the CPU makes all fit and a lower clamp beyond a smaller CPU nothing; a queue's clamps count for the overutilised state", [Commit("48d5e9daa8b7"), Commit("244226035a1f"), Commit("b759caa1d9f6"), Commit("c56ab1b3506b")];
        LowerApart = "lower-apart" since (6, 3), stable [Backport::listed((6, 1), 47, "6.1.47")], vectors ["util_fits_cpu_v61", "util_fits_cpu", "feec_v61", "feec"], "the same, but a CPU that can not grant the lower clamp alone is the second choice and not overutilised", [Commit("e5ed0550c04c"), Code("fair.c:util_fits_cpu()", "6.12.117")];
    }
    uclamp_inc: UclampInc, "When a task's clamps begin to count." {
        BeforeEnqueue = "before-enqueue" since (4, 14), "before its class queues it", [Code("core.c:enqueue_task()", "6.1.192")];
        AfterEnqueue = "after-enqueue" since (6, 12), "after that, since it may end a delayed dequeue", [Code("core.c:enqueue_task()", "6.12.117")];
        BeforeUpdate = "before-update" since (6, 16), "before its class queues it, so that the governor sees them; when a delayed dequeue ends, too", [Commit("90ca9410dab2")];
    }
    balance_groups: BalanceGroups, "What load balance compares groups of CPUs by." {
        Loads = "loads" since (4, 14), "what is queued, by capacity; spare CPUs count for an idle CPU beside an overloaded group", [Code("fair.c:find_busiest_group()", "4.19"), Replaced("0b0695f2b34a")];
        Similar = "loads-of-similar" since NEVER, "the same, but where CPUs have other capacities only misfits and overloaded groups are relieved, and of those at least one task", [Code("fair.c:update_sd_pick_busiest()", "Android's kernel/msm, android-msm-coral-4.14"), Code("fair.c:calculate_imbalance()", "Android's kernel/msm, android-msm-coral-4.14")];
        Types = "types" since (5, 5), "the type of group, by utilisation; then loads, tasks or idle CPUs, as the type asks for", [Commit("0b0695f2b34a")];
        Runnable = "types-and-runnable" since (5, 7), "the same, and tasks that wait make a group overloaded", [Commit("070f5e860ee2"), Code("fair.c:find_busiest_group()", "6.1.176")];
        Cores = "cores" since (6, 6), vectors ["lb_pass"], "the same by cores: SMT cores with several tasks, the first idle core balances, only idle CPUs even out siblings", [Commit("fee1759e4f04"), Commit("b1bfeab9b002"), Commit("7ff1693236f5"), Code("fair.c:sched_balance_find_src_group()", "6.12.117")];
    }
    balance_thresholds: BalanceThresholds, "From which difference on domains wider than a cache are balanced, and by how much busy CPUs stretch the interval." {
        Wide = "25-percent-x32" since (4, 14), "25 %, 32 times the interval", [Replaced("2208cdaa56c9"), Replaced("6e7499135db7")];
        Narrow = "17-percent-x16" since (5, 10), vectors ["sched_domains", "lb_interval"], "17 %, 16 times the interval less a jiffy", [Commit("2208cdaa56c9"), Commit("6e7499135db7"), Commit("e4d32e4d5444"), Code("topology.c:sd_init()", "6.1.176")];
    }
    detach_load: DetachLoad, "How much more load than the imbalance a task may have that balance moves." {
        Half = "twice" since (4, 14), "twice as much", [Code("fair.c:detach_tasks()", "4.19"), Replaced("0b0695f2b34a")];
        HalfUntilFailed = "twice-or-any" since (5, 5), "twice as much; any, once more passes failed than the cache is worth", [Replaced("5a7f55590467")];
        Halved = "doubled-by-failures" since (5, 10), vectors ["lb_detach"], "as much, and twice that for each failed pass", [Commit("5a7f55590467"), Code("fair.c:detach_tasks()", "6.1.176")];
    }
    smt_cache_hot: SmtCacheHot, "Whether a task that just ran is cache-hot for the other thread of its core." {
        Yes = "yes" since (4, 14), "yes", [Replaced("ec73240b1627"), Code("fair.c:task_hot()", "4.19")];
        No = "no" since (5, 10), vectors ["lb_detach"], "no", [Commit("ec73240b1627"), Code("fair.c:task_hot()", "6.1.176")];
    }
    active_balance: ActiveBalance, "When a running task is pushed because passes failed." {
        Any = "any" since (4, 14), "whatever the imbalance counts", [Code("fair.c:need_active_balance()", "4.19"), Replaced("e9b9734b7465")];
        Tasks = "tasks" since (5, 12), vectors ["lb_pass"], "where it counts tasks", [Commit("e9b9734b7465"), Code("fair.c:imbalanced_active_balance()", "6.1.176")];
    }
    balance_margin: BalanceMargin, "When balance takes CPUs for bigger than others." {
        Quarter = "25-percent" since (4, 14), "where the smallest or largest of a group is a quarter larger", [Replaced("4aed8aa41524")];
        FivePercent = "5-percent" since (5, 13), vectors ["lb_pass"], "where it is 5 % larger than the CPU", [Commit("4aed8aa41524"), Code("fair.c:capacity_greater()", "6.1.176")];
    }
    misfit: Misfit, "Whether a task that does not fit its CPU is balanced for." {
        Absent = "absent" since (4, 14), "no", [Code("fair.c:update_sg_lb_stats()", "4.19"), Replaced("3b1baa6496e6")];
        Balanced = "balanced" since (4, 20), vectors ["lb_pass"], "yes, by a bigger CPU", [Commit("3b1baa6496e6"), Code("fair.c:update_misfit_status()", "6.1.176")];
    }
    newidle_least: NewidleLeast, "For how long a CPU must expect to idle before it looks for work." {
        MigrationCost = "migration-cost" since (4, 14), "sysctl_sched_migration_cost, 0.5 ms", [Code("fair.c:idle_balance()", "4.19"), Replaced("c5b0a7eefc70")];
        LowestLevel = "lowest-level" since (5, 16), vectors ["lb_newidle"], "as long as the lowest level took at most", [Commit("c5b0a7eefc70"), Code("fair.c:newidle_balance()", "6.1.176")];
    }
    newidle_bail: NewidleBail, "A newly idle CPU that has a task or a wake-up on its way by now." {
        GoesOn = "goes-on" since (4, 14), "goes on looking for work", [Replaced("792b9f65a568"), Code("fair.c:should_we_balance()", "4.19")];
        Stops = "stops" since (6, 0), vectors ["lb_pass"], "stops", [Commit("792b9f65a568"), Code("fair.c:should_we_balance()", "6.1.176")];
    }
    newidle_skip: NewidleSkip, "Whether a CPU that goes idle passes over levels of balancing." {
        Cost = "cost" since (4, 14), "where they take longer than it will idle", [Replaced("33cf66d88306")];
        CostOfFailure = "cost-of-failure" since (6, 17), stable [Backport::listed((6, 1), 149, "6.1.149").until(160), Backport::mailed((6, 6), 103, "[PATCH 6.6 000/587] 6.6.103-rc1 review").until(120), Backport::listed((6, 12), 43, "6.12.43").until(64)], "the same, and a level that gave nothing costs half as much again as it ever did", [Commit("155213a2aed4"), Replaced("33cf66d88306")];
        CostAgain = "cost-again" since NEVER, stable [Backport::mailed((6, 18), 3, "[PATCH 6.18 014/430] sched/fair: Revert max_newidle_lb_cost bump")], "where they take longer than it will idle", [Mail("sched/fair: Revert max_newidle_lb_cost bump")];
        CostAndChance = "cost-and-chance" since (6, 19), stable [Backport::listed((6, 1), 160, "6.1.160"), Backport::known((6, 6), 120, NEWIDLE_6_6), Backport::listed((6, 12), 65, "6.12.65"), Backport::mailed((6, 18), 5, "[PATCH 6.18 4/5] sched/fair: Proportional newidle balance")], "and by chance, as it found little there before", [Commit("33cf66d88306"), Code("fair.c:sched_balance_newidle()", "6.12.117")];
    }
    nohz_next_kick: NohzNextKick, "When the next idle balance is, once a CPU stopped its tick." {
        Kept = "kept" since (4, 14), "as it was", [Replaced("efd984c481ab")];
        Recomputed = "recomputed" since (5, 15), stable [Backport::listed((5, 10), 231, "5.10.231")], "computed again", [Commit("efd984c481ab"), Code("fair.c:nohz_balancer_kick()", "6.1.192")];
    }
    // The other classes.
    fair_server: FairServer, "Whether fair tasks have a deadline server." {
        Absent = "absent" since (4, 14), "no", [Replaced("d741f297bcea")];
        Present = "present" since (6, 12), "yes", [Commit("d741f297bcea"), Code("fair.c:fair_server_init()", "6.12.117")];
    }
    rt_capacity: RtCapacity, "Whether real-time tasks avoid CPUs that are too small for their lower clamp." {
        Ignored = "ignored" since (4, 14), "no", [Replaced("804d402fb6f6")];
        ByClamp = "by-clamp" since (5, 6), "yes", [Commit("804d402fb6f6"), Code("rt.c:rt_task_fits_capacity()", "6.1.192")];
    }
    dl_capacity: DlCapacity, "Whether deadline tasks avoid CPUs that are too small for their density." {
        Ignored = "ignored" since (4, 14), "no", [Replaced("b4118988fdcb")];
        ByDensity = "by-density" since (5, 9), vectors ["dl_select"], "yes", [Commit("b4118988fdcb"), Code("sched.h:dl_task_fits_capacity()", "6.1.192")];
    }
    dl_rt_task: DlRtTask, "Whether a deadline task is a real-time one where such a task wakes." {
        Counted = "counted" since (4, 14), "yes", [Code("rt.h:rt_task()", "6.1.192")];
        Apart = "apart" since (6, 12), "no", [Code("rt.h:rt_task()", "6.12.117")];
    }
    // cpuidle.
    idle_tick: IdleTick, "When the tick of an idle CPU stops." {
        First = "before-choice" since (4, 14), "before the idle governor chooses, where no timer comes within a tick", [Replaced("554c8aa8ecad"), Replaced("0e7767687fda")];
        Chosen = "by-choice" since (4, 17), vectors ["cpuidle_menu", "cpuidle_menu_v61"], "after it, where the governor expects a long sleep", [Commit("554c8aa8ecad"), Commit("0e7767687fda"), Code("idle.c:cpuidle_idle_call()", "6.1.192")];
    }
    single_state_tick: SingleStateTick, "The tick of an idle CPU with at most one idle state." {
        Stopped = "stopped" since (4, 14), "stops at once", [Replaced("f4c31b07b136"), Replaced("e5c9ffc6ae1b")];
        Kept = "kept" since NEVER, stable [Backport::listed((5, 10), 252, "5.10.252"), Backport::listed((6, 1), 165, "6.1.165"), Backport::listed((6, 12), 75, "6.12.75"), Backport::mailed((6, 18), 14, "[PATCH 6.18 509/641] cpuidle: Skip governor when only one idle state is available"), Backport::mailed((6, 19), 4, "[PATCH 6.19 631/781] cpuidle: Skip governor when only one idle state is available")], "never stops with one state, at once without a driver", [Commit("e5c9ffc6ae1b")];
        Retained = "retained" since (7, 0), stable [Backport::listed((5, 10), 253, "5.10.253"), Backport::listed((6, 1), 167, "6.1.167"), Backport::mailed((6, 6), 130, "[PATCH 6.6 524/567] sched: idle: Consolidate the handling of two special cases"), Backport::listed((6, 12), 78, "6.12.78"), Backport::mailed((6, 18), 20, "[PATCH 6.18 145/212] sched: idle: Consolidate the handling of two special cases")], "stays until one found it idle", [Commit("f4c31b07b136"), Code("idle.c:idle_call_stop_or_retain_tick()", "6.12.117")];
    }
    poll_limit: PollLimit, "How long an idle CPU polls at most, where its governor sets no limit (haltpoll does)." {
        Unlimited = "none" since (4, 14), "until it is woken", [Replaced("a37b969a61c1")];
        TickShare = "tick-share" since (4, 17), "a sixteenth of a tick", [Commit("a37b969a61c1"), Code("poll_state.c:poll_idle()", "4.19")];
        FirstState = "first-state" since (4, 20), "the target residency of the first state that sleeps", [Replaced("259231a04561")];
        DeepestState = "deepest-state" since (5, 4), "that of the deepest state, by mistake", [Commit("259231a04561"), Replaced("36fcb4292473")];
        FirstStateAgain = "first-state-again" since (5, 5), stable [Backport::mailed((5, 4), 4, "[PATCH 5.4 109/177] cpuidle: use first valid target residency as poll time")], "that of the first state", [Commit("36fcb4292473")];
        Bounded = "bounded" since (5, 11), "that of the first state with 10 us or more, at most a sixteenth of a tick", [Commit("7a25759eaa04"), Code("cpuidle.c:cpuidle_poll_time()", "6.12.117")];
    }
    menu_iowait: MenuIowait, "Whether tasks that wait for I/O matter to the menu idle governor." {
        Counted = "counted" since (4, 14), vectors ["cpuidle_menu_v61"], "they have correction factors of their own and limit the exit latency (before v4.20 the load did, too)", [Code("menu.c:performance_multiplier()", "6.1.192")];
        Ignored = "ignored" since (6, 13), stable [Backport::mailed((6, 6), 103, "[PATCH 6.6 510/587] cpuidle: menu: Remove iowait influence"), Backport::listed((6, 12), 44, "6.12.44")], vectors ["cpuidle_menu", "cpuidle_menu_masks"], "they do not", [Commit("38f83090f515"), Code("menu.c:menu_select()", "6.12.117")];
    }
    menu_timers: MenuTimers, "When menu asks for the closest timer." {
        Always = "always" since (4, 14), vectors ["cpuidle_menu_v61"], "each time", [Code("menu.c:menu_select()", "6.1.192")];
        LongSleeps = "long-sleeps" since (6, 6), "not where typical sleeps are at most 15 us", [Commit("5484e31bbbff")];
        NoTick = "no-tick" since (7, 0), stable [Backport::listed((6, 12), 75, "6.12.75"), Backport::mailed((6, 18), 14, "[PATCH 6.18 041/641] cpuidle: governors: menu: Always check timers with tick stopped"), Backport::mailed((6, 19), 4, "[PATCH 6.19 044/781] cpuidle: governors: menu: Always check timers with tick stopped")], vectors ["cpuidle_menu", "cpuidle_menu_masks"], "nor then, but always without a tick", [Mail("cpuidle: governors: menu: Always check timers with tick stopped"), Code("menu.c:menu_select()", "6.12.117")];
        NearTimer = "near-timer" since (7, 1), "the same; without a tick a timer within two ticks is safety enough, so that the prediction stays", [Commit("e57c2bf2e89d"), Code("menu.c:menu_select()", "7.2.13")];
    }
    menu_typical: MenuTypical, "The typical interval of menu's last eight." {
        DropLongest = "drop-longest" since (4, 14), vectors ["cpuidle_menu", "cpuidle_menu_v61"], "without the longest ones, or none", [Code("menu.c:get_typical_interval()", "6.12.117")];
        DropLongestOrMost = "drop-longest-or-most" since NEVER, stable [Backport::mailed((5, 4), 294, "[PATCH 5.4 133/204] cpuidle: menu: Avoid discarding useful information").until(301), Backport::listed((5, 10), 238, "5.10.238").until(246), Backport::mailed((5, 15), 185, "[PATCH 5.15 096/207] cpuidle: menu: Avoid discarding useful information").until(196), Backport::listed((6, 1), 141, "6.1.141").until(158), Backport::mailed((6, 6), 93, "[PATCH 6.6 189/444] cpuidle: menu: Avoid discarding useful information").until(115), Backport::listed((6, 12), 31, "6.12.31").until(56), Backport::mailed((6, 14), 9, "[PATCH 6.14 361/783] cpuidle: menu: Avoid discarding useful information")], "without the longest ones, or the longest of those left", [Changelog("6.12.31"), Changelog("6.12.56")];
        BothEndsOrMost = "both-ends-or-most" since (6, 15), "without outliers on both sides, or the longest of those left", [Commit("85975daeaa4d"), Code("menu.c:get_typical_interval()", "6.16")];
        BothEnds = "both-ends" since (6, 18), stable [Backport::known((6, 17), 6, Source::Mail("Revert \"cpuidle: menu: Avoid discarding useful information\""))], "without outliers on both sides, or none", [Commit("10fad4012234"), Code("menu.c:get_typical_interval()", "7.2.13")];
    }
    menu_latency: MenuLatency, "Where menu's search ends at a state that takes too long to leave." {
        IfChosen = "if-chosen" since (4, 14), vectors ["cpuidle_menu_v61"], "only where the state would be chosen", [Code("menu.c:menu_select()", "6.1.192")];
        AtOnce = "at-once" since (6, 17), stable [Backport::mailed((6, 6), 103, "[PATCH 6.6 511/587] cpuidle: governors: menu: Avoid selecting states with too much latency"), Backport::listed((6, 12), 44, "6.12.44"), Backport::mailed((6, 16), 4, "[PATCH 6.16 201/457] cpuidle: governors: menu: Avoid selecting states with too much latency")], vectors ["cpuidle_menu", "cpuidle_menu_masks"], "always", [Commit("779b1a1cb13a"), Code("menu.c:menu_select()", "6.12.117")];
    }
    menu_polling: MenuPolling, "Which real state menu prefers to polling though its residency is longer than predicted." {
        Latency = "latency" since (4, 14), vectors ["cpuidle_menu_v61"], "one that may be left in time", [Code("menu.c:menu_select()", "6.1.192")];
        Predicted = "predicted" since (6, 18), stable [Backport::mailed((6, 6), 117, "[PATCH 6.6 049/529] cpuidle: governors: menu: Select polling state in some more cases"), Backport::listed((6, 12), 58, "6.12.58"), Backport::mailed((6, 17), 8, "[PATCH 6.17 113/849] cpuidle: governors: menu: Select polling state in some more cases")], "one whose exit takes no longer than the predicted sleep", [Commit("db86f55bf81a")];
        Threshold = "threshold" since (6, 19), stable [Backport::listed((6, 12), 64, "6.12.64"), Backport::mailed((6, 18), 3, "[PATCH 6.18 021/430] cpuidle: menu: Use residency threshold in polling state override decisions")], vectors ["cpuidle_menu", "cpuidle_menu_masks"], "the same, if its residency is below 15 us", [Commit("07d815701274"), Code("menu.c:menu_select()", "6.12.117")];
    }
    teo: TeoForm, "What the teo idle governor goes by." {
        Recent = "recent" since (4, 14), vectors ["cpuidle_teo_v61"], "timers always; counts of early wake-ups and the last nine", [Code("teo.c:teo_select()", "6.1.192")];
        RecentTickHits = "recent-tick-hits" since (6, 6), vectors ["cpuidle_teo_v66"], "the same, with counts of those beyond the tick apart; the timers are asked where they may matter; the last nine wrap around", [Commit("6da8f9ba5a87"), Commit("2662342079f5"), Replaced("449914398083"), Code("teo.c:teo_select()", "6.10")];
        TickHits = "tick-hits" since (6, 11), vectors ["cpuidle_teo", "cpuidle_teo_masks"], "without the last nine; the timers are asked after early wake-ups, too", [Commit("449914398083"), Commit("4b20b07ce72f"), Code("teo.c:teo_select()", "6.12.117")];
        ShortIdles = "short-idles" since (6, 14), "the timers are not asked where most sleeps are short", [Commit("13ed5c4a6d9c"), Code("teo.c:teo_select()", "6.18")];
        TickWakeups = "tick-wakeups" since (6, 19), "wake-ups by the tick are counted on their own", [Mail("pull request of power management for 6.19")];
    }
    teo_near_timer: TeoNearTimer, "Whether teo goes down to a state that is not worth a tick for a timer that comes soon, while the tick is stopped." {
        Taken = "taken" since (4, 14), "yes", [Replaced("21d28cd2fa5f")];
        Avoided = "avoided" since (6, 6), vectors ["cpuidle_teo_v66"], "no: it stays with the deeper state", [Commit("21d28cd2fa5f"), Replaced("a03b2011808a")];
        TakenAgain = "taken-again" since (6, 19), stable [Backport::mailed((6, 6), 120, "[PATCH 6.6 443/737] cpuidle: governors: teo: Drop misguided target residency check"), Backport::listed((6, 12), 64, "6.12.64"), Backport::mailed((6, 18), 3, "[PATCH 6.18 304/430] cpuidle: governors: teo: Drop misguided target residency check")], vectors ["cpuidle_teo", "cpuidle_teo_masks"], "yes", [Commit("a03b2011808a"), Code("teo.c:teo_select()", "6.12.117")];
    }
    teo_util: TeoUtil, "Whether teo looks at the CPU's utilisation." {
        Ignored = "ignored" since (4, 14), "no", [Code("teo.c:teo_select()", "6.1.192")];
        Shallower = "shallower" since (6, 3), vectors ["cpuidle_teo_v63"], "a shallower state on CPUs that use more than 1/64 of their capacity", [Commit("9ce0f7c4bc64"), Replaced("3f0b0966b309")];
        ShallowerIfOk = "shallower-if-ok" since (6, 6), stable [Backport::mailed((6, 4), 16, "[PATCH 6.4 120/737] cpuidle: teo: Update idle duration estimate when choosing shallower state"), Backport::mailed((6, 5), 3, "[PATCH 6.5 038/739] cpuidle: teo: Update idle duration estimate when choosing shallower state")], vectors ["cpuidle_teo_v65", "cpuidle_teo_v66"], "the same, unless the tick is stopped and that state is not worth one; it keeps a tick that runs (6.4 and 6.5)", [Commit("3f0b0966b309"), Code("teo.c:teo_select()", "6.10")];
        Dropped = "dropped" since (6, 11), "no", [Commit("0a2998fa48f0"), Code("teo.c:teo_select()", "6.12.117")];
    }
    // Hybrids and preferred cores.
    hybrid_capacity: HybridCapacity, "Capacities of Intel's hybrid processors without SMT." {
        Equal = "equal" since (4, 14), "1024 everywhere; the cores have packing priorities", [Replaced("929ebc93ccaa")];
        ByLevel = "by-level" since (6, 12), "by HWP's highest level, instead of priorities", [Commit("929ebc93ccaa"), Code("intel_pstate.c:hybrid_init_cpu_capacity_scaling()", "6.12.117")];
    }
    hybrid_em: HybridEm, "The energy model that intel_pstate registers for hybrids without SMT, in passive mode." {
        Absent = "absent" since (4, 14), "none", [Mail("cpufreq: intel_pstate: EAS support for hybrid platforms (what it replaced)")];
        Scaling = "scaling" since (6, 16), "each CPU a domain of four states; costs by the frequency of a level, so that all E-cores come first", [Mail("cpufreq: intel_pstate: EAS support for hybrid platforms")];
        Kind = "kind" since (6, 19), "costs by the kind of core: P-cores from 60 % of an E-core on", [Mail("cpufreq: intel_pstate: hybrid: Adjust energy model rules"), Code("intel_pstate.c:hybrid_get_cost()", "7.2.13")];
    }
    itmt_threads: ItmtThreads, "Packing priorities of the threads of a core." {
        Ranked = "ranked" since (4, 14), "second threads come after whole cores", [Code("itmt.c:sched_set_itmt_core_prio()", "6.1.192")];
        Alike = "alike" since (6, 5), "all threads have that of their core", [Commit("046a5a95c3b0")];
    }
    amd_prefcore: AmdPrefcore, "Whether amd-pstate reports the preferred cores to the scheduler." {
        Absent = "absent" since (4, 14), "no", [Code("amd-pstate.c:amd_pstate_cpu_init()", "6.1.192")];
        Ranked = "ranked" since (6, 9), "by the highest level of each core", [Commit("f3a052391822"), Code("amd-pstate.c:amd_pstate_init_prefcore()", "6.12.117")];
    }
    // amd-pstate.
    amd_pstate: AmdForm, "What amd-pstate's requests follow." {
        Unlimited = "unlimited" since (4, 14), vectors ["amd_pstate_init_v61", "amd_pstate_seq_v61"], "the governor alone; boost is a level above the nominal one", [Code("amd-pstate.c:amd_pstate_update()", "6.1.192")];
        Limited = "limited" since (6, 7), vectors ["amd_pstate_init", "amd_pstate_seq"], "the policy's limits too", [Commit("febab20caeba"), Code("amd-pstate.c:amd_pstate_update()", "6.12.117")];
    }
    amd_min_freq: AmdMinFreq, "What amd-pstate starts the policy's lower limit at." {
        Lowest = "lowest" since (4, 14), vectors ["amd_pstate_init", "amd_pstate_init_v61"], "the lowest performance", [Code("amd-pstate.c:amd_pstate_cpu_init()", "6.12.117")];
        LowestNonlinear = "lowest-nonlinear" since (6, 13), "the lowest nonlinear performance; user space may lower it", [Commit("5d9a354cf839"), Code("amd-pstate.c:amd_pstate_verify()", "7.2.13")];
    }
    amd_epp_default: AmdEppDefault, "What preference amd-pstate's active mode starts with." {
        Firmware = "firmware" since (4, 14), "the firmware's, which is performance", [Code("amd-pstate.c:amd_pstate_epp_cpu_init()", "6.12.117")];
        Balanced = "balanced" since (6, 14), "balance_performance, on machines that are no servers", [Mail("cpufreq/amd-pstate: Set different default EPP policy for Epyc and Ryzen"), Code("amd-pstate.c:amd_pstate_epp_cpu_init()", "6.15")];
    }
    // intel_pstate.
    hwp_dynamic_boost: HwpDynamicBoost, "Whether intel_pstate raises HWP's lower limit after I/O." {
        Absent = "absent" since (4, 14), "does not exist", [Text("001"), Replaced("e0efd5be63e8")];
        SkylakeServers = "skylake-servers" since (4, 18), "by default on servers with a processor of Skylake's models only", [Commit("e0efd5be63e8"), Replaced("1f5e62f5fb21"), Code("intel_pstate.c:intel_pstate_init_cpu()", "6.1.192")];
        Servers = "servers" since (6, 4), vectors ["intel_pstate_hwp_boost"], "by default on servers only", [Commit("1f5e62f5fb21"), Mail("[GIT PULL] Power management updates for v6.4-rc1"), Code("intel_pstate.c:intel_pstate_hwp_boost_up()", "6.12.117")];
        Everywhere = "everywhere" since NEVER, "on every machine", [Text("001")];
    }
    intel_passive_hwp: IntelPassiveHwp, "Whether intel_pstate's passive mode leaves HWP on." {
        Off = "off" since (4, 14), "no", [Replaced("f6ebbcf08f37")];
        On = "on" since (5, 9), "yes", [Commit("f6ebbcf08f37")];
    }
    intel_hwp_target: IntelHwpTarget, "What intel_pstate's passive mode asks of HWP for a governor's frequency." {
        Floor = "floor" since (4, 14), "at least it; the firmware may go higher", [Commit("f6ebbcf08f37")];
        StrictFloor = "strict-floor" since (5, 10), stable [Backport::listed((5, 9), 9, "5.9.9")], "the same, and exactly it for governors with one frequency (performance, powersave, userspace)", [Changelog("5.9.9"), Code("intel_pstate.c:intel_cpufreq_adjust_hwp()", "5.10.262")];
        Desired = "desired" since (6, 17), stable [Backport::mailed((5, 15), 190, "[PATCH 5.15 129/644] cpufreq: intel_pstate: Always use HWP_DESIRED_PERF in passive mode"), Backport::listed((6, 1), 148, "6.1.148"), Backport::mailed((6, 6), 102, "[PATCH 6.6 039/262] cpufreq: intel_pstate: Always use HWP_DESIRED_PERF in passive mode"), Backport::listed((6, 12), 42, "6.12.42"), Backport::mailed((6, 16), 1, "[PATCH 6.16 108/627] cpufreq: intel_pstate: Always use HWP_DESIRED_PERF in passive mode")], "at least it, and it as the desired level", [Code("intel_pstate.c:intel_cpufreq_update_pstate()", "6.12.117")];
    }
    intel_adjust_perf: IntelAdjustPerf, "What schedutil gives intel_pstate's passive mode with HWP." {
        Frequencies = "frequencies" since (4, 14), "frequencies", [Replaced("a365ab6b9dfb")];
        Levels = "levels" since (5, 11), "performance levels", [Commit("a365ab6b9dfb"), Code("intel_pstate.c:intel_cpufreq_adjust_perf()", "6.12.117")];
    }
    intel_iowait_boost: IntelIowaitBoost, "How intel_pstate's active mode without HWP boosts for I/O." {
        Full = "full" since (4, 14), "to the full at once", [Memory];
        Doubling = "doubling" since (5, 1), vectors ["intel_pstate_core"], "from an eighth on, doubling", [Code("intel_pstate.c:intel_pstate_update_util()", "6.12.117")];
    }
}

/// The profiles that lists show, oldest first: name, mainline release, point release. Any other point release is a name, too
/// ([`crate::release`]).
pub const PROFILES: &[(&str, Version, u16)] = &[
    ("4.14", (4, 14), 0),
    ("4.14-android", (4, 14), 0),
    ("4.15", (4, 15), 0),
    ("4.16", (4, 16), 0),
    ("4.17", (4, 17), 0),
    ("4.18", (4, 18), 0),
    ("4.19", (4, 19), 0),
    ("4.20", (4, 20), 0),
    ("5.0", (5, 0), 0),
    ("5.1", (5, 1), 0),
    ("5.2", (5, 2), 0),
    ("5.3", (5, 3), 0),
    ("5.4", (5, 4), 0),
    ("5.5", (5, 5), 0),
    ("5.6", (5, 6), 0),
    ("5.7", (5, 7), 0),
    ("5.8", (5, 8), 0),
    ("5.9", (5, 9), 0),
    ("5.10", (5, 10), 0),
    ("5.10.262", (5, 10), 262),
    ("5.11", (5, 11), 0),
    ("5.12", (5, 12), 0),
    ("5.13", (5, 13), 0),
    ("5.14", (5, 14), 0),
    ("5.15", (5, 15), 0),
    ("5.16", (5, 16), 0),
    ("5.17", (5, 17), 0),
    ("5.18", (5, 18), 0),
    ("5.19", (5, 19), 0),
    ("6.0", (6, 0), 0),
    ("6.1", (6, 1), 0),
    ("6.1.192", (6, 1), 192),
    ("6.2", (6, 2), 0),
    ("6.3", (6, 3), 0),
    ("6.4", (6, 4), 0),
    ("6.5", (6, 5), 0),
    ("6.6", (6, 6), 0),
    ("6.6.88", (6, 6), 88),
    ("6.6.89", (6, 6), 89),
    ("6.6.103", (6, 6), 103),
    ("6.7", (6, 7), 0),
    ("6.8", (6, 8), 0),
    ("6.9", (6, 9), 0),
    ("6.10", (6, 10), 0),
    ("6.11", (6, 11), 0),
    ("6.12", (6, 12), 0),
    ("6.12.117", (6, 12), 117),
    ("6.13", (6, 13), 0),
    ("6.14", (6, 14), 0),
    ("6.15", (6, 15), 0),
    ("6.16", (6, 16), 0),
    ("6.17", (6, 17), 0),
    ("6.18", (6, 18), 0),
    ("6.19", (6, 19), 0),
    ("7.0", (7, 0), 0),
    ("7.1", (7, 1), 0),
    ("7.2", (7, 2), 0),
    ("7.3", (7, 3), 0),
];

/// The names of all gates, in the order of the table.
pub fn gate_names() -> impl Iterator<Item = &'static str> {
    GATES.iter().map(|gate| gate.name)
}

/// The names of all profiles, oldest first.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|&(name, ..)| name)
}

/// The mainline profile that is nearest to `name` by version, of two as near the older one; `None` for what is no version.
pub fn nearest_profile(name: &str) -> Option<&'static str> {
    let bare = name.strip_prefix('v').unwrap_or(name);
    let mut numbers = bare.split(['.', '-', '+']).map_while(|part| part.parse::<u16>().ok());
    let (major, minor) = (numbers.next()?, numbers.next().unwrap_or(0));
    let mainline = || {
        PROFILES
            .iter()
            .filter(|(known, _, point)| *point == 0 && known.ends_with("-android") == bare.contains("android"))
    };
    if minor > 30 {
        return mainline()
            .map(|(known, ..)| *known)
            .filter(|known| bare.starts_with(known))
            .max_by_key(|known| known.len());
    }
    let wanted = place((major, minor));
    mainline().min_by_key(|(_, version, _)| place(*version).abs_diff(wanted)).map(|(known, ..)| *known)
}

/// The place of a version among all versions: v4.20 is before v5.0, v5.19 before v6.0, v6.19 before v7.0.
fn place((major, minor): Version) -> u32 {
    let of_major = match major {
        0..=4 => u32::from(major) * 21,
        _ => 84 + 21 + u32::from(major - 5) * 20,
    };
    of_major + u32::from(minor)
}

/// The message for a name that no profile has.
pub fn unknown_profile(name: &str) -> String {
    let nearest = nearest_profile(name).map_or_else(String::new, |nearest| format!("; the nearest is {nearest:?}"));
    format!("unknown kernel profile {name:?}{nearest} (known: {})", profile_names().collect::<Vec<_>>().join(", "))
}

/// Kinds of machine that report their speed in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// ARM: the driver reports each change of the frequency.
    Arm,
    /// Intel: APERF and MPERF.
    Intel,
    /// AMD with CPPC: APERF and MPERF.
    Amd,
}

impl Platform {
    /// By the vendor as CPUID spells it; `None` for one that is not x86, or not known.
    pub fn of_vendor(vendor: &str) -> Option<Self> {
        match vendor {
            "GenuineIntel" => Some(Self::Intel),
            "AuthenticAMD" | "HygonGenuine" => Some(Self::Amd),
            _ => None,
        }
    }
}

impl KernelProfile {
    /// The kernel called `name`: one of [`PROFILES`] or anything that [`release::parse`] knows.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_prefix('v').unwrap_or(name) {
            "4.14-android" => Some(Self::at((4, 14)).with_android_eas()),
            bare => release::parse(bare).map(|release| release.profile()),
        }
    }

    /// Its release in numbers: `6.6` or `6.6.88`.
    pub fn release_text(&self) -> String {
        match (self.version, self.point) {
            ((major, minor), 0) => format!("{major}.{minor}"),
            ((major, minor), point) => format!("{major}.{minor}.{point}"),
        }
    }

    /// Android's patches before mainline had energy-aware scheduling.
    fn with_android_eas(self) -> Self {
        Self {
            eas: Eas::Groups,
            overutilized: Overutilized::EachDomain,
            idle_sibling: IdleSibling::Stay,
            rate_limits: RateLimits::UpAndDown,
            dl_util: DlUtil::Ran,
            misfit: Misfit::Balanced,
            balance_groups: BalanceGroups::Similar,
            arm_invariance: ArmInvariance::Present,
            util_est: UtilEst::Quarter,
            wake_affine_idle: WakeAffineIdle::Shared,
            recent_used_cpu: RecentUsedCpu::Tried,
            idle_tick: IdleTick::Chosen,
            ..self
        }
    }

    /// The kernel with the proposals of `list`.
    ///
    /// # Errors
    /// [`ProposalError`] of the first that is not understood, or that changes what this kernel does not have.
    pub fn with_proposals<'a>(self, list: impl Iterator<Item = &'a str> + Clone) -> Result<Self, ProposalError> {
        let proposals = Proposals::of(list.clone())?;
        for text in list {
            let (entry, _) = parse(text)?;
            let has = |need: Need| match need {
                Need::Clamps => self.uclamp == Uclamp::Present,
                Need::OneEstimate => self.util_est == UtilEst::Single,
            };
            if let Some(need) = entry.needs.filter(|&need| !has(need)) {
                return Err(ProposalError::Needs(entry.name, need));
            }
        }
        Ok(Self { proposals, ..self })
    }

    /// `arch_scale_freq_invariant()`: whether utilisation is relative to f_max on such a machine.
    pub fn freq_invariant(&self, platform: Platform) -> bool {
        let arch_knows = match platform {
            Platform::Arm => self.arm_invariance == ArmInvariance::Present,
            Platform::Intel => self.x86_invariance != X86Invariance::Absent,
            Platform::Amd => self.x86_invariance == X86Invariance::IntelAmd,
        };
        arch_knows && self.invariance != Invariance::None
    }

    /// What is divided by the nominal performance of a CPU with `own` highest performance, on an AMD machine whose CPUs have
    /// those of `all`.
    pub fn amd_boost_numerator(&self, own: u32, all: &[u32], (family, model): (u32, u32)) -> u64 {
        match self.amd_highest_perf {
            AmdHighestPerf::Register => own.into(),
            AmdHighestPerf::Model => amd_highest_perf_by_model(family, model),
            AmdHighestPerf::AllCpus => {
                let zen4 = is_zen4(family, model);
                AmdPerfCaps { nominal_perf: None, highest_perfs: all, zen4, model: model as u8 }.boost_ratio_numerator()
            }
        }
    }

    /// Whose f_max a CPU is measured against, on a machine whose cores differ (`hybrid`) or have threads (`smt`).
    pub fn freq_max_of(&self, platform: Platform, hybrid: bool, smt: bool) -> FreqMaxOf {
        match platform {
            Platform::Arm => FreqMaxOf::EachCpu,
            Platform::Intel if hybrid && !smt && self.hybrid_capacity == HybridCapacity::ByLevel => FreqMaxOf::EachCpu,
            Platform::Intel | Platform::Amd => FreqMaxOf::BootCpu,
        }
    }

    /// What teo makes of the CPU's utilisation; a proposal brings the last form to kernels without one.
    pub fn teo_util(&self) -> TeoUtil {
        match self.teo_util {
            TeoUtil::Ignored | TeoUtil::Dropped if self.proposals.teo_util => TeoUtil::ShallowerIfOk,
            gate => gate,
        }
    }

    /// Whether tasks have an estimate of their utilisation.
    pub fn estimates_util(&self) -> bool {
        self.util_est != UtilEst::Absent
    }

    /// What an activation may have used to count for the estimate, on a CPU of this capacity.
    pub fn util_est_capacity(&self, capacity: u64) -> u64 {
        if self.util_est_decay == UtilEstDecay::Fitting { capacity } else { u64::MAX }
    }

    /// The form of the estimate's pair of values; `None` where it is a single one, or stays 0.
    pub fn util_est_form(&self) -> Option<UtilEstForm> {
        match self.util_est {
            UtilEst::Quarter => Some(UtilEstForm::V4_17),
            UtilEst::FastUp => Some(UtilEstForm::V5_5),
            UtilEst::Filtered => Some(UtilEstForm::V5_12),
            UtilEst::Runnable => Some(UtilEstForm::V5_12Runnable),
            UtilEst::Single | UtilEst::Absent => None,
        }
    }

    /// The base slice before scaling, ns.
    pub fn base_slice_ns(&self) -> u64 {
        match self.base_slice {
            BaseSlice::Us750 => 750_000,
            BaseSlice::Us700 => 700_000,
        }
    }
}

impl Release<'_> {
    /// Its profile.
    pub fn profile(&self) -> KernelProfile {
        KernelProfile::of(self.version, self.point)
    }

    /// What was assumed of the name; `None` where the profile is exactly the one named.
    pub fn note(&self) -> Option<String> {
        let (major, minor) = self.version;
        let mainline = format!("{major}.{minor}");
        let taken = format!("{mainline}.{}", self.point);
        let mut notes = Vec::new();
        match (self.named, self.debian) {
            (Some(named), _) if named > self.point => notes.push(format!(
                "{mainline}.{named} is taken as {taken}, the last point release whose changes are known"
            )),
            (Some(_), Some(abi)) => notes.push(format!("Debian's {mainline}.0-{abi} is {taken}")),
            (None, _) if self.flavour.starts_with("-rc") => {
                notes.push(format!("a release candidate is taken as {mainline}"));
            }
            (None, _) if self.android || !self.flavour.is_empty() => {
                notes.push(format!("the name has no point release: taken as {mainline} without backports"));
            }
            _ => {}
        }
        if self.point > 0 && read_to(self.version).is_none() {
            let known = backports_of(self.version);
            let of = if known.is_empty() { String::from("none") } else { known.join(", ") };
            notes.push(format!("of the changes of {mainline}.y only those of the gates {of} are known"));
        }
        if self.android {
            let name = format!("{mainline}{}", self.flavour);
            let with_gates = !self.flavour.is_empty() && PROFILES.iter().any(|(known, ..)| *known == name);
            notes.push(String::from(if with_gates {
                "of what the Android branch adds, the gates of this profile are modelled and nothing else"
            } else {
                "what the Android branch adds is not modelled"
            }));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// The gates for which backports to `version` are known, with the point release of each.
fn backports_of(version: Version) -> Vec<String> {
    let known = GATES.iter().filter_map(|gate| {
        let stable = gate.values.iter().flat_map(|value| value.stable);
        let first = stable.filter(|of| of.version == version).map(|of| of.from).min()?;
        Some(format!("{} ({first})", gate.name))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::drivers::DriverId;
    use crate::cpufreq::schedutil::SugovGates;
    use crate::eas::EasGates;
    use crate::sched::domains::node_reclaim_distance;

    fn named(name: &str) -> KernelProfile {
        KernelProfile::named(name).unwrap_or_else(|| panic!("no profile {name}"))
    }

    /// Goal: no proposal changes what a kernel does not have.
    #[test]
    fn proposals_on_kernels_without_what_they_change_are_refused() {
        let refused = |kernel: &str, list: &[&str]| {
            named(kernel).with_proposals(list.iter().copied()).err().map(|error| error.to_string())
        };
        let why = "proposal uclamp-sum needs utilisation clamps (Linux 5.3), which this kernel does not have";
        assert_eq!(refused("5.2", &["headroom:percent=110", "uclamp-sum"]).as_deref(), Some(why));
        assert_eq!(refused("5.4", &["uclamp-sum"]), None);
        for name in ["util-burst", "rampup-qos:multiplier=4"] {
            assert!(refused("6.1", &[name]).is_some_and(|why| why.contains("one estimate per task")), "{name}");
            assert_eq!(refused("6.12", &[name]), None);
        }
        for entry in crate::proposals::PROPOSALS {
            assert_eq!(refused("6.12.117", &[entry.name]), None, "{}", entry.name);
        }
    }

    /// AMD's sockets are 32 apart.
    #[test]
    fn sockets_of_zen_are_near_from_the_kernel_that_widened_the_distance() {
        let far = |kernel: &str, family: Option<u32>| node_reclaim_distance(named(kernel).far_nodes, family) < 32;
        assert!(far("5.3", Some(0x17)) && !far("5.4", Some(0x17)));
        assert!(far("5.6", Some(0x19)) && !far("5.7", Some(0x19)) && !far("6.12.117", Some(0x1a)));
        assert!(far("6.12.117", Some(0x15)) && far("6.12.117", None));
    }

    /// What the texts state of their kernels.
    #[test]
    fn kernels_of_the_texts() {
        let check = |name: &str, gate: &str, value: &str| {
            assert_eq!(named(name).show(gate), Some(value), "{gate} of {name}");
        };
        // 001: before and after the HWP boost.
        check("4.17", "hwp_dynamic_boost", "absent");
        check("5.0", "hwp_dynamic_boost", "skylake-servers");
        check("6.3", "hwp_dynamic_boost", "skylake-servers");
        check("6.4", "hwp_dynamic_boost", "servers");
        // 002: v5.0 has neither x86 invariance nor time dilation.
        check("5.0", "x86_invariance", "absent");
        check("5.0", "invariance", "scaled-contribution");
        check("5.0", "noninvariant_headroom", "once");
        // 000: v5.9 without AMD.
        assert!(named("5.9").freq_invariant(Platform::Intel));
        assert!(!named("5.9").freq_invariant(Platform::Amd));
        // 003: a kernel with the margin.
        check("5.18", "feec_margin", "6-percent-of-total");
        check("6.1", "feec_margin", "none");
        // 004: the affinity comes with v6.14.
        check("6.13", "sugov_affinity", "bound");
        check("6.14", "sugov_affinity", "free");
        // The changes of v4.15 to v4.17, one by one.
        for (gate, [v4_14, v4_15, v4_16, v4_17]) in [
            ("arm_invariance", ["absent", "present", "present", "present"]),
            ("dl_util", ["highest", "highest", "bandwidth", "bandwidth"]),
            ("wake_affine_idle", ["here", "here", "shared-cache", "shared-cache"]),
            ("recent_used_cpu", ["ignored", "ignored", "tried", "tried"]),
            ("util_est", ["absent", "absent", "absent", "quarter"]),
            ("shared_stale_cpus", ["ignored", "ignored", "ignored", "counted"]),
            ("idle_tick", ["before-choice", "before-choice", "before-choice", "by-choice"]),
        ] {
            check("4.14", gate, v4_14);
            check("4.15", gate, v4_15);
            check("4.16", gate, v4_16);
            check("4.17", gate, v4_17);
        }
        // Google's 4.14 for the Pixel 4: floral_defconfig has no CONFIG_SCHED_WALT.
        check("4.14-android", "balance_groups", "loads-of-similar");
        check("4.14-android", "shared_stale_cpus", "ignored");
        // Load balance by version.
        for (gate, before, since, value) in [
            ("misfit", "4.19", "4.20", "balanced"),
            ("uclamp", "5.2", "5.3", "present"),
            ("rt_capacity", "5.5", "5.6", "by-clamp"),
            ("dl_capacity", "5.8", "5.9", "by-density"),
            ("balance_groups", "5.4", "5.5", "types"),
            ("balance_groups", "5.6", "5.7", "types-and-runnable"),
            ("balance_groups", "6.5", "6.6", "cores"),
            ("asym_wakes", "5.6", "5.7", "search"),
            ("balance_thresholds", "5.9", "5.10", "17-percent-x16"),
            ("detach_load", "5.9", "5.10", "doubled-by-failures"),
            ("active_balance", "5.11", "5.12", "tasks"),
            ("balance_margin", "5.12", "5.13", "5-percent"),
            ("newidle_least", "5.15", "5.16", "lowest-level"),
            ("newidle_bail", "5.19", "6.0", "stops"),
            ("no_turbo_freq_max", "5.18", "5.19", "base"),
            ("no_turbo_cpuinfo_max", "6.9", "6.10", "base"),
            ("teo", "6.5", "6.6", "recent-tick-hits"),
            ("teo", "6.10", "6.11", "tick-hits"),
            ("teo_util", "6.2", "6.3", "shallower"),
            ("teo_util", "6.5", "6.6", "shallower-if-ok"),
            ("teo_util", "6.10", "6.11", "dropped"),
        ] {
            check(since, gate, value);
            assert_ne!(named(before).show(gate), Some(value), "{gate} of {before}");
        }
        for (kernel, decay) in [("5.0", "any"), ("5.1", "fitting"), ("6.12.117", "fitting"), ("6.16", "any-again")] {
            check(kernel, "util_est_decay", decay);
        }
        for (kernel, when) in [("6.11", "before-enqueue"), ("6.15", "after-enqueue"), ("6.16", "before-update")] {
            check(kernel, "uclamp_inc", when);
        }
        for (kernel, fit) in
            [("6.1", "clamped-util"), ("6.2", "bounds"), ("6.3", "lower-apart"), ("5.15.109", "bounds")]
        {
            check(kernel, "uclamp_fit", fit);
        }
        // The factor of 10 came with the division by performance.
        for (kernel, cost) in [("6.6", "uW"), ("6.8", "uW"), ("6.9", "performance")] {
            check(kernel, "em_cost", cost);
        }
        for (kernel, sync) in
            [("6.12.36", "counted"), ("6.12.37", "left-out"), ("6.15", "counted"), ("6.16", "left-out")]
        {
            check(kernel, "wake_affine_sync", sync);
        }
        for (release, gate, before, value) in [
            ("5.4.146", "em_cost", "mW", "mW-thousandths"),
            ("5.10.65", "em_cost", "mW", "mW-thousandths"),
            ("5.14.4", "em_cost", "mW-capped", "mW-capped-thousandths"),
            ("5.10.231", "nohz_next_kick", "kept", "recomputed"),
            ("5.10.235", "need_freq_update", "sticky", "driver-once"),
            ("5.10.237", "need_freq_update", "driver-once", "once-again"),
            ("5.15.179", "need_freq_update", "sticky", "driver-once"),
            ("5.15.181", "need_freq_update", "driver-once", "once-again"),
            ("6.1.129", "need_freq_update", "sticky", "driver-once"),
            ("6.1.135", "need_freq_update", "driver-once", "once-again"),
            ("6.6.76", "need_freq_update", "sticky", "driver-once"),
            ("6.6.88", "need_freq_update", "driver-once", "once-again"),
            ("6.12.13", "need_freq_update", "sticky", "driver-once"),
            ("6.12.25", "need_freq_update", "driver-once", "once-again"),
            ("6.13.2", "need_freq_update", "sticky", "driver-once"),
            ("6.14.4", "need_freq_update", "driver-once", "once-again"),
            ("6.6.2", "feec_full_cpus", "never", "capped"),
            ("6.6.93", "base_slice", "0.75ms", "0.70ms"),
            ("6.14.9", "base_slice", "0.75ms", "0.70ms"),
            ("6.15.3", "wake_affine_sync", "counted", "left-out"),
            ("6.6.103", "newidle_skip", "cost", "cost-of-failure"),
            ("6.6.120", "newidle_skip", "cost-of-failure", "cost-and-chance"),
            ("6.12.64", "newidle_skip", "cost-of-failure", "cost"),
            ("6.18.3", "newidle_skip", "cost-of-failure", "cost-again"),
            ("6.18.5", "newidle_skip", "cost-again", "cost-and-chance"),
            ("5.10.252", "single_state_tick", "stopped", "kept"),
            ("5.10.253", "single_state_tick", "kept", "retained"),
            ("6.1.165", "single_state_tick", "stopped", "kept"),
            ("6.1.167", "single_state_tick", "kept", "retained"),
            ("6.12.75", "single_state_tick", "stopped", "kept"),
            ("6.12.78", "single_state_tick", "kept", "retained"),
            ("6.18.14", "single_state_tick", "stopped", "kept"),
            ("6.18.20", "single_state_tick", "kept", "retained"),
            ("5.4.4", "poll_limit", "deepest-state", "first-state-again"),
            ("5.15.61", "wake_queue", "remote", "remote-or-idle"),
            ("5.18.18", "wake_queue", "remote", "remote-or-idle"),
            ("5.19.2", "wake_queue", "remote", "remote-or-idle"),
            ("6.6.103", "menu_iowait", "counted", "ignored"),
            ("6.6.103", "menu_latency", "if-chosen", "at-once"),
            ("6.16.4", "menu_latency", "if-chosen", "at-once"),
            ("6.6.117", "menu_polling", "latency", "predicted"),
            ("6.17.8", "menu_polling", "latency", "predicted"),
            ("6.18.3", "menu_polling", "predicted", "threshold"),
            ("6.18.14", "menu_timers", "long-sleeps", "no-tick"),
            ("5.4.294", "menu_typical", "drop-longest", "drop-longest-or-most"),
            ("5.4.301", "menu_typical", "drop-longest-or-most", "drop-longest"),
            ("6.6.93", "menu_typical", "drop-longest", "drop-longest-or-most"),
            ("6.6.115", "menu_typical", "drop-longest-or-most", "drop-longest"),
            ("6.14.9", "menu_typical", "drop-longest", "drop-longest-or-most"),
            ("6.4.16", "teo_util", "shallower", "shallower-if-ok"),
            ("6.5.3", "teo_util", "shallower", "shallower-if-ok"),
            ("6.6.120", "teo_near_timer", "avoided", "taken-again"),
            ("6.12.64", "teo_near_timer", "avoided", "taken-again"),
            ("5.15.190", "intel_hwp_target", "strict-floor", "desired"),
            ("6.6.102", "intel_hwp_target", "strict-floor", "desired"),
            ("6.16.1", "intel_hwp_target", "strict-floor", "desired"),
        ] {
            let at = release.rfind('.').expect("a point release") + 1;
            let point: u16 = release[at..].parse().expect("its number");
            check(release, gate, value);
            check(&format!("{}{}", &release[..at], point - 1), gate, before);
        }
        check("6.1", "fair_class", "cfs");
        check("6.6", "fair_class", "eevdf");
        check("6.6", "delay_dequeue", "off");
    }

    /// The governor's own constants and the table agree.
    #[test]
    fn schedutil_agrees() {
        assert_eq!(named("5.0").sugov_gates(), SugovGates::V4_17);
        assert_eq!(named("5.9").sugov_gates(), SugovGates::V5_10);
        assert_eq!(named("5.18").sugov_gates(), SugovGates { sticky_update: true, ..SugovGates::V5_18 });
        assert_eq!(named("6.1.192").sugov_gates(), SugovGates::V5_18);
        assert_eq!(named("6.6").sugov_gates(), SugovGates { sticky_update: true, ..SugovGates::V6_6 });
        assert_eq!(named("v6.12").sugov_gates(), SugovGates { sticky_update: true, ..SugovGates::V6_12 });
        assert_eq!(named("6.12.117").sugov_gates(), SugovGates::V6_12);
        assert_eq!(named("6.15").sugov_gates(), SugovGates::V6_12);
        // v6.6.89 bounds the utilisation and loses the headroom of CPUs without frequency invariance until v6.6.103.
        let rework = SugovGates { freq_ref: false, margin_on_current: false, ..SugovGates::V6_12 };
        assert_eq!(named("6.6.88").sugov_gates(), SugovGates::V6_6);
        assert_eq!(named("6.6.89").sugov_gates(), rework);
        assert_eq!(named("6.6.103").sugov_gates(), SugovGates::V6_12);
    }

    /// The forms of energy-aware placement by version.
    #[test]
    fn placement_agrees() {
        let v6_1 = |fit| EasGates { fit, full_cpus: false, ..EasGates::V6_1 };
        for (name, gates) in [
            ("4.17", None),
            ("5.0", Some(EasGates::V5_10)),
            ("5.9", Some(EasGates::V5_10)),
            ("5.18", Some(EasGates::V5_18)),
            ("5.10.179", Some(EasGates { fit: UclampFit::Bounds, ..EasGates::V5_10 })),
            ("6.1", Some(v6_1(UclampFit::ClampedUtil))),
            ("6.1.2", Some(v6_1(UclampFit::Bounds))),
            ("6.1.47", Some(v6_1(UclampFit::LowerApart))),
            ("6.1.63", Some(EasGates::V6_1)),
            ("6.6", Some(EasGates { full_cpus: false, ..EasGates::V6_6 })),
            ("6.7", Some(EasGates::V6_6)),
            ("6.8", Some(EasGates::V6_18)),
            ("6.12", Some(EasGates::V6_18)),
            ("6.12.117", Some(EasGates::V6_12)),
            ("6.18", Some(EasGates::V6_18)),
            ("7.2", Some(EasGates::V6_12)),
        ] {
            assert_eq!(named(name).eas_gates(), gates, "{name}");
        }
        let mut profile = named("5.18");
        profile.set("feec_margin", "none").expect("is one");
        assert_eq!(profile.eas_gates(), Some(v6_1(UclampFit::ClampedUtil)));
    }

    /// acpi-cpufreq's 10 us: 10 ms in old kernels, 15 us today.
    #[test]
    fn rate_limits() {
        assert_eq!(named("5.9").rate_limit_us(0, 10_000), 10_000);
        assert_eq!(KernelProfile::at((6, 10)).rate_limit_us(0, 10_000), 2_000);
        assert_eq!(named("6.12").rate_limit_us(0, 10_000), 15);
        for (name, ..) in PROFILES {
            assert_eq!(named(name).rate_limit_us(500, 20_000), 500, "{name}");
        }
    }

    /// Of an unknown latency schedutil makes 6.4 s in the kernels between two commits.
    #[test]
    fn rate_limits_of_an_unknown_latency() {
        let limit_us = |driver: &str, kernel: &str, told_ns: u64| {
            let (driver, kernel) = (DriverId::named(driver).expect("a driver"), named(kernel));
            kernel.rate_limit_us(0, driver.transition_latency_ns(told_ns, &kernel))
        };
        let kernels = ["5.10", "6.6", "6.10", "6.12", "6.12.53", "6.12.54", "6.17.3", "6.17.4", "6.18"];
        let expected = [10_000, 10_000, 2_000, 6_442_450, 6_442_450, 1_500, 6_442_450, 1_500, 1_500];
        for name in ["cpufreq-dt", "scmi", "scpi"] {
            assert_eq!(kernels.map(|kernel| limit_us(name, kernel, 0)), expected, "{name}");
            assert_eq!(limit_us(name, "6.12", 10_000), 15, "{name}");
        }
        assert_eq!(kernels.map(|kernel| limit_us("qcom-cpufreq-hw", kernel, 0)), [1_000; 9]);
    }

    /// Every gate can be listed, shown and set to each of its values; values come in the order of versions and each
    /// has a source.
    #[test]
    fn table_is_whole() {
        for gate in GATES {
            let mut profile = named("6.12");
            for value in gate.values {
                assert_eq!(profile.set(gate.name, value.name), Ok(()), "{} = {}", gate.name, value.name);
                assert_eq!(profile.show(gate.name), Some(value.name));
                assert!(!value.sources.is_empty() && !value.what.is_empty(), "{} = {}", gate.name, value.name);
            }
            let since: Vec<Version> = gate.values.iter().filter_map(|value| value.since).collect();
            assert_eq!(since.first(), Some(&(4, 14)), "{}", gate.name);
            assert!(since.windows(2).all(|pair| pair[0] < pair[1]), "{}", gate.name);
        }
    }

    #[test]
    fn wrong_names_are_told_the_right_ones() {
        let mut profile = named("6.12");
        assert!(KernelProfile::named("7.9").is_none());
        assert!(unknown_profile("7.9").contains("the nearest is \"7.3\""));
        let near = |name, nearest| assert_eq!(nearest_profile(name), nearest, "{name}");
        near("6.10", Some("6.10"));
        near("v6.2.7-arch1", Some("6.2"));
        near("8.0", Some("7.3"));
        near("4.13", Some("4.14"));
        near("4.9-android", Some("4.14-android"));
        near("5.188", Some("5.18"));
        near("mainline", None);
        assert_eq!(profile.set("feec", "none"), Err(GateError::UnknownGate("feec".into())));
        let error = profile.set("feec_margin", "5-percent").expect_err("no such value").to_string();
        assert!(error.contains("6-percent-of-total"), "{error}");
        assert_eq!(profile, named("6.12"));
    }

    /// What a name leaves open is noted.
    #[test]
    fn notes_tell_what_was_assumed() {
        let note = |name: &str| release::parse(name).expect("a name").note();
        assert_eq!(note("6.12"), None);
        assert_eq!(note("6.12.43"), None);
        assert_eq!(note("6.1.0-56-amd64").as_deref(), Some("Debian's 6.1.0-56 is 6.1.192"));
        let newer = note("6.12.130").expect("newer than what was read");
        assert!(newer.contains("taken as 6.12.117"), "{newer}");
        let partly = note("6.6.88").expect("not all is known of 6.6.y");
        assert!(partly.contains("sugov_util (89)"), "{partly}");
        let android = note("android15-6.6").expect("a branch");
        assert!(android.contains("no point release") && android.contains("not modelled"), "{android}");
        let with_gates = note("4.14-android").expect("a branch");
        assert!(with_gates.contains("the gates of this profile are modelled"), "{with_gates}");
        assert!(note("6.8.0-45-generic").expect("Ubuntu's").contains("taken as 6.8"));
    }

    #[test]
    fn series_that_were_read_have_profiles() {
        for &(version, last) in release::READ {
            assert!(release::is_mainline(version));
            for gate in GATES {
                for stable in gate.values.iter().flat_map(|value| value.stable).filter(|of| of.version == version) {
                    assert!(stable.from <= last, "{}: {}", gate.name, stable.text());
                }
            }
        }
    }
}
