//! What the kernel profile and the policy mean for the engine, decided once.

use opplab_kernel::util_est::UtilEstForm;

/// How a task's utilisation is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UtilEst {
    /// One value a task (from v6.8).
    Single,
    /// Last activation and average (before v6.8).
    Pair(UtilEstForm),
}

use opplab_kernel::cpufreq::schedutil::SugovGates;
use opplab_kernel::eas::EasGates;
use opplab_kernel::energy_model::EmForm;
use opplab_model::policy::Policy;

use crate::CaseError;

/// Behaviour by kernel version that the engine asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gates {
    /// EEVDF (from v6.6) instead of CFS.
    pub(crate) eevdf: bool,
    pub(crate) util_est: UtilEst,
    pub(crate) sugov: SugovGates,
    /// schedutil's default rate limit as in v6.12.
    pub(crate) rate_limit_v6_12: bool,
    /// Which find_energy_efficient_cpu(); up to v5.19 with the 6 % margin.
    pub(crate) eas: EasGates,
    /// How energies are computed.
    pub(crate) em: EmForm,
    /// A task that leaves an idle CPU decays for the time that its queue was not updated (v5.19).
    pub(crate) migrate_pelt_lag: bool,
    /// Whether the kernel knows the frequency's share of the highest (arch_scale_freq_invariant()).
    pub(crate) freq_invariant: bool,
}

/// Kernel profiles that the engine knows, oldest first.
pub const KERNELS: [&str; 8] = ["4.17", "5.0", "5.9", "5.18", "6.1", "6.6", "6.12", "6.13"];

impl Gates {
    pub(crate) fn new(policy: &Policy) -> Result<Self, CaseError> {
        let Some(index) = KERNELS.iter().position(|&name| name == policy.kernel.trim_start_matches('v')) else {
            return Err(CaseError(format!(
                "unknown kernel profile {:?}; known: {}",
                policy.kernel,
                KERNELS.join(", ")
            )));
        };
        let util_est = match index {
            0 | 1 => UtilEst::Pair(UtilEstForm::V4_17),
            2 => UtilEst::Pair(UtilEstForm::V5_5),
            3 | 4 => UtilEst::Pair(UtilEstForm::V5_12),
            5 => UtilEst::Pair(UtilEstForm::V6_5),
            _ => UtilEst::Single,
        };
        let sugov = match index {
            0 => SugovGates::V4_17,
            1 | 2 => SugovGates::V5_10,
            3 | 4 => SugovGates::V5_18,
            5 => SugovGates::V6_6,
            _ => SugovGates::V6_12,
        };
        let (eas, em) = match index {
            0..=2 => (EasGates::V5_10, EmForm::V5_10),
            3 => (EasGates::V5_18, EmForm::V5_16),
            4 => (EasGates::V6_1, EmForm::V6_0),
            5 => (EasGates::V6_6, EmForm::V6_6),
            _ => (EasGates::V6_12, EmForm::V6_9),
        };
        Ok(Self {
            eevdf: index >= 5,
            util_est,
            sugov,
            rate_limit_v6_12: index >= 6,
            eas,
            em,
            migrate_pelt_lag: index >= 4,
            freq_invariant: policy.invariance != "none",
        })
    }
}
