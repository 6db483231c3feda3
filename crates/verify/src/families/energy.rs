//! Families of vectors: energy.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
