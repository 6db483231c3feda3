//! `opplab-agent`: the commands of `opplab host` in one static binary, for devices without Python.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use opplab_host::cli::{Env, main as run};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("opplab-agent"));
    let again = std::env::current_exe().map_or(program, Into::into);
    let mut env =
        Env { out: &mut io::stdout(), err: &mut io::stderr(), again: vec![again], name: "opplab-agent".to_owned() };
    ExitCode::from(u8::try_from(run(args, &mut env)).unwrap_or(1))
}
