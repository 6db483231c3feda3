//! SchedViz's bpftrace log behind its first line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(b"ST:0:1\n", data));

#[path = "common.rs"]
mod common;
