//! Kernel profiles: what differs between versions, in one table of gates.
//!
//! A policy names a profile ("5.18"), never single gates; for an experiment each gate can be overridden by name. A
//! gate's value in a profile is the last one whose version is not above the profile's, so that the table also answers
//! for versions between the named ones ([`KernelProfile::at`]).
//!
//! Each value cites a commit, whose title was checked in public history, or a section of the project's kernel notes.
//! "From memory" marks what the notes or this table did not check. Orthogonal to all gates and not here: which f_max
//! is taken ([`crate::freq_invariance::FreqMax`]), the drivers, tunables, CONFIG_HZ and the PELT half-life.

use crate::cpufreq::intel_pstate::IowaitBoostForm;
use crate::cpufreq::schedutil::{
    SugovGates, cpufreq_policy_transition_delay_us, cpufreq_policy_transition_delay_us_v5_10,
};
use crate::eas::{EasForm, EasGates};
use crate::freq_invariance::{FreqMax, FreqMaxOf};
use crate::proposals::Proposals;
use crate::util_est::UtilEstForm;

/// A kernel version: major and minor number.
pub type Version = (u16, u16);

/// In no profile; for overriding only.
const NEVER: Version = (u16::MAX, 0);

/// One possible value of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateValue {
    /// The value's name in policy files.
    pub name: &'static str,
    /// The first version with it; `None`: in no later one.
    pub since: Option<Version>,
    /// Older versions whose stable releases have it all the same; these hold for the profile of that number.
    pub backported: &'static [Version],
    /// What it means.
    pub what: &'static str,
    /// Where that is known from.
    pub source: &'static str,
}

impl GateValue {
    /// The versions that brought it, `None` for a value that no profile has.
    pub fn since_text(&self) -> Option<String> {
        let version = |&(major, minor): &Version| format!("{major}.{minor}");
        let backported = self.backported.iter().map(|of| format!("{} (backport)", version(of)));
        let all: Vec<String> = backported.chain(self.since.as_ref().map(version)).collect();
        (!all.is_empty()).then(|| all.join(", "))
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

macro_rules! backported {
    () => {
        &[]
    };
    ($also:expr) => {
        &$also
    };
}

macro_rules! gates {
    ($(
        $field:ident: $type:ident, $what:literal {
            $($variant:ident = $name:literal since $since:expr, $(backported $also:expr,)? $meaning:literal, $source:literal;)+
        }
    )+) => {
        $(
            #[doc = $what]
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $type {
                $(
                    #[doc = concat!("`", $name, "`: ", $meaning, " (", $source, ").")]
                    $variant,
                )+
            }

            impl $type {
                /// All values, in the order of the versions that brought them.
                pub const ALL: &'static [Self] = &[$(Self::$variant),+];
                const SINCE: &'static [Version] = &[$($since),+];
                const BACKPORTED: &'static [&'static [Version]] = &[$(backported!($($also)?)),+];

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

                fn at(version: Version) -> Self {
                    let backport = Self::BACKPORTED.iter().position(|versions| versions.contains(&version));
                    let last = backport.or_else(|| Self::SINCE.iter().rposition(|&since| since <= version));
                    Self::ALL[last.unwrap_or(0)]
                }
            }
        )+

        /// The table: every gate with its values, versions and sources.
        pub const GATES: &[Gate] = &[
            $(Gate {
                name: stringify!($field),
                what: $what,
                values: &[
                    $(GateValue {
                        name: $name,
                        since: if $since.0 == NEVER.0 { None } else { Some($since) },
                        backported: backported!($($also)?),
                        what: $meaning,
                        source: $source,
                    },)+
                ],
            },)+
        ];

        /// How a kernel of some version behaves: the value of every gate.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct KernelProfile {
            /// The version whose values were taken.
            pub version: Version,
            /// What was posted for the kernel and not merged, and is added to it.
            pub proposals: Proposals,
            $(
                #[doc = $what]
                pub $field: $type,
            )+
        }

        impl KernelProfile {
            /// The gates as they are in `version`; versions before v4.17 count as that.
            pub fn at(version: Version) -> Self {
                Self { version, proposals: Proposals::NONE, $($field: $type::at(version)),+ }
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
        ScaledContribution = "scaled-contribution" since (4, 17), "each contribution is multiplied by frequency and capacity", "notes 2b";
        TimeDilated = "time-dilated" since (5, 1), "the clock runs slower on slow CPUs", "commit 23127296889f, notes 2";
        None = "none" since NEVER, "busy time is taken as it is", "text 002";
    }
    x86_invariance: X86Invariance, "Which x86 machines know their speed relative to f_max." {
        Absent = "absent" since (4, 17), "none: the frequency scale is always 1024", "notes 3 and 14";
        Intel = "intel" since (5, 7), "Intel, with four-core turbo as f_max", "commit 1567c3e3467c";
        IntelAmd = "intel-amd" since (5, 11), "AMD too, with the midpoint of max_boost and max_P as f_max", "commits 41ea667227ba and 976df7e5730e";
    }
    runnable_signal: RunnableSignal, "What PELT keeps beside load and utilisation." {
        Load = "load" since (4, 17), "the runnable load, runnable_load_avg", "notes 2b";
        Runnable = "runnable" since (5, 7), "the number of runnable tasks, runnable_avg", "notes 1, from memory";
    }
    util_est: UtilEst, "How a task's utilisation is estimated at wake-up." {
        Quarter = "quarter" since (4, 17), "last activation and an average that moves by a quarter both ways", "commit 7f65ea42eb00, notes 4";
        FastUp = "fast-up" since (5, 5), "the average goes up at once", "commit b8c96361402a";
        Filtered = "filtered" since (5, 12), "small changes of the average still store the last activation", "commit b89997aa88f0";
        Runnable = "filtered-runnable" since (6, 5), "no decay while the task was kept waiting", "notes 4, public history";
        Single = "single" since (6, 8), "one value", "commit 11137d384996";
    }
    util_est_dequeue: UtilEstDequeue, "As of when a task that falls asleep is estimated." {
        AfterUpdate = "after-update" since (4, 17), "as of its leaving the queue", "notes 4";
        BeforeUpdate = "before-update" since (6, 12), "as of its last update before that, mostly a tick's", "fair.c:dequeue_task_fair(), v6.12";
    }
    migrate_pelt_lag: MigratePeltLag, "A task that leaves an idle CPU whose queue was not updated." {
        Ignored = "ignored" since (4, 17), "does not decay for that time", "fair.c:migrate_task_rq_fair(), v5.10";
        Estimated = "estimated" since (5, 19), "decays for it", "fair.c:migrate_se_pelt_lag(), v6.12; the version from public history";
    }
    blocked_update: BlockedUpdate, "The averages that decay first where CPUs sleep." {
        FairFirst = "fair-first" since (4, 17), "those of the fair class; the governor hears of these only", "public history";
        OthersFirst = "others-first" since (5, 5), "those of the other classes, and the governor hears of them", "fair.c:update_blocked_averages(), v5.5, from memory";
    }
    irq_avg: IrqAvg, "Whether time in interrupts has a utilisation, where it is accounted for." {
        Absent = "absent" since (4, 17), "no", "public history";
        Tracked = "tracked" since (4, 19), "yes", "pelt.c:update_irq_load_avg(), public history";
    }
    dl_util: DlUtil, "By what the clock follows deadline tasks." {
        Bandwidth = "bandwidth" since (4, 17), "their bandwidth (v4.16)", "cpufreq_schedutil.c:sugov_get_util(), public history";
        Ran = "ran" since NEVER, "the time that they ran, as for real-time tasks", "Android's kernel/msm, android-msm-coral-4.14, cpufreq_schedutil.c:sugov_get_util()";
    }
    // schedutil.
    sugov_util: SugovUtil, "Which utilisation schedutil computes." {
        Clamped = "clamped" since (4, 17), "one number, clamped by uclamp", "notes 5";
        Bounded = "bounded" since (6, 8), "the utilisation and its bounds apart", "commit 9c0b4bb7f630";
    }
    headroom: HeadroomPlace, "Where schedutil's headroom of 1.25 is applied." {
        InFrequency = "in-frequency" since (4, 17), "on the reference frequency", "notes 5";
        InClampedUtil = "in-clamped-util" since (5, 14), "on the clamped utilisation", "notes 5, from memory";
        InEffectivePerf = "in-effective-perf" since (6, 8), "on the utilisation, before it is bounded", "commit 9c0b4bb7f630";
    }
    noninvariant_headroom: NoninvariantHeadroom, "How often the headroom counts without frequency invariance." {
        Once = "once" since (4, 17), "1.25 * f_curr * util", "text 002, notes 5";
        Twice = "twice" since (6, 8), "1.25 * f_curr * 1.25 * util", "commit b3edde44e5d4, notes 5";
    }
    freq_ref: FreqRef, "The frequency of which an invariant utilisation is a share." {
        CpuinfoMax = "cpuinfo-max" since (4, 17), "the policy's hardware maximum", "notes 5";
        Arch = "arch" since (6, 8), "arch_scale_freq_ref() where the architecture has one", "commit b3edde44e5d4";
    }
    acpi_cpuinfo_max: AcpiCpuinfoMax, "What acpi-cpufreq calls the policy's hardware maximum." {
        P0 = "p0" since (4, 17), "the highest entry of its table", "text 000";
        Boost = "boost" since (5, 12), "the highest boost frequency, where CPPC tells it", "commit 538b0188da46; the version from memory";
    }
    runnable_boost: RunnableBoost, "Whether waiting tasks raise the utilisation that the governor sees." {
        Off = "off" since (4, 17), "no", "notes 5";
        On = "on" since (6, 5), "a larger runnable signal counts instead", "commit 7d0583cf9ec7";
    }
    shared_stale_cpus: SharedStaleCpus, "CPUs of a shared policy that did not report for a tick." {
        Counted = "counted" since (4, 17), "count with their decayed utilisation", "notes 5, from memory";
        Ignored = "ignored" since NEVER, "are left out (to v4.16)", "notes 5, from memory";
    }
    sugov_iowait_boost: SugovIowaitBoost, "The unit of schedutil's boost for I/O." {
        Frequency = "frequency" since (4, 17), "kHz, from the lowest frequency on", "notes 5, from memory";
        Capacity = "capacity" since (5, 1), "capacity, from 128 on", "notes 5";
    }
    sugov_clamps: SugovClamps, "What utilisation clamps hold for beside the utilisation." {
        UtilOnly = "util-only" since (4, 17), "nothing", "public history";
        BoostToo = "boost-too" since (5, 18), "the boost for I/O too, and a cap lets the frequency of a busy CPU fall", "commits d37aee9018e6 and 7a17e1db1265, cpufreq_schedutil.c v6.1";
    }
    rate_limit: RateLimit, "schedutil's default rate limit if the driver suggests none." {
        Latency1000Max10ms = "latency-x1000-10ms" since (4, 17), "a thousand transition latencies, at most 10 ms", "notes 5";
        Latency1000Max2ms = "latency-x1000-2ms" since (6, 9), "a thousand transition latencies, at most 2 ms", "commit e13aa799c2a6";
        Latency1_5 = "latency-x1.5" since (6, 12), "one and a half transition latencies", "commit 37c6dccd6837, notes 5";
    }
    rate_limits: RateLimits, "schedutil's tunables of its rate limit." {
        One = "one" since (4, 17), "rate_limit_us", "notes 5";
        UpAndDown = "up-and-down" since NEVER, "up_rate_limit_us and down_rate_limit_us", "Android's kernel/common, android-4.14, cpufreq_schedutil.c";
    }
    sugov_affinity: SugovAffinity, "Whether user space may move schedutil's threads." {
        Bound = "bound" since (4, 17), "no: bound to the policy's CPUs", "notes 5";
        Free = "free" since (6, 14), "yes, where any CPU may change the frequency", "text 004, commit 93940fbdc468";
    }
    // Energy-aware scheduling.
    eas: Eas, "Energy-aware task placement." {
        Absent = "absent" since (4, 17), "does not exist", "commit 732cd75b8c92";
        Present = "present" since (5, 0), "find_energy_efficient_cpu()", "commit 732cd75b8c92";
        Groups = "groups" since NEVER, "energies of scheduling groups, all CPUs compared", "Android's kernel/msm, android-msm-coral-4.14, fair.c";
    }
    overutilized: Overutilized, "Where it is noted that energy must not decide." {
        RootDomain = "root-domain" since (4, 17), "for all CPUs together", "commit 2802bf3cd936";
        EachDomain = "each-domain" since NEVER, "in each scheduling domain, from 95 % of a CPU on", "Android's kernel/msm, android-msm-coral-4.14, fair.c";
    }
    feec_margin: FeecMargin, "What another CPU must save for a task to leave its previous one." {
        SixPercentPrev = "6-percent-of-prev" since (4, 17), "a sixteenth of the energy with the task on its previous CPU", "commit eb92692b2544 (what it replaced)";
        SixPercentTotal = "6-percent-of-total" since (5, 4), "a sixteenth of all energy", "commit eb92692b2544, notes 9";
        None = "none" since (6, 0), "anything", "commit b812fc9768e0";
    }
    feec_energy: FeecEnergy, "How the energy with a task on a CPU is computed." {
        AllDomains = "all-domains" since (4, 17), "of all domains, with differences that may wrap", "fair.c:compute_energy(), v5.10";
        BusyTime = "busy-time" since (5, 14), "of the domains with a candidate, busy time apart from frequency", "notes 9, public history";
        Clamped = "clamped" since (6, 0), "the frequency follows the clamped utilisation", "public history";
        Bounded = "bounded" since (6, 8), "the frequency follows the utilisation within its bounds", "fair.c:eenv_pd_max_util(), v6.12";
    }
    feec_runnable: FeecRunnable, "The runnable signal of a CPU that a waking task comes to or leaves, where it counts for the energy." {
        Whole = "whole" since (4, 17), "all of it, and the task's utilisation more or less", "commit 7d0583cf9ec7";
        Moved = "moved" since NEVER, backported [(6, 12)], "with the task's own runnable signal more or less (v6.12.117; v6.18.15 has it not, which later one brought it is not known)", "fair.c:cpu_util(), v6.12.117";
    }
    em_cost: EmCost, "How the energy model's costs are formed." {
        MilliWatt = "mW" since (4, 17), "fmax * mW / freq", "notes 8";
        MilliWattEfficient = "mW-efficient" since (5, 16), "the same in 1/1000, inefficient states passed over", "notes 8, public history";
        MicroWatt = "uW" since (6, 0), "fmax * uW / freq", "notes 8, public history";
        TenthMicroWatt = "uW-x10" since (6, 6), "fmax * uW * 10 / freq", "notes 8, from memory";
        Performance = "performance" since (6, 9), "uW * 10 / performance", "notes 8";
    }
    // The fair class and placement.
    fair_class: FairClass, "How the fair class picks." {
        Cfs = "cfs" since (4, 17), "the smallest virtual run time", "notes 12, notes-scheduler B";
        Eevdf = "eevdf" since (6, 6), "the earliest virtual deadline of those eligible", "commit 147f3efaa241";
    }
    base_slice: BaseSlice, "The base slice before scaling by the number of CPUs (CFS: the minimal granularity)." {
        Us750 = "0.75ms" since (4, 17), "0.75 ms", "notes 12";
        Us700 = "0.70ms" since (6, 12), "0.70 ms, a backport in v6.12.117", "notes 12";
    }
    delay_dequeue: DelayDequeue, "Whether a task that sleeps while not eligible stays queued." {
        Off = "off" since (4, 17), "no", "notes 12";
        On = "on" since (6, 12), "until it is eligible", "commit 152e11f6df29";
    }
    rt_throttling: RtThrottling, "What keeps fair tasks from starving behind real-time tasks." {
        Period = "period" since (4, 17), "real-time tasks have 950 ms of each second of a CPU", "rt.c v6.1";
        FairServer = "fair-server" since (6, 12), "fair tasks have a deadline server of 50 ms in a second, deferred", "commits 5f6bd380c7bd and d741f297bcea, deadline.c v6.12.117";
        None = "none" since NEVER, "nothing: sched_rt_runtime_us is -1", "Documentation/scheduler/sched-rt-group.rst";
    }
    grub: Grub, "What deadline tasks that reclaim bandwidth (SCHED_FLAG_RECLAIM) may use of a CPU together." {
        Whole = "whole" since (4, 17), "all of it, less what inactive tasks have and what is not admitted", "deadline.c v6.1.192";
        Limit = "limit" since (6, 5), "the share that deadline tasks may have, 95 %", "commit 6a9d623aad89, deadline.c v6.12.117";
    }
    select_idle_scan: SelectIdleScan, "What limits the search for an idle CPU at wake-up." {
        SisProp = "sis-prop" since (4, 17), "a 512th of the average idle time against the cost of scanning; cores, CPUs, then siblings", "commit 4c77b18cf8b7, fair.c v5.10";
        SisPropAged = "sis-prop-aged" since (5, 14), "half the average idle time, aging while busy, against the cost of scanning; siblings first (the order is v5.13's)", "commit 94aafc3ee31d, fair.c v5.15";
        SisUtil = "sis-util" since (5, 19), "the utilisation of the cache domain", "commit 70fb5ccf2ebb";
    }
    idlest_group: IdlestGroup, "How a new task or an exec finds the group of CPUs that it goes to, and which loads a wake-up compares." {
        Loads = "loads" since (4, 17), "by the load of what is queued, with a margin, and on average; an exec by spare capacity first. A wake-up compares what is queued", "fair.c:find_idlest_group() and wake_affine_weight(), v5.4, commits 57abff067a08 and 11f10e5420f6 (what they replaced)";
        Types = "types" since (5, 5), "by the type of group, then the number of idle CPUs; on its NUMA node while that has an idle CPU. A wake-up compares average loads", "commits 57abff067a08 and 11f10e5420f6";
        Util = "util" since (5, 9), "by the utilisation, too, where as many are idle", "commit 3edecfef0285";
        NumaImbalance = "numa-imbalance" since (5, 11), "on its node only while few tasks run there", "commit 7d2b5dd0bcc4, from memory";
    }
    wake_affine_prev: WakeAffinePrev, "Whether a wake-up on a busy CPU stays with the task's previous CPU because that is idle." {
        Compared = "compared" since (4, 17), "no, the loads are compared", "commit d8fcb81f1acf (what it replaced)";
        Idle = "idle" since (5, 11), "yes", "commit d8fcb81f1acf";
    }
    idle_sibling: IdleSibling, "Whether a wake-up without energy looks for an idle CPU." {
        Search = "search" since (4, 17), "select_idle_sibling()", "notes 10";
        Stay = "stay" since NEVER, "no: its search by idle state finds none", "Android's kernel/msm, android-msm-coral-4.14, fair.c:select_idle_sibling_cstate_aware()";
    }
    bound_kworker_wakes: BoundKworkerWakes, "Where a thread of a bound workqueue wakes a task that slept on the thread's own CPU." {
        Elsewhere = "elsewhere" since (4, 17), "on another CPU, as its own is busy with the thread", "commit 52262ee567ad (what it replaced)";
        Stacks = "stacks" since (5, 6), "there, if nothing else is runnable on it", "commit 52262ee567ad, fair.c:select_idle_sibling(), v6.12";
    }
    xfs_cil: XfsCil, "Where XFS pushes its log." {
        Bound = "bound" since (4, 17), "on the CPU that asks for it", "commit 8ab39f11d974 (what it replaced)";
        Unbound = "unbound" since (5, 4), "where the scheduler puts the worker", "commit 8ab39f11d974, xfs_log_cil.c, v5.4";
    }
    sched_idle_cpu: SchedIdleCpu, "A CPU with tasks of SCHED_IDLE only." {
        Busy = "busy" since (4, 17), "is busy for others", "public history";
        Idle = "idle" since (5, 4), "is as good as idle for them", "fair.c:sched_idle_cpu(), v5.4, public history";
    }
    uclamp_inc: UclampInc, "When a task's clamps begin to count." {
        BeforeEnqueue = "before-enqueue" since (4, 17), "before its class queues it", "core.c:enqueue_task(), v5.10";
        AfterEnqueue = "after-enqueue" since (6, 12), "after that, since it may end a delayed dequeue", "core.c:enqueue_task(), v6.12";
    }
    newidle_skip: NewidleSkip, "Whether a CPU that goes idle passes over levels of balancing." {
        Cost = "cost" since (4, 17), "where they take longer than it will idle", "notes-scheduler D";
        CostAndChance = "cost-and-chance" since (6, 12), "and by chance, as it found little there before", "fair.c:sched_balance_newidle(), v6.12.117";
    }
    nohz_next_kick: NohzNextKick, "When the next idle balance is, once a CPU stopped its tick." {
        Kept = "kept" since (4, 17), "as it was", "public history";
        Recomputed = "recomputed" since (5, 15), "computed again", "fair.c:nohz_balancer_kick() with NOHZ_NEXT_KICK, v5.15";
    }
    // The other classes.
    fair_server: FairServer, "Whether fair tasks have a deadline server." {
        Absent = "absent" since (4, 17), "no", "public history";
        Present = "present" since (6, 12), "yes", "deadline.c:fair_server_init(), v6.12";
    }
    dl_rt_task: DlRtTask, "Whether a deadline task is a real-time one where such a task wakes." {
        Counted = "counted" since (4, 17), "yes", "include/linux/sched/rt.h:rt_task(), v5.10";
        Apart = "apart" since (6, 12), "no", "include/linux/sched/rt.h:rt_task(), v6.12";
    }
    // cpuidle.
    single_state_tick: SingleStateTick, "The tick of an idle CPU with at most one idle state." {
        Stopped = "stopped" since (4, 17), "stops at once", "idle.c:cpuidle_idle_call(), v5.10";
        Retained = "retained" since (6, 12), "stays until one found it idle", "idle.c:idle_call_stop_or_retain_tick(), v6.12.117";
    }
    menu: MenuForm, "What the menu idle governor goes by." {
        Iowait = "iowait" since (4, 17), "timers always; tasks that wait for I/O here have factors of their own and limit the exit latency", "public history; as in v4.20, earlier ones also count the load";
        IowaitTimerLate = "iowait-timer-late" since (6, 6), "the same; the timers are not asked where short sleeps are typical", "commit 5484e31bbbff";
        TimerLate = "timer-late" since (6, 12), "no regard to I/O; a short real sleep only where polling would last", "commit 38f83090f515, menu.c v6.12.117";
        BothEnds = "both-ends" since (6, 15), "typical intervals without outliers on both sides, or else the longest of those left", "commit 85975daeaa4d, menu.c of public sources v6.16";
        BothEndsOnly = "both-ends-only" since (6, 17), "without outliers on both sides, or else none", "news.md (the revert)";
        BothEndsPoll = "both-ends-poll" since (6, 18), "the same; a short real sleep only where polling would last, and the timers are asked without a tick", "menu.c of public sources v6.18";
    }
    teo: TeoForm, "What the teo idle governor goes by." {
        Recent = "recent" since (4, 17), "timers always; counts of early wake-ups and the last nine", "teo.c v6.1; in the kernel since v5.1, of this form since v5.14";
        TickHits = "tick-hits" since (6, 11), "counts alone, with those beyond the tick apart; the timers are asked where they may matter", "commit 449914398083, teo.c v6.12.117";
        ShortIdles = "short-idles" since (6, 14), "the timers are not asked where most sleeps are short", "commit 13ed5c4a6d9c, teo.c of public sources v6.14 to v6.18";
        TickWakeups = "tick-wakeups" since (6, 19), "wake-ups by the tick are counted on their own", "news.md, teo.c of public sources after v6.18";
    }
    teo_util: TeoUtil, "Whether teo looks at the CPU's utilisation." {
        Ignored = "ignored" since (4, 17), "no", "teo.c v6.1";
        Shallower = "shallower" since (6, 3), "a shallower state on CPUs that use more than 1/64 of their capacity", "commit 9ce0f7c4bc64, public history";
        Dropped = "dropped" since (6, 11), "no more", "commit 449914398083 and those before it, teo.c v6.12.117";
    }
    // Hybrids and preferred cores.
    hybrid_capacity: HybridCapacity, "Capacities of Intel's hybrid processors without SMT." {
        Equal = "equal" since (4, 17), "1024 everywhere; the cores have packing priorities", "public history";
        ByLevel = "by-level" since (6, 12), "by HWP's highest level, instead of priorities", "commit 929ebc93ccaa, intel_pstate.c v6.12.117";
    }
    hybrid_em: HybridEm, "The energy model that intel_pstate registers for hybrids without SMT, in passive mode." {
        Absent = "absent" since (4, 17), "none", "public history";
        Scaling = "scaling" since (6, 16), "each CPU a domain of four states; costs by the frequency of a level, so that all E-cores come first", "news.md, patch \"cpufreq: intel_pstate: EAS support for hybrid platforms\"";
        Kind = "kind" since (6, 19), "costs by the kind of core: P-cores from 60 % of an E-core on", "news.md, patch \"cpufreq: intel_pstate: hybrid: Adjust energy model rules\"";
    }
    itmt_threads: ItmtThreads, "Packing priorities of the threads of a core." {
        Ranked = "ranked" since (4, 17), "second threads come after whole cores", "arch/x86/kernel/itmt.c v6.1";
        Alike = "alike" since (6, 5), "all threads have that of their core", "public history; the version from memory";
    }
    amd_prefcore: AmdPrefcore, "Whether amd-pstate tells the scheduler which cores clock highest." {
        Absent = "absent" since (4, 17), "no", "amd-pstate.c v6.1";
        Ranked = "ranked" since (6, 9), "by the highest level of each core", "commit f3a052391822, amd-pstate.c v6.12.117";
    }
    // amd-pstate.
    amd_pstate: AmdForm, "What amd-pstate's requests follow." {
        Unlimited = "unlimited" since (4, 17), "the governor alone; boost is a level above the nominal one", "amd-pstate.c v6.1; in the kernel since v5.17";
        Limited = "limited" since (6, 7), "the policy's limits too", "commit febab20caeba; the rest as in amd-pstate.c v6.12.117";
    }
    // intel_pstate.
    hwp_dynamic_boost: HwpDynamicBoost, "Whether intel_pstate raises HWP's lower limit after I/O." {
        Absent = "absent" since (4, 17), "does not exist", "commit e0efd5be63e8, text 001";
        Servers = "servers" since (4, 18), "by default on servers only", "commit e0efd5be63e8, notes 7";
        Everywhere = "everywhere" since NEVER, "on every machine", "text 001";
    }
    intel_passive_hwp: IntelPassiveHwp, "Whether intel_pstate's passive mode leaves HWP on." {
        Off = "off" since (4, 17), "no", "notes 7";
        On = "on" since (5, 9), "yes", "commit f6ebbcf08f37";
    }
    intel_hwp_target: IntelHwpTarget, "What intel_pstate's passive mode asks of HWP for a governor's frequency." {
        Floor = "floor" since (4, 17), "at least it; the firmware may go higher", "commit f6ebbcf08f37, public history";
        StrictFloor = "strict-floor" since (5, 10), "the same, and exactly it for governors with one frequency (performance, powersave, userspace)", "public history; the version from memory";
        Desired = "desired" since (6, 17), backported [(6, 1), (6, 12)], "at least it, and it as the desired level", "news.md; intel_cpufreq_update_pstate() in intel_pstate.c v6.1.192 and v6.12.117";
    }
    intel_adjust_perf: IntelAdjustPerf, "What schedutil gives intel_pstate's passive mode with HWP." {
        Frequencies = "frequencies" since (4, 17), "frequencies", "notes 7";
        Levels = "levels" since (5, 11), "performance levels", "commit a365ab6b9dfb";
    }
    intel_iowait_boost: IntelIowaitBoost, "How intel_pstate's active mode without HWP boosts for I/O." {
        Full = "full" since (4, 17), "to the full at once", "from memory";
        Doubling = "doubling" since (5, 1), "from an eighth on, doubling", "notes 7; the version from memory";
    }
}

/// The profiles that policies may name, oldest first.
pub const PROFILES: &[(&str, Version)] = &[
    ("4.14-android", (4, 14)),
    ("4.17", (4, 17)),
    ("4.19", (4, 19)),
    ("5.0", (5, 0)),
    ("5.4", (5, 4)),
    ("5.9", (5, 9)),
    ("5.10", (5, 10)),
    ("5.15", (5, 15)),
    ("5.18", (5, 18)),
    ("6.1", (6, 1)),
    ("6.5", (6, 5)),
    ("6.6", (6, 6)),
    ("6.8", (6, 8)),
    ("6.12", (6, 12)),
    ("6.13", (6, 13)),
    ("6.14", (6, 14)),
    ("6.16", (6, 16)),
    ("6.18", (6, 18)),
    ("6.19", (6, 19)),
];

/// The names of all gates, in the order of the table.
pub fn gate_names() -> impl Iterator<Item = &'static str> {
    GATES.iter().map(|gate| gate.name)
}

/// The names of all profiles, oldest first.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|&(name, _)| name)
}

/// The profile that is nearest to `name`: by version (of two as near the older one, whose values hold until the newer); of what is
/// no version the one that it begins with, or none.
pub fn nearest_profile(name: &str) -> Option<&'static str> {
    let bare = name.strip_prefix('v').unwrap_or(name);
    let mut numbers = bare.split(['.', '-', '+']).map_while(|part| part.parse::<u16>().ok());
    let (major, minor) = (numbers.next()?, numbers.next().unwrap_or(0));
    if minor > 30 {
        return profile_names().filter(|known| bare.starts_with(known)).max_by_key(|known| known.len());
    }
    let wanted = place((major, minor));
    let named = PROFILES.iter().filter(|(known, _)| known.ends_with("-android") == bare.contains("android"));
    named.min_by_key(|(_, version)| place(*version).abs_diff(wanted)).map(|(known, _)| *known)
}

/// The place of a version among all versions: v4.20 is before v5.0, v5.19 before v6.0, v6.19 before v7.0.
fn place((major, minor): Version) -> u32 {
    let of_major = match major {
        0..=4 => u32::from(major) * 21,
        _ => 84 + 21 + u32::from(major - 5) * 20,
    };
    of_major + u32::from(minor)
}

/// What to say of a name that no profile has.
pub fn unknown_profile(name: &str) -> String {
    let nearest = nearest_profile(name).map_or_else(String::new, |nearest| format!("; the nearest is {nearest:?}"));
    format!("unknown kernel profile {name:?}{nearest} (known: {})", profile_names().collect::<Vec<_>>().join(", "))
}

/// Kinds of machine that tell their speed in different ways.
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
    /// The profile called `name` (a leading `v` is allowed), one of [`PROFILES`].
    pub fn named(name: &str) -> Option<Self> {
        let bare = name.strip_prefix('v').unwrap_or(name);
        let &(known, version) = PROFILES.iter().find(|(known, _)| *known == bare)?;
        let profile = Self::at(version);
        Some(if known.ends_with("-android") { profile.with_android_eas() } else { profile })
    }

    /// Android's patches before mainline had energy-aware scheduling.
    fn with_android_eas(self) -> Self {
        Self {
            eas: Eas::Groups,
            overutilized: Overutilized::EachDomain,
            idle_sibling: IdleSibling::Stay,
            rate_limits: RateLimits::UpAndDown,
            dl_util: DlUtil::Ran,
            ..self
        }
    }

    /// `arch_scale_freq_invariant()`: whether utilisation is relative to f_max on such a machine.
    pub fn freq_invariant(&self, platform: Platform) -> bool {
        let arch_knows = match platform {
            Platform::Arm => true,
            Platform::Intel => self.x86_invariance != X86Invariance::Absent,
            Platform::Amd => self.x86_invariance == X86Invariance::IntelAmd,
        };
        arch_knows && self.invariance != Invariance::None
    }

    /// The f_max that the kernel takes on such a machine, where it is invariant.
    pub fn freq_max(&self, platform: Platform, of: FreqMaxOf) -> FreqMax {
        match platform {
            Platform::Arm => FreqMax::MaxBoost,
            Platform::Intel if of == FreqMaxOf::EachCpu => FreqMax::MaxBoost,
            Platform::Intel => FreqMax::Turbo4Cores,
            Platform::Amd => FreqMax::Mid,
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

    /// The gates of find_energy_efficient_cpu(), if the kernel has energy-aware placement.
    pub fn eas_gates(&self) -> Option<EasGates> {
        let form = match (self.feec_margin, self.feec_energy) {
            (FeecMargin::None, FeecEnergy::Bounded) => EasForm::V6_8,
            (FeecMargin::None, _) => EasForm::V6_0,
            (_, FeecEnergy::AllDomains) => EasForm::V5_10,
            _ => EasForm::V5_14,
        };
        let runnable_boost = self.runnable_boost == RunnableBoost::On;
        let runnable_moves = self.feec_runnable == FeecRunnable::Moved;
        let gates = EasGates { form, runnable_boost, runnable_moves, margin: self.proposals.margin };
        (self.eas != Eas::Absent).then_some(gates)
    }

    /// The gates of schedutil, as the governor takes them.
    pub fn sugov_gates(&self) -> SugovGates {
        SugovGates {
            util: self.sugov_util,
            headroom: self.headroom,
            freq_ref: self.freq_ref == FreqRef::Arch,
            margin_on_current: self.noninvariant_headroom == NoninvariantHeadroom::Twice,
            runnable_boost: self.runnable_boost == RunnableBoost::On,
            shared_skips_stale: self.shared_stale_cpus == SharedStaleCpus::Ignored,
            iowait: self.sugov_iowait_boost,
            clamps_boost: self.sugov_clamps == SugovClamps::BoostToo,
            margin: self.proposals.margin,
            iowait_boost: self.proposals.sugov_iowait_boost,
        }
    }

    /// Whether teo asks for the CPU's utilisation.
    pub fn teo_looks_at_util(&self) -> bool {
        self.teo_util == TeoUtil::Shallower || self.proposals.teo_util
    }

    /// The form of the estimate's pair of values; `None` where it is a single one.
    pub fn util_est_form(&self) -> Option<UtilEstForm> {
        match self.util_est {
            UtilEst::Quarter => Some(UtilEstForm::V4_17),
            UtilEst::FastUp => Some(UtilEstForm::V5_5),
            UtilEst::Filtered => Some(UtilEstForm::V5_12),
            UtilEst::Runnable => Some(UtilEstForm::V6_5),
            UtilEst::Single => None,
        }
    }

    /// schedutil's default `rate_limit_us` for a driver with these transition delay (0: none suggested) and latency.
    pub fn rate_limit_us(&self, transition_delay_us: u32, transition_latency_ns: u32) -> u32 {
        match self.rate_limit {
            RateLimit::Latency1000Max10ms => {
                cpufreq_policy_transition_delay_us_v5_10(transition_delay_us, transition_latency_ns)
            }
            RateLimit::Latency1000Max2ms if transition_delay_us == 0 => {
                cpufreq_policy_transition_delay_us_v5_10(0, transition_latency_ns).min(2_000)
            }
            RateLimit::Latency1000Max2ms => transition_delay_us,
            RateLimit::Latency1_5 => cpufreq_policy_transition_delay_us(transition_delay_us, transition_latency_ns),
        }
    }

    /// The I/O boost of intel_pstate's active mode.
    pub fn intel_iowait_form(&self) -> IowaitBoostForm {
        match self.intel_iowait_boost {
            IntelIowaitBoost::Full => IowaitBoostForm::Full,
            IntelIowaitBoost::Doubling => IowaitBoostForm::Doubling,
        }
    }

    /// Whether HWP's dynamic boost is on by default.
    pub fn hwp_boost_default(&self, server: bool) -> bool {
        match self.hwp_dynamic_boost {
            HwpDynamicBoost::Absent => false,
            HwpDynamicBoost::Servers => server,
            HwpDynamicBoost::Everywhere => true,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> KernelProfile {
        KernelProfile::named(name).unwrap_or_else(|| panic!("no profile {name}"))
    }

    /// What the texts say of their kernels.
    #[test]
    fn kernels_of_the_texts() {
        let check = |name, gate, value| assert_eq!(named(name).show(gate), Some(value), "{gate} of {name}");
        // 001: before and after the HWP boost.
        check("4.17", "hwp_dynamic_boost", "absent");
        check("5.0", "hwp_dynamic_boost", "servers");
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
        check("6.1", "fair_class", "cfs");
        check("6.6", "fair_class", "eevdf");
        check("6.6", "delay_dequeue", "off");
    }

    /// The governor's own constants and the table say the same.
    #[test]
    fn schedutil_agrees() {
        assert_eq!(named("5.0").sugov_gates(), SugovGates::V4_17);
        assert_eq!(named("5.9").sugov_gates(), SugovGates::V5_10);
        assert_eq!(named("5.18").sugov_gates(), SugovGates::V5_18);
        assert_eq!(named("6.6").sugov_gates(), SugovGates::V6_6);
        assert_eq!(named("v6.12").sugov_gates(), SugovGates::V6_12);
    }

    /// The forms of energy-aware placement by version.
    #[test]
    fn placement_agrees() {
        for (name, gates) in [
            ("4.17", None),
            ("5.0", Some(EasGates::V5_10)),
            ("5.9", Some(EasGates::V5_10)),
            ("5.18", Some(EasGates::V5_18)),
            ("6.1", Some(EasGates::V6_1)),
            ("6.6", Some(EasGates::V6_6)),
            ("6.8", Some(EasGates::V6_18)),
            ("6.12", Some(EasGates::V6_12)),
            ("6.18", Some(EasGates::V6_18)),
        ] {
            assert_eq!(named(name).eas_gates(), gates, "{name}");
        }
        let mut profile = named("5.18");
        profile.set("feec_margin", "none").expect("is one");
        assert_eq!(profile.eas_gates(), Some(EasGates::V6_1));
    }

    /// acpi-cpufreq's 10 us: 10 ms in old kernels, 15 us today.
    #[test]
    fn rate_limits() {
        assert_eq!(named("5.9").rate_limit_us(0, 10_000), 10_000);
        assert_eq!(KernelProfile::at((6, 10)).rate_limit_us(0, 10_000), 2_000);
        assert_eq!(named("6.12").rate_limit_us(0, 10_000), 15);
        for (name, _) in PROFILES {
            assert_eq!(named(name).rate_limit_us(500, 20_000), 500, "{name}");
        }
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
                assert!(!value.source.is_empty() && !value.what.is_empty(), "{} = {}", gate.name, value.name);
            }
            let since: Vec<Version> = gate.values.iter().filter_map(|value| value.since).collect();
            assert_eq!(since.first(), Some(&(4, 17)), "{}", gate.name);
            assert!(since.windows(2).all(|pair| pair[0] < pair[1]), "{}", gate.name);
        }
    }

    #[test]
    fn wrong_names_are_told_the_right_ones() {
        let mut profile = named("6.12");
        assert!(KernelProfile::named("6.11").is_none());
        assert!(unknown_profile("6.11").contains("the nearest is \"6.12\""));
        let near = |name, nearest| assert_eq!(nearest_profile(name), nearest, "{name}");
        near("6.10", Some("6.8"));
        near("v6.2.7-arch1", Some("6.1"));
        near("4.20", Some("4.19"));
        near("7.1", Some("6.19"));
        near("4.14", Some("4.17"));
        near("4.9-android", Some("4.14-android"));
        near("5.188", Some("5.18"));
        near("mainline", None);
        assert_eq!(profile.set("feec", "none"), Err(GateError::UnknownGate("feec".into())));
        let error = profile.set("feec_margin", "5-percent").expect_err("no such value").to_string();
        assert!(error.contains("6-percent-of-total"), "{error}");
        assert_eq!(profile, named("6.12"));
    }
}
