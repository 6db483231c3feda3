//! The events hub: what happens in a simulated run, under the kernel's own tracepoint names
//! (include/trace/events/sched.h, power.h, v6.12), plus a few of ours.
//!
//! A run is generic over its [`Sink`], so that a run without observers costs nothing.

use opplab_kernel::cpufreq::facts::CpuFacts;
use opplab_kernel::cpuidle::{IdleFacts, IdleOutcome};

use crate::counters::Sample;
use crate::decision::Decision;
pub use crate::ids::{CpuIdx, IDLE_TASK, PlacementRule, TaskIdx};
use crate::workload::SchedPolicy;

/// Why a task left its CPU, as `sched_switch` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TaskState {
    /// `R`: preempted or yielded, still runnable.
    Running = 0,
    /// `S`: interruptible sleep.
    Interruptible = 1,
    /// `D`: uninterruptible sleep (I/O).
    Uninterruptible = 2,
    /// `X`: gone.
    Dead = 16,
}

/// One thing that happened. Times are in the stream, not in the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant documents its fields")]
pub enum Event {
    /// `sched_switch` on `cpu`.
    SchedSwitch { cpu: CpuIdx, prev: TaskIdx, prev_state: TaskState, next: TaskIdx },
    /// `sched_waking`, seen on the waker's `cpu`.
    SchedWaking { cpu: CpuIdx, task: TaskIdx, target_cpu: CpuIdx },
    /// `sched_wakeup_new`: a task starts its life.
    SchedWakeupNew { cpu: CpuIdx, task: TaskIdx, target_cpu: CpuIdx },
    /// `sched_migrate_task`.
    SchedMigrateTask { task: TaskIdx, orig_cpu: CpuIdx, dest_cpu: CpuIdx },
    /// `sched_process_exit`.
    SchedProcessExit { task: TaskIdx },
    /// `cpu_frequency`: the clock of `cpu` is now `khz` (what the hardware grants).
    CpuFrequency { cpu: CpuIdx, khz: u32 },
    /// Ours: the governor of the policy that `cpu` leads asked for `khz`.
    FreqRequest { cpu: CpuIdx, khz: u32, util: u32, max: u32 },
    /// `cpu_idle`: `state` >= 0 entered, -1 left.
    CpuIdle { cpu: CpuIdx, state: i32 },
    /// Ours: `cpu` begins to leave its idle state, which takes the hardware until [`Event::CpuIdle`] has -1.
    IdleExit { cpu: CpuIdx },
    /// Ours: the CPUs of a cluster entered (>= 0) or left (-1) a cluster idle state.
    ClusterIdle { cluster: u32, state: i32 },
    /// `pelt_se_tp`: a task's signal crossed a period.
    PeltSe { cpu: CpuIdx, task: TaskIdx, load_avg: u32, runnable_avg: u32, util_avg: u32 },
    /// `pelt_cfs_tp` of the root run queue.
    PeltCfs { cpu: CpuIdx, load_avg: u32, runnable_avg: u32, util_avg: u32 },
    /// `sched_util_est_se_tp`.
    UtilEstSe { cpu: CpuIdx, task: TaskIdx, util_est: u32, util_avg: u32 },
    /// `sched_overutilized_tp`.
    SchedOverutilized { overutilized: bool },
    /// Ours: where a task was placed, from where, and by which rule.
    Placement { task: TaskIdx, prev_cpu: CpuIdx, cpu: CpuIdx, rule: PlacementRule },
    /// Ours: one loop of a phase ended (`Op::Activation`). `period_ns` is the time since the loop began, `run_ns` the
    /// time that its run events took (preemption included), `wu_lat_ns` the lateness of the wake-ups by its timers.
    /// `slack_ns` < 0 is a missed activation; `timed`: a timer of the phase begins it, and the program
    /// does not sleep for a period on its own account. `response_ns`: from such a timer to
    /// the end of what it began, with all waits; 0 if nothing ended. Absolute timers that are missed count from their end.
    /// `to_timer_ns` is rt-app's slack, to the timer's next point; `slack_ns` ends at a `dl-deadline` before that.
    Activation {
        task: TaskIdx,
        phase: u16,
        timed: bool,
        period_ns: u64,
        run_ns: u64,
        wu_lat_ns: u64,
        response_ns: u64,
        slack_ns: i64,
        to_timer_ns: i64,
    },
}

/// How a task's place in the run queues changes, beside what [`Event::SchedSwitch`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// It can run: it woke, is new, or came from another CPU.
    In,
    /// It leaves the queue of the CPU without falling asleep.
    Out,
    /// It came from another CPU asleep, since its dequeue is delayed.
    Asleep,
}

/// Whose timer expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiredTimer {
    /// The tick.
    Tick,
    /// One that a task waits for.
    Task(TaskIdx),
    /// One of the kernel's own.
    Kernel,
}

/// Who watches a run.
pub trait Sink {
    /// Whether [`Sink::event`] does anything; `false` lets the compiler drop the events.
    const ENABLED: bool = true;
    /// Whether [`Sink::decision`] does anything; only then are decisions recorded.
    const DECISIONS: bool = false;
    /// Takes one event. Events come in time order.
    fn event(&mut self, now_ns: u64, event: &Event);
    /// How often the machine's counters are read, in ns; 0: never. Reading them changes nothing.
    fn sample_period_ns(&self) -> u64 {
        0
    }
    /// Takes the counters: at the start, then every period, after all that happened before that instant.
    fn sample(&mut self, sample: Sample) {
        let _ = sample;
    }
    /// Takes the record of one decision, before the events that follow from it.
    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        let _ = (now_ns, decision);
    }
    /// Takes what a meter of the machine shows from now on, in uW.
    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        let _ = (now_ns, metered, power_uw);
    }
    /// Takes a change of the queues of `cpu`; `group`: the task's, an index into the workload's.
    fn queued(&mut self, now_ns: u64, cpu: CpuIdx, task: TaskIdx, group: Option<u32>, change: QueueChange) {
        let _ = (now_ns, cpu, task, group, change);
    }
    /// Takes the policy of a task: when the task is made, before its first event, and when the policy changes.
    fn policy(&mut self, now_ns: u64, task: TaskIdx, policy: SchedPolicy) {
        let _ = (now_ns, task, policy);
    }
    /// Takes the clamps of utilisation that a task asks for from now on (`sched_setattr()`); `None`: its class's default.
    fn clamps(&mut self, now_ns: u64, task: TaskIdx, min: Option<u16>, max: u16) {
        let _ = (now_ns, task, min, max);
    }
    /// Takes the CPUs that a task may use from now on; `None`: all that tasks may use. Until it is called, all.
    fn affinity(&mut self, now_ns: u64, task: TaskIdx, cpus: Option<&[CpuIdx]>) {
        let _ = (now_ns, task, cpus);
    }
    /// Takes when the timer that wakes a task was due, before the task's [`Event::SchedWaking`].
    fn timer_due(&mut self, task: TaskIdx, due_ns: u64) {
        let _ = (task, due_ns);
    }
    /// Takes, at the end of the run, an activation that was due before and whose [`Event::Activation`] did not come. Of one
    /// that had not ended, slack and response are those of an end at `now_ns`.
    fn activation_left(&mut self, now_ns: u64, task: TaskIdx, slack_ns: i64, response_ns: u64) {
        let _ = (now_ns, task, slack_ns, response_ns);
    }
    /// Takes the expiry of a timer in an interrupt of `cpu`.
    fn timer(&mut self, now_ns: u64, cpu: CpuIdx, timer: ExpiredTimer) {
        let _ = (now_ns, cpu, timer);
    }
    /// Takes what the idle governor of a CPU is asked, and what it learns.
    fn idle_call(&mut self, cpu: CpuIdx, call: IdleCall<'_>) {
        let _ = (cpu, call);
    }
    /// Takes the kernel's frequency scale of a CPU, 1024 for its reference. It counts for the last `open_ns` already: the run queue's
    /// clock was updated then.
    fn freq_scale(&mut self, now_ns: u64, cpu: CpuIdx, scale: u64, open_ns: u64) {
        let _ = (now_ns, cpu, scale, open_ns);
    }
    /// Whether [`Sink::report`] does anything.
    fn wants_reports(&self) -> bool {
        false
    }
    /// Takes a report of the scheduler to the governor of a CPU, before what follows from it.
    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        let _ = (now_ns, report);
    }
}

/// `cpufreq_update_util()`.
#[derive(Debug, Clone, Copy)]
pub struct UtilReport<'a> {
    /// Who executes it.
    pub here: CpuIdx,
    /// Whose utilisation changed.
    pub cpu: CpuIdx,
    /// `SCHED_CPUFREQ_*`.
    pub flags: u32,
    /// The clock of its run queue, since the start of the run.
    pub clock_ns: u64,
    /// The CPUs of its policy, and what the governor sees of each.
    pub members: &'a [(CpuIdx, CpuFacts)],
}

/// What passes between a CPU and its idle governor.
#[derive(Debug, Clone, Copy)]
pub enum IdleCall<'a> {
    /// The CPU goes idle: what the governor is asked.
    Select(&'a IdleFacts<'a>),
    /// The CPU is awake again: what the governor learns.
    Reflect(&'a IdleOutcome),
}

/// What has a meter of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metered {
    /// A CPU alone.
    Cpu(u32),
    /// What the CPUs of a cluster share.
    Shared(u32),
}

/// Watches nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NullSink;

impl Sink for NullSink {
    const ENABLED: bool = false;
    fn event(&mut self, _now_ns: u64, _event: &Event) {}
}

/// Two sinks on one run.
#[derive(Debug, Default)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: Sink, B: Sink> Sink for Tee<A, B> {
    const ENABLED: bool = A::ENABLED || B::ENABLED;
    const DECISIONS: bool = A::DECISIONS || B::DECISIONS;
    fn event(&mut self, now_ns: u64, event: &Event) {
        self.0.event(now_ns, event);
        self.1.event(now_ns, event);
    }
    /// The first one's period; the second one's if the first wants none.
    fn sample_period_ns(&self) -> u64 {
        match self.0.sample_period_ns() {
            0 => self.1.sample_period_ns(),
            period_ns => period_ns,
        }
    }
    fn sample(&mut self, sample: Sample) {
        self.0.sample(sample.clone());
        self.1.sample(sample);
    }
    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        self.0.decision(now_ns, decision);
        self.1.decision(now_ns, decision);
    }
    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        self.0.power(now_ns, metered, power_uw);
        self.1.power(now_ns, metered, power_uw);
    }
    fn queued(&mut self, now_ns: u64, cpu: CpuIdx, task: TaskIdx, group: Option<u32>, change: QueueChange) {
        self.0.queued(now_ns, cpu, task, group, change);
        self.1.queued(now_ns, cpu, task, group, change);
    }
    fn policy(&mut self, now_ns: u64, task: TaskIdx, policy: SchedPolicy) {
        self.0.policy(now_ns, task, policy);
        self.1.policy(now_ns, task, policy);
    }
    fn clamps(&mut self, now_ns: u64, task: TaskIdx, min: Option<u16>, max: u16) {
        self.0.clamps(now_ns, task, min, max);
        self.1.clamps(now_ns, task, min, max);
    }
    fn affinity(&mut self, now_ns: u64, task: TaskIdx, cpus: Option<&[CpuIdx]>) {
        self.0.affinity(now_ns, task, cpus);
        self.1.affinity(now_ns, task, cpus);
    }
    fn timer_due(&mut self, task: TaskIdx, due_ns: u64) {
        self.0.timer_due(task, due_ns);
        self.1.timer_due(task, due_ns);
    }
    fn activation_left(&mut self, now_ns: u64, task: TaskIdx, slack_ns: i64, response_ns: u64) {
        self.0.activation_left(now_ns, task, slack_ns, response_ns);
        self.1.activation_left(now_ns, task, slack_ns, response_ns);
    }
    fn timer(&mut self, now_ns: u64, cpu: CpuIdx, timer: ExpiredTimer) {
        self.0.timer(now_ns, cpu, timer);
        self.1.timer(now_ns, cpu, timer);
    }
    fn idle_call(&mut self, cpu: CpuIdx, call: IdleCall<'_>) {
        self.0.idle_call(cpu, call);
        self.1.idle_call(cpu, call);
    }
    fn freq_scale(&mut self, now_ns: u64, cpu: CpuIdx, scale: u64, open_ns: u64) {
        self.0.freq_scale(now_ns, cpu, scale, open_ns);
        self.1.freq_scale(now_ns, cpu, scale, open_ns);
    }
    fn wants_reports(&self) -> bool {
        self.0.wants_reports() || self.1.wants_reports()
    }
    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        self.0.report(now_ns, report);
        self.1.report(now_ns, report);
    }
}

/// A 64-bit FNV-1a hash over all events: equal runs have equal fingerprints on every platform and worker count.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }

    /// Mixes one word.
    pub fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}

impl Sink for Fingerprint {
    #[inline]
    fn event(&mut self, now_ns: u64, event: &Event) {
        let (kind, a, b, c): (u64, u64, u64, u64) = match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                (1, cpu.into(), (u64::from(prev) << 32) | u64::from(next), prev_state as u64)
            }
            Event::SchedWaking { cpu, task, target_cpu } => (2, cpu.into(), task.into(), target_cpu.into()),
            Event::SchedWakeupNew { cpu, task, target_cpu } => (3, cpu.into(), task.into(), target_cpu.into()),
            Event::SchedMigrateTask { task, orig_cpu, dest_cpu } => (4, task.into(), orig_cpu.into(), dest_cpu.into()),
            Event::SchedProcessExit { task } => (5, task.into(), 0, 0),
            Event::CpuFrequency { cpu, khz } => (6, cpu.into(), khz.into(), 0),
            Event::FreqRequest { cpu, khz, util, max } => {
                (7, cpu.into(), khz.into(), (u64::from(util) << 32) | u64::from(max))
            }
            Event::CpuIdle { cpu, state } => (8, cpu.into(), state as u64, 0),
            // It follows from the others.
            Event::IdleExit { .. } => return,
            Event::ClusterIdle { cluster, state } => (9, cluster.into(), state as u64, 0),
            Event::PeltSe { cpu, task, load_avg, runnable_avg, util_avg } => (
                10,
                (u64::from(cpu) << 32) | u64::from(task),
                (u64::from(load_avg) << 32) | u64::from(runnable_avg),
                util_avg.into(),
            ),
            Event::PeltCfs { cpu, load_avg, runnable_avg, util_avg } => {
                (11, cpu.into(), (u64::from(load_avg) << 32) | u64::from(runnable_avg), util_avg.into())
            }
            Event::UtilEstSe { cpu, task, util_est, util_avg } => {
                (12, (u64::from(cpu) << 32) | u64::from(task), util_est.into(), util_avg.into())
            }
            Event::SchedOverutilized { overutilized } => (13, overutilized.into(), 0, 0),
            Event::Placement { task, prev_cpu, cpu, rule } => {
                (14, task.into(), (u64::from(prev_cpu) << 32) | u64::from(cpu), rule as u64)
            }
            Event::Activation { task, phase, period_ns, run_ns, wu_lat_ns, slack_ns, .. } => (
                15,
                (u64::from(task) << 16) | u64::from(phase),
                period_ns ^ run_ns.rotate_left(20) ^ wu_lat_ns.rotate_left(40),
                slack_ns as u64,
            ),
        };
        self.word(now_ns);
        self.word(kind);
        self.word(a);
        self.word(b);
        self.word(c);
    }
}
