//! Statistics for Python: thin over crate `stats`.

use opplab_guarded::guarded;
use opplab_stats::bootstrap::{self, Plan};
use opplab_stats::{Interval, Mean, interval, test};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Add the functions to the extension module.
///
/// # Errors
///
/// What Python raises when an attribute cannot be set.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stats_is_rate, module)?)?;
    module.add_function(wrap_pyfunction!(stats_mean, module)?)?;
    module.add_function(wrap_pyfunction!(stats_ratio, module)?)?;
    module.add_function(wrap_pyfunction!(stats_holm, module)?)?;
    module.add_function(wrap_pyfunction!(stats_submean, module)?)
}

fn kind(harmonic: bool) -> Mean {
    if harmonic { Mean::Harmonic } else { Mean::Arithmetic }
}

fn pair(interval: Interval) -> (f64, f64) {
    (interval.low, interval.high)
}

/// Whether the mean of a metric in `unit` is harmonic.
#[guarded]
#[pyfunction]
fn stats_is_rate(higher_is_better: bool, unit: &str) -> bool {
    Mean::of_metric(higher_is_better, unit) == Mean::Harmonic
}

/// The mean of `values`, its Student-t interval, and its BCa interval when `resamples` is not 0.
#[guarded]
#[pyfunction]
#[pyo3(signature = (values, *, harmonic=false, confidence=0.95, resamples=0, seed=1, stream=0))]
fn stats_mean(
    py: Python<'_>,
    values: Vec<f64>,
    harmonic: bool,
    confidence: f64,
    resamples: usize,
    seed: u64,
    stream: u64,
) -> (f64, (f64, f64), (f64, f64)) {
    py.detach(|| {
        let mean = kind(harmonic);
        let plan = Plan { resamples, seed, stream, expand: true };
        let bca = if resamples > 0 { bootstrap::bca_mean(&values, mean, confidence, plan) } else { Interval::UNKNOWN };
        (mean.of(&values), pair(interval::t_interval(&values, mean, confidence)), pair(bca))
    })
}

/// Compare two samples: interval of the ratio of the means, test of their difference, and its size.
///
/// `paired` means that the values of equal index belong together, whose interval is Student's t on the logarithm of the ratio;
/// of others `resamples` of 0 asks for the delta method instead of a bootstrap.
#[guarded]
#[pyfunction]
#[pyo3(signature = (base, new, *, harmonic=false, paired=false, confidence=0.95, resamples=9999, seed=1, stream=0))]
#[expect(clippy::too_many_arguments, reason = "keywords in Python")]
fn stats_ratio<'py>(
    py: Python<'py>,
    base: Vec<f64>,
    new: Vec<f64>,
    harmonic: bool,
    paired: bool,
    confidence: f64,
    resamples: usize,
    seed: u64,
    stream: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let mean = kind(harmonic);
    let plan = Plan { resamples, seed, stream, expand: true };
    let (interval, tested, effect) = py.detach(|| {
        let interval = match (paired, resamples) {
            (true, _) => interval::paired_interval(&base, &new, mean, confidence),
            (false, 0) => interval::ratio_interval(&base, &new, mean, confidence),
            (false, _) => bootstrap::bca_ratio(&base, &new, mean, confidence, plan),
        };
        // The test is that of the interval, so that they never disagree.
        let tested = match (paired, resamples) {
            (true, _) => test::paired(&base, &new, mean),
            (false, 0) => test::ratio(&base, &new, mean),
            (false, _) => test::welch(&base, &new, mean),
        };
        (interval, tested, test::hedges_g(&base, &new, mean))
    });
    let found = PyDict::new(py);
    found.set_item("ratio", mean.of(&new) / mean.of(&base))?;
    set_fields!(found, interval; low, high);
    set_fields!(found, tested; t, df, p);
    found.set_item("hedges_g", effect)?;
    Ok(found)
}

/// Holm's correction of p-values; NaN stays NaN and does not count.
#[guarded]
#[pyfunction]
fn stats_holm(p_values: Vec<f64>) -> Vec<f64> {
    test::holm(&p_values)
}

/// mmtests' SubAmean or SubHmean and half the width of its interval, seeded.
#[guarded]
#[pyfunction]
#[pyo3(signature = (iterations, *, harmonic=false, confidence=0.95, resamples=1000, seed=1, stream=0))]
fn stats_submean(
    py: Python<'_>,
    iterations: Vec<Vec<f64>>,
    harmonic: bool,
    confidence: f64,
    resamples: usize,
    seed: u64,
    stream: u64,
) -> (f64, f64) {
    let plan = Plan { resamples, seed, stream, expand: false };
    py.detach(|| bootstrap::submean(&iterations, kind(harmonic), confidence, plan))
}
