//! The governors, a file each.

pub mod conservative;
pub mod ondemand;
pub mod performance;
pub mod powersave;
pub mod schedutil;
pub mod userspace;

use super::governor::{Governor, GovernorEntry, GovernorError, GovernorSetup};
use super::registered::{Entry, Registered};

/// Every governor that a policy can name: the `GOVERNOR` of each file.
pub static GOVERNORS: &[&GovernorEntry] = &[
    &schedutil::GOVERNOR,
    &ondemand::GOVERNOR,
    &conservative::GOVERNOR,
    &performance::GOVERNOR,
    &powersave::GOVERNOR,
    &userspace::GOVERNOR,
];

/// A governor by its entry; two are the same if their names are.
pub type GovernorId = Registered<GovernorEntry>;

impl Entry for GovernorEntry {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Registered<GovernorEntry> {
    /// The governor called `name`.
    ///
    /// # Errors
    /// [`GovernorError::UnknownGovernor`].
    pub fn named(name: &str) -> Result<Self, GovernorError> {
        let entry = GOVERNORS.iter().copied().find(|entry| entry.name == name);
        let unknown = || GovernorError::UnknownGovernor {
            name: name.to_owned(),
            known: GOVERNORS.iter().map(|entry| entry.name).collect(),
        };
        entry.map(Self).ok_or_else(unknown)
    }

    /// All, in the order of the registry.
    pub fn all() -> impl Iterator<Item = Self> {
        GOVERNORS.iter().copied().map(Self)
    }

    /// Starts one; whoever drives it passes it the limits next.
    ///
    /// # Errors
    /// [`GovernorError`] if a tunable is none of its own, or a value none that it takes.
    pub fn build(self, setup: &GovernorSetup) -> Result<Box<dyn Governor>, GovernorError> {
        for (name, value) in &setup.tunables {
            self.check_tunable(&setup.profile, name, value)?;
        }
        (self.0.new)(setup)
    }
}

#[cfg(test)]
mod tests {
    /// Goal: no file is forgotten. Method: the modules of this file, as its text names them, have an entry each.
    #[test]
    fn every_file_is_registered() {
        let modules = include_str!("mod.rs").lines().filter(|line| line.starts_with("pub mod "));
        assert_eq!(modules.count(), super::GOVERNORS.len());
    }
}
