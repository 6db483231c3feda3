//! A stream to a terminal that shows control characters instead of passing them on: names come from `/proc` and `/sys`,
//! where any program may have chosen them.

use std::io::{self, Write};

/// Writes texts. What a terminal would obey is shown: control characters but line ends and tabs as `\\xNN`, those from
/// DEL on and marks of direction as `\\uNNNN`, so that JSON stays JSON. What is no UTF-8 is shown as `\\u00NN`.
pub(crate) struct Shown<'a>(pub(crate) &'a mut dyn Write);

/// Whether a terminal obeys a character; the same set as `opplab.files.printable`.
fn is_obeyed(char: char) -> bool {
    (char.is_control() && !matches!(char, '\n' | '\t'))
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Write for Shown<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some((at, char)) = rest.char_indices().find(|&(_, char)| is_obeyed(char)) {
                self.0.write_all(rest[..at].as_bytes())?;
                match u32::from(char) {
                    code @ ..0x20 => write!(self.0, "\\x{code:02x}")?,
                    code => write!(self.0, "\\u{code:04x}")?,
                }
                rest = &rest[at + char.len_utf8()..];
            }
            self.0.write_all(rest.as_bytes())?;
            for byte in chunk.invalid() {
                write!(self.0, "\\u{byte:04x}")?;
            }
        }
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
        let text = "a\x1b[31m\tb\x07 \x7f\u{9b}31m é \u{202e}x\u{2069}\u{200f}\n";
        Shown(&mut out).write_all(text.as_bytes()).expect("memory");
        Shown(&mut out).write_all(b"\x9b").expect("memory");
        let shown = "a\\x1b[31m\tb\\x07 \\u007f\\u009b31m é \\u202ex\\u2069\\u200f\n\\u009b";
        assert_eq!(String::from_utf8_lossy(&out), shown);
    }
}
