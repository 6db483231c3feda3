//! The agenda of a run: what is awaited, and when. The one place that knows which slot of the [`Queue`] is whose.

use crate::ids::{CpuId, DeviceId, PackageId, PolicyId};
use crate::run::queue::{Due, GROUP, Queue, Slot};

/// What a CPU waits for. The order of the variants is the order of events at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Wait {
    /// The earliest timer armed on the CPU.
    Timer = 0,
    /// The end of the running task's op.
    Op = 1,
    /// The end of an idle state's exit, or of polling.
    IdleExit = 2,
    /// An interrupt from another CPU.
    Ipi = 3,
    /// The tick.
    Tick = 4,
}

impl Wait {
    const ALL: [Self; 5] = [Self::Timer, Self::Op, Self::IdleExit, Self::Ipi, Self::Tick];
}

/// Whom an event concerns. At one instant events of CPUs come first, in the order of [`Wait`], then as the variants here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A CPU.
    Cpu(CpuId, Wait),
    /// A frequency policy whose switch ends.
    Switch(PolicyId),
    /// A device whose earliest request is complete.
    Device(DeviceId),
    /// A package whose control unit looks.
    Package(PackageId),
}

impl Waiter {
    #[inline]
    fn rank(self) -> u8 {
        match self {
            Self::Cpu(_, wait) => wait as u8,
            Self::Switch(_) => 5,
            Self::Device(_) => 6,
            Self::Package(_) => 7,
        }
    }
}

const _: () = assert!(Wait::ALL.len() <= GROUP, "the waits of a CPU are one group, so that its own changes meet there");

/// Everything that is awaited.
#[derive(Debug)]
pub(crate) struct Agenda {
    queue: Queue,
    /// The groups of CPUs come first, then those of policies, devices and packages.
    nr_cpus: u32,
    first_device: u32,
    first_package: u32,
}

impl Agenda {
    pub(crate) fn new(nr_cpus: usize, nr_policies: usize, nr_devices: usize, nr_packages: usize) -> Self {
        let nr_others = nr_policies + nr_devices + nr_packages;
        Self {
            queue: Queue::new(nr_cpus + nr_others.div_ceil(GROUP)),
            nr_cpus: nr_cpus as u32,
            first_device: nr_policies as u32,
            first_package: (nr_policies + nr_devices) as u32,
        }
    }

    #[inline]
    fn slot(&self, waiter: Waiter) -> Slot {
        let other = match waiter {
            Waiter::Cpu(cpu, wait) => return Slot::new(cpu.0, wait as u32),
            Waiter::Switch(policy) => policy.0,
            Waiter::Device(device) => self.first_device + device.0,
            Waiter::Package(package) => self.first_package + package.0,
        };
        Slot::new(self.nr_cpus + other / GROUP as u32, other % GROUP as u32)
    }

    #[inline]
    fn waiter(&self, slot: Slot) -> Waiter {
        let Some(group) = slot.group().checked_sub(self.nr_cpus) else {
            return Waiter::Cpu(CpuId(slot.group()), Wait::ALL[slot.place() as usize]);
        };
        let other = group * GROUP as u32 + slot.place();
        if other < self.first_device {
            Waiter::Switch(PolicyId(other))
        } else if other < self.first_package {
            Waiter::Device(DeviceId(other - self.first_device))
        } else {
            Waiter::Package(PackageId(other - self.first_package))
        }
    }

    /// Sets (or moves) what `waiter` waits for to `time_ns`.
    #[inline]
    pub(crate) fn set(&mut self, waiter: Waiter, time_ns: u64) {
        self.queue.set(self.slot(waiter), time_ns, waiter.rank());
    }

    /// `cpu` waits until `time_ns`, or not at all: nothing is set or moved that is so already.
    #[inline(always)]
    pub(crate) fn keep(&mut self, cpu: CpuId, wait: Wait, time_ns: Option<u64>) {
        self.queue.keep(Slot::new(cpu.0, wait as u32), time_ns, wait as u8);
    }

    /// `waiter` waits no longer.
    #[inline]
    pub(crate) fn clear(&mut self, waiter: Waiter) {
        self.queue.clear(self.slot(waiter));
    }

    /// When `waiter` is due, if it waits.
    #[inline]
    pub(crate) fn time_of(&self, waiter: Waiter) -> Option<u64> {
        self.queue.time_of(self.slot(waiter))
    }

    /// The next event.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Due> {
        self.queue.next()
    }

    /// Takes the next event, which has been asked for; whom it concerns.
    #[inline(always)]
    pub(crate) fn take(&mut self, due: Due) -> Waiter {
        let slot = self.queue.take(due);
        self.waiter(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_waiter_has_a_slot_of_its_own() {
        let agenda = Agenda::new(2, 2, 1, 1);
        let cpus = (0..2).flat_map(|cpu| Wait::ALL.map(|wait| Waiter::Cpu(CpuId(cpu), wait)));
        let others = [
            Waiter::Switch(PolicyId(0)),
            Waiter::Switch(PolicyId(1)),
            Waiter::Device(DeviceId(0)),
            Waiter::Package(PackageId(0)),
        ];
        let mut slots = Vec::new();
        for waiter in cpus.chain(others) {
            assert_eq!(agenda.waiter(agenda.slot(waiter)), waiter);
            assert!(!slots.contains(&agenda.slot(waiter)));
            slots.push(agenda.slot(waiter));
        }
    }

    #[test]
    fn events_of_one_instant_come_by_rank() {
        let mut agenda = Agenda::new(2, 1, 1, 1);
        let order = [
            Waiter::Cpu(CpuId(1), Wait::Timer),
            Waiter::Cpu(CpuId(0), Wait::Op),
            Waiter::Cpu(CpuId(1), Wait::Tick),
            Waiter::Switch(PolicyId(0)),
            Waiter::Device(DeviceId(0)),
            Waiter::Package(PackageId(0)),
        ];
        for waiter in order.into_iter().rev() {
            agenda.set(waiter, 7);
        }
        agenda.set(Waiter::Cpu(CpuId(0), Wait::Ipi), 6);
        agenda.clear(Waiter::Cpu(CpuId(0), Wait::Ipi));
        let taken: Vec<_> = std::iter::from_fn(|| agenda.next().map(|due| agenda.take(due))).collect();
        assert_eq!(taken, order);
    }
}
