//! What a host reports about frequencies, idle states, energy and its scheduler, each value with the file that holds it.
//!
//! [`report`] reads; it changes nothing. Values that are the same on many CPUs or policies are one row. What is not
//! there is a row too, with the reason. Verdicts (frequency invariance, energy-aware scheduling) name what they rest on.

use std::fmt::Write as _;
use std::path::Path;

use opplab_import::check::{Finding, check};
use opplab_import::fmax::{FmaxInput, FmaxReport, fmax};
use opplab_import::{Facts, import, to_machine};
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_model::cpus::format_cpu_list;
use opplab_model::node_table;
use opplab_model::tree::to_json;

use crate::root::{CPU, Missing, Root};

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name of the file or of the fact.
    pub name: String,
    /// CPUs, policies or the like that have this value; empty for a value of the whole host.
    pub of: Vec<u32>,
    /// The value, or why there is none.
    pub value: Result<String, Missing>,
    /// The file that holds it; `{0-3}` in it stands for several.
    pub file: String,
}

/// Values of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What `of` counts: `cpu`, `policy`, or nothing.
    pub unit: &'static str,
    /// Its values.
    pub items: Vec<Item>,
    /// Printed instead of values, or beside them.
    pub note: Option<String>,
}

/// Whether something holds, what it rests on, and the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// `frequency invariance` or `energy-aware scheduling`.
    pub what: &'static str,
    /// Yes, no, or unknown from here.
    pub holds: Option<bool>,
    /// Each condition: whether it is met, in words, and the file.
    pub reasons: Vec<(Option<bool>, String, String)>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Values by subject.
    pub sections: Vec<Section>,
    /// Verdicts.
    pub verdicts: Vec<Verdict>,
    /// What the machine checks found.
    pub findings: Vec<Finding>,
}

/// Files of a policy that are shown, in order.
const POLICY_FILES: &[&str] = &[
    "related_cpus",
    "affected_cpus",
    "freqdomain_cpus",
    "scaling_driver",
    "scaling_governor",
    "scaling_available_governors",
    "scaling_min_freq",
    "scaling_max_freq",
    "scaling_cur_freq",
    "scaling_setspeed",
    "cpuinfo_min_freq",
    "cpuinfo_max_freq",
    "cpuinfo_avg_freq",
    "base_frequency",
    "bios_limit",
    "scaling_available_frequencies",
    "scaling_boost_frequencies",
    "boost",
    "cpb",
    "cpuinfo_transition_latency",
    "energy_performance_preference",
    "energy_performance_available_preferences",
    "amd_pstate_max_freq",
    "amd_pstate_lowest_nonlinear_freq",
    "amd_pstate_highest_perf",
    "amd_pstate_prefcore_ranking",
    "amd_pstate_hw_prefcore",
];

/// Files of a policy without which something is amiss.
const POLICY_MUST: &[&str] = &["scaling_driver", "scaling_governor", "cpuinfo_min_freq", "cpuinfo_max_freq"];

/// Governors whose tunables have a folder.
const TUNED: &[&str] = &["schedutil", "ondemand", "conservative", "interactive"];

const CPPC_FILES: &[&str] = &[
    "highest_perf",
    "guaranteed_perf",
    "nominal_perf",
    "lowest_nonlinear_perf",
    "lowest_perf",
    "reference_perf",
    "nominal_freq",
    "lowest_freq",
];

/// The value of files that give each its own number.
const OWN: &str = "(its own number)";

/// Where debugfs is.
const DEBUG: &str = "/sys/kernel/debug";

/// Rows of one file of many numbered folders, one a distinct value; `file` gives the path of a number.
fn grouped(root: &Root, name: &str, numbers: &[u32], file: impl Fn(&str) -> String, must: bool) -> Vec<Item> {
    let mut found: Vec<(Result<String, Missing>, Vec<u32>)> = Vec::new();
    for &number in numbers {
        let value = root.text(&file(&number.to_string()));
        if value == Err(Missing::NoFile) && !must {
            continue;
        }
        // A list of nothing but its own CPU would be a row of its own for each of hundreds of CPUs.
        let is_own = name.ends_with("cpus") && value == Ok(number.to_string());
        let value = if is_own { Ok(OWN.to_owned()) } else { value };
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, list)) => list.push(number),
            None => found.push((value, vec![number])),
        }
    }
    let item = |(value, of): (Result<String, Missing>, Vec<u32>)| {
        let list = if of.len() > 1 { format!("{{{}}}", format_cpu_list(&of)) } else { of[0].to_string() };
        let value = match value {
            Ok(own) if own == OWN && of.len() == 1 => Ok(of[0].to_string()),
            other => other,
        };
        Item { name: name.to_owned(), value: value.map(one_line), file: file(&list), of }
    };
    found.into_iter().map(item).collect()
}

fn one_line(text: String) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" | ")
}

fn single(root: &Root, name: &str, path: String) -> Item {
    Item { name: name.to_owned(), of: Vec::new(), value: root.text(&path).map(one_line), file: path }
}

/// The file if it is there.
fn optional(root: &Root, name: &str, path: String) -> Option<Item> {
    let item = single(root, name, path);
    (item.value != Err(Missing::NoFile)).then_some(item)
}

fn section(name: &'static str, unit: &'static str, items: Vec<Item>, if_none: &str) -> Section {
    let note = items.is_empty().then(|| if_none.to_owned());
    Section { name, unit, items, note }
}

fn system(root: &Root) -> Section {
    let mut items = vec![single(root, "kernel", "/proc/version".to_owned())];
    items.extend(model_name(root));
    for name in ["online", "present", "offline", "isolated", "nohz_full"] {
        let item = single(root, name, format!("{CPU}/{name}"));
        if item.value.is_ok() || name == "online" {
            items.push(item);
        }
    }
    items.extend(optional(root, "smt/active", format!("{CPU}/smt/active")));
    section("system", "", items, "")
}

/// The first value of `name` in /proc/cpuinfo.
pub(crate) fn cpuinfo(root: &Root, name: &str) -> Option<String> {
    let text = root.raw("/proc/cpuinfo").ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).next()
}

fn model_name(root: &Root) -> Option<Item> {
    let names = ["model name", "Hardware", "CPU part"];
    let (name, value) = names.iter().find_map(|name| Some((name, cpuinfo(root, name)?)))?;
    Some(Item { name: (*name).to_owned(), of: Vec::new(), value: Ok(value), file: "/proc/cpuinfo".to_owned() })
}

fn cpufreq(root: &Root) -> Section {
    let policies = root.policies();
    if policies.is_empty() {
        let note = if root.has(&format!("{CPU}/cpufreq")) {
            format!("no policy in {CPU}/cpufreq: no cpufreq driver is bound, as is normal in a virtual machine")
        } else {
            format!("no {CPU}/cpufreq: this kernel has no cpufreq, or nobody copied it")
        };
        return Section { name: "cpufreq", unit: "policy", items: Vec::new(), note: Some(note) };
    }
    let mut items = Vec::new();
    for name in POLICY_FILES {
        let file = |of: &str| format!("{CPU}/cpufreq/policy{of}/{name}");
        items.extend(grouped(root, name, &policies, file, POLICY_MUST.contains(name)));
    }
    for governor in TUNED {
        let global = format!("{CPU}/cpufreq/{governor}");
        for name in root.children(&global) {
            items.extend(optional(root, &format!("{governor}/{name}"), format!("{global}/{name}")));
        }
        let mut names: Vec<String> =
            policies.iter().flat_map(|id| root.children(&format!("{CPU}/cpufreq/policy{id}/{governor}"))).collect();
        names.sort();
        names.dedup();
        for name in names {
            let file = |of: &str| format!("{CPU}/cpufreq/policy{of}/{governor}/{name}");
            items.extend(grouped(root, &format!("{governor}/{name}"), &policies, file, false));
        }
    }
    section("cpufreq", "policy", items, "")
}

fn turbo(root: &Root) -> Section {
    let mut items = Vec::new();
    items.extend(optional(root, "boost", format!("{CPU}/cpufreq/boost")));
    for driver in ["intel_pstate", "amd_pstate"] {
        for name in root.children(&format!("{CPU}/{driver}")) {
            items.extend(optional(root, &format!("{driver}/{name}"), format!("{CPU}/{driver}/{name}")));
        }
    }
    section("turbo and pstate driver", "", items, "no cpufreq/boost, no intel_pstate, no amd_pstate in sysfs")
}

fn per_cpu(root: &Root, cpus: &[u32], folder: &str, names: &[&str]) -> Vec<Item> {
    let of_name = |name: &&str| {
        let file = |of: &str| format!("{CPU}/cpu{of}/{folder}{name}");
        grouped(root, name, cpus, file, false)
    };
    names.iter().flat_map(of_name).collect()
}

fn hardware(root: &Root, cpus: &[u32]) -> Vec<Section> {
    let capacity = per_cpu(root, cpus, "", &["cpu_capacity"]);
    let cppc = per_cpu(root, cpus, "acpi_cppc/", CPPC_FILES);
    let epb = per_cpu(root, cpus, "power/", &["energy_perf_bias"]);
    vec![
        section("capacity", "cpu", capacity, "no cpu_capacity: the kernel takes all CPUs for alike (1024)"),
        section("CPPC", "cpu", cppc, "no acpi_cppc: the firmware has no _CPC, or this is not ACPI"),
        section("energy/performance bias", "cpu", epb, "no energy_perf_bias"),
    ]
}

fn cpuidle(root: &Root, cpus: &[u32]) -> Section {
    let mut items = Vec::new();
    for name in ["current_driver", "current_governor", "current_governor_ro", "available_governors"] {
        items.extend(optional(root, name, format!("{CPU}/cpuidle/{name}")));
    }
    let states = cpus.iter().flat_map(|cpu| root.numbered(&format!("{CPU}/cpu{cpu}/cpuidle"), "state"));
    let most = states.max().map_or(0, |last| last + 1);
    for state in 0..most {
        for name in ["name", "desc", "latency", "residency", "power", "disable", "default_status"] {
            let file = |of: &str| format!("{CPU}/cpu{of}/cpuidle/state{state}/{name}");
            items.extend(grouped(root, &format!("state{state}/{name}"), cpus, file, false));
        }
    }
    let mut section = section("cpuidle", "cpu", items, "no cpuidle in sysfs");
    if most == 0 && section.note.is_none() {
        section.note = Some("no idle states: CPUs idle in the architecture's default way (HLT, WFI)".to_owned());
    }
    section
}

fn energy_model(root: &Root) -> Section {
    let folder = format!("{DEBUG}/energy_model");
    let mut items = Vec::new();
    for domain in root.children(&folder) {
        items.extend(optional(root, &format!("{domain}/cpus"), format!("{folder}/{domain}/cpus")));
        items.extend(optional(root, &format!("{domain}/flags"), format!("{folder}/{domain}/flags")));
        let states = root.children(&format!("{folder}/{domain}"));
        let mut table: Vec<(u64, u64, u64, u64)> = Vec::new();
        for state in states.iter().filter(|name| name.starts_with("ps:")) {
            let read = |name: &str| root.number(&format!("{folder}/{domain}/{state}/{name}")).unwrap_or(0);
            table.push((read("frequency"), read("power"), read("cost"), read("inefficient")));
        }
        table.sort_unstable();
        let row = |&(khz, power, cost, inefficient): &(u64, u64, u64, u64)| {
            let mark = if inefficient != 0 { " inefficient" } else { "" };
            format!("{khz} kHz {power} (cost {cost}){mark}")
        };
        if !table.is_empty() {
            items.push(Item {
                name: format!("{domain}/ps: frequency, power (uW, or abstract), cost"),
                of: Vec::new(),
                value: Ok(table.iter().map(row).collect::<Vec<_>>().join(" | ")),
                file: format!("{folder}/{domain}/ps:*"),
            });
        }
    }
    let why = if root.has(DEBUG) && !root.children(DEBUG).is_empty() {
        format!("no {folder}: the kernel has no energy model of these CPUs")
    } else {
        format!("{DEBUG} cannot be read (mount debugfs, be root), so the energy model is not known")
    };
    section("energy model", "", items, &why)
}

fn domains(root: &Root, cpus: &[u32]) -> Section {
    let folder = format!("{DEBUG}/sched/domains");
    let levels = cpus.iter().flat_map(|cpu| root.numbered(&format!("{folder}/cpu{cpu}"), "domain")).max();
    let mut items = Vec::new();
    for level in 0..levels.map_or(0, |last| last + 1) {
        for name in ["name", "flags"] {
            let file = |of: &str| format!("{folder}/cpu{of}/domain{level}/{name}");
            items.extend(grouped(root, &format!("domain{level}/{name}"), cpus, file, false));
        }
    }
    items.extend(optional(root, "sched_energy_aware", "/proc/sys/kernel/sched_energy_aware".to_owned()));
    let why = format!("no {folder} (mount debugfs, be root), so the flags of the scheduling domains are not known");
    section("scheduling domains", "cpu", items, &why)
}

fn power(root: &Root) -> Section {
    let mut items = Vec::new();
    let folder = "/sys/class/powercap";
    for zone in root.children(folder).iter().filter(|name| name.contains(':')) {
        items.extend(optional(root, &format!("{zone}/name"), format!("{folder}/{zone}/name")));
        for constraint in 0..3 {
            for what in ["name", "power_limit_uw", "time_window_us", "max_power_uw"] {
                let name = format!("constraint_{constraint}_{what}");
                items.extend(optional(root, &format!("{zone}/{name}"), format!("{folder}/{zone}/{name}")));
            }
        }
    }
    section("power limits", "", items, "no /sys/class/powercap zones: no RAPL limits to read")
}

/// What the import crate makes of the same source: facts, f_max report, findings; or why not.
fn imported(path: &Path) -> Result<(Facts, FmaxReport, Vec<Finding>), String> {
    let facts = import(path).map_err(|error| error.to_string())?;
    let machine = to_machine(&facts).map_err(|error| error.to_string())?;
    let report = fmax(&FmaxInput::of_facts(&facts, &machine), None);
    let findings = check(Some(&facts), &machine.machine, &report);
    Ok((facts, report, findings))
}

fn invariance(root: &Root, facts: Option<&(Facts, FmaxReport, Vec<Finding>)>) -> Verdict {
    let mut reasons = Vec::new();
    let flags = cpuinfo(root, "flags").unwrap_or_default();
    let is_x86 = cpuinfo(root, "vendor_id").is_some();
    let first = root.policies().first().copied().unwrap_or(0);
    let driver_file = format!("{CPU}/cpufreq/policy{first}/scaling_driver");
    let driver = root.text(&driver_file).unwrap_or_default();
    let holds;
    if is_x86 {
        let counters = flags.split_whitespace().any(|flag| flag == "aperfmperf");
        let words = if counters {
            "the CPU has APERF and MPERF"
        } else {
            "the CPU has no APERF and MPERF (no aperfmperf flag)"
        };
        reasons.push((Some(counters), words.to_owned(), "/proc/cpuinfo".to_owned()));
        let choice = facts.and_then(|(_, report, _)| report.kernels.last());
        match choice {
            Some(choice) if counters => {
                let words = format!("f_max, as kernel {} would find it: {}", choice.kernel, choice.why);
                reasons.push((Some(choice.ratio.is_some()), words, "opplab fmax".to_owned()));
                holds = Some(choice.ratio.is_some());
            }
            Some(_) => holds = Some(false),
            None => holds = if counters { None } else { Some(false) },
        }
    } else if root.raw("/proc/cpuinfo").unwrap_or_default().is_empty() && driver.is_empty() {
        reasons.push((
            None,
            "neither the processor nor a cpufreq driver is known".to_owned(),
            "/proc/cpuinfo".to_owned(),
        ));
        holds = None;
    } else {
        let words = match driver.as_str() {
            "" => "no cpufreq driver reports the frequency to the scheduler".to_owned(),
            _ => {
                format!(
                    "{driver} reports the frequency scale to the scheduler (arch_set_freq_scale(), or its counters)"
                )
            }
        };
        holds = Some(!driver.is_empty());
        reasons.push((holds, words, driver_file));
    }
    Verdict { what: "frequency invariance", holds, reasons }
}

/// The conditions of kernel/sched/topology.c:sched_is_eas_possible(), v6.12, as far as they can be seen from outside.
fn eas(root: &Root, cpus: &[u32], invariant: Option<bool>) -> Verdict {
    let mut reasons: Vec<(Option<bool>, String, String)> = Vec::new();
    let capacities: Vec<u64> =
        cpus.iter().filter_map(|cpu| root.number(&format!("{CPU}/cpu{cpu}/cpu_capacity"))).collect();
    let file = format!("{CPU}/cpu*/cpu_capacity");
    let asymmetric = capacities.windows(2).any(|pair| pair[0] != pair[1]);
    let words = match (capacities.is_empty(), asymmetric) {
        (true, _) => "no cpu_capacity: all CPUs count as alike",
        (_, true) => "CPUs differ in capacity",
        (_, false) => "all CPUs have the same capacity",
    };
    reasons.push((Some(asymmetric), words.to_owned(), file));
    let siblings = cpus.iter().filter_map(|cpu| root.cpus(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")));
    let smt = siblings.clone().any(|list| list.len() > 1);
    if siblings.count() > 0 {
        let words = if smt { "SMT is on" } else { "no SMT" };
        reasons.push((Some(!smt), words.to_owned(), format!("{CPU}/cpu*/topology/thread_siblings_list")));
    }
    let words = match invariant {
        Some(true) => "utilisation is frequency invariant",
        Some(false) => "utilisation is not frequency invariant",
        None => "whether utilisation is frequency invariant is not known",
    };
    reasons.push((invariant, words.to_owned(), "see above".to_owned()));
    let policies = root.policies();
    let file = format!("{CPU}/cpufreq/policy*/scaling_governor");
    let governors: Vec<String> = policies
        .iter()
        .filter_map(|id| root.text(&format!("{CPU}/cpufreq/policy{id}/scaling_governor")).ok())
        .collect();
    let other = governors.iter().find(|name| !GovernorId::named(name).is_ok_and(|governor| governor.energy_aware));
    let (met, words) = match (governors.is_empty(), other) {
        (true, _) => (false, "no cpufreq policy".to_owned()),
        (_, Some(other)) => (false, format!("a policy runs {other}, not schedutil")),
        _ => (true, "every policy runs schedutil".to_owned()),
    };
    reasons.push((Some(met), words, file));
    let folder = format!("{DEBUG}/energy_model");
    let domains = root.children(&folder);
    let (met, words) = if !domains.is_empty() {
        (Some(true), format!("{} performance domains have an energy model", domains.len()))
    } else if root.children(DEBUG).is_empty() {
        (None, "debugfs cannot be read, so the energy model is not known".to_owned())
    } else {
        (Some(false), "no energy model".to_owned())
    };
    reasons.push((met, words, folder));
    let file = "/proc/sys/kernel/sched_energy_aware";
    match root.text(file) {
        Ok(text) if text == "0" => reasons.push((Some(false), "switched off by the user".to_owned(), file.to_owned())),
        Ok(_) => reasons.push((Some(true), "not switched off".to_owned(), file.to_owned())),
        // Since v6.6 the kernel answers with nothing where it holds energy-aware scheduling for impossible.
        Err(Missing::Empty) => {
            reasons.push((Some(false), "the kernel itself reports: not possible".to_owned(), file.to_owned()))
        }
        Err(_) => {}
    }
    let holds = if reasons.iter().any(|(met, ..)| *met == Some(false)) {
        Some(false)
    } else if reasons.iter().any(|(met, ..)| met.is_none()) {
        None
    } else {
        Some(true)
    };
    Verdict { what: "energy-aware scheduling", holds, reasons }
}

/// Looks at the host; `path` is what `root` was opened with.
pub fn report(root: &Root, path: &Path) -> Report {
    let cpus = root.online();
    let mut sections = vec![system(root), cpufreq(root), turbo(root)];
    sections.extend(hardware(root, &cpus));
    sections.extend([cpuidle(root, &cpus), energy_model(root), domains(root, &cpus), power(root)]);
    let facts = imported(path);
    if let Err(why) = &facts {
        let note = Some(format!("the machine checks were left out: {why}"));
        sections.push(Section { name: "checks", unit: "", items: Vec::new(), note });
    }
    let facts = facts.ok();
    let invariance = invariance(root, facts.as_ref());
    let eas = eas(root, &cpus, invariance.holds);
    let findings = facts.map_or_else(Vec::new, |(_, _, findings)| findings);
    Report { sections, verdicts: vec![invariance, eas], findings }
}

/// What cannot be right: lists and numbers that are none, limits that contradict each other.
pub fn doubts(root: &Root) -> Vec<String> {
    let mut found = Vec::new();
    let mut doubt = |path: &str, what: &str, is_fine: bool| {
        // What is not there or refused is shown with its reason.
        if !is_fine && matches!(root.text(path), Ok(_) | Err(Missing::Empty)) {
            found.push(format!("{path} is {what}"));
        }
    };
    let online = format!("{CPU}/online");
    doubt(&online, "no list of CPUs", root.cpus(&online).is_some());
    for policy in root.policies() {
        let file = |name: &str| format!("{CPU}/cpufreq/policy{policy}/{name}");
        doubt(&file("related_cpus"), "no list of CPUs", root.cpus(&file("related_cpus")).is_some());
        for (min, max) in [("cpuinfo_min_freq", "cpuinfo_max_freq"), ("scaling_min_freq", "scaling_max_freq")] {
            let (low, high) = (root.number(&file(min)), root.number(&file(max)));
            doubt(&file(min), "no number", low.is_some());
            doubt(&file(max), "no number", high.is_some());
            doubt(&file(max), &format!("below {min}"), low.zip(high).is_none_or(|(low, high)| low <= high));
        }
    }
    found
}

fn of_text(section: &Section, item: &Item) -> String {
    if item.of.is_empty() { String::new() } else { format!("{}{}", section.unit, format_cpu_list(&item.of)) }
}

impl Report {
    /// For people: name, value and file in columns.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            writeln!(out, "{}", section.name).expect("memory");
            if let Some(note) = &section.note {
                writeln!(out, "  {note}").expect("memory");
            }
            let name_width = section.items.iter().map(|item| item.name.chars().count()).max().unwrap_or(0);
            let of_width = section.items.iter().map(|item| of_text(section, item).len()).max().unwrap_or(0);
            for item in &section.items {
                let value = match &item.value {
                    Ok(value) => value.clone(),
                    Err(missing) => format!("- ({})", missing.words()),
                };
                let of = of_text(section, item);
                let gap = if of_width > 0 { "  " } else { "" };
                writeln!(out, "  {:<name_width$}{gap}{of:<of_width$}  {value}  [{}]", item.name, item.file)
                    .expect("memory");
            }
        }
        for verdict in &self.verdicts {
            let answer = match verdict.holds {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            };
            writeln!(out, "{}: {answer}", verdict.what).expect("memory");
            for (met, words, file) in &verdict.reasons {
                let mark = match met {
                    Some(true) => "+",
                    Some(false) => "-",
                    None => "?",
                };
                writeln!(out, "  {mark} {words}  [{file}]").expect("memory");
            }
        }
        for finding in &self.findings {
            writeln!(out, "{}: {}: {}", finding.severity.name(), finding.check, finding.what).expect("memory");
            writeln!(out, "  cost:   {}", finding.cost).expect("memory");
            writeln!(out, "  remedy: {}", finding.remedy).expect("memory");
        }
        out
    }

    /// For programs: one line of JSON.
    pub fn json(&self) -> String {
        let item = |Item { name, of, value, file, .. }: &Item| {
            let of = Some(of).filter(|of| !of.is_empty());
            let missing = value.as_ref().err().map(|missing| missing.words());
            node_table! { name, of, value: value.as_ref().ok(), missing, file }
        };
        let section = |Section { name, unit, note, items, .. }: &Section| {
            let unit = Some(unit).filter(|unit| !unit.is_empty());
            node_table! { name, unit, note, items: items.iter().map(item).collect::<Vec<_>>() }
        };
        let reason = |(met, what, file): &(Option<bool>, String, String)| node_table! { met, what, file };
        let verdict = |Verdict { what, holds, reasons, .. }: &Verdict| {
            node_table! { what, holds, reasons: reasons.iter().map(reason).collect::<Vec<_>>() }
        };
        to_json(&node_table! {
            sections: self.sections.iter().map(section).collect::<Vec<_>>(),
            verdicts: self.verdicts.iter().map(verdict).collect::<Vec<_>>(),
            findings: opplab_import::check::node(&self.findings),
        })
    }
}
