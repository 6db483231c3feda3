//! The tests of this crate, in one program: what they all need is compiled once.

mod bench;
mod calibrate_made;
mod compare_cli;
mod compare_made;
mod compare_reboot;
mod govern;
mod show;
mod turbostat;
