//! cpufreq: governors and drivers by name, what they have in common, and frequency tables.
//!
//! ```text
//!   policy, machine, sysfs ─► GovernorSetup ─► governor.rs ─► governors/*       one file each, in GOVERNORS
//!                                  ▲                │
//!        drivers/*, in DRIVERS ────┘                └─► Request ─► the driver: engine, trace or host
//! ```
//! Not here: who calls a governor and when, and who carries a request out: the engine, the open loop, the live host.

pub mod driver;
pub mod drivers;
pub mod facts;
mod fixed;
pub mod freq_table;
pub mod governor;
pub mod governors;
pub mod hybrid;
pub mod perf_margin;
pub mod registered;
pub mod request;
pub mod sampling;

pub use drivers::{DRIVERS, acpi_cpufreq, amd_pstate, cppc, firmware_tables, intel_pstate};
pub use governors::{GOVERNORS, conservative, ondemand, performance, powersave, schedutil, userspace};
