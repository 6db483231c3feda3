//! What the load balancer keeps from one pass to the next.

use std::rc::Rc;

use opplab_kernel::profile::{BalanceThresholds, KernelProfile, NohzNextKick};
use opplab_kernel::sched::balance::BalanceScratch;
use opplab_kernel::sched::balance_env::BalanceTunables;
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::domains::SchedDomains;
use opplab_kernel::sched::group::GroupCapacity;
use opplab_kernel::sched::group_sums::GroupSums;
use opplab_kernel::sched::newidle::{BalanceClock, DomainBalance, MIGRATION_COST_NS, max_load_balance_interval};
use opplab_kernel::sched::nohz::Nohz;
use opplab_kernel::sched::task_list::TaskLists;

use crate::ids::{CpuId, IdVec, TaskId};
use crate::sched::topology::Topology;

/// State of the balancer that is not one CPU's.
pub(crate) struct Balancer {
    pub(crate) domains: Rc<SchedDomains>,
    /// Of each CPU, its domains from the lowest up.
    pub(super) state: IdVec<CpuId, Vec<DomainBalance>>,
    pub(crate) sgc: Vec<GroupCapacity>,
    /// What passes and the slow path look at, summed over groups, but for the CPUs that have changed since. Not where CPUs differ:
    /// there each is looked at.
    pub(super) sums: Option<GroupSums>,
    pub(crate) changed: Vec<CpuId>,
    /// Some CPU has more than one task (rd->overloaded).
    pub(crate) rd_overloaded: bool,
    /// Fair tasks in the order in which the balancer looks at them.
    pub(crate) lists: TaskLists,
    pub(crate) active: CpuMask,
    pub(super) scratch: BalanceScratch,
    pub(super) tunables: BalanceTunables,
    /// Running tasks that a stopper is to push: (from, to).
    pub(super) pushes: Vec<(CpuId, CpuId)>,
    /// Those that were pushed, and when; of the last instant.
    pub(super) pushed: Vec<(u64, TaskId)>,
    pub(super) serialized: bool,
    /// What idle CPUs do for each other.
    pub(crate) nohz: Nohz,
    pub(super) clock_max_interval: u64,
    pub(super) hz: u64,
    thresholds: BalanceThresholds,
}

impl Balancer {
    pub(crate) fn new(topology: &Topology, capacities: &[u64], hz: u64, jiffies: u64, profile: &KernelProfile) -> Self {
        let thresholds = profile.balance_thresholds;
        let domains = Rc::clone(&topology.domains);
        let active = topology.offline.ids().filter(|&cpu| !topology.offline[cpu]).map(CpuId::index).collect();
        let nr = capacities.len();
        let state = (0..nr)
            .map(|cpu| {
                let levels = (0..domains.n_levels(cpu)).filter_map(|level| domains.domain(cpu, level));
                levels.map(|domain| SchedDomains::initial_balance(domain, jiffies, thresholds)).collect()
            })
            .collect();
        Self {
            sgc: domains.group_capacities(|cpu| capacities[cpu]),
            sums: topology.asym.is_none().then(|| GroupSums::new(domains.n_cpus(), domains.group_spans())),
            changed: (0..nr).map(CpuId::of).collect(),
            nohz: Nohz::new(&domains, hz, jiffies, profile.nohz_next_kick == NohzNextKick::Recomputed),
            state,
            domains,
            rd_overloaded: false,
            lists: TaskLists::new(nr),
            active,
            scratch: BalanceScratch::default(),
            tunables: BalanceTunables {
                migration_cost_ns: MIGRATION_COST_NS as i64,
                rules: profile.balance_rules(),
                ..BalanceTunables::default()
            },
            thresholds,
            pushes: Vec::new(),
            pushed: Vec::new(),
            serialized: false,
            clock_max_interval: max_load_balance_interval(hz, nr as u64),
            hz,
        }
    }

    /// sched.h:add_nr_running(): a queue has `nr_running` tasks with the `count` that joined it; the second has idle CPUs look for
    /// work. When a real-time task comes or goes the kernel counts all of them anew (rt.c:enqueue_top_rt_rq()).
    #[inline]
    pub(super) fn note_overload(&mut self, nr_running: u32, count: u32) {
        self.rd_overloaded |= nr_running >= 2 && nr_running - count < 2;
    }

    pub(super) fn clock(&self, jiffies: u64) -> BalanceClock {
        BalanceClock { hz: self.hz, jiffies, max_interval: self.clock_max_interval, thresholds: self.thresholds }
    }
}
