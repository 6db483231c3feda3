//! Keeps the events of a run as columns: one table an event type, one vector a field.
//!
//! For those who look at a run afterwards (data frames, charts). It holds everything in memory; a run that only needs
//! metrics uses [`opplab_model::event::NullSink`], and one that only needs some tables asks for those.

use opplab_model::event::{Event, PlacementRule, Sink, TaskState};

/// The values of one field, in event order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// Small enumerations and flags.
    U8(Vec<u8>),
    /// Indexes, kHz, utilisation.
    U32(Vec<u32>),
    /// Idle states.
    I32(Vec<i32>),
    /// Times in ns.
    U64(Vec<u64>),
    /// Signed times in ns.
    I64(Vec<i64>),
}

impl Column {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Adds a number, which the column's type holds.
    pub(crate) fn push(&mut self, number: i128) {
        match self {
            Self::U8(values) => values.push(number as u8),
            Self::U32(values) => values.push(number as u32),
            Self::I32(values) => values.push(number as i32),
            Self::U64(values) => values.push(number as u64),
            Self::I64(values) => values.push(number as i64),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Types that a column can hold.
pub(crate) trait Value: Sized {
    fn column(values: Vec<Self>) -> Column;
}

/// How a column's type is made of the event's field.
pub(crate) trait Of<T> {
    fn of(field: T) -> Self;
}

macro_rules! values {
    ($($type:ident => $variant:ident from $($field:ident)*;)*) => {
        $(
            impl Value for $type {
                fn column(values: Vec<Self>) -> Column {
                    Column::$variant(values)
                }
            }
            $(impl Of<$field> for $type {
                fn of(field: $field) -> Self {
                    field as $type
                }
            })*
        )*
    };
}
values! {
    u8 => U8 from bool TaskState PlacementRule;
    u32 => U32 from u16 u32;
    i32 => I32 from i32;
    u64 => U64 from u64;
    i64 => I64 from i64;
}

/// All events of one type. The first column is `time_ns`; all columns have one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name of the event type, as the kernel's tracepoint has it.
    pub name: &'static str,
    /// Names and values of its fields.
    pub columns: Vec<(&'static str, Column)>,
}

// First the enumeration whose variants become tables, the list of the tables' names, the type that keeps them. Then one
// line a table: the variant, the table's name, the fields and their column types.
macro_rules! tables {
    (
        $(#[$list_doc:meta])* $list:ident;
        $(#[$keeper_doc:meta])* $keeper:ident($row:ident);
        $($variant:ident = $name:ident { $($field:ident: $type:ty),* $(,)? })*
    ) => {
        $(#[$list_doc])*
        pub const $list: &[&str] = &[$(stringify!($name)),*];

        $(
            #[derive(Debug, Default)]
            struct $variant {
                keep: bool,
                time_ns: Vec<u64>,
                $($field: Vec<$type>),*
            }

            impl $variant {
                fn table(self) -> Table {
                    let columns = vec![
                        ("time_ns", Value::column(self.time_ns)),
                        $((stringify!($field), Value::column(self.$field))),*
                    ];
                    Table { name: stringify!($name), columns }
                }
            }
        )*

        $(#[$keeper_doc])*
        #[derive(Debug, Default)]
        pub struct $keeper {
            $($name: $variant),*
        }

        impl $keeper {
            /// Keeps the tables of `names`; all if there is none.
            ///
            /// # Errors
            /// The first name that is no table's.
            pub fn new(names: &[&str]) -> Result<Self, String> {
                if let Some(unknown) = names.iter().find(|name| !$list.contains(name)) {
                    return Err((*unknown).to_owned());
                }
                let mut columns = Self::default();
                $(columns.$name.keep = names.is_empty() || names.contains(&stringify!($name));)*
                Ok(columns)
            }

            /// The tables that were asked for, in the order of their names' list.
            pub fn tables(self) -> Vec<Table> {
                let mut tables = Vec::new();
                $(if self.$name.keep {
                    tables.push(self.$name.table());
                })*
                tables
            }

            fn keep(&mut self, now_ns: u64, row: &$row) {
                match *row {
                    $($row::$variant { $($field),* } => {
                        if self.$name.keep {
                            self.$name.time_ns.push(now_ns);
                            $(self.$name.$field.push(<$type>::of($field));)*
                        }
                    })*
                }
            }
        }
    };
}
impl Sink for Columns {
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.keep(now_ns, event);
    }
}

tables! {
    /// Names of the tables, in the order of [`Event`]'s variants.
    TABLES;
    /// Keeps events as columns.
    Columns(Event);
    SchedSwitch = sched_switch { cpu: u32, prev: u32, prev_state: u8, next: u32 }
    SchedWaking = sched_waking { cpu: u32, task: u32, target_cpu: u32 }
    SchedWakeupNew = sched_wakeup_new { cpu: u32, task: u32, target_cpu: u32 }
    SchedMigrateTask = sched_migrate_task { task: u32, orig_cpu: u32, dest_cpu: u32 }
    SchedProcessExit = sched_process_exit { task: u32 }
    CpuFrequency = cpu_frequency { cpu: u32, khz: u32 }
    FreqRequest = freq_request { cpu: u32, khz: u32, util: u32, max: u32 }
    CpuIdle = cpu_idle { cpu: u32, state: i32 }
    IdleExit = idle_exit { cpu: u32 }
    ClusterIdle = cluster_idle { cluster: u32, state: i32 }
    PeltSe = pelt_se_tp { cpu: u32, task: u32, load_avg: u32, runnable_avg: u32, util_avg: u32 }
    PeltCfs = pelt_cfs_tp { cpu: u32, load_avg: u32, runnable_avg: u32, util_avg: u32 }
    UtilEstSe = sched_util_est_se_tp { cpu: u32, task: u32, util_est: u32, util_avg: u32 }
    SchedOverutilized = sched_overutilized_tp { overutilized: u8 }
    Placement = placement { task: u32, prev_cpu: u32, cpu: u32, rule: u8 }
    Activation = activation { task: u32, phase: u32, timed: u8, period_ns: u64, run_ns: u64, wu_lat_ns: u64, response_ns: u64, slack_ns: i64, to_timer_ns: i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_columns() {
        let mut sink = Columns::new(&[]).expect("no name is unknown");
        let switch = Event::SchedSwitch { cpu: 1, prev: 7, prev_state: TaskState::Interruptible, next: 9 };
        sink.event(5, &switch);
        sink.event(8, &Event::Placement { task: 7, prev_cpu: 0, cpu: 3, rule: PlacementRule::Idlest });
        sink.event(9, &Event::SchedOverutilized { overutilized: true });
        let slack_ns = -4;
        sink.event(
            10,
            &Event::Activation {
                task: 1,
                phase: 2,
                timed: true,
                period_ns: 3,
                run_ns: 4,
                wu_lat_ns: 5,
                response_ns: 6,
                slack_ns,
                to_timer_ns: 6,
            },
        );
        let tables = sink.tables();
        assert_eq!(tables.iter().map(|table| table.name).collect::<Vec<_>>(), TABLES);
        let find = |name: &str| tables.iter().find(|table| table.name == name).expect("a table").columns.clone();
        assert_eq!(
            find("sched_switch"),
            [
                ("time_ns", Column::U64(vec![5])),
                ("cpu", Column::U32(vec![1])),
                ("prev", Column::U32(vec![7])),
                ("prev_state", Column::U8(vec![1])),
                ("next", Column::U32(vec![9])),
            ]
        );
        assert_eq!(find("placement")[4], ("rule", Column::U8(vec![3])));
        assert_eq!(find("sched_overutilized_tp")[1], ("overutilized", Column::U8(vec![1])));
        assert_eq!(find("activation")[2], ("phase", Column::U32(vec![2])));
        assert_eq!(find("activation")[8], ("slack_ns", Column::I64(vec![-4])));
        assert!(find("cpu_idle").iter().all(|(_, column)| column.is_empty()));
    }

    #[test]
    fn only_what_is_asked_for() {
        let mut sink = Columns::new(&["cpu_idle"]).expect("it is known");
        sink.event(1, &Event::CpuIdle { cpu: 0, state: -1 });
        sink.event(2, &Event::CpuFrequency { cpu: 0, khz: 1000 });
        let tables = sink.tables();
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].columns[2], ("state", Column::I32(vec![-1])));
        assert_eq!(Columns::new(&["cpu_idle", "cpu_idel"]).expect_err("it is unknown"), "cpu_idel");
    }
}
