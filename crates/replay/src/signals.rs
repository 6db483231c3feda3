//! How load tracking is rebuilt from a trace on a machine: what is read for it, and what a first pass finds out.

use std::ops::ControlFlow;

use opplab_kernel::profile::KernelProfile;
use opplab_model::machine::Machine;
use opplab_signals::decode::{Decoder, MOVES, SchedSink};
use opplab_signals::groups::{GroupFinder, Groups};
use opplab_signals::late::LateFinder;
use opplab_signals::pelt::{CpuFacts, PeltReplay, Samples, stoppers};
use opplab_signals::ticks::TickFinder;
use opplab_trace::{Event, Meta, ReadOptions, RecordingFiles, Result, TraceFile};

use crate::energy;

/// The events that the signals follow from, beside those of energy.
const EVENTS: &[&str] = &[
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_free",
    MOVES[0],
    MOVES[1],
    "cgroup_mkdir",
    "cgroup_rename",
    "sched_process_fork",
    "sched_update_nr_running",
    "sched_update_nr_running_tp",
    "lisa__sched_update_nr_running",
    "nr_running",
];

/// The events that ticks and the lateness of events follow from.
const FIRST_EVENTS: &[&str] =
    &["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "cpu_idle"];

/// The events that groups follow from, beside those.
const GROUP_EVENTS: &[&str] = &[
    MOVES[0],
    MOVES[1],
    "sched_process_fork",
    "sched_process_exec",
    "task_newtask",
    "sched_update_nr_running",
    "sched_update_nr_running_tp",
    "lisa__sched_update_nr_running",
    "nr_running",
];

/// What is read of a trace for its signals and energy.
pub fn read_options() -> ReadOptions {
    ReadOptions { missing_ok: true, ..ReadOptions::only(&[EVENTS, &energy::EVENTS].concat()) }
}

/// Capacity and frequency of each CPU; the kernel follows the frequency if `invariance`.
fn facts_of(machine: &Machine, invariance: bool) -> Vec<CpuFacts> {
    let mut facts = vec![CpuFacts::default(); machine.nr_cpus()];
    for cluster in &machine.clusters {
        for &cpu in &cluster.cpus {
            let khz = cluster.opps.last().map_or(0, |opp| opp.khz);
            facts[cpu as usize].capacity = cluster.capacity.into();
            facts[cpu as usize].freq_max_khz = if invariance { khz } else { 0 };
        }
    }
    facts
}

/// Load tracking that is ready for the trace's events, and what the trace states about itself. `files`: where snapshots of control
/// groups may lie beside the trace.
///
/// # Errors
/// If the trace cannot be read.
pub fn load_tracking<S: Samples>(
    file: &TraceFile,
    files: Option<&RecordingFiles>,
    machine: Option<&Machine>,
    invariance: bool,
    samples: S,
) -> Result<(PeltReplay<S>, Meta)> {
    let reader = file.reader(&read_options())?;
    let meta = reader.meta().clone();
    let stoppers = stoppers(reader.tasks());
    drop(reader);
    let facts = machine.map_or_else(Vec::new, |machine| facts_of(machine, invariance));
    // A first pass finds the ticks, and how late events are.
    let (mut ticks, mut late, mut finder) = (TickFinder::default(), LateFinder::default(), GroupFinder::default());
    let first = ReadOptions { missing_ok: true, ..ReadOptions::only(&[FIRST_EVENTS, GROUP_EVENTS].concat()) };
    let mut decoder = Decoder::default();
    let mut all = |event: &Event<'_>| {
        let what = decoder.decode(event);
        late.event(event, &what);
        finder.event(event, &what);
        ticks.event(event, &what);
        ControlFlow::Continue(())
    };
    file.reader(&first)?.stream(&first, &mut all)?;
    let mut pelt = PeltReplay::new(&facts, meta.time_offset_ns, samples);
    pelt.set_ticks(ticks.ticks());
    pelt.set_late_ns(late.late_ns());
    pelt.set_stoppers(stoppers);
    let groups = match files {
        Some(files) => Groups::of_recording(files, &finder),
        None => Groups::new(&finder, [], []),
    };
    pelt.set_groups(groups, finder);
    if let Some((release, version)) = meta.kernel_release() {
        pelt.set_kernel(&KernelProfile::named(release).unwrap_or_else(|| KernelProfile::at(version)));
    }
    Ok((pelt, meta))
}
