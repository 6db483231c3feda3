//! Whether a task's utilisation fits a CPU (kernel/sched/fair.c: `util_fits_cpu()` and what it is made of, v6.12; before v6.2
//! `fits_capacity()` of the clamped utilisation).

use crate::profile::UclampFit;
use crate::uclamp::uclamp_util;

/// What a CPU can do, as `util_fits_cpu()` and the energy model look at it. All in capacity units, 0 to 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCapacity {
    /// At the highest frequency with nothing else to do (`arch_scale_cpu_capacity()`).
    pub orig: u64,
    /// What is left for fair tasks after rt, deadline, irq and thermal pressure (`capacity_of()`).
    pub of: u64,
    /// Average of hardware pressure (`hw_load_avg()`).
    pub hw_pressure: u64,
    /// Capacity lost to a lowered maximum frequency (`cpufreq_get_pressure()`).
    pub cpufreq_pressure: u64,
}

impl CpuCapacity {
    /// The capacity that hardware and limits leave (`get_actual_cpu_capacity()`); wraps below zero as the kernel's does.
    #[inline]
    pub fn actual(&self) -> u64 {
        self.orig.wrapping_sub(self.hw_pressure.max(self.cpufreq_pressure))
    }
}

/// Whether `util` leaves a fifth of `capacity` free (`fits_capacity()`): strictly below 80 %.
#[inline]
pub fn fits_capacity(util: u64, capacity: u64) -> bool {
    util.wrapping_mul(1280) < capacity.wrapping_mul(1024)
}

/// Whether `capacity` exceeds `other` by more than 5 % (`capacity_greater()`).
#[inline]
pub fn capacity_greater(capacity: u64, other: u64) -> bool {
    capacity.wrapping_mul(1024) > other.wrapping_mul(1078)
}

/// The utilisation clamps that hold for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamps {
    /// `uclamp.min`, 0 to 1024.
    pub min: u64,
    /// `uclamp.max`, 0 to 1024.
    pub max: u64,
    /// How they count where it is asked what fits.
    pub fit: UclampFit,
}

impl Clamps {
    /// No clamp.
    pub const NONE: Self = Self { min: 0, max: 1024, fit: UclampFit::LowerApart };

    /// A run queue's clamps as the overutilised state takes them (fair.c:`cpu_overutilized()`, v6.12); before v6.2 it knows none.
    pub fn of_queue(self, fit: UclampFit) -> Option<Self> {
        (fit != UclampFit::ClampedUtil).then_some(Self { fit, ..self })
    }
}

/// Does `util` fit the CPU: 1 yes, 0 no, -1 when only the minimum clamp cannot be granted.
///
/// `clamps` is `None` when nobody uses clamps (`uclamp_is_used()`). A maximum clamp that lies within the CPU's capacity makes
/// any utilisation fit, except on the biggest CPU with the clamp fully open, where it would hide overutilisation.
///
/// kernel/sched/fair.c:`util_fits_cpu()`, v6.12. v6.2 asks for the minimum clamp on all but the biggest CPUs, and before the
/// clamped utilisation is compared (`uclamp_task_util()`, `uclamp_rq_util_with()`, v6.1).
#[inline]
pub fn util_fits_cpu(util: u64, clamps: Option<Clamps>, capacity: &CpuCapacity) -> i32 {
    let fits = fits_capacity(util, capacity.of);
    let Some(clamps) = clamps else { return i32::from(fits) };
    if clamps.fit == UclampFit::ClampedUtil {
        return i32::from(fits_capacity(uclamp_util(util, clamps.min, clamps.max), capacity.of));
    }
    let open_on_biggest = capacity.orig == 1024 && clamps.max == 1024;
    let fits = fits || (!open_on_biggest && clamps.max <= capacity.orig);
    let clamp_min = clamps.min.min(clamps.max);
    let is_refused = fits && util < clamp_min && clamp_min > capacity.actual();
    match clamps.fit {
        UclampFit::LowerApart if is_refused => -1,
        UclampFit::Bounds if is_refused && capacity.orig != 1024 => 0,
        _ => i32::from(fits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_count_as_the_version_has_them() {
        let fits = |util, (min, max), orig| {
            let capacity = CpuCapacity { orig, of: orig, ..CpuCapacity::default() };
            [UclampFit::ClampedUtil, UclampFit::Bounds, UclampFit::LowerApart]
                .map(|fit| util_fits_cpu(util, Some(Clamps { min, max, fit }), &capacity))
        };
        assert_eq!(fits(383, (0, 1024), 383), [0, 0, 0], "busy");
        assert_eq!(fits(383, (0, 350), 383), [0, 1, 1], "a cap above four fifths");
        assert_eq!(fits(383, (0, 150), 383), [1, 1, 1]);
        assert_eq!(fits(100, (900, 1024), 1024), [0, 1, 1], "a lower clamp above four fifths");
        assert_eq!(fits(100, (500, 1024), 383), [0, 0, -1]);
        let of_queue = |fit| Clamps { max: 150, ..Clamps::NONE }.of_queue(fit).map(|clamps| clamps.max);
        assert_eq!((of_queue(UclampFit::ClampedUtil), of_queue(UclampFit::Bounds)), (None, Some(150)));
    }
}
