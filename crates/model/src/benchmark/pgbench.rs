//! pgbench: threads that serve many connections each, and a PostgreSQL backend for each connection, reading only or with
//! TPC-B's transactions.

use super::disk::{DISK, DISK_FLUSH_US};
use super::shape::{Program, cycles_ns, of_1024, spread, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, DeviceSpec, Op, TaskSpec, Workload};

const REPORTS: Reports = Reports { name: "transactions", unit: "1/s", higher_is_better: true, rule: MetricRule::Rate };

const CLIENTS: Param =
    Param::int("clients", (1, 100_000), "1", "number of clients: connections, each with a backend of its own");
const THREADS: Param = Param::int(
    "threads",
    (0, 100_000),
    "0",
    "number of pgbench's threads, which share the clients; 0: as mmtests does, one for each NUMA node, with the clients \
     rounded up to a multiple of them, or one if there are fewer clients than nodes",
);
const CLIENT_CYCLES: Param = Param::int(
    "client_cycles",
    (1, 1_000_000_000),
    "45000",
    "cycles of pgbench for each statement: median of nine runs with 1, 4 and 16 clients; schedstat of PostgreSQL 15, \
     -S over TCP without TLS, on Linux 6.18, a virtual EPYC that other work kept busy",
)
.calibrated();
const BACKEND_CYCLES: Param =
    Param::int("backend_cycles", (1, 1_000_000_000), "180000", "cycles of the backend for each statement, same source")
        .calibrated();
const CLIENT_AFTER: Param = Param::int(
    "client_after_permille",
    (0, 900),
    "390",
    "share of pgbench's cycles for a statement that comes after its wake-up of the backend, in 1/1000: from sched_waking \
     to sched_switch with one client, same source",
);
const BACKEND_AFTER: Param = Param::int(
    "backend_after_permille",
    (0, 900),
    "170",
    "share of the backend's cycles for a statement that comes after its wake-up of pgbench, in 1/1000: 181, 157 and 167 with \
     1, 4 and 16 clients, same source",
);
const FIXED: Param = Param::fixed_permille("100");

pub(super) const PGBENCH_RO: Benchmark = Benchmark {
    name: "pgbench-ro",
    about: "pgbench -S over TCP on loopback (text 002): few threads serve all clients. A thread sleeps until any of its \
            connections has an answer, and then sends the next SELECT on each that has one; a backend sleeps until it has \
            a statement. All data is in memory. Leaves out the locks of shared buffers, the checkpointer and what softirqs \
            do on other CPUs.",
    reports: Some(REPORTS),
    params: &[CLIENTS, THREADS, CLIENT_CYCLES, BACKEND_CYCLES, CLIENT_AFTER, BACKEND_AFTER, FIXED],
    build: read_only,
};

pub(super) const PGBENCH_RW: Benchmark = Benchmark {
    name: "pgbench-rw",
    about: "pgbench's TPC-B transactions over TCP on loopback (text 002), from few threads as in pgbench-ro: seven statements; \
            the fifth holds the row lock of one of `scale` branches until the end, where the backend waits for the \
            write-ahead log. One task stands for the backend that flushes the log for all that wait. Leaves out the \
            background writer and the checkpointer.",
    reports: Some(REPORTS),
    params: &[
        CLIENTS,
        THREADS,
        Param::int("scale", (1, 100_000), "100", "number of branches"),
        CLIENT_CYCLES,
        BACKEND_CYCLES,
        CLIENT_AFTER,
        BACKEND_AFTER,
        FIXED,
        Param::int("log_cycles", (1, 1_000_000_000), "60000", "cycles for each flush of the log").calibrated(),
        DISK,
        DISK_FLUSH_US,
    ],
    build: read_write,
};

/// Sixteen equally likely lengths of pgbench's work for a statement, to each other (`opplab learn`, one client, without TLS).
const CLIENT_LENGTHS: [u64; 16] = [124, 125, 125, 126, 126, 127, 128, 129, 131, 139, 152, 170, 190, 208, 225, 474];
/// The same of the backend's (four clients).
const BACKEND_LENGTHS: [u64; 16] = [41, 50, 56, 60, 64, 68, 72, 76, 79, 82, 85, 88, 91, 96, 107, 199];

/// Bytes of a statement and of an answer: far less than a socket holds.
const BYTES: u32 = 200;

/// Tables of draws.
const CLIENT: u32 = 0;
const BACKEND: u32 = 1;

/// What both sides do once they have woken each other.
struct Sides {
    fixed: u16,
    client_after_ns: u64,
    backend_after_ns: u64,
}

/// How many threads there are, and how many clients (mmtests, pgbench-bench: PGBENCH_THREADS).
fn threads_and_clients(params: &Params, machine: &Machine) -> (u32, u32) {
    let (threads, clients) = (params.int("threads") as u32, params.int("clients") as u32);
    if threads > 0 {
        return (threads.min(clients), clients);
    }
    let mut nodes: Vec<u32> = machine.cpus.iter().map(|place| place.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let nodes = nodes.len() as u32;
    if clients < nodes { (1, clients) } else { (nodes, clients.next_multiple_of(nodes)) }
}

/// How many connections each thread has (pgbench.c:main(), PostgreSQL 15).
fn deal(clients: u32, threads: u32) -> impl Iterator<Item = u32> {
    let mut left = clients;
    (0..threads).map(move |thread| {
        let share = left.div_ceil(threads - thread);
        left -= share;
        share
    })
}

/// The workload of `transaction`, which adds a backend's part of one, given the backend's number and the channels of its
/// statements and of its answers.
fn with_backends(
    params: &Params,
    machine: &Machine,
    seed: u64,
    transaction: impl Fn(&mut Program, &Sides, u32, (u32, u32)),
) -> Workload {
    let (threads, clients) = threads_and_clients(params, machine);
    let (client, backend) = (params.int("client_cycles"), params.int("backend_cycles"));
    let (client_after, backend_after) = (params.int("client_after_permille"), params.int("backend_after_permille"));
    let ns = |cycles: u64, permille: u64| cycles_ns(machine, cycles * permille / 1000);
    let sides = Sides {
        fixed: of_1024(params.int("fixed_permille")),
        client_after_ns: ns(client, client_after),
        backend_after_ns: ns(backend, backend_after),
    };
    let mut tasks: Vec<TaskSpec> = Vec::new();
    let mut first = 0;
    for (thread, connections) in (0..threads).zip(deal(clients, threads)) {
        let answers = clients + thread;
        for statements in first..first + connections {
            let backend = Program::of(|program| {
                program.forever(|program| {
                    transaction(program, &sides, statements, (statements, answers));
                    program.op(Op::Count);
                });
            });
            tasks.push(backend.task(format!("postgres{statements}")));
        }
        let program = Program::of(|program| {
            // pgbench.c:threadRun(), PostgreSQL 15: all connections are there and begin in their order.
            for statements in first..first + connections {
                ask(program, &sides, Op::Send { channel: statements, bytes: BYTES });
            }
            program.forever(|program| {
                program.op(Op::Recv { channel: answers });
                ask(program, &sides, Op::SendBack { bytes: BYTES });
            });
        });
        let mut task = program.task(format!("pgbench{thread}"));
        task.delay_ns = start_ns(seed, thread.into(), 5_000_000);
        tasks.push(task);
        first += connections;
    }
    // All clients connect before the first one begins (the same function), and minutes are measured.
    for task in &mut tasks {
        task.seasoned = true;
    }
    // A backend sleeps in epoll_wait() (be-secure.c:secure_read(), PostgreSQL 15), which makes the wake-up an ordinary one
    // (eventpoll.c:ep_poll_callback(), v5.0; synchronous since v6.13), and a thread in ppoll(), which does not
    // (select.c:__pollwake(), v5.0).
    let channel = |sync_wakeup: bool| ChannelSpec { capacity_bytes: 1 << 20, sync_wakeup };
    let channels = (0..clients).map(|_| channel(false)).chain((0..threads).map(|_| channel(true))).collect();
    Workload {
        tasks,
        channels,
        draws: vec![
            spread(ns(client, 1000 - client_after), &CLIENT_LENGTHS),
            spread(ns(backend, 1000 - backend_after), &BACKEND_LENGTHS),
        ],
        duration_ns: Some(1_500_000_000),
        warmup_ns: 500_000_000,
        metric: REPORTS.metric((1, 1)),
        ..Workload::default()
    }
}

/// A thread's work for a statement, which `send` sends.
fn ask(program: &mut Program, sides: &Sides, send: Op) {
    program.draw(CLIENT, sides.fixed).op(send).run(sides.client_after_ns, sides.fixed);
}

/// The backend's answer to a statement, which it has worked on.
fn answer(program: &mut Program, sides: &Sides, (statements, answers): (u32, u32)) {
    program
        .op(Op::SendFrom { channel: answers, bytes: BYTES, back: statements })
        .run(sides.backend_after_ns, sides.fixed);
}

fn read_only(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    Ok(with_backends(params, machine, seed, |program, sides, _, channels| {
        program.op(Op::Recv { channel: channels.0 }).draw(BACKEND, sides.fixed);
        answer(program, sides, channels);
    }))
}

fn read_write(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let scale = params.int("scale") as u32;
    let mut workload = with_backends(params, machine, seed, |program, sides, backend, channels| {
        // Which branch is drawn at random is here the client's own: as many clients share one on average.
        let branch = backend % scale;
        for statement in 1..=7 {
            program.op(Op::Recv { channel: channels.0 });
            match statement {
                5 => program.op(Op::Lock { mutex: branch }).draw(BACKEND, sides.fixed),
                7 => program.op(Op::Call { service: 0, iowait: true }).op(Op::Unlock { mutex: branch }),
                _ => program.draw(BACKEND, sides.fixed),
            };
            answer(program, sides, channels);
        }
    });
    let log_ns = cycles_ns(machine, params.int("log_cycles"));
    let fixed = of_1024(params.int("fixed_permille"));
    let log = Program::of(|program| {
        program.forever(|program| {
            program
                .op(Op::Accept { service: 0, calls_max: u32::MAX })
                .run(log_ns, fixed)
                .op(Op::Io { device: 0, bytes: 8192 })
                .op(Op::Reply);
        });
    });
    workload.tasks.push(log.task(String::from("postgres-wal")));
    workload.nr_mutexes = scale;
    workload.nr_services = 1;
    workload.devices.push(DeviceSpec {
        service_ns: params.disk(machine).flush_us * 1000,
        per_kib_ns: 1000,
        queue_depth: 1,
        ..DeviceSpec::default()
    });
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Swarm;

    /// Threads and clients on a machine of `nodes` nodes.
    fn shared(nodes: u32, threads: u64, clients: u64) -> (Vec<u32>, u32) {
        let mut machine = (0u64..)
            .map(|seed| Swarm::default().machine(seed))
            .find(|machine| machine.nr_cpus() >= 4)
            .expect("some machine has four CPUs");
        for (index, place) in (0..).zip(&mut machine.cpus) {
            place.node = index % nodes;
        }
        let params = [("clients", clients), ("threads", threads)];
        let params = params.map(|(name, value)| (name.to_owned(), super::super::ParamValue::Int(value)));
        let (threads, clients) = threads_and_clients(&Params(params.to_vec()), &machine);
        (deal(clients, threads).collect(), clients)
    }

    #[test]
    fn threads_are_those_of_mmtests() {
        assert_eq!(shared(1, 0, 5), (vec![5], 5));
        assert_eq!(shared(2, 0, 1), (vec![1], 1), "fewer clients than nodes");
        assert_eq!(shared(2, 0, 5), (vec![3, 3], 6), "rounded up");
        assert_eq!(shared(4, 3, 8), (vec![3, 3, 2], 8), "as given");
        assert_eq!(shared(4, 9, 2), (vec![1, 1], 2), "never more than clients");
    }
}
