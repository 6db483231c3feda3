//! A package's power budget and temperature, and who else draws from the budget.
//!
//! ```text
//!   average += (power - average) dt / (window + dt)            running average, window of PL1
//!   allowed  = PL1 + 16 (PL1 - average), at most PL2           credit of quiet times, debt of loud ones
//!   CPUs draw more than what is allowed      -> their ceiling falls by 100 MHz
//!   they would still not with 100 MHz more   -> it rises (power as the cube of the clock)
//!   other consumers                          -> get what the CPUs leave, at least their share
//! ```
//! Once every [`PCU_INTERVAL_NS`](crate::hardware::packages::PCU_INTERVAL_NS). A run starts without credit, as after long work:
//! the average begins at PL1. Without a PL2 the credit is a tenth of PL1. The real control loops are not published; this
//! one keeps the average at PL1 and no millisecond much above PL2.
//!
//! Temperature is one thermal resistance and one capacitance a package:
//! `C dT/dt = power - (T - ambient) / R`; above the limit a ceiling of its own falls, 1 K below it rises.

use opplab_model::decision::GrantLimit;
use opplab_model::machine::{Consumer, Machine, Thermal};

use crate::hardware::energy::Meter;
use crate::hardware::points::POINT_STEP_KHZ;

/// How much of the average's distance from PL1 is credit or debt.
const CREDIT: i128 = 16;
/// PL1's window where the machine file has none: what servers are set to.
const WINDOW_NS: u64 = 1_000_000_000;
/// No ceiling.
pub(crate) const UNLIMITED_KHZ: u32 = u32::MAX;

/// What the CPUs of a package draw, what they may draw, and who else draws.
#[derive(Debug)]
pub(crate) struct Budget {
    pl1_uw: u64,
    pl1_window_ns: u64,
    /// Most that is ever allowed.
    pl2_uw: u64,
    thermal: Option<Thermal>,
    /// CPUs and clusters.
    meter: Meter,
    consumers: Vec<Share>,
    /// Running average of everything, in uW.
    average_uw: u64,
    /// Ceiling of the CPUs' clocks by power.
    power_khz: u32,
    temperature_uc: i64,
    /// Ceiling by temperature.
    thermal_khz: u32,
    last_ns: u64,
    last_cpu_fj: u128,
    last_fj: u128,
}

/// A consumer's part.
#[derive(Debug)]
struct Share {
    /// Index in the machine.
    index: usize,
    demand_uw: u64,
    least_uw: u64,
    meter: Meter,
}

impl Budget {
    /// The budget of package `index`, if anything limits it or draws from it.
    pub(crate) fn new(machine: &Machine, index: u32, now_ns: u64) -> Option<Self> {
        let power = machine.package_power.unwrap_or_default();
        let share = |(index, spec): (usize, &Consumer)| {
            let mut meter = Meter::default();
            meter.set(now_ns, spec.demand_uw);
            Share { index, demand_uw: spec.demand_uw, least_uw: spec.least_uw, meter }
        };
        let consumers: Vec<Share> =
            machine.consumers.iter().enumerate().filter(|(_, spec)| spec.package == index).map(share).collect();
        let known = |limit_uw: u64| (limit_uw > 0).then_some(limit_uw);
        let (pl1, pl2) = (known(power.pl1_uw), known(power.pl2_uw));
        if pl1.or(pl2).is_none() && machine.thermal.is_none() && consumers.is_empty() {
            return None;
        }
        let most_uw = pl2.or(pl1.map(|uw| uw + uw / 10)).unwrap_or(u64::MAX);
        let pl1_uw = pl1.unwrap_or(most_uw).min(most_uw);
        let mut meter = Meter::default();
        meter.set(now_ns, 0);
        Some(Self {
            pl1_uw,
            pl1_window_ns: if power.pl1_window_ns > 0 { power.pl1_window_ns } else { WINDOW_NS },
            pl2_uw: most_uw,
            thermal: machine.thermal,
            meter,
            consumers,
            average_uw: pl1_uw,
            power_khz: UNLIMITED_KHZ,
            temperature_uc: machine.thermal.map_or(0, |thermal| thermal.start_mc * 1000),
            thermal_khz: UNLIMITED_KHZ,
            last_ns: now_ns,
            last_cpu_fj: 0,
            last_fj: 0,
        })
    }

    /// What the CPUs may run at.
    pub(crate) fn ceiling_khz(&self) -> u32 {
        self.power_khz.min(self.thermal_khz)
    }

    /// Which ceiling is the lower one.
    pub(crate) fn limit(&self) -> GrantLimit {
        if self.thermal_khz < self.power_khz { GrantLimit::Thermal } else { GrantLimit::PowerBudget }
    }

    /// The CPUs' power changes.
    pub(crate) fn cpu_power(&mut self, now_ns: u64, was_uw: u64, is_uw: u64) {
        self.meter.set(now_ns, self.meter.power_uw() + is_uw - was_uw);
    }

    /// Whether the control unit has to look every interval.
    pub(crate) fn needs_care(&self) -> bool {
        let busy = self.meter.power_uw() > self.pl1_uw || self.power_khz != UNLIMITED_KHZ;
        busy || self.thermal.is_some() || (!self.consumers.is_empty() && self.pl2_uw != u64::MAX)
    }

    /// Looks at the time since the last look.
    pub(crate) fn look(&mut self, now_ns: u64, clocks: Clocks) {
        let dt_ns = now_ns - self.last_ns;
        if dt_ns == 0 {
            return;
        }
        self.last_ns = now_ns;
        let cpu_fj = self.meter.advance(now_ns);
        let all_fj = cpu_fj + self.consumers.iter_mut().map(|share| share.meter.advance(now_ns)).sum::<u128>();
        let cpu_uw = ((cpu_fj - self.last_cpu_fj) / u128::from(dt_ns)) as u64;
        let heat_fj = all_fj - self.last_fj;
        let all_uw = (heat_fj / u128::from(dt_ns)) as u64;
        (self.last_cpu_fj, self.last_fj) = (cpu_fj, all_fj);
        if self.pl2_uw != u64::MAX {
            self.share(now_ns, dt_ns, cpu_uw, all_uw, clocks);
        }
        if let Some(thermal) = self.thermal {
            self.warm(&thermal, heat_fj, dt_ns);
            let limit_uc = thermal.limit_mc * 1000;
            if self.temperature_uc > limit_uc {
                self.thermal_khz = clocks.lowered(self.thermal_khz);
            } else if self.temperature_uc < limit_uc - 1_000_000 {
                self.thermal_khz = clocks.raised(self.thermal_khz);
            }
        }
    }

    /// Moves the CPUs' ceiling and gives the others the rest.
    fn share(&mut self, now_ns: u64, dt_ns: u64, cpu_uw: u64, all_uw: u64, clocks: Clocks) {
        let step = (i128::from(all_uw) - i128::from(self.average_uw)) * i128::from(dt_ns);
        let average = i128::from(self.average_uw) + step / i128::from(self.pl1_window_ns + dt_ns);
        self.average_uw = u64::try_from(average).unwrap_or(0);
        let pl1 = i128::from(self.pl1_uw);
        let allowed = (pl1 + CREDIT * (pl1 - average)).clamp(pl1 / 2, i128::from(self.pl2_uw));
        let allowed_uw = u64::try_from(allowed).unwrap_or(0);
        let least_uw: u64 = self.consumers.iter().map(|share| share.least_uw.min(share.demand_uw)).sum();
        let room_uw = allowed_uw.saturating_sub(least_uw);
        // P (1 + 3 step / f) is P at one step more, to the first order of the cube.
        let khz = clocks.highest_khz.min(self.power_khz);
        let with_step = u128::from(cpu_uw) * (u128::from(khz) + 3 * u128::from(POINT_STEP_KHZ));
        if cpu_uw > room_uw {
            self.power_khz = clocks.lowered(self.power_khz);
        } else if with_step <= u128::from(room_uw) * u128::from(khz) {
            self.power_khz = clocks.raised(self.power_khz);
        }
        let mut rest_uw = allowed_uw.saturating_sub(cpu_uw);
        for share in &mut self.consumers {
            let grant_uw = rest_uw.max(share.least_uw).min(share.demand_uw);
            rest_uw = rest_uw.saturating_sub(grant_uw);
            share.meter.set(now_ns, grant_uw);
        }
    }

    /// One step of the temperature, implicit, so that it is stable for steps of any length.
    fn warm(&mut self, thermal: &Thermal, heat_fj: u128, dt_ns: u64) {
        // K/W x J/K in ns; fJ / (mJ/K) in uK.
        let rc_ns = i128::from(thermal.resistance_mk_per_w) * i128::from(thermal.capacitance_mj_per_k) * 1000;
        let heat_uk = heat_fj / (u128::from(thermal.capacitance_mj_per_k) * 1_000_000);
        let warmed = i128::from(self.temperature_uc) + i128::try_from(heat_uk).unwrap_or(i128::MAX >> 64);
        let ambient = i128::from(thermal.ambient_mc) * 1000;
        let dt_ns = i128::from(dt_ns);
        let after = (rc_ns * warmed + ambient * dt_ns) / (rc_ns + dt_ns);
        self.temperature_uc = i64::try_from(after).unwrap_or(i64::MAX);
    }

    /// Energy of each consumer by its index in the machine, at the end.
    pub(crate) fn consumers_fj(&mut self, now_ns: u64) -> Vec<(usize, u128)> {
        self.consumers.iter_mut().map(|share| (share.index, share.meter.advance(now_ns))).collect()
    }
}

/// Clocks of a package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// Lowest and highest operating point of any cluster.
    pub(crate) low_khz: u32,
    pub(crate) top_khz: u32,
    /// Highest clock that a CPU has.
    pub(crate) highest_khz: u32,
}

impl Clocks {
    /// A ceiling a step lower, below what runs.
    fn lowered(self, khz: u32) -> u32 {
        khz.min(self.highest_khz).saturating_sub(POINT_STEP_KHZ).max(self.low_khz)
    }

    /// A ceiling a step higher; none from the top on.
    fn raised(self, khz: u32) -> u32 {
        let khz = khz.saturating_add(POINT_STEP_KHZ);
        if khz >= self.top_khz { UNLIMITED_KHZ } else { khz }
    }
}
