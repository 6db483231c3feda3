//! Load tracking over arrays: many entities at one time ([`PeltBatch`]), and one entity at many times ([`series`]).
//!
//! Both give, bit for bit, what the functions of [`crate::pelt`] give entity by entity. The batch keeps its entities as
//! arrays, in blocks of [`BLOCK`], and is faster than they are for three reasons:
//!
//! ```text
//!  one last update, one open period     everything that depends on time alone (decay, contribution, divider) is
//!                                       computed once for a block, as long as its entities keep step
//!  32-bit factors                       sums below 2^31, which every real task's are, decay by 32 x 32-bit products,
//!                                       which the compiler turns into vector instructions
//!  division by the divider              becomes such a product too, with a reciprocal from a table of 1024; exact for
//!                                       sums below 2^31
//! ```
//! Whatever does not fit (other sums, heavy weights, entities out of step) takes the general way, with the same result.
//! Groups, run queues and attaching are not here: entities are tasks.

use crate::clock_pelt::RqClock;
use crate::pelt::{
    HalfLife, HalfLife8, HalfLife16, HalfLife32, PELT_PERIOD, PELT_UNIT_SHIFT, SchedAvg, accumulate_pelt_segments,
    scale_load_down,
};
use crate::pelt_scaled::{Scales, SchedAvgScaled};
use crate::unit::SCHED_CAPACITY_SHIFT;
use crate::util_est::UTIL_AVG_UNCHANGED;

/// Activity: the task is queued or runs (`se->on_rq`).
pub const ON_RQ: u8 = 1;
/// Activity: the task runs; counts only together with [`ON_RQ`]. The other bits mean nothing.
pub const RUNNING: u8 = 2;

/// Entities in a block.
pub const BLOCK: usize = 64;

/// A divider's reciprocal: for `n < 2^31`, `n / divider = (n * factor) >> shift`.
///
/// With `2^(bits-1) < divider < 2^bits`, `shift = 31 + bits` and `factor * divider = 2^shift + e`, `0 < e <= divider`, the
/// error `n * e` stays below `2^shift`, and `factor` has 32 bits.
#[derive(Debug, Clone, Copy)]
pub struct Reciprocal {
    factor: u32,
    shift: u32,
}

/// The reciprocal of every divider that a half-life has; the index is `period_contrib`.
const fn reciprocals(max: u32) -> [Reciprocal; PELT_PERIOD as usize] {
    let mut table = [Reciprocal { factor: 0, shift: 0 }; PELT_PERIOD as usize];
    let mut contrib = 0;
    while contrib < PELT_PERIOD {
        let divider = max - PELT_PERIOD + contrib;
        assert!(!divider.is_power_of_two());
        let shift = 31 + (u32::BITS - divider.leading_zeros());
        let factor = (1 << shift) / divider as u64 + 1;
        assert!(factor <= u32::MAX as u64);
        table[contrib as usize] = Reciprocal { factor: factor as u32, shift };
        contrib += 1;
    }
    table
}

/// A half-life with the reciprocals of its dividers.
pub trait BatchHalfLife: HalfLife {
    /// By `period_contrib`; see [`Reciprocal`].
    const RECIPROCALS: &'static [Reciprocal; PELT_PERIOD as usize];
}

macro_rules! batch_half_life {
    ($name:ident) => {
        impl BatchHalfLife for $name {
            const RECIPROCALS: &'static [Reciprocal; PELT_PERIOD as usize] = {
                static TABLE: [Reciprocal; PELT_PERIOD as usize] = reciprocals($name::MAX);
                &TABLE
            };
        }
    };
}

batch_half_life!(HalfLife32);
batch_half_life!(HalfLife16);
batch_half_life!(HalfLife8);

/// The product of the low 32 bits: written so that the compiler sees that a 32-bit multiplier does.
#[inline(always)]
fn mul_low(a: u64, b: u32) -> u64 {
    a as u32 as u64 * b as u64
}

/// What a stretch of time does to every entity that was last updated at one time with one open period.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// What becomes of `last_update_time` and `period_contrib`.
    next: Stamp,
    /// A period boundary was crossed; else sums only grow.
    crossed: bool,
    /// The decay, `(val >> shift) * inv >> 32`; `inv` 0 when everything faded.
    shift: u32,
    inv: u32,
    /// Of an entity that was on its run queue, in time units.
    contrib: u32,
    divider: u32,
    reciprocal: Reciprocal,
}

impl Step {
    /// kernel/sched/pelt.c:___update_load_sum() and accumulate_sum(), v6.12, as far as they do not depend on the entity.
    #[inline]
    fn new<H: BatchHalfLife>(now: u64, last: Stamp) -> Self {
        let mut step = Self {
            next: last,
            crossed: false,
            shift: 0,
            inv: 0,
            contrib: 0,
            divider: 1,
            reciprocal: Reciprocal { factor: 0, shift: 0 },
        };
        let delta = now.wrapping_sub(last.update_time);
        if (delta as i64) < 0 {
            step.next.update_time = now;
            return step;
        }
        let delta = delta >> PELT_UNIT_SHIFT;
        if delta == 0 {
            return step;
        }
        step.next.update_time = last.update_time.wrapping_add(delta << PELT_UNIT_SHIFT);
        let total = delta.wrapping_add(last.period_contrib as u64);
        let periods = total / PELT_PERIOD as u64;
        if periods == 0 {
            step.contrib = delta as u32;
            step.next.period_contrib = total as u32;
            return step;
        }
        let d3 = total as u32 % PELT_PERIOD;
        step.crossed = true;
        step.next.period_contrib = d3;
        step.contrib = accumulate_pelt_segments::<H>(periods, PELT_PERIOD.wrapping_sub(last.period_contrib), d3);
        if periods <= (H::PERIOD * 63) as u64 {
            step.shift = periods as u32 / H::PERIOD;
            step.inv = H::INV[(periods as u32 % H::PERIOD) as usize % 32];
        }
        step.divider = H::MAX - PELT_PERIOD + d3;
        step.reciprocal = H::RECIPROCALS[d3 as usize];
        step
    }

    /// Of any value.
    #[inline(always)]
    fn decay(&self, val: u64) -> u64 {
        (((val >> (self.shift & 63)) as u128 * self.inv as u128) >> 32) as u64
    }

    /// Of a value below 2^32.
    #[inline(always)]
    fn decay_small(&self, val: u64) -> u64 {
        mul_low(val >> (self.shift & 63), self.inv) >> 32
    }

    /// Of a sum below 2^31.
    #[inline(always)]
    fn divide_small(&self, sum: u64) -> u64 {
        mul_low(sum, self.reciprocal.factor) >> (self.reciprocal.shift & 63)
    }
}

/// When an entity was last updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    update_time: u64,
    period_contrib: u32,
}

/// [`BLOCK`] entities, one array a field of [`SchedAvg`]; sums of 32 bits are kept in 64.
#[derive(Debug, Clone)]
struct Block {
    load_sum: [u64; BLOCK],
    runnable_sum: [u64; BLOCK],
    util_sum: [u64; BLOCK],
    load_avg: [u64; BLOCK],
    runnable_avg: [u64; BLOCK],
    util_avg: [u64; BLOCK],
    /// `scale_load_down(se->load.weight)`.
    load: [u64; BLOCK],
    util_est: [u32; BLOCK],
    /// The stamp of all, if they are in step; else theirs are in `stamps`.
    stamp: Option<Stamp>,
    stamps: [Stamp; BLOCK],
    /// All sums are below 2^31, and all loads below 2^32.
    small: bool,
}

impl Block {
    fn new(stamp: Stamp, load: u64) -> Self {
        Self {
            load_sum: [0; BLOCK],
            runnable_sum: [0; BLOCK],
            util_sum: [0; BLOCK],
            load_avg: [0; BLOCK],
            runnable_avg: [0; BLOCK],
            util_avg: [0; BLOCK],
            load: [load; BLOCK],
            util_est: [0; BLOCK],
            stamp: Some(stamp),
            stamps: [stamp; BLOCK],
            small: load >> 32 == 0,
        }
    }

    fn get(&self, index: usize) -> SchedAvg {
        let stamp = self.stamp.unwrap_or(self.stamps[index]);
        SchedAvg {
            last_update_time: stamp.update_time,
            load_sum: self.load_sum[index],
            runnable_sum: self.runnable_sum[index],
            util_sum: self.util_sum[index] as u32,
            period_contrib: stamp.period_contrib,
            load_avg: self.load_avg[index],
            runnable_avg: self.runnable_avg[index],
            util_avg: self.util_avg[index],
            util_est: self.util_est[index],
        }
    }

    fn set(&mut self, index: usize, sa: &SchedAvg, load: u64) {
        if let Some(stamp) = self.stamp.take() {
            self.stamps = [stamp; BLOCK];
        }
        self.stamps[index] = Stamp { update_time: sa.last_update_time, period_contrib: sa.period_contrib };
        self.load_sum[index] = sa.load_sum;
        self.runnable_sum[index] = sa.runnable_sum;
        self.util_sum[index] = sa.util_sum as u64;
        self.load_avg[index] = sa.load_avg;
        self.runnable_avg[index] = sa.runnable_avg;
        self.util_avg[index] = sa.util_avg;
        self.util_est[index] = sa.util_est;
        self.load[index] = load;
        self.look();
    }

    /// Finds out whether the entities are in step and small.
    fn look(&mut self) {
        let first = self.stamp.unwrap_or(self.stamps[0]);
        if self.stamps.iter().all(|&stamp| stamp == first) {
            self.stamp = Some(first);
        }
        let sums = self.load_sum.iter().chain(&self.runnable_sum).chain(&self.util_sum).fold(0, |all, sum| all | sum);
        let loads = self.load.iter().fold(0, |all, load| all | load);
        self.small = sums >> 31 == 0 && loads >> 32 == 0;
    }

    /// The general way, for one entity; true if its averages were recomputed.
    fn update_one(&mut self, index: usize, step: &Step, activity: u8) -> bool {
        let (on, running) = contribs(step.contrib, activity);
        if step.crossed {
            self.load_sum[index] = step.decay(self.load_sum[index]);
            self.runnable_sum[index] = step.decay(self.runnable_sum[index]);
            self.util_sum[index] = step.decay(self.util_sum[index]);
        }
        self.load_sum[index] = self.load_sum[index].wrapping_add(on);
        self.runnable_sum[index] = self.runnable_sum[index].wrapping_add(on << SCHED_CAPACITY_SHIFT);
        let util_sum = self.util_sum[index] as u32;
        self.util_sum[index] = util_sum.wrapping_add((running as u32) << SCHED_CAPACITY_SHIFT) as u64;
        if step.crossed {
            self.average_one(index, step);
        }
        step.crossed
    }

    fn average_one(&mut self, index: usize, step: &Step) {
        let divider = step.divider as u64;
        self.load_avg[index] = self.load[index].wrapping_mul(self.load_sum[index]) / divider;
        self.runnable_avg[index] = self.runnable_sum[index] / divider;
        self.util_avg[index] = self.util_sum[index] / divider;
        self.util_est[index] &= !UTIL_AVG_UNCHANGED;
    }

    /// In step and small: loops without branches.
    fn update_small(&mut self, step: &Step, activity: &[u8; BLOCK]) {
        // A contribution is below 2^27, so that no sum passes 2^32 here; whether one passed 2^31 is seen at the end.
        let mut sums = 0;
        if !step.crossed {
            for (k, &activity) in activity.iter().enumerate() {
                let (on, running) = contribs(step.contrib, activity);
                self.load_sum[k] += on;
                self.runnable_sum[k] += on << SCHED_CAPACITY_SHIFT;
                self.util_sum[k] += running << SCHED_CAPACITY_SHIFT;
                sums |= self.load_sum[k] | self.runnable_sum[k] | self.util_sum[k];
            }
            self.small = sums >> 31 == 0;
            return;
        }
        let mut products = 0;
        for (k, &activity) in activity.iter().enumerate() {
            let (on, running) = contribs(step.contrib, activity);
            let load_sum = step.decay_small(self.load_sum[k]) + on;
            let runnable_sum = step.decay_small(self.runnable_sum[k]) + (on << SCHED_CAPACITY_SHIFT);
            let util_sum = step.decay_small(self.util_sum[k]) + (running << SCHED_CAPACITY_SHIFT);
            let product = mul_low(self.load[k], load_sum as u32);
            sums |= load_sum | runnable_sum | util_sum;
            products |= product;
            self.load_sum[k] = load_sum;
            self.runnable_sum[k] = runnable_sum;
            self.util_sum[k] = util_sum;
            self.load_avg[k] = step.divide_small(product);
            self.runnable_avg[k] = step.divide_small(runnable_sum);
            self.util_avg[k] = step.divide_small(util_sum);
        }
        for util_est in &mut self.util_est {
            *util_est &= !UTIL_AVG_UNCHANGED;
        }
        self.small = sums >> 31 == 0;
        if !self.small || products >> 31 != 0 {
            (0..BLOCK).for_each(|k| self.average_one(k, step));
        }
    }

    /// Updates all entities, of which `n` exist; returns how many of those were recomputed.
    fn update<H: BatchHalfLife>(&mut self, now: u64, activity: &[u8; BLOCK], n: usize) -> usize {
        let Some(stamp) = self.stamp else {
            let mut decayed = 0;
            for (index, &activity) in activity[..n].iter().enumerate() {
                let step = Step::new::<H>(now, self.stamps[index]);
                self.stamps[index] = step.next;
                decayed += usize::from(self.update_one(index, &step, activity));
            }
            return decayed;
        };
        let step = Step::new::<H>(now, stamp);
        self.stamp = Some(step.next);
        if self.small {
            self.update_small(&step, activity);
        } else {
            for (index, &activity) in activity[..n].iter().enumerate() {
                self.update_one(index, &step, activity);
            }
            self.look();
        }
        if step.crossed { n } else { 0 }
    }
}

/// What an entity's time on its queue and its time running add, in time units.
#[inline(always)]
fn contribs(contrib: u32, activity: u8) -> (u64, u64) {
    let on = (activity & ON_RQ) as u64;
    let running = on & (activity / RUNNING) as u64;
    (contrib as u64 & on.wrapping_neg(), contrib as u64 & running.wrapping_neg())
}

/// The load tracking of many tasks.
#[derive(Debug, Clone)]
pub struct PeltBatch<H> {
    n: usize,
    blocks: Vec<Block>,
    half_life: core::marker::PhantomData<H>,
}

impl<H: BatchHalfLife> PeltBatch<H> {
    /// `n` tasks of `weight` (full resolution, 1024 << 10 for nice 0), all last updated at `now`, without history.
    pub fn new(n: usize, now: u64, weight: u64) -> Self {
        let block = Block::new(Stamp { update_time: now, period_contrib: 0 }, scale_load_down(weight));
        Self { n, blocks: vec![block; n.div_ceil(BLOCK)], half_life: core::marker::PhantomData }
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.n
    }

    /// No task.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// A task's state; `None` if there is no such task.
    pub fn get(&self, index: usize) -> Option<SchedAvg> {
        (index < self.n).then(|| self.blocks[index / BLOCK].get(index % BLOCK))
    }

    /// Sets a task's state and weight (full resolution).
    ///
    /// # Panics
    /// If there is no such task.
    pub fn set(&mut self, index: usize, sa: &SchedAvg, weight: u64) {
        assert!(index < self.n, "there is no task {index}");
        let block = &mut self.blocks[index / BLOCK];
        block.set(index % BLOCK, sa, scale_load_down(weight));
        if index + 1 == self.n {
            // What fills the last block up follows its last task, so that it does not break the step.
            for filler in index % BLOCK + 1..BLOCK {
                block.set(filler, &SchedAvg { load_sum: 0, runnable_sum: 0, util_sum: 0, ..*sa }, 0);
            }
        }
    }

    /// One average of every task, block by block.
    fn gather(&self, of: impl Fn(&Block) -> &[u64; BLOCK]) -> Vec<u64> {
        let mut values: Vec<u64> = self.blocks.iter().flat_map(|block| of(block).iter().copied()).collect();
        values.truncate(self.n);
        values
    }

    /// Every task's `util_avg`, 0..1024 (1025 for [`HalfLife8`]).
    pub fn util_avg(&self) -> Vec<u64> {
        self.gather(|block| &block.util_avg)
    }

    /// Every task's `runnable_avg`.
    pub fn runnable_avg(&self) -> Vec<u64> {
        self.gather(|block| &block.runnable_avg)
    }

    /// Every task's `load_avg`, in units of load weight.
    pub fn load_avg(&self) -> Vec<u64> {
        self.gather(|block| &block.load_avg)
    }

    /// Updates every task to `now` as [`crate::pelt::update_load_avg_se`] does; `activity` ([`ON_RQ`], [`RUNNING`]) states what each
    /// did since its last update. Returns how many averages were recomputed.
    ///
    /// # Panics
    /// If `activity` is not as long as the batch.
    pub fn update_load_avg_se(&mut self, now: u64, activity: &[u8]) -> usize {
        assert_eq!(activity.len(), self.n, "one activity a task");
        let mut decayed = 0;
        for (block, activity) in self.blocks.iter_mut().zip(activity.chunks(BLOCK)) {
            decayed += match activity.try_into() {
                Ok(whole) => block.update::<H>(now, whole, BLOCK),
                Err(_) => {
                    let mut filled = [0; BLOCK];
                    filled[..activity.len()].copy_from_slice(activity);
                    block.update::<H>(now, &filled, activity.len())
                }
            };
        }
        decayed
    }
}

/// One task alone, without branches on what it did: as [`crate::pelt::update_load_avg_se`] does but for `util_est`.
#[inline(always)]
fn update_alone<H: BatchHalfLife>(now: u64, sa: &mut SchedAvg, load: u64, activity: u8) {
    let last = Stamp { update_time: sa.last_update_time, period_contrib: sa.period_contrib };
    let step = Step::new::<H>(now, last);
    let (on, running) = contribs(step.contrib, activity);
    let (mut util_sum, running) = (sa.util_sum as u64, running as u32);
    if step.crossed {
        sa.load_sum = step.decay(sa.load_sum);
        sa.runnable_sum = step.decay(sa.runnable_sum);
        util_sum = step.decay_small(util_sum);
    }
    sa.load_sum = sa.load_sum.wrapping_add(on);
    sa.runnable_sum = sa.runnable_sum.wrapping_add(on << SCHED_CAPACITY_SHIFT);
    sa.util_sum = (util_sum as u32).wrapping_add(running << SCHED_CAPACITY_SHIFT);
    if step.crossed {
        let product = load.wrapping_mul(sa.load_sum);
        if (product | sa.runnable_sum | sa.util_sum as u64) >> 31 == 0 {
            sa.load_avg = step.divide_small(product);
            sa.runnable_avg = step.divide_small(sa.runnable_sum);
            sa.util_avg = step.divide_small(sa.util_sum as u64);
        } else {
            let divider = step.divider as u64;
            sa.load_avg = product / divider;
            sa.runnable_avg = sa.runnable_sum / divider;
            sa.util_avg = sa.util_sum as u64 / divider;
        }
    }
    sa.last_update_time = step.next.update_time;
    sa.period_contrib = step.next.period_contrib;
}

/// How a series of one task's updates follows the speed of its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesInvariance<'a> {
    /// It does not: time is the clock's.
    None,
    /// Since v5.1: the clock is dilated by `cpu_capacity` and by each row's frequency scale (0..1024), and catches up
    /// while the CPU idles ([`crate::clock_pelt`]).
    TimeDilated {
        /// What each row ran at; as long as the series.
        freq_scale: &'a [u16],
        /// The CPU's capacity, 0..1024.
        cpu_capacity: u64,
    },
    /// To v5.0: each contribution is scaled ([`crate::pelt_scaled`]).
    ScaledContribution {
        /// What each row ran at; as long as the series.
        freq_scale: &'a [u16],
        /// The CPU's capacity, 0..1024.
        cpu_capacity: u64,
    },
}

/// The averages after each row of a series.
#[derive(Debug)]
pub struct SeriesOutput<'a> {
    /// `util_avg`.
    pub util_avg: &'a mut [u16],
    /// `runnable_avg`; before v5.1 (scaled contributions) `runnable_load_avg`.
    pub runnable_avg: &'a mut [u32],
    /// `load_avg`, its low 32 bits: all of it for weights below 2^41.
    pub load_avg: &'a mut [u32],
}

/// Updates one task alone on its CPU at each of `times_ns`: `activity[i]` ([`ON_RQ`], [`RUNNING`]) is what it did from
/// the row before to this one (for the first row, from `start_ns`, without history). The CPU idles while the task is not
/// on its queue. `weight` is at full resolution.
///
/// # Panics
/// If the arrays are not of one length.
pub fn series<H: BatchHalfLife>(
    start_ns: u64,
    times_ns: &[u64],
    activity: &[u8],
    weight: u64,
    invariance: SeriesInvariance<'_>,
    out: &mut SeriesOutput<'_>,
) {
    let n = times_ns.len();
    assert_eq!(activity.len(), n, "one activity a time");
    let SeriesOutput { util_avg, runnable_avg, load_avg } = out;
    assert_eq!((util_avg.len(), runnable_avg.len(), load_avg.len()), (n, n, n), "one row of output a time");
    let load = scale_load_down(weight);
    let mut sa = SchedAvg { last_update_time: start_ns, ..SchedAvg::default() };
    match invariance {
        SeriesInvariance::None => {
            for k in 0..n {
                update_alone::<H>(times_ns[k], &mut sa, load, activity[k]);
                (util_avg[k], runnable_avg[k], load_avg[k]) =
                    (sa.util_avg as u16, sa.runnable_avg as u32, sa.load_avg as u32);
            }
        }
        SeriesInvariance::TimeDilated { freq_scale, cpu_capacity } => {
            assert_eq!(freq_scale.len(), n, "one frequency scale a time");
            let mut clock = RqClock::new(start_ns, 0);
            let mut was_idle = true;
            for k in 0..n {
                let idle = activity[k] & ON_RQ == 0;
                if idle && !was_idle {
                    clock.update_idle_rq_clock_pelt::<H>(sa.util_sum, 0, 0);
                }
                was_idle = idle;
                clock.update_rq_clock(times_ns[k], 0, idle, cpu_capacity, freq_scale[k] as u64);
                update_alone::<H>(clock.rq_clock_pelt(), &mut sa, load, activity[k]);
                (util_avg[k], runnable_avg[k], load_avg[k]) =
                    (sa.util_avg as u16, sa.runnable_avg as u32, sa.load_avg as u32);
            }
        }
        SeriesInvariance::ScaledContribution { freq_scale, cpu_capacity } => {
            assert_eq!(freq_scale.len(), n, "one frequency scale a time");
            let mut sa = SchedAvgScaled { last_update_time: start_ns, ..SchedAvgScaled::default() };
            for k in 0..n {
                let scales = Scales { freq_scale: freq_scale[k] as u64, cpu_capacity };
                let (on_rq, running) = (activity[k] & ON_RQ != 0, activity[k] & RUNNING != 0);
                crate::pelt_scaled::update_load_avg_se::<H>(times_ns[k], &mut sa, scales, on_rq, running, load, load);
                (util_avg[k], runnable_avg[k], load_avg[k]) =
                    (sa.util_avg as u16, sa.runnable_load_avg as u32, sa.load_avg as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pelt::{SeFacts, update_load_avg_se};
    use proptest::prelude::*;

    /// Updates a batch and its entities one by one, and compares.
    fn check<H: BatchHalfLife + PartialEq>(
        start: &[(SchedAvg, u64)],
        steps: &[(u64, Vec<u8>)],
    ) -> Result<(), TestCaseError> {
        let mut batch = PeltBatch::<H>::new(start.len(), 0, 0);
        let mut alone: Vec<SchedAvg> = start.iter().map(|&(sa, _)| sa).collect();
        for (index, &(sa, weight)) in start.iter().enumerate() {
            batch.set(index, &sa, weight);
        }
        for (now, activity) in steps {
            let decayed = batch.update_load_avg_se(*now, activity);
            let mut expected = 0;
            for (index, sa) in alone.iter_mut().enumerate() {
                let facts = SeFacts::task(start[index].1, activity[index] & 1 != 0, activity[index] & 2 != 0);
                expected += usize::from(update_load_avg_se::<H>(*now, sa, facts));
                prop_assert_eq!(batch.get(index), Some(*sa));
            }
            prop_assert_eq!(decayed, expected);
        }
        Ok(())
    }

    fn any_state() -> impl Strategy<Value = (SchedAvg, u64)> {
        (any::<[u64; 6]>(), any::<[u32; 2]>(), 0..1024u32, any::<u64>()).prop_map(|(wide, narrow, contrib, weight)| {
            let sa = SchedAvg {
                last_update_time: wide[0],
                load_sum: wide[1],
                runnable_sum: wide[2],
                util_sum: narrow[0],
                period_contrib: contrib,
                load_avg: wide[3],
                runnable_avg: wide[4],
                util_avg: wide[5],
                util_est: narrow[1],
            };
            (sa, weight)
        })
    }

    proptest! {
        /// Goal: tasks that start together and stay together (the shared step) equal tasks alone.
        #[test]
        fn together(
            n in prop_oneof![1..9usize, 60..70usize], weights in proptest::collection::vec(0..(1u64 << 28), 70),
            steps in proptest::collection::vec((0..80_000_000u64, proptest::collection::vec(any::<u8>(), 70)), 1..60),
        ) {
            let start: Vec<_> = weights[..n].iter().map(|&weight| (SchedAvg::default(), weight)).collect();
            let mut now = 0;
            let steps: Vec<_> =
                steps.into_iter().map(|(ns, activity)| { now += ns; (now, activity[..n].to_vec()) }).collect();
            check::<HalfLife32>(&start, &steps)?;
            check::<HalfLife16>(&start, &steps)?;
            check::<HalfLife8>(&start, &steps)?;
        }

        /// Goal: any states at any times, also those that no kernel has, equal tasks alone.
        #[test]
        fn apart(
            start in proptest::collection::vec(any_state(), 1..6),
            steps in proptest::collection::vec((any::<u64>(), any::<[u8; 6]>()), 1..8),
        ) {
            let steps: Vec<_> = steps.into_iter().map(|(now, activity)| (now, activity[..start.len()].to_vec())).collect();
            check::<HalfLife32>(&start, &steps)?;
            check::<HalfLife8>(&start, &steps)?;
        }

        /// Goal: the reciprocals divide every sum below 2^31 exactly; those next to a multiple would show a mistake.
        #[test]
        fn reciprocals_are_exact(sum in 0..1u64 << 31, contrib in 0..1024u32) {
            fn check<H: BatchHalfLife>(sum: u64, contrib: u32) -> Result<(), TestCaseError> {
                let step = Step {
                    divider: H::MAX - PELT_PERIOD + contrib,
                    reciprocal: H::RECIPROCALS[contrib as usize],
                    ..Step::new::<H>(0, Stamp { update_time: 0, period_contrib: 0 })
                };
                let divider = step.divider as u64;
                let multiple = sum / divider * divider;
                for sum in [sum, multiple, multiple.saturating_sub(1), (1 << 31) - 1, ((1 << 31) - 1) / divider * divider] {
                    prop_assert_eq!(step.divide_small(sum), sum / divider);
                }
                Ok(())
            }
            check::<HalfLife32>(sum, contrib)?;
            check::<HalfLife16>(sum, contrib)?;
            check::<HalfLife8>(sum, contrib)?;
        }

        /// Goal: sums next to 2^31 and loads next to 2^32 change ways without a difference.
        #[test]
        fn at_the_limits(
            sums in proptest::collection::vec((0..1u64 << 28, any::<[bool; 3]>(), 0..40u64), 70),
            steps in proptest::collection::vec((0..6_000_000u64, any::<u8>()), 1..12),
        ) {
            let state = |&(below, high, weight): &(u64, [bool; 3], u64)| {
                let near = |high: bool| if high && below % 64 == 0 { (1 << 31) - below / 64 % 64 } else { below };
                let sa = SchedAvg {
                    load_sum: near(high[0]), runnable_sum: near(high[1]), util_sum: near(high[2]) as u32,
                    ..SchedAvg::default()
                };
                (sa, 1u64 << (weight + 4))
            };
            let start: Vec<_> = sums.iter().map(state).collect();
            let mut now = 0;
            let steps: Vec<_> = steps.into_iter().map(|(ns, activity)| { now += ns; (now, vec![activity; 70]) }).collect();
            check::<HalfLife32>(&start, &steps)?;
        }

        /// Goal: a task alone, in any state, equals the scalar form.
        #[test]
        fn alone((start, weight) in any_state(), steps: [(u64, u8); 4], near: [u32; 4]) {
            let (mut sa, mut expected) = (start, start);
            for (k, (far, activity)) in steps.into_iter().enumerate() {
                // Some times that are near, too.
                let now = if far % 2 == 0 { far } else { expected.last_update_time.wrapping_add(near[k] as u64) };
                let facts = SeFacts::task(weight, activity & 1 != 0, activity & 2 != 0);
                update_load_avg_se::<HalfLife32>(now, &mut expected, facts);
                update_alone::<HalfLife32>(now, &mut sa, scale_load_down(weight), activity);
                prop_assert_eq!(SchedAvg { util_est: expected.util_est, ..sa }, expected);
            }
        }

        /// Goal: at full speed the three kinds of invariance agree with a batch of one.
        #[test]
        fn full_speed_is_full_speed(steps in proptest::collection::vec((0..60_000_000u64, 0..4u8), 1..60)) {
            let mut now = 7;
            let (times, activity): (Vec<u64>, Vec<u8>) = steps.into_iter().map(|(ns, a)| { now += ns; (now, a) }).unzip();
            let full = vec![1024u16; times.len()];
            let run = |invariance| {
                let (mut util, mut runnable, mut load) = (vec![0; times.len()], vec![0; times.len()], vec![0; times.len()]);
                let mut out = SeriesOutput { util_avg: &mut util, runnable_avg: &mut runnable, load_avg: &mut load };
                series::<HalfLife32>(7, &times, &activity, 1 << 20, invariance, &mut out);
                (util, load)
            };
            let real = run(SeriesInvariance::None);
            prop_assert_eq!(&run(SeriesInvariance::TimeDilated { freq_scale: &full, cpu_capacity: 1024 }), &real);
            let mut batch = PeltBatch::<HalfLife32>::new(1, 7, 1 << 20);
            for (k, &time) in times.iter().enumerate() {
                batch.update_load_avg_se(time, &activity[k..=k]);
                prop_assert_eq!(batch.util_avg()[0], real.0[k] as u64);
                prop_assert_eq!(batch.load_avg()[0], real.1[k] as u64);
            }
        }
    }

    /// The 16 slots of the talk (text 002): a CPU at half its capacity needs four slots for what takes two at full
    /// capacity. While it works PELT's clock advances by half, and when it idles the clock catches up.
    ///
    /// ```text
    ///  absolute time   | 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|16
    ///  half capacity   -----***********--------***********---------
    ///  clock pelt      | 1| 2|    3|    4| 7| 8| 9|   10|   11|14|15|16
    /// ```
    #[test]
    fn sixteen_slots() {
        const SLOT: u64 = 1 << 20;
        let busy = |slot: u64| (3..=6).contains(&slot) || (10..=13).contains(&slot);
        let mut clock = RqClock::new(0, 0);
        let mut halves = Vec::new();
        for slot in 1..=16 {
            if !busy(slot) && busy(slot - 1) {
                clock.update_idle_rq_clock_pelt::<HalfLife32>(0, 0, 0);
            }
            clock.update_rq_clock(slot * SLOT, 0, !busy(slot), 512, 1024);
            halves.push(clock.rq_clock_pelt() * 2 / SLOT);
        }
        // In half slots: at the end of slots 3 and 4, the third PELT slot is half and wholly over.
        assert_eq!(halves, [2, 4, 5, 6, 7, 8, 14, 16, 18, 19, 20, 21, 22, 28, 30, 32]);
    }
}
