//! The fair class's queue of one CPU: EEVDF or CFS, as the kernel profile has it, and what it keeps of a task.

use opplab_kernel::sched::attach::CfsFacts;
use opplab_kernel::sched::cfs::{CfsRq, Enqueue as CfsEnqueue};
use opplab_kernel::sched::eevdf::{EevdfRq, Enqueue as EevdfEnqueue};
use opplab_kernel::sched::entity::{FairPolicy, SchedEntity};
use opplab_kernel::sched::weight::LoadWeight;
use opplab_model::workload::SchedPolicy;

use crate::run::task::Enqueue;

/// The queue of one CPU, in the order of the kernel profile. It has a tag of its own, which takes one comparison.
#[repr(u8)]
pub(crate) enum FairRq {
    /// From v6.6.
    Eevdf(EevdfRq),
    /// Up to v6.5.
    Cfs(CfsRq),
}

/// Tasks that come to the counts of a queue, or leave them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) queued: i32,
    pub(crate) delayed: i32,
    pub(crate) idle: i32,
}

impl Count {
    pub(crate) fn less(self, other: Self) -> Self {
        let Self { queued, delayed, idle } = other;
        Self { queued: self.queued - queued, delayed: self.delayed - delayed, idle: self.idle - idle }
    }

    pub(crate) fn negated(self) -> Self {
        Self::default().less(self)
    }
}

macro_rules! either {
    ($self:expr, $rq:ident => $what:expr) => {
        match $self {
            Self::Eevdf($rq) => $what,
            Self::Cfs($rq) => $what,
        }
    };
}

impl FairRq {
    /// The entity that runs.
    pub(crate) fn curr(&self) -> Option<u32> {
        either!(self, rq => rq.curr)
    }

    /// Queued tasks, here and in groups below, running and delayed ones included.
    pub(crate) fn nr_queued(&self) -> u32 {
        either!(self, rq => rq.h_nr_queued)
    }

    /// Queued entities.
    pub(crate) fn nr_entities(&self) -> u32 {
        either!(self, rq => rq.nr_queued)
    }

    /// Time that its entities ran, ns.
    pub(crate) fn exec_ns(&self) -> u64 {
        either!(self, rq => rq.exec_ns)
    }

    /// What the averages of the queue follow from.
    #[inline]
    pub(crate) fn facts(&self) -> CfsFacts {
        let (load_weight, nr_runnable, has_curr) = match self {
            Self::Eevdf(rq) => (rq.load.weight, rq.h_nr_queued - rq.h_nr_delayed, rq.curr.is_some()),
            Self::Cfs(rq) => (rq.load.weight, rq.h_nr_queued, rq.curr.is_some()),
        };
        CfsFacts { load_weight, nr_runnable: u64::from(nr_runnable), has_curr }
    }

    pub(crate) fn counts(&self) -> Count {
        let (queued, delayed, idle) = (self.nr_queued() as i32, self.nr_delayed() as i32, self.idle_h_nr() as i32);
        Count { queued, delayed, idle }
    }

    /// Adds tasks that are in groups below.
    pub(crate) fn count(&mut self, count: Count) {
        let add = |value: &mut u32, more: i32| *value = value.wrapping_add_signed(more);
        match self {
            Self::Eevdf(rq) => {
                add(&mut rq.h_nr_queued, count.queued);
                add(&mut rq.h_nr_delayed, count.delayed);
                add(&mut rq.idle_h_nr, count.idle);
            }
            Self::Cfs(rq) => {
                add(&mut rq.h_nr_queued, count.queued);
                add(&mut rq.idle_h_nr, count.idle);
            }
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
        either!(self, rq => rq.load.weight)
    }

    /// Queued tasks of the policy SCHED_IDLE.
    pub(crate) fn idle_h_nr(&self) -> u32 {
        either!(self, rq => rq.idle_h_nr)
    }

    pub(super) fn take_resched(&mut self) -> bool {
        either!(self, rq => std::mem::take(&mut rq.need_resched))
    }

    /// The entity should run next.
    pub(super) fn set_next(&mut self, entity: u32) {
        either!(self, rq => rq.next = Some(entity));
    }

    #[inline]
    pub(super) fn enqueue(&mut self, se: &mut [SchedEntity], now: u64, entity: u32, kind: Enqueue) {
        let migrated = matches!(kind, Enqueue::WakeupMigrated | Enqueue::Migrated);
        let wakeup = matches!(kind, Enqueue::Wakeup | Enqueue::WakeupMigrated);
        match self {
            Self::Eevdf(rq) => {
                rq.enqueue(se, now, entity, EevdfEnqueue { wakeup, initial: kind == Enqueue::New, migrated })
            }
            Self::Cfs(rq) => {
                if kind == Enqueue::New {
                    rq.task_fork_fair(se, now, entity);
                }
                rq.enqueue(se, now, entity, CfsEnqueue { wakeup, migrated });
            }
        }
    }

    #[inline]
    pub(super) fn tick(&mut self, se: &mut [SchedEntity], now: u64) {
        match self {
            Self::Eevdf(rq) => _ = rq.update_curr(se, now),
            Self::Cfs(rq) => rq.tick(se, now),
        }
    }
}

/// What both queues do under one name.
macro_rules! of_both {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl FairRq {
            $(#[inline(always)]
            pub(super) fn $name(&mut self, $($arg: $type),*) $(-> $result)? {
                either!(self, rq => rq.$name($($arg),*))
            })*
        }
    };
}
of_both! {
    fn put_prev_entity(se: &mut [SchedEntity], now: u64);
    fn set_next_entity(se: &mut [SchedEntity], now: u64, id: u32);
    fn yield_task(se: &mut [SchedEntity], now: u64, nr_running: u32);
    fn check_preempt_wakeup(se: &mut [SchedEntity], now: u64, woken: u32);
    fn reweight(se: &mut [SchedEntity], now: u64, id: u32, load: LoadWeight);
    fn update_curr(se: &mut [SchedEntity], now: u64) -> u64;
}

/// The fair class's view of a task with `policy`.
pub(crate) fn entity_of(policy: SchedPolicy, weight: u64) -> SchedEntity {
    let (load, fair) = match policy {
        SchedPolicy::Batch { nice } => (LoadWeight::of_nice(nice.into()), FairPolicy::Batch),
        SchedPolicy::Other { nice } => (LoadWeight::of_nice(nice.into()), FairPolicy::Normal),
        SchedPolicy::Idle => (LoadWeight::IDLE, FairPolicy::Idle),
        _ => (LoadWeight::new(weight), FairPolicy::Normal),
    };
    SchedEntity::new(load, fair)
}
