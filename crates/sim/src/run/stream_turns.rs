//! How the emulated machine's instruction stream passes from CPU to CPU (see `stream`).

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use rand_core::Rng;

use crate::ids::{CpuId, TaskId};
use crate::run::agenda::Wait;
use crate::run::cpu::Interrupt;
use crate::run::engine::Engine;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// An interrupt of `cpu`, which waits for the stream.
    pub(crate) fn stream_interrupt(&mut self, cpu: CpuId, what: Interrupt) {
        let pending = &mut self.cpus[cpu].pending;
        if !pending.contains(&what) {
            pending.push(what);
        }
        self.stream.expired |= what != Interrupt::NohzBalance;
    }

    /// Whether `cpu` has something to do.
    fn wants_stream(&self, cpu: CpuId) -> bool {
        let state = &self.cpus[cpu];
        state.curr != TaskId::IDLE
            || !state.pending.is_empty()
            || !state.wake_list.is_empty()
            || state.need_resched
            || state.idle.is_exiting()
    }

    /// The first CPU from `first` on, in cyclic order, that has something to do.
    fn next_for_stream(&self, first: CpuId) -> Option<CpuId> {
        let nr = self.cpus.len() as u32;
        (0..nr).map(|step| CpuId((first.0 + step) % nr)).find(|&cpu| self.wants_stream(cpu))
    }

    /// Lets the CPUs act, each when it holds the stream, until nothing is left to do at this instant.
    pub(crate) fn settle_stream(&mut self) {
        loop {
            while let Some(cpu) = self.resched.pop() {
                // Another CPU schedules when it gets the stream, each after its interrupts.
                let ready = self.stream.is_held(cpu) && self.cpus[cpu].pending.is_empty();
                if ready && std::mem::take(&mut self.cpus[cpu].need_resched) {
                    self.schedule(cpu);
                }
                self.run_irq_work();
            }
            // What else expires now belongs to the same end of turns.
            if self.stream.expired && self.agenda.next().map(|due| due.time_ns) != Some(self.now) {
                self.stream.expired = false;
                let further = u32::from(self.stream.moved_by_timers);
                let nr = self.cpus.len() as u32;
                let first = match self.stream.owner {
                    Some(holder) => CpuId((holder.0 + further) % nr),
                    None if self.stream.moved_by_timers => CpuId(0),
                    None => CpuId(self.rng.next_u32() % nr),
                };
                let next = self.next_for_stream(first);
                self.give_stream(next);
            }
            match self.stream.owner {
                Some(cpu) if !self.cpus[cpu].pending.is_empty() => {
                    if !self.stream.expired {
                        self.serve(cpu);
                    } else {
                        break;
                    }
                }
                Some(cpu) if self.cpus[cpu].need_resched && self.cpus[cpu].idle.is_awake() => {
                    self.resched.push(cpu);
                }
                Some(cpu) if self.wants_stream(cpu) => break,
                // Who gets it is decided when all that expires at this instant has.
                _ if self.stream.expired => break,
                owner => {
                    let next = self.next_for_stream(owner.map_or(CpuId(0), |cpu| CpuId(cpu.0 + 1)));
                    if next.is_none() {
                        self.give_stream(None);
                        break;
                    }
                    self.give_stream(next);
                }
            }
        }
    }

    /// Passes the stream: the holder stops where it is, `next` goes on from where it stood.
    fn give_stream(&mut self, next: Option<CpuId>) {
        if self.stream.owner == next {
            return;
        }
        if let Some(cpu) = self.stream.owner {
            self.account(cpu);
            self.disarm(cpu, Wait::Op);
            self.pause_idle_exit(cpu);
        }
        if let Some(cpu) = next {
            self.account(cpu);
        }
        self.stream.owner = next;
        let Some(cpu) = next else { return };
        self.here = cpu;
        if !self.cpus[cpu].wake_list.is_empty() {
            self.run_wake_list(cpu);
        }
        if self.cpus[cpu].need_resched && self.cpus[cpu].idle.is_awake() {
            self.resched.push(cpu);
        }
        self.resume_idle_exit(cpu);
        self.reprogram(cpu);
    }

    /// The holder handles its interrupts, then arms its timer.
    fn serve(&mut self, cpu: CpuId) {
        self.leave_idle(cpu, 0);
        self.account(cpu);
        let mut pending = std::mem::take(&mut self.cpus[cpu].pending);
        self.stream.nr_woken = 0;
        let armed = pending.iter().any(|what| matches!(what, Interrupt::Tick | Interrupt::Timers));
        for what in pending.drain(..) {
            self.handle(cpu, what);
        }
        self.reprogram(cpu);
        // Each wake-up takes what one on the way out of idle takes; an interrupt that woke nobody, what a tick does.
        let state = &self.cpus[cpu];
        let exit_ns = self.exit_latency_ns(cpu);
        let wake_ns = exit_ns * u64::from(self.stream.nr_woken);
        if state.idle.is_exiting() {
            let ns = if wake_ns > 0 { wake_ns } else { self.case.machine.costs.tick_ns };
            self.arm(cpu, Wait::IdleExit, self.now + ns);
        } else if state.curr != TaskId::IDLE {
            self.spend(cpu, wake_ns);
            self.reprogram(cpu);
        }
        if armed {
            self.kick_stream(cpu);
        }
    }

    /// `cpu` leaves idle to run a task: the kernel starts its tick before it schedules.
    pub(crate) fn stream_idle_exit(&mut self, cpu: CpuId) {
        if self.stream.shared && self.restart_tick(cpu) {
            self.kick_stream(cpu);
        }
    }

    /// `cpu` has armed a timer: if that is the earliest, the stream passes on.
    fn kick_stream(&mut self, cpu: CpuId) {
        let next = self.next_for_stream(CpuId((cpu.0 + 1) % self.cpus.len() as u32));
        if self.is_earliest(cpu) && next.is_some_and(|next| next != cpu) {
            self.give_stream(next);
        }
    }

    /// Whether the next tick of `cpu` comes before all timers of the other CPUs; of those at one instant, which are some ns apart, any may
    /// be the first.
    fn is_earliest(&mut self, cpu: CpuId) -> bool {
        let time = |cpu: CpuId, wait| self.armed_ns(cpu, wait).unwrap_or(u64::MAX);
        let own = time(cpu, Wait::Tick);
        let next = |cpu: CpuId| time(cpu, Wait::Timer).min(time(cpu, Wait::Tick));
        if own == u64::MAX || self.cpus.ids().any(|other| other != cpu && next(other) < own) {
            return false;
        }
        let equal = self.cpus.ids().filter(|&other| other != cpu && next(other) == own).count() as u32;
        equal == 0 || self.rng.next_u32().is_multiple_of(equal + 1)
    }
}
