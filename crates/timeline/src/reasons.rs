//! Why a run decided as it did, as annotations for a trace viewer: the decision records, found by when and where.
//!
//! Names, numbers and words are the records' own ([`opplab_model::decision::words`]); `why` is the chain in one line.

use std::collections::BTreeMap;

use opplab_model::decision::words::{Names, Words, facts, words};
use opplab_model::decision::{Decision, GrantLimit, word};
use opplab_model::event::{Event, Sink};
use opplab_model::ids::{CpuIdx, TaskIdx};
use opplab_model::machine::Machine;
use opplab_trace::write::Annotation;

/// Annotations of one instant, with names of their own.
#[derive(Debug, Default)]
pub struct Notes(Vec<(String, Note)>);

#[derive(Debug)]
enum Note {
    Int(i64),
    Text(String),
}

impl Note {
    fn annotation(&self) -> Annotation<'_> {
        match self {
            Self::Int(value) => Annotation::Int(*value),
            Self::Text(text) => Annotation::Text(text),
        }
    }
}

impl Notes {
    fn text(&mut self, name: &str, text: impl Into<String>) {
        self.0.push((name.to_owned(), Note::Text(text.into())));
    }

    /// As the writer takes them.
    pub fn annotations(&self) -> Vec<(&str, Annotation<'_>)> {
        self.0.iter().map(|(name, note)| (name.as_str(), note.annotation())).collect()
    }

    /// A record's chain and its numbers.
    fn of(decision: &Decision, words: &Words) -> Self {
        let mut notes = Self::default();
        if !words.how.is_empty() {
            notes.text("why", words.how.clone());
        }
        facts(decision, |name, fact| {
            // A request's event has the utilisation of the CPU that reported.
            let name = if name == "util" { "util_decided" } else { name };
            match fact {
                Ok(word) => notes.text(name, word),
                Err(number) => notes.0.push((name.to_owned(), Note::Int(number.try_into().unwrap_or(i64::MAX)))),
            }
        });
        notes
    }
}

/// What numbers of records are called in a run.
pub struct RunNames<'a> {
    /// Of which frequencies are.
    pub machine: &'a Machine,
    /// The names of tasks.
    pub task: &'a dyn Fn(TaskIdx) -> String,
}

impl RunNames<'_> {
    fn words(&self, cpu: CpuIdx, decision: &Decision, lines: &[Decision]) -> Words {
        let cluster = self.machine.clusters.iter().find(|cluster| cluster.cpus.contains(&cpu));
        let opps_khz: Vec<u32> = cluster.iter().flat_map(|cluster| &cluster.opps).map(|opp| opp.khz).collect();
        let p_states = self.machine.cpufreq.driver.p_states;
        let names =
            Names { governor: "", p_states, opps_khz: &opps_khz, cpus: &[], knows_waker: true, task: self.task };
        words(decision, lines, &names)
    }
}

/// The decisions of a run, as a sink keeps them.
#[derive(Debug, Default)]
pub struct Reasons {
    /// Frequency decisions by time and first CPU of the policy: the last one of an instant counts.
    requests: BTreeMap<(u64, CpuIdx), Decision>,
    /// Placements by time and task.
    placements: BTreeMap<(u64, TaskIdx), Decision>,
    /// What energy-aware placements weighed, in the order of the placements' numbers.
    weighed: Vec<(u64, Decision)>,
    /// What has no event, with time and CPU.
    others: Vec<(u64, CpuIdx, Decision)>,
}

impl Reasons {
    /// What the request of `policy_cpu`'s policy at `time_ns` was made of.
    pub fn request(&self, time_ns: u64, policy_cpu: CpuIdx, names: &RunNames<'_>) -> Notes {
        let found = self.requests.get(&(time_ns, policy_cpu));
        found.map_or_else(Notes::default, |decision| Notes::of(decision, &names.words(policy_cpu, decision, &[])))
    }

    /// Why `task` was placed at `time_ns` where it was.
    pub fn placement(&self, time_ns: u64, task: TaskIdx, names: &RunNames<'_>) -> Notes {
        let Some(placed @ &Decision::Placement { decision: number, cpu, .. }) = self.placements.get(&(time_ns, task))
        else {
            return Notes::default();
        };
        let first = self.weighed.partition_point(|(of, _)| *of < number);
        let own = self.weighed[first..].iter().take_while(|(of, _)| *of == number);
        let lines: Vec<Decision> = own.map(|(_, decision)| *decision).chain([*placed]).collect();
        let mut notes = Notes::of(placed, &names.words(cpu, placed, &lines));
        for line in &lines[..lines.len() - 1] {
            let Words { title, how, .. } = names.words(cpu, line, &lines);
            notes.text(&title, how);
        }
        notes
    }

    /// Decisions on `cpu` that no event records: requests that the rate limit held back, limited grants, the firmware's
    /// choices, idle states, pulled tasks, deadline tasks that wait for their next period.
    pub fn others(&self, cpu: CpuIdx, names: &RunNames<'_>) -> impl Iterator<Item = (u64, String, Notes)> {
        let here = self.others.iter().filter(move |(_, at, _)| *at == cpu);
        here.map(move |(time_ns, _, decision)| {
            let words = names.words(cpu, decision, &[]);
            let notes = Notes::of(decision, &words);
            (*time_ns, words.title, notes)
        })
    }
}

impl Sink for Reasons {
    const ENABLED: bool = false;
    const DECISIONS: bool = true;

    fn event(&mut self, _now_ns: u64, _event: &Event) {}

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        match *decision {
            Decision::Freq { policy_cpu, cpu, outcome, prev_khz, wanted_khz, .. } => match word("outcome", outcome) {
                Some("requested") => {
                    self.requests.insert((now_ns, policy_cpu), *decision);
                }
                Some("rate-limited") if wanted_khz != prev_khz => self.others.push((now_ns, cpu, *decision)),
                _ => {}
            },
            Decision::Sample { policy_cpu, .. } | Decision::Custom { policy_cpu, .. } => {
                self.requests.insert((now_ns, policy_cpu), *decision);
            }
            Decision::Hwp { policy_cpu, .. } => self.others.push((now_ns, policy_cpu, *decision)),
            Decision::Idle { cpu, .. } => self.others.push((now_ns, cpu, *decision)),
            Decision::Grant { policy_cpu, limit, .. } => {
                if limit != GrantLimit::None {
                    self.others.push((now_ns, policy_cpu, *decision));
                }
            }
            Decision::Placement { task, .. } => {
                self.placements.insert((now_ns, task), *decision);
            }
            Decision::Candidate { decision: number, .. } | Decision::Energy { decision: number, .. } => {
                self.weighed.push((number, *decision));
            }
            Decision::Balance { dst_cpu, moved, pushed, .. } => {
                if moved > 0 || pushed {
                    self.others.push((now_ns, dst_cpu, *decision));
                }
            }
            Decision::DlThrottle { cpu, .. } | Decision::RtThrottle { cpu, .. } => {
                self.others.push((now_ns, cpu, *decision))
            }
            Decision::Throttle { .. } => {}
        }
    }
}
