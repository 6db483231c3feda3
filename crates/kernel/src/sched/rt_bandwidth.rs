//! Throttling of real-time tasks: 950 ms of each second of a CPU (kernel/sched/rt.c, v6.1; gone in v6.12, where fair tasks have a
//! deadline server instead, see [`super::dl_server`]). From public source, without vectors.
//!
//! ```text
//!   period          950 ms used        next period
//!   |#### real-time tasks run ####|~~ throttled ~~|#### ...
//! ```
//! Deadline tasks' time counts, too. `RT_RUNTIME_SHARE`, by which CPUs lend each other runtime, is off since v5.10 and not here;
//! nor are groups.

/// `sched_rt_runtime_us`, ns.
pub const SCHED_RT_RUNTIME_NS: u64 = 950_000_000;
/// `sched_rt_period_us`, ns.
pub const SCHED_RT_PERIOD_NS: u64 = 1_000_000_000;

/// What real-time tasks used of a CPU (`struct rt_rq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtBandwidth {
    /// Time that they ran and that no period has taken off yet, ns (`rt_time`).
    pub rt_time_ns: u64,
    /// They may not run until a period takes enough off.
    pub throttled: bool,
    /// The end of the period that the time was counted up to, ns.
    period_end_ns: u64,
}

impl RtBandwidth {
    /// The end of the period that is under way: periods began at `start_ns`.
    pub fn period_end_ns(&self, now_ns: u64, start_ns: u64) -> u64 {
        start_ns + (now_ns.saturating_sub(start_ns) / SCHED_RT_PERIOD_NS + 1) * SCHED_RT_PERIOD_NS
    }

    /// Periods ended since the last look: each takes a runtime off. True if the tasks may run again
    /// (rt.c:do_sched_rt_period_timer(), v6.1).
    pub fn advance(&mut self, now_ns: u64, start_ns: u64) -> bool {
        let end_ns = self.period_end_ns(now_ns, start_ns);
        if self.period_end_ns == 0 {
            self.period_end_ns = end_ns;
        }
        let overrun = end_ns.saturating_sub(self.period_end_ns) / SCHED_RT_PERIOD_NS;
        self.period_end_ns = end_ns;
        self.rt_time_ns = self.rt_time_ns.saturating_sub(overrun.saturating_mul(SCHED_RT_RUNTIME_NS));
        let freed = self.throttled && overrun > 0 && self.rt_time_ns < SCHED_RT_RUNTIME_NS;
        self.throttled &= !freed;
        freed
    }

    /// Real-time or deadline tasks ran for `ran_ns`; true if real-time tasks have to stop now (rt.c:update_curr_rt(),
    /// sched_rt_runtime_exceeded(), v6.1).
    pub fn charge(&mut self, ran_ns: u64) -> bool {
        self.rt_time_ns = self.rt_time_ns.saturating_add(ran_ns);
        let exceeds = !self.throttled && self.rt_time_ns > SCHED_RT_RUNTIME_NS;
        self.throttled |= exceeds;
        exceeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A task that never sleeps runs 950 ms (and until somebody looks) of each second.
    #[test]
    fn a_hog_is_stopped_for_50_ms_a_second() {
        let mut rt = RtBandwidth::default();
        assert!(!rt.advance(5 * MS, 5 * MS));
        assert!(!rt.charge(950 * MS));
        assert!(rt.charge(4 * MS));
        assert!(!rt.advance(960 * MS, 5 * MS), "the period goes on");
        assert!(rt.advance(1005 * MS, 5 * MS));
        assert_eq!(rt.rt_time_ns, 4 * MS);
        assert!(!rt.throttled);
    }
}
