//! What a machine was doing when a run begins, and what was measured of its wake-ups.

use crate::error::Fault;
use crate::tree::{Node, TIME_NS_MAX, Table};

/// The state of a machine at the start of a run; what a list is too short for starts as always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Frequency of each cpufreq policy (in the order of clusters, then of CPUs) in kHz, instead of its lowest operating point.
    pub khz: Vec<u32>,
    /// `util_avg` and `load_avg` that are left on each CPU of what ran before, instead of 0.
    pub blocked: Vec<(u32, u32)>,
    /// Timers of the kernel's own in the timer wheel: ns after the start of the run, and the CPU. An idle CPU whose tick is stopped has
    /// a tick for each.
    pub wheel: Vec<(u64, u32)>,
    /// How long wake-ups on idle CPUs take.
    pub wakes: Wakes,
    /// By how much ticks come late, ns, as measured: each draws one. Empty: never.
    pub tick_late_ns: Vec<u64>,
    /// CPUs took turns on one instruction stream where all of this was measured: when a busy CPU has handled its tick, others may have the
    /// stream up to the next one, and only then it schedules.
    pub takes_turns: bool,
}

/// From wake-ups on idle CPUs to the woken tasks' first instructions there, as measured on a machine whose kernel takes long for it (an
/// emulated one, one full of probes): each wake-up draws one of its kind. Such a CPU handles what comes at once, and only then is on its way out
/// of idle. Without any, idle states give how long they take to leave, before what comes is handled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wakes {
    /// Of threads of the kernel: by an interrupt, and by a task on another CPU, ns.
    pub kernel_ns: [Vec<u64>; 2],
    /// Of all other tasks, ns.
    pub user_ns: [Vec<u64>; 2],
    /// From wake-ups on busy CPUs to switches from the tasks that they preempt at once, ns. Empty: no time.
    pub preempt_ns: Vec<u64>,
    /// Of each task of the workload, by the op at which it stands when it is woken: how long it takes, ns; 0: by a draw.
    pub by_op_ns: Vec<Vec<u32>>,
    /// Tasks of the workload that are threads of the kernel.
    pub kernel_tasks: Vec<bool>,
}

impl Wakes {
    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.kernel_ns.iter().chain(&self.user_ns).all(Vec::is_empty)
    }
}

const NS: i128 = TIME_NS_MAX;
const U32: i128 = u32::MAX as i128;

fn list<T>(items: &[T], node: impl Fn(&T) -> Node) -> Option<Node> {
    (!items.is_empty()).then(|| Node::list(items.iter().map(node)))
}

fn numbers<T: Copy + Into<i128>>(items: &[T]) -> Option<Node> {
    list(items, |&number| Node::from(number))
}

fn pair(one: impl Into<i128>, other: impl Into<i128>) -> Node {
    Node::list([Node::from(one.into()), Node::from(other.into())])
}

impl Start {
    /// Its keys and values; no value of what a start as always has.
    fn entries(&self) -> [(&'static str, Option<Node>); 12] {
        let Self { khz, blocked, wheel, wakes, tick_late_ns, takes_turns } = self;
        let Wakes { kernel_ns, user_ns, preempt_ns, by_op_ns, kernel_tasks } = wakes;
        [
            ("khz", numbers(khz)),
            ("blocked", list(blocked, |&(util, load)| pair(util, load))),
            ("wheel", list(wheel, |&(ns, cpu)| pair(ns, cpu))),
            ("tick_late_ns", numbers(tick_late_ns)),
            ("takes_turns", takes_turns.then(|| Node::bool(true))),
            ("kernel_irq_ns", numbers(&kernel_ns[0])),
            ("kernel_task_ns", numbers(&kernel_ns[1])),
            ("user_irq_ns", numbers(&user_ns[0])),
            ("user_task_ns", numbers(&user_ns[1])),
            ("preempt_ns", numbers(preempt_ns)),
            ("by_op_ns", list(by_op_ns, |ops| Node::list(ops.iter().map(|&ns| Node::from(ns))))),
            ("kernel_tasks", list(kernel_tasks, |&is_one| Node::bool(is_one))),
        ]
    }

    /// The tree of this start; `None` of a machine that was not in use.
    pub(crate) fn node(&self) -> Option<Node> {
        (*self != Self::default()).then(|| Node::table(self.entries()))
    }

    /// The start that `node` is the tree of.
    pub(crate) fn from_node(node: &Node) -> Result<Self, Fault> {
        let table = node.as_table("start", &Self::default().entries().map(|(key, _)| key))?;
        fn each<T>(
            table: &Table<'_>,
            key: &str,
            item: impl Fn(&Node, &str) -> Result<T, Fault>,
        ) -> Result<Vec<T>, Fault> {
            table.get(key).map_or(Ok(Vec::new()), |node| node.as_list(key)?.iter().map(|one| item(one, key)).collect())
        }
        fn two<A: TryFrom<i128>>(node: &Node, key: &str, max: i128) -> Result<(A, u32), Fault> {
            match node.as_list(key)? {
                [one, other] => Ok((one.as_int(key, 0, max)?, other.as_int(key, 0, U32)?)),
                _ => Err(Fault::new(node.at, format!("`{key}` must have pairs of numbers"))),
            }
        }
        let times = |key| each(&table, key, |item, key| item.as_int(key, 0, NS));
        Ok(Self {
            khz: each(&table, "khz", |item, key| item.as_int(key, 1, U32))?,
            blocked: each(&table, "blocked", |item, key| two(item, key, U32))?,
            wheel: each(&table, "wheel", |item, key| two(item, key, NS))?,
            tick_late_ns: times("tick_late_ns")?,
            takes_turns: table.bool_or("takes_turns", false)?,
            wakes: Wakes {
                kernel_ns: [times("kernel_irq_ns")?, times("kernel_task_ns")?],
                user_ns: [times("user_irq_ns")?, times("user_task_ns")?],
                preempt_ns: times("preempt_ns")?,
                by_op_ns: each(&table, "by_op_ns", |ops, key| {
                    ops.as_list(key)?.iter().map(|item| item.as_int(key, 0, U32)).collect()
                })?,
                kernel_tasks: each(&table, "kernel_tasks", |item, key| item.as_bool(key))?,
            },
        })
    }
}
