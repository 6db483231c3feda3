//! Small helpers over the model crate's JSON tree: what this crate writes, it reads back.

use opplab_model::json::parse_json;
use opplab_model::tree::{Node, Value};

use crate::error::HostError;

/// A table with all its values.
pub(crate) fn table<const N: usize>(entries: [(&str, Node); N]) -> Node {
    Node::table(entries.into_iter().map(|(name, node)| (name, Some(node))))
}

/// A list of numbers.
pub(crate) fn numbers<T: Into<i128> + Copy>(list: &[T]) -> Node {
    Node::list(list.iter().map(|&number| Node::from(number)))
}

/// A whole number or null.
pub(crate) fn optional(number: Option<u32>) -> Node {
    number.map_or(Node { value: Value::Null, at: Default::default() }, Node::from)
}

/// Reading: a table of a file, with the file's name and the line for messages.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) file: &'a str,
    pub(crate) number: usize,
    pub(crate) node: &'a Node,
}

/// Parses one line of JSON.
///
/// # Errors
/// With file, line and column.
pub(crate) fn parse_line(file: &str, number: usize, text: &str) -> Result<Node, HostError> {
    let fail =
        |column: usize, message: String| HostError::Input { file: file.to_owned(), line: number, column, message };
    if !text.trim_start().starts_with('{') {
        return Err(fail(1, "each line must be a JSON object `{...}`, as this program writes them".to_owned()));
    }
    parse_json(text).map_err(|fault| fail(fault.at.column.max(1) as usize, fault.message))
}

/// The whole lines of a log; what a killed process left half written at its end is none.
pub(crate) fn whole_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().enumerate().map(|(index, line)| (index + 1, line))
}

impl<'a> Line<'a> {
    /// An error at the place of `node`.
    pub(crate) fn fault(&self, node: &Node, message: String) -> HostError {
        HostError::Input {
            file: self.file.to_owned(),
            line: self.number,
            column: node.at.column.max(1) as usize,
            message,
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        let Value::Table(entries) = &self.node.value else { return None };
        entries.iter().find(|(name, _)| name.name == key).map(|(_, node)| node)
    }

    /// The value of a key that must be there.
    pub(crate) fn need(&self, key: &str) -> Result<&'a Node, HostError> {
        self.get(key).ok_or_else(|| self.fault(self.node, format!("`{key}` is missing")))
    }

    /// A whole number that must be there and fit.
    pub(crate) fn int<T: TryFrom<i128>>(&self, key: &str) -> Result<T, HostError> {
        let node = self.need(key)?;
        self.int_of(node, key)
    }

    /// A whole number or null.
    pub(crate) fn int_or_null<T: TryFrom<i128>>(&self, key: &str) -> Result<Option<T>, HostError> {
        let node = self.need(key)?;
        if matches!(node.value, Value::Null) { Ok(None) } else { self.int_of(node, key).map(Some) }
    }

    fn int_of<T: TryFrom<i128>>(&self, node: &Node, key: &str) -> Result<T, HostError> {
        let Value::Int(value) = node.value else {
            return Err(self.fault(node, format!("`{key}` must be a whole number, not {}", node.value.kind())));
        };
        T::try_from(value).map_err(|_| self.fault(node, format!("`{key}`: {value} is out of range")))
    }

    /// A boolean that must be there.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, HostError> {
        let node = self.need(key)?;
        node.as_bool(key).map_err(|fault| self.fault(node, fault.message))
    }

    /// A string that must be there.
    pub(crate) fn str(&self, key: &str) -> Result<&'a str, HostError> {
        let node = self.need(key)?;
        node.as_str(key).map_err(|fault| self.fault(node, fault.message))
    }

    /// A list that must be there.
    pub(crate) fn list(&self, key: &str) -> Result<&'a [Node], HostError> {
        let node = self.need(key)?;
        node.as_list(key).map_err(|fault| self.fault(node, fault.message))
    }

    /// A list of whole numbers that must be there.
    pub(crate) fn ints<T: TryFrom<i128>>(&self, key: &str) -> Result<Vec<T>, HostError> {
        self.list(key)?.iter().map(|node| self.int_of(node, key)).collect()
    }

    /// The same place in the file with another node.
    pub(crate) fn at(&self, node: &'a Node) -> Line<'a> {
        Line { node, ..*self }
    }
}
