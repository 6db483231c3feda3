//! Decision records: what went into the placement of a task, the choice of a frequency or an idle state, a balance pass.
//!
//! A run reports them only to a [`Sink`](crate::event::Sink) that asks for them (`DECISIONS`); they are no events and are
//! in no fingerprint, so that a run with records is the same run. Recordings and the live host's log become the same
//! records. All fields are plain integers, because they become columns; what the small numbers mean is in [`CODES`].
//! Utilisations and capacities are on the kernel's scale of 1024. A record's words are in [`words`].

pub mod words;

use opplab_kernel::cpufreq::facts::SampleNote;
use opplab_kernel::cpufreq::facts::SugovDecision;
use opplab_kernel::cpufreq::schedutil::cpu_bw_dl;
use opplab_kernel::profile::HeadroomPlace;
use opplab_kernel::profile::SugovUtil;

use crate::ids::{CpuIdx, PlacementRule, TaskIdx};

/// Stands for "there was none" or "it is not known" in a small number.
pub const NONE: u8 = u8::MAX;
/// Stands for "it is not known which" in a CPU's number.
pub const NO_CPU: CpuIdx = CpuIdx::MAX;

/// Why the hardware runs slower than it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GrantLimit {
    /// It does not: the request was granted, rounded up to an operating point.
    None = 0,
    /// The table of operating points ends below the request.
    OppTable = 1,
    /// The turbo bin for so many active cores.
    TurboBin = 2,
    /// The power budget of the package.
    PowerBudget = 3,
    /// Temperature.
    Thermal = 4,
    /// The firmware's own choice within the limits (HWP and its energy-performance preference).
    Firmware = 5,
    /// Turbo is switched off.
    NoTurbo = 6,
}

impl GrantLimit {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] =
        [Self::None, Self::OppTable, Self::TurboBin, Self::PowerBudget, Self::Thermal, Self::Firmware, Self::NoTurbo];
}

/// What decided on the level that the model of a firmware takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HwpRule {
    /// The demand that it sees.
    Demand = 0,
    /// The desired level of the request.
    Desired = 1,
    /// The request's lowest level.
    Least = 2,
    /// The request's highest level.
    Most = 3,
}

/// The type of a record's field as a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    /// Flags and small enumerations.
    U8,
    /// Indexes, kHz, utilisation.
    U32,
    /// Signed indexes.
    I32,
    /// Times in ns, loads, energies.
    U64,
    /// Signed times and imbalances.
    I64,
}

/// A kind of record: its table and the fields in their order.
#[derive(Debug, Clone, Copy)]
pub struct RecordTable {
    /// The table's name.
    pub name: &'static str,
    /// Names and types.
    pub fields: &'static [(&'static str, FieldType)],
}

/// What a field of a record can be.
trait Field: Copy + Sized {
    const TYPE: FieldType;
    fn number(self) -> i128;
    fn of(number: i128) -> Option<Self>;
}

macro_rules! fields {
    ($($type:ident $variant:ident)*) => {
        $(impl Field for $type {
            const TYPE: FieldType = FieldType::$variant;
            fn number(self) -> i128 {
                self.into()
            }
            fn of(number: i128) -> Option<Self> {
                number.try_into().ok()
            }
        })*
    };
}
fields! { u8 U8 u32 U32 i32 I32 u64 U64 i64 I64 }

impl Field for bool {
    const TYPE: FieldType = FieldType::U8;
    fn number(self) -> i128 {
        self.into()
    }
    fn of(number: i128) -> Option<Self> {
        Some(number != 0)
    }
}

impl Field for PlacementRule {
    const TYPE: FieldType = FieldType::U8;
    fn number(self) -> i128 {
        self as i128
    }
    fn of(number: i128) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl Field for GrantLimit {
    const TYPE: FieldType = FieldType::U8;
    fn number(self) -> i128 {
        self as i128
    }
    fn of(number: i128) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

// The one declaration of the records: variant, table, fields. Columns, JSON, annotations and words follow from it.
macro_rules! decisions {
    ($($(#[$doc:meta])* $variant:ident = $table:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        /// One decision, or one line of what it was made of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each variant documents its fields")]
        pub enum Decision {
            $($(#[$doc])* $variant { $($field: $type),* }),*
        }

        #[derive(Clone, Copy)]
        enum Kind { $($variant),* }

        /// The kinds of records, in the order of [`Decision`]'s variants.
        pub const TABLES: &[RecordTable] = &[$(RecordTable {
            name: stringify!($table),
            fields: &[$((stringify!($field), <$type as Field>::TYPE)),*],
        }),*];

        impl Decision {
            /// The place of its kind in [`TABLES`].
            pub fn table(&self) -> usize {
                match self {
                    $(Self::$variant { .. } => Kind::$variant as usize),*
                }
            }

            /// Shows each field's name and number, in order.
            pub fn each(&self, mut show: impl FnMut(&'static str, i128)) {
                match *self {
                    $(Self::$variant { $($field),* } => {
                        $(show(stringify!($field), $field.number());)*
                    })*
                }
            }

            /// The record of kind `table` with these numbers; `None` if there is no such kind, or a number is missing or
            /// none that the field can be.
            pub fn of(table: &str, number: &dyn Fn(&str) -> Option<i128>) -> Option<Self> {
                match table {
                    $(stringify!($table) => Some(Self::$variant {
                        $($field: <$type as Field>::of(number(stringify!($field))?)?),*
                    }),)*
                    _ => None,
                }
            }
        }
    };
}

decisions! {
    /// schedutil looked at a policy: `cpu` reported (flag `iowait`), `deciding_cpu` had the highest utilisation, on
    /// scale `max_cap`, of the parts `util_*`. `iowait_boost` is what the boost for I/O asked for, `runnable_boost`
    /// is set if the runnable signal stood in for `util_cfs`. Together they are `util_sum`. It is multiplied by `headroom`
    /// in 1024 parts, at `headroom_place`: before `bound` acts (then `util` is the bounded product), after it
    /// (then `util` is the product of the bounded sum), or on the frequency (then `util` is the bounded sum). The bandwidth of
    /// the deadline class, `bw_dl`, is such a bound from v6.8 on; before, it is the class's part of the sum, `util_dl`.
    /// `ref_khz * util / max_cap` is `raw_khz`, which resolves to `wanted_khz`; the policy asked for `prev_khz` before
    /// and for `next_khz` after. A driver that takes performance levels is asked for `target_perf` instead (0: it is
    /// not). If the rate limit was in the way, `wait_ns` of it were left, and `wanted_khz` is what would have been asked
    /// for. Of a recording that does not hold the parts, `deciding_cpu` is [`NO_CPU`] and `bound` [`NONE`].
    Freq = sugov_decision {
        policy_cpu: CpuIdx, cpu: CpuIdx, deciding_cpu: CpuIdx, iowait: bool, outcome: u8, util_cfs: u32,
        runnable_boost: bool, util_rt: u32, util_dl: u32, util_irq: u32, bw_dl: u32, iowait_boost: u32,
        uclamp_min: u32, uclamp_max: u32, rt_runnable: bool, util_sum: u32, headroom: u32, headroom_place: u8,
        bound: u8, util: u32, max_cap: u32, ref_khz: u32, raw_khz: u32, wanted_khz: u32, prev_khz: u32,
        next_khz: u32, target_perf: u32, wait_ns: u64,
    }
    /// ondemand, conservative or intel_pstate without HWP took a sample of a policy: `load` percent decided, by
    /// `sample_rule`, which compared it with `threshold` percent, on `target_khz` (0: on none) before it was resolved.
    Sample = dbs_decision {
        policy_cpu: CpuIdx, cpu: CpuIdx, load: u32, threshold: u32, sample_rule: u8, target_khz: u32, prev_khz: u32,
        next_khz: u32,
    }
    /// A governor from outside was asked for a frequency by `cpu`'s report: it wanted `next_khz`. What it gives as its
    /// reasons are `util` of `max_cap`, as far as it gives any (`max_cap` 0: nothing).
    Custom = custom_decision {
        policy_cpu: CpuIdx, cpu: CpuIdx, outcome: u8, util: u32, max_cap: u32, prev_khz: u32, next_khz: u32,
    }
    /// A driver wrote the firmware's request of hardware P-states: levels from `least` to `most`, `desired` (0: the firmware
    /// chooses), with energy-performance preference `epp`. By the model of the firmware that is level `level`, decided by
    /// `hwp_rule`, at `level_khz` a level; it sees a demand of `demand_khz`.
    Hwp = hwp_decision {
        policy_cpu: CpuIdx, least: u32, most: u32, desired: u32, epp: u32, demand_khz: u32, level: u32, hwp_rule: u8,
        level_khz: u32,
    }
    /// A CPU went idle: the governor chose state `state` of `nr_states`, with a target residency of `residency_ns`, when the
    /// next timer was `sleep_length_ns` away and the next event with the tick running `delta_tick_ns`.
    Idle = idle_decision {
        cpu: CpuIdx, state: u32, nr_states: u32, residency_ns: u64, deeper_ns: u64, sleep_length_ns: i64,
        delta_tick_ns: i64, stop_tick: bool, tick_stopped: bool, queried: bool,
    }
    /// The hardware of a policy answered: it was asked for `requested_khz` and runs at `granted_khz`, `delay_ns` after the
    /// decision of schedutil that this answers (-1: none; a limit changed, or the request is not schedutil's). Of the policies
    /// that share its clock that of `by_cpu` asks for the most: itself, where none asks for more.
    Grant = freq_grant {
        policy_cpu: CpuIdx, requested_khz: u32, granted_khz: u32, limit: GrantLimit, delay_ns: i64, by_cpu: CpuIdx,
    }
    /// A task was placed at a wake-up (`fork`: at its birth) by `rule`. `waker_cpu` ran the wake-up, on behalf of
    /// `waker` or in an interrupt. `overutilized` switches energy-aware placement off; `eas_rule` is that placement's
    /// reason. Without it the search for an idle CPU starts at `target`: `prev_cpu`, or the waking CPU if `wake_wide`
    /// did not forbid it, the domain of `imbalance_pct` holds both (0: none does), and `affine_rule` decided so.
    /// `sibling_rule` is what was found there, among `nr_idle` idle CPUs of the target's last-level cache. `util_est` is
    /// `task_util_est()`: the greater of the task's `util_avg` and its estimate.
    Placement = placement_decision {
        decision: u64, task: TaskIdx, fork: bool, prev_cpu: CpuIdx, cpu: CpuIdx, rule: PlacementRule,
        waker_cpu: CpuIdx, waker: TaskIdx, in_interrupt: bool, sync: bool, nr_allowed: u32, util_avg: u32,
        util_est: u32, overutilized: bool, eas_rule: u8, wake_wide: bool, imbalance_pct: u32, affine_rule: u8,
        this_load: u64, prev_load: u64, task_load: u64, target: CpuIdx, sibling_rule: u8, nr_idle: u32,
    }
    /// Energy-aware placement `decision` weighed `cpu`: `util` with the task, of `capacity`, leaves `spare_cap`; `fits`
    /// is 1 if the task fits, -1 if only its lower clamp can not be granted.
    Candidate = eas_candidate {
        decision: u64, cpu: CpuIdx, domain: u32, util: u32, capacity: u32, spare_cap: u32, fits: i32,
    }
    /// The energy of performance domain `domain` in placement `decision` with the task on `dst_cpu` (-1: without it), in
    /// the energy model's unit: its frequency follows `max_util`, its CPUs are busy for `busy_time` in all.
    Energy = eas_energy { decision: u64, dst_cpu: i32, domain: u32, energy: u64, max_util: u64, busy_time: u64 }
    /// A balance pass of `dst_cpu` over its domain at `level` (of `span_weight` CPUs) found an imbalance against
    /// `src_cpu` and moved `moved` tasks (`pushed`: had the running one pushed). The moves are placement events.
    Balance = balance_pass {
        dst_cpu: CpuIdx, src_cpu: CpuIdx, level: u32, span_weight: u32, idle: u8, migration: u8, imbalance: i64,
        moved: u32, pushed: bool,
    }
    /// The quota of a control group, by its place in the workload, stops its queue on `cpu`, or lets it go on (`throttled` is
    /// not set).
    Throttle = throttle_decision { cpu: CpuIdx, group: u32, throttled: bool }
    /// Deadline task `task` on `cpu` waits for its next period, or that begins (`throttled` is not set). It has used up its runtime,
    /// gave the rest away (`yielded`), or was to run between its deadline and the end of its period (`constrained`).
    DlThrottle = dl_throttle { cpu: CpuIdx, task: TaskIdx, throttled: bool, constrained: bool, yielded: bool }
    /// Real-time tasks on `cpu` have run for as long as they may in this period, or the next one begins (`throttled` is not set).
    RtThrottle = rt_throttle { cpu: CpuIdx, throttled: bool }
}

/// What of a decision of schedutil its governor does not know.
#[derive(Debug, Clone, Copy)]
pub struct FreqContext<'a> {
    /// The policy's CPUs.
    pub members: &'a [CpuIdx],
    /// The utilisation's form of the kernel.
    pub form: SugovUtil,
    /// A task that waited for I/O woke.
    pub iowait: bool,
    /// What the policy asked for before, kHz.
    pub prev_khz: u32,
    /// What is left of the rate limit, ns.
    pub wait_ns: u64,
}

impl Decision {
    /// The record of what schedutil `seen` decided; `wanted` is what it would have decided without its rate limit.
    pub fn freq(context: &FreqContext<'_>, wanted: &SugovDecision, seen: &SugovDecision) -> Self {
        let FreqContext { members, form, iowait, prev_khz, wait_ns } = *context;
        let member = |index: usize| members.get(index).copied().unwrap_or(NO_CPU);
        let steps = wanted.steps;
        let part = |of: u64| u32::try_from(of).unwrap_or(u32::MAX);
        let (headroom, place) = wanted.headroom;
        let util = match place {
            HeadroomPlace::InClampedUtil => steps.map_or(0, |steps| (steps.util * u64::from(headroom)) >> 10),
            HeadroomPlace::InEffectivePerf | HeadroomPlace::InFrequency => {
                steps.map_or(wanted.util, |steps| steps.util)
            }
        };
        let rq = steps.map(|steps| steps.rq).unwrap_or_default();
        let bw_dl = cpu_bw_dl(rq.dl_running_bw);
        Self::Freq {
            policy_cpu: member(0),
            cpu: member(seen.cpu),
            deciding_cpu: if steps.is_some() { member(wanted.deciding_cpu) } else { NO_CPU },
            iowait,
            outcome: seen.outcome as u8,
            util_cfs: part(steps.map_or(0, |steps| steps.util_cfs)),
            runnable_boost: steps.is_some_and(|steps| steps.runnable_boost),
            util_rt: part(rq.util_rt),
            // Before v6.8 the deadline class counts by its bandwidth.
            util_dl: part(if form == SugovUtil::Bounded { rq.util_dl } else { bw_dl }),
            util_irq: part(rq.util_irq),
            bw_dl: part(bw_dl),
            iowait_boost: part(steps.map_or(0, |steps| steps.iowait)),
            uclamp_min: part(rq.uclamp_min),
            uclamp_max: part(rq.uclamp_max),
            rt_runnable: rq.rt_runnable,
            util_sum: part(steps.map_or(0, |steps| steps.sum)),
            headroom,
            headroom_place: place as u8,
            bound: steps.map_or(NONE, |steps| steps.bound as u8),
            util: part(util),
            max_cap: part(wanted.max_cap),
            ref_khz: part(wanted.ref_khz),
            raw_khz: wanted.raw_khz,
            wanted_khz: wanted.next_khz,
            prev_khz,
            next_khz: seen.next_khz,
            target_perf: part(wanted.target_perf),
            wait_ns,
        }
    }

    /// The record of a sample.
    pub fn sample(policy_cpu: CpuIdx, cpu: CpuIdx, note: SampleNote, prev_khz: u32, next_khz: u32) -> Self {
        let SampleNote { load, threshold, rule, target_khz } = note;
        Self::Sample { policy_cpu, cpu, load, threshold, sample_rule: rule as u8, target_khz, prev_khz, next_khz }
    }
}

/// A small number's word, and what it means in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The word.
    pub word: &'static str,
    /// The sentence's part.
    pub phrase: &'static str,
}

const fn code(word: &'static str, phrase: &'static str) -> Code {
    Code { word, phrase }
}

/// What the small numbers of a column mean, by the column's name: in the order of the numbers, from 0.
/// [`NONE`] is not listed.
pub const CODES: [(&str, &[Code]); 12] = [
    (
        "outcome",
        &[
            code("cannot-update", "came from a CPU that may not change it"),
            code("rate-limited", "came within the rate limit"),
            code("unchanged", "wanted the same frequency"),
            code("held", "kept it because the CPU had not idled with its tick stopped"),
            code("requested", "asked for another frequency"),
            code("sampled", "came when a sample was due"),
            code("not-due", "came before the next sample was due"),
        ],
    ),
    (
        "headroom_place",
        &[
            code("in-frequency", "on the frequency"),
            code("in-clamped-util", "on the bounded utilisation"),
            code("in-effective-perf", "before the bounds"),
        ],
    ),
    (
        "bound",
        &[
            code("none", "nothing bounds it"),
            code("capacity", "at most the capacity"),
            code("uclamp-max", "at most uclamp.max"),
            code("uclamp-min", "at least uclamp.min"),
            code("bandwidth", "at least the deadline bandwidth and interrupts"),
            code("real-time", "a real-time task is runnable"),
            code("interrupts", "interrupts fill the CPU"),
            code("iowait-boost", "at least the boost for I/O"),
        ],
    ),
    (
        "sample_rule",
        &[
            code("keep", "no threshold is crossed"),
            code("highest", "above the threshold, so the highest frequency"),
            code("in-proportion", "not above the threshold, so in proportion to the load"),
            code("low-half", "the lower half of powersave_bias"),
            code("step-up", "above the upper threshold, so a step up"),
            code("step-down", "below the lower threshold, so a step down"),
            code("busy-time", "so that share of the highest P-state and a quarter more"),
            code("not-yet", "below the lower threshold, but not for sampling_down_factor samples yet"),
            code("no-step", "freq_step is 0, so no step"),
            code("first", "the first one, from which the next counts"),
            code("boost", "but a boost for I/O asks for more"),
            code("lowest", "so the lowest P-state"),
            code("average", "so half-way from what that asks for up to the average clock meanwhile"),
            code("limit", "so the nearest P-state that is allowed"),
        ],
    ),
    (
        "hwp_rule",
        &[
            code("demand", "its demand"),
            code("desired", "the desired level"),
            code("least", "the least level"),
            code("most", "the most level"),
        ],
    ),
    (
        "rule",
        &[
            code("eas", "energy-aware placement chose it"),
            code("idle-sibling", "an idle CPU was found"),
            code("target", "no idle CPU was found"),
            code("idlest", "the idlest CPU of the idlest group (sched_balance_find_dst_cpu)"),
            code("pinned", "it may run there only, or starts there by request"),
            code("balance", "the balancer moved it"),
            code("active-balance", "the stopper pushed it while it ran"),
            code("custom", "a placement policy from outside chose it"),
            code(
                "deadline",
                "the previous CPU unless a deadline task runs there that goes first, or (from v5.9 on) its capacity is below the task's density",
            ),
            code(
                "real-time",
                "the previous CPU unless a real-time task of its priority runs there, or (from v5.6 on) its capacity is below the task's lower clamp",
            ),
        ],
    ),
    (
        "eas_rule",
        &[
            code("no-domain", "there is no performance domain"),
            code("overutilized", "some CPU is overutilised"),
            code("no-utilisation", "the task uses nothing, so it stays where it was"),
            code(
                "changed",
                "its domain would use less energy with it than without (an upper clamp, a cheaper operating point, or load that moved), so it stays where it was",
            ),
            code("better-fit", "it fits there and did not where it was"),
            code("less-energy", "that costs the least energy"),
            code("more-capacity", "no CPU can grant its lower clamp; this one has the most capacity"),
            code("prev-does-not-fit", "it does not fit where it was, and this costs the least energy of the others"),
            code("stay", "no other CPU that fits it as well would save enough, so it stays"),
            code(
                "wrapped",
                "a CPU whose domain would use less energy with it than without was passed over, as that unsigned difference wraps to a huge one (before v5.14)",
            ),
            code("none-fits", "no CPU that it may use fits it, so it stays where it was"),
        ],
    ),
    (
        "affine_rule",
        &[
            code("this-idle", "the waking CPU is idle and shares the cache"),
            code("sync-alone", "the waker is alone on its CPU and about to sleep"),
            code("prev-idle", "the previous CPU is idle"),
            code("sync-load", "the waker's load is all there is on its CPU and leaves with it"),
            code("weight", "the loads were compared"),
        ],
    ),
    (
        "sibling_rule",
        &[
            code("target-idle", "the target is idle"),
            code("prev-idle", "the previous CPU is idle and shares the target's cache"),
            code("per-cpu-kthread", "a kernel thread bound to this CPU wakes the task that waited for it"),
            code("recent-idle", "the CPU that it used before the previous one is idle"),
            code("capacity", "it is the CPU that fits best among those of different capacity"),
            code("idle-smt", "a sibling thread of the previous CPU's core is idle"),
            code("idle-core", "its whole core is idle"),
            code("idle-cpu", "it is the first idle CPU that the scan of the cache met"),
            code("target", "nothing idle was found, so the task queues at the target"),
        ],
    ),
    (
        "limit",
        &[
            code("none", "nothing"),
            code("opp-table", "the table of operating points ends there"),
            code("turbo-bin", "the turbo bin for so many active cores"),
            code("power-budget", "the package's power budget"),
            code("thermal", "temperature"),
            code("firmware", "the firmware's own choice (energy-performance preference)"),
            code("no-turbo", "turbo is switched off (no_turbo)"),
        ],
    ),
    ("idle", &[code("not-idle", "busy"), code("idle", "idle"), code("newly-idle", "about to go idle")]),
    (
        "migration",
        &[
            code("load", "of load"),
            code("util", "of utilisation"),
            code("task", "of tasks"),
            code("misfit", "of a task that does not fit"),
        ],
    ),
];

fn code_of(column: &str, number: u8) -> Option<Code> {
    let (_, codes) = CODES.iter().find(|(name, _)| *name == column)?;
    codes.get(usize::from(number)).copied()
}

/// What `number` means in a column; `None` if it means nothing there.
pub fn word(column: &str, number: u8) -> Option<&'static str> {
    code_of(column, number).map(|code| code.word)
}

/// The same as a part of a sentence.
pub fn phrase(column: &str, number: u8) -> Option<&'static str> {
    code_of(column, number).map(|code| code.phrase)
}

/// The number that `word` is in a column.
pub fn number_of(column: &str, word: &str) -> Option<u8> {
    let (_, codes) = CODES.iter().find(|(name, _)| *name == column)?;
    codes.iter().position(|code| code.word == word).and_then(|number| u8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_kernel::cpufreq::facts::SampleRule;
    use opplab_kernel::cpufreq::facts::{PerfBound, SugovOutcome};
    use opplab_kernel::eas::EasRule;
    use opplab_kernel::sched::balance_env::{IdleType, MigrationType};
    use opplab_kernel::sched::placement::{SiblingRule, WakeAffineRule};

    fn word(column: &str, code: u8) -> &'static str {
        super::word(column, code).expect("a column with codes")
    }

    /// Goal: the words stay in the order of the enumerations that they stand for.
    #[test]
    fn codes_mean_what_they_say() {
        assert_eq!(word("outcome", SugovOutcome::CannotUpdate as u8), "cannot-update");
        assert_eq!(word("outcome", SugovOutcome::RateLimited as u8), "rate-limited");
        assert_eq!(word("outcome", SugovOutcome::Unchanged as u8), "unchanged");
        assert_eq!(word("outcome", SugovOutcome::Held as u8), "held");
        assert_eq!(word("outcome", SugovOutcome::Requested as u8), "requested");
        assert_eq!(word("bound", PerfBound::None as u8), "none");
        assert_eq!(word("bound", PerfBound::UclampMin as u8), "uclamp-min");
        assert_eq!(word("bound", PerfBound::Interrupts as u8), "interrupts");
        assert_eq!(word("bound", PerfBound::IowaitBoost as u8), "iowait-boost");
        assert_eq!(word("headroom_place", HeadroomPlace::InFrequency as u8), "in-frequency");
        assert_eq!(word("headroom_place", HeadroomPlace::InEffectivePerf as u8), "in-effective-perf");
        assert_eq!(word("sample_rule", SampleRule::Keep as u8), "keep");
        assert_eq!(word("sample_rule", SampleRule::LowHalf as u8), "low-half");
        assert_eq!(word("sample_rule", SampleRule::BusyTime as u8), "busy-time");
        assert_eq!(word("sample_rule", SampleRule::NoStep as u8), "no-step");
        assert_eq!(word("sample_rule", SampleRule::Limit as u8), "limit");
        assert_eq!(word("rule", PlacementRule::IdleSibling as u8), "idle-sibling");
        assert_eq!(word("rule", PlacementRule::Idlest as u8), "idlest");
        assert_eq!(word("rule", PlacementRule::RealTime as u8), "real-time");
        assert_eq!(word("eas_rule", EasRule::Overutilized as u8), "overutilized");
        assert_eq!(word("eas_rule", EasRule::BetterFit as u8), "better-fit");
        assert_eq!(word("eas_rule", EasRule::Stay as u8), "stay");
        assert_eq!(word("eas_rule", EasRule::Wrapped as u8), "wrapped");
        assert_eq!(word("eas_rule", EasRule::NoneFits as u8), "none-fits");
        assert_eq!(word("affine_rule", WakeAffineRule::PrevIdle as u8), "prev-idle");
        assert_eq!(word("affine_rule", WakeAffineRule::Weight as u8), "weight");
        assert_eq!(word("sibling_rule", SiblingRule::RecentIdle as u8), "recent-idle");
        assert_eq!(word("sibling_rule", SiblingRule::IdleCpu as u8), "idle-cpu");
        assert_eq!(word("sibling_rule", SiblingRule::Target as u8), "target");
        assert_eq!(word("limit", GrantLimit::Firmware as u8), "firmware");
        assert_eq!(word("idle", IdleType::NotIdle as u8), "not-idle");
        assert_eq!(word("idle", IdleType::NewlyIdle as u8), "newly-idle");
        assert_eq!(word("idle", IdleType::Idle as u8), "idle");
        assert_eq!(word("migration", MigrationType::Misfit as u8), "misfit");
    }

    /// Goal: a record's numbers make the record again, of every kind.
    #[test]
    fn records_are_made_of_their_numbers() {
        for (place, table) in TABLES.iter().enumerate() {
            let made = Decision::of(table.name, &|_| Some(3)).expect("3 is a number of every field");
            assert_eq!(made.table(), place);
            let mut seen = Vec::new();
            made.each(|name, number| seen.push((name, number)));
            assert!(seen.iter().map(|(name, _)| *name).eq(table.fields.iter().map(|(name, _)| *name)));
            let find = |name: &str| seen.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
            assert_eq!(Decision::of(table.name, &find), Some(made));
            assert_eq!(Decision::of(table.name, &|_| None), None);
        }
        assert_eq!(Decision::of("nothing", &|_| Some(0)), None);
    }
}
