//! Part (c) of the agreement with recordings: a recording's own workload file runs on the machine that its snapshot describes,
//! and what is measured is compared with the recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opplab_kernel::unit::tick_nsec;
use opplab_model::event::TaskIdx;
use opplab_model::rtapp::{CompileOptions, Loop, ParseOptions, Repeats, parse};
use opplab_model::variation::TIMER_SLACK_NS;
use opplab_model::workload::{Op, SchedPolicy, Workload};
use opplab_sim::{Case, Start, Wakes, first_tick_ns, run_from};

use crate::ReplayError;
use crate::calls::takes_samples;
use crate::events::{Events, Simulated, What};
use crate::measure::{
    Clocks, Measured, PolicyTimes, Told, alike, distance_per_100k, known_by_kind, measure, shares_per_100k,
};
use crate::recover::{Recording, recover};
use crate::setup::{Recorded, Setup, recording_files, shows_requests};
use crate::tick::{idle_ticks, phase_ns};

/// How near a policy's frequency residency is to be, in parts of 100 000.
pub const FREQ_LIMIT: u64 = 5_000;
/// How near a task's residency by class of CPU is to be, in parts of 100 000.
pub const CLASS_LIMIT: u64 = 10_000;

/// Runs of one recording's workload.
pub const RUNS: u64 = 9;
/// How much later the threads of each further run are born, ns.
pub const SHIFT_NS: u64 = 60_000;

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
    /// How far a single run is from the mean of the runs, at most; as `distance`.
    pub spread: u64,
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

/// The most that is read of a workload file.
const WORKLOAD_MAX: u64 = 64 << 20;

/// The rt-app file in folder `dir` and its text, if there is one.
pub fn workload_file(dir: &Path) -> Option<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "json")).find_map(|path| {
        let text = opplab_import::read_whole_text(&path, WORKLOAD_MAX).ok()?;
        let options = ParseOptions { repeats: Repeats::JsonC, ..ParseOptions::default() };
        parse(&path.display().to_string(), &text, options).ok().map(|_| (path, text))
    })
}

fn compiled(path: &Path, text: &str, setup: &Setup) -> Result<Workload, ReplayError> {
    let capacities = opplab_model::experiment::capacities(&setup.machine);
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // An emulated CPU does the same work a ns whatever its capacity.
    let capacities = if setup.machine.shared_stream { vec![1024; capacities.len()] } else { capacities };
    let options = ParseOptions { repeats: Repeats::JsonC, ..ParseOptions::default() };
    let file = path.display().to_string();
    let mut tree = parse(&file, text, options).map_err(|error| ReplayError::Input(error.to_string()))?;
    // rt-app 1.0, Debian's, repeats a task without `phases` until the duration is over, whatever its `loop` is.
    for task in tree.tasks.iter_mut().filter(|task| task.phases.len() == 1 && task.phases[0].name.is_empty()) {
        task.repeat = Loop::Forever;
    }
    let mut workload = tree
        .compile(&file, &CompileOptions { name: &name, machine: &setup.machine.name, capacities: &capacities })
        .map_err(|error| ReplayError::Input(error.to_string()))?;
    for op in workload.tasks.iter_mut().flat_map(|task| &mut task.ops) {
        if let Op::Run { work_ns, .. } = op {
            *work_ns = (u128::from(*work_ns) * u128::from(setup.run_per_100k) / 100_000) as u64;
        }
    }
    Ok(workload)
}

/// The name of a thread of an rt-app task: without the number that distinguishes instances.
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
    /// Their places in the workload.
    threads: Vec<u32>,
    /// From the birth of the first thread to the end of the last.
    window: (u64, u64),
    /// How long before the window the run begins.
    lead_ns: u64,
    /// The state of the machine at the start of the run.
    start: Start,
}

/// So much of what was before the first thread runs, too: after it nothing is left of what was before (2 ^ (-512 / 32)).
const LEAD_NS: u64 = 512_000_000;
/// The same, where the kernel's own records show what is left of what was before.
const LEAD_NS_TOLD: u64 = 16_000_000;

/// A period of load tracking; a signal halves in as many as its half-life has ms.
const PERIOD_NS: u64 = 1_024_000;

fn prepare(dir: &Path) -> Result<Option<Prepared>, ReplayError> {
    let Some((file, text)) = workload_file(dir) else { return Ok(None) };
    let files = recording_files(dir)?;
    let events = Events::of(&files.trace, &dir.join("trace.dat"))?;
    let setup = Setup::of_recording(&files, &events, &Recorded::default())?;
    let mut workload = compiled(&file, &text, &setup)?;

    // The recorded threads of the workload, in the order of their birth.
    let names: Vec<String> = workload.tasks.iter().map(|task| base_name(&task.name).to_owned()).collect();
    let is_thread = |task: TaskIdx| names.iter().any(|name| name == events.name(task));
    let births: Vec<Birth> = events
        .list
        .iter()
        .filter_map(|ev| match ev.what {
            What::WakeupNew { task, .. } if is_thread(task) => Some(Birth { task, time_ns: ev.time_ns }),
            _ => None,
        })
        .collect();
    let Some(&Birth { time_ns: start_ns, .. }) = births.first() else {
        return Err(ReplayError::Input(format!("{}: no thread of {} is born in it", dir.display(), file.display())));
    };
    let ends = events.list.iter().filter_map(|ev| match ev.what {
        What::Exit { task } if is_thread(task) => Some(ev.time_ns),
        _ => None,
    });
    let end_ns = ends.max().unwrap_or(events.duration_ns).max(start_ns + 1);
    // Everything else that ran is part of the machine: as recorded, by time.
    let lead_ns = lead_ns(&events, setup.policy.hz, start_ns);
    let known = start_as_rtapp(&mut workload, &events, &births, lead_ns);
    let others = Recording {
        events: &events,
        machine: &setup.machine,
        window: (start_ns - lead_ns, end_ns),
        start_khz: &setup.start_khz,
        hz: setup.policy.hz,
        known: &known,
        tick_phase_ns: phase_ns(&events, tick_nsec(setup.policy.hz.into())),
        by_time: true,
        loses: false,
    };
    let _ = recover(&others, |task| !is_thread(task) && !takes_samples(&events, &setup.policy, task), &mut workload);
    let start = start_at(&events, &setup, start_ns - lead_ns);
    let (machine, policy) = (setup.machine.clone(), setup.policy.clone());
    let case = Case { machine, workload, policy, seed: 1, duration_ns: lead_ns + end_ns - start_ns };
    Ok(Some(Prepared {
        file,
        events,
        setup,
        case,
        names,
        threads: known.into_values().collect(),
        window: (start_ns, end_ns),
        lead_ns,
        start,
    }))
}

/// How long before `start_ns` the run begins, so that its ticks come when the recorded kernel's did.
fn lead_ns(events: &Events, hz: u32, start_ns: u64) -> u64 {
    let tick_ns = tick_nsec(hz.into());
    // Where the kernel's own records show what is left of what was before, little of it needs to run again.
    let wanted_ns = if events.records.is_empty() { LEAD_NS } else { LEAD_NS_TOLD };
    let lead_ns = wanted_ns.min(start_ns);
    let Some(phase_ns) = phase_ns(events, tick_ns) else { return lead_ns };
    // From the run's start to its first tick, if it began right there.
    let to_tick_ns = (phase_ns + tick_ns - (start_ns - lead_ns) % tick_ns) % tick_ns;
    let wanted_ns = first_tick_ns(tick_ns) % tick_ns;
    let later_ns = (to_tick_ns + tick_ns - wanted_ns) % tick_ns;
    if later_ns <= lead_ns { lead_ns - later_ns } else { lead_ns }
}

/// The state of the machine at `time_ns`: what was requested last, and what the kernel's own records show is left on each CPU of
/// what ran before.
pub(crate) fn start_at(events: &Events, setup: &Setup, time_ns: u64) -> Start {
    let mut khz = setup.start_khz.clone();
    let policies = setup.machine.policies();
    for ev in events.list.iter().take_while(|ev| ev.time_ns <= time_ns) {
        if let What::Frequency { cpu, freq_khz } = ev.what
            && let Some(policy) = policies.iter().position(|(_, cpus)| cpus.contains(&cpu))
        {
            khz[policy] = freq_khz;
        }
    }
    let half_life_ns = u64::from(setup.policy.half_life_ms()) * PERIOD_NS;
    let blocked = |cpu: u32| {
        events.records.fair(cpu, time_ns).map_or((0, 0), |fair| {
            // What is left after so many half-lives; within one it is a straight line.
            let since_ns = time_ns.saturating_sub(fair.time_ns);
            let (halvings, rest_ns) = (since_ns / half_life_ns, since_ns % half_life_ns);
            let left = |value: u32| {
                let half = u64::from(value) >> halvings.min(32);
                (half - half * rest_ns / (2 * half_life_ns)) as u32
            };
            (left(fair.util_avg), left(fair.load_avg.unwrap_or(fair.util_avg)))
        })
    };
    let blocked = (0..setup.machine.nr_cpus() as u32).map(blocked).collect();
    let wheel = idle_ticks(events, setup.policy.hz, time_ns);
    Start { khz, blocked, wheel, wakes: Wakes::default(), tick_late_ns: Vec::new(), takes_turns: false }
}

/// A thread's birth.
#[derive(Debug, Clone, Copy)]
struct Birth {
    task: TaskIdx,
    time_ns: u64,
}

/// Moves the births of the threads by `ns`, later or earlier.
fn shift_births(workload: &mut Workload, threads: &[u32], ns: i64) {
    for task in &mut workload.tasks {
        let fork = task.ops.iter().position(|op| matches!(op, Op::Fork { task } if threads.contains(task)));
        if let Some(Op::Run { work_ns, .. }) = fork.and_then(|fork| task.ops[..fork].last_mut()) {
            *work_ns = work_ns.saturating_add_signed(ns);
        }
    }
}

/// Lets the threads begin as rt-app does (src/rt-app.c:thread_body(), 1.0), `lead_ns` after the start of the run: the main
/// thread, which is recovered, forks one after the other; each starts up, the first one reads the clock from which all timers
/// count, they wait for each other, and only then take their policies and CPUs. Gives the recorded threads' places.
fn start_as_rtapp(workload: &mut Workload, events: &Events, births: &[Birth], lead_ns: u64) -> BTreeMap<TaskIdx, u32> {
    let mut threads: Vec<usize> = (0..workload.tasks.len()).filter(|&index| workload.tasks[index].initial).collect();
    for index in threads.split_off(births.len().min(threads.len())) {
        // It was not born in the trace.
        workload.tasks[index].initial = false;
    }
    let startup_ns = startup_ns(events, births);
    // Half-way through its start, the first thread reads the clock from which all timers count.
    let zero_ns = births.first().map_or(0, |first| {
        let began_ns = first_run_ns(events, first.task).map_or(first.time_ns, |(began_ns, _)| began_ns);
        (began_ns + startup_ns / 2 + lead_ns).saturating_sub(first.time_ns)
    });
    let barrier = workload.barriers.len() as u32;
    workload.barriers.push(threads.len() as u32);
    for &index in &threads {
        let task = &mut workload.tasks[index];
        let mut ops = vec![Op::Run { work_ns: startup_ns, fixed: 0 }];
        ops.extend([Op::Barrier { barrier }, Op::TimersFrom { ns: zero_ns }]);
        let policy = std::mem::take(&mut task.policy);
        if policy == SchedPolicy::default() {
            ops.push(Op::SetTimerSlack { ns: TIMER_SLACK_NS });
        } else {
            ops.push(Op::SetPolicy { policy });
        }
        if let Some(set) = task.cpus.take() {
            ops.push(Op::SetCpus { set: Some(set) });
        }
        let delay_ns = std::mem::take(&mut task.delay_ns);
        if delay_ns > 0 {
            ops.push(Op::Sleep { ns: delay_ns });
        }
        task.initial = false;
        let before = ops.len() as u32;
        ops.extend(task.ops.drain(..).map(|op| match op {
            Op::LoopEnd { slot, begin } => Op::LoopEnd { slot, begin: begin + before },
            op => op,
        }));
        task.ops = ops;
    }
    births.iter().zip(threads).map(|(birth, index)| (birth.task, index as u32)).collect()
}

/// The first stretch that `task` runs.
fn first_run_ns(events: &Events, task: TaskIdx) -> Option<(u64, u64)> {
    let mut since_ns = None;
    for ev in &events.list {
        match (ev.what, since_ns) {
            (What::Switch { next, .. }, None) if next == task => since_ns = Some(ev.time_ns),
            (What::Switch { prev, .. }, Some(since_ns)) if prev == task => return Some((since_ns, ev.time_ns)),
            _ => {}
        }
    }
    None
}

/// How long a thread runs before it waits for the others: the median of all but the longest, for the last to come does not wait.
fn startup_ns(events: &Events, births: &[Birth]) -> u64 {
    let stretches = births.iter().filter_map(|birth| first_run_ns(events, birth.task));
    let mut runs: Vec<u64> = stretches.map(|(from_ns, to_ns)| to_ns - from_ns).collect();
    runs.sort_unstable();
    runs.pop();
    runs.get(runs.len() / 2).copied().unwrap_or(0)
}

/// Compares the recording in folder `dir`; `None` if it has no workload file.
///
/// When the threads are born is known to a fraction of a ms; who is first where they meet may depend on less. So
/// [`RUNS`] runs, whose threads are born [`SHIFT_NS`] after each other, are compared by their mean, and their spread is reported.
///
/// # Errors
/// [`ReplayError`] if the trace or the snapshot cannot be read, or the workload does not run on the machine.
pub fn agree(dir: &Path) -> Result<Option<Agreement>, ReplayError> {
    let Some(prepared) = prepare(dir)? else { return Ok(None) };
    let Prepared { file, events, setup, mut case, names, threads, window, lead_ns, start } = prepared;
    let is_thread = |task: TaskIdx| names.iter().any(|name| name == events.name(task));
    let told = Told::of(&events);
    let known_from_ns = known_by_kind(&case.machine, &setup.known_from_ns);
    let clocks = Clocks { start_khz: &setup.start_khz, known_from_ns: &known_from_ns };
    let recorded = measure(&events, &case.machine, window, clocks, told, is_thread);
    let in_run = |from_ns: Option<u64>| from_ns.map(|from_ns| (from_ns + lead_ns).saturating_sub(window.0));
    let known_from_ns: Vec<Option<u64>> = known_from_ns.into_iter().map(in_run).collect();
    let clocks = Clocks { start_khz: &start.khz, known_from_ns: &known_from_ns };

    let by_request = shows_requests(&case.machine, &case.policy);
    shift_births(&mut case.workload, &threads, -(RUNS as i64 / 2 * SHIFT_NS as i64));
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let mut sink = Simulated::new(case.machine.nr_cpus(), by_request);
        let outcome = run_from(&case, &start, &mut sink)
            .map_err(|error| ReplayError::Input(format!("{}: {}", dir.display(), error.0)))?;
        let ours = sink.finish(&outcome.task_names, case.duration_ns);
        let is_ours = |task: TaskIdx| names.iter().any(|name| name == base_name(ours.name(task)));
        let window = (lead_ns, case.duration_ns);
        runs.push(measure(&ours, &case.machine, window, clocks, told, is_ours));
        shift_births(&mut case.workload, &threads, SHIFT_NS as i64);
    }

    let recording = dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
    let workload = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut agreement = Agreement { recording, workload, rows: Vec::new(), notes: setup.notes };
    compare(&recorded, &runs, &names, &mut agreement.rows);
    Ok(Some(agreement))
}

/// Sums of times of one policy in several runs.
fn sum_of(runs: &[Vec<u64>]) -> Vec<u64> {
    let length = runs.first().map_or(0, Vec::len);
    (0..length).map(|bin| runs.iter().map(|run| run[bin]).sum()).collect()
}

/// The rows of a recording and of several runs, which count by their mean.
pub fn compare(recorded: &Measured, runs: &[Measured], names: &[String], rows: &mut Vec<Row>) {
    let alike_runs: Vec<Vec<&PolicyTimes>> = runs.iter().map(alike).collect();
    let nr = runs.len().max(1) as u64;
    for (nth, one) in alike(recorded).into_iter().enumerate() {
        let of = format!("policy{}", one.cpus[0]);
        let others: Vec<&PolicyTimes> = alike_runs.iter().map(|run| run[nth]).collect();
        let mut residency = |kind, times: fn(&PolicyTimes) -> &Vec<u64>, khz: fn(&PolicyTimes) -> u64| {
            let all: Vec<Vec<u64>> = others.iter().map(|other| times(other).clone()).collect();
            let mean = sum_of(&all);
            rows.push(Row {
                kind,
                of: of.clone(),
                recorded: khz(one),
                simulated: others.iter().map(|other| khz(other)).sum::<u64>() / nr,
                distance: distance_per_100k(times(one), &mean),
                spread: all.iter().map(|run| distance_per_100k(run, &mean)).max().unwrap_or(0),
                limit: Some(FREQ_LIMIT),
            });
        };
        residency("freq_residency", |policy| &policy.time_ns, PolicyTimes::mean_khz);
        residency("busy_residency", |policy| &policy.busy_ns, mean_busy_khz);
        let changes: Vec<u64> = others.iter().map(|other| other.changes).collect();
        rows.push(Row::count("freq_changes", of, one.changes, &changes));
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
        let one = of_name(recorded);
        let all: Vec<Vec<Vec<u64>>> = runs.iter().map(of_name).collect();
        let same_number = all.iter().all(|run| run.len() == one.len());
        let mean: Vec<Vec<u64>> = (0..one.len())
            .map(|thread| {
                let shares: Vec<Vec<u64>> = all.iter().filter_map(|run| run.get(thread).cloned()).collect();
                sum_of(&shares).into_iter().map(|sum| sum / nr).collect()
            })
            .collect();
        let apart = |one: &[Vec<u64>], other: &[Vec<u64>]| {
            let pairs = one.iter().zip(other).flat_map(|(one, other)| one.iter().zip(other));
            pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
        };
        let biggest = |shares: &[Vec<u64>]| {
            let sum: u64 = shares.iter().filter_map(|share| share.last()).sum();
            sum.checked_div(shares.len() as u64).unwrap_or(0)
        };
        rows.push(Row {
            kind: "class_residency",
            of: name.clone(),
            recorded: biggest(&one),
            simulated: biggest(&mean),
            distance: if same_number { apart(&one, &mean) } else { 100_000 },
            spread: all.iter().map(|run| apart(run, &mean)).max().unwrap_or(0),
            limit: Some(CLASS_LIMIT),
        });
    }
    let mut count = |kind, of: &str, of_run: &dyn Fn(&Measured) -> u64| {
        let all: Vec<u64> = runs.iter().map(of_run).collect();
        rows.push(Row::count(kind, of.into(), of_run(recorded), &all));
    };
    count("wakeups", "same cpu", &|run| run.placements.same_cpu);
    count("wakeups", "same class", &|run| run.placements.same_class);
    count("wakeups", "other class", &|run| run.placements.other_class);
    count("latency_ns", "p50", &|run| run.latency_ns(50));
    count("latency_ns", "p95", &|run| run.latency_ns(95));
}

/// Mean frequency while the policy's CPUs ran, kHz; each bin at its upper end.
fn mean_busy_khz(policy: &PolicyTimes) -> u64 {
    let sum: u128 =
        policy.freq_khz.iter().zip(&policy.busy_ns).map(|(&khz, &ns)| u128::from(khz) * u128::from(ns)).sum();
    sum.checked_div(policy.busy_ns.iter().map(|&ns| u128::from(ns)).sum()).unwrap_or(0) as u64
}

impl Row {
    fn count(kind: &'static str, of: String, recorded: u64, runs: &[u64]) -> Self {
        let simulated = runs.iter().sum::<u64>().checked_div(runs.len() as u64).unwrap_or(0);
        let spread = runs.iter().map(|run| run.abs_diff(simulated)).max().unwrap_or(0);
        Self { kind, of, recorded, simulated, distance: recorded.abs_diff(simulated), spread, limit: None }
    }
}
