//! Sets of CPUs, from 1 to 4096 of them, as words of 64 bits.
//!
//! [`CpuSet`] is a borrowed window: it knows at which word of the machine's mask it starts, so that the span of a last-level
//! cache costs one or two words to scan on a machine of any size. [`CpuMask`] owns its words.
//! There is no heap use in any operation of a set; a CPU that lies outside the window is not in the set.
//! This module knows nothing about topology.

const BITS: usize = u64::BITS as usize;

/// A borrowed set of CPUs (include/linux/cpumask.h, `struct cpumask`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet<'a> {
    words: &'a [u64],
    first_word: usize,
}

impl<'a> CpuSet<'a> {
    /// The set whose bit 0 of word 0 is CPU 0.
    #[inline]
    pub const fn new(words: &'a [u64]) -> Self {
        Self { words, first_word: 0 }
    }

    /// The word that holds the CPUs `64 * index ..= 64 * index + 63`; zero outside the window.
    #[inline]
    pub fn word(self, index: usize) -> u64 {
        match index.checked_sub(self.first_word) {
            Some(at) => self.words.get(at).copied().unwrap_or(0),
            None => 0,
        }
    }

    /// The indices of the words that may hold CPUs.
    #[inline]
    pub fn word_range(self) -> std::ops::Range<usize> {
        self.first_word..self.first_word.saturating_add(self.words.len())
    }

    /// Whether `cpu` is in the set (`cpumask_test_cpu()`).
    #[inline]
    pub fn contains(self, cpu: usize) -> bool {
        self.word(cpu / BITS) >> (cpu % BITS) & 1 != 0
    }

    /// Whether there is no CPU in the set.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// How many CPUs are in the set (`cpumask_weight()`).
    pub fn weight(self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The lowest CPU (`cpumask_first()`).
    #[inline]
    pub fn first(self) -> Option<usize> {
        self.first_in(|_, word| word)
    }

    /// The lowest CPU of what `keep(word index, word)` leaves of each word.
    #[inline]
    pub fn first_in(self, keep: impl Fn(usize, u64) -> u64) -> Option<usize> {
        for (at, &word) in self.words.iter().enumerate().filter(|&(_, &word)| word != 0) {
            let index = self.first_word + at;
            let kept = keep(index, word) & word;
            if kept != 0 {
                return Some(index * BITS + kept.trailing_zeros() as usize);
            }
        }
        None
    }

    /// The lowest CPU that is not below `start` (`cpumask_next()`).
    #[inline]
    pub fn first_from(self, start: usize) -> Option<usize> {
        let (start_word, upper_bits) = (start / BITS, u64::MAX << (start % BITS));
        let from = start_word.max(self.first_word);
        (from..self.word_range().end).find_map(|index| {
            let word = self.word(index) & if index == start_word { upper_bits } else { u64::MAX };
            (word != 0).then(|| index * BITS + word.trailing_zeros() as usize)
        })
    }

    /// The lowest CPU that is in both sets (`cpumask_first_and()`).
    #[inline]
    pub fn first_and(self, other: CpuSet<'_>) -> Option<usize> {
        self.first_in(|index, word| word & other.word(index))
    }

    /// Whether the sets have a CPU in common (`cpumask_intersects()`).
    #[inline]
    pub fn intersects(self, other: CpuSet<'_>) -> bool {
        self.first_and(other).is_some()
    }

    /// Whether every CPU of this set is in `other` (`cpumask_subset()`).
    #[inline]
    pub fn is_subset(self, other: CpuSet<'_>) -> bool {
        self.first_in(|index, word| word & !other.word(index)).is_none()
    }

    /// How many CPUs are in both sets (`cpumask_weight_and()`).
    pub fn weight_and(self, other: CpuSet<'_>) -> u32 {
        self.words.iter().enumerate().map(|(at, word)| (word & other.word(self.first_word + at)).count_ones()).sum()
    }

    /// The CPUs in ascending order (`for_each_cpu()`).
    #[inline]
    pub fn iter(self) -> CpuIter<'a> {
        CpuIter { set: self, at: 0, word: self.words.first().copied().unwrap_or(0) }
    }

    /// The pieces of the set in the order of `for_each_cpu_wrap(cpu, mask, start)`: the CPUs from `start` upwards, then those
    /// below it. Each piece is a word index and the bits of that word that are visited there.
    #[inline]
    pub fn wrap_words(self, start: usize) -> impl Iterator<Item = (usize, u64)> + use<'a> {
        let (start_word, start_bit) = (start / BITS, start % BITS);
        let upper_bits = u64::MAX << start_bit;
        let range = self.word_range();
        let from = start_word.clamp(range.start, range.end);
        // Below `range.start` the mask of the starting word touches no word of the window, above it the upper part is empty.
        let upper =
            (from..range.end).map(move |index| (index, if index == start_word { upper_bits } else { u64::MAX }));
        let until = start_word.saturating_add(1).clamp(range.start, range.end);
        let lower =
            (range.start..until).map(move |index| (index, if index == start_word { !upper_bits } else { u64::MAX }));
        upper.chain(lower).map(move |(index, visited)| (index, self.word(index) & visited))
    }

    /// The first CPU in wrap order from `start` of what `keep(word index, word)` leaves of each word.
    #[inline]
    pub fn first_wrap(self, start: usize, keep: impl Fn(usize, u64) -> u64) -> Option<usize> {
        for (index, word) in self.wrap_words(start) {
            let kept = keep(index, word) & word;
            if kept != 0 {
                return Some(index * BITS + kept.trailing_zeros() as usize);
            }
        }
        None
    }
}

/// The CPUs of a set in ascending order.
#[derive(Clone, Debug)]
pub struct CpuIter<'a> {
    set: CpuSet<'a>,
    at: usize,
    word: u64,
}

impl Iterator for CpuIter<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.at += 1;
            self.word = *self.set.words.get(self.at)?;
        }
        let bit = self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        Some((self.set.first_word + self.at) * BITS + bit)
    }
}

/// The CPUs of a word of a mask in ascending order, as numbers of the machine.
#[inline]
pub fn cpus_of_word(index: usize, word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(index * BITS + bit)
    })
}

/// A set of CPUs that owns its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuMask {
    words: Vec<u64>,
    first_word: usize,
}

impl CpuMask {
    /// An empty set with room for the CPUs `0..n_cpus`.
    pub fn with_room(n_cpus: usize) -> Self {
        Self { words: vec![0; n_cpus.div_ceil(BITS)], first_word: 0 }
    }

    /// The set of the CPUs `0..n_cpus`.
    pub fn all(n_cpus: usize) -> Self {
        let mut mask = Self::with_room(n_cpus);
        for cpu in 0..n_cpus {
            mask.insert(cpu);
        }
        mask
    }

    /// The set with exactly one CPU, in a window of one word.
    pub fn one(cpu: usize) -> Self {
        Self { words: vec![1 << (cpu % BITS)], first_word: cpu / BITS }
    }

    /// The set as a view.
    #[inline]
    pub fn as_set(&self) -> CpuSet<'_> {
        CpuSet { words: &self.words, first_word: self.first_word }
    }

    /// Adds `cpu`; the window grows where it must.
    pub fn insert(&mut self, cpu: usize) {
        let index = cpu / BITS;
        if self.words.is_empty() {
            self.first_word = index;
        }
        if index < self.first_word {
            let more = self.first_word - index;
            self.words.splice(0..0, std::iter::repeat_n(0, more));
            self.first_word = index;
        }
        let at = index - self.first_word;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (cpu % BITS);
    }

    /// Adds the CPUs of `other` that lie in the window.
    pub fn insert_within(&mut self, other: CpuSet<'_>) {
        for (at, word) in other.words.iter().enumerate() {
            let at = (other.first_word + at).checked_sub(self.first_word);
            if let Some(own) = at.and_then(|at| self.words.get_mut(at)) {
                *own |= word;
            }
        }
    }

    /// Removes `cpu` if it is there.
    #[inline]
    pub fn remove(&mut self, cpu: usize) {
        if let Some(at) = (cpu / BITS).checked_sub(self.first_word)
            && let Some(word) = self.words.get_mut(at)
        {
            *word &= !(1 << (cpu % BITS));
        }
    }

    /// Adds or removes `cpu`.
    #[inline]
    pub fn set(&mut self, cpu: usize, present: bool) {
        if present {
            self.insert(cpu);
        } else {
            self.remove(cpu);
        }
    }

    /// Becomes the intersection of two sets, in the window of the first; allocates only if it never was that large.
    pub fn assign_and(&mut self, one: CpuSet<'_>, other: CpuSet<'_>) {
        self.first_word = one.first_word;
        self.words.clear();
        self.words.extend(one.words.iter().enumerate().map(|(at, word)| word & other.word(one.first_word + at)));
    }

    /// Narrows the window to the words that hold CPUs, so that scans of a small set on a big machine are short.
    pub fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        let empty = self.words.iter().take_while(|&&word| word == 0).count();
        self.words.drain(..empty);
        self.first_word = if self.words.is_empty() { 0 } else { self.first_word + empty };
    }
}

impl FromIterator<usize> for CpuMask {
    /// The set of the given CPUs, in the narrowest window.
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = Self::default();
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Every operation agrees with the same operation on a set of numbers, for windows at any place.
        #[test]
        fn agrees_with_a_set_of_numbers(
            cpus in proptest::collection::btree_set(0usize..400, 0..40),
            other in proptest::collection::btree_set(0usize..400, 0..200),
            start in 0usize..500,
        ) {
            let mask: CpuMask = cpus.iter().copied().collect();
            let mask_other: CpuMask = other.iter().copied().collect();
            let (set, set_other) = (mask.as_set(), mask_other.as_set());
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), cpus.clone());
            prop_assert_eq!(set.weight() as usize, cpus.len());
            prop_assert_eq!(set.first(), cpus.first().copied());
            prop_assert_eq!(set.first_and(set_other), cpus.intersection(&other).next().copied());
            prop_assert_eq!(set.first_from(start), cpus.range(start..).next().copied());
            prop_assert_eq!(set.weight_and(set_other) as usize, cpus.intersection(&other).count());
            prop_assert_eq!(set.is_subset(set_other), cpus.is_subset(&other));
            let wrapped: Vec<usize> =
                set.wrap_words(start).flat_map(|(index, word)| cpus_of_word(index, word)).collect();
            let expected: Vec<usize> =
                cpus.range(start..).chain(cpus.range(..start)).copied().collect();
            prop_assert_eq!(wrapped, expected);
            let mut trimmed = CpuMask::with_room(512);
            for &cpu in &cpus {
                trimmed.insert(cpu);
            }
            trimmed.trim();
            prop_assert_eq!(&trimmed, &mask);
            let mut both = trimmed.clone();
            both.insert_within(set_other);
            let window: BTreeSet<usize> = both.as_set().word_range().flat_map(|word| word * 64..word * 64 + 64).collect();
            let expected: BTreeSet<usize> = cpus.union(&(&other & &window)).copied().collect();
            prop_assert_eq!(both.as_set().iter().collect::<BTreeSet<_>>(), expected);
            for &cpu in &other {
                trimmed.remove(cpu);
            }
            prop_assert_eq!(trimmed.as_set().iter().collect::<BTreeSet<_>>(), &cpus - &other);
        }
    }
}
