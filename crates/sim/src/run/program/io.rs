//! Ops of devices, and what devices do with requests.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::ObjectIdx;

use super::Step;
use crate::ids::{CpuId, DeviceId, TaskId};
use crate::run::cpu::Interrupt;
use crate::run::engine::Engine;
use crate::run::task::Life;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Asks a device and sleeps in iowait.
    #[inline(never)]
    pub(super) fn op_io(&mut self, cpu: CpuId, task: TaskId, device: DeviceId, bytes: u32) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        self.submit_io(cpu, task, device, bytes);
        self.block_io(cpu, task)
    }

    /// Asks a device and sleeps as a task that waits for anything else.
    #[inline(never)]
    pub(super) fn op_io_work(&mut self, cpu: CpuId, task: TaskId, device: DeviceId, bytes: u32) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        self.submit_io(cpu, task, device, bytes);
        self.block(task, Life::Sleeping)
    }

    /// Asks a device and sleeps in iowait until a service has done what follows from the completion.
    #[inline(never)]
    pub(super) fn op_io_end(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        device: DeviceId,
        bytes: u32,
        service: ObjectIdx,
    ) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        self.tasks[task].io_end = Some(service);
        self.submit_io(cpu, task, device, bytes);
        self.block_io(cpu, task)
    }

    /// The completion of a task's request: its service hears of it, or the task wakes up.
    pub(crate) fn io_done(&mut self, cpu: CpuId, task: TaskId) {
        let Some(service) = self.tasks[task].io_end.take() else {
            self.try_to_wake_up(task, false);
            return;
        };
        let object = &mut self.objects.services[service as usize];
        object.calls.push_back(task);
        if let Some(server) = object.servers.pop_front() {
            self.bind_worker(server, cpu);
            self.try_to_wake_up(server, false);
        }
    }

    fn submit_io(&mut self, cpu: CpuId, task: TaskId, device: DeviceId, bytes: u32) {
        let object = &mut self.objects.devices[device];
        if object.in_service.len() as u32 >= object.queue_depth {
            object.waiting.push_back((task, bytes, cpu, self.now));
            return;
        }
        self.start_io(device, task, bytes, cpu, self.now);
    }

    fn start_io(&mut self, device: DeviceId, task: TaskId, bytes: u32, cpu: CpuId, asked_ns: u64) {
        let object = &mut self.objects.devices[device];
        object.seq += 1;
        let near = |irq_cpu: &CpuId| !object.rq_affinity || self.topology.share_cache(*irq_cpu, cpu);
        let irq_cpu = object.irq_cpu.filter(near).unwrap_or(cpu);
        let entry = (object.start(self.now, bytes), object.seq, task, irq_cpu);
        self.outcome.io_ns += entry.0 - asked_ns;
        let place = object.in_service.partition_point(|other| *other < entry);
        object.in_service.insert(place, entry);
        let first = object.in_service[0].0;
        self.arm_device(device, first);
    }

    /// The earliest request of a device is complete: its interrupt wakes the task.
    pub(crate) fn device_done(&mut self, device: DeviceId) {
        let object = &mut self.objects.devices[device];
        let (_, _, task, cpu) = object.in_service.remove(0);
        let irq_ns = object.irq_ns;
        let next = object.in_service.first().map(|entry| entry.0);
        let waiting = object.waiting.pop_front();
        if let Some(time) = next {
            self.arm_device(device, time);
        }
        if let Some((task, bytes, cpu, asked_ns)) = waiting {
            self.start_io(device, task, bytes, cpu, asked_ns);
        }
        self.interrupt(cpu, Interrupt::IoDone { task, irq_ns });
    }
}
