//! Families of vectors: cpuidle.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
