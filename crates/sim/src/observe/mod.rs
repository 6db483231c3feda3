//! What a sink may know of a run: columns, checks, counters, reasons.

pub mod by_group;
pub mod check;
pub mod decisions;
pub(crate) mod journal;
pub mod psi;
pub(crate) mod sample;
pub mod sink;
pub mod smt_sharing;
pub mod task_energy;
pub mod why_slow;
