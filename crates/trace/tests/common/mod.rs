//! What the integration tests share: where the shared traces are, and the lines that `trace-cmd` prints.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test uses its part")]

pub mod build;
pub mod perf;

use std::path::PathBuf;

pub use opplab_testdata::{files, trace_cmd, trace_dats};

/// The folder of shared data beside the repository, or `None` with a visible note.
pub fn shared() -> Option<PathBuf> {
    opplab_testdata::shared("")
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
