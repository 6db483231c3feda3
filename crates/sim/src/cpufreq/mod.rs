//! What software asks of the clock: policies, governors, drivers.

pub(crate) mod amd;
pub(crate) mod intel;
pub(crate) mod policy;
