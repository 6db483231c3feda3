//! What runs: tasks, each a program of [`Op`]s. rt-app files and the benchmark models both compile to this.
//!
//! Work is counted in ns on the biggest CPU at its reference (highest non-boost) frequency.

use crate::error::{Fault, shorten};
use crate::groups::{GroupEntry, GroupSpec};
use crate::metric::Metric;

/// Index of a synchronisation object of one kind, dense from 0.
pub type ObjectIdx = u32;

/// One step of a program. Times are ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant documents its fields")]
// Its own tag, not one that is hidden in the field of a variant: the engine asks for it at each op.
#[repr(u8)]
pub enum Op {
    /// A fixed amount of work; `fixed` of 1024 parts of it do not scale with the core's clock or capacity (memory, uncore).
    Run { work_ns: u64, fixed: u16 },
    /// A random amount of work: the next of [`Workload::draws`]`[draw]`. `fixed` as in `Run`.
    RunDraw { draw: ObjectIdx, fixed: u16 },
    /// An amount of work from a list: the entry of [`Workload::draws`]`[draw]` that the loop counter `slot` selects, from
    /// the front again past the end. `fixed` as in `Run`.
    RunListed { draw: ObjectIdx, slot: u16, fixed: u16 },
    /// Runs for a fixed wall time on a CPU.
    Runtime { wall_ns: u64 },
    /// Writes to a cache line that all CPUs write (a shared counter): it has the line for `hold_ns` of wall time once all
    /// accesses that began before are over, and runs meanwhile, whatever its clock. An access that has begun delays those
    /// after it by no more than `hold_ns`, even if its task is preempted.
    Contend { line: ObjectIdx, hold_ns: u64 },
    /// Sleeps (relative).
    Sleep { ns: u64 },
    /// rt-app's timer: adds `period_ns` to the timer's time and sleeps until then. On its first use the timer's time is
    /// the start of the task (start of the run plus [`TaskSpec::delay_ns`]), unless [`Op::TimersFrom`] came before. Slack is the time left when the timer is
    /// reached. On overrun (slack <= 0) there is no sleep, and the timer's time becomes now unless it is `absolute`.
    /// `own`: the timer belongs to this instance of the task (`timer` < [`TaskSpec::nr_own_timers`]); otherwise all
    /// tasks share it (`timer` < [`Workload::nr_timers`]).
    Timer { timer: ObjectIdx, period_ns: u64, absolute: bool, own: bool },
    /// Timers of the task that are first used later count from `ns` after the start of the run (rt-app's `t_zero`).
    TimersFrom { ns: u64 },
    /// How late the task's timers may be, so that one interrupt serves several (prctl(PR_SET_TIMERSLACK)); 0 at its start.
    SetTimerSlack { ns: u64 },
    /// The task's timers are those of the kernel's timer wheel from here on: the softirq of the first tick that comes when they are due
    /// serves them (`schedule_timeout()`).
    TimersByTick,
    /// Takes a mutex.
    Lock { mutex: ObjectIdx },
    /// Gives a mutex back: it is free, and the first waiter is woken to try again.
    Unlock { mutex: ObjectIdx },
    /// Gives a mutex back as `up()` does a semaphore of the kernel: to the first waiter, which owns it from then on; it is free
    /// only if nobody waits (kernel/locking/semaphore.c:__up(), v5.9).
    HandOver { mutex: ObjectIdx },
    /// Waits on a condition without memory, giving `mutex` back meanwhile.
    Wait { cond: ObjectIdx, mutex: ObjectIdx },
    /// Wakes one waiter of a condition.
    Signal { cond: ObjectIdx },
    /// Wakes all waiters of a condition.
    Broadcast { cond: ObjectIdx },
    /// rt-app's `suspend`: waits on a condition without a mutex.
    Suspend { cond: ObjectIdx },
    /// rt-app's `resume`: wakes all that are suspended on a condition.
    Resume { cond: ObjectIdx },
    /// Waits for `Barrier` of all its users.
    Barrier { barrier: ObjectIdx },
    /// Waits as `Barrier` does, but running: only after `spin_ns` of running it sleeps (OpenMP's and MPI's active waits).
    SpinBarrier { barrier: ObjectIdx, spin_ns: u64 },
    /// Adds one to a semaphore.
    SemPost { sem: ObjectIdx },
    /// Takes one from a semaphore, waiting for it if there is none.
    SemWait { sem: ObjectIdx },
    /// Gives the CPU to another runnable task.
    Yield,
    /// Starts task template `task` (an index into [`Workload::tasks`]) as a child.
    Fork { task: u32 },
    /// Loads a new program: the task may move to the idlest CPU (sched_exec()).
    Exec,
    /// Waits until a child has ended (any; counts).
    WaitChild,
    /// Restricts (or frees, `None`) the CPUs of the task: an index into [`Workload::cpu_sets`].
    SetCpus { set: Option<u32> },
    /// Changes policy and priority.
    SetPolicy { policy: SchedPolicy },
    /// Moves `task` (an index into [`Workload::tasks`]: all that live of this template; `None`: the task itself) into `group`, an
    /// index into [`Workload::groups`] (`None`: the root), as a write to `cgroup.procs` does.
    SetGroup { task: Option<u32>, group: Option<u32> },
    /// Gives a group other CPUs (`cpuset.cpus`), an index into [`Workload::cpu_sets`]; `None`: its parent's.
    SetGroupCpus { group: u32, set: Option<u32> },
    /// Changes utilisation clamps, 0..1024; `None` leaves one as it is.
    SetUclamp { min: Option<u16>, max: Option<u16> },
    /// Start of a loop that runs `count` times (`None`: for ever). `slot` is its counter.
    LoopBegin { slot: u16, count: Option<u32> },
    /// End of the loop whose `LoopBegin` is at `begin`.
    LoopEnd { slot: u16, begin: u32 },
    /// Goes on after the next `count` ops.
    Skip { count: u16 },
    /// Skips the next `count` ops if no tick has begun since the task last did this, as what is stamped with the coarse
    /// clock (a file's times) does not change within a tick.
    SkipInTick { count: u16 },
    /// One loop of phase `phase` (an index into [`TaskSpec::phases`]) ended: a line of the rt-app log.
    /// `timed`: the loop held a timer, so that it counts as an activation, missed if its slack is negative.
    Activation { phase: u16, timed: bool },
    /// Writes `bytes` of a channel (pipe, socket); waits while it is full.
    Send { channel: ObjectIdx, bytes: u32 },
    /// Writes `bytes` of a channel, or loses them while it is full (UDP).
    TrySend { channel: ObjectIdx, bytes: u32 },
    /// As `Send`; who reads it knows that channel `back` leads back to the task.
    SendFrom { channel: ObjectIdx, bytes: u32, back: ObjectIdx },
    /// Reads a message of a channel; waits while it is empty.
    Recv { channel: ObjectIdx },
    /// As `Send`, to who sent the message that the task has read last: with many connections that all send into one channel,
    /// to the one that is ready (poll(2)). Nothing if that message was no `SendFrom`.
    SendBack { bytes: u32 },
    /// Reads from (or writes to) a block device and waits in iowait for the completion interrupt.
    Io { device: ObjectIdx, bytes: u32 },
    /// As `Io`, but waits as a worker does that the completion hands its work back to: not in iowait.
    IoWork { device: ObjectIdx, bytes: u32 },
    /// As `Io`, but its completion is work of a service, for a thread that runs where the interrupt came in ([`Workqueue::Bound`]);
    /// the thread's reply ends the wait.
    IoEnd { device: ObjectIdx, bytes: u32, service: ObjectIdx },
    /// Frees memory that others may still read (a closed file): the CPU has an RCU callback, and keeps its tick in idle,
    /// until a grace period is over.
    CallRcu,
    /// Asks a service and sleeps until a server replies, in iowait if `iowait`.
    Call { service: ObjectIdx, iowait: bool },
    /// Takes the calls that wait at a service, at most `calls_max` of them; waits while there is none.
    Accept { service: ObjectIdx, calls_max: u32 },
    /// Replies to all calls that the task has accepted.
    Reply,
    /// One unit of the benchmark's metric is done.
    Count,
    /// Ends the task.
    Exit,
}

/// Scheduling policy and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant documents its fields")]
pub enum SchedPolicy {
    /// SCHED_OTHER with a nice value -20..19.
    Other { nice: i8 },
    /// SCHED_BATCH.
    Batch { nice: i8 },
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO, priority 1..99.
    Fifo { priority: u8 },
    /// SCHED_RR, priority 1..99.
    RoundRobin { priority: u8 },
    /// SCHED_DEADLINE; `reclaim`: bandwidth that others leave unused stretches its runtime (`SCHED_FLAG_RECLAIM`).
    Deadline { runtime_ns: u64, deadline_ns: u64, period_ns: u64, reclaim: bool },
}

impl SchedPolicy {
    /// The task's priority as trace events print it (kernel/sched/core.c:`__normal_prio()`, v6.12): 120 + nice, below 100
    /// real-time, below 0 deadline.
    pub fn prio(self) -> i32 {
        match self {
            Self::Other { nice } | Self::Batch { nice } => 120 + i32::from(nice),
            Self::Idle => 120,
            Self::Fifo { priority } | Self::RoundRobin { priority } => 99 - i32::from(priority),
            Self::Deadline { .. } => -1,
        }
    }
}

impl Default for SchedPolicy {
    fn default() -> Self {
        Self::Other { nice: 0 }
    }
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

/// One task (or a template that `Fork` instantiates).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskSpec {
    /// The comm, e.g. `task0-0`.
    pub name: String,
    /// Whether it starts with the run (`false`: only `Fork` starts it).
    pub initial: bool,
    /// Start delay in ns.
    pub delay_ns: u64,
    /// Policy.
    pub policy: SchedPolicy,
    /// Its class of programs, one of the machine's [`crate::machine::Machine::program_classes`], which states how its work
    /// scales in place of the ops' `fixed`; empty: none.
    pub class: String,
    /// Allowed CPUs, an index into [`Workload::cpu_sets`]; `None`: all.
    pub cpus: Option<u32>,
    /// CPU on which the task is born (where its parent ran); `None`: CPU 0.
    pub spawn_cpu: Option<u32>,
    /// It exists already when the run begins: its averages start at 0, not at a new task's values.
    pub seasoned: bool,
    /// The workqueue whose work it does; `None`: a task of its own.
    pub workqueue: Option<Workqueue>,
    /// The parameters of its deadline policy are assumed: it is admitted, and its bandwidth does not raise the clock.
    pub assumed_bandwidth: bool,
    /// Program.
    pub ops: Vec<Op>,
    /// Number of loop counters used.
    pub loop_slots: u16,
    /// Number of timers that each instance of the task owns.
    pub nr_own_timers: u32,
    /// Phases that [`Op::Activation`] names.
    pub phases: Vec<PhaseSpec>,
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
}

/// A bounded byte channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Bytes that fit before the writer waits.
    pub capacity_bytes: u32,
    /// Whether a write is a synchronous wake-up (WF_SYNC: pipes and loopback sockets).
    pub sync_wakeup: bool,
}

/// A block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Work of that interrupt, in ns of the biggest CPU at its highest non-boost frequency.
    pub irq_ns: u64,
}

/// A set of tasks and the objects that they share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Tasks, in the order in which they are started.
    pub tasks: Vec<TaskSpec>,
    /// Task groups; a group's parent comes before it.
    pub groups: Vec<GroupSpec>,
    /// CPU sets that tasks and groups refer to.
    pub cpu_sets: Vec<Vec<u32>>,
    /// Number of mutexes.
    pub nr_mutexes: u32,
    /// Number of cache lines that [`Op::Contend`] names.
    pub nr_lines: u32,
    /// Number of conditions.
    pub nr_conds: u32,
    /// Users of each barrier.
    pub barriers: Vec<u32>,
    /// Initial value of each semaphore.
    pub semaphores: Vec<u32>,
    /// Number of timers that tasks share.
    pub nr_timers: u32,
    /// Slack of an activation is the sum over its timers; otherwise that of its last timer.
    pub cumulative_slack: bool,
    /// Channels.
    pub channels: Vec<ChannelSpec>,
    /// Block devices.
    pub devices: Vec<DeviceSpec>,
    /// Number of services that [`Op::Call`] asks.
    pub nr_services: u32,
    /// Tables of work in ns. [`Op::RunDraw`] draws from one as from a shuffled deck of cards, which is shuffled again
    /// when all are drawn, all tasks from the same deck; [`Op::RunListed`] takes it in order.
    pub draws: Vec<Vec<u64>>,
    /// The first so many tasks are the benchmark's own: the run is over when they have ended. 0: it lasts its time.
    pub nr_main: u32,
    /// The last so many tasks are the system's background: they use energy, and no metric of the workload counts them.
    pub nr_background: u32,
    /// What each of two busy threads of a core does of one alone in these programs, in 1/1024; `None`: the machine's
    /// [`crate::machine::Machine::smt_yield`].
    pub smt_yield: Option<u32>,
    /// Time at the start of the run that does not count in any figure, in ns.
    pub warmup_ns: u64,
    /// What the benchmark reports; `None`: nothing of its own.
    pub metric: Option<Metric>,
    /// Duration that the workload itself asks for, in ns; `None`: until its tasks end.
    pub duration_ns: Option<u64>,
}

impl Workload {
    /// How many tasks are its own, which come before the background.
    pub fn nr_own(&self) -> usize {
        self.tasks.len() - self.nr_background as usize
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
                Op::Contend { line, .. } => within("cache line", line, self.nr_lines as usize)?,
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
