//! Signals from scheduling events alone, against the kernel's own samples.
//!
//! [`PeltReplay`] gets `sched_switch`, `sched_waking`, `sched_wakeup`, `sched_wakeup_new`, `sched_migrate_task`, `cpu_frequency` and, where
//! a recording has it, `sched_update_nr_running_tp`, and nothing else: no clock, no state of the kernel. At each `pelt_se` and
//! `pelt_cfs` record of a task or a root queue its `util_avg` is compared with the recorded one. A signal counts when the bound that
//! the replay states for it is at most [`KNOWN_WITHIN`] units; how many of all samples lie outside of their own bound is counted
//! too. A first pass finds the ticks, how late events are, and what quotas stop. Of a recording with control groups of which neither
//! events nor a snapshot show who is in them nothing is compared: no bound is proven of its signals.
//!
//! A sample outside of its bound is explained if a stop of the CPU can have made it, as the clocks of the kernel's own records show
//! ([`Stops`]); any other one is an error of the recording's report.
//!
//! What is left has these causes, in the order of their weight in the recordings of emulated machines:
//! - the emulator (or the host) stops a virtual CPU between the reading of its clock and the event, by milliseconds;
//! - whether a wake-up or a tick preempted a running task, and whether a tick came between a wake-up and the idle CPU's switch;
//! - the tick that updated a busy queue last before a sleeping task left it for another;
//! - some microseconds of delay of each event, which add up over hundreds of switches;
//! - phases of 1024 us, of which the replay does not know when they begin.

use std::collections::BTreeMap;

use opplab_kernel::pelt::HalfLife32;
use opplab_kernel::profile::KernelProfile;
use opplab_signals::late::LateFinder;
use opplab_signals::pelt::{CpuFacts, PeltReplay, ROUNDING, Sample};
use opplab_signals::ticks::{TickFinder, Ticks};
use opplab_signals::waits::nearest_rank;

use super::input::{Ev, Kind, Recording};

/// A signal counts when its stated error bound is no more than this, in units of 1024.
pub const KNOWN_WITHIN: u64 = 8;

/// Differences of `util_avg` in units of 1024.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalError {
    /// All differences, ascending.
    pub differences: Vec<u64>,
    /// Samples that were not compared because what happened before the trace still counts.
    pub unknown: u64,
    /// Samples, compared or not, that differ by more than their bound.
    pub beyond: u64,
    /// Those of them that the kernel's own clocks explain: a CPU was stopped between the reading of its clock and the event,
    /// which no scheduling event shows and the bound does not hold.
    pub stopped: u64,
    /// Samples of a recording with control groups of which nothing is known: nothing is proven of them.
    pub grouped: u64,
}

impl SignalError {
    /// Samples that leave their bound, and nothing that is known explains it.
    pub fn unexplained(&self) -> u64 {
        self.beyond - self.stopped
    }

    /// The difference that `percent` of the samples do not exceed.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        nearest_rank(&self.differences, percent)
    }
}

/// The errors of one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// Of tasks.
    pub tasks: SignalError,
    /// Of the CPUs' root run queues.
    pub queues: SignalError,
}

/// Rebuilds the signals of a recording and compares them.
pub fn compare(recording: &Recording, group_queues: &[u64]) -> Signals {
    let machine = &recording.machine;
    let cpus: Vec<CpuFacts> = (0..machine.n_cpus)
        .map(|cpu| {
            let policy = machine.policy(cpu);
            CpuFacts {
                capacity: machine.capacity[cpu],
                freq_max_khz: policy.map_or(0, |policy| if machine.freq_ref { policy.max_khz } else { 0 }),
                freq_khz: policy.map_or(0, |policy| policy.cur_khz),
            }
        })
        .collect();
    let offset_ns = recording.events.time_offset_ns.wrapping_sub(machine.sched_clock_offset_ns);
    let mut replay: Replay = PeltReplay::new(&cpus, offset_ns, drop_sample);
    let (ticks, late_ns) = first_pass(recording);
    replay.set_ticks(ticks);
    replay.set_late_ns(late_ns);
    let names = recording.events.names.iter();
    replay.set_stoppers(names.filter(|(_, name)| name.starts_with("migration/")).map(|(pid, _)| *pid as i32));
    if machine.at_least(6, 12) {
        replay.set_kernel(&KernelProfile::of((6, 12), 117));
    }
    replay.set_groups(recording.groups.clone(), recording.finder.clone());
    let mut signals = Signals::default();
    let mut stops = Stops { offset_ns: machine_offset(recording), ..Stops::default() };
    // By executing CPU: the samples of the pass through the scheduler that is under way.
    let mut pending: Vec<Vec<Pending>> = vec![Vec::new(); machine.n_cpus];
    for ev in recording.events.iter() {
        let sample = match ev.kind() {
            Kind::PeltSe => task_sample(&ev, &replay, &mut stops),
            Kind::PeltCfs => queue_sample(&ev, &replay, group_queues, &stops),
            Kind::UpdCfs => {
                let _ = stops.update(&ev);
                None
            }
            _ => {
                let fed = feed(&ev, &mut replay).is_some();
                // These come in the midst of a pass, or are none.
                let apart = [Kind::NrRunning, Kind::SchedWaking, Kind::CpuFrequency, Kind::SchedProcessFork];
                let scheduling = fed && !apart.contains(&ev.kind()) && ev.kind() != Kind::CgroupName;
                if let Some(waiting) = pending.get_mut(ev.cpu()).filter(|_| scheduling) {
                    waiting.drain(..).for_each(|sample| sample.settle(&replay, ev.time_ns(), &mut signals));
                }
                None
            }
        };
        if let (Some(sample), Some(waiting)) = (sample, pending.get_mut(ev.cpu())) {
            // Attach, detach and moves between groups show steps of one change: the last at a moment of the clock counts.
            waiting.retain(|other| (other.of, other.clock) != (sample.of, sample.clock));
            waiting.push(sample);
        }
    }
    let left = pending.into_iter().flatten();
    left.for_each(|sample| sample.settle(&replay, u64::MAX, &mut signals));
    if !group_queues.is_empty() && !replay.groups().any() {
        for error in [&mut signals.tasks, &mut signals.queues] {
            let grouped = error.differences.len() as u64 + error.unknown;
            *error = SignalError { grouped, ..SignalError::default() };
        }
    }
    signals.tasks.differences.sort_unstable();
    signals.queues.differences.sort_unstable();
    signals
}

/// A first pass over the events: when the ticks are, as far as preemptions show it, and how late events are.
fn first_pass(recording: &Recording) -> (Option<Ticks>, u64) {
    let (mut ticks, mut late) = (TickFinder::default(), LateFinder::default());
    for ev in recording.events.iter() {
        let _ = feed_ticks(&ev, &mut ticks);
        let pid = || ev.get("pid").map(|pid| pid as i32);
        match (ev.kind(), pid()) {
            (Kind::SchedWaking, Some(pid)) => late.waking(ev.time_ns(), ev.cpu() as u32, pid),
            (Kind::SchedWakeup, Some(pid)) => late.wakeup(ev.time_ns(), ev.cpu() as u32, pid),
            _ => {}
        }
    }
    (ticks.ticks(), late.late_ns())
}

fn feed_ticks(ev: &Ev<'_>, finder: &mut TickFinder) -> Option<()> {
    let task = |pid: &str, prio: &str| Some((ev.get(pid)? as i32, i64::from(ev.get(prio)? as i32)));
    match ev.kind() {
        Kind::SchedSwitch => {
            let (prev, next) = (task("prev_pid", "prev_prio")?, task("next_pid", "next_prio")?);
            finder.switch(ev.time_ns(), ev.cpu() as u32, prev, ev.u("prev_state")?, next);
        }
        Kind::SchedWakeup | Kind::SchedWakeupNew => finder.joins(ev.time_ns(), ev.u("target_cpu")? as u32),
        Kind::SchedMigrateTask => finder.joins(ev.time_ns(), ev.u("dest_cpu")? as u32),
        Kind::CpuIdle => {
            finder.idle(ev.time_ns(), ev.u("cpu_id")? as u32, !matches!(ev.get("state")?, -1 | 0xffff_ffff))
        }
        _ => {}
    }
    Some(())
}

type Replay = PeltReplay<fn(&Sample), HalfLife32>;

fn drop_sample(_: &Sample) {}

/// Events of one pass through the scheduler are written within this time of each other.
const PASS_NS: u64 = 100_000;

/// What is added to a trace's times to get those of the scheduler's clock, with its sign turned.
fn machine_offset(recording: &Recording) -> u64 {
    recording.events.time_offset_ns.wrapping_sub(recording.machine.sched_clock_offset_ns) as u64
}

/// A clock that is this much older than the event that was made on it shows a stop.
const STOP_NS: u64 = 200_000;

/// What stops of CPUs may have made of signals: units of 1024 that decay as the signals do.
#[derive(Debug, Clone, Default)]
struct Stops {
    offset_ns: u64,
    cpus: BTreeMap<usize, (u64, f64)>,
    tasks: BTreeMap<i32, (u64, f64)>,
}

/// What is left of a signal after so long.
fn decay(ns: u64) -> f64 {
    0.5f64.powf(ns as f64 / 32_768_000.0)
}

impl Stops {
    /// An update of a root queue shows the clock that it was made on.
    fn update(&mut self, ev: &Ev<'_>) -> Option<()> {
        let cpu = ev.cpu_field("cpu")?;
        let stopped_ns = ev.time_ns().wrapping_sub(self.offset_ns).checked_sub(ev.u("clock")?)?;
        if stopped_ns > STOP_NS {
            let before =
                self.cpus.get(&cpu).map_or(0.0, |&(since, units)| units * decay(ev.time_ns().saturating_sub(since)));
            self.cpus.insert(cpu, (ev.time_ns(), before + 1024.0 * (1.0 - decay(stopped_ns))));
        }
        Some(())
    }

    fn of_cpu(&self, cpu: usize, time_ns: u64) -> u64 {
        self.cpus.get(&cpu).map_or(0.0, |&(since, units)| units * decay(time_ns.saturating_sub(since))).ceil() as u64
    }

    /// A task keeps what stops of the CPUs on which it ran have made of it.
    fn of_task(&mut self, pid: i32, cpu: usize, time_ns: u64) -> u64 {
        let kept = self.tasks.get(&pid).map_or(0.0, |&(since, units)| units * decay(time_ns.saturating_sub(since)));
        let units = kept.max(self.of_cpu(cpu, time_ns) as f64);
        self.tasks.insert(pid, (time_ns, units));
        units.ceil() as u64
    }
}

/// A record of the kernel that waits for the end of its pass.
///
/// An event follows the change that it records: a task is in its queue's averages some microseconds before `sched_wakeup`.
/// So a record is compared with the signal before the next scheduling event of the CPU that wrote it, and, where that event
/// belongs to the same pass, with the one after; the nearer counts.
#[derive(Debug, Clone)]
struct Pending {
    of: Result<i32, u32>,
    time_ns: u64,
    /// `last_update_time` of the signal.
    clock: u64,
    kernel: u64,
    before: Sample,
    /// What stops of the CPU may make of it, in units of 1024.
    stops: u64,
}

impl Pending {
    fn settle(self, replay: &Replay, event_ns: u64, signals: &mut Signals) {
        let error = if self.of.is_ok() { &mut signals.tasks } else { &mut signals.queues };
        let after = (event_ns.wrapping_sub(self.time_ns) < PASS_NS).then(|| match self.of {
            Ok(pid) => replay.peek_task(pid, event_ns),
            Err(cpu) => replay.peek_cpu(cpu, event_ns),
        });
        let after = after.flatten().unwrap_or(self.before);
        let difference = |sample: &Sample| sample.util_avg.abs_diff(self.kernel);
        let (difference, bound) =
            (difference(&self.before).min(difference(&after)), self.before.error_bound.max(after.error_bound));
        error.beyond += u64::from(difference > bound + ROUNDING);
        error.stopped += u64::from((bound + ROUNDING + 1..=bound + ROUNDING + self.stops).contains(&difference));
        if bound > KNOWN_WITHIN {
            error.unknown += 1;
        } else {
            error.differences.push(difference);
        }
    }
}

fn feed(ev: &Ev<'_>, replay: &mut Replay) -> Option<()> {
    let time = ev.time_ns();
    // The trace shows some priorities without their sign.
    let prio = |name: &str| ev.get(name).map(|prio| i64::from(prio as i32));
    let pid = |name: &str| ev.get(name).map(|pid| pid as i32);
    match ev.kind() {
        Kind::SchedSwitch => {
            let prev = (pid("prev_pid")?, prio("prev_prio")?);
            let next = (pid("next_pid")?, prio("next_prio")?);
            replay.switch(time, ev.cpu() as u32, prev, ev.u("prev_state")?, next);
        }
        Kind::SchedWakeup | Kind::SchedWakeupNew => {
            let new = ev.kind() == Kind::SchedWakeupNew;
            replay.wakeup(time, pid("pid")?, prio("prio")?, ev.u("target_cpu")? as u32, new);
        }
        Kind::SchedWaking => replay.waking(time, pid("pid")?),
        Kind::NrRunning => {
            replay.nr_running(time, ev.cpu() as u32, ev.u("cpu")? as u32, ev.get("change")?, ev.u("nr")?);
        }
        Kind::SchedMigrateTask => replay.migrate(time, pid("pid")?, prio("prio")?, ev.u("dest_cpu")? as u32),
        Kind::SchedProcessFork => replay.fork(pid("parent_pid")?, pid("child_pid")?),
        Kind::CgroupAttachTask => {
            let (root, path) = (ev.get("dst_root")?, ev.path("dst_path")?);
            replay.attach_group(time, root, ev.u("dst_id").unwrap_or(0), path, pid("pid")?);
        }
        Kind::CgroupName => replay.name_group(ev.get("root")?, ev.u("id").unwrap_or(0), ev.path("path")?),
        Kind::CpuFrequency => replay.frequency(time, ev.cpu() as u32, ev.u("cpu_id")? as u32, ev.u("state")? as u32),
        _ => return None,
    }
    Some(())
}

fn task_sample(ev: &Ev<'_>, replay: &Replay, stops: &mut Stops) -> Option<Pending> {
    let pid = ev.get("pid").filter(|&pid| pid > 0)? as i32;
    let _queued = ev.get("on_rq").filter(|&on_rq| on_rq != 0)?;
    let before = replay.peek_task(pid, ev.time_ns())?;
    let stops = stops.of_task(pid, ev.cpu(), ev.time_ns());
    Some(Pending { of: Ok(pid), time_ns: ev.time_ns(), clock: ev.u("lut")?, kernel: ev.u("util_avg")?, before, stops })
}

fn queue_sample(ev: &Ev<'_>, replay: &Replay, group_queues: &[u64], stops: &Stops) -> Option<Pending> {
    if group_queues.binary_search(&ev.u("cfs")?).is_ok() {
        return None;
    }
    let cpu = ev.u("cpu")? as u32;
    let before = replay.peek_cpu(cpu, ev.time_ns())?;
    let stops = stops.of_cpu(cpu as usize, ev.time_ns());
    Some(Pending { of: Err(cpu), time_ns: ev.time_ns(), clock: ev.u("lut")?, kernel: ev.u("util_avg")?, before, stops })
}
