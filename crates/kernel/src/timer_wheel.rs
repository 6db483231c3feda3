//! When a timer of the kernel's timer wheel comes: the further away it is, the coarser (kernel/time/timer.c, v6.12).

/// Buckets of a level (`LVL_SIZE`), as bits, and how much coarser each level is (`LVL_CLK_SHIFT`).
const LVL_BITS: u32 = 6;
const LVL_CLK_SHIFT: u32 = 3;

/// The jiffy in which a timer comes that is armed at `now` for `delay` jiffies later.
///
/// kernel/time/timer.c:`calc_wheel_index()`, v6.12, of a base whose clock is at `now`, without the limit of the last level.
pub fn wheel_expiry(now: u64, delay: u64) -> u64 {
    let starts = |level: u32| ((1 << LVL_BITS) - 1) << ((level - 1) * LVL_CLK_SHIFT);
    let level = (1..=8).take_while(|&level| delay >= starts(level)).count() as u32;
    let shift = level * LVL_CLK_SHIFT;
    (((now + delay) >> shift) + 1) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of levels above timer.c's calc_wheel_index() for HZ 1000: 1 ms up to 62 ms, 8 ms up to 503 ms, 64 ms up to 4 s.
    #[test]
    fn granularity_grows_with_the_distance() {
        assert_eq!(wheel_expiry(1000, 62), 1063);
        assert_eq!(wheel_expiry(1000, 63), 1064);
        assert_eq!(wheel_expiry(1001, 501), 1504);
        assert_eq!(wheel_expiry(1000, 503), 1504);
        assert_eq!(wheel_expiry(1000, 504), 1536);
        assert_eq!(wheel_expiry(64, 2001), 2112);
    }
}
