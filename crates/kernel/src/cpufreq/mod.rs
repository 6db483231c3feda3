//! cpufreq: frequency tables, drivers' arithmetic and governors.

pub mod dbs_governor;
mod drivers;
pub mod freq_table;
mod governors;
pub mod request;
pub mod sampling;

pub use drivers::{amd_pstate, cppc, intel_pstate};
pub use governors::{conservative, ondemand, schedutil, static_};
