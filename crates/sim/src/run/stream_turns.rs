//! How the emulated machine's instruction stream passes from CPU to CPU (see `stream`).

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{IDLE_TASK, Sink};
use rand_core::Rng;

use crate::run::agenda::Wait;
use crate::run::cpu::Interrupt;
use crate::run::engine::Engine;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// An interrupt of `cpu`, which waits for the stream.
    pub(crate) fn stream_interrupt(&mut self, cpu: u32, what: Interrupt) {
        let pending = &mut self.cpus[cpu as usize].pending;
        if !pending.contains(&what) {
            pending.push(what);
        }
        self.stream.expired |= what != Interrupt::NohzBalance;
    }

    /// Whether `cpu` has something to do.
    fn wants_stream(&self, cpu: u32) -> bool {
        let state = &self.cpus[cpu as usize];
        state.curr != IDLE_TASK
            || !state.pending.is_empty()
            || !state.wake_list.is_empty()
            || state.need_resched
            || state.idle.is_exiting()
    }

    /// The first CPU from `first` on, in cyclic order, that has something to do.
    fn next_for_stream(&self, first: u32) -> Option<u32> {
        let nr = self.cpus.len() as u32;
        (0..nr).map(|step| (first + step) % nr).find(|&cpu| self.wants_stream(cpu))
    }

    /// Lets the CPUs act, each when it holds the stream, until nothing is left to do at this instant.
    pub(crate) fn settle_stream(&mut self) {
        loop {
            while let Some(cpu) = self.resched.pop_front() {
                // Another CPU schedules when it gets the stream, each after its interrupts.
                let ready = self.stream.is_held(cpu) && self.cpus[cpu as usize].pending.is_empty();
                if ready && std::mem::take(&mut self.cpus[cpu as usize].need_resched) {
                    self.schedule(cpu);
                }
                self.run_irq_work();
            }
            // What else expires now belongs to the same end of turns.
            if self.stream.expired && self.agenda.peek() != Some(self.now) {
                self.stream.expired = false;
                let further = u32::from(self.stream.moved_by_timers);
                let nr = self.cpus.len() as u32;
                let first = match self.stream.owner {
                    Some(holder) => (holder + further) % nr,
                    None if self.stream.moved_by_timers => 0,
                    None => self.rng.next_u32() % nr,
                };
                let next = self.next_for_stream(first);
                self.give_stream(next);
            }
            match self.stream.owner {
                Some(cpu) if !self.cpus[cpu as usize].pending.is_empty() => {
                    if !self.stream.expired {
                        self.serve(cpu);
                    } else {
                        break;
                    }
                }
                Some(cpu) if self.cpus[cpu as usize].need_resched && self.cpus[cpu as usize].idle.is_awake() => {
                    self.resched.push_back(cpu);
                }
                Some(cpu) if self.wants_stream(cpu) => break,
                // Who gets it is decided when all that expires at this instant has.
                _ if self.stream.expired => break,
                owner => {
                    let next = self.next_for_stream(owner.map_or(0, |cpu| cpu + 1));
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
    fn give_stream(&mut self, next: Option<u32>) {
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
        if !self.cpus[cpu as usize].wake_list.is_empty() {
            self.run_wake_list(cpu);
        }
        if self.cpus[cpu as usize].need_resched && self.cpus[cpu as usize].idle.is_awake() {
            self.resched.push_back(cpu);
        }
        self.resume_idle_exit(cpu);
        self.reprogram(cpu);
    }

    /// The holder handles its interrupts, then arms its timer.
    fn serve(&mut self, cpu: u32) {
        self.leave_idle(cpu, 0);
        self.account(cpu);
        let mut pending = std::mem::take(&mut self.cpus[cpu as usize].pending);
        self.stream.nr_woken = 0;
        let armed = pending.iter().any(|what| matches!(what, Interrupt::Tick | Interrupt::Timers));
        for what in pending.drain(..) {
            self.handle(cpu, what);
        }
        self.reprogram(cpu);
        // Each wake-up takes what one on the way out of idle takes; an interrupt that woke nobody, what a tick does.
        let state = &self.cpus[cpu as usize];
        let exit_ns = self.exit_latency_ns(cpu);
        let wake_ns = exit_ns * u64::from(self.stream.nr_woken);
        if state.idle.is_exiting() {
            let ns = if wake_ns > 0 { wake_ns } else { self.case.machine.costs.tick_ns };
            self.arm(cpu, Wait::IdleExit, self.now + ns);
        } else if state.curr != IDLE_TASK {
            self.spend(cpu, wake_ns);
            self.reprogram(cpu);
        }
        if armed {
            self.kick_stream(cpu);
        }
    }

    /// `cpu` leaves idle to run a task: the kernel starts its tick before it schedules.
    pub(crate) fn stream_idle_exit(&mut self, cpu: u32) {
        if self.stream.shared && self.restart_tick(cpu) {
            self.kick_stream(cpu);
        }
    }

    /// `cpu` has armed a timer: if that is the earliest, the stream passes on.
    fn kick_stream(&mut self, cpu: u32) {
        let next = self.next_for_stream((cpu + 1) % self.cpus.len() as u32);
        if self.is_earliest(cpu) && next.is_some_and(|next| next != cpu) {
            self.give_stream(next);
        }
    }

    /// Whether the next tick of `cpu` comes before all timers of the other CPUs; of those at one instant, which are some ns apart, any may
    /// be the first.
    fn is_earliest(&mut self, cpu: u32) -> bool {
        let time = |cpu: u32, wait| self.armed_ns(cpu, wait).unwrap_or(u64::MAX);
        let own = time(cpu, Wait::Tick);
        let next = |cpu: u32| time(cpu, Wait::Timer).min(time(cpu, Wait::Tick));
        if own == u64::MAX || (0..self.cpus.len() as u32).any(|other| other != cpu && next(other) < own) {
            return false;
        }
        let equal = (0..self.cpus.len() as u32).filter(|&other| other != cpu && next(other) == own).count() as u32;
        equal == 0 || self.rng.next_u32().is_multiple_of(equal + 1)
    }
}
