//! tbench: pairs of a client and a server that answer each other over loopback sockets.

use super::shape::{Program, cycles_ns, of_1024, spread, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, Op, TaskSpec, Workload};

pub(super) const TBENCH: Benchmark = Benchmark {
    name: "tbench",
    about: "tbench4 with mmtests' client-tiny load (texts 000 and 002): each client sends a request over a loopback \
            socket and waits for its server's answer, without any pause; wake-ups are synchronous. The sizes of the \
            exchanges are those of the load file, in its order. Leaves out what softirqs and TCP's \
            acknowledgements do on other CPUs.",
    reports: Some(Reports { name: "throughput", unit: "MB/s", higher_is_better: true, rule: MetricRule::Rate }),
    params: &[
        Param::int("clients", (1, 100_000), "1", "number of clients, each with a server of its own"),
        Param::int(
            "exchange_cycles",
            (1, 1_000_000_000),
            "14000",
            "cycles of one exchange without the bytes, client and server together",
        )
        .calibrated(),
        Param::int(
            "byte_cycles_permille",
            (0, 1_000_000),
            "800",
            "cycles of a byte, copied in and out again on both sides, in 1/1000",
        )
        .calibrated(),
        Param::int(
            "server_permille",
            (0, 1000),
            "450",
            "share of the server in the cycles, in 1/1000; 442 to 447 where both share a CPU and 454 to 488 on two CPUs: \
             schedstat of tbench 4.0 with this load on Linux 6.18, a virtual Xeon",
        ),
        Param::int(
            "after_permille",
            (0, 900),
            "290",
            "share of either side's work without the bytes that comes after its wake-up of the other: the rest of the \
             softirq and of the system call, and the next one up to its sleep, in 1/1000; 287 where both share a CPU and \
             296 on two CPUs: from sched_waking to sched_switch, same source",
        ),
        Param::int(
            "line_ns",
            (0, 10_000),
            "0",
            "ns for which an exchange has the cache line that all loopback packets write, both sides together: the \
             reference count of lo's route (include/net/dst.h:dst_hold(), dst_release(), v5.9); whoever waits for it runs",
        )
        .calibrated(),
        Param::int(
            "shared_ns",
            (0, 100_000),
            "0",
            "ns that an exchange waits, both sides together, for the lines that all CPUs read in each exchange and write in \
             few, if all of them come from other last-level caches: sums and masks of the scheduler and of the network \
             (kernel/sched/fair.c:update_tg_load_avg(), calc_group_shares(), v5.9); whoever waits for them runs",
        )
        .calibrated(),
        Param::int(
            "shared_every",
            (0, 1_000_000),
            "0",
            "exchanges of all pairs for each that writes these lines; 0: no line is shared",
        )
        .calibrated(),
        Param::int(
            "smt_permille",
            (0, 1000),
            "0",
            "what each of two busy threads of a core does of one alone, in 1/1000; 0: the machine's smt_yield",
        )
        .calibrated(),
        Param::int(
            "launched",
            (0, 1),
            "1",
            "1: processes are started as tbench and tbench_srv start them, within the first 0.1 to 0.2 s; 0: all are there, asleep \
             for long, as in minutes that a window of some tenths of a second stands for",
        ),
        Param::fixed_permille("0"),
    ],
    build: tbench,
};

/// How processes are started (dbench.c:create_procs() and tbench_srv.c:main(), dbench 4.0), in cycles: sched events of tbench 4.0
/// on Linux 6.18, a virtual EPYC.
mod start {
    /// Of the launcher for each client that it forks.
    pub(super) const FORK_CYCLES: u64 = 270_000;
    /// Of a client until it has read its load file and connects: a half to one and a half of it.
    pub(super) const SETUP_CYCLES: u64 = 800_000;
    /// Of a client from there to its wait for the others.
    pub(super) const READY_CYCLES: u64 = 30_000;
    /// Of the listening server for each connection, with the fork.
    pub(super) const ACCEPT_CYCLES: u64 = 250_000;
    /// Of a connection's server before it first waits for a request.
    pub(super) const SERVER_CYCLES: u64 = 230_000;
    /// Between two looks of the launcher whether all are ready, ns.
    pub(super) const LOOK_NS: u64 = 100_000_000;
}

/// The exchanges of client-tiny in order, in pieces of [`PIECE`]: how many of a piece carry about 60 KiB, and how many 2 to
/// 35 KiB; the others are small (dbench 4.0, client.txt lines 601 to 4173, and the sizes of sockio.c).
#[rustfmt::skip]
const PIECES: [(u64, u64); 64] = [
    (0, 23), (1, 14), (1, 20), (1, 11), (1, 26), (1, 9), (1, 15), (14, 16), (0, 12), (0, 12), (0, 10), (0, 10),
    (20, 21), (23, 24), (0, 5), (0, 9), (0, 10), (0, 15), (0, 13), (0, 10), (0, 7), (0, 17), (0, 9), (0, 8), (0, 9),
    (0, 26), (0, 11), (0, 14), (0, 10), (6, 13), (8, 17), (2, 8), (2, 4), (9, 6), (0, 43), (3, 4), (24, 24), (19, 21),
    (0, 14), (0, 23), (9, 10), (10, 2), (0, 12), (1, 24), (0, 55), (0, 45), (2, 21), (14, 15), (0, 5), (2, 3),
    (26, 28), (16, 22), (0, 8), (0, 22), (0, 12), (5, 9), (9, 8), (0, 0), (4, 1), (0, 3), (0, 0), (0, 3), (0, 3),
    (0, 0),
];
const PIECE: u64 = 56;
/// Mean bytes of the three kinds of exchanges, both ways together.
const LARGE_BYTES: u64 = 62_876;
const MIDDLE_BYTES: u64 = 5_021;
const SMALL_BYTES: u64 = 154;

/// The bytes of each exchange of a pass; the kinds are spread evenly over a piece.
fn pass_bytes() -> impl Iterator<Item = u64> {
    // Whether the `n`-th of `all` is one of `some`: where their share of the first ones reaches the next whole number.
    let is_due = |n: u64, some: u64, all: u64| (n + 1) * some / all > n * some / all;
    (0u64..).zip(PIECES).flat_map(move |(index, (large, middle))| {
        let all = PIECE.min(PASS_EXCHANGES - index * PIECE);
        let not_small = large + middle;
        (0..all).map(move |n| match is_due(n, not_small, all) {
            true if is_due(n * not_small / all, large, not_small) => LARGE_BYTES,
            true => MIDDLE_BYTES,
            false => SMALL_BYTES,
        })
    })
}

/// Megabytes (2^20 bytes) that the 3573 lines of client-tiny are counted as, in millionths.
const PASS_MB_PPM: u64 = 18_234_000;
const PASS_EXCHANGES: u64 = 3573;

/// Connections that wait for the server.
const CONNECTS: u32 = 0;
/// Clients that wait for the others.
const READY: u32 = 1;
/// Clients that may begin.
const GO: u32 = 2;
/// The cache line of the reference count that all packets of `lo` take and give back.
const ROUTE: u32 = 0;
/// The lines that all read and few write, on the client's side and on the server's.
const SHARED: [u32; 2] = [1, 2];
/// The lengths of a client's setup.
const SETUP: u32 = 2;

fn tbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let clients = params.int("clients") as u32;
    let server = params.int("server_permille");
    let fixed = of_1024(params.int("fixed_permille"));
    let after = params.int("after_permille");
    let exchange_cycles = params.int("exchange_cycles");
    // A byte is copied before the other side is woken, or before it is read on this one.
    let lengths = |side: u64| -> Vec<u64> {
        let before = exchange_cycles * (1000 - after) / 1000;
        let cycles = |bytes: u64| before + bytes * params.int("byte_cycles_permille") / 1000;
        pass_bytes().map(|bytes| cycles_ns(machine, cycles(bytes) * side / 1000)).collect()
    };
    let after_ns = |side: u64| cycles_ns(machine, exchange_cycles * after / 1000 * side / 1000);
    let (client_after_ns, server_after_ns) = (after_ns(1000 - server), after_ns(server));
    let launched = params.int("launched") != 0;
    let line_ns = params.int("line_ns");
    let (shared_ns, every) = (params.int("shared_ns"), params.int("shared_every") as u32);
    let is_shared = shared_ns > 0 && every > 0;
    // Each side's packet takes its reference before the other side is woken.
    let reference = |program: &mut Program, side: usize| {
        let half = |ns: u64| if side == 0 { ns - ns / 2 } else { ns / 2 };
        if is_shared {
            program.op(Op::Share { line: SHARED[side], fetch_ns: half(shared_ns) as u32, every });
        }
        if line_ns > 0 {
            program.op(Op::Contend { line: ROUTE, hold_ns: half(line_ns) });
        }
    };
    let run = |program: &mut Program, cycles: u64| {
        program.run(cycles_ns(machine, cycles), fixed);
    };
    let pair = |pair: u32| {
        let (request, answer) = (2 * pair, 2 * pair + 1);
        let client = Program::of(|program| {
            if launched {
                program.draw(SETUP, fixed).op(Op::SemPost { sem: CONNECTS });
                run(program, start::READY_CYCLES);
                program.op(Op::SemPost { sem: READY }).op(Op::SemWait { sem: GO });
            }
            program.forever(|program| {
                program.listed(0, fixed);
                reference(program, 0);
                program
                    .op(Op::Send { channel: request, bytes: 128 })
                    .run(client_after_ns, fixed)
                    .op(Op::Recv { channel: answer })
                    .op(Op::Count);
            });
        });
        let server = Program::of(|program| {
            if launched {
                run(program, start::SERVER_CYCLES);
            }
            program.forever(|program| {
                program.op(Op::Recv { channel: request }).listed(1, fixed);
                reference(program, 1);
                program.op(Op::Send { channel: answer, bytes: 128 }).run(server_after_ns, fixed);
            });
        });
        let names = (format!("tbench_srv{pair}"), format!("tbench{pair}"));
        if launched {
            return [server.template(names.0), client.template(names.1)];
        }
        let mut tasks = [server.task(names.0), client.task(names.1)];
        tasks[1].delay_ns = start_ns(seed, pair.into(), 1_000_000);
        for task in &mut tasks {
            task.seasoned = true;
        }
        tasks
    };
    let mut tasks: Vec<TaskSpec> = (0..clients).flat_map(pair).collect();
    if launched {
        let server = Program::of(|program| {
            for pair in 0..clients {
                program.op(Op::SemWait { sem: CONNECTS });
                run(program, start::ACCEPT_CYCLES);
                program.op(Op::Fork { task: 2 * pair });
            }
            program.op(Op::SemWait { sem: CONNECTS });
        });
        let client = Program::of(|program| {
            for pair in 0..clients {
                run(program, start::FORK_CYCLES);
                program.op(Op::Fork { task: 2 * pair + 1 });
            }
            program.op(Op::Sleep { ns: start::LOOK_NS });
            program.repeat(clients.into(), |program| {
                program.op(Op::SemWait { sem: READY });
            });
            program.repeat(clients.into(), |program| {
                program.op(Op::SemPost { sem: GO });
            });
            program.forever(|program| {
                program.op(Op::Sleep { ns: 1_000_000_000 });
            });
        });
        tasks.push(server.task(String::from("tbench_srv")));
        let mut client = client.task(String::from("tbench"));
        client.delay_ns = start_ns(seed, 0, 1_000_000);
        tasks.push(client);
    }
    let setup = spread(start::SETUP_CYCLES, &[8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24]);
    let mut draws = vec![lengths(1000 - server), lengths(server)];
    if launched {
        draws.push(setup.into_iter().map(|cycles| cycles_ns(machine, cycles)).collect());
    }
    Ok(Workload {
        tasks,
        channels: vec![ChannelSpec { capacity_bytes: 1 << 20, sync_wakeup: true }; 2 * clients as usize],
        draws,
        nr_lines: if is_shared { 3 } else { u32::from(line_ns > 0) },
        smt_yield: Some(of_1024(params.int("smt_permille")).into()).filter(|&share| share > 0),
        semaphores: vec![0; if launched { 3 } else { 0 }],
        duration_ns: Some(1_500_000_000),
        warmup_ns: 500_000_000,
        metric: TBENCH.reports.and_then(|reports| reports.metric((PASS_MB_PPM, PASS_EXCHANGES * 1_000_000))),
        ..Workload::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the load file's lines add up to.
    #[test]
    fn a_pass_is_that_of_the_load_file() {
        let bytes: Vec<u64> = pass_bytes().collect();
        assert_eq!(bytes.len() as u64, PASS_EXCHANGES);
        let count = |kind| bytes.iter().filter(|&&bytes| bytes == kind).count();
        assert_eq!([LARGE_BYTES, MIDDLE_BYTES, SMALL_BYTES].map(count), [234, 884, 2455]);
        assert_eq!(bytes.iter().sum::<u64>() / PASS_EXCHANGES, 5465);
    }
}
