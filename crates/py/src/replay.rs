//! Replay of traces: see crate `replay`.

use std::path::Path;

use opplab_model::policy::EnergyModelSource;
use opplab_replay::report::{agreement_json, comparison_json};
use opplab_replay::{Change, Mode, Replay, ReplayError};
use pyo3::prelude::*;

use crate::error::{guard, raise};
use crate::machine::PyMachine;

fn map_error(py: Python<'_>, error: &ReplayError) -> PyErr {
    let name = if matches!(error, ReplayError::Trace { .. }) { "FormatError" } else { "InputError" };
    raise(py, name, error.to_string())
}

/// Runs `work` without the interpreter's lock.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, ReplayError> + Send) -> PyResult<T> {
    guard(py, || py.detach(work))?.map_err(|error| map_error(py, &error))
}

/// Runs the workload file of the recording in folder `path` on its machine and compares: JSON; `None` if it has no such file.
#[pyfunction]
pub(crate) fn agree_recording(py: Python<'_>, path: &str) -> PyResult<Option<String>> {
    run(py, || Ok(opplab_replay::agree::agree(Path::new(path))?.as_ref().map(agreement_json)))
}

/// Replays the trace at `path` under its own policy and, if anything is given, under a changed one: JSON.
///
/// `machine`: what it ran on (`None`: the snapshot beside it tells). `mode`: `open`, `closed` or
/// `auto` ([`Replay::compare_nearer`]).
#[pyfunction]
#[pyo3(signature = (path, machine, mode, governor, freq_max, energy_model, kernel, tunables))]
#[expect(clippy::too_many_arguments, reason = "each is an option of the command")]
pub(crate) fn replay_trace(
    py: Python<'_>,
    path: &str,
    machine: Option<PyRef<'_, PyMachine>>,
    mode: &str,
    governor: Option<String>,
    freq_max: Option<String>,
    energy_model: Option<&str>,
    kernel: Option<String>,
    tunables: Vec<(String, String)>,
) -> PyResult<String> {
    let mode = match mode {
        "open" => Some(Mode::Open),
        "closed" => Some(Mode::Closed),
        _ => None,
    };
    let energy_model = match energy_model {
        Some("artificial") => Some(EnergyModelSource::Artificial),
        Some("registered") => Some(EnergyModelSource::Registered),
        Some(_) => Some(EnergyModelSource::None),
        None => None,
    };
    let change = Change { governor, freq_max, energy_model, kernel, tunables };
    let change = (change != Change::default()).then_some(change);
    let machine = machine.map(|machine| machine.inner.clone());
    run(py, move || {
        let replay = Replay::read(Path::new(path), machine)?;
        let (mode, comparison, closed) = match mode {
            Some(mode) => (mode, replay.compare(change.as_ref(), mode)?, None),
            None => replay.compare_nearer(change.as_ref())?,
        };
        Ok(comparison_json(&replay, &comparison, mode, closed.as_ref()))
    })
}

/// The recorded workload as an rt-app file. `tasks`: names of the wanted ones (`None`: all but the kernel's own).
#[pyfunction]
#[pyo3(signature = (path, machine, tasks, tolerance_permille))]
pub(crate) fn trace_to_rtapp(
    py: Python<'_>,
    path: &str,
    machine: Option<PyRef<'_, PyMachine>>,
    tasks: Option<Vec<String>>,
    tolerance_permille: u64,
) -> PyResult<String> {
    let machine = machine.map(|machine| machine.inner.clone());
    run(py, move || {
        let replay = Replay::read(Path::new(path), machine)?;
        let wanted = tasks.map(|tasks| move |name: &str| tasks.iter().any(|task| task == name));
        replay.to_rtapp(wanted.as_ref().map(|wanted| wanted as &dyn Fn(&str) -> bool), tolerance_permille)
    })
}
