//! cpuidle governors: plain facts in, a state and the fate of the tick out.

pub mod haltpoll;
pub mod ladder;
pub mod menu;
pub mod teo;
