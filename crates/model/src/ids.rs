//! What events and decisions call CPUs, tasks and rules of placement.

/// Index of a CPU, dense from 0.
pub type CpuIdx = u32;
/// Index of a task, dense from 0. [`IDLE_TASK`] stands for the idle task of any CPU.
pub type TaskIdx = u32;

/// The idle task ("swapper") in events.
pub const IDLE_TASK: TaskIdx = u32::MAX;

/// Which rule decided a placement or a frequency; carried by the decision events for `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PlacementRule {
    /// find_energy_efficient_cpu() chose it.
    Eas = 0,
    /// select_idle_sibling() found an idle CPU.
    IdleSibling = 1,
    /// wake_affine() target without an idle CPU.
    Target = 2,
    /// sched_balance_find_dst_cpu(): fork or exec.
    Idlest = 3,
    /// The task may run on one CPU only.
    Pinned = 4,
    /// A load balance moved it.
    Balance = 5,
    /// An active or misfit balance moved it.
    ActiveBalance = 6,
    /// A policy for tests, or a user's policy in Python.
    Custom = 7,
    /// CPU selection of deadline tasks.
    Deadline = 8,
    /// CPU selection of real-time tasks.
    RealTime = 9,
}

impl PlacementRule {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Eas,
        Self::IdleSibling,
        Self::Target,
        Self::Idlest,
        Self::Pinned,
        Self::Balance,
        Self::ActiveBalance,
        Self::Custom,
        Self::Deadline,
        Self::RealTime,
    ];
}
