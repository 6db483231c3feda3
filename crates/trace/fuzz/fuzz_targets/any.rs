//! Whatever the bytes are: formats are recognised, outer compression is unpacked.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read(data));

#[path = "common.rs"]
mod common;
