use opplab_model::counters::{CpuCounters, Sample};

use crate::battery::{BatteryConfig, battery, battery_mean_w};
use crate::rapl::{RaplConfig, RaplReading, rapl_watts};
use crate::turbostat::derive;

/// A machine whose only cluster draws `power_uw(t)` from t = 0 in steps of `period_ns`.
fn samples(period_ns: u64, count: u64, power_uw: impl Fn(u64) -> u64) -> Vec<Sample> {
    let mut energy_fj = 0;
    (0..=count)
        .map(|index| {
            let sample = Sample {
                time_ns: index * period_ns,
                cpus: vec![CpuCounters::default()],
                cluster_energy_fj: vec![energy_fj],
                consumer_energy_fj: Vec::new(),
                floor_energy_fj: 0,
            };
            energy_fj += u128::from(power_uw(index)) * u128::from(period_ns);
            sample
        })
        .collect()
}

#[test]
fn battery_shows_a_steady_load_exactly_and_a_step_late() {
    let config = BatteryConfig::default();
    let steady = battery(&samples(1_000_000_000, 120, |_| 620_000), &config);
    let mean = battery_mean_w(&steady, &config).expect("60 s are left");
    assert!((mean - 0.62).abs() < 1e-9, "{mean}");
    // A step at 60 s: half of the current's window after it, the gauge shows half of the step.
    let step = battery(&samples(1_000_000_000, 120, |index| if index < 60 { 500_000 } else { 1_500_000 }), &config);
    let at = |seconds: u64| step.iter().find(|reading| reading.time_ns == seconds * 1_000_000_000).expect("a reading");
    assert!((at(60).power_w() - 0.5).abs() < 1e-9);
    assert!((at(63).current_a / at(90).current_a - 2.0 / 3.0).abs() < 0.01);
    assert!((at(71).power_w() - 1.5).abs() < 1e-9);
    assert!(at(66).power_w() > 1.5, "the voltage is still that of the smaller load");
}

#[test]
fn battery_of_a_short_run_has_no_mean() {
    let config = BatteryConfig::default();
    assert_eq!(battery_mean_w(&battery(&samples(1_000_000_000, 55, |_| 1), &config), &config), None);
    assert_eq!(battery_mean_w(&battery(&[], &config), &config), None);
}

#[test]
fn rapl_counters_wrap_and_count_in_units() {
    let config = RaplConfig::default();
    let reading = |time_ns, units| RaplReading { time_ns, packages: vec![units] };
    // 16384 units are 1 J.
    let watts = rapl_watts(&reading(0, u32::MAX - 8191), &reading(1_000_000_000, 8192), config);
    assert_eq!(watts, vec![1.0]);
    assert_eq!(RaplConfig::AMD.joules(65536), 1.0);
}

#[test]
fn derived_columns_obey_turbostats_identities() {
    let derived = derive(3_000_000_000, 2_000_000_000, 8_000_000_000, 4.0, 1);
    assert_eq!(derived.avg_mhz, 750.0);
    assert_eq!(derived.busy_pct, 25.0);
    assert_eq!(derived.bzy_mhz, 3000.0);
    assert_eq!(derived.tsc_mhz, 2000.0);
    assert!((derived.avg_mhz - derived.busy_pct / 100.0 * derived.bzy_mhz).abs() < 1e-9);
    assert_eq!(derive(0, 0, 8, 1.0, 1).bzy_mhz, 0.0);
    assert_eq!(derive(1, 1, 0, 0.0, 1).avg_mhz, 0.0);
}
