//! Device tree source that needs no preprocessor, as `dtc -O dts` writes it: compiled to a blob, which [`crate::dtb`] reads.
//!
//! Nodes, properties, labels, `&label` as reference and as node, strings, cells, bytes. Not here: `#include` and macros,
//! expressions, `/incbin/`, `/delete-...`; they are refused by name.

use std::collections::BTreeMap;

use crate::dtb;
use crate::error::{ImportError, shorten};
use crate::facts::Facts;

const DEPTH_MAX: usize = 60;
/// A property's bytes, references left open, and the line.
type Value = (Vec<Part>, usize);

enum Part {
    Bytes(Vec<u8>),
    /// The phandle of a labelled node.
    Phandle(String),
    /// The path of a labelled node.
    Path(String),
}

#[derive(Default)]
struct Node {
    name: String,
    path: String,
    props: BTreeMap<String, Value>,
    children: Vec<usize>,
    by_name: BTreeMap<String, usize>,
}

/// Whether `text` is such a source.
pub(crate) fn sniff(text: &str) -> bool {
    text.lines().map(str::trim).take(200).any(|line| line.starts_with("/dts-v1/"))
}

/// Imports the source called `file`.
pub(crate) fn import(name: &str, file: &str, text: &str) -> Result<Facts, ImportError> {
    let mut parser = Parser { file, rest: text, line: 1, nodes: vec![Node::default()], labels: BTreeMap::new() };
    parser.file()?;
    let blob = parser.blob()?;
    dtb::import(name, file, &blob)
}

struct Parser<'a> {
    file: &'a str,
    rest: &'a str,
    line: usize,
    nodes: Vec<Node>,
    labels: BTreeMap<String, usize>,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_,.+-#?@/".contains(c)
}

impl<'a> Parser<'a> {
    fn error(&self, line: usize, message: impl Into<String>) -> ImportError {
        ImportError::line(self.file, line, message)
    }

    fn expected(&self, what: &str) -> ImportError {
        let found = self.rest.lines().next().unwrap_or("");
        let found = if found.is_empty() { "the end".to_owned() } else { format!("`{}`", shorten(found)) };
        self.error(self.line, format!("{what} is expected, not {found}"))
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    /// Goes over white space and comments.
    fn space(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            let end = if self.rest.starts_with("//") {
                self.rest.find('\n')
            } else if self.rest.starts_with("/*") {
                self.rest.find("*/").map(|at| at + 2)
            } else {
                return;
            };
            self.skip(end.unwrap_or(self.rest.len()));
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let is_next = self.rest.starts_with(token);
        if is_next {
            self.skip(token.len());
        }
        is_next
    }

    fn need(&mut self, token: &str) -> Result<(), ImportError> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    fn word(&mut self) -> &'a str {
        self.space();
        let end = self.rest.find(|c: char| !is_name(c)).unwrap_or(self.rest.len());
        let (word, _) = self.rest.split_at(end);
        self.skip(end);
        word
    }

    fn label(&mut self) -> Option<&'a str> {
        self.space();
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        (end > 0 && self.rest[end..].starts_with(':')).then(|| {
            let label = &self.rest[..end];
            self.skip(end + 1);
            label
        })
    }

    fn file(&mut self) -> Result<(), ImportError> {
        loop {
            self.space();
            if self.rest.is_empty() {
                return Ok(());
            }
            if self.rest.starts_with('#') {
                return Err(self.error(
                    self.line,
                    "it needs the preprocessor: compile it, or decompile its .dtb with `dtc -O dts`",
                ));
            } else if self.eat("/dts-v1/") {
                self.need(";")?;
            } else if self.eat("/memreserve/") {
                let end = self.rest.find(';').ok_or_else(|| self.expected("`;`"))?;
                self.skip(end + 1);
            } else if self.eat("&") {
                let label = self.word();
                let Some(&at) = self.labels.get(label) else {
                    return Err(self.error(self.line, format!("no node has the label `{}`", shorten(label))));
                };
                self.need("{")?;
                self.body(at, 1)?;
            } else {
                while let Some(label) = self.label() {
                    self.labels.insert(label.to_owned(), 0);
                }
                self.need("/")?;
                self.need("{")?;
                self.body(0, 1)?;
            }
        }
    }

    /// What is between a node's braces.
    fn body(&mut self, at: usize, depth: usize) -> Result<(), ImportError> {
        if depth > DEPTH_MAX {
            return Err(self.error(self.line, format!("nodes are nested more than {DEPTH_MAX} deep")));
        }
        while !self.eat("}") {
            let mut labels = Vec::new();
            while let Some(label) = self.label() {
                labels.push(label.to_owned());
            }
            let line = self.line;
            let name = self.word();
            if name.is_empty() || name.starts_with('/') {
                return Err(if name.is_empty() {
                    self.expected("a node or a property")
                } else {
                    self.error(line, format!("`{}` is not read", shorten(name)))
                });
            }
            if self.eat("{") {
                let known = self.nodes[at].by_name.get(name).copied();
                let child = known.unwrap_or_else(|| {
                    let path = format!("{}/{name}", self.nodes[at].path);
                    self.nodes.push(Node { name: name.to_owned(), path, ..Node::default() });
                    let child = self.nodes.len() - 1;
                    self.nodes[at].children.push(child);
                    self.nodes[at].by_name.insert(name.to_owned(), child);
                    child
                });
                self.labels.extend(labels.into_iter().map(|label| (label, child)));
                self.body(child, depth + 1)?;
            } else {
                let value = if self.eat("=") { self.value()? } else { Vec::new() };
                self.need(";")?;
                self.nodes[at].props.insert(name.to_owned(), (value, line));
            }
        }
        self.need(";")
    }

    fn value(&mut self) -> Result<Vec<Part>, ImportError> {
        let mut parts = Vec::new();
        loop {
            while self.label().is_some() {}
            if self.eat("\"") {
                let end = self.rest.find('"').ok_or_else(|| self.expected("the string's end"))?;
                let mut bytes = self.rest.as_bytes()[..end].to_vec();
                bytes.push(0);
                self.skip(end + 1);
                parts.push(Part::Bytes(bytes));
            } else if self.eat("<") {
                self.cells(4, &mut parts)?;
            } else if self.eat("/bits/") {
                let bits = self.word();
                let bytes = match bits {
                    "8" | "16" | "32" | "64" => bits.parse::<usize>().unwrap_or(32) / 8,
                    _ => return Err(self.expected("8, 16, 32 or 64 before this")),
                };
                self.need("<")?;
                self.cells(bytes, &mut parts)?;
            } else if self.eat("[") {
                let end = self.rest.find(']').ok_or_else(|| self.expected("`]`"))?;
                let digits: String = self.rest[..end].split_whitespace().collect();
                let pairs = digits.as_bytes().chunks(2).map(|pair| {
                    std::str::from_utf8(pair)
                        .ok()
                        .filter(|pair| pair.len() == 2)
                        .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                });
                let bytes = pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| self.expected("pairs of hex digits"))?;
                self.skip(end + 1);
                parts.push(Part::Bytes(bytes));
            } else if self.eat("&") {
                parts.push(Part::Path(self.word().to_owned()));
            } else {
                return Err(self.expected("a value"));
            }
            if !self.eat(",") {
                return Ok(parts);
            }
        }
    }

    /// Numbers of so many bytes up to `>`.
    fn cells(&mut self, bytes: usize, parts: &mut Vec<Part>) -> Result<(), ImportError> {
        while !self.eat(">") {
            while self.label().is_some() {}
            if bytes == 4 && self.eat("&") {
                parts.push(Part::Phandle(self.word().to_owned()));
                continue;
            }
            self.space();
            let line = self.line;
            let word = self.word();
            let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
                Some(hex) => u64::from_str_radix(hex, 16),
                None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(&word[1..], 8),
                None => word.parse::<u64>(),
            };
            if word.is_empty() {
                return Err(self.expected("a number"));
            }
            let number = number.ok().filter(|number| bytes == 8 || number >> (8 * bytes) == 0);
            let number =
                number.ok_or_else(|| self.error(line, format!("`{}` is no number of {bytes} bytes", shorten(word))))?;
            parts.push(Part::Bytes(number.to_be_bytes()[8 - bytes..].to_vec()));
        }
        Ok(())
    }

    /// Version 17, with what is referred to numbered after the phandles that are written.
    fn blob(mut self) -> Result<Vec<u8>, ImportError> {
        let written = |node: &Node| {
            let (parts, _) = node.props.get("phandle").or_else(|| node.props.get("linux,phandle"))?;
            match parts.as_slice() {
                [Part::Bytes(bytes)] => Some(u32::from_be_bytes(bytes.as_slice().try_into().ok()?)),
                _ => None,
            }
        };
        let mut phandles: Vec<Option<u32>> = self.nodes.iter().map(written).collect();
        let mut next = phandles.iter().flatten().copied().max().unwrap_or(0).saturating_add(1);
        let labels = std::mem::take(&mut self.labels);
        let of = |label: &str, line: usize| {
            labels
                .get(label)
                .copied()
                .ok_or_else(|| self.error(line, format!("no node has the label `{}`", shorten(label))))
        };
        let mut values: Vec<Vec<(&str, Vec<u8>)>> = Vec::new();
        let mut numbered = Vec::new();
        for node in &self.nodes {
            let mut props = Vec::new();
            for (name, (parts, line)) in &node.props {
                let mut bytes = Vec::new();
                for part in parts {
                    match part {
                        Part::Bytes(own) => bytes.extend(own),
                        Part::Path(label) => {
                            bytes.extend(self.nodes[of(label, *line)?].path.bytes());
                            bytes.push(0);
                        }
                        Part::Phandle(label) => {
                            let at = of(label, *line)?;
                            let phandle = *phandles[at].get_or_insert_with(|| {
                                numbered.push(at);
                                let own = next;
                                next = next.wrapping_add(1);
                                own
                            });
                            bytes.extend(phandle.to_be_bytes());
                        }
                    }
                }
                props.push((name.as_str(), bytes));
            }
            values.push(props);
        }
        for at in numbered {
            values[at].push(("phandle", phandles[at].unwrap_or(0).to_be_bytes().to_vec()));
        }
        let (mut body, mut strings) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let mut open = vec![(0, false)];
        while let Some((at, ends)) = open.pop() {
            if ends {
                body.extend(2u32.to_be_bytes());
                continue;
            }
            body.extend(1u32.to_be_bytes());
            body.extend(self.nodes[at].name.bytes());
            body.resize((body.len() + 1).next_multiple_of(4), 0);
            for (name, bytes) in &values[at] {
                let place = *places.entry(name).or_insert_with(|| {
                    let place = strings.len() as u32;
                    strings.extend(name.bytes().chain([0]));
                    place
                });
                body.extend([3, bytes.len() as u32, place].iter().flat_map(|word| word.to_be_bytes()));
                body.extend(bytes);
                body.resize(body.len().next_multiple_of(4), 0);
            }
            open.push((at, true));
            open.extend(self.nodes[at].children.iter().rev().map(|&child| (child, false)));
        }
        body.extend(9u32.to_be_bytes());
        let structs = 56u32;
        let end = structs + body.len() as u32;
        let total = end + strings.len() as u32;
        let head = [dtb::MAGIC, total, structs, end, 40, 17, 16, 0, strings.len() as u32, body.len() as u32];
        let mut blob: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
        blob.resize(structs as usize, 0);
        blob.extend(body);
        blob.extend(strings);
        Ok(blob)
    }
}
