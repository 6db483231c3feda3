//! Events per second of readers, and of trace-cmd on the same file: `cargo bench -p opplab-trace`.
//!
//! The input is a shared trace (6 CPUs, 6.12, load tracking records of up to 18 fields) repeated to 131 MB without compression,
//! and its scheduling and frequency events alone repeated to 82 MB. Without shared data there is nothing to measure.
//!
//! With the argument `one=CASE` (`one=trace-dat`, `one=text`) a reader takes some 200,000 events of a recording that is part of the repository, without
//! a timer, and prints their number: `make bench-instructions` counts the instructions of [`read`].

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

#[inline(never)]
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

/// Reads some 200,000 events as `name` says; gives their number.
fn run_one(name: &str) -> u64 {
    let bytes = include_bytes!("../../verify/tests/data/traces/arm64-612-juno-eas-fiectr-ramp_up/trace.dat");
    let sched = ReadOptions::only(SCHED);
    let all = ReadOptions::default();
    let repeated = |bytes: &[u8], times| write::repeat_trace_dat(bytes, times).expect("a sound file");
    let parsed = |bytes: Vec<u8>, options: &ReadOptions| {
        TraceFile::from_bytes(bytes, options).and_then(|file| file.read(options)).expect("a sound file")
    };
    let (mut out, mut options) = (Vec::new(), &all);
    match name {
        "trace-dat" => out = repeated(bytes, 3),
        "trace-dat-two-events" => out = repeated(bytes, 3),
        "trace-dat-sched" => {
            let mut small = Vec::new();
            write::trace_dat(&parsed(bytes.to_vec(), &sched), &mut small).expect("memory takes bytes");
            out = repeated(&small, 16);
        }
        "text" => write::ftrace_text(&parsed(repeated(bytes, 3), &all), &mut out).expect("memory takes bytes"),
        "perfetto" => write::perfetto(&parsed(repeated(bytes, 3), &all), &mut out).expect("memory takes bytes"),
        _ => panic!("there is no case {name}"),
    }
    let two = ReadOptions::only(&["sched_switch", "cpu_frequency"]);
    if name == "trace-dat-two-events" {
        options = &two;
    }
    let input = make(&format!("one-{name}"), &out);
    read(&input, options);
    let _ = std::fs::remove_file(&input.path);
    input.events
}

fn main() {
    if let Some(name) = std::env::args().find_map(|argument| argument.strip_prefix("one=").map(str::to_owned)) {
        println!("{}", run_one(&name));
        return;
    }
    divan::main();
    for input in [all(), sched()].into_iter().flatten() {
        let _ = std::fs::remove_file(&input.path);
    }
}
