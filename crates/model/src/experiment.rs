//! Experiments: a TOML file that names machines, policies and workloads, expanded to the cases of their matrix.
//!
//! Iteration i of every policy runs with seed + i, so that all policies see the same workload and the same random draws
//! (common random numbers), and a ratio between them needs fewer iterations. A parameter that is a list is an axis of
//! the matrix; the label of a case names the axes only (`tasks=10`).
//!
//! This module reads no files: [`Experiment::machines`] and [`Experiment::rtapp_files`] list what is needed, the caller
//! brings the texts to [`Experiment::expand`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::benchmark::background::{Background, moved_off_offline};
use crate::benchmark::{BENCHMARKS, Benchmark, ParamKind, ParamValue, Params, benchmark};
use crate::case::CaseFile;
use crate::error::{Fault, ModelError, Pos, shorten};
use crate::file::{check_format, parse_machine};
use crate::groups::GroupEntry;
use crate::json::parse_json;
use crate::machine::Machine;
use crate::policy::Policy;
use crate::policy_keys::{POLICY_KEY_NAMES, changes_from, policy_from, policy_node};
use crate::rtapp::{CompileOptions, ParseOptions, Repeats, SuspendOn};
use crate::start::Start;
use crate::tree::{Node, TIME_NS_MAX, Table, Value, parse_toml, to_json};
use crate::workload::{TaskSpec, Workload};

/// Most cases of an experiment.
const NR_CASES_MAX: u64 = 1_000_000;

/// Most memory that the cases of an experiment may take, as far as it grows with them.
const CASES_BYTES_MAX: u64 = 512 << 20;

/// About what texts and lists of a task or a case take that are not counted one by one.
const SMALL_BYTES: usize = 256;

/// A text that somebody read, and its name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceText {
    /// Name of the file.
    pub file: String,
    /// What is in it.
    pub text: String,
}

/// An experiment as it was written.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// Stem of the table of published values that belongs to it; empty if there is none.
    pub published: String,
    /// Label of the policy to which the others are compared; empty if there is none.
    pub baseline: String,
    /// Seed of iteration 0.
    pub seed: u64,
    /// Number of iterations.
    pub iterations: u32,
    /// When fewer iterations than that are enough; `None` if all are wanted.
    pub until: Option<Until>,
    /// Labels of the policies, in order.
    pub labels: Vec<String>,
    /// What of the published text is to be compared with which workload.
    pub compare: Vec<Compare>,
    /// In sentences: what of the published text the simulation explains, and what not; empty if nobody looked.
    pub finding: String,
    /// What its answer names beside the numbers: settings of a power profile that no simulation has.
    pub notes: Vec<String>,
    /// The cases that stand for all when there is little time: (workload, parameters); empty parameters: all of them.
    pub quick: Vec<(String, String)>,
    file: String,
    /// Where the number of iterations is, or the file's beginning.
    at: Pos,
    machines: Vec<(String, Pos)>,
    /// Name or file of the tasks that run beside every workload; empty: none.
    pub background: String,
    /// These tasks, from whoever has read what `background` names.
    pub beside: Background,
    /// Machines whose file has no power get a generic curve (`power = "generic"`).
    pub generic_power: bool,
    policies: Vec<PolicyEntry>,
    workloads: Vec<WorkloadEntry>,
    groups: Vec<GroupOf>,
    duration_ns: Option<u64>,
    warmup_ns: Option<u64>,
}

/// A `[[group]]`, and for whom it is.
#[derive(Debug, Clone)]
struct GroupOf {
    entry: GroupEntry,
    /// Labels of workloads; empty: all.
    workloads: Vec<String>,
    /// Labels of policies; empty: all.
    policies: Vec<String>,
}

/// When a point of the matrix has iterations enough: `until = { ci = "1%" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Until {
    /// Largest half-width of the 95 % interval, in millionths of the mean (`"1%"` is 10000).
    pub ci_ppm: u32,
    /// Metric whose interval counts.
    pub metric: String,
    /// Fewest iterations.
    pub min: u32,
}

/// Rows of the table of published values, and what they are compared with: one `[[compare]]`.
///
/// A row belongs to the policy whose label is the row's variant, and to all points of the workloads' grids whose axes
/// have the values that the row's parameter names; a row that names no axis (`all`) belongs to all points, and is
/// compared with the geometric mean of their ratios, or with the ratio of their means over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// Name of the table.
    pub table: String,
    /// Its rows of this machine only; empty: all.
    pub machine: String,
    /// Its rows of this benchmark only; empty: all.
    pub benchmark: String,
    /// Its rows of this metric only; empty: all.
    pub metric: String,
    /// Labels of the workloads.
    pub workloads: Vec<String>,
    /// Points count by the time that they take, as they do for a meter that looks on: by the metric `elapsed`, or all the
    /// same where a benchmark runs for a given time.
    pub over_time: bool,
    /// Metrics of the results, whose sum is compared.
    pub simulated: Vec<String>,
    /// Label of a policy, and what the table calls it, where the names differ.
    pub variants: Vec<(String, String)>,
    /// Whether the benchmark's constants were fitted to the baseline's values of this table.
    pub calibration: bool,
}

#[derive(Debug, Clone)]
struct PolicyEntry {
    policy: Policy,
    at: Pos,
}

#[derive(Debug, Clone)]
struct WorkloadEntry {
    label: String,
    at: Pos,
    duration_ns: Option<u64>,
    /// Its own number of iterations.
    runs: Option<u32>,
    quick: Vec<String>,
    calibration: Option<(String, Pos)>,
    warmup_ns: Option<u64>,
    /// Class of all its programs that have none of their own, and where it is named.
    class: Option<(String, Pos)>,
    form: Form,
}

/// A free constant of a workload's benchmark model, which the experiment's file does not set itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant<'a> {
    /// The workload's label.
    pub label: &'a str,
    /// Its model.
    pub benchmark: &'static str,
    /// The parameter.
    pub name: &'static str,
    /// Its value, the model's own or that of the calibration.
    pub value: u64,
    /// The calibration that the workload names, whether it has this constant or not.
    pub calibration: Option<&'a str>,
}

#[derive(Debug, Clone)]
enum Form {
    Benchmark { benchmark: &'static Benchmark, params: Vec<Axis> },
    RtApp { path: String, path_at: Pos, options: ParseOptions },
}

/// A parameter and its values; an axis of the matrix if it was written as a list.
#[derive(Debug, Clone)]
struct Axis {
    name: &'static str,
    values: Vec<ParamValue>,
    is_axis: bool,
    /// Whether the experiment's file sets it, so that no calibration may.
    is_written: bool,
}

const EXPERIMENT_KEYS: &[&str] = &[
    "format",
    "name",
    "about",
    "published",
    "machine",
    "power",
    "background",
    "seed",
    "iterations",
    "until",
    "baseline",
    "duration",
    "warmup",
    "defaults",
    "policy",
    "workload",
    "group",
    "compare",
    "finding",
    "notes",
];

/// Reads an experiment file. `file` is its name for messages.
///
/// # Errors
/// The first thing that is wrong, with its place and the nearest valid name.
pub fn parse_experiment(file: &str, text: &str) -> Result<Experiment, ModelError> {
    parse_toml(text).and_then(|root| experiment_from(file, &root)).map_err(|fault| fault.in_file(file))
}

/// Reads a policy that stands alone: TOML with the keys of `[[policy]]`.
///
/// # Errors
/// The first thing that is wrong, with its place and the nearest valid name.
pub fn parse_policy(file: &str, text: &str) -> Result<Policy, ModelError> {
    parse_toml(text).and_then(|root| policy_from(&root, &Policy::of_files())).map_err(|fault| fault.in_file(file))
}

/// A policy as one line of JSON, which [`policy_from_json`] reads.
pub fn policy_to_json(policy: &Policy) -> String {
    to_json(&policy_node(policy))
}

/// Reads a policy that stands alone as JSON.
///
/// # Errors
/// As [`parse_policy`].
pub fn policy_from_json(file: &str, text: &str) -> Result<Policy, ModelError> {
    parse_json(text).and_then(|root| policy_from(&root, &Policy::default())).map_err(|fault| fault.in_file(file))
}

/// Reads a duration such as `10s`, `250ms` or `2min`, in ns.
///
/// # Errors
/// What is wrong with it, at `at`.
pub fn parse_duration(text: &str, at: Pos) -> Result<u64, Fault> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[split..].trim_start();
    let bad = |why: &str| Fault::new(at, format!("`{}` is no duration: {why}", shorten(text)));
    let form = || match whole_duration(text, &UNITS) {
        Some(whole) => bad(&format!("fractions are not accepted: write it like `{whole}`")),
        None => bad("write it like `10s` or `250ms`"),
    };
    let number: u64 = text[..split].parse().map_err(|_| form())?;
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
    let ns = number.checked_mul(*factor).filter(|&ns| i128::from(ns) <= TIME_NS_MAX).ok_or_else(|| bad("too long"))?;
    if ns == 0 { Err(bad("it must be longer than nothing")) } else { Ok(ns) }
}

/// A duration with a fraction, such as `0.2s`, as one without: `200ms`.
fn whole_duration(text: &str, units: &[(&str, u64)]) -> Option<String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let unit = text[split..].trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = text[..split].split_once('.')?;
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(u128::from(*factor))? / scale;
    let ns = whole.checked_mul(u128::from(*factor))?.checked_add(part)?;
    let (name, factor) = units.iter().rev().find(|(_, factor)| ns > 0 && ns % u128::from(*factor) == 0)?;
    Some(format!("{}{name}", ns / u128::from(*factor)))
}

fn duration_from(table: &Table<'_>) -> Result<Option<u64>, Fault> {
    table.get("duration").map(|node| parse_duration(node.as_str("duration")?, node.at)).transpose()
}

/// `warmup`, a duration or `"none"`.
fn warmup_from(table: &Table<'_>) -> Result<Option<u64>, Fault> {
    let Some(node) = table.get("warmup") else { return Ok(None) };
    let text = node.as_str("warmup")?;
    if text == "none" { Ok(Some(0)) } else { parse_duration(text, node.at).map(Some) }
}

/// Reads a share such as `1%` or `0.25%`, in millionths.
///
/// # Errors
/// What is wrong with it, at `at`.
pub fn parse_percent(text: &str, at: Pos) -> Result<u32, Fault> {
    let bad = || Fault::new(at, format!("`{}` is no share: write it like `1%` or `0.25%`", shorten(text)));
    let number = text.trim().strip_suffix('%').ok_or_else(bad)?.trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || part.len() > 4 || !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let ppm: u32 = format!("{whole}{part:0<4}").parse().map_err(|_| bad())?;
    if ppm == 0 || ppm > 1_000_000 { Err(bad()) } else { Ok(ppm) }
}

fn until_from(node: &Node) -> Result<Until, Fault> {
    let table = node.as_table("until", &["ci", "metric", "min"])?;
    let ci = table.need("ci")?;
    let metric = match table.str_or_empty("metric")? {
        "" => "energy",
        metric => metric,
    };
    Ok(Until {
        ci_ppm: parse_percent(ci.as_str("ci")?, ci.at)?,
        metric: metric.to_owned(),
        // Fewer, and an interval is too often narrow by chance (tools/until_coverage.py).
        min: table.int_or("min", 5, 2, 1_000_000)?,
    })
}

fn experiment_from(file: &str, root: &Node) -> Result<Experiment, Fault> {
    let table = root.as_table("experiment", EXPERIMENT_KEYS)?;
    check_format(&table)?;
    let machine_node = table.need("machine")?;
    let machines = match &machine_node.value {
        Value::List(items) => items
            .iter()
            .map(|item| Ok((item.as_str("machine")?.to_owned(), item.at)))
            .collect::<Result<Vec<_>, Fault>>()?,
        _ => vec![(machine_node.as_str("machine")?.to_owned(), machine_node.at)],
    };
    if machines.is_empty() {
        return Err(Fault::new(machine_node.at, "`machine` is empty"));
    }
    let generic_power = match table.get("power") {
        None => false,
        Some(node) if node.as_str("power")? == "generic" => true,
        Some(node) => return Err(Fault::unknown(node.at, "power", node.as_str("power")?, ["generic"])),
    };
    let mut base = Policy::of_files();
    let mut changes = None;
    if let Some(node) = table.get("defaults") {
        changes = node.as_table("defaults", &POLICY_KEY_NAMES[1..])?.get("changes");
        base = policy_from(node, &base)?;
        // A change is one of each policy: what it does not set is the policy's own.
        base.changes = Vec::new();
    }
    let policy_nodes = table.need("policy").map_err(|_| Fault::new(table.at, "there is no `[[policy]]`"))?;
    let mut policies: Vec<PolicyEntry> = Vec::new();
    for node in policy_nodes.as_list("policy")? {
        let mut policy = policy_from(node, &base)?;
        let entry = node.as_table("policy", POLICY_KEY_NAMES)?;
        if let (Some(changes), None) = (changes, entry.get("changes")) {
            policy.changes = changes_from(changes, &policy)?;
        }
        entry.need_str("label")?;
        if policies.iter().any(|earlier| earlier.policy.label == policy.label) {
            return Err(Fault::new(node.at, format!("two policies are called `{}`", shorten(&policy.label))));
        }
        policies.push(PolicyEntry { policy, at: entry.get("driver").map_or(node.at, |node| node.at) });
    }
    let workload_nodes = table.need("workload").map_err(|_| Fault::new(table.at, "there is no `[[workload]]`"))?;
    let workloads =
        workload_nodes.as_list("workload")?.iter().map(workload_entry_from).collect::<Result<Vec<_>, _>>()?;
    if policies.is_empty() || workloads.is_empty() {
        return Err(Fault::new(table.at, "there are no policies or no workloads, so there is nothing to run"));
    }
    let labels: Vec<String> = policies.iter().map(|entry| entry.policy.label.clone()).collect();
    let baseline = table.str_or_empty("baseline")?.to_owned();
    if !baseline.is_empty() && !labels.contains(&baseline) {
        let at = table.get("baseline").map_or(table.at, |node| node.at);
        return Err(Fault::unknown(at, "policy", &baseline, labels.iter().map(String::as_str)));
    }
    let groups = match table.get("group") {
        Some(node) => node
            .as_list("group")?
            .iter()
            .map(|node| group_from(node, &workloads, &labels))
            .collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let compare = match table.get("compare") {
        Some(node) => node
            .as_list("compare")?
            .iter()
            .map(|node| compare_from(node, &workloads, &labels))
            .collect::<Result<Vec<_>, _>>()?,
        None => Vec::new(),
    };
    let notes = match table.get("notes") {
        Some(node) => {
            let list = node.as_list("notes")?.iter();
            list.map(|node| Ok(node.as_str("notes")?.to_owned())).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let iterations: u32 = table.int_or("iterations", 1, 1, 1_000_000)?;
    Ok(Experiment {
        name: table.need_str("name")?.to_owned(),
        about: table.str_or_empty("about")?.to_owned(),
        published: table.str_or_empty("published")?.to_owned(),
        baseline,
        // Iterations count up from it.
        seed: table.int_or("seed", 1, 0, i128::from(u64::MAX >> 1))?,
        iterations,
        until: table.get("until").map(until_from).transpose()?,
        labels,
        compare,
        finding: table.str_or_empty("finding")?.to_owned(),
        notes,
        quick: workloads
            .iter()
            .flat_map(|entry| entry.quick.iter().map(|param| (entry.label.clone(), param.clone())))
            .collect(),
        file: file.to_owned(),
        at: table.get("iterations").map_or(table.at, |node| node.at),
        machines,
        background: table.str_or_empty("background")?.to_owned(),
        beside: Background::default(),
        generic_power,
        policies,
        workloads,
        groups,
        duration_ns: duration_from(&table)?,
        warmup_ns: warmup_from(&table)?,
    })
}

const CALIBRATION_KEYS: &[&str] = &["format", "benchmark", "machine", "values", "fit"];

/// The values of a calibration file, which must be of that benchmark.
fn calibration_from(root: &Node, benchmark: &Benchmark) -> Result<Vec<(String, ParamValue)>, Fault> {
    let table = root.as_table("calibration", CALIBRATION_KEYS)?;
    check_format(&table)?;
    let name = table.need("benchmark")?;
    if name.as_str("benchmark")? != benchmark.name {
        let message = format!("the calibration is not of benchmark `{}`", benchmark.name);
        return Err(Fault::new(name.at, message));
    }
    let values = table.need("values")?;
    let Value::Table(entries) = &values.value else {
        return Err(Fault::new(values.at, format!("`values` must be a table, not {}", values.value.kind())));
    };
    entries
        .iter()
        .map(|(key, node)| {
            let known = benchmark.params.iter().find(|param| param.name == key.name);
            let param = known.ok_or_else(|| {
                Fault::unknown(key.at, "parameter", &key.name, benchmark.params.iter().map(|param| param.name))
            })?;
            Ok((key.name.clone(), value_from(node, param.name, param.kind)?))
        })
        .collect()
}

fn group_from(node: &Node, workloads: &[WorkloadEntry], labels: &[String]) -> Result<GroupOf, Fault> {
    let entry = GroupEntry::from_node(node, &["workloads", "policies"])?;
    let named = |key: &str, what: &str, known: &[&str]| -> Result<Vec<String>, Fault> {
        let Value::Table(entries) = &node.value else { return Ok(Vec::new()) };
        let Some((_, node)) = entries.iter().find(|(name, _)| name.name == key) else { return Ok(Vec::new()) };
        let words = words_from(node, key)?;
        match words.iter().find(|word| !known.contains(&word.as_str())) {
            Some(word) => Err(Fault::unknown(node.at, what, word, known.iter().copied())),
            None => Ok(words),
        }
    };
    let workloads: Vec<&str> = workloads.iter().map(|entry| entry.label.as_str()).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    Ok(GroupOf {
        entry,
        workloads: named("workloads", "workload", &workloads)?,
        policies: named("policies", "policy", &labels)?,
    })
}

const COMPARE_KEYS: &[&str] =
    &["table", "machine", "benchmark", "metric", "workload", "over_time", "simulated", "variants", "calibration"];

fn compare_from(node: &Node, workloads: &[WorkloadEntry], labels: &[String]) -> Result<Compare, Fault> {
    let table = node.as_table("compare", COMPARE_KEYS)?;
    let node = table.need("workload")?;
    let compared = words_from(node, "workload")?;
    if let Some(label) = compared.iter().find(|&label| workloads.iter().all(|entry| entry.label != *label)) {
        let known = workloads.iter().map(|entry| entry.label.as_str());
        return Err(Fault::unknown(node.at, "workload", label, known));
    }
    let mut variants = Vec::new();
    if let Some(node) = table.get("variants") {
        let Value::Table(entries) = &node.value else {
            return Err(Fault::new(node.at, format!("`variants` must be a table, not {}", node.value.kind())));
        };
        for (key, node) in entries {
            if !labels.contains(&key.name) {
                return Err(Fault::unknown(key.at, "policy", &key.name, labels.iter().map(String::as_str)));
            }
            variants.push((key.name.clone(), node.as_str(&key.name)?.to_owned()));
        }
    }
    Ok(Compare {
        table: table.need_str("table")?.to_owned(),
        machine: table.str_or_empty("machine")?.to_owned(),
        benchmark: table.str_or_empty("benchmark")?.to_owned(),
        metric: table.str_or_empty("metric")?.to_owned(),
        workloads: compared,
        over_time: table.bool_or("over_time", false)?,
        simulated: words_from(table.need("simulated")?, "simulated")?,
        variants,
        calibration: table.bool_or("calibration", false)?,
    })
}

/// One word or a list of them, at least one.
fn words_from(node: &Node, what: &str) -> Result<Vec<String>, Fault> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        return Err(Fault::new(node.at, format!("`{what}` is an empty list")));
    }
    items.iter().map(|item| item.as_str(what).map(str::to_owned)).collect()
}

/// `quick = ["clients=1", ...]` names the parameters that stand for all, `quick = true` takes all of them.
fn quick_from(table: &Table<'_>) -> Result<Vec<String>, Fault> {
    match table.get("quick") {
        None => Ok(Vec::new()),
        Some(node) => match node.value {
            Value::Bool(all) => Ok(if all { vec![String::new()] } else { Vec::new() }),
            _ => words_from(node, "quick"),
        },
    }
}

fn workload_entry_from(node: &Node) -> Result<WorkloadEntry, Fault> {
    let Value::Table(entries) = &node.value else {
        return Err(Fault::new(node.at, format!("`workload` must be a table, not {}", node.value.kind())));
    };
    if entries.iter().any(|(key, _)| key.name == "rtapp") {
        let keys = &["label", "rtapp", "repeats", "suspend", "duration", "runs", "quick", "warmup", "class"];
        let table = node.as_table("workload", keys)?;
        let path = table.need_str("rtapp")?.to_owned();
        let stem = path.rsplit('/').next().unwrap_or(&path);
        let label = match table.str_or_empty("label")? {
            "" => stem.strip_suffix(".json").unwrap_or(stem).to_owned(),
            label => label.to_owned(),
        };
        let repeats = [("workgen", Repeats::Workgen), ("json-c", Repeats::JsonC)];
        let suspend = [("value", SuspendOn::Value), ("own-name", SuspendOn::OwnName)];
        return Ok(WorkloadEntry {
            label,
            at: node.at,
            duration_ns: duration_from(&table)?,
            runs: runs_from(&table)?,
            quick: quick_from(&table)?,
            calibration: None,
            warmup_ns: warmup_from(&table)?,
            class: class_from(&table)?,
            form: Form::RtApp {
                path,
                path_at: table.need("rtapp")?.at,
                options: ParseOptions {
                    repeats: table.choice("repeats", Some(Repeats::Workgen), &repeats)?,
                    suspend: table.choice("suspend", Some(SuspendOn::Value), &suspend)?,
                },
            },
        });
    }
    let name_node = entries
        .iter()
        .find(|(key, _)| key.name == "benchmark")
        .map(|(_, node)| node)
        .ok_or_else(|| Fault::new(node.at, "the workload has neither `benchmark` nor `rtapp`"))?;
    let name = name_node.as_str("benchmark")?;
    let benchmark = benchmark(name).ok_or_else(|| {
        Fault::unknown(name_node.at, "benchmark", name, BENCHMARKS.iter().map(|benchmark| benchmark.name))
    })?;
    let keys: Vec<&str> = ["label", "benchmark", "duration", "runs", "quick", "calibration", "warmup", "class"]
        .into_iter()
        .chain(benchmark.params.iter().map(|param| param.name))
        .collect();
    let table = node.as_table("workload", &keys)?;
    let mut params = Vec::new();
    for param in benchmark.params {
        let (values, is_axis) = match table.get(param.name) {
            Some(node) => axis_from(node, param.name, param.kind)?,
            None => {
                let missing = || Fault::new(node.at, format!("`{}` ({}) is missing", param.name, param.about));
                (vec![param.default_value().ok_or_else(missing)?], false)
            }
        };
        params.push(Axis { name: param.name, values, is_axis, is_written: table.get(param.name).is_some() });
    }
    // Axes vary in the order of the file, the last one fastest.
    let place = |axis: &Axis| entries.iter().position(|(key, _)| key.name == axis.name);
    params.sort_by_key(|axis| place(axis).unwrap_or(usize::MAX));
    Ok(WorkloadEntry {
        label: match table.str_or_empty("label")? {
            "" => benchmark.name.to_owned(),
            label => label.to_owned(),
        },
        at: node.at,
        duration_ns: duration_from(&table)?,
        runs: runs_from(&table)?,
        quick: quick_from(&table)?,
        calibration: match table.get("calibration") {
            Some(node) => Some((node.as_str("calibration")?.to_owned(), node.at)),
            None => None,
        },
        warmup_ns: warmup_from(&table)?,
        class: class_from(&table)?,
        form: Form::Benchmark { benchmark, params },
    })
}

/// `runs`: how many iterations a workload has in place of the experiment's (`iterations` is a parameter of hackbench).
fn runs_from(table: &Table<'_>) -> Result<Option<u32>, Fault> {
    table.get("runs").map(|node| node.as_int("runs", 1, 1_000_000)).transpose()
}

/// The class of programs that a workload names.
fn class_from(table: &Table<'_>) -> Result<Option<(String, Pos)>, Fault> {
    table.get("class").map(|node| Ok((node.as_str("class")?.to_owned(), node.at))).transpose()
}

/// The values of a parameter, and whether they are an axis.
fn axis_from(node: &Node, name: &str, kind: ParamKind) -> Result<(Vec<ParamValue>, bool), Fault> {
    let Value::List(items) = &node.value else { return Ok((vec![value_from(node, name, kind)?], false)) };
    if items.is_empty() {
        return Err(Fault::new(node.at, format!("`{name}` is an empty list")));
    }
    let is_list = |item: &Node| matches!(item.value, Value::List(_));
    if matches!(kind, ParamKind::Ints { .. }) && !items.iter().any(is_list) {
        return Ok((vec![value_from(node, name, kind)?], false));
    }
    let values = items.iter().map(|item| value_from(item, name, kind)).collect::<Result<Vec<_>, _>>()?;
    Ok((values, true))
}

fn value_from(node: &Node, name: &str, kind: ParamKind) -> Result<ParamValue, Fault> {
    match kind {
        ParamKind::Int { min, max } => Ok(ParamValue::Int(node.as_int(name, min.into(), max.into())?)),
        ParamKind::Ints { min, max } => {
            let items = match &node.value {
                Value::List(items) => items.as_slice(),
                _ => std::slice::from_ref(node),
            };
            if items.is_empty() {
                return Err(Fault::new(node.at, format!("`{name}` is an empty list")));
            }
            let values =
                items.iter().map(|item| item.as_int(name, min.into(), max.into())).collect::<Result<_, _>>()?;
            Ok(ParamValue::Ints(values))
        }
        ParamKind::Word(words) => {
            let word = node.as_str(name)?;
            if words.contains(&word) {
                Ok(ParamValue::Word(word.to_owned()))
            } else {
                Err(Fault::unknown(node.at, name, word, words.iter().copied()))
            }
        }
    }
}

fn value_text(value: &ParamValue) -> String {
    match value {
        ParamValue::Int(value) => value.to_string(),
        ParamValue::Ints(values) => values.iter().map(u64::to_string).collect::<Vec<_>>().join("|"),
        ParamValue::Word(word) => word.clone(),
    }
}

/// All points of the grid: the parameters, and the label that names the axes.
fn grid(params: &[Axis]) -> Vec<(Params, String)> {
    let mut points: Vec<(Params, Vec<String>)> = vec![(Params::default(), Vec::new())];
    for axis in params {
        points = points
            .into_iter()
            .flat_map(|(params, labels)| {
                axis.values.iter().map(move |value| {
                    let mut point = (params.clone(), labels.clone());
                    point.0.0.push((axis.name.to_owned(), value.clone()));
                    if axis.is_axis {
                        point.1.push(format!("{}={}", axis.name, value_text(value)));
                    }
                    point
                })
            })
            .collect();
    }
    points.into_iter().map(|(params, labels)| (params, labels.join(" "))).collect()
}

impl Experiment {
    /// Names of the machines whose files are needed.
    pub fn machines(&self) -> impl Iterator<Item = &str> {
        self.machines.iter().map(|(name, _)| name.as_str())
    }

    /// Paths of the rt-app files that are needed, as written (relative to the experiment's own folder).
    pub fn rtapp_files(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().filter_map(|entry| match &entry.form {
            Form::RtApp { path, .. } => Some(path.as_str()),
            Form::Benchmark { .. } => None,
        })
    }

    /// Replaces the number of iterations, the first seed and the duration, where given. Another number of iterations than the
    /// file's is that of all workloads.
    pub fn adjust(&mut self, iterations: Option<u32>, seed: Option<u64>, duration_ns: Option<u64>) {
        if let Some(iterations) = iterations.filter(|&number| number != self.iterations) {
            self.iterations = iterations.max(1);
            for workload in &mut self.workloads {
                workload.runs = None;
            }
        }
        self.seed = seed.unwrap_or(self.seed);
        if duration_ns.is_some() {
            self.duration_ns = duration_ns;
            for workload in &mut self.workloads {
                workload.duration_ns = None;
            }
        }
    }

    /// Names of the calibrations that are needed, e.g. `tbench@epyc-7742-2s`.
    pub fn calibrations(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().filter_map(|entry| entry.calibration.as_ref().map(|(name, _)| name.as_str()))
    }

    /// Takes over the constants that were fitted to a baseline, for every workload that names a calibration and every
    /// parameter that the experiment's file does not set itself; those of a disk not where the file names another.
    /// `sources` holds the texts of what [`Experiment::calibrations`] names.
    ///
    /// # Errors
    /// The first thing that is wrong in a calibration, or a calibration that is not there.
    pub fn calibrate(&mut self, sources: &BTreeMap<String, SourceText>) -> Result<(), ModelError> {
        for entry in &mut self.workloads {
            let (Some((name, at)), Form::Benchmark { benchmark, params }) = (&entry.calibration, &mut entry.form)
            else {
                continue;
            };
            let source = sources.get(name).ok_or_else(|| {
                Fault::unknown(*at, "calibration", name, sources.keys().map(String::as_str)).in_file(&self.file)
            })?;
            let values = parse_toml(&source.text)
                .and_then(|root| calibration_from(&root, benchmark))
                .map_err(|fault| fault.in_file(&source.file))?;
            let names_disk = params.iter().any(|axis| axis.name == "disk" && axis.is_written);
            for (name, value) in values {
                if names_disk && name.starts_with("disk") {
                    continue;
                }
                if let Some(axis) = params.iter_mut().find(|axis| axis.name == name && !axis.is_written) {
                    axis.values = vec![value];
                }
            }
        }
        Ok(())
    }

    /// The free constants of all workloads, see [`Param::is_calibrated`](crate::benchmark::Param::is_calibrated).
    pub fn constants(&self) -> Vec<Constant<'_>> {
        let mut found = Vec::new();
        for entry in &self.workloads {
            let Form::Benchmark { benchmark, params } = &entry.form else { continue };
            let is_free = |name: &str| benchmark.params.iter().any(|param| param.name == name && param.is_calibrated);
            for axis in params.iter().filter(|axis| !axis.is_written && is_free(axis.name)) {
                if let [ParamValue::Int(value)] = axis.values[..] {
                    let calibration = entry.calibration.as_ref().map(|(name, _)| name.as_str());
                    found.push(Constant {
                        label: &entry.label,
                        benchmark: benchmark.name,
                        name: axis.name,
                        value,
                        calibration,
                    });
                }
            }
        }
        found
    }

    /// The workloads that write to the machine's own disk, whose flush neither the file nor a calibration gives.
    pub fn on_own_disk(&self) -> impl Iterator<Item = &str> {
        let is_default = |value: &ParamValue| match value {
            ParamValue::Int(number) => *number == 0,
            ParamValue::Word(word) => word == "machine",
            ParamValue::Ints(_) => false,
        };
        let at_default = move |params: &[Axis], name: &str| {
            params.iter().any(|axis| axis.name == name && axis.values.iter().all(is_default))
        };
        self.workloads.iter().filter_map(move |entry| match &entry.form {
            Form::Benchmark { params, .. } if at_default(params, "disk") && at_default(params, "disk_flush_us") => {
                Some(entry.label.as_str())
            }
            _ => None,
        })
    }

    /// Sets a whole number of the workload `label`, whatever the file or its calibration set; for fitting.
    ///
    /// # Errors
    /// That there is no such workload, or its benchmark has no such number, in words.
    pub fn set_param(&mut self, label: &str, name: &str, value: u64) -> Result<(), String> {
        let entry = self.workloads.iter_mut().find(|entry| entry.label == label);
        match entry.map(|entry| &mut entry.form) {
            Some(Form::Benchmark { benchmark, params }) => {
                let param = benchmark.params.iter().find(|param| param.name == name);
                let axis = params.iter_mut().find(|axis| axis.name == name);
                match (param.map(|param| param.kind), axis) {
                    (Some(ParamKind::Int { min, max }), Some(axis)) => {
                        axis.values = vec![ParamValue::Int(value.clamp(min, max))];
                        Ok(())
                    }
                    _ => Err(format!("benchmark {} has no whole number `{}`", benchmark.name, shorten(name))),
                }
            }
            _ => Err(format!("there is no benchmark labelled `{}`", shorten(label))),
        }
    }

    /// The cases, in the order workload, parameters, machine, policy, iteration. `machines` and `rtapp_files` hold the
    /// texts of what [`Experiment::machines`] and [`Experiment::rtapp_files`] name.
    ///
    /// # Errors
    /// The first thing that is wrong in any of the files, or does not fit together.
    pub fn expand(
        &self,
        machines: &BTreeMap<String, SourceText>,
        rtapp_files: &BTreeMap<String, SourceText>,
    ) -> Result<Vec<CaseFile>, ModelError> {
        let here = |fault: Fault| fault.in_file(&self.file);
        let mut parsed: Vec<Machine> = Vec::new();
        for (name, at) in &self.machines {
            let source = machines
                .get(name)
                .ok_or_else(|| here(Fault::unknown(*at, "machine", name, machines.keys().map(String::as_str))))?;
            let machine = parse_machine(&source.file, &source.text)?;
            for entry in &self.policies {
                entry.policy.check_on(&machine, entry.at).map_err(here)?;
            }
            parsed.push(machine);
        }
        let nr_cases = self.nr_cases();
        if nr_cases > NR_CASES_MAX {
            let message = format!("{nr_cases} cases; at most {NR_CASES_MAX} are expanded");
            return Err(here(Fault::new(self.at, message)));
        }
        let parsed: Vec<Arc<Machine>> = parsed.into_iter().map(Arc::new).collect();
        let mut cases = Cases::default();
        for workload in &self.workloads {
            let points = match &workload.form {
                Form::Benchmark { params, .. } => grid(params),
                Form::RtApp { .. } => vec![(Params::default(), String::new())],
            };
            for (params, param) in &points {
                for machine in &parsed {
                    self.expand_point(workload, params, param, machine, rtapp_files, &mut cases)?;
                }
            }
        }
        Ok(cases.list)
    }

    /// How many cases there are: workloads at all points of their grids, policies, machines, iterations.
    fn nr_cases(&self) -> u64 {
        let runs = |entry: &WorkloadEntry| {
            let axes: &[Axis] = match &entry.form {
                Form::Benchmark { params, .. } => params,
                Form::RtApp { .. } => &[],
            };
            let each = self.iterations_of(entry).into();
            axes.iter().fold(each, |size: u64, axis| size.saturating_mul(axis.values.len() as u64))
        };
        let runs = self.workloads.iter().map(runs).fold(0u64, u64::saturating_add);
        runs.saturating_mul(self.policies.len() as u64).saturating_mul(self.machines.len() as u64)
    }

    /// How many iterations a workload has.
    fn iterations_of(&self, entry: &WorkloadEntry) -> u32 {
        entry.runs.unwrap_or(self.iterations)
    }

    /// The cases of one workload on one machine. Each iteration's workload is built once for all policies, or once for those that
    /// have as many CPUs online where it has a task for each.
    fn expand_point(
        &self,
        entry: &WorkloadEntry,
        params: &Params,
        param: &str,
        machine: &Arc<Machine>,
        rtapp_files: &BTreeMap<String, SourceText>,
        cases: &mut Cases,
    ) -> Result<(), ModelError> {
        let here = |fault: Fault| fault.in_file(&self.file);
        let mut built: Vec<(Params, Vec<Arc<Workload>>)> = Vec::new();
        for policy in &self.policies {
            let is_online = |&cpu: &u32| policy.policy.is_online(machine, cpu);
            let nr_online = || (0..machine.nr_cpus() as u32).filter(is_online).count();
            let own = match &entry.form {
                Form::Benchmark { benchmark, .. } => benchmark.on_online(params.clone(), nr_online),
                Form::RtApp { .. } => Params::default(),
            };
            let index = match built.iter().position(|(known, _)| *known == own) {
                Some(index) => index,
                None => {
                    let workloads = self.build_iterations(entry, &own, machine, rtapp_files, &mut cases.bytes)?;
                    built.push((own, workloads));
                    built.len() - 1
                }
            };
            for (iteration, workload) in (0..).zip(&built[index].1) {
                let mut workload = self.with_groups(entry, &policy.policy.label, machine, workload)?;
                let online = |cpu: u32| policy.policy.is_online(machine, cpu);
                if let Some(moved) = moved_off_offline(&workload, machine, online) {
                    workload = Arc::new(moved);
                }
                let duration_ns = entry.duration_ns.or(self.duration_ns).or(workload.duration_ns).ok_or_else(|| {
                    here(Fault::new(entry.at, "neither the experiment nor the workload has a `duration`"))
                })?;
                if let Some(message) = workload.ends_in_warmup(duration_ns) {
                    return Err(here(Fault::new(entry.at, message)));
                }
                cases.list.push(CaseFile {
                    experiment: self.name.clone(),
                    benchmark: entry.label.clone(),
                    param: param.to_owned(),
                    iteration,
                    seed: self.seed.wrapping_add(iteration.into()),
                    duration_ns,
                    machine: Arc::clone(machine),
                    workload,
                    policy: policy.policy.clone(),
                    start: Start::default(),
                });
            }
        }
        Ok(())
    }

    /// The workloads of all iterations, without groups; what they take of memory is added to `bytes`.
    fn build_iterations(
        &self,
        entry: &WorkloadEntry,
        params: &Params,
        machine: &Machine,
        rtapp_files: &BTreeMap<String, SourceText>,
        bytes: &mut u64,
    ) -> Result<Vec<Arc<Workload>>, ModelError> {
        let mut workloads = Vec::new();
        for iteration in 0..self.iterations_of(entry) {
            let seed = self.seed.wrapping_add(iteration.into());
            let mut workload = self.build(entry, params, machine, rtapp_files, seed)?;
            self.beside.add_to(&mut workload, machine, seed);
            *bytes = bytes.saturating_add(bytes_of(&workload, self.policies.len()));
            if *bytes > CASES_BYTES_MAX {
                let message = format!(
                    "the programs of its {} cases take more than {} MiB: give fewer iterations or smaller workloads",
                    self.nr_cases(),
                    CASES_BYTES_MAX >> 20
                );
                return Err(Fault::new(self.at, message).in_file(&self.file));
            }
            workloads.push(Arc::new(workload));
        }
        Ok(workloads)
    }

    /// The workload with the groups that this policy's runs of it have.
    fn with_groups(
        &self,
        entry: &WorkloadEntry,
        label: &str,
        machine: &Machine,
        workload: &Arc<Workload>,
    ) -> Result<Arc<Workload>, ModelError> {
        let is_for = |list: &[String], label: &str| list.is_empty() || list.iter().any(|word| word == label);
        let mine =
            self.groups.iter().filter(|group| is_for(&group.workloads, &entry.label) && is_for(&group.policies, label));
        let entries: Vec<GroupEntry> = mine.map(|group| group.entry.clone()).collect();
        if entries.is_empty() {
            return Ok(Arc::clone(workload));
        }
        let mut workload = Workload::clone(workload);
        workload.add_groups(&entries, &[]).map_err(|fault| fault.in_file(&self.file))?;
        if let Err(why) = workload.check(machine.nr_cpus()) {
            return Err(Fault::new(entries[0].at, why).in_file(&self.file));
        }
        Ok(Arc::new(workload))
    }

    fn build(
        &self,
        entry: &WorkloadEntry,
        params: &Params,
        machine: &Machine,
        rtapp_files: &BTreeMap<String, SourceText>,
        seed: u64,
    ) -> Result<Workload, ModelError> {
        let here = |at: Pos, message: String| Fault::new(at, message).in_file(&self.file);
        let mut workload = match &entry.form {
            Form::Benchmark { benchmark, .. } => {
                (benchmark.build)(params, machine, seed).map_err(|why| here(entry.at, why))?
            }
            Form::RtApp { path, path_at, options } => {
                let source = rtapp_files
                    .get(path)
                    .ok_or_else(|| here(*path_at, format!("there is no file `{}`", shorten(path))))?;
                let capacities = capacities(machine);
                let compile = CompileOptions { name: &entry.label, machine: &machine.name, capacities: &capacities };
                crate::rtapp::load(&source.file, &source.text, *options, &compile)?
            }
        };
        if let Some(warmup_ns) = entry.warmup_ns.or(self.warmup_ns) {
            // A benchmark that is measured from its start has none, whatever the experiment sets for all.
            let whole = workload.metric.as_ref().is_some_and(|metric| metric.rule.is_of_a_whole());
            if whole && warmup_ns > 0 && entry.warmup_ns.is_some() {
                return Err(here(entry.at, format!("`warmup`: {} is measured from the start of its run", entry.label)));
            }
            workload.warmup_ns = if whole { 0 } else { warmup_ns };
        }
        if let Some((class, at)) = &entry.class {
            if !machine.program_classes.iter().any(|known| known.name == *class) {
                let what = format!("program class of machine {}", machine.name);
                let names = machine.program_classes.iter().map(|known| known.name.as_str());
                return Err(Fault::unknown(*at, &what, class, names).in_file(&self.file));
            }
            for task in workload.tasks.iter_mut().filter(|task| task.class.is_empty()) {
                task.class.clone_from(class);
            }
        }
        if let Err(why) = workload.check(machine.nr_cpus()) {
            panic!("{} made a workload that is wrong: {why}", entry.label);
        }
        Ok(workload)
    }
}

/// Cases, and what they take of memory.
#[derive(Default)]
struct Cases {
    list: Vec<CaseFile>,
    bytes: u64,
}

/// What a workload and its cases under so many policies take of memory, by its programs.
fn bytes_of(workload: &Workload, nr_policies: usize) -> u64 {
    let task = |task: &TaskSpec| size_of::<TaskSpec>() + size_of_val(task.ops.as_slice()) + SMALL_BYTES;
    let draws = workload.draws.iter().map(|draw| size_of_val(draw.as_slice()));
    let tasks: usize = workload.tasks.iter().map(task).chain(draws).sum();
    (tasks + nr_policies * (size_of::<CaseFile>() + SMALL_BYTES)) as u64
}

/// What each CPU of a machine does at its highest clock, boosted and alone, for [`CompileOptions`]: rt-app calibrates there.
pub fn capacities(machine: &Machine) -> Vec<u32> {
    let boosted = |cpu: u32| {
        let cluster = machine.cluster_of(cpu);
        let capacity = u64::from(cluster.capacity) * u64::from(cluster.highest_khz());
        (capacity / u64::from(cluster.reference_khz())) as u32
    };
    (0..machine.nr_cpus() as u32).map(boosted).collect()
}
