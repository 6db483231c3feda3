//! The file of an experiment: a head that names what is measured, then a line a run. A run is on the disk before the next
//! one begins, so that an experiment goes on where it was cut off.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use opplab_import::read_whole_text;
use opplab_model::tree::{Node, Value, to_json};

use super::measure::Quantity;
use crate::error::HostError;
use crate::json::{Line, line_struct, parse_line, table, whole_lines};
use crate::whole::LOG_MAX;

line_struct! {
    /// What is measured.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Head {
        /// Seed of the orders.
        seed: u64,
        /// Names of the variants, the baseline first.
        variants: Vec<String>,
        /// The command, or what stands for it.
        command: String,
        /// The name of the benchmark in results.
        benchmark: String,
        /// The machine's name.
        machine: String,
        /// The kernel's release.
        kernel: String,
        /// The metric whose interval ends the experiment; empty: the first of the program's, or wall time.
        metric: String,
        /// Blocks of the pilot.
        pilot: u32,
        /// Half-width asked for, in millionths.
        within_ppm: u32,
    }
}

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the machine gets warm.
    WarmUp,
    /// What the machine can resolve.
    Same,
    /// A block.
    Block,
}

impl Kind {
    const NAMES: [(&str, Kind); 3] = [("warm-up", Self::WarmUp), ("same", Self::Same), ("block", Self::Block)];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What for.
    pub kind: Kind,
    /// Block, or number within warm-up or A/A.
    pub block: u32,
    /// How often the block was repeated before.
    pub repeat: u32,
    /// The variant's number.
    pub variant: usize,
    /// Seconds since 1970.
    pub start_s: f64,
    /// What was measured.
    pub values: Vec<Quantity>,
    /// What spoilt it.
    pub spoilt: Vec<String>,
}

impl Run {
    /// The value of a metric.
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.values.iter().find(|quantity| quantity.name == metric).map(|quantity| quantity.value)
    }
}

fn float(value: f64) -> Node {
    Node { value: Value::Float(value), at: Default::default() }
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Float(value) => Some(value),
        Value::Int(value) => Some(value as f64),
        _ => None,
    }
}

impl Head {
    fn json(&self) -> String {
        let kind = [("experiment", Some(Node::str("host compare")))];
        to_json(&Node::table(kind.into_iter().chain(self.entries())))
    }

    fn read(line: &Line<'_>) -> Result<Self, HostError> {
        if line.str("experiment")? != "host compare" {
            return Err(line.fault(line.node, "no file of `host compare`".to_owned()));
        }
        Self::of_line(line)
    }

    /// What makes two experiments different ones, in words. `within_ppm` is among it: it was fixed before the first
    /// block, or the interval would hold less often.
    fn difference(&self, other: &Self) -> Option<String> {
        fn shown(node: &Node) -> String {
            match &node.value {
                Value::Str(text) => text.clone(),
                Value::List(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
                _ => to_json(node),
            }
        }
        let mut pairs = self.entries().into_iter().zip(other.entries());
        let ((what, old), (_, new)) = pairs.find(|(old, new)| old != new)?;
        let [old, new] = [old, new].map(|node| node.as_ref().map_or_else(String::new, shown));
        Some(format!("its {what} is `{old}`, not `{new}`"))
    }
}

impl Run {
    fn json(&self) -> String {
        let value = |one: &Quantity| {
            Node::list([Node::str(&one.name), Node::str(&one.unit), Node::str(&one.better), float(one.value)])
        };
        to_json(&table([
            ("kind", Node::str(self.kind.name())),
            ("block", Node::from(self.block)),
            ("repeat", Node::from(self.repeat)),
            ("variant", Node::from(self.variant as u64)),
            ("start_s", float(self.start_s)),
            ("values", Node::list(self.values.iter().filter(|one| one.value.is_finite()).map(value))),
            ("spoilt", Node::list(self.spoilt.iter().map(Node::str))),
        ]))
    }

    fn read(line: &Line<'_>) -> Result<Self, HostError> {
        let name = line.str("kind")?;
        let kind = Kind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let kind = kind.ok_or_else(|| line.fault(line.node, format!("no kind of run is called `{name}`")))?;
        let value = |node: &Node| -> Option<Quantity> {
            let [name, unit, better, value] = node.as_list("values").ok()? else { return None };
            let text = |node: &Node| node.as_str("values").ok().map(str::to_owned);
            Some(Quantity { name: text(name)?, unit: text(unit)?, better: text(better)?, value: number(value)? })
        };
        let values: Option<Vec<Quantity>> = line.list("values")?.iter().map(value).collect();
        Ok(Self {
            kind,
            block: line.field("block")?,
            repeat: line.field("repeat")?,
            variant: line.field("variant")?,
            start_s: number(line.need("start_s")?).unwrap_or(f64::NAN),
            values: values
                .ok_or_else(|| line.fault(line.node, "a value must be [name, unit, better, number]".to_owned()))?,
            spoilt: line.field("spoilt")?,
        })
    }
}

/// The runs of an experiment, in memory and in its file.
#[derive(Debug)]
pub struct Log {
    /// What is measured.
    pub head: Head,
    /// All runs so far.
    pub runs: Vec<Run>,
    file: Option<File>,
}

impl Log {
    /// In memory only.
    pub fn of(head: Head) -> Self {
        Self { head, runs: Vec::new(), file: None }
    }

    /// Begins a file, or goes on with one of the same experiment.
    ///
    /// # Errors
    /// What the system reported, or what differs.
    pub fn open(path: &Path, head: Head) -> Result<Self, HostError> {
        let shown = path.display().to_string();
        let io = |error: std::io::Error| HostError::io(shown.clone(), error);
        let mut runs = Vec::new();
        if path.exists() {
            let text = read_whole_text(path, LOG_MAX).map_err(io)?;
            if text.contains('\n') {
                let before = Self::parse(&shown, &text)?;
                if let Some(what) = before.head.difference(&head) {
                    let words = format!("{shown} is of another experiment: {what}; give another -o");
                    return Err(HostError::Usage(words));
                }
                runs = before.runs;
            }
            // A line that a power loss cut off.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            let file = File::options().write(true).open(path).map_err(io)?;
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(io)?;
        }
        let is_new = !path.exists() || fs::metadata(path).map_err(io)?.len() == 0;
        let file = File::options().append(true).create(true).open(path).map_err(io)?;
        let mut log = Self { head, runs, file: Some(file) };
        if is_new {
            let line = log.head.json();
            log.line(&line)?;
        }
        Ok(log)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// With file, line and column.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let shown = path.display().to_string();
        let text = read_whole_text(path, LOG_MAX).map_err(|error| HostError::io(shown.clone(), error))?;
        Self::parse(&shown, &text)
    }

    fn parse(shown: &str, text: &str) -> Result<Self, HostError> {
        let (mut head, mut runs) = (None, Vec::new());
        for (number, words) in whole_lines(text) {
            let node = parse_line(shown, number, words)?;
            let line = Line { file: shown, number, node: &node };
            match &head {
                None => head = Some(Head::read(&line)?),
                Some(head) => {
                    let run = Run::read(&line)?;
                    if run.variant >= head.variants.len() {
                        return Err(line.fault(line.node, format!("there is no variant {}", run.variant)));
                    }
                    runs.push(run);
                }
            }
        }
        let head = head.ok_or_else(|| HostError::Lacking(format!("{shown}: empty")))?;
        Ok(Self { head, runs, file: None })
    }

    fn line(&mut self, line: &str) -> Result<(), HostError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(format!("{line}\n").as_bytes())
            .and_then(|()| file.sync_data())
            .map_err(|error| HostError::io("writing runs", error))
    }

    /// Adds a run; when this returns, it is on the disk.
    ///
    /// # Errors
    /// What the system reported.
    pub fn add(&mut self, run: Run) -> Result<(), HostError> {
        self.line(&run.json())?;
        self.runs.push(run);
        Ok(())
    }

    /// Whether there is such a run.
    pub fn has(&self, kind: Kind, block: u32, repeat: u32, variant: usize) -> bool {
        let key = (kind, block, repeat, variant);
        self.runs.iter().any(|run| (run.kind, run.block, run.repeat, run.variant) == key)
    }

    /// The runs of the blocks that count: of each block its last repeat, if that has every variant.
    pub fn blocks(&self) -> Vec<Vec<&Run>> {
        let mut blocks: Vec<(u32, u32, Vec<&Run>)> = Vec::new();
        for run in self.runs.iter().filter(|run| run.kind == Kind::Block) {
            match blocks.iter_mut().find(|(block, ..)| *block == run.block) {
                Some((_, repeat, runs)) => {
                    if run.repeat > *repeat {
                        (*repeat, *runs) = (run.repeat, Vec::new());
                    }
                    runs.push(run);
                }
                None => blocks.push((run.block, run.repeat, vec![run])),
            }
        }
        blocks.sort_by_key(|(block, ..)| *block);
        let mut found: Vec<Vec<&Run>> = blocks.into_iter().map(|(.., runs)| runs).collect();
        for runs in &mut found {
            runs.sort_by_key(|run| run.variant);
        }
        found.retain(|runs| runs.len() == self.head.variants.len());
        found
    }

    /// The metric that ends the experiment: the one asked for, the program's first, or wall time.
    pub fn metric(&self) -> String {
        if !self.head.metric.is_empty() {
            return self.head.metric.clone();
        }
        let first = self.runs.first().and_then(|run| run.values.first());
        first.map_or_else(|| "wall".to_owned(), |quantity| quantity.name.clone())
    }

    /// Log-ratios of a variant to the baseline, a block each; `None` where a value is missing or not positive.
    pub fn logs(&self, metric: &str, variant: usize) -> Option<Vec<f64>> {
        let one = |runs: &Vec<&Run>| {
            let log = (runs.get(variant)?.value(metric)? / runs.first()?.value(metric)?).ln();
            log.is_finite().then_some(log)
        };
        self.blocks().iter().map(one).collect()
    }
}
