//! `calibrate`: ten minutes on a machine, and what was measured of it: speed, clock and power of loops, idle states,
//! wake-ups, frequency changes, cache lines, the disk. Each number has an interval, what cannot be measured a reason.
//!
//! ```text
//!   Root ─► plan: steps with their writes ─► settings saved ─► worker: rounds of all steps ─► calibration.json
//! ```
//! What the numbers mean for a machine file is not known here (`opplab host calibrate` makes one of them).

pub mod loops;
pub mod measure;
pub mod plan;

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;
use opplab_model::tree::to_json;

use self::loops::{Class, Walk, exchange, flush, spin, wake, watch};
use self::measure::{Lab, measure};
use self::plan::Plan;
use crate::clock::{Moment, Stop, monotonic_ns};
use crate::command::{Env, print, print_help, text};
use crate::compare::measure::Meters;
use crate::compare::settings::{Settings, files};
use crate::compare::variants::Variant;
use crate::compare::{Supervised, dry, duration_ns, is_alone, number, supervise};
use crate::error::HostError;
use crate::govern::{Places, finish};
use crate::root::{CPU, Root};
use crate::whole::{own_folder, write_whole};

const HELP: &str = "Usage: calibrate [OPTIONS]

Measure this machine: speed, clock and power of three classes of loops, by
clock and busy cores. Further steps are idle power and wake-up latency by
state, frequency changes, second threads, memory, shared cache lines and the
disk's flushes. Each number has an interval over the rounds. Numbers that
cannot be measured are listed with the reason. All settings are restored.

  --for TIME            total time of the rounds (10m)
  --rounds N            number of rounds; each has every step once, in random
                        order (5)
  -o, --output FOLDER   folder of calibration.json (host-calibrate)
  --format text|json    format of the report
  --read-only           write no setting; numbers that need one stay unknown
                        (as without root)
  --dry-run             print every step and every write without any change
  --root FOLDER         other root than /
  --state FILE          file of the saved settings
";

struct Options {
    root: PathBuf,
    state: PathBuf,
    output: PathBuf,
    for_ns: u64,
    rounds: u32,
    is_json: bool,
    is_dry: bool,
    is_read_only: bool,
    is_worker: bool,
}

impl Options {
    fn read(words: &mut lexopt::Parser) -> Result<Option<Self>, HostError> {
        let mut options = Self {
            root: "/".into(),
            state: PathBuf::new(),
            output: "host-calibrate".into(),
            for_ns: 600_000_000_000,
            rounds: 5,
            is_json: false,
            is_dry: false,
            is_read_only: false,
            is_worker: false,
        };
        while let Some(word) = words.next()? {
            match word {
                Long("help") | Short('h') => return Ok(None),
                Long("dry-run") => options.is_dry = true,
                Long("read-only") => options.is_read_only = true,
                Long("worker") => options.is_worker = true,
                Long("for") => options.for_ns = duration_ns("for", &text(words.value()?))?,
                Long("rounds") => options.rounds = number("rounds", &text(words.value()?), 1, 1000)?,
                Short('o') | Long("output") => options.output = words.value()?.into(),
                Long("root") => options.root = words.value()?.into(),
                Long("state") => options.state = words.value()?.into(),
                Long("format") => options.is_json = crate::command::is_json(words)?,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(options))
    }
}

/// The live machine.
struct Live {
    root: Root,
    walk: Walk,
    folder: PathBuf,
    stop: Stop,
    has_supervisor: bool,
}

impl Lab for Live {
    fn root(&self) -> &Root {
        &self.root
    }

    fn now(&self) -> Moment {
        Moment::now()
    }

    fn is_ended(&self) -> bool {
        self.stop.is_raised() || (self.has_supervisor && is_alone())
    }

    fn rest(&mut self, ns: u64, poll: &mut dyn FnMut(&Root, Moment)) {
        let until_ns = monotonic_ns() + ns;
        while monotonic_ns() < until_ns && self.stop.sleep_until(until_ns.min(monotonic_ns() + 500_000_000)) {
            poll(&self.root, Moment::now());
        }
    }

    fn busy(
        &mut self,
        class: Class,
        cpus: &[u32],
        ns: u64,
        poll: &mut dyn FnMut(&Root, Moment),
    ) -> Result<Vec<f64>, HostError> {
        spin(class, cpus, &self.walk, ns, &mut || poll(&self.root, Moment::now()))
    }

    fn wake(&mut self, cpu: u32, sleep_ns: u64, count: u32) -> Result<Vec<u64>, HostError> {
        wake(cpu, sleep_ns, count)
    }

    fn exchange(&mut self, a: u32, b: u32) -> Result<Vec<f64>, HostError> {
        exchange(a, b, 20)
    }

    fn watch(&mut self, cpu: u32, writes: &[(String, String)], ns: u64) -> Result<Vec<(u64, f64)>, HostError> {
        watch(cpu, ns, || writes.iter().try_for_each(|(path, value)| self.root.write(path, value)))
    }

    fn flush(&mut self, count: u32) -> Result<Vec<u64>, HostError> {
        flush(&self.folder, count)
    }
}

/// Memory to walk through: four times the last-level caches, 64 MB at least, 4 GB at most.
fn walked_bytes(root: &Root) -> u64 {
    let folder = format!("{CPU}/cpu0/cache");
    let last = root.numbered(&folder, "index").last().map(|index| format!("{folder}/index{index}/size"));
    let size = last.and_then(|path| root.text(&path).ok()).unwrap_or_default();
    let kib: u64 = size.trim_end_matches('K').parse().unwrap_or(0);
    (4 * kib * 1024).clamp(64 << 20, 4 << 30)
}

fn variants(plan: &Plan) -> Vec<Variant> {
    plan.steps.iter().map(|step| step.variant.clone()).collect()
}

/// The folder that a command line of `calibrate` writes to, if it runs at all.
pub(crate) fn output_of(words: &mut lexopt::Parser) -> Option<PathBuf> {
    let options = Options::read(words).ok()??;
    (!options.is_dry && !options.is_worker).then_some(options.output)
}

/// The command.
pub(crate) fn command(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let given: Vec<OsString> = words.raw_args()?.collect();
    let Some(options) = Options::read(&mut lexopt::Parser::from_args(given.clone()))? else {
        return print_help(env, HELP);
    };
    let root = Root::open(&options.root)?;
    let mut plan = Plan::of(&root, &Meters::open(&root).lacking);
    if options.is_read_only {
        plan.read_only("--read-only");
    } else if root.is_live() && !options.is_dry && !rustix::process::geteuid().is_root() {
        plan.read_only("needs root");
    }
    if options.is_dry {
        return print(env, &shown(&root, &plan, &options));
    }
    if !root.is_live() {
        let words = format!("{} is not the live machine: nothing runs on it (--dry-run works)", options.root.display());
        return Err(HostError::Lacking(words));
    }
    own_folder(&options.output, &["calibration.json", "calibration.txt", "flush.tmp", "sysfs.txt"])?;
    std::fs::create_dir_all(&options.output)
        .map_err(|error| HostError::io(options.output.display().to_string(), error))?;
    if !files(&variants(&plan)).is_empty() && !options.is_worker {
        let what = Supervised { command: "calibrate", variants: &variants(&plan), given: &given };
        let ended = supervise(&root, &options.state, &what, env)?;
        return if ended == 0 { print(env, &read_report(&options)?) } else { Ok(ended) };
    }
    let mut settings = Settings::of(&root, &variants(&plan), std::process::id())?;
    let mut lab = Live {
        walk: Walk::new(walked_bytes(&root)),
        folder: options.output.clone(),
        stop: Stop::on_signals()?,
        has_supervisor: options.is_worker,
        root: Root::open(&options.root)?,
    };
    let begin_ns = monotonic_ns();
    let found = measure(&plan, &mut lab, &mut settings, options.rounds, step_ns(&plan, &options), env.err);
    if options.is_worker && is_alone() {
        finish(&root, &Places::of(&root, options.state.clone()), &settings.saved)?;
    }
    let found = found?;
    if found.rounds == 0 {
        let _ = writeln!(env.err, "ended before the first round was over: nothing is known");
        return Ok(130);
    }
    let line = |path: &str, other: &str| root.text(path).unwrap_or_else(|_| other.to_owned());
    let (machine, kernel) = (line("/proc/sys/kernel/hostname", "host"), line("/proc/sys/kernel/osrelease", "unknown"));
    let json = to_json(&found.json(&machine, &kernel, (monotonic_ns() - begin_ns) as f64 / 1e9));
    // From `sysfs` and `cpuinfo` a machine file is made, here or elsewhere.
    for (name, text) in [
        ("sysfs.txt", crate::snapshot::sysfs(&root)),
        ("cpuinfo.txt", line("/proc/cpuinfo", "")),
        ("calibration.txt", found.text()),
        ("calibration.json", json + "\n"),
    ] {
        let path = options.output.join(name);
        write_whole(&path, &text).map_err(|error| HostError::io(path.display().to_string(), error))?;
    }
    if options.is_worker { Ok(0) } else { print(env, &read_report(&options)?) }
}

fn read_report(options: &Options) -> Result<String, HostError> {
    let path = options.output.join(if options.is_json { "calibration.json" } else { "calibration.txt" });
    std::fs::read_to_string(&path).map_err(|error| HostError::io(path.display().to_string(), error))
}

fn step_ns(plan: &Plan, options: &Options) -> u64 {
    let steps = u64::from(options.rounds) * plan.steps.len().max(1) as u64;
    (options.for_ns / steps).clamp(5_000_000, 60_000_000_000)
}

/// The steps, every write, and what is put back.
fn shown(root: &Root, plan: &Plan, options: &Options) -> String {
    let (n_steps, ms) = (plan.steps.len(), step_ns(plan, options) / 1_000_000);
    let mut out = format!("{} rounds of {n_steps} steps, {ms} ms each:\n", options.rounds);
    for step in &plan.steps {
        out += &format!("  {}\n", step.what.words());
    }
    out += "writes:\n";
    let mut known: Vec<Variant> = Vec::new();
    for variant in variants(plan).into_iter().filter(|variant| !variant.writes.is_empty()) {
        if !known.contains(&variant) {
            known.push(variant);
        }
    }
    out += &dry(root, &known);
    for (what, why) in &plan.unknown {
        out += &format!("unknown: {what}\n  {why}\n");
    }
    out
}
