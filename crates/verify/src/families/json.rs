//! Fields of JSON vectors, with errors that say the file and line.

use serde_json::Value;

use crate::{Source, VerifyError};

/// Where a JSON value comes from.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The file.
    pub source: &'a Source,
    /// One-based line.
    pub line: u64,
}

impl At<'_> {
    /// A parse error at this line.
    pub fn error(&self, reason: impl Into<String>) -> VerifyError {
        self.source.error(self.line, reason)
    }

    /// The member `key` of an object.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is none.
    pub fn get<'v>(&self, value: &'v Value, key: &str) -> Result<&'v Value, VerifyError> {
        value.get(key).ok_or_else(|| self.error(format!("no field {key:?}")))
    }

    /// The array in the member `key`.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is none.
    pub fn array<'v>(&self, value: &'v Value, key: &str) -> Result<&'v [Value], VerifyError> {
        let array = self.get(value, key)?.as_array();
        array.map(Vec::as_slice).ok_or_else(|| self.error(format!("field {key:?} is not an array")))
    }

    /// An integer of any type.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if it is not an integer or does not fit.
    pub fn integer<T: TryFrom<i128>>(&self, value: &Value) -> Result<T, VerifyError> {
        let wide = value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from));
        wide.and_then(|wide| T::try_from(wide).ok())
            .ok_or_else(|| self.error(format!("not a fitting integer: {value}")))
    }

    /// The integer in the member `key`.
    ///
    /// # Errors
    /// As [`At::get`] and [`At::integer`].
    pub fn num<T: TryFrom<i128>>(&self, value: &Value, key: &str) -> Result<T, VerifyError> {
        self.integer(self.get(value, key)?)
    }

    /// The member `key` as 0 or not 0.
    ///
    /// # Errors
    /// As [`At::num`].
    pub fn flag(&self, value: &Value, key: &str) -> Result<bool, VerifyError> {
        Ok(self.num::<i128>(value, key)? != 0)
    }

    /// An array of integers.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if it is not one.
    pub fn numbers<T: TryFrom<i128>>(&self, value: &Value) -> Result<Vec<T>, VerifyError> {
        let array = value.as_array().ok_or_else(|| self.error("not an array"))?;
        array.iter().map(|item| self.integer(item)).collect()
    }
}
