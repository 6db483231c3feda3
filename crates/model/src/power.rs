//! What CPUs and clusters draw: the one formula from what they do and the machine file's numbers to uW.

use crate::machine::{Cluster, Opp};

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

/// What a CPU does, as far as its power depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuActivity {
    /// It runs a task, and no other thread of its core does.
    Busy,
    /// It runs a task, and so does the other thread of its core; two busy threads draw this much of one, in 1/1024
    /// ([`crate::machine::Machine::smt_power`]) more, of which each has half.
    BusyPair(u32),
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

impl Cluster {
    /// The OPP that the hardware runs at when `khz` is asked for: the lowest that reaches it, the highest if none does.
    ///
    /// # Panics
    /// Never for a machine that was read from a file: a cluster has OPPs.
    pub fn opp_for(&self, khz: u32) -> &Opp {
        &self.opps[self.opps.partition_point(|opp| opp.khz < khz).min(self.opps.len() - 1)]
    }

    /// What one of the cluster's CPUs draws at a clock, in uW. A state that does not exist draws nothing.
    pub fn cpu_power_uw(&self, point: PointPower, activity: CpuActivity) -> u64 {
        let state_uw = |state: usize| self.idle.get(state).map_or(0, |idle| idle.power_uw);
        match activity {
            CpuActivity::Busy => point.busy_uw,
            CpuActivity::BusyPair(smt_power) => point.busy_uw * (1024 + u64::from(smt_power)) / 2048,
            CpuActivity::Idle(0) => point.idle_uw.unwrap_or_else(|| state_uw(0)),
            CpuActivity::Idle(state) => state_uw(state),
        }
    }

    /// What the cluster's shared logic draws while its clock (of its first CPU) is at `point`, in uW.
    pub fn shared_power_uw(&self, point: PointPower, activity: ClusterActivity) -> u64 {
        match activity {
            ClusterActivity::Awake => point.cluster_uw,
            ClusterActivity::AllIdle => point.cluster_idle_uw.or(self.cluster_idle_uw).unwrap_or(point.cluster_uw),
            ClusterActivity::Asleep(state) => self.cluster_idle.get(state).map_or(0, |idle| idle.power_uw),
        }
    }
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
        let draws = |point, activity| cluster.cpu_power_uw(point, activity);
        assert_eq!([draws(low, CpuActivity::Busy), draws(high, CpuActivity::Busy)], [100_000, 300_000]);
        assert_eq!(draws(high, CpuActivity::BusyPair(512)), 225_000);
        // Only the lower clock says what its shallowest state draws; deeper ones have no clock.
        assert_eq!([draws(low, CpuActivity::Idle(0)), draws(high, CpuActivity::Idle(0))], [7_000, 5_000]);
        assert_eq!([draws(low, CpuActivity::Idle(1)), draws(low, CpuActivity::Idle(9))], [1_000, 0]);
        // Only the lower clock says what the cluster draws while all its CPUs idle.
        assert_eq!(cluster.shared_power_uw(low, ClusterActivity::AllIdle), 4_000);
        assert_eq!(cluster.shared_power_uw(high, ClusterActivity::AllIdle), 20_000);
        assert_eq!(cluster.shared_power_uw(high, ClusterActivity::Asleep(0)), 0, "it has no such state");
        assert_eq!(cluster.opp_for(9_000_000).khz, 2_000_000);
    }
}
