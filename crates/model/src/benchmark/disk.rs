//! The disk of benchmarks that write durably: the machine's, that of a class, or with numbers of one's own.

use super::{Param, ParamValue, Params};
use crate::disk::{DISK_CLASSES, Disk, UNKNOWN, disk_class};
use crate::machine::Machine;

/// Names of the classes, after that of the machine's own disk.
const WORDS: &[&str] = &{
    let mut words = ["machine"; DISK_CLASSES.len() + 1];
    let mut index = 0;
    while index < DISK_CLASSES.len() {
        words[index + 1] = DISK_CLASSES[index].kind;
        index += 1;
    }
    words
};

/// Which disk.
pub(super) const DISK: Param = Param::word(
    "disk",
    WORDS,
    "machine",
    "the machine's first disk, or one of a class; a machine without one is taken to have SATA flash",
);
/// Of the disk, where it is known.
pub(super) const DISK_US: Param =
    Param::int("disk_us", (0, 100_000_000), "0", "time of a write to the disk in us, before its data; 0: the disk's")
        .calibrated();
/// Of the disk, where it is known.
pub(super) const DISK_FLUSH_US: Param = Param::int(
    "disk_flush_us",
    (0, 100_000_000),
    "0",
    "time in which the disk makes a write durable in us; 0: the disk's",
)
.calibrated();
/// Of the disk, where it is known.
pub(super) const DISK_MB_PER_S: Param =
    Param::int("disk_mb_per_s", (0, 1_000_000), "0", "what the disk writes at most in MB/s; 0: the disk's");

impl Params {
    /// The disk that a benchmark with the parameter [`DISK`] writes to.
    pub(super) fn disk(&self, machine: &Machine) -> Disk {
        let named = disk_class(self.word(DISK.name)).map(Disk::from);
        let disk = named.or_else(|| machine.disks.first().copied()).unwrap_or_else(|| UNKNOWN.into());
        let or = |name: &str, otherwise: u64| match self.get(name) {
            Some(ParamValue::Int(value)) if *value > 0 => *value,
            _ => otherwise,
        };
        Disk {
            seek_us: or(DISK_US.name, disk.seek_us),
            flush_us: or(DISK_FLUSH_US.name, disk.flush_us),
            mb_per_s: or(DISK_MB_PER_S.name, disk.mb_per_s),
            ..disk
        }
    }
}
