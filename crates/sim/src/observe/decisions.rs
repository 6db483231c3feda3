//! Keeps the decision records of a run as columns: one table a kind of record, as [`crate::observe::sink`] does for events.
//!
//! A run without this sink makes no records. Which tables and columns there are is declared with the records
//! ([`opplab_model::decision::TABLES`]).

use opplab_model::decision::{Decision, FieldType, TABLES};
use opplab_model::event::{Event, Sink};

use crate::observe::sink::{Column, Table};

/// Names of the tables, in the order of [`Decision`]'s variants.
pub fn decision_tables() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

/// Keeps decision records as columns.
#[derive(Debug, Default)]
pub struct DecisionColumns {
    /// By kind of record: its times and its fields' columns, if it is kept.
    kept: Vec<Option<(Vec<u64>, Vec<Column>)>>,
}

impl DecisionColumns {
    /// Keeps the tables of `names`; all if there is none.
    ///
    /// # Errors
    /// The first name that is no table's.
    pub fn new(names: &[&str]) -> Result<Self, String> {
        if let Some(unknown) = names.iter().find(|name| !decision_tables().any(|known| known == **name)) {
            return Err((*unknown).to_owned());
        }
        let column = |of: FieldType| match of {
            FieldType::U8 => Column::U8(Vec::new()),
            FieldType::U32 => Column::U32(Vec::new()),
            FieldType::I32 => Column::I32(Vec::new()),
            FieldType::U64 => Column::U64(Vec::new()),
            FieldType::I64 => Column::I64(Vec::new()),
        };
        let kept = TABLES.iter().map(|table| {
            let wanted = names.is_empty() || names.contains(&table.name);
            wanted.then(|| (Vec::new(), table.fields.iter().map(|(_, of)| column(*of)).collect()))
        });
        Ok(Self { kept: kept.collect() })
    }

    /// Keeps a record.
    pub fn keep(&mut self, now_ns: u64, decision: &Decision) {
        let Some(Some((times, columns))) = self.kept.get_mut(decision.table()) else { return };
        times.push(now_ns);
        let mut columns = columns.iter_mut();
        decision.each(|_, number| {
            if let Some(column) = columns.next() {
                column.push(number);
            }
        });
    }

    /// The tables that were asked for, in the order of their names' list.
    pub fn tables(self) -> Vec<Table> {
        let kept = self.kept.into_iter().zip(TABLES).filter_map(|(kept, table)| kept.map(|kept| (kept, table)));
        let one = |((times, columns), table): ((Vec<u64>, Vec<Column>), &opplab_model::decision::RecordTable)| {
            let named = table.fields.iter().map(|(name, _)| *name).zip(columns);
            Table { name: table.name, columns: [("time_ns", Column::U64(times))].into_iter().chain(named).collect() }
        };
        kept.map(one).collect()
    }
}

impl Sink for DecisionColumns {
    const ENABLED: bool = false;
    const DECISIONS: bool = true;

    fn event(&mut self, _now_ns: u64, _event: &Event) {}

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        self.keep(now_ns, decision);
    }
}
