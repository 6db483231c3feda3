//! Families of vectors: invariance.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
