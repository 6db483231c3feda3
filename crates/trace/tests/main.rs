//! The tests of this crate, in one program: what they all need is compiled once.

mod built;
mod common;
mod hostile;
mod impossible;
mod pages;
mod perf_data;
mod perfetto;
mod text;
mod trace_cmd;
mod write;
