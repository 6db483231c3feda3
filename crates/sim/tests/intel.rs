//! intel_pstate with and without hardware P-states, and text 001's chain: short fsyncs, low clocks, boosts, the GPU.

use crate::common::Clocks;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_model::event::NullSink;
use opplab_model::file::parse_machine;
use opplab_model::governor::governor_setup;
use opplab_model::machine::{Consumer, Cpufreq, Machine, PackagePower, PmProfile, Processor};
use opplab_model::policy::Policy;
use opplab_model::policy_keys::PolicyChange;
use opplab_model::policy_values::{HwpDynamicBoost, SetLimit};
use opplab_model::workload::{DeviceSpec, Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, assumed_preferences, run};

const MS: u64 = 1_000_000;

/// The Skylake-SP of the catalogue, a server.
fn skylake_sp() -> Machine {
    let text = include_str!("../../../python/opplab/data/machines/skylake-sp-2s.toml");
    let machine = parse_machine("skylake-sp-2s.toml", text).unwrap_or_else(|error| panic!("{error}"));
    Machine { pm_profile: PmProfile::EnterpriseServer, ..machine }
}

fn policy(kernel: &str, driver: &str, governor: &str) -> Policy {
    Policy { kernel: kernel.into(), driver: driver.into(), governor: governor.into(), ..Policy::default() }
}

fn checked(machine: &Machine, workload: &Workload, policy: Policy, duration_ns: u64) -> Outcome {
    let case = Case { workload: workload.clone(), machine: machine.clone(), policy, seed: 1, duration_ns };
    let mut check = Check::new(case.machine.nr_cpus());
    let outcome = run(&case, &mut check).unwrap_or_else(|error| panic!("{error:?}"));
    check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    outcome
}

/// A task on `cpu` with work for `permille` of each 10 ms at the base frequency.
fn load(machine: &Machine, cpu: u32, permille: u64) -> Workload {
    load_of(machine, cpu, permille, 10 * MS)
}

fn load_of(machine: &Machine, cpu: u32, permille: u64, period_ns: u64) -> Workload {
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: period_ns * permille / 1000, fixed: 0 },
        Op::Timer { timer: 0, period_ns, absolute: false, own: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let (cpus, spawn_cpu) = (Some(cpu), Some(cpu));
    let name = String::from("load");
    let task =
        TaskSpec { name, initial: true, cpus, spawn_cpu, ops, loop_slots: 1, nr_own_timers: 1, ..TaskSpec::default() };
    let cpu_sets = (0..machine.nr_cpus() as u32).map(|cpu| vec![cpu]).collect();
    Workload { name: String::from("load"), cpu_sets, tasks: vec![task], ..Workload::default() }
}

/// A transaction is a little work, an fsync that waits for the disk, and a hand-over to a journal thread and back.
fn fsyncs() -> Workload {
    let task = |name: &str, ops: Vec<Op>| TaskSpec {
        name: name.into(),
        initial: true,
        ops: [vec![Op::LoopBegin { slot: 0, count: None }], ops, vec![Op::LoopEnd { slot: 0, begin: 0 }]].concat(),
        loop_slots: 1,
        ..TaskSpec::default()
    };
    let run = |us: u64| Op::Run { work_ns: us * 1000, fixed: 0 };
    let fsync = Op::Io { device: 0, bytes: 4096 };
    let client = vec![run(100), fsync, run(100), Op::SemPost { sem: 0 }, Op::SemWait { sem: 1 }, Op::Count];
    let journal = vec![Op::SemWait { sem: 0 }, run(30), fsync, Op::SemPost { sem: 1 }];
    Workload {
        name: String::from("fsyncs"),
        semaphores: vec![0, 0],
        devices: vec![DeviceSpec { service_ns: 80_000, queue_depth: 1, irq_cpu: Some(3), ..DeviceSpec::default() }],
        tasks: vec![task("client", client), task("journal", journal)],
        ..Workload::default()
    }
}

/// Mean clock of busy CPUs in MHz.
fn bzy_mhz(machine: &Machine, outcome: &Outcome) -> u64 {
    let (mut cycles, mut busy) = (0, 0);
    for cpu in 0..machine.nr_cpus() {
        let points = &outcome.points[machine.cpus[cpu].cluster as usize];
        for (&ns, point) in outcome.busy_ns_by_opp[cpu].iter().zip(points) {
            cycles += u128::from(ns) * u128::from(point.khz);
            busy += u128::from(ns);
        }
    }
    (cycles / busy.max(1) / 1000) as u64
}

/// Text 001: without boost HWP does not notice the work of a task that sleeps all the time; the boost does, and so do
/// the boost of tasks placed on idle CPUs, schedutil, and performance.
#[test]
fn boosts_double_the_clock_of_short_fsyncs() {
    let machine = skylake_sp();
    let measure = |policy: Policy| {
        let outcome = checked(&machine, &fsyncs(), policy, 500 * MS);
        (outcome.counts, bzy_mhz(&machine, &outcome))
    };
    let (vanilla, vanilla_mhz) = measure(policy("4.17", "intel_pstate", "powersave"));
    let (boost, boost_mhz) = measure(policy("5.0", "intel_pstate", "powersave"));
    let idle_boost = Policy { idle_boost: true, ..policy("4.17", "intel_pstate", "powersave") };
    let (placed, placed_mhz) = measure(idle_boost);
    let (performance, performance_mhz) = measure(policy("4.17", "intel_pstate", "performance"));
    assert!(vanilla_mhz < 1_800, "{vanilla_mhz}");
    assert!(boost_mhz > 2 * vanilla_mhz && placed_mhz > 2 * vanilla_mhz, "{boost_mhz} {placed_mhz}");
    assert!(performance_mhz >= boost_mhz, "{performance_mhz} {boost_mhz}");
    // What is left is the disk and waking up from deep idle, in all of them.
    assert!(boost * 10 > vanilla * 13 && placed * 10 > vanilla * 13, "{boost} {placed} {vanilla}");
    assert!(performance * 100 > boost * 98, "{performance} {boost}");
}

/// The kernel's default by version, by the firmware's profile and by the model, and the switch that overrides it.
#[test]
fn the_boost_is_on_by_default_on_servers_only() {
    let of_model = |model: Option<u32>, kernel: &str, pm_profile: PmProfile, hwp_dynamic_boost: HwpDynamicBoost| {
        let vendor = String::from("GenuineIntel");
        let processor = model.map(|model| Processor { vendor, family: 6, model, ..Processor::default() });
        let machine = Machine { pm_profile, processor, ..skylake_sp() };
        let policy = Policy { hwp_dynamic_boost, ..policy(kernel, "intel_pstate", "powersave") };
        checked(&machine, &fsyncs(), policy, 100 * MS).counts
    };
    let counts = |kernel, pm_profile, boost| of_model(Some(0x55), kernel, pm_profile, boost);
    let (server, desktop) = (PmProfile::PerformanceServer, PmProfile::Desktop);
    let (auto, on, off) = (HwpDynamicBoost::Auto, HwpDynamicBoost::On, HwpDynamicBoost::Off);
    assert_eq!(counts("6.12.117", server, auto), counts("6.12.117", desktop, on));
    assert_eq!(counts("6.12.117", desktop, auto), counts("6.12.117", server, off));
    assert!(counts("6.12.117", server, on) > counts("6.12.117", server, off));
    assert_eq!(counts("4.17", server, auto), counts("4.17", server, off));
    // Before 6.4 by the model, too: of Skylake-SP and Skylake; not of Ice Lake-SP, nor of one that is not known.
    for (model, boosted) in [(Some(0x55), on), (Some(0x5e), on), (Some(0x6a), off), (None, off)] {
        assert_eq!(of_model(model, "6.3", server, auto), of_model(model, "6.3", server, boosted), "{model:?}");
    }
    assert_eq!(of_model(Some(0x6a), "6.4", server, auto), of_model(Some(0x6a), "6.4", server, on));
    // A kernel without the boost has no file to write to.
    assert_eq!(counts("4.17", server, on), counts("4.17", server, off));
}

/// Text 001's objection: what the boost costs a GPU on the same budget, and that a desktop's default does not.
#[test]
fn the_gpu_pays_for_the_boost() {
    let measure = |pm_profile: PmProfile, kernel: &str| {
        let mut machine = skylake_sp();
        machine.pm_profile = pm_profile;
        let gpu = String::from("gpu");
        machine.consumers =
            vec![Consumer { name: gpu, package: 0, demand_uw: 40_000_000, least_uw: 0, frame_uj: 10_000 }];
        let (pl1_uw, pl2_uw) = (65_000_000, 0);
        machine.package_power = Some(PackagePower { pl1_uw, pl2_uw, ..PackagePower::default() });
        // The kernels differ in how long an idle CPU polls, too.
        let gates = vec![("poll_limit".into(), "bounded".into())];
        let policy = Policy { gates, ..policy(kernel, "intel_pstate", "powersave") };
        let outcome = checked(&machine, &fsyncs(), policy, 500 * MS);
        (outcome.counts, whole_frames(&outcome.consumers[0]))
    };
    let (before, frames_before) = measure(PmProfile::Desktop, "4.17");
    let (server, frames_server) = measure(PmProfile::EnterpriseServer, "5.0");
    assert!(server > before && frames_server * 100 < frames_before * 97, "{frames_server} {frames_before}");
    assert_eq!(measure(PmProfile::Desktop, "5.0"), (before, frames_before));
}

/// A busy CPU climbs to the turbo limit under all of the driver's algorithms, and not at once.
#[test]
fn busy_cpus_climb() {
    let machine = skylake_sp();
    let spin = load(&machine, 5, 2000);
    let mhz = |policy: Policy, ms: u64| bzy_mhz(&machine, &checked(&machine, &spin, policy, ms * MS));
    for (driver, no_hwp) in [("intel_pstate", false), ("intel_pstate", true), ("intel_cpufreq", false)] {
        let governor = if driver == "intel_pstate" { "powersave" } else { "schedutil" };
        let policy = Policy { no_hwp, ..policy("6.12.117", driver, governor) };
        let (early, late) = (mhz(policy.clone(), 10), mhz(policy, 1000));
        assert!(early < 3_000 && late > 3_400, "{driver} {no_hwp}: {early} {late}");
    }
}

/// What a CPU that is busy half of the time needs depends on the preference, where it idles in C1E; time in C6 is left out.
#[test]
fn the_preference_counts() {
    let machine = skylake_sp();
    let half = load_of(&machine, 5, 500, 100_000);
    let mhz = |epp: &str| {
        let policy = Policy { epp: epp.into(), ..policy("6.12.117", "intel_pstate", "powersave") };
        bzy_mhz(&machine, &checked(&machine, &half, policy, 300 * MS))
    };
    let clocks = ["performance", "balance_performance", "192", "power"].map(mhz);
    assert!(clocks.windows(2).all(|pair| pair[0] > pair[1] + 100), "{clocks:?}");
    assert_eq!(mhz(""), clocks[1]);
    let deep = load_of(&machine, 5, 500, 50 * MS);
    let policy = Policy { epp: "balance_performance".into(), ..policy("6.12.117", "intel_pstate", "powersave") };
    assert!(bzy_mhz(&machine, &checked(&machine, &deep, policy, 1000 * MS)) > clocks[1] * 3 / 2);
}

/// The names of preferences are the numbers that the kernel has for the processor's model, but where firmware chose one.
#[test]
fn names_of_preferences_follow_the_model() {
    let mut machine = skylake_sp();
    let model = |model| Some(Processor { vendor: "GenuineIntel".into(), family: 6, model, ..Processor::default() });
    let half = load_of(&machine, 5, 500, 100_000);
    let energies = |machine: &Machine, kernel: &str, epps: &[&str]| {
        let of = |epp: &&str| {
            let policy = Policy { epp: (*epp).into(), ..policy(kernel, "intel_pstate", "powersave") };
            checked(machine, &half, policy, 100 * MS).busy_ns_by_opp
        };
        epps.iter().map(of).collect::<Vec<_>>()
    };
    machine.processor = model(0xaa);
    let names = ["", "balance_performance", "performance", "balance_power"];
    assert_eq!(energies(&machine, "6.12", &names), energies(&machine, "6.12", &["64", "64", "16", "179"]));
    assert_eq!(energies(&machine, "6.8", &names), energies(&machine, "6.8", &["128", "128", "0", "192"]));
    machine.clusters.iter_mut().for_each(|cluster| cluster.hwp.as_mut().expect("HWP").balance_performance = 96);
    assert_eq!(energies(&machine, "6.8", &names[..2]), energies(&machine, "6.8", &["96", "96"]));
    let assumed = |epp: &str, governor| {
        let policy = Policy { epp: epp.into(), ..policy("6.12", "intel_pstate", governor) };
        let (machine, workload) = (machine.clone(), half.clone());
        assumed_preferences(&Case { machine, workload, policy, seed: 1, duration_ns: MS })
    };
    assert_eq!(assumed("balance_performance", "powersave"), Ok(vec![96]));
    assert_eq!([assumed("128", "powersave"), assumed("", "performance")], [Ok(vec![]), Ok(vec![])]);
}

/// Without HWP the P-state is 1.25 times the busy fraction of the turbo limit.
#[test]
fn no_hwp_follows_the_busy_fraction() {
    let machine = skylake_sp();
    let policy = Policy { no_hwp: true, ..policy("6.12.117", "intel_pstate", "powersave") };
    let outcome = checked(&machine, &load(&machine, 5, 300), policy, 1000 * MS);
    let mhz = bzy_mhz(&machine, &outcome);
    // 0.3 of 2.4 GHz is 0.72 GHz of work: f = 1.25 * 3.9 * 0.72 / f has its fixed point at 1.87 GHz.
    assert!((1_500..2_300).contains(&mhz), "{mhz}");
}

#[test]
fn no_turbo_ends_at_the_base_clock() {
    let machine = skylake_sp();
    for (driver, governor) in
        [("intel_pstate", "powersave"), ("intel_pstate", "performance"), ("intel_cpufreq", "schedutil")]
    {
        for no_hwp in [false, true] {
            let policy = Policy { no_turbo: true, no_hwp, ..policy("6.12.117", driver, governor) };
            let outcome = checked(&machine, &load(&machine, 5, 2000), policy, 200 * MS);
            let highest = outcome.busy_ns_by_opp[5].iter().zip(&outcome.points[0]).rfind(|&(&ns, _)| ns > 0);
            assert_eq!(highest.map(|(_, point)| point.khz), Some(2_400_000), "{driver} {governor} {no_hwp}");
        }
    }
}

/// Before v6.17 (and its backports) a generic governor's frequency is the least that passive mode asks of HWP: the
/// firmware goes above it. schedutil gives levels since v5.11.
#[test]
fn passive_mode_before_desired_levels_is_a_floor() {
    let machine = skylake_sp();
    let half = load(&machine, 5, 650);
    let mhz = |kernel: &str, governor: &str| {
        bzy_mhz(&machine, &checked(&machine, &half, policy(kernel, "intel_cpufreq", governor), 500 * MS))
    };
    assert!(mhz("5.10", "schedutil") > mhz("5.15", "schedutil") + 50);
    assert!(mhz("6.8", "ondemand") > mhz("6.12.117", "ondemand") + 50);
    // Both versions run the load beside the kworker that takes the samples, each in its own order.
    assert!(mhz("6.18", "ondemand").abs_diff(mhz("6.12.117", "ondemand")) < 25);
    // One frequency is kept, but not by v5.9.
    assert_eq!(mhz("5.10", "powersave"), mhz("6.12.117", "powersave"));
    assert!(mhz("5.9", "powersave") > mhz("5.10", "powersave") + 100);
}

/// Generic governors run in passive mode, the driver's own in active mode; what does not fit is refused.
#[test]
fn modes_follow_the_governor() {
    let machine = skylake_sp();
    let workload = load(&machine, 5, 300);
    let outcome = |driver: &str| checked(&machine, &workload, policy("6.12.117", driver, "schedutil"), 100 * MS);
    assert_eq!(outcome(""), outcome("intel_cpufreq"));
    let error = |policy: Policy| {
        let (workload, machine) = (workload.clone(), machine.clone());
        let case = Case { workload, machine, policy, seed: 1, duration_ns: MS };
        run(&case, &mut NullSink).err().map(|error| error.0).unwrap_or_default()
    };
    let refused = error(policy("6.12.117", "intel_pstate", "schedutil"));
    assert!(refused.contains("schedutil needs driver intel_cpufreq"), "{refused}");
    let refused = error(Policy { epp: "balanced".into(), ..policy("6.12.117", "", "powersave") });
    assert!(refused.contains("balance_power"), "{refused}");
}

/// Goal: ondemand's tunables reach its samples. Method: a task that mostly waits for a disk is busy all the time where I/O wait
/// counts, which is Intel's default; one that is niced does nothing where that is ignored.
#[test]
fn ondemand_counts_io_wait_and_nice_as_it_is_told() {
    let machine = skylake_sp();
    let ondemand = |name: &str, value: &str| {
        let tunables = if name.is_empty() { Vec::new() } else { vec![(name.to_owned(), value.to_owned())] };
        Policy { tunables, no_hwp: true, ..policy("6.12.117", "intel_cpufreq", "ondemand") }
    };
    let mean_mhz =
        |workload: &Workload, policy: Policy| bzy_mhz(&machine, &checked(&machine, workload, policy, 500 * MS));
    let io = Workload {
        tasks: vec![TaskSpec {
            initial: true,
            cpus: Some(0),
            ops: vec![
                Op::LoopBegin { slot: 0, count: None },
                Op::Run { work_ns: MS / 10, fixed: 0 },
                Op::Io { device: 0, bytes: 4096 },
                Op::LoopEnd { slot: 0, begin: 0 },
            ],
            loop_slots: 1,
            ..TaskSpec::default()
        }],
        cpu_sets: vec![vec![3]],
        ..fsyncs()
    };
    let [as_is, busy, idle] =
        [("", ""), ("io_is_busy", "1"), ("io_is_busy", "0")].map(|(name, value)| mean_mhz(&io, ondemand(name, value)));
    assert_eq!(as_is, busy);
    assert!(busy > idle + 500, "{busy} {idle}");
    let mut niced = load(&machine, 3, 800);
    niced.tasks[0].policy = opplab_model::workload::SchedPolicy::Other { nice: 5 };
    let [counts, ignored] = ["0", "1"].map(|value| mean_mhz(&niced, ondemand("ignore_nice_load", value)));
    assert!(counts > ignored + 500, "{counts} {ignored}");
}

/// Goal: without turbo Intel's utilisation is measured against the base frequency since v5.19, where the driver says so. Method: the
/// same run as with f_max = max_P.
#[test]
fn without_turbo_f_max_is_the_base_frequency() {
    let mut machine = skylake_sp();
    let driver = DriverId::named("acpi-cpufreq").expect("a driver");
    machine.other_drivers.push(Cpufreq { driver, ..machine.cpufreq.clone() });
    let mhz_under = |driver: &str, kernel: &str, freq_max: &str| {
        let policy = policy(kernel, driver, "schedutil");
        let policy = Policy { no_turbo: true, no_hwp: true, freq_max: freq_max.into(), ..policy };
        bzy_mhz(&machine, &checked(&machine, &load(&machine, 3, 500), policy, 500 * MS))
    };
    let mhz = |kernel: &str, freq_max: &str| mhz_under("intel_cpufreq", kernel, freq_max);
    for kernel in ["5.19", "6.12.117"] {
        assert_eq!(mhz(kernel, ""), mhz(kernel, "max_P"), "{kernel}");
    }
    for kernel in ["5.7", "5.8", "5.18"] {
        assert_eq!(mhz(kernel, ""), mhz(kernel, "turbo-4-cores"), "{kernel}");
    }
    // acpi-cpufreq does not have no_turbo. Without CPPC it finds no boost frequency, for which 5.11 sets the base frequency.
    let acpi = |kernel: &str, freq_max: &str| mhz_under("acpi-cpufreq", kernel, freq_max);
    assert_eq!(acpi("5.10", ""), acpi("5.10", "turbo-4-cores"));
    assert_eq!(acpi("6.12.117", ""), acpi("6.12.117", "max_P"));
    assert!(mhz("6.9", "") > mhz("6.9", "turbo-4-cores"));
}

/// Goal: without turbo schedutil goes by the clock that the driver of that kernel calls the highest. Method: half of the base frequency's
/// work, by hand: since v6.10 2400 * 1.25 / 2 MHz, with and without HWP, also where turbo is switched off in the run; from v5.19 to
/// v6.9 3900 * 1.25 / 2, which the limit cuts to 2400; before, of the work against the turbo of four cores.
#[test]
fn without_turbo_schedutil_goes_by_the_drivers_maximum() {
    let machine = skylake_sp();
    let half = load(&machine, 3, 500);
    let mhz = |kernel: &str, no_hwp: bool, at_ms: u32| {
        let before = Policy { no_hwp, ..policy(kernel, "intel_cpufreq", "schedutil") };
        let after = Policy { no_turbo: true, ..before.clone() };
        let policy = match at_ms {
            0 => after,
            _ => Policy { changes: vec![PolicyChange { at_ms, policy: after }], ..before },
        };
        bzy_mhz(&machine, &checked(&machine, &half, policy, 500 * MS))
    };
    for no_hwp in [true, false] {
        for at_ms in [0, 20] {
            let since = mhz("6.10", no_hwp, at_ms);
            assert!((1_450..1_800).contains(&since), "{since} {no_hwp} {at_ms}");
        }
        let before = mhz("6.9", no_hwp, 0);
        assert!((2_250..=2_400).contains(&before), "{before} {no_hwp}");
        let old = mhz("5.18", no_hwp, 0);
        assert!(old < before, "{old} {no_hwp}");
    }
    let setup = |kernel: &str, driver: &str, machine: &Machine, max_perf_pct: u32| {
        let policy = Policy { no_turbo: true, max_perf_pct, ..policy(kernel, driver, "schedutil") };
        let driver = machine.driver(driver).expect("a driver of it");
        let setup = governor_setup(machine, driver, &policy, 0, 1).unwrap_or_else(|error| panic!("{error}"));
        (setup.cpuinfo.max_khz, setup.limits.max_khz)
    };
    assert_eq!(setup("6.9", "intel_cpufreq", &machine, 100), (3_900_000, 2_400_000));
    assert_eq!(setup("6.10", "intel_cpufreq", &machine, 100), (2_400_000, 2_400_000));
    // Percentages are of the highest turbo in any kernel.
    assert_eq!(setup("6.10", "intel_cpufreq", &machine, 50), (2_400_000, 1_950_000));
    // amd-pstate ends at the nominal frequency, acpi-cpufreq's maximum stays.
    let epyc = include_str!("../../../python/opplab/data/machines/epyc-7742-2s.toml");
    let epyc = parse_machine("epyc-7742-2s.toml", epyc).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(setup("6.12", "amd-pstate", &epyc, 100).0, 2_250_000);
    assert_eq!(setup("6.12", "acpi-cpufreq", &epyc, 100).0, 3_414_550);
}

/// Whole units of a consumer's work that were done.
fn whole_frames(one: &opplab_sim::Consumed) -> u64 {
    (one.energy_fj / one.frame_fj) as u64
}

/// Goal: conservative's steps go on from the P-state that the driver makes of a new limit, not from the limit: from 1.55 GHz,
/// which is 1.5 GHz, each sample of a small load lowers the clock by one P-state.
#[test]
fn steps_go_on_from_the_p_state_below_a_limit() {
    let machine = skylake_sp();
    let before = Policy { no_hwp: true, ..policy("6.12", "intel_cpufreq", "conservative") };
    let after = Policy { scaling_max_freq: SetLimit { all_khz: 1_550_000, ..SetLimit::default() }, ..before.clone() };
    let changes = vec![PolicyChange { at_ms: 400, policy: after }];
    // Busy until shortly before the change, then a little each ms.
    let mut workload = load_of(&machine, 0, 50, MS);
    workload.tasks[0].ops.insert(0, Op::Runtime { wall_ns: 380 * MS });
    for op in &mut workload.tasks[0].ops {
        if let Op::LoopEnd { begin, .. } = op {
            *begin += 1;
        }
    }
    let case = Case { machine, workload, policy: Policy { changes, ..before }, seed: 1, duration_ns: 600 * MS };
    let mut clocks = Clocks::default();
    run(&case, &mut clocks).unwrap_or_else(|error| panic!("{error:?}"));
    let at = |wanted: u32| clocks.0.iter().find(|&&(time_ns, khz)| time_ns >= 400 * MS && khz == wanted).map(|at| at.0);
    let times: Vec<Option<u64>> = [1_500_000, 1_400_000, 1_300_000, 1_200_000].into_iter().map(at).collect();
    let [Some(limited), Some(first), Some(second), Some(third)] = times[..] else { panic!("{:?}", clocks.0) };
    assert!(limited < 401 * MS && third - second < 12 * MS, "{:?}", clocks.0);
    assert!(second - first < 12 * MS, "{:?}", clocks.0);
}
