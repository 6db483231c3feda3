//! Perfetto behind as many empty packets as the format is recognised by.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(&[0x0a, 0].repeat(8), data));

#[path = "common.rs"]
mod common;
