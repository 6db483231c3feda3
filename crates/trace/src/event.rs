//! One event as readers hand it to sinks, with its fields still where they lie in the file.
//!
//! Readers produce [`Event`]s in time order; a [`Sink`] takes them.
//! Nothing is copied: a field is decoded when it is asked for.

use std::ops::ControlFlow;

use crate::bytes::{read_int, read_uint, until_nul};

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer; `hex` if people read it as an address or a mask.
    Int {
        /// `i64` if true, `u64` if not.
        signed: bool,
        /// Shown in base 16.
        hex: bool,
    },
    /// A short string that is likely to come back (a task's or a function's name).
    Str,
    /// A text that is likely to be different each time (a printed line).
    Text,
    /// Raw bytes.
    Bytes,
    /// A list of integers.
    List {
        /// `i64` if true, `u64` if not.
        signed: bool,
        /// Shown in base 16.
        hex: bool,
    },
}

/// Where a field lies in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loc {
    /// An integer of `size` bytes.
    Int { off: u32, size: u8, signed: bool },
    /// A C string in an array of `size` bytes.
    FixedStr { off: u32, size: u32 },
    /// Raw bytes.
    FixedBytes { off: u32, size: u32 },
    /// `size` bytes of integers.
    FixedList { off: u32, size: u32, each: u8, signed: bool },
    /// Elsewhere: the 32 bits at `off` are offset (low half) and length (high half); `rel`: counted from behind them.
    Dynamic { off: u32, rel: bool, each: u8, signed: bool },
    /// From `off` to the end of the record.
    Rest { off: u32, each: u8, signed: bool },
    /// Not in the record: a text that the reader made ([`Event::text`]).
    Computed,
    /// Not in a binary record; `index` into the values of a [`Body::Values`].
    Value,
}

/// A field of an event's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDef {
    /// As in the format file.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    pub(crate) loc: Loc,
}

/// An event's format. Formats without format files (text) learn fields as they see them: the list only ever grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// A small number, dense over the schemas of one reader.
    pub index: usize,
    /// The event's name; `system:name` if another group of the same trace took the plain name first.
    pub name: String,
    /// The event's group; empty if unknown.
    pub system: String,
    /// The event's own fields (without `common_*`).
    pub fields: Vec<FieldDef>,
    /// Bytes of a binary record up to the end of its last field of fixed place; 0 for other formats.
    pub(crate) fixed_size: usize,
}

impl Schema {
    /// The place of field `name`.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// What somebody knows of each format, looked up once, and again where a format without a format file learnt fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BySchema<T>(Vec<Option<(usize, T)>>);

impl<T> Default for BySchema<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> BySchema<T> {
    /// What is known of a format.
    #[inline]
    pub fn get(&mut self, schema: &Schema, look_up: impl FnOnce(&Schema) -> T) -> &T {
        if self.0.len() <= schema.index {
            self.0.resize_with(schema.index + 1, || None);
        }
        let (slot, fields) = (&mut self.0[schema.index], schema.fields.len());
        if slot.as_ref().is_some_and(|(known, _)| *known != fields) {
            *slot = None;
        }
        &slot.get_or_insert_with(|| (fields, look_up(schema))).1
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A string (bytes; almost always UTF-8).
    Str(&'a [u8]),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// A list of integers as it lies in the record.
    Raw(RawList<'a>),
    /// A list of integers.
    List(&'a [i64]),
}

/// Integers of one size, as they lie in a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawList<'a> {
    bytes: &'a [u8],
    each: u8,
    signed: bool,
    big_endian: bool,
}

impl RawList<'_> {
    /// The numbers as `i64` bit patterns.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.bytes.chunks_exact(usize::from(self.each.max(1))).map(|raw| {
            if self.signed { read_int(raw, self.big_endian) } else { read_uint(raw, self.big_endian) as i64 }
        })
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Body<'a> {
    /// A binary record, laid out by the schema.
    Record { bytes: &'a [u8], big_endian: bool },
    /// Values by field index; shorter than the schema if the last fields are absent.
    Values(&'a [Value<'a>]),
}

/// One event.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Its format.
    pub schema: &'a Schema,
    /// When, in nanoseconds (see [`crate::Table::time_ns`]).
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Whose context (thread id).
    pub pid: i32,
    /// The task's name as written beside the event; `None` where it follows from the pid.
    pub comm: Option<&'a [u8]>,
    /// Number of the buffer.
    pub buffer: u32,
    pub(crate) text: &'a [u8],
    pub(crate) body: Body<'a>,
}

impl<'a> Event<'a> {
    /// The value of the field at `index` of the schema.
    #[inline]
    pub fn value(&self, index: usize) -> Value<'a> {
        let Some(field) = self.schema.fields.get(index) else { return Value::Null };
        match self.body {
            Body::Values(values) => values.get(index).copied().unwrap_or(Value::Null),
            Body::Record { bytes, big_endian } => record_value(bytes, big_endian, field, self.text),
        }
    }

    /// The integer at `index`; `None` if there is none or the field is not an integer.
    #[inline]
    pub fn int(&self, index: usize) -> Option<i64> {
        if let Body::Record { bytes, big_endian: false } = self.body
            && let Some(FieldDef { loc: Loc::Int { off, size, signed }, .. }) = self.schema.fields.get(index)
            && let Some(raw) = bytes.get(*off as usize..)
        {
            // The common sizes of the common byte order, without a detour.
            if let (4, Some(raw)) = (size, raw.first_chunk::<4>()) {
                let value = u32::from_le_bytes(*raw);
                return Some(if *signed { i64::from(value as i32) } else { i64::from(value) });
            }
            if let (8, Some(raw)) = (size, raw.first_chunk::<8>()) {
                return Some(i64::from_le_bytes(*raw));
            }
        }
        match self.value(index) {
            Value::I64(value) => Some(value),
            Value::U64(value) => Some(value as i64),
            _ => None,
        }
    }

    /// The string at `index`.
    #[inline]
    pub fn str(&self, index: usize) -> Option<&'a [u8]> {
        if let Value::Str(value) = self.value(index) { Some(value) } else { None }
    }
}

fn slice(bytes: &[u8], off: usize, size: usize) -> &[u8] {
    let start = off.min(bytes.len());
    &bytes[start..off.saturating_add(size).clamp(start, bytes.len())]
}

/// Decodes one field; what lies outside of a short record reads as 0 or empty.
#[inline]
pub(crate) fn record_value<'a>(bytes: &'a [u8], big_endian: bool, field: &FieldDef, text: &'a [u8]) -> Value<'a> {
    let (raw, each, signed) = match field.loc {
        Loc::Int { off, size, signed } => {
            let raw = slice(bytes, off as usize, usize::from(size));
            return if signed { Value::I64(read_int(raw, big_endian)) } else { Value::U64(read_uint(raw, big_endian)) };
        }
        Loc::FixedStr { off, size } | Loc::FixedBytes { off, size } => {
            (slice(bytes, off as usize, size as usize), 1, false)
        }
        Loc::FixedList { off, size, each, signed } => (slice(bytes, off as usize, size as usize), each, signed),
        Loc::Dynamic { off, rel, each, signed } => {
            let place = read_uint(slice(bytes, off as usize, 4), big_endian) as usize;
            let start = (place & 0xffff) + if rel { off as usize + 4 } else { 0 };
            (slice(bytes, start, place >> 16), each, signed)
        }
        Loc::Rest { off, each, signed } => (slice(bytes, off as usize, usize::MAX), each, signed),
        Loc::Computed => (text, 1, false),
        Loc::Value => return Value::Null,
    };
    match field.kind {
        Kind::Str => Value::Str(until_nul(raw)),
        Kind::Text => {
            let text = until_nul(raw);
            Value::Str(text.strip_suffix(b"\n").unwrap_or(text))
        }
        Kind::Bytes => Value::Bytes(raw),
        Kind::List { .. } | Kind::Int { .. } => Value::Raw(RawList { bytes: raw, each, signed, big_endian }),
    }
}

/// Takes events in time order.
pub trait Sink {
    /// One event; `Break` stops the reader.
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&Event<'_>) -> ControlFlow<()>> Sink for F {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self(event)
    }
}
