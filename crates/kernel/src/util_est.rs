//! Estimated utilisation: what a task used at its last activations, known again at once when it wakes
//! (kernel/sched/fair.c: util_est_enqueue(), util_est_dequeue(), util_est_update(); v6.12, and v4.17..v6.7).
//!
//! Since v6.8 the estimate is one number, an average that jumps up and decays by a quarter; it lies in
//! [`SchedAvg::util_est`]. Before, it was a pair (the last activation and the average), here [`UtilEstPair`].
//! Only tasks and the root run queue of a CPU have an estimate; groups have none.

use crate::pelt::SchedAvg;
pub use crate::pelt::UTIL_AVG_UNCHANGED;

/// The same mark before v5.14: the lowest bit of the last activation.
pub const UTIL_AVG_UNCHANGED_LSB: u32 = 1;
/// The average moves by 1 / 2^this of the difference.
pub const UTIL_EST_WEIGHT_SHIFT: u32 = 2;
/// Differences below about 1 % of the biggest CPU do not count.
pub const UTIL_EST_MARGIN: u32 = 1024 / 100;

/// The estimate without its mark (fair.c:_task_util_est(), v6.12).
#[inline]
pub fn task_util_est_masked(sa: &SchedAvg) -> u32 {
    sa.util_est & !UTIL_AVG_UNCHANGED
}

/// What a task is expected to use: its signal or its estimate, whichever is larger (fair.c:task_util_est(), v6.12).
#[inline]
pub fn task_util_est(sa: &SchedAvg) -> u64 {
    sa.util_avg.max(task_util_est_masked(sa) as u64)
}

/// A task is enqueued: the run queue's estimate grows by its (fair.c:util_est_enqueue(), v6.12).
#[inline]
pub fn util_est_enqueue(cfs: &mut SchedAvg, p: &SchedAvg) {
    cfs.util_est = cfs.util_est.wrapping_add(task_util_est_masked(p));
}

/// A task is dequeued: the run queue's estimate shrinks by its, not below 0 (fair.c:util_est_dequeue(), v6.12).
#[inline]
pub fn util_est_dequeue(cfs: &mut SchedAvg, p: &SchedAvg) {
    cfs.util_est = cfs.util_est.saturating_sub(task_util_est_masked(p));
}

/// A task was dequeued; if it goes to sleep, its activation is averaged in (fair.c:util_est_update(), v6.12).
///
/// Upwards the average follows at once. Downwards it moves by a quarter of the difference, unless the difference is
/// within [`UTIL_EST_MARGIN`], or the task was runnable for clearly longer than it ran (others were in its way). On a
/// CPU smaller than the activation nothing is learnt, and the mark is not set either.
#[inline]
pub fn util_est_update(p: &mut SchedAvg, task_sleep: bool, cpu_capacity: u64) {
    if !task_sleep {
        return;
    }
    let mut ewma = p.util_est;
    if ewma & UTIL_AVG_UNCHANGED != 0 {
        return;
    }
    let dequeued = p.util_avg as u32;
    if ewma <= dequeued {
        ewma = dequeued;
    } else {
        let diff = ewma - dequeued;
        if diff >= UTIL_EST_MARGIN {
            if dequeued as u64 > cpu_capacity {
                return;
            }
            if dequeued.wrapping_add(UTIL_EST_MARGIN) as u64 >= p.runnable_avg {
                // 3/4 of the old, 1/4 of the new value.
                ewma = (ewma << UTIL_EST_WEIGHT_SHIFT).wrapping_sub(diff) >> UTIL_EST_WEIGHT_SHIFT;
            }
        }
    }
    p.util_est = ewma | UTIL_AVG_UNCHANGED;
}

/// Which of the older rules a [`UtilEstPair`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UtilEstForm {
    /// v4.17 to v5.4: the average moves by a quarter in both directions; the mark is the lowest bit.
    V4_17,
    /// v5.5 to v5.11 (vectors: 5.10): upwards at once (`UTIL_EST_FASTUP`); the mark is the lowest bit.
    V5_5,
    /// v5.12 to v6.7: within the margin of the average, a changed last activation is stored; the mark is the highest
    /// bit (v5.14). Vectors: 6.1.
    V5_12,
    /// In no release: the same with the runnable rule (commit 50181c0cff31), which v6.8 brought together with the one value.
    /// For overriding only.
    V5_12Runnable,
}

/// The estimate as it was before v6.8 (include/linux/sched.h: struct util_est, v5.10). A run queue uses only
/// `enqueued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UtilEstPair {
    /// The utilisation at the end of the last activation, with the mark; for a run queue the sum of its tasks'.
    pub enqueued: u32,
    /// The average of past activations.
    pub ewma: u32,
}

impl UtilEstPair {
    /// The task's estimate, never 0 where the lowest bit is the mark (fair.c:_task_util_est(), v5.10).
    #[inline]
    pub fn task_util_est_masked(&self, form: UtilEstForm) -> u32 {
        match form {
            UtilEstForm::V4_17 | UtilEstForm::V5_5 => self.ewma.max(self.enqueued) | UTIL_AVG_UNCHANGED_LSB,
            UtilEstForm::V5_12 | UtilEstForm::V5_12Runnable => self.ewma.max(self.enqueued & !UTIL_AVG_UNCHANGED),
        }
    }

    /// fair.c:task_util_est(), v5.10.
    #[inline]
    pub fn task_util_est(&self, form: UtilEstForm, util_avg: u64) -> u64 {
        util_avg.max(self.task_util_est_masked(form) as u64)
    }

    /// `self` is a run queue's: a task is enqueued (fair.c:util_est_enqueue(), v5.10).
    #[inline]
    pub fn enqueue(&mut self, form: UtilEstForm, p: &UtilEstPair) {
        self.enqueued = self.enqueued.wrapping_add(p.task_util_est_masked(form));
    }

    /// `self` is a run queue's: a task is dequeued (fair.c:util_est_dequeue(), v5.10).
    #[inline]
    pub fn dequeue(&mut self, form: UtilEstForm, p: &UtilEstPair) {
        self.enqueued = self.enqueued.saturating_sub(p.task_util_est_masked(form));
    }

    /// `self` is a task's whose averages were recomputed (pelt.h:cfs_se_util_change(), v5.10).
    #[inline]
    pub fn util_change(&mut self, form: UtilEstForm) {
        self.enqueued &= match form {
            UtilEstForm::V4_17 | UtilEstForm::V5_5 => !UTIL_AVG_UNCHANGED_LSB,
            UtilEstForm::V5_12 | UtilEstForm::V5_12Runnable => !UTIL_AVG_UNCHANGED,
        };
    }

    /// `self` is a task's that was dequeued (fair.c:util_est_update(), v5.10; in v4.17 the end of
    /// util_est_dequeue()).
    #[inline]
    pub fn update(&mut self, form: UtilEstForm, task_sleep: bool, util_avg: u64, runnable_avg: u64, cpu_capacity: u64) {
        if !task_sleep {
            return;
        }
        let lsb = matches!(form, UtilEstForm::V4_17 | UtilEstForm::V5_5);
        let mark = if lsb { UTIL_AVG_UNCHANGED_LSB } else { UTIL_AVG_UNCHANGED };
        let last = self.enqueued;
        if last & mark != 0 {
            return;
        }
        // Where the mark is the lowest bit it is part of the value that is averaged.
        let enqueued = util_avg as u32 | if lsb { mark } else { 0 };
        let mut ewma = self.ewma;
        if form != UtilEstForm::V4_17 && ewma < enqueued {
            ewma = enqueued;
        } else {
            let diff = enqueued as i64 - ewma as i64;
            if diff.unsigned_abs() < UTIL_EST_MARGIN as u64 {
                let moved = (last as i64 - enqueued as i64).unsigned_abs() >= UTIL_EST_MARGIN as u64;
                if lsb || !moved {
                    return;
                }
            } else {
                if util_avg > cpu_capacity {
                    return;
                }
                let contended = form == UtilEstForm::V5_12Runnable
                    && (enqueued.wrapping_add(UTIL_EST_MARGIN) as u64) < runnable_avg;
                if !contended {
                    ewma = (ewma << UTIL_EST_WEIGHT_SHIFT).wrapping_add(diff as u32) >> UTIL_EST_WEIGHT_SHIFT;
                }
            }
        }
        *self = Self { enqueued: enqueued | mark, ewma };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slept(util_est: u32, util_avg: u64, runnable_avg: u64, capacity: u64) -> u32 {
        let mut p = SchedAvg { util_est, util_avg, runnable_avg, ..SchedAvg::default() };
        util_est_update(&mut p, true, capacity);
        p.util_est
    }

    #[test]
    fn up_at_once_and_down_by_a_quarter() {
        let check = |before, util_avg, runnable_avg, capacity, after: u32| {
            assert_eq!(slept(before, util_avg, runnable_avg, capacity), after);
        };
        check(100, 400, 400, 1024, 400 | UTIL_AVG_UNCHANGED);
        check(400, 100, 100, 1024, 325 | UTIL_AVG_UNCHANGED);
        // Within the margin, or crowded out: kept, and not counted again.
        check(400, 391, 391, 1024, 400 | UTIL_AVG_UNCHANGED);
        check(400, 100, 111, 1024, 400 | UTIL_AVG_UNCHANGED);
        // More than the CPU has: nothing learnt.
        check(400, 300, 300, 250, 400);
        // The activation was counted already.
        check(400 | UTIL_AVG_UNCHANGED, 100, 100, 1024, 400 | UTIL_AVG_UNCHANGED);
    }

    #[test]
    fn without_fast_up_the_average_climbs_by_a_quarter() {
        let mut pair = UtilEstPair { enqueued: 0, ewma: 100 };
        pair.update(UtilEstForm::V4_17, true, 500, 500, 1024);
        assert_eq!(pair, UtilEstPair { enqueued: 501, ewma: 200 });
        let mut pair = UtilEstPair { enqueued: 0, ewma: 100 };
        pair.update(UtilEstForm::V5_5, true, 500, 500, 1024);
        assert_eq!(pair, UtilEstPair { enqueued: 501, ewma: 501 });
    }

    proptest! {
        /// Goal: no input panics; an estimate lies between the old one and the activation.
        #[test]
        fn estimates_are_between(old in 0..1025u32, util_avg in 0..1025u64, runnable_avg in 0..4096u64, cap in 0..1025u64) {
            let new = slept(old, util_avg, runnable_avg, cap) & !UTIL_AVG_UNCHANGED;
            prop_assert!(new >= old.min(util_avg as u32) && new <= old.max(util_avg as u32));
        }

        #[test]
        fn any_estimate_has_a_successor(wide: [u64; 3], narrow: [u32; 4]) {
            slept(narrow[0], wide[0], wide[1], wide[2]);
            for form in [UtilEstForm::V4_17, UtilEstForm::V5_5, UtilEstForm::V5_12, UtilEstForm::V5_12Runnable] {
                let mut p = UtilEstPair { enqueued: narrow[0], ewma: narrow[1] };
                let mut cfs = UtilEstPair { enqueued: narrow[2], ewma: narrow[3] };
                cfs.enqueue(form, &p);
                cfs.dequeue(form, &p);
                p.update(form, true, wide[0], wide[1], wide[2]);
                p.util_change(form);
            }
        }

        /// Goal: what enqueue adds, dequeue takes off.
        #[test]
        fn enqueue_and_dequeue_cancel(estimates in proptest::collection::vec(0..2048u32, 0..20)) {
            let mut cfs = SchedAvg::default();
            let tasks = estimates.iter().map(|&util_est| SchedAvg { util_est, ..SchedAvg::default() });
            tasks.clone().for_each(|p| util_est_enqueue(&mut cfs, &p));
            prop_assert_eq!(cfs.util_est, estimates.iter().sum::<u32>());
            tasks.for_each(|p| util_est_dequeue(&mut cfs, &p));
            prop_assert_eq!(cfs.util_est, 0);
        }
    }
}
