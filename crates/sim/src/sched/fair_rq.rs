//! The fair class's queue of one CPU: EEVDF or CFS, as the kernel profile has it, and what it keeps of a task.

use opplab_kernel::sched::cfs::CfsRq;
use opplab_kernel::sched::eevdf::EevdfRq;
use opplab_kernel::sched::entity::{FairPolicy, SchedEntity};
use opplab_model::workload::SchedPolicy;

use crate::ids::TaskId;

/// The queue of one CPU, in the order of the kernel profile.
pub(crate) enum FairRq {
    /// From v6.6.
    Eevdf(EevdfRq),
    /// Up to v6.5.
    Cfs(CfsRq),
}

impl FairRq {
    pub(crate) fn curr(&self) -> Option<TaskId> {
        match self {
            Self::Eevdf(rq) => rq.curr.map(TaskId),
            Self::Cfs(rq) => rq.curr.map(TaskId),
        }
    }

    /// Queued tasks, running and delayed ones included.
    pub(crate) fn nr_queued(&self) -> u32 {
        match self {
            Self::Eevdf(rq) => rq.nr_queued,
            Self::Cfs(rq) => rq.nr_queued,
        }
    }

    /// Queued tasks that are asleep (DELAY_DEQUEUE).
    pub(crate) fn nr_delayed(&self) -> u32 {
        match self {
            Self::Eevdf(rq) => rq.h_nr_delayed,
            Self::Cfs(_) => 0,
        }
    }

    pub(crate) fn load_weight(&self) -> u64 {
        match self {
            Self::Eevdf(rq) => rq.load.weight,
            Self::Cfs(rq) => rq.load.weight,
        }
    }

    /// Queued tasks of the policy SCHED_IDLE.
    pub(crate) fn idle_h_nr(&self) -> u32 {
        match self {
            Self::Eevdf(rq) => rq.idle_h_nr,
            Self::Cfs(rq) => rq.idle_h_nr,
        }
    }

    pub(super) fn take_resched(&mut self) -> bool {
        match self {
            Self::Eevdf(rq) => std::mem::take(&mut rq.need_resched),
            Self::Cfs(rq) => std::mem::take(&mut rq.need_resched),
        }
    }
}

/// The fair class's view of a task with `policy`.
pub(crate) fn entity_of(policy: SchedPolicy, weight: u64) -> SchedEntity {
    use opplab_kernel::sched::weight::LoadWeight;
    let (load, fair) = match policy {
        SchedPolicy::Batch { nice } => (LoadWeight::of_nice(nice.into()), FairPolicy::Batch),
        SchedPolicy::Other { nice } => (LoadWeight::of_nice(nice.into()), FairPolicy::Normal),
        SchedPolicy::Idle => (LoadWeight::IDLE, FairPolicy::Idle),
        _ => (LoadWeight::new(weight), FairPolicy::Normal),
    };
    SchedEntity::new(load, fair)
}
