//! One CPU's closed loop.

use numpy::{IntoPyArray, PyReadonlyArray1};
use opplab_guarded::guarded;
use opplab_study::{Activation, LoopConfig, closed_loop};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{profile, refuse, with_half_life};

/// One CPU's closed loop (`opplab_study`), as a dict of arrays.
#[guarded]
#[pyfunction(name = "closed_loop")]
#[pyo3(signature = (freqs_khz, time_ns, work_ns, duration_ns, *, kernel, freq_invariant, rate_limit_us, util_est,
    start_util, cur_khz, tick_ns, half_life))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
pub(super) fn py_closed_loop<'py>(
    py: Python<'py>,
    freqs_khz: Vec<u32>,
    time_ns: PyReadonlyArray1<'py, u64>,
    work_ns: PyReadonlyArray1<'py, u64>,
    duration_ns: u64,
    kernel: &str,
    freq_invariant: bool,
    rate_limit_us: u32,
    util_est: bool,
    start_util: u64,
    cur_khz: u32,
    tick_ns: u64,
    half_life: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let gates = profile(py, kernel)?.sugov_gates();
    if tick_ns == 0 {
        return Err(refuse(py, "a tick takes time"));
    }
    let (time_ns, work_ns) = (time_ns.as_slice()?, work_ns.as_slice()?);
    if time_ns.len() != work_ns.len() {
        return Err(refuse(py, "the arrays differ in length"));
    }
    let activations: Vec<Activation> =
        time_ns.iter().zip(work_ns).map(|(&time_ns, &work_ns)| Activation { time_ns, work_ns }).collect();
    let config = LoopConfig {
        freqs_khz,
        cur_khz,
        freq_invariant,
        gates,
        rate_limit_us,
        tick_ns,
        util_est,
        start_util,
        duration_ns,
    };
    let trace = with_half_life!(py, half_life, H => closed_loop::<H>(&config, &activations))?;
    let trace = trace.map_err(|error| refuse(py, error))?;
    let dict = PyDict::new(py);
    set_arrays!(dict, py, trace; time_ns, util, freq_khz, end_ns, busy_ns, span_ns, span_khz, span_busy);
    Ok(dict)
}
