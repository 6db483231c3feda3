//! Comparisons as data, for people and programs: canonical JSON.

use std::path::Path;
use std::slice;

use opplab_model::machine::Machine;
use opplab_model::tree::{Node, to_json};

use crate::ReplayError;
use crate::agree::Agreement;
use crate::measure::{Measured, Placements, window_start_ns};
use crate::metrics::{MISSED, Metric, Verdict, Whole, latency_ns, metrics};
use crate::rerun::{Comparison, Mode, Replay};
use crate::setup::{recording_files, speed_note};
use crate::silence::Silence;

fn texts(list: &[String]) -> Option<Node> {
    Some(Node::list(list.iter().map(Node::str)))
}

/// An [`Agreement`] as JSON; distances are in parts of 100 000 where a limit is given.
pub fn agreement_json(agreement: &Agreement) -> String {
    let rows = agreement.rows.iter().map(|row| {
        Node::table([
            ("kind", Some(Node::str(row.kind))),
            ("of", Some(Node::str(&row.of))),
            ("recorded", Some(Node::from(row.recorded))),
            ("simulated", Some(Node::from(row.simulated))),
            ("distance", Some(Node::from(row.distance))),
            ("spread", Some(Node::from(row.spread))),
            ("limit", row.limit.map(Node::from)),
        ])
    });
    to_json(&Node::table([
        ("recording", Some(Node::str(&agreement.recording))),
        ("workload", Some(Node::str(&agreement.workload))),
        ("near", Some(Node::bool(agreement.is_near()))),
        ("rows", Some(Node::list(rows))),
        ("notes", texts(&agreement.notes)),
    ]))
}

fn numbers(list: &[u64]) -> Option<Node> {
    Some(Node::list(list.iter().map(|&number| Node::from(number))))
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
        let told = !silence.covers(measured, policy);
        Node::table([
            ("cpus", Some(Node::list(policy.cpus.iter().map(|&cpu| Node::from(cpu))))),
            ("mean_khz", told.then(|| Node::from(policy.mean_khz()))),
            ("freq_khz", Some(Node::list(policy.freq_khz.iter().map(|&khz| Node::from(khz))))),
            ("time_ns", numbers(&policy.time_ns).filter(|_| told)),
            ("busy_ns", numbers(&policy.busy_ns)),
            ("changes", told.then(|| Node::from(policy.changes))),
        ])
    });
    let Placements { same_cpu, same_class, other_class } = measured.placements;
    let clusters = machine.clusters.iter().zip(&measured.energy_fj).map(|(cluster, &fj)| {
        Node::table([
            ("cluster", Some(Node::str(&cluster.name))),
            ("energy_uj", energy_known.then(|| Node::from((fj / 1_000_000_000) as u64))),
        ])
    });
    let latency = |percent| latency_ns(runs, percent).map(Node::from);
    Node::table([
        ("energy_uj", energy_known.then(|| Node::from((measured.total_energy_fj() / 1_000_000_000) as u64))),
        ("clusters", Some(Node::list(clusters))),
        ("policies", Some(Node::list(policies))),
        ("latency_ns_p50", latency(50)),
        ("latency_ns_p95", latency(95)),
        ("latency_ns_p99", latency(99)),
        ("wakeups", Some(Node::from(measured.latencies_ns.len() as u64))),
        ("placements", numbers(&[same_cpu, same_class, other_class])),
        ("switches", Some(Node::from(measured.switches))),
        ("activations", (measured.missed.1 > 0).then(|| Node::from(measured.missed.1))),
        ("missed", (measured.missed.1 > 0).then(|| Node::from(measured.missed.0))),
    ])
}

fn self_check(comparison: &Comparison) -> Node {
    let whole = Whole::of(comparison);
    let parts = [
        ("frequency", whole.frequency),
        ("energy", whole.energy),
        ("busy", whole.busy),
        ("latency_p95", whole.latency_p95),
    ];
    Node::table([
        ("near", Some(Node::bool(comparison.is_near()))),
        ("checked", Some(Node::bool(comparison.is_checked()))),
        ("energy_known", Some(Node::bool(!comparison.energy_is_silent()))),
        ("freq_distance", numbers(&comparison.freq_distance)),
        ("freq_distance_busy", numbers(&comparison.freq_distance_busy)),
        ("energy_distance", Some(Node::from(comparison.energy_distance))),
        ("freq_spread", Some(Node::from(comparison.freq_spread))),
        ("energy_spread", Some(Node::from(comparison.energy_spread))),
        ("whole", Some(Node::table(parts.map(|(name, off)| (name, off.map(Node::from)))))),
        ("whole_near", Some(Node::bool(whole.is_near()))),
    ])
}

fn run_node((replayed, changed): &(u64, Option<u64>)) -> Node {
    Node::list([Some(*replayed), *changed].into_iter().flatten().map(Node::from))
}

/// What is shown of each metric; what is not known is absent.
fn metrics_node(rows: &[Metric]) -> Node {
    Node::list(rows.iter().map(|metric| {
        Node::table([
            ("metric", Some(Node::str(&metric.name))),
            ("unit", Some(Node::str(metric.unit))),
            ("recorded", metric.recorded.map(Node::from)),
            ("replayed", metric.replayed.map(Node::from)),
            ("changed", metric.changed.map(Node::from)),
            ("verdict", Some(Node::str(metric.verdict.words()))),
            ("change_counts", metric.change_counts.map(Node::bool)),
            ("runs", (!metric.runs.is_empty()).then(|| Node::list(metric.runs.iter().map(run_node)))),
        ])
    }))
}

/// What the trace does not record, and why.
fn silent_node(replay: &Replay, comparison: &Comparison, rows: &[Metric]) -> Node {
    let mut reasons = comparison.silence.reasons(&replay.setup.machine);
    if rows.iter().any(|row| row.verdict == Verdict::NoTimers) {
        let (late, all) = replay.events.late_periods();
        let by_events = match all {
            0 => "By its wake-ups no task is periodic".to_owned(),
            _ => format!("By its wake-ups {late} of {all} activations of periodic tasks took longer than their period"),
        };
        let reason = format!(
            "runs count those of recovered timers, which the trace lacks. {by_events} (the whole trace, as \
             `opplab trace sql` has it)"
        );
        reasons.push((MISSED.to_owned(), reason));
    }
    let reasons = reasons.into_iter();
    Node::list(
        reasons.map(|(of, reason)| Node::table([("of", Some(Node::str(&of))), ("reason", Some(Node::str(&reason)))])),
    )
}

/// What has to be known of the speed of a recording on `machine`, as JSON.
///
/// # Errors
/// [`ReplayError::Input`] if there is no such recording.
pub fn speed_json(path: &Path, machine: &Machine) -> Result<String, ReplayError> {
    let note = speed_note(&recording_files(path)?, machine);
    Ok(to_json(&Node::table([("speed", note.map(|note| Node::str(&note)))])))
}

/// A [`Comparison`] as JSON. Energies are uJ, distances parts of 100 000. `closed`: that of a closed loop that was too far from the trace
/// to be the one.
pub fn comparison_json(replay: &Replay, comparison: &Comparison, mode: Mode, closed: Option<&Comparison>) -> String {
    let machine = &replay.setup.machine;
    let policy = &replay.setup.policy;
    let node = |run: &Measured, runs: &[Measured]| measured_node(run, runs, machine, &Silence::default(), true);
    let (recorded, (checks, changes)) = (&comparison.recorded, &comparison.runs);
    let energy_known = !comparison.energy_is_silent();
    let rows = metrics(comparison, mode);
    to_json(&Node::table([
        ("mode", Some(Node::str(if mode == Mode::Open { "open" } else { "closed" }))),
        ("machine", Some(Node::str(&machine.name))),
        ("governor", Some(Node::str(&policy.governor))),
        ("governor_known", Some(Node::bool(replay.setup.governor_known))),
        ("kernel", Some(Node::str(&policy.kernel))),
        ("tasks", Some(Node::from(replay.workload.tasks.len() as u64))),
        ("duration_ns", Some(Node::from(replay.events.duration_ns))),
        ("measured_from_ns", Some(Node::from(window_start_ns(replay.events.duration_ns)))),
        ("assumed_power", Some(Node::bool(replay.assumed_power))),
        ("floor_uw", Some(Node::from(machine.floor_uw))),
        ("fixed_speed", Some(Node::bool(machine.speed_is_constant()))),
        ("self_check", Some(self_check(comparison))),
        ("closed_self_check", closed.map(self_check)),
        ("work_share", comparison.work_share.map(Node::from)),
        ("metrics", Some(metrics_node(&rows))),
        ("silent", Some(silent_node(replay, comparison, &rows))),
        (
            "recorded",
            Some(measured_node(recorded, slice::from_ref(recorded), machine, &comparison.silence, energy_known)),
        ),
        ("replayed", Some(node(&comparison.check, checks))),
        ("changed", comparison.changed.as_ref().map(|run| node(run, changes))),
        ("notes", texts(&replay.setup.notes)),
        ("damage", texts(&replay.events.damage)),
    ]))
}
