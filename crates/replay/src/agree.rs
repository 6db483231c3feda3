//! Part (c) of the agreement with recordings: a recording's own workload file runs on the machine that its snapshot describes,
//! and what is measured is compared with the recording.

use std::path::{Path, PathBuf};

use opplab_model::event::TaskIdx;
use opplab_model::rtapp::{CompileOptions, Loop, ParseOptions, Repeats, parse};
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, run_from};

use crate::ReplayError;
use crate::events::{Ev, Events, Simulated, What};
use crate::measure::{Measured, PolicyTimes, alike, distance_per_100k, measure, shares_per_100k};
use crate::recover::{Recording, recover};
use crate::setup::{Setup, recording_files};

/// How near a policy's frequency residency is to be, in parts of 100 000.
pub const FREQ_LIMIT: u64 = 5_000;
/// How near a task's residency by class of CPU is to be, in parts of 100 000.
pub const CLASS_LIMIT: u64 = 10_000;

/// One compared number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What is compared.
    pub kind: &'static str,
    /// Of which policy, task or class.
    pub of: String,
    /// As recorded.
    pub recorded: u64,
    /// As simulated.
    pub simulated: u64,
    /// The distance: parts of 100 000 for shares, else the difference.
    pub distance: u64,
    /// The greatest distance that is near enough, if there is such a limit.
    pub limit: Option<u64>,
}

/// The comparison of one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The recording's name.
    pub recording: String,
    /// The workload: the file's name.
    pub workload: String,
    /// The numbers.
    pub rows: Vec<Row>,
    /// What was taken from where.
    pub notes: Vec<String>,
}

impl Agreement {
    /// Whether every row with a limit is within it.
    pub fn is_near(&self) -> bool {
        self.rows.iter().all(|row| row.limit.is_none_or(|limit| row.distance <= limit))
    }
}

/// The rt-app file in folder `dir` and its text, if there is one.
pub fn workload_file(dir: &Path) -> Option<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "json")).find_map(|path| {
        let text = std::fs::read_to_string(&path).ok()?;
        let options = ParseOptions { repeats: Repeats::JsonC, ..ParseOptions::default() };
        parse(&path.display().to_string(), &text, options).ok().map(|_| (path, text))
    })
}

fn compiled(path: &Path, text: &str, setup: &Setup) -> Result<Workload, ReplayError> {
    let capacities: Vec<u32> =
        (0..setup.machine.nr_cpus() as u32).map(|cpu| setup.machine.cluster_of(cpu).capacity).collect();
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // An emulated CPU does the same work a ns whatever its capacity.
    let capacities = if setup.machine.shared_stream { vec![1024; capacities.len()] } else { capacities };
    let options = ParseOptions { repeats: Repeats::JsonC, ..ParseOptions::default() };
    let file = path.display().to_string();
    let mut tree = parse(&file, text, options).map_err(|error| ReplayError::Input(error.to_string()))?;
    // rt-app 1.0, Debian's, repeats a task without `phases` until the duration is over, whatever its `loop` says.
    for task in tree.tasks.iter_mut().filter(|task| task.phases.len() == 1 && task.phases[0].name.is_empty()) {
        task.repeat = Loop::Forever;
    }
    tree.compile(&file, &CompileOptions { name: &name, capacities: &capacities })
        .map_err(|error| ReplayError::Input(error.to_string()))
}

/// The name of a thread of an rt-app task: without the number that tells instances apart.
fn base_name(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(base, _)| base)
}

/// A recording, and the case that runs its workload file on its machine.
struct Prepared {
    file: PathBuf,
    events: Events,
    setup: Setup,
    case: Case,
    /// Names of the workload's threads.
    names: Vec<String>,
    /// From the birth of the first thread to the end of the last.
    window: (u64, u64),
}

fn prepare(dir: &Path) -> Result<Option<Prepared>, ReplayError> {
    let Some((file, text)) = workload_file(dir) else { return Ok(None) };
    let mut files = recording_files(dir)?;
    let events = Events::of(&mut files.trace, &dir.join("trace.dat"))?;
    let setup = Setup::of_recording(&files, &events)?;
    let mut workload = compiled(&file, &text, &setup)?;

    // The recorded threads of the workload, in the order of their birth.
    let names: Vec<String> = workload.tasks.iter().map(|task| base_name(&task.name).to_owned()).collect();
    let is_thread = |task: TaskIdx| names.iter().any(|name| name == events.name(task));
    let births: Vec<Ev> = events
        .list
        .iter()
        .filter(|ev| matches!(ev.what, What::WakeupNew { task, .. } if is_thread(task)))
        .copied()
        .collect();
    let Some(&Ev { time_ns: start_ns, .. }) = births.first() else {
        return Err(ReplayError::Input(format!("{}: no thread of {} is born in it", dir.display(), file.display())));
    };
    let ends = events.list.iter().filter_map(|ev| match ev.what {
        What::Exit { task } if is_thread(task) => Some(ev.time_ns),
        _ => None,
    });
    let end_ns = ends.max().unwrap_or(events.duration_ns).max(start_ns + 1);
    let main = born_of_main(&mut workload, &births);
    // Everything else that ran is part of the machine: as recorded, by time.
    let others = Recording {
        events: &events,
        machine: &setup.machine,
        window: (start_ns, end_ns),
        start_khz: &setup.start_khz,
        hz: setup.policy.hz,
    };
    recover(&others, |task| !is_thread(task) && Some(task) != main, &mut workload);
    let (machine, policy) = (setup.machine.clone(), setup.policy.clone());
    let case = Case { machine, workload, policy, seed: 1, duration_ns: end_ns - start_ns };
    Ok(Some(Prepared { file, events, setup, case, names, window: (start_ns, end_ns) }))
}

/// Lets rt-app's main thread fork the others when and where it did, so that the kernel places them; they wait for each other
/// before they begin. The recorded main thread.
fn born_of_main(workload: &mut Workload, births: &[Ev]) -> Option<TaskIdx> {
    let first = births.first()?;
    let nr = workload.tasks.iter().filter(|task| task.initial).count();
    let births = &births[..births.len().min(nr)];
    let last_ns = births.last()?.time_ns;
    let mut ops = Vec::new();
    let mut now_ns = first.time_ns;
    let threads: Vec<usize> = (0..workload.tasks.len()).filter(|&index| workload.tasks[index].initial).collect();
    for (index, birth) in threads.iter().zip(births) {
        ops.push(Op::Run { work_ns: birth.time_ns - now_ns, fixed: 0 });
        ops.push(Op::Fork { task: *index as u32 });
        now_ns = birth.time_ns;
        let task = &mut workload.tasks[*index];
        task.initial = false;
        task.delay_ns += last_ns - now_ns;
    }
    ops.push(Op::WaitChild);
    ops.push(Op::Exit);
    let main =
        TaskSpec { name: "rt-app".into(), initial: true, spawn_cpu: Some(first.cpu), ops, ..TaskSpec::default() };
    workload.tasks.push(main);
    Some(first.current)
}

/// The case that runs the workload file of the recording in folder `dir`; `None` if it has none.
///
/// # Errors
/// As [`agree`].
pub fn case_of(dir: &Path) -> Result<Option<Case>, ReplayError> {
    Ok(prepare(dir)?.map(|prepared| prepared.case))
}

/// Compares the recording in folder `dir`; `None` if it has no workload file.
///
/// # Errors
/// [`ReplayError`] if the trace or the snapshot cannot be read, or the workload does not run on the machine.
pub fn agree(dir: &Path) -> Result<Option<Agreement>, ReplayError> {
    let Some(Prepared { file, events, setup, case, names, window }) = prepare(dir)? else { return Ok(None) };
    let is_thread = |task: TaskIdx| names.iter().any(|name| name == events.name(task));
    let recorded = measure(&events, &case.machine, window, &setup.start_khz, is_thread);

    let by_request = !case.machine.cpufreq.freq_table;
    let mut sink = Simulated::new(case.machine.nr_cpus(), by_request);
    let outcome = run_from(&case, &setup.start_khz, &mut sink)
        .map_err(|error| ReplayError::Input(format!("{}: {}", dir.display(), error.0)))?;
    let ours = sink.finish(&outcome.task_names, case.duration_ns);
    let is_ours = |task: TaskIdx| names.iter().any(|name| name == base_name(ours.name(task)));
    let simulated = measure(&ours, &case.machine, (0, case.duration_ns), &setup.start_khz, is_ours);

    let recording = dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
    let workload = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut agreement = Agreement { recording, workload, rows: Vec::new(), notes: setup.notes };
    compare(&recorded, &simulated, &names, &mut agreement.rows);
    Ok(Some(agreement))
}

/// The rows of two measurements.
pub fn compare(recorded: &Measured, simulated: &Measured, names: &[String], rows: &mut Vec<Row>) {
    for (one, other) in alike(recorded).into_iter().zip(alike(simulated)) {
        let of = format!("policy{}", one.cpus[0]);
        rows.push(Row {
            kind: "freq_residency",
            of: of.clone(),
            recorded: one.mean_khz(),
            simulated: other.mean_khz(),
            distance: distance_per_100k(&one.time_ns, &other.time_ns),
            limit: Some(FREQ_LIMIT),
        });
        rows.push(Row {
            kind: "busy_residency",
            of: of.clone(),
            recorded: mean_busy_khz(one),
            simulated: mean_busy_khz(other),
            distance: distance_per_100k(&one.busy_ns, &other.busy_ns),
            limit: Some(FREQ_LIMIT),
        });
        rows.push(Row::count("freq_changes", of, one.changes, other.changes));
    }
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if seen.contains(&name.as_str()) {
            continue;
        }
        seen.push(name);
        // Threads of one name are interchangeable: compared in the order of their shares.
        let of_name = |measured: &Measured| {
            let mut shares: Vec<Vec<u64>> = measured
                .tasks
                .values()
                .filter(|task| task.name == *name || base_name(&task.name) == *name)
                .map(|task| shares_per_100k(&task.class_ns))
                .collect();
            shares.sort_unstable();
            shares
        };
        let (one, other) = (of_name(recorded), of_name(simulated));
        let mut distance = if one.len() == other.len() { 0 } else { 100_000 };
        for (one, other) in one.iter().zip(&other) {
            distance = distance.max(one.iter().zip(other).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0));
        }
        let biggest = |shares: &[Vec<u64>]| {
            let sum: u64 = shares.iter().filter_map(|share| share.last()).sum();
            sum.checked_div(shares.len() as u64).unwrap_or(0)
        };
        rows.push(Row {
            kind: "class_residency",
            of: name.clone(),
            recorded: biggest(&one),
            simulated: biggest(&other),
            distance,
            limit: Some(CLASS_LIMIT),
        });
    }
    for (of, one, other) in [
        ("same cpu", recorded.placements.same_cpu, simulated.placements.same_cpu),
        ("same class", recorded.placements.same_class, simulated.placements.same_class),
        ("other class", recorded.placements.other_class, simulated.placements.other_class),
    ] {
        rows.push(Row::count("wakeups", of.into(), one, other));
    }
    rows.push(Row::count("latency_ns", "p50".into(), recorded.latency_ns(50), simulated.latency_ns(50)));
    rows.push(Row::count("latency_ns", "p95".into(), recorded.latency_ns(95), simulated.latency_ns(95)));
}

/// Mean frequency while the policy's CPUs ran, kHz; each bin at its upper end.
fn mean_busy_khz(policy: &PolicyTimes) -> u64 {
    let sum: u128 =
        policy.freq_khz.iter().zip(&policy.busy_ns).map(|(&khz, &ns)| u128::from(khz) * u128::from(ns)).sum();
    sum.checked_div(policy.busy_ns.iter().map(|&ns| u128::from(ns)).sum()).unwrap_or(0) as u64
}

impl Row {
    fn count(kind: &'static str, of: String, recorded: u64, simulated: u64) -> Self {
        Self { kind, of, recorded, simulated, distance: recorded.abs_diff(simulated), limit: None }
    }
}
