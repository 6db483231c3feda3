//! The command line of `opplab host` and of `opplab-agent`.
//!
//! Arguments in, text out, exit code back: 0 done, 1 a check failed, 2 wrong usage or input, 3 the host lacks what is
//! needed or refuses.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use lexopt::prelude::*;
use opplab_kernel::cpufreq::governor::GovernorError;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::profile::KernelProfile;

use crate::affinity::{self, Before};
use crate::calibrate;
use crate::clock::{self, Moment};
use crate::command::{Env, is_json, nearest, print, print_help, text, time_ns};
use crate::compare;
use crate::error::HostError;
use crate::govern::sense::Source;
use crate::govern::{self, Options, Places, Via, decide};
use crate::observe::{self, Form, Observer};
use crate::record;
use crate::root::Root;
use crate::show;
use crate::shown::Shown;
use crate::whole::LOG_MAX;
use opplab_import::read_whole_text;
use opplab_model::cpus::{format_cpu_list, parse_cpu_list};

/// The commands with a line about each.
const COMMANDS: &[(&str, &str)] = &[
    ("show", "print the host's frequency, idle, energy and scheduler settings"),
    ("observe", "sample the CPUs: turbostat's columns, utilisation, idle, power"),
    ("affinity", "list, set or restore the CPUs of schedutil's kthreads"),
    ("govern", "run a governor in user space, and restore all settings afterwards"),
    ("record", "record a trace for replay, with the machine and its settings"),
    ("calibrate", "measure loops, idle states, wake-ups, clock changes and disk"),
    ("compare", "run a command under several settings, and measure the changes"),
];

/// Runs one command; `args` are the words after the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> i32 {
    // Whole texts, not their pieces, go to the system; `print` flushes.
    let mut whole = BufWriter::new(&mut *env.out);
    let (mut out, mut err) = (Shown(&mut whole), Shown(env.err));
    let env = &mut Env { out: &mut out, err: &mut err, again: env.again.clone(), name: env.name.clone() };
    match run(args, env) {
        Ok(code) => code,
        Err(error) => {
            let code = match error {
                HostError::Usage(_) | HostError::Input { .. } => 2,
                _ => 3,
            };
            // Nobody may be there to read it.
            let _ = writeln!(env.err, "{}: {error}", env.name);
            code
        }
    }
}

fn run(args: impl IntoIterator<Item = OsString>, env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut words = lexopt::Parser::from_args(args);
    let command = match words.next()? {
        Some(Value(command)) => command.to_string_lossy().into_owned(),
        Some(Long("version")) => return print(env, &format!("opplab {}\n", env!("CARGO_PKG_VERSION"))),
        Some(Long("help") | Short('h')) => return help(env),
        Some(other) => return Err(other.unexpected().into()),
        None => return help(env),
    };
    match command.as_str() {
        "show" => show(words, env),
        "observe" => observe(words, env),
        "affinity" => affinity_command(words, env),
        "govern" => govern(words, env),
        "record" => record_command(words, env),
        "compare" => compare::command(words, env),
        "calibrate" => calibrate::command(words, env),
        other => {
            let near = nearest(other, COMMANDS.iter().map(|(name, _)| *name));
            Err(HostError::Usage(format!("no such command `{other}`{near}")))
        }
    }
}

/// The folder of results that words of `opplab host` write to, read as the command reads them.
pub fn output_of(args: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    let mut words = lexopt::Parser::from_args(args);
    let Ok(Some(Value(command))) = words.next() else { return None };
    match command.to_str() {
        Some("compare") => compare::output_of(&mut words),
        Some("calibrate") => calibrate::output_of(&mut words),
        _ => None,
    }
}

fn help(env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut text = format!("Usage: {} COMMAND [--help]\n\nCommands:\n", env.name);
    for (name, about) in COMMANDS {
        text += &format!("  {name:<10} {about}\n");
    }
    print(env, &text)
}

const SHOW_HELP: &str = "\
Usage: show [--root DIR] [--format text|json]

Prints the host's settings of frequency, idle states, energy and scheduler, each
with its file.

  --root DIR  copied tree (a folder with sys and proc in it), sysfs snapshot or
              machine dump
  --format F  text, or json: one line of JSON (also --json)
";

/// Files of a host that contradict themselves, of which so many are named.
const DOUBTS_SHOWN: usize = 3;

fn show(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let (mut path, mut json) = (PathBuf::from("/"), false);
    while let Some(word) = words.next()? {
        match word {
            Long("root") => path = words.value()?.into(),
            Long("json") => json = true,
            Long("format") => json = is_json(&mut words)?,
            Long("help") | Short('h') => return print_help(env, SHOW_HELP),
            other => return Err(other.unexpected().into()),
        }
    }
    let root = Root::open(&path)?;
    let report = show::report(&root, &path);
    let doubts = show::doubts(&root);
    for doubt in doubts.iter().take(DOUBTS_SHOWN) {
        let _ = writeln!(env.err, "note: {doubt}");
    }
    if let Some(more) = doubts.len().checked_sub(DOUBTS_SHOWN + 1) {
        let _ = writeln!(env.err, "note: {} more files like these", more + 1);
    }
    let text = if json { report.json() + "\n" } else { report.text() };
    print(env, &text)
}

const OBSERVE_HELP: &str = "\
Usage: observe [--interval TIME] [--for TIME | -n COUNT] [OPTIONS]

Prints a row per CPU and interval: Avg_MHz, Busy%, Bzy_MHz, TSC_MHz, util_avg,
frequency scale by each candidate for f_max, idle residency and power. Output is
a table on a terminal and CSV on a pipe. Ctrl-C ends it.

  --interval TIME  length of an interval, e.g. 100ms or 2s; default 1s
  --for TIME       duration; default until Ctrl-C
  -n COUNT         number of intervals
  --format FORM    table, csv or turbostat (also --table, --csv, --turbostat)
  -o FILE          output file: CSV for .csv, turbostat's text otherwise
  --root DIR       other root, for tests
";

fn observe(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let (mut path, mut form, mut output) = (PathBuf::from("/"), None, None);
    let (mut interval_ns, mut for_ns, mut count) = (1_000_000_000u64, None, None);
    while let Some(word) = words.next()? {
        match word {
            Long("root") => path = words.value()?.into(),
            Long("interval") => interval_ns = time_ns("interval", &text(words.value()?))?.max(1_000_000),
            Long("for") => for_ns = Some(time_ns("for", &text(words.value()?))?),
            Short('n') => count = Some(words.value()?.parse::<u64>()?),
            Long("format") => {
                let word = text(words.value()?);
                form = Some(match word.as_str() {
                    "csv" => Form::Csv,
                    "turbostat" => Form::Turbostat,
                    "table" | "text" => Form::Table,
                    _ => {
                        let known = "one of table, csv, turbostat";
                        return Err(HostError::Usage(format!("--format: {known}, not `{word}`")));
                    }
                });
            }
            Long("csv") => form = Some(Form::Csv),
            Long("turbostat") => form = Some(Form::Turbostat),
            Long("table") => form = Some(Form::Table),
            Short('o') | Long("output") => output = Some(PathBuf::from(words.value()?)),
            Long("help") | Short('h') => return print_help(env, OBSERVE_HELP),
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(output) = output.as_ref().filter(|output| output.extension().is_some_and(|ending| ending == "parquet"))
    {
        return Err(HostError::Usage(format!(
            "{}: Parquet is written by `opplab host observe -o FILE`",
            output.display()
        )));
    }
    let root = Root::open(&path)?;
    let mut file = match &output {
        Some(output) => {
            Some(std::fs::File::create(output).map_err(|error| HostError::io(output.display().to_string(), error))?)
        }
        None => None,
    };
    let form = form.unwrap_or_else(|| match &output {
        Some(output) if output.extension().is_some_and(|ending| ending == "csv") => Form::Csv,
        Some(_) => Form::Turbostat,
        None if clock::is_terminal_out() => Form::Table,
        None => Form::Csv,
    });
    let stop = clock::Stop::on_signals()?;
    let begin_ns = clock::own_cpu_ns();
    let mut observer = Observer::open(&root, &path);
    for note in &observer.notes {
        let _ = writeln!(env.err, "note: {note}");
    }
    let head = observe::head(&observer);
    // What it took to find everything is no cost of observing.
    let opened_ns = clock::own_cpu_ns();
    // The time of day is set by others, back as well; rows count from the first one by a clock that nobody sets.
    let (start, start_s) = (Moment::now(), clock::time_of_day_s());
    let start_ns = start.time_ns;
    observer.sample(&root, start);
    let (mut n_done, mut next_ns, mut last) = (0u64, start_ns, start);
    let (mut code, mut n_unread, mut n_empty) = (0, 0u64, 0u64);
    loop {
        next_ns += interval_ns;
        let end_ns = for_ns.map(|for_ns| start_ns + for_ns);
        if count.is_some_and(|count| n_done + n_empty >= count) || end_ns.is_some_and(|end_ns| next_ns > end_ns) {
            break;
        }
        if !stop.sleep_until(next_ns) {
            break;
        }
        let now = Moment::now();
        let rows = observer.sample(&root, now);
        // A late interval does not make the next ones short.
        next_ns = next_ns.max(now.time_ns.saturating_sub(interval_ns));
        let slept_ns = now.slept_since(&last);
        last = now;
        if let Some(slept_ns) = slept_ns {
            let slept_s = slept_ns as f64 / 1e9;
            let _ = writeln!(env.err, "note: the machine slept {slept_s:.1} s; the interval of its sleep is left out");
        }
        if !observer.unread.is_empty() {
            n_unread += 1;
            if n_unread == 1 {
                let cpus = format_cpu_list(&observer.unread);
                let _ = writeln!(env.err, "note: no reading in /proc/stat for CPUs {cpus}: they have no row");
            }
        }
        if rows.is_empty() {
            n_empty += u64::from(slept_ns.is_none());
            continue;
        }
        let time_s = start_s + now.lived_since(&start) as f64 / 1e9;
        let text = observe::render(form, &head, &rows, time_s, n_done == 0);
        n_done += 1;
        match &mut file {
            Some(file) => file.write_all(text.as_bytes()).map_err(|error| HostError::io("output", error))?,
            None => code = print(env, &text)?,
        }
        if code != 0 {
            return Ok(code);
        }
    }
    let (wall_ns, used_ns) = (clock::monotonic_ns() - start_ns, clock::own_cpu_ns() - opened_ns);
    if n_done == 0 && n_unread > 0 {
        return Err(HostError::Lacking("/proc/stat: no CPU can be read".to_owned()));
    }
    if n_unread > 1 {
        let _ = writeln!(env.err, "note: no reading for some CPUs in {n_unread} intervals");
    }
    if n_done == 0 {
        let _ = writeln!(env.err, "note: ended before the first interval was over");
        return Ok(0);
    }
    let percent = used_ns as f64 * 100.0 / wall_ns.max(1) as f64;
    let _ = writeln!(
        env.err,
        "observed {n_done} intervals (opening took {:.1} ms); own cost {:.1} ms = {percent:.2} % of one CPU",
        (opened_ns - begin_ns) as f64 / 1e6,
        used_ns as f64 / 1e6
    );
    Ok(0)
}

const GOVERN_HELP: &str = "\
Usage: govern --governor NAME [OPTIONS]
       govern --restore
       govern --verify LOG
       govern --explain LOG [--cpu N] [--at TIME]

Runs one of opplab's governors (see opplab list governors) in user space. A
supervisor restores governor, limits and EPP at the end, on a signal, and when
the worker dies or hangs.

  --policies LIST    cpufreq policies, e.g. 0,4; default all
  --via WAY          setspeed (kernel governor userspace) or limits (minimum =
                     maximum; with HWP its min and max); default setspeed where
                     the kernel has the governor userspace
  --util SOURCE      counters, sched-debug, stat, or auto for the best available
                     (default)
  --f-max F          reference of invariance: a candidate's name (see opplab
                     fmax) or kHz; default the kernel's
  --epp VALUE        energy_performance_preference during the run
  --rate-limit-us N  rate limit of schedutil; default the host's
  --tunable NAME=V   tunable of the governor; may be repeated
  --interval TIME    sampling interval, default 20ms
  --for TIME         duration; default until Ctrl-C
  --kernel VERSION   kernel profile of the governor, default 6.12
  --log FILE         log with one line of JSON per decision and its inputs
  --dry-run          decide and log without any change
  --restore          restore the settings of a run whose processes were killed
  --verify LOG       recompute every decision of a log; exit 1 if less than 99 %
                     are equal
  --explain LOG      explain a log: a summary, or the decision in force at a
                     time
  --state FILE       file of the saved settings, default
                     /run/opplab-govern.json
  --root DIR         other root, for tests
";

/// The decisions of a log that must come out the same, percent.
const AGREE_PERCENT: f64 = 99.0;

fn govern(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut options = Options {
        root: PathBuf::from("/"),
        governor: String::new(),
        policies: Vec::new(),
        via: None,
        source: None,
        f_max: None,
        epp: None,
        tunables: Vec::new(),
        rate_limit_us: None,
        interval_ns: 20_000_000,
        for_ns: None,
        dry_run: false,
        kernel: "6.12.117".to_owned(),
        log: None,
        places: Places::default(),
    };
    // The worker gets the same words.
    let mut worker_args: Vec<OsString> = vec!["govern".into(), "--worker".into()];
    let (mut is_worker, mut restore, mut log) = (false, false, None);
    let (mut explained, mut cpu, mut at_ns) = (None, None, None);
    let mut given: Vec<OsString> = Vec::new();
    while let Some(word) = words.next()? {
        let name = match word {
            Short('h') => "help".to_owned(),
            Long(name) => name.to_owned(),
            other => return Err(other.unexpected().into()),
        };
        match name.as_str() {
            "worker" => is_worker = true,
            "restore" => restore = true,
            "help" => return print_help(env, GOVERN_HELP),
            "dry-run" => {
                options.dry_run = true;
                given.push("--dry-run".into());
            }
            "verify" => log = Some(PathBuf::from(words.value()?)),
            "explain" => explained = Some(PathBuf::from(words.value()?)),
            "cpu" => cpu = Some(words.value()?.parse::<u32>()?),
            "at" => {
                let word = text(words.value()?);
                // The very beginning is a time, too.
                at_ns = Some(if word.trim_start_matches(['0', '.']).starts_with(|c: char| c.is_ascii_digit()) {
                    time_ns("at", &word)?
                } else {
                    0
                });
            }
            _ => {
                let value = words.value()?;
                set_option(&mut options, &name, &value)?;
                given.extend([format!("--{name}").into(), value]);
            }
        }
    }
    if let Some(log) = log {
        return verify_log(&log, env);
    }
    if let Some(log) = explained {
        let shown = log.display().to_string();
        let words = read_log(&log, env)?;
        return print(env, &decide::explain(&shown, &words, cpu, at_ns)?);
    }
    let root = Root::open(&options.root)?;
    options.places = Places::of(&root, options.places.state);
    if restore {
        let done = govern::restore(&root, &options.places, env.err)?;
        return print(env, if done { "restored\n" } else { "nothing to restore\n" });
    }
    check_governor(&options)?;
    if is_worker {
        govern::work(&options)?;
        return Ok(0);
    }
    worker_args.extend(given);
    govern::supervise(&options, &env.again, &worker_args, env.err)
}

/// Refuses a governor that there is not, and tunables that it does not have or take.
fn check_governor(options: &Options) -> Result<(), HostError> {
    let wrong = |option: &str, error: &GovernorError| {
        let near = error.wrong_name().map_or_else(String::new, |(name, known)| nearest(name, known.into_iter()));
        HostError::Usage(format!("--{option}: {error}{near}"))
    };
    let governor = GovernorId::named(&options.governor).map_err(|error| wrong("governor", &error))?;
    let profile = KernelProfile::named(&options.kernel)
        .ok_or_else(|| HostError::Usage(format!("--kernel: no profile `{}`", options.kernel)))?;
    for (name, value) in &options.tunables {
        governor.check_tunable(&profile, name, value).map_err(|error| wrong("tunable", &error))?;
    }
    Ok(())
}

fn set_option(options: &mut Options, name: &str, value: &OsString) -> Result<(), HostError> {
    let words = value.to_string_lossy().into_owned();
    let wrong = |what: &str| HostError::Usage(format!("--{name}: `{words}` {what}"));
    fn choice<T: Copy>(words: &str, names: &[(&str, T)]) -> Result<T, String> {
        let found = names.iter().find(|(known, _)| *known == words).map(|(_, choice)| *choice);
        found.ok_or_else(|| {
            let list: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
            format!("is none of {}{}", list.join(", "), nearest(words, list.iter().copied()))
        })
    }
    match name {
        "root" => options.root = value.into(),
        "state" => options.places.state = value.into(),
        "log" => options.log = Some(value.into()),
        "governor" => options.governor = words,
        "tunable" => {
            let (name, value) = words.split_once('=').ok_or_else(|| wrong("is not NAME=VALUE"))?;
            options.tunables.push((name.to_owned(), value.to_owned()));
        }
        "kernel" => options.kernel = words,
        "f-max" => options.f_max = Some(words),
        "epp" => options.epp = Some(words),
        "via" => options.via = Some(choice(&words, Via::NAMES).map_err(|what| wrong(&what))?),
        "util" if words == "auto" => options.source = None,
        "util" => options.source = Some(choice(&words, Source::NAMES).map_err(|what| wrong(&what))?),
        "interval" => options.interval_ns = time_ns(name, &words)?.max(1_000_000),
        "for" => options.for_ns = Some(time_ns(name, &words)?),
        "rate-limit-us" => options.rate_limit_us = Some(words.parse().map_err(|_| wrong("is not a number of us"))?),
        "policies" => {
            options.policies = parse_cpu_list(&words, Default::default()).map_err(|fault| wrong(&fault.message))?;
        }
        _ => {
            let names =
                ["governor", "tunable", "policies", "via", "util", "f-max", "epp", "rate-limit-us", "interval", "for"];
            let more = ["kernel", "log", "dry-run", "restore", "verify", "explain", "state", "root"];
            let near = nearest(name, names.into_iter().chain(more)).replace('`', "").replace("mean ", "mean --");
            return Err(HostError::Usage(format!("no such option `--{name}`{near}")));
        }
    }
    Ok(())
}

/// Reads a log; reports if its last line is cut off, as a killed worker leaves it.
fn read_log(log: &Path, env: &mut Env<'_>) -> Result<String, HostError> {
    let text = read_whole_text(log, LOG_MAX).map_err(|error| HostError::io(log.display().to_string(), error))?;
    if !text.is_empty() && !text.ends_with('\n') {
        let _ = writeln!(env.err, "note: {}: the last line is cut off and left out", log.display());
    }
    Ok(text)
}

fn verify_log(log: &Path, env: &mut Env<'_>) -> Result<i32, HostError> {
    let shown = log.display().to_string();
    let text = read_log(log, env)?;
    let agreement = decide::verify(&shown, &text)?;
    if agreement.n_decisions == 0 {
        return Err(HostError::Usage(format!(
            "{shown}: no decision in it: not a log of govern, or of a run that ended at once"
        )));
    }
    let mut out = format!(
        "{} decisions, {} equal ({:.2} %); {} requests, {} of {} in force at the next look\n",
        agreement.n_decisions,
        agreement.n_equal,
        agreement.percent(),
        agreement.n_requests,
        agreement.n_in_force,
        agreement.n_followed
    );
    if agreement.n_unread > 0 {
        out += &format!("{} looks without a reading, at which nothing was decided\n", agreement.n_unread);
    }
    for difference in &agreement.differences {
        out += &format!("  {difference}\n");
    }
    print(env, &out)?;
    Ok(i32::from(agreement.percent() < AGREE_PERCENT))
}

const AFFINITY_HELP: &str = "\
Usage: affinity [list] [--format text|json]
       affinity set --cpus LIST
       affinity restore

Lists the kernel threads that change frequencies: policy, CPUs, CPU time,
switches, and whether this kernel allows another affinity.

  --threads PATTERN  names of the threads, with * as wildcard; default sugov:*
  --cpus LIST        CPUs, e.g. 0,3-5 or 0x39
  --state FILE       file of the saved masks, default
                     /run/opplab-affinity.json
  --root DIR         copied tree whose threads are listed
  --format FORM      text, or json: one line of JSON (also --json)
";

fn affinity_command(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    const ACTIONS: [&str; 3] = ["list", "set", "restore"];
    let (mut path, mut pattern, mut json) = (PathBuf::from("/"), "sugov:*".to_owned(), false);
    let (mut action, mut mask, mut state) = ("list".to_owned(), None, None);
    while let Some(word) = words.next()? {
        match word {
            Value(word) if ACTIONS.contains(&&*word.to_string_lossy()) => action = text(word),
            Value(word) => {
                let near = nearest(&word.to_string_lossy(), ACTIONS.into_iter());
                return Err(HostError::Usage(format!("affinity: no such action `{}`{near}", word.to_string_lossy())));
            }
            Long("threads") => pattern = text(words.value()?),
            Long("cpus") => mask = Some(text(words.value()?)),
            Long("state") => state = Some(PathBuf::from(words.value()?)),
            Long("root") => path = words.value()?.into(),
            Long("json") => json = true,
            Long("format") => json = is_json(&mut words)?,
            Long("help") | Short('h') => return print_help(env, AFFINITY_HELP),
            other => return Err(other.unexpected().into()),
        }
    }
    let root = Root::open(&path)?;
    let state = state.or_else(|| root.file("/run/opplab-affinity.json")).unwrap_or_default();
    let found = affinity::threads(&root, &pattern);
    if action == "restore" {
        return affinity_restore(&root, &state, env);
    }
    if found.is_empty() {
        let why = if root.numbered("/proc", "").is_empty() {
            ": this copy of a host has no threads in /proc"
        } else if pattern.starts_with("sugov:") {
            ": no policy runs schedutil on a driver that switches slowly (with fast switching there is no kthread)"
        } else {
            ""
        };
        return Err(HostError::Lacking(format!("no thread is called `{pattern}`{why}")));
    }
    if action == "list" {
        let list = if json { affinity::json(&root, &found) } else { affinity::text(&root, &found) };
        return print(env, &list);
    }
    let Some(mask) = mask else { return Err(HostError::Usage("affinity set needs --cpus".to_owned())) };
    let cpus = affinity::parse_mask(&mask, &root.online())?;
    let mut before = Before::read(&state)?;
    for thread in &found {
        before.remember(thread);
    }
    before.write(&state)?;
    let mut n_refused = 0;
    for thread in &found {
        let words = match affinity::set(&root, thread, &cpus) {
            Ok(()) => format!("{}: {} -> {}\n", thread.name, format_cpu_list(&thread.cpus), format_cpu_list(&cpus)),
            Err(why) => {
                n_refused += 1;
                // It is as it was, unless an earlier run moved it.
                if before.threads.iter().any(|(pid, _, cpus)| *pid == thread.pid && *cpus == thread.cpus) {
                    before.threads.retain(|(pid, ..)| *pid != thread.pid);
                }
                format!("{}: refused: {why}\n", thread.name)
            }
        };
        print(env, &words)?;
    }
    before.write(&state)?;
    Ok(if n_refused > 0 { 3 } else { 0 })
}

fn affinity_restore(root: &Root, state: &Path, env: &mut Env<'_>) -> Result<i32, HostError> {
    let before = Before::read(state)?;
    if before.threads.is_empty() {
        return print(env, "nothing to restore\n");
    }
    let now = affinity::threads(root, "*");
    let mut left = Before::default();
    for (pid, name, cpus) in before.threads {
        let words = match now.iter().find(|thread| thread.pid == pid && thread.name == name) {
            None => format!("{name}: gone\n"),
            Some(thread) => match affinity::set(root, thread, &cpus) {
                Ok(()) => format!("{name}: back to {}\n", format_cpu_list(&cpus)),
                Err(why) => {
                    let words = format!("{name}: refused: {why}\n");
                    left.threads.push((pid, name, cpus));
                    words
                }
            },
        };
        print(env, &words)?;
    }
    left.write(state)?;
    Ok(if left.threads.is_empty() { 0 } else { 3 })
}

const RECORD_HELP: &str = "\
Usage: record -o FILE.tar.zst [--for TIME] [OPTIONS] [-- COMMAND]

Records scheduler and power events in its own tracefs instance, with the
machine's settings before and after. It ends with the command, after --for, or
on Ctrl-C. `opplab trace` and `opplab replay` read the archive.

  --for TIME     duration
  --events LIST  additional events, e.g. irq:irq_handler_entry, or thermal for a
                 whole group
  --probes FILE  lines for dynamic_events (kprobes, fprobes); their groups are
                 recorded, too
  --buffer-kb N  ring buffer of each CPU, default 8192
  --clock NAME   trace_clock, default local; counter, uptime and x86-tsc count
                 no ns
";

fn record_command(mut words: lexopt::Parser, env: &mut Env<'_>) -> Result<i32, HostError> {
    let mut output = None;
    let mut options = record::Options {
        output: PathBuf::new(),
        for_ns: None,
        events: Vec::new(),
        probes: None,
        buffer_kb: 8192,
        clock: "local".to_owned(),
        command: Vec::new(),
    };
    while let Some(word) = words.next()? {
        match word {
            Short('o') | Long("output") => output = Some(PathBuf::from(words.value()?)),
            Long("for") => options.for_ns = Some(time_ns("for", &text(words.value()?))?),
            Long("events") => options.events.extend(text(words.value()?).split(',').map(str::to_owned)),
            Long("probes") => options.probes = Some(words.value()?.into()),
            Long("buffer-kb") => options.buffer_kb = words.value()?.parse()?,
            Long("clock") => options.clock = text(words.value()?),
            Long("help") | Short('h') => return print_help(env, RECORD_HELP),
            Value(program) => {
                options.command.push(program);
                options.command.extend(words.raw_args()?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    options.output = output.ok_or_else(|| HostError::Usage("record needs -o FILE.tar.zst".to_owned()))?;
    let root = Root::live();
    for note in record::caveats(&root) {
        let _ = writeln!(env.err, "note: {note}");
    }
    let done = record::record(&root, &options)?;
    for note in &done.notes {
        let _ = writeln!(env.err, "note: {note}");
    }
    let lost = if done.n_lost > 0 {
        format!("; {} events LOST: a larger --buffer-kb keeps them", done.n_lost)
    } else {
        String::new()
    };
    let _ =
        writeln!(env.err, "{}: {} bytes, {} of pages{lost}", options.output.display(), done.n_bytes, done.n_page_bytes);
    Ok(done.code.unwrap_or(0))
}
