//! Kernel profiles: what differs from version to version.
