//! Prints the table of the open loop in docs/replay-accuracy.md: `cargo run --release -p opplab-replay --example open -- TRACE...`.

use std::path::Path;

use opplab_replay::events::What;
use opplab_replay::records::Records;
use opplab_replay::{Comparison, Mode, Replay};

/// Distances of residency by policy, of energy, and whether both are near.
fn cells(found: &Comparison) -> String {
    let tenth = |per_100k: u64| format!("{:.1}", per_100k as f64 / 1000.0);
    let residency: Vec<String> = found.freq_distance.iter().map(|&distance| tenth(distance)).collect();
    let near = if found.is_near() { "near" } else { "-" };
    format!("{} | {} | {near}", residency.join(", "), tenth(found.energy_distance))
}

fn main() {
    println!("| recording | governor | residency, points | energy, % | | plain: residency, points | energy, % | |");
    println!("| --- | --- | --- | ---: | --- | --- | ---: | --- |");
    let (mut near, mut near_plain) = (0, 0);
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut replay = match Replay::read(path, None) {
            Ok(replay) => replay,
            Err(_) => continue,
        };
        let governor = replay.setup.policy.governor.clone();
        let told = replay.compare(None, Mode::Open).unwrap_or_else(|error| panic!("{name}: {error}"));
        replay.events.list.retain(|ev| !matches!(ev.what, What::UpdateUtil { .. }));
        replay.events.records = Records::default();
        let plain = replay.compare(None, Mode::Open).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("| {name} | {governor} | {} | {} |", cells(&told), cells(&plain));
        near += u32::from(told.is_near());
        near_plain += u32::from(plain.is_near());
    }
    println!("\nnear: {near}, plain {near_plain}");
}
