//! What software asks of the clock: policies, governors, drivers.

pub(crate) mod amd;
pub(crate) mod freq_max;
pub(crate) mod freq_policy;
pub(crate) mod intel;
mod intel_driver;
mod policy;
