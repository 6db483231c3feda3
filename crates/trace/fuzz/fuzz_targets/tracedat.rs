//! trace.dat behind its magic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(b"\x17\x08\x44tracing", data));

#[path = "common.rs"]
mod common;
