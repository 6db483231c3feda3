//! Tables of typed columns: what a trace becomes.
//!
//! Integers are stored as narrow as their values allow (a priority takes one byte, not eight) and widen by themselves;
//! short strings are numbers of a dictionary that the whole trace shares; long texts and byte strings lie end to end.
//! This module knows nothing of trace formats.

use std::fmt;

use crate::event::Kind;

/// Integers, stored in the narrowest width that holds all of them.
///
/// The logical type is `i64` or `u64` ([`IntColumn::is_signed`]); the width is an implementation detail that changes with the values.
#[derive(Clone, PartialEq)]
pub enum IntColumn {
    /// Signed, one byte each.
    I8(Vec<i8>),
    /// Signed, two bytes each.
    I16(Vec<i16>),
    /// Signed, four bytes each.
    I32(Vec<i32>),
    /// Signed, eight bytes each.
    I64(Vec<i64>),
    /// Unsigned, one byte each.
    U8(Vec<u8>),
    /// Unsigned, two bytes each.
    U16(Vec<u16>),
    /// Unsigned, four bytes each.
    U32(Vec<u32>),
    /// Unsigned, eight bytes each.
    U64(Vec<u64>),
}

macro_rules! each_width {
    ($column:expr, $values:ident => $body:expr) => {
        match $column {
            IntColumn::I8($values) => $body,
            IntColumn::I16($values) => $body,
            IntColumn::I32($values) => $body,
            IntColumn::I64($values) => $body,
            IntColumn::U8($values) => $body,
            IntColumn::U16($values) => $body,
            IntColumn::U32($values) => $body,
            IntColumn::U64($values) => $body,
        }
    };
}

impl IntColumn {
    /// An empty column; `signed` fixes its logical type.
    pub fn new(signed: bool) -> Self {
        if signed { IntColumn::I8(Vec::new()) } else { IntColumn::U8(Vec::new()) }
    }

    /// True if the logical type is `i64`, false if it is `u64`.
    pub fn is_signed(&self) -> bool {
        matches!(self, IntColumn::I8(_) | IntColumn::I16(_) | IntColumn::I32(_) | IntColumn::I64(_))
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        each_width!(self, values => values.len())
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `row`, as `i64`; an unsigned value above `i64::MAX` wraps, use [`IntColumn::get_u64`] for those.
    pub fn get(&self, row: usize) -> i64 {
        each_width!(self, values => values[row].wide())
    }

    /// The value at `row`, as `u64`; a negative value wraps.
    pub fn get_u64(&self, row: usize) -> u64 {
        self.get(row) as u64
    }

    /// The value at `row` with its sign, as wide as any.
    pub fn get_i128(&self, row: usize) -> i128 {
        if self.is_signed() { i128::from(self.get(row)) } else { i128::from(self.get_u64(row)) }
    }

    /// All values as `i64` (unsigned values above `i64::MAX` wrap).
    pub fn to_i64(&self) -> Vec<i64> {
        each_width!(self, values => values.iter().map(|v| v.wide()).collect())
    }

    /// All values as `u64` (negative values wrap).
    pub fn to_u64(&self) -> Vec<u64> {
        each_width!(self, values => values.iter().map(|v| v.wide() as u64).collect())
    }

    /// Appends `value`, widening the column if it needs to.
    #[inline]
    pub fn push_i64(&mut self, value: i64) {
        if !each_width!(self, values => push_exact(values, value)) {
            self.push_wide(value);
        }
    }

    /// Appends a value that the column is too narrow for.
    #[cold]
    fn push_wide(&mut self, value: i64) {
        let signed = self.is_signed();
        self.widen_for(if signed { value ^ (value >> 63) } else { value } as u64, signed);
        each_width!(self, values => values.push(value as _));
    }

    /// Appends `value`, widening the column if it needs to.
    #[inline]
    pub fn push_u64(&mut self, value: u64) {
        self.push_i64(value as i64);
    }

    /// Appends many values at once (as `i64` bit patterns); what the hot path calls.
    pub(crate) fn extend(&mut self, values: &[i64]) {
        // The bits that any value needs; for signed ones a negative value needs those of its complement.
        let mut bits = 0u64;
        if self.is_signed() {
            for &v in values {
                bits |= v as u64 ^ (v >> 63) as u64;
            }
        } else {
            for &v in values {
                bits |= v as u64;
            }
        }
        self.widen_for(bits, self.is_signed());
        each_width!(self, column => extend_narrow(column, values));
    }

    /// Makes the column wide enough for magnitudes of `bits`.
    #[inline]
    fn widen_for(&mut self, bits: u64, signed: bool) {
        let fits = match self {
            IntColumn::I8(_) => bits <= i8::MAX as u64,
            IntColumn::I16(_) => bits <= i16::MAX as u64,
            IntColumn::I32(_) => bits <= i32::MAX as u64,
            IntColumn::U8(_) => bits <= u64::from(u8::MAX),
            IntColumn::U16(_) => bits <= u64::from(u16::MAX),
            IntColumn::U32(_) => bits <= u64::from(u32::MAX),
            IntColumn::I64(_) | IntColumn::U64(_) => true,
        };
        if !fits {
            self.widen(bits, signed);
        }
    }

    #[cold]
    fn widen(&mut self, bits: u64, signed: bool) {
        let old = std::mem::replace(self, IntColumn::new(signed));
        *self = match (signed, bits) {
            (true, b) if b <= i16::MAX as u64 => IntColumn::I16(narrowed(&old)),
            (true, b) if b <= i32::MAX as u64 => IntColumn::I32(narrowed(&old)),
            (true, _) => IntColumn::I64(narrowed(&old)),
            (false, b) if b <= u64::from(u16::MAX) => IntColumn::U16(narrowed(&old)),
            (false, b) if b <= u64::from(u32::MAX) => IntColumn::U32(narrowed(&old)),
            (false, _) => IntColumn::U64(narrowed(&old)),
        };
    }
}

/// Truncation to a width that is known to hold the value.
trait Narrow: Copy {
    fn narrow(value: i64) -> Self;
    fn wide(self) -> i64;
}

macro_rules! narrow {
    ($($type:ty)*) => {
        $(impl Narrow for $type {
            #[inline(always)]
            fn narrow(value: i64) -> Self {
                value as Self
            }

            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one of the types is i64")]
            fn wide(self) -> i64 {
                self as i64
            }
        })*
    };
}
narrow!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Appends `value` if the width holds it.
#[inline(always)]
fn push_exact<T: Narrow>(column: &mut Vec<T>, value: i64) -> bool {
    let narrow = T::narrow(value);
    let fits = narrow.wide() == value;
    if fits {
        column.push(narrow);
    }
    fits
}

fn extend_narrow<T: Narrow>(column: &mut Vec<T>, values: &[i64]) {
    column.extend(values.iter().map(|&value| T::narrow(value)));
}

fn narrowed<T: Narrow>(column: &IntColumn) -> Vec<T> {
    each_width!(column, values => values.iter().map(|v| T::narrow(v.wide())).collect())
}

impl fmt::Debug for IntColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_width!(self, values => f.debug_list().entries(values).finish())
    }
}

/// Byte strings, end to end; string `i` ends at `ends[i]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VarBytes {
    data: Vec<u8>,
    ends: Vec<u64>,
}

impl VarBytes {
    /// Appends one byte string.
    pub fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(self.data.len() as u64);
    }

    /// The byte string at `row`.
    pub fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.data[start as usize..self.ends[row] as usize]
    }

    /// Number of byte strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All bytes, end to end, and where each string ends (the layout that Arrow calls LargeBinary, without its leading 0).
    pub fn parts(&self) -> (&[u8], &[u64]) {
        (&self.data, &self.ends)
    }
}

/// A dictionary of short strings; a string's number is its order of appearance.
#[derive(Clone)]
pub struct Strings {
    strings: VarBytes,
    /// Open addressing: number + 1, or 0.
    slots: Vec<u32>,
    /// The last string of 16 bytes or less that fell on each place, with its number + 1.
    recent: Vec<(u128, u32)>,
}

const RECENT: usize = 1024;

impl Default for Strings {
    fn default() -> Self {
        Self { strings: VarBytes::default(), slots: vec![0; 64], recent: vec![(0, 0); RECENT] }
    }
}

impl Strings {
    /// The number of `bytes`, adding it if it is new.
    #[inline]
    pub fn intern(&mut self, bytes: &[u8]) -> u32 {
        if bytes.len() <= 15 { self.intern_key(short_key(bytes)) } else { self.lookup(bytes) }
    }

    /// As [`Strings::intern`] for a C string in a 16-byte array, the kernel's `comm`.
    #[inline]
    pub(crate) fn intern_comm(&mut self, raw: [u8; 16]) -> u32 {
        // The lowest NUL: the classic (x - 1) & !x & 0x80 trick finds it exactly when only the lowest match is used.
        let word = u128::from_le_bytes(raw);
        const ONES: u128 = u128::from_le_bytes([0x01; 16]);
        const HIGHS: u128 = u128::from_le_bytes([0x80; 16]);
        let zeros = word.wrapping_sub(ONES) & !word & HIGHS;
        let len = (zeros.trailing_zeros() / 8).min(16);
        if len >= 16 {
            return self.lookup(&raw);
        }
        let mask = (1u128 << (8 * len)) - 1;
        self.intern_key((word & mask) | (u128::from(len) << 120))
    }

    /// `key`: up to 15 bytes, zero-padded, with the length in the last byte.
    #[inline]
    fn intern_key(&mut self, key: u128) -> u32 {
        let place = (mix(key as u64 ^ ((key >> 64) as u64).rotate_left(29)) >> 54) as usize;
        let (seen, number) = self.recent[place];
        if seen == key && number != 0 {
            return number - 1;
        }
        let raw = key.to_le_bytes();
        let number = self.lookup(&raw[..usize::from(raw[15]).min(15)]);
        self.recent[place] = (key, number + 1);
        number
    }

    fn lookup(&mut self, bytes: &[u8]) -> u32 {
        let mask = self.slots.len() - 1;
        let mut slot = hash(bytes) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => break,
                number if self.strings.get(number as usize - 1) == bytes => return number - 1,
                _ => slot = (slot + 1) & mask,
            }
        }
        let number = self.strings.len() as u32;
        self.strings.push(bytes);
        self.slots[slot] = number + 1;
        if self.strings.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        let mut slots = vec![0u32; mask + 1];
        for number in 0..self.strings.len() {
            let mut slot = hash(self.strings.get(number)) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = number as u32 + 1;
        }
        self.slots = slots;
    }

    /// The bytes of string `number`.
    pub fn get(&self, number: u32) -> &[u8] {
        self.strings.get(number as usize)
    }

    /// String `number` as text; bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self, number: u32) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(number))
    }

    /// The number of `text`, if it occurs.
    pub fn find(&self, text: &str) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut slot = hash(text.as_bytes()) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return None,
                number if self.strings.get(number as usize - 1) == text.as_bytes() => return Some(number - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..self.len()).map(|i| self.text(i as u32))).finish()
    }
}

/// Up to 15 bytes, zero-padded, with their number in the last byte; read as two words that overlap.
#[inline(always)]
fn short_key(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    let text = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << (8 * (len - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        u128::from(u32::from_le_bytes(*first)) | u128::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
    } else if let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) {
        u128::from(first) | u128::from(bytes[len / 2]) << (8 * (len / 2)) | u128::from(last) << (8 * (len - 1))
    } else {
        0
    };
    text | (len as u128) << 120
}

#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(word));
    }
    state >> 7
}

/// The values of one field of one event.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers.
    Int(IntColumn),
    /// Short strings: numbers in [`crate::Trace::strings`].
    Str(Vec<u32>),
    /// Long or rarely repeated texts.
    Text(VarBytes),
    /// Raw bytes.
    Bytes(VarBytes),
    /// Lists of integers, end to end; list `i` ends at `ends[i]`.
    List {
        /// Where each list ends in `values`.
        ends: Vec<u64>,
        /// All values.
        values: IntColumn,
    },
}

impl Column {
    /// An empty column for values of `kind`.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Int { signed, .. } => Column::Int(IntColumn::new(signed)),
            Kind::Str => Column::Str(Vec::new()),
            Kind::Text => Column::Text(VarBytes::default()),
            Kind::Bytes => Column::Bytes(VarBytes::default()),
            Kind::List { signed, .. } => Column::List { ends: Vec::new(), values: IntColumn::new(signed) },
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Int(values) => values.len(),
            Column::Str(numbers) => numbers.len(),
            Column::Text(texts) | Column::Bytes(texts) => texts.len(),
            Column::List { ends, .. } => ends.len(),
        }
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integers, if this is an integer column.
    pub fn as_int(&self) -> Option<&IntColumn> {
        if let Column::Int(values) = self { Some(values) } else { None }
    }

    /// The list at `row`, if this is a list column.
    pub fn list(&self, row: usize) -> Option<Vec<i128>> {
        let Column::List { ends, values } = self else { return None };
        let start = if row == 0 { 0 } else { ends[row - 1] };
        Some((start..ends[row]).map(|i| values.get_i128(i as usize)).collect())
    }
}

/// One field of a table: its name, its kind and a value for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// As in the event's format file.
    pub name: String,
    /// What the values are.
    pub kind: Kind,
    /// The values; a row without one holds 0 or an empty string and has its bit in `valid` clear.
    pub column: Column,
    /// Which rows have a value; `None` if all have.
    pub valid: Option<Vec<bool>>,
}

impl Field {
    /// True if `row` has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }
}

/// All occurrences of one event in time order.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The event's name.
    pub name: String,
    /// The event's group (`sched`, `power`, …); empty if the format has none.
    pub system: String,
    /// When, in nanoseconds of the trace clock plus [`crate::Meta::time_offset_ns`].
    pub time_ns: Vec<u64>,
    /// On which CPU.
    pub cpu: IntColumn,
    /// Whose context (thread id).
    pub pid: IntColumn,
    /// The task's name as written beside each event (text formats); `None` where it follows from the pid
    /// ([`crate::Trace::comm_of`]).
    pub comm: Option<Vec<u32>>,
    /// Which buffer (a number in [`crate::Meta::buffers`]); `None` if the trace has only one.
    pub buffer: Option<IntColumn>,
    /// The event's own fields in the order of its format file.
    pub fields: Vec<Field>,
}

impl Table {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// True if the event never occurred.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// The field `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The integers of field `name`, if it exists and is of integers.
    pub fn int(&self, name: &str) -> Option<&IntColumn> {
        self.field(name)?.column.as_int()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes values one by one and at once; both must give them back, in the expected width.
    fn check_width(signed: bool, values: &[i64], bytes_each: usize) {
        let (mut one, mut all) = (IntColumn::new(signed), IntColumn::new(signed));
        values.iter().for_each(|&v| one.push_i64(v));
        all.extend(values);
        assert_eq!(one, all);
        assert_eq!(one.to_i64(), values);
        let width = each_width!(&all, v => size_of_val(&v[0]));
        assert_eq!(width, bytes_each, "{values:?}");
    }

    #[test]
    fn integers_are_stored_narrowly_and_come_back() {
        check_width(true, &[0, 127, -128], 1);
        check_width(true, &[0, 128], 2);
        check_width(true, &[-129, 0], 2);
        check_width(true, &[1, 32768, -5], 4);
        check_width(true, &[1, i64::MIN, i64::MAX], 8);
        check_width(false, &[0, 255], 1);
        check_width(false, &[7, 256], 2);
        check_width(false, &[7, 65536], 4);
        check_width(false, &[7, -1], 8);
        assert_eq!(IntColumn::U64(vec![u64::MAX]).get_i128(0), i128::from(u64::MAX));
    }

    #[test]
    fn strings_keep_their_numbers() {
        let mut strings = Strings::default();
        let names: Vec<String> = (0..5000).map(|i| format!("task-{}", i * 7919)).collect();
        let numbers: Vec<u32> = names.iter().map(|n| strings.intern(n.as_bytes())).collect();
        for (name, &number) in names.iter().zip(&numbers) {
            assert_eq!(strings.text(number), *name);
            assert_eq!(strings.find(name), Some(number));
            assert_eq!(strings.intern(name.as_bytes()), number);
        }
        assert_eq!(strings.find("nobody"), None);
        assert_eq!(strings.len(), names.len());
    }

    #[test]
    fn short_keys_are_the_bytes_and_their_number() {
        let bytes = b"0123456789abcdef";
        for len in 0..=15 {
            let mut expected = [0u8; 16];
            expected[..len].copy_from_slice(&bytes[..len]);
            expected[15] = len as u8;
            assert_eq!(short_key(&bytes[..len]).to_le_bytes(), expected);
        }
    }

    #[test]
    fn comm_ends_at_its_first_nul() {
        let mut strings = Strings::default();
        let short = strings.intern(b"sh");
        assert_eq!(strings.intern_comm(*b"sh\0garbage\0\0\0\0\0\0"), short);
        assert_eq!(strings.intern_comm(*b"sh\0\x01\0\xff\x80\0\0\0\0\0\0\0\0\0"), short);
        let full = strings.intern_comm(*b"sixteen-bytes-xx");
        assert_eq!(strings.get(full), b"sixteen-bytes-xx");
        let fifteen = strings.intern_comm(*b"fifteen-bytes-x\0");
        assert_eq!(strings.intern(b"fifteen-bytes-x"), fifteen);
        let empty = strings.intern_comm([0; 16]);
        assert_eq!(strings.intern(b""), empty);
        // A byte of 0x01 above a NUL borrows in the search; the lowest match must still win.
        let one = strings.intern_comm(*b"a\0\x01\x01\x01\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(strings.get(one), b"a");
    }
}
