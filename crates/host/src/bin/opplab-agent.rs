//! `opplab-agent`: the commands of `opplab host` in one static binary, for devices without Python.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use opplab_host::cli::main as run;
use opplab_host::command::Env;
use opplab_host::patient::Patient;

/// Exit code of our own mistakes.
const INTERNAL: i32 = 70;

fn main() -> ExitCode {
    // In one line, as all other errors; whoever is left of a run puts the settings back.
    std::panic::set_hook(Box::new(|info| {
        eprintln!("opplab-agent: internal error: {info}; this is a bug in opplab, please report it");
        std::process::exit(INTERNAL);
    }));
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("opplab-agent"));
    let again = std::env::current_exe().map_or(program, Into::into);
    let mut env = Env {
        out: &mut Patient(io::stdout()),
        err: &mut Patient(io::stderr()),
        again: vec![again],
        name: "opplab-agent".to_owned(),
    };
    ExitCode::from(u8::try_from(run(args, &mut env)).unwrap_or(1))
}
