//! A quota and a group that wants more: the engine's run of some threads under `cpu.max` and `cpu.max.burst`.
//!
//! It is the run of an experiment file that the page shows: a machine of equal CPUs at one clock, a group with the quota and its
//! threads, which work each period and more of it now and then. The same file with other settings gives the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opplab_kernel::profile::KernelProfile;
use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_model::experiment::{SourceText, parse_experiment};
use opplab_model::ids::TaskIdx;
use opplab_sim::{Case, GroupStat};

use super::{MS, Page, US, few, kernels_since, profile};
use crate::answer::{Answer, Chart, Lane, Series, Table};
use crate::query::{Control, Values};

/// The page.
pub const PAGE: Page = Page {
    name: "quota",
    title: "Quota",
    question: "How long does cpu.max stop this group, and does a burst help?",
    about: "Threads of one group on CPUs of one clock, which nobody else uses. Each CPU takes runtime from the group's pool in \
            slices of 5 ms (sched_cfs_bandwidth_slice_us), so that more CPUs may hold more of it. Whole queues are throttled, as \
            up to v6.17.",
    drop: "",
    controls,
    examples: &[
        ("A quota above the mean, a load in bursts", ""),
        ("The same with a burst of 80 ms", "burst_us=80000"),
        ("One thread that always works", "threads=1&quiet=0&run_us=20000&quota_us=30000"),
        ("Eight threads on eight CPUs", "threads=8&cpus=8&quiet=0&run_us=3000&quota_us=80000&apart=no"),
        ("A period of 10 ms", "period_us=10000&quota_us=13000"),
    ],
    run: super::Run::Now(answer),
};

const GROUP: &str = "/group";

fn controls() -> Vec<Control> {
    vec![
        Control::range("quota_us", "Quota (cpu.max)", "us", [1_000, 1_600_000, 1_000, 130_000]),
        Control::range("period_us", "Period (cpu.max)", "us", [1_000, 1_000_000, 1_000, 100_000]),
        Control::range("burst_us", "cpu.max.burst", "us", [0, 1_600_000, 1_000, 0]),
        Control::range("threads", "Threads", "", [1, 32, 1, 8]),
        Control::range("cpus", "CPUs", "", [1, 16, 1, 8]),
        Control::range("every_us", "A thread wakes each", "us", [1_000, 200_000, 1_000, 20_000]),
        Control::range("run_us", "Work when busy", "us", [100, 200_000, 100, 9_000]),
        Control::range("quiet", "Quiet wake-ups between busy ones", "", [0, 20, 1, 9]),
        Control::range("quiet_us", "Work when quiet", "us", [100, 200_000, 100, 2_000]),
        Control::choice("apart", "Threads wake apart", vec!["no", "yes"], "no"),
        Control::choice("hz", "CONFIG_HZ", vec!["100", "250", "300", "1000"], "250"),
        Control::choice("kernel", "Kernel", kernels_since((5, 14)), "6.12.117"),
        Control::range("length_ms", "Shown", "ms", [100, 5_000, 100, 1_000]),
    ]
}

/// A quota as files have it, us.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    quota_us: Option<u64>,
    period_us: u64,
    burst_us: u64,
}

impl Setting {
    fn words(self) -> String {
        match (self.quota_us, self.burst_us) {
            (None, _) => "no quota".to_owned(),
            (Some(quota), 0) => format!("{quota} {}", self.period_us),
            (Some(quota), burst) => format!("{quota} {}, burst {burst}", self.period_us),
        }
    }

    fn group(self) -> String {
        let max = self.quota_us.map_or_else(|| "max".to_owned(), |quota| format!("{quota} {}", self.period_us));
        let burst = if self.burst_us == 0 { String::new() } else { format!("burst_us = {}\n", self.burst_us) };
        format!("max = \"{max}\"\n{burst}")
    }

    /// The kernel refuses a burst above the quota.
    fn is_valid(self) -> bool {
        self.quota_us.is_none_or(|quota| self.burst_us <= quota)
    }
}

/// What the page was asked.
struct Asked<'a> {
    values: &'a Values<'a>,
    machine: String,
    workload: String,
}

impl<'a> Asked<'a> {
    fn of(values: &'a Values<'a>) -> Self {
        let number = |name| values.number(name);
        let machine = format!(
            "format = 1\nname = \"equal-cpus\"\n\n[[driver]]\nname = \"scmi\"\ntransition_latency_us = 100\nfast_switch = true\n\n\
             [[cluster]]\nname = \"cpu\"\ncpus = \"0-{}\"\ncapacity = 1024\nopp = [{{ khz = 1000000, mw = 100 }}]\n\
             idle = [{{ name = \"WFI\", mw = 5, exit_latency_us = 1, target_residency_us = 1 }}]\n",
            number("cpus") - 1
        );
        let timer =
            format!("\"timer\": {{\"ref\": \"unique\", \"period\": {}, \"mode\": \"absolute\"}}", number("every_us"));
        let mut phases = format!("\"busy\": {{\"loop\": 1, \"run\": {}, {timer}}}", number("run_us"));
        if number("quiet") > 0 {
            let _ = write!(
                phases,
                ",\n      \"quiet\": {{\"loop\": {}, \"run\": {}, {timer}}}",
                number("quiet"),
                number("quiet_us")
            );
        }
        let threads = (0..number("threads")).map(|thread| {
            let delay_us = match values.text("apart") {
                "yes" => thread * number("every_us") / number("threads"),
                _ => 0,
            };
            let delay = if delay_us == 0 { String::new() } else { format!("\"delay\": {delay_us}, ") };
            format!(
                "    \"thread{thread}\": {{{delay}\"loop\": -1, \"taskgroup\": \"{GROUP}\", \"phases\": {{\n      {phases}}}}}"
            )
        });
        let workload = format!(
            "{{\n  \"global\": {{\"duration\": 5, \"calibration\": \"CPU0\"}},\n  \"tasks\": {{\n{}\n  }}\n}}\n",
            threads.collect::<Vec<_>>().join(",\n")
        );
        Self { values, machine, workload }
    }

    fn experiment(&self, settings: &[Setting]) -> String {
        let mut text = format!(
            "format = 1\nname = \"quota\"\nmachine = \"equal-cpus.toml\"\nseed = 1\niterations = 1\nduration = \"{}ms\"\n\n\
             [defaults]\nkernel = \"{}\"\nhz = {}\ngovernor = \"performance\"\n",
            self.values.number("length_ms"),
            self.values.text("kernel"),
            self.values.text("hz")
        );
        for setting in settings {
            let label = setting.words();
            let _ = write!(
                text,
                "\n[[policy]]\nlabel = \"{label}\"\n[[group]]\nname = \"{GROUP}\"\npolicies = [\"{label}\"]\n{}",
                setting.group()
            );
        }
        text + "\n[[workload]]\nlabel = \"threads\"\nrtapp = \"threads.json\"\n"
    }

    fn run(&self, settings: &[Setting]) -> Result<Vec<(GroupStat, Watch)>, String> {
        let text = self.experiment(settings);
        let source = |file: &str, text: &str| SourceText { file: file.to_owned(), text: text.to_owned() };
        let machine = source("equal-cpus.toml", &self.machine);
        let machines = BTreeMap::from([("equal-cpus.toml".to_owned(), machine)]);
        let files = BTreeMap::from([("threads.json".to_owned(), source("threads.json", &self.workload))]);
        let experiment = parse_experiment("quota.toml", &text).map_err(|error| error.to_string())?;
        let cases = experiment.expand(&machines, &files).map_err(|error| error.to_string())?;
        let played = cases.into_iter().map(|file| {
            let case = Case::from(file);
            let mut watch = Watch::new(case.machine.nr_cpus(), case.duration_ns);
            let mut outcome = opplab_sim::run(&case, &mut watch).map_err(|error| error.0)?;
            watch.end(outcome.task_names);
            let group = case.workload.groups.iter().position(|group| group.name == GROUP);
            let stat = group.filter(|&at| at < outcome.groups.len()).map(|at| outcome.groups.swap_remove(at));
            Ok((stat.ok_or("the run has no group")?, watch))
        });
        played.collect()
    }
}

/// What ran when, and how late activations were.
struct Watch {
    end_ns: u64,
    runs: Vec<Option<(u64, TaskIdx)>>,
    spans: Vec<Vec<(u64, u64, TaskIdx)>>,
    names: Vec<String>,
    activations: u64,
    late: u64,
    latest_ns: u64,
}

impl Watch {
    fn new(nr_cpus: usize, end_ns: u64) -> Self {
        Self {
            end_ns,
            runs: vec![None; nr_cpus],
            spans: vec![Vec::new(); nr_cpus],
            names: Vec::new(),
            activations: 0,
            late: 0,
            latest_ns: 0,
        }
    }

    fn end(&mut self, names: Vec<String>) {
        for (cpu, run) in self.runs.iter_mut().enumerate() {
            if let Some((since, task)) = run.take() {
                self.spans[cpu].push((since, self.end_ns, task));
            }
        }
        self.names = names;
    }

    /// Runtime in each `period_ns`, us, as steps.
    fn used(&self, period_ns: u64) -> Vec<(u64, u64)> {
        let mut used = vec![0; self.end_ns.div_ceil(period_ns) as usize];
        for &(from, to, _) in self.spans.iter().flatten() {
            let mut at = from;
            while at < to {
                let period = at / period_ns;
                let end = to.min((period + 1) * period_ns);
                used[period as usize] += end - at;
                at = end;
            }
        }
        used.iter().enumerate().map(|(period, ns)| (period as u64 * period_ns, ns / US)).collect()
    }
}

impl Sink for Watch {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, next, .. } => {
                let at = cpu as usize;
                if let Some((since, task)) = self.runs[at].take()
                    && now_ns > since
                {
                    self.spans[at].push((since, now_ns, task));
                }
                if next != IDLE_TASK {
                    self.runs[at] = Some((now_ns, next));
                }
            }
            Event::Activation { task, slack_ns, response_ns, .. } => {
                self.activation_left(now_ns, task, slack_ns, response_ns);
            }
            _ => {}
        }
    }

    fn activation_left(&mut self, _now_ns: u64, _task: u32, slack_ns: i64, _response_ns: u64) {
        self.activations += 1;
        self.late += u64::from(slack_ns < 0);
        self.latest_ns = self.latest_ns.max(slack_ns.min(0).unsigned_abs());
    }
}

fn ms(ns: u64) -> String {
    format!("{}.{:03} ms", ns / MS, ns % MS / US)
}

fn cpus(us: u64, of_us: u64) -> String {
    let hundredths = (us * 100 + of_us / 2) / of_us.max(1);
    format!("{}.{:02} CPUs", hundredths / 100, hundredths % 100)
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let number = |name| values.number(name);
    let kernel = profile(values.text("kernel"))?;
    let set =
        Setting { quota_us: Some(number("quota_us")), period_us: number("period_us"), burst_us: number("burst_us") };
    if !set.is_valid() {
        return Err(format!(
            "burst_us={} is above quota_us={}; the kernel refuses that",
            set.burst_us,
            number("quota_us")
        ));
    }
    let mut settings = vec![set];
    let quota = number("quota_us");
    let others = [
        Setting { burst_us: 0, ..set },
        Setting { burst_us: quota, ..set },
        Setting { quota_us: Some(quota * 5 / 4), burst_us: 0, ..set },
        Setting { quota_us: Some((quota / 10).max(1_000)), period_us: (set.period_us / 10).max(1_000), burst_us: 0 },
        Setting { quota_us: None, burst_us: 0, ..set },
    ];
    for other in others {
        if other.is_valid() && !settings.contains(&other) {
            settings.push(other);
        }
    }
    let length_us = number("length_ms") * 1000;
    few("activations of the threads", number("threads") * length_us / number("every_us"))?;
    few("refills on all CPUs", number("cpus") * length_us / number("period_us"))?;
    let asked = Asked::of(values);
    let results = asked.run(&settings)?;
    Ok(show(&asked, &kernel, &settings, &results))
}

fn show(asked: &Asked<'_>, kernel: &KernelProfile, settings: &[Setting], results: &[(GroupStat, Watch)]) -> Answer {
    let mut out = Answer::default();
    let values = asked.values;
    let number = |name| values.number(name);
    let ((stat, watch), set) = (&results[0], settings[0]);
    let each = number("quiet") + 1;
    let want_us = number("threads") * (number("run_us") + number("quiet") * number("quiet_us"));
    let quota_us = set.quota_us.unwrap_or(0);
    out.say(format!(
        "The group works for {} on average and may use {}; {} of {} periods were throttled, and {} of {} activations were late{}.",
        cpus(want_us, each * number("every_us")),
        cpus(quota_us, set.period_us),
        stat.nr_throttled,
        stat.nr_periods,
        watch.late,
        watch.activations,
        if watch.late > 0 { format!(", the latest by {}", ms(watch.latest_ns)) } else { String::new() }
    ));
    if set.burst_us > 0 {
        out.say(format!(
            "Runtime that was left over was saved up to {}; {} periods used {} of it.",
            ms(set.burst_us * US),
            stat.nr_bursts,
            ms(stat.burst_ns)
        ));
    }
    if kernel.version >= (6, 18) {
        out.say("From v6.18 on a throttled task goes on until it returns to user space; this engine stops its queue, as before.");
    }
    let of = "fair.c:__refill_cfs_bandwidth_runtime(), v6.12";
    out.fact("nr_periods", stat.nr_periods, "fair.c:do_sched_cfs_period_timer(), v6.12");
    out.fact("nr_throttled", stat.nr_throttled, "fair.c:throttle_cfs_rq(), v6.12");
    out.fact("throttled_usec", stat.throttled_ns / US, "fair.c:unthrottle_cfs_rq(), summed over CPUs");
    out.fact("nr_bursts", stat.nr_bursts, of);
    out.fact("burst_usec", stat.burst_ns / US, of);
    out.fact("usage_usec", stat.usage_ns / US, "cpu.stat of the group");

    let end_ns = number("length_ms") * MS;
    let period_ns = set.period_us * US;
    let used = watch.used(period_ns);
    let line =
        |name: &str, color: u8, points: Vec<(u64, u64)>| Series { name: name.to_owned(), step: true, color, points };
    let mut series = vec![line("runtime that was used", 0, used.clone()), line("quota", 1, vec![(0, quota_us)])];
    if set.burst_us > 0 {
        series.push(line("quota and burst", 2, vec![(0, quota_us + set.burst_us)]));
    }
    let top = used.iter().map(|point| point.1).max().unwrap_or(0).max(quota_us + set.burst_us);
    let lanes = watch.spans.iter().enumerate().map(|(cpu, spans)| Lane {
        name: format!("CPU {cpu}"),
        spans: spans
            .iter()
            .map(|&(from, to, task)| (from, to, watch.names.get(task as usize).cloned().unwrap_or_default()))
            .collect(),
        ..Lane::default()
    });
    out.charts.push(Chart {
        title: "Runtime in each period in us, and who runs".to_owned(),
        x: ("time".to_owned(), "ns", end_ns),
        y: ("runtime, us".to_owned(), "", top + top / 20),
        series,
        lanes: lanes.collect(),
        mark: None,
    });
    let rows = settings.iter().zip(results).map(|(setting, (stat, watch))| {
        vec![
            setting.words(),
            format!("{} of {}", stat.nr_throttled, stat.nr_periods),
            ms(stat.throttled_ns),
            format!("{} of {}", watch.late, watch.activations),
            ms(watch.latest_ns),
            cpus(stat.usage_ns, end_ns),
        ]
    });
    out.tables.push(Table {
        title: "The same load under other settings of cpu.max (quota and period in us)".to_owned(),
        columns: ["setting", "throttled periods", "throttled time", "late", "latest by", "used"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
        chosen: Some(0),
    });
    out.command = "opplab run quota.toml".to_owned();
    out.sources = vec![
        ("quota.toml".to_owned(), asked.experiment(settings)),
        ("threads.json".to_owned(), asked.workload.clone()),
        ("equal-cpus.toml".to_owned(), asked.machine.clone()),
    ];
    out
}
