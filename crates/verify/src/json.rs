//! Fields of a JSON line by name or place, with errors that name the line.

use serde_json::Value;

use crate::{Diff, Source, Tally, VerifyError};

/// `.jsonl` files.
impl Source {
    /// Hands on the values of a `.jsonl` file.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] on a malformed line, and those of `replay`.
    pub fn lines(&self, mut replay: impl FnMut(Json<'_>) -> Result<(), VerifyError>) -> Result<(), VerifyError> {
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
    pub fn each_line(
        &self,
        tally: &mut Tally,
        mut replay: impl FnMut(Json<'_>, &mut Diff) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        self.lines(|line| {
            let mut diff = Diff::default();
            replay(line, &mut diff)?;
            tally.case(|| line.place(), diff.finish());
            Ok(())
        })
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

    /// `file:line`, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.source.file, self.line)
    }

    /// An error at this line.
    pub fn error(&self, reason: impl Into<String>) -> VerifyError {
        self.source.error(self.line, reason)
    }

    /// A member of an object, if it is there and not null.
    pub fn find(&self, name: &str) -> Option<Json<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Json { value, ..*self })
    }

    /// A member of an object.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such member.
    pub fn get(&self, name: &str) -> Result<Json<'a>, VerifyError> {
        self.find(name).ok_or_else(|| self.error(format!("no member {name:?}")))
    }

    /// An element of an array.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such element.
    pub fn at(&self, index: usize) -> Result<Json<'a>, VerifyError> {
        let value = self.value.get(index).ok_or_else(|| self.error(format!("no element {index}")))?;
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

    /// A number in any integer type; false and true are 0 and 1.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no such number.
    pub fn int<T: TryFrom<i128>>(&self) -> Result<T, VerifyError> {
        let wide = match self.value {
            Value::Number(number) => number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from)),
            Value::Bool(flag) => Some(i128::from(*flag)),
            _ => None,
        };
        wide.and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.error(format!("{} is no number that fits", self.value)))
    }

    /// An array of numbers.
    ///
    /// # Errors
    /// As [`Json::items`] and [`Json::int`].
    pub fn ints<T: TryFrom<i128>>(&self) -> Result<Vec<T>, VerifyError> {
        self.items()?.map(|item| item.int()).collect()
    }

    /// The number in a member.
    ///
    /// # Errors
    /// As [`Json::get`] and [`Json::int`].
    pub fn num<T: TryFrom<i128>>(&self, name: &str) -> Result<T, VerifyError> {
        self.get(name)?.int()
    }

    /// The numbers in a member.
    ///
    /// # Errors
    /// As [`Json::get`] and [`Json::ints`].
    pub fn nums<T: TryFrom<i128>>(&self, name: &str) -> Result<Vec<T>, VerifyError> {
        self.get(name)?.ints()
    }

    /// A member that is 0 or not.
    ///
    /// # Errors
    /// As [`Json::num`].
    pub fn flag(&self, name: &str) -> Result<bool, VerifyError> {
        Ok(self.num::<i128>(name)? != 0)
    }

    /// The number in an element.
    ///
    /// # Errors
    /// As [`Json::at`] and [`Json::int`].
    pub fn nth<T: TryFrom<i128>>(&self, index: usize) -> Result<T, VerifyError> {
        self.at(index)?.int()
    }

    /// Replays the elements of a member's array, each of which is a case.
    ///
    /// # Errors
    /// As [`Json::get`], [`Json::items`] and `replay`.
    pub fn each(
        &self,
        name: &str,
        tally: &mut Tally,
        mut replay: impl FnMut(Json<'a>, &mut Diff) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        for (index, item) in self.get(name)?.items()?.enumerate() {
            let mut diff = Diff::default();
            replay(item, &mut diff)?;
            tally.case(|| format!("{} {name}[{index}]", self.place()), diff.finish());
        }
        Ok(())
    }
}
