//! The run itself: from a case to an engine, the event loop, what tasks do, the outcome.

pub(crate) mod engine;
pub(crate) mod gates;
pub mod hooks;
pub(crate) mod objects;
pub(crate) mod program;
pub(crate) mod queue;
pub(crate) mod setup;
pub(crate) mod stream;
pub(crate) mod task;
pub(crate) mod watch;
