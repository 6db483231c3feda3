//! Fields of a JSON line by name or place, with errors that name the line.

use serde_json::Value;

use crate::fields::{Fields, Key, Raw};
use crate::{Compared, Diff, Source, Tally, VerifyError};

/// `.jsonl` files.
impl Source {
    /// Hands on the values of a `.jsonl` file.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] on a malformed line, and those of `replay`.
    pub fn lines(&self, mut replay: impl FnMut(Json<'_>) -> Compared) -> Compared {
        for (index, line) in self.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = index as u64 + 1;
            self.line.set(number);
            let value = serde_json::from_str(line).map_err(|error| self.error(number, error.to_string()))?;
            replay(Json::new(self, number, &value))?;
        }
        Ok(())
    }

    /// Replays the values of a `.jsonl` file, each of which is a case.
    ///
    /// # Errors
    /// As [`Source::lines`].
    pub fn each_line(&self, tally: &mut Tally, mut replay: impl FnMut(Json<'_>, &mut Diff) -> Compared) -> Compared {
        self.lines(|line| line.case(tally, |diff| replay(line, diff)))
    }
}

/// A value in a line of a `.jsonl` file.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    source: &'a Source,
    line: u64,
    value: &'a Value,
}

impl<'a> Json<'a> {
    /// The value of one line.
    pub fn new(source: &'a Source, line: u64, value: &'a Value) -> Self {
        Self { source, line, value }
    }

    /// A member of an object, if it is there and not null.
    pub fn find(&self, name: &str) -> Option<Json<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Json { value, ..*self })
    }

    /// A member of an object, or an element of an array.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is none.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Json<'a>, VerifyError> {
        let value = match key.into() {
            Key::Name(name) => {
                return self.find(name).ok_or_else(|| self.error(format!("no member {name:?}")));
            }
            Key::At(index) => self.value.get(index).ok_or_else(|| self.error(format!("no element {index}")))?,
        };
        Ok(Json { value, ..*self })
    }

    /// The elements of an array.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no array.
    pub fn items(&self) -> Result<impl Iterator<Item = Json<'a>> + use<'a>, VerifyError> {
        let items = self.value.as_array().ok_or_else(|| self.error(format!("{} is no array", self.value)))?;
        let this = *self;
        Ok(items.iter().map(move |value| Json { value, ..this }))
    }

    /// The members of an object.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no object.
    pub fn entries(&self) -> Result<impl Iterator<Item = (&'a str, Json<'a>)> + use<'a>, VerifyError> {
        let object = self.value.as_object().ok_or_else(|| self.error(format!("{} is no object", self.value)))?;
        let this = *self;
        Ok(object.iter().map(move |(name, value)| (name.as_str(), Json { value, ..this })))
    }

    /// A text.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no text.
    pub fn text(&self) -> Result<&'a str, VerifyError> {
        self.value.as_str().ok_or_else(|| self.error(format!("{} is no text", self.value)))
    }

    /// This value in the type that is asked for.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if it is something else.
    pub fn value<T: crate::fields::Value>(&self) -> Result<T, VerifyError> {
        T::of(Raw::Json(self.value)).ok_or_else(|| self.error(format!("{} is not a value that fits", self.value)))
    }

    /// Replays the elements of a member's array, each of which is a case.
    ///
    /// # Errors
    /// As [`Json::get`], [`Json::items`] and `replay`.
    pub fn each(
        &self,
        name: &str,
        tally: &mut Tally,
        mut replay: impl FnMut(Json<'a>, &mut Diff) -> Compared,
    ) -> Compared {
        for (index, item) in self.get(name)?.items()?.enumerate() {
            tally.compare(|| format!("{} {name}[{index}]", self.place()), |diff| replay(item, diff))?;
        }
        Ok(())
    }
}

impl Fields for Json<'_> {
    fn line(&self) -> (&str, u64) {
        (&self.source.file, self.line)
    }

    fn raw(&self, key: Key<'_>) -> Result<Raw<'_>, VerifyError> {
        Ok(Raw::Json(self.get(key)?.value))
    }
}
