//! Golden vectors of the real kernel, replayed in this tab.

use opplab_verify::{Source, replay};

use super::{Job, Page};
use crate::Dropped;
use crate::answer::{Answer, Table};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "vectors",
    title: "Vectors",
    question: "Do the kernel's own numbers come out in this browser?",
    about: "A vector file holds what functions of the real kernel computed, a case a line. Each case is computed again here and \
            compared, output for output; nothing is rounded. Without a file the smallest family is replayed.",
    drop: "Drop a vector file (.csv, .csv.gz, .jsonl, .jsonl.gz):",
    controls,
    examples: &[],
    run: super::Run::Steps(start),
};

/// What the page replays without a file.
const EXAMPLE: (&str, &[u8]) = ("pelt_decay_hl32.csv", include_bytes!("../../../verify/vectors/pelt_decay_hl32.csv"));

fn controls() -> Vec<Control> {
    Vec::new()
}

struct Replay {
    name: String,
    source: Option<Source>,
    answer: Answer,
}

fn start(_: &Values<'_>, dropped: Option<Dropped>) -> Result<Box<dyn Job>, String> {
    let (name, bytes) = match dropped {
        Some(file) => (plain(&file.name), file.bytes),
        None => (EXAMPLE.0.to_owned(), EXAMPLE.1.to_vec()),
    };
    let source = Source::of(&name, &bytes).map_err(|error| error.to_string())?;
    Ok(Box::new(Replay { name, source: Some(source), answer: Answer::default() }))
}

impl Job for Replay {
    fn progress(&self) -> (usize, usize) {
        (usize::from(self.source.is_none()), 1)
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(source) = self.source.take() else { return Ok(()) };
        let out = &mut self.answer;
        out.command = format!("opplab verify vectors {}", self.name);
        let outcome = replay(&source).map_err(|error| error.to_string())?;
        let Some(tally) = outcome.tally else {
            return Err(format!("{}: there is no family of vectors of that name", self.name));
        };
        out.say(match tally.mismatches {
            0 => format!("All {} cases of {} are equal.", tally.cases, outcome.family),
            n => format!("{n} of {} cases of {} differ.", tally.cases, outcome.family),
        });
        out.fact("cases", tally.cases, "opplab verify vectors");
        out.fact("different", tally.mismatches, "opplab verify vectors");
        out.tables.push(Table {
            title: "The first difference".to_owned(),
            columns: vec!["case".to_owned()],
            rows: tally.first.iter().map(|first| vec![plain(first)]).collect(),
            chosen: None,
        });
        Ok(())
    }

    fn answer(&self) -> Answer {
        self.answer.clone()
    }
}
