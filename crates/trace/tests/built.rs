//! trace.dat files of every kind, built here: what they hold is known, and `trace-cmd` reads the same from them.

use crate::common;
use crate::common::build::{self, Kind};
use opplab_trace::{Column, ReadOptions, Trace, TraceFile, UnpackLimits};

fn read(bytes: Vec<u8>) -> Trace {
    TraceFile::from_bytes(bytes, &ReadOptions::default()).unwrap().read(&ReadOptions::default()).unwrap()
}

fn texts(trace: &Trace, table: &str, field: &str) -> Vec<String> {
    let Column::Str(numbers) = &trace.table(table).unwrap().field(field).unwrap().column else { panic!("{field}") };
    numbers.iter().map(|&n| trace.strings.text(n).into_owned()).collect()
}

/// What every buffer of [`build::sample_pages`] holds.
fn check_content(kind: Kind, trace: &Trace) {
    let what = format!("{kind:?}");
    assert!(trace.problems.is_empty(), "{what}: {:?}", trace.problems);
    let (meta, per_buffer) = (&trace.meta, 1 + kind.instances);
    assert_eq!(
        (meta.cpus, meta.big_endian, usize::from(meta.long_size)),
        (3, kind.big_endian, kind.long_size),
        "{what}"
    );
    assert_eq!(meta.buffers.len(), per_buffer, "{what}");
    let names: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("listed", per_buffer), ("named", 4 * per_buffer), ("wake", 5 * per_buffer)], "{what}");
    assert_eq!(trace.missed.len(), 2 * per_buffer, "{what}");
    if kind.instances > 0 {
        let wake = trace.table("wake").unwrap();
        let buffers = wake.buffer.as_ref().unwrap().to_u64();
        assert!(
            (0..per_buffer as u64).all(|b| buffers.iter().filter(|&&x| x == b).count() == 5),
            "{what}: {buffers:?}"
        );
        assert_eq!(meta.buffers, ["", "inst1", "inst2"], "{what}");
        return;
    }
    let wake = trace.table("wake").unwrap();
    let b = 1_000_000_000;
    assert_eq!(wake.time_ns, [b, b + 150, b + 305, b + 3_000_000_000, b + 3_000_000_000 - 50 + 50], "{what}");
    assert_eq!(wake.cpu.to_u64(), [0, 2, 0, 0, 2], "{what}");
    assert_eq!(wake.pid.to_i64(), [10, 20, 10, 10, 20], "{what}");
    assert_eq!(texts(trace, "wake", "comm"), ["alpha", "", "sixteen-chars-x", "beta", "tie"], "{what}");
    assert_eq!(wake.int("pid").unwrap().to_i64(), [11, 0, -1, 12, 1], "{what}");
    assert_eq!(wake.int("small").unwrap().to_i64(), [1, -1, -3, 77, 0], "{what}");
    assert_eq!(wake.int("tiny").unwrap().to_u64(), [1, 255, 253, 77, 0], "{what}");
    assert_eq!(wake.int("big").unwrap().to_u64(), [1, i64::MAX as u64, u64::MAX - 2, 77, 1 << 63], "{what}");
    assert_eq!(wake.int("neg").unwrap().to_i64(), [-1, -i64::MAX, 3, -77, i64::MIN], "{what}");
    let named = trace.table("named").unwrap();
    assert_eq!(
        texts(trace, "named", "name"),
        ["x", "same time as another", "a longer name than before", &"long".repeat(60)],
        "{what}"
    );
    // The same time on two CPUs: the lower CPU first. The absolute stamp sets the time of what follows.
    assert_eq!(named.time_ns, [b + 100, b + 100, b + 306 + (1 << 30), b + 4_000_000_003], "{what}");
    assert_eq!(named.cpu.to_u64(), [0, 2, 0, 0], "{what}");
    let listed = trace.table("listed").unwrap();
    assert_eq!(listed.field("load").unwrap().column.list(0).unwrap(), [1, 2, 4_000_000_000], "{what}");
    assert_eq!(listed.field("pair").unwrap().column.list(0).unwrap(), [5, 65535], "{what}");
    assert_eq!(trace.comm(wake, 0), "alpha", "{what}");
    assert_eq!(trace.comm(wake, 1), "gamma ray", "{what}");
    assert_eq!(trace.comm(listed, 0), "<idle>", "{what}");
    let missed: Vec<_> = trace.missed.iter().map(|m| (m.cpu, m.time_ns, m.count)).collect();
    assert_eq!(missed, [(2, b + 100, None), (0, b + 3_000_000_000, Some(42))], "{what}");
}

#[test]
fn every_kind_of_file_gives_its_content() {
    let kinds = Kind::all();
    for &kind in &kinds {
        check_content(kind, &read(build::file(kind)));
    }
    assert_eq!(kinds.len(), 32);
}

#[test]
fn outer_compression_is_unpacked() {
    use std::io::Write;
    let plain = build::file(Kind::PLAIN);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&plain).unwrap();
    let xz = xz.finish().unwrap();
    let zstd = zstd::bulk::compress(&plain, 1).unwrap();
    let twice = zstd::bulk::compress(&gzip, 1).unwrap();
    for (name, packed) in [("gzip", gzip), ("xz", xz), ("zstd", zstd), ("twice", twice)] {
        check_content(Kind::PLAIN, &read(packed.clone()));
        // Cut in the middle: what came out is read, and the damage is told.
        let options = ReadOptions::default();
        if let Ok(file) = TraceFile::from_bytes(packed[..packed.len() - 30].to_vec(), &options) {
            let trace = file.read(&options).unwrap();
            assert!(!trace.problems.is_empty(), "{name}");
        }
        let small = ReadOptions { unpack: UnpackLimits::up_to(1000), ..ReadOptions::default() };
        let error = TraceFile::from_bytes(packed, &small).err().expect("refused").to_string();
        assert!(error.contains("more than the 1000 bytes allowed come out"), "{name}: {error}");
    }
}

#[test]
fn common_fields_and_time_ranges_are_optional() {
    let options = ReadOptions { common_fields: true, ..ReadOptions::default() };
    let trace = TraceFile::from_bytes(build::file(Kind::PLAIN), &options).unwrap().read(&options).unwrap();
    let wake = trace.table("wake").unwrap();
    assert_eq!(wake.int("common_flags").unwrap().to_u64(), [1; 5]);
    assert_eq!(wake.int("common_preempt_count").unwrap().to_u64(), [2; 5]);
    let options = ReadOptions { time_range_ns: Some((1_000_000_100, 1_000_000_306)), ..ReadOptions::default() };
    let trace = TraceFile::from_bytes(build::file(Kind::PLAIN), &options).unwrap().read(&options).unwrap();
    let names: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("named", 2), ("wake", 2)]);
}

#[test]
fn only_named_events_are_kept() {
    let keep = |names: &[&str]| {
        let options = ReadOptions::only(names);
        let trace = TraceFile::from_bytes(build::file(Kind::PLAIN), &options).unwrap().read(&options).unwrap();
        trace.tables.iter().map(|t| format!("{} {}", t.name, t.len())).collect::<Vec<_>>()
    };
    assert_eq!(keep(&["wake"]), ["wake 5"]);
    assert_eq!(keep(&["other:listed", "named"]), ["listed 1", "named 4"]);
    let options = ReadOptions::only(&["waek"]);
    let error = TraceFile::from_bytes(build::file(Kind::PLAIN), &options).unwrap().read(&options).unwrap_err();
    assert_eq!(error.to_string(), "event \"waek\" is not in this trace; nearest name: \"wake\"");
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&["waek"]) };
    let trace = TraceFile::from_bytes(build::file(Kind::PLAIN), &options).unwrap().read(&options).unwrap();
    assert!(trace.tables.is_empty());
}

#[test]
fn trace_cmd_reads_the_same() {
    let dir = std::env::temp_dir().join(format!("opplab-trace-built-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (mut files, mut lines, mut refused) = (0, 0, Vec::new());
    let clocks = [6, 7].map(|version| Kind { version, tsc: true, ..Kind::PLAIN });
    for (number, kind) in Kind::all().into_iter().chain(clocks).enumerate() {
        let path = dir.join(format!("{number}.dat"));
        let bytes = build::file(kind);
        std::fs::write(&path, &bytes).unwrap();
        let Some(report) = common::trace_cmd(&["report", "-t", path.to_str().unwrap()]) else { return };
        let mut theirs: Vec<String> = report
            .lines()
            .filter_map(|line| common::report_line(line.rsplit_once("inst").map_or(line, |_| line)))
            .map(|l| format!("{} {} {} {}", l.time, l.cpu, l.pid, l.event))
            .collect();
        let trace = read(bytes);
        let mut ours = Vec::new();
        for table in &trace.tables {
            for row in 0..table.len() {
                let time = table.time_ns[row];
                let time = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
                ours.push(format!("{time} {} {} {}", table.cpu.get(row), table.pid.get(row), table.name));
            }
        }
        if theirs.is_empty() && kind.codec == "zlib" {
            refused.push(kind);
            continue;
        }
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{kind:?}\n{report}");
        files += 1;
        lines += ours.len();
    }
    std::fs::remove_dir_all(&dir).unwrap();
    println!(
        "{files} files, {lines} events read the same by trace-cmd; {} with a compression that it lacks",
        refused.len()
    );
    assert!(files >= 24);
}

#[test]
fn the_text_of_a_latency_tracer_is_read() {
    let mut bytes = build::file(Kind::PLAIN);
    let at = bytes.windows(10).position(|w| w == b"flyrecord\0").unwrap();
    bytes.truncate(at);
    bytes.extend_from_slice(b"latency  \0# tracer: irqsoff\n");
    bytes.extend_from_slice(b"  sh-7       1d..2.   12us : sched_wakeup: comm=a pid=3 prio=120 target_cpu=001\n");
    let trace = read(bytes);
    let table = trace.table("sched_wakeup").unwrap();
    assert_eq!((table.time_ns[0], table.cpu.get(0), table.int("pid").unwrap().get(0)), (12_000, 1, 3));
    assert!(trace.problems.is_empty(), "{:?}", trace.problems);
}

#[test]
fn a_file_that_ends_within_its_last_section_is_damaged() {
    let mut bytes = build::file(Kind { version: 7, ..Kind::PLAIN });
    bytes.extend_from_slice(&[15, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[b'a'; 20]);
    for missing in [1, 19, 21, 35] {
        let trace = read(bytes[..bytes.len() - missing].to_vec());
        assert!(!trace.problems.is_empty(), "{missing} bytes are missing");
        assert!(trace.table("wake").is_some());
    }
    assert!(read(bytes).problems.is_empty());
}
