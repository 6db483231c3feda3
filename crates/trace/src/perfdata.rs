//! `perf.data`: what `perf record` and `perf sched record` write, into a file or a pipe, compressed or not.
//!
//! Tracepoints keep their record of the ring buffer (`PERF_SAMPLE_RAW`), and the file carries the kernel's format files laid
//! out as the start of a trace.dat. Other events (`cpu-clock`, `cycles`) become events with `ip`, `addr` and `period`.
//! Call chains, maps, branches and hardware traces are stepped over.
//!
//! Samples lie in the order in which perf emptied the CPUs' buffers. A round over all of them ends with a mark, and what is
//! older than the newest sample of the round before cannot be overtaken any more (tools/perf/util/ordered-events.c).
//!
//! The layout is that of tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h. Crates for it
//! take sizes in the file at their word, end at the first damage and do not step over the formats in a pipe's file.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use crate::bprint::PrintkFormats;
use crate::bytes::{Cursor, own_name, read_uint, u32_at, u64_at, until_nul};
use crate::clock::{Clock, TIME_MAX_NS, too_late};
use crate::error::{Error, Result};
use crate::event::{Body, Event, Kind, Loc, Sink, Value};
use crate::input::{Budget, Data};
use crate::reader::{About, MAX_CPUS, Meta, Outcome, ReadOptions, Reader};
use crate::ring::{MAX_PROBLEMS, Missed};
use crate::tracedat::{EventTable, Formats, computed_text};

/// True if `data` begin as a perf.data of either byte order.
pub(crate) fn sniff(data: &[u8]) -> bool {
    data.starts_with(b"PERFILE2") || data.starts_with(b"2ELIFREP")
}

/// Kinds of records (`enum perf_event_type`, `enum perf_user_event_type`).
mod record {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const HEADER_ATTR: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const ID_INDEX: u32 = 69;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const EVENT_UPDATE: u32 = 78;
    pub(super) const HEADER_FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// Parts of a sample (`enum perf_event_sample_format`).
mod part {
    pub(super) const IP: u64 = 1;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// Features of the header (`enum` in tools/perf/util/header.h).
mod feature {
    pub(super) const TRACING_DATA: u64 = 1;
    pub(super) const HOSTNAME: u64 = 3;
    pub(super) const OSRELEASE: u64 = 4;
    pub(super) const VERSION: u64 = 5;
    pub(super) const ARCH: u64 = 6;
    pub(super) const NRCPUS: u64 = 7;
    pub(super) const EVENT_DESC: u64 = 12;
}

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;

/// Fields of events that are not tracepoints.
const SAMPLED: [(&str, Kind); 3] = [
    ("ip", Kind::Int { signed: false, hex: true }),
    ("addr", Kind::Int { signed: false, hex: true }),
    ("period", Kind::Int { signed: false, hex: false }),
];

/// Samples that wait for the end of their round, and bytes of decompressed records that they lie in; beyond this the older half is
/// delivered, because a file without marks would be kept whole.
const MAX_WAITING: usize = 1 << 22;
const MAX_BLOCK_BYTES: usize = 1 << 27;

/// What one compressed record may hold: perf compresses at most a buffer at a time.
const MAX_UNPACKED_RECORD: usize = 1 << 24;

/// One event that was asked for (`struct perf_event_attr`).
#[derive(Clone, Debug)]
struct Attr {
    kind: u32,
    config: u64,
    sample_type: u64,
    read_format: u64,
    /// Records of other kinds end with who, when and where.
    id_all: bool,
    clock: Option<u32>,
    name: String,
    ids: Vec<u64>,
    /// Of an event that is no tracepoint.
    schema: Option<usize>,
}

impl Attr {
    /// Reads an attribute; `bytes` may be longer or shorter than this version of it.
    fn read(bytes: &[u8], big_endian: bool) -> Option<Self> {
        let kind = u32_at(bytes, 0, big_endian)?;
        let flags = u64_at(bytes, 40, big_endian)?;
        let mut attr = Self {
            kind,
            config: u64_at(bytes, 8, big_endian)?,
            sample_type: u64_at(bytes, 24, big_endian)?,
            read_format: u64_at(bytes, 32, big_endian)?,
            // A bit field: the first bit is the lowest on little-endian machines, the highest on others.
            id_all: flags & if big_endian { 1 << (63 - 18) } else { 1 << 18 } != 0,
            clock: None,
            name: String::new(),
            ids: Vec::new(),
            schema: None,
        };
        if flags & if big_endian { 1 << (63 - 25) } else { 1 << 25 } != 0 {
            attr.clock = u32_at(bytes, 92, big_endian);
        }
        attr.name = default_name(kind, attr.config);
        Some(attr)
    }
}

/// What perf calls an event whose name the file lacks.
fn default_name(kind: u32, config: u64) -> String {
    let hardware = ["cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses"];
    let software = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
    ];
    let names: &[&str] = match kind {
        0 => &hardware,
        1 => &software,
        _ => &[],
    };
    let known = usize::try_from(config).ok().and_then(|at| names.get(at));
    known.map_or_else(|| format!("event_{kind}_{config:x}"), |name| (*name).to_owned())
}

/// What of a sample is used.
#[derive(Clone, Copy, Debug, Default)]
struct Sample<'a> {
    time_ns: u64,
    cpu: u32,
    tid: i32,
    ip: Option<u64>,
    addr: Option<u64>,
    period: Option<u64>,
    raw: Option<&'a [u8]>,
}

/// Numbers one after the other.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl<'a> Words<'a> {
    #[inline]
    fn u64(&mut self) -> Option<u64> {
        let value = u64_at(self.bytes, self.at, self.big_endian)?;
        self.at += 8;
        Some(value)
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        let value = u32_at(self.bytes, self.at, self.big_endian)?;
        self.at += 4;
        Some(value)
    }

    fn skip(&mut self, words: u64) -> Option<()> {
        let bytes = usize::try_from(words).ok()?.checked_mul(8)?;
        self.at = self.at.checked_add(bytes).filter(|&at| at <= self.bytes.len())?;
        Some(())
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    /// Steps over the values of a counter or of a group of them.
    fn skip_read(&mut self, format: u64) -> Option<()> {
        const GROUP: u64 = 8;
        let times = (format & 1) + (format >> 1 & 1);
        let each = 1 + (format >> 2 & 1) + (format >> 4 & 1);
        if format & GROUP == 0 {
            return self.skip(each + times);
        }
        let count = self.u64()?;
        self.skip(times.checked_add(count.checked_mul(each)?)?)
    }
}

/// Reads a sample up to its raw record; `None` if it is shorter than its event.
#[inline]
fn sample<'s>(attr: &Attr, body: &'s [u8], big_endian: bool) -> Option<Sample<'s>> {
    let mut words = Words { bytes: body, at: 0, big_endian };
    let has = |part: u64| attr.sample_type & part != 0;
    let mut sample = Sample::default();
    if has(part::IDENTIFIER) {
        words.u64()?;
    }
    if has(part::IP) {
        sample.ip = Some(words.u64()?);
    }
    if has(part::TID) {
        words.u32()?;
        sample.tid = words.u32()? as i32;
    }
    if has(part::TIME) {
        sample.time_ns = words.u64()?;
    }
    if has(part::ADDR) {
        sample.addr = Some(words.u64()?);
    }
    if has(part::ID) {
        words.u64()?;
    }
    if has(part::STREAM_ID) {
        words.u64()?;
    }
    if has(part::CPU) {
        sample.cpu = words.u32()?;
        words.u32()?;
    }
    if has(part::PERIOD) {
        sample.period = Some(words.u64()?);
    }
    if has(part::READ) {
        words.skip_read(attr.read_format)?;
    }
    if has(part::CALLCHAIN) {
        let count = words.u64()?;
        words.skip(count)?;
    }
    if has(part::RAW) {
        let len = words.u32()? as usize;
        sample.raw = Some(words.take(len)?);
    }
    Some(sample)
}

/// One record, with where it lies.
#[derive(Clone, Copy)]
struct Record<'a> {
    kind: u32,
    body: &'a [u8],
    /// What follows a record without being counted in its length.
    behind: &'a [u8],
    offset: usize,
}

/// Takes the record at `at`; gives it and where the next one is. `None` if it does not lie in `data` whole.
#[inline]
fn record_at(data: &[u8], at: usize, big_endian: bool) -> Option<(Record<'_>, usize)> {
    let kind = u32_at(data, at, big_endian)?;
    let size = read_uint(data.get(at + 6..at + 8)?, big_endian) as usize;
    let body = data.get(at + 8..at.checked_add(size)?)?;
    let behind = match kind {
        record::TRACING_DATA => u64::from(u32_at(body, 0, big_endian)?),
        record::AUXTRACE => u64_at(body, 0, big_endian)?,
        _ => 0,
    };
    let end = at + size;
    let next = end.checked_add(usize::try_from(behind).ok()?)?;
    let behind = data.get(end..next)?;
    Some((Record { kind, body, behind, offset: at }, next))
}

/// A sample that waits for the end of its round.
#[derive(Clone, Copy)]
struct Waiting {
    time_ns: u64,
    /// Place in the order of the file, for samples of one time.
    nth: u64,
    /// Number of the block that it lies in; 0 is the file.
    block: u32,
    attr: u32,
    at: usize,
    len: usize,
}

/// A perf.data that is open for reading.
pub(crate) struct PerfData<'a> {
    data: &'a [u8],
    file: Option<&'a Data>,
    big_endian: bool,
    /// Where the records are.
    start: usize,
    end: usize,
    attrs: Vec<Attr>,
    by_id: HashMap<u64, usize>,
    events: EventTable,
    printk: PrintkFormats,
    long_size: u8,
    /// Byte order of the raw records.
    records_big_endian: bool,
    tasks: BTreeMap<i32, Vec<u8>>,
    processes: BTreeMap<i32, i32>,
    meta: Meta,
    problems: Vec<Error>,
    budget: Budget,
    common_fields: bool,
}

impl<'a> PerfData<'a> {
    /// Reads the header. Fails only if that does not make sense.
    pub(crate) fn open(data: &'a [u8], file: Option<&'a Data>, budget: Budget, options: &ReadOptions) -> Result<Self> {
        let big_endian = data.starts_with(b"2ELIFREP");
        let mut this = Self {
            data,
            file,
            big_endian,
            start: 0,
            end: data.len(),
            attrs: Vec::new(),
            by_id: HashMap::new(),
            events: EventTable::new(),
            printk: PrintkFormats::new(),
            long_size: 8,
            records_big_endian: big_endian,
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            meta: Meta {
                format: "perf.data",
                version: 2,
                big_endian,
                clock: "perf".into(),
                buffers: vec![String::new()],
                ..Meta::default()
            },
            problems: Vec::new(),
            budget,
            common_fields: options.common_fields,
        };
        let mut c = Cursor::at(data, 8, big_endian, "the header")?;
        match c.u64("the size of the header")? {
            // A pipe's file: the header comes as records.
            16 => this.start = 16,
            104 => this.read_header(&mut c)?,
            size => {
                return Err(Error::Unsupported { what: format!("perf.data with a header of {size} bytes") });
            }
        }
        this.read_start();
        if this.attrs.is_empty() {
            return Err(Error::Invalid { offset: 0, what: "a perf.data without the format of any event".into() });
        }
        for attr in &this.attrs {
            if let Some(clock) = attr.clock {
                let clocks = ["realtime", "mono", "process", "thread", "mono_raw", "realtime", "mono", "boot"];
                this.meta.clock = (*clocks.get(clock as usize).unwrap_or(&"unknown")).to_owned();
            }
        }
        this.make_schemas();
        this.meta.long_size = this.long_size;
        Ok(this)
    }

    fn problem(&mut self, error: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(error);
        }
    }

    /// The header of a file: where attributes, records and features are.
    fn read_header(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let attr_size = c.u64("the size of an attribute")?;
        let mut section = |what: &str| Ok::<_, Error>((c.u64(what)?, c.u64(what)?));
        let (attrs, records, _types) = (section("the attributes")?, section("the records")?, section("the types")?);
        let flags = c.take(32, "the features")?;
        if !(64..=4096).contains(&attr_size) {
            return Err(Error::Invalid { offset: 16, what: format!("attributes of {attr_size} bytes") });
        }
        let whole = self.data.len() as u64;
        self.start = records.0.min(whole) as usize;
        self.end = records.0.saturating_add(records.1).min(whole) as usize;
        if records.1 == 0 {
            // perf was killed before it could write the sizes: the records go on to the end.
            self.end = self.data.len();
            let what = "perf did not finish this file; its records are read as far as they go".into();
            self.problem(Error::Invalid { offset: 48, what });
        } else if records.0.saturating_add(records.1) > whole {
            let (needed, have) = (records.1, whole.saturating_sub(records.0));
            self.problem(Error::Truncated { offset: records.0, what: "the records".into(), needed, have });
        }
        self.read_attrs(attrs, attr_size);
        // The bitmap is made of 64-bit words.
        for number in 0..256u64 {
            let word = u64_at(flags, (number / 64 * 8) as usize, self.big_endian).unwrap_or(0);
            if records.1 == 0 || word >> (number % 64) & 1 == 0 {
                continue;
            }
            let nth = (0..number)
                .filter(|n| u64_at(flags, (n / 64 * 8) as usize, self.big_endian).unwrap_or(0) >> (n % 64) & 1 != 0);
            let place = (records.0.saturating_add(records.1)).saturating_add(16 * nth.count() as u64);
            let found = Cursor::at(self.data, place, self.big_endian, "a feature").and_then(|mut c| {
                let (offset, size) = (c.u64("where a feature is")?, c.u64("the size of a feature")?);
                let mut c = Cursor::at(self.data, offset, self.big_endian, "a feature")?;
                Ok((offset, c.take(size, "a feature")?))
            });
            match found {
                Ok((offset, content)) => self.read_feature(number, content, offset),
                Err(error) => self.problem(error),
            }
        }
        Ok(())
    }

    /// Attributes in a table, each followed by where the ids of its counters are.
    fn read_attrs(&mut self, (offset, size): (u64, u64), attr_size: u64) {
        let result = Cursor::at(self.data, offset, self.big_endian, "the attributes").and_then(|mut c| {
            for _ in 0..size / attr_size {
                let bytes = c.take(attr_size, "an attribute")?;
                let ids_at = attr_size as usize - 16;
                let Some(mut attr) = Attr::read(&bytes[..ids_at], self.big_endian) else { continue };
                let at = |place| u64_at(bytes, place, self.big_endian).unwrap_or(0);
                let mut ids = Cursor::at(self.data, at(ids_at), self.big_endian, "the ids of an event")?;
                let ids = ids.take(at(ids_at + 8), "the ids of an event")?;
                attr.ids = ids.chunks_exact(8).map(|raw| read_uint(raw, self.big_endian)).collect();
                self.add_attr(attr);
            }
            Ok(())
        });
        if let Err(error) = result {
            self.problem(error);
        }
    }

    fn add_attr(&mut self, attr: Attr) {
        // More events than anybody counts at once are damage.
        if self.attrs.len() < 1 << 16 {
            let place = self.attrs.len();
            attr.ids.iter().for_each(|&id| {
                self.by_id.insert(id, place);
            });
            self.attrs.push(attr);
        }
    }

    fn read_feature(&mut self, number: u64, content: &[u8], offset: u64) {
        // Length, then so many bytes, filled up with zeros.
        let text = || {
            let len = u32_at(content, 0, self.big_endian).unwrap_or(0) as usize;
            let bytes = content.get(4..).map_or(&[][..], |rest| &rest[..len.min(rest.len())]);
            String::from_utf8_lossy(until_nul(bytes)).into_owned()
        };
        match number {
            feature::TRACING_DATA => self.read_formats(content, offset),
            feature::HOSTNAME => self.meta.uname = format!("Linux {}", text()),
            feature::OSRELEASE => self.meta.uname = format!("{} {}", self.meta.uname, text()).trim().to_owned(),
            feature::ARCH => self.meta.uname = format!("{} {}", self.meta.uname, text()).trim().to_owned(),
            feature::VERSION => self.meta.writer = format!("perf {}", text()),
            feature::NRCPUS => {
                let number = |at| u32_at(content, at, self.big_endian).unwrap_or(0);
                let cpus = number(0).max(number(4));
                if cpus <= MAX_CPUS {
                    self.meta.cpus = cpus;
                } else {
                    self.problem(Error::Invalid { offset, what: format!("{cpus} CPUs") });
                }
            }
            feature::EVENT_DESC => {
                if let Err(error) = self.read_names(content, offset) {
                    self.problem(error);
                }
            }
            _ => {}
        }
    }

    fn read_formats(&mut self, content: &[u8], offset: u64) {
        match Formats::read(content, offset, self.budget, self.common_fields) {
            Ok(formats) => {
                self.events = formats.events;
                self.printk = formats.printk;
                self.long_size = formats.long_size;
                self.records_big_endian = formats.big_endian;
                for (pid, name) in formats.tasks {
                    self.tasks.entry(pid).or_insert(name);
                }
                formats.problems.into_iter().for_each(|error| self.problem(error));
            }
            Err(error) => self.problem(error),
        }
    }

    /// Names of the events by the ids of their counters.
    fn read_names(&mut self, content: &[u8], offset: u64) -> Result<()> {
        let mut c = Cursor::new(content, offset, self.big_endian);
        let count = c.u32("the number of events")?;
        let attr_size = c.u32("the size of an attribute")?;
        for nth in 0..count as usize {
            c.take(u64::from(attr_size), "an attribute")?;
            let ids = c.u32("the number of an event's ids")?;
            let len = c.u32("the length of an event's name")?;
            let name = String::from_utf8_lossy(until_nul(c.take(u64::from(len), "an event's name")?)).into_owned();
            let ids = c.take(u64::from(ids) * 8, "an event's ids")?;
            let first = u64_at(ids, 0, self.big_endian);
            let place = first.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(nth);
            if let Some(attr) = self.attrs.get_mut(place)
                && !name.is_empty()
            {
                attr.name = name;
            }
        }
        Ok(())
    }

    /// What stands in front of the first sample: names of tasks, and in a pipe's file attributes, features and formats.
    fn read_start(&mut self) {
        let mut at = self.start;
        let data = &self.data[..self.end];
        while let Some((found, next)) = record_at(data, at, self.big_endian) {
            let body = found.body;
            match found.kind {
                record::HEADER_ATTR => {
                    let size = u32_at(body, 4, self.big_endian).unwrap_or(0) as usize;
                    let size = size.clamp(64.min(body.len()), body.len());
                    if let Some(mut attr) = Attr::read(&body[..size], self.big_endian) {
                        attr.ids = body[size..].chunks_exact(8).map(|raw| read_uint(raw, self.big_endian)).collect();
                        self.add_attr(attr);
                    }
                }
                record::EVENT_UPDATE => {
                    // Type 2: a name, for the event whose counter has this id.
                    let id = u64_at(body, 8, self.big_endian).and_then(|id| self.by_id.get(&id).copied());
                    if let Some(attr) = id.and_then(|place| self.attrs.get_mut(place))
                        && u64_at(body, 0, self.big_endian) == Some(2)
                        && let Some(name) = body.get(16..)
                    {
                        attr.name = String::from_utf8_lossy(until_nul(name)).into_owned();
                    }
                }
                record::HEADER_FEATURE if body.len() >= 8 => {
                    let number = u64_at(body, 0, self.big_endian).unwrap_or(0);
                    self.read_feature(number, &body[8..], (found.offset + 16) as u64);
                }
                record::TRACING_DATA => self.read_formats(found.behind, (next - found.behind.len()) as u64),
                record::COMM => self.read_comm(body),
                record::SAMPLE | record::COMPRESSED | record::COMPRESSED2 => break,
                _ => {}
            }
            if next <= at {
                break;
            }
            at = next;
        }
    }

    /// A task's name: process, thread, name.
    fn read_comm(&mut self, body: &[u8]) {
        if let (Some(tid), Some(name)) = (u32_at(body, 4, self.big_endian), body.get(8..)) {
            self.tasks.insert(tid as i32, own_name(until_nul(name)).to_vec());
            self.processes.insert(tid as i32, u32_at(body, 0, self.big_endian).unwrap_or(tid) as i32);
        }
    }

    fn make_schemas(&mut self) {
        for attr in &mut self.attrs {
            let name = attr.name.trim_end_matches(|c: char| c.is_control());
            let known = attr.kind == TRACEPOINT && attr.sample_type & part::RAW != 0;
            // perf's own marker event has no samples.
            if !known && name != "dummy:HG" {
                attr.schema = Some(self.events.plain(name, &SAMPLED));
            }
        }
    }

    /// The attribute of a sample.
    #[inline]
    fn attr_of(&self, body: &[u8]) -> usize {
        let [first, ..] = &self.attrs[..] else { return 0 };
        if self.attrs.len() == 1 {
            return 0;
        }
        let has = |part: u64| usize::from(first.sample_type & part != 0);
        let at = match first.sample_type {
            parts if parts & part::IDENTIFIER != 0 => 0,
            parts if parts & part::ID != 0 => 8 * (has(part::IP) + has(part::TID) + has(part::TIME) + has(part::ADDR)),
            _ => return 0,
        };
        u64_at(body, at, self.big_endian).and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
    }

    /// What stands at the end of a record that is no sample: time, CPU and id of its event.
    fn trailer(&self, body: &[u8]) -> (u64, u32, u64) {
        let Some(attr) = self.attrs.first().filter(|attr| attr.id_all) else { return (0, 0, 0) };
        let parts = [part::TID, part::TIME, part::ID, part::STREAM_ID, part::CPU, part::IDENTIFIER];
        let there: Vec<u64> = parts.into_iter().filter(|part| attr.sample_type & part != 0).collect();
        let Some(start) = body.len().checked_sub(8 * there.len()) else { return (0, 0, 0) };
        let at = |wanted: u64| there.iter().position(|&part| part == wanted).map(|nth| start + 8 * nth);
        let time = at(part::TIME).and_then(|at| u64_at(body, at, self.big_endian)).unwrap_or(0);
        let cpu = at(part::CPU).and_then(|at| u32_at(body, at, self.big_endian)).unwrap_or(0);
        let id = at(part::IDENTIFIER).or_else(|| at(part::ID)).and_then(|at| u64_at(body, at, self.big_endian));
        (time, cpu, id.unwrap_or(0))
    }
}

/// The samples of the rounds that are not over, and where they lie.
struct Rounds {
    clock: Clock,
    waiting: Vec<Waiting>,
    /// Decompressed records; the first has number `first`.
    blocks: VecDeque<Rc<Vec<u8>>>,
    first: u32,
    block_bytes: usize,
    nth: u64,
    /// Newest time of this round and of all before.
    newest_ns: u64,
    before_ns: u64,
    delivered_ns: u64,
    /// Samples that came after newer ones had been delivered.
    late: u64,
    /// Samples that are shorter than they should be.
    damaged: u64,
    unpacker: Option<crate::codec::ZstdParts>,
    /// The start of a record whose rest comes with the next compressed one.
    rest: Vec<u8>,
}

/// One pass over the records.
struct Pass<'p, 'a> {
    perf: &'p mut PerfData<'a>,
    options: &'p ReadOptions,
    sink: &'p mut dyn Sink,
    /// Which attributes are asked for.
    wanted: Vec<bool>,
    rounds: Rounds,
    outcome: Outcome,
    text: Vec<u8>,
    /// CPU of each event's id.
    cpu_of_id: HashMap<u64, u32>,
    /// Whether events count on single tasks, and not on whole CPUs.
    of_tasks: bool,
    /// Events that `perf record` found at its end to be lost, by CPU if that is known. Those of LOST records are among them
    /// (tools/perf/builtin-record.c:record__read_lost_samples(), v6.1).
    lost_in_all: BTreeMap<Option<u32>, u64>,
}

impl Pass<'_, '_> {
    fn problem(&mut self, error: Error) {
        if self.outcome.problems.len() < MAX_PROBLEMS {
            self.outcome.problems.push(error);
        }
    }

    /// Takes ids, indices, CPUs and threads of events (`struct perf_record_id_index`).
    fn read_id_index(&mut self, body: &[u8]) {
        for entry in body.get(8..).unwrap_or_default().chunks_exact(32) {
            let word = |at| u64_at(entry, at, self.perf.big_endian);
            self.of_tasks |= word(24).is_some_and(|tid| tid != u64::MAX);
            if let (Some(id), Some(Ok(cpu))) = (word(0), word(16).map(u32::try_from)) {
                self.cpu_of_id.insert(id, cpu);
            }
        }
    }

    /// What is lost beyond LOST records was lost behind the last of them.
    fn lose_at_end(&mut self) {
        let time_ns = self.rounds.newest_ns;
        for (&place, &all) in &self.lost_in_all {
            let known = self.outcome.missed.iter().filter(|gap| place.is_none_or(|cpu| cpu == gap.cpu));
            let known: u64 = known.filter_map(|gap| gap.count).sum();
            if let Some(count @ 1..) = all.checked_sub(known) {
                self.outcome.missed.push(Missed { cpu: place.unwrap_or(0), time_ns, count: Some(count) });
            }
        }
    }

    /// Takes one record of `block` (0: the file).
    #[inline]
    fn take(&mut self, found: &Record<'_>, block: u32) {
        match found.kind {
            record::SAMPLE => self.wait(found, block),
            record::FINISHED_ROUND => {
                let until = std::mem::replace(&mut self.rounds.before_ns, self.rounds.newest_ns);
                self.deliver(until);
            }
            record::COMPRESSED if block == 0 => self.unpack(found.body, found.offset),
            record::COMPRESSED2 if block == 0 => {
                let len = u64_at(found.body, 0, self.perf.big_endian).unwrap_or(0);
                let content = found.body.get(8..).unwrap_or_default();
                self.unpack(&content[..content.len().min(len as usize)], found.offset);
            }
            record::COMM => self.perf.read_comm(found.body),
            record::ID_INDEX => self.read_id_index(found.body),
            record::LOST | record::LOST_SAMPLES => {
                let place = if found.kind == record::LOST { 8 } else { 0 };
                let count = u64_at(found.body, place, self.perf.big_endian);
                let (time_ns, cpu, id) = self.perf.trailer(found.body);
                if found.kind == record::LOST_SAMPLES && time_ns == 0 {
                    let place = self.cpu_of_id.get(&id).copied();
                    *self.lost_in_all.entry(place).or_default() += count.unwrap_or(0);
                } else if self.outcome.missed.len() < 1 << 20 {
                    self.outcome.missed.push(Missed { cpu, time_ns, count });
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn wait(&mut self, found: &Record<'_>, block: u32) {
        let attr = self.perf.attr_of(found.body);
        if !self.wanted[attr] {
            return;
        }
        let Some(sample) = sample(&self.perf.attrs[attr], found.body, self.perf.big_endian) else {
            self.rounds.damaged += 1;
            return;
        };
        if sample.time_ns > TIME_MAX_NS || sample.cpu >= MAX_CPUS {
            let what = match sample.cpu {
                cpu if cpu < MAX_CPUS => too_late(sample.time_ns),
                cpu => format!("a sample of CPU {cpu}, which no machine has; it is left out"),
            };
            return self.problem(Error::Invalid { offset: found.offset as u64, what });
        }
        let rounds = &mut self.rounds;
        rounds.nth += 1;
        rounds.newest_ns = rounds.newest_ns.max(sample.time_ns);
        rounds.waiting.push(Waiting {
            time_ns: sample.time_ns,
            nth: rounds.nth,
            block,
            attr: attr as u32,
            at: found.offset + 8,
            len: found.body.len(),
        });
        if rounds.waiting.len() >= MAX_WAITING {
            self.deliver_half();
        }
    }

    /// Delivers the older half of what waits.
    #[cold]
    fn deliver_half(&mut self) {
        let waiting = &mut self.rounds.waiting;
        if let Some(middle) = (waiting.len() / 2).checked_sub(1) {
            let (_, middle, _) = waiting.select_nth_unstable_by_key(middle, |one| (one.time_ns, one.nth));
            let until = middle.time_ns;
            self.deliver(until);
        }
    }

    /// Decompresses a record of records. All of a file are one stream.
    fn unpack(&mut self, packed: &[u8], offset: usize) {
        let mut block = std::mem::take(&mut self.rounds.rest);
        let before = block.len();
        let result = self.decompress(packed, &mut block);
        let taken = (block.len() - before) as u64;
        let result = result
            .and_then(|()| self.perf.budget.take(taken, offset as u64, "zstd").map_err(|error| error.to_string()));
        if let Err(what) = result {
            self.problem(Error::Compression { offset: offset as u64, codec: "zstd", what });
            return;
        }
        let number = self.rounds.first + self.rounds.blocks.len() as u32;
        let block = Rc::new(block);
        self.rounds.block_bytes += block.len();
        self.rounds.blocks.push_back(Rc::clone(&block));
        let (mut at, big_endian) = (0, self.perf.big_endian);
        while let Some((found, next)) = record_at(&block, at, big_endian).filter(|(_, next)| *next > at) {
            self.take(&found, number);
            at = next;
        }
        self.rounds.rest = block[at..].to_vec();
        if self.rounds.rest.len() > 1 << 17 {
            self.rounds.rest.clear();
            let what = "decompressed records make no sense".into();
            self.problem(Error::Compression { offset: offset as u64, codec: "zstd", what });
        }
        if self.rounds.block_bytes > MAX_BLOCK_BYTES {
            self.deliver_half();
        }
    }

    fn decompress(&mut self, packed: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        if self.rounds.unpacker.is_none() {
            self.rounds.unpacker = Some(crate::codec::ZstdParts::new().map_err(text)?);
        }
        let Some(unpacker) = &mut self.rounds.unpacker else { return Ok(()) };
        match unpacker.part(packed, out, MAX_UNPACKED_RECORD).map_err(text)? {
            true => Ok(()),
            false => Err(format!("one record of {} bytes becomes more than {MAX_UNPACKED_RECORD}", packed.len())),
        }
    }

    /// Delivers what waits and is not newer than `until_ns`, in order of time.
    fn deliver(&mut self, until_ns: u64) {
        let mut waiting = std::mem::take(&mut self.rounds.waiting);
        waiting.sort_unstable_by_key(|one| (one.time_ns, one.nth));
        let count = waiting.partition_point(|one| one.time_ns <= until_ns);
        for one in &waiting[..count] {
            if self.outcome.stopped {
                break;
            }
            self.deliver_one(one);
        }
        waiting.drain(..count);
        let oldest = waiting.iter().map(|one| one.block).filter(|&block| block > 0).min();
        self.rounds.waiting = waiting;
        // Blocks in which nothing waits are done with.
        let keep_from = oldest.unwrap_or(self.rounds.first + self.rounds.blocks.len() as u32);
        while self.rounds.first < keep_from && !self.rounds.blocks.is_empty() {
            let block = self.rounds.blocks.pop_front();
            self.rounds.block_bytes -= block.map_or(0, |block| block.len());
            self.rounds.first += 1;
        }
    }

    #[inline]
    fn deliver_one(&mut self, one: &Waiting) {
        if one.time_ns < self.rounds.delivered_ns {
            self.rounds.late += 1;
            return;
        }
        self.rounds.delivered_ns = one.time_ns;
        if let Some(odd) = self.rounds.clock.odd(one.time_ns) {
            self.problem(Error::Invalid { offset: one.at as u64, what: odd.what });
        }
        if !self.options.in_range(one.time_ns) {
            return;
        }
        let block: &[u8] = match one.block {
            0 => self.perf.data,
            number => match self.rounds.blocks.get((number - self.rounds.first) as usize) {
                Some(block) => block,
                None => return,
            },
        };
        let (Some(body), Some(attr)) = (block.get(one.at..one.at + one.len), self.perf.attrs.get(one.attr as usize))
        else {
            return;
        };
        let Some(found) = sample(attr, body, self.perf.big_endian) else { return };
        let (time_ns, cpu) = (one.time_ns, found.cpu);
        let flow = match (attr.schema, found.raw) {
            (None, Some(record)) => {
                let big_endian = self.perf.records_big_endian;
                let index = self.perf.events.schema_of(record, big_endian);
                let pid = self.perf.events.pid(index, record, big_endian);
                let schema = &self.perf.events.schemas[index];
                self.text.clear();
                if schema.fields.last().is_some_and(|f| f.loc == Loc::Computed) {
                    computed_text(schema, record, &self.perf.printk, self.perf.long_size, big_endian, &mut self.text);
                }
                let body = Body::Record { bytes: record, big_endian };
                self.sink.event(&Event { schema, time_ns, cpu, pid, comm: None, buffer: 0, text: &self.text, body })
            }
            (Some(index), _) => {
                let value = |value: Option<u64>| value.map_or(Value::Null, Value::U64);
                let values = [value(found.ip), value(found.addr), value(found.period)];
                let schema = &self.perf.events.schemas[index];
                let (pid, body) = (found.tid, Body::Values(&values));
                self.sink.event(&Event { schema, time_ns, cpu, pid, comm: None, buffer: 0, text: &[], body })
            }
            (None, None) => return,
        };
        self.outcome.stopped |= flow.is_break();
    }
}

impl Reader for PerfData<'_> {
    fn about(&self) -> About<'_> {
        About { meta: &self.meta, schemas: &self.events.schemas, tasks: &self.tasks }
    }

    fn processes(&self) -> BTreeMap<i32, i32> {
        self.processes.clone()
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        options.check_names(&self.events.schemas)?;
        let ids = self.events.wanted(options);
        let wanted = self.attrs.iter().map(|attr| match (attr.schema, &ids) {
            (Some(index), _) => options.wants(&self.events.schemas[index]),
            // Of an event without a format nothing is known but its number.
            (None, Some(ids)) => ids.get(attr.config as usize).copied().unwrap_or(false),
            (None, None) => true,
        });
        let wanted = wanted.collect();
        let outcome = Outcome { problems: std::mem::take(&mut self.problems), ..Outcome::default() };
        let rounds = Rounds {
            clock: Clock::default(),
            waiting: Vec::new(),
            blocks: VecDeque::new(),
            first: 1,
            block_bytes: 0,
            nth: 0,
            newest_ns: 0,
            before_ns: 0,
            delivered_ns: 0,
            late: 0,
            damaged: 0,
            unpacker: None,
            rest: Vec::new(),
        };
        let (mut at, end, data, file, big_endian) = (self.start, self.end, self.data, self.file, self.big_endian);
        let mut pass = Pass {
            perf: self,
            options,
            sink,
            wanted,
            rounds,
            outcome,
            text: Vec::new(),
            cpu_of_id: HashMap::new(),
            of_tasks: false,
            lost_in_all: BTreeMap::new(),
        };
        let records = &data[..end];
        let mut released = at;
        while at < end && !pass.outcome.stopped {
            let Some((found, next)) = record_at(records, at, big_endian).filter(|(_, next)| *next > at) else {
                let what = "a record is damaged or cut off; what follows is not read".into();
                pass.problem(Error::Invalid { offset: at as u64, what });
                break;
            };
            pass.take(&found, 0);
            at = next;
            if let Some(file) = file.filter(|_| at > released + RELEASE_BYTES && pass.rounds.waiting.is_empty()) {
                file.release(released, at);
                released = at;
            }
        }
        pass.deliver(u64::MAX);
        pass.lose_at_end();
        if pass.of_tasks && pass.perf.events.schemas.iter().any(|schema| schema.name == "sched_switch") {
            // An event of a task counts while that task runs, and a switch is its last.
            let what = "it is of single tasks (perf record without -a): no sched_switch shows when they begin to run";
            pass.problem(Error::Unsupported { what: what.into() });
        }
        let Pass { rounds, mut outcome, .. } = pass;
        for (count, what) in [
            (rounds.late, "samples came after newer ones of a later round; they are left out"),
            (rounds.damaged, "samples are shorter than their event; they are skipped"),
        ] {
            if count > 0 {
                outcome.problems.push(Error::Invalid { offset: self.start as u64, what: format!("{count} {what}") });
            }
        }
        outcome.missed.sort_by_key(|missed| (missed.time_ns, missed.cpu));
        Ok(outcome)
    }
}

/// What is read of a mapped file is given back to the system this often.
const RELEASE_BYTES: usize = 1 << 26;
