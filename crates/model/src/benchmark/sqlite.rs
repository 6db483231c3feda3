//! sqlite: inserts, each in a transaction of its own, fed through a pipe.

use super::disk::{DISK, DISK_FLUSH_US, DISK_US};
use super::journal::{END_CYCLES, Journal, LOG_CYCLES, NR_SERVICES, PUSH_CYCLES, devices, fdatasync_in_place, flush};
use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, Op, Workload};

pub(super) const SQLITE: Benchmark = Benchmark {
    name: "sqlite",
    about: "mmtests' db-sqlite-insert-small (texts 001 and 002): a Perl parent writes statements into a pipe, sqlite3 \
            makes a transaction of each: it writes and flushes its journal, then its journal's header, then its \
            database, and removes the journal. The first flush waits in iowait for its data, then for the journal's \
            workers, which run where the kernel's workqueues put them; the others, fdatasync() of what was there \
            before, for their data and the disk's cache, in iowait. Leaves out the growth of the database and \
            background writes.",
    reports: Some(Reports { name: "transactions", unit: "1/s", higher_is_better: true, rule: MetricRule::Rate }),
    params: &[
        Param::int("statement_cycles", (0, 1_000_000_000), "15000", "cycles of the Perl parent for each statement")
            .calibrated(),
        Param::int("transaction_cycles", (1, 1_000_000_000), "140000", "cycles of sqlite3 for each transaction")
            .calibrated(),
        END_CYCLES,
        PUSH_CYCLES,
        LOG_CYCLES,
        Param::fixed_permille("50"),
        DISK,
        DISK_US,
        DISK_FLUSH_US,
    ],
    build: sqlite,
};

/// Shares of a transaction's cycles before the first flush, between the flushes, and after the last, in a thousand. Learnt:
/// runs of sqlite3 between its waits, medians of 4000 inserts on XFS under Linux 6.18.
const SHARES_PERMILLE: [u64; 4] = [500, 180, 170, 150];

fn sqlite(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |name: &str| cycles_ns(machine, params.int(name));
    let (statement_ns, transaction_ns) = (ns("statement_cycles"), ns("transaction_cycles"));
    let perl = Program::of(|program| {
        program.forever(|program| {
            program.run(statement_ns, fixed).op(Op::Send { channel: 0, bytes: 100 });
        });
    });
    let piece = |program: &mut Program, permille: u64| {
        program.run(transaction_ns * permille / 1000, fixed);
    };
    let [statement, log, header, end] = SHARES_PERMILLE;
    let sqlite = Program::of(|program| {
        program.forever(|program| {
            program.op(Op::Recv { channel: 0 });
            piece(program, statement);
            flush(program, 4096);
            piece(program, log);
            fdatasync_in_place(program, 512);
            piece(program, header);
            fdatasync_in_place(program, 4096);
            piece(program, end);
            program.op(Op::CallRcu).op(Op::Count);
        });
    });
    let mut tasks = vec![perl.task(String::from("perl")), sqlite.task(String::from("sqlite3"))];
    let journal =
        Journal { end: params.int("end_cycles"), push: params.int("push_cycles"), log: params.int("log_cycles") };
    tasks.extend(journal.workers(machine, 1, fixed));
    tasks[0].delay_ns = start_ns(seed, 0, 1_000_000);
    Ok(Workload {
        tasks,
        channels: vec![ChannelSpec { capacity_bytes: 65_536, sync_wakeup: true }],
        devices: devices(&params.disk(machine)),
        nr_services: NR_SERVICES,
        duration_ns: Some(5_000_000_000),
        warmup_ns: 1_000_000_000,
        metric: SQLITE.reports.and_then(|reports| reports.metric((1, 1))),
        ..Workload::default()
    })
}
