//! The emulated machine: all CPUs share one instruction stream, which one of them holds at a time.
//!
//! This is how an emulator without acceleration and with a clock of instructions runs a machine (QEMU 7.2's TCG, one thread, with
//! `-icount`; accel/tcg/tcg-accel-ops-rr.c, softmmu/icount.c, softmmu/cpu-timers.c): only the CPU that holds the stream
//! executes, whatever its frequency or capacity; the others stand still in what they were doing, and time goes on.
//!
//! The stream passes
//! - to the next CPU in order that has something to do, when its holder becomes idle;
//! - when a timer expires anywhere: that ends the holder's turn; on arm64 the next CPU after it that has something to do gets the
//!   stream, on x86 the holder itself goes on (as all recordings show it). If none held it the first CPU of all is next, on x86
//!   any: there a timer counts down from when it was armed, so that of timers of one instant, which are some ns apart, any may be first;
//! - to the next such CPU, when the holder has handled its tick, or starts it again as it leaves idle, and that is now the
//!   earliest timer of all (that kicks the emulator's loop).
//!
//! An interrupt is handled when its CPU gets the stream. Not here: the emulator's kick ten times a second, and the moves of the
//! stream that a task's own arming of a timer causes.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{IDLE_TASK, Sink};
use opplab_model::machine::Machine;

use rand_core::Rng;

use crate::run::engine::{Engine, Interrupt, Wait};

/// Who holds the stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The machine shares one stream.
    pub(crate) shared: bool,
    /// [`Machine::timers_move_stream`].
    moved_by_timers: bool,
    /// The CPU that executes; always `None` if nothing is shared.
    owner: Option<u32>,
    /// A timer expired at this instant.
    expired: bool,
    /// Wake-ups by the interrupts that are handled at this instant.
    pub(crate) nr_woken: u32,
}

impl Stream {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { shared: machine.shared_stream, moved_by_timers: machine.timers_move_stream(), ..Self::default() }
    }

    /// Whether `cpu` executes instructions, if it has any to execute.
    pub(crate) fn is_held(&self, cpu: u32) -> bool {
        !self.shared || self.owner == Some(cpu)
    }
}

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
            if self.stream.expired && self.queue.peek() != Some(self.now) {
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
        let time = |cpu: u32, wait| self.queue.time_of(self.slot(cpu, wait)).unwrap_or(u64::MAX);
        let own = time(cpu, Wait::Tick);
        let next = |cpu: u32| time(cpu, Wait::Timer).min(time(cpu, Wait::Tick));
        if own == u64::MAX || (0..self.cpus.len() as u32).any(|other| other != cpu && next(other) < own) {
            return false;
        }
        let equal = (0..self.cpus.len() as u32).filter(|&other| other != cpu && next(other) == own).count() as u32;
        equal == 0 || self.rng.next_u32().is_multiple_of(equal + 1)
    }
}
