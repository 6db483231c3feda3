//! Families of vectors: balance.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
