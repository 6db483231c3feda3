//! The scheduler: run queues of all classes, placement, balancing.

mod balance;
pub(crate) mod balancer;
mod bandwidth;
mod clamps;
mod core;
mod deadline;
pub(crate) mod dl_run;
mod eas;
mod eas_groups;
pub(crate) mod eas_model;
mod fair;
pub(crate) mod fair_rq;
pub(crate) mod hybrid;
pub(crate) mod idle_cpus;
mod placement;
mod proposals;
pub(crate) mod proposed;
mod rcu;
mod realtime;
pub(crate) mod root_domain;
pub(crate) mod rq_clamps;
pub(crate) mod rq_facts;
pub(crate) mod starvation;
mod throttle;
pub(crate) mod topology;
