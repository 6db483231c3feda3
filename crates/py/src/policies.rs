//! Governors and placement policies written in Python: facts become the named tuples of `opplab.policies`, what the
//! user's method gives becomes a request.
//!
//! A run works on deep copies of the user's objects, one governor a cpufreq policy, so that the same case can run again.

use std::collections::BTreeMap;

use opplab_sim::hooks::{GovernorFacts, Hooks, PlacementFacts};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple, PyType};

use crate::error::raise;

/// The user's objects.
pub(crate) struct Policies {
    /// An `opplab.Governor`.
    pub(crate) governor: Option<Py<PyAny>>,
    /// An `opplab.Placement`.
    pub(crate) placement: Option<Py<PyAny>>,
}

impl Policies {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        let share = |object: &Option<Py<PyAny>>| object.as_ref().map(|object| object.clone_ref(py));
        Self { governor: share(&self.governor), placement: share(&self.placement) }
    }

    /// What results call the governor and the placement policy: by their classes.
    pub(crate) fn names(&self, py: Python<'_>) -> PyResult<[Option<String>; 2]> {
        let name = |object: &Option<Py<PyAny>>| {
            let class = object.as_ref().map(|object| object.bind(py).get_type().name()).transpose()?;
            Ok::<_, PyErr>(class.map(|class| format!("{class} (Python)")))
        };
        Ok([name(&self.governor)?, name(&self.placement)?])
    }
}

/// The user's objects at work in one run.
pub(crate) struct PyHooks {
    governor: Option<Py<PyAny>>,
    /// The governor of each cpufreq policy, by the policy's first CPU.
    governors: BTreeMap<u32, Py<PyAny>>,
    /// What the last answer was made of, if the governor gives it.
    reason: Option<(u32, u32)>,
    placement: Option<Py<PyAny>>,
    /// `GovernorFacts`, `GovernorCpu`, `PlacementFacts`, `PlacementCpu`.
    forms: [Py<PyType>; 4],
    /// What the user's code raised.
    error: Option<PyErr>,
}

fn copy(py: Python<'_>, object: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    Ok(py.import("copy")?.call_method1("deepcopy", (object,))?.unbind())
}

impl PyHooks {
    pub(crate) fn new(py: Python<'_>, policies: &Policies) -> PyResult<Self> {
        let module = py.import("opplab.policies")?;
        let form = |name: &str| -> PyResult<Py<PyType>> { Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind()) };
        Ok(Self {
            governor: policies.governor.as_ref().map(|object| object.clone_ref(py)),
            governors: BTreeMap::new(),
            reason: None,
            placement: policies.placement.as_ref().map(|object| copy(py, object)).transpose()?,
            forms: [form("GovernorFacts")?, form("GovernorCpu")?, form("PlacementFacts")?, form("PlacementCpu")?],
            error: None,
        })
    }

    /// The exception for a run that ended with `message`: the user's own error is its cause.
    pub(crate) fn raise(&mut self, py: Python<'_>, message: String) -> PyErr {
        match self.error.take() {
            Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => error,
            Some(error) => {
                let exception = raise(py, "CaseError", message);
                exception.set_cause(py, Some(error));
                exception
            }
            None => raise(py, "CaseError", message),
        }
    }

    /// Notes the user's error and gives it in one line.
    fn failed(&mut self, py: Python<'_>, method: &str, error: PyErr) -> String {
        let what = error.value(py).str().map(|text| text.to_string()).unwrap_or_default();
        let kind = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        let place = last_place(py, &error).unwrap_or_default();
        let colon = if what.is_empty() { "" } else { ": " };
        self.error = Some(error);
        format!("{method} failed: {kind}{colon}{what}{place}")
    }
}

/// Where the innermost frame of the traceback is, but for those of the facts themselves: ` (file:line)`.
fn last_place(py: Python<'_>, error: &PyErr) -> Option<String> {
    let own = py.import("opplab.policies").and_then(|module| module.getattr("__dict__")).ok()?;
    let mut frame = error.traceback(py)?.into_any();
    while let Ok(next) = frame.getattr("tb_next")
        && !next.is_none()
        && !next.getattr("tb_frame").ok()?.getattr("f_globals").ok()?.is(&own)
    {
        frame = next;
    }
    let line: u32 = frame.getattr("tb_lineno").ok()?.extract().ok()?;
    let code = frame.getattr("tb_frame").ok()?.getattr("f_code").ok()?;
    let file: String = code.getattr("co_filename").ok()?.extract().ok()?;
    Some(format!(" ({file}:{line})"))
}

/// Calls `object.method(facts)`; gives the number that it gives, and a message for anything else.
fn ask(
    object: &Bound<'_, PyAny>,
    method: &str,
    facts: &Bound<'_, PyAny>,
    wanted: &str,
) -> Result<Option<u32>, (String, PyErr)> {
    let name = object.get_type().name().map_or_else(|_| method.to_owned(), |class| format!("{class}.{method}"));
    let answer = object.call_method1(method, (facts,)).map_err(|error| (name.clone(), error))?;
    if answer.is_none() {
        return Ok(None);
    }
    // Python's bool is a whole number.
    let number = if answer.is_instance_of::<PyBool>() { None } else { answer.extract().ok() };
    number.map(Some).ok_or_else(|| {
        let given = answer.repr().map(|text| text.to_string()).unwrap_or_default();
        let message = format!("it must give {wanted} or None, not {given}");
        (name, pyo3::exceptions::PyTypeError::new_err(message))
    })
}

/// `decided_by` of a governor that has answered: a utilisation and the capacity that it is a part of, if it gives them.
fn decided_by(governor: &Bound<'_, PyAny>) -> Result<Option<(u32, u32)>, (String, PyErr)> {
    let Ok(given) = governor.getattr("decided_by") else { return Ok(None) };
    if given.is_none() {
        return Ok(None);
    }
    given.extract().ok().filter(|&(_, capacity)| capacity > 0).map(Some).ok_or_else(|| {
        let name = governor.get_type().name().map_or_else(|_| "governor".to_owned(), |class| class.to_string());
        let given = given.repr().map(|text| text.to_string()).unwrap_or_default();
        let message = format!("it must be (utilisation, capacity) or None, not {given}");
        (format!("{name}.decided_by"), pyo3::exceptions::PyTypeError::new_err(message))
    })
}

fn tuple<'py>(form: &Bound<'py, PyType>, fields: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    form.call1(PyTuple::new(form.py(), fields)?)
}

/// Fields of a named tuple, in its order.
macro_rules! fields {
    ($py:ident, $($value:expr),* $(,)?) => { vec![$($value.into_pyobject($py)?.to_owned().into_any()),*] };
}

impl PyHooks {
    fn governor_facts<'py>(&self, py: Python<'py>, facts: &GovernorFacts) -> PyResult<Bound<'py, PyAny>> {
        let cpus = facts
            .cpus
            .iter()
            .map(|cpu| {
                let fields = fields![
                    py,
                    cpu.cpu,
                    cpu.capacity,
                    cpu.util_cfs,
                    cpu.util_cfs_boost,
                    cpu.util_rt,
                    cpu.util_dl,
                    cpu.util_irq,
                    cpu.uclamp_min,
                    cpu.uclamp_max,
                    cpu.uclamp_used,
                    cpu.rt_runnable,
                    cpu.nr_running,
                    cpu.idle_calls,
                    cpu.bw_dl,
                    cpu.times.wall_us,
                    cpu.times.idle_us(false),
                ];
                tuple(self.forms[1].bind(py), fields)
            })
            .collect::<PyResult<Vec<_>>>()?;
        let fields = fields![
            py,
            facts.time_ns,
            facts.cpu,
            facts.iowait,
            PyTuple::new(py, cpus)?,
            facts.cur_khz,
            facts.requested_khz,
            facts.min_khz,
            facts.max_khz,
            facts.freq_ref_khz,
            PyTuple::new(py, &facts.table_khz)?,
            facts.freq_invariant,
            facts.rate_limit_us,
        ];
        tuple(self.forms[0].bind(py), fields)
    }

    fn placement_facts<'py>(&self, py: Python<'py>, facts: &PlacementFacts) -> PyResult<Bound<'py, PyAny>> {
        let cpus = facts
            .cpus
            .iter()
            .map(|cpu| {
                let fields = fields![
                    py,
                    cpu.cpu,
                    cpu.capacity,
                    cpu.capacity_of,
                    cpu.util_avg,
                    cpu.util_est,
                    cpu.nr_running,
                    cpu.idle,
                    cpu.khz,
                    cpu.allowed,
                    cpu.llc,
                ];
                tuple(self.forms[3].bind(py), fields)
            })
            .collect::<PyResult<Vec<_>>>()?;
        let fields = fields![
            py,
            facts.time_ns,
            facts.task,
            facts.name.as_str(),
            facts.fork,
            facts.prev_cpu,
            facts.waker_cpu,
            facts.waker,
            facts.sync,
            facts.util_avg,
            facts.util_est,
            PyTuple::new(py, cpus)?,
        ];
        tuple(self.forms[2].bind(py), fields)
    }

    fn ask_governor(&mut self, py: Python<'_>, facts: &GovernorFacts) -> Result<Option<u32>, (String, PyErr)> {
        let ours = |error: PyErr| (String::from("the governor"), error);
        let first = facts.cpus.first().map_or(0, |cpu| cpu.cpu);
        if !self.governors.contains_key(&first)
            && let Some(prototype) = &self.governor
        {
            self.governors.insert(first, copy(py, prototype).map_err(ours)?);
        }
        let Some(governor) = self.governors.get(&first).map(|governor| governor.bind(py).clone()) else {
            return Ok(None);
        };
        let told = self.governor_facts(py, facts).map_err(ours)?;
        // The reason of an answer before is none of this one's; a class may compute it, or not set it at all.
        let _ = governor.delattr("decided_by");
        let answer = ask(&governor, "update", &told, "a frequency in kHz")?;
        self.reason = decided_by(&governor)?;
        Ok(answer)
    }

    fn ask_placement(&self, py: Python<'_>, facts: &PlacementFacts) -> Result<Option<u32>, (String, PyErr)> {
        let Some(placement) = &self.placement else { return Ok(None) };
        let told = self.placement_facts(py, facts).map_err(|error| (String::from("the placement"), error))?;
        ask(placement.bind(py), "select", &told, "the number of a CPU")
    }
}

impl Hooks for PyHooks {
    fn governs(&self) -> bool {
        self.governor.is_some()
    }

    fn places(&self) -> bool {
        self.placement.is_some()
    }

    fn freq_khz(&mut self, facts: &GovernorFacts) -> Result<Option<u32>, String> {
        Python::attach(|py| self.ask_governor(py, facts).map_err(|(method, error)| self.failed(py, &method, error)))
    }

    fn reason(&mut self) -> Option<(u32, u32)> {
        self.reason
    }

    fn select_cpu(&mut self, facts: &PlacementFacts) -> Result<Option<u32>, String> {
        Python::attach(|py| self.ask_placement(py, facts).map_err(|(method, error)| self.failed(py, &method, error)))
    }
}
