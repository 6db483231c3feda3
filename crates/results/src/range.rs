//! How far a machine's energies may be off by the ranges of its file.

use opplab_model::machine::{Cluster, Machine, Opp};
use opplab_model::power::PointPower;
use opplab_model::range::Bounds;
use opplab_sim::{OperatingPoint, Outcome};

/// A range's key, and the number of an operating point that it is about.
type Key<'a> = (&'a str, fn(&Opp) -> u64);

/// The least and the most energy of a run's clusters, in fJ; `None` if the file has no range of a power.
///
/// Of each cluster: what its CPUs drew busy and idle, its shared logic, and that while it sleeps. Each is off as a whole: all
/// points of a cluster are too high or too low together, each by as much as its own range has.
pub(crate) fn energy_ends(machine: &Machine, outcome: &Outcome) -> Option<(f64, f64)> {
    let mut ranged = false;
    let mut of = |index: usize, cluster: &Cluster| {
        let mut range = |paths: &[Key], drawn: &dyn Fn(usize, &PointPower) -> f64| {
            let found = paths.iter().find_map(|&(path, power)| bounds(machine, cluster, path, power));
            ranged |= found.is_some();
            let of = found.unwrap_or_else(|| vec![(1.0, 1.0)]);
            weighed(&of, cluster, &outcome.points[index], drawn)
        };
        let ns =
            |of: &[Vec<u64>], point: usize| cluster.cpus.iter().map(|&cpu| of[cpu as usize][point] as f64).sum::<f64>();
        let busy = |point: usize, power: &PointPower| ns(&outcome.busy_ns_by_opp, point) * power.busy_uw as f64;
        let awake = |point: usize, power: &PointPower| ns(&outcome.time_ns_by_opp, point) * power.cluster_uw as f64;
        let draws_uw = cluster.opps.iter().all(|opp| opp.busy_uw == opp.power_uw);
        let keys: [Key; 2] = [("cluster.opp.busy_uw", |opp| opp.busy_uw), ("cluster.opp.uw", |opp| opp.power_uw)];
        let core = range(&keys[..1 + usize::from(draws_uw)], &busy);
        let idle = range(&[("cluster.idle.uw", |_| 0)], &busy);
        let asleep = range(&[("cluster.cluster_idle.uw", |_| 0)], &busy);
        let keys: [Key; 2] = [("cluster.opp.cluster_uw", |opp| opp.cluster_uw), ("cluster.cluster_idle_uw", |_| 0)];
        let shared = range(&keys, &awake);
        let shared_fj = outcome.shared_energy_fj[index] as f64;
        let asleep_ns = cluster.cluster_idle.iter().zip(&outcome.asleep_ns[index]);
        let asleep_fj: f64 = asleep_ns.map(|(state, &ns)| ns as f64 * state.power_uw as f64).sum();
        let idle_fj: f64 =
            cluster.cpus.iter().map(|&cpu| idle_fj(cluster, &outcome.idle_ns_by_state[cpu as usize])).sum();
        let busy_fj = outcome.cluster_energy_fj[index] as f64 - shared_fj - idle_fj;
        let parts = [(busy_fj, core), (idle_fj, idle), (shared_fj - asleep_fj, shared), (asleep_fj, asleep)];
        let at = |end: fn((f64, f64)) -> f64| parts.iter().map(|&(fj, range)| fj * end(range)).sum::<f64>();
        (at(|range| range.0), at(|range| range.1))
    };
    let ends: Vec<_> = machine.clusters.iter().enumerate().map(|(index, cluster)| of(index, cluster)).collect();
    let sum = ends.iter().fold((0.0, 0.0), |sum: (f64, f64), end| (sum.0 + end.0, sum.1 + end.1));
    ranged.then_some(sum)
}

/// What a CPU drew in its idle states, in fJ. Idle outside of any is as in the shallowest.
fn idle_fj(cluster: &Cluster, ns_by_state: &[u64]) -> f64 {
    let powers = cluster.idle.iter().chain(cluster.idle.first()).map(|state| state.power_uw);
    ns_by_state.iter().zip(powers).map(|(&ns, uw)| ns as f64 * uw as f64).sum()
}

/// The factors of what a cluster drew over its operating points: those of its OPPs, by what was `drawn` at each.
fn weighed(
    of: &[(f64, f64)],
    cluster: &Cluster,
    points: &[OperatingPoint],
    drawn: &dyn Fn(usize, &PointPower) -> f64,
) -> (f64, f64) {
    let [first, .., last] = of else { return of[0] };
    let mut sum = (0.0, 0.0, 0.0);
    for (index, point) in points.iter().enumerate() {
        let place = cluster.opps.partition_point(|opp| opp.khz < point.khz);
        let (low, high) = of.get(place).unwrap_or(last);
        let fj = drawn(index, &point.power);
        sum = (sum.0 + fj, sum.1 + fj * low, sum.2 + fj * high);
    }
    if sum.0 > 0.0 { (sum.1 / sum.0, sum.2 / sum.0) } else { *first }
}

/// The factors within which a cluster's powers of one key may lie, one for all or one an OPP: by the cluster's own range, or that of all.
fn bounds(machine: &Machine, cluster: &Cluster, path: &str, power: fn(&Opp) -> u64) -> Option<Vec<(f64, f64)>> {
    let shares = |(low, high): (u32, u32)| (f64::from(low) / 100.0, f64::from(high) / 100.0);
    let of = |name: Option<&str>| machine.ranges.iter().find(|one| one.path == path && one.cluster.as_deref() == name);
    match of(Some(&cluster.name)).or_else(|| of(None))?.bounds.clone() {
        Bounds::Percent(low, high) => Some(vec![shares((low, high))]),
        Bounds::PercentByOpp(of) => Some(of.into_iter().map(shares).collect()),
        Bounds::Between(low, high) => {
            let mut values: Vec<u64> = cluster.opps.iter().map(power).collect();
            values.sort_unstable();
            let middle = values[values.len() / 2] as f64;
            (middle > 0.0).then(|| vec![(low as f64 / middle, high as f64 / middle)])
        }
    }
}
