//! Ops that take time: work, sleep, timers.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::{ObjectIdx, SchedPolicy};

use super::Step;
use crate::ids::{CpuId, TaskId};
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::task::{Doing, Life, WORK_SHIFT};
use crate::run::timers::TimerKind;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    pub(super) fn op_run(&mut self, task: TaskId, work_ns: u64, fixed: u16) -> Step {
        self.next_op(task);
        self.give_work(task, work_ns, fixed)
    }

    pub(super) fn op_run_draw(&mut self, task: TaskId, draw: u32, fixed: u16) -> Step {
        self.next_op(task);
        let work_ns = self.objects.decks[draw as usize].draw();
        self.give_work(task, work_ns, fixed)
    }

    #[inline(never)]
    pub(super) fn op_run_listed(&mut self, task: TaskId, draw: u32, slot: u16, fixed: u16) -> Step {
        self.next_op(task);
        let round = *self.passes(task, slot);
        let list = &self.case.workload.draws[draw as usize];
        self.give_work(task, list[round as usize % list.len()], fixed)
    }

    #[inline(never)]
    pub(super) fn op_runtime(&mut self, task: TaskId, wall_ns: u64) -> Step {
        self.next_op(task);
        if wall_ns == 0 {
            return Step::Next;
        }
        self.tasks[task].doing = Doing::Wall { left_ns: wall_ns };
        self.tasks[task].run_since_ns = Some(self.now);
        Step::Busy
    }

    /// An access to a cache line that all write: the task runs until those before it and its own are over.
    #[inline(never)]
    pub(super) fn op_contend(&mut self, cpu: CpuId, task: TaskId, line: ObjectIdx, hold_ns: u64) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        let free_ns = &mut self.objects.lines[line as usize].free_ns;
        *free_ns = (*free_ns).max(self.now) + hold_ns;
        let left_ns = *free_ns - self.now;
        self.at_line(task, left_ns)
    }

    /// An access to a cache line that all read and few write: the task runs until the line is in its last-level cache.
    #[inline(never)]
    pub(super) fn op_share(&mut self, cpu: CpuId, task: TaskId, line: ObjectIdx, fetch_ns: u32, every: u32) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        let is_here = self.objects.lines[line as usize].access(self.topology.llc_of[cpu], every);
        self.at_line(task, if is_here { 0 } else { fetch_ns.into() })
    }

    fn at_line(&mut self, task: TaskId, left_ns: u64) -> Step {
        if left_ns == 0 {
            return Step::Next;
        }
        self.outcome.line_ns += left_ns;
        self.tasks[task].doing = Doing::Wall { left_ns };
        Step::Busy
    }

    /// Gives `task` `work_ns` of work to do.
    fn give_work(&mut self, task: TaskId, work_ns: u64, fixed: u16) -> Step {
        if work_ns == 0 {
            return Step::Next;
        }
        self.tasks[task].doing = Doing::Work { left: work_ns << WORK_SHIFT, fixed };
        self.tasks[task].run_since_ns = Some(self.now);
        self.outcome.work_given += u128::from(work_ns) << WORK_SHIFT;
        Step::Busy
    }

    #[inline(never)]
    pub(super) fn op_sleep(&mut self, cpu: CpuId, task: TaskId, ns: u64) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        self.tasks[task].slept_ns += ns;
        self.add_timer(cpu, self.now + ns, TimerKind::Wake(task));
        self.block(task, Life::Sleeping)
    }

    /// Sleeps until the next point of a timer's grid.
    #[inline(never)]
    pub(super) fn op_timer(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        timer: ObjectIdx,
        period_ns: u64,
        absolute: bool,
        own: bool,
    ) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        let due = self.pass_timer(task, timer, period_ns, absolute, own);
        if due <= self.now {
            return Step::Next;
        }
        self.add_timer(cpu, due, TimerKind::Wake(task));
        self.block(task, Life::Sleeping)
    }

    /// The task comes to a timer; the next point of its grid.
    pub(super) fn pass_timer(
        &mut self,
        task: TaskId,
        timer: ObjectIdx,
        period_ns: u64,
        absolute: bool,
        own: bool,
    ) -> u64 {
        let now = self.now;
        let state = &mut self.tasks[task];
        let next = if own { &mut state.own_timers[timer as usize] } else { &mut self.objects.timers[timer as usize] };
        let begun_ns = next.unwrap_or(state.started_ns);
        let due = begun_ns + period_ns;
        state.pauses |= std::mem::take(&mut state.slept_ns) >= period_ns;
        let release_ns = if due <= now && !absolute { now } else { due };
        *next = Some(release_ns);
        if let Some(released_ns) = state.release_ns.replace(release_ns) {
            state.response_ns += now.saturating_sub(released_ns);
        } else if state.activation_run_ns > 0 {
            state.response_ns += now - state.activation_ns;
        }
        let to_timer = due as i64 - now as i64;
        // A SCHED_DEADLINE task whose deadline is before its period ends is due then.
        let own_ns = match state.policy {
            SchedPolicy::Deadline { deadline_ns, period_ns, .. } if deadline_ns < period_ns => Some(deadline_ns),
            _ => None,
        };
        let slack = own_ns.map_or(to_timer, |own_ns| to_timer.min((begun_ns + own_ns) as i64 - now as i64));
        if !self.case.workload.cumulative_slack {
            (state.slack_ns, state.to_timer_ns) = (0, 0);
        }
        state.slack_ns = state.slack_ns.saturating_add(slack);
        state.to_timer_ns = state.to_timer_ns.saturating_add(to_timer);
        due
    }

    #[inline(never)]
    pub(super) fn op_timers_from(&mut self, task: TaskId, ns: u64) -> Step {
        self.tasks[task].started_ns = BOOT_NS.saturating_add(ns);
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_timers_by_tick(&mut self, task: TaskId) -> Step {
        self.tasks[task].timers_by_tick = true;
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_set_timer_slack(&mut self, task: TaskId, ns: u64) -> Step {
        self.tasks[task].timer_slack_ns = ns;
        self.next_op(task)
    }
}
