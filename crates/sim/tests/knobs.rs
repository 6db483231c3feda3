//! What users set in sysfs and at boot: limits of frequency, marks of inefficient operating points.

use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_model::event::NullSink;
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::policy_keys::PolicyChange;
use opplab_model::policy_values::{EnergyModelSource, SetLimit};
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, CaseError, Outcome, run, unreached_proposals};

const MS: u64 = 1_000_000;

macro_rules! machine {
    ($name:literal) => {
        parse_machine($name, include_str!(concat!("../../../python/opplab/data/machines/", $name, ".toml")))
            .unwrap_or_else(|error| panic!("{error}"))
    };
}

/// A task on `cpu` with work for `permille` of each 10 ms of the biggest CPU at its reference.
fn load(machine: &Machine, cpu: u32, permille: u64) -> Workload {
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: 10 * MS * permille / 1000, fixed: 0 },
        Op::Timer { timer: 0, period_ns: 10 * MS, absolute: false, own: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let task = TaskSpec {
        name: String::from("load"),
        initial: true,
        cpus: Some(cpu),
        spawn_cpu: Some(cpu),
        ops,
        loop_slots: 1,
        nr_own_timers: 1,
        ..TaskSpec::default()
    };
    let cpu_sets = (0..machine.nr_cpus() as u32).map(|cpu| vec![cpu]).collect();
    Workload { name: String::from("load"), cpu_sets, tasks: vec![task], ..Workload::default() }
}

fn tried(machine: &Machine, workload: &Workload, policy: Policy) -> Result<Outcome, CaseError> {
    let case = Case { workload: workload.clone(), machine: machine.clone(), policy, seed: 1, duration_ns: 500 * MS };
    let mut check = Check::new(case.machine.nr_cpus());
    let outcome = run(&case, &mut check)?;
    check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    Ok(outcome)
}

/// The clocks in kHz at which `cpu` was busy.
fn clocks(machine: &Machine, cpu: u32, permille: u64, policy: Policy) -> Vec<u32> {
    let outcome = tried(machine, &load(machine, cpu, permille), policy).unwrap_or_else(|error| panic!("{error:?}"));
    let points = &outcome.points[machine.cpus[cpu as usize].cluster as usize];
    let busy = outcome.busy_ns_by_opp[cpu as usize].iter().zip(points);
    busy.filter(|&(&ns, _)| ns > 0).map(|(_, point)| point.khz).collect()
}

fn of(kernel: &str, driver: &str, governor: &str) -> Policy {
    Policy { kernel: kernel.into(), driver: driver.into(), governor: governor.into(), ..Policy::default() }
}

fn khz(all_khz: u32) -> SetLimit {
    SetLimit { all_khz, by_cluster: Vec::new() }
}

/// The A72's middle point costs more than its highest: nobody who uses the table's efficient entries runs there.
#[test]
fn requests_pass_over_inefficient_points() {
    let mut machine = machine!("juno-r2");
    let big = machine.clusters.iter_mut().find(|cluster| cluster.capacity == 1024).expect("the A72");
    let (first, last) = (big.opps[0].khz, big.opps[2].khz);
    big.opps[1].power_uw = big.opps[2].power_uw;
    let middle = big.opps[1].khz;
    let seen = |kernel: &str, governor: &str, change: &dyn Fn(&mut Policy)| {
        let mut policy = of(kernel, "", governor);
        change(&mut policy);
        // 0.3 of the highest clock: 1.25 times that lies between the first and the middle one.
        let mut all = clocks(&machine, 1, 560, policy);
        all.dedup();
        all.contains(&middle)
    };
    let as_is = |_: &mut Policy| {};
    for governor in ["schedutil", "ondemand"] {
        assert!(seen("5.15", governor, &as_is), "{governor}");
        assert!(!seen("5.16", governor, &as_is), "{governor}");
        assert!(!seen("6.12.117", governor, &as_is), "{governor}");
    }
    let none = |policy: &mut Policy| policy.energy_model = EnergyModelSource::None;
    assert!(seen("6.12.117", "schedutil", &none), "nobody registers a model");
    let cppc = |policy: &mut Policy| policy.driver = "cppc_cpufreq".into();
    assert!(seen("6.12.117", "schedutil", &cppc), "a driver without a table");
    // performance and powersave ask for what they are told.
    let limit = |policy: &mut Policy| policy.scaling_max_freq = khz(middle);
    assert!(seen("6.12.117", "performance", &limit));
    // An efficient point beyond the limit is none.
    assert!(seen("6.12.117", "schedutil", &limit));
    assert!(first < middle && middle < last);
}

#[test]
fn limits_of_a_table_hold_for_every_governor() {
    let machine = machine!("juno-r2");
    let (low, middle, high) = (600_000, 1_000_000, 1_200_000);
    for governor in ["schedutil", "ondemand", "conservative", "performance"] {
        let capped = Policy { scaling_max_freq: khz(middle), ..of("6.12.117", "", governor) };
        let seen = clocks(&machine, 1, 2000, capped);
        assert_eq!(seen.last(), Some(&middle), "{governor} {seen:?}");
    }
    for governor in ["schedutil", "ondemand", "conservative", "powersave"] {
        let raised = Policy { scaling_min_freq: khz(middle), ..of("6.12.117", "", governor) };
        let seen = clocks(&machine, 1, 50, raised);
        assert_eq!(seen.first(), Some(&middle), "{governor} {seen:?}");
    }
    // By cluster: the other one keeps its own.
    let by_cluster = vec![(String::from("A72"), low)];
    let policy = Policy { scaling_max_freq: SetLimit { all_khz: 0, by_cluster }, ..of("6.12.117", "", "schedutil") };
    assert_eq!(clocks(&machine, 1, 2000, policy.clone()).last(), Some(&low));
    assert_eq!(clocks(&machine, 0, 2000, policy).last(), Some(&950_000));
    // 1.1 GHz is no entry: before v5.16 a request may resolve beyond it, later the limit is the entry below.
    let between = |kernel: &str| {
        let policy = Policy { scaling_max_freq: khz(1_100_000), ..of(kernel, "", "schedutil") };
        clocks(&machine, 1, 2000, policy).last().copied()
    };
    assert_eq!((between("5.15"), between("5.16")), (Some(high), Some(middle)));
}

#[test]
fn limits_hold_for_the_firmware_of_intel_and_amd() {
    let skylake = machine!("skylake-sp-2s");
    let limited = |driver: &str, governor: &str, no_hwp: bool| Policy {
        scaling_min_freq: khz(1_400_000),
        scaling_max_freq: khz(2_000_000),
        no_hwp,
        ..of("6.12.117", driver, governor)
    };
    for (driver, governor) in
        [("intel_pstate", "powersave"), ("intel_pstate", "performance"), ("intel_cpufreq", "schedutil")]
    {
        for no_hwp in [false, true] {
            let policy = limited(driver, governor, no_hwp);
            let busy = clocks(&skylake, 5, 2000, policy.clone());
            assert_eq!(busy.last(), Some(&2_000_000), "{driver} {governor} {no_hwp}");
            let light = clocks(&skylake, 5, 5, policy);
            assert!(light.first() >= Some(&1_400_000), "{driver} {governor} {no_hwp} {light:?}");
        }
    }
    // 50 % of 3.9 GHz is 1.95 GHz: P-state 20 in active mode, a policy's limit in passive mode and so P-state 19.
    for (driver, governor, top_khz) in [
        ("intel_pstate", "powersave", 2_000_000),
        ("intel_pstate", "performance", 2_000_000),
        ("intel_cpufreq", "schedutil", 1_900_000),
        ("intel_cpufreq", "ondemand", 1_900_000),
        ("intel_cpufreq", "performance", 1_900_000),
    ] {
        for (kernel, no_hwp) in [("5.15", false), ("6.12.117", false), ("6.12.117", true)] {
            let policy = Policy { min_perf_pct: 30, max_perf_pct: 50, no_hwp, ..of(kernel, driver, governor) };
            let busy = clocks(&skylake, 5, 2000, policy.clone());
            assert_eq!(busy.last(), Some(&top_khz), "{driver} {governor} {kernel} {no_hwp}");
            let light = clocks(&skylake, 5, 5, policy);
            // 30 % of 3.9 GHz is 1.17 GHz, which rounds up in both modes.
            assert!(light.first() >= Some(&1_200_000), "{driver} {governor} {kernel} {no_hwp} {light:?}");
        }
    }
    // A limit between P-states is the one below.
    for (driver, governor) in [("intel_pstate", "performance"), ("intel_cpufreq", "schedutil")] {
        for no_hwp in [false, true] {
            let policy = Policy { scaling_max_freq: khz(1_950_000), no_hwp, ..of("6.12.117", driver, governor) };
            assert_eq!(clocks(&skylake, 5, 2000, policy).last(), Some(&1_900_000), "{driver} {no_hwp}");
        }
    }
    let mut epyc = machine!("epyc-7742-2s");
    epyc.cpufreq.freq_table = false;
    for (driver, governor) in [("amd-pstate-epp", "powersave"), ("amd-pstate", "schedutil")] {
        epyc.cpufreq.driver = DriverId::named(driver).expect("a driver");
        let policy = Policy { scaling_max_freq: khz(2_000_000), ..of("6.12.117", driver, governor) };
        let busy = clocks(&epyc, 0, 2000, policy);
        let top = busy.last().copied().unwrap_or(0);
        assert!((1_950_000..=2_000_000).contains(&top), "{driver} {busy:?}");
    }
}

#[test]
fn limits_that_a_machine_does_not_have_are_refused() {
    let machine = machine!("juno-r2");
    let refused = |policy: Policy| match tried(&machine, &load(&machine, 1, 100), policy) {
        Ok(_) => panic!("it ran"),
        Err(error) => error.0,
    };
    let by_cluster = vec![(String::from("A7"), 1_000_000)];
    let limit = SetLimit { all_khz: 0, by_cluster };
    let message = refused(Policy { scaling_min_freq: limit, ..Policy::default() });
    assert!(message.contains("did you mean `A72`"), "{message}");
    let message =
        refused(Policy { scaling_min_freq: khz(950_000), scaling_max_freq: khz(600_000), ..Policy::default() });
    assert!(message.contains("above `scaling_max_freq`"), "{message}");
    let message = refused(Policy { max_perf_pct: 50, ..Policy::default() });
    assert!(message.contains("intel_pstate"), "{message}");
}

/// Tasks without an affinity, each with `permille` of a biggest CPU.
fn spread(nr: usize, permille: u64) -> Workload {
    let machine = machine!("juno-r2");
    let mut workload = load(&machine, 0, permille);
    let task = TaskSpec { cpus: None, spawn_cpu: None, ..workload.tasks[0].clone() };
    workload.cpu_sets.clear();
    workload.tasks = (0..nr).map(|index| TaskSpec { name: format!("load{index}"), ..task.clone() }).collect();
    workload
}

fn busy_cpus(machine: &Machine, workload: &Workload, policy: Policy) -> Vec<u32> {
    let outcome = tried(machine, workload, policy).unwrap_or_else(|error| panic!("{error:?}"));
    let busy = |cpu: &u32| outcome.busy_ns_by_opp[*cpu as usize].iter().sum::<u64>() > 0;
    (0..machine.nr_cpus() as u32).filter(busy).collect()
}

fn refused(machine: &Machine, workload: &Workload, policy: Policy) -> String {
    tried(machine, workload, policy).expect_err("it is refused").0
}

#[test]
fn offline_and_isolated_cpus_run_nothing() {
    let juno = machine!("juno-r2");
    let of = |offline_cpus: &[u32], isolcpus: &[u32], kernel: &str| Policy {
        offline_cpus: offline_cpus.to_vec(),
        isolcpus: isolcpus.to_vec(),
        // schedutil's kthreads may run on isolated CPUs: they are bound to their policy's.
        ..of(kernel, "", "performance")
    };
    for kernel in ["4.19", "6.1", "6.12.117"] {
        assert_eq!(busy_cpus(&juno, &spread(12, 500), of(&[], &[], kernel)).len(), 6);
        assert_eq!(busy_cpus(&juno, &spread(12, 500), of(&[5], &[1], kernel)), [0, 2, 3, 4]);
    }
    // An affinity reaches an isolated CPU; one that is offline nothing does.
    assert_eq!(busy_cpus(&juno, &load(&juno, 1, 300), of(&[], &[1], "6.12.117")), [1]);
    let mut both = load(&juno, 0, 300);
    both.cpu_sets[0] = vec![0, 1];
    assert_eq!(busy_cpus(&juno, &both, of(&[0], &[], "6.12.117")), [1]);
    assert!(refused(&juno, &both, of(&[0, 1], &[], "6.12.117")).contains("CPUs [0, 1], which are offline"));
    assert!(refused(&juno, &both, of(&[0, 1, 2], &[3, 4, 5], "6.12.117")).contains("no CPU is left for other tasks"));
    assert!(refused(&juno, &both, of(&[6], &[], "6.12.117")).contains("`offline_cpus`: CPU 6 does not exist"));
    // The rest of the Juno without its big CPUs has one capacity, and no energy-aware scheduling.
    let without_big: Vec<u32> = juno
        .clusters
        .iter()
        .filter(|cluster| cluster.capacity == 1024)
        .flat_map(|cluster| cluster.cpus.clone())
        .collect();
    let policy = Policy { governor: String::from("schedutil"), ..of(&without_big, &[], "6.12.117") };
    let case = Case { workload: spread(2, 100), machine: juno.clone(), policy, seed: 1, duration_ns: 100 * MS };
    assert_eq!(opplab_sim::why_no_eas(&case).expect("it runs"), Some(opplab_sim::NoEas::Symmetric));
}

#[test]
fn nosmt_leaves_one_thread_a_core() {
    let skylake = machine!("skylake-8x-uma");
    assert!(skylake.has_smt());
    let nosmt = |kernel: &str| Policy { nosmt: true, ..of(kernel, "", "schedutil") };
    for kernel in ["5.4", "6.12.117"] {
        let busy = busy_cpus(&skylake, &spread(skylake.nr_cpus(), 700), nosmt(kernel));
        let mut cores: Vec<u32> = busy.iter().map(|&cpu| skylake.cpus[cpu as usize].core).collect();
        cores.dedup();
        cores.sort_unstable();
        let nr = cores.len();
        cores.dedup();
        assert_eq!((nr, busy.len()), (cores.len(), skylake.nr_cpus() / 2), "{kernel}: {busy:?}");
    }
    assert!(
        refused(&skylake, &spread(1, 100), Policy { offline_cpus: vec![0], ..nosmt("6.12.117") }).contains("CPU 0")
    );
    assert!(refused(&machine!("juno-r2"), &spread(1, 100), nosmt("6.12.117")).contains("one thread a core"));
}

#[test]
fn the_machines_clamps_hold_for_every_task() {
    let juno = machine!("juno-r2");
    let most = |workload: &Workload, policy: Policy| {
        let outcome = tried(&juno, workload, policy).unwrap_or_else(|error| panic!("{error:?}"));
        let points = &outcome.points[juno.cpus[0].cluster as usize];
        outcome.busy_ns_by_opp[0].iter().zip(points).max_by_key(|(ns, _)| **ns).map(|(_, point)| point.khz)
    };
    let plain = of("6.12.117", "", "schedutil");
    let low = Policy { sched_util_clamp_min: 100, sched_util_clamp_max: 100, ..plain.clone() };
    assert!(most(&load(&juno, 0, 450), low) < most(&load(&juno, 0, 450), plain.clone()));
    // A real-time task that asks for nothing is boosted to the sysctl's value.
    let mut workload = load(&juno, 0, 200);
    workload.tasks[0].policy = opplab_model::workload::SchedPolicy::Fifo { priority: 10 };
    let boosted = Policy { sched_util_clamp_min_rt_default: 1023, ..plain.clone() };
    let unboosted = Policy { sched_util_clamp_min_rt_default: 0, ..plain.clone() };
    assert!(most(&workload, boosted) > most(&workload, unboosted));
    let crossed = Policy { sched_util_clamp_max: 100, ..plain };
    assert!(refused(&juno, &workload, crossed).contains("above `sched_util_clamp_max`"));
}

#[test]
fn features_of_the_scheduler_change_what_they_name() {
    let juno = machine!("juno-r2");
    let with = |kernel: &str, features: &[&str]| Policy {
        sched_features: features.iter().map(|&name| name.to_owned()).collect(),
        ..of(kernel, "", "schedutil")
    };
    let pair = |one: u64, other: u64| {
        let mut pair = load(&juno, 0, one);
        let task = load(&juno, 0, other).tasks[0].clone();
        pair.tasks.push(TaskSpec { name: String::from("other"), delay_ns: MS, ..task });
        pair
    };
    let times = |workload: &Workload, kernel: &str, features: &[&str]| {
        let outcome = tried(&juno, workload, with(kernel, features)).unwrap_or_else(|error| panic!("{error:?}"));
        (outcome.switches, outcome.busy_ns_by_opp)
    };
    let (light, mut heavy) = (pair(60, 90), pair(900, 10));
    for (index, nice) in [-5, 5, -10, 3, 0].into_iter().enumerate() {
        let mut task = load(&juno, 0, 40).tasks[0].clone();
        task.policy = opplab_model::workload::SchedPolicy::Other { nice };
        task.delay_ns = MS * (2 * index as u64 + 1);
        for op in &mut task.ops {
            if let Op::Timer { period_ns, .. } = op {
                *period_ns = (3 + index as u64) * MS;
            }
        }
        heavy.tasks.push(task);
    }
    assert_ne!(times(&light, "6.12.117", &["NO_UTIL_EST"]), times(&light, "6.12.117", &[]));
    for feature in ["NO_RUN_TO_PARITY", "NEXT_BUDDY", "NO_WAKEUP_PREEMPTION"] {
        assert_ne!(times(&heavy, "6.12.117", &[feature]), times(&heavy, "6.12.117", &[]), "{feature}");
    }
    assert_eq!(times(&heavy, "6.12.117", &["NO_NEXT_BUDDY", "UTIL_EST"]), times(&heavy, "6.12.117", &[]));
    assert_ne!(times(&heavy, "5.10", &["NO_WAKEUP_PREEMPTION"]), times(&heavy, "5.10", &[]));
    assert!(refused(&juno, &light, with("5.10", &["NO_RUN_TO_PARITY"])).contains("kernel 5.10 has no RUN_TO_PARITY"));
}

/// Time of all CPUs in each idle state of the cluster of CPU 0, ns.
fn idle_ns(machine: &Machine, policy: Policy) -> Vec<u64> {
    let outcome = tried(machine, &load(machine, 0, 200), policy).unwrap_or_else(|error| panic!("{error:?}"));
    (0..machine.clusters[0].idle.len()).map(|state| outcome.idle_ns_by_state.iter().map(|ns| ns[state]).sum()).collect()
}

/// Goal: nothing rests in a state that sysfs or PM QoS forbids. Method: residencies, under each governor that looks at them.
#[test]
fn idle_states_that_are_forbidden_have_no_residency() {
    let skylake = machine!("skylake-8x-uma");
    let states: Vec<&str> = skylake.clusters[0].idle.iter().map(|state| state.name.as_str()).collect();
    let deepest = states.len() - 1;
    let latency_us = |state: usize| (skylake.clusters[0].idle[state].exit_latency_ns / 1_000) as u32;
    for idle_governor in ["menu", "teo", "ladder"] {
        let with = |disabled: &[&str], cpu_dma_latency_us: u32| {
            let idle_disable = disabled.iter().map(|&name| name.to_owned()).collect();
            let base = Policy { idle_governor: idle_governor.into(), ..of("6.12.117", "", "schedutil") };
            idle_ns(&skylake, Policy { idle_disable, cpu_dma_latency_us, ..base })
        };
        let unlimited = Policy::default().cpu_dma_latency_us;
        let [plain, shallow, limited] =
            [with(&[], unlimited), with(&[states[deepest]], unlimited), with(&[], latency_us(deepest) - 1)];
        assert!(plain[deepest] > 0 || idle_governor == "ladder", "{idle_governor}: {plain:?}");
        assert_eq!([shallow[deepest], limited[deepest]], [0, 0], "{idle_governor}");
        assert!(shallow[deepest - 1] > plain[deepest - 1] || idle_governor == "ladder", "{idle_governor}: {shallow:?}");
        let polls = with(&[], 0);
        assert!(polls[0] > 0 && polls[1..].iter().all(|&ns| ns == 0), "{idle_governor}: {polls:?}");
    }
    let wrong = Policy { idle_disable: vec![String::from("C7x")], ..Policy::default() };
    assert!(refused(&skylake, &load(&skylake, 0, 200), wrong).contains("unknown idle state of machine skylake-8x-uma"));
}

/// Goal: what counts as the start is what the governor's own rules make of it.
#[test]
fn the_start_of_idle_states_is_the_governor_s() {
    let skylake = machine!("skylake-8x-uma");
    let share = |idle_governor: &str, disabled: Option<usize>| {
        let idle_disable = disabled.map(|state| skylake.clusters[0].idle[state].name.clone()).into_iter().collect();
        let idle_governor = idle_governor.to_owned();
        let policy = Policy { idle_governor, idle_disable, ..of("6.12.117", "", "schedutil") };
        let outcome = tried(&skylake, &load(&skylake, 0, 200), policy).unwrap_or_else(|error| panic!("{error:?}"));
        outcome.first_idle_ns * 100 / (outcome.wall_ns * skylake.nr_cpus() as u64)
    };
    assert!(share("ladder", None) > 50, "idle CPUs stay in their first state until four sleeps are over");
    assert_eq!(share("ladder", Some(2)), 0, "it goes to no deeper state than the one before a disabled one");
    assert_eq!(share("haltpoll", None), 0, "it knows no deeper state than the second");
}

/// `policy` with `change` after 250 of the 500 ms.
fn halfway(policy: Policy, change: impl FnOnce(&mut Policy)) -> Policy {
    let mut later = policy.clone();
    change(&mut later);
    Policy { changes: vec![PolicyChange { at_ms: 250, policy: later }], ..policy }
}

/// For how many ms `cpu` was busy at each clock in MHz, under a task that never ends.
fn ms_by_mhz(machine: &Machine, cpu: u32, policy: Policy) -> Vec<(u32, u64)> {
    let outcome = tried(machine, &load(machine, cpu, 9000), policy).unwrap_or_else(|error| panic!("{error:?}"));
    let points = &outcome.points[machine.cpus[cpu as usize].cluster as usize];
    let busy = outcome.busy_ns_by_opp[cpu as usize].iter().zip(points);
    busy.filter(|&(&ns, _)| ns > MS).map(|(&ns, point)| (point.khz / 1000, (ns + MS / 2) / MS)).collect()
}

/// Goal: what is written to sysfs in the middle of a run holds from then on. Method: halves of a busy CPU's time by clock, which
/// follow from the two settings alone.
#[test]
fn limits_and_governors_change_while_a_run_goes_on() {
    let machine = machine!("juno-r2");
    let is_halved = |seen: &[(u32, u64)], low: u32, high: u32| {
        let of = |mhz: u32| seen.iter().find(|(at, _)| *at == mhz).map_or(0, |&(_, ms)| ms);
        of(low).abs_diff(250) <= 25 && of(high).abs_diff(250) <= 25
    };
    for governor in ["schedutil", "ondemand", "performance"] {
        let policy = halfway(of("6.12.117", "", governor), |later| later.scaling_max_freq = khz(600_000));
        let seen = ms_by_mhz(&machine, 1, policy);
        assert!(is_halved(&seen, 600, 1200), "{governor} {seen:?}");
    }
    let raised = halfway(of("6.12.117", "", "powersave"), |later| later.scaling_min_freq = khz(1_200_000));
    assert!(is_halved(&ms_by_mhz(&machine, 1, raised), 600, 1200));
    for (first, then) in [("performance", "powersave"), ("schedutil", "powersave"), ("powersave", "schedutil")] {
        let policy = halfway(of("6.12.117", "", first), |later| later.governor = then.into());
        let seen = ms_by_mhz(&machine, 1, policy);
        assert!(is_halved(&seen, 600, 1200), "{first} to {then} {seen:?}");
    }
    let skylake = machine!("skylake-sp-2s");
    for (driver, governor, no_hwp) in [
        ("intel_pstate", "powersave", false),
        ("intel_pstate", "performance", true),
        ("intel_cpufreq", "schedutil", false),
    ] {
        let policy = Policy { no_hwp, ..of("6.12.117", driver, governor) };
        let seen = ms_by_mhz(&skylake, 0, halfway(policy.clone(), |later| later.scaling_max_freq = khz(1_400_000)));
        let slow: u64 = seen.iter().filter(|(mhz, _)| *mhz <= 1400).map(|(_, ms)| ms).sum();
        assert!(slow.abs_diff(250) <= 25, "{driver} {governor} {seen:?}");
        let base_mhz = skylake.clusters[0].base_khz / 1000;
        let seen = ms_by_mhz(&skylake, 0, halfway(policy, |later| later.no_turbo = true));
        let of = |is: &dyn Fn(u32) -> bool| -> u64 { seen.iter().filter(|(mhz, _)| is(*mhz)).map(|(_, ms)| ms).sum() };
        let (base, turbo) = (of(&|mhz| mhz == base_mhz), of(&|mhz| mhz > base_mhz));
        assert!(base.abs_diff(250) <= 25 && (200..=252).contains(&turbo), "{driver} {governor} no_turbo {seen:?}");
    }
}

/// A change that needs another driver is refused, and energy-aware placement may end in the middle of a run.
#[test]
fn changes_keep_the_driver() {
    let skylake = machine!("skylake-sp-2s");
    let policy = halfway(of("6.12.117", "intel_pstate", "powersave"), |later| {
        (later.driver, later.governor) = (String::new(), "schedutil".into());
    });
    let message = refused(&skylake, &load(&skylake, 0, 100), policy);
    assert!(message.contains("250 ms") && message.contains("intel_cpufreq"), "{message}");
    let juno = machine!("juno-r2");
    let policy = halfway(of("6.12.117", "", "schedutil"), |later| later.eas = false);
    tried(&juno, &spread(4, 300), policy).unwrap_or_else(|error| panic!("{error:?}"));
}

/// A task that is too large for a little CPU leaves it without a wake-up from v4.20 on, when balance looks for misfits.
#[test]
fn misfits_leave_little_cpus_since_they_are_balanced_for() {
    let machine = machine!("juno-r2");
    let big = |cpu: usize| machine.clusters[machine.cpus[cpu].cluster as usize].capacity == 1024;
    for kernel in ["4.14", "4.16", "4.19", "4.20", "5.4", "5.6", "5.7", "5.15", "6.5", "6.12.117"] {
        let policy = Policy { eas: false, ..of(kernel, "", "schedutil") };
        // Of two tasks with 1.3 times the work of a little CPU one is born there.
        let outcome = tried(&machine, &spread(2, 600), policy).unwrap_or_else(|error| panic!("{error:?}"));
        let cpus = (0..outcome.busy_ns_by_opp.len()).filter(|&cpu| !big(cpu));
        let on_little = cpus.map(|cpu| outcome.busy_ns_by_opp[cpu].iter().sum::<u64>()).sum::<u64>() / MS;
        let stays = ["4.14", "4.16", "4.19"].contains(&kernel);
        assert!(if stays { on_little > 450 } else { on_little < 150 }, "{kernel}: {on_little} ms on little CPUs");
    }
}

/// Goal: CPUs that go offline in the middle of a run run nothing from then on, and those that come do. Method: six tasks that never
/// end on six CPUs; each CPU's busy time follows from the CPUs that are there.
#[test]
fn cpus_go_and_come_while_a_run_goes_on() {
    let machine = machine!("juno-r2");
    for kernel in ["4.19", "5.10", "6.1", "6.12.117"] {
        for governor in ["performance", "schedutil"] {
            let busy = |first: &[u32], then: &[u32]| -> Vec<u64> {
                let policy = Policy { offline_cpus: first.to_vec(), ..of(kernel, "", governor) };
                let policy = halfway(policy, |later| later.offline_cpus = then.to_vec());
                let outcome = tried(&machine, &spread(12, 9000), policy).unwrap_or_else(|error| panic!("{error:?}"));
                outcome.busy_ns_by_opp.iter().map(|cpu| cpu.iter().sum::<u64>() / MS).collect()
            };
            let gone = busy(&[], &[2, 4]);
            let is_half = |ms: u64| (240..=252).contains(&ms);
            assert!(
                (0..6).all(|cpu| if [2, 4].contains(&cpu) { is_half(gone[cpu]) } else { gone[cpu] > 480 }),
                "{kernel} {gone:?}"
            );
            let come = busy(&[2, 4], &[]);
            // Balance has to find them.
            assert!([2, 4].iter().all(|&cpu| (200..=251).contains(&come[cpu])), "{kernel} {governor} {come:?}");
            assert!([0, 1, 3, 5].iter().all(|&cpu| come[cpu] > 480), "{kernel} {come:?}");
        }
    }
    // A task that may use one CPU only may use all when that goes (core.c:select_fallback_rq()).
    let policy = halfway(of("6.12.117", "", "schedutil"), |later| later.offline_cpus = vec![3]);
    let busy = busy_cpus(&machine, &load(&machine, 3, 400), policy);
    assert!(busy.contains(&3) && busy.len() > 1, "{busy:?}");
}

/// A CPU of `nohz_full` with one task has no tick, so that schedutil hears of it once a second only; with two it has.
#[test]
fn the_tick_stops_for_one_task_on_nohz_full() {
    let machine = machine!("juno-r2");
    let on_one = |nr: usize, nohz_full: Vec<u32>| {
        let mut workload = load(&machine, 1, 9000);
        let task = workload.tasks[0].clone();
        workload.tasks = (0..nr).map(|index| TaskSpec { name: format!("load{index}"), ..task.clone() }).collect();
        let policy = Policy { nohz_full, ..of("6.12.117", "", "schedutil") };
        let outcome = tried(&machine, &workload, policy).unwrap_or_else(|error| panic!("{error:?}"));
        let points = &outcome.points[machine.cpus[1].cluster as usize];
        let highest = outcome.busy_ns_by_opp[1].iter().zip(points).filter(|(_, point)| point.khz == 1_200_000);
        highest.map(|(&ns, _)| ns / MS).sum::<u64>()
    };
    // A newborn task has half a CPU: the clock goes up with the ticks, and stays where it is without.
    let [with_tick, without, two] = [on_one(1, vec![]), on_one(1, vec![1]), on_one(2, vec![1])];
    assert!(with_tick > 400 && without < 10 && two > 400, "{with_tick} {without} {two} ms at the highest clock");
    let all = Policy { nohz_full: (0..6).collect(), ..of("6.12.117", "", "schedutil") };
    assert!(refused(&machine, &load(&machine, 1, 100), all).contains("no CPU is left"));
}

/// The tick that is left of such a CPU is another CPU's from v4.17 on. That may not change the clock under a driver without
/// `dvfs_possible_from_any_cpu`, and may under one with it, or where it is of the same policy.
#[test]
fn what_is_left_of_the_tick_is_remote_since_4_17() {
    let machine = machine!("haswell-48x-numa");
    let runs = |kernel: &str, from_any_cpu: bool| {
        let mut machine = machine.clone();
        let drivers = std::iter::once(&mut machine.cpufreq).chain(&mut machine.other_drivers);
        drivers.for_each(|driver| driver.dvfs_possible_from_any_cpu = from_any_cpu);
        let mut workload = load(&machine, 3, 1_000_000);
        workload.tasks[0].delay_ns = 300 * MS;
        let policy = Policy { nohz_full: vec![3], ..of(kernel, "intel_cpufreq", "schedutil") };
        let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns: 4000 * MS };
        let outcome = run(&case, &mut NullSink).unwrap_or_else(|error| panic!("{error:?}"));
        // How long it ran at each clock from the lowest on, ms.
        outcome.busy_ns_by_opp[3].iter().map(|ns| ns / MS).filter(|&ms| ms > 0).collect::<Vec<_>>()
    };
    // It starts at 300 ms, and its own tick comes a second after the first report of it.
    for from_any_cpu in [false, true] {
        assert_eq!(runs("4.16", from_any_cpu), [998, 1000, 1000, 701]);
    }
    assert_eq!(runs("4.17", false), [3699]);
    assert_eq!(runs("4.17", true), [702, 1004, 1004, 989]);
    for kernel in ["6.1", "6.12.117"] {
        assert_eq!([runs(kernel, false), runs(kernel, true)], [vec![3699], vec![702, 2997]], "{kernel}");
    }
}

/// Where a task with work for `permille` of each 10 ms of the biggest CPU runs, by cluster in permille of its time.
fn where_it_runs(machine: &Machine, permille: u64, policy: Policy) -> Vec<u64> {
    let mut workload = load(machine, 0, permille);
    workload.tasks[0].cpus = None;
    workload.tasks[0].spawn_cpu = Some(machine.nr_cpus() as u32 - 1);
    let outcome = tried(machine, &workload, policy).unwrap_or_else(|error| panic!("{error:?}"));
    // The governor's threads come first.
    let by_cluster = outcome.task_ns_by_cluster.last().expect("the task");
    let total: u64 = by_cluster.iter().sum();
    by_cluster.iter().map(|ns| ns * 1000 / total).collect()
}

/// A task of 30 % fits the A76, and the X1 only while nobody limits that to 851 MHz of 2802.
#[test]
fn a_limit_of_the_frequency_lowers_the_capacity_since_6_10() {
    let machine = machine!("pixel6");
    let of_cluster = |name: &str| machine.clusters.iter().position(|cluster| cluster.name == name).expect("a cluster");
    let (x1, a76) = (of_cluster("X1"), of_cluster("A76"));
    let limit = || SetLimit { all_khz: 0, by_cluster: vec![(String::from("X1"), 851_000)] };
    let limited = |kernel: &str| {
        let policy = Policy { scaling_max_freq: limit(), ..of(kernel, "", "schedutil") };
        where_it_runs(&machine, 300, policy)
    };
    assert!(limited("6.9")[x1] > 900, "{:?}", limited("6.9"));
    assert!(limited("6.10")[a76] > 900, "{:?}", limited("6.10"));
    assert!(limited("6.12.117")[a76] > 900, "{:?}", limited("6.12.117"));
    let free = where_it_runs(&machine, 300, of("6.12.117", "", "schedutil"));
    assert_eq!(free, where_it_runs(&machine, 300, of("6.9", "", "schedutil")));
    // The same for a limit that comes while it runs, once it sleeps again.
    let changed = |kernel: &str| {
        let before = of(kernel, "", "schedutil");
        let after = Policy { scaling_max_freq: limit(), ..before.clone() };
        let changes = vec![PolicyChange { at_ms: 100, policy: after }];
        where_it_runs(&machine, 300, Policy { changes, ..before })
    };
    assert!(changed("6.9")[x1] > 900 && changed("6.10")[a76] > 100, "{:?} {:?}", changed("6.9"), changed("6.10"));
}

/// Goal: a proposal for a part of the kernel that no policy of the case has is named. Method: each part, without it, with it, and with it
/// from the middle of the run on.
#[test]
fn proposals_that_no_policy_reaches_are_named() {
    let machine = machine!("juno-r2");
    let unreached = |policy: Policy| -> Vec<&str> {
        let case = Case { machine: machine.clone(), workload: spread(1, 300), policy, seed: 1, duration_ns: 500 * MS };
        let found = unreached_proposals(&case).unwrap_or_else(|error| panic!("{error:?}"));
        found.into_iter().map(|(name, _)| name).collect()
    };
    let with = |governor: &str, proposal: &str| Policy {
        proposals: vec![proposal.to_owned()],
        ..of("6.12.117", "scmi", governor)
    };
    let teo = |idle_governor: &str| Policy { idle_governor: idle_governor.into(), ..with("schedutil", "teo-util") };
    assert_eq!(unreached(teo("menu")), ["teo-util"]);
    assert!(unreached(teo("teo")).is_empty());
    assert!(unreached(halfway(teo("menu"), |later| later.idle_governor = "teo".into())).is_empty());
    assert_eq!(unreached(with("performance", "headroom:percent=110")), ["headroom"]);
    assert!(unreached(with("schedutil", "headroom:percent=110")).is_empty());
    assert!(unreached(with("schedutil", "lone-task")).is_empty());
    assert_eq!(unreached(Policy { eas: false, ..with("schedutil", "lone-task") }), ["lone-task"]);
    assert!(unreached(with("performance", "pelt-multiplier")).is_empty());
}
