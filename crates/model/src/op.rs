//! The steps of a program, each with its form in a case file: a list of a word and its values, e.g. `["run",800000,0]`.

use crate::error::{Fault, Pos};
use crate::tree::{Node, TIME_NS_MAX, Value};

/// Index of a synchronisation object of one kind, dense from 0.
pub type ObjectIdx = u32;

/// The arguments of a step: a word, then values in a fixed order.
pub(crate) struct Args<'a> {
    at: Pos,
    pub(crate) word: &'a str,
    pub(crate) rest: &'a [Node],
}

impl<'a> Args<'a> {
    pub(crate) fn new(node: &'a Node, what: &str) -> Result<Self, Fault> {
        let items = node.as_list(what)?;
        let (word, rest) = items.split_first().ok_or_else(|| Fault::new(node.at, format!("`{what}` is empty")))?;
        Ok(Self { at: node.at, word: word.as_str(what)?, rest })
    }

    /// A list without a leading word.
    pub(crate) fn plain(node: &'a Node, what: &'a str) -> Result<Self, Fault> {
        Ok(Self { at: node.at, word: what, rest: node.as_list(what)? })
    }

    pub(crate) fn next(&mut self) -> Result<&'a Node, Fault> {
        let (first, rest) =
            self.rest.split_first().ok_or_else(|| Fault::new(self.at, format!("`{}` lacks a value", self.word)))?;
        self.rest = rest;
        Ok(first)
    }

    pub(crate) fn int<T: TryFrom<i128>>(&mut self, max: i128) -> Result<T, Fault> {
        self.next()?.as_int(self.word, 0, max)
    }

    pub(crate) fn index(&mut self) -> Result<u32, Fault> {
        self.int(i128::from(u32::MAX))
    }

    pub(crate) fn time(&mut self) -> Result<u64, Fault> {
        self.int(TIME_NS_MAX)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Fault> {
        self.next()?.as_bool(self.word)
    }

    pub(crate) fn opt<T: TryFrom<i128>>(&mut self, max: i128) -> Result<Option<T>, Fault> {
        let node = self.next()?;
        if node.value == Value::Null { Ok(None) } else { node.as_int(self.word, 0, max).map(Some) }
    }

    pub(crate) fn end(self) -> Result<(), Fault> {
        match self.rest.first() {
            None => Ok(()),
            Some(node) => Err(Fault::new(node.at, format!("`{}` has a value too many", self.word))),
        }
    }
}

/// A value or null.
pub(crate) fn opt(value: Option<impl Into<i128>>) -> Node {
    value.map_or(Node { value: Value::Null, at: Pos::default() }, Node::from)
}

/// A value of a step.
trait Arg: Copy {
    /// The most that it may be where its step does not limit it.
    const MAX: i128 = 0;
    fn node(self) -> Node;
    fn read(args: &mut Args<'_>, max: i128) -> Result<Self, Fault>;
}

macro_rules! numbers {
    ($($type:ty: $max:expr,)*) => {
        $(impl Arg for $type {
            const MAX: i128 = $max;
            fn node(self) -> Node {
                Node::from(self)
            }
            fn read(args: &mut Args<'_>, max: i128) -> Result<Self, Fault> {
                args.int(max)
            }
        }

        impl Arg for Option<$type> {
            const MAX: i128 = $max;
            fn node(self) -> Node {
                opt(self)
            }
            fn read(args: &mut Args<'_>, max: i128) -> Result<Self, Fault> {
                args.opt(max)
            }
        })*
    };
}
numbers! { u16: u16::MAX as i128, u32: u32::MAX as i128, u64: TIME_NS_MAX, }

impl Arg for bool {
    fn node(self) -> Node {
        Node::bool(self)
    }
    fn read(args: &mut Args<'_>, _max: i128) -> Result<Self, Fault> {
        args.bool()
    }
}

impl Arg for SchedPolicy {
    fn node(self) -> Node {
        sched_node(&self)
    }
    fn read(args: &mut Args<'_>, _max: i128) -> Result<Self, Fault> {
        sched_from(args.next()?)
    }
}

/// Declares the steps: `Name("word") { value: type = most }`.
macro_rules! ops {
    ($($(#[$doc:meta])* $Op:ident($word:literal) $({ $($value:ident: $type:ty $(= $max:expr)?),* })?,)*) => {
        /// One step of a program. Times are ns.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant documents its fields")]
        // Its own tag, not one that is hidden in the field of a variant: the engine asks for it at each op.
        #[repr(u8)]
        pub enum Op {
            $($(#[$doc])* $Op $({ $($value: $type),* })?,)*
        }

        impl Op {
            /// The list that stands for it.
            pub(crate) fn node(&self) -> Node {
                match *self {
                    $(Self::$Op $({ $($value),* })? =>
                        Node::list([Node::str($word), $($(Arg::node($value)),*)?]),)*
                }
            }

            /// The step that a list stands for.
            pub(crate) fn from_node(node: &Node) -> Result<Self, Fault> {
                let mut args = Args::new(node, "op")?;
                let op = match args.word {
                    $($word => Self::$Op $({
                        $($value: <$type as Arg>::read(&mut args, [$($max,)? <$type as Arg>::MAX][0])?),*
                    })?,)*
                    other => return Err(Fault::unknown(args.at, "op", other, [$($word),*])),
                };
                args.end()?;
                Ok(op)
            }
        }
    };
}

ops! {
    /// A fixed amount of work; `fixed` of 1024 parts of it do not scale with the core's clock or capacity (memory, uncore).
    Run("run") { work_ns: u64 = 1 << 60, fixed: u16 = 1024 },
    /// A random amount of work: the next of [`crate::workload::Workload::draws`]`[draw]`. `fixed` as in `Run`.
    RunDraw("run_draw") { draw: ObjectIdx, fixed: u16 = 1024 },
    /// An amount of work from a list: the entry of [`crate::workload::Workload::draws`]`[draw]` that the loop counter `slot` selects, from
    /// the front again past the end. `fixed` as in `Run`.
    RunListed("run_listed") { draw: ObjectIdx, slot: u16, fixed: u16 = 1024 },
    /// Runs for a fixed wall time on a CPU.
    Runtime("runtime") { wall_ns: u64 },
    /// Writes to a cache line that all CPUs write (a shared counter): it has the line for `hold_ns` of wall time once all
    /// accesses that began before are over, and runs meanwhile, whatever its clock. An access that has begun delays those
    /// after it by no more than `hold_ns`, even if its task is preempted.
    Contend("contend") { line: ObjectIdx, hold_ns: u64 },
    /// Reads a cache line that all CPUs read and few accesses write (a sum that is kept for all): if it was written under another
    /// last-level cache since this one last had it, the task runs for `fetch_ns` until it is here, whatever its clock. Each `every`-th
    /// access of all CPUs writes it as well.
    Share("share") { line: ObjectIdx, fetch_ns: u32, every: u32 },
    /// Sleeps (relative).
    Sleep("sleep") { ns: u64 },
    /// rt-app's timer: adds `period_ns` to the timer's time and sleeps until then. On its first use the timer's time is
    /// the start of the task (start of the run plus [`crate::workload::TaskSpec::delay_ns`]), unless [`Op::TimersFrom`] came before. Slack is the time left when the timer is
    /// reached. On overrun (slack <= 0) there is no sleep, and the timer's time becomes now unless it is `absolute`.
    /// `own`: the timer belongs to this instance of the task (`timer` < [`crate::workload::TaskSpec::nr_own_timers`]); otherwise all
    /// tasks share it (`timer` < [`crate::workload::Workload::nr_timers`]).
    Timer("timer") { timer: ObjectIdx, period_ns: u64, absolute: bool, own: bool },
    /// Timers of the task that are first used later count from `ns` after the start of the run (rt-app's `t_zero`).
    TimersFrom("timers_from") { ns: u64 },
    /// How late the task's timers may be, so that one interrupt serves several (prctl(PR_SET_TIMERSLACK)); 0 at its start.
    SetTimerSlack("set_timer_slack") { ns: u64 },
    /// The task's timers are those of the kernel's timer wheel from here on: the softirq of the first tick that comes when they are due
    /// serves them (`schedule_timeout()`).
    TimersByTick("timers_by_tick"),
    /// Takes a mutex.
    Lock("lock") { mutex: ObjectIdx },
    /// Gives a mutex back: it is free, and the first waiter is woken to try again.
    Unlock("unlock") { mutex: ObjectIdx },
    /// Gives a mutex back as `up()` does a semaphore of the kernel: to the first waiter, which owns it from then on; it is free
    /// only if nobody waits (kernel/locking/semaphore.c:__up(), v5.9).
    HandOver("hand_over") { mutex: ObjectIdx },
    /// Waits on a condition without memory, giving `mutex` back meanwhile.
    Wait("wait") { cond: ObjectIdx, mutex: ObjectIdx },
    /// Wakes one waiter of a condition.
    Signal("signal") { cond: ObjectIdx },
    /// Wakes all waiters of a condition.
    Broadcast("broadcast") { cond: ObjectIdx },
    /// rt-app's `suspend`: waits on a condition without a mutex.
    Suspend("suspend") { cond: ObjectIdx },
    /// rt-app's `resume`: wakes all that are suspended on a condition.
    Resume("resume") { cond: ObjectIdx },
    /// Waits for `Barrier` of all its users.
    Barrier("barrier") { barrier: ObjectIdx },
    /// Waits as `Barrier` does, but running: only after `spin_ns` of running it sleeps (OpenMP's and MPI's active waits).
    SpinBarrier("spin_barrier") { barrier: ObjectIdx, spin_ns: u64 },
    /// Adds one to a semaphore.
    SemPost("sem_post") { sem: ObjectIdx },
    /// Takes one from a semaphore, waiting for it if there is none.
    SemWait("sem_wait") { sem: ObjectIdx },
    /// Gives the CPU to another runnable task.
    Yield("yield"),
    /// Starts task template `task` (an index into [`crate::workload::Workload::tasks`]) as a child.
    Fork("fork") { task: u32 },
    /// Loads a new program: the task may move to the idlest CPU (sched_exec()).
    Exec("exec"),
    /// Waits until a child has ended (any; counts).
    WaitChild("wait_child"),
    /// Restricts (or frees, `None`) the CPUs of the task: an index into [`crate::workload::Workload::cpu_sets`].
    SetCpus("set_cpus") { set: Option<u32> },
    /// Changes policy and priority.
    SetPolicy("set_policy") { policy: SchedPolicy },
    /// Moves `task` (an index into [`crate::workload::Workload::tasks`]: all that live of this template; `None`: the task itself) into `group`, an
    /// index into [`crate::workload::Workload::groups`] (`None`: the root), as a write to `cgroup.procs` does.
    SetGroup("set_group") { task: Option<u32>, group: Option<u32> },
    /// Gives a group other CPUs (`cpuset.cpus`), an index into [`crate::workload::Workload::cpu_sets`]; `None`: its parent's.
    SetGroupCpus("set_group_cpus") { group: u32, set: Option<u32> },
    /// Changes utilisation clamps, 0..1024; `None` leaves one as it is.
    SetUclamp("set_uclamp") { min: Option<u16> = 1024, max: Option<u16> = 1024 },
    /// Start of a loop that runs `count` times (`None`: for ever). `slot` is its counter.
    LoopBegin("loop_begin") { slot: u16, count: Option<u32> },
    /// End of the loop whose `LoopBegin` is at `begin`.
    LoopEnd("loop_end") { slot: u16, begin: u32 },
    /// Goes on after the next `count` ops.
    Skip("skip") { count: u16 },
    /// Skips the next `count` ops if no tick has begun since the task last did this, as what is stamped with the coarse
    /// clock (a file's times) does not change within a tick.
    SkipInTick("skip_in_tick") { count: u16 },
    /// One loop of phase `phase` (an index into [`crate::workload::TaskSpec::phases`]) ended: a line of the rt-app log.
    /// `timed`: the loop held a timer, so that it counts as an activation, missed if its slack is negative.
    Activation("activation") { phase: u16, timed: bool },
    /// Writes `bytes` of a channel (pipe, socket); waits while it is full.
    Send("send") { channel: ObjectIdx, bytes: u32 },
    /// Writes `bytes` of a channel, or loses them while it is full (UDP).
    TrySend("try_send") { channel: ObjectIdx, bytes: u32 },
    /// As `Send`; who reads it knows that channel `back` leads back to the task.
    SendFrom("send_from") { channel: ObjectIdx, bytes: u32, back: ObjectIdx },
    /// Reads a message of a channel; waits while it is empty.
    Recv("recv") { channel: ObjectIdx },
    /// As `Send`, to who sent the message that the task has read last: with many connections that all send into one channel,
    /// to the one that is ready (poll(2)). Nothing if that message was no `SendFrom`.
    SendBack("send_back") { bytes: u32 },
    /// Reads from (or writes to) a block device and waits in iowait for the completion interrupt.
    Io("io") { device: ObjectIdx, bytes: u32 },
    /// As `Io`, but waits as a worker does that the completion hands its work back to: not in iowait.
    IoWork("io_work") { device: ObjectIdx, bytes: u32 },
    /// As `Io`, but its completion is work of a service, for a thread that runs where the interrupt came in ([`crate::workload::Workqueue::Bound`]);
    /// the thread's reply ends the wait.
    IoEnd("io_end") { device: ObjectIdx, bytes: u32, service: ObjectIdx },
    /// Frees memory that others may still read (a closed file): the CPU has an RCU callback, and keeps its tick in idle,
    /// until a grace period is over.
    CallRcu("call_rcu"),
    /// Asks a service and sleeps until a server replies, in iowait if `iowait`.
    Call("call") { service: ObjectIdx, iowait: bool },
    /// Takes the calls that wait at a service, at most `calls_max` of them; waits while there is none.
    Accept("accept") { service: ObjectIdx, calls_max: u32 },
    /// Replies to all calls that the task has accepted.
    Reply("reply"),
    /// One unit of the benchmark's metric is done.
    Count("count"),
    /// Ends the task.
    Exit("exit"),
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
    /// Whether the fair class runs the task (kernel/sched/sched.h:fair_policy() and idle_policy(), v6.12).
    pub fn is_fair(self) -> bool {
        matches!(self, Self::Other { .. } | Self::Batch { .. } | Self::Idle)
    }

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

pub(crate) fn sched_node(policy: &SchedPolicy) -> Node {
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

pub(crate) fn sched_from(node: &Node) -> Result<SchedPolicy, Fault> {
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
