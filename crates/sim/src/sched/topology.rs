//! What the scheduler knows about the machine's shape, computed once.

use std::rc::Rc;

use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::domains::{self, RECLAIM_DISTANCE, SchedDomains};
use opplab_model::machine::{Cluster, Machine};

use crate::ids::{ClusterId, CpuId, IdVec, LlcId};

/// Topology in the forms that the hot paths want.
#[derive(Debug)]
pub(crate) struct Topology {
    /// Hardware threads of each CPU's core, itself included, ascending.
    pub(crate) siblings: IdVec<CpuId, Vec<CpuId>>,
    /// CPUs that share a clock with each, itself included, ascending: its core's, or those of its cluster in its package.
    pub(crate) clocked: IdVec<CpuId, Vec<CpuId>>,
    pub(crate) smt_masks: IdVec<CpuId, CpuMask>,
    pub(crate) smt_active: bool,
    /// Last-level cache of each CPU.
    pub(crate) llc_of: IdVec<CpuId, LlcId>,
    /// CPUs of each last-level cache.
    pub(crate) llc_masks: IdVec<LlcId, CpuMask>,
    pub(crate) llc_size: IdVec<LlcId, u32>,
    /// All CPUs, if their capacities differ (the SD_ASYM_CPUCAPACITY domain).
    pub(crate) asym: Option<CpuMask>,
    /// Priorities by which tasks are packed (SD_ASYM_PACKING), if there are some.
    pub(crate) asym_priority: Option<Vec<i32>>,
    /// Highest non-boost frequency of each cluster, at which it has its capacity.
    pub(crate) reference_khz: IdVec<ClusterId, u32>,
    pub(crate) domains: Rc<SchedDomains>,
}

/// The scheduling domains that the kernel builds for `machine`, whose CPUs' capacities it knows.
pub fn sched_domains(machine: &Machine) -> SchedDomains {
    let capacity = (0..machine.nr_cpus() as u32).map(|cpu| machine.cluster_of(cpu).capacity.into()).collect();
    sched_domains_of(machine, capacity, None)
}

/// The same with the capacities and packing priorities that the kernel was told.
fn sched_domains_of(machine: &Machine, capacity: Vec<u64>, asym_priority: Option<Vec<i32>>) -> SchedDomains {
    let nr = machine.nr_cpus() as u32;
    let of = |what: fn(&opplab_model::machine::CpuPlace) -> u32| machine.cpus.iter().map(what).collect::<Vec<u32>>();
    let (package, node) = (of(|cpu| cpu.package), of(|cpu| cpu.node));
    let numa_in_package =
        (0..nr as usize).any(|one| (0..one).any(|other| package[one] == package[other] && node[one] != node[other]));
    SchedDomains::build(&domains::Topology {
        core: of(|cpu| cpu.core),
        // No level-2 cache is shared by cores: it is the core's own.
        cluster: of(|cpu| cpu.core),
        llc: of(|cpu| cpu.llc),
        node,
        node_distance: machine.numa_distance.iter().flatten().copied().collect(),
        numa_in_package,
        capacity,
        asym_priority,
        node_reclaim_distance: RECLAIM_DISTANCE,
    })
}

impl Topology {
    pub(crate) fn new(machine: &Machine, capacities: &[u64], asym_priority: Option<Vec<i32>>) -> Self {
        let nr = machine.nr_cpus();
        let siblings: IdVec<CpuId, Vec<CpuId>> = (0..nr)
            .map(|cpu| {
                let shares_core = |&other: &usize| machine.cpus[other].core == machine.cpus[cpu].core;
                (0..nr).filter(shares_core).map(CpuId::of).collect()
            })
            .collect();
        let shares_clock = |cpu: usize, other: usize| {
            let (one, two) = (&machine.cpus[cpu], &machine.cpus[other]);
            let together = machine.package_clock && (one.package, one.cluster) == (two.package, two.cluster);
            together || one.core == two.core
        };
        let clocked = (0..nr).map(|cpu| (0..nr).filter(|&other| shares_clock(cpu, other)).map(CpuId::of).collect());
        let clocked = clocked.collect();
        let smt_masks = siblings.iter().map(|cpus| cpus.iter().map(|&cpu| cpu.index()).collect()).collect();
        let nr_llcs = machine.cpus.iter().map(|cpu| cpu.llc + 1).max().unwrap_or(0);
        let llc_masks: IdVec<LlcId, CpuMask> =
            (0..nr_llcs).map(|llc| (0..nr).filter(|&cpu| machine.cpus[cpu].llc == llc).collect()).collect();
        let asym = capacities.iter().any(|&capacity| capacity != capacities[0]).then(|| CpuMask::all(nr));
        Self {
            smt_active: siblings.iter().any(|cpus| cpus.len() > 1),
            siblings,
            clocked,
            smt_masks,
            llc_of: machine.cpus.iter().map(|cpu| LlcId(cpu.llc)).collect(),
            llc_size: llc_masks.iter().map(|mask| mask.as_set().weight()).collect(),
            llc_masks,
            asym,
            reference_khz: machine.clusters.iter().map(Cluster::reference_khz).collect(),
            domains: Rc::new(sched_domains_of(machine, capacities.to_vec(), asym_priority.clone())),
            asym_priority,
        }
    }

    pub(crate) fn share_cache(&self, one: CpuId, other: CpuId) -> bool {
        self.llc_of[one] == self.llc_of[other]
    }
}
