//! Vector files as tables: CSV with a header line or one JSON value a line, plain or gzip.

use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Diff, Tally, VerifyError};

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

    /// The rows of a CSV file.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] on a malformed line.
    pub fn table(&self) -> Result<Table<'_>, VerifyError> {
        let mut reader = csv::ReaderBuilder::new().from_reader(self.text.as_bytes());
        let header = reader.headers().map_err(|error| self.error(1, error.to_string()))?.clone();
        let mut records = Vec::new();
        for record in reader.into_records() {
            records.push(record.map_err(|error| {
                let line = error.position().map_or(0, csv::Position::line);
                self.error(line, error.to_string())
            })?);
        }
        Ok(Table { source: self, header, records })
    }

    /// Replays the rows of a CSV file, each of which is a case.
    ///
    /// # Errors
    /// As [`Source::table`] and `replay`.
    pub fn each_row(
        &self,
        tally: &mut Tally,
        mut replay: impl FnMut(&Row<'_>, &mut Diff) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        for row in self.table()?.rows() {
            let mut diff = Diff::default();
            replay(&row, &mut diff)?;
            tally.case(|| row.place(), diff.finish());
        }
        Ok(())
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

/// A CSV file in memory.
pub struct Table<'a> {
    source: &'a Source,
    header: csv::StringRecord,
    records: Vec<csv::StringRecord>,
}

impl<'a> Table<'a> {
    /// The rows in file order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.records.iter().map(|record| {
            let row = Row { source: self.source, header: &self.header, record };
            self.source.line.set(row.line());
            row
        })
    }
}

/// One row; fields are found by the header's names.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    source: &'a Source,
    header: &'a csv::StringRecord,
    record: &'a csv::StringRecord,
}

impl<'a> Row<'a> {
    /// One-based line in the file.
    pub fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    /// `file:line`, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.source.file, self.line())
    }

    /// A parse error in this row.
    pub fn error(&self, reason: impl Into<String>) -> VerifyError {
        self.source.error(self.line(), reason)
    }

    /// The text of a column.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such column.
    pub fn str(&self, column: &str) -> Result<&'a str, VerifyError> {
        let index = self.header.iter().position(|name| name == column);
        index.and_then(|index| self.record.get(index)).ok_or_else(|| self.error(format!("no column {column:?}")))
    }

    /// The number in a column, in any integer type.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if the column is missing or is not such a number.
    pub fn num<T>(&self, column: &str) -> Result<T, VerifyError>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let text = self.str(column)?;
        text.parse().map_err(|error| self.error(format!("column {column:?} is {text:?}: {error}")))
    }

    /// A column that holds 0 or 1.
    ///
    /// # Errors
    /// As [`Row::num`].
    pub fn flag(&self, column: &str) -> Result<bool, VerifyError> {
        Ok(self.num::<u64>(column)? != 0)
    }
}
