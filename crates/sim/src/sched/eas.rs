//! Energy-aware placement in the engine: which energy model the kernel was given, and its facts at a wake-up.

use opplab_kernel::cpufreq::cppc::{CppcPerfCaps, artificial_em, squeeze_efficiency_classes};
use opplab_kernel::eas::{
    EasCpu, EasExplanation, EasFacts, EasTask, cpu_overutilized, cpu_util, find_energy_efficient_cpu,
};
use opplab_kernel::eas_groups::ClusterEnergy;
use opplab_kernel::energy_model::{EmPerfDomain, EmPerfState, em_create_perf_table};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::placement::{Clamps, CpuCapacity};
use opplab_model::decision::{Decision, NONE};
use opplab_model::event::{Sink, TaskIdx};
use opplab_model::machine::{Cpufreq, Machine};
use opplab_model::policy::{EnergyModelSource, Policy};

use crate::CaseError;
use crate::cpufreq::policy::{cfs_util_est, rq_facts};
use crate::run::engine::{Cpu, Engine};
use crate::run::gates::{Gates, UtilEst};
use crate::sched::eas_groups::group_energies;
use crate::sched::topology::Topology;

/// The root domain's performance domains; there only while energy-aware scheduling runs.
pub(crate) struct EasState {
    /// In the kernel's order: the domain of the highest first CPU comes first (topology.c:build_perf_domains()).
    pub(crate) domains: Vec<EmPerfDomain>,
    /// The energy data of scheduling groups, where the kernel compares those.
    pub(crate) groups: Option<Vec<ClusterEnergy>>,
}

impl EasState {
    /// The state that the kernel reaches at boot, or `None` if it does not start energy-aware scheduling
    /// (topology.c:sched_is_eas_possible(): asymmetric capacities, no SMT, invariance, schedutil, an energy model).
    ///
    /// # Errors
    /// [`CaseError`] if the energy model that the policy names can not be made for this machine.
    pub(crate) fn new(
        machine: &Machine,
        driver: &Cpufreq,
        policy: &Policy,
        gates: &Gates,
        topology: &Topology,
    ) -> Result<Option<Self>, CaseError> {
        let possible = policy.eas
            && topology.asym.is_some()
            && !topology.smt_active
            && gates.freq_invariant
            && gates.eas.is_some()
            && policy.governor == "schedutil";
        if !possible || policy.energy_model == EnergyModelSource::None {
            return Ok(None);
        }
        let raw: Vec<u8> = machine.clusters.iter().map(|cluster| cluster.efficiency_class as u8).collect();
        let classes = squeeze_efficiency_classes(&raw);
        let mut domains = Vec::new();
        for (index, cluster) in machine.clusters.iter().enumerate() {
            let failed = |reason: String| CaseError(format!("energy model of cluster {}: {reason}", cluster.name));
            let states = match policy.energy_model {
                EnergyModelSource::Artificial => {
                    // Equal classes: the kernel registers no model, and there is no energy-aware scheduling.
                    let Some(classes) = &classes else { return Ok(None) };
                    let caps = cluster.cppc.ok_or_else(|| failed(String::from("it has no CPPC registers")))?;
                    let caps = CppcPerfCaps {
                        lowest_perf: caps.lowest_perf,
                        nominal_perf: caps.nominal_perf,
                        highest_perf: caps.highest_perf,
                        lowest_freq_mhz: caps.lowest_freq_mhz,
                        nominal_freq_mhz: caps.nominal_freq_mhz,
                        dmi_max_khz: 0,
                    };
                    let em = artificial_em(&caps, cluster.capacity, classes[index]);
                    em.map_err(|error| failed(error.to_string()))?.states
                }
                _ => {
                    let points: Vec<(u64, u64)> =
                        cluster.opps.iter().map(|opp| (u64::from(opp.khz), opp.power_uw)).collect();
                    em_create_perf_table(&points, cluster.capacity.into(), gates.em)
                        .map_err(|error| failed(error.to_string()))?
                }
            };
            domains.push(EmPerfDomain {
                states,
                cpus: cluster.cpus.iter().map(|&cpu| cpu as usize).collect(),
                skip_inefficient: driver.freq_table,
                form: gates.em,
            });
        }
        if policy.reversed_energy_model {
            reverse_costs(&mut domains);
        }
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.cpus.first().copied()));
        let groups = gates.eas_groups.then(|| group_energies(machine, &domains, policy.energy_model));
        Ok(Some(Self { domains, groups }))
    }
}

/// The dearest state becomes the cheapest.
fn reverse_costs(domains: &mut [EmPerfDomain]) {
    let costs = || domains.iter().flat_map(|domain: &EmPerfDomain| domain.states.iter().map(|state| state.cost));
    let sum = costs().max().unwrap_or(0) + costs().min().unwrap_or(0);
    for state in domains.iter_mut().flat_map(|domain| domain.states.iter_mut()) {
        let EmPerfState { cost, inefficient, .. } = state;
        *cost = sum - *cost;
        *inefficient = false;
    }
}

/// What find_energy_efficient_cpu() wants to know.
pub(crate) struct Facts<'a> {
    cpus: &'a [Cpu],
    uclamp_used: bool,
    gates: &'a Gates,
    allowed: CpuSet<'a>,
}

fn eas_cpu(cpu: &Cpu, gates: &Gates, uclamp_used: bool) -> EasCpu {
    EasCpu {
        rq: rq_facts(cpu, gates, uclamp_used),
        capacity: CpuCapacity { orig: cpu.capacity, of: cpu.capacity_of, hw_pressure: 0, cpufreq_pressure: 0 },
        util_avg: cpu.cfs.avg.util_avg,
        runnable_avg: cpu.cfs.avg.runnable_avg,
        util_est: cfs_util_est(cpu, gates),
        uclamp_idle: cpu.clamps.idle,
    }
}

impl EasFacts for Facts<'_> {
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
    /// energies are told and `rule` is the reason.
    pub(crate) fn find_energy_efficient_cpu(&mut self, task: TaskIdx, prev: u32, rule: &mut u8) -> Option<u32> {
        let eas_task = self.eas_task(task, prev);
        let facts = self.eas_facts(self.tasks[task as usize].allowed);
        let (domains, gates) = (&self.eas.as_ref()?.domains, self.gates.eas?);
        if !S::DECISIONS {
            let cpu = find_energy_efficient_cpu(domains, &eas_task, self.overutilized, &facts, gates, &mut ());
            return cpu.map(|cpu| cpu as u32);
        }
        let mut seen = EasExplanation::default();
        let cpu = find_energy_efficient_cpu(domains, &eas_task, self.overutilized, &facts, gates, &mut seen);
        let decision = self.nr_decisions;
        let records: Vec<Decision> = seen
            .candidates
            .iter()
            .map(|candidate| {
                let own = facts.cpu(candidate.cpu);
                Decision::Candidate {
                    decision,
                    cpu: candidate.cpu as u32,
                    domain: candidate.domain as u32,
                    util: cpu_util(candidate.cpu, &own, Some(&eas_task), Some(candidate.cpu), false) as u32,
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
        cpu.map(|cpu| cpu as u32)
    }

    /// A waking task as energy-aware placement sees it.
    pub(crate) fn eas_task(&self, task: TaskIdx, prev: u32) -> EasTask {
        let state = &self.tasks[task as usize];
        let clamps = self.task_clamps(task).unwrap_or(Clamps::NONE);
        EasTask {
            prev_cpu: prev as usize,
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
    pub(crate) fn eas_facts(&self, allowed: u32) -> Facts<'_> {
        Facts {
            cpus: &self.cpus,
            uclamp_used: self.uclamp_used,
            gates: &self.gates,
            allowed: self.masks[allowed as usize].as_set(),
        }
    }

    /// fair.c:cpu_overutilized().
    pub(crate) fn cpu_overutilized(&self, cpu: u32) -> bool {
        cpu_overutilized(&eas_cpu(&self.cpus[cpu as usize], &self.gates, self.uclamp_used), self.uclamp_used)
    }
}
