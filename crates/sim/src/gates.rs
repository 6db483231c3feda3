//! What the kernel profile and the policy mean for the engine, decided once.

use opplab_kernel::util_est::UtilEstForm;

/// How a task's utilisation is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UtilEst {
    /// Not at all.
    None,
    /// One value a task (from v6.8).
    Single,
    /// Last activation and average (before v6.8).
    Pair(UtilEstForm),
}
