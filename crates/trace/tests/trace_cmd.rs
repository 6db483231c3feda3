//! Every shared trace.dat against Debian's `trace-cmd report`: events per name, and all fields of the first 10 000 events.

use crate::common;
use std::collections::BTreeMap;

use opplab_trace::{Column, ReadOptions, Trace, TraceFile};

/// All (table, row) of a trace in the order of time, CPU and name.
fn rows(trace: &Trace) -> Vec<(usize, usize)> {
    let mut rows: Vec<(u64, i64, usize, usize)> = Vec::new();
    for (place, table) in trace.tables.iter().enumerate() {
        for row in 0..table.len() {
            rows.push((table.time_ns[row], table.cpu.get(row), place, row));
        }
    }
    rows.sort_by_key(|&(time, cpu, ..)| (time, cpu));
    rows.into_iter().map(|(.., table, row)| (table, row)).collect()
}

#[test]
fn events_per_name_equal_those_of_trace_cmd() {
    let Some(shared) = common::shared() else { return };
    let files = common::trace_dats(&shared);
    assert!(files.len() >= 4, "only {} trace.dat files", files.len());
    let mut total = 0;
    for file in &files {
        let Some(report) = common::trace_cmd(&["report", "-t", file.to_str().unwrap()]) else { return };
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for line in report.lines().filter_map(common::report_line) {
            *expected.entry(line.event.to_string()).or_default() += 1;
        }
        let info = TraceFile::open(file).unwrap().info(&ReadOptions::default()).unwrap();
        assert!(info.problems.is_empty(), "{}: {:?}", file.display(), info.problems);
        assert_eq!(info.events, expected, "{}", file.display());
        total += expected.values().sum::<u64>();
    }
    println!("{} files, {total} events: counts per name equal trace-cmd's", files.len());
}

/// The ways in which `trace-cmd report -R` may write an integer.
fn writes(value: i128, token: &str) -> bool {
    let token = token.trim();
    let unsigned = if value < 0 { value as i64 as u64 } else { value as u64 };
    let decimal = token.parse::<i128>();
    if decimal.is_ok_and(|n| n == value || n == i128::from(unsigned) || n == i128::from(unsigned as u32)) {
        return true;
    }
    let hex = token.strip_prefix("0x").unwrap_or(token);
    u64::from_str_radix(hex, 16).is_ok_and(|number| number == unsigned || number == u64::from(unsigned as u32))
}

/// The values that follow ` name=` for each name in turn.
fn split_fields<'a>(rest: &'a str, names: &[&str]) -> Option<Vec<&'a str>> {
    let mut starts = Vec::new();
    let mut from = 0;
    for name in names {
        let key = format!(" {name}=");
        let at = rest[from..].find(&key)? + from;
        starts.push((at, at + key.len()));
        from = at + key.len();
    }
    let ends = starts.iter().skip(1).map(|s| s.0).chain([rest.len()]);
    Some(starts.iter().zip(ends).map(|(start, end)| &rest[start.1..end]).collect())
}

/// The upper half of the addresses of a 64-bit kernel.
const KERNEL_ADDRESSES: u64 = 0xffff_0000_0000_0000;

#[test]
fn field_values_equal_those_of_trace_cmd() {
    let Some(shared) = common::shared() else { return };
    let (mut values, mut events, mut symbols, mut names_differ) = (0u64, 0u64, 0u64, 0u64);
    for file in common::trace_dats(&shared) {
        // -R prints fields, not the event's own format; -t all digits of the time.
        let Some(report) = common::trace_cmd(&["report", "-t", "-R", file.to_str().unwrap()]) else { return };
        let trace = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
        let mut lines: Vec<_> = report.lines().filter_map(common::report_line).collect();
        // Columns do not keep the order of two events of one instant and CPU (an interrupt's exit and the next one's entry).
        lines.sort_by_cached_key(|line| (line.time.replace('.', "").parse::<u64>().ok(), line.cpu, line.event));
        let order = rows(&trace);
        let mut pointed_at: BTreeMap<u64, String> = BTreeMap::new();
        assert_eq!(lines.len(), order.len(), "{}", file.display());
        for (line, &(place, row)) in lines.iter().zip(&order).take(10_000) {
            let table = &trace.tables[place];
            let where_ = || format!("{}: {line:?} against {} row {row}", file.display(), table.name);
            assert_eq!(line.event, table.name, "{}", where_());
            assert_eq!(i64::from(line.cpu), table.cpu.get(row), "{}", where_());
            assert_eq!(i64::from(line.pid), table.pid.get(row), "{}", where_());
            let time = table.time_ns[row];
            assert_eq!(line.time, format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000), "{}", where_());
            // trace-cmd also learns names from sched_switch as it goes; ours come from the file's list.
            names_differ += u64::from(line.comm != trace.comm(table, row));
            let names: Vec<&str> = table.fields.iter().map(|f| f.name.as_str()).filter(|&n| n != "text").collect();
            let Some(tokens) = split_fields(line.rest, &names) else {
                panic!("{}: fields {names:?} not found", where_());
            };
            for (name, token) in names.iter().zip(tokens) {
                let field = table.field(name).unwrap();
                let equal = match &field.column {
                    // trace-cmd prints what a pointer into the kernel points at, from the file's printk formats and
                    // kallsyms (`ipi_raise.reason`, `tasklet_entry.func`): the same text for the same address.
                    Column::Int(values)
                        if values.get_u64(row) >= KERNEL_ADDRESSES && !writes(values.get_i128(row), token) =>
                    {
                        symbols += 1;
                        pointed_at.entry(values.get_u64(row)).or_insert_with(|| token.to_owned()) == token
                    }
                    Column::Int(values) => writes(values.get_i128(row), token),
                    Column::Str(numbers) => trace.strings.text(numbers[row]) == token,
                    Column::Text(texts) => String::from_utf8_lossy(texts.get(row)) == token,
                    // trace-cmd prints the first word of an array of unknown length as a number: nothing to compare.
                    Column::Bytes(_) | Column::List { .. } => continue,
                };
                assert!(equal, "{}: {name} is {token:?}", where_());
                values += 1;
            }
            events += 1;
        }
    }
    println!(
        "{events} events, {values} field values equal trace-cmd's; {symbols} pointers have one name each, {names_differ} task names differ"
    );
}
