//! The drivers, a file each; one with several modes is as many drivers as the modes have names.

pub mod acpi_cpufreq;
pub mod amd_pstate;
pub mod cppc;
pub mod firmware_tables;
pub mod intel_pstate;

use super::driver::DriverEntry;
use super::registered::{Entry, Registered};

/// Every driver that a machine or a policy can name, by file: the `DRIVERS` of each.
pub static DRIVERS: &[&[DriverEntry]] =
    &[acpi_cpufreq::DRIVERS, amd_pstate::DRIVERS, cppc::DRIVERS, firmware_tables::DRIVERS, intel_pstate::DRIVERS];

/// A driver by its entry; two are the same if their names are.
pub type DriverId = Registered<DriverEntry>;

impl Entry for DriverEntry {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Registered<DriverEntry> {
    /// The driver called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|driver| driver.0.name == name)
    }

    /// All, in the order of the registry.
    pub fn all() -> impl Iterator<Item = Self> {
        DRIVERS.iter().copied().flatten().map(Self)
    }
}

impl Default for Registered<DriverEntry> {
    /// The first of the registry.
    fn default() -> Self {
        Self(&DRIVERS[0][0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpufreq::driver::Governors;

    /// Goal: no file is forgotten. Method: the modules of this file, as its text names them, have an entry each.
    #[test]
    fn every_file_is_registered() {
        let modules = include_str!("mod.rs").lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), super::DRIVERS.len());
    }

    #[test]
    fn modes_name_each_other() {
        for driver in DriverId::all() {
            if let Governors::Own { passive } = driver.governors {
                let passive = DriverId::named(passive).expect("is one");
                assert_eq!(passive.governors, Governors::Any, "{driver}");
            }
            assert_eq!(DriverId::all().filter(|other| *other == driver).count(), 1, "{driver}");
        }
        assert!(DriverId::named("acpi_cpufreq").is_none());
    }
}
