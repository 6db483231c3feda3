//! Replays golden vectors, computed by the real kernel's code, against crate `kernel`.
//!
//! A *family* is one file of vectors (`pelt_se_hl32.csv.gz` is the family `pelt_se_hl32`). Each family has one
//! function that replays every row and compares every output column for equality; nothing is "close".
//! The columns are explained in the README that lies beside the vectors.

pub mod families;
pub mod fields;
pub mod json;
pub mod source;
pub mod traces;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub use source::{Row, Source};

/// What can go wrong before a comparison: the file, not the algorithm, is at fault.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file could not be read or unpacked.
    #[error("failed to read {path}: {reason}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system or the decompressor.
        reason: String,
    },
    /// A row does not have the form that its family's README describes.
    #[error("failed to parse {file}:{line}: {reason}")]
    Parse {
        /// The file's name.
        file: String,
        /// One-based line.
        line: u64,
        /// What is missing or malformed.
        reason: String,
    },
}

/// The count of one family: how many rows were replayed and how many differed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Rows (or steps) compared.
    pub cases: u64,
    /// Rows with at least one differing output.
    pub mismatches: u64,
    /// The first difference, in words.
    pub first: Option<String>,
}

impl Tally {
    /// Counts one case, which `replay` compares.
    ///
    /// # Errors
    /// Those of `replay`.
    pub fn compare(&mut self, place: impl FnOnce() -> String, replay: impl FnOnce(&mut Diff) -> Compared) -> Compared {
        let mut diff = Diff::default();
        replay(&mut diff)?;
        self.cases += 1;
        if let Some(what) = diff.0 {
            self.mismatches += 1;
            self.first.get_or_insert_with(|| format!("{}: {what}", place()));
        }
        Ok(())
    }
}

/// The first differing field of a case.
#[derive(Debug, Default)]
pub struct Diff(Option<String>);

impl Diff {
    /// Compares one output field.
    pub fn eq<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, expected: T, got: T) -> &mut Self {
        if expected != got && self.0.is_none() {
            self.0 = Some(format!("{field}: expected {expected:?}, got {got:?}"));
        }
        self
    }
}

/// One family of vectors and the function that replays it.
pub struct Family {
    /// The file's name without its extensions.
    pub name: &'static str,
    /// How it is replayed.
    pub run: Run,
}

/// Nothing, as what was compared is in the tally, or why the file cannot be compared.
pub type Compared = Result<(), VerifyError>;

/// What a family's function replays.
pub enum Run {
    /// A row, which is a case.
    Rows(fn(&Row<'_>, &mut Diff) -> Compared),
    /// A line of JSON, which is a case.
    Lines(fn(json::Json<'_>, &mut Diff) -> Compared),
    /// The whole file.
    File(fn(&Source, &mut Tally) -> Compared),
}

/// The result of one vector file.
#[derive(Debug)]
pub struct Outcome {
    /// The family's name.
    pub family: String,
    /// The file.
    pub path: PathBuf,
    /// `None` when the family is not built here yet.
    pub tally: Option<Tally>,
}

/// All families that are built, in the order of the vectors' README.
pub fn all_families() -> impl Iterator<Item = &'static Family> {
    families::GROUPS.iter().flat_map(|group| group.iter())
}

/// The vector files at `path` (a file or a folder), sorted by name.
///
/// # Errors
/// [`VerifyError::Read`] if `path` cannot be listed.
pub fn find_vectors(path: &Path) -> Result<Vec<PathBuf>, VerifyError> {
    let read_error = |reason: std::io::Error| VerifyError::Read { path: path.to_owned(), reason: reason.to_string() };
    if !std::fs::metadata(path).map_err(read_error)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read_error)? {
        let file = entry.map_err(read_error)?.path();
        if Source::family_of(&file).is_some() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn family_of(path: &Path) -> Result<String, VerifyError> {
    Source::family_of(path).ok_or_else(|| VerifyError::Read {
        path: path.to_owned(),
        reason: "not a vector file (.csv, .csv.gz, .jsonl or .jsonl.gz)".into(),
    })
}

/// Replays one vector file.
///
/// # Errors
/// As [`replay`], and if the file cannot be read.
pub fn verify_file(path: &Path) -> Result<Outcome, VerifyError> {
    let family = family_of(path)?;
    if all_families().all(|known| known.name != family) {
        return Ok(Outcome { family, path: path.to_owned(), tally: None });
    }
    Ok(Outcome { path: path.to_owned(), ..replay(&Source::open(path)?)? })
}

/// Replays the vectors of a file that is read already. A value that lies outside of what an algorithm takes (a CPU that is
/// not there, a shift by more bits than a word has) is an error of its line, whatever the algorithm makes of it.
///
/// # Errors
/// [`VerifyError`] if the file has no case, or does not have its family's form.
pub fn replay(source: &Source) -> Result<Outcome, VerifyError> {
    let path = PathBuf::from(&source.file);
    let family = family_of(&path)?;
    let tally = match all_families().find(|known| known.name == family) {
        None => None,
        Some(known) => {
            let mut tally = Tally::default();
            let run = AssertUnwindSafe(|| match known.run {
                Run::Rows(replay) => source.each_row(&mut tally, replay),
                Run::Lines(replay) => source.each_line(&mut tally, replay),
                Run::File(replay) => replay(source, &mut tally),
            });
            match catch_unwind(run) {
                Ok(result) => result?,
                Err(_) => return Err(source.error(source.line(), "a value is outside of what the algorithm takes")),
            }
            if tally.cases == 0 {
                return Err(source.error(1, "the file has no case"));
            }
            Some(tally)
        }
    };
    Ok(Outcome { family, path, tally })
}
