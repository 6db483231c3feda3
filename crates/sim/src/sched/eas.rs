//! Energy-aware placement in the engine: the facts of a wake-up (the energy model itself: `eas_model`).

use opplab_kernel::eas::{
    Boost, EasCpu, EasExplanation, EasFacts, EasTask, cpu_overutilized, cpu_util, find_energy_efficient_cpu,
};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::placement::Clamps;
use opplab_model::decision::{Decision, NONE};
use opplab_model::event::Sink;

use crate::ids::{CpuId, CpuSetId, TaskId};
use crate::run::cpu::Cpu;
use crate::run::engine::Engine;
use crate::run::gates::{Gates, UtilEst};
use crate::sched::rq_facts::{cfs_util_est, rq_facts};

/// What find_energy_efficient_cpu() wants to know.
pub(crate) struct Facts<'a> {
    cpus: &'a [Cpu],
    uclamp_used: bool,
    gates: &'a Gates,
    allowed: CpuSet<'a>,
}

#[inline]
fn eas_cpu(cpu: &Cpu, gates: &Gates, uclamp_used: bool) -> EasCpu {
    EasCpu {
        rq: rq_facts(cpu, gates, uclamp_used),
        capacity: cpu.capacities(),
        util_avg: cpu.proposed.util(cpu.cfs.avg.util_avg),
        runnable_avg: cpu.cfs.avg.runnable_avg,
        util_est: cpu.proposed.util(cfs_util_est(cpu, gates)),
        uclamp_idle: cpu.clamps.idle,
    }
}

impl EasFacts for Facts<'_> {
    #[inline]
    fn cpu(&self, cpu: usize) -> EasCpu {
        eas_cpu(&self.cpus[cpu], self.gates, self.uclamp_used)
    }
    fn allowed(&self, cpu: usize) -> bool {
        self.allowed.contains(cpu)
    }
    fn uclamp_used(&self) -> bool {
        self.uclamp_used
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The cheapest CPU for a waking task; `None`: place it as without energy. With records on, its candidates and
    /// energies are reported and `rule` is the reason.
    pub(crate) fn find_energy_efficient_cpu(&mut self, task: TaskId, prev: CpuId, rule: &mut u8) -> Option<CpuId> {
        let eas_task = self.eas_task(task, prev);
        let facts = self.eas_facts(self.tasks[task].allowed);
        let (domains, gates) = (&self.eas.as_ref()?.domains, self.gates.eas?);
        if !S::DECISIONS {
            let cpu = find_energy_efficient_cpu(domains, &eas_task, self.overutilized.is_set(), &facts, gates, &mut ());
            return cpu.map(CpuId::of);
        }
        let mut seen = EasExplanation::default();
        let cpu = find_energy_efficient_cpu(domains, &eas_task, self.overutilized.is_set(), &facts, gates, &mut seen);
        let decision = self.journal.placement();
        let records: Vec<Decision> = seen
            .candidates
            .iter()
            .map(|candidate| {
                let own = facts.cpu(candidate.cpu);
                Decision::Candidate {
                    decision,
                    cpu: candidate.cpu as u32,
                    domain: candidate.domain as u32,
                    util: cpu_util(candidate.cpu, &own, Some(&eas_task), Some(candidate.cpu), Boost::None) as u32,
                    capacity: own.capacity.of as u32,
                    spare_cap: candidate.spare_cap as u32,
                    fits: candidate.fits,
                }
            })
            .chain(seen.energies.iter().map(|energy| Decision::Energy {
                decision,
                dst_cpu: energy.dst_cpu.map_or(-1, |cpu| cpu as i32),
                domain: energy.domain as u32,
                energy: energy.energy,
                max_util: energy.max_util,
                busy_time: energy.busy_time,
            }))
            .collect();
        *rule = seen.decided.map_or(NONE, |(_, rule)| rule as u8);
        for record in records {
            self.record(record);
        }
        cpu.map(CpuId::of)
    }

    /// A waking task as energy-aware placement sees it.
    pub(crate) fn eas_task(&self, task: TaskId, prev: CpuId) -> EasTask {
        let state = &self.tasks[task];
        let clamps = self.task_clamps(task).unwrap_or(Clamps::NONE);
        if let Some(summed) = self.summed_clamps(task) {
            return EasTask {
                prev_cpu: prev.index(),
                util_avg: state.sa.util_avg.min(summed.max),
                runnable_avg: state.sa.runnable_avg,
                util_est: self.task_util_est(task) as u32,
                uclamp_min: 0,
                uclamp_max: 1024,
                queued: false,
            };
        }
        EasTask {
            prev_cpu: prev.index(),
            util_avg: state.sa.util_avg,
            runnable_avg: state.sa.runnable_avg,
            util_est: match self.gates.util_est {
                UtilEst::Single => state.sa.util_est,
                UtilEst::Pair(form) => state.util_est.task_util_est_masked(form),
            },
            uclamp_min: clamps.min,
            uclamp_max: clamps.max,
            queued: false,
        }
    }

    /// The facts of a placement of a task that may use the CPUs of mask `allowed`.
    pub(crate) fn eas_facts(&self, allowed: CpuSetId) -> Facts<'_> {
        Facts {
            cpus: &self.cpus,
            uclamp_used: self.uclamp_used,
            gates: &self.gates,
            allowed: self.cpu_sets.cpus(allowed),
        }
    }

    /// fair.c:cpu_overutilized().
    pub(crate) fn cpu_overutilized(&self, cpu: CpuId) -> bool {
        let mut facts = eas_cpu(&self.cpus[cpu], &self.gates, self.uclamp_used);
        if self.gates.proposes {
            if let Some(overutilized) = self.proposed_overutilized(cpu, cpu_util(0, &facts, None, None, Boost::None)) {
                return overutilized;
            }
            if self.gates.profile.proposals.push_eas {
                facts.rq.uclamp_min = 0;
            }
        }
        cpu_overutilized(&facts, self.uclamp_used, self.gates.profile.uclamp_fit)
    }
}
