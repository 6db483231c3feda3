//! The pages, one file each.

pub mod bench;
pub mod idle;
pub mod invariance;
pub mod load_tracking;
pub mod placement;
pub mod quota;
pub mod schedutil;
pub mod trace;
pub mod vectors;

use opplab_kernel::profile::{KernelProfile, profile_names};
use opplab_model::node_table;
use opplab_model::tree::Node;

use crate::Dropped;
use crate::answer::Answer;
use crate::query::{Control, Values};

/// A microsecond in ns.
const US: u64 = 1_000;
/// A millisecond in ns.
const MS: u64 = 1_000_000;

/// A question with parameters.
#[derive(Debug)]
pub struct Page {
    /// Its file's name without `.html`.
    pub name: &'static str,
    /// A few words.
    pub title: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// What its numbers are, what is left out, and where more is written.
    pub about: &'static str,
    /// What may be dropped on it, as an invitation; empty: nothing.
    pub drop: &'static str,
    /// Its parameters.
    pub controls: fn() -> Vec<Control>,
    /// Settings to begin with: words and link.
    pub examples: &'static [(&'static str, &'static str)],
    run: Run,
}

/// How a page computes.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// At once, within milliseconds.
    Now(Compute),
    /// The same; a dropped file becomes parameters first.
    Takes(Take, Compute),
    /// In steps, in a worker that can be ended between them.
    Steps(Start),
}

/// Answers at once.
pub type Compute = fn(&Values<'_>) -> Result<Answer, String>;

/// The parameters that a file stands for, each with its value.
pub type Take = fn(&Dropped) -> Result<Vec<(&'static str, String)>, String>;

/// Checks what steps need, and makes them ready.
pub type Start = fn(&Values<'_>, Option<Dropped>) -> Result<Box<dyn Job>, String>;

/// A computation in steps.
pub trait Job {
    /// Steps that are done, and all of them.
    fn progress(&self) -> (usize, usize);
    /// Takes the next step.
    ///
    /// # Errors
    /// Why the computation cannot go on.
    fn step(&mut self) -> Result<(), String>;
    /// What is known so far.
    fn answer(&self) -> Answer;
    /// Files to take away when all is done, each with its name, one at a time.
    fn file(&self, nth: usize) -> Option<(String, Vec<u8>)> {
        let _ = nth;
        None
    }
}

/// A question that is being answered.
pub struct Session {
    job: Box<dyn Job>,
    link: String,
    values: Node,
}

impl Session {
    /// Whether there is nothing left to do.
    pub fn is_done(&self) -> bool {
        let (done, all) = self.job.progress();
        done >= all
    }

    /// Takes the next step.
    ///
    /// # Errors
    /// Why it cannot go on.
    pub fn step(&mut self) -> Result<(), String> {
        self.job.step()
    }

    /// A file to take away, with its name.
    pub fn file(&self, nth: usize) -> Option<(String, Vec<u8>)> {
        self.job.file(nth)
    }

    /// What is known so far.
    pub fn answer(&self) -> Node {
        let (done, all) = self.job.progress();
        let answer = Answer { progress: Some((done as u64, all as u64)), ..self.job.answer() };
        answer.into_node(&self.link, self.values.clone())
    }
}

/// All pages, in the order of the list.
pub const PAGES: &[Page] = &[
    load_tracking::PAGE,
    schedutil::PAGE,
    placement::PAGE,
    idle::PAGE,
    quota::PAGE,
    invariance::PAGE,
    bench::PAGE,
    trace::PAGE,
    vectors::PAGE,
];

impl Page {
    /// The answer to a link, or the beginning of one that takes steps.
    ///
    /// # Errors
    /// What is wrong with the link or the file.
    pub fn begin(&self, query: &str, dropped: Option<Dropped>) -> Result<Begun, String> {
        let controls = (self.controls)();
        let mut values = Values::parse(&controls, query)?;
        if let (Run::Takes(take, _), Some(file)) = (self.run, &dropped) {
            for (name, value) in take(file)? {
                values.set(name, value)?;
            }
        }
        let (link, all) = (values.link(), values.all());
        match self.run {
            Run::Now(answer) | Run::Takes(_, answer) => Ok(Begun::Answer(answer(&values)?.into_node(&link, all))),
            Run::Steps(start) => Ok(Begun::Session(Session { job: start(&values, dropped)?, link, values: all })),
        }
    }

    /// What the script needs to know of the page.
    pub fn describe(&self) -> Node {
        let &Self { name, title, question, about, drop, controls, examples, .. } = self;
        node_table! {
            name, title, question, about, worker: matches!(self.run, Run::Steps(_)),
            drop: Some(drop).filter(|words| !words.is_empty()),
            controls: controls().iter().map(Control::describe).collect::<Vec<_>>(), examples,
        }
    }
}

/// What a link leads to.
pub enum Begun {
    /// The answer.
    Answer(Node),
    /// Steps to it.
    Session(Session),
}

/// The names of kernel profiles from a release on.
fn kernels_since(version: (u16, u16)) -> Vec<&'static str> {
    let since = |name: &&str| KernelProfile::named(name).is_some_and(|profile| profile.version >= version);
    profile_names().filter(since).collect()
}

/// Refuses what would take longer than a moment: the page answers while a slider moves.
fn few(what: &str, count: u64) -> Result<(), String> {
    const MOST: u64 = 12_000;
    if count <= MOST { Ok(()) } else { Err(format!("{count} {what}; at most {MOST} are drawn: show less time")) }
}

/// A kernel's gates.
fn profile(name: &str) -> Result<KernelProfile, String> {
    KernelProfile::named(name).ok_or_else(|| opplab_kernel::profile::unknown_profile(name))
}

/// A list of numbers in one line: `200,400 600`.
fn numbers(name: &str, text: &str, most: usize, range: std::ops::RangeInclusive<u32>) -> Result<Vec<u32>, String> {
    let words = text.split([',', ' ', ';', '\n']).filter(|word| !word.is_empty());
    let list = words.map(|word| match word.parse::<u32>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "{name}: `{}` is not a whole number of {} to {}",
            crate::query::plain(word),
            range.start(),
            range.end()
        )),
    });
    let list = list.collect::<Result<Vec<_>, _>>()?;
    match list.len() {
        0 => Err(format!("{name}: there is no number")),
        n if n > most => Err(format!("{name}: {n} numbers; at most {most} are drawn")),
        _ => Ok(list),
    }
}
