//! Vector files as tables: CSV with a header line or one JSON value a line, plain or gzip.

use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::fields::{Fields, Key, Raw};
use crate::{Compared, Diff, Tally, VerifyError};

const EXTENSIONS: [&str; 4] = [".csv", ".csv.gz", ".jsonl", ".jsonl.gz"];

/// The most that is read of a vector file, packed or not; the largest has some 30 MB.
const BYTES_MAX: u64 = 512 << 20;

/// One vector file, unpacked.
pub struct Source {
    /// The file's name, for messages.
    pub file: String,
    pub(crate) text: String,
    /// The line that is replayed.
    pub(crate) line: Cell<u64>,
}

impl Source {
    /// The family of a file's name, if it is a vector file.
    pub fn family_of(path: &Path) -> Option<String> {
        let name = path.file_name()?.to_str()?;
        EXTENSIONS.iter().find_map(|extension| name.strip_suffix(extension)).map(str::to_owned)
    }

    /// Reads and unpacks `path`.
    ///
    /// # Errors
    /// [`VerifyError::Read`].
    pub fn open(path: &Path) -> Result<Self, VerifyError> {
        let bytes = opplab_trace::read_whole(path, BYTES_MAX)
            .map_err(|reason| VerifyError::Read { path: path.to_owned(), reason: reason.to_string() })?;
        let mut source = Self::of(&path.to_string_lossy(), &bytes)?;
        source.file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(source)
    }

    /// Unpacks the bytes of the vector file called `file`.
    ///
    /// # Errors
    /// [`VerifyError::Read`].
    pub fn of(file: &str, bytes: &[u8]) -> Result<Self, VerifyError> {
        let error =
            |reason: std::io::Error| VerifyError::Read { path: PathBuf::from(file), reason: reason.to_string() };
        let mut text = String::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let unpacked = flate2::read::MultiGzDecoder::new(bytes);
            unpacked.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(error)?;
        } else {
            (&*bytes).read_to_string(&mut text).map_err(error)?;
        }
        if text.len() as u64 > BYTES_MAX {
            let reason = format!("more than {BYTES_MAX} bytes unpacked");
            return Err(VerifyError::Read { path: PathBuf::from(file), reason });
        }
        Ok(Self { file: file.to_owned(), text, line: Cell::new(1) })
    }

    /// Hands on the rows of a CSV file.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] on a malformed line, and those of `replay`.
    pub fn rows(&self, mut replay: impl FnMut(Row<'_>) -> Compared) -> Compared {
        let mut reader = csv::ReaderBuilder::new().from_reader(self.text.as_bytes());
        let header = reader.headers().map_err(|error| self.error(1, error.to_string()))?.clone();
        for record in reader.into_records() {
            let record = record.map_err(|error| {
                let line = error.position().map_or(0, csv::Position::line);
                self.error(line, error.to_string())
            })?;
            let line = record.position().map_or(0, csv::Position::line);
            self.line.set(line);
            replay(Row { source: self, line, header: &header, record: &record })?;
        }
        Ok(())
    }

    /// Replays the rows of a CSV file, each of which is a case.
    ///
    /// # Errors
    /// As [`Source::rows`].
    pub fn each_row(&self, tally: &mut Tally, mut replay: impl FnMut(&Row<'_>, &mut Diff) -> Compared) -> Compared {
        self.rows(|row| row.case(tally, |diff| replay(&row, diff)))
    }

    /// The line that is replayed, or the last one that was.
    pub fn line(&self) -> u64 {
        self.line.get()
    }

    /// A parse error at `line`.
    pub fn error(&self, line: u64, reason: impl Into<String>) -> VerifyError {
        VerifyError::Parse { file: self.file.clone(), line, reason: reason.into() }
    }
}

/// One row; fields are found by the header's names.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    source: &'a Source,
    line: u64,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl<'a> Row<'a> {
    /// The text of a column.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such column.
    pub fn str(&self, column: &str) -> Result<&'a str, VerifyError> {
        let index = self.header.iter().position(|name| name == column);
        index.and_then(|index| self.record.get(index)).ok_or_else(|| self.error(format!("no column {column:?}")))
    }
}

impl Fields for Row<'_> {
    fn line(&self) -> (&str, u64) {
        (&self.source.file, self.line)
    }

    fn raw(&self, key: Key<'_>) -> Result<Raw<'_>, VerifyError> {
        match key {
            Key::Name(column) => Ok(Raw::Text(self.str(column)?)),
            Key::At(index) => self.record.get(index).map(Raw::Text).ok_or_else(|| self.error("no such column")),
        }
    }
}
