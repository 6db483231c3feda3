//! `trace.dat`, versions 6 and 7, as trace-cmd writes it (man pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5)).
//!
//! Metadata that are damaged are reported and left out; the events are read with what remains.

use std::collections::BTreeMap;

use crate::bprint::{PrintkFormats, format_binary, parse_printk_formats};
use crate::bytes::{Cursor, read_int, read_uint, until_nul};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{Body, Event, FieldDef, Kind, Loc, Schema, Sink, Value};
use crate::format::{EventFormat, PageLayout, parse_format, parse_header_page};
use crate::input::{Budget, Data};
use crate::reader::{About, MAX_CPUS, Meta, Outcome, ReadOptions, Reader};
use crate::ring::{Chunk, Codec, CpuStream, MAX_PROBLEMS, Missed, Wanted, merge};
use crate::text::Text;

const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// True if `data` begin as a trace.dat does.
pub(crate) fn sniff(data: &[u8]) -> bool {
    data.starts_with(MAGIC)
}

/// Pages of one CPU in one buffer.
#[derive(Clone, Copy, Debug)]
struct CpuData {
    cpu: u32,
    offset: u64,
    size: u64,
}

/// One ring buffer (the top-level one or an instance).
#[derive(Clone, Debug)]
struct Buffer {
    name: String,
    page_size: usize,
    compressed: bool,
    cpus: Vec<CpuData>,
}

/// What [`TraceDat::raw_parts`] gives.
pub(crate) struct RawParts {
    pub(crate) metadata: Vec<u8>,
    pub(crate) cpus: Vec<Vec<u8>>,
}

/// `tsc2nsec` conversion: ns = (tsc * mult) >> shift.
#[derive(Clone, Copy, Debug)]
struct TscToNsec {
    mult: u32,
    shift: u32,
}

/// Events by id, and how to find the id in a record; shared by all formats that hold ring-buffer pages.
pub(crate) struct EventTable {
    pub(crate) schemas: Vec<Schema>,
    /// Schema index + 1 by event id.
    by_id: Vec<u32>,
    /// Where `common_pid` lies, by schema.
    pid: Vec<(u32, u8)>,
    /// Where `common_type` lies in every record.
    pub(crate) kind: (u32, u8),
}

impl EventTable {
    pub(crate) fn new() -> Self {
        Self { schemas: Vec::new(), by_id: Vec::new(), pid: Vec::new(), kind: (0, 2) }
    }

    /// Adds a format. Of two formats with one id the first stays, as in libtraceevent.
    pub(crate) fn add(&mut self, mut format: EventFormat) {
        let id = format.id as usize;
        if id > usize::from(u16::MAX) || self.by_id.get(id).is_some_and(|&index| index != 0) {
            return;
        }
        if self.schemas.iter().any(|s| s.name == format.schema.name) {
            format.schema.name = format!("{}:{}", format.schema.system, format.schema.name);
        }
        if let Some(kind) = format.kind {
            self.kind = kind;
        }
        let pid = format.pid.unwrap_or((4, 4));
        self.insert(id, format.schema, pid);
    }

    fn insert(&mut self, id: usize, mut schema: Schema, pid: (u32, u8)) -> usize {
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, 0);
        }
        schema.index = self.schemas.len();
        self.by_id[id] = schema.index as u32 + 1;
        self.schemas.push(schema);
        self.pid.push(pid);
        self.schemas.len() - 1
    }

    /// The schema of `record`, which an unknown id creates.
    #[inline]
    pub(crate) fn schema_of(&mut self, record: &[u8], big_endian: bool) -> usize {
        let (off, size) = self.kind;
        let id =
            record.get(off as usize..off as usize + usize::from(size)).map_or(0, |r| read_uint(r, big_endian)) as usize;
        match self.by_id.get(id) {
            Some(&index) if index != 0 => index as usize - 1,
            _ => self.unknown(id & 0xffff),
        }
    }

    #[cold]
    fn unknown(&mut self, id: usize) -> usize {
        if let Some(&index) = self.by_id.get(id)
            && index != 0
        {
            return index as usize - 1;
        }
        let data =
            FieldDef { name: "data".into(), kind: Kind::Bytes, loc: Loc::Rest { off: 0, each: 1, signed: false } };
        let schema = Schema {
            index: 0,
            name: format!("unknown_{id}"),
            system: String::new(),
            fields: vec![data],
            fixed_size: 0,
        };
        self.insert(id, schema, (4, 4))
    }

    /// The schema called `name` of an event without a format file, whose fields are values.
    pub(crate) fn plain(&mut self, name: &str, fields: &[(&str, Kind)]) -> usize {
        if let Some(found) = self.schemas.iter().position(|schema| schema.name == name) {
            return found;
        }
        let field = |&(name, kind): &(&str, Kind)| FieldDef { name: name.to_owned(), kind, loc: Loc::Value };
        let index = self.schemas.len();
        self.schemas.push(Schema {
            index,
            name: name.to_owned(),
            system: String::new(),
            fields: fields.iter().map(field).collect(),
            fixed_size: 0,
        });
        self.pid.push((4, 4));
        index
    }

    #[inline]
    pub(crate) fn pid(&self, schema: usize, record: &[u8], big_endian: bool) -> i32 {
        let (off, size) = self.pid[schema];
        record.get(off as usize..off as usize + usize::from(size)).map_or(0, |r| read_int(r, big_endian)) as i32
    }

    /// Which ids `options` want; `None` if all.
    pub(crate) fn wanted(&self, options: &ReadOptions) -> Option<Vec<bool>> {
        options.events.as_ref()?;
        Some(self.by_id.iter().map(|&index| index != 0 && options.wants(&self.schemas[index as usize - 1])).collect())
    }
}

/// The formats of events that perf.data carries, laid out as the start of a trace.dat of version 6.
pub(crate) struct Formats {
    pub(crate) events: EventTable,
    pub(crate) printk: PrintkFormats,
    pub(crate) tasks: BTreeMap<i32, Vec<u8>>,
    pub(crate) long_size: u8,
    pub(crate) big_endian: bool,
    pub(crate) problems: Vec<Error>,
}

impl Formats {
    /// Reads `data`, which lie at `base` in the file. Fails only if they do not begin as they should.
    pub(crate) fn read(data: &[u8], base: u64, budget: Budget, common_fields: bool) -> Result<Self> {
        let mut c = Cursor::new(data, base, false);
        if c.take(MAGIC.len() as u64, "the formats of the events")? != MAGIC {
            return Err(Error::Invalid { offset: base, what: "these are not the formats of events".into() });
        }
        c.cstr("the version of the formats")?;
        let big_endian = c.take(1, "the byte order of the formats")?[0] == 1;
        let long_size = c.take(1, "the size of a long")?[0];
        let long_size = if long_size == 4 { 4 } else { 8 };
        c.big_endian = big_endian;
        c.u32("the page size")?;
        let meta = Meta { long_size, big_endian, ..Meta::default() };
        let mut dat = TraceDat::empty(data, None, meta, budget, common_fields);
        // Older perf wrote no command lines: what was read until there counts.
        if let Err(error) = dat.read_formats(&mut c)
            && dat.events.schemas.is_empty()
        {
            dat.problem(error);
        }
        let TraceDat { events, printk, tasks, problems, .. } = dat;
        Ok(Self { events, printk, tasks, long_size, big_endian, problems })
    }
}

/// A trace.dat that is open for reading.
pub(crate) struct TraceDat<'a> {
    data: &'a [u8],
    /// The file behind `data`, if it learns what has been read.
    file: Option<&'a Data>,
    meta: Meta,
    events: EventTable,
    tasks: BTreeMap<i32, Vec<u8>>,
    printk: PrintkFormats,
    layout: PageLayout,
    codec: Option<Codec>,
    buffers: Vec<Buffer>,
    /// Text of the latency tracers, instead of or beside pages.
    latency_text: Vec<(u64, Vec<u8>)>,
    tsc: Option<TscToNsec>,
    problems: Vec<Error>,
    budget: Budget,
    common_fields: bool,
    /// Number and place of the metadata sections (version 7).
    sections: Vec<(u16, u64)>,
    /// Schemas of the text reader, once latency text has been read.
    text_schemas: Vec<Schema>,
}

/// Section and option numbers (trace-cmd.dat.v7(5)).
mod id {
    /// The section of options.
    pub(super) const OPTIONS: u16 = 0;
    pub(super) const DONE: u16 = 0;
    pub(super) const DATE: u16 = 1;
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const OFFSET: u16 = 7;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const VERSION: u16 = 9;
    pub(super) const TSC2NSEC: u16 = 14;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const PRINTK: u16 = 20;
    pub(super) const CMDLINES: u16 = 21;
    pub(super) const BUFFER_TEXT: u16 = 22;
}

impl<'a> TraceDat<'a> {
    /// Reads the metadata. Fails only if not even the header makes sense.
    pub(crate) fn open(data: &'a [u8], file: Option<&'a Data>, budget: Budget, options: &ReadOptions) -> Result<Self> {
        let mut c = Cursor::new(data, 0, false);
        c.take(MAGIC.len() as u64, "the trace.dat magic")?;
        let version = std::str::from_utf8(c.cstr("the file version")?).ok().and_then(|v| v.parse().ok());
        let version: u32 = version
            .filter(|v| (6..=7).contains(v))
            .ok_or_else(|| Error::Unsupported { what: "trace.dat of a version other than 6 and 7".into() })?;
        let big_endian = match c.take(1, "the byte order")?[0] {
            0 => false,
            1 => true,
            other => {
                return Err(Error::Invalid { offset: c.offset() - 1, what: format!("byte order {other}, not 0 or 1") });
            }
        };
        c.big_endian = big_endian;
        let long_size = c.take(1, "the size of a long")?[0];
        if !matches!(long_size, 4 | 8) {
            return Err(Error::Invalid { offset: c.offset() - 1, what: format!("a long of {long_size} bytes") });
        }
        let page_size = c.u32("the page size")?;
        if !(256..=1 << 20).contains(&page_size) {
            return Err(Error::Invalid { offset: c.offset() - 4, what: format!("a page of {page_size} bytes") });
        }
        let meta = Meta { format: "trace.dat", version, long_size, big_endian, page_size, ..Meta::default() };
        let mut this = Self::empty(data, file, meta, budget, options.common_fields);
        let result = if version == 6 { this.read_v6(c) } else { this.read_v7(c) };
        if let Err(error) = result {
            this.problems.push(error);
        }
        if this.meta.cpus == 0 {
            this.meta.cpus = this.buffers.iter().flat_map(|b| &b.cpus).map(|c| c.cpu + 1).max().unwrap_or(0);
        }
        this.meta.buffers = this.buffers.iter().map(|b| b.name.clone()).collect();
        this.look_behind_the_end();
        Ok(this)
    }

    /// A reader that knows nothing yet.
    fn empty(data: &'a [u8], file: Option<&'a Data>, meta: Meta, budget: Budget, common_fields: bool) -> Self {
        Self {
            data,
            file,
            layout: PageLayout::of_long(meta.long_size),
            meta,
            events: EventTable::new(),
            tasks: BTreeMap::new(),
            printk: PrintkFormats::new(),
            codec: None,
            buffers: Vec::new(),
            latency_text: Vec::new(),
            tsc: None,
            problems: Vec::new(),
            budget,
            common_fields,
            sections: Vec::new(),
            text_schemas: Vec::new(),
        }
    }

    fn problem(&mut self, error: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(error);
        }
    }

    /// A second trace.dat behind this one (files that were joined) is reported: its events are not read.
    fn look_behind_the_end(&mut self) {
        let ends = self.buffers.iter().flat_map(|b| &b.cpus).map(|cpu| cpu.offset.saturating_add(cpu.size));
        let Some(end) = ends.max().and_then(|end| usize::try_from(end).ok()) else { return };
        let Some(tail) = self.data.get(end..) else { return };
        if let Some(at) = tail.windows(MAGIC.len()).position(|window| window == MAGIC) {
            let what = "another trace.dat begins here; its events are not read".into();
            self.problem(Error::Invalid { offset: (end + at) as u64, what });
        }
    }

    fn read_v6(&mut self, mut c: Cursor<'a>) -> Result<()> {
        self.read_formats(&mut c)?;
        self.meta.cpus = c.u32("the number of CPUs")?;
        if self.meta.cpus > MAX_CPUS {
            let what = format!("{} CPUs", self.meta.cpus);
            self.meta.cpus = 0;
            return Err(Error::Invalid { offset: c.offset() - 4, what });
        }
        let mut instances = Vec::new();
        self.read_v6_buffer(&mut c, String::new(), &mut instances)?;
        for (offset, name) in instances {
            let result = Cursor::at(self.data, offset, self.meta.big_endian, "the data of a buffer")
                .and_then(|mut c| self.read_v6_buffer(&mut c, name, &mut Vec::new()));
            if let Err(error) = result {
                self.problem(error);
            }
        }
        Ok(())
    }

    /// Page header, formats, printk formats and command lines, as version 6 and perf.data have them.
    fn read_formats(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        self.read_header_info(c)?;
        self.read_ftrace_formats(c)?;
        self.read_event_formats(c)?;
        let size = c.u32("the size of kallsyms")?;
        c.take(u64::from(size), "kallsyms")?;
        let size = c.u32("the size of the printk formats")?;
        self.printk = parse_printk_formats(c.take(u64::from(size), "the printk formats")?);
        let size = c.u64("the size of the command lines")?;
        let text = c.take(size, "the command lines")?;
        self.read_tasks(text);
        Ok(())
    }

    /// Version 6: `options`, then `latency` or `flyrecord`, then where each CPU's pages are.
    fn read_v6_buffer(&mut self, c: &mut Cursor<'a>, name: String, instances: &mut Vec<(u64, String)>) -> Result<()> {
        let mut kind = c.take(10, "the kind of the data")?;
        if kind.starts_with(b"options") {
            loop {
                let option = c.u16("an option's number")?;
                if option == id::DONE {
                    break;
                }
                let size = c.u32("an option's size")?;
                let offset = c.offset();
                let data = c.take(u64::from(size), "an option")?;
                if option == id::BUFFER {
                    let mut option = Cursor::new(data, offset, self.meta.big_endian);
                    let at = option.u64("the place of a buffer")?;
                    let rest = option.take(option.left() as u64, "a buffer's name")?;
                    instances.push((at, String::from_utf8_lossy(until_nul(rest)).into_owned()));
                } else {
                    self.simple_option(option, data, offset);
                }
            }
            kind = c.take(10, "the kind of the data")?;
        }
        if kind.starts_with(b"latency") {
            let at = c.offset();
            let text = c.take(c.left() as u64, "latency text")?.to_vec();
            self.latency_text.push((at, text));
            return Ok(());
        }
        if !kind.starts_with(b"flyrecord") {
            let what = format!("data of an unknown kind {:?}", String::from_utf8_lossy(until_nul(kind)));
            return Err(Error::Invalid { offset: c.offset() - 10, what });
        }
        let mut cpus = Vec::new();
        for cpu in 0..self.meta.cpus {
            let offset = c.u64("where a CPU's data are")?;
            let size = c.u64("the size of a CPU's data")?;
            cpus.push(CpuData { cpu, offset, size });
        }
        let page_size = self.meta.page_size as usize;
        self.buffers.push(Buffer { name, page_size, compressed: false, cpus });
        Ok(())
    }

    fn read_v7(&mut self, mut c: Cursor<'a>) -> Result<()> {
        let codec = c.cstr("the compression's name")?;
        c.cstr("the compression's version")?;
        self.codec = match codec {
            b"none" | b"" => None,
            b"zstd" => Some(Codec::Zstd),
            b"zlib" => Some(Codec::Zlib),
            other => {
                let what = format!("trace.dat with compression {:?}", String::from_utf8_lossy(other));
                return Err(Error::Unsupported { what });
            }
        };
        self.meta.compression = self.codec.map_or(String::new(), |codec| codec.name().to_string());
        let mut next = c.u64("where the options are")?;
        let first = c.offset();
        let mut sections: Vec<(u16, u64)> = Vec::new();
        let mut visited = Vec::new();
        let mut whole = true;
        while next != 0 {
            // A chain that comes back to itself is damage.
            if visited.contains(&next) || visited.len() > 1000 {
                self.problem(Error::Invalid { offset: next, what: "the chain of option sections is a circle".into() });
                whole = false;
                break;
            }
            visited.push(next);
            match self.section(next).and_then(|(body, offset)| self.read_v7_options(&body, offset, &mut sections)) {
                Ok(following) => next = following,
                Err(error) => {
                    self.problem(error);
                    whole = false;
                    break;
                }
            }
        }
        if !whole {
            self.find_options(first, &visited, &mut sections);
        } else if let Err(error) = self.check_end(first) {
            self.problem(error);
        }
        self.sections.clone_from(&sections);
        // Formats need the header, and buffers need both: read in a fixed order.
        for wanted in [id::HEADER_INFO, id::FTRACE_EVENTS, id::EVENT_FORMATS, id::PRINTK, id::CMDLINES, id::BUFFER_TEXT]
        {
            for &(_, offset) in sections.iter().filter(|(kind, _)| *kind == wanted) {
                let result = self.read_v7_section(wanted, offset);
                if let Err(error) = result {
                    self.problem(error);
                }
            }
        }
        Ok(())
    }

    /// Sections fill the file: what ends within one was cut off, though nothing that is read may be missing.
    fn check_end(&self, first: u64) -> Result<()> {
        let mut at = first;
        // A file that was joined to this one is reported where buffers end.
        while self.data.get(at as usize..).is_some_and(|rest| !rest.is_empty() && !sniff(rest)) {
            let mut c = Cursor::at(self.data, at, self.meta.big_endian, "a section")?;
            c.u16("a section's number")?;
            c.u16("a section's flags")?;
            c.u32("a section's name")?;
            let size = c.u64("a section's size")?;
            c.take(size, "a section")?;
            at = c.offset();
        }
        Ok(())
    }

    /// Walks all sections from the start of the file and reads the options that the broken chain did not lead to.
    fn find_options(&mut self, first: u64, visited: &[u64], sections: &mut Vec<(u16, u64)>) {
        let mut at = first;
        for _ in 0..10_000 {
            let Ok(mut c) = Cursor::at(self.data, at, self.meta.big_endian, "a section") else { return };
            let (Ok(kind), Ok(_), Ok(_), Ok(size)) = (c.u16(""), c.u16(""), c.u32(""), c.u64("")) else { return };
            if kind == id::OPTIONS
                && !visited.contains(&at)
                && let Ok((body, offset)) = self.section(at)
            {
                // What is broken here has been reported by the chain.
                let _ = self.read_v7_options(&body, offset, sections);
            }
            let Some(next) = c.offset().checked_add(size).filter(|&next| next > at) else { return };
            at = next;
        }
    }

    /// The body of the section at `offset`, decompressed, and where it starts for messages.
    fn section(&self, offset: u64) -> Result<(std::borrow::Cow<'a, [u8]>, u64)> {
        let mut c = Cursor::at(self.data, offset, self.meta.big_endian, "a section")?;
        c.u16("a section's number")?;
        let compressed = c.u16("a section's flags")? & 1 != 0;
        c.u32("a section's name")?;
        let size = c.u64("a section's size")?;
        let start = c.offset();
        // Buffers may end with the file while their pages are still there: take what there is.
        let mut body = Cursor::new(c.take(size.min(c.left() as u64), "a section")?, start, self.meta.big_endian);
        match self.codec.filter(|_| compressed) {
            None => Ok((body.take(body.left() as u64, "a section")?.into(), start)),
            Some(codec) => {
                let packed = body.u32("the size of a compressed section")?;
                let unpacked = u64::from(body.u32("the size of a decompressed section")?);
                let input = body.take(u64::from(packed), "a compressed section")?;
                // Sections are looked at again for copies of a file: each alone must fit.
                let mut budget = self.budget;
                budget.take(unpacked, start, codec.name())?;
                let mut out = Vec::new();
                codec.decompress(input, unpacked as usize, &mut out, start)?;
                Ok((out.into(), start))
            }
        }
    }

    fn read_v7_options(&mut self, body: &[u8], base: u64, sections: &mut Vec<(u16, u64)>) -> Result<u64> {
        let mut c = Cursor::new(body, base, self.meta.big_endian);
        loop {
            let option = c.u16("an option's number")?;
            let size = c.u32("an option's size")?;
            let offset = c.offset();
            let data = c.take(u64::from(size), "an option")?;
            let mut inside = Cursor::new(data, offset, self.meta.big_endian);
            match option {
                id::DONE => return if data.len() >= 8 { inside.u64("the next options") } else { Ok(0) },
                id::BUFFER => {
                    if let Err(error) = self.read_v7_buffer(&mut inside) {
                        self.problem(error);
                    }
                }
                id::HEADER_INFO
                | id::FTRACE_EVENTS
                | id::EVENT_FORMATS
                | id::PRINTK
                | id::CMDLINES
                | id::BUFFER_TEXT => sections.push((option, inside.u64("where a section is")?)),
                _ => self.simple_option(option, data, offset),
            }
        }
    }

    fn read_v7_buffer(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let section = c.u64("where a buffer is")?;
        let name = String::from_utf8_lossy(c.cstr("a buffer's name")?).into_owned();
        let clock = String::from_utf8_lossy(c.cstr("a buffer's clock")?).into_owned();
        let page_size = c.u32("a buffer's page size")?;
        if !(256..=1 << 20).contains(&page_size) {
            return Err(Error::Invalid { offset: c.offset() - 4, what: format!("a page of {page_size} bytes") });
        }
        let count = c.u32("a buffer's CPUs")?;
        let mut cpus = Vec::new();
        for _ in 0..count {
            let cpu = c.u32("a CPU's number")?;
            let offset = c.u64("where a CPU's data are")?;
            let size = c.u64("the size of a CPU's data")?;
            if cpu >= MAX_CPUS {
                self.problem(Error::Invalid { offset: c.offset() - 20, what: format!("data of CPU {cpu}") });
                continue;
            }
            cpus.push(CpuData { cpu, offset, size });
        }
        let mut head = Cursor::at(self.data, section, self.meta.big_endian, "a buffer")?;
        head.u16("a section's number")?;
        let compressed = head.u16("a section's flags")? & 1 != 0;
        if self.meta.clock.is_empty() {
            self.meta.clock = clock;
        }
        // The top-level buffer comes first, wherever it stands in the file.
        let place = if name.is_empty() { 0 } else { self.buffers.len() };
        self.buffers.insert(place, Buffer { name, page_size: page_size as usize, compressed, cpus });
        Ok(())
    }

    fn read_v7_section(&mut self, kind: u16, offset: u64) -> Result<()> {
        let (body, base) = self.section(offset)?;
        // Many options may name one section.
        self.budget.take(body.len() as u64, base, self.codec.map_or("none", Codec::name))?;
        let mut c = Cursor::new(&body, base, self.meta.big_endian);
        match kind {
            id::HEADER_INFO => self.read_header_info(&mut c),
            id::FTRACE_EVENTS => self.read_ftrace_formats(&mut c),
            id::EVENT_FORMATS => self.read_event_formats(&mut c),
            id::PRINTK => {
                let size = c.u32("the size of the printk formats")?;
                self.printk = parse_printk_formats(c.take(u64::from(size), "the printk formats")?);
                Ok(())
            }
            id::CMDLINES => {
                let size = c.u64("the size of the command lines")?;
                let text = c.take(size, "the command lines")?;
                self.read_tasks(text);
                Ok(())
            }
            _ => {
                self.latency_text.push((base, body.into_owned()));
                Ok(())
            }
        }
    }

    /// Options that mean the same in both versions.
    fn simple_option(&mut self, option: u16, data: &[u8], offset: u64) {
        let text = || String::from_utf8_lossy(until_nul(data)).trim().to_string();
        match option {
            // Microseconds since the epoch, in base 16.
            id::DATE => {
                self.meta.time_offset_ns =
                    self.meta.time_offset_ns.wrapping_add(parse_number(&text()).wrapping_mul(1000))
            }
            id::OFFSET => self.meta.time_offset_ns = self.meta.time_offset_ns.wrapping_add(parse_number(&text())),
            id::CPUSTAT => self.meta.cpu_stats.push(text()),
            id::TRACECLOCK => {
                // The content of the file `trace_clock`: the chosen one stands in brackets.
                let all = text();
                let chosen = all.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(clock, _)| clock);
                self.meta.clock = chosen.unwrap_or(all.lines().next().unwrap_or("")).to_string();
            }
            id::UNAME => self.meta.uname = text(),
            id::VERSION => self.meta.writer = format!("trace-cmd {}", text()),
            id::CPUCOUNT if data.len() >= 4 => {
                let cpus = read_uint(&data[..4], self.meta.big_endian) as u32;
                if cpus <= MAX_CPUS {
                    self.meta.cpus = cpus;
                } else {
                    self.problem(Error::Invalid { offset, what: format!("{cpus} CPUs") });
                }
            }
            id::TSC2NSEC if data.len() >= 16 => {
                let big = self.meta.big_endian;
                let tsc =
                    TscToNsec { mult: read_uint(&data[..4], big) as u32, shift: read_uint(&data[4..8], big) as u32 };
                if tsc.mult != 0 && tsc.shift < 64 {
                    self.tsc = Some(tsc);
                }
            }
            _ => {}
        }
    }

    fn read_header_info(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let magic = c.take(12, "the name of the page header")?;
        if magic != b"header_page\0" {
            return Err(Error::Invalid { offset: c.offset() - 12, what: "\"header_page\" expected".into() });
        }
        let size = c.u64("the size of the page header")?;
        let text = c.take(size, "the page header")?;
        // An empty one is allowed: old kernels had none.
        match parse_header_page(&String::from_utf8_lossy(text)) {
            Some((layout, _)) => self.layout = layout,
            None if size == 0 => {}
            None => {
                let what = "the page header lacks the places of time, commit and data".into();
                self.problem(Error::Invalid { offset: c.offset() - size, what });
            }
        }
        let magic = c.take(13, "the name of the event header")?;
        if magic != b"header_event\0" {
            return Err(Error::Invalid { offset: c.offset() - 13, what: "\"header_event\" expected".into() });
        }
        let size = c.u64("the size of the event header")?;
        c.take(size, "the event header")?;
        Ok(())
    }

    fn read_format(&mut self, c: &mut Cursor<'_>, system: &str) -> Result<()> {
        let size = c.u64("the size of an event's format")?;
        let text = c.take(size, "an event's format")?;
        if let Some(format) =
            parse_format(&String::from_utf8_lossy(text), system, self.meta.long_size, self.common_fields)
        {
            self.events.add(format);
        }
        Ok(())
    }

    fn read_ftrace_formats(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let count = c.u32("the number of ftrace formats")?;
        for _ in 0..count {
            self.read_format(c, "ftrace")?;
        }
        Ok(())
    }

    fn read_event_formats(&mut self, c: &mut Cursor<'_>) -> Result<()> {
        let systems = c.u32("the number of event systems")?;
        for _ in 0..systems {
            let system = String::from_utf8_lossy(c.cstr("an event system's name")?).into_owned();
            let count = c.u32("the number of events of a system")?;
            for _ in 0..count {
                self.read_format(c, &system)?;
            }
        }
        Ok(())
    }

    fn read_tasks(&mut self, text: &[u8]) {
        for line in until_nul(text).split(|&b| b == b'\n') {
            let Some(blank) = line.iter().position(|&b| b == b' ') else { continue };
            let pid = std::str::from_utf8(&line[..blank]).ok().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid {
                self.tasks.entry(pid).or_insert_with(|| line[blank + 1..].to_vec());
            }
        }
    }

    /// Where the compressed chunks of one CPU are.
    fn chunks(&self, cpu: CpuData, problems: &mut Vec<Error>) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut walk = || -> Result<()> {
            let mut c = Cursor::at(self.data, cpu.offset, self.meta.big_endian, "a CPU's data")?;
            let count = c.u32("the number of compressed chunks")?;
            for _ in 0..count {
                let compressed = c.u32("a chunk's compressed size")? as usize;
                let size = c.u32("a chunk's size")? as usize;
                let offset = c.offset() as usize;
                c.take(compressed as u64, "a compressed chunk")?;
                chunks.push(Chunk { offset, compressed, size });
            }
            Ok(())
        };
        if let Err(error) = walk() {
            problems.push(error);
        }
        chunks
    }

    fn streams(&self, problems: &mut Vec<Error>) -> Vec<CpuStream<'a>> {
        let mut streams = Vec::new();
        let big_endian = self.meta.big_endian;
        let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
        for (number, buffer) in self.buffers.iter().enumerate() {
            let number = number as u32;
            for &cpu in &buffer.cpus {
                if cpu.size == 0 {
                    continue;
                }
                // Pages that two CPUs or buffers claim would count their events twice.
                let end = cpu.offset.saturating_add(cpu.size);
                if taken.range(..end).next_back().is_some_and(|(_, &other_end)| other_end > cpu.offset) {
                    let what = format!(
                        "the data of CPU {} in buffer {:?} are those of another CPU or buffer; they are left out",
                        cpu.cpu, buffer.name
                    );
                    problems.push(Error::Invalid { offset: cpu.offset, what });
                    continue;
                }
                taken.insert(cpu.offset, end);
                if let Some(codec) = self.codec.filter(|_| buffer.compressed) {
                    let chunks = self.chunks(cpu, problems);
                    streams.push(CpuStream::chunked(
                        cpu.cpu,
                        number,
                        self.data,
                        codec,
                        chunks,
                        self.layout,
                        buffer.page_size,
                        big_endian,
                    ));
                    continue;
                }
                let have = (self.data.len() as u64).saturating_sub(cpu.offset);
                if have < cpu.size {
                    let what = format!("the data of CPU {}", cpu.cpu);
                    problems.push(Error::Truncated { offset: cpu.offset, what, needed: cpu.size, have });
                }
                let start = cpu.offset.min(self.data.len() as u64) as usize;
                let data = &self.data[start..start + cpu.size.min(have) as usize];
                streams.push(CpuStream::plain(
                    cpu.cpu,
                    number,
                    data,
                    (cpu.offset, self.file),
                    self.layout,
                    buffer.page_size,
                    big_endian,
                ));
            }
        }
        streams
    }

    /// The metadata as version 6 has them, and the pages of the top-level buffer: what a copy of the file needs.
    pub(crate) fn raw_parts(&self) -> Result<RawParts> {
        let unsupported = |what: &str| Err(Error::Unsupported { what: format!("repeating a trace.dat {what}") });
        if self.meta.big_endian || self.meta.long_size != 8 || self.meta.page_size != 4096 {
            return unsupported("that is not little-endian, 64-bit and of 4096-byte pages");
        }
        let mut metadata = Vec::new();
        if self.meta.version == 6 {
            // Everything from behind the page size up to the number of CPUs.
            let mut c = Cursor::at(self.data, MAGIC.len() as u64 + 8, false, "the metadata")?;
            let start = c.offset() as usize;
            for name in [12, 13] {
                c.take(name, "a header")?;
                let size = c.u64("a header")?;
                c.take(size, "a header")?;
            }
            let skip_formats = |c: &mut Cursor<'_>| -> Result<()> {
                for _ in 0..c.u32("formats")? {
                    let size = c.u64("a format")?;
                    c.take(size, "a format")?;
                }
                Ok(())
            };
            skip_formats(&mut c)?;
            for _ in 0..c.u32("systems")? {
                c.cstr("a system")?;
                skip_formats(&mut c)?;
            }
            for _ in 0..2 {
                let size = c.u32("kallsyms or printk")?;
                c.take(u64::from(size), "kallsyms or printk")?;
            }
            let size = c.u64("command lines")?;
            c.take(size, "command lines")?;
            metadata.extend_from_slice(&self.data[start..c.offset() as usize]);
        } else {
            for wanted in [id::HEADER_INFO, id::FTRACE_EVENTS, id::EVENT_FORMATS, 0, id::PRINTK, id::CMDLINES] {
                match self.sections.iter().find(|(kind, _)| *kind == wanted && wanted != 0) {
                    Some(&(_, offset)) => metadata.extend_from_slice(&self.section(offset)?.0),
                    // Kallsyms and printk formats may be empty: a size of 4 bytes; command lines have 8.
                    None if wanted == id::CMDLINES => metadata.extend_from_slice(&[0; 8]),
                    None => metadata.extend_from_slice(&[0; 4]),
                }
            }
        }
        let Some(buffer) = self.buffers.first() else { return unsupported("without pages") };
        let count = buffer.cpus.iter().map(|c| c.cpu as usize + 1).max().unwrap_or(0).max(self.meta.cpus as usize);
        let mut cpus = vec![Vec::new(); count];
        let mut problems = Vec::new();
        for &cpu in &buffer.cpus {
            let pages = &mut cpus[cpu.cpu as usize];
            match self.codec.filter(|_| buffer.compressed) {
                Some(codec) => {
                    let mut chunk_bytes = Vec::new();
                    for chunk in self.chunks(cpu, &mut problems) {
                        let input = &self.data[chunk.offset..chunk.offset + chunk.compressed];
                        codec.decompress(input, chunk.size, &mut chunk_bytes, chunk.offset as u64)?;
                        pages.extend_from_slice(&chunk_bytes);
                    }
                }
                None => {
                    let mut c = Cursor::at(self.data, cpu.offset, false, "a CPU's data")?;
                    pages.extend_from_slice(c.take(cpu.size, "a CPU's data")?);
                }
            }
        }
        match problems.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(RawParts { metadata, cpus }),
        }
    }

    /// Latency tracers leave no pages but the text of their `trace` file.
    fn stream_latency_text(
        &mut self,
        problems: Vec<Error>,
        options: &ReadOptions,
        sink: &mut dyn Sink,
    ) -> Result<Outcome> {
        let all: Vec<u8> = self.latency_text.iter().flat_map(|(_, text)| text.iter().copied()).collect();
        let mut text = Text::open(&all, None);
        let mut outcome = text.stream(options, sink)?;
        self.text_schemas = text.schemas().to_vec();
        outcome.problems.splice(0..0, problems);
        outcome.problems.truncate(MAX_PROBLEMS);
        Ok(outcome)
    }

    fn time_ns(&self, time: u64) -> u64 {
        let time = match self.tsc {
            // 128-bit product, then the shift. The option's third number is not used, as trace-cmd report 3.1.6 does not either.
            Some(tsc) => ((u128::from(time) * u128::from(tsc.mult)) >> tsc.shift) as u64,
            None => time,
        };
        time.wrapping_add(self.meta.time_offset_ns as u64)
    }
}

/// A number in base 10, or in base 16 behind `0x`; 0 if it is none.
fn parse_number(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let value = value.unwrap_or(0) as i64;
    if negative { value.wrapping_neg() } else { value }
}

/// Renders the computed text of `bprint` and `bputs` events.
pub(crate) fn computed_text(
    schema: &Schema,
    record: &[u8],
    printk: &PrintkFormats,
    long_size: u8,
    big_endian: bool,
    out: &mut Vec<u8>,
) {
    out.clear();
    let event = Event {
        schema,
        time_ns: 0,
        cpu: 0,
        pid: 0,
        comm: None,
        buffer: 0,
        text: &[],
        body: Body::Record { bytes: record, big_endian },
    };
    let address = |name: &str| schema.field_index(name).and_then(|i| event.int(i)).map_or(0, |v| v as u64);
    if schema.name == "bputs" {
        if let Some(text) = printk.get(&address("str")) {
            out.extend_from_slice(text);
        }
    } else if let Some(format) = printk.get(&address("fmt")) {
        let args = match schema.field_index("buf").map(|i| event.value(i)) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        };
        format_binary(format, args, long_size, big_endian, out);
    }
}

/// Merges `streams` and delivers their events; shared by all formats that hold ring-buffer pages.
#[expect(clippy::too_many_arguments, reason = "the shared inner loop of two readers")]
pub(crate) fn deliver(
    streams: &mut [CpuStream<'_>],
    events: &mut EventTable,
    printk: &PrintkFormats,
    long_size: u8,
    big_endian: bool,
    time_ns: impl Fn(u64) -> u64,
    options: &ReadOptions,
    sink: &mut dyn Sink,
) -> (bool, Vec<Missed>, Vec<Error>) {
    let ids = events.wanted(options);
    let wanted = Wanted { ids: ids.as_deref(), kind: events.kind };
    let (mut text, mut clock, mut odd_times) = (Vec::new(), Clock::default(), Vec::new());
    let flow = merge(streams, &wanted, |stream| {
        let mut time_ns = time_ns(stream.time);
        if let Some(odd) = clock.odd(time_ns) {
            if odd_times.len() < MAX_PROBLEMS {
                odd_times.push(Error::Invalid { offset: stream.record_offset(), what: odd.what });
            }
            match odd.time_ns {
                Some(taken_ns) => time_ns = taken_ns,
                None => return std::ops::ControlFlow::Continue(()),
            }
        }
        if !options.in_range(time_ns) {
            return std::ops::ControlFlow::Continue(());
        }
        let record = stream.record();
        let index = events.schema_of(record, big_endian);
        let pid = events.pid(index, record, big_endian);
        let schema = &events.schemas[index];
        text.clear();
        if schema.fields.last().is_some_and(|f| f.loc == Loc::Computed) {
            computed_text(schema, record, printk, long_size, big_endian, &mut text);
        }
        let body = Body::Record { bytes: record, big_endian };
        let event =
            Event { schema, time_ns, cpu: stream.cpu, pid, comm: None, buffer: stream.buffer, text: &text, body };
        sink.event(&event)
    });
    let (mut missed, mut problems) = (Vec::new(), odd_times);
    for stream in streams {
        missed.extend(stream.missed.drain(..).map(|m| Missed { time_ns: time_ns(m.time_ns), ..m }));
        problems.append(&mut stream.problems);
    }
    missed.sort_by_key(|m| (m.time_ns, m.cpu));
    problems.truncate(MAX_PROBLEMS);
    (flow.is_break(), missed, problems)
}

impl Reader for TraceDat<'_> {
    fn about(&self) -> About<'_> {
        let schemas = if self.text_schemas.is_empty() { &self.events.schemas } else { &self.text_schemas };
        About { meta: &self.meta, schemas, tasks: &self.tasks }
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        let mut problems = std::mem::take(&mut self.problems);
        let mut streams = self.streams(&mut problems);
        if streams.is_empty() && !self.latency_text.is_empty() {
            return self.stream_latency_text(problems, options, sink);
        }
        options.check_names(&self.events.schemas)?;
        let mut events = std::mem::replace(&mut self.events, EventTable::new());
        let (stopped, missed, mut damage) = deliver(
            &mut streams,
            &mut events,
            &self.printk,
            self.meta.long_size,
            self.meta.big_endian,
            |time| self.time_ns(time),
            options,
            sink,
        );
        self.events = events;
        problems.append(&mut damage);
        problems.truncate(MAX_PROBLEMS);
        Ok(Outcome { problems, missed, stopped })
    }
}
