//! Android's energy-aware scheduling before mainline's in the engine: the overutilised flag of
//! each scheduling domain, and placement (kernel/sched/fair.c of msm-4.14).
//!
//! A domain is named by its first CPU and the number of its CPUs. A cluster of one CPU is a domain without balance: what
//! would be noted there is noted one level up.

use opplab_kernel::eas::{Boost, EasExplanation, EasFacts, EasTask, cpu_util};
use opplab_kernel::eas_groups::{CAPACITY_MARGIN_UP, GroupCpu, cpu_overutilized, find_energy_efficient_cpu};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::balance_env::IdleType;
use opplab_kernel::sched::domains::{SD_ASYM_CPUCAPACITY, SD_BALANCE_FORK};
use opplab_kernel::sched::group::DomainView;
use opplab_model::event::{PlacementRule, Sink};

use crate::ids::{CpuId, CpuSetId, TaskId};
use crate::run::engine::Engine;

/// A domain's name: its first CPU and how many it has.
type DomainKey = (usize, u32);

fn key(view: &DomainView<'_>) -> DomainKey {
    (view.span.first().unwrap_or(0), view.span_weight)
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    fn group_cpu(&self, cpu: usize, task: Option<&EasTask>) -> GroupCpu {
        let facts = self.eas_facts(CpuSetId::ALL).cpu(cpu);
        let state = &self.cpus[cpu];
        let is_idle = state.is_idle() && cpu != self.here.index();
        GroupCpu {
            util: cpu_util(cpu, &facts, None, None, Boost::None),
            util_without: cpu_util(cpu, &facts, task, None, Boost::None),
            capacity: state.capacity_of,
            capacity_orig: state.capacity,
            idle_state: is_idle.then_some(state.idle.state),
        }
    }

    /// fair.c:cpu_overutilized(), msm-4.14.
    fn cpu_overutilized_groups(&self, cpu: usize) -> bool {
        cpu_overutilized(self.group_cpu(cpu, None).util, self.cpus[cpu].capacity)
    }

    fn domain_key(&self, cpu: CpuId, level: usize) -> Option<DomainKey> {
        self.topology.domains.view(cpu.index(), level).map(|view| key(&view))
    }

    fn is_sd_overutilized(&self, domain: DomainKey) -> bool {
        self.sd_overutilized.contains(&domain)
    }

    /// Energy may decide, and each domain has its flag.
    pub(crate) fn has_domain_flags(&self) -> bool {
        self.gates.sd_overutilized && self.eas.is_some()
    }

    /// fair.c:rebalance_domains(), msm-4.14: periodic passes look at overutilised domains only.
    pub(crate) fn leaves_to_energy(&self, cpu: CpuId, level: usize) -> bool {
        self.has_domain_flags() && self.domain_key(cpu, level).is_some_and(|domain| !self.is_sd_overutilized(domain))
    }

    fn set_sd_overutilized(&mut self, domain: DomainKey, overutilized: bool) {
        let wanted = overutilized && !self.case.policy.no_overutilized;
        match self.sd_overutilized.iter().position(|&other| other == domain) {
            Some(place) if !wanted => drop(self.sd_overutilized.swap_remove(place)),
            None if wanted => self.sd_overutilized.push(domain),
            _ => {}
        }
        // What the run reports is the state of the domain that has all CPUs.
        if domain.1 as usize == self.cpus.len() {
            self.set_overutilized(wanted);
        }
    }

    /// fair.c:update_overutilized_status(), msm-4.14: at wake-ups and ticks; sets, never clears.
    pub(crate) fn check_update_sd_overutilized(&mut self, cpu: CpuId) {
        if self.cpu_overutilized_groups(cpu.index())
            && let Some(domain) = self.domain_key(cpu, 0)
        {
            self.set_sd_overutilized(domain, true);
        }
    }

    /// fair.c:update_sd_lb_stats(), msm-4.14: the flags as a pass over a domain leaves them. Gives whether loads are to be
    /// balanced there rather than energy (find_busiest_group(): a newly idle CPU may still pull from its own cluster, and
    /// the smallest ones from others).
    pub(crate) fn sd_balances(&mut self, cpu: CpuId, level: usize, idle: IdleType) -> bool {
        let domains = std::rc::Rc::clone(&self.topology.domains);
        let Some(view) = domains.view(cpu.index(), level) else { return true };
        let over: Vec<usize> = view.span.iter().filter(|&other| self.cpu_overutilized_groups(other)).collect();
        self.set_sd_overutilized(key(&view), !over.is_empty());
        let parents = (level + 1..domains.n_levels(cpu.index())).filter_map(|above| domains.view(cpu.index(), above));
        let misfit = over.iter().any(|&other| self.cpus[other].misfit_task_load > 0);
        for (above, parent) in parents.enumerate() {
            let (util, capacity) = view.span.iter().fold((0u64, 0u64), |(util, capacity), other| {
                (util + self.group_cpu(other, None).util, capacity + self.cpus[other].capacity_of)
            });
            let full = above == 0 && capacity.saturating_mul(1024) < util.saturating_mul(CAPACITY_MARGIN_UP);
            if full || (misfit && parent.has(SD_ASYM_CPUCAPACITY)) {
                self.set_sd_overutilized(key(&parent), true);
            }
        }
        let least = self.cpus.iter().map(|other| other.capacity).min().unwrap_or(0);
        let pulls = idle == IdleType::NewlyIdle && (!view.has(SD_ASYM_CPUCAPACITY) || self.cpus[cpu].capacity == least);
        !over.is_empty() || pulls
    }

    /// The energy-aware part of fair.c:select_task_rq_fair(), msm-4.14; `None`: place it as without energy.
    pub(crate) fn place_by_groups(&mut self, task: TaskId, prev: CpuId) -> Option<(CpuId, PlacementRule)> {
        // wake_energy(): not if the cluster of the previous CPU is overutilised; one CPU alone is no such domain.
        let is_alone = self.topology.llc_size[self.topology.llc_of[prev]] == 1;
        let lowest = self.domain_key(prev, 0)?;
        if !is_alone && self.is_sd_overutilized(lowest) {
            return None;
        }
        let eas_task = self.eas_task(task, prev);
        let task_util = eas_task.util_avg.max(eas_task.util_est.into());
        if task_util == 0 {
            return None;
        }
        let here = self.here;
        let domains = std::rc::Rc::clone(&self.topology.domains);
        let views = (0..domains.n_levels(here.index())).filter_map(|level| domains.view(here.index(), level));
        let widest = views.rev().find(|view| view.span.contains(prev.index()) && !self.is_sd_overutilized(key(view)));
        let Some(view) = widest else {
            return Some((self.find_idlest(task, here, SD_BALANCE_FORK), PlacementRule::Idlest));
        };
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        let groups = self.eas.as_ref()?.groups.as_ref()?;
        let mut seen = EasExplanation::default();
        let cpu = find_energy_efficient_cpu(
            groups,
            prev.index(),
            task_util,
            |cpu| self.group_cpu(cpu, Some(&eas_task)),
            |cpu| allowed.contains(cpu) && view.span.contains(cpu),
            S::DECISIONS.then_some(&mut seen),
        );
        Some((CpuId::of(cpu), PlacementRule::Eas))
    }
}
