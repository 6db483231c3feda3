//! Golden vectors: see crate `verify`.

use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_verify::VerifyError;
use pyo3::prelude::*;

use crate::error::raise;

pub(crate) fn map_error(py: Python<'_>, error: &VerifyError) -> PyErr {
    match error {
        VerifyError::Read { path, .. } if !path.exists() => raise(py, "InputError", format!("{error}", error = error)),
        _ => raise(py, "FormatError", error.to_string()),
    }
}

/// The names of all families that are built, in the order of the vectors' README.
#[guarded]
#[pyfunction]
pub(crate) fn families() -> Vec<&'static str> {
    opplab_verify::all_families().map(|family| family.name).collect()
}

/// The vector files at `path` (a file or a folder), sorted by name.
#[guarded]
#[pyfunction]
pub(crate) fn find_vectors(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    opplab_verify::find_vectors(&path).map_err(|error| map_error(py, &error))
}

/// Replays one vector file: `(family, cases, mismatches, first)`; `cases` is `None` when the family is not built.
#[guarded]
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a plain tuple is what the Python stub has")]
pub(crate) fn verify_file(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(String, Option<u64>, Option<u64>, Option<String>)> {
    let outcome = py.detach(|| opplab_verify::verify_file(&path));
    let outcome = outcome.map_err(|error| map_error(py, &error))?;
    Ok(match outcome.tally {
        None => (outcome.family, None, None, None),
        Some(tally) => (outcome.family, Some(tally.cases), Some(tally.mismatches), tally.first),
    })
}
