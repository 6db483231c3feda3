//! Replay of traces: see crate `replay`.

use std::path::Path;

use opplab_guarded::guarded;
use opplab_model::decision::Decision;
use opplab_model::machine::InvarianceSource;
use opplab_replay::events::What;
use opplab_replay::fit::TracedMachine;
use opplab_replay::report::{agreement_json, comparison_json, speed_json};
use opplab_replay::{ClosedCase, Events, Mode, Recorded, Replay, ReplayError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::case::{Changed, PyCase, change_of};
use crate::error::raise;
use crate::machine::PyMachine;
use crate::tracefile::{note_damage, note_remark};
use crate::traces::frequency_columns;

fn map_error(py: Python<'_>, error: &ReplayError) -> PyErr {
    let name = if matches!(error, ReplayError::Trace { .. }) { "FormatError" } else { "InputError" };
    raise(py, name, error.to_string())
}

/// Notes what of a trace is damaged, and what of it is not followed.
fn note_events(py: Python<'_>, path: &str, events: &Events) -> PyResult<()> {
    note_damage(py, Path::new(path), &events.damage)?;
    note_remark(py, Path::new(path), events.groups.as_deref())
}

/// Runs `work` without the interpreter's lock.
fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, ReplayError> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| map_error(py, &error))
}

/// Runs the workload file of the recording in folder `path` on its machine and compares: JSON; `None` if it has no such file.
#[guarded]
#[pyfunction]
pub(crate) fn agree_recording(py: Python<'_>, path: &str) -> PyResult<Option<String>> {
    run(py, || Ok(opplab_replay::agree::agree(Path::new(path))?.as_ref().map(agreement_json)))
}

/// Why each of these machines cannot be the one that the trace at `path` was recorded on; `None` if nothing speaks against it.
#[guarded]
#[pyfunction]
pub(crate) fn trace_misfits(
    py: Python<'_>,
    path: &str,
    machines: Vec<PyRef<'_, PyMachine>>,
) -> PyResult<Vec<Option<String>>> {
    let machines: Vec<_> = machines.iter().map(|machine| machine.inner.clone()).collect();
    run(py, move || {
        let traced = TracedMachine::read(Path::new(path))?;
        Ok(machines.iter().map(|machine| traced.misfit(machine)).collect())
    })
}

/// The machine of the snapshot beside the trace at `path`.
#[guarded]
#[pyfunction]
pub(crate) fn traced_machine(py: Python<'_>, path: &str) -> PyResult<PyMachine> {
    run(py, || Ok(PyMachine { inner: opplab_replay::traced_machine(Path::new(path))? }))
}

/// The kernel profile and CONFIG_HZ of the recording at `path`, where it shows them; `header_only`: without its events.
#[guarded]
#[pyfunction]
pub(crate) fn traced_kernel(py: Python<'_>, path: &str, header_only: bool) -> PyResult<(Option<String>, Option<u32>)> {
    run(py, || opplab_replay::recorded_kernel(Path::new(path), header_only))
}

/// Replays the trace at `path` under its own policy and, if anything is given, under a changed one: JSON.
///
/// `machine`: what it ran on (`None`: taken from the snapshot beside it). `mode`: `open`, `closed` or
/// `auto` ([`Replay::compare_nearer`]). `recorded`: governor, driver, kernel and half-life (ms) of the recording, where somebody knows them.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, machine, mode, governor, freq_max, energy_model, kernel, tunables, recorded=(None, None, None, None)))]
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
    recorded: Known,
) -> PyResult<String> {
    let mode = match mode {
        "open" => Some(Mode::Open),
        "closed" => Some(Mode::Closed),
        _ => None,
    };
    let change = change_of((governor, freq_max, energy_model.map(str::to_owned), kernel, tunables));
    let recorded = recorded_of(recorded);
    let machine = machine.map(|machine| machine.inner.clone());
    let (found, events) = run(py, move || {
        let mut replay = Replay::read_as(Path::new(path), machine, &recorded)?;
        let base_only = change.as_ref().and_then(|change| change.base_only(&replay.setup.machine));
        replay.setup.notes.extend(base_only);
        let (mode, comparison, closed) = match mode {
            Some(mode) => (mode, replay.compare(change.as_ref(), mode)?, None),
            None => replay.compare_nearer(change.as_ref())?,
        };
        Ok((comparison_json(&replay, &comparison, mode, closed.as_ref()), replay.events))
    })?;
    note_events(py, path, &events)?;
    Ok(found)
}

/// What [`replayed_cases`] gives.
type ReplayedCases = (Vec<PyCase>, u64, u64, String, Vec<i32>);

/// Governor, driver, kernel and half-life (ms) of a recording, where somebody knows them.
type Known = (Option<String>, Option<String>, Option<String>, Option<u32>);

fn recorded_of((governor, driver, kernel, half_life_ms): Known) -> Recorded {
    Recorded { governor, driver, kernel, half_life_ms, ..Recorded::default() }
}

/// Runs of those that the closed loop of `replay_trace` is the mean of, as cases: each whether it is under the changed policy, and its
/// number. `shared`: its CPUs share the recorded stream (`self_check.streams`).
#[guarded]
#[pyfunction]
pub(crate) fn compared_cases(
    py: Python<'_>,
    path: &str,
    machine: Option<PyRef<'_, PyMachine>>,
    change: Changed,
    recorded: Known,
    runs: Vec<(bool, u64)>,
    shared: bool,
) -> PyResult<Vec<PyCase>> {
    let machine = machine.map(|machine| machine.inner.clone());
    let (change, recorded) = (change_of(change), recorded_of(recorded));
    let cases = run(py, move || {
        let replay = Replay::read_as(Path::new(path), machine, &recorded)?;
        let replay = replay.on_stream_of(shared);
        let case = |(is_changed, nth)| replay.compared_case(change.as_ref(), is_changed, nth);
        runs.into_iter().map(case).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(cases.into_iter().map(|ClosedCase { case, start, .. }| PyCase::of(case).starting_from(start)).collect())
}

/// The decisions of schedutil in the trace at `path` as its own policy takes them in an open loop, and its cpufreq policies: as
/// `recorded_frequencies`, with times of the trace's clock. A policy has also its recorded clocks, `[(time_ns, khz)]`, whether these are
/// what the hardware granted, whether its governor is known, and what is assumed of the recording. `governor`, `half_life_ms`: those
/// of the recording, where somebody knows it.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, machine, governor=None, half_life_ms=None))]
pub(crate) fn replayed_frequencies<'py>(
    py: Python<'py>,
    path: &str,
    machine: Option<PyRef<'_, PyMachine>>,
    governor: Option<String>,
    half_life_ms: Option<u32>,
) -> PyResult<(Bound<'py, PyDict>, Vec<Bound<'py, PyDict>>)> {
    let machine = machine.map(|machine| machine.inner.clone());
    let (replay, decisions) = run(py, move || {
        let recorded = Recorded { governor, half_life_ms, ..Recorded::default() };
        let replay = Replay::read_as(Path::new(path), machine, &recorded)?;
        let decisions = replay.open_decisions()?;
        Ok((replay, decisions))
    })?;
    note_events(py, path, &replay.events)?;
    let first_ns = replay.events.first_ns;
    let rows: Vec<_> = decisions
        .iter()
        .map(|open| {
            let answered = match open.decision {
                Decision::Freq { wanted_khz, .. } => wanted_khz,
                _ => 0,
            };
            (first_ns.saturating_add(open.time_ns), open.decision, answered)
        })
        .collect();
    let columns = frequency_columns(py, &rows)?;
    let machine = &replay.setup.machine;
    let policies = machine.policies().into_iter().map(|(cluster, cpus)| {
        let entry = PyDict::new(py);
        let changes = replay.events.list.iter().filter_map(|ev| match ev.what {
            What::Frequency { cpu, freq_khz } if cpus.contains(&cpu) => Some((ev.time_ns, freq_khz)),
            _ => None,
        });
        let clocks = replay.events.start_khz.get(&cpus[0]).copied().into_iter().chain(changes);
        let mut clocks: Vec<_> = clocks.map(|(time_ns, khz)| (first_ns.saturating_add(time_ns), khz)).collect();
        clocks.sort_by_key(|&(time_ns, _)| time_ns);
        clocks.dedup_by_key(|&mut (_, khz)| khz);
        entry.set_item("clocks", clocks)?;
        set_fields!(entry, replay.setup; governor_known, notes);
        entry.set_item("cpus", cpus)?;
        let granted = replay.events.is_simulated() && machine.invariance != InvarianceSource::FreqChange;
        entry.set_item("granted", granted)?;
        entry.set_item("driver", machine.cpufreq.driver.name)?;
        entry.set_item("governor", &replay.setup.policy.governor)?;
        let opps = &machine.clusters[cluster as usize].opps;
        entry.set_item("opps_khz", opps.iter().map(|opp| opp.khz).collect::<Vec<_>>())?;
        Ok(entry)
    });
    Ok((columns, policies.collect::<PyResult<Vec<_>>>()?))
}

/// The trace's own policy and its recovered workload in a closed loop, as the cases of the first `runs` runs that the self-check is of:
/// these, the time of the trace's first event, by how much the runs' times are later than times since then, and the self-check as
/// JSON, without `check` what has to be known of its speed; the pids of the workload's tasks. `governor`, `half_life_ms`: those of the recording, where somebody knows them.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, machine, runs, governor=None, half_life_ms=None, check=true))]
pub(crate) fn replayed_cases(
    py: Python<'_>,
    path: &str,
    machine: Option<PyRef<'_, PyMachine>>,
    runs: u64,
    governor: Option<String>,
    half_life_ms: Option<u32>,
    check: bool,
) -> PyResult<ReplayedCases> {
    let machine = machine.map(|machine| machine.inner.clone());
    let (found, events) = run(py, move || {
        let recorded = Recorded { governor, half_life_ms, ..Recorded::default() };
        let replay = Replay::read_as(Path::new(path), machine, &recorded)?;
        let (check, shared) = match check {
            true => {
                let found = replay.compare(None, Mode::Closed)?;
                (comparison_json(&replay, &found, Mode::Closed, None), found.shares_stream())
            }
            false => (speed_json(Path::new(path), &replay.setup.machine)?, false),
        };
        let way = replay.on_stream_of(shared);
        let cases = (0..runs).map(|nth| way.closed_case(nth)).collect::<Result<Vec<_>, _>>()?;
        let later_ns = cases.first().map_or(0, |closed| closed.later_ns);
        let cases = cases.into_iter().map(|ClosedCase { case, start, .. }| PyCase::of(case).starting_from(start));
        Ok(((cases.collect(), replay.events.first_ns, later_ns, check, replay.pids()), replay.events))
    })?;
    note_events(py, path, &events)?;
    Ok(found)
}

/// The recorded workload as an rt-app file. `tasks`: names of the wanted ones (`None`: all but the kernel's own).
#[guarded]
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
    let (text, assumed, events) = run(py, move || {
        let replay = Replay::read(Path::new(path), machine)?;
        let wanted = tasks.map(|tasks| move |name: &str| tasks.iter().any(|task| task == name));
        let wanted = wanted.as_ref().map(|wanted| wanted as &dyn Fn(&str) -> bool);
        let mut assumed = replay.setup.assumed_clocks(&replay.events);
        assumed.extend(replay.assumed_reservations(wanted.unwrap_or(&|_| true)));
        Ok((replay.to_rtapp(wanted, tolerance_permille)?, assumed, replay.events))
    })?;
    note_events(py, path, &events)?;
    assumed.iter().try_for_each(|assumed| note_remark(py, Path::new(path), Some(assumed)))?;
    Ok(text)
}
