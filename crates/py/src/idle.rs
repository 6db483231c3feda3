//! Idle decisions of a recorded trace: see crate `replay`, module `idle`.

use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_kernel::cpuidle::IdleState;
use opplab_kernel::profile::KernelProfile;
use opplab_replay::idle::{Decider, EVENTS, Stays, decide};
use opplab_signals::decode::decoded;
use opplab_trace::{ReadOptions, TraceFile};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::raise;
use crate::tracefile::trace_error;

/// Exit latency and target residency of each state in ns, and whether it polls; by CPU.
type States = Vec<Vec<(u64, u64, bool)>>;

/// What `deciders` (governors, `recorded`, `constant`, `oracle`) decide on the sleeps of the trace at `path`: one
/// dictionary for each CPU and decider, and what was damaged.
#[guarded]
#[pyfunction]
pub(crate) fn trace_idle<'py>(
    py: Python<'py>,
    path: PathBuf,
    states: States,
    deciders: Vec<String>,
    tick_ns: u64,
    profile: &str,
) -> PyResult<(Bound<'py, PyList>, Vec<String>)> {
    let Some(kernel) = KernelProfile::named(profile) else {
        return Err(raise(py, "InputError", format!("there is no kernel profile `{profile}`")));
    };
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&EVENTS) };
    let read = py.detach(|| {
        let mut stays = Stays::default();
        let outcome = TraceFile::open(&path)?.stream(&options, &mut decoded(&mut stays))?;
        Ok((stays, outcome.problems))
    });
    let (stays, problems) = read.map_err(|error| trace_error(py, &path, error))?;
    let rows = PyList::empty(py);
    for (cpu, of_cpu) in stays.cpus.iter().enumerate().filter(|(_, stays)| !stays.is_empty()) {
        let Some(states) = states.get(cpu).filter(|states| !states.is_empty()) else {
            let text = format!("{}: the idle states of CPU {cpu} are not known", path.display());
            return Err(raise(py, "InputError", text));
        };
        let table: Vec<IdleState> = states
            .iter()
            .map(|&(exit_latency_ns, target_residency_ns, polling)| IdleState {
                exit_latency_ns,
                target_residency_ns,
                polling,
            })
            .collect();
        for name in &deciders {
            let decider = match name.as_str() {
                "recorded" => Decider::Recorded,
                "constant" => Decider::Constant,
                "oracle" => Decider::Oracle,
                name => Decider::Governor(name),
            };
            let Some(score) = decide(of_cpu, &table, decider, &kernel, tick_ns.max(1)) else {
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
    Ok((rows, problems.iter().map(ToString::to_string).collect()))
}
