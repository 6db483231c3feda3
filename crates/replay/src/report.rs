//! Comparisons as data, for people and programs: canonical JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::slice;

use opplab_model::machine::Machine;
use opplab_model::tree::{Node, to_json};
use opplab_model::{node_of_fields, node_table};

use crate::ReplayError;
use crate::agree::{Agreement, Row};
use crate::events::LatePeriods;
use crate::measure::{Measured, Placements, PolicyTimes, Streams, window_start_ns};
use crate::metrics::{MISSED, Metric, Verdict, Whole, latency_ns, metrics};
use crate::rerun::{Comparison, Mode, Replay, some_of};
use crate::setup::{recording_files, speed_note};
use crate::silence::Silence;

/// An [`Agreement`] as JSON; distances are in parts of 100 000 where a limit is given.
pub fn agreement_json(agreement: &Agreement) -> String {
    let Agreement { recording, workload, rows, notes } = agreement;
    to_json(&node_table! { recording, workload, near: agreement.is_near(), rows, notes })
}

node_of_fields! {
    Row { kind, of, recorded, simulated, distance, spread, limit }
    Streams { shared, other }
    Whole { frequency, energy, busy, latency_p95 }
}

/// What a run measured, without what `silence` covers; `runs` are those that it is the mean of.
fn measured_node(
    measured: &Measured,
    runs: &[Measured],
    machine: &Machine,
    silence: &Silence,
    energy_known: bool,
) -> Node {
    let policies = measured.policies.iter().map(|policy| {
        // Busy times as a whole are known without clocks, and stand among the metrics.
        let told = !silence.covers(measured, policy);
        let PolicyTimes { cpus, from_ns, freq_khz, time_ns, busy_ns, changes, .. } = policy;
        node_table! {
            cpus, from_ns, mean_khz: told.then(|| policy.mean_khz()), freq_khz, time_ns: told.then_some(time_ns),
            busy_ns: told.then_some(busy_ns), changes: told.then_some(changes),
        }
    });
    let Placements { same_cpu, same_class, other_class } = measured.placements;
    let woken = !silence.wakeups;
    let uj = |fj: u128| energy_known.then_some((fj / 1_000_000_000) as u64);
    let clusters = machine.clusters.iter().zip(&measured.energy_fj);
    let clusters = clusters.map(|(cluster, &fj)| node_table! { cluster: cluster.name, energy_uj: uj(fj) });
    let missed = (measured.missed.1 > 0).then_some(measured.missed);
    node_table! {
        energy_uj: uj(measured.total_energy_fj()), clusters: clusters.collect::<Vec<_>>(),
        policies: policies.collect::<Vec<_>>(), latency_ns_p50: latency_ns(runs, 50),
        latency_ns_p95: latency_ns(runs, 95), latency_ns_p99: latency_ns(runs, 99),
        wakeups: woken.then_some(measured.latencies_ns.len()),
        placements: woken.then_some((same_cpu, same_class, other_class)),
        switches: measured.switches, activations: missed.map(|(_, all)| all), missed: missed.map(|(late, _)| late),
    }
}

fn self_check(comparison: &Comparison) -> Node {
    let whole = Whole::of(comparison);
    let Comparison { freq_distance, freq_distance_busy, energy_distance, freq_spread, energy_spread, .. } = comparison;
    node_table! {
        near: comparison.is_near(), checked: comparison.is_checked(), energy_known: !comparison.energy_is_silent(),
        freq_distance, freq_distance_busy, energy_distance, freq_spread, energy_spread, whole,
        whole_near: whole.is_near(), streams: comparison.streams,
    }
}

/// The work that the trace lacks, as if one policy did all of it: by its name the parts of 100 000 of its changed busy time.
fn beyond_by_policy(comparison: &Comparison, machine: &Machine) -> BTreeMap<String, u64> {
    let Some(changed) = comparison.changed.as_ref().filter(|_| comparison.beyond.share > 0) else {
        return BTreeMap::new();
    };
    let all = changed.work(machine);
    let of = |policy: &PolicyTimes| {
        let part = (u128::from(comparison.beyond.share) * all).checked_div(policy.work(machine)?)?;
        Some((format!("policy{} busy", policy.cpus[0]), u64::try_from(part).unwrap_or(u64::MAX)))
    };
    changed.policies.iter().filter_map(of).collect()
}

/// What is shown of each metric; what is not known is absent.
fn metrics_node(rows: &[Metric], beyond: &BTreeMap<String, u64>) -> Node {
    Node::list(rows.iter().map(|row| {
        let Metric { name, unit, recorded, replayed, changed, verdict, change_counts, runs, if_lost } = row;
        let runs = Some(runs).filter(|runs| !runs.is_empty());
        node_table! {
            metric: name, unit, recorded, replayed, changed, verdict: verdict.words(), change_counts, runs, if_lost,
            work_beyond: beyond.get(name),
        }
    }))
}

/// What the trace does not record, and why.
fn silent_node(replay: &Replay, comparison: &Comparison, rows: &[Metric], periods: &LatePeriods) -> Node {
    let mut reasons = comparison.silence.reasons(&replay.setup.machine, &comparison.recorded);
    if rows.iter().any(|row| row.verdict == Verdict::NoTimers) {
        let outside = match &periods.unjudged[..] {
            [] => String::new(),
            names => format!(
                ". Outside of these counts: {}, awake for more than half of the trace, so that what was due when does not show",
                names.join(", ")
            ),
        };
        let names: Vec<&str> = periods.irregular.iter().map(|(_, name)| name.as_str()).collect();
        let irregular = match periods.irregular.iter().map(|(activations, _)| activations).sum::<u64>() {
            0 => String::new(),
            others => format!(
                ". In none of these counts: {others} activations of {}, whose wake-ups are too irregular for a period, or follow \
                 their sleeps",
                some_of(&names)
            ),
        };
        let reason = format!(
            "runs count those of recovered timers, which the trace lacks; `opplab explain --why-slow` names their \
             tasks. {} (the whole trace, as `opplab trace sql` has it){outside}{irregular}",
            periods.words()
        );
        reasons.push((MISSED.to_owned(), reason));
    }
    Node::list(reasons.into_iter().map(|(of, reason)| node_table! { of, reason }))
}

/// What has to be known of the speed of a recording on `machine`, as JSON.
///
/// # Errors
/// [`ReplayError::Input`] if there is no such recording.
pub fn speed_json(path: &Path, machine: &Machine) -> Result<String, ReplayError> {
    Ok(to_json(&node_table! { speed: speed_note(&recording_files(path)?, machine) }))
}

/// A [`Comparison`] as JSON. Energies are uJ, distances parts of 100 000. `closed`: that of a closed loop that was too far from the trace
/// to be the one.
pub fn comparison_json(replay: &Replay, comparison: &Comparison, mode: Mode, closed: Option<&Comparison>) -> String {
    let machine = &replay.setup.machine;
    let policy = &replay.setup.policy;
    // A closed loop wakes its tasks itself.
    let of_runs = Silence { wakeups: mode == Mode::Open && comparison.silence.wakeups, ..Silence::default() };
    let node = |run: &Measured, runs: &[Measured]| measured_node(run, runs, machine, &of_runs, true);
    let (recorded, (checks, changes)) = (&comparison.recorded, &comparison.runs);
    let energy_known = !comparison.energy_is_silent();
    let rows = metrics(comparison, mode);
    let periods = replay.events.late_periods();
    let work_beyond = comparison.changed.as_ref().map(|_| comparison.beyond.share).filter(|&share| share > 0);
    let unsure = &comparison.unsure;
    let work_unsure = Some([unsure.kept, unsure.lost]).filter(|shares| shares.iter().any(|&share| share > 0));
    to_json(&node_table! {
        mode: if mode == Mode::Open { "open" } else { "closed" }, machine: machine.name, governor: policy.governor,
        governor_known: replay.setup.governor_known, kernel: policy.kernel, tasks: replay.workload.tasks.len(),
        duration_ns: replay.events.duration_ns, measured_from_ns: window_start_ns(replay.events.duration_ns),
        assumed_power: replay.assumed_power, floor_uw: machine.floor_uw, fixed_speed: machine.speed_is_constant(),
        self_check: self_check(comparison), closed_self_check: closed.map(self_check),
        late_kept: (mode == Mode::Closed && comparison.changed.is_some()).then(|| replay.kept_late()),
        work_share: comparison.work_share, work_beyond, beyond_tasks: work_beyond.map(|_| &comparison.beyond.tasks),
        unsure_tasks: work_unsure.as_ref().map(|_| &unsure.tasks), work_unsure: work_unsure.map(Vec::from),
        metrics: metrics_node(&rows, &beyond_by_policy(comparison, machine)), silent: silent_node(replay, comparison, &rows, &periods),
        late: periods.late, late_words: periods.words(), unjudged: periods.unjudged,
        recorded: measured_node(recorded, slice::from_ref(recorded), machine, &comparison.silence, energy_known),
        replayed: node(&comparison.check, checks), changed: comparison.changed.as_ref().map(|run| node(run, changes)),
        notes: replay.setup.notes, damage: replay.events.damage,
    })
}
