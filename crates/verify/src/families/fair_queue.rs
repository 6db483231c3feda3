//! Families of vectors: fair queue.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
