//! The live host: crate `host`'s command line.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_host::cli::{main, output_of};
use opplab_host::command::Env;
use opplab_host::patient::Patient;
use pyo3::prelude::*;

/// Runs a command of `opplab host` and gives its exit code. It writes to the process's own standard output and error;
/// `again` starts `opplab host` anew, for workers.
#[guarded]
#[pyfunction]
pub(crate) fn host_main(args: Vec<OsString>, again: Vec<OsString>) -> i32 {
    let mut env =
        Env { out: &mut Patient(io::stdout()), err: &mut Patient(io::stderr()), again, name: "opplab host".to_owned() };
    main(args, &mut env)
}

/// The folder of results that words of `opplab host` write to; none where the command writes no folder.
#[guarded]
#[pyfunction]
pub(crate) fn host_output(args: Vec<OsString>) -> Option<PathBuf> {
    output_of(args)
}
