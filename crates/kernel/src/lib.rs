//! Linux's frequency, utilisation and energy decisions as a library.
//!
//! Integers only, no clock, no I/O, no randomness, no dependencies: `state + facts -> state + request`.
//! Each file is named after the kernel file that it follows and each function after its kernel function, so that
//! somebody who knows the kernel finds it; the version and any deviation are written beside it.
//! Implemented independently from written notes of the algorithms; equality, bit for bit, is proven with vectors that
//! were computed by the real kernel's code (`opplab verify vectors`). Which share of each kernel's behaviour they reach
//! is counted in `docs/kernel-profiles.md` ([`profile_table::proven`]).

pub mod clock_pelt;
pub mod cpufreq;
pub mod cpuidle;
pub mod eas;
pub mod eas_groups;
pub mod energy_model;
pub mod evidence;
pub mod freq_invariance;
pub mod freq_max;
pub mod pelt;
pub mod pelt_batch;
pub mod pelt_scaled;
pub mod profile;
pub mod profile_table;
pub mod proposals;
pub mod release;
pub mod sched;
pub mod timer_wheel;
pub mod uclamp;
pub mod unit;
pub mod util_est;
