//! pgbench: clients and their PostgreSQL backends, reading only or with TPC-B's transactions.

use super::shape::{Program, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, DeviceSpec, Op, TaskSpec, Workload};

const REPORTS: Reports = Reports { name: "transactions", unit: "1/s", higher_is_better: true, rule: MetricRule::Rate };

const CLIENTS: Param = Param::int("clients", (1, 100_000), "1", "number of clients, each with a backend of its own");
const CLIENT_CYCLES: Param =
    Param::int("client_cycles", (1, 1_000_000_000), "25000", "cycles of the client for each statement").calibrated();
const BACKEND_CYCLES: Param =
    Param::int("backend_cycles", (1, 1_000_000_000), "110000", "cycles of the backend for each statement").calibrated();
const FIXED: Param = Param::fixed_permille("100");

pub(super) const PGBENCH_RO: Benchmark = Benchmark {
    name: "pgbench-ro",
    about: "pgbench -S (text 002): a client sends one SELECT over a unix socket and waits for its backend's answer; all \
            data is in memory. Leaves out the locks of shared buffers and the checkpointer.",
    reports: Some(REPORTS),
    params: &[CLIENTS, CLIENT_CYCLES, BACKEND_CYCLES, FIXED],
    build: read_only,
};

pub(super) const PGBENCH_RW: Benchmark = Benchmark {
    name: "pgbench-rw",
    about: "pgbench's TPC-B transactions (text 002): seven statements; the fifth holds the row lock of one of `scale` \
            branches until the end, where the backend waits for the write-ahead log. One task stands for the backend \
            that flushes the log for all that wait. Leaves out the background writer and the checkpointer.",
    reports: Some(REPORTS),
    params: &[
        CLIENTS,
        Param::int("scale", (1, 100_000), "100", "number of branches"),
        CLIENT_CYCLES,
        BACKEND_CYCLES,
        FIXED,
        Param::int("log_cycles", (1, 1_000_000_000), "60000", "cycles for each flush of the log").calibrated(),
        Param::int("disk_flush_us", (0, 100_000_000), "150", "time of a flush of the disk in us").calibrated(),
    ],
    build: read_write,
};

/// A statement's way there and back; the client's side.
fn ask(program: &mut Program, pair: u32, fixed: u16) {
    program.draw(0, fixed).op(Op::Send { channel: 2 * pair, bytes: 200 }).op(Op::Recv { channel: 2 * pair + 1 });
}

/// The backend's answer to a statement, which it has worked on.
fn answer(program: &mut Program, pair: u32) {
    program.op(Op::Send { channel: 2 * pair + 1, bytes: 200 });
}

fn with_pairs(
    params: &Params,
    machine: &Machine,
    seed: u64,
    statements: u64,
    backend: impl Fn(&mut Program, u32, u16),
) -> Workload {
    let clients = params.int("clients") as u32;
    let fixed = of_1024(params.int("fixed_permille"));
    let pair = |pair: u32| -> [TaskSpec; 2] {
        let client = Program::of(|program| {
            program.forever(|program| {
                program.repeat(statements, |program| ask(program, pair, fixed)).op(Op::Count);
            });
        });
        let server = Program::of(|program| {
            program.forever(|program| backend(program, pair, fixed));
        });
        let mut tasks = [server.task(format!("postgres{pair}")), client.task(format!("pgbench{pair}"))];
        tasks[1].delay_ns = start_ns(seed, pair.into(), 5_000_000);
        // All clients connect before the first one begins (pgbench.c:threadRun(), PostgreSQL 15), and minutes are measured.
        for task in &mut tasks {
            task.seasoned = true;
        }
        tasks
    };
    Workload {
        tasks: (0..clients).flat_map(pair).collect(),
        channels: vec![ChannelSpec { capacity_bytes: 1 << 17, sync_wakeup: true }; 2 * clients as usize],
        draws: ["client_cycles", "backend_cycles"]
            .map(|name| exponential(cycles_ns(machine, params.int(name))))
            .to_vec(),
        duration_ns: Some(1_500_000_000),
        warmup_ns: 500_000_000,
        metric: REPORTS.metric((1, 1)),
        ..Workload::default()
    }
}

fn read_only(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    Ok(with_pairs(params, machine, seed, 1, |program, pair, fixed| {
        program.op(Op::Recv { channel: 2 * pair }).draw(1, fixed);
        answer(program, pair);
    }))
}

fn read_write(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let scale = params.int("scale") as u32;
    let mut workload = with_pairs(params, machine, seed, 7, |program, pair, fixed| {
        // Which branch is drawn at random is here the client's own: as many clients share one on average.
        let branch = pair % scale;
        for statement in 1..=7 {
            program.op(Op::Recv { channel: 2 * pair });
            match statement {
                5 => program.op(Op::Lock { mutex: branch }).draw(1, fixed),
                7 => program.op(Op::Call { service: 0, iowait: true }).op(Op::Unlock { mutex: branch }),
                _ => program.draw(1, fixed),
            };
            answer(program, pair);
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
        service_ns: params.int("disk_flush_us") * 1000,
        per_kib_ns: 1000,
        bus_per_kib_ns: 0,
        queue_depth: 1,
        irq_cpu: None,
        irq_ns: 0,
    });
    Ok(workload)
}
