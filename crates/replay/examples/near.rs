//! Prints how near both loops are to each recording, CPUs together: `cargo run --release -p opplab-replay --example near -- TRACE...`.

use std::path::Path;

use opplab_replay::metrics::Whole;
use opplab_replay::{Mode, Replay};

fn percent(per_100k: Option<u64>) -> String {
    per_100k.map_or_else(|| "-".to_owned(), |off| format!("{:.1}", off as f64 / 1000.0))
}

/// The cells of one loop.
fn cells(whole: Whole) -> String {
    let cells = [whole.frequency, whole.energy, whole.busy, whole.latency_p95].map(percent);
    format!("{} | {}", cells.join(" | "), if whole.is_near() { "near" } else { "-" })
}

fn main() {
    println!(
        "| recording | open: frequency, energy, % | | closed: frequency, % | energy, % | busy, % | latency p95, % | |"
    );
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |");
    let (mut all, mut near_open, mut near_closed) = (0, 0, 0);
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(replay) = Replay::read(path, None) else { continue };
        let whole = |mode| Whole::of(&replay.compare(None, mode).unwrap_or_else(|error| panic!("{name}: {error}")));
        let (open, closed) = (whole(Mode::Open), whole(Mode::Closed));
        all += 1;
        near_open += u32::from(open.is_near());
        near_closed += u32::from(closed.is_near());
        let verdict = if open.is_near() { "near" } else { "-" };
        println!("| {name} | {}, {} | {verdict} | {} |", percent(open.frequency), percent(open.energy), cells(closed));
    }
    println!("\nnear of {all}: open {near_open}, closed {near_closed}");
}
