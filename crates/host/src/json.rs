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

    /// The value of a key, of any type that has a form in lines.
    pub(crate) fn field<T: Field>(&self, key: &str) -> Result<T, HostError> {
        match (self.get(key), T::MISSING) {
            (None, Some(missing)) => Ok(missing()),
            _ => T::read(self, self.need(key)?, key),
        }
    }

    /// A whole number that must be there and fit.
    pub(crate) fn int<T: TryFrom<i128>>(&self, key: &str) -> Result<T, HostError> {
        let node = self.need(key)?;
        self.int_of(node, key)
    }

    fn int_of<T: TryFrom<i128>>(&self, node: &Node, key: &str) -> Result<T, HostError> {
        let Value::Int(value) = node.value else {
            return Err(self.fault(node, format!("`{key}` must be a whole number, not {}", node.value.kind())));
        };
        T::try_from(value).map_err(|_| self.fault(node, format!("`{key}`: {value} is out of range")))
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

    /// The same place in the file with another node.
    pub(crate) fn at(&self, node: &'a Node) -> Line<'a> {
        Line { node, ..*self }
    }
}

/// A value with a form in lines of JSON.
pub(crate) trait Field: Sized {
    /// What it is where the line lacks it, if it may.
    const MISSING: Option<fn() -> Self> = None;
    /// What a list of it is where the line lacks that, if it may.
    const MISSING_LIST: Option<fn() -> Vec<Self>> = None;
    /// The form.
    fn node(&self) -> Node;
    /// The value at `key` of a line.
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {
        $(impl Field for $type {
            fn node(&self) -> Node {
                Node { value: Value::Int(*self as i128), at: Default::default() }
            }
            fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
                line.int_of(node, key)
            }
        })*
    };
}
whole_numbers!(u32, u64, usize);

impl Field for bool {
    fn node(&self) -> Node {
        Node::bool(*self)
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        node.as_bool(key).map_err(|fault| line.fault(node, fault.message))
    }
}

impl Field for String {
    fn node(&self) -> Node {
        Node::str(self)
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        node.as_str(key).map(str::to_owned).map_err(|fault| line.fault(node, fault.message))
    }
}

impl Field for Option<u32> {
    fn node(&self) -> Node {
        optional(*self)
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        if node.value == Value::Null { Ok(None) } else { u32::read(line, node, key).map(Some) }
    }
}

impl<T: Field> Field for Vec<T> {
    const MISSING: Option<fn() -> Self> = T::MISSING_LIST;
    fn node(&self) -> Node {
        Node::list(self.iter().map(T::node))
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        let items = node.as_list(key).map_err(|fault| line.fault(node, fault.message))?;
        items.iter().map(|item| T::read(line, item, key)).collect()
    }
}

/// Declares a struct that is (a part of) a line: each field is a key, or that in brackets.
macro_rules! line_struct {
    ($(#[$meta:meta])* pub struct $Name:ident { $($(#[$doc:meta])* $field:ident $([$key:literal])?: $type:ty,)* }) => {
        $(#[$meta])*
        pub struct $Name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $Name {
            fn entries(&self) -> Vec<(&'static str, Option<Node>)> {
                vec![$(([$($key,)? stringify!($field)][0], Some(crate::json::Field::node(&self.$field)))),*]
            }

            fn of_line(line: &Line<'_>) -> Result<Self, HostError> {
                Ok(Self { $($field: line.field([$($key,)? stringify!($field)][0])?,)* })
            }
        }
    };
}
pub(crate) use line_struct;
