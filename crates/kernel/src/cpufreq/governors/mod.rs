//! The governors, a file each.

pub mod conservative;
pub mod ondemand;
pub mod schedutil;
pub mod static_;
