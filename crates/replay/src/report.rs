//! Comparisons as data, for people and programs: canonical JSON.

use opplab_model::machine::Machine;
use opplab_model::tree::{Node, to_json};

use crate::agree::Agreement;
use crate::measure::{Measured, Placements};
use crate::replay::{Comparison, Mode, Replay};

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

fn measured_node(measured: &Measured, machine: &Machine) -> Node {
    let policies = measured.policies.iter().map(|policy| {
        Node::table([
            ("cpus", Some(Node::list(policy.cpus.iter().map(|&cpu| Node::from(cpu))))),
            ("mean_khz", Some(Node::from(policy.mean_khz()))),
            ("freq_khz", Some(Node::list(policy.freq_khz.iter().map(|&khz| Node::from(khz))))),
            ("time_ns", numbers(&policy.time_ns)),
            ("busy_ns", numbers(&policy.busy_ns)),
            ("changes", Some(Node::from(policy.changes))),
        ])
    });
    let Placements { same_cpu, same_class, other_class } = measured.placements;
    let clusters = machine.clusters.iter().zip(&measured.energy_fj).map(|(cluster, &fj)| {
        Node::table([
            ("cluster", Some(Node::str(&cluster.name))),
            ("energy_uj", Some(Node::from((fj / 1_000_000_000) as u64))),
        ])
    });
    Node::table([
        ("energy_uj", Some(Node::from((measured.total_energy_fj() / 1_000_000_000) as u64))),
        ("clusters", Some(Node::list(clusters))),
        ("policies", Some(Node::list(policies))),
        ("latency_ns_p50", Some(Node::from(measured.latency_ns(50)))),
        ("latency_ns_p95", Some(Node::from(measured.latency_ns(95)))),
        ("latency_ns_p99", Some(Node::from(measured.latency_ns(99)))),
        ("wakeups", Some(Node::from(measured.latencies_ns.len() as u64))),
        ("placements", numbers(&[same_cpu, same_class, other_class])),
        ("switches", Some(Node::from(measured.switches))),
        ("activations", Some(Node::from(measured.missed.1))),
        ("missed", Some(Node::from(measured.missed.0))),
    ])
}

fn self_check(comparison: &Comparison) -> Node {
    Node::table([
        ("near", Some(Node::bool(comparison.is_near()))),
        ("freq_distance", numbers(&comparison.freq_distance)),
        ("freq_distance_busy", numbers(&comparison.freq_distance_busy)),
        ("energy_distance", Some(Node::from(comparison.energy_distance))),
        ("freq_spread", Some(Node::from(comparison.freq_spread))),
        ("energy_spread", Some(Node::from(comparison.energy_spread))),
    ])
}

/// A [`Comparison`] as JSON. Energies are uJ, distances parts of 100 000. `closed`: that of a closed loop that was too far from the trace
/// to be the one.
pub fn comparison_json(replay: &Replay, comparison: &Comparison, mode: Mode, closed: Option<&Comparison>) -> String {
    let machine = &replay.setup.machine;
    let policy = &replay.setup.policy;
    to_json(&Node::table([
        ("mode", Some(Node::str(if mode == Mode::Open { "open" } else { "closed" }))),
        ("machine", Some(Node::str(&machine.name))),
        ("governor", Some(Node::str(&policy.governor))),
        ("kernel", Some(Node::str(&policy.kernel))),
        ("tasks", Some(Node::from(replay.workload.tasks.len() as u64))),
        ("duration_ns", Some(Node::from(replay.events.duration_ns))),
        ("assumed_power", Some(Node::bool(replay.assumed_power))),
        ("self_check", Some(self_check(comparison))),
        ("closed_self_check", closed.map(self_check)),
        ("recorded", Some(measured_node(&comparison.recorded, machine))),
        ("replayed", Some(measured_node(&comparison.check, machine))),
        ("changed", comparison.changed.as_ref().map(|changed| measured_node(changed, machine))),
        ("notes", texts(&replay.setup.notes)),
    ]))
}
