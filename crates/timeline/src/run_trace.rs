//! A simulated run as a kernel trace, in the forms of crate `trace`: Perfetto, `trace.dat`, ftrace text.
//!
//! Events have the kernel's names and fields (include/trace/events/sched.h and power.h, v6.12). The kernel's bare
//! tracepoints (`pelt_se_tp`, ...) and our own decisions have no format there; they are written with the fields of
//! [`Event`]. In Perfetto they also become counter tracks (utilisation, requested against granted frequency,
//! idle states, power by rail), instants with what decided (frequency requests, placements), and flows from a wake-up to the
//! switch that it leads to. Tasks of a control group are threads of a process with the group's name, and a counter has how many
//! CPUs the group runs on.
//!
//! Power by rail is that of the engine's meters. When a CPU begins to leave an idle state and when a cluster sleeps, which the
//! kernel has no event for, are written as our own events, so that energy can be recomputed from the file. So is the frequency
//! scale that load tracking counts with (`arch_set_freq_scale`): the kernel sets it before the hardware's clock changes, which
//! `cpu_frequency` shows here.

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::facts::CpuFacts;
use opplab_kernel::uclamp::uclamp_tg_restrict;
use opplab_model::event::{Event, ExpiredTimer, IDLE_TASK, Metered, PlacementRule, Sink, TaskState, UtilReport};
use opplab_model::experiment::policy_to_json;
use opplab_model::groups::GroupSpec;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::SchedPolicy;
use opplab_trace::write::{Annotation, EventId, PerfettoWriter, TraceBuilder, TrackId};
use opplab_trace::{
    CPU_FACTS, HALF_LIFE_MARK, IN_PLACE_MARK, Kind, POLICY_MARK, SETTINGS_MARK, TICK_TIMER, Trace, Value,
};

use crate::reasons::{Notes, Reasons, RunNames};

/// Task `n` has the pid `FIRST_PID + n`.
pub const FIRST_PID: i32 = 1001;
/// Group `n` has the pid `GROUP_PID + n`, beyond those that the kernel gives (PID_MAX_LIMIT).
const GROUP_PID: i32 = 1 << 22;
/// The stopper thread of CPU `n` has the pid `STOPPER_PID + n`, beyond those of tasks.
const STOPPER_PID: i32 = 1 << 21;
/// Priority of an idle task as trace events print it.
const IDLE_PRIO: i32 = 120;
/// Priority of a stopper thread as trace events print it.
const STOPPER_PRIO: i32 = 0;
/// The timer of a task has the address `TIMER + pid`, the tick of CPU `n` `TICK_TIMER + n`; those of the kernel have `TIMER`.
const TIMER: u64 = 0xffff_8000_0000_0000;
/// No idle state, as the kernel's events have it.
const AWAKE: u32 = u32::MAX;

const SIGNED: Kind = Kind::Int { signed: true, hex: false };
const UNSIGNED: Kind = Kind::Int { signed: false, hex: false };

/// A counter of a CPU, task, policy or cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Overutilized,
    Request,
    Grant,
    CpuIdle,
    ClusterIdle,
    Power,
    CpuUtil,
    TaskUtil,
    TaskUtilEst,
    GroupCpus,
}

/// Control groups: their names, those that each is in with itself, their clamps that count, and each task's.
#[derive(Default)]
struct Groups {
    names: Vec<String>,
    above: Vec<Vec<u32>>,
    clamps: Vec<(u16, u16)>,
    of_task: Vec<Option<u32>>,
    nr_running: Vec<i64>,
}

/// What a task asks for: its lower clamp, if it asks for one, and the upper one.
type Asked = (Option<u16>, u16);
const ASKS_NOTHING: Asked = (None, 1024);

impl Groups {
    /// What a task may have of what it asks for. A real-time task without a request of its own keeps its boost, which the upper
    /// clamp limits.
    fn restrict(&self, task: u32, (min, max): Asked, is_rt: bool) -> Asked {
        let group = self.of_task.get(task as usize).copied().flatten();
        let Some(&clamps) = group.and_then(|group| self.clamps.get(group as usize)) else { return (min, max) };
        let restricted = |request| uclamp_tg_restrict(request, clamps);
        let unasked = Some(restricted(0)).filter(|&least| least > 0 && !is_rt);
        (min.map_or(unasked, |min| Some(restricted(min))), restricted(max))
    }
}

struct Ids {
    switch: EventId,
    waking: EventId,
    wakeup_new: EventId,
    migrate: EventId,
    exit: EventId,
    frequency: EventId,
    idle: EventId,
    timer: EventId,
    freq_scale: EventId,
    mark: EventId,
}

/// Events that have no format in the kernel.
struct InternalIds {
    pelt_se: EventId,
    pelt_cfs: EventId,
    util_est_se: EventId,
    idle_exit: EventId,
    cluster_idle: EventId,
    overutilized: EventId,
    request: EventId,
    placement: EventId,
    activation: EventId,
    update_util: EventId,
    cpu_facts: EventId,
}

/// Something without a length, on a track of its CPU.
enum Instant {
    /// The CPU wakes a task; the flow leads to its switch.
    Wakes {
        task: u32,
        target_cpu: u32,
        flow: u64,
    },
    /// The woken task runs.
    Runs {
        task: u32,
        wait_ns: u64,
        flow: u64,
    },
    Placed {
        task: u32,
        prev_cpu: u32,
        rule: PlacementRule,
    },
    Asked {
        khz: u32,
        util: u32,
        max: u32,
    },
    Looped {
        task: u32,
        run_ns: u64,
        slack_ns: i64,
    },
}

/// A sink that makes a [`Trace`].
pub struct RunTrace {
    builder: TraceBuilder,
    ids: Ids,
    internal: InternalIds,
    names: Vec<String>,
    curr: Vec<i32>,
    counters: BTreeMap<(Track, u32), Vec<(u64, i64)>>,
    /// By CPU; empty unless Perfetto is wanted.
    instants: Vec<Vec<(u64, Instant)>>,
    flows: u64,
    /// Wake-ups that have not led to a switch yet: flow and time, by task.
    woken: BTreeMap<u32, (u64, u64)>,
    /// The leading CPU of each CPU's frequency policy.
    policies: Vec<u32>,
    machine: Machine,
    /// What each CPU and what each cluster's shared logic draws, in uW.
    cpus_uw: Vec<u64>,
    shared_uw: Vec<u64>,
    groups: Groups,
    /// Priorities of tasks as trace events print them.
    prios: Vec<i32>,
    /// The clamps that tasks asked for last, and those of the last mark of each.
    clamps: BTreeMap<u32, Asked>,
    noted_clamps: BTreeMap<u32, Asked>,
    /// What the last event has of what governors see of each CPU.
    facts: Vec<Option<CpuFacts>>,
    /// A switch of a runnable task to idle; who took the task away shows by what comes next.
    to_idle: Option<ToIdle>,
}

/// A runnable task left its CPU to the idle task.
#[derive(Clone, Copy)]
struct ToIdle {
    time_ns: u64,
    cpu: u32,
    task: u32,
}

/// The first CPU that shares the clock of each CPU.
fn policies(machine: &Machine) -> Vec<u32> {
    let mut leaders = vec![0; machine.nr_cpus()];
    for (_, cpus) in machine.policies() {
        for &cpu in &cpus {
            leaders[cpu as usize] = cpus[0];
        }
    }
    leaders
}

fn pid(task: u32) -> i32 {
    if task == IDLE_TASK { 0 } else { FIRST_PID + task as i32 }
}

/// A mark at the start.
fn note(builder: &mut TraceBuilder, mark: EventId, text: &str) {
    builder.push(mark, 0, 0, 0, &[Value::U64(0), Value::Str(text.as_bytes())]);
}

impl RunTrace {
    /// A trace of `machine` and the tasks of these names, by index, with marks of the policy and of load tracking's half-life. With `tracks` it
    /// keeps what [`Self::into_perfetto`] makes tracks of.
    pub fn new(machine: &Machine, names: Vec<String>, policy: &Policy, tracks: bool) -> Self {
        let nr_cpus = machine.nr_cpus();
        let mut builder = TraceBuilder::new(nr_cpus as u32);
        for (task, name) in names.iter().enumerate() {
            builder.task(pid(task as u32), name);
        }
        let task = [("comm", Kind::Str), ("pid", SIGNED), ("prio", SIGNED)];
        let wake = [task[0], task[1], task[2], ("target_cpu", SIGNED)];
        let migrate = [task[0], task[1], task[2], ("orig_cpu", SIGNED), ("dest_cpu", SIGNED)];
        let switch = [
            ("prev_comm", Kind::Str),
            ("prev_pid", SIGNED),
            ("prev_prio", SIGNED),
            ("prev_state", SIGNED),
            ("next_comm", Kind::Str),
            ("next_pid", SIGNED),
            ("next_prio", SIGNED),
        ];
        let power = [("state", UNSIGNED), ("cpu_id", UNSIGNED)];
        let address = Kind::Int { signed: false, hex: true };
        let timer = [("hrtimer", address), ("function", address), ("now", SIGNED)];
        let ids = Ids {
            switch: builder.event("sched", "sched_switch", &switch),
            waking: builder.event("sched", "sched_waking", &wake),
            wakeup_new: builder.event("sched", "sched_wakeup_new", &wake),
            migrate: builder.event("sched", "sched_migrate_task", &migrate),
            exit: builder.event("sched", "sched_process_exit", &task),
            frequency: builder.event("power", "cpu_frequency", &power),
            idle: builder.event("power", "cpu_idle", &power),
            timer: builder.event("timer", "hrtimer_expire_entry", &timer),
            freq_scale: builder.event(
                "opplab",
                "arch_set_freq_scale",
                &[("scale", UNSIGNED), ("cpu_id", UNSIGNED), ("open_ns", UNSIGNED)],
            ),
            mark: builder.event(
                "ftrace",
                "print",
                &[("ip", Kind::Int { signed: false, hex: true }), ("buf", Kind::Text)],
            ),
        };
        let half_life = format!("{HALF_LIFE_MARK}{}", policy.half_life_ms());
        for text in [half_life, format!("{POLICY_MARK}{}", policy_to_json(policy))] {
            note(&mut builder, ids.mark, &text);
        }
        let internal = Self::declare_internal(&mut builder);
        for (index, cluster) in (0u64..).zip(&machine.clusters) {
            builder.push(internal.cluster_idle, 0, cluster.cpus[0], 0, &[uint(AWAKE), uint(index)]);
        }
        let instants = std::iter::repeat_with(Vec::new).take(if tracks { nr_cpus } else { 0 }).collect();
        Self {
            builder,
            ids,
            internal,
            names,
            curr: vec![0; nr_cpus],
            counters: BTreeMap::new(),
            instants,
            flows: 0,
            woken: BTreeMap::new(),
            policies: policies(machine),
            machine: machine.clone(),
            cpus_uw: vec![0; nr_cpus],
            shared_uw: vec![0; machine.clusters.len()],
            groups: Groups::default(),
            prios: Vec::new(),
            clamps: BTreeMap::new(),
            noted_clamps: BTreeMap::new(),
            facts: vec![None; nr_cpus],
            to_idle: None,
        }
    }

    /// Marks what decides in the kernel's place, by name.
    #[must_use]
    pub fn with_in_place(mut self, governor: Option<&str>, placement: Option<&str>) -> Self {
        for (what, name) in [("governor", governor), ("placement", placement)] {
            if let Some(name) = name {
                note(&mut self.builder, self.ids.mark, &format!("{IN_PLACE_MARK}{what} {name}"));
            }
        }
        self
    }

    /// The same with control groups; `of_task`: the group of each task, an index.
    #[must_use]
    pub fn with_groups(mut self, groups: &[GroupSpec], of_task: Vec<Option<u32>>) -> Self {
        let (mut above, mut clamps): (Vec<Vec<u32>>, Vec<(u16, u16)>) = Default::default();
        for (index, group) in (0..).zip(groups) {
            // A parent comes before its children.
            let parents = group.parent.and_then(|parent| above.get(parent as usize)).cloned().unwrap_or_default();
            above.push([parents, vec![index]].concat());
            clamps.push(group.clamps_within(group.parent.and_then(|parent| clamps.get(parent as usize)).copied()));
        }
        let names = groups.iter().map(|group| group.name.clone()).collect();
        self.groups = Groups { names, above, clamps, of_task, nr_running: vec![0; groups.len()] };
        self
    }

    /// A task begins (1) or ends (-1) to run.
    fn group_runs(&mut self, task: u32, now_ns: u64, by: i64) {
        let Some(Some(group)) = self.groups.of_task.get(task as usize) else { return };
        for index in self.groups.above.get(*group as usize).cloned().unwrap_or_default() {
            let count = &mut self.groups.nr_running[index as usize];
            *count += by;
            let count = *count;
            self.count(Track::GroupCpus, index, now_ns, count);
        }
    }

    fn declare_internal(builder: &mut TraceBuilder) -> InternalIds {
        let (cpu, comm, pid) = (("cpu", SIGNED), ("comm", Kind::Str), ("pid", SIGNED));
        let load = [("load", UNSIGNED), ("runnable", UNSIGNED), ("util", UNSIGNED)];
        let cpu_facts: Vec<_> = ["cpu_id"].into_iter().chain(CpuFacts::FIELDS).map(|name| (name, UNSIGNED)).collect();
        InternalIds {
            pelt_se: builder.event("opplab", "pelt_se_tp", &[cpu, comm, pid, load[0], load[1], load[2]]),
            pelt_cfs: builder.event("opplab", "pelt_cfs_tp", &[cpu, load[0], load[1], load[2]]),
            util_est_se: builder.event(
                "opplab",
                "sched_util_est_se_tp",
                &[cpu, comm, pid, ("enqueued", UNSIGNED), ("util", UNSIGNED)],
            ),
            idle_exit: builder.event("opplab", "idle_exit", &[("cpu_id", UNSIGNED)]),
            cluster_idle: builder.event("opplab", "cluster_idle", &[("state", UNSIGNED), ("cluster", UNSIGNED)]),
            overutilized: builder.event("opplab", "sched_overutilized_tp", &[("overutilized", SIGNED)]),
            request: builder.event(
                "opplab",
                "freq_request",
                &[("state", UNSIGNED), ("cpu_id", UNSIGNED), ("util", UNSIGNED), ("max", UNSIGNED)],
            ),
            placement: builder.event(
                "opplab",
                "placement",
                &[comm, pid, ("prev_cpu", SIGNED), ("cpu", SIGNED), ("rule", UNSIGNED)],
            ),
            activation: builder.event(
                "opplab",
                "activation",
                &[
                    comm,
                    pid,
                    ("phase", UNSIGNED),
                    ("period", UNSIGNED),
                    ("run", UNSIGNED),
                    ("wu_lat", UNSIGNED),
                    ("slack", SIGNED),
                ],
            ),
            update_util: builder.event(
                "opplab",
                "cpufreq_update_util",
                &[("cpu_id", UNSIGNED), ("hook", UNSIGNED), ("time", UNSIGNED), ("flags", UNSIGNED)],
            ),
            cpu_facts: builder.event("opplab", CPU_FACTS, &cpu_facts),
        }
    }

    fn prio(&self, task: u32) -> i32 {
        self.prios.get(task as usize).copied().unwrap_or(IDLE_PRIO)
    }

    /// A mark with the clamps that a task has, unless the last one has them.
    fn note_clamps(&mut self, now_ns: u64, task: u32) {
        let asked = self.clamps.get(&task).copied().unwrap_or(ASKS_NOTHING);
        let has = self.groups.restrict(task, asked, self.prio(task) < 100);
        if self.noted_clamps.insert(task, has).unwrap_or(ASKS_NOTHING) != has {
            let (min, max) = has;
            let min = min.map_or_else(|| "-".to_owned(), |min| min.to_string());
            self.note_settings(now_ns, task, &format!("util_min={min} util_max={max}"));
        }
    }

    /// A mark with settings of a task.
    fn note_settings(&mut self, now_ns: u64, task: u32, settings: &str) {
        let pid = pid(task);
        let cpu = self.curr.iter().position(|&curr| curr == pid).unwrap_or(0) as u32;
        let text = format!("{SETTINGS_MARK}{pid} {settings}");
        self.push(self.ids.mark, now_ns, cpu, &[Value::U64(0), Value::Str(text.as_bytes())]);
    }

    /// The run ends: a mark, as a program writes one to `trace_marker`, so that what nothing happens in is part of the trace.
    pub fn end(&mut self, now_ns: u64) {
        self.leaves_for_idle();
        self.push(self.ids.mark, now_ns, 0, &[Value::U64(0), Value::Str(b"opplab: end of the run")]);
    }

    /// The trace.
    pub fn into_trace(self) -> Trace {
        self.builder.finish()
    }

    /// The trace as Perfetto protobuf, with tracks of counters, and of decisions with their reasons.
    pub fn into_perfetto(self, why: &Reasons) -> Vec<u8> {
        let mut writer = PerfettoWriter::new();
        let (names, counters, instants, machine) = (self.names, self.counters, self.instants, self.machine);
        for (index, group) in (0..).zip(&self.groups.names) {
            let tasks = (0..).zip(&self.groups.of_task).filter(|&(_, of)| *of == Some(index as u32));
            writer.process(GROUP_PID + index, group, tasks.map(|(task, _)| pid(task)));
        }
        writer.add_trace(&self.builder.finish());
        let name = |task: u32| names.get(task as usize).map_or_else(|| task.to_string(), Clone::clone);
        for ((track, index), values) in counters {
            let cluster = || machine.clusters.get(index as usize).map_or("", |cluster| cluster.name.as_str());
            let (text, unit) = match track {
                Track::Overutilized => (String::from("overutilized"), ""),
                Track::Request => (format!("requested frequency, policy of cpu {index}"), "kHz"),
                Track::Grant => (format!("granted frequency, policy of cpu {index}"), "kHz"),
                Track::CpuIdle => (format!("idle state cpu {index}"), ""),
                Track::ClusterIdle => (format!("cluster {index} idle state"), ""),
                Track::Power => (format!("power {}, cluster {index}", cluster()), "uW"),
                Track::CpuUtil => (format!("util_avg cpu {index}"), ""),
                Track::TaskUtil => (format!("util_avg {} {}", name(index), pid(index)), ""),
                Track::GroupCpus => {
                    let group = self.groups.names.get(index as usize).map_or("", String::as_str);
                    (format!("CPUs of group {group}"), "")
                }
                Track::TaskUtilEst => (format!("util_est {} {}", name(index), pid(index)), ""),
            };
            let id = writer.counter_track(&text, unit, None);
            let mut last = None;
            for (time_ns, value) in values {
                // Most events leave the power of their rail as it is.
                if last.replace(value) != Some(value) || track != Track::Power {
                    writer.counter(id, time_ns, value);
                }
            }
        }
        let called = RunNames { machine: &machine, task: &name };
        for (cpu, instants) in instants.into_iter().enumerate().filter(|(_, instants)| !instants.is_empty()) {
            let track = writer.track(&format!("decisions cpu {cpu}"), None);
            for (time_ns, instant) in &instants {
                let notes = match *instant {
                    Instant::Asked { .. } => why.request(*time_ns, self.policies[cpu], &called),
                    Instant::Placed { task, .. } => why.placement(*time_ns, task, &called),
                    _ => Notes::default(),
                };
                write_instant(&mut writer, track, *time_ns, instant, notes, &name);
            }
            for (time_ns, what, notes) in why.others(cpu as u32, &called) {
                writer.instant(track, time_ns, &what, &notes.annotations(), &[]);
            }
        }
        writer.finish()
    }

    fn instant(&mut self, cpu: u32, now_ns: u64, instant: Instant) {
        if let Some(instants) = self.instants.get_mut(cpu as usize) {
            instants.push((now_ns, instant));
        }
    }

    fn wakes(&mut self, cpu: u32, now_ns: u64, task: u32, target_cpu: u32) {
        self.flows += 1;
        self.woken.insert(task, (self.flows, now_ns));
        self.instant(cpu, now_ns, Instant::Wakes { task, target_cpu, flow: self.flows });
    }

    fn push(&mut self, id: EventId, now_ns: u64, cpu: u32, values: &[Value<'_>]) {
        let context = self.curr.get(cpu as usize).copied().unwrap_or(0);
        self.builder.push(id, now_ns, cpu, context, values);
    }

    fn count(&mut self, track: Track, index: u32, now_ns: u64, value: i64) {
        self.counters.entry((track, index)).or_default().push((now_ns, value));
    }

    fn comm(&self, cpu: u32, task: u32) -> String {
        match self.names.get(task as usize) {
            Some(name) => name.clone(),
            None => format!("swapper/{cpu}"),
        }
    }
}

fn write_instant(
    writer: &mut PerfettoWriter,
    track: TrackId,
    time_ns: u64,
    instant: &Instant,
    why: Notes,
    name: &dyn Fn(u32) -> String,
) {
    use Annotation::{Int, Text, Uint};
    match *instant {
        Instant::Wakes { task, target_cpu, flow } => {
            let notes = [("pid", Int(pid(task).into())), ("target_cpu", Uint(target_cpu.into()))];
            writer.instant(track, time_ns, &format!("wakes {}", name(task)), &notes, &[flow]);
        }
        Instant::Runs { task, wait_ns, flow } => {
            let notes = [("pid", Int(pid(task).into())), ("wait_ns", Uint(wait_ns))];
            writer.instant(track, time_ns, &format!("{} runs", name(task)), &notes, &[flow]);
        }
        Instant::Placed { task, prev_cpu, rule } => {
            let rule = format!("{rule:?}");
            let mut notes =
                vec![("pid", Int(pid(task).into())), ("prev_cpu", Uint(prev_cpu.into())), ("rule", Text(&rule))];
            let known = ["prev_cpu", "rule"];
            notes.extend(why.annotations().into_iter().filter(|(name, _)| !known.contains(name)));
            writer.instant(track, time_ns, &format!("{} is placed here", name(task)), &notes, &[]);
        }
        Instant::Asked { khz, util, max } => {
            let mut notes = vec![("khz", Uint(khz.into())), ("util", Uint(util.into())), ("max", Uint(max.into()))];
            notes.append(&mut why.annotations());
            writer.instant(track, time_ns, &format!("asks for {} MHz", khz / 1000), &notes, &[]);
        }
        Instant::Looped { task, run_ns, slack_ns } => {
            let notes = [("run_ns", Uint(run_ns)), ("slack_ns", Int(slack_ns))];
            let what = if slack_ns < 0 { "misses its activation" } else { "ends its activation" };
            writer.instant(track, time_ns, &format!("{} {what}", name(task)), &notes, &[]);
        }
    }
}

fn int(value: impl Into<i64>) -> Value<'static> {
    Value::I64(value.into())
}

fn uint(value: impl Into<u64>) -> Value<'static> {
    Value::U64(value.into())
}

impl RunTrace {
    fn switch(&mut self, now_ns: u64, cpu: u32, prev: u32, prev_state: TaskState, next: u32) {
        let (from, to) = (self.comm(cpu, prev), self.comm(cpu, next));
        let values = [
            Value::Str(from.as_bytes()),
            int(pid(prev)),
            int(self.prio(prev)),
            int(prev_state as u8),
            Value::Str(to.as_bytes()),
            int(pid(next)),
            int(self.prio(next)),
        ];
        self.push(self.ids.switch, now_ns, cpu, &values);
        self.curr[cpu as usize] = pid(next);
    }

    /// No stopper took the task that left its CPU to the idle task: a quota stopped it.
    fn leaves_for_idle(&mut self) {
        if let Some(ToIdle { time_ns, cpu, task }) = self.to_idle.take() {
            self.switch(time_ns, cpu, task, TaskState::Running, IDLE_TASK);
        }
    }

    /// The stopper of `cpu` runs in place of `task`, moves it, and sleeps; `migrate`: the values of the move, the task's name, pid and
    /// priority first.
    fn stopper_moves(&mut self, now_ns: u64, cpu: u32, migrate: &[Value<'_>; 5]) {
        let stopper_pid = STOPPER_PID + cpu as i32;
        let (stopper, idle) = (format!("migration/{cpu}"), self.comm(cpu, IDLE_TASK));
        self.builder.task(stopper_pid, &stopper);
        let stopper = [Value::Str(stopper.as_bytes()), int(stopper_pid), int(STOPPER_PRIO)];
        let runs = int(TaskState::Running as u8);
        let values = [migrate[0], migrate[1], migrate[2], runs, stopper[0], stopper[1], stopper[2]];
        self.push(self.ids.switch, now_ns, cpu, &values);
        self.curr[cpu as usize] = stopper_pid;
        self.push(self.ids.migrate, now_ns, cpu, migrate);
        let sleeps = int(TaskState::Interruptible as u8);
        let to = [Value::Str(idle.as_bytes()), int(0), int(IDLE_PRIO)];
        let values = [stopper[0], stopper[1], stopper[2], sleeps, to[0], to[1], to[2]];
        self.push(self.ids.switch, now_ns, cpu, &values);
        self.curr[cpu as usize] = 0;
    }

    /// Switches, wake-ups, moves and ends of tasks.
    fn scheduling(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                if prev_state == TaskState::Running && next == IDLE_TASK {
                    self.to_idle = Some(ToIdle { time_ns: now_ns, cpu, task: prev });
                } else {
                    self.switch(now_ns, cpu, prev, prev_state, next);
                }
                self.group_runs(prev, now_ns, -1);
                self.group_runs(next, now_ns, 1);
                if let Some((flow, since)) = self.woken.remove(&next) {
                    self.instant(cpu, now_ns, Instant::Runs { task: next, wait_ns: now_ns - since, flow });
                }
            }
            Event::SchedWaking { cpu, task, target_cpu } | Event::SchedWakeupNew { cpu, task, target_cpu } => {
                let waking = matches!(event, Event::SchedWaking { .. });
                let id = if waking { self.ids.waking } else { self.ids.wakeup_new };
                let comm = self.comm(cpu, task);
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), int(self.prio(task)), int(target_cpu)];
                self.push(id, now_ns, cpu, &values);
                self.wakes(cpu, now_ns, task, target_cpu);
            }
            Event::SchedMigrateTask { task, orig_cpu, dest_cpu } => {
                let comm = self.comm(orig_cpu, task);
                let prio = int(self.prio(task));
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), prio, int(orig_cpu), int(dest_cpu)];
                let taken = |left: &ToIdle| (left.time_ns, left.cpu, left.task) == (now_ns, orig_cpu, task);
                if self.to_idle.take_if(|left| taken(left)).is_some() {
                    self.stopper_moves(now_ns, orig_cpu, &values);
                } else {
                    self.leaves_for_idle();
                    self.push(self.ids.migrate, now_ns, dest_cpu, &values);
                }
            }
            Event::SchedProcessExit { task } => {
                let cpu = self.curr.iter().position(|&curr| curr == pid(task)).unwrap_or(0) as u32;
                let comm = self.comm(cpu, task);
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), int(self.prio(task))];
                self.push(self.ids.exit, now_ns, cpu, &values);
            }
            _ => {}
        }
    }

    /// Clocks and idle states.
    fn clocks(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::CpuFrequency { cpu, khz } => {
                self.push(self.ids.frequency, now_ns, cpu, &[uint(khz), uint(cpu)]);
                if self.policies[cpu as usize] == cpu {
                    self.count(Track::Grant, cpu, now_ns, khz.into());
                }
            }
            // Leaving is the 32-bit -1, as the kernel prints it.
            Event::CpuIdle { cpu, state } => {
                self.push(self.ids.idle, now_ns, cpu, &[uint(state as u32), uint(cpu)]);
                self.count(Track::CpuIdle, cpu, now_ns, state.into());
            }
            Event::IdleExit { cpu } => {
                self.push(self.internal.idle_exit, now_ns, cpu, &[uint(cpu)]);
            }
            Event::ClusterIdle { cluster, state } => {
                self.count(Track::ClusterIdle, cluster, now_ns, state.into());
                let first = self.machine.clusters[cluster as usize].cpus[0];
                self.push(self.internal.cluster_idle, now_ns, first, &[uint(state as u32), uint(cluster)]);
            }
            _ => {}
        }
    }

    /// Load tracking, which has no event of its own in the kernel.
    fn signals(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::PeltCfs { cpu, load_avg, runnable_avg, util_avg } => {
                self.count(Track::CpuUtil, cpu, now_ns, util_avg.into());
                let values = [int(cpu), uint(load_avg), uint(runnable_avg), uint(util_avg)];
                self.push(self.internal.pelt_cfs, now_ns, cpu, &values);
            }
            Event::PeltSe { cpu, task, load_avg, runnable_avg, util_avg } => {
                self.count(Track::TaskUtil, task, now_ns, util_avg.into());
                let comm = self.comm(cpu, task);
                let task = [int(cpu), Value::Str(comm.as_bytes()), int(pid(task))];
                let values = [task[0], task[1], task[2], uint(load_avg), uint(runnable_avg), uint(util_avg)];
                self.push(self.internal.pelt_se, now_ns, cpu, &values);
            }
            Event::UtilEstSe { cpu, task, util_est, util_avg } => {
                self.count(Track::TaskUtilEst, task, now_ns, util_est.into());
                let comm = self.comm(cpu, task);
                let values = [int(cpu), Value::Str(comm.as_bytes()), int(pid(task)), uint(util_est), uint(util_avg)];
                self.push(self.internal.util_est_se, now_ns, cpu, &values);
            }
            _ => {}
        }
    }

    /// Requests, placements and ended activations, which the kernel does not record.
    fn decided(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::FreqRequest { cpu, khz, util, max } => {
                self.count(Track::Request, self.policies[cpu as usize], now_ns, khz.into());
                self.instant(cpu, now_ns, Instant::Asked { khz, util, max });
                self.push(self.internal.request, now_ns, cpu, &[uint(khz), uint(cpu), uint(util), uint(max)]);
            }
            Event::SchedOverutilized { overutilized } => {
                self.count(Track::Overutilized, 0, now_ns, overutilized.into());
                self.push(self.internal.overutilized, now_ns, 0, &[int(overutilized)]);
            }
            Event::Placement { task, prev_cpu, cpu, rule } => {
                self.instant(cpu, now_ns, Instant::Placed { task, prev_cpu, rule });
                let comm = self.comm(cpu, task);
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), int(prev_cpu), int(cpu), uint(rule as u8)];
                self.push(self.internal.placement, now_ns, cpu, &values);
            }
            Event::Activation { task, phase, timed, period_ns, run_ns, wu_lat_ns, slack_ns, .. } => {
                let slack_ns = if timed { slack_ns } else { 0 };
                let on = self.curr.iter().position(|&curr| curr == pid(task)).map(|cpu| cpu as u32);
                if let Some(cpu) = on {
                    self.instant(cpu, now_ns, Instant::Looped { task, run_ns, slack_ns });
                }
                let cpu = on.unwrap_or(0);
                let comm = self.comm(cpu, task);
                let head = [Value::Str(comm.as_bytes()), int(pid(task)), uint(phase)];
                let values = [head[0], head[1], head[2], uint(period_ns), uint(run_ns), uint(wu_lat_ns), int(slack_ns)];
                self.push(self.internal.activation, now_ns, cpu, &values);
            }
            _ => {}
        }
    }
}

impl Sink for RunTrace {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if !matches!(event, Event::SchedMigrateTask { .. }) {
            self.leaves_for_idle();
        }
        self.scheduling(now_ns, event);
        self.clocks(now_ns, event);
        self.signals(now_ns, event);
        self.decided(now_ns, event);
    }

    fn policy(&mut self, now_ns: u64, task: u32, policy: SchedPolicy) {
        // Those of a governor's thread are made up (kernel/sched/cpufreq_schedutil.c:`sugov_kthread_create()`, v6.12).
        let is_sugov = self.names.get(task as usize).is_some_and(|name| name.starts_with("sugov:"));
        if let (SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim }, false) = (policy, is_sugov) {
            let times = format!("dl_runtime_ns={runtime_ns} dl_deadline_ns={deadline_ns} dl_period_ns={period_ns}");
            self.note_settings(now_ns, task, &format!("{times} dl_reclaim={}", u8::from(reclaim)));
        }
        let nth = task as usize;
        if self.prios.len() <= nth {
            self.prios.resize(nth + 1, IDLE_PRIO);
        }
        self.prios[nth] = policy.prio();
        self.note_clamps(now_ns, task);
    }

    fn clamps(&mut self, now_ns: u64, task: u32, min: Option<u16>, max: u16) {
        self.clamps.insert(task, (min, max));
        self.note_clamps(now_ns, task);
    }

    fn affinity(&mut self, now_ns: u64, task: u32, cpus: Option<&[u32]>) {
        let cpus = cpus.map(|cpus| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        self.note_settings(now_ns, task, &format!("cpus={}", cpus.as_deref().unwrap_or("-")));
    }

    fn timer(&mut self, now_ns: u64, cpu: u32, timer: ExpiredTimer) {
        let address = match timer {
            ExpiredTimer::Tick => TICK_TIMER + u64::from(cpu),
            ExpiredTimer::Task(task) => TIMER + pid(task) as u64,
            ExpiredTimer::Kernel => TIMER,
        };
        self.push(self.ids.timer, now_ns, cpu, &[uint(address), uint(0u64), int(now_ns as i64)]);
    }

    fn freq_scale(&mut self, now_ns: u64, cpu: u32, scale: u64, open_ns: u64) {
        self.push(self.ids.freq_scale, now_ns, cpu, &[uint(scale), uint(cpu), uint(open_ns)]);
    }

    fn wants_reports(&self) -> bool {
        true
    }

    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        for &(cpu, facts) in report.members {
            let known = &mut self.facts[cpu as usize];
            if known.replace(facts) != Some(facts) {
                let values: Vec<Value<'_>> =
                    [u64::from(cpu)].into_iter().chain(facts.numbers()).map(Value::U64).collect();
                self.push(self.internal.cpu_facts, now_ns, report.here, &values);
            }
        }
        let values = [report.cpu.into(), report.cpu.into(), report.clock_ns, report.flags.into()].map(Value::U64);
        self.push(self.internal.update_util, now_ns, report.here, &values);
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        let cluster = match metered {
            Metered::Cpu(cpu) => {
                self.cpus_uw[cpu as usize] = power_uw;
                self.machine.cpus[cpu as usize].cluster
            }
            Metered::Shared(cluster) => {
                self.shared_uw[cluster as usize] = power_uw;
                cluster
            }
        };
        if !self.instants.is_empty() {
            let cpus = &self.machine.clusters[cluster as usize].cpus;
            let cpus_uw: u64 = cpus.iter().map(|&cpu| self.cpus_uw[cpu as usize]).sum();
            self.count(Track::Power, cluster, now_ns, (cpus_uw + self.shared_uw[cluster as usize]) as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use opplab_model::testing::Swarm;
    use opplab_trace::write::ftrace_text;

    use super::*;

    /// The lines of a trace of these events, without their heads.
    fn lines(policies: &[SchedPolicy], events: &[Event]) -> Vec<String> {
        let machine = (0..).map(|seed| Swarm::default().machine(seed)).find(|machine| machine.nr_cpus() > 1).unwrap();
        let names = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
        let mut sink = RunTrace::new(&machine, names, &Policy::default(), false);
        for (task, &policy) in (0..).zip(policies) {
            sink.policy(0, task, policy);
        }
        events.iter().for_each(|event| sink.event(5, event));
        sink.end(9);
        let mut out = Vec::new();
        ftrace_text(&sink.into_trace(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines().filter_map(|line| Some(line.split_once(": sched_")?.1.to_owned())).collect()
    }

    #[test]
    fn priorities_are_the_kernels() {
        let policies = [
            SchedPolicy::Fifo { priority: 2 },
            SchedPolicy::RoundRobin { priority: 10 },
            SchedPolicy::Other { nice: -10 },
            SchedPolicy::Deadline { runtime_ns: 1, deadline_ns: 2, period_ns: 2, reclaim: false },
            SchedPolicy::Idle,
        ];
        let woken: Vec<Event> = (0..5).map(|task| Event::SchedWaking { cpu: 0, task, target_cpu: 0 }).collect();
        let prios: Vec<String> = lines(&policies, &woken)
            .iter()
            .filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix("prio=")).map(str::to_owned))
            .collect();
        assert_eq!(prios, ["97", "89", "110", "-1", "120"]);
    }

    #[test]
    fn a_stopper_takes_a_running_task_and_a_quota_does_not() {
        let leaves = Event::SchedSwitch { cpu: 0, prev: 0, prev_state: TaskState::Running, next: IDLE_TASK };
        let moved = Event::SchedMigrateTask { task: 0, orig_cpu: 0, dest_cpu: 1 };
        let fair = [SchedPolicy::default()];
        let pushed = lines(&fair, &[leaves, moved]);
        let expected = [
            "switch: prev_comm=a prev_pid=1001 prev_prio=120 prev_state=R ==> next_comm=migration/0 next_pid=2097152 next_prio=0",
            "migrate_task: comm=a pid=1001 prio=120 orig_cpu=0 dest_cpu=1",
            "switch: prev_comm=migration/0 prev_pid=2097152 prev_prio=0 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
        ];
        assert_eq!(pushed, expected);
        let to_idle = "switch: prev_comm=a prev_pid=1001 prev_prio=120 prev_state=R ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        assert_eq!(lines(&fair, &[leaves]), [to_idle]);
        let other = Event::SchedMigrateTask { task: 1, orig_cpu: 0, dest_cpu: 1 };
        assert_eq!(lines(&fair, &[leaves, other])[0], to_idle);
    }
}
