//! Every kind of source beside dumps, on shared data or on small inputs made here; and that wrong input is an error
//! with its place, never a panic.

use std::path::Path;

use opplab_import::fmax::{FmaxInput, fmax};
use opplab_import::{Facts, Imported, SourceKind, check, import, import_bytes, to_machine};
use opplab_model::machine::{InvarianceSource, Machine, PmProfile, PolicyShare};
use opplab_testdata::shared;
use proptest::prelude::*;

fn facts(path: &Path) -> Facts {
    import(path).unwrap_or_else(|error| panic!("{error}"))
}

fn machine(path: &Path) -> Machine {
    to_machine(&facts(path)).unwrap_or_else(|error| panic!("{error}")).machine
}

fn error(file: &str, bytes: &[u8]) -> String {
    match import_bytes(file, bytes).and_then(|facts| to_machine(&facts)) {
        Err(error) => error.to_string(),
        Ok(imported) => panic!("{file} should be refused, but is {:?}", imported.machine),
    }
}

// ---------------------------------------------------------------------------------------------- shared data

/// What is made of a tree of these files.
fn try_tree(name: &str, files: &[(impl AsRef<Path>, impl AsRef<str>)]) -> Result<Imported, String> {
    let folder = std::env::temp_dir().join(format!("opplab-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text.as_ref()).expect("it can be written");
    }
    let made = import(&folder)
        .map_err(|error| error.to_string())
        .and_then(|facts| to_machine(&facts).map_err(|error| error.to_string()));
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    made
}

/// The machine of it.
fn of_tree(name: &str, files: &[(&str, &str)]) -> Result<Machine, String> {
    try_tree(name, files).map(|imported| imported.machine)
}

const XEON: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\ncpu MHz\t\t: 926.502\n";
const ONE_POLICY: [(&str, &str); 2] =
    [("sys/devices/system/cpu/online", "0"), ("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0")];

/// Goal: a cpufreq whose frequencies are 0 is a source without frequencies, and not a machine of one odd clock.
#[test]
fn zero_frequencies_are_no_frequency() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let limits = [format!("{policy}/cpuinfo_min_freq"), format!("{policy}/cpuinfo_max_freq")];
    let files = [ONE_POLICY[0], ONE_POLICY[1], (&limits[0], "0"), (&limits[1], "0"), ("proc/cpuinfo", XEON)];
    let error = of_tree("zero-khz", &files).map(|machine| machine.clusters[0].opps.clone()).expect_err("no frequency");
    assert!(error.contains("it has no frequency of any CPU"), "{error}");
    // What makes a machine of a chip whose firmware has them.
    assert!(error.contains("--clusters"), "{error}");
}

/// Goal: where only acpi-cpufreq's P0 is known to stand for turbo, 1 MHz above the base, boost is missing: it was told to be
/// known, and to be these 2001 MHz. A clock further up is that of a lone core.
#[test]
fn a_p_state_that_stands_for_turbo_is_no_clock_of_it() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let name = |file: &str| format!("{policy}/{file}");
    let names = ["scaling_driver", "scaling_available_frequencies", "cpuinfo_max_freq", "cpuinfo_min_freq"].map(name);
    for (top, bins) in [("2001000", 0), ("2800000", 1)] {
        let table = format!("{top} 2000000 1200000");
        let texts = ["acpi-cpufreq", &table, top, "1200000"];
        let mut files = vec![ONE_POLICY[0], ONE_POLICY[1], ("proc/cpuinfo", XEON)];
        files.extend(names.iter().map(String::as_str).zip(texts));
        let nominal = ("sys/devices/system/cpu/cpufreq/policy0/base_frequency", "2000000");
        files.push(nominal);
        let machine = of_tree(&format!("turbo-{top}"), &files).unwrap_or_else(|error| panic!("{error}"));
        let cluster = &machine.clusters[0];
        assert_eq!((cluster.turbo.len(), cluster.base_khz), (bins, 2_000_000), "{top}");
        assert_eq!(cluster.opps.last().map(|opp| opp.khz.to_string()).as_deref(), Some(top));
    }
}

/// Goal: a machine file has that boost is there where the source has no clock of it, so that answers can name it. Method:
/// a table that ends at P0, with and without what shows boost.
#[test]
fn boost_without_clocks_is_marked_as_unknown() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let name = |file: &str| format!("{policy}/{file}");
    let names = ["scaling_driver", "scaling_available_frequencies", "cpuinfo_max_freq", "cpuinfo_min_freq"].map(name);
    let flags = |flags: &str| format!("{XEON}flags\t\t: {flags}\n");
    for (which, boost, cpuinfo, marked) in [
        ("file", Some("0"), flags("fpu"), true),
        ("flag", None, flags("fpu cpb"), true),
        ("neither", None, flags("fpu"), false),
    ] {
        let texts = ["acpi-cpufreq", "2000000 1200000", "2000000", "1200000"];
        let mut files = vec![ONE_POLICY[0], ONE_POLICY[1], ("proc/cpuinfo", cpuinfo.as_str())];
        files.extend(names.iter().map(String::as_str).zip(texts));
        files.extend(boost.map(|on| ("sys/devices/system/cpu/cpufreq/boost", on)));
        let machine = of_tree(&format!("boost-{which}"), &files).unwrap_or_else(|error| panic!("{error}"));
        let mark = machine.sources.iter().find(|(what, _)| what == "default.cluster.turbo");
        assert!(machine.clusters[0].turbo.is_empty(), "{which}");
        assert_eq!(mark.is_some_and(|(_, words)| words.starts_with("unknown")), marked, "{which}");
    }
}

/// Goal: an x86 machine whose flags lack aperfmperf has no invariance, as the kernel decides it; and a driver that nobody
/// models is, where it has a table of frequencies, one that has such a table.
#[test]
fn a_virtual_machine_with_a_table_of_frequencies_is_one() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let [table, driver] = ["scaling_available_frequencies", "scaling_driver"].map(|name| format!("{policy}/{name}"));
    for (flags, invariance) in
        [("hypervisor", InvarianceSource::Absent), ("hypervisor aperfmperf", InvarianceSource::CountersAtTick)]
    {
        let cpuinfo = format!("{XEON}flags\t\t: fpu {flags}\n");
        let files = [
            ONE_POLICY[0],
            ONE_POLICY[1],
            (&table, "2000000 1500000 1000000 "),
            (&driver, "made-clock"),
            ("proc/cpuinfo", &cpuinfo),
        ];
        let machine = of_tree("guest", &files).expect("it is a machine");
        assert_eq!(machine.invariance, invariance);
        assert_eq!(machine.cpufreq.driver.name, "acpi-cpufreq");
        let clocks: Vec<u32> = machine.clusters[0].opps.iter().map(|opp| opp.khz).collect();
        assert_eq!(clocks, [1_000_000, 1_500_000, 2_000_000]);
    }
}

#[test]
fn every_snapshot_of_the_traces_imports() {
    let Some(folder) = shared("traces") else { return };
    let mut nr = 0;
    for entry in std::fs::read_dir(folder).expect("it can be listed").flatten() {
        let path = entry.path().join("sysfs_before.txt");
        if path.is_file() {
            let machine = machine(&path);
            assert!(machine.nr_cpus() > 0 && !machine.shared_stream);
            assert_eq!(self::machine(&entry.path()), machine, "the recording's folder");
            nr += 1;
        }
    }
    assert!(nr >= 20, "{nr}");
}

#[test]
fn a_snapshot_of_the_juno_is_the_juno() {
    let Some(path) = shared("traces/arm64-612-juno-eas-hetero9-bigspawn/sysfs_before.txt") else { return };
    let juno = machine(&path);
    assert_eq!(juno.name, "arm64-612-juno-eas-hetero9-bigspawn");
    let capacities: Vec<u32> = (0..6).map(|cpu| juno.cluster_of(cpu).capacity).collect();
    assert_eq!(capacities, [383, 1024, 1024, 383, 383, 383]);
    assert_eq!(juno.cpufreq.driver.name, "cppc_cpufreq");
    // The artificial energy model's costs give the classes away.
    let classes: Vec<u32> = juno.clusters.iter().map(|cluster| cluster.efficiency_class).collect();
    assert_eq!(classes, [0, 1]);
    let little = juno.clusters[0].cppc.expect("it has CPPC");
    assert_eq!((little.highest_perf, little.lowest_perf, little.lowest_freq_mhz), (383, 181, 450));
}

#[test]
fn turbostat_logs_import() {
    let Some(folder) = shared("data/stats-collect/tests/data/results/good") else { return };
    let log = facts(&folder.join("bdwup0/stats/turbostat.raw.txt"));
    assert_eq!(log.kind, SourceKind::Turbostat);
    let imported = to_machine(&log).unwrap_or_else(|error| panic!("{error}"));
    let machine = &imported.machine;
    assert_eq!((machine.nr_cpus(), machine.clusters[0].base_khz), (8, 3_400_000));
    let bins: Vec<(u32, u32)> = machine.clusters[0].turbo.iter().map(|bin| (bin.active_cores, bin.khz)).collect();
    assert_eq!(bins, [(2, 3_800_000), (4, 3_700_000)]);
    assert_eq!(machine.processor.as_ref().map(|processor| (processor.family, processor.model)), Some((6, 71)));
    assert_eq!(machine.package_power.map(|power| (power.pl1_uw, power.pl2_uw)), Some((65_000_000, 81_250_000)));
    // Two threads a core.
    assert_eq!(machine.cpus[0].core, machine.cpus[4].core);
    // AMD: no registers, so no frequency; the topology is there all the same.
    let genoa = facts(&folder.join("genoa0/stats/sysinfo/turbostat-d.before.raw.txt"));
    assert_eq!(genoa.cpus.len(), 128);
    assert_eq!(genoa.cpus[&64].core.as_deref(), Some(&[0, 64][..]));
    assert!(to_machine(&genoa).expect_err("no frequency is told").to_string().contains("no frequency"));
}

#[test]
fn platform_infos_import() {
    let Some(folder) = shared("data/lisa") else { return };
    let juno = machine(&folder.join("doc_traces/plat_info.yml"));
    assert_eq!(juno.name, "juno-r0");
    assert_eq!(juno.clusters.iter().map(|cluster| cluster.capacity).collect::<Vec<_>>(), [446, 1024]);
    assert_eq!(juno.clusters[1].opps.iter().map(|opp| opp.khz / 1000).collect::<Vec<_>>(), [450, 625, 800, 950, 1100]);
    assert_eq!(juno.clusters[0].policy, PolicyShare::Shared);
    // Frequencies by domain, not by CPU.
    let pixel = machine(&folder.join("sched_load_avg/plat_info.yml"));
    assert_eq!(pixel.nr_cpus(), 4);
    let highest: Vec<u32> =
        pixel.clusters.iter().map(|cluster| cluster.opps.last().expect("it has OPPs").khz).collect();
    assert_eq!(highest, [1_593_600, 2_150_400]);
    for old in ["sched_load", "trace_txt"] {
        assert_eq!(machine(&folder.join(old).join("plat_info.yml")).nr_cpus(), 6);
    }
}

#[test]
fn wattson_curves_import() {
    let Some(folder) = shared("data/perfetto/src/trace_processor/plugins/wattson/data") else { return };
    let mut nr = 0;
    for entry in std::fs::read_dir(&folder).expect("it can be listed").flatten() {
        assert!(machine(&entry.path()).nr_cpus() > 0);
        nr += 1;
    }
    assert!(nr >= 7);
    let tensor = machine(&folder.join("Tensor"));
    assert_eq!(tensor.nr_cpus(), 8);
    let middle = &tensor.clusters[1];
    assert_eq!((middle.cpus.clone(), middle.opps[0].khz, middle.opps[0].busy_uw), (vec![4, 5], 400_000, 28_510));
    assert_eq!(middle.idle[0].power_uw, 5_240);
    // The little cluster's own part: with the others at their lowest frequency.
    assert_eq!((tensor.clusters[0].opps[0].busy_uw, tensor.clusters[0].opps[0].cluster_uw), (21_840, 3_730));
}

// ------------------------------------------------------------------------------------------- made here

/// A blob with a big and a little CPU. Written by hand, as `dtc` would.
fn blob() -> Vec<u8> {
    let (mut structs, mut strings): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_be_bytes());
    let begin = |out: &mut Vec<u8>, name: &str| {
        out.extend(1u32.to_be_bytes());
        out.extend(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    let mut prop = |out: &mut Vec<u8>, name: &str, value: &[u8]| {
        for number in [3, value.len() as u32, strings.len() as u32] {
            out.extend(number.to_be_bytes());
        }
        strings.extend(name.as_bytes());
        strings.push(0);
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    begin(&mut structs, "");
    prop(&mut structs, "model", b"two cores\0");
    begin(&mut structs, "cpus");
    for (name, handle, dmips, coefficient, table) in [("cpu@0", 1, 485u32, 140u32, 10u32), ("cpu@1", 2, 1024, 450, 11)]
    {
        begin(&mut structs, name);
        prop(&mut structs, "device_type", b"cpu\0");
        for (key, value) in [
            ("phandle", handle),
            ("capacity-dmips-mhz", dmips),
            ("dynamic-power-coefficient", coefficient),
            ("operating-points-v2", table),
            ("cpu-idle-states", 20),
        ] {
            prop(&mut structs, key, &u32::to_be_bytes(value));
        }
        word(&mut structs, 2);
    }
    begin(&mut structs, "idle-states");
    begin(&mut structs, "cpu-sleep-0");
    for (key, value) in [
        ("phandle", 20u32),
        ("entry-latency-us", 300),
        ("exit-latency-us", 1200),
        ("min-residency-us", 2000),
        ("wakeup-latency-us", 1450),
    ] {
        prop(&mut structs, key, &value.to_be_bytes());
    }
    word(&mut structs, 2);
    word(&mut structs, 2);
    word(&mut structs, 2);
    for (name, handle, opps) in [
        ("opp-table-0", 10u32, [(450_000_000u64, 820_000u32), (950_000_000, 1_000_000), (0, 0)]),
        ("opp-table-1", 11, [(600_000_000, 820_000), (1_200_000_000, 1_000_000), (1_500_000_000, 1_100_000)]),
    ] {
        begin(&mut structs, name);
        prop(&mut structs, "phandle", &handle.to_be_bytes());
        prop(&mut structs, "opp-shared", &[]);
        for (hz, uv) in opps {
            begin(&mut structs, "opp");
            prop(&mut structs, "opp-hz", &hz.to_be_bytes());
            prop(&mut structs, "opp-microvolt", &uv.to_be_bytes());
            prop(&mut structs, "clock-latency-ns", &500_000u32.to_be_bytes());
            if uv > 1_000_000 {
                prop(&mut structs, "turbo-mode", &[]);
            }
            word(&mut structs, 2);
        }
        word(&mut structs, 2);
    }
    word(&mut structs, 2);
    word(&mut structs, 9);
    let (at_structs, at_strings) = (56u32, 56 + structs.len() as u32);
    let total = at_strings + strings.len() as u32;
    let mut out = Vec::new();
    for value in [
        0xd00d_feed,
        total,
        at_structs,
        at_strings,
        40,
        17,
        16,
        0,
        strings.len() as u32,
        structs.len() as u32,
        0,
        0,
        0,
        0,
    ] {
        word(&mut out, value);
    }
    out.extend(structs);
    out.extend(strings);
    out
}

#[test]
fn device_trees_import() {
    let imported = import_bytes("two.dtb", &blob()).and_then(|facts| to_machine(&facts));
    let machine = imported.unwrap_or_else(|error| panic!("{error}")).machine;
    // As Juno r2: 485 * 950 / (1024 * 1200) * 1024.
    assert_eq!(machine.clusters.iter().map(|cluster| cluster.capacity).collect::<Vec<_>>(), [383, 1024]);
    let opps: Vec<(u32, u32, u64)> =
        machine.clusters.iter().flat_map(|cluster| &cluster.opps).map(|opp| (opp.khz, opp.mv, opp.power_uw)).collect();
    let expected =
        [(450_000, 820, 42_361), (950_000, 1000, 133_000), (600_000, 820, 181_548), (1_200_000, 1000, 540_000)];
    assert_eq!(opps, expected);
    let idle: Vec<_> =
        machine.clusters[0].idle.iter().map(|state| (state.name.as_str(), state.target_residency_ns)).collect();
    assert_eq!(idle, [("WFI", 1_000), ("cpu-sleep-0", 2_000_000)]);
    assert_eq!(machine.clusters[0].idle[1].entry_latency_ns, 250_000);
    assert_eq!(machine.cpufreq.transition_latency_ns, 500_000);
}

/// The machine of a device tree's source, and what the import says.
fn of_dts(text: &str) -> (Machine, Vec<String>, Vec<(String, String)>) {
    let made = import_bytes("t.dts", text.as_bytes()).and_then(|facts| to_machine(&facts));
    let made = made.unwrap_or_else(|error| panic!("{error}"));
    (made.machine, made.notes, made.defaults)
}

/// Two kinds of CPU; more of the big one's highest operating point, of the big one's idle state, and of the tree.
fn dts(point: &str, state: &str, more: &str) -> String {
    format!(
        r#"/dts-v1/;
/ {{
  cpus {{
    cpu0: cpu@0 {{ device_type = "cpu"; capacity-dmips-mhz = <300>; operating-points-v2 = <&little>; cpu-idle-states = <&sleep>; }};
    cpu1: cpu@1 {{ device_type = "cpu"; capacity-dmips-mhz = <400>; dynamic-power-coefficient = <100>; operating-points-v2 = <&big>; cpu-idle-states = <&deep>; cpu-supply = <&buck>; }};
    idle-states {{
      sleep: cpu-sleep {{ entry-latency-us = <10>; exit-latency-us = <20>; min-residency-us = <100>; }};
      deep: cpu-deep {{ {state} }};
    }};
  }};
  buck: buck {{ regulator-ramp-delay = <1000>; }};
  little: opp-table-little {{ opp-shared;
    opp-1 {{ opp-hz = /bits/ 64 <500000000>; clock-latency-ns = <100000>; }};
    opp-2 {{ opp-hz = /bits/ 64 <1000100000>; clock-latency-ns = <200000>; }};
  }};
  big: opp-table-big {{ opp-shared;
    opp-1 {{ opp-hz = /bits/ 64 <1000000000>; opp-microvolt = <700000 690000 710000>; clock-latency-ns = <300000>; }};
    opp-2 {{ opp-hz = /bits/ 64 <2000000000>; opp-microvolt = <900000 880000 930000>; {point} }};
  }};
  {more}
}};
"#
    )
}

const STATE: &str = "entry-latency-us = <120>; exit-latency-us = <150>; min-residency-us = <1200>;";

fn opps_of(machine: &Machine, cluster: usize) -> Vec<u32> {
    machine.clusters[cluster].opps.iter().map(|opp| opp.khz).collect()
}

/// Goal: cpufreq-dt's transition latency is the greatest clock-latency-ns and the regulator's time, which no default hides.
#[test]
fn the_transition_latency_is_the_clocks_and_the_regulators() {
    let (machine, notes, defaults) = of_dts(&dts("clock-latency-ns = <250000>;", STATE, ""));
    // 0.69 V to 0.93 V at 1000 uV/us.
    assert_eq!(machine.cpufreq.transition_latency_ns, 300_000 + 240_000);
    assert!(notes.iter().any(|note| note.contains("differ; all have the longest, 540 us")), "{notes:?}");
    assert!(!defaults.iter().any(|(what, _)| what == "driver.transition_latency"), "{defaults:?}");
    assert!(!machine.ranges.iter().any(|range| range.path == "driver.transition_latency_ns"));
    let text = dts("", STATE, "").replace("clock-latency-ns", "some-ns").replace("cpu-supply", "some-supply");
    let (machine, notes, defaults) = of_dts(&text);
    assert_eq!(machine.cpufreq.transition_latency_ns, 0);
    let why = defaults.iter().find(|(what, _)| what == "driver.transition_latency").map(|(_, why)| why.as_str());
    assert!(why.is_some_and(|why| why.contains("CPUFREQ_ETERNAL")), "{defaults:?}");
    let found = check::check(None, &machine, &fmax(&FmaxInput::of_machine(&machine), None));
    assert!(found.iter().any(|one| one.what.contains("the transition latency is not known")), "{found:?}");
    let not_read = "not read: some-supply of CPUs; some-ns of operating points";
    assert!(notes.iter().any(|note| note == not_read), "{notes:?}");
}

/// Goal: a cluster without power beside one that has it is missing by name, for the importer and for the check.
#[test]
fn a_cluster_without_power_is_missing_by_name() {
    let missing = |text: &str| {
        let facts = import_bytes("board.dts", text.as_bytes()).expect("it is a tree");
        let imported = to_machine(&facts).expect("it is a machine");
        let report = fmax(&FmaxInput::of_machine(&imported.machine), None);
        let findings = check::check(None, &imported.machine, &report);
        let found = findings.into_iter().filter(|finding| finding.check == "power-missing").map(|finding| finding.what);
        (imported.missing, found.collect::<Vec<_>>())
    };
    let words =
        |of: &str| format!("power of the CPUs{of} at each OPP (simulated energy is unknown until `uw` is given)");
    let text = dts("", STATE, "");
    let (told, found) = missing(&text);
    assert!(told.contains(&words(" of cluster0")), "{told:?}");
    assert_eq!(found, ["cluster0: no OPP has a power, while other clusters have theirs"]);
    // Without any power there is no contradiction, and all of it is missing.
    let (told, found) = missing(&text.replace("dynamic-power-coefficient", "another-coefficient"));
    assert!(told.contains(&words("")), "{told:?}");
    assert!(found.is_empty(), "{found:?}");
}

/// Goal: boost is off by default, so its points are neither in the table nor in the capacities, and are named.
#[test]
fn points_of_boost_are_left_out_by_name() {
    let (plain, ..) = of_dts(&dts("", STATE, ""));
    assert_eq!((opps_of(&plain, 1), plain.clusters[0].capacity), (vec![1_000_000, 2_000_000], 384));
    let (machine, notes, _) = of_dts(&dts("turbo-mode;", STATE, ""));
    assert_eq!(opps_of(&machine, 1), [1_000_000]);
    // 300 * 1000.1 of 400 * 1000 MHz.
    assert_eq!((machine.clusters[0].capacity, machine.clusters[1].capacity), (768, 1024));
    let said = "cluster1: boost's points, 2000 MHz, are left out; it is off by default: with it on, add them to `opp`";
    assert!(notes.iter().any(|note| note == said), "{notes:?}");
}

/// Goal: the kernel's exit latency is wakeup-latency-us where there is one, else the sum; a state without them is refused.
#[test]
fn a_wake_up_has_its_own_latency() {
    let latency = |state: &str| {
        let (machine, notes, _) = of_dts(&dts("", state, ""));
        let state = machine.clusters[1].idle.get(1).map(|state| (state.entry_latency_ns, state.exit_latency_ns));
        (state, notes)
    };
    assert_eq!(latency(STATE).0, Some((120_000, 150_000)));
    assert_eq!(latency(&format!("wakeup-latency-us = <200>; {STATE}")).0, Some((50_000, 150_000)));
    assert_eq!(latency(&format!("wakeup-latency-us = <100>; {STATE}")).0, Some((0, 100_000)));
    assert_eq!(latency("wakeup-latency-us = <200>; min-residency-us = <900>;").0, Some((0, 200_000)));
    let (state, notes) = latency("entry-latency-us = <120>; exit-latency-us = <150>;");
    assert_eq!(state, None);
    assert!(notes.iter().any(|note| note.starts_with("idle state cpu-deep lacks a latency")), "{notes:?}");
    let (state, notes) = latency(&format!("status = \"disabled\"; local-timer-stop; {STATE}"));
    assert_eq!(state, None);
    assert!(notes.iter().any(|note| note == "idle state cpu-deep is disabled and left out"), "{notes:?}");
    assert!(notes.iter().any(|note| note == "not read: local-timer-stop of idle states"), "{notes:?}");
}

/// Goal: a CPU's states may be those of its power domain; the states of several CPUs are named.
#[test]
fn states_of_power_domains_are_read_or_named() {
    let domains = "psci { own: own { #power-domain-cells = <0>; domain-idle-states = <&deep>; power-domains = <&all>; }; \
                   all: all { #power-domain-cells = <0>; domain-idle-states = <&together>; }; }; \
                   domain-idle-states { together: cluster-sleep { min-residency-us = <5000>; }; };";
    let text = dts("", STATE, domains);
    let text = text.replace("cpu-idle-states = <&deep>;", "power-domains = <&own>; power-domain-names = \"psci\";");
    let (machine, notes, _) = of_dts(&text);
    assert_eq!(machine.clusters[1].idle[1].name, "cpu-deep");
    let said = "idle states of several CPUs together are left out: cluster-sleep";
    assert!(notes.iter().any(|note| note == said), "{notes:?}");
}

/// Goal: what is disabled, depends on fuses or has no frequency is left out or kept by name.
#[test]
fn points_that_a_chip_may_lack_are_named() {
    let (machine, notes, _) = of_dts(&dts("status = \"reserved\";", STATE, ""));
    assert_eq!(opps_of(&machine, 1), [1_000_000]);
    assert!(notes.iter().any(|note| note == "/opp-table-big: 2000 MHz disabled and left out"), "{notes:?}");
    let (machine, notes, _) = of_dts(&dts("opp-supported-hw = <1>; opp-suspend;", STATE, ""));
    assert_eq!(opps_of(&machine, 1), [1_000_000, 2_000_000]);
    assert!(notes.iter().any(|note| note.contains("1 operating points have opp-supported-hw")), "{notes:?}");
    assert!(notes.iter().any(|note| note == "not read: opp-suspend of operating points"), "{notes:?}");
    let text = dts("", STATE, "").replace("opp-hz = /bits/ 64 <2000000000>", "opp-level = <3>");
    let (_, notes, _) = of_dts(&text);
    assert!(notes.iter().any(|note| note == "/opp-table-big/opp-2 has no opp-hz and is left out"), "{notes:?}");
}

/// Goal: the lowest point decides whether opp-microwatt or the coefficient is the power, as in the kernel.
#[test]
fn power_is_told_or_by_the_coefficient() {
    let power = |text: &str| {
        let (machine, notes, _) = of_dts(text);
        (machine.clusters[1].opps.iter().map(|opp| opp.busy_uw).collect::<Vec<_>>(), notes)
    };
    assert_eq!(power(&dts("opp-microwatt = <5>;", STATE, "")).0, [49_000, 162_000]);
    let text = dts("", STATE, "")
        .replace("opp-microvolt = <700000 690000", "opp-microwatt = <9>; opp-microvolt = <700000 690000");
    let (powers, notes) = power(&text);
    assert_eq!(powers, [9, 0]);
    assert!(notes.iter().any(|note| note.contains("the kernel registers no energy model")), "{notes:?}");
}

/// Goal: CPUs that failed are none; a disabled one is one on Arm and none on RISC-V; each is named.
#[test]
fn the_status_of_a_cpu_is_the_kernels() {
    for (compatible, status, nr) in [
        ("arm,cortex-a78", "disabled", 2),
        ("riscv", "disabled", 1),
        ("arm,cortex-a78", "fail-x", 1),
        ("riscv", "okay", 2),
    ] {
        let more = format!(
            "compatible = \"{compatible}\"; status = \"{status}\"; device_type = \"cpu\"; capacity-dmips-mhz = <300>"
        );
        let text = dts("", STATE, "").replace("device_type = \"cpu\"; capacity-dmips-mhz = <300>", &more);
        let (machine, notes, _) = of_dts(&text);
        assert_eq!(machine.nr_cpus(), nr, "{compatible} {status}");
        assert_eq!(notes.iter().any(|note| note.contains("cpu@0 has the status")), status != "okay", "{notes:?}");
    }
}

/// Goal: sockets of cpu-map are packages, numa-node-id and distance-map are nodes; a map without all CPUs is not read.
#[test]
fn sockets_threads_and_nodes_are_read() {
    let map = |map: &str| dts("", STATE, "").replace("idle-states {", &format!("cpu-map {{ {map} }}; idle-states {{"));
    let sockets =
        "socket0 { cluster0 { core0 { cpu = <&cpu0>; }; }; }; socket1 { cluster0 { core0 { cpu = <&cpu1>; }; }; };";
    let (machine, ..) = of_dts(&map(sockets));
    assert_eq!(machine.cpus.iter().map(|place| place.package).collect::<Vec<_>>(), [0, 1]);
    let threads = "cluster0 { core0 { thread0 { cpu = <&cpu0>; }; thread1 { cpu = <&cpu1>; }; }; };";
    let (machine, ..) = of_dts(&map(threads));
    assert_eq!(machine.cpus.iter().map(|place| (place.core, place.package)).collect::<Vec<_>>(), [(0, 0), (0, 0)]);
    let (_, notes, _) = of_dts(&map("cluster0 { core0 { cpu = <&cpu0>; }; };"));
    assert!(notes.iter().any(|note| note.starts_with("cpu-map lacks CPUs")), "{notes:?}");
    let distances = "distance-map { distance-matrix = <7 7 10>, <7 9 31>; };";
    let text = dts("", STATE, distances);
    let text = text.replace("cpu0: cpu@0 {", "cpu0: cpu@0 { numa-node-id = <7>;");
    let (machine, ..) = of_dts(&text.replace("cpu1: cpu@1 {", "cpu1: cpu@1 { numa-node-id = <9>;"));
    assert_eq!(machine.cpus.iter().map(|place| place.node).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(machine.numa_distance, [[10, 31], [31, 10]]);
}

/// Goal: with the older binding the first CPU's points are those of all, as cpufreq-dt has it.
#[test]
fn the_older_binding_has_one_policy() {
    let text = "/dts-v1/; / { cpus { \
                cpu@0 { clocks = <1 2>; operating-points = <500000 700000 1000000 900000>; clock-latency = <61036>; }; cpu@1 { }; }; };";
    let (machine, ..) = of_dts(text);
    assert_eq!((machine.nr_cpus(), machine.clusters.len(), machine.clusters[0].policy), (2, 1, PolicyShare::Shared));
    assert_eq!((opps_of(&machine, 0), machine.cpufreq.transition_latency_ns), (vec![500_000, 1_000_000], 61_036));
}

#[test]
fn half_a_device_tree_is_refused_with_its_place() {
    let whole = blob();
    for length in 0..whole.len() {
        let message = error("half.dtb", &whole[..length]);
        assert!(message.starts_with("failed to import half.dtb"), "{message}");
    }
    let half = error("half.dtb", &whole[..whole.len() / 2]);
    assert_eq!(
        half,
        format!(
            "failed to import half.dtb: byte {}: the blob should have {} bytes: cut off",
            whole.len() / 2,
            whole.len()
        )
    );
}

#[test]
fn energy_models_import() {
    let text = "/sys/devices/system/cpu/online: 0-1|\n/sys/devices/system/cpu/cpufreq/policy0/related_cpus: 0 1|\n\
                /sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies: 1000 500|\n";
    let facts = import_bytes("x.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(facts.policies[&0].opps.iter().map(|opp| opp.khz).collect::<Vec<_>>(), [500, 1000]);
    let folder = std::env::temp_dir().join(format!("opplab-em-{}", std::process::id()));
    for (path, value) in [
        ("cpu0/cpus", "0-1"),
        ("cpu0/flags", "0x1"),
        ("cpu0/ps:500000/frequency", "500000"),
        ("cpu0/ps:500000/power", "40000"),
        ("cpu0/ps:500000/performance", "512"),
        ("cpu0/ps:1000000/frequency", "1000000"),
        ("cpu0/ps:1000000/power", "150000"),
        ("cpu0/ps:1000000/performance", "1024"),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("a folder for the test");
        std::fs::write(path, format!("{value}\n")).expect("a file for the test");
    }
    let machine = machine(&folder);
    let opps: Vec<(u32, u64)> = machine.clusters[0].opps.iter().map(|opp| (opp.khz, opp.power_uw)).collect();
    assert_eq!((machine.nr_cpus(), opps), (2, vec![(500_000, 40_000), (1_000_000, 150_000)]));
    std::fs::remove_dir_all(folder).expect("it was made here");
}

/// Files of a board with a policy of two CPUs each, below `folder` of each policy's first CPU.
fn two_policies(folder: impl Fn(u32) -> String, second: &str) -> Vec<(String, String)> {
    let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-3".to_owned())];
    for (first, table) in [(0, "1000000 500000"), (2, second)] {
        let folder = folder(first);
        files.extend([
            (format!("{folder}/related_cpus"), format!("{first} {}", first + 1)),
            (format!("{folder}/scaling_driver"), "cpufreq-dt".to_owned()),
            (format!("{folder}/scaling_available_frequencies"), table.to_owned()),
            (format!("{folder}/cpuinfo_max_freq"), "1000000".to_owned()),
        ]);
    }
    files
}

fn imported_tree(name: &str, files: &[(String, String)]) -> Imported {
    try_tree(name, files).unwrap_or_else(|error| panic!("{error}"))
}

/// Goal: a tree copied by tar, whose files have a page of zeros behind the text, is the machine that it is without them.
#[test]
fn pages_filled_with_zeros_are_read() {
    let mut plain = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), "2000000 800000");
    plain.push(("proc/cpuinfo".to_owned(), (0..4).map(|cpu| format!("processor\t: {cpu}\n\n")).collect()));
    let filled: Vec<(String, String)> =
        plain.iter().map(|(file, text)| (file.clone(), format!("{text}\n{}", "\0".repeat(64)))).collect();
    let of = |files: &[(String, String)]| imported_tree("zeros", files).machine.clusters;
    assert_eq!(of(&filled), of(&plain));
    assert_eq!(of(&plain).len(), 2);
}

/// Goal: old kernels and copies along links have cpufreq's folders at the CPUs: the same policies, not a machine of one
/// clock.
#[test]
fn policies_at_the_cpus_are_read() {
    let usual = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), "2000000 800000");
    let mut at_cpus = two_policies(|cpu| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"), "2000000 800000");
    at_cpus.extend(two_policies(|cpu| format!("sys/devices/system/cpu/cpu{}/cpufreq", cpu + 1), "2000000 800000"));
    let of = |files: &[(String, String)]| imported_tree("at-cpus", files).machine.clusters;
    assert_eq!(of(&at_cpus), of(&usual));
}

/// Goal: policies and packages of one kind of core lack no capacity: the kernel has 1024 for each. Of other clocks nobody
/// knows.
#[test]
fn policies_of_one_kind_lack_no_capacity() {
    let lacks = |second: &str| {
        let files = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), second);
        imported_tree("one-kind", &files).missing.iter().any(|what| what.contains("capacity"))
    };
    assert!(!lacks("1000000 500000"));
    assert!(lacks("1000000 800000"));
}

/// Goal: points of boost that software asks for are no turbo of the hardware, which a lone core would get at the highest
/// point without them.
#[test]
fn points_of_boost_are_no_turbo() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let mut files = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), "1000000 500000");
    files.push((format!("{policy}/scaling_boost_frequencies"), "1200000".to_owned()));
    files.retain(|(file, _)| *file != format!("{policy}/cpuinfo_max_freq"));
    files.push((format!("{policy}/cpuinfo_max_freq"), "1200000".to_owned()));
    files.push(("sys/devices/system/cpu/cpufreq/boost".to_owned(), "1".to_owned()));
    let imported = imported_tree("boost", &files);
    assert!(imported.machine.clusters.iter().all(|cluster| cluster.turbo.is_empty()));
    assert!(!imported.defaults.iter().any(|(what, _)| what == "cluster.turbo"), "{:?}", imported.defaults);
    assert!(
        imported.notes.iter().any(|note| note.contains("1200 MHz, are left out; it is on")),
        "{:?}",
        imported.notes
    );
}

/// Goal: the kinds of core of a hybrid processor's log have each their own clocks. The sysfs of the same machines has
/// `base_frequency` 2100 and 1500 MHz (i7-1260P), 1900 and 1400 MHz (Raptor Lake-P); the turbo bins are turbostat's lines.
#[test]
fn a_log_of_a_hybrid_processor_has_two_kinds_of_core() {
    let Some(folder) = shared("data/stats-collect/tests/data/results/good") else { return };
    let mhz = |cluster: &opplab_model::machine::Cluster| {
        let turbo: Vec<_> = cluster.turbo.iter().map(|bin| (bin.active_cores, bin.khz / 1000)).collect();
        (cluster.name.clone(), cluster.cpus.len(), cluster.base_khz / 1000, turbo)
    };
    let import = |log: &str| to_machine(&facts(&folder.join(log))).unwrap_or_else(|error| panic!("{error}"));
    let alder = import("adl0/stats/turbostat.raw.txt");
    let found: Vec<_> = alder.machine.clusters.iter().map(mhz).collect();
    let big = vec![(2, 4700), (3, 4000), (4, 3800)];
    assert_eq!(found, [("core".to_owned(), 8, 2100, big), ("atom".to_owned(), 8, 1500, vec![(4, 3400), (8, 3200)])]);
    assert_eq!(alder.machine.tsc_khz, 2_500_000);
    assert!(alder.notes.iter().any(|note| note.contains("hybrid")));
    assert!(alder.defaults.iter().any(|(what, _)| what == "cluster.base_khz"), "{:?}", alder.defaults);
    // As its dump has it.
    let capacities: Vec<_> = alder.machine.clusters.iter().map(|cluster| cluster.capacity).collect();
    assert_eq!(capacities, [1024, 1024 * 34 / 60]);
    let raptor = import("rpl0/stats/sysinfo/turbostat-d.before.raw.txt");
    let found: Vec<_> = raptor.machine.clusters.iter().map(mhz).map(|(_, _, base, turbo)| (base, turbo)).collect();
    assert_eq!(found[1], (1400, vec![(4, 3400), (8, 3100)]));
    assert_eq!(found[0].0, 1900);
}

/// Goal: what the maker built a machine for is read, or named as missing where a driver chooses by it; a number that ACPI does
/// not have is refused.
#[test]
fn the_profile_of_the_machine_is_read_or_missing() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let mut files = vec![
        ("sys/devices/system/cpu/online".to_owned(), "0".to_owned()),
        (
            "proc/cpuinfo".to_owned(),
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 116\n\n".to_owned(),
        ),
    ];
    for (name, text) in
        [("scaling_driver", "amd-pstate-epp"), ("cpuinfo_min_freq", "400000"), ("cpuinfo_max_freq", "5100000")]
    {
        files.push((format!("{policy}/{name}"), text.to_owned()));
    }
    let lacks = |imported: &Imported| imported.missing.iter().any(|what| what.contains("pm_profile"));
    let without = imported_tree("profile", &files);
    assert!(lacks(&without), "{:?}", without.missing);
    for (number, profile) in
        [("2", PmProfile::Mobile), ("4", PmProfile::EnterpriseServer), ("0", PmProfile::Unspecified)]
    {
        files.push(("sys/firmware/acpi/pm_profile".to_owned(), number.to_owned()));
        let imported = imported_tree("profile", &files);
        assert_eq!((imported.machine.pm_profile, lacks(&imported)), (profile, false));
        files.pop();
    }
    files.push(("sys/firmware/acpi/pm_profile".to_owned(), "9".to_owned()));
    let refused = try_tree("profile", &files).expect_err("ACPI has no such profile");
    assert!(refused.contains("pm_profile") && refused.contains("9 is no profile"), "{refused}");
}

/// Goal: what newer kernels take on AMD's processors with two kinds of core is named, as no source shows the kinds; preferred
/// cores of one kind are not.
#[test]
fn kinds_of_core_of_amd_are_named() {
    let warned = |second_khz: &str| {
        let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-1".to_owned())];
        let mut cpuinfo = String::new();
        for (cpu, highest, khz) in [(0, "208", "5157000"), (1, "135", second_khz)] {
            let folder = format!("sys/devices/system/cpu/cpufreq/policy{cpu}");
            for (name, text) in
                [("scaling_driver", "amd-pstate-epp"), ("cpuinfo_min_freq", "605000"), ("cpuinfo_max_freq", khz)]
            {
                files.push((format!("{folder}/{name}"), text.to_owned()));
            }
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/acpi_cppc");
            for (name, text) in
                [("highest_perf", highest), ("nominal_perf", "81"), ("nominal_freq", "2000"), ("lowest_perf", "25")]
            {
                files.push((format!("{folder}/{name}"), text.to_owned()));
            }
            cpuinfo.push_str(&format!(
                "processor\t: {cpu}\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 36\nflags\t\t: aperfmperf cppc\n\n"
            ));
        }
        files.push(("proc/cpuinfo".to_owned(), cpuinfo));
        let machine = imported_tree("amd-kinds", &files).machine;
        let report = fmax(&FmaxInput::of_machine(&machine), None);
        report.warnings.into_iter().filter(|warning| warning.contains("6.13")).collect::<Vec<_>>()
    };
    // 196 * 1024 / 81 = 2477, its midpoint with 1024 is 1750, of 2000 MHz.
    assert!(warned("3300000")[0].ends_with("so that f_max is 3417 MHz"), "{:?}", warned("3300000"));
    assert!(warned("5157000").is_empty());
}

/// Goal: what a machine does not hold of its kernel's command line is named, and what nobody asked for is not.
#[test]
fn isolated_cpus_are_named() {
    let mut files = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), "1000000 500000");
    files.push(("sys/devices/system/cpu/isolated".to_owned(), "2-3\n".to_owned()));
    files.push(("sys/devices/system/cpu/nohz_full".to_owned(), "  (null)\n".to_owned()));
    let imported = imported_tree("isolated", &files);
    let named: Vec<&String> = imported.notes.iter().filter(|note| note.contains("command line")).collect();
    assert_eq!(named, ["CPUs 2-3 have isolcpus= on the kernel's command line: a run has it by its policy, isolcpus"]);
    assert_eq!(imported.machine.nr_cpus(), 4);
}

/// Goal: /proc/cpuinfo of POWER names the server under `model`, which is no number of a processor. It has no frequency scale.
#[test]
fn a_server_that_names_itself_is_no_x86() {
    let mut files = two_policies(|cpu| format!("sys/devices/system/cpu/cpufreq/policy{cpu}"), "1000000 500000");
    let blocks: String =
        (0..4).map(|cpu| format!("processor\t: {cpu}\ncpu\t\t: POWER9, altivec supported\n\n")).collect();
    files.push(("proc/cpuinfo".to_owned(), format!("{blocks}timebase\t: 512000000\nmodel\t\t: 9006-22P\n")));
    let machine = imported_tree("power", &files).machine;
    assert_eq!((machine.nr_cpus(), &machine.processor, machine.invariance), (4, &None, InvarianceSource::Absent));
    let report = fmax(&FmaxInput::of_machine(&machine), None);
    assert!(report.kernels.iter().all(|kernel| kernel.ratio.is_none()), "{:?}", report.kernels);
    // Without invariance schedutil leaves a quarter above the current clock (cpufreq_schedutil.c:get_capacity_ref_freq(), v6.12).
    assert_eq!(report.tipping[0].khz, 500_000);
    assert!(check::check(None, &machine, &report).iter().any(|finding| finding.check == "invariance"));
}

/// Goal: a kernel of x86 follows the clock by counters or not at all; a snapshot without /proc/cpuinfo followed each change of it.
#[test]
fn a_snapshot_of_x86_without_flags_has_counters_by_assumption() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let [table, driver] = ["scaling_available_frequencies", "scaling_driver"].map(|name| format!("{policy}/{name}"));
    for (name, invariance) in
        [("acpi-cpufreq", InvarianceSource::CountersAtTick), ("scmi", InvarianceSource::FreqChange)]
    {
        let files = [ONE_POLICY[0], ONE_POLICY[1], (&table, "2000000 1000000 "), (&driver, name)];
        let made = try_tree("flagless", &files).expect("it is a machine");
        assert_eq!(made.machine.invariance, invariance);
        let assumed =
            made.machine.sources.iter().any(|(key, words)| key.ends_with("invariance") && words.contains("assumed"));
        assert_eq!(assumed, invariance == InvarianceSource::CountersAtTick, "{name}");
    }
}

/// Goal: each kernel's names and units of one energy model, with the costs that each forms, are the same watts.
#[test]
fn energy_models_of_all_kernels_are_the_same_watts() {
    let domains = [("0-1", 400, [(500_000, 25), (1_800_000, 210)]), ("2-3", 1024, [(700_000, 90), (2_500_000, 1500)])];
    for version in [(5, 4), (5, 8), (5, 10), (5, 12), (5, 17), (6, 1), (6, 12)] {
        let mut lines = Vec::new();
        for (cpus, capacity, points) in domains {
            let device = if version < (5, 9) { "pd" } else { "cpu" };
            let folder = format!("{device}{}", &cpus[..1]);
            lines.push(format!("{folder}/cpus:{cpus}"));
            if version >= (5, 16) {
                lines.push(format!("{folder}/flags:0x1"));
            }
            let most_khz = points[1].0;
            for (khz, mw) in points {
                let state = format!("{folder}/{}:{khz}", if version < (5, 8) { "cs" } else { "ps" });
                let power: u64 = if version < (6, 0) { mw } else { mw * 1000 };
                let performance = capacity * khz / most_khz;
                let cost = match version {
                    (6, 12) => power * 10 / performance,
                    (5, 17) => most_khz * power * 1000 / khz,
                    _ => most_khz * power / khz,
                };
                lines.extend([
                    format!("{state}/frequency:{khz}"),
                    format!("{state}/power:{power}"),
                    format!("{state}/cost:{cost}"),
                ]);
            }
        }
        for prefix in ["", "./", "/sys/kernel/debug/energy_model/"] {
            let text: String = lines.iter().map(|line| format!("{prefix}{line}\n")).collect();
            let facts = import_bytes("em.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{version:?}: {error}"));
            let machine = to_machine(&facts).unwrap_or_else(|error| panic!("{version:?}: {error}")).machine;
            let of = |cluster: usize| machine.clusters[cluster].opps.iter().map(|opp| (opp.khz, opp.power_uw));
            let found: Vec<(u32, u64)> = of(0).chain(of(1)).collect();
            let watts = [(500_000, 25_000), (1_800_000, 210_000), (700_000, 90_000), (2_500_000, 1_500_000)];
            assert_eq!(found, watts, "{version:?} {prefix}");
        }
    }
    // Without real watts the energy is marked.
    let text = "energy_model/cpu0/cpus:0\nenergy_model/cpu0/flags:0x0\nenergy_model/cpu0/ps:1000/frequency:1000\n\
                energy_model/cpu0/ps:1000/power:7\n";
    let facts = import_bytes("em.txt", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert!(facts.notes.iter().any(|note| note.contains("abstract scale")), "{:?}", facts.notes);
}

#[test]
fn wrong_texts_are_refused_with_their_place() {
    let check = |text: &str, expected: &str| {
        let message = error("x.txt", text.as_bytes());
        assert_eq!(message, format!("failed to import x.txt{expected}"));
    };
    check(
        "hello",
        ": not a kind of source that is known (machine dump .tar.xz, sysfs snapshot, turbostat log, device tree .dtb or .dts, energy_model of `grep -r`, plat_info.yml, Wattson table)",
    );
    check(
        "/sys/devices/system/cpu/online: 0-1|\n/sys/devices/system/cpu/cpu0/cpu_capacity: ten|\n",
        ":2: /sys/devices/system/cpu/cpu0/cpu_capacity: `ten` is not a whole number",
    );
    check(
        "/sys/devices/system/cpu/online: 0-|\n",
        ":1: /sys/devices/system/cpu/online: `0-` is not a CPU list: write it like `0,3-5`",
    );
    check(
        "/sys/devices/system/cpu/online: 0-1|\n/sys/dev",
        ":2: `/sys/dev` is not `path: value|`: is the file cut off?",
    );
    let policy = "/sys/devices/system/cpu/cpufreq/policy";
    check(
        &format!("/sys/devices/system/cpu/online: 0-1|\n{policy}0/related_cpus: 0 1|\n{policy}1/related_cpus: 1|\n"),
        &format!(":3: {policy}1/related_cpus: CPU 1 is in policy0 too"),
    );
    check("device,policy,freq_khz,static,active,idle0,idle1\nT,0,1000,1,x,0,0\n", ":2: active: `x` is not a number");
    check("device,policy,freq_khz,static,active\nT,0,1000,1,1\n", ":1: there is no column `idle0`");
    check("platform-info:\n  conf:\n    cpus-count: many\n", ":3: `many` is not a number");
    check("CPU\tCore\tAvg_MHz\n0\tzero\t5\n", ":2: Core: `zero` is not a number");
    check("CPU\tCore\tAvg_MHz\n0\t0\t5\t5\n", ":2: 4 columns, but the head has 3");
}

/// A dump of two CPUs, as bytes of a tar.
fn dump(sys: &str, msr: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in [("m/sys/inlinefiles.txt", sys), ("m/msr/msr.txt", msr)] {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text.as_bytes()).expect("a tar in memory");
    }
    builder.into_inner().expect("a tar in memory")
}

#[test]
fn broken_dumps_are_refused_with_their_place() {
    let sys =
        "ro|/sys/devices/system/cpu/online|0-1\nrw|/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq|2000000\n";
    let msr = "# comment\nce:0|80838f1011a00 1|80838f1011a00\n";
    let good = import_bytes("x.tar", &dump(sys, msr)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((good.name.as_str(), good.msr(0xce)), ("m", Some(0x80838f1011a00)));
    let check = |sys: &str, msr: &str, expected: &str| {
        assert_eq!(error("x.tar", &dump(sys, msr)), format!("failed to import x.tar!m/{expected}"));
    };
    check(sys, "ce:0|1\n", "msr/msr.txt:1: register 0xce is missing for CPU 1, which is online (1 CPUs have it)");
    check(sys, "ce:0|1 1|1\n1ad:0|1 1\n", "msr/msr.txt:2: register 0x1ad: `1` is not `CPU|value`");
    check(sys, "ce:0|1 1|1\nce:0|2 1|1\n", "msr/msr.txt:2: register 0xce has two values for CPU 0");
    check(
        "ro|/sys/devices/system/cpu/online|0-1\nrw|/sys/dev",
        "",
        "sys/inlinefiles.txt:2: `rw|/sys/dev` is not `ro|path|value`: is the file cut off?",
    );
    check("ro|/sys/a|1\nro|/sys/b|1\nro|/sys/a|2\n", "", "sys/inlinefiles.txt:3: /sys/a is `2`, but `1` in line 1");
    check(
        "ro|/sys/devices/system/cpu/online|0-1\nro|/sys/devices/system/cpu/present|0\n",
        "",
        "sys/inlinefiles.txt:1: /sys/devices/system/cpu/online: CPU 1 is online but not present",
    );
    // Counters may be given twice with different values: they move while the dump is taken.
    let twice = format!(
        "{sys}rw|/sys/devices/system/cpu/cpu0/cpuidle/state0/usage|1\n{sys}rw|/sys/devices/system/cpu/cpu0/cpuidle/state0/usage|2\n"
    );
    assert_eq!(import_bytes("x.tar", &dump(&twice, msr)).map(|facts| facts.cpus.len()), Ok(2));
    // Cut off anywhere: an error or, after the last member, the same machine.
    let whole = dump(sys, msr);
    for length in 0..whole.len() {
        match import_bytes("x.tar", &whole[..length]) {
            Ok(facts) => assert_eq!(facts.cpus.len(), 2),
            Err(error) => assert!(error.to_string().starts_with("failed to import x.tar"), "{error}"),
        }
    }
}

#[test]
fn a_shortened_archive_is_refused() {
    let Some(path) = shared("data/pepc/adl0.tar.xz") else { return };
    let bytes = std::fs::read(path).expect("it can be read");
    let message = error("adl0.tar.xz", &bytes[..bytes.len() / 2]);
    assert!(message.contains("cut off"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Goal: no bytes make a reader panic, whatever they pretend to be.
    #[test]
    fn mangled_sources_do_not_panic(
        which in 0..7usize, cut in 0..4000usize, at in proptest::collection::vec((0..4000usize, any::<u8>()), 0..6),
    ) {
        let texts: [&[u8]; 6] = [
            b"/sys/devices/system/cpu/online: 0-3|\n/sys/devices/system/cpu/cpu0/acpi_cppc/highest_perf: 255|\n/sys/devices/system/cpu/cpu0/acpi_cppc/nominal_perf: 168|\n/sys/devices/system/cpu/cpufreq/policy0/related_cpus: 0 1|\n/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq: 3000000|\n",
            b"device,policy,freq_khz,static,active,idle0,idle1\nT,0,1000,1,1.5,0.1,0\nT,4,1000,1,1.5,0.1,0\n",
            b"platform-info:\n  conf:\n    cpus-count: 2\n    freq-domains: [[0], [1]]\n    freqs: {0: [100, 200], 1: [300]}\n",
            b"CPUID(0): GenuineIntel\n34 * 100.0 = 3400.0 MHz base frequency\ncpu0: MSR_PLATFORM_INFO: 0x80839ff012200\nPackage\tCore\tCPU\tAvg_MHz\n-\t-\t-\t5\n0\t0\t0\t5\n0\t1\t1\t5\n",
            &dump("ro|/sys/devices/system/cpu/online|0-1\nrw|/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq|2000000\n", "ce:0|8 1|8\n1ad:0|2626262626282f2f 1|2626262626282f2f\n610:0|80068570005a8488 1|1\n606:0|a0e03 1|1\n"),
            &blob(),
        ];
        let mut bytes = texts[which % 6].to_vec();
        for (at, byte) in at {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if which == 6 {
            bytes.truncate(cut);
        }
        if let Ok(facts) = import_bytes("fuzz", &bytes)
            && let Ok(imported) = to_machine(&facts)
        {
            let input = opplab_import::fmax::FmaxInput::of_facts(&facts, &imported);
            let report = opplab_import::fmax::fmax(&input, None);
            opplab_import::check::check(Some(&facts), &imported.machine, &report);
        }
    }
}
