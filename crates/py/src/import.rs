//! Machines from dumps and the like: crate `import`, with reports as JSON text.

use std::path::Path;

use opplab_guarded::guarded;
use opplab_import::fmax::{FmaxInput, fmax as fmax_of};
use opplab_import::{Facts, Imported, SourceError, check, import, to_machine};
use opplab_model::error::{Fault, Pos};
use opplab_model::file::parse_machine;
use opplab_model::machine::{Machine, TurboBin};
use opplab_model::node_table;
use opplab_model::tree::{Node, to_json};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::error::{model_error, raise};
use crate::machine::PyMachine;

fn source_error(py: Python<'_>, error: SourceError) -> PyErr {
    match error {
        SourceError::Io(file, error) => PyOSError::new_err((error.raw_os_error(), error.to_string(), file)),
        SourceError::Import(error) => raise(py, "InputError", error.to_string()),
    }
}

/// Operating points of a table of that name: (CPU, kHz, uV or 0).
type Points = (String, Vec<(u32, u32, u32)>);

fn read(py: Python<'_>, path: &str, points: Option<Points>) -> PyResult<(Facts, Imported)> {
    let result = (|| {
        let mut facts = import(Path::new(path))?;
        if let Some((name, points)) = points {
            facts.add_points(&name, &points);
        }
        let imported = to_machine(&facts)?;
        Ok((facts, imported))
    })();
    result.map_err(|error| source_error(py, error))
}

/// Imports a source: the machine, and as JSON what was read, what is missing, what was filled from a default, and the
/// findings of [`check_machine`]. `points` are for CPUs whose frequencies the source lacks.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, points = None))]
pub(crate) fn import_machine(py: Python<'_>, path: &str, points: Option<Points>) -> PyResult<(PyMachine, String)> {
    let (facts, imported) = read(py, path, points)?;
    let findings = findings(Some(&facts), &imported.machine, &FmaxInput::of_facts(&facts, &imported));
    let Imported { missing, defaults, notes, .. } = &imported;
    let report = node_table! {
        source: facts.kind.name(), kernel: facts.kernel, told: facts.told, missing, defaults, notes, findings,
    };
    Ok((PyMachine { inner: imported.machine }, to_json(&report)))
}

/// The facts of a source or a machine file: exactly one of `path` and `text` (a machine file called `file`) is given.
fn facts_or_file(py: Python<'_>, path: &str, text: Option<&str>) -> PyResult<(Option<Facts>, Machine, FmaxInput)> {
    if let Some(text) = text {
        let machine = parse_machine(path, text).map_err(|error| model_error(py, error))?;
        let input = FmaxInput::of_machine(&machine);
        return Ok((None, machine, input));
    }
    let (facts, imported) = read(py, path, None)?;
    let input = FmaxInput::of_facts(&facts, &imported);
    Ok((Some(facts), imported.machine, input))
}

/// The f_max report of a source, or of a machine file if its `text` is given, as JSON, under one of the machine's
/// drivers; an empty name is its own. `no_turbo`: turbo is switched off. `published` are turbo bins (active cores, kHz) of the same processor from elsewhere.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, text, driver, no_turbo, published_name, published))]
pub(crate) fn fmax(
    py: Python<'_>,
    path: &str,
    text: Option<&str>,
    driver: &str,
    no_turbo: bool,
    published_name: &str,
    published: Vec<(u32, u32)>,
) -> PyResult<String> {
    let (_, machine, mut input) = facts_or_file(py, path, text)?;
    if no_turbo || !driver.is_empty() && driver != input.driver {
        let known = std::iter::once(&machine.cpufreq).chain(&machine.other_drivers).map(|of| of.driver.name);
        let of = machine.driver(driver).ok_or_else(|| {
            let fault = Fault::unknown(Pos::default(), "driver", driver, known);
            model_error(py, fault.about(&machine.name))
        })?;
        input = FmaxInput { msrs: input.msrs, ..FmaxInput::under(&machine, of.driver, no_turbo || input.no_turbo) };
    }
    let bins: Vec<TurboBin> = published.iter().map(|&(active_cores, khz)| TurboBin { active_cores, khz }).collect();
    let given = (!bins.is_empty()).then_some((published_name, &bins[..]));
    Ok(to_json(&fmax_of(&input, given).node()))
}

/// The findings about a source, or a machine file if its `text` is given, as JSON.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, text))]
pub(crate) fn check_machine(py: Python<'_>, path: &str, text: Option<&str>) -> PyResult<String> {
    let (facts, machine, input) = facts_or_file(py, path, text)?;
    Ok(to_json(&findings(facts.as_ref(), &machine, &input)))
}

fn findings(facts: Option<&Facts>, machine: &Machine, input: &FmaxInput) -> Node {
    check::node(&check::check(facts, machine, &fmax_of(input, None)))
}

/// The checks that [`check_machine`] makes: (name, what it looks at).
#[guarded]
#[pyfunction]
pub(crate) fn machine_checks() -> Vec<(&'static str, &'static str)> {
    check::CHECKS.to_vec()
}
