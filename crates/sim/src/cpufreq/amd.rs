//! amd-pstate's active mode ("amd-pstate-epp") in the engine: the driver writes limits and a preference, the firmware
//! chooses. The request is crate `kernel`'s (`cpufreq::amd_pstate`); for what is made of it the model of `hwp` stands
//! in, since the two interfaces mean the same. Not here: passive and guided mode, preferred cores.

use opplab_kernel::cpufreq::amd_pstate::{
    AMD_EPP_VALUES, AmdCppcRequest, AmdCpu, AmdForm, AmdMode, AmdPerf, AmdPlatform,
};
use opplab_kernel::cpufreq::intel_pstate::{ENERGY_PERF_STRINGS, HwpRequest, PstatePolicy};
use opplab_model::machine::{Cluster, HwpCaps};
use opplab_model::policy::Policy;

use crate::CaseError;
use crate::hardware::hwp::Hwp;

/// The driver's name.
pub(crate) const AMD_PSTATE_EPP: &str = "amd-pstate-epp";
/// The firmware's preference at boot.
const EPP_AT_BOOT: u32 = 0x80;

/// The firmware's part of a policy under active mode.
///
/// # Errors
/// [`CaseError`] if the policy asks for another governor than the driver's own or an unknown preference, or the machine
/// has not the CPPC registers that the driver needs.
pub(crate) fn epp_start(cluster: &Cluster, policy: &Policy, now_ns: u64) -> Result<Hwp, CaseError> {
    let own = match policy.governor.as_str() {
        "performance" => PstatePolicy::Performance,
        "powersave" => PstatePolicy::Powersave,
        other => {
            let message = format!("driver amd-pstate-epp has the governors performance and powersave, not {other}");
            return Err(CaseError(message));
        }
    };
    let no_cppc =
        || CaseError(format!("driver amd-pstate-epp does not load: CPPC registers of {} are not valid", cluster.name));
    let caps = cluster.cppc.ok_or_else(no_cppc)?;
    let known = |mhz: u32, khz: u32| if mhz > 0 { mhz } else { khz / 1000 };
    let base_khz = cluster.reference_khz();
    let perf = AmdPerf {
        highest_perf: caps.highest_perf,
        nominal_perf: caps.nominal_perf,
        lowest_nonlinear_perf: caps.lowest_nonlinear_perf,
        lowest_perf: caps.lowest_perf,
        nominal_mhz: known(caps.nominal_freq_mhz, base_khz),
        lowest_mhz: known(caps.lowest_freq_mhz, cluster.opps[0].khz),
    };
    let platform = AmdPlatform {
        shared_memory: false,
        perf,
        boost_ratio_numerator: caps.highest_perf,
        model_highest_perf: caps.highest_perf,
        has_cpb: caps.highest_perf > caps.nominal_perf,
        cpb_disabled: false,
        fast_cppc: false,
        transition_latency_ns: None,
    };
    let mut register = AmdCppcRequest(u64::from(EPP_AT_BOOT) << 24);
    let refused = |_| no_cppc();
    // Active mode is younger than the form without limits (v6.3).
    let mut cpu = AmdCpu::init(AmdForm::Limited, AmdMode::Active, &platform, &register).map_err(refused)?;
    if caps.highest_perf > 255 {
        return Err(no_cppc());
    }
    let preference = preference(&policy.epp)?;
    if policy.no_turbo && cpu.boost_supported {
        cpu.set_boost(false).map_err(refused)?;
    }
    cpu.set_policy(own, &mut register).map_err(refused)?;
    if own == PstatePolicy::Powersave {
        cpu.set_epp(preference.into(), &mut register).map_err(refused)?;
    }
    let max_khz = cpu.freqs.max_khz;
    let levels = HwpCaps {
        highest: caps.highest_perf,
        guaranteed: caps.nominal_perf,
        most_efficient: caps.lowest_nonlinear_perf,
        lowest: caps.lowest_perf,
    };
    let mut hwp = Hwp::new(levels, (max_khz / caps.highest_perf).max(1), now_ns);
    let request = register;
    hwp.request = HwpRequest(0)
        .with_min(request.min().into())
        .with_max(request.max().into())
        .with_desired(request.desired().into())
        .with_epp(request.epp().into());
    Ok(hwp)
}

/// The preference that a policy names: empty, one of sysfs's names, or a number.
fn preference(epp: &str) -> Result<u8, CaseError> {
    let named = ENERGY_PERF_STRINGS.iter().zip(AMD_EPP_VALUES).skip(1).find(|&(&name, _)| name == epp);
    let value = match (epp, named) {
        ("" | "default", _) => Some(EPP_AT_BOOT),
        (_, Some((_, value))) => Some(value),
        _ => epp.parse().ok(),
    };
    value.and_then(|value| u8::try_from(value).ok()).ok_or_else(|| {
        CaseError(format!("epp is {epp:?}; it is 0 to 255 or one of {}", ENERGY_PERF_STRINGS.join(", ")))
    })
}
