//! Marks and ranges that an imported machine's numbers still lack: where each is from, and how far an assumed one may be
//! off. What the source has and what is taken from a named default is marked where it is read.

use opplab_model::machine::Machine;
use opplab_model::range::{Bounds, Range};

/// What a wake-up takes of a declared exit latency, which is the worst case: in thousandths. Measured are
/// 0.05 to 0.06 (C2 of a Zen 2: 20 to 24 of 400 us) up to all of it.
pub(crate) const WAKE_PERMILLE: u64 = 300;
/// From here on, in ns, a declared exit latency is taken for a worst case.
pub(crate) const WORST_CASE_NS: u64 = 100_000;

/// Of each number (key in the machine file) the marks that may be there under another name, and its own mark otherwise.
const MARKS: &[(&str, &[&str], &str)] = &[
    ("floor_uw", &[], "[D] 0 by definition: power is that of the CPUs; what else a meter sees is not in the machine"),
    ("cluster.capacity", &["capacity"], "[D] the biggest core is the unit; one kind of core, or no other is known"),
    ("driver.switch_ns", &["driver"], "[D] as the transition latency"),
    ("smt_yield", &[], "[S] the cores have one thread"),
    ("smt_power", &[], "[S] the cores have one thread"),
    ("numa_distance", &["node"], "[S] one node"),
];

/// Ranges of what a default may have set: the default's name, the number's path, the bounds.
const RANGES: &[(&str, &str, Bounds)] = &[
    ("smt_yield", "smt_yield", Bounds::Between(560, 720)),
    // Measured on 2x EPYC 7502, by program: 2 to 76 %.
    ("smt_power", "smt_power", Bounds::Between(20, 780)),
    ("pause_cycles", "pause_cycles", Bounds::Between(3, 140)),
    ("costs", "costs.context_switch_ns", Bounds::Percent(50, 300)),
    ("costs", "costs.wakeup_ns", Bounds::Percent(40, 400)),
    ("costs", "costs.ipi_ns", Bounds::Percent(40, 400)),
    ("costs", "costs.tick_ns", Bounds::Percent(50, 400)),
    ("costs", "costs.sugov_work_ns", Bounds::Percent(30, 400)),
    ("driver.transition_latency", "driver.transition_latency_ns", Bounds::Between(0, 2_000_000)),
    ("cluster.capacity", "cluster.capacity", Bounds::Percent(70, 130)),
    ("cluster.idle.wake", "cluster.idle.wake_ns", Bounds::Percent(16, 334)),
    ("driver.fast_switch", "driver.switch_ns", Bounds::Between(0, 2_000_000)),
];

/// Adds the marks and ranges that are missing.
pub(crate) fn complete(machine: &mut Machine) {
    let has = |machine: &Machine, key: &str| {
        machine.sources.iter().any(|(known, _)| known == key || known.strip_prefix("default.") == Some(key))
    };
    for &(key, others, mark) in MARKS {
        if !has(machine, key) && !others.iter().any(|other| has(machine, other)) {
            machine.sources.push((key.to_owned(), mark.to_owned()));
        }
    }
    for (default, path, bounds) in RANGES {
        let is_default = machine.sources.iter().any(|(known, _)| known.strip_prefix("default.") == Some(default));
        if is_default && !machine.ranges.iter().any(|range| range.path == *path) {
            machine.ranges.push(Range { path, cluster: None, bounds: bounds.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_model::range::RANGED;

    #[test]
    fn every_range_is_of_a_number_that_may_have_one() {
        assert!(RANGES.iter().all(|(_, path, _)| RANGED.contains(path)));
    }
}
