//! The drivers, a file each; one with several modes is as many drivers as the modes have names.

pub mod acpi_cpufreq;
pub mod amd_pstate;
pub mod cppc;
pub mod firmware_tables;
pub mod intel_pstate;

/// Every driver that a machine or a policy can name, by file: the `DRIVERS` of each.
pub static DRIVERS: &[&[super::driver::DriverEntry]] =
    &[acpi_cpufreq::DRIVERS, amd_pstate::DRIVERS, cppc::DRIVERS, firmware_tables::DRIVERS, intel_pstate::DRIVERS];

#[cfg(test)]
mod tests {
    /// Goal: no file is forgotten. Method: the modules of this file, as its text names them, have an entry each.
    #[test]
    fn every_file_is_registered() {
        let modules = include_str!("mod.rs").lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), super::DRIVERS.len());
    }
}
