//! A case as a file: everything that a run depends on, as one line of canonical JSON, so that it can be sent to another
//! process, run there, and be named by its hash.
//!
//! Equal cases have equal bytes: keys stand in one order, numbers are whole, nothing is left to chance. A program is a
//! list of steps, each a list of a word and its numbers, e.g. `["run",800000,0]`.

use std::sync::Arc;

use crate::cpus::cpus_from;
use crate::error::{Fault, ModelError, Pos};
use crate::file::{check_format, machine_from, machine_node};
use crate::groups::GroupSpec;
use crate::json::parse_json;
use crate::machine::Machine;
use crate::metric::{Metric, MetricRule};
use crate::policy::Policy;
use crate::policy_keys::{policy_from, policy_node};
use crate::start::Start;
use crate::tree::{Node, TIME_NS_MAX, Table, Value, to_json};
use crate::workload::{ChannelSpec, DeviceSpec, Op, PhaseSpec, SchedPolicy, TaskSpec, Workload, Workqueue};

/// One run, and the labels that its results carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseFile {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the benchmark: the label of the workload.
    pub benchmark: String,
    /// Its parameters, e.g. `tasks=10`.
    pub param: String,
    /// Iteration, from 0.
    pub iteration: u32,
    /// Seed of all random draws.
    pub seed: u64,
    /// Simulated time in ns.
    pub duration_ns: u64,
    /// What it runs on; the cases of an experiment share it.
    pub machine: Arc<Machine>,
    /// What runs; the policies of an experiment share it.
    pub workload: Arc<Workload>,
    /// Under which policy.
    pub policy: Policy,
    /// From which state of the machine: that of a recording, of whose work it is.
    pub start: Start,
}

const CASE_KEYS: &[&str] = &[
    "format",
    "experiment",
    "benchmark",
    "param",
    "iteration",
    "seed",
    "duration_ns",
    "machine",
    "policy",
    "workload",
    "start",
];

impl CaseFile {
    /// The case as canonical JSON.
    pub fn to_json(&self) -> String {
        to_json(&Node::table([
            ("format", Some(Node::from(1))),
            ("experiment", Some(Node::str(&self.experiment))),
            ("benchmark", Some(Node::str(&self.benchmark))),
            ("param", Some(Node::str(&self.param))),
            ("iteration", Some(Node::from(self.iteration))),
            ("seed", Some(Node::from(self.seed))),
            ("duration_ns", Some(Node::from(self.duration_ns))),
            ("machine", Some(machine_node(&self.machine))),
            ("policy", Some(policy_node(&self.policy))),
            ("workload", Some(workload_node(&self.workload))),
            ("start", self.start.node()),
        ]))
    }

    /// Reads a case. `file` is its name for messages.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn from_json(file: &str, text: &str) -> Result<Self, ModelError> {
        parse_json(text).and_then(|root| Self::from_node(&root)).map_err(|fault| fault.in_file(file))
    }

    fn from_node(root: &Node) -> Result<Self, Fault> {
        let table = root.as_table("case", CASE_KEYS)?;
        check_format(&table)?;
        let machine = machine_from(table.need("machine")?)?;
        let workload_node = table.need("workload")?;
        let workload = workload_from(workload_node)?;
        workload.check(machine.nr_cpus()).map_err(|why| Fault::new(workload_node.at, format!("workload: {why}")))?;
        Ok(Self {
            experiment: table.str_or_empty("experiment")?.to_owned(),
            benchmark: table.str_or_empty("benchmark")?.to_owned(),
            param: table.str_or_empty("param")?.to_owned(),
            iteration: table.need_int("iteration", 0, i128::from(u32::MAX))?,
            seed: table.need_int("seed", 0, i128::from(u64::MAX))?,
            duration_ns: table.need_int("duration_ns", 1, TIME_NS_MAX)?,
            policy: policy_from(table.need("policy")?, &Policy::default())?,
            start: table.get("start").map_or(Ok(Start::default()), Start::from_node)?,
            machine: Arc::new(machine),
            workload: Arc::new(workload),
        })
    }
}

/// The hash that names the results of the case whose canonical JSON `text` is: FNV-1a, 128 bits, over the version of
/// opplab and the text, so that another version does not take over its results.
pub fn hash_text(text: &str) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let version = env!("CARGO_PKG_VERSION").bytes().chain(*b"\0");
    let hash = version.chain(text.bytes()).fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

fn opt(value: Option<impl Into<i128>>) -> Node {
    value.map_or(Node { value: Value::Null, at: Pos::default() }, Node::from)
}

fn sched_node(policy: &SchedPolicy) -> Node {
    let (word, numbers): (&str, Vec<i128>) = match *policy {
        SchedPolicy::Other { nice } => ("other", vec![nice.into()]),
        SchedPolicy::Batch { nice } => ("batch", vec![nice.into()]),
        SchedPolicy::Idle => ("idle", vec![]),
        SchedPolicy::Fifo { priority } => ("fifo", vec![priority.into()]),
        SchedPolicy::RoundRobin { priority } => ("rr", vec![priority.into()]),
        SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim } => {
            let word = if reclaim { "deadline-reclaim" } else { "deadline" };
            (word, vec![runtime_ns.into(), deadline_ns.into(), period_ns.into()])
        }
    };
    Node::list(std::iter::once(Node::str(word)).chain(numbers.into_iter().map(Node::from)))
}

fn op_node(op: &Op) -> Node {
    let n = |value: u64| Node::from(value);
    let (word, args): (&str, Vec<Node>) = match *op {
        Op::Run { work_ns, fixed } => ("run", vec![n(work_ns), n(fixed.into())]),
        Op::RunDraw { draw, fixed } => ("run_draw", vec![n(draw.into()), n(fixed.into())]),
        Op::RunListed { draw, slot, fixed } => ("run_listed", vec![n(draw.into()), n(slot.into()), n(fixed.into())]),
        Op::Runtime { wall_ns } => ("runtime", vec![n(wall_ns)]),
        Op::Contend { line, hold_ns } => ("contend", vec![n(line.into()), n(hold_ns)]),
        Op::Sleep { ns } => ("sleep", vec![n(ns)]),
        Op::TimersFrom { ns } => ("timers_from", vec![n(ns)]),
        Op::SetTimerSlack { ns } => ("set_timer_slack", vec![n(ns)]),
        Op::TimersByTick => ("timers_by_tick", vec![]),
        Op::Timer { timer, period_ns, absolute, own } => {
            ("timer", vec![n(timer.into()), n(period_ns), Node::bool(absolute), Node::bool(own)])
        }
        Op::Lock { mutex } => ("lock", vec![n(mutex.into())]),
        Op::Unlock { mutex } => ("unlock", vec![n(mutex.into())]),
        Op::HandOver { mutex } => ("hand_over", vec![n(mutex.into())]),
        Op::Wait { cond, mutex } => ("wait", vec![n(cond.into()), n(mutex.into())]),
        Op::Signal { cond } => ("signal", vec![n(cond.into())]),
        Op::Broadcast { cond } => ("broadcast", vec![n(cond.into())]),
        Op::Suspend { cond } => ("suspend", vec![n(cond.into())]),
        Op::Resume { cond } => ("resume", vec![n(cond.into())]),
        Op::Barrier { barrier } => ("barrier", vec![n(barrier.into())]),
        Op::SpinBarrier { barrier, spin_ns } => ("spin_barrier", vec![n(barrier.into()), n(spin_ns)]),
        Op::SemPost { sem } => ("sem_post", vec![n(sem.into())]),
        Op::SemWait { sem } => ("sem_wait", vec![n(sem.into())]),
        Op::Yield => ("yield", vec![]),
        Op::Fork { task } => ("fork", vec![n(task.into())]),
        Op::Exec => ("exec", vec![]),
        Op::WaitChild => ("wait_child", vec![]),
        Op::SetCpus { set } => ("set_cpus", vec![opt(set)]),
        Op::SetGroup { task, group } => ("set_group", vec![opt(task), opt(group)]),
        Op::SetGroupCpus { group, set } => ("set_group_cpus", vec![n(group.into()), opt(set)]),
        Op::SetPolicy { policy } => ("set_policy", vec![sched_node(&policy)]),
        Op::SetUclamp { min, max } => ("set_uclamp", vec![opt(min), opt(max)]),
        Op::LoopBegin { slot, count } => ("loop_begin", vec![n(slot.into()), opt(count)]),
        Op::LoopEnd { slot, begin } => ("loop_end", vec![n(slot.into()), n(begin.into())]),
        Op::Skip { count } => ("skip", vec![n(count.into())]),
        Op::SkipInTick { count } => ("skip_in_tick", vec![n(count.into())]),
        Op::Activation { phase, timed } => ("activation", vec![n(phase.into()), Node::bool(timed)]),
        Op::Send { channel, bytes } => ("send", vec![n(channel.into()), n(bytes.into())]),
        Op::TrySend { channel, bytes } => ("try_send", vec![n(channel.into()), n(bytes.into())]),
        Op::SendFrom { channel, bytes, back } => {
            ("send_from", vec![n(channel.into()), n(bytes.into()), n(back.into())])
        }
        Op::Recv { channel } => ("recv", vec![n(channel.into())]),
        Op::SendBack { bytes } => ("send_back", vec![n(bytes.into())]),
        Op::Io { device, bytes } => ("io", vec![n(device.into()), n(bytes.into())]),
        Op::IoWork { device, bytes } => ("io_work", vec![n(device.into()), n(bytes.into())]),
        Op::IoEnd { device, bytes, service } => ("io_end", vec![n(device.into()), n(bytes.into()), n(service.into())]),
        Op::CallRcu => ("call_rcu", vec![]),
        Op::Call { service, iowait } => ("call", vec![n(service.into()), Node::bool(iowait)]),
        Op::Accept { service, calls_max } => ("accept", vec![n(service.into()), n(calls_max.into())]),
        Op::Reply => ("reply", vec![]),
        Op::Count => ("count", vec![]),
        Op::Exit => ("exit", vec![]),
    };
    Node::list(std::iter::once(Node::str(word)).chain(args))
}

fn metric_node(metric: &Metric) -> Node {
    let better = if metric.higher_is_better { "higher" } else { "lower" };
    let (num, den) = metric.scale;
    let fixed = [
        Node::str(&metric.name),
        Node::str(&metric.unit),
        Node::str(better),
        Node::str(metric.rule.name()),
        Node::from(num),
        Node::from(den),
    ];
    Node::list(fixed.into_iter().chain(metric.marks.iter().map(|&mark| Node::from(mark))))
}

fn metric_from(node: &Node) -> Result<Metric, Fault> {
    let mut args = Args::new(node, "metric")?;
    let number_max = 1 << 60;
    let mut metric = Metric {
        name: args.word.to_owned(),
        unit: args.next()?.as_str("metric")?.to_owned(),
        higher_is_better: {
            let node = args.next()?;
            match node.as_str("metric")? {
                "higher" => true,
                "lower" => false,
                other => return Err(Fault::unknown(node.at, "direction", other, ["higher", "lower"])),
            }
        },
        rule: {
            let node = args.next()?;
            let word = node.as_str("metric")?;
            let known = MetricRule::ALL.iter().find(|rule| rule.name() == word);
            *known
                .ok_or_else(|| Fault::unknown(node.at, "rule", word, MetricRule::ALL.iter().map(|rule| rule.name())))?
        },
        scale: (args.int(number_max)?, args.int(number_max)?),
        marks: Vec::new(),
    };
    while !args.rest.is_empty() {
        metric.marks.push(args.int(number_max)?);
    }
    args.end()?;
    Ok(metric)
}

/// The tree of a workload.
pub(crate) fn workload_node(workload: &Workload) -> Node {
    let task = |task: &TaskSpec| {
        Node::table([
            ("name", Some(Node::str(&task.name))),
            ("initial", Some(Node::bool(task.initial))),
            ("delay_ns", Some(Node::from(task.delay_ns))),
            ("policy", Some(sched_node(&task.policy))),
            ("class", (!task.class.is_empty()).then(|| Node::str(&task.class))),
            ("cpus", Some(opt(task.cpus))),
            ("spawn_cpu", Some(opt(task.spawn_cpu))),
            ("seasoned", task.seasoned.then(|| Node::bool(true))),
            ("workqueue", task.workqueue.map(|queue| Node::str(queue.name()))),
            ("assumed_bandwidth", task.assumed_bandwidth.then(|| Node::bool(true))),
            ("loop_slots", Some(Node::from(task.loop_slots))),
            ("nr_own_timers", Some(Node::from(task.nr_own_timers))),
            (
                "phases",
                Some(Node::list(task.phases.iter().map(|phase| {
                    Node::list([Node::str(&phase.name), Node::from(phase.run_ns), Node::from(phase.period_ns)])
                }))),
            ),
            ("ops", Some(Node::list(task.ops.iter().map(op_node)))),
        ])
    };
    let numbers = |list: &[u32]| Node::list(list.iter().map(|&number| Node::from(number)));
    // Absent where they are 0, so that the cases of workloads without them keep their names.
    let some = |number: u64| (number != 0).then(|| Node::from(number));
    Node::table([
        ("name", Some(Node::str(&workload.name))),
        ("duration_ns", Some(opt(workload.duration_ns))),
        ("warmup_ns", some(workload.warmup_ns)),
        ("smt_yield", workload.smt_yield.map(Node::from)),
        ("nr_main", some(workload.nr_main.into())),
        ("nr_background", some(workload.nr_background.into())),
        ("metric", workload.metric.as_ref().map(metric_node)),
        ("nr_services", some(workload.nr_services.into())),
        (
            "draws",
            (!workload.draws.is_empty()).then(|| {
                Node::list(
                    workload.draws.iter().map(|table| Node::list(table.iter().map(|&work_ns| Node::from(work_ns)))),
                )
            }),
        ),
        ("groups", (!workload.groups.is_empty()).then(|| Node::list(workload.groups.iter().map(GroupSpec::node)))),
        ("cpu_sets", Some(Node::list(workload.cpu_sets.iter().map(|set| numbers(set))))),
        ("nr_mutexes", Some(Node::from(workload.nr_mutexes))),
        ("nr_lines", some(workload.nr_lines.into())),
        ("nr_conds", Some(Node::from(workload.nr_conds))),
        ("nr_timers", Some(Node::from(workload.nr_timers))),
        ("cumulative_slack", Some(Node::bool(workload.cumulative_slack))),
        ("barriers", Some(numbers(&workload.barriers))),
        ("semaphores", Some(numbers(&workload.semaphores))),
        (
            "channels",
            Some(Node::list(
                workload
                    .channels
                    .iter()
                    .map(|channel| Node::list([Node::from(channel.capacity_bytes), Node::bool(channel.sync_wakeup)])),
            )),
        ),
        (
            "devices",
            Some(Node::list(workload.devices.iter().map(|device| {
                let own = [
                    Node::from(device.service_ns),
                    Node::from(device.per_kib_ns),
                    Node::from(device.queue_depth),
                    opt(device.irq_cpu),
                ];
                let more = [device.irq_ns, device.bus_per_kib_ns];
                let told = more.iter().rposition(|&ns| ns > 0).map_or(0, |last| last + 1);
                Node::list(own.into_iter().chain(more[..told].iter().map(|&ns| Node::from(ns))))
            }))),
        ),
        ("tasks", Some(Node::list(workload.tasks.iter().map(task)))),
    ])
}

/// The arguments of a step: a word, then values in a fixed order.
struct Args<'a> {
    at: Pos,
    word: &'a str,
    rest: &'a [Node],
}

impl<'a> Args<'a> {
    fn new(node: &'a Node, what: &str) -> Result<Self, Fault> {
        let items = node.as_list(what)?;
        let (word, rest) = items.split_first().ok_or_else(|| Fault::new(node.at, format!("`{what}` is empty")))?;
        Ok(Self { at: node.at, word: word.as_str(what)?, rest })
    }

    /// A list without a leading word.
    fn plain(node: &'a Node, what: &'a str) -> Result<Self, Fault> {
        Ok(Self { at: node.at, word: what, rest: node.as_list(what)? })
    }

    fn next(&mut self) -> Result<&'a Node, Fault> {
        let (first, rest) =
            self.rest.split_first().ok_or_else(|| Fault::new(self.at, format!("`{}` lacks a value", self.word)))?;
        self.rest = rest;
        Ok(first)
    }

    fn int<T: TryFrom<i128>>(&mut self, max: i128) -> Result<T, Fault> {
        self.next()?.as_int(self.word, 0, max)
    }

    fn index(&mut self) -> Result<u32, Fault> {
        self.int(i128::from(u32::MAX))
    }

    fn time(&mut self) -> Result<u64, Fault> {
        self.int(TIME_NS_MAX)
    }

    fn bool(&mut self) -> Result<bool, Fault> {
        self.next()?.as_bool(self.word)
    }

    fn opt<T: TryFrom<i128>>(&mut self, max: i128) -> Result<Option<T>, Fault> {
        let node = self.next()?;
        if node.value == Value::Null { Ok(None) } else { node.as_int(self.word, 0, max).map(Some) }
    }

    fn end(self) -> Result<(), Fault> {
        match self.rest.first() {
            None => Ok(()),
            Some(node) => Err(Fault::new(node.at, format!("`{}` has a value too many", self.word))),
        }
    }
}

fn sched_from(node: &Node) -> Result<SchedPolicy, Fault> {
    let mut args = Args::new(node, "policy")?;
    let policy = match args.word {
        "other" => SchedPolicy::Other { nice: args.next()?.as_int("nice", -20, 19)? },
        "batch" => SchedPolicy::Batch { nice: args.next()?.as_int("nice", -20, 19)? },
        "idle" => SchedPolicy::Idle,
        "fifo" => SchedPolicy::Fifo { priority: args.next()?.as_int("priority", 1, 99)? },
        "rr" => SchedPolicy::RoundRobin { priority: args.next()?.as_int("priority", 1, 99)? },
        word @ ("deadline" | "deadline-reclaim") => SchedPolicy::Deadline {
            runtime_ns: args.time()?,
            deadline_ns: args.time()?,
            period_ns: args.time()?,
            reclaim: word == "deadline-reclaim",
        },
        other => {
            let known = ["other", "batch", "idle", "fifo", "rr", "deadline", "deadline-reclaim"];
            return Err(Fault::unknown(args.at, "policy", other, known));
        }
    };
    args.end()?;
    Ok(policy)
}

const OPS: &[&str] = &[
    "run",
    "run_draw",
    "run_listed",
    "runtime",
    "contend",
    "sleep",
    "timers_from",
    "set_timer_slack",
    "timers_by_tick",
    "timer",
    "lock",
    "unlock",
    "hand_over",
    "wait",
    "signal",
    "broadcast",
    "suspend",
    "resume",
    "barrier",
    "spin_barrier",
    "sem_post",
    "sem_wait",
    "yield",
    "fork",
    "exec",
    "wait_child",
    "set_cpus",
    "set_policy",
    "set_uclamp",
    "loop_begin",
    "loop_end",
    "skip",
    "skip_in_tick",
    "activation",
    "send",
    "try_send",
    "send_from",
    "recv",
    "send_back",
    "io",
    "io_work",
    "io_end",
    "call_rcu",
    "call",
    "accept",
    "reply",
    "count",
    "exit",
];

fn op_from(node: &Node) -> Result<Op, Fault> {
    let mut args = Args::new(node, "op")?;
    let u16_max = i128::from(u16::MAX);
    let op = match args.word {
        "run" => Op::Run { work_ns: args.int(1 << 60)?, fixed: args.int(1024)? },
        "run_draw" => Op::RunDraw { draw: args.index()?, fixed: args.int(1024)? },
        "run_listed" => Op::RunListed { draw: args.index()?, slot: args.int(u16_max)?, fixed: args.int(1024)? },
        "runtime" => Op::Runtime { wall_ns: args.time()? },
        "contend" => Op::Contend { line: args.index()?, hold_ns: args.time()? },
        "sleep" => Op::Sleep { ns: args.time()? },
        "timers_from" => Op::TimersFrom { ns: args.time()? },
        "set_timer_slack" => Op::SetTimerSlack { ns: args.time()? },
        "timers_by_tick" => Op::TimersByTick,
        "timer" => {
            Op::Timer { timer: args.index()?, period_ns: args.time()?, absolute: args.bool()?, own: args.bool()? }
        }
        "lock" => Op::Lock { mutex: args.index()? },
        "unlock" => Op::Unlock { mutex: args.index()? },
        "hand_over" => Op::HandOver { mutex: args.index()? },
        "wait" => Op::Wait { cond: args.index()?, mutex: args.index()? },
        "signal" => Op::Signal { cond: args.index()? },
        "broadcast" => Op::Broadcast { cond: args.index()? },
        "suspend" => Op::Suspend { cond: args.index()? },
        "resume" => Op::Resume { cond: args.index()? },
        "barrier" => Op::Barrier { barrier: args.index()? },
        "spin_barrier" => Op::SpinBarrier { barrier: args.index()?, spin_ns: args.time()? },
        "sem_post" => Op::SemPost { sem: args.index()? },
        "sem_wait" => Op::SemWait { sem: args.index()? },
        "yield" => Op::Yield,
        "fork" => Op::Fork { task: args.index()? },
        "exec" => Op::Exec,
        "wait_child" => Op::WaitChild,
        "set_cpus" => Op::SetCpus { set: args.opt(i128::from(u32::MAX))? },
        "set_group" => Op::SetGroup { task: args.opt(i128::from(u32::MAX))?, group: args.opt(i128::from(u32::MAX))? },
        "set_group_cpus" => Op::SetGroupCpus { group: args.index()?, set: args.opt(i128::from(u32::MAX))? },
        "set_policy" => Op::SetPolicy { policy: sched_from(args.next()?)? },
        "set_uclamp" => Op::SetUclamp { min: args.opt(1024)?, max: args.opt(1024)? },
        "loop_begin" => Op::LoopBegin { slot: args.int(u16_max)?, count: args.opt(i128::from(u32::MAX))? },
        "loop_end" => Op::LoopEnd { slot: args.int(u16_max)?, begin: args.index()? },
        "skip" => Op::Skip { count: args.int(u16_max)? },
        "skip_in_tick" => Op::SkipInTick { count: args.int(u16_max)? },
        "activation" => Op::Activation { phase: args.int(u16_max)?, timed: args.bool()? },
        "send" => Op::Send { channel: args.index()?, bytes: args.index()? },
        "try_send" => Op::TrySend { channel: args.index()?, bytes: args.index()? },
        "send_from" => Op::SendFrom { channel: args.index()?, bytes: args.index()?, back: args.index()? },
        "recv" => Op::Recv { channel: args.index()? },
        "send_back" => Op::SendBack { bytes: args.index()? },
        "io" => Op::Io { device: args.index()?, bytes: args.index()? },
        "io_work" => Op::IoWork { device: args.index()?, bytes: args.index()? },
        "io_end" => Op::IoEnd { device: args.index()?, bytes: args.index()?, service: args.index()? },
        "call_rcu" => Op::CallRcu,
        "call" => Op::Call { service: args.index()?, iowait: args.bool()? },
        "accept" => Op::Accept { service: args.index()?, calls_max: args.index()? },
        "reply" => Op::Reply,
        "count" => Op::Count,
        "exit" => Op::Exit,
        other => return Err(Fault::unknown(args.at, "op", other, OPS.iter().copied())),
    };
    args.end()?;
    Ok(op)
}

fn list_of<T>(table: &Table<'_>, key: &str, item: impl FnMut(&Node) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    table.need(key)?.as_list(key)?.iter().map(item).collect()
}

fn opt_int<T: TryFrom<i128>>(table: &Table<'_>, key: &str, max: i128) -> Result<Option<T>, Fault> {
    let node = table.need(key)?;
    if node.value == Value::Null { Ok(None) } else { node.as_int(key, 0, max).map(Some) }
}

fn workqueue_from(node: &Node) -> Result<Workqueue, Fault> {
    let word = node.as_str("workqueue")?;
    let known = || Workqueue::ALL.into_iter();
    known()
        .find(|queue| queue.name() == word)
        .ok_or_else(|| Fault::unknown(node.at, "workqueue", word, known().map(Workqueue::name)))
}

fn task_from(node: &Node) -> Result<TaskSpec, Fault> {
    let table = node.as_table(
        "task",
        &[
            "name",
            "initial",
            "delay_ns",
            "policy",
            "class",
            "cpus",
            "spawn_cpu",
            "seasoned",
            "workqueue",
            "assumed_bandwidth",
            "loop_slots",
            "nr_own_timers",
            "phases",
            "ops",
        ],
    )?;
    let u32_max = i128::from(u32::MAX);
    Ok(TaskSpec {
        name: table.str_or_empty("name")?.to_owned(),
        initial: table.need("initial")?.as_bool("initial")?,
        delay_ns: table.need_int("delay_ns", 0, TIME_NS_MAX)?,
        policy: sched_from(table.need("policy")?)?,
        class: table.str_or_empty("class")?.to_owned(),
        cpus: opt_int(&table, "cpus", u32_max)?,
        spawn_cpu: opt_int(&table, "spawn_cpu", u32_max)?,
        seasoned: table.get("seasoned").map_or(Ok(false), |node| node.as_bool("seasoned"))?,
        workqueue: table.get("workqueue").map(workqueue_from).transpose()?,
        assumed_bandwidth: table
            .get("assumed_bandwidth")
            .map_or(Ok(false), |node| node.as_bool("assumed_bandwidth"))?,
        ops: list_of(&table, "ops", op_from)?,
        loop_slots: table.need_int("loop_slots", 0, i128::from(u16::MAX))?,
        nr_own_timers: table.need_int("nr_own_timers", 0, u32_max)?,
        phases: list_of(&table, "phases", |node| {
            let mut args = Args::new(node, "phase")?;
            let phase =
                PhaseSpec { name: args.word.to_owned(), run_ns: args.int(1 << 62)?, period_ns: args.int(1 << 62)? };
            args.end()?;
            Ok(phase)
        })?,
    })
}

fn workload_from(node: &Node) -> Result<Workload, Fault> {
    let table = node.as_table(
        "workload",
        &[
            "name",
            "duration_ns",
            "warmup_ns",
            "smt_yield",
            "nr_main",
            "nr_background",
            "metric",
            "nr_services",
            "draws",
            "groups",
            "cpu_sets",
            "nr_mutexes",
            "nr_lines",
            "nr_conds",
            "nr_timers",
            "cumulative_slack",
            "barriers",
            "semaphores",
            "channels",
            "devices",
            "tasks",
        ],
    )?;
    let u32_max = i128::from(u32::MAX);
    let number = |what: &'static str| move |node: &Node| node.as_int::<u32>(what, 0, u32_max);
    Ok(Workload {
        name: table.str_or_empty("name")?.to_owned(),
        tasks: list_of(&table, "tasks", task_from)?,
        groups: if table.get("groups").is_some() {
            list_of(&table, "groups", GroupSpec::from_node)?
        } else {
            Vec::new()
        },
        cpu_sets: list_of(&table, "cpu_sets", |node| cpus_from(node, "cpu_sets"))?,
        nr_mutexes: table.need_int("nr_mutexes", 0, u32_max)?,
        nr_lines: table.int_or("nr_lines", 0, 0, u32_max)?,
        nr_conds: table.need_int("nr_conds", 0, u32_max)?,
        barriers: list_of(&table, "barriers", number("barriers"))?,
        semaphores: list_of(&table, "semaphores", number("semaphores"))?,
        nr_timers: table.need_int("nr_timers", 0, u32_max)?,
        cumulative_slack: table.need("cumulative_slack")?.as_bool("cumulative_slack")?,
        channels: list_of(&table, "channels", |node| {
            let mut args = Args::plain(node, "channel")?;
            let channel = ChannelSpec { capacity_bytes: args.index()?, sync_wakeup: args.bool()? };
            args.end()?;
            Ok(channel)
        })?,
        devices: list_of(&table, "devices", |node| {
            let mut args = Args::plain(node, "device")?;
            let device = DeviceSpec {
                service_ns: args.time()?,
                per_kib_ns: args.time()?,
                queue_depth: args.index()?,
                irq_cpu: args.opt(u32_max)?,
                irq_ns: if args.rest.is_empty() { 0 } else { args.time()? },
                bus_per_kib_ns: if args.rest.is_empty() { 0 } else { args.time()? },
            };
            args.end()?;
            Ok(device)
        })?,
        nr_services: table.int_or("nr_services", 0, 0, u32_max)?,
        draws: match table.get("draws") {
            None => Vec::new(),
            Some(node) => node
                .as_list("draws")?
                .iter()
                .map(|table| table.as_list("draws")?.iter().map(|item| item.as_int("draws", 0, 1 << 60)).collect())
                .collect::<Result<_, Fault>>()?,
        },
        nr_main: table.int_or("nr_main", 0, 0, u32_max)?,
        nr_background: table.int_or("nr_background", 0, 0, u32_max)?,
        smt_yield: table.get("smt_yield").map(|node| node.as_int("smt_yield", 1, 1024)).transpose()?,
        warmup_ns: table.int_or("warmup_ns", 0, 0, TIME_NS_MAX)?,
        metric: table.get("metric").map(metric_from).transpose()?,
        duration_ns: opt_int(&table, "duration_ns", TIME_NS_MAX)?,
    })
}
