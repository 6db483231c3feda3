//! Experiment files, expanded to cases.

use std::collections::BTreeMap;

use opplab_guarded::guarded;
use opplab_model::benchmark::background::{Background, BackgroundTask};
use opplab_model::case::CaseFile;
use opplab_model::experiment::{Compare, Experiment, SourceText, parse_experiment};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::case::PyCase;
use crate::error::model_error;

/// Name, the one CPU or none, sleeps in ns, lengths in cycles.
type TaskOfBackground = (String, Option<u32>, Vec<u64>, Vec<u64>);

/// An experiment as it was written.
#[pyclass(name = "Experiment", module = "opplab._opplab")]
pub(crate) struct PyExperiment {
    inner: Experiment,
}

#[guarded]
#[pymethods]
impl PyExperiment {
    /// Reads the text of an experiment file; `file` is its name for messages.
    #[staticmethod]
    fn parse(py: Python<'_>, file: &str, text: &str) -> PyResult<Self> {
        let inner = parse_experiment(file, text).map_err(|error| model_error(py, error))?;
        Ok(Self { inner })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    #[getter]
    fn about(&self) -> &str {
        &self.inner.about
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.inner.notes.clone()
    }

    #[getter]
    fn published(&self) -> &str {
        &self.inner.published
    }

    /// Whether machines whose file has no power get a generic curve.
    #[getter]
    fn generic_power(&self) -> bool {
        self.inner.generic_power
    }

    /// Name or file of the tasks that run beside every workload; empty: none.
    #[getter]
    fn background(&self) -> &str {
        &self.inner.background
    }

    /// Sets the tasks of the background, and how many CPUs the machine had that was recorded.
    fn set_background(&mut self, nr_cpus: u32, tasks: Vec<TaskOfBackground>) {
        let task = |(name, cpu, wait_ns, cycles)| BackgroundTask { name, cpu, wait_ns, cycles };
        self.inner.beside = Background { nr_cpus, tasks: tasks.into_iter().map(task).collect() };
    }

    #[getter]
    fn baseline(&self) -> &str {
        &self.inner.baseline
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    #[getter]
    fn iterations(&self) -> u32 {
        self.inner.iterations
    }

    /// When fewer iterations are enough: largest half-width as a share of the mean in millionths, metric, fewest.
    #[getter]
    fn until(&self) -> Option<(u32, &str, u32)> {
        self.inner.until.as_ref().map(|until| (until.ci_ppm, until.metric.as_str(), until.min))
    }

    #[getter]
    fn labels(&self) -> Vec<String> {
        self.inner.labels.clone()
    }

    /// What of the published text is compared: one dict a `[[compare]]`.
    fn compare<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entry = |compare: &Compare| {
            let dict = PyDict::new(py);
            set_fields!(dict, compare; table, machine, benchmark, metric, workloads, over_time, simulated);
            dict.set_item("variants", compare.variants.clone().into_py_dict(py)?)?;
            dict.set_item("calibration", compare.calibration)?;
            Ok(dict)
        };
        self.inner.compare.iter().map(entry).collect()
    }

    #[getter]
    fn finding(&self) -> &str {
        &self.inner.finding
    }

    /// The points that stand for all when there is little time: (workload, parameters); no parameters: all of them.
    #[getter]
    fn quick(&self) -> Vec<(String, String)> {
        self.inner.quick.clone()
    }

    /// Names of the machines whose files are needed.
    fn machines(&self) -> Vec<String> {
        self.inner.machines().map(str::to_owned).collect()
    }

    /// Paths of the rt-app files that are needed, relative to the experiment's own folder.
    fn rtapp_files(&self) -> Vec<String> {
        self.inner.rtapp_files().map(str::to_owned).collect()
    }

    /// Names of the calibrations that are needed.
    fn calibrations(&self) -> Vec<String> {
        self.inner.calibrations().map(str::to_owned).collect()
    }

    /// Takes over fitted constants; `sources` is `{name: (file, text)}`.
    fn calibrate(&mut self, py: Python<'_>, sources: BTreeMap<String, (String, String)>) -> PyResult<()> {
        let sources = sources.into_iter().map(|(name, (file, text))| (name, SourceText { file, text })).collect();
        self.inner.calibrate(&sources).map_err(|error| model_error(py, error))
    }

    /// The free constants that the file does not set: `[(workload, benchmark, name, value, calibration)]`.
    fn constants(&self) -> Vec<(String, &'static str, &'static str, u64, Option<String>)> {
        let constants = self.inner.constants().into_iter();
        constants
            .map(|one| (one.label.to_owned(), one.benchmark, one.name, one.value, one.calibration.map(str::to_owned)))
            .collect()
    }

    /// Labels of the workloads that write to the machine's own disk.
    fn on_own_disk(&self) -> Vec<String> {
        self.inner.on_own_disk().map(str::to_owned).collect()
    }

    /// Sets a whole number of a workload, for fitting.
    fn set_param(&mut self, label: &str, name: &str, value: u64) -> PyResult<()> {
        self.inner.set_param(label, name, value).map_err(pyo3::exceptions::PyValueError::new_err)
    }

    /// Replaces the number of iterations, the first seed and the duration, where given.
    #[pyo3(signature = (iterations=None, seed=None, duration_ns=None))]
    fn adjust(&mut self, iterations: Option<u32>, seed: Option<u64>, duration_ns: Option<u64>) {
        self.inner.adjust(iterations, seed, duration_ns);
    }

    /// The cases; both arguments are `{name: (file, text)}`.
    fn expand(
        &self,
        py: Python<'_>,
        machines: BTreeMap<String, (String, String)>,
        rtapp_files: BTreeMap<String, (String, String)>,
    ) -> PyResult<Vec<PyCase>> {
        let sources = |texts: BTreeMap<String, (String, String)>| -> BTreeMap<String, SourceText> {
            texts.into_iter().map(|(name, (file, text))| (name, SourceText { file, text })).collect()
        };
        let (machines, rtapp_files) = (sources(machines), sources(rtapp_files));
        let cases: Vec<CaseFile> =
            self.inner.expand(&machines, &rtapp_files).map_err(|error| model_error(py, error))?;
        Ok(cases.into_iter().map(PyCase::new).collect())
    }
}
