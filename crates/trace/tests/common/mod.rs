//! What the integration tests share: where the shared traces are, and how `trace-cmd` is run.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

pub mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of shared data beside the repository, or `None` with a visible note.
pub fn shared() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: no shared data beside the repository");
    None
}

/// All files below `dir` for which `keep` holds, sorted.
pub fn files(dir: &Path, keep: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
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

/// All trace.dat files of the shared data (by their magic: other files are called .dat too).
pub fn trace_dats(shared: &Path) -> Vec<PathBuf> {
    files(shared, &|path| {
        path.extension().is_some_and(|e| e == "dat")
            && std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x17\x08\x44tracing"))
    })
}

/// Runs `trace-cmd`; `None` with a visible note if it is not installed.
pub fn trace_cmd(args: &[&str]) -> Option<String> {
    match Command::new("trace-cmd").args(args).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            eprintln!("skipped: trace-cmd is not installed");
            None
        }
    }
}

/// One event line of `trace-cmd report -t`.
#[derive(Debug, PartialEq, Eq)]
pub struct ReportLine<'a> {
    pub comm: &'a str,
    pub pid: i32,
    pub cpu: u32,
    pub time: &'a str,
    pub event: &'a str,
    pub rest: &'a str,
}

/// Splits `comm-pid [cpu] time: event: rest`; `None` for headers and continued lines.
pub fn report_line(line: &str) -> Option<ReportLine<'_>> {
    let open = line.match_indices('[').find(|(at, _)| {
        line.as_bytes().get(at + 4) == Some(&b']') && line[at + 1..at + 4].bytes().all(|b| b.is_ascii_digit())
    })?;
    let (task, cpu) = (line[..open.0].trim(), line[open.0 + 1..open.0 + 4].parse().ok()?);
    let (comm, pid) = task.rsplit_once('-')?;
    let rest = line[open.0 + 5..].trim_start();
    let (time, rest) = rest.split_once(": ")?;
    if !time.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let (event, rest) = rest.trim_start().split_once(':')?;
    Some(ReportLine { comm: comm.trim(), pid: pid.parse().ok()?, cpu, time, event, rest })
}
