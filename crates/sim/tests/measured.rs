//! Machines whose kernel takes as long as somebody measured, and whose speed does not follow the clock.

use opplab_model::event::{Event, Sink, TaskIdx};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, Start, Wakes, run_from};

const MS: u64 = 1_000_000;

fn juno_r2() -> Machine {
    let text = include_str!("../../../python/opplab/data/machines/juno-r2.toml");
    parse_machine("juno-r2.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// From wake-ups of task 0 to its running, and how long it ran each time.
#[derive(Default)]
struct Late {
    woken_ns: Option<u64>,
    began_ns: u64,
    late_ns: Vec<u64>,
    ran_ns: Vec<u64>,
}

impl Sink for Late {
    fn event(&mut self, now_ns: u64, event: &Event) {
        const TASK: TaskIdx = 0;
        match *event {
            Event::SchedWaking { task: TASK, .. } => self.woken_ns = Some(now_ns),
            Event::SchedSwitch { next: TASK, .. } => {
                self.began_ns = now_ns;
                self.late_ns.extend(self.woken_ns.take().map(|woken_ns| now_ns - woken_ns));
            }
            Event::SchedSwitch { prev: TASK, .. } => self.ran_ns.push(now_ns - self.began_ns),
            _ => {}
        }
    }
}

/// A task that runs 1 ms of the biggest CPU every 10 on CPU 0, from `start`.
fn late(machine: Machine, governor: &str, start: &Start) -> Late {
    let ops = vec![
        Op::LoopBegin { slot: 0, count: None },
        Op::Run { work_ns: MS, fixed: 0 },
        Op::Timer { timer: 0, period_ns: 10 * MS, absolute: true, own: true },
        Op::LoopEnd { slot: 0, begin: 0 },
    ];
    let task = TaskSpec { initial: true, ops, cpus: Some(0), loop_slots: 1, nr_own_timers: 1, ..TaskSpec::default() };
    let workload = Workload { tasks: vec![task], cpu_sets: vec![vec![0]], ..Workload::default() };
    let policy = Policy { governor: governor.into(), ..Policy::default() };
    let mut late = Late::default();
    let case = Case { machine, workload, policy, seed: 1, duration_ns: 500 * MS };
    run_from(&case, start, &mut late).unwrap_or_else(|error| panic!("{error:?}"));
    late
}

#[test]
fn wake_ups_on_idle_cpus_take_what_was_measured() {
    let times_ns = vec![200_000, 300_000];
    let wakes = |user_ns: &[u64], by_op_ns| Wakes {
        user_ns: [user_ns.to_vec(), user_ns.to_vec()],
        kernel_tasks: vec![false],
        by_op_ns,
        ..Wakes::default()
    };
    let start = Start { wakes: wakes(&times_ns, Vec::new()), ..Start::default() };
    let found = late(juno_r2(), "performance", &start).late_ns;
    assert!(found.len() >= 40 && found.iter().all(|ns| times_ns.contains(ns)), "{found:?}");
    assert!(times_ns.iter().all(|ns| found.contains(ns)), "both are drawn");
    // What is known of a wake-up goes before a draw: it stands behind its timer, at op 3.
    let start = Start { wakes: wakes(&times_ns, vec![vec![0, 0, 0, 150_000]]), ..Start::default() };
    assert!(late(juno_r2(), "performance", &start).late_ns.iter().all(|&ns| ns == 150_000));
    // Without any, what comes is handled once the CPU is awake.
    assert!(late(juno_r2(), "performance", &Start::default()).late_ns.iter().all(|&ns| ns == 0));
}

#[test]
fn a_constant_speed_does_not_follow_the_clock() {
    let median = |constant_speed: bool, governor: &str| {
        let mut ran_ns = late(Machine { constant_speed, ..juno_r2() }, governor, &Start::default()).ran_ns;
        ran_ns.sort_unstable();
        ran_ns[ran_ns.len() / 2]
    };
    assert!(median(false, "powersave") > median(false, "performance") * 3 / 2);
    assert_eq!(median(true, "powersave"), median(true, "performance"));
}
