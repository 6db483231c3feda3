//! Every dump of the shared data imports: what it told, and that nothing is lost.

use std::path::PathBuf;

use opplab_import::fmax::{FmaxInput, FmaxReport, acpi_max_khz, fmax};
use opplab_import::{Facts, Imported, import, to_machine};
use opplab_model::file::{machine_to_toml, parse_machine};
use opplab_model::machine::{InvarianceSource, Machine, TurboBin};

/// The shared dumps, or `None` with a visible line.
fn dumps() -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(opplab_testdata::shared("data/pepc")?).expect("it can be listed");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Some(paths)
}

fn imported(path: &std::path::Path) -> Imported {
    let facts = import(path).unwrap_or_else(|error| panic!("{error}"));
    to_machine(&facts).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_dump_imports_and_round_trips() {
    let Some(paths) = dumps() else { return };
    assert!(paths.len() >= 20);
    for path in paths {
        let imported = imported(&path);
        let machine = &imported.machine;
        let text = machine_to_toml(machine);
        assert_eq!(parse_machine("written", &text).as_ref(), Ok(machine), "{}", path.display());
        println!(
            "{}: {} CPUs, clusters {:?}, missing {:?}, notes {:?}",
            machine.name,
            machine.nr_cpus(),
            machine
                .clusters
                .iter()
                .map(|c| (&c.name, c.cpus.len(), c.capacity, c.base_khz, &c.turbo))
                .collect::<Vec<_>>(),
            imported.missing,
            imported.notes
        );
    }
}

/// The frequency of P0 of every policy, by CPPC, is what the driver showed.
#[test]
fn cpuinfo_max_freq_of_acpi_cpufreq_is_reproduced() {
    let Some(paths) = dumps() else { return };
    let mut nr_policies = 0;
    for path in paths {
        let facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
        let amd = facts.processor.as_ref().is_some_and(|processor| processor.vendor == "AuthenticAMD");
        if facts.driver() != Some("acpi-cpufreq") || !amd {
            continue;
        }
        for policy in facts.policies.values() {
            let cppc = facts.cpus[&policy.id].cppc.expect("these machines have CPPC");
            let all: Vec<_> = facts.cpus.values().filter_map(|cpu| cpu.cppc.map(|cppc| cppc.caps)).collect();
            let p0_khz = policy.opps.last().expect("a table").khz;
            let newest = acpi_max_khz(p0_khz, facts.processor.as_ref(), &cppc.caps, &all)[0];
            assert_eq!(Some(newest), policy.max_khz, "{} policy{}", facts.name, policy.id);
            nr_policies += 1;
        }
        // Firmware with CPPC lets the other driver take over.
        let imported = to_machine(&facts).unwrap_or_else(|error| panic!("{error}"));
        let others: Vec<_> = imported.machine.other_drivers.iter().map(|other| other.driver.name).collect();
        assert_eq!(others, ["amd-pstate", "amd-pstate-epp", "amd-pstate-guided"], "{}", facts.name);
    }
    // rome0 and genoa0.
    assert_eq!(nr_policies, 256 + 128);
}

fn report(name: &str, published: Option<(&str, &[TurboBin])>) -> Option<FmaxReport> {
    let path = dumps()?.into_iter().find(|path| path.ends_with(format!("{name}.tar.xz")))?;
    let facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
    let imported = to_machine(&facts).unwrap_or_else(|error| panic!("{error}"));
    Some(fmax(&FmaxInput::of_facts(&facts, &imported), published))
}

fn candidate(report: &FmaxReport, name: &str) -> (u32, u64) {
    let found = report.candidates.iter().find(|candidate| candidate.name == name);
    let found = found.unwrap_or_else(|| panic!("no candidate {name} in {:?}", report.candidates));
    (found.khz, found.ratio)
}

fn kernel(report: &FmaxReport, name: &str) -> (Option<u64>, Option<String>) {
    let found = report.kernels.iter().find(|kernel| kernel.kernel == name).expect("a profile");
    (found.ratio, found.candidate.clone())
}

/// Text 000: 2.25, 2.825 and 3.4 GHz, and the integers that the kernel makes of the same processor's CPPC.
#[test]
fn f_max_of_the_epyc() {
    let published = [TurboBin { active_cores: 1, khz: 3_400_000 }];
    let Some(report) = report("rome0", Some(("text 000", &published))) else { return };
    assert_eq!(candidate(&report, "max_P"), (2_250_000, 1024));
    assert_eq!(candidate(&report, "mid"), (2_832_275, 1289));
    assert_eq!(candidate(&report, "max_boost"), (3_414_550, 1554));
    assert_eq!(candidate(&report, "mid (MHz)").0, 2_825_000);
    assert_eq!(candidate(&report, "max_boost (MHz)"), (3_400_000, 1547));
    assert!(report.explanations[0].contains("3414550") && report.explanations[0].contains("2832275"));
    assert_eq!(kernel(&report, "5.9"), (None, None));
    assert_eq!(kernel(&report, "6.12"), (Some(1289), Some("mid".to_owned())));
    // Kernels with the list of models give this one 166 of 168, which is no boost: acpi-cpufreq then sets the base
    // frequency, and what it shows as the highest is P0.
    assert_eq!(kernel(&report, "5.18"), (Some(1024), Some("max_P".to_owned())));
    let why = &report.kernels.iter().find(|kernel| kernel.kernel == "5.18").expect("a profile").why;
    assert!(why.contains("finds no boost") && why.contains("so 166"), "{why}");
    assert!(!report.warnings.iter().any(|warning| warning.contains("kernel 5.18")), "{:?}", report.warnings);
    // sugov-P0: at the base frequency a busy CPU is full, with max_boost it shows 674 of 1024.
    let scale = |name: &str| report.candidates.iter().find(|c| c.name == name).map(|c| c.scale_at_base);
    assert_eq!(scale("max_P"), Some(1024));
    assert_eq!(scale("max_boost"), Some(674));
    // 1.25 * 3414550 kHz * util: above which utilisation each P-state is left.
    let tips: Vec<(u32, Option<u64>)> = report.tipping.iter().map(|point| (point.khz, point.util)).collect();
    assert_eq!(tips, [(1_500_000, Some(360)), (2_000_000, Some(480)), (2_250_000, Some(540)), (3_414_550, None)]);
}

/// Without invariance the capacity is reached at the current clock and a quarter: every clock is left at 1024 / 1.25^2.
#[test]
fn without_invariance_a_clock_is_left_at_a_share_of_itself() {
    let Some(imported) =
        dumps().and_then(|all| all.iter().find(|path| path.ends_with("rome0.tar.xz")).map(|path| imported(path)))
    else {
        return;
    };
    let machine = Machine { invariance: InvarianceSource::Absent, ..imported.machine };
    let report = fmax(&FmaxInput::of_machine(&machine), None);
    assert_eq!(kernel(&report, "6.12"), (None, None));
    let (highest, lower) = report.tipping.split_last().expect("there are clocks");
    assert_eq!(highest.util, None);
    let tips: Vec<(u32, Option<u64>)> = lower.iter().map(|point| (point.khz, point.util)).collect();
    assert_eq!(tips, [(1_500_000, Some(656)), (2_000_000, Some(656)), (2_250_000, Some(656))]);
}

/// Text 002: the choices on the classes of its machines; ratios as its commit computes them.
#[test]
fn f_max_of_the_intel_machines() {
    let check = |name: &str, base: u32, one: (u32, u64), four: (u32, u64), all: (u32, u64), mid: u64| {
        let Some(report) = report(name, None) else { return };
        assert_eq!(candidate(&report, "max_P"), (base, 1024), "{name}");
        assert_eq!(candidate(&report, "turbo-1-core"), one, "{name}");
        assert_eq!(candidate(&report, "max_boost"), one, "{name}");
        assert_eq!(candidate(&report, "turbo-4-cores"), four, "{name}");
        assert_eq!(candidate(&report, "turbo-all-cores"), all, "{name}");
        assert_eq!(candidate(&report, "mid").1, mid, "{name}");
        assert_eq!(kernel(&report, "5.0"), (None, None), "{name}");
        for profile in ["5.9", "5.18", "6.12"] {
            assert_eq!(kernel(&report, profile), (Some(four.1), Some("turbo-4-cores".to_owned())), "{name}");
        }
    };
    check("hswep0", 2_600_000, (3_600_000, 1417), (3_300_000, 1299), (3_100_000, 1220), 1220);
    check("bdwep0", 2_400_000, (3_600_000, 1536), (3_300_000, 1408), (3_000_000, 1280), 1280);
    check("sklep0", 2_100_000, (3_700_000, 1804), (3_500_000, 1706), (2_800_000, 1365), 1414);
    check("adl0", 2_500_000, (4_700_000, 1925), (3_800_000, 1556), (3_800_000, 1556), 1474);
}

/// Goal: without CPPC acpi-cpufreq knows no boost, whatever turbo bins the registers hold: schedutil goes by what the dump
/// shows, and by the same where only the machine file is left. By hand: 2001 MHz * (820 + 205) / 1024 > 2000 MHz.
#[test]
fn turbo_without_cppc_is_no_reference() {
    let Some(paths) = dumps() else { return };
    let path = paths.into_iter().find(|path| path.ends_with("icxd0.tar.xz")).expect("a dump");
    let facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
    let imported = imported(&path);
    for input in [FmaxInput::of_facts(&facts, &imported), FmaxInput::of_machine(&imported.machine)] {
        let report = fmax(&input, None);
        assert_eq!(report.input.cpuinfo_max_khz, 2_001_000);
        let tips: Vec<(u32, Option<u64>)> = report.tipping.iter().map(|point| (point.khz, point.util)).collect();
        assert_eq!(tips, [(800_000, Some(328)), (2_000_000, Some(820)), (2_001_000, None)]);
    }
}

/// Goldmont's first group is that of one core; without CPPC acpi-cpufreq finds no boost from 5.11 on.
#[test]
fn the_row_of_a_kernel_names_what_it_reads() {
    let Some(report) = report("dnv0", None) else { return };
    assert_eq!(kernel(&report, "5.10"), (Some(1170), Some("turbo-1-core".to_owned())));
    assert_eq!(kernel(&report, "5.11"), (Some(1024), Some("max_P".to_owned())));
}

/// Kernels do not know that later Xeons keep groups in the register.
#[test]
fn groups_that_the_kernel_does_not_know_are_warned_of() {
    let Some(report) = report("spr1", None) else { return };
    assert_eq!(kernel(&report, "6.12"), (Some(33 * 1024 / 22), Some("turbo-32-cores".to_owned())));
    assert_eq!(candidate(&report, "turbo-4-cores").0, 3_800_000);
    assert!(report.warnings.iter().any(|warning| warning.contains("groups of cores")), "{:?}", report.warnings);
}

/// Goal: what a driver's table tells is the worst case, on x86 as in device trees; a wake-up takes less and has a range.
#[test]
fn wake_ups_take_less_than_the_told_worst_case() {
    let Some(paths) = dumps() else { return };
    for path in paths {
        let machine = imported(&path).machine;
        let states = || machine.clusters.iter().flat_map(|cluster| &cluster.idle);
        let deep = states().filter(|state| state.exit_latency_ns >= 100_000);
        assert!(deep.clone().all(|state| state.wake_ns == Some(state.exit_latency_ns * 3 / 10)), "{}", machine.name);
        let ranges = machine.ranges.iter().any(|range| range.path == "cluster.idle.wake_ns");
        assert_eq!(ranges, deep.count() > 0, "{}", machine.name);
    }
}

/// Goal: a number's source is the fact that it was taken from, so that no machine lists registers that its dump lacks.
#[test]
fn sources_name_only_what_the_dump_has() {
    let Some(paths) = dumps() else { return };
    for path in paths {
        let facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
        let machine = imported(&path).machine;
        for (what, source) in &machine.sources {
            for word in source.split(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
                let register =
                    word.strip_prefix("msr.").and_then(|hex| u32::from_str_radix(hex.strip_prefix("0x")?, 16).ok());
                assert!(
                    register.is_none_or(|address| facts.knows(&format!("msr.{address:#x}"))),
                    "{}: {what}: {source}",
                    machine.name
                );
            }
            assert!(
                !source.contains("MSR_")
                    && (machine.processor.as_ref().is_none_or(|p| p.vendor == "GenuineIntel")
                        || !source.contains("msr")),
                "{}: {what}: {source}",
                machine.name
            );
        }
        let marked = |key: &str| machine.sources.iter().any(|(known, _)| known.trim_start_matches("default.") == key);
        assert_eq!(
            marked("cluster.hwp"),
            machine.clusters.iter().any(|cluster| cluster.hwp.is_some()),
            "{}",
            machine.name
        );
        let turbo = machine.clusters.iter().any(|cluster| !cluster.turbo.is_empty());
        assert_eq!(marked("cluster.turbo"), turbo, "{}", machine.name);
    }
}

/// What sysfs calls `balance_performance` is the kernel's number for the model on every dump; another one is kept.
#[test]
fn balance_performance_is_the_kernels_or_the_firmwares() {
    let Some(paths) = dumps() else { return };
    let mut measured = 0;
    for path in paths {
        let mut facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
        let chosen = |facts: &Facts| {
            let machine = to_machine(facts).unwrap_or_else(|error| panic!("{error}")).machine;
            machine.clusters.iter().filter_map(|cluster| Some(cluster.hwp?.balance_performance)).collect::<Vec<_>>()
        };
        let by_kernel = chosen(&facts);
        assert!(by_kernel.iter().all(|&epp| epp == 0), "{}: {by_kernel:?}", path.display());
        let named = facts.policies.values().all(|policy| policy.epp.as_deref() == Some("balance_performance"));
        if !named || by_kernel.is_empty() {
            continue;
        }
        measured += 1;
        for cpu in facts.cpus.values_mut() {
            cpu.msrs.entry(0x774).and_modify(|request| *request = *request & !(0xff << 24) | 0x60 << 24);
        }
        assert!(chosen(&facts).iter().all(|&epp| epp == 0x60), "{}", path.display());
    }
    assert!(measured >= 8, "{measured}");
}
