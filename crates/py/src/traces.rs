//! Agreement with recordings of real kernels: see crate `verify`, module `traces`.

use std::path::PathBuf;

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::facts::SugovOutcome;
use opplab_kernel::profile::{HeadroomPlace, SugovUtil};
use opplab_kernel::sched::placement::SiblingRule;
use opplab_model::decision::words::{Names, Words, words};
use opplab_model::decision::{CODES, Decision, FreqContext, NO_CPU, NONE, TABLES, number_of, word};
use opplab_model::ids::{IDLE_TASK, PlacementRule};
use opplab_verify::traces::{RecordedChoice, RecordedFreq, RecordedPlacement};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raise;
use crate::tracefile::note_damage;
use crate::verify::map_error;

/// Kind, exact, total, share in percent, remark.
type Row = (String, u64, u64, f64, String);

/// The folders at `path` that hold a recording: itself, or those in it, by name.
#[guarded]
#[pyfunction]
pub(crate) fn find_recordings(py: Python<'_>, path: PathBuf) -> PyResult<Vec<PathBuf>> {
    opplab_verify::traces::find_recordings(&path).map_err(|error| map_error(py, &error))
}

/// schedutil's decisions as columns, called as in the records of a run; `ret_khz` is what the kernel's function answered.
pub(crate) fn frequency_columns<'py>(py: Python<'py>, rows: &[(u64, Decision, u32)]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let mut numbers: Vec<(&'static str, Vec<i128>)> = Vec::new();
    for (_, decision, _) in rows {
        let mut place = 0;
        decision.each(|name, number| {
            match numbers.get_mut(place) {
                Some((_, column)) => column.push(number),
                None => numbers.push((name, vec![number])),
            }
            place += 1;
        });
    }
    columns.set_item("time_ns", rows.iter().map(|(time_ns, ..)| *time_ns).collect::<Vec<_>>())?;
    for (name, column) in numbers {
        columns.set_item(name, column)?;
    }
    columns.set_item("ret_khz", rows.iter().map(|(.., ret_khz)| *ret_khz).collect::<Vec<_>>())?;
    Ok(columns)
}

/// The record of a recorded decision; how it came about is left out where the recorded inputs do not give the recorded result.
fn recorded_decision(row: &RecordedFreq, form: SugovUtil) -> Decision {
    let members: Vec<u32> = row.members.iter().map(|&cpu| cpu as u32).collect();
    let context = FreqContext { members: &members, form, iowait: row.iowait, prev_khz: row.prev_khz, wait_ns: 0 };
    let mut made = Decision::freq(&context, &row.decision, &row.decision);
    if let Decision::Freq { cpu, bound, util_sum, util, next_khz, headroom, .. } = &mut made {
        *cpu = row.cpu.map_or(NO_CPU, |cpu| cpu as u32);
        *next_khz = if row.decision.outcome == SugovOutcome::Held { row.prev_khz } else { row.ret_khz };
        if !row.exact {
            *bound = NONE;
            *util = u32::try_from(row.decision.util).unwrap_or(u32::MAX);
            // The argument of get_next_freq(), which adds the headroom itself.
            if row.decision.headroom.1 == HeadroomPlace::InClampedUtil {
                *util_sum = *util;
                *util = u32::try_from((u64::from(*util) * u64::from(*headroom)) >> 10).unwrap_or(u32::MAX);
            }
        }
    }
    made
}

/// The numbers of a record as a dictionary.
fn numbers<'py>(py: Python<'py>, decision: &Decision) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let mut all = Vec::new();
    decision.each(|name, number| all.push((name, number)));
    all.into_iter().try_for_each(|(name, number)| dict.set_item(name, number))?;
    Ok(dict)
}

/// A record of kind `table` with the numbers of `row`, whose small numbers may be words, `None` where there is none.
fn record(py: Python<'_>, table: &str, row: &Bound<'_, PyDict>) -> PyResult<Decision> {
    let number = |name: &str| -> Option<i128> {
        let value = row.get_item(name).ok()??;
        if value.is_none() {
            return Some(NONE.into());
        }
        match value.extract::<String>() {
            Ok(word) => number_of(name, &word).map(i128::from),
            Err(_) => value.extract::<i128>().ok(),
        }
    };
    Decision::of(table, &number).ok_or_else(|| raise(py, "InputError", format!("no record of `{table}`: {row}")))
}

/// A decision record in words: `title`, `how` (the chain), `text` (the sentence) and `outcome`. `names` is the governor,
/// the driver, the policy's frequencies and CPUs, and whether wakers are known; `task` names a task; `lines` are the other records
/// of the decision, with their tables.
#[guarded]
#[pyfunction]
pub(crate) fn decision_words<'py>(
    py: Python<'py>,
    table: &str,
    row: &Bound<'py, PyDict>,
    names: (String, String, Vec<u32>, Vec<u32>, bool),
    task: &Bound<'py, PyAny>,
    lines: Vec<(String, Bound<'py, PyDict>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let (governor, driver, opps_khz, cpus, knows_waker) = names;
    let decision = record(py, table, row)?;
    let lines = lines.iter().map(|(table, row)| record(py, table, row)).collect::<PyResult<Vec<_>>>()?;
    let name = |index: u32| {
        task.call1((index,)).and_then(|name| name.extract::<String>()).unwrap_or_else(|_| index.to_string())
    };
    let p_states = DriverId::named(&driver).is_some_and(|driver| driver.p_states);
    let (opps_khz, cpus) = (&opps_khz[..], &cpus[..]);
    let named = Names { governor: &governor, p_states, opps_khz, cpus, knows_waker, task: &name };
    let Words { title, how, text, outcome } = words(&decision, &lines, &named);
    let dict = PyDict::new(py);
    dict.set_item("title", title)?;
    dict.set_item("how", how)?;
    dict.set_item("text", text)?;
    dict.set_item("outcome", outcome)?;
    Ok(dict)
}

/// A frequency's place in a policy's table: its P-state or its operating point.
#[guarded]
#[pyfunction]
pub(crate) fn point_name(driver: &str, opps_khz: Vec<u32>, khz: u32) -> String {
    let p_states = DriverId::named(driver).is_some_and(|driver| driver.p_states);
    let task = |index: u32| index.to_string();
    Names { governor: "", p_states, opps_khz: &opps_khz, cpus: &[], knows_waker: false, task: &task }.point(khz)
}

/// The small numbers of columns as parts of sentences: column, word, phrase.
#[guarded]
#[pyfunction]
pub(crate) fn decision_phrases() -> Vec<(&'static str, &'static str, &'static str)> {
    CODES.iter().flat_map(|(column, codes)| codes.iter().map(|code| (*column, code.word, code.phrase))).collect()
}

/// The frequency decisions of the recording in folder `path`, and its cpufreq policies:
/// `({column: values}, [{cpus, driver, governor, opps_khz}])`. A part that is not known is -1.
#[guarded]
#[pyfunction]
pub(crate) fn recorded_frequencies<'py>(
    py: Python<'py>,
    path: PathBuf,
) -> PyResult<(Bound<'py, PyDict>, Vec<Bound<'py, PyDict>>)> {
    let found = py.detach(|| opplab_verify::traces::frequency_decisions(&path));
    let found = found.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &found.damage)?;
    let form = found.machine.sugov_gates().util;
    let rows: Vec<_> = found.list.iter().map(|row| (row.time_ns, recorded_decision(row, form), row.ret_khz)).collect();
    let columns = frequency_columns(py, &rows)?;
    let policies = found.machine.policies.iter().map(|policy| {
        let entry = PyDict::new(py);
        set_fields!(entry, policy; cpus, driver, governor);
        let entries = policy.table.as_ref().map_or(&[][..], |table| table.entries());
        let mut khz: Vec<u32> = entries.iter().map(|entry| entry.freq_khz).collect();
        khz.sort_unstable();
        entry.set_item("opps_khz", khz)?;
        Ok(entry)
    });
    let policies = policies.collect::<PyResult<Vec<_>>>()?;
    Ok((columns, policies))
}

/// The placements of wake-ups in the recording at `path`, one dictionary each, whose inputs it holds, called as in the decision
/// records of a run. `how` is `energy` or `idleness`; `record` and `lines` are what `decision_words` takes.
#[guarded]
#[pyfunction]
pub(crate) fn recorded_placements(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let found = py.detach(|| opplab_verify::traces::placements(&path));
    let found = found.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &found.damage)?;
    let name = |pid: i64| found.names.get(&pid).map_or_else(|| pid.to_string(), Clone::clone);
    let one = |placement: &RecordedPlacement| -> PyResult<Bound<'_, PyDict>> {
        let row = PyDict::new(py);
        let (made, lines) = recorded_placement(placement);
        let record = numbers(py, &made)?;
        row.update(record.as_mapping())?;
        for name in ["eas_rule", "affine_rule", "sibling_rule", "rule"] {
            let code = record.get_item(name)?.and_then(|value| value.extract::<u8>().ok()).unwrap_or(NONE);
            row.set_item(name, word(name, code))?;
        }
        row.set_item("record", record)?;
        set_fields!(row, placement; time_ns, pid);
        row.set_item("task", name(placement.pid))?;
        row.set_item("waker", (placement.waker != 0).then(|| name(placement.waker)))?;
        set_fields!(row, placement; cpu, computed);
        row.set_item("util_avg", placement.utils.map(|(avg, _)| avg))?;
        row.set_item("util_est", placement.utils.map(|(_, est)| est))?;
        let lines = lines.iter().map(|line| Ok((TABLES[line.table()].name, numbers(py, line)?)));
        row.set_item("lines", lines.collect::<PyResult<Vec<_>>>()?)?;
        row.set_item("how", if matches!(placement.choice, RecordedChoice::Energy(_)) { "energy" } else { "idleness" })?;
        Ok(row)
    };
    found.list.iter().map(one).collect()
}

/// The record of a recorded placement with what was weighed. Tasks are pids; what a recording does not hold is left out.
fn recorded_placement(placement: &RecordedPlacement) -> (Decision, Vec<Decision>) {
    let index = |cpu: usize| u32::try_from(cpu).unwrap_or(NO_CPU);
    let (util_avg, util_est) = placement.utils.map_or((u32::MAX, 0), |(avg, est)| (avg as u32, est as u32));
    let mut lines = Vec::new();
    let (mut rule, mut eas_rule, mut affine_rule, mut sibling_rule) = (PlacementRule::Eas, NONE, NONE, NONE);
    let (mut wake_wide, mut target, mut nr_idle, mut cpu) = (false, NO_CPU, 0, index(placement.cpu));
    match &placement.choice {
        RecordedChoice::Energy(seen) => {
            eas_rule = seen.decided.map_or(NONE, |(_, rule)| rule as u8);
            lines.extend(seen.candidates.iter().map(|one| Decision::Candidate {
                decision: 0,
                cpu: index(one.cpu),
                domain: index(one.domain),
                util: 0,
                capacity: 0,
                spare_cap: one.spare_cap as u32,
                fits: one.fits,
            }));
            lines.extend(seen.energies.iter().map(|one| Decision::Energy {
                decision: 0,
                dst_cpu: one.dst_cpu.map_or(-1, |cpu| cpu as i32),
                domain: index(one.domain),
                energy: one.energy,
                max_util: one.max_util,
                busy_time: one.busy_time,
            }));
        }
        RecordedChoice::Idleness { wide, affine, target: start, rule: found, nr_idle: idle } => {
            rule = if *found == SiblingRule::Target { PlacementRule::Target } else { PlacementRule::IdleSibling };
            (wake_wide, target, nr_idle) = (*wide, index(*start), *idle);
            affine_rule = affine.map_or(NONE, |(_, rule)| rule as u8);
            sibling_rule = *found as u8;
            cpu = placement.computed.map_or(cpu, index);
        }
    }
    let made = Decision::Placement {
        decision: 0,
        task: placement.pid as u32,
        fork: false,
        prev_cpu: index(placement.prev_cpu),
        cpu,
        rule,
        waker_cpu: index(placement.waker_cpu),
        waker: if placement.waker == 0 { IDLE_TASK } else { placement.waker as u32 },
        in_interrupt: placement.waker == 0,
        sync: placement.sync,
        nr_allowed: 0,
        util_avg,
        util_est,
        overutilized: placement.overutilized,
        eas_rule,
        wake_wide,
        imbalance_pct: 0,
        affine_rule,
        this_load: 0,
        prev_load: 0,
        task_load: 0,
        target,
        sibling_rule,
        nr_idle,
    };
    (made, lines)
}

/// Recomputes the decisions of the recording in folder `path`: its name, one row a kind, and what is wrong, in words.
#[guarded]
#[pyfunction]
pub(crate) fn verify_recording(py: Python<'_>, path: PathBuf) -> PyResult<(String, Vec<Row>, Vec<String>)> {
    let report = py.detach(|| opplab_verify::traces::verify_recording(&path));
    let report = report.map_err(|error| map_error(py, &error))?;
    note_damage(py, &path, &report.damage)?;
    let rows = report.rows().map(|(kind, count)| {
        let share = count.share_per_100k() as f64 / 1000.0;
        (kind.to_owned(), count.exact, count.total, share, count.remark())
    });
    let rows = rows.collect();
    let wrong = report.wrong();
    Ok((report.recording, rows, wrong))
}
