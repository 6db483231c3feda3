//! How far a machine's energies may be off by the ranges of its file.

use opplab_model::machine::{Cluster, Machine, Opp};
use opplab_model::range::Bounds;

/// For each cluster the factors within which its energy may lie; `None` if the file has no range of a power.
///
/// The core's and the shared part count by their shares of the power at the middle operating point, and each is off as a whole:
/// all points of a cluster are too high or too low together.
pub(crate) fn energy_factors(machine: &Machine) -> Option<Vec<(f64, f64)>> {
    let mut ranged = false;
    let mut of = |cluster: &Cluster| {
        let opp = &cluster.opps[cluster.opps.len() / 2];
        let core = bounds(machine, cluster, "cluster.opp.busy_uw", |opp| opp.busy_uw)
            .or_else(|| bounds(machine, cluster, "cluster.opp.uw", |opp| opp.power_uw));
        let shared = bounds(machine, cluster, "cluster.opp.cluster_uw", |opp| opp.cluster_uw);
        ranged |= core.is_some() || shared.is_some();
        let whole = opp.busy_uw + opp.cluster_uw;
        let weight = if whole == 0 { 0.0 } else { opp.cluster_uw as f64 / whole as f64 };
        let ((low, high), (shared_low, shared_high)) = (core.unwrap_or((1.0, 1.0)), shared.unwrap_or((1.0, 1.0)));
        ((1.0 - weight) * low + weight * shared_low, (1.0 - weight) * high + weight * shared_high)
    };
    let factors = machine.clusters.iter().map(&mut of).collect();
    ranged.then_some(factors)
}

/// The factors within which a cluster's powers of one key may lie: by the cluster's own range, or that of all.
fn bounds(machine: &Machine, cluster: &Cluster, path: &str, power: fn(&Opp) -> u64) -> Option<(f64, f64)> {
    let of = |name: Option<&str>| machine.ranges.iter().find(|one| one.path == path && one.cluster.as_deref() == name);
    match of(Some(&cluster.name)).or_else(|| of(None))?.bounds {
        Bounds::Percent(low, high) => Some((f64::from(low) / 100.0, f64::from(high) / 100.0)),
        Bounds::Between(low, high) => {
            let mut values: Vec<u64> = cluster.opps.iter().map(power).collect();
            values.sort_unstable();
            let middle = values[values.len() / 2] as f64;
            (middle > 0.0).then(|| (low as f64 / middle, high as f64 / middle))
        }
    }
}
