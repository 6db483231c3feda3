//! Ring-buffer pages inside of a sound trace.dat: the records are what is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    const PAGE: usize = 4096;
    let mut file = SEED.to_vec();
    // The last three pages of the seed are its data.
    let start = file.len() - 3 * PAGE;
    for (place, byte) in data.iter().take(3 * PAGE).enumerate() {
        file[start + place] ^= byte;
    }
    common::read(&file);
});

/// A small version 6 file (the one that the tests build).
static SEED: &[u8] = include_bytes!("../seeds/plain_v6.dat");

#[path = "common.rs"]
mod common;
