//! One exception tree: Rust errors become the classes of `opplab.errors`, and a panic becomes `InternalError`.
//!
//! The classes themselves are written in Python, where they are documented.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use opplab_model::ModelError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

thread_local! {
    /// Message and place of the last panic on this thread, written by the hook, taken by [`guard`].
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Replaces the default message on stderr by a note for [`guard`]; with `OPPLAB_DEBUG` set both happen.
pub(crate) fn install_panic_hook() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::env::var_os("OPPLAB_DEBUG").is_some() {
            previous(info);
        }
        let place = info.location().map_or_else(String::new, |place| format!(" ({}:{})", place.file(), place.line()));
        let text = format!("{}{place}", payload_text(info.payload()));
        LAST_PANIC.with(|last| *last.borrow_mut() = Some(text));
    }));
}

fn payload_text(payload: &dyn Any) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "unknown cause"
    }
}

/// The class `name` of `opplab.errors`.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("opplab.errors")?.getattr(name)?.cast_into::<PyType>()?)
}

/// An exception of class `name` of `opplab.errors`.
pub(crate) fn raise(py: Python<'_>, name: &str, message: String) -> PyErr {
    match class(py, name) {
        Ok(kind) => PyErr::from_type(kind, (message,)),
        Err(error) => error,
    }
}

/// A [`ModelError`] as `FormatError` (with its place) or `InputError`.
pub(crate) fn model_error(py: Python<'_>, error: ModelError) -> PyErr {
    let message = error.to_string();
    let ModelError::Input { file, line, column, .. } = error else {
        return raise(py, "InputError", message);
    };
    let make = || {
        let kwargs = PyDict::new(py);
        kwargs.set_item("file", file)?;
        kwargs.set_item("line", line)?;
        kwargs.set_item("column", column)?;
        class(py, "FormatError")?.call((message,), Some(&kwargs))
    };
    match make() {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Runs the body of a binding, which `#[guarded]` hands over; a panic in it becomes `InternalError`.
pub(crate) fn guard<T>(body: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let noted = LAST_PANIC.with(|last| last.borrow_mut().take());
        let text = noted.unwrap_or_else(|| payload_text(payload.as_ref()).to_owned());
        let words = format!("internal error: {text}; this is a bug in opplab, please report it");
        Python::attach(|py| raise(py, "InternalError", words))
    })
}
