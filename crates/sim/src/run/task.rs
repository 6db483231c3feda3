//! Tasks as the engine keeps them.

use opplab_kernel::pelt::SchedAvg;
use opplab_kernel::sched::placement::{Clamps, WakeFlips};
use opplab_kernel::util_est::UtilEstPair;
use opplab_model::workload::{ObjectIdx, Op, SchedPolicy, TaskSpec};

use crate::ids::{ClusterId, CpuId, CpuSetId, GroupId, PolicyId, TaskId};
use crate::sched::dl_run::DlRun;
use crate::sched::proposed::TaskProposed;

/// Fraction bits of work and speed: work is ns of the biggest CPU << 20, so that `speed * ns` is exact.
pub(crate) const WORK_SHIFT: u32 = 20;

/// A task without a class of programs: its work is in proportion to the clock.
pub(crate) const NO_PROGRAM: u16 = u16::MAX;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Not yet started.
    New,
    /// On a run queue (or running).
    Queued,
    /// Chosen to wake on `Task::cpu`, which has not queued it yet.
    Waking,
    /// Asleep (interruptible).
    Sleeping,
    /// Waiting for I/O (uninterruptible, iowait).
    Io,
    /// Gone.
    Dead,
}

/// Which scheduling class serves the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// SCHED_DEADLINE (and the special sugov entities).
    Deadline,
    /// SCHED_FIFO and SCHED_RR.
    RealTime,
    /// SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
    Fair,
}

/// Why a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// A new task.
    New,
    /// A wake-up on the CPU where it slept.
    Wakeup,
    /// A wake-up on another CPU.
    WakeupMigrated,
    /// A queued task arrives from another CPU.
    Migrated,
    /// Back on the same queue after a change of its parameters.
    Restore,
    /// A deadline task's next period begins.
    Replenished,
}

/// What the task's CPU does when it runs the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The op at `pc` has not begun.
    Fresh,
    /// Work is left, in ns << [`WORK_SHIFT`]; `fixed` of 1024 parts do not scale with the clock.
    Work { left: u64, fixed: u16 },
    /// Wall time is left.
    Wall { left_ns: u64 },
}

/// A task. What a wake-up and a switch touch is at the beginning, together.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Task<'c> {
    /// Its program.
    pub(crate) ops: &'c [Op],
    pub(crate) pc: u32,
    /// Index of its first loop counter in the engine's.
    pub(crate) loops: u32,
    pub(crate) doing: Doing,
    /// CPU on which it is queued, or last was.
    pub(crate) cpu: CpuId,
    /// Cluster of the CPU where it ran last.
    pub(crate) cluster: ClusterId,
    /// The CPUs that it may use.
    pub(crate) allowed: CpuSetId,
    /// A blocking op is retried after the wake-up at this stage.
    pub(crate) stage: u8,
    pub(crate) life: Life,
    pub(crate) class: Class,
    /// Running on `cpu`.
    pub(crate) on_cpu: bool,
    pub(crate) group: GroupId,
    /// Counted in the run queue's util_est.
    pub(crate) util_est_counted: bool,
    /// It was picked although its group has no quota, and stops when it returns to user space (v6.18).
    pub(crate) throttle_work: bool,
    /// It has stopped so (`p->throttled`).
    pub(crate) throttled: bool,
    pub(crate) in_iowait: bool,
    pub(crate) waits_child: bool,
    /// It is of the system's background: its work is not the workload's.
    pub(crate) is_background: bool,
    /// Index of its class of programs in the machine's, or [`NO_PROGRAM`].
    pub(crate) program: u16,
    pub(crate) sa: SchedAvg,
    /// The service that does what follows from the completion of the request that it waits for.
    pub(crate) io_end: Option<ObjectIdx>,
    /// The channel that leads back to who sent the message that it has read last.
    pub(crate) back: Option<ObjectIdx>,
    /// It does the work of a bound workqueue: on the CPU that queued it.
    pub(crate) is_bound_worker: bool,
    /// The kthread of this frequency policy, if it is one.
    pub(crate) sugov: Option<PolicyId>,
    pub(crate) util_est: UtilEstPair,
    /// Time that it ran on `cluster` since it came there.
    pub(crate) cluster_ns: u64,
    pub(crate) activation_run_ns: u64,
    pub(crate) flips: WakeFlips,
    pub(crate) recent_used_cpu: CpuId,
    /// The budget of a deadline task.
    pub(crate) dl: Option<Box<DlRun>>,
    /// What it asked for; `None` without a request.
    pub(crate) uclamp_min: Option<u16>,
    pub(crate) uclamp_max: u16,
    /// The clamps with which it counts in its run queue.
    pub(crate) uclamp_counted: Option<Clamps>,
    /// The lateness of its wake-up by a timer counts from here, until it runs.
    pub(crate) due_ns: Option<u64>,
    pub(crate) wu_lat_ns: u64,
    pub(crate) exec_start_ns: u64,
    pub(crate) policy: SchedPolicy,
    /// Load weight << 10.
    pub(crate) weight: u64,
    /// Index of its template.
    pub(crate) spec: u32,
    /// The CPUs that it asks for, of which its group's are [`Task::allowed`] (`user_cpus_ptr`).
    pub(crate) wanted: CpuSetId,
    pub(crate) parent: Option<TaskId>,
    /// Children that ended and were not waited for.
    pub(crate) dead_children: u32,
    pub(crate) live_children: u32,
    pub(crate) started_ns: u64,
    /// How late its timers may be (task_struct::timer_slack_ns).
    pub(crate) timer_slack_ns: u64,
    /// Its timers are those of the timer wheel.
    pub(crate) timers_by_tick: bool,
    /// Next points of the timers that the task owns.
    pub(crate) own_timers: Vec<Option<u64>>,
    pub(crate) activation_ns: u64,
    pub(crate) slack_ns: i64,
    /// The same until the timer's next point alone.
    pub(crate) to_timer_ns: i64,
    /// When its run event began.
    pub(crate) run_since_ns: Option<u64>,
    /// When the timer ended, or ends, that begins its activation.
    pub(crate) release_ns: Option<u64>,
    /// What it slept on its own account since its last timer.
    pub(crate) slept_ns: u64,
    /// That was as long as a timer's period in this loop: a pause of the program, and no work that is late.
    pub(crate) pauses: bool,
    /// From the timers to the ends of the activations that they began, in this loop.
    pub(crate) response_ns: u64,
    /// Tasks whose calls it has accepted and not replied to.
    pub(crate) serves: Vec<TaskId>,
    /// The tick of the last [`opplab_model::workload::Op::SkipInTick`].
    pub(crate) stamp_jiffies: Option<u64>,
    /// What proposals keep of it.
    pub(crate) proposed: Option<Box<TaskProposed>>,
}

impl<'c> Task<'c> {
    /// The next loop of its phase begins.
    pub(crate) fn next_loop(&mut self, now_ns: u64) {
        (self.activation_ns, self.activation_run_ns) = (now_ns, 0);
        (self.wu_lat_ns, self.response_ns) = (0, 0);
        (self.slack_ns, self.to_timer_ns, self.pauses) = (0, 0, false);
    }

    pub(crate) fn new(spec_idx: u32, spec: &TaskSpec, ops: &'c [Op], allowed: CpuSetId, cpu: CpuId) -> Self {
        let policy = spec.policy;
        let (class, weight) = class_and_weight(policy);
        Self {
            spec: spec_idx,
            ops,
            pc: 0,
            loops: 0,
            doing: Doing::Fresh,
            stage: 0,
            life: Life::New,
            class,
            policy,
            cpu,
            on_cpu: false,
            group: GroupId::ROOT,
            allowed,
            wanted: allowed,
            weight,
            sa: SchedAvg::default(),
            util_est: UtilEstPair::default(),
            util_est_counted: false,
            throttle_work: false,
            throttled: false,
            dl: DlRun::of(policy, spec.assumed_bandwidth),
            uclamp_min: None,
            uclamp_max: 1024,
            uclamp_counted: None,
            flips: WakeFlips::default(),
            recent_used_cpu: cpu,
            in_iowait: false,
            parent: None,
            dead_children: 0,
            live_children: 0,
            waits_child: false,
            is_background: false,
            program: NO_PROGRAM,
            io_end: None,
            back: None,
            is_bound_worker: false,
            sugov: None,
            wu_lat_ns: 0,
            started_ns: 0,
            timer_slack_ns: 0,
            timers_by_tick: false,
            own_timers: vec![None; spec.nr_own_timers as usize],
            activation_ns: 0,
            activation_run_ns: 0,
            slack_ns: 0,
            slept_ns: 0,
            pauses: false,
            to_timer_ns: 0,
            run_since_ns: None,
            release_ns: None,
            response_ns: 0,
            due_ns: None,
            cluster_ns: 0,
            cluster: ClusterId(0),
            exec_start_ns: 0,
            serves: Vec::new(),
            stamp_jiffies: None,
            proposed: None,
        }
    }
}

/// The class of a policy and the load weight (<< 10) that PELT and the fair class use for it.
pub(crate) fn class_and_weight(policy: SchedPolicy) -> (Class, u64) {
    use opplab_kernel::sched::weight::{IDLE_WEIGHT, LoadWeight};
    match policy {
        SchedPolicy::Other { nice } | SchedPolicy::Batch { nice } => {
            (Class::Fair, LoadWeight::of_nice(nice.into()).weight)
        }
        SchedPolicy::Idle => (Class::Fair, IDLE_WEIGHT),
        SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. } => (Class::RealTime, LoadWeight::of_nice(-20).weight),
        SchedPolicy::Deadline { .. } => (Class::Deadline, LoadWeight::of_nice(-20).weight),
    }
}
