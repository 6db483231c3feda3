//! What a deadline task has beside the others: its budget, its timers, its bandwidth.

use opplab_kernel::sched::dl_entity::DlEntity;
use opplab_model::workload::SchedPolicy;

use crate::ids::CpuId;

/// What a task that is or was a deadline task has beside the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct DlRun {
    pub(crate) entity: DlEntity,
    /// The task clock up to which its running is charged.
    pub(super) exec_start: u64,
    /// When it is replenished.
    pub(super) timer_ns: u64,
    /// Where its inactive timer is armed.
    pub(crate) inactive_cpu: CpuId,
    /// Its bandwidth left the queue where it slept, and is in none until it is queued.
    pub(crate) has_left: bool,
    /// What it has of the bandwidth of all (dl_bw.total_bw).
    pub(crate) total_bw: u64,
    /// Bandwidth that others leave unused stretches its runtime (SCHED_FLAG_RECLAIM).
    pub(super) reclaims: bool,
    /// Its bandwidth is known to nobody, and counts nowhere.
    pub(crate) is_assumed: bool,
}

impl DlRun {
    /// What a task of `policy` begins with; nothing if it is no deadline task.
    pub(crate) fn of(policy: SchedPolicy, is_assumed: bool) -> Option<Box<Self>> {
        let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim } = policy else { return None };
        let entity = DlEntity::new(runtime_ns, deadline_ns, period_ns);
        Some(Box::new(Self { entity, is_assumed, reclaims: reclaim, ..Self::default() }))
    }
}
