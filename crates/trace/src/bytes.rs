//! A cursor over untrusted bytes with either byte order; every read is checked and names what it was for.

use crate::error::{Error, Result};

/// Reads an unsigned number of 1, 2, 4 or 8 bytes; other sizes give 0.
#[inline(always)]
pub(crate) fn read_uint(bytes: &[u8], big_endian: bool) -> u64 {
    match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(if big_endian { u16::from_be_bytes([a, b]) } else { u16::from_le_bytes([a, b]) }),
        [a, b, c, d] => {
            u64::from(if big_endian { u32::from_be_bytes([a, b, c, d]) } else { u32::from_le_bytes([a, b, c, d]) })
        }
        [a, b, c, d, e, f, g, h] => {
            let raw = [a, b, c, d, e, f, g, h];
            if big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) }
        }
        _ => 0,
    }
}

/// Reads a signed number of 1, 2, 4 or 8 bytes; other sizes give 0.
#[inline(always)]
pub(crate) fn read_int(bytes: &[u8], big_endian: bool) -> i64 {
    let raw = read_uint(bytes, big_endian);
    match bytes.len() {
        1 => i64::from(raw as u8 as i8),
        2 => i64::from(raw as u16 as i16),
        4 => i64::from(raw as u32 as i32),
        _ => raw as i64,
    }
}

/// Reads 4 bytes at `at`; `None` if they are not all there.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u32> {
    let raw = <[u8; 4]>::try_from(bytes.get(at..at.checked_add(4)?)?).ok()?;
    Some(if big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
}

/// Reads 8 bytes at `at`; `None` if they are not all there.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize, big_endian: bool) -> Option<u64> {
    let raw = <[u8; 8]>::try_from(bytes.get(at..at.checked_add(8)?)?).ok()?;
    Some(if big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) })
}

/// The name that the kernel's events have of a task that `/proc` calls `name`: a kworker without what it works on, which only
/// `/proc` appends, after `-` or `+` (fs/proc/array.c:proc_task_name(), kernel/workqueue.c:wq_worker_comm(), v6.12).
///
/// A rescuer's name has no `:`, and its queue is part of it: `kworker/R-rcu_g`.
pub(crate) fn own_name(name: &[u8]) -> &[u8] {
    let Some(at) = name.strip_prefix(b"kworker/").and_then(|rest| rest.iter().position(|&byte| byte == b':')) else {
        return name;
    };
    let colon = at + b"kworker/".len();
    let end = name[colon..].iter().position(|byte| b"-+".contains(byte)).map_or(name.len(), |more| colon + more);
    &name[..end]
}

/// Cuts a byte string at its first NUL, as C does.
#[inline]
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|&b| b == 0) {
        Some(end) => &bytes[..end],
        None => bytes,
    }
}

/// A position in `data`; `base` is where `data` starts in the file, for error messages.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    pos: usize,
    base: u64,
    pub(crate) big_endian: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8], base: u64, big_endian: bool) -> Self {
        Self { data, pos: 0, base, big_endian }
    }

    /// The same data from `pos` on; fails if that is outside.
    pub(crate) fn at(data: &'a [u8], pos: u64, big_endian: bool, what: &str) -> Result<Self> {
        let start = usize::try_from(pos).ok().filter(|&p| p <= data.len());
        match start {
            Some(start) => Ok(Self { data, pos: start, base: 0, big_endian }),
            None => Err(Error::Truncated { offset: pos, what: what.into(), needed: 1, have: 0 }),
        }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }

    pub(crate) fn left(&self) -> usize {
        self.data.len() - self.pos
    }

    pub(crate) fn take(&mut self, len: u64, what: &str) -> Result<&'a [u8]> {
        let have = self.left() as u64;
        if len > have {
            return Err(Error::Truncated { offset: self.offset(), what: what.into(), needed: len, have });
        }
        let start = self.pos;
        self.pos += len as usize;
        Ok(&self.data[start..self.pos])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        let big = self.big_endian;
        self.take(2, what).map(|b| read_uint(b, big) as u16)
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        let big = self.big_endian;
        self.take(4, what).map(|b| read_uint(b, big) as u32)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        let big = self.big_endian;
        self.take(8, what).map(|b| read_uint(b, big))
    }

    /// A NUL-terminated string, without its NUL.
    pub(crate) fn cstr(&mut self, what: &str) -> Result<&'a [u8]> {
        let rest = &self.data[self.pos..];
        match rest.iter().position(|&b| b == 0) {
            Some(end) => {
                self.pos += end + 1;
                Ok(&rest[..end])
            }
            None => Err(Error::Truncated {
                offset: self.offset(),
                what: what.into(),
                needed: rest.len() as u64 + 1,
                have: rest.len() as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::own_name;

    #[test]
    fn a_kworker_has_the_name_of_its_events() {
        let check = |name: &str, own: &str| assert_eq!(own_name(name.as_bytes()), own.as_bytes());
        check("kworker/0:1-events", "kworker/0:1");
        check("kworker/u8:3+flush-8:0", "kworker/u8:3");
        check("kworker/3:1H-kblockd", "kworker/3:1H");
        check("kworker/R-rcu_g", "kworker/R-rcu_g");
        check("irq/12-mmc0", "irq/12-mmc0");
        check("kworker/0:1", "kworker/0:1");
    }
}
