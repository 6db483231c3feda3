//! `opplab fmax` and the engine have one f_max: of every machine, under every kernel and driver.

use std::path::{Path, PathBuf};

use opplab_import::fmax::{FmaxInput, fmax};
use opplab_import::{import, to_machine};
use opplab_kernel::freq_invariance::FreqMax;
use opplab_kernel::profile::PROFILES;
use opplab_model::file::parse_machine;
use opplab_model::machine::{InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_model::testing::Swarm;
use opplab_sim::Case;

fn built_in() -> Vec<Machine> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/opplab/data/machines");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").flatten().map(|of| of.path()).collect();
    paths.sort();
    let parse = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a file");
        parse_machine(&path.display().to_string(), &text).unwrap_or_else(|error| panic!("{error}"))
    };
    paths.iter().filter(|path| path.extension().is_some_and(|of| of == "toml")).map(parse).collect()
}

fn case(machine: &Machine, kernel: &str, driver: &str, freq_max: &str) -> Case {
    let policy =
        Policy { kernel: kernel.into(), driver: driver.into(), freq_max: freq_max.into(), ..Policy::default() };
    Case { machine: machine.clone(), policy, ..Case::from(Swarm::default().case(1)) }
}

/// The engine's ratio of the boot CPU, to the clock of MPERF; `None` without invariance.
fn of_engine(machine: &Machine, kernel: &str, driver: &str, freq_max: &str) -> Option<u64> {
    let ratios = opplab_sim::freq_max_ratios(&case(machine, kernel, driver, freq_max));
    let ratios = ratios.unwrap_or_else(|error| panic!("{} {kernel} {driver}: {error:?}", machine.name))?;
    Some(ratios[machine.cpus[0].cluster as usize])
}

/// A ratio to the clock of MPERF as the engine has it, to the clock without turbo.
fn to_base(machine: &Machine, ratio: u64) -> u64 {
    match machine.tsc_khz {
        0 => ratio,
        tsc_khz => ratio * u64::from(tsc_khz) / u64::from(machine.cluster_of(0).reference_khz()),
    }
}

fn check(machine: &Machine, input_of: impl Fn(&str) -> FmaxInput) -> usize {
    let mut checked = 0;
    for driver in std::iter::once(&machine.cpufreq).chain(&machine.other_drivers) {
        let name = driver.driver.name;
        let report = fmax(&input_of(name), None);
        for (kernel, ..) in PROFILES.iter().filter(|(.., point)| *point == 0) {
            let told = report.kernels.iter().find(|choice| choice.kernel == *kernel).expect("a row for each kernel");
            let runs = of_engine(machine, kernel, name, "");
            let told_ratio = told.ratio.map(|ratio| to_base(machine, ratio));
            assert_eq!(told_ratio, runs, "{} {kernel} {name}: {}", machine.name, told.why);
            checked += 1;
        }
    }
    checked
}

#[test]
fn fmax_and_the_engine_agree_on_built_in_machines() {
    let mut checked = 0;
    for machine in built_in().iter().filter(|machine| machine.invariance != InvarianceSource::FreqChange) {
        let by_name = |name: &str| {
            let driver = machine.driver(name).expect("one of its drivers");
            FmaxInput::under(machine, driver.driver, false)
        };
        checked += check(machine, by_name);
        // What a policy can name is what the report calls so.
        for candidate in &fmax(&FmaxInput::of_machine(machine), None).candidates {
            if FreqMax::from_name(&candidate.name).is_none() {
                continue;
            }
            let runs = of_engine(machine, "6.12", "", &candidate.name);
            assert_eq!(Some(to_base(machine, candidate.ratio)), runs, "{} {}", machine.name, candidate.name);
        }
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn fmax_of_a_dump_is_what_runs_on_its_import() {
    let Some(folder) = opplab_testdata::shared("data/pepc") else { return };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").flatten().map(|of| of.path()).collect();
    paths.sort();
    for path in paths {
        let facts = import(&path).unwrap_or_else(|error| panic!("{error}"));
        let imported = to_machine(&facts).unwrap_or_else(|error| panic!("{error}"));
        let machine = &imported.machine;
        // What the user had switched off when the dump was made is a policy's business.
        let of_dump = || FmaxInput { no_turbo: false, ..FmaxInput::of_facts(&facts, &imported) };
        check(machine, |name| FmaxInput { driver: name.to_owned(), ..of_dump() });
    }
}

/// The ratios by hand, of the registers and of CPPC.
#[test]
fn ratios_by_hand() {
    let machines = built_in();
    let of = |machine: &str, kernel: &str, driver: &str| {
        let machine = machines.iter().find(|known| known.name == machine).expect("a built-in machine");
        of_engine(machine, kernel, driver, "")
    };
    // Highest performance 255 of nominal 168: (1554 + 1024) / 2. By the list of models it is 166: acpi-cpufreq finds no
    // boost and sets the base frequency, amd-pstate leaves (1011 + 1024) / 2.
    for (kernel, acpi, amd) in [("5.12", 1289, 1289), ("5.13", 1024, 1017), ("6.11", 1024, 1017), ("6.12", 1289, 1289)]
    {
        assert_eq!(of("epyc-7742-2s", kernel, "acpi-cpufreq"), Some(acpi), "{kernel}");
        assert_eq!(of("epyc-7742-2s", kernel, "amd-pstate"), Some(amd), "{kernel}");
    }
    // 255 of 190: (1374 + 1024) / 2, though the machine has no turbo bins.
    assert_eq!((of("epyc-7502-2s", "6.12", ""), of("epyc-7502-2s", "6.1", "")), (Some(1199), Some(1024)));
    // Byte 3 of MSR 0x1ad is 33, the ratio without turbo 22.
    assert_eq!(of("sapphire-rapids-8460h-4s", "6.12", "intel_cpufreq"), Some(1536));
}
