//! Cases: what `opplab_sim::run` takes, and what it gives, as Python objects.

use opplab_model::error::nearest;
use opplab_model::policy::{EnergyModelSource, Placement, Policy};
use opplab_sim::Case;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::error::raise;
use crate::machine::PyMachine;
use crate::run;
use crate::workload::PyWorkload;

const POLICY_KEYS: &[&str] = &[
    "label",
    "kernel",
    "driver",
    "governor",
    "tunables",
    "idle_governor",
    "eas",
    "energy_model",
    "freq_max",
    "invariance",
    "gates",
    "hz",
    "pelt_half_life_ms",
    "sugov_cpus",
    "no_overutilized",
    "reversed_energy_model",
    "placement",
];

/// A policy from a dict of its fields; those that are not given have their defaults.
pub(crate) fn policy_from(py: Python<'_>, fields: &Bound<'_, PyDict>) -> PyResult<Policy> {
    let mut policy = Policy::default();
    for (key, value) in fields {
        let key: String = key.extract()?;
        match key.as_str() {
            "label" => policy.label = value.extract()?,
            "kernel" => policy.kernel = value.extract()?,
            "driver" => policy.driver = value.extract()?,
            "governor" => policy.governor = value.extract()?,
            "tunables" => policy.tunables = value.cast::<PyDict>()?.items().extract()?,
            "idle_governor" => policy.idle_governor = value.extract()?,
            "eas" => policy.eas = value.extract()?,
            "energy_model" => {
                policy.energy_model = match value.extract::<&str>()? {
                    "none" => EnergyModelSource::None,
                    "registered" => EnergyModelSource::Registered,
                    "artificial" => EnergyModelSource::Artificial,
                    other => return Err(unknown(py, "energy model", other, &["none", "registered", "artificial"])),
                }
            }
            "freq_max" => policy.freq_max = value.extract()?,
            "invariance" => policy.invariance = value.extract()?,
            "gates" => policy.gates = value.cast::<PyDict>()?.items().extract()?,
            "hz" => policy.hz = value.extract()?,
            "pelt_half_life_ms" => policy.pelt_half_life_ms = value.extract()?,
            "sugov_cpus" => policy.sugov_cpus = value.extract()?,
            "no_overutilized" => policy.no_overutilized = value.extract()?,
            "reversed_energy_model" => policy.reversed_energy_model = value.extract()?,
            "placement" => {
                policy.placement = match value.extract::<&str>()? {
                    "kernel" => Placement::Kernel,
                    "random" => Placement::Random,
                    other => return Err(unknown(py, "placement", other, &["kernel", "random"])),
                }
            }
            other => return Err(unknown(py, "policy field", other, POLICY_KEYS)),
        }
    }
    Ok(policy)
}

fn unknown(py: Python<'_>, what: &str, name: &str, valid: &[&str]) -> PyErr {
    let near = nearest(name, valid.iter().copied());
    let hint = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    raise(py, "InputError", format!("unknown {what} `{name}`{hint}"))
}

/// One run to be made.
#[pyclass(frozen, name = "Case", module = "opplab._opplab")]
pub(crate) struct PyCase {
    inner: Case,
}

#[pymethods]
impl PyCase {
    /// Puts a case together.
    #[staticmethod]
    fn build(
        py: Python<'_>,
        machine: &PyMachine,
        workload: &PyWorkload,
        policy: &Bound<'_, PyDict>,
        seed: u64,
        duration_ns: u64,
    ) -> PyResult<Self> {
        let machine = machine.inner.clone();
        let workload = workload.compile(py, &machine)?;
        let policy = policy_from(py, policy)?;
        Ok(Self { inner: Case { machine, workload, policy, seed, duration_ns } })
    }

    /// Runs it; see `opplab.cases` for what comes back.
    fn run<'py>(&self, py: Python<'py>, check: bool) -> PyResult<Bound<'py, PyDict>> {
        run::metrics(py, &self.inner, check)
    }

    /// Runs it and gives the events of `tables` (all, if there is none): `{table: {column: array}}`.
    fn events<'py>(&self, py: Python<'py>, tables: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        run::events(py, &self.inner, &tables)
    }

    /// Runs it and gives its events as a Perfetto trace.
    fn perfetto<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        run::perfetto(py, &self.inner)
    }
}
