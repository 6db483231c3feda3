//! Reads the fields of a JSON line by name or place, with the line's number in every error.

use serde_json::Value;

use crate::{Source, VerifyError};

/// One JSON value of a line.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    source: &'a Source,
    line: u64,
    value: &'a Value,
}

impl<'a> Fields<'a> {
    /// The whole line.
    pub(super) fn new(source: &'a Source, line: u64, value: &'a Value) -> Self {
        Self { source, line, value }
    }

    /// `file:line`, for messages.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.source.file, self.line)
    }

    fn error(&self, reason: String) -> VerifyError {
        self.source.error(self.line, reason)
    }

    /// The value of a key of an object.
    pub(super) fn get(&self, key: &str) -> Result<Fields<'a>, VerifyError> {
        self.find(key).ok_or_else(|| self.error(format!("no field {key:?}")))
    }

    /// The value of a key of an object, if it is there and not null.
    pub(super) fn find(&self, key: &str) -> Option<Fields<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Fields { value, ..*self })
    }

    /// An element of an array.
    pub(super) fn at(&self, index: usize) -> Result<Fields<'a>, VerifyError> {
        let value = self.value.get(index).ok_or_else(|| self.error(format!("no element {index}")))?;
        Ok(Fields { value, ..*self })
    }

    /// The elements of an array.
    pub(super) fn items(&self) -> Result<impl Iterator<Item = Fields<'a>> + use<'a>, VerifyError> {
        let array = self.value.as_array().ok_or_else(|| self.error(format!("{} is not an array", self.value)))?;
        let this = *self;
        Ok(array.iter().map(move |value| Fields { value, ..this }))
    }

    /// The entries of an object.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = (&'a str, Fields<'a>)> + use<'a>, VerifyError> {
        let object = self.value.as_object().ok_or_else(|| self.error(format!("{} is not an object", self.value)))?;
        let this = *self;
        Ok(object.iter().map(move |(key, value)| (key.as_str(), Fields { value, ..this })))
    }

    /// The value as text.
    pub(super) fn text(&self) -> Result<&'a str, VerifyError> {
        self.value.as_str().ok_or_else(|| self.error(format!("{} is not a string", self.value)))
    }

    /// The value as an integer of any type that holds it.
    pub(super) fn int<T: TryFrom<i128>>(&self) -> Result<T, VerifyError> {
        let wide = self.value.as_i64().map(i128::from).or_else(|| self.value.as_u64().map(i128::from));
        wide.and_then(|wide| T::try_from(wide).ok())
            .ok_or_else(|| self.error(format!("{} is not an integer of the type wanted", self.value)))
    }

    /// The integer of a key.
    pub(super) fn num<T: TryFrom<i128>>(&self, key: &str) -> Result<T, VerifyError> {
        self.get(key)?.int()
    }

    /// The integer of an element.
    pub(super) fn nth<T: TryFrom<i128>>(&self, index: usize) -> Result<T, VerifyError> {
        self.at(index)?.int()
    }

    /// A key that holds 0 or 1.
    pub(super) fn flag(&self, key: &str) -> Result<bool, VerifyError> {
        Ok(self.num::<u64>(key)? != 0)
    }

    /// The integers of an array.
    pub(super) fn ints<T: TryFrom<i128>>(&self) -> Result<Vec<T>, VerifyError> {
        self.items()?.map(|item| item.int()).collect()
    }

    /// The integers of the array of a key.
    pub(super) fn nums<T: TryFrom<i128>>(&self, key: &str) -> Result<Vec<T>, VerifyError> {
        self.get(key)?.ints()
    }
}
