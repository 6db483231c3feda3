//! Runs: a case in, what was measured out; events as columns, or as a Perfetto trace.

use numpy::IntoPyArray;
use opplab_model::event::{NullSink, Sink};
use opplab_sim::check::Check;
use opplab_sim::sink::{Column, Columns, TABLES};
use opplab_sim::{Case, Outcome};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{guard, raise};
use crate::perfetto::Perfetto;

/// Runs a case without the interpreter's lock.
pub(crate) fn simulate<S: Sink + Send>(py: Python<'_>, case: &Case, sink: &mut S) -> PyResult<Outcome> {
    guard(py, || py.detach(|| opplab_sim::run(case, sink)))?.map_err(|error| raise(py, "CaseError", error.0))
}

/// What a run measured, as a dict of integers and lists of integers; beside it, what the indexes mean.
pub(crate) fn outcome_dict<'py>(py: Python<'py>, case: &Case, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let clusters = PyList::empty(py);
    for cluster in &case.machine.clusters {
        let entry = PyDict::new(py);
        entry.set_item("name", &cluster.name)?;
        entry.set_item("cpus", &cluster.cpus)?;
        entry.set_item("capacity", cluster.capacity)?;
        entry.set_item("opps_khz", cluster.opps.iter().map(|opp| opp.khz).collect::<Vec<_>>())?;
        entry.set_item("idle_states", cluster.idle.iter().map(|state| state.name.as_str()).collect::<Vec<_>>())?;
        clusters.append(entry)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("clusters", clusters)?;
    dict.set_item("wall_ns", outcome.wall_ns)?;
    dict.set_item("cluster_energy_fj", &outcome.cluster_energy_fj)?;
    dict.set_item("floor_energy_fj", outcome.floor_energy_fj)?;
    dict.set_item("activations", outcome.activations)?;
    dict.set_item("missed_activations", outcome.missed_activations)?;
    dict.set_item("counts", outcome.counts)?;
    dict.set_item("busy_ns_by_opp", &outcome.busy_ns_by_opp)?;
    dict.set_item("idle_ns_by_state", &outcome.idle_ns_by_state)?;
    dict.set_item("time_ns_by_opp", &outcome.time_ns_by_opp)?;
    dict.set_item("freq_changes", &outcome.freq_changes)?;
    dict.set_item("task_ns_by_cluster", &outcome.task_ns_by_cluster)?;
    dict.set_item("task_names", &outcome.task_names)?;
    dict.set_item("work_done", outcome.work_done)?;
    dict.set_item("switches", outcome.switches)?;
    dict.set_item("migrations", outcome.migrations)?;
    dict.set_item("engine_events", outcome.engine_events)?;
    dict.set_item("overutilized_ns", outcome.overutilized_ns)?;
    dict.set_item("fingerprint", outcome.fingerprint)?;
    Ok(dict)
}

/// Runs a case, with the invariant checks if `check`.
pub(crate) fn metrics<'py>(py: Python<'py>, case: &Case, check: bool) -> PyResult<Bound<'py, PyDict>> {
    let outcome = if check {
        let mut sink = Check::new(case.machine.nr_cpus());
        let outcome = simulate(py, case, &mut sink)?;
        if let Err(violations) = guard(py, || sink.finish(case, &outcome))? {
            return Err(raise(py, "CheckError", format!("invariants do not hold: {}", violations.join("; "))));
        }
        outcome
    } else {
        simulate(py, case, &mut NullSink)?
    };
    outcome_dict(py, case, &outcome)
}

/// Runs a case and gives the events of `tables` (all, if there is none): `{table: {column: array}}`.
pub(crate) fn events<'py>(py: Python<'py>, case: &Case, tables: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let names: Vec<&str> = tables.iter().map(String::as_str).collect();
    let mut sink = Columns::new(&names).map_err(|unknown| {
        let near = opplab_model::error::nearest(&unknown, TABLES.iter().copied());
        let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        raise(py, "InputError", format!("unknown event `{unknown}`{hint}"))
    })?;
    simulate(py, case, &mut sink)?;
    let all = PyDict::new(py);
    for table in sink.tables() {
        let columns = PyDict::new(py);
        for (name, column) in table.columns {
            match column {
                Column::U8(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U32(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::I32(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U64(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::I64(values) => columns.set_item(name, values.into_pyarray(py))?,
            }
        }
        all.set_item(table.name, columns)?;
    }
    Ok(all)
}

/// Runs a case and gives its events as a Perfetto trace.
///
/// It runs twice: the tasks' names are known when the first run ends.
pub(crate) fn perfetto<'py>(py: Python<'py>, case: &Case) -> PyResult<Bound<'py, PyBytes>> {
    let names = simulate(py, case, &mut NullSink)?.task_names;
    let mut sink = Perfetto::new(&case.workload.name, case.machine.nr_cpus(), names);
    simulate(py, case, &mut sink)?;
    Ok(PyBytes::new(py, &sink.finish()))
}
