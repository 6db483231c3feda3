//! The given data that tests read in place: the folder `shared` beside the repository. Only for `[dev-dependencies]`.
//!
//! A test that needs what is not there ends early with a line on standard error, also where the harness keeps the output of
//! tests that pass; with `OPPLAB_SKIPPED=FILE` it adds its line to the file, from which `make test` writes its summary.
//! With `OPPLAB_REQUIRE_SHARED=1` it fails instead.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// What is at `path` of the folder `shared`, or `None` after a visible line; `""` is the folder itself.
///
/// # Panics
/// If it is absent and `OPPLAB_REQUIRE_SHARED` is set.
#[must_use]
pub fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if found.exists() {
        return Some(found);
    }
    let required = env::var_os("OPPLAB_REQUIRE_SHARED").is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!required, "no ../shared/{path} beside the repository, and OPPLAB_REQUIRE_SHARED is set");
    skip(&format!("no ../shared/{path} beside the repository"));
    None
}

/// Reports that the test that runs on this thread is skipped, and why.
fn skip(reason: &str) {
    let thread = thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a benchmark"));
    // Not eprint: the harness would keep it. Whoever closed standard error does not want to know.
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(summary) = env::var_os("OPPLAB_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(&summary);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&summary).display()));
    }
}

/// All files below `folder` for which `keep` holds, sorted.
#[must_use]
pub fn files(folder: &Path, keep: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if keep(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// All trace.dat files below `folder` (by their first bytes: other files are called .dat, too), sorted.
#[must_use]
pub fn trace_dats(folder: &Path) -> Vec<PathBuf> {
    files(folder, &|path| {
        path.extension().is_some_and(|extension| extension == "dat")
            && fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x17\x08\x44tracing"))
    })
}

/// `line` of a report with its time in seconds: `[002] 106439675570920: bprint` becomes `[002] 106439.675570920: bprint`.
fn in_seconds(line: &str) -> String {
    let time =
        line.split_once(']').and_then(|(_, rest)| rest.trim_start().split_once(": ")).map_or("", |(time, _)| time);
    if time.len() > 9 && time.bytes().all(|byte| byte.is_ascii_digit()) {
        let (seconds, ns) = time.split_at(time.len() - 9);
        // Many digits leave no space before them.
        return line.replacen(time, &format!("{seconds}.{ns}"), 1).replacen(
            &format!("]{seconds}"),
            &format!("] {seconds}"),
            1,
        );
    }
    line.to_owned()
}

/// What `trace-cmd` prints, with times in seconds; `None` after a visible line if it is not installed.
///
/// trace-cmd 3.1.6 reads the clock's name past the end of an option of length 0 (`tracecmd_parse_trace_clock`; trappy's
/// `raw_trace.dat` has one): what was in that memory decides whether it prints seconds or nanoseconds.
#[must_use]
pub fn trace_cmd(args: &[&str]) -> Option<String> {
    match Command::new("trace-cmd").args(args).output() {
        Ok(output) => {
            let lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(in_seconds).collect();
            Some(lines.join("\n") + "\n")
        }
        Err(_) => {
            skip("trace-cmd is not installed");
            None
        }
    }
}

#[test]
fn a_time_in_nanoseconds_is_printed_in_seconds() {
    let line = |time: &str| format!("   ls-4734  [002] {time}: bprint:  ip=0x1 [000] 12345678901: x");
    assert_eq!(in_seconds(&line("106439675570920")), line("106439.675570920"));
    assert_eq!(in_seconds(&line("106439.675570920")), line("106439.675570920"));
    assert_eq!(in_seconds("   a-1  [000]259453108202960: b:  c=1"), "   a-1  [000] 259453.108202960: b:  c=1");
    assert_eq!(in_seconds("cpus=2"), "cpus=2");
}
