//! The event queue: at most one pending event a *slot*, ordered by `(time, rank, seq)`.
//!
//! A slot belongs to something that can wait for one thing at a time (the tick of a CPU, the end of its current
//! op, the timer of a CPU, a frequency switch). Setting a slot again moves its event: nothing stale is ever popped.
//! Events of one time are ordered by the rank of their slot's kind, then first set, first out.

/// Arity of the heap: four children share a cache line of keys.
const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time_ns: u64,
    /// Rank in the upper 8 bits, sequence number below.
    order: u64,
}

/// An indexed heap over slots.
#[derive(Debug)]
pub(crate) struct Queue {
    heap: Vec<(Key, u32)>,
    /// Position of each slot in the heap, or `ABSENT`.
    place: Vec<u32>,
    seq: u64,
    now_ns: u64,
}

impl Queue {
    pub(crate) fn new(nr_slots: usize) -> Self {
        Self { heap: Vec::with_capacity(nr_slots), place: vec![ABSENT; nr_slots], seq: 0, now_ns: 0 }
    }

    /// Sets (or moves) the event of `slot` to `time_ns`.
    pub(crate) fn set(&mut self, slot: u32, time_ns: u64, rank: u8) {
        assert!(time_ns >= self.now_ns, "an event may not lie in the past");
        self.seq += 1;
        let key = Key { time_ns, order: (u64::from(rank) << 56) | self.seq };
        let place = self.place[slot as usize];
        if place == ABSENT {
            self.heap.push((key, slot));
            self.up(self.heap.len() - 1);
        } else {
            let place = place as usize;
            let old = self.heap[place].0;
            self.heap[place].0 = key;
            if key < old {
                self.up(place);
            } else {
                self.down(place);
            }
        }
    }

    /// Forgets the event of `slot`, if any.
    pub(crate) fn clear(&mut self, slot: u32) {
        let place = self.place[slot as usize];
        if place == ABSENT {
            return;
        }
        self.remove(place as usize);
    }

    /// When the event of `slot` is due.
    pub(crate) fn time_of(&self, slot: u32) -> Option<u64> {
        let place = self.place[slot as usize];
        (place != ABSENT).then(|| self.heap[place as usize].0.time_ns)
    }

    /// The next event's time.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.0.time_ns)
    }

    /// Takes the next event.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        let &(key, slot) = self.heap.first()?;
        assert!(key.time_ns >= self.now_ns, "time may not go back");
        self.now_ns = key.time_ns;
        self.remove(0);
        Some((key.time_ns, slot))
    }

    fn remove(&mut self, place: usize) {
        let slot = self.heap[place].1;
        self.place[slot as usize] = ABSENT;
        let last = self.heap.len() - 1;
        if place == last {
            self.heap.pop();
            return;
        }
        self.heap.swap_remove(place);
        self.place[self.heap[place].1 as usize] = place as u32;
        if place > 0 && self.heap[place].0 < self.heap[(place - 1) / ARITY].0 {
            self.up(place);
        } else {
            self.down(place);
        }
    }

    fn up(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.heap[place] = self.heap[parent];
            self.place[self.heap[place].1 as usize] = place as u32;
            place = parent;
        }
        self.heap[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        let len = self.heap.len();
        loop {
            let first = place * ARITY + 1;
            if first >= len {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + ARITY).min(len) {
                if self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if entry.0 <= self.heap[least].0 {
                break;
            }
            self.heap[place] = self.heap[least];
            self.place[self.heap[place].1 as usize] = place as u32;
            place = least;
        }
        self.heap[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    /// Pops everything, as (time, slot).
    fn drain(queue: &mut Queue) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn equal_times_go_by_rank_then_by_order_of_setting() {
        let mut queue = Queue::new(4);
        queue.set(0, 10, 2);
        queue.set(1, 10, 1);
        queue.set(2, 10, 2);
        queue.set(3, 5, 9);
        assert_eq!(drain(&mut queue), [(5, 3), (10, 1), (10, 0), (10, 2)]);
    }

    #[test]
    fn moving_and_clearing_leave_nothing_stale() {
        let mut queue = Queue::new(4);
        queue.set(0, 10, 0);
        queue.set(1, 20, 0);
        queue.set(0, 30, 0);
        queue.set(2, 25, 0);
        queue.clear(2);
        queue.clear(3);
        assert_eq!(queue.time_of(0), Some(30));
        assert_eq!(drain(&mut queue), [(20, 1), (30, 0)]);
    }

    proptest::proptest! {
        /// The queue gives the same order as sorting.
        #[test]
        fn orders_as_a_sort_does(times in proptest::collection::vec(0u64..100, 1..200)) {
            let mut queue = Queue::new(times.len());
            for (slot, &time) in times.iter().enumerate() {
                queue.set(slot as u32, time, (slot % 3) as u8);
            }
            let mut expected: Vec<_> = times.iter().enumerate().map(|(slot, &time)| (time, slot % 3, slot as u32)).collect();
            expected.sort_unstable();
            let expected: Vec<_> = expected.into_iter().map(|(time, _, slot)| (time, slot)).collect();
            proptest::prop_assert_eq!(drain(&mut queue), expected);
        }
    }
}
