//! Rounds of a plan's steps, and what they come to: each number with its interval over the rounds.

use std::collections::BTreeMap;
use std::io::Write;

use opplab_model::node_table;
use opplab_model::tree::{Node, ToNode as _, Value};
use opplab_stats::Mean;
use opplab_stats::interval::t_interval;
use opplab_stats::mean::{median, quantile_sorted};

use super::loops::{CYCLES, Class};
use super::plan::{Plan, Step, What};
use crate::clock::Moment;
use crate::compare::design::order;
use crate::compare::measure::Meters;
use crate::compare::settings::Settings;
use crate::error::HostError;
use crate::root::{CPU, Root};

/// Where steps are done: the live machine, or one whose truth is known.
pub trait Lab {
    /// Its files.
    fn root(&self) -> &Root;
    /// Its clocks.
    fn now(&self) -> Moment;
    /// Whether it is to end.
    fn is_ended(&self) -> bool;
    /// Waits; `poll` is called at least each second.
    fn rest(&mut self, ns: u64, poll: &mut dyn FnMut(&Root, Moment));
    /// Runs loops on CPUs; iterations a second of each.
    ///
    /// # Errors
    /// If a CPU cannot be had.
    fn busy(
        &mut self,
        class: Class,
        cpus: &[u32],
        ns: u64,
        poll: &mut dyn FnMut(&Root, Moment),
    ) -> Result<Vec<f64>, HostError>;
    /// How late timers wake a thread, ns.
    ///
    /// # Errors
    /// If the CPU cannot be had.
    fn wake(&mut self, cpu: u32, sleep_ns: u64, count: u32) -> Result<Vec<u64>, HostError>;
    /// Hands a cache line over, ns each.
    ///
    /// # Errors
    /// If a CPU cannot be had.
    fn exchange(&mut self, a: u32, b: u32) -> Result<Vec<f64>, HostError>;
    /// Writes files, and gives a CPU's speed from then on: (ns, iterations a second).
    ///
    /// # Errors
    /// If a write is refused.
    fn watch(&mut self, cpu: u32, writes: &[(String, String)], ns: u64) -> Result<Vec<(u64, f64)>, HostError>;
    /// How long small writes take until they are on the disk, ns.
    ///
    /// # Errors
    /// If the results' folder cannot be written.
    fn flush(&mut self, count: u32) -> Result<Vec<u64>, HostError>;
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which quantity.
    pub what: &'static str,
    /// Of what: class, cores, MHz, state, ...
    pub of: Vec<(&'static str, String)>,
    /// Mean of the rounds, geometric where all are above 0.
    pub value: f64,
    /// Ends of its interval of 95 %; `None` after one round.
    pub interval: Option<(f64, f64)>,
    /// Its unit.
    pub unit: &'static str,
    /// Rounds that have it.
    pub rounds: usize,
    /// How it was measured.
    pub how: &'static str,
}

/// A number of one round.
struct Reading {
    what: &'static str,
    unit: &'static str,
    how: &'static str,
    value: f64,
}

fn reading(what: &'static str, unit: &'static str, how: &'static str, value: f64) -> Reading {
    Reading { what, unit, how, value }
}

/// What rounds of a plan gave.
#[derive(Debug, Default)]
pub struct Findings {
    /// In the order of the plan's steps.
    pub known: Vec<Finding>,
    /// What could not be measured, and why.
    pub unknown: Vec<(String, String)>,
    /// Rounds that are done.
    pub rounds: u32,
}

const CONFIDENCE: f64 = 0.95;
/// Sleeps, flushes: many enough for a median and few enough for a step's time.
const COUNT: (u32, u32) = (10, 200);
const FLUSHES: u32 = 40;
/// Longest wait for a changed clock.
const CHANGE_NS: u64 = 40_000_000;

/// Does all steps in rounds, each round in an order of its own, for some ns a step; the files are as `settings` found
/// them when it ends.
///
/// # Errors
/// A setting or a CPU that cannot be had.
pub fn measure(
    plan: &Plan,
    lab: &mut dyn Lab,
    settings: &mut Settings,
    rounds: u32,
    step_ns: u64,
    err: &mut dyn Write,
) -> Result<Findings, HostError> {
    let mut meters = Meters::open(lab.root());
    let load = lab.root().text("/proc/loadavg").ok();
    if let Some(load) =
        load.as_ref().and_then(|text| text.split(' ').next()).filter(|load| load.parse().unwrap_or(0.0) > 0.5)
    {
        let _ = writeln!(err, "note: others run (load {load}): wake-ups, hand-overs and flushes are later for it");
    }
    let mut found: BTreeMap<usize, Vec<Vec<Reading>>> = BTreeMap::new();
    let mut n_done = 0;
    'rounds: for round in 0..rounds {
        for at in order(1, round, plan.steps.len()) {
            if lab.is_ended() {
                break 'rounds;
            }
            let Some(step) = plan.steps.get(at) else { continue };
            settings.apply(lab.root(), &step.variant)?;
            found.entry(at).or_default().push(once(step, lab, &mut meters, step_ns)?);
        }
        n_done += 1;
        let _ = writeln!(err, "round {n_done} of {rounds}");
    }
    let mut findings = Findings { unknown: plan.unknown.clone(), rounds: n_done, ..Findings::default() };
    for (at, rounds) in &found {
        let Some(step) = plan.steps.get(*at) else { continue };
        let of = step.what.of();
        for one in rounds.first().into_iter().flatten() {
            let values: Vec<f64> = rounds
                .iter()
                .filter_map(|round| round.iter().find(|other| other.what == one.what))
                .map(|reading| reading.value)
                .filter(|value| value.is_finite())
                .collect();
            findings.known.extend(finding(one.what, of.clone(), &values, one.unit, one.how));
        }
        if rounds.iter().all(Vec::is_empty) {
            let words: Vec<String> = of.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
            findings.unknown.push((words.join(", "), "the speed did not change within 40 ms".to_owned()));
        }
    }
    findings.memory_share(plan, &found);
    Ok(findings)
}

fn finding(
    what: &'static str,
    of: Vec<(&'static str, String)>,
    values: &[f64],
    unit: &'static str,
    how: &'static str,
) -> Option<Finding> {
    if values.is_empty() {
        return None;
    }
    // What is above 0 varies by factors, so that its interval is above 0 as well.
    let is_log = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = values.iter().map(|value| if is_log { value.ln() } else { *value }).collect();
    let back = |value: f64| if is_log { value.exp() } else { value };
    let interval = (values.len() > 1).then(|| t_interval(&scaled, Mean::Arithmetic, CONFIDENCE));
    Some(Finding {
        what,
        of,
        value: back(Mean::Arithmetic.of(&scaled)),
        interval: interval.map(|ends| (back(ends.low), back(ends.high))),
        unit,
        rounds: values.len(),
        how,
    })
}

fn once(step: &Step, lab: &mut dyn Lab, meters: &mut Meters, ns: u64) -> Result<Vec<Reading>, HostError> {
    match &step.what {
        What::Busy { class, cpus, .. } => {
            meters.begin(lab.root(), lab.now());
            let speeds = lab.busy(*class, cpus, ns, &mut |root, now| meters.poll(root, now))?;
            let mut found = watts_and_clock(lab, meters);
            let sum: f64 = speeds.iter().sum();
            // The chain's cycles are known where shifts and exclusive ors take one each.
            if *class == Class::Integer && cfg!(target_arch = "x86_64") && !found.iter().any(|one| one.what == "clock")
            {
                let mhz = sum / speeds.len().max(1) as f64 * CYCLES / 1e6;
                found.push(reading("clock", "MHz", "a chain of six cycles", mhz));
            }
            found.push(reading("speed", "1/s", "iterations of all CPUs", sum));
            Ok(found)
        }
        What::Siblings(class, cpus) => {
            let first = cpus.get(..1).unwrap_or(cpus);
            let mut none = |_: &Root, _: Moment| ();
            let alone: f64 = lab.busy(*class, first, ns / 2, &mut none)?.iter().sum();
            let both: f64 = lab.busy(*class, cpus, ns / 2, &mut none)?.iter().sum();
            let share = both / cpus.len().max(1) as f64 / alone;
            Ok(vec![reading("thread's share", "", "speed beside busy siblings by speed alone", share)])
        }
        What::Idle(_) => {
            meters.begin(lab.root(), lab.now());
            lab.rest(ns, &mut |root, now| meters.poll(root, now));
            Ok(watts_and_clock(lab, meters)
                .into_iter()
                .filter(|one| one.what == "power")
                .map(|one| Reading { what: "idle power", ..one })
                .collect())
        }
        What::Wake { cpu, sleep_ns, .. } => {
            let count = u32::try_from(ns / sleep_ns.max(&1)).unwrap_or(u32::MAX).clamp(COUNT.0, COUNT.1);
            let mut late: Vec<f64> = lab.wake(*cpu, *sleep_ns, count)?.into_iter().map(|ns| ns as f64).collect();
            late.sort_by(f64::total_cmp);
            let how = "timers, until the thread runs";
            let ends = [("wake-up", 0.5), ("wake-up p99", 0.99)];
            Ok(ends.map(|(what, share)| reading(what, "ns", how, quantile_sorted(&late, share))).into())
        }
        What::Change { cpu, policy, khz } => {
            let [from, to] = *khz;
            let limits = if to > from { ["max", "min"] } else { ["min", "max"] };
            let path = |limit| format!("{CPU}/cpufreq/policy{policy}/scaling_{limit}_freq");
            let writes = limits.map(|limit| (path(limit), to.to_string()));
            let speeds = lab.watch(*cpu, &writes, CHANGE_NS)?;
            Ok(changed_after_ns(&speeds)
                .map(|ns| {
                    reading("frequency change", "ns", "from the write until loops run at the new speed", ns as f64)
                })
                .into_iter()
                .collect())
        }
        What::Line(a, b, _) => {
            let mut ns = lab.exchange(*a, *b)?;
            Ok(vec![reading("shared line", "ns", "hand-overs of one cache line", median(&mut ns))])
        }
        What::Flush => {
            let mut ns: Vec<f64> = lab.flush(FLUSHES)?.into_iter().map(|ns| ns as f64).collect();
            ns.sort_by(f64::total_cmp);
            let how = "4 KiB and fdatasync in the results' folder";
            let ends = [("flush", 0.5), ("flush p99", 0.99)];
            Ok(ends.map(|(what, share)| reading(what, "ns", how, quantile_sorted(&ns, share))).into())
        }
    }
}

/// What the meters saw since they began: W of all packages or of the first meter, and the clock while busy.
fn watts_and_clock(lab: &dyn Lab, meters: &mut Meters) -> Vec<Reading> {
    let seconds = lab.now().time_ns.saturating_sub(meters.began().time_ns) as f64 / 1e9;
    let (quantities, _) = meters.end(lab.root(), lab.now(), 0.0, f64::INFINITY);
    let mut found = Vec::new();
    let whole = quantities.iter().find(|one| one.name == "energy");
    if let Some(energy) = whole.or_else(|| quantities.iter().find(|one| one.name.starts_with("energy"))) {
        found.push(reading("power", "W", "the machine's meter", energy.value / seconds));
    }
    if let Some(clock) = quantities.iter().find(|one| one.name == "clock") {
        found.push(reading("clock", "MHz", "the machine's counters", clock.value));
    }
    found
}

/// When a speed has become another: the first window from which on ten windows are nearer to the last speed than to the
/// first; `None` if first and last do not differ by a tenth.
fn changed_after_ns(speeds: &[(u64, f64)]) -> Option<u64> {
    const RUN: usize = 10;
    let of = |windows: &[(u64, f64)]| median(&mut windows.iter().map(|(_, speed)| *speed).collect::<Vec<_>>());
    let (first, last) = (of(speeds.get(..RUN)?), of(speeds.get(speeds.len() - speeds.len() / 4..)?));
    if (last / first).ln().abs() < 0.1 {
        return None;
    }
    let middle = (first * last).sqrt();
    let is_new = |speed: f64| (speed > middle) == (last > first);
    let at = speeds.windows(RUN).position(|run| run.iter().all(|(_, speed)| is_new(*speed)))?;
    speeds.get(at).map(|(ns, _)| *ns)
}

impl What {
    /// In words, for the plan.
    pub fn words(&self) -> String {
        let name = match self {
            Self::Busy { .. } => "loops",
            Self::Siblings(..) => "second threads",
            Self::Idle(_) => "idle power",
            Self::Wake { .. } => "wake-ups",
            Self::Change { .. } => "frequency change",
            Self::Line(..) => "shared line",
            Self::Flush => "flush of the disk",
        };
        let of: Vec<String> = self.of().into_iter().map(|(key, value)| format!("{key} {value}")).collect();
        format!("{name} {}", of.join(", ")).trim_end().to_owned()
    }

    fn of(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Busy { class, cpus, khz } => {
                let mut of = vec![("class", class.name().to_owned()), ("cores", cpus.len().to_string())];
                of.extend(khz.map(|khz| ("khz", khz.to_string())));
                of
            }
            Self::Siblings(class, cpus) => {
                vec![("class", class.name().to_owned()), ("threads", cpus.len().to_string())]
            }
            Self::Idle(state) => vec![("up to", state.clone())],
            Self::Wake { state, .. } => vec![("state", state.clone())],
            Self::Change { khz: [from, to], .. } => vec![("from khz", from.to_string()), ("to khz", to.to_string())],
            Self::Line(_, _, words) => vec![("shared", (*words).to_owned())],
            Self::Flush => Vec::new(),
        }
    }
}

impl Findings {
    /// Of each class the share of its time at the highest clock that does not depend on the clock, round by round, from
    /// its speeds at the lowest and the highest.
    fn memory_share(&mut self, plan: &Plan, found: &BTreeMap<usize, Vec<Vec<Reading>>>) {
        for class in Class::ALL {
            let at = |wanted: u32| {
                let step = plan.steps.iter().position(|step| {
                    matches!(&step.what, What::Busy { class: of, cpus, khz: Some(khz) }
                        if *of == class && cpus.len() == 1 && *khz == wanted)
                })?;
                found.get(&step)
            };
            let clocks: Vec<u32> = plan.steps.iter().filter_map(|step| step.what.khz()).collect();
            let (Some(low), Some(high)) = (clocks.iter().min(), clocks.iter().max()) else { return };
            let (Some(slow), Some(fast)) = (at(*low), at(*high)) else { continue };
            let speed = |round: &[Reading]| round.iter().find(|one| one.what == "speed").map(|one| one.value);
            let share = |(slow, fast): (&Vec<Reading>, &Vec<Reading>)| {
                let (slow_s, fast_s) = (1.0 / speed(slow)?, 1.0 / speed(fast)?);
                // t(f) = cycles / f + fixed
                let (slow_f, fast_f) = (f64::from(*low), f64::from(*high));
                let cycles = (slow_s - fast_s) / (1.0 / slow_f - 1.0 / fast_f);
                Some(1.0 - cycles / fast_f / fast_s)
            };
            let values: Vec<f64> = slow.iter().zip(fast).filter_map(share).collect();
            let of = vec![("class", class.name().to_owned())];
            let how = "time that does not depend on the clock, at the highest";
            self.known.extend(finding("memory's share", of, &values, "", how));
        }
    }

    /// As JSON.
    pub fn json(&self, machine: &str, kernel: &str, seconds: f64) -> Node {
        let float = |value: f64| Node { value: Value::Float(value), at: Default::default() };
        let one = |finding: &Finding| {
            let Finding { what, interval, unit, rounds, how, .. } = finding;
            let of = Node::table(finding.of.iter().map(|(name, value)| (*name, value.to_node())));
            let (low, high) = (interval.map(|(low, _)| float(low)), interval.map(|(_, high)| float(high)));
            node_table! { what, of, value: float(finding.value), low, high, unit, rounds, how }
        };
        let unknown = |(what, why): &(String, String)| node_table! { what, why };
        node_table! {
            format: "opplab-calibration-1", machine, kernel, seconds: float(seconds), rounds: self.rounds,
            known: self.known.iter().map(one).collect::<Vec<_>>(),
            unknown: self.unknown.iter().map(unknown).collect::<Vec<_>>(),
        }
    }

    /// As a table.
    pub fn text(&self) -> String {
        let mut out = format!("{:<16} {:<22} {:>9}  {:<22} unit\n", "measured", "of", "value", "95 % interval");
        for finding in &self.known {
            let of: Vec<String> = finding
                .of
                .iter()
                .map(|(name, value)| match *name {
                    "class" | "state" | "shared" => value.clone(),
                    _ => format!("{name} {value}"),
                })
                .collect();
            let interval = finding.interval.map_or_else(
                || "unknown (one round)".to_owned(),
                |(low, high)| format!("{} .. {}", four(low), four(high)),
            );
            let (what, value) = (finding.what, four(finding.value));
            out += format!("{what:<16} {:<22} {value:>9}  {interval:<22} {}", of.join(", "), finding.unit).trim_end();
            out += "\n";
        }
        for (what, why) in &self.unknown {
            out += &format!("unknown: {what}\n  {why}\n");
        }
        out
    }
}

impl What {
    fn khz(&self) -> Option<u32> {
        match self {
            Self::Busy { khz, .. } => *khz,
            _ => None,
        }
    }
}

fn four(value: f64) -> String {
    crate::compare::report::four(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the time is that of the change, not of a window that an interrupt made slow.
    #[test]
    fn a_change_is_found_where_the_speed_stays() {
        let speeds: Vec<(u64, f64)> = (0..400u64)
            .map(|at| {
                (
                    at * 5_000,
                    if at == 40 {
                        2.0
                    } else if at < 200 {
                        1.0
                    } else {
                        2.0
                    } + 0.01 * (at % 7) as f64,
                )
            })
            .collect();
        assert_eq!(changed_after_ns(&speeds), Some(1_000_000));
        let flat: Vec<(u64, f64)> = (0..400).map(|at| (at, 1.0)).collect();
        assert_eq!(changed_after_ns(&flat), None);
        assert_eq!(changed_after_ns(&flat[..5]), None);
    }
}
