//! ftrace text behind its first header line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(b"# tracer: nop\n", data));

#[path = "common.rs"]
mod common;
