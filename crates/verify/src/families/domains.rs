//! Families of vectors: domains.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
