//! Perfetto behind a first, empty packet.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(b"\\x0a\\x02\\x50\\x01", data));

#[path = "common.rs"]
mod common;
