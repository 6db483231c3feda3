//! Threads with many connections (`SendFrom`, `SendBack`), as a client has that waits in poll(2).

use crate::common::juno_r2;
use opplab_model::event::{Event, Sink, Tee};
use opplab_model::policy::Policy;
use opplab_model::workload::{ChannelSpec, Op, TaskSpec, Workload};
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

/// Counts wake-ups of each task.
#[derive(Default)]
struct Wakeups(Vec<usize>);

impl Sink for Wakeups {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Event::SchedWaking { task, .. } = *event {
            self.0.resize(self.0.len().max(task as usize + 1), 0);
            self.0[task as usize] += 1;
        }
    }
}

fn task(name: String, ops: Vec<Op>) -> TaskSpec {
    TaskSpec { name, initial: true, ops, loop_slots: 1, ..TaskSpec::default() }
}

fn forever(before: &[Op], body: &[Op]) -> Vec<Op> {
    let begin = before.len() as u32;
    let ends = [Op::LoopEnd { slot: 0, begin }, Op::Exit];
    [before, &[Op::LoopBegin { slot: 0, count: None }], body, &ends].concat()
}

/// A thread that works `thread_ns` for each statement, and a backend for each of `backends_ns`; channel 0 has the answers.
/// Backends count, and say where they are to be answered if they are `known`.
fn connections(thread_ns: u64, backends_ns: &[u64], known: bool) -> Workload {
    let bytes = 100;
    let backend = |(channel, &work_ns): (u32, &u64)| {
        let answer = match known {
            true => Op::SendFrom { channel: 0, bytes, back: channel },
            false => Op::Send { channel: 0, bytes },
        };
        let body = [Op::Recv { channel }, Op::Run { work_ns, fixed: 0 }, answer, Op::Count];
        task(format!("backend-{channel}"), forever(&[], &body))
    };
    let first: Vec<Op> = (1..).zip(backends_ns).map(|(channel, _)| Op::Send { channel, bytes }).collect();
    let body = [Op::Recv { channel: 0 }, Op::Run { work_ns: thread_ns, fixed: 0 }, Op::SendBack { bytes }];
    let mut tasks = vec![task(String::from("thread"), forever(&first, &body))];
    tasks.extend((1..).zip(backends_ns).map(backend));
    let channels = vec![ChannelSpec { capacity_bytes: 65_536, sync_wakeup: false }; tasks.len()];
    Workload { name: String::from("connections"), tasks, channels, ..Workload::default() }
}

/// 400 ms of it under the invariant sink.
fn checked(workload: Workload) -> (Outcome, Vec<usize>) {
    let machine = juno_r2();
    workload.check(machine.nr_cpus()).unwrap_or_else(|why| panic!("{why}"));
    let policy = Policy { governor: "performance".into(), kernel: "5.18".into(), ..Policy::default() };
    let case = Case { machine, workload, policy, seed: 1, duration_ns: 400_000_000 };
    let mut sink = Tee(Check::new(case.machine.nr_cpus()), Wakeups::default());
    let outcome = run(&case, &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
    sink.0.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    (outcome, sink.1.0)
}

#[test]
fn one_thread_serves_all_of_its_connections() {
    let (outcome, wakeups) = checked(connections(100_000, &[300_000; 4], true));
    assert!(outcome.counts > 400, "{} answers", outcome.counts);
    for backend in 1..=4 {
        assert!(wakeups[backend] > 80, "{wakeups:?}");
    }
}

#[test]
fn a_thread_that_runs_gets_no_wakeup() {
    let (outcome, wakeups) = checked(connections(1_000_000, &[10_000; 3], true));
    assert!(outcome.counts > 80, "{} answers", outcome.counts);
    assert!(wakeups[0] < 5, "{wakeups:?}");
    // With one connection it sleeps for each answer.
    let (outcome, wakeups) = checked(connections(1_000_000, &[100_000], true));
    assert!(wakeups[0] as u64 + 2 > outcome.counts && outcome.counts > 50, "{} {wakeups:?}", outcome.counts);
}

#[test]
fn the_next_statement_goes_to_the_backend_that_has_answered() {
    let (outcome, wakeups) = checked(connections(10_000, &[10_000_000, 100_000], true));
    assert!(wakeups[1] > 10 && wakeups[2] > 5 * wakeups[1], "{wakeups:?}");
    assert!((wakeups[1] + wakeups[2]).abs_diff(outcome.counts as usize) <= 4, "{} {wakeups:?}", outcome.counts);
}

#[test]
fn a_message_that_names_no_channel_is_not_answered() {
    let (outcome, _) = checked(connections(10_000, &[100_000; 3], false));
    assert_eq!(outcome.counts, 3, "each has the first statement only");
}
