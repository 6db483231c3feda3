//! Cases: what `opplab_sim::run` takes, and what it gives, as Python objects.

use opplab_guarded::guarded;
use opplab_model::case::{CaseFile, hash_text};
use opplab_model::experiment::parse_policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_replay::Change;
use opplab_sim::{Case, Start};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::error::{model_error, raise};
use crate::idle::{States, run_idle};
use crate::machine::PyMachine;
use crate::meter;
use crate::policies::Policies;
use crate::run::{self, HookedCase};
use crate::workload::PyWorkload;

/// Governor, f_max, energy model, kernel and tunables of a replay; what is none is as recorded.
pub(crate) type Changed = (Option<String>, Option<String>, Option<String>, Option<String>, Vec<(String, String)>);

/// The change that options name, if they name any.
pub(crate) fn change_of((governor, freq_max, energy_model, kernel, tunables): Changed) -> Option<Change> {
    let energy_model = energy_model.map(|name| match name.as_str() {
        "artificial" => EnergyModelSource::Artificial,
        "registered" => EnergyModelSource::Registered,
        _ => EnergyModelSource::None,
    });
    let change = Change { governor, freq_max, energy_model, kernel, tunables };
    (change != Change::default()).then_some(change)
}

/// One run to be made, with the labels that its results carry.
#[pyclass(frozen, name = "Case", module = "opplab._opplab")]
pub(crate) struct PyCase {
    file: CaseFile,
    policies: Option<Policies>,
}

impl PyCase {
    pub(crate) fn new(file: CaseFile) -> Self {
        Self { file, policies: None }
    }

    /// A case that belongs to no experiment.
    pub(crate) fn of(case: Case) -> Self {
        let Case { machine, workload, policy, seed, duration_ns } = case;
        Self::new(CaseFile {
            experiment: String::new(),
            benchmark: workload.name.clone(),
            param: String::new(),
            iteration: 0,
            seed,
            duration_ns,
            machine: machine.into(),
            workload: workload.into(),
            policy,
            start: Start::default(),
        })
    }

    /// The same case on a machine that was in use before.
    pub(crate) fn starting_from(mut self, start: Start) -> Self {
        self.file.start = start;
        self
    }

    fn case(&self, py: Python<'_>) -> HookedCase {
        let case = Case::from(self.file.clone());
        let policies = self.policies.as_ref().map(|policies| policies.clone_ref(py));
        HookedCase { case, policies, start: self.file.start.clone() }
    }
}

#[guarded]
#[pymethods]
impl PyCase {
    /// Puts a case together; `policy` is TOML with the keys of an experiment's `[[policy]]`.
    #[staticmethod]
    fn build(
        py: Python<'_>,
        machine: &PyMachine,
        workload: &PyWorkload,
        policy: &str,
        seed: u64,
        duration_ns: u64,
    ) -> PyResult<Self> {
        let machine = machine.inner.clone();
        let workload = workload.compile(py, &machine)?;
        let policy = parse_policy("policy", policy).map_err(|error| model_error(py, error))?;
        Ok(Self::of(Case { machine, workload, policy, seed, duration_ns }))
    }

    /// Reads a case from its canonical JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str) -> PyResult<Self> {
        let file = CaseFile::from_json("case", text).map_err(|error| model_error(py, error))?;
        Ok(Self::new(file))
    }

    /// The same case under a governor and a placement policy in Python; `None` leaves it to the case.
    fn with_policies(&self, governor: Option<Py<PyAny>>, placement: Option<Py<PyAny>>) -> Self {
        let file = self.file.clone();
        Self { file, policies: Some(Policies { governor, placement }) }
    }

    /// The same machine and time with nothing to do.
    fn without_work(&self) -> Self {
        Self::new(self.file.without_work())
    }

    /// The same case under its policy with a change, as `replay_trace` runs it.
    #[pyo3(signature = (tunables, governor=None, freq_max=None, energy_model=None, kernel=None))]
    fn changed(
        &self,
        tunables: Vec<(String, String)>,
        governor: Option<String>,
        freq_max: Option<String>,
        energy_model: Option<String>,
        kernel: Option<String>,
    ) -> Self {
        let mut file = self.file.clone();
        if let Some(change) = change_of((governor, freq_max, energy_model, kernel, tunables)) {
            file.policy = change.apply(&file.policy);
        }
        Self::new(file)
    }

    /// The case as canonical JSON.
    fn to_json(&self) -> String {
        self.file.to_json()
    }

    /// The name of the case's results, a hash of its JSON and of the version of opplab, and the length of that JSON.
    fn key(&self) -> (String, usize) {
        let text = self.file.to_json();
        (hash_text(&text), text.len())
    }

    #[getter]
    fn experiment(&self) -> &str {
        &self.file.experiment
    }

    #[getter]
    fn benchmark(&self) -> &str {
        &self.file.benchmark
    }

    #[getter]
    fn param(&self) -> &str {
        &self.file.param
    }

    #[getter]
    fn iteration(&self) -> u32 {
        self.file.iteration
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.file.seed
    }

    #[getter]
    fn duration_ns(&self) -> u64 {
        self.file.duration_ns
    }

    #[getter]
    fn machine(&self) -> &str {
        &self.file.machine.name
    }

    #[getter]
    fn kernel(&self) -> &str {
        &self.file.policy.kernel
    }

    #[getter]
    fn policy(&self) -> &str {
        &self.file.policy.label
    }

    #[getter]
    fn eas(&self) -> bool {
        self.file.policy.eas
    }

    /// Why the machine keeps the kernel from energy-aware scheduling; None if it has it, or nobody asks for it.
    fn why_no_eas(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let case = self.case(py);
        let why = opplab_sim::why_no_eas(&case.case).map_err(|error| raise(py, "CaseError", error.0))?;
        Ok(why.filter(|why| why.is_of_machine(&case.case.machine)).map(|why| why.to_string()))
    }

    /// Whether it runs with energy-aware scheduling; None if its kernel does not have it, on a machine that could.
    fn has_eas(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        let why = opplab_sim::why_no_eas(&self.case(py).case).map_err(|error| raise(py, "CaseError", error.0))?;
        Ok((why != Some(opplab_sim::NoEas::Kernel)).then_some(why.is_none()))
    }

    /// Whether it runs without energy-aware scheduling, and with it under schedutil.
    fn eas_needs_schedutil(&self, py: Python<'_>) -> PyResult<bool> {
        opplab_sim::eas_needs_schedutil(&self.case(py).case).map_err(|error| raise(py, "CaseError", error.0))
    }

    /// Each proposal that no policy of it reaches: its name, and the part of the kernel that it changes.
    fn unreached_proposals(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, String)>> {
        let found = opplab_sim::unreached_proposals(&self.case(py).case);
        let found = found.map_err(|error| raise(py, "CaseError", error.0))?;
        Ok(found.into_iter().map(|(name, within)| (name, within.to_string())).collect())
    }

    /// The energy preferences of which it is assumed what the firmware makes of them.
    fn assumed_preferences(&self, py: Python<'_>) -> PyResult<Vec<u16>> {
        let found = opplab_sim::assumed_preferences(&self.case(py).case);
        let found = found.map_err(|error| raise(py, "CaseError", error.0))?;
        Ok(found.into_iter().map(u16::from).collect())
    }

    /// When the last task of the workload begins, but for forked ones, in ns: as rt-app starts them, one after the other.
    fn begun_ns(&self, py: Python<'_>) -> u64 {
        self.case(py).case.workload.begun_ns()
    }

    /// Whether its kernel has utilisation clamps; the workload does not matter.
    fn has_clamps(&self, py: Python<'_>) -> PyResult<bool> {
        opplab_sim::has_clamps(&self.case(py).case).map_err(|error| raise(py, "CaseError", error.0))
    }

    /// The note, if real-time tasks of it avoid small CPUs only because its kernel is taken to be built with CONFIG_UCLAMP_TASK.
    fn boosted_by_build(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let found = opplab_sim::boosted_by_build(&self.case(py).case);
        Ok(found.map_err(|error| raise(py, "CaseError", error.0))?.then_some(opplab_sim::BOOSTED))
    }

    /// Whether its workload or policy clamps utilisation.
    fn asks_for_clamps(&self, py: Python<'_>) -> bool {
        opplab_sim::asks_for_clamps(&self.case(py).case)
    }

    /// Runs it, with the invariant checks if `check`; its rows have how long tasks waited if `latencies`.
    #[pyo3(signature = (check, latencies=false))]
    fn run<'py>(&self, py: Python<'py>, check: bool, latencies: bool) -> PyResult<Bound<'py, PyDict>> {
        run::metrics(py, &self.case(py), check, latencies)
    }

    /// Runs it and gives the events and decision records of `tables` (all events, if there is none):
    /// `{table: {column: array}}`.
    fn events<'py>(&self, py: Python<'py>, tables: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        run::events(py, &self.case(py), &tables)
    }

    /// Runs it and gives why CPUs were slow: the outcome, and rows of CPU, task, reason, kHz, ns slow, ns lost, fJ;
    /// the ns beside a busy thread of the core, and those lost of it.
    fn why_slow<'py>(&self, py: Python<'py>) -> PyResult<run::WhySlowResult<'py>> {
        run::why_slow(py, &self.case(py))
    }

    /// What explanations need to know of it beside its events.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = run::facts(py, &self.case(py))?;
        if let Some(policies) = &self.policies
            && let [Some(governor), _] = policies.names(py)?
        {
            facts.set_item("governor", governor)?;
        }
        if self.file.workload.name.is_empty() {
            // The programs of a model have no name of their own.
            let words = [self.file.benchmark.as_str(), self.file.param.as_str()];
            facts.set_item("workload", words.join(" ").trim())?;
        }
        Ok(facts)
    }

    /// Runs it and gives its events as a kernel trace: `perfetto`, `trace.dat` or `text`.
    fn trace<'py>(&self, py: Python<'py>, form: &str) -> PyResult<Bound<'py, PyBytes>> {
        run::trace(py, &self.case(py), form)
    }

    /// Runs it and gives what idle governors decide on its sleeps, as `trace_idle` does of a trace.
    fn idle<'py>(&self, py: Python<'py>, states: States, deciders: Vec<String>) -> PyResult<Bound<'py, PyList>> {
        run_idle(py, &self.case(py), &states, &deciders)
    }

    /// Runs it and gives what a meter shows that is read every `period_ns`: `{column: values}`, or turbostat's text.
    fn meter<'py>(&self, py: Python<'py>, name: &str, period_ns: u64) -> PyResult<Bound<'py, PyAny>> {
        meter::meter(py, &self.case(py), name, period_ns)
    }

    /// Runs it and gives rt-app's log of each task that has one: `[(file name, text)]`.
    fn rtapp_logs(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        run::rtapp_logs(py, &self.case(py))
    }
}
