//! Intel's hybrid processors: capacities, packing priorities and energy models by kernel version and SMT.

use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

const MS: u64 = 1_000_000;

/// The Alder Lake of the catalogue: 4 P-cores with SMT, 8 E-cores.
fn alder_lake() -> Machine {
    let text = include_str!("../../../python/opplab/data/machines/alder-lake-i7-1260p.toml");
    parse_machine("alder-lake-i7-1260p.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The same as if each thread were a core of its own, which is what a processor without SMT looks like.
fn without_smt() -> Machine {
    let mut machine = alder_lake();
    for (core, cpu) in machine.cpus.iter_mut().enumerate() {
        cpu.core = core as u32;
    }
    machine
}

/// Tasks born on `cpu` that work `permille` of each 10 ms at the P-cores' base frequency.
fn tasks(nr: u32, cpu: u32, permille: u64) -> Workload {
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: 10 * MS * permille / 1000, fixed: 0 },
        Op::Timer { timer: 0, period_ns: 10 * MS, absolute: false, own: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let task = |index: u32| TaskSpec {
        name: format!("task-{index}"),
        initial: true,
        delay_ns: u64::from(index) * MS / 2,
        spawn_cpu: Some(cpu),
        ops: ops.clone(),
        loop_slots: 1,
        nr_own_timers: 1,
        ..TaskSpec::default()
    };
    Workload { name: String::from("tasks"), tasks: (0..nr).map(task).collect(), ..Workload::default() }
}

/// A task that is always busy, born on an E-core.
fn spin() -> Workload {
    let spin = TaskSpec {
        name: String::from("spin"),
        initial: true,
        spawn_cpu: Some(8),
        ops: vec![Op::Runtime { wall_ns: 1 << 50 }, Op::Exit],
        ..TaskSpec::default()
    };
    Workload { name: String::from("spin"), tasks: vec![spin], ..Workload::default() }
}

fn ran(machine: &Machine, kernel: &str, workload: Workload) -> Outcome {
    ran_with(machine, kernel, false, workload)
}

fn ran_with(machine: &Machine, kernel: &str, nosmt: bool, workload: Workload) -> Outcome {
    let policy = Policy {
        kernel: kernel.into(),
        driver: "intel_cpufreq".into(),
        governor: "schedutil".into(),
        nosmt,
        ..Policy::default()
    };
    let case = Case { workload, machine: machine.clone(), policy, seed: 1, duration_ns: 500 * MS };
    let mut check = Check::new(case.machine.nr_cpus());
    let outcome = run(&case, &mut check).unwrap_or_else(|error| panic!("{error:?}"));
    check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    outcome
}

/// The part of the tasks' time that was spent on P-cores, in permille.
fn on_p_cores(outcome: &Outcome) -> u64 {
    let of = |cluster: usize| outcome.task_ns_by_cluster.iter().map(|by_cluster| by_cluster[cluster]).sum::<u64>();
    of(0) * 1000 / (of(0) + of(1)).max(1)
}

/// Without SMT v6.16 runs small tasks on E-cores by its energy model, v6.14 has none.
#[test]
fn small_tasks_go_to_efficient_cores_with_an_energy_model() {
    let machine = without_smt();
    let share = |kernel: &str| on_p_cores(&ran(&machine, kernel, tasks(4, 0, 50)));
    assert!(share("6.16") < 300, "{}", share("6.16"));
    assert!(share("6.19") < 300, "{}", share("6.19"));
    assert!(share("6.14") > 500, "{}", share("6.14"));
}

/// So it does on a processor with SMT that is booted with `nosmt`, as v6.12 knows its capacities.
#[test]
fn nosmt_gives_a_hybrid_capacities_and_an_energy_model() {
    let machine = alder_lake();
    let share = |kernel: &str, nosmt: bool| on_p_cores(&ran_with(&machine, kernel, nosmt, tasks(4, 0, 50)));
    assert!(share("6.16", true) < 300, "{}", share("6.16", true));
    let all = ["6.11", "6.12", "6.14", "6.16", "6.19"].map(|kernel| (share(kernel, true), share(kernel, false)));
    assert!(share("6.14", true) > 500, "{all:?}");
    assert!(share("6.16", false) > 500, "{}", share("6.16", false));
    // E-cores are known to be too small for a task that is always busy.
    let lone = on_p_cores(&ran_with(&machine, "6.12.117", true, spin()));
    assert!(lone > 800, "{lone}");
}

/// E-cores that are used above 60 % are as dear as P-cores since v6.19: P-cores get work earlier.
#[test]
fn busy_efficient_cores_spill_over_since_v6_19() {
    let machine = without_smt();
    let share = |kernel: &str| on_p_cores(&ran(&machine, kernel, tasks(8, 8, 300)));
    assert!(share("6.19") >= share("6.16"), "{} {}", share("6.19"), share("6.16"));
}

/// With SMT all CPUs count as equal; a lone busy task is packed on a P-core, which has the higher priority.
#[test]
fn a_busy_task_is_packed_on_a_performance_core_with_smt() {
    let machine = alder_lake();
    let outcome = ran(&machine, "6.12.117", spin());
    assert!(on_p_cores(&outcome) > 800, "{}", on_p_cores(&outcome));
}

/// Two threads of a core that are busy all the time do what the programs say, or else what the machine says.
#[test]
fn programs_may_say_how_much_threads_of_a_core_slow_each_other_down() {
    let machine = alder_lake();
    assert_eq!((machine.cpus[0].core, machine.smt_yield), (machine.cpus[1].core, 640));
    let counts = |nr_busy: u32, smt_yield: Option<u32>| {
        let ops = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: 100_000, fixed: 0 },
            Op::Count,
            Op::LoopEnd { slot: 0, begin: 0 },
            Op::Exit,
        ];
        let task = |cpu: u32| TaskSpec {
            name: format!("task-{cpu}"),
            initial: true,
            cpus: Some(cpu),
            ops: ops.clone(),
            loop_slots: 1,
            ..TaskSpec::default()
        };
        let tasks = (0..nr_busy).map(task).collect();
        let workload = Workload { tasks, cpu_sets: vec![vec![0], vec![1]], smt_yield, ..Workload::default() };
        workload.check(machine.nr_cpus()).unwrap_or_else(|why| panic!("{why}"));
        ran(&machine, "6.12.117", workload).counts
    };
    let permille_of_one = |smt_yield| counts(2, smt_yield) * 1000 / counts(1, smt_yield);
    assert!((1_240..=1_260).contains(&permille_of_one(None)), "{}", permille_of_one(None));
    assert!((1_640..=1_660).contains(&permille_of_one(Some(845))), "{}", permille_of_one(Some(845)));
    assert_eq!(counts(1, None), counts(1, Some(845)));
}
