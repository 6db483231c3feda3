//! The machine files that come with opplab are read, mean what their comments say and survive the round trip; wrong
//! files are refused with one line that says where, and what was meant.

use std::path::PathBuf;

use opplab_kernel::cpufreq::cppc::{CppcPerfCaps, artificial_em, artificial_em_cost};
use opplab_model::ModelError;
use opplab_model::file::{machine_to_toml, parse_machine};
use opplab_model::machine::Machine;
use proptest::prelude::*;

fn data(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../python/opplab/data/machines", name].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn machine(name: &str) -> Machine {
    parse_machine(name, &data(name)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn built_in_machines_round_trip() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../python/opplab/data/machines"].iter().collect();
    let mut nr = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let name = entry.expect("it can be listed").file_name().into_string().expect("names are plain");
        let first = machine(&name);
        assert_eq!(format!("{}.toml", first.name), name);
        assert!(!first.sources.is_empty());
        let text = machine_to_toml(&first);
        let second = parse_machine("written", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(first, second);
        assert_eq!(machine_to_toml(&second), text);
        nr += 1;
    }
    assert!(nr >= 2);
}

/// The published figures of 1663 frequency changes without fast channels: mean 2.92, standard deviation 1.90, minimum 0.21,
/// quartiles 1.64, 2.57 and 3.66, maximum 14.37 ms.
#[test]
fn juno_r2_changes_frequency_as_slowly_as_measured() {
    let scmi = machine("juno-r2.toml").cpufreq;
    let at = |percent: u64| scmi.switch_time_ns(((percent << 32) / 100).min(u32::MAX.into()) as u32);
    for (percent, us) in [(0, 210), (25, 1640), (50, 2570), (75, 3660), (100, 14_370)] {
        assert!(at(percent).abs_diff(us * 1000) <= 1_000, "{percent} %: {} ns", at(percent));
    }
    let times: Vec<f64> = (0..100_000u32).map(|nth| scmi.switch_time_ns(nth * 42_949 + 21_474) as f64 / 1e6).collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let deviation = (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
    assert!((mean - 2.92).abs() < 0.01, "{mean}");
    assert!((deviation - 1.90).abs() < 0.06, "{deviation}");
    assert!((scmi.switch_ns as f64 / 1e6 - mean).abs() < 0.01);
    // What is not measured is a constant.
    let cppc = machine("juno-r2.toml").driver("cppc_cpufreq").expect("it boots with ACPI too").clone();
    assert!([0, u32::MAX].iter().all(|&draw| cppc.switch_time_ns(draw) == 1_450_000));
}

#[test]
fn wrong_quantiles_are_refused() {
    let wrong = |list: &str, words: &str| {
        let text = data("juno-r2.toml");
        let line = text.lines().find(|line| line.starts_with("switch_quantiles_us")).expect("the file has them");
        let error = parse_machine("m", &text.replace(line, &format!("switch_quantiles_us = {list}"))).expect_err(list);
        assert!(error.to_string().contains(words), "{error}");
    };
    wrong("[[0, 10], [50, 5], [100, 20]]", "must ascend");
    wrong("[[0, 10], [0, 20], [100, 20]]", "must ascend");
    wrong("[[0, 10], [50, 20]]", "must go from [0, us] to [100, us]");
    wrong("[]", "must go from");
    wrong("[[0, 10, 1], [100, 20]]", "[percent, us]");
    wrong("[[0, 10], [101, 20]]", "percent");
}

#[test]
fn juno_r2_is_the_board_of_the_text() {
    let juno = machine("juno-r2.toml");
    assert_eq!(juno.nr_cpus(), 6);
    let capacities: Vec<u32> = (0..6).map(|cpu| juno.cluster_of(cpu).capacity).collect();
    assert_eq!(capacities, [383, 1024, 1024, 383, 383, 383]);
    assert_eq!(juno.cpufreq.driver.name, "scmi");
    assert_eq!(juno.cpufreq.transition_latency_ns, 1_450_000);
    assert!(!juno.cpufreq.fast_switch);
    let cppc = juno.driver("cppc_cpufreq").expect("it boots with ACPI too");
    assert!(cppc.fast_switch);
    assert!(!cppc.freq_table);
    assert_eq!(juno.driver("").map(|driver| driver.driver.entry().name), Some("scmi"));
    assert_eq!(juno.driver("acpi-cpufreq"), None);
    // The artificial energy model as the kernel builds it from the capabilities: (class, states, first and last cost).
    let models: Vec<(u32, usize, u64, u64)> = juno
        .clusters
        .iter()
        .map(|cluster| {
            let caps = cluster.cppc.expect("both clusters have CPPC");
            let caps = CppcPerfCaps {
                lowest_perf: caps.lowest_perf,
                nominal_perf: caps.nominal_perf,
                highest_perf: caps.highest_perf,
                lowest_freq_mhz: caps.lowest_freq_mhz,
                nominal_freq_mhz: caps.nominal_freq_mhz,
                dmi_max_khz: 0,
            };
            let model = artificial_em(&caps, cluster.capacity, cluster.efficiency_class).expect("there is a model");
            assert!(!model.spun);
            let cost = |khz| artificial_em_cost(&caps, cluster.capacity, cluster.efficiency_class, khz).expect("not 0");
            let opps = &cluster.opps;
            let ends = [opps[0].khz, opps[opps.len() - 1].khz].map(|khz| cost(khz.into()));
            (cluster.efficiency_class, model.states.len(), ends[0], ends[1])
        })
        .collect();
    assert_eq!(models, [(0, 11, 9, 19), (1, 27, 229, 255)]);
}

/// A small valid machine, for errors to be made in.
const SMALL: &str = r#"format = 1
name = "small"
[[driver]]
name = "scmi"
transition_latency_us = 100
fast_switch = true
[[cluster]]
name = "little"
cpus = "0-1"
capacity = 512
opp = [{ khz = 500000, mw = 10 }, { khz = 1000000, mw = 30 }]
idle = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1 }]
[[cluster]]
name = "big"
cpus = "2,3"
capacity = 1024
opp = [{ khz = 1000000, mw = 100 }]
"#;

#[test]
fn errors_name_the_place_and_the_nearest_name() {
    let check = |old: &str, new: &str, expected: &str| {
        assert!(SMALL.contains(old), "{old}");
        let text = SMALL.replacen(old, new, 1);
        let error = parse_machine("m.toml", &text).expect_err(&format!("{new} must be refused"));
        assert_eq!(error.to_string(), format!("failed to read m.toml:{expected}"));
    };
    parse_machine("m.toml", SMALL).unwrap_or_else(|error| panic!("{error}"));
    check("capacity = 512", "capasity = 512", "10:1: unknown key `capasity`; did you mean `capacity`?");
    check("capacity = 512", "capacity = 0", "10:12: `capacity` must be at least 1, not 0");
    check("capacity = 512", "capacity = 1025", "10:12: `capacity` must be at most 1024, not 1025");
    check("capacity = 512", "capacity = \"a\"", "10:12: `capacity` must be a whole number, not a string");
    check("capacity = 512\n", "", "7:1: `capacity` is missing");
    check(
        "capacity = 1024",
        "capacity = 1000",
        "7:1: no cluster has capacity 1024; the biggest CPU is the unit of capacity",
    );
    check("\"0-1\"", "\"\"", "9:8: `` is not a CPU list: write it like `0,3-5`");
    check("\"0-1\"", "[]", "9:8: `cpus` is empty");
    check("\"0-1\"", "\"1-0\"", "9:8: `1-0` is not a CPU list: a range runs backwards");
    check("\"0-1\"", "\"0\"", "7:1: CPU 1 is in none of the clusters");
    check("\"0-1\"", "\"0,2\"", "13:1: CPU 2 is in two clusters");
    check("\"0-1\"", "\"0,7\"", "7:1: CPU 1,4-6 is in none of the clusters");
    check("\"0-1\"", "\"0-1,-1\"", "9:8: `0-1,-1` is not a CPU list: write it like `0,3-5`");
    check("khz = 500000", "khz = -5", "11:16: `khz` must be at least 1, not -5");
    check("khz = 500000", "khz = 0", "11:16: `khz` must be at least 1, not 0");
    check(
        "khz = 500000",
        "khz = 2000000",
        "11:36: OPPs must be in ascending order of frequency; 1000000 kHz comes too late",
    );
    let none = "opp = [{ khz = 1000000, mw = 100 }]";
    check(none, "opp = []", "17:7: `opp` is empty; a cluster needs at least one frequency");
    check(
        none,
        &format!("boost_opp = []\n{none}"),
        "17:13: `boost_opp` is empty; leave it out where there is no such point",
    );
    check("khz = 500000", "hz = 500000", "11:10: unknown key `hz`; did you mean `khz`?");
    check("exit_latency_us = 1", "exit_latency_us = -1", "12:43: `exit_latency_us` must be at least 0, not -1");
    check("\"scmi\"", "\"smci\"", "4:8: unknown cpufreq driver `smci`; did you mean `scmi`?");
    check("fast_switch = true", "fast_switch = 1", "6:15: `fast_switch` must be true or false, not a whole number");
    check("format = 1", "format = 2", "1:10: `format` is 2; this version reads 1");
    check("format = 1\n", "", "1:1: `format` is missing");
    check("name = \"big\"", "name = \"little\"", "13:1: two clusters are called `little`");
    check("[[driver]]", "[[drivers]]", "3:3: unknown key `drivers`; did you mean `driver`?");
    check("name = \"small\"", "name = \"small", "2:14: not TOML: invalid basic string, expected `\"`");
    let no_cpus = SMALL.split("[[cluster]]").next().expect("there is a first part");
    let error = parse_machine("m.toml", no_cpus).expect_err("0 CPUs");
    assert_eq!(error.to_string(), "failed to read m.toml:1:1: the machine has no `[[cluster]]`");
    let error = parse_machine("m.toml", &format!("cluster = []\n{no_cpus}")).expect_err("0 CPUs");
    assert_eq!(error.to_string(), "failed to read m.toml:1:11: the machine has no clusters, so it has no CPUs");
}

proptest! {
    /// Cut and mangled files are read or refused with a place inside the text, and never panic.
    #[test]
    fn mangled_machines_do_not_panic(cut in 0usize..9000, at in 0usize..9000, junk in "\\PC{0,6}|[\\[\\]{}=\",.0-9-]{1,6}") {
        let text = data("juno-r2.toml");
        let floor = |index: usize| (0..=index.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let (cut, at) = (floor(cut), floor(at));
        let mangled = [text[..cut].to_owned(), [&text[..at], &junk, &text[at..]].concat()];
        for text in mangled {
            if let Err(error) = parse_machine("m.toml", &text) {
                let ModelError::Input { line, column, message, .. } = error else { panic!("{error}") };
                prop_assert!(line >= 1);
                prop_assert!(column >= 1);
                prop_assert!(line as usize <= text.lines().count() + 1);
                prop_assert!(!message.contains('\n'));
            }
        }
    }
}

#[test]
fn processor_limits_turbo_and_hwp_survive_the_round_trip() {
    let text = r#"
format = 1
name = "x"
[[driver]]
name = "intel_pstate"
transition_latency_us = 0
fast_switch = true
[processor]
vendor = "GenuineIntel"
family = 6
model = 85
[package_power]
tdp_mw = 165000
pl1_mw = 165000
pl1_window_ms = 1000
[[cluster]]
name = "pkg0"
cpus = "0-3"
capacity = 1024
base_khz = 2100000
opp = [{ khz = 800000 }, { khz = 3700000 }]
turbo = [{ active_cores = 2, khz = 3700000 }, { active_cores = 4, khz = 3500000 }]
hwp = { highest = 37, guaranteed = 21, most_efficient = 10, lowest = 8 }
"#;
    let machine = parse_machine("x.toml", text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(machine.processor.as_ref().map(|processor| processor.model), Some(85));
    assert_eq!(
        machine.package_power.map(|power| (power.tdp_uw, power.pl1_window_ns)),
        Some((165_000_000, 1_000_000_000))
    );
    assert_eq!(machine.clusters[0].turbo.len(), 2);
    assert_eq!(parse_machine("written", &machine_to_toml(&machine)), Ok(machine));
    let backwards = text.replace("active_cores = 4", "active_cores = 1");
    let error = parse_machine("x.toml", &backwards).expect_err("the bins run backwards").to_string();
    assert!(error.contains("x.toml:22:") && error.contains("ascending order of active cores"), "{error}");
}

#[test]
fn a_disk_is_of_a_class_and_what_differs() {
    use opplab_model::disk::{Disk, disk_class};
    let with = |disk: &str| parse_machine("m.toml", &format!("{}\n[[disk]]\n{disk}\n", data("juno-r2.toml")));
    let machine = with("kind = \"rotary\"\nflush_us = 5000").unwrap_or_else(|error| panic!("{error}"));
    let class = disk_class("rotary").map(Disk::from);
    assert_eq!(machine.disks.first().copied(), class.map(|disk| Disk { flush_us: 5000, ..disk }));
    let again = parse_machine("m.toml", &machine_to_toml(&machine)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, machine);
    let wrong = with("kind = \"rotari\"").expect_err("there is no such kind").to_string();
    assert!(wrong.contains("m.toml:") && wrong.contains("did you mean `rotary`"), "{wrong}");
}
