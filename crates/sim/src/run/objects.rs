//! What programs share: mutexes, conditions, barriers, semaphores, timers, channels, devices, services, decks.

use std::collections::VecDeque;

use opplab_model::workload::{ObjectIdx, Workload};
use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::ids::{CpuId, DeviceId, IdVec, LlcId, TaskId};

/// The first stream of the decks' random numbers.
const DECK_STREAM: u64 = 0x6465_636b << 32;

#[derive(Debug, Default)]
pub(crate) struct Mutex {
    pub(crate) owner: Option<TaskId>,
    pub(crate) waiters: VecDeque<TaskId>,
}

#[derive(Debug, Default)]
pub(crate) struct Cond {
    pub(crate) waiters: VecDeque<TaskId>,
}

#[derive(Debug)]
pub(crate) struct Barrier {
    pub(crate) users: u32,
    pub(crate) waiters: Vec<TaskId>,
}

impl Barrier {
    /// Whether all users are there when one more comes.
    pub(crate) fn is_complete_with_one_more(&self) -> bool {
        self.waiters.len() as u32 + 1 >= self.users
    }
}

#[derive(Debug, Default)]
pub(crate) struct Semaphore {
    pub(crate) value: u32,
    pub(crate) waiters: VecDeque<TaskId>,
}

/// What a task has written into a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) bytes: u32,
    /// The channel that leads back to who sent it.
    pub(crate) back: Option<ObjectIdx>,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) capacity: u32,
    pub(crate) sync_wakeup: bool,
    pub(crate) used: u32,
    pub(crate) messages: VecDeque<Message>,
    pub(crate) readers: VecDeque<TaskId>,
    pub(crate) writers: VecDeque<TaskId>,
}

impl Channel {
    /// Whether a message of `bytes` fits; an empty channel takes any.
    pub(crate) fn has_room(&self, bytes: u32) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.capacity
    }
}

#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) service_ns: u64,
    pub(crate) per_kib_ns: u64,
    pub(crate) bus_per_kib_ns: u64,
    /// When the bus has passed all requests that it was given.
    pub(crate) bus_free_ns: u64,
    pub(crate) queue_depth: u32,
    pub(crate) irq_cpu: Option<CpuId>,
    pub(crate) rq_affinity: bool,
    pub(crate) irq_ns: u64,
    /// Requests in service: (completion time, sequence, task, CPU of the interrupt), earliest first.
    pub(crate) in_service: Vec<(u64, u64, TaskId, CpuId)>,
    /// Requests that wait for a place: (task, bytes, submitting CPU).
    pub(crate) waiting: VecDeque<(TaskId, u32, CpuId, u64)>,
    pub(crate) seq: u64,
}

impl Device {
    /// When a request of `bytes` that is started at `now` will be complete.
    pub(crate) fn start(&mut self, now: u64, bytes: u32) -> u64 {
        let kib = u64::from(bytes.div_ceil(1024));
        let served = now + self.service_ns + self.per_kib_ns * kib;
        if self.bus_per_kib_ns == 0 {
            return served;
        }
        self.bus_free_ns = self.bus_free_ns.max(served) + self.bus_per_kib_ns * kib;
        self.bus_free_ns
    }
}

/// Where tasks ask and servers reply.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Tasks whose calls nobody has accepted, in order.
    pub(crate) calls: VecDeque<TaskId>,
    /// Servers that sleep until there is a call.
    pub(crate) servers: VecDeque<TaskId>,
}

/// A table of lengths that is drawn from as from a deck of cards, shuffled again when all are drawn: the work of a run
/// does not depend on luck.
#[derive(Debug)]
pub(crate) struct Deck {
    cards: Vec<u64>,
    next: usize,
    rng: Pcg32,
}

impl Deck {
    fn new(cards: &[u64], rng: Pcg32) -> Self {
        Self { cards: cards.to_vec(), next: cards.len(), rng }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        if self.next == self.cards.len() {
            self.next = 0;
            for last in (1..self.cards.len()).rev() {
                // The high half of the product is at most `last`.
                let other = (u64::from(self.rng.next_u32()) * (last as u64 + 1)) >> 32;
                self.cards.swap(last, other as usize);
            }
        }
        self.next += 1;
        self.cards[self.next - 1]
    }
}

/// A cache line that CPUs of several caches write.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// When all contended accesses that have begun are over.
    pub(crate) free_ns: u64,
    /// Shared accesses since the last one that wrote.
    reads: u32,
    /// How often it was written.
    version: u64,
    /// Version of each last-level cache's copy.
    copies: Vec<u64>,
}

impl Line {
    /// An access under `llc`, of which each `every`-th writes; whether the line was there already.
    pub(crate) fn access(&mut self, llc: LlcId, every: u32) -> bool {
        self.reads += 1;
        let index = llc.0 as usize;
        if self.copies.len() <= index {
            self.copies.resize(index + 1, 0);
        }
        let copy = &mut self.copies[index];
        let is_here = *copy == self.version;
        if self.reads >= every {
            (self.reads, self.version) = (0, self.version + 1);
        }
        *copy = self.version;
        is_here
    }
}

/// All shared objects of a run.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) mutexes: Vec<Mutex>,
    pub(crate) lines: Vec<Line>,
    pub(crate) conds: Vec<Cond>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) semaphores: Vec<Semaphore>,
    /// Next point of each timer's grid.
    pub(crate) timers: Vec<Option<u64>>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) devices: IdVec<DeviceId, Device>,
    pub(crate) services: Vec<Service>,
    pub(crate) decks: Vec<Deck>,
}

impl Objects {
    pub(crate) fn new(workload: &Workload, seed: u64) -> Self {
        Self {
            mutexes: (0..workload.nr_mutexes).map(|_| Mutex::default()).collect(),
            lines: (0..workload.nr_lines).map(|_| Line::default()).collect(),
            conds: (0..workload.nr_conds).map(|_| Cond::default()).collect(),
            barriers: workload.barriers.iter().map(|&users| Barrier { users, waiters: Vec::new() }).collect(),
            semaphores: workload
                .semaphores
                .iter()
                .map(|&value| Semaphore { value, waiters: VecDeque::new() })
                .collect(),
            timers: vec![None; workload.nr_timers as usize],
            channels: workload
                .channels
                .iter()
                .map(|spec| Channel {
                    capacity: spec.capacity_bytes,
                    sync_wakeup: spec.sync_wakeup,
                    used: 0,
                    messages: VecDeque::new(),
                    readers: VecDeque::new(),
                    writers: VecDeque::new(),
                })
                .collect(),
            devices: workload
                .devices
                .iter()
                .map(|spec| Device {
                    service_ns: spec.service_ns,
                    per_kib_ns: spec.per_kib_ns,
                    bus_per_kib_ns: spec.bus_per_kib_ns,
                    bus_free_ns: 0,
                    queue_depth: spec.queue_depth.max(1),
                    irq_cpu: spec.irq_cpu.map(CpuId),
                    rq_affinity: spec.rq_affinity,
                    irq_ns: spec.irq_ns,
                    in_service: Vec::new(),
                    waiting: VecDeque::new(),
                    seq: 0,
                })
                .collect(),
            services: (0..workload.nr_services).map(|_| Service::default()).collect(),
            decks: (0u64..)
                .zip(&workload.draws)
                .map(|(index, table)| Deck::new(table, Pcg32::new(seed, DECK_STREAM + index)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_a_bus_one_after_the_other() {
        let mut device = Device {
            service_ns: 100,
            per_kib_ns: 0,
            bus_per_kib_ns: 10,
            bus_free_ns: 0,
            queue_depth: 8,
            irq_cpu: None,
            rq_affinity: false,
            irq_ns: 0,
            in_service: Vec::new(),
            waiting: VecDeque::new(),
            seq: 0,
        };
        assert_eq!(device.start(0, 4096), 140);
        assert_eq!(device.start(20, 2048), 160, "its service ends at 120, the bus is free at 140");
        assert_eq!(device.start(1000, 1024), 1110, "the bus is free");
        device.bus_per_kib_ns = 0;
        device.per_kib_ns = 10;
        assert_eq!((device.start(0, 4096), device.start(20, 4096)), (140, 160), "without a bus side by side");
    }
}
