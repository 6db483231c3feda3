//! turbostat headers and tables.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    common::all(&[b"turbostat version\nPackage\tCore\tCPU\tAvg_MHz\n".as_slice(), data].concat());
    common::all(&[b"turbostat version\n".as_slice(), data].concat());
});
