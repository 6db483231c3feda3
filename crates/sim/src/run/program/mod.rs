//! The program interpreter: what a running task does when its op ends.
//!
//! Ops that take no time run at once, one after the other, until one takes time or blocks. What they cost the CPU
//! (wake-ups) is added to the CPU's overhead, which is burnt before the next op that takes time or blocks. The ops
//! themselves are here by family: `flow` (loops, skips, counts), `time` (work, sleep, timers), `locks` (mutexes, conditions,
//! barriers, semaphores), `messages` (channels, services), `io` (devices), `lifecycle` (children, scheduling attributes).
//! `left` is what of their activations is left when the run ends.

mod flow;
mod io;
mod left;
mod lifecycle;
mod locks;
mod messages;
mod time;

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::workload::Op;

use crate::ids::{CpuId, DeviceId, PolicyId, TaskId};
use crate::run::agenda::Wait;
use crate::run::engine::Engine;
use crate::run::objects::Message;
use crate::run::task::{Doing, Life};

/// Ops without any time between them before the program counts as stuck.
const OPS_AT_ONE_INSTANT_MAX: u32 = 1_000_000;

/// What an op does to its task.
enum Step {
    /// The next op follows; somebody may have been woken.
    Next,
    /// The next op follows, and nothing but the task itself has changed.
    Through,
    /// The task works or runs for a time.
    Busy,
    /// The task sleeps; its life decides how.
    Blocked,
    /// The CPU's overhead comes first; the op is tried again then.
    BurnFirst,
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The running task's op (or the CPU's overhead) has ended.
    pub(crate) fn op_end(&mut self, cpu: CpuId) {
        self.here = cpu;
        self.in_interrupt = false;
        self.account_at_once(cpu);
        self.advance_and_reprogram(cpu);
    }

    /// Runs ops of the current task of `cpu` until one takes time or blocks, and waits for its end.
    pub(crate) fn advance_and_reprogram(&mut self, cpu: CpuId) {
        self.advance(cpu);
        self.reprogram_here(cpu);
    }

    #[inline(always)]
    fn advance(&mut self, cpu: CpuId) {
        let state = &self.cpus[cpu];
        let (task, must_leave) = (state.curr, state.need_resched);
        let state = &self.tasks[task];
        // In an op that had to wait for the CPU's overhead it is still in the kernel.
        let may_stop = state.throttle_work;
        if may_stop && !matches!(state.doing, Doing::Wall { left_ns: 0 }) && self.stops_on_return(cpu, task) {
            return;
        }
        let state = &mut self.tasks[task];
        match state.doing {
            Doing::Work { left: 0, .. } | Doing::Wall { left_ns: 0 } => {
                state.doing = Doing::Fresh;
                state.activation_run_ns += state.run_since_ns.take().map_or(0, |since_ns| self.now - since_ns);
            }
            Doing::Fresh => {}
            Doing::Work { .. } | Doing::Wall { .. } => return,
        }
        self.here = cpu;
        let (ops, sugov) = (state.ops, state.sugov);
        if must_leave {
            return;
        }
        if let Some(policy) = sugov {
            return self.run_kthread(cpu, task, policy);
        }
        for _ in 0..OPS_AT_ONE_INSTANT_MAX {
            let op = ops.get(self.tasks[task].pc as usize).unwrap_or(&Op::Exit);
            match self.step(cpu, task, op) {
                Step::Through if !may_stop => {}
                Step::Next | Step::Through => {
                    if self.cpus[cpu].need_resched || may_stop && self.stops_on_return(cpu, task) {
                        return;
                    }
                }
                Step::Busy => return,
                Step::BurnFirst => {
                    self.tasks[task].doing = Doing::Wall { left_ns: 0 };
                    return;
                }
                Step::Blocked => {
                    self.resched_cpu(cpu);
                    return;
                }
            }
        }
        self.fail_endless(cpu, task);
    }

    /// The same of a frequency policy's kthread, which has no ops.
    #[inline(never)]
    fn run_kthread(&mut self, cpu: CpuId, task: TaskId, policy: PolicyId) {
        for _ in 0..OPS_AT_ONE_INSTANT_MAX {
            if self.sugov_step(task, policy) || self.cpus[cpu].need_resched {
                return;
            }
        }
        self.fail_endless(cpu, task);
    }

    #[cold]
    fn fail_endless(&mut self, cpu: CpuId, task: TaskId) {
        let name = &self.case.workload.tasks[self.tasks[task].spec as usize].name;
        self.fail(format!(
            "task {name:?} runs {OPS_AT_ONE_INSTANT_MAX} ops without using any time: its loop is endless"
        ));
        self.tasks[task].life = Life::Dead;
        self.resched_cpu(cpu);
    }

    /// Whether the running task is to stop as it returns to user space, and has, or has work for the kernel left before.
    #[inline]
    fn stops_on_return(&mut self, cpu: CpuId, task: TaskId) -> bool {
        self.tasks[task].throttle_work && (self.has_overhead(cpu) || self.throttle_on_return(cpu, task))
    }

    /// Runs one op of `task`, which is current on `cpu`.
    #[inline(always)]
    fn step(&mut self, cpu: CpuId, task: TaskId, op: &Op) -> Step {
        match *op {
            Op::Run { work_ns, fixed } => self.op_run(task, work_ns, fixed),
            Op::RunDraw { draw, fixed } => self.op_run_draw(task, draw, fixed),
            Op::RunListed { draw, slot, fixed } => self.op_run_listed(task, draw, slot, fixed),
            Op::Runtime { wall_ns } => self.op_runtime(task, wall_ns),
            Op::Contend { line, hold_ns } => self.op_contend(cpu, task, line, hold_ns),
            Op::Share { line, fetch_ns, every } => self.op_share(cpu, task, line, fetch_ns, every),
            Op::Sleep { ns } => self.op_sleep(cpu, task, ns),
            Op::Timer { timer, period_ns, absolute, own } => self.op_timer(cpu, task, timer, period_ns, absolute, own),
            Op::TimersFrom { ns } => self.op_timers_from(task, ns),
            Op::TimersByTick => self.op_timers_by_tick(task),
            Op::SetTimerSlack { ns } => self.op_set_timer_slack(task, ns),

            Op::LoopBegin { slot, count } => self.op_loop_begin(task, slot, count),
            Op::LoopEnd { slot, begin } => self.op_loop_end(task, slot, begin),
            Op::Skip { count } => self.op_skip(task, count),
            Op::SkipInTick { count } => self.op_skip_in_tick(task, count),
            Op::Activation { phase, timed } => self.op_activation(task, phase, timed),
            Op::Count => self.op_count(task),

            Op::Lock { mutex } => self.op_lock(cpu, task, mutex),
            Op::Unlock { mutex } => self.op_unlock(cpu, task, mutex),
            Op::HandOver { mutex } => self.op_hand_over(cpu, task, mutex),
            Op::Wait { cond, mutex } => self.op_wait(cpu, task, cond, mutex),
            Op::Signal { cond } => self.op_signal(cpu, task, cond),
            Op::Broadcast { cond } => self.op_broadcast(cpu, task, cond),
            Op::Resume { cond } => self.op_resume(cpu, task, cond),
            Op::Suspend { cond } => self.op_suspend(cpu, task, cond),
            Op::Barrier { barrier } => self.op_barrier(cpu, task, barrier),
            Op::SpinBarrier { barrier, spin_ns } => self.op_spin_barrier(cpu, task, barrier, spin_ns),
            Op::SemPost { sem } => self.op_sem_post(cpu, task, sem),
            Op::SemWait { sem } => self.op_sem_wait(cpu, task, sem),

            Op::Send { channel, bytes } => self.op_send(cpu, task, channel, Message { bytes, back: None }, true),
            Op::TrySend { channel, bytes } => self.op_send(cpu, task, channel, Message { bytes, back: None }, false),
            Op::SendFrom { channel, bytes, back } => {
                self.op_send(cpu, task, channel, Message { bytes, back: Some(back) }, true)
            }
            Op::Recv { channel } => self.op_recv(cpu, task, channel),
            Op::SendBack { bytes } => self.op_send_back(cpu, task, bytes),
            Op::Call { service, iowait } => self.op_call(cpu, task, service, iowait),
            Op::Accept { service, calls_max } => self.op_accept(cpu, task, service, calls_max),
            Op::Reply => self.op_reply(cpu, task),

            Op::Io { device, bytes } => self.op_io(cpu, task, DeviceId(device), bytes),
            Op::IoWork { device, bytes } => self.op_io_work(cpu, task, DeviceId(device), bytes),
            Op::IoEnd { device, bytes, service } => self.op_io_end(cpu, task, DeviceId(device), bytes, service),

            Op::CallRcu => self.op_call_rcu(cpu, task),
            Op::Yield => self.op_yield(cpu, task),
            Op::Fork { task: template } => self.op_fork(cpu, task, template),
            Op::Exec => self.op_exec(cpu, task),
            Op::WaitChild => self.op_wait_child(cpu, task),
            Op::SetCpus { set } => self.op_set_cpus(cpu, task, set),
            Op::SetGroup { task: of, group } => self.op_set_group(cpu, task, of, group),
            Op::SetGroupCpus { group, set } => self.op_set_group_cpus(cpu, task, group, set),
            Op::SetPolicy { policy } => self.op_set_policy(cpu, task, policy),
            Op::SetUclamp { min, max } => self.op_set_uclamp(cpu, task, min, max),
            Op::Exit => self.op_exit(cpu, task),
        }
    }

    /// Whether `cpu` has work of its own that comes before an op which takes time or blocks.
    fn has_overhead(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].overhead > 0
    }

    /// The op of `task` is done; the one after it is next.
    fn next_op(&mut self, task: TaskId) -> Step {
        self.tasks[task].pc += 1;
        Step::Next
    }

    /// The same of an op that has changed nothing but its task.
    fn go_on(&mut self, task: TaskId) -> Step {
        self.tasks[task].pc += 1;
        Step::Through
    }

    /// Puts the running task to sleep; `pc` stays where the op left it.
    fn block(&mut self, task: TaskId, life: Life) -> Step {
        self.tasks[task].life = life;
        Step::Blocked
    }

    /// Puts the running task to sleep in iowait.
    fn block_io(&mut self, cpu: CpuId, task: TaskId) -> Step {
        self.tasks[task].in_iowait = true;
        self.cpus[cpu].nr_iowait += 1;
        self.block(task, Life::Io)
    }

    /// A wake-up by the running task: costs its CPU some time.
    fn wake_from_task(&mut self, cpu: CpuId, waiter: TaskId, sync: bool) {
        self.spend(cpu, self.case.machine.costs.wakeup_ns);
        self.try_to_wake_up(waiter, sync);
    }

    /// Sets the event of the running task's op to when it ends.
    pub(crate) fn reprogram(&mut self, cpu: CpuId) {
        self.reprogram_here(cpu);
    }

    #[inline(always)]
    fn reprogram_here(&mut self, cpu: CpuId) {
        let end = self.time_to_op_end(cpu).map(|ns| self.now + ns);
        self.agenda.keep(cpu, Wait::Op, end);
    }
}
