//! Where the engine asks proposals (crate `kernel`, `proposals`), and when they are notified.
//!
//! Without any, none of this is called but for a look at whether there is one.

use opplab_kernel::eas::find_energy_efficient_cpu;
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::proposals::dynamic_overutilized::is_full_at_next_tick;
use opplab_kernel::proposals::lone_task::is_lone;
use opplab_kernel::proposals::push_eas::is_stuck;
use opplab_kernel::proposals::rampup_qos::grown_estimate;
use opplab_kernel::proposals::uclamp_sum::util_bias;
use opplab_kernel::sched::placement::Clamps;
use opplab_kernel::util_est::UTIL_AVG_UNCHANGED;
use opplab_model::event::{PlacementRule, Sink};

use crate::ids::{CpuId, TaskId};
use crate::run::engine::Engine;
use crate::run::gates::UtilEst;
use crate::run::task::Class;
use crate::sched::proposed::CpuProposed;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The clamps of a fair task where they add up.
    pub(crate) fn summed_clamps(&self, task: TaskId) -> Option<Clamps> {
        let state = &self.tasks[task];
        let (min, max) = (u64::from(state.uclamp_min.unwrap_or(0)), u64::from(state.uclamp_max));
        (self.gates.profile.proposals.uclamp_sum && state.class == Class::Fair).then_some(Clamps {
            min: min.min(max),
            max,
            ..Clamps::NONE
        })
    }

    /// A task comes to `cpu`'s queue.
    pub(crate) fn proposals_enqueue(&mut self, cpu: CpuId, task: TaskId, wakeup: bool) {
        let now_us = self.now / 1000;
        let ran_ns = self.entities[task].sum_exec_runtime;
        let in_iowait = self.tasks[task].in_iowait;
        let boost = self.gates.profile.proposals.task_iowait_boost;
        let own_util = self.own_util_est(task);
        let kept = self.tasks[task].proposed.get_or_insert_default();
        if wakeup {
            (kept.came_us, kept.ran_ns) = (now_us, ran_ns);
        }
        let io_util = boost.map_or(0, |boost| {
            if in_iowait && wakeup {
                kept.io_boost.wake(now_us, own_util, boost);
            }
            kept.io_boost.util(now_us, boost)
        });
        let bias = self.summed_clamps(task).map_or(0, |clamps| util_bias(self.own_util_est(task), clamps));
        let state = &mut self.cpus[cpu].proposed;
        state.util_bias += bias;
        state.io_util = state.io_util.max(io_util);
    }

    /// The sums over `cpu`'s queue, anew.
    pub(crate) fn proposals_refresh(&mut self, cpu: CpuId) {
        let proposals = self.gates.profile.proposals;
        if !proposals.uclamp_sum && proposals.task_iowait_boost.is_none() {
            return;
        }
        let now_us = self.now / 1000;
        let mut sums = CpuProposed::default();
        for task in self.balancer.lists.iter(cpu.index()).map(TaskId) {
            if self.entities[task].sched_delayed {
                continue;
            }
            if let Some(clamps) = self.summed_clamps(task) {
                sums.util_bias += util_bias(self.own_util_est(task), clamps);
            }
            if let (Some(boost), Some(kept)) = (proposals.task_iowait_boost, &self.tasks[task].proposed) {
                sums.io_util = sums.io_util.max(kept.io_boost.util(now_us, boost));
            }
        }
        self.cpus[cpu].proposed = sums;
    }

    /// What a task that leaves its queue is estimated by, if not by its utilisation.
    pub(crate) fn proposals_sleep(&mut self, cpu: CpuId, task: TaskId) -> Option<u64> {
        let proposals = self.gates.profile.proposals;
        let scales = self.cpus[cpu].scales();
        let (now_us, ran_ns) = (self.now / 1000, self.entities[task].sum_exec_runtime);
        let state = &mut self.tasks[task];
        let kept = state.proposed.get_or_insert_default();
        kept.util_at_sleep = state.sa.util_avg;
        if !proposals.util_burst {
            return None;
        }
        let run_us = ran_ns.saturating_sub(kept.ran_ns) / 1000;
        let scaled_us = (run_us * scales.freq_scale * scales.cpu_capacity) >> 20;
        Some(kept.util_burst.dequeue(kept.came_us, now_us, scaled_us))
    }

    /// The tick of `cpu`, after the averages of the running task `curr`.
    pub(crate) fn proposals_tick(&mut self, cpu: CpuId, curr: TaskId) {
        let proposals = self.gates.profile.proposals;
        if let (Some(multiplier), UtilEst::Single) = (proposals.rampup_multiplier, self.gates.util_est) {
            self.grow_estimate(cpu, curr, multiplier);
        }
        self.proposals_refresh(cpu);
    }

    fn grow_estimate(&mut self, cpu: CpuId, task: TaskId, multiplier: u32) {
        let ran_ns = self.entities[task].sum_exec_runtime;
        let state = &mut self.tasks[task];
        let kept = state.proposed.get_or_insert_default();
        let delta_us = ran_ns.saturating_sub(std::mem::replace(&mut kept.looked_ns, ran_ns).max(kept.ran_ns)) / 1000;
        let estimate = state.sa.util_est & !UTIL_AVG_UNCHANGED;
        let grown = grown_estimate(estimate, state.sa.util_avg, kept.util_at_sleep, delta_us, multiplier);
        if grown == estimate || !state.util_est_counted {
            return;
        }
        self.util_est_dequeue(cpu, task);
        self.tasks[task].sa.util_est = grown;
        self.util_est_enqueue(cpu, task);
    }

    /// cpu_overutilized() as proposals have it; `None`: as the kernel.
    pub(crate) fn proposed_overutilized(&self, cpu: CpuId, util: u64) -> Option<bool> {
        let proposals = &self.gates.profile.proposals;
        let state = &self.cpus[cpu];
        let max_capacity = || self.cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(0);
        if proposals.lone_task && is_lone(state.rq_nr_running(), state.capacity, state.capacity_of, max_capacity()) {
            return Some(false);
        }
        proposals.overutilized_by_next_tick.then(|| is_full_at_next_tick(util, state.capacity_of, self.tick_ns / 1000))
    }

    /// Pushes a fair task that is stuck on `cpu`: the running one if it is alone, else the first that waits.
    pub(crate) fn push_stuck(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].curr;
        if self.eas.is_none()
            || self.overutilized.is_set()
            || curr == TaskId::IDLE
            || self.tasks[curr].class != Class::Fair
        {
            return;
        }
        let waiting = self.balancer.lists.iter(cpu.index()).map(TaskId).find(|&task| {
            task != curr
                && !self.tasks[task].on_cpu
                && !self.entities[task].sched_delayed
                && self.is_stuck_on(cpu, task)
        });
        let Some(task) = waiting.or((self.cpus[cpu].nr_running == 1 && self.is_stuck_on(cpu, curr)).then_some(curr))
        else {
            return;
        };
        let Some(dest) = self.cheapest_for_queued(task, cpu).filter(|&dest| dest != cpu) else { return };
        if task == curr {
            self.push_running(cpu, dest);
        } else {
            self.detach_queued(cpu, task);
            self.move_queued(task, cpu, dest, PlacementRule::Eas);
        }
    }

    fn is_stuck_on(&self, cpu: CpuId, task: TaskId) -> bool {
        let state = &self.cpus[cpu];
        let capacity = state.capacities();
        is_stuck(self.task_util_est(task), self.task_clamps(task), &capacity)
    }

    fn cheapest_for_queued(&self, task: TaskId, cpu: CpuId) -> Option<CpuId> {
        let eas_task = opplab_kernel::eas::EasTask { queued: true, ..self.eas_task(task, cpu) };
        let facts = self.eas_facts(self.tasks[task].allowed);
        let (domains, gates) = (&self.eas.as_ref()?.domains, self.gates.eas?);
        find_energy_efficient_cpu(domains, &eas_task, false, &facts, gates, &mut ()).map(CpuId::of)
    }
}
