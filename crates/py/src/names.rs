//! What there is to choose from.

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::governor::Tunable;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpuidle::IDLE_GOVERNORS;
use opplab_kernel::profile::profile_names;
use opplab_kernel::profile_table::changes;
use opplab_kernel::proposals::{PROPOSALS, ProposalEntry, ProposalParam};
use opplab_model::benchmark::{BENCHMARKS, Param, ParamKind};
use opplab_model::decision::CODES;
use opplab_model::disk::{DISK_CLASSES, DiskClass, UNKNOWN};
use opplab_model::experiment::parse_policy;
use opplab_model::policy::Policy;
use opplab_model::policy_keys::{POLICY_KEYS, PolicyKey, PolicyValue};
use opplab_model::tree::to_json;
use opplab_sim::decisions::decision_tables;
use opplab_sim::sink::TABLES;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{model_error, raise};

fn plain(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), String::new())).collect()
}

/// What every benchmark model is: name, about, metric, parameters.
#[guarded]
#[pyfunction]
pub(crate) fn benchmarks(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let param_dict = |param: &Param| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        set_fields!(dict, param; name, default, about);
        dict.set_item("calibrated", param.is_calibrated)?;
        dict.set_item("words", if let ParamKind::Word(words) = param.kind { words.to_vec() } else { Vec::new() })?;
        Ok(dict)
    };
    BENCHMARKS
        .iter()
        .map(|benchmark| {
            let dict = PyDict::new(py);
            set_fields!(dict, benchmark; name, about);
            dict.set_item("metric", benchmark.reports.map(|reports| reports.name))?;
            dict.set_item("unit", benchmark.reports.map(|reports| reports.unit))?;
            dict.set_item("higher_is_better", benchmark.reports.map(|reports| reports.higher_is_better))?;
            let ends = benchmark.reports.is_some_and(|reports| reports.rule.is_of_a_whole());
            dict.set_item("ends", ends)?;
            dict.set_item("params", benchmark.params.iter().map(param_dict).collect::<PyResult<Vec<_>>>()?)?;
            Ok(dict)
        })
        .collect()
}

/// What the small numbers in columns of decision records mean: `[(column, words by number)]`.
#[guarded]
#[pyfunction]
pub(crate) fn decision_codes() -> Vec<(&'static str, Vec<&'static str>)> {
    CODES.iter().map(|(column, codes)| (*column, codes.iter().map(|code| code.word).collect())).collect()
}

/// The classes of disks, from fast to slow flushes; the one that stands in for an unknown disk is marked.
#[guarded]
#[pyfunction]
pub(crate) fn disk_classes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let dict_of = |class: &DiskClass| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        set_fields!(dict, class; kind, seek_us, flush_us, flush_range_us, mb_per_s, queue, one_irq);
        dict.set_item("stands_in", class.kind == UNKNOWN.kind)?;
        dict.set_item("about", class.about)?;
        Ok(dict)
    };
    DISK_CLASSES.iter().map(dict_of).collect()
}

/// What values of a policy's key are in Python.
fn python_type(values: PolicyValue) -> &'static str {
    match values {
        PolicyValue::Bool => "bool",
        PolicyValue::Int { .. } | PolicyValue::OneOf(_) => "int",
        PolicyValue::Epp => "str | int",
        PolicyValue::Tunables => "Mapping[str, str | int]",
        PolicyValue::Gates => "Mapping[str, str]",
        PolicyValue::Limit => "int | Mapping[str, int]",
        PolicyValue::Cpus => "tuple[int, ...] | str | int",
        PolicyValue::Proposals | PolicyValue::Features => "tuple[str, ...]",
        PolicyValue::IdleStates => "tuple[str, ...] | str",
        PolicyValue::Changes => "tuple[Mapping[str, Any], ...]",
        PolicyValue::Text
        | PolicyValue::Name(_)
        | PolicyValue::NameOrEmpty(_)
        | PolicyValue::Kernel
        | PolicyValue::FreqMax => "str",
    }
}

/// The keys of a policy in the order of files: name, type in Python, about, the values that each may have, the default.
#[guarded]
#[pyfunction]
pub(crate) fn policy_keys(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let base = Policy::of_files();
    let dict_of = |key: &PolicyKey| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("name", key.name)?;
        dict.set_item("type", python_type(key.values))?;
        dict.set_item("values", key.values.words())?;
        dict.set_item("default", py.import("json")?.call_method1("loads", (to_json(&key.value_in(&base)),))?)?;
        dict.set_item("about", key.about)?;
        Ok(dict)
    };
    POLICY_KEYS.iter().map(dict_of).collect()
}

/// Refuses TOML with the keys of a policy that no file could have.
#[guarded]
#[pyfunction]
pub(crate) fn check_policy(py: Python<'_>, text: &str) -> PyResult<()> {
    parse_policy("policy", text).map(|_| ()).map_err(|error| model_error(py, error))
}

/// The tunables of all governors: governor, name, the values that it may have, the default, what it does.
#[guarded]
#[pyfunction]
pub(crate) fn governor_tunables(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let dict_of = |(governor, tunable): (GovernorId, &Tunable)| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("governor", governor.name)?;
        dict.set_item("name", tunable.name)?;
        dict.set_item("values", tunable.kind.to_string())?;
        dict.set_item("default", tunable.default)?;
        dict.set_item("kernels", tunable.only.map(|only| format!("gate rate_limits = {}", only.name())))?;
        dict.set_item("about", tunable.what)?;
        Ok(dict)
    };
    let all =
        GovernorId::all().flat_map(|governor| governor.entry().tunables.iter().map(move |known| (governor, known)));
    all.map(dict_of).collect()
}

/// The proposals: name, what each does, its thread, what differs from that, its parameters.
#[guarded]
#[pyfunction]
pub(crate) fn proposals(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let param_dict = |param: &ProposalParam| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        set_fields!(dict, param; name, what, min, max, default);
        Ok(dict)
    };
    let dict_of = |entry: &&ProposalEntry| -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        set_fields!(dict, entry; name, what, thread, differs);
        dict.set_item("params", entry.params.iter().map(param_dict).collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    };
    PROPOSALS.iter().map(dict_of).collect()
}

/// Names and one-line descriptions of a kind: `governors`, `drivers`, `idle-governors`, `idle-starts`, `kernels`, `benchmarks`, `events`,
/// `decisions`.
#[guarded]
#[pyfunction]
pub(crate) fn names(py: Python<'_>, kind: &str) -> PyResult<Vec<(String, String)>> {
    let list = match kind {
        "idle-governors" => IDLE_GOVERNORS
            .iter()
            .map(|entry| (entry.name.to_owned(), format!("rating {rating}", rating = entry.rating)))
            .collect(),
        "idle-starts" => IDLE_GOVERNORS
            .iter()
            .map(|entry| (entry.name.to_owned(), entry.start.words().unwrap_or_default()))
            .collect(),
        "events" => plain(TABLES),
        "decisions" => plain(&decision_tables().collect::<Vec<_>>()),
        "governors" => GovernorId::all().map(|governor| (governor.name.to_owned(), governor.what.to_owned())).collect(),
        "drivers" => DriverId::all().map(|driver| (driver.name.to_owned(), driver.what.to_owned())).collect(),
        "kernels" => profile_names().map(|name| (name.to_owned(), changes(name).unwrap_or_default())).collect(),
        "benchmarks" => {
            BENCHMARKS.iter().map(|benchmark| (benchmark.name.to_owned(), benchmark.about.to_owned())).collect()
        }
        _ => return Err(raise(py, "InputError", format!("unknown kind of names `{kind}`"))),
    };
    Ok(list)
}
