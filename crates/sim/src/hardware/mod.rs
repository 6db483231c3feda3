//! What the hardware makes of it: operating points, grants, budgets, idle states, energy.

mod budget;
mod cpuidle;
pub(crate) mod energy;
mod grant;
pub(crate) mod hwp;
pub(crate) mod idle_run;
pub(crate) mod packages;
pub(crate) mod points;
