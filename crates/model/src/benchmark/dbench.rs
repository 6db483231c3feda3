//! dbench: clients that replay file operations and wait for the journal, and for each other where files are created and removed.
//!
//! XFS gives a new directory the next allocation group, and a new file that of its directory
//! (fs/xfs/libxfs/xfs_ialloc.c:xfs_ialloc_ag_select(), v5.9). A group has one inode header (AGI), in a buffer whose lock is a
//! semaphore (fs/xfs/xfs_buf.c:xfs_buf_lock()), held until the transaction is committed. Creating a file takes it to allocate
//! the inode (fs/xfs/libxfs/xfs_ialloc.c:xfs_dialloc()), removing one to put the inode on the list of unlinked ones
//! (fs/xfs/xfs_inode.c:xfs_iunlink()), and again to free it (xfs_inactive_ifree(); by the remover itself before v5.14, commit
//! ab23a7768739). For how long no source states: a share of the operation is assumed.

use super::disk::{DISK, DISK_FLUSH_US, DISK_MB_PER_S, DISK_US};
use super::journal::{END_CYCLES, Journal, LOG_CYCLES, NR_SERVICES, PUSH_CYCLES, devices, flush, flush_in_place};
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
            disk's cache in iowait. It creates 124 files and removes 124, for which it holds the inode header (AGI) of the \
            directory's allocation group, one of four, once and twice. Leaves out other locks of the file system (free space, the \
            log), page reclaim and background writes.",
    reports: Some(Reports { name: "latency", unit: "ms", higher_is_better: false, rule: MetricRule::Period }),
    params: &[
        Param::int("clients", (1, 100_000), "1", "number of clients"),
        Param::int("operation_cycles", (1, 1_000_000_000), "9000", "mean cycles of a file operation").calibrated(),
        Param::int(
            "agi_permille",
            (0, 1000),
            "500",
            "share of an operation that creates or removes a file in which it holds the AGI, in 1/1000: assumed",
        )
        .calibrated(),
        END_CYCLES,
        PUSH_CYCLES,
        LOG_CYCLES,
        Param::fixed_permille("50"),
        DISK,
        DISK_US,
        DISK_FLUSH_US,
        DISK_MB_PER_S,
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

/// Files that are created (`c`) and removed (`r`) in a directory: operations up to which flush, which of the client's
/// directories, and what is done to files there.
type Changes = (usize, u64, &'static str);

/// The changes of client-tiny (the same lines), in order: each NTCreateX that creates finds no such file, and no file is open
/// when it is removed. Those after the last flush have its number. No file is renamed over another one.
#[rustfmt::skip]
const CHANGES: [Changes; 35] = [
    (0, PWRPNT, "crc"), (6, PWRPNT, "crc"), (12, PWRPNT, "rcrc"), (18, PWRPNT, "rcrc"), (20, PWRPNT, "crc"),
    (22, PWRPNT, "rcrc"), (24, PWRPNT, "r"), (24, WORD, "ccrcrcccrcrccrrr"), (24, PARADOX, "cccrrc"),
    (25, PARADOX, "ccrrcc"), (27, PARADOX, "ccrcrrccc"), (30, PARADOX, "rrrcrccrr"), (30, EXCEL, "crc"),
    (31, EXCEL, "c"), (32, EXCEL, "rcrcc"), (33, EXCEL, "rcrccrcc"), (34, EXCEL, "rcrccrcrc"), (34, WORDPRO, "crc"),
    (35, WORDPRO, "crccrcc"), (36, WORDPRO, "rcrc"), (37, WORDPRO, "c"), (38, WORDPRO, "rcrccrcc"),
    (39, WORDPRO, "r"), (39, ACCESS, "c"), (43, ACCESS, "crccrccrcr"), (43, COREL, "crcrcrcrcccrcrcccr"),
    (43, PM, "crcrcrcrcrcrcrcrcrcrcrcrcrcrcrcrcrcrccrcrcrcrcrcrcrcrcrcrcrcrcrcrcrcrcrcr"), (43, WORD, "rr"),
    (43, EXCEL, "rrrrrr"), (43, PWRPNT, "rr"), (43, COREL, "rrrr"), (43, WORDPRO, "rrrrrr"), (43, PM, "r"),
    (43, PARADOX, "rrrr"), (43, ACCESS, "rrr"),
];
/// Operations that are drawn together where there are many; two of them close a file (450 of 3573).
const PIECE_OPERATIONS: u64 = 16;
/// Allocation groups of a file system, as mkfs.xfs makes them on one disk of less than 4 TB (xfsprogs, mkfs/xfs_mkfs.c,
/// libxfs/topology.c:calc_default_ag_geometry()).
const NR_AGS: u64 = 4;
/// Directories of a client in the order of their making, the first two hold no files that change. The last is SEED.
const NR_DIRECTORIES: u64 = 11;
const WORD: u64 = 2;
const EXCEL: u64 = 3;
const PWRPNT: u64 = 4;
const COREL: u64 = 5;
const WORDPRO: u64 = 6;
const PM: u64 = 7;
const PARADOX: u64 = 8;
const ACCESS: u64 = 9;

/// Tables of draws: an operation, a piece of them, and those parts of a creation and of each half of a removal that are
/// without the AGI and with it.
const OPERATION: u32 = 0;
const PIECE: u32 = 1;
const CREATE: u32 = 2;
const CREATE_HELD: u32 = 3;
const REMOVE: u32 = 4;
const REMOVE_HELD: u32 = 5;

/// Adds a part of an operation that holds the AGI of group `ag`, and the part before.
fn with_agi(program: &mut Program, ag: u32, (before, held): (u32, u32), fixed: u16) {
    program.draw(before, fixed).op(Op::Lock { mutex: ag }).draw(held, fixed).op(Op::HandOver { mutex: ag });
}

/// Adds `operations` file operations up to the flush `index` of the load file, those that change directories among them at
/// even distances. The client's first directory is in group `first_ag`.
fn operate(program: &mut Program, index: usize, operations: u64, first_ag: u64, fixed: u16) {
    let here = CHANGES.iter().filter(|&&(flush, ..)| flush == index);
    let changes: Vec<(u32, char)> = here
        .flat_map(|&(_, directory, changes)| {
            let ag = ((first_ag + directory) % NR_AGS) as u32;
            changes.chars().map(move |change| (ag, change))
        })
        .collect();
    let (others, parts) = (operations - changes.len() as u64, changes.len() as u64 + 1);
    for part in 0..parts {
        let share = |count: u64| count * (part + 1) / parts - count * part / parts;
        program.repeat(share(others / PIECE_OPERATIONS), |program| {
            program.draw(PIECE, fixed).op(Op::CallRcu);
        });
        program.repeat(share(others % PIECE_OPERATIONS), |program| {
            program.draw(OPERATION, fixed);
        });
        match changes.get(part as usize) {
            Some(&(ag, 'c')) => with_agi(program, ag, (CREATE, CREATE_HELD), fixed),
            Some(&(ag, _)) => {
                with_agi(program, ag, (REMOVE, REMOVE_HELD), fixed);
                with_agi(program, ag, (REMOVE, REMOVE_HELD), fixed);
            }
            None => {}
        }
    }
}

/// A client that starts with the flush `first` of the load file and goes on for ever.
fn client(first: usize, first_ag: u64, fixed: u16) -> Program {
    Program::of(|program| {
        program.op(Op::Sleep { ns: READY_NS });
        program.forever(|program| {
            for index in (0..FLUSHES.len()).map(|index| (first + index) % FLUSHES.len()) {
                let (operations, kib, grown) = FLUSHES[index];
                if index == 0 {
                    operate(program, FLUSHES.len(), LAST_OPERATIONS, first_ag, fixed);
                }
                operate(program, index, operations, first_ag, fixed);
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
        let mut client = client(first, template * NR_DIRECTORIES, fixed).template(format!("client{first}"));
        client.delay_ns = start_ns(seed, template + 1, 20_000_000);
        client
    }));
    let journal =
        Journal { end: params.int("end_cycles"), push: params.int("push_cycles"), log: params.int("log_cycles") };
    tasks.extend(journal.workers(machine, clients, fixed));
    let held = ns(operation_cycles) * params.int("agi_permille") / 1000;
    let before = ns(operation_cycles) - held;
    let means = [ns(operation_cycles), ns(operation_cycles * PIECE_OPERATIONS), before, held, before / 2, held / 2];
    Ok(Workload {
        tasks,
        devices: devices(&params.disk(machine)),
        nr_mutexes: NR_AGS as u32,
        nr_services: NR_SERVICES,
        draws: means.map(exponential).to_vec(),
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
        // Each file that is created in a pass is removed in it.
        let changes = |what: char| CHANGES.iter().map(|(.., changes)| changes.matches(what).count()).sum::<usize>();
        assert_eq!([changes('c'), changes('r')], [124, 124]);
        assert!(
            CHANGES.is_sorted_by_key(|&(flush, ..)| flush) && CHANGES.iter().all(|&(_, dir, _)| dir < NR_DIRECTORIES)
        );
    }
}
