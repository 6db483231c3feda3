//! Work is counted at one clock, whichever way a machine's file tells its boost.

use std::path::PathBuf;

use opplab_model::benchmark::{BENCHMARKS, ParamValue};
use opplab_model::experiment::capacities;
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::rtapp::{CompileOptions, ParseOptions, load};
use opplab_model::workload::Op;
use proptest::prelude::*;

fn machine(name: &str) -> Machine {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../python/opplab/data/machines", &format!("{name}.toml")].iter().collect();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_machine(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The same hardware as acpi-cpufreq describes it: the table ends at the base clock, what is above is boost.
fn ending_at_base(machine: &Machine) -> Machine {
    let mut other = machine.clone();
    for cluster in &mut other.clusters {
        let boosted = cluster.opps.iter().position(|opp| opp.khz > cluster.base_khz).unwrap_or(cluster.opps.len());
        cluster.boost_opps = cluster.opps.split_off(boosted);
    }
    other
}

const BOOSTED: [&str; 4] = ["skylake-8x-uma", "haswell-48x-numa", "broadwell-80x-numa", "skylake-sp-2s"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn another_description_of_the_same_hardware_changes_no_workload(
        which in 0..BOOSTED.len(), benchmark in 0..BENCHMARKS.len(), clients in 1..9u64, seed: u64,
    ) {
        let machine = machine(BOOSTED[which]);
        let other = ending_at_base(&machine);
        prop_assert!(other.clusters[0].opps.len() < machine.clusters[0].opps.len());
        let benchmark = &BENCHMARKS[benchmark];
        let known: Vec<(&str, ParamValue)> = ["clients", "jobs", "groups", "tasks"]
            .into_iter()
            .filter(|name| benchmark.params.iter().any(|param| param.name == *name))
            .map(|name| (name, ParamValue::Int(clients)))
            .collect();
        let build = |machine| benchmark.workload(&known, machine, seed);
        prop_assert_eq!(build(&machine), build(&other));
        prop_assert_eq!(capacities(&machine), capacities(&other));
    }
}

#[test]
fn rt_app_is_calibrated_at_the_highest_clock() {
    let text = r#"{ "tasks": { "t": { "loop": 1, "run": 1000000 } }, "global": { "calibration": "CPU0" } }"#;
    let work_ns = |machine: &Machine| {
        let capacities = capacities(machine);
        let options = CompileOptions { name: "t", machine: "", capacities: &capacities };
        let made = load("t.json", text, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"));
        made.tasks[0].ops.iter().find_map(|op| match op {
            Op::Run { work_ns, .. } => Some(*work_ns),
            _ => None,
        })
    };
    // A second at 3.9 GHz is 3.9 / 3.5 s at the base clock, in which work is counted; capacities are whole numbers.
    let work_ns_of = |name: &str| work_ns(&machine(name)).unwrap_or(0);
    let skylake_ns = work_ns_of("skylake-8x-uma");
    assert!(skylake_ns.abs_diff(1_114_285_714) < 1_000_000, "{skylake_ns}");
    // Without boost the two are one.
    assert_eq!(work_ns_of("juno-r2"), u64::from(machine("juno-r2").cluster_of(0).capacity) * 1_000_000_000 / 1024);
}
