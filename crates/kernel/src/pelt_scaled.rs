//! Load tracking with scaled contributions, as it was before v5.1 (kernel/sched/pelt.c, v4.15 to v5.0).
//!
//! Since v5.1 the clock is slowed down while a CPU is slow ([`crate::clock_pelt`]). Before, time was real and each
//! contribution was multiplied by frequency and capacity instead. The difference shows in what is *not* running: at half
//! speed the old sum adds half as much but decays at the full rate, so a task that never sleeps settles at 512 instead
//! of approaching 1024, and a CPU at half speed never looks more than half busy.
//!
//! `now` is the run queue's `clock_task`. Sums that have no scale by capacity (`load_sum`, `runnable_load_sum`) are
//! scaled by frequency only. Not here: attaching, migration, groups; they are as in v6.12 with these averages.

pub use crate::pelt::Scales;
use crate::pelt::{HalfLife, PELT_PERIOD, accumulate_pelt_segments, cap_scale, decay_load, units_passed};

/// The load tracking state before v5.1 (include/linux/sched.h: struct sched_avg, v4.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedAvgScaled {
    /// The `now` of the last update, less the part of a time unit that is not accounted yet, in ns.
    pub last_update_time: u64,
    /// Decayed runnable time, times the load for run queues, in time units.
    pub load_sum: u64,
    /// The same for what is runnable itself (a run queue's runnable weight).
    pub runnable_load_sum: u64,
    /// Decayed running time times capacity, in time units << 10.
    pub util_sum: u32,
    /// The part of the open period that is accounted already, in time units (0..1023).
    pub period_contrib: u32,
    /// `load_sum` as an average, in units of load weight.
    pub load_avg: u64,
    /// `runnable_load_sum` as an average, in units of load weight.
    pub runnable_load_avg: u64,
    /// `util_sum` as an average: frequency- and capacity-invariant utilisation, 0..1024.
    pub util_avg: u64,
}

/// Accounts the time since the last update; true when a period boundary was crossed
/// (kernel/sched/pelt.c:___update_load_sum() and accumulate_sum(), v4.19). Time going back only moves the time stamp.
///
/// `load` and `runnable` give what was runnable: 0 or 1 for an entity, scaled-down weights for a run queue.
#[inline]
pub fn update_load_sum<H: HalfLife>(
    now: u64,
    sa: &mut SchedAvgScaled,
    scales: Scales,
    load: u64,
    runnable: u64,
    running: bool,
) -> bool {
    let Some(delta) = units_passed(now, &mut sa.last_update_time) else { return false };
    let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };

    // The contribution is formed even if nothing was runnable; it is not used then.
    let total = delta.wrapping_add(u64::from(sa.period_contrib));
    let periods = total / u64::from(PELT_PERIOD);
    let contrib = if periods == 0 {
        sa.period_contrib = total as u32;
        delta as u32
    } else {
        sa.load_sum = decay_load::<H>(sa.load_sum, periods);
        sa.runnable_load_sum = decay_load::<H>(sa.runnable_load_sum, periods);
        sa.util_sum = decay_load::<H>(u64::from(sa.util_sum), periods) as u32;
        let d1 = PELT_PERIOD.wrapping_sub(sa.period_contrib);
        sa.period_contrib = (total % u64::from(PELT_PERIOD)) as u32;
        accumulate_pelt_segments::<H>(periods, d1, sa.period_contrib)
    };
    let contrib = u64::from(cap_scale(u64::from(contrib), scales.freq_scale) as u32);
    sa.load_sum = sa.load_sum.wrapping_add(load.wrapping_mul(contrib));
    sa.runnable_load_sum = sa.runnable_load_sum.wrapping_add(runnable.wrapping_mul(contrib));
    if running {
        sa.util_sum = sa.util_sum.wrapping_add(contrib.wrapping_mul(scales.cpu_capacity) as u32);
    }
    periods != 0
}

/// Recomputes the averages (kernel/sched/pelt.c:___update_load_avg(), v4.19). Divisions truncate.
#[inline]
pub fn update_load_avg<H: HalfLife>(sa: &mut SchedAvgScaled, load: u64, runnable: u64) {
    let divider = u64::from((H::MAX - PELT_PERIOD).wrapping_add(sa.period_contrib % PELT_PERIOD));
    sa.load_avg = load.wrapping_mul(sa.load_sum) / divider;
    sa.runnable_load_avg = runnable.wrapping_mul(sa.runnable_load_sum) / divider;
    sa.util_avg = u64::from(sa.util_sum) / divider;
}

/// Updates an entity of a run queue; true when its averages were recomputed
/// (kernel/sched/pelt.c:__update_load_avg_se(), v4.19). `weight` and `runnable_weight` are scaled down; for a task they
/// are the same, for a group the second is its runnable part. `on_rq`: whether it is runnable.
#[inline]
pub fn update_load_avg_se<H: HalfLife>(
    now: u64,
    sa: &mut SchedAvgScaled,
    scales: Scales,
    on_rq: bool,
    running: bool,
    weight: u64,
    runnable_weight: u64,
) -> bool {
    let decayed = update_load_sum::<H>(now, sa, scales, u64::from(on_rq), u64::from(on_rq), running);
    if decayed {
        update_load_avg::<H>(sa, weight, runnable_weight);
    }
    decayed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pelt::{HalfLife8, HalfLife32};

    const PERIOD_NS: u64 = 1 << 20;

    fn always_running(freq_scale: u64, periods: u64) -> u64 {
        let mut sa = SchedAvgScaled::default();
        let scales = Scales { freq_scale, ..Scales::FULL };
        for period in 1..=periods {
            update_load_avg_se::<HalfLife32>(period * PERIOD_NS, &mut sa, scales, true, true, 1024, 1024);
        }
        sa.util_avg
    }

    /// A task that never sleeps looks as busy as its CPU is fast, however long it runs.
    #[test]
    fn saturates_at_the_speed() {
        assert_eq!(always_running(1024, 1_000), 1024);
        assert_eq!(always_running(512, 1_000), 512);
        assert_eq!(always_running(512, 32), 256);
    }

    proptest! {
        /// Nothing panics, and the averages agree with the sums.
        #[test]
        fn any_input(
            updates in proptest::collection::vec(any::<(u64, u64, u64, u64, u64, bool)>(), 0..30),
            contrib in any::<u32>(),
        ) {
            let mut sa = SchedAvgScaled { period_contrib: contrib, ..SchedAvgScaled::default() };
            for (now, freq_scale, cpu_capacity, load, runnable, running) in updates {
                let scales = Scales { freq_scale, cpu_capacity };
                update_load_avg_se::<HalfLife8>(now, &mut sa, scales, running, running, load, runnable);
                update_load_avg_se::<HalfLife32>(now, &mut sa, scales, false, running, load, runnable);
            }
        }

        /// A faster CPU never makes an always-running task look less busy.
        #[test]
        fn speed_is_monotonic(freq_scale in 0..=1023u64, periods in 1..400u64) {
            prop_assert!(always_running(freq_scale + 1, periods) >= always_running(freq_scale, periods));
        }
    }
}
