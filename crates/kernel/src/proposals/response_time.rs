//! The time in which schedutil takes a busy CPU from rest to its highest frequency, as a tunable.

use super::proposal::{ProposalEntry, ProposalParam, Within};
use crate::cpufreq::perf_margin::PerfMargin;
use crate::pelt::{HalfLife32, decay_load};
use crate::unit::SCHED_CAPACITY_SCALE;

/// The time, in ms, that a task which always runs at full speed needs to reach `util` (0 to 1024) from nothing.
///
/// What the thread calls approximate_runtime(): periods of 1.024 ms until `1024 - 1024 y^n` is not below it.
pub fn approximate_runtime_ms(util: u64) -> u32 {
    let util = util.min(SCHED_CAPACITY_SCALE - 1);
    (0..).find(|&n| approximate_util_avg(0, u64::from(n) * 1024) >= util).unwrap_or(0)
}

/// The utilisation that a task has after it has run for `run_us` more at full speed
/// (what the thread calls approximate_util_avg()), rounded down; within a period of 1024 us it grows evenly.
pub fn approximate_util_avg(util: u64, run_us: u64) -> u64 {
    let missing = SCHED_CAPACITY_SCALE.saturating_sub(util) << 10;
    let at = |periods| decay_load::<HalfLife32>(missing, periods);
    let (periods, rest_us) = (run_us / 1024, run_us % 1024);
    let left = at(periods) - (at(periods) - at(periods + 1)) * rest_us / 1024;
    SCHED_CAPACITY_SCALE.max(util) - left.div_ceil(1024)
}

/// The time of the kernel: its headroom of a quarter asks for the highest frequency at 4/5 of the capacity.
pub fn kernel_response_time_ms() -> u32 {
    approximate_runtime_ms(SCHED_CAPACITY_SCALE * 4 / 5)
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "response-time",
    what: "schedutil's utilisation is stretched so that the highest frequency is asked for after this time of running.",
    thread: "Q. Yousef, sched/fair/schedutil: Better manage system response time, 2024-08, \
             https://lore.kernel.org/lkml/20240820163512.1096301-1-qyousef@layalina.io/",
    differs: "The kernel's own time is that of the biggest CPU, 75 ms, for all; the thread computes it for each policy, and \
              replaces the headroom, which stays here.",
    params: &[ProposalParam {
        name: "response_time_ms",
        what: "from rest to the highest frequency; the kernel needs some 75 ms",
        min: 10,
        max: 1000,
        default: 37,
    }],
    excludes: &["headroom"],
    needs: None,
    within: Some(Within::Governor("schedutil")),
    apply: |proposals, values| {
        let ratio = 1280 * kernel_response_time_ms() / values.get("response_time_ms");
        proposals.margin = PerfMargin::of_1024(ratio);
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 ms for a half, 64 for three quarters; the kernel's time is that of 4/5, 32 log2(5).
    #[test]
    fn times() {
        assert_eq!(approximate_runtime_ms(0), 0);
        assert_eq!(approximate_runtime_ms(512), 32);
        assert_eq!(approximate_runtime_ms(768), 64);
        assert_eq!(kernel_response_time_ms(), 75);
        assert!(approximate_runtime_ms(1024) > 300);
    }

    #[test]
    fn utilisation_after_running() {
        assert_eq!(approximate_util_avg(0, 32 * 1024), 512);
        assert_eq!(approximate_util_avg(512, 32 * 1024), 768);
        assert_eq!(approximate_util_avg(1024, 1_000_000), 1024);
        assert_eq!(approximate_util_avg(2000, 5000), 2000);
    }
}
