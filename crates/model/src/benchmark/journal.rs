//! Durable writes on XFS: a file's data, then two workers, of which the first formats what all that wait for it have changed,
//! and the second writes the log.
//!
//! ```text
//!   writer --IoEnd (iowait)--> disk --interrupt--> xfs-conv --Reply--> writer --Call--> xfs-cil --Reply--> writer
//!   writer --Call--> kblockd, xfs-log --IoWork--> log --interrupt--> xfs-log --Reply, to all that had asked--> writer
//! ```
//! This is the wake graph of text 001; who wakes whom and for how long each runs was learnt from a recording (dbench on XFS
//! under Linux 6.18, docs/journal). Work of a bound workqueue is done on the CPU that queues it: where a request completes, or
//! where the writer waits. A disk with one interrupt completes requests on the CPU that takes it, unless that shares no cache
//! with the writer's. Before v5.4 the work of `xfs-cil` is bound, too (commit 8ab39f11d974). Before v5.6 a writer that a bound
//! thread wakes finds its CPU busy with the thread and goes to another one (commit 52262ee567ad describes what that does to
//! dbench).
//!
//! Where only file times have changed, and not within this tick, there is nothing for the journal, and the writer waits for the
//! disk's cache instead. Not here: allocation of log space, and what a full log makes writers wait for.

use super::Param;
use super::shape::{Program, cycles_ns};
use crate::disk::Disk;
use crate::machine::Machine;
use crate::workload::{DeviceSpec, Op, TaskSpec, Workqueue};

/// Bytes of a write of the log.
const LOG_BYTES: u32 = 8192;

/// The devices: writes of data, writes of the log, flushes of the disk's cache.
const DATA: u32 = 0;
const LOG: u32 = 1;
const CACHE: u32 = 2;

/// The CPU that takes the interrupt of a disk that has one: assumed.
const IRQ_CPU: u32 = 0;

/// The services: what follows from a write that made a file grow, formatting what was changed, writing the log.
const END: u32 = 0;
const CIL: u32 = 1;
const ICLOG: u32 = 2;
/// Number of the services.
pub(super) const NR_SERVICES: u32 = 3;

/// Cycles of the worker that ends a write which made a file grow: its size, its extents.
pub(super) const END_CYCLES: Param = Param::int(
    "end_cycles",
    (0, 1_000_000_000),
    "42000",
    "cycles of the worker that ends a write of a file that grows",
);
/// Cycles of the worker that formats what was changed.
pub(super) const PUSH_CYCLES: Param = Param::int(
    "push_cycles",
    (0, 1_000_000_000),
    "13000",
    "cycles of the worker that formats the changes for the log, for each write of the log",
);
/// Cycles of the workers that write the log.
pub(super) const LOG_CYCLES: Param = Param::int(
    "log_cycles",
    (0, 1_000_000_000),
    "70000",
    "cycles of the workers that write the log: four ninths before, five after",
);

/// The devices that the flushes use, in their order: data and log are on one disk. Flushes of the cache that wait at one time
/// are one.
pub(super) fn devices(disk: &Disk) -> Vec<DeviceSpec> {
    let bus_per_kib_ns = 1024 * 1000 / disk.mb_per_s;
    let (write_ns, flush_ns) = (disk.seek_us * 1000, disk.flush_us * 1000);
    let device = |service_ns: u64, bus_per_kib_ns: u64, queue_depth: u32| DeviceSpec {
        service_ns,
        bus_per_kib_ns,
        queue_depth,
        irq_cpu: disk.one_irq().then_some(IRQ_CPU),
        rq_affinity: true,
        ..DeviceSpec::default()
    };
    vec![
        device(write_ns, bus_per_kib_ns, disk.queue),
        device(write_ns + flush_ns, bus_per_kib_ns, 1),
        device(flush_ns, 0, u32::MAX),
    ]
}

/// Adds a flush of `bytes` of new data: it waits for the data and the worker that ends the write, then for the journal, which
/// records that the file has grown.
pub(super) fn flush(program: &mut Program, bytes: u32) {
    program.op(Op::SkipInTick { count: 0 }).op(Op::IoEnd { device: DATA, bytes, service: END });
    program.op(Op::Call { service: CIL, iowait: false }).op(Op::Call { service: ICLOG, iowait: false });
}

/// Adds a flush of `bytes` that were written over: only the file's times have changed, and these are stamped with the
/// coarse clock. If a tick has begun since the last flush the journal has something to record; otherwise the disk's
/// cache is flushed, for which the writer waits in iowait (fs/xfs/xfs_file.c:xfs_file_fsync(), v5.9).
pub(super) fn flush_in_place(program: &mut Program, bytes: u32) {
    program
        .op(Op::Io { device: DATA, bytes })
        .op(Op::SkipInTick { count: 3 })
        .op(Op::Call { service: CIL, iowait: false })
        .op(Op::Call { service: ICLOG, iowait: false })
        .op(Op::Skip { count: 1 })
        .op(Op::Io { device: CACHE, bytes: 0 });
}

/// Adds an fdatasync() of `bytes` that were written over: file times do not matter to it, so that it waits for the data and for
/// the disk's cache, both in iowait.
pub(super) fn fdatasync_in_place(program: &mut Program, bytes: u32) {
    program.op(Op::Io { device: DATA, bytes }).op(Op::Io { device: CACHE, bytes: 0 });
}

/// Cycles of the journal's workers.
pub(super) struct Journal {
    /// Of the end of a write.
    pub(super) end: u64,
    /// Of formatting.
    pub(super) push: u64,
    /// Of writing the log.
    pub(super) log: u64,
}

impl Journal {
    /// The workers; `writers` may end their writes at one time, each on a CPU of its own.
    pub(super) fn workers(&self, machine: &Machine, writers: u64, fixed: u16) -> Vec<TaskSpec> {
        let worker = |name: &str, workqueue: Workqueue, body: &dyn Fn(&mut Program)| {
            let program = Program::of(|program| {
                program.forever(|program| body(program));
            });
            TaskSpec { workqueue: Some(workqueue), ..program.task(format!("kworker/{name}")) }
        };
        let ns = |cycles: u64| cycles_ns(machine, cycles);
        let end = worker("xfs-conv", Workqueue::Bound, &|program| {
            program.op(Op::Accept { service: END, calls_max: 1 }).run(ns(self.end), fixed).op(Op::Reply);
        });
        let cil = worker("xfs-cil", Workqueue::XfsCil, &|program| {
            program.op(Op::Accept { service: CIL, calls_max: u32::MAX }).run(ns(self.push), fixed).op(Op::Reply);
        });
        let log = worker("xfs-log", Workqueue::Bound, &|program| {
            program.op(Op::Accept { service: ICLOG, calls_max: u32::MAX }).run(ns(self.log * 4 / 9), fixed);
            program.op(Op::IoWork { device: LOG, bytes: LOG_BYTES });
            program.run(ns(self.log - self.log * 4 / 9), fixed).op(Op::Reply);
        });
        let ends = writers.min(machine.nr_cpus() as u64) as usize;
        [cil, log].into_iter().chain(std::iter::repeat_n(end, ends)).collect()
    }
}
