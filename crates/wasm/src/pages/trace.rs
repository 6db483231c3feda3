//! A dropped trace: what ran, clocks, signals, energy on a machine, and what held CPUs below the speed that was needed.
//!
//! ```text
//!   file ──► info ──► signals, residencies, energy (one pass after a first one) ──► its work run again: why slow
//! ```
//! Each arrow is a step; what is known is shown after each. The numbers are those of `opplab trace signals`,
//! `opplab trace energy` and `opplab explain --why-slow`.

use std::collections::BTreeMap;
use std::path::Path;

use opplab_model::event::NullSink;
use opplab_model::experiment::{SourceText, parse_experiment};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_replay::energy::{EnergyMeter, TraceEnergy};
use opplab_replay::rerun::ClosedCase;
use opplab_replay::signals::{First, Pass, all_of, events};
use opplab_replay::{Events, Mode, Recorded, Replay, Setup};
use opplab_signals::decode::{SchedEvent, SchedSink, Threads, decoded_threads, pid_of};
use opplab_signals::half_life::HalfLife32;
use opplab_signals::pelt::{Sample, Samples};
use opplab_signals::residency::Residency;
use opplab_signals::summary::{Deadlines, LatencySummary, Utils};
use opplab_sim::Case;
use opplab_sim::why_slow::{LIMITS, SLOW_REASONS, SlowKey, SlowTime, WhySlow};
use opplab_timeline::RunTrace;
use opplab_trace::write::trace_dat;
use opplab_trace::{Event, Info, ReadOptions, Sink as _, TaskNames, TraceFile, UnpackLimits};

use super::bench::{SPANS_MAX, four};
use super::{Job, Page};
use crate::Dropped;
use crate::answer::{Answer, Chart, Lane, Series, Table};
use crate::machines::{MACHINES, machine_text};
use crate::query::{Control, Values, plain};

/// The page.
pub const PAGE: Page = Page {
    name: "trace",
    title: "Drop a trace",
    question: "What ran in this trace, at which clocks, and why was it slow?",
    about: "trace.dat, perf.data, Perfetto, ftrace text or systrace, of up to some hundred MB, also gzip or zstd. It is read in this \
            tab and goes nowhere; the link holds the settings, not the file. Without a file a simulated run stands for one.",
    drop: "Drop a trace, or choose one:",
    controls,
    examples: &[
        ("What ran", ""),
        ("With energy", "machine=juno-r2"),
        ("Why slow", "machine=juno-r2&why_slow=yes"),
        ("The first 50 ms", "length_ms=50"),
    ],
    run: super::Run::Steps(start),
};

const UNKNOWN: &str = "unknown";
const ROWS_MAX: usize = 40;
const POINTS_MAX: usize = 200_000;
/// What compressed content may expand to: a module has at most 4 GB.
const UNPACKED_MAX: u64 = 1 << 30;
/// Most events whose work is run again: each is held in memory.
const RERUN_MAX: u64 = 2_000_000;

fn controls() -> Vec<Control> {
    let machines = std::iter::once(UNKNOWN).chain(MACHINES.iter().map(|(name, _)| *name)).collect();
    vec![
        Control::choice("machine", "Machine, for capacities and energy", machines, UNKNOWN),
        Control::choice("why_slow", "Run its work again: why slow", vec!["no", "yes"], "no"),
        Control::text("task", "Task in the picture: name or pid", "", 100, ""),
        Control::range("from_ms", "Pictures from", "ms", [0, 10_000_000, 1, 0]),
        Control::range("length_ms", "Pictures for", "ms", [1, 60_000, 1, 1_000]),
    ]
}

struct Drop {
    file: Option<TraceFile>,
    /// The dropped file's; without one there is an example.
    name: Option<String>,
    machine: Option<Machine>,
    machine_name: String,
    why: bool,
    task: String,
    window_ns: (u64, u64),
    done: usize,
    info: Option<Info>,
    found: Option<Found>,
    replay: Option<Replay>,
    slow: Option<Slow>,
}

/// What one pass gives.
struct Found {
    names: BTreeMap<i32, String>,
    utils: Utils,
    points: Vec<Sample>,
    residency: Residency,
    latencies: Vec<(i32, LatencySummary)>,
    energy: Option<TraceEnergy>,
    view: View,
    problems: Vec<String>,
}

struct Slow {
    rows: BTreeMap<SlowKey, SlowTime>,
    names: Vec<String>,
    busy_ns: u64,
    energy_fj: u128,
    missed: (u64, u64),
    governor: String,
    governor_known: bool,
    /// The recording is an emulator's, whose speed does not follow the clock.
    fixed_speed: bool,
    kernel: String,
    /// How near a run of the same work under the same policy is to the trace, in words.
    check: String,
}

fn start(values: &Values<'_>, dropped: Option<Dropped>) -> Result<Box<dyn Job>, String> {
    let machine_name = values.text("machine").to_owned();
    let machine = match machine_name.as_str() {
        UNKNOWN => None,
        name => Some(parse_machine(name, machine_text(name)).map_err(|error| error.to_string())?),
    };
    let why = values.text("why_slow") == "yes";
    if why && machine.is_none() {
        return Err("why_slow=yes: choose the machine that the trace was recorded on".to_owned());
    }
    let name = dropped.as_ref().map(|file| plain(&file.name));
    let file = dropped.map(|file| TraceFile::from_bytes(file.bytes, &options())).transpose();
    let file = file.map_err(|error| format!("{}: {error}", name.as_deref().unwrap_or_default()))?;
    let from_ns = values.number("from_ms") * 1_000_000;
    let window_ns = (from_ns, from_ns + values.number("length_ms") * 1_000_000);
    let task = values.text("task").to_owned();
    Ok(Box::new(Drop {
        file,
        name,
        machine,
        machine_name,
        why,
        task,
        window_ns,
        done: 0,
        info: None,
        found: None,
        replay: None,
        slow: None,
    }))
}

fn options() -> ReadOptions {
    ReadOptions { unpack: UnpackLimits::up_to(UNPACKED_MAX), ..ReadOptions::default() }
}

/// A simulated run, written as the kernel would have written it.
fn example() -> Result<Vec<u8>, String> {
    let text = "format = 1\nname = \"example\"\nmachine = \"machine\"\nseed = 1\niterations = 1\nduration = \"300ms\"\n\
                [[policy]]\nlabel = \"schedutil\"\ngovernor = \"schedutil\"\n[policy.tunables]\nrate_limit_us = 10000\n\
                [[workload]]\nlabel = \"workload\"\nrtapp = \"workload.json\"\n";
    let work = r#"{"tasks": {"frame": {"instance": 2, "loop": -1, "run": 5000, "timer": {"ref": "unique", "period": 16000}},
                             "small": {"instance": 4, "loop": -1, "run": 400, "timer": {"ref": "unique", "period": 10000}}}}"#;
    let source = |file: &str, text: &str| SourceText { file: file.to_owned(), text: text.to_owned() };
    let machines = BTreeMap::from([("machine".to_owned(), source("juno-r2.toml", machine_text("juno-r2")))]);
    let files = BTreeMap::from([("workload.json".to_owned(), source("workload.json", work))]);
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let experiment = parse_experiment("example", text).map_err(|error| wrong(&error))?;
    let mut cases = experiment.expand(&machines, &files).map_err(|error| wrong(&error))?;
    let case = Case::from(cases.swap_remove(0));
    // The tasks' names are known when the first run ends.
    let outcome = opplab_sim::run(&case, &mut NullSink).map_err(|error| error.0)?;
    let mut sink = RunTrace::new(&case.machine, outcome.task_names, &case.policy, false);
    opplab_sim::run(&case, &mut sink).map_err(|error| error.0)?;
    sink.end(outcome.warmup.wall_ns + outcome.wall_ns);
    let mut bytes = Vec::new();
    trace_dat(&sink.into_trace(), &mut bytes).map_err(|error| wrong(&error))?;
    Ok(bytes)
}

impl Job for Drop {
    fn progress(&self) -> (usize, usize) {
        (self.done, if self.why { 4 } else { 2 })
    }

    fn step(&mut self) -> Result<(), String> {
        let done = self.next();
        self.done += 1;
        done.map_err(|error| format!("{}: {error}", self.name.as_deref().unwrap_or("the example")))
    }

    fn answer(&self) -> Answer {
        let mut out = Answer::default();
        let on = self.machine.as_ref().map_or_else(String::new, |_| format!(" -m {}", self.machine_name));
        out.command = match self.why {
            true => format!("opplab explain FILE{on} --why-slow"),
            false => format!("opplab trace signals FILE{on}"),
        };
        if self.name.is_none() {
            out.say("No file yet: this is a simulated run of 300 ms on a Juno r2, written as trace.dat and read as yours would be.");
        }
        if let Some(info) = &self.info {
            self.show_info(info, &mut out);
        }
        if let (Some(info), Some(found)) = (&self.info, &self.found) {
            self.show_found(info, found, &mut out);
        }
        if let Some(slow) = &self.slow {
            slow.show(&mut out);
        }
        // The event counts are the longest and the least asked for.
        if let Some(info) = &self.info {
            let mut counts: Vec<_> = info.events.iter().collect();
            counts.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), (*name).clone()));
            out.tables.push(Table {
                title: "Events".to_owned(),
                columns: ["event", "count"].map(str::to_owned).to_vec(),
                rows: counts.iter().take(ROWS_MAX).map(|(name, count)| vec![plain(name), count.to_string()]).collect(),
                chosen: None,
            });
        }
        out
    }
}

/// Everything that listens in the pass over the trace.
struct All<'m> {
    pass: Pass<'m, Seen>,
    names: TaskNames,
    view: View,
}

impl SchedSink for All<'_> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        self.pass.event(event, what);
        if *what != SchedEvent::Other {
            let _ = self.names.event(event);
            self.view.event(event, what);
        }
    }
}

/// Sums of samples, and those within the window of the pictures.
struct Seen {
    utils: Utils,
    points: Vec<Sample>,
    window_ns: (u64, u64),
}

impl Samples for Seen {
    fn sample(&mut self, sample: &Sample) {
        self.utils.sample(sample);
        if (self.window_ns.0..self.window_ns.1).contains(&sample.time_ns) && self.points.len() < POINTS_MAX {
            self.points.push(*sample);
        }
    }
}

/// What ran on each CPU and its clock, within a window.
#[derive(Default)]
struct View {
    window_ns: (u64, u64),
    cpus: BTreeMap<u32, ViewCpu>,
    spans: usize,
    cut_ns: Option<u64>,
}

#[derive(Default)]
struct ViewCpu {
    since: Option<(u64, i32)>,
    spans: Vec<(u64, u64, i32)>,
    level: Vec<(u64, u64)>,
    level_max: u64,
}

impl View {
    /// From `now` on `pid` runs on a CPU; `None`: nothing that counts.
    fn runs(&mut self, cpu: u32, now: u64, pid: Option<i32>) {
        let cpu = self.cpus.entry(cpu).or_default();
        if let Some((since, pid)) = cpu.since.take()
            && now > since
        {
            if self.spans < SPANS_MAX {
                cpu.spans.push((since, now, pid));
                self.spans += 1;
            } else {
                self.cut_ns.get_or_insert(now);
            }
        }
        cpu.since = pid.filter(|&pid| pid != 0).map(|pid| (now, pid));
    }

    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        let (from, to) = self.window_ns;
        let now = event.time_ns.clamp(from, to) - from;
        match *what {
            SchedEvent::Switch { next, .. } => self.runs(event.cpu, now, (event.time_ns < to).then_some(next.pid)),
            SchedEvent::Lost { cpu, .. } => self.runs(cpu, now, None),
            SchedEvent::Frequency { cpu, khz } => {
                let khz = u64::from(khz);
                let cpu = self.cpus.entry(cpu).or_default();
                cpu.level_max = cpu.level_max.max(khz);
                // Of those before the window only the last one counts.
                if cpu.level.last().is_some_and(|&(at, _)| at == now) {
                    cpu.level.pop();
                }
                if event.time_ns < to && cpu.level.len() < SPANS_MAX {
                    cpu.level.push((now, khz));
                }
            }
            _ => {}
        }
    }
}

impl Drop {
    fn next(&mut self) -> Result<(), String> {
        let file = match self.file.take() {
            Some(file) => file,
            None => TraceFile::from_bytes(example()?, &options()).map_err(|error| error.to_string())?,
        };
        let file = self.file.insert(file);
        match self.done {
            0 => self.info = Some(file.info(&options()).map_err(|error| error.to_string())?),
            1 => self.found = Some(self.signals()?),
            2 => {
                let replay = self.replay()?;
                self.slow = Some(Slow::of(&replay)?);
                self.replay = Some(replay);
            }
            _ => {
                if let (Some(replay), Some(slow)) = (self.replay.take(), &mut self.slow) {
                    let (words, shared) = check(&replay)?;
                    if shared {
                        *slow = Slow::of(replay.on_stream_of(shared))?;
                    }
                    slow.check = words;
                }
            }
        }
        Ok(())
    }

    fn signals(&self) -> Result<Found, String> {
        let Some(file) = &self.file else { return Err("there is no file".to_owned()) };
        let start_ns = self.info.as_ref().map_or(0, |info| info.start_ns);
        let window_ns = (start_ns.saturating_add(self.window_ns.0), start_ns.saturating_add(self.window_ns.1));
        let machine = self.machine.as_ref();
        let text = |error: opplab_trace::Error| error.to_string();
        let seen = Seen { utils: Utils::new::<HalfLife32>(), points: Vec::new(), window_ns };
        let (pelt, _) = First::of(file).map_err(text)?.load_tracking(None, machine, true, seen);
        let mut all = All {
            pass: Pass::new(pelt, machine, None, true),
            names: TaskNames::default(),
            view: View { window_ns, ..View::default() },
        };
        let (names, mut threads) = (events(), Threads::default());
        let options = all_of(&names);
        let mut reader = file.reader(&options).map_err(text)?;
        let mut sink = decoded_threads(&names, &mut all, &mut threads);
        let outcome = file.stream_reader(&mut *reader, &options, &mut sink).map_err(text)?;
        drop(sink);
        let All { pass: Pass { pelt, mut residency, activations, meter, latencies }, mut names, view } = all;
        residency.finish();
        let cpus = view.cpus.keys().last().map_or(0, |cpu| *cpu as usize + 1);
        if let Some(machine) = machine.filter(|machine| machine.nr_cpus() < cpus) {
            return Err(format!("the trace has {cpus} CPUs, machine {} has {}", machine.name, machine.nr_cpus()));
        }
        names.names.extend(reader.tasks().clone());
        for one in threads.reused().into_iter().rev() {
            let last = names.names.get(&one.pid).filter(|_| one.is_last).cloned();
            if let Some(name) = one.name.map(String::into_bytes).or(last) {
                names.names.insert(one.number, name);
            }
        }
        let names = names.names.into_iter().map(|(pid, name)| (pid, plain(&String::from_utf8_lossy(&name))));
        let Seen { utils, points, .. } = pelt.into_samples();
        let known = Deadlines { given_ns: None, stated_ns: activations.stated_ns.clone() };
        Ok(Found {
            names: names.collect(),
            utils,
            points,
            residency,
            latencies: latencies.unwrap_or_default().finish(&activations.under_way(), &known),
            energy: meter.map(EnergyMeter::finish),
            view,
            problems: outcome.problems.iter().map(ToString::to_string).collect(),
        })
    }

    /// The recovered workload, as `opplab explain --why-slow` recovers it.
    fn replay(&self) -> Result<Replay, String> {
        let (Some(file), Some(machine)) = (&self.file, self.machine.clone()) else {
            return Err("no machine is chosen".to_owned());
        };
        let events: u64 = self.info.as_ref().map_or(0, |info| info.events.values().sum());
        if events > RERUN_MAX {
            return Err(format!(
                "{events} events: more than {RERUN_MAX} are not run again in a tab; `opplab explain --why-slow` does"
            ));
        }
        let text = |error: opplab_replay::ReplayError| error.to_string();
        let events = Events::of(file, Path::new("")).map_err(|error| match error {
            opplab_replay::ReplayError::Trace { reason, .. } => reason,
            other => other.to_string(),
        })?;
        let setup = Setup::of_machine(machine, &events, &Recorded::default()).map_err(text)?;
        Replay::of(events, setup).map_err(text)
    }

    fn show_info(&self, info: &Info, out: &mut Answer) {
        let meta = &info.meta;
        let of = "opplab trace info";
        let version = if meta.version > 0 { format!(" version {}", meta.version) } else { String::new() };
        out.fact("format", format!("{}{version}", meta.format), of);
        out.fact("CPUs", meta.cpus, of);
        out.fact("length", format!("{} s", decimal(info.duration_ns, 9, 9)), of);
        out.fact("events", info.events.values().sum::<u64>(), of);
        if !meta.clock.is_empty() {
            out.fact("clock", plain(&meta.clock), of);
        }
        if !meta.uname.is_empty() {
            out.fact("kernel", plain(&meta.uname), of);
        }
        if !info.missed.is_empty() {
            out.say(format!("The recording has {} gaps: events were lost there.", info.missed.len()));
        }
        let damage = self.found.as_ref().map_or(0, |found| found.problems.len()).max(info.problems.len());
        if damage > 0 {
            let first = info.problems.first().map_or_else(String::new, ToString::to_string);
            out.say(format!("Damaged in {damage} places; what could be read is here. The first: {}", plain(&first)));
        }
    }

    fn show_found(&self, info: &Info, found: &Found, out: &mut Answer) {
        let name = |pid: i32| found.names.get(&pid).cloned().unwrap_or_else(|| "<...>".to_owned());
        let end = (self.window_ns.1 - self.window_ns.0).min(info.duration_ns.saturating_sub(self.window_ns.0).max(1));
        let end = found.view.cut_ns.unwrap_or(end);
        if found.view.cut_ns.is_some() {
            out.say(format!("The picture ends after {SPANS_MAX} pieces; tables are of the whole trace."));
        }
        let lanes = found.view.cpus.iter().map(|(cpu, of)| {
            let mut spans: Vec<_> = of.spans.iter().map(|&(from, to, pid)| (from, to.min(end), name(pid))).collect();
            if let Some((since, pid)) = of.since.filter(|(since, _)| *since < end) {
                spans.push((since, end, name(pid)));
            }
            Lane {
                name: format!("CPU {cpu}"),
                spans,
                level: of.level.iter().filter(|(at, _)| *at <= end).copied().collect(),
                level_max: of.level_max,
                marks: Vec::new(),
            }
        });
        out.charts.push(Chart {
            title: format!("What ran and the clocks, from {} s of the trace", decimal(self.window_ns.0, 9, 3)),
            x: ("time".to_owned(), "ns", end),
            y: ("clock".to_owned(), "kHz", 1),
            lanes: lanes.collect(),
            ..Chart::default()
        });
        self.show_tasks(info, found, end, out);
        show_cpus(found, out);
        match (&found.energy, &self.machine) {
            (Some(energy), Some(machine)) => show_energy(energy, machine, out),
            (_, Some(_)) => out.say("The machine's file has no power, so energy is unknown."),
            (_, None) => out.say("Choose the machine for its capacities and energy."),
        }
    }

    fn show_tasks(&self, info: &Info, found: &Found, end: u64, out: &mut Answer) {
        let name = |pid: i32| found.names.get(&pid).cloned().unwrap_or_else(|| "<...>".to_owned());
        let mut running: BTreeMap<i32, u64> = BTreeMap::new();
        for (&(pid, _, _), &ns) in &found.residency.running_ns {
            *running.entry(pid).or_default() += ns;
        }
        let mut order: Vec<(i32, u64)> = running.into_iter().collect();
        order.sort_by_key(|&(pid, ns)| (std::cmp::Reverse(ns), pid));
        let wanted = |pid: i32| self.task.parse() == Ok(pid_of(pid)) || name(pid) == self.task;
        let drawn = match self.task.is_empty() {
            true => order.first().map(|one| one.0),
            false => order.iter().map(|one| one.0).find(|&pid| wanted(pid)),
        };
        if drawn.is_none() && !self.task.is_empty() {
            out.say(format!(
                "No task `{}` ran; the busiest is `{}`.",
                plain(&self.task),
                order.first().map_or_else(String::new, |one| name(one.0))
            ));
        }
        if let Some(pid) = drawn {
            let from = info.start_ns.saturating_add(self.window_ns.0);
            let mine = || found.points.iter().filter(|point| point.pid == Some(pid) && point.time_ns - from <= end);
            let line = |label: &str, step, color, of: fn(&Sample) -> u64| Series {
                name: label.to_owned(),
                step,
                color,
                points: mine().map(|point| (point.time_ns - from, of(point))).collect(),
            };
            out.charts.push(Chart {
                title: format!("Utilisation of {}, pid {}, rebuilt from the events", name(pid), pid_of(pid)),
                x: ("time".to_owned(), "ns", end),
                y: ("utilisation".to_owned(), "", 1024),
                series: vec![
                    line("util_avg", false, 0, |point| point.util_avg),
                    line("util_est", true, 1, |point| point.util_est.into()),
                ],
                ..Chart::default()
            });
        }
        let all = order.len();
        let rows = order.into_iter().take(ROWS_MAX).map(|(pid, ns)| {
            let util = found.utils.tasks.get(&pid);
            let late = found.latencies.iter().find(|one| one.0 == pid).map(|one| one.1);
            let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            let wait = |at: usize| cell(late.filter(|late| late.wakeups > 0).map(|late| ms(late.waits_ns[at])));
            let energy = found.energy.as_ref().and_then(|energy| energy.tasks.get(&pid));
            vec![
                pid_of(pid).to_string(),
                name(pid),
                ms(ns),
                cell(util.map(|util| format!("{:.1}", util.mean()))),
                cell(util.map(|util| util.max.to_string())),
                cell(late.map(|late| late.wakeups.to_string())),
                wait(0),
                wait(1),
                wait(2),
                cell(late.and_then(|late| Some(format!("{} of {}", late.missed?, late.activations)))),
                cell(energy.map(|one| mj(one.cpu_fj + one.shared_fj))),
            ]
        });
        let columns =
            ["pid", "task", "ran", "util mean", "most", "wake-ups", "wait p50", "p99", "most", "missed", "energy"];
        out.tables.push(Table {
            title: if all > ROWS_MAX { format!("The {ROWS_MAX} busiest of {all} tasks") } else { "Tasks".to_owned() },
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            chosen: None,
        });
    }
}

fn show_cpus(found: &Found, out: &mut Answer) {
    #[derive(Default)]
    struct Cpu {
        ran_ns: u64,
        idle_ns: u64,
        khz_ns: (u128, u64),
    }
    let mut cpus: BTreeMap<u32, Cpu> = BTreeMap::new();
    let residency = &found.residency;
    residency.running_ns.iter().for_each(|((_, cpu, _), ns)| cpus.entry(*cpu).or_default().ran_ns += ns);
    residency.idle_ns.iter().for_each(|((cpu, _), ns)| cpus.entry(*cpu).or_default().idle_ns += ns);
    for (&(cpu, khz), &ns) in &residency.frequency_ns {
        let of = &mut cpus.entry(cpu).or_default().khz_ns;
        *of = (of.0 + u128::from(khz) * u128::from(ns), of.1 + ns);
    }
    let rows = cpus.iter().map(|(cpu, of)| {
        let mean = (of.khz_ns.1 > 0).then(|| of.khz_ns.0 as f64 / of.khz_ns.1 as f64 / 1e3);
        let energy =
            found.energy.as_ref().and_then(|energy| energy.cpus.get(*cpu as usize)).filter(|one| one.is_known());
        vec![
            format!("CPU {cpu}"),
            ms(of.ran_ns),
            ms(of.idle_ns),
            mean.map_or_else(|| "unknown".to_owned(), |mhz| format!("{mhz:.3} MHz")),
            energy.map_or_else(|| "-".to_owned(), |one| mj(one.running_fj + one.idle_fj)),
        ]
    });
    out.tables.push(Table {
        title: "CPUs".to_owned(),
        columns: ["CPU", "ran", "in idle states", "mean clock", "energy"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        chosen: None,
    });
}

fn show_energy(energy: &TraceEnergy, machine: &Machine, out: &mut Answer) {
    let of = "opplab trace energy";
    out.fact("energy", mj(energy.total_fj()), of);
    for (cluster, described) in energy.clusters.iter().zip(&machine.clusters) {
        let known = energy.is_known(cluster, described).then(|| mj(cluster.cpus_fj + cluster.shared_fj));
        out.fact(format!("energy of {}", cluster.name), known.unwrap_or_else(|| "unknown".to_owned()), of);
    }
    let unknown_ns: u64 = energy.cpus.iter().map(|cpu| cpu.unknown_ns).sum();
    if unknown_ns > 0 {
        out.say(format!("{} of running are not in the energy: their clock is not known.", ms(unknown_ns)));
    }
    let idle_ns: u64 = energy.cpus.iter().map(|cpu| cpu.idle_unknown_ns).sum();
    if idle_ns > 0 {
        out.say(format!("{} of idle CPUs are not in the energy: it hangs on a clock that is not known.", ms(idle_ns)));
    }
    if energy.unseen_ns > 0 {
        let time = ms(energy.unseen_ns);
        out.say(format!("{time} of CPUs of which no event shows what they did are not in the energy."));
    }
}

/// Of so many policies each distance is shown.
const LISTED: usize = 8;

/// How near the trace's own policy comes to the trace when its work is run again, and whether CPUs share the recorded stream then.
fn check(replay: &Replay) -> Result<(String, bool), String> {
    let found = replay.compare(None, Mode::Closed).map_err(|error| error.to_string())?;
    if !found.is_checked() {
        return Ok(("The trace has no frequency, so the distance of that run is unknown.".to_owned(), false));
    }
    let points: Vec<String> = found.freq_distance.iter().map(|&distance| decimal(distance, 3, 1)).collect();
    let most = found.freq_distance.iter().max().map_or_else(String::new, |&distance| decimal(distance, 3, 1));
    let points = match points.len() {
        0..=LISTED => format!("{} points", points.join(", ")),
        many => format!("{most} points (the most of {many} policies)"),
    };
    let energy = match found.energy_is_silent() {
        true => "energy not known".to_owned(),
        false => format!("energy within {} %", decimal(found.energy_distance, 3, 1)),
    };
    let near = if found.is_near() { "near" } else { "NOT near" };
    let words = format!("That run against the trace: frequency residency within {points}, {energy}: {near}.");
    Ok((words, found.shares_stream()))
}

impl Slow {
    /// What held CPUs back in a closed loop.
    fn of(replay: &Replay) -> Result<Self, String> {
        let ClosedCase { mut case, start, .. } = replay.closed_case(0).map_err(|error| error.to_string())?;
        // All of the recording is explained, also what a comparison does not count.
        case.workload.warmup_ns = 0;
        let mut sink = WhySlow::new(&case);
        let outcome = opplab_sim::run_from(&case, &start, &mut sink).map_err(|error| error.0)?;
        Ok(Self {
            busy_ns: outcome.busy_ns_by_opp.iter().flatten().sum(),
            energy_fj: outcome.cluster_energy_fj.iter().sum(),
            missed: (outcome.missed_activations, outcome.activations),
            names: outcome.task_names.clone(),
            governor: case.policy.governor.clone(),
            governor_known: replay.setup.governor_known,
            fixed_speed: case.machine.speed_is_constant(),
            kernel: case.policy.kernel.clone(),
            rows: sink.finish(&outcome),
            check: String::new(),
        })
    }

    fn show(&self, out: &mut Answer) {
        #[derive(Default)]
        struct Sum {
            slow_ns: u64,
            lost_ns: u64,
            energy_fj: u128,
            tasks: BTreeMap<u32, u64>,
            khz: BTreeMap<u32, u64>,
        }
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        for (&(_, task, reason, khz), time) in &self.rows {
            let sum = sums.entry(SLOW_REASONS[reason as usize]).or_default();
            sum.slow_ns += time.slow_ns;
            sum.lost_ns += time.lost_ns;
            sum.energy_fj += time.energy_fj;
            *sum.tasks.entry(task).or_default() += time.slow_ns;
            *sum.khz.entry(khz).or_default() += time.slow_ns;
        }
        let (slow_ns, lost_ns) =
            sums.values().fold((0, 0), |(slow, lost), one| (slow + one.slow_ns, lost + one.lost_ns));
        let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        out.say(format!(
            "Its work run again under {}{}, kernel {}: CPUs were busy for {}, {:.1} % of it at a lower clock than their utilisation \
             asks for; {} {} longer. {} of {} activations were missed.",
            self.governor,
            if self.governor_known { "" } else { " (assumed; reasons that hang on the governor are left out)" },
            self.kernel,
            ms(self.busy_ns),
            percent(slow_ns as f64, self.busy_ns as f64),
            if self.fixed_speed { "hardware would take" } else { "that took" },
            ms(lost_ns),
            self.missed.0,
            self.missed.1
        ));
        if !self.check.is_empty() {
            out.say(self.check.clone());
        }
        let most = |of: &BTreeMap<u32, u64>| {
            of.iter().max_by_key(|(at, ns)| (**ns, std::cmp::Reverse(**at))).map(|one| *one.0)
        };
        let is_shown = |reason: &str| self.governor_known || LIMITS.contains(&reason);
        let mut order: Vec<_> = sums.into_iter().filter(|(reason, _)| is_shown(reason)).collect();
        order.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.lost_ns));
        let rows = order.into_iter().map(|(reason, sum)| {
            let task = most(&sum.tasks)
                .and_then(|task| self.names.get(task as usize))
                .map_or_else(String::new, |name| plain(name));
            vec![
                reason.to_owned(),
                ms(sum.slow_ns),
                format!("{:.1} %", percent(sum.slow_ns as f64, self.busy_ns as f64)),
                ms(sum.lost_ns),
                format!("{:.1} %", percent(sum.energy_fj as f64, self.energy_fj as f64)),
                task,
                most(&sum.khz).map_or_else(String::new, |khz| format!("{} MHz", khz / 1000)),
            ]
        });
        let columns = ["reason", "slow", "of busy", "lost", "of energy", "mostly", "mostly at"];
        out.tables.insert(
            0,
            Table {
                title: "What held CPUs below the speed that was needed".to_owned(),
                columns: columns.map(str::to_owned).to_vec(),
                rows: rows.collect(),
                chosen: None,
            },
        );
    }
}

/// `value` of 10^-`digits` with `shown` decimals, rounded half up.
fn decimal(value: u64, digits: u32, shown: u32) -> String {
    let cut = 10u64.pow(digits - shown);
    let value = u128::from(value) + u128::from(cut / 2);
    let (value, one) = (value / u128::from(cut), 10u128.pow(shown));
    format!("{}.{:0width$}", value / one, value % one, width = shown as usize)
}

fn ms(ns: u64) -> String {
    format!("{} ms", decimal(ns, 6, 3))
}

fn mj(fj: u128) -> String {
    format!("{} mJ", four(fj as f64 / 1e12))
}
