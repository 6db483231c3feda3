//! Prints the table of docs/trace-accuracy.md: how good rebuilt signals are, by recording.
//!
//! `cargo run --release -p opplab-verify --example signals -- ../shared/traces/*/`

use std::path::Path;

use opplab_verify::traces::{KindCount, verify_recording};

/// Compared, p50, p99, most, bound > 8, beyond; as the counts and the words of the report tell.
fn cells(count: &KindCount) -> (String, bool) {
    let note = count.note.as_deref().unwrap_or_default();
    let numbers: Vec<u64> =
        note.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    // "within 8 of 1024; p50 A p99 B max C; D not compared ...; E outside ..."
    let [_, _, _, p50, _, p99, most, unknown, beyond, ..] = numbers[..] else { return (String::new(), false) };
    if count.total == 0 {
        return (format!("0 | | | | {unknown} | {beyond}"), false);
    }
    (format!("{} | {p50} | {p99} | {most} | {unknown} | {beyond}", count.total), p99 <= numbers[0])
}

fn main() {
    let of = |what: &str| format!("{what}: compared | p50 | p99 | most | bound > 8 | beyond");
    println!("| recording | {} | {} |", of("tasks"), of("queues"));
    println!("| --- |{}", " ---: |".repeat(12));
    let (mut near, mut all) = ([0, 0], [0, 0]);
    for dir in std::env::args().skip(1).filter(|dir| Path::new(dir).join("trace.dat").is_file()) {
        let report = match verify_recording(Path::new(&dir)) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("{error}");
                continue;
            }
        };
        let kinds = ["signal_tasks", "signal_queues"].map(|kind| report.kinds.get(kind).map(cells).unwrap_or_default());
        if kinds[0].0.starts_with("0 | | | | 0") {
            // It has no samples.
            continue;
        }
        for (n, kind) in kinds.iter().enumerate() {
            near[n] += u32::from(kind.1);
            all[n] += u32::from(!kind.0.starts_with("0 |"));
        }
        println!("| {} | {} | {} |", report.recording, kinds[0].0, kinds[1].0);
    }
    let [tasks, queues] = [0, 1].map(|n| format!("{} of {}", near[n], all[n]));
    println!("\nWithin 8 units at the 99th percentile: tasks on {tasks} recordings, run queues on {queues}.");
}
