//! Prints the tables of both loops in docs/replay.md: `cargo run --release -p opplab-replay --example open -- TRACE...`.

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
    let (mut near, mut near_plain, mut near_closed) = (0, 0, 0);
    let mut closed_rows = Vec::new();
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut replay = match Replay::read(path, None) {
            Ok(replay) => replay,
            Err(_) => continue,
        };
        let governor = replay.setup.policy.governor.clone();
        let told = replay.compare(None, Mode::Open).unwrap_or_else(|error| panic!("{name}: {error}"));
        let closed = replay.compare(None, Mode::Closed).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tenth = |per_100k: u64| per_100k as f64 / 1000.0;
        let (freq, energy) = (tenth(closed.freq_spread), tenth(closed.energy_spread));
        closed_rows.push(format!("| {name} | {} | {freq:.1} | {energy:.1} |", cells(&closed)));
        near_closed += u32::from(closed.is_near());
        replay.events.list.retain(|ev| !matches!(ev.what, What::UpdateUtil { .. }));
        replay.events.records = Records::default();
        let plain = replay.compare(None, Mode::Open).unwrap_or_else(|error| panic!("{name}: {error}"));
        println!("| {name} | {governor} | {} | {} |", cells(&told), cells(&plain));
        near += u32::from(told.is_near());
        near_plain += u32::from(plain.is_near());
    }
    println!("\nnear: {near}, plain {near_plain}\n");
    println!("| recording | residency, points | energy, % | | runs within, points | runs within, % |");
    println!("| --- | --- | ---: | --- | ---: | ---: |");
    println!("{}\n\nnear: {near_closed}", closed_rows.join("\n"));
}
