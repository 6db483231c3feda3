//! The drivers, a file each.

pub mod amd_pstate;
pub mod cppc;
pub mod intel_pstate;
