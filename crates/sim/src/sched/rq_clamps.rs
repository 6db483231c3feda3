//! The utilisation clamps of a run queue.

use opplab_kernel::sched::placement::Clamps;
use opplab_kernel::uclamp::{UclampId, UclampRq};
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;
use opplab_model::workload::Op;

use crate::Case;

/// Whether a task, a group or a limit that is not the kernel's default (core.c:sysctl_sched_uclamp_handler()) clamps
/// utilisation.
pub(crate) fn asks_for_clamps(case: &Case) -> bool {
    let (workload, policy) = (&case.workload, &case.policy);
    let limits = [policy.sched_util_clamp_min, policy.sched_util_clamp_max, policy.sched_util_clamp_min_rt_default];
    workload.tasks.iter().any(|task| task.ops.iter().any(|op| matches!(op, Op::SetUclamp { .. })))
        || workload.groups.iter().any(|group| group.uclamp_min > 0 || group.uclamp_max < 1024)
        || limits.iter().any(|&limit| u64::from(limit) != SCHED_CAPACITY_SCALE)
}

/// The clamps of a run queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RqClamps {
    min: UclampRq,
    max: UclampRq,
    /// UCLAMP_FLAG_IDLE: the cap is that of the last task.
    pub(crate) idle: bool,
}

impl RqClamps {
    /// Idle, so that the first task's cap holds (core.c:init_uclamp_rq(), v5.16; before, a kthread had run first).
    pub(crate) fn new() -> Self {
        Self { min: UclampRq::new(UclampId::Min), max: UclampRq::new(UclampId::Max), idle: true }
    }

    /// What holds for the run queue.
    pub(crate) fn value(&self) -> Clamps {
        Clamps { min: self.min.value(), max: self.max.value(), ..Clamps::NONE }
    }

    pub(super) fn inc(&mut self, clamps: Clamps) {
        let was_idle = std::mem::take(&mut self.idle);
        self.min.inc(clamps.min, was_idle);
        self.max.inc(clamps.max, was_idle);
    }

    pub(super) fn dec(&mut self, clamps: Clamps) {
        self.min.dec(clamps.min);
        self.idle |= self.max.dec(clamps.max);
    }
}
