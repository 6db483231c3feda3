//! A pass of load balance (kernel/sched/fair.c): facts of CPUs and tasks, its rules, and the domain that it looks at.

use super::cpumask::CpuSet;
use super::fitness::Clamps;
use super::group::{CpuLoad, DomainView, GroupCapacity, SchedGroup};
use super::group_sums::GroupSum;
use super::sd_flags::SD_OVERLAP;
use crate::profile::{ActiveBalance, BalanceGroups, BalanceMargin, DetachLoad};

/// Why a CPU balances (`enum cpu_idle_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleType {
    /// It is busy.
    #[default]
    NotIdle = 0,
    /// It is idle.
    Idle,
    /// It is about to become idle.
    NewlyIdle,
}

impl IdleType {
    /// Idle or about to be.
    #[inline]
    pub fn is_idle(self) -> bool {
        self != Self::NotIdle
    }
}

/// What an imbalance counts (`enum migration_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationType {
    /// Load.
    #[default]
    Load = 0,
    /// Utilisation.
    Util,
    /// Tasks.
    Task,
    /// The one task that does not fit.
    Misfit,
}

/// What a pass has seen (`LBF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LbFlags {
    /// No task of the source may run on the destination (`LBF_ALL_PINNED`).
    pub all_pinned: bool,
    /// The source's lock should be given up for a moment (`LBF_NEED_BREAK`).
    pub need_break: bool,
    /// A task may not run on the destination, but on another CPU of its group (`LBF_DST_PINNED`).
    pub dst_pinned: bool,
    /// A task may not run on the destination (`LBF_SOME_PINNED`).
    pub some_pinned: bool,
    /// A running task is being pushed (`LBF_ACTIVE_LB`).
    pub active_lb: bool,
}

/// The machine's state as the balancer reads it.
pub trait BalanceFacts {
    /// The run queue of `cpu`.
    fn cpu(&self, cpu: usize) -> CpuLoad;
    /// The load of what is queued on `cpu` (`cpu_runnable_load()`); asked only before v5.5.
    fn queued_load(&self, cpu: usize) -> u64 {
        self.cpu(cpu).load
    }
    /// The sum over a group, if the machine keeps it ([`BalanceHost::update_group_sums`]).
    fn group_sum(&self, _sgc: usize) -> Option<&GroupSum> {
        None
    }
    /// The CPUs with the idle task running, nothing queued and no wake-up on its way (`idle_cpu()`).
    fn idle(&self) -> CpuSet<'_>;
    /// A wake-up is on its way to `cpu` (`rq->ttwu_pending`).
    fn ttwu_pending(&self, cpu: usize) -> bool;
    /// The hardware threads of `cpu`'s core, `cpu` included.
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_>;
    /// Whether the machine has more than one hardware thread a core.
    fn smt_active(&self) -> bool;
    /// The priority of `cpu` for packing (`arch_asym_cpu_priority()`).
    fn asym_priority(&self, cpu: usize) -> i32;
    /// Energy-aware scheduling is on (`sched_energy_enabled()`).
    fn energy_aware(&self) -> bool;
    /// CPUs beyond the tipping point are noticed; only a deliberately broken policy answers no.
    #[inline]
    fn notices_overutilized(&self) -> bool {
        true
    }
    /// `cpu_overutilized()`.
    #[inline]
    fn is_overutilized(&self, cpu: usize, rq: &CpuLoad) -> bool {
        let _ = cpu;
        rq.is_overutilized()
    }
    /// `sd_llc_size` of `cpu`, `None` if its cache has no shared state.
    fn llc_size(&self, cpu: usize) -> Option<u32>;
}

/// A task in a source queue, as `can_migrate_task()` and `detach_tasks()` look at it.
#[derive(Clone, Copy, Debug)]
pub struct BalanceTask<'a> {
    /// `task_h_load()`.
    pub h_load: u64,
    /// `task_util_est()`.
    pub util: u64,
    /// Its clamps, `None` if nobody uses clamps.
    pub clamps: Option<Clamps>,
    /// When it ran last, in `clock_task` of its CPU.
    pub exec_start: u64,
    /// The CPUs that it may use.
    pub allowed: CpuSet<'a>,
    /// It runs (`task_on_cpu()`).
    pub is_running: bool,
    /// Its policy is `SCHED_IDLE`.
    pub is_idle_policy: bool,
    /// It belongs to the fair class.
    pub is_fair: bool,
    /// A kernel thread that is bound to its CPU.
    pub is_per_cpu_kthread: bool,
    /// It is the next buddy of its queue.
    pub is_next_buddy: bool,
}

/// What the balancer does to the machine.
pub trait BalanceHost: BalanceFacts {
    /// Brings the sums over groups up to date, if the machine keeps them.
    fn update_group_sums(&mut self) {}
    /// A task's facts, for a move to `dst`.
    fn task(&self, task: u32, dst: usize) -> BalanceTask<'_>;
    /// The last task of `cpu`'s list ([`super::task_list`]).
    fn last_task(&self, cpu: usize) -> Option<u32>;
    /// The task before `task` in its list.
    fn task_before(&self, task: u32) -> Option<u32>;
    /// A rejected task goes to the head of its list.
    fn move_to_head(&mut self, cpu: usize, task: u32);
    /// `clock_task` of `cpu`, brought up to date.
    fn clock_task(&mut self, cpu: usize) -> u64;
    /// Takes `task` from the queue and list of `src` and gives it to `dst`; it is in no queue until it is attached.
    fn detach_task(&mut self, task: u32, src: usize, dst: usize);
    /// Queues a detached task on `dst`, at the head of its list, and checks preemption.
    fn attach_task(&mut self, task: u32, dst: usize);
    /// Whether what runs on `src` may run on `dst`.
    fn curr_may_run_on(&self, src: usize, dst: usize) -> bool;
    /// Asks the stopper of `src` to push its running task to `dst`; false if it has been asked already.
    fn start_active_balance(&mut self, src: usize, dst: usize) -> bool;
    /// Recomputes `capacity_of()` of `cpu` ([`super::group::scale_rt_capacity`]) and returns it.
    fn update_cpu_capacity(&mut self, cpu: usize) -> u64;
    /// Sets `nr_idle_scan` of `cpu`'s cache.
    fn set_nr_idle_scan(&mut self, cpu: usize, nr_idle_scan: u32);
}

/// Settings of the balancer that are the same for every pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceTunables {
    /// How long a task counts as cache-hot after it ran (`sysctl_sched_migration_cost`); -1 always, 0 never.
    pub migration_cost_ns: i64,
    /// The most tasks that one pass looks at (`sysctl_sched_nr_migrate`).
    pub nr_migrate: u32,
    /// After how many tasks it takes a break (`SCHED_NR_MIGRATE_BREAK`).
    pub nr_migrate_break: u32,
    /// The kernel is preemptible: a newly idle CPU takes one task at most (`CONFIG_PREEMPTION`).
    pub preemption: bool,
    /// What the kernel's version decides.
    pub rules: BalanceRules,
}

/// What versions of the balancer do differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceRules {
    /// What groups are compared by.
    pub groups: BalanceGroups,
    /// How much more load than the imbalance a task may have.
    pub detach: DetachLoad,
    /// Where a running task is pushed after failed passes.
    pub active: ActiveBalance,
    /// When CPUs count as bigger than others.
    pub margin: BalanceMargin,
    /// A task is cache-hot between the threads of a core, too (before v5.10).
    pub smt_hot: bool,
    /// A newly idle CPU that has a task by now goes on nevertheless (before v6.0).
    pub newidle_stays: bool,
}

impl BalanceRules {
    /// Those of v6.12.
    pub const V6_12: Self = Self {
        groups: BalanceGroups::Cores,
        detach: DetachLoad::Halved,
        active: ActiveBalance::Tasks,
        margin: BalanceMargin::FivePercent,
        smt_hot: false,
        newidle_stays: false,
    };
}

impl Default for BalanceTunables {
    fn default() -> Self {
        Self {
            migration_cost_ns: 500_000,
            nr_migrate: 32,
            nr_migrate_break: 32,
            preemption: true,
            rules: BalanceRules::V6_12,
        }
    }
}

/// The state of the root domain that the balancer writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootDomain {
    /// Some CPU has more than one task (`rd->overloaded`).
    pub overloaded: bool,
    /// Some CPU is beyond the tipping point (`rd->overutilized`).
    pub overutilized: bool,
}

impl RootDomain {
    /// Energy does not decide (`is_rd_overutilized()`).
    #[inline]
    pub fn is_overutilized(&self, energy_aware: bool) -> bool {
        !energy_aware || self.overutilized
    }

    /// `set_rd_overutilized()`: only an energy-aware system knows the state.
    #[inline]
    pub fn set_overutilized(&mut self, energy_aware: bool, overutilized: bool) {
        if energy_aware {
            self.overutilized = overutilized;
        }
    }
}

/// What a pass works with (`struct lb_env`); `cpus` is the scratch mask of the CPUs that take part.
#[derive(Debug)]
pub struct LbEnv<'a> {
    /// The domain, as its destination sees it.
    pub sd: DomainView<'a>,
    /// Why the CPU balances.
    pub idle: IdleType,
    /// The CPU that pulls.
    pub dst_cpu: usize,
    /// The CPU that is pulled from.
    pub src_cpu: usize,
    /// Another CPU of the group for a task that may not run on `dst_cpu`.
    pub new_dst_cpu: Option<usize>,
    /// The destination's core is idle.
    pub dst_core_idle: bool,
    /// How much to move.
    pub imbalance: i64,
    /// Of what.
    pub migration_type: MigrationType,
    /// What was seen.
    pub flags: LbFlags,
    /// Tasks looked at.
    pub loop_nr: u32,
    /// When to take a break.
    pub loop_break: u32,
    /// When to stop.
    pub loop_max: u32,
    /// How often the domain failed to balance (`sd->nr_balance_failed`).
    pub nr_balance_failed: u32,
    /// The busiest group has a task that does not fit (`src_grp_type`, before v5.5).
    pub src_misfit: bool,
    /// What the kernel's version decides.
    pub rules: BalanceRules,
}

impl<'a> LbEnv<'a> {
    /// A pass that has not begun.
    pub fn new(sd: DomainView<'a>, dst_cpu: usize, idle: IdleType, nr_balance_failed: u32, loop_break: u32) -> Self {
        Self {
            sd,
            idle,
            dst_cpu,
            src_cpu: dst_cpu,
            new_dst_cpu: None,
            dst_core_idle: false,
            imbalance: 0,
            migration_type: MigrationType::Load,
            flags: LbFlags::default(),
            loop_nr: 0,
            loop_break,
            loop_max: 0,
            nr_balance_failed,
            src_misfit: false,
            rules: BalanceRules::V6_12,
        }
    }

    pub(super) fn local_group(&self) -> &'a SchedGroup {
        &self.sd.groups[self.sd.local]
    }
}

/// Time and clock of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jiffies {
    /// The time.
    pub now: u64,
    /// In how many jiffies a newly idle CPU may refresh the capacity again: the domain's balance interval, 1 to
    /// `max_load_balance_interval`.
    pub interval: u64,
}

/// Refreshes the capacity of the destination's group from the groups of its child domain, or from its CPU in the lowest domain.
///
/// kernel/sched/fair.c:`update_group_capacity()`, v6.12, without the time of the next refresh.
pub fn update_group_capacity<H: BalanceHost>(
    host: &mut H,
    sd: &DomainView<'_>,
    sgc: &mut [GroupCapacity],
    dst_cpu: usize,
) {
    let local = &sd.groups[sd.local];
    let mut total = GroupCapacity { min_capacity: u64::MAX, ..sgc[local.sgc] };
    (total.capacity, total.max_capacity) = (0, 0);
    let mut add = |capacity: u64, min: u64, max: u64| {
        total.capacity = total.capacity.wrapping_add(capacity);
        total.min_capacity = total.min_capacity.min(min);
        total.max_capacity = total.max_capacity.max(max);
    };
    match sd.child {
        None => {
            let capacity = host.update_cpu_capacity(dst_cpu);
            add(capacity, capacity, capacity);
        }
        Some((_, flags)) if flags & SD_OVERLAP != 0 => {
            for cpu in local.span.as_set().iter() {
                let capacity = host.cpu(cpu).capacity.of;
                add(capacity, capacity, capacity);
            }
        }
        Some((groups, _)) => {
            for group in groups {
                let part = &sgc[group.sgc];
                add(part.capacity, part.min_capacity, part.max_capacity);
            }
        }
    }
    sgc[local.sgc] = total;
}
