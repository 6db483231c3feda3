//! perf.data: built files of all kinds, and files that `perf` records here against `perf script`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::perf::{self, Kind};
use opplab_trace::{ReadOptions, Trace, TraceFile};

fn read(bytes: Vec<u8>) -> Trace {
    let options = ReadOptions::default();
    TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap()
}

fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for big_endian in [false, true] {
        for (pipe, compressed) in [(false, false), (true, false), (false, true), (true, true)] {
            kinds.push(Kind { pipe, compressed, big_endian });
        }
    }
    kinds
}

#[test]
fn all_kinds_hold_the_same_events_in_order_of_time() {
    let mut expected: Vec<(u64, u64)> = perf::ROUNDS.concat();
    expected.sort_unstable();
    for kind in kinds() {
        let trace = read(perf::file(&kind));
        assert!(trace.problems.is_empty(), "{kind:?}: {:?}", trace.problems);
        let counts: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
        assert_eq!(counts, [("cpu-clock", 3), ("named", 2), ("wake", 7)], "{kind:?}");
        let mut order: Vec<(u64, u64)> = Vec::new();
        let mut sink = |event: &opplab_trace::Event<'_>| {
            order.push((event.time_ns, event.cpu.into()));
            std::ops::ControlFlow::Continue(())
        };
        let file = TraceFile::from_bytes(perf::file(&kind), &ReadOptions::default()).unwrap();
        file.stream(&ReadOptions::default(), &mut sink).unwrap();
        assert_eq!(order, expected, "{kind:?}");
        let wake = trace.table("wake").unwrap();
        assert_eq!(wake.int("big").unwrap().to_u64(), [100, 200, 400, 450, 600, 750, 800]);
        assert_eq!(wake.int("pid").unwrap().to_u64(), [100; 7]);
        let clock = trace.table("cpu-clock").unwrap();
        assert_eq!(clock.int("period").unwrap().to_u64(), [1; 3]);
        assert_eq!(clock.int("ip").unwrap().to_u64()[0], 0xffff_8000_0000_1000 + 520);
        assert_eq!(clock.pid.to_i64(), [100, 101, 101]);
        assert_eq!(trace.comm_of(100), "worker");
        let missed: Vec<_> = trace.missed.iter().map(|m| (m.cpu, m.time_ns, m.count)).collect();
        assert_eq!(missed, [(1, 555, Some(7)), (0, 920, Some(2)), (1, 920, Some(2))], "{kind:?}");
        assert_eq!(trace.meta.cpus, 4);
        assert_eq!((trace.meta.uname.as_str(), trace.meta.writer.as_str()), ("6.12.0", "perf 6.1"));
    }
}

#[test]
fn only_named_events_are_kept() {
    let options = ReadOptions::only(&["test:named"]);
    let trace = TraceFile::from_bytes(perf::file(&Kind::default()), &options).unwrap().read(&options).unwrap();
    let counts: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(counts, [("named", 2)]);
    let options = ReadOptions::only(&["nmaed"]);
    let error = TraceFile::from_bytes(perf::file(&Kind::default()), &options).unwrap().read(&options).unwrap_err();
    assert!(error.to_string().ends_with("nearest name: \"named\""), "{error}");
}

#[test]
fn a_file_that_perf_did_not_finish_is_read() {
    let mut bytes = perf::file(&Kind::default());
    // The size of the records.
    bytes[48..56].fill(0);
    let trace = read(bytes);
    let told = trace.problems[0].to_string();
    assert_eq!(told, "offset 48: perf did not finish this file; its records are read as far as they go");
    // Without the formats, which are behind the records, tracepoints have numbers and bytes.
    let counts: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(counts, [("cpu-clock", 3), ("unknown_301", 7), ("unknown_302", 2)]);
}

#[test]
fn a_late_sample_is_told_and_left_out() {
    let mut bytes = perf::file(&Kind::default());
    // The first sample of the third round gets a time of the first.
    let at = bytes.windows(8).rposition(|w| w == 750u64.to_le_bytes()).unwrap();
    let time = (0..at).rev().find(|&at| bytes[at..at + 8] == 750u64.to_le_bytes()).unwrap();
    bytes[time..time + 8].copy_from_slice(&150u64.to_le_bytes());
    let trace = read(bytes);
    assert_eq!(trace.tables.iter().map(|t| t.len()).sum::<usize>(), 11);
    assert!(trace.problems[0].to_string().contains("1 samples came after newer ones"), "{:?}", trace.problems);
}

/// What `perf script` counts: events by name without their group.
fn perf_script(file: &Path) -> Option<BTreeMap<String, u64>> {
    let output = Command::new("perf").args(["script", "-F", "event", "-i"]).arg(file).output().ok()?;
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name = line.trim().trim_end_matches(':');
        let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
        if !name.is_empty() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    Some(counts)
}

/// Goal: files as `perf` of this machine writes them hold as many events of each name as `perf script` prints.
#[test]
fn recorded_files_have_the_events_of_perf_script() {
    let folder = std::env::temp_dir().join(format!("opplab-perf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("perf.data");
    let path = file.to_str().unwrap();
    let mut recorded = 0;
    for arguments in [
        &["record", "-q", "-e", "cpu-clock"][..],
        &["record", "-q", "-a", "-e", "sched:*", "-e", "power:*"],
        &["record", "-q", "-a", "-z", "-e", "sched:sched_switch", "-e", "sched:sched_waking", "-e", "cpu-clock"],
        &["record", "-q", "-a", "-g", "-e", "sched:sched_switch", "-e", "cpu-clock"],
        &["sched", "record", "-q"],
        &["record", "-q", "-a", "--switch-events", "-e", "sched:sched_switch", "-e", "cpu-clock"],
        &["record", "-q", "-a", "-W", "-d", "-k", "CLOCK_MONOTONIC", "-e", "sched:sched_switch", "-e", "cpu-clock"],
        &["record", "-q", "-a", "-B", "-N", "--all-cgroups", "--call-graph", "dwarf", "-e", "sched:sched_switch"],
    ] {
        let mut command = Command::new("perf");
        command.args(arguments).args(["-o", path, "--", "sh", "-c", "for i in 1 2 3 4 5; do true | true; done"]);
        if !command.output().is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: perf cannot {} here", arguments.join(" "));
            continue;
        }
        let Some(expected) = perf_script(&file) else { continue };
        let info = TraceFile::open(&file).unwrap().info(&ReadOptions::default()).unwrap();
        assert!(info.problems.is_empty(), "{arguments:?}: {:?}", info.problems);
        assert_eq!(info.events, expected, "{arguments:?}");
        recorded += 1;
    }
    println!("{recorded} of 8 ways to record were possible");
    std::fs::remove_dir_all(&folder).unwrap();
}
