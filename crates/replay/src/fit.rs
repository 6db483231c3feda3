//! Whether a machine can be the one that a trace was recorded on, by the trace's header.

use std::path::Path;

use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_model::machine::Machine;
use opplab_trace::{Meta, ReadOptions, TraceFile};

use crate::ReplayError;
use crate::setup::recording_files;

/// The machine of a trace, as far as its header describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TracedMachine {
    /// Its number of CPUs; `None` if only the CPUs that had events are known.
    pub nr_cpus: Option<usize>,
    /// Its architecture, `x86` or `arm64`; `None` if unknown.
    pub architecture: Option<&'static str>,
}

/// The architecture that `uname -a` names.
fn architecture_of(uname: &str) -> Option<&'static str> {
    uname.split_whitespace().rev().find_map(|word| match word {
        "x86_64" | "i686" | "i386" => Some("x86"),
        "aarch64" | "armv8l" => Some("arm64"),
        _ => None,
    })
}

/// The architecture of a machine, by the vendor of its processor or by its cpufreq driver.
fn architecture(machine: &Machine) -> Option<&'static str> {
    let vendor = machine.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
    match (vendor, machine.cpufreq.driver.kind) {
        ("GenuineIntel" | "AuthenticAMD" | "HygonGenuine", _) => Some("x86"),
        (_, DriverKind::Acpi | DriverKind::Amd(_) | DriverKind::IntelActive | DriverKind::IntelPassive) => Some("x86"),
        (_, DriverKind::FirmwareTable) => Some("arm64"),
        (_, DriverKind::Cppc) => None,
    }
}

impl TracedMachine {
    /// What a trace's header holds. Formats without one count CPUs that had events, which may be fewer.
    pub fn of(meta: &Meta) -> Self {
        let counted = meta.format == "trace.dat" && meta.cpus > 0;
        Self { nr_cpus: counted.then_some(meta.cpus as usize), architecture: architecture_of(&meta.uname) }
    }

    /// Reads the header of the trace at `path`: a recording's folder or archive, a trace in a folder, or a trace of any format.
    ///
    /// # Errors
    /// [`ReplayError::Trace`] if it cannot be opened.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let files = recording_files(path)?;
        Self::of_trace(&files.trace, path)
    }

    fn of_trace(trace: &TraceFile, path: &Path) -> Result<Self, ReplayError> {
        let reader = trace.reader(&ReadOptions::default());
        let fail = |error: opplab_trace::Error| ReplayError::Trace { path: path.to_owned(), reason: error.to_string() };
        Ok(Self::of(reader.map_err(fail)?.meta()))
    }

    /// Why `machine` cannot be it; `None` if nothing speaks against it.
    pub fn misfit(&self, machine: &Machine) -> Option<String> {
        let nr = machine.nr_cpus();
        if let Some(traced) = self.nr_cpus.filter(|&traced| traced != nr) {
            return Some(format!("the trace is of {traced} CPUs, machine {} has {nr}", machine.name));
        }
        match (self.architecture, architecture(machine)) {
            (Some(traced), Some(other)) if traced != other => {
                Some(format!("the trace is of {traced} CPUs, those of machine {} are {other}", machine.name))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_a_word_of_its_own() {
        assert_eq!(architecture_of("Linux a 6.12.1-x86_64-tuned #1 SMP aarch64 GNU/Linux"), Some("arm64"));
        assert_eq!(architecture_of("Linux b 6.1.0-56-amd64 #1 SMP x86_64 GNU/Linux"), Some("x86"));
        assert_eq!(architecture_of(""), None);
    }
}
