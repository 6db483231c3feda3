//! A stream to a terminal that shows control characters instead of passing them on: names come from `/proc` and `/sys`,
//! where any program may have chosen them.

use std::io::{self, Write};

/// Writes texts; bytes below a blank other than line ends and tabs, and DEL, become `\\xNN`.
pub(crate) struct Shown<'a>(pub(crate) &'a mut dyn Write);

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let obeyed = |byte: u8| (byte < b' ' && !b"\n\t".contains(&byte)) || byte == 0x7f;
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|&byte| obeyed(byte)) {
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\x{:02x}", rest[at])?;
            rest = &rest[at + 1..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_shown() {
        let mut out = Vec::new();
        writeln!(Shown(&mut out), "a\x1b[31m\tb\x07").expect("memory");
        assert_eq!(String::from_utf8_lossy(&out), "a\\x1b[31m\tb\\x07\n");
    }
}
