//! The fair class's run queue up to 6.5: the smallest vruntime runs (kernel/sched/fair.c, v5.10).
//!
//! Every entity should run once in a period, for a slice that is its share of the period by weight. A woken entity preempts if
//! its vruntime is behind by more than the wake-up granularity. `min_vruntime` never goes back; an entity that leaves without
//! sleeping carries its vruntime relative to it.
//!
//! One queue: a CPU's root queue or that of a task group on a CPU, as in [`super::eevdf`]; features as by default: `GENTLE_FAIR_SLEEPERS`, `START_DEBIT`,
//! `LAST_BUDDY`, `WAKEUP_PREEMPTION`, without `NEXT_BUDDY`. Load averages are the caller's. EEVDF is in [`super::eevdf`].

use super::eevdf::INITIAL_VRUNTIME;
use super::entity::{FairPolicy, SchedEntity, earlier, is_before, later, runs_entities};
use super::timeline::{Entry, Timeline};
use super::weight::{LoadWeight, calc_delta, calc_delta_fair};

/// The tunables of CFS (`/sys/kernel/debug/sched`, or `/proc/sys/kernel/sched_*_ns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfsTunables {
    /// `sched_latency_ns`: the period in which everyone runs once.
    pub latency_ns: u64,
    /// `sched_min_granularity_ns`: the shortest slice that a period is made of.
    pub min_granularity_ns: u64,
    /// `sched_wakeup_granularity_ns`: the lead that a running task keeps over a woken one.
    pub wakeup_granularity_ns: u64,
    /// `sched_nr_latency`: with more tasks the period grows (latency / min_granularity).
    pub nr_latency: u32,
    /// `sched_child_runs_first`.
    pub child_runs_first: bool,
}

impl CfsTunables {
    /// The defaults for a machine with `n_cpus`: 6, 0.75 and 1 ms times `1 + log2(min(CPUs, 8))` (`sched_tunable_scaling` 1).
    pub fn of_machine(n_cpus: u32) -> Self {
        let factor = u64::from(1 + n_cpus.clamp(1, 8).ilog2());
        Self {
            latency_ns: 6_000_000 * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: 1_000_000 * factor,
            nr_latency: 8,
            child_runs_first: false,
        }
    }

    /// The wake-up granularity in the virtual time of `entity` (`wakeup_gran()`).
    #[inline]
    pub fn wakeup_gran(&self, entity: &mut SchedEntity) -> u64 {
        calc_delta_fair(self.wakeup_granularity_ns, &mut entity.load)
    }

    /// Whether an entity should replace one of vruntime `curr_vruntime`: -1 it is not behind, 0 it is behind a little, 1 yes.
    ///
    /// kernel/sched/fair.c:`wakeup_preempt_entity()`, v5.10.
    #[inline]
    pub fn wakeup_preempt_entity(&self, curr_vruntime: u64, entity: &mut SchedEntity) -> i32 {
        let behind = curr_vruntime.wrapping_sub(entity.vruntime) as i64;
        if behind <= 0 {
            return -1;
        }
        i32::from(behind > self.wakeup_gran(entity) as i64)
    }
}

/// How an entity enters the queue (`ENQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// It wakes up.
    pub wakeup: bool,
    /// It comes from another CPU; its vruntime is relative.
    pub migrated: bool,
}

/// How an entity leaves the queue (`DEQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dequeue {
    /// It goes to sleep.
    pub sleep: bool,
    /// It will be put back at once, with other parameters.
    pub save: bool,
}

/// One CPU's fair run queue (`struct cfs_rq`).
#[derive(Clone, Debug)]
pub struct CfsRq {
    timeline: Timeline,
    /// The running entity; it is not in the timeline.
    pub curr: Option<u32>,
    /// The entity that should run next: it just woke and preempted, or somebody yielded to it.
    pub next: Option<u32>,
    /// The entity that was preempted by a wake-up and should come back.
    pub last: Option<u32>,
    /// The entity that yielded.
    pub skip: Option<u32>,
    /// Queued entities, the running one included.
    pub nr_queued: u32,
    /// Queued tasks, here and in groups below (`h_nr_running`).
    pub h_nr_queued: u32,
    /// Those of the policy `SCHED_IDLE` or in idle groups (`idle_h_nr_running`).
    pub idle_h_nr: u32,
    /// Time that its entities ran, ns.
    pub exec_ns: u64,
    /// The sum of the weights of all queued entities.
    pub load: LoadWeight,
    /// The virtual time that all entities have reached.
    pub min_vruntime: u64,
    /// The current task should be replaced (`TIF_NEED_RESCHED`). Set here; cleared by whoever schedules.
    pub need_resched: bool,
    /// The tunables.
    pub tunables: CfsTunables,
    /// The feature `WAKEUP_PREEMPTION`: who wakes may preempt another.
    pub wakeup_preemption: bool,
}

impl CfsRq {
    runs_entities!();

    /// An empty queue.
    pub fn new(tunables: CfsTunables) -> Self {
        Self {
            timeline: Timeline::default(),
            curr: None,
            next: None,
            last: None,
            skip: None,
            nr_queued: 0,
            h_nr_queued: 0,
            idle_h_nr: 0,
            exec_ns: 0,
            load: LoadWeight::default(),
            min_vruntime: INITIAL_VRUNTIME,
            need_resched: false,
            tunables,
            wakeup_preemption: true,
        }
    }

    #[inline]
    fn timeline_add(&mut self, se: &[SchedEntity], id: u32) {
        let vruntime = se[id as usize].vruntime;
        self.timeline.insert(Entry { key: vruntime, vruntime, id });
    }

    #[inline]
    fn timeline_remove(&mut self, se: &[SchedEntity], id: u32) {
        self.timeline.remove(se[id as usize].vruntime, id);
    }

    /// kernel/sched/fair.c:`update_min_vruntime()`, v5.10.
    #[inline]
    fn update_min_vruntime(&mut self, se: &[SchedEntity]) {
        let curr = self.queued_curr(se).map(|curr| se[curr as usize].vruntime);
        let first = self.timeline.first().map(|entry| entry.vruntime);
        let reached = match (curr, first) {
            (Some(curr), Some(first)) => earlier(curr, first),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return,
        };
        self.min_vruntime = later(self.min_vruntime, reached);
    }

    /// The running entity ran `delta_exec` ns.
    #[inline(never)]
    fn charge(&mut self, se: &mut [SchedEntity], curr: u32, delta_exec: u64) -> u64 {
        let entity = &mut se[curr as usize];
        entity.vruntime = entity.vruntime.wrapping_add(calc_delta_fair(delta_exec, &mut entity.load));
        self.exec_ns += delta_exec;
        self.update_min_vruntime(se);
        delta_exec
    }

    /// The wall time that the entity may run in one period.
    ///
    /// kernel/sched/fair.c:`sched_slice()`, `__sched_period()`, v5.10; an entity that is not queued is counted in.
    #[inline]
    pub fn sched_slice(&mut self, entity: &SchedEntity) -> u64 {
        let nr_running = self.nr_queued.wrapping_add(u32::from(!entity.on_rq));
        let period = if nr_running > self.tunables.nr_latency {
            u64::from(nr_running).wrapping_mul(self.tunables.min_granularity_ns)
        } else {
            self.tunables.latency_ns
        };
        if entity.on_rq {
            return calc_delta(period, entity.load.weight, &mut self.load);
        }
        let mut with_entity = self.load;
        with_entity.add(entity.load.weight);
        calc_delta(period, entity.load.weight, &mut with_entity)
    }

    /// Gives an entity that joins its vruntime, never an earlier one than it has (`place_entity()`, v5.10).
    fn place_entity(&mut self, entity: &mut SchedEntity, initial: bool) {
        let vruntime = if initial {
            let slice = self.sched_slice(entity);
            self.min_vruntime.wrapping_add(calc_delta_fair(slice, &mut entity.load))
        } else {
            self.min_vruntime.wrapping_sub(self.tunables.latency_ns >> 1)
        };
        entity.vruntime = later(entity.vruntime, vruntime);
    }

    /// Gives a forked task its vruntime, relative to this queue, which is that of its parent's CPU.
    ///
    /// kernel/sched/fair.c:`task_fork_fair()`, v5.10.
    pub fn task_fork_fair(&mut self, se: &mut [SchedEntity], now: u64, child: u32) {
        if let Some(curr) = self.curr {
            self.update_curr(se, now);
            se[child as usize].vruntime = se[curr as usize].vruntime;
        }
        self.place_entity(&mut se[child as usize], true);
        if self.tunables.child_runs_first
            && let Some(curr) = self.curr
            && is_before(se[curr as usize].vruntime, se[child as usize].vruntime)
        {
            let vruntime = se[curr as usize].vruntime;
            se[curr as usize].vruntime = se[child as usize].vruntime;
            se[child as usize].vruntime = vruntime;
            self.need_resched = true;
        }
        let entity = &mut se[child as usize];
        entity.vruntime = entity.vruntime.wrapping_sub(self.min_vruntime);
    }

    /// A task that wakes on another CPU leaves with its vruntime relative to this queue (`migrate_task_rq_fair()`, v5.10).
    pub fn migrate_sleeping(&self, entity: &mut SchedEntity) {
        entity.vruntime = entity.vruntime.wrapping_sub(self.min_vruntime);
        entity.exec_start = 0;
    }

    /// A sleeping task leaves for a queue of another group, where its vruntime is absolute again ([`Self::join_sleeping`]).
    ///
    /// kernel/sched/fair.c:`detach_task_cfs_rq()`, v5.10.
    pub fn leave_sleeping(&mut self, entity: &mut SchedEntity) {
        self.place_entity(entity, false);
        entity.vruntime = entity.vruntime.wrapping_sub(self.min_vruntime);
    }

    /// kernel/sched/fair.c:`attach_task_cfs_rq()`, v5.10.
    pub fn join_sleeping(&self, entity: &mut SchedEntity) {
        entity.vruntime = entity.vruntime.wrapping_add(self.min_vruntime);
    }

    /// Adds an entity: one that wakes, or one that is new, moves here or comes back after a change of its parameters.
    ///
    /// kernel/sched/fair.c:`enqueue_entity()`, v5.10.
    #[inline(always)]
    pub fn enqueue(&mut self, se: &mut [SchedEntity], now: u64, id: u32, flags: Enqueue) {
        if se[id as usize].on_rq {
            return;
        }
        let is_relative = !flags.wakeup || flags.migrated;
        let is_curr = self.curr == Some(id);
        let make_absolute = |rq: &Self, entity: &mut SchedEntity| {
            entity.vruntime = entity.vruntime.wrapping_add(rq.min_vruntime);
        };
        if is_relative && is_curr {
            make_absolute(self, &mut se[id as usize]);
        }
        self.update_curr(se, now);
        if is_relative && !is_curr {
            make_absolute(self, &mut se[id as usize]);
        }
        self.load.add(se[id as usize].load.weight);
        self.nr_queued += 1;
        if !se[id as usize].is_group {
            self.h_nr_queued += 1;
            self.idle_h_nr += u32::from(se[id as usize].is_idle_policy());
        }
        if flags.wakeup {
            self.place_entity(&mut se[id as usize], false);
        }
        if !is_curr {
            self.timeline_add(se, id);
        }
        se[id as usize].on_rq = true;
    }

    #[inline]
    fn clear_buddies(&mut self, id: u32) {
        for buddy in [&mut self.next, &mut self.last, &mut self.skip] {
            if *buddy == Some(id) {
                *buddy = None;
            }
        }
    }

    /// Takes an entity out.
    ///
    /// kernel/sched/fair.c:`dequeue_entity()`, v5.10.
    ///
    /// # Panics
    /// If it is not queued.
    #[inline(always)]
    pub fn dequeue(&mut self, se: &mut [SchedEntity], now: u64, id: u32, flags: Dequeue) {
        assert!(se[id as usize].on_rq, "task {id} leaves a queue that it is not in");
        self.update_curr(se, now);
        self.clear_buddies(id);
        if self.curr != Some(id) {
            self.timeline_remove(se, id);
        }
        let entity = &mut se[id as usize];
        entity.on_rq = false;
        self.load.sub(entity.load.weight);
        self.nr_queued -= 1;
        if !entity.is_group {
            self.h_nr_queued -= 1;
            self.idle_h_nr -= u32::from(entity.is_idle_policy());
        }
        if !flags.sleep {
            entity.vruntime = entity.vruntime.wrapping_sub(self.min_vruntime);
        }
        if !flags.save {
            self.update_min_vruntime(se);
        }
    }

    /// The tick: the running entity must go if its slice is used up, or if it is far ahead of the first waiting one.
    ///
    /// kernel/sched/fair.c:`entity_tick()`, `check_preempt_tick()`, v5.10. The lead in virtual time is compared with the slice
    /// in wall time, as the kernel does.
    #[inline]
    pub fn tick(&mut self, se: &mut [SchedEntity], now: u64) {
        self.update_curr(se, now);
        let Some(curr) = self.curr else { return };
        if self.nr_queued <= 1 {
            return;
        }
        let entity = se[curr as usize];
        let ideal_runtime = self.sched_slice(&entity);
        let delta_exec = entity.sum_exec_runtime.wrapping_sub(entity.prev_sum_exec_runtime);
        if delta_exec > ideal_runtime {
            self.need_resched = true;
            self.clear_buddies(curr);
            return;
        }
        if delta_exec < self.tunables.min_granularity_ns {
            return;
        }
        let Some(first) = self.timeline.first() else { return };
        let ahead = entity.vruntime.wrapping_sub(first.vruntime) as i64;
        if ahead >= 0 && ahead as u64 > ideal_runtime {
            self.need_resched = true;
        }
    }

    /// The entity that should run: the smallest vruntime, unless it yielded or a buddy is nearly as far behind.
    ///
    /// kernel/sched/fair.c:`pick_next_entity()`, v5.10.
    #[inline(always)]
    pub fn pick_task(&mut self, se: &mut [SchedEntity], now: u64) -> Option<u32> {
        if self.nr_queued == 0 {
            return None;
        }
        let curr = self.queued_curr(se);
        if curr.is_some() {
            self.update_curr(se, now);
        }
        let first = self.timeline.first().copied();
        let curr_or = |waiting: Option<Entry>| match (curr, waiting) {
            (Some(curr), Some(waiting)) if !is_before(se[curr as usize].vruntime, waiting.vruntime) => Some(waiting.id),
            (Some(curr), _) => Some(curr),
            (None, waiting) => waiting.map(|entry| entry.id),
        };
        let left = curr_or(first)?;
        let mut picked = left;
        let mut second = None;
        if self.skip == Some(left) {
            second =
                if curr == Some(left) { first.map(|entry| entry.id) } else { curr_or(self.timeline.second().copied()) };
        }
        let left_vruntime = se[left as usize].vruntime;
        // A buddy may replace the first one if it is not ahead by the granularity in the first one's time.
        let mut is_fair = |buddy: u32| {
            let buddy_vruntime = se[buddy as usize].vruntime;
            let mut first = SchedEntity { vruntime: left_vruntime, ..se[left as usize] };
            let result = self.tunables.wakeup_preempt_entity(buddy_vruntime, &mut first);
            se[left as usize].load = first.load;
            result < 1
        };
        if let Some(second) = second
            && is_fair(second)
        {
            picked = second;
        }
        if let Some(next) = self.next
            && is_fair(next)
        {
            picked = next;
        } else if let Some(last) = self.last
            && is_fair(last)
        {
            picked = last;
        }
        self.clear_buddies(picked);
        Some(picked)
    }

    /// Makes a queued entity the running one; `now` starts its running time (`set_next_entity()`, v5.10).
    #[inline(always)]
    pub fn set_next_entity(&mut self, se: &mut [SchedEntity], now: u64, id: u32) {
        if se[id as usize].on_rq {
            self.timeline_remove(se, id);
        }
        let entity = &mut se[id as usize];
        entity.exec_start = now;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        self.curr = Some(id);
    }

    /// Whether a woken entity should replace the running one; sets [`CfsRq::need_resched`] and the buddies if so.
    ///
    /// To be called only while a fair task runs. kernel/sched/fair.c:`check_preempt_wakeup()`, v5.10.
    #[inline(always)]
    pub fn check_preempt_wakeup(&mut self, se: &mut [SchedEntity], now: u64, woken: u32) {
        let Some(curr) = self.curr else { return };
        if curr == woken || self.need_resched || !self.wakeup_preemption && !se[curr as usize].is_idle_policy() {
            return;
        }
        let curr_is_idle = se[curr as usize].is_idle_policy();
        if !curr_is_idle || se[woken as usize].is_idle_policy() {
            if se[woken as usize].policy != FairPolicy::Normal {
                return;
            }
            self.update_curr(se, now);
            let curr_vruntime = se[curr as usize].vruntime;
            if self.tunables.wakeup_preempt_entity(curr_vruntime, &mut se[woken as usize]) != 1 {
                return;
            }
            self.set_next_buddy(se, woken);
        }
        self.need_resched = true;
        if se[curr as usize].on_rq && self.nr_queued >= self.tunables.nr_latency && !curr_is_idle {
            self.last = Some(curr);
        }
    }

    /// The entity should run next (`set_next_buddy()`, v5.10).
    pub fn set_next_buddy(&mut self, se: &[SchedEntity], id: u32) {
        if !se[id as usize].is_idle_policy() && se[id as usize].on_rq {
            self.next = Some(id);
        }
    }

    /// The running task lets the others go first, if it is not alone (`yield_task_fair()`, v5.10). `nr_running` counts the
    /// tasks of every class on the CPU. The caller schedules next.
    pub fn yield_task(&mut self, se: &mut [SchedEntity], now: u64, nr_running: u32) {
        let Some(curr) = self.curr else { return };
        if nr_running == 1 {
            return;
        }
        self.clear_buddies(curr);
        if se[curr as usize].policy != FairPolicy::Batch {
            self.update_curr(se, now);
        }
        self.skip = Some(curr);
    }

    /// Changes the weight of an entity; its virtual time stays (kernel/sched/fair.c:`reweight_entity()`, v5.10). The load average
    /// is the caller's.
    pub fn reweight(&mut self, se: &mut [SchedEntity], now: u64, id: u32, load: LoadWeight) {
        if se[id as usize].on_rq {
            if self.curr == Some(id) {
                self.update_curr(se, now);
            }
            self.load.sub(se[id as usize].load.weight);
            self.load.add(load.weight);
        }
        se[id as usize].load = load;
    }

    /// The steps around a change of a task's parameters: it leaves the queue and the CPU, `change` acts, and it comes back
    /// (kernel/sched/core.c:`set_user_nice()`, v5.10).
    pub fn change_task(&mut self, se: &mut [SchedEntity], now: u64, id: u32, change: impl FnOnce(&mut SchedEntity)) {
        let (queued, running) = (se[id as usize].on_rq, self.curr == Some(id));
        if queued {
            self.dequeue(se, now, id, Dequeue { sleep: false, save: true });
        }
        if running {
            self.put_prev_entity(se, now);
        }
        change(&mut se[id as usize]);
        if queued {
            self.enqueue(se, now, id, Enqueue::default());
        }
        if running {
            self.set_next_entity(se, now, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tunables_grow_with_the_logarithm_of_cpus() {
        assert_eq!(CfsTunables::of_machine(1).latency_ns, 6_000_000);
        assert_eq!(CfsTunables::of_machine(4).min_granularity_ns, 2_250_000);
        assert_eq!(CfsTunables::of_machine(512).wakeup_granularity_ns, 4_000_000);
    }

    proptest! {
        /// Random lives of up to 150 tasks: counts add up, `min_vruntime` never goes back, the order is kept.
        #[test]
        fn counts_add_up(ops in proptest::collection::vec((0u8..8, 0u32..150, 1u64..5_000_000), 1..400)) {
            let mut rq = CfsRq::new(CfsTunables::of_machine(4));
            let mut se = vec![SchedEntity::new(LoadWeight::of_nice(0), FairPolicy::Normal); 150];
            let mut now = 0;
            for (op, id, step) in ops {
                now += step;
                let (queued, before) = (se[id as usize].on_rq, rq.min_vruntime);
                match op {
                    0 | 1 => rq.enqueue(&mut se, now, id, Enqueue { wakeup: true, migrated: op == 1 }),
                    2 if rq.queued_curr(&se).is_some() => {
                    let curr = rq.queued_curr(&se).unwrap_or(0);
                        rq.dequeue(&mut se, now, curr, Dequeue { sleep: true, save: false });
                    }
                    3 if queued && rq.curr != Some(id) => rq.dequeue(&mut se, now, id, Dequeue::default()),
                    4 => rq.change_task(&mut se, now, id, |se| se.load = LoadWeight::of_prio(step as usize % 40)),
                    5 if queued => rq.check_preempt_wakeup(&mut se, now, id),
                    6 => rq.yield_task(&mut se, now, rq.nr_queued),
                    _ => rq.tick(&mut se, now),
                }
                if op == 2 || rq.need_resched || op == 7 {
                    let picked = rq.pick_task(&mut se, now);
                    prop_assert_eq!(picked.is_some(), rq.nr_queued != 0);
                    rq.switch_to(&mut se, now, picked);
                    rq.need_resched = false;
                }
                prop_assert!(!is_before(rq.min_vruntime, before));
                prop_assert_eq!(rq.nr_queued as usize, se.iter().filter(|entity| entity.on_rq).count());
                let weights: u64 = se.iter().filter(|entity| entity.on_rq).map(|entity| entity.load.weight).sum();
                prop_assert_eq!(rq.load.weight, weights);
                let waiting: Vec<u64> = rq.waiting().map(|id| se[id as usize].vruntime).collect();
                prop_assert!(waiting.is_sorted_by(|&one, &other| !is_before(other, one)));
            }
        }
    }
}
