//! The fair class's run queue from 6.6 on: earliest eligible virtual deadline first (kernel/sched/fair.c, v6.12).
//!
//! An entity is eligible while it received no more service than its share, that is while its vruntime is not beyond the weighted
//! average V of all queued ones; of the eligible ones the earliest deadline runs. A queue keeps, relative to `zero_vruntime` z,
//!
//! ```text
//! avg_vruntime = sum((v_i - z) * w_i)     avg_load = sum(w_i)     over what waits; the running entity is added when needed
//! V = z + avg_vruntime / avg_load         lag_i = V - v_i         w_i = weight / 1024
//! ```
//!
//! One queue: a CPU's root queue or that of a task group on a CPU. An entity may stand for a group's queue; who walks the hierarchy
//! keeps the counts of tasks (`h_nr_*`) above the level where a task is. The features are the kernel's defaults: `PLACE_LAG`,
//! `PLACE_DEADLINE_INITIAL`, `PLACE_REL_DEADLINE`, `RUN_TO_PARITY`, `PREEMPT_SHORT`, `DELAY_DEQUEUE`, `DELAY_ZERO`,
//! `PICK_BUDDY`, `WAKEUP_PREEMPTION`; without `NEXT_BUDDY`; three can be switched ([`EevdfFeatures`]). Load averages and
//! utilisation estimates are the caller's: they do not influence the order. All sums and products wrap as 64-bit arithmetic does; divisors are cut to 32 signed bits, as `div_s64()`.

use super::entity::{SchedEntity, is_before, runs_entities};
use super::timeline::{Entry, Timeline};
use super::weight::{LoadWeight, calc_delta_fair, scale_load_down};

/// Where `zero_vruntime` (or `min_vruntime`) of a new queue starts: 2^20 ns before zero, so that wrapping is soon met.
pub const INITIAL_VRUNTIME: u64 = 0u64.wrapping_sub(1 << 20);

/// How an entity enters the queue (`ENQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueue {
    /// It wakes up.
    pub wakeup: bool,
    /// It is new (`ENQUEUE_INITIAL`).
    pub initial: bool,
    /// It comes from another CPU: it is not cache-hot.
    pub migrated: bool,
}

/// How an entity leaves the queue (`DEQUEUE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dequeue {
    /// It goes to sleep.
    pub sleep: bool,
    /// Its state tolerates no spurious wake-up: it leaves at once.
    pub special: bool,
    /// The pick found it delayed and finishes its dequeue.
    pub delayed: bool,
}

/// One CPU's fair run queue (`struct cfs_rq`).
#[derive(Clone, Debug)]
pub struct EevdfRq {
    timeline: Timeline,
    /// The running entity; it is not in the timeline.
    pub curr: Option<u32>,
    /// The entity that `yield_to()` or `NEXT_BUDDY` asked for.
    pub next: Option<u32>,
    /// Queued entities, the running and the delayed ones included (`nr_queued`).
    pub nr_queued: u32,
    /// Queued tasks, here and in groups below (`h_nr_queued`).
    pub h_nr_queued: u32,
    /// Those that sleep (`h_nr_queued - h_nr_runnable`).
    pub h_nr_delayed: u32,
    /// Those of the policy `SCHED_IDLE` or in idle groups (`h_nr_idle`).
    pub idle_h_nr: u32,
    /// Time that its entities ran, ns.
    pub exec_ns: u64,
    /// The sum of the weights of all queued entities.
    pub load: LoadWeight,
    /// `sum((v_i - z) * w_i)` over the timeline.
    pub avg_vruntime: i64,
    /// `sum(w_i)` over the timeline.
    pub avg_load: i64,
    /// z, the point that virtual times are measured from.
    pub zero_vruntime: u64,
    /// The current task should be replaced (`TIF_NEED_RESCHED`). Set here; cleared by whoever schedules.
    pub need_resched: bool,
    /// `sysctl_sched_base_slice`, ns.
    pub base_slice_ns: u64,
    /// `TICK_NSEC`.
    pub tick_ns: u64,
    /// What may be switched in debugfs.
    pub features: EevdfFeatures,
}

/// Features of the scheduler (kernel/sched/features.h, v6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EevdfFeatures {
    /// A task that runs and is eligible keeps the CPU to the end of its request.
    pub run_to_parity: bool,
    /// Who wakes runs next if it is eligible.
    pub next_buddy: bool,
    /// Who wakes may preempt another.
    pub wakeup_preemption: bool,
}

impl Default for EevdfFeatures {
    fn default() -> Self {
        Self { run_to_parity: true, next_buddy: false, wakeup_preemption: true }
    }
}

/// The sum and the weight of everything that is queued, to ask for eligibility many times.
#[derive(Clone, Copy)]
struct Average {
    sum: i64,
    weight: i64,
    zero: u64,
}

impl Average {
    /// kernel/sched/fair.c:`vruntime_eligible()`, v6.12: a comparison of products, without the loss of a division.
    #[inline]
    fn is_eligible(self, vruntime: u64) -> bool {
        self.sum >= (vruntime.wrapping_sub(self.zero) as i64).wrapping_mul(self.weight)
    }
}

/// `div_s64()` on 64-bit: the divisor is a signed 32-bit number; 0, which would fault, counts as 1.
#[inline]
fn div_s64(dividend: i64, divisor: i64) -> i64 {
    match i64::from(divisor as i32) {
        0 => dividend,
        divisor => dividend.wrapping_div(divisor),
    }
}

impl EevdfRq {
    runs_entities!();

    /// An empty queue. `base_slice_ns` is 0.7 ms * (1 + min(log2(CPUs), 3)) by default in 6.12.117, 0.75 ms in 6.12.0.
    pub fn new(base_slice_ns: u64, tick_ns: u64) -> Self {
        Self {
            timeline: Timeline::default(),
            curr: None,
            next: None,
            nr_queued: 0,
            h_nr_queued: 0,
            h_nr_delayed: 0,
            idle_h_nr: 0,
            exec_ns: 0,
            load: LoadWeight::default(),
            avg_vruntime: 0,
            avg_load: 0,
            zero_vruntime: INITIAL_VRUNTIME,
            need_resched: false,
            base_slice_ns,
            tick_ns,
            features: EevdfFeatures::default(),
        }
    }

    #[inline]
    fn key(&self, se: &SchedEntity) -> i64 {
        se.vruntime.wrapping_sub(self.zero_vruntime) as i64
    }

    #[inline(always)]
    fn timeline_add(&mut self, se: &[SchedEntity], id: u32) {
        let entity = &se[id as usize];
        let weight = scale_load_down(entity.load.weight) as i64;
        self.avg_vruntime = self.avg_vruntime.wrapping_add(self.key(entity).wrapping_mul(weight));
        self.avg_load = self.avg_load.wrapping_add(weight);
        self.timeline.insert(Entry { key: entity.deadline, vruntime: entity.vruntime, id });
    }

    #[inline(always)]
    fn timeline_remove(&mut self, se: &[SchedEntity], id: u32) {
        let entity = &se[id as usize];
        let weight = scale_load_down(entity.load.weight) as i64;
        self.timeline.remove(entity.deadline, id);
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.key(entity).wrapping_mul(weight));
        self.avg_load = self.avg_load.wrapping_sub(weight);
    }

    /// The sums with the running entity.
    #[inline]
    fn average(&self, se: &[SchedEntity]) -> Average {
        let (mut sum, mut weight) = (self.avg_vruntime, self.avg_load);
        if let Some(curr) = self.queued_curr(se) {
            let curr = &se[curr as usize];
            let curr_weight = scale_load_down(curr.load.weight) as i64;
            sum = sum.wrapping_add(self.key(curr).wrapping_mul(curr_weight));
            weight = weight.wrapping_add(curr_weight);
        }
        Average { sum, weight, zero: self.zero_vruntime }
    }

    /// V, rounded down; z moves there.
    ///
    /// kernel/sched/fair.c:`avg_vruntime()`, v6.12.117 (which keeps `zero_vruntime` where 6.12.0 keeps `min_vruntime`).
    #[inline]
    pub fn avg_vruntime(&mut self, se: &[SchedEntity]) -> u64 {
        let mut delta = 0;
        if self.avg_load != 0 {
            let Average { mut sum, weight, .. } = self.average(se);
            if sum < 0 {
                sum = sum.wrapping_sub(weight.wrapping_sub(1));
            }
            delta = div_s64(sum, weight);
        } else if let Some(curr) = self.queued_curr(se) {
            delta = self.key(&se[curr as usize]);
        }
        self.avg_vruntime = self.avg_vruntime.wrapping_sub(self.avg_load.wrapping_mul(delta));
        self.zero_vruntime = self.zero_vruntime.wrapping_add(delta as u64);
        self.zero_vruntime
    }

    /// Whether a queued entity has received no more than its share (`entity_eligible()`).
    #[inline]
    pub fn is_eligible(&self, se: &[SchedEntity], id: u32) -> bool {
        self.average(se).is_eligible(se[id as usize].vruntime)
    }

    /// The lag to `vruntime_avg`, limited to twice the slice or a tick (`entity_lag()`).
    fn entity_lag(&self, entity: &mut SchedEntity, vruntime_avg: u64) -> i64 {
        let lag = vruntime_avg.wrapping_sub(entity.vruntime) as i64;
        let limit = calc_delta_fair(entity.slice.wrapping_mul(2).max(self.tick_ns), &mut entity.load) as i64;
        if lag >= limit { limit } else { lag.max(limit.wrapping_neg()) }
    }

    /// Gives the entity a new deadline once its request is served (`update_deadline()`); whether it did.
    #[inline]
    fn update_deadline(&mut self, se: &mut [SchedEntity], id: u32) -> bool {
        let entity = &se[id as usize];
        if is_before(entity.vruntime, entity.deadline) {
            return false;
        }
        self.renew_deadline(se, id);
        true
    }

    #[inline(never)]
    fn renew_deadline(&mut self, se: &mut [SchedEntity], id: u32) {
        let entity = &mut se[id as usize];
        if !entity.custom_slice {
            entity.slice = self.base_slice_ns;
        }
        entity.deadline = entity.vruntime.wrapping_add(calc_delta_fair(entity.slice, &mut entity.load));
        self.avg_vruntime(se);
    }

    /// The running entity ran `delta_exec` ns. Asks for a reschedule when its request is served or when it lost its protection
    /// and is not eligible any more.
    #[inline(never)]
    fn charge(&mut self, se: &mut [SchedEntity], curr: u32, delta_exec: u64) -> u64 {
        let entity = &mut se[curr as usize];
        entity.vruntime = entity.vruntime.wrapping_add(calc_delta_fair(delta_exec, &mut entity.load));
        self.exec_ns += delta_exec;
        let renewed = self.update_deadline(se, curr);
        if self.nr_queued != 1 && (renewed || (!has_protected_slice(&se[curr as usize]) && !self.is_eligible(se, curr)))
        {
            self.need_resched = true;
            self.clear_buddy(curr);
        }
        delta_exec
    }

    #[inline]
    fn clear_buddy(&mut self, id: u32) {
        if self.next == Some(id) {
            self.next = None;
        }
    }

    /// Gives an entity that joins its vruntime and deadline: its old lag, blown up by what its joining takes from it.
    ///
    /// kernel/sched/fair.c:`place_entity()`, v6.12.
    fn place_entity(&mut self, se: &mut [SchedEntity], id: u32, initial: bool) {
        let vruntime_avg = self.avg_vruntime(se);
        let mut load = 0;
        if self.nr_queued != 0 {
            load = self.average(se).weight;
        }
        let entity = &mut se[id as usize];
        if !entity.custom_slice {
            entity.slice = self.base_slice_ns;
        }
        let mut vslice = calc_delta_fair(entity.slice, &mut entity.load);
        let mut lag = 0;
        if self.nr_queued != 0 {
            let joined = load.wrapping_add(scale_load_down(entity.load.weight) as i64);
            lag = div_s64(entity.vlag.wrapping_mul(joined), load);
        }
        entity.vruntime = vruntime_avg.wrapping_sub(lag as u64);
        if entity.rel_deadline {
            entity.deadline = entity.deadline.wrapping_add(entity.vruntime);
            entity.rel_deadline = false;
            return;
        }
        if initial {
            vslice /= 2;
        }
        entity.deadline = entity.vruntime.wrapping_add(vslice);
    }

    /// Adds an entity: a new one, one that wakes, moves here or comes back after a change of its parameters. If it is still
    /// queued, because it sleeps delayed, it is [`EevdfRq::requeue_delayed_entity`].
    ///
    /// kernel/sched/fair.c:`enqueue_task_fair()`, `enqueue_entity()`, v6.12.
    #[inline]
    pub fn enqueue(&mut self, se: &mut [SchedEntity], now: u64, id: u32, flags: Enqueue) {
        let is_curr = self.curr == Some(id);
        if se[id as usize].on_rq {
            if se[id as usize].sched_delayed {
                self.requeue_delayed_entity(se, id);
            }
            return;
        }
        if is_curr {
            self.place_entity(se, id, flags.initial);
        }
        self.update_curr(se, now);
        if !is_curr {
            self.place_entity(se, id, flags.initial);
        }
        let entity = &mut se[id as usize];
        self.load.add(entity.load.weight);
        self.nr_queued += 1;
        if !entity.is_group {
            self.h_nr_queued += 1;
            self.idle_h_nr += u32::from(entity.is_idle_policy());
            self.h_nr_delayed += u32::from(!flags.wakeup && entity.sched_delayed);
        }
        if flags.migrated {
            entity.exec_start = 0;
        }
        if !is_curr {
            self.timeline_add(se, id);
        }
        se[id as usize].on_rq = true;
    }

    /// Wakes an entity that sleeps delayed: it keeps a negative lag and loses a positive one.
    ///
    /// kernel/sched/fair.c:`requeue_delayed_entity()`, v6.12.
    pub fn requeue_delayed_entity(&mut self, se: &mut [SchedEntity], id: u32) {
        let is_curr = self.curr == Some(id);
        self.update_entity_lag(se, id);
        if se[id as usize].vlag > 0 {
            self.nr_queued -= 1;
            if !is_curr {
                self.timeline_remove(se, id);
            }
            se[id as usize].vlag = 0;
            self.place_entity(se, id, false);
            if !is_curr {
                self.timeline_add(se, id);
            }
            self.nr_queued += 1;
        }
        self.clear_delayed(&mut se[id as usize]);
    }

    fn clear_delayed(&mut self, entity: &mut SchedEntity) {
        entity.sched_delayed = false;
        self.h_nr_delayed = self.h_nr_delayed.wrapping_sub(u32::from(!entity.is_group));
    }

    fn update_entity_lag(&mut self, se: &mut [SchedEntity], id: u32) {
        let vruntime_avg = self.avg_vruntime(se);
        let entity = &mut se[id as usize];
        entity.vlag = self.entity_lag(entity, vruntime_avg);
    }

    /// Takes an entity out; `false` if it stays queued, delayed, because it sleeps with a debt.
    ///
    /// kernel/sched/fair.c:`dequeue_entities()`, `dequeue_entity()`, v6.12.
    ///
    /// # Panics
    /// If it is not queued.
    #[inline(always)]
    pub fn dequeue(&mut self, se: &mut [SchedEntity], now: u64, id: u32, flags: Dequeue) -> bool {
        assert!(se[id as usize].on_rq, "task {id} leaves a queue that it is not in");
        self.update_curr(se, now);
        self.clear_buddy(id);
        if !flags.delayed && flags.sleep && !flags.special && !self.is_eligible(se, id) {
            se[id as usize].sched_delayed = true;
            self.h_nr_delayed += u32::from(!se[id as usize].is_group);
            return false;
        }
        self.update_entity_lag(se, id);
        if self.curr != Some(id) {
            self.timeline_remove(se, id);
        }
        let entity = &mut se[id as usize];
        if !flags.sleep {
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
        }
        entity.on_rq = false;
        self.load.sub(entity.load.weight);
        self.nr_queued -= 1;
        if !entity.is_group {
            self.h_nr_queued -= 1;
            self.idle_h_nr -= u32::from(entity.is_idle_policy());
        }
        if flags.delayed {
            self.clear_delayed(entity);
            entity.vlag = entity.vlag.min(0);
        } else if !flags.sleep {
            self.h_nr_delayed -= u32::from(entity.sched_delayed && !entity.is_group);
        }
        true
    }

    /// The entity that should run: the running one while its slice is protected and it is eligible; else the earliest
    /// deadline among the eligible; `None` from an empty queue.
    ///
    /// kernel/sched/fair.c:`pick_eevdf()`, v6.12. The result may be an entity that sleeps delayed.
    #[inline]
    pub fn pick_eevdf(&self, se: &[SchedEntity]) -> Option<u32> {
        if self.nr_queued == 1 {
            return self.queued_curr(se).or_else(|| self.timeline.first().map(|entry| entry.id));
        }
        let average = self.average(se);
        let curr = self.queued_curr(se).filter(|&curr| average.is_eligible(se[curr as usize].vruntime));
        if let Some(curr) = curr
            && self.features.run_to_parity
            && has_protected_slice(&se[curr as usize])
        {
            return Some(curr);
        }
        match self.timeline.first_eligible(|vruntime| average.is_eligible(vruntime)) {
            None => curr,
            Some(best) => match curr {
                Some(curr) if is_before(se[curr as usize].deadline, best.key) => Some(curr),
                _ => Some(best.id),
            },
        }
    }

    /// What to run next. A delayed entity that is met is dequeued for good and reported to `blocked`.
    ///
    /// kernel/sched/fair.c:`pick_task_fair()`, v6.12.
    #[inline(always)]
    pub fn pick_task(
        &mut self,
        se: &mut [SchedEntity],
        now: u64,
        mut blocked: impl FnMut(&mut [SchedEntity], u32),
    ) -> Option<u32> {
        while self.nr_queued != 0 {
            let picked = self.pick_entity(se, now)?;
            if !se[picked as usize].sched_delayed {
                return Some(picked);
            }
            self.dequeue(se, now, picked, Dequeue { sleep: true, special: false, delayed: true });
            blocked(se, picked);
        }
        None
    }

    /// The next entity of this queue alone, delayed or not.
    ///
    /// kernel/sched/fair.c:`pick_next_entity()`, v6.12, with the `update_curr()` before it.
    #[inline(always)]
    pub fn pick_entity(&mut self, se: &mut [SchedEntity], now: u64) -> Option<u32> {
        if self.queued_curr(se).is_some() {
            self.update_curr(se, now);
        }
        match self.next {
            Some(next) if self.is_eligible(se, next) => Some(next),
            _ => self.pick_eevdf(se),
        }
    }

    /// Makes a queued entity the running one and protects its slice; `now` starts its running time.
    ///
    /// kernel/sched/fair.c:`set_next_entity()`, v6.12.
    #[inline(always)]
    pub fn set_next_entity(&mut self, se: &mut [SchedEntity], now: u64, id: u32) {
        self.clear_buddy(id);
        if se[id as usize].on_rq {
            self.timeline_remove(se, id);
            let entity = &mut se[id as usize];
            entity.vlag = entity.deadline as i64;
        }
        let entity = &mut se[id as usize];
        entity.exec_start = now;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        self.curr = Some(id);
    }

    /// Whether a woken entity should replace the running one; sets [`EevdfRq::need_resched`] if so.
    ///
    /// To be called only while a fair task runs; an idle CPU or another class decides without the queue.
    /// kernel/sched/fair.c:`check_preempt_wakeup_fair()`, v6.12.
    #[inline(always)]
    pub fn check_preempt_wakeup(&mut self, se: &mut [SchedEntity], now: u64, woken: u32) {
        let Some(curr) = self.curr else { return };
        if curr == woken {
            return;
        }
        if self.features.next_buddy && !se[woken as usize].sched_delayed {
            self.next = Some(woken);
        }
        if self.need_resched || !self.features.wakeup_preemption {
            return;
        }
        let curr_is_idle = se[curr as usize].is_idle_policy();
        let woken_is_idle = se[woken as usize].is_idle_policy();
        if curr_is_idle && !woken_is_idle {
            cancel_protected_slice(&mut se[curr as usize]);
            self.need_resched = true;
            return;
        }
        if curr_is_idle != woken_is_idle || se[woken as usize].policy != super::entity::FairPolicy::Normal {
            return;
        }
        self.update_curr(se, now);
        let (curr_se, woken_se) = (&se[curr as usize], &se[woken as usize]);
        if woken_se.slice < curr_se.slice {
            let average = self.average(se);
            if average.is_eligible(woken_se.vruntime)
                && (is_before(woken_se.deadline, curr_se.deadline) || !average.is_eligible(curr_se.vruntime))
            {
                cancel_protected_slice(&mut se[curr as usize]);
            }
        }
        if self.pick_eevdf(se) == Some(woken) {
            self.need_resched = true;
        }
    }

    /// The running task gives up the rest of its request, if it is eligible and not alone (`yield_task_fair()`, v6.12).
    /// `nr_running` counts the tasks of every class on the CPU. The caller schedules next.
    pub fn yield_task(&mut self, se: &mut [SchedEntity], now: u64, nr_running: u32) {
        let Some(curr) = self.curr else { return };
        if nr_running == 1 {
            return;
        }
        self.clear_buddy(curr);
        self.update_curr(se, now);
        if self.is_eligible(se, curr) {
            let entity = &mut se[curr as usize];
            entity.vruntime = entity.deadline;
            self.update_deadline(se, curr);
        }
    }

    /// The running task yields in favour of `to` (`yield_to_task_fair()`, v6.12); whether `to` was queued here.
    pub fn yield_to(&mut self, se: &mut [SchedEntity], now: u64, to: u32, nr_running: u32) -> bool {
        if !se[to as usize].on_rq {
            return false;
        }
        if !se[to as usize].is_idle_policy() {
            self.next = Some(to);
        }
        self.yield_task(se, now, nr_running);
        true
    }

    /// Changes an entity's weight and keeps its lag and the service that it is due until its deadline.
    ///
    /// `now` is `clock_task`. kernel/sched/fair.c:`reweight_entity()`, `reweight_eevdf()`, `reweight_task_fair()`, v6.12.
    /// The weights are multiplied with their scale. The load average is the caller's.
    pub fn reweight(&mut self, se: &mut [SchedEntity], now: u64, id: u32, load: LoadWeight) {
        let is_curr = self.curr == Some(id);
        let weight = load.weight as i64;
        if se[id as usize].on_rq {
            self.update_curr(se, now);
            let vruntime_avg = self.avg_vruntime(se);
            if !is_curr {
                self.timeline_remove(se, id);
            }
            let entity = &mut se[id as usize];
            let old_weight = entity.load.weight;
            self.load.sub(old_weight);
            if vruntime_avg != entity.vruntime {
                let lag = self.entity_lag(entity, vruntime_avg);
                let lag = div_s64(lag.wrapping_mul(old_weight as i64), weight);
                entity.vruntime = vruntime_avg.wrapping_sub(lag as u64);
            }
            let due = entity.deadline.wrapping_sub(vruntime_avg) as i64;
            let due = div_s64(due.wrapping_mul(old_weight as i64), weight);
            entity.deadline = vruntime_avg.wrapping_add(due as u64);
            entity.load = load;
            self.load.add(load.weight);
            if !is_curr {
                self.timeline_add(se, id);
            }
        } else {
            let entity = &mut se[id as usize];
            entity.vlag = div_s64(entity.vlag.wrapping_mul(entity.load.weight as i64), weight);
            entity.load = load;
        }
    }

    /// The steps around a change of a task's parameters: it leaves the queue and the CPU, `change` acts, and it comes back.
    ///
    /// kernel/sched/core.c:`set_user_nice()` and `__sched_setscheduler()`, v6.12 (`DEQUEUE_SAVE`, `ENQUEUE_RESTORE`).
    pub fn change_task(
        &mut self,
        se: &mut [SchedEntity],
        now: u64,
        id: u32,
        change: impl FnOnce(&mut Self, &mut [SchedEntity]),
    ) {
        let (queued, running) = (se[id as usize].on_rq, self.curr == Some(id));
        if queued {
            self.dequeue(se, now, id, Dequeue::default());
        }
        if running {
            self.put_prev_entity(se, now);
        }
        change(self, se);
        if queued {
            self.enqueue(se, now, id, Enqueue::default());
        }
        if running {
            self.set_next_entity(se, now, id);
        }
    }

    /// Gives a task its own slice, or the base slice with `None`; it holds from the next deadline on
    /// (`__setparam_fair()`, v6.12, which also limits it to 0.1 to 100 ms; the caller does that).
    pub fn set_slice(&self, entity: &mut SchedEntity, slice_ns: Option<u64>) {
        entity.custom_slice = slice_ns.is_some();
        entity.slice = slice_ns.unwrap_or(self.base_slice_ns);
    }
}

/// `protect_slice()`: the deadline is the one that the entity was picked with.
#[inline]
fn has_protected_slice(entity: &SchedEntity) -> bool {
    entity.vlag == entity.deadline as i64
}

#[inline]
fn cancel_protected_slice(entity: &mut SchedEntity) {
    if has_protected_slice(entity) {
        entity.vlag = (entity.deadline as i64).wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::entity::FairPolicy;
    use proptest::prelude::*;

    /// What must hold after every step.
    fn check(rq: &EevdfRq, se: &[SchedEntity]) {
        let queued: Vec<u32> = (0..se.len() as u32).filter(|&id| se[id as usize].on_rq).collect();
        assert_eq!(rq.nr_queued as usize, queued.len());
        let weights: u64 = queued.iter().map(|&id| se[id as usize].load.weight).sum();
        assert_eq!(rq.load.weight, weights);
        let delayed = queued.iter().filter(|&&id| se[id as usize].sched_delayed).count();
        assert_eq!(rq.h_nr_delayed as usize, delayed);
        let waiting: Vec<u32> = rq.waiting().collect();
        assert!(waiting.iter().all(|&id| se[id as usize].on_rq && rq.curr != Some(id)));
        assert!(
            waiting.is_sorted_by(|&one, &other| !is_before(se[other as usize].deadline, se[one as usize].deadline))
        );
        // Somebody is always owed something, and who is picked is eligible unless alone.
        match rq.pick_eevdf(se) {
            None => assert!(queued.is_empty()),
            Some(picked) => {
                assert!(queued.len() == 1 || rq.is_eligible(se, picked));
                let earlier = queued.iter().any(|&id| {
                    rq.is_eligible(se, id) && is_before(se[id as usize].deadline, se[picked as usize].deadline)
                });
                assert!(!earlier || rq.curr == Some(picked), "only a protected current task goes before a deadline");
            }
        }
    }

    proptest! {
        /// Random lives of up to 150 tasks on one queue: the counts add up and the pick keeps its promise.
        #[test]
        fn counts_add_up(ops in proptest::collection::vec((0u8..8, 0u32..150, 1u64..5_000_000), 1..400)) {
            let mut rq = EevdfRq::new(2_800_000, 1_000_000);
            let mut se = vec![SchedEntity::new(LoadWeight::of_nice(0), FairPolicy::Normal); 150];
            let mut now = 0;
            for (op, id, step) in ops {
                now += step;
                let queued = se[id as usize].on_rq;
                match op {
                    // One that was taken out while delayed comes back as it went.
                    0 | 1 => {
                        let wakeup = !se[id as usize].sched_delayed;
                        rq.enqueue(&mut se, now, id, Enqueue { wakeup, initial: op == 1, migrated: !wakeup });
                    }
                    2 if rq.queued_curr(&se).is_some() => {
                    let curr = rq.queued_curr(&se).unwrap_or(0);
                        rq.dequeue(&mut se, now, curr, Dequeue { sleep: true, ..Dequeue::default() });
                    }
                    3 if queued && rq.curr != Some(id) => {
                        rq.dequeue(&mut se, now, id, Dequeue::default());
                    }
                    4 => rq.change_task(&mut se, now, id, |rq, se| {
                        rq.reweight(se, now, id, LoadWeight::of_prio(step as usize % 40));
                    }),
                    5 if queued => rq.check_preempt_wakeup(&mut se, now, id),
                    6 => rq.yield_task(&mut se, now, rq.nr_queued),
                    _ => {
                        rq.update_curr(&mut se, now);
                    }
                }
                check(&rq, &se);
                if op == 2 || rq.need_resched || op == 7 {
                    let picked = rq.pick_task(&mut se, now, |se, id| assert!(!se[id as usize].on_rq));
                    rq.switch_to(&mut se, now, picked);
                    rq.need_resched = false;
                    check(&rq, &se);
                }
            }
        }
    }
}
