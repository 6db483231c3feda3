//! How load tracking follows a task: birth, attaching to and detaching from run queues, task groups, sleeping migration
//! (kernel/sched/fair.c, v6.12).
//!
//! A run queue's averages are the sum of its entities', queued or sleeping. They decay together ([`crate::pelt`]); here are the
//! steps that add, remove and carry over. A group has an entity in its parent's queue on each CPU, whose averages copy those of
//! the group's own queue there.
//!
//! The kernel keeps averages from exceeding what the sums allow with `max_t(u32, ...)`, which cuts sums to 32 bits; so do we.
//! Not followed: bandwidth throttling, CPU hot-plug, and moving a task between groups.

use crate::pelt::{
    HalfLife, SchedAvg, SeFacts, get_pelt_divider, update_load_avg_blocked_se, update_load_avg_cfs_rq,
    update_load_avg_cfs_rq_scaled, update_load_avg_se,
};
use crate::pelt_scaled::Scales;
use crate::sched::weight::scale_load_down;
use crate::unit::{NSEC_PER_MSEC, SCHED_CAPACITY_SHIFT};

/// The smallest weight of a group's entity (`MIN_SHARES`).
const MIN_SHARES: i64 = 2;

/// What tasks that left while they slept take along at the queue's next update (`cfs_rq::removed`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many left.
    pub nr: u64,
    /// The sum of their `load_avg`.
    pub load_avg: u64,
    /// The sum of their `util_avg`.
    pub util_avg: u64,
    /// The sum of their `runnable_avg`.
    pub runnable_avg: u64,
}

/// The load tracking of one fair run queue: a CPU's root queue or a group's queue on a CPU (`struct cfs_rq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CfsAvg {
    /// The averages.
    pub avg: SchedAvg,
    /// Tasks that left while they slept.
    pub removed: Removed,
    /// A change waits to be carried to the group's entity.
    pub propagate: bool,
    /// The change of the runnable time to be carried, in time units.
    pub prop_runnable_sum: i64,
    /// What this queue reported to its group last (`tg_load_avg_contrib`).
    pub tg_load_avg_contrib: u64,
    /// When it did, in ns of the scheduler's clock.
    pub last_update_tg_load_avg: u64,
}

/// What a run queue's update needs to know about the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CfsFacts {
    /// The sum of the weights of its queued entities, at full resolution (`cfs_rq->load.weight`).
    pub load_weight: u64,
    /// Runnable tasks below it, those with a delayed dequeue excluded (`h_nr_runnable`).
    pub nr_runnable: u64,
    /// One of its entities runs.
    pub has_curr: bool,
}

/// `sub_positive()` on `unsigned long`.
#[inline]
fn sub_positive(value: &mut u64, less: u64) {
    *value = value.saturating_sub(less);
}

/// `sub_positive()` on `u32`: what is taken is cut to 32 bits first.
#[inline]
fn sub_positive_u32(value: &mut u32, less: u64) {
    *value = value.saturating_sub(less as u32);
}

/// `add_positive()` on 64 bits: only a negative addend is stopped at zero.
#[inline]
fn add_positive(value: &mut u64, more: i64) {
    let sum = value.wrapping_add(more as u64);
    *value = if more < 0 && sum > *value { 0 } else { sum };
}

/// `add_positive()` on 32 bits; the sum is cut before the comparison.
#[inline]
fn add_positive_u32(value: &mut u32, more: i64) {
    let sum = value.wrapping_add(more as u32);
    *value = if more < 0 && sum > *value { 0 } else { sum };
}

/// The least that a sum is for its average, both cut to 32 bits (`max_t(u32, sum, avg * PELT_MIN_DIVIDER)`).
#[inline]
fn at_least<H: HalfLife>(sum: u64, avg: u64) -> u32 {
    (sum as u32).max(avg.wrapping_mul(u64::from(H::MAX - 1024)) as u32)
}

/// `div_u64()`: the divisor has 32 bits; 0, which would fault, counts as 1.
#[inline]
fn div_u64(dividend: u64, divisor: u64) -> u64 {
    dividend.checked_div(u64::from(divisor as u32)).unwrap_or(dividend)
}

/// Whether nothing of an entity's history is left (`load_avg_is_decayed()`).
#[inline]
pub fn load_avg_is_decayed(sa: &SchedAvg) -> bool {
    sa.load_sum == 0 && sa.util_sum == 0 && sa.runnable_sum == 0
}

/// The averages of a new entity: a task looks heavy until its real load is known, a group is empty.
///
/// kernel/sched/fair.c:`init_entity_runnable_average()`, v6.12. `weight` is at full resolution.
pub fn init_entity_runnable_average(weight: u64, is_task: bool) -> SchedAvg {
    SchedAvg { load_avg: if is_task { scale_load_down(weight) } else { 0 }, ..SchedAvg::default() }
}

/// The first utilisation of a new fair task: what its weight promises on this queue, at most half of what is left.
///
/// ```text
/// cap      = (cpu_capacity - cfs.util_avg) / 2
/// util_avg = min(cap, cfs.util_avg * weight / (cfs.load_avg + 1)), cap on a queue without utilisation, 0 if cap <= 0
/// ```
///
/// kernel/sched/fair.c:`post_init_entity_util_avg()`, v6.12. A task of another class only gets the queue's time: set
/// `last_update_time` to `now` instead of calling this.
pub fn post_init_entity_util_avg(sa: &mut SchedAvg, weight: u64, cfs: &SchedAvg, cpu_capacity: u64) {
    let cap = cpu_capacity.wrapping_sub(cfs.util_avg) as i64 / 2;
    if cap > 0 {
        sa.util_avg = if cfs.util_avg != 0 {
            let promised = cfs.util_avg.wrapping_mul(scale_load_down(weight));
            promised.checked_div(cfs.load_avg.wrapping_add(1)).unwrap_or(promised).min(cap as u64)
        } else {
            cap as u64
        };
    }
    sa.runnable_avg = sa.util_avg;
}

impl CfsAvg {
    /// Notes a change of runnable time for the group's entity (`add_tg_cfs_propagate()`).
    #[inline]
    fn add_propagate(&mut self, runnable_sum: i64) {
        self.propagate = true;
        self.prop_runnable_sum = self.prop_runnable_sum.wrapping_add(runnable_sum);
    }

    /// Whether [`CfsAvg::update`] at `now` would change nothing.
    #[inline]
    pub fn is_current(&self, now: u64) -> bool {
        self.removed.nr == 0 && self.avg.is_current(now)
    }

    /// Whether [`CfsAvg::update`] at `now` would only add to sums.
    #[inline]
    pub fn ends_no_period(&self, now: u64) -> bool {
        self.removed.nr == 0 && self.avg.ends_no_period(now)
    }

    /// Takes out what left and decays the rest; true if anything changed. `now` is the queue's PELT clock.
    ///
    /// kernel/sched/fair.c:`update_cfs_rq_load_avg()`, v6.12.
    #[inline]
    pub fn update<H: HalfLife>(&mut self, now: u64, facts: CfsFacts) -> bool {
        let removed_any = self.removed.nr != 0;
        if removed_any {
            self.take_removed::<H>();
        }
        update_load_avg_cfs_rq::<H>(now, &mut self.avg, facts.load_weight, facts.nr_runnable, facts.has_curr)
            | removed_any
    }

    /// [`CfsAvg::update`] under scaled contributions, as before v5.1; `now` is the run queue's `clock_task`.
    #[inline]
    pub fn update_scaled<H: HalfLife>(&mut self, now: u64, facts: CfsFacts, scales: Scales) -> bool {
        let removed_any = self.removed.nr != 0;
        if removed_any {
            self.take_removed::<H>();
        }
        let CfsFacts { load_weight, nr_runnable, has_curr } = facts;
        update_load_avg_cfs_rq_scaled::<H>(now, &mut self.avg, load_weight, nr_runnable, has_curr, scales) | removed_any
    }

    fn take_removed<H: HalfLife>(&mut self) {
        let removed = std::mem::take(&mut self.removed);
        let sa = &mut self.avg;
        let divider = u64::from(get_pelt_divider::<H>(sa));
        sub_positive(&mut sa.load_avg, removed.load_avg);
        sub_positive(&mut sa.load_sum, removed.load_avg.wrapping_mul(divider));
        sa.load_sum = at_least::<H>(sa.load_sum, sa.load_avg).into();
        sub_positive(&mut sa.util_avg, removed.util_avg);
        sub_positive_u32(&mut sa.util_sum, removed.util_avg.wrapping_mul(divider));
        sa.util_sum = at_least::<H>(sa.util_sum.into(), sa.util_avg);
        sub_positive(&mut sa.runnable_avg, removed.runnable_avg);
        sub_positive(&mut sa.runnable_sum, removed.runnable_avg.wrapping_mul(divider));
        sa.runnable_sum = at_least::<H>(sa.runnable_sum, sa.runnable_avg).into();
        // The runnable average without weights estimates the load sum that goes.
        let gone = (removed.runnable_avg.wrapping_mul(divider) as i64).wrapping_neg();
        self.add_propagate(gone >> SCHED_CAPACITY_SHIFT);
    }

    /// Adds an entity's load (`enqueue_load_avg()`).
    #[inline]
    fn enqueue_load(&mut self, se: &SchedAvg, weight: u64) {
        self.avg.load_avg = self.avg.load_avg.wrapping_add(se.load_avg);
        self.avg.load_sum = self.avg.load_sum.wrapping_add(scale_load_down(weight).wrapping_mul(se.load_sum));
    }

    /// Takes an entity's load away (`dequeue_load_avg()`).
    #[inline]
    fn dequeue_load<H: HalfLife>(&mut self, se: &SchedAvg, weight: u64) {
        let sa = &mut self.avg;
        sub_positive(&mut sa.load_avg, se.load_avg);
        sub_positive(&mut sa.load_sum, scale_load_down(weight).wrapping_mul(se.load_sum));
        sa.load_sum = at_least::<H>(sa.load_sum, sa.load_avg).into();
    }

    /// Adds an entity that is new here; its sums are rebuilt for this queue's open period. The queue must be up to date.
    ///
    /// kernel/sched/fair.c:`attach_entity_load_avg()`, v6.12. The frequency governor is to be called afterwards.
    #[inline]
    pub fn attach<H: HalfLife>(&mut self, se: &mut SchedAvg, weight: u64) {
        let divider = u64::from(get_pelt_divider::<H>(&self.avg));
        se.last_update_time = self.avg.last_update_time;
        se.period_contrib = self.avg.period_contrib;
        se.util_sum = se.util_avg.wrapping_mul(divider) as u32;
        se.runnable_sum = se.runnable_avg.wrapping_mul(divider);
        se.load_sum = se.load_avg.wrapping_mul(divider);
        let se_weight = scale_load_down(weight);
        se.load_sum = if se_weight < se.load_sum { div_u64(se.load_sum, se_weight) } else { 1 };

        self.enqueue_load(se, weight);
        let sa = &mut self.avg;
        sa.util_avg = sa.util_avg.wrapping_add(se.util_avg);
        sa.util_sum = sa.util_sum.wrapping_add(se.util_sum);
        sa.runnable_avg = sa.runnable_avg.wrapping_add(se.runnable_avg);
        sa.runnable_sum = sa.runnable_sum.wrapping_add(se.runnable_sum);
        self.add_propagate(se.load_sum as i64);
    }

    /// Takes away an entity that leaves while the queue is up to date.
    ///
    /// kernel/sched/fair.c:`detach_entity_load_avg()`, v6.12. The frequency governor is to be called afterwards.
    #[inline]
    pub fn detach<H: HalfLife>(&mut self, se: &SchedAvg, weight: u64) {
        self.dequeue_load::<H>(se, weight);
        let sa = &mut self.avg;
        sub_positive(&mut sa.util_avg, se.util_avg);
        sub_positive_u32(&mut sa.util_sum, se.util_sum.into());
        sa.util_sum = at_least::<H>(sa.util_sum.into(), sa.util_avg);
        sub_positive(&mut sa.runnable_avg, se.runnable_avg);
        sub_positive(&mut sa.runnable_sum, se.runnable_sum);
        sa.runnable_sum = at_least::<H>(sa.runnable_sum, sa.runnable_avg).into();
        self.add_propagate((se.load_sum as i64).wrapping_neg());
    }

    /// A sleeping task leaves from elsewhere: it catches up with the queue's last update, and the queue notes what to take out.
    ///
    /// kernel/sched/fair.c:`remove_entity_load_avg()`, `sync_entity_load_avg()`, v6.12.
    #[inline]
    pub fn remove<H: HalfLife>(&mut self, se: &mut SchedAvg, weight: u64) {
        sync_entity_load_avg::<H>(se, weight, &self.avg);
        self.removed.nr = self.removed.nr.wrapping_add(1);
        self.removed.util_avg = self.removed.util_avg.wrapping_add(se.util_avg);
        self.removed.load_avg = self.removed.load_avg.wrapping_add(se.load_avg);
        self.removed.runnable_avg = self.removed.runnable_avg.wrapping_add(se.runnable_avg);
    }

    /// The load part of a change of an entity's weight (`reweight_entity()`, v6.12): its history counts with the new one.
    pub fn reweight<H: HalfLife>(&mut self, se: &mut SchedAvg, old_weight: u64, new_weight: u64) {
        self.dequeue_load::<H>(se, old_weight);
        let divider = u64::from(get_pelt_divider::<H>(se));
        se.load_avg = div_u64(scale_load_down(new_weight).wrapping_mul(se.load_sum), divider);
        self.enqueue_load(se, new_weight);
    }

    /// Reports this queue's load to the group, at most once a millisecond and only if it changed by more than 1/64.
    ///
    /// kernel/sched/fair.c:`update_tg_load_avg()`, v6.12; not for root queues. `now` is the scheduler's clock.
    #[inline]
    pub fn update_tg_load_avg(&mut self, tg_load_avg: &mut i64, now: u64) {
        if now.wrapping_sub(self.last_update_tg_load_avg) < NSEC_PER_MSEC {
            return;
        }
        let delta = self.avg.load_avg.wrapping_sub(self.tg_load_avg_contrib) as i64;
        if delta.unsigned_abs() > self.tg_load_avg_contrib / 64 {
            *tg_load_avg = tg_load_avg.wrapping_add(delta);
            self.tg_load_avg_contrib = self.avg.load_avg;
            self.last_update_tg_load_avg = now;
        }
    }

    /// The weight of a group's entity on this queue's CPU: the group's shares by this CPU's part of its load.
    ///
    /// kernel/sched/fair.c:`calc_group_shares()`, v6.12; `load_weight` is that of this (the group's) queue.
    pub fn calc_group_shares(&self, tg_shares: u64, tg_load_avg: i64, load_weight: u64) -> u64 {
        let tg_shares = tg_shares as i64;
        let load = scale_load_down(load_weight).max(self.avg.load_avg) as i64;
        let tg_weight = tg_load_avg.wrapping_sub(self.tg_load_avg_contrib as i64).wrapping_add(load);
        let mut shares = tg_shares.wrapping_mul(load);
        if tg_weight != 0 {
            shares = shares.wrapping_div(tg_weight);
        }
        shares.max(MIN_SHARES).min(tg_shares.max(MIN_SHARES)) as u64
    }

    /// Carries what changed in a group's queue to the group's entity and to the queue that this entity is in; false if nothing
    /// was waiting. `self` is the parent's queue.
    ///
    /// kernel/sched/fair.c:`propagate_entity_load_avg()`, `update_tg_cfs_util()`, `update_tg_cfs_runnable()`,
    /// `update_tg_cfs_load()`, v6.12.
    pub fn propagate<H: HalfLife>(
        &mut self,
        se: &mut SchedAvg,
        weight: u64,
        group: &mut CfsAvg,
        group_load_weight: u64,
    ) -> bool {
        if !std::mem::take(&mut group.propagate) {
            return false;
        }
        self.add_propagate(group.prop_runnable_sum);
        self.propagate_util::<H>(se, &group.avg);
        self.propagate_runnable::<H>(se, &group.avg);
        self.propagate_load::<H>(se, weight, group, group_load_weight);
        true
    }

    fn propagate_util<H: HalfLife>(&mut self, se: &mut SchedAvg, group: &SchedAvg) {
        let delta_avg = group.util_avg.wrapping_sub(se.util_avg) as i64;
        if delta_avg == 0 {
            return;
        }
        let sa = &mut self.avg;
        se.util_avg = group.util_avg;
        let new_sum = se.util_avg.wrapping_mul(get_pelt_divider::<H>(sa).into()) as u32;
        let delta_sum = i64::from(new_sum) - i64::from(se.util_sum);
        se.util_sum = new_sum;
        add_positive(&mut sa.util_avg, delta_avg);
        add_positive_u32(&mut sa.util_sum, delta_sum);
        sa.util_sum = at_least::<H>(sa.util_sum.into(), sa.util_avg);
    }

    fn propagate_runnable<H: HalfLife>(&mut self, se: &mut SchedAvg, group: &SchedAvg) {
        let delta_avg = group.runnable_avg.wrapping_sub(se.runnable_avg) as i64;
        if delta_avg == 0 {
            return;
        }
        let sa = &mut self.avg;
        se.runnable_avg = group.runnable_avg;
        let new_sum = se.runnable_avg.wrapping_mul(get_pelt_divider::<H>(sa).into());
        let delta_sum = new_sum.wrapping_sub(se.runnable_sum) as i64;
        se.runnable_sum = new_sum;
        add_positive(&mut sa.runnable_avg, delta_avg);
        add_positive(&mut sa.runnable_sum, delta_sum);
        sa.runnable_sum = at_least::<H>(sa.runnable_sum, sa.runnable_avg).into();
    }

    /// The load cannot be copied like the others, because a queue's sum has the weights of the past in it: runnable time that
    /// came is added, up to always; of what left every task is assumed to have been equally runnable.
    fn propagate_load<H: HalfLife>(
        &mut self,
        se: &mut SchedAvg,
        weight: u64,
        group: &mut CfsAvg,
        group_load_weight: u64,
    ) {
        let mut runnable_sum = std::mem::take(&mut group.prop_runnable_sum);
        if runnable_sum == 0 {
            return;
        }
        let sa = &mut self.avg;
        let divider = get_pelt_divider::<H>(sa);
        if runnable_sum >= 0 {
            runnable_sum = runnable_sum.wrapping_add(se.load_sum as i64).min(divider.into());
        } else {
            let group_weight = scale_load_down(group_load_weight);
            let load_sum = if group_weight == 0 { 0 } else { div_u64(group.avg.load_sum, group_weight) };
            runnable_sum = se.load_sum.min(load_sum) as i64;
        }
        // Running time is runnable time.
        runnable_sum = runnable_sum.max(i64::from(se.util_sum >> SCHED_CAPACITY_SHIFT));
        let se_weight = scale_load_down(weight);
        let load_sum = se_weight.wrapping_mul(runnable_sum as u64);
        let load_avg = load_sum / u64::from(divider);
        let delta_avg = load_avg.wrapping_sub(se.load_avg) as i64;
        if delta_avg == 0 {
            return;
        }
        let delta_sum = load_sum.wrapping_sub(se_weight.wrapping_mul(se.load_sum)) as i64;
        se.load_sum = runnable_sum as u64;
        se.load_avg = load_avg;
        add_positive(&mut sa.load_avg, delta_avg);
        add_positive(&mut sa.load_sum, delta_sum);
        sa.load_sum = at_least::<H>(sa.load_sum, sa.load_avg).into();
    }
}

/// A sleeping entity catches up with the last update of the queue that it belongs to.
///
/// kernel/sched/fair.c:`sync_entity_load_avg()`, v6.12.
#[inline]
pub fn sync_entity_load_avg<H: HalfLife>(se: &mut SchedAvg, weight: u64, cfs: &SchedAvg) {
    update_load_avg_blocked_se::<H>(cfs.last_update_time, se, weight);
}

/// Whether an update joins or leaves (`DO_ATTACH`, `DO_DETACH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Neither.
    No,
    /// An enqueue: an entity without a time stamp (`last_update_time` 0) is attached.
    Attach,
    /// The dequeue of a task that migrates.
    Detach,
}

/// What `update_load_avg()` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadChange {
    /// The averages of the queue changed: a root queue calls the frequency governor (`cfs_rq_util_change()`).
    pub util: bool,
    /// A group's queue reports to its group ([`CfsAvg::update_tg_load_avg`]): always after an attach or a detach, otherwise if the
    /// caller wants it (`UPDATE_TG`).
    pub moved: bool,
}

/// The queue behind a group's entity.
#[derive(Debug)]
pub struct GroupQueue<'a> {
    /// The group's own queue on this CPU.
    pub cfs: &'a mut CfsAvg,
    /// The sum of the weights in it, at full resolution.
    pub load_weight: u64,
}

/// Updates an entity's averages and those of the queue that it is in, carries over what waits in its own queue if it is a
/// group's entity, and attaches or detaches it.
///
/// kernel/sched/fair.c:`update_load_avg()`, v6.12. `now` is the queue's PELT clock.
#[inline]
pub fn update_load_avg<H: HalfLife>(
    now: u64,
    cfs: &mut CfsAvg,
    cfs_facts: CfsFacts,
    se: &mut SchedAvg,
    se_facts: SeFacts,
    group: Option<GroupQueue<'_>>,
    action: Move,
) -> LoadChange {
    if se.last_update_time != 0 {
        update_load_avg_se::<H>(now, se, se_facts);
    }
    let mut decayed = cfs.update::<H>(now, cfs_facts);
    if let Some(group) = group {
        decayed |= cfs.propagate::<H>(se, se_facts.weight, group.cfs, group.load_weight);
    }
    let moved = match action {
        Move::No => false,
        Move::Attach => se.last_update_time == 0,
        Move::Detach => true,
    };
    if moved && action == Move::Attach {
        cfs.attach::<H>(se, se_facts.weight);
    } else if moved {
        cfs.detach::<H>(se, se_facts.weight);
    }
    LoadChange { util: moved || decayed, moved }
}

/// Whether a sleeping group's entity has nothing to decay and nothing to receive (`skip_blocked_update()`, v6.12).
#[inline]
pub fn skip_blocked_update(se: &SchedAvg, group: &CfsAvg) -> bool {
    se.load_avg == 0 && se.util_avg == 0 && !group.propagate
}

/// What `migrate_se_pelt_lag()` knows about the CPU that a sleeping task leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagFacts {
    /// The CPU runs its idle task.
    pub is_idle: bool,
    /// PELT time lost by throttling when the queue became idle; `u64::MAX` while it is throttled.
    pub throttled_pelt_idle: u64,
    /// The CPU's PELT clock when it became idle (`rq->clock_pelt_idle`).
    pub clock_pelt_idle: u64,
    /// The CPU's clock when it became idle (`rq->clock_idle`).
    pub clock_idle: u64,
    /// The scheduler's clock.
    pub sched_clock: u64,
    /// The queue's last update.
    pub cfs_last_update_time: u64,
}

/// Decays a sleeping task that leaves an idle CPU, whose clocks stand still, by the time that passed since.
///
/// kernel/sched/fair.c:`migrate_se_pelt_lag()`, v6.12 (since v5.19). The time that passed counts in full, as if the CPU had run
/// at its highest frequency. A queue that was updated after the CPU became idle is taken as it is.
#[inline]
pub fn migrate_se_pelt_lag<H: HalfLife>(se: &mut SchedAvg, weight: u64, facts: &LagFacts) {
    if load_avg_is_decayed(se) || !facts.is_idle || facts.throttled_pelt_idle == u64::MAX {
        return;
    }
    let mut now = facts.clock_pelt_idle.wrapping_sub(facts.throttled_pelt_idle);
    if now < facts.cfs_last_update_time {
        now = facts.cfs_last_update_time;
    } else {
        now = now.wrapping_add(facts.sched_clock.wrapping_sub(facts.clock_idle));
    }
    update_load_avg_blocked_se::<H>(now, se, weight);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pelt::HalfLife32;
    use crate::sched::weight::NICE_0_LOAD;
    use proptest::prelude::*;

    #[test]
    fn new_tasks_share_the_capacity_that_is_left() {
        // The series of the kernel's own explanation, on an empty CPU of capacity 1024.
        let mut cfs = CfsAvg::default();
        let utils: Vec<u64> = (0..7)
            .map(|_| {
                let mut se = init_entity_runnable_average(NICE_0_LOAD, true);
                post_init_entity_util_avg(&mut se, NICE_0_LOAD, &cfs.avg, 1024);
                cfs.attach::<HalfLife32>(&mut se, NICE_0_LOAD);
                se.util_avg
            })
            .collect();
        assert_eq!(utils, [512, 256, 128, 64, 32, 16, 8]);
    }

    #[test]
    fn group_is_told_once_a_millisecond() {
        let (mut cfs, mut tg) = (CfsAvg::default(), 0);
        cfs.avg.load_avg = 640;
        cfs.update_tg_load_avg(&mut tg, NSEC_PER_MSEC);
        assert_eq!(tg, 640);
        cfs.avg.load_avg = 1280;
        cfs.update_tg_load_avg(&mut tg, 2 * NSEC_PER_MSEC - 1);
        assert_eq!(tg, 640, "too early");
        cfs.avg.load_avg = 650;
        cfs.update_tg_load_avg(&mut tg, 2 * NSEC_PER_MSEC);
        assert_eq!(tg, 640, "10 of 640 is not more than 1/64");
    }

    proptest! {
        /// A queue that everyone left is empty: averages of attached entities add up and come off again.
        #[test]
        fn detach_undoes_attach(loads in proptest::collection::vec((0u64..90_000, 0u64..1025, 0usize..40), 1..20)) {
            let mut cfs = CfsAvg::default();
            let mut entities = Vec::new();
            for (load_avg, util_avg, prio) in loads {
                let weight = crate::sched::weight::LoadWeight::of_prio(prio).weight;
                let mut se = SchedAvg { load_avg, util_avg, runnable_avg: util_avg, ..SchedAvg::default() };
                cfs.attach::<HalfLife32>(&mut se, weight);
                entities.push((se, weight));
            }
            prop_assert_eq!(cfs.avg.util_avg, entities.iter().map(|(se, _)| se.util_avg).sum::<u64>());
            for (se, weight) in &entities {
                cfs.detach::<HalfLife32>(se, *weight);
            }
            prop_assert_eq!((cfs.avg.util_avg, cfs.avg.runnable_avg, cfs.avg.load_avg), (0, 0, 0));
        }

        #[test]
        fn any_state_has_a_result(words: [u64; 24], small: [u32; 6], flag: bool) {
            let avg = |at: usize| SchedAvg {
                last_update_time: words[at], load_sum: words[at + 1], runnable_sum: words[at + 2], util_sum: small[at / 6],
                period_contrib: small[at / 6 + 1], load_avg: words[at + 3], runnable_avg: words[at + 4],
                util_avg: words[at + 5], util_est: 0,
            };
            let removed = Removed { nr: 1, load_avg: words[18], util_avg: words[19], runnable_avg: words[20] };
            let mut parent = CfsAvg { avg: avg(0), removed, prop_runnable_sum: words[21] as i64, ..CfsAvg::default() };
            let mut group = CfsAvg { avg: avg(6), propagate: flag, prop_runnable_sum: words[22] as i64, ..parent };
            let mut se = avg(12);
            let facts = CfsFacts { load_weight: words[23], nr_runnable: words[17], has_curr: flag };
            parent.update::<HalfLife32>(words[16], facts);
            prop_assert_eq!(parent.propagate::<HalfLife32>(&mut se, words[15], &mut group, words[14]), flag);
            group.attach::<HalfLife32>(&mut se, words[13]);
            group.reweight::<HalfLife32>(&mut se, words[13], words[12]);
            group.remove::<HalfLife32>(&mut se, words[12]);
            group.detach::<HalfLife32>(&se, words[11]);
            post_init_entity_util_avg(&mut se, words[0], &group.avg, words[1]);
            prop_assert!(group.calc_group_shares(words[2], words[3] as i64, words[4]) >= 2);
            group.update_tg_load_avg(&mut (words[5] as i64), words[6]);
        }
    }
}
