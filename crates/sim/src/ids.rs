//! Indices as types: a CPU is not a task, and a vector of tasks is not asked for a CPU.
//!
//! Inside the engine everything that is counted has its own id, and [`IdVec`] is a vector that takes ids of one kind only. Crate
//! `kernel` counts CPUs in `usize` and tasks in `u32`, events and machines in `u32`: ids are made and unwrapped where the engine
//! meets them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

use opplab_model::event::IDLE_TASK;

/// Something that vectors are indexed with.
pub(crate) trait Id: Copy {
    /// That of a place in a vector.
    fn of(index: usize) -> Self;

    /// The place in a vector.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) u32);

        impl $name {
            /// That of a place in a vector.
            #[inline]
            pub(crate) const fn of(index: usize) -> Self {
                Self(index as u32)
            }

            /// The place in a vector.
            #[inline]
            pub(crate) const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Id for $name {
            #[inline]
            fn of(index: usize) -> Self {
                $name::of(index)
            }

            #[inline]
            fn index(self) -> usize {
                $name::index(self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    )*};
}

ids! {
    /// A CPU, dense from 0.
    CpuId
    /// A task, dense from 0; see [`TaskId::IDLE`].
    TaskId
    /// A cpufreq policy.
    PolicyId
    /// A cluster of the machine.
    ClusterId
    /// A package of the machine.
    PackageId
    /// A last-level cache.
    LlcId
    /// A device of the workload.
    DeviceId
    /// A set of CPUs that tasks may use.
    CpuSetId
    /// A task group, in the workload's order from 1; 0 is the root.
    GroupId
}

impl GroupId {
    /// All tasks that no group names.
    pub(crate) const ROOT: Self = Self(0);
}

impl CpuSetId {
    /// All CPUs.
    pub(crate) const ALL: Self = Self(0);

    /// The set that a workload names so; without a name all CPUs.
    pub(crate) fn of_workload(set: Option<u32>) -> Self {
        set.map_or(Self::ALL, |set| Self(set + 1))
    }
}

impl TaskId {
    /// The idle task of any CPU.
    pub(crate) const IDLE: Self = Self(IDLE_TASK);
}

/// A vector that is indexed with ids of one kind.
pub(crate) struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T> IdVec<I, T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }

    /// The ids of all items.
    pub(crate) fn ids(&self) -> impl Iterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::of)
    }

    /// Adds `item` at the end.
    pub(crate) fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// The item of `id`, if it is there, to change it.
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// Crate `kernel` names CPUs by their place.
impl<T> Index<usize> for IdVec<CpuId, T> {
    type Output = T;

    #[inline]
    fn index(&self, cpu: usize) -> &T {
        &self.items[cpu]
    }
}

impl<T> IndexMut<usize> for IdVec<CpuId, T> {
    #[inline]
    fn index_mut(&mut self, cpu: usize) -> &mut T {
        &mut self.items[cpu]
    }
}

impl<I, T> Deref for IdVec<I, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, id: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Self { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<'v, I, T> IntoIterator for &'v IdVec<I, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<'v, I, T> IntoIterator for &'v mut IdVec<I, T> {
    type Item = &'v mut T;
    type IntoIter = std::slice::IterMut<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter_mut()
    }
}

impl<I, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.fmt(out)
    }
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }
}

impl<I, T: PartialEq> PartialEq for IdVec<I, T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}
