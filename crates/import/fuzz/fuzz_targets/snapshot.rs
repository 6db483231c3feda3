//! Sysfs snapshots.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod common;

fuzz_target!(|data: &[u8]| {
    common::all(&[b"/sys/devices/system/cpu/online: 0-3|\n", data].concat());
});
