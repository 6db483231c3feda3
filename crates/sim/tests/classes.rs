//! The classes above the fair one on several CPUs: who runs where, and when they are through.

use std::collections::BTreeMap;

use crate::common::juno_r2;
use opplab_model::event::{Event, Sink, TaskIdx};
use opplab_model::machine::{Cluster, Costs, CpuPlace, Machine, Opp};
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use opplab_sim::{Case, run};

/// When tasks end, in us.
#[derive(Default)]
struct Ends(BTreeMap<TaskIdx, u64>);

impl Sink for Ends {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::SchedProcessExit { task } = *event {
            self.0.insert(task, now_ns / 1000);
        }
    }
}

/// `nr` equal CPUs that share a cache, without costs.
fn smp(nr: u32) -> Machine {
    let mut machine = juno_r2();
    let big = machine.clusters.remove(1);
    machine.clusters = vec![Cluster { cpus: (0..nr).collect(), ..big }];
    machine.cpus = (0..nr).map(|cpu| CpuPlace { cluster: 0, core: cpu, llc: 0, node: 0, package: 0 }).collect();
    machine.costs = Costs { context_switch_ns: 0, wakeup_ns: 0, ipi_ns: 0, tick_ns: 0, sugov_work_ns: 0 };
    machine
}

/// A task that starts at `start_us` on CPU 0 or the only one of its set, and works for `work_us`.
fn worker(policy: SchedPolicy, set: Option<u32>, start_us: u64, work_us: u64) -> TaskSpec {
    TaskSpec {
        name: "worker".into(),
        initial: true,
        policy,
        cpus: set,
        spawn_cpu: None,
        delay_ns: start_us * 1000,
        ops: vec![Op::Run { work_ns: work_us * 1000, fixed: 0 }, Op::Exit],
        ..TaskSpec::default()
    }
}

fn fifo(priority: u8) -> SchedPolicy {
    SchedPolicy::Fifo { priority }
}

/// When each task ends, in us after the start; sets of CPUs are 0: CPU 0, 1: CPU 1, 2: CPUs 0 and 1.
fn ends(kernel: &str, nr_cpus: u32, tasks: Vec<TaskSpec>) -> Vec<u64> {
    let nr = tasks.len();
    let workload =
        Workload { name: "classes".into(), tasks, cpu_sets: vec![vec![0], vec![1], vec![0, 1]], ..Workload::default() };
    let policy = Policy { kernel: kernel.into(), governor: "performance".into(), eas: false, ..Policy::default() };
    let case = Case { machine: smp(nr_cpus), workload, policy, seed: 1, duration_ns: 1_000_000_000 };
    let mut sink = Ends::default();
    run(&case, &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
    (0..nr as u32).map(|task| sink.0.get(&task).copied().unwrap_or(u64::MAX)).collect()
}

/// Each end is at its time or at most 4 ms (exits from idle) later.
fn assert_about(found: &[u64], expected: &[u64], what: &str) {
    let near = found.iter().zip(expected).all(|(&found, &expected)| found >= expected && found <= expected + 4_000);
    assert!(near && found.len() == expected.len(), "{what}: {found:?} us, not {expected:?}");
}

#[test]
fn real_time_tasks_of_one_birth_place_spread() {
    for kernel in ["5.0", "6.12.117"] {
        let tasks = [10, 20, 30, 30].map(|priority| worker(fifo(priority), None, 5_000, 10_000)).to_vec();
        assert_about(&ends(kernel, 4, tasks.clone()), &[15_000; 4], kernel);
        // Two CPUs take the two highest first.
        assert_about(&ends(kernel, 2, tasks), &[25_000, 25_000, 15_000, 15_000], kernel);
    }
}

/// CPU 1 becomes free of a higher priority, and fetches the task that waits on CPU 0.
#[test]
fn a_cpu_whose_priority_falls_pulls() {
    let tasks = vec![
        worker(fifo(30), Some(0), 5_000, 40_000),
        worker(fifo(40), Some(1), 5_000, 12_000),
        worker(fifo(20), Some(2), 10_000, 10_000),
        // One that stays on CPU 1 does not hold it up.
        worker(SchedPolicy::Other { nice: 0 }, Some(1), 5_000, 10_000),
    ];
    assert_about(&ends("6.12.117", 2, tasks), &[45_000, 17_000, 27_000, 37_000], "pulled");
}

/// A pinned task of higher priority takes the CPU of one that may go elsewhere: that one is pushed on.
#[test]
fn a_preempted_task_is_pushed() {
    let tasks = vec![worker(fifo(20), Some(2), 5_000, 20_000), worker(fifo(50), Some(0), 10_000, 20_000)];
    assert_about(&ends("6.12.117", 2, tasks), &[25_000, 30_000], "pushed");
    // Of equal priority it goes as well, so that the pinned one may run.
    let tasks = vec![worker(fifo(50), Some(2), 5_000, 20_000), worker(fifo(50), Some(0), 10_000, 20_000)];
    assert_about(&ends("6.12.117", 2, tasks), &[25_000, 30_000], "pushed by an equal");
}

fn deadline(runtime_ms: u64, deadline_ms: u64, period_ms: u64) -> SchedPolicy {
    let ns = |ms: u64| ms * 1_000_000;
    SchedPolicy::Deadline {
        runtime_ns: ns(runtime_ms),
        deadline_ns: ns(deadline_ms),
        period_ns: ns(period_ms),
        reclaim: false,
    }
}

/// Half of each period: 20 ms of work take four periods of 10 ms, the last to its half.
#[test]
fn a_deadline_task_has_its_runtime_in_each_period() {
    let tasks = vec![
        worker(deadline(5, 10, 10), Some(0), 5_000, 20_000),
        // Who waits has the rest.
        worker(SchedPolicy::Other { nice: 0 }, Some(0), 5_000, 20_000),
    ];
    for kernel in ["5.0", "6.12.117"] {
        let found = ends(kernel, 2, tasks.clone());
        // That the runtime is used up is seen at a tick, every 4 ms; the overrun comes off the next period.
        assert!((36_000..43_000).contains(&found[0]), "{kernel}: {found:?}");
        assert_about(&found[1..], &[45_000], kernel);
    }
    // With a budget for all of it nothing stops it.
    assert_about(
        &ends("6.12.117", 2, vec![worker(deadline(80, 100, 100), Some(0), 5_000, 20_000)]),
        &[25_000],
        "large budget",
    );
}

/// With `SCHED_FLAG_RECLAIM` a task is charged for its share of what is admitted: half of a CPU over 95 %, 0.53 of the
/// time, so that 5 ms last for 9.5 ms of each period while nobody else claims them.
#[test]
fn a_deadline_task_reclaims_what_is_not_used() {
    let reclaiming =
        SchedPolicy::Deadline { runtime_ns: 5_000_000, deadline_ns: 10_000_000, period_ns: 10_000_000, reclaim: true };
    for kernel in ["6.1", "6.12.117"] {
        let alone = ends(kernel, 2, vec![worker(reclaiming, Some(0), 5_000, 20_000)]);
        assert!((25_000..29_000).contains(&alone[0]), "{kernel}: {alone:?}");
    }
}

/// Its runtime is used up as it falls asleep, after its next period has begun: it is replenished at once, and sleeps.
#[test]
fn a_task_that_is_late_sleeps_and_wakes() {
    let late = TaskSpec {
        ops: vec![
            Op::Run { work_ns: 5_000_000, fixed: 0 },
            Op::Sleep { ns: 2_000_000 },
            Op::Run { work_ns: 1_000_000, fixed: 0 },
            Op::Exit,
        ],
        ..worker(deadline(5, 10, 10), Some(0), 5_000, 0)
    };
    let first = worker(deadline(8, 9, 100), Some(0), 5_000, 8_000);
    assert_about(&ends("6.12.117", 2, vec![late, first]), &[21_000, 13_000], "late");
}

/// The earlier deadline goes first, whoever came first; a later one waits for it, not for its class.
#[test]
fn deadlines_order_the_tasks_of_a_cpu() {
    let tasks = vec![
        worker(deadline(20, 80, 80), Some(0), 5_000, 15_000),
        worker(deadline(10, 40, 40), Some(0), 7_000, 8_000),
        worker(fifo(99), Some(0), 5_000, 5_000),
    ];
    assert_about(&ends("6.12.117", 2, tasks), &[28_000, 15_000, 33_000], "by deadline");
}

/// The task is born on CPU 0.
fn here(task: TaskSpec) -> TaskSpec {
    TaskSpec { spawn_cpu: Some(0), ..task }
}

/// A pinned task with the earlier deadline takes the CPU of one that may go elsewhere: that one is pushed on. So is who wakes to find
/// an earlier one that could not leave.
#[test]
fn a_later_deadline_is_pushed_away() {
    let tasks = vec![
        here(worker(deadline(30, 80, 80), Some(2), 5_000, 20_000)),
        worker(deadline(20, 40, 40), Some(0), 10_000, 20_000),
    ];
    assert_about(&ends("6.12.117", 2, tasks), &[25_000, 30_000], "pushed");
    // It has to come before who runs elsewhere.
    let tasks = |deadline_ms: u64| {
        vec![
            here(worker(deadline(20, deadline_ms, deadline_ms), Some(2), 5_000, 16_000)),
            worker(deadline(20, 40, 40), Some(0), 10_000, 12_000),
            worker(deadline(30, 60, 60), Some(1), 6_000, 24_000),
        ]
    };
    assert_about(&ends("6.12.117", 2, tasks(50)), &[21_000, 22_000, 41_000], "to the CPU of a later one");
    assert_about(&ends("6.12.117", 2, tasks(90)), &[33_000, 22_000, 30_000], "stays, and is picked again");
}

/// CPU 1 has no deadline task any more, and fetches the one that waits on CPU 0.
#[test]
fn a_cpu_without_deadline_tasks_pulls() {
    let tasks = vec![
        worker(deadline(60, 100, 100), Some(0), 5_000, 40_000),
        worker(deadline(20, 60, 60), Some(1), 5_000, 12_000),
        here(worker(deadline(40, 200, 200), Some(2), 10_000, 10_000)),
        // One that stays on CPU 1 does not hold it up.
        worker(SchedPolicy::Other { nice: 0 }, Some(1), 5_000, 10_000),
    ];
    assert_about(&ends("6.12.117", 2, tasks), &[45_000, 17_000, 27_000, 37_000], "pulled");
}

/// When a task of a CPU wakes, and what its clock then is.
#[derive(Default)]
struct Clock {
    wakes_ns: Vec<u64>,
    changes: Vec<(u64, u32)>,
}

impl Sink for Clock {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedWaking { task: 0, .. } => self.wakes_ns.push(now_ns),
            Event::CpuFrequency { cpu: 0, khz } => self.changes.push((now_ns, khz)),
            _ => {}
        }
    }
}

impl Clock {
    /// The clock at a time.
    fn at(&self, time_ns: u64) -> u32 {
        self.changes.iter().rev().find(|&&(when, _)| when <= time_ns).map_or(0, |&(_, khz)| khz)
    }
}

/// A task of 2 ms every 30 ms for which 10 ms of each 30 ms are set aside: a third of the CPU, 341/1024. Until its 0-lag time, 6 ms
/// after it wakes, the clock is held at that, though the task uses a fifteenth; then nothing holds it.
#[test]
fn a_deadline_task_holds_the_clock_until_its_zero_lag_time() {
    for (kernel, held_khz) in [
        // What it uses, as a real-time task: nothing holds the clock.
        ("4.14-android", 100_000),
        // 1.25 * 341/1024 of 1 GHz.
        ("4.17", 500_000),
        ("6.1", 500_000),
        // The headroom is the utilisation's: 341/1024 of 1 GHz.
        ("6.12.117", 400_000),
    ] {
        let mut machine = smp(2);
        let point = machine.clusters[0].opps[0];
        machine.clusters[0].opps = (1..=10).map(|step| Opp { khz: step * 100_000, ..point }).collect();
        machine.clusters[0].idle.truncate(1);
        machine.clusters[0].cluster_idle.clear();
        (machine.cpufreq.fast_switch, machine.cpufreq.switch_ns) = (true, 0);
        machine.cpufreq.transition_delay_us = 500;
        let task = TaskSpec {
            ops: vec![
                Op::LoopBegin { slot: 0, count: None },
                Op::Run { work_ns: 2_000_000, fixed: 0 },
                Op::Timer { timer: 0, period_ns: 30_000_000, absolute: true, own: true },
                Op::LoopEnd { slot: 0, begin: 0 },
            ],
            loop_slots: 1,
            nr_own_timers: 1,
            ..worker(deadline(10, 30, 30), Some(0), 0, 0)
        };
        let workload =
            Workload { name: "third".into(), tasks: vec![task], cpu_sets: vec![vec![0]], ..Workload::default() };
        // All points draw the same: as an energy model they would be inefficient but for the last.
        let energy_model = EnergyModelSource::None;
        let policy = Policy { kernel: kernel.into(), eas: false, energy_model, ..Policy::default() };
        let case = Case { machine, workload, policy, seed: 1, duration_ns: 1_000_000_000 };
        let mut clock = Clock::default();
        run(&case, &mut clock).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(clock.wakes_ns.len() > 30, "{kernel}: {:?}", clock.wakes_ns);
        for &wake_ns in &clock.wakes_ns[1..] {
            let after = |us: u64| clock.at(wake_ns + us * 1000);
            assert_eq!([200, 3_000, 5_900].map(after), [held_khz; 3], "{kernel} at {wake_ns}");
            // What is left is the class's utilisation, a fifteenth of the CPU on average (v6.12), or nothing.
            assert!([6_300, 29_000].map(after).iter().all(|&khz| khz <= 200_000), "{kernel} at {wake_ns}");
        }
    }
}

/// A CPU admits 95 % together, of which v6.12's servers have 5 %.
#[test]
fn deadline_tasks_are_admitted_or_refused() {
    let admitted = |kernel: &str, nr_cpus: u32, runtime_ms: u64, nr: usize, leaves_ms: u64| {
        let workload = Workload {
            name: "admission".into(),
            tasks: (0..nr as u64)
                .map(|index| worker(deadline(runtime_ms, 100, 100), None, index * leaves_ms * 1_000, 1_000))
                .collect(),
            ..Workload::default()
        };
        let policy = Policy { kernel: kernel.into(), governor: "performance".into(), ..Policy::default() };
        let case = Case { machine: smp(nr_cpus), workload, policy, seed: 1, duration_ns: 1_000_000_000 };
        run(&case, &mut Ends::default()).map_err(|error| error.0)
    };
    for (kernel, nr_cpus, runtime_ms, nr) in [("5.0", 1, 47, 2), ("6.12.117", 1, 44, 2), ("6.12.117", 4, 60, 6)] {
        assert!(admitted(kernel, nr_cpus, runtime_ms, nr, 0).is_ok(), "{kernel} {runtime_ms} ms");
        let refused = admitted(kernel, nr_cpus, runtime_ms + 2, nr, 0).expect_err("too much");
        assert!(refused.contains("EBUSY") && refused.contains("worker"), "{refused}");
        // One after the other there is room.
        assert!(admitted(kernel, nr_cpus, runtime_ms + 2, nr, 50).is_ok(), "{kernel} {runtime_ms} ms");
    }
    let wrong = admitted("6.12.117", 1, 101, 1, 0).expect_err("more runtime than deadline");
    assert!(wrong.contains("runtime <= deadline"), "{wrong}");
}

/// Counts moves of tasks that sleep: all others are placements of somebody who will run.
#[derive(Default)]
struct Asleep {
    moved: Option<TaskIdx>,
    nr: u32,
}

impl Sink for Asleep {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Some(task) = self.moved.take() {
            let placed = matches!(*event, Event::Placement { task: other, .. } if other == task);
            self.nr += u32::from(!placed);
        }
        if let Event::SchedMigrateTask { task, .. } = *event {
            self.moved = Some(task);
        }
    }
}

/// From v6.12 on a task may fall asleep and stay queued; the balancer takes it for one that waits, and may move it.
#[test]
fn the_balancer_moves_tasks_whose_dequeue_is_delayed() {
    let nr_moved = |kernel: &str| {
        let sleeper = |index: u64| TaskSpec {
            name: format!("sleeper-{index}"),
            initial: true,
            delay_ns: index * 300_000,
            ops: vec![
                Op::LoopBegin { slot: 0, count: None },
                Op::Run { work_ns: 2_000_000 + 300_000 * index, fixed: 0 },
                Op::Sleep { ns: 3_000_000 },
                Op::LoopEnd { slot: 0, begin: 0 },
            ],
            loop_slots: 1,
            ..TaskSpec::default()
        };
        let tasks = (0..24).map(sleeper).collect();
        let workload = Workload { name: "sleepers".into(), tasks, ..Workload::default() };
        let policy = Policy { kernel: kernel.into(), governor: "performance".into(), eas: false, ..Policy::default() };
        let case = Case { machine: smp(8), workload, policy, seed: 1, duration_ns: 1_000_000_000 };
        let mut sink = Asleep::default();
        run(&case, &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
        sink.nr
    };
    assert_eq!(nr_moved("6.6"), 0);
    assert!(nr_moved("6.12.117") > 0);
}

/// Goal: where a real-time task may wake is decided by its lower clamp and the kernel's build (rt.c:rt_task_fits_capacity()), not by whether
/// anybody asked for clamps (uclamp_is_used()). Method: the same program with clamps that clamp nothing, on a Juno.
#[test]
fn real_time_tasks_avoid_small_cpus_whether_or_not_clamps_are_used() {
    let machine = juno_r2();
    let little: Vec<usize> = (0..2).filter(|&cluster| machine.clusters[cluster].capacity < 1024).collect();
    let on_little = |own: Option<u16>, others: Option<u16>, policy: Policy| {
        let mut tasks =
            vec![worker(fifo(10), None, 5_000, 1_000), worker(SchedPolicy::Other { nice: 0 }, Some(0), 0, 10)];
        if others.is_some() {
            tasks[1].ops.insert(0, Op::SetUclamp { min: others, max: None });
        }
        if own.is_some() {
            // It begins on a little CPU, and the clamp holds from the next wake-up on.
            tasks[0].cpus = Some(0);
            let asks = Op::SetUclamp { min: own, max: None };
            tasks[0].ops.splice(0..0, [asks, Op::SetCpus { set: None }, Op::Sleep { ns: 5_000_000 }]);
        }
        let workload = Workload { name: "boost".into(), tasks, cpu_sets: vec![vec![0]], ..Workload::default() };
        let policy = Policy { governor: "performance".into(), ..policy };
        let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns: 100_000_000 };
        let told = opplab_sim::boosted_by_build(&case).unwrap_or_else(|error| panic!("{error:?}"));
        let outcome = run(&case, &mut Ends::default()).unwrap_or_else(|error| panic!("{error:?}"));
        let ran_ns: u64 = little.iter().map(|&cluster| outcome.task_ns_by_cluster[0][cluster]).sum();
        (ran_ns > 1_000_000, told)
    };
    let kernel = |name: &str| Policy { kernel: name.into(), ..Policy::default() };
    let boost = |min| Policy { sched_util_clamp_min_rt_default: min, ..Policy::default() };
    let without = Policy { gates: vec![("uclamp".into(), "absent".into())], ..Policy::default() };
    assert_eq!(on_little(None, None, Policy::default()), (false, true));
    assert_eq!(on_little(None, Some(0), Policy::default()), (false, false), "of another task, that clamps nothing");
    assert_eq!(on_little(None, None, boost(1023)), (false, false));
    assert_eq!(on_little(None, None, boost(0)), (true, false));
    assert_eq!(on_little(Some(0), None, Policy::default()), (true, false), "what was asked for is no default");
    assert_eq!(on_little(Some(1024), None, boost(0)), (false, false));
    assert_eq!(on_little(None, None, without.clone()), (true, false));
    assert_eq!(on_little(None, Some(0), without), (true, false));
    assert_eq!(on_little(None, None, kernel("5.5")), (true, false));
    assert_eq!(on_little(None, None, kernel("5.6")), (false, true));
}
