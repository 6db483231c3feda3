//! Activations that were due when the run ends and have not been reported.
//!
//! Each program goes on as if no op took time from now on: an activation that is late even so was due and has not ended. An absolute
//! timer's later points that have passed are such activations, too; a relative timer begins anew when its task comes to it.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::Op;

use super::{OPS_AT_ONE_INSTANT_MAX, Step};
use crate::ids::TaskId;
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::task::{Doing, Life};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Counts what was due before now and has not been counted. The run is over: programs do not go on after this.
    pub(crate) fn count_activations_left(&mut self) {
        for task in self.tasks.ids() {
            let state = &self.tasks[task];
            let has_timer = || state.ops.iter().any(|op| matches!(op, Op::Activation { timed: true, .. }));
            if !matches!(state.life, Life::New | Life::Dead) && has_timer() {
                self.count_left_of(task);
            }
        }
    }

    fn count_left_of(&mut self, task: TaskId) {
        let ops = self.tasks[task].ops;
        let works = self.tasks[task].doing != Doing::Fresh;
        self.tasks[task].activation_run_ns += u64::from(works);
        // Whether the task had come to the timer of this loop.
        let mut ended = true;
        let mut nr_ops = 0;
        while nr_ops < OPS_AT_ONE_INSTANT_MAX {
            nr_ops += 1;
            let now = self.now;
            let (Step::Next | Step::Through) = (match ops.get(self.tasks[task].pc as usize) {
                None | Some(Op::Exit | Op::Timer { period_ns: 0, absolute: true, .. }) => return,
                Some(&Op::Timer { timer, period_ns, absolute, own }) => {
                    ended = false;
                    let due = self.pass_timer(task, timer, period_ns, absolute, own);
                    if due >= now && self.tasks[task].slack_ns >= 0 && !self.case.workload.cumulative_slack {
                        return;
                    }
                    self.next_op(task)
                }
                Some(&Op::Activation { timed, .. }) => {
                    let state = &mut self.tasks[task];
                    let (slack_ns, response_ns) = (state.slack_ns, state.response_ns);
                    let counts = timed && !state.pauses;
                    let asleep = state.release_ns.is_none_or(|release_ns| release_ns >= now);
                    if timed && (if ended { asleep } else { slack_ns >= 0 }) {
                        return;
                    }
                    state.next_loop(now);
                    if timed {
                        nr_ops = 0;
                    }
                    if counts {
                        self.outcome.unfinished_activations += u64::from(!ended);
                        self.count_activation(slack_ns);
                        self.journal.activation_left(now - BOOT_NS, task, slack_ns, response_ns);
                    }
                    ended = true;
                    self.next_op(task)
                }
                Some(&Op::LoopBegin { slot, count }) => self.op_loop_begin(task, slot, count),
                Some(&Op::LoopEnd { slot, begin }) => self.op_loop_end(task, slot, begin),
                Some(&Op::Skip { count }) => self.op_skip(task, count),
                Some(&Op::TimersFrom { ns }) => self.op_timers_from(task, ns),
                Some(&Op::Sleep { ns }) => {
                    self.tasks[task].slept_ns += ns;
                    self.next_op(task)
                }
                Some(Op::Run { .. } | Op::RunDraw { .. } | Op::RunListed { .. } | Op::Runtime { .. }) => {
                    self.tasks[task].activation_run_ns += 1;
                    self.next_op(task)
                }
                Some(_) => self.next_op(task),
            }) else {
                return;
            };
        }
    }
}
