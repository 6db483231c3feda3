//! `compare`: a command under several settings, in blocks, and what changes.
//!
//! ```text
//!   options ─► variants ─► settings saved ─► worker: warm-up, A/A, blocks ─► runs.jsonl ─► report
//!                              │                 │ a run is on the disk before the next begins
//!                              ▼                 ▼
//!                     supervisor: waits, ends what still runs, puts everything back
//! ```
//! Without settings to write there is nothing to put back, and no supervisor.

pub mod bench;
pub mod design;
pub mod external;
pub mod figures;
pub mod log;
pub mod measure;
pub mod reboot;
pub mod report;
pub mod run;
pub mod settings;
pub mod variants;

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use lexopt::prelude::*;
use rustix::process::{Pid, Signal, kill_process_group};

pub(crate) use self::bench::is_alone;

use self::bench::Live;
use self::figures::Figure;
use self::log::{Head, Log};
use self::run::{Ended, Plan, experiment};
use self::settings::{Settings, files};
use self::variants::{Level, Variant, called, variants};
use crate::clock::Stop;
use crate::command::{Env, print, print_help, text, time_ns};
use crate::error::HostError;
use crate::govern::{Places, finish, lock, restore_left, save};
use crate::root::Root;
use crate::whole::own_folder;

const HELP: &str = "Usage: compare [OPTIONS] [--] COMMAND [ARGS]

Run a command under several settings of this machine, and measure the changes.
A block has one run of each variant, in random order. The first value of each
option is the baseline; several options are crossed. All settings are
restored. The spread of the first blocks determines the number of blocks
(Stein's rule), so that the interval holds.

Settings:
  --governor A,B        scaling_governor of all policies
  --epp A,B             energy_performance_preference of all policies
  --boost on,off        turbo or boost
  --set 'FILE=VALUE'    setting below /sys or /proc/sys; policy*/..., cpu*/...,
                        sysctl:NAME; repeat for each variant; '' leaves the
                        machine as it is
  --env 'NAME=VALUE'    environment variables; repeat for each variant
  --nice A,B            nice values
  --kernel A,B          kernel releases: a one-shot boot entry restarts the
                        machine into each
  --command 'LINE'      shell command in place of COMMAND; repeat for each
                        variant
  --label NAME          name of a variant, in place of its settings; repeat for
                        each variant
Design:
  --within PERCENT      half-width of the interval at which the experiment ends
                        (1)
  --pilot N             blocks that determine the spread (6, or --blocks)
  --blocks N            largest number of blocks (30)
  --for TIME            time after which no block begins (90s, 10m, 2h)
  --warm-up N           discarded runs before the first block (1)
  --same N              consecutive baseline runs, for this machine's
                        resolution (4)
  --rest SECONDS        pause before each run
  --cool                pause until the temperature is back
  --others CPUS         load of other programs, in CPUs, that repeats a block
                        (0.2)
  --repeats N           largest number of repeated blocks (10)
  --seed N              seed of the random order (1)
Measures:
  --metric 'NAME=/PATTERN/'
                        value in the output of COMMAND; NAME[UNIT], -NAME if
                        less is better; may be repeated
  --meter FILE.csv      log of an external meter: watts by seconds since 1970
  --by NAME             metric of the final interval (the program's first, or
                        wall)
Results:
  -o, --output FOLDER   folder of runs.jsonl; an existing one continues
                        (host-compare)
  --name NAME           name of the benchmark in the results (the command's)
  --format text|json    format of the report
  --dry-run             print every write without any change
  --report              report on the folder's runs without a run
  --root FOLDER         other root than /
  --state FILE          file of the saved settings
";

struct Options {
    root: PathBuf,
    state: PathBuf,
    output: PathBuf,
    dimensions: Vec<Vec<Level>>,
    labels: Vec<String>,
    plan: Plan,
    metrics: Vec<Figure>,
    by: String,
    within_ppm: u32,
    pilot: Option<u32>,
    blocks: Option<u32>,
    seed: u64,
    name: String,
    is_json: bool,
    is_dry: bool,
    is_report: bool,
    is_worker: bool,
    command: Vec<OsString>,
}

pub(crate) fn number<T>(option: &str, words: &str, least: T, most: T) -> Result<T, HostError>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let found = words.parse::<T>().ok().filter(|value| (&least..=&most).contains(&value));
    found.ok_or_else(|| HostError::Usage(format!("--{option}: `{words}` is not a number of {least} to {most}")))
}

/// A time with its unit, or seconds.
pub(crate) fn duration_ns(option: &str, words: &str) -> Result<u64, HostError> {
    let unit = if words.ends_with(|last: char| last.is_ascii_digit()) { "s" } else { "" };
    time_ns(option, &format!("{words}{unit}"))
}

impl Options {
    fn read(words: &mut lexopt::Parser) -> Result<Option<Self>, HostError> {
        let plan = Plan {
            variants: Vec::new(),
            warm_up: 1,
            same: 4,
            blocks_max: 30,
            for_ns: None,
            rest_ns: 0,
            cool: false,
            others_cpus: 0.2,
            repeats_max: 10,
            figures: Vec::new(),
            meter: None,
        };
        let mut options = Self {
            root: "/".into(),
            state: PathBuf::new(),
            output: "host-compare".into(),
            dimensions: Vec::new(),
            labels: Vec::new(),
            plan,
            metrics: Vec::new(),
            by: String::new(),
            within_ppm: 10_000,
            pilot: None,
            blocks: None,
            seed: 1,
            name: String::new(),
            is_json: false,
            is_dry: false,
            is_report: false,
            is_worker: false,
            command: Vec::new(),
        };
        // Options that are given again and again are one dimension.
        let mut again: [Vec<Level>; 3] = Default::default();
        while let Some(word) = words.next()? {
            let name = match word {
                Long("help") | Short('h') => return Ok(None),
                Long("cool") => {
                    options.plan.cool = true;
                    continue;
                }
                Long("dry-run") => {
                    options.is_dry = true;
                    continue;
                }
                Long("report") => {
                    options.is_report = true;
                    continue;
                }
                Long("worker") => {
                    options.is_worker = true;
                    continue;
                }
                Short('o') => "output".to_owned(),
                Long(name) => name.to_owned(),
                Value(first) => {
                    options.command = vec![first];
                    options.command.extend(words.raw_args()?);
                    break;
                }
                Short(_) => return Err(word.unexpected().into()),
            };
            if !NAMES.contains(&name.as_str()) {
                let near = crate::command::nearest(&name, NAMES.iter().copied());
                return Err(HostError::Usage(format!("no option --{name}{near}")));
            }
            let value = words.value()?;
            options.set(&name, value, &mut again)?;
        }
        if let (Some(pilot), Some(blocks)) = (options.pilot, options.blocks)
            && pilot > blocks
        {
            return Err(HostError::Usage(format!("--pilot {pilot} takes more blocks than --blocks {blocks}")));
        }
        options.plan.blocks_max = options.blocks.unwrap_or(BLOCKS.max(options.pilot.unwrap_or(0)));
        options.dimensions.extend(again.into_iter().filter(|levels| !levels.is_empty()));
        Ok(Some(options))
    }

    fn set(&mut self, name: &str, value: OsString, again: &mut [Vec<Level>; 3]) -> Result<(), HostError> {
        let words = text(value.clone());
        let list = || words.split(',').map(str::trim).filter(|part| !part.is_empty());
        match name {
            "governor" => self.dimensions.push(list().map(|word| Level::Governor(word.to_owned())).collect()),
            "epp" => self.dimensions.push(list().map(|word| Level::Epp(word.to_owned())).collect()),
            "boost" => {
                let levels = list().map(|word| match word {
                    "on" => Ok(Level::Boost(true)),
                    "off" => Ok(Level::Boost(false)),
                    _ => Err(HostError::Usage(format!("--boost: `{word}` is neither on nor off"))),
                });
                self.dimensions.push(levels.collect::<Result<_, _>>()?);
            }
            "kernel" => self.dimensions.push(list().map(|word| Level::Kernel(word.to_owned())).collect()),
            "nice" => {
                let levels = list().map(|word| number("nice", word, -20, 19).map(Level::Nice));
                self.dimensions.push(levels.collect::<Result<_, _>>()?);
            }
            "set" => again[0].push(Level::Set(words)),
            "env" => again[1].push(Level::Env(words)),
            "command" => again[2].push(Level::Command(words)),
            "label" => self.labels.push(words),
            "within" => self.within_ppm = (number::<f64>(name, &words, 0.01, 100.0)? * 10_000.0).round() as u32,
            "pilot" => self.pilot = Some(number(name, &words, 2, 1000)?),
            "blocks" => self.blocks = Some(number(name, &words, 2, 100_000)?),
            "for" => self.plan.for_ns = Some(duration_ns(name, &words)?),
            "warm-up" => self.plan.warm_up = number(name, &words, 0, 1000)?,
            "same" => self.plan.same = number(name, &words, 0, 1000)?,
            "rest" => self.plan.rest_ns = (number::<f64>(name, &words, 0.0, 3600.0)? * 1e9) as u64,
            "others" => self.plan.others_cpus = number(name, &words, 0.0, 10_000.0)?,
            "repeats" => self.plan.repeats_max = number(name, &words, 0, 100_000)?,
            "seed" => self.seed = number(name, &words, 0, u64::MAX)?,
            "meter" => self.plan.meter = Some(external::Meter::open(Path::new(&value))?),
            "metric" => self.metrics.push(figures::parse(&words)?),
            "by" => self.by = words,
            "output" => self.output = value.into(),
            "name" => self.name = words,
            "format" => {
                self.is_json = match words.as_str() {
                    "json" => true,
                    "text" => false,
                    _ => return Err(HostError::Usage(format!("--format: `{words}` is neither text nor json"))),
                }
            }
            "root" => self.root = value.into(),
            _ => self.state = value.into(),
        }
        Ok(())
    }

    /// The head of the file, and the readers of what the program prints.
    fn head(&self, root: &Root, variants: &[Variant]) -> (Head, Vec<Figure>) {
        let shown: Vec<String> = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let command = if shown.is_empty() {
            variants.iter().filter_map(|variant| variant.command.clone()).next().unwrap_or_default()
        } else {
            shown.join(" ")
        };
        let figures = if self.metrics.is_empty() { figures::known(&command) } else { self.metrics.clone() };
        let line = |path: &str| root.text(path).ok().filter(|text| !text.is_empty());
        let program = command.split([' ', '/']).rfind(|word| !word.is_empty()).unwrap_or("command");
        let first = command.split(' ').next().and_then(|word| word.rsplit('/').next()).unwrap_or(program);
        let head = Head {
            seed: self.seed,
            variants: variants.iter().map(|variant| variant.name.clone()).collect(),
            benchmark: if self.name.is_empty() { first.to_owned() } else { self.name.clone() },
            machine: line("/proc/sys/kernel/hostname").unwrap_or_else(|| "host".to_owned()),
            kernel: releases(variants)
                .or_else(|| line("/proc/sys/kernel/osrelease"))
                .unwrap_or_else(|| "unknown".to_owned()),
            metric: self.by.clone(),
            pilot: self.pilot.unwrap_or(PILOT.min(self.plan.blocks_max)),
            within_ppm: self.within_ppm,
            command,
        };
        (head, figures)
    }
}

/// The kernels of an experiment that has several.
fn releases(variants: &[Variant]) -> Option<String> {
    let mut found: Vec<&str> = Vec::new();
    for release in variants.iter().filter_map(|variant| variant.kernel.as_deref()) {
        if !found.contains(&release) {
            found.push(release);
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Blocks that give the deviation, where that many are allowed.
const PILOT: u32 = 6;
/// Blocks at most, where nothing is given.
const BLOCKS: u32 = 30;

const NAMES: &[&str] = &[
    "governor", "epp", "boost", "set", "env", "nice", "kernel", "command", "label", "within", "pilot", "blocks", "for",
    "warm-up", "same", "rest", "others", "repeats", "seed", "metric", "meter", "by", "output", "name", "format",
    "root", "state",
];

/// The command.
/// The folder that a command line of `compare` writes to, if it runs at all.
pub(crate) fn output_of(words: &mut lexopt::Parser) -> Option<PathBuf> {
    let options = Options::read(words).ok()??;
    (!options.is_dry && !options.is_worker).then_some(options.output)
}

pub(crate) fn command(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let given: Vec<OsString> = words.raw_args()?.collect();
    let mut words = lexopt::Parser::from_args(given.clone());
    let Some(options) = Options::read(&mut words)? else { return print_help(env, HELP) };
    let path = options.output.join("runs.jsonl");
    if options.is_report {
        return show(&Log::read(&path)?, options.is_json, env);
    }
    let root = Root::open(&options.root)?;
    let found = called(variants(&options.dimensions, &root)?, &options.labels)?;
    if found.len() < 2 {
        let words = "one variant alone is no comparison: give an option two values (see compare --help)";
        return Err(HostError::Usage(words.to_owned()));
    }
    if options.command.is_empty() && found.iter().any(|variant| variant.command.is_none()) {
        return Err(HostError::Usage("no command to run: give it after --".to_owned()));
    }
    let goes_on = Booted::of(&root, &found, env, &given)?;
    if options.is_dry {
        return print(env, &(dry(&root, &found) + &goes_on.as_ref().map_or_else(String::new, |one| one.shown(&root))));
    }
    if matches!(root, Root::Tree(_)) {
        return Err(HostError::Lacking(format!("{} is a snapshot: nothing runs on it", options.root.display())));
    }
    let done = measured(&root, options, found, &given, goes_on.as_ref(), env);
    if done.is_err() && goes_on.is_some() {
        // What went wrong goes wrong after each start.
        reboot::clean(&root)?;
    }
    done
}

/// Runs what is left of an experiment, and reports.
fn measured(
    root: &Root,
    mut options: Options,
    found: Vec<Variant>,
    given: &[OsString],
    goes_on: Option<&Booted>,
    env: &mut Env<'_>,
) -> Result<i32, HostError> {
    let path = options.output.join("runs.jsonl");
    let (head, figures) = options.head(root, &found);
    let known: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    if !options.by.is_empty() && options.by != "wall" && !known.contains(&options.by.as_str()) {
        // Metrics of the machine are known when the first run has ended.
        let of_machine =
            options.by.starts_with("energy") || ["cpu", "switches", "clock"].contains(&options.by.as_str());
        if !of_machine {
            let near = crate::command::nearest(&options.by, known.iter().copied().chain(["wall", "cpu", "energy"]));
            return Err(HostError::Usage(format!("--by: no metric `{}`{near}", options.by)));
        }
    }
    options.plan.variants = found;
    options.plan.figures = figures;
    own_folder(&options.output, &["runs.jsonl", "output.txt"])?;
    std::fs::create_dir_all(&options.output)
        .map_err(|error| HostError::io(options.output.display().to_string(), error))?;
    if goes_on.is_some() {
        Booted::began(root, &options)?;
    }
    let has_writes = !files(&options.plan.variants).is_empty();
    if has_writes && !options.is_worker {
        // What is wrong with the folder is reported before anything is written.
        drop(Log::open(&path, head)?);
        let what = Supervised { command: "compare", variants: &options.plan.variants, given };
        let ended = supervise(root, &options.state, &what, env)?;
        if let (REBOOT, Some(booted)) = (ended, goes_on) {
            return booted.start(root, &options, env);
        }
        if let Some(booted) = goes_on {
            booted.end(root, &options)?;
        }
        if ended != 0 {
            return Ok(ended);
        }
        return show(&Log::read(&path)?, options.is_json, env);
    }
    let mut log = Log::open(&path, head)?;
    let mut settings = Settings::of(root, &options.plan.variants, std::process::id())?;
    let mut bench = Live::new(
        Root::open(&options.root)?,
        options.command.clone(),
        options.output.join("output.txt"),
        options.is_worker,
    )?;
    let ended = experiment(&options.plan, &mut bench, &mut settings, &mut log, env.err);
    if options.is_worker && bench.is_alone() {
        // The supervisor was killed, or is about to do the same.
        finish(root, &Places::of(root, options.state.clone()), &settings.saved)?;
    }
    if let (Ok(Ended::Reboot(variant)), Some(booted)) = (&ended, goes_on) {
        let release = options.plan.variants.get(*variant).and_then(|one| one.kernel.clone()).unwrap_or_default();
        booted.ask(root, &options, &release)?;
        return if options.is_worker { Ok(REBOOT) } else { booted.start(root, &options, env) };
    }
    if let (Some(booted), false) = (goes_on, options.is_worker) {
        booted.end(root, &options)?;
    }
    let ended = ended?;
    if ended == Ended::Stopped {
        let _ = writeln!(env.err, "ended: {} has what was measured; the same command goes on", path.display());
        return Ok(130);
    }
    if options.is_worker { Ok(0) } else { show(&log, options.is_json, env) }
}

/// Exit code of a worker whose next run is of another kernel.
const REBOOT: i32 = 75;

/// An experiment of several kernels: how it goes on after a start.
struct Booted {
    releases: Vec<String>,
    words: Vec<OsString>,
    folder: String,
}

impl Booted {
    /// `None` for one of the kernel that runs; entries that are not there are refused before anything runs.
    fn of(root: &Root, variants: &[Variant], env: &Env<'_>, given: &[OsString]) -> Result<Option<Self>, HostError> {
        let Some(releases) = releases(variants) else { return Ok(None) };
        let folder = std::env::current_dir().map_err(|error| HostError::io("this folder", error))?;
        let given = given.iter().filter(|word| *word != "--worker" && *word != "--dry-run");
        let words = env.again.iter().cloned().chain(["compare".into()]).chain(given.cloned()).collect();
        let releases: Vec<String> = releases.split(", ").map(str::to_owned).collect();
        let booted = Self { releases, words, folder: folder.display().to_string() };
        for release in &booted.releases {
            reboot::writes(root, release, &booted.words, &booted.folder)?;
        }
        Ok(Some(booted))
    }

    fn path(options: &Options) -> PathBuf {
        options.output.join("starts")
    }

    fn asked(options: &Options) -> reboot::Asked {
        reboot::Asked::parse(&std::fs::read_to_string(Self::path(options)).unwrap_or_default())
    }

    fn keep(options: &Options, asked: &reboot::Asked) -> Result<(), HostError> {
        crate::whole::write_whole(&Self::path(options), &asked.text())
            .map_err(|error| HostError::io(Self::path(options).display().to_string(), error))
    }

    /// After a start: the kernel that was asked for came, or another.
    fn began(root: &Root, options: &Options) -> Result<(), HostError> {
        let mut asked = Self::asked(options);
        asked.began(&reboot::running(root));
        if Self::path(options).exists() { Self::keep(options, &asked) } else { Ok(()) }
    }

    fn ask(&self, root: &Root, options: &Options, release: &str) -> Result<(), HostError> {
        let mut asked = Self::asked(options);
        let most = (options.plan.blocks_max + options.plan.repeats_max + 4) * 2 * self.releases.len() as u32;
        let wrong = asked.next(release, &reboot::running(root), most);
        Self::keep(options, &asked)?;
        if wrong.is_err() {
            self.end(root, options)?;
        }
        wrong
    }

    /// Starts the machine anew into the kernel that was asked for.
    fn start(&self, root: &Root, options: &Options, env: &mut Env<'_>) -> Result<i32, HostError> {
        let release = Self::asked(options).release;
        if !root.is_live() {
            return Err(HostError::Lacking("only the live machine is started anew".to_owned()));
        }
        reboot::prepare(root, &release, &self.words, &self.folder)?;
        let _ = writeln!(env.err, "starting anew into {release}; {} goes on there", reboot::UNIT);
        let done = Command::new("systemctl").arg("reboot").status();
        match done {
            Ok(status) if status.success() => Ok(0),
            other => {
                reboot::clean(root)?;
                Err(HostError::Lacking(format!("systemctl reboot: {other:?}")))
            }
        }
    }

    /// Nothing of the experiment is left where it does not belong.
    fn end(&self, root: &Root, options: &Options) -> Result<(), HostError> {
        let _ = std::fs::remove_file(Self::path(options));
        reboot::clean(root)
    }

    fn shown(&self, root: &Root) -> String {
        let mut out = String::new();
        for release in &self.releases {
            out += &format!("start into {release}:\n");
            for (path, bytes) in reboot::writes(root, release, &self.words, &self.folder).unwrap_or_default() {
                let text = String::from_utf8_lossy(&bytes).replace('\0', "");
                out += &format!("  {path}:\n");
                for line in text.trim_end_matches('#').lines() {
                    out += &format!("    {line}\n");
                }
            }
        }
        out + &format!(
            "removed at the end:\n  {}\n  {}\n  a one-shot entry that was not taken\n",
            reboot::UNIT,
            reboot::WANTED
        )
    }
}

fn show(log: &Log, is_json: bool, env: &mut Env<'_>) -> Result<i32, HostError> {
    print(env, &if is_json { report::json(log) } else { report::text(log) })
}

/// Every write of every variant, and what is put back.
pub(crate) fn dry(root: &Root, variants: &[Variant]) -> String {
    let mut out = String::new();
    for variant in variants {
        out += &format!("{}:\n", variant.name);
        for (path, value) in &variant.writes {
            out += &format!("  {path} = {value}\n");
        }
        for (name, value) in &variant.env {
            out += &format!("  environment {name}={value}\n");
        }
        if let Some(line) = &variant.command {
            out += &format!("  command {line}\n");
        }
        if let Some(nice) = variant.nice {
            out += &format!("  nice {nice}\n");
        }
        if let Some(release) = &variant.kernel {
            out += &format!("  kernel {release}\n");
        }
        if variant.writes.is_empty()
            && variant.kernel.is_none()
            && variant.env.is_empty()
            && variant.command.is_none()
            && variant.nice.is_none()
        {
            out += "  nothing\n";
        }
    }
    let files = files(variants);
    if !files.is_empty() {
        out += "put back:\n";
    }
    for path in files {
        match root.text(&path) {
            Ok(value) => out += &format!("  {path} = {value}\n"),
            Err(why) => out += &format!("  {path}: {}\n", why.words()),
        }
    }
    out
}

/// A command whose worker is supervised, the settings that it writes, and the words that it was given.
pub(crate) struct Supervised<'a> {
    pub(crate) command: &'a str,
    pub(crate) variants: &'a [Variant],
    pub(crate) given: &'a [OsString],
}

/// Saves, starts the worker, waits for it, puts everything back: also if the worker is killed.
pub(crate) fn supervise(root: &Root, state: &Path, what: &Supervised<'_>, env: &mut Env<'_>) -> Result<i32, HostError> {
    let [program, leading @ ..] = env.again.as_slice() else {
        return Err(HostError::Lacking("this program cannot start itself again".to_owned()));
    };
    let places = Places::of(root, state.to_path_buf());
    let stop = Stop::on_signals()?;
    let _lock = lock(root)?;
    let (_, away) = restore_left(root, &places, env.err)?;
    let saved = Settings::of(root, what.variants, std::process::id())?.saved.with(away);
    save(&saved, root, &places)?;
    let spawned = Command::new(program)
        .args(leading)
        .args([what.command, "--worker"])
        .args(what.given)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            finish(root, &places, &saved)?;
            return Err(HostError::io("starting the worker", error));
        }
    };
    // The group that runs now, so that it can be ended if the worker cannot.
    let group = Arc::new(AtomicI32::new(0));
    if let Some(lines) = child.stdout.take() {
        let group = Arc::clone(&group);
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                group.store(line.trim().parse().unwrap_or(0), Ordering::Relaxed);
            }
        });
    }
    let mut tether = child.stdin.take();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(error) => break Err(HostError::io("waiting for the worker", error)),
        }
        if stop.is_raised() {
            // The worker sees it, ends the program and then itself.
            tether = None;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    drop(tether);
    if let Some(pid) = Pid::from_raw(group.load(Ordering::Relaxed)) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    finish(root, &places, &saved)?;
    let status = status?;
    match status.code() {
        Some(code) => Ok(code),
        None => Err(HostError::Lacking(format!("the worker ended by {status}; all settings are put back"))),
    }
}
