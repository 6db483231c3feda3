//! What the commands have in common: where they write, and the words that they are given.

use std::ffi::OsString;
use std::io::Write;

use crate::error::HostError;

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

/// Prints the help of a command: the lines of its usage begin with the name of the program.
pub(crate) fn print_help(env: &mut Env<'_>, text: &str) -> Result<i32, HostError> {
    let (usage, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let name = &env.name;
    let usage: Vec<String> = usage
        .lines()
        .map(|line| match line.split_at_checked("Usage: ".len()) {
            Some((margin, words)) => format!("{margin}{name} {words}"),
            None => line.to_owned(),
        })
        .collect();
    print(env, &format!("{}\n\n{rest}", usage.join("\n")))
}

/// `--format text` or `--format json`: whether it is JSON.
pub(crate) fn is_json(words: &mut lexopt::Parser) -> Result<bool, HostError> {
    let word = text(words.value()?);
    match word.as_str() {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err(HostError::Usage(format!("--format: one of text, json, not `{word}`"))),
    }
}

impl From<lexopt::Error> for HostError {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The word as text.
pub(crate) fn text(word: OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// A time with its unit: `500us`, `100ms`, `1.5s`, `2m`, `1h`.
pub(crate) fn time_ns(what: &str, word: &str) -> Result<u64, HostError> {
    let split = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    let (number, unit) = word.split_at(split);
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(HostError::Usage(format!("--{what}: `{word}` needs a unit: 100ms, 2s, 10m, 1h"))),
    };
    let number: f64 = number.parse().map_err(|_| HostError::Usage(format!("--{what}: `{word}` is not a time")))?;
    let ns = number * unit_ns;
    if !(1.0..=1e18).contains(&ns) {
        return Err(HostError::Usage(format!("--{what}: `{word}` is out of range")));
    }
    Ok(ns as u64)
}
