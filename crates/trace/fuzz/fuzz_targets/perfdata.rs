//! perf.data behind its magic: headers, attributes, records, compressed records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| common::read_behind(b"PERFILE2", data));

#[path = "common.rs"]
mod common;
