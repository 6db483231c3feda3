//! Prints in which way closed loops run CPUs that shared one instruction stream, and how near that is where the other half of the recording
//! decides: `cargo run --release -p opplab-replay --example streams -- TRACE...`.

use std::path::Path;

use opplab_replay::metrics::Whole;
use opplab_replay::nearer::HeldOut;
use opplab_replay::{Mode, Replay};

/// The greatest distance, and whether it is near.
fn cell(whole: &Whole) -> String {
    let most = [whole.frequency, whole.energy, whole.busy, whole.latency_p95].into_iter().flatten().max().unwrap_or(0);
    format!("{:.1}{}", most as f64 / 1000.0, if whole.is_near() { " near" } else { "" })
}

fn way(shared: bool) -> &'static str {
    if shared { "shared" } else { "apart" }
}

fn main() {
    println!("| recording | way | other way, % | taken, % | second half by the first: way | apart, % | taken, % |");
    println!("| --- | --- | ---: | ---: | --- | ---: | ---: |");
    let (mut all, mut near, mut halves, mut near_apart, mut near_taken) = (0, 0, 0, 0, 0);
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(replay) = Replay::read(path, None) else { continue };
        let Some(held) = replay.held_out().unwrap_or_else(|error| panic!("{name}: {error}")) else { continue };
        let found = replay.compare(None, Mode::Closed).unwrap_or_else(|error| panic!("{name}: {error}"));
        all += 1;
        near += u32::from(Whole::of(&found).is_near());
        halves += held.len();
        near_apart += held.iter().filter(|half| half.apart.is_near()).count();
        near_taken += held.iter().filter(|half| half.taken.is_near()).count();
        if !found.shares_stream() && !held.iter().any(|half| half.shared) {
            continue;
        }
        let other = found.streams.map_or_else(String::new, |streams| cell(&streams.other));
        let half = |of: &HeldOut| format!("{} | {} | {}", way(of.shared), cell(&of.apart), cell(&of.taken));
        let taken = cell(&Whole::of(&found));
        println!("| {name} | {} | {other} | {taken} | {} |", way(found.shares_stream()), half(&held[0]));
        println!("| the same, first half by the second | | | | {} |", half(&held[1]));
    }
    println!("\nnear of {all}: {near}; of {halves} halves: apart {near_apart}, by the other half {near_taken}");
}
