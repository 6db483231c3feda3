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

use opplab_model::machine::Machine;

use crate::ids::CpuId;

/// Who holds the stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The machine shares one stream.
    pub(crate) shared: bool,
    /// [`Machine::timers_move_stream`].
    pub(super) moved_by_timers: bool,
    /// The CPU that executes; always `None` if nothing is shared.
    pub(super) owner: Option<CpuId>,
    /// A timer expired at this instant.
    pub(super) expired: bool,
    /// Wake-ups by the interrupts that are handled at this instant.
    pub(crate) nr_woken: u32,
}

impl Stream {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { shared: machine.shared_stream, moved_by_timers: machine.timers_move_stream(), ..Self::default() }
    }

    /// Whether `cpu` executes instructions, if it has any to execute.
    pub(crate) fn is_held(&self, cpu: CpuId) -> bool {
        !self.shared || self.owner == Some(cpu)
    }
}
