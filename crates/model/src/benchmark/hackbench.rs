//! hackbench: groups of senders and receivers of short messages.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, Op, Workload};

pub(super) const HACKBENCH: Benchmark = Benchmark {
    name: "hackbench",
    about: "hackbench, or `perf bench sched messaging` (texts 002 and 003): in each group 20 senders write 100 bytes \
            to each of 20 receivers, over and over, through pipes or sockets. A part of the loops runs; the time is \
            that of all. Leaves out the start and end of tasks, between iterations too, and contention for the locks \
            of a pipe.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Elapsed }),
    params: &[
        Param::int("groups", (1, 2500), "1", "number of groups, of 40 tasks each"),
        Param::int("loops_total", (1, 1_000_000), "1000", "messages from each sender to each receiver"),
        Param::int(
            "loops",
            (0, 1_000_000),
            "0",
            "how many of them are simulated; 0: a tenth, at least ten, at most all",
        ),
        Param::int("iterations", (1, 1000), "1", "runs one after the other; the time is their mean"),
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

fn hackbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let total = params.int("loops_total");
    let loops = match params.int("loops") {
        0 => (total / 10).max(10).min(total),
        loops if loops > total => return Err(format!("`loops` is {loops}, but there are {total}")),
        loops => loops,
    };
    let iterations = params.int("iterations");
    let more = if params.word("kind") == "process" { params.int("process_cycles") } else { 0 };
    let ns = |name: &str| cycles_ns(machine, params.int(name) + more);
    let (send_ns, receive_ns) = (ns("send_cycles"), ns("receive_cycles"));
    // A pipe holds 16 pages of 40 messages; a socket as many as its 208 KiB have room for with 768 bytes for each.
    let messages = if params.word("through") == "pipe" { 16 * 40 } else { 208 * 1024 / 768 };
    let groups = params.int("groups") as u32;
    let mut tasks = Vec::new();
    for group in 0..groups {
        let first = group * A_SIDE as u32;
        for receiver in 0..A_SIDE as u32 {
            let program = Program::of(|program| {
                program.repeat(iterations, |program| {
                    program.op(Op::Barrier { barrier: 0 }).repeat(A_SIDE * loops, |program| {
                        program.op(Op::Recv { channel: first + receiver }).run(receive_ns, fixed);
                    });
                });
            });
            tasks.push(program.task(format!("receiver{group}-{receiver}")));
        }
        for sender in 0..A_SIDE as u32 {
            let program = Program::of(|program| {
                program.repeat(iterations, |program| {
                    program.op(Op::Barrier { barrier: 0 }).repeat(loops, |program| {
                        for receiver in 0..A_SIDE as u32 {
                            let channel = first + receiver;
                            program.run(send_ns, fixed).op(Op::Send { channel, bytes: MESSAGE_BYTES });
                        }
                    });
                });
            });
            tasks.push(program.task(format!("sender{group}-{sender}")));
        }
    }
    for (index, task) in (0u64..).zip(&mut tasks) {
        task.delay_ns = start_ns(seed, index, 1_000_000);
    }
    let capacity_bytes = messages * MESSAGE_BYTES;
    let nr_tasks = tasks.len() as u32;
    Ok(Workload {
        tasks,
        channels: vec![ChannelSpec { capacity_bytes, sync_wakeup: true }; groups as usize * A_SIDE as usize],
        barriers: vec![nr_tasks],
        duration_ns: Some(600_000_000_000),
        nr_main: nr_tasks,
        metric: HACKBENCH.reports.and_then(|reports| reports.metric((total, loops * iterations))),
        ..Workload::default()
    })
}
