//! Recorded traces: see crate `trace`.
//!
//! Crate `trace` opens the files itself, because it maps them; everything else is conversion to arrays.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyArray1};
use opplab_guarded::guarded;
use opplab_trace::write::{
    Row, ftrace_head, ftrace_lines, ftrace_piece, ftrace_text, perfetto, rows_in_order, trace_dat,
};
use opplab_trace::{
    Column, Error, Field, IntColumn, Missed, ReadOptions, Strings, TaskNames, Trace, TraceFile, VarBytes,
};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::error::raise;

/// A [`trace error`](opplab_trace::Error) about `path` as `InputError` or `FormatError`.
pub(crate) fn trace_error(py: Python<'_>, path: &Path, error: Error) -> PyErr {
    match error {
        Error::Io { source, .. } if source.raw_os_error().is_some() => {
            let words = source.to_string();
            let words = words.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((source.raw_os_error(), words, path.to_path_buf()))
        }
        Error::Io { .. } => raise(py, "InputError", error.to_string()),
        Error::UnknownEvent { .. } => raise(py, "InputError", format!("{}: {error}", path.display())),
        _ => raise(py, "FormatError", format!("{}: {error}", path.display())),
    }
}

/// Notes what of the trace at `path` is damaged where Python decides what follows from it.
pub(crate) fn note_damage(py: Python<'_>, path: &Path, damage: &[String]) -> PyResult<()> {
    if damage.is_empty() {
        return Ok(());
    }
    py.import("opplab.trace.damage")?.call_method1("note", (path, damage)).map(|_| ())
}

/// The same of what of the trace is not followed.
pub(crate) fn note_remark(py: Python<'_>, path: &Path, remark: Option<&str>) -> PyResult<()> {
    let Some(remark) = remark else { return Ok(()) };
    py.import("opplab.trace.damage")?.call_method1("remark", (path, remark)).map(|_| ())
}

fn problems_text(problems: &[Error]) -> Vec<String> {
    problems.iter().map(Error::to_string).collect()
}

/// CPU, time, count of each gap.
fn gaps(missed: &[Missed]) -> Vec<(u32, u64, Option<u64>)> {
    missed.iter().map(|gap| (gap.cpu, gap.time_ns, gap.count)).collect()
}

/// What the trace at `path` holds about itself, and how many events of each name it holds.
#[guarded]
#[pyfunction]
pub(crate) fn trace_info(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let info = py.detach(|| TraceFile::open(&path).and_then(|file| file.info(&ReadOptions::default())));
    let info = info.map_err(|error| trace_error(py, &path, error))?;
    let dict = PyDict::new(py);
    let events = PyDict::new(py);
    for (name, count) in &info.events {
        events.set_item(name, count)?;
    }
    let meta = &info.meta;
    set_fields!(dict, meta; format, version, cpus);
    set_fields!(dict, info; start_ns, duration_ns);
    dict.set_item("events", events)?;
    dict.set_item("missed", gaps(&info.missed))?;
    set_fields!(dict, meta;
        clock, time_offset_ns, uname, writer, compression, long_size, big_endian, page_size, buffers
    );
    dict.set_item("problems", problems_text(&info.problems))?;
    Ok(dict)
}

/// Tasks by pid.
type NamesByPid = Vec<(i32, String)>;

/// Names of tasks by pid: those of scheduling events, and over them the trace's own list; what was damaged.
#[guarded]
#[pyfunction]
pub(crate) fn trace_task_names(py: Python<'_>, path: PathBuf) -> PyResult<(NamesByPid, Vec<String>)> {
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&TaskNames::EVENTS) };
    let read = py.detach(|| {
        let mut found = TaskNames::default();
        let file = TraceFile::open(&path)?;
        let mut reader = file.reader(&options)?;
        let outcome = file.stream_reader(&mut *reader, &options, &mut found)?;
        found.names.extend(reader.tasks().clone());
        Ok((found.names, outcome.problems))
    });
    let (names, problems) = read.map_err(|error| trace_error(py, &path, error))?;
    let mut names: Vec<(i32, String)> =
        names.into_iter().map(|(pid, name)| (pid, String::from_utf8_lossy(&name).into_owned())).collect();
    names.sort();
    Ok((names, problems_text(&problems)))
}

/// Reads the events of these names from the trace at `path` in pieces of at most `events_max` events and gives each to
/// `each`, with the number of events in all of them; gives what was damaged. `contexts`: with the context of each event, for files.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, events, from_ns, to_ns, events_max, contexts, each))]
#[expect(clippy::too_many_arguments, reason = "what Python's export has")]
pub(crate) fn trace_pieces(
    py: Python<'_>,
    path: PathBuf,
    events: Option<Vec<String>>,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    events_max: usize,
    contexts: bool,
    each: Py<PyAny>,
) -> PyResult<Vec<String>> {
    let time_range_ns = span(from_ns, to_ns);
    let options = ReadOptions { events, time_range_ns, common_fields: contexts, ..ReadOptions::default() };
    let mut raised = None;
    let mut give = |inner: Trace, total: u64| {
        let piece = PyTrace { path: path.clone(), inner };
        let result = Python::attach(|py| each.call1(py, (Bound::new(py, piece)?, total)).map(|_| ()));
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let read = py.detach(|| TraceFile::open(&path).and_then(|file| file.read_pieces(&options, events_max, &mut give)));
    match raised {
        Some(error) => Err(error),
        None => Ok(problems_text(&read.map_err(|error| trace_error(py, &path, error))?)),
    }
}

/// Writes the events of these names as a trace.dat to `out`, with at most `events_max` of them in memory; `scratch` is a file
/// for the time of writing. Gives what was damaged.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, out, scratch, events, from_ns, to_ns, events_max))]
#[expect(clippy::too_many_arguments, reason = "what Python's export has")]
pub(crate) fn trace_to_dat(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    scratch: PathBuf,
    events: Option<Vec<String>>,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    events_max: usize,
) -> PyResult<Vec<String>> {
    let options = ReadOptions { events, time_range_ns: span(from_ns, to_ns), ..ReadOptions::default() };
    let written = py
        .detach(|| TraceFile::open(&path).and_then(|file| file.write_trace_dat(&options, events_max, &out, &scratch)));
    Ok(problems_text(&written.map_err(|error| trace_error(py, &path, error))?))
}

/// The time from `from_ns` up to but not including `to_ns`.
fn span(from_ns: Option<u64>, to_ns: Option<u64>) -> Option<(u64, u64)> {
    (from_ns.is_some() || to_ns.is_some()).then(|| (from_ns.unwrap_or(0), to_ns.unwrap_or(u64::MAX)))
}

/// A trace as columns.
#[pyclass(frozen, name = "Trace", module = "opplab._opplab")]
pub(crate) struct PyTrace {
    pub(crate) path: PathBuf,
    pub(crate) inner: Trace,
}

#[guarded]
#[pymethods]
impl PyTrace {
    /// Reads the events of these names (all, if `None`) from the trace at `path`.
    #[staticmethod]
    #[pyo3(signature = (path, events=None, missing_ok=false, from_ns=None, to_ns=None))]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        events: Option<Vec<String>>,
        missing_ok: bool,
        from_ns: Option<u64>,
        to_ns: Option<u64>,
    ) -> PyResult<Self> {
        let options = ReadOptions { events, missing_ok, time_range_ns: span(from_ns, to_ns), ..ReadOptions::default() };
        let read = py.detach(|| TraceFile::open(&path).and_then(|file| file.read(&options)));
        let inner = read.map_err(|error| trace_error(py, &path, error))?;
        Ok(Self { path, inner })
    }

    /// Name, group and number of rows of each table.
    fn tables(&self) -> Vec<(&str, &str, usize)> {
        self.inner.tables.iter().map(|table| (table.name.as_str(), table.system.as_str(), table.len())).collect()
    }

    /// What was damaged.
    fn problems(&self) -> Vec<String> {
        problems_text(&self.inner.problems)
    }

    /// Where the kernel lost events: CPU, time, how many.
    fn missed(&self) -> Vec<(u32, u64, Option<u64>)> {
        gaps(&self.inner.missed)
    }

    /// Names of tasks by pid, as far as the trace has a list.
    fn tasks(&self) -> Vec<(i32, String)> {
        let tasks = self.inner.tasks.iter();
        tasks.map(|(pid, name)| (*pid, String::from_utf8_lossy(name).into_owned())).collect()
    }

    /// The columns of table `name` as `(column, kind, values, valid)`: kind `int` (array), `str` (array of places in a
    /// list, list), `text` or `bytes` (list), `list` (ends, values). The first are time, CPU, pid and the context's name.
    fn columns<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(table) = self.inner.table(name) else {
            return Err(raise(py, "InputError", format!("the trace has no event `{name}`")));
        };
        let all = PyList::empty(py);
        all.append(("time_ns", "int", PyArray1::from_slice(py, &table.time_ns), py.None()))?;
        all.append(("cpu", "int", integers(py, &table.cpu)?, py.None()))?;
        all.append(("common_pid", "int", integers(py, &table.pid)?, py.None()))?;
        let comms = match &table.comm {
            Some(numbers) => words(py, &self.inner.strings, numbers)?,
            None => {
                let mut strings = Strings::default();
                let pids = (0..table.len()).map(|row| table.pid.get(row) as i32);
                // Runs of one pid are the rule.
                let mut last = None;
                let numbers: Vec<u32> = pids
                    .map(|pid| match last {
                        Some((seen, number)) if seen == pid => number,
                        _ => {
                            let number = strings.intern(self.inner.comm_of(pid).as_bytes());
                            last = Some((pid, number));
                            number
                        }
                    })
                    .collect();
                words(py, &strings, &numbers)?
            }
        };
        all.append(("common_comm", "str", comms, py.None()))?;
        if let Some(buffer) = &table.buffer {
            all.append(("buffer", "int", integers(py, buffer)?, py.None()))?;
        }
        for field in &table.fields {
            let valid = field.valid.as_ref().map(|valid| PyArray1::from_slice(py, valid));
            let (kind, values) = column(py, &self.inner.strings, field)?;
            all.append((&field.name, kind, values, valid))?;
        }
        Ok(all)
    }

    /// Events as the kernel prints them: of these CPUs and tasks (all, if `None`; pids, or names), at most `limit`.
    #[pyo3(signature = (cpus=None, pids=None, comms=None, limit=None))]
    fn lines(
        &self,
        py: Python<'_>,
        cpus: Option<Vec<u32>>,
        pids: Option<Vec<i32>>,
        comms: Option<Vec<String>>,
        limit: Option<usize>,
    ) -> PyResult<String> {
        let trace = &self.inner;
        let wanted = |place: &Row| {
            let table = &trace.tables[place.table];
            let cpu = table.cpu.get(place.row) as u32;
            cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
                && ((pids.is_none() && comms.is_none()) || about(trace, place, &pids, &comms))
        };
        let text = py.detach(|| {
            let rows = rows_in_order(trace).into_iter().filter(wanted).take(limit.unwrap_or(usize::MAX));
            ftrace_lines(trace, &rows.collect::<Vec<_>>())
        });
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Printed texts as events of their own (rt-app's, devlib's and atrace's markers).
    fn markers(&self) -> Self {
        Self { path: self.path.clone(), inner: opplab_trace::markers(&self.inner) }
    }

    /// A piece of a longer trace as `perfetto` or `text`; with `events` the text has the head of so many.
    #[pyo3(signature = (form, events=None))]
    fn encode_piece<'py>(&self, py: Python<'py>, form: &str, events: Option<u64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        py.detach(|| {
            if form == "perfetto" {
                return perfetto(&self.inner, &mut out);
            }
            if let Some(events) = events {
                ftrace_head(&self.inner, events, &mut out)?;
            }
            ftrace_piece(&self.inner, &mut out)
        })
        .map_err(|error| write_error(py, error))?;
        Ok(PyBytes::new(py, &out))
    }

    /// The trace in another form: `perfetto`, `trace.dat` or `text`.
    fn encode<'py>(&self, py: Python<'py>, form: &str) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        let known = py.detach(|| match form {
            "perfetto" => perfetto(&self.inner, &mut out).map(|()| true),
            "trace.dat" => trace_dat(&self.inner, &mut out).map(|()| true),
            "text" => ftrace_text(&self.inner, &mut out).map(|()| true),
            _ => Ok(false),
        });
        let known = known.map_err(|error| write_error(py, error))?;
        if known { Ok(PyBytes::new(py, &out)) } else { Err(raise(py, "InputError", format!("unknown form `{form}`"))) }
    }
}

/// What a form does not have is the user's mistake.
fn write_error(py: Python<'_>, error: std::io::Error) -> PyErr {
    if error.kind() == std::io::ErrorKind::InvalidInput {
        return raise(py, "InputError", format!("failed to write: {error}"));
    }
    error.into()
}

/// True if the event happened in the context of one of the tasks, or is about one of them (`pid`, `prev_pid`, `next_pid`).
fn about(trace: &Trace, place: &Row, pids: &Option<Vec<i32>>, comms: &Option<Vec<String>>) -> bool {
    let table = &trace.tables[place.table];
    let is_pid = |pid: i32| pids.as_ref().is_some_and(|pids| pids.contains(&pid));
    let is_comm = |comm: &str| comms.as_ref().is_some_and(|comms| comms.iter().any(|wanted| wanted == comm));
    is_pid(table.pid.get(place.row) as i32)
        || (comms.is_some() && is_comm(&trace.comm(table, place.row)))
        || table.fields.iter().any(|field| match (field.name.as_str(), &field.column) {
            ("pid" | "prev_pid" | "next_pid", Column::Int(values)) => is_pid(values.get(place.row) as i32),
            ("comm" | "prev_comm" | "next_comm", Column::Str(numbers)) => {
                comms.is_some() && is_comm(&trace.strings.text(numbers[place.row]))
            }
            _ => false,
        })
}

fn integers<'py>(py: Python<'py>, values: &IntColumn) -> PyResult<Bound<'py, PyAny>> {
    Ok(match values {
        IntColumn::I8(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::I16(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::I32(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::I64(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::U8(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::U16(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::U32(values) => PyArray1::from_slice(py, values).into_any(),
        IntColumn::U64(values) => PyArray1::from_slice(py, values).into_any(),
    })
}

/// Places in a list of the words that occur, and that list.
fn words<'py>(py: Python<'py>, strings: &Strings, numbers: &[u32]) -> PyResult<Bound<'py, PyAny>> {
    let mut places = vec![u32::MAX; strings.len()];
    let list = PyList::empty(py);
    let mut compact = Vec::with_capacity(numbers.len());
    for &number in numbers {
        let place = &mut places[number as usize];
        if *place == u32::MAX {
            *place = list.len() as u32;
            list.append(PyString::new(py, &strings.text(number)))?;
        }
        compact.push(*place);
    }
    Ok((compact.into_pyarray(py), list).into_pyobject(py)?.into_any())
}

fn each<'py>(
    py: Python<'py>,
    texts: &VarBytes,
    make: impl Fn(&[u8]) -> Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyList::new(py, (0..texts.len()).map(|row| make(texts.get(row))))?.into_any())
}

fn column<'py>(py: Python<'py>, strings: &Strings, field: &Field) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
    Ok(match &field.column {
        Column::Int(values) => ("int", integers(py, values)?),
        Column::Str(numbers) => ("str", words(py, strings, numbers)?),
        Column::Text(texts) => {
            ("text", each(py, texts, |text| PyString::new(py, &String::from_utf8_lossy(text)).into_any())?)
        }
        Column::Bytes(texts) => ("bytes", each(py, texts, |bytes| PyBytes::new(py, bytes).into_any())?),
        Column::List { ends, values } => {
            ("list", (PyArray1::from_slice(py, ends), integers(py, values)?).into_pyobject(py)?.into_any())
        }
    })
}
