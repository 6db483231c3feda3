//! The scheduler: run queues of all classes, placement, balancing.

pub(crate) mod balance;
pub(crate) mod bandwidth;
pub(crate) mod clamps;
pub(crate) mod core;
pub(crate) mod deadline;
pub(crate) mod eas;
pub(crate) mod eas_groups;
pub(crate) mod fair;
pub(crate) mod placement;
pub(crate) mod rcu;
pub(crate) mod realtime;
pub(crate) mod topology;
