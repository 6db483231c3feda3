//! Energy-aware placement: what each candidate would cost, which CPU is chosen and why.

use opplab_kernel::cpufreq::schedutil::RqFacts;
use opplab_kernel::eas::{EasCpu, EasExplanation, EasFacts, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::{EmPerfDomain, em_create_perf_table};
use opplab_kernel::profile::Eas;
use opplab_kernel::sched::fitness::CpuCapacity;
use opplab_model::decision::phrase;

use super::{Page, kernels_since, numbers, profile};
use crate::answer::{Answer, Chart, Series, Table};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "placement",
    title: "Energy-aware placement",
    question: "On which CPU does energy-aware placement wake this task, and why not on another?",
    about: "A line a performance domain: capacity, number of CPUs, then MHz:mW of each operating point. The numbers to begin with \
            are an example, not a machine. CPUs hold fair tasks only; runnable_avg equals util_avg.",
    drop: "",
    controls,
    examples: &[
        ("A small task", ""),
        ("A task that only a big CPU holds", "task_util=380"),
        ("It ran on a big CPU before", "prev_cpu=4"),
        ("A lower clamp", "uclamp_min=600"),
        ("A CPU is overutilised", "overutilized=yes"),
    ],
    run: super::Run::Now(answer),
};

const MODEL: &str = "446 4 450:26,800:66,950:98\n1024 2 600:250,1000:460,1200:620";
const MOST_CPUS: usize = 64;

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
        Control::text("model", "Domains: capacity CPUs MHz:mW,...", "", 2_000, MODEL),
    ]
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
    let (mut domains, mut capacities) = (Vec::new(), Vec::new());
    for (at, line) in values.text("model").lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |what: &str| format!("model: line {}: {what}: `{}`", at + 1, plain(line));
        let mut words = line.split_whitespace();
        let mut number = |what: &str, most: u64| {
            let number = words.next().and_then(|word| word.parse::<u64>().ok()).filter(|n| (1..=most).contains(n));
            number.ok_or_else(|| wrong(&format!("{what} must be a whole number of 1 to {most}")))
        };
        let (capacity, cpus) = (number("the capacity", 1024)?, number("the number of CPUs", MOST_CPUS as u64)?);
        let points = words.flat_map(|word| word.split(',')).filter(|word| !word.is_empty()).map(|point| {
            let pair = point.split_once(':').and_then(|(mhz, mw)| Some((mhz.parse().ok()?, mw.parse().ok()?)));
            let pair = pair.filter(|&(mhz, mw): &(u32, u32)| (1..=20_000).contains(&mhz) && (1..=64_000).contains(&mw));
            let pair = pair.ok_or_else(|| wrong(&format!("`{}` is not MHz:mW", plain(point))))?;
            Ok((u64::from(pair.0) * 1_000, u64::from(pair.1) * 1_000))
        });
        let points = points.collect::<Result<Vec<_>, String>>()?;
        let states =
            em_create_perf_table(&points, capacity, kernel.em_cost).map_err(|error| wrong(&error.to_string()))?;
        let first = capacities.len();
        capacities.extend(std::iter::repeat_n(capacity, cpus as usize));
        let cpus = (first..capacities.len()).collect();
        domains.push(EmPerfDomain { states, cpus, skip_inefficient: true, form: kernel.em_cost });
    }
    if capacities.is_empty() || capacities.len() > MOST_CPUS {
        return Err(format!("model: {} CPUs; 1 to {MOST_CPUS} are drawn", capacities.len()));
    }
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
        name: format!("domain {at}"),
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
