//! How load tracking is rebuilt from a trace on a machine: what is read for it, and what a first pass finds out.

use std::ops::ControlFlow;

use opplab_kernel::pelt::{HalfLife, HalfLife32};
use opplab_kernel::profile::KernelProfile;
use opplab_model::machine::Machine;
use opplab_signals::activations::Activations;
use opplab_signals::decode::{Decoder, MOVES, SchedEvent, SchedSink};
use opplab_signals::groups::{GroupFinder, Groups};
use opplab_signals::half_life::{self, ASSUMED_MS, Checked, Fit, HalfLifeFinder, KNOWN_MS, RECORDS};
use opplab_signals::late::LateFinder;
use opplab_signals::pelt::{CpuFacts, PeltReplay, Sample, Samples, stoppers};
use opplab_signals::residency::Residency;
use opplab_signals::summary::Latencies;
use opplab_signals::ticks::TickFinder;
use opplab_signals::with_half_life;
use opplab_trace::{Event, Meta, ReadOptions, RecordingFiles, Result, TraceFile};

use crate::energy::{self, EnergyMeter};
use crate::idle_states::IdleStates;

/// The events that the signals follow from, beside those of energy.
const EVENTS: &[&str] = &[
    "activation",
    "arch_set_freq_scale",
    "hrtimer_expire_entry",
    MOVES[0],
    MOVES[1],
    "cgroup_mkdir",
    "cgroup_rename",
    "sched_update_nr_running",
    "sched_update_nr_running_tp",
    "lisa__sched_update_nr_running",
    "nr_running",
];

/// The events that ticks and the lateness of events follow from.
const FIRST_EVENTS: &[&str] = &[
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "cpu_idle",
    "hrtimer_expire_entry",
];

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

/// Options that read all of a trace, of which but the times count beside events with these names.
pub fn all_of(names: &[&str]) -> ReadOptions {
    ReadOptions { others_bare: true, missing_ok: true, ..ReadOptions::only(names) }
}

/// The events that signals and energy follow from.
pub fn events() -> Vec<&'static str> {
    [EVENTS, &energy::EVENTS].concat()
}

/// What each pass over a trace for its signals collects. All of the trace is read: events of any kind begin and end it.
pub struct Pass<'m, S, H = HalfLife32> {
    /// Load tracking.
    pub pelt: PeltReplay<S, H>,
    /// Times at clocks, in idle states, on CPUs, and waits.
    pub residency: Residency,
    /// Activations of tasks.
    pub activations: Activations,
    /// Energy, where all powers of the machine are known.
    pub meter: Option<EnergyMeter<'m>>,
    /// Instead of waits and activations one by one.
    pub latencies: Option<Latencies>,
}

impl<'m, S: Samples, H: HalfLife> Pass<'m, S, H> {
    /// A pass on a machine, if it is known, whose idle states are numbered as in the recording's `files`. With `sums` there are
    /// [`Self::latencies`].
    pub fn new(
        pelt: PeltReplay<S, H>,
        machine: Option<&'m Machine>,
        files: Option<&RecordingFiles>,
        sums: bool,
    ) -> Self {
        let metered = |machine: &'m Machine| match files {
            Some(files) => EnergyMeter::new(machine).with_idle_states(IdleStates::of_files(files, machine)),
            None => EnergyMeter::new(machine),
        };
        Self {
            pelt,
            residency: Residency::default(),
            activations: Activations::default(),
            meter: machine.filter(|machine| machine.unknown_power().is_empty()).map(metered),
            latencies: sums.then(Latencies::default),
        }
    }
}

impl<S: Samples, H: HalfLife> SchedSink for Pass<'_, S, H> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        if let Some(meter) = &mut self.meter {
            meter.event(event, what);
        }
        self.residency.event(event, what);
        self.activations.event(event, what);
        if *what == SchedEvent::Other {
            return;
        }
        self.pelt.event(event, what);
        if let Some(latencies) = &mut self.latencies {
            self.residency.waits.drain(..).for_each(|wait| latencies.wait(&wait));
            self.activations.all.drain(..).for_each(|one| latencies.activation(&one));
        }
    }
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

/// What a first pass over a trace finds out.
#[derive(Clone)]
pub struct First {
    meta: Meta,
    stoppers: Vec<i32>,
    ticks: TickFinder,
    late: LateFinder,
    finder: GroupFinder,
    half_life: HalfLifeFinder,
}

/// `sched_pelt_multiplier` in a snapshot beside the trace, as a half-life.
pub(crate) fn snapped_half_life_ms(files: &RecordingFiles) -> Option<u32> {
    let own = files.text("proc/sys/kernel/sched_pelt_multiplier");
    let listed = || {
        let snapshot = files.text("sysfs_before.txt")?;
        let line = snapshot.lines().find(|line| line.contains("sched_pelt_multiplier: "))?;
        Some(line.rsplit(": ").next()?.trim_end_matches('|').to_owned())
    };
    let factor: u32 = own.or_else(listed)?.trim().parse().ok()?;
    matches!(factor, 1 | 2 | 4).then(|| ASSUMED_MS / factor)
}

impl First {
    /// Makes the pass.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn of(file: &TraceFile) -> Result<Self> {
        let reader = file.reader(&ReadOptions::default())?;
        let (meta, stoppers) = (reader.meta().clone(), stoppers(reader.tasks()));
        drop(reader);
        let (mut ticks, mut late, mut finder) = (TickFinder::default(), LateFinder::default(), GroupFinder::default());
        let mut half_life = HalfLifeFinder::default();
        let names = [FIRST_EVENTS, GROUP_EVENTS, &RECORDS, &["print", "tracing_mark_write"]].concat();
        let first = ReadOptions { missing_ok: true, ..ReadOptions::only(&names) };
        let mut decoder = Decoder::default();
        let mut all = |event: &Event<'_>| {
            let what = decoder.decode(event);
            late.event(event, &what);
            finder.event(event, &what);
            ticks.event(event, &what);
            half_life.event(event, &what);
            ControlFlow::Continue(())
        };
        file.reader(&first)?.stream(&first, &mut all)?;
        Ok(Self { meta, stoppers, ticks, late, finder, half_life })
    }

    /// The half-life to rebuild with, ms, and a note on where it is from. `given`: where somebody knows it.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn half_life(
        &self,
        file: &TraceFile,
        files: Option<&RecordingFiles>,
        machine: Option<&Machine>,
        given: Option<u32>,
    ) -> Result<(u32, Option<String>)> {
        let mut shown = self.half_life.stated();
        if shown.is_none() && self.half_life.has_records() {
            let mut fits = Vec::new();
            for ms in KNOWN_MS {
                fits.push(with_half_life!(ms, H => self.fit::<H>(file, files, machine))?);
            }
            shown = half_life::nearest(&fits);
        }
        Ok(half_life::choose(given, shown, files.and_then(snapped_half_life_ms)))
    }

    /// How near averages that are rebuilt with a half-life are to the kernel's records of tasks.
    fn fit<H: HalfLife>(
        &self,
        file: &TraceFile,
        files: Option<&RecordingFiles>,
        machine: Option<&Machine>,
    ) -> Result<Fit> {
        let (pelt, _) = self.clone().load_tracking::<_, H>(files, machine, true, |_: &Sample| {});
        let mut checked = Checked::new(pelt);
        let mut decoder = Decoder::default();
        let mut sink = |event: &Event<'_>| {
            checked.event(event, &decoder.decode(event));
            if checked.is_enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let names = [EVENTS, &energy::EVENTS, &RECORDS].concat();
        let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&names) };
        file.stream(&options, &mut sink)?;
        Ok(checked.fit)
    }

    /// Load tracking that is ready for the trace's events, and what the trace states about itself. `files`: where snapshots of control
    /// groups may lie beside the trace.
    pub fn load_tracking<S: Samples, H: HalfLife>(
        self,
        files: Option<&RecordingFiles>,
        machine: Option<&Machine>,
        invariance: bool,
        samples: S,
    ) -> (PeltReplay<S, H>, Meta) {
        let Self { meta, stoppers, ticks, late, finder, .. } = self;
        let facts = machine.map_or_else(Vec::new, |machine| facts_of(machine, invariance));
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
        (pelt, meta)
    }
}
