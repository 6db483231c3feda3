//! Timers of tasks and the tick of an idle CPU.

use std::collections::BTreeMap;

use opplab_model::event::{CpuIdx, Event, Sink, TaskIdx};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, Start, run, run_from};

const MS: u64 = 1_000_000;

macro_rules! machine {
    ($name:literal) => {
        parse_machine(
            concat!($name, ".toml"),
            include_str!(concat!("../../../python/opplab/data/machines/", $name, ".toml")),
        )
        .unwrap_or_else(|error| panic!("{error}"))
    };
}

fn juno_r2() -> Machine {
    machine!("juno-r2")
}

/// When task 0 was woken, and how often CPUs left idle.
#[derive(Default)]
struct Wakes {
    at_ns: Vec<u64>,
    idle_exits: u32,
}

impl Sink for Wakes {
    fn event(&mut self, now_ns: u64, event: &Event) {
        const FIRST: TaskIdx = 0;
        match *event {
            Event::SchedWaking { task: FIRST, .. } => self.at_ns.push(now_ns),
            Event::CpuIdle { state: -1, .. } => self.idle_exits += 1,
            _ => {}
        }
    }
}

/// A task that runs 1 ms every `period_ns`, after `first`.
fn wakes(machine: Machine, kernel: &str, first: &[Op], period_ns: u64) -> Wakes {
    let begin = first.len() as u32;
    let mut ops = first.to_vec();
    ops.extend([
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: MS, fixed: 0 },
        Op::Timer { timer: 0, period_ns, absolute: true, own: true },
        Op::LoopEnd { slot: 0, begin },
    ]);
    let task = TaskSpec { initial: true, ops, loop_slots: 1, nr_own_timers: 1, ..TaskSpec::default() };
    let workload = Workload { tasks: vec![task], ..Workload::default() };
    let policy = Policy { kernel: kernel.into(), governor: "performance".into(), ..Policy::default() };
    let mut wakes = Wakes::default();
    let case = Case { machine, workload, policy, seed: 1, duration_ns: 1000 * MS };
    run(&case, &mut wakes).unwrap_or_else(|error| panic!("{error:?}"));
    wakes
}

#[test]
fn timers_may_be_as_late_as_their_slack() {
    let exact = wakes(juno_r2(), "6.12.117", &[], 10 * MS);
    let late = wakes(juno_r2(), "6.12.117", &[Op::SetTimerSlack { ns: 50_000 }], 10 * MS);
    assert_eq!(late.at_ns[0], exact.at_ns[0] + 50_000);
    assert_eq!(late.at_ns.len(), exact.at_ns.len());
}

#[test]
fn timers_count_from_the_time_that_is_said() {
    let own = wakes(juno_r2(), "6.12.117", &[], 10 * MS);
    let said = wakes(juno_r2(), "6.12.117", &[Op::TimersFrom { ns: 3 * MS }], 10 * MS);
    assert_eq!(said.at_ns[0] / MS, own.at_ns[0] / MS + 3);
}

#[test]
fn the_wheel_is_served_by_ticks() {
    let own = wakes(juno_r2(), "6.12.117", &[], 10 * MS);
    let wheel = wakes(juno_r2(), "6.12.117", &[Op::TimersByTick], 10 * MS);
    // The first tick when or after the timer is due, on an idle CPU whose tick is stopped, too; leaving idle takes up to 1.2 ms.
    let (tick_ns, first_ns) = (4 * MS, opplab_sim::first_tick_ns(250));
    for (own, wheel) in own.at_ns.iter().zip(&wheel.at_ns) {
        assert!((wheel - first_ns) % tick_ns <= 12 * MS / 10, "{wheel}");
        assert!((*own..own + tick_ns).contains(wheel), "{own} {wheel}");
    }
    assert_eq!(own.at_ns.len(), wheel.at_ns.len());
}

#[test]
fn timers_of_the_kernel_take_an_idle_cpu_out_of_idle() {
    let case = |wheel: Vec<(u64, u32)>| {
        let policy = Policy { watchdog_thresh_s: 0, ..Policy::default() };
        let case = Case { machine: juno_r2(), workload: Workload::default(), policy, seed: 1, duration_ns: 200 * MS };
        let mut wakes = Wakes::default();
        run_from(&case, &Start { wheel, ..Start::default() }, &mut wakes).unwrap_or_else(|error| panic!("{error:?}"));
        wakes.idle_exits
    };
    let none = case(Vec::new());
    assert!(case(vec![(130 * MS, 3), (50 * MS, 3), (60 * MS, 0)]) >= none + 3);
    assert_eq!(case(vec![(70 * MS, 99)]), none);
}

#[test]
fn one_idle_state_keeps_the_tick_until_one_came() {
    let exits = |kernel: &str| {
        let mut machine = juno_r2();
        for cluster in &mut machine.clusters {
            cluster.idle.truncate(1);
            cluster.cluster_idle.clear();
        }
        wakes(machine, kernel, &[], 100 * MS).idle_exits
    };
    // Ten periods: a wake-up each, and a tick more.
    let (kept, stopped) = (exits("6.12.117"), exits("6.6"));
    assert!(kept >= stopped + 8, "{kept} {stopped}");
}

/// What a loop's `op`s do, on one CPU with `others`: (time, response, time of run events) of each loop.
fn responses(ops: Vec<Op>, others: Vec<TaskSpec>) -> Vec<(u64, u64, u64)> {
    #[derive(Default)]
    struct Loops(Vec<(u64, u64, u64)>);
    impl Sink for Loops {
        fn event(&mut self, now_ns: u64, event: &Event) {
            if let Event::Activation { task: 0, response_ns, run_ns, .. } = *event {
                self.0.push((now_ns, response_ns, run_ns));
            }
        }
    }
    let mut all = vec![Op::LoopBegin { slot: 0, count: None }];
    all.extend(ops);
    all.extend([Op::Activation { phase: 0, timed: true }, Op::LoopEnd { slot: 0, begin: 0 }]);
    let task =
        TaskSpec { initial: true, ops: all, loop_slots: 1, nr_own_timers: 1, cpus: Some(0), ..TaskSpec::default() };
    let tasks = [vec![task], others].concat();
    let policy = Policy { governor: "performance".into(), ..Policy::default() };
    let workload = Workload { tasks, cpu_sets: vec![vec![1]], ..Workload::default() };
    let mut loops = Loops::default();
    let case = Case { machine: juno_r2(), workload, policy, seed: 1, duration_ns: 1000 * MS };
    run(&case, &mut loops).unwrap_or_else(|error| panic!("{error:?}"));
    loops.0
}

/// Goal: who comes too late to an absolute timer waits since that timer, not since the task came; a relative one begins anew. Method:
/// twice the work that a period holds, so that each loop is later than the one before.
#[test]
fn a_backlog_counts_as_response_time() {
    let loops = |absolute: bool| {
        let timer = Op::Timer { timer: 0, period_ns: 10 * MS, absolute, own: true };
        responses(vec![Op::Run { work_ns: 20 * MS, fixed: 0 }, timer], Vec::new())
    };
    let late = loops(true);
    assert!(late.len() > 10);
    let released: Vec<u64> = late.iter().map(|&(now_ns, response_ns, _)| now_ns - response_ns).collect();
    assert!(released.windows(2).all(|pair| pair[1] - pair[0] == 10 * MS), "{released:?}");
    let again = loops(false);
    assert!(again.windows(2).all(|pair| pair[1].1 == pair[1].0 - pair[0].0), "{again:?}");
}

/// Goal: a wait in the middle of an activation is a part of its response, wherever the timer stands in the loop. Method: a task
/// that never sleeps shares the CPU; the end of the work minus the timer's grid, from the times of the events.
#[test]
fn preemption_counts_as_response_time() {
    let hog = || {
        let ops = vec![Op::Run { work_ns: 5000 * MS, fixed: 0 }];
        vec![TaskSpec { initial: true, ops, cpus: Some(0), ..TaskSpec::default() }]
    };
    let (run, timer) =
        (Op::Run { work_ns: 6 * MS, fixed: 0 }, Op::Timer { timer: 0, period_ns: 40 * MS, absolute: true, own: true });
    let alone: Vec<u64> = responses(vec![run, timer], Vec::new()).iter().map(|one| one.1).collect();
    for ops in [vec![run, timer], vec![timer, run]] {
        let shared = responses(ops, hog());
        assert!(shared.len() >= 20);
        let waits = &shared[2..];
        assert!(waits.iter().all(|&(_, response_ns, _)| response_ns < 40 * MS), "{waits:?}");
        let mean_ns = |of: fn(&(u64, u64, u64)) -> u64| waits.iter().map(of).sum::<u64>() / waits.len() as u64;
        // What rt-app logs as `run` is wall time, too.
        for waited_ns in [mean_ns(|one| one.1), mean_ns(|one| one.2)] {
            assert!(waited_ns > alone[5] + 2 * MS, "{waits:?} {alone:?}");
        }
    }
}

/// The longest stay in the first idle state.
#[derive(Default)]
struct Polls {
    since_ns: BTreeMap<CpuIdx, u64>,
    longest_ns: u64,
}

impl Sink for Polls {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::CpuIdle { cpu, state: 0 } => _ = self.since_ns.insert(cpu, now_ns),
            Event::CpuIdle { cpu, .. } => {
                let since_ns = self.since_ns.remove(&cpu).unwrap_or(now_ns);
                self.longest_ns = self.longest_ns.max(now_ns - since_ns);
            }
            _ => {}
        }
    }
}

/// Goal: a CPU that polls chooses again at its kernel's limit. Method: the longest stay in POLL of a CPU that menu of v6.1
/// leaves there until the first ticks have come, with and without the limit.
#[test]
fn a_polling_cpu_chooses_again_at_its_limit() {
    let longest_ns = |gates: &[(&str, &str)]| {
        let machine = machine!("skylake-8x-uma");
        let gates = gates.iter().map(|&(gate, value)| (gate.to_owned(), value.to_owned())).collect();
        let policy = Policy { kernel: "6.1".into(), gates, ..Policy::default() };
        let case = Case { machine, workload: Workload::default(), policy, seed: 1, duration_ns: 100 * MS };
        let mut polls = Polls::default();
        run(&case, &mut polls).unwrap_or_else(|error| panic!("{error:?}"));
        polls.longest_ns
    };
    assert_eq!(longest_ns(&[("poll_limit", "none")]), 4 * MS);
    assert_eq!(longest_ns(&[]), 20_000);
}

/// Goal: the lateness of an activation is that of its timer's wake-up, in the first one, too, which a birth on an idle CPU
/// precedes.
#[test]
fn a_birth_is_no_late_wakeup() {
    #[derive(Default)]
    struct Late(Vec<u64>);
    impl Sink for Late {
        fn event(&mut self, _: u64, event: &Event) {
            if let Event::Activation { wu_lat_ns, .. } = *event {
                self.0.push(wu_lat_ns);
            }
        }
    }
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: MS, fixed: 0 },
        Op::Timer { timer: 0, period_ns: 20 * MS, absolute: true, own: true },
        Op::Activation { phase: 0, timed: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let task =
        TaskSpec { initial: true, delay_ns: 50 * MS, ops, loop_slots: 1, nr_own_timers: 1, ..TaskSpec::default() };
    let workload = Workload { tasks: vec![task], ..Workload::default() };
    let policy = Policy { governor: "performance".into(), ..Policy::default() };
    let case = Case { machine: juno_r2(), workload, policy, seed: 1, duration_ns: 300 * MS };
    let mut late = Late::default();
    run(&case, &mut late).unwrap_or_else(|error| panic!("{error:?}"));
    let [first, others @ ..] = &late.0[..] else { panic!("activations") };
    let most = others.iter().max().expect("more activations");
    assert!((1..=*most).contains(first), "{first} {others:?}");
}
