//! The margin between a utilisation and the performance that it asks for (include/linux/sched/cpufreq.h).

/// The 1.25 of headroom: `util + util / 4` (include/linux/sched/cpufreq.h:map_util_perf(), v6.12).
#[inline]
pub const fn map_util_perf(util: u64) -> u64 {
    util.wrapping_add(util >> 2)
}

/// What a utilisation is multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfMargin(Option<u32>);

impl PerfMargin {
    /// The kernel's: a quarter more.
    pub const QUARTER: Self = Self(None);

    /// `ratio` of 1024 parts.
    pub const fn of_1024(ratio: u32) -> Self {
        Self(Some(ratio))
    }

    /// The parts of 1024.
    pub const fn ratio_1024(self) -> u32 {
        match self.0 {
            None => 1280,
            Some(ratio) => ratio,
        }
    }

    /// `util` with the margin, truncated (in place of include/linux/sched/cpufreq.h:map_util_perf(), v6.12).
    #[inline]
    pub const fn map_util_perf(self, util: u64) -> u64 {
        match self.0 {
            None => map_util_perf(util),
            Some(ratio) => util.wrapping_mul(ratio as u64) >> 10,
        }
    }

    /// In place of cpufreq_schedutil.c:sugov_effective_cpu_perf(), v6.12.
    #[inline]
    pub fn effective_cpu_perf(self, actual: u64, min: u64, max: u64) -> u64 {
        min.max(max.min(self.map_util_perf(actual)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(PerfMargin::QUARTER.map_util_perf(512), 640);
        assert_eq!(PerfMargin::of_1024(1024).map_util_perf(512), 512);
        assert_eq!(PerfMargin::of_1024(1280).map_util_perf(333), PerfMargin::QUARTER.map_util_perf(333));
        assert_eq!(PerfMargin::of_1024(2048).effective_cpu_perf(600, 0, 1024), 1024);
        assert_eq!(PerfMargin::of_1024(1024).effective_cpu_perf(100, 300, 1024), 300);
    }
}
