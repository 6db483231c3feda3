//! What stands in a list of the registry, by its entry.

/// An entry of a list, which its name identifies.
pub trait Entry: 'static {
    /// The name.
    fn name(&self) -> &'static str;
}

/// A driver or a governor by its entry; two are the same if their names are.
pub struct Registered<E: Entry>(pub(super) &'static E);

impl<E: Entry> Registered<E> {
    /// Its entry, for as long as one likes.
    pub fn entry(self) -> &'static E {
        self.0
    }
}

impl<E: Entry> Clone for Registered<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Entry> Copy for Registered<E> {}

impl<E: Entry> core::ops::Deref for Registered<E> {
    type Target = E;

    fn deref(&self) -> &E {
        self.0
    }
}

impl<E: Entry> PartialEq for Registered<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name() == other.0.name()
    }
}

impl<E: Entry> Eq for Registered<E> {}

impl<E: Entry> core::fmt::Debug for Registered<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl<E: Entry> core::fmt::Display for Registered<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0.name())
    }
}
