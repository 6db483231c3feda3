//! Deadline tasks: their budgets, the order in which they run, where they wake, pushing and pulling them (kernel/sched/deadline.c).
//!
//! The arithmetic is crate `kernel`'s (`sched::dl_entity`, `sched::deadline`). A task whose runtime is used up is found at a tick or
//! switch, as there is no timer for it (HRTICK_DL is off), and leaves its queue until its next period. The governor's threads are
//! deadline tasks without a budget. What the governor sees of them and who is admitted is in `bandwidth.rs`.

use opplab_kernel::pelt::{HalfLife, cap_scale};
use opplab_kernel::profile::DlCapacity;
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::deadline::{
    DeadlineFacts, DlClaim, DlCurr, DlPush, DlTask, check_preempt_equal_dl, dl_time_before, pull_dl_task, push_dl_task,
    select_task_rq_dl, task_woken_dl,
};
use opplab_model::decision::Decision;
use opplab_model::event::{PlacementRule, Sink};

use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Enqueue, Life};
use crate::run::timers::TimerKind;

/// The engine as the deadline class sees it.
struct Deadlines<'a, 'c, S: Sink, H: HalfLife>(&'a Engine<'c, S, H>);

impl<S: Sink, H: HalfLife> DeadlineFacts for Deadlines<'_, '_, S, H> {
    fn free(&self) -> CpuSet<'_> {
        self.0.rd.dl_free()
    }
    fn latest(&self) -> Option<(usize, u64)> {
        let mut latest: Option<(usize, u64)> = None;
        for cpu in 0..self.0.cpus.len() {
            if let Some(deadline) = self.earliest_deadline(cpu)
                && latest.is_none_or(|(_, other)| dl_time_before(other, deadline))
            {
                latest = Some((cpu, deadline));
            }
        }
        latest
    }
    fn earliest_deadline(&self, cpu: usize) -> Option<u64> {
        self.0.cpus[cpu].dl_queue.first().map(|&task| self.0.dl_claim(task).deadline)
    }
    fn curr(&self, cpu: usize) -> Option<DlCurr> {
        let curr = self.0.cpus[cpu].curr;
        if self.0.curr_class(CpuId::of(cpu)) != Some(Class::Deadline) {
            return None;
        }
        let allowed = self.0.cpu_sets.cpus(self.0.tasks[curr].allowed);
        Some(DlCurr { claim: self.0.dl_claim(curr), nr_cpus_allowed: allowed.weight() })
    }
    fn capacity_orig(&self, cpu: usize) -> u64 {
        self.0.cpus[cpu].capacity
    }
    fn asym_active(&self) -> bool {
        self.0.topology.asym.is_some() && self.0.gates.profile.dl_capacity == DlCapacity::ByDensity
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
        let domain = self.0.topology.domains.view(cpu, level)?;
        Some((domain.span, domain.flags))
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    pub(crate) fn dl_claim(&self, task: TaskId) -> DlClaim {
        let state = &self.tasks[task];
        let deadline = state.dl.as_ref().map_or(0, |dl| dl.entity.deadline);
        DlClaim { deadline, is_sugov: state.sugov.is_some() }
    }

    fn dl_task(&self, task: TaskId, cpu: CpuId) -> DlTask<'_> {
        let state = &self.tasks[task];
        let allowed = self.cpu_sets.cpus(state.allowed);
        let density = state.dl.as_ref().map_or(0, |dl| dl.entity.dl_density);
        let (nr_cpus_allowed, claim) = (allowed.weight(), self.dl_claim(task));
        DlTask { cpu: cpu.index(), allowed, nr_cpus_allowed, claim, density }
    }

    /// deadline.c:select_task_rq_dl() on a wake-up.
    pub(crate) fn select_task_rq_dl(&mut self, task: TaskId, prev: CpuId) -> CpuId {
        let here = self.here.index();
        let cpu = self.with_cursor(|engine, cursor, mask| {
            select_task_rq_dl(&Deadlines(engine), &engine.dl_task(task, prev), here, cursor, mask)
        });
        self.allowed_or_first(task, cpu)
    }

    /// deadline.c:enqueue_dl_entity(): brings the budget up to date; whether the task is queued, or waits for its next period.
    pub(crate) fn activate_dl(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) -> bool {
        let clock = self.cpus[cpu].clk.clock;
        if kind != Enqueue::Replenished {
            // One that is replenished as it falls asleep does so all the same.
            self.tasks[task].life = Life::Queued;
        }
        self.enqueue_dl_bw(cpu, task, kind);
        let Some(dl) = self.tasks[task].dl.as_deref_mut() else { return true };
        let waits = match kind {
            Enqueue::Wakeup | Enqueue::WakeupMigrated => dl.entity.update_dl_entity(clock),
            Enqueue::New | Enqueue::Restore => {
                let waits = dl.entity.dl_check_constrained_dl(clock);
                dl.entity.setup_new_dl_entity(clock);
                waits
            }
            Enqueue::Migrated => dl.entity.dl_check_constrained_dl(clock),
            Enqueue::Replenished => false,
        };
        let (deadline, throttled) = (dl.entity.deadline, dl.entity.throttled);
        if waits {
            self.record_dl_throttle(task, true, true);
            self.start_dl_timer(cpu, task);
        }
        if throttled {
            return false;
        }
        let tasks = &self.tasks;
        let deadline_of = |task: TaskId| tasks[task].dl.as_ref().map_or(0, |dl| dl.entity.deadline);
        let queue = &mut self.cpus[cpu].dl_queue;
        let place = queue.partition_point(|&other| !dl_time_before(deadline, deadline_of(other)));
        queue.insert(place, task);
        self.rd.set_nr_dl(cpu, queue.len());
        true
    }

    /// deadline.c:dequeue_task_dl(): whether the task was queued.
    pub(crate) fn deactivate_dl(&mut self, cpu: CpuId, task: TaskId, sleep: bool) -> bool {
        self.update_curr_dl(cpu);
        self.update_dl_avg(cpu);
        let was_queued = self.unqueue_dl(cpu, task);
        self.dequeue_dl_bw(cpu, task, sleep);
        was_queued
    }

    fn unqueue_dl(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let queue = &mut self.cpus[cpu].dl_queue;
        let Some(place) = queue.iter().position(|&other| other == task) else { return false };
        queue.remove(place);
        self.rd.set_nr_dl(cpu, queue.len());
        true
    }

    /// The running task's time is charged from now on.
    pub(crate) fn start_charging_dl(&mut self, cpu: CpuId, task: TaskId) {
        let clock_task = self.cpus[cpu].clk.clock_task;
        if let Some(dl) = self.tasks[task].dl.as_deref_mut() {
            dl.exec_start = clock_task;
        }
    }

    /// deadline.c:update_curr_dl(): charges the running task, and takes it off its queue if it has nothing left.
    pub(crate) fn update_curr_dl(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].curr;
        let scales = self.cpus[cpu].scales();
        let (clock, clock_task) = (self.cpus[cpu].clk.clock, self.cpus[cpu].clk.clock_task);
        let Some(state) = self.tasks.get_mut(curr) else { return };
        let (is_special, is_dl) = (state.sugov.is_some(), state.class == Class::Deadline);
        let Some(dl) = state.dl.as_deref_mut().filter(|dl| is_dl && !dl.entity.throttled) else { return };
        let ran_ns = clock_task.saturating_sub(dl.exec_start);
        dl.exec_start = clock_task;
        if is_special || (ran_ns == 0 && !dl.entity.yielded) {
            return;
        }
        // Without reclaiming runtime is that of the biggest CPU at its highest frequency (dl_scaled_delta_exec()).
        let scaled_ns = match dl.reclaims {
            false => cap_scale(cap_scale(ran_ns, scales.freq_scale), scales.cpu_capacity),
            true => {
                let entity = dl.entity;
                self.grub_charge(cpu, ran_ns, &entity)
            }
        };
        let Some(dl) = self.tasks[curr].dl.as_deref_mut() else { return };
        if !dl.entity.update_curr_dl_se(scaled_ns) {
            return;
        }
        let starts_later = dl.entity.next_period() > clock;
        if !self.unqueue_dl(cpu, curr) {
            return;
        }
        if starts_later {
            self.cpus[cpu].nr_running -= 1;
            self.record_dl_throttle(curr, true, false);
            self.start_dl_timer(cpu, curr);
        } else {
            if let Some(dl) = self.tasks[curr].dl.as_deref_mut() {
                dl.entity.replenish_dl_entity(clock);
            }
            self.activate_dl(cpu, curr, Enqueue::Replenished);
        }
        if self.cpus[cpu].dl_queue.first() != Some(&curr) {
            self.resched_cpu(cpu);
        }
    }

    /// deadline.c:start_dl_timer().
    fn start_dl_timer(&mut self, cpu: CpuId, task: TaskId) {
        let Some(dl) = self.tasks[task].dl.as_deref_mut() else { return };
        dl.timer_ns = dl.entity.next_period();
        let time_ns = dl.timer_ns;
        self.add_timer(cpu, time_ns, TimerKind::Replenish(task));
    }

    /// deadline.c:dl_task_timer(): a throttled task's next period begins.
    pub(crate) fn dl_task_timer(&mut self, task: TaskId) {
        let (cpu, life, class, now) = (self.tasks[task].cpu, self.tasks[task].life, self.tasks[task].class, self.now);
        let Some(dl) = self.tasks[task].dl.as_deref_mut() else { return };
        if life == Life::Dead || !dl.entity.throttled || now < dl.timer_ns {
            return;
        }
        if class != Class::Deadline {
            // The kernel forgets it; if the task comes back, nobody would replenish it.
            dl.entity.throttled = false;
            self.record_dl_throttle(task, false, false);
            return;
        }
        dl.entity.replenish_dl_entity(now);
        self.record_dl_throttle(task, false, false);
        if life != Life::Queued {
            return;
        }
        self.bring_up_to_date(cpu);
        self.enqueue_task(cpu, task, Enqueue::Replenished);
        self.wakeup_preempt(cpu, task);
        self.push_dl_task(cpu);
    }

    fn record_dl_throttle(&mut self, task: TaskId, throttled: bool, constrained: bool) {
        if S::DECISIONS {
            let state = &self.tasks[task];
            let (cpu, yielded) = (state.cpu.0, state.dl.as_ref().is_some_and(|dl| dl.entity.yielded));
            self.record(Decision::DlThrottle { cpu, task: task.0, throttled, constrained, yielded });
        }
    }

    /// Whether `task` waits for its next period.
    pub(crate) fn is_throttled_dl(&self, task: TaskId) -> bool {
        self.tasks[task].dl.as_ref().is_some_and(|dl| dl.entity.throttled)
    }

    /// A deadline task gives the rest of its budget away (yield_task_dl()).
    pub(crate) fn yield_task_dl(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(dl) = self.tasks[task].dl.as_deref_mut() {
            dl.entity.yielded = true;
        }
        self.update_curr_dl(cpu);
    }

    // ---- pushing and pulling ----

    /// Of the deadline tasks that wait on `cpu` and may go elsewhere, or to `dest`, the first; a governor's thread before others
    /// (pick_earliest_pushable_dl_task()).
    fn pushable_dl_task(&self, cpu: CpuId, dest: Option<CpuId>) -> Option<TaskId> {
        let may_go = |task: TaskId| {
            let state = &self.tasks[task];
            let allowed = self.cpu_sets.cpus(state.allowed);
            !state.on_cpu
                && !self.cpu_sets.is_single(state.allowed)
                && dest.is_none_or(|dest| allowed.contains(dest.index()))
        };
        let waiting = self.cpus[cpu].dl_queue.iter().copied().filter(|&task| may_go(task));
        waiting.min_by_key(|&task| self.tasks[task].sugov.is_none())
    }

    /// A deadline task that waits on `orig` goes to `dest`.
    fn move_dl_task(&mut self, task: TaskId, orig: CpuId, dest: CpuId) {
        self.bring_up_to_date(orig);
        self.dequeue_task(orig, task, false);
        self.carry_over(task, orig, dest, PlacementRule::Deadline);
    }

    /// deadline.c:push_dl_task(): `cpu` gives its first waiting task to a CPU that runs it earlier; whether there was one.
    fn push_dl_task(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.pushable_dl_task(cpu, None) else { return false };
        let here = self.here.index();
        let decision = self.with_cursor(|engine, cursor, mask| {
            push_dl_task(&Deadlines(engine), &engine.dl_task(task, cpu), here, cursor, mask)
        });
        match decision {
            DlPush::Stays => false,
            DlPush::Resched => {
                self.resched_cpu(cpu);
                false
            }
            DlPush::To(dest) => {
                self.move_dl_task(task, cpu, CpuId::of(dest));
                self.resched_cpu(CpuId::of(dest));
                true
            }
        }
    }

    /// deadline.c:push_dl_tasks().
    pub(crate) fn push_dl_tasks(&mut self, cpu: CpuId) {
        while self.push_dl_task(cpu) {}
    }

    /// core.c:ttwu_do_activate(), the class's task_woken().
    pub(crate) fn task_woken_dl(&mut self, cpu: CpuId, task: TaskId) {
        let state = &self.cpus[cpu];
        if state.curr != task
            && !state.need_resched
            && task_woken_dl(&self.dl_task(task, cpu), Deadlines(self).curr(cpu.index()))
        {
            self.push_dl_tasks(cpu);
        }
    }

    /// deadline.c:pull_dl_task(): takes tasks that would run earlier on `cpu` than where they wait; whether there were any.
    pub(crate) fn pull_dl_tasks(&mut self, cpu: CpuId) -> bool {
        let crowded: Vec<usize> = self.rd.dl_overloaded().iter().filter(|&other| other != cpu.index()).collect();
        let mut pulled = None;
        for orig in crowded {
            let Some(task) = self.pushable_dl_task(CpuId::of(orig), Some(cpu)) else { continue };
            let query = self.dl_task(task, CpuId::of(orig));
            if pull_dl_task(&Deadlines(self), &query, cpu.index(), pulled) {
                pulled = Some(query.claim.deadline);
                self.move_dl_task(task, CpuId::of(orig), cpu);
            }
        }
        pulled.is_some()
    }

    /// deadline.c:balance_dl(): before `cpu` picks; `prev` leaves it.
    pub(crate) fn balance_dl(&mut self, cpu: CpuId, prev: TaskId) {
        if self.tasks[prev].class == Class::Deadline
            && !self.rd.dl_overloaded().is_empty()
            && !self.cpus[cpu].dl_queue.contains(&prev)
        {
            self.pull_dl_tasks(cpu);
        }
    }

    /// deadline.c:switched_from_dl(), prio_changed_dl(): the running task of `cpu` has another class or other parameters.
    pub(crate) fn pull_after_change_dl(&mut self, cpu: CpuId) {
        let stays = self.curr_class(cpu) == Some(Class::Deadline);
        let has_its_own =
            if stays { self.pushable_dl_task(cpu, None).is_some() } else { !self.cpus[cpu].dl_queue.is_empty() };
        if !has_its_own && self.pull_dl_tasks(cpu) {
            self.resched_cpu(cpu);
        }
    }

    /// deadline.c:wakeup_preempt_dl(): whether `task`, which wakes on `cpu`, has the running deadline task rescheduled.
    pub(crate) fn wakeup_preempt_dl(&self, cpu: CpuId, task: TaskId) -> bool {
        let state = &self.cpus[cpu];
        let (mine, theirs) = (self.dl_claim(task), self.dl_claim(state.curr));
        let preempts_equal = || {
            let (curr, task) = (self.dl_task(state.curr, cpu), self.dl_task(task, cpu));
            check_preempt_equal_dl(&Deadlines(self), &curr, &task)
        };
        mine.preempts(&theirs) || (mine.deadline == theirs.deadline && !state.need_resched && preempts_equal())
    }
}
