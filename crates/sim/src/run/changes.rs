//! What somebody changes while the run goes on: limits of the frequency, governors, energy-aware placement, CPUs that are online.
//!
//! A change takes no simulated time: the writer is outside of the run.

use opplab_kernel::cpufreq::freq_table::Relation;
use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::governor::governor_setup;
use opplab_model::policy::Policy;

use crate::CaseError;
use crate::cpufreq::freq_max::FreqMaxRatios;
use crate::cpufreq::freq_policy::{FreqPolicy, Governor, driver_of};
use crate::cpufreq::intel::IntelSetup;
use crate::ids::{CpuId, PolicyId, TaskId};
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::setup::freq_policies;
use crate::run::task::Class;
use crate::run::timers::TimerKind;
use crate::sched::balancer::Balancer;
use crate::sched::eas_model::EasState;
use crate::sched::hybrid::{known_capacities, packing_priorities};
use crate::sched::topology::Topology;

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    /// Makes the next change, if it is due by `time_ns`.
    pub(super) fn change_before(&mut self, time_ns: u64) -> bool {
        let Some(change) = self.case.policy.changes.get(self.changes_done) else { return false };
        let at_ns = BOOT_NS + u64::from(change.at_ms) * 1_000_000;
        if at_ns > time_ns {
            return false;
        }
        self.samples_until(at_ns);
        self.now = at_ns;
        self.changes_done += 1;
        if let Err(error) = self.change_to(&change.policy) {
            self.error.get_or_insert(error);
        }
        self.policy = &change.policy;
        true
    }

    fn change_to(&mut self, policy: &'c Policy) -> Result<(), CaseError> {
        let machine = &self.case.machine;
        let mut driver = driver_of(machine, policy);
        self.intel = IntelSetup::new(machine, &mut driver, policy, &self.gates)?;
        if policy.no_turbo != self.policy.no_turbo {
            self.hardware.set_no_turbo(machine, policy.no_turbo);
            self.freq_max = FreqMaxRatios::new(machine, policy, &self.gates)?;
            for id in self.policies.ids() {
                let state = &mut self.policies[id];
                let setup = governor_setup(machine, &driver, policy, state.cluster.0, state.cpus.len())?;
                if let Governor::Kernel { state: Some(governor), .. } = &mut state.governor {
                    governor.set_cpuinfo(setup.cpuinfo);
                }
                self.regrant(id);
            }
        }
        let custom = self.hooks.as_ref().is_some_and(|hooks| hooks.governs());
        let fresh = freq_policies(machine, policy, &driver, self.intel.as_ref(), &self.gates, &self.hardware, custom)?;
        let ids: Vec<PolicyId> = self.policies.ids().collect();
        let starts = policy.governor != self.policy.governor;
        let tunes = !starts && policy.tunables != self.policy.tunables;
        // These files are of all policies (intel_pstate.c:intel_pstate_update_policies(), v6.12).
        let of_all = |policy: &Policy| (policy.no_turbo, policy.min_perf_pct, policy.max_perf_pct, policy.epp.clone());
        let all = starts || of_all(policy) != of_all(self.policy);
        // A limit that is written anew reaches its policy, also where it binds nothing (cpufreq.c:cpufreq_notifier_max(), v6.12).
        let written =
            |policy: &Policy, name: &str| (policy.scaling_min_freq.of(name), policy.scaling_max_freq.of(name));
        let turns = |cpu: u32| policy.is_online(machine, cpu) != self.policy.is_online(machine, cpu);
        for (id, fresh) in ids.into_iter().zip(fresh) {
            // The governor starts anew when CPUs of its policy go or come
            // (cpufreq.c:__cpufreq_offline(), cpufreq_add_policy_cpu(), v6.12).
            let starts = starts || self.policies[id].cpus.iter().any(|cpu| turns(cpu.0));
            if tunes && !starts {
                self.retune(id, &fresh.governor);
            }
            let name = &machine.clusters[self.policies[id].cluster.index()].name;
            if all || starts || written(policy, name) != written(self.policy, name) {
                self.change_freq_policy(id, fresh, starts);
            }
        }
        if (0..machine.nr_cpus() as u32).any(turns) {
            self.change_cpus(policy);
        }
        self.eas = EasState::new(machine, &driver, policy, &self.gates, &self.topology)?.ok();
        if self.eas.is_none() && self.overutilized.is_set() {
            self.set_overutilized(false);
        }
        self.driver = driver;
        Ok(())
    }

    /// CPUs go or come: domains are built anew, and what ran or was to come on those that go does so elsewhere
    /// (core.c:sched_cpu_deactivate(), timer.c:timers_dead_cpu(), hrtimer.c:hrtimers_cpu_dying(), v6.12).
    fn change_cpus(&mut self, policy: &Policy) {
        let (machine, profile) = (&self.case.machine, &self.gates.profile);
        // The driver looks for threads when it is registered.
        let capacities = known_capacities(machine, &self.case.policy, profile);
        let priorities = packing_priorities(machine, &self.case.policy, self.driver.driver.kind, profile);
        let isolated = self.case.workload.isolated_cpus();
        let topology = Topology::new(machine, policy, profile, &isolated, &capacities, priorities);
        let before = std::mem::replace(&mut self.topology, topology);
        let (hz, jiffies) = (self.case.policy.hz.into(), self.now / self.tick_ns);
        let balancer = Balancer::new(&self.topology, &capacities, hz, jiffies, &self.gates.profile);
        let old = std::mem::replace(&mut self.balancer, balancer);
        (self.balancer.lists, self.balancer.rd_overloaded) = (old.lists, old.rd_overloaded);
        self.cpus.iter_mut().for_each(|cpu| cpu.changed = true);
        self.idle_cpus.forget_caches(self.topology.llc_masks.len());
        self.cpu_sets.update(&self.topology);
        let all: Vec<CpuId> = self.cpus.ids().collect();
        let left = all.iter().copied().find(|&cpu| !self.topology.excluded[cpu]).unwrap_or(CpuId(0));
        self.here = left;
        let watchdog_ns = self.watchdog_period_ns();
        for cpu in all {
            if self.cpus[cpu].tick_stopped && self.cpus[cpu].curr == TaskId::IDLE {
                self.balancer.nohz.nohz_balance_enter_idle(cpu.index());
            }
            match (before.offline[cpu], self.topology.offline[cpu]) {
                (false, true) => {
                    let [own, wheel] = self.cpus[cpu].timers.take_all();
                    for timer in own.into_iter().filter(|timer| timer.kind != TimerKind::Watchdog) {
                        self.cpus[left].timers.add(timer);
                    }
                    wheel.into_iter().for_each(|timer| self.cpus[left].timers.add_to_wheel(timer));
                    self.rearm_timer(cpu);
                    self.rearm_timer(left);
                    self.resched_cpu(cpu);
                }
                (true, false) if watchdog_ns > 0 && !self.topology.nohz_full[cpu] => {
                    self.add_timer(cpu, self.now + watchdog_ns, TimerKind::Watchdog)
                }
                _ => {}
            }
        }
    }

    /// core.c:balance_push(): a CPU that is offline has no tasks; what it would run goes to the first CPU that the task may use.
    #[inline]
    pub(super) fn balance_push(&mut self, cpu: CpuId) {
        if self.topology.offline[cpu] {
            self.push_from_offline(cpu);
        }
    }

    #[cold]
    fn push_from_offline(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].curr;
        if curr != TaskId::IDLE && self.tasks[curr].class == Class::Fair {
            let to = self.cpu_sets.cpus(self.tasks[curr].allowed).first().map_or(self.here, CpuId::of);
            self.push_running(cpu, to);
        }
    }

    /// A governor's tunables were written, which those of `fresh` are: it goes on with them.
    fn retune(&mut self, id: PolicyId, fresh: &Governor) {
        let khz = match (&mut self.policies[id].governor, fresh) {
            (Governor::Kernel { state: own, .. }, Governor::Kernel { state: Some(fresh), .. }) => {
                let Some(mut governor) = own.take() else { return };
                let khz = governor.retune(&**fresh, &self.view(id));
                let relation = governor.relation();
                if let Governor::Kernel { state: own, .. } = &mut self.policies[id].governor {
                    *own = Some(governor);
                }
                khz.map(|khz| (khz, relation))
            }
            (Governor::Custom(own), Governor::Custom(fresh)) => {
                own.rate_limit_us = fresh.rate_limit_us;
                None
            }
            _ => None,
        };
        if let Some((khz, relation)) = khz {
            let khz = self.passive_khz(id, khz, relation);
            self.fast_switch(id, khz);
        }
    }

    /// cpufreq.c:cpufreq_set_policy(): other limits, or another governor, which starts as at boot.
    fn change_freq_policy(&mut self, id: PolicyId, fresh: FreqPolicy, starts: bool) {
        let state = &mut self.policies[id];
        state.limits = fresh.limits;
        (state.passive, state.amd) = (fresh.passive, fresh.amd);
        if let (Some(hwp), Some(fresh)) = (&mut state.hwp, fresh.hwp) {
            hwp.request = fresh.request;
        }
        match (&mut state.governor, fresh.governor) {
            (Governor::Custom(own), Governor::Custom(fresh)) => own.change_limits(*fresh),
            (_, Governor::Kernel { .. }) if !starts => {}
            // The driver knows the P-state that it wrote, and goes on with its samples; the next one heeds the limits
            // (intel_pstate.c:intel_pstate_set_policy(), v6.12).
            (Governor::Pstate(own), Governor::Pstate(fresh)) if !starts => own.limits = fresh.limits,
            (own, Governor::Pstate(mut fresh)) => {
                fresh.current_pstate = fresh.pstate.freq_to_hwp(state.cur_khz as i32, Relation::L);
                *own = Governor::Pstate(fresh);
            }
            (own, fresh) => *own = fresh,
        }
        let (limits, cur_khz) = (state.limits, state.cur_khz);
        self.cpufreq_update_pressure(id);
        let state = &mut self.policies[id];
        let khz = match &mut state.governor {
            Governor::Kernel { state: Some(governor), .. } => {
                let khz = governor.limits(limits, cur_khz);
                khz.map(|khz| (khz, governor.relation()))
            }
            Governor::Kernel { worker: Worker::Nobody, .. } => None,
            Governor::Fixed(khz) => Some((*khz, Relation::L)),
            _ if state.hwp.is_some() => {
                self.hwp_grant(id);
                None
            }
            _ => None,
        };
        // cpufreq_policy_apply_limits().
        let nearest = (limits.clamp(cur_khz), if cur_khz > limits.max_khz { Relation::H } else { Relation::L });
        let samples = matches!(self.policies[id].governor, Governor::Pstate(_));
        let khz = khz.or_else(|| (!limits.contains(cur_khz) && !samples).then_some(nearest));
        if let Some((khz, relation)) = khz.filter(|&(khz, _)| khz != cur_khz) {
            let khz = self.passive_khz(id, khz, relation);
            self.fast_switch(id, khz);
            // cs_limits(): steps go on from the frequency that the driver made of it.
            match &mut self.policies[id].governor {
                Governor::Kernel { worker: Worker::Kworker, state: Some(governor) } => governor.follow(khz),
                Governor::Custom(own) => own.requested_khz = khz,
                _ => {}
            }
        }
        self.start_thread(id);
    }
}
