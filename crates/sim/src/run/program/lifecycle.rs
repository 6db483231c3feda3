//! Ops that change tasks themselves: children, programs, scheduling attributes, the end.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{Event, PlacementRule, Sink};
use opplab_model::workload::SchedPolicy;

use super::Step;
use crate::ids::{CpuId, CpuSetId, GroupId, TaskId};
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::task::{Class, Enqueue, Life, Task, class_and_weight};
use crate::run::timers::TimerKind;
use crate::sched::fair_rq::entity_of;

/// Live tasks from which on fork fails, as it does at the kernel's `threads-max` and `pid_max`.
const LIVE_MAX: usize = 100_000;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    #[inline(never)]
    pub(super) fn op_call_rcu(&mut self, cpu: CpuId, task: TaskId) -> Step {
        self.call_rcu(cpu);
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_yield(&mut self, cpu: CpuId, task: TaskId) -> Step {
        self.yield_task(cpu, task);
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_fork(&mut self, cpu: CpuId, parent: TaskId, template: u32) -> Step {
        self.next_op(parent);
        let lives = |task: &Task<'_>| task.life != Life::Dead;
        if self.tasks.len() >= LIVE_MAX && self.tasks.iter().filter(|task| lives(task)).count() >= LIVE_MAX {
            // kernel/fork.c:copy_process(), v6.12: EAGAIN, and who forked goes on.
            return Step::Next;
        }
        let spec = &self.case.workload.tasks[template as usize];
        let wanted = spec.cpus.map_or(self.tasks[parent].wanted, |set| CpuSetId::of_workload(Some(set)));
        let case = self.case;
        // A child is in its parent's group, unless its template is in one.
        let own = case.workload.groups.iter().position(|group| group.tasks.contains(&template));
        let group = own.map_or(self.tasks[parent].group, |group| GroupId::of(group + 1));
        let child = self.add_task(template, spec, &spec.ops, wanted, cpu, group);
        self.tasks[child].parent = Some(parent);
        self.tasks[parent].live_children += 1;
        self.spend(cpu, self.case.machine.costs.wakeup_ns);
        if spec.delay_ns > 0 {
            self.add_timer(cpu, self.now + spec.delay_ns, TimerKind::Wake(child));
        } else {
            self.wake_up_new_task(child);
        }
        Step::Next
    }

    /// exec.c:sched_exec(): the running task moves to the idlest CPU, by the stopper.
    #[inline(never)]
    pub(super) fn op_exec(&mut self, cpu: CpuId, task: TaskId) -> Step {
        self.next_op(task);
        self.account(cpu);
        self.update_rq_clock(cpu);
        let dest = self.select_task_rq_exec(task, cpu);
        // There its old credentials are freed (fs/exec.c:begin_new_exec(), kernel/cred.c:commit_creds(), v5.9).
        self.call_rcu(dest);
        if dest == cpu {
            return Step::Next;
        }
        self.dequeue_task(cpu, task, false);
        self.put_prev_task(cpu, task);
        self.detached_current(cpu);
        self.move_queued(task, cpu, dest, PlacementRule::Idlest);
        Step::Next
    }

    #[inline(never)]
    pub(super) fn op_wait_child(&mut self, cpu: CpuId, task: TaskId) -> Step {
        let state = &mut self.tasks[task];
        if state.dead_children > 0 {
            state.dead_children -= 1;
            // kernel/exit.c:release_task(), v5.9.
            self.call_rcu(cpu);
            return self.next_op(task);
        }
        if state.live_children == 0 {
            return self.next_op(task);
        }
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        self.tasks[task].waits_child = true;
        self.block(task, Life::Sleeping)
    }

    #[inline(never)]
    pub(super) fn op_set_cpus(&mut self, cpu: CpuId, task: TaskId, set: Option<u32>) -> Step {
        self.next_op(task);
        let state = &mut self.tasks[task];
        state.wanted = CpuSetId::of_workload(set);
        state.allowed = self.groups.allowed(&mut self.cpu_sets, state.wanted, state.group);
        let stays = self.cpu_sets.cpus(state.allowed).contains(cpu.index());
        self.tell_affinity(task);
        if !stays {
            self.push_away(cpu, task);
        }
        Step::Next
    }

    /// kernel/cgroup/cgroup.c:cgroup_attach_task(), v6.12.
    #[inline(never)]
    pub(super) fn op_set_group(&mut self, cpu: CpuId, task: TaskId, of: Option<u32>, group: Option<u32>) -> Step {
        self.next_op(task);
        let group = group.map_or(GroupId::ROOT, |group| GroupId(group + 1));
        match of {
            None => self.set_group(task, group),
            Some(template) => {
                for other in self.tasks.ids().filter(|&other| self.tasks[other].spec == template).collect::<Vec<_>>() {
                    self.set_group(other, group);
                }
                self.here = cpu;
            }
        }
        Step::Next
    }

    #[inline(never)]
    pub(super) fn op_set_group_cpus(&mut self, cpu: CpuId, task: TaskId, group: u32, set: Option<u32>) -> Step {
        self.next_op(task);
        self.set_group_cpus(GroupId(group + 1), set.map(|set| CpuSetId::of_workload(Some(set))));
        self.here = cpu;
        Step::Next
    }

    /// core.c:__sched_setscheduler().
    #[inline(never)]
    pub(super) fn op_set_policy(&mut self, cpu: CpuId, task: TaskId, policy: SchedPolicy) -> Step {
        self.next_op(task);
        let (class, weight) = class_and_weight(policy);
        self.update_rq_clock(cpu);
        self.dequeue_task(cpu, task, false);
        self.put_prev_task(cpu, task);
        let (old, old_priority) = (self.tasks[task].class, self.rt_priority(task));
        if old == Class::Fair && class != Class::Fair {
            self.switched_from_fair(cpu, task);
        }
        if class == Class::Fair {
            let fresh = entity_of(policy, weight);
            let entity = &mut self.entities[task];
            (entity.load, entity.policy) = (fresh.load, fresh.policy);
        }
        let state = &mut self.tasks[task];
        state.policy = policy;
        state.class = class;
        state.weight = weight;
        self.journal.policy(self.now - BOOT_NS, task, policy);
        self.set_dl_params(task, policy, old == Class::Deadline);
        self.enqueue_task(cpu, task, Enqueue::Restore);
        self.set_next_task(cpu, task);
        if old == Class::Deadline {
            if class != Class::Deadline {
                self.switched_from_dl(cpu, task);
            }
            self.pull_after_change_dl(cpu);
        }
        if old == Class::RealTime && (class == Class::RealTime || self.cpus[cpu].rt_queue.is_empty()) {
            // switched_from_rt(), prio_changed_rt().
            self.pull_rt_tasks(cpu, old_priority);
        }
        self.resched_cpu(cpu);
        Step::Next
    }

    #[inline(never)]
    pub(super) fn op_set_uclamp(&mut self, cpu: CpuId, task: TaskId, min: Option<u16>, max: Option<u16>) -> Step {
        let state = &mut self.tasks[task];
        state.uclamp_min = min.map(|min| min.min(1024)).or(state.uclamp_min);
        state.uclamp_max = max.map_or(state.uclamp_max, |max| max.min(1024));
        let (min, max) = (state.uclamp_min, state.uclamp_max);
        self.journal.clamps(self.now - BOOT_NS, task, min, max);
        // __sched_setscheduler() takes the task off its queue and back.
        self.uclamp_rq_dec(cpu, task);
        self.uclamp_rq_inc(cpu, task);
        self.cpufreq_update_util(cpu, 0);
        self.next_op(task)
    }

    #[inline(never)]
    pub(super) fn op_exit(&mut self, cpu: CpuId, task: TaskId) -> Step {
        if self.has_overhead(cpu) {
            return Step::BurnFirst;
        }
        // Its files are freed (fs/file_table.c:file_free(), v5.9).
        self.call_rcu(cpu);
        self.tasks[task].life = Life::Dead;
        self.emit(Event::SchedProcessExit { task: task.0 });
        if let Some(parent) = self.tasks[task].parent {
            let state = &mut self.tasks[parent];
            state.live_children -= 1;
            state.dead_children += 1;
            if std::mem::take(&mut state.waits_child) {
                self.wake_from_task(cpu, parent, true);
            }
        } else if self.tasks[task].spec < self.case.workload.nr_main {
            self.nr_main_left -= 1;
        }
        self.resched_cpu(cpu);
        Step::Blocked
    }
}
