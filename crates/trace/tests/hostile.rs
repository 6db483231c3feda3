//! No bytes make a reader panic or take memory without limit; damage leaves what stands before it readable.

use std::io::Write as _;

use crate::common::build::{self, Kind};
use crate::common::perf;
use opplab_trace::{ReadOptions, Trace, TraceFile, UnpackLimits};
use proptest::prelude::*;

const TEXT: &[u8] = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/3   #P:6\n\
    <idle>-0     (-----) [005] d..2. 162.215764: cpu_idle: state=2 cpu_id=5\n\
    a b-12 [000] 163.000001: sched_switch: a b:12 [120] R+ ==> m/0:21 [0]\n\
    CPU:2 [LOST 12 EVENTS]\n\
    sh-7 [001] d..2 164.5: sched_wakeup: comm=Binder 5 pid=679 prio=120 success=1 target_cpu=001\n\
    sh-7 [001] 165.5: upd: (ffffffff810fe540) se=0xff1100 n=-5\n\
    sh-7       1d..2. 166.5: print: tracing_mark_write: rtapp_main: event=start\n";

/// As `perf script` prints it: process and thread, a period, call chains.
const SCRIPT: &[u8] = b"sh     7/8     [001] 164.500001:          1 sched:sched_switch: prev_comm=sh prev_pid=8 prev_prio=120 \
    prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n\tffffffff81000000 schedule+0x10 ([kernel.kallsyms])\n\n\
    a b  9 [000] 164.600001:    1001001 cycles:u: \n\t55a3cf3f7443 main (/usr/bin/sh)\n\n";

/// SchedViz's log.
const BPFTRACE: &[u8] =
    b"Attaching 5 probes...\nST:0:cc6b0587\nP:1:29f0:78:a:b\nS:a:3:29f0:1:0\nW:b:3:1:29f0\nM:c:3:1:2:29f0\n";

fn html() -> Vec<u8> {
    [b"<!DOCTYPE html><script class=\"trace-data\" type=\"application/text\">\n", TEXT, b"</script></html>"].concat()
}

/// A small tar with the pages of two CPUs and the formats.
fn tar() -> Vec<u8> {
    let kind = Kind::PLAIN;
    let mut out = Vec::new();
    let mut add = |name: String, content: Vec<u8>| {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        out.extend_from_slice(&header);
        out.extend_from_slice(&content);
        out.resize(out.len().next_multiple_of(512), 0);
    };
    add("formats/header_page".into(), build::header_page(kind).into_bytes());
    for (system, text) in build::formats() {
        let name = text.lines().next().unwrap().trim_start_matches("name: ").to_string();
        add(format!("formats/{system}/{name}/format"), text.into_bytes());
    }
    for (cpu, pages) in build::sample_pages(kind, 0).iter().enumerate() {
        add(format!("traces/cpu{cpu}"), pages.iter().flat_map(|p| build::page(kind, p)).collect());
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn raw_pages() -> Vec<u8> {
    let kind = Kind { big_endian: true, ..Kind::PLAIN };
    build::sample_pages(kind, 0)[0].iter().flat_map(|p| build::page(kind, p)).collect()
}

/// How many [`seeds`] there are.
const SEEDS: usize = 16;

fn seeds() -> Vec<Vec<u8>> {
    let kind = |version, big_endian, long_size, codec, instances| Kind {
        version,
        big_endian,
        long_size,
        codec,
        instances,
        tsc: codec == "none" && big_endian,
    };
    vec![
        build::file(kind(6, false, 8, "none", 1)),
        build::file(kind(6, true, 4, "none", 0)),
        build::file(kind(7, false, 8, "none", 1)),
        build::file(kind(7, false, 8, "zstd", 0)),
        build::file(kind(7, true, 4, "zlib", 0)),
        TEXT.to_vec(),
        html(),
        include_bytes!("data/perfetto_small.pftrace").to_vec(),
        tar(),
        raw_pages(),
        zstd::bulk::compress(&build::file(Kind::PLAIN), 1).unwrap(),
        perf::file(&perf::Kind::default()),
        perf::file(&perf::Kind { pipe: true, ..perf::Kind::default() }),
        perf::file(&perf::Kind { compressed: true, ..perf::Kind::default() }),
        SCRIPT.to_vec(),
        BPFTRACE.to_vec(),
    ]
}

/// Reads in all ways; gives the number of events, or `None` if nothing could be opened.
fn try_all(bytes: &[u8]) -> Option<usize> {
    let unpack = UnpackLimits::up_to(1 << 24);
    let options = ReadOptions { unpack, common_fields: true, ..ReadOptions::default() };
    let open = || TraceFile::from_bytes(bytes.to_vec(), &options);
    let trace: Trace = open().ok()?.read(&options).ok()?;
    let rows: usize = trace.tables.iter().map(|t| t.len()).sum();
    for table in &trace.tables {
        assert_eq!(table.cpu.len(), table.len());
        assert_eq!(table.pid.len(), table.len());
        for field in &table.fields {
            assert_eq!(field.column.len(), table.len(), "{}.{}", table.name, field.name);
            assert!(field.valid.as_ref().is_none_or(|valid| valid.len() == table.len()));
        }
    }
    assert!(trace.problems.len() <= 130, "{}", trace.problems.len());
    let info = open().ok()?.info(&options).ok()?;
    assert_eq!(info.events.values().sum::<u64>(), rows as u64);
    let some = ReadOptions { missing_ok: true, ..ReadOptions::only(&["wake", "sched_switch"]) };
    open().ok()?.read(&some).ok()?;
    Some(rows)
}

#[test]
fn the_seeds_are_good() {
    let rows: Vec<_> = seeds().iter().map(|seed| try_all(seed)).collect();
    assert_eq!(rows, [20, 10, 20, 10, 10, 5, 5, 12, 10, 7, 10, 12, 12, 12, 2, 3].map(Some));
}

#[test]
fn every_cut_gives_an_error_or_a_part() {
    for seed in seeds() {
        let whole = try_all(&seed).unwrap();
        let step = (seed.len() / 700).max(1);
        for len in (0..seed.len()).step_by(step) {
            let rows = try_all(&seed[..len]).unwrap_or(0);
            assert!(rows <= whole, "{rows} of {whole} after a cut at {len}");
        }
        // Without its last byte a file that is not compressed as a whole still gives most of its events.
        let packed = seed.starts_with(b"\x28\xb5") || seed.windows(4).any(|w| w == b"zstd" || w == b"zlib");
        let rows = try_all(&seed[..seed.len() - 1]).unwrap_or(0);
        let raw = seed.len().is_multiple_of(4096) && !seed.starts_with(b"\x17");
        assert!(2 * rows >= whole || packed || raw, "{} bytes: {rows} of {whole}", seed.len());
    }
}

#[test]
fn a_damaged_format_leaves_the_others() {
    let mut bytes = build::file(Kind::PLAIN);
    let at = bytes.windows(10).position(|w| w == b"name: wake").unwrap();
    bytes[at] = b'X';
    let options = ReadOptions::default();
    let trace = TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap();
    let names: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("listed", 1), ("named", 4), ("unknown_301", 5)]);
}

#[test]
fn a_page_that_lies_about_its_length_is_told_and_the_rest_read() {
    let mut bytes = build::file(Kind::PLAIN);
    let page = bytes.len() - 3 * 4096;
    bytes[page + 8..page + 12].copy_from_slice(&5000u32.to_le_bytes());
    let options = ReadOptions::default();
    let trace = TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap();
    assert_eq!(
        trace.problems[0].to_string(),
        format!("offset {page}: a ring-buffer page of CPU 0 claims 5000 used bytes, and has 4080")
    );
    assert_eq!(trace.table("wake").unwrap().len(), 5);
}

#[test]
fn two_joined_files_give_the_first_and_say_so() {
    for version in [6, 7] {
        let one = build::file(Kind { version, ..Kind::PLAIN });
        let options = ReadOptions::default();
        let joined = [&one[..], &one[..]].concat();
        let trace = TraceFile::from_bytes(joined, &options).unwrap().read(&options).unwrap();
        assert_eq!(trace.tables.iter().map(|t| t.len()).sum::<usize>(), 10);
        let said: Vec<String> = trace.problems.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("offset {}: another trace.dat begins here; its events are not read", one.len())]);
    }
}

/// Goal: no number in a file makes a list as long as it says. Method: CPUs and lengths that no machine has, in the forms
/// that tell them in words; whole lines beside them are read.
#[test]
fn numbers_that_no_machine_has_are_damage() {
    let whole = "sh-7 [001] 164.5: sched_waking: comm=a pid=9 prio=120 target_cpu=001\n";
    for line in [
        "sh-7 [99999] 165.5: sched_waking: comm=a pid=9 prio=120 target_cpu=001\n",
        "sh-7  4000000000d..2. 166.5: sched_waking: comm=a pid=9 prio=120 target_cpu=001\n",
    ] {
        let text = format!("# tracer: nop\n#\n{whole}{line}{whole}");
        let options = ReadOptions::default();
        let trace =
            TraceFile::from_bytes(text.into_bytes(), &options).and_then(|file| file.read(&options)).expect("text");
        let cpus: Vec<u64> = trace.tables.iter().flat_map(|table| table.cpu.to_u64()).collect();
        assert_eq!(cpus, [1, 1], "{line}");
    }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// A packet of a Perfetto trace that holds `plain` compressed.
fn packet(plain: &[u8]) -> Vec<u8> {
    fn field(number: u32, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for mut value in [u64::from(number) << 3 | 2, content.len() as u64] {
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        }
        [&out[..], content].concat()
    }
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    field(1, &field(50, &encoder.finish().unwrap()))
}

/// Goal: some hundred bytes that would become gigabytes are refused after some megabytes, by depth or by ratio.
#[test]
fn a_gzip_of_a_gzip_is_refused_early() {
    let twice = gzip(&gzip(&vec![0; 64 << 20]));
    assert!(twice.len() < 10_000, "{}", twice.len());
    let error = TraceFile::from_bytes(twice.clone(), &ReadOptions::default()).err().expect("refused").to_string();
    assert!(error.contains("gzip: more than the 16777216 bytes allowed come out; raise the limit with"), "{error}");
    let thrice = gzip(&gzip(&gzip(b"x-1 [000] 1.0: cpu_idle: state=1 cpu_id=0\n")));
    let error = TraceFile::from_bytes(thrice.clone(), &ReadOptions::default()).err().expect("refused").to_string();
    assert!(error.contains("nested more than 2 deep; raise the limit with --max-unpacked"), "{error}");
    // Whoever raises the limit gets it.
    let raised = ReadOptions { unpack: UnpackLimits::up_to(1 << 20), ..ReadOptions::default() };
    assert_eq!(TraceFile::from_bytes(thrice, &raised).unwrap().read(&raised).unwrap().tables.len(), 1);
    let raised = ReadOptions { unpack: UnpackLimits::up_to(1 << 30), ..ReadOptions::default() };
    assert!(TraceFile::from_bytes(twice, &raised).is_ok());
}

#[test]
fn nested_compressed_packets_are_refused() {
    // Each layer holds the one before eight times.
    let mut bytes = packet(&[0; 1000]);
    for _ in 0..6 {
        bytes = packet(&bytes.repeat(8));
    }
    assert!(bytes.len() < 1000, "{}", bytes.len());
    let options = ReadOptions::default();
    let trace = TraceFile::from_bytes(bytes, &options).unwrap().read(&options).unwrap();
    let told: Vec<String> = trace.problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 8, "{told:?}");
    assert!(told[0].contains("zlib: compressed content is nested more than 1 deep; raise the limit"), "{}", told[0]);
}

/// Goal: what all packets of a file expand to has one limit, not each packet its own.
#[test]
fn packets_share_one_limit() {
    let one = packet(&packet(&[0; 0]).repeat(2_000_000));
    let options = ReadOptions::default();
    let trace = TraceFile::from_bytes(one.repeat(3), &options).unwrap().read(&options).unwrap();
    let told: Vec<String> = trace.problems.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|told| told.contains("bytes allowed come out")), "{told:?}");
}

#[test]
fn what_is_no_file_is_refused() {
    for (path, said) in [("/dev/zero", "is neither a file nor a pipe"), ("/dev/null", "is neither a file nor a pipe")] {
        let error = TraceFile::open(path.as_ref()).err().expect("refused").to_string();
        assert_eq!(error, format!("{path}: {said}"));
    }
    let folder = std::env::temp_dir().join(format!("opplab-fifo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let fifo = folder.join("trace.dat");
    if std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
        let error = TraceFile::open(&fifo).err().expect("refused").to_string();
        assert!(error.ends_with("is a named pipe: give its content as /dev/stdin"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_trace_is_said_so() {
    for (bytes, start) in [
        (&b""[..], "nothing: it is empty"),
        (b"\x7fELF\x02\x01", "\\x7fELF\\x02\\x01"),
        (b"hello world\n", "hello world\\n"),
    ] {
        let error = TraceFile::from_bytes(bytes.to_vec(), &ReadOptions::default())
            .unwrap()
            .read(&ReadOptions::default())
            .unwrap_err();
        assert!(error.to_string().ends_with(&format!("it begins with {start}")), "{error}");
    }
}

/// `OPPLAB_FUZZ_CASES=1000000` makes a long run of the same.
fn cases() -> u32 {
    std::env::var("OPPLAB_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_panic(
        seed in 0..SEEDS,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = seeds().swap_remove(seed);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        try_all(&bytes);
    }

    #[test]
    fn changed_words_never_panic(
        seed in 0..SEEDS,
        place in any::<prop::sample::Index>(),
        value in prop_oneof![Just(u64::MAX), Just(1 << 63), Just(0x7fff_ffff), Just(0xffff_ffff), Just(0), any::<u64>()],
        size in prop_oneof![Just(2usize), Just(4), Just(8)],
    ) {
        let mut bytes = seeds().swap_remove(seed);
        let place = place.index(bytes.len() - size);
        bytes[place..place + size].copy_from_slice(&value.to_le_bytes()[..size]);
        try_all(&bytes);
    }

    #[test]
    fn two_files_in_a_row_never_panic(a in 0..SEEDS, b in 0..SEEDS, cut in any::<prop::sample::Index>()) {
        let mut all = seeds();
        let second = all[b].clone();
        let mut bytes = all.swap_remove(a);
        bytes.truncate(cut.index(bytes.len() + 1));
        bytes.extend_from_slice(&second);
        try_all(&bytes);
    }
}

/// `OPPLAB_FUZZ_SEEDS=DIR cargo test -p opplab-trace --test all hostile::write_seeds` writes the seeds as a start for the fuzz targets.
#[test]
fn write_seeds() {
    let Ok(dir) = std::env::var("OPPLAB_FUZZ_SEEDS") else { return };
    std::fs::create_dir_all(&dir).unwrap();
    let dir = std::path::Path::new(&dir);
    for (number, seed) in seeds().into_iter().enumerate() {
        std::fs::write(dir.join(format!("seed{number}")), seed).unwrap();
    }
    std::fs::write(dir.join("plain_v6.dat"), build::file(Kind::PLAIN)).unwrap();
}

#[test]
fn the_fuzz_seed_is_the_built_file() {
    assert_eq!(include_bytes!("../fuzz/seeds/plain_v6.dat").to_vec(), build::file(Kind::PLAIN));
}
