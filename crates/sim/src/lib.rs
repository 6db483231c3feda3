//! The deterministic discrete-event engine: a machine runs programs under the kernel's policies.
//!
//! Single-threaded and integer-only: the same case gives the same events on every machine. `run` is the loop and what tasks do, `sched` the
//! scheduler, `cpufreq` what software asks of the clock, `hardware` what it gets and what that costs, `observe` what sinks make of it.

mod cpufreq;
mod hardware;
mod ids;
mod observe;
mod run;
mod sched;

pub use cpufreq::freq_policy::{CpufreqFacts, cpufreq_facts, driver_of};
pub use hardware::points::{OperatingPoint, POINT_STEP_KHZ};
pub use observe::{by_group, check, decisions, psi, sink, smt_sharing, task_energy, why_slow};
pub use opplab_model::start::{Start, Wakes};
pub use run::hooks;
pub use sched::eas_model::NoEas;
pub use sched::topology::sched_domains;

/// Time of a run's first tick, where they are `tick_ns` apart, in ns from its start; the others follow at equal distances.
pub fn first_tick_ns(tick_ns: u64) -> u64 {
    tick_ns - run::cpu::BOOT_NS % tick_ns
}

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use opplab_kernel::proposals::Within;
use opplab_model::ModelError;
use opplab_model::case::CaseFile;
use opplab_model::event::Sink;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::Workload;

/// One run: a machine, a workload, a policy, a seed, a length.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it runs on.
    pub machine: Machine,
    /// What runs.
    pub workload: Workload,
    /// Under which policy.
    pub policy: Policy,
    /// Seed of all random draws.
    pub seed: u64,
    /// Simulated time in ns.
    pub duration_ns: u64,
}

impl From<CaseFile> for Case {
    /// The labels that the results carry are left behind, and the start; the programs vary as the policy sets.
    fn from(file: CaseFile) -> Self {
        let CaseFile { machine, workload, policy, seed, duration_ns, start, .. } = file;
        let workload = Arc::unwrap_or_clone(workload);
        let workload = policy.variation.applied(workload, start != Start::default(), seed);
        Self { machine: Arc::unwrap_or_clone(machine), workload, policy, seed, duration_ns }
    }
}

macro_rules! counters {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// What the engine counts while it runs; each also in the warm-up.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Counters {
            fn subtract(&mut self, before: &Self) {
                $(self.$name -= before.$name;)*
            }
        }
    };
}

counters! {
    /// Activations that a timer begins, over all tasks: those that ended, and those that were due before the end of the run.
    activations,
    /// Of these, those that ended after the start of the next, or not at all.
    missed_activations,
    /// Of these, those that ended while signals that began at 0 still grew ([`COLD_NS`] of the run), which may be the whole run.
    missed_at_start,
    /// Activations that were due before the end of the run and had not ended.
    unfinished_activations,
    /// Time of CPUs in the first idle state that they took, where it is not the deepest: their governor knew no interval then.
    first_idle_ns,
    /// `Op::Resume` that was done.
    resumes,
    /// Of these, those that found nobody suspended: a condition keeps nothing, the stage does not run for them.
    lost_resumes,
    /// Units of the benchmark's metric that were done (`Op::Count`).
    counts,
    /// Context switches.
    switches,
    /// Migrations.
    migrations,
    /// Scheduler events: context switches and wake-ups.
    sched_events,
    /// Events processed by the engine.
    engine_events,
    /// Time during which the system was overutilised, in ns.
    overutilized_ns,
    /// How often it became so or ceased to be.
    overutilized_changes,
    /// Time that CPUs spent at cache lines which others write as well, from the access to having had it, in ns.
    line_ns,
    /// Time of requests to devices from being made to being done, those that wait for their turn too, in ns.
    io_ns,
}

/// So long into a run what was before it would still be worth more than 1 % of a signal of 32 ms half-life.
pub const COLD_NS: u64 = 200_000_000;

/// What a run measured, from the end of the warm-up on. Energies are uW x ns (fJ).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Simulated time in ns, without the warm-up.
    pub wall_ns: u64,
    /// What the engine counted; read as fields of the outcome.
    pub counters: Counters,
    /// What the warm-up had used.
    pub warmup: Warmup,
    /// Units of the benchmark's metric, with the parts of those under way at the start and at the end, << [`opplab_model::metric::UNIT_SHIFT`].
    pub units_fp: u128,
    /// Time at which the benchmark's own tasks had ended, in ns; `None` if they had not, or if there are none.
    pub finished_ns: Option<u64>,
    /// Energy of each cluster: CPUs and cluster logic, in fJ.
    pub cluster_energy_fj: Vec<u128>,
    /// Of it, that of the cluster's shared logic.
    pub shared_energy_fj: Vec<u128>,
    /// Per cluster and cluster state: ns in it.
    pub asleep_ns: Vec<Vec<u64>>,
    /// Per cluster: ns in which all its CPUs idle outside of a cluster state, where the machine has a power of its own for that.
    pub all_idle_ns: Vec<u64>,
    /// Energy of the rest of the machine, in fJ.
    pub floor_energy_fj: u128,
    /// Per consumer of the machine: what it got and did.
    pub consumers: Vec<Consumed>,
    /// When as many units of the benchmark's metric had been done as its marks count, in ns.
    pub marks_ns: Vec<u64>,
    /// The energy of all clusters up to each of these times, in fJ.
    pub marks_fj: Vec<u128>,
    /// Per cluster: the operating points that its CPUs may run at; its OPPs, unless the hardware boosts or limits.
    pub points: Vec<Vec<OperatingPoint>>,
    /// Per CPU: ns busy at each operating point of its cluster.
    pub busy_ns_by_opp: Vec<Vec<u64>>,
    /// Per CPU: ns in each idle state; the last entry is idle time outside any state (leaving one).
    pub idle_ns_by_state: Vec<Vec<u64>>,
    /// Per CPU: ns of wall time at each operating point, busy or idle.
    pub time_ns_by_opp: Vec<Vec<u64>>,
    /// Per cpufreq policy: number of frequency changes that software asked for.
    pub freq_changes: Vec<u64>,
    /// Per task: ns of running on each cluster.
    pub task_ns_by_cluster: Vec<Vec<u64>>,
    /// Names of the tasks that lived, by task index.
    pub task_names: Vec<String>,
    /// The tasks that are not the workload's, in ascending order: the background's and the threads of governors.
    pub not_own: Vec<u32>,
    /// Per task: its group, an index into the workload's groups; `None`: the root.
    pub task_groups: Vec<Option<u32>>,
    /// Per group: what `cpu.stat` has of its quota.
    pub groups: Vec<GroupStat>,
    /// Work that ops asked for, over all tasks, in the unit of `work_done`.
    pub work_given: u128,
    /// Work of ops that had not ended, in the unit of `work_done`.
    pub work_left: u128,
    /// Work done over all tasks, in ns of the biggest CPU << 20.
    pub work_done: u128,
    /// What of it the background did.
    pub background_work: u128,
    /// Hash of all events.
    pub fingerprint: u64,
}

/// What a group's `cpu.stat` has, for time without the warm-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStat {
    /// Time that its tasks and those of groups in it ran, ns (`usage_usec`).
    pub usage_ns: u64,
    /// Periods of its quota that ended (`nr_periods`).
    pub nr_periods: u64,
    /// Of these, periods in which it was throttled (`nr_throttled`).
    pub nr_throttled: u64,
    /// Time that its queues were throttled, summed over CPUs, ns (`throttled_usec`). An open stop counts from its end on.
    pub throttled_ns: u64,
    /// Periods that used saved runtime (`nr_bursts`).
    pub nr_bursts: u64,
    /// Runtime beyond the quota that was used, ns (`burst_usec`).
    pub burst_ns: u64,
}

/// What a consumer of a package's budget (a GPU) got and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Its name in the machine file.
    pub name: String,
    /// Its energy in fJ, without the warm-up.
    pub energy_fj: u128,
    /// Its energy in the warm-up, in fJ.
    pub warmup_fj: u128,
    /// Energy of a unit of its work in fJ.
    pub frame_fj: u128,
}

/// The part of a run before it is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmup {
    /// Its length in ns.
    pub wall_ns: u64,
    /// What was counted in it.
    pub counters: Counters,
}

impl Deref for Outcome {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.counters
    }
}

impl DerefMut for Outcome {
    fn deref_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }
}

impl Outcome {
    /// Takes away what had been measured `before`, at an earlier point of the same run.
    fn subtract(&mut self, before: &Self) {
        let less = |values: &mut [u64], before: &[u64]| {
            for (value, earlier) in values.iter_mut().zip(before) {
                *value -= earlier;
            }
        };
        let rows = |rows: &mut [Vec<u64>], before: &[Vec<u64>]| {
            for (row, earlier) in rows.iter_mut().zip(before) {
                less(row, earlier);
            }
        };
        for (group, earlier) in self.groups.iter_mut().zip(&before.groups) {
            group.nr_periods -= earlier.nr_periods;
            group.nr_throttled -= earlier.nr_throttled;
            group.throttled_ns -= earlier.throttled_ns;
            group.nr_bursts -= earlier.nr_bursts;
            group.burst_ns -= earlier.burst_ns;
        }
        self.warmup = Warmup { wall_ns: before.wall_ns, counters: before.counters };
        self.counters.subtract(&before.counters);
        self.wall_ns -= before.wall_ns;
        self.finished_ns = self.finished_ns.map(|ns| ns - before.wall_ns);
        let energies = [&mut self.cluster_energy_fj, &mut self.shared_energy_fj];
        for (energies, earlier) in energies.into_iter().zip([&before.cluster_energy_fj, &before.shared_energy_fj]) {
            energies.iter_mut().zip(earlier).for_each(|(energy, earlier)| *energy -= earlier);
        }
        rows(&mut self.asleep_ns, &before.asleep_ns);
        self.all_idle_ns.iter_mut().zip(&before.all_idle_ns).for_each(|(ns, earlier)| *ns -= earlier);
        self.floor_energy_fj -= before.floor_energy_fj;
        for (consumer, earlier) in self.consumers.iter_mut().zip(&before.consumers) {
            consumer.energy_fj -= earlier.energy_fj;
            consumer.warmup_fj = earlier.energy_fj;
        }
        rows(&mut self.busy_ns_by_opp, &before.busy_ns_by_opp);
        rows(&mut self.idle_ns_by_state, &before.idle_ns_by_state);
        rows(&mut self.time_ns_by_opp, &before.time_ns_by_opp);
        rows(&mut self.task_ns_by_cluster, &before.task_ns_by_cluster);
        less(&mut self.freq_changes, &before.freq_changes);
        // What was left of the work then is given now.
        self.work_given = self.work_given + before.work_left - before.work_given;
        self.work_done -= before.work_done;
        self.background_work -= before.background_work;
    }
}

/// Why a case cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseError(pub String);

impl From<ModelError> for CaseError {
    fn from(error: ModelError) -> Self {
        Self(error.to_string())
    }
}

/// Runs `case`, telling `sink` what happens.
///
/// # Errors
/// [`CaseError`] if the policy names something that does not exist or the workload does not fit the machine.
pub fn run<S: Sink>(case: &Case, sink: &mut S) -> Result<Outcome, CaseError> {
    run::watch::run_watched(case, &Start::default(), sink, None)
}

/// Why `case` runs without energy-aware scheduling; `None` if it has it.
///
/// # Errors
/// As [`run`].
pub fn why_no_eas(case: &Case) -> Result<Option<NoEas>, CaseError> {
    run::setup::why_no_eas(case)
}

/// Whether `case` runs without energy-aware scheduling, and with it under schedutil.
///
/// # Errors
/// As [`run`].
pub fn eas_needs_schedutil(case: &Case) -> Result<bool, CaseError> {
    run::setup::eas_needs_schedutil(case)
}

/// The note on a case of which [`boosted_by_build`] is true.
pub const BOOSTED: &str = "nothing shows how the kernel was built: with CONFIG_UCLAMP_TASK, which is assumed, real-time tasks avoid CPUs \
     below their boost (kernel.sched_util_clamp_min_rt_default); Debian's are built without it (gate uclamp=absent)";

/// Whether real-time tasks of `case` avoid small CPUs only because its kernel is taken to be built with CONFIG_UCLAMP_TASK.
///
/// # Errors
/// As [`run`].
pub fn boosted_by_build(case: &Case) -> Result<bool, CaseError> {
    run::setup::boosted_by_build(case)
}

/// The energy preferences (EPP) at which `case` starts and of which it is assumed what the firmware makes of them.
///
/// # Errors
/// As [`run`].
pub fn assumed_preferences(case: &Case) -> Result<Vec<u8>, CaseError> {
    run::setup::assumed_preferences(case)
}

/// f_max over the clock without turbo of each cluster, in 1/1024, by which `case` follows the clock; `None` where its
/// kernel does not follow it.
///
/// # Errors
/// As [`run`].
pub fn freq_max_ratios(case: &Case) -> Result<Option<Vec<u64>>, CaseError> {
    run::setup::freq_max_ratios(case)
}

/// Whether the kernel of `case` has utilisation clamps; its workload does not matter.
///
/// # Errors
/// As [`run`].
pub fn has_clamps(case: &Case) -> Result<bool, CaseError> {
    run::setup::has_clamps(case)
}

/// Each proposal of `case` that no policy of it reaches, with the part of the kernel that it changes.
///
/// # Errors
/// As [`run`].
pub fn unreached_proposals(case: &Case) -> Result<Vec<(&'static str, Within)>, CaseError> {
    run::setup::unreached_proposals(case)
}

/// Whether a task, a group or a limit of `case` clamps utilisation.
pub fn asks_for_clamps(case: &Case) -> bool {
    sched::rq_clamps::asks_for_clamps(case)
}

/// As [`run`], on a machine that was in use before.
///
/// # Errors
/// As [`run`].
pub fn run_from<S: Sink>(case: &Case, start: &Start, sink: &mut S) -> Result<Outcome, CaseError> {
    run::watch::run_watched(case, start, sink, None)
}

/// Runs `case` under a governor or a placement policy of the caller's own; what they do not decide is the kernel's.
///
/// A governor stands in for the case's; energy-aware scheduling runs as the case's governor allows.
///
/// # Errors
/// As [`run`], and what the hooks complain about.
pub fn run_with<S: Sink>(
    case: &Case,
    start: &Start,
    sink: &mut S,
    hooks: &mut dyn hooks::Hooks,
) -> Result<Outcome, CaseError> {
    run::watch::run_watched(case, start, sink, Some(hooks))
}
