//! Meters: what people read power from, made of a machine's counters ([`opplab_model::counters`]).
//!
//! * [`rails`]: watts of each cluster between two samples, without any error of a meter (Juno's energy counters, the
//!   Pixel 6's rails, an ideal integral).
//! * [`rapl`]: package counters with RAPL's unit, update period and 32-bit wrap.
//! * [`turbostat`]: turbostat's table in its own text format.
//! * [`battery`]: the battery gauge of text 003 (rolling voltage and current, trimmed).
//!
//! Meters do not know where the counters come from: a simulated run or a real machine. They see power only, so noise,
//! calibration errors and what a real gauge draws itself are not modelled.

pub mod battery;
pub mod rails;
pub mod rapl;
pub mod turbostat;

use opplab_model::counters::Sample;
use opplab_model::machine::Machine;

/// Of each package: the clusters whose CPUs it holds. A cluster over several packages counts to that of its first CPU.
pub fn clusters_by_package(machine: &Machine) -> Vec<Vec<usize>> {
    let packages = machine.cpus.iter().map(|place| place.package).max().map_or(0, |last| last as usize + 1);
    let mut by_package = vec![Vec::new(); packages];
    for (index, cluster) in machine.clusters.iter().enumerate() {
        if let Some(&cpu) = cluster.cpus.first() {
            by_package[machine.cpus[cpu as usize].package as usize].push(index);
        }
    }
    by_package
}

/// Energy of each package up to `sample`, in fJ: its clusters and what else draws from it (a GPU).
fn package_energies_fj(machine: &Machine, sample: &Sample) -> Vec<u128> {
    let by_package = clusters_by_package(machine);
    let clusters = by_package.iter().map(|clusters| clusters.iter().map(|&one| sample.cluster_energy_fj[one]).sum());
    let mut energies: Vec<u128> = clusters.collect();
    for (consumer, energy_fj) in machine.consumers.iter().zip(&sample.consumer_energy_fj) {
        energies[consumer.package as usize] += energy_fj;
    }
    energies
}

/// fJ and ns as W.
fn watts(energy_fj: u128, time_ns: u64) -> f64 {
    if time_ns == 0 { 0.0 } else { energy_fj as f64 / time_ns as f64 * 1e-6 }
}

#[cfg(test)]
mod tests;
