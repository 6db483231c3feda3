//! Ops of channels and services: tasks that send each other something.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::ObjectIdx;

use super::Step;
use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::objects::Message;
use crate::run::task::Life;

/// `Task::stage` of a task that has asked a service and is not yet asleep.
const CALLING: u8 = 3;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Sends a message; into a full channel only later if it `waits`, else never.
    pub(super) fn op_send(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        channel: ObjectIdx,
        message: Message,
        waits: bool,
    ) -> Step {
        let object = &mut self.objects.channels[channel as usize];
        if !object.has_room(message.bytes) {
            if !waits {
                return self.next_op(task);
            }
            if self.has_overhead(cpu) {
                return Step::BurnFirst;
            }
            self.objects.channels[channel as usize].writers.push_back(task);
            return self.block(task, Life::Sleeping);
        }
        object.used = object.used.saturating_add(message.bytes);
        object.messages.push_back(message);
        let sync = object.sync_wakeup;
        let Some(reader) = object.readers.pop_front() else { return self.go_on(task) };
        self.wake_from_task(cpu, reader, sync);
        self.next_op(task)
    }

    /// Sends `bytes` to who sent the message that the task has read last, if that is known.
    #[inline(never)]
    pub(super) fn op_send_back(&mut self, cpu: CpuId, task: TaskId, bytes: u32) -> Step {
        match self.tasks[task].back {
            Some(channel) => self.op_send(cpu, task, channel, Message { bytes, back: None }, true),
            None => self.next_op(task),
        }
    }

    pub(super) fn op_recv(&mut self, cpu: CpuId, task: TaskId, channel: ObjectIdx) -> Step {
        let object = &mut self.objects.channels[channel as usize];
        let Some(Message { bytes, back }) = object.messages.pop_front() else {
            if self.has_overhead(cpu) {
                return Step::BurnFirst;
            }
            self.objects.channels[channel as usize].readers.push_back(task);
            return self.block(task, Life::Sleeping);
        };
        object.used -= bytes;
        self.tasks[task].back = back;
        let sync = object.sync_wakeup;
        let Some(writer) = object.writers.pop_front() else { return self.go_on(task) };
        self.wake_from_task(cpu, writer, sync);
        self.next_op(task)
    }

    /// Asks a service, then sleeps until it has replied.
    #[inline(never)]
    pub(super) fn op_call(&mut self, cpu: CpuId, task: TaskId, service: ObjectIdx, iowait: bool) -> Step {
        if self.tasks[task].stage == 0 {
            self.tasks[task].stage = CALLING;
            let object = &mut self.objects.services[service as usize];
            object.calls.push_back(task);
            if let Some(server) = object.servers.pop_front() {
                self.bind_worker(server, cpu);
                self.wake_from_task(cpu, server, false);
            }
            return Step::Next;
        }
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.tasks[task].stage = 0;
        self.next_op(task);
        if iowait { self.block_io(cpu, task) } else { self.block(task, Life::Sleeping) }
    }

    /// kernel/workqueue.c:queue_work_on(), v5.0: work of a bound workqueue is done on the CPU that queues it. Who has not quite left
    /// the queue of another CPU goes on there.
    pub(crate) fn bind_worker(&mut self, server: TaskId, cpu: CpuId) {
        if self.tasks[server].is_bound_worker && !self.entities[server].on_rq {
            self.tasks[server].allowed = self.cpu_sets.of_cpu(cpu);
        }
    }

    /// Takes up to `calls_max` calls, or sleeps until there is one.
    #[inline(never)]
    pub(super) fn op_accept(&mut self, cpu: CpuId, task: TaskId, service: ObjectIdx, calls_max: u32) -> Step {
        let object = &mut self.objects.services[service as usize];
        if object.calls.is_empty() {
            if self.has_overhead(cpu) {
                return Step::BurnFirst;
            }
            self.objects.services[service as usize].servers.push_back(task);
            return self.block(task, Life::Sleeping);
        }
        let nr = object.calls.len().min(calls_max.max(1) as usize);
        self.tasks[task].serves.extend(object.calls.drain(..nr));
        self.next_op(task)
    }

    /// Replies to all calls that the task has accepted.
    #[inline(never)]
    pub(super) fn op_reply(&mut self, cpu: CpuId, task: TaskId) -> Step {
        for client in std::mem::take(&mut self.tasks[task].serves) {
            let state = &mut self.tasks[client];
            if state.stage == CALLING {
                // It has not gone to sleep yet.
                state.stage = 0;
                state.pc += 1;
            } else {
                self.wake_from_task(cpu, client, false);
            }
        }
        self.next_op(task)
    }
}
