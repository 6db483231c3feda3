//! The governors, a file each.

pub mod conservative;
pub mod ondemand;
pub mod performance;
pub mod powersave;
pub mod schedutil;
pub mod userspace;

/// Every governor that a policy can name: the `GOVERNOR` of each file.
pub static GOVERNORS: &[&super::governor::GovernorEntry] = &[
    &schedutil::GOVERNOR,
    &ondemand::GOVERNOR,
    &conservative::GOVERNOR,
    &performance::GOVERNOR,
    &powersave::GOVERNOR,
    &userspace::GOVERNOR,
];

#[cfg(test)]
mod tests {
    /// Goal: no file is forgotten. Method: the modules of this file, as its text names them, have an entry each.
    #[test]
    fn every_file_is_registered() {
        let modules = include_str!("mod.rs").lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), super::GOVERNORS.len());
    }
}
