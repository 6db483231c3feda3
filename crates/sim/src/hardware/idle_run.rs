//! The idle state of a CPU.

/// Whether a CPU executes, sleeps, or is on its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Executes tasks or interrupts.
    Awake,
    /// In an idle state (or entering it until `entry_done_ns`).
    Resident,
    /// Wakes up.
    Exiting,
}

/// The idle state of a CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleRun {
    pub(super) phase: Phase,
    pub(crate) state: usize,
    pub(super) since_ns: u64,
    pub(super) entry_done_ns: u64,
    pub(super) exit_since_ns: u64,
    /// What is left of an exit that waits for the instruction stream.
    pub(super) exit_left_ns: u64,
}

impl Default for IdleRun {
    fn default() -> Self {
        Self { phase: Phase::Awake, state: 0, since_ns: 0, entry_done_ns: 0, exit_since_ns: 0, exit_left_ns: 0 }
    }
}

impl IdleRun {
    pub(crate) fn is_awake(&self) -> bool {
        self.phase == Phase::Awake
    }

    /// Whether it sleeps in state `from` or a deeper one.
    pub(crate) fn is_down(&self, from: usize) -> bool {
        self.phase == Phase::Resident && self.state >= from
    }

    pub(crate) fn is_exiting(&self) -> bool {
        self.phase == Phase::Exiting
    }

    pub(super) fn is_resident(&self) -> bool {
        self.phase == Phase::Resident
    }
}
