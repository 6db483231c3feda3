//! Kernel profiles and their gates.

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::profile::{GATES, KernelProfile, profile_names};
use opplab_kernel::profile_table::{differences, proven_text};
use opplab_kernel::release;
use opplab_kernel::release::Version;
use pyo3::prelude::*;

use super::{profile, refuse, unknown};

/// Rows of the table of gates: gate, what, value, since, meaning, source, proof.
type GateRow = (&'static str, &'static str, &'static str, Option<String>, &'static str, String, String);

/// Rows of a comparison of two kernels: gate, what; value and meaning before; value and meaning after; the release that
/// brought it, its source.
type DiffRow = (&'static str, &'static str, (&'static str, String), (&'static str, String), Option<String>, String);

#[guarded]
#[pyfunction]
pub(super) fn profiles() -> Vec<&'static str> {
    profile_names().collect()
}

#[guarded]
#[pyfunction]
pub(super) fn gates() -> Vec<GateRow> {
    let rows = GATES.iter().flat_map(|gate| gate.values.iter().map(move |value| (gate, value)));
    rows.map(|(gate, value)| {
        (gate.name, gate.what, value.name, value.since_text(), value.what, value.source_text(), value.proof.text())
    })
    .collect()
}

/// What the name of a kernel leaves open; `None` where it leaves nothing open.
#[guarded]
#[pyfunction]
pub(super) fn kernel_note(name: &str) -> Option<String> {
    release::parse(name)?.note()
}

/// The gates that differ between two kernels.
#[guarded]
#[pyfunction]
pub(super) fn kernel_diff(py: Python<'_>, before: &str, after: &str) -> PyResult<Vec<DiffRow>> {
    let found = differences(&profile(py, before)?, &profile(py, after)?);
    Ok(found
        .iter()
        .map(|found| {
            let (before, after) = (found.before, found.after);
            (
                found.gate.name,
                found.gate.what,
                (before.name, found.before_meaning()),
                (after.name, found.after_meaning()),
                after.since_text(),
                found.source_text(),
            )
        })
        .collect())
}

#[pyclass(subclass, name = "KernelProfile", module = "opplab._opplab.kernel")]
pub(super) struct PyKernelProfile {
    inner: KernelProfile,
}

#[guarded]
#[pymethods]
impl PyKernelProfile {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(Self { inner: profile(py, name)? })
    }

    #[getter]
    fn version(&self) -> Version {
        self.inner.version
    }

    #[getter]
    fn point(&self) -> u16 {
        self.inner.point
    }

    #[getter]
    fn proven(&self) -> String {
        proven_text(Some(&self.inner))
    }

    fn show(&self, py: Python<'_>, gate: &str) -> PyResult<&'static str> {
        let known: Vec<&str> = GATES.iter().map(|gate| gate.name).collect();
        self.inner.show(gate).ok_or_else(|| unknown(py, "gate", gate, &known))
    }

    fn set(&mut self, py: Python<'_>, gate: &str, value: &str) -> PyResult<()> {
        self.inner.set(gate, value).map_err(|error| refuse(py, error))
    }

    fn gates(&self) -> Vec<(&'static str, &'static str)> {
        GATES.iter().filter_map(|gate| Some((gate.name, self.inner.show(gate.name)?))).collect()
    }

    #[pyo3(signature = (*, transition_delay_us = 0, transition_latency_ns = 0, driver = ""))]
    fn rate_limit_us(
        &self,
        py: Python<'_>,
        transition_delay_us: u32,
        transition_latency_ns: u32,
        driver: &str,
    ) -> PyResult<u32> {
        let latency_ns = match DriverId::named(driver) {
            Some(driver) => driver.transition_latency_ns(transition_latency_ns.into(), &self.inner),
            None if driver.is_empty() => transition_latency_ns,
            None => {
                let known: Vec<&str> = DriverId::all().map(|one| one.name).collect();
                return Err(unknown(py, "driver", driver, &known));
            }
        };
        Ok(self.inner.rate_limit_us(transition_delay_us, latency_ns))
    }

    fn __repr__(&self) -> PyResult<String> {
        let gates: Vec<String> = self.gates()?.iter().map(|(gate, value)| format!("{gate}={value:?}")).collect();
        Ok(format!("KernelProfile({:?}, {})", self.inner.release_text(), gates.join(", ")))
    }
}
