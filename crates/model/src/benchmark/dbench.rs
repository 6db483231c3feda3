//! dbench: clients that replay file operations and wait for the journal.

use super::journal::{Disk, END_CYCLES, Journal, LOG_CYCLES, NR_SERVICES, PUSH_CYCLES, flush, flush_in_place};
use super::shape::{Program, READY_NS, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const DBENCH: Benchmark = Benchmark {
    name: "dbench",
    about: "dbench4 with mmtests' client-tiny load on XFS (texts 000, 001, 002): each client works through 3573 file \
            operations, 43 of which are flushes, in bursts of up to six. A flush writes the file's data and waits in \
            iowait. Then, if the file has grown or a tick has begun, it asks the journal's workers, which run where \
            the kernel's workqueues put them, write the log for all that have asked, and wake them; otherwise it waits for the \
            disk's cache in iowait. Leaves out locks of the file system, page reclaim and background writes.",
    reports: Some(Reports { name: "latency", unit: "ms", higher_is_better: false, rule: MetricRule::Period }),
    params: &[
        Param::int("clients", (1, 100_000), "1", "number of clients"),
        Param::int("operation_cycles", (1, 1_000_000_000), "9000", "mean cycles of a file operation").calibrated(),
        END_CYCLES,
        PUSH_CYCLES,
        LOG_CYCLES,
        Param::fixed_permille("50"),
        Param::int("disk_us", (0, 100_000_000), "20", "time of a write to the disk in us, before its data")
            .calibrated(),
        Param::int("disk_flush_us", (0, 100_000_000), "60", "time in which the disk makes the log durable in us")
            .calibrated(),
        Param::int("disk_mb_per_s", (1, 1_000_000), "500", "what the disk writes at most in MB/s: a SATA SSD"),
    ],
    build: dbench,
};

/// A flush of client-tiny: operations since the last one, KiB that it finds to write, and whether the file has grown
/// or is new since its own last flush.
type Flush = (u64, u32, bool);

/// The flushes of client-tiny (dbench 4.0, client.txt lines 601 to 4173), in order.
#[rustfmt::skip]
const FLUSHES: [Flush; 43] = [
    (64, 84, true), (2, 4, false), (3, 4, false), (2, 4, false), (2, 4, false), (3, 4, false),
    (45, 84, true), (2, 4, false), (3, 4, false), (2, 4, false), (2, 4, false), (3, 4, false),
    (56, 84, true), (2, 4, false), (3, 4, false), (2, 4, false), (2, 4, false), (3, 4, false),
    (72, 76, true), (3, 4, false), (37, 76, true), (3, 4, false), (64, 76, true), (3, 4, false),
    (498, 4, true), (151, 4, true), (2, 4, true), (250, 4, true), (2, 4, true), (2, 4, true),
    (457, 56, true), (31, 52, true), (40, 68, true), (61, 88, true),
    (291, 12, true), (154, 16, true), (60, 12, true), (18, 12, true), (197, 20, true),
    (100, 8, true), (8, 8, false), (24, 8, false), (10, 8, false),
];
/// Operations after the last flush.
const LAST_OPERATIONS: u64 = 834;
/// Operations that are drawn together where there are many; two of them close a file (450 of 3573).
const PIECE_OPERATIONS: u64 = 16;
/// Requests that the disk works on at one time.
const QUEUE_DEPTH: u32 = 8;

/// Adds `operations` file operations.
fn operate(program: &mut Program, operations: u64, fixed: u16) {
    program.repeat(operations / PIECE_OPERATIONS, |program| {
        program.draw(1, fixed).op(Op::CallRcu);
    });
    program.repeat(operations % PIECE_OPERATIONS, |program| {
        program.draw(0, fixed);
    });
}

/// A client that starts with the flush `first` of the load file and goes on for ever.
fn client(first: usize, fixed: u16) -> Program {
    Program::of(|program| {
        program.op(Op::Sleep { ns: READY_NS });
        program.forever(|program| {
            for index in (0..FLUSHES.len()).map(|index| (first + index) % FLUSHES.len()) {
                let (operations, kib, grown) = FLUSHES[index];
                operate(program, operations + if index == 0 { LAST_OPERATIONS } else { 0 }, fixed);
                (if grown { flush } else { flush_in_place })(program, kib * 1024);
                program.op(Op::Count);
            }
        });
    })
}

fn dbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let clients = params.int("clients");
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |cycles: u64| cycles_ns(machine, cycles);
    let operation_cycles = params.int("operation_cycles");
    // Clients that are forked from one template start at the same place of the load file; together they are everywhere.
    let nr_flushes = FLUSHES.len() as u64;
    let templates = clients.min(nr_flushes);
    let parent = Program::of(|program| {
        for template in 0..templates {
            let forks = clients / templates + u64::from(template < clients % templates);
            program.repeat(forks, |program| {
                program.op(Op::Fork { task: template as u32 + 1 });
            });
        }
        program.op(Op::WaitChild);
    });
    let mut tasks = vec![parent.task(String::from("dbench"))];
    tasks[0].delay_ns = start_ns(seed, 0, 4_000_000);
    tasks.extend((0..templates).map(|template| {
        let first = (template * nr_flushes / templates) as usize;
        let mut client = client(first, fixed).template(format!("client{first}"));
        client.delay_ns = start_ns(seed, template + 1, 20_000_000);
        client
    }));
    let journal =
        Journal { end: params.int("end_cycles"), push: params.int("push_cycles"), log: params.int("log_cycles") };
    tasks.extend(journal.workers(machine, clients, fixed));
    let disk = Disk {
        write_ns: params.int("disk_us") * 1000,
        flush_ns: params.int("disk_flush_us") * 1000,
        mb_per_s: params.int("disk_mb_per_s"),
        queue_depth: QUEUE_DEPTH,
    };
    Ok(Workload {
        tasks,
        devices: disk.devices(),
        nr_services: NR_SERVICES,
        draws: vec![exponential(ns(operation_cycles)), exponential(ns(operation_cycles * PIECE_OPERATIONS))],
        duration_ns: Some(5_000_000_000),
        warmup_ns: 1_000_000_000,
        metric: DBENCH.reports.and_then(|reports| reports.metric((clients * nr_flushes * 1000, 1))),
        ..Workload::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `grep` counts in the load file.
    #[test]
    fn a_pass_is_that_of_the_load_file() {
        // A line that flushes is an operation as well.
        let operations: u64 = FLUSHES.iter().map(|&(operations, ..)| operations).sum();
        assert_eq!(operations + LAST_OPERATIONS, 3573);
        assert_eq!(FLUSHES.iter().map(|&(_, kib, _)| kib).sum::<u32>(), 944);
        assert_eq!(FLUSHES.iter().filter(|&&(.., grown)| grown).count(), 22);
    }
}
