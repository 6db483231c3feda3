//! What idle CPUs do for each other: who lets whose load decay, and when.

use crate::common::juno_r2;
use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, run};

const MS: u64 = 1_000_000;

/// CPU on which a task runs, and one on which another has run.
const BUSY: u32 = 2;
const LEFT: u32 = 1;

/// When each CPU left idle, and when the averages of `LEFT` changed while it idled.
#[derive(Default)]
struct Log {
    out_of_idle: Vec<(u64, u32)>,
    decays: Vec<u64>,
    idle: bool,
    /// When `BUSY` found nothing more to run.
    went_idle: Vec<u64>,
}

impl Sink for Log {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::CpuIdle { cpu: LEFT, state } => self.idle = state >= 0,
            Event::CpuIdle { cpu, state: -1 } => self.out_of_idle.push((now_ns, cpu)),
            Event::SchedSwitch { cpu: BUSY, next: IDLE_TASK, .. } => self.went_idle.push(now_ns),
            Event::PeltCfs { cpu: LEFT, .. } if self.idle => self.decays.push(now_ns),
            _ => {}
        }
    }
}

/// A run of 2 s in which one task does `ops` and another runs for 20 ms at the start.
fn log(kernel: &str, hz: u32, ops: Vec<Op>) -> Log {
    let task = |cpu: u32, ops: Vec<Op>| TaskSpec {
        name: format!("on-{cpu}"),
        initial: true,
        cpus: Some(cpu - 1),
        spawn_cpu: Some(cpu),
        ops,
        loop_slots: 1,
        ..TaskSpec::default()
    };
    let left = vec![Op::Run { work_ns: 20 * MS, fixed: 0 }, Op::Sleep { ns: 1_000_000 * MS }];
    let workload = Workload {
        tasks: vec![task(BUSY, ops), task(LEFT, left)],
        cpu_sets: vec![vec![LEFT], vec![BUSY]],
        ..Workload::default()
    };
    let policy =
        Policy { kernel: kernel.into(), governor: "performance".into(), hz, watchdog_thresh_s: 0, ..Policy::default() };
    let mut log = Log::default();
    let case = Case { machine: juno_r2(), workload, policy, seed: 1, duration_ns: 2000 * MS };
    run(&case, &mut log).unwrap_or_else(|error| panic!("{error:?}"));
    log
}

/// Goal: the busy CPU's tick has the first idle CPU wake up and let the others decay, in the jiffy after 32 ms have passed, until
/// nothing is left.
#[test]
fn the_first_idle_cpu_lets_a_load_decay_and_then_sleeps() {
    for (kernel, hz, period_ms) in
        [("5.0", 250, 36), ("6.12.117", 250, 36), ("6.12.117", 100, 50), ("6.12.117", 1000, 33)]
    {
        let log = log(kernel, hz, vec![Op::Run { work_ns: 1_000_000 * MS, fixed: 0 }]);
        let decays: Vec<u64> = log.decays.iter().copied().filter(|time| *time > 60 * MS).collect();
        assert!(decays.len() >= 6, "{kernel} {hz}: {decays:?}");
        for pair in decays.windows(2) {
            // Leaving idle takes up to 1.2 ms.
            assert!((pair[1] - pair[0]).abs_diff(period_ms * MS) <= 2 * MS, "{kernel} {hz}: {decays:?}");
        }
        let out: Vec<(u64, u32)> = log.out_of_idle.into_iter().filter(|(time, _)| *time > 60 * MS).collect();
        assert!(decays.iter().all(|time| out.contains(&(*time, 0))), "{kernel} {hz}: {decays:?} {out:?}");
        // Of the CPUs that idle only that one wakes up, and after the last time not even that.
        assert!(out.iter().all(|&(_, cpu)| cpu == 0), "{kernel} {hz}: {out:?}");
        let last = decays.last().copied().unwrap_or(0);
        assert!(last < 1000 * MS && !out.iter().any(|(time, _)| *time > last), "{kernel} {hz}: {decays:?} {out:?}");
    }
}

/// Goal: without a busy CPU, one that goes idle lets the others decay before it sleeps; nobody is woken up for it.
#[test]
fn a_cpu_that_goes_idle_lets_the_load_of_others_decay() {
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: MS / 10, fixed: 0 },
        Op::Sleep { ns: 11 * MS },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    // A kernel that does not wake anybody to look for the next balance.
    let log = log("5.9", 250, ops);
    let decays: Vec<u64> = log.decays.into_iter().filter(|time| *time > 60 * MS).collect();
    assert!(decays.len() >= 6, "{decays:?}");
    assert!(decays.iter().all(|time| log.went_idle.contains(time)), "{decays:?}");
    for pair in decays.windows(2) {
        // At least 32 ms less what a jiffy had passed, and then at the next sleep.
        assert!((28 * MS..48 * MS).contains(&(pair[1] - pair[0])), "{decays:?}");
    }
    let until = decays.last().copied().unwrap_or(0);
    let mut out = log.out_of_idle.iter().filter(|(time, _)| (60 * MS..until).contains(time));
    assert!(out.all(|&(_, cpu)| cpu == BUSY));
}

/// Goal: a CPU whose driver has one idle state stops its tick at once, never (6.12.75 to 6.12.77), or after the first tick that
/// finds it idle.
#[test]
fn the_tick_of_a_cpu_with_one_idle_state() {
    let exits = |kernel: &str| {
        let mut machine = juno_r2();
        machine.clusters.iter_mut().for_each(|cluster| cluster.idle.truncate(1));
        let ops = vec![Op::Run { work_ns: 20 * MS, fixed: 0 }, Op::Sleep { ns: 1_000_000 * MS }];
        let task = TaskSpec { name: "once".into(), initial: true, spawn_cpu: Some(BUSY), ops, ..TaskSpec::default() };
        let workload = Workload { tasks: vec![task], ..Workload::default() };
        let policy = Policy {
            kernel: kernel.into(),
            governor: "performance".into(),
            hz: 250,
            watchdog_thresh_s: 0,
            ..Policy::default()
        };
        let mut log = Log::default();
        let case = Case { machine, workload, policy, seed: 1, duration_ns: 1_000 * MS };
        run(&case, &mut log).unwrap_or_else(|error| panic!("{error:?}"));
        log.out_of_idle.iter().filter(|&&(time, cpu)| time > 500 * MS && cpu == BUSY).count()
    };
    assert_eq!(exits("6.12.74"), 0);
    // 500 ms of ticks, 250 a second.
    assert!((120..=126).contains(&exits("6.12.76")), "{}", exits("6.12.76"));
    assert_eq!(exits("6.12.78"), 0);
}
