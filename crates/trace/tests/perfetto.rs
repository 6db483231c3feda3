//! Perfetto traces that Google's encoder wrote (tests/data/make_perfetto.py).

use opplab_trace::{Column, ReadOptions, Trace, TraceFile, UnpackLimits};

fn small() -> Vec<u8> {
    include_bytes!("data/perfetto_small.pftrace").to_vec()
}

fn read(bytes: Vec<u8>) -> Trace {
    let options = ReadOptions { unpack: UnpackLimits::up_to(1 << 20), ..ReadOptions::default() };
    TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap()
}

/// Shows a table: `time cpu pid: field=value …`, absent values as `-`.
fn show(trace: &Trace, name: &str) -> Vec<String> {
    let table = trace.table(name).unwrap_or_else(|| panic!("no {name}"));
    (0..table.len())
        .map(|row| {
            let mut line = format!("{} {} {}:", table.time_ns[row], table.cpu.get(row), table.pid.get(row));
            for field in &table.fields {
                let value = match &field.column {
                    _ if !field.is_valid(row) => "-".to_string(),
                    Column::Int(values) => values.get_i128(row).to_string(),
                    Column::Str(numbers) => trace.strings.text(numbers[row]).into_owned(),
                    Column::Text(texts) => String::from_utf8_lossy(texts.get(row)).into_owned(),
                    other => format!("{other:?}"),
                };
                line += &format!(" {}={value}", field.name);
            }
            line
        })
        .collect()
}

#[test]
fn every_kind_of_event_is_read() {
    let trace = read(small());
    assert!(trace.problems.is_empty(), "{:?}", trace.problems);
    assert_eq!(
        show(&trace, "sched_switch"),
        [
            "1000 0 100: prev_comm=worker prev_pid=100 prev_prio=120 prev_state=1 next_comm=swapper/0 next_pid=0 next_prio=120",
            "1200 2 0: prev_comm=- prev_pid=- prev_prio=- prev_state=0 next_comm=worker-io next_pid=101 next_prio=98",
            "1500 2 101: prev_comm=worker-io prev_pid=101 prev_prio=98 prev_state=130 next_comm=swapper/2 next_pid=0 next_prio=120",
        ]
    );
    assert_eq!(
        show(&trace, "sched_waking"),
        [
            "1150 2 0: comm=worker-io pid=101 prio=98 success=- target_cpu=2",
            "1350 2 101: comm=worker-io pid=101 prio=98 success=- target_cpu=3",
        ]
    );
    assert_eq!(show(&trace, "cpu_idle"), ["1100 0 0: state=4294967295 cpu_id=0"]);
    assert_eq!(show(&trace, "cpu_frequency"), ["1050 2 0: state=1800000 cpu_id=2"]);
    assert_eq!(show(&trace, "print"), ["5000 0 100: ip=18446462600907584064 buf=rtapp_main: event=start"]);
    assert_eq!(show(&trace, "upd_se"), ["5100 0 100: util_avg=412 delta=-7 who=me"]);
    assert_eq!(show(&trace, "my_probe"), ["5200 0 100: type=1"]);
    assert_eq!(show(&trace, "thermal_private"), ["1300 1 5: celsius=-5 zone=cpu"]);
    assert_eq!(show(&trace, "ftrace_event_9999"), ["1400 1 5: field_1=42 field_3=hi"]);
}

#[test]
fn names_system_and_losses_are_read() {
    let trace = read(small());
    assert_eq!(trace.meta.cpus, 4);
    assert_eq!(trace.meta.uname, "Linux 6.12.0 #1 SMP aarch64");
    assert_eq!(trace.comm_of(100), "worker");
    assert_eq!(trace.comm_of(101), "worker-io");
    assert_eq!(trace.comm_of(0), "<idle>");
    let missed: Vec<_> = trace.missed.iter().map(|m| (m.cpu, m.time_ns, m.count)).collect();
    assert_eq!(missed, [(2, 1050, None)]);
}

#[test]
fn cut_and_changed_files_give_what_they_can() {
    let whole = small();
    let mut most = 0;
    for len in 1..whole.len() {
        let options = ReadOptions { unpack: UnpackLimits::up_to(1 << 20), ..ReadOptions::default() };
        let file = TraceFile::from_bytes(whole[..len].to_vec(), &options).unwrap();
        if let Ok(trace) = file.read(&options) {
            most = most.max(trace.tables.iter().map(|t| t.len()).sum());
        }
    }
    assert!(most >= 9, "{most}");
}

#[test]
fn a_limit_on_decompression_is_kept() {
    let options = ReadOptions { unpack: UnpackLimits::up_to(16), ..ReadOptions::default() };
    let trace = TraceFile::from_bytes(small(), &options).unwrap().read(&options).unwrap();
    assert_eq!(trace.problems.len(), 1);
    assert!(trace.problems[0].to_string().contains("zlib: more than the 16 bytes allowed come out"));
    assert!(trace.table("cpu_frequency").is_none());
    assert_eq!(trace.table("cpu_idle").unwrap().len(), 1);
}

fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = varint(u64::from(number) << 3 | 2);
    out.extend(varint(content.len() as u64));
    out.extend_from_slice(content);
    out
}

fn number(field: u32, value: u64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(value)].concat()
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

/// Goal: meters of a device come as events in order of time, also out of packets that zstd compressed.
#[test]
fn rails_and_batteries_are_events() {
    let rail =
        |index: u64, name: &str| field(1, &[number(1, index), field(2, name.as_bytes()), field(3, b"cpu")].concat());
    let reading = |index: u64, ms: u64, uj: u64| field(2, &[number(1, index), number(2, ms), number(3, uj)].concat());
    let rails =
        [rail(4, "S4M_VDD_CPUCL0"), rail(5, "S2M_VDD_CPUCL2"), reading(4, 10, 100), reading(5, 10, 50)].concat();
    let later = [reading(4, 20, 190), reading(5, 20, 60)].concat();
    let battery = [number(1, 4000), number(3, (-5i64) as u64)].concat();
    let packets = [
        field(1, &[field(40, &later), number(8, 20_000_000)].concat()),
        field(1, &[number(8, 10_000_000), field(40, &rails)].concat()),
        field(1, &[field(38, &battery), number(8, 15_000_000)].concat()),
    ];
    let tree = field(1, &field(2, &[field(2, &[number(1, 101), field(2, b"io"), number(3, 100)].concat())].concat()));
    let plain = [packets.concat(), tree].concat();
    let packed = field(1, &field(133, &zstd::bulk::compress(&plain, 1).unwrap()));
    for bytes in [plain, packed] {
        let options = ReadOptions::default();
        let file = TraceFile::from_bytes(bytes, &options).unwrap();
        let mut order = Vec::new();
        let mut sink = |event: &opplab_trace::Event<'_>| {
            order.push((event.time_ns, event.schema.name.clone(), event.int(2)));
            std::ops::ControlFlow::Continue(())
        };
        let mut reader = file.reader(&options).unwrap();
        reader.stream(&options, &mut sink).unwrap();
        assert_eq!(reader.processes(), [(101, 100)].into());
        let expected = [
            (10_000_000, "power_rail", Some(100)),
            (10_000_000, "power_rail", Some(50)),
            (15_000_000, "battery", None),
            (20_000_000, "power_rail", Some(190)),
            (20_000_000, "power_rail", Some(60)),
        ];
        assert_eq!(order, expected.map(|(time, name, energy)| (time, name.to_owned(), energy)));
        drop(reader);
        let trace = file.read(&options).unwrap();
        assert_eq!(trace.table("battery").unwrap().int("current_ua").unwrap().to_i64(), [-5]);
        // A copy has the threads' processes.
        let mut copy = Vec::new();
        opplab_trace::write::perfetto(&trace, &mut copy).unwrap();
        assert_eq!(read(copy).processes, [(101, 100)].into());
    }
}
