//! Per-entity load tracking (kernel/sched/pelt.c, pelt.h, sched-pelt.h, v6.12).
//!
//! A signal is a geometric sum over periods of 1024 units of 1024 ns: what happened one half-life ago counts half.
//! The sums here know nothing of frequency or capacity: invariance comes from the clock that the caller passes as
//! `now` ([`crate::clock_pelt`], since v5.1). The older way, scaling each contribution, is
//! [`crate::pelt_scaled`]. Attaching and detaching entities to run queues and the propagation through groups are
//! [`crate::sched::attach`].
//!
//! ```text
//!     last_update_time                                    now
//!        v                                                 v
//!  |-----d1-----|-----1024-----| ... |-----1024-----|--d3--|        d1 completes the period that was open,
//!   ^contrib                                                        d3 opens the next one
//! ```
//!
//! Every function is generic over the [`HalfLife`] and compiled once for each, so that the tables are constants.

use crate::unit::{SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};

/// log2 of the length of a PELT time unit in ns: 1024 ns, "about a microsecond".
pub const PELT_UNIT_SHIFT: u32 = 10;
/// Time units in a PELT period: 1024 units of 1024 ns, 1.048576 ms.
pub const PELT_PERIOD: u32 = 1024;

/// y^n in 32-bit fixed point, y^32 = 1/2: `runnable_avg_yN_inv` as Documentation/scheduler/sched-pelt.c computes it
/// (v6.12). Shorter half-lives take every second or fourth entry.
const YN_INV_32: [u32; 32] = [
    4294967295, 4202935002, 4112874772, 4024744346, 3938502374, 3854108390, 3771522795, 3690706838, 3611622601,
    3534232977, 3458501652, 3384393093, 3311872528, 3240905929, 3171459998, 3103502150, 3037000499, 2971923841,
    2908241641, 2845924020, 2784941737, 2725266178, 2666869343, 2609723833, 2553802832, 2499080104, 2445529971,
    2393127306, 2341847523, 2291666560, 2242560871, 2194507416,
];

/// The first 32 / `stride` entries of the table for a half-life of 32 / `stride` periods; the rest repeats them.
const fn yn_inv(stride: usize) -> [u32; 32] {
    let mut table = [0; 32];
    let mut n = 0;
    while n < 32 {
        table[n] = YN_INV_32[(n * stride) % 32];
        n += 1;
    }
    table
}

/// What an entity that always runs converges to (`LOAD_AVG_MAX`): the fixed point of one period's decay plus 1024.
const fn load_avg_max(y_inv: u32) -> u32 {
    let mut max: u64 = PELT_PERIOD as u64;
    loop {
        let next = ((max * y_inv as u64) >> 32) + PELT_PERIOD as u64;
        if next == max {
            return max as u32;
        }
        max = next;
    }
}

/// How fast history fades: a signal without new contributions halves in `PERIOD` periods of 1.048576 ms.
///
/// Upstream compiles one half-life, 32; 16 and 8 are what Android's `sysctl_sched_pelt_multiplier` selects.
pub trait HalfLife: Copy + Clone + core::fmt::Debug + Default + 'static {
    /// `LOAD_AVG_PERIOD`: periods in a half-life; a power of two, at most 32.
    const PERIOD: u32;
    /// `LOAD_AVG_MAX`: the load sum of an entity that was always runnable, in time units.
    const MAX: u32;
    /// `runnable_avg_yN_inv`: y^n in 32-bit fixed point for n < `PERIOD` (larger indices repeat).
    const INV: &'static [u32; 32];
}

macro_rules! half_life {
    ($(#[$doc:meta])* $name:ident, $period:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name;

        impl HalfLife for $name {
            const PERIOD: u32 = $period;
            const MAX: u32 = load_avg_max(Self::INV[1]);
            const INV: &'static [u32; 32] = {
                const TABLE: [u32; 32] = yn_inv(32 / $period);
                &TABLE
            };
        }
    };
}

half_life!(
    /// Upstream's half-life of 32 periods.
    HalfLife32, 32
);
half_life!(
    /// A half-life of 16 periods (multiplier 2).
    HalfLife16, 16
);
half_life!(
    /// A half-life of 8 periods (multiplier 4). An entity that always runs settles at `util_avg` 1025, not 1024: the
    /// rounding of `LOAD_AVG_MAX`, as in the kernel.
    HalfLife8, 8
);

/// Set in a task's `util_est` when it was updated at a dequeue and the task's `util_avg` did not move since, so that a
/// second update would count the same activation again (include/linux/sched.h, v6.12).
pub const UTIL_AVG_UNCHANGED: u32 = 1 << 31;

/// How fast a CPU is, of two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scales {
    /// `arch_scale_freq_capacity()`: speed relative to its highest frequency, 1024 for that.
    pub freq_scale: u64,
    /// `arch_scale_cpu_capacity()`: capacity relative to the biggest CPU, 1024 for that.
    pub cpu_capacity: u64,
}

impl Scales {
    /// The biggest CPU at its highest frequency, or one without invariance.
    pub const FULL: Self = Self { freq_scale: 1024, cpu_capacity: 1024 };
}

/// The load tracking state of an entity or of a run queue (include/linux/sched.h: struct sched_avg, v6.12).
///
/// `unsigned long` is `u64`. `period_contrib` is below 1024 in every state that these functions produce; of larger
/// values only the low ten bits count where a divider is formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedAvg {
    /// The `now` of the last update, less the part of a time unit that is not accounted yet, in ns.
    pub last_update_time: u64,
    /// Decayed runnable time, times the load for run queues, in time units.
    pub load_sum: u64,
    /// Decayed runnable time times the number of runnable tasks, in time units << 10.
    pub runnable_sum: u64,
    /// Decayed running time, in time units << 10.
    pub util_sum: u32,
    /// The part of the open period that is accounted already, in time units (0..1023).
    pub period_contrib: u32,
    /// `load_sum` as an average, in units of load weight.
    pub load_avg: u64,
    /// `runnable_sum` as an average, 1024 for each task that is always runnable.
    pub runnable_avg: u64,
    /// `util_sum` as an average (0..1024; see [`HalfLife8`] for 1025).
    pub util_avg: u64,
    /// Estimated utilisation: of a task with the flag [`UTIL_AVG_UNCHANGED`], of a run queue the sum of its tasks'.
    pub util_est: u32,
}

impl SchedAvg {
    /// Whether an update at `now` would change nothing: the time since the last is less than a time unit.
    #[inline]
    pub fn is_current(&self, now: u64) -> bool {
        now.wrapping_sub(self.last_update_time) >> PELT_UNIT_SHIFT == 0
    }

    /// Whether an update at `now` goes forward and crosses no boundary of a period: sums grow and averages stay.
    #[inline]
    pub fn ends_no_period(&self, now: u64) -> bool {
        let delta = now.wrapping_sub(self.last_update_time) >> PELT_UNIT_SHIFT;
        delta.wrapping_add(self.period_contrib.into()) < PELT_PERIOD.into()
    }

    /// Whether nothing is left that could decay.
    #[inline]
    fn is_nothing(&self) -> bool {
        let sums = self.load_sum | self.runnable_sum | u64::from(self.util_sum);
        sums | self.load_avg | self.runnable_avg | self.util_avg == 0
    }

    /// The update of a signal that is nothing and stays so: only time passes; whether a period has ended.
    #[inline]
    fn pass_time(&mut self, now: u64) -> bool {
        let Some(delta) = units_passed(now, &mut self.last_update_time) else { return false };
        let total = delta.wrapping_add(self.period_contrib.into());
        self.period_contrib = total as u32 % PELT_PERIOD;
        total >= PELT_PERIOD.into()
    }
}

/// What a sched_entity's update needs to know about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeFacts {
    /// `se->load.weight` at full resolution (1024 << 10 for nice 0).
    pub weight: u64,
    /// `se->on_rq`.
    pub on_rq: bool,
    /// `se_runnable(se)`, see there.
    pub runnable: u64,
    /// The entity is its run queue's `curr`.
    pub running: bool,
}

impl SeFacts {
    /// The facts of a task; `on_rq` for its runnable count too (1 task), as long as it is not `sched_delayed`.
    #[inline]
    pub fn task(weight: u64, on_rq: bool, running: bool) -> Self {
        Self { weight, on_rq, runnable: on_rq as u64, running }
    }
}

/// How many tasks an entity stands for in its run queue's runnable signal (sched.h: se_runnable, v6.12): none when it
/// is only queued because its dequeue was delayed; itself for a task; `runnable_weight` for a group.
#[inline]
pub fn se_runnable(is_task: bool, on_rq: bool, sched_delayed: bool, runnable_weight: u64) -> u64 {
    if sched_delayed {
        0
    } else if is_task {
        on_rq as u64
    } else {
        runnable_weight
    }
}

/// Load weights are kept << 10 on 64-bit kernels; this takes the user's scale, at least 2 if not 0
/// (sched.h: scale_load_down, v6.12).
#[inline]
pub const fn scale_load_down(weight: u64) -> u64 {
    let scaled = weight >> SCHED_CAPACITY_SHIFT;
    if scaled < 2 { scale_small(weight) } else { scaled }
}

/// The same of a weight so small that no task has it, apart: weights are scaled all the time.
#[cold]
const fn scale_small(weight: u64) -> u64 {
    if weight == 0 { 0 } else { 2 }
}

/// `val * y^n` by a shift for whole half-lives and a table for the rest.
///
/// kernel/sched/pelt.c:decay_load(), v6.12. Truncates; the table's first entry is 2^32 - 1, not 2^32, so that even
/// n = 0 takes a little away. The product has 96 bits.
#[inline]
pub fn decay_load<H: HalfLife>(val: u64, n: u64) -> u64 {
    match Decay::new::<H>(n) {
        Some(decay) => decay.of_u64(val),
        None => 0,
    }
}

/// One decay, looked up once and applied to several sums.
#[derive(Clone, Copy)]
struct Decay {
    shift: u32,
    inv: u32,
}

impl Decay {
    /// `None` when everything has faded: after more than 63 half-lives.
    #[inline(always)]
    fn new<H: HalfLife>(n: u64) -> Option<Self> {
        const { assert!(H::PERIOD.is_power_of_two() && H::PERIOD <= 32) };
        if n > (H::PERIOD * 63) as u64 {
            return None;
        }
        let n = n as u32;
        Some(Self { shift: n / H::PERIOD, inv: H::INV[(n % H::PERIOD) as usize % 32] })
    }

    #[inline(always)]
    fn of_u64(self, val: u64) -> u64 {
        (((val >> (self.shift & 63)) as u128 * self.inv as u128) >> 32) as u64
    }

    #[inline(always)]
    fn of_u32(self, val: u32) -> u32 {
        // A 32-bit value fits a 64-bit product, and shifts by up to 63.
        (((val as u64 >> (self.shift & 63)) * self.inv as u64) >> 32) as u32
    }
}

/// The contribution of a span that crosses `periods` >= 1 period boundaries, in time units
/// (kernel/sched/pelt.c:__accumulate_pelt_segments(), v6.12; in `u32`, wrapping).
///
/// `d1` units complete the open period, `periods - 1` whole periods follow, `d3` units lie in the new one:
/// `d1 y^p + 1024 (y^1 + .. + y^(p-1)) + d3`, the sum in the middle as `MAX - MAX y^p - 1024`.
#[inline]
pub fn accumulate_pelt_segments<H: HalfLife>(periods: u64, d1: u32, d3: u32) -> u32 {
    let (c1, rest) = match Decay::new::<H>(periods) {
        Some(decay) => (decay.of_u32(d1), decay.of_u32(H::MAX)),
        None => (0, 0),
    };
    segments::<H>(c1, rest, d3)
}

#[inline(always)]
fn segments<H: HalfLife>(c1: u32, max_decayed: u32, d3: u32) -> u32 {
    c1.wrapping_add(H::MAX.wrapping_sub(max_decayed).wrapping_sub(PELT_PERIOD)).wrapping_add(d3)
}

/// Moves the time stamp of a signal to `now`, in whole time units; gives how many have passed, `None` if none has
/// (kernel/sched/pelt.c:___update_load_sum(), v6.12). Time going back only moves the time stamp.
#[inline(always)]
pub(crate) fn units_passed(now: u64, last_update_time: &mut u64) -> Option<u64> {
    let delta = now.wrapping_sub(*last_update_time);
    if (delta as i64) < 0 {
        *last_update_time = now;
        return None;
    }
    let units = delta >> PELT_UNIT_SHIFT;
    if units == 0 {
        return None;
    }
    *last_update_time = last_update_time.wrapping_add(units << PELT_UNIT_SHIFT);
    Some(units)
}

/// Accounts the time since the last update; true when a period boundary was crossed, so that the averages moved.
///
/// kernel/sched/pelt.c:___update_load_sum() and accumulate_sum(), v6.12. Time going back only moves the time stamp.
#[inline(always)]
fn update_load_sum<H: HalfLife>(now: u64, sa: &mut SchedAvg, load: u64, runnable: u64, running: bool) -> bool {
    update_sums::<H, _>(now, sa, load, runnable, running, |contrib| (contrib, contrib << SCHED_CAPACITY_SHIFT))
}

/// [`update_load_sum`], where `scale` selects what time counts: as load, and as running times capacity.
#[inline(always)]
fn update_sums<H: HalfLife, F: Fn(u32) -> (u32, u32)>(
    now: u64,
    sa: &mut SchedAvg,
    load: u64,
    runnable: u64,
    running: bool,
    scale: F,
) -> bool {
    let Some(delta) = units_passed(now, &mut sa.last_update_time) else { return false };

    // What has no load runs nothing either: a dequeued entity may still be curr (v4.14).
    let (runnable, running) = if load == 0 { (0, false) } else { (runnable, running) };

    let contrib;
    let total = delta.wrapping_add(sa.period_contrib as u64);
    let periods = total / PELT_PERIOD as u64;
    if periods == 0 {
        contrib = delta as u32;
        sa.period_contrib = total as u32;
    } else {
        let d3 = total as u32 % PELT_PERIOD;
        let (mut c1, mut rest) = (0, 0);
        match Decay::new::<H>(periods) {
            Some(decay) => {
                sa.load_sum = decay.of_u64(sa.load_sum);
                sa.runnable_sum = decay.of_u64(sa.runnable_sum);
                sa.util_sum = decay.of_u32(sa.util_sum);
                if load != 0 {
                    c1 = decay.of_u32(PELT_PERIOD.wrapping_sub(sa.period_contrib));
                    rest = decay.of_u32(H::MAX);
                }
            }
            None => {
                sa.load_sum = 0;
                sa.runnable_sum = 0;
                sa.util_sum = 0;
            }
        }
        contrib = segments::<H>(c1, rest, d3);
        sa.period_contrib = d3;
    }
    if load != 0 {
        let (contrib, ran) = scale(contrib);
        sa.load_sum = sa.load_sum.wrapping_add(load.wrapping_mul(contrib as u64));
        sa.runnable_sum = sa.runnable_sum.wrapping_add(runnable.wrapping_mul(contrib as u64) << SCHED_CAPACITY_SHIFT);
        if running {
            sa.util_sum = sa.util_sum.wrapping_add(ran);
        }
    }
    periods != 0
}

/// What the sums of an entity that was always runnable would be: the divider of the averages, in time units
/// (kernel/sched/pelt.h:get_pelt_divider(), v6.12).
#[inline]
pub fn get_pelt_divider<H: HalfLife>(sa: &SchedAvg) -> u32 {
    H::MAX - PELT_PERIOD + sa.period_contrib % PELT_PERIOD
}

/// kernel/sched/pelt.c:___update_load_avg(), v6.12. Divisions truncate.
#[inline(always)]
fn update_load_avg<H: HalfLife>(sa: &mut SchedAvg, load: u64) {
    let divider = get_pelt_divider::<H>(sa);
    sa.load_avg = load.wrapping_mul(sa.load_sum) / divider as u64;
    sa.runnable_avg = sa.runnable_sum / divider as u64;
    sa.util_avg = (sa.util_sum / divider) as u64;
}

/// Updates an entity that sleeps (kernel/sched/pelt.c:__update_load_avg_blocked_se(), v6.12); true when its averages
/// were recomputed. `weight` is at full resolution. The mark [`UTIL_AVG_UNCHANGED`] stays.
#[inline]
pub fn update_load_avg_blocked_se<H: HalfLife>(now: u64, sa: &mut SchedAvg, weight: u64) -> bool {
    let decayed = update_load_sum::<H>(now, sa, 0, 0, false);
    if decayed {
        update_load_avg::<H>(sa, scale_load_down(weight));
    }
    decayed
}

/// Updates an entity of a run queue (kernel/sched/pelt.c:__update_load_avg_se(), v6.12); true when its averages were
/// recomputed, which also clears [`UTIL_AVG_UNCHANGED`] (cfs_se_util_change()).
#[inline(always)]
pub fn update_load_avg_se<H: HalfLife>(now: u64, sa: &mut SchedAvg, facts: SeFacts) -> bool {
    let decayed = update_load_sum::<H>(now, sa, facts.on_rq as u64, facts.runnable, facts.running);
    if decayed {
        update_load_avg::<H>(sa, scale_load_down(facts.weight));
        sa.util_est &= !UTIL_AVG_UNCHANGED;
    }
    decayed
}

/// Updates a fair run queue (kernel/sched/pelt.c:__update_load_avg_cfs_rq(), v6.12); true when its averages were
/// recomputed.
///
/// `load_weight` is the sum of its entities' weights at full resolution; `nr_runnable` counts the tasks below it
/// that are runnable, those with a delayed dequeue excluded; `has_curr`: one of its entities runs.
#[inline(always)]
pub fn update_load_avg_cfs_rq<H: HalfLife>(
    now: u64,
    sa: &mut SchedAvg,
    load_weight: u64,
    nr_runnable: u64,
    has_curr: bool,
) -> bool {
    let decayed = update_load_sum::<H>(now, sa, scale_load_down(load_weight), nr_runnable, has_curr);
    if decayed {
        update_load_avg::<H>(sa, 1);
    }
    decayed
}

/// What a contribution of time counts under scaled contributions: as load, by frequency; as running, by capacity, too
/// (kernel/sched/pelt.c:accumulate_sum(), v4.15 to v5.0).
#[inline(always)]
fn scaled(scales: Scales) -> impl Fn(u32) -> (u32, u32) {
    move |contrib| {
        let contrib = cap_scale(contrib as u64, scales.freq_scale);
        (contrib as u32, contrib.wrapping_mul(scales.cpu_capacity) as u32)
    }
}

/// [`update_load_avg_se`] under scaled contributions, as before v5.1; `now` is the run queue's `clock_task`.
/// [`crate::pelt_scaled`] has that kernel's own averages; these have `runnable_avg` instead of its `runnable_load_avg`.
#[inline]
pub fn update_load_avg_se_scaled<H: HalfLife>(now: u64, sa: &mut SchedAvg, facts: SeFacts, scales: Scales) -> bool {
    let decayed = update_sums::<H, _>(now, sa, facts.on_rq as u64, facts.runnable, facts.running, scaled(scales));
    if decayed {
        update_load_avg::<H>(sa, scale_load_down(facts.weight));
        sa.util_est &= !UTIL_AVG_UNCHANGED;
    }
    decayed
}

/// [`update_load_avg_cfs_rq`] under scaled contributions, as before v5.1; `now` is the run queue's `clock_task`.
#[inline]
pub fn update_load_avg_cfs_rq_scaled<H: HalfLife>(
    now: u64,
    sa: &mut SchedAvg,
    load_weight: u64,
    nr_runnable: u64,
    has_curr: bool,
    scales: Scales,
) -> bool {
    let load = scale_load_down(load_weight);
    let decayed = update_sums::<H, _>(now, sa, load, nr_runnable, has_curr, scaled(scales));
    if decayed {
        update_load_avg::<H>(sa, 1);
    }
    decayed
}

/// [`update_rt_rq_load_avg`] and [`update_dl_rq_load_avg`] under scaled contributions, as before v5.1.
#[inline]
pub fn update_class_avg_scaled<H: HalfLife>(now: u64, sa: &mut SchedAvg, running: bool, scales: Scales) -> bool {
    let decayed = update_sums::<H, _>(now, sa, running as u64, running as u64, running, scaled(scales));
    if decayed {
        update_load_avg::<H>(sa, 1);
    }
    decayed
}

#[inline(always)]
fn update_flag_avg<H: HalfLife>(now: u64, sa: &mut SchedAvg, value: u64) -> bool {
    if value == 0 && sa.is_nothing() {
        return sa.pass_time(now);
    }
    let decayed = update_load_sum::<H>(now, sa, value, value, value != 0);
    if decayed {
        update_load_avg::<H>(sa, 1);
    }
    decayed
}

/// Updates the real-time class's signal: a real-time task ran since the last update, or not
/// (kernel/sched/pelt.c:update_rt_rq_load_avg(), v6.12).
#[inline]
pub fn update_rt_rq_load_avg<H: HalfLife>(now: u64, sa: &mut SchedAvg, running: bool) -> bool {
    update_flag_avg::<H>(now, sa, running as u64)
}

/// Updates the deadline class's signal (kernel/sched/pelt.c:update_dl_rq_load_avg(), v6.12).
#[inline]
pub fn update_dl_rq_load_avg<H: HalfLife>(now: u64, sa: &mut SchedAvg, running: bool) -> bool {
    update_flag_avg::<H>(now, sa, running as u64)
}

/// Averages the capacity that hardware takes away (kernel/sched/pelt.c:update_hw_load_avg(), v6.12; thermal
/// pressure before v6.10). The signal is `load_avg`. `now` is the run queue's `clock_task`, not its PELT clock.
#[inline]
pub fn update_hw_load_avg<H: HalfLife>(now: u64, sa: &mut SchedAvg, capacity_lost: u64) -> bool {
    update_flag_avg::<H>(now, sa, capacity_lost)
}

/// Accounts `irq_ns` of interrupt (and stolen) time that ended at `clock`: scaled to the biggest CPU at its highest
/// frequency, as if it had been one block just before now (kernel/sched/pelt.c:update_irq_load_avg(), v6.12).
///
/// Returns how many of the two updates (idle until the block, running during it) crossed a period.
#[inline]
pub fn update_irq_load_avg<H: HalfLife>(
    clock: u64,
    sa: &mut SchedAvg,
    irq_ns: u64,
    freq_scale: u64,
    cpu_capacity: u64,
) -> u32 {
    let running = cap_scale(cap_scale(irq_ns, freq_scale), cpu_capacity);
    let before = update_load_sum::<H>(clock.wrapping_sub(running), sa, 0, 0, false);
    let during = update_load_sum::<H>(clock, sa, 1, 1, true);
    if before || during {
        update_load_avg::<H>(sa, 1);
    }
    before as u32 + during as u32
}

/// `v * s / 1024`, truncating, the product wrapping (sched.h: cap_scale, v6.12).
#[inline]
pub const fn cap_scale(v: u64, s: u64) -> u64 {
    v.wrapping_mul(s) >> SCHED_CAPACITY_SHIFT
}

/// The smallest sum of `util_sum`s that counts as "no idle time was lost": a saturated CPU
/// (kernel/sched/pelt.h:update_idle_rq_clock_pelt(), v6.12).
pub const fn saturated_util_sum<H: HalfLife>() -> u32 {
    ((H::MAX - PELT_PERIOD) << SCHED_CAPACITY_SHIFT) - H::MAX
}

/// How long an entity that runs without pause needs from 0 until its `util_avg` is at least `util`, in whole periods
/// of 1.048576 ms; `None` if it never gets there.
pub fn ramp_up_periods<H: HalfLife>(util: u64) -> Option<u32> {
    let mut sa = SchedAvg::default();
    let facts = SeFacts::task(SCHED_CAPACITY_SCALE << SCHED_CAPACITY_SHIFT, true, true);
    for period in 0..=64 * H::PERIOD {
        if sa.util_avg >= util {
            return Some(period);
        }
        let now = sa.last_update_time + (1 << (2 * PELT_UNIT_SHIFT));
        update_load_avg_se::<H>(now, &mut sa, facts);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NICE_0: u64 = 1024 << 10;
    /// One period in ns.
    const PERIOD_NS: u64 = 1 << 20;

    fn run<H: HalfLife>(sa: &mut SchedAvg, periods: u64, running: bool) {
        for _ in 0..periods {
            let now = sa.last_update_time + PERIOD_NS;
            update_load_avg_se::<H>(now, sa, SeFacts::task(NICE_0, running, running));
        }
    }

    proptest! {
        /// A signal that is nothing passes time as the whole update does.
        #[test]
        fn nothing_passes_time_as_an_update_does(
            from in 1u64 << 30..1 << 40, after in 0u64..4 << 20, back in 0u64..4096, period_contrib in 0u32..1024,
        ) {
            let nothing = SchedAvg { last_update_time: from, period_contrib, ..SchedAvg::default() };
            let (mut short, mut whole) = (nothing, nothing);
            let now = from + after - back;
            let ended = update_load_sum::<HalfLife32>(now, &mut whole, 0, 0, false);
            update_load_avg::<HalfLife32>(&mut whole, 1);
            prop_assert_eq!(short.pass_time(now), ended);
            prop_assert_eq!(short, whole);
        }

        /// What is skipped as current would have changed nothing.
        #[test]
        fn an_update_of_what_is_current_changes_nothing(
            from in 1u64 << 30..1 << 40, after in 0u64..2 << 20, back in 0u64..4096, period_contrib in 0u32..1024,
        ) {
            let mut sa = SchedAvg {
                last_update_time: from, util_sum: 5_000, load_avg: 300, period_contrib, ..SchedAvg::default()
            };
            let before = sa;
            let facts = SeFacts::task(NICE_0, true, true);
            prop_assert!(!sa.is_current(from.wrapping_sub(back + 1)));
            prop_assert_eq!(sa.ends_no_period(from + after), {
                let mut later = sa;
                !update_load_avg_se::<HalfLife32>(from + after, &mut later, facts)
            });
            prop_assert!(!sa.ends_no_period(from.wrapping_sub(back + 1)));
            if sa.is_current(from + after) {
                prop_assert!(!update_load_avg_se::<HalfLife32>(from + after, &mut sa, facts));
                prop_assert_eq!(sa, before);
            } else {
                update_load_avg_se::<HalfLife32>(from + after, &mut sa, facts);
                prop_assert_ne!(sa.last_update_time, from);
            }
        }
    }

    /// Goal: the sum of a geometric row is what always running converges to, and half of it is gone in a half-life.
    #[test]
    fn half_lives() {
        fn check<H: HalfLife>(settled: u64) {
            let mut sa = SchedAvg::default();
            run::<H>(&mut sa, 40 * H::PERIOD as u64, true);
            assert_eq!(sa.util_avg, settled);
            run::<H>(&mut sa, H::PERIOD as u64, false);
            assert!(sa.util_avg.abs_diff(512) <= 1, "{}", sa.util_avg);
        }
        check::<HalfLife32>(1024);
        check::<HalfLife16>(1024);
        check::<HalfLife8>(1025);
    }

    #[test]
    fn maxima_are_the_published_ones() {
        assert_eq!((HalfLife32::MAX, HalfLife16::MAX, HalfLife8::MAX), (47742, 24130, 12326));
        assert_eq!(HalfLife16::INV[1], YN_INV_32[2]);
        assert_eq!(saturated_util_sum::<HalfLife32>(), (46718 << 10) - 47742);
    }

    #[test]
    fn weights_scale_down_to_at_least_two() {
        let check = |weight, expected| assert_eq!(scale_load_down(weight), expected, "{weight}");
        check(0, 0);
        check(1, 2);
        check(NICE_0, 1024);
        check(3072, 3);
    }

    /// Goal: a clock that goes back changes the time stamp only; a unit that is not full stays open.
    #[test]
    fn time_that_does_not_pass() {
        let mut sa = SchedAvg { last_update_time: 5000, util_sum: 77, period_contrib: 3, ..SchedAvg::default() };
        let facts = SeFacts::task(NICE_0, true, true);
        assert!(!update_load_avg_se::<HalfLife32>(4000, &mut sa, facts));
        assert_eq!((sa.last_update_time, sa.util_sum), (4000, 77));
        assert!(!update_load_avg_se::<HalfLife32>(5023, &mut sa, facts));
        assert_eq!((sa.last_update_time, sa.util_sum), (4000, 77));
        assert!(!update_load_avg_se::<HalfLife32>(5024, &mut sa, facts));
        assert_eq!((sa.last_update_time, sa.util_sum, sa.period_contrib), (5024, 77 + 1024, 4));
    }

    #[test]
    fn ramps() {
        assert_eq!(ramp_up_periods::<HalfLife32>(512), Some(32));
        assert_eq!(ramp_up_periods::<HalfLife8>(512), Some(8));
        assert_eq!(ramp_up_periods::<HalfLife32>(0), Some(0));
        assert_eq!(ramp_up_periods::<HalfLife32>(1025), None);
        assert!(ramp_up_periods::<HalfLife16>(900) < ramp_up_periods::<HalfLife32>(900));
    }

    fn any_avg() -> impl Strategy<Value = SchedAvg> {
        (any::<[u64; 6]>(), any::<[u32; 3]>()).prop_map(|(wide, narrow)| SchedAvg {
            last_update_time: wide[0],
            load_sum: wide[1],
            runnable_sum: wide[2],
            util_sum: narrow[0],
            period_contrib: narrow[1],
            load_avg: wide[3],
            runnable_avg: wide[4],
            util_avg: wide[5],
            util_est: narrow[2],
        })
    }

    fn any_update<H: HalfLife>(sa: SchedAvg, now: u64, numbers: [u64; 3], flags: [bool; 2]) {
        let [weight, runnable, irq_ns] = numbers;
        let facts = SeFacts { weight, on_rq: flags[0], runnable, running: flags[1] };
        for mut sa in [sa, SchedAvg { last_update_time: now.wrapping_sub(irq_ns), ..sa }] {
            update_load_avg_se::<H>(now, &mut sa, facts);
            update_load_avg_blocked_se::<H>(now, &mut sa, weight);
            update_load_avg_cfs_rq::<H>(now.wrapping_add(runnable), &mut sa, weight, runnable, flags[1]);
            update_hw_load_avg::<H>(now, &mut sa, weight);
            update_irq_load_avg::<H>(now, &mut sa, irq_ns, weight, runnable);
        }
    }

    proptest! {
        /// Goal: no state and no input panics.
        #[test]
        fn any_state_has_a_successor(sa in any_avg(), now: u64, numbers: [u64; 3], flags: [bool; 2]) {
            any_update::<HalfLife32>(sa, now, numbers, flags);
            any_update::<HalfLife16>(sa, now, numbers, flags);
            any_update::<HalfLife8>(sa, now, numbers, flags);
            let _ = decay_load::<HalfLife32>(numbers[0], numbers[1]);
            let _ = accumulate_pelt_segments::<HalfLife8>(numbers[0], numbers[1] as u32, numbers[2] as u32);
        }

        /// Goal: from any history of a task, signals stay within their bounds, and running instead of waiting, or
        /// waiting instead of sleeping, never lowers one.
        #[test]
        fn more_activity_never_lowers_a_signal(
            history in proptest::collection::vec((1..40_000_000u64, 0..3u32), 0..60), last_ns in 0..100_000_000u64,
        ) {
            let mut sa = SchedAvg::default();
            let step = |sa: &mut SchedAvg, ns: u64, activity: u32| {
                let facts = SeFacts::task(NICE_0, activity > 0, activity > 1);
                update_load_avg_se::<HalfLife32>(sa.last_update_time + ns, sa, facts);
            };
            for (ns, activity) in history {
                step(&mut sa, ns, activity);
                prop_assert!(sa.util_avg <= 1024 && sa.runnable_avg <= 1024 && sa.load_avg <= 1024);
                prop_assert!(sa.util_avg <= sa.runnable_avg && sa.period_contrib < 1024);
            }
            let [sleeping, waiting, running] = [0, 1, 2].map(|activity| {
                let mut sa = sa;
                step(&mut sa, last_ns, activity);
                sa
            });
            prop_assert!(sleeping.util_avg <= waiting.util_avg && waiting.util_avg <= running.util_avg);
            prop_assert!(sleeping.runnable_avg <= waiting.runnable_avg);
            prop_assert!(sleeping.load_avg <= waiting.load_avg);
        }

        /// Goal: decay never grows, neither with the value nor with time.
        #[test]
        fn decay_is_monotonic(a: u64, b: u64, n in 0..3000u64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(decay_load::<HalfLife32>(low, n) <= decay_load::<HalfLife32>(high, n));
            prop_assert!(decay_load::<HalfLife32>(high, n) <= high);
            if n >= 32 {
                prop_assert!(decay_load::<HalfLife32>(high, n) <= decay_load::<HalfLife32>(high, n - 32));
            }
        }
    }
}
