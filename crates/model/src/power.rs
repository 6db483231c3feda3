//! What CPUs and clusters draw: the one way from what they do and the machine file's numbers to uW.
//!
//! [`AtWork`] is a machine of which somebody knows what its CPUs do: the engine, or who reads a trace. Which CPU is in
//! whose way, when a cluster sleeps and which clock counts for it is decided here for both.

use crate::machine::{Cluster, Machine, Opp};

/// What a clock costs, in uW: of an OPP, or of a point between or above the OPPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PointPower {
    /// What one busy CPU draws.
    pub busy_uw: u64,
    /// What the cluster draws while any of its CPUs is awake.
    pub cluster_uw: u64,
    /// What an idle CPU draws in its shallowest state, if that depends on the clock.
    pub idle_uw: Option<u64>,
    /// What the cluster draws while all its CPUs idle but no cluster state is entered, if that depends on the clock.
    pub cluster_idle_uw: Option<u64>,
}

impl From<&Opp> for PointPower {
    fn from(opp: &Opp) -> Self {
        Self {
            busy_uw: opp.busy_uw,
            cluster_uw: opp.cluster_uw,
            idle_uw: opp.idle_uw,
            cluster_idle_uw: opp.cluster_idle_uw,
        }
    }
}

/// A clock that is not known.
const NO_CLOCK: PointPower = PointPower { busy_uw: 0, cluster_uw: 0, idle_uw: None, cluster_idle_uw: None };

/// What a CPU does, as far as its power depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuActivity {
    /// It runs a task, and no other thread of its core does.
    Busy,
    /// It runs a task or spins, and so does the other thread of its core; two busy threads draw this much of one, in 1/1024
    /// ([`crate::machine::Machine::smt_power`]) more, of which each has half.
    BusyPair(u32),
    /// It spins in this idle state ([`Cluster::polls`]).
    Polling(usize),
    /// It is in this idle state. Awake in the idle loop, or on its way in or out, is as in the shallowest (0).
    Idle(usize),
}

/// What a cluster's shared logic does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterActivity {
    /// Any of its CPUs is awake.
    Awake,
    /// All its CPUs are in idle states, but the cluster is in none.
    AllIdle,
    /// It is in this state of [`Cluster::cluster_idle`].
    Asleep(usize),
}

/// What a CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuState {
    /// It runs a task.
    Runs,
    /// It is awake in the idle loop, or on its way out of an idle state.
    Awake,
    /// It is in this idle state.
    Resident(usize),
}

/// A machine at work. Who implements it states what CPUs and clusters do; the provided methods give what they draw.
pub trait AtWork {
    /// The machine.
    fn machine(&self) -> &Machine;
    /// What a CPU does.
    fn cpu_state(&self, cpu: u32) -> CpuState;
    /// Whether this holds of another thread of the CPU's core.
    fn any_sibling(&self, cpu: u32, holds: impl Fn(CpuState) -> bool) -> bool;
    /// The clock of a CPU in kHz and what it costs, if that is known.
    fn clock(&self, cpu: u32) -> Option<(u32, &PointPower)>;
    /// What the shared logic of a cluster costs that follows the clock of another cluster.
    fn follows(&self, cluster: u32, khz: u32) -> PointPower;
    /// The last clock of [`AtWork::awake_khz`] while a CPU was awake, in kHz, if that is known; asked for only while none is.
    fn kept_khz(&self) -> Option<u32>;
    /// The state of [`Cluster::cluster_idle`] in which a cluster is.
    fn cluster_state(&self, cluster: u32) -> Option<usize>;

    /// What a CPU does, as far as its power depends on it.
    #[inline]
    fn cpu_activity(&self, cpu: u32) -> CpuActivity {
        let machine = self.machine();
        let cluster = machine.cluster_of(cpu);
        // Threads of a core have one clock.
        let clock = || self.clock(cpu).map_or(&NO_CLOCK, |(_, point)| point);
        let executes = |state: CpuState| match state {
            CpuState::Runs => true,
            CpuState::Resident(state) => cluster.polls(state) && cluster.told_polling_uw(clock(), state).is_none(),
            CpuState::Awake => false,
        };
        let is_pair = || machine.smt_power < 1024 && self.any_sibling(cpu, executes);
        match self.cpu_state(cpu) {
            CpuState::Runs if is_pair() => CpuActivity::BusyPair(machine.smt_power),
            CpuState::Runs => CpuActivity::Busy,
            CpuState::Awake => CpuActivity::Idle(0),
            CpuState::Resident(state) if !cluster.polls(state) => CpuActivity::Idle(state),
            CpuState::Resident(state) if cluster.told_polling_uw(clock(), state).is_some() => {
                CpuActivity::Polling(state)
            }
            CpuState::Resident(_) if is_pair() => CpuActivity::BusyPair(machine.smt_power),
            CpuState::Resident(_) => CpuActivity::Busy,
        }
    }

    /// What a CPU draws, in uW, before what its program makes of it; `None` if that depends on a clock that is not known ([`AtWork::cpu_bounds_uw`]).
    #[inline]
    fn cpu_power_uw(&self, cpu: u32) -> Option<u64> {
        let activity = self.cpu_activity(cpu);
        match self.clock(cpu) {
            Some((_, point)) => Some(self.draws_uw(cpu, point, activity)),
            None if matches!(activity, CpuActivity::Busy | CpuActivity::BusyPair(_)) => None,
            None => {
                let (least_uw, most_uw) = self.cpu_bounds_uw(cpu);
                (least_uw == most_uw).then_some(least_uw)
            }
        }
    }

    /// What a CPU draws at a clock, in uW.
    #[inline]
    fn draws_uw(&self, cpu: u32, point: &PointPower, activity: CpuActivity) -> u64 {
        let machine = self.machine();
        let uw = machine.cluster_of(cpu).cpu_power_uw(point, activity);
        match activity {
            CpuActivity::Busy | CpuActivity::BusyPair(_) => uw,
            // No part of a core is less than half of it.
            CpuActivity::Polling(_) | CpuActivity::Idle(_) if uw <= point.busy_uw / 2 => uw,
            CpuActivity::Polling(_) | CpuActivity::Idle(_) => uw.min(self.idle_most_uw(cpu, point)),
        }
    }

    /// The most that an idle CPU draws at a clock, in uW.
    #[inline(never)]
    fn idle_most_uw(&self, cpu: u32, point: &PointPower) -> u64 {
        self.machine().idle_most_uw(point, self.any_sibling(cpu, |_| true))
    }

    /// The least and the most that a CPU draws at any clock that it may have, in uW.
    fn cpu_bounds_uw(&self, cpu: u32) -> (u64, u64) {
        let (cluster, activity) = (self.machine().cluster_of(cpu), self.cpu_activity(cpu));
        bounds(self.machine().possible_powers(cluster).map(|point| self.draws_uw(cpu, &point, activity)))
    }

    /// Whether all CPUs of a cluster are in their deepest state.
    fn all_down(&self, cluster: u32) -> bool {
        let described = &self.machine().clusters[cluster as usize];
        let deepest = described.idle.len().saturating_sub(1);
        let is_down = |cpu: &u32| matches!(self.cpu_state(*cpu), CpuState::Resident(state) if state >= deepest);
        described.cpus.iter().all(is_down)
    }

    /// What a cluster that does not sleep does.
    #[inline]
    fn cluster_activity(&self, cluster: u32) -> ClusterActivity {
        let described = &self.machine().clusters[cluster as usize];
        let sleeps = |cpu: &u32| matches!(self.cpu_state(*cpu), CpuState::Resident(state) if !described.polls(state));
        match described.cpus.iter().all(sleeps) {
            true => ClusterActivity::AllIdle,
            false => ClusterActivity::Awake,
        }
    }

    /// What the shared logic of a cluster draws, in uW; `None` if that depends on a clock that is not known
    /// ([`AtWork::shared_bounds_uw`]).
    ///
    /// Its clock is that of its first CPU, or the highest of the machine's awake CPUs where all follow that. There it stays
    /// while none is awake: firmware sets an uncore's clock about every 10 ms (R. Schoene et al., "Energy Efficiency Features
    /// of the Intel Skylake-SP Processor", 2019), and what ends longer pauses is a state of the clusters.
    #[inline]
    fn shared_power_uw(&self, cluster: u32) -> Option<u64> {
        let machine = self.machine();
        let described = &machine.clusters[cluster as usize];
        if let Some(state) = self.cluster_state(cluster) {
            return Some(described.shared_power_uw(&NO_CLOCK, ClusterActivity::Asleep(state)));
        }
        let activity = self.cluster_activity(cluster);
        if machine.shared_follows_machine {
            let khz = self.awake_khz().unwrap_or_else(|| self.kept_khz())?;
            return Some(described.shared_power_uw(&self.follows(cluster, khz), activity));
        }
        let (_, own) = self.clock(*described.cpus.first()?)?;
        Some(described.shared_power_uw(own, activity))
    }

    /// The highest clock of the machine's awake CPUs in kHz, `Some(None)` if one of them is not known; `None` if none is awake.
    fn awake_khz(&self) -> Option<Option<u32>> {
        let awake = (0..self.machine().nr_cpus() as u32).filter(|&cpu| self.is_awake(cpu));
        let clocks = awake.map(|cpu| self.clock(cpu).map(|(khz, _)| khz));
        clocks.reduce(|one, other| Some(one?.max(other?)))
    }

    /// Whether a CPU is in no idle state.
    #[inline]
    fn is_awake(&self, cpu: u32) -> bool {
        !matches!(self.cpu_state(cpu), CpuState::Resident(_))
    }

    /// The least and the most that the shared logic of a cluster draws at any clock that may be its own, in uW.
    fn shared_bounds_uw(&self, cluster: u32) -> (u64, u64) {
        let machine = self.machine();
        let described = &machine.clusters[cluster as usize];
        let activity = self.cluster_activity(cluster);
        let draws = |point: PointPower| described.shared_power_uw(&point, activity);
        let awake: Vec<u32> = (0..machine.nr_cpus() as u32).filter(|&cpu| self.is_awake(cpu)).collect();
        if !machine.shared_follows_machine || awake.is_empty() {
            return bounds(machine.possible_powers(described).map(draws));
        }
        let known_khz = awake.iter().filter_map(|&cpu| self.clock(cpu)).map(|(khz, _)| khz).max().unwrap_or(0);
        let unknown = awake.iter().filter(|&&cpu| self.clock(cpu).is_none());
        let possible = unknown.flat_map(|&cpu| machine.possible_khz(machine.cluster_of(cpu)));
        bounds(possible.map(|khz| draws(self.follows(cluster, khz.max(known_khz)))))
    }
}

/// The least and the greatest; 0 where there are none.
fn bounds(values: impl Iterator<Item = u64>) -> (u64, u64) {
    let found = values.fold(None, |found: Option<(u64, u64)>, value| {
        Some(found.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
    });
    found.unwrap_or((0, 0))
}

impl Cluster {
    /// The OPP that the hardware runs at when `khz` is asked for: the lowest that reaches it, the highest if none does.
    ///
    /// # Panics
    /// Never for a machine that was read from a file: a cluster has OPPs.
    pub fn opp_for(&self, khz: u32) -> &Opp {
        &self.opps[self.opps.partition_point(|opp| opp.khz < khz).min(self.opps.len() - 1)]
    }

    /// What a clock costs that the hardware runs at, whether it is an OPP or not: turbo, or a clock under a power limit.
    ///
    /// Between two known points power is on the straight line between them. Above the last one it is `a f + b f^3` (leakage
    /// and switching at a voltage that rises with the clock) through the lowest and the highest known point; where that
    /// would bend down it is proportional to the clock.
    pub fn point_at(&self, khz: u32) -> PointPower {
        let mut known = self.opps.iter().chain(&self.boost_opps).peekable();
        let (mut first, mut low): (Option<&Opp>, Option<&Opp>) = (None, None);
        while let Some(opp) = known.next_if(|opp| opp.khz < khz) {
            first = first.or(Some(opp));
            low = Some(opp);
        }
        match (low, known.peek()) {
            (Some(low), Some(high)) if high.khz > khz => {
                let line = |from: u64, to: u64| {
                    let (from, to) = (i128::from(from), i128::from(to));
                    let part = i128::from(khz - low.khz) * (to - from) / i128::from(high.khz - low.khz);
                    u64::try_from(from + part).unwrap_or(0)
                };
                PointPower {
                    busy_uw: line(low.busy_uw, high.busy_uw),
                    cluster_uw: line(low.cluster_uw, high.cluster_uw),
                    idle_uw: low.idle_uw.zip(high.idle_uw).map(|(low, high)| line(low, high)),
                    cluster_idle_uw: low.cluster_idle_uw.zip(high.cluster_idle_uw).map(|(low, high)| line(low, high)),
                }
            }
            (_, Some(&point)) => point.into(),
            (Some(last), None) => {
                let low = first.unwrap_or(last);
                let busy_uw = extrapolate((low.khz, low.busy_uw), (last.khz, last.busy_uw), khz);
                PointPower { busy_uw, ..last.into() }
            }
            (None, None) => PointPower::default(),
        }
    }

    /// Whether a CPU spins in this idle state (`CPUIDLE_FLAG_POLLING`): it is in C0, and so is its cluster.
    pub fn polls(&self, state: usize) -> bool {
        state == 0 && self.idle.first().is_some_and(|idle| idle.name == "POLL")
    }

    /// What a CPU draws that spins, as the file has it. One that gives it no more than the next state, which halts, does
    /// not know it: then a spinning CPU is as a busy one.
    fn told_polling_uw(&self, point: &PointPower, state: usize) -> Option<u64> {
        let told = point.idle_uw.unwrap_or(self.idle[state].power_uw);
        let halted = self.idle.get(state + 1).map_or(0, |idle| idle.power_uw);
        (told > halted).then_some(told)
    }

    /// What one of the cluster's CPUs draws at a clock, in uW. A state that does not exist draws nothing.
    pub fn cpu_power_uw(&self, point: &PointPower, activity: CpuActivity) -> u64 {
        let state_uw = |state: usize| self.idle.get(state).map_or(0, |idle| idle.power_uw);
        match activity {
            CpuActivity::Busy => point.busy_uw,
            CpuActivity::BusyPair(smt_power) => pair_uw(point, smt_power),
            CpuActivity::Polling(state) => self.told_polling_uw(point, state).unwrap_or(point.busy_uw),
            CpuActivity::Idle(0) => point.idle_uw.unwrap_or_else(|| state_uw(0)),
            CpuActivity::Idle(state) => state_uw(state),
        }
    }

    /// What the cluster's shared logic draws while its clock (of its first CPU) is at `point`, in uW.
    pub fn shared_power_uw(&self, point: &PointPower, activity: ClusterActivity) -> u64 {
        match activity {
            ClusterActivity::Awake => point.cluster_uw,
            ClusterActivity::AllIdle => point.cluster_idle_uw.or(self.cluster_idle_uw).unwrap_or(point.cluster_uw),
            ClusterActivity::Asleep(state) => self.cluster_idle.get(state).map_or(0, |idle| idle.power_uw),
        }
    }
}

impl Machine {
    /// The most that an idle CPU draws at a clock, in uW: its part of its busy core, half of what two threads draw. Most files
    /// have one power of an idle state for all clocks, which may be that of a high one.
    pub fn idle_most_uw(&self, point: &PointPower, has_sibling: bool) -> u64 {
        match point.busy_uw {
            0 => u64::MAX,
            _ if has_sibling => pair_uw(point, self.smt_power),
            busy_uw => busy_uw,
        }
    }

    /// Whether another CPU is a thread of the same core.
    pub fn has_sibling(&self, cpu: u32) -> bool {
        let core = self.cpus[cpu as usize].core;
        self.cpus.iter().filter(|place| place.core == core).count() > 1
    }

    /// Whether a cluster's hardware runs at no clocks but its OPPs: it has no turbo, and no limit of power.
    pub fn runs_at_opps_only(&self, cluster: &Cluster) -> bool {
        let limited = self.package_power.is_some_and(|power| power.pl1_uw > 0 || power.pl2_uw > 0);
        !limited && cluster.turbo.is_empty() && cluster.boost_opps.is_empty()
    }

    /// The clock of a cluster that has no other one.
    pub fn only_khz(&self, cluster: &Cluster) -> Option<u32> {
        match &cluster.opps[..] {
            [one] if self.runs_at_opps_only(cluster) => Some(one.khz),
            _ => None,
        }
    }

    /// What a clock costs that was seen on a cluster: where it can be no OPP by its power, elsewhere as the OPP that reaches it.
    pub fn clock_power(&self, cluster: &Cluster, khz: u32) -> PointPower {
        match self.runs_at_opps_only(cluster) {
            true => cluster.opp_for(khz).into(),
            false => cluster.point_at(khz),
        }
    }

    /// The clocks that a cluster may have: its OPPs, and where it runs at others the highest one, too.
    fn possible_khz(&self, cluster: &Cluster) -> impl Iterator<Item = u32> {
        let highest = (!self.runs_at_opps_only(cluster)).then(|| cluster.highest_khz());
        cluster.opps.iter().chain(&cluster.boost_opps).map(|opp| opp.khz).chain(highest)
    }

    /// What the clocks cost that a cluster may have.
    fn possible_powers(&self, cluster: &Cluster) -> impl Iterator<Item = PointPower> {
        self.possible_khz(cluster).map(|khz| self.clock_power(cluster, khz))
    }

    /// The clusters whose power is not known.
    pub fn unknown_power(&self) -> Vec<&str> {
        self.clusters.iter().filter(|cluster| !cluster.has_power()).map(|cluster| cluster.name.as_str()).collect()
    }

    /// What a clock costs that was seen on another cluster which this one follows: that of its own highest clock up to it.
    pub fn followed_power(&self, cluster: &Cluster, khz: u32) -> PointPower {
        let own = cluster.opps.iter().chain(&cluster.boost_opps).map(|opp| opp.khz);
        let turbo = cluster.turbo.iter().map(|bin| bin.khz);
        let low = cluster.opps[0].khz;
        let top = own.clone().chain(turbo.clone()).max().unwrap_or(low);
        let limited = self.package_power.is_some_and(|power| power.pl1_uw > 0 || power.pl2_uw > 0);
        if limited || !cluster.turbo.is_empty() {
            return cluster.point_at(khz.clamp(low, top));
        }
        cluster.point_at(own.filter(|&own| own <= khz).max().unwrap_or(low))
    }
}

/// What one of two busy threads of a core draws, in uW.
fn pair_uw(point: &PointPower, smt_power: u32) -> u64 {
    point.busy_uw * (1024 + u64::from(smt_power)) / 2048
}

/// `a f + b f^3` through two points (kHz, uW), at `khz` above both; at least proportional to f. Truncates.
fn extrapolate((low_khz, low_uw): (u32, u64), (high_khz, high_uw): (u32, u64), khz: u32) -> u64 {
    let (f, f1, f2) = (i128::from(khz), i128::from(low_khz), i128::from(high_khz));
    let (p1, p2) = (i128::from(low_uw), i128::from(high_uw));
    let proportional = p2 * f / f2;
    // b (f^3 - f f2^2) with b = (p2 / f2 - p1 / f1) / (f2^2 - f1^2); the ratio of squares << 20.
    let cubic = || -> Option<i128> {
        let rise = f.checked_mul(p2 * f1 - p1 * f2)? / (f1 * f2);
        let squares = ((f * f - f2 * f2) << 20).checked_div(f2 * f2 - f1 * f1)?;
        Some(rise.checked_mul(squares)? >> 20)
    };
    let more = if f2 > f1 { cubic().unwrap_or(0).max(0) } else { 0 };
    u64::try_from(proportional + more).unwrap_or(u64::MAX).min(u64::from(u32::MAX) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse_machine;

    const MACHINE: &str = r#"format = 1
        name = "two"
        [[driver]]
        name = "scmi"
        transition_latency_us = 100
        fast_switch = true
        [[cluster]]
        name = "c"
        cpus = "0-1"
        capacity = 1024
        opp = [{ khz = 1000000, mw = 100, cluster_mw = 10, idle_mw = 7, cluster_idle_mw = 4 }, { khz = 2000000, mw = 300, cluster_mw = 20 }]
        idle = [
            { name = "WFI", mw = 5, exit_latency_us = 1, target_residency_us = 1 },
            { name = "off", mw = 1, exit_latency_us = 100, target_residency_us = 500 },
        ]
    "#;

    #[test]
    fn power_is_that_of_the_state_at_the_clock() {
        let machine = parse_machine("two.toml", MACHINE).unwrap_or_else(|error| panic!("{error}"));
        let cluster = &machine.clusters[0];
        let (low, high) = (PointPower::from(cluster.opp_for(900_000)), PointPower::from(cluster.opp_for(1_000_001)));
        let draws = |point: PointPower, activity| cluster.cpu_power_uw(&point, activity);
        assert_eq!([draws(low, CpuActivity::Busy), draws(high, CpuActivity::Busy)], [100_000, 300_000]);
        assert_eq!(draws(high, CpuActivity::BusyPair(512)), 225_000);
        // Only the lower clock knows what its shallowest state draws; deeper ones have no clock.
        assert_eq!([draws(low, CpuActivity::Idle(0)), draws(high, CpuActivity::Idle(0))], [7_000, 5_000]);
        assert_eq!([draws(low, CpuActivity::Idle(1)), draws(low, CpuActivity::Idle(9))], [1_000, 0]);
        // Only the lower clock knows what the cluster draws while all its CPUs idle.
        assert_eq!(cluster.shared_power_uw(&low, ClusterActivity::AllIdle), 4_000);
        assert_eq!(cluster.shared_power_uw(&high, ClusterActivity::AllIdle), 20_000);
        assert_eq!(cluster.shared_power_uw(&high, ClusterActivity::Asleep(0)), 0, "it has no such state");
        assert_eq!(cluster.opp_for(9_000_000).khz, 2_000_000);
    }

    /// The power of a state that the file has for all clocks may be that of a high one.
    #[test]
    fn an_idle_cpu_draws_no_more_than_its_part_of_its_busy_core() {
        let text = MACHINE.replace("name = \"WFI\", mw = 5", "name = \"POLL\", mw = 250").replace(", idle_mw = 7", "");
        let mut machine = parse_machine("two.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        machine.clusters[0].idle[1].power_uw = 150_000;
        machine.smt_power = 512;
        struct At(Machine, CpuState, bool);
        impl AtWork for At {
            fn machine(&self) -> &Machine {
                &self.0
            }
            fn cpu_state(&self, _: u32) -> CpuState {
                self.1
            }
            fn any_sibling(&self, _: u32, holds: impl Fn(CpuState) -> bool) -> bool {
                self.2 && holds(CpuState::Resident(1))
            }
            fn clock(&self, _: u32) -> Option<(u32, &PointPower)> {
                None
            }
            fn follows(&self, _: u32, _: u32) -> PointPower {
                NO_CLOCK
            }
            fn kept_khz(&self) -> Option<u32> {
                None
            }
            fn cluster_state(&self, _: u32) -> Option<usize> {
                None
            }
        }
        let draws = |khz, state, is_pair| {
            let at = At(machine.clone(), state, is_pair);
            at.draws_uw(0, &machine.clusters[0].point_at(khz), at.cpu_activity(0))
        };
        let (poll, halt) = (CpuState::Resident(0), CpuState::Resident(1));
        assert_eq!([draws(2_000_000, poll, false), draws(2_000_000, halt, false)], [250_000, 150_000]);
        assert_eq!([draws(1_000_000, poll, false), draws(1_000_000, halt, false)], [100_000, 100_000]);
        // Two busy threads draw 1.5 times what one does: 75 mW each at 1 GHz, 225 at 2 GHz.
        assert_eq!([draws(2_000_000, poll, true), draws(2_000_000, halt, true)], [225_000, 150_000]);
        assert_eq!([draws(1_000_000, poll, true), draws(1_000_000, halt, true)], [75_000, 75_000]);
    }

    /// A CPU that spins draws what the file has for it if that is more than halting, else what a busy one draws.
    #[test]
    fn polling_is_never_free() {
        let poll = MACHINE.replace("name = \"WFI\", mw = 5", "name = \"POLL\", mw = 0").replace(", idle_mw = 7", "");
        for (told, expected) in [("mw = 0", 300_000), ("mw = 1", 300_000), ("mw = 50", 50_000)] {
            let text = poll.replace("mw = 0", told);
            let machine = parse_machine("two.toml", &text).unwrap_or_else(|error| panic!("{error}"));
            let cluster = &machine.clusters[0];
            assert!(cluster.polls(0) && !cluster.polls(1));
            let high = PointPower::from(cluster.opp_for(2_000_000));
            assert_eq!(cluster.cpu_power_uw(&high, CpuActivity::Polling(0)), expected, "{told}");
        }
    }

    /// P = 0.407 f + 0.0966 f^3 W (f in GHz) through 1.5 and 2.25 GHz is found again at 3.4 GHz.
    #[test]
    fn power_above_the_table_follows_the_curve() {
        let watts = extrapolate((1_500_000, 936_525), (2_250_000, 2_016_084), 3_400_000);
        assert!((5_180_000..5_181_000).contains(&watts), "{watts}");
        // A curve that bends down is not followed.
        assert_eq!(extrapolate((1_000_000, 1_000), (2_000_000, 1_500), 3_000_000), 2_250);
        // One point only, none known, and numbers at their limits.
        assert_eq!(extrapolate((2_000_000, 1_000), (2_000_000, 1_000), 3_000_000), 1_500);
        assert_eq!(extrapolate((1_000_000, 0), (2_000_000, 0), 3_000_000), 0);
        extrapolate((1, 0), (99_999_999, u64::from(u32::MAX)), 100_000_000);
    }

    #[test]
    fn power_between_entries_is_on_their_line() {
        let machine = parse_machine("two.toml", MACHINE).unwrap_or_else(|error| panic!("{error}"));
        let at = |khz| machine.clusters[0].point_at(khz);
        let busy = [900_000, 1_000_000, 1_500_000, 2_000_000].map(|khz| at(khz).busy_uw);
        assert_eq!(busy, [100_000, 100_000, 200_000, 300_000]);
        assert_eq!((at(1_500_000).cluster_uw, at(1_500_000).idle_uw), (15_000, None));
        assert!(at(2_500_000).busy_uw >= 375_000);
    }
}
