//! What a page shows: numbers with the kernel function that each is, pictures, tables, sentences.

use opplab_model::tree::{Node, ToNode};
use opplab_model::{node_of_fields, node_table};

/// An answer to a page's question.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Sentences.
    pub words: Vec<String>,
    /// Numbers.
    pub facts: Vec<Fact>,
    /// Pictures.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// The same on a command line.
    pub command: String,
    /// Files that the command line reads, with their names.
    pub sources: Vec<(String, String)>,
    /// Steps that are done and all steps, if it takes some.
    pub progress: Option<(u64, u64)>,
}

/// A number as the kernel has it.
#[derive(Debug, Clone)]
pub struct Fact {
    /// What it is called.
    pub name: String,
    /// The number with its unit.
    pub value: String,
    /// The kernel's `file:function, version`, or how it is computed.
    pub of: String,
}

/// A picture over time or another quantity.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Name, unit and end of the x axis, which begins at 0; `ns` is shown as time.
    pub x: (String, &'static str, u64),
    /// Name, unit and end of the y axis.
    pub y: (String, &'static str, u64),
    /// Lines.
    pub series: Vec<Series>,
    /// Lanes under the lines.
    pub lanes: Vec<Lane>,
    /// A place of interest on the x axis.
    pub mark: Option<u64>,
}

/// A line of a picture.
#[derive(Debug, Clone)]
pub struct Series {
    /// What it is called in the legend.
    pub name: String,
    /// A value holds until the next one, or is on the way to it.
    pub step: bool,
    /// Which of the colours.
    pub color: u8,
    /// The points.
    pub points: Vec<(u64, u64)>,
}

/// A lane of a time line.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Whose it is.
    pub name: String,
    /// Begin, end and name of what ran.
    pub spans: Vec<(u64, u64, String)>,
    /// A value within the lane (a CPU's clock), which holds until the next one, and its most.
    pub level: Vec<(u64, u64)>,
    /// The end of the level's axis.
    pub level_max: u64,
    /// Times with words: decisions.
    pub marks: Vec<(u64, String)>,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// A row that is pointed out.
    pub chosen: Option<usize>,
}

/// Points as one list: a third of the bytes of a list of lists.
fn flat(points: &[(u64, u64)]) -> Vec<u64> {
    points.iter().flat_map(|&(x, y)| [x, y]).collect()
}

fn axis((name, unit, end): &(String, &'static str, u64)) -> Node {
    node_table! { name, unit, end }
}

node_of_fields! {
    Fact { name, value, of }
    Table { title, columns, rows, chosen }
}

impl ToNode for Chart {
    fn to_node(&self) -> Option<Node> {
        let Self { title, x, y, series, lanes, mark } = self;
        Some(node_table! { title, x: axis(x), y: axis(y), series, lanes, mark })
    }
}

impl ToNode for Series {
    fn to_node(&self) -> Option<Node> {
        let Self { name, step, color, points } = self;
        Some(node_table! { name, step, color, points: flat(points) })
    }
}

impl ToNode for Lane {
    fn to_node(&self) -> Option<Node> {
        let Self { name, spans, level, level_max, marks } = self;
        Some(node_table! { name, spans, level: flat(level), level_max, marks })
    }
}

impl Answer {
    /// Adds a sentence.
    pub fn say(&mut self, sentence: impl Into<String>) {
        self.words.push(sentence.into());
    }

    /// Adds a number.
    pub fn fact(&mut self, name: impl Into<String>, value: impl ToString, of: impl Into<String>) {
        self.facts.push(Fact { name: name.into(), value: value.to_string(), of: of.into() });
    }

    /// As a tree; `link` and `values` are of the question.
    pub fn into_node(self, link: &str, values: Node) -> Node {
        let Self { words, facts, charts, tables, command, sources, progress } = self;
        node_table! { link, values, words, facts, charts, tables, command, sources, progress }
    }
}
