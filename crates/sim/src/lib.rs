//! The deterministic discrete-event engine.

pub mod sink;

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
    /// Work done over all tasks, in ns of the biggest CPU << 20.
    pub work_done: u128,
    /// Context switches.
    pub switches: u64,
    /// Migrations.
    pub migrations: u64,
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
    let _ = (case, sink);
    Err(CaseError(String::from("the engine is not built yet")))
}
