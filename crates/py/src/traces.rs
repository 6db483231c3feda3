//! Agreement with recordings of real kernels: see crate `verify`, module `traces`.

use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_model::decision::word;
use opplab_verify::traces::{RecordedChoice, RecordedFreq, RecordedPlacement};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::tracefile::note_damage;
use crate::verify::map_error;

/// Kind, exact, total, share in percent, remark.
type Row = (String, u64, u64, f64, String);

/// The folders at `path` that hold a recording: itself, or those in it, by name.
#[guarded]
#[pyfunction]
pub(crate) fn find_recordings(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    opplab_verify::traces::find_recordings(&path).map_err(|error| map_error(py, &error))
}

/// Frequency decisions as columns; a part that is not known is -1.
pub(crate) fn frequency_columns<'py>(py: Python<'py>, rows: &[RecordedFreq]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let part = |of: fn((usize, [u64; 3])) -> u64| -> Vec<i64> {
        rows.iter().map(|row| row.parts.map_or(-1, |parts| i64::try_from(of(parts)).unwrap_or(i64::MAX))).collect()
    };
    columns.set_item("time_ns", rows.iter().map(|row| row.time_ns).collect::<Vec<_>>())?;
    columns.set_item("policy_cpu", rows.iter().map(|row| row.policy_cpu).collect::<Vec<_>>())?;
    columns.set_item("cpu", rows.iter().map(|row| row.cpu).collect::<Vec<_>>())?;
    columns.set_item("deciding_cpu", part(|(cpu, _)| cpu as u64))?;
    columns.set_item("util_cfs", part(|(_, parts)| parts[0]))?;
    columns.set_item("util_rt", part(|(_, parts)| parts[1]))?;
    columns.set_item("util_dl", part(|(_, parts)| parts[2]))?;
    columns.set_item("util", rows.iter().map(|row| row.util).collect::<Vec<_>>())?;
    columns.set_item("max_cap", rows.iter().map(|row| row.max_cap).collect::<Vec<_>>())?;
    columns.set_item("ref_khz", rows.iter().map(|row| row.ref_khz).collect::<Vec<_>>())?;
    columns.set_item("raw_khz", rows.iter().map(|row| row.raw_khz).collect::<Vec<_>>())?;
    columns.set_item("wanted_khz", rows.iter().map(|row| row.wanted_khz).collect::<Vec<_>>())?;
    columns.set_item("prev_khz", rows.iter().map(|row| row.prev_khz).collect::<Vec<_>>())?;
    columns.set_item("ret_khz", rows.iter().map(|row| row.ret_khz).collect::<Vec<_>>())?;
    columns.set_item("held", rows.iter().map(|row| row.held).collect::<Vec<_>>())?;
    Ok(columns)
}

/// The frequency decisions of the recording in folder `path`, and its cpufreq policies:
/// `({column: values}, [{cpus, driver, governor, opps_khz}])`. A part that is not known is -1.
#[guarded]
#[pyfunction]
pub(crate) fn recorded_frequencies<'py>(
    py: Python<'py>,
    path: PathBuf,
) -> PyResult<(Bound<'py, PyDict>, Vec<Bound<'py, PyDict>>)> {
    let found = py.detach(|| opplab_verify::traces::frequency_decisions(&path));
    let found = found.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &found.damage)?;
    let columns = frequency_columns(py, &found.list)?;
    let policies = found.machine.policies.iter().map(|policy| {
        let entry = PyDict::new(py);
        entry.set_item("cpus", &policy.cpus)?;
        entry.set_item("driver", &policy.driver)?;
        entry.set_item("governor", &policy.governor)?;
        let entries = policy.table.as_ref().map_or(&[][..], |table| table.entries());
        let mut khz: Vec<u32> = entries.iter().map(|entry| entry.freq_khz).collect();
        khz.sort_unstable();
        entry.set_item("opps_khz", khz)?;
        Ok(entry)
    });
    let policies = policies.collect::<PyResult<Vec<_>>>()?;
    Ok((columns, policies))
}

/// The placements of wake-ups in the recording at `path`, one dictionary each, whose inputs it holds. `how` is `energy` or
/// `idleness`; words that do not apply are missing, the others are called as in the decision records of a run.
#[guarded]
#[pyfunction]
pub(crate) fn recorded_placements(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let found = py.detach(|| opplab_verify::traces::placements(&path));
    let found = found.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &found.damage)?;
    let name = |pid: i64| found.names.get(&pid).map_or_else(|| pid.to_string(), Clone::clone);
    let one = |placement: &RecordedPlacement| -> PyResult<Bound<'_, PyDict>> {
        let row = PyDict::new(py);
        row.set_item("time_ns", placement.time_ns)?;
        row.set_item("pid", placement.pid)?;
        row.set_item("task", name(placement.pid))?;
        row.set_item("waker_cpu", placement.waker_cpu)?;
        row.set_item("waker", (placement.waker != 0).then(|| name(placement.waker)))?;
        row.set_item("prev_cpu", placement.prev_cpu)?;
        row.set_item("cpu", placement.cpu)?;
        row.set_item("computed", placement.computed)?;
        row.set_item("sync", placement.sync)?;
        row.set_item("overutilized", placement.overutilized)?;
        row.set_item("util_avg", placement.utils.map(|(avg, _)| avg))?;
        row.set_item("util_est", placement.utils.map(|(_, est)| est))?;
        match &placement.choice {
            RecordedChoice::Energy(seen) => {
                row.set_item("how", "energy")?;
                row.set_item("eas_rule", seen.decided.and_then(|(_, rule)| word("eas_rule", rule as u8)))?;
                let candidates = seen.candidates.iter().map(|one| (one.cpu, one.domain, one.spare_cap, one.fits));
                row.set_item("candidates", candidates.collect::<Vec<_>>())?;
                let energies = seen.energies.iter().map(|one| {
                    let dst_cpu = one.dst_cpu.map_or(-1, |cpu| cpu as i64);
                    (dst_cpu, one.domain, one.energy, one.max_util, one.busy_time)
                });
                row.set_item("energies", energies.collect::<Vec<_>>())?;
            }
            RecordedChoice::Idleness { wide, affine, target, rule, nr_idle } => {
                row.set_item("how", "idleness")?;
                row.set_item("sibling_rule", word("sibling_rule", *rule as u8))?;
                row.set_item("wake_wide", wide)?;
                row.set_item("affine_rule", affine.map(|(_, rule)| word("affine_rule", rule as u8)))?;
                row.set_item("target", target)?;
                row.set_item("nr_idle", nr_idle)?;
            }
        }
        Ok(row)
    };
    found.list.iter().map(one).collect()
}

/// Recomputes the decisions of the recording in folder `path`: its name, one row a kind, and what is wrong, in words.
#[guarded]
#[pyfunction]
pub(crate) fn verify_recording(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<Row>, Vec<String>)> {
    let report = py.detach(|| opplab_verify::traces::verify_recording(&path));
    let report = report.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &report.damage)?;
    let rows = report.rows().map(|(kind, count)| {
        let share = count.share_per_100k() as f64 / 1000.0;
        (kind.to_owned(), count.exact, count.total, share, count.remark())
    });
    let rows = rows.collect();
    let wrong = report.wrong();
    Ok((report.recording, rows, wrong))
}
