//! Facts for the search for the idlest CPU of a domain (kernel/sched/fair.c).

use super::cpumask::CpuSet;
use super::fitness::Clamps;
use super::group::{CpuLoad, DomainView, GroupCapacity};
use super::group_sums::GroupSum;

/// How an idle CPU sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleInfo {
    /// When it became idle (`rq->idle_stamp`), 0 if that is not known.
    pub idle_stamp: u64,
    /// The exit latency of its idle state in us; `None` if it is in none that is known.
    pub exit_latency_us: Option<u32>,
}

/// The machine's state as the slow path reads it.
pub trait IdlestFacts {
    /// The run queue of `cpu`.
    fn cpu(&self, cpu: usize) -> CpuLoad;
    /// The load of what is queued on `cpu` (`cpu_runnable_load()`, v5.4); asked only for [`IdlestGroup::Loads`].
    fn runnable_load(&self, cpu: usize) -> u64;
    /// Nothing to run and no wake-up on its way (`available_idle_cpu()`).
    fn is_idle(&self, cpu: usize) -> bool;
    /// Only `SCHED_IDLE` tasks (`sched_idle_cpu()`).
    fn is_sched_idle(&self, cpu: usize) -> bool;
    /// Would be idle without the task: the idle task or the task itself is running, and no wake-up is on its way
    /// (`idle_cpu_without()`).
    fn is_idle_without_task(&self, cpu: usize) -> bool;
    /// How the CPU, which is idle, sleeps.
    fn idle_info(&self, cpu: usize) -> IdleInfo;
    /// The sum over a group, if the machine keeps it. It must be up to date.
    fn group_sum(&self, _sgc: usize) -> Option<&GroupSum> {
        None
    }
    /// The capacity of a group.
    fn group_capacity(&self, sgc: usize) -> GroupCapacity;
    /// The domain of `cpu` at `level`, 0 the lowest; `None` if it has none there.
    fn domain(&self, cpu: usize, level: usize) -> Option<DomainView<'_>>;
    /// How many levels any CPU has.
    fn n_levels(&self) -> usize;
}

/// The task that is placed.
#[derive(Clone, Copy, Debug)]
pub struct IdlestTask<'a> {
    /// The CPU that it belongs to.
    pub cpu: usize,
    /// It is queued (`task_on_rq_queued()`).
    pub on_rq: bool,
    /// It is the current task: an exec.
    pub is_current: bool,
    /// It was attached to a run queue (`last_update_time` is not 0); a new task was not.
    pub is_attached: bool,
    /// `util_avg`.
    pub util_avg: u64,
    /// The estimated utilisation without its flag (`_task_util_est()`).
    pub util_est: u64,
    /// `runnable_avg`.
    pub runnable_avg: u64,
    /// `task_h_load()`.
    pub h_load: u64,
    /// The CPUs that it may use.
    pub allowed: CpuSet<'a>,
    /// It may use every CPU that the kernel was built for.
    pub is_unrestricted: bool,
    /// Its clamps, `None` if nobody uses clamps.
    pub clamps: Option<Clamps>,
}

impl IdlestTask<'_> {
    /// Its contribution is in the averages of `cpu`.
    #[inline]
    pub(super) fn contributes_to(&self, cpu: usize) -> bool {
        self.cpu == cpu && self.is_attached
    }

    /// kernel/sched/fair.c:`cpu_util_without()`, v6.12.
    pub(super) fn cpu_util_without(&self, cpu: usize, load: &CpuLoad) -> u64 {
        if !self.contributes_to(cpu) {
            return load.util_cfs();
        }
        let mut without = *load;
        without.util = load.util.saturating_sub(self.util_avg);
        if self.on_rq || self.is_current {
            without.util_est = load.util_est.saturating_sub(self.util_est);
        }
        without.util_cfs()
    }
}
