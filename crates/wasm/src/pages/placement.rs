//! Energy-aware placement: what each candidate would cost, which CPU is chosen and why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use opplab_import::{import_bytes, to_machine};
use opplab_kernel::cpufreq::schedutil::RqFacts;
use opplab_kernel::eas::{EasCpu, EasExplanation, EasFacts, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::{EmPerfDomain, em_create_perf_table};
use opplab_kernel::profile::Eas;
use opplab_kernel::sched::fitness::CpuCapacity;
use opplab_model::cpus::parse_cpu_list;
use opplab_model::decision::phrase;
use opplab_model::error::Pos;
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;

use super::{Page, kernels_since, numbers, profile};
use crate::Dropped;
use crate::answer::{Answer, Chart, Series, Table};
use crate::machines::{MACHINES, machine_text};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "placement",
    title: "Energy-aware placement",
    question: "On which CPU does energy-aware placement wake this task, and why not on another?",
    about: "A line a performance domain: capacity, number of CPUs or cpu0,3-5, then MHz:mW of each operating point. The numbers to \
            begin with are an example, not a machine. CPUs hold fair tasks only; runnable_avg equals util_avg.",
    drop: "Drop a machine: .toml, .dtb, .dts, an energy_model of debugfs, Wattson's .csv",
    controls,
    examples: &[
        ("A small task", ""),
        ("A task that only a big CPU holds", "task_util=380"),
        ("It ran on a big CPU before", "prev_cpu=4"),
        ("A lower clamp", "uclamp_min=600"),
        ("A CPU is overutilised", "overutilized=yes"),
        ("A Juno r2", "machine=juno-r2&util=0,300,0,0,120,40"),
        ("A Pixel 6", "machine=pixel6&util=120,40,40,40,200,0,0,0"),
    ],
    run: super::Run::Takes(take, answer),
};

const MODEL: &str = "446 4 450:26,800:66,950:98\n1024 2 600:250,1000:460,1200:620";
const MOST_CPUS: usize = 64;
const FILE_MAX: usize = 8 << 20;

fn controls() -> Vec<Control> {
    vec![
        Control::range("task_util", "util_avg of the task", "", [0, 1024, 1, 80]),
        Control::range("task_est", "util_est of the task", "", [0, 1024, 1, 0]),
        Control::range("prev_cpu", "Its previous CPU", "", [0, MOST_CPUS as u64 - 1, 1, 0]),
        Control::range("uclamp_min", "uclamp.min", "", [0, 1024, 1, 0]),
        Control::range("uclamp_max", "uclamp.max", "", [0, 1024, 1, 1024]),
        Control::choice("overutilized", "Overutilised", vec!["no", "yes"], "no"),
        Control::choice("kernel", "Kernel", kernels_since((5, 0)), "6.12.117"),
        Control::text("util", "util_avg of each CPU without the task", "", 400, "120,40,40,40,200,0"),
        Control::choice("machine", "Energy model of", machines(), TABLE),
        Control::text("model", "The table: capacity CPUs MHz:mW,...", "", 6_000, MODEL),
    ]
}

/// The table holds the energy model.
const TABLE: &str = "the table";

/// Machines with several capacities and an energy model: elsewhere no task is placed by energy.
fn machines() -> Vec<&'static str> {
    let has_model = |name: &str| {
        let machine = parse_machine(name, machine_text(name));
        machine.is_ok_and(|machine| {
            let capacities = machine.clusters.iter().map(|cluster| cluster.capacity);
            capacities.collect::<BTreeSet<_>>().len() > 1 && model_of(&machine).is_ok()
        })
    };
    static NAMES: OnceLock<Vec<&str>> = OnceLock::new();
    let names = || std::iter::once(TABLE).chain(MACHINES.iter().map(|(name, _)| *name).filter(|name| has_model(name)));
    NAMES.get_or_init(|| names().collect()).clone()
}

/// Thousandths without the zeros at the end: 450000 is 450, 1234 is 1.234.
fn thousandths(number: u64) -> String {
    let text = format!("{}.{:03}", number / 1000, number % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The reverse; at most three digits after the point.
fn of_thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let part = match part.len() {
        0 => 0,
        1..=3 => digits(&format!("{part:0<3}"))?,
        _ => return None,
    };
    digits(whole)?.checked_mul(1000)?.checked_add(part)
}

/// A machine's registered energy model as the table has it.
fn model_of(machine: &Machine) -> Result<String, String> {
    let lines = machine.clusters.iter().map(|cluster| {
        if cluster.opps.iter().any(|opp| opp.power_uw == 0) {
            return Err(format!("{}: cluster {} has no power in an energy model", machine.name, cluster.name));
        }
        let cpus: Vec<String> = cluster.cpus.iter().map(ToString::to_string).collect();
        let points =
            cluster.opps.iter().map(|opp| format!("{}:{}", thousandths(opp.khz.into()), thousandths(opp.power_uw)));
        Ok(format!("{} cpu{} {}", cluster.capacity, cpus.join(","), points.collect::<Vec<_>>().join(",")))
    });
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// What a dropped file holds of the energy model.
fn take(file: &Dropped) -> Result<Vec<(&'static str, String)>, String> {
    let name = plain(&file.name);
    if file.bytes.len() > FILE_MAX {
        return Err(format!("{name}: larger than {} MB, so no description of a machine", FILE_MAX >> 20));
    }
    let machine = match name.ends_with(".toml") {
        true => {
            let text = std::str::from_utf8(&file.bytes).map_err(|_| format!("{name}: no UTF-8 text"))?;
            parse_machine(&name, text).map_err(|error| error.to_string())?
        }
        false => {
            let facts = import_bytes(&name, &file.bytes).map_err(|error| error.to_string())?;
            to_machine(&facts).map_err(|error| error.to_string())?.machine
        }
    };
    let capacity = machine.clusters.iter().flat_map(|cluster| &cluster.cpus).max().map_or(0, |cpu| cpu + 1);
    let util = vec!["0"; capacity.min(MOST_CPUS as u32) as usize].join(",");
    Ok(vec![
        ("machine", TABLE.to_owned()),
        ("model", model_of(&machine)?),
        ("util", util),
        ("prev_cpu", "0".to_owned()),
    ])
}

struct Facts {
    cpus: Vec<EasCpu>,
    uclamp_used: bool,
}

impl EasFacts for Facts {
    fn cpu(&self, cpu: usize) -> EasCpu {
        self.cpus[cpu]
    }
    fn allowed(&self, _cpu: usize) -> bool {
        true
    }
    fn uclamp_used(&self) -> bool {
        self.uclamp_used
    }
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let kernel = profile(values.text("kernel"))?;
    let gates = kernel.eas_gates().filter(|_| kernel.eas == Eas::Present);
    let gates = gates.ok_or_else(|| format!("kernel {} has no energy-aware placement", values.text("kernel")))?;
    let (mut domains, mut capacity_of) = (Vec::new(), BTreeMap::new());
    let model = match values.text("machine") {
        TABLE => values.text("model").to_owned(),
        name => model_of(&parse_machine(name, machine_text(name)).map_err(|error| error.to_string())?)?,
    };
    for (at, line) in model.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| format!("model: line {}: {what}: `{}`", at + 1, plain(line));
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>, what: &str, most: u64| {
            let number = word.and_then(|word| word.parse::<u64>().ok()).filter(|n| (1..=most).contains(n));
            number.ok_or_else(|| wrong(&format!("{what} must be a whole number of 1 to {most}")))
        };
        let capacity = number(words.next(), "the capacity", 1024)?;
        let next = capacity_of.last_key_value().map_or(0, |(last, _)| last + 1);
        let word = words.next();
        let cpus: Vec<usize> = match word.and_then(|word| word.strip_prefix("cpu")) {
            Some(list) => {
                let list = parse_cpu_list(list, Pos::default()).map_err(|fault| wrong(&fault.message))?;
                list.into_iter().map(|cpu| cpu as usize).collect()
            }
            None => (next..next + number(word, "the number of CPUs", MOST_CPUS as u64)? as usize).collect(),
        };
        for &cpu in &cpus {
            if cpu >= MOST_CPUS || capacity_of.insert(cpu, capacity).is_some() {
                return Err(wrong(&format!("CPU {cpu} is there twice, or not below {MOST_CPUS}")));
            }
        }
        let points = words.flat_map(|word| word.split(',')).filter(|word| !word.is_empty()).map(|point| {
            let pair = point.split_once(':').and_then(|(mhz, mw)| Some((of_thousandths(mhz)?, of_thousandths(mw)?)));
            let pair = pair.filter(|&(khz, uw)| (1..=20_000_000).contains(&khz) && (1..=64_000_000).contains(&uw));
            pair.ok_or_else(|| wrong(&format!("`{}` is not MHz:mW", plain(point))))
        });
        let points = points.collect::<Result<Vec<_>, String>>()?;
        let states =
            em_create_perf_table(&points, capacity, kernel.em_cost).map_err(|error| wrong(&error.to_string()))?;
        domains.push(EmPerfDomain { states, cpus, skip_inefficient: true, form: kernel.em_cost });
    }
    let capacities: Vec<u64> = capacity_of.values().copied().collect();
    if capacities.is_empty() || capacity_of.last_key_value().is_some_and(|(last, _)| *last >= capacities.len()) {
        return Err(format!("model: CPUs 0 to the last must all be there; it has {}", capacities.len()));
    }
    // The kernel's order (topology.c:build_perf_domains()).
    domains.sort_by_key(|domain| std::cmp::Reverse(domain.cpus.first().copied()));
    let util = numbers("util", values.text("util"), MOST_CPUS, 0..=1024)?;
    let prev_cpu = values.number("prev_cpu") as usize;
    if prev_cpu >= capacities.len() {
        return Err(format!("prev_cpu={prev_cpu}: the model has CPUs 0 to {}", capacities.len() - 1));
    }
    let (uclamp_min, uclamp_max) = (values.number("uclamp_min"), values.number("uclamp_max"));
    if uclamp_min > uclamp_max {
        return Err(format!("uclamp_min={uclamp_min} is above uclamp_max={uclamp_max}; the kernel refuses that"));
    }
    let task_util = values.number("task_util");
    let uclamp_used = uclamp_min != 0 || uclamp_max != 1024;
    let cpu = |(at, &capacity): (usize, &u64)| {
        let others = u64::from(util.get(at).copied().unwrap_or(0));
        // The queue that it slept on still holds the task's utilisation.
        let util_avg = others + if at == prev_cpu { task_util } else { 0 };
        EasCpu {
            rq: RqFacts { capacity, uclamp_used, ..RqFacts::default() },
            capacity: CpuCapacity { orig: capacity, of: capacity, hw_pressure: 0, cpufreq_pressure: 0 },
            util_avg,
            runnable_avg: util_avg,
            util_est: others,
            uclamp_idle: false,
        }
    };
    let facts = Facts { cpus: capacities.iter().enumerate().map(cpu).collect(), uclamp_used };
    let task = EasTask {
        prev_cpu,
        util_avg: task_util,
        runnable_avg: task_util,
        util_est: values.number("task_est") as u32,
        uclamp_min,
        uclamp_max,
        queued: false,
    };
    let mut seen = EasExplanation::default();
    let overutilized = values.text("overutilized") == "yes";
    let target = find_energy_efficient_cpu(&domains, &task, overutilized, &facts, gates, &mut seen);
    Ok(show(&domains, &capacities, &facts, target, &seen))
}

/// `CPU 0`, or the first and the last.
fn cpus(list: &[usize]) -> String {
    match (list.first(), list.last()) {
        (Some(first), Some(last)) if first != last => format!("CPUs {first} to {last}"),
        (Some(first), _) => format!("CPU {first}"),
        _ => String::new(),
    }
}

fn show(
    domains: &[EmPerfDomain],
    capacities: &[u64],
    facts: &Facts,
    target: Option<usize>,
    seen: &EasExplanation,
) -> Answer {
    let mut out = Answer::default();
    let why = seen.decided.and_then(|(_, rule)| phrase("eas_rule", rule as u8)).unwrap_or("no reason is known");
    let of = "fair.c:find_energy_efficient_cpu()";
    out.say(match target {
        Some(cpu) => format!("CPU {cpu}: {why}."),
        None => format!("No CPU by energy: {why}. The task is placed as without an energy model."),
    });
    if capacities.len() > 1 && capacities.iter().all(|capacity| *capacity == capacities[0]) {
        out.say("All CPUs have one capacity: the kernel would not place by energy. Files without capacities need them in the table.");
    }
    out.fact("chosen CPU", target.map_or_else(|| "none".to_owned(), |cpu| cpu.to_string()), of);
    out.fact("CPUs weighed", seen.candidates.len(), of);
    let energy_of =
        |dst: Option<usize>, domain: usize| seen.energies.iter().find(|one| one.dst_cpu == dst && one.domain == domain);
    let rows = (0..capacities.len()).map(|cpu| {
        let domain = domains.iter().position(|domain| domain.cpus.contains(&cpu)).unwrap_or(0);
        let weighed = seen.candidates.iter().find(|one| one.cpu == cpu);
        let with = energy_of(Some(cpu), domain);
        let without = energy_of(None, domain);
        let cell = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let delta = with.zip(without).map(|(with, without)| i128::from(with.energy) - i128::from(without.energy));
        let what = match (target == Some(cpu), weighed.is_some(), with.is_some()) {
            (true, ..) => "chosen",
            (_, true, true) => "weighed",
            (_, true, false) => "weighed, no energy computed",
            _ => "no room, or no more to spare than another of its domain",
        };
        vec![
            format!("CPU {cpu}"),
            domain.to_string(),
            facts.cpus[cpu].util_avg.to_string(),
            capacities[cpu].to_string(),
            cell(weighed.map(|one| one.spare_cap)),
            cell(with.map(|one| one.max_util)),
            cell(without.map(|one| one.energy)),
            cell(with.map(|one| one.energy)),
            delta.map_or_else(|| "-".to_owned(), |delta| format!("{delta:+}")),
            what.to_owned(),
        ]
    });
    let columns = ["CPU", "domain", "util", "capacity", "to spare", "max_util", "without", "with", "change", ""];
    out.tables.push(Table {
        title: "Energy of the domain without and with the task (em_cpu_energy(), a unit that only compares)".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        chosen: target,
    });
    let power = domains.iter().enumerate().map(|(at, domain)| Series {
        name: format!("domain {at}: {}", cpus(&domain.cpus)),
        step: false,
        color: at as u8,
        points: domain.states.iter().map(|state| (state.performance, state.power_uw / 1_000)).collect(),
    });
    let most = domains.iter().flat_map(|domain| domain.states.iter().map(|state| state.power_uw / 1_000)).max();
    out.charts.push(Chart {
        title: "The energy model: power of a CPU by performance".to_owned(),
        x: ("performance".to_owned(), "", capacities.iter().copied().max().unwrap_or(1024)),
        y: ("power, mW".to_owned(), "", most.unwrap_or(1)),
        series: power.collect(),
        lanes: Vec::new(),
        mark: None,
    });
    out
}
