//! The event queue: at most one pending event a *slot*, ordered by `(time, rank, seq)`.
//!
//! A slot belongs to something that can wait for one thing at a time (the tick of a CPU, the end of its current
//! op, the timer of a CPU, a frequency switch). Setting a slot again moves its event: nothing stale is ever popped.
//! Events of one time are ordered by the rank of their slot's kind, then first set, first out.
//!
//! The slots are the leaves of a tournament: groups of [`GROUP`] slots, each of which reports its earliest event to a group
//! above. A change costs one comparison a level that no branch depends on, and a slot's event is where the slot is. What is
//! changed in one group (a CPU's slots are one) is carried up once, when another group changes or the next event is wanted.

/// Slots of a group, and groups that report to one group.
pub(crate) const GROUP: usize = 8;

/// An event in the order of events: the time in ns, the rank in 3 bits, the order of setting, the slot.
type Key = u128;

/// No event.
const NONE: Key = Key::MAX;

/// The events of [`GROUP`] slots, or the earliest events of as many groups.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Group([Key; GROUP]);

impl Group {
    /// The earliest event.
    fn least(&self) -> Key {
        let [a, b, c, d, e, f, g, h] = self.0;
        (a.min(b).min(c.min(d))).min(e.min(f).min(g.min(h)))
    }
}

/// A tournament of slots.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The root, the groups of groups, the groups of slots: group `n` > 0 reports to place `(n - 1) % GROUP` of group
    /// `(n - 1) / GROUP`.
    groups: Vec<Group>,
    /// Where the groups of slots begin.
    nr_inner: usize,
    /// The group that changed and has not reported; 0: none.
    changed: usize,
    /// The earliest event of those that were reported.
    first: Key,
    /// Bits of a slot in a key; those left for the order of setting last for 2^46 changes on 4096 CPUs.
    slot_bits: u32,
    seq: u64,
    now_ns: u64,
}

impl Queue {
    pub(crate) fn new(nr_slots: usize) -> Self {
        let leaves = nr_slots.div_ceil(GROUP).max(1);
        let nr_inner = (leaves - 1).div_ceil(GROUP - 1).max(1);
        let groups = vec![Group([NONE; GROUP]); nr_inner + leaves];
        let slot_bits = nr_slots.next_power_of_two().ilog2();
        Self { groups, nr_inner, changed: 0, first: NONE, slot_bits, seq: 0, now_ns: 0 }
    }

    /// Sets (or moves) the event of `slot` to `time_ns`.
    pub(crate) fn set(&mut self, slot: u32, time_ns: u64, rank: u8) {
        assert!(time_ns >= self.now_ns, "an event may not lie in the past");
        self.seq += 1;
        let order = (u64::from(rank) << 61) | (self.seq << self.slot_bits) | u64::from(slot);
        self.put(slot, (Key::from(time_ns) << 64) | Key::from(order));
    }

    /// Forgets the event of `slot`, if any.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.put(slot, NONE);
    }

    /// When the event of `slot` is due.
    pub(crate) fn time_of(&self, slot: u32) -> Option<u64> {
        let key = self.groups[self.nr_inner + slot as usize / GROUP].0[slot as usize % GROUP];
        (key != NONE).then_some((key >> 64) as u64)
    }

    /// The next event's time.
    pub(crate) fn peek(&mut self) -> Option<u64> {
        self.report();
        (self.first != NONE).then_some((self.first >> 64) as u64)
    }

    /// Takes the next event.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        self.report();
        let key = self.first;
        if key == NONE {
            return None;
        }
        let (time_ns, slot) = ((key >> 64) as u64, (key as u64 & ((1 << self.slot_bits) - 1)) as u32);
        assert!(time_ns >= self.now_ns, "time may not go back");
        self.now_ns = time_ns;
        self.put(slot, NONE);
        Some((time_ns, slot))
    }

    fn put(&mut self, slot: u32, key: Key) {
        let group = self.nr_inner + slot as usize / GROUP;
        if group != self.changed {
            self.report();
            self.changed = group;
        }
        self.groups[group].0[slot as usize % GROUP] = key;
    }

    /// Carries the earliest event of the group that changed up as far as it matters.
    fn report(&mut self) {
        let mut at = std::mem::take(&mut self.changed);
        while at > 0 {
            let least = self.groups[at].least();
            let place = (at - 1) % GROUP;
            at = (at - 1) / GROUP;
            if std::mem::replace(&mut self.groups[at].0[place], least) == least {
                return;
            }
            if at == 0 {
                self.first = self.groups[0].least();
            }
        }
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

        /// Set, moved, forgotten and taken events of up to four levels of groups are those of a sorted list.
        #[test]
        fn behaves_as_a_sorted_list(
            nr_slots in proptest::sample::select(vec![1u32, 8, 9, 64, 65, 520, 4200]),
            ops in proptest::collection::vec((0u32..4200, 0u64..50, 0u8..8, 0u8..4), 1..300),
        ) {
            let mut queue = Queue::new(nr_slots as usize);
            let mut model: Vec<(u64, u8, usize, u32)> = Vec::new();
            let mut now = 0;
            for (seq, (slot, after, rank, what)) in ops.into_iter().enumerate() {
                let slot = slot % nr_slots;
                if what == 3 {
                    model.sort_unstable();
                    let first = (!model.is_empty()).then(|| model.remove(0)).map(|(time, _, _, slot)| (time, slot));
                    proptest::prop_assert_eq!(queue.peek(), first.map(|(time, _)| time));
                    proptest::prop_assert_eq!(queue.pop(), first);
                    now = first.map_or(now, |(time, _)| time);
                    continue;
                }
                model.retain(|&(_, _, _, other)| other != slot);
                if what == 2 {
                    queue.clear(slot);
                } else {
                    queue.set(slot, now + after, rank);
                    model.push((now + after, rank, seq, slot));
                }
                let time = model.iter().find(|event| event.3 == slot).map(|event| event.0);
                proptest::prop_assert_eq!(queue.time_of(slot), time);
            }
            model.sort_unstable();
            let expected: Vec<_> = model.into_iter().map(|(time, _, _, slot)| (time, slot)).collect();
            proptest::prop_assert_eq!(drain(&mut queue), expected);
        }
    }
}
