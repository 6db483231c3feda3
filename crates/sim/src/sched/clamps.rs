//! Utilisation clamps in the engine: which tasks count in which run queue (kernel/sched/core.c:uclamp_rq_inc(),
//! uclamp_rq_dec()).
//!
//! The kernel's governors and its fair class use clamps from the first request on (uclamp_is_used()); here they do from the start of
//! a run whose workload has one. Real-time tasks are placed by theirs in any case (rt.c:rt_task_fits_capacity()).

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::placement::Clamps;
use opplab_kernel::uclamp::uclamp_tg_restrict;
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;
use opplab_model::event::Sink;

use crate::ids::{CpuId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::Class;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// [`Self::uclamp_eff_value`]; `None` if nobody uses clamps.
    #[inline]
    pub(crate) fn task_clamps(&self, task: TaskId) -> Option<Clamps> {
        self.uclamp_used.then(|| self.uclamp_eff_value(task))
    }

    /// uclamp_eff_value() of both clamps. Without a request of its own a real-time task is boosted to the most
    /// (sysctl_sched_uclamp_util_min_rt_default).
    #[inline(never)]
    pub(crate) fn uclamp_eff_value(&self, task: TaskId) -> Clamps {
        let state = &self.tasks[task];
        let policy = &self.case.policy;
        let limit = |of: u32| of.min(SCHED_CAPACITY_SCALE as u32) as u16;
        let unasked = if state.class == Class::RealTime { limit(policy.sched_util_clamp_min_rt_default) } else { 0 };
        let mut min = state.uclamp_min.unwrap_or(unasked);
        let mut max = state.uclamp_max;
        if state.group != GroupId::ROOT {
            let group = &self.groups[state.group];
            let clamps = (group.uclamp_min, group.uclamp_max);
            (min, max) = (uclamp_tg_restrict(min, clamps), uclamp_tg_restrict(max, clamps));
        }
        // core.c:uclamp_eff_get(): nobody gets more than the machine's limits.
        let (min, max) = (min.min(limit(policy.sched_util_clamp_min)), max.min(limit(policy.sched_util_clamp_max)));
        Clamps { min: min.min(max).into(), max: max.into(), fit: self.gates.profile.uclamp_fit }
    }

    /// core.c:uclamp_rq_inc(): the fair and real-time classes know clamps.
    #[inline]
    pub(crate) fn uclamp_rq_inc(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(clamps) = self.task_clamps(task) {
            self.count_clamps(cpu, task, clamps);
        }
    }

    fn count_clamps(&mut self, cpu: CpuId, task: TaskId, clamps: Clamps) {
        let state = &mut self.tasks[task];
        if state.class == Class::Deadline || state.uclamp_counted.is_some() {
            return;
        }
        state.uclamp_counted = Some(clamps);
        self.cpus[cpu].clamps.inc(clamps);
    }

    /// core.c:uclamp_rq_dec().
    pub(crate) fn uclamp_rq_dec(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(clamps) = self.tasks[task].uclamp_counted.take() {
            self.cpus[cpu].clamps.dec(clamps);
        }
    }
}
