//! The governors, a file each.

pub mod conservative;
pub mod ondemand;
pub mod performance;
pub mod powersave;
pub mod schedutil;
pub mod userspace;

use super::governor::{Governor, GovernorEntry, GovernorError, GovernorSetup};

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
#[derive(Clone, Copy)]
pub struct GovernorId(&'static GovernorEntry);

impl GovernorId {
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

    /// Its entry, for as long as one likes.
    pub fn entry(self) -> &'static GovernorEntry {
        self.0
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

impl core::ops::Deref for GovernorId {
    type Target = GovernorEntry;

    fn deref(&self) -> &GovernorEntry {
        self.0
    }
}

impl PartialEq for GovernorId {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for GovernorId {}

impl core::fmt::Debug for GovernorId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0.name)
    }
}

impl core::fmt::Display for GovernorId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name)
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
