//! What a recorded trace cost: see crate `replay`, module `energy`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_model::machine::Machine;
use opplab_replay::energy::{EVENTS, EnergyMeter, NO_STATES, TraceEnergy};
use opplab_replay::idle_states::IdleStates;
use opplab_replay::signals::all_of;
use opplab_replay::some_of;
use opplab_signals::decode::{Reused, Threads, decoded_threads};
use opplab_trace::TraceFile;
use opplab_trace::write::PerfettoWriter;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::raise;
use crate::machine::PyMachine;
use crate::tracefile::trace_error;

/// Femtojoules as joules.
fn joules(fj: u128) -> f64 {
    fj as f64 / 1e15
}

/// Rows as a list of dictionaries.
fn rows<'py>(
    py: Python<'py>,
    many: impl Iterator<Item = PyResult<Bound<'py, PyDict>>>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, many.collect::<PyResult<Vec<_>>>()?)
}

macro_rules! row {
    ($py:expr, $($name:literal : $value:expr),* $(,)?) => {{
        let row = PyDict::new($py);
        $(row.set_item($name, $value)?;)*
        Ok(row)
    }};
}

/// Refuses a machine of which some power is not known: its watts would be 0.
pub(crate) fn need_power(py: Python<'_>, machine: &Machine) -> PyResult<()> {
    let unknown = machine.unknown_power();
    if unknown.is_empty() {
        return Ok(());
    }
    let clusters = unknown.join(", ");
    let text = format!(
        "machine {} does not have the power of its clusters: {clusters}; `opplab machine import DUMP --power FILE` reads \
         measurements, `--power generic` takes the curve of its class",
        machine.name
    );
    Err(raise(py, "InputError", text))
}

/// Energy of the trace at `path` on each of `machines`, in one reading, as tables of rows: `cpus`, `clusters`, `tasks`,
/// `rails`, `steps`, and sums.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, machines, from_ns=None, to_ns=None))]
pub(crate) fn trace_energy<'py>(
    py: Python<'py>,
    path: PathBuf,
    machines: Vec<PyRef<'py, PyMachine>>,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let machines: Vec<&Machine> = machines.iter().map(|machine| &machine.inner).collect();
    machines.iter().try_for_each(|machine| need_power(py, machine))?;
    // What CPUs and clusters do in a part follows from the events around it, too.
    let window = (from_ns.unwrap_or(0), to_ns.unwrap_or(u64::MAX));
    // Events of any kind begin and end the trace.
    let options = all_of(&EVENTS);
    let read = py.detach(|| {
        let file = TraceFile::open(&path)?;
        let mut reader = file.reader(&options)?;
        let meters = machines
            .iter()
            .map(|machine| EnergyMeter::within(machine, window).with_idle_states(IdleStates::of(&path, machine)));
        let (mut meters, mut threads) = (meters.collect::<Vec<_>>(), Threads::default());
        let mut sink = decoded_threads(&EVENTS, &mut meters, &mut threads);
        let outcome = file.stream_reader(&mut *reader, &options, &mut sink)?;
        drop(sink);
        let found: Vec<TraceEnergy> = meters.into_iter().map(EnergyMeter::finish).collect();
        let mut processes = reader.processes();
        let (reused, chain) = (threads.reused(), threads.chain);
        // What the trace shows of a pid's process is of its last thread.
        for last in reused.iter().filter(|one| one.is_last) {
            if let Some(process) = processes.remove(&last.pid) {
                processes.insert(last.number, process);
            }
        }
        Ok((found, processes, reused, chain.notes(&outcome.missed), outcome.problems))
    });
    let (found, processes, reused, lost, problems): (Vec<TraceEnergy>, BTreeMap<i32, i32>, Vec<Reused>, _, Vec<_>) =
        read.map_err(|error| trace_error(py, &path, error))?;
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let of_machine = |(energy, machine): (&TraceEnergy, &Machine)| {
        if energy.strangers > 0 {
            let (name, have, cpus) = (&machine.name, machine.nr_cpus(), energy.strangers);
            let text = format!("{}: the trace has {cpus} CPUs, machine {name} has {have}", path.display());
            return Err(raise(py, "InputError", text));
        }
        let dict = tables(py, energy, machine, &processes)?;
        dict.set_item("problems", &problems)?;
        dict.set_item("notes", lost.iter().cloned().chain(notes(energy, machine)).collect::<Vec<_>>())?;
        dict.set_item("threads", threads_of(&reused))?;
        Ok(dict)
    };
    found.iter().zip(machines).map(of_machine).collect()
}

/// Threads whose pid others have, too: number, pid, name, and whether no later one has it.
pub(crate) fn threads_of(reused: &[Reused]) -> Vec<(i32, i32, Option<&str>, bool)> {
    reused.iter().map(|one| (one.number, one.pid, one.name.as_deref(), one.is_last)).collect()
}

/// What of an energy is not as the trace has it, or as the machine does.
pub(crate) fn notes(energy: &TraceEnergy, machine: &Machine) -> Vec<String> {
    let too_fast = energy.too_fast.map(|(cpu, khz)| {
        let highest = machine.cluster_of(cpu).highest_khz();
        format!("CPU {cpu} is at {khz} kHz, machine {} ends at {highest}: such clocks count as that", machine.name)
    });
    let no_states = energy.no_states.then(|| NO_STATES.to_owned());
    let no_opps = energy.no_opps.iter().zip(&machine.clusters).filter(|(khz, _)| !khz.is_empty());
    let no_opps = no_opps.map(|(khz, cluster)| {
        let mhz: Vec<String> = khz.iter().map(|khz| (f64::from(*khz) / 1e3).to_string()).collect();
        let (mhz, of) = (some_of(&mhz), format!("{} of machine {}", cluster.name, machine.name));
        format!("{mhz} MHz: no operating points of {of}; they count as its next higher ones")
    });
    too_fast.into_iter().chain(no_opps).chain(energy.states_note.clone()).chain(no_states).collect()
}

/// What a trace cost on one machine.
fn tables<'py>(
    py: Python<'py>,
    energy: &TraceEnergy,
    machine: &Machine,
    processes: &BTreeMap<i32, i32>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let cpus = energy.cpus.iter().enumerate().map(|(cpu, one)| {
        row!(py, "cpu": cpu, "cluster": &machine.cluster_of(cpu as u32).name, "energy_j": joules(one.running_fj + one.idle_fj),
            "running_j": joules(one.running_fj), "idle_j": joules(one.idle_fj), "running_ns": one.running_ns,
            "unknown_ns": one.unknown_ns, "idle_unknown_ns": one.idle_unknown_ns,
            "unknown_low_j": joules(one.unknown_fj.0), "unknown_high_j": joules(one.unknown_fj.1),
            "is_known": one.is_known())
    });
    dict.set_item("cpus", rows(py, cpus)?)?;
    let clusters = energy.clusters.iter().zip(&machine.clusters).map(|(one, described)| {
        let of_cpus = described.cpus.iter().map(|&cpu| energy.cpus[cpu as usize].unknown_fj);
        let unknown_fj = of_cpus.fold(one.unknown_fj, |sum, of| (sum.0 + of.0, sum.1 + of.1));
        row!(py, "cluster": &one.name, "energy_j": joules(one.cpus_fj + one.shared_fj), "cpus_j": joules(one.cpus_fj),
            "shared_j": joules(one.shared_fj), "unknown_ns": one.unknown_ns, "unknown_low_j": joules(unknown_fj.0),
            "unknown_high_j": joules(unknown_fj.1), "is_known": energy.is_known(one, described))
    });
    dict.set_item("clusters", rows(py, clusters)?)?;
    let tasks = energy.tasks.iter().map(|(pid, one)| {
        row!(py, "pid": pid, "process": processes.get(pid), "energy_j": joules(one.cpu_fj + one.shared_fj),
            "cpu_j": joules(one.cpu_fj), "shared_j": joules(one.shared_fj), "running_ns": one.running_ns,
            "unknown_ns": one.unknown_ns, "is_known": one.is_known())
    });
    dict.set_item("tasks", rows(py, tasks)?)?;
    let rails = energy.rails.iter().map(|rail| {
        let clusters = energy.clusters_of(&rail.name);
        let (from_ns, to_ns) = (rail.first.0, rail.last.0);
        let modelled = (!clusters.is_empty()).then(|| joules(energy.steps.between_fj(&clusters, from_ns, to_ns)));
        let names: Vec<&str> = clusters.iter().map(|&nth| energy.clusters[nth].name.as_str()).collect();
        row!(py, "rail": &rail.name, "from_ns": from_ns, "to_ns": to_ns,
            "measured_j": rail.last.1.saturating_sub(rail.first.1) as f64 / 1e6, "clusters": names.join(" "),
            "modelled_j": modelled)
    });
    dict.set_item("rails", rows(py, rails)?)?;
    let steps = PyDict::new(py);
    set_fields!(steps, energy.steps; start_ns, step_ns);
    for (nth, cluster) in energy.clusters.iter().enumerate() {
        steps.set_item(&cluster.name, energy.steps.power_uw(nth))?;
    }
    dict.set_item("steps", steps)?;
    let (low, high) = energy.interval_fj();
    dict.set_item("window_ns", energy.window_ns)?;
    dict.set_item("unseen_ns", energy.unseen_ns)?;
    dict.set_item("total_j", joules(energy.total_fj()))?;
    dict.set_item("low_j", joules(low))?;
    dict.set_item("high_j", joules(high))?;
    dict.set_item("idle_j", joules(energy.idle_fj))?;
    dict.set_item("floor_j", joules(energy.floor_fj))?;
    // In fJ, as text: sums of these are exact.
    dict.set_item("total_fj", energy.total_fj().to_string())?;
    let parts = energy.tasks.values().map(|one| one.cpu_fj + one.shared_fj).sum::<u128>();
    dict.set_item("parts_fj", (parts + energy.idle_fj + energy.floor_fj).to_string())?;
    Ok(dict)
}

/// A Perfetto trace of counters: `(name, unit, start_ns, step_ns, values)` each.
#[guarded]
#[pyfunction]
pub(crate) fn perfetto_counters<'py>(
    py: Python<'py>,
    trace: Option<&crate::tracefile::PyTrace>,
    counters: Vec<(String, String, u64, u64, Vec<f64>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut writer = PerfettoWriter::new();
    if let Some(trace) = trace {
        writer.add_trace(&trace.inner);
    }
    for (name, unit, start_ns, step_ns, values) in counters {
        let track = writer.counter_track(&name, &unit, None);
        for (nth, value) in (0u64..).zip(values) {
            writer.counter_real(track, start_ns.saturating_add(nth.saturating_mul(step_ns)), value);
        }
    }
    Ok(PyBytes::new(py, &writer.finish()))
}
