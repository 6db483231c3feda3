//! What is written is read back the same, and trace-cmd reads it the same.

use crate::common;
use std::collections::BTreeMap;

use crate::common::build::{self, Kind as FileKind};
use opplab_trace::write::{self, Annotation, PerfettoWriter, TraceBuilder};
use opplab_trace::{Column, Kind, ReadOptions, Trace, TraceFile, Value};

fn read(bytes: Vec<u8>) -> Trace {
    let trace = TraceFile::from_bytes(bytes, &ReadOptions::default()).unwrap().read(&ReadOptions::default()).unwrap();
    assert!(trace.problems.is_empty(), "{:?}", trace.problems);
    trace
}

fn as_dat(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    write::trace_dat(trace, &mut out).unwrap();
    out
}

fn as_text(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    write::ftrace_text(trace, &mut out).unwrap();
    out
}

fn as_perfetto(trace: &Trace) -> Vec<u8> {
    let mut out = Vec::new();
    write::perfetto(trace, &mut out).unwrap();
    out
}

fn cell(trace: &Trace, column: &Column, row: usize) -> String {
    match column {
        Column::Int(values) => values.get_i128(row).to_string(),
        Column::Str(numbers) => trace.strings.text(numbers[row]).into_owned(),
        Column::Text(texts) => String::from_utf8_lossy(texts.get(row)).into_owned(),
        Column::Bytes(bytes) => format!("{:?}", bytes.get(row)),
        Column::List { .. } => format!("{:?}", column.list(row).unwrap()),
    }
}

/// Compares all rows of all tables; gives the number of values. Fields in `but` may be absent or different.
fn same(a: &Trace, b: &Trace, but: &[&str], what: &str) -> u64 {
    let names = |trace: &Trace| trace.tables.iter().map(|t| (t.name.clone(), t.len())).collect::<Vec<_>>();
    assert_eq!(names(a), names(b), "{what}");
    let mut values = 0;
    for (x, y) in a.tables.iter().zip(&b.tables) {
        let what = format!("{what}: {}", x.name);
        assert_eq!(x.time_ns, y.time_ns, "{what}");
        assert_eq!(x.cpu.to_u64(), y.cpu.to_u64(), "{what}");
        assert_eq!(x.pid.to_i64(), y.pid.to_i64(), "{what}");
        for field in x.fields.iter().filter(|f| !but.contains(&f.name.as_str())) {
            let other = y.field(&field.name).unwrap_or_else(|| panic!("{what}: no {}", field.name));
            for row in 0..x.len() {
                assert_eq!(cell(a, &field.column, row), cell(b, &other.column, row), "{what}.{} row {row}", field.name);
                values += 1;
            }
        }
    }
    values
}

#[test]
fn shared_traces_come_back_from_every_format() {
    let Some(shared) = common::shared() else { return };
    let (mut dat, mut perfetto) = (0, 0);
    // A third of the files: all of them take half a minute.
    for file in common::trace_dats(&shared).into_iter().step_by(3) {
        let trace = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
        let what = file.display().to_string();
        // Addresses of printing functions and of formats are not written.
        dat += same(&trace, &read(as_dat(&trace)), &["ip"], &what);
        perfetto += same(&trace, &read(as_perfetto(&trace)), &["buf", "ip"], &what);
    }
    println!("{dat} values by trace.dat, {perfetto} by Perfetto, all equal");
}

#[test]
fn trace_cmd_prints_our_trace_dat_as_the_original() {
    let Some(shared) = common::shared() else { return };
    let path = std::env::temp_dir().join(format!("opplab-trace-write-{}.dat", std::process::id()));
    let (mut lines, mut events) = (0, 0);
    // A third of the files: all of them take half a minute.
    for file in common::trace_dats(&shared).into_iter().step_by(3) {
        let trace = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
        std::fs::write(&path, as_dat(&trace)).unwrap();
        let Some(theirs) = common::trace_cmd(&["report", "-t", file.to_str().unwrap()]) else { return };
        let ours = common::trace_cmd(&["report", "-t", path.to_str().unwrap()]).unwrap();
        let by_name = |report: &str| {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for line in report.lines().filter_map(common::report_line) {
                *counts.entry(line.event.to_string()).or_default() += 1;
            }
            counts
        };
        let counts = by_name(&theirs);
        assert_eq!(by_name(&ours), counts, "{}", file.display());
        events += counts.values().sum::<u64>();
        // Events of the scheduler and of power: the very same line, but for the names of states in kernels before 4.14.
        let known = |report: &str| {
            let mut all: Vec<String> = report
                .lines()
                .filter(|line| {
                    common::report_line(line).is_some_and(|l| {
                        matches!(
                            l.event,
                            "sched_wakeup" | "sched_waking" | "cpu_idle" | "cpu_frequency" | "sched_migrate_task"
                        ) || (l.event == "sched_switch" && file.to_string_lossy().contains("612"))
                    })
                })
                .map(str::to_string)
                .collect();
            all.sort();
            all
        };
        let (ours, theirs) = (known(&ours), known(&theirs));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{}", file.display());
        }
        lines += ours.len();
    }
    let _ = std::fs::remove_file(&path);
    println!("{events} events counted the same, {lines} lines of scheduler and power events are the same");
}

#[test]
fn built_files_of_every_kind_come_back() {
    for kind in FileKind::all().into_iter().filter(|kind| kind.instances == 0) {
        let trace = read(build::file(kind));
        let back = read(as_dat(&trace));
        same(&trace, &back, &[], &format!("{kind:?}"));
        assert_eq!(back.missed, trace.missed, "{kind:?}");
        assert_eq!(back.tasks, trace.tasks, "{kind:?}");
    }
}

#[test]
fn text_comes_back() {
    let Some(shared) = common::shared() else { return };
    let file = shared.join("traces/x86-61-xeon16-any1-schedutil-periodic3/trace.dat");
    let trace = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
    let back = read(as_text(&trace));
    // States are letters in the text.
    let values = same(&trace, &back, &["prev_state"], "text");
    assert!(values > 100_000);
    // And again: a text trace to a text trace is the same text.
    assert_eq!(String::from_utf8(as_text(&back)).unwrap(), String::from_utf8(as_text(&read(as_text(&back)))).unwrap());
    // The letters become the kernel's bits again.
    let numbers = read(as_dat(&back)).table("sched_switch").unwrap().int("prev_state").unwrap().to_i64();
    assert_eq!(numbers, trace.table("sched_switch").unwrap().int("prev_state").unwrap().to_i64());
}

/// A small trace as a simulation makes it.
fn built() -> Trace {
    let (int, uint) = (Kind::Int { signed: true, hex: false }, Kind::Int { signed: false, hex: false });
    let mut builder = TraceBuilder::new(2);
    builder.task(7, "worker");
    let switch = builder.event(
        "sched",
        "sched_switch",
        &[
            ("prev_comm", Kind::Str),
            ("prev_pid", int),
            ("prev_prio", int),
            ("prev_state", int),
            ("next_comm", Kind::Str),
            ("next_pid", int),
            ("next_prio", int),
        ],
    );
    let idle = builder.event("power", "cpu_idle", &[("state", uint), ("cpu_id", uint)]);
    let why = builder.event("opplab", "sugov_decision", &[("why", Kind::Text), ("util", int), ("freq_khz", uint)]);
    let row = |a: &'static [u8], pid, state, b: &'static [u8], next| {
        [
            Value::Str(a),
            Value::I64(pid),
            Value::I64(120),
            Value::I64(state),
            Value::Str(b),
            Value::I64(next),
            Value::I64(120),
        ]
    };
    builder.push(idle, 1_000, 1, 0, &[Value::U64(0xffff_ffff), Value::U64(1)]);
    builder.push(switch, 1_500, 1, 0, &row(b"swapper/1", 0, 0, b"worker", 7));
    builder.push(why, 2_000, 1, 7, &[Value::Str(b"util 412, headroom 1.25"), Value::I64(-1), Value::U64(1_500_000)]);
    builder.push(switch, 200_001_500, 1, 7, &row(b"worker", 7, 1, b"swapper/1", 0));
    // Later than 27 bits of nanoseconds, so that the time needs an extension.
    builder.push(idle, 9_000_001_500, 1, 0, &[Value::U64(1), Value::U64(1)]);
    builder.finish()
}

#[test]
fn a_built_trace_is_read_by_trace_cmd() {
    let trace = built();
    same(&trace, &read(as_dat(&trace)), &[], "trace.dat");
    same(&trace, &read(as_perfetto(&trace)), &[], "Perfetto");
    let path = std::env::temp_dir().join(format!("opplab-trace-built-{}.dat", std::process::id()));
    std::fs::write(&path, as_dat(&trace)).unwrap();
    let report = common::trace_cmd(&["report", "-t", path.to_str().unwrap()]);
    let _ = std::fs::remove_file(&path);
    let Some(report) = report else { return };
    let lines: Vec<String> = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "cpus=2",
            "<idle>-0 [001] 0.000001000: cpu_idle: state=4294967295 cpu_id=1",
            "<idle>-0 [001] 0.000001500: sched_switch: swapper/1:0 [120] R ==> worker:7 [120]",
            "worker-7 [001] 0.000002000: sugov_decision: why=util 412, headroom 1.25 util=-1 freq_khz=1500000",
            "worker-7 [001] 0.200001500: sched_switch: worker:7 [120] S ==> swapper/1:0 [120]",
            "<idle>-0 [001] 9.000001500: cpu_idle: state=1 cpu_id=1",
        ]
    );
}

#[test]
fn text_has_the_kernels_form() {
    let text = String::from_utf8(as_text(&built())).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "          <idle>-0       [001]     0.000001000: cpu_idle: state=4294967295 cpu_id=1",
            "          <idle>-0       [001]     0.000001500: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=worker next_pid=7 next_prio=120",
            "          worker-7       [001]     0.000002000: sugov_decision: why=util 412, headroom 1.25 util=-1 freq_khz=1500000",
            "          worker-7       [001]     0.200001500: sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
            "          <idle>-0       [001]     9.000001500: cpu_idle: state=1 cpu_id=1",
        ]
    );
}

/// A trace of one seed: events of three kinds on three CPUs, most of them of one time with the one before, in any order of CPUs.
fn simultaneous(seed: u64) -> Trace {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut builder = TraceBuilder::new(3);
    let uint = Kind::Int { signed: false, hex: false };
    // By name the last is the first.
    let ids = ["c", "b", "a"].map(|name| builder.event("sched", name, &[("nth", uint)]));
    // The first moment has one event.
    let mut time_ns = 0;
    for nth in 0..200 {
        // The next moment may be nearer than the events of this one are many.
        time_ns += if nth == 1 { 10 } else { [0, 0, 0, 1, 3, 1_000_000][draw(6) as usize] };
        builder.push(ids[draw(3) as usize], time_ns, draw(3) as u32, 0, &[Value::U64(nth)]);
    }
    builder.finish()
}

/// The events of a trace in order, with their times.
fn events_in_order(trace: &Trace) -> Vec<(u64, u64)> {
    let of = |place: write::Row| {
        let table = &trace.tables[place.table];
        (table.int("nth").unwrap().get_u64(place.row), table.time_ns[place.row])
    };
    write::rows_in_order(trace).into_iter().map(of).collect()
}

/// Goal: files of all formats, whole or in pieces, have the events of one moment in their order, at the same times; written again they are the same.
#[test]
fn events_of_one_moment_keep_their_order_in_every_format() {
    type Form = (&'static str, fn(&Trace) -> Vec<u8>);
    let forms: [Form; 3] = [("dat", as_dat), ("text", as_text), ("Perfetto", as_perfetto)];
    let options = ReadOptions::default();
    let path = std::env::temp_dir().join(format!("opplab-order-{}.dat", std::process::id()));
    let scratch = path.with_extension("pages");
    for seed in 0..50 {
        let trace = simultaneous(seed);
        let given = events_in_order(&trace);
        let written = events_in_order(&read(as_text(&trace)));
        assert_eq!(given.iter().map(|event| event.0).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        for ((nth, given_ns), (again, written_ns)) in given.iter().zip(&written) {
            assert_eq!((nth, true), (again, (0..200).contains(&(written_ns - given_ns))), "seed {seed}");
        }
        for (name, form) in forms {
            let first = form(&trace);
            let back = read(first.clone());
            assert_eq!(events_in_order(&back), written, "{name}, seed {seed}");
            for (other, again) in forms {
                let twice = read(again(&back));
                assert_eq!(events_in_order(&twice), written, "{name} and {other}, seed {seed}");
            }
            for events_max in [1, 7, 64] {
                let file = TraceFile::from_bytes(first.clone(), &options).unwrap();
                file.write_trace_dat(&options, events_max, &path, &scratch).unwrap();
                let pieces = read(std::fs::read(&path).unwrap());
                assert_eq!(events_in_order(&pieces), written, "{name} by {events_max}, seed {seed}");
            }
        }
    }
    for file in [path, scratch] {
        let _ = std::fs::remove_file(file);
    }
}

/// Goal: the context of an event is what the recording says in every format, and unknown where it does not say. Method: a text with every
/// kind of word of context, and one without.
#[test]
fn contexts_are_kept_or_unknown() {
    let options = ReadOptions { common_fields: true, ..ReadOptions::default() };
    let read = |bytes: Vec<u8>| TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap();
    let flags = |trace: &Trace| trace.table("event").unwrap().int("common_flags").map(|flags| flags.to_u64());
    let words = ["....", "d.h1.", "dNs..", "b.H2.", "D.Z..", ".p.12", "dn..."];
    let lines = (0..).zip(words).map(|(nth, word)| format!("x-1 [000] {word} 1.{nth}: event: nth={nth}\n"));
    let known = read(format!("# tracer: nop\n{}", lines.collect::<String>()).into_bytes());
    assert_eq!(flags(&known).unwrap(), [0, 0x09, 0x35, 0x98, 0xc9, 0x20, 0x05]);
    let unknown = read(b"# tracer: nop\nx-1 [000] 1.5: event: nth=1\n".to_vec());
    for (name, form) in [("dat", as_dat as fn(&Trace) -> Vec<u8>), ("text", as_text), ("Perfetto", as_perfetto)] {
        assert_eq!(flags(&read(form(&known))), flags(&known), "{name}");
        assert_eq!(flags(&read(form(&unknown))), None, "{name}");
    }
    let depths =
        read(as_text(&read(as_dat(&known)))).table("event").unwrap().int("common_preempt_count").unwrap().to_u64();
    assert_eq!(depths, [0, 1, 0, 2, 0, 0x21, 0]);
}

/// Goal: pieces of a text, whose events of one moment are in no order of CPUs, give what the whole text does.
#[test]
fn pieces_of_a_text_keep_the_order_of_one_moment() {
    let options = ReadOptions::default();
    let lines = (0..60).map(|nth| format!("x-1 [00{}] 1.5: event: nth={nth}\n", (nth * 7) % 3)).collect::<String>();
    let lines = format!("x-1 [000] 1.0: start: nth=0\n{lines}");
    let open = || TraceFile::from_bytes(format!("# tracer: nop\n{lines}").into_bytes(), &options).unwrap();
    let whole = events_in_order(&read(as_dat(&open().read(&options).unwrap())));
    assert_eq!(whole[1..].iter().map(|event| event.0).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    for events_max in [1, 7, 60] {
        let mut text = b"# tracer: nop\n".to_vec();
        let mut each = |piece: Trace, _| {
            write::ftrace_piece(&piece, &mut text).unwrap();
            std::ops::ControlFlow::Continue(())
        };
        open().read_pieces(&options, events_max, &mut each).unwrap();
        assert_eq!(events_in_order(&read(text)), whole, "pieces of {events_max}");
    }
}

/// Goal: times that are no ns do not become some.
#[test]
fn a_clock_that_counts_no_ns_is_not_written_as_one_that_does() {
    for clock in ["counter", "uptime", "x86-tsc"] {
        let mut trace = built();
        trace.meta.clock = clock.to_owned();
        let error = write::perfetto(&trace, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("a Perfetto trace has times in ns, those of clock "), "{error}");
    }
}

#[test]
fn tracks_lie_beside_the_events() {
    let mut writer = PerfettoWriter::new();
    writer.add_trace(&built());
    let power = writer.track("power", None);
    let watts = writer.counter_track("package", "mW", Some(power));
    writer.counter(watts, 1_000, 12_500);
    writer.counter_real(watts, 2_000, 12.5);
    let decisions = writer.track("decisions", None);
    let why = [("util", Annotation::Int(412)), ("why", Annotation::Text("rate limit"))];
    writer.instant(decisions, 1_500, "sugov", &why, &[1]);
    writer.instant(decisions, 2_000, "grant", &[("ratio", Annotation::Real(1.25)), ("khz", Annotation::Uint(5))], &[1]);
    let bytes = writer.finish();
    // The kernel events are still what they were.
    same(&built(), &read(bytes.clone()), &[], "Perfetto with tracks");
    if let Ok(path) = std::env::var("OPPLAB_WRITE_PERFETTO") {
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn repeating_multiplies_every_count() {
    let Some(shared) = common::shared() else { return };
    for name in ["traces/x86-612-xeon16-hw1-schedutil-burst/trace.dat", "data/trappy/tests/trace_idle.dat"] {
        let bytes = std::fs::read(shared.join(name)).unwrap();
        let counts = |bytes: Vec<u8>| {
            let info =
                TraceFile::from_bytes(bytes, &ReadOptions::default()).unwrap().info(&ReadOptions::default()).unwrap();
            assert!(info.problems.is_empty(), "{:?}", info.problems);
            info.events
        };
        let once = counts(bytes.clone());
        let thrice = counts(write::repeat_trace_dat(&bytes, 3).unwrap());
        let expected: BTreeMap<String, u64> = once.into_iter().map(|(name, count)| (name, 3 * count)).collect();
        assert_eq!(thrice, expected, "{name}");
    }
}
