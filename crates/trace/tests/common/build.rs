//! Builds small trace.dat files of every kind: version, byte order, size of a long, compression, buffers, odd records.

use std::io::Write;

/// What kind of file to build.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub version: u8,
    pub big_endian: bool,
    pub long_size: usize,
    /// `none`, `zstd` or `zlib` (version 7 only).
    pub codec: &'static str,
    /// Number of buffers beside the top-level one.
    pub instances: usize,
    /// Times are counts of a TSC with a conversion (mult 3, shift 1, offset 500) and shifts of 7 us and -3 ns on top.
    pub tsc: bool,
}

impl Kind {
    pub const PLAIN: Kind =
        Kind { version: 6, big_endian: false, long_size: 8, codec: "none", instances: 0, tsc: false };

    /// All kinds that make sense.
    pub fn all() -> Vec<Kind> {
        let mut kinds = Vec::new();
        for big_endian in [false, true] {
            for long_size in [4, 8] {
                for instances in [0, 2] {
                    kinds.push(Kind { version: 6, big_endian, long_size, codec: "none", instances, tsc: false });
                    for codec in ["none", "zstd", "zlib"] {
                        kinds.push(Kind { version: 7, big_endian, long_size, codec, instances, tsc: false });
                    }
                }
            }
        }
        kinds
    }
}

/// Options that change times: DATE in us, OFFSET in ns, TSC2NSEC.
fn time_options(kind: Kind) -> Vec<(u64, Vec<u8>)> {
    if !kind.tsc {
        return Vec::new();
    }
    let mut tsc = Out::new(kind);
    tsc.uint(3, 4).uint(1, 4).uint(500, 8);
    vec![(1, b"0x7\0".to_vec()), (7, b"-3\0".to_vec()), (14, tsc.bytes)]
}

/// Numbers in the byte order of the file.
#[derive(Clone)]
pub struct Out {
    pub bytes: Vec<u8>,
    pub big_endian: bool,
}

impl Out {
    pub fn new(kind: Kind) -> Self {
        Self { bytes: Vec::new(), big_endian: kind.big_endian }
    }

    pub fn uint(&mut self, value: u64, size: usize) -> &mut Self {
        if self.big_endian {
            self.bytes.extend_from_slice(&value.to_be_bytes()[8 - size..]);
        } else {
            self.bytes.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        self
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }
}

/// A record of a ring buffer.
#[derive(Clone, Debug)]
pub enum Record {
    /// Time since the record before, and the data.
    Data(u64, Vec<u8>),
    /// A length word even if the data are short.
    LongData(u64, Vec<u8>),
    /// A discarded record.
    Discarded(u64, usize),
    /// The whole time.
    Absolute(u64),
}

/// A page of records.
#[derive(Clone, Debug)]
pub struct Page {
    pub time: u64,
    /// Events lost before the page: `None` = none, `Some(None)` = unknown number.
    pub missed: Option<Option<u64>>,
    pub records: Vec<Record>,
}

pub const PAGE_SIZE: usize = 4096;

fn header(out: &mut Out, kind: u64, delta: u64) {
    let word = if out.big_endian { kind << 27 | delta } else { kind | delta << 5 };
    out.uint(word, 4);
}

/// Encodes a page.
pub fn page(kind: Kind, page: &Page) -> Vec<u8> {
    let mut records = Out::new(kind);
    let extend = |records: &mut Out, delta: u64| {
        if delta >> 27 != 0 {
            header(records, 30, delta & 0x7ff_ffff);
            records.uint(delta >> 27, 4);
            0
        } else {
            delta
        }
    };
    for record in &page.records {
        match record {
            Record::Data(delta, data) => {
                let delta = extend(&mut records, *delta);
                let words = data.len().div_ceil(4);
                if (1..=28).contains(&words) {
                    header(&mut records, words as u64, delta);
                } else {
                    header(&mut records, 0, delta);
                    records.uint(data.len() as u64 + 4, 4);
                }
                records.raw(data);
            }
            Record::LongData(delta, data) => {
                let delta = extend(&mut records, *delta);
                header(&mut records, 0, delta);
                records.uint(data.len() as u64 + 4, 4).raw(data);
            }
            Record::Discarded(delta, size) => {
                assert!(*delta > 0 && *delta >> 27 == 0);
                header(&mut records, 29, *delta);
                records.uint(*size as u64 + 4, 4).raw(&vec![0xaa; *size]);
            }
            Record::Absolute(time) => {
                header(&mut records, 31, time & 0x7ff_ffff);
                records.uint(time >> 27 & 0xffff_ffff, 4);
            }
        }
        while !records.bytes.len().is_multiple_of(4) {
            records.bytes.push(0);
        }
    }
    let mut out = Out::new(kind);
    let mut commit = records.bytes.len() as u64;
    match page.missed {
        None => {}
        Some(None) => commit |= 1 << 31,
        Some(Some(_)) => commit |= 3 << 30,
    }
    out.uint(page.time, 8).uint(commit, kind.long_size).raw(&records.bytes);
    if let Some(Some(count)) = page.missed {
        out.uint(count, kind.long_size);
    }
    assert!(out.bytes.len() <= PAGE_SIZE);
    out.bytes.resize(PAGE_SIZE, 0);
    out.bytes
}

pub fn header_page(kind: Kind) -> String {
    let (long, data) = (kind.long_size, 8 + kind.long_size);
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
        PAGE_SIZE - data
    )
}

const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// Event numbers of the formats below.
pub const WAKE: u64 = 301;
pub const NAMED: u64 = 302;
pub const LISTED: u64 = 303;

/// (group, format) of the file's events.
pub fn formats() -> Vec<(&'static str, String)> {
    let format = |name: &str, id: u64, fields: &str, print: &str| {
        format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}\nprint fmt: {print}\n")
    };
    vec![
        (
            "test",
            format(
                "wake",
                WAKE,
                "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\
                 \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                 \tfield:short small;\toffset:28;\tsize:2;\tsigned:1;\n\
                 \tfield:unsigned char tiny;\toffset:30;\tsize:1;\tsigned:0;\n\
                 \tfield:u64 big;\toffset:32;\tsize:8;\tsigned:0;\n\
                 \tfield:s64 neg;\toffset:40;\tsize:8;\tsigned:1;\n",
                "\"comm=%s pid=%d small=%d tiny=%u big=%llu neg=%lld\", REC->comm, REC->pid, REC->small, REC->tiny, REC->big, REC->neg",
            ),
        ),
        (
            "test",
            format(
                "named",
                NAMED,
                "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n\
                 \tfield:unsigned int n;\toffset:12;\tsize:4;\tsigned:0;\n",
                "\"name=%s n=%u\", __get_str(name), REC->n",
            ),
        ),
        (
            "other",
            format(
                "listed",
                LISTED,
                "\tfield:unsigned int n;\toffset:8;\tsize:4;\tsigned:0;\n\
                 \tfield:__rel_loc u32[] load;\toffset:12;\tsize:4;\tsigned:0;\n\
                 \tfield:u16 pair[2];\toffset:16;\tsize:4;\tsigned:0;\n",
                "\"n=%u\", REC->n",
            ),
        ),
    ]
}

fn common(kind: Kind, id: u64, pid: i32) -> Out {
    let mut out = Out::new(kind);
    out.uint(id, 2).raw(&[1, 2]).uint(pid as u32 as u64, 4);
    out
}

/// A `wake` record.
pub fn wake(kind: Kind, context: i32, comm: &str, pid: i32, number: i64) -> Vec<u8> {
    let mut name = [0u8; 16];
    name[..comm.len()].copy_from_slice(comm.as_bytes());
    let mut out = common(kind, WAKE, context);
    out.raw(&name).uint(pid as u32 as u64, 4).uint(number as u16 as u64, 2).uint(number as u8 as u64, 1).raw(&[0]);
    out.uint(number as u64, 8).uint(number.wrapping_neg() as u64, 8);
    out.bytes
}

/// A `named` record.
pub fn named(kind: Kind, context: i32, name: &str, n: u32) -> Vec<u8> {
    let mut out = common(kind, NAMED, context);
    out.uint((name.len() as u64 + 1) << 16 | 16, 4).uint(n.into(), 4).raw(name.as_bytes()).raw(&[0]);
    out.bytes
}

/// A `listed` record.
pub fn listed(kind: Kind, context: i32, n: u32, load: &[u32], pair: [u16; 2]) -> Vec<u8> {
    let mut out = common(kind, LISTED, context);
    // Relative to behind the field: the pair lies between.
    out.uint(n.into(), 4).uint((load.len() as u64 * 4) << 16 | 4, 4).uint(pair[0].into(), 2).uint(pair[1].into(), 2);
    for &value in load {
        out.uint(value.into(), 4);
    }
    out.bytes
}

/// The pages of each CPU of one buffer.
pub type Cpus = Vec<Vec<Page>>;

/// Three CPUs with every kind of record; `shift` moves the times of one buffer against the others.
pub fn sample_pages(kind: Kind, shift: u64) -> Cpus {
    let data = |delta, record| Record::Data(delta, record);
    let base = 1_000_000_000 + shift;
    vec![
        vec![
            Page {
                time: base,
                missed: None,
                records: vec![
                    data(0, wake(kind, 10, "alpha", 11, 1)),
                    data(100, named(kind, 10, "x", 7)),
                    Record::Discarded(5, 16),
                    data(200, wake(kind, 10, "sixteen-chars-x", -1, -3)),
                    data(1 << 30, listed(kind, 0, 3, &[1, 2, 4_000_000_000], [5, 65535])),
                    Record::LongData(1, named(kind, 10, "a longer name than before", 8)),
                ],
            },
            Page {
                time: base + 3_000_000_000,
                missed: Some(Some(42)),
                records: vec![
                    data(0, wake(kind, 10, "beta", 12, 77)),
                    Record::Absolute(base + 4_000_000_000),
                    data(3, named(kind, 10, &"long".repeat(60), 9)),
                ],
            },
        ],
        vec![],
        vec![Page {
            time: base + 100,
            missed: Some(None),
            records: vec![
                data(0, named(kind, 20, "same time as another", 1)),
                data(50, wake(kind, 20, "", 0, i64::MAX)),
                data(2_999_999_850, wake(kind, 20, "tie", 1, i64::MIN)),
            ],
        }],
    ]
}

fn sized(out: &mut Out, size: usize, text: &[u8]) {
    out.uint(text.len() as u64, size).raw(text);
}

fn header_info(kind: Kind) -> Vec<u8> {
    let mut out = Out::new(kind);
    out.raw(b"header_page\0");
    sized(&mut out, 8, header_page(kind).as_bytes());
    out.raw(b"header_event\0");
    sized(&mut out, 8, HEADER_EVENT.as_bytes());
    out.bytes
}

fn event_formats(kind: Kind) -> Vec<u8> {
    let mut out = Out::new(kind);
    let formats = formats();
    let mut systems: Vec<&str> = formats.iter().map(|(system, _)| *system).collect();
    systems.dedup();
    out.uint(systems.len() as u64, 4);
    for system in systems {
        let of_system: Vec<_> = formats.iter().filter(|(s, _)| *s == system).collect();
        out.raw(system.as_bytes()).raw(&[0]).uint(of_system.len() as u64, 4);
        for (_, text) in of_system {
            sized(&mut out, 8, text.as_bytes());
        }
    }
    out.bytes
}

const CMDLINES: &[u8] = b"10 alpha\n20 gamma ray\n";

/// A whole file with [`sample_pages`] in each buffer.
pub fn file(kind: Kind) -> Vec<u8> {
    let buffers: Vec<Cpus> = (0..=kind.instances as u64).map(|n| sample_pages(kind, n * 10)).collect();
    file_with(kind, &buffers)
}

pub fn file_with(kind: Kind, buffers: &[Cpus]) -> Vec<u8> {
    let mut out = Out::new(kind);
    out.raw(b"\x17\x08\x44tracing").raw(&[b'0' + kind.version, 0]);
    out.raw(&[u8::from(kind.big_endian), kind.long_size as u8]).uint(PAGE_SIZE as u64, 4);
    if kind.version == 6 { version_6(kind, buffers, out) } else { version_7(kind, buffers, out) }
}

/// The formats as perf.data carries them: a trace.dat of version 6 up to its command lines.
pub fn tracing_data(kind: Kind) -> Vec<u8> {
    let mut out = Out::new(kind);
    out.raw(b"\x17\x08\x44tracing0.6\0").raw(&[u8::from(kind.big_endian), kind.long_size as u8]);
    out.uint(PAGE_SIZE as u64, 4).raw(&header_info(kind)).uint(0, 4).raw(&event_formats(kind));
    out.uint(0, 4).uint(0, 4);
    sized(&mut out, 8, CMDLINES);
    out.bytes
}

fn instance_name(number: usize) -> String {
    format!("inst{number}")
}

fn pages_of(kind: Kind, cpu: &[Page]) -> Vec<u8> {
    cpu.iter().flat_map(|p| page(kind, p)).collect()
}

fn version_6(kind: Kind, buffers: &[Cpus], mut out: Out) -> Vec<u8> {
    out.raw(&header_info(kind)).uint(0, 4).raw(&event_formats(kind));
    // No kallsyms, no printk formats.
    out.uint(0, 4).uint(0, 4);
    sized(&mut out, 8, CMDLINES);
    out.uint(buffers[0].len() as u64, 4);
    out.raw(b"options  \0");
    let mut patches = Vec::new();
    for number in 1..buffers.len() {
        let name = instance_name(number);
        out.uint(3, 2).uint(8 + name.len() as u64 + 1, 4);
        patches.push(out.bytes.len());
        out.uint(0, 8).raw(name.as_bytes()).raw(&[0]);
    }
    for (id, data) in time_options(kind) {
        out.uint(id, 2).uint(data.len() as u64, 4).raw(&data);
    }
    out.uint(0, 2);
    for (number, cpus) in buffers.iter().enumerate() {
        if number > 0 {
            let here = out.bytes.len() as u64;
            let mut place = Out::new(kind);
            place.uint(here, 8);
            out.bytes[patches[number - 1]..][..8].copy_from_slice(&place.bytes);
        }
        out.raw(b"flyrecord\0");
        let data: Vec<Vec<u8>> = cpus.iter().map(|cpu| pages_of(kind, cpu)).collect();
        let mut offset = (out.bytes.len() + 16 * data.len()).next_multiple_of(PAGE_SIZE);
        let start = offset;
        for cpu in &data {
            out.uint(offset as u64, 8).uint(cpu.len() as u64, 8);
            offset += cpu.len();
        }
        out.bytes.resize(start, 0);
        data.iter().for_each(|cpu| out.bytes.extend_from_slice(cpu));
    }
    out.bytes
}

fn compress(codec: &str, data: &[u8]) -> Vec<u8> {
    match codec {
        "zstd" => zstd::bulk::compress(data, 1).unwrap(),
        _ => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn version_7(kind: Kind, buffers: &[Cpus], mut out: Out) -> Vec<u8> {
    out.raw(kind.codec.as_bytes()).raw(&[0]).raw(b"1\0");
    let first_options = out.bytes.len();
    out.uint(0, 8);
    let packed = kind.codec != "none";
    let section = |out: &mut Out, id: u64, body: &[u8], pack: bool| {
        let place = out.bytes.len() as u64;
        out.uint(id, 2).uint(u64::from(pack), 2).uint(0, 4);
        if pack {
            let small = compress(kind.codec, body);
            out.uint(small.len() as u64 + 8, 8).uint(small.len() as u64, 4).uint(body.len() as u64, 4).raw(&small);
        } else {
            out.uint(body.len() as u64, 8).raw(body);
        }
        place
    };
    let mut options = Out::new(kind);
    let option = |options: &mut Out, id: u64, data: &[u8]| {
        options.uint(id, 2).uint(data.len() as u64, 4).raw(data);
    };
    let place_of = |place: u64| {
        let mut data = Out::new(kind);
        data.uint(place, 8);
        data.bytes
    };
    let place = section(&mut out, 16, &header_info(kind), packed);
    option(&mut options, 16, &place_of(place));
    let mut none = Out::new(kind);
    none.uint(0, 4);
    let place = section(&mut out, 17, &none.bytes, packed);
    option(&mut options, 17, &place_of(place));
    let place = section(&mut out, 18, &event_formats(kind), packed);
    option(&mut options, 18, &place_of(place));
    let mut cmdlines = Out::new(kind);
    sized(&mut cmdlines, 8, CMDLINES);
    let place = section(&mut out, 21, &cmdlines.bytes, packed);
    option(&mut options, 21, &place_of(place));
    let mut cpus_option = Out::new(kind);
    cpus_option.uint(buffers[0].len() as u64, 4);
    option(&mut options, 8, &cpus_option.bytes);
    for (id, data) in time_options(kind) {
        option(&mut options, id, &data);
    }
    // A second section of options, to which the first one points, holds the buffers.
    let mut second = Out::new(kind);
    for (number, cpus) in buffers.iter().enumerate() {
        let place = out.bytes.len();
        out.uint(3, 2).uint(u64::from(packed), 2).uint(0, 4);
        let size_at = out.bytes.len();
        out.uint(0, 8);
        let start = out.bytes.len().next_multiple_of(PAGE_SIZE);
        out.bytes.resize(start, 0);
        let mut buffer = Out::new(kind);
        let name = if number == 0 { String::new() } else { instance_name(number) };
        buffer
            .uint(place as u64, 8)
            .raw(name.as_bytes())
            .raw(if kind.tsc { b"\0tsc2nsec\0" } else { b"\0local\0" })
            .uint(PAGE_SIZE as u64, 4);
        let with_data: Vec<_> = cpus.iter().enumerate().filter(|(_, pages)| !pages.is_empty()).collect();
        buffer.uint(with_data.len() as u64, 4);
        for (cpu, pages) in with_data {
            let offset = out.bytes.len();
            if packed {
                // A chunk for each page.
                out.uint(pages.len() as u64, 4);
                for p in pages {
                    let whole = page(kind, p);
                    let small = compress(kind.codec, &whole);
                    out.uint(small.len() as u64, 4).uint(whole.len() as u64, 4).raw(&small);
                }
            } else {
                out.raw(&pages_of(kind, pages));
            }
            buffer.uint(cpu as u64, 4).uint(offset as u64, 8).uint((out.bytes.len() - offset) as u64, 8);
        }
        let mut size = Out::new(kind);
        size.uint((out.bytes.len() - size_at - 8) as u64, 8);
        out.bytes[size_at..size_at + 8].copy_from_slice(&size.bytes);
        option(&mut second, 3, &buffer.bytes);
    }
    option(&mut second, 0, &place_of(0));
    let second_place = section(&mut out, 0, &second.bytes, packed);
    option(&mut options, 0, &place_of(second_place));
    let place = section(&mut out, 0, &options.bytes, packed);
    let bytes = place_of(place);
    out.bytes[first_options..first_options + 8].copy_from_slice(&bytes);
    out.bytes
}
