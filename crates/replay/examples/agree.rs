//! Prints the agreement of recordings: `cargo run -p opplab-replay --example agree -- FOLDER...`.

use std::path::Path;

fn main() {
    for dir in std::env::args().skip(1) {
        match opplab_replay::agree::agree(Path::new(&dir)) {
            Err(error) => println!("{dir}: {error}"),
            Ok(None) => println!("{dir}: no workload file"),
            Ok(Some(agreement)) => {
                println!("== {} {}", agreement.recording, agreement.workload);
                for note in &agreement.notes {
                    println!("   {note}");
                }
                for row in &agreement.rows {
                    let mark = if row.limit.is_some_and(|limit| row.distance > limit) { "FAR" } else { "" };
                    println!(
                        "   {:16} {:12} {:>10} {:>10} {:>8} {:>8} {mark}",
                        row.kind, row.of, row.recorded, row.simulated, row.distance, row.spread
                    );
                }
            }
        }
    }
}
