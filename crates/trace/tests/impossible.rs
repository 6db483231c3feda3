//! Times and CPUs that cannot be are damage with its place, in every format; no reader gives them as values.

use crate::common::build::{self, Kind};
use crate::common::perf;
use opplab_trace::{ReadOptions, Trace, TraceFile};

fn read(bytes: &[u8]) -> Trace {
    TraceFile::from_bytes(bytes.to_vec(), &ReadOptions::default()).unwrap().read(&ReadOptions::default()).unwrap()
}

/// Every event's time and CPU, in the order of the tables.
fn places(trace: &Trace) -> Vec<(u64, u32)> {
    let rows = trace
        .tables
        .iter()
        .flat_map(|table| (0..table.len()).map(|row| (table.time_ns[row], table.cpu.get(row) as u32)));
    rows.collect()
}

/// Goal: a problem names the place and says `what`; all events that are given have times and CPUs that can be.
fn check(name: &str, bytes: &[u8], rows: usize, what: &str) {
    let trace = read(bytes);
    let problems: Vec<String> = trace.problems.iter().map(ToString::to_string).collect();
    let found = |problem: &String| problem.contains(what) && (problem.contains("offset ") || problem.contains("line "));
    assert!(problems.iter().any(found), "{name}: {problems:?}");
    let places = places(&trace);
    assert_eq!(places.len(), rows, "{name}");
    for (time_ns, cpu) in places {
        assert!(i64::try_from(time_ns).is_ok(), "{name}: {time_ns}");
        assert!(cpu < 1 << 16, "{name}: CPU {cpu}");
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A packet with a bundle of `cpu`: a `cpu_frequency` at each of the times.
fn bundle(cpu: u64, times: &[u64]) -> Vec<u8> {
    let event = |&time: &u64| {
        bytes(2, &[number(1, time), number(2, 7), bytes(11, &[number(1, 1000), number(2, 0)].concat())].concat())
    };
    let events: Vec<u8> = times.iter().flat_map(event).collect();
    bytes(1, &bytes(1, &[number(1, cpu), events].concat()))
}

#[test]
fn perfetto() {
    let sound = bundle(1, &[100, 200]);
    for cpu in [1 << 63, (1 << 32) - 1, 1 << 16] {
        check(
            "CPU",
            &[sound.clone(), bundle(cpu, &[300])].concat(),
            2,
            &format!("events of CPU {cpu}, which no machine has"),
        );
    }
    check(
        "late",
        &[sound.clone(), bundle(2, &[150, u64::MAX])].concat(),
        3,
        "18446744073709551615 ns, which no clock shows",
    );
    check("step", &[sound.clone(), bundle(2, &[1 << 60])].concat(), 3, "more than 36 years after the one before");
    // The second bundle of a CPU begins before the first one ends.
    let back = [bundle(1, &[100, 200]), bundle(1, &[194, 300])].concat();
    check("back", &back, 4, "goes back by 6 ns");
    assert_eq!(places(&read(&back)), [(100, 1), (200, 1), (200, 1), (300, 1)]);
}

#[test]
fn text() {
    let line = |time: &str| format!("  a-7  [001] ..... {time}: cpu_idle: state=1 cpu_id=1\n");
    let all = [line("1.000001"), line("9999999999.000000"), line("1.000002")].concat();
    check("late", all.as_bytes(), 2, "neither an event nor a header");
    check("step", [line("1.000001"), line("1999999999.000000")].concat().as_bytes(), 2, "more than 63 years");
}

#[test]
fn bpftrace() {
    let log = |time: &str| {
        format!("Attaching 5 probes...\nST:0:cc6b0587\nP:1:29f0:78:a:b\nS:a:3:29f0:1:0\nW:{time}:3:1:29f0\n")
    };
    check("late", log("ffffffffffffff00").as_bytes(), 1, "neither an event nor a task");
    check("step", log("100000000000000").as_bytes(), 2, "more than 2 years");
}

/// The file with the word `old` replaced, at its `nth` place.
fn replaced(mut bytes: Vec<u8>, old: &[u8], new: &[u8], nth: usize) -> Vec<u8> {
    let places: Vec<usize> = (0..bytes.len() - old.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    let at = places[nth];
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

#[test]
fn perf_data() {
    let whole = perf::file(&perf::Kind::default());
    let rows = places(&read(&whole)).len();
    let at = |time: u64, cpu: u32| [time.to_le_bytes().to_vec(), cpu.to_le_bytes().to_vec()].concat();
    let late = replaced(whole.clone(), &at(310, 0), &u64::MAX.to_le_bytes(), 0);
    check("late", &late, rows - 1, "18446744073709551615 ns, which no clock shows");
    let cpu = replaced(whole, &at(310, 0), &at(310, u32::MAX), 0);
    check("CPU", &cpu, rows - 1, "a sample of CPU 4294967295, which no machine has");
}

#[test]
fn ring_buffer_pages() {
    let whole = build::file(Kind::PLAIN);
    let rows = places(&read(&whole)).len();
    let pages = build::sample_pages(Kind::PLAIN, 0);
    let first = pages[0][0].time;
    // All of a page counts from its time.
    let late = replaced(whole.clone(), &first.to_le_bytes(), &(u64::MAX - 50_000).to_le_bytes(), 0);
    let trace = read(&late);
    assert!(
        trace.problems.iter().any(|problem| problem.to_string().contains("which no clock shows")),
        "{:?}",
        trace.problems
    );
    assert!(places(&trace).len() < rows);
    assert!(places(&trace).iter().all(|&(time_ns, _)| i64::try_from(time_ns).is_ok()));
    let far = replaced(whole.clone(), &first.to_le_bytes(), &(first + (1 << 60)).to_le_bytes(), 0);
    check("step", &far, rows, "years after the one before");
    assert!(read(&far).problems.len() > 1, "later pages go back");
}

/// Goal: pages that all CPUs claim are counted once.
#[test]
fn buffers_that_overlap() {
    let whole = build::file(Kind { version: 6, instances: 0, ..Kind::PLAIN });
    let rows = places(&read(&whole)).len();
    let at = whole.windows(10).position(|word| word == b"flyrecord\0").unwrap() + 10;
    let mut all_one = whole.clone();
    let first = all_one[at..at + 16].to_vec();
    all_one[at + 16..at + 32].copy_from_slice(&first);
    let trace = read(&all_one);
    let counted = places(&trace).len();
    assert!(counted <= rows, "{counted} of {rows}");
    let problem = trace.problems[0].to_string();
    assert!(problem.contains("the data of CPU 1 in buffer \"\" are those of another CPU or buffer"), "{problem}");
}
