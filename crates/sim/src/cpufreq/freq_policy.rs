//! A cpufreq policy and who governs it.

use opplab_kernel::cpufreq::driver::{AmdMode, DriverKind, Governors};
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::governor::{self as kernel, GovernorSetup, Worker};
use opplab_kernel::cpufreq::intel_pstate::{ActiveCpu, HwpBoost, HwpRequest, PassiveCpu, PstatePolicy};
use opplab_model::governor::{governor_setup, start_governor};
use opplab_model::machine::{Cpufreq, Machine};
use opplab_model::policy::Policy;

use crate::cpufreq::amd::{AmdPassive, epp_and_source};
use crate::hardware::hwp::Hwp;
use crate::ids::{ClusterId, CpuId, PackageId, TaskId};
use crate::run::hooks::CustomGovernor;
use crate::{Case, CaseError};

/// Who decides the frequency of a policy.
pub(crate) enum Governor {
    /// One of the kernel's; taken out while it runs.
    Kernel {
        /// Who does the work that it queues.
        worker: Worker,
        /// Its state.
        state: Option<Box<dyn kernel::Governor>>,
    },
    /// Always one frequency, in kHz.
    Fixed(u32),
    /// The user's own.
    Custom(Box<CustomGovernor>),
    /// intel_pstate's own, without hardware P-states.
    Pstate(Box<ActiveCpu>),
    /// intel_pstate's own, with them.
    Hwp(Box<ActiveHwp>),
}

impl Governor {
    /// Whether it has one frequency, which the hardware is to keep (CPUFREQ_GOV_STRICT_TARGET).
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self, Self::Kernel { worker: Worker::Nobody, .. } | Self::Fixed(_))
    }

    /// Whether it is one that samples.
    pub(crate) fn samples(&self) -> bool {
        matches!(self, Self::Kernel { worker: Worker::Kworker, .. })
    }
}

/// A cpufreq policy: CPUs with one clock.
pub(crate) struct FreqPolicy {
    pub(crate) cluster: ClusterId,
    /// Package of its first CPU.
    pub(crate) package: PackageId,
    pub(crate) cpus: Vec<CpuId>,
    pub(crate) governor: Governor,
    /// policy->min and policy->max.
    pub(crate) limits: FreqLimits,
    /// policy->cur.
    pub(crate) cur_khz: u32,
    /// What the hardware is on its way to.
    pub(crate) switching_khz: Option<u32>,
    /// What the hardware has answered and the kthread that waits for it has not seen yet.
    pub(crate) answered_khz: Option<u32>,
    /// The last decision that the hardware has not been asked for yet, and the one that it is on its way to; known to records only.
    pub(crate) decided_ns: Option<u64>,
    pub(crate) switching_for_ns: Option<u64>,
    /// The operating point that the hardware is asked for.
    pub(crate) wanted: u32,
    /// schedutil's thread.
    pub(crate) kthread: Option<TaskId>,
    /// Who takes the samples of ondemand and conservative.
    pub(crate) kworker: Option<TaskId>,
    /// Hardware P-states, if they are on.
    pub(crate) hwp: Option<Hwp>,
    /// intel_cpufreq's state.
    pub(crate) passive: Option<PassiveCpu>,
    /// amd-pstate's state in passive and guided mode.
    pub(crate) amd: Option<AmdPassive>,
    pub(crate) changes: u64,
}

/// Builds the governor that `policy` names.
///
/// # Errors
/// [`CaseError`] if there is no such governor or a tunable's value is not one.
pub(crate) fn governor_of(policy: &Policy, setup: &GovernorSetup) -> Result<Governor, CaseError> {
    let state = start_governor(policy, setup)?;
    Ok(Governor::Kernel { worker: state.entry().worker, state: Some(state) })
}

/// What a case's cpufreq is made of, for those who explain a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpufreqFacts {
    /// The driver.
    pub driver: String,
    /// It sets frequencies in the scheduler's context, without a kthread.
    pub fast_switch: bool,
    /// schedutil's rate limit in us.
    pub rate_limit_us: u32,
    /// The energy-performance preference under amd-pstate's active mode, and whose it is.
    pub epp: Option<(u8, &'static str)>,
    /// The CPUs of each cpufreq policy, and its cluster.
    pub policies: Vec<(u32, Vec<u32>)>,
}

/// The cpufreq facts of `case`.
///
/// # Errors
/// [`CaseError`] if the policy names something that does not exist.
pub fn cpufreq_facts(case: &Case) -> Result<CpufreqFacts, CaseError> {
    if case.machine.driver(&case.policy.driver).is_none() {
        return Err(CaseError(format!("machine {} has no driver {:?}", case.machine.name, case.policy.driver)));
    }
    let driver = driver_of(&case.machine, &case.policy);
    let setup = governor_setup(&case.machine, &driver, &case.policy, 0, 1)?;
    let given = setup.tunable(case.policy.governor_id()?.entry(), "rate_limit_us");
    let epp = match driver.driver.kind {
        DriverKind::Amd(AmdMode::Active) => {
            Some(epp_and_source(&case.policy, &case.policy.profile()?, case.machine.pm_profile)?)
        }
        _ => None,
    };
    Ok(CpufreqFacts {
        epp,
        driver: driver.driver.name.to_owned(),
        fast_switch: driver.fast_switch,
        rate_limit_us: given.map_err(|error| CaseError(error.to_string()))?.unwrap_or_else(|| setup.rate_limit_us()),
        policies: case.machine.policies(),
    })
}

/// A CPU under the driver's own governor with HWP.
#[derive(Debug)]
pub(crate) struct ActiveHwp {
    /// The request without boost.
    pub(super) cached: HwpRequest,
    pub(super) boost: Option<HwpBoost>,
    /// Whether waking up from I/O counts, not only placement on an idle CPU.
    pub(super) io: bool,
}

impl ActiveHwp {
    /// A driver that does not boost.
    pub(crate) fn without_boost(cached: HwpRequest) -> Self {
        Self { cached, boost: None, io: false }
    }
}

/// The driver that `policy` names; the machine's own, if none: of two modes the one that has the governor.
pub fn driver_of(machine: &Machine, policy: &Policy) -> Cpufreq {
    let own = machine.driver(&policy.driver).expect("check_case() has refused other drivers");
    let generic = PstatePolicy::named(&policy.governor).is_none();
    let passive = match own.driver.governors {
        Governors::Own { passive } => machine.driver(passive),
        Governors::Any => None,
    };
    passive.filter(|_| policy.driver.is_empty() && generic).unwrap_or(own).clone()
}
