//! Idle decisions of a recorded trace and of a run: see crate `replay`, module `idle`.

use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_kernel::cpuidle::IdleState;
use opplab_kernel::profile::KernelProfile;
use opplab_replay::idle::{Decider, EVENTS, Stays, decide};
use opplab_replay::idle_states::IdleStates;
use opplab_signals::decode::decoded;
use opplab_trace::{ReadOptions, TraceFile};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::raise;
use crate::machine::PyMachine;
use crate::run::{HookedCase, simulate};
use crate::tracefile::trace_error;

/// Exit latency and target residency of each state in ns, and whether it polls; by CPU.
pub(crate) type States = Vec<Vec<(u64, u64, bool)>>;

/// What `deciders` (governors, `recorded`, `constant`, `oracle`) decide on the sleeps of the trace at `path`: one
/// dictionary for each CPU and decider, what was damaged, and what its states were taken for where they are those of `machine`.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, states, deciders, tick_ns, profile, machine=None))]
pub(crate) fn trace_idle<'py>(
    py: Python<'py>,
    path: PathBuf,
    states: States,
    deciders: Vec<String>,
    tick_ns: u64,
    profile: &str,
    machine: Option<&PyMachine>,
) -> PyResult<(Bound<'py, PyList>, Vec<String>, Option<String>)> {
    let Some(kernel) = KernelProfile::named(profile) else {
        return Err(raise(py, "InputError", format!("there is no kernel profile `{profile}`")));
    };
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&EVENTS) };
    let read = py.detach(|| {
        let mut stays = Stays::default();
        let outcome = TraceFile::open(&path)?.stream(&options, &mut decoded(&mut stays))?;
        let of_machine = machine.map(|machine| IdleStates::of(&path, &machine.inner));
        Ok((stays, outcome.problems, of_machine))
    });
    let (mut stays, problems, of_machine) = read.map_err(|error| trace_error(py, &path, error))?;
    if let Some(of_machine) = &of_machine {
        stays.number(|cpu, state| of_machine.number(cpu, state));
    }
    let rows = rows(py, &stays, &path.display().to_string(), &states, &deciders, (&kernel, tick_ns))?;
    let note = of_machine.and_then(|of_machine| of_machine.note());
    Ok((rows, problems.iter().map(ToString::to_string).collect(), note))
}

/// What `deciders` decide on the sleeps of a run, each with the facts and outcomes of the run's own governor: one dictionary for each CPU
/// and decider.
pub(crate) fn run_idle<'py>(
    py: Python<'py>,
    case: &HookedCase,
    states: &States,
    deciders: &[String],
) -> PyResult<Bound<'py, PyList>> {
    let policy = &case.case.policy;
    let kernel = policy.profile().map_err(|error| raise(py, "CaseError", error.to_string()))?;
    let mut stays = Stays::default();
    simulate(py, case, &mut stays)?;
    rows(py, &stays, "the run", states, deciders, (&kernel, 1_000_000_000 / u64::from(policy.hz)))
}

fn rows<'py>(
    py: Python<'py>,
    stays: &Stays,
    of: &str,
    states: &States,
    deciders: &[String],
    (kernel, tick_ns): (&KernelProfile, u64),
) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (cpu, of_cpu) in stays.cpus.iter().enumerate().filter(|(_, stays)| !stays.is_empty()) {
        let Some(states) = states.get(cpu).filter(|states| !states.is_empty()) else {
            return Err(raise(py, "InputError", format!("{of}: the idle states of CPU {cpu} are not known")));
        };
        let table: Vec<IdleState> = states
            .iter()
            .map(|&(exit_latency_ns, target_residency_ns, polling)| IdleState {
                exit_latency_ns,
                target_residency_ns,
                polling,
            })
            .collect();
        for name in deciders {
            let decider = match name.as_str() {
                "recorded" => Decider::Recorded,
                "constant" => Decider::Constant,
                "oracle" => Decider::Oracle,
                name => Decider::Governor(name),
            };
            let Some(score) = decide(of_cpu, &table, decider, kernel, tick_ns.max(1)) else {
                return Err(raise(py, "InputError", format!("there is no idle governor `{name}`")));
            };
            let row = PyDict::new(py);
            row.set_item("cpu", cpu)?;
            row.set_item("governor", name)?;
            set_fields!(row, score; decisions, equal, deeper, shallower, above, below);
            row.set_item("told_above", score.told.0)?;
            row.set_item("told_below", score.told.1)?;
            set_fields!(row, score; intercepted, no_timer, time_ns);
            let pairs = score.pairs.iter().map(|(&(recorded, chosen, by_timer), &n)| (recorded, chosen, by_timer, n));
            row.set_item("pairs", pairs.collect::<Vec<_>>())?;
            row.set_item("unknown_states", of_cpu.iter().filter(|stay| stay.state >= table.len()).count())?;
            rows.append(row)?;
        }
    }
    Ok(rows)
}
