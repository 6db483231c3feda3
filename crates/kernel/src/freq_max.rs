//! Which f_max a kernel takes on a processor under a driver: the one place that decides it, for the engine, for replays
//! and for `opplab fmax` (arch/x86/kernel/cpu/aperfmperf.c, arch/x86/kernel/acpi/cppc.c, drivers/cpufreq/acpi-cpufreq.c
//! and intel_pstate.c, v6.12).
//!
//! At boot the kernel forms `arch_turbo_freq_ratio`: on Intel of registers, on AMD of CPPC. The driver then decides
//! whether it counts or the base frequency does (`arch_set_max_freq_ratio()`).
//! Not here: what the choices are ([`FreqMax`]), and whether the kernel is frequency invariant at all
//! ([`KernelProfile::freq_invariant`]).

use crate::cpufreq::driver::DriverKind;
use crate::cpufreq::drivers::acpi_cpufreq::acpi_max_boost_ratio;
use crate::freq_invariance::{FreqMax, FreqMaxFacts, FreqMaxOf, FreqRatio, IntelTurboModel, TurboLevel, midpoint};
use crate::profile::{AcpiFreqMax, KernelProfile, NoTurboFreqMax, Platform};
use crate::unit::SCHED_CAPACITY_SCALE;

/// What f_max is made of, for a kind of CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreqMaxSources {
    /// How the machine reports its speed.
    pub platform: Platform,
    /// The processor's family and model; (0, 0) if unknown.
    pub family_model: (u32, u32),
    /// The frequency at which MPERF counts, kHz.
    pub base_khz: u32,
    /// Turbo levels by rising number of active cores; empty if there are none, or none is known.
    pub turbo: Vec<TurboLevel>,
    /// Cores of that kind in the package.
    pub n_cores: u32,
    /// f_max over the base frequency by an Intel processor's registers
    /// ([`crate::freq_invariance::IntelMsrs::turbo_freq_ratio`]); `None`: they are not known.
    pub turbo_freq_ratio: Option<FreqRatio>,
    /// Highest and nominal performance of the CPU; `None` without CPPC.
    pub cppc: Option<(u32, u32)>,
    /// Highest performance of each kind of CPU.
    pub highest_perfs: Vec<u32>,
    /// Cores differ on a processor of Intel.
    pub hybrid: bool,
    /// Some core has more than one thread that is on.
    pub smt: bool,
}

/// From what a kernel has its f_max.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreqMaxRule {
    /// Each frequency change is reported, relative to the policy's highest (arm64).
    Reported,
    /// Halfway between this highest performance over the nominal one, and 1.
    Midpoint(u64),
    /// Registers.
    Registers,
    /// Turbo levels, where the registers are not known.
    Levels(FreqMax),
    /// Each CPU its own highest clock.
    OwnHighest,
}

/// Why the base frequency counts instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseInstead {
    /// acpi-cpufreq finds no boost frequency.
    NoBoost,
    /// Turbo was switched off.
    NoTurbo,
}

/// What a kernel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqMaxTaken {
    /// f_max over the base frequency, in 1/1024.
    pub ratio: FreqRatio,
    /// From what it would be, if the base frequency did not count instead.
    pub rule: FreqMaxRule,
    /// Why the base frequency counts.
    pub instead: Option<BaseInstead>,
}

/// Why a kernel finds no f_max and stays without frequency invariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFreqMax {
    /// There is no CPPC.
    NoCppc,
    /// The base frequency is not known.
    NoBase,
}

impl FreqMaxSources {
    /// Whose f_max counts. Only intel_pstate gives CPUs their own (intel_pstate.c:hybrid_init_cpu_capacity_scaling(),
    /// v6.12).
    pub fn freq_max_of(&self, profile: &KernelProfile, driver: DriverKind) -> FreqMaxOf {
        match (self.platform, driver) {
            (Platform::Arm, _) | (_, DriverKind::IntelActive | DriverKind::IntelPassive) => {
                profile.freq_max_of(self.platform, self.hybrid, self.smt)
            }
            _ => FreqMaxOf::BootCpu,
        }
    }

    /// What the kernel of `profile` takes under `driver`; `no_turbo` is intel_pstate's in sysfs.
    ///
    /// # Errors
    /// [`NoFreqMax`] where it finds none.
    pub fn taken(
        &self,
        profile: &KernelProfile,
        driver: DriverKind,
        no_turbo: bool,
    ) -> Result<FreqMaxTaken, NoFreqMax> {
        let by_intel = matches!(driver, DriverKind::IntelActive | DriverKind::IntelPassive);
        let no_turbo = no_turbo && by_intel && profile.no_turbo_freq_max == NoTurboFreqMax::Base;
        let no_boost = driver == DriverKind::Acpi
            && self.platform != Platform::Arm
            && profile.acpi_freq_max == AcpiFreqMax::Base
            && self.acpi_boost(profile).is_none();
        let instead = match (no_boost, no_turbo) {
            (true, _) => Some(BaseInstead::NoBoost),
            (_, true) => Some(BaseInstead::NoTurbo),
            _ => None,
        };
        let (ratio, rule) = self.turbo(profile, driver)?;
        Ok(FreqMaxTaken { ratio: if instead.is_some() { SCHED_CAPACITY_SCALE } else { ratio }, rule, instead })
    }

    /// The boost that acpi-cpufreq finds.
    fn acpi_boost(&self, profile: &KernelProfile) -> Option<FreqRatio> {
        let (highest_perf, nominal_perf) = self.cppc?;
        acpi_max_boost_ratio(self.highest_perf(profile, highest_perf), nominal_perf)
    }

    fn highest_perf(&self, profile: &KernelProfile, own: u32) -> u64 {
        match self.platform {
            Platform::Amd => profile.amd_boost_numerator(own, &self.highest_perfs, self.family_model),
            _ => own.into(),
        }
    }

    /// `arch_turbo_freq_ratio`.
    fn turbo(&self, profile: &KernelProfile, driver: DriverKind) -> Result<(FreqRatio, FreqMaxRule), NoFreqMax> {
        let named = |freq_max: FreqMax, rule| Ok((self.ratio(freq_max).ok_or(NoFreqMax::NoBase)?, rule));
        match self.platform {
            Platform::Arm => named(FreqMax::MaxBoost, FreqMaxRule::Reported),
            Platform::Amd => {
                let (own, nominal_perf) = self.cppc.ok_or(NoFreqMax::NoCppc)?;
                let highest_perf = self.highest_perf(profile, own);
                let boost = (highest_perf * SCHED_CAPACITY_SCALE).checked_div(nominal_perf.into());
                Ok((midpoint(boost.ok_or(NoFreqMax::NoCppc)?), FreqMaxRule::Midpoint(highest_perf)))
            }
            Platform::Intel if self.freq_max_of(profile, driver) == FreqMaxOf::EachCpu => {
                named(FreqMax::MaxBoost, FreqMaxRule::OwnHighest)
            }
            Platform::Intel => match self.turbo_freq_ratio {
                Some(ratio) => Ok((ratio, FreqMaxRule::Registers)),
                None => {
                    let first_group = IntelTurboModel::of(self.family_model.1) == IntelTurboModel::Glm;
                    let level = if first_group { FreqMax::Turbo1Core } else { FreqMax::Turbo4Cores };
                    named(level, FreqMaxRule::Levels(level))
                }
            },
        }
    }

    /// f_max over the base frequency by its name, in 1/1024. On AMD `mid` and `max_boost` are CPPC's, where there is CPPC:
    /// what the first CPU reports is what the kernels knew that had them. `None` if the base frequency is unknown.
    pub fn ratio(&self, freq_max: FreqMax) -> Option<FreqRatio> {
        match (freq_max, self.platform, self.cppc) {
            (FreqMax::Mid | FreqMax::MaxBoost, Platform::Amd, Some((highest_perf, nominal_perf))) => {
                let boost = (u64::from(highest_perf) * SCHED_CAPACITY_SCALE).checked_div(nominal_perf.into())?;
                Some(if freq_max == FreqMax::Mid { midpoint(boost) } else { boost })
            }
            _ => freq_max.ratio(&self.levels()),
        }
    }

    /// The frequencies among which f_max is chosen by name.
    pub fn levels(&self) -> FreqMaxFacts<'_> {
        FreqMaxFacts { base_khz: self.base_khz, turbo: &self.turbo, n_cores: self.n_cores }
    }
}
