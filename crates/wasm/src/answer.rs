//! What a page shows: numbers with the kernel function that each is, pictures, tables, sentences.

use opplab_model::tree::Node;

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

fn text(text: &str) -> Option<Node> {
    Some(Node::str(text))
}

fn pairs(points: &[(u64, u64)]) -> Option<Node> {
    // Flat: a third of the bytes of a list of lists.
    Some(Node::list(points.iter().flat_map(|&(x, y)| [Node::from(x), Node::from(y)])))
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
        let facts = self.facts.iter().map(|fact| {
            Node::table([("name", text(&fact.name)), ("value", text(&fact.value)), ("of", text(&fact.of))])
        });
        let axis = |(name, unit, end): &(String, &'static str, u64)| {
            Some(Node::table([("name", text(name)), ("unit", text(unit)), ("end", Some(Node::from(*end)))]))
        };
        let charts = self.charts.iter().map(|chart| {
            let series = chart.series.iter().map(|line| {
                Node::table([
                    ("name", text(&line.name)),
                    ("step", Some(Node::bool(line.step))),
                    ("color", Some(Node::from(line.color))),
                    ("points", pairs(&line.points)),
                ])
            });
            Node::table([
                ("title", text(&chart.title)),
                ("x", axis(&chart.x)),
                ("y", axis(&chart.y)),
                ("series", Some(Node::list(series))),
                ("lanes", Some(Node::list(chart.lanes.iter().map(Lane::node)))),
                ("mark", chart.mark.map(Node::from)),
            ])
        });
        let tables = self.tables.iter().map(|table| {
            let row = |cells: &[String]| Node::list(cells.iter().map(Node::str));
            Node::table([
                ("title", text(&table.title)),
                ("columns", Some(row(&table.columns))),
                ("rows", Some(Node::list(table.rows.iter().map(|cells| row(cells))))),
                ("chosen", table.chosen.map(|at| Node::from(at as u64))),
            ])
        });
        Node::table([
            ("link", text(link)),
            ("values", Some(values)),
            ("words", Some(Node::list(self.words.iter().map(Node::str)))),
            ("facts", Some(Node::list(facts))),
            ("charts", Some(Node::list(charts))),
            ("tables", Some(Node::list(tables))),
            ("command", text(&self.command)),
            (
                "sources",
                Some(Node::list(
                    self.sources.iter().map(|(name, content)| Node::list([Node::str(name), Node::str(content)])),
                )),
            ),
            ("progress", self.progress.map(|(done, all)| Node::list([Node::from(done), Node::from(all)]))),
        ])
    }
}

impl Lane {
    fn node(&self) -> Node {
        let spans =
            self.spans.iter().map(|(from, to, name)| Node::list([Node::from(*from), Node::from(*to), Node::str(name)]));
        let marks = self.marks.iter().map(|(at, words)| Node::list([Node::from(*at), Node::str(words)]));
        Node::table([
            ("name", text(&self.name)),
            ("spans", Some(Node::list(spans))),
            ("level", pairs(&self.level)),
            ("level_max", Some(Node::from(self.level_max))),
            ("marks", Some(Node::list(marks))),
        ])
    }
}
