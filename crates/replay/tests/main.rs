//! The tests of this crate, in one program: what they all need is compiled once.

mod energies;
mod freq_max;
mod groups;
mod replay;
mod three_ways;
