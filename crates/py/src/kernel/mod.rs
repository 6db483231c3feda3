//! `opplab.kernel`: the kernel crate's algorithms as functions and stepping classes.
//!
//! Everything public is documented in package `opplab.kernel`, which gives these classes their names.

use std::fmt::Debug;

use opplab_kernel::profile::{KernelProfile, unknown_profile};
use pyo3::prelude::*;

use crate::error::raise;

mod cpufreq;
mod cpuidle;
mod energy;
mod freq_invariance;
mod pelt;
mod profile;
mod study;

fn refuse(py: Python<'_>, message: impl std::fmt::Display) -> PyErr {
    raise(py, "InputError", message.to_string())
}

/// `unknown KIND `name`; did you mean ...?`
fn unknown(py: Python<'_>, kind: &str, name: &str, known: &[&str]) -> PyErr {
    let near = opplab_model::error::nearest(name, known.iter().copied());
    let hint =
        near.map_or_else(|| format!(" (there are {})", known.join(", ")), |near| format!("; did you mean `{near}`?"));
    refuse(py, format_args!("unknown {kind} `{name}`{hint}"))
}

/// Rust's form of a value as Python's: `Name { a: 1, b: true }` as `Name(a=1, b=True)`.
fn python_repr(value: &impl Debug) -> String {
    let text = format!("{value:?}").replace(" { ", "(").replace(" }", ")").replace(": ", "=");
    text.replace("=true", "=True").replace("=false", "=False")
}

/// The variant's name as a word of its own: `LessEnergy` as `less-energy`.
fn variant_name(value: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Calls a function that is generic over the half-life.
macro_rules! with_half_life {
    ($py:expr, $periods:expr, $H:ident => $call:expr) => {
        match $periods {
            32 => {
                type $H = opplab_kernel::pelt::HalfLife32;
                Ok($call)
            }
            16 => {
                type $H = opplab_kernel::pelt::HalfLife16;
                Ok($call)
            }
            8 => {
                type $H = opplab_kernel::pelt::HalfLife8;
                Ok($call)
            }
            other => Err(refuse($py, format_args!("no half-life of {other} periods (there are 8, 16, 32)"))),
        }
    };
}

fn profile(py: Python<'_>, name: &str) -> PyResult<KernelProfile> {
    KernelProfile::named(name).ok_or_else(|| refuse(py, unknown_profile(name)))
}
use with_half_life;

/// The submodule.
#[pymodule]
#[pyo3(name = "kernel")]
pub(crate) mod bindings {
    #[pymodule_export]
    use super::{
        cpufreq::{
            PyFreqTable, PyHwpBoost, PyIowaitBoost, PySchedutil, py_effective_cpu_util, py_map_util_freq,
            py_map_util_perf, py_schedutil_cpu_util,
        },
        cpuidle::PyIdleGovernor,
        energy::{PyEnergyModel, py_artificial_em, py_find_energy_efficient_cpu, py_inefficient_points},
        freq_invariance::{
            PyCppcPerfCaps, amd_max_freq_ratio, freq_max_of, freq_max_ratio, intel_max_freq_ratio, py_cppc_scale_freq,
            py_scale_freq_tick, py_squeeze_efficiency_classes,
        },
        pelt::{PyClockPelt, PyPeltBatch, PySchedAvg, PyUtilEst, pelt, py_decay_load, py_ramp_up_periods},
        profile::{PyKernelProfile, gates, kernel_diff, kernel_note, profiles},
        study::py_closed_loop,
    };
}
