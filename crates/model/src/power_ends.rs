//! A machine whose powers are all at the lower, or all at the upper ends of their ranges.

use crate::machine::{Cluster, Machine, Opp};
use crate::range::{Bounds, Range};

/// A machine at the ends of the ranges of its powers.
#[derive(Debug, Clone)]
pub struct PowerEnds {
    /// With all powers at the lower ends. Where the sum of a busy CPU and its cluster was measured, there are two: one with the least
    /// and one with the most of it shared. Which of them draws less depends on how many CPUs are busy.
    pub low: Vec<Machine>,
    /// The same with all powers at the upper ends.
    pub high: Vec<Machine>,
}

impl PowerEnds {
    /// Gives the least of `value` of the low machines and the greatest of the high ones.
    pub fn bounds(&self, value: impl Fn(&Machine) -> f64) -> (f64, f64) {
        let low = self.low.iter().map(&value).fold(f64::INFINITY, f64::min);
        (low, self.high.iter().map(value).fold(f64::NEG_INFINITY, f64::max))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    High,
}

impl Machine {
    /// The machine at the ends of the ranges of its powers; `None` if the file has no such range.
    ///
    /// Limits of power are no powers. All numbers of a key are at one end together.
    pub fn power_ends(&self) -> Option<PowerEnds> {
        let is_power = |range: &&Range| {
            (range.path.ends_with("uw") || range.path == "smt_power") && !range.path.starts_with("package_power")
        };
        let powers: Vec<&Range> = self.ranges.iter().filter(is_power).collect();
        if powers.is_empty() {
            return None;
        }
        let keeps = self.clusters.iter().any(|cluster| keeps_sums(&powers, cluster));
        let at = |end| {
            let shared = if keeps { vec![End::Low, End::High] } else { vec![end] };
            shared.into_iter().map(|shared| self.at(&powers, end, shared)).collect()
        };
        Some(PowerEnds { low: at(End::Low), high: at(End::High) })
    }

    /// The machine at an end of its powers; what clusters share of a measured sum is at the end `shared`.
    fn at(&self, powers: &[&Range], end: End, shared: End) -> Self {
        let mut machine = self.clone();
        machine.ranges.clear();
        for range in powers {
            // A cluster's own range goes before that of all.
            let is_meant = |name: &str| match &range.cluster {
                Some(own) => own == name,
                None => !powers.iter().any(|one| one.path == range.path && one.cluster.as_deref() == Some(name)),
            };
            let keeps = self.clusters.iter().any(|cluster| is_meant(&cluster.name) && keeps_sums(powers, cluster));
            let end = if keeps && range.path == "cluster.opp.cluster_uw" { shared } else { end };
            let mut smt_power = u64::from(machine.smt_power);
            let numbers = match range.path {
                "floor_uw" => vec![&mut machine.floor_uw],
                "smt_power" => vec![&mut smt_power],
                path => {
                    let clusters = machine.clusters.iter_mut().filter(|cluster| is_meant(&cluster.name));
                    clusters.flat_map(|cluster| numbers_of(cluster, path)).collect()
                }
            };
            set(numbers, &range.bounds, end);
            machine.smt_power = u32::try_from(smt_power).unwrap_or(u32::MAX).min(1024);
        }
        for (own, cluster) in self.clusters.iter().zip(&mut machine.clusters) {
            if keeps_sums(powers, own) {
                keep_sums(own, cluster);
            }
        }
        machine
    }
}

/// Whether the sums of what a busy CPU and what its cluster draws were measured: both have ranges by operating point.
fn keeps_sums(powers: &[&Range], cluster: &Cluster) -> bool {
    ["cluster.opp.busy_uw", "cluster.opp.cluster_uw"].iter().all(|path| {
        powers.iter().any(|range| {
            range.path == *path
                && range.cluster.as_deref() == Some(&cluster.name)
                && matches!(range.bounds, Bounds::PercentByOpp(_))
        })
    })
}

/// Gives the busy CPU what its cluster does not share: the sum has the range of `busy_uw`.
fn keep_sums(own: &Cluster, at: &mut Cluster) {
    for (own, opp) in own.opps.iter().zip(&mut at.opps) {
        if own.busy_uw == 0 {
            continue;
        }
        let sum_uw = (own.busy_uw + own.cluster_uw) as f64 * opp.busy_uw as f64 / own.busy_uw as f64;
        let sum_uw = sum_uw.round() as u64;
        if sum_uw > 1 {
            opp.cluster_uw = opp.cluster_uw.min(sum_uw - 1);
            opp.busy_uw = sum_uw - opp.cluster_uw;
        }
    }
}

/// The numbers of a cluster that a range is about. The energy model's power of a point is what its CPU draws, too, where the file has
/// no other number.
fn numbers_of<'m>(cluster: &'m mut Cluster, path: &str) -> Vec<&'m mut u64> {
    match path {
        "cluster.cluster_idle_uw" => cluster.cluster_idle_uw.iter_mut().collect(),
        "cluster.idle.uw" => cluster.idle.iter_mut().map(|state| &mut state.power_uw).collect(),
        "cluster.cluster_idle.uw" => cluster.cluster_idle.iter_mut().map(|state| &mut state.power_uw).collect(),
        path => match path.strip_prefix("cluster.boost_opp.") {
            Some(name) => numbers_of_points(&mut cluster.boost_opps, name),
            None => numbers_of_points(&mut cluster.opps, path.trim_start_matches("cluster.opp.")),
        },
    }
}

fn numbers_of_points<'m>(opps: &'m mut [Opp], name: &str) -> Vec<&'m mut u64> {
    let opps = opps.iter_mut();
    match name {
        "uw" => opps.filter(|opp| opp.busy_uw == opp.power_uw).map(|opp| &mut opp.busy_uw).collect(),
        "busy_uw" => opps.map(|opp| &mut opp.busy_uw).collect(),
        "cluster_uw" => opps.map(|opp| &mut opp.cluster_uw).collect(),
        "idle_uw" => opps.filter_map(|opp| opp.idle_uw.as_mut()).collect(),
        "cluster_idle_uw" => opps.filter_map(|opp| opp.cluster_idle_uw.as_mut()).collect(),
        _ => Vec::new(),
    }
}

/// Sets numbers to an end of their range. Different ones that lie in one range keep their proportions: the middle one is at the end.
fn set(mut numbers: Vec<&mut u64>, bounds: &Bounds, end: End) {
    let share = |number: &mut u64, (low, high): (u32, u32)| {
        *number = (*number as f64 * f64::from(if end == End::Low { low } else { high }) / 100.0).round() as u64;
    };
    match bounds {
        Bounds::Percent(low, high) => numbers.into_iter().for_each(|number| share(number, (*low, *high))),
        Bounds::PercentByOpp(pairs) => numbers.into_iter().zip(pairs).for_each(|(number, pair)| share(number, *pair)),
        Bounds::Between(low, high) => {
            let is_at = u64::try_from(if end == End::Low { *low } else { *high }).unwrap_or(0);
            let mut values: Vec<u64> = numbers.iter().map(|number| **number).collect();
            values.sort_unstable();
            let middle = values.get(values.len() / 2).copied().unwrap_or(0);
            let are_alike = values.first() == values.last();
            for number in &mut numbers {
                **number = match middle == 0 || are_alike {
                    true => is_at,
                    false => (**number as f64 * is_at as f64 / middle as f64).round() as u64,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::parse_machine;

    /// Goal: the ends are those that a hand would write. Method: a range of each kind, on a cluster whose sums were measured.
    #[test]
    fn ends_are_those_of_the_file() {
        let text = r#"format = 1
            name = "two"
            smt_power = 600
            [[driver]]
            name = "scmi"
            transition_latency_us = 100
            fast_switch = true
            [[cluster]]
            name = "c"
            cpus = "0-1"
            capacity = 1024
            cluster_idle_mw = 0
            opp = [{ khz = 1000000, mw = 80, busy_mw = 100, cluster_mw = 20 }, { khz = 2000000, mw = 300, busy_mw = 300, cluster_mw = 20 }]
            idle = [{ name = "WFI", mw = 0, exit_latency_us = 1, target_residency_us = 1 }]
            [range]
            smt_power = [0, 780]
            "cluster.cluster_idle_uw" = [0, 38000]
            "cluster.idle.uw" = [0, 20000]
            "cluster.c.opp.busy_uw" = { percent = [[90, 110], [50, 200]] }
            "cluster.c.opp.cluster_uw" = { percent = [[0, 200], [0, 100]] }
        "#;
        let machine = parse_machine("two.toml", text).unwrap_or_else(|error| panic!("{error}"));
        let ends = machine.power_ends().unwrap_or_else(|| panic!("it has ranges"));
        let numbers = |machine: &crate::machine::Machine| {
            let cluster = &machine.clusters[0];
            let [low, high] = [cluster.opps[0], cluster.opps[1]];
            let idle = [cluster.idle[0].power_uw, cluster.cluster_idle_uw.unwrap_or(1), u64::from(machine.smt_power)];
            ([low.busy_uw, low.cluster_uw, high.busy_uw, high.cluster_uw], idle, low.power_uw)
        };
        assert_eq!(numbers(&ends.low[0]), ([108_000, 0, 160_000, 0], [0, 0, 0], 80_000));
        assert_eq!(numbers(&ends.low[1]), ([68_000, 40_000, 140_000, 20_000], [0, 0, 0], 80_000));
        assert_eq!(numbers(&ends.high[0]), ([132_000, 0, 640_000, 0], [20_000, 38_000, 780], 80_000));
        assert_eq!(numbers(&ends.high[1]), ([92_000, 40_000, 620_000, 20_000], [20_000, 38_000, 780], 80_000));
        assert_eq!(machine.ranges.len(), 5, "the machine itself is as it was");
    }
}
