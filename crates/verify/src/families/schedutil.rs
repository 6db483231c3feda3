//! Families of vectors: schedutil.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
