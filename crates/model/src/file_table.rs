//! A file's table as a struct: each key is declared once, with its type, its default and the form that it has in files.
//!
//! ```text
//! file_table! {
//!     /// How a package heats up.
//!     pub struct Thermal(this) {
//!         /// Temperature of the ambient air.
//!         ambient_mc: i64 = int(-100_000, 200_000).or(25_000).always(),
//!         /// Temperature at the start of a run.
//!         start_mc: i64 = int(-100_000, 200_000).or(this.ambient_mc),
//!     }
//! }
//! ```
//! Struct, keys, defaults, reader and writer come from the declaration. Keys are read and written in its order, so that a default
//! may be what an earlier key has (`this.ambient_mc`). A field whose file form is more than one key stands in a second block,
//! `given { ... }`: whoever reads or writes the table does so by hand.

use crate::error::Fault;
use crate::tree::{Node, Table};

/// A key of a file and its value, `None` where the file leaves it out.
pub(crate) type Entry = (String, Option<Node>);

/// How a value stands in a table.
pub(crate) trait Form<T> {
    /// The keys that it may have, of a field called `name`.
    fn keys(&self, name: &str) -> Vec<String>;
    /// What it is where the file has nothing, if it may have nothing.
    fn initial(&self) -> T;
    /// What the file has.
    fn read(&self, table: &Table<'_>, name: &str) -> Result<T, Fault>;
    /// The file's form of it.
    fn write(&self, name: &str, value: &T) -> Entry;
}

/// A struct that [`file_table`] declares.
pub(crate) trait FileTable: Default {
    /// The table at `node`, in which keys of the struct may stand and those in `more`; the former are read.
    fn read<'a>(&mut self, node: &'a Node, what: &str, more: &[&str]) -> Result<Table<'a>, Fault>;
    /// The keys with their values.
    fn entries(&self) -> Vec<Entry>;

    /// Reads the table `node`, called `what`, of which all keys are declared.
    fn from_node(node: &Node, what: &str) -> Result<Self, Fault> {
        let mut new = Self::default();
        new.read(node, what, &[])?;
        Ok(new)
    }

    /// The table, of which all keys are declared.
    fn node(&self) -> Node {
        Node::table(self.entries())
    }
}

macro_rules! file_table {
    ($(#[$meta:meta])* pub struct $Name:ident($this:ident) {
        $($(#[$doc:meta])* $field:ident: $type:ty = $kind:ident($($arg:expr),*) $(.$method:ident($($value:expr),*))*,)*
    } $(given {
        $($(#[$given_doc:meta])* $given:ident: $given_type:ty,)*
    })?) => {
        $(#[$meta])*
        pub struct $Name {
            $($(#[$doc])* pub $field: $type,)*
            $($($(#[$given_doc])* pub $given: $given_type,)*)?
        }

        /// Every key has the default of files; a machine file must have those without.
        impl Default for $Name {
            fn default() -> Self {
                use crate::file_table::Form;
                let mut new = Self { $($field: Default::default(),)* $($($given: Default::default(),)*)? };
                #[allow(unused_variables, reason = "few tables have defaults that are another key's value")]
                let $this = &mut new;
                $($this.$field = crate::file_table::$kind($($arg),*)$(.$method($($value),*))*.initial();)*
                new
            }
        }

        impl crate::file_table::FileTable for $Name {
            fn read<'a>(
                &mut self,
                node: &'a crate::tree::Node,
                what: &str,
                more: &[&str],
            ) -> Result<crate::tree::Table<'a>, crate::error::Fault> {
                use crate::file_table::Form;
                static KEYS: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
                let $this = self;
                let keys = KEYS.get_or_init(|| {
                    let mut keys = Vec::new();
                    $(keys.extend(Form::<$type>::keys(
                        &crate::file_table::$kind($($arg),*)$(.$method($($value),*))*, stringify!($field)));)*
                    keys
                });
                let keys: Vec<&str> = keys.iter().map(String::as_str).chain(more.iter().copied()).collect();
                let table = node.as_table(what, &keys)?;
                $($this.$field =
                    crate::file_table::$kind($($arg),*)$(.$method($($value),*))*.read(&table, stringify!($field))?;)*
                Ok(table)
            }

            fn entries(&self) -> Vec<crate::file_table::Entry> {
                use crate::file_table::Form;
                let $this = self;
                vec![$(crate::file_table::$kind($($arg),*)$(.$method($($value),*))*
                    .write(stringify!($field), &$this.$field),)*]
            }
        }
    };
}
pub(crate) use file_table;

/// The name of a field without its unit.
fn base<'a>(name: &'a str, unit: &str) -> &'a str {
    name.strip_suffix(unit).unwrap_or(name)
}

/// A whole number.
#[derive(Clone, Copy)]
pub(crate) struct Int<T> {
    min: i128,
    max: i128,
    default: Option<T>,
    always: bool,
}

/// A whole number that must be there.
pub(crate) fn int<T>(min: i128, max: i128) -> Int<T> {
    Int { min, max, default: None, always: false }
}

impl<T> Int<T> {
    /// It may be left out, and is where it is `default`.
    pub(crate) fn or(self, default: T) -> Self {
        Self { default: Some(default), ..self }
    }

    /// It is written even where it is the default.
    pub(crate) fn always(self) -> Self {
        Self { always: true, ..self }
    }
}

impl<T: Copy + Default + PartialEq + Into<i128> + TryFrom<i128>> Form<T> for Int<T> {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> T {
        self.default.unwrap_or_default()
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<T, Fault> {
        match self.default {
            Some(default) => table.int_or(name, default, self.min, self.max),
            None => table.need_int(name, self.min, self.max),
        }
    }

    fn write(&self, name: &str, value: &T) -> Entry {
        let known = !self.always && self.default.is_some_and(|default| default == *value);
        (name.to_owned(), (!known).then(|| Node::from(*value)))
    }
}

/// A clock, in kHz or MHz, that must be there.
pub(crate) struct Clock;

/// A clock, in kHz or MHz, that must be there.
pub(crate) fn clock() -> Clock {
    Clock
}

impl Form<u32> for Clock {
    fn keys(&self, _name: &str) -> Vec<String> {
        ["khz", "mhz"].map(str::to_owned).to_vec()
    }

    fn initial(&self) -> u32 {
        0
    }

    fn read(&self, table: &Table<'_>, _name: &str) -> Result<u32, Fault> {
        match (table.get("khz"), table.get("mhz")) {
            (Some(khz), None) => khz.as_int("khz", 1, 100_000_000),
            (None, Some(mhz)) => Ok(mhz.as_int::<u32>("mhz", 1, 100_000)? * 1000),
            (Some(_), Some(mhz)) => Err(Fault::new(mhz.at, "`khz` and `mhz` are the same key")),
            (None, None) => Err(Fault::new(table.at, "`khz` is missing")),
        }
    }

    fn write(&self, _name: &str, value: &u32) -> Entry {
        ("khz".to_owned(), Some(Node::from(*value)))
    }
}

/// `true` or `false`; `None` must be there.
pub(crate) struct Flag {
    default: Option<bool>,
    always: bool,
}

/// `true` or `false`; false where it is left out.
pub(crate) fn flag() -> Flag {
    Flag { default: Some(false), always: false }
}

impl Flag {
    /// It may be left out, and is where it is `default`.
    pub(crate) fn or(self, default: bool) -> Self {
        Self { default: Some(default), ..self }
    }

    /// It must be there.
    pub(crate) fn needed(self) -> Self {
        Self { default: None, ..self }
    }

    /// It is written even where it is the default.
    pub(crate) fn always(self) -> Self {
        Self { always: true, ..self }
    }
}

impl Form<bool> for Flag {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> bool {
        self.default.unwrap_or_default()
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<bool, Fault> {
        match self.default {
            Some(default) => table.bool_or(name, default),
            None => table.need(name)?.as_bool(name),
        }
    }

    fn write(&self, name: &str, value: &bool) -> Entry {
        let known = !self.always && self.default == Some(*value);
        (name.to_owned(), (!known).then(|| Node::bool(*value)))
    }
}

/// A text.
pub(crate) struct Text {
    may_be_empty: bool,
}

/// A text that must be there and not be empty.
pub(crate) fn text() -> Text {
    Text { may_be_empty: false }
}

impl Text {
    /// It may be left out, and is empty then.
    pub(crate) fn or_empty(self) -> Self {
        Self { may_be_empty: true }
    }
}

impl Form<String> for Text {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> String {
        String::new()
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<String, Fault> {
        let text = if self.may_be_empty { table.str_or_empty(name)? } else { table.need_str(name)? };
        Ok(text.to_owned())
    }

    fn write(&self, name: &str, value: &String) -> Entry {
        (name.to_owned(), Some(Node::str(value)))
    }
}

/// A time or a power: the unit is the last word of the key, and may be chosen.
#[derive(Clone, Copy)]
pub(crate) struct Quantity {
    /// The unit of the field, its name in fields and its multiples in files, the first of which is the field's own.
    units: &'static [(&'static str, u64)],
    /// What is written uses multiples up to this place.
    nr_written: usize,
    read: fn(&Table<'_>, &str) -> Result<Option<u64>, Fault>,
    /// The field's name is not part of the key.
    nameless: bool,
    default: Option<u64>,
    needed: bool,
    always: bool,
}

/// A time in ns; 0 where it is left out, written always.
pub(crate) fn time() -> Quantity {
    Quantity {
        units: &[("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000)],
        nr_written: 2,
        read: |table, base| table.time_ns(base),
        nameless: false,
        default: None,
        needed: false,
        always: false,
    }
}

/// A power in uW; 0 where it is left out, written always.
pub(crate) fn power() -> Quantity {
    Quantity { units: &[("_uw", 1), ("_mw", 1_000)], nr_written: 1, read: |table, base| table.power_uw(base), ..time() }
}

/// The power that a table is about, in uW: `uw`.
pub(crate) fn own_power() -> Quantity {
    Quantity { units: &[("uw", 1), ("mw", 1_000)], nameless: true, ..power() }
}

impl Quantity {
    /// It is left out where it is `default`.
    pub(crate) fn or(self, default: u64) -> Self {
        Self { default: Some(default), ..self }
    }

    /// It must be there.
    pub(crate) fn needed(self) -> Self {
        Self { needed: true, ..self }
    }

    /// It is written even where it is the default.
    pub(crate) fn always(self) -> Self {
        Self { always: true, ..self }
    }

    fn base<'a>(&self, name: &'a str) -> &'a str {
        if self.nameless { "" } else { base(name, self.units[0].0) }
    }

    fn entry(&self, name: &str, value: u64) -> Entry {
        let written = &self.units[..self.nr_written];
        let fits = |(_, factor): &&(&str, u64)| value != 0 && value.is_multiple_of(*factor);
        let (unit, factor) = written.iter().rev().find(fits).unwrap_or(&written[0]);
        (format!("{}{unit}", self.base(name)), Some(Node::from(value / factor)))
    }

    fn get(&self, table: &Table<'_>, name: &str) -> Result<Option<u64>, Fault> {
        (self.read)(table, self.base(name))
    }
}

impl Form<u64> for Quantity {
    fn keys(&self, name: &str) -> Vec<String> {
        self.units.iter().map(|(unit, _)| format!("{}{unit}", self.base(name))).collect()
    }

    fn initial(&self) -> u64 {
        self.default.unwrap_or(0)
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<u64, Fault> {
        match self.get(table, name)? {
            Some(value) => Ok(value),
            None if self.needed => {
                let key = format!("{}{}", self.base(name), self.units[1].0);
                Err(Fault::new(table.at, format!("`{key}` is missing")))
            }
            None => Ok(Form::<u64>::initial(self)),
        }
    }

    fn write(&self, name: &str, value: &u64) -> Entry {
        if self.default == Some(*value) && !self.always {
            return (name.to_owned(), None);
        }
        self.entry(name, *value)
    }
}

impl Form<Option<u64>> for Quantity {
    fn keys(&self, name: &str) -> Vec<String> {
        Form::<u64>::keys(self, name)
    }

    fn initial(&self) -> Option<u64> {
        None
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<Option<u64>, Fault> {
        self.get(table, name)
    }

    fn write(&self, name: &str, value: &Option<u64>) -> Entry {
        value.map_or_else(|| (name.to_owned(), None), |value| self.entry(name, value))
    }
}

/// One of some names; the default where it is left out.
pub(crate) struct Choice<T: 'static> {
    names: &'static [(&'static str, T)],
    always: bool,
}

/// One of some names.
pub(crate) fn choice<T>(names: &'static [(&'static str, T)]) -> Choice<T> {
    Choice { names, always: false }
}

impl<T> Choice<T> {
    /// It is written even where it is the default.
    pub(crate) fn always(self) -> Self {
        Self { always: true, ..self }
    }
}

impl<T: Copy + Default + PartialEq> Form<T> for Choice<T> {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> T {
        T::default()
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<T, Fault> {
        table.choice(name, Some(T::default()), self.names)
    }

    fn write(&self, name: &str, value: &T) -> Entry {
        let word = self.names.iter().find(|(_, candidate)| candidate == value).map_or("", |(word, _)| word);
        (name.to_owned(), (self.always || *value != T::default()).then(|| Node::str(word)))
    }
}

/// A table.
pub(crate) struct Inner<T> {
    check: fn(&T) -> Result<(), &'static str>,
}

/// A table; the defaults of all its keys, or `None`, where it is left out.
pub(crate) fn table<T>() -> Inner<T> {
    Inner { check: |_| Ok(()) }
}

impl<T> Inner<T> {
    /// What must hold between its keys.
    pub(crate) fn checked(self, check: fn(&T) -> Result<(), &'static str>) -> Self {
        Self { check }
    }

    fn get(&self, table: &Table<'_>, name: &str) -> Result<Option<T>, Fault>
    where
        T: FileTable,
    {
        let Some(node) = table.get(name) else { return Ok(None) };
        let value = T::from_node(node, name)?;
        (self.check)(&value).map_err(|why| Fault::new(node.at, why))?;
        Ok(Some(value))
    }
}

impl<T: FileTable> Form<T> for Inner<T> {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> T {
        T::default()
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<T, Fault> {
        Ok(self.get(table, name)?.unwrap_or_else(T::default))
    }

    fn write(&self, name: &str, value: &T) -> Entry {
        (name.to_owned(), Some(value.node()))
    }
}

impl<T: FileTable> Form<Option<T>> for Inner<T> {
    fn keys(&self, name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    fn initial(&self) -> Option<T> {
        None
    }

    fn read(&self, table: &Table<'_>, name: &str) -> Result<Option<T>, Fault> {
        self.get(table, name)
    }

    fn write(&self, name: &str, value: &Option<T>) -> Entry {
        (name.to_owned(), value.as_ref().map(FileTable::node))
    }
}

/// Whether a value may follow another, and what is wrong with one that may not.
type Order<T> = (fn(&T, &T) -> bool, fn(&T) -> String);

/// A list of tables, each in order with the one before it.
pub(crate) struct List<T> {
    key: &'static str,
    read: fn(&Node, &str) -> Result<T, Fault>,
    node: fn(&T) -> Node,
    order: Option<Order<T>>,
    /// It must be there.
    needed: bool,
    /// Why it may not be empty where it is there.
    empty: Option<&'static str>,
}

/// The tables `key`; none where it is left out.
pub(crate) fn list<T: FileTable>(key: &'static str) -> List<T> {
    List { key, read: T::from_node, node: T::node, order: None, needed: false, empty: None }
}

/// The values `key` that have readers and writers of their own.
pub(crate) fn list_by<T>(
    key: &'static str,
    read: fn(&Node, &str) -> Result<T, Fault>,
    node: fn(&T) -> Node,
) -> List<T> {
    List { key, read, node, order: None, needed: false, empty: None }
}

impl<T> List<T> {
    /// Whether a value may follow another, and what is wrong with one that may not.
    pub(crate) fn ordered(self, follows: fn(&T, &T) -> bool, why: fn(&T) -> String) -> Self {
        Self { order: Some((follows, why)), ..self }
    }

    /// It must be there.
    pub(crate) fn needed(self) -> Self {
        Self { needed: true, ..self }
    }

    /// Where it is there, it has one at least, or `why`.
    pub(crate) fn not_empty(self, why: &'static str) -> Self {
        Self { empty: Some(why), ..self }
    }
}

impl<T> Form<Vec<T>> for List<T> {
    fn keys(&self, _name: &str) -> Vec<String> {
        vec![self.key.to_owned()]
    }

    fn initial(&self) -> Vec<T> {
        Vec::new()
    }

    fn read(&self, table: &Table<'_>, _name: &str) -> Result<Vec<T>, Fault> {
        let node = match table.get(self.key) {
            None if !self.needed => return Ok(Vec::new()),
            _ => table.need(self.key)?,
        };
        let items = node.as_list(self.key)?;
        if let Some(why) = self.empty.filter(|_| items.is_empty()) {
            return Err(Fault::new(node.at, why));
        }
        let mut values: Vec<T> = Vec::with_capacity(items.len());
        for item in items {
            let value = (self.read)(item, self.key)?;
            if let (Some((follows, why)), Some(last)) = (self.order, values.last())
                && !follows(last, &value)
            {
                return Err(Fault::new(item.at, why(&value)));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn write(&self, _name: &str, values: &Vec<T>) -> Entry {
        let written = self.needed || !values.is_empty();
        (self.key.to_owned(), written.then(|| Node::list(values.iter().map(self.node))))
    }
}

/// One value with a reader and a writer of its own.
pub(crate) struct By<T> {
    key: &'static str,
    read: fn(&Table<'_>, &str) -> Result<T, Fault>,
    node: fn(&T) -> Option<Node>,
}

/// The value of `key`, read from its table and written by functions.
pub(crate) fn by<T>(
    key: &'static str,
    read: fn(&Table<'_>, &str) -> Result<T, Fault>,
    node: fn(&T) -> Option<Node>,
) -> By<T> {
    By { key, read, node }
}

impl<T: Default> Form<T> for By<T> {
    fn keys(&self, _name: &str) -> Vec<String> {
        vec![self.key.to_owned()]
    }

    fn initial(&self) -> T {
        T::default()
    }

    fn read(&self, table: &Table<'_>, _name: &str) -> Result<T, Fault> {
        (self.read)(table, self.key)
    }

    fn write(&self, _name: &str, value: &T) -> Entry {
        (self.key.to_owned(), (self.node)(value))
    }
}
