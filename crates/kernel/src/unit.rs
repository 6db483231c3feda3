//! Constants of scale.

/// log2 of [`SCHED_CAPACITY_SCALE`] (include/linux/sched.h, v6.12).
pub const SCHED_CAPACITY_SHIFT: u32 = 10;
/// Capacity and utilisation of the biggest CPU at its highest frequency.
pub const SCHED_CAPACITY_SCALE: u64 = 1 << SCHED_CAPACITY_SHIFT;
/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const NSEC_PER_MSEC: u64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub const NSEC_PER_USEC: u64 = 1_000;

/// The length of a tick in ns, rounded to nearest as `TICK_NSEC` is (include/linux/jiffies.h, v6.12).
pub const fn tick_nsec(hz: u64) -> u64 {
    (NSEC_PER_SEC + hz / 2) / hz
}
