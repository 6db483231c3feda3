//! rt-app workload files: from JSON as it is in the wild to a syntax tree, and from there to a [`Workload`].
//!
//! The grammar is that of rt-app (src/rt-app_parse_config.c and doc/tutorial.txt at commit 55cb0c0), including event
//! names that are matched by prefix. [`parse`] keeps all events in file order; what rt-app itself ignores is kept as a
//! [`Note`], so nothing is skipped silently. [`RtApp::compile`] refuses what the simulator does not model, by name and
//! place.
//!
//! Two treatments of repeated keys exist: [`Repeats::JsonC`] is what rt-app sees of a file that is given to it
//! directly (the last value wins at the place of the first), [`Repeats::Workgen`] is what it sees after doc/workgen,
//! which renames repeats so that each is an event of its own, and gives a bare `"suspend"` its value.
//!
//! Not here: reading files, rt-app's calibration loop, and its ftrace markers.

mod compile;
mod growth;
mod log;
mod syntax;

pub use compile::{CompileOptions, IO_WRITE_WORK_NS};
pub use log::{LOG_HEADER, LoopRecord, log_file_name, log_line};
pub use syntax::{
    Attributes, BIGGEST, Calibration, EventKind, EventNode, Global, Loop, MemRunKind, Note, Phase, PolicyName, RtApp,
    Spanned, Task,
};

use crate::error::ModelError;
use crate::workload::Workload;

/// What a repeated key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// As json-c: the last value wins, at the place of the first.
    JsonC,
    /// As doc/workgen: each is an entry of its own.
    #[default]
    Workgen,
}

/// Which condition `suspend` waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SuspendOn {
    /// The one that its value names, the task's own name if there is none: rt-app until May 2025, and what the files
    /// in circulation are written for.
    #[default]
    Value,
    /// Always the task's own name, whatever the value: rt-app since commit 32fcddf.
    OwnName,
}

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// What repeated keys mean.
    pub repeats: Repeats,
    /// What `suspend` waits on.
    pub suspend: SuspendOn,
}

/// Reads an rt-app file. `file` is its name for messages.
///
/// # Errors
/// The first thing that rt-app would refuse too, or a placeholder, with its place.
pub fn parse(file: &str, text: &str, options: ParseOptions) -> Result<RtApp, ModelError> {
    let root = crate::json::parse_json(text).map_err(|fault| fault.in_file(file))?;
    let mut read = syntax::rtapp_from(&root, options).map_err(|fault| fault.in_file(file))?;
    read.notes.extend(growth::notes(&read.tasks));
    read.notes.sort_by_key(|note| note.at);
    Ok(read)
}

/// Reads and compiles an rt-app file.
///
/// # Errors
/// As [`parse`], and what the simulator does not model.
pub fn load(
    file: &str,
    text: &str,
    parse_options: ParseOptions,
    compile_options: &CompileOptions<'_>,
) -> Result<Workload, ModelError> {
    parse(file, text, parse_options)?.compile(file, compile_options)
}
