//! Why a file cannot be read: one line, with position and the nearest valid name.
//!
//! Inside the crate readers return a [`Fault`], which knows no file name; the entry points add it.

use opplab_kernel::profile::{nearest_profile, profile_names};
use opplab_kernel::proposals::ProposalError;
use std::fmt;

/// A place in a text: line and column, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pos {
    /// Line, from 1; 0 if the thing was not read from a text.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Pos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What this crate reports when it refuses something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// An error at a place of a file.
    #[error("failed to read {file}:{line}:{column}: {message}{}", did_you_mean(.suggestion.as_deref()))]
    Input {
        /// Name of the file, as the caller gave it.
        file: String,
        /// Line, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
        /// What is wrong.
        message: String,
        /// Nearest valid name, if a name was wrong.
        suggestion: Option<String>,
    },
    /// Something that has no place in a file, such as a name given on a command line.
    #[error("failed to use {what}: {message}{}", did_you_mean(.suggestion.as_deref()))]
    Use {
        /// What was to be used.
        what: String,
        /// What is wrong with it.
        message: String,
        /// Nearest valid name, if a name was wrong.
        suggestion: Option<String>,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// A [`ModelError`] that does not know its file yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: Pos,
    /// What is wrong.
    pub message: String,
    /// Nearest valid name.
    pub suggestion: Option<String>,
}

impl Fault {
    /// A fault without a suggestion.
    pub fn new(at: Pos, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), suggestion: None }
    }

    /// `what` `name` is none of `valid`.
    pub fn unknown<'a>(at: Pos, what: &str, name: &str, valid: impl IntoIterator<Item = &'a str>) -> Self {
        let valid: Vec<&str> = valid.into_iter().collect();
        // Of numbers, such as versions, none is near in spelling: list them all.
        let is_number = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'v'));
        let suggestion = if is_number { None } else { nearest(name, valid.iter().copied()).map(String::from) };
        let mut message = format!("unknown {what} `{}`", shorten(name));
        if suggestion.is_none() && !valid.is_empty() && valid.len() <= 16 {
            message.push_str(&format!(" (known: {})", valid.join(", ")));
        }
        Self { at, message, suggestion }
    }

    /// The fault as an error of `file`.
    pub fn in_file(self, file: &str) -> ModelError {
        ModelError::Input {
            file: file.to_owned(),
            line: self.at.line,
            column: self.at.column,
            message: self.message,
            suggestion: self.suggestion,
        }
    }

    /// The fault as an error of something that is not a file.
    pub fn about(self, what: &str) -> ModelError {
        ModelError::Use { what: what.to_owned(), message: self.message, suggestion: self.suggestion }
    }
}

/// The name in `valid` that is nearest to `name`, if one is near.
pub fn nearest<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: String = name.chars().take(64).collect::<String>().to_lowercase().replace('-', "_");
    valid
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase().replace('-', "_")), candidate))
        .filter(|&(distance, candidate)| distance <= candidate.chars().count().max(3) / 3)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// `text` in a length and form that fits into one line of an error message.
pub fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= 60 { clean } else { clean.chars().take(57).collect::<String>() + "..." }
}

/// There is no profile of that name; the nearest is by version.
pub(crate) fn unknown_kernel(at: Pos, kernel: &str) -> Fault {
    let fault = Fault::unknown(at, "kernel profile", kernel, profile_names());
    let nearest = nearest_profile(kernel).map(String::from).or(fault.suggestion.clone());
    Fault { suggestion: nearest, ..fault }
}

/// A wrong proposal, with the nearest right name.
pub(crate) fn proposal_fault(at: Pos, error: &ProposalError) -> Fault {
    match (error.wrong_name(), error) {
        (Some((name, known)), ProposalError::UnknownParam { proposal, .. }) => {
            Fault::unknown(at, &format!("parameter of proposal {proposal}"), name, known)
        }
        (Some((name, known)), _) => Fault::unknown(at, "proposal", name, known),
        (None, _) => Fault::new(at, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_with_position_and_suggestion() {
        let fault = Fault::unknown(Pos { line: 12, column: 3 }, "key", "capasity", ["cpus", "capacity"]);
        assert_eq!(
            fault.in_file("juno.toml").to_string(),
            "failed to read juno.toml:12:3: unknown key `capasity`; did you mean `capacity`?"
        );
        let fault = Fault::unknown(Pos::default(), "machine", "xyz\nzyx", ["juno-r2", "juno-r0"]);
        assert_eq!(
            fault.about("--machine").to_string(),
            "failed to use --machine: unknown machine `xyz zyx` (known: juno-r2, juno-r0)"
        );
    }

    #[test]
    fn nearest_needs_to_be_near() {
        assert_eq!(nearest("juno_r2", ["juno-r0", "juno-r2"]), Some("juno-r2"));
        assert_eq!(nearest("cpu", ["cpus"]), Some("cpus"));
        assert_eq!(nearest("zebra", ["cpus", "capacity"]), None);
    }
}
