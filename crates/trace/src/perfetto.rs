//! Perfetto protobuf: the kernel events in `FtraceEventBundle`s, also in compact scheduling form and in compressed packets.
//!
//! Only kernel events, process names and the system's description are read; track events and all else are skipped.
//! Field numbers come from `perfetto_events.txt`; events that are missing there are kept, with fields named by number.
//! Of a compact `sched_switch` the previous task is the one before on that CPU; it is absent in a CPU's first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::ControlFlow;

use crate::bytes::own_name;
use crate::clock::{Clock, TIME_MAX_NS, too_late};
use crate::error::{Error, Result};
use crate::event::{Body, Event, FieldDef, Kind, Loc, Schema, Sink, Value};
use crate::input::{Budget, Data};
use crate::order::HEAD_FIELDS;
use crate::reader::{About, MAX_CPUS, Meta, Outcome, ReadOptions, Reader};
use crate::ring::{MAX_PROBLEMS, Missed};
use crate::table::Strings;
use crate::wire::{Message, Wire, repeated};

const EVENTS: &str = include_str!("perfetto_events.txt");

/// Field numbers of the messages around the events.
mod packet {
    pub(super) const FTRACE_EVENTS: u32 = 1;
    pub(super) const PROCESS_TREE: u32 = 2;
    pub(super) const SYSTEM_INFO: u32 = 45;
    pub(super) const COMPRESSED: u32 = 50;
    pub(super) const ZSTD_COMPRESSED: u32 = 133;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const BATTERY: u32 = 38;
    pub(super) const POWER_RAILS: u32 = 40;
}
mod bundle {
    pub(super) const CPU: u32 = 1;
    pub(super) const EVENT: u32 = 2;
    pub(super) const LOST: u32 = 3;
    pub(super) const COMPACT: u32 = 4;
    pub(super) const CLOCK: u32 = 5;
    pub(super) const DESCRIPTORS: u32 = 11;
}
/// `FtraceEvent` fields that are not events.
pub(crate) const GENERIC: u32 = 327;
const KPROBE: u32 = 542;

/// True if `data` are a sequence of plausible trace packets.
pub(crate) fn sniff(data: &[u8]) -> bool {
    let mut trace = Message::new(data, 0);
    let mut packets = 0;
    while packets < 8 {
        let start = trace.clone();
        match trace.next() {
            Some(Ok((1, Wire::Bytes(inner)))) => {
                let mut packet = Message::new(inner, 0);
                while let Some(field) = packet.next() {
                    if !field.is_ok_and(|(number, _)| number < 3000) {
                        return false;
                    }
                }
                packets += 1;
            }
            None => break,
            // A file that was cut inside of a packet, behind whole ones.
            Some(Err(_)) => return packets > 0 && start.offset() < data.len() as u64,
            Some(Ok(_)) => return false,
        }
    }
    packets > 0
}

/// How an event's fields are numbered.
#[derive(Clone, Debug)]
struct Numbered {
    schema: usize,
    /// Place + 1 of each field number, for the low numbers that events use.
    places: Vec<u16>,
}

/// Field numbers beyond this are not kept.
const MAX_FIELD_NUMBER: u32 = 256;

/// The pid of the parent of all kthreads (init/main.c:rest_init(), v6.12).
const KTHREADD: u64 = 2;

impl Numbered {
    fn place(&self, field: u32) -> Option<usize> {
        self.places.get(field as usize).filter(|&&place| place != 0).map(|&place| usize::from(place) - 1)
    }

    fn set(&mut self, field: u32, place: usize) {
        if field < MAX_FIELD_NUMBER && place < usize::from(u16::MAX) {
            if self.places.len() <= field as usize {
                self.places.resize(field as usize + 1, 0);
            }
            self.places[field as usize] = place as u16 + 1;
        }
    }
}

/// Packets, decompressed where they were not plain.
struct Packet<'a> {
    data: Cow<'a, [u8]>,
    base: u64,
    /// Of how many compressed packets it came out.
    depth: u32,
}

/// A bundle of one CPU's events: which packet, and where in it.
#[derive(Clone, Copy, Debug)]
struct Bundle {
    packet: usize,
    start: usize,
    len: usize,
}

/// A Perfetto trace that is open for reading.
pub(crate) struct Perfetto<'a> {
    /// The mapped file that the first packet is.
    file: Option<&'a Data>,
    packets: Vec<Packet<'a>>,
    bundles: BTreeMap<u32, Vec<Bundle>>,
    meta: Meta,
    schemas: Vec<Schema>,
    numbered: Vec<Numbered>,
    /// Place in `numbered`, by event number.
    by_number: HashMap<u32, usize>,
    /// The same + 1 for low numbers, which all but generic events have.
    low_numbers: Vec<u32>,
    /// The schemas' names, numbered as they are.
    names: Strings,
    tasks: BTreeMap<i32, Vec<u8>>,
    processes: BTreeMap<i32, i32>,
    /// Names and subsystems of power rails, by number.
    rails: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    /// Readings of meters, with their times.
    readings: Vec<(u64, Reading)>,
    problems: Vec<Error>,
    /// Whether events get a field of their `common_flags`.
    common_fields: bool,
}

/// A reading of a meter of the device.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// Number of the rail and its energy since the boot in uJ.
    Rail { number: u64, energy_uj: u64 },
    /// `charge_counter_uah`, `current_ua`, `current_avg_ua`.
    Battery([Option<i64>; 3]),
}

/// How much of a mapped file is read between two times that it is given back.
const RELEASE_BYTES: usize = 32 << 20;

/// More readings than a day of ten rails at 10 Hz has are damage.
const READINGS_MAX: usize = 1 << 23;

/// Where `part` lies in `whole`; both are slices of one allocation.
fn range_in(whole: &[u8], part: &[u8]) -> (usize, usize) {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    if start <= whole.len() && part.len() <= whole.len() - start { (start, part.len()) } else { (0, 0) }
}

impl<'a> Perfetto<'a> {
    /// `file`: where `data` are mapped.
    pub(crate) fn open(data: &'a [u8], file: Option<&'a Data>, budget: Budget) -> Self {
        let mut this = Self {
            file,
            packets: Vec::new(),
            bundles: BTreeMap::new(),
            meta: Meta { format: "perfetto", clock: "boot".into(), buffers: vec![String::new()], ..Meta::default() },
            schemas: Vec::new(),
            numbered: Vec::new(),
            by_number: HashMap::new(),
            low_numbers: vec![0; 1024],
            names: Strings::default(),
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            rails: BTreeMap::new(),
            readings: Vec::new(),
            problems: Vec::new(),
            common_fields: false,
        };
        let mut budget = budget;
        this.packets.push(Packet { data: Cow::Borrowed(data), base: 0, depth: 0 });
        let mut at = 0;
        // Compressed packets are appended as sequences of packets of their own.
        while at < this.packets.len() {
            this.index(at, &mut budget);
            at += 1;
        }
        this.readings.sort_by_key(|&(time, _)| time);
        let cpus = this.bundles.keys().next_back().map_or(0, |cpu| cpu + 1);
        this.meta.cpus = this.meta.cpus.max(cpus);
        this
    }

    fn problem(&mut self, error: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(error);
        }
    }

    /// Finds the bundles in one sequence of packets.
    fn index(&mut self, place: usize, budget: &mut Budget) {
        let Packet { base, depth, .. } = self.packets[place];
        // Out of `self` while `self` learns from it.
        let data = std::mem::replace(&mut self.packets[place].data, Cow::Borrowed(&[]));
        let whole: &[u8] = &data;
        let mut trace = Message::new(whole, base);
        let mut released = 0;
        while let Some(field) = trace.next() {
            let inner = match field {
                Ok((1, Wire::Bytes(inner))) => inner,
                Ok(_) => continue,
                Err(error) => {
                    self.problem(error);
                    break;
                }
            };
            let offset = base + range_in(whole, inner).0 as u64;
            if let Some(file) = self.file.filter(|_| place == 0 && offset as usize > released + RELEASE_BYTES) {
                file.release(released, offset as usize);
                released = offset as usize;
            }
            let mut message = Message::new(inner, offset);
            let (mut time_ns, first) = (0, self.readings.len());
            while let Some(field) = message.next() {
                match field {
                    Ok((packet::TIMESTAMP, value)) => time_ns = value.uint(),
                    Ok((packet::POWER_RAILS, Wire::Bytes(bytes))) => self.read_rails(bytes),
                    Ok((packet::BATTERY, Wire::Bytes(bytes))) => self.read_battery(bytes),
                    Ok((packet::FTRACE_EVENTS, Wire::Bytes(bytes))) => self.index_bundle(place, base, whole, bytes),
                    Ok((packet::PROCESS_TREE, Wire::Bytes(bytes))) => self.read_process_tree(bytes),
                    Ok((packet::SYSTEM_INFO, Wire::Bytes(bytes))) => self.read_system_info(bytes, offset),
                    Ok((packet::COMPRESSED, Wire::Bytes(bytes))) => {
                        self.inflate(bytes, offset, depth + 1, budget, "zlib")
                    }
                    Ok((packet::ZSTD_COMPRESSED, Wire::Bytes(bytes))) => {
                        self.inflate(bytes, offset, depth + 1, budget, "zstd");
                    }
                    Ok(_) => {}
                    Err(error) => self.problem(error),
                }
            }
            // What has no time of its own has that of its packet, which may stand behind it.
            for (time, _) in self.readings[first..].iter_mut().filter(|(time, _)| *time == 0) {
                *time = time_ns;
            }
            if let Some(&(late, _)) = self.readings[first..].iter().find(|&&(time, _)| time > TIME_MAX_NS) {
                self.problem(Error::Invalid { offset, what: too_late(late) });
                let mut nth = 0;
                self.readings.retain(|&(time, _)| {
                    nth += 1;
                    nth <= first || time <= TIME_MAX_NS
                });
            }
        }
        self.packets[place].data = data;
    }

    /// `PowerRails {1 descriptor {1 index, 2 name, 3 subsystem}, 2 data {1 index, 2 time in ms, 3 energy in uWs}}`.
    fn read_rails(&mut self, bytes: &[u8]) {
        let mut message = Message::new(bytes, 0);
        while let Some((field, value)) = message.field() {
            let mut inner = Message::new(value.bytes(), 0);
            let (mut number, mut time_ms, mut energy_uj) = (0, 0, None);
            let (mut name, mut subsystem) = (&bytes[..0], &bytes[..0]);
            while let Some((part, value)) = inner.field() {
                match (field, part) {
                    (_, 1) => number = value.uint(),
                    (1, 2) => name = value.bytes(),
                    (1, 3) => subsystem = value.bytes(),
                    (2, 2) => time_ms = value.uint(),
                    (2, 3) => energy_uj = Some(value.uint()),
                    _ => {}
                }
            }
            if field == 1 && self.rails.len() < 4096 {
                self.rails.insert(number, (name.to_vec(), subsystem.to_vec()));
            }
            if let Some(energy_uj) = energy_uj.filter(|_| field == 2 && self.readings.len() < READINGS_MAX) {
                let time_ns = time_ms.saturating_mul(1_000_000);
                self.readings.push((time_ns, Reading::Rail { number, energy_uj }));
            }
        }
    }

    /// `BatteryCounters {1 charge_counter_uah, 3 current_ua, 4 current_avg_ua}`.
    fn read_battery(&mut self, bytes: &[u8]) {
        let mut values = [None; 3];
        let mut message = Message::new(bytes, 0);
        while let Some((field, value)) = message.field() {
            let place = match field {
                1 => 0,
                3 => 1,
                4 => 2,
                _ => continue,
            };
            values[place] = Some(value.uint() as i64);
        }
        if self.readings.len() < READINGS_MAX {
            self.readings.push((0, Reading::Battery(values)));
        }
    }

    /// Delivers one reading as event `power_rail` or `battery`.
    fn deliver_reading(
        &mut self,
        (time_ns, reading): (u64, Reading),
        wanted: &mut Wanted,
        options: &ReadOptions,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let uint = Kind::Int { signed: false, hex: false };
        let int = Kind::Int { signed: true, hex: false };
        let (name, fields) = match reading {
            Reading::Rail { .. } => {
                ("power_rail", [("name", Kind::Str), ("subsystem", Kind::Str), ("energy_uj", uint)])
            }
            Reading::Battery(_) => ("battery", [("charge_uah", int), ("current_ua", int), ("current_avg_ua", int)]),
        };
        let index = self.named(name.as_bytes(), "perfetto");
        let schema = &mut self.schemas[index];
        if schema.fields.is_empty() {
            let field = |(name, kind): (&str, Kind)| FieldDef { name: name.into(), kind, loc: Loc::Value };
            schema.fields.extend(fields.map(field));
        }
        let schema = &self.schemas[index];
        if !wanted.wants(schema, options) || !options.in_range(time_ns) {
            return ControlFlow::Continue(());
        }
        let values = match reading {
            Reading::Rail { number, energy_uj } => {
                let (name, subsystem) = self.rails.get(&number).map_or((&b"?"[..], &b""[..]), |(a, b)| (a, b));
                [Value::Str(name), Value::Str(subsystem), Value::U64(energy_uj)]
            }
            Reading::Battery(values) => values.map(|value| value.map_or(Value::Null, Value::I64)),
        };
        let body = Body::Values(&values);
        sink.event(&Event { schema, time_ns, cpu: 0, pid: 0, comm: None, buffer: 0, text: &[], body })
    }

    fn inflate(&mut self, bytes: &[u8], offset: u64, depth: u32, budget: &mut Budget, codec: &'static str) {
        let result = budget.check_packet_depth(depth, offset, codec).and_then(|()| match codec {
            "zstd" => budget.read(bytes, crate::codec::zstd, offset, codec),
            _ => budget.read(bytes, |bytes| Ok(flate2::bufread::ZlibDecoder::new(bytes)), offset, codec),
        });
        match result {
            Ok((out, damage)) => {
                damage.into_iter().for_each(|what| self.problem(Error::Compression { offset, codec, what }));
                self.meta.compression = codec.into();
                self.packets.push(Packet { data: Cow::Owned(out), base: offset, depth });
            }
            Err(error) => self.problem(error),
        }
    }

    fn index_bundle(&mut self, packet: usize, base: u64, whole: &[u8], bytes: &[u8]) {
        let (mut cpu, mut events) = (0u64, false);
        let (start, len) = range_in(whole, bytes);
        let mut message = Message::new(bytes, 0);
        while let Some((number, value)) = message.field() {
            match number {
                bundle::CPU => cpu = value.uint(),
                bundle::EVENT | bundle::COMPACT | bundle::LOST => events = true,
                bundle::CLOCK => {
                    let clocks = ["boot", "boot", "global", "local", "mono_raw"];
                    self.meta.clock = (*clocks.get(value.uint() as usize).unwrap_or(&"unknown")).to_string();
                }
                bundle::DESCRIPTORS => self.read_descriptor(value.bytes()),
                _ => {}
            }
        }
        let cpu = match u32::try_from(cpu) {
            Ok(cpu) if cpu < MAX_CPUS => cpu,
            _ => {
                let what = format!("events of CPU {cpu}, which no machine has; they are left out");
                return self.problem(Error::Invalid { offset: base + start as u64, what });
            }
        };
        if events {
            self.bundles.entry(cpu).or_default().push(Bundle { packet, start, len });
        }
    }

    /// `GenericEventDescriptor`: number, protobuf descriptor and group of an event without a message of its own.
    fn read_descriptor(&mut self, bytes: &[u8]) {
        let (mut number, mut descriptor, mut group) = (0, &bytes[..0], &bytes[..0]);
        let mut message = Message::new(bytes, 0);
        while let Some((field, value)) = message.field() {
            match field {
                1 => number = value.uint() as u32,
                2 => descriptor = value.bytes(),
                3 => group = value.bytes(),
                _ => {}
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (mut name, mut fields) = (String::new(), Vec::new());
        // google.protobuf.DescriptorProto: 1 name, 2 field {1 name, 3 number, 5 type}.
        let mut message = Message::new(descriptor, 0);
        while let Some((field, value)) = message.field() {
            match field {
                1 => name = text(value.bytes()),
                2 => {
                    let (mut field_name, mut field_number, mut ty) = (String::new(), 0, 0);
                    let mut inner = Message::new(value.bytes(), 0);
                    while let Some((field, value)) = inner.field() {
                        match field {
                            1 => field_name = text(value.bytes()),
                            3 => field_number = value.uint() as u32,
                            5 => ty = value.uint(),
                            _ => {}
                        }
                    }
                    let kind = match ty {
                        9 => Kind::Str,
                        12 => Kind::Bytes,
                        3 | 5 | 15..=18 => Kind::Int { signed: true, hex: false },
                        _ => Kind::Int { signed: false, hex: false },
                    };
                    fields.push((field_number, field_name, kind));
                }
                _ => {}
            }
        }
        if number != 0 && !name.is_empty() && !self.by_number.contains_key(&number) {
            self.define(number, &name, &text(group), fields);
        }
    }

    /// Makes a schema; a name that exists gets its fields together.
    fn define(&mut self, number: u32, name: &str, system: &str, fields: Vec<(u32, String, Kind)>) -> usize {
        let index = self.named(name.as_bytes(), system);
        let schema = &mut self.schemas[index];
        let mut numbered = Numbered { schema: index, places: Vec::new() };
        for (field_number, field_name, kind) in fields {
            let place = schema.field_index(&field_name).unwrap_or_else(|| {
                schema.fields.push(FieldDef { name: field_name, kind, loc: Loc::Value });
                schema.fields.len() - 1
            });
            numbered.set(field_number, place);
        }
        let slot = self.numbered.len();
        self.numbered.push(numbered);
        self.by_number.insert(number, slot);
        if let Some(low) = self.low_numbers.get_mut(number as usize) {
            *low = slot as u32 + 1;
        }
        slot
    }

    /// The schema called `name`, new or known.
    fn named(&mut self, name: &[u8], system: &str) -> usize {
        let index = self.names.intern(name) as usize;
        if index == self.schemas.len() {
            self.schemas.push(Schema {
                index,
                name: String::from_utf8_lossy(name).into_owned(),
                system: system.to_string(),
                fields: Vec::new(),
                fixed_size: 0,
            });
        }
        index
    }

    /// Where in `numbered` the event with this number is; it is defined from the table when it is first met.
    #[inline]
    fn slot(&mut self, number: u32) -> usize {
        match self.low_numbers.get(number as usize) {
            Some(&slot) if slot != 0 => slot as usize - 1,
            _ => self.find_slot(number),
        }
    }

    #[cold]
    fn find_slot(&mut self, number: u32) -> usize {
        if let Some(&slot) = self.by_number.get(&number) {
            return slot;
        }
        let key = number.to_string();
        let line = EVENTS.lines().find(|line| line.split(' ').next() == Some(&key));
        let mut words = line.unwrap_or("").split(' ').skip(1);
        let name = words.next().map_or_else(|| format!("ftrace_event_{number}"), str::to_string);
        let fields = words.filter_map(parse_field).collect();
        self.define(number, &name, "", fields)
    }

    fn read_process_tree(&mut self, bytes: &[u8]) {
        let mut message = Message::new(bytes, 0);
        while let Some((field, value)) = message.field() {
            let (mut pid, mut process, mut name, mut parent) = (None, None, &bytes[..0], 0);
            let mut inner = Message::new(value.bytes(), 0);
            match field {
                // Process {1 pid, 2 ppid, 3 cmdline}: the name is what the first word ends with, and of a kthread, which has no
                // command, the whole word.
                1 => {
                    while let Some((field, value)) = inner.field() {
                        match field {
                            1 => pid = Some(value.uint() as i32),
                            2 => parent = value.uint(),
                            3 if name.is_empty() => name = value.bytes(),
                            _ => {}
                        }
                    }
                    if parent != KTHREADD {
                        name = name.rsplit(|&b| b == b'/').next().unwrap_or(&[]);
                    }
                }
                // Thread {1 tid, 2 name, 3 tgid}.
                2 => {
                    while let Some((field, value)) = inner.field() {
                        match field {
                            1 => pid = Some(value.uint() as i32),
                            2 => name = value.bytes(),
                            3 => process = Some(value.uint() as i32),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            if let Some((pid, process)) = pid.zip(process.or(pid)) {
                self.processes.insert(pid, process);
            }
            if let Some(pid) = pid.filter(|_| !name.is_empty()) {
                self.tasks.entry(pid).or_insert_with(|| own_name(name).to_vec());
            }
        }
    }

    fn read_system_info(&mut self, bytes: &[u8], offset: u64) {
        let mut message = Message::new(bytes, 0);
        let mut uname = Vec::new();
        while let Some((field, value)) = message.field() {
            match field {
                // Utsname {1 sysname, 2 version, 3 release, 4 machine}.
                1 => {
                    let mut inner = Message::new(value.bytes(), 0);
                    while let Some((number, value)) = inner.field() {
                        uname.push((number, String::from_utf8_lossy(value.bytes()).into_owned()));
                    }
                }
                4 => self.meta.writer = format!("perfetto {}", String::from_utf8_lossy(value.bytes())),
                8 if value.uint() <= u64::from(MAX_CPUS) => self.meta.cpus = value.uint() as u32,
                8 => self.problem(Error::Invalid { offset, what: format!("{} CPUs", value.uint()) }),
                _ => {}
            }
        }
        if !uname.is_empty() {
            uname.sort_by_key(|&(number, _)| [0, 0, 2, 1, 3].get(number as usize).copied().unwrap_or(9));
            self.meta.uname = uname.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ");
        }
    }
}

/// `3s:name` of the table.
fn parse_field(word: &str) -> Option<(u32, String, Kind)> {
    let (head, name) = word.split_once(':')?;
    let (number, ty) = head.split_at(head.len().checked_sub(1)?);
    let kind = match ty {
        "s" if matches!(name, "buf" | "trace_name") => Kind::Text,
        "s" => Kind::Str,
        "b" => Kind::Bytes,
        _ => Kind::Int { signed: ty == "i", hex: matches!(name, "ip" | "function" | "work" | "caller" | "func") },
    };
    Some((number.parse().ok()?, name.to_string(), kind))
}

/// Perfetto's numbers of one event, for the writer.
pub(crate) struct EventNumbers {
    pub(crate) number: u32,
    fields: Vec<(u32, String, Kind)>,
}

impl EventNumbers {
    /// The numbers of event `name`, if Perfetto has a message for it whose fields are known here.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let line = EVENTS.lines().find(|line| line.split(' ').nth(1) == Some(name) && !line.starts_with('#'))?;
        let mut words = line.split(' ');
        let number = words.next()?.parse().ok()?;
        let fields: Vec<_> = words.skip(1).filter_map(parse_field).collect();
        (!fields.is_empty()).then_some(Self { number, fields })
    }

    pub(crate) fn field(&self, name: &str) -> Option<u32> {
        self.fields.iter().find(|(_, field, _)| field == name).map(|(number, ..)| *number)
    }
}

/// One event of a bundle before it is decoded.
#[derive(Clone, Copy)]
enum Item {
    /// `FtraceEvent` at this place of the bundle.
    Event(usize, usize),
    /// Row of the compact switches.
    Switch(usize),
    /// Row of the compact wake-ups.
    Waking(usize),
}

/// Columns of `CompactSched`.
#[derive(Default)]
struct Compact {
    names: Vec<(usize, usize)>,
    columns: [Vec<u64>; 13],
}

/// The task that a CPU runs, as far as compact switches show it.
#[derive(Clone, Copy, Default)]
struct Running {
    pid: i64,
    prio: i64,
    /// Packet of the name, and where in it.
    comm: Option<(usize, usize, usize)>,
}

/// One CPU's bundles as a stream.
struct CpuBundles<'b> {
    cpu: u32,
    bundles: std::slice::Iter<'b, Bundle>,
    current: Option<Bundle>,
    items: Vec<(u64, Item)>,
    next: usize,
    compact: Compact,
    running: Option<Running>,
    lost: bool,
}

impl CpuBundles<'_> {
    /// Loads bundles until one has events; gives the time of the next event.
    fn peek(&mut self, packets: &[Packet<'_>], problems: &mut Vec<Error>) -> Option<u64> {
        while self.next >= self.items.len() {
            let bundle = *self.bundles.next()?;
            self.load(bundle, packets, problems);
        }
        Some(self.items[self.next].0)
    }

    fn load(&mut self, place: Bundle, packets: &[Packet<'_>], problems: &mut Vec<Error>) {
        let packet = &packets[place.packet];
        let bytes = &packet.data[place.start..place.start + place.len];
        self.items.clear();
        self.next = 0;
        self.current = Some(place);
        self.compact = Compact::default();
        let mut message = Message::new(bytes, packet.base + place.start as u64);
        while let Some(field) = message.next() {
            match field {
                Ok((bundle::EVENT, Wire::Bytes(event))) => {
                    let (start, len) = range_in(bytes, event);
                    let mut inner = Message::new(event, 0);
                    let mut time = 0;
                    while let Some((number, value)) = inner.field() {
                        if number == 1 {
                            time = value.uint();
                            break;
                        }
                    }
                    self.items.push((time, Item::Event(start, len)));
                }
                Ok((bundle::LOST, value)) => self.lost |= value.uint() != 0,
                Ok((bundle::COMPACT, Wire::Bytes(compact))) => {
                    let mut inner = Message::new(compact, 0);
                    while let Some((number, value)) = inner.field() {
                        match number {
                            5 => self.compact.names.push(range_in(bytes, value.bytes())),
                            1..=12 => repeated(value, &mut self.compact.columns[number as usize]),
                            _ => {}
                        }
                    }
                }
                Ok(_) => {}
                Err(error) if problems.len() < MAX_PROBLEMS => problems.push(error),
                Err(_) => {}
            }
        }
        // Times are differences, the first is whole.
        for (column, item) in [(1, Item::Switch as fn(usize) -> Item), (7, Item::Waking)] {
            let mut time = 0u64;
            for (row, delta) in self.compact.columns[column].iter().enumerate() {
                time = time.wrapping_add(*delta);
                self.items.push((time, item(row)));
            }
        }
        self.items.sort_by_key(|&(time, _)| time);
        let sound = self.items.partition_point(|&(time, _)| time <= TIME_MAX_NS);
        for (time, item) in self.items.drain(sound..) {
            let start = if let Item::Event(start, _) = item { start } else { 0 };
            if problems.len() < MAX_PROBLEMS {
                let offset = packet.base + (place.start + start) as u64;
                problems.push(Error::Invalid { offset, what: too_late(time) });
            }
        }
    }

    /// Where the next event is in the file.
    fn offset(&self, packets: &[Packet<'_>]) -> u64 {
        let start = if let Some((_, Item::Event(start, _))) = self.items.get(self.next) { *start } else { 0 };
        self.current.map_or(0, |bundle| packets[bundle.packet].base + (bundle.start + start) as u64)
    }
}

impl Reader for Perfetto<'_> {
    fn about(&self) -> About<'_> {
        About { meta: &self.meta, schemas: &self.schemas, tasks: &self.tasks }
    }

    fn processes(&self) -> BTreeMap<i32, i32> {
        self.processes.clone()
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        let mut outcome = Outcome { problems: std::mem::take(&mut self.problems), ..Outcome::default() };
        self.common_fields = options.common_fields;
        let packets = std::mem::take(&mut self.packets);
        let bundles = std::mem::take(&mut self.bundles);
        let mut cpus: Vec<CpuBundles<'_>> = bundles
            .iter()
            .map(|(&cpu, bundles)| CpuBundles {
                cpu,
                bundles: bundles.iter(),
                current: None,
                items: Vec::new(),
                next: 0,
                compact: Compact::default(),
                running: None,
                lost: false,
            })
            .collect();
        let mut heap = BinaryHeap::new();
        for (place, cpu) in cpus.iter_mut().enumerate() {
            if let Some(time) = cpu.peek(&packets, &mut outcome.problems) {
                heap.push(Reverse((time, place)));
            }
        }
        let (mut wanted, mut values) = (Wanted::default(), Vec::new());
        let (mut released, mut asked, mut clock) = (0, 0, Clock::default());
        let readings = std::mem::take(&mut self.readings);
        let mut next_reading = readings.iter().peekable();
        while let Some(mut first) = heap.peek_mut() {
            let Reverse((mut time, place)) = *first;
            while let Some(&reading) = next_reading.next_if(|(of, _)| *of <= time) {
                outcome.stopped |= self.deliver_reading(reading, &mut wanted, options, sink).is_break();
            }
            if outcome.stopped {
                break;
            }
            let cpu = &mut cpus[place];
            if std::mem::take(&mut cpu.lost) {
                outcome.missed.push(Missed { cpu: cpu.cpu, time_ns: time, count: None });
            }
            if let Some(odd) = clock.odd(time) {
                if outcome.problems.len() < MAX_PROBLEMS {
                    outcome.problems.push(Error::Invalid { offset: cpu.offset(&packets), what: odd.what });
                }
                time = odd.time_ns.unwrap_or(time);
            }
            let decoded = self.decode_next(cpu, &packets, &mut values);
            let delivered = match decoded {
                Ok(Some((index, pid))) if wanted.wants(&self.schemas[index], options) && options.in_range(time) => {
                    let body = Body::Values(&values);
                    let (schema, cpu) = (&self.schemas[index], cpu.cpu);
                    sink.event(&Event { schema, time_ns: time, cpu, pid, comm: None, buffer: 0, text: &[], body })
                }
                Ok(_) => ControlFlow::Continue(()),
                Err(error) => {
                    if outcome.problems.len() < MAX_PROBLEMS {
                        outcome.problems.push(error);
                    }
                    ControlFlow::Continue(())
                }
            };
            if delivered.is_break() {
                outcome.stopped = true;
                break;
            }
            cpu.next += 1;
            let at = cpu.current.filter(|bundle| bundle.packet == 0).map_or(0, |bundle| bundle.start);
            if let Some(file) = self.file.filter(|_| at > asked + RELEASE_BYTES) {
                // No further than the CPU that is furthest behind.
                let starts = cpus.iter().filter(|cpu| cpu.next < cpu.items.len()).filter_map(|cpu| cpu.current);
                let end = starts.filter(|bundle| bundle.packet == 0).map(|bundle| bundle.start).fold(at, usize::min);
                if end > released {
                    file.release(released, end);
                    released = end;
                }
                asked = at;
            }
            match cpus[place].peek(&packets, &mut outcome.problems) {
                Some(time) => *first = Reverse((time, place)),
                None => drop(PeekMut::pop(first)),
            }
        }
        for &reading in next_reading {
            outcome.stopped = outcome.stopped || self.deliver_reading(reading, &mut wanted, options, sink).is_break();
        }
        self.readings = readings;
        drop(cpus);
        (self.packets, self.bundles) = (packets, bundles);
        if !outcome.stopped {
            options.check_names(&self.schemas)?;
        }
        Ok(outcome)
    }
}

/// Which schemas the options want, asked once each.
#[derive(Default)]
struct Wanted {
    by_schema: Vec<Option<bool>>,
}

impl Wanted {
    fn wants(&mut self, schema: &Schema, options: &ReadOptions) -> bool {
        if self.by_schema.len() <= schema.index {
            self.by_schema.resize(schema.index + 1, None);
        }
        *self.by_schema[schema.index].get_or_insert_with(|| options.wants(schema))
    }
}

fn int(value: Option<u64>) -> Value<'static> {
    value.map_or(Value::Null, |value| Value::I64(value as i64))
}

/// Puts `value` at `place`, making room.
fn put<'v>(values: &mut Vec<Value<'v>>, place: usize, value: Value<'v>) {
    if values.len() <= place {
        values.resize(place + 1, Value::Null);
    }
    values[place] = value;
}

/// Number of `sched_switch` and of `sched_waking` in the table.
const SCHED_SWITCH: u32 = 4;
const SCHED_WAKING: u32 = 20;

impl Perfetto<'_> {
    /// Decodes the next event of `cpu` into `values`; gives its schema and pid, or `None` if it is no event.
    fn decode_next<'p>(
        &mut self,
        cpu: &mut CpuBundles<'_>,
        packets: &'p [Packet<'_>],
        values: &mut Vec<Value<'p>>,
    ) -> Result<Option<(usize, i32)>> {
        values.clear();
        let (_, item) = cpu.items[cpu.next];
        let Some(place) = cpu.current else { return Ok(None) };
        let packet = &packets[place.packet];
        let bytes = &packet.data[place.start..place.start + place.len];
        match item {
            Item::Event(start, len) => {
                let base = packet.base + (place.start + start) as u64;
                let decoded = self.decode(&bytes[start..start + len], base, values)?;
                if let Some((index, _)) = decoded
                    && let Some(running) = switched_to(&self.schemas[index], values)
                {
                    cpu.running = Some(running);
                }
                Ok(decoded)
            }
            Item::Switch(row) => {
                let column = |n: usize| cpu.compact.columns[n].get(row).copied();
                let name = column(6).and_then(|i| cpu.compact.names.get(i as usize)).copied();
                let next_comm = name.map(|(start, len)| &bytes[start..start + len]);
                let (next_pid, next_prio) = (column(3), column(4));
                let before = cpu.running;
                let next = Running {
                    pid: next_pid.unwrap_or(0) as i64,
                    prio: next_prio.unwrap_or(0) as i64,
                    comm: name.map(|(start, len)| (place.packet, place.start + start, len)),
                };
                let prev_state = column(2);
                cpu.running = Some(next);
                if let Some(name) = next_comm
                    && next.pid != 0
                    && !self.tasks.contains_key(&(next.pid as i32))
                {
                    self.tasks.insert(next.pid as i32, name.to_vec());
                }
                let prev_comm =
                    before.and_then(|b| b.comm).map(|(packet, at, len)| &packets[packet].data[at..at + len]);
                let row = [
                    prev_comm.map_or(Value::Null, Value::Str),
                    before.map_or(Value::Null, |b| Value::I64(b.pid)),
                    before.map_or(Value::Null, |b| Value::I64(b.prio)),
                    int(prev_state),
                    next_comm.map_or(Value::Null, Value::Str),
                    int(next_pid),
                    int(next_prio),
                ];
                Ok(Some((self.numbered_row(SCHED_SWITCH, row, values), before.map_or(0, |b| b.pid as i32))))
            }
            Item::Waking(row) => {
                let column = |n: usize| cpu.compact.columns[n].get(row).copied();
                let name = column(11).and_then(|i| cpu.compact.names.get(i as usize));
                let comm = name.map_or(Value::Null, |&(start, len)| Value::Str(&bytes[start..start + len]));
                let row = [comm, int(column(8)), int(column(10)), Value::Null, int(column(9))];
                Ok(Some((self.numbered_row(SCHED_WAKING, row, values), cpu.running.map_or(0, |b| b.pid as i32))))
            }
        }
    }

    /// Puts the values of fields 1, 2, … of event `number` at their places; gives the schema.
    fn numbered_row<'v, const N: usize>(
        &mut self,
        number: u32,
        row: [Value<'v>; N],
        values: &mut Vec<Value<'v>>,
    ) -> usize {
        let slot = self.slot(number);
        let numbered = &self.numbered[slot];
        for (field, value) in (1..).zip(row) {
            if let Some(place) = numbered.place(field) {
                put(values, place, value);
            }
        }
        numbered.schema
    }

    /// Decodes an `FtraceEvent`; `None` if it holds no event.
    fn decode<'v>(&mut self, bytes: &'v [u8], base: u64, values: &mut Vec<Value<'v>>) -> Result<Option<(usize, i32)>> {
        let (mut pid, mut flags, mut found) = (0, None, None);
        let mut message = Message::new(bytes, base);
        while let Some(field) = message.next() {
            match field? {
                (1, _) => {}
                (5, value) => flags = Some(value.uint()).filter(|_| self.common_fields),
                (2, value) => pid = value.uint() as i32,
                (number, Wire::Bytes(inner)) => found = Some((number, inner)),
                _ => {}
            }
        }
        let Some((number, inner)) = found else { return Ok(None) };
        let index = match number {
            GENERIC => self.generic(inner, values),
            KPROBE => self.kprobe(inner, values),
            _ => self.fields(number, inner, base, values)?,
        };
        if let Some(flags) = flags {
            let schema = &mut self.schemas[index];
            let place = schema.field_index(HEAD_FIELDS[0]).unwrap_or_else(|| {
                let kind = Kind::Int { signed: false, hex: false };
                schema.fields.push(FieldDef { name: HEAD_FIELDS[0].into(), kind, loc: Loc::Value });
                schema.fields.len() - 1
            });
            put(values, place, Value::U64(flags));
        }
        Ok(Some((index, pid)))
    }

    fn fields<'v>(&mut self, number: u32, inner: &'v [u8], base: u64, values: &mut Vec<Value<'v>>) -> Result<usize> {
        let slot = self.slot(number);
        let index = self.numbered[slot].schema;
        values.resize(self.schemas[index].fields.len(), Value::Null);
        let mut message = Message::new(inner, base);
        while let Some(field) = message.next() {
            let (field_number, value) = field?;
            let place = match self.numbered[slot].place(field_number) {
                Some(place) => place,
                None => match self.unknown_field(slot, field_number, value) {
                    Some(place) => place,
                    None => continue,
                },
            };
            let value = match (self.schemas[index].fields[place].kind, value) {
                (Kind::Str | Kind::Text, Wire::Bytes(text)) => Value::Str(text.strip_suffix(b"\n").unwrap_or(text)),
                (_, Wire::Bytes(bytes)) => Value::Bytes(bytes),
                (Kind::Int { signed: true, .. }, value) => Value::I64(value.uint() as i64),
                (_, value) => Value::U64(value.uint()),
            };
            put(values, place, value);
        }
        Ok(index)
    }

    /// A field that the table does not have: named by its number.
    #[cold]
    fn unknown_field(&mut self, slot: usize, field: u32, value: Wire<'_>) -> Option<usize> {
        if field >= MAX_FIELD_NUMBER {
            return None;
        }
        let schema = &mut self.schemas[self.numbered[slot].schema];
        let kind = match value {
            Wire::Bytes(_) => Kind::Str,
            _ => Kind::Int { signed: false, hex: false },
        };
        schema.fields.push(FieldDef { name: format!("field_{field}"), kind, loc: Loc::Value });
        let place = schema.fields.len() - 1;
        self.numbered[slot].set(field, place);
        Some(place)
    }

    /// `GenericFtraceEvent {1 event_name, 2 field {1 name, 3 string, 4 signed, 5 unsigned}}`.
    fn generic<'v>(&mut self, inner: &'v [u8], values: &mut Vec<Value<'v>>) -> usize {
        let mut message = Message::new(inner, 0);
        let mut name = &inner[..0];
        while let Some((field, value)) = message.field() {
            if field == 1 {
                name = value.bytes();
                break;
            }
        }
        let index = self.named(name, "");
        let mut message = Message::new(inner, 0);
        let mut nth = 0;
        while let Some((field, value)) = message.field() {
            if field != 2 {
                continue;
            }
            let (mut key, mut content, mut kind) = (&inner[..0], Value::Null, Kind::Str);
            let mut pair = Message::new(value.bytes(), 0);
            while let Some((field, value)) = pair.field() {
                match field {
                    1 => key = value.bytes(),
                    3 => content = Value::Str(value.bytes()),
                    4 => (content, kind) = (Value::I64(value.uint() as i64), Kind::Int { signed: true, hex: false }),
                    5 => (content, kind) = (Value::U64(value.uint()), Kind::Int { signed: false, hex: false }),
                    _ => {}
                }
            }
            let fields = &mut self.schemas[index].fields;
            // Fields come in the order in which they came before.
            let place = match fields.get(nth) {
                Some(field) if field.name.as_bytes() == key => nth,
                _ => match fields.iter().position(|field| field.name.as_bytes() == key) {
                    Some(place) => place,
                    None if fields.len() >= MAX_FIELD_NUMBER as usize => continue,
                    None => {
                        let name = String::from_utf8_lossy(key).into_owned();
                        fields.push(FieldDef { name, kind, loc: Loc::Value });
                        fields.len() - 1
                    }
                },
            };
            nth = place + 1;
            put(values, place, content);
        }
        index
    }

    /// `KprobeEvent {1 name, 2 type}`.
    fn kprobe<'v>(&mut self, inner: &'v [u8], values: &mut Vec<Value<'v>>) -> usize {
        let mut name = &inner[..0];
        let mut message = Message::new(inner, 0);
        while let Some((field, value)) = message.field() {
            match field {
                1 => name = value.bytes(),
                2 => put(values, 0, Value::U64(value.uint())),
                _ => {}
            }
        }
        let index = self.named(name, "kprobes");
        let schema = &mut self.schemas[index];
        if schema.fields.is_empty() {
            let kind = Kind::Int { signed: false, hex: false };
            schema.fields.push(FieldDef { name: "type".into(), kind, loc: Loc::Value });
        }
        index
    }
}

/// The task that a plain `sched_switch` event starts; its name is not needed before the next compact one, and then unknown.
fn switched_to(schema: &Schema, values: &[Value<'_>]) -> Option<Running> {
    if schema.name != "sched_switch" {
        return None;
    }
    let get = |place: usize| match values.get(place) {
        Some(Value::I64(value)) => *value,
        _ => 0,
    };
    Some(Running { pid: get(5), prio: get(6), comm: None })
}
