//! hackbench: groups of senders and receivers of short messages.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::{Metric, MetricRule};
use crate::workload::{ChannelSpec, Op, TaskSpec, Workload};

pub(super) const HACKBENCH: Benchmark = Benchmark {
    name: "hackbench",
    about: "hackbench, or `perf bench sched messaging` (texts 002 and 003): in each group 20 senders write 100 bytes \
            to each of 20 receivers, over and over, through pipes or sockets. One parent starts all tasks, which then \
            wait for each other. A part of the loops runs; the others take the pace of the last half of it. Leaves out \
            contention for the locks of a pipe.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Extrapolated }),
    params: &[
        Param::int("groups", (1, 2400), "1", "number of groups, of 40 tasks each"),
        Param::int("loops_total", (1, 1_000_000), "1000", "messages from each sender to each receiver"),
        Param::int(
            "loops",
            (0, 1_000_000),
            "0",
            "how many of them are simulated; 0: two million messages of all groups, at least ten loops, at most all",
        ),
        Param::int("iterations", (1, 1000), "1", "runs one after the other; the time is that of the last"),
        Param::word("through", &["pipe", "socket"], "pipe", "what messages go through"),
        Param::word("kind", &["thread", "process"], "process", "what the tasks are"),
        Param::int("send_cycles", (1, 1_000_000_000), "9000", "cycles of a sender for each message").calibrated(),
        Param::int("receive_cycles", (1, 1_000_000_000), "9000", "cycles of a receiver for each message").calibrated(),
        Param::int(
            "process_cycles",
            (0, 1_000_000_000),
            "400",
            "more cycles of each for each message if they do not share their memory",
        )
        .calibrated(),
        Param::fixed_permille("0"),
    ],
    build: hackbench,
};

/// Senders of a group, and receivers.
const A_SIDE: u64 = 20;
const MESSAGE_BYTES: u32 = 100;

/// How tasks are started and end (group() and create_worker()), in cycles at 2.5 GHz: sched events of hackbench 2.4 of rt-tests
/// with 2 groups on Linux 6.18, a virtual EPYC.
struct Start {
    /// Of the parent for each that it starts, with its pipe.
    fork: u64,
    /// Of a child until it waits for the others.
    setup: u64,
    /// Of a child's end.
    exit: u64,
}
const PROCESS: Start = Start { fork: 200_000, setup: 83_000, exit: 170_000 };
const THREAD: Start = Start { fork: 200_000, setup: 24_000, exit: 33_000 };

/// Messages of a run that are simulated if nothing else is asked for: from a third of a second on 80 CPUs to some seconds on a few.
const MESSAGES: u64 = 2_000_000;

/// Children that are ready.
const READY: u32 = 0;
/// All, with the parent, who lets them begin.
const GO: u32 = 0;

fn hackbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let is_process = params.word("kind") == "process";
    let more = if is_process { params.int("process_cycles") } else { 0 };
    let ns = |name: &str| cycles_ns(machine, params.int(name) + more);
    let (send_ns, receive_ns) = (ns("send_cycles"), ns("receive_cycles"));
    let groups = params.int("groups") as u32;
    let nr_tasks = 2 * A_SIDE * u64::from(groups);
    let total = params.int("loops_total");
    let loops = match params.int("loops") {
        0 => (MESSAGES / (A_SIDE * A_SIDE * u64::from(groups))).max(10).min(total),
        loops if loops > total => return Err(format!("`loops` is {loops}, but there are {total}")),
        loops => loops,
    };
    let start = if is_process { PROCESS } else { THREAD };
    let run = |program: &mut Program, cycles: u64| {
        program.run(cycles_ns(machine, cycles), fixed);
    };
    // A child's part of a loop is a count.
    let child = |part: &dyn Fn(&mut Program)| {
        Program::of(|program| {
            run(program, start.setup);
            program.op(Op::SemPost { sem: READY }).op(Op::Barrier { barrier: GO }).repeat(loops, |program| {
                part(program);
                program.op(Op::Count);
            });
            run(program, start.exit);
        })
    };
    let mut tasks = vec![TaskSpec::default()];
    for group in 0..groups {
        let first = group * A_SIDE as u32;
        for receiver in 0..A_SIDE as u32 {
            let program = child(&|program| {
                program.repeat(A_SIDE, |program| {
                    program.op(Op::Recv { channel: first + receiver }).run(receive_ns, fixed);
                });
            });
            tasks.push(program.template(format!("receiver{group}-{receiver}")));
        }
        for sender in 0..A_SIDE as u32 {
            let program = child(&|program| {
                for receiver in 0..A_SIDE as u32 {
                    program.run(send_ns, fixed).op(Op::Send { channel: first + receiver, bytes: MESSAGE_BYTES });
                }
            });
            tasks.push(program.template(format!("sender{group}-{sender}")));
        }
    }
    let iterations = params.int("iterations");
    let parent = Program::of(|program| {
        program.repeat(iterations, |program| {
            for child in 1..=nr_tasks as u32 {
                run(program, start.fork);
                program.op(Op::Fork { task: child });
            }
            program.repeat(nr_tasks, |program| {
                program.op(Op::SemWait { sem: READY });
            });
            // The clock is read, then all begin.
            program.op(Op::Count).op(Op::Barrier { barrier: GO }).repeat(nr_tasks, |program| {
                program.op(Op::WaitChild);
            });
        });
    });
    tasks[0] = parent.task(String::from("hackbench"));
    tasks[0].delay_ns = start_ns(seed, 0, 1_000_000);
    // A pipe holds 16 pages of 40 messages; a socket as many as its 208 KiB have room for with 768 bytes for each.
    let messages = if params.word("through") == "pipe" { 16 * 40 } else { 208 * 1024 / 768 };
    let capacity_bytes = messages * MESSAGE_BYTES;
    // The last of the iterations is measured. The clocks have climbed in its second half, and nobody has ended before the last
    // eighth.
    let counts = nr_tasks * loops;
    let begin = (iterations - 1) * (counts + 1) + 1;
    let (from, to) = (counts / 2, counts * 7 / 8);
    let metric = HACKBENCH.reports.and_then(|reports| reports.metric((nr_tasks * (total - loops), to - from)));
    Ok(Workload {
        tasks,
        channels: vec![ChannelSpec { capacity_bytes, sync_wakeup: true }; groups as usize * A_SIDE as usize],
        barriers: vec![nr_tasks as u32 + 1],
        semaphores: vec![0],
        duration_ns: Some(600_000_000_000),
        nr_main: 1,
        metric: metric.map(|metric| Metric { marks: vec![begin, begin + from, begin + to], ..metric }),
        ..Workload::default()
    })
}
