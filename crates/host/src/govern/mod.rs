//! A governor in user space that puts everything back.
//!
//! ```text
//!   supervisor ──spawn──► worker: sense ► decide ► write, one line of log a decision
//!      │  saves the settings first        │ a byte a round: alive
//!      │  restores when the worker ended, │ restores when it ends, or when the supervisor is gone
//!      ▼  died, was killed or hangs       ▼ (its end of the pipe closed)
//!            /run/opplab-govern.json: what was before, until everything is back
//! ```
//! Either process may be killed at any moment; the one that is left restores. If both are, the file is still there for
//! the next `govern` or `govern --restore`. Decisions are [`decide`]'s.

pub mod decide;
pub mod sense;
pub mod state;
mod supervise;
mod worker;

use std::path::PathBuf;

pub use supervise::supervise;
pub(crate) use supervise::{finish, lock, restore, restore_left, save};
pub use worker::work;

use self::sense::Source;
use crate::root::Root;

/// How frequencies are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// `scaling_setspeed` under the kernel's governor `userspace`.
    Setspeed,
    /// `scaling_min_freq` = `scaling_max_freq`; with HWP these are its minimum and maximum.
    Limits,
}

impl Via {
    /// Names on the command line.
    pub const NAMES: &[(&str, Via)] = &[("setspeed", Self::Setspeed), ("limits", Self::Limits)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setspeed => "setspeed",
            Self::Limits => "limits",
        }
    }
}

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the host is.
    pub root: PathBuf,
    /// One of the kernel's governors.
    pub governor: String,
    /// Its tunables, by sysfs name.
    pub tunables: Vec<(String, String)>,
    /// Policies; empty: all.
    pub policies: Vec<u32>,
    /// How frequencies are set; `None`: as the host allows.
    pub via: Option<Via>,
    /// Source of utilisation; `None`: the best.
    pub source: Option<Source>,
    /// f_max by name of a candidate or in kHz; `None`: the kernel's.
    pub f_max: Option<String>,
    /// `energy_performance_preference` for the time of the run.
    pub epp: Option<String>,
    /// schedutil's rate limit; `None`: the host's, or the profile's default.
    pub rate_limit_us: Option<u32>,
    /// Time between two looks.
    pub interval_ns: u64,
    /// When to end; `None`: on a signal.
    pub for_ns: Option<u64>,
    /// Decide, but change nothing.
    pub dry_run: bool,
    /// The kernel profile.
    pub kernel: String,
    /// Where the log goes.
    pub log: Option<PathBuf>,
    /// Where the settings are remembered.
    pub places: Places,
}

/// Where settings are remembered until they are put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// The file.
    pub state: PathBuf,
    /// Where every run on this host looks for what others left: theirs, or a link to it.
    pub host_state: PathBuf,
}

impl Places {
    /// In the file, or where every run on this host looks if it is empty.
    pub fn of(root: &Root, state: PathBuf) -> Self {
        let host_state = root.file("/run/opplab-govern.json").unwrap_or_default();
        let state = if state.as_os_str().is_empty() { host_state.clone() } else { state };
        Self { state, host_state }
    }
}
