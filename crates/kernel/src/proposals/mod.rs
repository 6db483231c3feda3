//! Proposals: what people have posted for the kernel and nobody has merged, by name and off by default.
//!
//! A kernel is a profile (its version, its gates) and the proposals that a policy adds to it, `NAME` or
//! `NAME:key=value,key=value`. A file here has the proposal's [`ProposalEntry`] and what it computes; what it sets in
//! [`Proposals`] is read where the kernel's own code would be patched.
//!
//! ```text
//!   "headroom:percent=110" ─► Proposals::add ─► KernelProfile::proposals ─► schedutil, eas, teo ...: the patched lines
//! ```
//! Not here: what was merged (a gate of [`crate::profile`]), and when the engine calls these functions.
//! Each is written from the public thread that it names and from what the thread states, not from its code, and
//! there are no vectors of it: it is the proposal's idea on this kernel, not the patch bit for bit.

pub mod dynamic_overutilized;
pub mod headroom;
pub mod lingering_overutilized;
pub mod lone_task;
pub mod no_iowait_boost;
pub mod pelt_multiplier;
pub mod proposal;
pub mod push_eas;
pub mod rampup_qos;
pub mod response_time;
pub mod task_iowait_boost;
pub mod teo_util;
pub mod uclamp_sum;
pub mod util_burst;

pub use proposal::{Need, ProposalEntry, ProposalError, ProposalParam, Proposals, Values, Within};

/// Every proposal that a policy can name: the `PROPOSAL` of each file.
pub static PROPOSALS: &[&ProposalEntry] = &[
    &push_eas::PROPOSAL,
    &lone_task::PROPOSAL,
    &lingering_overutilized::PROPOSAL,
    &dynamic_overutilized::PROPOSAL,
    &util_burst::PROPOSAL,
    &response_time::PROPOSAL,
    &rampup_qos::PROPOSAL,
    &pelt_multiplier::PROPOSAL,
    &uclamp_sum::PROPOSAL,
    &no_iowait_boost::PROPOSAL,
    &task_iowait_boost::PROPOSAL,
    &headroom::PROPOSAL,
    &teo_util::PROPOSAL,
];

#[cfg(test)]
mod tests {
    /// Goal: no file is forgotten. Method: the modules of this file, as its text names them, have an entry each, but `proposal`.
    #[test]
    fn every_file_is_registered() {
        let modules = include_str!("mod.rs").lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), super::PROPOSALS.len() + 1);
    }
}
