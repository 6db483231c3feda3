//! Fields of a row or of a JSON value by name or place, in the type that is asked for.

use serde_json::Value as JsonValue;

use crate::{Compared, Diff, Tally, VerifyError};

/// Where a field is.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The name of a column or of a member.
    Name(&'a str),
    /// The place in a row or in an array.
    At(usize),
}

impl<'a> From<&'a str> for Key<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name)
    }
}

impl From<usize> for Key<'_> {
    fn from(index: usize) -> Self {
        Self::At(index)
    }
}

/// A field as the file has it.
#[derive(Clone, Copy)]
pub enum Raw<'a> {
    /// A column's text.
    Text(&'a str),
    /// A JSON value.
    Json(&'a JsonValue),
}

/// What has fields, and a line in a file.
pub trait Fields {
    /// The file's name and the one-based line.
    fn line(&self) -> (&str, u64);

    /// A field as it is written.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such field.
    fn raw(&self, key: Key<'_>) -> Result<Raw<'_>, VerifyError>;

    /// `file:line`, for messages.
    fn place(&self) -> String {
        let (file, line) = self.line();
        format!("{file}:{line}")
    }

    /// A parse error at this line.
    fn error(&self, reason: impl Into<String>) -> VerifyError {
        let (file, line) = self.line();
        VerifyError::Parse { file: file.to_owned(), line, reason: reason.into() }
    }

    /// Counts a case at this line, which `replay` compares.
    ///
    /// # Errors
    /// Those of `replay`.
    fn case(&self, tally: &mut Tally, replay: impl FnOnce(&mut Diff) -> Compared) -> Compared {
        tally.compare(|| self.place(), replay)
    }

    /// A field in the type that is asked for.
    ///
    /// # Errors
    /// [`VerifyError::Parse`] if there is no such field, or if it holds something else.
    fn field<'k, T: Value>(&self, key: impl Into<Key<'k>>) -> Result<T, VerifyError> {
        let key = key.into();
        let raw = self.raw(key)?;
        T::of(raw).ok_or_else(|| match (key, raw) {
            (Key::Name(name), Raw::Text(text)) => self.error(format!("column {name:?} is {text:?}")),
            (Key::At(_), Raw::Text(text)) => self.error(format!("{text:?} is not a value that fits")),
            (_, Raw::Json(value)) => self.error(format!("{value} is not a value that fits")),
        })
    }
}

/// What a field may hold.
pub trait Value: Sized {
    /// The value, if that is what is written.
    fn of(raw: Raw<'_>) -> Option<Self>;
}

/// Integers; false and true are 0 and 1.
macro_rules! integers {
    ($($type:ty),*) => { $(impl Value for $type {
        fn of(raw: Raw<'_>) -> Option<Self> {
            match raw {
                Raw::Text(text) => text.parse().ok(),
                Raw::Json(JsonValue::Number(number)) => match number.as_u64() {
                    Some(number) => Self::try_from(number).ok(),
                    None => number.as_i64().and_then(|number| Self::try_from(number).ok()),
                },
                Raw::Json(JsonValue::Bool(flag)) => Some((*flag).into()),
                Raw::Json(_) => None,
            }
        }
    })* };
}

integers!(i16, i32, i64, i128, u8, u32, u64, usize);

/// A number that is 0 or not.
impl Value for bool {
    fn of(raw: Raw<'_>) -> Option<Self> {
        i128::of(raw).map(|number| number != 0)
    }
}

/// A value, or -1 for none.
impl<T: Value> Value for Option<T> {
    fn of(raw: Raw<'_>) -> Option<Self> {
        if i64::of(raw) == Some(-1) { Some(None) } else { T::of(raw).map(Some) }
    }
}

/// A JSON array, or values in a column between semicolons.
impl<T: Value> Value for Vec<T> {
    fn of(raw: Raw<'_>) -> Option<Self> {
        match raw {
            Raw::Text(text) => {
                text.split(';').filter(|item| !item.is_empty()).map(|item| T::of(Raw::Text(item))).collect()
            }
            Raw::Json(value) => value.as_array()?.iter().map(|item| T::of(Raw::Json(item))).collect(),
        }
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    fn of(raw: Raw<'_>) -> Option<Self> {
        Vec::of(raw)?.try_into().ok()
    }
}

/// Types that hold one value, as what is written is that value.
macro_rules! newtypes {
    ($($type:path),* $(,)?) => { $(impl $crate::fields::Value for $type {
        fn of(raw: $crate::fields::Raw<'_>) -> Option<Self> {
            $crate::fields::Value::of(raw).map($type)
        }
    })* };
}

/// A struct of fields: of the same name, of the name or place after `:`, or as computed after `=`.
macro_rules! read {
    (@ $from:expr, $field:ident) => { $from.field(stringify!($field))? };
    (@ $from:expr, $field:ident : $key:literal) => { $from.field($key)? };
    (@ $from:expr, $field:ident = $value:expr) => { $value };
    ($from:expr => $type:ident {
        $($field:ident $(: $key:literal)? $(= $value:expr)?),* $(, .. $rest:expr)? $(,)?
    }) => {
        $type { $($field: $crate::fields::read!(@ $from, $field $(: $key)? $(= $value)?),)* $(..$rest)? }
    };
}

/// Variables that are read from fields, as those of a struct.
macro_rules! take {
    ($from:expr => $($field:ident $(: $key:literal)?),* $(,)?) => {
        $(let $field = $crate::fields::read!(@ $from, $field $(: $key)?);)*
    };
}

/// Compares fields with what was computed: values after `:`, variables of the same name, or fields `of` a struct.
macro_rules! same {
    (@ $field:ident) => { $field };
    (@ $field:ident : $got:expr) => { $got };
    ($diff:expr, $from:expr => { $($field:ident),* $(,)? } of $got:expr) => {
        $($diff.eq(stringify!($field), $from.field(stringify!($field))?, $got.$field);)*
    };
    ($diff:expr, $from:expr => { $($field:ident $(: $got:expr)?),* $(,)? }) => {
        $($diff.eq(
            stringify!($field),
            $from.field(stringify!($field))?,
            $crate::fields::same!(@ $field $(: $got)?),
        );)*
    };
}

/// Values as numbers of one type.
macro_rules! numbers {
    ($type:ty: $($value:expr),* $(,)?) => { [$($value as $type),*] };
}

/// The families of a module: what is replayed (`Rows`, `Lines`, `File`), the family's name and, if it has another name, the function.
macro_rules! families {
    (@ $name:ident) => { $name };
    (@ $name:ident : $run:expr) => { $run };
    ($($form:ident $name:ident $(: $run:expr)?),* $(,)?) => {
        /// The families of this module.
        pub const FAMILIES: &[$crate::Family] = &[$($crate::Family {
            name: stringify!($name),
            run: $crate::Run::$form($crate::fields::families!(@ $name $(: $run)?)),
        }),*];
    };
}

pub(crate) use {families, newtypes, numbers, read, same, take};
