//! The ideal meter: mean watts of each cluster, of each consumer (a GPU), and of the rest of the machine, between two samples.

use opplab_model::counters::Sample;

use crate::watts;

/// Mean power over one interval, in W.
#[derive(Debug, Clone, PartialEq)]
pub struct RailRow {
    /// End of the interval, in ns since the start.
    pub time_ns: u64,
    /// By cluster of the machine.
    pub cluster_w: Vec<f64>,
    /// By consumer of the machine (a GPU).
    pub consumer_w: Vec<f64>,
    /// Everything else that is metered.
    pub floor_w: f64,
}

/// One row for each pair of neighbouring samples.
pub fn rails(samples: &[Sample]) -> Vec<RailRow> {
    samples
        .windows(2)
        .map(|pair| {
            let time_ns = pair[1].time_ns - pair[0].time_ns;
            let each = |end: &[u128], begin: &[u128]| {
                end.iter().zip(begin).map(|(end, begin)| watts(end - begin, time_ns)).collect()
            };
            let cluster_w = each(&pair[1].cluster_energy_fj, &pair[0].cluster_energy_fj);
            let consumer_w = each(&pair[1].consumer_energy_fj, &pair[0].consumer_energy_fj);
            let floor_w = watts(pair[1].floor_energy_fj - pair[0].floor_energy_fj, time_ns);
            RailRow { time_ns: pair[1].time_ns, cluster_w, consumer_w, floor_w }
        })
        .collect()
}
