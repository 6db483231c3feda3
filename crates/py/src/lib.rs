//! The Python face of opplab: `opplab._opplab`.
//!
//! Conversions and error mapping only. What a function computes, it computes in another crate; what it reads from disk
//! is read by Python, except vector files, which crate `verify` opens itself.

use pyo3::prelude::*;

/// Sets fields of a value in a dict, under their own names.
macro_rules! set_fields {
    ($dict:expr, $from:expr; $($field:ident),+) => {
        $($dict.set_item(stringify!($field), &$from.$field)?;)+
    };
}

/// Sets vectors of a value in a dict as arrays, under their own names.
macro_rules! set_arrays {
    ($dict:expr, $py:expr, $from:expr; $($field:ident),+) => {
        $($dict.set_item(stringify!($field), $from.$field.into_pyarray($py))?;)+
    };
}

mod case;
mod energy;
mod error;
mod experiment;
mod host;
mod idle;
mod import;
mod kernel;
mod machine;
mod meter;
mod names;
mod policies;
mod replay;
mod run;
mod signals;
mod stats;
mod tracefile;
mod traces;
mod verify;
mod workload;

/// The compiled half of opplab; use the public names of package `opplab` instead.
#[pymodule]
mod _opplab {
    use pyo3::prelude::*;

    // One group: a merge that drops one of many equal attribute lines would drop a name without a word.
    #[pymodule_export]
    use super::{
        case::PyCase,
        energy::{perfetto_counters, trace_energy},
        experiment::PyExperiment,
        host::{host_main, host_output},
        idle::trace_idle,
        import::{check_machine, fmax, import_machine, machine_checks},
        kernel::bindings,
        machine::PyMachine,
        names::{
            benchmarks, check_policy, decision_codes, disk_classes, governor_tunables, names, policy_keys, proposals,
        },
        replay::{
            agree_recording, compared_cases, replay_trace, replayed_cases, replayed_frequencies, trace_misfits,
            trace_to_rtapp, traced_kernel, traced_machine,
        },
        run::metrics_of_runs,
        signals::trace_signals,
        tracefile::{PyTrace, trace_info, trace_pieces, trace_task_names, trace_to_dat},
        traces::{
            decision_phrases, decision_words, find_recordings, point_name, recorded_frequencies, recorded_placements,
            verify_recording,
        },
        verify::{families, find_vectors, verify_file},
        workload::PyWorkload,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::error::install_panic_hook();
        super::stats::register(module)?;
        module.add("SLOW_LIMITS", opplab_sim::why_slow::LIMITS)?;
        module.add("IN_TIMER_NS", opplab_replay::events::IN_TIMER_NS)?;
        module.add("TICK_TIMER", opplab_trace::TICK_TIMER)?;
        module.add("IDLE", opplab_model::case::IDLE)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
