//! Traces out: ftrace text, a `trace.dat` that trace-cmd opens, and Perfetto protobuf.
//!
//! Writers take a [`Trace`], wherever it came from: read from a file, or made by a simulation with [`TraceBuilder`].

mod perfetto;
mod text;
mod tracedat;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub use perfetto::{Annotation, PerfettoWriter, TrackId, perfetto};
pub use text::{ftrace_head, ftrace_lines, ftrace_piece, ftrace_text};
pub use tracedat::{TraceDatLayout, TraceDatWriter, repeat_trace_dat, trace_dat};

use crate::event::{Body, Event, FieldDef, Kind, Loc, Schema, Sink, Value};
pub use crate::order::Order;
pub(crate) use crate::order::{HEAD_FIELDS, value_at};
use crate::reader::Meta;
use crate::tabulate::Columns;
use crate::{Table, Trace};

/// A row of a trace: table and row in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Place in [`Trace::tables`].
    pub table: usize,
    /// Row of that table.
    pub row: usize,
}

/// All rows of a trace in the order in which they happened.
pub fn rows_in_order(trace: &Trace) -> Vec<Row> {
    let mut rows = vec![0; trace.tables.len()];
    let numbered = trace.order.tables.iter().map(|&table| {
        let table = table as usize;
        rows[table] += 1;
        Row { table, row: rows[table] - 1 }
    });
    numbered.collect()
}

/// All rows in order, each with the time that is written for it.
pub(crate) fn rows_in_time(trace: &Trace) -> impl Iterator<Item = (Row, u64)> {
    let mut moment = trace.order.before;
    rows_in_order(trace).into_iter().map(move |place| {
        let table = &trace.tables[place.table];
        (place, moment.of(table.time_ns[place.row], table.cpu.get(place.row) as u32))
    })
}

/// The value of one of [`HEAD_FIELDS`] at `row`; `None` if it is not known.
pub(crate) fn head_value(table: &Table, name: &str, row: usize) -> Option<u8> {
    let field = table.field(name).filter(|field| field.is_valid(row))?;
    if let crate::Column::Int(values) = &field.column { Some(values.get_u64(row) as u8) } else { None }
}

/// Names of tasks by pid: the trace's list, and the last names written beside events.
pub(crate) fn all_tasks(trace: &Trace) -> BTreeMap<i32, Vec<u8>> {
    let mut last: BTreeMap<i32, (u64, u32)> = BTreeMap::new();
    for table in &trace.tables {
        for (row, &number) in table.comm.iter().flatten().enumerate() {
            let (pid, time_ns) = (table.pid.get(row) as i32, table.time_ns[row]);
            if pid != 0 && !trace.strings.get(number).starts_with(b"<") {
                let seen = last.entry(pid).or_insert((time_ns, number));
                *seen = (time_ns, number).max(*seen);
            }
        }
    }
    let named = last.into_iter().map(|(pid, (_, number))| (pid, trace.strings.get(number).to_vec()));
    named.chain(trace.tasks.clone()).collect()
}

/// Makes a [`Trace`] event by event; what a simulation uses.
///
/// ```
/// use opplab_trace::{Kind, Value, write::TraceBuilder};
/// let mut builder = TraceBuilder::new(2);
/// let unsigned = Kind::Int { signed: false, hex: false };
/// let freq = builder.event("power", "cpu_frequency", &[("state", unsigned), ("cpu_id", unsigned)]);
/// builder.push(freq, 1_000_000, 0, 0, &[Value::U64(1_800_000), Value::U64(0)]);
/// let trace = builder.finish();
/// assert_eq!(trace.table("cpu_frequency").unwrap().int("state").unwrap().to_u64(), [1_800_000]);
/// ```
pub struct TraceBuilder {
    schemas: Vec<Schema>,
    columns: Columns,
    meta: Meta,
    tasks: BTreeMap<i32, Vec<u8>>,
}

/// An event of a [`TraceBuilder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(usize);

impl TraceBuilder {
    /// A trace of `cpus` CPUs.
    pub fn new(cpus: u32) -> Self {
        let meta =
            Meta { format: "built", cpus, clock: "global".into(), buffers: vec![String::new()], ..Meta::default() };
        Self { schemas: Vec::new(), columns: Columns::new(false), meta, tasks: BTreeMap::new() }
    }

    /// Declares an event with its fields.
    pub fn event(&mut self, system: &str, name: &str, fields: &[(&str, Kind)]) -> EventId {
        let index = self.schemas.len();
        let fields = fields.iter().map(|&(name, kind)| FieldDef { name: name.into(), kind, loc: Loc::Value }).collect();
        self.schemas.push(Schema { index, name: name.into(), system: system.into(), fields, fixed_size: 0 });
        EventId(index)
    }

    /// Names a task.
    pub fn task(&mut self, pid: i32, name: &str) {
        self.tasks.insert(pid, name.as_bytes().to_vec());
    }

    /// Appends an event; the values are those of its fields in order. Time must not go back.
    pub fn push(&mut self, event: EventId, time_ns: u64, cpu: u32, pid: i32, values: &[Value<'_>]) {
        let schema = &self.schemas[event.0];
        assert!(values.len() <= schema.fields.len(), "{} has {} fields", schema.name, schema.fields.len());
        let body = Body::Values(values);
        let event = Event { schema, time_ns, cpu, pid, comm: None, buffer: 0, text: &[], body };
        let flow = self.columns.event(&event);
        assert!(flow == ControlFlow::Continue(()));
    }

    /// The trace.
    pub fn finish(self) -> Trace {
        let (tables, strings, order) = self.columns.finish();
        let (missed, problems, processes) = (Vec::new(), Vec::new(), BTreeMap::new());
        Trace { meta: self.meta, tables, strings, tasks: self.tasks, processes, missed, problems, order }
    }
}
