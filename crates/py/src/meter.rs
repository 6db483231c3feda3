//! Meters on a run: rails, RAPL-like counters, turbostat's table, a battery gauge, energy by task.

use opplab_meter::battery::{BatteryConfig, battery, battery_mean_w};
use opplab_meter::rails::rails;
use opplab_meter::rapl::{RaplConfig, rapl, rapl_watts};
use opplab_meter::turbostat::turbostat;
use opplab_model::samples::Samples;
use opplab_sim::task_energy::{TaskEnergy, Used};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::energy::need_power;
use crate::error::raise;
use crate::run::{HookedCase, simulate};

/// The meters by name.
pub(crate) const METERS: &[&str] = &["rails", "rapl", "turbostat", "battery", "tasks"];

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
    if meter != "turbostat" {
        need_power(py, &case.case.machine)?;
    }
    if meter == "tasks" {
        return Ok(tasks(py, case)?.into_any());
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
            for (index, consumer) in machine.consumers.iter().enumerate() {
                let watts: Vec<f64> = rows.iter().map(|row| row.consumer_w[index]).collect();
                dict.set_item(format!("{}_w", consumer.name), watts)?;
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

/// Energy of each task of a run, and of nobody (idle CPUs, consumers that are no CPU, the rest of the machine), as columns.
fn tasks<'py>(py: Python<'py>, case: &HookedCase) -> PyResult<Bound<'py, PyDict>> {
    let mut sink = TaskEnergy::new(&case.machine);
    let outcome = simulate(py, case, &mut sink)?;
    let end_ns = outcome.wall_ns + outcome.warmup.wall_ns;
    let (mut used, nobody) = sink.finish(end_ns);
    used.resize(outcome.task_names.len(), Used::default());
    used.push(nobody);
    // What is neither a CPU's nor a cluster's.
    let consumers = outcome.consumers.iter().map(|one| (format!("({})", one.name), one.energy_fj + one.warmup_fj));
    let floor_fj = u128::from(case.machine.floor_uw) * u128::from(end_ns);
    let others: Vec<_> = consumers.chain([("(rest of the machine)".to_owned(), floor_fj)]).collect();
    let dict = PyDict::new(py);
    let joules = |fj: u128| fj as f64 * 1e-15;
    let tasks = outcome.task_names.len();
    dict.set_item("task", (0..tasks).map(Some).chain((0..=others.len()).map(|_| None)).collect::<Vec<_>>())?;
    let names = outcome.task_names.iter().map(String::as_str).chain(["(idle)"]);
    let names = names.chain(others.iter().map(|(name, _)| name.as_str()));
    dict.set_item("name", names.collect::<Vec<_>>())?;
    let column = |of: fn(&Used) -> u128, is_whole: bool| {
        let rest = others.iter().map(|&(_, fj)| is_whole.then(|| joules(fj)));
        used.iter().map(|one| Some(joules(of(one)))).chain(rest).collect::<Vec<_>>()
    };
    dict.set_item("energy_j", column(Used::total_fj, true))?;
    dict.set_item("cpu_j", column(|one| one.cpu_fj, false))?;
    dict.set_item("shared_j", column(|one| one.shared_fj, false))?;
    Ok(dict)
}
