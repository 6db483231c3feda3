//! Every kind of source beside dumps, on shared data or on small inputs made here; and that wrong input is an error
//! with its place, never a panic.

use std::path::Path;

use opplab_import::{Facts, SourceKind, import, import_bytes, to_machine};
use opplab_model::machine::{InvarianceSource, Machine, PolicyShare};
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

/// The machine of a tree of these files.
fn of_tree(name: &str, files: &[(&str, &str)]) -> Result<Machine, String> {
    let folder = std::env::temp_dir().join(format!("opplab-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }
    let made = import(&folder)
        .map_err(|error| error.to_string())
        .and_then(|facts| to_machine(&facts).map_err(|error| error.to_string()));
    std::fs::remove_dir_all(&folder).expect("it can be removed");
    made.map(|imported| imported.machine)
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
    for (key, value) in
        [("phandle", 20u32), ("entry-latency-us", 300), ("exit-latency-us", 1200), ("min-residency-us", 2000)]
    {
        prop(&mut structs, key, &value.to_be_bytes());
    }
    word(&mut structs, 2);
    word(&mut structs, 2);
    word(&mut structs, 2);
    for (name, handle, opps) in [
        ("opp-table-0", 10u32, [(450_000_000u64, 820_000u32), (950_000_000, 1_000_000)]),
        ("opp-table-1", 11, [(600_000_000, 820_000), (1_200_000_000, 1_000_000)]),
    ] {
        begin(&mut structs, name);
        prop(&mut structs, "phandle", &handle.to_be_bytes());
        prop(&mut structs, "opp-shared", &[]);
        for (hz, uv) in opps {
            begin(&mut structs, "opp");
            prop(&mut structs, "opp-hz", &hz.to_be_bytes());
            prop(&mut structs, "opp-microvolt", &uv.to_be_bytes());
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
    assert_eq!(machine.clusters[0].idle[1].entry_latency_ns, 300_000);
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
