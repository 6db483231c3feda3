//! The deadline server of fair tasks, which keeps them from starving behind real-time tasks (kernel/sched/deadline.c:
//! `dl_server_start()` and below, v6.12.117). From public source, without vectors.
//!
//! ```text
//!   fair tasks wait     zero laxity: deadline - runtime          a second later
//!   |~~~~~ armed ~~~~~~~|#### serves for 50 ms ####|~~ throttled ~~|#### serves ####| ...
//! ```
//! The server is a deadline entity of 50 ms in a second that is *deferred*: it comes into the queue only as late as it can and
//! still give the 50 ms before its deadline. What fair tasks run on their own, and idle time, counts against its runtime, so that
//! it never serves where nobody starves. Once it had to serve it goes on like any deadline task until fair tasks get their
//! runtime on their own again.
//!
//! Not here: the timer itself and the queue it enters; that its bandwidth counts for the governor.

use super::deadline::dl_time_before;
use super::dl_entity::DlEntity;

/// Runtime of the fair tasks' server in each period, ns (`dl_server_start()`).
pub const FAIR_SERVER_RUNTIME_NS: u64 = 50_000_000;
/// Its period, ns.
pub const FAIR_SERVER_PERIOD_NS: u64 = 1_000_000_000;
/// The timer is not put off for less, ns (`dl_server_min_res`).
pub const DL_SERVER_MIN_RES_NS: u64 = 1_000_000;

/// A CPU's server (`rq->fair_server`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlServer {
    /// Its parameters, deadline and what is left of its runtime.
    pub entity: DlEntity,
    /// It is started (`dl_server_active`).
    pub active: bool,
    /// It waits for its zero-laxity time (`dl_defer_armed`).
    pub defer_armed: bool,
    /// It had to serve, and does not defer again (`dl_defer_running`).
    pub defer_running: bool,
    /// It is in the queue of deadline entities.
    pub queued: bool,
}

impl DlServer {
    /// The server of fair tasks before the first of them.
    pub fn fair() -> Self {
        Self {
            entity: DlEntity::new(FAIR_SERVER_RUNTIME_NS, FAIR_SERVER_PERIOD_NS, FAIR_SERVER_PERIOD_NS),
            active: false,
            defer_armed: false,
            defer_running: false,
            queued: false,
        }
    }

    /// When its timer fires, if it waits for one (`start_dl_timer()`).
    #[inline]
    pub fn timer_ns(&self) -> Option<u64> {
        let waits = self.active && !self.queued;
        waits.then(|| {
            if self.defer_armed {
                self.entity.deadline.wrapping_sub(self.entity.runtime as u64)
            } else {
                self.entity.next_period()
            }
        })
    }

    /// deadline.c:replenish_dl_new_period(), v6.12.117.
    fn new_period(&mut self, rq_clock: u64) {
        self.entity.replenish_dl_new_period(rq_clock);
        self.defer();
    }

    /// Unless it is serving a starvation, it waits for its zero-laxity time.
    fn defer(&mut self) {
        if !self.defer_running {
            self.entity.throttled = true;
            self.defer_armed = true;
        }
    }

    /// It goes into the queue, unless it has a time to wait for that is not past (the end of `enqueue_dl_entity()`).
    fn queue_or_wait(&mut self, rq_clock: u64) {
        if self.entity.throttled {
            let due_ns = self.timer_ns().unwrap_or(rq_clock);
            if !dl_time_before(due_ns, rq_clock) {
                return;
            }
            self.defer_armed = false;
            self.entity.throttled = false;
        }
        self.queued = true;
    }

    /// A fair task comes to a CPU without one (deadline.c:dl_server_start(), update_dl_entity(), v6.12.117).
    pub fn start(&mut self, rq_clock: u64) {
        if self.active {
            return;
        }
        self.active = true;
        let passed = dl_time_before(self.entity.deadline, rq_clock);
        if passed || self.entity.dl_entity_overflow(rq_clock) {
            if self.defer_running && !passed {
                self.entity.revise(rq_clock);
            } else {
                self.defer_running = false;
                self.new_period(rq_clock);
            }
        } else {
            self.defer();
        }
        self.queue_or_wait(rq_clock);
    }

    /// It has nobody to serve (deadline.c:dl_server_stop(), v6.12.117).
    pub fn stop(&mut self) {
        (self.active, self.queued, self.defer_armed) = (false, false, false);
        self.entity.throttled = false;
    }

    /// A fair task ran for `ran_ns`, served or not; true if the queue's order changed, so that the CPU has to pick again
    /// (deadline.c:dl_server_update(), update_curr_dl_se(), v6.12.117).
    #[inline]
    pub fn update(&mut self, rq_clock: u64, ran_ns: u64) -> bool {
        if !self.active || ran_ns == 0 {
            return false;
        }
        self.entity.runtime = self.entity.runtime.wrapping_sub(ran_ns as i64);
        if self.entity.runtime > 0 {
            return false;
        }
        if self.entity.throttled {
            // Fair tasks had their runtime without it: not needed in this period.
            self.defer_running = false;
            self.new_period(rq_clock);
            return false;
        }
        self.entity.throttled = true;
        self.queued = false;
        if dl_time_before(self.entity.next_period(), rq_clock) {
            self.replenish(rq_clock);
        }
        true
    }

    /// A fair task ran for `ran_ns`, up to `rq_clock`: accounts it if neither a timer came nor the runtime ended meanwhile,
    /// and returns whether that is so.
    #[inline]
    pub fn just_ran(&mut self, rq_clock: u64, ran_ns: u64) -> bool {
        let left = self.entity.runtime.wrapping_sub(ran_ns as i64);
        let only_ran = left > 0 && self.timer_ns().is_none_or(|due_ns| due_ns > rq_clock);
        if only_ran {
            self.entity.runtime = left;
        }
        only_ran
    }

    /// The CPU idled for `idle_ns`, which the fair tasks could have had (deadline.c:dl_server_update_idle_time(), v6.12.117).
    pub fn update_idle_time(&mut self, idle_ns: u64) {
        if self.entity.runtime < 0 {
            return;
        }
        self.entity.runtime = self.entity.runtime.wrapping_sub(idle_ns as i64);
        if self.entity.runtime < 0 {
            self.defer_running = false;
            self.entity.runtime = 0;
        }
    }

    /// deadline.c:replenish_dl_entity() and the rest of enqueue_dl_entity(), v6.12.117.
    fn replenish(&mut self, rq_clock: u64) {
        if self.defer_armed && self.entity.dl_entity_overflow(rq_clock) {
            self.entity.replenish_dl_new_period(rq_clock);
        }
        let passed = |entity: &DlEntity| dl_time_before(entity.deadline, rq_clock);
        self.entity.replenish_dl_entity(rq_clock);
        let lagged = passed(&self.entity);
        debug_assert!(!lagged, "a replenished deadline is to come");
        if std::mem::take(&mut self.defer_armed) {
            self.queued = true;
            return;
        }
        let laxity_ns = self.entity.deadline.wrapping_sub(self.entity.runtime as u64);
        if !self.defer_running && dl_time_before(rq_clock, laxity_ns) {
            self.defer_armed = true;
            self.entity.throttled = true;
            return;
        }
        self.queue_or_wait(rq_clock);
    }

    /// Its timer fires: true if it is in the queue now, so that the CPU has to pick again; false if it waits on (for
    /// [`Self::timer_ns`]) (deadline.c:dl_server_timer(), v6.12.117).
    pub fn timer(&mut self, rq_clock: u64) -> bool {
        if !self.active || !self.entity.throttled {
            return false;
        }
        if self.defer_armed {
            let laxity_ns = self.entity.deadline.wrapping_sub(self.entity.runtime as u64);
            if dl_time_before(rq_clock, laxity_ns.wrapping_sub(DL_SERVER_MIN_RES_NS)) {
                return false;
            }
            self.defer_running = true;
        }
        self.replenish(rq_clock);
        self.queued
    }
}

impl Default for DlServer {
    fn default() -> Self {
        Self::fair()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START_NS: u64 = 10_000 * MS;

    /// Fair tasks that never run are served from 950 ms on, and from then on for 50 ms once a second: what is left then is more
    /// than its share, so that a period begins there.
    #[test]
    fn starving_tasks_are_served_for_50_ms_a_second() {
        let mut server = DlServer::fair();
        server.start(START_NS);
        assert_eq!(server.timer_ns(), Some(START_NS + 950 * MS));
        assert!(server.timer(START_NS + 950 * MS));
        assert!(!server.update(START_NS + 990 * MS, 40 * MS));
        assert!(server.update(START_NS + 1000 * MS, 10 * MS));
        assert_eq!((server.queued, server.timer_ns()), (false, Some(START_NS + 1950 * MS)));
        assert!(server.timer(START_NS + 1950 * MS));
        assert!(server.update(START_NS + 2000 * MS, 50 * MS));
        assert_eq!(server.timer_ns(), Some(START_NS + 2950 * MS));
    }

    /// Goal: what is accounted at once is what an update accounts. Method: fair tasks that run up to the timer, and beyond.
    #[test]
    fn time_in_which_nothing_is_due_is_an_update() {
        let mut server = DlServer::fair();
        server.start(START_NS);
        let mut updated = server;
        assert!(server.just_ran(START_NS + 30 * MS, 30 * MS));
        assert!(!updated.update(START_NS + 30 * MS, 30 * MS));
        assert_eq!(server, updated);
        assert!(!server.just_ran(START_NS + 50 * MS, 20 * MS), "its runtime ends");
        assert!(!server.just_ran(START_NS + 990 * MS, MS), "its timer came");
        assert_eq!(server, updated);
    }

    /// Fair tasks that run push the server's time away.
    #[test]
    fn tasks_that_run_need_no_server() {
        let mut server = DlServer::fair();
        server.start(START_NS);
        assert!(!server.update(START_NS + 30 * MS, 30 * MS));
        assert_eq!(server.timer_ns(), Some(START_NS + 980 * MS));
        assert!(!server.update(START_NS + 60 * MS, 30 * MS));
        assert_eq!(server.timer_ns(), Some(START_NS + 60 * MS + 950 * MS));
        assert!(!server.timer(START_NS + 900 * MS), "too early");
    }

    #[test]
    fn idle_time_counts_for_the_server() {
        let mut server = DlServer::fair();
        server.start(START_NS);
        server.update_idle_time(200 * MS);
        assert_eq!(server.entity.runtime, 0);
        server.stop();
        assert_eq!(server.timer_ns(), None);
    }
}
