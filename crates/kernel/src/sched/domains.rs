//! Scheduling domains and groups: how the balancer sees the topology (kernel/sched/topology.c, v6.12).
//!
//! Each CPU has a chain of domains, from its core's threads up to the machine. A domain is divided into groups, which are the
//! spans of the domains below. Domains that add nothing are removed. [`SchedDomains::build`] makes the chains from plain facts
//! about each CPU; what is alike for many CPUs is stored once, so that 4096 CPUs are no burden.
//! What balancing changes in a domain is [`super::newidle::DomainBalance`], what it changes in a group is
//! [`super::group::GroupCapacity`]; both are the caller's. Not here: CPU hot-plug, cpusets, isolated CPUs.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::balance::PassState;
use super::cpumask::{CpuMask, cpus_of_word};
use super::group::{DomainView, GroupCapacity, SchedGroup};
use super::newidle::DomainBalance;
pub use super::sd_flags::*;
use crate::profile::{BalanceThresholds, FarNodes};

/// The flags that mean nothing in a domain with one group (`SD_DEGENERATE_GROUPS_MASK`): all but [`SD_WAKE_AFFINE`].
const SD_DEGENERATE_GROUPS_MASK: u32 = 0x7fff & !SD_WAKE_AFFINE;
/// The distance of a NUMA node to itself (`LOCAL_DISTANCE`).
const LOCAL_DISTANCE: u32 = 10;
/// Beyond this distance tasks are not placed on fork, exec and wake-up (`RECLAIM_DISTANCE`).
pub const RECLAIM_DISTANCE: u32 = 30;
/// The same on AMD's Zen (arch/x86/kernel/cpu/amd.c:`init_amd_zen_common()`, v6.12).
const ZEN_RECLAIM_DISTANCE: u32 = 32;

/// `node_reclaim_distance`, on AMD's processors of a family (`None`: on another's).
pub fn node_reclaim_distance(far_nodes: FarNodes, amd_family: Option<u32>) -> u32 {
    let is_widened = amd_family.is_some_and(|family| match far_nodes {
        FarNodes::Beyond30 => false,
        FarNodes::Zen => family == 0x17,
        FarNodes::ZenOn => family >= 0x17,
    });
    if is_widened { ZEN_RECLAIM_DISTANCE } else { RECLAIM_DISTANCE }
}

/// Facts about the CPUs, one entry a CPU. The numbers of cores, clusters, caches and nodes are names: equal means shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The core of each CPU; the CPUs of a core are its threads.
    pub core: Vec<u32>,
    /// The L2 cluster.
    pub cluster: Vec<u32>,
    /// The last-level cache.
    pub llc: Vec<u32>,
    /// The NUMA node, counted from 0.
    pub node: Vec<u32>,
    /// Distances between nodes, row by row; empty with one node.
    pub node_distance: Vec<u32>,
    /// A package holds several nodes: there is no package domain.
    pub numa_in_package: bool,
    /// The capacity of each CPU (`arch_scale_cpu_capacity()`).
    pub capacity: Vec<u64>,
    /// The packing priority of each CPU (ITMT), if CPUs of higher priority are to be preferred.
    pub asym_priority: Option<Vec<i32>>,
    /// CPUs that are in no domain, offline or isolated; empty: none is.
    pub excluded: Vec<bool>,
    /// `node_reclaim_distance`, normally [`RECLAIM_DISTANCE`] ([`node_reclaim_distance()`]).
    pub node_reclaim_distance: u32,
}

impl Topology {
    /// `n_cpus` equal CPUs with one thread a core that share one cache on one node.
    pub fn flat(n_cpus: usize) -> Self {
        let own: Vec<u32> = (0..n_cpus as u32).collect();
        Self {
            core: own.clone(),
            cluster: own,
            llc: vec![0; n_cpus],
            node: vec![0; n_cpus],
            node_distance: Vec::new(),
            numa_in_package: false,
            capacity: vec![1024; n_cpus],
            asym_priority: None,
            excluded: Vec::new(),
            node_reclaim_distance: RECLAIM_DISTANCE,
        }
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        let n_nodes = self.n_nodes();
        let known = self.node_distance.get(from as usize * n_nodes + to as usize).copied();
        known.unwrap_or(if from == to { LOCAL_DISTANCE } else { 2 * LOCAL_DISTANCE })
    }

    fn excludes(&self, cpu: usize) -> bool {
        self.excluded.get(cpu).is_some_and(|&excluded| excluded)
    }

    fn n_nodes(&self) -> usize {
        self.node.iter().max().map_or(0, |&node| node as usize + 1)
    }
}

/// One level of the topology (`struct sched_domain_topology_level`): a mask for each CPU.
struct Level {
    name: &'static str,
    flags: u32,
    is_overlap: bool,
    is_far: bool,
    /// The number of each CPU's mask.
    mask_of: Vec<u32>,
    masks: Vec<CpuMask>,
    /// How many CPUs each mask has, and its flags of capacity.
    weights: Vec<u32>,
    asym_flags: Vec<u32>,
}

impl Level {
    /// CPUs with an equal number share a mask.
    fn of_numbers(name: &'static str, flags: u32, numbers: impl Iterator<Item = (u32, u32)>) -> Self {
        let (mut index, mut masks, mut mask_of) = (BTreeMap::new(), Vec::<CpuMask>::new(), Vec::new());
        for (cpu, number) in numbers.enumerate() {
            let mask = *index.entry(number).or_insert_with(|| {
                masks.push(CpuMask::default());
                masks.len() - 1
            });
            masks[mask].insert(cpu);
            mask_of.push(mask as u32);
        }
        Self {
            name,
            flags,
            is_overlap: false,
            is_far: false,
            mask_of,
            masks,
            weights: Vec::new(),
            asym_flags: Vec::new(),
        }
    }

    fn mask(&self, cpu: usize) -> &CpuMask {
        &self.masks[self.mask_of[cpu] as usize]
    }

    /// kernel/sched/topology.c:`asym_cpu_capacity_classify()`, v6.12.
    fn asym_cpu_capacity_classify(&mut self, capacity: &[u64], n_capacities: usize) {
        let distinct = |mask: &CpuMask| {
            let mut seen: Vec<u64> = mask.as_set().iter().map(|cpu| capacity[cpu]).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        let flags_of = |mask: &CpuMask| match distinct(mask) {
            0 | 1 => 0,
            count if count < n_capacities => SD_ASYM_CPUCAPACITY,
            _ => SD_ASYM_CPUCAPACITY | SD_ASYM_CPUCAPACITY_FULL,
        };
        self.asym_flags = self.masks.iter().map(flags_of).collect();
    }
}

/// The levels, the lowest first: threads, cluster, cache, package (node), nodes by distance.
///
/// arch/x86/kernel/smpboot.c:`build_sched_topology()`, kernel/sched/topology.c:`default_topology`, `sched_init_numa()`, v6.12.
fn levels_of(topology: &Topology) -> Vec<Level> {
    let itmt = if topology.asym_priority.is_some() { SD_ASYM_PACKING } else { 0 };
    // A cache that spans nodes is seen as one of each node.
    let pairs = |of: &[u32]| of.iter().copied().zip(topology.node.iter().copied()).collect::<Vec<_>>();
    let mut levels = vec![
        Level::of_numbers("SMT", SD_SHARE_CPUCAPACITY | SD_SHARE_LLC, pairs(&topology.core).into_iter()),
        Level::of_numbers("CLS", SD_CLUSTER | SD_SHARE_LLC | itmt, pairs(&topology.cluster).into_iter()),
        Level::of_numbers("MC", SD_SHARE_LLC | itmt, pairs(&topology.llc).into_iter()),
    ];
    let by_node = || pairs(&topology.node).into_iter();
    if !topology.numa_in_package {
        levels.push(Level::of_numbers("PKG", itmt, by_node()));
    }
    levels.push(Level::of_numbers("NODE", 0, by_node()));
    let n_nodes = topology.n_nodes() as u32;
    let all_pairs = (0..n_nodes).flat_map(|from| (0..n_nodes).map(move |to| (from, to)));
    let mut distances: Vec<u32> = all_pairs.map(|(from, to)| topology.distance(from, to)).collect();
    distances.sort_unstable();
    distances.dedup();
    for &distance in distances.iter().skip(1) {
        let mut masks = vec![CpuMask::default(); n_nodes as usize];
        for (cpu, &node) in topology.node.iter().enumerate() {
            for from in 0..n_nodes {
                if topology.distance(from, node) <= distance {
                    masks[from as usize].insert(cpu);
                }
            }
        }
        levels.push(Level {
            name: "NUMA",
            flags: SD_NUMA,
            is_overlap: true,
            is_far: distance > topology.node_reclaim_distance,
            mask_of: topology.node.clone(),
            masks,
            weights: Vec::new(),
            asym_flags: Vec::new(),
        });
    }
    let included = |cpu: &usize| !topology.excludes(*cpu);
    for cpu in (0..topology.core.len()).filter(|cpu| !included(cpu)) {
        for level in &mut levels {
            level.masks.iter_mut().for_each(|mask| mask.remove(cpu));
            level.mask_of[cpu] = level.masks.len() as u32;
            level.masks.push(CpuMask::one(cpu));
        }
    }
    let mut capacities: Vec<u64> =
        (0..topology.core.len()).filter(included).map(|cpu| topology.capacity[cpu]).collect();
    capacities.sort_unstable();
    capacities.dedup();
    for level in &mut levels {
        level.weights = level.masks.iter().map(|mask| mask.as_set().weight()).collect();
        level.asym_cpu_capacity_classify(&topology.capacity, capacities.len());
    }
    levels
}

/// A domain of one CPU while the chains are built.
#[derive(Clone, Debug)]
struct Raw {
    level: usize,
    flags: u32,
    weight: u32,
    imb_numa_nr: u32,
    /// The numbers of the groups in ring order, the local one first. Neighbours share it.
    ring: Rc<[u32]>,
}

/// One domain, for all CPUs that see it alike.
#[derive(Clone, Debug)]
pub struct Domain {
    /// `SMT`, `CLS`, `MC`, `PKG`, `NODE` or `NUMA`.
    pub name: &'static str,
    /// The CPUs.
    pub span: CpuMask,
    /// How many.
    pub span_weight: u32,
    /// `SD_*` flags.
    pub flags: u32,
    /// From which imbalance on it matters, percent.
    pub imbalance_pct: u32,
    /// How many failed passes a cache-hot task survives.
    pub cache_nice_tries: u32,
    /// How many tasks a NUMA node may have before balance matters.
    pub imb_numa_nr: u32,
    /// The groups in ring order.
    pub groups: Vec<SchedGroup>,
}

/// A CPU's place in a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    domain: u32,
    local: u32,
}

/// The domains of all CPUs.
#[derive(Clone, Debug)]
pub struct SchedDomains {
    domains: Vec<Domain>,
    chains: Vec<Vec<Place>>,
    n_sgc: usize,
    max_levels: usize,
}

/// By how much a busy CPU stretches the balance interval.
const BUSY_FACTOR: u32 = 16;

impl BalanceThresholds {
    /// By how much a busy CPU stretches the interval between passes (`sd->busy_factor`).
    fn busy_factor(self) -> u32 {
        match self {
            Self::Wide => 2 * BUSY_FACTOR,
            Self::Narrow => BUSY_FACTOR,
        }
    }
}

impl SchedDomains {
    /// The same with the thresholds of a kernel's version.
    #[must_use]
    pub fn with_thresholds(mut self, thresholds: BalanceThresholds) -> Self {
        let is_wide = |domain: &&mut Domain| domain.flags & (SD_SHARE_CPUCAPACITY | SD_SHARE_LLC) == 0;
        if thresholds == BalanceThresholds::Wide {
            self.domains.iter_mut().filter(is_wide).for_each(|domain| domain.imbalance_pct = 125);
        }
        self
    }

    /// Builds the chains.
    ///
    /// kernel/sched/topology.c:`build_sched_domains()` and what it calls, v6.12.
    pub fn build(topology: &Topology) -> Self {
        let n_cpus = topology.core.len();
        let levels = levels_of(topology);
        let n_included = (0..n_cpus).filter(|&cpu| !topology.excludes(cpu)).count();
        let chain_of = |cpu| if topology.excludes(cpu) { Vec::new() } else { init_chain(&levels, cpu, n_included) };
        let mut chains: Vec<Vec<Raw>> = (0..n_cpus).map(chain_of).collect();
        let mut groups = Groups::default();
        for cpu in 0..n_cpus {
            for at in 0..chains[cpu].len() {
                let same = neighbours_ring(&levels, &chains, cpu, at);
                chains[cpu][at].ring = same.unwrap_or_else(|| groups.ring(&levels, &chains, cpu, at).into());
            }
        }
        for chain in &mut chains {
            allow_numa_imbalance(chain);
        }
        groups.init(&levels, &chains, topology);
        for chain in &mut chains {
            attach(chain, &mut groups);
        }
        finish(levels, &chains, groups)
    }

    /// How many CPUs there are.
    pub fn n_cpus(&self) -> usize {
        self.chains.len()
    }

    /// How many domains the CPU has.
    #[inline]
    pub fn n_levels(&self, cpu: usize) -> usize {
        self.chains[cpu].len()
    }

    /// How many levels any CPU has.
    pub fn max_levels(&self) -> usize {
        self.max_levels
    }

    /// The domain of `cpu` at `level`, 0 the lowest that is left.
    #[inline]
    pub fn domain(&self, cpu: usize, level: usize) -> Option<&Domain> {
        let place = self.chains[cpu].get(level)?;
        Some(&self.domains[place.domain as usize])
    }

    /// The domain of `cpu` at `level` as balancing sees it.
    #[inline]
    pub fn view(&self, cpu: usize, level: usize) -> Option<DomainView<'_>> {
        let chain = &self.chains[cpu];
        let place = chain.get(level)?;
        let domain = &self.domains[place.domain as usize];
        let child = level.checked_sub(1).map(|below| {
            let child = &self.domains[chain[below].domain as usize];
            (child.groups.as_slice(), child.flags)
        });
        let parent_sgc = chain.get(level + 1).map(|parent| {
            let groups = &self.domains[parent.domain as usize].groups;
            groups[parent.local as usize].sgc
        });
        Some(DomainView {
            span: domain.span.as_set(),
            span_weight: domain.span_weight,
            flags: domain.flags,
            imbalance_pct: domain.imbalance_pct,
            cache_nice_tries: domain.cache_nice_tries,
            imb_numa_nr: domain.imb_numa_nr,
            groups: &domain.groups,
            local: place.local as usize,
            child,
            parent_sgc,
        })
    }

    /// What balancing changes in a domain, as it is at the start.
    pub fn initial_balance(domain: &Domain, jiffies: u64, thresholds: BalanceThresholds) -> DomainBalance {
        let weight = u64::from(domain.span_weight);
        DomainBalance {
            pass: PassState {
                nr_balance_failed: 0,
                balance_interval: weight,
                min_interval: weight,
                max_interval: 2 * weight,
            },
            flags: domain.flags,
            busy_factor: thresholds.busy_factor(),
            last_balance: jiffies,
            // A success rate of one half.
            newidle_call: 512,
            newidle_success: 256,
            newidle_ratio: 512,
            max_newidle_lb_cost: 0,
            last_decay_max_lb_cost: jiffies,
        }
    }

    /// The capacities of all groups ([`SchedGroup::sgc`] is the index) from those of the CPUs.
    pub fn group_capacities(&self, capacity_of: impl Fn(usize) -> u64) -> Vec<GroupCapacity> {
        let mut capacities = vec![GroupCapacity::default(); self.n_sgc];
        for group in self.domains.iter().flat_map(|domain| &domain.groups) {
            let mut total = GroupCapacity { min_capacity: u64::MAX, ..GroupCapacity::default() };
            for capacity in group.span.as_set().iter().map(&capacity_of) {
                total.capacity = total.capacity.wrapping_add(capacity);
                total.min_capacity = total.min_capacity.min(capacity);
                total.max_capacity = total.max_capacity.max(capacity);
            }
            capacities[group.sgc] = total;
        }
        capacities
    }

    /// By [`SchedGroup::sgc`], the CPUs of the groups with that capacity, if all of them have the same.
    pub fn group_spans(&self) -> Vec<Option<&CpuMask>> {
        let mut spans: Vec<Option<&CpuMask>> = vec![None; self.n_sgc];
        let mut differ = vec![false; self.n_sgc];
        for group in self.domains.iter().flat_map(|domain| &domain.groups) {
            let first = *spans[group.sgc].get_or_insert(&group.span);
            differ[group.sgc] |= *first != group.span;
        }
        spans.into_iter().zip(differ).map(|(span, differs)| span.filter(|_| !differs)).collect()
    }

    /// The widest domain of `cpu` up to which every domain has one of `flags` (`highest_flag_domain()`).
    fn highest_with(&self, cpu: usize, flags: u32) -> Option<&Domain> {
        let domains = self.chains[cpu].iter().map(|place| &self.domains[place.domain as usize]);
        domains.take_while(|domain| domain.flags & flags != 0).last()
    }

    /// The lowest domain of `cpu` with one of `flags` (`lowest_flag_domain()`).
    fn lowest_with(&self, cpu: usize, flags: u32) -> Option<&Domain> {
        let mut domains = self.chains[cpu].iter().map(|place| &self.domains[place.domain as usize]);
        domains.find(|domain| domain.flags & flags != 0)
    }

    /// The domain of `cpu`'s last-level cache (`sd_llc`).
    pub fn llc(&self, cpu: usize) -> Option<&Domain> {
        self.highest_with(cpu, SD_SHARE_LLC)
    }

    /// The number of `cpu`'s last-level cache: its first CPU (`sd_llc_id`).
    pub fn llc_id(&self, cpu: usize) -> usize {
        self.llc(cpu).and_then(|domain| domain.span.as_set().first()).unwrap_or(cpu)
    }

    /// The lowest domain of `cpu` that holds every capacity of the machine (`sd_asym_cpucapacity`).
    pub fn asym_cpucapacity(&self, cpu: usize) -> Option<&Domain> {
        self.lowest_with(cpu, SD_ASYM_CPUCAPACITY_FULL)
    }
}

/// A CPU's domains up to the whole machine (`sd_init()`, `build_sched_domain()`), without groups.
fn init_chain(levels: &[Level], cpu: usize, n_cpus: usize) -> Vec<Raw> {
    let mut chain: Vec<Raw> = Vec::new();
    for (index, level) in levels.iter().enumerate() {
        let weight = level.weights[level.mask_of[cpu] as usize];
        let mut flags = SD_BALANCE_NEWIDLE
            | SD_BALANCE_EXEC
            | SD_BALANCE_FORK
            | SD_WAKE_AFFINE
            | SD_PREFER_SIBLING
            | level.flags
            | level.asym_flags[level.mask_of[cpu] as usize];
        // Tasks are not spread over CPUs of different capacity.
        if flags & SD_ASYM_CPUCAPACITY != 0
            && let Some(child) = chain.last_mut()
        {
            child.flags &= !SD_PREFER_SIBLING;
        }
        if flags & (SD_SHARE_CPUCAPACITY | SD_SHARE_LLC) == 0 && flags & SD_NUMA != 0 {
            flags &= !SD_PREFER_SIBLING;
            flags |= SD_SERIALIZE;
            if level.is_far {
                flags &= !(SD_BALANCE_EXEC | SD_BALANCE_FORK | SD_WAKE_AFFINE);
            }
        }
        if level.is_overlap {
            flags |= SD_OVERLAP;
        }
        chain.push(Raw { level: index, flags, weight, imb_numa_nr: 0, ring: Rc::default() });
        if weight as usize == n_cpus {
            break;
        }
    }
    chain
}

/// The ring of the CPU before at place `at`, if it is that of `cpu`: both are in one group of one domain, so that from either CPU
/// on the next one outside of the group is the same.
fn neighbours_ring(levels: &[Level], chains: &[Vec<Raw>], cpu: usize, at: usize) -> Option<Rc<[u32]>> {
    let before = cpu.checked_sub(1)?;
    let (own, other) = (&chains[cpu], chains[before].get(..=at)?);
    let is_shared = |at: usize| {
        let mask_of = &levels[own[at].level].mask_of;
        own[at].level == other[at].level && mask_of[cpu] == mask_of[before]
    };
    (is_shared(at) && is_shared(at.checked_sub(1)?)).then(|| Rc::clone(&other[at].ring))
}

/// The groups while the chains are built.
#[derive(Default)]
struct Groups {
    /// By level, among overlapping groups by the viewer's mask below; then by the number of the mask below (below all levels by CPU).
    index: BTreeMap<(usize, u32), Vec<Option<u32>>>,
    sgc_index: BTreeMap<(usize, usize), usize>,
    groups: Vec<SchedGroup>,
}

impl Groups {
    /// The groups of `cpu`'s domain at place `at` of its chain, from its own around the ring.
    ///
    /// kernel/sched/topology.c:`build_sched_groups()`, `build_overlap_sched_groups()`, v6.12. A group is the span of the domain
    /// below of one of its CPUs. In a machine whose nodes see it very differently the kernel goes down further to keep a group
    /// within the domain (`find_descended_sibling()`); here it is cut to the domain.
    fn ring(&mut self, levels: &[Level], chains: &[Vec<Raw>], cpu: usize, at: usize) -> Vec<u32> {
        let level = chains[cpu][at].level;
        let span = levels[level].mask(cpu);
        let below = at.checked_sub(1).map(|below| chains[cpu][below].level);
        // Overlapping groups are each CPU's own: only those of its own group get the flags of the domain that is left below.
        let viewer = below.filter(|_| levels[level].is_overlap).map_or(0, |below| levels[below].mask_of[cpu]);
        let mut covered = CpuMask::with_room(chains.len());
        let mut ring = Vec::new();
        let by_mask_below = self.index.entry((level, viewer)).or_default();
        by_mask_below.resize(below.map_or(chains.len(), |below| levels[below].masks.len()), None);
        for (index, word) in span.as_set().wrap_words(cpu) {
            loop {
                let left = word & !covered.as_set().word(index);
                let Some(other) = cpus_of_word(index, left).next() else { break };
                let mask_below = below.map_or(other as u32, |below| levels[below].mask_of[other]);
                let id = *by_mask_below[mask_below as usize].get_or_insert_with(|| {
                    let mut group_span = match below {
                        Some(below) => levels[below].mask(other).clone(),
                        None => CpuMask::one(other),
                    };
                    let full = group_span.clone();
                    group_span.assign_and(full.as_set(), span.as_set());
                    let flags = at.checked_sub(1).map_or(0, |below| chains[other][below].flags);
                    let balance_mask = match below {
                        // Those CPUs whose own domain below is the group.
                        Some(below) if levels[level].is_overlap => {
                            let same = |cpu: &usize| levels[below].mask_of[*cpu] == mask_below;
                            group_span.as_set().iter().filter(same).collect()
                        }
                        _ => group_span.clone(),
                    };
                    let first = balance_mask.as_set().first().unwrap_or(other);
                    let n_sgc = self.sgc_index.len();
                    let sgc = *self.sgc_index.entry((level, first)).or_insert(n_sgc);
                    let weight = group_span.as_set().weight();
                    let (cores, asym_prefer_cpu) = (0, 0);
                    self.groups.push(SchedGroup {
                        span: group_span,
                        balance_mask,
                        flags,
                        weight,
                        cores,
                        asym_prefer_cpu,
                        sgc,
                    });
                    self.groups.len() as u32 - 1
                });
                covered.insert(other);
                covered.insert_within(self.groups[id as usize].span.as_set());
                ring.push(id);
            }
        }
        ring
    }

    /// Counts cores and finds the CPU of the highest priority (`init_sched_groups_capacity()`, v6.12).
    fn init(&mut self, levels: &[Level], chains: &[Vec<Raw>], topology: &Topology) {
        for chain in chains {
            for raw in chain.iter().filter(|raw| raw.flags & SD_ASYM_PACKING != 0) {
                let Some(priority) = &topology.asym_priority else { continue };
                let group = &mut self.groups[raw.ring[0] as usize];
                let mut cpus = group.span.as_set().iter();
                let first = cpus.next().unwrap_or(0);
                let prefer = |best: usize, cpu: usize| if priority[cpu] > priority[best] { cpu } else { best };
                group.asym_prefer_cpu = cpus.fold(first, prefer);
            }
        }
        let smt = &levels[0];
        for group in &mut self.groups {
            let is_first = |cpu: &usize| smt.mask(*cpu).as_set().first_and(group.span.as_set()) == Some(*cpu);
            group.cores = group.span.as_set().iter().filter(is_first).count() as u32;
        }
    }
}

/// How many tasks a node may have before a NUMA imbalance matters: one an LLC, or an eighth of a node with one LLC
/// (`build_sched_domains()`, v6.12).
fn allow_numa_imbalance(chain: &mut [Raw]) {
    let (mut imb, mut imb_span) = (0, 1);
    for at in 0..chain.len() {
        let shares = |at: usize| chain[at].flags & SD_SHARE_LLC != 0;
        let weight = chain[at].weight;
        if at > 0 && !shares(at) && shares(at - 1) {
            let nr_llcs = weight / chain[at - 1].weight.max(1);
            imb = if nr_llcs == 1 { weight >> 3 } else { nr_llcs }.max(1);
            chain[at].imb_numa_nr = imb;
            let numa = chain[at + 1..].iter().find(|parent| parent.flags & SD_NUMA != 0);
            imb_span = numa.map_or(weight, |parent| parent.weight);
        } else {
            chain[at].imb_numa_nr = imb * (weight / imb_span).max(1);
        }
    }
}

/// `sd_degenerate()`, v6.12: the domain has one CPU, or nothing to do with one group.
fn is_degenerate(raw: &Raw) -> bool {
    if raw.weight == 1 {
        return true;
    }
    let has_groups = raw.flags & SD_DEGENERATE_GROUPS_MASK != 0 && raw.ring.len() > 1;
    !has_groups && raw.flags & SD_WAKE_AFFINE == 0
}

/// `sd_parent_degenerate()`, v6.12: the parent adds nothing to its child.
fn is_parent_degenerate(raw: &Raw, parent: &Raw) -> bool {
    if is_degenerate(parent) {
        return true;
    }
    if raw.weight != parent.weight {
        return false;
    }
    let mut flags = parent.flags;
    if parent.ring.len() == 1 {
        flags &= !SD_DEGENERATE_GROUPS_MASK;
    }
    !raw.flags & flags == 0
}

/// Removes the domains that add nothing (`cpu_attach_domain()`, v6.12). A group has the flags of the domain that is left below it.
fn attach(chain: &mut Vec<Raw>, groups: &mut Groups) {
    let mut at = 0;
    while at + 1 < chain.len() {
        if !is_parent_degenerate(&chain[at], &chain[at + 1]) {
            at += 1;
            continue;
        }
        if let Some(grandparent) = chain.get(at + 2) {
            groups.groups[grandparent.ring[0] as usize].flags = chain[at].flags;
        }
        let parent = chain.remove(at + 1);
        chain[at].flags |= parent.flags & SD_PREFER_SIBLING;
    }
    if chain.first().is_some_and(is_degenerate) {
        chain.remove(0);
        if let Some(lowest) = chain.first() {
            groups.groups[lowest.ring[0] as usize].flags = 0;
        }
    }
}

/// Stores what is alike once.
fn finish(levels: Vec<Level>, chains: &[Vec<Raw>], groups: Groups) -> SchedDomains {
    let mut index = BTreeMap::new();
    let mut domains: Vec<Domain> = Vec::new();
    let mut places: Vec<Vec<Place>> = Vec::new();
    for (cpu, chain) in chains.iter().enumerate() {
        let mut of_cpu = Vec::new();
        for (at, raw) in chain.iter().enumerate() {
            // A neighbour with the same ring has the same place.
            if let Some(before) = cpu.checked_sub(1)
                && let Some(other) = chains[before].get(at)
                && Rc::ptr_eq(&raw.ring, &other.ring)
                && (raw.level, raw.flags, raw.imb_numa_nr) == (other.level, other.flags, other.imb_numa_nr)
            {
                of_cpu.push(places[before][at]);
                continue;
            }
            // The ring is the same wherever it starts.
            let lowest = raw.ring.iter().enumerate().min_by_key(|(_, id)| **id).map_or(0, |(at, _)| at);
            let mut ring = raw.ring.to_vec();
            ring.rotate_left(lowest);
            let local = (ring.len() - lowest) % ring.len().max(1);
            let key = (raw.level, raw.flags, raw.imb_numa_nr, ring);
            let id = match index.get(&key) {
                Some(&id) => id,
                None => {
                    let level = &levels[raw.level];
                    let ring = key.3.iter().map(|&id| groups.groups[id as usize].clone()).collect();
                    domains.push(domain_of(level.name, level.mask(cpu), raw, ring));
                    let id = domains.len() as u32 - 1;
                    index.insert(key, id);
                    id
                }
            };
            of_cpu.push(Place { domain: id, local: local as u32 });
        }
        places.push(of_cpu);
    }
    let max_levels = places.iter().map(Vec::len).max().unwrap_or(0);
    SchedDomains { domains, chains: places, n_sgc: groups.sgc_index.len(), max_levels }
}

fn domain_of(name: &'static str, span: &CpuMask, raw: &Raw, groups: Vec<SchedGroup>) -> Domain {
    let (imbalance_pct, cache_nice_tries) = match raw.flags {
        flags if flags & SD_SHARE_CPUCAPACITY != 0 => (110, 0),
        flags if flags & SD_SHARE_LLC == 0 && flags & SD_NUMA != 0 => (117, 2),
        _ => (117, 1),
    };
    let mut span = span.clone();
    span.trim();
    Domain {
        name,
        span,
        span_weight: raw.weight,
        flags: raw.flags,
        imbalance_pct,
        cache_nice_tries,
        imb_numa_nr: raw.imb_numa_nr,
        groups,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A machine where each thing holds so many of the next smaller.
    fn nested(smt: u32, cores: u32, llcs: u32, nodes: u32) -> Topology {
        let (per_llc, per_node) = (smt * cores, smt * cores * llcs);
        let by = |divisor: u32| (0..per_node * nodes).map(|cpu| cpu / divisor).collect::<Vec<u32>>();
        Topology {
            core: by(smt),
            cluster: by(smt),
            llc: by(per_llc),
            node: by(per_node),
            capacity: vec![1024; (per_node * nodes) as usize],
            ..Topology::flat(0)
        }
    }

    #[test]
    fn one_cpu_has_no_domain() {
        let domains = SchedDomains::build(&Topology::flat(1));
        assert!(domains.n_levels(0) == 0 && domains.llc(0).is_none());
    }

    #[test]
    fn threads_numbered_apart_are_a_core() {
        // CPUs n and n + 4 are threads of core n, as Linux often numbers them.
        let mut topology = Topology::flat(8);
        topology.core = (0..8).map(|cpu| cpu % 4).collect();
        topology.cluster = topology.core.clone();
        let domains = SchedDomains::build(&topology);
        let view = domains.view(5, 1).expect("a cache domain");
        let firsts: Vec<_> = view.ring().map(|group| group.span.as_set().first()).collect();
        assert_eq!(firsts, [Some(1), Some(2), Some(3), Some(0)], "the ring starts with the own core");
        assert_eq!(domains.domain(1, 0).map(|core| core.span.as_set().iter().collect()), Some(vec![1, 5]));
    }

    #[test]
    fn little_cores_without_threads_have_a_group_each() {
        // Two cores of two threads, four cores of one.
        let mut topology = Topology::flat(8);
        topology.core = vec![0, 0, 1, 1, 2, 3, 4, 5];
        topology.cluster = vec![0, 0, 1, 1, 2, 2, 2, 2];
        topology.capacity = vec![1024, 1024, 1024, 1024, 700, 700, 700, 700];
        let domains = SchedDomains::build(&topology);
        let names = |cpu: usize| -> Vec<&str> {
            (0..domains.n_levels(cpu)).filter_map(|level| Some(domains.domain(cpu, level)?.name)).collect()
        };
        assert_eq!((names(0), names(4)), (vec!["SMT", "MC"], vec!["CLS", "MC"]));
    }

    #[test]
    fn machine_of_4096_cpus() {
        let domains = SchedDomains::build(&nested(2, 8, 16, 16));
        let llc = domains.llc(4095).map(|domain| domain.span_weight);
        assert_eq!((domains.n_cpus(), domains.n_levels(4095), llc), (4096, 4, Some(16)));
        let top = domains.view(4095, 3).expect("four levels");
        assert_eq!((top.span_weight, top.groups.len()), (4096, 16));
        assert!(top.groups[top.local].span.as_set().contains(4095));
        assert!(domains.domains.len() < 3000, "alike domains are stored once");
    }

    proptest! {
        /// Domains nest, groups divide their domain, the local group holds the CPU, the widest domain holds everything.
        #[test]
        fn chains_are_sound(
            core in proptest::collection::vec(0u32..20, 1..40), per_llc in 1u32..9, per_node in 1u32..4, big in 0usize..40,
        ) {
            let n_cpus = core.len();
            // Cores nest in caches and caches in nodes.
            let llc: Vec<u32> = core.iter().map(|core| core / per_llc).collect();
            let node: Vec<u32> = llc.iter().map(|llc| llc / per_node).collect();
            let capacity = (0..n_cpus).map(|cpu| if cpu < big { 1024 } else { 512 }).collect();
            let cluster = core.clone();
            let topology = Topology { core, cluster, llc, node, capacity, ..Topology::flat(0) };
            let domains = SchedDomains::build(&topology);
            for cpu in 0..n_cpus {
                let mut below = CpuMask::one(cpu);
                for level in 0..domains.n_levels(cpu) {
                    let view = domains.view(cpu, level).expect("the level exists");
                    prop_assert!(below.as_set().is_subset(view.span) && view.span.weight() > below.as_set().weight());
                    let local = &view.groups[view.local];
                    prop_assert_eq!(&local.span.as_set().iter().collect::<Vec<_>>(), &below.as_set().iter().collect::<Vec<_>>());
                    let sum: u32 = view.groups.iter().map(|group| group.weight).sum();
                    prop_assert_eq!(sum, view.span_weight);
                    prop_assert!(view.groups.iter().all(|group| group.span.as_set().is_subset(view.span)));
                    prop_assert!(view.groups.iter().all(|group| group.cores >= 1 && group.cores <= group.weight));
                    below = domains.domain(cpu, level).expect("the level exists").span.clone();
                }
                prop_assert_eq!(below.as_set().weight() as usize, n_cpus);
            }
        }
    }
}
