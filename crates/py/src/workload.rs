//! rt-app workload files.

use opplab_guarded::guarded;
use opplab_model::machine::Machine;
use opplab_model::rtapp::{CompileOptions, ParseOptions, Repeats, RtApp, parse};
use opplab_model::workload::Workload;
use pyo3::prelude::*;

use crate::error::{model_error, raise};

/// A workload file that was read, but not yet compiled for a machine.
#[pyclass(frozen, name = "Workload", module = "opplab._opplab")]
pub(crate) struct PyWorkload {
    name: String,
    file: String,
    tree: RtApp,
}

impl PyWorkload {
    /// Compiles the file for a machine.
    pub(crate) fn compile(&self, py: Python<'_>, machine: &Machine) -> PyResult<Workload> {
        let capacities = opplab_model::experiment::capacities(machine);
        let options = CompileOptions { name: &self.name, machine: &machine.name, capacities: &capacities };
        self.tree.compile(&self.file, &options).map_err(|error| model_error(py, error))
    }
}

#[guarded]
#[pymethods]
impl PyWorkload {
    /// Reads the text of an rt-app file. `repeats` selects what repeated keys mean: `json-c` or `workgen`.
    #[staticmethod]
    fn parse(py: Python<'_>, name: String, file: String, text: &str, repeats: &str) -> PyResult<Self> {
        let repeats = match repeats {
            "json-c" => Repeats::JsonC,
            "workgen" => Repeats::Workgen,
            other => {
                return Err(raise(py, "InputError", format!("unknown treatment of repeats `{other}`")));
            }
        };
        let options = ParseOptions { repeats, ..ParseOptions::default() };
        let tree = parse(&file, text, options).map_err(|error| model_error(py, error))?;
        Ok(Self { name, file, tree })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Duration that the file asks for in s, if it does.
    #[getter]
    fn duration_s(&self) -> Option<u64> {
        self.tree.global.duration_s
    }

    /// Number of events.
    #[getter]
    fn nr_events(&self) -> usize {
        self.tree.nr_events()
    }

    /// What rt-app would read over, with its place: line, column, message.
    fn notes(&self) -> Vec<(u32, u32, String)> {
        self.tree.notes.iter().map(|note| (note.at.line, note.at.column, note.message.clone())).collect()
    }

    /// The tree for people: one event a line, in file order, with its place.
    fn describe(&self) -> String {
        self.tree.describe()
    }

    /// One row an event, in file order: task, phase, line, column, key, event.
    fn events(&self) -> Vec<(String, String, u32, u32, String, String)> {
        let mut rows = Vec::new();
        for task in &self.tree.tasks {
            for phase in &task.phases {
                for event in &phase.events {
                    let (task, phase) = (task.name.clone(), phase.name.clone());
                    rows.push((task, phase, event.at.line, event.at.column, event.key.clone(), event.kind.describe()));
                }
            }
        }
        rows
    }
}
