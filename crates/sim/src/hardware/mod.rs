//! What the hardware makes of it: operating points, grants, budgets, idle states, energy.

pub(crate) mod budget;
pub(crate) mod cpuidle;
pub(crate) mod energy;
pub(crate) mod grant;
pub(crate) mod hwp;
pub(crate) mod points;
