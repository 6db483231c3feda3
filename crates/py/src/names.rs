//! What there is to choose from.

use opplab_kernel::cpuidle::IDLE_GOVERNORS;
use opplab_kernel::profile::profile_names;
use opplab_model::benchmark::BENCHMARKS;
use opplab_model::decision::CODES;
use opplab_sim::GOVERNORS;
use opplab_sim::decisions::DECISION_TABLES;
use opplab_sim::sink::TABLES;
use pyo3::prelude::*;

use crate::error::raise;

fn plain(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), String::new())).collect()
}

/// What the small numbers in columns of decision records mean: `[(column, words by number)]`.
#[pyfunction]
pub(crate) fn decision_codes() -> Vec<(&'static str, Vec<&'static str>)> {
    CODES.iter().map(|(column, words)| (*column, words.to_vec())).collect()
}

/// Names and one-line descriptions of a kind: `governors`, `idle-governors`, `kernels`, `benchmarks`, `events`,
/// `decisions`.
#[pyfunction]
pub(crate) fn names(py: Python<'_>, kind: &str) -> PyResult<Vec<(String, String)>> {
    let list = match kind {
        "idle-governors" => IDLE_GOVERNORS
            .iter()
            .map(|entry| (entry.name.to_owned(), format!("rating {rating}", rating = entry.rating)))
            .collect(),
        "events" => plain(TABLES),
        "decisions" => plain(DECISION_TABLES),
        "governors" => plain(&GOVERNORS),
        "kernels" => profile_names().map(|name| (name.to_owned(), String::new())).collect(),
        "benchmarks" => {
            BENCHMARKS.iter().map(|benchmark| (benchmark.name.to_owned(), benchmark.about.to_owned())).collect()
        }
        _ => return Err(raise(py, "InputError", format!("unknown kind of names `{kind}`"))),
    };
    Ok(list)
}
