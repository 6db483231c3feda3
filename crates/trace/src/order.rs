//! What readers and writers of traces share: the order of events, the head of a record, and the value of a field.

use crate::event::Value;
use crate::{Table, Trace};

/// The order of a trace's events.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The table of each event, its place in [`Trace::tables`], whose rows are in order.
    pub(crate) tables: Vec<u32>,
    /// Where a writer is before the first one.
    pub(crate) before: Moment,
}

/// Where a writer is: time and CPU of its last event.
///
/// Files keep the events of each CPU in order, and readers put the CPUs together by (time, CPU). Where that would turn events of
/// one time around, as simulated runs and texts in us have them, the later one is written 1 ns after the earlier one. Events of the
/// first moment keep its time: they are the state that a run begins with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    first_ns: Option<u64>,
    time_ns: u64,
    cpu: u32,
}

impl Moment {
    /// The time that is written for the next event.
    pub(crate) fn of(&mut self, time_ns: u64, cpu: u32) -> u64 {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let turns = cpu < self.cpu && self.time_ns != first_ns;
        self.time_ns = time_ns.max(self.time_ns.saturating_add(u64::from(turns)));
        self.cpu = cpu;
        self.time_ns
    }
}

/// Fields of the head of a record, which all events have where they are known ([`ReadOptions::common_fields`]): context, and how deep
/// preemption is off.
///
/// [`ReadOptions::common_fields`]: crate::ReadOptions::common_fields
pub(crate) const HEAD_FIELDS: [&str; 2] = ["common_flags", "common_preempt_count"];

/// The value at `row` of the field at `place`, as writers and renderers take it.
pub(crate) fn value_at<'t>(trace: &'t Trace, table: &'t Table, place: usize, row: usize) -> Value<'t> {
    let field = &table.fields[place];
    if !field.is_valid(row) {
        return Value::Null;
    }
    match &field.column {
        crate::Column::Int(values) if values.is_signed() => Value::I64(values.get(row)),
        crate::Column::Int(values) => Value::U64(values.get_u64(row)),
        crate::Column::Str(numbers) => Value::Str(trace.strings.get(numbers[row])),
        crate::Column::Text(texts) => Value::Str(texts.get(row)),
        crate::Column::Bytes(bytes) => Value::Bytes(bytes.get(row)),
        crate::Column::List { .. } => Value::Null,
    }
}
