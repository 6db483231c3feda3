//! A CPU's utilisation from measured busy time, as the kernel's load tracking would have it.
//!
//! The order of busy and idle time within an interval is not known; it is spread evenly, in slices of about a
//! millisecond. Not here: the signals of tasks, and the scheduler's own numbers.

use opplab_kernel::pelt::{HalfLife32, SchedAvg, update_rt_rq_load_avg};

/// Length of a slice in ns: one period of load tracking.
const SLICE_NS: u64 = 1 << 20;

/// Intervals longer than this carry no memory; they are cut to it.
const LONG_NS: u64 = 1_000_000_000;

/// The signal of one CPU.
#[derive(Debug, Clone, Default)]
pub struct CpuUtil {
    clock_ns: u64,
    /// How far the dilated clock is behind; made up for when the CPU idles.
    behind_ns: u64,
    avg: SchedAvg,
}

impl CpuUtil {
    /// Adds an interval: `busy_ns` of `interval_ns` at `scale` (frequency times capacity, 1024 is the biggest CPU at
    /// its f_max). Running time counts scaled, as on the kernel's dilated clock, which catches up when the CPU idles.
    pub fn add(&mut self, interval_ns: u64, busy_ns: u64, scale: u64) {
        let interval_ns = interval_ns.max(1);
        let busy_ns = busy_ns.min(interval_ns);
        let kept_ns = interval_ns.min(LONG_NS);
        let mut left_ns = kept_ns;
        while left_ns > 0 {
            let slice_ns = left_ns.min(SLICE_NS);
            left_ns -= slice_ns;
            let running_ns = (u128::from(slice_ns) * u128::from(busy_ns) / u128::from(interval_ns)) as u64;
            let scaled_ns = (running_ns * scale.min(1024)) >> 10;
            self.clock_ns += scaled_ns;
            update_rt_rq_load_avg::<HalfLife32>(self.clock_ns, &mut self.avg, true);
            self.behind_ns += running_ns - scaled_ns;
            if running_ns < slice_ns {
                self.clock_ns += slice_ns - running_ns + std::mem::take(&mut self.behind_ns);
                update_rt_rq_load_avg::<HalfLife32>(self.clock_ns, &mut self.avg, false);
            }
        }
    }

    /// `util_avg`, 0..=1024.
    pub fn util_avg(&self) -> u64 {
        self.avg.util_avg.min(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(busy_share: u64, scale: u64) -> u64 {
        let mut util = CpuUtil::default();
        for _ in 0..20 {
            util.add(100_000_000, busy_share * 1_000_000, scale);
        }
        util.util_avg()
    }

    /// Goal: half busy is half the capacity, half the frequency is half of that. Method: far past the half-life.
    #[test]
    fn utilisation_follows_busy_time_and_scale() {
        for (busy_percent, scale, expected) in [(100, 1024, 1024), (50, 1024, 512), (50, 512, 256), (0, 1024, 0)] {
            let util = settled(busy_percent, scale);
            assert!(util.abs_diff(expected) <= 12, "{busy_percent} % at {scale}: {util}, not {expected}");
        }
        // A CPU that never idles is full at any frequency, as for the kernel.
        assert!(settled(100, 512) >= 1000);
    }

    #[test]
    fn it_forgets_with_the_half_life() {
        let mut util = CpuUtil::default();
        util.add(1_000_000_000, 1_000_000_000, 1024);
        util.add(32 << 20, 0, 1024);
        assert!(util.util_avg().abs_diff(512) <= 4, "{}", util.util_avg());
    }
}
