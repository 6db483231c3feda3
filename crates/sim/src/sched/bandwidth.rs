//! Bandwidth of deadline tasks: what each CPU's governor sees of it, and who is admitted (kernel/sched/deadline.c).
//!
//! The accounts are crate `kernel`'s (`sched::dl_bw`). A task's bandwidth is its CPU's while the task belongs there, and raises the
//! clock until the task's 0-lag time: a timer takes it away when the task sleeps longer. The governor's threads have no part in it.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::dl_bw::{DlRqBw, grub_reclaim};
use opplab_kernel::sched::dl_entity::{DL_BW_LIMIT, DlEntity, FAIR_SERVER_DL_BW, dl_overflow};
use opplab_model::event::Sink;
use opplab_model::workload::SchedPolicy;

use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Enqueue, Life};
use crate::run::timers::TimerKind;
use crate::sched::dl_run::DlRun;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The account of `cpu` and the task; `None` for a governor's thread, and one whose bandwidth is assumed.
    fn dl_account(&mut self, cpu: CpuId, task: TaskId) -> Option<(&mut DlRqBw, &mut DlRun)> {
        let state = &mut self.tasks[task];
        let dl = state.dl.as_deref_mut().filter(|dl| state.sugov.is_none() && !dl.is_assumed)?;
        Some((&mut self.cpus[cpu].dl_bw, dl))
    }

    /// What enqueue_dl_entity() does to the bandwidth. The clock must be up to date.
    pub(crate) fn enqueue_dl_bw(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) {
        let Some((rq, dl)) = self.dl_account(cpu, task) else { return };
        let grew = match kind {
            Enqueue::Replenished => return,
            Enqueue::New | Enqueue::Restore | Enqueue::Migrated => {
                rq.arrive(&dl.entity);
                true
            }
            Enqueue::Wakeup | Enqueue::WakeupMigrated => {
                let arrives = std::mem::take(&mut dl.has_left);
                rq.task_contending(&mut dl.entity, arrives)
            }
        };
        if grew {
            self.cpufreq_update_util(cpu, 0);
        } else {
            self.cancel_inactive_timer(task);
        }
    }

    /// What dequeue_dl_entity() does to the bandwidth. The clock must be up to date.
    pub(crate) fn dequeue_dl_bw(&mut self, cpu: CpuId, task: TaskId, sleep: bool) {
        let clock = self.cpus[cpu].clk.clock;
        let is_dead = self.tasks[task].life == Life::Dead;
        let Some((rq, dl)) = self.dl_account(cpu, task) else { return };
        if !sleep {
            rq.leave(&dl.entity);
            return self.cpufreq_update_util(cpu, 0);
        }
        if let Some(zero_lag) = rq.task_non_contending(&mut dl.entity, clock) {
            return self.start_inactive_timer(cpu, task, zero_lag - clock);
        }
        if is_dead {
            rq.sub_rq_bw(&dl.entity);
            self.free_total_bw(task);
        }
        self.cpufreq_update_util(cpu, 0);
    }

    /// deadline.c:migrate_task_rq_dl(): a task that wakes leaves `orig`, where it slept; once, though it is moved again before it is
    /// queued.
    pub(crate) fn migrate_task_rq_dl(&mut self, task: TaskId, orig: CpuId) {
        if self.tasks[task].class != Class::Deadline {
            return;
        }
        let Some((_, dl)) = self.dl_account(orig, task) else { return };
        if std::mem::replace(&mut dl.has_left, true) {
            return;
        }
        if dl.entity.non_contending {
            self.bring_up_to_date(orig);
        }
        let Some((rq, dl)) = self.dl_account(orig, task) else { return };
        if rq.migrate_task_rq(&mut dl.entity) {
            self.cancel_inactive_timer(task);
            self.cpufreq_update_util(orig, 0);
        }
    }

    /// What `task`, which reclaims bandwidth on `cpu`, is charged for `ran_ns` (deadline.c:grub_reclaim()).
    pub(super) fn grub_charge(&self, cpu: CpuId, ran_ns: u64, task: &DlEntity) -> u64 {
        let (state, nr) = (&self.cpus[cpu], self.cpus.len() as u64);
        let (mut rq, mut extra_bw) = (state.dl_bw, DL_BW_LIMIT.saturating_sub(self.rd.dl_bw_a_cpu()));
        if self.gates.fair_server {
            // Each CPU's server belongs to its queue, and is taken off what is free on all.
            rq.this_bw += FAIR_SERVER_DL_BW;
            rq.running_bw += if state.fair_served { FAIR_SERVER_DL_BW } else { 0 };
            extra_bw = extra_bw.saturating_sub(FAIR_SERVER_DL_BW / nr * nr);
        }
        grub_reclaim(ran_ns, &rq, extra_bw, task, self.gates.profile.grub)
    }

    /// What each CPU counts is what its tasks have: all that belong there, and those of them that run, wait or sleep for a short time.
    pub(crate) fn assert_bandwidths(&self) {
        let mut expected = vec![DlRqBw::default(); self.cpus.len()];
        for task in &self.tasks {
            let Some(dl) = &task.dl else { continue };
            let contends = task.on_cpu || task.life == Life::Queued;
            let belongs = match task.life {
                Life::New => false,
                Life::Dead => contends || dl.entity.non_contending,
                _ => !dl.has_left,
            };
            if task.class == Class::Deadline && task.sugov.is_none() && !dl.is_assumed && belongs {
                let rq = &mut expected[task.cpu.index()];
                rq.this_bw += dl.entity.dl_bw();
                rq.running_bw += if contends || dl.entity.non_contending { dl.entity.dl_bw() } else { 0 };
            }
        }
        for (cpu, expected) in self.cpus.iter().zip(expected) {
            assert_eq!(cpu.dl_bw, expected, "bandwidth is lost or counted twice");
        }
    }

    fn start_inactive_timer(&mut self, cpu: CpuId, task: TaskId, after_ns: u64) {
        if let Some(dl) = self.tasks[task].dl.as_deref_mut() {
            dl.inactive_cpu = cpu;
        }
        self.add_timer(cpu, self.now + after_ns, TimerKind::Inactive(task));
    }

    fn cancel_inactive_timer(&mut self, task: TaskId) {
        if let Some(dl) = &self.tasks[task].dl {
            self.cancel_timer(dl.inactive_cpu, TimerKind::Inactive(task));
        }
    }

    /// deadline.c:inactive_task_timer(): the 0-lag time of a task that sleeps, has ended or is no deadline task any more.
    pub(crate) fn inactive_task_timer(&mut self, task: TaskId) {
        let state = &self.tasks[task];
        let (cpu, is_dead, is_dl) = (state.cpu, state.life == Life::Dead, state.class == Class::Deadline);
        self.bring_up_to_date(cpu);
        let Some((rq, dl)) = self.dl_account(cpu, task) else { return };
        let counted = rq.inactive_task_timer(&mut dl.entity);
        if counted && is_dead {
            rq.sub_rq_bw(&dl.entity);
        }
        if is_dead || !is_dl {
            self.free_total_bw(task);
        }
        if counted {
            self.cpufreq_update_util(cpu, 0);
        }
    }

    /// The task's parameters become those of `policy` (__setparam_dl()); what it has left of its budget stays. A task that becomes a
    /// deadline task is admitted.
    pub(crate) fn set_dl_params(&mut self, task: TaskId, policy: SchedPolicy, was_dl: bool) {
        let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim } = policy else { return };
        let state = &mut self.tasks[task];
        match state.dl.as_deref_mut() {
            Some(dl) => {
                dl.entity.set_params(runtime_ns, deadline_ns, period_ns);
                (dl.is_assumed, dl.reclaims) = (false, reclaim);
            }
            None => state.dl = DlRun::of(policy, false),
        }
        self.admit_dl(task, was_dl);
    }

    /// deadline.c:switched_from_dl(): the running task, off its queue, has another class. What it had of all bandwidth is free at its
    /// 0-lag time.
    pub(crate) fn switched_from_dl(&mut self, cpu: CpuId, task: TaskId) {
        let clock = self.cpus[cpu].clk.clock;
        let Some((_, dl)) = self.dl_account(cpu, task) else { return };
        match dl.entity.zero_lag_after(clock) {
            Some(zero_lag) => self.start_inactive_timer(cpu, task, zero_lag - clock),
            None => self.free_total_bw(task),
        }
    }

    /// deadline.c:sched_dl_overflow(): admits a task that becomes a deadline task or changes its parameters, or ends the run as the
    /// kernel's error ends rt-app.
    pub(crate) fn admit_dl(&mut self, task: TaskId, was_dl: bool) {
        let state = &self.tasks[task];
        let counts = state.class == Class::Deadline && state.sugov.is_none();
        let Some(dl) = state.dl.as_deref().filter(|dl| counts && !dl.is_assumed) else { return };
        // What a task of another class still has until its 0-lag time is in the way of its own return.
        let (bw, old_bw) = (dl.entity.dl_bw(), if was_dl { dl.total_bw } else { 0 });
        let capacity = self.cpus.iter().map(|cpu| cpu.capacity).sum();
        let server_bw = if self.gates.fair_server { FAIR_SERVER_DL_BW * self.cpus.len() as u64 } else { 0 };
        if dl_overflow(capacity, self.rd.dl_total_bw() + server_bw, old_bw, bw) {
            let (name, permille) = (self.task_name(task), (bw * 1000) >> 20);
            self.fail(format!(
                "task {name:?} asks for {permille}/1000 of a CPU as a SCHED_DEADLINE task, which is more than is left to such tasks \
                 (sched_setattr() fails with EBUSY)"
            ));
        }
        self.cancel_inactive_timer(task);
        self.free_total_bw(task);
        self.rd.add_dl_bw(bw);
        if let Some(dl) = self.tasks[task].dl.as_deref_mut() {
            dl.total_bw = bw;
        }
    }

    /// The task has no part in the bandwidth of all any more.
    fn free_total_bw(&mut self, task: TaskId) {
        if let Some(dl) = self.tasks[task].dl.as_deref_mut() {
            self.rd.sub_dl_bw(std::mem::take(&mut dl.total_bw));
        }
    }
}
