//! Operating points: what a clock can really be, with its power.
//!
//! A cluster's OPPs are what software may ask for. The hardware may grant what lies above the table (boost beyond
//! acpi-cpufreq's P0) or, under a power budget, between its entries. Those points are made here, once, from the machine
//! file. Machines without turbo bins, boost points and limits have their OPPs and nothing else.
//!
//! What they draw is [`Cluster::point_at`]'s.

use opplab_model::machine::{Cluster, Cpufreq, Machine, Opp};
use opplab_model::power::PointPower;

/// One clock of a cluster and what it draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatingPoint {
    /// The clock in kHz.
    pub khz: u32,
    /// What it costs.
    pub power: PointPower,
}

/// Step of the points that no file lists: the bus clock of Core and Xeon, four boost steps of Zen; kHz.
pub const POINT_STEP_KHZ: u32 = 100_000;

/// The operating points of a cluster, ascending.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) points: Vec<OperatingPoint>,
    /// Of each OPP the index of its point.
    of_opp: Vec<u32>,
    /// Whether a request without a frequency table may be granted between the OPPs.
    fine: bool,
}

impl Points {
    pub(crate) fn new(machine: &Machine, driver: &Cpufreq, cluster: &Cluster) -> Self {
        let known: Vec<Opp> = cluster.opps.iter().chain(&cluster.boost_opps).copied().collect();
        let limited = machine.package_power.is_some_and(|power| power.pl1_uw > 0 || power.pl2_uw > 0);
        let fine = !cluster.turbo.is_empty() || limited;
        let mut khz: Vec<u32> = known.iter().map(|opp| opp.khz).collect();
        if fine {
            let turbo = cluster.turbo.iter().map(|bin| bin.khz);
            let (low, table) = (cluster.opps[0].khz, cluster.opps[cluster.opps.len() - 1].khz);
            let top = turbo.clone().max().unwrap_or(0).max(known[known.len() - 1].khz);
            // Under a budget the hardware also runs between the entries of the table.
            let first = if limited || !driver.freq_table { low } else { table };
            khz.extend(turbo.filter(|&khz| khz > low));
            khz.extend((first / POINT_STEP_KHZ + 1..=top / POINT_STEP_KHZ).map(|step| step * POINT_STEP_KHZ));
            khz.sort_unstable();
            khz.dedup();
        }
        let points: Vec<OperatingPoint> =
            khz.iter().map(|&khz| OperatingPoint { khz, power: cluster.point_at(khz) }).collect();
        let at = |opp: &Opp| khz.partition_point(|&khz| khz < opp.khz) as u32;
        let of_opp = cluster.opps.iter().map(at).collect();
        Self { points, of_opp, fine }
    }

    /// The point that a driver's request for `khz` stands for: the lowest OPP that reaches it, or without a table the
    /// lowest point. The last OPP is a wish for all that there is: boost is the hardware's own business.
    pub(crate) fn of_request(&self, khz: u32, freq_table: bool) -> u32 {
        let top = self.points.len() as u32 - 1;
        if self.fine && !freq_table {
            return (self.points.partition_point(|point| point.khz < khz) as u32).min(top);
        }
        let reaches = |&opp: &u32| self.points[opp as usize].khz >= khz;
        match self.of_opp.iter().copied().find(reaches) {
            Some(opp) if Some(&opp) != self.of_opp.last() => opp,
            _ => top,
        }
    }

    /// The highest point of at most `khz`; the lowest if there is none.
    pub(crate) fn at_most(&self, khz: u32) -> u32 {
        (self.points.partition_point(|point| point.khz <= khz) as u32).saturating_sub(1)
    }

    pub(crate) fn top_khz(&self) -> u32 {
        self.points[self.points.len() - 1].khz
    }
}
