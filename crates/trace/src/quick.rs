//! The quick way through ftrace text: a line of a common form is read once, from left to right, many bytes at a time.
//!
//! Everything here gives up on what is not of the common form (`None`); the slow way then reads the line from its start, and
//! decides. What is found is what the slow way finds. A place near the end of the text counts as uncommon, so that whole words
//! can be looked at.

use crate::clock::TIME_MAX_NS;
use crate::event::Value;
use crate::reader::MAX_CPUS;

/// Who, where, when, and the place in the text behind the time's colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) comm: &'a [u8],
    pub(crate) pid: i32,
    pub(crate) cpu: u32,
    pub(crate) time_ns: u64,
    pub(crate) at: usize,
}

/// Digits of a CPU in brackets.
const CPU_DIGITS: usize = 6;
/// Digits of the seconds; those of a time since 1970 are ten.
const SECONDS_DIGITS: usize = 10;
/// What stands between the CPU and the time: mostly one word of flags.
const WORDS_MAX: usize = 3;

const POWERS_OF_TEN: [u64; 10] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

#[inline(always)]
fn word(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn window(text: &[u8], at: usize) -> Option<u128> {
    text.get(at..)?.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
}

/// The number of up to eight digits that `word` begins with, and how many they are.
#[inline(always)]
fn number_of_word(word: u64) -> (u64, usize) {
    const TO_HIGH_BIT: u64 = u64::from_le_bytes([0x76; 8]);
    let digits = word ^ ZEROS;
    // The lowest byte that is no digit has its high bit set; carries reach only those behind it.
    let others = (digits.wrapping_add(TO_HIGH_BIT) | digits) & HIGH_BITS_OF_WORD;
    let len = (others.trailing_zeros() / 8) as usize;
    if len == 0 { (0, 0) } else { (joined(digits << (64 - 8 * len)), len) }
}

/// The number of up to eight digits that `word` ends with, and how many they are.
#[inline(always)]
fn number_before(word: u64) -> (u64, usize) {
    const LOW_BITS: u64 = u64::from_le_bytes([0x7f; 8]);
    const TO_HIGH_BIT: u64 = u64::from_le_bytes([0x76; 8]);
    let digits = word ^ ZEROS;
    // Without the high bits nothing is carried, so that the highest byte that is no digit is found exactly.
    let others = (((digits & LOW_BITS) + TO_HIGH_BIT) | digits) & HIGH_BITS_OF_WORD;
    let len = (others.leading_zeros() / 8) as usize;
    if len == 0 { (0, 0) } else { (joined(digits >> (64 - 8 * len) << (64 - 8 * len)), len) }
}

const BLANKS: u64 = u64::from_le_bytes([b' '; 8]);
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
const HIGH_BITS_OF_WORD: u64 = u64::from_le_bytes([0x80; 8]);

/// The number of eight digits, the first in the lowest byte: two digits a byte, then four, then eight.
#[inline(always)]
fn joined(digits: u64) -> u64 {
    const PAIR: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & PAIR).wrapping_mul(100 + (1_000_000 << 32));
    let low = ((pairs >> 16) & PAIR).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

/// The number of up to 20 digits at `at`, if it has no more than 64 bits, and how many they are.
#[inline(always)]
fn number(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (value, len) = number_of_word(word(text, at)?);
    if len < 8 {
        return Some((value, len));
    }
    let (more, len) = number_of_word(word(text, at + 8)?);
    let value = value * POWERS_OF_TEN[len] + more;
    if len < 8 {
        return Some((value, len + 8));
    }
    let (more, len) = number_of_word(word(text, at + 16)?);
    if len > 4 {
        return None;
    }
    Some((value.checked_mul(POWERS_OF_TEN[len])?.checked_add(more)?, len + 16))
}

/// The number of up to 16 hexadecimal digits at `at`, and how many they are.
#[inline(always)]
fn hex_number(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (mut value, mut len) = (0, 0);
    while let digit @ ..16 = HEX_DIGITS[usize::from(*text.get(at + len)?)] {
        value = value << 4 | u64::from(digit);
        len += 1;
    }
    (1..=16).contains(&len).then_some((value, len))
}

const ONES: u128 = u128::from_le_bytes([0x01; 16]);
const HIGH_BITS: u128 = u128::from_le_bytes([0x80; 16]);

/// How many bytes of `window` stand in front of its first `byte`; 16 if it has none.
#[inline(always)]
fn to_byte(window: u128, byte: u8) -> usize {
    let other = window ^ (ONES * byte as u128);
    // The lowest zero byte is found exactly; carries reach only what is behind it.
    ((other.wrapping_sub(ONES) & !other & HIGH_BITS).trailing_zeros() / 8) as usize
}

/// How many bytes of `word` stand in front of the first that is `byte`, a blank or a control character; 8 if it has none.
#[inline(always)]
fn to_byte_or_end(word: u64, byte: u8) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    let other = word ^ (ONES * byte as u64);
    let found = other.wrapping_sub(ONES) & !other | word.wrapping_sub(ONES * (b' ' as u64)) & !word;
    ((found & (ONES << 7)).trailing_zeros() / 8) as usize
}

/// Where what begins at `at` is no blank any more; mostly one or two are.
#[inline(always)]
pub(crate) fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// As [`skip_blanks`] for the many in front of a task.
#[inline(always)]
fn skip_indent(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let blanks = ((word(text, at)? ^ BLANKS).trailing_zeros() / 8) as usize;
        at += blanks;
        if blanks < 8 {
            return Some(at);
        }
    }
}

/// The head of the line that begins at `start`.
#[inline(always)]
pub(crate) fn head(text: &[u8], start: usize) -> Option<Head<'_>> {
    let start = skip_indent(text, start)?;
    // A task begins with no other blank, and holds no control character.
    let mut open = start;
    loop {
        let len = to_byte_or_end(word(text, open)?, b'[');
        open += len;
        if len < 8 {
            break;
        }
    }
    let (cpu, len) = number_of_word(word(text, open + 1)?);
    let close = open + 1 + len;
    if text[open] != b'[' || !(1..=CPU_DIGITS).contains(&len) || text.get(close) != Some(&b']') {
        return None;
    }
    let cpu = u32::try_from(cpu).ok().filter(|&cpu| cpu < MAX_CPUS)?;
    let (comm, pid) = task(text, start, open)?;
    let mut at = skip_blanks(text, close + 1);
    for _ in 0..WORDS_MAX {
        // What looks like a CPU may be part of a task's name.
        if *text.get(at)? == b'[' {
            return None;
        }
        if text.get(at)?.is_ascii_digit() {
            let (time_ns, at) = time(text, at)?;
            return Some(Head { comm, pid, cpu, time_ns, at });
        }
        loop {
            let len = to_byte_or_end(word(text, at)?, b' ');
            at += len;
            if len < 8 {
                break;
            }
        }
        if text[at] != b' ' {
            return None;
        }
        at = skip_blanks(text, at);
    }
    None
}

/// `comm-pid`, or `comm  pid` as perf prints it, between `start` and `open`.
#[inline(always)]
fn task(text: &[u8], start: usize, open: usize) -> Option<(&[u8], i32)> {
    let mut end = open;
    loop {
        let blanks = ((word(text, end.checked_sub(8)?)? ^ BLANKS).leading_zeros() / 8) as usize;
        end -= blanks;
        if blanks < 8 {
            break;
        }
    }
    let (pid, len) = number_before(word(text, end.checked_sub(8)?)?);
    let sign = (end - len).wrapping_sub(1);
    if len == 0 || len == 8 || sign < start {
        return None;
    }
    match *text.get(sign)? {
        b'-' => Some((text.get(start..sign)?, pid as i32)),
        b' ' => {
            let comm = &text[start..sign];
            let len = comm.iter().rposition(|&b| b != b' ')? + 1;
            Some((&comm[..len], pid as i32))
        }
        _ => None,
    }
}

/// The time `12.345678: ` at `at`, and where its colon ends.
#[inline(always)]
fn time(line: &[u8], at: usize) -> Option<(u64, usize)> {
    let (seconds, len) = number(line, at)?;
    let dot = at + len;
    if len > SECONDS_DIGITS || line.get(dot) != Some(&b'.') {
        return None;
    }
    let (fraction, len) = number(line, dot + 1)?;
    let colon = dot + 1 + len;
    let missing = POWERS_OF_TEN.get(9usize.checked_sub(len)?)?;
    let ends = len > 0 && line.get(colon) == Some(&b':') && line.get(colon + 1) == Some(&b' ');
    let time_ns = seconds * 1_000_000_000 + fraction * missing;
    (ends && time_ns <= TIME_MAX_NS).then_some((time_ns, colon + 1))
}

/// What each byte is as a hexadecimal digit; 16 if it is none.
static HEX_DIGITS: [u8; 256] = {
    let mut table = [16; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// Words such as `sched_switch:` or `power:cpu_idle:`, with the event that the slow way found in each.
pub(crate) struct Names {
    slots: Box<[Name; NAMES]>,
}

#[derive(Clone, Copy, Default)]
struct Name {
    /// The word and its colon, zeros behind.
    first: u128,
    second: u128,
    /// Schema + 1.
    schema: u32,
}

impl Name {
    #[inline(always)]
    fn is(&self, first: u128, second: u128) -> bool {
        self.first == first && self.second == second
    }
}

const NAMES: usize = 256;

/// Names that fall on one place stand in so many that follow it.
const NAMES_TRIED: usize = 4;

impl Default for Names {
    fn default() -> Self {
        Self { slots: Box::new([Name::default(); NAMES]) }
    }
}

/// The word at `at`, of at most 31 bytes, and where its blank is.
#[inline(always)]
fn name_at(text: &[u8], at: usize) -> Option<(u128, u128, usize)> {
    let first = window(text, at)?;
    let len = to_byte(first, b' ');
    if len < 16 {
        return Some((first & ((1 << (8 * len)) - 1), 0, at + len));
    }
    let second = window(text, at + 16)?;
    let len = to_byte(second, b' ');
    if len < 16 { Some((first, second & ((1 << (8 * len)) - 1), at + 16 + len)) } else { None }
}

#[inline(always)]
fn slot(first: u128, second: u128) -> usize {
    let mixed = first as u64 ^ ((first >> 64) as u64).rotate_left(23) ^ (second as u64).rotate_left(41);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

impl Names {
    /// The schema of the event whose name begins at `at`, and where its fields begin.
    #[inline(always)]
    pub(crate) fn find(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let (first, second, end) = name_at(text, at)?;
        let places = slot(first, second)..;
        let name =
            places.take(NAMES_TRIED).map(|place| &self.slots[place % NAMES]).find(|name| name.is(first, second))?;
        Some(((name.schema as usize).checked_sub(1)?, skip_blanks(text, end)))
    }

    /// Learns that the word at `at`, if it has `len` bytes and a colon behind, is the name of `schema`.
    pub(crate) fn learn(&mut self, text: &[u8], at: usize, len: usize, schema: usize) {
        if let Some((first, second, end)) = name_at(text, at)
            && end == at + len + 1
            && text[end - 1] == b':'
        {
            let start = slot(first, second);
            let is_free = |&place: &usize| self.slots[place].schema == 0 || self.slots[place].is(first, second);
            let place = (start..start + NAMES_TRIED).map(|place| place % NAMES).find(is_free).unwrap_or(start);
            self.slots[place] = Name { first, second, schema: schema as u32 + 1 };
        }
    }
}

/// The shape of an event's lines: what stands in front of each value. Lines of one event mostly differ in their values
/// only; a line of the same shape gives the fields that a search for pairs would find, at a fraction of the work.
pub(crate) struct Shape {
    parts: Vec<Part>,
    /// What stands behind the last value.
    tail: Literal,
    /// Fields that no value of the line is for keep none.
    places: usize,
}

struct Part {
    /// From the value before (or the start) to the equals sign.
    literal: Literal,
    slot: Slot,
    place: usize,
}

/// What a value looks like.
#[derive(Clone, Copy, PartialEq)]
enum Slot {
    /// Decimal digits, perhaps with a sign.
    Int,
    /// `0x` and hexadecimal digits.
    Hex,
    /// Letters, digits and signs of states and paths, no number.
    Word,
    /// A task's name: all up to its pid.
    Comm,
}

/// Bytes that are compared sixteen at a time.
struct Literal {
    len: usize,
    /// The first sixteen and which of them count.
    first: (u128, u128),
    /// Those behind, likewise.
    more: Vec<(u128, u128)>,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let windows = |bytes: &[u8]| {
            let mut raw = ([0u8; 16], [0u8; 16]);
            raw.0[..bytes.len()].copy_from_slice(bytes);
            raw.1[..bytes.len()].fill(0xff);
            (u128::from_le_bytes(raw.0), u128::from_le_bytes(raw.1))
        };
        let (first, more) = bytes.split_at(bytes.len().min(16));
        Self { len: bytes.len(), first: windows(first), more: more.chunks(16).map(windows).collect() }
    }

    #[inline(always)]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let is = |at: usize, (bytes, counts): (u128, u128)| {
            window(text, at).is_some_and(|found| (found ^ bytes) & counts == 0)
        };
        is(at, self.first)
            && (self.more.is_empty() || (1..).zip(&self.more).all(|(nth, &more)| is(at + 16 * nth, more)))
    }
}

/// Bytes of a [`Slot::Word`].
static IN_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || matches!(b, b'_' | b'|' | b'+' | b'-' | b'/' | b'.' | b':');
        byte += 1;
    }
    table
};

impl Slot {
    /// The value at `at`, in front of `next`, and where it ends.
    #[inline(always)]
    fn value<'a>(self, text: &'a [u8], at: usize, next: &Literal) -> Option<(Value<'a>, usize)> {
        if self == Slot::Int {
            let from = at + usize::from(*text.get(at)? == b'-');
            let (number, len) = number(text, from)?;
            let value = match i64::try_from(number) {
                Ok(value) => Value::I64(if from > at { -value } else { value }),
                Err(_) if from == at => Value::U64(number),
                Err(_) => return None,
            };
            return if len > 0 { Some((value, from + len)) } else { None };
        }
        if self == Slot::Hex {
            let digits = at + 2;
            let (value, len) = hex_number(text, digits).filter(|_| text[at..digits] == *b"0x")?;
            return Some((Value::U64(value), digits + len));
        }
        let first = *text.get(at)?;
        // A path begins with a slash; what begins as a number does may be one.
        if !first.is_ascii_alphabetic() && (self != Slot::Word || first != b'/') {
            return None;
        }
        let mut end = at;
        match self {
            Slot::Comm => loop {
                let len = to_byte_or_end(word(text, end)?, b' ');
                end += len;
                if len == 8 {
                    continue;
                }
                if text[end] != b' ' {
                    return None;
                }
                if next.is_at(text, end) {
                    break;
                }
                end += 1;
            },
            _ => {
                while IN_WORD[usize::from(*text.get(end)?)] {
                    end += 1;
                }
            }
        }
        Some((Value::Str(&text[at..end]), end))
    }
}

impl Shape {
    /// The shape of a line whose values are known, as key, value and place of each; `None` if they do not follow from one.
    pub(crate) fn of(rest: &[u8], pairs: &[(&[u8], Value<'_>, usize)]) -> Option<Self> {
        // What follows a line matters for no shape, but must be there.
        let text = [rest, b"\n", &[0; 32]].concat();
        let mut found: Vec<(usize, usize, Slot, usize)> = Vec::new();
        let mut reached = 0;
        for &(key, value, place) in pairs {
            let start =
                (key.as_ptr() as usize).checked_sub(rest.as_ptr() as usize).filter(|&start| start >= reached)?;
            let from = start + key.len() + 1;
            if rest.get(start..from)?.strip_suffix(b"=") != Some(key)
                || found.iter().any(|known| known.3 == place)
                || found.is_empty() && start > 0
            {
                return None;
            }
            let slot = match value {
                Value::U64(_) if rest[from..].starts_with(b"0x") => Slot::Hex,
                Value::I64(_) | Value::U64(_) => Slot::Int,
                Value::Str(_) if key.ends_with(b"comm") => Slot::Comm,
                Value::Str(_) => Slot::Word,
                _ => return None,
            };
            let next = match key.strip_suffix(b"comm") {
                Some(prefix) if slot == Slot::Comm => [b" ", prefix, b"pid="].concat(),
                _ => Vec::new(),
            };
            let (again, end) = slot.value(&text, from, &Literal::new(&next))?;
            // No key reaches back into the value before.
            if again != value || !found.is_empty() && !rest.get(reached).is_some_and(u8::is_ascii_whitespace) {
                return None;
            }
            found.push((reached, from, slot, place));
            reached = end;
        }
        let parts: Vec<Part> = found
            .iter()
            .map(|&(start, from, slot, place)| Part { literal: Literal::new(&rest[start..from]), slot, place })
            .collect();
        let tail = &rest[reached..];
        let tail_is_plain = tail.is_empty() || tail[0].is_ascii_whitespace() && !tail.contains(&b'=');
        // A name must have its pid behind it.
        let names_end = parts.last().is_some_and(|part| part.slot != Slot::Comm);
        let places = parts.len();
        (tail_is_plain && names_end).then(|| Shape { parts, tail: Literal::new(tail), places })
    }

    /// Puts the values of the line whose fields begin at `at` at their places, which are the first of `values`; gives where
    /// the line ends.
    #[inline(always)]
    pub(crate) fn read<'v>(
        &self,
        text: &'v [u8],
        mut at: usize,
        fields: usize,
        values: &mut Vec<Value<'v>>,
    ) -> Option<usize> {
        if values.len() < fields {
            values.resize(fields, Value::Null);
        }
        let values = &mut values[..fields];
        if self.places < fields {
            values.fill(Value::Null);
        }
        for (nth, part) in self.parts.iter().enumerate() {
            if !part.literal.is_at(text, at) {
                return None;
            }
            let next = self.parts.get(nth + 1).map_or(&self.tail, |part| &part.literal);
            let (value, end) = part.slot.value(text, at + part.literal.len, next)?;
            *values.get_mut(part.place)? = value;
            at = end;
        }
        let end = at + self.tail.len;
        (self.tail.is_at(text, at) && text.get(end) == Some(&b'\n')).then_some(end)
    }
}
