//! A lenient JSON reader that keeps order, repeats and places.
//!
//! It reads what json-c reads in its default mode and what is found in files for rt-app: `/* */` and `//` comments,
//! commas before a closing bracket, single quotes, keys that are repeated, and keys without a value (workgen only).
//! It refuses a template whose placeholders are not filled in, and names the placeholder.
//! What repeats and missing values mean is the caller's business.

use crate::error::{Fault, Pos, shorten};
use crate::tree::{Key, Node, Value};

/// Deepest nesting, that of json-c (JSON_TOKENER_DEFAULT_DEPTH).
const DEPTH_MAX: usize = 32;

/// Reads JSON.
///
/// # Errors
/// The first thing that is no JSON even leniently, or a placeholder.
pub fn parse_json(text: &str) -> Result<Node, Fault> {
    let mut reader = Reader { text, offset: 0, at: Pos { line: 1, column: 1 } };
    if text.starts_with('\u{feff}') {
        reader.bump();
    }
    reader.skip_blanks()?;
    if reader.peek().is_none() {
        return Err(Fault::new(reader.at, "the file is empty"));
    }
    let node = reader.value(0)?;
    reader.skip_blanks()?;
    match reader.peek() {
        None => Ok(node),
        Some(c) => Err(Fault::new(reader.at, format!("`{}` after the end of the data", shorten(&c.to_string())))),
    }
}

struct Reader<'a> {
    text: &'a str,
    offset: usize,
    at: Pos,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.offset += c.len_utf8();
        if c == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(c)
    }

    fn skip_blanks(&mut self) -> Result<(), Fault> {
        loop {
            if self.rest().starts_with("/*") {
                let start = self.at;
                while !self.rest().starts_with("*/") {
                    if self.bump().is_none() {
                        return Err(Fault::new(start, "a comment that does not end"));
                    }
                }
                self.bump();
                self.bump();
            } else if self.rest().starts_with("//") {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
            } else if self.peek().is_some_and(|c| c.is_ascii_whitespace() || c == '\u{b}') {
                self.bump();
            } else {
                return Ok(());
            }
        }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        match self.peek() {
            Some(c) => Fault::new(self.at, format!("expected {wanted}, not `{}`", shorten(&c.to_string()))),
            None => Fault::new(self.at, format!("the file ends where {wanted} should be")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        let at = self.at;
        if depth > DEPTH_MAX {
            return Err(Fault::new(at, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        let rest = self.rest();
        if rest.starts_with("{{") || rest.starts_with("{%") {
            return Err(self.placeholder(at));
        }
        let value = match self.peek() {
            Some('{') => self.table(depth)?,
            Some('[') => self.list(depth)?,
            Some('"' | '\'') => Value::Str(self.string()?),
            Some(c) if c == '-' || c == '+' || c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_alphabetic() || matches!(c, '_' | '$' | '<' | '@' | '%') => self.word(at)?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { value, at })
    }

    /// Something that a template engine was to replace: everything up to the next separator.
    fn placeholder(&self, at: Pos) -> Fault {
        let rest = self.rest();
        let end = rest.find([',', '\n', '\r']).unwrap_or(rest.len());
        let mut name = rest[..end].trim();
        if name.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).unwrap_or(name.len());
            name = &name[..end];
        }
        let message = format!("this is a template: placeholder `{}` is not filled in", shorten(name));
        Fault::new(at, message)
    }

    fn word(&mut self, at: Pos) -> Result<Value, Fault> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let value = match rest[..end].to_ascii_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            _ => return Err(self.placeholder(at)),
        };
        for _ in 0..end {
            self.bump();
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let at = self.at;
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')))
            .unwrap_or(rest.len());
        let digits = rest[..end].to_owned();
        let is_int = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let value = if is_int(digits.strip_prefix('-').unwrap_or(&digits)) {
            let number: i128 =
                digits.parse().map_err(|_| Fault::new(at, format!("the number {} is too large", shorten(&digits))))?;
            Value::Int(number)
        } else {
            let number: Option<f64> = digits
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
                .then(|| digits.parse().ok())
                .flatten()
                .filter(|number: &f64| number.is_finite());
            Value::Float(number.ok_or_else(|| Fault::new(at, format!("`{}` is no number", shorten(&digits))))?)
        };
        for _ in 0..digits.len() {
            self.bump();
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Fault> {
        let start = self.at;
        let quote = self.bump();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.bump() {
                None => return Err(Fault::new(start, "a string that does not end")),
                c if c == quote => return Ok(text),
                Some('\n') => return Err(Fault::new(start, "a string that does not end on its line")),
                Some('\\') => text.push(self.escape(at)?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self, at: Pos) -> Result<char, Fault> {
        match self.bump() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some(c @ ('"' | '\'' | '\\' | '/')) => Ok(c),
            Some('u') => {
                let mut unit = self.hex4(at)?;
                if (0xd800..0xdc00).contains(&unit) && self.rest().starts_with("\\u") {
                    self.bump();
                    self.bump();
                    let low = self.hex4(at)?;
                    if (0xdc00..0xe000).contains(&low) {
                        unit = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                    }
                }
                Ok(char::from_u32(unit).unwrap_or('\u{fffd}'))
            }
            _ => Err(Fault::new(at, "an escape sequence that does not exist")),
        }
    }

    fn hex4(&mut self, at: Pos) -> Result<u32, Fault> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.bump().and_then(|c| c.to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| Fault::new(at, "`\\u` needs four hexadecimal digits"))?;
        }
        Ok(unit)
    }

    fn list(&mut self, depth: usize) -> Result<Value, Fault> {
        let start = self.at;
        self.bump();
        let mut items = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                None => return Err(Fault::new(start, "a list that does not end")),
                Some(']') => {
                    self.bump();
                    return Ok(Value::List(items));
                }
                _ => {}
            }
            items.push(self.value(depth + 1)?);
            self.skip_blanks()?;
            match self.peek() {
                Some(',') => {
                    self.bump();
                }
                Some(']') => {}
                None => return Err(Fault::new(start, "a list that does not end")),
                _ => return Err(self.unexpected("`,` or `]`")),
            }
        }
    }

    fn table(&mut self, depth: usize) -> Result<Value, Fault> {
        let start = self.at;
        self.bump();
        let mut entries: Vec<(Key, Node)> = Vec::new();
        loop {
            self.skip_blanks()?;
            let at = self.at;
            match self.peek() {
                None => return Err(Fault::new(start, "a table that does not end")),
                Some('}') => {
                    self.bump();
                    return Ok(Value::Table(entries));
                }
                Some('"' | '\'') => {}
                Some(c) if c.is_alphabetic() || matches!(c, '_' | '$' | '<' | '@' | '%' | '{') => {
                    return Err(self.placeholder(at));
                }
                _ => return Err(self.unexpected("a key in quotes or `}`")),
            }
            let key = Key { name: self.string()?, at };
            self.skip_blanks()?;
            let node = match self.peek() {
                Some(':') => {
                    self.bump();
                    self.skip_blanks()?;
                    self.value(depth + 1)?
                }
                Some(',' | '}') => Node { value: Value::Missing, at },
                _ => return Err(self.unexpected("`:`")),
            };
            entries.push((key, node));
            self.skip_blanks()?;
            match self.peek() {
                Some(',') => {
                    self.bump();
                }
                Some('}') => {}
                None => return Err(Fault::new(start, "a table that does not end")),
                _ => return Err(self.unexpected("`,` or `}`")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::to_json;

    fn check(text: &str, expected: &str) {
        let got = match parse_json(text) {
            Ok(node) => to_json(&node),
            Err(fault) => format!("{}: {}", fault.at, fault.message),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn reads_what_json_c_reads() {
        check("{\"b\": 1, \"a\": [1, -2, 3.5, true, NULL,], }", r#"{"b":1,"a":[1,-2,3.5,true,null]}"#);
        check("/* c */ { // d\n 'k' : \"\\u00e9\\n\" }\n", r#"{"k":"é\n"}"#);
        check("{\"run\": 1, \"run\": 2, \"suspend\", \"sleep\": 3}", r#"{"run":1,"run":2,"suspend":null,"sleep":3}"#);
        check("[\"\\ud83d\\ude00\"]", "[\"\u{1f600}\"]");
    }

    #[test]
    fn refuses_with_the_place() {
        check("", "1:1: the file is empty");
        check("{\n  \"a\": ", "2:8: the file ends where a value should be");
        check("{\n  \"a\": 1", "1:1: a table that does not end");
        check("{\"a\" 1}", "1:6: expected `:`, not `1`");
        check("{\"a\": 1 \"b\": 2}", "1:9: expected `,` or `}`, not `\"`");
        check("[1} ", "1:3: expected `,` or `]`, not `}`");
        check("{} x", "1:4: `x` after the end of the data");
        check("{\"a\": 12ab}", "1:7: `12ab` is no number");
        check("{\"a\n\": 1}", "1:2: a string that does not end on its line");
        check("/* x", "1:1: a comment that does not end");
        check(&"[".repeat(100), "1:34: nested deeper than 32 levels");
    }

    #[test]
    fn names_placeholders() {
        check("{\n \"d\": __DURATION__,\n}", "2:7: this is a template: placeholder `__DURATION__` is not filled in");
        check("{\"d\": CALIBRATION_VAL}", "1:7: this is a template: placeholder `CALIBRATION_VAL` is not filled in");
        check("{\"d\": {{ run }}, ", "1:7: this is a template: placeholder `{{ run }}` is not filled in");
        check("{\"d\": ${X}\n}", "1:7: this is a template: placeholder `${X}` is not filled in");
        check("{ %tasks% }", "1:3: this is a template: placeholder `%tasks% }` is not filled in");
    }
}
