//! Device tree blobs.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    common::all(data);
    common::all(&[&[0xd0, 0x0d, 0xfe, 0xed], data].concat());
});
