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

use opplab_import::fmax::{Candidate, FmaxInput, FmaxReport, KernelChoice, fmax};
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
    let machine = parse_machine(name, machine_text(name)).map_err(|error| error.to_string())?;
    let input = FmaxInput::of_machine(&machine);
    let report = fmax(&input, None);
    let candidates = choices(&report);
    let files = files(values, &machine, &candidates)?;
    let runs = runs(name, &files, candidates)?;
    let version = profile(values.text("kernel"))?.version;
    let own = report.kernels.iter().rposition(|kernel| since(kernel) <= version);
    let own = own.map(|at| &report.kernels[at]);
    let page = Shown { values, input: &input, report: &report, own, runs: &runs };
    let mut out = Answer::default();
    page.sentences(&mut out);
    page.charts(&mut out);
    page.choices(&machine.name, &mut out);
    page.kernels(&mut out);
    report.warnings.iter().for_each(|warning| out.say(format!("{warning}.")));
    out.command = "opplab run f-max.toml".to_owned();
    out.sources = files.map(|(file, text)| (file.to_owned(), text)).into();
    Ok(out)
}

/// The choices of f_max: two names of one number are one, numbers that no kernel sees are none.
fn choices(report: &FmaxReport) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for candidate in report.candidates.iter().filter(|one| FreqMax::from_name(&one.name).is_some()) {
        match found.iter().position(|known| known.ratio == candidate.ratio) {
            Some(known) => found[known].name = format!("{}, {}", found[known].name, candidate.name),
            None if found.len() < CHOICES_MAX => found.push(candidate.clone()),
            None => {}
        }
    }
    found
}

/// The experiment with a policy for each choice, and its load: file names and texts.
fn files(
    values: &Values<'_>,
    machine: &Machine,
    candidates: &[Candidate],
) -> Result<[(&'static str, String); 2], String> {
    let driver = driver(machine).ok_or("the machine has no driver that schedutil could ask")?;
    let (threads, length_ms, period_us) =
        (values.number("threads"), values.number("length_ms"), values.number("period_us"));
    few("activations", threads * length_ms * 1000 / period_us)?;
    let load = format!(
        "{{\"global\": {{\"duration\": 2, \"calibration\": \"CPU0\"}}, \"tasks\": {{\"thread\": {{\"instance\": {threads}, \"loop\": -1, \
         \"run\": {}, \"timer\": {{\"ref\": \"unique\", \"period\": {period_us}}}}}}}}}\n",
        values.number("run_us")
    );
    let mut experiment = format!(
        "format = 1\nname = \"f-max\"\nmachine = \"{}\"\nseed = 1\niterations = 1\nduration = \"{length_ms}ms\"\n\n[defaults]\n\
         kernel = \"{}\"\nhz = {}\ndriver = \"{driver}\"\ngovernor = \"schedutil\"\n",
        values.text("machine"),
        values.text("kernel"),
        values.text("hz")
    );
    for candidate in candidates {
        let name = candidate.name.split(", ").next().unwrap_or_default();
        let _ = write!(experiment, "\n[[policy]]\nlabel = \"{name}\"\nfreq_max = \"{name}\"\n");
    }
    experiment += "\n[[workload]]\nlabel = \"load\"\nrtapp = \"load.json\"\n";
    Ok([("f-max.toml", experiment), ("load.json", load)])
}

/// A run of the experiment for each choice.
fn runs(
    machine: &str,
    [(_, experiment), (load_file, load)]: &[(&str, String); 2],
    candidates: Vec<Candidate>,
) -> Result<Vec<Chosen>, String> {
    let source = |file: &str, text: &str| SourceText { file: file.to_owned(), text: text.to_owned() };
    let machines = BTreeMap::from([(machine.to_owned(), source(&format!("{machine}.toml"), machine_text(machine)))]);
    let loads = BTreeMap::from([((*load_file).to_owned(), source(load_file, load))]);
    let parsed = parse_experiment("f-max.toml", experiment).map_err(|error| error.to_string())?;
    let cases = parsed.expand(&machines, &loads).map_err(|error| error.to_string())?;
    let run = |(file, candidate): (_, Candidate)| {
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
    };
    cases.into_iter().zip(candidates).map(run).collect()
}

/// The version that brought a kernel's choice.
fn since(kernel: &KernelChoice) -> (u16, u16) {
    profile(kernel.kernel).map_or((0, 0), |profile| profile.version)
}

const UNKNOWN: &str = "-";

/// What the page shows.
struct Shown<'a> {
    values: &'a Values<'a>,
    input: &'a FmaxInput,
    report: &'a FmaxReport,
    /// What the chosen kernel takes.
    own: Option<&'a KernelChoice>,
    runs: &'a [Chosen],
}

impl Shown<'_> {
    fn scale(&self, khz: u64, chosen: &Chosen) -> u64 {
        scale_freq_tick(khz, self.input.sources.base_khz.into(), chosen.candidate.ratio).unwrap_or(1024)
    }

    fn at_khz(&self) -> u64 {
        self.values.number("at_mhz") * 1000
    }

    fn end_ns(&self) -> u64 {
        self.values.number("length_ms") * MS
    }

    fn sentences(&self, out: &mut Answer) {
        if let Some(kernel) = self.own {
            out.say(match (&kernel.candidate, kernel.khz) {
                (Some(candidate), _) => format!("This kernel takes {candidate} here: {}.", kernel.why),
                (None, Some(khz)) => format!("This kernel takes {khz} kHz here: {}.", kernel.why),
                (None, None) => format!("This kernel is not frequency-invariant here: {}.", kernel.why),
            });
        }
        let means: Vec<u64> = self.runs.iter().filter_map(|chosen| mean(chosen.watch.utils)).collect();
        if let Some((low, high)) = means.iter().min().zip(means.iter().max()) {
            out.say(format!("The same load has a mean utilisation between {low} and {high}, by the choice of f_max."));
        }
        let base_khz = self.input.sources.base_khz;
        out.fact("highest clock without boost", format!("{} MHz", base_khz / 1000), "MPERF counts at it");
        for chosen in self.runs {
            out.fact(
                format!("scale at {} MHz, {}", self.at_khz() / 1000, chosen.candidate.name),
                self.scale(self.at_khz(), chosen),
                "aperfmperf.c:scale_freq_tick()",
            );
        }
    }

    /// A line for each run. The first one is drawn last, over those that agree with it.
    fn series(&self, step: bool, points: impl Fn(&Chosen) -> Vec<(u64, u64)>) -> Vec<Series> {
        let all = self.runs.iter().enumerate().rev();
        all.map(|(at, chosen)| Series {
            name: chosen.candidate.name.clone(),
            step,
            color: at as u8,
            points: points(chosen),
        })
        .collect()
    }

    fn charts(&self, out: &mut Answer) {
        let turbo_khz = self.input.turbo.iter().map(|bin| bin.khz).max().unwrap_or(0);
        let top_khz = u64::from(turbo_khz.max(self.input.sources.base_khz));
        let clocks = (1..=160).map(|nth| top_khz * nth / 160);
        out.charts.push(Chart {
            title: "Speed that load tracking sees, by the CPU's clock".to_owned(),
            x: ("clock".to_owned(), "kHz", top_khz),
            y: ("scale".to_owned(), "", 1024),
            series: self.series(false, |chosen| clocks.clone().map(|khz| (khz, self.scale(khz, chosen))).collect()),
            lanes: Vec::new(),
            mark: Some(self.at_khz().min(top_khz)),
        });
        let time = || ("time".to_owned(), "ns", self.end_ns());
        out.charts.push(Chart {
            title: "util_avg of a thread, under schedutil".to_owned(),
            x: time(),
            y: ("util_avg".to_owned(), "", 1024),
            series: self.series(true, |chosen| chosen.watch.util.clone()),
            lanes: Vec::new(),
            mark: None,
        });
        let asked_khz = self.runs.iter().flat_map(|chosen| &chosen.watch.asked).map(|point| point.1).max().unwrap_or(0);
        out.charts.push(Chart {
            title: "Clock that schedutil asks for".to_owned(),
            x: time(),
            y: ("clock".to_owned(), "kHz", top_khz.max(asked_khz)),
            series: self.series(true, |chosen| chosen.watch.asked.clone()),
            lanes: Vec::new(),
            mark: None,
        });
    }

    fn choices(&self, machine: &str, out: &mut Answer) {
        let unknown = || UNKNOWN.to_owned();
        let row = |chosen: &Chosen| {
            let Candidate { name, khz, ratio, scale_at_base, source, .. } = &chosen.candidate;
            let asked_khz = chosen.watch.asked_khz(self.end_ns());
            vec![
                name.clone(),
                format!("{:.0} MHz", f64::from(*khz) / 1e3),
                ratio.to_string(),
                scale_at_base.to_string(),
                mean(chosen.watch.utils).map_or_else(unknown, |util| util.to_string()),
                chosen.watch.most.to_string(),
                asked_khz.map_or_else(unknown, |khz| format!("{} MHz", (khz + 500) / 1000)),
                chosen.busy_mhz.map_or_else(unknown, |mhz| format!("{mhz:.0} MHz")),
                format!("{} of {}", chosen.missed, chosen.activations),
                source.clone(),
            ]
        };
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
        let is_amd = self.input.processor.as_ref().is_some_and(|processor| processor.vendor == "AuthenticAMD");
        let of_max = if is_amd { "cppc.c:amd_set_max_freq_ratio()" } else { "aperfmperf.c:intel_set_max_freq_ratio()" };
        let is_own = |chosen: &Chosen| self.own.is_some_and(|kernel| Some(chosen.candidate.ratio) == kernel.ratio);
        out.tables.push(Table {
            title: format!("Each choice on {machine} ({of_max}; utilisation and requests of the second half)"),
            columns: columns.map(str::to_owned).to_vec(),
            chosen: self.runs.iter().position(is_own),
            rows: self.runs.iter().map(row).collect(),
        });
    }

    /// A row for kernels that follow each other and take the same for the same reason.
    fn kernels(&self, out: &mut Answer) {
        let mut spans: Vec<(&KernelChoice, &KernelChoice)> = Vec::new();
        for kernel in &self.report.kernels {
            match spans.last_mut() {
                Some((first, last)) if first.ratio == kernel.ratio && first.why == kernel.why => *last = kernel,
                _ => spans.push((kernel, kernel)),
            }
        }
        let row = |(kernel, last): &(&KernelChoice, &KernelChoice)| {
            vec![
                if kernel == last { kernel.kernel.to_owned() } else { format!("{} to {}", kernel.kernel, last.kernel) },
                kernel.ratio.map_or_else(|| "none".to_owned(), |ratio| ratio.to_string()),
                kernel.khz.map_or_else(|| UNKNOWN.to_owned(), |khz| format!("{:.0} MHz", f64::from(khz) / 1e3)),
                kernel.candidate.clone().unwrap_or_default(),
                kernel.why.clone(),
            ]
        };
        out.tables.push(Table {
            title: "What each kernel takes (opplab fmax)".to_owned(),
            columns: ["kernel", "ratio", "f_max", "choice", "why"].map(str::to_owned).to_vec(),
            rows: spans.iter().map(row).collect(),
            chosen: self.own.and_then(|own| spans.iter().rposition(|(first, _)| since(first) <= since(own))),
        });
    }
}
