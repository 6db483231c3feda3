//! Fields of a JSON line by name, with errors that say the line and the path.

use serde_json::Value;

use crate::{Source, VerifyError};

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

    /// The value as serde_json has it.
    pub fn value(&self) -> &'a Value {
        self.value
    }

    /// An error at this line.
    pub fn error(&self, reason: impl Into<String>) -> VerifyError {
        self.source.error(self.line, reason)
    }

    /// A member of an object.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such member.
    pub fn get(&self, name: &str) -> Result<Json<'a>, VerifyError> {
        let value = self.value.get(name).ok_or_else(|| self.error(format!("no member {name:?}")))?;
        Ok(Json { value, ..*self })
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
    pub fn items(&self) -> Result<impl Iterator<Item = Json<'a>>, VerifyError> {
        let items = self.value.as_array().ok_or_else(|| self.error(format!("{} is no array", self.value)))?;
        let (source, line) = (self.source, self.line);
        Ok(items.iter().map(move |value| Json { source, line, value }))
    }

    /// A number in any integer type.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no such number.
    pub fn num<T: TryFrom<i128>>(&self) -> Result<T, VerifyError> {
        let wide = match self.value {
            Value::Number(number) => number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from)),
            Value::Bool(flag) => Some(i128::from(*flag)),
            _ => None,
        };
        wide.and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.error(format!("{} is no number that fits", self.value)))
    }

    /// A number that is 0 or not.
    ///
    /// # Errors
    /// As [`Json::num`].
    pub fn flag(&self) -> Result<bool, VerifyError> {
        Ok(self.num::<i128>()? != 0)
    }

    /// A text.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if this is no text.
    pub fn str(&self) -> Result<&'a str, VerifyError> {
        self.value.as_str().ok_or_else(|| self.error(format!("{} is no text", self.value)))
    }

    /// An array of numbers.
    ///
    /// # Errors
    /// As [`Json::items`] and [`Json::num`].
    pub fn list<T: TryFrom<i128>>(&self) -> Result<Vec<T>, VerifyError> {
        self.items()?.map(|item| item.num()).collect()
    }
}
