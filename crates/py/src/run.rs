//! Runs: a case in, what was measured out; events as columns, or as a Perfetto trace.

use std::ops::Deref;

use numpy::IntoPyArray;
use opplab_guarded::guarded;
use opplab_model::event::{Event, NullSink, Sink, Tee};
use opplab_model::latency::Latencies;
use opplab_model::rtapp::{LOG_HEADER, LoopRecord, log_file_name, log_line};
use opplab_results::{METRICS, Run};
use opplab_sim::by_group::{ByGroup, Percentiles};
use opplab_sim::check::Check;
use opplab_sim::decisions::{DecisionColumns, decision_tables};
use opplab_sim::sink::{Column, Columns, TABLES};
use opplab_sim::smt_sharing::SmtSharing;
use opplab_sim::why_slow::{SLOW_REASONS, WhySlow};
use opplab_sim::{Case, Outcome, Start, cpufreq_facts};
use opplab_timeline::{Reasons, RunTrace};
use opplab_trace::write::{ftrace_text, trace_dat};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::raise;
use crate::policies::{Policies, PyHooks};

/// A case and the policies in Python under which it runs, if there are any.
pub(crate) struct HookedCase {
    pub(crate) case: Case,
    pub(crate) policies: Option<Policies>,
    pub(crate) start: Start,
}

impl Deref for HookedCase {
    type Target = Case;

    fn deref(&self) -> &Case {
        &self.case
    }
}

/// Runs a case without the interpreter's lock; policies in Python take it when they are asked.
pub(crate) fn simulate<S: Sink + Send>(py: Python<'_>, case: &HookedCase, sink: &mut S) -> PyResult<Outcome> {
    let Some(policies) = &case.policies else {
        return py
            .detach(|| opplab_sim::run_from(&case.case, &case.start, sink))
            .map_err(|error| raise(py, "CaseError", error.0));
    };
    let mut hooks = PyHooks::new(py, policies)?;
    let result = py.detach(|| opplab_sim::run_with(&case.case, &case.start, sink, &mut hooks));
    result.map_err(|error| hooks.raise(py, error.0))
}

/// What a run counted, and beside it what the indexes mean: `_opplab.Outcome` of the stubs.
fn outcome_dict<'py>(py: Python<'py>, case: &HookedCase, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let clusters = PyList::empty(py);
    for (cluster, points) in case.machine.clusters.iter().zip(&outcome.points) {
        let entry = PyDict::new(py);
        set_fields!(entry, cluster; name, cpus, capacity);
        entry.set_item("opps_khz", points.iter().map(|point| point.khz).collect::<Vec<_>>())?;
        entry.set_item("idle_states", cluster.idle.iter().map(|state| state.name.as_str()).collect::<Vec<_>>())?;
        clusters.append(entry)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("clusters", clusters)?;
    dict.set_item("wall_ns", outcome.wall_ns)?;
    dict.set_item("end_ns", outcome.warmup.wall_ns + outcome.wall_ns)?;
    set_fields!(dict, outcome;
        cluster_energy_fj, shared_energy_fj, asleep_ns, floor_energy_fj, activations, missed_activations, busy_ns_by_opp, idle_ns_by_state,
        time_ns_by_opp, task_names, switches, line_ns, io_ns, resumes, lost_resumes
    );
    let quotas = case.workload.groups.iter().zip(&outcome.groups).filter(|(spec, _)| spec.quota.is_some());
    let quotas = quotas.map(|(spec, stat)| (&spec.name, stat.nr_periods, stat.nr_throttled, stat.throttled_ns));
    dict.set_item("quotas", quotas.collect::<Vec<_>>())?;
    let groups =
        outcome.task_groups.iter().map(|&group| case.workload.groups.get(group? as usize).map(|spec| &spec.name));
    dict.set_item("task_groups", groups.collect::<Vec<_>>())?;
    dict.set_item("groups", case.workload.groups.iter().map(|spec| &spec.name).collect::<Vec<_>>())?;
    dict.set_item("fingerprint", outcome.fingerprint)?;
    Ok(dict)
}

/// Runs a case, with the invariant checks if `check`; its rows of results are among what comes back, with how long tasks waited
/// if `latencies`.
pub(crate) fn metrics<'py>(
    py: Python<'py>,
    case: &HookedCase,
    check: bool,
    latencies: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let new_check = || Check::new(case.machine.nr_cpus());
    let new_waits = || Latencies::from(case.workload.warmup_ns);
    let no_waits = (None, None);
    match (check, latencies) {
        (false, false) => rows_with(py, case, NullSink, |_, _| Ok(no_waits)),
        (true, false) => {
            rows_with(py, case, new_check(), |check, outcome| hold(py, case, check, outcome).and(Ok(no_waits)))
        }
        (false, true) => rows_with(py, case, new_waits(), |waits, outcome| Ok(waits.percentiles(&outcome.not_own))),
        (true, true) => rows_with(py, case, Tee(new_check(), new_waits()), |Tee(check, waits), outcome| {
            hold(py, case, check, outcome).and(Ok(waits.percentiles(&outcome.not_own)))
        }),
    }
}

/// Whether the invariants hold.
fn hold(py: Python<'_>, case: &HookedCase, check: Check, outcome: &Outcome) -> PyResult<()> {
    check
        .finish(case, outcome)
        .map_err(|violations| raise(py, "CheckError", format!("invariants do not hold: {}", violations.join("; "))))
}

/// Runs a case with `sink`, of which `waits` makes how long tasks waited.
fn rows_with<'py, S: Sink + Send>(
    py: Python<'py>,
    case: &HookedCase,
    sink: S,
    waits: impl FnOnce(S, &Outcome) -> PyResult<(Percentiles, Percentiles)>,
) -> PyResult<Bound<'py, PyDict>> {
    let specs = &case.workload.groups;
    let (sink, outcome, groups) = if specs.is_empty() {
        let mut sink = sink;
        let outcome = simulate(py, case, &mut sink)?;
        (sink, outcome, None)
    } else {
        let mut both = Tee(sink, ByGroup::new(case));
        let outcome = simulate(py, case, &mut both)?;
        let shares = both.1.finish(specs, &outcome);
        (both.0, outcome, Some(shares))
    };
    let waits = waits(sink, &outcome)?;
    let rows = Run { case, outcome: &outcome, groups: groups.as_ref(), waits }.rows();
    let rows: Vec<_> = rows.into_iter().map(|row| (row.metric, row.unit, row.better.name(), row.value)).collect();
    let dict = outcome_dict(py, case, &outcome)?;
    dict.set_item("rows", rows)?;
    Ok(dict)
}

/// What is measured in every run: name, unit, better, kind and meaning of each metric.
#[guarded]
#[pyfunction]
pub(crate) fn metrics_of_runs() -> Vec<(&'static str, &'static str, &'static str, &'static str, &'static str)> {
    METRICS.iter().map(|one| (one.name, one.unit, one.better.name(), one.kind.name(), one.about)).collect()
}

/// Runs a case and gives the events and decision records of `tables` (all events, if there is none):
/// `{table: {column: array}}`.
pub(crate) fn events<'py>(py: Python<'py>, case: &HookedCase, tables: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let (decisions, names): (Vec<&str>, Vec<&str>) =
        tables.iter().map(String::as_str).partition(|name| decision_tables().any(|known| known == *name));
    let unknown = |unknown: String| {
        let known = || TABLES.iter().copied().chain(decision_tables());
        // The middle of a name is far from it.
        let near = opplab_model::error::nearest(&unknown, known())
            .or_else(|| known().find(|name| unknown.len() > 3 && name.contains(&unknown)));
        let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        raise(py, "InputError", format!("unknown event `{unknown}`{hint}"))
    };
    let kept = if decisions.is_empty() {
        let mut sink = Columns::new(&names).map_err(unknown)?;
        simulate(py, case, &mut sink)?;
        sink.tables()
    } else {
        let mut records = DecisionColumns::new(&decisions).map_err(unknown)?;
        if names.is_empty() {
            simulate(py, case, &mut records)?;
            records.tables()
        } else {
            let mut sink = Tee(Columns::new(&names).map_err(unknown)?, records);
            simulate(py, case, &mut sink)?;
            [sink.0.tables(), sink.1.tables()].concat()
        }
    };
    let all = PyDict::new(py);
    for table in kept {
        let columns = PyDict::new(py);
        for (name, column) in table.columns {
            match column {
                Column::U8(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U32(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::I32(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::U64(values) => columns.set_item(name, values.into_pyarray(py))?,
                Column::I64(values) => columns.set_item(name, values.into_pyarray(py))?,
            }
        }
        all.set_item(table.name, columns)?;
    }
    Ok(all)
}

/// Why CPUs were slow: what the run measured, `[(cpu, task, reason, khz, slow_ns, lost_ns, energy_fj)]`, and the time
/// beside a busy thread of the core with what was lost of it.
pub(crate) fn why_slow<'py>(py: Python<'py>, case: &HookedCase) -> PyResult<WhySlowResult<'py>> {
    let warmup_ns = case.workload.warmup_ns;
    let why = WhySlow::new(case);
    let mut sink = Tee(why, SmtSharing::new(&case.machine, case.workload.smt_yield, warmup_ns));
    let outcome = simulate(py, case, &mut sink)?;
    let rows = sink.0.finish(&outcome);
    let beside = sink.1.finish(outcome.warmup.wall_ns + outcome.wall_ns);
    let rows = rows.into_iter().map(|((cpu, task, reason, khz), time)| {
        (cpu, task, SLOW_REASONS[reason as usize], khz, time.slow_ns, time.lost_ns, time.energy_fj)
    });
    Ok((outcome_dict(py, case, &outcome)?, rows.collect(), beside))
}

/// What a run measured, its slow rows, and (time, lost) beside busy siblings in ns.
pub(crate) type WhySlowResult<'py> = (Bound<'py, PyDict>, Vec<SlowRow>, (u64, u64));

/// CPU, task, reason, clock in kHz, slow ns, lost ns, energy in fJ.
pub(crate) type SlowRow = (u32, u32, &'static str, u32, u64, u64, u128);

/// What explanations need to know of a case beside its events: policy, cpufreq, what the indexes mean.
pub(crate) fn facts<'py>(py: Python<'py>, case: &HookedCase) -> PyResult<Bound<'py, PyDict>> {
    let facts = cpufreq_facts(case).map_err(|error| raise(py, "CaseError", error.0))?;
    let dict = PyDict::new(py);
    dict.set_item("machine", &case.machine.name)?;
    dict.set_item("workload", &case.workload.name)?;
    set_fields!(dict, case.policy; kernel, governor, proposals);
    set_fields!(dict, facts; driver, fast_switch, rate_limit_us, epp);
    dict.set_item("fixed_speed", case.machine.speed_is_constant())?;
    dict.set_item("smt_yield", case.workload.smt_yield.unwrap_or(case.machine.smt_yield))?;
    dict.set_item("cores", case.machine.cpus.iter().map(|cpu| cpu.core).collect::<Vec<_>>())?;
    let policies = PyList::empty(py);
    for (cluster, cpus) in facts.policies {
        let cluster = &case.machine.clusters[cluster as usize];
        let entry = PyDict::new(py);
        entry.set_item("cluster", &cluster.name)?;
        entry.set_item("cpus", cpus)?;
        entry.set_item("capacity", cluster.capacity)?;
        entry.set_item("reference_khz", cluster.reference_khz())?;
        entry.set_item("opps_khz", cluster.opps.iter().map(|opp| opp.khz).collect::<Vec<_>>())?;
        policies.append(entry)?;
    }
    dict.set_item("policies", policies)?;
    Ok(dict)
}

/// Runs a case and gives its events as a kernel trace: `perfetto`, `trace.dat` or `text`.
///
/// It runs twice: the tasks' names are known when the first run ends.
pub(crate) fn trace<'py>(py: Python<'py>, case: &HookedCase, form: &str) -> PyResult<Bound<'py, PyBytes>> {
    let outcome = simulate(py, case, &mut NullSink)?;
    let (names, end_ns) = (outcome.task_names, outcome.warmup.wall_ns + outcome.wall_ns);
    let in_place = case.policies.as_ref().map(|policies| policies.names(py)).transpose()?;
    let [governor, placement] = in_place.unwrap_or_default();
    let mut sink = RunTrace::new(&case.machine, names, &case.policy, form == "perfetto")
        .with_in_place(governor.as_deref(), placement.as_deref())
        .with_groups(&case.workload.groups, outcome.task_groups);
    let mut why = Reasons::default();
    if form == "perfetto" {
        let mut both = Tee(sink, why);
        simulate(py, case, &mut both)?;
        (sink, why) = (both.0, both.1);
    } else {
        simulate(py, case, &mut sink)?;
    }
    sink.end(end_ns);
    let bytes = py.detach(|| match form {
        "perfetto" => Ok(Some(sink.into_perfetto(&why))),
        "trace.dat" => {
            let mut out = Vec::new();
            trace_dat(&sink.into_trace(), &mut out).map(|()| Some(out))
        }
        "text" => {
            let mut out = Vec::new();
            ftrace_text(&sink.into_trace(), &mut out).map(|()| Some(out))
        }
        _ => Ok(None),
    })?;
    match bytes {
        Some(bytes) => Ok(PyBytes::new(py, &bytes)),
        None => Err(raise(py, "InputError", format!("unknown form of trace `{form}`"))),
    }
}

/// rt-app's own log of every task that logged a loop, by file name.
///
/// The log's calibration is that of a loop of 1 ns: `perf` is the configured run time in us.
pub(crate) fn rtapp_logs(py: Python<'_>, case: &HookedCase) -> PyResult<Vec<(String, String)>> {
    let mut sink = Loops::default();
    let outcome = simulate(py, case, &mut sink)?;
    let mut logs: Vec<Option<String>> = vec![None; outcome.task_names.len()];
    for (end_ns, task, phase, mut record) in sink.0 {
        let Some(name) = outcome.task_names.get(task as usize) else { continue };
        let Some(spec) = case.workload.tasks.iter().find(|spec| spec.name == *name) else { continue };
        if let Some(phase) = spec.phases.get(usize::from(phase)) {
            record.run_config_ns = phase.run_ns;
            record.period_config_ns = phase.period_ns;
        }
        record.end_ns = end_ns;
        record.start_ns = end_ns.saturating_sub(record.period_ns);
        record.rel_start_ns = record.start_ns;
        let log = logs[task as usize].get_or_insert_with(|| {
            let policy = "# Policy : SCHED_OTHER priority : 0";
            format!("{policy}\n{LOG_HEADER}\n")
        });
        log.push_str(&log_line(&record, 1));
    }
    let named = outcome.task_names.iter().zip(logs);
    Ok(named.filter_map(|(name, log)| log.map(|text| (log_file_name("rt-app", name), text))).collect())
}

/// Keeps the loops that rt-app would log: (end, task, phase, the event's text).
#[derive(Default)]
struct Loops(Vec<(u64, u32, u16, LoopRecord)>);

impl Sink for Loops {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::Activation { task, phase, period_ns, run_ns, wu_lat_ns, to_timer_ns, .. } = *event {
            let slack_ns = to_timer_ns;
            let record = LoopRecord { idx: task, run_ns, period_ns, slack_ns, wu_lat_ns, ..LoopRecord::default() };
            self.0.push((now_ns, task, phase, record));
        }
    }
}
