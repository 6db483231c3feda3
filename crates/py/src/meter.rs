//! Meters on a run: rails, RAPL-like counters, turbostat's table, a battery gauge.

use opplab_meter::battery::{BatteryConfig, battery, battery_mean_w};
use opplab_meter::rails::rails;
use opplab_meter::rapl::{RaplConfig, rapl, rapl_watts};
use opplab_meter::turbostat::turbostat;
use opplab_model::samples::Samples;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::error::raise;
use crate::run::{HookedCase, simulate};

/// The meters by name.
pub(crate) const METERS: &[&str] = &["rails", "rapl", "turbostat", "battery"];

/// What `meter` shows of a run that is read every `period_ns`: `{column: values}`, or turbostat's text.
pub(crate) fn meter<'py>(
    py: Python<'py>,
    case: &HookedCase,
    meter: &str,
    period_ns: u64,
) -> PyResult<Bound<'py, PyAny>> {
    if !METERS.contains(&meter) {
        let near = opplab_model::error::nearest(meter, METERS.iter().copied());
        let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        return Err(raise(py, "InputError", format!("unknown meter `{meter}`{hint}")));
    }
    let mut sink = Samples::new(period_ns);
    simulate(py, case, &mut sink)?;
    let samples = sink.samples;
    let machine = &case.machine;
    if meter == "turbostat" {
        return Ok(PyString::new(py, &turbostat(machine, &samples, 0.0)).into_any());
    }
    let dict = PyDict::new(py);
    match meter {
        "rails" => {
            let rows = rails(&samples);
            dict.set_item("time_s", rows.iter().map(|row| row.time_ns as f64 * 1e-9).collect::<Vec<_>>())?;
            for (index, cluster) in machine.clusters.iter().enumerate() {
                let watts: Vec<f64> = rows.iter().map(|row| row.cluster_w[index]).collect();
                dict.set_item(format!("{}_w", cluster.name), watts)?;
            }
            dict.set_item("rest_w", rows.iter().map(|row| row.floor_w).collect::<Vec<_>>())?;
        }
        "rapl" => {
            let config = RaplConfig::of(machine);
            let readings = rapl(machine, &samples, config);
            let watts: Vec<Vec<f64>> = readings.windows(2).map(|pair| rapl_watts(&pair[0], &pair[1], config)).collect();
            let later = readings.get(1..).unwrap_or_default();
            dict.set_item("time_s", later.iter().map(|reading| reading.time_ns as f64 * 1e-9).collect::<Vec<_>>())?;
            for package in 0..readings.first().map_or(0, |reading| reading.packages.len()) {
                let units: Vec<u32> = later.iter().map(|reading| reading.packages[package]).collect();
                dict.set_item(format!("package{package}_units"), units)?;
                dict.set_item(format!("package{package}_w"), watts.iter().map(|row| row[package]).collect::<Vec<_>>())?;
            }
        }
        _ => {
            let config = BatteryConfig::default();
            let readings = battery(&samples, &config);
            if battery_mean_w(&readings, &config).is_none() {
                let message = "the battery gauge leaves out the first 50 s and the last 10 s: run longer than 60 s";
                return Err(raise(py, "InputError", String::from(message)));
            }
            let end_ns = readings.last().map_or(0, |reading| reading.time_ns) - config.trim_end_ns;
            let kept: Vec<bool> =
                readings.iter().map(|reading| (config.trim_begin_ns..=end_ns).contains(&reading.time_ns)).collect();
            dict.set_item("time_s", readings.iter().map(|reading| reading.time_ns as f64 * 1e-9).collect::<Vec<_>>())?;
            dict.set_item("voltage_v", readings.iter().map(|reading| reading.voltage_v).collect::<Vec<_>>())?;
            dict.set_item("current_a", readings.iter().map(|reading| reading.current_a).collect::<Vec<_>>())?;
            dict.set_item("power_w", readings.iter().map(|reading| reading.power_w()).collect::<Vec<_>>())?;
            dict.set_item("kept", kept)?;
        }
    }
    Ok(dict.into_any())
}
