//! Frequency invariance on x86: what is f_max, and how fast did this CPU run relative to it?
//! (arch/x86/kernel/cpu/aperfmperf.c and arch/x86/kernel/acpi/cppc.c, v6.12).
//!
//! A task that runs at half the speed takes twice the time, so utilisation means something only relative to a fixed
//! f_max. Turbo makes f_max a choice, not a constant: [`FreqMax`] names the choices that were made or proposed, each
//! ends as one number, the *max frequency ratio* `f_max * 1024 / f_base`, and at each tick [`scale_freq_tick`] turns
//! the counters into the CPU's speed:
//!
//! ```text
//!                     dAPERF     f_base            APERF counts at the actual frequency, MPERF at the base frequency,
//!   freq_scale = 1024 ------ * ---------,          both only while the CPU is not idle
//!                     dMPERF      f_max
//! ```
//!
//! A ratio too high makes CPUs look slower than they are and utilisation too low; a ratio too low cuts the scale off at
//! 1024 in the turbo range.
//!
//! Here too are three estimates that no kernel has: from power ([`RaplFreqMax`]), from the recent past
//! ([`RecentFreqMax`]) and by searching at run time ([`FreqMaxSearch`]).
//! Not here: reading MSRs, ARM's and CPPC's counters ([`crate::cpufreq::cppc`]), what PELT does with the scale
//! ([`crate::clock_pelt`], [`crate::pelt_scaled`]).

use crate::unit::{SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};

/// `f_max / f_base` in 1/1024, or the like.
pub type FreqRatio = u64;

/// Turbo off in `MSR_IA32_MISC_ENABLE`.
pub const MISC_ENABLE_TURBO_DISABLE: u64 = 1 << 38;

/// Division by the low 32 bits of the divisor, as `div_u64()` does; `None` where the kernel would trap.
fn div_u64(dividend: u64, divisor: u64) -> Option<u64> {
    dividend.checked_div(divisor & u64::from(u32::MAX))
}

/// The bits `shift..shift + 8` of an MSR.
fn byte(msr: u64, shift: u32) -> u64 {
    msr >> shift & 0xff
}

// ------------------------------------------------------------------------------------------------ Intel

/// How an Intel CPU reports its turbo levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntelTurboModel {
    /// Four bytes of `MSR_TURBO_RATIO_LIMIT`, one an active core.
    Other,
    /// Knights Landing and Knights Mill: a start value and differences.
    Knl,
    /// Skylake-X: groups of cores in `MSR_TURBO_RATIO_LIMIT1`.
    Skx,
    /// Goldmont: groups of cores too, of which the first is taken.
    Glm,
}

impl IntelTurboModel {
    /// Of a model of family 6, by the lists of aperfmperf.c, v6.12.
    pub const fn of(model: u32) -> Self {
        match model {
            // INTEL_ATOM_GOLDMONT, _D, _PLUS.
            0x5c | 0x5f | 0x7a => Self::Glm,
            // INTEL_XEON_PHI_KNL, _KNM.
            0x57 | 0x85 => Self::Knl,
            // INTEL_SKYLAKE_X.
            0x55 => Self::Skx,
            _ => Self::Other,
        }
    }
}

/// The model-specific registers that matter; `None` where reading faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IntelMsrs {
    /// `MSR_IA32_MISC_ENABLE`.
    pub misc_enable: Option<u64>,
    /// `MSR_ATOM_CORE_RATIOS` (Silvermont and its like).
    pub atom_core_ratios: Option<u64>,
    /// `MSR_ATOM_CORE_TURBO_RATIOS`.
    pub atom_core_turbo_ratios: Option<u64>,
    /// `MSR_PLATFORM_INFO`.
    pub platform_info: Option<u64>,
    /// `MSR_TURBO_RATIO_LIMIT`.
    pub turbo_ratio_limit: Option<u64>,
    /// `MSR_TURBO_RATIO_LIMIT1`.
    pub turbo_ratio_limit1: Option<u64>,
}

/// Base and turbo frequency as multiples of the bus clock.
type BaseAndTurbo = (u64, u64);

impl IntelMsrs {
    fn base(&self) -> Option<u64> {
        Some(byte(self.platform_info?, 8))
    }

    /// aperfmperf.c:slv_set_max_freq_ratio(), v6.12: turbo with one core.
    fn slv(&self) -> Option<BaseAndTurbo> {
        Some((self.atom_core_ratios? >> 16 & 0x3f, self.atom_core_turbo_ratios? & 0x3f))
    }

    /// aperfmperf.c:knl_set_max_freq_ratio(), v6.12: the level after the first difference that is not 0.
    ///
    /// If that is in the last byte, or there is none, the kernel returns a variable that it never wrote; here that
    /// counts as unknown (turbo 0).
    fn knl(&self) -> Option<BaseAndTurbo> {
        let base = self.base()?;
        let limits = self.turbo_ratio_limit?;
        let delta_at = |shift: u32| limits >> (shift + 5) & 0x7;
        // The level may become negative, and as the kernel's int is widened to 64 bits, huge.
        let turbo = (16..56)
            .step_by(8)
            .map(delta_at)
            .find(|&delta| delta != 0)
            .map_or(0, |delta| byte(limits, 8).wrapping_sub(delta));
        Some((base, turbo))
    }

    /// aperfmperf.c:skx_set_max_freq_ratio(), v6.12: the level of the first group with at least `size` cores.
    fn skx(&self, size: u64) -> Option<BaseAndTurbo> {
        let base = self.base()?;
        let (ratios, counts) = (self.turbo_ratio_limit?, self.turbo_ratio_limit1?);
        let group = (0..64).step_by(8).find(|&shift| byte(counts, shift) >= size)?;
        Some((base, byte(ratios, group)))
    }

    /// aperfmperf.c:core_set_max_freq_ratio(), v6.12: turbo with four cores, or with one if there are fewer.
    fn core(&self) -> Option<BaseAndTurbo> {
        let base = self.base()?;
        let limits = self.turbo_ratio_limit?;
        let four_cores = byte(limits, 24);
        Some((base, if four_cores == 0 { byte(limits, 0) } else { four_cores }))
    }

    /// `turbo_freq * 1024 / base_freq` (aperfmperf.c:intel_set_max_freq_ratio(), v6.12), or `None`: the machine stays
    /// without frequency invariance.
    pub fn turbo_freq_ratio(&self, model: IntelTurboModel) -> Option<FreqRatio> {
        let special = || match model {
            IntelTurboModel::Other => None,
            IntelTurboModel::Knl => self.knl(),
            IntelTurboModel::Skx => self.skx(4),
            IntelTurboModel::Glm => self.skx(1),
        };
        let (base, turbo) = self.slv().or_else(special).or_else(|| self.core())?;
        if base == 0 || turbo == 0 {
            return None;
        }
        div_u64(turbo.wrapping_mul(SCHED_CAPACITY_SCALE), base).filter(|&ratio| ratio != 0)
    }

    /// Whether the firmware switched turbo off (aperfmperf.c:turbo_disabled(), v6.12).
    pub fn turbo_disabled(&self) -> bool {
        self.misc_enable.is_some_and(|misc| misc & MISC_ENABLE_TURBO_DISABLE != 0)
    }
}

/// The ratio in use: the turbo ratio unless turbo is off (aperfmperf.c:arch_set_max_freq_ratio(), v6.12).
pub fn arch_max_freq_ratio(turbo_freq_ratio: FreqRatio, turbo_disabled: bool) -> FreqRatio {
    if turbo_disabled { SCHED_CAPACITY_SCALE } else { turbo_freq_ratio }
}

// -------------------------------------------------------------------------------------------------- AMD

/// The highest performance that preferred-core systems are taken to have (`CPPC_HIGHEST_PERF_PREFCORE`).
pub const CPPC_HIGHEST_PERF_PREFCORE: u64 = 166;
/// The same for Zen 4 models 0x70 to 0x7f (`CPPC_HIGHEST_PERF_PERFORMANCE`).
pub const CPPC_HIGHEST_PERF_PERFORMANCE: u64 = 196;

/// What CPPC reports on an AMD machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdPerfCaps<'a> {
    /// Performance at the highest non-turbo frequency; `None` if the capabilities could not be read.
    pub nominal_perf: Option<u32>,
    /// Highest performance of each online CPU.
    pub highest_perfs: &'a [u32],
    /// A Zen 4.
    pub zen4: bool,
    /// The CPU's model number.
    pub model: u8,
}

/// Zen 4 by family and model (arch/x86/kernel/cpu/amd.c:bsp_init_amd(), v6.12).
pub fn is_zen4(family: u32, model: u32) -> bool {
    family == 0x19 && matches!(model, 0x10..=0x1f | 0x60..=0xaf)
}

/// The highest performance by model, 166 on two lists and 255 elsewhere (arch/x86/kernel/cpu/amd.c:
/// amd_get_highest_perf(), v6.1). On the lists are all of Zen 2's servers, whose nominal performance may be higher.
pub fn amd_highest_perf_by_model(family: u32, model: u32) -> u64 {
    match (family, model) {
        (0x17, 0x30..=0x3f | 0x70..=0x7f) | (0x19, 0x20..=0x2f | 0x40..=0x6f) => CPPC_HIGHEST_PERF_PREFCORE,
        _ => 255,
    }
}

impl AmdPerfCaps<'_> {
    /// Preferred cores: the CPUs do not all report the same highest performance
    /// (cppc.c:amd_detect_prefcore(), v6.12).
    pub fn prefcore(&self) -> bool {
        self.highest_perfs.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// What "highest performance" is divided by the nominal one (cppc.c:amd_get_boost_ratio_numerator(), v6.12).
    pub fn boost_ratio_numerator(&self) -> u64 {
        match (self.prefcore(), self.zen4, self.model) {
            (false, ..) => self.highest_perfs.first().map_or(0, |&perf| u64::from(perf)),
            (true, true, 0x70..=0x7f) => CPPC_HIGHEST_PERF_PERFORMANCE,
            (true, ..) => CPPC_HIGHEST_PERF_PREFCORE,
        }
    }

    /// `max_boost * 1024 / max_P`: what v5.11-rc used before it took the midpoint.
    pub fn max_boost_ratio(&self) -> Option<FreqRatio> {
        let nominal_perf = u64::from(self.nominal_perf?);
        (self.boost_ratio_numerator() * SCHED_CAPACITY_SCALE).checked_div(nominal_perf)
    }

    /// The midpoint between max_boost and max_P (cppc.c:amd_set_max_freq_ratio(), v6.12), or `None`: no invariance.
    pub fn max_freq_ratio(&self) -> Option<FreqRatio> {
        Some(midpoint(self.max_boost_ratio()?))
    }
}

/// Halfway between a ratio and 1, truncated.
pub fn midpoint(ratio: FreqRatio) -> FreqRatio {
    // As (ratio + 1024) >> 1, which wraps for no ratio that 32-bit frequencies can form.
    ratio.wrapping_add(SCHED_CAPACITY_SCALE) >> 1
}

// ------------------------------------------------------------------------------------------------- tick

/// The speed of a CPU over the last tick, 1..=1024, from what its counters moved
/// (aperfmperf.c:scale_freq_tick(), v6.12).
///
/// `None`: the counters are unusable (an intermediate result does not fit in 64 bits, MPERF stood still, or the speed
/// would be 0). The kernel then switches frequency invariance off for good, on all CPUs.
pub fn scale_freq_tick(acnt: u64, mcnt: u64, freq_ratio: FreqRatio) -> Option<u64> {
    const SHIFT: u32 = 2 * SCHED_CAPACITY_SHIFT;
    if acnt.leading_zeros() < SHIFT {
        return None;
    }
    let scale = (acnt << SHIFT).checked_div(mcnt.checked_mul(freq_ratio)?)?;
    (scale != 0).then(|| scale.min(SCHED_CAPACITY_SCALE))
}

// ----------------------------------------------------------------------------------------------- hybrid

/// A CPU's place on a machine with different cores (`struct arch_hybrid_cpu_scale`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HybridCpuScale {
    /// Capacity relative to the biggest CPU, 1024 for that.
    pub capacity: u64,
    /// This CPU's own max frequency ratio.
    pub freq_ratio: FreqRatio,
}

impl HybridCpuScale {
    /// aperfmperf.c:arch_set_cpu_capacity(), v6.12: `cap` of `max_cap` at `cap_freq`, with MPERF counting at
    /// `base_freq`. The divisors are cut to 32 bits; `None` where the kernel would divide by 0.
    pub fn new(cap: u64, max_cap: u64, cap_freq: u64, base_freq: u64) -> Option<Self> {
        Some(Self {
            capacity: div_u64(cap << SCHED_CAPACITY_SHIFT, max_cap)?,
            freq_ratio: div_u64(cap_freq << SCHED_CAPACITY_SHIFT, base_freq)?,
        })
    }
}

// --------------------------------------------------------------------------------------- f_max, the choice

/// What utilisation is measured against: the variants of the EPYC study (text 000) and of the talk (text 002).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreqMax {
    /// The highest frequency without boost: the ratio is 1.
    MaxP,
    /// Halfway between max_P and max_boost: AMD's since v5.11.
    Mid,
    /// The highest frequency of a lone core.
    MaxBoost,
    /// Turbo with one active core (approach 1 of the talk; the same frequency as `MaxBoost`).
    Turbo1Core,
    /// Turbo with four active cores: Intel's since v5.7.
    Turbo4Cores,
    /// Turbo with all cores active (approach 2 of the talk).
    TurboAllCores,
    /// Inferred from package power (approach 3 of the talk): see [`RaplFreqMax`].
    Rapl,
    /// The average of the recent past (approach 4 of the talk): see [`RecentFreqMax`].
    Recent,
    /// Searched at run time (question 2 of the talk): see [`FreqMaxSearch`].
    Search,
    /// Turbo with any other number of active cores.
    TurboCores(u32),
}

/// Whose f_max a CPU is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreqMaxOf {
    /// That of the CPU that boots, one number for all (aperfmperf.c:arch_max_freq_ratio, v6.6).
    BootCpu,
    /// Its own highest frequency: hybrids without SMT (aperfmperf.c:arch_set_cpu_capacity(), v6.12) and arm64
    /// (arch/arm64/kernel/topology.c:freq_inv_set_max_ratio(), v6.12).
    EachCpu,
}

/// The ratio of a CPU whose MPERF counts at `base_khz`, measured against the f_max of a CPU of another kind with
/// `boot_ratio` at `boot_base_khz`; truncated, and at least 1.
pub fn ratio_against(boot_ratio: FreqRatio, boot_base_khz: u32, base_khz: u32) -> Option<FreqRatio> {
    let ratio = boot_ratio.checked_mul(u64::from(boot_base_khz))?.checked_div(u64::from(base_khz))?;
    Some(ratio.max(1))
}

/// The frequency with a number of active cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurboLevel {
    /// The level holds with at most so many cores active.
    pub active_cores: u32,
    /// The frequency, kHz.
    pub freq_khz: u32,
}

/// Frequencies among which f_max is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqMaxFacts<'a> {
    /// max_P: the highest frequency without boost, at which MPERF counts; kHz.
    pub base_khz: u32,
    /// Turbo levels by rising number of active cores; empty without turbo.
    pub turbo: &'a [TurboLevel],
    /// Cores of the package.
    pub n_cores: u32,
}

impl FreqMaxFacts<'_> {
    /// The turbo level with `active_cores` cores: of the first group that is large enough, or else of the largest.
    fn turbo_khz(&self, active_cores: u32) -> u32 {
        let group = self.turbo.iter().find(|level| level.active_cores >= active_cores);
        group.or(self.turbo.last()).map_or(self.base_khz, |level| level.freq_khz)
    }
}

impl FreqMax {
    /// All variants with a name of their own, in the order of the texts.
    pub const ALL: [Self; 9] = [
        Self::MaxP,
        Self::Mid,
        Self::MaxBoost,
        Self::Turbo1Core,
        Self::Turbo4Cores,
        Self::TurboAllCores,
        Self::Rapl,
        Self::Recent,
        Self::Search,
    ];

    /// The name in policy files; of any number of active cores its form, in which N stands for the number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxP => "max_P",
            Self::Mid => "mid",
            Self::MaxBoost => "max_boost",
            Self::Turbo1Core => "turbo-1-core",
            Self::Turbo4Cores => "turbo-4-cores",
            Self::TurboAllCores => "turbo-all-cores",
            Self::Rapl => "rapl",
            Self::Recent => "recent",
            Self::Search => "search",
            Self::TurboCores(_) => "turbo-N-cores",
        }
    }

    /// The variant called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let cores = || name.strip_prefix("turbo-")?.strip_suffix("-cores")?.parse().ok().filter(|&cores| cores > 0);
        Self::ALL.into_iter().find(|variant| variant.name() == name).or_else(|| cores().map(Self::TurboCores))
    }

    /// f_max in kHz; for the estimated variants where they start: turbo with all cores, and the base frequency for the
    /// search, which knows no turbo.
    pub fn freq_khz(self, facts: &FreqMaxFacts<'_>) -> u32 {
        let boost_khz = facts.turbo.iter().map(|level| level.freq_khz).max().unwrap_or(facts.base_khz);
        match self {
            Self::MaxP | Self::Search => facts.base_khz,
            Self::Mid => (u64::from(facts.base_khz).midpoint(u64::from(boost_khz))) as u32,
            Self::MaxBoost => boost_khz,
            Self::Turbo1Core => facts.turbo_khz(1),
            Self::Turbo4Cores => facts.turbo_khz(4.min(facts.n_cores.max(1))),
            Self::TurboCores(cores) => facts.turbo_khz(cores.min(facts.n_cores.max(1))),
            Self::TurboAllCores | Self::Rapl | Self::Recent => facts.turbo_khz(facts.n_cores),
        }
    }

    /// f_max / f_base in 1/1024; `None` if the base frequency is unknown (0). `Mid` is formed from the ratios, as the
    /// kernel does, so that it may differ by one from the ratio of the midpoint frequency.
    pub fn ratio(self, facts: &FreqMaxFacts<'_>) -> Option<FreqRatio> {
        let of = |freq_khz: u32| (u64::from(freq_khz) * SCHED_CAPACITY_SCALE).checked_div(u64::from(facts.base_khz));
        match self {
            Self::Mid => of(Self::MaxBoost.freq_khz(facts)).map(midpoint),
            _ => of(self.freq_khz(facts)),
        }
    }
}

// ----------------------------------------------------------------------------------- estimates of f_max

/// The busy frequency over a window relative to the base frequency, in 1/1024 (`Busy_MHz / base` of the talk);
/// `None` if MPERF stood still. Saturates at `u32::MAX`.
pub fn busy_ratio(acnt: u64, mcnt: u64) -> Option<FreqRatio> {
    let ratio = (u128::from(acnt) << SCHED_CAPACITY_SHIFT).checked_div(u128::from(mcnt))?;
    Some(ratio.min(u128::from(u32::MAX)) as u64)
}

/// f_max from package power (approach 3 of text 002, which lists it without trying it).
///
/// Assumed: the package may draw `limit_uw` on average; of what it draws, `static_uw` does not depend on the frequency
/// (leakage, uncore), and the rest grows with the cube of the frequency (`C * V^2 * f` with V proportional to f) and in
/// proportion to the busy time. Then the frequency at which the cores that were busy would just exhaust the limit is
///
/// ```text
///                           limit - static
///   f_max = f_busy * cbrt( ---------------- )     kept within [floor, turbo with one core]
///                           power - static
/// ```
///
/// A workload with wide vectors draws more at the same frequency, so its f_max comes out lower, below the base
/// frequency if need be: that is the point of asking the power meter. Windows are averaged with weight 1/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaplFreqMax {
    /// Package power limit (PL1 or TDP), microwatts.
    pub limit_uw: u64,
    /// Power that does not depend on the frequency, microwatts.
    pub static_uw: u64,
    /// Lowest possible ratio.
    pub floor_ratio: FreqRatio,
    /// Highest possible ratio: turbo with one core.
    pub ceiling_ratio: FreqRatio,
    ratio: FreqRatio,
}

impl RaplFreqMax {
    /// Starts at `start_ratio`; floor and ceiling may not cross (the ceiling then wins).
    pub fn new(
        limit_uw: u64,
        static_uw: u64,
        floor_ratio: FreqRatio,
        ceiling_ratio: FreqRatio,
        start_ratio: FreqRatio,
    ) -> Self {
        let ceiling_ratio = ceiling_ratio.clamp(1, u64::from(u32::MAX));
        let floor_ratio = floor_ratio.clamp(1, ceiling_ratio);
        Self { limit_uw, static_uw, floor_ratio, ceiling_ratio, ratio: start_ratio.clamp(floor_ratio, ceiling_ratio) }
    }

    /// The present estimate of f_max / f_base in 1/1024.
    pub fn ratio(&self) -> FreqRatio {
        self.ratio
    }

    /// Takes a window in which the package drew `power_uw` while its busy CPUs moved APERF and MPERF by `acnt` and
    /// `mcnt` in all. A window without busy time, or one whose power is all static, carries no information and is skipped.
    pub fn observe(&mut self, power_uw: u64, acnt: u64, mcnt: u64) -> FreqRatio {
        let Some(busy) = busy_ratio(acnt, mcnt).filter(|&busy| busy > 0) else { return self.ratio };
        let dynamic_uw = power_uw.saturating_sub(self.static_uw);
        let Some(headroom) = u128::from(self.limit_uw.saturating_sub(self.static_uw))
            .checked_shl(3 * SCHED_CAPACITY_SHIFT)
            .and_then(|scaled| scaled.checked_div(u128::from(dynamic_uw)))
        else {
            return self.ratio;
        };
        // The cube root of a number in 2^-30 is a number in 2^-10.
        let ratio = (u128::from(busy) * u128::from(cube_root(headroom))) >> SCHED_CAPACITY_SHIFT;
        let sample = ratio.clamp(u128::from(self.floor_ratio), u128::from(self.ceiling_ratio)) as u64;
        self.ratio = ewma_eighth(self.ratio, sample);
        self.ratio
    }
}

/// f_max as the average of the recent past (approach 4 of text 002, which lists it without trying it).
///
/// The average of the busy frequency over ticks, each new tick with weight 1/2^`shift`. Assumed: a CPU that is busy
/// runs at what the package allows it. Where that is not so (a governor asked for less), the average follows the
/// request down and utilisation is overstated; `floor_ratio` (1024: max_P) bounds this. Ticks without busy time leave
/// the average alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentFreqMax {
    /// log2 of the averaging length in ticks, at most 16.
    pub shift: u32,
    /// Lowest possible ratio.
    pub floor_ratio: FreqRatio,
    /// The average in 1/1024, with 16 more fractional bits so that small differences are not lost.
    average: u64,
}

impl RecentFreqMax {
    const FRACTION: u32 = 16;

    /// Averages over about 2^`shift` ticks, from `start_ratio`.
    pub fn new(shift: u32, floor_ratio: FreqRatio, start_ratio: FreqRatio) -> Self {
        let limit = |ratio: FreqRatio| ratio.clamp(1, u64::from(u32::MAX));
        Self { shift: shift.min(16), floor_ratio: limit(floor_ratio), average: limit(start_ratio) << Self::FRACTION }
    }

    /// The present estimate of f_max / f_base in 1/1024.
    pub fn ratio(&self) -> FreqRatio {
        (self.average >> Self::FRACTION).max(self.floor_ratio)
    }

    /// Takes the counters' movement over one tick.
    pub fn observe(&mut self, acnt: u64, mcnt: u64) -> FreqRatio {
        if let Some(busy) = busy_ratio(acnt, mcnt).filter(|&busy| busy > 0) {
            let sample = busy << Self::FRACTION;
            self.average = if sample >= self.average {
                self.average + ((sample - self.average) >> self.shift)
            } else {
                self.average - ((self.average - sample) >> self.shift)
            };
        }
        self.ratio()
    }
}

/// The search for f_max at run time, for machines whose turbo registers cannot be read (text 002, Q1 and Q2).
///
/// Q1, "do we really have to expect that?": yes; hypervisors fill the registers with zeros, and the kernel then stays
/// without invariance. Q2, "what search, some fraction of the observed f_max?": this one.
///
/// Assumed: the available frequency falls, or stays, as more cores are active. The highest busy ratio seen is kept in
/// two classes, *crowded* (at least three quarters of the cores active) and *sparse*:
/// - once crowded time was seen, its peak is the answer, for that is all-cores turbo;
/// - until then the answer is `fraction`/1024 of the sparse peak, since turbo bins span about so much
///   (2.6 of 3.1 GHz and, with 8 of 20 cores, 2.9 of 3.6 GHz on the talk's servers), but no less than the base
///   frequency.
///
/// Peaks fade by 1/2^`decay_shift` of their distance to what is seen now, so that a thermal or power limit that appears
/// later is learnt too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqMaxSearch {
    /// Cores of the package.
    pub n_cores: u32,
    /// How much of the sparse peak is expected with all cores, in 1/1024.
    pub fraction: u64,
    /// How slowly a peak fades, as a power of two of observations; at most 63.
    pub decay_shift: u32,
    crowded_peak: FreqRatio,
    sparse_peak: FreqRatio,
}

impl FreqMaxSearch {
    /// 2.6 of 3.1 GHz: all-cores over one-core turbo of the Haswell of text 002.
    pub const DEFAULT_FRACTION: u64 = 859;
    /// Peaks fade over about 1024 observations.
    pub const DEFAULT_DECAY_SHIFT: u32 = 10;

    /// A search that has seen nothing; it answers 1024, max_P.
    pub fn new(n_cores: u32) -> Self {
        Self {
            n_cores,
            fraction: Self::DEFAULT_FRACTION,
            decay_shift: Self::DEFAULT_DECAY_SHIFT,
            crowded_peak: 0,
            sparse_peak: 0,
        }
    }

    /// Takes the counters' movement over a tick of a CPU while `active_cores` cores were active.
    pub fn observe(&mut self, active_cores: u32, acnt: u64, mcnt: u64) -> FreqRatio {
        if let Some(busy) = busy_ratio(acnt, mcnt) {
            let crowded = u64::from(active_cores) * 4 >= u64::from(self.n_cores) * 3;
            let peak = if crowded { &mut self.crowded_peak } else { &mut self.sparse_peak };
            *peak = if busy >= *peak { busy } else { *peak - ((*peak - busy) >> self.decay_shift.min(63)) };
        }
        self.ratio()
    }

    /// The present estimate of f_max / f_base in 1/1024, at least 1024.
    pub fn ratio(&self) -> FreqRatio {
        let found = if self.crowded_peak != 0 {
            self.crowded_peak
        } else {
            self.sparse_peak.saturating_mul(self.fraction) >> SCHED_CAPACITY_SHIFT
        };
        found.max(SCHED_CAPACITY_SCALE)
    }
}

/// A moving average in which the new sample counts 1/8, rounded towards the sample so that it is reached.
fn ewma_eighth(average: u64, sample: u64) -> u64 {
    if sample >= average { average + (sample - average).div_ceil(8) } else { average - (average - sample).div_ceil(8) }
}

/// The largest integer whose cube is at most `value`, limited to 32 bits.
fn cube_root(value: u128) -> u64 {
    let mut root = 0u64;
    for bit in (0..32).rev() {
        let candidate = root | 1 << bit;
        let cube = u128::from(candidate).pow(3);
        if cube <= value {
            root = candidate;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The machines of the texts: names, frequencies and ratios.
    #[test]
    fn variants_of_the_texts() {
        let epyc_7742 = FreqMaxFacts {
            base_khz: 2_250_000,
            turbo: &[TurboLevel { active_cores: 1, freq_khz: 3_400_000 }],
            n_cores: 64,
        };
        let check = |name: &str, facts: &FreqMaxFacts<'_>, freq_khz, ratio| {
            let variant = FreqMax::from_name(name).expect(name);
            assert_eq!((variant.freq_khz(facts), variant.ratio(facts)), (freq_khz, Some(ratio)), "{name}");
        };
        check("max_P", &epyc_7742, 2_250_000, 1024);
        check("mid", &epyc_7742, 2_825_000, 1285);
        check("max_boost", &epyc_7742, 3_400_000, 1547);

        let xeon_8260l = FreqMaxFacts {
            base_khz: 2_400_000,
            turbo: &[
                TurboLevel { active_cores: 2, freq_khz: 3_900_000 },
                TurboLevel { active_cores: 4, freq_khz: 3_700_000 },
                TurboLevel { active_cores: 16, freq_khz: 3_600_000 },
                TurboLevel { active_cores: 24, freq_khz: 3_100_000 },
            ],
            n_cores: 24,
        };
        check("turbo-1-core", &xeon_8260l, 3_900_000, 1664);
        check("turbo-4-cores", &xeon_8260l, 3_700_000, 1578);
        check("turbo-all-cores", &xeon_8260l, 3_100_000, 1322);
        assert_eq!(FreqMax::from_name("max"), None);
        assert_eq!(FreqMax::Mid.ratio(&FreqMaxFacts { base_khz: 0, turbo: &[], n_cores: 0 }), None);
    }

    /// The counters at the base frequency of an EPYC whose midpoint is 1.25 of it: scale 1024 / 1.25.
    #[test]
    fn tick_scale() {
        assert_eq!(scale_freq_tick(1_000_000, 1_000_000, 1280), Some(819));
        assert_eq!(scale_freq_tick(2_000_000, 1_000_000, 1280), Some(1024));
        assert_eq!(scale_freq_tick(1 << 44, 1, 1024), None);
        assert_eq!(scale_freq_tick((1 << 44) - 1, 1, 1024), Some(1024));
        assert_eq!(scale_freq_tick(1, 0, 1024), None);
        assert_eq!(scale_freq_tick(1, u64::MAX, 2), None);
        assert_eq!(scale_freq_tick(0, 1, 1024), None);
    }

    /// Power exactly at the limit: f_max is what is observed. An eighth of the dynamic power: twice that.
    #[test]
    fn rapl_follows_the_cube_law() {
        let settle = |power_uw| {
            let mut rapl = RaplFreqMax::new(100_000_000, 20_000_000, 512, 4096, 1024);
            for _ in 0..200 {
                rapl.observe(power_uw, 1_300, 1_024);
            }
            rapl.ratio()
        };
        assert_eq!(settle(100_000_000), 1300);
        assert_eq!(settle(30_000_000), 2600);
        assert_eq!(settle(20_000_000), 1024, "no dynamic power: no information");
        assert!(settle(190_000_000) < 1040, "twice the power");
    }

    #[test]
    fn recent_is_an_average_with_a_floor() {
        let mut recent = RecentFreqMax::new(3, 1024, 1024);
        for _ in 0..200 {
            recent.observe(1_500, 1_024);
        }
        assert!((1_499..=1_500).contains(&recent.ratio()), "{}", recent.ratio());
        for _ in 0..200 {
            recent.observe(500, 1_024);
        }
        assert_eq!(recent.ratio(), 1024);
    }

    /// The search starts with a fraction of what lone cores reach and ends at what all cores reach together.
    #[test]
    fn search_learns_all_cores_turbo() {
        let mut search = FreqMaxSearch::new(8);
        assert_eq!(search.ratio(), 1024);
        search.observe(1, 1_664, 1_024);
        assert_eq!(search.ratio(), 1_664 * 859 / 1024);
        search.observe(8, 1_322, 1_024);
        search.observe(8, 900, 1_024);
        assert_eq!(search.ratio(), 1_322);
    }

    proptest! {
        /// The scale is within bounds, grows with APERF and falls with f_max.
        #[test]
        fn tick_is_monotonic(acnt in any::<u64>(), more in any::<u64>(), mcnt in any::<u64>(), ratio in 1..1u64 << 20) {
            let scale = scale_freq_tick(acnt, mcnt, ratio);
            if let Some(scale) = scale {
                prop_assert!((1..=1024).contains(&scale));
                if let Some(faster) = scale_freq_tick(acnt.saturating_add(more), mcnt, ratio) {
                    prop_assert!(faster >= scale);
                }
                if let Some(relative) = scale_freq_tick(acnt, mcnt, ratio + 1) {
                    prop_assert!(relative <= scale);
                }
            }
        }

        /// Nothing that a register can hold panics.
        #[test]
        fn any_registers(
            misc_enable: Option<u64>, atom_core_ratios: Option<u64>, atom_core_turbo_ratios: Option<u64>,
            platform_info: Option<u64>, turbo_ratio_limit: Option<u64>, turbo_ratio_limit1: Option<u64>,
        ) {
            let msrs = IntelMsrs {
                misc_enable, atom_core_ratios, atom_core_turbo_ratios, platform_info, turbo_ratio_limit,
                turbo_ratio_limit1,
            };
            for model in [IntelTurboModel::Other, IntelTurboModel::Knl, IntelTurboModel::Skx, IntelTurboModel::Glm] {
                prop_assert_ne!(msrs.turbo_freq_ratio(model), Some(0));
            }
        }

        #[test]
        fn any_perf_caps(nominal_perf: Option<u32>, highest_perfs: Vec<u32>, zen4: bool, model: u8) {
            let caps = AmdPerfCaps { nominal_perf, highest_perfs: &highest_perfs, zen4, model };
            prop_assert_eq!(caps.max_freq_ratio().is_none(), nominal_perf.unwrap_or(0) == 0);
        }

        #[test]
        fn any_hybrid(cap: u64, max_cap: u64, cap_freq: u64, base_freq: u64) {
            let _ = HybridCpuScale::new(cap, max_cap, cap_freq, base_freq);
        }

        /// Estimates stay within their bounds whatever the counters read.
        #[test]
        fn estimates_stay_in_bounds(
            floor in any::<u64>(), ceiling in any::<u64>(), shift in any::<u32>(), start in any::<u64>(),
            limit_uw in any::<u64>(), static_uw in any::<u64>(), n_cores in any::<u32>(),
            windows in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()), 0..50),
        ) {
            let mut rapl = RaplFreqMax::new(limit_uw, static_uw, floor, ceiling, start);
            let mut recent = RecentFreqMax::new(shift, floor, start);
            let mut search = FreqMaxSearch { decay_shift: shift, ..FreqMaxSearch::new(n_cores) };
            for (power_uw, acnt, mcnt, active) in windows {
                let ratio = rapl.observe(power_uw, acnt, mcnt);
                prop_assert!((rapl.floor_ratio..=rapl.ceiling_ratio).contains(&ratio));
                prop_assert!(recent.observe(acnt, mcnt) >= recent.floor_ratio);
                prop_assert!(search.observe(active, acnt, mcnt) >= 1024);
            }
        }

        #[test]
        fn cube_roots(root in 0..u64::from(u32::MAX)) {
            let cube = u128::from(root).pow(3);
            prop_assert_eq!(cube_root(cube), root);
            prop_assert_eq!(cube_root(cube + 1), root.max(1));
        }
    }
}
