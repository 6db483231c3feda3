//! The one integrator of energy: what CPUs and clusters did, times what the machine draws while they do it.
//!
//! Events reach it as methods, in order of time: from a trace ([`super::EnergyMeter`]) or from a replay's list ([`crate::measure`]).

use opplab_model::machine::{IdleState, Machine, Opp};
use opplab_model::power::{AtWork, CpuState, PointPower};

use super::{ClusterEnergy, CpuEnergy, Steps, TraceEnergy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Before the first switch and outside of an idle state.
    Unknown,
    Idle,
    Task(i32),
}

#[derive(Debug, Clone)]
struct Cpu {
    cluster: usize,
    policy: usize,
    /// CPUs of the same core.
    siblings: Vec<u32>,
    runs: Runs,
    /// The idle state.
    state: Option<usize>,
    since_ns: u64,
    /// What it did before its first switch or idle event, which shows what that was: stretches of one clock.
    unseen: Vec<Unseen>,
}

/// A stretch of time that counts, and what the CPU draws in it if it runs a task, if its clock is known.
#[derive(Debug, Clone, Copy)]
struct Unseen {
    end_ns: u64,
    ns: u64,
    busy_uw: Option<u64>,
}

#[derive(Debug, Clone)]
struct Policy {
    cpus: Vec<u32>,
    /// Its clock and what that costs, once an event gave it.
    clock: Option<(u32, PointPower)>,
}

/// Adds up energy; [`Integrator::begin`] comes first, [`Integrator::finish`] last.
pub(crate) struct Integrator<'m> {
    machine: &'m Machine,
    cpus: Vec<Cpu>,
    policies: Vec<Policy>,
    /// Since when all CPUs are in their deepest state, of a machine whose clusters sleep together.
    down_since_ns: Option<u64>,
    /// The state in which each cluster sleeps, and whether an event gave it.
    asleep: Vec<Option<usize>>,
    sleep_is_told: bool,
    /// Since when each cluster's shared power is not counted.
    shared_since_ns: Vec<u64>,
    /// The time that counts; what CPUs and clusters do then follows from events outside of it, too.
    window: (u64, u64),
    start_ns: u64,
    sums: TraceEnergy,
}

impl<'m> Integrator<'m> {
    /// Starts with nothing known but the machine; counts what lies in `window`.
    pub(crate) fn new(machine: &'m Machine, window: (u64, u64)) -> Self {
        let described = machine.policies();
        let cpus = (0..machine.nr_cpus() as u32).map(|cpu| {
            let place = &machine.cpus[cpu as usize];
            let same_core = |other: &u32| {
                let of = &machine.cpus[*other as usize];
                *other != cpu && of.core == place.core && of.package == place.package && of.cluster == place.cluster
            };
            Cpu {
                cluster: place.cluster as usize,
                policy: described.iter().position(|(_, cpus)| cpus.contains(&cpu)).unwrap_or(0),
                siblings: (0..machine.nr_cpus() as u32).filter(same_core).collect(),
                runs: Runs::Unknown,
                state: None,
                since_ns: 0,
                unseen: Vec::new(),
            }
        });
        // A clock without an event is known where there is no other one.
        let policy = |(cluster, cpus): (u32, Vec<u32>)| {
            let described = &machine.clusters[cluster as usize];
            let only = machine.only_khz(described);
            Policy { cpus, clock: only.map(|khz| (khz, machine.clock_power(described, khz))) }
        };
        Self {
            machine,
            cpus: cpus.collect(),
            policies: described.into_iter().map(policy).collect(),
            down_since_ns: None,
            asleep: vec![None; machine.clusters.len()],
            sleep_is_told: false,
            shared_since_ns: vec![0; machine.clusters.len()],
            window,
            start_ns: 0,
            sums: nothing(machine),
        }
    }

    /// Number of the machine's CPUs.
    pub(crate) fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// The cluster of `cpu`.
    pub(crate) fn cluster(&self, cpu: u32) -> usize {
        self.cpus[cpu as usize].cluster
    }

    /// Whether `cpu` can run at `khz`, to a percent.
    pub(crate) fn has_clock(&self, cpu: u32, khz: u32) -> bool {
        let described = &self.machine.clusters[self.cluster(cpu)];
        let near = |opp: &Opp| opp.khz.abs_diff(khz) <= khz / 100;
        !self.machine.runs_at_opps_only(described) || described.opps.iter().any(near)
    }

    /// The events begin here.
    pub(crate) fn begin(&mut self, now: u64) {
        self.cpus.iter_mut().for_each(|cpu| cpu.since_ns = now);
        self.shared_since_ns.fill(now);
        self.start_ns = now.max(self.window.0);
        self.sums.steps.start_ns = self.start_ns;
    }

    /// What counts of the time between two events: its end and its length.
    fn counted(&self, since_ns: u64, now: u64) -> (u64, u64) {
        let end = now.min(self.window.1);
        (end, end.saturating_sub(since_ns.max(self.window.0)))
    }

    /// `prev` leaves `cpu` to `next`; 0 is the idle task.
    pub(crate) fn switch(&mut self, now: u64, cpu: u32, prev: i32, next: i32) {
        let runs = |pid: i32| if pid == 0 { Runs::Idle } else { Runs::Task(pid) };
        if self.cpus[cpu as usize].runs == Runs::Unknown && self.cpus[cpu as usize].state.is_none() {
            // Who leaves has run since the start.
            self.cpus[cpu as usize].runs = runs(prev);
            for Unseen { end_ns, ns, busy_uw } in std::mem::take(&mut self.cpus[cpu as usize].unseen) {
                let power_uw = if prev == 0 { self.cpu_power_uw(cpu) } else { busy_uw };
                self.count(cpu, end_ns, ns, power_uw);
            }
        }
        self.settle_around(cpu, now);
        let state = &mut self.cpus[cpu as usize];
        state.runs = runs(next);
        state.state = state.state.filter(|_| next == 0);
        self.note_down(cpu, now);
    }

    /// The clock of the policy of `cpu` becomes `khz`.
    pub(crate) fn clock_becomes(&mut self, now: u64, cpu: u32, khz: Option<u32>) {
        let policy = self.cpus[cpu as usize].policy;
        if self.policies[policy].clock.map(|(khz, _)| khz) == khz {
            return;
        }
        for nth in 0..self.policies[policy].cpus.len() {
            let cpu = self.policies[policy].cpus[nth];
            self.settle_around(cpu, now);
        }
        let described = &self.machine.clusters[self.cpus[cpu as usize].cluster];
        self.policies[policy].clock = khz.map(|khz| (khz, self.machine.clock_power(described, khz)));
    }

    /// `cpu` enters an idle state, or has left it.
    pub(crate) fn idle(&mut self, now: u64, cpu: u32, state: Option<usize>) {
        if state.is_none() {
            self.begin_exit(cpu, now);
        }
        self.settle_around(cpu, now);
        self.leave_unseen(cpu);
        let of_cpu = &mut self.cpus[cpu as usize];
        of_cpu.state = state;
        of_cpu.runs = if state.is_some() || of_cpu.runs == Runs::Unknown { Runs::Idle } else { of_cpu.runs };
        self.note_down(cpu, now);
    }

    /// `cpu` begins to leave its idle state.
    pub(crate) fn idle_exit(&mut self, now: u64, cpu: u32) {
        if self.cpus[cpu as usize].state.is_some() {
            self.exits(cpu, now);
        }
    }

    /// A cluster enters one of its idle states, or has left it.
    pub(crate) fn cluster_idle(&mut self, now: u64, cluster: usize, state: Option<usize>) {
        if cluster < self.asleep.len() {
            self.settle_shared(cluster, now);
            (self.sleep_is_told, self.down_since_ns) = (true, None);
            self.asleep[cluster] = state;
        }
    }

    /// The events end here: gives the sums.
    pub(crate) fn finish(mut self, end: u64) -> TraceEnergy {
        for cpu in 0..self.cpus.len() as u32 {
            self.settle(cpu, end);
            self.leave_unseen(cpu);
        }
        for cluster in 0..self.shared_since_ns.len() {
            self.settle_shared(cluster, end);
        }
        self.sums.window_ns = end.min(self.window.1).saturating_sub(self.start_ns);
        self.sums.floor_fj = u128::from(self.machine.floor_uw) * u128::from(self.sums.window_ns);
        self.sums
    }

    /// Counts what `cpu` drew up to `now`.
    fn settle(&mut self, cpu: u32, now: u64) {
        let place = cpu as usize;
        let Cpu { runs, state, since_ns, .. } = self.cpus[place];
        let (end_ns, ns) = self.counted(since_ns, now);
        self.cpus[place].since_ns = since_ns.max(now);
        if ns == 0 {
            return;
        }
        if (runs, state) == (Runs::Unknown, None) {
            self.cpus[place].runs = Runs::Task(0);
            let busy_uw = self.cpu_power_uw(cpu);
            self.cpus[place].runs = Runs::Unknown;
            let unseen = &mut self.cpus[place].unseen;
            match unseen.last_mut() {
                Some(last) if last.busy_uw == busy_uw && last.end_ns + ns == end_ns => {
                    (last.end_ns, last.ns) = (end_ns, last.ns + ns);
                }
                _ => unseen.push(Unseen { end_ns, ns, busy_uw }),
            }
            return;
        }
        let power_uw = self.cpu_power_uw(cpu);
        self.count(cpu, end_ns, ns, power_uw);
    }

    /// Nothing shows what `cpu` did before.
    fn leave_unseen(&mut self, cpu: u32) {
        let unseen = std::mem::take(&mut self.cpus[cpu as usize].unseen);
        self.sums.unseen_ns += unseen.iter().map(|one| one.ns).sum::<u64>();
    }

    /// Counts `ns` up to `end`, in which `cpu` did what it does, at this power, if its clock is known.
    fn count(&mut self, cpu: u32, end: u64, ns: u64, power_uw: Option<u64>) {
        let place = cpu as usize;
        let Cpu { cluster, runs, .. } = self.cpus[place];
        let fj = u128::from(power_uw.unwrap_or(0)) * u128::from(ns);
        let of_cpu = &mut self.sums.cpus[place];
        if let Runs::Task(pid) = runs {
            let task = self.sums.tasks.entry(pid).or_default();
            if power_uw.is_none() {
                of_cpu.unknown_ns += ns;
                task.unknown_ns += ns;
                if let [low, .., high] | [low @ high] = &self.machine.clusters[cluster].opps[..] {
                    of_cpu.unknown_fj.0 += u128::from(low.busy_uw) * u128::from(ns);
                    of_cpu.unknown_fj.1 += u128::from(high.busy_uw) * u128::from(ns);
                }
            } else {
                task.running_ns += ns;
                of_cpu.running_ns += ns;
            }
            task.cpu_fj += fj;
            of_cpu.running_fj += fj;
        } else {
            of_cpu.idle_fj += fj;
            self.sums.idle_fj += fj;
        }
        let Some(power_uw) = power_uw else { return };
        self.sums.clusters[cluster].cpus_fj += fj;
        self.sums.steps.add(cluster, end - ns, end, power_uw);
    }

    /// When a cluster of a machine whose clusters sleep together goes to sleep: the hardware waits for the entry latency to be
    /// sure that nobody wakes up.
    fn sleeps_ns(&self, cluster: usize) -> Option<u64> {
        let state = self.machine.clusters[cluster].cluster_idle.last()?;
        self.down_since_ns.map(|since| since.saturating_add(state.entry_latency_ns))
    }

    /// The state in which a cluster sleeps.
    fn deepest(&self, cluster: usize) -> Option<usize> {
        self.machine.clusters[cluster].cluster_idle.len().checked_sub(1)
    }

    /// Counts what a cluster's shared logic drew up to `now`.
    fn settle_shared(&mut self, cluster: usize, now: u64) {
        if let Some(asleep_ns) = self.sleeps_ns(cluster).filter(|&asleep_ns| asleep_ns < now) {
            self.settle_shared_until(cluster, asleep_ns);
            self.asleep[cluster] = self.deepest(cluster);
        }
        self.settle_shared_until(cluster, now);
    }

    fn settle_shared_until(&mut self, cluster: usize, now: u64) {
        let since_ns = self.shared_since_ns[cluster];
        let (end, ns) = self.counted(since_ns, now);
        self.shared_since_ns[cluster] = since_ns.max(now);
        if ns == 0 {
            return;
        }
        let described = &self.machine.clusters[cluster];
        let Some(power_uw) = self.shared_power_uw(cluster as u32) else {
            self.sums.clusters[cluster].unknown_ns += ns;
            if let [low, .., high] | [low @ high] = &described.opps[..] {
                let activity = self.cluster_activity(cluster as u32);
                let fj = |opp: &Opp| u128::from(described.shared_power_uw(&opp.into(), activity)) * u128::from(ns);
                let (low, high) = (fj(low), fj(high));
                let of_cluster = &mut self.sums.clusters[cluster];
                of_cluster.unknown_fj.0 += low;
                of_cluster.unknown_fj.1 += high;
            }
            return;
        };
        let of = |cpu: &u32| &self.cpus[*cpu as usize];
        let fj = u128::from(power_uw) * u128::from(ns);
        let tasks: Vec<i32> = described
            .cpus
            .iter()
            .filter_map(|cpu| match of(cpu).runs {
                Runs::Task(pid) => Some(pid),
                _ => None,
            })
            .collect();
        match tasks.len() as u128 {
            0 => self.sums.idle_fj += fj,
            n => {
                let part = fj / n;
                for (nth, pid) in (0u128..).zip(&tasks) {
                    // The first have the rest of the division, fJ for fJ.
                    let more = u128::from(nth < fj % n);
                    self.sums.tasks.entry(*pid).or_default().shared_fj += part + more;
                }
            }
        }
        self.sums.clusters[cluster].shared_fj += fj;
        self.sums.steps.add(cluster, end - ns, end, power_uw);
    }

    /// Everything of `cpu`, its siblings and its cluster up to `now`.
    fn settle_around(&mut self, cpu: u32, now: u64) {
        self.settle(cpu, now);
        if self.machine.smt_power < 1024 {
            for nth in 0..self.cpus[cpu as usize].siblings.len() {
                let sibling = self.cpus[cpu as usize].siblings[nth];
                self.settle(sibling, now);
            }
        }
        if self.machine.shared_follows_machine || self.machine.cluster_idle_together {
            (0..self.shared_since_ns.len()).for_each(|cluster| self.settle_shared(cluster, now));
        } else {
            self.settle_shared(self.cpus[cpu as usize].cluster, now);
        }
    }

    /// The event of an exit comes when the CPU executes again: the exit itself, of which it draws as in the shallowest state
    /// and keeps the cluster awake, lies before it.
    fn begin_exit(&mut self, cpu: u32, now: u64) {
        let Cpu { cluster, state: Some(state), since_ns, .. } = self.cpus[cpu as usize] else { return };
        let described = &self.machine.clusters[cluster];
        let deepest = described.idle.len().saturating_sub(1);
        let own = described.idle.get(state.min(deepest));
        let mut exit_ns = own.map_or(0, IdleState::wakes_in_ns);
        if self.asleep[cluster].is_some() || self.sleeps_ns(cluster).is_some_and(|asleep_ns| asleep_ns < now) {
            exit_ns += described.cluster_idle.last().map_or(0, IdleState::wakes_in_ns);
        }
        self.exits(cpu, now.saturating_sub(exit_ns).max(since_ns));
    }

    /// `cpu` leaves its idle state.
    fn exits(&mut self, cpu: u32, now: u64) {
        self.settle_around(cpu, now);
        self.cpus[cpu as usize].state = None;
        self.cpus[cpu as usize].runs = Runs::Idle;
        self.note_down(cpu, now);
    }

    /// Notes whether the cluster of `cpu` sleeps, and since when all CPUs of a machine that sleeps together are down.
    fn note_down(&mut self, cpu: u32, now: u64) {
        if self.sleep_is_told {
            return;
        }
        if !self.machine.cluster_idle_together {
            let cluster = self.cpus[cpu as usize].cluster;
            self.asleep[cluster] = self.deepest(cluster).filter(|_| self.all_down(cluster as u32));
        } else if (0..self.asleep.len() as u32).all(|cluster| self.all_down(cluster)) {
            self.down_since_ns = self.down_since_ns.or(Some(now));
        } else {
            self.down_since_ns = None;
            self.asleep.fill(None);
        }
    }
}

/// Sums of a machine of which nothing was counted.
fn nothing(machine: &Machine) -> TraceEnergy {
    let clusters = machine.clusters.iter();
    TraceEnergy {
        cpus: vec![CpuEnergy::default(); machine.nr_cpus()],
        clusters: clusters.map(|one| ClusterEnergy { name: one.name.clone(), ..Default::default() }).collect(),
        steps: Steps { start_ns: 0, step_ns: 1_000, end_ns: 0, energy_fj: vec![Vec::new(); machine.clusters.len()] },
        ..TraceEnergy::default()
    }
}

impl AtWork for Integrator<'_> {
    fn machine(&self) -> &Machine {
        self.machine
    }

    fn cpu_state(&self, cpu: u32) -> CpuState {
        let cpu = &self.cpus[cpu as usize];
        let deepest = self.machine.clusters[cpu.cluster].idle.len().saturating_sub(1);
        match (cpu.runs, cpu.state) {
            (Runs::Task(_), _) => CpuState::Runs,
            (_, Some(state)) => CpuState::Resident(state.min(deepest)),
            (_, None) => CpuState::Awake,
        }
    }

    fn any_sibling(&self, cpu: u32, holds: impl Fn(CpuState) -> bool) -> bool {
        self.cpus[cpu as usize].siblings.iter().any(|&other| holds(self.cpu_state(other)))
    }

    fn clock(&self, cpu: u32) -> Option<(u32, &PointPower)> {
        self.policies[self.cpus[cpu as usize].policy].clock.as_ref().map(|(khz, point)| (*khz, point))
    }

    fn follows(&self, cluster: u32, khz: u32) -> PointPower {
        self.machine.followed_power(&self.machine.clusters[cluster as usize], khz)
    }

    fn cluster_state(&self, cluster: u32) -> Option<usize> {
        self.asleep[cluster as usize]
    }
}
