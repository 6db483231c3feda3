//! Ops that only lead through the program: loops, skips, counts.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{Event, Sink};
use opplab_model::workload::Op;

use super::Step;
use crate::COLD_NS;
use crate::ids::TaskId;
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// How often `task` has passed the loop with this counter.
    pub(super) fn passes(&mut self, task: TaskId, slot: u16) -> &mut u32 {
        &mut self.loops[self.tasks[task].loops as usize + usize::from(slot)]
    }

    #[inline(never)]
    pub(super) fn op_loop_begin(&mut self, task: TaskId, slot: u16, count: Option<u32>) -> Step {
        let begin = self.tasks[task].pc;
        *self.passes(task, slot) = 0;
        if count == Some(0) {
            self.tasks[task].pc = self.loop_end_of(task, begin);
        }
        self.go_on(task)
    }

    pub(super) fn op_loop_end(&mut self, task: TaskId, slot: u16, begin: u32) -> Step {
        let state = &mut self.tasks[task];
        let count = match state.ops.get(begin as usize) {
            Some(&Op::LoopBegin { count, .. }) => count,
            _ => Some(0),
        };
        let passes = &mut self.loops[state.loops as usize + usize::from(slot)];
        *passes = passes.saturating_add(1);
        if count.is_none_or(|count| *passes < count) {
            state.pc = begin;
        }
        state.pc += 1;
        Step::Through
    }

    /// Where the loop that starts at `begin` ends.
    fn loop_end_of(&self, task: TaskId, begin: u32) -> u32 {
        let ops = self.tasks[task].ops;
        let is_end = |op: &Op| matches!(op, Op::LoopEnd { begin: of, .. } if *of == begin);
        ops.iter().position(is_end).map_or(ops.len() as u32, |end| end as u32)
    }

    pub(super) fn op_skip(&mut self, task: TaskId, count: u16) -> Step {
        self.tasks[task].pc += u32::from(count);
        self.go_on(task)
    }

    /// Skips `count` ops if the task was here in the same tick.
    #[inline(never)]
    pub(super) fn op_skip_in_tick(&mut self, task: TaskId, count: u16) -> Step {
        let jiffies = self.jiffies();
        let same = self.tasks[task].stamp_jiffies.replace(jiffies) == Some(jiffies);
        self.op_skip(task, if same { count } else { 0 })
    }

    #[inline(never)]
    pub(super) fn op_activation(&mut self, task: TaskId, phase: u16, timed: bool) -> Step {
        let now = self.now;
        let state = &mut self.tasks[task];
        let timed = timed && !state.pauses;
        let event = Event::Activation {
            task: task.0,
            phase,
            timed,
            period_ns: now - state.activation_ns,
            run_ns: state.activation_run_ns,
            wu_lat_ns: state.wu_lat_ns,
            response_ns: state.response_ns,
            slack_ns: state.slack_ns,
            to_timer_ns: state.to_timer_ns,
        };
        let slack_ns = state.slack_ns;
        state.next_loop(now);
        if timed {
            self.count_activation(slack_ns);
        }
        self.emit(event);
        self.go_on(task)
    }

    /// Counts an activation that a timer began; with a negative slack it is missed.
    pub(super) fn count_activation(&mut self, slack_ns: i64) {
        self.outcome.activations += 1;
        let missed = u64::from(slack_ns < 0);
        self.outcome.missed_activations += missed;
        if self.now < BOOT_NS + COLD_NS {
            self.outcome.missed_at_start += missed;
        }
    }

    pub(super) fn op_count(&mut self, task: TaskId) -> Step {
        self.outcome.counts += 1;
        self.counted.note(task, self.wall_ns(), self.case.workload.warmup_ns);
        let marks = self.case.workload.metric.as_ref().map_or(&[][..], |metric| &metric.marks);
        if marks.get(self.outcome.marks_ns.len()) == Some(&self.outcome.counts) {
            self.outcome.marks_ns.push(self.wall_ns());
            let energy_fj = self.energy_fj();
            self.outcome.marks_fj.push(energy_fj);
        }
        self.go_on(task)
    }
}
