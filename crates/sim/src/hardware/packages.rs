//! Packages: what all their cores share, and what holds down their clocks.

use opplab_model::decision::GrantLimit;
use opplab_model::machine::{Cluster, CpuPlace, Cpufreq, Machine};

use crate::hardware::budget::{Budget, UNLIMITED_KHZ};
use crate::hardware::points::{OperatingPoint, Points};
use crate::ids::{ClusterId, IdVec, PackageId, PolicyId};

/// How often the package control unit looks at its package, ns. Haswell-EP and its successors change clocks in steps
/// of half a millisecond (Hackenberg et al., 2015); budgets and HWP are slower.
pub(crate) const PCU_INTERVAL_NS: u64 = 1_000_000;

/// Cores that count together for turbo bins: all of a package, or on an Intel hybrid those of one kind, since each kind has a
/// register of its own (MSR 0x1AD, 0x650).
#[derive(Debug, Default)]
pub(crate) struct Bins {
    /// Cores with a thread that is not in a deep idle state.
    pub(super) active_cores: u32,
    /// Of each number of active cores its class of bins; one class: nothing to count.
    pub(super) class_of: Vec<u32>,
    /// Of each class the limit of each cluster in kHz.
    limits_khz: Vec<Vec<u32>>,
    /// The class that holds.
    pub(super) class: u32,
}

impl Bins {
    /// The class of the cores that are active now.
    pub(super) fn class_now(&self) -> u32 {
        self.class_of[self.active_cores as usize]
    }

    fn is_limited(&self) -> bool {
        self.limits_khz.iter().flatten().any(|&khz| khz != UNLIMITED_KHZ)
    }
}

/// A package: what all its cores share.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(super) bins: Vec<Bins>,
    /// Which of its bins each cluster has.
    bins_of: IdVec<ClusterId, usize>,
    /// Of each cluster the clock that is left without turbo in kHz, where that is switched off; else 0.
    no_turbo_khz: IdVec<ClusterId, u32>,
    /// The highest clock of any of the machine's clusters in kHz.
    pub(super) top_khz: u32,
    /// Of each cluster the highest point that may be granted.
    pub(super) caps: IdVec<ClusterId, u32>,
    /// Policies with CPUs of the package.
    pub(crate) policies: Vec<PolicyId>,
    /// Its budget, if it has one.
    pub(crate) budget: Option<Budget>,
    /// When the control unit looks next.
    pub(super) armed: bool,
}

/// The machine's limits.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    /// Of each cluster.
    pub(crate) clusters: IdVec<ClusterId, Points>,
    pub(crate) packages: IdVec<PackageId, Package>,
    /// Threads of each core that are not in a deep idle state.
    pub(super) awake_threads: Vec<u32>,
    /// Of each cluster a bit for each idle state that is left without an interrupt.
    wakes_by_memory: IdVec<ClusterId, u64>,
    /// Of each cluster the first idle state in which a thread counts as asleep.
    pub(crate) deep_from: IdVec<ClusterId, usize>,
    /// Whether any grant may be less than the request.
    pub(super) limited: bool,
}

/// Whether an idle state keeps its core active for the turbo bins: polling, the halt states C1 and C1E, and WFI do
/// (Intel SDM 15.3 counts cores in C0 and C1).
fn keeps_core_active(name: &str) -> bool {
    name == "POLL" || name == "WFI" || name.starts_with("C1_") || ["C1", "C1E"].contains(&name)
}

/// The cores of the CPUs that count, each once, in ascending order.
pub(crate) fn cores_of(machine: &Machine, counts: impl Fn(&CpuPlace) -> bool) -> Vec<u32> {
    let mut cores: Vec<u32> = machine.cpus.iter().filter(|cpu| counts(cpu)).map(|cpu| cpu.core).collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

impl Hardware {
    pub(crate) fn new(machine: &Machine, driver: &Cpufreq, no_turbo: bool, now_ns: u64) -> Self {
        let clusters: IdVec<ClusterId, Points> =
            machine.clusters.iter().map(|cluster| Points::new(machine, driver, cluster)).collect();
        let nr_packages = machine.cpus.iter().map(|cpu| cpu.package + 1).max().unwrap_or(0);
        let nr_cores = machine.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
        let mut awake_threads = vec![0; nr_cores as usize];
        for cpu in &machine.cpus {
            awake_threads[cpu.core as usize] += 1;
        }
        let packages: IdVec<PackageId, Package> =
            (0..nr_packages).map(|index| Package::new(machine, &clusters, index, no_turbo, now_ns)).collect();
        let deep_from = machine.clusters.iter().map(|cluster| {
            let shallow = cluster.idle.iter().take_while(|state| keeps_core_active(&state.name));
            shallow.count()
        });
        let wakes_by_memory = machine.clusters.iter().map(|cluster| {
            let states = (0u32..).zip(&cluster.idle).filter(|(_, state)| machine.wakes_by_memory(&state.name));
            states.fold(0, |bits, (index, _)| bits | 1 << index)
        });
        Self {
            wakes_by_memory: wakes_by_memory.collect(),
            deep_from: deep_from.collect(),
            limited: machine.idle_requests_count()
                || packages.iter().any(|package| package.budget.is_some() || package.bins.iter().any(Bins::is_limited)),
            clusters,
            packages,
            awake_threads,
        }
    }

    /// Turbo and boost may be used, or not any more.
    pub(crate) fn set_no_turbo(&mut self, machine: &Machine, no_turbo: bool) {
        for package in &mut self.packages {
            package.set_limits(machine, &self.clusters, no_turbo);
        }
        self.limited |= self.packages.iter().flat_map(|package| &package.bins).any(Bins::is_limited);
    }

    /// Whether a CPU of `cluster` leaves idle state `state` without an interrupt.
    pub(crate) fn wakes_by_memory(&self, cluster: ClusterId, state: usize) -> bool {
        self.wakes_by_memory[cluster] >> state & 1 != 0
    }

    /// The point at which a CPU of `cluster` runs.
    pub(crate) fn point(&self, cluster: ClusterId, point: u32) -> &OperatingPoint {
        &self.clusters[cluster].points[point as usize]
    }
}

impl Package {
    fn new(machine: &Machine, clusters: &[Points], index: u32, no_turbo: bool, now_ns: u64) -> Self {
        let kind =
            |cluster: u32| if machine.is_intel_hybrid() { machine.clusters[cluster as usize].capacity } else { 0 };
        let of_cluster: Vec<u32> = (0..machine.clusters.len() as u32).map(kind).collect();
        let mut kinds = of_cluster.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let bins = kinds.iter().map(|&wanted| {
            let counts = |cpu: &CpuPlace| cpu.package == index && kind(cpu.cluster) == wanted;
            let nr_cores = cores_of(machine, counts).len();
            Bins { active_cores: nr_cores as u32, class_of: vec![0; nr_cores + 1], ..Bins::default() }
        });
        let mut package = Self {
            bins: bins.collect(),
            bins_of: of_cluster.iter().map(|own| kinds.partition_point(|kind| kind < own)).collect(),
            budget: Budget::new(machine, index, now_ns),
            top_khz: clusters.iter().map(Points::top_khz).max().unwrap_or(0),
            ..Self::default()
        };
        package.set_limits(machine, clusters, no_turbo);
        package
    }

    /// The clocks that it grants by the number of active cores.
    fn set_limits(&mut self, machine: &Machine, clusters: &[Points], no_turbo: bool) {
        self.no_turbo_khz =
            machine.clusters.iter().map(|cluster| if no_turbo { cluster.base_khz } else { 0 }).collect();
        // More cores than the last bin has: the last bin.
        let limit = |cluster: &Cluster, points: &Points, active: u32| {
            let bin = cluster.turbo.iter().find(|bin| bin.active_cores >= active).or(cluster.turbo.last());
            let base = cluster.base_khz > 0 && no_turbo;
            let base_khz = if base { cluster.base_khz } else { UNLIMITED_KHZ };
            let khz = bin.map_or(base_khz, |bin| bin.khz.min(base_khz));
            if khz < points.top_khz() { khz } else { UNLIMITED_KHZ }
        };
        for (which, bins) in self.bins.iter_mut().enumerate() {
            bins.limits_khz.clear();
            for active in 0..bins.class_of.len() {
                let of_cluster = |((cluster, points), &own): ((&Cluster, &Points), &usize)| match own == which {
                    true => limit(cluster, points, active as u32),
                    false => UNLIMITED_KHZ,
                };
                let limits: Vec<u32> =
                    machine.clusters.iter().zip(clusters).zip(&self.bins_of).map(of_cluster).collect();
                if bins.limits_khz.last() != Some(&limits) {
                    bins.limits_khz.push(limits);
                }
                bins.class_of[active] = bins.limits_khz.len() as u32 - 1;
            }
            bins.class = bins.class_now();
        }
        self.find_caps(clusters);
    }

    /// The bins of the cores of `cluster`.
    pub(super) fn bins(&mut self, cluster: ClusterId) -> &mut Bins {
        &mut self.bins[self.bins_of[cluster]]
    }

    /// What the bins allow a cluster.
    fn bin_khz(&self, cluster: ClusterId) -> u32 {
        let bins = &self.bins[self.bins_of[cluster]];
        bins.limits_khz[bins.class as usize][cluster.index()]
    }

    /// Which of the limits holds down the clocks of `cluster`.
    pub(super) fn limit(&self, cluster: ClusterId, points: &Points) -> GrantLimit {
        let bin_khz = self.bin_khz(cluster);
        match &self.budget {
            Some(budget) if self.ceiling_khz(points) < bin_khz => budget.limit(),
            _ if bin_khz == self.no_turbo_khz[cluster] => GrantLimit::NoTurbo,
            _ => GrantLimit::TurboBin,
        }
    }

    /// What the budget allows a cluster: of its own highest clock the same share as of the highest of all, as a Raptor
    /// Lake at its thermal limit shows it (P-cores at 0.858 of 5.3 GHz, E-cores at 0.848 of 4.2 GHz).
    fn ceiling_khz(&self, points: &Points) -> u32 {
        let ceiling_khz = self.budget.as_ref().map_or(UNLIMITED_KHZ, Budget::ceiling_khz);
        if ceiling_khz == UNLIMITED_KHZ || self.top_khz == 0 {
            return ceiling_khz;
        }
        (u64::from(ceiling_khz) * u64::from(points.top_khz()) / u64::from(self.top_khz)) as u32
    }

    /// Computes the caps again; true if one has changed.
    pub(super) fn find_caps(&mut self, clusters: &[Points]) -> bool {
        let cap = |(cluster, points): (u32, &Points)| {
            points.at_most(self.bin_khz(ClusterId(cluster)).min(self.ceiling_khz(points)))
        };
        let caps = (0..).zip(clusters).map(cap).collect();
        std::mem::replace(&mut self.caps, caps) != self.caps
    }
}
