//! One interface over all formats: bytes in, events in time order out.
//!
//! To add a format: write a module with a sniffer and a type that implements [`Reader`], and add one line to `READERS`.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::event::{Schema, Sink};
use crate::input::UnpackLimits;
use crate::ring::Missed;

/// Of `common_flags`: in an interrupt or a softirq (TRACE_FLAG_HARDIRQ and TRACE_FLAG_SOFTIRQ, include/linux/trace_events.h).
pub const IN_INTERRUPT: i64 = 0x08 | 0x10;

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Names of the events to keep (`name` or `system:name`); `None` keeps all. Others are skipped before they are decoded.
    pub events: Option<Vec<String>>,
    /// Events that are not in `events` are given, too, but a text's without their fields: who needs but their times saves most of the work.
    pub others_bare: bool,
    /// If false, a name in `events` that the trace does not know is an error.
    pub missing_ok: bool,
    /// Keep events of this time only: from the first number, up to but not including the second.
    pub time_range_ns: Option<(u64, u64)>,
    /// Also make columns of `common_flags` and `common_preempt_count`, where the trace has them.
    pub common_fields: bool,
    /// Format files for raw pages that come without: event group and content.
    pub formats: Vec<(String, String)>,
    /// What compressed content may expand to.
    pub unpack: UnpackLimits,
}

impl ReadOptions {
    /// Keeps only the named events.
    pub fn only(events: &[&str]) -> Self {
        Self { events: Some(events.iter().map(|&name| name.to_string()).collect()), ..Self::default() }
    }

    /// True if an event with this name and group is to be kept.
    pub(crate) fn wants(&self, schema: &Schema) -> bool {
        self.others_bare || self.names(schema)
    }

    /// True if an event with this name and group is to be kept with its fields.
    pub(crate) fn names(&self, schema: &Schema) -> bool {
        self.events.as_ref().is_none_or(|names| names.iter().any(|name| matches_name(schema, name)))
    }

    pub(crate) fn in_range(&self, time_ns: u64) -> bool {
        self.time_range_ns.is_none_or(|(from, to)| (from..to).contains(&time_ns))
    }

    /// Checks that every requested name is known.
    pub(crate) fn check_names(&self, schemas: &[Schema]) -> Result<()> {
        let names = self.events.iter().flatten().filter(|_| !self.missing_ok);
        for name in names {
            if !schemas.iter().any(|schema| matches_name(schema, name)) {
                let nearest = crate::error::nearest_name(name, schemas.iter().map(|s| s.name.as_str()));
                return Err(Error::UnknownEvent { name: name.clone(), nearest });
            }
        }
        Ok(())
    }
}

fn matches_name(schema: &Schema, name: &str) -> bool {
    schema.name == name
        || name.split_once(':').is_some_and(|(system, plain)| {
            schema.system == system
                && schema
                    .name
                    .strip_prefix(system)
                    .map_or(schema.name == plain, |n| n == &name[system.len()..] || schema.name == plain)
        })
}

/// More CPUs than any kernel is built for are damage.
pub(crate) const MAX_CPUS: u32 = 1 << 16;

/// A trace's facts about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// `trace.dat`, `perf.data`, `ftrace text`, `systrace HTML`, `perfetto`, `ring-buffer pages` or `bpftrace log`.
    pub format: &'static str,
    /// Version of the format; 0 if it has none.
    pub version: u32,
    /// Number of CPUs that were traced.
    pub cpus: u32,
    /// Bytes of a `long` on the traced machine; 0 if unknown.
    pub long_size: u8,
    /// Byte order of the traced machine.
    pub big_endian: bool,
    /// Bytes of a ring-buffer page; 0 if unknown.
    pub page_size: u32,
    /// Name of the trace clock; empty if unknown.
    pub clock: String,
    /// What was added to the trace clock to get `time_ns` (trace-cmd's `--date` and offset options).
    pub time_offset_ns: i64,
    /// `uname -a` of the traced machine; empty if unknown.
    pub uname: String,
    /// Who wrote the file; empty if unknown.
    pub writer: String,
    /// Compression inside of the format; empty if none.
    pub compression: String,
    /// Names of the buffers; the first is the top-level one, with an empty name.
    pub buffers: Vec<String>,
    /// `per_cpu/cpuN/stats` of each CPU, as text.
    pub cpu_stats: Vec<String>,
}

impl Meta {
    /// The word of `uname` that is the kernel's release (`6.12.43-1-lts`), and the first two numbers of it.
    pub fn kernel_release(&self) -> Option<(&str, (u16, u16))> {
        self.uname.split_whitespace().find_map(|word| {
            let mut numbers = word.split(['.', '-', '+']).map_while(|part| part.parse().ok());
            Some((word, (numbers.next()?, numbers.next()?)))
        })
    }
}

/// How a reading ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was damaged; everything else has been delivered.
    pub problems: Vec<Error>,
    /// Where the kernel lost events.
    pub missed: Vec<Missed>,
    /// The sink stopped the reader.
    pub stopped: bool,
}

/// What a trace has beside its events.
pub struct About<'a> {
    /// Its facts about itself; formats without a header learn some of it while they stream.
    pub meta: &'a Meta,
    /// The events' formats; formats without format files learn them while they stream.
    pub schemas: &'a [Schema],
    /// Names of tasks by pid, as far as the format has such a list.
    pub tasks: &'a BTreeMap<i32, Vec<u8>>,
}

/// A trace that is open for reading.
pub trait Reader {
    /// What the trace has beside its events.
    fn about(&self) -> About<'_>;

    /// The trace's facts about itself.
    fn meta(&self) -> &Meta {
        self.about().meta
    }

    /// The events' formats.
    fn schemas(&self) -> &[Schema] {
        self.about().schemas
    }

    /// Names of tasks by pid.
    fn tasks(&self) -> &BTreeMap<i32, Vec<u8>> {
        self.about().tasks
    }

    /// The process (thread group) of each task, as far as the format has it.
    fn processes(&self) -> BTreeMap<i32, i32> {
        BTreeMap::new()
    }

    /// Delivers the events that `options` ask for, in time order, in bounded memory.
    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome>;

    /// As [`Reader::stream`], for a sink that can be thrown away: a reader that cannot know beforehand whether the trace is
    /// in time order need not look. `None` if it is not; the sink then has a part of the events, and all are to be read
    /// again by a new reader.
    fn stream_once(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Option<Outcome>> {
        self.stream(options, sink).map(Some)
    }
}
