//! The live host: crate `host`'s command line.

use std::ffi::OsString;
use std::io;

use opplab_host::cli::{Env, main};
use pyo3::prelude::*;

use crate::error::guard;

/// Runs a command of `opplab host` and gives its exit code. It writes to the process's own standard output and error;
/// `again` starts `opplab host` anew, for workers.
#[pyfunction]
pub(crate) fn host_main(py: Python<'_>, args: Vec<OsString>, again: Vec<OsString>) -> PyResult<i32> {
    guard(py, || {
        let mut env = Env { out: &mut io::stdout(), err: &mut io::stderr(), again, name: "opplab host".to_owned() };
        main(args, &mut env)
    })
}
