//! The battery gauge of text 003 (Pixel 4): registered voltage is a mean over about 11 s, current one over about 6 s;
//! their product is the power. Of a test, the beginning and the end are trimmed.
//!
//! The battery is a voltage source with a resistance; its voltage does not fall as it empties.

use opplab_model::counters::Sample;

use crate::watts;

/// The gauge, the battery behind it, and how a test is evaluated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatteryConfig {
    /// Window of the voltage in ns.
    pub voltage_window_ns: u64,
    /// Window of the current in ns.
    pub current_window_ns: u64,
    /// Left out at the beginning, in ns.
    pub trim_begin_ns: u64,
    /// Left out at the end, in ns.
    pub trim_end_ns: u64,
    /// Open-circuit voltage in V.
    pub open_circuit_v: f64,
    /// Inner resistance in Ohm.
    pub resistance_ohm: f64,
}

impl Default for BatteryConfig {
    /// Text 003: 11 s, 6 s, 50 s and 10 s. Voltage (3.85 V nominal, lithium-ion) and resistance (0.1 Ohm) are assumed.
    fn default() -> Self {
        Self {
            voltage_window_ns: 11_000_000_000,
            current_window_ns: 6_000_000_000,
            trim_begin_ns: 50_000_000_000,
            trim_end_ns: 10_000_000_000,
            open_circuit_v: 3.85,
            resistance_ohm: 0.1,
        }
    }
}

/// What the gauge shows at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatteryReading {
    /// In ns since the start.
    pub time_ns: u64,
    /// Mean voltage over the window in V.
    pub voltage_v: f64,
    /// Mean current over the window in A.
    pub current_a: f64,
}

impl BatteryReading {
    /// Voltage x current, in W.
    pub fn power_w(&self) -> f64 {
        self.voltage_v * self.current_a
    }
}

/// Current that a load draws: the smaller root of P = (U - R I) I; half the short-circuit current if there is none.
fn current_a(config: &BatteryConfig, load_w: f64) -> f64 {
    let (u, r) = (config.open_circuit_v, config.resistance_ohm);
    if r <= 0.0 {
        return load_w / u;
    }
    let root = (u * u - 4.0 * r * load_w).max(0.0).sqrt();
    (u - root) / (2.0 * r)
}

/// Readings at every sample but the first. Windows are shorter while the run is younger than they are.
pub fn battery(samples: &[Sample], config: &BatteryConfig) -> Vec<BatteryReading> {
    // Charge and voltage x time up to each sample: a window's mean is a difference.
    let mut sums = vec![(0_u64, 0.0, 0.0)];
    let mut readings = Vec::new();
    for pair in samples.windows(2) {
        let total = |sample: &Sample| {
            let parts = sample.cluster_energy_fj.iter().chain(&sample.consumer_energy_fj);
            parts.sum::<u128>() + sample.floor_energy_fj
        };
        let span_ns = pair[1].time_ns - pair[0].time_ns;
        let current = current_a(config, watts(total(&pair[1]) - total(&pair[0]), span_ns));
        let voltage = config.open_circuit_v - config.resistance_ohm * current;
        let (_, charge, volts) = sums[sums.len() - 1];
        let now_ns = pair[1].time_ns - samples[0].time_ns;
        sums.push((now_ns, charge + current * span_ns as f64, volts + voltage * span_ns as f64));
        let mean = |window_ns: u64, value: fn(&(u64, f64, f64)) -> f64| {
            let from = sums.partition_point(|sum| sum.0 < now_ns.saturating_sub(window_ns)).min(sums.len() - 2);
            let (begin, end) = (&sums[from], &sums[sums.len() - 1]);
            (value(end) - value(begin)) / (end.0 - begin.0) as f64
        };
        readings.push(BatteryReading {
            time_ns: pair[1].time_ns,
            voltage_v: mean(config.voltage_window_ns, |sum| sum.2),
            current_a: mean(config.current_window_ns, |sum| sum.1),
        });
    }
    readings
}

/// Mean power over the part that is not trimmed, in W; `None` if nothing is left of the run.
pub fn battery_mean_w(readings: &[BatteryReading], config: &BatteryConfig) -> Option<f64> {
    let end_ns = readings.last()?.time_ns.checked_sub(config.trim_end_ns)?;
    let kept: Vec<f64> = readings
        .iter()
        .filter(|reading| (config.trim_begin_ns..=end_ns).contains(&reading.time_ns))
        .map(BatteryReading::power_w)
        .collect();
    if kept.is_empty() { None } else { Some(kept.iter().sum::<f64>() / kept.len() as f64) }
}
