//! CFS bandwidth control: the quota of a task group (kernel/sched/fair.c, v6.12). From public source, without vectors.
//!
//! ```text
//!   period timer: runtime = min(runtime + quota, quota + burst)
//!        |  a queue that runs out takes up to a slice (5 ms) of it; if nothing is left, the queue is throttled
//!        |  a queue that empties gives back all but 1 ms; more than a slice of that is handed out 5 ms later (slack)
//!        v
//!   |##q0##|#q1#|~~~~ throttled ~~~~|##q0##|#q1#|~~~~
//!   0                            period
//! ```
//!
//! Here are the pool of a group and the account of each of its queues. When they are called, timers, and what throttling does to run
//! queues are the caller's. Not here: expiry of a queue's runtime at the period's end (up to v5.3), limits of nested quotas.

/// `sched_cfs_bandwidth_slice_us`, ns: what a queue takes at once.
pub const SLICE_NS: u64 = 5_000_000;
/// `min_cfs_rq_runtime`: what a queue keeps when it empties, ns.
const MIN_CFS_RQ_RUNTIME_NS: i64 = 1_000_000;
/// `cfs_bandwidth_slack_period`: how long returned runtime is gathered, ns.
pub const SLACK_PERIOD_NS: u64 = 5_000_000;
/// `min_bandwidth_expiration`: how near to a refill nothing is handed out, ns.
const MIN_EXPIRATION_NS: u64 = 2_000_000;

/// A group's quota and what is left of it (`struct cfs_bandwidth`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CfsBandwidth {
    /// Runtime of a period, ns; `None`: no limit.
    pub quota_ns: Option<u64>,
    /// The period, ns.
    pub period_ns: u64,
    /// Runtime beyond the quota that may be saved, ns.
    pub burst_ns: u64,
    /// What queues may still take, ns.
    pub runtime_ns: u64,
    runtime_snap_ns: u64,
    /// Nobody took runtime since the last refill.
    pub idle: bool,
    /// The period timer is armed.
    pub period_active: bool,
    /// The slack timer is armed.
    pub slack_started: bool,
    /// Periods that ended (`cpu.stat:nr_periods`).
    pub nr_periods: u64,
    /// Of these, periods in which a queue was throttled (`nr_throttled`).
    pub nr_throttled: u64,
    /// Time that queues were throttled, summed over CPUs, ns (`throttled_usec`).
    pub throttled_time_ns: u64,
    /// Periods that used saved runtime (`nr_bursts`).
    pub nr_burst: u64,
    /// Runtime beyond the quota that was used, ns (`burst_usec`).
    pub burst_time_ns: u64,
}

/// The account of one of the group's queues (`struct cfs_rq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBandwidth {
    /// The group has a quota.
    pub enabled: bool,
    /// What is left, ns; negative: a debt.
    pub remaining_ns: i64,
    /// The queue may not run.
    pub throttled: bool,
}

impl CfsBandwidth {
    /// A full pool (`tg_set_cfs_bandwidth()`, v6.12).
    pub fn new(quota_ns: Option<u64>, period_ns: u64, burst_ns: u64) -> Self {
        let mut pool = Self { quota_ns, period_ns, burst_ns, ..Self::default() };
        pool.refill();
        pool
    }

    /// kernel/sched/fair.c:`__refill_cfs_bandwidth_runtime()`, v6.12.
    fn refill(&mut self) {
        let Some(quota_ns) = self.quota_ns else { return };
        self.runtime_ns += quota_ns;
        if let Some(beyond_ns) = self.runtime_snap_ns.checked_sub(self.runtime_ns).filter(|&ns| ns > 0) {
            self.burst_time_ns += beyond_ns;
            self.nr_burst += 1;
        }
        self.runtime_ns = self.runtime_ns.min(quota_ns + self.burst_ns);
        self.runtime_snap_ns = self.runtime_ns;
    }

    /// Gives `queue` what it needs to have `target_ns`, as far as there is; true if it may run. The caller starts the period timer.
    ///
    /// kernel/sched/fair.c:`__assign_cfs_rq_runtime()`, v6.12.
    pub fn assign(&mut self, queue: &mut QueueBandwidth, target_ns: u64) -> bool {
        let wanted_ns = (target_ns as i64).wrapping_sub(queue.remaining_ns).max(0) as u64;
        let amount_ns = if self.quota_ns.is_none() {
            wanted_ns
        } else if self.runtime_ns > 0 {
            let amount_ns = wanted_ns.min(self.runtime_ns);
            self.runtime_ns -= amount_ns;
            self.idle = false;
            amount_ns
        } else {
            0
        };
        queue.remaining_ns += amount_ns as i64;
        queue.remaining_ns > 0
    }

    /// A queue that is empty gives back what it does not need; true if the slack timer should be started.
    ///
    /// kernel/sched/fair.c:`__return_cfs_rq_runtime()`, v6.12.
    pub fn return_runtime(&mut self, queue: &mut QueueBandwidth, anybody_throttled: bool) -> bool {
        let slack_ns = queue.remaining_ns - MIN_CFS_RQ_RUNTIME_NS;
        if slack_ns <= 0 {
            return false;
        }
        queue.remaining_ns -= slack_ns;
        if self.quota_ns.is_none() {
            return false;
        }
        self.runtime_ns += slack_ns as u64;
        self.runtime_ns > SLICE_NS && anybody_throttled
    }

    /// Whether returned runtime is to be gathered now, with `left_ns` to the next refill (`start_cfs_slack_bandwidth()`, v6.12).
    pub fn start_slack(&mut self, left_ns: u64) -> bool {
        if left_ns < SLACK_PERIOD_NS + MIN_EXPIRATION_NS || self.slack_started {
            return false;
        }
        self.slack_started = true;
        true
    }

    /// The slack timer comes, `left_ns` before the next refill: true if runtime is to be handed out
    /// (`do_sched_cfs_slack_timer()`, v6.12).
    pub fn slack_ends(&mut self, left_ns: u64) -> bool {
        self.slack_started = false;
        left_ns >= MIN_EXPIRATION_NS && self.quota_ns.is_some() && self.runtime_ns > SLICE_NS
    }

    /// A period ends; false if the timer is to stop. The caller hands runtime out afterwards if somebody is throttled.
    ///
    /// kernel/sched/fair.c:`do_sched_cfs_period_timer()`, v6.12.
    pub fn period_ends(&mut self, overrun: u64, anybody_throttled: bool) -> bool {
        if self.quota_ns.is_none() {
            return false;
        }
        self.nr_periods += overrun;
        self.refill();
        if self.idle && !anybody_throttled {
            return false;
        }
        // Back to false with the next assignment.
        self.idle = !anybody_throttled;
        if anybody_throttled {
            self.nr_throttled += overrun;
        }
        true
    }

    /// What `queue` gets of what is left to run again; true if it may.
    ///
    /// kernel/sched/fair.c:`distribute_cfs_runtime()`, v6.12.
    pub fn distribute(&mut self, queue: &mut QueueBandwidth) -> bool {
        let needed_ns = (1 - queue.remaining_ns).max(0) as u64;
        let given_ns = needed_ns.min(self.runtime_ns);
        self.runtime_ns -= given_ns;
        queue.remaining_ns += given_ns as i64;
        queue.remaining_ns > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_period_gives_the_quota_and_not_more() {
        let mut pool = CfsBandwidth::new(Some(8 * MS), 100 * MS, 0);
        let mut queue = QueueBandwidth { enabled: true, ..QueueBandwidth::default() };
        assert!(pool.assign(&mut queue, SLICE_NS));
        assert_eq!((queue.remaining_ns, pool.runtime_ns), (5_000_000, 3 * MS));
        queue.remaining_ns = -200_000;
        assert!(pool.assign(&mut queue, SLICE_NS));
        assert_eq!((queue.remaining_ns, pool.runtime_ns), (2_800_000, 0));
        queue.remaining_ns = -1;
        assert!(!pool.assign(&mut queue, SLICE_NS));
        assert!(pool.period_ends(1, true) && pool.distribute(&mut queue));
        assert_eq!((queue.remaining_ns, pool.runtime_ns), (1, 8 * MS - 2));
        assert_eq!((pool.nr_periods, pool.nr_throttled), (1, 1));
    }

    #[test]
    fn what_was_not_used_is_saved_up_to_the_burst() {
        let mut pool = CfsBandwidth::new(Some(10 * MS), 100 * MS, 4 * MS);
        assert!(pool.period_ends(1, false) && pool.idle);
        assert_eq!(pool.runtime_ns, 14 * MS);
        let mut queue = QueueBandwidth { enabled: true, ..QueueBandwidth::default() };
        pool.assign(&mut queue, 13 * MS);
        assert!(pool.period_ends(1, false));
        assert_eq!((pool.nr_burst, pool.burst_time_ns, pool.runtime_ns), (1, 3 * MS, 11 * MS));
    }

    #[test]
    fn an_idle_group_stops_its_timer_after_two_periods() {
        let mut pool = CfsBandwidth::new(Some(MS), 100 * MS, 0);
        assert!(pool.period_ends(1, false));
        assert!(!pool.period_ends(1, false));
    }

    proptest! {
        /// Whatever queues take, return and get: nothing is made but by refills, and the pool never exceeds quota and burst.
        #[test]
        fn runtime_is_conserved(ops in proptest::collection::vec((0u8..5, 0usize..4, 0u64..20_000_000), 1..200)) {
            let mut pool = CfsBandwidth::new(Some(20 * MS), 100 * MS, 5 * MS);
            let mut queues = [QueueBandwidth { enabled: true, ..QueueBandwidth::default() }; 4];
            let mut total = pool.runtime_ns as i64;
            for (op, index, ns) in ops {
                match op {
                    0 => { pool.assign(&mut queues[index], SLICE_NS); }
                    1 => { queues[index].remaining_ns -= ns as i64; total -= ns as i64; }
                    2 => { pool.return_runtime(&mut queues[index], true); }
                    3 => {
                        let before = pool.runtime_ns as i64;
                        pool.period_ends(1, true);
                        total += pool.runtime_ns as i64 - before;
                        prop_assert!(pool.runtime_ns <= 25 * MS);
                    }
                    _ => { pool.distribute(&mut queues[index]); }
                }
                prop_assert_eq!(pool.runtime_ns as i64 + queues.iter().map(|queue| queue.remaining_ns).sum::<i64>(), total);
            }
        }
    }
}
