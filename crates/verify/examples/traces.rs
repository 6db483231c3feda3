//! `cargo run --release -p opplab-verify --example traces -- DIR...`: prints `recording kind exact total share remark` for each
//! recording and kind.

use std::path::Path;
use std::process::ExitCode;

use opplab_verify::traces::{find_recordings, verify_recording};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        eprintln!("usage: traces DIR...");
        return ExitCode::from(2);
    }
    for path in &paths {
        let found = find_recordings(Path::new(path));
        let reports =
            found.and_then(|dirs| dirs.iter().map(|dir| verify_recording(dir)).collect::<Result<Vec<_>, _>>());
        match reports {
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
            Ok(reports) => {
                for report in &reports {
                    for (kind, count) in report.rows() {
                        let share = count.share_per_100k();
                        println!(
                            "{} {kind} {} {} {}.{:03}% {}",
                            report.recording,
                            count.exact,
                            count.total,
                            share / 1000,
                            share % 1000,
                            count.remark()
                        );
                        if let Some(first) = &count.first {
                            println!("  first: {first}");
                        }
                    }
                }
            }
        }
    }
    ExitCode::SUCCESS
}
