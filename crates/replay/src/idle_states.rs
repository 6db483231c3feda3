//! The idle states that a recording numbers, as those of the machine that it is looked at on.
//!
//! `cpu_idle` has the number of a state in the recorded kernel's table. A machine's table may be another one: a description from elsewhere,
//! or the snapshot's own without the states that are disabled. A state is that of its name, or else the one with the nearest exit latency.
//! Without a snapshot the numbers are taken as they are.

use std::path::Path;

use opplab_import::import_snapshot;
use opplab_model::machine::{IdleState, Machine};
use opplab_trace::RecordingFiles;

/// The name of the snapshot of sysfs beside a trace.
pub(crate) const SYSFS: &str = "sysfs_before.txt";

/// What is assumed where no snapshot names the states.
pub const BY_NUMBER: &str = "no snapshot names the trace's idle states: they are the machine's by their numbers";

/// The states of a recording's CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleStates {
    /// By CPU and recorded number; empty where they are not known.
    of_cpu: Vec<Vec<usize>>,
}

impl IdleStates {
    /// Those of the recording at `path` on `machine`; not known if it has no snapshot that can be read.
    pub fn of(path: &Path, machine: &Machine) -> Self {
        RecordingFiles::open(path).map_or_else(|_| Self::default(), |files| Self::of_files(&files, machine))
    }

    pub(crate) fn of_files(files: &RecordingFiles, machine: &Machine) -> Self {
        let text = files.text(SYSFS);
        let facts = text.and_then(|text| import_snapshot("", &files.place(SYSFS), &text, None, None).ok());
        let Some(facts) = facts else { return Self::default() };
        let of_cpu = (0..machine.nr_cpus() as u32).map(|cpu| {
            let own = &machine.cluster_of(cpu).idle;
            let number = |(nth, (name, latency_ns)): (usize, (&str, u64))| {
                let named = own.iter().position(|state| state.name.eq_ignore_ascii_case(name));
                // The kernel's exit latency holds the entry, too (drivers/cpuidle/dt_idle_states.c:init_state_node(), v6.12).
                let wake_ns = |state: &IdleState| state.entry_latency_ns + state.exit_latency_ns;
                let nearest = || (0..own.len()).min_by_key(|&other| wake_ns(&own[other]).abs_diff(latency_ns));
                named.or_else(nearest).unwrap_or(nth)
            };
            let recorded = facts.cpus.get(&cpu).map_or(&[][..], |found| &found.idle);
            recorded.iter().map(|state| (state.name.as_str(), state.latency_ns)).enumerate().map(number).collect()
        });
        Self { of_cpu: of_cpu.collect() }
    }

    /// Whether a snapshot names them.
    pub fn are_named(&self) -> bool {
        self.of_cpu.iter().any(|states| !states.is_empty())
    }

    /// The machine's number of a state.
    pub fn number(&self, cpu: u32, state: usize) -> usize {
        self.of_cpu.get(cpu as usize).and_then(|states| states.get(state)).copied().unwrap_or(state)
    }
}
