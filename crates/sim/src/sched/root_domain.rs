//! What CPUs know of each other's classes that push and pull tasks (kernel/sched/sched.h, struct root_domain).

use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};

use crate::ids::CpuId;

/// Which CPUs have real-time and deadline tasks to give away or may take some, and the bandwidth of all deadline tasks.
#[derive(Debug)]
pub(crate) struct RootDomain {
    rt_overloaded: CpuMask,
    dl_free: CpuMask,
    dl_overloaded: CpuMask,
    dl_total_bw: u64,
    /// Of that, what counts on each CPU, each task's part rounded down.
    dl_bw_a_cpu: u64,
    nr_cpus: u64,
    /// For whoever searches among CPUs.
    scratch: CpuMask,
}

impl RootDomain {
    /// Of `nr_cpus` CPUs, `nr_in_domains` in domains.
    pub(crate) fn new(nr_cpus: usize, nr_in_domains: usize) -> Self {
        Self {
            rt_overloaded: CpuMask::with_room(nr_cpus),
            dl_free: CpuMask::all(nr_cpus),
            dl_overloaded: CpuMask::with_room(nr_cpus),
            dl_total_bw: 0,
            dl_bw_a_cpu: 0,
            nr_cpus: nr_in_domains as u64,
            scratch: CpuMask::with_room(nr_cpus),
        }
    }

    /// CPUs with real-time tasks that wait and may go elsewhere (rd->rto_mask).
    pub(crate) fn rt_overloaded(&self) -> CpuSet<'_> {
        self.rt_overloaded.as_set()
    }

    pub(crate) fn set_rt_overloaded(&mut self, cpu: CpuId, overloaded: bool) {
        self.rt_overloaded.set(cpu.index(), overloaded);
    }

    /// CPUs without deadline tasks (cpudl.free_cpus).
    pub(crate) fn dl_free(&self) -> CpuSet<'_> {
        self.dl_free.as_set()
    }

    /// CPUs with more than one.
    pub(crate) fn dl_overloaded(&self) -> CpuSet<'_> {
        self.dl_overloaded.as_set()
    }

    /// `cpu` has `nr` deadline tasks now.
    pub(crate) fn set_nr_dl(&mut self, cpu: CpuId, nr: usize) {
        self.dl_free.set(cpu.index(), nr == 0);
        self.dl_overloaded.set(cpu.index(), nr > 1);
    }

    /// Bandwidth of all deadline tasks together (dl_bw.total_bw), without servers.
    pub(crate) fn dl_total_bw(&self) -> u64 {
        self.dl_total_bw
    }

    pub(crate) fn add_dl_bw(&mut self, bw: u64) {
        self.dl_total_bw += bw;
        self.dl_bw_a_cpu += bw / self.nr_cpus;
    }

    pub(crate) fn sub_dl_bw(&mut self, bw: u64) {
        self.dl_total_bw -= bw;
        self.dl_bw_a_cpu -= bw / self.nr_cpus;
    }

    /// What deadline tasks were admitted with, a CPU: what dl_rq.extra_bw lacks of the limit.
    pub(crate) fn dl_bw_a_cpu(&self) -> u64 {
        self.dl_bw_a_cpu
    }

    /// A set of CPUs to work with, to be given back.
    pub(crate) fn take_scratch(&mut self) -> CpuMask {
        std::mem::take(&mut self.scratch)
    }

    pub(crate) fn give_scratch_back(&mut self, mask: CpuMask) {
        self.scratch = mask;
    }
}
