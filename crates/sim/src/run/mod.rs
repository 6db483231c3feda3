//! The run itself: from a case to an engine, the event loop, what tasks do, the outcome.

pub(crate) mod accounts;
pub(crate) mod agenda;
mod case_check;
mod changes;
pub(crate) mod counted;
pub(crate) mod cpu;
pub(crate) mod cpu_sets;
pub(crate) mod engine;
pub(crate) mod gates;
mod hook_calls;
pub mod hooks;
mod interrupts;
mod main_loop;
pub(crate) mod objects;
mod program;
pub(crate) mod queue;
pub(crate) mod resched;
pub(crate) mod setup;
pub(crate) mod stream;
mod stream_turns;
pub(crate) mod task;
pub(crate) mod timers;
mod totals;
pub(crate) mod watch;
