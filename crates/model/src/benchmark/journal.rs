//! Durable writes: a file's data, then the journal's worker, which writes the log for all that wait for it.
//!
//! ```text
//!   writer  --Io (iowait)--> disk --interrupt--> writer --Call--> worker --IoWork--> log --interrupt--> worker
//!      ^------------------------------------- Reply, to all that had asked ------------------------------'
//! ```
//! The wake graph of text 001. Where only file times have changed, and not within this tick, there is nothing for the
//! journal, and the writer waits for the disk's cache instead. Not here: allocation of log space, and what a full log makes writers wait for.

use super::shape::Program;
use crate::workload::{DeviceSpec, Op, TaskSpec};

/// Bytes of a write of the log.
const LOG_BYTES: u32 = 8192;

/// The devices: writes of data, writes of the log, flushes of the disk's cache.
const DATA: u32 = 0;
const LOG: u32 = 1;
const CACHE: u32 = 2;

/// A disk that data and log are on.
pub(super) struct Disk {
    /// Time of a write before its data in ns.
    pub(super) write_ns: u64,
    /// More time of a write of the log, until it is durable, in ns.
    pub(super) flush_ns: u64,
    /// Bandwidth of all writes of data together in MB/s.
    pub(super) mb_per_s: u64,
    /// Writes of data at one time.
    pub(super) queue_depth: u32,
}

impl Disk {
    /// The devices that the flushes use, in their order. Flushes of the cache that wait at one time are one.
    pub(super) fn devices(&self) -> Vec<DeviceSpec> {
        let bus_per_kib_ns = 1024 * 1000 / self.mb_per_s;
        let device = |service_ns: u64, bus_per_kib_ns: u64, queue_depth: u32| DeviceSpec {
            service_ns,
            per_kib_ns: 0,
            bus_per_kib_ns,
            queue_depth,
            irq_cpu: None,
            irq_ns: 0,
        };
        vec![
            device(self.write_ns, bus_per_kib_ns, self.queue_depth),
            device(self.write_ns + self.flush_ns, bus_per_kib_ns, 1),
            device(self.flush_ns, 0, u32::MAX),
        ]
    }
}

/// Adds a flush of `bytes` of new data: it waits for the data, then for the journal (service 0), which records that the
/// file has grown.
pub(super) fn flush(program: &mut Program, bytes: u32) {
    program.op(Op::SkipInTick { count: 0 }).op(Op::Io { device: DATA, bytes });
    program.op(Op::Call { service: 0, iowait: false });
}

/// Adds a flush of `bytes` that were written over: only the file's times have changed, and these are stamped with the
/// coarse clock. If a tick has begun since the last flush the journal has something to record; otherwise the disk's
/// cache is flushed, for which the writer waits in iowait (fs/xfs/xfs_file.c:xfs_file_fsync(), v5.9).
pub(super) fn flush_in_place(program: &mut Program, bytes: u32) {
    program
        .op(Op::Io { device: DATA, bytes })
        .op(Op::SkipInTick { count: 2 })
        .op(Op::Call { service: 0, iowait: false })
        .op(Op::Skip { count: 1 })
        .op(Op::Io { device: CACHE, bytes: 0 });
}

/// The journal's worker, with `log_ns` of work for each write of the log.
pub(super) fn journal(log_ns: u64, fixed: u16) -> TaskSpec {
    let program = Program::of(|program| {
        program.forever(|program| {
            program
                .op(Op::Accept { service: 0, calls_max: u32::MAX })
                .run(log_ns / 2, fixed)
                .op(Op::IoWork { device: LOG, bytes: LOG_BYTES })
                .run(log_ns - log_ns / 2, fixed)
                .op(Op::Reply);
        });
    });
    program.task(String::from("kworker/xfs-log"))
}
