//! Wattson tables.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    common::all(&[b"device,policy,freq_khz,static,active,idle0,idle1\n".as_slice(), data].concat());
});
