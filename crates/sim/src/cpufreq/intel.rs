//! intel_pstate in the engine: the driver's own governors with and without HWP, and passive mode under HWP.
//!
//! The decisions are crate `kernel`'s (`cpufreq::intel_pstate`); what the firmware makes of an HWP request is `hwp`'s.
//! Not here: intel_cpufreq without HWP, which to the engine is a driver without a frequency table.

use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::intel_pstate::{
    ActiveCpu, ENERGY_PERF_STRINGS, EnergyPerfPreference, EnergyPref, EppMemory, EppSetting, Globals,
    HWP_EPP_BALANCE_PERFORMANCE, HwpBoost, HwpRequest, INTEL_CPUFREQ_TRANSITION_DELAY_HWP_US,
    INTEL_CPUFREQ_TRANSITION_DELAY_US, IdlePlacementBoost, PassiveCpu, PerfLimits, PstateData, PstatePolicy, hwp_set,
    update_perf_limits,
};
use opplab_kernel::profile::{IntelAdjustPerf, IntelPassiveHwp};
use opplab_model::machine::{Cluster, Cpufreq, Machine};
use opplab_model::policy::Policy;
use opplab_model::policy_values::HwpDynamicBoost;

use crate::CaseError;
use crate::cpufreq::freq_policy::{ActiveHwp, Governor};
use crate::hardware::hwp::{Hwp, Preference, scaling_khz};
use crate::run::gates::Gates;

/// The firmware's preference at boot.
const EPP_AT_BOOT: i16 = HWP_EPP_BALANCE_PERFORMANCE as i16;

/// The driver of Intel's processors as a policy sets it up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntelSetup {
    active: bool,
    hwp: bool,
    adjust_perf: bool,
    pub(super) globals: Globals,
    boost: bool,
    idle_placement: Option<IdlePlacementBoost>,
    setting: EppSetting,
    preference: EnergyPerfPreference,
}

impl IntelSetup {
    /// The setup, if the driver is one of Intel's.
    ///
    /// # Errors
    /// [`CaseError`] if the policy asks for what the driver does not have.
    pub(crate) fn new(
        machine: &Machine,
        driver: &mut Cpufreq,
        policy: &Policy,
        gates: &Gates,
    ) -> Result<Option<Self>, CaseError> {
        let active = match driver.driver.kind {
            DriverKind::IntelActive => true,
            DriverKind::IntelPassive => false,
            _ if (policy.min_perf_pct, policy.max_perf_pct) != (0, 100) => {
                return Err(CaseError(String::from(
                    "min_perf_pct and max_perf_pct need a driver of Intel's, intel_pstate or intel_cpufreq",
                )));
            }
            _ if policy.idle_boost || policy.hwp_dynamic_boost == HwpDynamicBoost::On => {
                let message = "idle_boost and hwp_dynamic_boost need the driver intel_pstate";
                return Err(CaseError(String::from(message)));
            }
            _ => return Ok(None),
        };
        if active && PstatePolicy::named(&policy.governor).is_none() {
            return Err(CaseError(format!(
                "driver intel_pstate has the governors performance and powersave; {} needs driver intel_cpufreq",
                policy.governor
            )));
        }
        let profile = &gates.profile;
        let has_hwp = machine.clusters.iter().all(|cluster| cluster.hwp.is_some()) && !policy.no_hwp;
        let hwp = has_hwp && (active || profile.intel_passive_hwp == IntelPassiveHwp::On);
        if !active {
            driver.transition_delay_us =
                if hwp { INTEL_CPUFREQ_TRANSITION_DELAY_HWP_US } else { INTEL_CPUFREQ_TRANSITION_DELAY_US };
        }
        let model = machine.processor.as_ref().filter(|processor| processor.family == 6).map(|one| one.model);
        let boost = match policy.hwp_dynamic_boost {
            HwpDynamicBoost::Auto => profile.hwp_boost_default(machine.pm_profile.is_server(), model),
            HwpDynamicBoost::On => profile.hwp_dynamic_boost != opplab_kernel::profile::HwpDynamicBoost::Absent,
            HwpDynamicBoost::Off => false,
        };
        Ok(Some(Self {
            active,
            hwp,
            adjust_perf: !active && hwp && profile.intel_adjust_perf == IntelAdjustPerf::Levels,
            globals: Globals {
                no_turbo: policy.no_turbo,
                min_perf_pct: policy.min_perf_pct as i32,
                max_perf_pct: policy.max_perf_pct as i32,
                ..Globals::default()
            },
            boost: boost && active && hwp,
            idle_placement: (policy.idle_boost && active).then(IdlePlacementBoost::default),
            setting: epp_setting(&policy.epp)?,
            preference: match model {
                Some(model) => EnergyPerfPreference::of_model(EPP_AT_BOOT, model, profile.version),
                None => EnergyPerfPreference::new(EPP_AT_BOOT),
            },
        }))
    }

    /// Whether schedutil gives performance levels instead of frequencies.
    pub(crate) fn adjust_perf(&self) -> bool {
        self.adjust_perf
    }

    /// Whether placement on an idle CPU is reported to the governor.
    pub(crate) fn reports_idle_placement(&self) -> bool {
        self.idle_placement.is_some()
    }

    /// The P-states of a CPU of `cluster` and what the limits of its policy allow of them.
    fn pstates(&self, cluster: &Cluster, limits: FreqLimits, top_khz: u32) -> (PstateData, PerfLimits) {
        const BUS_KHZ: u32 = 100_000;
        let scaling = if self.hwp { scaling_khz(cluster, top_khz) } else { BUS_KHZ };
        let base_khz = cluster.reference_khz();
        let caps = cluster.hwp.filter(|_| self.hwp);
        let mut pstate = PstateData::core(
            (cluster.opps[0].khz / scaling) as i32,
            caps.map_or(base_khz / BUS_KHZ, |caps| caps.guaranteed) as i32,
            caps.map_or(top_khz / BUS_KHZ, |caps| caps.highest) as i32,
        );
        pstate.scaling = scaling as i32;
        let allowed = update_perf_limits(&pstate, &self.globals, limits.min_khz, limits.max_khz, self.hwp);
        (pstate, allowed)
    }

    /// The driver's own governor, if it has one, and the firmware's part of a policy, whose verified limits are `limits`.
    ///
    /// # Errors
    /// [`CaseError`] if another preference than performance is asked for under `performance`.
    pub(crate) fn start(
        &self,
        cluster: &Cluster,
        top_khz: u32,
        (policy, limits): (&Policy, FreqLimits),
        gates: &Gates,
        now_ns: u64,
    ) -> Result<Started, CaseError> {
        let (pstate, allowed) = self.pstates(cluster, limits, top_khz);
        let own = PstatePolicy::named(&policy.governor).unwrap_or(PstatePolicy::Powersave);
        let mut hwp = cluster
            .hwp
            .filter(|_| self.hwp)
            .map(|caps| Hwp::new(caps, scaling_khz(cluster, top_khz), Preference::INTEL, now_ns));
        let mut governor = None;
        if let Some(hwp) = &mut hwp {
            let by_firmware = cluster.hwp.map_or(0, |caps| caps.balance_performance as u8);
            let preference =
                if by_firmware == 0 { self.preference } else { self.preference.set_by_firmware(by_firmware) };
            let boot = HwpRequest(0).with_max(pstate.turbo_pstate).with_epp(preference.epp_default as u32);
            // Asked for before the governor is chosen; performance sets its own.
            let (boot, _) = preference
                .set(self.setting, PstatePolicy::Powersave, boot, EnergyPref::Epp)
                .map_err(|error| CaseError(error.to_string()))?;
            let own = if self.active { own } else { PstatePolicy::Powersave };
            let (request, _) = hwp_set(boot, EnergyPref::Epp, &allowed, own, &mut EppMemory::default());
            hwp.request = request;
            if self.active {
                let idle_placement = self.idle_placement;
                let wanted = (self.boost || idle_placement.is_some()) && own != PstatePolicy::Performance;
                let boost = wanted.then(|| HwpBoost { idle_placement, ..HwpBoost::default() });
                governor = Some(Governor::Hwp(Box::new(ActiveHwp { cached: request, boost, io: self.boost })));
            }
        } else if self.active {
            governor = Some(if own == PstatePolicy::Performance {
                let khz = allowed.max_perf_ratio.saturating_mul(pstate.scaling);
                Governor::Fixed(u32::try_from(khz).unwrap_or(0))
            } else {
                let mut cpu = ActiveCpu::new(pstate, allowed);
                cpu.iowait_form = gates.profile.intel_iowait_form();
                cpu.idle_placement = self.idle_placement;
                Governor::Pstate(Box::new(cpu))
            });
        }
        let passive = (!self.active).then(|| PassiveCpu {
            pstate,
            limits: allowed,
            current_pstate: pstate.min_pstate,
            hwp: hwp.as_ref().map(|hwp| hwp.request),
            form: gates.profile.intel_hwp_target,
        });
        let min_khz = u32::try_from(allowed.min_perf_ratio.saturating_mul(pstate.scaling)).unwrap_or(0);
        Ok(Started { governor, hwp, passive, min_khz })
    }
}

/// What [`IntelSetup::start`] makes.
pub(crate) struct Started {
    pub(crate) governor: Option<Governor>,
    pub(crate) hwp: Option<Hwp>,
    pub(crate) passive: Option<PassiveCpu>,
    /// The lowest P-state's.
    pub(crate) min_khz: u32,
}

/// The preference that a policy names: empty, one of sysfs's names, or a number.
fn epp_setting(epp: &str) -> Result<EppSetting, CaseError> {
    if epp.is_empty() {
        return Ok(EppSetting::Index(0));
    }
    let number = epp.parse().ok().filter(|&epp| epp <= 255).map(EppSetting::Raw);
    let named = ENERGY_PERF_STRINGS.iter().position(|&name| name == epp).map(EppSetting::Index);
    named.or(number).ok_or_else(|| {
        CaseError(format!("epp is {epp:?}; it is 0 to 255 or one of {}", ENERGY_PERF_STRINGS.join(", ")))
    })
}
