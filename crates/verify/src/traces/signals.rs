//! Signals from scheduling events alone, against the kernel's own samples.
//!
//! [`PeltReplay`] gets `sched_switch`, `sched_wakeup`, `sched_wakeup_new`, `sched_migrate_task` and `cpu_frequency` and nothing
//! else: no clock, no state of the kernel. At each `pelt_se` and `pelt_cfs` record of a task or a root queue its `util_avg` is
//! compared with the recorded one. Compared are signals to which what happened before the trace adds at most
//! [`KNOWN_WITHIN`] units.

use opplab_kernel::pelt::HalfLife32;
use opplab_trace::signals::pelt::{CpuFacts, PeltReplay, Sample};

use super::input::{Ev, Kind, Recording};

/// A signal counts when its unknown history is worth no more than this, in units of 1024.
pub const KNOWN_WITHIN: u64 = 2;

/// Differences of `util_avg` in units of 1024.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalError {
    /// All differences, ascending.
    pub differences: Vec<u64>,
    /// Samples that were not compared because what happened before the trace still counts.
    pub unknown: u64,
}

impl SignalError {
    /// The difference that `percent` of the samples do not exceed.
    pub fn percentile(&self, percent: usize) -> Option<u64> {
        let last = self.differences.len().checked_sub(1)?;
        self.differences.get((self.differences.len() * percent).div_ceil(100).saturating_sub(1).min(last)).copied()
    }

    /// The part of the samples within `limit`, in parts of a hundred thousand.
    pub fn within_per_100k(&self, limit: u64) -> u64 {
        let within = self.differences.partition_point(|&difference| difference <= limit) as u64;
        (within * 100_000).checked_div(self.differences.len() as u64).unwrap_or(100_000)
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
    let mut replay: PeltReplay<_, HalfLife32> = PeltReplay::new(&cpus, 0, |_: &Sample| {});
    let mut signals = Signals::default();
    for ev in recording.events.iter() {
        match ev.kind() {
            Kind::PeltSe => {
                let _ = sample(&ev, &replay, &mut signals);
            }
            Kind::PeltCfs => {
                let _ = queue_sample(&ev, &replay, group_queues, &mut signals);
            }
            _ => {
                let _ = feed(&ev, &mut replay);
            }
        }
    }
    signals.tasks.differences.sort_unstable();
    signals.queues.differences.sort_unstable();
    signals
}

fn feed<S: opplab_trace::signals::pelt::Samples>(ev: &Ev<'_>, replay: &mut PeltReplay<S, HalfLife32>) -> Option<()> {
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
        Kind::SchedMigrateTask => replay.migrate(time, pid("pid")?, prio("prio")?, ev.u("dest_cpu")? as u32),
        Kind::CpuFrequency => replay.frequency(time, ev.u("cpu_id")? as u32, ev.u("state")? as u32),
        _ => {}
    }
    Some(())
}

fn count(error: &mut SignalError, ours: &Sample, kernel: u64) {
    if ours.error_bound <= KNOWN_WITHIN {
        error.differences.push(ours.util_avg.abs_diff(kernel));
    } else {
        error.unknown += 1;
    }
}

fn sample<S: opplab_trace::signals::pelt::Samples>(
    ev: &Ev<'_>,
    replay: &PeltReplay<S, HalfLife32>,
    signals: &mut Signals,
) -> Option<()> {
    let pid = ev.get("pid")? as i32;
    if pid > 0 && ev.get("on_rq")? != 0 {
        let ours = replay.peek_task(pid, ev.time_ns())?;
        count(&mut signals.tasks, &ours, ev.u("util_avg")?);
    }
    Some(())
}

fn queue_sample<S: opplab_trace::signals::pelt::Samples>(
    ev: &Ev<'_>,
    replay: &PeltReplay<S, HalfLife32>,
    group_queues: &[u64],
    signals: &mut Signals,
) -> Option<()> {
    if group_queues.binary_search(&ev.u("cfs")?).is_err() {
        let ours = replay.peek_cpu(ev.u("cpu")? as u32, ev.time_ns())?;
        count(&mut signals.queues, &ours, ev.u("util_avg")?);
    }
    Some(())
}
