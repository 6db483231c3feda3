//! A file as a tree of values that know where they stood: what every reader of this crate reads, and what every writer
//! writes, so that machines, experiments and cases have one set of rules and one kind of error for TOML and JSON.
//!
//! Tables keep the order of the file. Readers list the keys that they know; any other key is refused.

use std::fmt::Write as _;

use crate::error::{Fault, Pos, shorten};

/// A key of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub at: Pos,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it begins.
    pub at: Pos,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Value {
    /// A key without a value (`"suspend",`), which only rt-app's workgen accepts.
    Missing,
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    List(Vec<Node>),
    Table(Vec<(Key, Node)>),
}

impl Value {
    /// What to call such a value in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing => "nothing",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number with a fraction",
            Self::Str(_) => "a string",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl<T: Into<i128>> From<T> for Node {
    fn from(value: T) -> Self {
        Self { value: Value::Int(value.into()), at: Pos::default() }
    }
}

impl Node {
    /// A string from nowhere.
    pub fn str(text: impl Into<String>) -> Self {
        Self { value: Value::Str(text.into()), at: Pos::default() }
    }

    /// A boolean from nowhere.
    pub fn bool(value: bool) -> Self {
        Self { value: Value::Bool(value), at: Pos::default() }
    }

    /// A list from nowhere.
    pub fn list(items: impl IntoIterator<Item = Node>) -> Self {
        Self { value: Value::List(items.into_iter().collect()), at: Pos::default() }
    }

    /// A table from nowhere; `None` values are left out.
    pub fn table<K: Into<String>>(entries: impl IntoIterator<Item = (K, Option<Node>)>) -> Self {
        let entries = entries
            .into_iter()
            .filter_map(|(name, node)| node.map(|node| (Key { name: name.into(), at: Pos::default() }, node)))
            .collect();
        Self { value: Value::Table(entries), at: Pos::default() }
    }

    fn wrong(&self, what: &str, expected: &str) -> Fault {
        Fault::new(self.at, format!("`{what}` must be {expected}, not {}", self.value.kind()))
    }

    /// The string that this is.
    pub fn as_str(&self, what: &str) -> Result<&str, Fault> {
        match &self.value {
            Value::Str(text) => Ok(text),
            _ => Err(self.wrong(what, "a string")),
        }
    }

    /// The boolean that this is.
    pub fn as_bool(&self, what: &str) -> Result<bool, Fault> {
        match self.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.wrong(what, "true or false")),
        }
    }

    /// The list that this is.
    pub fn as_list(&self, what: &str) -> Result<&[Node], Fault> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong(what, "a list")),
        }
    }

    /// The table that this is, whose keys must be among `keys` and not be repeated.
    pub fn as_table(&self, what: &str, keys: &[&str]) -> Result<Table<'_>, Fault> {
        let Value::Table(entries) = &self.value else { return Err(self.wrong(what, "a table")) };
        for (index, (key, _)) in entries.iter().enumerate() {
            if !keys.contains(&key.name.as_str()) {
                return Err(Fault::unknown(key.at, "key", &key.name, keys.iter().copied()));
            }
            if entries[..index].iter().any(|(earlier, _)| earlier.name == key.name) {
                return Err(Fault::new(key.at, format!("key `{}` is repeated", key.name)));
            }
        }
        Ok(Table { at: self.at, entries })
    }

    /// The whole number that this is, `min..=max`.
    pub fn as_int<T: TryFrom<i128>>(&self, what: &str, min: i128, max: i128) -> Result<T, Fault> {
        let Value::Int(value) = self.value else { return Err(self.wrong(what, "a whole number")) };
        if value < min {
            return Err(Fault::new(self.at, format!("`{what}` must be at least {min}, not {value}")));
        }
        if value > max {
            return Err(Fault::new(self.at, format!("`{what}` must be at most {max}, not {value}")));
        }
        T::try_from(value).map_err(|_| Fault::new(self.at, format!("`{what}` is out of range: {value}")))
    }
}

/// What may be written; `None` is left out of its table or list.
pub trait ToNode {
    /// As a node from nowhere.
    fn to_node(&self) -> Option<Node>;
}

macro_rules! to_nodes {
    ($(($($generic:tt)*) $type:ty: $self:ident => $node:expr;)*) => {
        $(impl<$($generic)*> ToNode for $type {
            fn to_node(&$self) -> Option<Node> {
                $node
            }
        })*
    };
}

to_nodes! {
    () u8: self => Some(Node::from(*self));
    () u32: self => Some(Node::from(*self));
    () u64: self => Some(Node::from(*self));
    () usize: self => Some(Node::from(*self as u64));
    () bool: self => Some(Node::bool(*self));
    () str: self => Some(Node::str(self));
    () String: self => Some(Node::str(self));
    () Node: self => Some(self.clone());
    (T: ToNode + ?Sized) &T: self => (**self).to_node();
    (T: ToNode) Option<T>: self => self.as_ref()?.to_node();
    (T: ToNode) [T]: self => Some(Node::list(self.iter().filter_map(T::to_node)));
    (T: ToNode) Vec<T>: self => self.as_slice().to_node();
    (A: ToNode, B: ToNode) (A, B): self => Some(Node::list([self.0.to_node(), self.1.to_node()].into_iter().flatten()));
    (A: ToNode, B: ToNode, C: ToNode) (A, B, C): self =>
        Some(Node::list([self.0.to_node(), self.1.to_node(), self.2.to_node()].into_iter().flatten()));
}

/// A table of values by their keys, or of variables by their names.
#[macro_export]
macro_rules! node_table {
    (@ $key:ident) => { $key };
    (@ $key:ident $value:expr) => { $value };
    ($($key:ident $(: $value:expr)?),* $(,)?) => {
        $crate::tree::Node::table([$((
            stringify!($key),
            $crate::tree::ToNode::to_node(&$crate::node_table!(@ $key $($value)?)),
        )),*])
    };
}

/// A struct as a table of its fields.
#[macro_export]
macro_rules! node_of_fields {
    ($($type:ty { $($field:ident),* $(,)? })*) => { $(impl $crate::tree::ToNode for $type {
        fn to_node(&self) -> Option<$crate::tree::Node> {
            Some($crate::node_table! { $($field: self.$field),* })
        }
    })* };
}

/// A table of which all keys are known to the reader.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// Where the table begins.
    pub at: Pos,
    /// Its entries in file order.
    pub entries: &'a [(Key, Node)],
}

/// Largest time of a file in ns: a year. Keeps sums of times far from overflow.
pub const TIME_NS_MAX: i128 = 366 * 86_400 * 1_000_000_000;
/// Largest power of a file in uW: a megawatt.
pub const POWER_UW_MAX: i128 = 1_000_000_000_000;

impl<'a> Table<'a> {
    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(entry, _)| entry.name == key).map(|(_, node)| node)
    }

    /// The value of `key`, which must be there.
    pub fn need(&self, key: &str) -> Result<&'a Node, Fault> {
        self.get(key).ok_or_else(|| Fault::new(self.at, format!("`{key}` is missing")))
    }

    /// A string that must be there and not be empty.
    pub fn need_str(&self, key: &str) -> Result<&'a str, Fault> {
        let node = self.need(key)?;
        let text = node.as_str(key)?;
        if text.is_empty() {
            return Err(Fault::new(node.at, format!("`{key}` is empty")));
        }
        Ok(text)
    }

    /// A string, empty if it is not there.
    pub fn str_or_empty(&self, key: &str) -> Result<&'a str, Fault> {
        self.get(key).map_or(Ok(""), |node| node.as_str(key))
    }

    /// A boolean with a default.
    pub fn bool_or(&self, key: &str, default: bool) -> Result<bool, Fault> {
        self.get(key).map_or(Ok(default), |node| node.as_bool(key))
    }

    /// A whole number that must be there.
    pub fn need_int<T: TryFrom<i128>>(&self, key: &str, min: i128, max: i128) -> Result<T, Fault> {
        self.need(key)?.as_int(key, min, max)
    }

    /// A whole number with a default.
    pub fn int_or<T: TryFrom<i128>>(&self, key: &str, default: T, min: i128, max: i128) -> Result<T, Fault> {
        self.get(key).map_or(Ok(default), |node| node.as_int(key, min, max))
    }

    /// The one of `names` that stands at `key`, mapped; anything else is refused with the nearest name.
    pub fn choice<T: Copy>(&self, key: &str, default: Option<T>, names: &[(&str, T)]) -> Result<T, Fault> {
        let Some(node) = self.get(key) else {
            return default.ok_or_else(|| Fault::new(self.at, format!("`{key}` is missing")));
        };
        let text = node.as_str(key)?;
        names
            .iter()
            .find(|(name, _)| *name == text)
            .map(|&(_, value)| value)
            .ok_or_else(|| Fault::unknown(node.at, key, text, names.iter().map(|&(name, _)| name)))
    }

    /// A quantity that may be written in one of several units, `base` + unit (`exit_latency` + `_us`).
    fn quantity(&self, base: &str, units: &[(&str, i128)], max: i128) -> Result<Option<u64>, Fault> {
        let mut found: Option<(u64, &Key)> = None;
        for (key, node) in self.entries {
            let Some(&(_, factor)) = units.iter().find(|(unit, _)| key.name.strip_prefix(base) == Some(unit)) else {
                continue;
            };
            if let Some((_, earlier)) = found {
                let message = format!("`{}` and `{}` are the same key", earlier.name, key.name);
                return Err(Fault::new(key.at, message));
            }
            let value: i128 = node.as_int(&key.name, 0, max / factor)?;
            found = Some(((value * factor) as u64, key));
        }
        Ok(found.map(|(value, _)| value))
    }

    /// A time in ns, written as `base_ns`, `base_us`, `base_ms` or `base_s`.
    pub fn time_ns(&self, base: &str) -> Result<Option<u64>, Fault> {
        const UNITS: [(&str, i128); 4] = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];
        self.quantity(base, &UNITS, TIME_NS_MAX)
    }

    /// A power in uW, written as `base_uw` or `base_mw` (`uw` or `mw` if `base` is empty).
    pub fn power_uw(&self, base: &str) -> Result<Option<u64>, Fault> {
        if base.is_empty() {
            return self.quantity("", &[("uw", 1), ("mw", 1000)], POWER_UW_MAX);
        }
        self.quantity(base, &[("_uw", 1), ("_mw", 1000)], POWER_UW_MAX)
    }
}

/// Finds lines and columns of byte offsets.
#[derive(Debug)]
pub struct LineMap<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineMap<'a> {
    /// The map of `text`.
    pub fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// The place of byte `offset`.
    pub fn pos(&self, offset: usize) -> Pos {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|&start| start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        Pos { line: line as u32, column: column as u32 }
    }
}

/// Reads TOML.
///
/// # Errors
/// What the TOML parser reports, where it reports it.
pub fn parse_toml(text: &str) -> Result<Node, Fault> {
    let map = LineMap::new(text);
    let root = toml::de::DeTable::parse(text).map_err(|error| {
        let at = map.pos(error.span().map_or(text.len(), |span| span.start));
        Fault::new(at, shorten(&format!("not TOML: {}", error.message())))
    })?;
    toml_table(root.get_ref(), Pos { line: 1, column: 1 }, &map)
}

fn toml_table(table: &toml::de::DeTable<'_>, at: Pos, map: &LineMap<'_>) -> Result<Node, Fault> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key = Key { name: key.get_ref().to_string(), at: map.pos(key.span().start) };
        let node = toml_node(value, map)?;
        entries.push((key, node));
    }
    entries.sort_by_key(|(key, _)| key.at);
    Ok(Node { value: Value::Table(entries), at })
}

fn toml_node(value: &toml::Spanned<toml::de::DeValue<'_>>, map: &LineMap<'_>) -> Result<Node, Fault> {
    use toml::de::DeValue;
    let at = map.pos(value.span().start);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Str(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => Value::Int(
            i128::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| Fault::new(at, "a whole number that is too large"))?,
        ),
        DeValue::Float(number) => {
            Value::Float(number.as_str().parse().map_err(|_| Fault::new(at, "a number that cannot be read"))?)
        }
        DeValue::Datetime(_) => return Err(Fault::new(at, "dates are not used here")),
        DeValue::Array(items) => Value::List(items.iter().map(|item| toml_node(item, map)).collect::<Result<_, _>>()?),
        DeValue::Table(table) => return toml_table(table, at, map),
    };
    Ok(Node { value, at })
}

/// Writes a string as TOML and JSON both spell it.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => write!(out, "\\u{:04x}", c as u32).expect("infallible"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Canonical JSON: no blanks, entries in the order of the tree. Equal trees give equal bytes.
///
/// # Panics
/// If a number is not finite, which no reader lets in.
pub fn to_json(node: &Node) -> String {
    let mut out = String::new();
    write_json(&mut out, node);
    out
}

fn write_json(out: &mut String, node: &Node) {
    match &node.value {
        Value::Missing | Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => write!(out, "{value}").expect("infallible"),
        Value::Float(value) => {
            assert!(value.is_finite());
            write!(out, "{value:?}").expect("infallible");
        }
        Value::Str(text) => write_string(out, text),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Table(entries) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, &key.name);
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

/// TOML for people: scalars first, `[table]`s and `[[list]]`s of the top level after them, everything deeper inline.
pub fn to_toml(root: &Node) -> String {
    let Value::Table(entries) = &root.value else { return String::new() };
    let is_table = |node: &Node| matches!(node.value, Value::Table(_));
    let is_tables =
        |node: &Node| matches!(&node.value, Value::List(items) if !items.is_empty() && items.iter().all(is_table));
    let mut out = String::new();
    for (key, node) in entries.iter().filter(|(_, node)| !is_table(node) && !is_tables(node)) {
        write_toml_entry(&mut out, &key.name, node);
    }
    for (key, node) in entries {
        let tables: &[Node] = match &node.value {
            Value::Table(_) => std::slice::from_ref(node),
            Value::List(items) if is_tables(node) => items,
            _ => continue,
        };
        for table in tables {
            let Value::Table(entries) = &table.value else { continue };
            let name = toml_key(&key.name);
            out.push_str(&if is_table(node) { format!("\n[{name}]\n") } else { format!("\n[[{name}]]\n") });
            for (key, node) in entries {
                write_toml_entry(&mut out, &key.name, node);
            }
        }
    }
    out
}

fn toml_key(name: &str) -> String {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return name.to_owned();
    }
    let mut out = String::new();
    write_string(&mut out, name);
    out
}

fn write_toml_entry(out: &mut String, key: &str, node: &Node) {
    write!(out, "{} = ", toml_key(key)).expect("infallible");
    match &node.value {
        // One table of a list a line.
        Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Table(_) | Value::List(_))) => {
            out.push_str("[\n");
            for item in items {
                out.push_str("  ");
                write_toml_inline(out, item);
                out.push_str(",\n");
            }
            out.push(']');
        }
        _ => write_toml_inline(out, node),
    }
    out.push('\n');
}

fn write_toml_inline(out: &mut String, node: &Node) {
    match &node.value {
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_toml_inline(out, item);
            }
            out.push(']');
        }
        Value::Table(entries) => {
            out.push_str("{ ");
            for (index, (key, item)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write!(out, "{} = ", toml_key(&key.name)).expect("infallible");
                write_toml_inline(out, item);
            }
            out.push_str(" }");
        }
        _ => write_json(out, node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_keeps_order_and_places() {
        let node = parse_toml("z = 1\na = \"é\"  # comment\n[t]\nb = [ { c = true } ]\n").expect("it is TOML");
        assert_eq!(to_json(&node), r#"{"z":1,"a":"é","t":{"b":[{"c":true}]}}"#);
        let Value::Table(entries) = &node.value else { panic!() };
        assert_eq!(entries[1].0.at, Pos { line: 2, column: 1 });
        assert_eq!(entries[1].1.at, Pos { line: 2, column: 5 });
        assert_eq!(to_toml(&node), "z = 1\na = \"é\"\n\n[t]\nb = [\n  { c = true },\n]\n");
        assert_eq!(to_json(&parse_toml(&to_toml(&node)).expect("it is TOML")), to_json(&node));
    }

    #[test]
    fn toml_errors_have_places() {
        let fault = parse_toml("a = 1\nb = \n").expect_err("no value");
        assert_eq!(fault.at.line, 2);
    }

    #[test]
    fn quantities_take_units() {
        let node = parse_toml("x_us = 3\ny_mw = 2\n").expect("it is TOML");
        let table = node.as_table("root", &["x_us", "y_mw"]).expect("known keys");
        assert_eq!(table.time_ns("x"), Ok(Some(3000)));
        assert_eq!(table.power_uw("y"), Ok(Some(2000)));
        let node = parse_toml("x_us = 3\nx_ns = -1\n").expect("it is TOML");
        let table = node.as_table("root", &["x_us", "x_ns"]).expect("known keys");
        assert_eq!(table.time_ns("x").expect_err("twice").message, "`x_us` and `x_ns` are the same key");
    }
}
