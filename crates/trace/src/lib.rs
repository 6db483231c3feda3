//! Kernel traces in and out: `trace.dat`, ftrace text, systrace HTML, Perfetto protobuf and raw ring-buffer pages become typed
//! columns, or a stream of events in time order, without any other program.
//!
//! ```no_run
//! use opplab_trace::{ReadOptions, TraceFile};
//! let trace = TraceFile::open("trace.dat".as_ref())?.read(&ReadOptions::default())?;
//! for table in &trace.tables {
//!     println!("{}: {} rows", table.name, table.len());
//! }
//! # Ok::<(), opplab_trace::Error>(())
//! ```
//!
//! The only crate that knows the wire formats of traces; it does not interpret what the events mean, except in [`render`].
//! Input is untrusted: any bytes give a result or an error, never a panic.

mod bprint;
mod bytes;
mod clock;
mod codec;
mod error;
mod event;
mod format;
mod input;
mod order;
mod pages;
mod perfdata;
mod perfetto;
mod quick;
mod reader;
mod recording;
pub mod render;
mod ring;
mod schedbt;
mod table;
mod tabulate;
mod text;
mod tracedat;
mod wire;
pub mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use input::{Budget, OuterDamage};
use tabulate::Pieces;

pub use error::{Error, Result, nearest_name};
pub use event::{BySchema, Event, FieldDef, Kind, RawList, Schema, Sink, Value};
pub use input::{Data, UnpackLimits, read_whole};
pub use reader::{About, IN_INTERRUPT, Meta, Outcome, ReadOptions, Reader};
pub use recording::RecordingFiles;
pub use ring::Missed;
pub use table::{Column, Field, IntColumn, Strings, Table, VarBytes};
pub use tabulate::{Columns, Counter, TaskNames};
pub use text::markers;

/// An open reader, or why there is none.
type Opened<'a> = Result<Box<dyn Reader + 'a>>;

/// How a format is recognised and opened.
struct Format {
    sniff: fn(&[u8]) -> bool,
    open: for<'a> fn(&'a Data, Budget, &ReadOptions) -> Opened<'a>,
}

/// All formats, the ones with the surest marks first.
const READERS: &[Format] = &[
    Format {
        sniff: tracedat::sniff,
        open: |data, budget, options| Ok(Box::new(tracedat::TraceDat::open(data, Some(data), budget, options)?)),
    },
    Format {
        sniff: perfdata::sniff,
        open: |data, budget, options| Ok(Box::new(perfdata::PerfData::open(data, Some(data), budget, options)?)),
    },
    Format {
        sniff: perfetto::sniff,
        open: |data, budget, _| Ok(Box::new(perfetto::Perfetto::open(data, Some(data), budget))),
    },
    Format {
        sniff: pages::sniff_tar,
        open: |data, budget, options| {
            let files = pages::tar_files(data);
            // What `opplab host record` writes: a trace.dat with the machine's snapshots beside it.
            if let Some((_, file)) = files.iter().find(|(_, content)| tracedat::sniff(content)) {
                return Ok(Box::new(tracedat::TraceDat::open(file, None, budget, options)?));
            }
            match files.iter().find(|(_, content)| schedbt::sniff(content)) {
                Some((_, log)) => Ok(Box::new(schedbt::SchedBt::open(log))),
                None => Ok(Box::new(pages::Pages::open(&files, options)?)),
            }
        },
    },
    Format { sniff: schedbt::sniff, open: |data, _, _| Ok(Box::new(schedbt::SchedBt::open(data))) },
    Format { sniff: text::sniff, open: |data, _, _| Ok(Box::new(text::Text::open(data, Some(data)))) },
    Format {
        sniff: pages::sniff_pages,
        open: |data, _, options| Ok(Box::new(pages::Pages::open_single(data, options)?)),
    },
];

/// A trace file that is mapped (or unpacked into memory) and waits to be read.
pub struct TraceFile {
    data: Data,
    /// The files of a folder of ring-buffer pages, instead of `data`.
    folder: Vec<(String, Data)>,
    /// What was damaged in the outer compression.
    outer: Option<OuterDamage>,
    /// What compressed parts inside may still expand to.
    budget: Budget,
}

/// A trace as columns.
#[derive(Debug)]
pub struct Trace {
    /// The trace's facts about itself.
    pub meta: Meta,
    /// One table an event that occurred, by name.
    pub tables: Vec<Table>,
    /// The strings that the tables refer to.
    pub strings: Strings,
    /// Names of tasks by pid, as far as the format has such a list.
    pub tasks: BTreeMap<i32, Vec<u8>>,
    /// Process of each thread, as far as the format has it.
    pub processes: BTreeMap<i32, i32>,
    /// Where the kernel lost events.
    pub missed: Vec<Missed>,
    /// What was damaged; the tables hold everything that could be read.
    pub problems: Vec<Error>,
    /// The order in which the events happened: many may have the same time.
    pub order: order::Order,
}

/// What a first pass over a trace learns.
struct FirstPass {
    meta: Meta,
    tasks: BTreeMap<i32, Vec<u8>>,
    processes: BTreeMap<i32, i32>,
    missed: Vec<Missed>,
    problems: Vec<Error>,
    /// Number of events.
    total: u64,
}

/// Number of events by name, and the time that they cover.
#[derive(Debug)]
pub struct Info {
    /// The trace's facts about itself.
    pub meta: Meta,
    /// Number of events by name.
    pub events: BTreeMap<String, u64>,
    /// Time of the first event.
    pub start_ns: u64,
    /// Time from the first to the last event.
    pub duration_ns: u64,
    /// Where the kernel lost events.
    pub missed: Vec<Missed>,
    /// What was damaged.
    pub problems: Vec<Error>,
}

impl TraceFile {
    /// Opens the file at `path`, or the folder of ring-buffer pages and their formats; nothing is decoded yet, but a compressed file is unpacked.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// As [`TraceFile::open`], with a limit on what an outer compression may expand to.
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<Self> {
        if path.is_dir() {
            let folder = input::map_folder(path, &pages::is_used)?;
            if folder.is_empty() {
                let known =
                    ["trace.dat", "perf.data", "trace.txt", "trace.html", "trace.pftrace", "trace.perfetto-trace"];
                let inside = known.into_iter().find(|name| path.join(name).is_file());
                return Err(Error::Folder { inside: inside.map(|name| path.join(name).display().to_string()) });
            }
            let budget = options.unpack.budget(0);
            return Ok(Self { data: Data::Owned(Vec::new()), folder, outer: None, budget });
        }
        let (data, budget, outer) = input::unpack(input::map(path)?, &options.unpack)?;
        Ok(Self { data, folder: Vec::new(), outer, budget })
    }

    /// Takes the content of a trace file.
    pub fn from_bytes(bytes: Vec<u8>, options: &ReadOptions) -> Result<Self> {
        let (data, budget, outer) = input::unpack(Data::Owned(bytes), &options.unpack)?;
        Ok(Self { data, folder: Vec::new(), outer, budget })
    }

    /// The reader for this content: for streaming, and for metadata without events.
    pub fn reader(&self, options: &ReadOptions) -> Result<Box<dyn Reader + '_>> {
        let data: &[u8] = &self.data;
        if !self.folder.is_empty() {
            let files: Vec<(String, &[u8])> =
                self.folder.iter().map(|(name, data)| (name.clone(), &data[..])).collect();
            return Ok(Box::new(pages::Pages::open(&files, options)?));
        }
        match READERS.iter().find(|format| (format.sniff)(data)) {
            Some(format) => (format.open)(&self.data, self.budget, options),
            None => {
                let start = data[..data.len().min(16)].escape_ascii().to_string();
                Err(Error::NotATrace { start: if start.is_empty() { "nothing: it is empty".into() } else { start } })
            }
        }
    }

    /// What is wrong with the file as a whole: its outer compression, and a clock that counts no time.
    fn whole_problems(&self, meta: &Meta) -> impl Iterator<Item = Error> {
        let outer = self.outer.clone().map(|(codec, what)| Error::Compression { offset: 0, codec, what });
        let clock = clock::unit_of(&meta.clock).map(|unit| Error::Unsupported {
            what: format!("its clock {} counts {unit}: what stands here as s and ns are {unit}", meta.clock),
        });
        outer.into_iter().chain(clock)
    }

    /// Delivers events in time order to `sink`, in bounded memory.
    pub fn stream(&self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        self.stream_reader(&mut *self.reader(options)?, options, sink)
    }

    /// As [`TraceFile::stream`], by a reader that [`TraceFile::reader`] gave: it knows tasks and processes afterwards.
    pub fn stream_reader(
        &self,
        reader: &mut dyn Reader,
        options: &ReadOptions,
        sink: &mut dyn Sink,
    ) -> Result<Outcome> {
        let mut outcome = reader.stream(options, sink)?;
        outcome.problems.extend(self.whole_problems(reader.meta()));
        Ok(outcome)
    }

    /// Delivers events in time order to a sink that `make` makes; gives it with the reader.
    fn stream_into<S: Sink>(
        &self,
        options: &ReadOptions,
        make: impl Fn(&dyn Reader) -> S,
    ) -> Result<(Box<dyn Reader + '_>, S, Outcome)> {
        let mut reader = self.reader(options)?;
        let mut sink = make(&*reader);
        if let Some(mut outcome) = reader.stream_once(options, &mut sink)? {
            outcome.problems.extend(self.whole_problems(reader.meta()));
            return Ok((reader, sink, outcome));
        }
        let mut reader = self.reader(options)?;
        let mut sink = make(&*reader);
        let outcome = self.stream_reader(&mut *reader, options, &mut sink)?;
        Ok((reader, sink, outcome))
    }

    /// Reads the events that `options` ask for into columns.
    pub fn read(self, options: &ReadOptions) -> Result<Trace> {
        let (reader, columns, outcome) =
            self.stream_into(options, |reader| Columns::new(reader.meta().buffers.len() > 1))?;
        let Outcome { problems, missed, .. } = outcome;
        let (tables, strings, order) = columns.finish();
        let (meta, tasks, processes) = (reader.meta().clone(), reader.tasks().clone(), reader.processes());
        Ok(Trace { meta, tables, strings, tasks, processes, missed, problems, order })
    }

    /// Reads the events that `options` ask for piece by piece, each of at most `events_max` events in order of time, for
    /// traces that are larger than the memory. `each` gets the piece and the number of events in all pieces together.
    /// What was damaged is given back; the pieces do not have it.
    pub fn read_pieces(
        self,
        options: &ReadOptions,
        events_max: usize,
        each: &mut dyn FnMut(Trace, u64) -> ControlFlow<()>,
    ) -> Result<Vec<Error>> {
        let first = self.first_pass(options)?;
        self.each_piece(options, &first, events_max, each)?;
        Ok(first.problems)
    }

    /// Writes the events that `options` ask for as a trace.dat to `path`, with at most `events_max` of them in memory; the
    /// file `scratch` holds pages until all are there. Contexts are written where they are known. What was damaged is given back.
    pub fn write_trace_dat(
        self,
        options: &ReadOptions,
        events_max: usize,
        path: &Path,
        scratch: &Path,
    ) -> Result<Vec<Error>> {
        let options = &ReadOptions { common_fields: true, ..options.clone() };
        let first = self.first_pass(options)?;
        let mut layout = write::TraceDatLayout::default();
        self.each_piece(options, &first, events_max, &mut |piece, _| {
            layout.add(&piece);
            ControlFlow::Continue(())
        })?;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { path, source }
        };
        let pages = File::options().read(true).write(true).create(true).truncate(true).open(scratch);
        let mut pages = pages.map_err(failed(scratch))?;
        let mut out = BufWriter::new(File::create(path).map_err(failed(path))?);
        let mut writer = write::TraceDatWriter::new(layout, Some(&mut pages));
        let mut written = Ok(());
        self.each_piece(options, &first, events_max, &mut |piece, _| {
            written = writer.piece(&piece);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written.map_err(failed(scratch))?;
        writer.finish(&mut out).and_then(|()| out.flush()).map_err(failed(path))?;
        Ok(first.problems)
    }

    /// Learns what a reader only knows at the end: gaps, tasks, CPUs.
    fn first_pass(&self, options: &ReadOptions) -> Result<FirstPass> {
        let (reader, counter, outcome) = self.stream_into(options, |_| Counter::default())?;
        let Outcome { problems, missed, .. } = outcome;
        let (meta, tasks, processes) = (reader.meta().clone(), reader.tasks().clone(), reader.processes());
        let total = counter.counts.iter().map(|(_, count)| count).sum();
        Ok(FirstPass { meta, tasks, processes, missed, problems, total })
    }

    /// Gives the events piece by piece.
    fn each_piece(
        &self,
        options: &ReadOptions,
        first: &FirstPass,
        events_max: usize,
        each: &mut dyn FnMut(Trace, u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut missed = first.missed.iter().cloned().peekable();
        let mut given = 0;
        let mut give = |(tables, strings, order): (Vec<Table>, Strings, order::Order), last_ns: u64| {
            given += tables.iter().map(Table::len).sum::<usize>() as u64;
            let all = given == first.total;
            let missed = std::iter::from_fn(|| missed.next_if(|gap| all || gap.time_ns <= last_ns)).collect();
            let (meta, tasks, processes) = (first.meta.clone(), first.tasks.clone(), first.processes.clone());
            let problems = Vec::new();
            each(Trace { meta, tables, strings, tasks, processes, missed, problems, order }, first.total)
        };
        let columns = Columns::new(first.meta.buffers.len() > 1);
        let (before, events_max) = (order::Moment::default(), events_max.max(1));
        let mut pieces = Pieces { each: &mut give, columns, before, moment: before, events: 0, events_max, last_ns: 0 };
        let outcome = self.reader(options)?.stream(options, &mut pieces)?;
        if !outcome.stopped && (pieces.events > 0 || first.total == 0) {
            let _ = pieces.flush();
        }
        Ok(())
    }

    /// Counts the events that `options` ask for.
    pub fn info(&self, options: &ReadOptions) -> Result<Info> {
        let (reader, counter, outcome) = self.stream_into(options, |_| Counter::default())?;
        let Outcome { problems, missed, .. } = outcome;
        let events = counter.counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let (start_ns, end_ns) = counter.span_ns.unwrap_or_default();
        let duration_ns = end_ns - start_ns;
        let mut meta = reader.meta().clone();
        if counter.span_ns.is_some() {
            // Formats without a header may have less than their events do.
            meta.cpus = meta.cpus.max(counter.cpu_max.saturating_add(1));
        }
        Ok(Info { meta, events, start_ns, duration_ns, missed, problems })
    }
}

/// In a simulated run's trace the timer of CPU `n`'s tick has this address and `n`, and no function.
pub const TICK_TIMER: u64 = 0xffff_9000_0000_0000;

/// What stands before the half-life of load tracking, in ms, in the mark at the start of a simulated run's trace.
pub const HALF_LIFE_MARK: &str = "opplab: pelt_half_life_ms=";

/// What stands before the policy of a simulated run, as JSON of crate `model`, in the mark at the start of its trace.
pub const POLICY_MARK: &str = "opplab: policy ";

/// What stands before what decided in the kernel's place in a simulated run, and its name, in marks at the start of its trace:
/// `governor Mine`, `placement Mine`. The trace has what these asked for, not how they decide.
pub const IN_PLACE_MARK: &str = "opplab: in place of the kernel's ";

/// What stands before a task's pid and settings in marks of a simulated run's trace: `util_min=300 util_max=1024` (`-`: not set),
/// or the CPUs that it may use, `cpus=0,4` (`-`: all), or `dl_runtime_ns=1000000 dl_deadline_ns=5000000 dl_period_ns=5000000 dl_reclaim=0`. No event of the kernel has them.
pub const SETTINGS_MARK: &str = "opplab: task ";

/// In a simulated run's trace: what a governor sees of CPU `cpu_id`, where it changed since the last such event; the other fields are
/// those of crate `kernel`'s `CpuFacts`.
pub const CPU_FACTS: &str = "cpu_facts";

impl Trace {
    /// The table of event `name`.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The name of the task with this pid: from the trace's list, `<idle>` for 0, `<...>` if unknown, as in trace-cmd.
    pub fn comm_of(&self, pid: i32) -> Cow<'_, str> {
        match self.tasks.get(&pid) {
            Some(name) => String::from_utf8_lossy(name),
            None if pid == 0 => "<idle>".into(),
            None => "<...>".into(),
        }
    }

    /// The task's name at `row` of `table`.
    pub fn comm<'a>(&'a self, table: &'a Table, row: usize) -> Cow<'a, str> {
        match &table.comm {
            Some(numbers) => self.strings.text(numbers[row]),
            None => self.comm_of(table.pid.get(row) as i32),
        }
    }

    /// Time from the first to the last event.
    pub fn duration_ns(&self) -> u64 {
        let first = self.tables.iter().filter_map(|t| t.time_ns.iter().min()).min();
        let last = self.tables.iter().filter_map(|t| t.time_ns.iter().max()).max();
        first.zip(last).map_or(0, |(first, last)| last - first)
    }
}
