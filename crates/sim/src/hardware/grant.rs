//! What the hardware makes of requests: a package grants the least of the request, its turbo bin and its budget's
//! ceiling.
//!
//! ```text
//!   driver's request -> lowest point that reaches it -+
//!   turbo bin for the package's active cores ---------+--> min --> clock of the policy's CPUs
//!   ceiling by power and temperature (`budget`) ------+
//! ```
//! A core is active unless all its threads are in an idle state that gives up its clock and voltage. More active cores
//! lower the bin at once; fewer raise it when the package's control unit looks next, every [`PCU_INTERVAL_NS`]. CPUs
//! that sleep get their clock when they wake up.
//!
//! Not here: what software asks for (see `cpufreq`), and what the points draw (see `points`).

use opplab_kernel::pelt::HalfLife;
use opplab_model::decision::{Decision, GrantLimit};
use opplab_model::event::{Event, Sink};
use opplab_model::machine::{Cpufreq, Machine};

use crate::hardware::budget::{Budget, Clocks, UNLIMITED_KHZ};
use crate::hardware::hwp::Hwp;
use crate::hardware::points::{OperatingPoint, Points};
use crate::run::engine::Engine;

/// How often the package control unit looks at its package, ns. Haswell-EP and its successors change clocks in steps
/// of half a millisecond (Hackenberg et al., 2015); budgets and HWP are slower.
pub(crate) const PCU_INTERVAL_NS: u64 = 1_000_000;

/// A package: what all its cores share.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// Cores with a thread that is not in a deep idle state.
    active_cores: u32,
    /// Of each number of active cores its class of bins; one class: nothing to count.
    class_of: Vec<u32>,
    /// Of each class the limit of each cluster in kHz.
    limits_khz: Vec<Vec<u32>>,
    /// The class that holds.
    class: u32,
    /// Of each cluster the highest point that may be granted.
    caps: Vec<u32>,
    /// Policies with CPUs of the package.
    pub(crate) policies: Vec<u32>,
    /// Its budget, if it has one.
    pub(crate) budget: Option<Budget>,
    /// When the control unit looks next.
    armed: bool,
}

/// The machine's limits.
#[derive(Debug, Default)]
pub(crate) struct Hardware {
    /// Of each cluster.
    pub(crate) clusters: Vec<Points>,
    pub(crate) packages: Vec<Package>,
    /// Threads of each core that are not in a deep idle state.
    awake_threads: Vec<u32>,
    /// Of each cluster the first idle state in which a thread counts as asleep.
    deep_from: Vec<usize>,
    /// Whether any grant may be less than the request.
    limited: bool,
}

/// Whether an idle state keeps its core active for the turbo bins: polling, the halt states C1 and C1E, and WFI do
/// (Intel SDM 15.3 counts cores in C0 and C1).
fn keeps_core_active(name: &str) -> bool {
    name == "POLL" || name == "WFI" || name.starts_with("C1_") || ["C1", "C1E"].contains(&name)
}

impl Hardware {
    pub(crate) fn new(machine: &Machine, driver: &Cpufreq, no_turbo: bool, now_ns: u64) -> Self {
        let clusters: Vec<Points> =
            machine.clusters.iter().map(|cluster| Points::new(machine, driver, cluster)).collect();
        let nr_packages = machine.cpus.iter().map(|cpu| cpu.package + 1).max().unwrap_or(0);
        let nr_cores = machine.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0);
        let mut awake_threads = vec![0; nr_cores as usize];
        for cpu in &machine.cpus {
            awake_threads[cpu.core as usize] += 1;
        }
        let packages: Vec<Package> =
            (0..nr_packages).map(|index| Package::new(machine, &clusters, index, no_turbo, now_ns)).collect();
        let deep_from = machine.clusters.iter().map(|cluster| {
            let shallow = cluster.idle.iter().take_while(|state| keeps_core_active(&state.name));
            shallow.count()
        });
        Self {
            deep_from: deep_from.collect(),
            limited: packages.iter().any(|package| {
                package.budget.is_some() || package.limits_khz.iter().flatten().any(|&khz| khz != UNLIMITED_KHZ)
            }),
            clusters,
            packages,
            awake_threads,
        }
    }

    /// The point at which a CPU of `cluster` runs.
    pub(crate) fn point(&self, cluster: u32, point: u32) -> &OperatingPoint {
        &self.clusters[cluster as usize].points[point as usize]
    }
}

impl Package {
    fn new(machine: &Machine, clusters: &[Points], index: u32, no_turbo: bool, now_ns: u64) -> Self {
        let mut cores: Vec<u32> = machine.cpus.iter().filter(|cpu| cpu.package == index).map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        // More cores than the last bin has: the last bin.
        let limits = |active: u32| -> Vec<u32> {
            let of_cluster = |(cluster, points): (&opplab_model::machine::Cluster, &Points)| {
                let bin = cluster.turbo.iter().find(|bin| bin.active_cores >= active).or(cluster.turbo.last());
                let base = cluster.base_khz > 0 && no_turbo;
                let base_khz = if base { cluster.base_khz } else { UNLIMITED_KHZ };
                let khz = bin.map_or(base_khz, |bin| bin.khz.min(base_khz));
                Some(khz).filter(|&khz| khz < points.top_khz()).unwrap_or(UNLIMITED_KHZ)
            };
            machine.clusters.iter().zip(clusters).map(of_cluster).collect()
        };
        let budget = Budget::new(machine, index, now_ns);
        let mut package = Self { active_cores: cores.len() as u32, budget, ..Self::default() };
        for active in 0..=cores.len() as u32 {
            let limits = limits(active);
            if package.limits_khz.last() != Some(&limits) {
                package.limits_khz.push(limits);
            }
            package.class_of.push(package.limits_khz.len() as u32 - 1);
        }
        package.class = package.limits_khz.len() as u32 - 1;
        package.find_caps(clusters);
        package
    }

    /// Which of the limits holds down the clocks of `cluster`.
    fn limit(&self, cluster: u32) -> GrantLimit {
        let bin_khz = self.limits_khz[self.class as usize][cluster as usize];
        match &self.budget {
            Some(budget) if budget.ceiling_khz() < bin_khz => budget.limit(),
            _ => GrantLimit::TurboBin,
        }
    }

    /// Computes the caps again; true if one has changed.
    fn find_caps(&mut self, clusters: &[Points]) -> bool {
        let limits = &self.limits_khz[self.class as usize];
        let ceiling_khz = self.budget.as_ref().map_or(UNLIMITED_KHZ, Budget::ceiling_khz);
        let caps = clusters.iter().zip(limits).map(|(points, &khz)| points.at_most(khz.min(ceiling_khz))).collect();
        std::mem::replace(&mut self.caps, caps) != self.caps
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Tells the packages which policies they have.
    pub(crate) fn start_packages(&mut self) {
        for (index, policy) in self.policies.iter().enumerate() {
            self.hardware.packages[policy.package as usize].policies.push(index as u32);
        }
    }

    /// `cpu` enters idle state `state`.
    pub(crate) fn core_rests(&mut self, cpu: u32, state: usize) {
        let place = self.case.machine.cpus[cpu as usize];
        let hardware = &mut self.hardware;
        if state < hardware.deep_from[place.cluster as usize] {
            return;
        }
        let package = &mut hardware.packages[place.package as usize];
        let threads = &mut hardware.awake_threads[place.core as usize];
        *threads -= 1;
        if *threads > 0 {
            return self.core_clock(cpu);
        }
        package.active_cores -= 1;
        if package.class_of[package.active_cores as usize] != package.class {
            self.arm_pcu(place.package);
        }
    }

    /// `cpu` leaves idle state `state`.
    pub(crate) fn core_works(&mut self, cpu: u32, state: usize) {
        let place = self.case.machine.cpus[cpu as usize];
        let hardware = &mut self.hardware;
        if state < hardware.deep_from[place.cluster as usize] {
            return;
        }
        let package = &mut hardware.packages[place.package as usize];
        let threads = &mut hardware.awake_threads[place.core as usize];
        *threads += 1;
        if *threads > 1 {
            return self.core_clock(cpu);
        }
        package.active_cores += 1;
        let class = package.class_of[package.active_cores as usize];
        if class > package.class {
            package.class = class;
            self.refresh_caps(place.package);
        }
    }

    /// Has the control unit of `package` look at the next point of its grid.
    pub(crate) fn arm_pcu(&mut self, package: u32) {
        let state = &mut self.hardware.packages[package as usize];
        if !std::mem::replace(&mut state.armed, true) {
            let time_ns = (self.now / PCU_INTERVAL_NS + 1) * PCU_INTERVAL_NS;
            self.arm_package(package, time_ns);
        }
    }

    /// The control unit looks at its package.
    pub(crate) fn pcu(&mut self, package: u32) {
        let state = &mut self.hardware.packages[package as usize];
        state.armed = false;
        state.class = state.class_of[state.active_cores as usize];
        self.look_at_budget(package);
        self.refresh_caps(package);
        self.hwp_look(package);
        self.packages_may_sleep(package);
    }

    fn look_at_budget(&mut self, package: u32) {
        let hardware = &mut self.hardware;
        let state = &mut hardware.packages[package as usize];
        let Some(budget) = &mut state.budget else { return };
        let mut clocks = Clocks { low_khz: u32::MAX, top_khz: 0, highest_khz: 0 };
        for &policy in &state.policies {
            let policy = &self.policies[policy as usize];
            let points = &hardware.clusters[policy.cluster as usize].points;
            let opp = self.cpus[policy.cpus[0] as usize].opp;
            clocks.low_khz = clocks.low_khz.min(points[0].khz);
            clocks.top_khz = clocks.top_khz.max(points[points.len() - 1].khz);
            clocks.highest_khz = clocks.highest_khz.max(points[opp as usize].khz);
        }
        budget.look(self.now, clocks);
        if budget.needs_care() {
            self.arm_pcu(package);
        }
    }

    /// What CPUs or clusters of `package` draw changes.
    pub(crate) fn package_power(&mut self, package: u32, was_uw: u64, is_uw: u64) {
        let Some(budget) = &mut self.hardware.packages[package as usize].budget else { return };
        if was_uw != is_uw {
            budget.cpu_power(self.now, was_uw, is_uw);
        }
        if budget.needs_care() {
            self.arm_pcu(package);
        }
    }

    /// Grants again what awake CPUs of `package` asked for, if its limits have changed.
    fn refresh_caps(&mut self, package: u32) {
        let hardware = &mut self.hardware;
        let state = &mut hardware.packages[package as usize];
        if !state.find_caps(&hardware.clusters) {
            return;
        }
        for index in 0..state.policies.len() {
            let policy = self.hardware.packages[package as usize].policies[index];
            if self.policies[policy as usize].cpus.iter().any(|&cpu| self.cpus[cpu as usize].idle.is_awake()) {
                self.regrant(policy);
            }
        }
    }

    /// `cpu` wakes up: limits may have changed since it fell asleep.
    pub(crate) fn clock_after_idle(&mut self, cpu: u32) {
        if self.hardware.limited {
            self.regrant(self.cpus[cpu as usize].policy);
        }
    }

    /// A thread of a core begins or ends its rest: its wish for the core's clock comes or goes.
    fn core_clock(&mut self, cpu: u32) {
        for index in 0..self.topology.siblings[cpu as usize].len() {
            let other = self.topology.siblings[cpu as usize][index];
            if self.cpus[other as usize].policy != self.cpus[cpu as usize].policy {
                self.run_at_wish(self.cpus[other as usize].policy);
            }
        }
    }

    /// Runs the policy's CPUs at what is allowed of what was asked for, and those that share their core with them.
    /// True if the policy's clock is another one now.
    pub(crate) fn regrant(&mut self, policy: u32) -> bool {
        let changed = self.run_at_wish(policy);
        let first = self.policies[policy as usize].cpus[0];
        self.core_clock(first);
        changed
    }

    /// The highest point that a thread of the core wishes: threads share its clock, and one at rest has no say.
    fn wish(&self, policy: u32) -> u32 {
        let state = &self.policies[policy as usize];
        let siblings = &self.topology.siblings[state.cpus[0] as usize];
        let deep_from = self.hardware.deep_from[state.cluster as usize];
        let others = siblings.iter().map(|&cpu| &self.cpus[cpu as usize]).filter(|cpu| cpu.policy != policy);
        let wishes =
            others.filter(|cpu| !cpu.idle.is_down(deep_from)).map(|cpu| self.policies[cpu.policy as usize].wanted);
        wishes.fold(state.wanted, u32::max)
    }

    /// Runs the policy's CPUs at what is allowed of what their core was asked for; true if that is another clock.
    fn run_at_wish(&mut self, policy: u32) -> bool {
        let state = &self.policies[policy as usize];
        let cluster = state.cluster;
        let cap = self.hardware.packages[state.package as usize].caps[cluster as usize];
        let point = self.wish(policy).min(cap);
        if self.cpus[state.cpus[0] as usize].opp == point {
            return false;
        }
        let khz = self.hardware.point(cluster, point).khz;
        for index in 0..self.policies[policy as usize].cpus.len() {
            let cpu = self.policies[policy as usize].cpus[index];
            self.account_point(cpu);
            let now = self.now;
            let state = &mut self.cpus[cpu as usize];
            state.time_ns_by_opp[state.opp as usize] += now - state.opp_since_ns;
            state.opp_since_ns = now;
            state.opp = point;
            self.refresh_speed(cpu);
            self.refresh_power(cpu);
            self.reprogram(cpu);
            self.emit(Event::CpuFrequency { cpu, khz });
        }
        if S::DECISIONS {
            self.record_grant(policy);
        }
        true
    }

    /// Records what the hardware makes of a policy's request, and which limit is in the way.
    pub(crate) fn record_grant(&mut self, policy: u32) {
        let state = &self.policies[policy as usize];
        let (policy_cpu, cluster, wanted) = (state.cpus[0], state.cluster, state.wanted);
        let granted = self.cpus[policy_cpu as usize].opp;
        let khz = |point: u32| self.hardware.point(cluster, point).khz;
        let granted_khz = khz(granted);
        // Under HWP the request is what the firmware may choose at most.
        let most_khz = state.hwp.as_ref().map_or(0, Hwp::most_khz);
        let requested_khz = khz(wanted).max(most_khz.min(self.hardware.clusters[cluster as usize].top_khz()));
        let limit = match () {
            () if granted < wanted => self.hardware.packages[state.package as usize].limit(cluster),
            () if granted_khz < requested_khz => GrantLimit::Firmware,
            () => GrantLimit::None,
        };
        self.record(Decision::Grant { policy_cpu, requested_khz, granted_khz, limit });
    }
}
