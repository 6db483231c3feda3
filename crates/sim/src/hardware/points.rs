//! Operating points: what a clock can really be, with its power.
//!
//! A cluster's OPPs are what software may ask for. The hardware may grant what lies above the table (boost beyond
//! acpi-cpufreq's P0) or, under a power budget, between its entries. Those points are made here, once, from the machine
//! file. Machines without turbo bins, boost points and limits have their OPPs and nothing else.
//!
//! Power between two known points is on the straight line between them. Above the last one it is `a f + b f^3` (leakage
//! and switching at a voltage that rises with the clock) through the lowest and the highest known point; where that
//! would bend down it is proportional to the clock.

use opplab_model::machine::{Cluster, Cpufreq, Machine, Opp};
use opplab_model::power::PointPower;

/// One clock of a cluster and what it draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatingPoint {
    /// The clock in kHz.
    pub khz: u32,
    /// What one busy CPU draws, in uW.
    pub busy_uw: u64,
    /// What the cluster draws while any of its CPUs is awake, in uW.
    pub cluster_uw: u64,
    /// What an idle CPU draws in its shallowest state, in uW, if that depends on the clock.
    pub idle_uw: Option<u64>,
    /// What the cluster draws while all its CPUs idle but no cluster state is entered, in uW, if that depends on the clock.
    pub cluster_idle_uw: Option<u64>,
}

impl OperatingPoint {
    /// What the clock costs.
    pub(crate) fn power(&self) -> PointPower {
        PointPower {
            busy_uw: self.busy_uw,
            cluster_uw: self.cluster_uw,
            idle_uw: self.idle_uw,
            cluster_idle_uw: self.cluster_idle_uw,
        }
    }
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
        let points: Vec<OperatingPoint> = khz.iter().map(|&khz| point_at(&known, khz)).collect();
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

/// The point at `khz`, of which `known` says what it can.
fn point_at(known: &[Opp], khz: u32) -> OperatingPoint {
    let above = known.partition_point(|opp| opp.khz < khz);
    let point = |opp: &Opp| OperatingPoint {
        khz,
        busy_uw: opp.busy_uw,
        cluster_uw: opp.cluster_uw,
        idle_uw: opp.idle_uw,
        cluster_idle_uw: opp.cluster_idle_uw,
    };
    match known.get(above) {
        Some(opp) if opp.khz == khz || above == 0 => point(opp),
        Some(high) => {
            let low = &known[above - 1];
            let line = |from: u64, to: u64| {
                let (from, to) = (i128::from(from), i128::from(to));
                let part = i128::from(khz - low.khz) * (to - from) / i128::from(high.khz - low.khz);
                u64::try_from(from + part).unwrap_or(0)
            };
            OperatingPoint {
                khz,
                busy_uw: line(low.busy_uw, high.busy_uw),
                cluster_uw: line(low.cluster_uw, high.cluster_uw),
                idle_uw: low.idle_uw.zip(high.idle_uw).map(|(low, high)| line(low, high)),
                cluster_idle_uw: low.cluster_idle_uw.zip(high.cluster_idle_uw).map(|(low, high)| line(low, high)),
            }
        }
        None => {
            let last = &known[known.len() - 1];
            let ends = |uw: fn(&Opp) -> u64| ((known[0].khz, uw(&known[0])), (last.khz, uw(last)));
            let busy_uw = extrapolate(ends(|opp| opp.busy_uw), khz);
            OperatingPoint { busy_uw, ..point(last) }
        }
    }
}

/// `a f + b f^3` through two points (kHz, uW), at `khz` above both; at least proportional to f. Truncates.
fn extrapolate(((low_khz, low_uw), (high_khz, high_uw)): ((u32, u64), (u32, u64)), khz: u32) -> u64 {
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

    /// P = 0.407 f + 0.0966 f^3 W (f in GHz) through 1.5 and 2.25 GHz is found again at 3.4 GHz.
    #[test]
    fn power_above_the_table_follows_the_curve() {
        let watts = extrapolate(((1_500_000, 936_525), (2_250_000, 2_016_084)), 3_400_000);
        assert!((5_180_000..5_181_000).contains(&watts), "{watts}");
        // A curve that bends down is not followed.
        assert_eq!(extrapolate(((1_000_000, 1_000), (2_000_000, 1_500)), 3_000_000), 2_250);
        // One point only, none known, and numbers at their limits.
        assert_eq!(extrapolate(((2_000_000, 1_000), (2_000_000, 1_000)), 3_000_000), 1_500);
        assert_eq!(extrapolate(((1_000_000, 0), (2_000_000, 0)), 3_000_000), 0);
        extrapolate(((1, 0), (99_999_999, u64::from(u32::MAX))), 100_000_000);
    }

    #[test]
    fn power_between_entries_is_on_their_line() {
        let opp = |khz, busy_uw| Opp {
            khz,
            mv: 0,
            power_uw: 0,
            busy_uw,
            cluster_uw: 10,
            idle_uw: None,
            cluster_idle_uw: None,
        };
        let known = [opp(1_000_000, 1_000), opp(2_000_000, 3_000)];
        let at = |khz| point_at(&known, khz).busy_uw;
        assert_eq!([at(500_000), at(1_000_000), at(1_500_000), at(2_000_000)], [1_000, 1_000, 2_000, 3_000]);
    }
}
