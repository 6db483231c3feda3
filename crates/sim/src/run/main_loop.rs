//! The loop of a run: pops the next event, advances the clock, hands the event to whom it concerns.
//!
//! Handlers change state and mark CPUs that must reschedule; `settle` then runs the scheduler on those CPUs until nothing is left
//! to do at this instant.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;

use crate::run::agenda::{Wait, Waiter};
use crate::run::cpu::{BOOT_NS, Interrupt};
use crate::run::engine::Engine;
use crate::{CaseError, Outcome};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Runs to the end of the case.
    pub(crate) fn run(mut self) -> Result<Outcome, CaseError> {
        let end = BOOT_NS + self.case.duration_ns;
        let warmup_end = BOOT_NS + self.case.workload.warmup_ns;
        self.start();
        self.settle();
        let mut before = Outcome::default();
        if warmup_end > BOOT_NS {
            self.run_until(warmup_end);
            if self.has_ended() && self.error.is_none() {
                return Err(CaseError(self.case.workload.ended_in_warmup(self.wall_ns())));
            }
            before = self.totals();
        }
        self.run_until(end);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.assert_bandwidths();
        Ok(self.finish(&before))
    }

    /// Handles all events up to `end`, or until the benchmark's own tasks have ended. The clock is then there.
    fn run_until(&mut self, end: u64) {
        while let Some(due) = self.agenda.next() {
            let time = due.time_ns;
            if self.change_before(time.min(end)) {
                self.settle();
                continue;
            }
            if time > end || self.error.is_some() {
                break;
            }
            self.samples_until(time);
            let waiter = self.agenda.take(due);
            self.now = time;
            self.outcome.engine_events += 1;
            self.dispatch(waiter);
            self.settle();
            if self.has_ended() {
                return;
            }
        }
        self.samples_until(end);
        self.now = end;
    }

    /// The benchmark's own tasks have ended, if it has such.
    fn has_ended(&self) -> bool {
        self.nr_main_left == 0 && self.case.workload.nr_main > 0
    }

    fn dispatch(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Cpu(cpu, Wait::Timer) => self.interrupt(cpu, Interrupt::Timers),
            Waiter::Cpu(cpu, Wait::Op) => self.op_end(cpu),
            Waiter::Cpu(cpu, Wait::IdleExit) => self.idle_exit_due(cpu),
            Waiter::Cpu(cpu, Wait::Ipi) => self.ipi(cpu),
            Waiter::Cpu(cpu, Wait::Tick) => self.interrupt(cpu, Interrupt::Tick),
            Waiter::Switch(policy) => self.switch_done(policy),
            Waiter::Device(device) => self.device_done(device),
            Waiter::Package(package) => self.pcu(package),
        }
    }

    /// Schedules on every CPU that was asked to, until none is left.
    #[inline(always)]
    fn settle(&mut self) {
        self.run_irq_work();
        if self.stream.shared {
            return self.settle_stream();
        }
        while let Some(cpu) = self.resched.pop() {
            if std::mem::take(&mut self.cpus[cpu].need_resched) {
                self.schedule(cpu);
                self.balance_push(cpu);
            }
            self.run_irq_work();
        }
    }
}
