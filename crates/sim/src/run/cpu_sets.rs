//! The sets of CPUs that tasks may use.

use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};

use crate::ids::{CpuId, CpuSetId, IdVec};
use crate::sched::topology::Topology;

/// All CPUs that tasks may use ([`CpuSetId::ALL`]), then the workload's sets, then those of kthreads.
#[derive(Debug)]
pub(crate) struct CpuSets {
    masks: IdVec<CpuSetId, CpuMask>,
    /// What each would be with all CPUs online.
    wanted: IdVec<CpuSetId, CpuMask>,
    /// Whether each has one CPU only.
    single: IdVec<CpuSetId, bool>,
    /// The sets of one CPU each that threads of bound workqueues have, as they were first needed.
    of_cpu: Vec<(CpuId, CpuSetId)>,
}

impl CpuSets {
    /// All CPUs but those that are offline or isolated, and of the `sets` of a workload what is online.
    pub(crate) fn new(topology: &Topology, sets: &[Vec<u32>]) -> Self {
        let mut all = Self { masks: IdVec::new(), wanted: IdVec::new(), single: IdVec::new(), of_cpu: Vec::new() };
        all.add(topology.excluded.ids().filter(|&cpu| !topology.excluded[cpu]).map(CpuId::index).collect());
        for set in sets {
            all.add(set.iter().map(|&cpu| cpu as usize).collect());
        }
        all.update(topology);
        all
    }

    /// Other CPUs are online: a set of which none is left is all of them (core.c:select_fallback_rq()).
    pub(crate) fn update(&mut self, topology: &Topology) {
        let all: CpuMask = topology.excluded.ids().filter(|&cpu| !topology.excluded[cpu]).map(CpuId::index).collect();
        for id in self.masks.ids() {
            let online = |cpu: &usize| !topology.offline[CpuId::of(*cpu)];
            let left: CpuMask = self.wanted[id].as_set().iter().filter(online).collect();
            let is_all = id == CpuSetId::ALL || left.as_set().weight() == 0;
            self.masks[id] = if is_all { all.clone() } else { left };
            self.single[id] = self.masks[id].as_set().weight() == 1;
        }
    }

    /// Adds a set.
    pub(crate) fn add(&mut self, mask: CpuMask) -> CpuSetId {
        self.single.push(mask.as_set().weight() == 1);
        self.wanted.push(mask.clone());
        self.masks.push(mask);
        CpuSetId::of(self.masks.len() - 1)
    }

    /// The set of one CPU.
    pub(crate) fn of_cpu(&mut self, cpu: CpuId) -> CpuSetId {
        if let Some(&(_, set)) = self.of_cpu.iter().find(|(of, _)| *of == cpu) {
            return set;
        }
        let set = self.add(std::iter::once(cpu.index()).collect());
        self.of_cpu.push((cpu, set));
        set
    }

    /// The CPUs of a set.
    #[inline]
    pub(crate) fn cpus(&self, set: CpuSetId) -> CpuSet<'_> {
        self.masks[set].as_set()
    }

    /// Whether a set has one CPU only.
    #[inline]
    pub(crate) fn is_single(&self, set: CpuSetId) -> bool {
        self.single[set]
    }
}
