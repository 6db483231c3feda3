//! What the hardware grants: turbo bins by active cores, boost beyond the table.

use std::sync::Arc;

use crate::common::Clocks;
use opplab_kernel::cpufreq::GOVERNORS;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_model::decision::{Decision, GrantLimit};
use opplab_model::event::{CpuIdx, Event, NullSink, QueueChange, Sink, TaskIdx};
use opplab_model::file::parse_machine;
use opplab_model::machine::{Cpufreq, Machine};
use opplab_model::policy::Policy;
use opplab_model::testing::Swarm;
use opplab_model::workload::{ChannelSpec, Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

const MS: u64 = 1_000_000;

macro_rules! machine {
    ($name:literal) => {
        read($name, include_str!(concat!("../../../python/opplab/data/machines/", $name, ".toml")))
    };
}

fn read(name: &str, text: &str) -> Machine {
    parse_machine(name, text).unwrap_or_else(|error| panic!("{error}"))
}

fn policy(driver: &str, governor: &str) -> Policy {
    Policy { kernel: "6.12.117".into(), driver: driver.into(), governor: governor.into(), ..Policy::default() }
}

/// A task that runs on `cpu` from `start_ns` on for as long as `ops` say.
fn task(cpu: u32, start_ns: u64, ops: Vec<Op>) -> TaskSpec {
    TaskSpec {
        name: format!("task-{cpu}"),
        initial: true,
        delay_ns: start_ns,
        spawn_cpu: Some(cpu),
        cpus: Some(cpu),
        loop_slots: 1,
        nr_own_timers: 1,
        ops,
        ..TaskSpec::default()
    }
}

fn spin() -> Vec<Op> {
    vec![Op::Runtime { wall_ns: 1 << 50 }, Op::Exit]
}

fn workload(machine: &Machine, tasks: Vec<TaskSpec>) -> Workload {
    let cpu_sets = (0..machine.nr_cpus() as u32).map(|cpu| vec![cpu]).collect();
    Workload { name: String::from("test"), cpu_sets, tasks, ..Workload::default() }
}

/// Runs under the invariant sink.
fn checked(machine: &Machine, tasks: Vec<TaskSpec>, policy: Policy, duration_ns: u64) -> Outcome {
    let case = Case { workload: workload(machine, tasks), machine: machine.clone(), policy, seed: 1, duration_ns };
    let mut check = Check::new(case.machine.nr_cpus());
    let outcome = run(&case, &mut check).unwrap_or_else(|error| panic!("{error:?}"));
    check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    outcome
}

/// The clock at which `cpu` was busy longest, in kHz.
fn busy_khz(machine: &Machine, outcome: &Outcome, cpu: u32) -> u32 {
    let points = &outcome.points[machine.cpus[cpu as usize].cluster as usize];
    let busy = outcome.busy_ns_by_opp[cpu as usize].iter().zip(points);
    busy.max_by_key(|&(&ns, _)| ns).map_or(0, |(_, point)| point.khz)
}

/// The bins of an E5-2670 v3: 3.1 GHz for two cores down to 2.6 GHz for all, a socket for itself.
#[test]
fn more_active_cores_mean_a_lower_bin() {
    let machine = machine!("haswell-48x-numa");
    let khz = |nr: u32, cpu: u32| {
        let tasks = (0..nr).map(|cpu| task(cpu, 0, spin())).chain([task(12, 0, spin())]).collect();
        busy_khz(&machine, &checked(&machine, tasks, policy("intel_cpufreq", "performance"), 100 * MS), cpu)
    };
    assert_eq!([1, 2, 3, 4, 5, 12].map(|nr| khz(nr, 0)), [31, 31, 29, 28, 27, 26].map(|bin| bin * 100_000));
    assert_eq!(khz(12, 12), 3_100_000);
}

/// Goal: busy small cores leave a lone big core its highest bin, since each kind counts its own active cores.
#[test]
fn small_cores_do_not_lower_the_bins_of_big_ones() {
    let machine = machine!("alder-lake-i7-1260p");
    let khz = |busy: &[u32]| {
        let tasks = busy.iter().map(|&cpu| task(cpu, 0, spin())).collect();
        let outcome = checked(&machine, tasks, policy("intel_cpufreq", "performance"), 100 * MS);
        [0, 8].map(|cpu| busy_khz(&machine, &outcome, cpu))
    };
    assert_eq!(khz(&[0, 8, 9, 10, 11]), [4_700_000, 3_400_000]);
    assert_eq!(khz(&[0, 2, 4, 6, 8]), [3_800_000, 3_400_000]);
}

/// On a client processor a CPU that asks for little runs as fast as one beside it that asks for all; with a clock for each
/// core it does not.
#[test]
fn one_clock_is_that_of_the_highest_wish() {
    let mut machine = machine!("skylake-8x-uma");
    let mut khz = |package_clock: bool| {
        machine.package_clock = package_clock;
        let policy = Policy { no_hwp: true, ..policy("intel_cpufreq", "schedutil") };
        let light = Op::Timer { timer: 0, period_ns: MS, absolute: true, own: true };
        let (run, again) = (Op::Runtime { wall_ns: MS / 10 }, Op::LoopEnd { slot: 0, begin: 0 });
        let ops = vec![Op::LoopBegin { slot: 0, count: None }, run, light, again, Op::Exit];
        let outcome = checked(&machine, vec![task(0, 0, spin()), task(2, 0, ops)], policy, 200 * MS);
        [0, 2].map(|cpu| busy_khz(&machine, &outcome, cpu))
    };
    let [busy, light] = khz(true);
    assert_eq!(light, busy);
    let [busy, light] = khz(false);
    assert!(light < busy, "{light} {busy}");
}

/// With one clock for all cores what an idle CPU asked for last holds for the others, too, for half a second. With a clock for
/// each core it does not.
#[test]
fn what_an_idle_cpu_asked_for_holds_with_one_clock() {
    let mut machine = machine!("skylake-8x-uma");
    let mut khz = |package_clock: bool, warmup_ms: u64| {
        machine.package_clock = package_clock;
        let policy = Policy { no_hwp: true, ..policy("intel_cpufreq", "schedutil") };
        let period = Op::Timer { timer: 0, period_ns: MS, absolute: true, own: true };
        let (busy, again) = (Op::Runtime { wall_ns: MS / 10 }, Op::LoopEnd { slot: 0, begin: 0 });
        let light = vec![Op::LoopBegin { slot: 0, count: None }, busy, period, again, Op::Exit];
        let once = vec![Op::Runtime { wall_ns: 100 * MS }, Op::Suspend { cond: 0 }];
        let mut workload = workload(&machine, vec![task(0, 0, once), task(2, 0, light)]);
        (workload.nr_conds, workload.warmup_ns) = (1, warmup_ms * MS);
        let case = Case { workload, machine: machine.clone(), policy, seed: 1, duration_ns: (warmup_ms + 150) * MS };
        let outcome = run(&case, &mut NullSink).unwrap_or_else(|error| panic!("{error:?}"));
        busy_khz(&machine, &outcome, 2)
    };
    let (one, late, each) = (khz(true, 150), khz(true, 700), khz(false, 150));
    assert!(one > each && late == each, "{one} {late} {each}");
}

/// The bin falls when the third core wakes up and rises again after it sleeps deep, for which menu takes some ticks.
#[test]
fn the_bin_follows_the_active_cores() {
    let machine = machine!("haswell-48x-numa");
    let short = |ms: u64| vec![Op::Runtime { wall_ns: ms * MS }, Op::Exit];
    let tasks = vec![task(0, 0, spin()), task(1, 0, spin()), task(2, 50 * MS, short(5))];
    let case = Case {
        workload: workload(&machine, tasks),
        machine,
        policy: policy("intel_cpufreq", "performance"),
        seed: 1,
        duration_ns: 150 * MS,
    };
    let mut clocks = Clocks::default();
    run(&case, &mut clocks).unwrap_or_else(|error| panic!("{error:?}"));
    let highest = |from_ns: u64, to_ns: u64| {
        let at_start = clocks.0.iter().rfind(|&&(time_ns, _)| time_ns <= from_ns).copied();
        let changes = clocks.0.iter().filter(|&&(time_ns, _)| time_ns > from_ns && time_ns < to_ns);
        at_start.iter().chain(changes).map(|&(_, khz)| khz).max().unwrap_or(0)
    };
    assert_eq!(highest(45 * MS, 50 * MS), 3_100_000);
    assert_eq!(highest(50 * MS + 200_000, 55 * MS), 2_900_000);
    assert_eq!(highest(120 * MS, 150 * MS), 3_100_000);
}

/// The highest frequency of acpi-cpufreq's table is a wish for boost; the others are what they are.
#[test]
fn p0_boosts_beyond_the_table() {
    let mut machine = machine!("epyc-7742-2s");
    machine.cpufreq.switch_ns = 0;
    let work = vec![Op::Run { work_ns: 9 * MS, fixed: 0 }, Op::Count, Op::Exit];
    let case = |governor: &str, tunables: Vec<(String, String)>| {
        let policy = Policy { tunables, ..policy("acpi-cpufreq", governor) };
        let outcome = checked(&machine, vec![task(0, 0, work.clone())], policy, 20 * MS);
        (busy_khz(&machine, &outcome, 0), outcome.busy_ns_by_opp[0].iter().sum::<u64>())
    };
    let (boost_khz, boost_ns) = case("performance", vec![]);
    let (low_khz, low_ns) = case("powersave", vec![]);
    let (p1_khz, _) = case("userspace", vec![("scaling_setspeed".into(), "2000000".into())]);
    assert_eq!((boost_khz, p1_khz, low_khz), (3_400_000, 2_000_000, 1_500_000));
    // Work is counted at the base frequency of 2.25 GHz.
    let about = |ns: u64, khz: u64| ns.abs_diff(9 * MS * 2_250_000 / khz) < 20_000;
    assert!(about(boost_ns, 3_400_000) && about(low_ns, 1_500_000), "{boost_ns} {low_ns}");
}

/// From v5.12 acpi-cpufreq's hardware maximum is CPPC's: the same utilisation asks for more.
#[test]
fn cppc_raises_the_reference_of_schedutil() {
    let machine = machine!("epyc-7742-2s");
    let mean_khz = |gate: &str| {
        let ops = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: 3 * MS, fixed: 0 },
            Op::Timer { timer: 0, period_ns: 10 * MS, absolute: false, own: true },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let gates = vec![("acpi_cpuinfo_max".to_owned(), gate.to_owned())];
        let policy = Policy { gates, ..policy("", "schedutil") };
        let outcome = checked(&machine, vec![task(0, 0, ops)], policy, 500 * MS);
        let cycles = outcome.busy_ns_by_opp[0].iter().zip(&outcome.points[0]);
        let cycles: u64 = cycles.map(|(&ns, point)| ns / 1000 * u64::from(point.khz / 1000)).sum();
        cycles / (outcome.busy_ns_by_opp[0].iter().sum::<u64>() / 1000)
    };
    let (table, cppc) = (mean_khz("p0"), mean_khz("boost"));
    assert!(cppc > table + 50, "{cppc} {table}");
}

/// The firmware of an EPYC under amd-pstate-epp climbs with the load, within the preference and the limits.
#[test]
fn amd_firmware_follows_load_and_preference() {
    let mut machine = machine!("epyc-7742-2s");
    let epp = Cpufreq {
        driver: DriverId::named("amd-pstate-epp").expect("a driver"),
        freq_table: false,
        switch_ns: 0,
        ..machine.cpufreq.clone()
    };
    let passive = Cpufreq { driver: DriverId::named("amd-pstate").expect("a driver"), ..epp.clone() };
    (machine.cpufreq, machine.other_drivers) = (epp, vec![passive]);
    let khz = |epp: &str, governor: &str, no_turbo: bool, permille: u64| {
        let ops = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: 10 * MS * permille / 1000, fixed: 0 },
            Op::Timer { timer: 0, period_ns: 10 * MS, absolute: false, own: true },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let policy = Policy { epp: epp.into(), no_turbo, ..policy("", governor) };
        busy_khz(&machine, &checked(&machine, vec![task(0, 0, ops)], policy, 500 * MS), 0)
    };
    assert_eq!(khz("", "powersave", false, 2000), 3_400_000);
    assert_eq!(khz("", "powersave", true, 2000), 2_250_000);
    // Passive mode has CPPC's range, not that of the file's OPPs, which are acpi-cpufreq's; and no level below the most
    // efficient one: 113 of 255.
    assert_eq!(khz("", "schedutil", false, 2000), 3_400_000);
    assert_eq!(khz("", "schedutil", true, 2000), 2_250_000);
    let light = khz("", "schedutil", false, 20);
    assert!((1_500_000..1_700_000).contains(&light), "{light}");
    let halves = ["performance", "balance_performance", "power"].map(|epp| khz(epp, "powersave", false, 500));
    assert!(halves[0] > halves[1] && halves[1] >= halves[2] && halves[2] < 1_600_000, "{halves:?}");
}

/// Guided mode: what the governor asks for is the least, and the firmware goes above it.
#[test]
fn amd_guided_mode_leaves_room_above_the_governor() {
    let mut machine = machine!("epyc-7742-2s");
    let passive = Cpufreq {
        driver: DriverId::named("amd-pstate").expect("a driver"),
        freq_table: false,
        switch_ns: 0,
        ..machine.cpufreq.clone()
    };
    let guided = Cpufreq { driver: DriverId::named("amd-pstate-guided").expect("a driver"), ..passive.clone() };
    machine.other_drivers = vec![passive, guided];
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: 4 * MS, fixed: 0 },
        Op::Timer { timer: 0, period_ns: 10 * MS, absolute: false, own: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let khz = |driver: &str| {
        let outcome = checked(&machine, vec![task(0, 0, ops.clone())], policy(driver, "schedutil"), 500 * MS);
        busy_khz(&machine, &outcome, 0)
    };
    let (passive, guided) = (khz("amd-pstate"), khz("amd-pstate-guided"));
    assert!(guided > passive + 100_000, "{guided} {passive}");
    assert!(passive < 3_000_000, "{passive}");
}

/// Boost costs what the curve through the table says.
#[test]
fn boost_costs_power() {
    let machine = machine!("epyc-7742-2s");
    let outcome = checked(&machine, vec![task(0, 0, spin())], policy("", "performance"), 10 * MS);
    let top = outcome.points[0].last().map(|point| (point.khz, point.power.busy_uw));
    assert_eq!(top.map(|(khz, uw)| (khz, uw / 10_000)), Some((3_400_000, 330)));
}

/// Average power of a package over the whole run, in uW; clusters are packages.
fn package_uw(outcome: &Outcome, package: usize) -> u64 {
    (outcome.cluster_energy_fj[package] / u128::from(outcome.wall_ns)) as u64
}

/// All cores of a 225 W package, one thread busy in each, are held at 225 W (a little less until the control has settled), below the clock of one.
#[test]
fn a_budget_limits_the_clock_of_all_cores() {
    let machine = machine!("epyc-7742-2s");
    let busy = |nr: u32| {
        let tasks = (0..nr).map(|cpu| task(cpu, 0, spin())).collect();
        let outcome = checked(&machine, tasks, policy("", "performance"), 200 * MS);
        (package_uw(&outcome, 0) / 1_000_000, busy_khz(&machine, &outcome, 0))
    };
    let (few_w, few_khz) = busy(16);
    let (all_w, all_khz) = busy(64);
    assert!(few_w < 170 && few_khz == 3_400_000, "{few_w} W, {few_khz} kHz");
    assert!((218..=228).contains(&all_w), "{all_w} W");
    assert!((2_900_000..=3_100_000).contains(&all_khz), "{all_khz} kHz");
}

/// A quiet second is credit for a burst at PL2; after that PL1 holds.
#[test]
fn quiet_times_are_credit_for_a_burst() {
    let machine = machine!("skylake-sp-2s");
    let run = |start_ms: u64| {
        let tasks = (0..24).map(|cpu| task(cpu, start_ms * MS, spin())).collect();
        let case = Case {
            workload: workload(&machine, tasks),
            machine: machine.clone(),
            policy: policy("intel_cpufreq", "performance"),
            seed: 1,
            duration_ns: (start_ms + 2000) * MS,
        };
        let mut clocks = Clocks::default();
        run(&case, &mut clocks).unwrap_or_else(|error| panic!("{error:?}"));
        // Mean clock over the first 100 ms of the burst and over its last 100 ms of 2 s, in MHz.
        let mean = |from_ms: u64| {
            let (from, to) = (from_ms * MS, (from_ms + 100) * MS);
            let mut now = (from, clocks.0.iter().rfind(|&&(time_ns, _)| time_ns <= from).map_or(0, |&(_, khz)| khz));
            let mut sum = 0;
            for &(time_ns, khz) in clocks.0.iter().filter(|&&(time_ns, _)| time_ns > from && time_ns < to) {
                sum += (time_ns - now.0) * u64::from(now.1);
                now = (time_ns, khz);
            }
            (sum + (to - now.0) * u64::from(now.1)) / (100 * MS) / 1000
        };
        (mean(start_ms + 10), mean(start_ms + 1890))
    };
    let (rested, rested_later) = run(800);
    let (tired, tired_later) = run(5);
    assert!(rested > tired + 150, "{rested} {tired}");
    assert!(rested_later.abs_diff(tired_later) < 60, "{rested_later} {tired_later}");
}

/// What the CPUs draw of a shared budget the GPU does not get; without a limit both have what they want.
#[test]
fn a_gpu_gets_what_the_cpus_leave() {
    use opplab_model::machine::Consumer;
    let frames = |governor: &str, pl1_w: u64| {
        let mut machine = machine!("skylake-8x-uma");
        let gpu = String::from("gpu");
        machine.consumers =
            vec![Consumer { name: gpu, package: 0, demand_uw: 25_000_000, least_uw: 2_000_000, frame_uj: 250_000 }];
        machine.package_power = machine.package_power.map(|power| opplab_model::machine::PackagePower {
            pl1_uw: pl1_w * 1_000_000,
            pl2_uw: 0,
            ..power
        });
        let tasks = (0..2).map(|cpu| task(cpu, 0, spin())).collect();
        let outcome = checked(&machine, tasks, policy("intel_cpufreq", governor), 500 * MS);
        let all_uw = package_uw(&outcome, 0) + (outcome.consumers[0].energy_fj / (500 * u128::from(MS))) as u64;
        (whole_frames(&outcome.consumers[0]), all_uw / 1_000_000)
    };
    let ((slow, slow_w), (fast, fast_w)) = (frames("powersave", 30), frames("performance", 30));
    // 2 x 0.8 W or 2 x 10.7 W, and 8 W of the package, of 30 W; a frame takes 0.25 J.
    assert!((39..=42).contains(&slow) && (29..=30).contains(&slow_w), "{slow} frames, {slow_w} W");
    assert!((3..=8).contains(&fast) && (29..=30).contains(&fast_w), "{fast} frames, {fast_w} W");
    assert_eq!((frames("powersave", 0).0, frames("performance", 0).0), (50, 50));
}

/// A package that would get too hot is slowed down, until its power keeps the limit.
#[test]
fn heat_limits_the_clock() {
    use opplab_model::machine::Thermal;
    let mut machine = machine!("skylake-8x-uma");
    // 1 K/W: 45 W keep 70 degrees at 25 degrees ambient; four cores would draw 51 W. RC is 0.1 s.
    let (ambient_mc, limit_mc) = (25_000, 70_000);
    machine.thermal = Some(Thermal {
        resistance_mk_per_w: 1000,
        capacitance_mj_per_k: 100,
        ambient_mc,
        limit_mc,
        start_mc: limit_mc,
    });
    let tasks = (0..4).map(|cpu| task(cpu, 0, spin())).collect();
    let outcome = checked(&machine, tasks, policy("intel_cpufreq", "performance"), 1000 * MS);
    let watts = package_uw(&outcome, 0) / 1_000_000;
    assert!((43..=46).contains(&watts), "{watts} W");
}

/// Machines without turbo have their OPPs and nothing else.
#[test]
fn points_are_the_opps_where_nothing_boosts() {
    let machine = machine!("juno-r2");
    let outcome = checked(&machine, vec![], policy("", "schedutil"), MS);
    for (points, cluster) in outcome.points.iter().zip(&machine.clusters) {
        assert!(points.iter().map(|point| point.khz).eq(cluster.opps.iter().map(|opp| opp.khz)));
    }
}

/// Remembers which limits were in the way.
#[derive(Default)]
struct Limits(Vec<GrantLimit>);

impl Sink for Limits {
    const DECISIONS: bool = true;

    fn event(&mut self, _now_ns: u64, _event: &Event) {}

    fn decision(&mut self, _now_ns: u64, decision: &Decision) {
        if let Decision::Grant { limit, .. } = *decision
            && !self.0.contains(&limit)
        {
            self.0.push(limit);
        }
    }
}

/// Each limit is named where it holds, and no other is.
#[test]
fn decisions_name_the_limit() {
    use opplab_model::machine::Thermal;
    let limits = |machine: Machine, nr: u32, policy: Policy| {
        let tasks = (0..nr).map(|cpu| task(cpu, 0, spin())).collect();
        let workload = workload(&machine, tasks);
        let mut limits = Limits::default();
        let case = Case { workload, machine, policy, seed: 1, duration_ns: 100 * MS };
        run(&case, &mut limits).unwrap_or_else(|error| panic!("{error:?}"));
        limits.0.retain(|&limit| limit != GrantLimit::None);
        limits.0
    };
    let performance = || policy("", "performance");
    let no_hwp = |governor: &str| Policy { no_hwp: true, ..policy("", governor) };
    assert_eq!(limits(machine!("epyc-7742-2s"), 64, performance()), [GrantLimit::PowerBudget]);
    assert_eq!(limits(machine!("haswell-48x-numa"), 4, no_hwp("performance")), [GrantLimit::TurboBin]);
    let mut hot = machine!("skylake-8x-uma");
    hot.thermal = Some(Thermal {
        resistance_mk_per_w: 2000,
        capacitance_mj_per_k: 100,
        ambient_mc: 25_000,
        limit_mc: 60_000,
        start_mc: 60_000,
    });
    assert!(limits(hot, 4, no_hwp("performance")).contains(&GrantLimit::Thermal));
    let no_turbo = |governor: &str| Policy { no_turbo: true, ..policy("acpi-cpufreq", governor) };
    for governor in ["performance", "schedutil"] {
        assert_eq!(limits(machine!("epyc-7742-2s"), 1, no_turbo(governor)), [GrantLimit::NoTurbo]);
    }
    let firmware = limits(machine!("skylake-sp-2s"), 1, policy("", "powersave"));
    assert!(firmware.contains(&GrantLimit::Firmware), "{firmware:?}");
}

/// Random machines with limits keep the invariants, and run twice the same way.
#[test]
fn random_limited_machines_keep_the_invariants() {
    let swarm = Swarm {
        nr_cpus_max: 24,
        nr_tasks_max: 40,
        governors: GOVERNORS.iter().map(|known| known.name).collect(),
        duration_ns: (MS, 40 * MS),
        limits: true,
        ..Swarm::default()
    };
    for seed in 0..80 {
        let file = swarm.case(seed);
        let (machine, workload, policy) = (file.machine, file.workload, file.policy);
        let (machine, workload) = (Arc::unwrap_or_clone(machine), Arc::unwrap_or_clone(workload));
        let case = Case { machine, workload, policy, seed, duration_ns: file.duration_ns };
        let once = || {
            let mut check = Check::new(case.machine.nr_cpus());
            let outcome = run(&case, &mut check).map_err(|error| error.0)?;
            check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("seed {seed}: {violations:#?}"));
            Ok::<_, String>(outcome)
        };
        assert_eq!(once(), once(), "seed {seed} runs in two ways");
    }
}

const CLASSES: &str = r#"format = 1
    name = "one"
    [[driver]]
    name = "scmi"
    transition_latency_us = 0
    fast_switch = true
    [[cluster]]
    name = "core"
    cpus = "0"
    capacity = 1024
    opp = [{ khz = 1000000, mw = 100 }, { khz = 2000000, mw = 300 }]
    [[program_class]]
    name = "memory"
    cluster = [{ name = "core", mem_share = 1024, power = 2048 }]
    [[program_class]]
    name = "half"
    cluster = [{ name = "core", capacity = 512, mem_share = 512 }]
"#;

/// A class's memory time does not follow the clock, its capacity and power are its own.
#[test]
fn classes_of_programs_have_their_own_speed_and_power() {
    let machine = read("one", CLASSES);
    let run = |class: &str, governor: &str| {
        let ops = vec![Op::Run { work_ns: 10 * MS, fixed: 0 }, Op::Exit];
        let spec = TaskSpec { class: class.into(), ..task(0, 0, ops) };
        let outcome = checked(&machine, vec![spec], policy("", governor), 100 * MS);
        let busy_us = outcome.busy_ns_by_opp[0].iter().sum::<u64>() / 1000;
        (busy_us, outcome.cluster_energy_fj[0] / 1_000_000_000)
    };
    let near = |(us, uj): (u64, u128), expected_us: u64, expected_uj: u128| {
        assert!(us.abs_diff(expected_us) < 300 && uj.abs_diff(expected_uj) < 100, "{us} us, {uj} uJ");
    };
    near(run("", "performance"), 10_000, 3_000);
    near(run("", "powersave"), 20_000, 2_000);
    near(run("memory", "performance"), 10_000, 6_000);
    near(run("memory", "powersave"), 10_000, 2_000);
    // Half as fast; at half the clock one and a half times the time.
    near(run("half", "performance"), 20_000, 6_000);
    near(run("half", "powersave"), 30_000, 3_000);
}

/// A class that the machine does not have is refused with those that it has.
#[test]
fn unknown_classes_of_programs_are_refused() {
    let machine = read("one", CLASSES);
    let spec = TaskSpec { class: String::from("memry"), ..task(0, 0, spin()) };
    let case = Case {
        workload: workload(&machine, vec![spec]),
        machine,
        policy: policy("", "performance"),
        seed: 1,
        duration_ns: MS,
    };
    let error = run(&case, &mut Check::new(1)).expect_err("there is no such class");
    assert!(format!("{error:?}").contains("memory, half"), "{error:?}");
}

/// Two sockets of one CPU, whose shared logic follows the machine's clock or its own.
fn sockets(follows: bool) -> Machine {
    let text = format!(
        "format = 1\nname = \"two\"\nshared_follows_machine = {follows}\n{}",
        r#"
            topology = { package = ["0", "1"] }
            [[driver]]
            name = "acpi-cpufreq"
            transition_latency_us = 0
            fast_switch = true
            [[cluster]]
            name = "pkg0"
            cpus = "0"
            capacity = 1024
            opp = [{ khz = 1000000, mw = 1, cluster_mw = 30, cluster_idle_mw = 28 }, { khz = 2000000, mw = 2, cluster_mw = 51, cluster_idle_mw = 48 }]
            idle = [{ name = "C1", mw = 0, exit_latency_us = 1, target_residency_us = 1 }]
            [[cluster]]
            name = "pkg1"
            cpus = "1"
            capacity = 1024
            opp = [{ khz = 1000000, mw = 1, cluster_mw = 30, cluster_idle_mw = 28 }, { khz = 2000000, mw = 2, cluster_mw = 51, cluster_idle_mw = 48 }]
            idle = [{ name = "C1", mw = 0, exit_latency_us = 1, target_residency_us = 1 }]
        "#
    );
    read("two", &text)
}

/// An idle socket's shared logic follows the clock of the busy one where the machine says so.
#[test]
fn an_idle_socket_may_draw_by_the_clock_of_the_other() {
    let idle_uj = |follows: bool| {
        let outcome = checked(&sockets(follows), vec![task(0, 0, spin())], policy("", "schedutil"), 100 * MS);
        outcome.cluster_energy_fj[1] / 1_000_000_000
    };
    assert!(idle_uj(true).abs_diff(4_800) < 200, "{} uJ", idle_uj(true));
    assert!(idle_uj(false).abs_diff(2_800) < 200, "{} uJ", idle_uj(false));
}

/// Goal: an idle package's power hangs on who was awake last, not on what its own first CPU did at the start. It counted at that
/// CPU's last clock.
/// Method: the energy of package 0 by hand, from the events: the highest clock of the awake CPUs, or the last such clock.
#[test]
fn while_no_cpu_is_awake_shared_logic_keeps_the_clock_that_it_followed() {
    struct ByHand {
        awake: [bool; 2],
        khz: [u32; 2],
        followed_khz: u32,
        since_ns: u64,
        fj: u128,
    }
    impl ByHand {
        fn settle(&mut self, now_ns: u64) {
            let awake = (0..2).filter(|&cpu| self.awake[cpu]);
            self.followed_khz = awake.map(|cpu| self.khz[cpu]).max().unwrap_or(self.followed_khz);
            let mw = match (self.awake[0], self.followed_khz) {
                (true, 1_000_000) => 30,
                (false, 1_000_000) => 28,
                (true, _) => 51,
                (false, _) => 48,
            };
            self.fj += mw * 1_000 * u128::from(now_ns - self.since_ns);
            self.since_ns = now_ns;
        }
    }
    impl Sink for ByHand {
        fn event(&mut self, now_ns: u64, event: &Event) {
            self.settle(now_ns);
            match *event {
                Event::CpuIdle { cpu, state } => self.awake[cpu as usize] = state < 0,
                Event::IdleExit { cpu } => self.awake[cpu as usize] = true,
                Event::CpuFrequency { cpu, khz } => self.khz[cpu as usize] = khz,
                _ => {}
            }
        }
    }
    let machine = sockets(true);
    let package_0_uj = |runs_ns: u64, is_reported: bool| {
        let pulses = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Runtime { wall_ns: runs_ns },
            Op::Sleep { ns: 10 * MS - runs_ns },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let early = task(0, 0, vec![Op::Runtime { wall_ns: if is_reported { 30 * MS } else { 1_000 } }, Op::Exit]);
        let tasks = vec![task(1, 0, pulses), early];
        let case = Case {
            workload: workload(&machine, tasks),
            machine: machine.clone(),
            policy: policy("", "schedutil"),
            seed: 1,
            duration_ns: 400 * MS,
        };
        let mut by_hand =
            ByHand { awake: [false; 2], khz: [1_000_000; 2], followed_khz: 1_000_000, since_ns: 0, fj: 0 };
        let outcome = run(&case, &mut by_hand).unwrap_or_else(|error| panic!("{error:?}"));
        by_hand.settle(400 * MS);
        assert_eq!(outcome.shared_energy_fj[0], by_hand.fj);
        outcome.shared_energy_fj[0] / 1_000_000_000
    };
    // CPU 1 sleeps at the high clock: package 0 keeps it. At the low one it is low, whatever CPU 0 had 30 ms after the start.
    let (high, high_reported) = (package_0_uj(8 * MS, false), package_0_uj(8 * MS, true));
    assert!(high > 18_000 && high_reported.abs_diff(high) < 1_000, "{high} {high_reported}");
    let (low, low_reported) = (package_0_uj(MS / 2, false), package_0_uj(MS / 2, true));
    assert!(low < 13_000 && low_reported.abs_diff(low) < 1_000, "{low} {low_reported}");
}

/// Whole units of a consumer's work that were done.
fn whole_frames(one: &opplab_sim::Consumed) -> u64 {
    (one.energy_fj / one.frame_fj) as u64
}

/// Goal: two threads of a core that spin in POLL draw what two busy ones do, and a busy one beside a spinning one as well,
/// where the file does not know what spinning draws.
#[test]
fn spinning_threads_share_the_power_of_their_core() {
    let mut machine = machine!("xeon-6130-2s");
    let sibling = (1..machine.nr_cpus() as u32).find(|&cpu| machine.cpus[cpu as usize].core == machine.cpus[0].core);
    let sibling = sibling.expect("the machine has two threads a core");
    for cluster in &mut machine.clusters {
        cluster.idle.truncate(1);
    }
    let power_uw = |busy: &[u32]| {
        let tasks = busy.iter().map(|&cpu| task(cpu, 0, spin())).collect();
        let outcome = checked(&machine, tasks, policy("intel_cpufreq", "performance"), 100 * MS);
        outcome.cluster_energy_fj.iter().sum::<u128>() / 100_000_000
    };
    let (none, one, two) = (power_uw(&[]), power_uw(&[0]), power_uw(&[0, sibling]));
    assert!(none.abs_diff(two) * 200 < two && one.abs_diff(two) * 200 < two, "{none} {one} {two}");
}

/// Goal: an idle CPU queues a task that another CPU wakes on it after its exit from idle, since v6.0; before, the waker did at once
/// where they share a cache. Method: the least time from the wake-up to the queue, of a task that sleeps on a CPU of its own.
#[test]
fn who_queues_a_task_on_an_idle_cpu() {
    #[derive(Default)]
    struct Queues {
        woken_ns: Option<u64>,
        least_ns: Option<u64>,
    }
    impl Sink for Queues {
        fn event(&mut self, now_ns: u64, event: &Event) {
            if let Event::SchedWaking { cpu, task: 1, target_cpu } = *event
                && cpu != target_cpu
            {
                self.woken_ns = Some(now_ns);
            }
        }
        fn queued(&mut self, now_ns: u64, _: CpuIdx, task: TaskIdx, _: Option<u32>, change: QueueChange) {
            if let (1, QueueChange::In, Some(woken_ns)) = (task, change, self.woken_ns.take_if(|_| task == 1)) {
                let ns = now_ns - woken_ns;
                self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
            }
        }
    }
    let least_ns = |kernel: &str, to: u32| {
        let mut machine = machine!("xeon-6130-2s");
        machine.costs.ipi_ns = 1_000;
        let waker = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: MS, fixed: 0 },
            Op::Send { channel: 0, bytes: 100 },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let woken = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Recv { channel: 0 },
            Op::Run { work_ns: 10_000, fixed: 0 },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let channels = vec![ChannelSpec { capacity_bytes: 65_536, sync_wakeup: false }];
        let workload = Workload { channels, ..workload(&machine, vec![task(0, 0, waker), task(to, 0, woken)]) };
        let policy = Policy { kernel: kernel.into(), ..Policy::default() };
        let mut queues = Queues::default();
        run(&Case { machine, workload, policy, seed: 1, duration_ns: 100 * MS }, &mut queues)
            .unwrap_or_else(|error| panic!("{error:?}"));
        queues.least_ns.expect("wake-ups")
    };
    for (kernel, at_once) in [("5.15", true), ("5.15.61", false), ("5.19", true), ("6.0", false), ("6.12", false)] {
        assert_eq!(least_ns(kernel, 2) == 0, at_once, "{kernel}");
    }
    // The other package has a cache of its own.
    assert!(least_ns("5.15", 1) > 0);
}
