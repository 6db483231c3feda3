//! The tests of this crate, in one program: what they all need is compiled once.

mod benchmarks;
mod classes;
mod common;
mod decisions;
mod eas_cases;
mod engine;
mod fingerprints;
mod groups;
mod hardware;
mod hybrid;
mod intel;
mod knobs;
mod measured;
mod messages;
mod nohz;
mod stream;
mod swarm;
mod throttle;
mod timers;
