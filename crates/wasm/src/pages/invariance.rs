//! What each choice of f_max makes of a load on x86: the speed that load tracking sees, the utilisation, schedutil's clock.
//!
//! ```text
//!   machine file ──► fmax(): every candidate, and which one each kernel takes
//!   candidate    ──► scale_freq_tick() at every clock                            the first picture
//!   candidate    ──► the engine's run of the load under schedutil                utilisation and clock, the second and third
//! ```
//! The runs are those of `opplab run` with `freq_max` set.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opplab_import::fmax::{Candidate, FmaxInput, KernelChoice, fmax};
use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::freq_invariance::{FreqMax, scale_freq_tick};
use opplab_model::event::{Event, Sink};
use opplab_model::experiment::{SourceText, parse_experiment};
use opplab_model::file::parse_machine;
use opplab_model::machine::{Cpufreq, Machine};
use opplab_sim::Case;

use super::bench::busy_mhz;
use super::{MS, Page, few, kernels_since, profile};
use crate::answer::{Answer, Chart, Series, Table};
use crate::machines::{MACHINES, machine_text};
use crate::query::{Control, Values};

/// The page.
pub const PAGE: Page = Page {
    name: "invariance",
    title: "f_max",
    question: "What does each choice of f_max make of this load?",
    about: "On x86 the speed of a CPU is APERF over MPERF, relative to f_max, and turbo makes f_max a choice. The load runs in the \
            engine under schedutil, once for each choice. Scale and utilisation end at 1024, however fast the CPU is.",
    drop: "",
    controls,
    examples: &[
        ("A third of a Skylake", ""),
        ("An EPYC: max_P, midpoint, max_boost", "machine=epyc-7742-2s"),
        ("A load that needs turbo", "run_us=14500"),
        ("Eight threads: less turbo", "threads=8"),
        ("A hybrid laptop", "machine=raptor-lake-i7-13700k"),
    ],
    run: super::Run::Now(answer),
};

/// Beginnings of runs that averages leave out.
const SETTLING: u64 = 2;
/// So many choices can be distinguished in a picture.
const CHOICES_MAX: usize = 6;

fn x86() -> Vec<&'static str> {
    let is_x86 = |text: &str| text.lines().any(|line| line.starts_with("[processor]"));
    let mut names: Vec<_> = MACHINES.iter().filter(|(_, text)| is_x86(text)).map(|(name, _)| *name).collect();
    names.sort_by_key(|name| *name != DEFAULT);
    names
}

const DEFAULT: &str = "skylake-8x-uma";

fn controls() -> Vec<Control> {
    vec![
        Control::range(
            "run_us",
            "Work of a thread, at the highest clock without boost",
            "us",
            [100, 20_000, 100, 5_500],
        ),
        Control::range("period_us", "Period", "us", [1_000, 100_000, 500, 16_000]),
        Control::range("threads", "Threads", "", [1, 16, 1, 1]),
        Control::range("at_mhz", "A CPU that is busy at", "MHz", [100, 6_000, 10, 2_000]),
        Control::choice("machine", "Machine", x86(), DEFAULT),
        Control::choice("kernel", "Kernel", kernels_since((5, 7)), "6.12.117"),
        Control::choice("hz", "CONFIG_HZ", vec!["100", "250", "300", "1000"], "250"),
        Control::range("length_ms", "Shown", "ms", [100, 2_000, 50, 500]),
    ]
}

/// One choice and what the run of it gave.
struct Chosen {
    candidate: Candidate,
    watch: Watch,
    busy_mhz: Option<f64>,
    missed: u64,
    activations: u64,
}

/// A thread's utilisation, and the clock of the CPU that it is on.
#[derive(Default)]
struct Watch {
    from_ns: u64,
    /// Where the thread runs, and what each CPU was last asked for.
    cpu: u32,
    requests: BTreeMap<u32, u64>,
    util: Vec<(u64, u64)>,
    asked: Vec<(u64, u64)>,
    utils: (u64, u64),
    most: u64,
}

impl Watch {
    /// The mean of what was asked for, over time, kHz.
    fn asked_khz(&self, end_ns: u64) -> Option<u64> {
        let ends = self.asked.iter().skip(1).map(|point| point.0).chain([end_ns]);
        let spans =
            self.asked.iter().zip(ends).map(|(&(at, khz), end)| (end.saturating_sub(at.max(self.from_ns)), khz));
        let (time, sum) =
            spans.fold((0, 0), |(time, sum), (ns, khz)| (time + ns, sum + u128::from(ns) * u128::from(khz)));
        sum.checked_div(u128::from(time)).map(|khz| khz as u64)
    }

    fn moves(&mut self, now_ns: u64, cpu: u32) {
        if self.cpu != cpu {
            self.cpu = cpu;
            self.asked.extend(self.requests.get(&cpu).map(|&khz| (now_ns, khz)));
        }
    }
}

impl Sink for Watch {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::PeltSe { cpu, task: 0, util_avg, .. } => {
                self.moves(now_ns, cpu);
                self.util.push((now_ns, util_avg.into()));
                if now_ns >= self.from_ns {
                    self.utils = (self.utils.0 + u64::from(util_avg), self.utils.1 + 1);
                    self.most = self.most.max(util_avg.into());
                }
            }
            Event::FreqRequest { cpu, khz, .. } => {
                self.requests.insert(cpu, khz.into());
                if cpu == self.cpu {
                    self.asked.push((now_ns, khz.into()));
                }
            }
            _ => {}
        }
    }
}

fn mean((sum, count): (u64, u64)) -> Option<u64> {
    (sum + count / 2).checked_div(count)
}

/// The passive driver of the machine: schedutil is not there under an active one.
fn driver(machine: &Machine) -> Option<&'static str> {
    let all = || std::iter::once(&machine.cpufreq).chain(&machine.other_drivers);
    let passive = |driver: &&Cpufreq| matches!(driver.driver.kind, DriverKind::Acpi | DriverKind::IntelPassive);
    all().find(passive).map(|driver| driver.driver.name)
}

fn answer(values: &Values<'_>) -> Result<Answer, String> {
    let name = values.text("machine");
    let text = machine_text(name);
    let machine = parse_machine(name, text).map_err(|error| error.to_string())?;
    let driver = driver(&machine).ok_or("the machine has no driver that schedutil could ask")?;
    let input = FmaxInput::of_machine(&machine);
    let report = fmax(&input, None);
    let mut candidates: Vec<Candidate> = Vec::new();
    for candidate in &report.candidates {
        // Two names of one number are one choice; numbers that no kernel sees are none.
        if FreqMax::from_name(&candidate.name).is_none() {
            continue;
        }
        match candidates.iter().position(|known| known.ratio == candidate.ratio) {
            Some(known) => candidates[known].name = format!("{}, {}", candidates[known].name, candidate.name),
            None if candidates.len() < CHOICES_MAX => candidates.push(candidate.clone()),
            None => {}
        }
    }
    let period_us = values.number("period_us");
    few("activations", values.number("threads") * values.number("length_ms") * 1000 / period_us)?;
    let workload = format!(
        "{{\"global\": {{\"duration\": 2, \"calibration\": \"CPU0\"}}, \"tasks\": {{\"thread\": {{\"instance\": {}, \"loop\": -1, \
         \"run\": {}, \"timer\": {{\"ref\": \"unique\", \"period\": {period_us}}}}}}}}}",
        values.number("threads"),
        values.number("run_us")
    );
    let mut experiment = format!(
        "format = 1\nname = \"f-max\"\nmachine = \"{name}\"\nseed = 1\niterations = 1\nduration = \"{}ms\"\n\n[defaults]\n\
         kernel = \"{}\"\nhz = {}\ndriver = \"{driver}\"\ngovernor = \"schedutil\"\n",
        values.number("length_ms"),
        values.text("kernel"),
        values.text("hz")
    );
    for candidate in &candidates {
        let name = candidate.name.split(", ").next().unwrap_or_default();
        let _ = write!(experiment, "\n[[policy]]\nlabel = \"{name}\"\nfreq_max = \"{name}\"\n");
    }
    experiment += "\n[[workload]]\nlabel = \"load\"\nrtapp = \"load.json\"\n";
    let source = |file: &str, text: &str| SourceText { file: file.to_owned(), text: text.to_owned() };
    let machines = BTreeMap::from([(name.to_owned(), source(&format!("{name}.toml"), text))]);
    let files = BTreeMap::from([("load.json".to_owned(), source("load.json", &workload))]);
    let parsed = parse_experiment("f-max.toml", &experiment).map_err(|error| error.to_string())?;
    let cases = parsed.expand(&machines, &files).map_err(|error| error.to_string())?;
    let runs = cases.into_iter().zip(candidates).map(|(file, candidate)| {
        let case = Case::from(file);
        let mut watch = Watch { from_ns: case.duration_ns / SETTLING, ..Watch::default() };
        let outcome = opplab_sim::run(&case, &mut watch).map_err(|error| format!("{}: {}", candidate.name, error.0))?;
        Ok(Chosen {
            candidate,
            watch,
            busy_mhz: busy_mhz(&outcome),
            missed: outcome.missed_activations,
            activations: outcome.activations,
        })
    });
    let runs = runs.collect::<Result<Vec<_>, String>>()?;

    let mut out = Answer::default();
    let ratio_of = |chosen: &Chosen| chosen.candidate.ratio;
    let at_khz = values.number("at_mhz") * 1000;
    let scale = |khz: u64, ratio: u64| scale_freq_tick(khz, input.sources.base_khz.into(), ratio).unwrap_or(1024);
    let version = profile(values.text("kernel"))?.version;
    let since = |kernel: &KernelChoice| profile(kernel.kernel).map_or((0, 0), |profile| profile.version);
    let own = report.kernels.iter().rposition(|kernel| since(kernel) <= version);
    let own = own.map(|at| &report.kernels[at]);
    let ends = |of: fn(&Chosen) -> Option<u64>| {
        let all: Vec<u64> = runs.iter().filter_map(of).collect();
        all.iter().min().copied().zip(all.iter().max().copied())
    };
    if let Some(kernel) = own {
        out.say(match (&kernel.candidate, kernel.khz) {
            (Some(candidate), _) => format!("This kernel takes {candidate} here: {}.", kernel.why),
            (None, Some(khz)) => format!("This kernel takes {khz} kHz here: {}.", kernel.why),
            (None, None) => format!("This kernel is not frequency-invariant here: {}.", kernel.why),
        });
    }
    if let Some((low, high)) = ends(|chosen| mean(chosen.watch.utils)) {
        out.say(format!("The same load has a mean utilisation between {low} and {high}, by the choice of f_max."));
    }
    let of_tick = "aperfmperf.c:scale_freq_tick()";
    let of_max = if input.processor.as_ref().is_some_and(|processor| processor.vendor == "AuthenticAMD") {
        "cppc.c:amd_set_max_freq_ratio()"
    } else {
        "aperfmperf.c:intel_set_max_freq_ratio()"
    };
    out.fact("highest clock without boost", format!("{} MHz", input.sources.base_khz / 1000), "MPERF counts at it");
    for chosen in &runs {
        out.fact(
            format!("scale at {} MHz, {}", at_khz / 1000, chosen.candidate.name),
            scale(at_khz, ratio_of(chosen)),
            of_tick,
        );
    }
    let top_khz = u64::from(input.turbo.iter().map(|bin| bin.khz).max().unwrap_or(0).max(input.sources.base_khz));
    let series = |of: &dyn Fn(&Chosen) -> Vec<(u64, u64)>, step: bool| {
        // The first one is drawn last, over those that agree with it.
        let all = runs.iter().enumerate().rev();
        all.map(|(at, chosen)| Series {
            name: chosen.candidate.name.clone(),
            step,
            color: at as u8,
            points: of(chosen),
        })
        .collect::<Vec<_>>()
    };
    let clocks = |chosen: &Chosen| {
        let ratio = ratio_of(chosen);
        (1..=160).map(|nth| top_khz * nth / 160).map(|khz| (khz, scale(khz, ratio))).collect()
    };
    out.charts.push(Chart {
        title: "Speed that load tracking sees, by the CPU's clock".to_owned(),
        x: ("clock".to_owned(), "kHz", top_khz),
        y: ("scale".to_owned(), "", 1024),
        series: series(&clocks, false),
        lanes: Vec::new(),
        mark: Some(at_khz.min(top_khz)),
    });
    let end_ns = values.number("length_ms") * MS;
    out.charts.push(Chart {
        title: "util_avg of a thread, under schedutil".to_owned(),
        x: ("time".to_owned(), "ns", end_ns),
        y: ("util_avg".to_owned(), "", 1024),
        series: series(&|chosen| chosen.watch.util.clone(), true),
        lanes: Vec::new(),
        mark: None,
    });
    let asked_khz = runs.iter().flat_map(|chosen| &chosen.watch.asked).map(|point| point.1).max().unwrap_or(0);
    out.charts.push(Chart {
        title: "Clock that schedutil asks for".to_owned(),
        x: ("time".to_owned(), "ns", end_ns),
        y: ("clock".to_owned(), "kHz", top_khz.max(asked_khz)),
        series: series(&|chosen| chosen.watch.asked.clone(), true),
        lanes: Vec::new(),
        mark: None,
    });
    let unknown = || "-".to_owned();
    let rows = runs.iter().map(|chosen| {
        let Candidate { name, khz, ratio, scale_at_base, source, .. } = &chosen.candidate;
        vec![
            name.clone(),
            format!("{:.0} MHz", f64::from(*khz) / 1e3),
            ratio.to_string(),
            scale_at_base.to_string(),
            mean(chosen.watch.utils).map_or_else(unknown, |util| util.to_string()),
            chosen.watch.most.to_string(),
            chosen.watch.asked_khz(end_ns).map_or_else(unknown, |khz| format!("{} MHz", (khz + 500) / 1000)),
            chosen.busy_mhz.map_or_else(unknown, |mhz| format!("{mhz:.0} MHz")),
            format!("{} of {}", chosen.missed, chosen.activations),
            source.clone(),
        ]
    });
    let columns = [
        "f_max",
        "is",
        "ratio",
        "scale at base",
        "mean util",
        "most",
        "asked, mean",
        "busy clock, whole run",
        "missed",
        "from",
    ];
    out.tables.push(Table {
        title: format!("Each choice on {} ({of_max}; utilisation and requests of the second half)", machine.name),
        columns: columns.map(str::to_owned).to_vec(),
        chosen: own.and_then(|kernel| runs.iter().position(|chosen| Some(chosen.candidate.ratio) == kernel.ratio)),
        rows: rows.collect(),
    });
    // A row for kernels that follow each other and take the same for the same reason.
    let mut rows: Vec<(&KernelChoice, &KernelChoice)> = Vec::new();
    for kernel in &report.kernels {
        match rows.last_mut() {
            Some((first, last)) if first.ratio == kernel.ratio && first.why == kernel.why => *last = kernel,
            _ => rows.push((kernel, kernel)),
        }
    }
    let kernels = rows.iter().map(|(kernel, last)| {
        vec![
            if kernel == last { kernel.kernel.to_owned() } else { format!("{} to {}", kernel.kernel, last.kernel) },
            kernel.ratio.map_or_else(|| "none".to_owned(), |ratio| ratio.to_string()),
            kernel.khz.map_or_else(unknown, |khz| format!("{:.0} MHz", f64::from(khz) / 1e3)),
            kernel.candidate.clone().unwrap_or_default(),
            kernel.why.clone(),
        ]
    });
    out.tables.push(Table {
        title: "What each kernel takes (opplab fmax)".to_owned(),
        columns: ["kernel", "ratio", "f_max", "choice", "why"].map(str::to_owned).to_vec(),
        rows: kernels.collect(),
        chosen: own.and_then(|own| rows.iter().rposition(|(first, _)| since(first) <= since(own))),
    });
    report.warnings.iter().for_each(|warning| out.say(format!("{warning}.")));
    out.command = "opplab run f-max.toml".to_owned();
    out.sources = vec![("f-max.toml".to_owned(), experiment), ("load.json".to_owned(), workload + "\n")];
    Ok(out)
}
