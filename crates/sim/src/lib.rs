//! The deterministic discrete-event engine: a machine runs programs under the kernel's policies.
//!
//! Single-threaded and integer-only: the same case gives the same events on every machine. See `engine` for the loop,
//! `sched` for the core scheduler, `fair` for the fair class, `placement` and `balance` for where tasks go, `cpufreq`
//! and `cpuidle` for what the hardware is asked for, `program` for what tasks do.

mod balance;
pub mod check;
mod clamps;
mod cpufreq;
mod cpuidle;
mod eas;
mod energy;
mod engine;
mod fair;
mod gates;
mod objects;
mod placement;
mod program;
mod queue;
mod sched;
mod setup;
pub mod sink;
mod stream;
pub mod study;
mod task;
mod topology;

pub use cpufreq::GOVERNORS;

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

/// What a run measured. Energies are uW x ns (fJ).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Simulated time in ns.
    pub wall_ns: u64,
    /// Energy of each cluster: CPUs and cluster logic, in fJ.
    pub cluster_energy_fj: Vec<u128>,
    /// Energy of the rest of the machine, in fJ.
    pub floor_energy_fj: u128,
    /// Activations that ended, over all tasks.
    pub activations: u64,
    /// Activations that ended after the start of the next.
    pub missed_activations: u64,
    /// Units of the benchmark's metric that were done (`Op::Count`).
    pub counts: u64,
    /// Per CPU: ns busy at each OPP of its cluster.
    pub busy_ns_by_opp: Vec<Vec<u64>>,
    /// Per CPU: ns in each idle state; the last entry is idle time outside any state (entering, leaving).
    pub idle_ns_by_state: Vec<Vec<u64>>,
    /// Per CPU: ns of wall time at each OPP, busy or idle.
    pub time_ns_by_opp: Vec<Vec<u64>>,
    /// Per cpufreq policy: number of frequency changes.
    pub freq_changes: Vec<u64>,
    /// Per task: ns of running on each cluster.
    pub task_ns_by_cluster: Vec<Vec<u64>>,
    /// Names of the tasks that lived, by task index.
    pub task_names: Vec<String>,
    /// Work that ops asked for, over all tasks, in the unit of `work_done`.
    pub work_given: u128,
    /// Work of ops that had not ended, in the unit of `work_done`.
    pub work_left: u128,
    /// Work done over all tasks, in ns of the biggest CPU << 20.
    pub work_done: u128,
    /// Context switches.
    pub switches: u64,
    /// Migrations.
    pub migrations: u64,
    /// Scheduler events: context switches and wake-ups.
    pub sched_events: u64,
    /// Events processed by the engine.
    pub engine_events: u64,
    /// Time during which the system was overutilised, in ns.
    pub overutilized_ns: u64,
    /// Hash of all events.
    pub fingerprint: u64,
}

/// Why a case cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseError(pub String);

/// Runs `case`, telling `sink` what happens.
///
/// # Errors
/// [`CaseError`] if the policy names something that does not exist or the workload does not fit the machine.
pub fn run<S: Sink>(case: &Case, sink: &mut S) -> Result<Outcome, CaseError> {
    run_from(case, &[], sink)
}

/// As [`run`], with the frequency in kHz at which each cpufreq policy starts (in the order of clusters, then of CPUs) instead of
/// its lowest operating point.
///
/// # Errors
/// As [`run`].
pub fn run_from<S: Sink>(case: &Case, start_khz: &[u32], sink: &mut S) -> Result<Outcome, CaseError> {
    use opplab_kernel::pelt::{HalfLife8, HalfLife16, HalfLife32};
    match case.policy.pelt_half_life_ms {
        8 => engine::Engine::<S, HalfLife8>::new(case, sink)?.start_at(start_khz).run(),
        16 => engine::Engine::<S, HalfLife16>::new(case, sink)?.start_at(start_khz).run(),
        32 => engine::Engine::<S, HalfLife32>::new(case, sink)?.start_at(start_khz).run(),
        other => Err(CaseError(format!("pelt_half_life_ms is {other}; the kernel has 8, 16 and 32"))),
    }
}
