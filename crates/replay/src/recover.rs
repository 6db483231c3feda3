//! The workload of a trace: what each task did between its wake-ups, and what woke it.
//!
//! ```text
//!   task a   ==run==| asleep |==run==========|            Run w, Timer p, Run w, SemPost b, Run w, ...
//!                            ^ timer    |                 work is running time x clock at that time
//!                                       v waking b
//!   task b   ------ asleep -------------|==run==|         SemWait, Run w, ...
//! ```
//! Work is counted as the engine counts it: ns of the biggest CPU at its highest frequency without boost, less beside a busy thread of
//! the core. What the machine itself cost (switches,
//! wake-ups, ticks) is taken off, because the engine adds it again. A wake-up by a running task is a semaphore between the two, one by
//! an interrupt is a timer, and of an uninterruptible sleep the end of a request to a device. Timers are absolute (the period is
//! kept whatever the work takes) unless the sleeps of a task are more alike than its periods.
//!
//! Control groups are those of the trace and of the snapshots beside it. A task begins in the group that it was in first; who moves it
//! to another in the recording does so in the replay, at the same place of its program.
//! Times when a quota stopped a task are none of its work, so that quotas that throttle do it again.
//!
//! Affinities are those of kernel threads that a name binds to a CPU, and of programs that `taskset` moved to a CPU and that never ran
//! on another one after that.
//!
//! Not recovered: other affinities, locks (a wake-up is a wake-up), and what a task would have done later than the trace.

use std::collections::{BTreeMap, BTreeSet};

use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::groups::{GroupSpec, Quota};
use opplab_model::machine::Machine;
use opplab_model::workload::{DeviceSpec, Op, PhaseSpec, SchedPolicy, TaskSpec, Workload};
use opplab_signals::groups::{Group, ROOT};

use crate::costs::TRAIN_GAP_NS;
use crate::events::{Affinity, Context, Ev, Events, Left, TaskInfo, What};
use crate::late::{Late, late};
use crate::lost::{Activation, Pending, Shown, shown};
use crate::measure::Window;
use crate::periods::{Trains, expiries, together};
use crate::tick::{DUE_NS, since_tick_ns};

/// What woke a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Timer,
    Task,
    Device,
}

/// A piece of a task's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Run(u64),
    /// Its priority changed to this.
    Prio(i64),
    /// It asked for these clamps of utilisation.
    Clamps(Option<u16>, u16),
    /// It may run on this CPU only.
    Bind(u32),
    /// This task comes into this group of the trace.
    Move(TaskIdx, usize),
    /// This group of the trace gets the CPUs that it has later.
    GroupCpus(usize),
    Post(TaskIdx),
    Fork(TaskIdx),
    /// Slept from the first time to the second; what ended it may have come as early as the third.
    Sleep(u64, u64, u64, Cause),
    /// Came to its timer, of this period, when it had expired; where the timer is set anew then, at this time.
    Due(u64, Option<u64>),
}

/// A task under recovery.
#[derive(Debug, Clone, Default)]
struct History {
    steps: Vec<Step>,
    /// Work since the last step, and what is to be taken off it, ns.
    work_ns: u64,
    overhead_ns: u64,
    /// How long it ran on CPUs of each capacity, ns.
    ran_ns: BTreeMap<u64, u64>,
    /// When it went to sleep, and how.
    asleep: Option<(u64, Left)>,
    /// When it was woken, until it runs.
    woken_ns: Option<u64>,
    /// How long it took from the end of some sleeps to its running, by their places among the steps: where its CPU was idle, ns.
    exits_ns: BTreeMap<usize, u32>,
    /// The kernel's priority that it was last seen with.
    prio: Option<i64>,
    /// The clamps that it had asked for then.
    clamps: Option<(Option<u16>, u16)>,
    /// When it was first seen, and where it ran first.
    first_ns: Option<u64>,
    first_cpu: Option<u32>,
    /// Its timers are set anew where it is late.
    anew: bool,
    /// So many of its late activations keep their recorded times.
    kept_late: u64,
    /// Another recovered task forked it.
    forked: bool,
    /// Its birth was seen.
    born: bool,
    dead: bool,
}

impl History {
    fn flush(&mut self) {
        let work = self.work_ns.saturating_sub(self.overhead_ns);
        // What could not be taken off now is taken off later.
        self.overhead_ns = self.overhead_ns.saturating_sub(self.work_ns);
        self.work_ns = 0;
        if work > 0 {
            self.steps.push(Step::Run(work));
        }
    }

    /// It wakes another task, which costs `ns`: in a simulated run after the event. A kernel's event is where it begins, and who is woken
    /// is runnable when it ends.
    fn acts(&mut self, step: Step, ns: u64, events: &Events) {
        let (before_ns, after_ns) = if events.is_simulated() { (0, ns) } else { (ns, 0) };
        self.overhead_ns += before_ns;
        self.flush();
        self.steps.push(step);
        self.overhead_ns += after_ns;
    }
}

/// A switch that comes no later than this after a tick is the tick's, and the time that the tick takes is the next task's; ns. Text has times
/// in us.
const AT_TICK_NS: u64 = 1_000;

/// A CPU while the trace is read.
#[derive(Debug, Clone, Copy)]
struct CpuState {
    current: TaskIdx,
    freq_khz: u32,
    since_ns: u64,
    /// From when on its ticks are still to be counted.
    ticks_from_ns: u64,
    /// When it last became idle.
    idle_ns: u64,
    /// When it began to leave idle, where it is on its way or has left since.
    exit_ns: Option<u64>,
}

/// What a recovery needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Recording<'a> {
    /// The events.
    pub events: &'a Events,
    /// The machine that they are of.
    pub machine: &'a Machine,
    /// The part of the trace that is recovered.
    pub window: Window,
    /// Frequency of each cpufreq policy before its first change, kHz.
    pub start_khz: &'a [u32],
    /// CONFIG_HZ of the kernel.
    pub hz: u32,
    /// Recorded tasks that the workload has already, and their places: they are not recovered, but forked when they were.
    pub known: &'a BTreeMap<TaskIdx, u32>,
    /// Time of one tick, ns; `None` if the trace does not show it.
    pub tick_phase_ns: Option<u64>,
    /// All wake-ups are timers: what is recovered happens when it happened, whatever the rest of the workload does.
    pub by_time: bool,
    /// Where the recording shows that a task loses wake-ups while it runs, it does, and those that were lost are there to come.
    pub loses: bool,
}

/// What is known of a recovered task beside its program.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub pid: i32,
    /// By the op at which it stands when it is woken, how long it took to run where its CPU was idle, ns; 0 where that is not known.
    pub exits_ns: Vec<u32>,
    /// What becomes of wake-ups while it runs.
    pub pending: Pending,
    /// So many of its late activations keep their recorded times: the recording does not show which of its timers they missed.
    pub kept_late: u64,
}

impl Recording<'_> {
    fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.hz.max(1))
    }

    /// Whether timers expire when they woke their tasks. On a shared stream they had waited for it.
    fn comes_as_woken(&self) -> bool {
        self.by_time || !self.machine.shared_stream
    }

    /// The tick before `time_ns`.
    fn before_tick(&self, time_ns: u64, phase_ns: u64) -> u64 {
        time_ns.saturating_sub(since_tick_ns(time_ns, phase_ns, self.tick_ns()).unwrap_or(0))
    }

    /// Whether a task's timers, which expired at `expiries_ns`, are those of the timer wheel, which ticks serve
    /// (kernel/time/timer.c:run_timer_softirq()): three in four expired right after a tick. Tasks of a simulated run have none.
    fn is_wheel(&self, expiries_ns: &[u64], phase_ns: u64) -> bool {
        if self.events.is_simulated() {
            return false;
        }
        let all = expiries_ns.len();
        let near = expiries_ns.iter().filter(|&&time_ns| self.before_tick(time_ns, phase_ns) != time_ns).count();
        near * 4 >= all * 3
    }
}

/// Appends the recovered tasks for which `wanted` holds to `workload`. Times begin at the window's start.
pub(crate) fn recover(
    recording: &Recording<'_>,
    wanted: impl Fn(TaskIdx) -> bool,
    workload: &mut Workload,
) -> Vec<Known> {
    let timed = by_timer(recording.events);
    let bound = bound_by_taskset(recording.events);
    let group_cpus = cpus_of_groups(recording, &recording.events.task_groups.list);
    let mut reader = Reader::new(recording, &timed, &bound);
    let later = |(group, cpus): (usize, &GroupCpus)| Some((cpus.later.as_ref()?.0, group));
    reader.set_changes = group_cpus.iter().enumerate().filter_map(later).collect();
    let wanted: BTreeSet<TaskIdx> = (0..recording.events.tasks.len() as TaskIdx)
        .filter(|&task| !recording.events.is_engines(task) && !recording.known.contains_key(&task) && wanted(task))
        .collect();
    for (index, ev) in recording.events.list.iter().enumerate() {
        if ev.time_ns >= recording.window.1 {
            break;
        }
        reader.event(index, ev, &wanted);
    }
    reader.finish();
    write(recording, &group_cpus, reader.histories, workload)
}

/// Tasks that are woken from idle CPUs so often that their wake-ups on busy ones are by timers, too; for traces that do not show
/// interrupts from tasks.
fn by_timer(events: &Events) -> BTreeSet<TaskIdx> {
    let mut counts: BTreeMap<TaskIdx, (u64, u64)> = BTreeMap::new();
    for ev in &events.list {
        if let What::Waking { task } = ev.what {
            let count = counts.entry(task).or_default();
            count.0 += u64::from(ev.current == IDLE_TASK);
            count.1 += 1;
        }
    }
    counts.into_iter().filter(|(_, (idle, all))| idle * 3 >= *all).map(|(task, _)| task).collect()
}

/// Tasks that `taskset` bound to a CPU: when, ns, and to which. The kernel has the stopper move who runs where it no longer may
/// (set_cpus_allowed_ptr()); who then runs nowhere else to its end is bound. One whose CPU was allowed already is not moved, and
/// a set of several CPUs shows as a move like any other.
fn bound_by_taskset(events: &Events) -> BTreeMap<TaskIdx, (u64, u32)> {
    let last = |(task, info): (usize, &TaskInfo)| info.tasksets.last().map(|&bound| (task as TaskIdx, bound));
    let mut bound: BTreeMap<TaskIdx, (u64, u32)> = events.tasks.iter().enumerate().filter_map(last).collect();
    for ev in &events.list {
        if let What::Switch { next, .. } = ev.what {
            let elsewhere = |&(since_ns, cpu): &(u64, u32)| ev.time_ns > since_ns && ev.cpu != cpu;
            if bound.get(&next).is_some_and(elsewhere) {
                bound.remove(&next);
            }
        }
    }
    bound
}

struct Reader<'a> {
    recording: &'a Recording<'a>,
    timed: &'a BTreeSet<TaskIdx>,
    bound: &'a BTreeMap<TaskIdx, (u64, u32)>,
    cpus: Vec<CpuState>,
    /// The other threads of each CPU's core.
    siblings: Vec<Vec<usize>>,
    policy_of: Vec<usize>,
    histories: BTreeMap<TaskIdx, History>,
    trains: Trains,
    /// When groups get other CPUs, ns, as far as nobody is seen yet who could have given them.
    set_changes: Vec<(u64, usize)>,
    tick_ns: u64,
}

impl<'a> Reader<'a> {
    fn new(
        recording: &'a Recording<'a>,
        timed: &'a BTreeSet<TaskIdx>,
        bound: &'a BTreeMap<TaskIdx, (u64, u32)>,
    ) -> Self {
        let machine = recording.machine;
        let policies = machine.policies();
        let policy_of = |cpu: u32| policies.iter().position(|(_, cpus)| cpus.contains(&cpu)).unwrap_or(0);
        let policy_of: Vec<usize> = (0..machine.nr_cpus() as u32).map(policy_of).collect();
        let cpus = policy_of
            .iter()
            .map(|&policy| CpuState {
                current: IDLE_TASK,
                freq_khz: recording.start_khz.get(policy).copied().unwrap_or(0),
                since_ns: 0,
                ticks_from_ns: 0,
                idle_ns: 0,
                exit_ns: None,
            })
            .collect();
        let core_of: Vec<u32> = machine.cpus.iter().map(|place| place.core).collect();
        let same_core =
            |cpu: usize| (0..core_of.len()).filter(|&other| other != cpu && core_of[other] == core_of[cpu]).collect();
        let siblings = (0..core_of.len()).map(same_core).collect();
        let tick_ns = 1_000_000_000 / u64::from(recording.hz.max(1));
        let trains = Trains::new(machine.nr_cpus(), machine.shared_stream);
        Self {
            recording,
            timed,
            bound,
            cpus,
            siblings,
            policy_of,
            histories: BTreeMap::new(),
            trains,
            set_changes: Vec::new(),
            tick_ns,
        }
    }

    /// Counts the work of the current task of `cpu` up to `now`.
    fn settle(&mut self, cpu: usize, now: u64) {
        let machine = self.recording.machine;
        let state = &mut self.cpus[cpu];
        let since = std::mem::replace(&mut state.since_ns, now).max(self.recording.window.0);
        let ticks_from = state.ticks_from_ns.max(since);
        state.ticks_from_ns = state.ticks_from_ns.max(now);
        let (current, freq_khz) = (state.current, state.freq_khz);
        if current == IDLE_TASK || now <= since {
            return;
        }
        let shares_core = self.siblings[cpu].iter().any(|&other| self.cpus[other].current != IDLE_TASK);
        let Some(history) = self.histories.get_mut(&current) else { return };
        let cluster = machine.cluster_of(cpu as u32);
        let share = if shares_core { machine.smt_yield } else { 1024 };
        let ns = ((u128::from(now - since) * u128::from(share)) >> 10) as u64;
        let work = if machine.speed_is_constant() {
            ns
        } else {
            let reference = cluster.reference_khz();
            let scale = u128::from(freq_khz) * u128::from(cluster.capacity);
            (u128::from(ns) * scale / (u128::from(reference) * 1024)) as u64
        };
        history.work_ns += work;
        *history.ran_ns.entry(cluster.capacity.into()).or_default() += now - since;
        // Those of a simulated run come when they are due; elsewhere it is their number that counts.
        let phase_ns = self.recording.tick_phase_ns.filter(|_| self.recording.events.is_simulated()).unwrap_or(0);
        let before = |time_ns: u64| (time_ns + self.tick_ns - phase_ns).saturating_sub(AT_TICK_NS) / self.tick_ns;
        let ticks = before(now).saturating_sub(before(ticks_from));
        // The machine's own actions are work, too.
        history.overhead_ns += ticks * machine.costs.tick_ns;
    }

    /// Takes note of the priority and the clamps that `task` has by now; a change that shows as it leaves its CPU was before its run.
    fn note_prio(&mut self, task: TaskIdx, now_ns: u64) {
        let events = self.recording.events;
        let Some((history, info)) = self.histories.get_mut(&task).zip(events.tasks.get(task as usize)) else { return };
        let prio = info.prio_at(now_ns);
        let clamps = info.clamps_at(now_ns);
        if let Some((min, max)) = clamps.filter(|_| history.clamps != clamps) {
            history.steps.push(Step::Clamps(min, max));
            history.clamps = clamps;
        }
        if history.prio.is_some_and(|before| before != prio) {
            history.steps.push(Step::Prio(prio));
        }
        history.prio = Some(prio);
    }

    /// Who held the one stream between the event before `index` and this one.
    fn settle_stream(&mut self, index: usize, ev: &Ev) {
        let Some(before) = index.checked_sub(1).map(|index| self.recording.events.list[index]) else { return };
        let runs = |cpu: u32| self.cpus.get(cpu as usize).is_some_and(|state| state.current != IDLE_TASK);
        // Another CPU's event out of idle, or in an interrupt, is the end of a turn of the one before, if that had anything to do.
        let stays = before.cpu == ev.cpu || (runs(before.cpu) && (ev.context == Context::Interrupt || !runs(ev.cpu)));
        let own_code = before.cpu == ev.cpu && ev.time_ns - before.time_ns <= TRAIN_GAP_NS;
        let mut holder = if stays { before.cpu } else { ev.cpu };
        if matches!(before.what, What::Idle { state: Some(_), .. }) || (!runs(holder) && !own_code) {
            // It passed to the next CPU in order that has a task; a CPU without one executes for some us only.
            let nr = self.cpus.len() as u32;
            holder = (1..=nr).map(|step| (before.cpu + step) % nr).find(|&cpu| runs(cpu)).unwrap_or(holder);
        }
        let holder = holder as usize;
        if let Some(state) = self.cpus.get_mut(holder) {
            state.since_ns = before.time_ns;
            self.settle(holder, ev.time_ns);
        }
    }

    fn event(&mut self, index: usize, ev: &Ev, wanted: &BTreeSet<TaskIdx>) {
        let inside = ev.time_ns >= self.recording.window.0;
        let c = ev.cpu as usize;
        if c >= self.cpus.len() {
            return;
        }
        if inside
            && ev.current != IDLE_TASK
            && wanted.contains(&ev.current)
            && !self.histories.contains_key(&ev.current)
        {
            // It runs since before the window.
            let since_ns = self.recording.window.0;
            let history = self.histories.entry(ev.current).or_default();
            (history.first_ns, history.first_cpu) = (Some(since_ns), Some(ev.cpu));
            self.cpus[c] = CpuState { current: ev.current, since_ns, ..self.cpus[c] };
        }
        let all_idle = self.cpus.iter().all(|state| state.current == IDLE_TASK);
        self.trains.event(ev, all_idle);
        if self.recording.machine.shared_stream {
            self.settle_stream(index, ev);
        }
        let costs = self.recording.machine.costs;
        let now = ev.time_ns;
        if inside && !self.set_changes.is_empty() {
            self.change_sets(now);
        }
        match ev.what {
            What::Switch { prev, left, next } => {
                if !self.recording.machine.shared_stream {
                    self.settle(c, now);
                    if (prev == IDLE_TASK) != (next == IDLE_TASK) {
                        // The other threads of the core become slower or faster.
                        for nth in 0..self.siblings[c].len() {
                            self.settle(self.siblings[c][nth], now);
                        }
                    }
                }
                self.cpus[c].current = next;
                self.cpus[c].since_ns = now;
                // An idle CPU's tick is nobody's work.
                self.cpus[c].ticks_from_ns = if prev == IDLE_TASK { now + 2 * AT_TICK_NS } else { now };
                if !inside {
                    return;
                }
                self.note_prio(prev, now);
                if let Some(history) = self.histories.get_mut(&prev)
                    && left != Left::Runnable
                {
                    history.flush();
                    history.dead |= left == Left::Dead;
                    history.asleep = Some((now, left));
                }
                if next == IDLE_TASK {
                    self.cpus[c].idle_ns = now;
                } else if wanted.contains(&next) {
                    let idle_ns = self.cpus[c].idle_ns;
                    let history = self.histories.entry(next).or_default();
                    if let Some(woken_ns) = history.woken_ns.take()
                        && prev == IDLE_TASK
                        && idle_ns <= woken_ns
                        && let Some(step) = history.steps.len().checked_sub(1)
                    {
                        history.exits_ns.insert(step, u32::try_from(now - woken_ns).unwrap_or(u32::MAX));
                    }
                    history.first_ns.get_or_insert(now);
                    history.first_cpu.get_or_insert(ev.cpu);
                    history.asleep = None;
                    history.overhead_ns += costs.context_switch_ns;
                    self.note_prio(next, now);
                }
            }
            What::Waking { task } if inside && wanted.contains(&task) => self.waking(ev, task, wanted),
            What::WakeupNew { task, .. } if inside && wanted.contains(&task) => {
                let due_ns = self.due_ns(ev);
                let history = self.histories.entry(task).or_default();
                history.first_ns.get_or_insert(due_ns);
                history.born = true;
                // Without an event of the fork: who forked it wakes it (kernel/fork.c:kernel_clone(), v6.12).
                let by_parent = !history.forked && ev.context != Context::Interrupt && ev.current != task;
                if by_parent && ev.current != IDLE_TASK && self.histories.contains_key(&ev.current) {
                    self.forks(ev, task, wanted);
                }
            }
            What::Fork { child }
                if inside
                    && (wanted.contains(&child) || self.recording.known.contains_key(&child))
                    && self.histories.contains_key(&ev.current) =>
            {
                self.forks(ev, child, wanted);
            }
            What::Migrate { task, dest_cpu, .. } if inside && self.bound.get(&task) == Some(&(now, dest_cpu)) => {
                if let Some(history) = self.histories.get_mut(&task) {
                    history.flush();
                    history.steps.push(Step::Bind(dest_cpu));
                }
            }
            What::Group { change } if inside => self.moves(ev, change, wanted),
            What::IdleExit { cpu } | What::Idle { cpu, state: Some(_) } if (cpu as usize) < self.cpus.len() => {
                self.cpus[cpu as usize].exit_ns = matches!(ev.what, What::IdleExit { .. }).then_some(now);
            }
            What::Exit { task } if inside => {
                if let Some(history) = self.histories.get_mut(&task) {
                    history.dead = true;
                }
            }
            What::Frequency { cpu, freq_khz } if (cpu as usize) < self.cpus.len() => {
                let policy = self.policy_of[cpu as usize];
                for other in (0..self.cpus.len()).filter(|&other| self.policy_of[other] == policy).collect::<Vec<_>>() {
                    if !self.recording.machine.shared_stream {
                        self.settle(other, now);
                    }
                    self.cpus[other].freq_khz = freq_khz;
                }
            }
            _ => {}
        }
    }

    /// The running task forks `child`.
    fn forks(&mut self, ev: &Ev, child: TaskIdx, wanted: &BTreeSet<TaskIdx>) {
        let (now, costs) = (ev.time_ns, self.recording.machine.costs);
        if wanted.contains(&child) {
            let history = self.histories.entry(child).or_default();
            history.forked = true;
            history.first_ns = Some(now);
        }
        if !self.recording.machine.shared_stream {
            self.settle(ev.cpu as usize, now);
        }
        if let Some(parent) = self.histories.get_mut(&ev.current) {
            parent.acts(Step::Fork(child), costs.wakeup_ns, self.recording.events);
        }
    }

    /// Tasks change their groups: by an op of who writes them there, or of their own where that is none of the workload's.
    fn moves(&mut self, ev: &Ev, change: u32, wanted: &BTreeSet<TaskIdx>) {
        let moved = self.recording.events.task_groups.moves.get(&change);
        for &(task, group) in moved.into_iter().flatten().filter(|(task, _)| wanted.contains(task)) {
            let by = if self.histories.contains_key(&ev.current) { ev.current } else { task };
            if !self.recording.machine.shared_stream && by == ev.current {
                self.settle(ev.cpu as usize, ev.time_ns);
            }
            let history = self.histories.entry(by).or_default();
            history.flush();
            history.steps.push(Step::Move(task, group));
        }
    }

    /// Groups get other CPUs, by the hand of a task that runs at that time: no event shows whose.
    fn change_sets(&mut self, now_ns: u64) {
        if self.set_changes.iter().all(|&(at_ns, _)| at_ns > now_ns) {
            return;
        }
        let runs = |state: &CpuState| self.histories.contains_key(&state.current);
        let Some(cpu) = self.cpus.iter().position(runs) else { return };
        if !self.recording.machine.shared_stream {
            self.settle(cpu, now_ns);
        }
        let due = self.set_changes.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).collect::<Vec<_>>();
        if let Some(history) = self.histories.get_mut(&self.cpus[cpu].current) {
            history.flush();
            history.steps.extend(due.into_iter().map(|(_, group)| Step::GroupCpus(group)));
        }
    }

    /// When what an interrupt does at `ev` was due. The engine's idle CPUs begin to leave idle at that time, and the machine's exit latency,
    /// which a replay has, too, comes on top.
    fn due_ns(&self, ev: &Ev) -> u64 {
        let exit_ns = self.cpus.get(ev.cpu as usize).and_then(|state| state.exit_ns);
        exit_ns.filter(|_| ev.current == IDLE_TASK && self.recording.events.is_simulated()).unwrap_or(ev.time_ns)
    }

    fn waking(&mut self, ev: &Ev, task: TaskIdx, wanted: &BTreeSet<TaskIdx>) {
        let now = ev.time_ns;
        let due_ns = self.due_ns(ev);
        let first = !self.histories.contains_key(&task);
        let history = self.histories.entry(task).or_default();
        history.first_ns.get_or_insert(due_ns);
        if first {
            return;
        }
        let Some((since, left)) = history.asleep.take() else { return };
        let interrupt = match ev.context {
            Context::Interrupt => true,
            Context::Task => ev.current == IDLE_TASK,
            Context::Unknown => ev.current == IDLE_TASK || self.timed.contains(&task),
        };
        let by_task = !self.recording.by_time
            && !interrupt
            && wanted.contains(&ev.current)
            && self.histories.contains_key(&ev.current);
        let cause = match (by_task, left) {
            (true, _) => Cause::Task,
            (false, Left::Uninterruptible) if !self.recording.by_time => Cause::Device,
            (false, _) => Cause::Timer,
        };
        let earliest_ns = self.trains.earliest_ns(ev);
        if let Some(history) = self.histories.get_mut(&task) {
            let to_ns = if cause == Cause::Timer { due_ns.max(since) } else { now };
            history.steps.push(Step::Sleep(since, to_ns, earliest_ns.max(since), cause));
            history.woken_ns = Some(now);
        }
        if by_task {
            if !self.recording.machine.shared_stream {
                self.settle(ev.cpu as usize, now);
            }
            if let Some(waker) = self.histories.get_mut(&ev.current) {
                waker.acts(Step::Post(task), self.recording.machine.costs.wakeup_ns, self.recording.events);
            }
        }
    }

    fn finish(&mut self) {
        if !self.recording.machine.shared_stream {
            for cpu in 0..self.cpus.len() {
                self.settle(cpu, self.recording.window.1);
            }
        }
        for history in self.histories.values_mut() {
            history.flush();
        }
    }
}

/// Half of the values are no further from their middle than this.
fn deviation(values: &[u64]) -> u64 {
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let middle = median(values.to_vec());
    median(values.iter().map(|value| value.abs_diff(middle)).collect())
}

/// Whether the sleeps by timer of a task are more alike than the times between its wake-ups.
fn is_relative(history: &History) -> bool {
    let sleeps: Vec<(u64, u64)> = history
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Sleep(from, to, _, Cause::Timer) => Some((*from, *to)),
            _ => None,
        })
        .collect();
    let lengths: Vec<u64> = sleeps.iter().map(|(from, to)| to - from).collect();
    let periods: Vec<u64> = sleeps.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    periods.len() >= 3 && deviation(&lengths) < deviation(&periods)
}

/// The CPU that a kthread's name binds it to: `ksoftirqd/3`, `kworker/3:1H`.
fn bound_cpu(name: &str) -> Option<u32> {
    let rest = name.split_once('/')?.1;
    let number = rest.split_once(':').map_or(rest, |(number, _)| number);
    number.parse().ok()
}

/// A second, ns: the period that is assumed of a deadline task whose parameters nothing shows.
const ASSUMED_PERIOD_NS: u64 = 1_000_000_000;
/// The share of it that the kernel lets deadline tasks reserve (`kernel.sched_rt_runtime_us` of 950 ms), and that of its own threads.
const MOST_RUNTIME_NS: u64 = 950_000_000;
const LEAST_RUNTIME_NS: u64 = 100_000_000;
/// The part of its running time that a task may have had on CPUs that do not fit it, as before it was one of the deadline class.
const STRAY: u64 = 20;

/// The reservation that is assumed of a deadline task whose parameters are not in the trace. Its span lets nobody wait who did not wait in
/// the recording. Its runtime is what the recording shows to be within the task's own: the work of its busiest second, and once more that
/// of its longest activation, since the kernel's periods begin with any of them. It is at least that of the kernel's own threads, a
/// tenth; theirs raises no clock, nor does an assumed one. And it is more than the CPUs have that are smaller than those on which it
/// ran: a task goes to none that is below its density (`kernel/sched/deadline.c:dl_task_fits_capacity`, v6.12).
fn assumed_reservation(history: &History, capacities: &BTreeSet<u64>) -> SchedPolicy {
    // When each activation began, and its work. The work counts at the highest clock of the biggest CPU, as the kernel counts runtime
    // (`kernel/sched/deadline.c:update_curr_dl_se`, v6.12).
    let mut activations: Vec<(u64, u64)> = vec![(history.first_ns.unwrap_or(0), 0)];
    for step in &history.steps {
        match *step {
            Step::Sleep(_, to, ..) => activations.push((to, 0)),
            Step::Run(more_ns) => {
                if let Some((_, work_ns)) = activations.last_mut() {
                    *work_ns += more_ns;
                }
            }
            _ => {}
        }
    }
    let busiest_ns = busiest_period(&activations);
    let longest_ns = activations.iter().map(|&(_, work_ns)| work_ns).max().unwrap_or(0);
    let all_ns: u64 = history.ran_ns.values().sum();
    let least =
        history.ran_ns.iter().find(|(_, ran_ns)| **ran_ns >= all_ns / STRAY).map_or(0, |(capacity, _)| *capacity);
    let too_small = capacities.range(..least).next_back();
    let beyond_ns = too_small.map_or(0, |capacity| (ASSUMED_PERIOD_NS * (capacity + 1)).div_ceil(1024));
    // Whole milliseconds: they are printed.
    let runtime_ns = match (busiest_ns + longest_ns).max(beyond_ns).div_ceil(1_000_000) * 1_000_000 {
        // It was awake for longer than a second: what it used of one is at most that.
        _ if longest_ns >= MOST_RUNTIME_NS => MOST_RUNTIME_NS,
        runtime_ns => runtime_ns.clamp(LEAST_RUNTIME_NS, MOST_RUNTIME_NS),
    };
    SchedPolicy::Deadline { runtime_ns, deadline_ns: ASSUMED_PERIOD_NS, period_ns: ASSUMED_PERIOD_NS, reclaim: false }
}

/// The most work of activations that begin within one assumed period, ns; each with when it began, in order.
fn busiest_period(activations: &[(u64, u64)]) -> u64 {
    let (mut from, mut work_ns, mut busiest_ns) = (0, 0, 0);
    for &(now, more_ns) in activations {
        work_ns += more_ns;
        while activations[from].0 + ASSUMED_PERIOD_NS <= now {
            work_ns -= activations[from].1;
            from += 1;
        }
        busiest_ns = busiest_ns.max(work_ns);
    }
    busiest_ns
}

/// The policy that a kernel priority stands for, of a task with this reservation if it is of the deadline class.
fn policy_of(prio: i64, reservation: SchedPolicy) -> SchedPolicy {
    match prio {
        100.. => SchedPolicy::Other { nice: (prio - 120).clamp(-20, 19) as i8 },
        // 99 is the lowest real-time priority, 1 for its user.
        0.. => SchedPolicy::Fifo { priority: (99 - prio).clamp(1, 99) as u8 },
        _ => reservation,
    }
}

/// When the timers of a task expired, one for each sleep that a timer ended.
fn expiries_of(recording: &Recording<'_>, history: &History) -> Vec<u64> {
    let wakes = history.steps.iter().filter_map(|step| match *step {
        Step::Sleep(_, to, _, Cause::Timer) => Some(to),
        _ => None,
    });
    let wakes: Vec<u64> = wakes.collect();
    if recording.comes_as_woken() { wakes } else { expiries(&wakes) }
}

/// Compiles the histories.
fn write(
    recording: &Recording<'_>,
    group_cpus: &[GroupCpus],
    histories: BTreeMap<TaskIdx, History>,
    workload: &mut Workload,
) -> Vec<Known> {
    // Only who ran is a task.
    let mut kept: Vec<(TaskIdx, History)> =
        histories.into_iter().filter(|(_, history)| history.first_cpu.is_some()).collect();
    let pending = if recording.loses { lose(recording.window, &mut kept) } else { vec![Pending::Unknown; kept.len()] };
    let compiler = Compiler {
        recording,
        group_cpus,
        nr_cpus: recording.machine.nr_cpus() as u32,
        capacities: recording.machine.clusters.iter().map(|cluster| cluster.capacity.into()).collect(),
        place: (0..).zip(&kept).map(|(index, (task, _))| (*task, index)).collect(),
        first_task: workload.tasks.len() as u32,
        first_sem: workload.semaphores.len() as u32,
        first_cond: workload.nr_conds,
        device: device_of(recording, &kept, workload),
        pending: &pending,
    };
    let expiries_ns = all_expiries(recording, &kept);
    let mut known: Vec<Known> = Vec::new();
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    for ((task, history), expiries_ns) in kept.iter().zip(&expiries_ns) {
        let info = &recording.events.tasks[*task as usize];
        // Several tasks may have one name.
        let nth = names.entry(info.name.clone()).or_default();
        *nth += 1;
        let name = if *nth == 1 { info.name.clone() } else { format!("{}#{nth}", info.name) };
        let (spec, exits_ns) = compiler.task(name, *task, history, expiries_ns, workload);
        workload.tasks.push(spec);
        workload.semaphores.push(0);
        let (pending, kept_late) = (pending[known.len()], history.kept_late);
        known.push(Known { pid: info.pid, exits_ns, pending, kept_late });
    }
    if pending.contains(&Pending::Lost) {
        workload.nr_conds += kept.len() as u32;
    }
    let first = groups_at(recording.events, recording.window.0);
    let of = kept.iter().map(|(task, _)| first.get(*task as usize).copied().unwrap_or(ROOT));
    let of_tasks: Vec<(u32, usize)> = (compiler.first_task..).zip(of).collect();
    let groups = &recording.events.task_groups.list;
    add_groups(groups, group_cpus, (compiler.first_task, &of_tasks), compiler.nr_cpus, workload);
    known
}

/// A history as what the task did from one sleep to the next; `place`: of each task among those that are kept.
fn activations(history: &History, window: Window, place: &BTreeMap<TaskIdx, usize>) -> Vec<Activation> {
    let from_ns = history.first_ns.unwrap_or(window.0);
    let mut all = vec![Activation { from_ns, to_ns: window.1, ..Activation::default() }];
    for step in &history.steps {
        let last = all.len() - 1;
        match *step {
            Step::Sleep(from_ns, to_ns, _, cause) => {
                all[last].to_ns = from_ns;
                let by_task = cause == Cause::Task;
                all.push(Activation { from_ns: to_ns, to_ns: window.1, by_task, ..Activation::default() });
            }
            Step::Run(work_ns) => all[last].work_ns += work_ns,
            Step::Post(task) => {
                let after_ns = all[last].work_ns;
                all[last].posts.extend(place.get(&task).map(|&place| (place, after_ns)));
            }
            _ => {}
        }
    }
    all
}

/// Finds which of the tasks lose wake-ups while they run, and puts those that were lost back into the histories: the wakers' again, and what
/// the woken tasks do then at the ends of theirs. Parts what late tasks did at once.
fn lose(window: Window, kept: &mut [(TaskIdx, History)]) -> Vec<Pending> {
    let place: BTreeMap<TaskIdx, usize> = kept.iter().enumerate().map(|(index, (task, _))| (*task, index)).collect();
    let mut all: Vec<Vec<Activation>> = kept.iter().map(|(_, history)| activations(history, window, &place)).collect();
    for (nth, (_, history)) in kept.iter_mut().enumerate() {
        let timed = |step: &Step| !matches!(step, Step::Sleep(_, _, _, Cause::Task | Cause::Device));
        if !history.steps.iter().all(timed) || is_relative(history) {
            continue;
        }
        if let Some(found) = late(&all[nth]) {
            (history.anew, history.kept_late) = (found.anew, found.kept as u64);
            part(history, &found, &mut all[nth]);
        }
    }
    let tasks: Vec<TaskIdx> = kept.iter().map(|(task, _)| *task).collect();
    let found = shown(&all);
    for ((_, history), shown) in kept.iter_mut().zip(&found) {
        with_lost(history, shown, &tasks);
    }
    found.into_iter().map(|shown| shown.pending).collect()
}

/// Parts the activations of a history that are several.
fn part(history: &mut History, late: &Late, all: &mut [Activation]) {
    for (nth, activation) in all.iter_mut().enumerate() {
        activation.ends_ns = late.parts.get(&nth).cloned().unwrap_or_default();
    }
    let steps = std::mem::take(&mut history.steps);
    let exits_ns = std::mem::take(&mut history.exits_ns);
    let (mut nth, mut work_ns) = (0, 0);
    for (place, step) in steps.into_iter().enumerate() {
        if let Some(&exit_ns) = exits_ns.get(&place) {
            history.exits_ns.insert(history.steps.len(), exit_ns);
        }
        match step {
            Step::Run(ns) => {
                let mut from_ns = work_ns;
                for &at_ns in &all[nth].ends_ns {
                    if at_ns > work_ns && at_ns <= work_ns + ns {
                        history.steps.extend((at_ns > from_ns).then_some(Step::Run(at_ns - from_ns)));
                        let end_ns = late.anew.then(|| all[nth + 1].from_ns - late.period_ns);
                        history.steps.push(Step::Due(late.period_ns, end_ns));
                        from_ns = at_ns;
                    }
                }
                work_ns += ns;
                history.steps.extend((work_ns > from_ns).then_some(Step::Run(work_ns - from_ns)));
                continue;
            }
            Step::Sleep(..) => (nth, work_ns) = (nth + 1, 0),
            _ => {}
        }
        history.steps.push(step);
    }
}

/// The history with what was lost of it.
fn with_lost(history: &mut History, shown: &Shown, tasks: &[TaskIdx]) {
    if shown.posts.is_empty() && shown.again.is_empty() {
        return;
    }
    let steps = std::mem::take(&mut history.steps);
    let exits_ns = std::mem::take(&mut history.exits_ns);
    let mut posts = shown.posts.clone();
    posts.sort_unstable();
    let (mut nth, mut work_ns) = (0, 0);
    // Where each activation begins: with the sleep that ends in it.
    let mut begins = vec![0];
    for (place, step) in steps.iter().enumerate() {
        if let Some(&exit_ns) = exits_ns.get(&place) {
            history.exits_ns.insert(history.steps.len(), exit_ns);
        }
        match *step {
            Step::Sleep(..) => {
                (nth, work_ns) = (nth + 1, 0);
                begins.push(place);
                history.steps.push(*step);
            }
            Step::Run(ns) => {
                let mut rest_ns = ns;
                let up_to = |work_ns: u64| posts.partition_point(|&(of, at_ns, _)| (of, at_ns) <= (nth, work_ns));
                for &(_, at_ns, woken) in &posts[up_to(work_ns)..up_to(work_ns + ns)] {
                    let first_ns = at_ns.saturating_sub(work_ns + ns - rest_ns);
                    history.steps.extend((first_ns > 0).then_some(Step::Run(first_ns)));
                    history.steps.push(Step::Post(tasks[woken]));
                    rest_ns -= first_ns;
                }
                history.steps.extend((rest_ns > 0).then_some(Step::Run(rest_ns)));
                work_ns += ns;
            }
            step => history.steps.push(step),
        }
    }
    begins.push(steps.len());
    for &nth in &shown.again {
        history.steps.extend(&steps[begins[nth]..begins[nth + 1]]);
    }
}

/// When the timers of each task expired.
fn all_expiries(recording: &Recording<'_>, kept: &[(TaskIdx, History)]) -> Vec<Vec<u64>> {
    let mut expiries_ns: Vec<Vec<u64>> = kept.iter().map(|(_, history)| expiries_of(recording, history)).collect();
    if !recording.comes_as_woken() {
        let earliest = |(_, history): &(TaskIdx, History)| -> Vec<u64> {
            let timers = history.steps.iter().filter_map(|step| match *step {
                Step::Sleep(_, _, earliest, Cause::Timer) => Some(earliest),
                _ => None,
            });
            timers.collect()
        };
        let earliest: Vec<Vec<u64>> = kept.iter().map(earliest).collect();
        let tasks = &recording.events.tasks;
        let parent = |task: &TaskIdx| tasks[*task as usize].parent.filter(|_| recording.machine.shared_stream);
        let parents: Vec<Option<TaskIdx>> = kept.iter().map(|(task, _)| parent(task)).collect();
        together(&mut expiries_ns, &earliest, &parents);
    }
    expiries_ns
}

/// The group of each task at a time.
fn groups_at(events: &Events, time_ns: u64) -> Vec<usize> {
    let mut groups = events.task_groups.first.clone();
    for ev in events.list.iter().take_while(|ev| ev.time_ns < time_ns) {
        if let What::Group { change } = ev.what {
            events.task_groups.apply(change, &mut groups);
        }
    }
    groups
}

/// What compiles one history after the other: the numbers that tasks, semaphores and devices have in the workload.
struct Compiler<'r> {
    recording: &'r Recording<'r>,
    group_cpus: &'r [GroupCpus],
    nr_cpus: u32,
    capacities: BTreeSet<u64>,
    /// By task of the recording: its place among those that are compiled.
    place: BTreeMap<TaskIdx, u32>,
    first_task: u32,
    first_sem: u32,
    first_cond: u32,
    device: u32,
    /// By place.
    pending: &'r [Pending],
}

/// The sleeps of a task that timers end.
struct Sleeps<'e> {
    /// Each lasts a time; otherwise timers expire at times.
    relative: bool,
    /// Timers are set anew where the task is late.
    anew: bool,
    /// The phase of the ticks, where these serve the timers.
    wheel_ns: Option<u64>,
    expiries_ns: std::slice::Iter<'e, u64>,
    due_ns: u64,
}

impl Compiler<'_> {
    /// One task, and by op how long it took to run where it is woken.
    fn task(
        &self,
        name: String,
        task: TaskIdx,
        history: &History,
        expiries_ns: &[u64],
        workload: &mut Workload,
    ) -> (TaskSpec, Vec<u32>) {
        let (recording, nr_cpus) = (self.recording, self.nr_cpus);
        let info = &recording.events.tasks[task as usize];
        let start_ns = recording.window.0;
        let born_ns = history.first_ns.unwrap_or(start_ns).max(start_ns);
        let reservation = info.reservation.unwrap_or_else(|| assumed_reservation(history, &self.capacities));
        let (ops, exits_ns) = self.ops(task, history, (born_ns, expiries_ns), reservation, workload);
        let known = match &info.affinity {
            Affinity::Always(cpus) => cpus.iter().copied().filter(|&cpu| cpu < nr_cpus).collect(),
            Affinity::Unknown | Affinity::Changes => Vec::from_iter(bound_cpu(&info.name).filter(|&cpu| cpu < nr_cpus)),
        };
        let cpus = (!known.is_empty()).then(|| cpu_set(workload, &known));
        let spec = TaskSpec {
            name,
            initial: !history.forked,
            delay_ns: if history.forked { 0 } else { born_ns - start_ns },
            policy: policy_of(info.prio_at(history.first_ns.unwrap_or(0)), reservation),
            class: String::new(),
            cpus,
            spawn_cpu: match history.forked && recording.by_time {
                true => None,
                false => history.first_cpu.filter(|&cpu| cpu < nr_cpus),
            },
            // Its birth was before the trace.
            seasoned: !history.forked && !history.born,
            workqueue: None,
            assumed_bandwidth: info.reservation.is_none(),
            ops,
            loop_slots: 0,
            nr_own_timers: 1,
            phases: vec![PhaseSpec { name: String::new(), run_ns: 0, period_ns: 0 }],
        };
        (spec, exits_ns)
    }

    /// The program of a task that was born at a time and whose timers expired at others, and by op how long it took to run where it is
    /// woken.
    fn ops(
        &self,
        task: TaskIdx,
        history: &History,
        (born_ns, expiries_ns): (u64, &[u64]),
        reservation: SchedPolicy,
        workload: &mut Workload,
    ) -> (Vec<Op>, Vec<u32>) {
        let recording = self.recording;
        let mut sleeps = Sleeps {
            relative: !recording.by_time && is_relative(history),
            anew: history.anew,
            wheel_ns: recording.tick_phase_ns.filter(|&phase_ns| recording.is_wheel(expiries_ns, phase_ns)),
            expiries_ns: expiries_ns.iter(),
            due_ns: born_ns,
        };
        let mut ops = Vec::new();
        if !sleeps.relative && !expiries_ns.is_empty() {
            // Timers count from one clock, not from the birth of each task, which may come late.
            ops.push(Op::TimersFrom { ns: born_ns - recording.window.0 });
        }
        if sleeps.wheel_ns.is_some() {
            ops.push(Op::TimersByTick);
        }
        let mut exits_ns = Vec::new();
        for (nth, step) in history.steps.iter().enumerate() {
            if let (Step::Sleep(_, _, _, cause), Some(&exit_ns)) = (step, history.exits_ns.get(&nth)) {
                // A semaphore is looked at again after the wake-up.
                let stays = *cause == Cause::Task && !self.loses(task);
                let op = ops.len() + usize::from(!stays);
                exits_ns.resize(exits_ns.len().max(op + 1), 0);
                exits_ns[op] = exit_ns;
            }
            match *step {
                Step::Prio(prio) => ops.push(Op::SetPolicy { policy: policy_of(prio, reservation) }),
                Step::Sleep(from, to, _, Cause::Timer) => self.sleep((from, to), &mut sleeps, &mut ops),
                Step::Due(period_ns, end_ns) => {
                    sleeps.due_ns = end_ns.unwrap_or(sleeps.due_ns + period_ns);
                    ops.push(Op::Timer { timer: 0, period_ns, absolute: !sleeps.anew, own: true });
                    ops.push(Op::Activation { phase: 0, timed: true });
                }
                step => ops.extend(self.op(task, step, workload)),
            }
        }
        if !history.dead {
            // What it waited for when the trace ended does not come.
            ops.extend(self.wait(task));
        }
        ops.push(Op::Exit);
        (ops, exits_ns)
    }

    /// A sleep from one time to another that a timer ended.
    fn sleep(&self, (from, to): (u64, u64), sleeps: &mut Sleeps<'_>, ops: &mut Vec<Op>) {
        if sleeps.relative {
            ops.push(Op::Sleep { ns: to - from });
            return;
        }
        let expiry_ns = sleeps.expiries_ns.next().copied().unwrap_or(to);
        let before_tick = |phase_ns| self.recording.before_tick(to, phase_ns).saturating_sub(DUE_NS);
        let period_ns = sleeps.wheel_ns.map_or(expiry_ns, before_tick).saturating_sub(sleeps.due_ns);
        sleeps.due_ns += period_ns;
        ops.push(Op::Timer { timer: 0, period_ns, absolute: !sleeps.anew, own: true });
        ops.push(Op::Activation { phase: 0, timed: true });
    }

    /// The task waits for another one.
    fn wait(&self, task: TaskIdx) -> Option<Op> {
        let place = self.place.get(&task)?;
        Some(match self.loses(task) {
            true => Op::Suspend { cond: self.first_cond + place },
            false => Op::SemWait { sem: self.first_sem + place },
        })
    }

    fn loses(&self, task: TaskIdx) -> bool {
        self.place.get(&task).is_some_and(|&place| self.pending[place as usize] == Pending::Lost)
    }

    /// A step that does not depend on those before it; `None` where whom it is about is no task here.
    fn op(&self, task: TaskIdx, step: Step, workload: &mut Workload) -> Option<Op> {
        match step {
            Step::Run(work_ns) => Some(Op::Run { work_ns, fixed: 0 }),
            Step::Clamps(min, max) => Some(Op::SetUclamp { min, max: Some(max) }),
            Step::Bind(cpu) => Some(Op::SetCpus { set: Some(cpu_set(workload, &[cpu])) }),
            Step::Move(other, group) => {
                let of = self.place.get(&other).filter(|_| other != task).map(|other| self.first_task + other);
                (of.is_some() || other == task).then_some(Op::SetGroup { task: of, group: Some(group as u32) })
            }
            Step::GroupCpus(group) => {
                let (_, cpus) = self.group_cpus[group].later.as_ref()?;
                let cpus: Vec<u32> = cpus.iter().copied().filter(|&cpu| cpu < self.nr_cpus).collect();
                let set = (!cpus.is_empty()).then(|| cpu_set(workload, &cpus));
                Some(Op::SetGroupCpus { group: group as u32, set })
            }
            Step::Post(other) => self.place.get(&other).map(|place| match self.loses(other) {
                true => Op::Resume { cond: self.first_cond + place },
                false => Op::SemPost { sem: self.first_sem + place },
            }),
            Step::Fork(child) => {
                let here = self.place.get(&child).map(|child| self.first_task + child);
                here.or_else(|| self.recording.known.get(&child).copied()).map(|task| Op::Fork { task })
            }
            Step::Sleep(from, to, _, Cause::Device) => {
                Some(Op::Io { device: self.device, bytes: request_bytes(to - from) })
            }
            Step::Sleep(_, _, _, Cause::Task) => self.wait(task),
            // They depend on the priorities and sleeps before.
            Step::Prio(_) | Step::Sleep(_, _, _, Cause::Timer) | Step::Due(..) => None,
        }
    }
}

/// The CPUs of a group's tasks: at first, and later others, ns.
#[derive(Debug, Clone, Default)]
struct GroupCpus {
    first: Option<Vec<u32>>,
    later: Option<(u64, Vec<u32>)>,
}

/// The CPUs that each group's tasks may use. No event shows when a set was changed between the snapshots before and after the
/// recording; where its tasks ran does, if they left the CPUs of the one before they came to those of the other. Else a group has the
/// set in which they ran for longer, if that was most of their time.
fn cpus_of_groups(recording: &Recording<'_>, groups: &[Group]) -> Vec<GroupCpus> {
    let (events, (start_ns, end_ns)) = (recording.events, recording.window);
    let mut of = events.task_groups.first.clone();
    // By group and CPU: from when to when its tasks and those of groups below it ran there, and how long.
    let mut ran: Vec<BTreeMap<u32, (u64, u64, u64)>> = vec![BTreeMap::new(); groups.len()];
    let mut since: BTreeMap<u32, u64> = BTreeMap::new();
    for ev in &events.list {
        if let What::Group { change } = ev.what {
            events.task_groups.apply(change, &mut of);
        }
        let What::Switch { prev, .. } = ev.what else { continue };
        if !(start_ns..end_ns).contains(&ev.time_ns) {
            continue;
        }
        let from_ns = since.insert(ev.cpu, ev.time_ns).unwrap_or(start_ns);
        let mut group = of.get(prev as usize).copied().unwrap_or(ROOT);
        while group != ROOT {
            let (_, last_ns, ns) = ran[group].entry(ev.cpu).or_insert((from_ns, 0, 0));
            (*last_ns, *ns) = (ev.time_ns, *ns + ev.time_ns - from_ns);
            group = groups[group].parent;
        }
    }
    let chosen = groups.iter().zip(&ran).map(|(group, ran)| {
        let within = |set: &&Vec<u32>| -> u64 { set.iter().filter_map(|cpu| ran.get(cpu)).map(|(.., ns)| ns).sum() };
        let (before, after) = (group.settings.cpus.as_ref(), group.settings.cpus_after.as_ref());
        if let Some((before, after)) = before.zip(after) {
            let beyond =
                |set: &Vec<u32>| ran.iter().filter(|(cpu, _)| !set.contains(cpu)).map(|(_, &ran)| ran).collect();
            let (not_after, not_before): (Vec<_>, Vec<_>) = (beyond(after), beyond(before));
            let left_ns = not_after.iter().map(|&(_, last_ns, _)| last_ns).max();
            let came_ns = not_before.iter().map(|&(first_ns, ..)| first_ns).min();
            if let Some(at_ns) = left_ns.or(came_ns).filter(|&at_ns| came_ns.is_none_or(|came_ns| at_ns <= came_ns)) {
                return GroupCpus { first: Some(before.clone()), later: Some((at_ns, after.clone())) };
            }
        }
        let set = after.filter(|after| before.is_none_or(|before| within(after) > within(&before))).or(before);
        let all: u64 = ran.values().map(|(.., ns)| ns).sum();
        GroupCpus { first: set.filter(|set| within(set) * 2 >= all).cloned(), later: None }
    });
    chosen.collect()
}

/// Adds the control groups that tasks of the workload, from the first one on, are in or come into, by the tasks' places, with those
/// above them.
fn add_groups(
    groups: &[Group],
    cpus_of: &[GroupCpus],
    (first, of_tasks): (u32, &[(u32, usize)]),
    nr_cpus: u32,
    workload: &mut Workload,
) {
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let first = first as usize;
    let moves = workload.tasks[first..].iter().flat_map(|task| &task.ops).filter_map(|op| match op {
        Op::SetGroup { group: Some(group), .. } | Op::SetGroupCpus { group, .. } => Some(*group as usize),
        _ => None,
    });
    for mut group in of_tasks.iter().map(|&(_, group)| group).chain(moves) {
        while group != ROOT && used.insert(group) {
            group = groups[group].parent;
        }
    }
    // A group comes after the one that it is in.
    let mut places: BTreeMap<usize, u32> = BTreeMap::new();
    for group in used {
        let Group { path, parent, settings } = &groups[group];
        let place = workload.groups.len() as u32;
        places.insert(group, place);
        let above = cpus_of[*parent].first.as_ref();
        let cpus = cpus_of[group].first.as_ref().filter(|&cpus| Some(cpus) != above);
        let cpus = cpus.map(|cpus| cpus.iter().copied().filter(|&cpu| cpu < nr_cpus).collect::<Vec<u32>>());
        let cpus = cpus.filter(|cpus| !cpus.is_empty() && cpus.len() < nr_cpus as usize);
        let cpus = cpus.map(|cpus| cpu_set(workload, &cpus));
        let quota = settings.quota.map(|quota| Quota {
            quota_ns: quota.quota_ns,
            period_ns: quota.period_ns,
            burst_ns: quota.burst_ns,
        });
        workload.groups.push(GroupSpec {
            parent: places.get(parent).copied(),
            shares: settings.shares() as u32,
            idle: settings.idle,
            quota,
            cpus,
            uclamp_min: clamp(settings.uclamp[0].as_deref(), 0),
            uclamp_max: clamp(settings.uclamp[1].as_deref(), 1024),
            tasks: of_tasks.iter().filter(|(_, of)| *of == group).map(|(task, _)| *task).collect(),
            ..GroupSpec::new(path)
        });
    }
    // Ops name groups of the trace up to here.
    for op in workload.tasks[first..].iter_mut().flat_map(|task| &mut task.ops) {
        match op {
            Op::SetGroup { group, .. } => *group = group.and_then(|group| places.get(&(group as usize)).copied()),
            Op::SetGroupCpus { group, .. } => *group = places[&(*group as usize)],
            _ => {}
        }
    }
}

/// `cpu.uclamp.min` or `.max`, percent with two digits or `max`, of 1024 (kernel/sched/core.c:`capacity_from_percent()`, v6.12).
fn clamp(text: Option<&str>, default: u16) -> u16 {
    let percent = |text: &str| {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let part: u32 = format!("{part:0<2}").get(..2)?.parse().ok()?;
        whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
    };
    match text {
        Some("max") => 1024,
        Some(text) => percent(text)
            .filter(|&of_10000| of_10000 <= 10_000)
            .map_or(default, |of_10000| ((of_10000 * 1024 + 5_000) / 10_000) as u16),
        None => default,
    }
}

/// The set of these CPUs.
fn cpu_set(workload: &mut Workload, set: &[u32]) -> u32 {
    let known = workload.cpu_sets.iter().position(|known| *known == set).unwrap_or_else(|| {
        workload.cpu_sets.push(set.to_vec());
        workload.cpu_sets.len() - 1
    });
    known as u32
}

/// The device of all requests: a KiB takes a us, so that each request takes as long as it took.
fn device_of(recording: &Recording<'_>, kept: &[(TaskIdx, History)], workload: &mut Workload) -> u32 {
    let used = kept.iter().any(|(_, h)| h.steps.iter().any(|s| matches!(s, Step::Sleep(_, _, _, Cause::Device))));
    if !used {
        return 0;
    }
    // The interrupt's CPU, if it is one and the same.
    let mut irqs: BTreeMap<u32, u64> = BTreeMap::new();
    for (ev, _) in device_wakes(recording.events) {
        *irqs.entry(ev.cpu).or_default() += 1;
    }
    let all: u64 = irqs.values().sum();
    let irq_cpu = irqs.into_iter().find(|(_, count)| count * 10 >= all * 8).map(|(cpu, _)| cpu);
    workload.devices.push(DeviceSpec { per_kib_ns: 1000, queue_depth: 1024, irq_cpu, ..DeviceSpec::default() });
    workload.devices.len() as u32 - 1
}

/// The size of a request that takes `ns`.
fn request_bytes(ns: u64) -> u32 {
    u32::try_from((ns / 1000).max(1).saturating_mul(1024)).unwrap_or(u32::MAX)
}

/// Wake-ups by interrupts of tasks in uninterruptible sleep.
fn device_wakes(events: &Events) -> impl Iterator<Item = (&Ev, TaskIdx)> {
    let mut waits: BTreeSet<TaskIdx> = BTreeSet::new();
    events.list.iter().filter_map(move |ev| match ev.what {
        What::Switch { prev, left: Left::Uninterruptible, .. } => {
            waits.insert(prev);
            None
        }
        What::Waking { task } if waits.remove(&task) => {
            (ev.context == Context::Interrupt || ev.current == IDLE_TASK).then_some((ev, task))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_are_percent() {
        let check = |text: Option<&str>, of_1024: u16| assert_eq!(clamp(text, 7), of_1024, "{text:?}");
        check(None, 7);
        check(Some("max"), 1024);
        check(Some("0.00"), 0);
        check(Some("12.5"), 128);
        check(Some("50.00"), 512);
        check(Some("100"), 1024);
        check(Some("101"), 7);
        check(Some("x"), 7);
    }

    #[test]
    fn kthreads_are_bound_by_name() {
        let check = |name: &str, cpu: Option<u32>| assert_eq!(bound_cpu(name), cpu, "{name}");
        check("ksoftirqd/3", Some(3));
        check("kworker/1:2H", Some(1));
        check("kworker/u8:0", None);
        check("rt-app", None);
    }

    #[test]
    fn priorities_are_policies() {
        let known = SchedPolicy::Deadline { runtime_ns: 1, deadline_ns: 2, period_ns: 3, reclaim: true };
        let check = |prio: i64, policy: SchedPolicy| assert_eq!(policy_of(prio, known), policy, "{prio}");
        check(120, SchedPolicy::Other { nice: 0 });
        check(100, SchedPolicy::Other { nice: -20 });
        check(98, SchedPolicy::Fifo { priority: 1 });
        check(0, SchedPolicy::Fifo { priority: 99 });
        check(-1, known);
    }

    #[test]
    fn an_assumed_reservation_holds_what_was_run() {
        let capacities = BTreeSet::from([210, 620, 1024]);
        let check_on = |ran_ns: &[(u64, u64)], activations: &[(u64, u64)], expected_ms: u64| {
            let ran_ns = ran_ns.iter().copied().collect();
            let mut history = History { first_ns: Some(0), ran_ns, ..History::default() };
            for &(at_ms, work_ms) in activations {
                history.steps.push(Step::Sleep(0, at_ms * 1_000_000, 0, Cause::Timer));
                history.steps.push(Step::Run(work_ms * 1_000_000));
            }
            let SchedPolicy::Deadline { runtime_ns, period_ns, .. } = assumed_reservation(&history, &capacities) else {
                panic!()
            };
            assert_eq!((runtime_ns, period_ns), (expected_ms * 1_000_000, 1_000_000_000), "{activations:?}");
        };
        let check = |activations: &[(u64, u64)], expected_ms: u64| check_on(&[], activations, expected_ms);
        check(&[], 100);
        check(&[(0, 5), (500, 5)], 100);
        // The busiest second is that from 1.9 s on.
        check(&[(0, 80), (1900, 80), (2500, 60), (2899, 10), (2900, 70)], 230);
        check(&[(0, 600), (1000, 600)], 950);
        check(&[(0, 3000)], 950);
        // On CPUs of 620 and 1024 alone: a density of 211 of 1024 is 206.1 ms of a second. A twentieth of the time on them shows that they fit.
        check_on(&[(620, 90), (1024, 10)], &[(0, 5)], 207);
        check_on(&[(210, 4), (620, 90), (1024, 10)], &[(0, 5)], 207);
        check_on(&[(210, 6), (620, 90), (1024, 10)], &[(0, 5)], 100);
        check_on(&[(1024, 1)], &[(0, 5)], 607);
        check_on(&[(1024, 1)], &[(0, 500)], 950);
    }
}
