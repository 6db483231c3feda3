//! A headroom other than a quarter: what schedutil adds to a utilisation before it asks for a frequency.

use super::proposal::{ProposalEntry, ProposalParam};
use crate::cpufreq::schedutil::map_util_perf;

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

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "headroom",
    what: "schedutil and the energy model add another share than a quarter to a utilisation.",
    thread: "Q. Yousef, sched/fair/schedutil: Remove hardcoded margins, 2023-12, \
             https://lore.kernel.org/lkml/20231208002342.367117-1-qyousef@layalina.io/",
    differs: "The thread makes the share of how often the clock may change; here it is a number. Before v6.8 the energy \
              model keeps its quarter.",
    params: &[ProposalParam {
        name: "percent",
        what: "the frequency asked for in percent of what is used; the kernel has 125",
        min: 100,
        max: 200,
        default: 100,
    }],
    excludes: &["response-time"],
    apply: |proposals, values| proposals.margin = PerfMargin::of_1024((values.get("percent") * 1024).div_ceil(100)),
};

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
