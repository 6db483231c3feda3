//! What keeps fair tasks from starving behind real-time tasks: throttling of those before v6.12, a deadline server since.
//!
//! The arithmetic is crate `kernel`'s (`sched::rt_bandwidth`, `sched::dl_server`). The time of whoever runs is charged at ticks and
//! switches, where the kernel does. Timers that the kernel keeps running for both are armed only where they change what runs: what
//! they would have done before is made up for at the next charge. Real-time periods begin with the first real-time task and go on.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::RtThrottling;
use opplab_kernel::sched::deadline::dl_time_before;
use opplab_kernel::sched::dl_server::DlServer;
use opplab_model::decision::Decision;
use opplab_model::event::Sink;

use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::Class;
use crate::run::timers::TimerKind;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Charges the time since the last charge to whoever ran on `cpu`; whether that ended what it may run. The clock must be up to
    /// date.
    #[inline(always)]
    pub(crate) fn charge_starvation(&mut self, cpu: CpuId) -> bool {
        match self.gates.rt_throttling {
            RtThrottling::FairServer => self.charge_server(cpu),
            RtThrottling::Period => self.charge_rt(cpu),
            RtThrottling::None => false,
        }
    }

    #[inline]
    fn charge_server(&mut self, cpu: CpuId) -> bool {
        let state = &mut self.cpus[cpu];
        let clock = state.clk.clock;
        let from = std::mem::replace(&mut state.starvation.charged_ns, clock);
        let server = &mut state.starvation.server;
        if !server.active || from == 0 || from >= clock {
            return false;
        }
        // Most often a fair task ran and nothing was due meanwhile.
        let runs_fair = state.curr != TaskId::IDLE && self.tasks[state.curr].class == Class::Fair;
        (!runs_fair || !server.just_ran(clock, clock - from)) && self.charge_server_from(cpu, from)
    }

    /// Charges what happened since `from`.
    #[inline(never)]
    fn charge_server_from(&mut self, cpu: CpuId, from: u64) -> bool {
        let class = self.curr_class(cpu);
        let state = &mut self.cpus[cpu];
        let clock = state.clk.clock;
        let server = &mut state.starvation.server;
        let was_queued = server.queued;
        let has_fair = state.fair.nr_queued() > 0;
        let mut since = from;
        let ran = |server: &mut DlServer, since: u64, until: u64| match class {
            Some(Class::Fair) => {
                server.update(until, until - since);
            }
            None => server.update_idle_time(until - since),
            _ => {}
        };
        // A timer that came meanwhile; no more than one a stretch can queue it, and each queuing ends the loop.
        while let Some(due) = server.timer_ns().filter(|&due| due <= clock && !server.queued) {
            let due = due.max(since);
            ran(server, since, due);
            since = due;
            let is_queued = server.timer(due);
            if is_queued && !has_fair {
                server.stop();
            }
            if is_queued || server.timer_ns().is_some_and(|next| next <= due) {
                break;
            }
        }
        ran(server, since, clock);
        was_queued && !server.queued
    }

    #[inline(always)]
    fn charge_rt(&mut self, cpu: CpuId) -> bool {
        let state = &mut self.cpus[cpu];
        let from = std::mem::replace(&mut state.starvation.charged_ns, state.clk.clock);
        // Before the first real-time task there is nothing to limit.
        self.rt_period_start_ns != 0 && self.charge_rt_from(cpu, from)
    }

    /// Charges what happened since `from`.
    #[inline(never)]
    fn charge_rt_from(&mut self, cpu: CpuId, from: u64) -> bool {
        let start_ns = self.rt_period_start_ns;
        // The governor's threads, deadline tasks without a budget, are charged to nobody.
        let counts = match self.curr_class(cpu) {
            Some(Class::RealTime) => true,
            Some(Class::Deadline) => self.tasks[self.cpus[cpu].curr].sugov.is_none(),
            Some(Class::Fair) | None => false,
        };
        let state = &mut self.cpus[cpu];
        let clock = state.clk.clock;
        if !counts {
            return false;
        }
        self.note_change(cpu);
        let state = &mut self.cpus[cpu];
        let was_throttled = state.starvation.rt.throttled;
        let freed = state.starvation.rt.advance(clock, start_ns);
        let exceeds = state.starvation.rt.charge(clock.saturating_sub(from.max(start_ns)));
        let nr_rt = state.rt_queue.len() as u32;
        if freed && was_throttled {
            state.nr_running += nr_rt;
            self.record_rt_throttle(cpu, false);
        }
        if exceeds {
            let state = &mut self.cpus[cpu];
            state.nr_running -= nr_rt;
            let end_ns = state.starvation.rt.period_end_ns(clock, start_ns);
            self.record_rt_throttle(cpu, true);
            self.arm_starvation(cpu, end_ns);
            self.cpufreq_update_util(cpu, 0);
        }
        exceeds
    }

    fn record_rt_throttle(&mut self, cpu: CpuId, throttled: bool) {
        if S::DECISIONS {
            self.record(Decision::RtThrottle { cpu: cpu.0, throttled });
        }
    }

    /// A real-time task is queued: the first begins the periods (rt.c:start_rt_bandwidth(), v6.1).
    pub(crate) fn start_rt_period(&mut self) {
        if self.rt_period_start_ns == 0 {
            self.rt_period_start_ns = self.now;
        }
    }

    /// A fair task is queued on `cpu`.
    pub(crate) fn start_fair_server(&mut self, cpu: CpuId) {
        if self.gates.rt_throttling != RtThrottling::FairServer {
            return;
        }
        if !self.cpus[cpu].starvation.server.active {
            self.charge_server(cpu);
            let state = &mut self.cpus[cpu];
            state.starvation.server.start(state.clk.clock);
        }
    }

    /// The server comes before the first deadline task of `cpu`.
    pub(crate) fn server_is_first(&self, cpu: CpuId) -> bool {
        let state = &self.cpus[cpu];
        let server = &state.starvation.server;
        if !server.queued {
            return false;
        }
        let earliest = state.dl_queue.first().map(|&task| self.dl_claim(task));
        earliest.is_none_or(|first| !first.is_sugov && dl_time_before(server.entity.deadline, first.deadline))
    }

    /// Arms the server's timer where fair tasks wait for others.
    #[inline]
    pub(crate) fn watch_fair_server(&mut self, cpu: CpuId) {
        if self.gates.rt_throttling == RtThrottling::FairServer
            && matches!(self.curr_class(cpu), Some(Class::RealTime | Class::Deadline))
        {
            self.arm_fair_server(cpu);
        }
    }

    #[inline(never)]
    fn arm_fair_server(&mut self, cpu: CpuId) {
        let state = &self.cpus[cpu];
        if self.tasks[state.curr].sugov.is_some() {
            // It never runs for long.
            return;
        }
        if state.fair.nr_queued() == 0 {
            return;
        }
        if self.server_is_first(cpu) {
            self.resched_cpu(cpu);
        } else if let Some(due_ns) = state.starvation.server.timer_ns() {
            self.arm_starvation(cpu, due_ns);
        }
    }

    fn arm_starvation(&mut self, cpu: CpuId, due_ns: u64) {
        let due_ns = due_ns.max(self.now + 1);
        let armed = &mut self.cpus[cpu].starvation.timer_ns;
        if *armed != due_ns {
            let was_armed = std::mem::replace(armed, due_ns) != 0;
            if was_armed {
                self.cancel_timer(cpu, TimerKind::Starvation);
            }
            self.add_timer(cpu, due_ns, TimerKind::Starvation);
        }
    }

    /// The armed timer of `cpu` (deadline.c:dl_server_timer(), v6.12; rt.c:sched_rt_period_timer(), v6.1).
    pub(crate) fn starvation_timer(&mut self, cpu: CpuId) {
        self.cpus[cpu].starvation.timer_ns = 0;
        self.bring_up_to_date(cpu);
        if self.gates.rt_throttling == RtThrottling::FairServer {
            self.charge_server(cpu);
            let state = &mut self.cpus[cpu];
            state.starvation.server.timer(state.clk.clock);
            self.watch_fair_server(cpu);
            return;
        }
        let start_ns = self.rt_period_start_ns;
        let state = &mut self.cpus[cpu];
        if !state.starvation.rt.throttled {
            return;
        }
        if state.starvation.rt.advance(state.clk.clock, start_ns) {
            state.nr_running += state.rt_queue.len() as u32;
            self.record_rt_throttle(cpu, false);
            self.note_change(cpu);
            let state = &self.cpus[cpu];
            if !state.rt_queue.is_empty() {
                self.idle_cpus.remove(cpu);
                if self.cpus[cpu].curr == TaskId::IDLE || self.curr_class(cpu) == Some(Class::Fair) {
                    self.resched_cpu(cpu);
                }
                self.cpufreq_update_util(cpu, 0);
            }
        } else {
            let end_ns = state.starvation.rt.period_end_ns(state.clk.clock, start_ns);
            self.arm_starvation(cpu, end_ns);
        }
    }
}
