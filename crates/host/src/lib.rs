//! The live Linux host: what it reports about frequency and energy, what its CPUs do, and the same governors as in the
//! simulator in charge of it, with everything put back afterwards.
//!
//! ```text
//!   Root (/, a copied tree, a snapshot) ──► show        values, each with its file; verdicts
//!                                      ├──► observe     counters ─► Avg_MHz, Busy%, Bzy_MHz, TSC_MHz
//!                                      ├──► affinity    kthreads `sugov:N`: where they may run
//!                                      ├──► govern      supervisor ─► worker: kernel's governors in user space
//!                                      ├──► record      tracefs ─► .tar.zst that the trace readers open
//!                                      ├──► calibrate   rounds of loops, sleeps, flushes ─► numbers with intervals
//!                                      └──► compare     variants in blocks ─► changes with intervals
//! ```
//! [`cli::main`] is the command line of both `opplab host` and the static `opplab-agent`. Not here: decisions, which
//! are crate `kernel`'s, and what files mean for a machine, which is crate `import`'s.

pub mod affinity;
pub mod calibrate;
pub mod cli;
pub mod clock;
pub mod compare;
pub mod counters;
mod error;
pub mod govern;
mod json;
pub mod observe;
pub mod patient;
pub mod record;
pub mod root;
pub mod scheddebug;
pub mod show;
mod shown;
pub mod snapshot;
pub mod tracedat;
pub mod util;
mod whole;

pub use error::HostError;
pub use root::Root;
