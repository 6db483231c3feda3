//! The sink that turns events into tables.
//!
//! Binary records are gathered a batch at a time and decoded column by column, so that the inner loops know the type and the
//! place of what they read; everything else is appended value by value.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::bytes::{read_int, read_uint, until_nul};
use crate::event::{Body, BySchema, Event, FieldDef, Kind, Loc, Schema, Sink, Value, record_value};
use crate::order::{Moment, Order};
use crate::table::{Column, Field, IntColumn, Strings, Table};

/// Rows that are decoded at once: small enough for a batch of each event to stay in the second-level cache.
const BATCH: usize = 256;

/// Makes tables of all events that it gets.
#[derive(Default)]
pub struct Columns {
    strings: Strings,
    tables: Vec<Option<Box<Builder>>>,
    several_buffers: bool,
    /// The schema of each event, by its index.
    order: Vec<u32>,
}

struct Builder {
    table: Table,
    /// Which fields are decoded by batch, and from where.
    fixed: Vec<(usize, Loc)>,
    /// Which fields are appended at once.
    loose: Vec<usize>,
    stride: usize,
    big_endian: bool,
    rows: usize,
    records: Vec<u8>,
    cpu: Vec<i64>,
    pid: Vec<i64>,
    scratch: Vec<i64>,
    /// What the values of a row must be to be gathered; `None` until it is known.
    plan: Option<Vec<Gathered>>,
    /// Values of gathered rows, row by row: numbers, and the numbers of strings.
    words: Vec<i64>,
}

/// A field whose values are gathered before they are appended.
#[derive(Clone, Copy)]
enum Gathered {
    Signed,
    Unsigned,
    Str,
}

impl Gathered {
    /// How the values of a column are gathered, if they are.
    fn of(column: &Column) -> Option<Self> {
        match column {
            Column::Int(values) if values.is_signed() => Some(Gathered::Signed),
            Column::Int(_) => Some(Gathered::Unsigned),
            Column::Str(_) => Some(Gathered::Str),
            _ => None,
        }
    }

    /// A value as it is gathered; `None` if it may change its column.
    #[inline(always)]
    fn word(self, value: &Value<'_>, strings: &mut Strings) -> Option<i64> {
        match (self, value) {
            (Gathered::Signed, Value::I64(v)) => Some(*v),
            (Gathered::Unsigned, Value::I64(v)) => (*v >= 0).then_some(*v),
            (Gathered::Unsigned, Value::U64(v)) => Some(*v as i64),
            (Gathered::Str, Value::Str(text)) => Some(i64::from(strings.intern(text))),
            _ => None,
        }
    }
}

impl Columns {
    /// `several_buffers`: whether to keep each event's buffer.
    pub fn new(several_buffers: bool) -> Self {
        Self { several_buffers, ..Self::default() }
    }

    /// The tables by name (events that never came have none), the strings that they refer to, and the order of all events.
    pub fn finish(mut self) -> (Vec<Table>, Strings, Order) {
        let strings = &mut self.strings;
        let nr_schemas = self.tables.len();
        let mut tables: Vec<(usize, Table)> = Vec::new();
        for (schema, builder) in self.tables.into_iter().enumerate() {
            let Some(mut builder) = builder else { continue };
            builder.flush(strings);
            tables.push((schema, builder.table));
        }
        tables.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut places = vec![0; nr_schemas];
        for (place, &(schema, _)) in (0u32..).zip(&tables) {
            places[schema] = place;
        }
        self.order.iter_mut().for_each(|schema| *schema = places[*schema as usize]);
        let order = Order { tables: self.order, before: Moment::default() };
        (tables.into_iter().map(|(_, table)| table).collect(), self.strings, order)
    }

    #[cold]
    fn start(&mut self, event: &Event<'_>) {
        let schema = event.schema;
        if self.tables.len() <= schema.index {
            self.tables.resize_with(schema.index + 1, || None);
        }
        let several = self.several_buffers;
        self.tables[schema.index].get_or_insert_with(|| Box::new(Builder::new(event, several)));
    }
}

impl Sink for Columns {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let index = event.schema.index;
        if self.tables.get(index).is_none_or(Option::is_none) {
            self.start(event);
        }
        self.order.push(index as u32);
        if let Some(builder) = self.tables[index].as_deref_mut() {
            match event.body {
                Body::Record { bytes, .. } => builder.push_record(event, bytes, &mut self.strings),
                Body::Values(values) => builder.push_values(event, values, &mut self.strings),
            }
        }
        ControlFlow::Continue(())
    }
}

fn new_field(def: &FieldDef, rows: usize) -> Field {
    let mut field = Field { name: def.name.clone(), kind: def.kind, column: Column::new(def.kind), valid: None };
    if rows > 0 {
        field.valid = Some(vec![false; rows]);
        for _ in 0..rows {
            push_empty(&mut field.column);
        }
    }
    field
}

fn push_empty(column: &mut Column) {
    match column {
        Column::Int(values) => values.push_i64(0),
        // Number 0 is always the empty string of a value table, see `Builder::new`.
        Column::Str(numbers) => numbers.push(0),
        Column::Text(texts) | Column::Bytes(texts) => texts.push(&[]),
        Column::List { ends, values } => ends.push(values.len() as u64),
    }
}

impl Builder {
    fn new(event: &Event<'_>, several_buffers: bool) -> Self {
        let schema = event.schema;
        let (mut fixed, mut loose, mut big_endian) = (Vec::new(), Vec::new(), false);
        if let Body::Record { big_endian: big, .. } = event.body {
            big_endian = big;
            for (place, field) in schema.fields.iter().enumerate() {
                match field.loc {
                    Loc::Int { .. } | Loc::FixedStr { .. } => fixed.push((place, field.loc)),
                    _ => loose.push(place),
                }
            }
        }
        let table = Table {
            name: schema.name.clone(),
            system: schema.system.clone(),
            time_ns: Vec::new(),
            cpu: IntColumn::new(false),
            pid: IntColumn::new(true),
            comm: event.comm.map(|_| Vec::new()),
            buffer: several_buffers.then(|| IntColumn::new(false)),
            fields: schema.fields.iter().map(|def| new_field(def, 0)).collect(),
        };
        Self {
            table,
            fixed,
            loose,
            stride: schema.fixed_size,
            big_endian,
            rows: 0,
            records: Vec::new(),
            cpu: Vec::new(),
            pid: Vec::new(),
            scratch: Vec::new(),
            plan: None,
            words: Vec::new(),
        }
    }

    #[inline]
    fn push_record(&mut self, event: &Event<'_>, bytes: &[u8], strings: &mut Strings) {
        self.table.time_ns.push(event.time_ns);
        self.cpu.push(i64::from(event.cpu));
        self.pid.push(i64::from(event.pid));
        if let Some(buffer) = &mut self.table.buffer {
            buffer.push_u64(u64::from(event.buffer));
        }
        if !self.loose.is_empty() {
            self.push_loose(event, bytes, strings);
        }
        let have = bytes.len().min(self.stride);
        self.records.extend_from_slice(&bytes[..have]);
        if have < self.stride {
            // A short record: what is not there reads as 0.
            self.records.resize(self.records.len() + self.stride - have, 0);
        }
        self.rows += 1;
        if self.rows == BATCH {
            self.flush(strings);
        }
    }

    fn push_loose(&mut self, event: &Event<'_>, bytes: &[u8], strings: &mut Strings) {
        for &place in &self.loose {
            let value = record_value(bytes, self.big_endian, &event.schema.fields[place], event.text);
            push_value(&mut self.table.fields[place].column, value, strings);
        }
    }

    /// Decodes the gathered rows.
    fn flush(&mut self, strings: &mut Strings) {
        if self.rows == 0 {
            return;
        }
        self.table.cpu.extend(&self.cpu);
        self.table.pid.extend(&self.pid);
        self.cpu.clear();
        self.pid.clear();
        self.rows = 0;
        if let Some(plan) = self.plan.as_ref() {
            self.append_words(plan.len());
            return;
        }
        for &(place, loc) in &self.fixed {
            let column = &mut self.table.fields[place].column;
            match (loc, column) {
                (Loc::Int { off, size, signed }, Column::Int(values)) => {
                    self.scratch.clear();
                    ints(&self.records, self.stride, off as usize, size, signed, self.big_endian, &mut self.scratch);
                    values.extend(&self.scratch);
                }
                (Loc::FixedStr { off, size }, Column::Str(numbers)) => {
                    fixed_strings(&self.records, self.stride, off as usize, size as usize, strings, numbers);
                }
                _ => unreachable!("the builder chose these fields for their kind"),
            }
        }
        self.records.clear();
    }

    #[inline]
    fn push_values(&mut self, event: &Event<'_>, values: &[Value<'_>], strings: &mut Strings) {
        if !self.gather(event, values, strings) {
            self.flush(strings);
            self.append_values(event, values, strings);
            let plan = self.table.fields.iter().map(|field| Gathered::of(&field.column)).collect();
            self.plan = plan;
        }
    }

    /// Keeps a row for [`Builder::flush`]; false if it must be appended by itself.
    #[inline]
    fn gather(&mut self, event: &Event<'_>, values: &[Value<'_>], strings: &mut Strings) -> bool {
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.len() == values.len()) else { return false };
        let comm = self.table.comm.is_some().then(|| strings.intern(event.comm.unwrap_or(b"")));
        let start = self.words.len();
        for (gathered, value) in plan.iter().zip(values) {
            let Some(word) = gathered.word(value, strings) else {
                self.words.truncate(start);
                return false;
            };
            self.words.push(word);
        }
        self.table.time_ns.push(event.time_ns);
        self.cpu.push(i64::from(event.cpu));
        self.pid.push(i64::from(event.pid));
        if let Some(buffer) = &mut self.table.buffer {
            buffer.push_u64(u64::from(event.buffer));
        }
        if let (Some(comms), Some(comm)) = (&mut self.table.comm, comm) {
            comms.push(comm);
        }
        self.rows += 1;
        if self.rows == BATCH {
            self.flush(strings);
        }
        true
    }

    /// Appends the gathered rows of `stride` values.
    fn append_words(&mut self, stride: usize) {
        for (place, field) in self.table.fields.iter_mut().enumerate() {
            let words = self.words.chunks_exact(stride).map(|row| row[place]);
            let before = field.column.len();
            match &mut field.column {
                Column::Int(values) => {
                    self.scratch.clear();
                    self.scratch.extend(words);
                    values.extend(&self.scratch);
                }
                Column::Str(numbers) => numbers.extend(words.map(|word| word as u32)),
                // No plan has such a field.
                _ => {}
            }
            if let Some(valid) = &mut field.valid {
                valid.resize(valid.len() + field.column.len() - before, true);
            }
        }
        self.words.clear();
    }

    /// Appends one row, whatever its values are.
    fn append_values(&mut self, event: &Event<'_>, values: &[Value<'_>], strings: &mut Strings) {
        let rows = self.table.len();
        self.grow_fields(event.schema, rows, strings);
        self.table.time_ns.push(event.time_ns);
        self.table.cpu.push_u64(u64::from(event.cpu));
        self.table.pid.push_i64(i64::from(event.pid));
        if let Some(buffer) = &mut self.table.buffer {
            buffer.push_u64(u64::from(event.buffer));
        }
        if let Some(comm) = &mut self.table.comm {
            comm.push(strings.intern(event.comm.unwrap_or(b"")));
        }
        for (place, field) in self.table.fields.iter_mut().enumerate() {
            let value = values.get(place).copied().unwrap_or(Value::Null);
            if matches!(value, Value::Null) {
                field.valid.get_or_insert_with(|| vec![true; rows]).push(false);
                push_empty(&mut field.column);
                continue;
            }
            if let Some(valid) = &mut field.valid {
                valid.push(true);
            }
            match (&mut field.column, value) {
                (Column::Int(numbers), Value::I64(v)) if v >= 0 || numbers.is_signed() => numbers.push_i64(v),
                (Column::Str(numbers), Value::Str(text)) => numbers.push(strings.intern(text)),
                _ => push_checked(field, value, strings),
            }
        }
    }

    /// Formats that learn their fields may have learnt some since the last row.
    fn grow_fields(&mut self, schema: &Schema, rows: usize, strings: &mut Strings) {
        if strings.is_empty() {
            // Rows without a value point at string 0, which must exist.
            strings.intern(b"");
        }
        for def in &schema.fields[self.table.fields.len().min(schema.fields.len())..] {
            self.table.fields.push(new_field(def, rows));
        }
    }
}

/// Reads one integer of each record; the loops are specialised by size, sign and order.
fn ints(records: &[u8], stride: usize, off: usize, size: u8, signed: bool, big_endian: bool, out: &mut Vec<i64>) {
    macro_rules! each {
        ($type:ty, $from:ident) => {{
            const SIZE: usize = size_of::<$type>();
            assert!(off + SIZE <= stride);
            out.extend(records.chunks_exact(stride).map(|record| {
                let mut raw = [0u8; SIZE];
                raw.copy_from_slice(&record[off..off + SIZE]);
                <$type>::$from(raw) as i64
            }));
        }};
    }
    match (size, signed, big_endian) {
        (1, false, _) => each!(u8, from_le_bytes),
        (1, true, _) => each!(i8, from_le_bytes),
        (2, false, false) => each!(u16, from_le_bytes),
        (2, true, false) => each!(i16, from_le_bytes),
        (4, false, false) => each!(u32, from_le_bytes),
        (4, true, false) => each!(i32, from_le_bytes),
        (8, _, false) => each!(u64, from_le_bytes),
        _ => out.extend(records.chunks_exact(stride).map(|record| {
            let raw = &record[off..off + usize::from(size)];
            if signed { read_int(raw, big_endian) } else { read_uint(raw, big_endian) as i64 }
        })),
    }
}

fn fixed_strings(records: &[u8], stride: usize, off: usize, size: usize, strings: &mut Strings, out: &mut Vec<u32>) {
    if size == 16 {
        out.extend(records.chunks_exact(stride).map(|record| {
            let mut raw = [0u8; 16];
            raw.copy_from_slice(&record[off..off + 16]);
            strings.intern_comm(raw)
        }));
    } else {
        out.extend(records.chunks_exact(stride).map(|record| strings.intern(until_nul(&record[off..off + size]))));
    }
}

/// Appends a value of the column's own kind; one of another kind counts as absent (0 or empty).
fn push_value(column: &mut Column, value: Value<'_>, strings: &mut Strings) {
    match (column, value) {
        (Column::Int(values), Value::I64(v)) => values.push_i64(v),
        (Column::Int(values), Value::U64(v)) => values.push_u64(v),
        (Column::Str(numbers), Value::Str(text)) => numbers.push(strings.intern(text)),
        (Column::Text(texts), Value::Str(text)) => texts.push(text),
        (Column::Bytes(all), Value::Bytes(bytes)) => all.push(bytes),
        (Column::List { ends, values }, Value::Raw(list)) => {
            list.iter().for_each(|v| values.push_i64(v));
            ends.push(values.len() as u64);
        }
        (Column::List { ends, values }, Value::List(list)) => {
            list.iter().for_each(|&v| values.push_i64(v));
            ends.push(values.len() as u64);
        }
        (column, _) => push_empty(column),
    }
}

/// As [`push_value`], but a string that meets an integer column turns the column into strings (text formats have no types), as
/// negative numbers beside some above `i64::MAX` do. Else a negative number that meets an unsigned column turns it into a signed one.
fn push_checked(field: &mut Field, value: Value<'_>, strings: &mut Strings) {
    let fits_no_int = match (&field.column, value) {
        (Column::Int(_), Value::Str(_)) => true,
        (Column::Int(values), Value::I64(v)) => v < 0 && !values.is_signed() && !is_non_negative(values),
        (Column::Int(values), Value::U64(v)) => v > i64::MAX as u64 && values.is_signed() && !is_non_negative(values),
        _ => false,
    };
    match (&mut field.column, value) {
        (Column::Int(values), _) if fits_no_int => {
            let hex = matches!(field.kind, Kind::Int { hex: true, .. });
            let numbers = (0..values.len())
                .map(|row| {
                    if field.valid.as_ref().is_some_and(|valid| !valid[row]) {
                        return 0;
                    }
                    let text =
                        if hex { format!("{:#x}", values.get_u64(row)) } else { values.get_i128(row).to_string() };
                    strings.intern(text.as_bytes())
                })
                .collect();
            field.column = Column::Str(numbers);
            field.kind = Kind::Str;
        }
        (Column::Int(values), Value::I64(v)) if v < 0 && !values.is_signed() => {
            let mut signed = IntColumn::new(true);
            signed.extend(&values.to_i64());
            *values = signed;
            field.kind = Kind::Int { signed: true, hex: false };
        }
        (Column::Int(values), Value::U64(v)) if v > i64::MAX as u64 && values.is_signed() => {
            let mut unsigned = IntColumn::new(false);
            unsigned.extend(&values.to_i64());
            *values = unsigned;
            field.kind = Kind::Int { signed: false, hex: matches!(field.kind, Kind::Int { hex: true, .. }) };
        }
        _ => {}
    }
    if let Column::Str(numbers) = &mut field.column {
        let number = match value {
            Value::I64(v) => strings.intern(v.to_string().as_bytes()),
            Value::U64(v) => strings.intern(v.to_string().as_bytes()),
            Value::Str(text) => strings.intern(text),
            _ => 0,
        };
        numbers.push(number);
        return;
    }
    push_value(&mut field.column, value, strings);
}

/// No value is negative, nor one of an unsigned column above `i64::MAX`.
fn is_non_negative(values: &IntColumn) -> bool {
    (0..values.len()).all(|row| values.get(row) >= 0)
}

/// Counts events by name, and their first and last time.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Number of events by schema index, with the name.
    pub counts: Vec<(String, u64)>,
    /// Time of the first and of the last event.
    pub span_ns: Option<(u64, u64)>,
    /// Highest CPU number seen.
    pub cpu_max: u32,
}

impl Sink for Counter {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let index = event.schema.index;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, (String::new(), 0));
        }
        let (name, count) = &mut self.counts[index];
        if *count == 0 {
            name.clone_from(&event.schema.name);
        }
        *count += 1;
        self.cpu_max = self.cpu_max.max(event.cpu);
        let (first, last) = self.span_ns.get_or_insert((event.time_ns, event.time_ns));
        *first = (*first).min(event.time_ns);
        *last = (*last).max(event.time_ns);
        ControlFlow::Continue(())
    }
}

/// Finds the names of tasks in scheduling events; the last one that a task had.
#[derive(Clone, Debug, Default)]
pub struct TaskNames {
    /// By pid.
    pub names: HashMap<i32, Vec<u8>>,
    /// Places of (pid, name) in the events.
    places: BySchema<Vec<(usize, usize)>>,
}

impl TaskNames {
    /// The events that hold names.
    pub const EVENTS: [&str; 4] = ["sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_waking"];
}

impl Sink for TaskNames {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let places = self.places.get(event.schema, |schema| {
            let pairs = [("pid", "comm"), ("prev_pid", "prev_comm"), ("next_pid", "next_comm")];
            let found = pairs.map(|(pid, comm)| schema.field_index(pid).zip(schema.field_index(comm)));
            found.into_iter().flatten().collect()
        });
        for &(pid, comm) in places {
            let (Some(pid), Some(comm)) = (event.int(pid).and_then(|pid| i32::try_from(pid).ok()), event.str(comm))
            else {
                continue;
            };
            match self.names.get_mut(&pid) {
                Some(known) if known == comm => {}
                Some(known) => {
                    known.clear();
                    known.extend_from_slice(comm);
                }
                None => {
                    self.names.insert(pid, comm.to_vec());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Cuts a trace into pieces of so many events, each with tables of its own.
pub(crate) struct Pieces<'e> {
    /// Takes a piece; the last one may be empty.
    pub(crate) each: &'e mut dyn FnMut((Vec<Table>, Strings, Order), u64) -> ControlFlow<()>,
    pub(crate) columns: Columns,
    /// Where writers are before the piece, and after its last event.
    pub(crate) before: Moment,
    pub(crate) moment: Moment,
    pub(crate) events: usize,
    pub(crate) events_max: usize,
    pub(crate) last_ns: u64,
}

impl Pieces<'_> {
    /// Gives away what was gathered.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        let fresh = Columns::new(self.columns.several_buffers);
        let mut piece = std::mem::replace(&mut self.columns, fresh).finish();
        piece.2.before = std::mem::replace(&mut self.before, self.moment);
        self.events = 0;
        (self.each)(piece, self.last_ns)
    }
}

impl Sink for Pieces<'_> {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self.events += 1;
        self.last_ns = event.time_ns;
        self.moment.of(event.time_ns, event.cpu);
        self.columns.event(event)?;
        if self.events == self.events_max { self.flush() } else { ControlFlow::Continue(()) }
    }
}
