//! What the scheduler knows about the machine's shape, computed once.

use std::collections::BTreeMap;
use std::rc::Rc;

use opplab_kernel::profile::KernelProfile;
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::domains::{self, SchedDomains};
use opplab_model::machine::{Cluster, Machine};
use opplab_model::policy::Policy;

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
    /// CPUs that are not online.
    pub(crate) offline: IdVec<CpuId, bool>,
    /// Those and isolated CPUs: they are in no domain.
    pub(crate) excluded: IdVec<CpuId, bool>,
    /// CPUs whose tick stops while one task runs.
    pub(crate) nohz_full: IdVec<CpuId, bool>,
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

/// The scheduling domains that a kernel builds for `machine`, whose CPUs' capacities it knows.
pub fn sched_domains(machine: &Machine, profile: &KernelProfile) -> SchedDomains {
    let capacity = (0..machine.nr_cpus() as u32).map(|cpu| machine.cluster_of(cpu).capacity.into()).collect();
    sched_domains_of(machine, profile, capacity, None, Vec::new())
}

/// The same with the capacities and packing priorities that the kernel knows.
fn sched_domains_of(
    machine: &Machine,
    profile: &KernelProfile,
    capacity: Vec<u64>,
    asym_priority: Option<Vec<i32>>,
    excluded: Vec<bool>,
) -> SchedDomains {
    let of = |what: fn(&opplab_model::machine::CpuPlace) -> u32| machine.cpus.iter().map(what).collect::<Vec<u32>>();
    let (package, node) = (of(|cpu| cpu.package), of(|cpu| cpu.node));
    let mut node_of = BTreeMap::new();
    let numa_in_package =
        package.iter().zip(&node).any(|(&package, &node)| *node_of.entry(package).or_insert(node) != node);
    let domains = SchedDomains::build(&domains::Topology {
        core: of(|cpu| cpu.core),
        // No level-2 cache is shared by cores: it is the core's own.
        cluster: of(|cpu| cpu.core),
        llc: of(|cpu| cpu.llc),
        node,
        node_distance: machine.numa_distance.iter().flatten().copied().collect(),
        numa_in_package,
        capacity,
        asym_priority,
        excluded,
        node_reclaim_distance: domains::node_reclaim_distance(profile.far_nodes, machine.amd_family()),
    });
    domains.with_thresholds(profile.balance_thresholds)
}

impl Topology {
    /// `isolated`: the CPUs of isolated partitions, which are as those that the policy isolates.
    pub(crate) fn new(
        machine: &Machine,
        policy: &Policy,
        profile: &KernelProfile,
        isolated: &[u32],
        capacities: &[u64],
        asym_priority: Option<Vec<i32>>,
    ) -> Self {
        let nr = machine.nr_cpus();
        let offline: Vec<bool> = (0..nr as u32).map(|cpu| !policy.is_online(machine, cpu)).collect();
        let excluded: Vec<bool> =
            (0..nr as u32).map(|cpu| !policy.runs_tasks(machine, cpu) || isolated.contains(&cpu)).collect();
        let mut threads_of: BTreeMap<u32, Vec<CpuId>> = BTreeMap::new();
        for (cpu, place) in machine.cpus.iter().enumerate() {
            threads_of.entry(place.core).or_default().push(CpuId::of(cpu));
        }
        let siblings: IdVec<CpuId, Vec<CpuId>> =
            machine.cpus.iter().map(|place| threads_of[&place.core].clone()).collect();
        let clocked = if machine.package_clock {
            let shares = |cpu: usize, other: usize| machine.shares_clock(cpu as u32, other as u32);
            let clocked_with = |cpu| (0..nr).filter(|&other| shares(cpu, other)).map(CpuId::of).collect();
            (0..nr).map(clocked_with).collect()
        } else {
            siblings.iter().cloned().collect()
        };
        let online = |cpu: usize, other: usize| other == cpu || !offline[cpu] && !offline[other];
        let threads = |(cpu, cpus): (usize, &Vec<CpuId>)| {
            cpus.iter().map(|&other| other.index()).filter(|&other| online(cpu, other)).collect()
        };
        let smt_masks: IdVec<CpuId, CpuMask> = siblings.iter().enumerate().map(threads).collect();
        // A CPU without domains shares its cache with nobody (topology.c:update_top_cache_domain(), v6.12).
        let mut nr_llcs = machine.cpus.iter().map(|cpu| cpu.llc + 1).max().unwrap_or(0);
        let llc_of: Vec<u32> = (machine.cpus.iter().zip(&excluded))
            .map(|(cpu, &excluded)| if excluded { (nr_llcs, nr_llcs += 1).0 } else { cpu.llc })
            .collect();
        let mut llc_masks: IdVec<LlcId, CpuMask> = vec![CpuMask::default(); nr_llcs as usize].into();
        for (cpu, &llc) in llc_of.iter().enumerate() {
            llc_masks[LlcId(llc)].insert(cpu);
        }
        let included: Vec<usize> = (0..nr).filter(|&cpu| !excluded[cpu]).collect();
        let differ = included.iter().any(|&cpu| capacities[cpu] != capacities[included[0]]);
        let domains = sched_domains_of(machine, profile, capacities.to_vec(), asym_priority.clone(), excluded.clone());
        Self {
            smt_active: smt_masks.iter().any(|mask| mask.as_set().weight() > 1),
            siblings,
            clocked,
            smt_masks,
            llc_of: llc_of.into_iter().map(LlcId).collect(),
            llc_size: llc_masks.iter().map(|mask| mask.as_set().weight()).collect(),
            llc_masks,
            asym: differ.then(|| included.into_iter().collect()),
            reference_khz: machine.clusters.iter().map(Cluster::reference_khz).collect(),
            domains: Rc::new(domains),
            asym_priority,
            nohz_full: (0..nr as u32).map(|cpu| policy.nohz_full.contains(&cpu)).collect(),
            offline: offline.into(),
            excluded: excluded.into(),
        }
    }

    pub(crate) fn share_cache(&self, one: CpuId, other: CpuId) -> bool {
        self.llc_of[one] == self.llc_of[other]
    }
}
