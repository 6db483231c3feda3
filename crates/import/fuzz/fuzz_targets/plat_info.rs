//! LISA plat_info files.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    common::all(&[b"platform-info:\n  conf:\n".as_slice(), data].concat());
});
