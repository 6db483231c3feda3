//! From a recorded trace to a workload that the engine runs again, under the recorded policy or another one.
//!
//! ```text
//!   trace, folder of a recording --Events::read--> Events --recover--> Workload --sim--> Events
//!        |                                           |                                     |
//!        +--Setup (machine, policy, costs)           +----------- measure, compare --------+
//! ```
//! [`agree`] runs a recording's own workload file on the machine that its snapshot describes and compares distributions;
//! [`rerun`] recovers the workload from the trace itself. Both compare what is measured in one way from both sides
//! ([`Measured`]). Integers only; files are read here, nothing is written.
//! Not here: formats of traces (crate `trace`), the kernel's algorithms (crate `kernel`), what runs do (crate `sim`).

pub mod agree;
pub mod beyond;
mod calls;
mod costs;
pub mod energy;
pub mod events;
pub mod fit;
pub mod idle;
pub mod idle_states;
mod late;
mod lost;
pub mod measure;
pub mod metrics;
pub mod nearer;
mod nohz;
pub mod open;
mod periods;
pub mod records;
pub mod recover;
pub mod report;
pub mod rerun;
pub mod rtapp;
mod rtlog;
pub mod setup;
pub mod signals;
pub mod silence;
mod tick;
pub mod wakeups;

use std::path::PathBuf;

pub use events::Events;
pub use measure::Measured;
pub use rerun::{Change, ClosedCase, Comparison, Mode, Replay, some_of, traced_machine};
pub use setup::{Recorded, Setup, recorded_kernel};

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A trace cannot be read.
    #[error("{}: {reason}", path.display())]
    Trace {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A machine, a workload or a policy does not fit; the message names the file where there is one.
    #[error("{0}")]
    Input(String),
}

impl From<opplab_model::ModelError> for ReplayError {
    fn from(error: opplab_model::ModelError) -> Self {
        Self::Input(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    /// The machine of unit tests.
    pub(crate) fn juno() -> opplab_model::machine::Machine {
        let text = include_str!("../../../python/opplab/data/machines/juno-r2.toml");
        opplab_model::file::parse_machine("juno-r2.toml", text).unwrap_or_else(|error| panic!("{error}"))
    }
}
