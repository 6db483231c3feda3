//! The idle states that a recording numbers, as those of the machine that it is looked at on.
//!
//! `cpu_idle` has the number of a state in the recorded kernel's table. A machine's table may be another one: a description from elsewhere,
//! or the snapshot's own without the states that are disabled. A state is that of its name, or else the one with the nearest exit latency.
//! Where the snapshot shows no state, and CPUs enter state 1 only, the kernel had no cpuidle driver: that is the architecture's idle
//! instruction (kernel/sched/idle.c:default_idle_call(), v6.12), and so the machine's shallowest state that does not poll.
//! Without a snapshot the numbers are taken as they are.

use std::ops::ControlFlow;
use std::path::Path;

use opplab_import::{SYSFS, import_snapshot};
use opplab_model::machine::{IdleState, Machine};
use opplab_signals::decode::{Decoder, SchedEvent};
use opplab_trace::{Event, ReadOptions, RecordingFiles};

/// What is assumed where no snapshot names the states.
pub const BY_NUMBER: &str = "no snapshot names the trace's idle states: they are the machine's by their numbers";

/// The number that a kernel without a cpuidle driver reports when a CPU goes idle (default_idle_call()).
const DEFAULT_IDLE: usize = 1;

/// The states of a recording's CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleStates {
    /// By CPU and recorded number; empty where they are not known.
    of_cpu: Vec<Vec<usize>>,
    /// The names of the states that stand for the idle instruction, where the kernel had no cpuidle driver.
    default_idle: Vec<String>,
}

impl IdleStates {
    /// Those of the recording at `path` on `machine`; not known if it has no snapshot that can be read.
    pub fn of(path: &Path, machine: &Machine) -> Self {
        RecordingFiles::open(path).map_or_else(|_| Self::default(), |files| Self::of_files(&files, machine))
    }

    /// Those of a recording whose files are open.
    pub fn of_files(files: &RecordingFiles, machine: &Machine) -> Self {
        let text = files.text(SYSFS);
        let facts = text.and_then(|text| import_snapshot("", &files.place(SYSFS), &text, None, None).ok());
        let Some(facts) = facts else { return Self::default() };
        if facts.cpus.values().all(|cpu| cpu.idle.is_empty()) && enters_only(files, DEFAULT_IDLE) {
            return Self::without_driver(machine);
        }
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
        Self { of_cpu: of_cpu.collect(), default_idle: Vec::new() }
    }

    /// All states are the one that the idle instruction is.
    fn without_driver(machine: &Machine) -> Self {
        let of_cpu = (0..machine.nr_cpus() as u32).map(|cpu| vec![shallowest(machine, cpu); DEFAULT_IDLE + 1]);
        let mut names: Vec<String> = Vec::new();
        for cpu in 0..machine.nr_cpus() as u32 {
            let name = machine.cluster_of(cpu).idle.get(shallowest(machine, cpu)).map(|state| &state.name);
            names.extend(name.filter(|name| !names.contains(name)).cloned());
        }
        Self { of_cpu: of_cpu.collect(), default_idle: names }
    }

    /// Whether a snapshot names them, or shows that the kernel had none to choose from.
    pub fn are_named(&self) -> bool {
        self.of_cpu.iter().any(|states| !states.is_empty())
    }

    /// The note that an answer about them needs.
    pub fn note(&self) -> Option<String> {
        if !self.default_idle.is_empty() {
            let names = self.default_idle.join(" or ");
            return Some(format!(
                "the recorded kernel had no cpuidle driver and no governor: its CPUs had the idle instruction only, taken as {names}"
            ));
        }
        (!self.are_named()).then(|| BY_NUMBER.to_owned())
    }

    /// The machine's number of a state.
    pub fn number(&self, cpu: u32, state: usize) -> usize {
        self.of_cpu.get(cpu as usize).and_then(|states| states.get(state)).copied().unwrap_or(state)
    }
}

/// The first state of `cpu` that does not poll.
fn shallowest(machine: &Machine, cpu: u32) -> usize {
    let cluster = machine.cluster_of(cpu);
    (0..cluster.idle.len()).find(|&state| !cluster.polls(state)).unwrap_or(0)
}

/// Whether CPUs enter no other idle state than `wanted`.
fn enters_only(files: &RecordingFiles, wanted: usize) -> bool {
    let options = ReadOptions { missing_ok: true, ..ReadOptions::only(&["cpu_idle"]) };
    let (mut decoder, mut any, mut other) = (Decoder::default(), false, false);
    let mut sink = |event: &Event<'_>| {
        if let SchedEvent::Idle { state: Some(state), .. } = decoder.decode(event) {
            any = true;
            other = state != wanted;
        }
        if other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    files.trace.stream(&options, &mut sink).is_ok() && any && !other
}
