//! Perfetto protobuf: kernel events as ftrace bundles, and tracks of counters, slices and flows beside them.
//!
//! Kernel events that Perfetto has a message for are written with it, all others as generic events with their field names.
//! Numbers of the track messages are those of Perfetto 0.59 (`TrackEvent`, `TrackDescriptor`, `DebugAnnotation`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{HEAD_FIELDS, all_tasks, head_value, rows_in_time, value_at};
use crate::event::Value;
use crate::perfetto::EventNumbers;
use crate::render::task_state_bits;
use crate::wire::Encoder;
use crate::{Field, Table, Trace, clock};

/// Events in one bundle: enough to make its head cheap, few enough to stream.
const BUNDLE: usize = 1024;
/// The sequence that our track events belong to.
const SEQUENCE: u64 = 1;
/// `BUILTIN_CLOCK_BOOTTIME`, which kernel events use too.
const CLOCK_BOOT: u64 = 6;

mod packet {
    pub(super) const FTRACE_EVENTS: u32 = 1;
    pub(super) const PROCESS_TREE: u32 = 2;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const CLOCK_ID: u32 = 58;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// A track of a [`PerfettoWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackId(u64);

/// A value beside a slice or an instant.
#[derive(Clone, Debug, PartialEq)]
pub enum Annotation<'a> {
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A real number.
    Real(f64),
    /// A text.
    Text(&'a str),
}

/// Builds a Perfetto trace piece by piece: kernel events of a [`Trace`], and tracks of counters, slices, instants and flows.
#[derive(Default)]
pub struct PerfettoWriter {
    out: Encoder,
    tracks: u64,
    /// The process of threads that are not their own.
    processes: BTreeMap<i32, i32>,
}

impl PerfettoWriter {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    fn packet(&mut self, packet: &Encoder) {
        self.out.message(1, packet);
    }

    /// Names a process and its threads, whose names and events follow with [`Self::add_trace`].
    pub fn process(&mut self, pid: i32, name: &str, threads: impl IntoIterator<Item = i32>) {
        self.processes.extend(threads.into_iter().map(|thread| (thread, pid)));
        let mut process = Encoder::default();
        process.uint(1, pid as u64).bytes(3, name.as_bytes());
        let mut tree = Encoder::default();
        tree.message(1, &process);
        let mut packet = Encoder::default();
        packet.message(packet::PROCESS_TREE, &tree);
        self.packet(&packet);
    }

    /// Adds all events of `trace`, and the names of its tasks.
    pub fn add_trace(&mut self, trace: &Trace) {
        let mut tree = Encoder::default();
        for (pid, name) in all_tasks(trace) {
            let process = self.processes.get(&pid).or(trace.processes.get(&pid));
            let mut thread = Encoder::default();
            thread.uint(1, pid as u64).bytes(2, &name).uint(3, process.copied().unwrap_or(pid) as u64);
            tree.message(2, &thread);
        }
        if !tree.bytes.is_empty() {
            let mut packet = Encoder::default();
            packet.message(packet::PROCESS_TREE, &tree);
            self.packet(&packet);
        }
        let plans: Vec<Plan> = trace.tables.iter().map(Plan::new).collect();
        // Each CPU's events in bundles of their own.
        let mut bundles: Vec<(Encoder, usize)> = Vec::new();
        let mut missed = trace.missed.iter().peekable();
        for (place, time) in rows_in_time(trace) {
            let table = &trace.tables[place.table];
            let cpu = table.cpu.get(place.row) as usize;
            if bundles.len() <= cpu {
                bundles.resize_with(cpu + 1, Default::default);
            }
            while let Some(gap) = missed.next_if(|gap| gap.time_ns <= time) {
                let lost = gap.cpu as usize;
                if let Some((bundle, count)) = bundles.get_mut(lost) {
                    let full = std::mem::take(bundle);
                    *count = 0;
                    self.bundle(lost, &full);
                    bundles[lost].0.uint(3, 1);
                }
            }
            let (bundle, count) = &mut bundles[cpu];
            bundle.message(2, &plans[place.table].event(trace, table, place.row, time));
            *count += 1;
            if *count == BUNDLE {
                let full = std::mem::take(bundle);
                *count = 0;
                self.bundle(cpu, &full);
            }
        }
        for (cpu, (bundle, _)) in bundles.iter().enumerate() {
            self.bundle(cpu, bundle);
        }
    }

    fn bundle(&mut self, cpu: usize, content: &Encoder) {
        if content.bytes.is_empty() {
            return;
        }
        let mut bundle = Encoder::default();
        bundle.uint(1, cpu as u64);
        bundle.bytes.extend_from_slice(&content.bytes);
        let mut packet = Encoder::default();
        packet.message(packet::FTRACE_EVENTS, &bundle);
        self.packet(&packet);
    }

    fn describe(&mut self, name: &str, parent: Option<TrackId>, counter_unit: Option<&str>) -> TrackId {
        self.tracks += 1;
        let id = TrackId(self.tracks);
        let mut track = Encoder::default();
        track.uint(1, id.0).bytes(2, name.as_bytes());
        if let Some(parent) = parent {
            track.uint(5, parent.0);
        }
        if let Some(unit) = counter_unit {
            let mut counter = Encoder::default();
            counter.bytes(6, unit.as_bytes());
            track.message(8, &counter);
        }
        let mut packet = Encoder::default();
        packet.uint(packet::SEQUENCE_ID, SEQUENCE).message(packet::TRACK_DESCRIPTOR, &track);
        self.packet(&packet);
        id
    }

    /// A track for slices and instants.
    pub fn track(&mut self, name: &str, parent: Option<TrackId>) -> TrackId {
        self.describe(name, parent, None)
    }

    /// A track for a counter in `unit`.
    pub fn counter_track(&mut self, name: &str, unit: &str, parent: Option<TrackId>) -> TrackId {
        self.describe(name, parent, Some(unit))
    }

    fn track_event(&mut self, time_ns: u64, event: &Encoder) {
        let mut packet = Encoder::default();
        packet.uint(packet::TIMESTAMP, time_ns).uint(packet::CLOCK_ID, CLOCK_BOOT);
        packet.uint(packet::SEQUENCE_ID, SEQUENCE).message(packet::TRACK_EVENT, event);
        self.packet(&packet);
    }

    /// The counter's value from `time_ns` on.
    pub fn counter(&mut self, track: TrackId, time_ns: u64, value: i64) {
        let mut event = Encoder::default();
        event.uint(9, 4).uint(11, track.0).uint(30, value as u64);
        self.track_event(time_ns, &event);
    }

    /// The counter's value from `time_ns` on, as a real number.
    pub fn counter_real(&mut self, track: TrackId, time_ns: u64, value: f64) {
        let mut event = Encoder::default();
        event.uint(9, 4).uint(11, track.0).fixed64(44, value.to_bits());
        self.track_event(time_ns, &event);
    }

    /// Something without a length.
    pub fn instant(
        &mut self,
        track: TrackId,
        time_ns: u64,
        name: &str,
        notes: &[(&str, Annotation<'_>)],
        flows: &[u64],
    ) {
        let mut event = Encoder::default();
        event.uint(9, 3).uint(11, track.0).bytes(23, name.as_bytes());
        for (key, value) in notes {
            let mut note = Encoder::default();
            match value {
                Annotation::Int(value) => note.uint(4, *value as u64),
                Annotation::Uint(value) => note.uint(3, *value),
                Annotation::Real(value) => note.fixed64(5, value.to_bits()),
                Annotation::Text(text) => note.bytes(6, text.as_bytes()),
            };
            note.bytes(10, key.as_bytes());
            event.message(4, &note);
        }
        for &flow in flows {
            event.fixed64(47, flow);
        }
        self.track_event(time_ns, &event);
    }

    /// The trace's bytes.
    pub fn finish(self) -> Vec<u8> {
        self.out.bytes
    }
}

/// Whether a field is one of an event's head.
fn is_of_head(field: &Field) -> bool {
    HEAD_FIELDS.contains(&field.name.as_str())
}

/// How the events of a table are written.
struct Plan {
    /// Perfetto's number of the event and of each field; `None`: a generic event.
    known: Option<(u32, Vec<Option<u32>>)>,
}

impl Plan {
    fn new(table: &Table) -> Self {
        let name = if table.name == "tracing_mark_write" { "print" } else { &table.name };
        let known = EventNumbers::of(name).map(|numbers| {
            let fields = table.fields.iter().map(|field| numbers.field(&field.name)).collect();
            (numbers.number, fields)
        });
        // A message that lacks one of the fields would lose it.
        let is_written = |(number, field): (&Option<u32>, &Field)| number.is_some() || is_of_head(field);
        let known =
            known.filter(|(_, fields): &(u32, Vec<Option<u32>>)| fields.iter().zip(&table.fields).all(is_written));
        Self { known }
    }

    fn event(&self, trace: &Trace, table: &Table, row: usize, time_ns: u64) -> Encoder {
        let mut event = Encoder::roomy();
        event.uint(1, time_ns).uint(2, table.pid.get(row) as u64);
        if let Some(flags) = head_value(table, HEAD_FIELDS[0], row) {
            event.uint(5, flags.into());
        }
        let mut inner = Encoder::roomy();
        match &self.known {
            Some((number, fields)) => {
                for (place, field) in fields.iter().enumerate() {
                    let Some(field) = *field else { continue };
                    match value_at(trace, table, place, row) {
                        Value::I64(value) => inner.uint(field, value as u64),
                        Value::U64(value) => inner.uint(field, value),
                        Value::Str(text) if table.fields[place].name == "prev_state" => {
                            inner.uint(field, task_state_bits(&String::from_utf8_lossy(text)).unwrap_or(0))
                        }
                        // The address of a printing function, which a text gives by name.
                        Value::Str(_) if table.fields[place].name == "ip" => continue,
                        Value::Str(text) if table.fields[place].name == "buf" => {
                            inner.bytes(field, &[text, b"\n"].concat())
                        }
                        Value::Str(text) => inner.bytes(field, text),
                        Value::Bytes(bytes) => inner.bytes(field, bytes),
                        _ => continue,
                    };
                }
                event.message(*number, &inner);
            }
            None => {
                inner.bytes(1, table.name.as_bytes());
                let mut pair = Encoder::roomy();
                for (place, field) in table.fields.iter().enumerate().filter(|(_, field)| !is_of_head(field)) {
                    pair.bytes.clear();
                    pair.bytes(1, field.name.as_bytes());
                    match value_at(trace, table, place, row) {
                        Value::I64(value) => pair.uint(4, value as u64),
                        Value::U64(value) => pair.uint(5, value),
                        Value::Str(text) => pair.bytes(3, text),
                        _ if !field.is_valid(row) => continue,
                        _ => {
                            let mut text = Vec::new();
                            crate::render::value(trace, table, place, row, &mut text);
                            pair.bytes(3, &text)
                        }
                    };
                    inner.message(2, &pair);
                }
                event.message(crate::perfetto::GENERIC, &inner);
            }
        }
        event
    }
}

/// Writes the kernel events of `trace` as a Perfetto trace; use [`PerfettoWriter`] to add tracks.
///
/// # Errors
/// If writing fails, or the trace's clock does not count ns: the format has no such clock.
pub fn perfetto(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    if let Some(unit) = clock::unit_of(&trace.meta.clock) {
        let text = format!(
            "a Perfetto trace has times in ns, those of clock {} are {unit}: export it as text or trace.dat",
            trace.meta.clock
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut writer = PerfettoWriter::new();
    writer.add_trace(trace);
    out.write_all(&writer.finish())
}
