//! The event queue: at most one pending event a *slot*, ordered by `(time, rank, seq)`.
//!
//! A slot belongs to something that can wait for one thing at a time (the tick of a CPU, the end of its current
//! op, the timer of a CPU, a frequency switch). Setting a slot again moves its event: nothing stale is ever popped.
//! Events of one time are ordered by the rank of their slot's kind, then first set, first out.
//!
//! Slots stand in groups of [`GROUP`]. The earliest events of groups are the leaves of a tournament, in which [`FAN`] nodes report
//! to one. A change costs some comparisons a level that no branch depends on, and a slot's event is where the slot is. What is
//! changed in one group (a CPU's slots are one) is carried up once, when another group changes or the next event is wanted.

/// Slots of a group.
pub(crate) const GROUP: usize = 5;

/// Groups, or nodes, that report to one node.
const FAN: usize = 4;

/// Bits of a slot's place in its group.
const PLACE_BITS: u32 = 3;

/// An event in the order of events: the time in ns, the rank in 3 bits, the order of setting, the slot.
type Key = u128;

/// No event.
const NONE: Key = Key::MAX;

/// Whether a key is that of an event: no order of setting is as large as that of none.
#[inline]
const fn is_event(key: Key) -> bool {
    key as u64 != NONE as u64
}

/// Where an event stands: a group and a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    #[inline]
    pub(crate) const fn new(group: u32, place: u32) -> Self {
        Self(group << PLACE_BITS | place)
    }

    #[inline]
    pub(crate) const fn group(self) -> u32 {
        self.0 >> PLACE_BITS
    }

    #[inline]
    pub(crate) const fn place(self) -> u32 {
        self.0 % (1 << PLACE_BITS)
    }
}

/// The next event, as long as no other is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) time_ns: u64,
    slot: Slot,
}

/// A tournament of slots.
#[derive(Debug)]
pub(crate) struct Queue {
    groups: Vec<[Key; GROUP]>,
    /// What was reported to nodes; node or leaf `n` > 0 reports to place `(n - 1) % FAN` of node `(n - 1) / FAN`.
    nodes: Vec<[Key; FAN]>,
    /// The group that changed and has not reported.
    changed: Option<u32>,
    /// The earliest event of those that were reported.
    first: Key,
    /// Bits of a slot in a key; those left for the order of setting last for 2^46 changes on 4096 CPUs.
    slot_bits: u32,
    seq: u64,
    now_ns: u64,
}

impl Queue {
    pub(crate) fn new(nr_groups: usize) -> Self {
        let nr_groups = nr_groups.max(1);
        let nr_nodes = (nr_groups - 1).div_ceil(FAN - 1).max(1);
        Self {
            groups: vec![[NONE; GROUP]; nr_groups],
            nodes: vec![[NONE; FAN]; nr_nodes],
            changed: None,
            first: NONE,
            slot_bits: nr_groups.next_power_of_two().ilog2() + PLACE_BITS,
            seq: 0,
            now_ns: 0,
        }
    }

    /// Sets (or moves) the event of `slot` to `time_ns`.
    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, time_ns: u64, rank: u8) {
        assert!(time_ns >= self.now_ns, "an event may not lie in the past");
        self.seq += 1;
        let order = (u64::from(rank) << 61) | (self.seq << self.slot_bits) | u64::from(slot.0);
        self.put(slot, (Key::from(time_ns) << 64) | Key::from(order));
    }

    /// The event of `slot` is due at `time_ns`, or there is none: what is so already stays, also its place among those of one time.
    #[inline(always)]
    pub(crate) fn keep(&mut self, slot: Slot, time_ns: Option<u64>, rank: u8) {
        if self.time_of(slot) != time_ns {
            match time_ns {
                Some(time_ns) => self.set(slot, time_ns, rank),
                None => self.put(slot, NONE),
            }
        }
    }

    /// Forgets the event of `slot`, if any.
    #[inline]
    pub(crate) fn clear(&mut self, slot: Slot) {
        if self.time_of(slot).is_some() {
            self.put(slot, NONE);
        }
    }

    /// When the event of `slot` is due.
    #[inline]
    pub(crate) fn time_of(&self, slot: Slot) -> Option<u64> {
        let key = self.groups[slot.group() as usize][slot.place() as usize];
        is_event(key).then_some((key >> 64) as u64)
    }

    /// The next event.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Due> {
        self.report();
        let (key, slots) = (self.first, (1 << self.slot_bits) - 1);
        is_event(key).then_some(Due { time_ns: (key >> 64) as u64, slot: Slot(key as u32 & slots) })
    }

    /// Takes the next event, which has been asked for.
    #[inline]
    pub(crate) fn take(&mut self, due: Due) -> Slot {
        let Due { time_ns, slot } = due;
        debug_assert_eq!(self.time_of(slot), Some(time_ns), "nothing came between");
        assert!(time_ns >= self.now_ns, "time may not go back");
        self.now_ns = time_ns;
        self.put(slot, NONE);
        slot
    }

    #[inline]
    fn put(&mut self, slot: Slot, key: Key) {
        self.groups[slot.group() as usize][slot.place() as usize] = key;
        let before = self.changed.replace(slot.group());
        if let Some(before) = before.filter(|&before| before != slot.group()) {
            self.report_group(before as usize);
        }
    }

    #[inline]
    fn report(&mut self) {
        if let Some(group) = self.changed.take() {
            self.report_here(group as usize);
        }
    }

    #[inline(never)]
    fn report_group(&mut self, group: usize) {
        self.report_here(group);
    }

    /// Carries the earliest event of a group up as far as it matters.
    #[inline(always)]
    fn report_here(&mut self, group: usize) {
        let [a, b, c, d, e] = self.groups[group];
        let mut least = a.min(b).min(c.min(d)).min(e);
        let mut at = self.nodes.len() + group;
        while at > 0 {
            let place = (at - 1) % FAN;
            at = (at - 1) / FAN;
            let node = &mut self.nodes[at];
            // No two orders of setting are the same.
            if std::mem::replace(&mut node[place], least) as u64 == least as u64 {
                return;
            }
            let [a, b, c, d] = *node;
            least = a.min(b).min(c.min(d));
        }
        self.first = least;
    }
}

#[cfg(test)]
mod tests {
    use super::{GROUP, Slot};

    /// A queue that is asked by the number of a slot.
    struct Queue(super::Queue);

    impl Queue {
        fn new(nr_slots: usize) -> Self {
            Self(super::Queue::new(nr_slots.div_ceil(GROUP)))
        }

        fn slot(number: u32) -> Slot {
            Slot::new(number / GROUP as u32, number % GROUP as u32)
        }

        fn set(&mut self, number: u32, time_ns: u64, rank: u8) {
            self.0.set(Self::slot(number), time_ns, rank);
        }

        fn clear(&mut self, number: u32) {
            self.0.clear(Self::slot(number));
        }

        fn time_of(&self, number: u32) -> Option<u64> {
            self.0.time_of(Self::slot(number))
        }

        fn peek(&mut self) -> Option<u64> {
            self.0.next().map(|due| due.time_ns)
        }

        fn pop(&mut self) -> Option<(u64, u32)> {
            let due = self.0.next()?;
            let slot = self.0.take(due);
            Some((due.time_ns, slot.group() * GROUP as u32 + slot.place()))
        }
    }

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
