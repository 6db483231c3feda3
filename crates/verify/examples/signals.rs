//! Prints how good rebuilt signals are: `cargo run -p opplab-verify --example signals -- FOLDER...`.

use std::path::Path;

fn main() {
    for dir in std::env::args().skip(1) {
        match opplab_verify::traces::verify_recording(Path::new(&dir)) {
            Err(error) => println!("{dir}: {error}"),
            Ok(report) => {
                for (kind, count) in report.rows().filter(|(kind, _)| kind.starts_with("signal_")) {
                    println!("{:56} {kind:14} {}/{} {}", report.recording, count.exact, count.total, count.remark());
                }
            }
        }
    }
}
