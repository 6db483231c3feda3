//! The core scheduler: run queues, wake-ups, switches, ticks, accounting of work (kernel/sched/core.c).

use opplab_kernel::cpufreq::schedutil::SCHED_CPUFREQ_IOWAIT;
use opplab_kernel::pelt::{
    HalfLife, update_class_avg_scaled, update_dl_rq_load_avg, update_irq_load_avg, update_rt_rq_load_avg,
};
use opplab_kernel::pelt_scaled::Scales;
use opplab_kernel::profile::{ResidualTick, SelectIdleScan, WakeQueue};
use opplab_kernel::sched::nohz::nohz_run_idle_balance;
use opplab_model::event::{Event, PlacementRule, QueueChange, Sink, TaskState};
use opplab_model::machine::InvarianceSource;
use opplab_model::workload::SchedPolicy;
use rand_core::Rng;

use crate::ids::{CpuId, TaskId};
use crate::run::agenda::Wait;
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::task::{Class, Doing, Enqueue, Life, NO_PROGRAM, Task, WORK_SHIFT};
use crate::run::timers::RESIDUAL_TICK_NS;

/// Round-robin time slice in ns (RR_TIMESLICE, include/linux/sched/rt.h).
const RR_TIMESLICE_NS: u64 = 100_000_000;

/// How often a CPU that runs out of work may pull and find nothing to run.
const PICKS_MAX: u32 = 1000;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    // ---- work and time ----

    /// Speed of `cpu` in work a ns, << [`WORK_SHIFT`], without the effect of busy siblings.
    pub(crate) fn base_speed(&self, cpu: CpuId) -> u64 {
        let state = &self.cpus[cpu];
        let khz = u64::from(self.hardware.point(state.cluster, state.opp).khz);
        let reference = u64::from(self.topology.reference_khz[state.cluster]);
        ((state.work_capacity * khz) << (WORK_SHIFT - 10)) / reference
    }

    /// Computes the speed of `cpu` again; its work must be accounted up to now.
    pub(crate) fn refresh_speed(&mut self, cpu: CpuId) {
        let mut speed = if self.case.machine.speed_is_constant() { 1 << WORK_SHIFT } else { self.base_speed(cpu) };
        if self.sibling_is_busy(cpu) {
            let share = self.case.workload.smt_yield.unwrap_or(self.case.machine.smt_yield);
            speed = (speed * u64::from(share)) >> 10;
        }
        self.cpus[cpu].speed = speed.max(1);
    }

    /// Whether another thread of the core runs a task.
    pub(crate) fn sibling_is_busy(&self, cpu: CpuId) -> bool {
        let siblings = &self.topology.siblings[cpu];
        siblings.iter().any(|&other| other != cpu && self.cpus[other].curr != TaskId::IDLE)
    }

    /// The speed of the work of `task`, of which `fixed`/1024 is unscaled time if it has no class of programs.
    #[inline]
    fn speed_of(&self, cpu: CpuId, task: TaskId, fixed: u16) -> u64 {
        let program = self.tasks[task].program;
        if program == NO_PROGRAM || self.case.machine.speed_is_constant() {
            return Self::speed_of_work(self.cpus[cpu].speed, fixed);
        }
        self.speed_of_program(cpu, program)
    }

    #[inline(never)]
    fn speed_of_program(&self, cpu: CpuId, program: u16) -> u64 {
        let state = &self.cpus[cpu];
        let on = self.case.machine.program_classes[usize::from(program)].on[state.cluster.index()];
        // Relative to the cluster's own reference clock; the class has its own capacity.
        let of_reference = ((state.speed << 10) / state.work_capacity.max(1)).max(1);
        ((Self::speed_of_work(of_reference, on.mem_share as u16) * u64::from(on.capacity)) >> 10).max(1)
    }

    /// The speed at which work with `fixed`/1024 of unscaled time proceeds.
    #[inline]
    fn speed_of_work(speed: u64, fixed: u16) -> u64 {
        if fixed == 0 {
            return speed;
        }
        let fixed = u64::from(fixed.min(1024));
        // 1 / ((1 - b) / speed + b), all << WORK_SHIFT.
        let ns_a_work = (((1024 - fixed) << (2 * WORK_SHIFT)) / speed) + (fixed << WORK_SHIFT);
        ((1024u64 << (2 * WORK_SHIFT)) / ns_a_work.max(1)).max(1)
    }

    /// Gives `cpu` work of the kernel's own that takes `ns` on the biggest CPU at its reference frequency.
    pub(crate) fn spend(&mut self, cpu: CpuId, ns: u64) {
        self.cpus[cpu].overhead += ns << WORK_SHIFT;
    }

    /// As [`Self::spend`], for an interrupt. An idle CPU has spent it before it wakes anybody.
    pub(crate) fn spend_irq(&mut self, cpu: CpuId, ns: u64) {
        let is_idle = self.cpus[cpu].curr == TaskId::IDLE;
        let work = ns << WORK_SHIFT;
        if !is_idle {
            self.spend(cpu, ns);
        }
        if self.gates.irq_time {
            let speed = self.base_speed(cpu).max(1);
            let state = &mut self.cpus[cpu];
            if is_idle {
                state.irq_time_ns += work.div_ceil(speed);
            } else {
                state.irq_overhead += work;
            }
        }
    }

    /// Brings the running task's work, run time and residencies of `cpu` up to now.
    #[inline]
    pub(crate) fn account(&mut self, cpu: CpuId) {
        let delta = self.now - self.cpus[cpu].account_ns;
        if delta != 0 {
            self.account_for(cpu, delta);
        }
    }

    /// The same without a call, for whom each event needs.
    #[inline(always)]
    pub(crate) fn account_at_once(&mut self, cpu: CpuId) {
        self.account_here(cpu, self.now - self.cpus[cpu].account_ns);
    }

    #[inline(never)]
    fn account_for(&mut self, cpu: CpuId, delta: u64) {
        self.account_here(cpu, delta);
    }

    /// Accounts the last `delta` ns.
    #[inline(always)]
    fn account_here(&mut self, cpu: CpuId, delta: u64) {
        let held = self.stream.is_held(cpu);
        let curr = self.cpus[cpu].curr;
        let speed = match curr {
            TaskId::IDLE => 0,
            _ => match self.tasks[curr].doing {
                Doing::Work { fixed, .. } => self.speed_of(cpu, curr, fixed),
                _ => 0,
            },
        };
        let state = &mut self.cpus[cpu];
        state.account_ns = self.now;
        if curr == TaskId::IDLE {
            if state.idle.is_awake() {
                // Out of idle, but without the stream to go on.
                state.in_idle.add_outside(delta);
            }
            return;
        }
        state.busy_ns += delta;
        // Without the stream it stands still. The kernel's own work is done at the clock of the CPU, too.
        let executed = if held { delta } else { 0 };
        let burnt_ns = if state.overhead == 0 { 0 } else { executed.min(state.overhead.div_ceil(state.speed)) };
        state.overhead = state.overhead.saturating_sub(burnt_ns * state.speed);
        if state.irq_overhead > 0 {
            let irq_ns = burnt_ns.min(state.irq_overhead.div_ceil(state.speed));
            state.irq_overhead = state.irq_overhead.saturating_sub(irq_ns * state.speed);
            state.irq_time_ns += irq_ns;
        }
        let ran = executed - burnt_ns;
        let cluster = state.cluster;
        let task = &mut self.tasks[curr];
        if task.cluster != cluster {
            self.outcome.task_ns_by_cluster[curr.index()][task.cluster.index()] += std::mem::take(&mut task.cluster_ns);
            task.cluster = cluster;
        }
        task.cluster_ns += delta;
        match &mut task.doing {
            Doing::Work { left, .. } => {
                let done = (ran * speed).min(*left);
                *left -= done;
                self.outcome.work_done += u128::from(done);
                if task.is_background {
                    self.outcome.background_work += u128::from(done);
                }
            }
            Doing::Wall { left_ns } => {
                *left_ns -= ran.min(*left_ns);
            }
            Doing::Fresh => {}
        }
    }

    /// Brings what counts by the operating point of `cpu` up to now: busy time, APERF and MPERF.
    pub(crate) fn account_point(&mut self, cpu: CpuId) {
        self.account(cpu);
        let polled_ns = self.polled_ns(cpu);
        let state = &mut self.cpus[cpu];
        let busy_ns = std::mem::take(&mut state.busy_ns);
        let khz = self.hardware.point(state.cluster, state.opp).khz;
        let reference_khz = self.topology.reference_khz[state.cluster];
        state.at_points.busy(state.opp, busy_ns, khz, reference_khz);
        state.at_points.polled(polled_ns, khz, reference_khz);
    }

    /// Time until the op of the running task of `cpu` ends; `None` if nothing runs.
    #[inline(always)]
    pub(crate) fn time_to_op_end(&self, cpu: CpuId) -> Option<u64> {
        let state = &self.cpus[cpu];
        if state.curr == TaskId::IDLE || state.need_resched || !self.stream.is_held(cpu) {
            return None;
        }
        let left = match self.tasks[state.curr].doing {
            _ if self.tasks[state.curr].throttle_work => 0,
            Doing::Work { left, fixed } => left.div_ceil(self.speed_of(cpu, state.curr, fixed)),
            Doing::Wall { left_ns } => left_ns,
            Doing::Fresh => 0,
        };
        let overhead_ns = if state.overhead == 0 { 0 } else { state.overhead.div_ceil(state.speed) };
        Some(overhead_ns + left)
    }

    /// `cpu` starts or stops running tasks: siblings' speed and power follow.
    fn set_busy(&mut self, cpu: CpuId, busy: bool) {
        if self.topology.siblings[cpu].len() > 1 {
            for index in 0..self.topology.siblings[cpu].len() {
                let other = self.topology.siblings[cpu][index];
                if other != cpu && self.cpus[other].curr != TaskId::IDLE {
                    self.account(other);
                    self.refresh_speed(other);
                    if self.case.machine.smt_power < 1024 {
                        self.refresh_own_power(other);
                    }
                    self.reprogram(other);
                } else if other != cpu && self.case.machine.smt_power < 1024 {
                    self.refresh_power(other);
                }
            }
        }
        let now = self.now;
        let state = &mut self.cpus[cpu];
        if busy {
            state.idle_times.stop(now, state.nr_iowait > 0);
            state.in_idle.add_outside(now - state.account_ns);
            state.account_ns = now;
            self.refresh_speed(cpu);
            self.hwp_watch(cpu);
        } else {
            state.idle_times.start(now);
        }
        self.refresh_own_power(cpu);
        self.assert_shared_power(cpu);
    }

    // ---- clocks ----

    /// Accounts the work of a CPU that may be another than the one that acts, and updates its queue's clock.
    pub(crate) fn bring_up_to_date(&mut self, cpu: CpuId) {
        if self.cpus[cpu].idle.is_awake() {
            self.account(cpu);
        }
        self.update_rq_clock(cpu);
    }

    /// core.c:update_rq_clock().
    #[inline]
    pub(crate) fn update_rq_clock(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[cpu];
        state.note_change(cpu, &mut self.balancer.changed);
        let idle = state.curr == TaskId::IDLE;
        // Most updates follow another at the same instant.
        if self.now != state.clk.clock || idle {
            self.update_old_rq_clock(cpu, idle);
        }
    }

    /// The same without a call, for what most events need.
    #[inline(always)]
    pub(crate) fn update_rq_clock_here(&mut self, cpu: CpuId) {
        let state = &mut self.cpus[cpu];
        state.note_change(cpu, &mut self.balancer.changed);
        let idle = state.curr == TaskId::IDLE;
        if self.now != state.clk.clock || idle {
            self.advance_rq_clock(cpu, idle);
        }
    }

    #[inline(never)]
    fn update_old_rq_clock(&mut self, cpu: CpuId, idle: bool) {
        self.advance_rq_clock(cpu, idle);
    }

    #[inline(always)]
    fn advance_rq_clock(&mut self, cpu: CpuId, idle: bool) {
        let state = &mut self.cpus[cpu];
        let scales = if self.gates.scaled_contribution { Scales::FULL } else { state.scales() };
        let irq_ns =
            state.clk.update_rq_clock(self.now, state.irq_time_ns, idle, scales.cpu_capacity, scales.freq_scale);
        if irq_ns != 0 {
            self.update_irq_avg(cpu, irq_ns as u64);
        }
    }

    /// pelt.h:update_irq_load_avg(): `irq_ns` of interrupts that end now.
    #[cold]
    pub(crate) fn update_irq_avg(&mut self, cpu: CpuId, irq_ns: u64) -> bool {
        if !self.gates.irq_avg {
            return false;
        }
        let state = &mut self.cpus[cpu];
        let scales = state.scales();
        let clock = state.clk.clock;
        if self.gates.scaled_contribution {
            // v4.19 and v5.0 scale the contributions.
            let before = update_class_avg_scaled::<H>(clock - irq_ns, &mut state.irq, false, scales);
            let during = update_class_avg_scaled::<H>(clock, &mut state.irq, true, scales);
            before || during
        } else {
            update_irq_load_avg::<H>(clock, &mut state.irq, irq_ns, scales.freq_scale, scales.cpu_capacity) != 0
        }
    }

    // ---- queues ----

    /// core.c:enqueue_task(). The clock must be up to date.
    pub(crate) fn enqueue_task(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) {
        self.tell_queued(cpu, task, QueueChange::In);
        let class = self.tasks[task].class;
        if class == Class::Deadline && !self.activate_dl(cpu, task, kind) {
            return;
        }
        let state = &mut self.cpus[cpu];
        let with_it = if class == Class::RealTime { state.rt_queue.len() as u32 + 1 } else { 1 };
        self.balancer.note_overload(state.rq_nr_running() + 1, with_it);
        if class != Class::RealTime || !state.starvation.rt.throttled {
            state.nr_running += 1;
            self.idle_cpus.remove(cpu);
            if self.topology.nohz_full[cpu] && state.nr_running == 2 {
                // sched.h:sched_update_tick_dependency().
                state.tick_stopped = false;
                self.arm_tick(cpu);
            }
        }
        self.tasks[task].life = Life::Queued;
        if !self.gates.uclamp_after_enqueue {
            self.uclamp_rq_inc(cpu, task);
        }
        match class {
            Class::Deadline => {}
            Class::RealTime => {
                self.start_rt_period();
                let priority = self.rt_priority(task);
                let queue = &mut self.cpus[cpu].rt_queue;
                let place = queue.partition_point(|&(other, _)| other >= priority);
                queue.insert(place, (priority, task));
                self.update_rt_overload(cpu);
                self.cpufreq_update_util(cpu, 0);
            }
            Class::Fair => self.enqueue_task_fair(cpu, task, kind),
        }
        if self.gates.uclamp_after_enqueue {
            self.uclamp_rq_inc(cpu, task);
        }
        self.update_idle_like(cpu);
    }

    /// The queues of `cpu` have changed: it may be one with nothing but tasks of SCHED_IDLE now, or no longer.
    #[inline]
    pub(crate) fn update_idle_like(&mut self, cpu: CpuId) {
        self.idle_cpus.update_idle_like(cpu, || self.cpus[cpu].is_sched_idle());
    }

    /// core.c:dequeue_task(). The clock must be up to date.
    pub(crate) fn dequeue_task(&mut self, cpu: CpuId, task: TaskId, sleep: bool) {
        if !sleep {
            self.tell_queued(cpu, task, QueueChange::Out);
        }
        self.uclamp_rq_dec(cpu, task);
        let class = self.tasks[task].class;
        match class {
            Class::Deadline => {
                if !self.deactivate_dl(cpu, task, sleep) {
                    return;
                }
            }
            Class::RealTime => {
                self.update_rt_avg(cpu);
                self.cpus[cpu].rt_queue.retain(|&(_, other)| other != task);
                self.update_rt_overload(cpu);
                self.cpufreq_update_util(cpu, 0);
            }
            Class::Fair => self.dequeue_task_fair(cpu, task, sleep),
        }
        let state = &mut self.cpus[cpu];
        if class != Class::RealTime || !state.starvation.rt.throttled {
            state.nr_running -= 1;
        }
        if class == Class::RealTime {
            self.balancer.note_overload(state.rq_nr_running(), state.rt_queue.len() as u32);
        }
        self.update_idle_like(cpu);
    }

    pub(crate) fn rt_priority(&self, task: TaskId) -> u8 {
        match self.tasks[task].policy {
            SchedPolicy::Fifo { priority } | SchedPolicy::RoundRobin { priority } => priority,
            _ => 0,
        }
    }

    pub(crate) fn curr_class(&self, cpu: CpuId) -> Option<Class> {
        let curr = self.cpus[cpu].curr;
        (curr != TaskId::IDLE).then(|| self.tasks[curr].class)
    }

    pub(crate) fn update_rt_avg(&mut self, cpu: CpuId) -> bool {
        let running = self.curr_class(cpu) == Some(Class::RealTime);
        let state = &mut self.cpus[cpu];
        let scales = state.scales();
        let now = state.clk.rq_clock_pelt();
        if self.gates.scaled_contribution {
            update_class_avg_scaled::<H>(now, &mut state.rt, running, scales)
        } else {
            update_rt_rq_load_avg::<H>(now, &mut state.rt, running)
        }
    }

    pub(crate) fn update_dl_avg(&mut self, cpu: CpuId) -> bool {
        let running = self.curr_class(cpu) == Some(Class::Deadline);
        let state = &mut self.cpus[cpu];
        let scales = state.scales();
        let now = state.clk.rq_clock_pelt();
        if self.gates.scaled_contribution {
            update_class_avg_scaled::<H>(now, &mut state.dl, running, scales)
        } else {
            update_dl_rq_load_avg::<H>(now, &mut state.dl, running)
        }
    }

    // ---- wake-ups ----

    /// core.c:try_to_wake_up(), from the code that runs on `here`.
    pub(crate) fn try_to_wake_up(&mut self, task: TaskId, sync: bool) {
        if !matches!(self.tasks[task].life, Life::Sleeping | Life::Io) {
            return;
        }
        let here = self.here;
        let state = &mut self.tasks[task];
        let prev = state.cpu;
        if let Some(due_ns) = state.due_ns {
            self.journal.timer_due(task, due_ns.saturating_sub(BOOT_NS));
        }
        if state.in_iowait {
            // The flag stays for the enqueue of this wake-up (p->in_iowait).
            self.cpus[prev].nr_iowait -= 1;
        }
        self.outcome.sched_events += 1;
        self.stream.nr_woken += 1;
        let on_cpu = state.on_cpu;
        self.emit(Event::SchedWaking { cpu: here.0, task: task.0, target_cpu: prev.0 });
        if on_cpu {
            // It has not left its run queue yet, and stays (core.c:ttwu_runnable()): nothing wakes within schedule().
            let state = &mut self.tasks[task];
            (state.life, state.in_iowait, state.due_ns) = (Life::Queued, false, None);
            return;
        }
        if self.wake_delayed(task) {
            return;
        }
        let (cpu, rule) = self.select_task_rq(task, prev, sync);
        if cpu != prev {
            self.migrate_task_rq_fair(task, prev);
            self.migrate_task_rq_dl(task, prev);
            self.tasks[task].cpu = cpu;
            self.outcome.migrations += 1;
            self.emit(Event::SchedMigrateTask { task: task.0, orig_cpu: prev.0, dest_cpu: cpu.0 });
        }
        self.emit(Event::Placement { task: task.0, prev_cpu: prev.0, cpu: cpu.0, rule });
        self.tasks[task].life = Life::Waking;
        // core.c:ttwu_queue_cond(), v6.0. A task is on its way out (WF_ON_CPU) at no instant of a run.
        let remote = cpu != here;
        self.cpus[cpu].last_woken = (task, remote && !self.in_interrupt);
        let is_idle = self.cpus[cpu].curr == TaskId::IDLE && self.cpus[cpu].nr_running == 0;
        let idle_queues = self.gates.profile.wake_queue == WakeQueue::RemoteOrIdle;
        if remote && (is_idle && idle_queues || !self.topology.share_cache(here, cpu)) {
            self.cpus[cpu].wake_list.push(task);
            self.note_change(cpu);
            self.idle_cpus.remove(cpu);
            self.update_idle_like(cpu);
            self.kick(cpu);
            return;
        }
        self.activate(task, cpu);
    }

    /// core.c:ttwu_do_activate(): queues a waking task and checks preemption.
    pub(crate) fn activate(&mut self, task: TaskId, cpu: CpuId) {
        self.update_rq_clock_here(cpu);
        let migrated = self.tasks[task].sa.last_update_time == 0;
        let kind = if migrated { Enqueue::WakeupMigrated } else { Enqueue::Wakeup };
        self.enqueue_task(cpu, task, kind);
        self.tasks[task].in_iowait = false;
        let state = &mut self.cpus[cpu];
        if state.balance.idle_stamp != 0 {
            let delta = state.clk.clock.saturating_sub(state.balance.idle_stamp);
            state.balance.update_avg_idle(delta);
            state.balance.idle_stamp = 0;
            if self.gates.select_idle_scan == SelectIdleScan::SisPropAged {
                state.sis_prop.idle_ended(state.balance.avg_idle, self.now / self.tick_ns);
            }
        }
        self.wakeup_preempt(cpu, task);
        self.task_woken(cpu, task);
    }

    /// The classes that push have been notified of a wake-up.
    fn task_woken(&mut self, cpu: CpuId, task: TaskId) {
        match self.tasks[task].class {
            Class::Deadline => self.task_woken_dl(cpu, task),
            Class::RealTime => self.task_woken_rt(cpu, task),
            Class::Fair => {}
        }
    }

    /// core.c:wake_up_new_task().
    pub(crate) fn wake_up_new_task(&mut self, task: TaskId) {
        let spec = &self.case.workload.tasks[self.tasks[task].spec as usize];
        let parent_cpu = self.tasks[task].cpu;
        self.tasks[task].started_ns = self.now;
        self.tasks[task].activation_ns = self.now;
        self.init_entity_runnable_average(task);
        self.admit_dl(task, false);
        let cpu = match spec.spawn_cpu.map(CpuId) {
            Some(cpu) if self.cpu_sets.cpus(self.tasks[task].allowed).contains(cpu.index()) => cpu,
            _ => match self.select_task_rq_custom(task, parent_cpu, false, true) {
                Some((cpu, _)) => cpu,
                None => self.select_task_rq_fork(task, parent_cpu),
            },
        };
        if S::DECISIONS {
            self.record_fork(task, parent_cpu, cpu);
        }
        self.tasks[task].cpu = cpu;
        self.tasks[task].recent_used_cpu = cpu;
        self.cpus[cpu].last_woken = (task, cpu != self.here && !self.in_interrupt);
        self.emit(Event::SchedWakeupNew { cpu: self.here.0, task: task.0, target_cpu: cpu.0 });
        self.update_rq_clock(cpu);
        self.post_init_entity_util_avg(cpu, task);
        self.enqueue_task(cpu, task, Enqueue::New);
        self.wakeup_preempt(cpu, task);
        self.task_woken(cpu, task);
    }

    /// core.c:wakeup_preempt(): asks `cpu` to reschedule if `task` should run now.
    pub(crate) fn wakeup_preempt(&mut self, cpu: CpuId, task: TaskId) {
        let mine = self.tasks[task].class;
        if mine == Class::Deadline && self.is_throttled_dl(task) {
            return;
        }
        let curr = self.cpus[cpu].curr;
        let preempt = if curr == TaskId::IDLE {
            true
        } else {
            match (mine, self.tasks[curr].class) {
                (Class::Deadline, Class::Deadline) => self.wakeup_preempt_dl(cpu, task),
                (Class::RealTime, Class::RealTime) => {
                    let (mine, theirs) = (self.rt_priority(task), self.rt_priority(curr));
                    mine > theirs || (mine == theirs && self.check_preempt_equal_prio(cpu, task))
                }
                (Class::Fair, Class::Fair) => self.check_preempt_wakeup_fair(cpu, task),
                (mine, theirs) => mine < theirs,
            }
        };
        if preempt {
            self.resched_cpu(cpu);
        }
        // The queue's clock is fresh; schedule() does not read it again (rq_clock_skip_update()).
        let state = &mut self.cpus[cpu];
        state.skip_clock_update |= state.need_resched;
    }

    // ---- switching ----

    /// core.c:__schedule().
    pub(crate) fn schedule(&mut self, cpu: CpuId) {
        if !self.cpus[cpu].idle.is_awake() {
            // Its exit from idle will do it.
            self.cpus[cpu].need_resched = true;
            self.leave_idle(cpu, 0);
            return;
        }
        self.here = cpu;
        self.in_interrupt = false;
        self.account(cpu);
        let state = &mut self.cpus[cpu];
        state.resched_in_turn = false;
        if std::mem::take(&mut state.skip_clock_update) {
            self.note_change(cpu);
        } else {
            self.update_rq_clock_here(cpu);
        }
        self.charge_starvation(cpu);
        let prev = self.cpus[cpu].curr;
        let mut prev_state = TaskState::Running;
        if prev != TaskId::IDLE {
            let state = &self.tasks[prev];
            let class = state.class;
            prev_state = match state.life {
                Life::Sleeping => TaskState::Interruptible,
                Life::Io => TaskState::Uninterruptible,
                Life::Dead => TaskState::Dead,
                _ => TaskState::Running,
            };
            if prev_state != TaskState::Running {
                self.dequeue_task(cpu, prev, true);
            }
            if class != Class::Fair {
                self.balance_dl(cpu, prev);
                self.balance_rt(cpu, prev);
            }
        }
        let next = self.pick_next_task(cpu, prev);
        if next != prev {
            let switched = self.switch_in_groups(cpu, prev, next);
            if prev != TaskId::IDLE {
                if !switched {
                    self.put_prev_task(cpu, prev);
                }
                self.tasks[prev].on_cpu = false;
            }
            self.cpus[cpu].curr = next;
            if next == TaskId::IDLE {
                let state = &mut self.cpus[cpu];
                // The old task is still current for update_idle_rq_clock_pelt(); its sums decide.
                state.clk.update_idle_rq_clock_pelt::<H>(state.cfs.avg.util_sum, state.rt.util_sum, state.dl.util_sum);
            } else {
                if !switched {
                    self.set_next_task(cpu, next);
                }
                self.spend(cpu, self.case.machine.costs.context_switch_ns);
                let state = &mut self.tasks[next];
                state.on_cpu = true;
                if let Some(due_ns) = state.due_ns.take() {
                    state.wu_lat_ns += self.now.saturating_sub(due_ns);
                }
            }
            self.outcome.switches += 1;
            self.outcome.sched_events += 1;
            self.emit(Event::SchedSwitch { cpu: cpu.0, prev: prev.0, prev_state, next: next.0 });
            if prev_state == TaskState::Dead {
                self.task_dead(cpu, prev);
            }
            if !self.cpus[cpu].rt_queue.is_empty() {
                self.update_rt_overload(cpu);
            }
            if prev == TaskId::IDLE {
                self.restart_tick(cpu);
                self.set_busy(cpu, true);
            } else if next != TaskId::IDLE
                && !self.case.machine.program_classes.is_empty()
                && self.tasks[prev].program != self.tasks[next].program
            {
                self.refresh_own_power(cpu);
            }
        }
        if next == TaskId::IDLE {
            if prev != TaskId::IDLE {
                self.cpus[cpu].overhead = 0;
                self.cpus[cpu].irq_overhead = 0;
                self.set_busy(cpu, false);
            }
            if self.cpus[cpu].is_idle() {
                self.idle_cpus.insert(cpu);
                self.update_idle_core(cpu);
            }
            self.update_idle_like(cpu);
            self.disarm(cpu, Wait::Op);
            self.cpus[cpu].got_idle_tick = false;
            // What the CPU has raised on itself comes before it sleeps.
            self.run_irq_work();
            nohz_run_idle_balance(self, cpu.index());
            if !self.cpus[cpu].need_resched {
                self.enter_idle(cpu);
            }
            return;
        }
        self.update_idle_like(cpu);
        let Task { class, doing, .. } = self.tasks[next];
        if class != Class::Fair {
            if next != prev && class == Class::Deadline && self.rd.dl_overloaded().contains(cpu.index()) {
                // set_next_task_dl() asks for it.
                self.push_dl_tasks(cpu);
            }
            if next != prev && class == Class::RealTime && self.rd.rt_overloaded().contains(cpu.index()) {
                // set_next_task_rt() asks for it.
                self.push_rt_tasks(cpu);
            }
            self.watch_fair_server(cpu);
        }
        self.run_irq_work();
        if doing == Doing::Fresh || self.cpus[cpu].overhead == 0 {
            self.advance_and_reprogram(cpu);
        } else {
            self.reprogram(cpu);
        }
    }

    /// fair.c:__update_idle_core(): an idle CPU whose siblings are idle makes an idle core known.
    fn update_idle_core(&mut self, cpu: CpuId) {
        if !self.topology.smt_active {
            return;
        }
        let llc = self.topology.llc_of[cpu];
        let core = self.topology.smt_masks[cpu].as_set();
        if !self.idle_cpus.has_idle_cores(llc) && core.is_subset(self.idle_cpus.idle()) {
            self.idle_cpus.set_idle_cores(llc, true);
        }
    }

    fn pick_next_task(&mut self, cpu: CpuId, prev: TaskId) -> TaskId {
        let newly_idle = std::mem::take(&mut self.cpus[cpu].stopper_ran) || prev != TaskId::IDLE;
        for _ in 0..PICKS_MAX {
            let fair_first = self.server_is_first(cpu);
            let state = &self.cpus[cpu];
            if !fair_first {
                if let Some(&task) = state.dl_queue.first() {
                    return task;
                }
                if let Some(&(_, task)) = state.rt_queue.first().filter(|_| !state.starvation.rt.throttled) {
                    return task;
                }
            }
            if let Some(task) = self.pick_next_task_fair(cpu) {
                return task;
            }
            if fair_first {
                // Nobody to serve: the other classes are next.
                self.cpus[cpu].starvation.server.stop();
                continue;
            }
            // An idle CPU that found nothing before does not look again: only the switch to idle is newly idle.
            if !newly_idle || !self.newidle_balance(cpu) {
                return TaskId::IDLE;
            }
        }
        self.fail(format!("CPU {cpu} counts a runnable task that is in none of its queues: a fault of the engine"));
        TaskId::IDLE
    }

    #[inline(always)]
    pub(crate) fn put_prev_task(&mut self, cpu: CpuId, prev: TaskId) {
        match self.tasks[prev].class {
            Class::Deadline => {
                self.update_curr_dl(cpu);
                self.update_dl_avg(cpu);
            }
            Class::RealTime => {
                self.update_rt_avg(cpu);
            }
            Class::Fair => self.put_prev_task_fair(cpu, prev),
        }
    }

    /// The clock must be up to date and `curr` be set.
    #[inline(always)]
    pub(crate) fn set_next_task(&mut self, cpu: CpuId, next: TaskId) {
        match self.tasks[next].class {
            // The class did not run until now: its signal decays up to here.
            Class::Deadline => {
                let state = &mut self.cpus[cpu];
                update_dl_rq_load_avg::<H>(state.clk.rq_clock_pelt(), &mut state.dl, false);
                self.start_charging_dl(cpu, next);
            }
            Class::RealTime => {
                let state = &mut self.cpus[cpu];
                update_rt_rq_load_avg::<H>(state.clk.rq_clock_pelt(), &mut state.rt, false);
            }
            Class::Fair => self.set_next_task_fair(cpu, next),
        }
        self.tasks[next].exec_start_ns = self.now;
    }

    pub(crate) fn yield_task(&mut self, cpu: CpuId, task: TaskId) {
        self.update_rq_clock(cpu);
        match self.tasks[task].class {
            Class::Fair => self.yield_task_fair(cpu, task),
            Class::RealTime => {
                let priority = self.rt_priority(task);
                let queue = &mut self.cpus[cpu].rt_queue;
                queue.retain(|&(_, other)| other != task);
                let place = queue.partition_point(|&(other, _)| other >= priority);
                queue.insert(place, (priority, task));
            }
            Class::Deadline => self.yield_task_dl(cpu, task),
        }
        self.resched_cpu(cpu);
    }

    /// The running task may no longer stay on `cpu` (its affinity changed): it moves at once.
    pub(crate) fn push_away(&mut self, cpu: CpuId, task: TaskId) {
        let Some(dest) = self.cpu_sets.cpus(self.tasks[task].allowed).first() else { return };
        self.account(cpu);
        self.update_rq_clock(cpu);
        self.dequeue_task(cpu, task, false);
        self.put_prev_task(cpu, task);
        self.detached_current(cpu);
        self.move_queued(task, cpu, CpuId::of(dest), PlacementRule::Pinned);
    }

    /// The running task, already dequeued, leaves `cpu` for another CPU; the idle task stands in until `cpu` schedules.
    pub(crate) fn detached_current(&mut self, cpu: CpuId) {
        self.note_change(cpu);
        let state = &mut self.cpus[cpu];
        let task = std::mem::replace(&mut state.curr, TaskId::IDLE);
        if state.nr_running == 0 {
            state.clk.update_idle_rq_clock_pelt::<H>(state.cfs.avg.util_sum, state.rt.util_sum, state.dl.util_sum);
        }
        self.tasks[task].on_cpu = false;
        self.outcome.switches += 1;
        self.outcome.sched_events += 1;
        self.emit(Event::SchedSwitch {
            cpu: cpu.0,
            prev: task.0,
            prev_state: TaskState::Running,
            next: TaskId::IDLE.0,
        });
        self.set_busy(cpu, false);
        self.disarm(cpu, Wait::Op);
        // The CPU itself does this: no interrupt delays it.
        self.cpus[cpu].stopper_ran = true;
        self.cpus[cpu].need_resched = true;
        self.resched.push(cpu);
    }

    /// A dequeued task arrives on `dest`, and runs there if it comes before the running one.
    pub(crate) fn move_queued(&mut self, task: TaskId, orig: CpuId, dest: CpuId, rule: PlacementRule) {
        self.carry_over(task, orig, dest, rule);
        self.wakeup_preempt(dest, task);
    }

    /// A dequeued task arrives on `dest`; one whose dequeue was delayed sleeps on there.
    pub(crate) fn carry_over(&mut self, task: TaskId, orig: CpuId, dest: CpuId, rule: PlacementRule) {
        let delayed = self.entities[task].sched_delayed;
        if delayed && self.tasks[task].in_iowait {
            self.cpus[orig].nr_iowait -= 1;
            self.cpus[dest].nr_iowait += 1;
        }
        self.migrate_task_rq_fair(task, orig);
        self.tasks[task].cpu = dest;
        self.outcome.migrations += 1;
        self.emit(Event::SchedMigrateTask { task: task.0, orig_cpu: orig.0, dest_cpu: dest.0 });
        if !delayed {
            self.emit(Event::Placement { task: task.0, prev_cpu: orig.0, cpu: dest.0, rule });
        }
        self.bring_up_to_date(dest);
        if delayed {
            self.enqueue_delayed(dest, task);
        } else {
            self.enqueue_task(dest, task, Enqueue::Migrated);
        }
        self.wakeup_preempt(dest, task);
    }

    // ---- the tick ----

    /// core.c:sched_tick(); the CPU is awake.
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        self.arm_tick(cpu);
        self.update_rq_clock(cpu);
        if self.case.machine.invariance == InvarianceSource::CountersAtTick {
            self.scale_freq_tick(cpu);
        }
        let curr = self.cpus[cpu].curr;
        self.cpus[cpu].got_idle_tick |= curr == TaskId::IDLE;
        self.resched_in_turn(cpu);
        if self.charge_starvation(cpu) {
            self.resched_cpu(cpu);
        }
        if curr != TaskId::IDLE {
            self.spend_irq(cpu, self.case.machine.costs.tick_ns);
            if matches!(self.tasks[curr].policy, SchedPolicy::Other { nice } | SchedPolicy::Batch { nice } if nice > 0)
            {
                self.cpus[cpu].idle_times.niced(self.tick_ns);
            }
            self.task_tick(cpu, curr);
        }
        self.trigger_load_balance(cpu);
        if self.gates.profile.proposals.push_eas {
            self.push_stuck(cpu);
        }
        if self.takes_turns && curr != TaskId::IDLE {
            self.wait_for_turn(cpu);
        }
    }

    /// The CPU has the stream again: it does what a tick asked for.
    pub(crate) fn resched_in_turn(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].resched_in_turn) {
            self.resched_cpu(cpu);
        }
    }

    /// Of the CPUs that run tasks one has the stream up to the next tick: a handled tick is an armed timer, which passes the stream on
    /// (QEMU 7.2: accel/tcg/tcg-accel-ops-rr.c, softmmu/icount.c). Those that had several ticks to handle may get it in any order.
    fn wait_for_turn(&mut self, cpu: CpuId) {
        let nr_busy = self.cpus.iter().filter(|state| state.curr != TaskId::IDLE).count() as u32;
        if nr_busy > 1 && self.cpus[cpu].need_resched && !self.rng.next_u32().is_multiple_of(nr_busy) {
            self.cpus[cpu].need_resched = false;
            self.cpus[cpu].resched_in_turn = true;
        }
    }

    /// The part of a tick that is the class's (`sched_class->task_tick()`).
    fn task_tick(&mut self, cpu: CpuId, curr: TaskId) {
        match self.tasks[curr].class {
            Class::Fair => self.task_tick_fair(cpu, curr),
            Class::Deadline => {
                self.update_curr_dl(cpu);
                self.update_dl_avg(cpu);
            }
            Class::RealTime => {
                self.update_rt_avg(cpu);
                self.task_tick_rt(cpu, curr);
            }
        }
    }

    /// core.c:sched_tick_remote(), v4.17: another CPU, the one that acts, ticks for `cpu` while its own tick is stopped.
    pub(crate) fn tick_remote(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].curr;
        if !self.cpus[cpu].tick_stopped || curr == TaskId::IDLE {
            return;
        }
        self.bring_up_to_date(cpu);
        if self.charge_starvation(cpu) {
            self.resched_cpu(cpu);
        }
        self.task_tick(cpu, curr);
    }

    fn task_tick_rt(&mut self, cpu: CpuId, curr: TaskId) {
        if !matches!(self.tasks[curr].policy, SchedPolicy::RoundRobin { .. }) {
            return;
        }
        let used = self.now - self.tasks[curr].exec_start_ns;
        let priority = self.rt_priority(curr);
        let others = self.cpus[cpu].rt_queue.iter().any(|&(other, task)| other == priority && task != curr);
        if used >= RR_TIMESLICE_NS && others {
            self.yield_task(cpu, curr);
        }
    }

    /// The next point of the tick's grid after now.
    pub(crate) fn next_tick_ns(&self) -> u64 {
        (self.now / self.tick_ns + 1) * self.tick_ns
    }

    pub(crate) fn arm_tick(&mut self, cpu: CpuId) {
        if !self.cpus[cpu].tick_stopped {
            let mut time = self.next_tick_ns() + self.drawn_ns(|engine| &engine.tick_late_ns);
            // core.c:sched_can_stop_tick(); an idle CPU's tick is its idle governor's.
            if self.topology.nohz_full[cpu] && self.cpus[cpu].nr_running == 1 {
                if self.gates.profile.residual_tick == ResidualTick::Remote {
                    self.cpus[cpu].tick_stopped = true;
                    self.disarm(cpu, Wait::Tick);
                    return self.rearm_timer(cpu);
                }
                time += RESIDUAL_TICK_NS - self.tick_ns;
            }
            self.arm(cpu, Wait::Tick, time);
        }
    }

    /// Starts the tick of a CPU again; whether it was stopped.
    pub(crate) fn restart_tick(&mut self, cpu: CpuId) -> bool {
        let stopped = std::mem::take(&mut self.cpus[cpu].tick_stopped);
        if stopped {
            self.arm_tick(cpu);
            self.rearm_timer(cpu);
        }
        stopped
    }

    /// jiffies of the simulated clock.
    pub(crate) fn jiffies(&self) -> u64 {
        self.now / self.tick_ns
    }

    /// Flag of a wake-up from iowait, for the governor.
    pub(crate) fn iowait_flag(&self, task: TaskId) -> u32 {
        if self.tasks[task].in_iowait { SCHED_CPUFREQ_IOWAIT } else { 0 }
    }
}
