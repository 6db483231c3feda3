//! Binary `trace_printk`: a format string kept by the kernel and the arguments as `bin_printf()` packed them.
//!
//! (`lib/vsprintf.c:bstr_printf(), v6.12`, `include/linux/kernel.h:trace_printk()`.)
//! Addresses stay numbers: no symbol table is consulted.

use std::collections::BTreeMap;
use std::io::Write;

use crate::bytes::{read_int, read_uint, until_nul};

/// The kernel's `printk_formats` file: address to format string.
pub(crate) type PrintkFormats = BTreeMap<u64, Vec<u8>>;

/// Parses lines of `0xADDRESS : "format"`; lines that are different are skipped.
pub(crate) fn parse_printk_formats(text: &[u8]) -> PrintkFormats {
    let mut formats = PrintkFormats::new();
    for line in text.split(|&b| b == b'\n') {
        let Some(colon) = line.iter().position(|&b| b == b':') else { continue };
        let address = line[..colon].trim_ascii();
        let Some(address) = std::str::from_utf8(address)
            .ok()
            .and_then(|a| u64::from_str_radix(a.strip_prefix("0x").unwrap_or(a), 16).ok())
        else {
            continue;
        };
        let quoted = line[colon + 1..].trim_ascii();
        let inner = quoted.strip_prefix(b"\"").unwrap_or(quoted);
        let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
        formats.insert(address, unescape(inner));
    }
    formats
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(other) => out.push(other),
            None => out.push(b'\\'),
        }
    }
    out
}

/// One `%` conversion of a format string.
#[derive(Default)]
struct Conversion {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

struct Args<'a> {
    bytes: &'a [u8],
    pos: usize,
    big_endian: bool,
}

impl<'a> Args<'a> {
    fn raw(&mut self, size: usize) -> &'a [u8] {
        // bin_printf aligns to the type, but no more than to 32 bits.
        let align = size.min(4);
        self.pos = self.pos.div_ceil(align) * align;
        let start = self.pos.min(self.bytes.len());
        let end = (self.pos + size).min(self.bytes.len());
        self.pos += size;
        &self.bytes[start..end]
    }

    fn string(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.pos..).unwrap_or(&[]);
        let text = until_nul(rest);
        self.pos += text.len() + 1;
        text
    }
}

/// Widths and precisions beyond this are damage.
const MAX_WIDTH: usize = 1024;

/// Appends `format` with its packed arguments to `out`.
pub(crate) fn format_binary(format: &[u8], args: &[u8], long_size: u8, big_endian: bool, out: &mut Vec<u8>) {
    let mut args = Args { bytes: args, pos: 0, big_endian };
    let mut at = 0;
    while at < format.len() {
        if format[at] != b'%' {
            out.push(format[at]);
            at += 1;
            continue;
        }
        at += 1;
        at = conversion(format, at, &mut args, long_size, out);
    }
}

fn number(format: &[u8], mut at: usize, args: &mut Args<'_>) -> (Option<i64>, usize) {
    if format.get(at) == Some(&b'*') {
        return (Some(read_int(args.raw(4), args.big_endian)), at + 1);
    }
    let start = at;
    let mut value = 0i64;
    while let Some(digit) = format.get(at).filter(|b| b.is_ascii_digit()) {
        value = (value * 10 + i64::from(digit - b'0')).min(1 << 20);
        at += 1;
    }
    ((at > start).then_some(value), at)
}

/// Renders the conversion whose text starts at `at`, behind its `%`; returns where the text goes on.
fn conversion(format: &[u8], mut at: usize, args: &mut Args<'_>, long_size: u8, out: &mut Vec<u8>) -> usize {
    let mut c = Conversion::default();
    while let Some(&flag) = format.get(at) {
        match flag {
            b'-' => c.left = true,
            b'+' => c.plus = true,
            b' ' => c.space = true,
            b'#' => c.alternate = true,
            b'0' => c.zero = true,
            _ => break,
        }
        at += 1;
    }
    let (width, next) = number(format, at, args);
    at = next;
    if let Some(width) = width {
        c.left |= width < 0;
        c.width = Some((width.unsigned_abs() as usize).min(MAX_WIDTH));
    }
    if format.get(at) == Some(&b'.') {
        let (precision, next) = number(format, at + 1, args);
        at = next;
        c.precision = match precision {
            Some(p) if p < 0 => None,
            Some(p) => Some((p as usize).min(MAX_WIDTH)),
            None => Some(0),
        };
    }
    let mut size = 4usize;
    while let Some(&modifier) = format.get(at) {
        match modifier {
            b'l' if size == usize::from(long_size) && format.get(at.wrapping_sub(1)) == Some(&b'l') => size = 8,
            b'l' | b'z' | b't' => size = usize::from(long_size),
            b'L' | b'q' | b'j' => size = 8,
            b'h' if format.get(at.wrapping_sub(1)) == Some(&b'h') => size = 1,
            b'h' => size = 2,
            _ => break,
        }
        at += 1;
    }
    let Some(&kind) = format.get(at) else { return at };
    at += 1;
    let big_endian = args.big_endian;
    match kind {
        b'%' => out.push(b'%'),
        b'd' | b'i' => {
            let value = read_int(args.raw(size), big_endian);
            let sign: &[u8] = match value {
                v if v < 0 => b"-",
                _ if c.plus => b"+",
                _ if c.space => b" ",
                _ => b"",
            };
            integer(&c, sign, value.unsigned_abs().to_string().as_bytes(), out);
        }
        b'u' => integer(&c, b"", read_uint(args.raw(size), big_endian).to_string().as_bytes(), out),
        b'x' | b'X' | b'o' => {
            let value = read_uint(args.raw(size), big_endian);
            let (prefix, digits): (&[u8], String) = match kind {
                b'x' => (b"0x", format!("{value:x}")),
                b'X' => (b"0X", format!("{value:X}")),
                _ => (b"0", format!("{value:o}")),
            };
            integer(&c, if c.alternate { prefix } else { b"" }, digits.as_bytes(), out);
        }
        b'c' => {
            let value = read_uint(args.raw(1), big_endian) as u8;
            pad(&c, &[value], out);
        }
        b's' => {
            let text = args.string();
            pad(&c, &text[..text.len().min(c.precision.unwrap_or(usize::MAX))], out);
        }
        b'p' => {
            // Letters behind %p choose how the kernel shows the address.
            let extension = at;
            while format.get(at).is_some_and(u8::is_ascii_alphanumeric) {
                at += 1;
            }
            match format.get(extension) {
                Some(b's' | b'S' | b'f' | b'F' | b'B' | b'x' | b'K' | b'e') | None => {
                    address(args, long_size, out);
                }
                Some(letter) if letter.is_ascii_alphanumeric() => out.extend_from_slice(args.string()),
                Some(_) => address(args, long_size, out),
            }
        }
        other => out.extend_from_slice(&[b'%', other]),
    }
    at
}

fn address(args: &mut Args<'_>, long_size: u8, out: &mut Vec<u8>) {
    let value = read_uint(args.raw(usize::from(long_size)), args.big_endian);
    write!(out, "0x{value:x}").expect("writing to memory does not fail");
}

fn integer(c: &Conversion, sign: &[u8], digits: &[u8], out: &mut Vec<u8>) {
    let mut text = Vec::with_capacity(24);
    text.extend_from_slice(sign);
    let least = match (c.precision, c.width) {
        (Some(precision), _) => precision,
        (None, Some(width)) if c.zero && !c.left => width.saturating_sub(sign.len()),
        _ => 0,
    };
    text.resize(text.len() + least.saturating_sub(digits.len()), b'0');
    text.extend_from_slice(digits);
    pad(c, &text, out);
}

fn pad(c: &Conversion, text: &[u8], out: &mut Vec<u8>) {
    let blanks = c.width.unwrap_or(0).saturating_sub(text.len());
    if !c.left {
        out.resize(out.len() + blanks, b' ');
    }
    out.extend_from_slice(text);
    if c.left {
        out.resize(out.len() + blanks, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, args: &[u8], expected: &str) {
        let mut out = Vec::new();
        format_binary(format.as_bytes(), args, 8, false, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{format}");
    }

    #[test]
    fn conversions_render_as_printf_does() {
        check("plain 100%%", &[], "plain 100%");
        check(
            "%d|%5d|%-5d|%05d|%+d",
            &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 5, 0, 0, 0],
            "1|    2|3    |-0004|+5",
        );
        check(
            "%u %x %#x %X %o",
            &[255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 8, 0, 0, 0],
            "255 ff 0xff FF 10",
        );
        check("%llu %ld", &[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "4294967297 -1");
        check("%s-%d", b"ab\0\0\x07\0\0\0", "ab-7");
        check("%c%c %hhd %hd", &[b'a', b'b', 0xff, 0, 0xfe, 0xff], "ab -1 -2");
        check("%*d|%.3d|%.2s", &[3, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, b'x', b'y', b'z', 0], "  7|007|xy");
        check("%p %pS", &[0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0], "0x10 0x20");
        // Arguments that are not there read as 0 or empty.
        check("%d %s %lx", &[], "0  0");
        check("%", &[], "");
        check("%999999999999d", &[1, 0, 0, 0], &format!("{:>1024}", 1));
    }

    #[test]
    fn printk_formats_are_unescaped() {
        let formats = parse_printk_formats(b"0xffffffff82000000 : \"a=%d \\\"q\\\"\\n\"\nrubbish\n0x10: \"x:y\"\n");
        assert_eq!(formats.get(&0xffff_ffff_8200_0000).unwrap(), b"a=%d \"q\"\n");
        assert_eq!(formats.get(&0x10).unwrap(), b"x:y");
        assert_eq!(formats.len(), 2);
    }
}
