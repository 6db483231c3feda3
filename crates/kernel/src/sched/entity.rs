//! What a run queue knows about one task: its weight, virtual times and flags (include/linux/sched.h: `struct sched_entity`).
//!
//! Entities live in one table, indexed by a dense task number; a run queue refers to them by that number. The same entity serves
//! [`super::eevdf`] and [`super::cfs`]. Its load average belongs to `pelt` and is kept elsewhere.

use super::weight::LoadWeight;

/// A task's scheduling policy within the fair class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FairPolicy {
    /// `SCHED_NORMAL`.
    #[default]
    Normal,
    /// `SCHED_BATCH`: does not preempt.
    Batch,
    /// `SCHED_IDLE`: yields to everything else.
    Idle,
}

/// The fair class's view of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedEntity {
    /// The weight and its inverse.
    pub load: LoadWeight,
    /// Running time scaled by the weight, ns. Compared with wrap-around.
    pub vruntime: u64,
    /// EEVDF: the virtual time by which the current slice should be served; a distance while `rel_deadline` is set.
    pub deadline: u64,
    /// EEVDF: the lag when the entity left the queue; while it runs, the deadline that protects its slice.
    pub vlag: i64,
    /// EEVDF: the request in ns.
    pub slice: u64,
    /// `clock_task` up to which the running time is accounted.
    pub exec_start: u64,
    /// Total running time, ns.
    pub sum_exec_runtime: u64,
    /// `sum_exec_runtime` when the entity was picked last.
    pub prev_sum_exec_runtime: u64,
    /// The policy.
    pub policy: FairPolicy,
    /// Queued or running.
    pub on_rq: bool,
    /// Sleeps, but stays queued until its lag is used up (6.12).
    pub sched_delayed: bool,
    /// `deadline` is relative to `vruntime`.
    pub rel_deadline: bool,
    /// `slice` was set by the user.
    pub custom_slice: bool,
    /// It stands for a task group's queue in its parent's (`!entity_is_task()`): who queues it counts the tasks below it.
    pub is_group: bool,
}

impl SchedEntity {
    /// An entity that was never queued.
    pub fn new(load: LoadWeight, policy: FairPolicy) -> Self {
        Self { load, policy, ..Self::default() }
    }

    /// Whether the policy is `SCHED_IDLE` (`task_has_idle_policy()`), or the group is idle (`se_is_idle()`).
    #[inline]
    pub fn is_idle_policy(&self) -> bool {
        self.policy == FairPolicy::Idle
    }

    /// Accounts the running time up to `now`; `None` if no time passed (`update_curr_se()`).
    #[inline]
    pub(crate) fn run_until(&mut self, now: u64) -> Option<u64> {
        let delta_exec = now.wrapping_sub(self.exec_start);
        if delta_exec as i64 <= 0 {
            return None;
        }
        self.exec_start = now;
        self.sum_exec_runtime = self.sum_exec_runtime.wrapping_add(delta_exec);
        Some(delta_exec)
    }
}

/// Whether the virtual time `one` is before `other`, as a signed distance.
#[inline]
pub(crate) fn is_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as i64) < 0
}

/// The later of two virtual times (`max_vruntime()`).
#[inline]
pub(crate) fn later(one: u64, other: u64) -> u64 {
    if is_before(one, other) { other } else { one }
}

/// The earlier of two virtual times (`min_vruntime()`).
#[inline]
pub(crate) fn earlier(one: u64, other: u64) -> u64 {
    if is_before(other, one) { other } else { one }
}

/// How both fair queues hold the running entity apart from those that wait in their `timeline`; a queue `charge()`s by its own rules.
macro_rules! runs_entities {
    () => {
        /// The waiting entities in order; the running one is not among them.
        #[inline(always)]
        pub fn waiting(&self) -> impl Iterator<Item = u32> {
            self.timeline.iter().map(|entry| entry.id)
        }

        /// The running entity if it is queued.
        #[inline(always)]
        fn queued_curr(&self, se: &[SchedEntity]) -> Option<u32> {
            self.curr.filter(|&curr| se[curr as usize].on_rq)
        }

        /// Accounts what the running entity ran since the last time; the ns that were added. `now` is `clock_task`.
        ///
        /// kernel/sched/fair.c:`update_curr()`, v5.10 and v6.12.
        #[inline(always)]
        pub fn update_curr(&mut self, se: &mut [SchedEntity], now: u64) -> u64 {
            let Some(curr) = self.curr else { return 0 };
            match se[curr as usize].run_until(now) {
                Some(delta_exec) => self.charge(se, curr, delta_exec),
                None => 0,
            }
        }

        /// The running entity stops; if it is still queued it waits again.
        ///
        /// kernel/sched/fair.c:`put_prev_entity()`, v5.10 and v6.12.
        #[inline(always)]
        pub fn put_prev_entity(&mut self, se: &mut [SchedEntity], now: u64) {
            let Some(curr) = self.curr else { return };
            if se[curr as usize].on_rq {
                self.update_curr(se, now);
                self.timeline_add(se, curr);
            }
            self.curr = None;
        }

        /// Switches from the running entity to `picked`, which came from `pick_task()`; nothing happens if it is the same.
        #[inline(always)]
        pub fn switch_to(&mut self, se: &mut [SchedEntity], now: u64, picked: Option<u32>) {
            if self.curr == picked {
                return;
            }
            self.put_prev_entity(se, now);
            if let Some(picked) = picked {
                self.set_next_entity(se, now, picked);
            }
        }
    };
}
pub(crate) use runs_entities;
