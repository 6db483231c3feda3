//! Timers of tasks and the tick of an idle CPU.

use opplab_model::event::{Event, Sink, TaskIdx};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, Start, run, run_from};

const MS: u64 = 1_000_000;

fn juno_r2() -> Machine {
    let text = include_str!("../../../python/opplab/data/machines/juno-r2.toml");
    parse_machine("juno-r2.toml", text).unwrap_or_else(|error| panic!("{error}"))
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

/// Goal: who comes too late to an absolute timer waits since that timer, not since the task came; a relative one begins anew. Method:
/// twice the work that a period holds, so that each loop is later than the one before.
#[test]
fn a_backlog_counts_as_response_time() {
    #[derive(Default)]
    struct Late(Vec<(u64, u64)>);
    impl Sink for Late {
        fn event(&mut self, now_ns: u64, event: &Event) {
            if let Event::Activation { late_ns, .. } = *event {
                self.0.push((now_ns, late_ns));
            }
        }
    }
    let loops = |absolute: bool| {
        let ops = vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: 20 * MS, fixed: 0 },
            Op::Timer { timer: 0, period_ns: 10 * MS, absolute, own: true },
            Op::Activation { phase: 0, timed: true },
            Op::LoopEnd { slot: 0, begin: 0 },
        ];
        let task = TaskSpec { initial: true, ops, loop_slots: 1, nr_own_timers: 1, ..TaskSpec::default() };
        let workload = Workload { tasks: vec![task], ..Workload::default() };
        let policy = Policy { governor: "performance".into(), ..Policy::default() };
        let mut late = Late::default();
        let case = Case { machine: juno_r2(), workload, policy, seed: 1, duration_ns: 1000 * MS };
        run(&case, &mut late).unwrap_or_else(|error| panic!("{error:?}"));
        late.0
    };
    let late = loops(true);
    assert!(late.len() > 10);
    let released: Vec<u64> = late.iter().map(|&(now_ns, late_ns)| now_ns - late_ns).collect();
    assert!(released.windows(2).all(|pair| pair[1] - pair[0] == 10 * MS), "{released:?}");
    assert!(loops(false).iter().all(|&(_, late_ns)| late_ns == 0));
}
