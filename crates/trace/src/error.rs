//! What can go wrong with a trace, with the place in the file.
//!
//! A reader returns an error only when nothing at all can be read.
//! Damage that is met on the way is a *problem*: it is kept in [`crate::Trace::problems`] beside everything that was read.

use std::path::PathBuf;

/// Why a trace, or a part of it, could not be read; messages follow "failed to read the trace: …".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// No reader recognises the content.
    #[error(
        "not a trace that is known here (looked for trace.dat, perf.data, ftrace text, systrace HTML, Perfetto, tar of ring-buffer pages); it begins with {start}"
    )]
    NotATrace {
        /// The first bytes, printable.
        start: String,
    },
    /// A folder without files of ring-buffer pages.
    #[error("a folder, and not one of ring-buffer pages (cpu0/trace_pipe_raw, ...){}", within(.inside.as_deref()))]
    Folder {
        /// A file in it whose name is that of a trace.
        inside: Option<String>,
    },
    /// The content ends inside of something.
    #[error("offset {offset}: {what} is cut off: {needed} bytes needed, {have} there")]
    Truncated {
        /// Where it starts, in bytes from the start of the (decompressed) file.
        offset: u64,
        /// What was being read.
        what: String,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// The content contradicts its format.
    #[error("offset {offset}: {what}")]
    Invalid {
        /// Where, in bytes from the start of the (decompressed) file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A line of a text trace that is no event, no comment and no header.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Compressed content is damaged or larger than allowed.
    #[error("offset {offset}: {codec}: {what}")]
    Compression {
        /// Where the compressed data start.
        offset: u64,
        /// `gzip`, `xz`, `zstd` or `zlib`.
        codec: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The content is well-formed but this version cannot read it.
    #[error("{what}")]
    Unsupported {
        /// What it is.
        what: String,
    },
    /// An event was asked for that the trace does not know.
    #[error("event {name:?} is not in this trace{}", nearest.as_ref().map(|n| format!("; nearest name: {n:?}")).unwrap_or_default())]
    UnknownEvent {
        /// The name as asked.
        name: String,
        /// The nearest name that the trace knows.
        nearest: Option<String>,
    },
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Finds the name that is nearest to `name`, when one is near enough to be a likely slip.
pub fn nearest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_string())
}

/// What to open instead of a folder.
fn within(inside: Option<&str>) -> String {
    inside.map_or_else(|| "; name the trace itself".to_owned(), |name| format!("; the trace in it is {name}"))
}
