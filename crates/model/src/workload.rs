//! What runs: tasks, each a program of [`Op`]s. rt-app files and the benchmark models both compile to this.
//!
//! Work is counted in ns on the biggest CPU at its reference (highest non-boost) frequency.

use crate::cpus::cpus_from;
use crate::error::{Fault, shorten};
use crate::file_table::{FileTable, file_table};
use crate::groups::{GroupEntry, GroupSpec};
use crate::metric::Metric;
use crate::op::{Args, opt, sched_from, sched_node};
use crate::tree::{Node, TIME_NS_MAX, Table, Value};

pub use crate::op::{ObjectIdx, Op, SchedPolicy};

const U32: i128 = u32::MAX as i128;

/// A whole number or null.
fn opt_int<T: TryFrom<i128>>(table: &Table<'_>, key: &str, max: i128) -> Result<Option<T>, Fault> {
    let node = table.need(key)?;
    if node.value == Value::Null { Ok(None) } else { node.as_int(key, 0, max).map(Some) }
}

/// A phase of a task, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSpec {
    /// Its name.
    pub name: String,
    /// Work that one loop of it is configured with, in ns.
    pub run_ns: u64,
    /// Sum of the periods of the timers in one loop of it, in ns.
    pub period_ns: u64,
}

impl PhaseSpec {
    fn node(&self) -> Node {
        Node::list([Node::str(&self.name), Node::from(self.run_ns), Node::from(self.period_ns)])
    }

    fn from_node(node: &Node) -> Result<Self, Fault> {
        let mut args = Args::new(node, "phase")?;
        let phase = Self { name: args.word.to_owned(), run_ns: args.int(1 << 62)?, period_ns: args.int(1 << 62)? };
        args.end()?;
        Ok(phase)
    }
}

file_table! {
    /// One task (or a template that `Fork` instantiates).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TaskSpec(this) {
        /// The comm, e.g. `task0-0`.
        name: String = text().or_empty(),
        /// Whether it starts with the run (`false`: only `Fork` starts it).
        initial: bool = flag().needed(),
        /// Start delay in ns.
        delay_ns: u64 = int(0, TIME_NS_MAX),
        /// Policy.
        policy: SchedPolicy = by("policy", |table, key| sched_from(table.need(key)?), |policy| Some(sched_node(policy))),
        /// Its class of programs, one of the machine's [`crate::machine::Machine::program_classes`], which states how its work
        /// scales in place of the ops' `fixed`; empty: none.
        class: String = by(
            "class",
            |table, key| Ok(table.str_or_empty(key)?.to_owned()),
            |class| (!class.is_empty()).then(|| Node::str(class))
        ),
        /// Allowed CPUs, an index into [`Workload::cpu_sets`]; `None`: all.
        cpus: Option<u32> = by("cpus", |table, key| opt_int(table, key, U32), |set| Some(opt(*set))),
        /// CPU on which the task is born (where its parent ran); `None`: CPU 0.
        spawn_cpu: Option<u32> = by("spawn_cpu", |table, key| opt_int(table, key, U32), |cpu| Some(opt(*cpu))),
        /// It exists already when the run begins: its averages start at 0, not at a new task's values.
        seasoned: bool = flag(),
        /// The workqueue whose work it does; `None`: a task of its own.
        workqueue: Option<Workqueue> = by("workqueue", Workqueue::read, |queue| queue.map(|queue| Node::str(queue.name()))),
        /// The parameters of its deadline policy are assumed: it is admitted, and its bandwidth does not raise the clock.
        assumed_bandwidth: bool = flag(),
        /// Number of loop counters used.
        loop_slots: u16 = int(0, u16::MAX.into()),
        /// Number of timers that each instance of the task owns.
        nr_own_timers: u32 = int(0, U32),
        /// Phases that [`Op::Activation`] names.
        phases: Vec<PhaseSpec> = list_by("phases", |node, _| PhaseSpec::from_node(node), PhaseSpec::node).needed(),
        /// Program.
        ops: Vec<Op> = list_by("ops", |node, _| Op::from_node(node), Op::node).needed(),
    }
}

/// What decides on which CPU a kernel thread does the work that a task's [`Op::Call`] queues for it.
///
/// Such a thread stands for the threads of all CPUs: it has one piece of work at a time, and one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workqueue {
    /// Bound: the CPU that queued the work.
    Bound,
    /// That of XFS's log pushes: bound or not, as the kernel is (gate `xfs_cil`).
    XfsCil,
}

impl Workqueue {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Bound, Self::XfsCil];

    /// Its name in case files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::XfsCil => "xfs-cil",
        }
    }

    fn read(table: &Table<'_>, key: &str) -> Result<Option<Self>, Fault> {
        let names = Self::ALL.map(|queue| (queue.name(), Some(queue)));
        table.choice(key, Some(None), &names)
    }
}

/// A bounded byte channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Bytes that fit before the writer waits.
    pub capacity_bytes: u32,
    /// Whether a write is a synchronous wake-up (WF_SYNC: pipes and loopback sockets).
    pub sync_wakeup: bool,
}

impl ChannelSpec {
    fn node(&self) -> Node {
        Node::list([Node::from(self.capacity_bytes), Node::bool(self.sync_wakeup)])
    }

    fn from_node(node: &Node) -> Result<Self, Fault> {
        let mut args = Args::plain(node, "channel")?;
        let channel = Self { capacity_bytes: args.index()?, sync_wakeup: args.bool()? };
        args.end()?;
        Ok(channel)
    }
}

/// A block device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Fixed service time of a request in ns.
    pub service_ns: u64,
    /// Additional service time of a KiB in ns.
    pub per_kib_ns: u64,
    /// Time of a KiB on the one bus of the device, in ns: requests pass it one after the other when they have been served.
    pub bus_per_kib_ns: u64,
    /// Requests served at one time.
    pub queue_depth: u32,
    /// CPU that takes the completion interrupt; `None`: the submitting CPU.
    pub irq_cpu: Option<u32>,
    /// Whether a request is completed on the submitting CPU where that shares no cache with `irq_cpu`, as by the block layer's
    /// default (queue/rq_affinity 1; block/blk-mq.c:__blk_mq_complete_request(), v4.17).
    pub rq_affinity: bool,
    /// Work of that interrupt, in ns of the biggest CPU at its highest non-boost frequency.
    pub irq_ns: u64,
}

impl DeviceSpec {
    fn node(&self) -> Node {
        let times = [Node::from(self.service_ns), Node::from(self.per_kib_ns)];
        let own = times.into_iter().chain([Node::from(self.queue_depth), opt(self.irq_cpu)]);
        let more = [self.irq_ns, self.bus_per_kib_ns, self.rq_affinity.into()];
        let told = more.iter().rposition(|&value| value > 0).map_or(0, |last| last + 1);
        Node::list(own.chain(more[..told].iter().map(|&ns| Node::from(ns))))
    }

    fn from_node(node: &Node) -> Result<Self, Fault> {
        let mut args = Args::plain(node, "device")?;
        let device = Self {
            service_ns: args.time()?,
            per_kib_ns: args.time()?,
            queue_depth: args.index()?,
            irq_cpu: args.opt(U32)?,
            irq_ns: if args.rest.is_empty() { 0 } else { args.time()? },
            bus_per_kib_ns: if args.rest.is_empty() { 0 } else { args.time()? },
            rq_affinity: !args.rest.is_empty() && args.time()? != 0,
        };
        args.end()?;
        Ok(device)
    }
}

file_table! {
    /// A set of tasks and the objects that they share.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Workload(this) {
        /// Its name.
        name: String = text().or_empty(),
        /// Duration that the workload itself asks for, in ns; `None`: until its tasks end.
        duration_ns: Option<u64> = by("duration_ns", |table, key| opt_int(table, key, TIME_NS_MAX), |ns| Some(opt(*ns))),
        /// Time at the start of the run that does not count in any figure, in ns.
        warmup_ns: u64 = int(0, TIME_NS_MAX).or(0),
        /// What each of two busy threads of a core does of one alone in these programs, in 1/1024; `None`: the machine's
        /// [`crate::machine::Machine::smt_yield`].
        smt_yield: Option<u32> = by(
            "smt_yield",
            |table, key| table.get(key).map(|node| node.as_int(key, 1, 1024)).transpose(),
            |share| share.map(Node::from)
        ),
        /// The first so many tasks are the benchmark's own: the run is over when they have ended. 0: it lasts its time.
        nr_main: u32 = int(0, U32).or(0),
        /// The last so many tasks are the system's background: they use energy, and no metric of the workload counts them.
        nr_background: u32 = int(0, U32).or(0),
        /// What the benchmark reports; `None`: nothing of its own.
        metric: Option<Metric> = by(
            "metric",
            |table, key| table.get(key).map(Metric::from_node).transpose(),
            |metric| metric.as_ref().map(Metric::node)
        ),
        /// Number of services that [`Op::Call`] asks.
        nr_services: u32 = int(0, U32).or(0),
        /// Tables of work in ns. [`Op::RunDraw`] draws from one as from a shuffled deck of cards, which is shuffled again
        /// when all are drawn, all tasks from the same deck; [`Op::RunListed`] takes it in order.
        draws: Vec<Vec<u64>> = list_by(
            "draws",
            |node, key| node.as_list(key)?.iter().map(|item| item.as_int(key, 0, 1 << 60)).collect(),
            |table: &Vec<u64>| Node::list(table.iter().map(|&work_ns| Node::from(work_ns)))
        ),
        /// Task groups; a group's parent comes before it.
        groups: Vec<GroupSpec> = list_by("groups", |node, _| GroupSpec::from_node(node, "group"), GroupSpec::node),
        /// CPU sets that tasks and groups refer to.
        cpu_sets: Vec<Vec<u32>> = list_by(
            "cpu_sets",
            cpus_from,
            |set| Node::list(set.iter().map(|&cpu| Node::from(cpu)))
        ).needed(),
        /// Number of mutexes.
        nr_mutexes: u32 = int(0, U32),
        /// Number of cache lines that [`Op::Contend`] and [`Op::Share`] name.
        nr_lines: u32 = int(0, U32).or(0),
        /// Number of conditions.
        nr_conds: u32 = int(0, U32),
        /// Number of timers that tasks share.
        nr_timers: u32 = int(0, U32),
        /// Slack of an activation is the sum over its timers; otherwise that of its last timer.
        cumulative_slack: bool = flag().needed(),
        /// Users of each barrier.
        barriers: Vec<u32> = list_by(
            "barriers",
            |node, key| node.as_int(key, 0, U32),
            |&number| Node::from(number)
        ).needed(),
        /// Initial value of each semaphore.
        semaphores: Vec<u32> = list_by(
            "semaphores",
            |node, key| node.as_int(key, 0, U32),
            |&number| Node::from(number)
        ).needed(),
        /// Channels.
        channels: Vec<ChannelSpec> = list_by("channels", |node, _| ChannelSpec::from_node(node), ChannelSpec::node).needed(),
        /// Block devices.
        devices: Vec<DeviceSpec> = list_by("devices", |node, _| DeviceSpec::from_node(node), DeviceSpec::node).needed(),
        /// Tasks, in the order in which they are started.
        tasks: Vec<TaskSpec> = list_by("tasks", |node, _| TaskSpec::from_node(node, "task"), TaskSpec::node).needed(),
    }
}

impl Workload {
    /// How many tasks are its own, which come before the background.
    pub fn nr_own(&self) -> usize {
        self.tasks.len() - self.nr_background as usize
    }

    /// When the last of its own tasks begins, but for those that others fork, in ns from the start.
    pub fn begun_ns(&self) -> u64 {
        let own = &self.tasks[..self.nr_own()];
        own.iter().filter(|task| task.initial).map(|task| task.delay_ns).max().unwrap_or(0)
    }

    /// What is wrong with a run of `duration_ns`, if it ends within the warm-up.
    pub fn ends_in_warmup(&self, duration_ns: u64) -> Option<String> {
        let [warmup, whole] = [self.warmup_ns, duration_ns].map(|ns| ns as f64 / 1e9);
        (self.warmup_ns >= duration_ns).then(|| {
            format!("the warm-up takes {warmup} s, which leaves nothing of a run of {whole} s: give a longer `duration` (--seconds)")
        })
    }

    /// What is wrong with a run whose own tasks had all ended after `ended_ns`, in the warm-up.
    pub fn ended_in_warmup(&self, ended_ns: u64) -> String {
        let [warmup, ended] = [self.warmup_ns, ended_ns].map(|ns| ns as f64 / 1e9);
        format!(
            "the tasks end after {ended} s, in the warm-up of {warmup} s, which leaves nothing to measure: give a shorter `warmup`, or \"none\""
        )
    }

    /// What no interpreter of programs checks again: every index is in range, every loop is closed in its own order,
    /// every program ends, every CPU exists.
    ///
    /// # Errors
    /// The first thing that is wrong, in words.
    pub fn check(&self, nr_cpus: usize) -> Result<(), String> {
        if self.tasks.is_empty() {
            return Err(String::from("there are no tasks"));
        }
        for cpus in &self.cpu_sets {
            if cpus.is_empty() || !cpus.is_sorted_by(|a, b| a < b) {
                return Err(String::from("a CPU set is empty or not in ascending order"));
            }
            if let Some(cpu) = cpus.iter().find(|&&cpu| cpu as usize >= nr_cpus) {
                return Err(format!("CPU {cpu} does not exist: the machine has {nr_cpus} CPUs, 0-{}", nr_cpus - 1));
            }
        }
        if let Some(index) = self.draws.iter().position(|table| table.is_empty()) {
            return Err(format!("table {index} of draws is empty"));
        }
        let own = self.tasks.len().checked_sub(self.nr_background as usize);
        if own.is_none_or(|own| self.tasks[own..].iter().any(|task| !task.initial)) {
            return Err(String::from("the tasks of the background are not all there at the start"));
        }
        if self.nr_main as usize > self.tasks.len()
            || self.tasks[..self.nr_main as usize].iter().any(|task| !task.initial)
        {
            return Err(String::from("not all of the benchmark's own tasks start with the run"));
        }
        if self.smt_yield.is_some_and(|share| !(1..=1024).contains(&share)) {
            return Err(String::from("the share of a busy thread is not within 1 to 1024"));
        }
        self.check_groups()?;
        if let Some(metric) = &self.metric {
            metric.check(self.nr_main, self.warmup_ns)?;
        }
        for task in &self.tasks {
            self.check_task(task, nr_cpus).map_err(|why| format!("task {}: {why}", task.name))?;
        }
        Ok(())
    }

    fn check_task(&self, task: &TaskSpec, nr_cpus: usize) -> Result<(), String> {
        let within = |what: &str, index: u32, len: usize| -> Result<(), String> {
            if (index as usize) < len { Ok(()) } else { Err(format!("{what} {index} of {len}")) }
        };
        if let Some(cpu) = task.spawn_cpu {
            within("spawn CPU", cpu, nr_cpus)?;
        }
        if let Some(set) = task.cpus {
            within("CPU set", set, self.cpu_sets.len())?;
        }
        if task.ops.last() != Some(&Op::Exit) {
            return Err(String::from("the program does not end in an exit"));
        }
        let (mutexes, conds) = (self.nr_mutexes as usize, self.nr_conds as usize);
        let mut open: Vec<(u16, u32)> = Vec::new();
        for (index, op) in task.ops.iter().enumerate() {
            match *op {
                Op::Run { fixed, .. } => within("fixed share", fixed.into(), 1025)?,
                Op::RunDraw { draw, fixed } => {
                    within("table of draws", draw, self.draws.len())?;
                    within("fixed share", fixed.into(), 1025)?;
                }
                Op::RunListed { draw, slot, fixed } => {
                    within("table of draws", draw, self.draws.len())?;
                    within("loop counter", slot.into(), task.loop_slots.into())?;
                    within("fixed share", fixed.into(), 1025)?;
                }
                Op::Call { service, .. } | Op::Accept { service, .. } => {
                    within("service", service, self.nr_services as usize)?;
                }
                Op::Timer { timer, own, .. } => {
                    within("timer", timer, if own { task.nr_own_timers } else { self.nr_timers } as usize)?;
                }
                Op::Lock { mutex } | Op::Unlock { mutex } | Op::HandOver { mutex } => {
                    within("mutex", mutex, mutexes)?;
                }
                Op::Contend { line, .. } | Op::Share { line, .. } => {
                    within("cache line", line, self.nr_lines as usize)?
                }
                Op::Wait { cond, mutex } => {
                    within("condition", cond, conds)?;
                    within("mutex", mutex, mutexes)?;
                }
                Op::Signal { cond } | Op::Broadcast { cond } | Op::Suspend { cond } | Op::Resume { cond } => {
                    within("condition", cond, conds)?;
                }
                Op::Barrier { barrier } | Op::SpinBarrier { barrier, .. } => {
                    within("barrier", barrier, self.barriers.len())?
                }
                Op::SemPost { sem } | Op::SemWait { sem } => within("semaphore", sem, self.semaphores.len())?,
                Op::Fork { task } => within("task", task, self.tasks.len())?,
                Op::SetCpus { set: Some(set) } => within("CPU set", set, self.cpu_sets.len())?,
                Op::SetGroupCpus { group, set } => {
                    within("group", group, self.groups.len())?;
                    set.map_or(Ok(()), |set| within("CPU set", set, self.cpu_sets.len()))?;
                    if self.groups[group as usize].isolated {
                        return Err(String::from("it changes the CPUs of an isolated partition"));
                    }
                }
                Op::SetGroup { task, group } => {
                    task.map_or(Ok(()), |task| within("task", task, self.tasks.len()))?;
                    group.map_or(Ok(()), |group| within("group", group, self.groups.len()))?;
                }
                Op::SetUclamp { min, max } => {
                    within("clamp", min.unwrap_or(0).into(), 1025)?;
                    within("clamp", max.unwrap_or(0).into(), 1025)?;
                }
                Op::LoopBegin { slot, .. } => {
                    within("loop counter", slot.into(), task.loop_slots.into())?;
                    if open.iter().any(|&(other, _)| other == slot) {
                        return Err(format!("loop counter {slot} is used twice at one time"));
                    }
                    open.push((slot, index as u32));
                }
                Op::LoopEnd { slot, begin } => {
                    if open.pop() != Some((slot, begin)) {
                        return Err(format!("op {index} closes a loop that is not the innermost"));
                    }
                }
                Op::Skip { count } | Op::SkipInTick { count } => {
                    let skipped = task.ops.get(index + 1..=index + usize::from(count));
                    let loops = |op: &Op| matches!(op, Op::LoopBegin { .. } | Op::LoopEnd { .. });
                    if skipped.is_none_or(|ops| ops.len() + index + 2 > task.ops.len() || ops.iter().any(loops)) {
                        return Err(format!("op {index} skips over an end of a loop or of the program"));
                    }
                }
                Op::Activation { phase, .. } => within("phase", phase.into(), task.phases.len())?,
                Op::Send { channel, .. } | Op::TrySend { channel, .. } | Op::Recv { channel } => {
                    within("channel", channel, self.channels.len())?
                }
                Op::SendFrom { channel, back, .. } => {
                    within("channel", channel, self.channels.len())?;
                    within("channel", back, self.channels.len())?;
                }
                Op::Io { device, .. } | Op::IoWork { device, .. } => within("device", device, self.devices.len())?,
                Op::IoEnd { device, service, .. } => {
                    within("device", device, self.devices.len())?;
                    within("service", service, self.nr_services as usize)?;
                }
                Op::Runtime { .. }
                | Op::Sleep { .. }
                | Op::TimersFrom { .. }
                | Op::SetTimerSlack { .. }
                | Op::TimersByTick
                | Op::Yield
                | Op::Exec
                | Op::WaitChild
                | Op::SendBack { .. }
                | Op::CallRcu
                | Op::Reply
                | Op::SetCpus { set: None }
                | Op::SetPolicy { .. }
                | Op::Count
                | Op::Exit => {}
            }
        }
        if open.is_empty() { Ok(()) } else { Err(String::from("a loop is not closed")) }
    }
}

/// Whether `pattern`, a name or with `*` its beginning, means the task of this name.
fn means(pattern: &str, task: &TaskSpec) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => task.name.starts_with(beginning),
        // rt-app's instances have a number behind their name.
        None => {
            let number = task.name.strip_prefix(pattern);
            number.is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()))
            })
        }
    }
}

impl Workload {
    /// Adds groups from a file, which go before settings that are known already; `of_tasks`: groups that tasks name themselves, by the tasks' indices.
    ///
    /// # Errors
    /// What does not fit together, with its place.
    pub(crate) fn add_groups(&mut self, entries: &[GroupEntry], of_tasks: &[(u32, String)]) -> Result<(), Fault> {
        for (index, entry) in entries.iter().enumerate() {
            if entries[..index].iter().any(|earlier| earlier.spec.name == entry.spec.name) {
                return Err(Fault::new(entry.at, format!("two groups are called `{}`", shorten(&entry.spec.name))));
            }
        }
        let before = std::mem::take(&mut self.groups);
        let mut names: Vec<String> = Vec::new();
        let known = before.iter().map(|group| &group.name).chain(entries.iter().map(|entry| &entry.spec.name));
        for name in known.chain(of_tasks.iter().map(|(_, name)| name)) {
            names.extend(name.match_indices('/').skip(1).map(|(end, _)| name[..end].to_owned()));
            names.push(name.clone());
        }
        // A parent's path comes before its children's.
        names.sort();
        names.dedup();
        let mut places: Vec<Option<u32>> = vec![None; self.tasks.len()];
        let place_of = |name: &str| names.iter().position(|known| known == name).map(|index| index as u32);
        for (task, name) in of_tasks {
            places[*task as usize] = place_of(name);
        }
        for group in &before {
            for &task in &group.tasks {
                places[task as usize] = place_of(&group.name);
            }
        }
        for op in self.tasks.iter_mut().flat_map(|task| &mut task.ops) {
            if let Op::SetGroup { group: Some(group), .. } | Op::SetGroupCpus { group, .. } = op
                && let Some(place) = place_of(&before[*group as usize].name)
            {
                *group = place;
            }
        }
        for name in &names {
            let entry = entries.iter().find(|entry| entry.spec.name == *name);
            let known = entry.map(|entry| &entry.spec).or_else(|| before.iter().find(|group| group.name == *name));
            let mut spec =
                known.map_or_else(|| GroupSpec::new(name), |spec| GroupSpec { tasks: Vec::new(), ..spec.clone() });
            spec.parent = place_of(name.rsplit_once('/').map_or("", |(above, _)| above));
            if let Some(entry) = entry {
                spec.cpus = entry.cpus.as_ref().map(|cpus| self.cpu_set_index(cpus));
                let own = self.groups.len() as u32;
                for pattern in &entry.tasks {
                    let mut any = false;
                    for (task, place) in self.tasks.iter().zip(&mut places).filter(|(task, _)| means(pattern, task)) {
                        any = true;
                        if place.is_some_and(|place| place != own) {
                            return Err(Fault::new(entry.at, format!("task {} is in two groups", shorten(&task.name))));
                        }
                        *place = Some(own);
                    }
                    if !any {
                        let known = self.tasks.iter().map(|task| task.name.as_str());
                        return Err(Fault::unknown(entry.at, "task", pattern, known));
                    }
                }
            }
            self.groups.push(spec);
        }
        for (task, place) in places.iter().enumerate() {
            if let Some(place) = *place {
                self.groups[place as usize].tasks.push(task as u32);
            }
        }
        Ok(())
    }

    fn cpu_set_index(&mut self, cpus: &[u32]) -> u32 {
        let known = self.cpu_sets.iter().position(|set| set == cpus);
        known.unwrap_or_else(|| {
            self.cpu_sets.push(cpus.to_vec());
            self.cpu_sets.len() - 1
        }) as u32
    }

    /// The group that each task's template is in; `None`: the root.
    pub fn group_of_tasks(&self) -> Vec<Option<u32>> {
        let mut groups = vec![None; self.tasks.len()];
        for (index, group) in self.groups.iter().enumerate() {
            for &task in &group.tasks {
                if let Some(place) = groups.get_mut(task as usize) {
                    *place = Some(index as u32);
                }
            }
        }
        groups
    }

    /// The CPUs of isolated partitions.
    pub fn isolated_cpus(&self) -> Vec<u32> {
        let own = |group: &GroupSpec| group.cpus.filter(|_| group.isolated);
        self.groups.iter().filter_map(own).flat_map(|set| self.cpu_sets[set as usize].iter().copied()).collect()
    }

    /// What of [`Workload::check`] concerns groups.
    fn check_groups(&self) -> Result<(), String> {
        let mut has_group = vec![false; self.tasks.len()];
        for (index, group) in self.groups.iter().enumerate() {
            let what = |why: &str| Err(format!("group {}: {why}", group.name));
            if group.parent.is_some_and(|parent| parent as usize >= index) {
                return what("its parent does not come before it");
            }
            if group.cpus.is_some_and(|set| set as usize >= self.cpu_sets.len()) {
                return what("its CPU set does not exist");
            }
            if group.isolated && (group.cpus.is_none() || group.parent.is_some()) {
                return what("a partition without CPUs of its own, or not below the root");
            }
            let cpus =
                |group: &GroupSpec| group.cpus.filter(|_| group.isolated).map(|set| &self.cpu_sets[set as usize]);
            let own = cpus(group).into_iter().flatten();
            let others = || self.groups[..index].iter().filter_map(cpus).flatten();
            if let Some(cpu) = own.into_iter().find(|&cpu| others().any(|other| other == cpu)) {
                return what(&format!("CPU {cpu} is in another isolated partition, too"));
            }
            if group.shares == 0 || group.shares > 1 << 18 {
                return what("its shares are not within 1 to 262144");
            }
            if group.quota.is_some_and(|quota| quota.quota_ns == 0 || quota.period_ns == 0) {
                return what("its quota or its period is nothing");
            }
            for &task in &group.tasks {
                match has_group.get_mut(task as usize) {
                    None => return what("one of its tasks does not exist"),
                    Some(true) => return what("one of its tasks is in another group, too"),
                    Some(place) => *place = true,
                }
            }
        }
        Ok(())
    }
}
