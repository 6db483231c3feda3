//! Load weights and the fixed-point division by a weight (kernel/sched/core.c, fair.c, sched.h, v6.12).
//!
//! A weight is stored scaled up by 1024, as 64-bit kernels do: a nice-0 task weighs [`NICE_0_LOAD`].
//! The inverse of a weight is kept beside it so that a division becomes a multiplication and a shift; it is computed when it
//! is first needed. What a run queue does with weights is in [`super::eevdf`] and [`super::cfs`].

pub use crate::pelt::scale_load_down;

/// Weights are stored shifted left by this much (`SCHED_FIXEDPOINT_SHIFT`, 64-bit).
pub const LOAD_SHIFT: u32 = 10;
/// The weight of a nice-0 task.
pub const NICE_0_LOAD: u64 = 1024 << LOAD_SHIFT;
/// The weight of a task of the policy `SCHED_IDLE` (`WEIGHT_IDLEPRIO`), scaled up.
pub const IDLE_WEIGHT: u64 = 3 << LOAD_SHIFT;
/// The inverse of [`IDLE_WEIGHT`] (`WMULT_IDLEPRIO`).
pub const IDLE_WMULT: u32 = 1_431_655_765;
const WMULT_CONST: u64 = u32::MAX as u64;

/// The weight of each nice level from -20 to 19, not scaled up: one level is about 25 % (`sched_prio_to_weight[]`).
#[rustfmt::skip]
pub const SCHED_PRIO_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// 2^32 divided by the weight of each nice level; the kernel's table is rounded by hand, some entries up, some down
/// (`sched_prio_to_wmult[]`).
#[rustfmt::skip]
pub const SCHED_PRIO_TO_WMULT: [u32; 40] = [
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437,
    449829, 563644, 704093, 875809, 1099582, 1376151, 1717300, 2157191, 2708050, 3363326,
    4194304, 5237765, 6557202, 8165337, 10153587, 12820798, 15790321, 19976592, 24970740, 31350126,
    39045157, 49367440, 61356676, 76695844, 95443717, 119304647, 148102320, 186737708, 238609294, 286331153,
];

/// A weight with its scale (`scale_load()`); wraps as the kernel's shift does.
#[inline]
pub const fn scale_load(weight: u64) -> u64 {
    weight << LOAD_SHIFT
}

/// A weight and its inverse (`struct load_weight`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadWeight {
    /// The weight, scaled up by 1024.
    pub weight: u64,
    /// `(2^32 - 1) / scale_load_down(weight)`, or 0 while it is not known. Tasks take it from a table, where 2^32 is divided.
    pub inv_weight: u32,
}

impl LoadWeight {
    /// A weight whose inverse is computed on first use.
    #[inline]
    pub const fn new(weight: u64) -> Self {
        Self { weight, inv_weight: 0 }
    }

    /// The weight of a nice level by its index, 0 (nice -20) to 39 (nice 19); larger indices count as 39
    /// (`set_load_weight()`).
    #[inline]
    pub const fn of_prio(prio_index: usize) -> Self {
        let index = if prio_index < 40 { prio_index } else { 39 };
        Self { weight: scale_load(SCHED_PRIO_TO_WEIGHT[index] as u64), inv_weight: SCHED_PRIO_TO_WMULT[index] }
    }

    /// The weight of a nice value, -20 to 19, clamped to that range.
    #[inline]
    pub const fn of_nice(nice: i32) -> Self {
        let index = if nice < -20 { 0 } else { nice.saturating_add(20) };
        Self::of_prio(index as usize)
    }

    /// The weight of a task of the policy `SCHED_IDLE`.
    pub const IDLE: Self = Self { weight: IDLE_WEIGHT, inv_weight: IDLE_WMULT };

    /// Adds to the weight; the inverse is forgotten (`update_load_add()`).
    #[inline]
    pub fn add(&mut self, weight: u64) {
        self.weight = self.weight.wrapping_add(weight);
        self.inv_weight = 0;
    }

    /// Takes from the weight; the inverse is forgotten (`update_load_sub()`).
    #[inline]
    pub fn sub(&mut self, weight: u64) {
        self.weight = self.weight.wrapping_sub(weight);
        self.inv_weight = 0;
    }

    /// The inverse, computed if it is not known (`__update_inv_weight()`).
    #[inline]
    pub fn inv(&mut self) -> u32 {
        if self.inv_weight == 0 {
            let scaled = scale_load_down(self.weight);
            self.inv_weight = WMULT_CONST.checked_div(scaled).map_or(u32::MAX, |inverse| inverse.max(1) as u32);
        }
        self.inv_weight
    }
}

/// `delta * weight / lw.weight`, with 32 bits of precision for the quotient of the weights.
///
/// The quotient is `scale_load_down(weight) * inverse`, cut to 32 significant bits, and the product with `delta` is shifted
/// back at the end, truncating; a result above 64 bits is cut. For weights so far apart that the shift would be negative,
/// which C leaves undefined, the shift is taken modulo 128 as x86-64 does.
///
/// kernel/sched/fair.c:`__calc_delta()`, v6.12.
#[inline]
pub fn calc_delta(delta: u64, weight: u64, lw: &mut LoadWeight) -> u64 {
    let mut fact = scale_load_down(weight);
    let mut shift: i32 = 32;
    let mut narrow = |fact: u64| {
        let excess = 32 - ((fact >> 32) as u32).leading_zeros();
        shift -= excess as i32;
        fact >> excess
    };
    fact = narrow(fact);
    fact = narrow(u64::from(fact as u32) * u64::from(lw.inv()));
    let product = u128::from(delta) * u128::from(fact as u32);
    product.wrapping_shr(shift as u32) as u64
}

/// `delta` ns of running, in the virtual time of an entity of weight `lw`: a nice-0 entity's time is unchanged.
///
/// kernel/sched/fair.c:`calc_delta_fair()`, v6.12.
#[inline]
pub fn calc_delta_fair(delta: u64, lw: &mut LoadWeight) -> u64 {
    if lw.weight == NICE_0_LOAD { delta } else { calc_delta(delta, NICE_0_LOAD, lw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inverse_of_the_tables_ends() {
        assert_eq!(SCHED_PRIO_TO_WMULT[0], 48388);
        assert_eq!(SCHED_PRIO_TO_WMULT[20], 4_194_304);
        assert_eq!(SCHED_PRIO_TO_WMULT[39], 286_331_153);
        assert_eq!(LoadWeight::new(NICE_0_LOAD).inv(), 4_194_303);
        assert_eq!(LoadWeight::of_nice(0), LoadWeight::of_prio(20));
        assert_eq!(LoadWeight::of_nice(i32::MIN), LoadWeight::of_prio(0));
        assert_eq!(LoadWeight::of_nice(i32::MAX), LoadWeight::of_prio(39));
    }

    proptest! {
        /// No input panics, and a longer time never becomes a shorter virtual time.
        #[test]
        fn longer_stays_longer(delta in 0..1u64 << 40, more in 0..1u64 << 40, prio in 0usize..40) {
            let mut lw = LoadWeight::of_prio(prio);
            prop_assert!(calc_delta_fair(delta, &mut lw) <= calc_delta_fair(delta + more, &mut lw));
        }

        /// A heavier entity's virtual time never goes faster.
        #[test]
        fn heavier_is_slower(delta in 0..1u64 << 40, prio in 1usize..40) {
            let heavy = calc_delta_fair(delta, &mut LoadWeight::of_prio(prio - 1));
            prop_assert!(heavy <= calc_delta_fair(delta, &mut LoadWeight::of_prio(prio)));
        }

        #[test]
        fn any_input_has_a_result(delta: u64, weight: u64, lw_weight: u64) {
            let mut lw = LoadWeight::new(lw_weight);
            calc_delta(delta, weight, &mut lw);
            prop_assert_ne!(lw.inv_weight, 0);
        }
    }
}
