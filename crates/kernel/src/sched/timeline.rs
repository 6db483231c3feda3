//! The order of waiting entities: sorted by a virtual time, with the smallest of a second one at hand.
//!
//! Takes the place of the kernel's augmented red-black tree (`cfs_rq->tasks_timeline`). Up to [`FEW`] entries lie in the queue
//! itself, more in blocks of at most [`BLOCK`], each sorted, so that a short queue is one contiguous array and a queue of
//! thousands is searched block by block. An entry equal to others goes behind them, as in the tree. In a steady state nothing
//! is allocated.

use super::entity::{earlier, is_before};

/// The largest number of entries in a block; it is split in two when it would have more.
const BLOCK: usize = 64;

/// How many entries there may be without a block.
const FEW: usize = 4;

/// One waiting entity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What the queue is sorted by: the deadline with EEVDF, the vruntime with CFS.
    pub key: u64,
    /// The entity's vruntime.
    pub vruntime: u64,
    /// The task's number.
    pub id: u32,
}

#[derive(Clone, Debug)]
struct Block {
    entries: Vec<Entry>,
    /// The earliest vruntime; kept only while there is more than one block.
    min_vruntime: u64,
}

impl Block {
    fn refresh(&mut self) {
        let mut vruntimes = self.entries.iter().map(|entry| entry.vruntime);
        if let Some(first) = vruntimes.next() {
            self.min_vruntime = vruntimes.fold(first, earlier);
        }
    }

    fn last_key(&self) -> u64 {
        // A block in the timeline is never empty.
        self.entries[self.entries.len() - 1].key
    }
}

/// The waiting entities of one run queue.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    len: usize,
    /// The entries while there is no block.
    few: [Entry; FEW],
    /// Not empty blocks in order.
    blocks: Vec<Block>,
    /// Buffers to use again.
    spare: Vec<Vec<Entry>>,
}

impl Timeline {
    /// The first entity in order (`__pick_first_entity()`).
    #[inline]
    pub fn first(&self) -> Option<&Entry> {
        match self.blocks.first() {
            None => self.few[..self.len].first(),
            Some(block) => block.entries.first(),
        }
    }

    /// The second entity in order.
    #[inline]
    pub fn second(&self) -> Option<&Entry> {
        if self.blocks.is_empty() { self.few[..self.len].get(1) } else { self.iter().nth(1) }
    }

    /// The entries that are in no block.
    #[inline]
    fn few(&self) -> &[Entry] {
        if self.blocks.is_empty() { &self.few[..self.len] } else { &[] }
    }

    /// The entities in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.few().iter().chain(self.blocks.iter().flat_map(|block| block.entries.iter()))
    }

    /// Adds an entity behind those of an equal key.
    #[inline(always)]
    pub fn insert(&mut self, entry: Entry) {
        let len = self.len;
        if self.blocks.is_empty() && len < FEW {
            let mut place = len;
            while place > 0 && is_before(entry.key, self.few[place - 1].key) {
                self.few[place] = self.few[place - 1];
                place -= 1;
            }
            self.few[place] = entry;
            self.len += 1;
        } else {
            self.insert_in_blocks(entry);
        }
    }

    #[inline(never)]
    fn insert_in_blocks(&mut self, entry: Entry) {
        if self.blocks.is_empty() {
            let mut entries = self.spare.pop().unwrap_or_default();
            entries.extend(self.few);
            let mut block = Block { entries, min_vruntime: 0 };
            block.refresh();
            self.blocks.push(block);
        }
        self.len += 1;
        let n_blocks = self.blocks.len();
        let at = if n_blocks == 1 {
            0
        } else {
            self.blocks.partition_point(|block| !is_before(entry.key, block.last_key())).min(n_blocks - 1)
        };
        let block = &mut self.blocks[at];
        let place = block.entries.partition_point(|other| !is_before(entry.key, other.key));
        block.entries.insert(place, entry);
        block.min_vruntime = earlier(block.min_vruntime, entry.vruntime);
        if block.entries.len() > BLOCK {
            let mut upper = self.spare.pop().unwrap_or_default();
            upper.extend(block.entries.drain(BLOCK / 2..));
            block.refresh();
            let mut upper = Block { entries: upper, min_vruntime: 0 };
            upper.refresh();
            self.blocks.insert(at + 1, upper);
        }
    }

    /// Takes out the entity `id` that was added with `key`.
    ///
    /// # Panics
    /// If it is not there: the run queue and its entities disagree.
    #[inline(always)]
    pub fn remove(&mut self, key: u64, id: u32) {
        let is_it = |other: &Entry| other.key == key && other.id == id;
        if self.blocks.is_empty()
            && let Some(place) = self.few[..self.len].iter().position(is_it)
        {
            self.len -= 1;
            for place in place..self.len.min(FEW - 1) {
                self.few[place] = self.few[place + 1];
            }
        } else {
            self.remove_from_blocks(key, id);
        }
    }

    #[inline(never)]
    fn remove_from_blocks(&mut self, key: u64, id: u32) {
        let mut at = if self.blocks.len() <= 1 {
            0
        } else {
            self.blocks.partition_point(|block| is_before(block.last_key(), key))
        };
        while let Some(block) = self.blocks.get_mut(at) {
            let from = block.entries.partition_point(|other| is_before(other.key, key));
            let found =
                block.entries[from..].iter().take_while(|other| other.key == key).position(|other| other.id == id);
            if let Some(place) = found {
                let entry = block.entries.remove(from + place);
                self.len -= 1;
                if block.entries.is_empty() {
                    let block = self.blocks.remove(at);
                    self.spare.push(block.entries);
                } else if self.blocks.len() > 1 {
                    let block = &mut self.blocks[at];
                    if entry.vruntime == block.min_vruntime {
                        block.refresh();
                    }
                    self.merge(at);
                }
                if self.len <= FEW / 2 {
                    self.leave_blocks();
                }
                return;
            }
            at += 1;
        }
        panic!("task {id} is not in the timeline at {key}");
    }

    /// Takes the entries, few again, out of their blocks.
    fn leave_blocks(&mut self) {
        let mut place = 0;
        for mut block in self.blocks.drain(..) {
            for entry in block.entries.drain(..) {
                self.few[place] = entry;
                place += 1;
            }
            self.spare.push(block.entries);
        }
    }

    /// Joins a block that became small with its right neighbour.
    fn merge(&mut self, at: usize) {
        let Some([left, right]) = self.blocks.get_mut(at..at.saturating_add(2)) else { return };
        if left.entries.len() + right.entries.len() > BLOCK / 2 {
            return;
        }
        left.entries.append(&mut right.entries);
        left.min_vruntime = earlier(left.min_vruntime, right.min_vruntime);
        let right = self.blocks.remove(at + 1);
        self.spare.push(right.entries);
    }

    /// The first entity in order whose vruntime satisfies `eligible`, which must hold for every vruntime before one for which
    /// it holds.
    #[inline]
    pub fn first_eligible(&self, eligible: impl Fn(u64) -> bool) -> Option<&Entry> {
        if self.blocks.is_empty() {
            return self.few().iter().find(|entry| eligible(entry.vruntime));
        }
        let is_short = self.blocks.len() == 1;
        let mut blocks = self.blocks.iter().filter(|block| is_short || eligible(block.min_vruntime));
        blocks.find_map(|block| block.entries.iter().find(|entry| eligible(entry.vruntime)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The timeline is a sorted list, whatever is added and removed; the keys wrap around zero.
        #[test]
        fn is_a_sorted_list(ops in proptest::collection::vec((0u64..300, 0u64..1000, any::<bool>()), 0..600), limit in 0u64..1000) {
            let mut timeline = Timeline::default();
            let mut model: Vec<Entry> = Vec::new();
            for (number, (key, vruntime, add)) in ops.into_iter().enumerate() {
                if add || model.is_empty() {
                    let (key, vruntime) = (key.wrapping_sub(100), vruntime.wrapping_sub(500));
                    let entry = Entry { key, vruntime, id: number as u32 };
                    let place = model.iter().position(|other| is_before(key, other.key)).unwrap_or(model.len());
                    model.insert(place, entry);
                    timeline.insert(entry);
                } else {
                    let entry = model.remove(key as usize % model.len());
                    timeline.remove(entry.key, entry.id);
                }
                prop_assert_eq!(timeline.first(), model.first());
                let eligible = |vruntime: u64| is_before(vruntime, limit.wrapping_sub(500));
                prop_assert_eq!(timeline.first_eligible(eligible), model.iter().find(|entry| eligible(entry.vruntime)));
            }
            prop_assert_eq!(timeline.iter().copied().collect::<Vec<_>>(), model);
        }
    }
}
