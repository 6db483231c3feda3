//! A simulated run as a kernel trace: the run's events in the forms of crate `trace` ([`RunTrace`]), and what its decisions were made
//! of, in words ([`Reasons`]).
//!
//! ```text
//!   sim::run ──events──► RunTrace ──► trace.dat, ftrace text, Perfetto
//!           └─decisions─► Reasons ──annotations──────────────┘
//! ```
//! Both are sinks; crate `sim` is not known here.

mod reasons;
mod run_trace;

pub use reasons::Reasons;
pub use run_trace::{FIRST_PID, RunTrace};
