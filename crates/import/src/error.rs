//! Why a source cannot be imported: one line that names the file and the place in it.

use std::fmt;

/// Where in a source something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line of a text, from 1.
    Line(usize),
    /// A byte of a binary file, from 0.
    Byte(usize),
    /// The source as a whole.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, ":{line}"),
            Self::Byte(byte) => write!(f, ": byte {byte}"),
            Self::Whole => Ok(()),
        }
    }
}

/// Why this crate refuses a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to import {file}{place}: {message}")]
pub struct ImportError {
    /// The file, or the file inside an archive as `archive!member`.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// What is wrong.
    pub message: String,
}

impl ImportError {
    /// An error about a line of a text.
    pub(crate) fn line(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::Line(line), message: message.into() }
    }

    /// An error about a byte of a binary file.
    pub(crate) fn byte(file: &str, byte: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::Byte(byte), message: message.into() }
    }

    /// An error about a source as a whole.
    pub(crate) fn whole(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), place: Place::Whole, message: message.into() }
    }
}

/// The first characters of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short.escape_debug().to_string()
}
