//! Agreement with recordings of real kernels: see crate `verify`, module `traces`.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::guard;
use crate::verify::map_error;

/// Kind, exact, total, share in percent, remark.
type Row = (String, u64, u64, f64, String);

/// The folders at `path` that hold a recording: itself, or those in it, by name.
#[pyfunction]
pub(crate) fn find_recordings(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    guard(py, || opplab_verify::traces::find_recordings(&path))?.map_err(|error| map_error(py, &error))
}

/// Recomputes the decisions of the recording in folder `path`: its name, one row a kind, and the kinds that ought to be equal bit by
/// bit but differ.
#[pyfunction]
pub(crate) fn verify_recording(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<Row>, Vec<String>)> {
    let report = guard(py, || py.detach(|| opplab_verify::traces::verify_recording(&path)))?;
    let report = report.map_err(|error| map_error(py, &error))?;
    let rows = report.rows().map(|(kind, count)| {
        let share = count.share_per_100k() as f64 / 1000.0;
        (kind.to_owned(), count.exact, count.total, share, count.remark())
    });
    let rows = rows.collect();
    let failures = report.failures().map(|(kind, _)| kind.to_owned()).collect();
    Ok((report.recording, rows, failures))
}
