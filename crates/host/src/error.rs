//! What can go wrong on a host, in one line each.

use std::io;

use opplab_import::SourceError;

/// Why a command did nothing, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The system refused a file or a call.
    #[error("{what}: {}{}", describe(.source), hint(.source))]
    Io {
        /// The file, or what was tried.
        what: String,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The host lacks what the command needs.
    #[error("{0}")]
    Lacking(String),
    /// A file that was handed in is wrong.
    #[error("{file}:{line}:{column}: {message}")]
    Input {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A copied tree or a dump is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl HostError {
    /// The system refused `what`.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }
}

/// The system's words without Rust's `(os error N)`.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(1 | 13) => " (try as root)",
        Some(30) => " (is /sys mounted read-only, as in a container?)",
        _ => "",
    }
}
