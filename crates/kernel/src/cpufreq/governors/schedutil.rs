//! The schedutil governor (kernel/sched/cpufreq_schedutil.c, kernel/sched/syscalls.c:effective_cpu_util(); v6.12, with
//! the differences of v4.17 to v6.7 as gates).
//!
//! The governor is driven with plain facts and answers with plain requests: the same code serves a simulation, the
//! replay of a trace and a live host.
//!
//! ```text
//!  scheduler -- update(time, cpu, flags) --> rate limit --> utilisation --> frequency --> FastSwitch(khz)
//!                                                |                               |-----> QueueWork ... work() -> khz
//!                                                no: None                        '-----> AdjustPerf(min, target)
//! ```
//! What calls it and when is the scheduler's matter; setting the frequency is the driver's. The kthread that runs
//! [`SugovPolicy::sugov_work`] is a task of the engine.

use crate::cpufreq::facts::{
    CpuFacts, PerfBound, PerfSteps, PolicyFacts, Request, RqFacts, SugovDecision, SugovFacts, SugovOutcome,
};
use crate::cpufreq::freq_table::{FreqLimits, FreqTable, Relation, resolve_freq};
use crate::cpufreq::governor::{Governor, GovernorEntry, Report, Tunable, TunableKind, View, Worker};
use crate::cpufreq::perf_margin::PerfMargin;
use crate::cpufreq::perf_margin::map_util_perf;
use crate::profile::{
    FreqRef, HeadroomPlace, KernelProfile, NeedFreqUpdate, NoninvariantHeadroom, RateLimit, RateLimits, RunnableBoost,
    SharedStaleCpus, SugovClamps, SugovIowaitBoost, SugovUtil,
};
use crate::uclamp::{uclamp_rq_is_capped, uclamp_util};
use crate::unit::{NSEC_PER_USEC, SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};

/// The smallest boost for a task that waits for I/O (cpufreq_schedutil.c: IOWAIT_BOOST_MIN, v6.12).
pub const IOWAIT_BOOST_MIN: u32 = (SCHED_CAPACITY_SCALE / 8) as u32;
/// The flag of an update that a waking task which waited for I/O causes (include/linux/sched/cpufreq.h).
pub const SCHED_CPUFREQ_IOWAIT: u32 = 1;
/// Deadline bandwidths have 20 fractional bits (kernel/sched/sched.h: BW_SHIFT).
pub const BW_SHIFT: u32 = 20;

/// `freq * util / cap`, truncating (include/linux/sched/cpufreq.h:map_util_freq(), v6.12). A capacity of 0, which no
/// kernel has, counts as 1.
#[inline]
pub const fn map_util_freq(util: u64, freq: u64, cap: u64) -> u64 {
    let cap = if cap == 0 { 1 } else { cap };
    freq.wrapping_mul(util) / cap
}

/// The performance that `actual` utilisation asks for: with headroom, but the headroom does not reach over `max`, and
/// at least `min` (cpufreq_schedutil.c:sugov_effective_cpu_perf(), v6.12).
#[inline]
pub fn sugov_effective_cpu_perf(actual: u64, min: u64, max: u64) -> u64 {
    min.max(max.min(map_util_perf(actual)))
}

/// Bandwidth of the deadline server of fair tasks, 50 ms in a second (kernel/sched/deadline.c:fair_server_init(), v6.12).
pub const FAIR_SERVER_BW: u64 = (50 << BW_SHIFT) / 1000;

/// The deadline class's running bandwidth on the capacity scale (kernel/sched/sched.h:cpu_bw_dl(), v6.12).
#[inline]
pub const fn cpu_bw_dl(running_bw: u64) -> u64 {
    running_bw.wrapping_mul(SCHED_CAPACITY_SCALE) >> BW_SHIFT
}

/// What interrupts leave: `util * (max - irq) / max` (kernel/sched/sched.h:scale_irq_capacity(), v6.12).
#[inline]
pub const fn scale_irq_capacity(util: u64, irq: u64, max: u64) -> u64 {
    let divider = if max == 0 { 1 } else { max };
    util.wrapping_mul(max.wrapping_sub(irq)) / divider
}

/// `util`, which is below `max`, of the time that interrupts leave, and their own.
#[inline(always)]
const fn with_irq(util: u64, irq: u64, max: u64) -> u64 {
    // Mostly there are none, and all is left: no division.
    if irq == 0 { util } else { scale_irq_capacity(util, irq, max).wrapping_add(irq) }
}

/// How long a driver's transitions suggest to wait between two, in us: what the driver reports; else one and a half times
/// the transition latency; else 1000 (drivers/cpufreq/cpufreq.c:cpufreq_policy_transition_delay_us(), v6.12).
pub const fn cpufreq_policy_transition_delay_us(transition_delay_us: u32, transition_latency_ns: u32) -> u32 {
    if transition_delay_us != 0 {
        return transition_delay_us;
    }
    let latency_us = transition_latency_ns / NSEC_PER_USEC as u32;
    if latency_us != 0 { latency_us.wrapping_add(latency_us >> 1) } else { 1_000 }
}

/// The same in v5.10: a thousand times the latency, at most 10 ms.
pub const fn cpufreq_policy_transition_delay_us_v5_10(transition_delay_us: u32, transition_latency_ns: u32) -> u32 {
    if transition_delay_us != 0 {
        return transition_delay_us;
    }
    let latency_us = transition_latency_ns / NSEC_PER_USEC as u32;
    if latency_us == 0 {
        1_000
    } else if latency_us >= 10 {
        10_000
    } else {
        latency_us * 1_000
    }
}

/// A CPU's utilisation and what bounds its performance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectiveUtil {
    /// The utilisation, at most the capacity.
    pub util: u64,
    /// The performance below which deadlines or a boost would suffer.
    pub min: u64,
    /// The performance that suffices: capacity or the cap.
    pub max: u64,
    /// What asks for `min`.
    pub min_by: PerfBound,
    /// What `max` is.
    pub max_by: PerfBound,
}

/// The utilisation of all classes and of interrupts, and the bounds (kernel/sched/syscalls.c:effective_cpu_util(),
/// v6.12).
#[inline]
pub fn effective_cpu_util(facts: &RqFacts, util_cfs: u64) -> EffectiveUtil {
    let scale = facts.capacity;
    let irq = facts.util_irq;
    if irq >= scale {
        let by = PerfBound::Interrupts;
        return EffectiveUtil { util: scale, min: scale, max: scale, min_by: by, max_by: by };
    }
    let needed = irq.wrapping_add(cpu_bw_dl(facts.dl_running_bw));
    let mut min = needed.max(facts.uclamp_min);
    let mut min_by = if facts.uclamp_min > needed { PerfBound::UclampMin } else { PerfBound::Bandwidth };
    if !facts.uclamp_used && facts.rt_runnable && scale > min {
        (min, min_by) = (scale, PerfBound::RealTime);
    }
    let max = scale.min(facts.uclamp_max);
    let max_by = if facts.uclamp_max < scale { PerfBound::UclampMax } else { PerfBound::Capacity };
    let util = util_cfs.wrapping_add(facts.util_rt).wrapping_add(facts.util_dl);
    let util = if util >= scale { scale } else { scale.min(with_irq(util, irq, scale)) };
    EffectiveUtil { util, min, max, min_by, max_by }
}

/// What v5.10 asks the utilisation for (kernel/sched/sched.h: enum schedutil_type, v5.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UtilType {
    /// `FREQUENCY_UTIL`: clamped, with the deadline class's bandwidth; real-time tasks ask for everything unless
    /// clamps are in use.
    Frequency,
    /// `ENERGY_UTIL`: the time that will be busy.
    Energy,
}

/// The CPU's utilisation in v4.20 to v6.7 (kernel/sched/cpufreq_schedutil.c:schedutil_cpu_util(), v5.10).
///
/// `p_uclamp` are the effective requests of a task that is looked at as if it ran here, for
/// [`UtilType::Frequency`].
#[inline]
pub fn schedutil_cpu_util(facts: &RqFacts, util_cfs: u64, kind: UtilType, p_uclamp: Option<(u64, u64)>) -> u64 {
    schedutil_cpu_util_of(facts, facts.capacity, util_cfs, kind, p_uclamp)
}

/// [`schedutil_cpu_util`] of a CPU whose capacity counts as `max`.
#[inline]
pub(crate) fn schedutil_cpu_util_of(
    facts: &RqFacts,
    max: u64,
    util_cfs: u64,
    kind: UtilType,
    p_uclamp: Option<(u64, u64)>,
) -> u64 {
    bounded_cpu_util(facts, max, util_cfs, kind, p_uclamp).0
}

/// [`schedutil_cpu_util_of`] for energy and for frequency. They differ where clamps, real-time tasks or deadlines do.
#[inline]
pub(crate) fn schedutil_cpu_utils_of(facts: &RqFacts, max: u64, util_cfs: u64) -> (u64, u64) {
    let energy = schedutil_cpu_util_of(facts, max, util_cfs, UtilType::Energy, None);
    let differ = facts.uclamp_used || facts.rt_runnable || facts.util_dl != 0 || facts.dl_running_bw != 0;
    let frequency =
        if differ { schedutil_cpu_util_of(facts, max, util_cfs, UtilType::Frequency, None) } else { energy };
    (energy, frequency)
}

/// [`schedutil_cpu_util_of`], and what bounded it last.
#[inline]
fn bounded_cpu_util(
    facts: &RqFacts,
    max: u64,
    util_cfs: u64,
    kind: UtilType,
    p_uclamp: Option<(u64, u64)>,
) -> (u64, PerfBound) {
    let frequency = kind == UtilType::Frequency;
    if frequency && !facts.uclamp_used && facts.rt_runnable {
        return (max, PerfBound::RealTime);
    }
    let irq = facts.util_irq;
    if irq >= max {
        return (max, PerfBound::Interrupts);
    }
    let asked = util_cfs.wrapping_add(facts.util_rt);
    let mut util = asked;
    let mut bound = PerfBound::None;
    // A lower clamp above the capacity is what fills the CPU where its tasks do not.
    let at_capacity = |bound| {
        let fills = bound == PerfBound::UclampMin && asked.wrapping_add(facts.util_dl) < max;
        (max, if fills { PerfBound::UclampMin } else { PerfBound::Capacity })
    };
    if frequency && facts.uclamp_used {
        let (p_min, p_max) = p_uclamp.unwrap_or((0, 0));
        let clamped = uclamp_util(util, facts.uclamp_min.max(p_min), facts.uclamp_max.max(p_max));
        if clamped != util {
            bound = if clamped > util { PerfBound::UclampMin } else { PerfBound::UclampMax };
        }
        util = clamped;
    }
    if util.wrapping_add(facts.util_dl) >= max {
        return at_capacity(bound);
    }
    if !frequency {
        util = util.wrapping_add(facts.util_dl);
    }
    util = with_irq(util, irq, max);
    if frequency {
        util = util.wrapping_add(cpu_bw_dl(facts.dl_running_bw));
    }
    if util > max { at_capacity(bound) } else { (util, bound) }
}

/// The raw next frequency in v5.10, in kHz: `1.25 * ref * util / cap`, the 1.25 applied to the frequency
/// (cpufreq_schedutil.c:get_next_freq() and map_util_freq(), v5.10).
#[inline]
pub const fn next_raw_freq_v5_10(util: u64, ref_khz: u64, cap: u64) -> u64 {
    map_util_freq(util, ref_khz.wrapping_add(ref_khz >> 2), cap)
}

/// The boost for I/O within a run queue's clamps (least, most).
#[inline]
fn clamped_boost(boost: u64, clamps: Option<(u64, u64)>) -> u64 {
    clamps.map_or(boost, |(min, max)| uclamp_util(boost, min, max))
}

/// What differs between kernel versions in this governor. A kernel profile names one of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SugovGates {
    /// Which utilisation.
    pub util: SugovUtil,
    /// Where the headroom is.
    pub headroom: HeadroomPlace,
    /// The reference is `arch_scale_freq_ref()` if the architecture has one (v6.8); else only the highest frequency
    /// (invariant) or the current one.
    pub freq_ref: bool,
    /// Without invariance the reference is the current frequency and a quarter (v6.8); with
    /// [`HeadroomPlace::InEffectivePerf`] that is headroom twice.
    pub margin_on_current: bool,
    /// After its limits changed any driver hears of the next decision, and one that wants to know of limits of every later
    /// one, equal or not (v5.10 to v6.13).
    pub sticky_update: bool,
    /// New limits make only a driver that wants to know of them hear of the next decision; others hear of it once another
    /// frequency is asked for (v6.14, mended in v6.15).
    pub driver_update: bool,
    /// A runnable signal above the utilisation raises it (v6.5).
    pub runnable_boost: bool,
    /// In a shared policy a CPU without an update for a tick is left out (to v4.16 and, by the notes' memory, later; no
    /// profile sets it).
    pub shared_skips_stale: bool,
    /// The unit of the boost for I/O.
    pub iowait: SugovIowaitBoost,
    /// Clamps hold for the boost for I/O too, and a run queue's cap lets the frequency of a busy CPU fall (v5.18).
    pub clamps_boost: bool,
    /// What a utilisation is multiplied by on its way to a frequency.
    pub margin: PerfMargin,
    /// Tasks that waited for I/O raise the frequency.
    pub iowait_boost: bool,
}

impl SugovGates {
    /// The frequency at which the capacity is reached, in kHz (cpufreq_schedutil.c:get_capacity_ref_freq(), v6.12), in a policy
    /// whose hardware reaches `cpuinfo_max_khz`.
    #[inline]
    pub fn capacity_ref_freq(&self, policy: &PolicyFacts, cpuinfo_max_khz: u32) -> u32 {
        if self.freq_ref && policy.freq_ref_khz != 0 {
            policy.freq_ref_khz
        } else if policy.freq_invariant {
            cpuinfo_max_khz
        } else if self.margin_on_current {
            policy.cur_khz.wrapping_add(policy.cur_khz >> 2)
        } else {
            policy.cur_khz
        }
    }

    /// The frequency before it is resolved, in kHz, that `util` of `max` as [`Self::perf`] gives it asks for where the capacity is
    /// reached at `ref_khz` (get_next_freq(), v6.12, truncated to 32 bits as there).
    #[inline]
    pub fn raw_freq(&self, util: u64, max: u64, ref_khz: u32) -> u32 {
        let khz = ref_khz.into();
        let raw = match self.headroom {
            HeadroomPlace::InEffectivePerf => map_util_freq(util, khz, max),
            HeadroomPlace::InClampedUtil => map_util_freq(self.margin.map_util_perf(util), khz, max),
            HeadroomPlace::InFrequency => map_util_freq(util, self.margin.map_util_perf(khz), max),
        };
        raw as u32
    }

    /// From a CPU's utilisation to the performance that it asks for (sugov_get_util(), v6.12, without the I/O boost's own
    /// state); `boost` is what [`SugovCpu::sugov_iowait_apply`] gives, `None` without a boost.
    #[inline(always)]
    pub fn perf(&self, rq: &RqFacts, facts_cfs: (u64, u64), boost: Option<u64>) -> PerfSteps {
        let (util_cfs, util_cfs_boost) = facts_cfs;
        let (runnable_boost, util_cfs) =
            if self.runnable_boost { (util_cfs_boost > util_cfs, util_cfs_boost) } else { (false, util_cfs) };
        let steps = match self.util {
            SugovUtil::Bounded => self.bounded_perf(rq, util_cfs, boost),
            SugovUtil::Clamped => self.clamped_perf(rq, util_cfs, boost),
        };
        PerfSteps { runnable_boost, ..steps }
    }

    #[inline(always)]
    fn bounded_perf(&self, rq: &RqFacts, util_cfs: u64, boost: Option<u64>) -> PerfSteps {
        let effective = effective_cpu_util(rq, util_cfs);
        let iowait = boost.unwrap_or(0);
        let sum = effective.util.max(iowait);
        let with_headroom = self.margin.map_util_perf(sum);
        let capped = effective.max.min(with_headroom);
        let util = effective.min.max(capped);
        let bound = if util != capped {
            effective.min_by
        } else if capped != with_headroom {
            effective.max_by
        } else {
            PerfBound::None
        };
        PerfSteps { rq: *rq, util_cfs, runnable_boost: false, iowait, sum, bound, util, min: effective.min }
    }

    #[inline(always)]
    fn clamped_perf(&self, rq: &RqFacts, util_cfs: u64, boost: Option<u64>) -> PerfSteps {
        let (clamped, clamped_by) = bounded_cpu_util(rq, rq.capacity, util_cfs, UtilType::Frequency, None);
        let min = cpu_bw_dl(rq.dl_running_bw);
        let steps = PerfSteps {
            rq: *rq,
            util_cfs,
            runnable_boost: false,
            iowait: 0,
            sum: clamped,
            bound: clamped_by,
            util: clamped,
            min,
        };
        let Some(boost) = boost else { return steps };
        let obeys = self.clamps_boost && rq.uclamp_used;
        let boost = clamped_boost(boost, obeys.then_some((rq.uclamp_min, rq.uclamp_max)));
        if boost <= clamped {
            return steps;
        }
        PerfSteps { iowait: boost, sum: boost, bound: PerfBound::IowaitBoost, util: boost, ..steps }
    }

    /// v6.8 to v6.12.
    pub const V6_12: Self = Self {
        util: SugovUtil::Bounded,
        headroom: HeadroomPlace::InEffectivePerf,
        freq_ref: true,
        margin_on_current: true,
        sticky_update: false,
        driver_update: false,
        runnable_boost: true,
        shared_skips_stale: false,
        iowait: SugovIowaitBoost::Capacity,
        clamps_boost: true,
        margin: PerfMargin::QUARTER,
        iowait_boost: true,
    };
    /// v6.5 to v6.7.
    pub const V6_6: Self = Self {
        util: SugovUtil::Clamped,
        headroom: HeadroomPlace::InClampedUtil,
        freq_ref: false,
        margin_on_current: false,
        ..Self::V6_12
    };
    /// v5.18 to v6.4 (vectors: 6.1).
    pub const V5_18: Self = Self { runnable_boost: false, ..Self::V6_6 };
    /// v5.1 to v5.13.
    pub const V5_10: Self = Self { headroom: HeadroomPlace::InFrequency, clamps_boost: false, ..Self::V5_18 };
    /// v4.17 to v5.0.
    pub const V4_17: Self = Self { iowait: SugovIowaitBoost::Frequency, ..Self::V5_10 };
}

impl Default for SugovGates {
    fn default() -> Self {
        Self::V6_12
    }
}

/// How a governor for one policy is set up.
#[derive(Debug, Clone)]
pub struct SugovConfig {
    /// CPUs of the policy.
    pub n_cpus: usize,
    /// The hardware's limits.
    pub cpuinfo: FreqLimits,
    /// The policy's limits.
    pub limits: FreqLimits,
    /// The driver's table, if it has one.
    pub table: Option<FreqTable>,
    /// `policy->fast_switch_enabled`: the driver sets the frequency in the scheduler's context.
    pub fast_switch: bool,
    /// `CPUFREQ_NEED_UPDATE_LIMITS`: the driver wants to hear of new limits even if the frequency is the same.
    pub need_update_limits: bool,
    /// `cpufreq_driver_has_adjust_perf()`.
    pub adjust_perf: bool,
    /// The tunable `rate_limit_us`.
    pub rate_limit_us: u32,
    /// The length of a tick, see [`crate::unit::tick_nsec`].
    pub tick_ns: u64,
    /// The kernel's version.
    pub gates: SugovGates,
}

/// Which of the three update functions a policy has (sugov_start(), v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SugovPath {
    /// sugov_update_single_freq().
    SingleFreq,
    /// sugov_update_single_perf().
    SinglePerf,
    /// sugov_update_shared().
    Shared,
}

/// The state of one CPU (cpufreq_schedutil.c: struct sugov_cpu, v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SugovCpu {
    /// The boost for I/O: 0, or 128 to 1024 (with [`SugovIowaitBoost::Frequency`] kHz).
    pub iowait_boost: u32,
    /// A wake-up asked for the boost since it was last applied.
    pub iowait_boost_pending: bool,
    /// The time of the last update, in ns.
    pub last_update: u64,
    /// The performance wanted at the last computation.
    pub util: u64,
    /// The least performance at the last computation; before v6.8 the deadline class's bandwidth.
    pub bw_min: u64,
    /// `idle_calls` when the utilisation was last looked at.
    pub saved_idle_calls: u64,
}

impl SugovCpu {
    /// Notes that a task which waited for I/O woke, or that it did not (cpufreq_schedutil.c:sugov_iowait_boost(),
    /// v6.12). Called before `last_update` takes the new time.
    #[inline]
    pub fn sugov_iowait_boost(&mut self, time: u64, iowait: bool, tick_ns: u64) {
        self.iowait_boost_between(time, iowait, tick_ns, IOWAIT_BOOST_MIN, SCHED_CAPACITY_SCALE as u32, true);
    }

    #[inline]
    fn iowait_boost_between(&mut self, time: u64, iowait: bool, tick_ns: u64, min: u32, max: u32, restart: bool) {
        if self.iowait_boost != 0 && self.idle_longer_than_tick(time, tick_ns) {
            self.iowait_boost = if iowait && restart { min } else { 0 };
            self.iowait_boost_pending = iowait && restart;
            if restart {
                return;
            }
        }
        if !iowait || self.iowait_boost_pending {
            return;
        }
        self.iowait_boost_pending = true;
        self.iowait_boost = if self.iowait_boost != 0 { self.iowait_boost.saturating_mul(2).min(max) } else { min };
    }

    /// The boost as a utilisation; it halves each time it is applied without a new request
    /// (cpufreq_schedutil.c:sugov_iowait_apply(), v6.12).
    #[inline]
    pub fn sugov_iowait_apply(&mut self, time: u64, max_cap: u64, tick_ns: u64) -> u64 {
        self.iowait_boost_applied(time, max_cap, tick_ns).unwrap_or(0)
    }

    /// `util` raised to the boost, which obeys the run queue's clamps (least, most) where there are any
    /// (cpufreq_schedutil.c:sugov_iowait_apply(), v6.1).
    #[inline]
    pub fn sugov_iowait_raise(
        &mut self,
        time: u64,
        max_cap: u64,
        tick_ns: u64,
        util: u64,
        clamps: Option<(u64, u64)>,
    ) -> u64 {
        let Some(boost) = self.iowait_boost_applied(time, max_cap, tick_ns) else { return util };
        util.max(clamped_boost(boost, clamps))
    }

    /// `None` without a boost.
    #[inline]
    fn iowait_boost_applied(&mut self, time: u64, max_cap: u64, tick_ns: u64) -> Option<u64> {
        if self.iowait_boost == 0 {
            return None;
        }
        if self.idle_longer_than_tick(time, tick_ns) {
            self.iowait_boost = 0;
            self.iowait_boost_pending = false;
            return None;
        }
        let left = self.iowait_boost_halve(IOWAIT_BOOST_MIN);
        left.then_some((self.iowait_boost as u64).wrapping_mul(max_cap) >> SCHED_CAPACITY_SHIFT)
    }

    /// False if nothing is left of the boost.
    #[inline]
    fn iowait_boost_halve(&mut self, min: u32) -> bool {
        if !self.iowait_boost_pending {
            self.iowait_boost >>= 1;
            if self.iowait_boost < min {
                self.iowait_boost = 0;
                return false;
            }
        }
        self.iowait_boost_pending = false;
        true
    }

    #[inline]
    fn idle_longer_than_tick(&self, time: u64, tick_ns: u64) -> bool {
        time.wrapping_sub(self.last_update) as i64 > tick_ns as i64
    }
}

/// Takes note of decisions; `()` takes none and costs nothing.
pub trait SugovRecorder {
    /// False if [`Self::decision`] need not be called.
    const ENABLED: bool = true;
    /// What is kept of each CPU's steps until one of them has decided.
    type Steps: Copy + Default + Into<Option<PerfSteps>> + From<PerfSteps>;
    /// A decision was made.
    fn decision(&mut self, decision: &SugovDecision);
}

/// Nothing is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSteps;

impl From<PerfSteps> for NoSteps {
    #[inline(always)]
    fn from(_: PerfSteps) -> Self {
        Self
    }
}

impl From<NoSteps> for Option<PerfSteps> {
    fn from(_: NoSteps) -> Self {
        None
    }
}

impl SugovRecorder for () {
    const ENABLED: bool = false;
    type Steps = NoSteps;
    #[inline]
    fn decision(&mut self, _decision: &SugovDecision) {}
}

/// The last decision.
impl SugovRecorder for Option<SugovDecision> {
    type Steps = Option<PerfSteps>;
    #[inline]
    fn decision(&mut self, decision: &SugovDecision) {
        *self = Some(*decision);
    }
}

impl SugovRecorder for Vec<SugovDecision> {
    type Steps = Option<PerfSteps>;
    fn decision(&mut self, decision: &SugovDecision) {
        self.push(*decision);
    }
}

/// A utilisation and the capacity that it is a part of: these differ between CPUs only for
/// [`SugovIowaitBoost::Frequency`].
#[derive(Debug, Clone, Copy, Default)]
struct Share<S> {
    util: u64,
    max: u64,
    steps: S,
}

/// What a look at a policy's CPUs goes by.
struct Look<'a> {
    gates: &'a SugovGates,
    time: u64,
    tick_ns: u64,
    min_khz: u32,
    max_khz: u32,
}

impl SugovCpu {
    /// sugov_get_util() with the boost for I/O, v6.12.
    #[inline(always)]
    fn get_util<R: SugovRecorder>(&mut self, look: &Look<'_>, facts: &CpuFacts, max_cap: u64) -> Share<R::Steps> {
        let in_capacity = look.gates.iowait == SugovIowaitBoost::Capacity;
        let boost = if in_capacity { self.iowait_boost_applied(look.time, max_cap, look.tick_ns) } else { None };
        let steps = look.gates.perf(&facts.rq, (facts.util_cfs, facts.util_cfs_boost), boost);
        self.bw_min = steps.min;
        self.util = steps.util;
        if in_capacity {
            return Share { util: steps.util, max: max_cap, steps: steps.into() };
        }
        self.iowait_raise::<R>(look, max_cap, steps)
    }

    /// The boost for I/O as a share of the highest frequency (cpufreq_schedutil.c:sugov_iowait_boost(), v4.17).
    fn iowait_raise<R: SugovRecorder>(&mut self, look: &Look<'_>, max_cap: u64, steps: PerfSteps) -> Share<R::Steps> {
        let max = look.max_khz as u64;
        if self.iowait_boost != 0 && self.iowait_boost_halve(look.min_khz) {
            let boost = self.iowait_boost as u64;
            if steps.util.wrapping_mul(max) < max_cap.wrapping_mul(boost) {
                let bound = PerfBound::IowaitBoost;
                return Share {
                    util: boost,
                    max,
                    steps: PerfSteps { iowait: boost, sum: boost, util: boost, bound, ..steps }.into(),
                };
            }
        }
        Share { util: steps.util, max: max_cap, steps: steps.into() }
    }
}

/// The governor of one policy (cpufreq_schedutil.c: struct sugov_policy, v6.12).
#[derive(Debug, Clone)]
pub struct SugovPolicy {
    gates: SugovGates,
    path: SugovPath,
    table: Option<FreqTable>,
    cpuinfo: FreqLimits,
    limits: FreqLimits,
    fast_switch: bool,
    need_update_limits: bool,
    freq_update_delay_ns: i64,
    /// Android's least times between a change and one upward, one downward.
    up_down_delay_ns: Option<(i64, i64)>,
    tick_ns: u64,
    cpus: Vec<SugovCpu>,
    next_freq_khz: u32,
    cached_raw_freq_khz: u32,
    last_freq_update_time: u64,
    work_in_progress: bool,
    limits_changed: bool,
    need_freq_update: bool,
}

impl SugovPolicy {
    /// A governor that just started (cpufreq_schedutil.c:sugov_start(), v6.12).
    pub fn new(config: SugovConfig) -> Self {
        let path = if config.n_cpus > 1 {
            SugovPath::Shared
        } else if config.fast_switch && config.adjust_perf {
            SugovPath::SinglePerf
        } else {
            SugovPath::SingleFreq
        };
        let mut policy = Self {
            gates: config.gates,
            path,
            table: config.table,
            cpuinfo: config.cpuinfo,
            limits: config.limits,
            fast_switch: config.fast_switch,
            need_update_limits: config.need_update_limits,
            freq_update_delay_ns: 0,
            up_down_delay_ns: None,
            tick_ns: config.tick_ns,
            cpus: vec![SugovCpu::default(); config.n_cpus],
            next_freq_khz: 0,
            cached_raw_freq_khz: 0,
            last_freq_update_time: 0,
            work_in_progress: false,
            limits_changed: false,
            need_freq_update: config.need_update_limits,
        };
        policy.set_rate_limit_us(config.rate_limit_us);
        policy
    }

    /// The tunable `rate_limit_us` (cpufreq_schedutil.c:rate_limit_us_store(), v6.12).
    pub fn set_rate_limit_us(&mut self, rate_limit_us: u32) {
        self.freq_update_delay_ns = rate_limit_us as i64 * NSEC_PER_USEC as i64;
    }

    /// The tunables `up_rate_limit_us` and `down_rate_limit_us` in place of `rate_limit_us`
    /// (cpufreq_schedutil.c:sugov_up_down_rate_limit(), android-4.14): updates are looked at after the shorter one.
    pub fn set_up_down_rate_limit_us(&mut self, up_us: u32, down_us: u32) {
        self.set_rate_limit_us(up_us.min(down_us));
        let ns = |us: u32| us as i64 * NSEC_PER_USEC as i64;
        self.up_down_delay_ns = Some((ns(up_us), ns(down_us)));
    }

    /// The tunable `rate_limit_us`.
    pub fn rate_limit_us(&self) -> u32 {
        (self.freq_update_delay_ns / NSEC_PER_USEC as i64) as u32
    }

    /// Which update function runs.
    pub fn path(&self) -> SugovPath {
        self.path
    }

    /// The state of the policy's CPUs.
    pub fn cpus(&self) -> &[SugovCpu] {
        &self.cpus
    }

    /// Goes on from a policy that runs at `freq_khz`, as if that had been the last decision: for a governor that takes over in the
    /// midst of a trace.
    pub fn resume(&mut self, freq_khz: u32) {
        self.next_freq_khz = freq_khz;
        self.cached_raw_freq_khz = 0;
        self.work_in_progress = false;
        self.need_freq_update = false;
    }

    /// The frequency that was last decided, in kHz.
    pub fn next_freq_khz(&self) -> u32 {
        self.next_freq_khz
    }

    /// The frequency before it was resolved, of the last decision that looked, in kHz.
    pub fn cached_raw_freq_khz(&self) -> u32 {
        self.cached_raw_freq_khz
    }

    /// When the frequency last changed, in ns.
    pub fn last_freq_update_time(&self) -> u64 {
        self.last_freq_update_time
    }

    /// The kthread was woken and did not take the frequency yet.
    pub fn work_in_progress(&self) -> bool {
        self.work_in_progress
    }

    /// The limits changed (or a deadline task needs more) and no update saw it yet.
    pub fn limits_changed(&self) -> bool {
        self.limits_changed
    }

    /// The next decision goes to the driver even if nothing changed.
    pub fn need_freq_update(&self) -> bool {
        self.need_freq_update
    }

    /// The scheduler reports on the policy's CPU number `cpu`: sugov_update_single_freq(),
    /// sugov_update_single_perf() or sugov_update_shared(), v6.12. `flags` is 0 or [`SCHED_CPUFREQ_IOWAIT`].
    ///
    /// # Panics
    /// If the policy has no such CPU.
    #[inline]
    pub fn update<F: SugovFacts + ?Sized>(
        &mut self,
        time: u64,
        cpu: usize,
        flags: u32,
        policy: &PolicyFacts,
        facts: &F,
    ) -> Option<Request> {
        self.update_recorded(time, cpu, flags, policy, facts, &mut ())
    }

    /// As [`Self::update`]; the recorder gets what went into the decision.
    ///
    /// # Panics
    /// If the policy has no such CPU.
    pub fn update_recorded<F: SugovFacts + ?Sized, R: SugovRecorder>(
        &mut self,
        time: u64,
        cpu: usize,
        flags: u32,
        policy: &PolicyFacts,
        facts: &F,
        recorder: &mut R,
    ) -> Option<Request> {
        self.iowait_boost(time, cpu, self.gates.iowait_boost && flags & SCHED_CPUFREQ_IOWAIT != 0);
        self.cpus[cpu].last_update = time;
        // sugov's ignore_dl_rate_limit(): a deadline task that needs more than it was given does not wait.
        if cpu_bw_dl(facts.dl_running_bw(cpu)) > self.cpus[cpu].bw_min {
            self.limits_changed = true;
        }
        if let Some(outcome) = self.should_not_update_freq(time, policy.can_update) {
            if R::ENABLED {
                recorder.decision(&self.no_decision(time, cpu, policy, outcome));
            }
            return None;
        }
        if self.path == SugovPath::SinglePerf && policy.freq_invariant {
            return Some(self.update_single_perf(time, cpu, policy, &facts.cpu(cpu), recorder));
        }

        let cached_raw_freq_khz = self.cached_raw_freq_khz;
        let (deciding_cpu, share) = if self.path == SugovPath::Shared {
            self.next_share_shared::<F, R>(time, cpu, facts)
        } else {
            let own = facts.cpu(cpu);
            (cpu, self.own_share::<R>(time, cpu, &own))
        };
        let raw_khz = self.get_raw_freq(policy, share.util, share.max);
        let mut next_khz = self.get_next_freq(raw_khz);
        let mut held = false;
        if self.path != SugovPath::Shared
            && self.hold_freq(cpu, &facts.cpu(cpu))
            && next_khz < self.next_freq_khz
            && !self.need_freq_update
        {
            held = true;
            next_khz = self.next_freq_khz;
            self.cached_raw_freq_khz = cached_raw_freq_khz;
        }
        let update = self.update_next_freq(time, next_khz);
        if R::ENABLED {
            recorder.decision(&SugovDecision {
                util: share.util,
                steps: share.steps.into(),
                max_cap: share.max,
                raw_khz,
                outcome: if held && update == SugovOutcome::Unchanged { SugovOutcome::Held } else { update },
                deciding_cpu,
                ..self.no_decision(time, cpu, policy, update)
            });
        }
        if update != SugovOutcome::Requested {
            return None;
        }
        if self.fast_switch {
            // cpufreq_driver_fast_switch(): within the limits.
            return Some(Request::FastSwitch { freq_khz: self.limits.clamp(next_khz) });
        }
        // sugov_deferred_update(): one work at a time.
        (!core::mem::replace(&mut self.work_in_progress, true)).then_some(Request::QueueWork)
    }

    fn no_decision(&self, time: u64, cpu: usize, policy: &PolicyFacts, outcome: SugovOutcome) -> SugovDecision {
        SugovDecision {
            time,
            cpu,
            deciding_cpu: cpu,
            util: self.cpus[cpu].util,
            steps: None,
            headroom: (self.gates.margin.ratio_1024(), self.gates.headroom),
            target_perf: 0,
            max_cap: 0,
            ref_khz: self.gates.capacity_ref_freq(policy, self.cpuinfo.max_khz).into(),
            raw_khz: self.cached_raw_freq_khz,
            next_khz: self.next_freq_khz,
            outcome,
        }
    }

    /// The rest of sugov_update_single_perf(), v6.12: no frequency, but levels.
    fn update_single_perf<R: SugovRecorder>(
        &mut self,
        time: u64,
        cpu: usize,
        policy: &PolicyFacts,
        own: &CpuFacts,
        recorder: &mut R,
    ) -> Request {
        let previous = self.cpus[cpu].util;
        let share = self.own_share::<R>(time, cpu, own);
        // A boost in kHz, which no kernel with levels has: its share of the capacity.
        let boost = (share.max != own.rq.capacity).then(|| share.util * own.rq.capacity / share.max.max(1));
        if let Some(level) = boost {
            self.cpus[cpu].util = level;
        }
        let held = self.hold_freq(cpu, own) && self.cpus[cpu].util < previous;
        if held {
            self.cpus[cpu].util = previous;
        }
        self.last_freq_update_time = time;
        let SugovCpu { bw_min, util, .. } = self.cpus[cpu];
        let (min_perf, target_perf) = match self.gates.headroom {
            HeadroomPlace::InEffectivePerf => (bw_min, util),
            // sugov_update_single_perf(), v6.1.
            HeadroomPlace::InClampedUtil | HeadroomPlace::InFrequency => {
                (self.gates.margin.map_util_perf(bw_min), self.gates.margin.map_util_perf(util))
            }
        };
        if R::ENABLED {
            let outcome = if held { SugovOutcome::Held } else { SugovOutcome::Requested };
            let steps: Option<PerfSteps> = share.steps.into();
            let in_levels = |steps: PerfSteps| match boost {
                Some(level) => PerfSteps { iowait: level, sum: level, util: level, ..steps },
                None => steps,
            };
            recorder.decision(&SugovDecision {
                steps: steps.map(in_levels),
                target_perf,
                max_cap: own.rq.capacity,
                raw_khz: 0,
                next_khz: 0,
                ..self.no_decision(time, cpu, policy, outcome)
            });
        }
        Request::AdjustPerf { cpu, min_perf, target_perf, capacity: own.rq.capacity }
    }

    /// The kthread runs (cpufreq_schedutil.c:sugov_work(), v6.12): the frequency to set, if the driver is to be
    /// called (drivers/cpufreq/cpufreq.c:__cpufreq_driver_target()).
    pub fn sugov_work(&mut self, cur_khz: u32) -> Option<u32> {
        self.work_in_progress = false;
        self.driver_target(self.next_freq_khz, cur_khz, Relation::L, false)
    }

    /// The policy has new limits (cpufreq_schedutil.c:sugov_limits(), v6.12). Without fast switching a current
    /// frequency outside of them is corrected at once: the frequency to set, if any. The next update decides anew.
    pub fn set_limits(&mut self, limits: FreqLimits, cur_khz: u32) -> Option<u32> {
        self.limits = limits;
        self.limits_changed = true;
        if self.fast_switch {
            None
        } else if limits.max_khz < cur_khz {
            self.driver_target(limits.max_khz, cur_khz, Relation::H, true)
        } else if limits.min_khz > cur_khz {
            self.driver_target(limits.min_khz, cur_khz, Relation::L, true)
        } else {
            None
        }
    }

    fn driver_target(&self, target_khz: u32, cur_khz: u32, relation: Relation, efficient: bool) -> Option<u32> {
        let khz = resolve_freq(self.table.as_ref(), target_khz, self.limits, relation, efficient);
        (khz != cur_khz || self.need_update_limits).then_some(khz)
    }

    /// sugov_should_update_freq(), v6.12; `None` means yes.
    #[inline]
    fn should_not_update_freq(&mut self, time: u64, can_update: bool) -> Option<SugovOutcome> {
        if !can_update {
            return Some(SugovOutcome::CannotUpdate);
        }
        if self.limits_changed {
            self.limits_changed = false;
            self.need_freq_update = self.need_update_limits || !self.gates.driver_update;
            return None;
        }
        let delta_ns = time.wrapping_sub(self.last_freq_update_time) as i64;
        (delta_ns < self.freq_update_delay_ns).then_some(SugovOutcome::RateLimited)
    }

    #[inline]
    fn iowait_boost(&mut self, time: u64, cpu: usize, iowait: bool) {
        let tick_ns = self.tick_ns;
        let (min, max) = (self.limits.min_khz.max(1), self.cpuinfo.max_khz);
        match self.gates.iowait {
            SugovIowaitBoost::Capacity => self.cpus[cpu].sugov_iowait_boost(time, iowait, tick_ns),
            SugovIowaitBoost::Frequency => self.cpus[cpu].iowait_boost_between(time, iowait, tick_ns, min, max, false),
        }
    }

    /// The policy's CPUs, and what a look at them at `time` goes by.
    #[inline(always)]
    fn look(&mut self, time: u64) -> (&mut [SugovCpu], Look<'_>) {
        let (min_khz, max_khz) = (self.limits.min_khz, self.cpuinfo.max_khz);
        (&mut self.cpus, Look { gates: &self.gates, time, tick_ns: self.tick_ns, min_khz, max_khz })
    }

    /// The share of one CPU (sugov_get_util(), v6.12).
    #[inline(always)]
    fn own_share<R: SugovRecorder>(&mut self, time: u64, cpu: usize, own: &CpuFacts) -> Share<R::Steps> {
        let (cpus, look) = self.look(time);
        cpus[cpu].get_util::<R>(&look, own, own.rq.capacity)
    }

    /// sugov_next_freq_shared(), v6.12: the largest utilisation of all CPUs, on the scale of the one that reported.
    #[inline(always)]
    fn next_share_shared<F: SugovFacts + ?Sized, R: SugovRecorder>(
        &mut self,
        time: u64,
        cpu: usize,
        facts: &F,
    ) -> (usize, Share<R::Steps>) {
        let (cpus, look) = self.look(time);
        let own_cap = facts.cpu(cpu).rq.capacity;
        let mut best = (cpu, Share { util: 0, max: own_cap.max(1), steps: R::Steps::default() });
        for (other, state) in cpus.iter_mut().enumerate() {
            if look.gates.shared_skips_stale && state.idle_longer_than_tick(time, look.tick_ns) {
                state.iowait_boost = 0;
                state.iowait_boost_pending = false;
                continue;
            }
            let seen = facts.cpu(other);
            let max_cap = if look.gates.util == SugovUtil::Clamped { seen.rq.capacity } else { own_cap };
            let share = state.get_util::<R>(&look, &seen, max_cap);
            if share.util.wrapping_mul(best.1.max) > share.max.wrapping_mul(best.1.util) {
                best = (other, share);
            } else if R::ENABLED && other == cpu && best.0 == cpu {
                // No CPU uses anything: the one that reported decides.
                best.1.steps = share.steps;
            }
        }
        best
    }

    /// sugov_hold_freq(), v6.12: true if the CPU's `idle_calls` did not grow since the last look: it did not idle, or only with
    /// its tick running. Not where a cap holds the frequency down.
    #[inline]
    fn hold_freq(&mut self, cpu: usize, facts: &CpuFacts) -> bool {
        let rq = &facts.rq;
        if self.gates.clamps_boost && uclamp_rq_is_capped(rq.uclamp_used, facts.util_cfs, rq.util_rt, rq.uclamp_max) {
            return false;
        }
        let saved = core::mem::replace(&mut self.cpus[cpu].saved_idle_calls, facts.idle_calls);
        saved == facts.idle_calls
    }

    /// The first half of get_next_freq(), v6.12.
    #[inline]
    fn get_raw_freq(&self, policy: &PolicyFacts, util: u64, max: u64) -> u32 {
        self.gates.raw_freq(util, max, self.gates.capacity_ref_freq(policy, self.cpuinfo.max_khz))
    }

    /// The second half of get_next_freq(), v6.12: the raw frequency is only resolved when it changed.
    #[inline]
    fn get_next_freq(&mut self, raw_khz: u32) -> u32 {
        if raw_khz == self.cached_raw_freq_khz && !self.need_freq_update {
            return self.next_freq_khz;
        }
        self.cached_raw_freq_khz = raw_khz;
        // cpufreq_driver_resolve_freq().
        resolve_freq(self.table.as_ref(), raw_khz, self.limits, Relation::L, true)
    }

    /// sugov_update_next_freq(), v6.12. The time of the last change moves only on real changes.
    #[inline]
    fn update_next_freq(&mut self, time: u64, next_khz: u32) -> SugovOutcome {
        if self.need_freq_update {
            self.need_freq_update = self.gates.sticky_update && self.need_update_limits;
            if self.next_freq_khz == next_khz && !self.need_update_limits && !self.gates.sticky_update {
                return SugovOutcome::Unchanged;
            }
        } else if self.next_freq_khz == next_khz {
            return SugovOutcome::Unchanged;
        } else if let Some((up_ns, down_ns)) = self.up_down_delay_ns {
            let delta_ns = time.wrapping_sub(self.last_freq_update_time) as i64;
            if delta_ns < if next_khz > self.next_freq_khz { up_ns } else { down_ns } {
                // The cache must not hide that the frequency stayed.
                self.cached_raw_freq_khz = 0;
                return SugovOutcome::RateLimited;
            }
        }
        self.next_freq_khz = next_khz;
        self.last_freq_update_time = time;
        SugovOutcome::Requested
    }
}

/// The governor.
pub static GOVERNOR: GovernorEntry = GovernorEntry {
    name: "schedutil",
    what: "the frequency follows the scheduler's utilisation",
    tunables: &[
        Tunable::new(
            "rate_limit_us",
            TunableKind::Number { min: 0, max: u32::MAX },
            "the driver's transition delay, or made of its latency as the kernel does",
            "least time between two changes, us",
        ),
        Tunable {
            only: Some(RateLimits::UpAndDown),
            ..Tunable::new(
                "up_rate_limit_us",
                TunableKind::Number { min: 0, max: u32::MAX },
                "rate_limit_us",
                "least time from a change to one upwards, us",
            )
        },
        Tunable {
            only: Some(RateLimits::UpAndDown),
            ..Tunable::new(
                "down_rate_limit_us",
                TunableKind::Number { min: 0, max: u32::MAX },
                "rate_limit_us",
                "least time from a change to one downwards, us",
            )
        },
    ],
    worker: Worker::Kthread,
    energy_aware: true,
    new: |setup| {
        let rate_limit_us = setup.tunable(&GOVERNOR, "rate_limit_us")?.unwrap_or_else(|| setup.rate_limit_us());
        let mut sugov = SugovPolicy::new(SugovConfig {
            n_cpus: setup.n_cpus,
            cpuinfo: setup.cpuinfo,
            limits: setup.limits,
            table: setup.table.clone(),
            fast_switch: setup.fast_switch,
            need_update_limits: setup.need_update_limits,
            adjust_perf: setup.adjust_perf,
            rate_limit_us,
            tick_ns: setup.tick_ns,
            gates: setup.profile.sugov_gates(),
        });
        if setup.profile.rate_limits == RateLimits::UpAndDown {
            let up_us = setup.tunable(&GOVERNOR, "up_rate_limit_us")?.unwrap_or(rate_limit_us);
            let down_us = setup.tunable(&GOVERNOR, "down_rate_limit_us")?.unwrap_or(rate_limit_us);
            sugov.set_up_down_rate_limit_us(up_us, down_us);
        }
        Ok(Box::new(sugov))
    },
};

impl Governor for SugovPolicy {
    fn entry(&self) -> &'static GovernorEntry {
        &GOVERNOR
    }

    fn update_util(
        &mut self,
        report: &Report,
        view: &dyn View,
        note: Option<&mut Option<SugovDecision>>,
    ) -> Option<Request> {
        let Report { time_ns, cpu, flags, policy } = report;
        match note {
            None => self.update(*time_ns, *cpu, *flags, policy, view),
            Some(note) => self.update_recorded(*time_ns, *cpu, *flags, policy, view, note),
        }
    }

    fn update_unlimited(&self, report: &Report, view: &dyn View) -> Option<SugovDecision> {
        let mut free = self.clone();
        free.set_rate_limit_us(0);
        free.up_down_delay_ns = None;
        let mut made = None;
        free.update_recorded(report.time_ns, report.cpu, report.flags, &report.policy, view, &mut made);
        made
    }

    fn work(&mut self, cur_khz: u32, _: &dyn View) -> Option<u32> {
        self.sugov_work(cur_khz)
    }

    fn limits(&mut self, limits: FreqLimits, cur_khz: u32) -> Option<u32> {
        self.set_limits(limits, cur_khz)
    }

    /// cpufreq_schedutil.c:rate_limit_us_store(), v6.12.
    fn retune(&mut self, fresh: &dyn Governor, _: &dyn View) -> Option<u32> {
        let fresh: &Self = (fresh as &dyn core::any::Any).downcast_ref()?;
        (self.freq_update_delay_ns, self.up_down_delay_ns) = (fresh.freq_update_delay_ns, fresh.up_down_delay_ns);
        None
    }

    fn set_cpuinfo(&mut self, cpuinfo: FreqLimits) {
        self.cpuinfo = cpuinfo;
    }

    fn follow(&mut self, cur_khz: u32) {
        self.resume(cur_khz);
    }

    fn wanted_khz(&self) -> u32 {
        self.next_freq_khz
    }

    fn next_change_ns(&self, khz: u32) -> u64 {
        let up_or_down = |(up_ns, down_ns)| if khz > self.next_freq_khz { up_ns } else { down_ns };
        let delay_ns = self.up_down_delay_ns.map_or(self.freq_update_delay_ns, up_or_down);
        self.last_freq_update_time.saturating_add_signed(delay_ns)
    }
}

impl KernelProfile {
    /// The gates of schedutil, as the governor takes them.
    pub fn sugov_gates(&self) -> SugovGates {
        SugovGates {
            util: self.sugov_util,
            headroom: self.headroom,
            freq_ref: self.freq_ref == FreqRef::Arch,
            margin_on_current: self.noninvariant_headroom == NoninvariantHeadroom::Twice,
            sticky_update: self.need_freq_update == NeedFreqUpdate::Sticky,
            driver_update: self.need_freq_update == NeedFreqUpdate::DriverOnce,
            runnable_boost: self.runnable_boost == RunnableBoost::On,
            shared_skips_stale: self.shared_stale_cpus == SharedStaleCpus::Ignored,
            iowait: self.sugov_iowait_boost,
            clamps_boost: self.sugov_clamps == SugovClamps::BoostToo,
            margin: self.proposals.margin,
            iowait_boost: self.proposals.sugov_iowait_boost,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: FreqLimits = FreqLimits { min_khz: 500_000, max_khz: 2_000_000 };

    fn config(n_cpus: usize, gates: SugovGates) -> SugovConfig {
        SugovConfig {
            n_cpus,
            cpuinfo: LIMITS,
            limits: LIMITS,
            table: None,
            fast_switch: true,
            need_update_limits: false,
            adjust_perf: false,
            rate_limit_us: 1_000,
            tick_ns: 4_000_000,
            gates,
        }
    }

    fn policy(freq_invariant: bool) -> PolicyFacts {
        PolicyFacts { cur_khz: 1_000_000, freq_ref_khz: 0, freq_invariant, can_update: true }
    }

    fn busy(util: u64, idle_calls: u64) -> CpuFacts {
        CpuFacts { util_cfs: util, util_cfs_boost: util, idle_calls, ..CpuFacts::default() }
    }

    fn first_freq(gates: SugovGates, invariant: bool, util: u64) -> Option<u32> {
        let mut governor = SugovPolicy::new(config(1, gates));
        match governor.update(1_000_000_000, 0, 0, &policy(invariant), [busy(util, 1)].as_slice()) {
            Some(Request::FastSwitch { freq_khz }) => Some(freq_khz),
            _ => None,
        }
    }

    /// Goal: the tipping point is 80 % of the capacity; without invariance v6.12 has the headroom twice, v5.10 once.
    #[test]
    fn headroom() {
        let check = |gates, invariant, util, khz| assert_eq!(first_freq(gates, invariant, util), Some(khz), "{util}");
        check(SugovGates::V6_12, true, 512, 1_250_000);
        check(SugovGates::V6_12, true, 820, 2_000_000);
        check(SugovGates::V6_12, false, 512, 781_250);
        check(SugovGates::V5_10, true, 512, 1_250_000);
        check(SugovGates::V5_10, false, 512, 625_000);
        check(SugovGates::V5_18, false, 512, 625_000);
    }

    /// Goal: within the rate limit only new limits get through; a busy CPU keeps its frequency; the record shows it.
    #[test]
    fn outcomes() {
        let mut governor = SugovPolicy::new(config(1, SugovGates::V6_12));
        let mut seen = Vec::new();
        let mut update = |governor: &mut SugovPolicy, time, facts: CpuFacts| {
            governor.update_recorded(time, 0, 0, &policy(true), [facts].as_slice(), &mut seen)
        };
        assert!(update(&mut governor, 10_000_000, busy(800, 1)).is_some());
        assert_eq!(update(&mut governor, 10_500_000, busy(100, 2)), None);
        assert_eq!(update(&mut governor, 12_000_000, busy(100, 1)), None);
        governor.set_limits(FreqLimits { max_khz: 900_000, ..LIMITS }, 1_000_000);
        assert_eq!(update(&mut governor, 12_000_001, busy(800, 1)), Some(Request::FastSwitch { freq_khz: 900_000 }));
        let outcomes: Vec<_> = seen.iter().map(|decision| decision.outcome).collect();
        use SugovOutcome::{Held, RateLimited, Requested};
        assert_eq!(outcomes, [Requested, RateLimited, Held, Requested]);
        assert_eq!(seen[0].util, 1000);
    }

    /// Goal: for 6.12.13 to 6.12.24 a driver that does not want to know of limits keeps its frequency until the utilisation
    /// changes; one that does gets the new limit at once, as all do before and after.
    #[test]
    fn new_limits_that_are_missed() {
        let between = SugovGates { driver_update: true, ..SugovGates::V6_12 };
        for (gates, wants, limited) in
            [(between, false, None), (between, true, Some(900_000)), (SugovGates::V6_12, false, Some(900_000))]
        {
            let mut governor = SugovPolicy::new(SugovConfig { need_update_limits: wants, ..config(1, gates) });
            let at = |governor: &mut SugovPolicy, time, util| {
                let request = governor.update(time, 0, 0, &policy(true), [busy(util, time)].as_slice());
                request.map(|request| match request {
                    Request::FastSwitch { freq_khz } => freq_khz,
                    other => panic!("{other:?}"),
                })
            };
            assert_eq!(at(&mut governor, 10_000_000, 512), Some(1_250_000));
            governor.set_limits(FreqLimits { max_khz: 900_000, ..LIMITS }, 1_250_000);
            assert_eq!(at(&mut governor, 20_000_000, 512), limited, "{wants}");
            if limited.is_none() {
                assert_eq!(at(&mut governor, 30_000_000, 700), Some(900_000));
            }
        }
    }

    /// Goal: with limits of their own the frequency rises after 0.5 ms and falls after 20 ms.
    #[test]
    fn up_and_down_rate_limits() {
        let mut governor = SugovPolicy::new(config(1, SugovGates::V4_17));
        governor.set_up_down_rate_limit_us(500, 20_000);
        let mut check = |time_us: u64, util, idle_calls, changes: bool| {
            let facts = [busy(util, idle_calls)];
            let request = governor.update(time_us * 1000, 0, 0, &policy(true), facts.as_slice());
            assert_eq!(request.is_some(), changes, "{time_us} us");
        };
        check(1_000_000, 600, 1, true);
        check(1_000_400, 800, 2, false);
        check(1_000_600, 800, 3, true);
        check(1_019_000, 300, 4, false);
        check(1_021_000, 300, 5, true);
    }

    #[test]
    fn the_kthread_is_woken_once() {
        let mut governor = SugovPolicy::new(SugovConfig { fast_switch: false, ..config(2, SugovGates::V6_12) });
        let facts = |a, b| [busy(a, 0), busy(b, 0)];
        let request = governor.update(1_000_000_000, 1, 0, &policy(true), facts(10, 600).as_slice());
        assert_eq!(request, Some(Request::QueueWork));
        assert_eq!(governor.update(1_002_000_000, 0, 0, &policy(true), facts(10, 300).as_slice()), None);
        assert_eq!(governor.sugov_work(1_000_000), Some(732_421));
    }

    /// Goal: the old boost doubles from the lowest to the highest frequency and halves again.
    #[test]
    fn iowait_boost_by_frequency() {
        let mut governor = SugovPolicy::new(config(1, SugovGates::V4_17));
        let mut freqs = Vec::new();
        for step in 0..6 {
            let flags = if step < 4 { SCHED_CPUFREQ_IOWAIT } else { 0 };
            let time = 1_000_000_000 + step * 2_000_000;
            governor.update(time, 0, flags, &policy(true), [busy(0, step)].as_slice());
            freqs.push(governor.next_freq_khz());
        }
        assert_eq!(freqs, [625_000, 1_250_000, 2_000_000, 2_000_000, 1_250_000, 625_000]);
    }

    /// Goal: where the driver takes performance levels, which no kernel with this boost has, the boost is the same share of
    /// the capacity: 500, 1000 and 2000 of 2000 MHz.
    #[test]
    fn iowait_boost_by_frequency_as_a_level() {
        let gates = SugovGates { iowait: SugovIowaitBoost::Frequency, ..SugovGates::V6_12 };
        let mut governor = SugovPolicy::new(SugovConfig { fast_switch: true, adjust_perf: true, ..config(1, gates) });
        let levels = (0..3).map(|step| {
            let time = 1_000_000_000 + step * 2_000_000;
            match governor.update(time, 0, SCHED_CPUFREQ_IOWAIT, &policy(true), [busy(0, step)].as_slice()) {
                Some(Request::AdjustPerf { target_perf, .. }) => target_perf,
                other => panic!("no level: {other:?}"),
            }
        });
        assert_eq!(levels.collect::<Vec<_>>(), [256, 512, 1024]);
    }

    fn any_facts() -> impl Strategy<Value = CpuFacts> {
        let bound = 0..1100u64;
        (
            (1..1025u64, bound.clone(), bound.clone(), bound.clone(), 0..(1u64 << 20)),
            (bound.clone(), bound.clone(), any::<[bool; 2]>()),
            (bound.clone(), bound, 0..3u64),
        )
            .prop_map(|((capacity, util_rt, util_dl, util_irq, dl_running_bw), clamps, cfs)| CpuFacts {
                rq: RqFacts {
                    capacity,
                    util_rt,
                    util_dl,
                    util_irq,
                    dl_running_bw,
                    uclamp_min: clamps.0,
                    uclamp_max: clamps.1,
                    uclamp_used: clamps.2[0],
                    rt_runnable: clamps.2[1],
                },
                util_cfs: cfs.0,
                util_cfs_boost: cfs.0.max(cfs.1),
                idle_calls: cfs.2,
            })
    }

    fn any_gates() -> impl Strategy<Value = SugovGates> {
        prop_oneof![
            Just(SugovGates::V6_12),
            Just(SugovGates::V6_6),
            Just(SugovGates::V5_18),
            Just(SugovGates::V5_10),
            Just(SugovGates::V4_17),
        ]
    }

    /// A random CPU: capacity, classes, bandwidth, clamps, whether they are used, a runnable real-time task.
    fn any_rq() -> impl Strategy<Value = RqFacts> {
        let parts = (1..=1024u64, 0..300u64, 0..300u64, 0..1200u64, 0..(1u64 << 20));
        (parts, 0..=1024u64, 0..=1024u64, any::<bool>(), any::<bool>()).prop_map(
            |(
                (capacity, util_rt, util_dl, util_irq, dl_running_bw),
                uclamp_min,
                uclamp_max,
                uclamp_used,
                rt_runnable,
            )| {
                let (uclamp_min, uclamp_max) = if uclamp_used { (uclamp_min, uclamp_max) } else { (0, 1024) };
                let util_irq = if util_irq > 1100 { util_irq } else { util_irq / 8 };
                RqFacts {
                    capacity,
                    util_rt,
                    util_dl,
                    util_irq,
                    dl_running_bw,
                    uclamp_min,
                    uclamp_max,
                    uclamp_used,
                    rt_runnable,
                }
            },
        )
    }

    fn any_proposal() -> impl Strategy<Value = SugovGates> {
        let kernels =
            [SugovGates::V6_12, SugovGates::V6_6, SugovGates::V5_18, SugovGates::V5_10, SugovGates::V4_17].to_vec();
        (proptest::sample::select(kernels), proptest::option::of(1024..=2048u32)).prop_map(|(gates, ratio)| {
            SugovGates { margin: ratio.map_or(PerfMargin::QUARTER, PerfMargin::of_1024), ..gates }
        })
    }

    proptest! {
        /// Goal: a reason never contradicts the numbers, under any proposal of headroom and any kernel.
        /// Method: from the record alone the performance and the frequency are computed again.
        #[test]
        fn reasons_recompute_to_the_outcome(
            gates in any_proposal(),
            rq in any_rq(),
            util in (0..=1024u64, 0..=1024u64),
            iowait in any::<bool>(),
            cur_khz in 500_000..=2_000_000u32,
            freq_invariant in any::<bool>(),
        ) {
            let (util_cfs, util_cfs_boost) = (util.0.min(util.1), util.0.max(util.1));
            let facts = [CpuFacts { rq, util_cfs, util_cfs_boost, idle_calls: 1 }];
            let policy = PolicyFacts { cur_khz, freq_ref_khz: 2_000_000, freq_invariant, can_update: true };
            let mut recorded = SugovPolicy::new(config(1, gates));
            let mut plain = recorded.clone();
            let flags = if iowait { SCHED_CPUFREQ_IOWAIT } else { 0 };
            let mut made: Option<SugovDecision> = None;
            let asked = recorded.update_recorded(1 << 40, 0, flags, &policy, facts.as_slice(), &mut made);
            prop_assert_eq!(asked, plain.update(1 << 40, 0, flags, &policy, facts.as_slice()));
            let made = made.expect("a decision");
            let steps = made.steps.expect("it looked");
            prop_assert_eq!(steps.util, made.util);
            let (ratio, place) = (u64::from(made.headroom.0), made.headroom.1);
            let with_headroom = (steps.sum * ratio) >> 10;
            let (before, after) = match place {
                HeadroomPlace::InEffectivePerf => (with_headroom, steps.util),
                _ => (steps.util, steps.util),
            };
            let bw = cpu_bw_dl(rq.dl_running_bw);
            match steps.bound {
                PerfBound::None => prop_assert_eq!(before, after),
                PerfBound::Capacity => prop_assert!(after == rq.capacity && before >= after),
                PerfBound::UclampMax if place == HeadroomPlace::InEffectivePerf => {
                    prop_assert!(after == rq.uclamp_max && before > after);
                }
                PerfBound::UclampMin if place == HeadroomPlace::InEffectivePerf => {
                    prop_assert!(after == rq.uclamp_min && rq.uclamp_used);
                }
                PerfBound::UclampMax => prop_assert!(rq.uclamp_used && steps.util_cfs + rq.util_rt > rq.uclamp_max),
                PerfBound::UclampMin => prop_assert!(rq.uclamp_used && steps.util_cfs + rq.util_rt < rq.uclamp_min),
                PerfBound::Bandwidth => prop_assert_eq!(after, rq.util_irq + bw),
                PerfBound::RealTime => prop_assert!(after == rq.capacity && rq.rt_runnable && !rq.uclamp_used),
                PerfBound::Interrupts => prop_assert!(after == rq.capacity && rq.util_irq >= rq.capacity),
                PerfBound::IowaitBoost => prop_assert!(iowait && after == steps.iowait),
            }
            let raw = match place {
                HeadroomPlace::InEffectivePerf => made.ref_khz * steps.util / made.max_cap,
                HeadroomPlace::InClampedUtil => made.ref_khz * with_headroom / made.max_cap,
                HeadroomPlace::InFrequency => ((made.ref_khz * ratio) >> 10) * steps.util / made.max_cap,
            };
            prop_assert_eq!(u64::from(made.raw_khz), raw);
            prop_assert_eq!(made.outcome == SugovOutcome::Requested, asked.is_some());
        }
        /// Goal: at equal state, a higher utilisation never asks for a lower frequency. CPUs of a policy have one capacity;
        /// with several, equal shares of them differ by what the headroom's shift rounds off.
        #[test]
        fn frequency_is_monotonic(
            facts in proptest::collection::vec(any_facts(), 1..4), more in 0..600u64, gates in any_gates(),
            invariant: bool, flags in 0..2u32, slow: bool,
        ) {
            let decide = |more: u64| {
                let mut facts = facts.clone();
                let capacity = facts[0].rq.capacity;
                facts.iter_mut().for_each(|cpu| cpu.rq.capacity = capacity);
                facts[0].util_cfs += more;
                facts[0].util_cfs_boost += more;
                let mut governor = SugovPolicy::new(SugovConfig { fast_switch: !slow, ..config(facts.len(), gates) });
                governor.update(1_000_000_000, 0, flags, &policy(invariant), facts.as_slice());
                governor.next_freq_khz()
            };
            let (low, high) = (decide(0), decide(more));
            prop_assert!(low <= high);
            prop_assert!(LIMITS.contains(low) && LIMITS.contains(high));
        }

        /// Goal: no sequence of any inputs panics, and every request is within the limits.
        #[test]
        fn any_sequence_has_requests(
            steps in proptest::collection::vec((any::<u64>(), 0..3usize, 0..4u32, any_facts(), any::<[u32; 3]>()), 1..30),
            n_cpus in 1..4usize, gates in any_gates(), flags: [bool; 4],
        ) {
            let [fast_switch, need_update_limits, adjust_perf, freq_invariant] = flags;
            let mut governor =
                SugovPolicy::new(SugovConfig { fast_switch, need_update_limits, adjust_perf, ..config(n_cpus, gates) });
            let mut facts = vec![CpuFacts::default(); n_cpus];
            let mut time = 0u64;
            for (delta, cpu, op, own, numbers) in steps {
                time = time.wrapping_add(if op == 0 { delta } else { delta >> 40 });
                let cpu = cpu % n_cpus;
                facts[cpu] = own;
                let policy =
                    PolicyFacts { cur_khz: numbers[0], freq_ref_khz: numbers[1], freq_invariant, can_update: op != 1 };
                if op == 3 {
                    let (a, b) = (numbers[1], numbers[2]);
                    governor.set_limits(FreqLimits { min_khz: a.min(b), max_khz: a.max(b) }, numbers[0]);
                }
                if let Some(Request::FastSwitch { freq_khz }) =
                    governor.update(time, cpu, numbers[2] & 1, &policy, facts.as_slice())
                {
                    prop_assert!(governor.limits.contains(freq_khz));
                }
                let _ = governor.sugov_work(numbers[0]);
            }
        }

        #[test]
        fn any_facts_have_a_utilisation(wide: [u64; 8], flags: [bool; 2], p in proptest::option::of((any::<u64>(), any::<u64>()))) {
            let facts = RqFacts {
                capacity: wide[0], util_rt: wide[1], util_dl: wide[2], util_irq: wide[3], dl_running_bw: wide[4],
                uclamp_min: wide[5], uclamp_max: wide[6], uclamp_used: flags[0], rt_runnable: flags[1],
            };
            prop_assert!(effective_cpu_util(&facts, wide[7]).util <= wide[0]);
            prop_assert!(schedutil_cpu_util(&facts, wide[7], UtilType::Frequency, p) <= wide[0]);
            prop_assert!(schedutil_cpu_util(&facts, wide[7], UtilType::Energy, p) <= wide[0]);
        }
    }
}
