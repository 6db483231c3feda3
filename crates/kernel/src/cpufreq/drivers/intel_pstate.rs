//! The intel_pstate driver: it chooses P-states itself in *active* mode, and serves schedutil and the other governors
//! in *passive* mode as "intel_cpufreq" (drivers/cpufreq/intel_pstate.c, v6.12).
//!
//! | mode | hardware P-states (HWP) | here |
//! | --- | --- | --- |
//! | active | no | [`ActiveCpu`]: busy fraction and I/O boost to a P-state, at most every 10 ms |
//! | active | yes | [`hwp_set`] writes the limits; [`HwpBoost`] raises the lower one for I/O |
//! | passive | no | [`PassiveCpu::target`]: a governor's kHz to a P-state |
//! | passive | yes | [`PassiveCpu::target`], or [`PassiveCpu::adjust_perf`] for schedutil |
//!
//! P-states are multiples of the bus clock or HWP's abstract performance, 8 bits. Facts come in as the values of
//! registers and counters, and what would be written to a register comes out. Not here: what the firmware makes of an
//! HWP request, reading registers, sysfs.
//!
//! [`IdlePlacementBoost`] follows a distribution patch that was never upstream (text 001), and the older I/O boost
//! ([`IowaitBoostForm::Full`]) is written from memory of v4.12 to v5.0; neither is covered by vectors.

use crate::cpufreq::driver::{DriverEntry, DriverKind, FastSwitch, Governors};
use crate::cpufreq::facts::SampleRule;
use crate::cpufreq::freq_table::Relation;
pub use crate::profile::IntelHwpTarget;
use crate::profile::{HwpDynamicBoost, IntelIowaitBoost, KernelProfile, NoTurboCpuinfoMax};
use crate::release::Version;

/// `SCHED_CPUFREQ_IOWAIT`: a task wakes up from waiting for I/O.
pub const SCHED_CPUFREQ_IOWAIT: u32 = 1;
/// Not a kernel flag: a task was placed on this CPU while it was idle (see [`IdlePlacementBoost`]).
pub const SCHED_CPUFREQ_IDLE_PLACEMENT: u32 = 1 << 31;

/// Fractional bits of busy fractions and boosts: 256 is 1.
pub const FRAC_BITS: u32 = 8;
/// Fractional bits of the average performance.
pub const EXT_FRAC_BITS: u32 = 14;
/// A busy fraction of 1/8.
pub const ONE_EIGHTH_FP: u32 = 1 << (FRAC_BITS - 3);
/// A busy fraction of 1.
pub const ONE_FP: u32 = 1 << FRAC_BITS;
/// Shortest time between two samples without HWP, ns.
pub const INTEL_PSTATE_SAMPLING_INTERVAL_NS: i64 = 10_000_000;
/// How long a CPU must be quiet before its HWP boost ends, ns (`hwp_boost_hold_time_ns`).
pub const HWP_BOOST_HOLD_TIME_NS: u64 = 3_000_000;
/// schedutil's rate limit with HWP, us.
pub const INTEL_CPUFREQ_TRANSITION_DELAY_HWP_US: u32 = 5000;
/// schedutil's rate limit without HWP, us.
pub const INTEL_CPUFREQ_TRANSITION_DELAY_US: u32 = 500;
/// Transition latency that the driver reports, ns.
pub const INTEL_CPUFREQ_TRANSITION_LATENCY_NS: u32 = 20_000;

/// `a` is later than `b`, on a clock that wraps (`time_after64()`).
fn time_after(a: u64, b: u64) -> bool {
    (b.wrapping_sub(a) as i64) < 0
}

/// `ceil(a / b)` as `DIV_ROUND_UP()` computes it in 64 bits, cut to `int`; `b` must not be 0.
fn div_round_up(a: u64, b: u64) -> i32 {
    (a.wrapping_add(b).wrapping_sub(1) / b) as i32
}

/// `ceil(a / b)` in `int`, wrapping.
fn div_round_up_i32(a: i32, b: i32) -> i32 {
    a.wrapping_add(b).wrapping_sub(1).wrapping_div(b)
}

/// `clamp_t(int, ...)`: the upper limit wins.
fn clamp(value: i32, low: i32, high: i32) -> i32 {
    value.max(low).min(high)
}

// -------------------------------------------------------------------------------------------- registers

/// `MSR_HWP_REQUEST`: what software asks of hardware P-states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HwpRequest(
    /// The register's value.
    pub u64,
);

impl HwpRequest {
    fn with(self, shift: u32, value: u64) -> Self {
        Self(self.0 & !(0xff << shift) | (value & 0xff) << shift)
    }

    /// Lowest performance, bits 7:0.
    pub fn min(self) -> u8 {
        self.0 as u8
    }

    /// Highest performance, bits 15:8.
    pub fn max(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Desired performance, bits 23:16; 0 leaves the choice to the hardware.
    pub fn desired(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Energy-performance preference, bits 31:24: 0 is all performance, 255 all energy.
    pub fn epp(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// With another lowest performance, of which 8 bits count.
    pub fn with_min(self, min: i32) -> Self {
        self.with(0, min as u64)
    }

    /// With another highest performance, of which 8 bits count.
    pub fn with_max(self, max: i32) -> Self {
        self.with(8, max as u64)
    }

    /// With another desired performance, of which 8 bits count.
    pub fn with_desired(self, desired: i32) -> Self {
        self.with(16, desired as u64)
    }

    /// With another preference. As in the kernel the value is 32 bits wide: more than 8 spill into the bits above.
    pub fn with_epp(self, epp: u32) -> Self {
        Self(self.0 & !(0xff << 24) | u64::from(epp) << 24)
    }
}

/// `MSR_HWP_CAPABILITIES`: the range of hardware performance levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HwpCapabilities(
    /// The register's value.
    pub u64,
);

impl HwpCapabilities {
    /// Highest performance (turbo of one core), bits 7:0.
    pub fn highest(self) -> u8 {
        self.0 as u8
    }

    /// Guaranteed performance (base frequency), bits 15:8.
    pub fn guaranteed(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

// ----------------------------------------------------------------------------------------------- limits

/// The P-states of a CPU (`struct pstate_data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PstateData {
    /// Lowest.
    pub min_pstate: i32,
    /// Highest without turbo.
    pub max_pstate: i32,
    /// Highest without turbo as the hardware reports it (a configurable TDP may lower `max_pstate`).
    pub max_pstate_physical: i32,
    /// Highest with turbo.
    pub turbo_pstate: i32,
    /// kHz a P-state (an HWP performance level on hybrid machines).
    pub scaling: i32,
    /// kHz a unit of `MSR_IA32_PERF_CTL`; differs from `scaling` on hybrid machines only.
    pub perf_ctl_scaling: i32,
}

impl PstateData {
    /// The bus clock of all non-hybrid Core and Xeon processors since Sandy Bridge, kHz.
    pub const CORE_SCALING_KHZ: i32 = 100_000;

    /// A non-hybrid Core: P-states in steps of 100 MHz.
    pub const fn core(min_pstate: i32, max_pstate: i32, turbo_pstate: i32) -> Self {
        Self {
            min_pstate,
            max_pstate,
            max_pstate_physical: max_pstate,
            turbo_pstate,
            scaling: Self::CORE_SCALING_KHZ,
            perf_ctl_scaling: Self::CORE_SCALING_KHZ,
        }
    }

    /// The P-state for a frequency: at least it under relation L and in all fast switches, at most it under H, the closest
    /// under C (intel_pstate.c:intel_pstate_freq_to_hwp_rel(), v6.12). A scaling of 0, which no driver has, gives the highest.
    pub fn freq_to_hwp(&self, freq_khz: i32, relation: Relation) -> i32 {
        if freq_khz == self.turbo_pstate.wrapping_mul(self.scaling) || self.scaling == 0 {
            return self.turbo_pstate;
        }
        if freq_khz == self.max_pstate.wrapping_mul(self.scaling) {
            return self.max_pstate;
        }
        match relation {
            Relation::H => freq_khz.wrapping_div(self.scaling),
            Relation::C => {
                let half = self.scaling / 2;
                let same_sign = (freq_khz < 0) == (self.scaling < 0);
                let shifted = if same_sign { freq_khz.wrapping_add(half) } else { freq_khz.wrapping_sub(half) };
                shifted.wrapping_div(self.scaling)
            }
            Relation::L => div_round_up_i32(freq_khz, self.scaling),
        }
    }
}

/// The P-states that sysfs allows on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfLimits {
    /// Lowest.
    pub min_perf_ratio: i32,
    /// Highest.
    pub max_perf_ratio: i32,
}

/// The driver's switches in `/sys/devices/system/cpu/intel_pstate/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Globals {
    /// Turbo must not be used.
    pub no_turbo: bool,
    /// Turbo is switched off by the firmware.
    pub turbo_disabled: bool,
    /// Highest P-state in percent of the highest turbo P-state.
    pub max_perf_pct: i32,
    /// Lowest P-state in percent of the highest turbo P-state.
    pub min_perf_pct: i32,
    /// Ignore the percentages: each CPU has its policy's limits only.
    pub per_cpu_limits: bool,
}

impl Default for Globals {
    fn default() -> Self {
        Self { no_turbo: false, turbo_disabled: false, max_perf_pct: 100, min_perf_pct: 0, per_cpu_limits: false }
    }
}

/// The P-states allowed by a policy's limits in kHz and the global percentages
/// (intel_pstate.c:intel_pstate_update_perf_limits(), v6.12). `hwp_active` matters on hybrid machines only. Without a
/// `perf_ctl_scaling` (0), which no driver has, the policy's limits are taken as 0.
pub fn update_perf_limits(
    pstate: &PstateData,
    globals: &Globals,
    policy_min_khz: u32,
    policy_max_khz: u32,
    hwp_active: bool,
) -> PerfLimits {
    let scaling = pstate.perf_ctl_scaling;
    // An unsigned division of which the result is taken as int.
    let to_ratio = |khz: u32| khz.checked_div(scaling as u32).unwrap_or(0) as i32;
    let mut max_policy = to_ratio(policy_max_khz);
    let mut min_policy =
        if policy_max_khz == policy_min_khz { max_policy } else { clamp(to_ratio(policy_min_khz), 0, max_policy) };
    if hwp_active && pstate.scaling != scaling {
        max_policy = pstate.freq_to_hwp(max_policy.wrapping_mul(scaling), Relation::L);
        min_policy = pstate.freq_to_hwp(min_policy.wrapping_mul(scaling), Relation::L);
    }
    if globals.per_cpu_limits {
        return PerfLimits { min_perf_ratio: min_policy, max_perf_ratio: max_policy };
    }
    let percent = |pct: i32| div_round_up_i32(pstate.turbo_pstate.wrapping_mul(pct), 100);
    let global_max = percent(globals.max_perf_pct);
    let global_min = clamp(percent(globals.min_perf_pct), 0, global_max);
    let max_perf_ratio = max_policy.min(global_max).max(min_policy);
    let min_perf_ratio = min_policy.max(global_min).min(max_policy).min(max_perf_ratio);
    PerfLimits { min_perf_ratio, max_perf_ratio }
}

/// A P-state within the hardware's and the policy's limits
/// (intel_pstate.c:intel_pstate_prepare_request(), v6.12).
pub fn prepare_request(pstate: &PstateData, limits: &PerfLimits, target: i32) -> i32 {
    let low = pstate.min_pstate.max(limits.min_perf_ratio);
    clamp(target, low, low.max(limits.max_perf_ratio))
}

/// The value of `MSR_IA32_PERF_CTL` for a P-state (intel_pstate.c:core_get_val(), v6.12): bit 32 forbids turbo.
pub fn perf_ctl(pstate: i32, globals: &Globals) -> u64 {
    let no_turbo = globals.no_turbo && !globals.turbo_disabled;
    ((pstate as u64) << 8) | u64::from(no_turbo) << 32
}

/// The two policies of active mode, which are *called* like generic governors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PstatePolicy {
    /// "powersave": the algorithms of this module, between the limits.
    Powersave,
    /// "performance": always the highest P-state allowed; with HWP, preference 0 too.
    Performance,
}

impl PstatePolicy {
    /// The one that `scaling_governor` calls so.
    pub fn named(governor: &str) -> Option<Self> {
        match governor {
            "powersave" => Some(Self::Powersave),
            "performance" => Some(Self::Performance),
            _ => None,
        }
    }
}

// ----------------------------------------------------------------------------------- active mode, no HWP

/// How fast waiting for I/O boosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IowaitBoostForm {
    /// From 1/8 on, doubling (v6.12; since v5.1 from memory).
    #[default]
    Doubling,
    /// At once to the full, a sample is taken at once, and each sample halves (v4.12 to v5.0). From memory.
    Full,
}

/// The boost for a task placed on a CPU that was idle, as SUSE's SLE 15 kernel has it (text 001; commit 3a287868cb7a9
/// of its tree, never upstream).
///
/// The text describes what it does, not how. Assumed here: such a placement counts like waking up from I/O did in that
/// kernel (v4.12): the busy fraction is at least `level` at the next sample, halves from report to report, and ends
/// when the CPU was idle for more than a tick. With HWP it is one step of the I/O boost, without waiting for a second
/// event. Whoever drives the governor passes [`SCHED_CPUFREQ_IDLE_PLACEMENT`] with the enqueue's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePlacementBoost {
    /// Busy fraction to assume, in 1/256.
    pub level: u32,
}

impl Default for IdlePlacementBoost {
    fn default() -> Self {
        Self { level: ONE_FP }
    }
}

/// A CPU's counters, absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Cycles at the actual frequency while not idle.
    pub aperf: u64,
    /// Cycles at the base frequency while not idle.
    pub mperf: u64,
    /// Cycles at the base frequency, always.
    pub tsc: u64,
}

/// What a report of the scheduler led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActiveUpdate {
    /// The counters were read; from the second time on a P-state was chosen, too.
    pub sampled: bool,
    /// The P-state that was chosen, if it differs from the one before: to be written.
    pub pstate: Option<i32>,
}

/// A CPU in active mode without HWP (`struct cpudata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveCpu {
    /// The P-states.
    pub pstate: PstateData,
    /// What sysfs allows.
    pub limits: PerfLimits,
    /// MPERF counts every 2^`aperf_mperf_shift`-th cycle (10 on Knights Landing, otherwise 0).
    pub aperf_mperf_shift: u32,
    /// Which I/O boost.
    pub iowait_form: IowaitBoostForm,
    /// SLE 15's boost, if wanted.
    pub idle_placement: Option<IdlePlacementBoost>,
    /// Present P-state.
    pub current_pstate: i32,
    /// I/O boost as a busy fraction in 1/256.
    pub iowait_boost: u32,
    /// Time of the last report, ns.
    pub last_update_ns: u64,
    /// Time of the last sample, ns; 0 if there is none yet.
    pub sample_time_ns: u64,
    /// Average performance over the last sample relative to `max_pstate_physical`, in 1/16384.
    pub core_avg_perf: i32,
    /// The last busy fraction after boost, times 100, in 1/256.
    pub busy_scaled: i32,
    /// The same before boost, in percent.
    pub busy_percent: u32,
    /// What decided on the P-state of the last sample.
    pub rule: SampleRule,
    prev: Counters,
    sample: Counters,
}

impl ActiveCpu {
    /// A CPU at its lowest P-state whose counters were never read.
    pub fn new(pstate: PstateData, limits: PerfLimits) -> Self {
        Self {
            pstate,
            limits,
            aperf_mperf_shift: 0,
            iowait_form: IowaitBoostForm::Doubling,
            idle_placement: None,
            current_pstate: pstate.min_pstate,
            iowait_boost: 0,
            last_update_ns: 0,
            sample_time_ns: 0,
            core_avg_perf: 0,
            busy_scaled: 0,
            busy_percent: 0,
            rule: SampleRule::First,
            prev: Counters::default(),
            sample: Counters::default(),
        }
    }

    /// A report of the scheduler on this CPU, made on this CPU; `counters` are read only if a sample is due
    /// (intel_pstate.c:intel_pstate_update_util(), v6.12).
    pub fn update_util(
        &mut self,
        time_ns: u64,
        flags: u32,
        tick_ns: u64,
        counters: Counters,
        globals: &Globals,
    ) -> ActiveUpdate {
        let sample_at_once = self.boost(time_ns, flags, tick_ns);
        self.last_update_ns = time_ns;
        let due = time_ns.wrapping_sub(self.sample_time_ns) as i64 >= INTEL_PSTATE_SAMPLING_INTERVAL_NS;
        let first = self.sample_time_ns == 0;
        if !(due || sample_at_once) || !self.take_sample(time_ns, counters) {
            return ActiveUpdate::default();
        }
        if first {
            (self.busy_percent, self.rule) = (0, SampleRule::First);
            return ActiveUpdate { sampled: true, pstate: None };
        }
        self.core_avg_perf = ((self.sample.aperf << EXT_FRAC_BITS) / self.sample.mperf) as i32;
        let target = self.get_target_pstate(globals);
        let pstate = prepare_request(&self.pstate, &self.limits, target);
        if pstate != target {
            self.rule = SampleRule::Limit;
        }
        let changed = pstate != self.current_pstate;
        self.current_pstate = pstate;
        ActiveUpdate { sampled: true, pstate: changed.then_some(pstate) }
    }

    /// Moves the boost; true if the P-state has to be computed at once.
    fn boost(&mut self, time_ns: u64, flags: u32, tick_ns: u64) -> bool {
        let was_idle = time_ns.wrapping_sub(self.last_update_ns) > tick_ns;
        if let Some(boost) = self.idle_placement.filter(|_| flags & SCHED_CPUFREQ_IDLE_PLACEMENT != 0) {
            self.iowait_boost = self.iowait_boost.max(boost.level.min(ONE_FP));
            return false;
        }
        let iowait = flags & SCHED_CPUFREQ_IOWAIT != 0;
        match self.iowait_form {
            IowaitBoostForm::Doubling => {
                self.iowait_boost = match (iowait, was_idle) {
                    (true, false) if self.iowait_boost >= ONE_EIGHTH_FP => (self.iowait_boost << 1).min(ONE_FP),
                    (true, _) => ONE_EIGHTH_FP,
                    (false, true) => 0,
                    (false, false) => self.iowait_boost >> 1,
                };
                false
            }
            IowaitBoostForm::Full => {
                if iowait {
                    self.iowait_boost = ONE_FP;
                } else if was_idle {
                    self.iowait_boost = 0;
                }
                iowait && self.busy_scaled >> FRAC_BITS != 100
            }
        }
    }

    /// Reads the counters; false when they stood still (intel_pstate.c:intel_pstate_sample(), v6.12).
    fn take_sample(&mut self, time_ns: u64, now: Counters) -> bool {
        if self.prev.mperf == now.mperf || self.prev.tsc == now.tsc {
            return false;
        }
        self.sample_time_ns = time_ns;
        self.sample = Counters {
            aperf: now.aperf.wrapping_sub(self.prev.aperf),
            mperf: now.mperf.wrapping_sub(self.prev.mperf),
            tsc: now.tsc.wrapping_sub(self.prev.tsc),
        };
        self.prev = now;
        true
    }

    /// The P-state for the last sample (intel_pstate.c:get_target_pstate(), v6.12): a quarter above the busy fraction
    /// of the highest P-state, and half-way up to the average performance if that was higher.
    fn get_target_pstate(&mut self, globals: &Globals) -> i32 {
        let mperf = self.sample.mperf.checked_shl(self.aperf_mperf_shift).unwrap_or(0) as i64;
        let mut busy_frac = (mperf << FRAC_BITS).wrapping_div(self.sample.tsc as i64) as i32;
        self.busy_percent = (busy_frac.wrapping_mul(100) >> FRAC_BITS).try_into().unwrap_or(0);
        self.rule = SampleRule::BusyTime;
        // A comparison of unsigned values in C, too.
        if (busy_frac as u32) < self.iowait_boost {
            busy_frac = self.iowait_boost as i32;
            self.rule = SampleRule::Boost;
        }
        if self.iowait_form == IowaitBoostForm::Full {
            self.iowait_boost >>= 1;
        }
        self.busy_scaled = busy_frac.wrapping_mul(100);

        let top = if globals.no_turbo { self.pstate.max_pstate } else { self.pstate.turbo_pstate };
        let with_headroom = top.wrapping_add(top >> 2);
        let mut target = ((i64::from(with_headroom) * i64::from(busy_frac)) >> FRAC_BITS) as i32;
        if target < self.pstate.min_pstate {
            (target, self.rule) = (self.pstate.min_pstate, SampleRule::Lowest);
        }
        let average = (self.pstate.max_pstate_physical as u64).wrapping_mul(self.core_avg_perf as u64);
        let average = (average >> EXT_FRAC_BITS) as i32;
        if average > target {
            target = target.wrapping_add(average.wrapping_sub(target) >> 1);
            self.rule = SampleRule::Average;
        }
        target
    }
}

// -------------------------------------------------------------------------------------- active mode, HWP

/// The dynamic HWP boost of one CPU: waking up from I/O in two consecutive ticks raises the lower limit of the
/// request, in up to three steps (v4.18; by default on servers only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HwpBoost {
    /// The raised lower limit; 0 while not boosted.
    pub hwp_boost_min: u32,
    /// Time of the last change or quiet report, ns.
    pub last_update_ns: u64,
    /// Time of the last report with I/O, ns.
    pub last_io_update_ns: u64,
    /// Flags collected, from other CPUs too, since the last report that acted on them.
    pub sched_flags: u32,
    /// Time of the last report made on this CPU, ns.
    pub sample_time_ns: u64,
    /// SLE 15's boost, if wanted.
    pub idle_placement: Option<IdlePlacementBoost>,
}

impl HwpBoost {
    /// A report of the scheduler on this CPU, `local` if it is made on this CPU. Returns the value to be written to
    /// `MSR_HWP_REQUEST`, if any. `cached` is the request without boost
    /// (intel_pstate.c:intel_pstate_update_util_hwp(), v6.12).
    pub fn update_util(
        &mut self,
        time_ns: u64,
        flags: u32,
        local: bool,
        tick_ns: u64,
        cached: HwpRequest,
        capabilities: HwpCapabilities,
    ) -> Option<HwpRequest> {
        self.sched_flags |= flags;
        if !local {
            return None;
        }
        self.sample_time_ns = time_ns;
        let placed = self.idle_placement.is_some() && self.sched_flags & SCHED_CPUFREQ_IDLE_PLACEMENT != 0;
        let iowait = self.sched_flags & SCHED_CPUFREQ_IOWAIT != 0;
        if !(iowait || placed) {
            return self.boost_down(cached);
        }
        self.sched_flags = 0;
        // One wake-up proves nothing; two within two ticks make a candidate.
        let recent = time_after(self.last_io_update_ns.wrapping_add(tick_ns.wrapping_mul(2)), time_ns);
        if iowait {
            self.last_io_update_ns = time_ns;
        }
        if placed || recent { self.boost_up(cached, capabilities) } else { None }
    }

    /// intel_pstate.c:intel_pstate_hwp_boost_up(), v6.12: half-way from the lower limit to the guaranteed performance,
    /// then to that, then to the upper limit.
    fn boost_up(&mut self, cached: HwpRequest, capabilities: HwpCapabilities) -> Option<HwpRequest> {
        let (min, max) = (u32::from(cached.min()), u32::from(cached.max()));
        if max == min || self.hwp_boost_min >= max {
            return None;
        }
        if self.hwp_boost_min == 0 {
            self.hwp_boost_min = min;
        }
        let guaranteed = u32::from(capabilities.guaranteed());
        let halfway = (guaranteed + min) >> 1;
        self.hwp_boost_min = if self.hwp_boost_min < halfway {
            halfway
        } else if self.hwp_boost_min < guaranteed {
            guaranteed
        } else if self.hwp_boost_min == guaranteed && max != guaranteed {
            max
        } else {
            return None;
        };
        self.last_update_ns = self.sample_time_ns;
        Some(cached.with_min(self.hwp_boost_min as i32))
    }

    /// intel_pstate.c:intel_pstate_hwp_boost_down(), v6.12: back after 3 ms without any report.
    fn boost_down(&mut self, cached: HwpRequest) -> Option<HwpRequest> {
        let expired = self.hwp_boost_min != 0
            && time_after(self.sample_time_ns, self.last_update_ns.wrapping_add(HWP_BOOST_HOLD_TIME_NS));
        self.last_update_ns = self.sample_time_ns;
        expired.then(|| {
            self.hwp_boost_min = 0;
            cached
        })
    }
}

/// Where a CPU keeps its energy preference: in the HWP request, or in `MSR_IA32_ENERGY_PERF_BIAS`, of which this is the
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnergyPref {
    /// The request has an EPP field.
    Epp,
    /// The older bias register with 4 bits.
    Epb(u64),
}

/// No preference saved (`-EINVAL`).
pub const EPP_INVALID: i16 = -22;

/// What active mode with HWP remembers about the preference across changes of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EppMemory {
    /// Preference before "performance" set it to 0; negative: none.
    pub epp_powersave: i16,
    /// The policy that the preference was last adjusted for.
    pub epp_policy: Option<PstatePolicy>,
}

impl Default for EppMemory {
    fn default() -> Self {
        Self { epp_powersave: EPP_INVALID, epp_policy: None }
    }
}

/// The request (and bias) after a change of policy or limits, from what the registers hold; the request is also the one
/// to cache (intel_pstate.c:intel_pstate_hwp_set(), v6.12).
///
/// "performance" pins the lower limit to the upper one and sets the preference to 0, saving what was there; leaving it
/// restores that, unless somebody changed the preference meanwhile.
pub fn hwp_set(
    before: HwpRequest,
    pref: EnergyPref,
    limits: &PerfLimits,
    policy: PstatePolicy,
    memory: &mut EppMemory,
) -> (HwpRequest, EnergyPref) {
    let performance = policy == PstatePolicy::Performance;
    let min = if performance { limits.max_perf_ratio } else { limits.min_perf_ratio };
    let request = before.with_min(min).with_max(limits.max_perf_ratio);
    if memory.epp_policy == Some(policy) {
        return (request, pref);
    }
    memory.epp_policy = Some(policy);

    let current = match pref {
        EnergyPref::Epp => i16::from(request.epp()),
        EnergyPref::Epb(epb) => (epb & 0x0f) as i16,
    };
    let epp = if performance {
        memory.epp_powersave = current;
        0
    } else if memory.epp_powersave < 0 || current != 0 {
        return (request, pref);
    } else {
        memory.epp_powersave
    };
    match pref {
        EnergyPref::Epp => (request.with_epp(epp as u32), pref),
        EnergyPref::Epb(epb) => (request, EnergyPref::Epb(set_epb(epb, epp))),
    }
}

/// intel_pstate.c:intel_pstate_set_epb(), v6.12: the value is *or*ed in unmasked and sign-extended.
fn set_epb(epb: u64, pref: i16) -> u64 {
    epb & !0x0f | pref as u64
}

/// The named preferences (`energy_performance_available_preferences`), in the order of their index.
pub const ENERGY_PERF_STRINGS: [&str; 5] = ["default", "performance", "balance_performance", "balance_power", "power"];

/// A CPU's energy preference as sysfs offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnergyPerfPreference {
    /// The firmware's preference at boot; [`EPP_INVALID`] if it is not known.
    pub epp_default: i16,
    /// EPP of each index; `balance_performance` differs between models.
    pub epp_values: [u32; 5],
}

/// `balance_performance` of most models.
pub const HWP_EPP_BALANCE_PERFORMANCE: u32 = 0x80;

/// Models of family 6 with numbers of their own, and the release that brought them (intel_pstate.c:intel_epp_default[],
/// v6.12; intel_epp_balance_perf[] before v6.9; patches by S. Pandruvada and P. Kopper on linux-pm): `performance`,
/// `balance_performance`, `balance_power`, `power`.
const INTEL_EPP_DEFAULT: &[(u32, Version, [u32; 4])] = &[
    (INTEL_ALDERLAKE_L, (5, 17), [0, 102, 192, 255]),
    (INTEL_SAPPHIRERAPIDS_X, (6, 3), [0, 32, 192, 255]),
    (INTEL_METEORLAKE_L, (6, 9), [16, 115, 192, 255]),
    (INTEL_METEORLAKE_L, (6, 11), [16, 64, 179, 255]),
    (INTEL_ARROWLAKE, (6, 11), [16, 64, 179, 255]),
    (INTEL_EMERALDRAPIDS_X, (6, 11), [0, 32, 192, 255]),
    (INTEL_GRANITERAPIDS_X, (6, 13), [0, 32, 192, 255]),
    (INTEL_GRANITERAPIDS_D, (6, 13), [0, 32, 192, 255]),
];
/// Models of family 6 whose servers boosted after I/O by default before v6.4 (intel_pstate.c:intel_pstate_hwp_boost_ids[],
/// v6.1): `SKYLAKE_X`, which is Cascade and Cooper Lake's, too, and `SKYLAKE`.
const INTEL_HWP_BOOST: [u32; 2] = [0x55, 0x5e];
const INTEL_SAPPHIRERAPIDS_X: u32 = 0x8f;
const INTEL_ALDERLAKE_L: u32 = 0x9a;
const INTEL_METEORLAKE_L: u32 = 0xaa;
const INTEL_GRANITERAPIDS_X: u32 = 0xad;
const INTEL_GRANITERAPIDS_D: u32 = 0xae;
const INTEL_ARROWLAKE: u32 = 0xc6;
const INTEL_EMERALDRAPIDS_X: u32 = 0xcf;

impl EnergyPerfPreference {
    /// The values that most models have: 0, 128, 192, 255.
    pub const fn new(epp_default: i16) -> Self {
        Self { epp_default, epp_values: [0, 0, HWP_EPP_BALANCE_PERFORMANCE, 192, 255] }
    }

    /// The values of a model of family 6 in a kernel. A `balance_performance` other than 128 is also the default
    /// (intel_pstate.c:intel_pstate_update_epp_defaults(), v6.12).
    pub fn of_model(epp_default: i16, model: u32, version: Version) -> Self {
        let known = INTEL_EPP_DEFAULT.iter().rfind(|(of, since, _)| *of == model && *since <= version);
        known.map_or(Self::new(epp_default), |&(_, _, [performance, balance, balance_power, power])| Self {
            epp_default: balance as i16,
            epp_values: [0, performance, balance, balance_power, power],
        })
    }

    /// The same where firmware turned HWP on and chose the default, which then is `balance_performance` too.
    #[must_use]
    pub fn set_by_firmware(mut self, epp: u8) -> Self {
        self.epp_default = epp.into();
        self.epp_values[2] = epp.into();
        self
    }
}

/// What is written to `energy_performance_preference`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EppSetting {
    /// One of [`ENERGY_PERF_STRINGS`] by index; indices out of range count as the last.
    Index(usize),
    /// A number, 0..=255.
    Raw(u32),
}

/// Another preference than 0 is refused under "performance" (`-EBUSY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EppBusy;

impl core::fmt::Display for EppBusy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the policy \"performance\" allows no other preference than performance")
    }
}

impl core::error::Error for EppBusy {}

impl EnergyPerfPreference {
    /// The request and preference after a setting; `cached` is the request without boost
    /// (intel_pstate.c:intel_pstate_set_energy_pref_index(), v6.12).
    ///
    /// With a bias register only the index counts; `epp_default` and an index become its 4 bits, but more than 4
    /// bits of the default are written, too. (Without EPP sysfs refuses raw values.)
    ///
    /// # Errors
    /// [`EppBusy`].
    pub fn set(
        &self,
        setting: EppSetting,
        policy: PstatePolicy,
        cached: HwpRequest,
        pref: EnergyPref,
    ) -> Result<(HwpRequest, EnergyPref), EppBusy> {
        let index = match setting {
            EppSetting::Index(index) => index.min(self.epp_values.len() - 1),
            EppSetting::Raw(_) => 0,
        };
        let default = (index == 0 && self.epp_default != EPP_INVALID).then_some(self.epp_default);
        match pref {
            EnergyPref::Epp => {
                let epp = match (setting, default) {
                    (EppSetting::Raw(raw), _) => raw,
                    (_, Some(default)) => i32::from(default) as u32,
                    (_, None) => self.epp_values[index],
                };
                if epp as i32 > 0 && policy == PstatePolicy::Performance {
                    return Err(EppBusy);
                }
                Ok((cached.with_epp(epp), pref))
            }
            EnergyPref::Epb(epb) => {
                let value = default.unwrap_or((index as i16 - 1) << 2);
                Ok((cached, EnergyPref::Epb(set_epb(epb, value))))
            }
        }
    }

    /// The preference that sysfs shows: a name's index, or a number that has no name
    /// (intel_pstate.c:intel_pstate_get_energy_pref_index(), v6.12).
    pub fn get(&self, request: HwpRequest, pref: EnergyPref) -> EppSetting {
        match pref {
            EnergyPref::Epp => {
                let epp = u32::from(request.epp());
                let named = (1..self.epp_values.len()).find(|&index| self.epp_values[index] == epp);
                named.map_or(EppSetting::Raw(epp), EppSetting::Index)
            }
            EnergyPref::Epb(epb) => EppSetting::Index(((epb & 0x0f) >> 2) as usize + 1),
        }
    }
}

// ----------------------------------------------------------------------------------------- passive mode

/// A CPU in passive mode, where a governor decides ("intel_cpufreq").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassiveCpu {
    /// The P-states.
    pub pstate: PstateData,
    /// What sysfs allows.
    pub limits: PerfLimits,
    /// Present P-state, or HWP's desired one.
    pub current_pstate: i32,
    /// The request that was written last, if HWP is in use.
    pub hwp: Option<HwpRequest>,
    /// What of a governor's frequency the request has.
    pub form: IntelHwpTarget,
}

impl PassiveCpu {
    /// Carries out a governor's frequency; `strict` governors (userspace, performance, powersave) leave the hardware
    /// no room above it. True if a register has to be written; [`Self::frequency_khz`] gives what it then runs at, or
    /// above which the firmware chooses (intel_pstate.c:intel_cpufreq_update_pstate(), v6.12;
    /// intel_cpufreq_adjust_hwp(), v5.9).
    pub fn target(&mut self, freq_khz: u32, relation: Relation, strict: bool) -> bool {
        let wanted = self.pstate.freq_to_hwp(freq_khz as i32, relation);
        let target = prepare_request(&self.pstate, &self.limits, wanted);
        let write = match self.hwp {
            Some(_) => {
                let strict = strict && self.form != IntelHwpTarget::Floor;
                let max = if strict { target } else { self.limits.max_perf_ratio };
                let desired = if self.form == IntelHwpTarget::Desired { target } else { 0 };
                self.hwp_update(target, max, desired)
            }
            None => target != self.current_pstate,
        };
        self.current_pstate = target;
        write
    }

    /// schedutil's way with HWP: utilisation of a capacity instead of a frequency. True if the request has to be
    /// written (intel_pstate.c:intel_cpufreq_adjust_perf(), v6.12).
    pub fn adjust_perf(
        &mut self,
        capabilities: HwpCapabilities,
        no_turbo: bool,
        min_perf: u64,
        target_perf: u64,
        capacity: u64,
    ) -> bool {
        let cap_pstate = i32::from(if no_turbo { capabilities.guaranteed() } else { capabilities.highest() });
        let share = |perf: u64| {
            if perf < capacity { div_round_up((cap_pstate as u64).wrapping_mul(perf), capacity) } else { cap_pstate }
        };
        let PerfLimits { min_perf_ratio, max_perf_ratio } = self.limits;
        let min = share(min_perf).max(self.pstate.min_pstate).max(min_perf_ratio).min(max_perf_ratio);
        let max = cap_pstate.min(max_perf_ratio).max(min);
        let target = clamp(share(target_perf), min, max);
        self.current_pstate = target;
        self.hwp_update(min, max, target)
    }

    /// intel_pstate.c:intel_cpufreq_hwp_update(), v6.12.
    fn hwp_update(&mut self, min: i32, max: i32, desired: i32) -> bool {
        let previous = self.hwp.unwrap_or_default();
        let request = previous.with_min(min).with_max(max).with_desired(desired);
        self.hwp = Some(request);
        request != previous
    }

    /// The frequency of the present P-state, kHz.
    pub fn frequency_khz(&self) -> i32 {
        self.current_pstate.wrapping_mul(self.pstate.scaling)
    }
}

/// The active mode and the passive one.
pub static DRIVERS: &[DriverEntry] = &[
    DriverEntry {
        name: "intel_pstate",
        kind: DriverKind::IntelActive,
        what: "Intel's P-states, the driver or the firmware chooses (active mode)",
        governors: Governors::Own { passive: "intel_cpufreq" },
        transition_delay_us: |_| 0,
        ..PASSIVE
    },
    PASSIVE,
];

const PASSIVE: DriverEntry = DriverEntry {
    name: "intel_cpufreq",
    kind: DriverKind::IntelPassive,
    what: "Intel's P-states, a governor chooses (passive mode)",
    p_states: true,
    table: None,
    governors: Governors::Any,
    fast_switch: FastSwitch::Yes,
    any_cpu: false,
    registers_em: false,
    zero_is_unknown: false,
    transition_delay_us: |facts| match facts.hwp {
        true => INTEL_CPUFREQ_TRANSITION_DELAY_HWP_US,
        false => INTEL_CPUFREQ_TRANSITION_DELAY_US,
    },
    // intel_pstate.c:__intel_pstate_cpu_init(), __intel_pstate_update_max_freq(), v6.12.
    cpuinfo_max_khz: |facts| match (facts.profile.no_turbo_cpuinfo_max, facts.no_turbo_khz) {
        (NoTurboCpuinfoMax::Base, Some(base_khz)) => base_khz,
        _ => facts.p0_khz.max(facts.turbo_khz),
    },
};

impl KernelProfile {
    /// Whether HWP's dynamic boost is on by default, on a `server` with a processor of `model` of family 6
    /// (intel_pstate.c:intel_pstate_init_cpu(), v6.1 and v6.12).
    pub fn hwp_boost_default(&self, server: bool, model: Option<u32>) -> bool {
        match self.hwp_dynamic_boost {
            HwpDynamicBoost::Absent => false,
            HwpDynamicBoost::SkylakeServers => server && model.is_some_and(|model| INTEL_HWP_BOOST.contains(&model)),
            HwpDynamicBoost::Servers => server,
            HwpDynamicBoost::Everywhere => true,
        }
    }

    /// The I/O boost of intel_pstate's active mode.
    pub fn intel_iowait_form(&self) -> IowaitBoostForm {
        match self.intel_iowait_boost {
            IntelIowaitBoost::Full => IowaitBoostForm::Full,
            IntelIowaitBoost::Doubling => IowaitBoostForm::Doubling,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn limits(min_perf_ratio: i32, max_perf_ratio: i32) -> PerfLimits {
        PerfLimits { min_perf_ratio, max_perf_ratio }
    }

    /// Two I/O wake-ups within two ticks climb one step; the ladder is half-way, guaranteed, maximum. The boost ends
    /// only after 3 ms without any report.
    /// The numbers that dumps of these models have under a v6.18 kernel, and what older kernels made of the names.
    #[test]
    fn names_of_preferences_have_numbers_by_model_and_kernel() {
        let values = |model, version| EnergyPerfPreference::of_model(128, model, version);
        for (model, expected) in [(0x8e, 128), (0x9a, 102), (0xaa, 64), (0x8f, 32), (0xae, 32), (0xc5, 128)] {
            let found = values(model, (6, 18));
            assert_eq!((found.epp_values[2], found.epp_default), (expected, expected as i16), "{model:#x}");
        }
        assert_eq!(values(0xaa, (6, 12)).epp_values, [0, 16, 64, 179, 255]);
        let balance = |version| values(0xaa, version).epp_values[2];
        assert_eq!([(6, 8), (6, 10), (6, 11)].map(balance), [128, 115, 64]);
        assert_eq!([(5, 16), (5, 17)].map(|version| values(0x9a, version).epp_values[2]), [128, 102]);
        assert_eq!([(6, 12), (6, 13)].map(|version| values(0xae, version).epp_values[2]), [128, 32]);
        let by_firmware = values(0xaa, (6, 12)).set_by_firmware(96);
        assert_eq!((by_firmware.epp_default, by_firmware.epp_values), (96, [0, 16, 96, 179, 255]));
    }

    #[test]
    fn hwp_boost_ladder() {
        let cached = HwpRequest(0).with_min(10).with_max(50);
        let capabilities = HwpCapabilities(50 | 30 << 8);
        let mut boost = HwpBoost::default();
        let mut check = |time_ms: u64, flags, min: Option<u8>| {
            let request = boost.update_util(time_ms * MS, flags, true, 4 * MS, cached, capabilities);
            assert_eq!(request.map(HwpRequest::min), min, "at {time_ms} ms");
        };
        check(100, SCHED_CPUFREQ_IOWAIT, None);
        check(104, SCHED_CPUFREQ_IOWAIT, Some(20));
        check(105, SCHED_CPUFREQ_IOWAIT, Some(30));
        check(106, SCHED_CPUFREQ_IOWAIT, Some(50));
        check(107, SCHED_CPUFREQ_IOWAIT, None);
        check(109, 0, None);
        check(112, 0, None);
        check(116, 0, Some(10));
        check(117, 0, None);
    }

    /// A task placed on an idle CPU boosts at once, where that is wanted.
    #[test]
    fn idle_placement_boosts_at_once() {
        let cached = HwpRequest(0).with_min(10).with_max(50);
        let capabilities = HwpCapabilities(50 | 30 << 8);
        let report = |idle_placement| {
            let mut boost = HwpBoost { idle_placement, ..HwpBoost::default() };
            boost.update_util(100 * MS, SCHED_CPUFREQ_IDLE_PLACEMENT, true, 4 * MS, cached, capabilities)
        };
        assert_eq!(report(None), None);
        assert_eq!(report(Some(IdlePlacementBoost::default())).map(HwpRequest::min), Some(20));

        let pstate_after = |idle_placement| {
            let mut cpu = ActiveCpu::new(PstateData::core(8, 30, 40), limits(8, 40));
            cpu.idle_placement = idle_placement;
            let mut report = |time_ms: u64, flags| {
                let counters = Counters { aperf: time_ms * 100, mperf: time_ms * 100, tsc: time_ms * 1_000 };
                cpu.update_util(time_ms * MS, flags, 4 * MS, counters, &Globals::default())
            };
            report(20, 0);
            report(40, SCHED_CPUFREQ_IDLE_PLACEMENT)
        };
        assert_eq!(pstate_after(None).pstate, Some(19));
        assert_eq!(pstate_after(Some(IdlePlacementBoost::default())).pstate, Some(40));
    }

    /// v5.0 boosted to the full at once and halved with each sample.
    #[test]
    fn old_iowait_boost_is_full() {
        let boost_after_io = |iowait_form| {
            let mut cpu = ActiveCpu::new(PstateData::core(8, 30, 40), limits(8, 40));
            cpu.iowait_form = iowait_form;
            cpu.update_util(20 * MS, SCHED_CPUFREQ_IOWAIT, 4 * MS, Counters::default(), &Globals::default());
            cpu.iowait_boost
        };
        assert_eq!(boost_after_io(IowaitBoostForm::Doubling), 32);
        assert_eq!(boost_after_io(IowaitBoostForm::Full), 256);
    }

    /// Busy half of the time: 1.25 * 0.5 of the highest P-state. Not sampled more often than every 10 ms.
    #[test]
    fn busy_fraction_sets_the_pstate() {
        let mut cpu = ActiveCpu::new(PstateData::core(8, 30, 40), limits(8, 40));
        let mut report = |time_ms: u64| {
            let counters = Counters { aperf: time_ms * 100, mperf: time_ms * 500, tsc: time_ms * 1_000 };
            cpu.update_util(time_ms * MS, 0, 4 * MS, counters, &Globals::default())
        };
        assert_eq!(report(20), ActiveUpdate { sampled: true, pstate: None });
        assert!(!report(25).sampled);
        assert_eq!(report(30), ActiveUpdate { sampled: true, pstate: Some(25) });
        assert_eq!(report(40), ActiveUpdate { sampled: true, pstate: None });
    }

    #[test]
    fn preferences() {
        let preference = EnergyPerfPreference::new(128);
        let request = HwpRequest(0x8000_2a08);
        let set = |setting, policy| preference.set(setting, policy, request, EnergyPref::Epp).map(|(r, _)| r.epp());
        assert_eq!(set(EppSetting::Index(4), PstatePolicy::Powersave), Ok(255));
        assert_eq!(set(EppSetting::Index(0), PstatePolicy::Powersave), Ok(128));
        assert_eq!(set(EppSetting::Raw(7), PstatePolicy::Powersave), Ok(7));
        assert_eq!(set(EppSetting::Raw(7), PstatePolicy::Performance), Err(EppBusy));
        assert_eq!(set(EppSetting::Index(1), PstatePolicy::Performance), Ok(0));
        assert_eq!(preference.get(request, EnergyPref::Epp), EppSetting::Index(2));
        assert_eq!(preference.get(request, EnergyPref::Epb(6)), EppSetting::Index(2));
    }

    #[test]
    fn passive_targets() {
        let mut cpu = PassiveCpu {
            pstate: PstateData::core(8, 30, 40),
            limits: limits(8, 35),
            current_pstate: 8,
            hwp: None,
            form: IntelHwpTarget::Desired,
        };
        let mut check = |khz, relation, wrote, pstate| {
            assert_eq!((cpu.target(khz, relation, false), cpu.current_pstate), (wrote, pstate), "{khz}");
        };
        check(2_010_000, Relation::L, true, 21);
        check(2_010_000, Relation::H, true, 20);
        check(2_010_000, Relation::C, false, 20);
        check(4_000_000, Relation::L, true, 35);
        check(0, Relation::L, true, 8);
    }

    /// The least, the highest and the desired level of a request, by version and governor.
    #[test]
    fn passive_requests_by_version() {
        let request = |form, strict| {
            let hwp = Some(HwpRequest(0).with_epp(128));
            let pstate = PstateData::core(8, 30, 40);
            let mut cpu = PassiveCpu { pstate, limits: limits(8, 35), current_pstate: 8, hwp, form };
            assert!(cpu.target(2_010_000, Relation::L, strict));
            let request = cpu.hwp.unwrap_or_default();
            (request.min(), request.max(), request.desired(), request.epp())
        };
        assert_eq!(request(IntelHwpTarget::Floor, false), (21, 35, 0, 128));
        assert_eq!(request(IntelHwpTarget::Floor, true), (21, 35, 0, 128));
        assert_eq!(request(IntelHwpTarget::StrictFloor, false), (21, 35, 0, 128));
        assert_eq!(request(IntelHwpTarget::StrictFloor, true), (21, 21, 0, 128));
        assert_eq!(request(IntelHwpTarget::Desired, false), (21, 35, 21, 128));
        assert_eq!(request(IntelHwpTarget::Desired, true), (21, 21, 21, 128));
    }

    fn any_pstate() -> impl Strategy<Value = PstateData> {
        any::<(i32, i32, i32, i32, i32, i32)>().prop_map(|(min, max, physical, turbo, scaling, perf_ctl)| PstateData {
            min_pstate: min,
            max_pstate: max,
            max_pstate_physical: physical,
            turbo_pstate: turbo,
            scaling,
            perf_ctl_scaling: perf_ctl,
        })
    }

    proptest! {
        /// Nothing panics, whatever the registers, counters and limits hold.
        #[test]
        fn any_input(
            pstate in any_pstate(), perf: (i32, i32), shift: u32, full: bool, idle: bool, pct: (i32, i32),
            khz: (u32, u32), registers: (u64, u64, u64), util: (u64, u64, u64), epp: (i16, u32, usize),
            reports in proptest::collection::vec(any::<(u64, u32, u64, u64, u64, u64)>(), 0..20),
        ) {
            let limits = limits(perf.0, perf.1);
            let globals = Globals { max_perf_pct: pct.0, min_perf_pct: pct.1, no_turbo: full, ..Globals::default() };
            update_perf_limits(&pstate, &globals, khz.0, khz.1, full);
            update_perf_limits(&pstate, &globals, khz.0, khz.1, !full);
            let mut cpu = ActiveCpu::new(pstate, limits);
            cpu.aperf_mperf_shift = shift;
            cpu.idle_placement = idle.then_some(IdlePlacementBoost { level: shift });
            let mut boost = HwpBoost { idle_placement: cpu.idle_placement, ..HwpBoost::default() };
            if full {
                cpu.iowait_form = IowaitBoostForm::Full;
            }
            let (cached, capabilities) = (HwpRequest(registers.0), HwpCapabilities(registers.1));
            for (time_ns, flags, tick_ns, aperf, mperf, tsc) in reports {
                cpu.update_util(time_ns, flags, tick_ns, Counters { aperf, mperf, tsc }, &globals);
                prop_assert!(cpu.iowait_boost <= ONE_FP);
                boost.update_util(time_ns, flags, aperf % 2 == 0, tick_ns, cached, capabilities);
            }
            let form = if full { IntelHwpTarget::Floor } else { IntelHwpTarget::StrictFloor };
            let mut passive = PassiveCpu { pstate, limits, current_pstate: 0, hwp: idle.then_some(cached), form };
            for relation in [Relation::H, Relation::C, Relation::L] {
                passive.target(khz.0, relation, full);
                passive.frequency_khz();
            }
            passive.adjust_perf(capabilities, full, util.0, util.1, util.2);
            let preference = EnergyPerfPreference::new(epp.0);
            for pref in [EnergyPref::Epp, EnergyPref::Epb(registers.2)] {
                for setting in [EppSetting::Raw(epp.1), EppSetting::Index(epp.2)] {
                    let _ = preference.set(setting, PstatePolicy::Performance, cached, pref);
                    let _ = preference.set(setting, PstatePolicy::Powersave, cached, pref);
                }
                preference.get(cached, pref);
                let mut memory = EppMemory::default();
                hwp_set(cached, pref, &limits, PstatePolicy::Performance, &mut memory);
                hwp_set(cached, pref, &limits, PstatePolicy::Powersave, &mut memory);
            }
        }

        /// More utilisation never asks for less, and the request stays ordered.
        #[test]
        fn adjust_perf_is_monotonic(
            highest in 1..=255u64, min_perf in 0..=1024u64, target in 0..=1024u64, more in 0..=1024u64,
        ) {
            let desired = |target| {
                let pstate = PstateData::core(1, 255, 255);
                let form = IntelHwpTarget::Desired;
                let mut cpu = PassiveCpu { pstate, limits: limits(1, 255), current_pstate: 0, hwp: None, form };
                cpu.adjust_perf(HwpCapabilities(highest), false, min_perf, target, 1024);
                let request = cpu.hwp.unwrap_or_default();
                assert!(request.min() <= request.desired() && request.desired() <= request.max());
                request.desired()
            };
            prop_assert!(desired(target + more) >= desired(target));
        }
    }
}
