//! Signals of a recorded trace: see crate `signals`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use numpy::IntoPyArray;
use opplab_guarded::guarded;
use opplab_kernel::pelt::HalfLife;
use opplab_model::machine::Machine;
use opplab_replay::energy::EnergyMeter;
use opplab_replay::signals::{First, Pass, all_of, events};
use opplab_signals::activations::Activations;
use opplab_signals::decode::{Reused, SchedEvent, SchedSink, Threads, decoded_threads};
use opplab_signals::groups::GroupFinder;
use opplab_signals::pelt::{ROUNDING, Sample, Samples};
use opplab_signals::residency::Residency;
use opplab_signals::summary::{Deadlines, Latencies, LatencySummary, UtilSummary, Utils, deadlines, past_deadline};
use opplab_signals::with_half_life;
use opplab_trace::{Event, RecordingFiles};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::machine::PyMachine;
use crate::tracefile::trace_error;

/// Samples summed up; also as columns, of tasks and of run queues, unless only sums are wanted.
struct Columns {
    tasks: SampleColumns,
    queues: SampleColumns,
    utils: Utils,
    only_sums: bool,
}

#[derive(Default)]
struct SampleColumns {
    time_ns: Vec<i64>,
    pid: Vec<i32>,
    cpu: Vec<u32>,
    util_avg: Vec<u32>,
    util_est: Vec<u32>,
    runnable_avg: Vec<u32>,
    load_avg: Vec<u64>,
    error_bound: Vec<u32>,
}

impl Samples for Columns {
    fn sample(&mut self, sample: &Sample) {
        self.utils.sample(sample);
        match sample.pid {
            _ if self.only_sums => {}
            Some(_) => self.tasks.push(sample),
            None => self.queues.push(sample),
        }
    }
}

impl SampleColumns {
    fn push(&mut self, sample: &Sample) {
        self.time_ns.push(sample.time_ns as i64);
        self.pid.push(sample.pid.unwrap_or(0));
        self.cpu.push(sample.cpu);
        self.util_avg.push(sample.util_avg as u32);
        self.util_est.push(sample.util_est);
        self.runnable_avg.push(sample.runnable_avg as u32);
        self.load_avg.push(sample.load_avg);
        self.error_bound.push((sample.error_bound + ROUNDING) as u32);
    }

    fn dict(self, py: Python<'_>, pids: bool) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("time_ns", self.time_ns.into_pyarray(py))?;
        if pids {
            dict.set_item("pid", self.pid.into_pyarray(py))?;
        }
        set_arrays!(dict, py, self; cpu, util_avg, util_est, runnable_avg, load_avg, error_bound);
        Ok(dict)
    }
}

/// All sinks on one pass.
struct All<'m, H> {
    pass: Pass<'m, Columns, H>,
    /// Run queues are also sampled this often, and when they are next.
    every_ns: u64,
    next_ns: Option<u64>,
    cpus: u32,
    between: SampleColumns,
    groups: GroupFinder,
}

impl<H: HalfLife> SchedSink for All<'_, H> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        if *what == SchedEvent::Other {
            return self.pass.event(event, what);
        }
        self.cpus = self.cpus.max(event.cpu.saturating_add(1));
        while self.every_ns > 0 && self.next_ns.is_some_and(|next| next < event.time_ns) {
            let now = self.next_ns.unwrap_or(event.time_ns);
            let samples = (0..self.cpus).filter_map(|cpu| self.pass.pelt.peek_cpu(cpu, now));
            samples.for_each(|sample| self.between.push(&sample));
            self.next_ns = now.checked_add(self.every_ns);
        }
        self.next_ns = self.next_ns.or(event.time_ns.checked_add(self.every_ns));
        self.pass.event(event, what);
        self.groups.event(event, what);
    }
}

/// How signals are rebuilt.
struct How<'m> {
    machine: Option<&'m Machine>,
    invariance: bool,
    every_ns: u64,
    sums: bool,
}

/// What one pass over a trace gives.
struct Found<'m> {
    samples: Columns,
    notes: Vec<String>,
    threads: Vec<Reused>,
    cpus: u32,
    between: SampleColumns,
    residency: Residency,
    meter: Option<EnergyMeter<'m>>,
    activations: Activations,
    latencies: Option<Latencies>,
    problems: Vec<String>,
}

fn rebuilt<'m, H: HalfLife>(
    files: &RecordingFiles,
    first: First,
    how: &How<'m>,
) -> Result<Found<'m>, opplab_trace::Error> {
    let How { machine, invariance, every_ns, sums } = *how;
    let (tasks, queues) = <(SampleColumns, SampleColumns)>::default();
    let columns = Columns { tasks, queues, utils: Utils::new::<H>(), only_sums: sums };
    let (pelt, meta) = first.load_tracking::<_, H>(Some(files), machine, invariance, columns);
    let mut all = All {
        pass: Pass::new(pelt, machine, Some(files), sums),
        every_ns,
        next_ns: None,
        cpus: meta.cpus,
        between: SampleColumns::default(),
        groups: GroupFinder::default(),
    };
    let (names, mut threads) = (events(), Threads::default());
    let outcome = files.trace.stream(&all_of(&names), &mut decoded_threads(&names, &mut all, &mut threads))?;
    let All { pass: Pass { pelt, mut residency, activations, meter, latencies }, groups, between, cpus, .. } = all;
    residency.finish();
    let notes = threads.chain.notes(&outcome.missed).into_iter().chain(pelt.groups().words(&groups)).collect();
    let threads = threads.reused();
    let problems = outcome.problems.iter().map(ToString::to_string).collect();
    let samples = pelt.into_samples();
    Ok(Found { samples, notes, threads, cpus, between, residency, meter, activations, latencies, problems })
}

/// Signals of the trace at `path` as `{table: {column: array}}`; `unknown_ns` is running time without a known power.
#[guarded]
#[pyfunction]
///
/// `rqs_between` are the run queues every `every_ns` (0: none). Without `deadline_ns` the periods of tasks are their deadlines. With `sums`
/// there are `task_util` and `task_latency`, one row a task, instead of samples, waits and activations.
#[pyo3(signature = (path, machine=None, invariance=true, every_ns=0, deadline_ns=None, sums=false, half_life_ms=None))]
#[expect(clippy::too_many_arguments, reason = "each is an option of the command")]
pub(crate) fn trace_signals<'py>(
    py: Python<'py>,
    path: PathBuf,
    machine: Option<&PyMachine>,
    invariance: bool,
    every_ns: u64,
    deadline_ns: Option<u64>,
    sums: bool,
    half_life_ms: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let machine = machine.map(|machine| &machine.inner);
    let read = py.detach(|| {
        let files = RecordingFiles::open(&path)?;
        let first = First::of(&files.trace)?;
        let (half_life_ms, note) = first.half_life(&files.trace, Some(&files), machine, half_life_ms)?;
        let how = How { machine, invariance, every_ns, sums };
        let found = with_half_life!(half_life_ms, H => rebuilt::<H>(&files, first, &how))?;
        Ok((found, half_life_ms, note))
    });
    let (found, half_life_ms, note) = read.map_err(|error| trace_error(py, &path, error))?;
    let Found { samples, notes, threads, cpus, between, residency, meter, mut activations, latencies, problems } =
        found;
    if let Some(machine) = machine.filter(|machine| machine.nr_cpus() < cpus as usize) {
        let (name, have) = (&machine.name, machine.nr_cpus());
        let text = format!("{}: the trace has {cpus} CPUs, machine {name} has {have}", path.display());
        return Err(raise(py, "InputError", text));
    }
    let dict = PyDict::new(py);
    dict.set_item("half_life_ms", half_life_ms)?;
    let energy = meter.map(EnergyMeter::finish);
    let of_energy =
        energy.as_ref().zip(machine).map_or_else(Vec::new, |(energy, machine)| crate::energy::notes(energy, machine));
    dict.set_item("notes", notes.into_iter().chain(note).chain(of_energy).collect::<Vec<_>>())?;
    dict.set_item("problems", problems)?;
    dict.set_item("threads", crate::energy::threads_of(&threads))?;
    let known = Deadlines { given_ns: deadline_ns, stated_ns: std::mem::take(&mut activations.stated_ns) };
    utilisations(py, &dict, &samples.utils)?;
    if let Some(latencies) = latencies {
        summaries(py, &dict, &latencies.finish(&activations.under_way(), &known))?;
    }
    dict.set_item("tasks", samples.tasks.dict(py, true)?)?;
    dict.set_item("rqs", samples.queues.dict(py, false)?)?;
    dict.set_item("rqs_between", between.dict(py, false)?)?;
    if let Some(energy) = energy {
        let seen = energy.cpus.iter().enumerate().filter(|(_, one)| one.is_known());
        let (cpus, fj): (Vec<_>, Vec<_>) =
            seen.map(|(cpu, one)| (cpu as u32, joules(one.running_fj + one.idle_fj))).unzip();
        table(py, &dict, "cpu_energy", &[("cpu", cpus.into_pyarray(py).into_any()), ("cpu_j", array(py, fj))])?;
        let known = energy.tasks.iter().filter(|(_, one)| one.is_known());
        let (pids, fj): (Vec<_>, Vec<_>) = known.map(|(pid, one)| (*pid, joules(one.cpu_fj + one.shared_fj))).unzip();
        table(py, &dict, "task_energy", &[("pid", pids.into_pyarray(py).into_any()), ("energy_j", array(py, fj))])?;
        // Not a number where nothing is known.
        let clusters = energy.clusters.iter().zip(machine.map_or(&[][..], |machine| &machine.clusters));
        let (names, fj): (Vec<_>, Vec<_>) = clusters
            .map(|(one, described)| {
                let known = energy.is_known(one, described).then(|| joules(one.cpus_fj + one.shared_fj));
                (one.name.as_str(), known.unwrap_or(f64::NAN))
            })
            .unzip();
        table(py, &dict, "cluster_energy", &[("cluster", names.into_pyobject(py)?), ("energy_j", array(py, fj))])?;
        dict.set_item("unknown_ns", energy.cpus.iter().map(|one| one.unknown_ns).sum::<u64>())?;
        dict.set_item("idle_unknown_ns", energy.cpus.iter().map(|one| one.idle_unknown_ns).sum::<u64>())?;
        dict.set_item("shared_unknown_ns", energy.clusters.iter().map(|one| one.unknown_ns).max().unwrap_or(0))?;
        dict.set_item("unseen_ns", energy.unseen_ns)?;
    }
    let pairs = |sums: &BTreeMap<(u32, u32), u64>, second: &'static str, name: &str| {
        let columns = [
            ("cpu", sums.keys().map(|key| key.0).collect::<Vec<_>>().into_pyarray(py).into_any()),
            (second, sums.keys().map(|key| key.1).collect::<Vec<_>>().into_pyarray(py).into_any()),
            ("time_ns", sums.values().map(|ns| *ns as i64).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ];
        table(py, &dict, name, &columns)
    };
    pairs(&residency.frequency_ns, "khz", "freq_residency")?;
    pairs(&residency.idle_ns, "state", "idle_residency")?;
    let running = &residency.running_ns;
    let columns = [
        ("pid", running.keys().map(|key| key.0).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("cpu", running.keys().map(|key| key.1).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("khz", running.keys().map(|key| key.2).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("time_ns", running.values().map(|ns| *ns as i64).collect::<Vec<_>>().into_pyarray(py).into_any()),
    ];
    table(py, &dict, "running", &columns)?;
    let waits = &residency.waits;
    let columns = [
        ("time_ns", waits.iter().map(|wait| wait.time_ns as i64).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("pid", waits.iter().map(|wait| wait.pid).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("cpu", waits.iter().map(|wait| wait.cpu).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("wait_ns", waits.iter().map(|wait| wait.wait_ns as i64).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("woken", waits.iter().map(|wait| wait.woken).collect::<Vec<_>>().into_pyarray(py).into_any()),
    ];
    table(py, &dict, "waits", &columns)?;
    let mut deadlines = deadlines(&activations.all, &known);
    let is_told = |pid: &i32| known.given_ns.is_none() && activations.all.iter().any(|one| one.pid == *pid && one.late);
    let unjudged = activations.mostly_awake().into_iter();
    let unjudged = unjudged.filter(|pid| !deadlines.contains_key(pid) && !is_told(pid));
    dict.set_item("unjudged", unjudged.collect::<Vec<_>>())?;
    let by_period =
        activations.of_deadline_class.iter().filter(|&pid| known.of(*pid).is_none() && deadlines.contains_key(pid));
    dict.set_item("by_period", by_period.copied().collect::<Vec<_>>())?;
    let nr_ended = activations.all.len();
    let late = past_deadline(activations.under_way(), &mut deadlines, &known);
    activations.all.extend(late);
    let all = &activations.all;
    let times = |of: fn(&opplab_signals::activations::Activation) -> u64| {
        all.iter().map(|one| of(one) as i64).collect::<Vec<_>>().into_pyarray(py).into_any()
    };
    let columns = [
        ("time_ns", times(|one| one.woken_ns)),
        ("pid", all.iter().map(|one| one.pid).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("cpu", all.iter().map(|one| one.cpu).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("latency_ns", times(|one| one.start_ns.saturating_sub(one.woken_ns))),
        ("running_ns", times(|one| one.running_ns)),
        ("response_ns", times(|one| one.end_ns.saturating_sub(one.woken_ns))),
        ("ended", (0..all.len()).map(|index| index < nr_ended).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("preemptions", all.iter().map(|one| one.preemptions).collect::<Vec<_>>().into_pyarray(py).into_any()),
        (
            "late",
            all.iter().map(|one| one.late && known.given_ns.is_none()).collect::<Vec<_>>().into_pyarray(py).into_any(),
        ),
    ];
    table(py, &dict, "activations", &columns)?;
    let columns = [
        ("pid", deadlines.keys().copied().collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("deadline_ns", deadlines.values().map(|ns| *ns as i64).collect::<Vec<_>>().into_pyarray(py).into_any()),
    ];
    table(py, &dict, "deadlines", &columns)?;
    Ok(dict)
}

/// `task_util`.
fn utilisations(py: Python<'_>, dict: &Bound<'_, PyDict>, utils: &Utils) -> PyResult<()> {
    let of = utils.tasks.values();
    let columns = [
        ("pid", utils.tasks.keys().copied().collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("util_avg_mean", array(py, of.clone().map(UtilSummary::mean).collect())),
        ("util_avg_max", of.map(|one| one.max as u32).collect::<Vec<_>>().into_pyarray(py).into_any()),
    ];
    table(py, dict, "task_util", &columns)
}

/// `task_latency`.
fn summaries(py: Python<'_>, dict: &Bound<'_, PyDict>, latencies: &[(i32, LatencySummary)]) -> PyResult<()> {
    let times = |of: fn(&LatencySummary) -> u64| {
        latencies.iter().map(|(_, one)| of(one) as i64).collect::<Vec<_>>().into_pyarray(py).into_any()
    };
    let columns = [
        ("pid", latencies.iter().map(|(pid, _)| *pid).collect::<Vec<_>>().into_pyarray(py).into_any()),
        ("wakeups", times(|one| one.wakeups)),
        ("latency_ns_p50", times(|one| one.waits_ns[0])),
        ("latency_ns_p99", times(|one| one.waits_ns[1])),
        ("latency_ns_max", times(|one| one.waits_ns[2])),
        ("activations", times(|one| one.activations)),
        // Less than 0: there is no deadline.
        ("missed", times(|one| one.missed.unwrap_or(u64::MAX))),
    ];
    table(py, dict, "task_latency", &columns)
}

/// Femtojoules as joules.
fn joules(fj: u128) -> f64 {
    fj as f64 / 1e15
}

fn array(py: Python<'_>, values: Vec<f64>) -> Bound<'_, PyAny> {
    values.into_pyarray(py).into_any()
}

fn table<'py>(
    py: Python<'py>,
    dict: &Bound<'py, PyDict>,
    name: &str,
    columns: &[(&str, Bound<'py, PyAny>)],
) -> PyResult<()> {
    let inner = PyDict::new(py);
    columns.iter().try_for_each(|(column, values)| inner.set_item(column, values))?;
    dict.set_item(name, inner)
}
