//! Facts of CPUs and policies that governors take, their answers, and their notes of a decision.
//!
//! Plain values that all governors share; what is computed from them is in the governors' files.

use crate::profile::HeadroomPlace;
use crate::unit::SCHED_CAPACITY_SCALE;

/// What a CPU's run queue reports beside its fair class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RqFacts {
    /// `arch_scale_cpu_capacity()`, 1..1024.
    pub capacity: u64,
    /// `cpu_util_rt()`.
    pub util_rt: u64,
    /// `cpu_util_dl()`.
    pub util_dl: u64,
    /// `cpu_util_irq()`.
    pub util_irq: u64,
    /// `rq->dl.running_bw`, 20 fractional bits.
    pub dl_running_bw: u64,
    /// `uclamp_rq_get(rq, UCLAMP_MIN)`; 0 without uclamp.
    pub uclamp_min: u64,
    /// `uclamp_rq_get(rq, UCLAMP_MAX)`; 1024 without uclamp.
    pub uclamp_max: u64,
    /// `uclamp_is_used()`: some task of the system has a request.
    pub uclamp_used: bool,
    /// `rt_rq_is_runnable()`.
    pub rt_runnable: bool,
}

impl Default for RqFacts {
    fn default() -> Self {
        Self {
            capacity: SCHED_CAPACITY_SCALE,
            util_rt: 0,
            util_dl: 0,
            util_irq: 0,
            dl_running_bw: 0,
            uclamp_min: 0,
            uclamp_max: SCHED_CAPACITY_SCALE,
            uclamp_used: false,
            rt_runnable: false,
        }
    }
}

/// Everything that the governor wants to know about one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuFacts {
    /// The other classes, interrupts and clamps.
    pub rq: RqFacts,
    /// `cpu_util_cfs()`: the fair class's utilisation or its estimate, whichever is larger.
    pub util_cfs: u64,
    /// `cpu_util_cfs_boost()`: `util_cfs`, or the runnable signal if that is larger (since v6.5).
    pub util_cfs_boost: u64,
    /// `tick_nohz_get_idle_calls_cpu()`: grows each time the CPU goes idle and stops its tick.
    pub idle_calls: u64,
}

impl CpuFacts {
    /// The names of [`Self::numbers`].
    pub const FIELDS: [&str; 11] = [
        "util_cfs",
        "util_cfs_boost",
        "idle_calls",
        "util_rt",
        "util_dl",
        "util_irq",
        "dl_running_bw",
        "uclamp_min",
        "uclamp_max",
        "uclamp_used",
        "rt_runnable",
    ];

    /// All but the capacity, as events have it.
    pub fn numbers(&self) -> [u64; Self::FIELDS.len()] {
        let Self { rq, util_cfs, util_cfs_boost, idle_calls } = *self;
        let RqFacts {
            util_rt,
            util_dl,
            util_irq,
            dl_running_bw,
            uclamp_min,
            uclamp_max,
            uclamp_used,
            rt_runnable,
            capacity: _,
        } = rq;
        let (used, runnable) = (uclamp_used.into(), rt_runnable.into());
        [
            util_cfs,
            util_cfs_boost,
            idle_calls,
            util_rt,
            util_dl,
            util_irq,
            dl_running_bw,
            uclamp_min,
            uclamp_max,
            used,
            runnable,
        ]
    }

    /// What has these numbers, on a CPU of the largest capacity.
    pub fn of_numbers(numbers: [u64; Self::FIELDS.len()]) -> Self {
        let [
            util_cfs,
            util_cfs_boost,
            idle_calls,
            util_rt,
            util_dl,
            util_irq,
            dl_running_bw,
            uclamp_min,
            uclamp_max,
            used,
            runnable,
        ] = numbers;
        let (uclamp_used, rt_runnable) = (used != 0, runnable != 0);
        let capacity = SCHED_CAPACITY_SCALE;
        let rq = RqFacts {
            capacity,
            util_rt,
            util_dl,
            util_irq,
            dl_running_bw,
            uclamp_min,
            uclamp_max,
            uclamp_used,
            rt_runnable,
        };
        Self { rq, util_cfs, util_cfs_boost, idle_calls }
    }
}

/// Where the governor finds the facts of its policy's CPUs; only those that a decision needs are asked for.
pub trait SugovFacts {
    /// The facts of the policy's CPU number `index` (0 is the policy's first CPU).
    fn cpu(&self, index: usize) -> CpuFacts;

    /// `rq->dl.running_bw` alone: it is wanted on every call, also when the rate limit then ends it.
    #[inline]
    fn dl_running_bw(&self, index: usize) -> u64 {
        self.cpu(index).rq.dl_running_bw
    }
}

impl SugovFacts for [CpuFacts] {
    #[inline]
    fn cpu(&self, index: usize) -> CpuFacts {
        self[index]
    }

    #[inline]
    fn dl_running_bw(&self, index: usize) -> u64 {
        self[index].rq.dl_running_bw
    }
}

/// What may change between two calls without the governor's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyFacts {
    /// `policy->cur`.
    pub cur_khz: u32,
    /// `arch_scale_freq_ref()`, 0 if the architecture has none.
    pub freq_ref_khz: u32,
    /// `arch_scale_freq_invariant()`.
    pub freq_invariant: bool,
    /// `cpufreq_this_cpu_can_update()`: the CPU that runs this may change this policy's frequency.
    pub can_update: bool,
}

/// Cumulative times of one CPU, as `get_cpu_idle_time_us()`, `get_cpu_iowait_time_us()` and `kcpustat` give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// Wall-clock time, us.
    pub wall_us: u64,
    /// Idle time without I/O wait, us.
    pub idle_us: u64,
    /// Idle time in which a task that had run here waited for I/O, us.
    pub iowait_us: u64,
    /// Time spent in tasks with positive nice values, ns.
    pub nice_ns: u64,
}

impl CpuTimes {
    /// cpufreq.c:get_cpu_idle_time(), v6.12.
    pub fn idle_us(&self, io_is_busy: bool) -> u64 {
        if io_is_busy { self.idle_us } else { self.idle_us + self.iowait_us }
    }
}

/// What the governor wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Set this frequency now; it is within the limits.
    FastSwitch {
        /// kHz.
        freq_khz: u32,
    },
    /// Wake the policy's kthread to run its work.
    QueueWork,
    /// Pass the driver the performance levels, on the scale of `capacity`
    /// (drivers/cpufreq/cpufreq.c:cpufreq_driver_adjust_perf()).
    AdjustPerf {
        /// Index of the CPU in the policy.
        cpu: usize,
        /// The least that is needed.
        min_perf: u64,
        /// What is wanted.
        target_perf: u64,
        /// The CPU's capacity.
        capacity: u64,
    },
}

/// What decided on a performance other than the utilisation with its headroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PerfBound {
    /// Nothing.
    None,
    /// The capacity is the most.
    Capacity,
    /// The run queue's upper clamp is the most.
    UclampMax,
    /// The run queue's lower clamp is the least.
    UclampMin,
    /// The bandwidth of deadline tasks and what interrupts use are the least.
    Bandwidth,
    /// A real-time task is runnable and no clamp is in use: all of the capacity.
    RealTime,
    /// Interrupts use all of the capacity.
    Interrupts,
    /// The boost for I/O is more than the utilisation (to v6.7; later it is a part of the sum).
    IowaitBoost,
}

/// A CPU's way from its utilisation to the performance that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfSteps {
    /// The other classes, interrupts and clamps.
    pub rq: RqFacts,
    /// The fair class's part.
    pub util_cfs: u64,
    /// The runnable signal stands in for it.
    pub runnable_boost: bool,
    /// The part that the boost for I/O asked for.
    pub iowait: u64,
    /// All parts together. With [`crate::profile::SugovUtil::Clamped`] within its bounds.
    pub sum: u64,
    /// What acted on it.
    pub bound: PerfBound,
    /// What is asked for; with headroom if that is [`HeadroomPlace::InEffectivePerf`].
    pub util: u64,
    /// The least that is needed; before v6.8 the deadline class's bandwidth.
    pub min: u64,
}

/// Why an update had the outcome that it had; the answer to "why did this CPU run at that frequency?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SugovOutcome {
    /// The CPU that ran the update may not change this policy.
    CannotUpdate,
    /// The last change is less than the rate limit ago.
    RateLimited,
    /// The frequency is the requested one already.
    Unchanged,
    /// A lower frequency was not asked for because the CPU did not idle with its tick stopped since the last look.
    Held,
    /// A request was made (or is under way to the kthread).
    Requested,
}

/// What went into one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SugovDecision {
    /// When, in ns.
    pub time: u64,
    /// The policy's CPU that reported.
    pub cpu: usize,
    /// The policy's CPU whose utilisation decided.
    pub deciding_cpu: usize,
    /// The utilisation that decided (with headroom since v6.8), on the scale of `max_cap`.
    pub util: u64,
    /// How the deciding CPU came to it; `None` if nobody looked.
    pub steps: Option<PerfSteps>,
    /// What the utilisation is multiplied by, in parts of 1024, and where.
    pub headroom: (u32, HeadroomPlace),
    /// The performance that the driver was asked for in place of a frequency (0: a frequency).
    pub target_perf: u64,
    /// The capacity that stands for the reference frequency.
    pub max_cap: u64,
    /// The reference frequency, in kHz.
    pub ref_khz: u64,
    /// The frequency before it was resolved, in kHz.
    pub raw_khz: u32,
    /// The frequency that the policy wants after the decision, in kHz.
    pub next_khz: u32,
    /// What became of it.
    pub outcome: SugovOutcome,
}

/// Why a sample had the outcome that it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SampleRule {
    /// Nothing is asked for: no threshold was crossed, or the frequency is the one that would be asked for.
    #[default]
    Keep,
    /// ondemand above its threshold: the highest frequency.
    Highest,
    /// ondemand at or below its threshold: in proportion to the load.
    InProportion,
    /// ondemand: the lower of the two frequencies between which `powersave_bias` alternates.
    LowHalf,
    /// conservative above its upper threshold.
    StepUp,
    /// conservative below its lower threshold.
    StepDown,
    /// intel_pstate's own: the P-state that its busy time asks for.
    BusyTime,
    /// conservative below its lower threshold, for fewer samples than `sampling_down_factor`.
    NotYet,
    /// conservative with a `freq_step` of 0.
    NoStep,
    /// intel_pstate: the first sample of a CPU, which has none before it.
    First,
    /// intel_pstate: the P-state that a boost for I/O asks for, more than the busy time does.
    Boost,
    /// intel_pstate: the lowest P-state, as the busy time asks for less.
    Lowest,
    /// intel_pstate: half-way up to the average performance of the sample.
    Average,
    /// intel_pstate: what the limits make of it.
    Limit,
}

/// What went into the decision on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleNote {
    /// The load that decided, percent: that of the busiest CPU, which may be carried over a long idle time.
    pub load: u32,
    /// The threshold that the load was compared with, percent.
    pub threshold: u32,
    /// What followed.
    pub rule: SampleRule,
    /// The frequency that was asked for before it was resolved, kHz; 0: none.
    pub target_khz: u32,
}

impl SampleNote {
    /// A load that is compared with a threshold.
    pub const fn of(load: u32, threshold: u32) -> Self {
        Self { load, threshold, rule: SampleRule::Keep, target_khz: 0 }
    }

    /// What followed.
    pub const fn take(&mut self, rule: SampleRule, target_khz: u32) {
        (self.rule, self.target_khz) = (rule, target_khz);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_from_their_numbers() {
        let numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 0];
        assert_eq!(CpuFacts::of_numbers(numbers).numbers(), numbers);
        let place = |name| CpuFacts::FIELDS.iter().position(|&field| field == name).expect("a field");
        let facts = CpuFacts::of_numbers(numbers);
        assert_eq!((facts.rq.util_dl, facts.rq.uclamp_max), (numbers[place("util_dl")], numbers[place("uclamp_max")]));
    }
}
