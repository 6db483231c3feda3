//! Families of vectors: intel pstate.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
