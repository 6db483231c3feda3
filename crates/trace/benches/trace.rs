//! Events per second of readers, and of trace-cmd on the same file: `cargo bench -p opplab-trace`.
//!
//! The input is a shared trace (6 CPUs, 6.12, load tracking records of up to 18 fields) repeated to 131 MB without compression,
//! and its scheduling and frequency events alone repeated to 82 MB. Without shared data there is nothing to measure.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use divan::Bencher;
use divan::counter::ItemsCount;
use opplab_trace::{ReadOptions, TraceFile, write};

const SCHED: &[&str] = &["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "cpu_frequency"];

/// A large file and the number of its events.
struct Input {
    path: PathBuf,
    events: u64,
}

fn make(name: &str, bytes: &[u8]) -> Input {
    let path = std::env::temp_dir().join(format!("opplab-trace-bench-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder takes files");
    let info = TraceFile::open(&path).and_then(|file| file.info(&ReadOptions::default())).expect("a sound file");
    Input { path, events: info.events.values().sum() }
}

fn shared(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    std::fs::read(path).ok()
}

fn sched_only() -> Option<Vec<u8>> {
    let bytes = shared("arm64-612-juno-eas-fiectr-ramp_up/trace.dat")?;
    let options = ReadOptions::only(SCHED);
    let trace = TraceFile::from_bytes(bytes, &options).and_then(|file| file.read(&options)).expect("a sound file");
    let mut small = Vec::new();
    write::trace_dat(&trace, &mut small).expect("memory takes bytes");
    Some(write::repeat_trace_dat(&small, 150).expect("a file of our own"))
}

/// All events: 2.1 million.
fn all() -> Option<&'static Input> {
    static INPUT: OnceLock<Option<Input>> = OnceLock::new();
    let input = INPUT.get_or_init(|| {
        let bytes = shared("arm64-612-juno-eas-homog6/trace.dat")?;
        Some(make("all.dat", &write::repeat_trace_dat(&bytes, 20).expect("a shared trace")))
    });
    input.as_ref()
}

/// Scheduling and frequency events: 1.8 million.
fn sched() -> Option<&'static Input> {
    static INPUT: OnceLock<Option<Input>> = OnceLock::new();
    INPUT.get_or_init(|| Some(make("sched.dat", &sched_only()?))).as_ref()
}

/// A tenth of them in another format.
fn exported(extension: &str) -> Option<Input> {
    let options = ReadOptions { time_range_ns: None, ..ReadOptions::default() };
    let bytes = shared("arm64-612-juno-eas-fiectr-ramp_up/trace.dat")?;
    let repeated = write::repeat_trace_dat(&bytes, 2).expect("a shared trace");
    let trace = TraceFile::from_bytes(repeated, &options).and_then(|file| file.read(&options)).expect("a sound file");
    let mut out = Vec::new();
    match extension {
        "txt" => write::ftrace_text(&trace, &mut out),
        _ => write::perfetto(&trace, &mut out),
    }
    .expect("memory takes bytes");
    Some(make(&format!("export.{extension}"), &out))
}

fn read(input: &Input, options: &ReadOptions) -> usize {
    let trace = TraceFile::open(&input.path).and_then(|file| file.read(options)).expect("a sound file");
    trace.tables.iter().map(|table| table.len()).sum()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn trace_dat_to_columns(bencher: Bencher<'_, '_>) {
    let Some(input) = all() else { return };
    bencher.counter(ItemsCount::new(input.events)).bench(|| read(input, &ReadOptions::default()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn trace_dat_sched_to_columns(bencher: Bencher<'_, '_>) {
    let Some(input) = sched() else { return };
    bencher.counter(ItemsCount::new(input.events)).bench(|| read(input, &ReadOptions::default()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn trace_dat_two_events_of_131_mb(bencher: Bencher<'_, '_>) {
    let Some(input) = all() else { return };
    let options = ReadOptions::only(&["sched_switch", "cpu_frequency"]);
    bencher.bench(|| read(input, &options));
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn trace_cmd_two_events_of_131_mb(bencher: Bencher<'_, '_>) {
    let Some(input) = all() else { return };
    let report = || {
        let mut command = Command::new("trace-cmd");
        command.args(["report", "-F", "sched_switch,cpu_frequency"]).arg(&input.path);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    if report().is_ok() {
        bencher.bench(report);
    }
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn trace_dat_counted(bencher: Bencher<'_, '_>) {
    let Some(input) = all() else { return };
    let count =
        || TraceFile::open(&input.path).and_then(|file| file.info(&ReadOptions::default())).map(|i| i.events.len());
    bencher.counter(ItemsCount::new(input.events)).bench(count);
}

#[divan::bench(sample_count = 5, sample_size = 1, args = ["txt", "pftrace"])]
fn other_formats_to_columns(bencher: Bencher<'_, '_>, extension: &str) {
    let Some(input) = exported(extension) else { return };
    bencher.counter(ItemsCount::new(input.events)).bench(|| read(&input, &ReadOptions::default()));
    let _ = std::fs::remove_file(&input.path);
}

fn main() {
    divan::main();
    for input in [all(), sched()].into_iter().flatten() {
        let _ = std::fs::remove_file(&input.path);
    }
}
