//! The drivers, a file each; one with several modes is as many drivers as the modes have names.

/// Each file has its `DRIVERS`; its name here is all that makes them some of [`DRIVERS`].
macro_rules! drivers {
    ($($name:ident)+) => {
        $(pub mod $name;)+

        /// Every driver that a machine or a policy can name, by file.
        pub static DRIVERS: &[&[super::driver::DriverEntry]] = &[$($name::DRIVERS),+];
    };
}

drivers! {
    acpi_cpufreq
    amd_pstate
    cppc
    firmware_tables
    intel_pstate
}
