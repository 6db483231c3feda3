//! Real-time tasks on several CPUs: where they wake, and how a CPU with more than it can run gets rid of them
//! (kernel/sched/rt.c). The decisions are crate `kernel`'s (`sched::rt`).
//!
//! A task that has to wait for one of at least its priority is pushed to a CPU of a lower level, at the wake-up and whenever its CPU
//! picks another real-time task. A CPU that falls to a lower level asks those that have waiting tasks to push (RT_PUSH_IPI): each
//! has an interrupt, all at once rather than in turn. Pushing takes no time.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::rt::{
    CPUPRI_HIGHER, CPUPRI_NORMAL, RtCurr, RtFacts, RtTask, cpupri_find, find_lowest_rq, select_task_rq_rt,
    task_woken_rt,
};
use opplab_model::event::{PlacementRule, Sink};

use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Life};

/// The engine as the real-time class sees it for one task.
struct Levels<'a, 'c, S: Sink, H: HalfLife> {
    engine: &'a Engine<'c, S, H>,
    /// The task's lower clamp.
    clamp_min: u64,
}

impl<S: Sink, H: HalfLife> RtFacts for Levels<'_, '_, S, H> {
    fn cpupri(&self, cpu: usize) -> u8 {
        let state = &self.engine.cpus[cpu];
        if state.dl_queue.is_empty() {
            state.rt_queue.first().map_or(CPUPRI_NORMAL, |&(priority, _)| priority)
        } else {
            CPUPRI_HIGHER
        }
    }
    fn fits(&self, cpu: usize) -> bool {
        self.engine.cpus[cpu].capacity >= self.clamp_min
    }
    fn asym_active(&self) -> bool {
        self.engine.topology.asym.is_some() && self.engine.gates.rt_by_clamp
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
        let domain = self.engine.topology.domains.view(cpu, level)?;
        Some((domain.span, domain.flags))
    }
}

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    fn rt_levels(&self, task: TaskId) -> Levels<'_, 'c, S, H> {
        let asks = self.gates.rt_by_clamp && self.topology.asym.is_some();
        Levels { engine: self, clamp_min: if asks { self.uclamp_eff_value(task).min } else { 0 } }
    }

    fn rt_task(&self, task: TaskId, cpu: CpuId) -> RtTask<'_> {
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        let nr_cpus_allowed = allowed.weight();
        RtTask { cpu: cpu.index(), allowed, nr_cpus_allowed, priority: self.rt_priority(task) }
    }

    /// The task that runs on `cpu`, if it is real-time or a deadline task.
    fn rt_curr(&self, cpu: CpuId) -> Option<RtCurr> {
        let curr = self.cpus[cpu].curr;
        let priority = match self.curr_class(cpu)? {
            Class::Deadline => CPUPRI_HIGHER,
            Class::RealTime => self.rt_priority(curr),
            Class::Fair => return None,
        };
        let allowed = self.cpu_sets.cpus(self.tasks[curr].allowed);
        Some(RtCurr { priority, nr_cpus_allowed: allowed.weight() })
    }

    /// Asks with this CPU's cursor over CPUs and the scratch mask.
    pub(crate) fn with_cursor<T>(&mut self, ask: impl FnOnce(&Self, &mut usize, &mut CpuMask) -> T) -> T {
        let here = self.here.index();
        let mut cursor = self.cpus[here].distribute;
        let mut mask = self.rd.take_scratch();
        let answer = ask(self, &mut cursor, &mut mask);
        self.rd.give_scratch_back(mask);
        self.cpus[here].distribute = cursor;
        answer
    }

    /// rt.c:select_task_rq_rt() for a task that wakes or is born on `prev`.
    pub(crate) fn select_task_rq_rt(&mut self, task: TaskId, prev: CpuId) -> CpuId {
        let here = self.here.index();
        let cpu = self.with_cursor(|engine, cursor, mask| {
            // Before v6.12 a deadline task counts as real-time (rt_task()).
            let curr = engine.rt_curr(prev);
            let curr = curr.filter(|curr| curr.priority < CPUPRI_HIGHER || !engine.gates.dl_is_no_rt);
            select_task_rq_rt(&engine.rt_levels(task), &engine.rt_task(task, prev), curr, here, cursor, mask)
        });
        self.allowed_or_first(task, cpu)
    }

    /// rt.c:find_lowest_rq() of a task that is queued on `cpu`.
    fn find_lowest_rq(&mut self, task: TaskId, cpu: CpuId) -> Option<CpuId> {
        let here = self.here.index();
        let found = self.with_cursor(|engine, cursor, mask| {
            find_lowest_rq(&engine.rt_levels(task), &engine.rt_task(task, cpu), here, cursor, mask)
        });
        found.map(CpuId::of)
    }

    /// The waiting task of the highest priority that may go elsewhere (pick_next_pushable_task()).
    fn pushable_rt_task(&self, cpu: CpuId) -> Option<TaskId> {
        let may_go = |task: TaskId| {
            let state = &self.tasks[task];
            !state.on_cpu && !self.cpu_sets.is_single(state.allowed)
        };
        self.cpus[cpu].rt_queue.iter().map(|&(_, task)| task).find(|&task| may_go(task))
    }

    /// Notes whether `cpu` has real-time tasks to give away (rd->rto_mask); its real-time queue or running task changed.
    pub(crate) fn update_rt_overload(&mut self, cpu: CpuId) {
        let overloaded = self.pushable_rt_task(cpu).is_some();
        self.rd.set_rt_overloaded(cpu, overloaded);
    }

    /// rt.c:push_rt_tasks(): `cpu` gives away the real-time tasks that could run elsewhere.
    pub(crate) fn push_rt_tasks(&mut self, cpu: CpuId) {
        while let Some(task) = self.pushable_rt_task(cpu) {
            let priority = self.rt_priority(task);
            let curr = self.rt_curr(cpu).map_or(CPUPRI_NORMAL, |curr| curr.priority);
            if priority > curr {
                // It slipped in: it runs here soon.
                self.resched_cpu(cpu);
                return;
            }
            let Some(lowest) = self.find_lowest_rq(task, cpu).filter(|&lowest| lowest != cpu) else { return };
            self.bring_up_to_date(cpu);
            self.dequeue_task(cpu, task, false);
            self.move_queued(task, cpu, lowest, PlacementRule::RealTime);
            self.resched_cpu(lowest);
        }
    }

    /// core.c:ttwu_do_activate(), the class's task_woken().
    pub(crate) fn task_woken_rt(&mut self, cpu: CpuId, task: TaskId) {
        let state = &self.cpus[cpu];
        if state.curr == task || state.need_resched {
            return;
        }
        if task_woken_rt(&self.rt_task(task, cpu), self.rt_curr(cpu)) {
            self.push_rt_tasks(cpu);
        }
    }

    /// rt.c:balance_rt() and switched_from_rt(): `cpu` falls from `priority` to a lower level: it asks for what waits elsewhere
    /// (tell_cpu_to_push()).
    pub(crate) fn pull_rt_tasks(&mut self, cpu: CpuId, priority: u8) {
        let own = self.cpus[cpu].rt_queue.first().map_or(CPUPRI_NORMAL, |&(own, _)| own);
        if own >= priority {
            return;
        }
        let overloaded: Vec<usize> = self.rd.rt_overloaded().iter().filter(|&other| other != cpu.index()).collect();
        for other in overloaded {
            self.cpus[other].rt_push = true;
            if self.stream.shared {
                let here = std::mem::replace(&mut self.here, CpuId::of(other));
                self.asked_to_push(CpuId::of(other));
                self.here = here;
            } else {
                self.kick(CpuId::of(other));
            }
        }
    }

    /// Before `cpu` picks: `prev` leaves it (put_prev_task_balance()).
    pub(crate) fn balance_rt(&mut self, cpu: CpuId, prev: TaskId) {
        if self.rd.rt_overloaded().is_empty() {
            return;
        }
        let state = &self.tasks[prev];
        match state.class {
            Class::Fair => {}
            Class::Deadline if !self.cpus[cpu].dl_queue.is_empty() => {}
            Class::Deadline => self.pull_rt_tasks(cpu, CPUPRI_HIGHER),
            Class::RealTime if state.life == Life::Queued => {}
            Class::RealTime => self.pull_rt_tasks(cpu, self.rt_priority(prev)),
        }
    }

    /// rt.c:rto_push_irq_work_func(): another CPU asked `cpu` to push.
    pub(crate) fn asked_to_push(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].rt_push) {
            self.push_rt_tasks(cpu);
        }
    }

    /// rt.c:check_preempt_equal_prio(): `task` woke with the priority of the running task, which moves if only that can.
    pub(crate) fn check_preempt_equal_prio(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let curr = self.cpus[cpu].curr;
        if self.cpus[cpu].need_resched {
            return false;
        }
        let moves = |engine: &mut Self, task: TaskId| {
            !engine.cpu_sets.is_single(engine.tasks[task].allowed)
                && engine.with_cursor(|engine, _, mask| {
                    cpupri_find(&engine.rt_levels(task), &engine.rt_task(task, cpu), mask)
                })
        };
        if !moves(self, curr) || moves(self, task) {
            return false;
        }
        let queue = &mut self.cpus[cpu].rt_queue;
        if let Some(place) = queue.iter().position(|&(_, other)| other == task) {
            let entry = queue.remove(place);
            let first = queue.partition_point(|&(other, _)| other > entry.0);
            queue.insert(first, entry);
        }
        true
    }
}
