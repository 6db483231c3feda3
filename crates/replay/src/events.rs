//! Scheduling events in one form, whether a kernel recorded them or the engine made them.
//!
//! [`Events::read`] takes them from a trace of any format that crate `trace` reads: threads become dense indexes, a thread id
//! that is used again becomes another task. Only the scheduler's, idle's and cpufreq's own events count; what else a trace
//! holds is kept as a time stamp ([`What::Other`]), because it shows that the CPU executed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use opplab_kernel::sched::dl_entity::checkparam_dl;
use opplab_model::event::{self, IDLE_TASK, Sink, TaskIdx};
use opplab_model::workload::SchedPolicy;
use opplab_signals::activations::Activations;
use opplab_signals::clock::sched_clock_offset_ns;
use opplab_signals::decode::{Chain, Decoder, SchedEvent, SchedSink, TaskFields, entered, has_ended};
use opplab_signals::groups::{Group, GroupFinder, Groups};
use opplab_signals::summary::{Deadlines, Latencies, PERIODIC_MIN};
use opplab_trace::{
    BySchema, Event, IN_INTERRUPT, IN_PLACE_MARK, POLICY_MARK, ReadOptions, RecordingFiles, SETTINGS_MARK, Schema,
    TraceFile,
};

use crate::ReplayError;
use crate::records::{self, RecordReader, Records};

/// How a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Still runnable: preempted, or it yielded.
    Runnable,
    /// Asleep, interruptible or an idle kthread.
    Asleep,
    /// Uninterruptible: waits for a device or a lock of the kernel.
    Uninterruptible,
    /// Ended.
    Dead,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the kernel's event of the same name; fields are named as there")]
pub enum What {
    Switch {
        prev: TaskIdx,
        left: Left,
        next: TaskIdx,
    },
    Waking {
        task: TaskIdx,
    },
    Wakeup {
        task: TaskIdx,
        cpu: u32,
    },
    WakeupNew {
        task: TaskIdx,
        cpu: u32,
    },
    Migrate {
        task: TaskIdx,
        orig_cpu: u32,
        dest_cpu: u32,
    },
    Fork {
        child: TaskIdx,
    },
    Exit {
        task: TaskIdx,
    },
    Frequency {
        cpu: u32,
        freq_khz: u32,
    },
    /// The idle state that was entered; `None`: left.
    Idle {
        cpu: u32,
        state: Option<usize>,
    },
    /// Of simulated runs: `cpu` begins to leave its idle state.
    IdleExit {
        cpu: u32,
    },
    /// Of simulated runs: the state that a cluster entered; `None`: left.
    ClusterIdle {
        cluster: u32,
        state: Option<usize>,
    },
    Activation {
        task: TaskIdx,
        slack_ns: i64,
    },
    /// Of a run's own trace: an activation that ends after the next one was due.
    Late {
        task: TaskIdx,
        late_ns: u64,
    },
    /// The scheduler calls the governor of `cpu`, where the trace has a probe on that.
    UpdateUtil {
        cpu: u32,
        flags: u32,
        clock_ns: u64,
        /// Its number among the calls.
        nth: u32,
    },
    /// A change of control groups, by its place in [`TaskGroups::changes`].
    Group {
        change: u32,
    },
    Other,
}

/// Who executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The current task itself.
    Task,
    /// An interrupt or a softirq on top of it.
    Interrupt,
    /// The trace does not record it.
    Unknown,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ev {
    /// Time since the first event, ns.
    pub time_ns: u64,
    /// The CPU that executed it.
    pub cpu: u32,
    /// The task that was current there; [`IDLE_TASK`] for the idle task.
    pub current: TaskIdx,
    /// Who executed it.
    pub context: Context,
    /// What it is.
    pub what: What,
}

/// A task as the trace shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskInfo {
    /// Thread id.
    pub pid: i32,
    /// The last name that it had.
    pub name: String,
    /// The kernel's priorities: 120 + nice, below 100 real-time, below 0 deadline; each with the time since when it was seen, ns.
    pub prios: Vec<(u64, i64)>,
    /// Who forked it, if the trace shows it.
    pub parent: Option<TaskIdx>,
    /// The clamps that it asked for (lower, if any, and upper), each with the time since when, ns: where a simulated run wrote them.
    pub clamps: Vec<(u64, (Option<u16>, u16))>,
    /// Its parameters as a deadline task, from there, too.
    pub reservation: Option<SchedPolicy>,
    /// When the CPU's stopper moved it while it was `taskset`, ns, and where to: it may no longer be where it was.
    pub tasksets: Vec<(u64, u32)>,
    /// The CPUs that it may use.
    pub affinity: Affinity,
}

/// What a trace has of where a task may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Nothing.
    #[default]
    Unknown,
    /// On these CPUs from its start to its end.
    Always(Vec<u32>),
    /// Several sets after each other.
    Changes,
}

impl TaskInfo {
    /// A task of which nothing was seen yet.
    pub(crate) fn new(pid: i32) -> Self {
        Self {
            pid,
            name: String::new(),
            prios: Vec::new(),
            parent: None,
            clamps: Vec::new(),
            reservation: None,
            tasksets: Vec::new(),
            affinity: Affinity::Unknown,
        }
    }

    /// Takes the settings of a mark ([`SETTINGS_MARK`]).
    fn set(&mut self, now_ns: u64, settings: &str) {
        let text = |key: &str| {
            let pairs = settings.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.filter(|(name, _)| *name == key).map(|(_, value)| value).next()
        };
        let number = |key: &str| text(key)?.parse().ok();
        if let Some(max) = text("util_max").and_then(|max| max.parse::<u16>().ok()) {
            let min = text("util_min").and_then(|min| min.parse::<u16>().ok());
            self.clamps.push((now_ns, (min.map(|min| min.min(1024)), max.min(1024))));
        }
        if let Some(cpus) = text("cpus") {
            let cpus = Affinity::Always(cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect());
            let is_first = self.affinity == Affinity::Unknown;
            self.affinity = if is_first || self.affinity == cpus { cpus } else { Affinity::Changes };
        }
        let times: [Option<u64>; 3] = ["dl_runtime_ns", "dl_deadline_ns", "dl_period_ns"].map(number);
        if let [Some(runtime_ns), Some(deadline_ns), Some(period_ns)] = times
            && checkparam_dl(runtime_ns, deadline_ns, period_ns)
        {
            let reclaim = text("dl_reclaim") == Some("1");
            self.reservation = Some(SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim });
        }
    }

    /// The clamps that it has asked for by a time; `None`: for none.
    pub fn clamps_at(&self, time_ns: u64) -> Option<(Option<u16>, u16)> {
        let asked = self.clamps.partition_point(|&(since_ns, _)| since_ns <= time_ns);
        self.clamps[..asked].last().map(|&(_, clamps)| clamps)
    }

    /// The priority at a time: 120 if none was seen.
    pub fn prio_at(&self, time_ns: u64) -> i64 {
        let seen = self.prios.partition_point(|&(since_ns, _)| since_ns <= time_ns);
        self.prios.get(seen.saturating_sub(1)).map_or(120, |&(_, prio)| prio)
    }
}

/// A change of who is in which control group, by thread ids as the trace has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupChange {
    /// A child is born.
    Fork {
        /// Its parent.
        parent: i32,
        /// The child, and its index.
        child: (i32, TaskIdx),
    },
    /// A process moves.
    Attach {
        /// The number of the groups' hierarchy.
        hierarchy: i64,
        /// The number of the group.
        id: u64,
        /// Its path.
        path: String,
        /// The process.
        pid: i32,
    },
    /// A group is made or renamed.
    Name {
        /// As of a move.
        hierarchy: i64,
        /// As of a move.
        id: u64,
        /// Its path from here on.
        path: String,
    },
}

/// Control groups of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskGroups {
    /// What a first pass found out.
    pub finder: GroupFinder,
    /// The groups when the trace begins.
    pub start: Groups,
    /// What changed, in order of time.
    pub changes: Vec<(u64, GroupChange)>,
    /// All groups, with what is known of them at the end.
    pub list: Vec<Group>,
    /// The group, an index into `list`, that each task was in when the trace began, or when it was born.
    pub first: Vec<usize>,
    /// By the place of a change: which tasks came into which group.
    pub moves: BTreeMap<u32, Vec<(TaskIdx, usize)>>,
}

impl TaskGroups {
    /// Makes a change in `groups`; who is in another group from there on.
    fn change(groups: &mut Groups, finder: &GroupFinder, change: &GroupChange) -> Vec<(i32, usize)> {
        match change {
            GroupChange::Fork { parent, child } => {
                groups.fork(*parent, child.0, finder.is_thread(child.0));
                vec![(child.0, groups.of(child.0))]
            }
            GroupChange::Attach { hierarchy, id, path, pid } => groups.attach(*hierarchy, *id, path, *pid),
            GroupChange::Name { hierarchy, id, path } => {
                groups.name(*hierarchy, *id, path);
                Vec::new()
            }
        }
    }

    /// Tasks that changed their groups by `change` are in the new ones, in `of`, a list of groups by task.
    pub fn apply(&self, change: u32, of: &mut [usize]) {
        for &(task, group) in self.moves.get(&change).into_iter().flatten() {
            of[task as usize] = group;
        }
    }

    /// Follows the changes to the end.
    fn follow(&mut self, tasks: &[TaskInfo]) -> Groups {
        let mut groups = self.start.clone();
        let mut by_pid: BTreeMap<i32, TaskIdx> = BTreeMap::new();
        for (task, info) in (0..).zip(tasks) {
            by_pid.entry(info.pid).or_insert(task);
        }
        let mut of: Vec<usize> = tasks.iter().map(|info| groups.of(info.pid)).collect();
        self.first.clone_from(&of);
        self.moves.clear();
        for (place, (_, change)) in (0..).zip(&self.changes) {
            let is_birth = matches!(change, GroupChange::Fork { .. });
            if let GroupChange::Fork { child: (pid, task), .. } = change {
                by_pid.insert(*pid, *task);
            }
            for (pid, group) in Self::change(&mut groups, &self.finder, change) {
                let Some(&task) = by_pid.get(&pid) else { continue };
                let Some(now) = of.get_mut(task as usize) else { continue };
                if is_birth {
                    self.first[task as usize] = group;
                } else if *now != group {
                    self.moves.entry(place).or_default().push((task, group));
                }
                *now = group;
            }
        }
        self.list = groups.list().to_vec();
        groups
    }
}

/// All events of a trace in time order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events {
    /// The events.
    pub list: Vec<Ev>,
    /// The tasks, by index.
    pub tasks: Vec<TaskInfo>,
    /// Number of CPUs that were seen: the highest number and 1.
    pub nr_cpus: usize,
    /// Time of the first event, as the trace shows it, ns.
    pub first_ns: u64,
    /// The scheduler's clock at the first event, ns; `None` if the trace has another clock.
    pub sched_clock_ns: Option<u64>,
    /// Time from the first to the last event, ns.
    pub duration_ns: u64,
    /// `uname -a` of the traced machine; empty if the trace does not have it.
    pub uname: String,
    /// The policy of a simulated run, as JSON.
    pub policy: Option<String>,
    /// What decided in place of the kernel's governor in a simulated run, by name.
    pub governor: Option<String>,
    /// What decided in place of the kernel's placement in a simulated run, by name.
    pub placement: Option<String>,
    /// The first frequency that a governor's or driver's own record calls the current one, by CPU, kHz; with the time.
    pub start_khz: BTreeMap<u32, (u64, u32)>,
    /// What the kernel itself recorded of its run queues' averages.
    pub records: Records,
    /// Where events are lost or missing, in words.
    pub lost: Vec<String>,
    /// What of the trace is damaged; the list is the rest.
    pub damage: Vec<String>,
    /// What of its control groups is not followed, in words.
    pub groups: Option<String>,
    /// Its control groups.
    pub task_groups: TaskGroups,
}

impl Left {
    /// By the state at `sched_switch`.
    fn of(prev_state: u64) -> Self {
        match prev_state & 0xff {
            0 => Left::Runnable,
            bits if has_ended(bits) => Left::Dead,
            2 => Left::Uninterruptible,
            _ => Left::Asleep,
        }
    }
}

/// Places in a format that are looked up beside those of a [`SchedEvent`].
#[derive(Clone, Copy)]
struct Places {
    flags: Option<usize>,
    /// A CPU and its current frequency.
    current_khz: Option<(usize, usize)>,
    record: records::Role,
}

impl Places {
    fn of(schema: &Schema) -> Self {
        let cpu = schema.field_index("pcpu").or_else(|| schema.field_index("cpu"));
        Self {
            flags: schema.field_index("common_flags"),
            current_khz: cpu.zip(schema.field_index("cur")),
            record: records::Role::of(schema),
        }
    }
}

/// Events this far before the one that they follow are put in order; what is farther away is damage.
const OUT_OF_ORDER_NS: u64 = 1_000_000_000;
/// A timer's function has woken whom it wakes by then, ns.
pub const IN_TIMER_NS: u64 = 20_000;
/// No trace is longer than 30 days.
const DURATION_MAX_NS: u64 = 30 * 86_400_000_000_000;

/// By CPU: when the timer expired whose function may still run, in the trace's clock, ns.
#[derive(Default)]
struct Timers(Vec<Option<u64>>);

impl Timers {
    /// Whether an event is a wake-up by a timer's function, as its place behind `hrtimer_expire_entry` shows: the timer's own event on
    /// this CPU is the last one but for others that it woke. A tick wakes nobody.
    fn wake(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) -> bool {
        let place = (event.cpu & 0xffff) as usize;
        self.0.resize(self.0.len().max(place + 1), None);
        let timer_ns = &mut self.0[place];
        match what {
            SchedEvent::Timer { tick: false } => *timer_ns = Some(event.time_ns),
            SchedEvent::Waking { .. } | SchedEvent::Wakeup { .. } => {
                return timer_ns.is_some_and(|since_ns| event.time_ns.saturating_sub(since_ns) <= IN_TIMER_NS);
            }
            _ => *timer_ns = None,
        }
        false
    }
}

#[derive(Default)]
struct Builder {
    events: Events,
    by_pid: BTreeMap<i32, TaskIdx>,
    places: BySchema<Places>,
    /// By address of a CPU's governor hook: its number here, and how often each CPU called it.
    hooks: BTreeMap<i64, (u32, BTreeMap<u32, u64>)>,
    records: RecordReader,
    /// Time of the event since the first one.
    now_ns: u64,
    timers: Timers,
    /// By how much an event lies before the one that it follows, at most.
    back_ns: u64,
    begun: bool,
}

impl Builder {
    /// The task of a thread id, of which nothing else is known.
    fn thread(&mut self, pid: i32) -> TaskIdx {
        self.task(TaskFields { pid, prio: None, comm: None })
    }

    fn task(&mut self, TaskFields { pid, prio, comm }: TaskFields<'_>) -> TaskIdx {
        if pid == 0 {
            return IDLE_TASK;
        }
        let tasks = &mut self.events.tasks;
        let index = *self.by_pid.entry(pid).or_insert_with(|| {
            tasks.push(TaskInfo::new(pid));
            tasks.len() as TaskIdx - 1
        });
        let task = &mut tasks[index as usize];
        if let Some(comm) = comm
            && task.name.as_bytes() != comm
        {
            task.name = String::from_utf8_lossy(comm).into_owned();
        }
        if let Some(prio) = prio.map(i64::from)
            && task.prios.last().is_none_or(|&(_, last)| last != prio)
        {
            task.prios.push((self.now_ns, prio));
        }
        index
    }

    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) -> Option<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.events.first_ns = event.time_ns;
        }
        self.now_ns = event.time_ns.saturating_sub(self.events.first_ns);
        let places = *self.places.get(event.schema, Places::of);
        let by_timer = self.timers.wake(event, what);
        let what = self.what(event, what, &places)?;
        let context = match places.flags.and_then(|place| event.int(place)) {
            Some(flags) if flags & IN_INTERRUPT != 0 => Context::Interrupt,
            Some(_) => Context::Task,
            None if by_timer => Context::Interrupt,
            None => Context::Unknown,
        };
        let current = match what {
            What::Switch { prev, .. } => prev,
            _ => self.thread(event.pid),
        };
        let time_ns = self.now_ns;
        self.back_ns = self.back_ns.max(self.events.duration_ns.saturating_sub(time_ns));
        self.events.duration_ns = self.events.duration_ns.max(time_ns);
        let cpu = event.cpu & 0xffff;
        self.events.nr_cpus = self.events.nr_cpus.max(cpu as usize + 1);
        self.events.list.push(Ev { time_ns, cpu, current, context, what });
        Some(())
    }

    fn what(&mut self, event: &Event<'_>, what: &SchedEvent<'_>, places: &Places) -> Option<What> {
        const CPU_MASK: u32 = 0xffff;
        Some(match *what {
            SchedEvent::Switch { prev, prev_state, next } => {
                What::Switch { prev: self.task(prev), left: Left::of(prev_state), next: self.task(next) }
            }
            SchedEvent::Waking { task } => What::Waking { task: self.task(task) },
            SchedEvent::Wakeup { task, target_cpu, new } => {
                let (task, cpu) = (self.task(task), target_cpu & CPU_MASK);
                if new { What::WakeupNew { task, cpu } } else { What::Wakeup { task, cpu } }
            }
            SchedEvent::Migrate { pid, orig_cpu, dest_cpu, .. } => {
                let (task, orig_cpu, dest_cpu) = (self.thread(pid), orig_cpu? & CPU_MASK, dest_cpu & CPU_MASK);
                let stopper = self.thread(event.pid);
                if self.events.name(task) == "taskset" && self.events.name(stopper).starts_with("migration/") {
                    self.events.tasks[task as usize].tasksets.push((self.now_ns, dest_cpu));
                }
                What::Migrate { task, orig_cpu, dest_cpu }
            }
            SchedEvent::Fork { parent_pid, child_pid, child_comm } => {
                let parent = self.thread(parent_pid);
                // The number may have belonged to another task before.
                self.by_pid.remove(&child_pid);
                let child = self.task(TaskFields { pid: child_pid, prio: None, comm: child_comm });
                self.group_change(GroupChange::Fork { parent: parent_pid, child: (child_pid, child) });
                if let Some(task) = self.events.tasks.get_mut(child as usize) {
                    task.parent = Some(parent);
                }
                What::Fork { child }
            }
            SchedEvent::Late { pid, late_ns } => What::Late { task: self.thread(pid), late_ns },
            SchedEvent::Exit { pid, .. } => What::Exit { task: self.thread(pid) },
            SchedEvent::Frequency { cpu, khz } => What::Frequency { cpu: cpu & CPU_MASK, freq_khz: khz },
            SchedEvent::Idle { cpu, state } => What::Idle { cpu: cpu & CPU_MASK, state },
            SchedEvent::IdleExit { cpu } => What::IdleExit { cpu: cpu & CPU_MASK },
            SchedEvent::ClusterIdle { cluster, state } => What::ClusterIdle { cluster: cluster & CPU_MASK, state },
            SchedEvent::Attach { dst_root: hierarchy, dst_id: id, dst_path, pid } => {
                let path = String::from_utf8_lossy(dst_path).into_owned();
                self.group_change(GroupChange::Attach { hierarchy, id, path, pid })
            }
            SchedEvent::Group { root: hierarchy, id, path } => {
                let path = String::from_utf8_lossy(path).into_owned();
                self.group_change(GroupChange::Name { hierarchy, id, path })
            }
            SchedEvent::UpdateUtil { cpu, hook, flags, time } => {
                let number = self.hooks.len() as u32;
                let (number, callers) = self.hooks.entry(hook).or_insert((number, BTreeMap::new()));
                *callers.entry(cpu.unwrap_or(event.cpu) & CPU_MASK).or_default() += 1;
                let number = *number;
                let nth = self.records.called(self.now_ns, event.cpu & CPU_MASK);
                What::UpdateUtil { cpu: number, flags, clock_ns: time, nth }
            }
            SchedEvent::Mark { text } => {
                let text = String::from_utf8_lossy(text);
                if let Some(policy) = text.strip_prefix(POLICY_MARK) {
                    self.events.policy = Some(policy.trim_end().to_owned());
                }
                match text.strip_prefix(IN_PLACE_MARK).and_then(|text| text.trim_end().split_once(' ')) {
                    Some(("governor", name)) => self.events.governor = Some(name.to_owned()),
                    Some(("placement", name)) => self.events.placement = Some(name.to_owned()),
                    _ => {}
                }
                let settings = text.strip_prefix(SETTINGS_MARK).and_then(|text| text.split_once(' '));
                let Some((pid, settings)) = settings else { return Some(What::Other) };
                let task = self.thread(pid.parse().ok()?);
                let now_ns = self.now_ns;
                self.events.tasks.get_mut(task as usize)?.set(now_ns, settings);
                return None;
            }
            _ => {
                if let Some((cpu, cur)) = places.current_khz
                    && let (Some(cpu), Some(khz)) = (event.int(cpu), event.int(cur))
                    && (1_000..100_000_000).contains(&khz)
                {
                    self.events.start_khz.entry(cpu as u32 & CPU_MASK).or_insert((self.now_ns, khz as u32));
                }
                if places.record != records::Role::Other {
                    let _ = self.records.take(self.now_ns, &places.record, event);
                }
                What::Other
            }
        })
    }

    /// Keeps a change of control groups.
    fn group_change(&mut self, change: GroupChange) -> What {
        self.events.task_groups.changes.push((self.now_ns, change));
        What::Group { change: self.events.task_groups.changes.len() as u32 - 1 }
    }
}

impl Builder {
    /// A hook is known by its address only: it is that of the CPU that calls it most, as reports of other CPUs are rare.
    fn name_hooks(&mut self) {
        let most = |callers: &BTreeMap<u32, u64>| {
            callers.iter().max_by_key(|&(cpu, n)| (*n, u32::MAX - cpu)).map(|(cpu, _)| *cpu)
        };
        let cpus: BTreeMap<u32, u32> =
            self.hooks.values().filter_map(|(number, callers)| Some((*number, most(callers)?))).collect();
        for ev in &mut self.events.list {
            if let What::UpdateUtil { cpu, .. } = &mut ev.what {
                *cpu = cpus.get(cpu).copied().unwrap_or(ev.cpu);
            }
        }
    }
}

impl Events {
    /// Whether a simulated run wrote them: it states its policy.
    pub fn is_simulated(&self) -> bool {
        self.policy.is_some()
    }

    /// Numbers the idle states as those of the machine. Whether a recorded kernel numbered any.
    pub(crate) fn number_idle_states(&mut self, number: impl Fn(u32, usize) -> usize) -> bool {
        let mut any = false;
        for ev in &mut self.list {
            if let What::Idle { cpu, state: Some(state) } = &mut ev.what {
                *state = number(*cpu, *state);
                any = true;
            }
        }
        any && !self.list.iter().any(|ev| matches!(ev.what, What::IdleExit { .. }))
    }

    /// Reads a trace file, or a folder of ring-buffer pages.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] if it cannot be read, or holds no `sched_switch`.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let trace = TraceFile::open(path);
        let trace = trace.map_err(|error| ReplayError::Trace { path: path.to_owned(), reason: error.to_string() })?;
        Self::of(&trace, path)
    }

    /// The events of an open trace, called `path` in messages.
    ///
    /// # Errors
    /// As [`Events::read`].
    pub fn of(file: &TraceFile, path: &Path) -> Result<Self, ReplayError> {
        let fail = |reason: String| ReplayError::Trace { path: path.to_owned(), reason };
        let options = ReadOptions { common_fields: true, ..ReadOptions::default() };
        let (mut builder, mut groups) = (Builder::default(), GroupFinder::default());
        let (mut decoder, mut chain) = (Decoder::default(), Chain::default());
        let mut sink = |event: &Event<'_>| {
            let what = decoder.decode(event);
            chain.event(event.time_ns, event.cpu, &what);
            let _ = builder.event(event, &what);
            groups.event(event, &what);
            ControlFlow::Continue(())
        };
        let outcome = file.stream(&options, &mut sink).map_err(|error| fail(error.to_string()))?;
        builder.name_hooks();
        let mut events = builder.events;
        if builder.back_ns > OUT_OF_ORDER_NS {
            let back_s = builder.back_ns as f64 / 1e9;
            return Err(fail(format!(
                "its times go back by up to {back_s:.1} s: it is damaged and cannot be replayed"
            )));
        }
        if events.duration_ns > DURATION_MAX_NS {
            return Err(fail("it is longer than 30 days: its times are damaged".into()));
        }
        if builder.back_ns > 0 {
            events.list.sort_by_key(|ev| ev.time_ns);
        }
        events.records = builder.records.finish();
        events.lost = chain.notes(&outcome.missed);
        events.task_groups.finder = groups;
        events.set_groups(None);
        events.damage = outcome.problems.iter().map(ToString::to_string).collect();
        if let Ok(reader) = file.reader(&options) {
            let meta = reader.meta();
            events.uname = meta.uname.clone();
            if meta.clock == "local" {
                events.sched_clock_ns = events.first_ns.checked_add_signed(meta.time_offset_ns.wrapping_neg());
            }
            for task in events.tasks.iter_mut().filter(|task| task.name.is_empty()) {
                if let Some(name) = reader.tasks().get(&task.pid) {
                    task.name = String::from_utf8_lossy(name).into_owned();
                }
            }
        }
        if !events.list.iter().any(|ev| matches!(ev.what, What::Switch { .. })) {
            return Err(fail("it holds no sched_switch, so nobody is seen to run".into()));
        }
        if events.duration_ns == 0 {
            return Err(fail("all its events have one time, so nobody is seen to run".into()));
        }
        Ok(events)
    }

    /// Takes note of what the kernel's log holds, which shows what the scheduler's clock is ahead of the trace clock.
    pub fn read_logs(&mut self, logs: impl Iterator<Item = String>) {
        let offset_ns = sched_clock_offset_ns(logs);
        self.sched_clock_ns = self.sched_clock_ns.and_then(|clock| clock.checked_add_signed(offset_ns));
    }

    /// Follows the control groups that the snapshots beside the trace show, and its events.
    pub fn set_groups(&mut self, files: Option<&RecordingFiles>) {
        let groups = &mut self.task_groups;
        groups.start = match files {
            Some(files) => Groups::of_recording(files, &groups.finder),
            None => Groups::new(&groups.finder, [], []),
        };
        let end = groups.follow(&self.tasks);
        self.groups = end.words(&groups.finder);
    }

    /// The name of a task; `<idle>` for the idle task.
    pub fn name(&self, task: TaskIdx) -> &str {
        self.tasks.get(task as usize).map_or("<idle>", |task| &task.name)
    }

    /// What wake-ups and sleeps alone show of activations that were late, as `activations` of `opplab trace sql` has them.
    pub fn late_periods(&self) -> LatePeriods {
        // A pid may have been several tasks'.
        let pid = |task: TaskIdx| if task == IDLE_TASK { 0 } else { task as i32 + 1 };
        let mut activations = Activations::default();
        for ev in &self.list {
            match ev.what {
                What::Waking { task } | What::Wakeup { task, .. } | What::WakeupNew { task, .. } => {
                    activations.wakeup(pid(task), ev.time_ns);
                }
                What::Switch { prev, left, next } => {
                    let state = u64::from(left != Left::Runnable);
                    activations.switch(ev.cpu, ev.time_ns, pid(prev), state, pid(next));
                }
                What::Late { task, late_ns } => activations.late(pid(task), ev.time_ns, late_ns),
                _ => {}
            }
        }
        activations.until(self.duration_ns);
        let mut latencies = Latencies::default();
        activations.all.iter().for_each(|one| latencies.activation(one));
        let deadline_of = |task: &TaskInfo| match task.reservation {
            Some(SchedPolicy::Deadline { deadline_ns, .. }) => Some(deadline_ns),
            _ => None,
        };
        let stated = (1..).zip(&self.tasks).filter_map(|(number, task)| Some((number, deadline_of(task)?)));
        let known = Deadlines { given_ns: None, stated_ns: stated.collect() };
        let tasks = latencies.finish(&activations.under_way(), &known);
        let mut found = LatePeriods { by_deadline: !known.stated_ns.is_empty(), ..LatePeriods::default() };
        let mut unjudged = activations.mostly_awake();
        for (pid, one) in &tasks {
            let Some(missed) = one.missed else { continue };
            found.late += missed;
            found.activations += one.activations;
            unjudged.remove(pid);
        }
        let own =
            |(number, task): (i32, &'_ TaskInfo)| (!is_kernel_thread(&task.name)).then(|| (number, task.name.clone()));
        let own: BTreeMap<i32, String> = (1..).zip(&self.tasks).filter_map(own).collect();
        let without = tasks.iter().filter(|(pid, one)| one.missed.is_none() && !unjudged.contains(pid));
        let several = without.filter(|(_, one)| one.activations as usize >= PERIODIC_MIN);
        let mut irregular: Vec<(u64, String)> = several
            .filter(|(pid, _)| !self.is_engines(*pid as TaskIdx - 1))
            .filter_map(|(pid, one)| Some((one.activations, own.get(pid)?.clone())))
            .collect();
        irregular.sort_by_key(|&(activations, _)| std::cmp::Reverse(activations));
        found.irregular = irregular;
        found.unjudged =
            own.into_iter().filter(|(number, _)| unjudged.contains(number)).map(|(_, name)| name).collect();
        found
    }

    /// Whether a task is a governor's kthread, a stopper or a watchdog: the engine has its own of these.
    pub fn is_engines(&self, task: TaskIdx) -> bool {
        let name = self.name(task);
        name.starts_with("sugov:") || name.starts_with("migration/")
    }
}

/// What wake-ups and sleeps show of late activations.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LatePeriods {
    /// Activations of periodic tasks that took longer than their period, and of others that did than their deadline.
    pub late: u64,
    /// All of these tasks.
    pub activations: u64,
    /// The trace states deadlines.
    pub by_deadline: bool,
    /// Names of tasks without a period that were awake for more than half of the trace.
    pub unjudged: Vec<String>,
    /// Activations and names of the other tasks whose wake-ups show no period, the most first.
    pub irregular: Vec<(u64, String)>,
}

impl LatePeriods {
    pub(crate) fn words(&self) -> String {
        let Self { late, activations, by_deadline, .. } = self;
        if *activations == 0 {
            return "By its wake-ups no task is periodic".to_owned();
        }
        let own = if *by_deadline { ", or their deadline" } else { "" };
        format!(
            "By its wake-ups {late} of {activations} activations of periodic tasks took longer than their period{own}"
        )
    }
}

/// Whether a task is one of the kernel's own, by its name.
pub(crate) fn is_kernel_thread(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "kworker",
        "ksoftirqd",
        "rcu_",
        "rcuc",
        "kcompactd",
        "kswapd",
        "khugepaged",
        "irq/",
        "jbd2",
        "cppc_fie",
        "cpuhp",
        "watchdog",
    ];
    NAMES.iter().any(|start| name.starts_with(start))
}

/// Takes the engine's events; [`Simulated::finish`] makes them [`Events`].
#[derive(Debug, Default)]
pub struct Simulated {
    list: Vec<Ev>,
    curr: Vec<TaskIdx>,
    /// Follow what governors ask for, not what the clock does.
    by_request: bool,
}

impl Simulated {
    /// For a machine with `nr_cpus` CPUs. `by_request`: the frequency is what the governor asked for, as `cpu_frequency` shows it
    /// where the driver has no table.
    pub fn new(nr_cpus: usize, by_request: bool) -> Self {
        Self { list: Vec::new(), curr: vec![IDLE_TASK; nr_cpus], by_request }
    }

    /// The events of the run, whose tasks are called `names`.
    pub fn finish(self, names: &[String], duration_ns: u64) -> Events {
        let task = |(index, name): (usize, &String)| TaskInfo {
            name: name.clone(),
            prios: vec![(0, if name.starts_with("sugov:") { -1 } else { 120 })],
            ..TaskInfo::new(index as i32 + 1)
        };
        Events {
            list: self.list,
            tasks: names.iter().enumerate().map(task).collect(),
            nr_cpus: self.curr.len(),
            duration_ns,
            ..Events::default()
        }
    }
}

impl Sink for Simulated {
    fn event(&mut self, now_ns: u64, event: &event::Event) {
        use event::{Event, TaskState};
        let (cpu, what) = match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                let left = match prev_state {
                    TaskState::Running => Left::Runnable,
                    TaskState::Interruptible => Left::Asleep,
                    TaskState::Uninterruptible => Left::Uninterruptible,
                    TaskState::Dead => Left::Dead,
                };
                self.curr[cpu as usize] = next;
                (cpu, What::Switch { prev, left, next })
            }
            Event::SchedWaking { cpu, task, .. } => (cpu, What::Waking { task }),
            Event::SchedWakeupNew { cpu, task, target_cpu } => (cpu, What::WakeupNew { task, cpu: target_cpu }),
            Event::SchedMigrateTask { task, orig_cpu, dest_cpu } => {
                (orig_cpu, What::Migrate { task, orig_cpu, dest_cpu })
            }
            Event::SchedProcessExit { task } => (0, What::Exit { task }),
            Event::CpuFrequency { cpu, khz } if !self.by_request || now_ns == 0 => {
                (cpu, What::Frequency { cpu, freq_khz: khz })
            }
            Event::FreqRequest { cpu, khz, .. } if self.by_request => (cpu, What::Frequency { cpu, freq_khz: khz }),
            Event::CpuIdle { cpu, state } => (cpu, What::Idle { cpu, state: entered(state.into()) }),
            Event::IdleExit { cpu } => (cpu, What::IdleExit { cpu }),
            Event::ClusterIdle { cluster, state } => (0, What::ClusterIdle { cluster, state: entered(state.into()) }),
            Event::Activation { task, slack_ns, .. } => (0, What::Activation { task, slack_ns }),
            _ => return,
        };
        let current = match what {
            What::Switch { prev, .. } => prev,
            _ => self.curr[cpu as usize],
        };
        self.list.push(Ev { time_ns: now_ns, cpu, current, context: Context::Unknown, what });
    }

    fn activation_left(&mut self, now_ns: u64, task: TaskIdx, slack_ns: i64, _response_ns: u64) {
        let what = What::Activation { task, slack_ns };
        self.list.push(Ev { time_ns: now_ns, cpu: 0, current: self.curr[0], context: Context::Unknown, what });
    }
}
