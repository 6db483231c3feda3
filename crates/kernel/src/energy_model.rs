//! Energy model tables (kernel/power/energy_model.c, include/linux/energy_model.h; v6.12, and v5.10 to v6.8 as forms).
//!
//! A performance domain is a set of CPUs with one frequency. For each of its performance states the table holds a cost:
//! the energy of a unit of work. The energy of a domain over a while is the cost of the state that its busiest CPU needs
//! times the sum of its CPUs' utilisation. Idle power is not in the model. The artificial tables that CPPC platforms
//! register are built by [`crate::cpufreq::cppc::artificial_em`].

use crate::cpufreq::perf_margin::map_util_perf;
use crate::cpufreq::schedutil::{map_util_freq, next_raw_freq_v5_10};
use crate::profile::{EmCost, FeecEnergy, GATES, PROFILES};
use crate::release::Version;

/// The highest power that a state may have, 64 W in uW (include/linux/energy_model.h, v6.12).
pub const EM_MAX_POWER: u64 = 64_000_000;

/// One state (include/linux/energy_model.h: struct em_perf_state, v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmPerfState {
    /// The capacity at this frequency, 0..1024.
    pub performance: u64,
    /// The frequency, in kHz.
    pub freq_khz: u64,
    /// The power of one busy CPU at this frequency, in uW (of an artificial model: a number without a unit).
    pub power_uw: u64,
    /// The energy of a unit of work, in a unit that only compares.
    pub cost: u64,
    /// `EM_PERF_STATE_INEFFICIENT`: a higher state costs no more.
    pub inefficient: bool,
}

/// Why a table is refused; the index counts its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmError {
    /// There is no state.
    Empty,
    /// The frequency of this state is not above the one before.
    NonIncreasingFreq(usize),
    /// The power of this state is 0 or above [`EM_MAX_POWER`].
    InvalidPower(usize),
    /// The power of this state is below 1 mW, 0 to the kernels before v6.0.
    BelowMilliWatt(usize),
    /// The cost of this state is 0 or above [`EM_MAX_POWER`] (artificial models only).
    InvalidCost(usize),
    /// The performance of this state rounds to 0: the kernel would divide by it.
    ZeroPerformance(usize),
}

impl core::fmt::Display for EmError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Empty => write!(f, "the energy model has no state"),
            Self::NonIncreasingFreq(at) => write!(f, "state {at}: the frequency does not increase"),
            Self::InvalidPower(at) => write!(f, "state {at}: the power is not within 1..{EM_MAX_POWER} uW"),
            Self::BelowMilliWatt(at) => {
                write!(f, "state {at}: kernels before v6.0 count mW, and its power is below 1 mW")
            }
            Self::InvalidCost(at) => write!(f, "state {at}: the cost is not within 1..{EM_MAX_POWER}"),
            Self::ZeroPerformance(at) => write!(f, "state {at}: the performance rounds to 0"),
        }
    }
}

impl core::error::Error for EmError {}

/// Builds the table of (kHz, uW) pairs for CPUs of capacity `cpu_cap`
/// (energy_model.c:em_create_perf_table(), em_init_performance(), em_compute_costs(); v6.12).
///
/// # Errors
/// [`EmError`] where the kernel refuses the table (or would divide by 0).
pub fn em_create_perf_table(points: &[(u64, u64)], cpu_cap: u64, form: EmCost) -> Result<Vec<EmPerfState>, EmError> {
    let mut states = perf_states(points)?;
    // Before v6.0 a driver gives mW, and 0 of these is refused (em_create_perf_table(), v5.10).
    if form < EmCost::MicroWatt
        && let Some(at) = points.iter().position(|&(_, uw)| uw < 1_000)
    {
        return Err(EmError::BelowMilliWatt(at));
    }
    em_init_performance(&mut states, cpu_cap);
    em_compute_costs(&mut states, form)?;
    Ok(states)
}

/// The same with costs that the driver gives, an artificial model (energy_model.c:em_create_perf_table() with
/// `EM_PERF_DOMAIN_ARTIFICIAL`, v6.1).
///
/// # Errors
/// [`EmError`] where the kernel refuses the table.
pub fn em_create_artificial_table(
    points: &[(u64, u64)],
    costs: &[u64],
    cpu_cap: u64,
) -> Result<Vec<EmPerfState>, EmError> {
    let mut states = perf_states(points)?;
    em_init_performance(&mut states, cpu_cap);
    for (at, state) in states.iter_mut().enumerate().rev() {
        let cost = costs.get(at).copied().filter(|&cost| cost > 0 && cost <= EM_MAX_POWER);
        state.cost = cost.ok_or(EmError::InvalidCost(at))?;
    }
    mark_inefficient(&mut states);
    Ok(states)
}

/// The states without performance and cost.
fn perf_states(points: &[(u64, u64)]) -> Result<Vec<EmPerfState>, EmError> {
    let mut states = Vec::with_capacity(points.len());
    let mut previous_khz = 0;
    for (at, &(freq_khz, power_uw)) in points.iter().enumerate() {
        if freq_khz <= previous_khz {
            return Err(EmError::NonIncreasingFreq(at));
        }
        if power_uw == 0 || power_uw > EM_MAX_POWER {
            return Err(EmError::InvalidPower(at));
        }
        states.push(EmPerfState { performance: 0, freq_khz, power_uw, cost: 0, inefficient: false });
        previous_khz = freq_khz;
    }
    if states.is_empty() { Err(EmError::Empty) } else { Ok(states) }
}

/// The performance of each state: `cap * freq / fmax` (energy_model.c:em_init_performance(), v6.12).
pub fn em_init_performance(states: &mut [EmPerfState], cpu_cap: u64) {
    let fmax_khz = states.last().map_or(1, |state| state.freq_khz.max(1));
    for state in states {
        state.performance = cpu_cap.wrapping_mul(state.freq_khz) / fmax_khz;
    }
}

/// The cost of each state, and which states are inefficient (energy_model.c:em_compute_costs(), v6.12).
///
/// # Errors
/// [`EmError::ZeroPerformance`].
pub fn em_compute_costs(states: &mut [EmPerfState], form: EmCost) -> Result<(), EmError> {
    let fmax_khz = states.last().map_or(1, |state| state.freq_khz);
    for (at, state) in states.iter_mut().enumerate() {
        let per_freq = |power: u64| fmax_khz.wrapping_mul(power) / state.freq_khz.max(1);
        state.cost = match form {
            EmCost::MilliWatt | EmCost::MilliWattCapped => per_freq(state.power_uw / 1_000),
            EmCost::MilliWattThousandths | EmCost::MilliWattCappedThousandths | EmCost::MilliWattEfficient => {
                per_freq((state.power_uw / 1_000).wrapping_mul(1_000))
            }
            EmCost::MicroWatt => per_freq(state.power_uw),
            EmCost::Performance => {
                let power = state.power_uw.wrapping_mul(10);
                power.checked_div(state.performance).ok_or(EmError::ZeroPerformance(at))?
            }
        };
    }
    mark_inefficient(states);
    Ok(())
}

/// From the top: a state that costs as much as a higher one, or more, is inefficient.
pub(crate) fn mark_inefficient(states: &mut [EmPerfState]) {
    let mut least = u64::MAX;
    for state in states.iter_mut().rev() {
        state.inefficient = state.cost >= least;
        least = least.min(state.cost);
    }
}

/// First and last release; `None`: all later ones.
pub type Releases = (Version, Option<Version>);

/// Points that kernels mark as inefficient and so pass over, all for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InefficientPoints {
    /// By the powers themselves a faster point costs no more per work. Else each costs less than any faster one, and the mark
    /// comes of integers that are rounded.
    pub exact: bool,
    /// The clocks in kHz, ascending, by kernels.
    pub khz: Vec<(Releases, Vec<u64>)>,
}

impl core::fmt::Display for InefficientPoints {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let of_kernels = |((first, last), khz): &(Releases, Vec<u64>)| {
            let in_mhz = |khz: &u64| {
                let text = format!("{}.{:03}", khz / 1_000, khz % 1_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            let mhz: Vec<String> = khz.iter().map(in_mhz).collect();
            let last = last.map_or_else(|| "on".to_owned(), |(major, minor)| format!("to v{major}.{minor}"));
            format!("{} MHz from v{}.{} {last}", mhz.join(", "), first.0, first.1)
        };
        let points: Vec<String> = self.khz.iter().map(of_kernels).collect();
        let why = match self.exact {
            true => ": a faster point costs no more per work",
            false => ", by rounding alone: each costs less per work than any faster point",
        };
        write!(f, "the kernel passes over {}{why}", points.join(" and "))
    }
}

/// Which points of a table (kHz, uW) kernels mark as inefficient since they do so (v5.16), by each form of the costs.
///
/// # Errors
/// [`EmError`] where the kernel refuses the table.
pub fn inefficient_points(points: &[(u64, u64)], cpu_cap: u64) -> Result<Vec<InefficientPoints>, EmError> {
    let exact = |at: usize| {
        let (khz, uw) = points[at];
        let costs_no_more =
            |&(faster, more): &(u64, u64)| u128::from(more) * u128::from(khz) <= u128::from(uw) * u128::from(faster);
        points[at + 1..].iter().any(costs_no_more)
    };
    let mut found = [true, false].map(|exact| InefficientPoints { exact, khz: Vec::new() });
    let values = GATES.iter().find(|gate| gate.name == "em_cost").map_or(&[][..], |gate| gate.values);
    let since = EmCost::ALL.iter().zip(values).filter_map(|(&form, value)| Some((form, value.since?)));
    let forms: Vec<(EmCost, Version)> = since.filter(|of| of.0 >= EmCost::MilliWattEfficient).collect();
    let mut previous = None;
    for (index, &(form, since)) in forms.iter().enumerate() {
        let next = forms.get(index + 1).map(|next| next.1);
        let last = next.and_then(|next| PROFILES.iter().map(|profile| profile.1).filter(|&of| of < next).max());
        let states = match em_create_perf_table(points, cpu_cap, form) {
            Err(EmError::BelowMilliWatt(_)) => Vec::new(),
            table => table?,
        };
        for of in &mut found {
            let marked = |at: &usize| states[*at].inefficient && exact(*at) == of.exact;
            let khz: Vec<u64> = (0..states.len()).filter(marked).map(|at| points[at].0).collect();
            match of.khz.last_mut() {
                Some((range, same)) if previous.is_some() && range.1 == previous && *same == khz => range.1 = last,
                _ if khz.is_empty() => {}
                _ => of.khz.push(((since, last), khz)),
            }
        }
        previous = last;
    }
    Ok(found.into_iter().filter(|of| !of.khz.is_empty()).collect())
}

/// The index of the state that gives `max_util`: the first with enough performance, inefficient ones passed over if
/// `skip_inefficient`; the last if there is none (include/linux/energy_model.h:em_pd_get_efficient_state(), v6.12).
///
/// `None` only for an empty table.
#[inline]
pub fn em_pd_get_efficient_state(states: &[EmPerfState], max_util: u64, skip_inefficient: bool) -> Option<usize> {
    let enough = |state: &EmPerfState| state.performance >= max_util && !(skip_inefficient && state.inefficient);
    states.iter().position(enough).or(states.len().checked_sub(1))
}

/// The same by a frequency, in kHz (em_pd_get_efficient_state(), v5.16).
#[inline]
pub fn em_pd_get_efficient_state_by_freq(
    states: &[EmPerfState],
    freq_khz: u64,
    skip_inefficient: bool,
) -> Option<usize> {
    let enough = |state: &EmPerfState| state.freq_khz >= freq_khz && !(skip_inefficient && state.inefficient);
    states.iter().position(enough).or(states.len().checked_sub(1))
}

/// A performance domain (include/linux/energy_model.h: struct em_perf_domain, v6.12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmPerfDomain {
    /// The states by ascending frequency.
    pub states: Vec<EmPerfState>,
    /// The domain's CPUs, ascending.
    pub cpus: Vec<usize>,
    /// `EM_PERF_DOMAIN_SKIP_INEFFICIENCIES`: the cpufreq driver took the marks of inefficient states, so these
    /// frequencies will not be set.
    pub skip_inefficient: bool,
    /// How energies are computed.
    pub form: EmCost,
}

impl EmPerfDomain {
    /// The energy of the domain, in a unit that only compares (include/linux/energy_model.h:em_cpu_energy(), v6.12;
    /// em_cpu_energy() v5.16, em_pd_energy() v5.10).
    ///
    /// `max_util` is the utilisation of the busiest CPU, `sum_util` that of all; `allowed_cpu_cap` the capacity that
    /// limits leave; `scale_cpu` the CPUs' capacity, which only the forms before v6.9 look at. Until v6.7 the headroom of the
    /// clock is added here; since v6.8 the placement's `max_util` has it (`energy`, whatever the costs' form).
    #[inline]
    pub fn em_cpu_energy(
        &self,
        max_util: u64,
        sum_util: u64,
        allowed_cpu_cap: u64,
        scale_cpu: u64,
        energy: FeecEnergy,
    ) -> u64 {
        let Some(fmax_khz) = self.states.last().map(|state| state.freq_khz) else { return 0 };
        if sum_util == 0 {
            return 0;
        }
        let headroom = energy < FeecEnergy::Bounded;
        let asked = if headroom { map_util_perf(max_util) } else { max_util };
        if self.form == EmCost::Performance {
            let max_util = asked.min(allowed_cpu_cap);
            return em_pd_get_efficient_state(&self.states, max_util, self.skip_inefficient)
                .map_or(0, |at| self.states[at].cost.wrapping_mul(sum_util));
        }
        let at = if self.form < EmCost::MilliWattCapped {
            let freq_khz = if headroom {
                next_raw_freq_v5_10(max_util, fmax_khz, scale_cpu)
            } else {
                map_util_freq(max_util, fmax_khz, scale_cpu)
            };
            em_pd_get_efficient_state_by_freq(&self.states, freq_khz, false)
        } else {
            let freq_khz = map_util_freq(asked.min(allowed_cpu_cap), fmax_khz, scale_cpu);
            let skips = self.skip_inefficient && self.form >= EmCost::MilliWattEfficient;
            em_pd_get_efficient_state_by_freq(&self.states, freq_khz, skips)
        };
        at.map_or(0, |at| self.states[at].cost.wrapping_mul(sum_util) / scale_cpu.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::KernelProfile;
    use proptest::prelude::*;

    fn domain(points: &[(u64, u64)], cpu_cap: u64, form: EmCost) -> EmPerfDomain {
        let states = em_create_perf_table(points, cpu_cap, form).expect("a valid table");
        EmPerfDomain { states, cpus: vec![0], skip_inefficient: true, form }
    }

    #[test]
    fn refusals() {
        let check = |points: &[(u64, u64)], expected| {
            assert_eq!(em_create_perf_table(points, 1024, EmCost::Performance), Err(expected));
        };
        check(&[], EmError::Empty);
        check(&[(1_000, 1), (1_000, 2)], EmError::NonIncreasingFreq(1));
        check(&[(1_000, 0)], EmError::InvalidPower(0));
        check(&[(1_000, EM_MAX_POWER + 1)], EmError::InvalidPower(0));
        check(&[(1, 5), (5_000, 6)], EmError::ZeroPerformance(0));
        // What is no whole mW is 0 to the kernels that count mW.
        for &form in EmCost::ALL {
            let table = em_create_perf_table(&[(1_000, 1_000), (2_000, 5_000)], 1024, form);
            assert!(table.is_ok(), "{form:?}");
            let table = em_create_perf_table(&[(1_000, 999), (2_000, 5_000)], 1024, form);
            let counts_uw = matches!(form, EmCost::MicroWatt | EmCost::Performance);
            assert_eq!(table.err(), (!counts_uw).then_some(EmError::BelowMilliWatt(0)), "{form:?}");
        }
    }

    /// Goal: a state that is dearer per work than a higher one is never chosen.
    #[test]
    fn dear_states_are_passed_over() {
        let domain = domain(&[(1_000, 900), (2_000, 1_000), (3_000, 3_000)], 600, EmCost::Performance);
        assert_eq!(domain.states.iter().map(|state| state.inefficient).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(domain.em_cpu_energy(100, 10, 600, 600, FeecEnergy::Bounded), domain.states[1].cost * 10);
    }

    /// Goal: what only rounding marks differs from what costs more, with the kernels that do so, by hand.
    #[test]
    fn rounding_is_told_from_cost() {
        let words = |points: &[(u64, u64)], capacity| -> Vec<String> {
            let found = inefficient_points(points, capacity).expect("a valid table");
            found.iter().map(ToString::to_string).collect()
        };
        let dear =
            |points: &str| vec![format!("the kernel passes over {points}: a faster point costs no more per work")];
        let rounded = |points: &str| {
            let why = "by rounding alone: each costs less per work than any faster point";
            vec![format!("the kernel passes over {points}, {why}")]
        };
        let points = [(1_000_500, 900_000), (2_001_000, 1_000_000), (3_000_000, 3_000_000)];
        assert_eq!(words(&points, 600), dear("1000.5 MHz from v5.16 on"));
        // 300 and 306.7 uW/MHz. Of 104 they perform 10 (10.4) and 15 (15.6): costs 30 000 and 30 666. Of 107 they perform 10
        // (10.7) and 16 (16.05): costs 30 000 and 28 750.
        let points = [(100_000, 30_000), (150_000, 46_000), (1_000_000, 600_000)];
        assert_eq!(words(&points, 104), [""; 0]);
        assert_eq!(words(&points, 107), rounded("100 MHz from v6.9 on"));
        // Before v6.0 of whole mW: 3 and 4 of 3.0 and 4.56 there.
        let points = [(100_000, 3_000), (150_000, 4_560), (1_000_000, 60_000)];
        assert_eq!(words(&points, 104), rounded("100 MHz from v5.16 to v5.19"));
        assert_eq!(words(&points, 107), rounded("100 MHz from v5.16 to v5.19 and 100 MHz from v6.9 on"));
        // Below 1 mW there is no such table.
        assert_eq!(words(&[(500_000, 90), (1_000_000, 100)], 1000), dear("500 MHz from v6.0 on"));
    }

    #[test]
    fn v5_10_costs_are_in_milliwatts_and_headroom_is_inside() {
        let domain = domain(&[(1_000, 50_000), (2_000, 200_000)], 1024, EmCost::MilliWatt);
        assert_eq!(domain.states.iter().map(|state| state.cost).collect::<Vec<_>>(), [100, 200]);
        assert_eq!(domain.em_cpu_energy(400, 1024, 1024, 1024, FeecEnergy::AllDomains), 100);
        assert_eq!(domain.em_cpu_energy(420, 1024, 1024, 1024, FeecEnergy::AllDomains), 200);
    }

    /// Goal: costs in thousandths came to v5.15 and, with the old choice of frequency, to v5.10.65; from v5.14 on the frequency
    /// is that of what the CPUs may do; inefficient states are passed over from v5.16 on.
    #[test]
    fn costs_before_v6_0() {
        let points = [(1_000, 50_900), (2_000, 50_400), (3_000, 200_000)];
        let check = |form, costs: [u64; 3], capped, low| {
            let domain = domain(&points, 1024, form);
            assert_eq!(domain.states.iter().map(|state| state.cost).collect::<Vec<_>>(), costs, "{form:?}");
            assert_eq!(domain.em_cpu_energy(900, 1024, 600, 1024, FeecEnergy::BusyTime), capped, "{form:?}");
            assert_eq!(domain.em_cpu_energy(100, 1024, 1024, 1024, FeecEnergy::BusyTime), low, "{form:?}");
        };
        check(EmCost::MilliWatt, [150, 75, 200], 200, 150);
        check(EmCost::MilliWattThousandths, [150_000, 75_000, 200_000], 200_000, 150_000);
        check(EmCost::MilliWattCapped, [150, 75, 200], 75, 150);
        check(EmCost::MilliWattCappedThousandths, [150_000, 75_000, 200_000], 75_000, 150_000);
        check(EmCost::MilliWattEfficient, [150_000, 75_000, 200_000], 75_000, 75_000);
    }

    /// Goal: the headroom is counted once, by the model until v6.7 and by who calls it since v6.8 and in v6.6.89, whatever the
    /// form of the costs.
    #[test]
    fn headroom_is_of_the_placement_since_v6_8() {
        let points = [(500_000, 100_000), (1_000_000, 300_000), (2_000_000, 1_000_000)];
        // 480 of 1024 needs 1 GHz, and 2 GHz with the headroom.
        let state_for_480 = |profile: &KernelProfile| {
            let domain = domain(&points, 1024, profile.em_cost);
            let energy = domain.em_cpu_energy(480, 1024, 1024, 1024, profile.feec_energy);
            let per_work = |state: &EmPerfState| match profile.em_cost {
                EmCost::Performance => state.cost * 1024,
                _ => state.cost,
            };
            domain.states.iter().position(|state| per_work(state) == energy)
        };
        let named = |name| KernelProfile::named(name).expect("a kernel");
        let inside = ["5.4", "5.10", "5.10.65", "5.15", "6.1", "6.6", "6.6.88", "6.7"];
        for (names, index) in [(&inside[..], 2), (&["6.6.89", "6.6.103", "6.8", "6.9", "6.12", "7.2"][..], 1)] {
            for &name in names {
                for &em_cost in EmCost::ALL {
                    assert_eq!(
                        state_for_480(&KernelProfile { em_cost, ..named(name) }),
                        Some(index),
                        "{name} {em_cost:?}"
                    );
                }
            }
        }
    }

    proptest! {
        /// Goal: no input panics; at equal state more work never costs less energy.
        #[test]
        fn energy_grows_with_work(
            steps in proptest::collection::vec((1..500_000u64, 1..EM_MAX_POWER), 1..20), cap in 1..1025u64,
            form in proptest::sample::select(EmCost::ALL), energy in proptest::sample::select(FeecEnergy::ALL),
            max_util in 0..2048u64, sums in (0..16_384u64, 0..16_384u64), allowed in 0..2048u64, skip: bool,
        ) {
            let mut khz = 0;
            let points: Vec<_> = steps.iter().map(|&(step, uw)| { khz += step; (khz, uw) }).collect();
            let Ok(states) = em_create_perf_table(&points, cap, form) else { return Ok(()) };
            let domain = EmPerfDomain { states, cpus: vec![0], skip_inefficient: skip, form };
            let (less, more) = (sums.0.min(sums.1), sums.0.max(sums.1));
            prop_assert!(domain.em_cpu_energy(max_util, less, allowed, cap, energy)
                <= domain.em_cpu_energy(max_util, more, allowed, cap, energy));
        }

        #[test]
        fn any_table_has_an_answer(points: Vec<(u64, u64)>, cap: u64, numbers: [u64; 4]) {
            for &form in EmCost::ALL {
                if let Ok(states) = em_create_perf_table(&points, cap, form) {
                    let domain = EmPerfDomain { states, cpus: vec![], skip_inefficient: true, form };
                    for &energy in FeecEnergy::ALL {
                        let _ = domain.em_cpu_energy(numbers[0], numbers[1], numbers[2], numbers[3], energy);
                    }
                }
            }
        }
    }
}
