//! One module a topic; each lists its families.

use crate::Family;

pub mod amd_pstate;
pub mod attach;
pub mod balance;
pub mod cpuidle;
pub mod dbs;
pub mod domains;
pub mod energy;
pub mod fair_queue;
pub mod intel_pstate;
pub mod invariance;
pub mod legacy;
pub mod load_tracking;
pub mod placement;
pub mod schedutil;

/// All topics.
pub const GROUPS: &[&[Family]] = &[
    load_tracking::FAMILIES,
    schedutil::FAMILIES,
    energy::FAMILIES,
    placement::FAMILIES,
    invariance::FAMILIES,
    intel_pstate::FAMILIES,
    amd_pstate::FAMILIES,
    dbs::FAMILIES,
    cpuidle::FAMILIES,
    legacy::FAMILIES,
    fair_queue::FAMILIES,
    attach::FAMILIES,
    balance::FAMILIES,
    domains::FAMILIES,
];
