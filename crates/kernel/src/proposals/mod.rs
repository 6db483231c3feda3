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
//! Each is written from the public thread that it names and from what the thread says of itself, not from its code, and
//! there are no vectors of it: it is the proposal's idea on this kernel, not the patch bit for bit.

pub mod proposal;

pub use proposal::{ProposalEntry, ProposalError, ProposalParam, Proposals, Values};

/// Each file has a `PROPOSAL`; its name here is all that makes it one of [`PROPOSALS`].
macro_rules! proposals {
    ($($name:ident)+) => {
        $(pub mod $name;)+

        /// Every proposal that a policy can name.
        pub static PROPOSALS: &[&ProposalEntry] = &[$(&$name::PROPOSAL),+];
    };
}

proposals! {
    push_eas
    lone_task
    lingering_overutilized
    dynamic_overutilized
    util_burst
    response_time
    rampup_qos
    pelt_multiplier
    uclamp_sum
    no_iowait_boost
    task_iowait_boost
    headroom
    teo_util
}
