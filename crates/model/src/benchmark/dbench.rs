//! dbench: clients that replay file operations and wait for the journal.

use super::journal::{Disk, flush, journal};
use super::shape::{Program, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const DBENCH: Benchmark = Benchmark {
    name: "dbench",
    about: "dbench4 with mmtests' client-tiny load on XFS (texts 000, 001, 002): each client works through 3573 file \
            operations, 43 of which are flushes. A flush writes the file's data and waits in iowait, then asks the \
            journal's worker, which runs wherever the scheduler puts it, writes the log for all that have asked, and \
            wakes them. Leaves out locks of the file system, page reclaim and background writes.",
    reports: Some(Reports { name: "latency", unit: "ms", higher_is_better: false, rule: MetricRule::Period }),
    params: &[
        Param::int("clients", (1, 100_000), "1", "number of clients"),
        Param::int("operation_cycles", (1, 1_000_000_000), "9000", "mean cycles of a file operation").calibrated(),
        Param::int(
            "log_cycles",
            (1, 1_000_000_000),
            "60000",
            "cycles of the journal's worker for each write of the log",
        )
        .calibrated(),
        Param::fixed_permille("50"),
        Param::int("flush_kib", (1, 1_000_000), "64", "data that a flush writes in KiB").calibrated(),
        Param::int("disk_us", (0, 100_000_000), "20", "time of a write to the disk in us, before its data")
            .calibrated(),
        Param::int("disk_flush_us", (0, 100_000_000), "60", "time in which the disk makes the log durable in us")
            .calibrated(),
        Param::int("disk_mb_per_s", (1, 1_000_000), "1000", "what the disk writes at most in MB/s").calibrated(),
    ],
    build: dbench,
};

/// Lines of client-tiny, and flushes among them.
const PASS_OPERATIONS: u64 = 3573;
const PASS_FLUSHES: u64 = 43;
/// Requests that the disk works on at one time.
const QUEUE_DEPTH: u32 = 8;

fn dbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let clients = params.int("clients");
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |cycles: u64| cycles_ns(machine, cycles);
    // The operations between two flushes in eight pieces, so that their sum varies little, as in the file.
    let piece_ns = ns(params.int("operation_cycles") * PASS_OPERATIONS / PASS_FLUSHES / 8);
    let data = (params.int("flush_kib") * 1024) as u32;
    let client = Program::of(|program| {
        program.forever(|program| {
            program.repeat(8, |program| {
                program.draw(0, fixed);
            });
            flush(program, data);
            program.op(Op::Count);
        });
    });
    let client = |index: u64| {
        let mut client = client.task(format!("dbench{index}"));
        client.delay_ns = start_ns(seed, index, 20_000_000);
        client
    };
    let log_ns = ns(params.int("log_cycles"));
    let disk = Disk {
        write_ns: params.int("disk_us") * 1000,
        flush_ns: params.int("disk_flush_us") * 1000,
        mb_per_s: params.int("disk_mb_per_s"),
        queue_depth: QUEUE_DEPTH,
    };
    Ok(Workload {
        tasks: (0..clients).map(client).chain([journal(log_ns, fixed)]).collect(),
        devices: disk.devices(),
        nr_services: 1,
        draws: vec![exponential(piece_ns)],
        duration_ns: Some(5_000_000_000),
        warmup_ns: 1_000_000_000,
        metric: DBENCH.reports.and_then(|reports| reports.metric((clients * PASS_FLUSHES * 1000, 1))),
        ..Workload::default()
    })
}
