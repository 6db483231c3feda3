//! Families of vectors: dbs.

use crate::Family;

/// The families of this module.
pub const FAMILIES: &[Family] = &[];
