//! Families of vectors: load tracking.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
