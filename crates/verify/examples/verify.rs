//! `cargo run -p opplab-verify --example verify -- PATH...`: prints `family cases mismatches` for each vector file.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        eprintln!("usage: verify PATH...");
        return ExitCode::from(2);
    }
    let mut equal = true;
    for path in &paths {
        let outcomes = opplab_verify::find_vectors(Path::new(path))
            .and_then(|files| files.iter().map(|file| opplab_verify::verify_file(file)).collect::<Result<Vec<_>, _>>());
        match outcomes {
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
            Ok(outcomes) => {
                for outcome in outcomes {
                    match outcome.tally {
                        None => println!("{} - not built", outcome.family),
                        Some(tally) => {
                            println!("{} {} {}", outcome.family, tally.cases, tally.mismatches);
                            if let Some(first) = tally.first {
                                equal = false;
                                println!("  first: {first}");
                            }
                        }
                    }
                }
            }
        }
    }
    if equal { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
