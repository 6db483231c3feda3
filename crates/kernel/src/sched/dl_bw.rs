//! What deadline tasks take of a run queue, as the governor sees it (kernel/sched/deadline.c, v6.12).
//!
//! ```text
//!               wakes: + running_bw                blocks before its 0-lag time
//!   inactive ------------------------> contending ------------------------------> non-contending
//!     ^  ^                               |     ^                                    |       |
//!     |  '------ blocks after it: -------'     '---------------- wakes -------------'       |
//!     |           - running_bw                                                              |
//!     '------------------------ inactive timer, 0-lag time: - running_bw -------------------'
//! ```
//! A task that blocks early has been served ahead of its share: until the time at which its share alone would have given it that
//! service, the 0-lag time, its bandwidth counts on. So the clock is held for it while it sleeps. A throttled task contends.
//! Schedutil's worker has no part in any of it: callers leave it out. From public source, without vectors.

use super::deadline::BW_SHIFT;
use super::dl_entity::{DL_BW_LIMIT, DlEntity};
use crate::profile::Grub;

/// The bandwidths of a queue, in parts of `1 << BW_SHIFT` (`struct dl_rq`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DlRqBw {
    /// Of all deadline tasks that belong to the queue.
    pub this_bw: u64,
    /// Of those that contend, and those whose 0-lag time is to come.
    pub running_bw: u64,
}

impl DlRqBw {
    /// A task arrives that is queued, or is so again after a change of its parameters (`enqueue_dl_entity()` with
    /// `ENQUEUE_MIGRATING` or `ENQUEUE_RESTORE`): it contends.
    pub fn arrive(&mut self, dl: &DlEntity) {
        self.this_bw = self.this_bw.saturating_add(dl.dl_bw());
        self.running_bw = self.running_bw.saturating_add(dl.dl_bw());
    }

    /// A queued task leaves for another queue, another class, or a change of its parameters (`dequeue_dl_entity()` with
    /// `DEQUEUE_MIGRATING` or `DEQUEUE_SAVE`).
    pub fn leave(&mut self, dl: &DlEntity) {
        self.sub_running_bw(dl);
        self.sub_rq_bw(dl);
    }

    /// A task wakes, on another queue than it slept on if `migrated`: whether `running_bw` has grown. If not, its inactive timer is to
    /// be stopped.
    ///
    /// kernel/sched/deadline.c:`task_contending()`, v6.12.
    pub fn task_contending(&mut self, dl: &mut DlEntity, migrated: bool) -> bool {
        if migrated {
            self.this_bw = self.this_bw.saturating_add(dl.dl_bw());
        }
        if core::mem::take(&mut dl.non_contending) {
            return false;
        }
        self.running_bw = self.running_bw.saturating_add(dl.dl_bw());
        true
    }

    /// A task blocks or ends: when its inactive timer comes; `None` if its 0-lag time has passed, and with it its part of
    /// `running_bw`.
    ///
    /// kernel/sched/deadline.c:`task_non_contending()`, v6.12.
    pub fn task_non_contending(&mut self, dl: &mut DlEntity, rq_clock: u64) -> Option<u64> {
        let zero_lag = dl.zero_lag_after(rq_clock);
        dl.non_contending = zero_lag.is_some();
        if zero_lag.is_none() {
            self.sub_running_bw(dl);
        }
        zero_lag
    }

    /// The inactive timer of a task: whether that took its part of `running_bw`.
    ///
    /// kernel/sched/deadline.c:`inactive_task_timer()`, v6.12.
    pub fn inactive_task_timer(&mut self, dl: &mut DlEntity) -> bool {
        let counted = core::mem::take(&mut dl.non_contending);
        if counted {
            self.sub_running_bw(dl);
        }
        counted
    }

    /// A task that wakes leaves this queue, where it slept, for another: whether that took its part of `running_bw`, and its inactive
    /// timer is to be stopped.
    ///
    /// kernel/sched/deadline.c:`migrate_task_rq_dl()`, v6.12.
    pub fn migrate_task_rq(&mut self, dl: &mut DlEntity) -> bool {
        let counted = self.inactive_task_timer(dl);
        self.sub_rq_bw(dl);
        counted
    }

    /// A task has ended, and does not belong to the queue any more (`sub_rq_bw()`). Not below 0.
    pub fn sub_rq_bw(&mut self, dl: &DlEntity) {
        self.this_bw = self.this_bw.saturating_sub(dl.dl_bw());
    }

    /// Not below 0.
    fn sub_running_bw(&mut self, dl: &DlEntity) {
        self.running_bw = self.running_bw.saturating_sub(dl.dl_bw());
    }
}

/// Fractional bits of [`bw_ratio`] (`RATIO_SHIFT`).
pub const RATIO_SHIFT: u32 = 8;

/// The inverse of the share that deadline tasks may have of a CPU, 8 fractional bits (`init_dl_rq_bw_ratio()`).
const fn bw_ratio() -> u64 {
    (1_000_000_000 << RATIO_SHIFT) / 950_000_000
}

/// What a task that reclaims bandwidth (`SCHED_FLAG_RECLAIM`) is charged for having run `delta_ns`: less where others leave bandwidth
/// unused, so that its budget lasts longer. `extra_bw` is what is not admitted on the CPU.
///
/// The clock follows `running_bw`, so that a CPU whose tasks reclaim runs slower for longer (GRUB-PA); neither frequency nor capacity
/// scale the charge.
///
/// kernel/sched/deadline.c:`grub_reclaim()`, v6.12 and v6.1.
pub fn grub_reclaim(delta_ns: u64, rq: &DlRqBw, extra_bw: u64, dl: &DlEntity, form: Grub) -> u64 {
    let of_limit = |bw: u64| bw.wrapping_mul(bw_ratio()) >> RATIO_SHIFT;
    let inactive_bw = rq.this_bw.saturating_sub(rq.running_bw);
    let taken = inactive_bw.saturating_add(extra_bw);
    let active_bw = match form {
        Grub::Whole => (1u64 << BW_SHIFT).saturating_sub(taken).max(of_limit(dl.dl_bw())),
        Grub::Limit => of_limit(DL_BW_LIMIT.saturating_sub(taken).max(dl.dl_bw())),
    };
    delta_ns.wrapping_mul(active_bw) >> BW_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::schedutil::cpu_bw_dl;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    /// 10 ms of 30 ms, truncated.
    const THIRD: u64 = (1 << BW_SHIFT) / 3;

    fn entity(runtime_ms: u64, period_ms: u64) -> DlEntity {
        DlEntity::new(runtime_ms * MS, period_ms * MS, period_ms * MS)
    }

    /// Woken at 100 ms on an empty queue; deadline and runtime are those of a new period.
    fn woken(runtime_ms: u64, period_ms: u64) -> (DlRqBw, DlEntity) {
        let (mut rq, mut dl) = (DlRqBw::default(), entity(runtime_ms, period_ms));
        rq.task_contending(&mut dl, true);
        dl.update_dl_entity(100 * MS);
        (rq, dl)
    }

    /// 10 ms every 30 ms from 100 ms on, 2 ms of it used: 8 ms are left, which are 24 ms at a third of a CPU. The deadline is
    /// 130 ms, the 0-lag time 106 ms: when a third of a CPU would have given the 2 ms.
    #[test]
    fn bandwidth_counts_until_the_zero_lag_time() {
        let (mut rq, mut dl) = woken(10, 30);
        assert_eq!((rq.this_bw, rq.running_bw), (THIRD, THIRD));
        assert_eq!(cpu_bw_dl(rq.running_bw), 341);
        dl.update_curr_dl_se(2 * MS);
        assert_eq!(rq.task_non_contending(&mut dl, 102 * MS), Some(106 * MS));
        assert_eq!((rq.this_bw, rq.running_bw), (THIRD, THIRD), "non-contending");
        assert!(rq.inactive_task_timer(&mut dl));
        assert_eq!((rq.this_bw, rq.running_bw), (THIRD, 0), "inactive");
        assert!(rq.task_contending(&mut dl, false));
        assert_eq!((rq.this_bw, rq.running_bw), (THIRD, THIRD));
    }

    /// It slept for too short a time to become inactive: nothing changes, and the timer has nothing to do.
    #[test]
    fn an_early_wake_up_keeps_its_bandwidth() {
        let (mut rq, mut dl) = woken(10, 30);
        dl.update_curr_dl_se(2 * MS);
        rq.task_non_contending(&mut dl, 102 * MS);
        assert!(!rq.task_contending(&mut dl, false));
        assert!(!rq.inactive_task_timer(&mut dl));
        assert_eq!((rq.this_bw, rq.running_bw), (THIRD, THIRD));
    }

    /// 2 ms that took until 107 ms (the task waited, or its CPU is slow) are less than the share: it is inactive as it blocks.
    #[test]
    fn a_late_sleeper_is_inactive_at_once() {
        let (mut rq, mut dl) = woken(10, 30);
        dl.update_curr_dl_se(2 * MS);
        assert_eq!(dl.zero_lag(), 106 * MS);
        assert_eq!(rq.task_non_contending(&mut dl, 107 * MS), None);
        assert_eq!((rq.this_bw, rq.running_bw, dl.non_contending), (THIRD, 0, false));
        // Just at the time the timer is started all the same.
        let (mut rq, mut dl) = woken(10, 30);
        dl.update_curr_dl_se(2 * MS);
        assert_eq!(rq.task_non_contending(&mut dl, 106 * MS), Some(106 * MS));
    }

    /// An overrun of 1 ms of 3 ms in 10 ms: the deadline at 110 ms, and a third of 10 ms (truncated to ns) after it.
    #[test]
    fn an_overrun_counts_beyond_the_deadline() {
        let (mut rq, mut dl) = woken(3, 10);
        assert!(dl.update_curr_dl_se(4 * MS), "throttled");
        assert_eq!(rq.task_non_contending(&mut dl, 104 * MS), Some(110 * MS + 3_333_333));
        assert_eq!(rq.running_bw, dl.dl_bw());
    }

    /// Woken elsewhere, it takes its bandwidth along: the part that counts only if it had not become inactive.
    #[test]
    fn a_wake_up_elsewhere_moves_the_bandwidth() {
        for sleeps_long in [false, true] {
            let (mut old, mut dl) = woken(10, 30);
            let mut new = DlRqBw::default();
            dl.update_curr_dl_se(2 * MS);
            old.task_non_contending(&mut dl, 102 * MS);
            if sleeps_long {
                old.inactive_task_timer(&mut dl);
            }
            assert_eq!(old.migrate_task_rq(&mut dl), !sleeps_long);
            assert_eq!(old, DlRqBw::default());
            assert!(new.task_contending(&mut dl, true));
            assert_eq!((new.this_bw, new.running_bw), (THIRD, THIRD));
        }
    }

    /// Two tasks of a third and a half: 341 + 512 of 1024 while both contend, and what is left of a moved one is nothing.
    #[test]
    fn bandwidths_add_up() {
        let (mut rq, one) = woken(10, 30);
        let two = entity(5, 10);
        rq.arrive(&two);
        assert_eq!(cpu_bw_dl(rq.running_bw), 853);
        rq.leave(&one);
        assert_eq!((rq.this_bw, rq.running_bw), (1 << (BW_SHIFT - 1), 1 << (BW_SHIFT - 1)));
        rq.leave(&two);
        assert_eq!(rq, DlRqBw::default());
    }

    /// A lone task that reclaims has the whole 95 % for its budget; one among others that run only its own share.
    #[test]
    fn reclaiming_stretches_a_budget() {
        let dl = DlEntity::new(10 * MS, 30 * MS, 30 * MS);
        let alone = DlRqBw { this_bw: THIRD, running_bw: THIRD };
        // Nothing else is admitted: what is not admitted is what is left of 95 %.
        let charged = grub_reclaim(MS, &alone, DL_BW_LIMIT - THIRD, &dl, Grub::Limit);
        assert!((340_000..360_000).contains(&charged), "{charged}");
        // All is admitted and runs: nothing to reclaim.
        let charged = grub_reclaim(MS, &DlRqBw { this_bw: DL_BW_LIMIT, running_bw: DL_BW_LIMIT }, 0, &dl, Grub::Limit);
        assert!((990_000..=1_000_000).contains(&charged), "{charged}");
        // Before v6.5 a lone task has what is not admitted of the whole CPU, too: 1 - (0.95 - 1/3).
        let charged = grub_reclaim(MS, &alone, DL_BW_LIMIT - THIRD, &dl, Grub::Whole);
        assert!((380_000..385_000).contains(&charged), "{charged}");
    }

    proptest! {
        /// Whatever tasks of a queue do, what counts is part of what belongs there, and a queue that all have left is empty.
        #[test]
        fn running_is_part_of_all(steps in prop::collection::vec((0usize..4, 0u8..4, 0u64..40), 1..200)) {
            let mut rq = DlRqBw::default();
            let mut tasks = [entity(1, 10), entity(3, 7), entity(9, 30), entity(2, 100)];
            let mut queued = [true; 4];
            let mut here = [true; 4];
            tasks.iter().for_each(|dl| rq.arrive(dl));
            let mut clock = 100 * MS;
            for (index, what, ms) in steps {
                let dl = &mut tasks[index];
                clock += ms * MS / 4;
                match (queued[index], what) {
                    (true, 0) => {
                        dl.update_curr_dl_se(ms * MS / 8);
                        rq.task_non_contending(dl, clock);
                        queued[index] = false;
                    }
                    (true, 1) => {
                        rq.leave(dl);
                        rq.arrive(dl);
                    }
                    (false, 0) if here[index] => {
                        rq.inactive_task_timer(dl);
                    }
                    (false, 1) if here[index] => {
                        rq.migrate_task_rq(dl);
                        here[index] = false;
                    }
                    (false, 2) => {
                        rq.task_contending(dl, !here[index]);
                        dl.update_dl_entity(clock);
                        (queued[index], here[index]) = (true, true);
                    }
                    _ => {}
                }
                prop_assert!(rq.running_bw <= rq.this_bw);
                let all: u64 = (0..4).filter(|&index| here[index]).map(|index| tasks[index].dl_bw()).sum();
                let running = (0..4).filter(|&index| queued[index] || tasks[index].non_contending);
                prop_assert_eq!((rq.this_bw, rq.running_bw), (all, running.map(|index| tasks[index].dl_bw()).sum()));
            }
        }

        #[test]
        fn no_input_panics(numbers: [u64; 6], runtime: i64, non_contending: bool) {
            let mut rq = DlRqBw { this_bw: numbers[0], running_bw: numbers[1] };
            let mut dl = DlEntity::new(numbers[2], numbers[3], numbers[4]);
            (dl.runtime, dl.deadline, dl.non_contending) = (runtime, numbers[5], non_contending);
            rq.arrive(&dl);
            rq.task_non_contending(&mut dl, numbers[0]);
            rq.task_contending(&mut dl, true);
            rq.migrate_task_rq(&mut dl);
            rq.leave(&dl);
        }
    }
}
