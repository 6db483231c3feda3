//! Families of vectors: placement.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
