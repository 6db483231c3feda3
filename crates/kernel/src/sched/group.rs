//! What the periodic balancer and the slow path of fork and exec share: groups, their statistics and their classes
//! (kernel/sched/fair.c: `struct sg_lb_stats`, `group_classify()`, v6.12).

use super::cpumask::{CpuMask, CpuSet};
use super::fitness::{Clamps, CpuCapacity, util_fits_cpu};

/// The part of a group that does not change (`struct sched_group`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedGroup {
    /// The group's CPUs.
    pub span: CpuMask,
    /// Those that may balance for the group (`group_balance_mask()`): its span, unless groups overlap.
    pub balance_mask: CpuMask,
    /// The flags of the child domain that the group is.
    pub flags: u32,
    /// How many CPUs.
    pub weight: u32,
    /// How many cores.
    pub cores: u32,
    /// The CPU of the highest priority.
    pub asym_prefer_cpu: usize,
    /// The index of its [`GroupCapacity`], shared by every domain that has this group.
    pub sgc: usize,
}

/// The part of a group that changes (`struct sched_group_capacity`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCapacity {
    /// The sum of the CPUs' capacities for fair tasks.
    pub capacity: u64,
    /// The smallest of them.
    pub min_capacity: u64,
    /// The largest of them.
    pub max_capacity: u64,
    /// Balancing below was hindered by affinity.
    pub imbalance: bool,
    /// When a newly idle CPU may refresh the capacity, in jiffies.
    pub next_update: u64,
}

/// One CPU's view of one of its domains (`struct sched_domain`), the part that does not change.
#[derive(Clone, Copy, Debug)]
pub struct DomainView<'a> {
    /// The CPUs of the domain.
    pub span: CpuSet<'a>,
    /// How many there are.
    pub span_weight: u32,
    /// `SD_*` flags ([`super::domains`]).
    pub flags: u32,
    /// From which imbalance on it matters, percent.
    pub imbalance_pct: u32,
    /// How many failed passes a cache-hot task survives.
    pub cache_nice_tries: u32,
    /// How many tasks a NUMA node may have before balance matters.
    pub imb_numa_nr: u32,
    /// The groups in ring order.
    pub groups: &'a [SchedGroup],
    /// The index of the group that holds the CPU; the ring starts there.
    pub local: usize,
    /// The groups of the CPU's domain below, in any order, and that domain's flags.
    pub child: Option<(&'a [SchedGroup], u32)>,
    /// The [`GroupCapacity`] of the CPU's group in the domain above.
    pub parent_sgc: Option<usize>,
}

impl<'a> DomainView<'a> {
    /// The groups from the local one around the ring.
    #[inline]
    pub fn ring(&self) -> impl Iterator<Item = &'a SchedGroup> + use<'a> {
        let (before, from) = self.groups.split_at(self.local.min(self.groups.len()));
        from.iter().chain(before)
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// A group's state, from least to most pressing (`enum group_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    /// There is room.
    #[default]
    HasSpare = 0,
    /// All CPUs are used and nobody waits for long.
    FullyBusy,
    /// A task does not fit its CPU.
    MisfitTask,
    /// An SMT core runs several tasks while a CPU is idle.
    SmtBalance,
    /// A CPU of higher priority is idle.
    AsymPacking,
    /// Affinity hindered the balance below.
    Imbalanced,
    /// More tasks than it can handle.
    Overloaded,
}

/// What is known of one CPU's run queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLoad {
    /// `load_avg` of the fair queue (`cpu_load()`).
    pub load: u64,
    /// `util_avg` of the fair queue.
    pub util: u64,
    /// `runnable_avg` of the fair queue (`cpu_runnable()`).
    pub runnable: u64,
    /// The sum of its tasks' estimated utilisation.
    pub util_est: u64,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Queued fair tasks (`cfs.h_nr_queued`).
    pub h_nr_queued: u32,
    /// The CPU's capacity.
    pub capacity: CpuCapacity,
    /// The load of a task that does not fit this CPU, 0 if none.
    pub misfit_task_load: u64,
    /// The queue's clamps, `None` if nobody uses clamps.
    pub clamps: Option<Clamps>,
}

impl CpuLoad {
    /// `cpu_util_cfs()`: the utilisation or its estimate, at most what the CPU has.
    #[inline]
    pub fn util_cfs(&self) -> u64 {
        self.util.max(self.util_est).min(self.capacity.orig)
    }

    /// `cpu_util_cfs_boost()`: contention counts too.
    #[inline]
    pub fn util_cfs_boost(&self) -> u64 {
        self.util.max(self.runnable).max(self.util_est).min(self.capacity.orig)
    }

    /// `cpu_overutilized()` on a system that is energy-aware.
    #[inline]
    pub fn is_overutilized(&self) -> bool {
        util_fits_cpu(self.util_cfs(), self.clamps, &self.capacity) == 0
    }

    /// Whether other classes and interrupts take so much that balancing should care (`check_cpu_capacity()`).
    #[inline]
    pub fn has_reduced_capacity(&self, imbalance_pct: u32) -> bool {
        self.capacity.of.wrapping_mul(imbalance_pct.into()) < self.capacity.orig.wrapping_mul(100)
    }
}

/// The capacity that is left for fair tasks, at least 1.
///
/// ```text
/// max  = orig - max(hardware pressure, frequency pressure)
/// left = (max - rt - dl) * (max - irq) / max
/// ```
///
/// kernel/sched/fair.c:`scale_rt_capacity()`, `update_cpu_capacity()`, v6.12.
pub fn scale_rt_capacity(capacity: &CpuCapacity, util_rt: u64, util_dl: u64, util_irq: u64) -> u64 {
    let max = capacity.actual();
    let used = util_rt.wrapping_add(util_dl);
    if util_irq >= max || used >= max {
        return 1;
    }
    ((max - used).wrapping_mul(max - util_irq) / max).max(1)
}

/// The sums over a group's CPUs (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SgLbStats {
    /// Load by capacity, times 1024; only where the class asks for it.
    pub avg_load: u64,
    /// The sum of loads.
    pub group_load: u64,
    /// The group's capacity.
    pub group_capacity: u64,
    /// The sum of utilisations.
    pub group_util: u64,
    /// The sum of runnable averages.
    pub group_runnable: u64,
    /// Runnable tasks of all classes.
    pub sum_nr_running: u32,
    /// Queued fair tasks.
    pub sum_h_nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// CPUs in the group.
    pub group_weight: u32,
    /// The class.
    pub group_type: GroupType,
    /// Tasks should go to the destination because of its priority.
    pub group_asym_packing: bool,
    /// A core runs several tasks.
    pub group_smt_balance: bool,
    /// The largest load of a task that does not fit, 0 if none.
    pub group_misfit_task_load: u64,
}

impl SgLbStats {
    /// kernel/sched/fair.c:`group_has_capacity()`, v6.12.
    fn group_has_capacity(&self, pct: u64) -> bool {
        if self.sum_nr_running < self.group_weight {
            return true;
        }
        if self.group_capacity.wrapping_mul(pct) < self.group_runnable.wrapping_mul(100) {
            return false;
        }
        self.group_capacity.wrapping_mul(100) > self.group_util.wrapping_mul(pct)
    }

    /// kernel/sched/fair.c:`group_is_overloaded()`, v6.12.
    fn group_is_overloaded(&self, pct: u64) -> bool {
        self.sum_nr_running > self.group_weight
            && (self.group_capacity.wrapping_mul(100) < self.group_util.wrapping_mul(pct)
                || self.group_capacity.wrapping_mul(pct) < self.group_runnable.wrapping_mul(100))
    }

    /// The class of a group with these sums; `imbalance` is its [`GroupCapacity::imbalance`].
    ///
    /// kernel/sched/fair.c:`group_classify()`, v6.12.
    pub fn group_classify(&self, imbalance_pct: u32, imbalance: bool) -> GroupType {
        let pct = imbalance_pct.into();
        if self.group_is_overloaded(pct) {
            GroupType::Overloaded
        } else if imbalance {
            GroupType::Imbalanced
        } else if self.group_asym_packing {
            GroupType::AsymPacking
        } else if self.group_smt_balance {
            GroupType::SmtBalance
        } else if self.group_misfit_task_load != 0 {
            GroupType::MisfitTask
        } else if !self.group_has_capacity(pct) {
            GroupType::FullyBusy
        } else {
            GroupType::HasSpare
        }
    }

    /// The load by capacity, times 1024.
    #[inline]
    pub(super) fn load_by_capacity(&self) -> u64 {
        load_by_capacity(self.group_load, self.group_capacity)
    }
}

/// `load * 1024 / capacity`; a capacity of 0, which does not occur, counts as 1.
#[inline]
pub(super) fn load_by_capacity(load: u64, capacity: u64) -> u64 {
    let scaled = load.wrapping_mul(1024);
    scaled.checked_div(capacity).unwrap_or(scaled)
}

/// A NUMA imbalance that is small while few tasks run there is none (`adjust_numa_imbalance()`, v6.12).
#[inline]
pub(super) fn adjust_numa_imbalance(imbalance: i32, dst_running: u32, imb_numa_nr: i32) -> i32 {
    if dst_running as i32 <= imb_numa_nr && imbalance <= 2 { 0 } else { imbalance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// With nothing special about a group, more utilisation never makes it less pressing.
        #[test]
        fn more_util_is_never_less_pressing(
            util in 0u64..8192, more in 0u64..8192, capacity in 1u64..4096, runnable in 0u64..8192, nr in 0u32..16, pct in 100u32..150,
        ) {
            let stats = SgLbStats {
                group_util: util, group_capacity: capacity, group_runnable: runnable, sum_nr_running: nr, group_weight: 4,
                ..SgLbStats::default()
            };
            let busier = SgLbStats { group_util: util + more, ..stats };
            prop_assert!(stats.group_classify(pct, false) <= busier.group_classify(pct, false));
        }

        /// Fair tasks never get more than the CPU has.
        #[test]
        fn capacity_left_is_part_of_the_whole(orig in 1u64..1025, lost in 0u64..1024, rt in 0u64..1200, dl in 0u64..1200, irq in 0u64..1200) {
            let capacity = CpuCapacity { orig, of: orig, hw_pressure: lost.min(orig), cpufreq_pressure: 0 };
            let left = scale_rt_capacity(&capacity, rt, dl, irq);
            prop_assert!(left >= 1 && left <= orig.max(1));
            prop_assert!(scale_rt_capacity(&capacity, rt + 1, dl, irq) <= left);
        }
    }
}
