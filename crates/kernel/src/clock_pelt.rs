//! The run queue's clocks: the scheduler's clock, the time that tasks had, and PELT's dilated time
//! (kernel/sched/core.c:update_rq_clock(), update_rq_clock_task(); kernel/sched/pelt.h; v6.12; dilation since v5.1).
//!
//! ```text
//!  clock        wall time, as the scheduler's clock gives it
//!  clock_task   clock without interrupt (and stolen) time
//!  clock_pelt   clock_task slowed down by capacity and frequency while the CPU is busy, and put level with clock_task
//!               as soon as it idles: the work done is what counts, not the time that it took
//!  PELT's now   clock_pelt - lost_idle_time
//! ```
//! A run queue that never idles cannot catch up; the idle time that a saturated CPU owes is written off as
//! `lost_idle_time`. Throttled groups' clocks are not here.

use crate::pelt::{HalfLife, cap_scale, saturated_util_sum};

/// The clocks of one run queue (kernel/sched/sched.h: struct rq, v6.12), all in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RqClock {
    /// `rq->clock`.
    pub clock: u64,
    /// `rq->clock_task`.
    pub clock_task: u64,
    /// `rq->clock_pelt`.
    pub clock_pelt: u64,
    /// `rq->lost_idle_time`.
    pub lost_idle_time: u64,
    /// `rq->clock_idle`: the clock at the last update while idle.
    pub clock_idle: u64,
    /// `rq->clock_pelt_idle`: PELT's now at the last update while idle.
    pub clock_pelt_idle: u64,
    /// `rq->prev_irq_time`: the interrupt time that was taken off already.
    pub prev_irq_time: u64,
}

impl RqClock {
    /// All clocks at `now`; interrupt time counts from `irq_time`.
    pub fn new(now: u64, irq_time: u64) -> Self {
        Self {
            clock: now,
            clock_task: now,
            clock_pelt: now,
            lost_idle_time: 0,
            clock_idle: now,
            clock_pelt_idle: now,
            prev_irq_time: irq_time,
        }
    }

    /// Brings all clocks up to `sched_clock` (core.c:update_rq_clock(), v6.12).
    ///
    /// `irq_time` is the CPU's cumulative interrupt time; `idle`: the idle task is `curr`;
    /// `cpu_capacity` and `freq_scale` (0..1024) are what the time since the last update ran at.
    /// Returns the interrupt time that was taken off `clock_task`: when it is not 0, the caller accounts it with
    /// [`crate::pelt::update_irq_load_avg`] at [`Self::clock`] (as `u64`). Negative when `irq_time` went back.
    ///
    /// A clock that goes back changes nothing. Stolen time (paravirtual clocks) is not accounted.
    #[inline]
    pub fn update_rq_clock(
        &mut self,
        sched_clock: u64,
        irq_time: u64,
        idle: bool,
        cpu_capacity: u64,
        freq_scale: u64,
    ) -> i64 {
        let mut delta = sched_clock.wrapping_sub(self.clock) as i64;
        if delta < 0 {
            return 0;
        }
        self.clock = sched_clock;
        let irq_delta = (irq_time.wrapping_sub(self.prev_irq_time) as i64).min(delta);
        self.prev_irq_time = self.prev_irq_time.wrapping_add(irq_delta as u64);
        delta = delta.wrapping_sub(irq_delta);
        self.clock_task = self.clock_task.wrapping_add(delta as u64);
        if idle {
            self.sync_idle();
        } else {
            // Two truncations, capacity first.
            let dilated = cap_scale(cap_scale(delta as u64, cpu_capacity), freq_scale);
            self.clock_pelt = self.clock_pelt.wrapping_add(dilated);
        }
        irq_delta
    }

    /// The run queue is about to idle; its clocks were updated before, as busy
    /// (pelt.h:update_idle_rq_clock_pelt(), v6.12).
    ///
    /// The arguments are the `util_sum`s of the three classes. If together they show a CPU that was always busy, the
    /// time by which the dilated clock lags was not idle time and is written off.
    #[inline]
    pub fn update_idle_rq_clock_pelt<H: HalfLife>(&mut self, cfs_util_sum: u32, rt_util_sum: u32, dl_util_sum: u32) {
        let util_sum = cfs_util_sum.wrapping_add(rt_util_sum).wrapping_add(dl_util_sum);
        if util_sum >= saturated_util_sum::<H>() {
            self.lost_idle_time = self.lost_idle_time.wrapping_add(self.clock_task.wrapping_sub(self.clock_pelt));
        }
        self.sync_idle();
    }

    /// pelt.h:_update_idle_rq_clock_pelt(), v6.12.
    #[inline]
    fn sync_idle(&mut self) {
        self.clock_pelt = self.clock_task;
        self.clock_idle = self.clock;
        self.clock_pelt_idle = self.rq_clock_pelt();
    }

    /// PELT's now (pelt.h:rq_clock_pelt(), v6.12).
    #[inline]
    pub fn rq_clock_pelt(&self) -> u64 {
        self.clock_pelt.wrapping_sub(self.lost_idle_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pelt::HalfLife32;
    use proptest::prelude::*;

    /// Goal: at half capacity and half speed a quarter of the time passes, and idling catches up.
    #[test]
    fn time_dilates_and_catches_up() {
        let mut clock = RqClock::new(0, 0);
        clock.update_rq_clock(4_096_000, 0, false, 512, 512);
        assert_eq!(clock.rq_clock_pelt(), 1_024_000);
        clock.update_idle_rq_clock_pelt::<HalfLife32>(0, 0, 0);
        assert_eq!(clock.rq_clock_pelt(), 4_096_000);
    }

    #[test]
    fn a_saturated_cpu_has_no_idle_time_to_catch_up() {
        let mut clock = RqClock::new(0, 0);
        clock.update_rq_clock(4_096_000, 0, false, 512, 512);
        let saturated = saturated_util_sum::<HalfLife32>();
        clock.update_idle_rq_clock_pelt::<HalfLife32>(saturated - 2, 1, 1);
        assert_eq!((clock.rq_clock_pelt(), clock.lost_idle_time), (1_024_000, 3_072_000));
    }

    #[test]
    fn interrupts_take_task_time() {
        let mut clock = RqClock::new(1_000, 10);
        assert_eq!(clock.update_rq_clock(2_000, 310, false, 1024, 1024), 300);
        assert_eq!((clock.clock, clock.clock_task, clock.rq_clock_pelt()), (2_000, 1_700, 1_700));
        assert_eq!(clock.update_rq_clock(1_500, 400, false, 1024, 1024), 0);
        assert_eq!(clock.clock, 2_000);
    }

    proptest! {
        /// Goal: for clocks that go forward, PELT's now never goes back and never overtakes the tasks' time.
        #[test]
        fn pelt_time_is_monotonic(
            steps in proptest::collection::vec((0..50_000_000u64, 0..1025u64, 0..1025u64, 0..4u32), 1..80),
        ) {
            let mut clock = RqClock::new(0, 0);
            let (mut now, mut idle) = (0, true);
            for (ns, capacity, freq_scale, op) in steps {
                now += ns;
                let before = clock.rq_clock_pelt();
                clock.update_rq_clock(now, now / 10, idle, capacity, freq_scale);
                if op == 0 && !idle {
                    clock.update_idle_rq_clock_pelt::<HalfLife32>((ns as u32) << 4, 0, 0);
                }
                idle = op == 0;
                prop_assert!(before <= clock.rq_clock_pelt());
                prop_assert!(clock.rq_clock_pelt() <= clock.clock_task);
                prop_assert!(clock.clock_task <= clock.clock);
            }
        }

        #[test]
        fn any_clock_has_a_successor(n: [u64; 11], idle: bool, sums: [u32; 3]) {
            let mut clock = RqClock {
                clock: n[0], clock_task: n[1], clock_pelt: n[2], lost_idle_time: n[3], clock_idle: n[4],
                clock_pelt_idle: n[5], prev_irq_time: n[6],
            };
            clock.update_rq_clock(n[7], n[8], idle, n[9], n[10]);
            clock.update_idle_rq_clock_pelt::<HalfLife32>(sums[0], sums[1], sums[2]);
        }
    }
}
