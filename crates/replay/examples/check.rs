//! Prints the self-check of traces: `cargo run -p opplab-replay --example check -- TRACE...`.

use std::path::Path;

use opplab_replay::{Mode, Replay};

fn main() {
    for path in std::env::args().skip(1) {
        let replay = match Replay::read(Path::new(&path), None) {
            Ok(replay) => replay,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        for mode in [Mode::Open, Mode::Closed] {
            match replay.compare(None, mode) {
                Err(error) => println!("{path}: {error}"),
                Ok(found) => println!(
                    "{} {mode:?} near {} freq {:?} energy {} mean {:?} {:?} lat {} {} / {} {} tasks {}",
                    path,
                    found.is_near(),
                    found.freq_distance,
                    found.energy_distance,
                    found.recorded.policies.iter().map(|p| p.mean_khz()).collect::<Vec<_>>(),
                    found.check.policies.iter().map(|p| p.mean_khz()).collect::<Vec<_>>(),
                    found.recorded.latency_ns(50),
                    found.check.latency_ns(50),
                    found.recorded.latency_ns(95),
                    found.check.latency_ns(95),
                    replay.workload.tasks.len(),
                ),
            }
        }
    }
}
