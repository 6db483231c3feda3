//! The tests of this crate, in one program: what they all need is compiled once.

mod experiments;
mod machine_files;
mod policy_keys;
mod rtapp_files;
mod work_units;
