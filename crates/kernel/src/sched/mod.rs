//! The scheduler's own decisions.

pub mod attach;
pub mod balance;
mod balance_v54;
pub mod cfs;
pub mod cfs_bandwidth;
pub mod cpumask;
pub mod deadline;
pub mod dl_bw;
pub mod dl_entity;
pub mod dl_server;
pub mod domains;
pub mod eevdf;
pub mod entity;
pub mod find_idlest;
pub mod find_idlest_v54;
pub mod fitness;
pub mod group;
pub mod newidle;
pub mod nohz;
pub mod placement;
pub mod psi;
pub mod rt;
pub mod rt_bandwidth;
pub mod sd_flags;
pub mod task_list;
pub mod timeline;
pub mod weight;
