//! Machines from their own data: a dump, a copied `/sys` tree or the live one, a snapshot, a turbostat log, the
//! kernel's energy model, a device tree, LISA's platform info, Wattson's power curves.
//!
//! ```text
//!   bytes or folder --import()--> Facts --to_machine()--> Imported { machine, missing, defaults, notes }
//!                                   |
//!                                   +--fmax()--> every candidate for f_max, which kernel takes which, and why
//!                                   +--check()--> findings: contradictions and known traps, with cost and remedy
//! ```
//!
//! [`import`] opens paths; everything below it reads bytes that are handed in and neither panics nor guesses: wrong
//! input is an [`ImportError`] with file and place, what a source lacks stays `None` in [`Facts`].
//! Not here: measuring, and writing to the machine.

pub mod check;
mod cpuinfo;
mod dtb;
mod dts;
mod energy_model;
mod error;
pub mod facts;
pub mod fmax;
pub mod machine;
mod marks;
mod msr;
mod pepc;
mod platinfo;
mod snapshot;
mod source;
mod sysfs;
mod tree;
mod turbostat;
mod wattson;

pub use error::{ImportError, Place};
pub use facts::{Facts, SourceKind};
pub use machine::{Imported, to_machine};
pub use msr::{TurboForm, turbo_form};
pub use snapshot::import as import_snapshot;
pub use source::{SYSFS, SourceError, import, import_bytes, read_whole, read_whole_text, source_tree};
pub use tree::{Entry, SysTree, numbered};
