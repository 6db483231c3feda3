//! Disks: what a durable write takes, by class of device.
//!
//! ```toml
//! [[disk]]
//! kind = "sata-flash"    # One of the classes below.
//! flush_us = 132         # What differs from the class.
//! ```
//!
//! Benchmark models that write durably take the machine's first disk. Where a machine names none, the middle of all classes
//! stands in ([`UNKNOWN`]), and `--uncertainty` and `predict` look at the classes' whole range.

use crate::error::Fault;
use crate::file_table::file_table;
use crate::tree::{Node, Table};

/// What is known of a kind of disk. Times are those of one small request at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskClass {
    /// Its name in machine files.
    pub kind: &'static str,
    /// Time of a write before its data, in us.
    pub seek_us: u64,
    /// More time until it is durable, in us.
    pub flush_us: u64,
    /// Within which `flush_us` of such disks lies.
    pub flush_range_us: (u64, u64),
    /// Bandwidth of writes in MB/s.
    pub mb_per_s: u64,
    /// Writes of data that it works on at one time.
    pub queue: u32,
    /// Whether it has one interrupt, and not one for each CPU's queue.
    pub one_irq: bool,
    /// What it is, with the source of its numbers.
    pub about: &'static str,
}

/// The classes, from fast to slow flushes.
pub const DISK_CLASSES: &[DiskClass] = &[
    DiskClass {
        kind: "nvme-plp",
        seek_us: 20,
        flush_us: 20,
        flush_range_us: (10, 120),
        mb_per_s: 2000,
        queue: 64,
        one_irq: false,
        about: "NVMe flash with power-loss protection, or Optane: 12 to 58 us for 16 KiB (Small Datum, January 2026), 47 us of an \
                Optane P4800X and 137 us of an Intel P3700 with the file system's work (Percona, September 2019)",
    },
    DiskClass {
        kind: "sata-flash-plp",
        seek_us: 40,
        flush_us: 60,
        flush_range_us: (20, 200),
        mb_per_s: 450,
        queue: 32,
        one_irq: true,
        about: "SATA flash with power-loss protection: assumed, the NVMe class with a SATA request's time and bandwidth",
    },
    DiskClass {
        kind: "sata-flash",
        seek_us: 40,
        flush_us: 500,
        flush_range_us: (100, 4000),
        mb_per_s: 500,
        queue: 8,
        one_irq: true,
        about: "SATA flash: 45, 134 and 1586 us as fitted to dbench's baselines of texts 000 to 002; up to some ms for \
                consumers' drives (Percona, July 2018)",
    },
    DiskClass {
        kind: "ufs",
        seek_us: 100,
        flush_us: 600,
        flush_range_us: (300, 3300),
        mb_per_s: 500,
        queue: 32,
        one_irq: true,
        about: "UFS of phones: medians of durable writes of 4 KiB between 0.5 ms (Moto Z) and 3.3 ms (Pixel) (T. Glek, 2017)",
    },
    DiskClass {
        kind: "nvme",
        seek_us: 20,
        flush_us: 1500,
        flush_range_us: (400, 3500),
        mb_per_s: 2000,
        queue: 64,
        one_irq: false,
        about: "NVMe flash for consumers: fdatasync of 8 KiB 1.64 ms on XFS (990 Pro, T. Poder, May 2025), 0.9 ms for 16 KiB (same \
                model, Small Datum, January 2026), fsync 3.5 ms (960 Pro, Percona, July 2018)",
    },
    DiskClass {
        kind: "emmc",
        seek_us: 300,
        flush_us: 3000,
        flush_range_us: (1000, 10_000),
        mb_per_s: 80,
        queue: 1,
        one_irq: true,
        about: "eMMC: 39 inserts of sqlite a second on ext4, some eight requests and flushes each (Jeong et al., USENIX ATC 2013)",
    },
    DiskClass {
        kind: "rotary",
        seek_us: 4167,
        flush_us: 8333,
        flush_range_us: (4167, 16_667),
        mb_per_s: 150,
        queue: 8,
        one_irq: true,
        about: "a disk of 7200 turns a minute: half a turn to the data, a turn until the log's place comes round",
    },
];

/// The class that stands in where nothing is known of the disk: in the middle of all, by the logarithm of the flush.
pub const UNKNOWN: &DiskClass = &DISK_CLASSES[2];

file_table! {
    /// A disk of a machine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Disk(this) {
        /// Its class.
        kind: &'static str = by("kind", kind_from, |kind| Some(Node::str(*kind))),
        /// Time of a write before its data, in us.
        seek_us: u64 = int(0, 100_000_000).or(class_of(this.kind).seek_us).always(),
        /// More time until it is durable, in us.
        flush_us: u64 = int(0, 100_000_000).or(class_of(this.kind).flush_us).always(),
        /// Bandwidth of writes in MB/s.
        mb_per_s: u64 = int(1, 1_000_000).or(class_of(this.kind).mb_per_s).always(),
        /// Writes of data that it works on at one time.
        queue: u32 = int(1, 65_536).or(class_of(this.kind).queue).always(),
    }
}

fn class_of(kind: &str) -> &'static DiskClass {
    disk_class(kind).unwrap_or(UNKNOWN)
}

/// The class called `kind`.
pub fn disk_class(kind: &str) -> Option<&'static DiskClass> {
    DISK_CLASSES.iter().find(|class| class.kind == kind)
}

impl Disk {
    /// Whether it has one interrupt, and not one for each CPU's queue.
    pub fn one_irq(&self) -> bool {
        class_of(self.kind).one_irq
    }
}

impl From<&DiskClass> for Disk {
    fn from(class: &DiskClass) -> Self {
        let DiskClass { kind, seek_us, flush_us, mb_per_s, queue, .. } = *class;
        Self { kind, seek_us, flush_us, mb_per_s, queue }
    }
}

fn kind_from(table: &Table<'_>, key: &str) -> Result<&'static str, Fault> {
    let node = table.need(key)?;
    let name = node.as_str(key)?;
    let class = disk_class(name).map(|class| class.kind);
    class.ok_or_else(|| Fault::unknown(node.at, "kind of disk", name, DISK_CLASSES.iter().map(|class| class.kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_within_their_own_ranges_and_the_unknown_one_is_known() {
        for class in DISK_CLASSES {
            let (low, high) = class.flush_range_us;
            assert!((low..=high).contains(&class.flush_us), "{}", class.kind);
        }
        assert_eq!(UNKNOWN.kind, "sata-flash");
    }
}
