//! The bench: policies side by side on a machine, under the same seeds, and the first run of each with its reasons.
//!
//! ```text
//!   machine, rt-app file, a policy a line ──► an experiment ──► its cases, one a step ──► table with intervals, time lines
//! ```
//! It is the experiment that the command line would run: the same file format is written, read, expanded and run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opplab_model::case::CaseFile;
use opplab_model::decision::words::{Names, words};
use opplab_model::decision::{Decision, GrantLimit, word};
use opplab_model::event::{Event, IDLE_TASK, NullSink, Sink, Tee};
use opplab_model::experiment::{SourceText, parse_experiment};
use opplab_model::ids::{CpuIdx, TaskIdx};
use opplab_model::latency::Latencies;
use opplab_sim::{Case, Outcome};
use opplab_stats::Mean;
use opplab_stats::interval::paired_interval;
use opplab_stats::mean::amean;
use opplab_timeline::{Reasons, RunTrace};

use super::{Job, Page};
use crate::Dropped;
use crate::answer::{Answer, Chart, Lane, Table};
use crate::machines::{MACHINES, machine_text};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "bench",
    title: "Bench",
    question: "What does another policy do to energy, latency and missed work?",
    about: "The engine runs in this tab. A line a policy, the first is the baseline; keys are those of experiment files. Each \
            policy runs under the same seeds; intervals are of the ratio of pairs, at 95 %. A machine file may be dropped here.",
    drop: "Drop a machine file (.toml), or choose one:",
    controls,
    examples: &[
        ("Three governors on a Juno", ""),
        ("With and without EAS", "policies=eas%3Dtrue%0Aeas%3Dfalse"),
        ("A Pixel 6 from 6.1 to 6.12", "machine=pixel6&policies=kernel%3D6.1%0Akernel%3D6.12"),
        (
            "A laptop's EPP",
            "machine=kaby-lake-i7-7500u&policies=driver%3Dintel_pstate%20governor%3Dpowersave%0Adriver%3Dintel_cpufreq%20governor%3Dschedutil",
        ),
    ],
    run: super::Run::Steps(start),
};

const WORKLOAD: &str = r#"{
  "global": { "duration": 10, "calibration": "CPU0" },
  "tasks": {
    "frame": { "instance": 2, "loop": -1, "run": 5000,
               "timer": { "ref": "unique", "period": 16000 } },
    "small": { "instance": 8, "loop": -1, "run": 400,
               "timer": { "ref": "unique", "period": 10000 } }
  }
}"#;
const POLICIES: &str = "governor=schedutil\ngovernor=performance\ngovernor=powersave";
const POLICIES_MAX: usize = 4;
/// What a time line holds at most: a picture, not a trace.
pub(super) const SPANS_MAX: usize = 12_000;
const MARKS_MAX: usize = 3_000;

fn controls() -> Vec<Control> {
    vec![
        Control::choice("machine", "Machine", MACHINES.iter().map(|(name, _)| *name).collect(), "juno-r2"),
        Control::range("length_ms", "Simulated time of a run", "ms", [50, 10_000, 50, 1_000]),
        Control::range("seeds", "Seeds", "", [1, 40, 1, 8]),
        Control::text("policies", "Policies, a line each: key=value key=value", "", 1_000, POLICIES),
        Control::text("workload", "Workload (rt-app)", "", 8_000, WORKLOAD),
    ]
}

/// `governor=schedutil hz=1000` as keys of a TOML table.
fn keys(line: &str) -> Result<String, String> {
    let mut out = String::new();
    for pair in line.split_whitespace() {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("policies: `{}` is not key=value", plain(pair)))?;
        if !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || key.is_empty() {
            return Err(format!("policies: `{}` is not a key", plain(key)));
        }
        // A kernel's version has the look of a number.
        let bare = key != "kernel" && (value.parse::<i64>().is_ok() || matches!(value, "true" | "false"));
        let list = value.starts_with('[') && value.ends_with(']');
        let value = if bare || list { value.to_owned() } else { format!("{value:?}") };
        let _ = writeln!(out, "{key} = {value}");
    }
    Ok(out)
}

/// One policy's results, by seed.
struct Variant {
    label: String,
    energy_j: Vec<f64>,
    latency_p99_ms: Vec<f64>,
    missed: Vec<f64>,
    util_clock_mhz: Vec<f64>,
}

struct Bench {
    cases: Vec<CaseFile>,
    done: usize,
    seeds: usize,
    powered: bool,
    variants: Vec<Variant>,
    charts: Vec<Chart>,
    cut: bool,
    fingerprints: Vec<u64>,
    command: String,
    workload: String,
}

fn start(values: &Values<'_>, dropped: Option<Dropped>) -> Result<Box<dyn Job>, String> {
    let is_dropped = dropped.is_some();
    let machine = match dropped {
        Some(file) => {
            let text = String::from_utf8(file.bytes).map_err(|_| format!("{}: no UTF-8 text", plain(&file.name)))?;
            SourceText { file: plain(&file.name), text }
        }
        None => SourceText {
            file: format!("{}.toml", values.text("machine")),
            text: machine_text(values.text("machine")).to_owned(),
        },
    };
    let lines: Vec<&str> = values.text("policies").lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() || lines.len() > POLICIES_MAX {
        return Err(format!("policies: {} lines; 1 to {POLICIES_MAX} are compared", lines.len()));
    }
    let mut text = format!(
        "format = 1\nname = \"bench\"\nmachine = \"machine\"\nseed = 1\niterations = {}\nduration = \"{}ms\"\n",
        values.number("seeds"),
        values.number("length_ms")
    );
    for line in &lines {
        let _ = write!(text, "\n[[policy]]\nlabel = {line:?}\n{}", keys(line)?);
    }
    text += "\n[[workload]]\nlabel = \"workload\"\nrtapp = \"workload.json\"\n";
    let machines = BTreeMap::from([("machine".to_owned(), machine)]);
    let workload = SourceText { file: "workload.json".to_owned(), text: values.text("workload").to_owned() };
    let files = BTreeMap::from([("workload.json".to_owned(), workload)]);
    let experiment = parse_experiment("policies", &text).map_err(|error| error.to_string())?;
    let mut cases = experiment.expand(&machines, &files).map_err(|error| error.to_string())?;
    // A seed of all policies is done before the next: intervals come early.
    cases.sort_by_key(|case| case.iteration);
    let powered = cases.first().is_some_and(|case| case.machine.clusters.iter().all(|cluster| cluster.has_power()));
    let variants = lines.iter().map(|line| Variant {
        label: (*line).to_owned(),
        energy_j: Vec::new(),
        latency_p99_ms: Vec::new(),
        missed: Vec::new(),
        util_clock_mhz: Vec::new(),
    });
    let vs: String = lines[1..].iter().map(|line| format!(" --vs '{line}'")).collect();
    let set: String = lines[0].split_whitespace().map(|pair| format!(" --set {pair}")).collect();
    let name = if is_dropped { "MACHINE.toml" } else { values.text("machine") };
    let length = values.number("length_ms");
    let command = format!(
        "opplab run -w workload.json -m {name}{set}{vs} --iterations {} --seconds {}.{:03}",
        values.number("seeds"),
        length / 1000,
        length % 1000
    );
    let variants = variants.collect();
    let seeds = values.number("seeds") as usize;
    Ok(Box::new(Bench {
        cases,
        done: 0,
        seeds,
        powered,
        variants,
        charts: Vec::new(),
        cut: false,
        fingerprints: Vec::new(),
        command,
        workload: values.text("workload").to_owned(),
    }))
}

impl Job for Bench {
    fn progress(&self) -> (usize, usize) {
        (self.done, self.cases.len())
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(file) = self.cases.get(self.done) else { return Ok(()) };
        let at = self.done % self.variants.len();
        let first = file.iteration == 0;
        let label = self.variants[at].label.clone();
        let case = Case::from(file.clone());
        let mut sink = Tee(Latencies::from(case.workload.warmup_ns), Watch::new(&case, first));
        let outcome = opplab_sim::run(&case, &mut sink).map_err(|error| format!("{label}: {}", error.0))?;
        let Tee(latencies, watch) = sink;
        let one = &mut self.variants[at];
        let energy_fj = outcome.cluster_energy_fj.iter().sum::<u128>()
            + outcome.floor_energy_fj
            + outcome.consumers.iter().map(|consumer| consumer.energy_fj).sum::<u128>();
        one.energy_j.push(energy_fj as f64 / 1e15);
        if let Some(percentiles) = latencies.percentiles(&outcome.not_own).0 {
            one.latency_p99_ms.push(percentiles[3] as f64 / 1e6);
        }
        if outcome.activations > 0 {
            one.missed.push(outcome.missed_activations as f64 * 100.0 / outcome.activations as f64);
        }
        one.util_clock_mhz.extend(busy_mhz(&outcome));
        if first {
            self.cut |= watch.cut();
            let chart = watch.chart(&case, &outcome, &format!("{label}, seed {}", case.seed));
            self.charts.push(chart);
            self.fingerprints.push(outcome.fingerprint);
        }
        self.done += 1;
        Ok(())
    }

    /// The first run of each policy for ui.perfetto.dev, with its reasons, as `opplab run` writes it.
    fn file(&self, nth: usize) -> Option<(String, Vec<u8>)> {
        if nth >= self.variants.len() || self.done < self.cases.len() {
            return None;
        }
        let case = Case::from(self.cases.get(nth)?.clone());
        let outcome = opplab_sim::run(&case, &mut NullSink).ok()?;
        let trace = RunTrace::new(&case.machine, outcome.task_names, &case.policy, true);
        let mut both = Tee(trace, Reasons::default());
        opplab_sim::run(&case, &mut both).ok()?;
        let Tee(mut sink, why) = both;
        sink.end(outcome.warmup.wall_ns + outcome.wall_ns);
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let label: String = self.variants[nth].label.chars().map(safe).take(60).collect();
        Some((format!("{label}.pftrace"), sink.into_perfetto(&why)))
    }

    fn answer(&self) -> Answer {
        let sources = vec![("workload.json".to_owned(), self.workload.clone())];
        let (command, charts) = (self.command.clone(), self.charts.clone());
        let mut answer = Answer { command, sources, charts, ..Answer::default() };
        let mut rows = Vec::new();
        let base = &self.variants[0];
        for (at, one) in self.variants.iter().enumerate() {
            let change = |values: &[f64], base: &[f64]| match at {
                0 => String::new(),
                _ => change(base, values),
            };
            let mean = |values: &[f64], unit: &str| match values.is_empty() {
                true => "unknown".to_owned(),
                false => format!("{} {unit}", four(amean(values))),
            };
            let energy = if self.powered {
                mean(&one.energy_j.iter().map(|j| j * 1e3).collect::<Vec<_>>(), "mJ")
            } else {
                "unknown".to_owned()
            };
            let energy_change = if self.powered { change(&one.energy_j, &base.energy_j) } else { String::new() };
            rows.push(vec![
                one.label.clone(),
                energy,
                energy_change,
                mean(&one.latency_p99_ms, "ms"),
                change(&one.latency_p99_ms, &base.latency_p99_ms),
                mean(&one.missed, "%"),
                mean(&one.util_clock_mhz, "MHz"),
            ]);
        }
        for (one, fingerprint) in self.variants.iter().zip(&self.fingerprints) {
            answer.fact(
                format!("Events of {}", one.label),
                format!("{fingerprint:016x}"),
                "fingerprint of the first seed's run, the same on the command line",
            );
        }
        let of = self.done.div_ceil(self.variants.len().max(1));
        answer.tables.push(Table {
            title: format!("After {of} of {} seeds", self.seeds),
            columns: ["Policy", "Energy", "change", "Latency p99", "change", "Missed", "Busy clock"]
                .map(str::to_owned)
                .to_vec(),
            rows,
            chosen: None,
        });
        if self.done == 0 {
            answer.say("Run starts the engine in this tab; Cancel ends it.");
        } else if !self.powered {
            answer.say("The machine's file has no power, so energy is unknown.");
        }
        if self.done > 0 && self.seeds < 3 {
            answer.say("An interval takes at least three seeds.");
        }
        if self.cut {
            answer.say(format!("A time line ends after {SPANS_MAX} pieces; figures are of whole runs."));
        }
        answer
    }
}

/// Four significant digits.
pub(super) fn four(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

fn change(base: &[f64], new: &[f64]) -> String {
    let shared = base.len().min(new.len());
    let (base, new) = (&base[..shared], &new[..shared]);
    let (Some(_), mean) = (base.first(), amean(base)) else { return String::new() };
    if mean <= 0.0 {
        return String::new();
    }
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let center = percent(amean(new) / mean);
    if shared < 3 {
        return format!("{center:+.1} %");
    }
    let interval = paired_interval(base, new, Mean::Arithmetic, 0.95);
    if interval.low.is_nan() {
        return format!("{center:+.1} %");
    }
    let clear = if interval.contains(1.0) { "" } else { " *" };
    format!("{center:+.1} % [{:+.1}, {:+.1}]{clear}", percent(interval.low), percent(interval.high))
}

/// Mean clock of busy time over all CPUs, in MHz.
pub(super) fn busy_mhz(outcome: &Outcome) -> Option<f64> {
    let (mut cycles, mut busy) = (0u128, 0u128);
    let mut cpu = 0;
    for points in &outcome.points {
        // CPUs of a cluster follow each other in the outcome; each has as many times as its cluster has points.
        while let Some(times) = outcome.busy_ns_by_opp.get(cpu).filter(|times| times.len() == points.len()) {
            for (point, &ns) in points.iter().zip(times) {
                cycles += u128::from(point.khz) * u128::from(ns);
                busy += u128::from(ns);
            }
            cpu += 1;
        }
    }
    (busy > 0).then(|| cycles as f64 / busy as f64 / 1e3)
}

/// The time line of a run.
struct Watch {
    on: bool,
    lanes: Vec<Lane>,
    /// What runs on each CPU, since when.
    runs: Vec<Option<(u64, TaskIdx)>>,
    names: Vec<String>,
    decisions: Vec<(u64, CpuIdx, Decision)>,
    spans: usize,
    end_ns: u64,
}

impl Watch {
    fn new(case: &Case, on: bool) -> Self {
        let nr_cpus = case.machine.nr_cpus();
        let lanes = (0..nr_cpus).map(|cpu| Lane {
            name: format!("CPU {cpu}"),
            level_max: case
                .machine
                .clusters
                .iter()
                .find(|cluster| cluster.cpus.contains(&(cpu as u32)))
                .and_then(|cluster| cluster.opps.last())
                .map_or(0, |opp| opp.khz.into()),
            ..Lane::default()
        });
        Self {
            on,
            lanes: lanes.collect(),
            runs: vec![None; nr_cpus],
            names: Vec::new(),
            decisions: Vec::new(),
            spans: 0,
            end_ns: 0,
        }
    }

    fn cut(&self) -> bool {
        self.spans >= SPANS_MAX
    }

    fn chart(mut self, case: &Case, outcome: &Outcome, title: &str) -> Chart {
        self.names.clone_from(&outcome.task_names);
        let end = if self.cut() { self.end_ns } else { case.duration_ns };
        let name = |task: u64| self.names.get(task as usize).cloned().unwrap_or_else(|| format!("task {task}"));
        for lane in &mut self.lanes {
            for (_, _, task) in &mut lane.spans {
                if let Ok(number) = task.parse::<u64>() {
                    *task = name(number);
                }
            }
        }
        let of_task = |task: TaskIdx| name(u64::from(task));
        for (at, cpu, decision) in &self.decisions {
            let cluster = case.machine.clusters.iter().find(|cluster| cluster.cpus.contains(cpu));
            let opps_khz: Vec<u32> = cluster.iter().flat_map(|cluster| &cluster.opps).map(|opp| opp.khz).collect();
            let p_states = case.machine.cpufreq.driver.p_states;
            let names =
                Names { governor: "", p_states, opps_khz: &opps_khz, cpus: &[], knows_waker: true, task: &of_task };
            let said = words(decision, &[], &names);
            if let Some(lane) = self.lanes.get_mut(*cpu as usize).filter(|_| *at <= end) {
                lane.marks.push((*at, format!("{} {}", said.text, said.outcome).trim_end().to_owned()));
            }
        }
        Chart {
            title: title.to_owned(),
            x: ("time".to_owned(), "ns", end),
            y: ("clock".to_owned(), "kHz", 1),
            lanes: self.lanes,
            ..Chart::default()
        }
    }
}

impl Sink for Watch {
    const DECISIONS: bool = true;

    fn event(&mut self, now_ns: u64, event: &Event) {
        if !self.on || self.cut() {
            return;
        }
        self.end_ns = now_ns;
        match *event {
            Event::SchedSwitch { cpu, next, .. } => {
                let at = cpu as usize;
                if let Some((since, task)) = self.runs[at].take() {
                    self.lanes[at].spans.push((since, now_ns, task.to_string()));
                    self.spans += 1;
                }
                if next != IDLE_TASK {
                    self.runs[at] = Some((now_ns, next));
                }
            }
            Event::CpuFrequency { cpu, khz } => {
                self.lanes[cpu as usize].level.push((now_ns, khz.into()));
            }
            _ => {}
        }
    }

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        if !self.on || self.cut() || self.decisions.len() >= MARKS_MAX {
            return;
        }
        let cpu = match *decision {
            Decision::Freq { policy_cpu, outcome, .. } if word("outcome", outcome) == Some("requested") => policy_cpu,
            Decision::Sample { policy_cpu, .. } | Decision::Hwp { policy_cpu, .. } => policy_cpu,
            Decision::Grant { policy_cpu, limit, .. } if limit != GrantLimit::None => policy_cpu,
            Decision::Placement { cpu, .. } => cpu,
            Decision::Balance { dst_cpu, moved, .. } if moved > 0 => dst_cpu,
            _ => return,
        };
        self.decisions.push((now_ns, cpu, *decision));
    }
}
