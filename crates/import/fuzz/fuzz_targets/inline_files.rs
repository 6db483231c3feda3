//! A dump whose sysfs values, cpuinfo and MSRs are the input, split at zero bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.split(|&byte| byte == 0);
    let mut next = || parts.next().unwrap_or(&[]);
    common::all(&common::dump(next(), next(), next()));
});
