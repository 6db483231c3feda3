//! Text traces: every shared one opens, and `trace-cmd report`'s text of a trace.dat gives the tables of the trace.dat.

use crate::common;
use opplab_trace::{Column, Kind, ReadOptions, Trace, TraceFile};

fn value(trace: &Trace, column: &Column, row: usize) -> String {
    match column {
        Column::Int(values) => values.get_i128(row).to_string(),
        Column::Str(numbers) => trace.strings.text(numbers[row]).into_owned(),
        Column::Text(texts) => String::from_utf8_lossy(texts.get(row)).into_owned(),
        other => format!("{other:?}"),
    }
}

/// The word that `irq_handler_exit` prints for its number `ret`: of `IRQ_NONE`, `IRQ_HANDLED` and `IRQ_WAKE_THREAD` the first
/// alone is not handled (include/trace/events/irq.h:irq_handler_exit, v6.12).
fn irqreturn_word(ret: &str) -> &'static str {
    if ret == "0" { "unhandled" } else { "handled" }
}

/// Goal: events that are not asked for have their times and CPUs, but no fields; the others have theirs. Method: twice each, as the
/// second line of a form is read another way than the first.
#[test]
fn other_events_may_come_without_their_fields() {
    let line = |us: u32, what: &str| format!("  a-7     [001] d..2 1.{us:06}: {what}\n");
    let lines = [
        line(1, "softirq_raise: vec=1 [action=TIMER]"),
        line(2, "cpu_idle: state=2 cpu_id=1"),
        line(3, "softirq_raise: vec=1 [action=TIMER]"),
        line(4, "cpu_idle: state=3 cpu_id=1"),
    ];
    let of = |options: &ReadOptions| {
        let file = TraceFile::from_bytes(lines.concat().into_bytes(), options).unwrap();
        let mut seen = Vec::new();
        let mut sink = |event: &opplab_trace::Event<'_>| {
            seen.push((event.time_ns % 1_000_000 / 1_000, event.cpu, event.schema.name.clone(), event.int(0)));
            std::ops::ControlFlow::Continue(())
        };
        file.stream(options, &mut sink).unwrap();
        seen
    };
    let row = |us: u64, name: &str, first: Option<i64>| (us, 1, name.to_owned(), first);
    let named = [row(2, "cpu_idle", Some(2)), row(4, "cpu_idle", Some(3))];
    assert_eq!(of(&ReadOptions::only(&["cpu_idle"])), named);
    let [two, four] = named;
    let bare = ReadOptions { others_bare: true, ..ReadOptions::only(&["cpu_idle"]) };
    assert_eq!(of(&bare), [row(1, "softirq_raise", None), two, row(3, "softirq_raise", None), four]);
}

#[test]
fn the_text_of_a_trace_dat_gives_its_tables() {
    let Some(shared) = common::shared() else { return };
    let (mut values, mut rows, mut columns_absent) = (0u64, 0u64, 0u64);
    for file in common::trace_dats(&shared) {
        let Some(report) = common::trace_cmd(&["report", "-t", file.to_str().unwrap()]) else { return };
        let binary = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
        let text = TraceFile::from_bytes(report.into_bytes(), &ReadOptions::default()).unwrap();
        let text = text.read(&ReadOptions::default()).unwrap();
        let name = file.display();
        // Printed texts that hold line ends continue on lines that are no events, in one of the files.
        assert!(text.problems.len() <= 2, "{name}: {:?}", text.problems);
        assert_eq!(text.meta.cpus, binary.meta.cpus, "{name}");
        for table in &binary.tables {
            let other = text.table(&table.name).unwrap_or_else(|| panic!("{name}: no {} in the text", table.name));
            assert_eq!(table.time_ns, other.time_ns, "{name}: {}", table.name);
            assert_eq!(table.cpu.to_u64(), other.cpu.to_u64(), "{name}: {}", table.name);
            assert_eq!(table.pid.to_i64(), other.pid.to_i64(), "{name}: {}", table.name);
            rows += table.len() as u64;
            for field in &table.fields {
                // The states of tasks are letters in the text, and printed texts and addresses have their own form.
                if matches!(field.name.as_str(), "prev_state" | "ip" | "text" | "buf" | "fmt") {
                    continue;
                }
                let Some(same) = other.field(&field.name) else {
                    columns_absent += 1;
                    continue;
                };
                for row in 0..table.len() {
                    let (ours, theirs) = (value(&binary, &field.column, row), value(&text, &same.column, row));
                    let equal = ours == theirs
                        // The event's format prints a word for each number.
                        || (table.name == "irq_handler_exit" && field.name == "ret" && irqreturn_word(&ours) == theirs)
                        // An unsigned field that is printed with %d, and the other way round.
                        || ours.parse::<i128>().ok().zip(theirs.parse::<i128>().ok()).is_some_and(|(a, b)| {
                            a as i64 == b as i64 || a as i32 as i64 == b as i64 || a as i64 == b as i32 as i64
                        });
                    assert!(
                        equal,
                        "{name}: {}.{} row {row}: {ours} in the file, {theirs} in the text",
                        table.name, field.name
                    );
                    values += 1;
                }
            }
        }
    }
    println!("{rows} events, {values} values equal; {columns_absent} columns are not in the text");
}

#[test]
fn every_shared_text_trace_opens() {
    let Some(shared) = common::shared() else { return };
    let data = shared.join("data");
    let is_text = |path: &std::path::Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parent = path.to_string_lossy().into_owned();
        (parent.contains("trappy")
            || parent.contains("bart")
            || parent.contains("lisa")
            || parent.contains("diff_tests"))
            && (name.ends_with(".txt") || name.ends_with(".html") || name.ends_with(".systrace"))
    };
    let files = common::files(&data, &is_text);
    assert!(files.len() >= 15, "{files:?}");
    for file in &files {
        let info = TraceFile::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let info = info.info(&ReadOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let lines = std::fs::read(file).unwrap();
        let lines =
            lines.split(|&b| b == b'\n').filter(|l| l.windows(2).any(|w| w == b": ") && l.contains(&b']')).count();
        let events: u64 = info.events.values().sum();
        assert!(events as usize <= lines && events > 0, "{}: {events} events, {lines} lines", file.display());
        println!("{}: {events} events, {} problems", file.file_name().unwrap().to_string_lossy(), info.problems.len());
    }
}

/// Counts of one shared file by hand.
fn check_counts(file: &str, expected: &[(&str, u64)]) {
    let Some(shared) = common::shared() else { return };
    let info = TraceFile::open(&shared.join("data").join(file)).unwrap().info(&ReadOptions::default()).unwrap();
    let got: Vec<(&str, u64)> = info.events.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(got, expected, "{file}");
}

#[test]
fn counts_of_known_files() {
    check_counts(
        "lisa/trace_txt/trace.txt",
        &[("print", 14), ("sched_overutilized", 3), ("sched_switch", 1856), ("sched_wakeup", 1068)],
    );
    check_counts(
        "perfetto/test/trace_processor/diff_tests/parser/sched/cpu_frequency_limits.systrace",
        &[("cpu_frequency_limits", 12)],
    );
    check_counts(
        "perfetto/test/trace_processor/diff_tests/parser/atrace/bad_print.systrace",
        &[("event", 1), ("tracing_mark_write", 2)],
    );
}

#[test]
fn old_and_new_field_names_meet_in_one_column() {
    let text = b"a-1 [000] 1.0: cpu_frequency_limits: min=5 max=9 cpu_id=6\n\
        a-1 [000] 2.0: cpu_frequency_limits: min_freq=6 max_freq=8 cpu_id=6\n";
    let trace = TraceFile::from_bytes(text.to_vec(), &ReadOptions::default()).unwrap();
    let trace = trace.read(&ReadOptions::default()).unwrap();
    let table = trace.table("cpu_frequency_limits").unwrap();
    assert_eq!(table.int("min_freq").unwrap().to_i64(), [5, 6]);
    assert_eq!(table.int("max_freq").unwrap().to_i64(), [9, 8]);
    assert_eq!(table.fields.len(), 3);
}

#[test]
fn absent_and_mixed_values_are_kept_apart() {
    let text =
        b"a-1 [000] 1.0: x: n=5\na-1 [000] 2.0: x: m=7\na-1 [000] 3.0: x: n=six m=8\na-1 [000] 4.0: x: n=-1 m=-8\n";
    let trace = TraceFile::from_bytes(text.to_vec(), &ReadOptions::default()).unwrap();
    let trace = trace.read(&ReadOptions::default()).unwrap();
    let table = trace.table("x").unwrap();
    let n = table.field("n").unwrap();
    assert_eq!(n.kind, Kind::Str);
    assert_eq!((0..4).map(|row| value(&trace, &n.column, row)).collect::<Vec<_>>(), ["5", "", "six", "-1"]);
    assert_eq!(n.valid, Some(vec![true, false, true, true]));
    let m = table.field("m").unwrap();
    assert_eq!(m.column.as_int().unwrap().to_i64(), [0, 7, 8, -8]);
    assert_eq!(m.valid, Some(vec![false, true, true, true]));
}

#[test]
fn lines_out_of_order_are_put_in_order() {
    let text = b"a-1 [000] 2.0: x: n=2\na-1 [001] 1.0: x: n=1\na-1 [000] 3.0: x: n=3\nnonsense\n";
    let trace = TraceFile::from_bytes(text.to_vec(), &ReadOptions::default()).unwrap();
    let trace = trace.read(&ReadOptions::default()).unwrap();
    assert_eq!(trace.table("x").unwrap().int("n").unwrap().to_i64(), [1, 2, 3]);
    assert_eq!(
        trace.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["line 4: neither an event nor a header: \"nonsense\""]
    );
}

#[test]
fn an_unknown_event_is_an_error_with_the_nearest_name() {
    let text = b"a-1 [000] 2.0: sched_switch: n=2\n".to_vec();
    let file = TraceFile::from_bytes(text, &ReadOptions::default()).unwrap();
    let error = file.read(&ReadOptions::only(&["sched_swich"])).unwrap_err();
    assert_eq!(error.to_string(), "event \"sched_swich\" is not in this trace; nearest name: \"sched_switch\"");
}

#[test]
fn printed_markers_become_tables() {
    let text =
        b"a-1 [000] 1.0: print: tracing_mark_write: rtapp_loop: event=start thread_loop=0 phase=1 phase_loop=2\n\
        a-1 [000] 2.0: print: 0xffff00000819ff24s: cpu_frequency_devlib:        state=950000 cpu_id=3\n\
        b-2 [001] 3.0: bprint: enqueue_task_fair: evt=util_est_rq pid=7 t_avg=5\n\
        b-2 [001] 4.0: tracing_mark_write: B|598|some event\n\
        b-2 [001] 5.0: tracing_mark_write: C|598|level|-4\n\
        b-2 [001] 6.0: tracing_mark_write: E\n\
        b-2 [001] 7.0: print: tracing_mark_write: just words: not a pair\n";
    let trace = TraceFile::from_bytes(text.to_vec(), &ReadOptions::default()).unwrap();
    let markers = opplab_trace::markers(&trace.read(&ReadOptions::default()).unwrap());
    let names: Vec<(&str, usize)> = markers.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("atrace", 3), ("cpu_frequency_devlib", 1), ("rtapp_loop", 1), ("util_est_rq", 1)]);
    let get = |table: &str, field: &str, row| {
        let field = markers.table(table).unwrap().field(field).unwrap();
        if field.is_valid(row) { value(&markers, &field.column, row) } else { "-".into() }
    };
    assert_eq!((get("rtapp_loop", "event", 0), get("rtapp_loop", "phase_loop", 0)), ("start".into(), "2".into()));
    assert_eq!(
        (get("cpu_frequency_devlib", "state", 0), get("cpu_frequency_devlib", "cpu_id", 0)),
        ("950000".into(), "3".into())
    );
    assert_eq!(get("util_est_rq", "t_avg", 0), "5");
    assert_eq!(
        (get("atrace", "kind", 0), get("atrace", "name", 0), get("atrace", "value", 0)),
        ("B".into(), "some event".into(), "-".into())
    );
    assert_eq!(
        (get("atrace", "kind", 1), get("atrace", "value", 1), get("atrace", "kind", 2)),
        ("C".into(), "-4".into(), "E".into())
    );
    assert_eq!(markers.table("atrace").unwrap().time_ns, [4_000_000_000, 5_000_000_000, 6_000_000_000]);
}

#[test]
fn the_shared_traces_have_their_markers() {
    let Some(shared) = common::shared() else { return };
    let markers_of = |name: &str| {
        let trace = TraceFile::open(&shared.join(name)).unwrap().read(&ReadOptions::default()).unwrap();
        let tables = opplab_trace::markers(&trace).tables;
        tables.iter().map(|t| (t.name.clone(), t.len())).collect::<Vec<_>>()
    };
    assert_eq!(markers_of("data/lisa/trace_txt/trace.txt"), [("cpu_frequency_devlib".to_string(), 12)]);
    let lisa = markers_of("data/lisa/example_rtapp_trace.dat");
    let expected = [("cpu_frequency", 12), ("util_est_rq", 4058), ("util_est_se", 2184)];
    assert_eq!(lisa, expected.map(|(name, count)| (name.to_string(), count)));
}

/// Goal: one damaged line costs that line, wherever the events are used; a CPU that no machine has is no event line.
#[test]
fn a_damaged_line_is_told_and_left_out() {
    let text = "x-1 [000] 1.0: sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=y next_pid=2 next_prio=120\n\
        y-2 [000] 2.0: sched_switch: prev_comm=y prev_pid=2 prev_pr\n\
        y-2 [000] 3.0: sched_switch: prev_comm=y prev_pid=zwei prev_prio=120 prev_state=S ==> next_comm=x next_pid=1 next_prio=120\n\
        x-1 [000] 4.0: cpu_frequency: state= cpu_id=0\n\
        x-1 [000] 5.0: cpu_frequency: state=1000 cpu_id=0\n\
        x-1 4294967295d..2. 5.5: cpu_idle: state=1 cpu_id=0\n";
    let read = |text: &str| {
        let options = ReadOptions::default();
        let trace = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).unwrap().read(&options).unwrap();
        let rows: Vec<(String, usize)> = trace.tables.iter().map(|t| (t.name.clone(), t.len())).collect();
        (rows, trace.problems.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let rows = [("cpu_frequency", 1), ("sched_switch", 1)].map(|(name, rows)| (name.to_owned(), rows));
    let (found, told) = read(text);
    assert_eq!(found, rows);
    let expected = [
        "line 2: sched_switch without a number for prev_pid",
        "line 3: sched_switch without a number for prev_pid",
        "line 4: cpu_frequency without a number for state",
        "line 6: neither an event nor a header: \"x-1 4294967295d..2. 5.5: cpu_idle: state=1 cpu_id=0\"",
    ];
    assert_eq!(told, expected);
    // The same where lines are not in order of time, with the first line last.
    let (first, rest) = text.split_once('\n').unwrap();
    let (found, told) = read(&format!("{rest}{first}\n"));
    assert_eq!(found, rows);
    assert!(told.contains(&"line 1: sched_switch without a number for prev_pid".to_owned()), "{told:?}");
}

/// Goal: a CPU's clock that goes back is damage, as it is in ring buffers; CPUs that stand one behind the other are not.
#[test]
fn a_clock_that_goes_back_is_named() {
    let line = |cpu: u32, ms: u32| format!("x-1 [{cpu:03}] 1.{ms:03}000: cpu_idle: state=1 cpu_id={cpu}\n");
    let problems = |lines: &[(u32, u32)]| {
        let text: String = lines.iter().map(|&(cpu, ms)| line(cpu, ms)).collect();
        let options = ReadOptions::default();
        let trace = TraceFile::from_bytes(text.into_bytes(), &options).unwrap().read(&options).unwrap();
        trace.problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(problems(&[(0, 1), (0, 2), (0, 9), (1, 1), (1, 3)]).is_empty());
    let expected = "line 4: CPU 0's clock goes back by 0.006000 s: what is after it lies between what was before";
    assert_eq!(problems(&[(0, 1), (1, 2), (0, 9), (0, 3), (0, 4), (1, 5)]), [expected]);
}

/// Goal: negative numbers beside some of 2^63 and more come back as they are written, whichever come first: as strings, which no
/// integer column holds. Alone they are integers.
#[test]
fn no_number_of_a_column_of_both_signs_wraps() {
    let read = |written: &[&str]| -> (bool, Vec<String>) {
        let line = |(us, v): (usize, &&str)| format!("x-1 [000] 1.{us:06}: own: v={v}\n");
        let text: String = written.iter().enumerate().map(line).collect();
        let options = ReadOptions::default();
        let trace = TraceFile::from_bytes(text.into_bytes(), &options).unwrap().read(&options).unwrap();
        let column = &trace.table("own").unwrap().field("v").unwrap().column;
        (column.as_int().is_some(), (0..column.len()).map(|row| value(&trace, column, row)).collect())
    };
    let (most, half) = ("18446744073709551611", "9223372036854775808");
    let check =
        |written: [&str; 3], is_int: bool| assert_eq!(read(&written), (is_int, written.map(str::to_owned).to_vec()));
    for written in [["-5", most, "7"], [most, "-5", "7"], ["7", half, "-1"], ["7", "-1", half]] {
        check(written, false);
    }
    for written in [["7", most, half], ["-9223372036854775808", "9223372036854775807", "0"]] {
        check(written, true);
    }
}
