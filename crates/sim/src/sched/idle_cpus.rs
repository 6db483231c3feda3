//! What wake-ups know of idle CPUs without looking at each.

use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};

use crate::ids::{CpuId, IdVec, LlcId};

/// Which CPUs are idle, and what each last-level cache knows of its own.
#[derive(Debug)]
pub(crate) struct IdleCpus {
    idle: CpuMask,
    /// With those that have nothing but tasks of SCHED_IDLE; kept if there are such tasks.
    idle_like: Option<CpuMask>,
    has_idle_cores: IdVec<LlcId, bool>,
    nr_idle_scan: IdVec<LlcId, Option<u32>>,
}

impl IdleCpus {
    /// All CPUs are idle; `idle_like`: some task may ever be of SCHED_IDLE, and the kernel cares.
    pub(crate) fn new(nr_cpus: usize, nr_llcs: usize, idle_like: bool) -> Self {
        Self {
            idle: CpuMask::all(nr_cpus),
            idle_like: idle_like.then(|| CpuMask::all(nr_cpus)),
            has_idle_cores: vec![false; nr_llcs].into(),
            nr_idle_scan: vec![None; nr_llcs].into(),
        }
    }

    /// The caches are others: nothing is known of them.
    pub(crate) fn forget_caches(&mut self, nr_llcs: usize) {
        self.has_idle_cores = vec![false; nr_llcs].into();
        self.nr_idle_scan = vec![None; nr_llcs].into();
    }

    /// CPUs that run the idle task with nothing queued (idle_cpu()).
    #[inline]
    pub(crate) fn idle(&self) -> CpuSet<'_> {
        self.idle.as_set()
    }

    /// Those and CPUs with nothing but tasks of SCHED_IDLE (sched_idle_cpu()).
    #[inline]
    pub(crate) fn idle_like(&self) -> CpuSet<'_> {
        self.idle_like.as_ref().unwrap_or(&self.idle).as_set()
    }

    #[inline]
    pub(crate) fn insert(&mut self, cpu: CpuId) {
        self.idle.insert(cpu.index());
    }

    #[inline]
    pub(crate) fn remove(&mut self, cpu: CpuId) {
        self.idle.remove(cpu.index());
    }

    /// The queues of `cpu` have changed; `is_sched_idle` is whether nothing but tasks of SCHED_IDLE is there.
    #[inline]
    pub(crate) fn update_idle_like(&mut self, cpu: CpuId, is_sched_idle: impl FnOnce() -> bool) {
        if let Some(mask) = &mut self.idle_like {
            mask.set(cpu.index(), self.idle.as_set().contains(cpu.index()) || is_sched_idle());
        }
    }

    /// Whether an idle core may be found in a cache's domain.
    pub(crate) fn has_idle_cores(&self, llc: LlcId) -> bool {
        self.has_idle_cores[llc]
    }

    pub(crate) fn set_idle_cores(&mut self, llc: LlcId, there: bool) {
        self.has_idle_cores[llc] = there;
    }

    /// How many CPUs of a cache's domain a wake-up may look at (`None`: all); from v5.19 on.
    pub(crate) fn nr_idle_scan(&self, llc: LlcId) -> Option<u32> {
        self.nr_idle_scan[llc]
    }

    pub(crate) fn set_nr_idle_scan(&mut self, llc: LlcId, nr: u32) {
        self.nr_idle_scan[llc] = Some(nr);
    }
}
