//! What proposals (crate `kernel`, `proposals`) keep of tasks and CPUs.

use opplab_kernel::proposals::task_iowait_boost::IoBoost;
use opplab_kernel::proposals::uclamp_sum::biased;
use opplab_kernel::proposals::util_burst::UtilBurst;

/// What proposals keep of a task.
#[derive(Debug, Default)]
pub(crate) struct TaskProposed {
    pub(super) io_boost: IoBoost,
    pub(super) util_burst: UtilBurst,
    /// When it last came to a queue, and what it had run until then.
    pub(super) came_us: u64,
    pub(super) ran_ns: u64,
    /// Its utilisation when it last slept.
    pub(super) util_at_sleep: u64,
    /// What it had run when its estimate was last looked at.
    pub(super) looked_ns: u64,
}

/// What proposals keep of a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuProposed {
    /// What the clamps of its queue's tasks add up to.
    pub(crate) util_bias: i64,
    /// The largest boost for I/O of its queue's tasks.
    pub(crate) io_util: u64,
}

impl CpuProposed {
    /// A fair utilisation as governors and placement take it.
    pub(crate) fn util(self, util: u64) -> u64 {
        if self.util_bias == 0 { util } else { biased(util, self.util_bias) }
    }
}
