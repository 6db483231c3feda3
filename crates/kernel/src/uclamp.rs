//! Utilisation clamping: buckets and a run queue's effective clamps (kernel/sched/core.c, kernel/sched/sched.h; v6.12).
//!
//! A task may ask that frequency and placement treat it as using at least `uclamp_min` or at most `uclamp_max`. A run
//! queue takes the largest request of its runnable tasks; to find it without a walk, tasks are counted in buckets.
//! Control groups' requests and the system-wide ranges are not here: requests come in as effective values.

use crate::unit::SCHED_CAPACITY_SCALE;

/// Buckets of an upstream configuration (`CONFIG_UCLAMP_BUCKETS_COUNT`).
pub const UCLAMP_BUCKETS: usize = 5;

/// Which clamp (include/linux/sched.h: enum uclamp_id, v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UclampId {
    /// `UCLAMP_MIN`: a boost; without tasks it is 0.
    Min,
    /// `UCLAMP_MAX`: a cap; without tasks it is 1024.
    Max,
}

impl UclampId {
    /// The value that clamps nothing (kernel/sched/core.c:uclamp_none()).
    pub const fn none(self) -> u64 {
        match self {
            Self::Min => 0,
            Self::Max => SCHED_CAPACITY_SCALE,
        }
    }
}

/// The width of a bucket: 1024 / `buckets`, rounded to nearest (core.c: UCLAMP_BUCKET_DELTA, v6.12); at least 1.
pub const fn uclamp_bucket_delta(buckets: u64) -> u64 {
    let buckets = if buckets == 0 { 1 } else { buckets };
    let delta = SCHED_CAPACITY_SCALE.saturating_add(buckets / 2) / buckets;
    if delta == 0 { 1 } else { delta }
}

/// The bucket of a clamp value (core.c:uclamp_bucket_id(), v6.12); values beyond the last bucket go there.
#[inline]
pub const fn uclamp_bucket_id(clamp_value: u64, buckets: u64) -> u64 {
    let id = clamp_value / uclamp_bucket_delta(buckets);
    if id < buckets { id } else { buckets.saturating_sub(1) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bucket {
    tasks: u32,
    /// The largest request since the bucket was empty: it stays in force after its task left, as long as the bucket
    /// has others ("local max aggregation").
    value: u64,
}

/// One clamp of one run queue (kernel/sched/sched.h: struct uclamp_rq, v6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UclampRq {
    id: UclampId,
    value: u64,
    bucket: [Bucket; UCLAMP_BUCKETS],
}

impl UclampRq {
    /// The clamp of a run queue that had no task yet: it clamps nothing.
    pub fn new(id: UclampId) -> Self {
        Self { id, value: id.none(), bucket: Default::default() }
    }

    /// The effective value for the run queue, 0..1024 (sched.h:uclamp_rq_get()).
    #[inline]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// A task with the effective request `value` becomes runnable (core.c:uclamp_rq_inc_id(), v6.12).
    ///
    /// `was_idle` is `UCLAMP_FLAG_IDLE`: the run queue kept its last task's cap while idle, and the first task
    /// replaces it.
    pub fn inc(&mut self, value: u64, was_idle: bool) {
        if was_idle {
            self.value = value;
        }
        let bucket = &mut self.bucket[uclamp_bucket_id(value, UCLAMP_BUCKETS as u64) as usize];
        bucket.tasks = bucket.tasks.saturating_add(1);
        if bucket.tasks == 1 || value > bucket.value {
            bucket.value = value;
        }
        self.value = self.value.max(value);
    }

    /// A task with the effective request `value` (the one given to [`Self::inc`]) is no longer runnable
    /// (core.c:uclamp_rq_dec_id(), v6.12). True when no task is left and the cap is kept for the idle time: the caller
    /// sets `UCLAMP_FLAG_IDLE`.
    pub fn dec(&mut self, value: u64) -> bool {
        let at = uclamp_bucket_id(value, UCLAMP_BUCKETS as u64) as usize;
        let bucket = &mut self.bucket[at];
        bucket.tasks = bucket.tasks.saturating_sub(1);
        // While the bucket has tasks, its value stands: the kernel accepts that over-boost.
        if bucket.tasks != 0 || bucket.value < self.value {
            return false;
        }
        match (self.bucket.iter().rev().find(|bucket| bucket.tasks != 0), self.id) {
            (Some(top), _) => {
                self.value = top.value;
                false
            }
            // uclamp_idle_value(): blocked utilisation shall not raise the frequency beyond what the last task was
            // allowed.
            (None, UclampId::Max) => {
                self.value = value;
                true
            }
            (None, UclampId::Min) => {
                self.value = UclampId::Min.none();
                false
            }
        }
    }
}

/// What a task's request comes to in a group with these clamps (core.c:uclamp_tg_restrict(), v6.12).
#[inline]
pub fn uclamp_tg_restrict(request: u16, (least, most): (u16, u16)) -> u16 {
    request.max(least).min(most)
}

/// Clamps a utilisation to a run queue's requests; the lower one wins where they cross
/// (kernel/sched/sched.h:uclamp_rq_util_with(), v5.10).
#[inline]
pub fn uclamp_util(util: u64, min: u64, max: u64) -> u64 {
    if min >= max { min } else { util.clamp(min, max) }
}

/// True if the run queue's cap holds the frequency down (kernel/sched/sched.h:uclamp_rq_is_capped(), v6.12).
#[inline]
pub fn uclamp_rq_is_capped(uclamp_used: bool, util_cfs: u64, util_rt: u64, uclamp_max: u64) -> bool {
    uclamp_used && uclamp_max != SCHED_CAPACITY_SCALE && util_cfs.wrapping_add(util_rt) >= uclamp_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_five() {
        let check = |value, bucket| assert_eq!(uclamp_bucket_id(value, 5), bucket, "{value}");
        check(0, 0);
        check(204, 0);
        check(205, 1);
        check(1024, 4);
        check(u64::MAX, 4);
    }

    /// Goal: a boost stays in force until its bucket is empty.
    #[test]
    fn requests_of_one_bucket_last_together() {
        let mut boost = UclampRq::new(UclampId::Min);
        boost.inc(10, false);
        boost.inc(200, false);
        assert_eq!(boost.value(), 200);
        assert!(!boost.dec(200));
        assert_eq!(boost.value(), 200);
        assert!(!boost.dec(10));
        assert_eq!(boost.value(), 0);
    }

    #[test]
    fn an_idle_run_queue_keeps_its_cap() {
        let mut cap = UclampRq::new(UclampId::Max);
        cap.inc(300, true);
        assert_eq!(cap.value(), 300);
        assert!(cap.dec(300));
        assert_eq!(cap.value(), 300);
        cap.inc(800, true);
        assert_eq!(cap.value(), 800);
    }
}
