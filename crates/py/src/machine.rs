//! Machine files.

use opplab_guarded::guarded;
use opplab_model::cpus::format_cpu_list;
use opplab_model::file::{machine_to_toml, parse_machine};
use opplab_model::machine::{Cluster, Cpufreq, IdleState, InvarianceSource, Machine, PolicyShare};
use opplab_model::range::Bounds;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::model_error;

/// A validated machine.
#[pyclass(frozen, name = "Machine", module = "opplab._opplab")]
pub(crate) struct PyMachine {
    pub(crate) inner: Machine,
}

#[guarded]
#[pymethods]
impl PyMachine {
    /// Reads the text of a machine file; `file` is its name for messages.
    #[staticmethod]
    fn parse(py: Python<'_>, file: &str, text: &str) -> PyResult<Self> {
        let machine = parse_machine(file, text).map_err(|error| model_error(py, error))?;
        Ok(Self { inner: machine })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn provenance(&self) -> &str {
        &self.inner.provenance
    }

    #[getter]
    fn nr_cpus(&self) -> usize {
        self.inner.nr_cpus()
    }

    #[getter]
    fn unknown_power(&self) -> Vec<&str> {
        self.inner.unknown_power()
    }

    #[getter]
    fn drivers(&self) -> Vec<&str> {
        let others = self.inner.other_drivers.iter();
        std::iter::once(&self.inner.cpufreq).chain(others).map(|driver| driver.driver.entry().name).collect()
    }

    /// The machine as a machine file.
    fn to_toml(&self) -> String {
        machine_to_toml(&self.inner)
    }

    /// The same machine under another name.
    fn renamed(&self, name: &str) -> Self {
        Self { inner: Machine { name: name.to_owned(), ..self.inner.clone() } }
    }

    /// What a busy CPU of a cluster, and its shared logic, draw at a clock, also between and above the operating points, uW.
    fn point_power(&self, cluster: usize, khz: u32) -> PyResult<(u64, u64)> {
        let found = self.inner.clusters.get(cluster).ok_or_else(|| PyIndexError::new_err("no such cluster"))?;
        let point = found.point_at(khz);
        Ok((point.busy_uw, point.cluster_uw))
    }

    /// The machine with all powers at the lower, and with all at the upper ends of their ranges; nothing without any. Of each there may
    /// be two, which share a measured sum between CPUs and cluster in unlike ways.
    fn power_ends(&self) -> (Vec<Self>, Vec<Self>) {
        let of = |machines: Vec<Machine>| machines.into_iter().map(|inner| Self { inner }).collect();
        self.inner.power_ends().map_or_else(Default::default, |ends| (of(ends.low), of(ends.high)))
    }

    /// Everything about the machine, as dicts and lists.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let machine = &self.inner;
        let dict = PyDict::new(py);
        set_fields!(dict, machine; name, provenance);
        dict.set_item("nr_cpus", machine.nr_cpus())?;
        let invariance = match machine.invariance {
            InvarianceSource::FreqChange => "freq-change",
            InvarianceSource::CountersAtTick => "counters-at-tick",
            InvarianceSource::Absent => "none",
        };
        dict.set_item("invariance", invariance)?;
        dict.set_item("floor_uw", machine.floor_uw)?;
        if let Some(processor) = &machine.processor {
            let about = PyDict::new(py);
            set_fields!(about, processor; vendor, family, model, stepping, model_name);
            dict.set_item("processor", about)?;
        }
        if let Some(power) = &machine.package_power {
            let about = PyDict::new(py);
            about.set_item("tdp_uw", known(power.tdp_uw))?;
            about.set_item("pl1_uw", known(power.pl1_uw))?;
            about.set_item("pl1_window_ns", known(power.pl1_window_ns))?;
            about.set_item("pl2_uw", known(power.pl2_uw))?;
            about.set_item("pl2_window_ns", known(power.pl2_window_ns))?;
            dict.set_item("package_power", about)?;
        }
        let drivers = PyList::empty(py);
        for driver in std::iter::once(&machine.cpufreq).chain(&machine.other_drivers) {
            drivers.append(describe_driver(py, driver)?)?;
        }
        dict.set_item("drivers", drivers)?;
        let clusters = PyList::empty(py);
        for cluster in &machine.clusters {
            let about = describe_cluster(py, cluster)?;
            about.set_item("opps_only", machine.runs_at_opps_only(cluster))?;
            clusters.append(about)?;
        }
        dict.set_item("clusters", clusters)?;
        let places = PyList::empty(py);
        for (cpu, place) in machine.cpus.iter().enumerate() {
            let entry = PyDict::new(py);
            entry.set_item("cpu", cpu)?;
            set_fields!(entry, place; cluster, core, llc, node, package);
            places.append(entry)?;
        }
        dict.set_item("cpus", places)?;
        let sources = PyDict::new(py);
        for (what, source) in &machine.sources {
            sources.set_item(what, source)?;
        }
        dict.set_item("sources", sources)?;
        let ranges = PyDict::new(py);
        for range in &machine.ranges {
            let percent = |low: &u32, high: &u32| (format!("{low} %"), format!("{high} %"));
            match &range.bounds {
                Bounds::Between(low, high) => ranges.set_item(range.key(), (low, high))?,
                Bounds::Percent(low, high) => ranges.set_item(range.key(), percent(low, high))?,
                Bounds::PercentByOpp(of) => {
                    let of: Vec<_> = of.iter().map(|(low, high)| percent(low, high)).collect();
                    ranges.set_item(range.key(), of)?;
                }
            }
        }
        dict.set_item("ranges", ranges)?;
        Ok(dict)
    }
}

/// A number of which 0 stands for unknown in machine files; unknown is `None` in Python and null in JSON.
fn known<T: PartialEq + Default>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn describe_driver<'py>(py: Python<'py>, driver: &Cpufreq) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("driver", driver.driver.name)?;
    let latency_ns = driver.transition_latency_ns;
    dict.set_item(
        "transition_latency_ns",
        if driver.driver.zero_is_unknown { known(latency_ns) } else { Some(latency_ns) },
    )?;
    set_fields!(dict, driver; fast_switch, switch_ns, dvfs_possible_from_any_cpu, freq_table);
    Ok(dict)
}

fn describe_idle<'py>(py: Python<'py>, states: &[IdleState], powered: bool) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for state in states {
        let dict = PyDict::new(py);
        set_fields!(dict, state; name, entry_latency_ns, exit_latency_ns, target_residency_ns);
        dict.set_item("power_uw", powered.then_some(state.power_uw))?;
        list.append(dict)?;
    }
    Ok(list)
}

fn describe_cluster<'py>(py: Python<'py>, cluster: &Cluster) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &cluster.name)?;
    dict.set_item("cpus", format_cpu_list(&cluster.cpus))?;
    dict.set_item("nr_cpus", cluster.cpus.len())?;
    dict.set_item("capacity", cluster.capacity)?;
    let policy = match cluster.policy {
        PolicyShare::Shared => "shared",
        PolicyShare::Core => "core",
        PolicyShare::Cpu => "cpu",
    };
    dict.set_item("policy", policy)?;
    let powered = cluster.has_power();
    let opps = PyList::empty(py);
    for opp in &cluster.opps {
        let entry = PyDict::new(py);
        entry.set_item("khz", opp.khz)?;
        entry.set_item("mv", known(opp.mv))?;
        entry.set_item("power_uw", known(opp.power_uw))?;
        entry.set_item("busy_uw", known(opp.busy_uw))?;
        entry.set_item("cluster_uw", powered.then_some(opp.cluster_uw))?;
        entry.set_item("idle_uw", opp.idle_uw)?;
        entry.set_item("cluster_idle_uw", opp.cluster_idle_uw)?;
        opps.append(entry)?;
    }
    dict.set_item("opps", opps)?;
    dict.set_item("idle", describe_idle(py, &cluster.idle, powered)?)?;
    dict.set_item("cluster_idle_uw", cluster.cluster_idle_uw)?;
    dict.set_item("cluster_idle", describe_idle(py, &cluster.cluster_idle, powered)?)?;
    dict.set_item("efficiency_class", cluster.efficiency_class)?;
    dict.set_item("base_khz", known(cluster.base_khz))?;
    let turbo = cluster.turbo.iter().map(|bin| (bin.active_cores, bin.khz));
    dict.set_item("turbo", turbo.collect::<Vec<_>>())?;
    Ok(dict)
}
