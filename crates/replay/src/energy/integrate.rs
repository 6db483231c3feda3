//! The one integrator of energy: what CPUs and clusters did, times what the machine draws while they do it.
//!
//! Events reach it as methods, in order of time: from a trace ([`super::EnergyMeter`]) or from a replay's list ([`crate::measure`]).
//! What holds before an event is known only with it: who ran since the start, and when a CPU began to leave its idle state. So events
//! wait in a line until later ones can no longer change what was before them.

use std::collections::VecDeque;

use opplab_model::machine::{IdleState, Machine, Opp};
use opplab_model::power::{AtWork, ClusterActivity, CpuState, PointPower};

use super::{ClusterEnergy, CpuEnergy, Steps, TraceEnergy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Before the first switch and outside of an idle state.
    Unknown,
    /// No event shows it, and none will.
    Lost,
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

/// A stretch of time that counts, and what the CPU draws in it if it runs a task.
#[derive(Debug, Clone, Copy)]
struct Unseen {
    end_ns: u64,
    ns: u64,
    busy: Draw,
}

/// What a CPU draws, uW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draw {
    Known(u64),
    /// It hangs on a clock that is not known: the least and the most.
    Between((u64, u64)),
}

/// What happens in the line.
#[derive(Debug, Clone, Copy)]
enum Step {
    Switch {
        cpu: u32,
        prev: i32,
        next: i32,
    },
    Clock {
        cpu: u32,
        khz: Option<u32>,
    },
    Idle {
        cpu: u32,
        state: Option<usize>,
    },
    /// It begins to leave its idle state; `from_cluster`: if its cluster sleeps.
    Exit {
        cpu: u32,
        from_cluster: bool,
    },
    ClusterIdle {
        cluster: usize,
        state: Option<usize>,
    },
    /// What it did before, and does from here on, is not known, unless `pid` runs.
    Lost {
        cpu: u32,
        pid: Option<i32>,
    },
}

/// What the events of a CPU show as they come.
#[derive(Debug, Clone, Copy, Default)]
struct Came {
    /// One showed what the CPU did before.
    is_seen: bool,
    /// The idle state in which it is, and since when.
    state: Option<(usize, u64)>,
}

/// So many events wait at most for CPUs of which none has come yet.
const LINE_MAX: usize = 1 << 17;

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
    /// The clock that shared logic follows while no CPU is awake, where it follows the machine's, in kHz.
    kept_khz: Option<u32>,
    /// Since when each cluster's shared power is not counted.
    shared_since_ns: Vec<u64>,
    /// The time that counts; what CPUs and clusters do then follows from events outside of it, too.
    window: (u64, u64),
    start_ns: u64,
    /// What is not counted yet, in order of time.
    line: VecDeque<(u64, Step)>,
    came: Vec<Came>,
    /// CPUs of which no event has come; events wait for them until too many do.
    to_come: usize,
    /// An exit from idle begins no longer before its event, ns.
    exit_max_ns: u64,
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
        let latest = |states: &[IdleState]| states.iter().map(IdleState::wakes_in_ns).max().unwrap_or(0);
        let exits = machine.clusters.iter().map(|one| latest(&one.idle).saturating_add(latest(&one.cluster_idle)));
        Self {
            machine,
            cpus: cpus.collect(),
            policies: described.into_iter().map(policy).collect(),
            down_since_ns: None,
            asleep: vec![None; machine.clusters.len()],
            sleep_is_told: false,
            kept_khz: None,
            shared_since_ns: vec![0; machine.clusters.len()],
            window,
            start_ns: 0,
            line: VecDeque::new(),
            came: vec![Came::default(); machine.nr_cpus()],
            to_come: machine.nr_cpus(),
            exit_max_ns: exits.max().unwrap_or(0),
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

    /// What follows the clock of `cpus`, a policy's, counts from `from_ns` on: what these CPUs draw, and what clusters share.
    pub(crate) fn count_from(&mut self, from_ns: u64, cpus: &[u32]) {
        for &cpu in cpus {
            self.cpus[cpu as usize].since_ns = from_ns;
        }
        for (cluster, since_ns) in self.machine.clusters.iter().zip(&mut self.shared_since_ns) {
            if self.machine.shared_follows_machine || cluster.cpus.first().is_some_and(|first| cpus.contains(first)) {
                *since_ns = from_ns.max(*since_ns);
            }
        }
    }

    /// What counts of the time between two events: its end and its length.
    fn counted(&self, since_ns: u64, now: u64) -> (u64, u64) {
        let end = now.min(self.window.1);
        (end, end.saturating_sub(since_ns.max(self.window.0)))
    }

    /// `prev` leaves `cpu` to `next`; 0 is the idle task.
    pub(crate) fn switch(&mut self, now: u64, cpu: u32, prev: i32, next: i32) {
        if self.comes(cpu) {
            // Who leaves has run since the start.
            self.cpus[cpu as usize].runs = runs(prev);
        }
        let came = &mut self.came[cpu as usize];
        came.state = came.state.filter(|_| next == 0);
        self.queue(now, Step::Switch { cpu, prev, next });
    }

    /// The clock of the policy of `cpu` becomes `khz`.
    pub(crate) fn clock_becomes(&mut self, now: u64, cpu: u32, khz: Option<u32>) {
        self.queue(now, Step::Clock { cpu, khz });
    }

    /// `cpu` enters an idle state, or has left it.
    ///
    /// The event of an exit comes when the CPU executes again: the exit itself, of which it draws as in the shallowest state
    /// and keeps the cluster awake, lies before it.
    pub(crate) fn idle(&mut self, now: u64, cpu: u32, state: Option<usize>) {
        self.comes(cpu);
        let before = std::mem::replace(&mut self.came[cpu as usize].state, state.map(|state| (state, now)));
        if let (None, Some((state, since_ns))) = (state, before) {
            let described = &self.machine.clusters[self.cluster(cpu)];
            let own = described.idle.get(state).or(described.idle.last());
            let exit_ns = own.map_or(0, IdleState::wakes_in_ns);
            let of_cluster_ns = described.cluster_idle.last().map_or(0, IdleState::wakes_in_ns);
            for (exit_ns, from_cluster) in [(exit_ns + of_cluster_ns, true), (exit_ns, false)] {
                let begin_ns = now.saturating_sub(exit_ns).max(since_ns);
                let place = self.line.partition_point(|&(ns, _)| ns <= begin_ns);
                self.line.insert(place, (begin_ns, Step::Exit { cpu, from_cluster }));
            }
        }
        self.queue(now, Step::Idle { cpu, state });
    }

    /// `cpu` begins to leave its idle state.
    pub(crate) fn idle_exit(&mut self, now: u64, cpu: u32) {
        self.came[cpu as usize].state = None;
        self.queue(now, Step::Exit { cpu, from_cluster: false });
    }

    /// A cluster enters one of its idle states, or has left it.
    pub(crate) fn cluster_idle(&mut self, now: u64, cluster: usize, state: Option<usize>) {
        if cluster < self.asleep.len() {
            self.queue(now, Step::ClusterIdle { cluster, state });
        }
    }

    /// What `cpu` does is not known from here on.
    pub(crate) fn lost(&mut self, now: u64, cpu: u32) {
        self.comes(cpu);
        self.came[cpu as usize].state = None;
        self.queue(now, Step::Lost { cpu, pid: None });
    }

    /// What `cpu` did before `since` is not known, and then `pid` ran until the switch that comes: the first one.
    pub(crate) fn not_before(&mut self, cpu: u32, pid: i32, since: u64) {
        if self.comes(cpu) {
            let place = self.line.partition_point(|&(ns, _)| ns <= since);
            self.line.insert(place, (since, Step::Lost { cpu, pid: Some(pid) }));
            return;
        }
        // Too much happened since the start for this to wait.
        for one in &mut self.cpus[cpu as usize].unseen {
            let ns = one.end_ns.saturating_sub(since).min(one.ns);
            self.sums.unseen_ns += one.ns - ns;
            one.ns = ns;
        }
    }

    /// Notes that an event shows what `cpu` did before; whether it is the first, and nothing is counted yet.
    fn comes(&mut self, cpu: u32) -> bool {
        let is_first = !std::mem::replace(&mut self.came[cpu as usize].is_seen, true) && self.to_come > 0;
        self.to_come -= usize::from(is_first);
        is_first
    }

    /// Puts a step at the end of the line, and counts what is old enough at its head.
    fn queue(&mut self, now: u64, step: Step) {
        self.line.push_back((now, step));
        if self.line.len() > LINE_MAX {
            self.to_come = 0;
        }
        while self.to_come == 0
            && let Some(&(ns, step)) = self.line.front()
            && ns.saturating_add(self.exit_max_ns) <= now
        {
            self.line.pop_front();
            self.does(ns, step);
        }
    }

    /// Counts up to a step, and takes it.
    fn does(&mut self, now: u64, step: Step) {
        match step {
            Step::Switch { cpu, prev, next } => self.does_switch(now, cpu, prev, next),
            Step::Clock { cpu, khz } => self.does_clock(now, cpu, khz),
            Step::Idle { cpu, state } => self.does_idle(now, cpu, state),
            Step::Exit { cpu, from_cluster } => {
                let cluster = self.cluster(cpu);
                let sleeps = || {
                    self.asleep[cluster].is_some() || self.sleeps_ns(cluster).is_some_and(|asleep_ns| asleep_ns < now)
                };
                if self.cpus[cpu as usize].state.is_some() && (!from_cluster || sleeps()) {
                    self.exits(cpu, now);
                }
            }
            Step::Lost { cpu, pid } => {
                self.settle_around(cpu, now);
                self.leave_unseen(cpu);
                let state = &mut self.cpus[cpu as usize];
                (state.runs, state.state) = (pid.map_or(Runs::Lost, Runs::Task), None);
                self.note_down(cpu, now);
            }
            Step::ClusterIdle { cluster, state } => {
                self.settle_shared(cluster, now);
                (self.sleep_is_told, self.down_since_ns) = (true, None);
                self.asleep[cluster] = state;
            }
        }
    }

    fn does_switch(&mut self, now: u64, cpu: u32, prev: i32, next: i32) {
        if self.cpus[cpu as usize].runs == Runs::Unknown && self.cpus[cpu as usize].state.is_none() {
            // Too much happened since the start for this to wait.
            self.cpus[cpu as usize].runs = runs(prev);
            for Unseen { end_ns, ns, busy } in std::mem::take(&mut self.cpus[cpu as usize].unseen) {
                let draw = if prev == 0 { self.draw(cpu) } else { busy };
                self.count(cpu, end_ns, ns, draw);
            }
        }
        self.settle_around(cpu, now);
        let state = &mut self.cpus[cpu as usize];
        state.runs = runs(next);
        state.state = state.state.filter(|_| next == 0);
        self.note_down(cpu, now);
    }

    fn does_clock(&mut self, now: u64, cpu: u32, khz: Option<u32>) {
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

    fn does_idle(&mut self, now: u64, cpu: u32, state: Option<usize>) {
        self.settle_around(cpu, now);
        self.leave_unseen(cpu);
        let of_cpu = &mut self.cpus[cpu as usize];
        of_cpu.state = state;
        of_cpu.runs =
            if state.is_some() || matches!(of_cpu.runs, Runs::Unknown | Runs::Lost) { Runs::Idle } else { of_cpu.runs };
        self.note_down(cpu, now);
    }

    /// The events end here: gives the sums.
    pub(crate) fn finish(mut self, end: u64) -> TraceEnergy {
        while let Some((ns, step)) = self.line.pop_front() {
            self.does(ns, step);
        }
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
        if runs == Runs::Lost {
            self.sums.unseen_ns += ns;
            return;
        }
        if (runs, state) == (Runs::Unknown, None) {
            self.cpus[place].runs = Runs::Task(0);
            let busy = self.draw(cpu);
            self.cpus[place].runs = Runs::Unknown;
            let unseen = &mut self.cpus[place].unseen;
            match unseen.last_mut() {
                Some(last) if last.busy == busy && last.end_ns + ns == end_ns => {
                    (last.end_ns, last.ns) = (end_ns, last.ns + ns);
                }
                _ => unseen.push(Unseen { end_ns, ns, busy }),
            }
            return;
        }
        let draw = self.draw(cpu);
        self.count(cpu, end_ns, ns, draw);
    }

    /// What `cpu` draws now.
    fn draw(&self, cpu: u32) -> Draw {
        self.cpu_power_uw(cpu).map_or_else(|| Draw::Between(self.cpu_bounds_uw(cpu)), Draw::Known)
    }

    /// Nothing shows what `cpu` did before.
    fn leave_unseen(&mut self, cpu: u32) {
        let unseen = std::mem::take(&mut self.cpus[cpu as usize].unseen);
        self.sums.unseen_ns += unseen.iter().map(|one| one.ns).sum::<u64>();
    }

    /// Counts `ns` up to `end`, in which `cpu` did what it does and drew so much.
    fn count(&mut self, cpu: u32, end: u64, ns: u64, draw: Draw) {
        let place = cpu as usize;
        let Cpu { cluster, runs, .. } = self.cpus[place];
        let of_cpu = &mut self.sums.cpus[place];
        let power_uw = match (draw, runs) {
            (Draw::Known(power_uw), _) => power_uw,
            (Draw::Between(bounds_uw), Runs::Task(pid)) => {
                of_cpu.unknown_ns += ns;
                add(&mut of_cpu.unknown_fj, bounds_uw, ns);
                self.sums.tasks.entry(pid).or_default().unknown_ns += ns;
                return;
            }
            (Draw::Between(bounds_uw), _) => {
                of_cpu.idle_unknown_ns += ns;
                add(&mut of_cpu.unknown_fj, bounds_uw, ns);
                return;
            }
        };
        let fj = u128::from(power_uw) * u128::from(ns);
        if let Runs::Task(pid) = runs {
            let task = self.sums.tasks.entry(pid).or_default();
            task.running_ns += ns;
            task.cpu_fj += fj;
            of_cpu.running_ns += ns;
            of_cpu.running_fj += fj;
        } else {
            of_cpu.idle_ns += ns;
            of_cpu.idle_fj += fj;
            self.sums.idle_fj += fj;
        }
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
        let power_uw = self.shared_power_uw(cluster as u32);
        let may_sleep = self.may_sleep(cluster);
        let Some(power_uw) = power_uw.filter(|_| !may_sleep) else {
            let mut bounds_uw = power_uw.map_or_else(|| self.shared_bounds_uw(cluster as u32), |uw| (uw, uw));
            if may_sleep {
                let idle = |opp: &Opp| described.shared_power_uw(&opp.into(), ClusterActivity::AllIdle);
                let asleep = described.cluster_idle.iter().map(|state| state.power_uw);
                bounds_uw.0 = described.opps.iter().map(idle).chain(asleep).fold(bounds_uw.0, u64::min);
            }
            let of_cluster = &mut self.sums.clusters[cluster];
            of_cluster.unknown_ns += ns;
            add(&mut of_cluster.unknown_fj, bounds_uw, ns);
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
        self.sums.clusters[cluster].shared_ns += ns;
        self.sums.clusters[cluster].shared_fj += fj;
        self.sums.steps.add(cluster, end - ns, end, power_uw);
    }

    /// Whether a cluster is awake only if CPUs are of which no event shows what they do.
    fn may_sleep(&self, cluster: usize) -> bool {
        let described = &self.machine.clusters[cluster];
        let cpus = &described.cpus;
        let is_unseen = |cpu: &u32| {
            let cpu = &self.cpus[*cpu as usize];
            matches!((cpu.runs, cpu.state), (Runs::Unknown | Runs::Lost, None))
        };
        let rests = |cpu: &u32| matches!(self.cpu_state(*cpu), CpuState::Resident(state) if !described.polls(state));
        let is_told = self.sleep_is_told || self.asleep[cluster].is_some();
        !is_told && cpus.iter().any(is_unseen) && cpus.iter().all(|cpu| is_unseen(cpu) || rests(cpu))
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
        if self.machine.shared_follows_machine {
            self.kept_khz = self.awake_khz().unwrap_or(self.kept_khz);
        }
        if self.machine.shared_follows_machine || self.machine.cluster_idle_together {
            (0..self.shared_since_ns.len()).for_each(|cluster| self.settle_shared(cluster, now));
        } else {
            self.settle_shared(self.cpus[cpu as usize].cluster, now);
        }
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

/// What pid `pid` makes of a CPU; 0 is the idle task.
fn runs(pid: i32) -> Runs {
    if pid == 0 { Runs::Idle } else { Runs::Task(pid) }
}

/// Adds what is drawn for `ns` at the least and at the most.
fn add(sums_fj: &mut (u128, u128), (least_uw, most_uw): (u64, u64), ns: u64) {
    sums_fj.0 += u128::from(least_uw) * u128::from(ns);
    sums_fj.1 += u128::from(most_uw) * u128::from(ns);
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

    fn kept_khz(&self) -> Option<u32> {
        self.kept_khz
    }

    fn cluster_state(&self, cluster: u32) -> Option<usize> {
        self.asleep[cluster as usize]
    }
}
