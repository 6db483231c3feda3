//! From a machine and a policy to the plain facts that a governor is started with: one form for the engine and for
//! replayed traces, so that the same policy is the same governor in both.
//!
//! Not here: the governors and drivers themselves (crate `kernel`), and setups of live hosts, which sysfs gives.

use opplab_kernel::cpufreq::driver::{CppcFacts, CpuinfoFacts, DriverEntry, DriverKind};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable, set_policy_limits};
use opplab_kernel::cpufreq::governor::{Governor, GovernorError, GovernorSetup};
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::freq_invariance::TurboLevel;
use opplab_kernel::freq_max::FreqMaxSources;
use opplab_kernel::profile::{GATES, InefficientOpps, KernelProfile, Platform, PolicyLimits, gate_names};
use opplab_kernel::unit::tick_nsec;

use crate::error::{Fault, ModelError, Pos, proposal_fault, unknown_kernel};
use crate::machine::{Cluster, Cpufreq, InvarianceSource, Machine, TurboBin};
use crate::policy::Policy;
use crate::policy_values::EnergyModelSource;

impl Machine {
    /// How it reports its speed.
    pub fn platform(&self) -> Platform {
        match self.invariance {
            InvarianceSource::FreqChange => Platform::Arm,
            InvarianceSource::CountersAtTick | InvarianceSource::Absent => {
                let vendor = self.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
                Platform::of_vendor(vendor).unwrap_or(Platform::Intel)
            }
        }
    }

    /// Whether a kernel that has frequency invariance on this platform finds the f_max that it takes. On AMD it is made
    /// of the CPPC capabilities of the first CPU (cppc.c:amd_set_max_freq_ratio(), v6.12).
    pub fn knows_freq_max(&self) -> bool {
        match self.invariance {
            InvarianceSource::FreqChange => true,
            InvarianceSource::CountersAtTick => self.platform() != Platform::Amd || self.cluster_of(0).cppc.is_some(),
            InvarianceSource::Absent => false,
        }
    }

    /// What f_max of `cluster`'s CPUs is made of; `smt`: some core has two threads that are on.
    pub fn freq_max_sources(&self, cluster: &Cluster, smt: bool) -> FreqMaxSources {
        let package = self.cpus[cluster.cpus[0] as usize].package;
        let places = cluster.cpus.iter().map(|&cpu| self.cpus[cpu as usize]);
        let mut cores: Vec<u32> = places.filter(|place| place.package == package).map(|place| place.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let level = |bin: &TurboBin| TurboLevel { active_cores: bin.active_cores, freq_khz: bin.khz };
        FreqMaxSources {
            platform: self.platform(),
            family_model: self.processor.as_ref().map_or((0, 0), |known| (known.family, known.model)),
            base_khz: if self.tsc_khz == 0 { cluster.reference_khz() } else { self.tsc_khz },
            turbo: cluster.turbo.iter().map(level).collect(),
            n_cores: cores.len() as u32,
            turbo_freq_ratio: Some(self.turbo_freq_ratio.into()).filter(|&ratio| ratio != 0),
            cppc: cluster.cppc.map(|caps| (caps.highest_perf, caps.nominal_perf)),
            highest_perfs: self.highest_perfs(),
            hybrid: self.is_intel_hybrid(),
            smt,
        }
    }

    /// Highest performance of each kind of CPU, by CPPC.
    fn highest_perfs(&self) -> Vec<u32> {
        self.clusters.iter().filter_map(|cluster| cluster.cppc.map(|caps| caps.highest_perf)).collect()
    }
}

/// A wrong name in a governor or its tunables, with the nearest right one.
pub(crate) fn governor_fault(at: Pos, error: &GovernorError) -> Fault {
    match error.wrong_name() {
        Some((name, known)) => {
            let what = match error {
                GovernorError::UnknownTunable { governor, .. } => format!("tunable of {governor}"),
                _ => String::from("governor"),
            };
            Fault::unknown(at, &what, name, known)
        }
        None => Fault::new(at, error.to_string()),
    }
}

/// The profile called `kernel`, with gates overridden.
pub(crate) fn profile_of(at: Pos, kernel: &str, gates: &[(String, String)]) -> Result<KernelProfile, Fault> {
    let mut profile = KernelProfile::named(kernel).ok_or_else(|| unknown_kernel(at, kernel))?;
    for (name, value) in gates {
        profile.set(name, value).map_err(|_| match GATES.iter().find(|gate| gate.name == name) {
            None => Fault::unknown(at, "gate", name, gate_names()),
            Some(gate) => {
                let known = gate.values.iter().map(|known| known.name);
                Fault::unknown(at, &format!("value of gate {name}"), value, known)
            }
        })?;
    }
    Ok(profile)
}

impl Policy {
    /// The kernel that it names, with the gates that it overrides.
    ///
    /// # Errors
    /// [`ModelError::Use`] if it names none.
    pub fn profile(&self) -> Result<KernelProfile, ModelError> {
        let about = |fault: Fault| fault.about("the policy");
        let profile = profile_of(Pos::default(), &self.kernel, &self.gates).map_err(about)?;
        let proposed = profile.with_proposals(self.proposals.iter().map(String::as_str));
        proposed.map_err(|error| about(proposal_fault(Pos::default(), &error)))
    }

    /// The half-life of load tracking in ms: the policy's, over what a proposal makes it faster.
    pub fn half_life_ms(&self) -> u32 {
        let factor = self.profile().map_or(1, |profile| profile.proposals.pelt_multiplier);
        self.pelt_half_life_ms / factor
    }

    /// The governor that it names.
    ///
    /// # Errors
    /// [`ModelError::Use`] if it names none.
    pub fn governor_id(&self) -> Result<GovernorId, ModelError> {
        GovernorId::named(&self.governor).map_err(|error| governor_fault(Pos::default(), &error).about("the policy"))
    }

    /// Refuses tunables that the governor does not have in this kernel, and values that it does not take.
    pub(crate) fn check_tunables(&self, at: Pos) -> Result<(), Fault> {
        let fault = |error: GovernorError| governor_fault(at, &error);
        let profile = profile_of(at, &self.kernel, &self.gates)?;
        let governor = GovernorId::named(&self.governor).map_err(fault)?;
        for (name, value) in &self.tunables {
            governor.check_tunable(&profile, name, value).map_err(fault)?;
        }
        Ok(())
    }
}

impl Policy {
    /// Whether the frequency table of a driver knows its inefficient entries.
    fn marks_inefficient(&self, profile: &KernelProfile, driver: &DriverEntry) -> bool {
        driver.registers_em
            && profile.inefficient_opps == InefficientOpps::PassedOver
            && self.energy_model == EnergyModelSource::Registered
            && !self.reversed_energy_model
    }

    /// What is set for `cluster` in sysfs, within `hardware` (cpufreq.c:cpufreq_set_policy(), v6.12): `scaling_min_freq`,
    /// `scaling_max_freq`, and the percentages that intel_cpufreq turns into limits
    /// (intel_pstate.c:update_qos_requests(), v6.12).
    fn wanted_limits(&self, cluster: &Cluster, driver: &DriverEntry, hardware: FreqLimits) -> FreqLimits {
        let mut limits = FreqLimits {
            min_khz: self.scaling_min_freq.of(&cluster.name).map_or(hardware.min_khz, |khz| khz.max(hardware.min_khz)),
            max_khz: self.scaling_max_freq.of(&cluster.name).map_or(hardware.max_khz, |khz| khz.min(hardware.max_khz)),
        };
        if driver.kind == DriverKind::IntelPassive {
            let percent = |pct: u32| (u64::from(hardware.max_khz) * u64::from(pct)).div_ceil(100) as u32;
            limits.min_khz = limits.min_khz.max(percent(self.min_perf_pct));
            limits.max_khz = limits.max_khz.min(percent(self.max_perf_pct));
        }
        limits
    }

    /// The limits of `cluster` under `driver`, whose hardware has `hardware` (cpufreq.c:cpufreq_set_policy(), v6.12). Those that
    /// Intel's driver verifies end without turbo under `no_turbo` in any kernel (intel_pstate.c:intel_pstate_get_max_freq(), v6.12).
    pub fn limits(
        &self,
        profile: &KernelProfile,
        cluster: &Cluster,
        driver: &DriverEntry,
        table: Option<&FreqTable>,
        hardware: FreqLimits,
    ) -> FreqLimits {
        let wanted = self.wanted_limits(cluster, driver, hardware);
        let by_intel = matches!(driver.kind, DriverKind::IntelActive | DriverKind::IntelPassive);
        let hardware = match by_intel && self.no_turbo {
            true => FreqLimits { max_khz: hardware.max_khz.min(cluster.reference_khz()), ..hardware },
            false => hardware,
        };
        let verified = match table {
            Some(table) => table.verify(wanted, hardware),
            None => wanted.verify_within(hardware),
        };
        match profile.policy_limits {
            PolicyLimits::AsSet => verified,
            PolicyLimits::Resolved => set_policy_limits(table, verified),
        }
    }
}

/// Starts the governor that `policy` names.
///
/// # Errors
/// [`ModelError::Use`] if there is no such governor, or it has no such tunable or does not take its value.
pub fn start_governor(policy: &Policy, setup: &GovernorSetup) -> Result<Box<dyn Governor>, ModelError> {
    let governor = policy.governor_id()?.build(setup);
    governor.map_err(|error| governor_fault(Pos::default(), &error).about("the policy"))
}

/// `cpuinfo_max_freq` of `cluster` as `driver` forms it under the kernel of `profile`, kHz; `no_turbo`: turbo is switched off.
pub fn cpuinfo_max_khz(
    machine: &Machine,
    driver: &DriverEntry,
    (profile, no_turbo): (&KernelProfile, bool),
    cluster: &Cluster,
) -> u32 {
    let highest_perfs = machine.highest_perfs();
    let family_model = machine.processor.as_ref().map_or((0, 0), |known| (known.family, known.model));
    let cppc = cluster.cppc.map(|caps| CppcFacts {
        highest_perf: caps.highest_perf,
        nominal_perf: caps.nominal_perf,
        nominal_freq_mhz: caps.nominal_freq_mhz,
        highest_perfs: &highest_perfs,
        family_model,
    });
    let p0_khz = cluster.opps.last().map_or(0, |opp| opp.khz);
    let turbo_khz = cluster.turbo.iter().map(|bin| bin.khz).max().unwrap_or(0);
    let no_turbo_khz = no_turbo.then(|| cluster.reference_khz());
    let platform = machine.platform();
    (driver.cpuinfo_max_khz)(&CpuinfoFacts { profile, platform, p0_khz, turbo_khz, no_turbo_khz, cppc })
}

/// What a governor of `cluster`, in policies of `n_cpus` CPUs, is started with under `driver`. What only some drivers can,
/// levels instead of frequencies, is left out.
///
/// # Errors
/// [`ModelError::Use`] if the policy's kernel or the driver is not known, or the OPPs make no table.
pub fn governor_setup(
    machine: &Machine,
    driver: &Cpufreq,
    policy: &Policy,
    cluster: u32,
    n_cpus: usize,
) -> Result<GovernorSetup, ModelError> {
    let about = |what: &str, message: String| Fault::new(Pos::default(), message).about(what);
    let profile = policy.profile()?;
    let entry = driver.driver;
    let described = &machine.clusters[cluster as usize];
    let khz: Vec<u32> = described.opps.iter().map(|opp| opp.khz).collect();
    let limits = FreqLimits { min_khz: khz[0], max_khz: khz[khz.len() - 1] };
    let cpuinfo_max_khz = |no_turbo: bool| cpuinfo_max_khz(machine, &entry, (&profile, no_turbo), described);
    // A driver without a table may go beyond another one's.
    let hardware = match driver.freq_table {
        true => limits,
        false => FreqLimits { max_khz: cpuinfo_max_khz(false).max(limits.max_khz), ..limits },
    };
    let table = match driver.freq_table {
        true => Some(FreqTable::from_khz(&entry.in_table_order(khz))),
        false => None,
    };
    let mut table = table.transpose().map_err(|error| about(&described.name, format!("frequency table: {error}")))?;
    if let Some(table) = table.as_mut().filter(|_| policy.marks_inefficient(&profile, &entry)) {
        // A model that the kernel refuses marks nothing.
        let states = described.registered_em(profile.em_cost).unwrap_or_default();
        let inefficient = states.iter().filter(|state| state.inefficient);
        let inefficient: Vec<u32> = inefficient.filter_map(|state| u32::try_from(state.freq_khz).ok()).collect();
        table.set_inefficient(&inefficient);
    }
    let limits = policy.limits(&profile, described, &entry, table.as_ref(), hardware);
    Ok(GovernorSetup {
        n_cpus,
        cpuinfo: FreqLimits { max_khz: cpuinfo_max_khz(policy.no_turbo), ..hardware },
        limits,
        cur_khz: limits.min_khz,
        table,
        fast_switch: driver.fast_switch,
        need_update_limits: false,
        adjust_perf: false,
        transition_delay_us: driver.transition_delay_us,
        transition_latency_ns: entry.transition_latency_ns(driver.transition_latency_ns, &profile),
        tick_ns: tick_nsec(policy.hz.into()),
        io_is_busy: machine.platform() == Platform::Intel,
        tunables: policy.tunables.clone(),
        profile,
    })
}
