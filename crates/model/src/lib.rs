//! The nouns of opplab: machines, workloads, policies, experiments, events.
//!
//! Files parse into a [`tree`] whose values know where they stood, which converts into the validated types of this
//! crate. After that nobody checks again: ids are dense, CPU sets are non-empty where they must be, tables are sorted.
//! This crate does no I/O; it parses text that somebody else read.

pub mod benchmark;
pub mod case;
pub mod counters;
pub mod cpus;
pub mod decision;
pub mod disk;
pub mod error;
pub mod event;
pub mod experiment;
pub mod file;
mod file_table;
pub mod governor;
pub mod groups;
pub mod ids;
pub mod json;
pub mod latency;
pub mod machine;
pub mod metric;
mod op;
pub mod policy;
pub mod policy_keys;
pub mod policy_values;
pub mod power;
pub mod power_ends;
pub mod program_class;
pub mod range;
pub mod rtapp;
pub mod samples;
pub mod start;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tree;
pub mod variation;
pub mod workload;

pub use error::ModelError;
