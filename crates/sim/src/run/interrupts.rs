//! Interrupts and timers: what reaches a CPU from outside, and what its timers do.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::nohz::nohz_idle_balance;
use opplab_model::event::{ExpiredTimer, Sink};

use crate::ids::{CpuId, TaskId};
use crate::run::agenda::Wait;
use crate::run::cpu::{BOOT_NS, Interrupt};
use crate::run::engine::Engine;
use crate::run::task::{Life, WORK_SHIFT};
use crate::run::timers::{RESIDUAL_TICK_NS, Timer, TimerKind};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    // ---- interrupts ----

    /// Runs `what` on `cpu`: at once if it is awake, else after its exit from idle.
    pub(crate) fn interrupt(&mut self, cpu: CpuId, what: Interrupt) {
        if self.stream.shared {
            return self.stream_interrupt(cpu, what);
        }
        if self.cpus[cpu].idle.is_awake() {
            self.account(cpu);
            self.handle(cpu, what);
            self.reprogram(cpu);
        } else if self.wakes_late && what != Interrupt::NohzBalance {
            self.interrupt_idle(cpu, what);
        } else {
            let pending = &mut self.cpus[cpu].pending;
            if !pending.contains(&what) {
                pending.push(what);
            }
            // Nobody's wake-up.
            self.cpus[cpu].last_woken = (TaskId::IDLE, false);
            self.leave_idle(cpu, self.irq_delay_ns(cpu, what));
        }
    }

    /// An interrupt of an idle CPU that handles it first and then takes long to leave idle.
    fn interrupt_idle(&mut self, cpu: CpuId, what: Interrupt) {
        let wanted = self.cpus[cpu].need_resched;
        self.leave_idle(cpu, 0);
        self.handle(cpu, what);
        self.reprogram(cpu);
        let state = &self.cpus[cpu];
        let wakes = state.need_resched || state.nr_running > 0 || !state.wake_list.is_empty();
        if !wakes {
            // Nobody to run: it is idle again after what a tick takes.
            self.arm(cpu, Wait::IdleExit, self.now + self.case.machine.costs.tick_ns);
        } else if !wanted {
            let wake_ns = self.wake_latency_ns(cpu);
            self.arm(cpu, Wait::IdleExit, self.now + wake_ns);
        }
    }

    /// How long an interrupt keeps an idle CPU before it wakes anybody, or takes to come from another CPU.
    fn irq_delay_ns(&self, cpu: CpuId, what: Interrupt) -> u64 {
        match what {
            Interrupt::IoDone { irq_ns, .. } if irq_ns > 0 => {
                (irq_ns << WORK_SHIFT).div_ceil(self.base_speed(cpu).max(1))
            }
            Interrupt::NohzBalance => self.case.machine.costs.ipi_ns,
            _ => 0,
        }
    }

    /// The interrupt's work itself; the CPU is awake.
    pub(crate) fn handle(&mut self, cpu: CpuId, what: Interrupt) {
        self.here = cpu;
        let was = std::mem::replace(&mut self.in_interrupt, true);
        if matches!(what, Interrupt::Timers | Interrupt::IoDone { .. } | Interrupt::SwitchDone(_)) {
            self.resched_in_turn(cpu);
        }
        match what {
            Interrupt::Timers => {
                if self.wheel_is_due(cpu) {
                    // A stopped tick comes once for the wheel (tick-sched.c:tick_nohz_stop_tick()).
                    self.journal.timer(self.now - BOOT_NS, cpu, ExpiredTimer::Tick);
                    self.tick(cpu);
                }
                self.run_timers(cpu);
                self.raise_timer_softirq(cpu);
            }
            Interrupt::Tick => {
                self.journal.timer(self.now - BOOT_NS, cpu, ExpiredTimer::Tick);
                self.tick(cpu);
                // The tick is a timer like the others (tick_nohz_handler()).
                self.run_timers(cpu);
                self.raise_timer_softirq(cpu);
            }
            Interrupt::TimerSoftirq => self.run_wheel(cpu),
            Interrupt::IoDone { task, irq_ns } => {
                if irq_ns > 0 {
                    self.spend_irq(cpu, irq_ns);
                }
                self.io_done(cpu, task);
            }
            Interrupt::SwitchDone(task) => self.try_to_wake_up(task, false),
            Interrupt::NohzBalance => nohz_idle_balance(self, cpu.index()),
        }
        self.run_irq_work();
        self.in_interrupt = was;
    }

    pub(super) fn ipi(&mut self, cpu: CpuId) {
        self.here = cpu;
        if !self.cpus[cpu].idle.is_awake() {
            self.leave_idle(cpu, 0);
            return;
        }
        self.account(cpu);
        self.run_wake_list(cpu);
        self.asked_to_push(cpu);
        if self.cpus[cpu].need_resched {
            self.resched.push(cpu);
        }
        self.reprogram(cpu);
    }

    /// Queues the tasks that other CPUs woke on `cpu`.
    pub(crate) fn run_wake_list(&mut self, cpu: CpuId) {
        self.here = cpu;
        let mut list = std::mem::take(&mut self.cpus[cpu].wake_list);
        let was = std::mem::replace(&mut self.in_interrupt, true);
        for task in list.drain(..) {
            self.activate(task, cpu);
        }
        self.run_irq_work();
        self.in_interrupt = was;
        // Keeps the allocation.
        self.cpus[cpu].wake_list = list;
    }

    /// Asks `cpu` to reschedule; from another CPU by an interrupt.
    #[inline]
    pub(crate) fn resched_cpu(&mut self, cpu: CpuId) {
        if !std::mem::replace(&mut self.cpus[cpu].need_resched, true) {
            self.kick(cpu);
        }
    }

    /// Makes `cpu` look at its run queue and wake list.
    #[inline(never)]
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        let remote = cpu != self.here;
        let state = &self.cpus[cpu];
        if !remote && state.idle.is_awake() && self.wakes.preempt_ns.is_empty() {
            return self.resched.push(cpu);
        }
        let ipi_ns = if remote { self.case.machine.costs.ipi_ns } else { 0 };
        if !state.idle.is_awake() {
            let is_written = self.hardware.wakes_by_memory(state.cluster, state.idle.state);
            self.leave_idle(cpu, if is_written { 0 } else { ipi_ns });
        } else if self.stream.shared {
            self.resched.push(cpu);
        } else if self.preempts_late(cpu) {
            if self.armed_ns(cpu, Wait::Ipi).is_none() {
                let late_ns = self.drawn_ns(|engine| &engine.wakes.preempt_ns);
                self.arm(cpu, Wait::Ipi, self.now + late_ns);
            }
        } else if remote && ipi_ns > 0 {
            if self.armed_ns(cpu, Wait::Ipi).is_none() {
                self.arm(cpu, Wait::Ipi, self.now + ipi_ns);
            }
        } else if !remote {
            self.resched.push(cpu);
        } else {
            self.arm(cpu, Wait::Ipi, self.now);
        }
    }

    /// Whether `cpu` takes time until it leaves its task, which does not leave by itself, for another.
    fn preempts_late(&self, cpu: CpuId) -> bool {
        let curr = self.cpus[cpu].curr;
        !self.wakes.preempt_ns.is_empty() && curr != TaskId::IDLE && self.tasks[curr].life == Life::Queued
    }

    // ---- timers ----

    fn run_timers(&mut self, cpu: CpuId) {
        while let Some(timer) = self.cpus[cpu].timers.first() {
            // hrtimer.c:__hrtimer_run_queues(): what may be late is served with whatever comes before it must.
            let time = timer.latest_ns.saturating_sub(self.timer_slack_ns(timer.kind));
            if time > self.now {
                break;
            }
            self.cpus[cpu].timers.pop();
            let whose = match timer.kind {
                TimerKind::Wake(task) | TimerKind::Replenish(task) | TimerKind::Inactive(task) => {
                    ExpiredTimer::Task(task.0)
                }
                _ => ExpiredTimer::Kernel,
            };
            self.journal.timer(self.now - BOOT_NS, cpu, whose);
            match timer.kind {
                TimerKind::Wake(task) => self.timer_wakes(task, time),
                TimerKind::Replenish(task) => self.dl_task_timer(task),
                TimerKind::Inactive(task) => self.inactive_task_timer(task),
                TimerKind::Starvation => self.starvation_timer(cpu),
                TimerKind::CfsPeriod(group) => self.cfs_period_timer(cpu, group),
                TimerKind::CfsSlack(group) => self.cfs_slack_timer(cpu, group),
                TimerKind::Watchdog => self.watchdog_timer(cpu, time),
                TimerKind::RemoteTick(_) | TimerKind::Kernel => {}
            }
        }
        self.rearm_timer(cpu);
    }

    fn timer_wakes(&mut self, task: TaskId, time_ns: u64) {
        if self.tasks[task].life == Life::New {
            self.wake_up_new_task(task);
        } else {
            self.tasks[task].due_ns = Some(time_ns);
            self.try_to_wake_up(task, false);
        }
    }

    /// Whether the timer wheel of `cpu` has something to serve.
    fn wheel_is_due(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].timers.wheel_is_due(self.now)
    }

    /// timer.c:run_local_timers(): the tick has the wheel served when the CPU leaves the interrupt; where CPUs share one stream, that may be
    /// a turn later.
    fn raise_timer_softirq(&mut self, cpu: CpuId) {
        if !self.wheel_is_due(cpu) {
            return;
        }
        if self.stream.shared {
            self.cpus[cpu].pending.push(Interrupt::TimerSoftirq);
        } else {
            self.run_wheel(cpu);
        }
    }

    /// timer.c:run_timer_softirq().
    fn run_wheel(&mut self, cpu: CpuId) {
        while self.wheel_is_due(cpu) {
            let Some(timer) = self.cpus[cpu].timers.pop_wheel() else { break };
            match timer.kind {
                TimerKind::Wake(task) => self.timer_wakes(task, timer.latest_ns),
                TimerKind::RemoteTick(other) => {
                    self.tick_remote(other);
                    self.run_briefly(cpu);
                    self.add_timer(cpu, self.now + RESIDUAL_TICK_NS, timer.kind);
                }
                // One of the kernel's own that wakes nobody has had its tick.
                _ => {}
            }
        }
        self.rearm_timer(cpu);
    }

    /// kernel/watchdog.c:watchdog_timer_fn(), v6.12: arms itself again and has the stopper run.
    fn watchdog_timer(&mut self, cpu: CpuId, time_ns: u64) {
        self.add_timer(cpu, time_ns + self.watchdog_period_ns(), TimerKind::Watchdog);
        self.run_briefly(cpu);
    }

    /// A thread of the kernel runs on `cpu` for no time of its own, which starts the tick of an idle CPU again.
    fn run_briefly(&mut self, cpu: CpuId) {
        let costs = self.case.machine.costs;
        if self.cpus[cpu].curr == TaskId::IDLE {
            self.restart_tick(cpu);
        } else {
            self.spend(cpu, costs.wakeup_ns + 2 * costs.context_switch_ns);
        }
    }

    /// kernel/watchdog.c:set_sample_period(), v6.12: a fifth of twice the threshold.
    pub(crate) fn watchdog_period_ns(&self) -> u64 {
        u64::from(self.case.policy.watchdog_thresh_s) * 2 * 1_000_000_000 / 5
    }

    /// Arms a timer on `cpu`, which may be as late as its task's slack (hrtimer_set_expires_range_ns()).
    pub(crate) fn add_timer(&mut self, cpu: CpuId, time_ns: u64, kind: TimerKind) {
        self.timer_seq += 1;
        let latest_ns = time_ns.saturating_add(self.timer_slack_ns(kind));
        let timer = Timer { latest_ns, seq: self.timer_seq, kind };
        let timers = &mut self.cpus[cpu].timers;
        match kind {
            TimerKind::Wake(task) if self.tasks[task].timers_by_tick => timers.add_to_wheel(timer),
            TimerKind::RemoteTick(_) => timers.add_to_wheel(timer),
            _ => timers.add(timer),
        }
        self.rearm_timer(cpu);
    }

    /// Forgets the timers of this kind on `cpu` (hrtimer_cancel()).
    pub(crate) fn cancel_timer(&mut self, cpu: CpuId, kind: TimerKind) {
        if self.cpus[cpu].timers.cancel(kind) {
            self.rearm_timer(cpu);
        }
    }

    /// How late a timer may be; one of the kernel's own is not.
    fn timer_slack_ns(&self, kind: TimerKind) -> u64 {
        if let TimerKind::Wake(task) = kind { self.tasks[task].timer_slack_ns } else { 0 }
    }

    /// When the next timer of `cpu` comes without a tick: one of its own, or if the tick is stopped, the tick that the wheel needs.
    pub(crate) fn next_timer_ns(&self, cpu: CpuId) -> Option<u64> {
        let state = &self.cpus[cpu];
        state.timers.next_ns(state.tick_stopped, self.tick_ns)
    }

    pub(crate) fn rearm_timer(&mut self, cpu: CpuId) {
        let time_ns = self.next_timer_ns(cpu).map(|time_ns| time_ns.max(self.now));
        self.agenda.keep(cpu, Wait::Timer, time_ns);
    }
}
