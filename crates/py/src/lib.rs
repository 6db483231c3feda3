//! The Python face of opplab: `opplab._opplab`.
//!
//! Conversions and error mapping only. What a function computes, it computes in another crate; what it reads from disk
//! is read by Python, except vector files, which crate `verify` opens itself.

use pyo3::prelude::*;

mod case;
mod error;
mod experiment;
mod kernel;
mod import;
mod machine;
mod names;
mod run;
mod simtrace;
mod stats;
mod traces;
mod verify;
mod workload;

/// The compiled half of opplab; use the public names of package `opplab` instead.
#[pymodule]
mod _opplab {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::case::PyCase;
    #[pymodule_export]
    use super::experiment::PyExperiment;
    #[pymodule_export]
    use super::kernel::bindings;
    use super::import::{check_machine, fmax, import_machine, machine_checks};
    #[pymodule_export]
    use super::machine::PyMachine;
    #[pymodule_export]
    use super::names::names;
    #[pymodule_export]
    use super::traces::{find_recordings, verify_recording};
    #[pymodule_export]
    use super::verify::{families, find_vectors, verify_file};
    #[pymodule_export]
    use super::workload::PyWorkload;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::error::install_panic_hook();
        super::stats::register(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
