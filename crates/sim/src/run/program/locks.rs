//! Ops of mutexes, conditions, barriers and semaphores.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::ObjectIdx;

use super::Step;
use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Doing, Life};

/// `Task::stage` of a task that was put to sleep by a condition and has to get the mutex back.
const SIGNALLED: u8 = 1;
/// `Task::stage` of a task that spins at a barrier.
const SPINNING: u8 = 2;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    #[inline(never)]
    pub(super) fn op_lock(&mut self, cpu: CpuId, task: TaskId, mutex: ObjectIdx) -> Step {
        if self.try_lock(task, mutex) {
            return self.next_op(task);
        }
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.objects.mutexes[mutex as usize].waiters.push_back(task);
        self.block(task, Life::Sleeping)
    }

    #[inline(never)]
    pub(super) fn op_unlock(&mut self, cpu: CpuId, task: TaskId, mutex: ObjectIdx) -> Step {
        self.unlock(cpu, task, mutex);
        self.next_op(task)
    }

    /// The mutex goes to the first waiter, which finds itself its owner when it runs (kernel/locking/semaphore.c:__up(), v5.9).
    #[inline(never)]
    pub(super) fn op_hand_over(&mut self, cpu: CpuId, task: TaskId, mutex: ObjectIdx) -> Step {
        let object = &mut self.objects.mutexes[mutex as usize];
        if object.owner == Some(task) {
            object.owner = object.waiters.pop_front();
            if let Some(waiter) = object.owner {
                self.wake_from_task(cpu, waiter, false);
            }
        }
        self.next_op(task)
    }

    /// Whether `task` owns the mutex now: it was free, or was handed over to it.
    fn try_lock(&mut self, task: TaskId, mutex: ObjectIdx) -> bool {
        let object = &mut self.objects.mutexes[mutex as usize];
        if object.owner.is_none() {
            object.owner = Some(task);
            return true;
        }
        object.owner == Some(task)
    }

    fn unlock(&mut self, cpu: CpuId, task: TaskId, mutex: ObjectIdx) {
        let object = &mut self.objects.mutexes[mutex as usize];
        if object.owner != Some(task) {
            return;
        }
        object.owner = None;
        if let Some(waiter) = object.waiters.pop_front() {
            self.wake_from_task(cpu, waiter, false);
        }
    }

    /// Gives the mutex away and sleeps; when it is signalled, takes the mutex again.
    #[inline(never)]
    pub(super) fn op_wait(&mut self, cpu: CpuId, task: TaskId, cond: ObjectIdx, mutex: ObjectIdx) -> Step {
        if self.tasks[task].stage == 0 {
            if self.has_overhead(cpu) {
                return Step::BurnFirst;
            }
            self.unlock(cpu, task, mutex);
            self.tasks[task].stage = SIGNALLED;
            self.objects.conds[cond as usize].waiters.push_back(task);
            return self.block(task, Life::Sleeping);
        }
        if self.try_lock(task, mutex) {
            self.tasks[task].stage = 0;
            return self.next_op(task);
        }
        self.objects.mutexes[mutex as usize].waiters.push_back(task);
        self.block(task, Life::Sleeping)
    }

    #[inline(never)]
    pub(super) fn op_signal(&mut self, cpu: CpuId, task: TaskId, cond: ObjectIdx) -> Step {
        if let Some(waiter) = self.objects.conds[cond as usize].waiters.pop_front() {
            self.wake_from_task(cpu, waiter, false);
        }
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_broadcast(&mut self, cpu: CpuId, task: TaskId, cond: ObjectIdx) -> Step {
        while let Some(waiter) = self.objects.conds[cond as usize].waiters.pop_front() {
            self.wake_from_task(cpu, waiter, false);
        }
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_resume(&mut self, cpu: CpuId, task: TaskId, cond: ObjectIdx) -> Step {
        self.outcome.resumes += 1;
        self.outcome.lost_resumes += u64::from(self.objects.conds[cond as usize].waiters.is_empty());
        self.op_broadcast(cpu, task, cond)
    }

    #[inline(never)]
    pub(super) fn op_suspend(&mut self, cpu: CpuId, task: TaskId, cond: ObjectIdx) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        self.objects.conds[cond as usize].waiters.push_back(task);
        self.block(task, Life::Sleeping)
    }

    #[inline(never)]
    pub(super) fn op_barrier(&mut self, cpu: CpuId, task: TaskId, barrier: ObjectIdx) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.next_op(task);
        let object = &mut self.objects.barriers[barrier as usize];
        if object.is_complete_with_one_more() {
            self.release_barrier(cpu, barrier);
            return Step::Next;
        }
        object.waiters.push(task);
        self.block(task, Life::Sleeping)
    }

    /// A barrier where tasks spin for a time before they sleep.
    #[inline(never)]
    pub(super) fn op_spin_barrier(&mut self, cpu: CpuId, task: TaskId, barrier: ObjectIdx, spin_ns: u64) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        if self.tasks[task].stage == SPINNING {
            // It has spun long enough.
            self.tasks[task].stage = 0;
            self.next_op(task);
            return self.block(task, Life::Sleeping);
        }
        let object = &mut self.objects.barriers[barrier as usize];
        if object.is_complete_with_one_more() {
            self.next_op(task);
            self.release_barrier(cpu, barrier);
            return Step::Next;
        }
        object.waiters.push(task);
        self.tasks[task].stage = SPINNING;
        self.tasks[task].doing = Doing::Wall { left_ns: spin_ns };
        if spin_ns == 0 { Step::Next } else { Step::Busy }
    }

    /// All users of a barrier have come: those that sleep are woken, those that spin go on.
    fn release_barrier(&mut self, cpu: CpuId, barrier: ObjectIdx) {
        let mut waiters = std::mem::take(&mut self.objects.barriers[barrier as usize].waiters);
        for waiter in waiters.drain(..) {
            let state = &self.tasks[waiter];
            if state.stage != SPINNING {
                self.wake_from_task(cpu, waiter, false);
                continue;
            }
            let (on_cpu, spins_on) = (state.on_cpu, state.cpu);
            if on_cpu {
                self.account(spins_on);
            }
            let state = &mut self.tasks[waiter];
            state.stage = 0;
            state.pc += 1;
            state.doing = Doing::Fresh;
            if on_cpu {
                self.reprogram(spins_on);
            }
        }
        // Keeps the allocation.
        self.objects.barriers[barrier as usize].waiters = waiters;
    }

    #[inline(never)]
    pub(super) fn op_sem_post(&mut self, cpu: CpuId, task: TaskId, sem: ObjectIdx) -> Step {
        let semaphore = &mut self.objects.semaphores[sem as usize];
        semaphore.value = semaphore.value.saturating_add(1);
        if let Some(waiter) = semaphore.waiters.pop_front() {
            self.wake_from_task(cpu, waiter, false);
        }
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_sem_wait(&mut self, cpu: CpuId, task: TaskId, sem: ObjectIdx) -> Step {
        let semaphore = &mut self.objects.semaphores[sem as usize];
        if semaphore.value > 0 {
            semaphore.value -= 1;
            return self.next_op(task);
        }
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.objects.semaphores[sem as usize].waiters.push_back(task);
        self.block(task, Life::Sleeping)
    }
}
