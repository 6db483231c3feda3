//! Replay under another policy: what would have happened on the same machine with another governor, f_max, energy model or
//! kernel.
//!
//! Three runs are measured in one way: the trace itself, the trace's own policy (the *self-check*: how far a replay is from the
//! truth) and the wanted policy. The difference of the two replays is the answer, the self-check its error bar.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;

use opplab_import::SYSFS;
use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::profile::{KernelProfile, Uclamp};
use opplab_kernel::unit::tick_nsec;
use opplab_model::event::TaskIdx;
use opplab_model::experiment::capacities;
use opplab_model::machine::{Cluster, Costs, InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use opplab_sim::{BOOSTED, Case, Start, Wakes, boosted_by_build, first_tick_ns, run_from, why_no_eas};

use crate::ReplayError;
use crate::agree::start_at;
use crate::beyond::{Beyond, Span, beyond, spans};
use crate::calls::takes_samples;
use crate::costs;
use crate::energy::NO_STATES;
use crate::events::{Events, Simulated, What, is_kernel_thread};
use crate::idle_states::IdleStates;
use crate::lost::Pending;
use crate::measure::{
    Clocks, Measured, PolicyTimes, Streams, Told, Window, alike, distance_per_100k, known_by_kind, measure,
    silent_cpus, window_start_ns,
};
use crate::open::{OpenDecision, open_decisions, open_loop};
use crate::recover::{Known, Recording, recover};
use crate::rtapp::to_rtapp;
use crate::setup::{Recorded, Setup, common_value, recording_files, shows_requests, speed_note, sysfs_of};
use crate::signals::First;
use crate::silence::Silence;
use crate::tick::{late_ticks, phase_ns};
use crate::wakeups::{NAMED, Unsure, losing, unsure};

/// How near the replay of a trace's own policy is to be in frequency residency, in parts of 100 000.
pub const FREQ_LIMIT: u64 = 5_000;
/// How near it is to be in energy, in parts of 100 000.
pub const ENERGY_LIMIT: u64 = 5_000;

/// Whether what happens depends on the frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Same timings, other frequencies.
    Open,
    /// The tasks' work takes the time that it takes.
    #[default]
    Closed,
}

/// Where new tasks begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Births {
    /// On the CPU where they began.
    Recorded,
    /// Where the policy places them: for a change of how that is done, and those of a simulated run.
    Placed,
}

/// What is changed; `None` leaves it as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// cpufreq governor.
    pub governor: Option<String>,
    /// f_max of frequency invariance on x86.
    pub freq_max: Option<String>,
    /// The energy model; any but none also switches energy-aware scheduling on.
    pub energy_model: Option<EnergyModelSource>,
    /// Kernel profile.
    pub kernel: Option<String>,
    /// Governor tunables.
    pub tunables: Vec<(String, String)>,
}

impl Change {
    /// The policy that `recorded` becomes.
    pub fn apply(&self, recorded: &Policy) -> Policy {
        let mut policy = recorded.clone();
        if let Some(governor) = &self.governor {
            if *governor != policy.governor {
                // Another governor's tunables are not its own.
                policy.tunables.clear();
            }
            policy.governor.clone_from(governor);
        }
        if let Some(freq_max) = &self.freq_max {
            policy.freq_max.clone_from(freq_max);
            policy.invariance.clear();
        }
        if let Some(energy_model) = self.energy_model {
            policy.energy_model = energy_model;
            policy.eas = energy_model != EnergyModelSource::None;
        }
        if let Some(kernel) = &self.kernel {
            policy.kernel.clone_from(kernel);
        }
        for (name, value) in &self.tunables {
            match policy.tunables.iter_mut().find(|(known, _)| known == name) {
                Some(pair) => pair.1.clone_from(value),
                None => policy.tunables.push((name.clone(), value.clone())),
            }
        }
        policy.label = "replayed".into();
        policy
    }

    /// Why another f_max changes nothing on `machine`, if it does not: without a known turbo all are the base frequency.
    pub fn base_only(&self, machine: &Machine) -> Option<String> {
        let name = self.freq_max.as_ref()?;
        let known = |cluster: &Cluster| !cluster.turbo.is_empty() || cluster.cppc.is_some();
        let unknown = machine.turbo_freq_ratio == 0 && !machine.clusters.iter().any(known);
        (machine.invariance == InvarianceSource::CountersAtTick && unknown).then(|| {
            format!(
                "no turbo frequency of machine {} is known: every f_max is its base frequency, {name} and the recorded kernel's alike",
                machine.name
            )
        })
    }
}

/// A trace that is ready to be replayed.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The events.
    pub events: Events,
    /// The machine, the recorded policy, the start.
    pub setup: Setup,
    /// What was recovered.
    pub workload: Workload,
    /// Of its tasks: what is known beside their programs.
    tasks: Vec<Known>,
    /// The recorded machine's CPUs shared one instruction stream.
    shared_stream: bool,
    /// The same on CPUs that share it ([`Replay::on_shared_stream`]), as soon as that was asked for.
    sharing: OnceCell<Box<Self>>,
    /// Times of the trace that no power is known for are counted by a made-up power.
    pub assumed_power: bool,
}

/// A closed loop as the engine takes it.
#[derive(Debug, Clone)]
pub struct ClosedCase {
    /// Machine, recovered workload, policy.
    pub case: Case,
    /// What the machine was doing when the trace began.
    pub start: Start,
    /// By how much the run's times are later than times since the trace's first event, ns.
    pub later_ns: u64,
}

/// What the three runs measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The trace.
    pub recorded: Measured,
    /// Its own policy, replayed.
    pub check: Measured,
    /// The wanted policy, replayed; `None` if nothing was to be changed.
    pub changed: Option<Measured>,
    /// Greatest distance of frequency residency between trace and self-check, by policy, in parts of 100 000 of
    /// all time; equal policies are compared in the order of their busy times.
    pub freq_distance: Vec<u64>,
    /// As `freq_distance`, of the time that the policy's CPUs ran: a frequency that an idle policy keeps does not count.
    pub freq_distance_busy: Vec<u64>,
    /// Distance of the energies of trace and self-check, in parts of 100 000 of the trace's.
    pub energy_distance: u64,
    /// How far a single run of a closed loop is from their mean, at most: as `freq_distance`, of all policies.
    pub freq_spread: u64,
    /// As `energy_distance`.
    pub energy_spread: u64,
    /// What the trace does not record, and is not compared.
    pub silence: Silence,
    /// The work of `changed` in parts of 100 000 of that of `check`; `None` without a change. An open loop keeps busy times at any
    /// clock, and its work is their cycles, unless the machine is as fast at every clock. A closed loop ends with the recording, whatever
    /// its tasks have still to do.
    pub work_share: Option<u64>,
    /// What tasks of a closed loop would do beyond what is recorded of them, which `changed` does sooner.
    pub beyond: Beyond,
    /// What of their work hangs on what wake-ups are, which the trace does not show.
    pub unsure: Unsure,
    /// Runs of the changed policy in which wake-ups of running tasks are lost, if that is unsure and changes anything.
    pub if_lost: Vec<Measured>,
    /// The runs of a closed loop that `check` and `changed` are the means of; those of equal number had the same costs and draws.
    pub runs: (Vec<Measured>, Vec<Measured>),
    /// Of a recording on a shared stream in a closed loop whose CPUs apart are not near as a whole: which of both ways it is of.
    pub streams: Option<Streams>,
}

/// Why an open loop is refused.
const OPEN_KEEPS: &str = "an open loop keeps where tasks ran, what their utilisation is measured against, which clamps the recorded \
     kernel knew and when they began to count, and the kworkers of a recorded governor that samples: another energy model or f_max, a \
     kernel that brings clamps or counts them at another time (gate uclamp_inc), or another governor than a recorded ondemand or \
     conservative that follows the load, needs --mode closed";

/// Runs of a closed loop, which count by their mean.
pub const RUNS: u64 = 15;
/// Of them so many run again with wake-ups that are lost, where that is unsure.
const LOST_RUNS: u64 = 5;
/// By how much the machine's costs differ from one run to the next, in percent. They are medians; in truth each switch takes another
/// time, and who is first where two meet may decide where tasks stay.
const COSTS_PERCENT: u64 = 2;
/// So many different costs there are: up to 8 % above and below.
const COSTS_STEPS: u64 = 9;

impl Comparison {
    /// Whether the self-check is as near as it is to be; never if the trace records no frequency.
    pub fn is_near(&self) -> bool {
        self.is_checked() && self.off() <= 1_000
    }

    /// Whether the CPUs share the recorded stream in the replay, too.
    pub fn shares_stream(&self) -> bool {
        self.streams.is_some_and(|streams| streams.shared)
    }

    /// Whether the trace records any frequency, so that the replay can be held against it.
    pub fn is_checked(&self) -> bool {
        self.silence.frequency.iter().any(|silent| !silent)
    }

    /// Whether the trace's energy is not known: a policy ran at frequencies that the trace does not record.
    pub fn energy_is_silent(&self) -> bool {
        !self.silence.of_energy(&self.recorded).is_empty()
    }

    /// How far the work of `changed` is from that of `check`, in parts of 100 000 of it.
    pub fn work_off(&self) -> u64 {
        self.work_share.map_or(0, |share| share.abs_diff(100_000))
    }

    /// Whether `changed` did more or less work than `check`, so that its energy answers nothing.
    pub fn does_other_work(&self) -> bool {
        self.work_off() > ENERGY_LIMIT || self.goes_beyond()
    }

    /// Whether `changed` does what is recorded so much sooner that nothing of it answers for the whole time.
    pub fn goes_beyond(&self) -> bool {
        self.beyond.share > ENERGY_LIMIT
    }

    /// How far the self-check is off, in thousandths of what is near.
    pub(crate) fn off(&self) -> u64 {
        let residency = self.freq_distance.iter().map(|&distance| (distance * 1_000).div_ceil(FREQ_LIMIT)).max();
        let energy = if self.energy_is_silent() { 0 } else { self.energy_distance };
        residency.unwrap_or(0).max(energy.saturating_mul(1_000).div_ceil(ENERGY_LIMIT))
    }
}

fn no_snapshot(path: &Path) -> ReplayError {
    let shown = path.display();
    ReplayError::Input(format!("{shown}: no snapshot ({SYSFS}) lies beside the trace; name the machine with --machine"))
}

/// The machine of the snapshot beside the trace at `path`.
///
/// # Errors
/// [`ReplayError`] if the trace cannot be read, or no snapshot makes a machine.
pub fn traced_machine(path: &Path) -> Result<Machine, ReplayError> {
    let files = recording_files(path)?;
    if files.text(SYSFS).is_none() {
        return Err(no_snapshot(path));
    }
    let events = Events::of(&files.trace, files.path())?;
    Ok(Setup::of_recording(&files, &events, &Recorded::default())?.machine)
}

impl Replay {
    /// The pids of the workload's tasks.
    pub fn pids(&self) -> Vec<i32> {
        self.tasks.iter().map(|task| task.pid).collect()
    }

    /// The tasks of which late activations keep their recorded times, and how many of them, the most first.
    pub(crate) fn kept_late(&self) -> Vec<String> {
        let named = self.workload.tasks.iter().zip(&self.tasks);
        let mut kept: Vec<(u64, &str)> = named.map(|(task, known)| (known.kept_late, task.name.as_str())).collect();
        kept.retain(|&(count, _)| count > 0);
        kept.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
        kept.into_iter().map(|(count, name)| format!("{name} ({count})")).collect()
    }

    /// Reads the trace at `path`: a recording's folder or archive, a trace in a folder, or a trace of any format. `machine` is
    /// what it ran on; `None` takes it from the snapshot beside the trace.
    ///
    /// # Errors
    /// [`ReplayError`] if the trace cannot be read, no machine is known, or it has fewer CPUs than the trace.
    pub fn read(path: &Path, machine: Option<Machine>) -> Result<Self, ReplayError> {
        Self::read_as(path, machine, &Recorded::default())
    }

    /// As [`Replay::read`], of a recording whose governor, driver or kernel somebody knows.
    ///
    /// # Errors
    /// As [`Replay::read`], and if the machine or the profiles have no such driver or kernel.
    pub fn read_as(path: &Path, machine: Option<Machine>, recorded: &Recorded) -> Result<Self, ReplayError> {
        let files = recording_files(path)?;
        let at = files.path().to_owned();
        let mut events = Events::of(&files.trace, &at)?;
        let logs = ["dmesg0.txt", "dmesg1.txt"].iter().filter_map(|name| files.text(name));
        events.read_logs(logs);
        events.set_groups(Some(&files));
        let (has_machine, has_snapshot) = (machine.is_some(), files.text(SYSFS).is_some());
        let mut setup = match machine {
            Some(machine) => {
                // Another machine's description does not change under which governor and driver the recording was made.
                let snapped = |name: &str| common_value(&files.text(SYSFS)?, name);
                let governor = recorded.governor.clone().or_else(|| snapped("scaling_governor"));
                let mut notes: Vec<String> = speed_note(&files, &machine).into_iter().collect();
                let driver = recorded.driver.clone().or_else(|| {
                    let own = snapped("scaling_driver")?;
                    if machine.driver(&own).is_some() {
                        return Some(own);
                    }
                    let first = machine.cpufreq.driver.name;
                    notes.push(format!(
                        "the recording's cpufreq driver is {own}, which {} lacks: {first} is assumed",
                        machine.name
                    ));
                    Some(first.to_owned())
                });
                let (sysfs, cpuinfo) = (sysfs_of(&files), files.text("cpuinfo.txt").unwrap_or_default());
                let recorded = Recorded { governor, driver, sysfs, cpuinfo, ..recorded.clone() };
                let mut setup = Setup::of_machine(machine, &events, &recorded)?;
                setup.notes.extend(notes);
                // Without a snapshot there is no other answer, and the costs are all that is known.
                let shown = has_snapshot.then(|| costs::measure(&events, &setup.policy).with_logs(&files, &events));
                setup.notes.extend(shown.and_then(|shown| shown.unlike(&setup.machine.name, setup.machine.costs)));
                setup
            }
            None if has_snapshot => Setup::of_recording(&files, &events, recorded)?,
            None => return Err(no_snapshot(path)),
        };
        let trace = |error: opplab_trace::Error| ReplayError::Trace { path: at.clone(), reason: error.to_string() };
        let first = First::of(&files.trace).map_err(trace)?;
        let found = first.half_life(&files.trace, Some(&files), Some(&setup.machine), recorded.half_life_ms);
        let (half_life_ms, note) = found.map_err(trace)?;
        // What is given and nothing contradicts has no note.
        if note.is_some() && recorded.half_life_ms.is_some() {
            let (shown_ms, _) =
                first.half_life(&files.trace, Some(&files), Some(&setup.machine), None).map_err(trace)?;
            if shown_ms != half_life_ms {
                return Err(ReplayError::Input(format!(
                    "{}: its PELT half-life is {shown_ms} ms, as the trace or the snapshot beside it shows, and not \
                     {half_life_ms} ms: --pelt-half-life-ms is that of the recording, where these lack it, and no change",
                    at.display()
                )));
            }
        }
        // A proposal may have made it of the configured one.
        if setup.policy.half_life_ms() != half_life_ms {
            setup.policy.pelt_half_life_ms = half_life_ms;
        }
        setup.notes.extend(note);
        let states = IdleStates::of_files(&files, &setup.machine);
        if events.number_idle_states(|cpu, state| states.number(cpu, state)) && has_machine {
            setup.notes.extend(states.note());
        }
        Self::of(events, setup)
    }

    /// Recovers the workload of `events`.
    ///
    /// # Errors
    /// [`ReplayError::Input`] if the machine has fewer CPUs than the trace.
    pub fn of(events: Events, mut setup: Setup) -> Result<Self, ReplayError> {
        let nr = setup.machine.nr_cpus();
        if events.nr_cpus > nr {
            return Err(ReplayError::Input(format!(
                "the trace has CPUs 0-{}, machine {} has {nr}",
                events.nr_cpus - 1,
                setup.machine.name
            )));
        }
        setup.notes.extend(events.groups.clone());
        setup.notes.extend(events.lost.clone());
        let has_idle = events.list.iter().any(|ev| matches!(ev.what, What::Idle { .. } | What::IdleExit { .. }));
        let has_choice = setup.machine.clusters.iter().any(|cluster| cluster.idle.len() > 1);
        let silent: Vec<String> = silent_cpus(&events, &setup.machine).iter().map(u32::to_string).collect();
        if has_idle && !silent.is_empty() {
            let cpus = some_of(&silent);
            setup.notes.push(format!(
                "no switch and no idle state of CPU {cpus}: it counts as in its deepest state all the time"
            ));
        }
        setup.notes.extend((!has_idle && has_choice).then(|| NO_STATES.to_owned()));
        let assumed_power = assume_power(&mut setup.machine);
        // Who held a shared stream depended on all that ran, to the microsecond. Here the CPUs run apart; that they stood still, and when, is
        // part of the recorded times of tasks and wake-ups. That they stood still between a tick and the switch that it asked for is not.
        // A closed loop that is not near so shares the stream, if that is near (`Replay::checked`).
        let shared_stream = std::mem::take(&mut setup.machine.shared_stream);
        setup.machine.constant_speed |= shared_stream;
        // What threads do around their runs is part of the work that is recovered.
        setup.machine.costs.context_switch_ns = setup.switch_ns;
        // A governor's thread was measured with the switch to it, and an engine's own is without.
        if !events.is_simulated() {
            let costs = &mut setup.machine.costs;
            costs.sugov_work_ns = costs.sugov_work_ns.saturating_sub(costs.context_switch_ns);
        }
        let (workload, tasks) = recovered(&events, &setup);
        let case = Case {
            machine: setup.machine.clone(),
            workload,
            policy: setup.policy.clone(),
            seed: 1,
            duration_ns: events.duration_ns.max(1),
        };
        // A simulated run states its gates.
        if !events.is_simulated() && boosted_by_build(&case).map_err(|error| ReplayError::Input(error.0))? {
            setup.notes.push(BOOSTED.into());
        }
        let workload = case.workload;
        let sharing = OnceCell::new();
        let mut replay = Self { events, setup, workload, tasks, shared_stream, sharing, assumed_power };
        let assumed = replay.assumed_reservations(&|_| true);
        replay.setup.notes.extend(assumed);
        Ok(replay)
    }

    /// The note on those `wanted` tasks of SCHED_DEADLINE whose parameters are assumed: no event has them.
    pub fn assumed_reservations<'a>(&'a self, wanted: &dyn Fn(&str) -> bool) -> Option<String> {
        let of = |task: &'a TaskSpec| match task.policy {
            SchedPolicy::Deadline { runtime_ns, .. }
                if task.assumed_bandwidth && !is_kernel_thread(&task.name) && wanted(&task.name) =>
            {
                Some((runtime_ns / 1_000_000, task.name.as_str()))
            }
            _ => None,
        };
        let mut by_runtime: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for (runtime_ms, name) in self.workload.tasks.iter().filter_map(of) {
            by_runtime.entry(runtime_ms).or_default().push(name);
        }
        let parts =
            by_runtime.iter().map(|(ms, names)| format!("{ms} ms of each second are assumed for {}", some_of(names)));
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| format!("a trace has no parameters of SCHED_DEADLINE: {}", parts.join("; ")))
    }

    /// The comparison with what the changed policy makes of the trace, if anything is changed.
    pub(crate) fn changed(
        &self,
        comparison: Comparison,
        change: Option<&Change>,
        mode: Mode,
    ) -> Result<Comparison, ReplayError> {
        let Some(change) = change else { return Ok(comparison) };
        if mode == Mode::Open && !self.open_answers(change) {
            return Err(ReplayError::Input(String::from(OPEN_KEEPS)));
        }
        let sharing = self.on_stream_of(comparison.shares_stream());
        let runs = sharing.runs(&change.apply(&self.setup.policy), mode, self.births(Some(change)))?;
        let changed = Measured::mean(&runs);
        let pairs = comparison.runs.0.iter().zip(&runs).map(|(own, changed)| (&own.spans[..], &changed.spans[..]));
        let beyond = beyond(&sharing.workload.tasks, self.events.duration_ns, pairs);
        let unsure = match mode {
            Mode::Open => Unsure::default(),
            Mode::Closed => {
                let known: Vec<bool> = sharing.tasks.iter().map(|task| task.pending != Pending::Unknown).collect();
                unsure(&sharing.workload.tasks, &known, comparison.runs.0.iter().zip(&runs))
            }
        };
        let if_lost = match unsure.kept {
            0..NAMED => Vec::new(),
            _ => sharing.losing().some_runs(
                LOST_RUNS,
                &change.apply(&self.setup.policy),
                mode,
                self.births(Some(change)),
            )?,
        };
        let work = |run: &Measured| match mode {
            Mode::Open if self.setup.machine.speed_is_constant() => 1,
            Mode::Open => run.work(&self.setup.machine),
            Mode::Closed => run.work_done,
        };
        let share = (work(&changed) * 100_000).checked_div(work(&comparison.check));
        let work_share = share.map(|share| u64::try_from(share).unwrap_or(u64::MAX));
        Ok(Comparison {
            changed: Some(changed),
            work_share,
            beyond,
            unsure,
            if_lost,
            runs: (comparison.runs.0, runs),
            ..comparison
        })
    }

    /// Replays the recorded policy, and with `change` the changed one.
    ///
    /// # Errors
    /// [`ReplayError::Input`] if a policy does not exist or does not fit the machine.
    pub fn compare(&self, change: Option<&Change>, mode: Mode) -> Result<Comparison, ReplayError> {
        self.changed(self.checked(mode, self.births(change))?, change, mode)
    }

    /// The same recording with CPUs that share the stream in the replay, too; `None` where the recorded ones did not.
    pub(crate) fn on_shared_stream(&self) -> Option<&Self> {
        let made = || {
            let mut replay = self.clone();
            replay.setup.machine.shared_stream = true;
            (replay.workload, replay.tasks) = recovered(&replay.events, &replay.setup);
            Box::new(replay)
        };
        self.shared_stream.then(|| &**self.sharing.get_or_init(made))
    }

    /// The self-check of this very replay, with births as the change will have them.
    pub(crate) fn checked_as_is(&self, mode: Mode, births: Births) -> Result<Comparison, ReplayError> {
        let (recorded, runs) = (self.measured(&self.events, mode), self.runs(&self.setup.policy, mode, births)?);
        Ok(self.compared(recorded, runs, self.silence(mode, self.events.duration_ns)))
    }

    /// This replay, or the one whose CPUs share the recorded stream ([`Comparison::shares_stream`]).
    pub fn on_stream_of(&self, shared: bool) -> &Self {
        shared.then(|| self.on_shared_stream()).flatten().unwrap_or(self)
    }

    /// As [`Replay::checked_as_is`] in a closed loop, of each half of what is measured.
    pub(crate) fn checked_by_half(&self) -> Result<[Comparison; 2], ReplayError> {
        let own = |nth| Ok(self.closed(&self.setup.policy, nth, self.births(None))?.1);
        let runs = (0..RUNS).map(own).collect::<Result<Vec<Events>, ReplayError>>()?;
        let (from_ns, to_ns) = (window_start_ns(self.events.duration_ns), self.events.duration_ns);
        let half_ns = from_ns.midpoint(to_ns);
        Ok([(from_ns, half_ns), (half_ns, to_ns)].map(|window| {
            let measured = |events| self.measured_in(events, window, Mode::Closed);
            let silence = self.silence(Mode::Closed, window.1);
            self.compared(measured(&self.events), runs.iter().map(measured).collect(), silence)
        }))
    }

    /// The comparison of the recording with these runs of its own policy.
    fn compared(&self, recorded: Measured, runs: Vec<Measured>, silence: Silence) -> Comparison {
        let check = Measured::mean(&runs);
        let distances = |times: fn(&PolicyTimes) -> &[u64]| {
            let pairs = alike(&recorded).into_iter().zip(alike(&check));
            let told = pairs.filter(|(one, _)| !silence.covers(&recorded, one));
            told.map(|(one, other)| distance_per_100k(times(one), times(other))).collect()
        };
        let freq_distance = distances(|policy| &policy.time_ns);
        let freq_distance_busy = distances(|policy| &policy.busy_ns);
        let (one, other) = (recorded.total_energy_fj(), check.total_energy_fj());
        let energy_distance = (one.abs_diff(other) * 100_000).checked_div(one).unwrap_or(0) as u64;
        let of_mean = |run: &Measured| {
            let pairs = alike(run).into_iter().zip(alike(&check));
            pairs.map(|(one, mean)| distance_per_100k(&one.time_ns, &mean.time_ns)).max().unwrap_or(0)
        };
        let freq_spread = runs.iter().map(of_mean).max().unwrap_or(0);
        let of_mean =
            |run: &Measured| (run.total_energy_fj().abs_diff(other) * 100_000).checked_div(other).unwrap_or(0) as u64;
        let energy_spread = runs.iter().map(of_mean).max().unwrap_or(0);
        Comparison {
            recorded,
            check,
            changed: None,
            freq_distance,
            freq_distance_busy,
            energy_distance,
            freq_spread,
            energy_spread,
            silence,
            work_share: None,
            beyond: Beyond::default(),
            unsure: Unsure::default(),
            if_lost: Vec::new(),
            runs: (runs, Vec::new()),
            streams: None,
        }
    }

    /// The recorded tasks whose names `wanted` takes (without kernel threads, if it is `None`) as an rt-app file.
    /// `tolerance_permille` is how much times of activations may differ that become a loop.
    ///
    /// # Errors
    /// [`ReplayError::Input`] if no task is wanted.
    pub fn to_rtapp(
        &self,
        wanted: Option<&dyn Fn(&str) -> bool>,
        tolerance_permille: u64,
    ) -> Result<String, ReplayError> {
        let events = &self.events;
        let takes = |task: TaskIdx| {
            let name = events.name(task);
            wanted.map_or_else(|| !is_kernel_thread(name), |wanted| wanted(name))
        };
        let mut workload = Workload::default();
        // Work is what a task did while it had the stream.
        let machine = Machine { shared_stream: self.shared_stream, ..self.setup.machine.clone() };
        let recording = Recording {
            events,
            machine: &machine,
            window: (0, events.duration_ns),
            start_khz: &self.setup.start_khz,
            hz: self.setup.policy.hz,
            known: &BTreeMap::new(),
            tick_phase_ns: phase_ns(events, tick_nsec(self.setup.policy.hz.into())),
            by_time: false,
            loses: false,
        };
        let _ = recover(&recording, takes, &mut workload);
        if workload.tasks.is_empty() {
            let mut names: Vec<&str> = events.tasks.iter().map(|task| task.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            return Err(ReplayError::Input(format!("no such task ran; the trace has {}", names.join(", "))));
        }
        let seconds = events.duration_ns.div_ceil(1_000_000_000);
        Ok(to_rtapp(&workload, &capacities(&machine), seconds, tolerance_permille))
    }

    /// From when on the clocks of the machine's policies are known, as they are compared in a loop: `None`: never.
    fn known_from_ns(&self, mode: Mode) -> Vec<Option<u64>> {
        match mode {
            Mode::Open => self.setup.known_from_ns.clone(),
            Mode::Closed => known_by_kind(&self.setup.machine, &self.setup.known_from_ns),
        }
    }

    /// What the trace does not record of its machine up to `end_ns`.
    fn silence(&self, mode: Mode, end_ns: u64) -> Silence {
        let unknown = |from_ns: Option<u64>| from_ns.is_none_or(|from_ns| from_ns > 0 && from_ns >= end_ns);
        let woken = |what: &What| matches!(what, What::Waking { .. } | What::Wakeup { .. } | What::WakeupNew { .. });
        Silence {
            frequency: self.known_from_ns(mode).into_iter().map(unknown).collect(),
            wakeups: !self.events.list.iter().any(|ev| woken(&ev.what)),
        }
    }

    /// Whether an open loop can answer `change`: it keeps where tasks ran, and what their recorded utilisation is measured against.
    /// A kernel without clamps records none, and one with clamps as they counted. It also keeps the kworkers of a governor that samples. They wait for tasks, which counts as load, and their times are its own.
    pub(crate) fn open_answers(&self, change: &Change) -> bool {
        let recorded = &self.setup.policy;
        let changed = change.apply(recorded);
        let kept = |of: &Policy| (of.eas, of.energy_model, of.freq_max.clone(), of.invariance.clone());
        let by = |of: &Policy, worker: Worker| of.governor_id().is_ok_and(|governor| governor.worker == worker);
        let same_calls =
            recorded.governor == changed.governor || !by(recorded, Worker::Kworker) || by(&changed, Worker::Nobody);
        let (Ok(then), Ok(now)) = (recorded.profile(), changed.profile()) else { return false };
        let counts = |profile: &KernelProfile| (profile.uclamp == Uclamp::Present).then_some(profile.uclamp_inc);
        let same_clamps =
            counts(&now).is_none() || counts(&then) == counts(&now) || !self.workload.tasks.iter().any(is_clamped);
        kept(&changed) == kept(recorded) && same_calls && same_clamps
    }

    /// Where new tasks of a closed loop begin, in both runs of a pair.
    pub(crate) fn births(&self, change: Option<&Change>) -> Births {
        // The engine placed them, by who was idle: that follows from clocks, too.
        if self.events.is_simulated() {
            return Births::Placed;
        }
        let recorded = &self.setup.policy;
        let Some(changed) = change.map(|change| change.apply(recorded)) else { return Births::Recorded };
        let gates = |of: &Policy| of.profile().map(|profile| (profile.idlest_group, profile.sched_idle_cpu)).ok();
        let is_eas = |of: &Policy| {
            let (machine, workload) = (self.setup.machine.clone(), self.workload.clone());
            why_no_eas(&Case { machine, workload, policy: of.clone(), seed: 1, duration_ns: 1 })
                .is_ok_and(|why| why.is_none())
        };
        // Energy-aware placement also ends with schedutil, or with a kernel that has none.
        let placer = |of: &Policy| (of.governor.clone(), of.kernel.clone());
        let stays = || placer(&changed) == placer(recorded) || is_eas(&changed) == is_eas(recorded);
        let energy = |of: &Policy| (of.eas, of.energy_model);
        if gates(&changed) == gates(recorded) && energy(&changed) == energy(recorded) && stays() {
            return Births::Recorded;
        }
        Births::Placed
    }

    /// The same, with tasks that lose wake-ups while they run wherever the recording does not show that they do not.
    fn losing(&self) -> Self {
        let loses = |sem: u32| self.tasks.get(sem as usize).is_some_and(|task| task.pending == Pending::Unknown);
        let mut replay = self.clone();
        replay.workload = losing(&self.workload, loses);
        for (task, Known { exits_ns, .. }) in self.workload.tasks.iter().zip(&mut replay.tasks) {
            // A semaphore is looked at again after the wake-up.
            for (nth, op) in task.ops.iter().enumerate().rev() {
                if matches!(op, Op::SemWait { sem } if loses(*sem)) && nth + 1 < exits_ns.len() {
                    exits_ns.swap(nth, nth + 1);
                }
            }
        }
        replay
    }

    fn runs(&self, policy: &Policy, mode: Mode, births: Births) -> Result<Vec<Measured>, ReplayError> {
        self.some_runs(RUNS, policy, mode, births)
    }

    fn some_runs(&self, nr: u64, policy: &Policy, mode: Mode, births: Births) -> Result<Vec<Measured>, ReplayError> {
        if mode == Mode::Open {
            return Ok(vec![self.measured(&self.open_events(policy)?, mode)]);
        }
        let run = |nth| {
            let (_, events, work_done) = self.closed(policy, nth, births)?;
            let spans: Vec<Span> = spans(&events, &self.workload.tasks);
            Ok(Measured { work_done, spans, ..self.measured(&events, mode) })
        };
        (0..nr).map(run).collect()
    }

    /// The events of the trace under `policy` in an open loop.
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub fn open_events(&self, policy: &Policy) -> Result<Events, ReplayError> {
        self.has_governor(&self.setup.policy)?;
        let Setup { machine, start_khz, policy: own, .. } = &self.setup;
        open_loop(&self.events, machine, (own, policy), start_khz)
    }

    /// The trace's own policy in a closed loop as the engine takes it: run `nth` of those that a comparison is of, of which run 0 is at
    /// the machine's own costs. Of a comparison that shares the recorded stream it is that of [`Replay::on_stream_of`].
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub fn closed_case(&self, nth: u64) -> Result<ClosedCase, ReplayError> {
        self.compared_case(None, false, nth)
    }

    /// A run of those that [`Replay::compare`] with `change` is of, as the engine takes it: run `nth` of the trace's own policy, or of the
    /// changed one; as [`Replay::closed_case`].
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub fn compared_case(
        &self,
        change: Option<&Change>,
        is_changed: bool,
        nth: u64,
    ) -> Result<ClosedCase, ReplayError> {
        let own = &self.setup.policy;
        let policy = change.filter(|_| is_changed).map_or_else(|| own.clone(), |change| change.apply(own));
        self.closed(&policy, nth, self.births(change)).map(|(case, ..)| case)
    }

    /// The decisions of schedutil under the trace's own policy in an open loop.
    ///
    /// # Errors
    /// As [`open_decisions`].
    pub fn open_decisions(&self) -> Result<Vec<OpenDecision>, ReplayError> {
        let Setup { machine, start_khz, policy, .. } = &self.setup;
        open_decisions(&self.events, machine, policy, start_khz)
    }

    /// Frequency of each cpufreq policy from which a closed loop starts; none where a run starts as always. The clocks of a recorded kernel
    /// are what was left of the time before. A simulated run starts from the lowest request of its policy: the clock that the hardware
    /// granted for it is none that was asked for, and idle CPUs would keep one that another policy never had.
    fn first_khz(&self) -> Vec<u32> {
        let begins = self.events.is_simulated() && self.events.first_ns == 0;
        if begins { Vec::new() } else { self.setup.start_khz.clone() }
    }

    /// Refuses a recording under a governor that no replay has.
    fn has_governor(&self, policy: &Policy) -> Result<(), ReplayError> {
        policy.governor_id().map(|_| ()).map_err(|_| {
            let known: Vec<&str> = GovernorId::all().map(|governor| governor.name).collect();
            ReplayError::Input(format!(
                "{} decided in the recording, which a replay does not have; `replay` and `explain` take another in its \
                 place (--recorded-governor: {})",
                policy.governor,
                known.join(", ")
            ))
        })
    }

    /// The case, its events, and the work that was done in the time that is measured.
    fn closed(&self, policy: &Policy, nth: u64, births: Births) -> Result<(ClosedCase, Events, u128), ReplayError> {
        self.has_governor(policy)?;
        let Setup { machine, .. } = &self.setup;
        let mut case = Case {
            machine: machine.clone(),
            workload: self.workload.clone(),
            policy: policy.clone(),
            seed: 1 + nth,
            duration_ns: self.events.duration_ns.max(1),
        };
        vary_costs(&mut case.machine, nth % COSTS_STEPS);
        // So much later than in the trace, the run's ticks come when the recorded ones came.
        let tick_ns = tick_nsec(policy.hz.into());
        let phase_ns = phase_ns(&self.events, tick_ns);
        let later_ns = phase_ns.map_or(0, |phase_ns| (first_tick_ns(tick_ns) + tick_ns - phase_ns % tick_ns) % tick_ns);
        case.duration_ns += later_ns;
        for task in case.workload.tasks.iter_mut().filter(|task| task.initial) {
            task.delay_ns += later_ns;
        }
        shift_clocks(&mut case.workload, later_ns as i64, |_| true);
        case.workload.warmup_ns = later_ns + window_start_ns(self.events.duration_ns);
        if births == Births::Placed {
            // What was before the trace stays where it was.
            for task in case.workload.tasks.iter_mut().filter(|task| !task.seasoned) {
                task.spawn_cpu = None;
            }
        }
        let kernel_tasks = case.workload.tasks.iter().map(|task| is_kernel_thread(&task.name)).collect();
        let by_op_ns = self.tasks.iter().map(|task| task.exits_ns.clone()).collect();
        let wakes = Wakes { kernel_tasks, by_op_ns, ..self.setup.wakes.clone() };
        let late = late_ticks(&self.events, tick_ns).filter(|(edge_ns, _)| phase_ns == Some(*edge_ns));
        let tick_late_ns = late.map_or_else(Vec::new, |(_, late_ns)| late_ns);
        let takes_turns = self.shared_stream;
        let mut start =
            Start { khz: self.first_khz(), wakes, tick_late_ns, takes_turns, ..start_at(&self.events, &self.setup, 0) };
        for (time_ns, _) in &mut start.wheel {
            *time_ns += later_ns;
        }
        // A simulated run states its policy, and has the clocks that the hardware granted.
        let by_request = !self.events.is_simulated() && shows_requests(machine, policy);
        let run = |case: &Case| {
            let mut sink = Simulated::new(machine.nr_cpus(), by_request);
            let outcome = run_from(case, &start, &mut sink).map_err(|error| ReplayError::Input(error.0))?;
            let mut events = sink.finish(&outcome.task_names, case.duration_ns);
            for ev in &mut events.list {
                ev.time_ns = ev.time_ns.saturating_sub(later_ns);
            }
            Ok::<_, ReplayError>((events, outcome.work_done))
        };
        let (mut events, mut work_done) = run(&case)?;
        if shift_late_families(&mut case.workload, &events, later_ns, tick_ns) {
            (events, work_done) = run(&case)?;
        }
        Ok((ClosedCase { case, start, later_ns }, events, work_done))
    }

    fn measured(&self, events: &Events, mode: Mode) -> Measured {
        self.measured_in(events, (window_start_ns(self.events.duration_ns), self.events.duration_ns), mode)
    }

    fn measured_in(&self, events: &Events, window: Window, mode: Mode) -> Measured {
        let counts = |task: TaskIdx| !events.is_engines(task);
        let clocks = Clocks { start_khz: &self.setup.start_khz, known_from_ns: &self.known_from_ns(mode) };
        measure(events, &self.setup.machine, window, clocks, Told::of(&self.events), counts)
    }
}

/// The work of `events` on the machine of `setup`, and what is known of its tasks.
fn recovered(events: &Events, setup: &Setup) -> (Workload, Vec<Known>) {
    let mut workload = Workload { name: "recovered".into(), ..Workload::default() };
    let recording = Recording {
        events,
        machine: &setup.machine,
        window: (0, events.duration_ns),
        start_khz: &setup.start_khz,
        hz: setup.policy.hz,
        known: &BTreeMap::new(),
        tick_phase_ns: phase_ns(events, tick_nsec(setup.policy.hz.into())),
        by_time: false,
        loses: true,
    };
    let tasks = recover(&recording, |task| !takes_samples(events, &setup.policy, task), &mut workload);
    workload.duration_ns = Some(events.duration_ns);
    (workload, tasks)
}

/// The first of some names or numbers, and how many more there are.
pub fn some_of(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 4;
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    let listed: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    format!("{}{more}", listed.join(", "))
}

/// Births no further than this from where they were recorded count as on time, ns.
const BIRTH_NS: u64 = 1_000_000;

/// Whether a kernel with clamps applies some to a task: it asks for them, or is a real-time task, which has a lower one of 1024 by default
/// (core.c:uclamp_update_util_min_rt_default(), v6.12).
fn is_clamped(task: &TaskSpec) -> bool {
    let asks = task.ops.iter().any(|op| matches!(op, Op::SetUclamp { .. }));
    asks || matches!(task.policy, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. })
}

/// The machine of run `nth`: 0, 1, -1, 2, -2 times [`COSTS_PERCENT`] more than its own costs.
fn vary_costs(machine: &mut Machine, nth: u64) {
    let step = nth.div_ceil(2) * COSTS_PERCENT;
    let percent = if nth % 2 == 1 { 100 + step } else { 100_u64.saturating_sub(step) };
    let Costs { context_switch_ns, wakeup_ns, ipi_ns, tick_ns, sugov_work_ns } = &mut machine.costs;
    let exits = machine.clusters.iter_mut().flat_map(|cluster| &mut cluster.idle).map(|idle| &mut idle.exit_latency_ns);
    for cost_ns in [context_switch_ns, wakeup_ns, ipi_ns, tick_ns, sugov_work_ns].into_iter().chain(exits) {
        *cost_ns = cost_ns.saturating_mul(percent) / 100;
    }
}

/// Lets the clocks of some tasks' timers be `ns` later, or earlier.
fn shift_clocks(workload: &mut Workload, ns: i64, of: impl Fn(u32) -> bool) {
    for (index, task) in (0..).zip(&mut workload.tasks) {
        if let Some(Op::TimersFrom { ns: clock_ns }) = task.ops.first_mut().filter(|_| of(index)) {
            *clock_ns = clock_ns.saturating_add_signed(ns);
        }
    }
}

/// The timers of forked tasks count from when they were born. Where `events`, a run whose clocks are `later_ns` late, have them
/// born at another time, because their parent had more or less to do or did it faster, their clocks move with them, all of one parent by
/// the same. Whether any did.
fn shift_late_families(workload: &mut Workload, events: &Events, later_ns: u64, tick_ns: u64) -> bool {
    let born = |name: &str| {
        events.list.iter().find_map(|ev| match ev.what {
            What::WakeupNew { task, .. } if events.name(task) == name => Some(ev.time_ns),
            _ => None,
        })
    };
    let mut moved = false;
    for parent in 0..workload.tasks.len() {
        let forks = workload.tasks[parent].ops.iter().filter_map(|op| match op {
            Op::Fork { task } => Some(*task),
            _ => None,
        });
        let children: Vec<u32> = forks.collect();
        let clock = |child: u32| match workload.tasks[child as usize].ops.first() {
            Some(&Op::TimersFrom { ns }) => Some((ns - later_ns, born(&workload.tasks[child as usize].name)?)),
            _ => None,
        };
        let Some((clock_ns, born_ns)) = children.iter().find_map(|&child| clock(child)) else { continue };
        if clock_ns.abs_diff(born_ns) > BIRTH_NS {
            // By whole ticks: where in a tick they expire may decide who runs where.
            let ticks = (born_ns as i64 - clock_ns as i64 + tick_ns as i64 - 1).div_euclid(tick_ns as i64);
            shift_clocks(workload, ticks * tick_ns as i64, |task| children.contains(&task));
            moved = true;
        }
    }
    moved
}

/// Gives a machine without any power one that grows with the cube of the frequency: 1 W at the highest operating point of a CPU of
/// capacity 1024. Whether it did. The kernel's energy model stays as it is: without powers there is none.
fn assume_power(machine: &mut Machine) -> bool {
    if machine.clusters.iter().flat_map(|cluster| &cluster.opps).any(|opp| opp.busy_uw != 0) {
        return false;
    }
    for cluster in &mut machine.clusters {
        let max = u128::from(cluster.opps.iter().map(|opp| opp.khz).max().unwrap_or(1).max(1));
        for opp in &mut cluster.opps {
            let khz = u128::from(opp.khz);
            let uw = 1_000_000 * khz * khz / max * khz / max * u128::from(cluster.capacity) / max / 1024;
            opp.busy_uw = uw as u64;
        }
    }
    true
}
