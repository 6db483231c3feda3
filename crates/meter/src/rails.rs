//! The ideal meter: mean watts of each cluster, and of the rest of the machine, between two samples.

use opplab_model::counters::Sample;

use crate::watts;

/// Mean power over one interval, in W.
#[derive(Debug, Clone, PartialEq)]
pub struct RailRow {
    /// End of the interval, in ns since the start.
    pub time_ns: u64,
    /// By cluster of the machine.
    pub cluster_w: Vec<f64>,
    /// Everything else that is metered.
    pub floor_w: f64,
}

/// One row for each pair of neighbouring samples.
pub fn rails(samples: &[Sample]) -> Vec<RailRow> {
    samples
        .windows(2)
        .map(|pair| {
            let time_ns = pair[1].time_ns - pair[0].time_ns;
            let cluster_w = pair[1]
                .cluster_energy_fj
                .iter()
                .zip(&pair[0].cluster_energy_fj)
                .map(|(end, begin)| watts(end - begin, time_ns))
                .collect();
            let floor_w = watts(pair[1].floor_energy_fj - pair[0].floor_energy_fj, time_ns);
            RailRow { time_ns: pair[1].time_ns, cluster_w, floor_w }
        })
        .collect()
}
