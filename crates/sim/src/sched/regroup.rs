//! A task changes its group: first the CPUs that it may use, then the queue that it is in (kernel/cgroup/cpuset.c:cpuset_attach(),
//! kernel/sched/core.c:sched_move_task(), v6.12).

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{PlacementRule, QueueChange, Sink};

use crate::ids::{CpuId, CpuSetId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Enqueue, Life};
use crate::sched::fair_rq::FairRq;
use crate::sched::groups::fair_of;

/// Where a task is that changes its group.
enum Place {
    /// It runs, or is queued to run.
    Queued {
        runs: bool,
    },
    /// It sleeps in its queue: its dequeue is delayed.
    Delayed,
    /// It has stopped, since its group has no quota (v6.18).
    Limbo,
    /// It is on its way into a queue.
    Waking,
    Asleep,
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Moves a task into `group`.
    pub(crate) fn set_group(&mut self, task: TaskId, group: GroupId) {
        let old = self.tasks[task].group;
        if old == group || self.tasks[task].life == Life::Dead {
            return;
        }
        self.tasks[task].allowed = self.groups.allowed(&mut self.cpu_sets, self.tasks[task].wanted, group);
        self.tell_affinity(task);
        if self.tasks[task].life == Life::New {
            self.tasks[task].group = group;
            return;
        }
        self.bring_up_to_date(self.tasks[task].cpu);
        self.leave_forbidden_cpu(task);
        let ran_ns: u64 = self.outcome.task_ns_by_cluster[task.index()].iter().sum();
        self.groups.left.push((task, old, ran_ns + self.tasks[task].cluster_ns));
        self.move_queue(task, group);
    }

    /// Gives a group other CPUs; its tasks and those of groups below it leave the others.
    pub(crate) fn set_group_cpus(&mut self, group: GroupId, own: Option<CpuSetId>) {
        self.groups.set_cpus(&mut self.cpu_sets, group, own);
        for task in self.tasks.ids() {
            let state = &self.tasks[task];
            if !self.groups.is_within(state.group, group) || state.life == Life::Dead {
                continue;
            }
            let (is_new, cpu) = (state.life == Life::New, state.cpu);
            self.tasks[task].allowed = self.groups.allowed(&mut self.cpu_sets, state.wanted, state.group);
            self.tell_affinity(task);
            if !is_new {
                self.bring_up_to_date(cpu);
                self.leave_forbidden_cpu(task);
            }
        }
    }

    fn place_of(&self, task: TaskId) -> Place {
        let state = &self.tasks[task];
        if state.on_cpu {
            Place::Queued { runs: true }
        } else if state.throttled {
            Place::Limbo
        } else if self.entities[task].sched_delayed {
            Place::Delayed
        } else {
            match state.life {
                Life::Queued => Place::Queued { runs: false },
                Life::Waking => Place::Waking,
                _ => Place::Asleep,
            }
        }
    }

    /// The task goes if it may no longer be where it is; one that sleeps does as it wakes.
    fn leave_forbidden_cpu(&mut self, task: TaskId) {
        let cpu = self.tasks[task].cpu;
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        let Some(dest) = allowed.first().map(CpuId::of).filter(|_| !allowed.contains(cpu.index())) else { return };
        match self.place_of(task) {
            // One that is about to sleep goes as it wakes.
            Place::Queued { runs: true } if self.tasks[task].life != Life::Queued => {}
            Place::Queued { runs: true } => self.push_away(cpu, task),
            Place::Queued { runs: false } => {
                self.detach_queued(cpu, task);
                self.move_queued(task, cpu, dest, PlacementRule::Pinned);
            }
            Place::Delayed => {
                self.detach_delayed(cpu, task);
                self.carry_over(task, cpu, dest, PlacementRule::Pinned);
            }
            Place::Limbo => {
                self.leave_limbo(task);
                self.move_queued(task, cpu, dest, PlacementRule::Pinned);
            }
            Place::Waking => {
                self.cpus[cpu].wake_list.retain(|&other| other != task);
                self.note_change(cpu);
                self.migrate_task_rq_fair(task, cpu);
                self.migrate_task_rq_dl(task, cpu);
                self.tasks[task].cpu = dest;
                self.bring_up_to_date(dest);
                self.activate(task, dest);
            }
            Place::Asleep => {}
        }
    }

    /// fair.c:dequeue_throttled_task(), v6.18.
    fn leave_limbo(&mut self, task: TaskId) {
        let (group, cpu) = (self.tasks[task].group, self.tasks[task].cpu);
        self.tell_queued(cpu, task, QueueChange::Out);
        self.uclamp_rq_dec(cpu, task);
        self.tasks[task].throttled = false;
        self.groups.queue_mut(group, cpu).limbo.retain(|&other| other != task);
    }

    fn move_queue(&mut self, task: TaskId, group: GroupId) {
        let cpu = self.tasks[task].cpu;
        let place = self.place_of(task);
        // What they count in does not depend on their group.
        if self.tasks[task].class == Class::Deadline {
            self.tasks[task].group = group;
            return;
        }
        match place {
            Place::Queued { runs } => {
                let life = self.tasks[task].life;
                self.dequeue_task(cpu, task, false);
                if runs {
                    self.put_prev_task(cpu, task);
                }
                self.change_group(task, group);
                self.enqueue_task(cpu, task, Enqueue::Restore);
                self.tasks[task].life = life;
                if runs {
                    self.set_next_task(cpu, task);
                    self.resched_cpu(cpu);
                }
            }
            Place::Delayed => {
                self.dequeue_delayed(cpu, task);
                self.change_group(task, group);
                self.enqueue_delayed(cpu, task);
            }
            Place::Limbo => {
                self.leave_limbo(task);
                self.change_group(task, group);
                if self.groups.in_throttled(group, cpu) {
                    // fair.c:enqueue_throttled_task(), v6.18.
                    self.tell_queued(cpu, task, QueueChange::In);
                    self.uclamp_rq_inc(cpu, task);
                    self.tasks[task].throttled = true;
                    self.groups.queue_mut(group, cpu).limbo.push(task);
                } else {
                    self.enqueue_task(cpu, task, Enqueue::Restore);
                    self.wakeup_preempt(cpu, task);
                }
            }
            Place::Waking | Place::Asleep => self.change_group(task, group),
        }
    }

    /// fair.c:task_change_group_fair(): the averages leave one queue for another; the task is in none.
    fn change_group(&mut self, task: TaskId, group: GroupId) {
        let (old, cpu) = (self.tasks[task].group, self.tasks[task].cpu);
        let attached = self.tasks[task].class == Class::Fair && self.tasks[task].sa.last_update_time != 0;
        let asleep = matches!(self.tasks[task].life, Life::Sleeping | Life::Io | Life::Waking);
        if attached {
            self.update_load_avg(cpu, task, false);
            if asleep && let FairRq::Cfs(rq) = fair_of(&mut self.cpus, &mut self.groups, old, cpu) {
                rq.leave_sleeping(&mut self.entities[task]);
            }
            self.switched_from_fair(cpu, task);
            if old == GroupId::ROOT {
                self.cpufreq_update_util(cpu, 0);
            }
        }
        self.tasks[task].group = group;
        if attached {
            self.update_load_avg(cpu, task, true);
            self.propagate_above(cpu, task);
            if asleep && let FairRq::Cfs(rq) = fair_of(&mut self.cpus, &mut self.groups, group, cpu) {
                rq.join_sleeping(&mut self.entities[task]);
            }
        }
    }
}
