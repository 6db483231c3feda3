//! cpufreq: frequency tables, drivers' arithmetic and governors.

pub mod amd_pstate;
pub mod conservative;
pub mod dbs;
pub mod dbs_governor;
pub mod freq_table;
pub mod intel_pstate;
pub mod ondemand;
pub mod request;
pub mod schedutil;
pub mod static_;
