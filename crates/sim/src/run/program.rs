//! The program interpreter: what a running task does when its op ends.
//!
//! Ops that take no time run at once, one after the other, until one takes time or blocks. What they cost the CPU
//! (wake-ups) is added to the CPU's overhead, which is burnt before the next op that takes time or blocks.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{Event, PlacementRule, Sink, TaskIdx};
use opplab_model::workload::{ObjectIdx, Op};

use crate::run::engine::{BOOT_NS, Engine, Interrupt, Wait};
use crate::run::task::{Class, Doing, Life, WORK_SHIFT, class_and_weight};
use crate::sched::fair::entity_of;

/// Ops without any time between them before the program counts as stuck.
const OPS_AT_ONE_INSTANT_MAX: u32 = 1_000_000;

/// `Task::stage` of a task that spins at a barrier.
const SPINNING: u8 = 2;
/// `Task::stage` of a task that has asked a service and is not yet asleep.
const CALLING: u8 = 3;

/// What an op does to its task.
enum Step {
    /// The next op follows.
    Next,
    /// The task works or runs for a time.
    Busy,
    /// The task sleeps; its life says how.
    Blocked,
    /// The CPU's overhead comes first; the op is tried again then.
    BurnFirst,
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The running task's op (or the CPU's overhead) has ended.
    pub(crate) fn op_end(&mut self, cpu: u32) {
        self.here = cpu;
        self.in_interrupt = false;
        self.account(cpu);
        self.advance(cpu);
        self.reprogram(cpu);
    }

    /// Runs ops of the current task of `cpu` until one takes time or blocks.
    pub(crate) fn advance(&mut self, cpu: u32) {
        let task = self.cpus[cpu as usize].curr;
        match self.tasks[task as usize].doing {
            Doing::Work { left: 0, .. } | Doing::Wall { left_ns: 0 } => self.tasks[task as usize].doing = Doing::Fresh,
            Doing::Fresh => {}
            Doing::Work { .. } | Doing::Wall { .. } => return,
        }
        self.here = cpu;
        let case = self.case;
        for _ in 0..OPS_AT_ONE_INSTANT_MAX {
            if self.cpus[cpu as usize].need_resched {
                return;
            }
            let state = &self.tasks[task as usize];
            let ops = match state.sugov {
                Some(policy) => {
                    if self.sugov_step(task, policy) {
                        return;
                    }
                    continue;
                }
                None => state.ops,
            };
            let op = ops.get(state.pc as usize).copied().unwrap_or(Op::Exit);
            match self.step(cpu, task, op) {
                Step::Next => {}
                Step::Busy => return,
                Step::BurnFirst => {
                    self.tasks[task as usize].doing = Doing::Wall { left_ns: 0 };
                    return;
                }
                Step::Blocked => {
                    self.resched_cpu(cpu);
                    return;
                }
            }
        }
        let name = &case.workload.tasks[self.tasks[task as usize].spec as usize].name;
        self.fail(format!(
            "task {name:?} runs {OPS_AT_ONE_INSTANT_MAX} ops without using any time: its loop is endless"
        ));
        self.tasks[task as usize].life = Life::Dead;
        self.resched_cpu(cpu);
    }

    /// Puts the running task to sleep; `pc` stays where the op left it.
    fn block(&mut self, task: TaskIdx, life: Life) -> Step {
        self.tasks[task as usize].life = life;
        Step::Blocked
    }

    /// Puts the running task to sleep in iowait.
    fn block_io(&mut self, cpu: u32, task: TaskIdx) -> Step {
        self.tasks[task as usize].in_iowait = true;
        self.cpus[cpu as usize].nr_iowait += 1;
        self.block(task, Life::Io)
    }

    /// All users of a barrier have come: those that sleep are woken, those that spin go on.
    fn release_barrier(&mut self, cpu: u32, barrier: ObjectIdx) {
        let mut waiters = std::mem::take(&mut self.objects.barriers[barrier as usize].waiters);
        for waiter in waiters.drain(..) {
            let state = &self.tasks[waiter as usize];
            if state.stage != SPINNING {
                self.wake_from_task(cpu, waiter, false);
                continue;
            }
            let (on_cpu, where_) = (state.on_cpu, state.cpu);
            if on_cpu {
                self.account(where_);
            }
            let state = &mut self.tasks[waiter as usize];
            state.stage = 0;
            state.pc += 1;
            state.doing = Doing::Fresh;
            if on_cpu {
                self.reprogram(where_);
            }
        }
        // Keeps the allocation.
        self.objects.barriers[barrier as usize].waiters = waiters;
    }

    /// Gives task `t` `work_ns` of work to do.
    fn work(&mut self, t: usize, work_ns: u64, fixed: u16) -> Step {
        if work_ns == 0 {
            return Step::Next;
        }
        self.tasks[t].doing = Doing::Work { left: work_ns << WORK_SHIFT, fixed };
        self.outcome.work_given += u128::from(work_ns) << WORK_SHIFT;
        Step::Busy
    }

    /// How often task `t` has passed the loop with this counter.
    fn passes(&mut self, t: usize, slot: u16) -> &mut u32 {
        &mut self.loops[self.tasks[t].loops as usize + usize::from(slot)]
    }

    fn step(&mut self, cpu: u32, task: TaskIdx, op: Op) -> Step {
        let t = task as usize;
        let overhead = self.cpus[cpu as usize].overhead > 0;
        match op {
            Op::Run { work_ns, fixed } => {
                self.tasks[t].pc += 1;
                self.work(t, work_ns, fixed)
            }
            Op::RunDraw { draw, fixed } => {
                self.tasks[t].pc += 1;
                let work_ns = self.objects.decks[draw as usize].draw();
                self.work(t, work_ns, fixed)
            }
            Op::RunListed { draw, slot, fixed } => {
                self.tasks[t].pc += 1;
                let round = *self.passes(t, slot);
                let list = &self.case.workload.draws[draw as usize];
                self.work(t, list[round as usize % list.len()], fixed)
            }
            Op::Runtime { wall_ns } => {
                self.tasks[t].pc += 1;
                if wall_ns == 0 {
                    return Step::Next;
                }
                self.tasks[t].doing = Doing::Wall { left_ns: wall_ns };
                Step::Busy
            }
            Op::LoopBegin { slot, count } => {
                let begin = self.tasks[t].pc;
                *self.passes(t, slot) = 0;
                self.tasks[t].pc = if count == Some(0) { self.loop_end_of(t, begin) } else { begin } + 1;
                Step::Next
            }
            Op::LoopEnd { slot, begin } => {
                let count = match self.tasks[t].ops.get(begin as usize) {
                    Some(&Op::LoopBegin { count, .. }) => count,
                    _ => Some(0),
                };
                let passes = self.passes(t, slot);
                *passes = passes.saturating_add(1);
                let is_over = count.is_some_and(|count| *passes >= count);
                self.tasks[t].pc = if is_over { self.tasks[t].pc } else { begin } + 1;
                Step::Next
            }
            Op::Skip { count } => {
                self.tasks[t].pc += 1 + u32::from(count);
                Step::Next
            }
            Op::SkipInTick { count } => {
                let jiffies = self.now / self.tick_ns;
                let same = self.tasks[t].stamp_jiffies.replace(jiffies) == Some(jiffies);
                self.tasks[t].pc += 1 + if same { count.into() } else { 0 };
                Step::Next
            }
            Op::Activation { phase, timed } => {
                self.activation_end(task, phase, timed);
                self.tasks[t].pc += 1;
                Step::Next
            }
            Op::Count => {
                self.outcome.counts += 1;
                self.tasks[t].pc += 1;
                Step::Next
            }
            Op::Signal { cond } => {
                self.tasks[t].pc += 1;
                if let Some(waiter) = self.objects.conds[cond as usize].waiters.pop_front() {
                    self.wake_from_task(cpu, waiter, false);
                }
                Step::Next
            }
            Op::Broadcast { cond } | Op::Resume { cond } => {
                self.tasks[t].pc += 1;
                while let Some(waiter) = self.objects.conds[cond as usize].waiters.pop_front() {
                    self.wake_from_task(cpu, waiter, false);
                }
                Step::Next
            }
            Op::SemPost { sem } => {
                self.tasks[t].pc += 1;
                let semaphore = &mut self.objects.semaphores[sem as usize];
                semaphore.value = semaphore.value.saturating_add(1);
                if let Some(waiter) = semaphore.waiters.pop_front() {
                    self.wake_from_task(cpu, waiter, false);
                }
                Step::Next
            }
            Op::Unlock { mutex } => {
                self.tasks[t].pc += 1;
                self.unlock(cpu, task, mutex);
                Step::Next
            }
            Op::Lock { mutex } => {
                if self.try_lock(task, mutex) {
                    self.tasks[t].pc += 1;
                    return Step::Next;
                }
                if overhead {
                    return Step::BurnFirst;
                }
                self.objects.mutexes[mutex as usize].waiters.push_back(task);
                self.block(task, Life::Sleeping)
            }
            Op::Wait { cond, mutex } => {
                if self.tasks[t].stage == 0 {
                    if overhead {
                        return Step::BurnFirst;
                    }
                    self.unlock(cpu, task, mutex);
                    self.tasks[t].stage = 1;
                    self.objects.conds[cond as usize].waiters.push_back(task);
                    return self.block(task, Life::Sleeping);
                }
                if self.try_lock(task, mutex) {
                    self.tasks[t].stage = 0;
                    self.tasks[t].pc += 1;
                    return Step::Next;
                }
                self.objects.mutexes[mutex as usize].waiters.push_back(task);
                self.block(task, Life::Sleeping)
            }
            Op::Suspend { cond } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                self.objects.conds[cond as usize].waiters.push_back(task);
                self.block(task, Life::Sleeping)
            }
            Op::Barrier { barrier } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                let object = &mut self.objects.barriers[barrier as usize];
                if object.waiters.len() as u32 + 1 >= object.users {
                    self.release_barrier(cpu, barrier);
                    return Step::Next;
                }
                object.waiters.push(task);
                self.block(task, Life::Sleeping)
            }
            Op::SpinBarrier { barrier, spin_ns } => {
                if overhead {
                    return Step::BurnFirst;
                }
                if self.tasks[t].stage == SPINNING {
                    // It has spun long enough.
                    self.tasks[t].stage = 0;
                    self.tasks[t].pc += 1;
                    return self.block(task, Life::Sleeping);
                }
                let object = &mut self.objects.barriers[barrier as usize];
                if object.waiters.len() as u32 + 1 >= object.users {
                    self.tasks[t].pc += 1;
                    self.release_barrier(cpu, barrier);
                    return Step::Next;
                }
                object.waiters.push(task);
                self.tasks[t].stage = SPINNING;
                self.tasks[t].doing = Doing::Wall { left_ns: spin_ns };
                if spin_ns == 0 { Step::Next } else { Step::Busy }
            }
            Op::Call { service, iowait } => {
                if self.tasks[t].stage == 0 {
                    self.tasks[t].stage = CALLING;
                    let object = &mut self.objects.services[service as usize];
                    object.calls.push_back(task);
                    if let Some(server) = object.servers.pop_front() {
                        self.wake_from_task(cpu, server, false);
                    }
                    return Step::Next;
                }
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].stage = 0;
                self.tasks[t].pc += 1;
                if iowait { self.block_io(cpu, task) } else { self.block(task, Life::Sleeping) }
            }
            Op::Accept { service, calls_max } => {
                let object = &mut self.objects.services[service as usize];
                if object.calls.is_empty() {
                    if overhead {
                        return Step::BurnFirst;
                    }
                    object.servers.push_back(task);
                    return self.block(task, Life::Sleeping);
                }
                let nr = object.calls.len().min(calls_max.max(1) as usize);
                self.tasks[t].serves.extend(object.calls.drain(..nr));
                self.tasks[t].pc += 1;
                Step::Next
            }
            Op::Reply => {
                self.tasks[t].pc += 1;
                for client in std::mem::take(&mut self.tasks[t].serves) {
                    let state = &mut self.tasks[client as usize];
                    if state.stage == CALLING {
                        // It has not gone to sleep yet.
                        state.stage = 0;
                        state.pc += 1;
                    } else {
                        self.wake_from_task(cpu, client, false);
                    }
                }
                Step::Next
            }
            Op::SemWait { sem } => {
                let semaphore = &mut self.objects.semaphores[sem as usize];
                if semaphore.value > 0 {
                    semaphore.value -= 1;
                    self.tasks[t].pc += 1;
                    return Step::Next;
                }
                if overhead {
                    return Step::BurnFirst;
                }
                semaphore.waiters.push_back(task);
                self.block(task, Life::Sleeping)
            }
            Op::Sleep { ns } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                self.add_timer(cpu, self.now + ns, task);
                self.block(task, Life::Sleeping)
            }
            Op::TimersFrom { ns } => {
                self.tasks[t].pc += 1;
                self.tasks[t].started_ns = BOOT_NS.saturating_add(ns);
                Step::Next
            }
            Op::TimersByTick => {
                self.tasks[t].pc += 1;
                self.tasks[t].timers_by_tick = true;
                Step::Next
            }
            Op::SetTimerSlack { ns } => {
                self.tasks[t].pc += 1;
                self.tasks[t].timer_slack_ns = ns;
                Step::Next
            }
            Op::Timer { timer, period_ns, absolute, own } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                self.timer_op(cpu, task, timer, period_ns, absolute, own)
            }
            Op::Send { channel, bytes } | Op::TrySend { channel, bytes } => {
                let object = &mut self.objects.channels[channel as usize];
                if object.used > 0 && object.used.saturating_add(bytes) > object.capacity {
                    if matches!(op, Op::TrySend { .. }) {
                        self.tasks[t].pc += 1;
                        return Step::Next;
                    }
                    if overhead {
                        return Step::BurnFirst;
                    }
                    object.writers.push_back(task);
                    return self.block(task, Life::Sleeping);
                }
                object.used = object.used.saturating_add(bytes);
                object.messages.push_back(bytes);
                let sync = object.sync_wakeup;
                let reader = object.readers.pop_front();
                self.tasks[t].pc += 1;
                if let Some(reader) = reader {
                    self.wake_from_task(cpu, reader, sync);
                }
                Step::Next
            }
            Op::Recv { channel } => {
                let object = &mut self.objects.channels[channel as usize];
                let Some(bytes) = object.messages.pop_front() else {
                    if overhead {
                        return Step::BurnFirst;
                    }
                    object.readers.push_back(task);
                    return self.block(task, Life::Sleeping);
                };
                object.used -= bytes;
                let sync = object.sync_wakeup;
                let writer = object.writers.pop_front();
                self.tasks[t].pc += 1;
                if let Some(writer) = writer {
                    self.wake_from_task(cpu, writer, sync);
                }
                Step::Next
            }
            Op::Io { device, bytes } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                self.submit_io(cpu, task, device, bytes);
                self.block_io(cpu, task)
            }
            Op::IoWork { device, bytes } => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].pc += 1;
                self.submit_io(cpu, task, device, bytes);
                self.block(task, Life::Sleeping)
            }
            Op::CallRcu => {
                self.tasks[t].pc += 1;
                self.call_rcu(cpu);
                Step::Next
            }
            Op::Yield => {
                self.tasks[t].pc += 1;
                self.yield_task(cpu, task);
                Step::Next
            }
            Op::Fork { task: template } => {
                self.tasks[t].pc += 1;
                self.fork(cpu, task, template);
                Step::Next
            }
            Op::Exec => {
                self.tasks[t].pc += 1;
                self.exec(cpu, task);
                Step::Next
            }
            Op::WaitChild => {
                if self.tasks[t].dead_children > 0 {
                    self.tasks[t].dead_children -= 1;
                    self.tasks[t].pc += 1;
                    return Step::Next;
                }
                if self.tasks[t].live_children == 0 {
                    self.tasks[t].pc += 1;
                    return Step::Next;
                }
                if overhead {
                    return Step::BurnFirst;
                }
                self.tasks[t].waits_child = true;
                self.block(task, Life::Sleeping)
            }
            Op::SetCpus { set } => {
                self.tasks[t].pc += 1;
                // Mask 0 is all CPUs; the workload's sets follow.
                self.tasks[t].allowed = set.map_or(0, |set| set + 1);
                if !self.masks[self.tasks[t].allowed as usize].as_set().contains(cpu as usize) {
                    self.push_away(cpu, task);
                }
                Step::Next
            }
            Op::SetPolicy { policy } => {
                self.tasks[t].pc += 1;
                self.set_policy(cpu, task, policy);
                Step::Next
            }
            Op::SetUclamp { min, max } => {
                self.tasks[t].pc += 1;
                self.tasks[t].uclamp_min = min.map_or(self.tasks[t].uclamp_min, |min| min.min(1024));
                self.tasks[t].uclamp_max = max.map_or(self.tasks[t].uclamp_max, |max| max.min(1024));
                // __sched_setscheduler() takes the task off its queue and back.
                self.uclamp_rq_dec(cpu, task);
                self.uclamp_rq_inc(cpu, task);
                self.cpufreq_update_util(cpu, 0);
                Step::Next
            }
            Op::Exit => {
                if overhead {
                    return Step::BurnFirst;
                }
                self.exit(cpu, task);
                Step::Blocked
            }
        }
    }

    fn loop_end_of(&self, t: usize, begin: u32) -> u32 {
        let ops = self.tasks[t].ops;
        let is_end = |op: &Op| matches!(op, Op::LoopEnd { begin: of, .. } if *of == begin);
        ops.iter().position(is_end).map_or(ops.len() as u32, |end| end as u32)
    }

    fn timer_op(
        &mut self,
        cpu: u32,
        task: TaskIdx,
        timer: ObjectIdx,
        period_ns: u64,
        absolute: bool,
        own: bool,
    ) -> Step {
        let t = task as usize;
        let now = self.now;
        let start = self.tasks[t].started_ns;
        let next =
            if own { &mut self.tasks[t].own_timers[timer as usize] } else { &mut self.objects.timers[timer as usize] };
        let due = next.unwrap_or(start) + period_ns;
        *next = Some(if due <= now && !absolute { now } else { due });
        let slack = due as i64 - now as i64;
        let state = &mut self.tasks[t];
        state.slack_ns = if self.case.workload.cumulative_slack { state.slack_ns.saturating_add(slack) } else { slack };
        if slack <= 0 {
            return Step::Next;
        }
        self.add_timer(cpu, due, task);
        self.block(task, Life::Sleeping)
    }

    fn activation_end(&mut self, task: TaskIdx, phase: u16, timed: bool) {
        let now = self.now;
        let state = &mut self.tasks[task as usize];
        let event = Event::Activation {
            task,
            phase,
            period_ns: now - state.activation_ns,
            run_ns: state.activation_run_ns,
            wu_lat_ns: state.wu_lat_ns,
            slack_ns: state.slack_ns,
        };
        if timed {
            self.outcome.activations += 1;
            self.outcome.missed_activations += u64::from(state.slack_ns < 0);
        }
        state.activation_ns = now;
        state.activation_run_ns = 0;
        state.wu_lat_ns = 0;
        state.slack_ns = 0;
        self.emit(event);
    }

    /// A wake-up by the running task: costs its CPU some time.
    fn wake_from_task(&mut self, cpu: u32, waiter: TaskIdx, sync: bool) {
        self.spend(cpu, self.case.machine.costs.wakeup_ns);
        self.try_to_wake_up(waiter, sync);
    }

    fn try_lock(&mut self, task: TaskIdx, mutex: ObjectIdx) -> bool {
        let object = &mut self.objects.mutexes[mutex as usize];
        if object.owner.is_none() {
            object.owner = Some(task);
            return true;
        }
        object.owner == Some(task)
    }

    fn unlock(&mut self, cpu: u32, task: TaskIdx, mutex: ObjectIdx) {
        let object = &mut self.objects.mutexes[mutex as usize];
        if object.owner != Some(task) {
            return;
        }
        object.owner = None;
        if let Some(waiter) = object.waiters.pop_front() {
            self.wake_from_task(cpu, waiter, false);
        }
    }

    fn submit_io(&mut self, cpu: u32, task: TaskIdx, device: u32, bytes: u32) {
        let object = &mut self.objects.devices[device as usize];
        if object.in_service.len() as u32 >= object.queue_depth {
            object.waiting.push_back((task, bytes, cpu));
            return;
        }
        self.start_io(device, task, bytes, cpu);
    }

    fn start_io(&mut self, device: u32, task: TaskIdx, bytes: u32, cpu: u32) {
        let object = &mut self.objects.devices[device as usize];
        object.seq += 1;
        let entry = (object.start(self.now, bytes), object.seq, task, object.irq_cpu.unwrap_or(cpu));
        let place = object.in_service.partition_point(|other| *other < entry);
        object.in_service.insert(place, entry);
        let first = object.in_service[0].0;
        self.arm_device(device, first);
    }

    /// The earliest request of a device is complete: its interrupt wakes the task.
    pub(crate) fn device_done(&mut self, device: u32) {
        let object = &mut self.objects.devices[device as usize];
        let (_, _, task, cpu) = object.in_service.remove(0);
        let irq_ns = object.irq_ns;
        let next = object.in_service.first().map(|entry| entry.0);
        let waiting = object.waiting.pop_front();
        if let Some(time) = next {
            self.arm_device(device, time);
        }
        if let Some((task, bytes, cpu)) = waiting {
            self.start_io(device, task, bytes, cpu);
        }
        self.interrupt(cpu, Interrupt::IoDone { task, irq_ns });
    }

    fn fork(&mut self, cpu: u32, parent: TaskIdx, template: u32) {
        let spec = &self.case.workload.tasks[template as usize];
        let allowed = spec.cpus.map_or(self.tasks[parent as usize].allowed, |set| set + 1);
        let child = self.add_task(template, spec, &spec.ops, allowed, cpu);
        self.tasks[child as usize].parent = Some(parent);
        self.tasks[parent as usize].live_children += 1;
        self.spend(cpu, self.case.machine.costs.wakeup_ns);
        if spec.delay_ns > 0 {
            self.add_timer(cpu, self.now + spec.delay_ns, child);
        } else {
            self.wake_up_new_task(child);
        }
    }

    /// exec.c:sched_exec(): the running task moves to the idlest CPU, by the stopper.
    fn exec(&mut self, cpu: u32, task: TaskIdx) {
        self.account(cpu);
        self.update_rq_clock(cpu);
        let dest = self.select_task_rq_exec(task, cpu);
        if dest == cpu {
            return;
        }
        self.dequeue_task(cpu, task, false);
        self.put_prev_task(cpu, task);
        self.detached_current(cpu);
        self.move_queued(task, cpu, dest, PlacementRule::Idlest);
    }

    fn exit(&mut self, cpu: u32, task: TaskIdx) {
        self.tasks[task as usize].life = Life::Dead;
        self.emit(Event::SchedProcessExit { task });
        if let Some(parent) = self.tasks[task as usize].parent {
            let state = &mut self.tasks[parent as usize];
            state.live_children -= 1;
            state.dead_children += 1;
            if std::mem::take(&mut state.waits_child) {
                self.wake_from_task(cpu, parent, true);
            }
        } else if self.tasks[task as usize].spec < self.case.workload.nr_main {
            self.nr_main_left -= 1;
        }
        self.resched_cpu(cpu);
    }

    fn set_policy(&mut self, cpu: u32, task: TaskIdx, policy: opplab_model::workload::SchedPolicy) {
        let (class, weight) = class_and_weight(policy);
        self.update_rq_clock(cpu);
        self.dequeue_task(cpu, task, false);
        self.put_prev_task(cpu, task);
        let (old, old_priority) = (self.tasks[task as usize].class, self.rt_priority(task));
        if old == Class::Fair && class != Class::Fair {
            self.switched_from_fair(cpu, task);
        }
        if class == Class::Fair {
            let fresh = entity_of(policy, weight);
            let entity = &mut self.entities[task as usize];
            (entity.load, entity.policy) = (fresh.load, fresh.policy);
        }
        let state = &mut self.tasks[task as usize];
        state.policy = policy;
        state.class = class;
        state.weight = weight;
        self.set_dl_params(task, policy, old == Class::Deadline);
        self.enqueue_task(cpu, task, crate::sched::core::Enqueue::Restore);
        self.set_next_task(cpu, task);
        if old == Class::Deadline {
            if class != Class::Deadline {
                self.switched_from_dl(cpu, task);
            }
            self.pull_after_change_dl(cpu);
        }
        if old == Class::RealTime && (class == Class::RealTime || self.cpus[cpu as usize].rt_queue.is_empty()) {
            // switched_from_rt(), prio_changed_rt().
            self.pull_rt_tasks(cpu, old_priority);
        }
        self.resched_cpu(cpu);
    }

    /// Removes the event of the running task's op.
    pub(crate) fn reprogram(&mut self, cpu: u32) {
        match self.time_to_op_end(cpu) {
            None => self.disarm(cpu, Wait::Op),
            Some(ns) => {
                let time = self.now + ns;
                if self.queue.time_of(self.slot(cpu, Wait::Op)) != Some(time) {
                    self.arm(cpu, Wait::Op, time);
                }
            }
        }
    }

    /// Time since the start of the run.
    pub(crate) fn wall_ns(&self) -> u64 {
        self.now - BOOT_NS
    }
}
