//! amd-pstate in the engine. Active mode ("amd-pstate-epp"): the driver writes limits and a preference, the firmware
//! chooses. Passive mode ("amd-pstate"): a governor's frequency or performance is the desired level. Guided mode
//! ("amd-pstate-guided" here, "amd-pstate" in sysfs): it is the lowest level, and the firmware chooses above it.
//! The requests are crate `kernel`'s (`cpufreq::amd_pstate`); for what is made of them the model of `hwp` stands
//! in, since the two interfaces mean the same; they read the preference differently. Requests go to a register, or to memory
//! shared with the firmware (Zen 2, Milan), where a governor's frequency changes by a thread: a driver without a fast switch.

use opplab_kernel::cpufreq::amd_pstate::{
    AMD_EPP_VALUES, AmdCppcRequest, AmdCpu, AmdForm, AmdMinFreq, AmdPerf, AmdPlatform,
};
use opplab_kernel::cpufreq::driver::AmdMode;
use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::intel_pstate::{ENERGY_PERF_STRINGS, HwpRequest, PstatePolicy};
use opplab_kernel::profile::{AmdEppDefault, KernelProfile};
use opplab_model::machine::{Cluster, CppcCaps, Cpufreq, HwpCaps, PmProfile};
use opplab_model::policy::Policy;

use crate::CaseError;
use crate::hardware::hwp::{Hwp, Preference};

/// The firmware's preference at boot: the register's default value, performance (commit message of "cpufreq/amd-pstate:
/// Set different default EPP policy for Epyc and Ryzen", M. Limonciello, December 2024).
const EPP_AT_BOOT: u8 = EPP_PERFORMANCE;
/// The preference for performance alone.
const EPP_PERFORMANCE: u8 = 0;
/// What the driver sets in its place on machines that are no servers ([`AmdEppDefault::Balanced`]).
const EPP_BALANCED: u8 = 0x80;

/// The firmware's part of a policy under active mode.
///
/// # Errors
/// [`CaseError`] if the policy asks for another governor than the driver's own or an unknown preference, or the machine
/// has not the CPPC registers that the driver needs.
pub(crate) fn epp_start(
    (cluster, driver): (&Cluster, &Cpufreq),
    policy: &Policy,
    (min_freq, default_epp): (AmdMinFreq, u8),
    now_ns: u64,
) -> Result<Hwp, CaseError> {
    let own = PstatePolicy::named(&policy.governor).ok_or_else(|| {
        let other = &policy.governor;
        CaseError(format!("driver amd-pstate-epp has the governors performance and powersave, not {other}"))
    })?;
    let no_cppc = || no_cppc(cluster, AmdMode::Active);
    let caps = cluster.cppc.ok_or_else(no_cppc)?;
    let refused = |_| no_cppc();
    let platform = platform(cluster, caps, driver);
    let mut register = AmdCppcRequest(u64::from(EPP_AT_BOOT) << 24);
    // Active mode is younger than the form without limits (v6.3).
    let mut cpu = AmdCpu::init(AmdForm::Limited, AmdMode::Active, &platform, &register).map_err(refused)?;
    cpu.start_limits(min_freq);
    if caps.highest_perf > 255 {
        return Err(no_cppc());
    }
    let preference = preference(&policy.epp, default_epp)?;
    if policy.no_turbo && cpu.boost_supported {
        cpu.set_boost(false).map_err(refused)?;
    }
    set_limits(&mut cpu, cluster, policy);
    cpu.set_policy(own, &mut register).map_err(refused)?;
    if own == PstatePolicy::Powersave {
        cpu.set_epp(preference.into(), &mut register).map_err(refused)?;
    }
    Ok(firmware(caps, &cpu, register, now_ns))
}

fn no_cppc(cluster: &Cluster, mode: AmdMode) -> CaseError {
    let of_mode = |driver: &DriverId| driver.kind == DriverKind::Amd(mode);
    let driver = DriverId::all().find(of_mode).map_or("amd-pstate", |driver| driver.entry().name);
    CaseError(format!("driver {driver} does not load: CPPC registers of {} are not valid", cluster.name))
}

/// What the driver finds on a CPU of `cluster`.
fn platform(cluster: &Cluster, caps: CppcCaps, driver: &Cpufreq) -> AmdPlatform {
    let nominal_mhz = match caps.nominal_freq_mhz {
        0 => cluster.reference_khz() / 1000,
        mhz => mhz,
    };
    // Levels are in proportion to frequencies; the lowest operating point is acpi-cpufreq's, far above the lowest level.
    let lowest_mhz = match caps.lowest_freq_mhz {
        0 => (u64::from(nominal_mhz) * u64::from(caps.lowest_perf) / u64::from(caps.nominal_perf.max(1))) as u32,
        mhz => mhz,
    };
    let perf = AmdPerf {
        highest_perf: caps.highest_perf,
        nominal_perf: caps.nominal_perf,
        lowest_nonlinear_perf: caps.lowest_nonlinear_perf,
        lowest_perf: caps.lowest_perf,
        nominal_mhz,
        lowest_mhz,
    };
    AmdPlatform {
        // Without the register there is no fast switch (amd-pstate.c:amd_pstate_cpu_init(), v6.12), in active mode no matter.
        shared_memory: driver.driver.kind != DriverKind::Amd(AmdMode::Active) && !driver.fast_switch,
        perf,
        boost_ratio_numerator: caps.highest_perf,
        model_highest_perf: caps.highest_perf,
        has_cpb: caps.highest_perf > caps.nominal_perf,
        cpb_disabled: false,
        fast_cppc: false,
        transition_latency_ns: None,
    }
}

/// What is set in sysfs.
fn set_limits(cpu: &mut AmdCpu, cluster: &Cluster, policy: &Policy) {
    let set = (policy.scaling_min_freq.of(&cluster.name), policy.scaling_max_freq.of(&cluster.name));
    if set != (None, None) {
        cpu.set_limits(set.0.unwrap_or(cpu.policy.min_khz), set.1.unwrap_or(cpu.policy.max_khz));
    }
}

/// The firmware of a CPU, with what `register` asks of it.
fn firmware(caps: CppcCaps, cpu: &AmdCpu, register: AmdCppcRequest, now_ns: u64) -> Hwp {
    let levels = HwpCaps {
        highest: caps.highest_perf,
        guaranteed: caps.nominal_perf,
        most_efficient: caps.lowest_nonlinear_perf,
        lowest: caps.lowest_perf,
        ..HwpCaps::default()
    };
    let mut hwp = Hwp::new(levels, level_khz(caps, cpu), Preference::AMD, now_ns);
    hwp.request = as_hwp(register);
    hwp
}

/// kHz a performance level.
fn level_khz(caps: CppcCaps, cpu: &AmdCpu) -> u32 {
    (cpu.freqs.max_khz / caps.highest_perf).max(1)
}

/// The clock of the highest level, where `driver` asks a CPU of `cluster` for levels.
pub(crate) fn highest_khz(cluster: &Cluster, driver: &Cpufreq) -> Option<u32> {
    let DriverKind::Amd(mode) = driver.driver.kind else { return None };
    let caps = cluster.cppc.filter(|caps| (1..=255).contains(&caps.highest_perf))?;
    let register = AmdCppcRequest(u64::from(EPP_AT_BOOT) << 24);
    let cpu = AmdCpu::init(AmdForm::Limited, mode, &platform(cluster, caps, driver), &register).ok()?;
    Some(level_khz(caps, &cpu).saturating_mul(caps.highest_perf))
}

/// The same request in the other interface's register.
fn as_hwp(request: AmdCppcRequest) -> HwpRequest {
    HwpRequest(0)
        .with_min(request.min().into())
        .with_max(request.max().into())
        .with_desired(request.desired().into())
        .with_epp(request.epp().into())
}

/// A CPU where a governor chooses, or sets the least.
#[derive(Debug)]
pub(crate) struct AmdPassive {
    cpu: AmdCpu,
    register: AmdCppcRequest,
}

impl AmdPassive {
    /// The driver's part of a policy and the firmware's, in passive or guided mode; `None` for other drivers, and in
    /// passive mode for machines whose CPPC registers are not known: there a request is granted as it is.
    ///
    /// # Errors
    /// [`CaseError`] where the driver does not load.
    pub(crate) fn start(
        driver: &Cpufreq,
        cluster: &Cluster,
        policy: &Policy,
        (form, min_freq): (AmdForm, AmdMinFreq),
        now_ns: u64,
    ) -> Result<Option<(Self, Hwp)>, CaseError> {
        // Guided mode is younger than the form without limits (v6.4).
        let (mode, form) = match driver.driver.kind {
            DriverKind::Amd(AmdMode::Passive) => (AmdMode::Passive, form),
            DriverKind::Amd(AmdMode::Guided) => (AmdMode::Guided, AmdForm::Limited),
            _ => return Ok(None),
        };
        let caps = match cluster.cppc {
            Some(caps) if caps.highest_perf <= 255 => caps,
            _ if mode == AmdMode::Passive => return Ok(None),
            _ => return Err(no_cppc(cluster, mode)),
        };
        let register = AmdCppcRequest(u64::from(EPP_AT_BOOT) << 24);
        let refused = |_| no_cppc(cluster, mode);
        let mut cpu = AmdCpu::init(form, mode, &platform(cluster, caps, driver), &register).map_err(refused)?;
        if policy.no_turbo && cpu.boost_supported {
            cpu.set_boost(false).map_err(refused)?;
        }
        cpu.start_limits(min_freq);
        set_limits(&mut cpu, cluster, policy);
        let mut passive = Self { cpu, register };
        passive.target(passive.cpu.policy.min_khz, true);
        let hwp = firmware(caps, &passive.cpu, passive.register, now_ns);
        Ok(Some((passive, hwp)))
    }

    /// The frequencies between which a governor may choose.
    pub(crate) fn limits(&self) -> FreqLimits {
        FreqLimits { min_khz: self.cpu.policy.min_khz, max_khz: self.cpu.policy.max_khz }
    }

    /// What a governor's frequency becomes; `dynamic`: the governor follows the load.
    pub(crate) fn target(&mut self, khz: u32, dynamic: bool) -> HwpRequest {
        self.cpu.target(khz, dynamic, &mut self.register);
        as_hwp(self.register)
    }

    /// What schedutil's performance becomes, if that is another request.
    pub(crate) fn adjust_perf(&mut self, min_perf: u64, target_perf: u64, capacity: u64) -> Option<HwpRequest> {
        let changed = self.cpu.adjust_perf(min_perf, target_perf, capacity, &mut self.register);
        changed.then(|| as_hwp(self.register))
    }
}

/// The preference that a policy under active mode starts with (amd-pstate.c:amd_pstate_epp_cpu_init(), v6.15).
pub(crate) fn default_epp(profile: &KernelProfile, pm_profile: PmProfile) -> u8 {
    let keeps = pm_profile.is_server() || matches!(pm_profile, PmProfile::SohoServer | PmProfile::Unspecified);
    if keeps || profile.amd_epp_default == AmdEppDefault::Firmware { EPP_AT_BOOT } else { EPP_BALANCED }
}

/// The preference that a policy under active mode has, and in words whose it is.
pub(crate) fn epp_and_source(
    policy: &Policy,
    profile: &KernelProfile,
    pm_profile: PmProfile,
) -> Result<(u8, &'static str), CaseError> {
    if PstatePolicy::named(&policy.governor) == Some(PstatePolicy::Performance) {
        return Ok((EPP_PERFORMANCE, "set by the governor performance"));
    }
    let default = default_epp(profile, pm_profile);
    let whose = match policy.epp.as_str() {
        "" | "default" if default == EPP_BALANCED => "the driver's for machines that are no servers",
        "" | "default" => "the firmware's at boot, taken to be the register's default, as no machine file has it",
        _ => "the policy's key `epp`",
    };
    Ok((preference(&policy.epp, default)?, whose))
}

/// The preference that a policy names: empty, one of sysfs's names, or a number.
fn preference(epp: &str, default: u8) -> Result<u8, CaseError> {
    let named = ENERGY_PERF_STRINGS.iter().zip(AMD_EPP_VALUES).skip(1).find(|&(&name, _)| name == epp);
    let value = match (epp, named) {
        ("" | "default", _) => Some(default.into()),
        (_, Some((_, value))) => Some(value),
        _ => epp.parse().ok(),
    };
    value.and_then(|value| u8::try_from(value).ok()).ok_or_else(|| {
        CaseError(format!("epp is {epp:?}; it is 0 to 255 or one of {}", ENERGY_PERF_STRINGS.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_begins_with_a_balance_on_clients_since_v6_14() {
        let epp = |kernel: &str, pm_profile| default_epp(&KernelProfile::named(kernel).expect("a kernel"), pm_profile);
        assert_eq!([epp("6.13", PmProfile::Mobile), epp("6.14", PmProfile::Mobile)], [EPP_AT_BOOT, EPP_BALANCED]);
        for server in [PmProfile::EnterpriseServer, PmProfile::SohoServer, PmProfile::Unspecified] {
            assert_eq!(epp("6.18", server), EPP_AT_BOOT, "{server:?}");
        }
    }

    /// Goal: where requests go through memory that the firmware shares, it sees the governor's level. Method: Zen 2 has no
    /// register; the highest frequency is to be the highest level.
    #[test]
    fn a_governor_is_heard_through_shared_memory() {
        let text = include_str!("../../../../python/opplab/data/machines/epyc-7742-2s.toml");
        hears(text);
    }

    /// Goal: a machine whose CPPC has no frequencies gets them by the levels, where its lowest operating point is that of
    /// the most efficient level, too.
    #[test]
    fn the_driver_loads_without_frequencies() {
        hears(include_str!("../../../../python/opplab/data/machines/epyc-7502-2s.toml"));
    }

    fn hears(text: &str) {
        let machine = opplab_model::file::parse_machine("epyc.toml", text).expect("a machine");
        let cluster = &machine.clusters[0];
        let caps = cluster.cppc.expect("has CPPC");
        for name in ["amd-pstate", "amd-pstate-guided"] {
            let driver = machine.driver(name).expect("a driver");
            assert!(!driver.fast_switch);
            for form in [AmdForm::Unlimited, AmdForm::Limited] {
                let forms = (form, AmdMinFreq::Lowest);
                let started = AmdPassive::start(driver, cluster, &Policy::default(), forms, 0);
                let (mut passive, hwp) = started.expect("loads").expect("has levels");
                assert!(
                    u32::from(hwp.request.max()) == caps.highest_perf
                        && u32::from(hwp.request.min()) >= caps.lowest_perf,
                    "{name} {form:?}"
                );
                let request = passive.target(passive.limits().max_khz, true);
                let asked = if name == "amd-pstate" { request.desired() } else { request.min() };
                assert_eq!(u32::from(asked), caps.highest_perf, "{name} {form:?}");
            }
        }
    }
}
