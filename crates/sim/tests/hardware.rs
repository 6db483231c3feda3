//! What the hardware grants: turbo bins by active cores, boost beyond the table.

use opplab_model::event::{Event, Sink};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::testing::Swarm;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, GOVERNORS, Outcome, run};

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
    Policy { kernel: "6.12".into(), driver: driver.into(), governor: governor.into(), ..Policy::default() }
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

/// Remembers the clocks that CPU 0 got, with their times.
#[derive(Default)]
struct Clocks(Vec<(u64, u32)>);

impl Sink for Clocks {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::CpuFrequency { cpu: 0, khz } = *event {
            self.0.push((now_ns, khz));
        }
    }
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
    let machine = machine!("epyc-7742-2s");
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

/// Boost costs what the curve through the table says.
#[test]
fn boost_costs_power() {
    let machine = machine!("epyc-7742-2s");
    let outcome = checked(&machine, vec![task(0, 0, spin())], policy("", "performance"), 10 * MS);
    let top = outcome.points[0].last().map(|point| (point.khz, point.busy_uw));
    assert_eq!(top.map(|(khz, uw)| (khz, uw / 10_000)), Some((3_400_000, 518)));
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

/// Random machines with limits keep the invariants, and run twice the same way.
#[test]
fn random_limited_machines_keep_the_invariants() {
    let swarm = Swarm {
        nr_cpus_max: 24,
        nr_tasks_max: 40,
        governors: GOVERNORS.to_vec(),
        duration_ns: (MS, 40 * MS),
        limits: true,
        ..Swarm::default()
    };
    for seed in 0..40 {
        let file = swarm.case(seed);
        let (machine, workload, policy) = (file.machine, file.workload, file.policy);
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
