//! The protobuf wire format: numbered fields of varints, fixed words and byte strings. No schema, no code generation.

use crate::error::{Error, Result};

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    pub(crate) fn uint(self) -> u64 {
        match self {
            Wire::Varint(value) | Wire::Fixed(value) => value,
            Wire::Bytes(_) => 0,
        }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        if let Wire::Bytes(bytes) = self { bytes } else { &[] }
    }
}

/// The low seven bits of each byte, without gaps.
#[inline(always)]
fn squeezed(word: u64) -> u64 {
    let sevens = word & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = (sevens & 0x007f_007f_007f_007f) | ((sevens & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4)
}

/// The fields of a message in the order in which they lie.
#[derive(Clone)]
pub(crate) struct Message<'a> {
    /// What was not read.
    rest: &'a [u8],
    /// Where the message ends in the file.
    end: u64,
}

impl<'a> Message<'a> {
    /// `base`: where `data` starts in the file.
    pub(crate) fn new(data: &'a [u8], base: u64) -> Self {
        Self { rest: data, end: base + data.len() as u64 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.end - self.rest.len() as u64
    }

    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        match *self.rest {
            [byte @ ..0x80, ref rest @ ..] => {
                self.rest = rest;
                return Some(u64::from(byte));
            }
            [low, high @ ..0x80, ref rest @ ..] => {
                self.rest = rest;
                return Some(u64::from(low & 0x7f) | u64::from(high) << 7);
            }
            _ => {}
        }
        let Some((&eight, behind)) = self.rest.split_first_chunk::<8>() else { return self.last_varint() };
        let word = u64::from_le_bytes(eight);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            let bits = ends.trailing_zeros() + 1;
            self.rest = &self.rest[(bits / 8) as usize..];
            return Some(squeezed(word & (u64::MAX >> (64 - bits))));
        }
        // Times since 1970 and negative numbers.
        let (high, rest) = match *behind {
            [ninth @ ..0x80, ref rest @ ..] => (u64::from(ninth), rest),
            [ninth, tenth @ ..0x80, ref rest @ ..] => (u64::from(ninth & 0x7f) | u64::from(tenth) << 7, rest),
            _ => return None,
        };
        self.rest = rest;
        Some(squeezed(word) | high << 56)
    }

    /// A varint that begins less than eight bytes before the end.
    fn last_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let &byte = self.rest.split_off_first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The next field; `None` at the end.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<Result<(u32, Wire<'a>)>> {
        if self.rest.is_empty() {
            return None;
        }
        let start = self.rest;
        Some(match self.field() {
            Some(field) => Ok(field),
            None => Err(self.damaged(start.len())),
        })
    }

    /// What is wrong with the field that begins `left` bytes before the end.
    #[cold]
    fn damaged(&mut self, left: usize) -> Error {
        self.rest = &[];
        let offset = self.end - left as u64;
        Error::Invalid { offset, what: "a protobuf field is damaged or cut off".into() }
    }

    /// The same for who needs not know of damage, which is an end as well.
    #[inline(always)]
    pub(crate) fn field(&mut self) -> Option<(u32, Wire<'a>)> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|&n| n > 0)?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed(u64::from_le_bytes(*self.chunk()?)),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed(u64::from(u32::from_le_bytes(*self.chunk()?))),
            _ => return None,
        };
        Some((number, value))
    }

    #[inline(always)]
    fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(bytes)
    }
}

/// Appends the numbers of a repeated field, packed or single.
pub(crate) fn repeated(value: Wire<'_>, out: &mut Vec<u64>) {
    match value {
        Wire::Bytes(bytes) => {
            let mut packed = Message::new(bytes, 0);
            while let Some(value) = packed.varint() {
                out.push(value);
            }
        }
        other => out.push(other.uint()),
    }
}

/// Builds a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder {
    pub(crate) bytes: Vec<u8>,
}

impl Encoder {
    /// An empty message with room for most events.
    pub(crate) fn roomy() -> Self {
        Self { bytes: Vec::with_capacity(512) }
    }

    pub(crate) fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn uint(&mut self, number: u32, value: u64) -> &mut Self {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
        self
    }

    pub(crate) fn bytes(&mut self, number: u32, value: &[u8]) -> &mut Self {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    pub(crate) fn fixed64(&mut self, number: u32, bits: u64) -> &mut Self {
        self.raw_varint(u64::from(number) << 3 | 1);
        self.bytes.extend_from_slice(&bits.to_le_bytes());
        self
    }

    pub(crate) fn message(&mut self, number: u32, inner: &Encoder) -> &mut Self {
        self.bytes(number, &inner.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut inner = Encoder::default();
        inner.uint(1, 300).bytes(2, b"abc").uint(1000, u64::MAX);
        let mut outer = Encoder::default();
        outer.message(7, &inner);
        let mut message = Message::new(&outer.bytes, 0);
        let (number, value) = message.next().unwrap().unwrap();
        assert_eq!(number, 7);
        let mut message = Message::new(value.bytes(), 2);
        assert_eq!(message.next().unwrap().unwrap(), (1, Wire::Varint(300)));
        assert_eq!(message.next().unwrap().unwrap(), (2, Wire::Bytes(b"abc")));
        assert_eq!(message.next().unwrap().unwrap(), (1000, Wire::Varint(u64::MAX)));
        assert!(message.next().is_none());
    }

    #[test]
    fn numbers_of_all_lengths_are_read_at_any_place() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1 << bits) - 1, u64::MAX >> bits, 0x5555_5555_5555_5555 >> bits] {
                for behind in 0..12 {
                    let mut encoder = Encoder::default();
                    encoder.raw_varint(value);
                    let len = encoder.bytes.len();
                    encoder.bytes.resize(len + behind, 0xff);
                    let mut message = Message::new(&encoder.bytes, 0);
                    assert_eq!(message.varint(), Some(value), "{value:#x} with {behind} behind");
                    assert_eq!(message.offset(), len as u64, "{value:#x} with {behind} behind");
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error_with_its_place() {
        for damaged in [
            &[0x0a, 5, 1][..],
            &[0x08],
            &[0x07],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            let mut message = Message::new(damaged, 100);
            assert_eq!(
                message.next().unwrap().unwrap_err().to_string(),
                "offset 100: a protobuf field is damaged or cut off"
            );
            assert!(message.next().is_none());
        }
    }
}
