//! CPPC: abstract performance and kHz, efficiency classes, the artificial energy model, and the frequency scale by
//! feedback counters (drivers/acpi/cppc_acpi.c, drivers/cpufreq/cppc_cpufreq.c; v6.12).
//!
//! Reading the registers, and writing the performance that is wanted, is not here.

use crate::cpufreq::driver::{DriverEntry, DriverKind, FastSwitch, Governors};
use crate::energy_model::{EM_MAX_POWER, EmError, EmPerfState, em_init_performance, mark_inefficient};
use crate::unit::{SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};

/// An artificial performance state every 20 units of capacity (cppc_cpufreq.c: CPPC_EM_CAP_STEP).
pub const CPPC_EM_CAP_STEP: u32 = 20;
/// What a state costs more than the one below (cppc_cpufreq.c: CPPC_EM_COST_STEP).
pub const CPPC_EM_COST_STEP: u64 = 1;
/// What a class costs more than the one below: four times a biggest CPU's number of states
/// (cppc_cpufreq.c: CPPC_EM_COST_GAP).
pub const CPPC_EM_COST_GAP: u64 = 4 * SCHED_CAPACITY_SCALE * CPPC_EM_COST_STEP / CPPC_EM_CAP_STEP as u64;

/// What the firmware reports of a CPU (include/acpi/cppc_acpi.h: struct cppc_perf_caps, v6.12), on its abstract scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CppcPerfCaps {
    /// The lowest level.
    pub lowest_perf: u32,
    /// The highest level that lasts.
    pub nominal_perf: u32,
    /// The highest level.
    pub highest_perf: u32,
    /// The frequency of `lowest_perf` in MHz, 0 if unknown.
    pub lowest_freq_mhz: u32,
    /// The frequency of `nominal_perf` in MHz, 0 if unknown.
    pub nominal_freq_mhz: u32,
    /// The highest frequency in the DMI table, in kHz; used where the two above are unknown.
    pub dmi_max_khz: u64,
}

/// `offset + x * mul / div`, in the kernel's mixture of signed and unsigned 64-bit arithmetic.
#[derive(Debug, Clone, Copy)]
struct Line {
    offset: i64,
    mul: u64,
    /// Not 0.
    div: u64,
}

impl Line {
    #[inline]
    fn signed(&self, x: u32) -> i64 {
        self.offset.wrapping_add(((x as u64).wrapping_mul(self.mul) / self.div) as i64)
    }

    #[inline]
    fn at(&self, x: u32) -> u32 {
        let y = self.signed(x);
        if y >= 0 { y as u32 } else { 0 }
    }

    /// The value at the largest argument, if no step on the way wraps.
    fn end(&self) -> Option<i64> {
        let y = (u32::MAX as u64).checked_mul(self.mul)? / self.div;
        self.offset.checked_add(i64::try_from(y).ok()?)
    }
}

impl CppcPerfCaps {
    fn perf_to_khz_line(&self) -> Option<Line> {
        const KHZ_PER_MHZ: u64 = 1_000;
        if self.lowest_freq_mhz == 0 || self.nominal_freq_mhz == 0 {
            let div = self.highest_perf as u64;
            return (div != 0).then_some(Line { offset: 0, mul: self.dmi_max_khz, div });
        }
        let (mul, div) = if self.lowest_freq_mhz == self.nominal_freq_mhz {
            (self.nominal_freq_mhz, self.nominal_perf)
        } else {
            (self.nominal_freq_mhz.wrapping_sub(self.lowest_freq_mhz), self.nominal_perf.wrapping_sub(self.lowest_perf))
        };
        let (mul, div) = (mul as u64 * KHZ_PER_MHZ, div as u64);
        let nominal = (self.nominal_perf as u64).wrapping_mul(mul).checked_div(div)?;
        let offset = (self.nominal_freq_mhz as u64 * KHZ_PER_MHZ).wrapping_sub(nominal) as i64;
        Some(Line { offset, mul, div })
    }

    fn khz_to_perf_line(&self) -> Option<Line> {
        if self.lowest_freq_mhz == 0 || self.nominal_freq_mhz == 0 {
            let div = self.dmi_max_khz;
            return (div != 0).then_some(Line { offset: 0, mul: self.highest_perf as u64, div });
        }
        let (mul, div) = if self.lowest_freq_mhz == self.nominal_freq_mhz {
            (self.nominal_perf, self.nominal_freq_mhz)
        } else {
            (self.nominal_perf.wrapping_sub(self.lowest_perf), self.nominal_freq_mhz.wrapping_sub(self.lowest_freq_mhz))
        };
        let (mul, div) = (mul as u64, div as u64);
        let nominal = (self.nominal_freq_mhz as u64).wrapping_mul(mul).checked_div(div)?;
        let offset = (self.nominal_perf as u64).wrapping_sub(nominal) as i64;
        Some(Line { offset, mul, div: div * 1_000 })
    }

    /// The frequency of a performance level, in kHz: on the line through the lowest and the nominal level, truncating,
    /// not below 0, modulo 2^32 (cppc_acpi.c:cppc_perf_to_khz(), v6.12).
    ///
    /// Capabilities for which the kernel would divide by 0 give 0. The kernel reads the DMI table once and keeps what it
    /// found; here it is [`Self::dmi_max_khz`].
    pub fn perf_to_khz(&self, perf: u32) -> u32 {
        self.perf_to_khz_line().map_or(0, |line| line.at(perf))
    }

    /// The performance level of a frequency in kHz (cppc_acpi.c:cppc_khz_to_perf(), v6.12); see
    /// [`Self::perf_to_khz`].
    pub fn khz_to_perf(&self, freq_khz: u32) -> u32 {
        self.khz_to_perf_line().map_or(0, |line| line.at(freq_khz))
    }
}

/// Maps the firmware's efficiency classes (0..255, per CPU) to 0, 1, 2... in ascending order
/// (cppc_cpufreq.c:populate_efficiency_class(), v6.12). `None` if all CPUs are of one class: then there is no
/// artificial energy model.
pub fn squeeze_efficiency_classes(raw: &[u8]) -> Option<Vec<u32>> {
    let mut index = [0u32; 256];
    for &class in raw {
        index[class as usize] = 1;
    }
    let mut classes = 0;
    for slot in &mut index {
        let used = *slot;
        *slot = classes;
        classes += used;
    }
    (classes > 1).then(|| raw.iter().map(|&class| index[class as usize]).collect())
}

/// The number of states of a CPU's artificial energy model (cppc_cpufreq.c:get_perf_level_count(), v6.12); 0 if its
/// lowest level has no capacity.
pub fn artificial_em_level_count(caps: &CppcPerfCaps, cpu_cap: u32) -> u32 {
    let Some(min_cap) = min_capacity(caps, cpu_cap) else { return 0 };
    if min_cap == 0 || cpu_cap < min_cap {
        return 0;
    }
    1 + cpu_cap / CPPC_EM_CAP_STEP - min_cap / CPPC_EM_CAP_STEP
}

fn min_capacity(caps: &CppcPerfCaps, cpu_cap: u32) -> Option<u32> {
    (cpu_cap as u64 * caps.lowest_perf as u64).checked_div(caps.highest_perf as u64).map(|cap| cap as u32)
}

fn compute_cost(efficiency_class: u32, step: u32) -> u64 {
    // `step` is an int in the kernel.
    CPPC_EM_COST_GAP
        .wrapping_mul(efficiency_class as u64)
        .wrapping_add((step as i32 as i64 as u64).wrapping_mul(CPPC_EM_COST_STEP))
}

/// The cost of a frequency (cppc_cpufreq.c:cppc_get_cpu_cost(), v6.12): 204 for each class and 1 for each 20 units of
/// capacity. `None` where the kernel would divide by 0.
pub fn artificial_em_cost(caps: &CppcPerfCaps, cpu_cap: u32, efficiency_class: u32, freq_khz: u64) -> Option<u64> {
    let perf_step = CPPC_EM_CAP_STEP.wrapping_mul(caps.highest_perf).checked_div(cpu_cap)?;
    let step = caps.khz_to_perf(freq_khz as u32).checked_div(perf_step)?;
    Some(compute_cost(efficiency_class, step))
}

/// Why there is no artificial energy model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtificialEmError {
    /// The capabilities are such that the kernel would divide by 0.
    DivisionByZero,
    /// This state lies beyond the highest one (`-EINVAL`).
    StepBeyondHighest(usize),
    /// The search for the frequency of this state never ends: the kernel would hang.
    NeverEnds(usize),
    /// The search for the frequency of this state passes the wrap of a 64-bit product, and was given up after
    /// [`SEARCH_LIMIT`] steps. Only capabilities far beyond any real CPU come here.
    SearchLimit(usize),
    /// The energy model framework refuses the table.
    Em(EmError),
}

impl core::fmt::Display for ArtificialEmError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DivisionByZero => write!(f, "the capabilities make the kernel divide by zero"),
            Self::StepBeyondHighest(at) => write!(f, "state {at} lies beyond the highest performance"),
            Self::NeverEnds(at) => write!(f, "state {at}: the kernel's search for its frequency never ends"),
            Self::SearchLimit(at) => write!(f, "state {at}: the search for its frequency was given up"),
            Self::Em(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ArtificialEmError {}

/// Steps after which a search without a closed form is given up.
pub const SEARCH_LIMIT: u64 = 1 << 20;

/// An artificial energy model's table and how the kernel got there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtificialEm {
    /// The states; `power_uw` and `cost` are numbers without a unit.
    pub states: Vec<EmPerfState>,
    /// How often the kernel calls cppc_khz_to_perf() to build the table: three times a state, and once for each step of
    /// a search.
    pub loop_calls: u64,
    /// The kernel would have spun: a search found a frequency only after the kHz wrapped at 2^32, after up to tens of
    /// millions of steps.
    pub spun: bool,
}

/// Builds the artificial energy model of a CPU as cppc_cpufreq registers it: the frequencies of its states by
/// cppc_get_cpu_power(), called by em_create_perf_table(), and their costs by cppc_get_cpu_cost() (v6.12).
///
/// The kernel looks for a level whose frequency, converted back, falls into the wanted step, by trying one level after
/// the other. Where 20 * highest_perf / capacity is not a whole number the step may not be reachable, and the loop ends
/// only after the frequency wrapped modulo 2^32, with a plausible value. The same value is computed here in closed
/// form, and [`ArtificialEm::spun`] is set. The costs do not depend on the version; which
/// [`crate::energy_model::EmCost`] uses them does.
///
/// # Errors
/// [`ArtificialEmError`].
pub fn artificial_em(
    caps: &CppcPerfCaps,
    cpu_cap: u32,
    efficiency_class: u32,
) -> Result<ArtificialEm, ArtificialEmError> {
    let count = artificial_em_level_count(caps, cpu_cap);
    if count == 0 {
        return Err(ArtificialEmError::Em(EmError::Empty));
    }
    let walk = Walk::new(caps, cpu_cap).ok_or(ArtificialEmError::DivisionByZero)?;
    let mut em = ArtificialEm { states: Vec::with_capacity(count as usize), loop_calls: 0, spun: false };
    let mut previous_khz = 0;
    for at in 0..count as usize {
        // em_create_perf_table() asks for a frequency above the last one.
        let asked_khz = if at == 0 { 0 } else { previous_khz + 1 };
        let found = walk.next_state(asked_khz, at)?;
        em.loop_calls = em.loop_calls.wrapping_add(2).wrapping_add(found.steps);
        em.spun |= found.wrapped;
        let freq_khz = found.khz as u64;
        if freq_khz <= previous_khz {
            return Err(ArtificialEmError::Em(EmError::NonIncreasingFreq(at)));
        }
        let power_uw = compute_cost(efficiency_class, found.step);
        if power_uw == 0 || power_uw > EM_MAX_POWER {
            return Err(ArtificialEmError::Em(EmError::InvalidPower(at)));
        }
        em.states.push(EmPerfState { performance: 0, freq_khz, power_uw, cost: 0, inefficient: false });
        previous_khz = freq_khz;
    }
    em_init_performance(&mut em.states, cpu_cap as u64);
    for at in (0..em.states.len()).rev() {
        let cost = artificial_em_cost(caps, cpu_cap, efficiency_class, em.states[at].freq_khz)
            .ok_or(ArtificialEmError::DivisionByZero)?;
        em.loop_calls = em.loop_calls.wrapping_add(1);
        if cost == 0 || cost > EM_MAX_POWER {
            return Err(ArtificialEmError::Em(EmError::InvalidCost(at)));
        }
        em.states[at].cost = cost;
    }
    mark_inefficient(&mut em.states);
    Ok(em)
}

/// The facts of one CPU's walk through its states.
struct Walk {
    highest_perf: u32,
    lowest_perf: u32,
    min_step: u32,
    max_step: u32,
    perf_step: u64,
    to_khz: Line,
    to_perf: Line,
}

/// Where a search ended.
struct Found {
    khz: u32,
    step: u32,
    /// Levels tried after the first.
    steps: u64,
    /// The frequency wrapped.
    wrapped: bool,
}

impl Walk {
    fn new(caps: &CppcPerfCaps, cpu_cap: u32) -> Option<Self> {
        let perf_step = (CPPC_EM_CAP_STEP as u64 * caps.highest_perf as u64).checked_div(cpu_cap as u64)?;
        (perf_step != 0).then_some(())?;
        Some(Self {
            highest_perf: caps.highest_perf,
            lowest_perf: caps.lowest_perf,
            min_step: min_capacity(caps, cpu_cap)? / CPPC_EM_CAP_STEP,
            max_step: cpu_cap / CPPC_EM_CAP_STEP,
            perf_step,
            to_khz: caps.perf_to_khz_line()?,
            to_perf: caps.khz_to_perf_line()?,
        })
    }

    /// cppc_cpufreq.c:cppc_get_cpu_power(), v6.12, called with `*KHz == asked_khz`.
    fn next_state(&self, asked_khz: u64, at: usize) -> Result<Found, ArtificialEmError> {
        let mut step = (self.to_perf.at(asked_khz as u32) as u64 / self.perf_step) as u32;
        if step > self.max_step {
            return Err(ArtificialEmError::StepBeyondHighest(at));
        }
        let perf = if self.min_step == self.max_step {
            step = self.max_step;
            self.highest_perf as u64
        } else if step < self.min_step {
            step = self.min_step;
            self.lowest_perf as u64
        } else {
            step = step.wrapping_add(1);
            if step == self.max_step { self.highest_perf as u64 } else { (step as u64).wrapping_mul(self.perf_step) }
        };
        let fits = |khz: u32| khz as u64 != asked_khz && self.to_perf.at(khz) as u64 / self.perf_step == step as u64;
        let steps = if fits(self.to_khz.at(perf as u32)) {
            0
        } else if self.closed_form_holds() {
            self.search(perf as u32, step, asked_khz).ok_or(ArtificialEmError::NeverEnds(at))?
        } else {
            (1..=SEARCH_LIMIT)
                .find(|&steps| fits(self.to_khz.at(perf.wrapping_add(steps) as u32)))
                .ok_or(ArtificialEmError::SearchLimit(at))?
        };
        let end = perf.wrapping_add(steps) as u32;
        let khz = self.to_khz.at(end);
        debug_assert!(fits(khz));
        Ok(Found { khz, step, steps, wrapped: self.to_khz.signed(end) > u32::MAX as i64 })
    }

    /// No product wraps, and the performance of every frequency has 32 bits, so that it grows with the frequency.
    fn closed_form_holds(&self) -> bool {
        self.to_khz.end().is_some() && self.to_perf.end().is_some_and(|perf| perf <= u32::MAX as i64)
    }

    /// How many levels after `perf` the first is whose frequency is not `asked_khz` and converts back to `step`; the
    /// level is a 32-bit argument, so that after 2^32 of them everything repeats and there is none.
    fn search(&self, perf: u32, step: u32, asked_khz: u64) -> Option<u64> {
        // The frequencies that convert back to the step are an interval, as the conversion is monotonic.
        let lowest = (step as u64).checked_mul(self.perf_step)?;
        let from = self.first_khz(lowest)?;
        let to = self.first_khz(lowest.checked_add(self.perf_step)?).unwrap_or(1 << 32);
        // Without the frequency that was asked for.
        let below = (from, to.min(asked_khz));
        let above = (from.max(asked_khz.saturating_add(1)), to);
        let intervals = if (from..to).contains(&asked_khz) { [below, above] } else { [(from, to), (0, 0)] };

        let perf = perf as u64;
        let before_wrap = self.search_levels(perf, 1 << 32, intervals).map(|level| level - perf);
        before_wrap.or_else(|| self.search_levels(0, perf, intervals).map(|level| level + (1 << 32) - perf))
    }

    /// The lowest frequency whose performance is at least `perf`.
    fn first_khz(&self, perf: u64) -> Option<u64> {
        let (mut low, mut high) = (0u64, 1u64 << 32);
        while low < high {
            let middle = (low + high) / 2;
            if self.to_perf.at(middle as u32) as u64 >= perf { high = middle } else { low = middle + 1 }
        }
        (low < 1 << 32).then_some(low)
    }

    /// The first level in `from..to` whose frequency, modulo 2^32, is in one of the half-open intervals.
    fn search_levels(&self, from: u64, to: u64, intervals: [(u64, u64); 2]) -> Option<u64> {
        if from >= to {
            return None;
        }
        // A negative frequency counts as 0.
        let Line { offset, mul, div } = self.to_khz;
        let mut from = from;
        if self.to_khz.signed(from as u32) < 0 {
            if intervals.iter().any(|&(low, high)| low == 0 && high > 0) {
                return Some(from);
            }
            let positive = (offset.unsigned_abs() as u128 * div as u128).div_ceil((mul as u128).max(1));
            if mul == 0 || positive >= to as u128 {
                return None;
            }
            from = positive as u64;
        }
        // v(x) = floor((x * mul + offset * div) / div) lies in low..high modulo 2^32 exactly if the numerator lies in
        // low * div..high * div modulo 2^32 * div.
        let modulus = (div as u128) << 32;
        let start = (from as i128 * mul as i128 + offset as i128 * div as i128).rem_euclid(modulus as i128) as u128;
        let mut best: Option<u128> = None;
        for (low, high) in intervals {
            if low >= high {
                continue;
            }
            let length = (high - low) as u128 * div as u128;
            let low = (low as u128 * div as u128 + modulus - start) % modulus;
            let ahead = if low == 0 || low + length > modulus {
                Some(0)
            } else {
                first_multiple_within(mul as u128, modulus, low, low + length - 1)
            };
            best = match (best, ahead) {
                (Some(best), Some(ahead)) => Some(best.min(ahead)),
                (best, ahead) => best.or(ahead),
            };
        }
        best.map(|ahead| from as u128 + ahead).filter(|&level| level < to as u128).map(|level| level as u64)
    }
}

/// The least t >= 0 with low <= (step * t) mod modulus <= high, by Euclid's descent: either a multiple of the step
/// lies in the interval before the first wrap, or the number of wraps is the answer to the same question modulo the
/// step. Wants low <= high < modulus and values below 2^64.
fn first_multiple_within(step: u128, modulus: u128, low: u128, high: u128) -> Option<u128> {
    let step = step % modulus;
    if low == 0 {
        return Some(0);
    }
    if step == 0 {
        return None;
    }
    let first = low.div_ceil(step);
    if first * step <= high {
        return Some(first);
    }
    // No multiple of the step lies in the interval, so the residues are in order.
    let wraps = first_multiple_within(modulus % step, step, (step - high % step) % step, (step - low % step) % step)?;
    Some((low + modulus * wraps).div_ceil(step))
}

/// Feedback counters (include/acpi/cppc_acpi.h: struct cppc_perf_fb_ctrs, v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CppcPerfFbCtrs {
    /// Counts at the reference level.
    pub reference: u64,
    /// Counts at the delivered level.
    pub delivered: u64,
}

/// The difference of a counter that may have 32 bits (cppc_cpufreq.c:get_delta(), v6.12).
#[inline]
pub const fn get_delta(t1: u64, t0: u64) -> u64 {
    if t1 > t0 || t0 > u32::MAX as u64 { t1.wrapping_sub(t0) } else { (t1 as u32).wrapping_sub(t0 as u32) as u64 }
}

/// The performance that was delivered between two readings; 0 if a counter stood still
/// (cppc_cpufreq.c:cppc_perf_from_fbctrs(), v6.12, an `int`).
#[inline]
pub const fn cppc_perf_from_fbctrs(reference_perf: u64, t0: &CppcPerfFbCtrs, t1: &CppcPerfFbCtrs) -> i32 {
    let reference = get_delta(t1.reference, t0.reference);
    let delivered = get_delta(t1.delivered, t0.delivered);
    if reference == 0 || delivered == 0 {
        return 0;
    }
    (reference_perf.wrapping_mul(delivered) / reference) as i32
}

/// The frequency scale (0..1024) of the time between two readings; `None` leaves the old one and the old reading in
/// place (cppc_cpufreq.c:cppc_scale_freq_workfn(), v6.12).
#[inline]
pub const fn cppc_scale_freq(
    reference_perf: u64,
    highest_perf: u32,
    t0: &CppcPerfFbCtrs,
    t1: &CppcPerfFbCtrs,
) -> Option<u64> {
    let perf = cppc_perf_from_fbctrs(reference_perf, t0, t1);
    if perf == 0 || highest_perf == 0 {
        return None;
    }
    let scale = ((perf as i64 as u64) << SCHED_CAPACITY_SHIFT) / highest_perf as u64;
    Some(if scale > SCHED_CAPACITY_SCALE { SCHED_CAPACITY_SCALE } else { scale })
}

/// The driver. On arm64 its latency is its delay, at most 10 s as a number of us fits
/// (cppc_cpufreq.c:cppc_cpufreq_get_transition_delay_us(), v6.12).
pub static DRIVERS: &[DriverEntry] = &[DriverEntry {
    name: "cppc_cpufreq",
    kind: DriverKind::Cppc,
    what: "ACPI's abstract performance",
    p_states: false,
    table: None,
    governors: Governors::Any,
    fast_switch: FastSwitch::Yes,
    any_cpu: true,
    registers_em: false,
    zero_is_unknown: false,
    transition_delay_us: |facts| (facts.transition_latency_ns / 1000).min(10_000_000) as u32,
    cpuinfo_max_khz: |facts| facts.p0_khz,
}];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_are_squeezed_in_order() {
        assert_eq!(squeeze_efficiency_classes(&[7, 3, 255, 3]), Some(vec![1, 0, 2, 0]));
        assert_eq!(squeeze_efficiency_classes(&[7, 7]), None);
        assert_eq!(squeeze_efficiency_classes(&[]), None);
    }

    #[test]
    fn thirty_two_bit_counters_wrap() {
        assert_eq!(get_delta(5, u32::MAX as u64 - 4), 10);
        assert_eq!(get_delta(5, 1 << 32), 5u64.wrapping_sub(1 << 32));
    }

    proptest! {
        /// Goal: the closed form is what trying one after the other gives.
        #[test]
        fn first_multiple_is_the_first(modulus in 1..400u128, step in 0..800u128, a in 0..400u128, b in 0..400u128) {
            let (low, high) = (a.min(b) % modulus, a.max(b) % modulus);
            prop_assume!(low <= high);
            let tried = (0..modulus).find(|t| (low..=high).contains(&(step * t % modulus)));
            prop_assert_eq!(first_multiple_within(step, modulus, low, high), tried);
        }

        /// Goal: the closed form of the kernel's search is the kernel's search.
        #[test]
        fn the_search_is_the_loop(
            lowest in 1..60u32, nominal in 61..200u32, more in 0..60u32, freqs in (0..1500u32, 1501..4000u32),
            dmi_max_khz in 1..5_000_000u64, cpu_cap in 30..1025u32, perf in 0..400u32, step in 0..60u32,
            asked in 0..4_000_000u64,
        ) {
            let caps = CppcPerfCaps {
                lowest_perf: lowest, nominal_perf: nominal, highest_perf: nominal + more,
                lowest_freq_mhz: freqs.0, nominal_freq_mhz: freqs.1, dmi_max_khz,
            };
            let Some(walk) = Walk::new(&caps, cpu_cap) else { return Ok(()) };
            prop_assert!(walk.closed_form_holds());
            let fits = |level: u32| {
                let khz = caps.perf_to_khz(level);
                khz as u64 != asked && caps.khz_to_perf(khz) as u64 / walk.perf_step == step as u64
            };
            let limit = 2_000_000;
            let tried = (0..limit).find(|&steps| fits(perf.wrapping_add(steps)));
            match (tried, walk.search(perf, step, asked)) {
                (Some(tried), found) => prop_assert_eq!(found, Some(tried as u64)),
                (None, Some(found)) => {
                    prop_assert!(found >= limit as u64);
                    prop_assert!(fits((perf as u64 + found) as u32));
                }
                (None, None) => {}
            }
        }

        #[test]
        fn any_capabilities_have_an_answer(
            perfs: [u32; 3], freqs: [u32; 2], small in 0..6u32, dmi_max_khz: u64, cpu_cap in 0..5000u32, class: u32, x: u32,
        ) {
            let shift = small * 5;
            let caps = CppcPerfCaps {
                lowest_perf: perfs[0] >> shift, nominal_perf: perfs[1] >> shift, highest_perf: perfs[2] >> shift,
                lowest_freq_mhz: freqs[0] >> shift, nominal_freq_mhz: freqs[1] >> shift, dmi_max_khz,
            };
            let _ = (caps.perf_to_khz(x), caps.khz_to_perf(x), artificial_em_cost(&caps, cpu_cap, class, x as u64));
            if let Ok(em) = artificial_em(&caps, cpu_cap, class) {
                prop_assert_eq!(em.states.len(), artificial_em_level_count(&caps, cpu_cap) as usize);
                prop_assert!(em.states.is_sorted_by_key(|state| state.freq_khz));
            }
        }

        #[test]
        fn the_frequency_scale_is_bounded(numbers: [u64; 5], highest: u32) {
            let t0 = CppcPerfFbCtrs { reference: numbers[0], delivered: numbers[1] };
            let t1 = CppcPerfFbCtrs { reference: numbers[2], delivered: numbers[3] };
            prop_assert!(cppc_scale_freq(numbers[4], highest, &t0, &t1).is_none_or(|scale| scale <= 1024));
        }
    }
}
