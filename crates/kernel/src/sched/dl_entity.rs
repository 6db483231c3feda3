//! The budget of a deadline task, and how many of them a machine admits (kernel/sched/deadline.c, v6.12).
//!
//! ```text
//!   wake-up        runtime used up        deadline = next period (where both are equal)
//!   |#### runs ####|~~~~~ throttled ~~~~~~|#### runs ####| ...
//!   deadline := now + dl_deadline          deadline += dl_period, runtime += dl_runtime
//! ```
//! Times are ns of the run queue's clock; runtime is ns of the biggest CPU at its highest frequency, and negative after an overrun.
//! Not here: servers (`dl_server`), inherited deadlines; bandwidths of queues are in `dl_bw`. From public source, without vectors.

use super::deadline::{BW_SHIFT, dl_time_before, to_ratio};

/// Bits that products of times leave out, so that they fit (`DL_SCALE`); a runtime is at least one unit of it.
pub const DL_SCALE: u32 = 10;
/// The shortest period, ns (`sched_deadline_period_min_us`).
pub const DL_PERIOD_MIN_NS: u64 = 100_000;
/// The longest period, ns (`sched_deadline_period_max_us`).
pub const DL_PERIOD_MAX_NS: u64 = (1 << 22) * 1000;
/// The share of each CPU that deadline tasks may have together, in parts of `1 << BW_SHIFT`
/// (`sched_rt_runtime_us` of `sched_rt_period_us`).
pub const DL_BW_LIMIT: u64 = (950_000_000 << BW_SHIFT) / 1_000_000_000;
/// What the fair tasks' server has of each CPU from v6.12 on, in parts of `1 << BW_SHIFT` (`fair_server_init()`: 50 ms a second).
pub const FAIR_SERVER_DL_BW: u64 = (50_000_000 << BW_SHIFT) / 1_000_000_000;

/// A deadline task's parameters and what it has left of them (`struct sched_dl_entity`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DlEntity {
    /// Runtime that it may use in a period, ns.
    pub dl_runtime: u64,
    /// Time from its activation to its deadline, ns.
    pub dl_deadline: u64,
    /// Time between two budgets, ns.
    pub dl_period: u64,
    /// Runtime by deadline, in parts of `1 << BW_SHIFT`.
    pub dl_density: u64,
    /// What is left of the runtime, ns.
    pub runtime: i64,
    /// The absolute deadline, ns.
    pub deadline: u64,
    /// It has to wait for its next budget.
    pub throttled: bool,
    /// It gave the rest of its budget away.
    pub yielded: bool,
    /// It sleeps, and its 0-lag time is to come: its bandwidth counts (`dl_non_contending`).
    pub non_contending: bool,
}

impl DlEntity {
    /// A task with these parameters and no budget yet.
    pub fn new(dl_runtime: u64, dl_deadline: u64, dl_period: u64) -> Self {
        let dl_density = to_ratio(dl_deadline, dl_runtime);
        Self { dl_runtime, dl_deadline, dl_period, dl_density, ..Self::default() }
    }

    /// Its bandwidth, in parts of `1 << BW_SHIFT` (`dl_bw`).
    pub fn dl_bw(&self) -> u64 {
        to_ratio(self.dl_period, self.dl_runtime)
    }

    /// When its next period begins (`dl_next_period()`).
    pub fn next_period(&self) -> u64 {
        self.deadline.wrapping_sub(self.dl_deadline).wrapping_add(self.dl_period)
    }

    /// When its share of a CPU alone would have used up what it has used: `deadline - runtime * dl_period / dl_runtime`, truncated; the
    /// product wraps, as the kernel's does from 2^63 on.
    pub fn zero_lag(&self) -> u64 {
        let product = self.runtime.wrapping_mul(self.dl_period as i64);
        let left_ns = product.checked_div(self.dl_runtime as i64).unwrap_or(0);
        self.deadline.wrapping_sub(left_ns as u64)
    }

    /// Its 0-lag time if that is not before `rq_clock`.
    pub fn zero_lag_after(&self, rq_clock: u64) -> Option<u64> {
        (self.dl_runtime != 0).then(|| self.zero_lag()).filter(|&zero_lag| !dl_time_before(zero_lag, rq_clock))
    }

    /// The task has new parameters; deadline and what is left of the runtime stay (`__setparam_dl()`, v6.12).
    pub fn set_params(&mut self, dl_runtime: u64, dl_deadline: u64, dl_period: u64) {
        (self.dl_runtime, self.dl_deadline, self.dl_period) = (dl_runtime, dl_deadline, dl_period);
        self.dl_density = to_ratio(dl_deadline, dl_runtime);
    }

    /// kernel/sched/deadline.c:`replenish_dl_new_period()`, v6.12.
    pub fn replenish_dl_new_period(&mut self, rq_clock: u64) {
        self.deadline = rq_clock.wrapping_add(self.dl_deadline);
        self.runtime = self.dl_runtime as i64;
    }

    /// A queued task is activated anew or changes its parameters: a passed deadline begins a period.
    ///
    /// kernel/sched/deadline.c:`setup_new_dl_entity()`, v6.12.
    pub fn setup_new_dl_entity(&mut self, rq_clock: u64) {
        if !self.throttled && (self.deadline == 0 || dl_time_before(self.deadline, rq_clock)) {
            self.replenish_dl_new_period(rq_clock);
        }
    }

    /// Whether what is left, used up by the deadline, would be more than the task's share from `time` on.
    ///
    /// kernel/sched/deadline.c:`dl_entity_overflow()`, v6.12; the products wrap.
    pub fn dl_entity_overflow(&self, time: u64) -> bool {
        let left = (self.dl_deadline >> DL_SCALE).wrapping_mul((self.runtime >> DL_SCALE) as u64);
        let right = (self.deadline.wrapping_sub(time) >> DL_SCALE).wrapping_mul(self.dl_runtime >> DL_SCALE);
        dl_time_before(right, left)
    }

    /// A task that is queued between its deadline and its next period waits for that; true if so (it is throttled then).
    ///
    /// kernel/sched/deadline.c:`dl_check_constrained_dl()`, v6.12.
    pub fn dl_check_constrained_dl(&mut self, rq_clock: u64) -> bool {
        let waits = !self.throttled
            && self.dl_deadline != self.dl_period
            && dl_time_before(self.deadline, rq_clock)
            && dl_time_before(rq_clock, self.next_period());
        if waits {
            self.throttled = true;
            self.runtime = self.runtime.min(0);
        }
        waits
    }

    /// The task wakes: it keeps its deadline if what is left of its budget fits into the time until then, else a new period begins;
    /// with a deadline before the end of the period it keeps the deadline, and less of the budget. True if it waits for its next
    /// period from here on ([`Self::dl_check_constrained_dl`]).
    ///
    /// kernel/sched/deadline.c:`update_dl_entity()`, `update_dl_revised_wakeup()`, v6.12.
    pub fn update_dl_entity(&mut self, rq_clock: u64) -> bool {
        let is_implicit = self.dl_deadline == self.dl_period;
        let passed = dl_time_before(self.deadline, rq_clock);
        if self.dl_check_constrained_dl(rq_clock) {
            return true;
        }
        if self.throttled {
            return false;
        }
        if passed || self.dl_entity_overflow(rq_clock) {
            if !is_implicit && !passed {
                self.revise(rq_clock);
            } else {
                self.replenish_dl_new_period(rq_clock);
            }
        }
        false
    }

    /// What is left of its budget is what its share has until its deadline.
    ///
    /// kernel/sched/deadline.c:`update_dl_revised_wakeup()`, v6.12.
    pub fn revise(&mut self, rq_clock: u64) {
        let laxity = self.deadline.wrapping_sub(rq_clock);
        self.runtime = (self.dl_density.wrapping_mul(laxity) >> BW_SHIFT) as i64;
    }

    /// The task ran for `scaled_ns`: whether it must wait for its next period now.
    ///
    /// kernel/sched/deadline.c:`update_curr_dl_se()`, v6.12.
    pub fn update_curr_dl_se(&mut self, scaled_ns: u64) -> bool {
        self.runtime = self.runtime.wrapping_sub(scaled_ns as i64);
        self.throttled |= self.runtime <= 0 || self.yielded;
        self.throttled
    }

    /// The next period begins: deadline and runtime move on until there is some, from now if that lags too much.
    ///
    /// kernel/sched/deadline.c:`replenish_dl_entity()`, v6.12. Without a period there is none to wait for.
    pub fn replenish_dl_entity(&mut self, rq_clock: u64) {
        if self.yielded && self.runtime > 0 {
            self.runtime = 0;
        }
        let runtime = self.dl_runtime.max(1) as i64;
        if self.runtime <= 0 {
            // As many periods as it takes to get above zero.
            let periods = self.runtime.unsigned_abs() / runtime.unsigned_abs() + 1;
            self.deadline = self.deadline.wrapping_add(self.dl_period.wrapping_mul(periods));
            self.runtime = self.runtime.wrapping_add(runtime.wrapping_mul(periods as i64));
        }
        if dl_time_before(self.deadline, rq_clock) {
            self.replenish_dl_new_period(rq_clock);
        }
        self.yielded = false;
        self.throttled = false;
    }
}

/// Whether a task may have such parameters (`__checkparam_dl()`, v6.12): runtime of at least 1024 ns, at most the deadline, at most
/// the period, and that within its bounds. All in ns.
pub fn checkparam_dl(runtime_ns: u64, deadline_ns: u64, period_ns: u64) -> bool {
    runtime_ns >= 1 << DL_SCALE
        && runtime_ns <= deadline_ns
        && deadline_ns <= period_ns
        && (DL_PERIOD_MIN_NS..=DL_PERIOD_MAX_NS).contains(&period_ns)
}

/// Whether bandwidth `new_bw` in place of `old_bw` is too much for CPUs of `capacity` together (a CPU of 1024 each), of which tasks
/// have `total_bw`.
///
/// kernel/sched/deadline.c:`__dl_overflow()`, v6.12.
pub fn dl_overflow(capacity: u64, total_bw: u64, old_bw: u64, new_bw: u64) -> bool {
    (DL_BW_LIMIT.wrapping_mul(capacity) >> 10) < total_bw.wrapping_sub(old_bw).wrapping_add(new_bw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn entity(runtime_ms: u64, deadline_ms: u64, period_ms: u64) -> DlEntity {
        DlEntity::new(runtime_ms * MS, deadline_ms * MS, period_ms * MS)
    }

    #[test]
    fn a_budget_lasts_for_its_period() {
        let mut task = entity(3, 10, 10);
        assert!(!task.update_dl_entity(100 * MS));
        assert_eq!((task.deadline, task.runtime), (110 * MS, 3 * MS as i64));
        assert!(!task.update_curr_dl_se(2 * MS));
        assert!(task.update_curr_dl_se(2 * MS), "an overrun by 1 ms");
        assert_eq!(task.next_period(), 110 * MS);
        task.replenish_dl_entity(110 * MS);
        assert_eq!((task.deadline, task.runtime, task.throttled), (120 * MS, 2 * MS as i64, false));
    }

    #[test]
    fn a_long_overrun_costs_periods() {
        let mut task = entity(3, 10, 10);
        task.update_dl_entity(100 * MS);
        task.update_curr_dl_se(9 * MS);
        task.replenish_dl_entity(110 * MS);
        // -6 ms: two periods bring it to 0, which is not above 0.
        assert_eq!((task.deadline, task.runtime), (140 * MS, 3 * MS as i64));
        task.update_curr_dl_se(3 * MS);
        task.replenish_dl_entity(500 * MS);
        assert_eq!((task.deadline, task.runtime), (510 * MS, 3 * MS as i64), "lagged too much");
    }

    #[test]
    fn a_wake_up_keeps_what_fits() {
        let woken = |after_ms: u64, used_ms: u64| {
            let mut task = entity(4, 10, 10);
            task.update_dl_entity(100 * MS);
            task.update_curr_dl_se(used_ms * MS);
            task.update_dl_entity((100 + after_ms) * MS);
            (task.deadline / MS, task.runtime / MS as i64)
        };
        assert_eq!(woken(3, 3), (110, 1)); // 1 ms in 7 is less than its share.
        assert_eq!(woken(8, 1), (118, 4)); // 3 ms in 2 is more.
        assert_eq!(woken(11, 3), (121, 4)); // The deadline has passed.
    }

    #[test]
    fn a_constrained_task_waits_for_its_period() {
        let mut task = entity(2, 5, 20);
        task.update_dl_entity(100 * MS);
        assert!(task.update_dl_entity(107 * MS), "after its deadline, before its period");
        assert_eq!((task.throttled, task.runtime, task.next_period()), (true, 0, 120 * MS));
        task.replenish_dl_entity(120 * MS);
        assert_eq!((task.deadline, task.runtime), (125 * MS, 2 * MS as i64));
        // Late within the period: the deadline stays, and as much as the density allows.
        task.update_dl_entity(123 * MS);
        assert_eq!(task.deadline, 125 * MS);
        assert!((task.runtime - 800_000).abs() < 10, "{}", task.runtime);
    }

    #[test]
    fn bandwidth_has_a_limit() {
        let bw = entity(5, 10, 10).dl_bw();
        assert!(!dl_overflow(1024, 0, 0, bw));
        assert!(dl_overflow(1024, bw, 0, bw), "all of a CPU");
        assert!(!dl_overflow(2048, bw, 0, bw));
        assert!(!dl_overflow(1024, bw, bw, bw), "in place of itself");
        assert!(checkparam_dl(1024, MS, MS));
        assert!(!checkparam_dl(1023, MS, MS));
        assert!(!checkparam_dl(2 * MS, MS, 3 * MS));
        assert!(!checkparam_dl(5_000, 9_000, 9_000), "a period below 100 us");
    }

    proptest! {
        /// A replenished task has runtime, at most one budget of it, and a deadline that has not passed.
        #[test]
        fn any_replenishment_gives_runtime(runtime in 1024u64..1 << 32, more in 0u64..1 << 32, used in 0u64..1 << 34, late in 0u64..1 << 34) {
            let mut task = DlEntity::new(runtime, runtime + more, runtime + more);
            task.update_dl_entity(1 << 40);
            task.update_curr_dl_se(used);
            let now = (1 << 40) + late;
            task.replenish_dl_entity(now);
            prop_assert!(task.runtime > 0 && task.runtime <= runtime as i64);
            prop_assert!(!dl_time_before(task.deadline, now));
        }

        #[test]
        fn no_input_panics(numbers: [u64; 6], runtime: i64, flags: [bool; 2]) {
            let mut task = DlEntity::new(numbers[0], numbers[1], numbers[2]);
            (task.deadline, task.runtime) = (numbers[3], runtime);
            (task.throttled, task.yielded) = (flags[0], flags[1]);
            task.update_dl_entity(numbers[4]);
            task.update_curr_dl_se(numbers[5]);
            task.replenish_dl_entity(numbers[4]);
            task.setup_new_dl_entity(numbers[5]);
            dl_overflow(numbers[0], numbers[1], numbers[2], numbers[3]);
        }
    }
}
