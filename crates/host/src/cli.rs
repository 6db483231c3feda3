//! The command line of `opplab host` and of `opplab-agent`.
//!
//! Arguments in, text out, exit code back: 0 done, 1 a check failed, 2 wrong usage or input, 3 the host lacks what is
//! needed or refuses.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use lexopt::prelude::*;

use crate::error::HostError;
use crate::root::Root;
use crate::show;

/// Where a command writes, and how it calls itself.
pub struct Env<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// Program and leading arguments that start this command line again, for workers.
    pub again: Vec<OsString>,
    /// The name that messages begin with.
    pub name: String,
}

/// The commands with a line about each.
const COMMANDS: &[(&str, &str)] = &[("show", "what the host says about frequency, idle, energy and the scheduler")];

/// Runs one command; `args` are the words after the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> i32 {
    match run(args, env) {
        Ok(code) => code,
        Err(error) => {
            let code = match error {
                HostError::Usage(_) | HostError::Input { .. } => 2,
                _ => 3,
            };
            // Nobody may be there to read it.
            let _ = writeln!(env.err, "{}: {error}", env.name);
            code
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut words = lexopt::Parser::from_args(args);
    let command = match words.next()? {
        Some(Value(command)) => command.to_string_lossy().into_owned(),
        Some(Long("version")) => return print(env, &format!("opplab {}\n", env!("CARGO_PKG_VERSION"))),
        Some(Long("help") | Short('h')) => return help(env),
        Some(other) => return Err(other.unexpected().into()),
        None => {
            help(env)?;
            return Ok(2);
        }
    };
    match command.as_str() {
        "show" => show(words, env),
        other => {
            let near = nearest(other, COMMANDS.iter().map(|(name, _)| *name));
            Err(HostError::Usage(format!("no such command `{other}`{near}")))
        }
    }
}

/// `; did you mean ...?` for the nearest of the names.
pub(crate) fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> String {
    let distance = |name: &str| {
        // Levenshtein, one row.
        let (a, b): (Vec<char>, Vec<char>) = (wrong.chars().collect(), name.chars().collect());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut corner = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let next = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
                corner = std::mem::replace(&mut row[j + 1], next);
            }
        }
        row[b.len()]
    };
    let best = names.map(|name| (distance(name), name)).min();
    best.filter(|(far, name)| *far <= name.len().div_ceil(2))
        .map_or_else(String::new, |(_, name)| format!("; did you mean `{name}`?"))
}

/// Writes; a reader that went away ends the command quietly.
pub(crate) fn print(env: &mut Env<'_>, text: &str) -> Result<i32, HostError> {
    match env.out.write_all(text.as_bytes()).and_then(|()| env.out.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(141),
        Err(error) => Err(HostError::io("standard output", error)),
    }
}

fn help(env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut text = format!("Usage: {} COMMAND [--help]\n\nCommands:\n", env.name);
    for (name, about) in COMMANDS {
        text += &format!("  {name:<10} {about}\n");
    }
    print(env, &text)
}

impl From<lexopt::Error> for HostError {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

const SHOW_HELP: &str = "\
Usage: show [--root DIR] [--json]

What the host says about frequency, idle states, energy and its scheduler, each value with the file that said so.

  --root DIR  a copied tree (a folder with sys and proc in it), a sysfs snapshot or a machine dump
  --json      one line of JSON
";

fn show(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let (mut path, mut json) = (PathBuf::from("/"), false);
    while let Some(word) = words.next()? {
        match word {
            Long("root") => path = words.value()?.into(),
            Long("json") => json = true,
            Long("help") | Short('h') => return print(env, SHOW_HELP),
            other => return Err(other.unexpected().into()),
        }
    }
    let report = show::report(&Root::open(&path)?, &path);
    let text = if json { report.json() + "\n" } else { report.text() };
    print(env, &text)
}
