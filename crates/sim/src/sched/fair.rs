//! The fair class: run queues with PELT and util_est around them (kernel/sched/fair.c).
//!
//! The queue's own order (CFS or EEVDF) and the averages' arithmetic are crate `kernel`'s; here is when they are called.

use opplab_kernel::pelt::{HalfLife, SeFacts, update_load_avg_se, update_load_avg_se_scaled};
use opplab_kernel::sched::attach::{
    LagFacts, init_entity_runnable_average, migrate_se_pelt_lag, post_init_entity_util_avg, sync_entity_load_avg,
};
use opplab_kernel::sched::cfs::Dequeue as CfsDequeue;
use opplab_kernel::sched::eevdf::Dequeue;
use opplab_kernel::sched::entity::SchedEntity;
use opplab_kernel::util_est::{task_util_est, util_est_dequeue, util_est_enqueue, util_est_update};
use opplab_model::event::{Event, QueueChange, Sink};

use crate::ids::{CpuId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::gates::UtilEst;
use crate::run::task::{Class, Enqueue, Life};
use crate::sched::fair_rq::{FairRq, entity_of};
use crate::sched::groups::{cfs_of, fair_of};

/// What the averages of a task follow from.
#[inline]
fn task_facts(entity: &SchedEntity, running: bool) -> SeFacts {
    let runnable = u64::from(entity.on_rq && !entity.sched_delayed);
    SeFacts { weight: entity.load.weight, on_rq: entity.on_rq, runnable, running }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    // ---- averages ----

    /// fair.c:update_cfs_rq_load_avg(); returns whether the averages were computed again.
    #[inline(always)]
    pub(crate) fn update_cfs_rq_load_avg(&mut self, cpu: CpuId) -> bool {
        let state = &mut self.cpus[cpu];
        let now = state.clk.rq_clock_pelt();
        // Most updates follow another at the same instant, and most of the others another in the same period.
        if state.cfs.is_current(now) {
            return false;
        }
        if !state.cfs.ends_no_period(now) || self.gates.scaled_contribution {
            return self.update_old_cfs_rq_load_avg(cpu);
        }
        state.cfs.update::<H>(now, state.fair.facts())
    }

    #[inline(never)]
    fn update_old_cfs_rq_load_avg(&mut self, cpu: CpuId) -> bool {
        let state = &mut self.cpus[cpu];
        let now = state.clk.rq_clock_pelt();
        let facts = state.fair.facts();
        let decayed = if self.gates.scaled_contribution {
            let scales = state.scales();
            state.cfs.update_scaled::<H>(now, facts, scales)
        } else {
            state.cfs.update::<H>(now, facts)
        };
        if S::ENABLED && decayed {
            let cfs = &self.cpus[cpu].cfs.avg;
            let event = Event::PeltCfs {
                cpu: cpu.0,
                load_avg: cfs.load_avg as u32,
                runnable_avg: cfs.runnable_avg as u32,
                util_avg: cfs.util_avg as u32,
            };
            self.emit_signal(event);
        }
        decayed
    }

    /// fair.c:update_load_avg() of `task` on `cpu`'s queue; `attach`: DO_ATTACH.
    #[inline(always)]
    pub(crate) fn update_load_avg(&mut self, cpu: CpuId, task: TaskId, attach: bool) {
        if self.groups.any() {
            return self.update_entity_avg(cpu, self.entities.of_task(task), attach);
        }
        let state = &mut self.cpus[cpu];
        let now = state.clk.rq_clock_pelt();
        let sa = &mut self.tasks[task].sa;
        // Most updates follow another at the same instant, and most of the others another in the same period.
        if !sa.is_current(now) {
            if !sa.ends_no_period(now) || self.gates.scaled_contribution {
                return self.update_old_load_avg(cpu, task, attach);
            }
            let running = state.fair.curr() == Some(task.0);
            update_load_avg_se::<H>(now, sa, task_facts(&self.entities[task], running));
        }
        if !state.cfs.is_current(now) {
            if !state.cfs.ends_no_period(now) || self.gates.scaled_contribution {
                return self.update_old_load_avg(cpu, task, attach);
            }
            state.cfs.update::<H>(now, state.fair.facts());
        }
    }

    /// The same where a period has ended, or the task is new to the queue.
    #[inline(never)]
    fn update_old_load_avg(&mut self, cpu: CpuId, task: TaskId, attach: bool) {
        let now = self.cpus[cpu].clk.rq_clock_pelt();
        let sa = &self.tasks[task].sa;
        let is_new = sa.last_update_time == 0;
        if !is_new && !sa.is_current(now) {
            self.update_se_load_avg(cpu, task, now);
        }
        let decayed = self.update_cfs_rq_load_avg(cpu);
        let attaches = attach && is_new;
        if attaches {
            self.attach_entity_load_avg(cpu, task);
        }
        if attaches || decayed {
            self.cpufreq_update_util(cpu, 0);
        }
    }

    fn update_se_load_avg(&mut self, cpu: CpuId, task: TaskId, now: u64) {
        let entity = &self.entities[task];
        let running = self.cpus[cpu].fair.curr() == Some(task.0);
        let facts = task_facts(entity, running);
        let decayed = if self.gates.scaled_contribution {
            let scales = self.cpus[cpu].scales();
            update_load_avg_se_scaled::<H>(now, &mut self.tasks[task].sa, facts, scales)
        } else {
            update_load_avg_se::<H>(now, &mut self.tasks[task].sa, facts)
        };
        let state = &mut self.tasks[task];
        if decayed {
            if let UtilEst::Pair(form) = self.gates.util_est {
                state.util_est.util_change(form);
            }
            if S::ENABLED {
                let sa = &state.sa;
                let event = Event::PeltSe {
                    cpu: cpu.0,
                    task: task.0,
                    load_avg: sa.load_avg as u32,
                    runnable_avg: sa.runnable_avg as u32,
                    util_avg: sa.util_avg as u32,
                };
                self.emit_signal(event);
            }
        }
    }

    /// fair.c:attach_entity_load_avg().
    #[inline(never)]
    fn attach_entity_load_avg(&mut self, cpu: CpuId, task: TaskId) {
        let weight = self.entities[task].load.weight;
        self.cpus[cpu].cfs.attach::<H>(&mut self.tasks[task].sa, weight);
    }

    /// fair.c:detach_entity_load_avg().
    fn detach_entity_load_avg(&mut self, cpu: CpuId, task: TaskId) {
        let (weight, group) = (self.entities[task].load.weight, self.tasks[task].group);
        cfs_of(&mut self.cpus, &mut self.groups, group, cpu).detach::<H>(&self.tasks[task].sa, weight);
        if group != GroupId::ROOT {
            self.propagate_above(cpu, task);
        }
    }

    /// fair.c:migrate_task_rq_fair(): the averages leave `orig`; a new queue attaches them.
    pub(crate) fn migrate_task_rq_fair(&mut self, task: TaskId, orig: CpuId) {
        if self.tasks[task].class != Class::Fair || self.tasks[task].sa.last_update_time == 0 {
            return;
        }
        if matches!(self.tasks[task].life, Life::Sleeping | Life::Io | Life::Waking) {
            let (weight, group) = (self.entities[task].load.weight, self.tasks[task].group);
            let cfs = cfs_of(&mut self.cpus, &mut self.groups, group, orig);
            cfs.remove::<H>(&mut self.tasks[task].sa, weight);
            let cfs_last_update_time = cfs.avg.last_update_time;
            let state = &self.cpus[orig];
            if self.gates.migrate_pelt_lag {
                let facts = LagFacts {
                    is_idle: state.curr == TaskId::IDLE,
                    throttled_pelt_idle: 0,
                    clock_pelt_idle: state.clk.clock_pelt_idle,
                    clock_idle: state.clk.clock_idle,
                    sched_clock: self.now,
                    cfs_last_update_time,
                };
                migrate_se_pelt_lag::<H>(&mut self.tasks[task].sa, weight, &facts);
            }
            self.cfs_migrated_wakeup(task, orig);
        }
        self.tasks[task].sa.last_update_time = 0;
        self.entities[task].exec_start = 0;
    }

    /// fair.c:sync_entity_load_avg(): decays a sleeping task to the last update of its queue.
    pub(crate) fn sync_entity_load_avg(&mut self, task: TaskId, cpu: CpuId) {
        let cfs = &cfs_of(&mut self.cpus, &mut self.groups, self.tasks[task].group, cpu).avg;
        sync_entity_load_avg::<H>(&mut self.tasks[task].sa, self.entities[task].load.weight, cfs);
    }

    /// fair.c:init_entity_runnable_average().
    pub(crate) fn init_entity_runnable_average(&mut self, task: TaskId) {
        self.entities[task] = entity_of(self.tasks[task].policy, self.tasks[task].weight);
        self.tasks[task].sa = init_entity_runnable_average(self.entities[task].load.weight, true);
    }

    /// fair.c:post_init_entity_util_avg(): from the queue as it was updated last. The averages are attached at the enqueue.
    pub(crate) fn post_init_entity_util_avg(&mut self, cpu: CpuId, task: TaskId) {
        if self.tasks[task].class != Class::Fair {
            return;
        }
        let capacity = self.cpus[cpu].capacity;
        let cfs = &cfs_of(&mut self.cpus, &mut self.groups, self.tasks[task].group, cpu).avg;
        post_init_entity_util_avg(&mut self.tasks[task].sa, self.entities[task].load.weight, cfs, capacity);
        let spec = self.tasks[task].spec as usize;
        if self.case.workload.tasks.get(spec).is_some_and(|spec| spec.seasoned) {
            // It has slept for long: nothing is left of what it did.
            let sa = &mut self.tasks[task].sa;
            (sa.util_avg, sa.util_sum, sa.runnable_avg, sa.runnable_sum, sa.load_avg, sa.load_sum) = (0, 0, 0, 0, 0, 0);
        }
    }

    /// fair.c:update_blocked_averages(): decays what sleeps on `cpu`; returns whether anything is left.
    pub(crate) fn update_blocked_averages(&mut self, cpu: CpuId) -> bool {
        self.update_rq_clock(cpu);
        let mut decayed = self.gates.blocked_others_first && self.update_other_load_avgs(cpu);
        self.update_blocked_groups(cpu);
        decayed |= self.update_cfs_rq_load_avg(cpu);
        if decayed {
            self.cpufreq_update_util(cpu, 0);
        }
        if !self.gates.blocked_others_first {
            self.update_other_load_avgs(cpu);
        }
        let state = &self.cpus[cpu];
        state.cfs.avg.util_avg != 0
            || state.cfs.avg.load_avg != 0
            || state.rt.util_avg != 0
            || state.dl.util_avg != 0
            || state.irq.util_avg != 0
    }

    /// pelt.c:update_other_load_avgs(), v6.12; returns whether a period ended in any of them, which has no bearing on their
    /// values: the governor hears of a class that never ran, too.
    fn update_other_load_avgs(&mut self, cpu: CpuId) -> bool {
        self.update_rt_avg(cpu) | self.update_dl_avg(cpu) | self.update_irq_avg(cpu, 0)
    }

    // ---- util_est ----

    #[inline]
    pub(super) fn util_est_enqueue(&mut self, cpu: CpuId, task: TaskId) {
        let (state, task) = (&mut self.cpus[cpu], &mut self.tasks[task]);
        task.util_est_counted = true;
        match self.gates.util_est {
            UtilEst::Single => util_est_enqueue(&mut state.cfs.avg, &task.sa),
            UtilEst::Pair(form) => state.cfs_util_est.enqueue(form, &task.util_est),
        }
    }

    #[inline]
    pub(super) fn util_est_dequeue(&mut self, cpu: CpuId, task: TaskId) {
        let state = &mut self.cpus[cpu];
        match self.gates.util_est {
            UtilEst::Single => util_est_dequeue(&mut state.cfs.avg, &self.tasks[task].sa),
            UtilEst::Pair(form) => state.cfs_util_est.dequeue(form, &self.tasks[task].util_est),
        }
    }

    fn util_est_update(&mut self, cpu: CpuId, task: TaskId, sleep: bool) {
        if !self.gates.estimates_util {
            return;
        }
        let capacity = self.gates.profile.util_est_capacity(self.cpus[cpu].capacity);
        let burst = if self.gates.proposes && sleep { self.proposals_sleep(cpu, task) } else { None };
        let no_estimate = self.gates.profile.proposals.rampup_multiplier == Some(0);
        let state = &mut self.tasks[task];
        match self.gates.util_est {
            UtilEst::Single => {
                let util_avg = state.sa.util_avg;
                state.sa.util_avg = util_avg.max(burst.unwrap_or(0));
                util_est_update(&mut state.sa, sleep, capacity);
                state.sa.util_avg = util_avg;
                if no_estimate {
                    state.sa.util_est = 0;
                }
            }
            UtilEst::Pair(form) => {
                state.util_est.update(form, sleep, state.sa.util_avg, state.sa.runnable_avg, capacity);
            }
        }
        if S::ENABLED && sleep {
            let event = Event::UtilEstSe {
                cpu: cpu.0,
                task: task.0,
                util_est: self.task_util_est(task) as u32,
                util_avg: self.tasks[task].sa.util_avg as u32,
            };
            self.emit_signal(event);
        }
    }

    /// fair.c:task_util_est(): the larger of the running average and the estimate.
    pub(crate) fn task_util_est(&self, task: TaskId) -> u64 {
        let util = self.own_util_est(task);
        self.summed_clamps(task).map_or(util, |clamps| util.clamp(clamps.min, clamps.max))
    }

    /// The same without clamps that add up.
    pub(super) fn own_util_est(&self, task: TaskId) -> u64 {
        let state = &self.tasks[task];
        match self.gates.util_est {
            UtilEst::Single => task_util_est(&state.sa),
            UtilEst::Pair(form) => state.util_est.task_util_est(form, state.sa.util_avg),
        }
    }

    // ---- queue ----

    #[inline(always)]
    pub(crate) fn enqueue_task_fair(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) {
        self.cpus[cpu].fair_served |= self.gates.fair_server;
        self.start_fair_server(cpu);
        self.util_est_enqueue(cpu, task);
        if self.gates.proposes {
            let wakeup = matches!(kind, Enqueue::Wakeup | Enqueue::WakeupMigrated);
            self.proposals_enqueue(cpu, task, wakeup);
        }
        let flags = self.iowait_flag(task) | self.idle_placement_flag(cpu);
        if flags != 0 {
            self.cpufreq_update_util(cpu, flags);
        }
        if self.groups.any() {
            if !self.enqueue_in_groups(cpu, task, kind) {
                // Its group is throttled: the task does not count as one that may run.
                self.cpus[cpu].nr_running -= 1;
            }
        } else {
            self.enqueue_flat(cpu, task, kind);
        }
        self.balancer.lists.add(cpu.index(), task.0);
        self.watch_fair_server(cpu);
        self.take_resched_of(cpu, task);
        // Neither a new task nor one that is moved or put back counts: fair.c:enqueue_task_fair(), `task_new`, v4.20 to v6.18.
        if matches!(kind, Enqueue::Wakeup | Enqueue::WakeupMigrated) {
            self.check_update_overutilized(cpu);
        }
    }

    /// Queues a task where there are no groups.
    #[inline(always)]
    fn enqueue_flat(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) {
        self.update_load_avg(cpu, task, true);
        let now = self.cpus[cpu].clk.clock_task;
        self.cpus[cpu].fair.enqueue(&mut self.entities, now, task.0, kind);
    }

    #[inline(always)]
    pub(crate) fn dequeue_task_fair(&mut self, cpu: CpuId, task: TaskId, sleep: bool) {
        let state = &mut self.tasks[task];
        // A task that never comes back may not stay delayed.
        let special = state.life == Life::Dead || state.throttled || !self.gates.delay_dequeue;
        if std::mem::take(&mut state.util_est_counted) {
            self.util_est_dequeue(cpu, task);
        }
        if self.gates.estimates_before_dequeue {
            self.util_est_update(cpu, task, sleep);
        }
        let flags = Dequeue { sleep, special, delayed: false };
        if self.groups.any() {
            if !self.dequeue_in_groups(cpu, self.entities.of_task(task), flags) {
                self.cpus[cpu].nr_running += 1;
            }
        } else {
            self.update_load_avg(cpu, task, false);
            let now = self.cpus[cpu].clk.clock_task;
            match &mut self.cpus[cpu].fair {
                FairRq::Eevdf(rq) => {
                    rq.dequeue(&mut self.entities, now, task.0, flags);
                }
                FairRq::Cfs(rq) => rq.dequeue(&mut self.entities, now, task.0, CfsDequeue { sleep, save: false }),
            }
        }
        if !self.entities[task].sched_delayed {
            self.balancer.lists.remove(cpu.index(), task.0);
        }
        if !self.gates.estimates_before_dequeue {
            self.util_est_update(cpu, task, sleep);
        }
        if self.gates.proposes {
            self.proposals_refresh(cpu);
        }
        self.take_resched_of(cpu, task);
    }

    /// fair.c:task_dead_fair(), from core.c:finish_task_switch(): what the task leaves behind counts on `cpu` until its queue
    /// is updated next, also for a task that is born there before.
    pub(crate) fn task_dead(&mut self, cpu: CpuId, task: TaskId) {
        if self.tasks[task].class == Class::Fair && self.tasks[task].sa.last_update_time != 0 {
            let (weight, group) = (self.entities[task].load.weight, self.tasks[task].group);
            cfs_of(&mut self.cpus, &mut self.groups, group, cpu).remove::<H>(&mut self.tasks[task].sa, weight);
        }
    }

    /// fair.c:switched_from_fair(): the averages leave the queue with the task; a return attaches them again.
    pub(crate) fn switched_from_fair(&mut self, cpu: CpuId, task: TaskId) {
        self.detach_entity_load_avg(cpu, task);
        self.tasks[task].sa.last_update_time = 0;
    }

    /// A queued task leaves for another CPU (detach_task(), TASK_ON_RQ_MIGRATING).
    pub(crate) fn detach_queued(&mut self, cpu: CpuId, task: TaskId) {
        self.dequeue_task(cpu, task, false);
        self.detach_averages(cpu, task);
    }

    /// The averages of a task that leaves for another CPU go with it.
    fn detach_averages(&mut self, cpu: CpuId, task: TaskId) {
        self.detach_entity_load_avg(cpu, task);
        self.tasks[task].sa.last_update_time = 0;
    }

    /// A sleeping task whose dequeue is delayed leaves for another CPU, where it stays delayed.
    pub(crate) fn detach_delayed(&mut self, cpu: CpuId, task: TaskId) {
        self.dequeue_delayed(cpu, task);
        self.detach_averages(cpu, task);
    }

    /// It leaves its queue, and stays delayed.
    pub(super) fn dequeue_delayed(&mut self, cpu: CpuId, task: TaskId) {
        let flags = Dequeue { sleep: false, special: false, delayed: false };
        if self.groups.any() {
            self.dequeue_in_groups(cpu, self.entities.of_task(task), flags);
        } else {
            self.update_load_avg(cpu, task, false);
            let now = self.cpus[cpu].clk.clock_task;
            if let FairRq::Eevdf(rq) = &mut self.cpus[cpu].fair {
                rq.dequeue(&mut self.entities, now, task.0, flags);
            }
        }
        self.balancer.lists.remove(cpu.index(), task.0);
        self.take_resched_of(cpu, task);
    }

    /// It is queued there: it counts, but will not run; the CPU that picks it finishes its dequeue.
    pub(crate) fn enqueue_delayed(&mut self, cpu: CpuId, task: TaskId) {
        self.tell_queued(cpu, task, QueueChange::Asleep);
        self.balancer.note_overload(self.cpus[cpu].rq_nr_running() + 1, 1);
        if self.groups.any() {
            self.enqueue_in_groups(cpu, task, Enqueue::Migrated);
        } else {
            self.enqueue_flat(cpu, task, Enqueue::Migrated);
        }
        self.balancer.lists.add(cpu.index(), task.0);
        self.take_resched_of(cpu, task);
    }

    /// A woken task that is still queued because its dequeue was delayed wakes where it is; returns whether it was one.
    pub(crate) fn wake_delayed(&mut self, task: TaskId) -> bool {
        if !self.entities[task].sched_delayed {
            return false;
        }
        let cpu = self.tasks[task].cpu;
        if self.cpus[cpu].idle.is_awake() {
            self.account(cpu);
        }
        self.update_rq_clock_here(cpu);
        self.tell_queued(cpu, task, QueueChange::In);
        self.util_est_enqueue(cpu, task);
        self.update_load_avg(cpu, task, false);
        let mut may_run = true;
        if self.groups.any() {
            may_run = self.wake_in_groups(cpu, task);
        } else if let FairRq::Eevdf(rq) = &mut self.cpus[cpu].fair {
            rq.requeue_delayed_entity(&mut self.entities, task.0);
        }
        if self.gates.proposes {
            self.proposals_enqueue(cpu, task, true);
        }
        self.uclamp_rq_inc(cpu, task);
        let state = &mut self.tasks[task];
        (state.life, state.in_iowait) = (Life::Queued, false);
        self.cpus[cpu].nr_running += u32::from(may_run);
        self.update_idle_like(cpu);
        self.wakeup_preempt(cpu, task);
        true
    }

    #[inline(always)]
    pub(crate) fn pick_next_task_fair(&mut self, cpu: CpuId) -> Option<TaskId> {
        if self.groups.any() {
            return self.pick_in_groups(cpu);
        }
        let now = self.cpus[cpu].clk.clock_task;
        let task = match &mut self.cpus[cpu].fair {
            FairRq::Eevdf(rq) => {
                let lists = &mut self.balancer.lists;
                rq.pick_task(&mut self.entities, now, |_, task| lists.remove(cpu.index(), task))
            }
            FairRq::Cfs(rq) => rq.pick_task(&mut self.entities, now),
        };
        task.map(TaskId)
    }

    #[inline(always)]
    pub(crate) fn put_prev_task_fair(&mut self, cpu: CpuId, prev: TaskId) {
        if self.groups.any() {
            self.put_prev_in_groups(cpu, prev, GroupId::ROOT);
            self.take_resched_of(cpu, prev);
            return;
        }
        if self.entities[prev].on_rq {
            self.update_load_avg(cpu, prev, false);
        }
        let state = &mut self.cpus[cpu];
        state.fair.put_prev_entity(&mut self.entities, state.clk.clock_task);
        if state.fair.take_resched() {
            self.resched_cpu(cpu);
        }
    }

    #[inline(always)]
    pub(crate) fn set_next_task_fair(&mut self, cpu: CpuId, next: TaskId) {
        self.balancer.lists.move_to_head(cpu.index(), next.0);
        if self.groups.any() {
            self.set_next_in_groups(cpu, next, GroupId::ROOT);
        } else {
            self.update_load_avg(cpu, next, false);
            let now = self.cpus[cpu].clk.clock_task;
            self.cpus[cpu].fair.set_next_entity(&mut self.entities, now, next.0);
        }
        self.update_misfit_status(cpu, Some(next));
    }

    pub(crate) fn yield_task_fair(&mut self, cpu: CpuId, task: TaskId) {
        let state = &self.cpus[cpu];
        let (now, nr_running, group) = (state.clk.clock_task, state.nr_running, self.tasks[task].group);
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).yield_task(&mut self.entities, now, nr_running);
        self.charge_quota(group, cpu);
    }

    /// fair.c:task_tick_fair().
    pub(crate) fn task_tick_fair(&mut self, cpu: CpuId, curr: TaskId) {
        if self.groups.any() {
            self.tick_in_groups(cpu, curr);
        } else {
            let now = self.cpus[cpu].clk.clock_task;
            self.cpus[cpu].fair.tick(&mut self.entities, now);
            self.update_load_avg(cpu, curr, false);
        }
        if self.gates.proposes {
            self.proposals_tick(cpu, curr);
        }
        self.update_misfit_status(cpu, Some(curr));
        self.check_update_overutilized(cpu);
        self.propagate_resched(cpu);
    }

    /// fair.c:check_preempt_wakeup_fair().
    pub(crate) fn check_preempt_wakeup_fair(&mut self, cpu: CpuId, task: TaskId) -> bool {
        if self.cpus[cpu].need_resched {
            if let FairRq::Eevdf(rq) = &mut self.cpus[cpu].fair
                && rq.features.next_buddy
                && !self.groups.any()
            {
                rq.next = Some(task.0);
            }
            return false;
        }
        if self.groups.any() {
            return self.check_preempt_in_groups(cpu, task);
        }
        let now = self.cpus[cpu].clk.clock_task;
        self.cpus[cpu].fair.check_preempt_wakeup(&mut self.entities, now, task.0);
        self.cpus[cpu].fair.take_resched()
    }

    /// Takes the queue's wish to reschedule to the CPU.
    #[inline(always)]
    pub(crate) fn propagate_resched(&mut self, cpu: CpuId) {
        if self.cpus[cpu].fair.take_resched() {
            self.resched_cpu(cpu);
        }
    }

    /// A sleeping CFS task leaves its queue: its vruntime becomes relative (migrate_task_rq_fair(), v5.10).
    fn cfs_migrated_wakeup(&mut self, task: TaskId, orig: CpuId) {
        if let FairRq::Cfs(rq) = fair_of(&mut self.cpus, &mut self.groups, self.tasks[task].group, orig) {
            rq.migrate_sleeping(&mut self.entities[task]);
        }
    }
}
