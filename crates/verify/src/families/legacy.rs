//! Families of vectors: legacy.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
