//! Deadline tasks: their budgets, the order in which they run, where they wake, and who is admitted (kernel/sched/deadline.c).
//!
//! The arithmetic is crate `kernel`'s (`sched::dl_entity`, `sched::deadline`). A task whose runtime is used up is found at a tick or
//! switch, as there is no timer for it (HRTICK_DL is off), and leaves its queue until its next period. The governor's threads are
//! deadline tasks without a budget. Not here: pushing and pulling, bandwidth that the governor sees.

use opplab_kernel::pelt::{HalfLife, cap_scale};
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::deadline::{DeadlineFacts, DlClaim, DlCurr, DlTask, dl_time_before, select_task_rq_dl};
use opplab_kernel::sched::dl_entity::{DlEntity, FAIR_SERVER_DL_BW, dl_overflow};
use opplab_model::event::{Sink, TaskIdx};
use opplab_model::workload::SchedPolicy;

use crate::engine::Engine;
use crate::sched::Enqueue;
use crate::task::{Class, Life};

/// Marks a timer that replenishes its task.
pub(crate) const DL_TIMER: TaskIdx = 1 << 31;

/// What a deadline task has beside the others.
#[derive(Debug, Clone)]
pub(crate) struct DlRun {
    pub(crate) entity: DlEntity,
    /// The task clock up to which its running is charged.
    exec_start: u64,
    /// When it is replenished.
    timer_ns: u64,
}

impl DlRun {
    /// What a task of `policy` begins with; nothing if it is no deadline task.
    pub(crate) fn of(policy: SchedPolicy) -> Option<Box<Self>> {
        let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } = policy else { return None };
        let entity = DlEntity::new(runtime_ns, deadline_ns, period_ns);
        Some(Box::new(Self { entity, exec_start: 0, timer_ns: 0 }))
    }
}

/// The engine as the deadline class sees it.
struct Deadlines<'a, 'c, S: Sink, H: HalfLife>(&'a Engine<'c, S, H>);

impl<S: Sink, H: HalfLife> DeadlineFacts for Deadlines<'_, '_, S, H> {
    fn free(&self) -> CpuSet<'_> {
        self.0.dl_free.as_set()
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
        if self.0.curr_class(cpu as u32) != Some(Class::Deadline) {
            return None;
        }
        let allowed = self.0.masks[self.0.tasks[curr as usize].allowed as usize].as_set();
        Some(DlCurr { claim: self.0.dl_claim(curr), nr_cpus_allowed: allowed.weight() })
    }
    fn capacity_orig(&self, cpu: usize) -> u64 {
        self.0.cpus[cpu].capacity
    }
    fn asym_active(&self) -> bool {
        self.0.topology.asym.is_some()
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
        let domain = self.0.topology.domains.view(cpu, level)?;
        Some((domain.span, domain.flags))
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    pub(crate) fn dl_claim(&self, task: TaskIdx) -> DlClaim {
        let state = &self.tasks[task as usize];
        let deadline = state.dl.as_ref().map_or(0, |dl| dl.entity.deadline);
        DlClaim { deadline, is_sugov: state.sugov.is_some() }
    }

    /// deadline.c:select_task_rq_dl() on a wake-up.
    pub(crate) fn select_task_rq_dl(&mut self, task: TaskIdx, prev: u32) -> u32 {
        let here = self.here as usize;
        let cpu = self.with_cursor(|engine, cursor, mask| {
            let state = &engine.tasks[task as usize];
            let allowed = engine.masks[state.allowed as usize].as_set();
            let density = state.dl.as_ref().map_or(0, |dl| dl.entity.dl_density);
            let (nr_cpus_allowed, claim) = (allowed.weight(), engine.dl_claim(task));
            let query = DlTask { cpu: prev as usize, allowed, nr_cpus_allowed, claim, density };
            select_task_rq_dl(&Deadlines(engine), &query, here, cursor, mask)
        });
        self.allowed_or_first(task, cpu)
    }

    /// deadline.c:enqueue_dl_entity(): brings the budget up to date; whether the task is queued, or waits for its next period.
    pub(crate) fn activate_dl(&mut self, cpu: u32, task: TaskIdx, kind: Enqueue) -> bool {
        let c = cpu as usize;
        let clock = self.cpus[c].clk.clock;
        let state = &mut self.tasks[task as usize];
        state.life = Life::Queued;
        let Some(dl) = state.dl.as_deref_mut() else { return true };
        let waits = match kind {
            Enqueue::Wakeup | Enqueue::WakeupMigrated => dl.entity.wake_up(clock),
            Enqueue::New | Enqueue::Restore => {
                dl.entity.setup(clock);
                false
            }
            Enqueue::Migrated => false,
        };
        let (deadline, throttled) = (dl.entity.deadline, dl.entity.throttled);
        if waits {
            self.start_dl_timer(cpu, task);
        }
        if throttled {
            return false;
        }
        let tasks = &self.tasks;
        let deadline_of = |task: TaskIdx| tasks[task as usize].dl.as_ref().map_or(0, |dl| dl.entity.deadline);
        let queue = &mut self.cpus[c].dl_queue;
        let place = queue.partition_point(|&other| !dl_time_before(deadline, deadline_of(other)));
        queue.insert(place, task);
        self.dl_free.remove(c);
        true
    }

    /// deadline.c:dequeue_task_dl(): whether the task was queued.
    pub(crate) fn deactivate_dl(&mut self, cpu: u32, task: TaskIdx) -> bool {
        self.update_curr_dl(cpu);
        self.update_dl_avg(cpu);
        self.unqueue_dl(cpu, task)
    }

    fn unqueue_dl(&mut self, cpu: u32, task: TaskIdx) -> bool {
        let queue = &mut self.cpus[cpu as usize].dl_queue;
        let Some(place) = queue.iter().position(|&other| other == task) else { return false };
        queue.remove(place);
        if queue.is_empty() {
            self.dl_free.insert(cpu as usize);
        }
        true
    }

    /// The running task's time is charged from now on.
    pub(crate) fn start_charging_dl(&mut self, cpu: u32, task: TaskIdx) {
        let clock_task = self.cpus[cpu as usize].clk.clock_task;
        if let Some(dl) = self.tasks[task as usize].dl.as_deref_mut() {
            dl.exec_start = clock_task;
        }
    }

    /// deadline.c:update_curr_dl(): charges the running task, and takes it off its queue if it has nothing left.
    pub(crate) fn update_curr_dl(&mut self, cpu: u32) {
        let c = cpu as usize;
        let curr = self.cpus[c].curr;
        let scales = self.scales(cpu);
        let (clock, clock_task) = (self.cpus[c].clk.clock, self.cpus[c].clk.clock_task);
        let Some(state) = self.tasks.get_mut(curr as usize) else { return };
        let is_special = state.sugov.is_some();
        let Some(dl) = state.dl.as_deref_mut().filter(|dl| !dl.entity.throttled) else { return };
        let ran_ns = clock_task.saturating_sub(dl.exec_start);
        dl.exec_start = clock_task;
        if is_special || (ran_ns == 0 && !dl.entity.yielded) {
            return;
        }
        // Without reclaiming runtime is that of the biggest CPU at its highest frequency (dl_scaled_delta_exec()).
        let scaled_ns = cap_scale(cap_scale(ran_ns, scales.freq_scale), scales.cpu_capacity);
        if !dl.entity.charge(scaled_ns) {
            return;
        }
        let starts_later = dl.entity.next_period() > clock;
        if !self.unqueue_dl(cpu, curr) {
            return;
        }
        if starts_later {
            self.cpus[c].nr_running -= 1;
            self.start_dl_timer(cpu, curr);
        } else {
            if let Some(dl) = self.tasks[curr as usize].dl.as_deref_mut() {
                dl.entity.replenish(clock);
            }
            self.activate_dl(cpu, curr, Enqueue::Migrated);
        }
        if self.cpus[c].dl_queue.first() != Some(&curr) {
            self.resched_cpu(cpu);
        }
    }

    /// deadline.c:start_dl_timer().
    fn start_dl_timer(&mut self, cpu: u32, task: TaskIdx) {
        let Some(dl) = self.tasks[task as usize].dl.as_deref_mut() else { return };
        dl.timer_ns = dl.entity.next_period();
        let time_ns = dl.timer_ns;
        self.add_timer(cpu, time_ns, task | DL_TIMER);
    }

    /// deadline.c:dl_task_timer(): a throttled task's next period begins.
    pub(crate) fn dl_task_timer(&mut self, task: TaskIdx) {
        let t = task as usize;
        let (cpu, life, now) = (self.tasks[t].cpu, self.tasks[t].life, self.now);
        let Some(dl) = self.tasks[t].dl.as_deref_mut() else { return };
        if life == Life::Dead || !dl.entity.throttled || now < dl.timer_ns {
            return;
        }
        dl.entity.replenish(now);
        if life != Life::Queued {
            return;
        }
        if self.cpus[cpu as usize].idle.is_awake() {
            self.account(cpu);
        }
        self.update_rq_clock(cpu);
        self.enqueue_task(cpu, task, Enqueue::Restore);
        self.wakeup_preempt(cpu, task);
    }

    /// Whether `task` waits for its next period.
    pub(crate) fn is_throttled_dl(&self, task: TaskIdx) -> bool {
        self.tasks[task as usize].dl.as_ref().is_some_and(|dl| dl.entity.throttled)
    }

    /// A deadline task gives the rest of its budget away (yield_task_dl()).
    pub(crate) fn yield_task_dl(&mut self, cpu: u32, task: TaskIdx) {
        if let Some(dl) = self.tasks[task as usize].dl.as_deref_mut() {
            dl.entity.yielded = true;
        }
        self.update_curr_dl(cpu);
    }

    /// deadline.c:sched_dl_overflow(): admits a task that becomes a deadline task, or ends the run as the kernel's error ends rt-app.
    pub(crate) fn admit_dl(&mut self, task: TaskIdx) {
        let state = &self.tasks[task as usize];
        let Some(dl) = state.dl.as_ref().filter(|_| state.sugov.is_none()) else { return };
        let bw = dl.entity.dl_bw();
        let capacity = self.cpus.iter().map(|cpu| cpu.capacity).sum();
        let server_bw = if self.gates.fair_server { FAIR_SERVER_DL_BW * self.cpus.len() as u64 } else { 0 };
        if dl_overflow(capacity, self.dl_total_bw + server_bw, 0, bw) {
            let (name, permille) = (self.task_name(task), (bw * 1000) >> 20);
            self.fail(format!(
                "task {name:?} asks for {permille}/1000 of a CPU as a SCHED_DEADLINE task, which is more than is left to such tasks \
                 (sched_setattr() fails with EBUSY)"
            ));
        }
        self.dl_total_bw += bw;
    }

    /// The task is no deadline task any more.
    pub(crate) fn release_dl(&mut self, task: TaskIdx) {
        let state = &self.tasks[task as usize];
        if let Some(dl) = state.dl.as_ref().filter(|_| state.sugov.is_none()) {
            self.dl_total_bw -= dl.entity.dl_bw();
        }
    }
}
