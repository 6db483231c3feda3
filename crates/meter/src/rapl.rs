//! RAPL-like energy counters: MSR_PKG_ENERGY_STATUS (Intel SDM vol. 3, "Package RAPL Domain"; AMD's PPR, Core::X86::Msr::PKG_ENERGY_STAT).
//!
//! A counter holds energy in units of 2^-ESU J, is brought up to date once a period (about 1 ms), and wraps at 32 bits.

use opplab_model::counters::Sample;
use opplab_model::machine::Machine;

use crate::{clusters_by_package, package_energies_fj};

/// Unit and period of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaplConfig {
    /// The unit is 2^-`energy_unit` J: 14 (61 uJ) on most Intel processors, 16 (15.3 uJ) on AMD's.
    pub energy_unit: u32,
    /// The counter changes once in so many ns.
    pub update_ns: u64,
}

impl Default for RaplConfig {
    /// 61 uJ and 976 562 ns, by MSR_RAPL_POWER_UNIT 0xa0e03.
    fn default() -> Self {
        Self { energy_unit: 14, update_ns: 976_562 }
    }
}

impl RaplConfig {
    /// AMD's: 15.3 uJ (MSR_RAPL_PWR_UNIT 0xa1000).
    pub const AMD: Self = Self { energy_unit: 16, update_ns: 976_562 };

    /// The unit of a machine's processor by its vendor.
    pub fn of(machine: &Machine) -> Self {
        match &machine.processor {
            Some(processor) if processor.vendor == "AuthenticAMD" => Self::AMD,
            _ => Self::default(),
        }
    }

    /// `energy_fj` in the counter's units, rounded down.
    fn units(self, energy_fj: u128) -> u128 {
        // 1 J = 1e15 fJ.
        (energy_fj << self.energy_unit.min(32)) / 1_000_000_000_000_000
    }

    /// J in a unit.
    pub fn joules(self, units: u32) -> f64 {
        f64::from(units) / f64::from(1_u32 << self.energy_unit.min(31))
    }
}

/// What reading the counters gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaplReading {
    /// When it was read, in ns since the start.
    pub time_ns: u64,
    /// By package: the low 32 bits of the counter.
    pub packages: Vec<u32>,
}

/// Readings at every sample.
///
/// Between two samples the power is taken as even, so the energy at the last update before a reading is interpolated.
/// Samples closer together than `update_ns` make that exact.
pub fn rapl(machine: &Machine, samples: &[Sample], config: RaplConfig) -> Vec<RaplReading> {
    let energies: Vec<Vec<u128>> = samples.iter().map(|sample| package_energies_fj(machine, sample)).collect();
    let nr_packages = clusters_by_package(machine).len();
    let mut readings = Vec::with_capacity(samples.len());
    for (index, sample) in samples.iter().enumerate() {
        let update_ns = config.update_ns.max(1);
        let updated_ns = sample.time_ns / update_ns * update_ns;
        let packages = (0..nr_packages)
            .map(|package| {
                let at = samples[..=index].partition_point(|other| other.time_ns <= updated_ns);
                let energy_fj = match (at.checked_sub(1), samples.get(at)) {
                    (Some(before), Some(after)) => {
                        let (low, high) = (energies[before][package], energies[at][package]);
                        let before_ns = samples[before].time_ns;
                        let into = u128::from(updated_ns - before_ns);
                        low + (high - low) * into / u128::from((after.time_ns - before_ns).max(1))
                    }
                    (Some(last), None) => energies[last][package],
                    (None, _) => 0,
                };
                config.units(energy_fj) as u32
            })
            .collect();
        readings.push(RaplReading { time_ns: sample.time_ns, packages });
    }
    readings
}

/// Watts of each package between two readings; a wrapped counter is understood if it wrapped once.
pub fn rapl_watts(before: &RaplReading, after: &RaplReading, config: RaplConfig) -> Vec<f64> {
    let seconds = (after.time_ns - before.time_ns) as f64 * 1e-9;
    let joules = |pair: (&u32, &u32)| config.joules(pair.1.wrapping_sub(*pair.0));
    before.packages.iter().zip(&after.packages).map(|pair| joules(pair) / seconds.max(1e-9)).collect()
}
