//! Where the engine asks a governor or a placement from outside (see `hooks`).

use opplab_kernel::cpufreq::facts::{PolicyFacts, SugovOutcome};
use opplab_kernel::cpufreq::freq_table::{Relation, resolve_freq};
use opplab_kernel::cpufreq::schedutil::{SCHED_CPUFREQ_IOWAIT, cpu_bw_dl};
use opplab_kernel::pelt::HalfLife;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, PlacementRule, Sink};

use crate::cpufreq::freq_policy::Governor;
use crate::ids::{CpuId, PolicyId, TaskId};
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::hooks::{GovernorCpu, GovernorFacts, PlacementCpu, PlacementFacts};
use crate::run::task::Class;
use crate::sched::rq_facts::{cfs_util_est, cpu_times, cpu_util_cfs, rq_facts};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The scheduler reports to a governor of the user's own.
    pub(crate) fn custom_update_util(&mut self, index: PolicyId, cpu: CpuId, flags: u32) {
        let state = &self.policies[index];
        if self.error.is_some() || !(self.driver.dvfs_possible_from_any_cpu || state.cpus.contains(&self.here)) {
            return;
        }
        let Governor::Custom(custom) = &state.governor else { return };
        let cpus = state.cpus.iter().map(|&member| {
            let own = &self.cpus[member];
            let rq = rq_facts(own, &self.gates, self.uclamp_used);
            GovernorCpu {
                cpu: member.0,
                capacity: own.capacity,
                util_cfs: cpu_util_cfs(own, &self.gates, false),
                util_cfs_boost: cpu_util_cfs(own, &self.gates, true),
                util_rt: rq.util_rt,
                util_dl: rq.util_dl,
                util_irq: rq.util_irq,
                uclamp_min: rq.uclamp_min,
                uclamp_max: rq.uclamp_max,
                uclamp_used: rq.uclamp_used,
                rt_runnable: rq.rt_runnable,
                nr_running: own.nr_running,
                idle_calls: own.idle_calls,
                bw_dl: cpu_bw_dl(rq.dl_running_bw),
                times: cpu_times(own, self.now),
            }
        });
        let policy = PolicyFacts {
            cur_khz: state.cur_khz,
            freq_ref_khz: self.arch_scale_freq_ref(state.cluster),
            freq_invariant: self.gates.freq_invariant,
            can_update: true,
        };
        let facts = GovernorFacts {
            time_ns: self.cpus[cpu].clk.clock.saturating_sub(BOOT_NS),
            cpu: cpu.0,
            iowait: flags & SCHED_CPUFREQ_IOWAIT != 0,
            cpus: cpus.collect(),
            cur_khz: state.cur_khz,
            requested_khz: custom.requested_khz,
            min_khz: custom.limits.min_khz,
            max_khz: custom.limits.max_khz,
            freq_ref_khz: self.gates.sugov.capacity_ref_freq(&policy, custom.cpuinfo_max_khz),
            table_khz: custom.table_khz.clone(),
            freq_invariant: self.gates.freq_invariant,
            rate_limit_us: custom.rate_limit_us,
        };
        let Some(hooks) = &mut self.hooks else { return };
        let wanted = match hooks.freq_khz(&facts) {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return,
            Err(message) => return self.fail(message),
        };
        let own = &self.cpus[cpu];
        let boost = self.gates.sugov.runnable_boost;
        let (util, max) = (cpu_util_cfs(own, &self.gates, boost) as u32, own.capacity as u32);
        let fast_switch = self.driver.fast_switch;
        let Governor::Custom(custom) = &mut self.policies[index].governor else { return };
        let khz = resolve_freq(custom.table.as_ref(), wanted, custom.limits, Relation::L, true);
        let prev_khz = std::mem::replace(&mut custom.requested_khz, khz);
        if S::DECISIONS {
            let policy_cpu = self.policies[index].cpus[0].0;
            let outcome = if khz == prev_khz { SugovOutcome::Unchanged } else { SugovOutcome::Requested } as u8;
            let (util, max_cap) = self.hooks.as_mut().and_then(|hooks| hooks.reason()).unwrap_or((0, 0));
            self.record(Decision::Custom { policy_cpu, cpu: cpu.0, outcome, util, max_cap, prev_khz, next_khz: khz });
        }
        if khz == prev_khz {
            return;
        }
        let Governor::Custom(custom) = &mut self.policies[index].governor else { return };
        let queue = !fast_switch && !std::mem::replace(&mut custom.work_in_progress, true);
        if fast_switch {
            let khz = self.passive_khz(index, khz, Relation::L);
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util, max });
            self.fast_switch(index, khz);
        } else if queue {
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util, max });
            self.queue_sugov_work(index);
        }
    }

    /// The CPU that the user's placement policy chooses for a fair task.
    #[inline]
    pub(crate) fn select_task_rq_custom(
        &mut self,
        task: TaskId,
        prev_cpu: CpuId,
        sync: bool,
        fork: bool,
    ) -> Option<(CpuId, PlacementRule)> {
        if self.hooks.is_none() { None } else { self.select_task_rq_hooked(task, prev_cpu, sync, fork) }
    }

    #[inline(never)]
    fn select_task_rq_hooked(
        &mut self,
        task: TaskId,
        prev_cpu: CpuId,
        sync: bool,
        fork: bool,
    ) -> Option<(CpuId, PlacementRule)> {
        if self.error.is_some() || !self.hooks.as_ref().is_some_and(|hooks| hooks.places()) {
            return None;
        }
        if !fork {
            self.sync_entity_load_avg(task, prev_cpu);
        }
        let state = &self.tasks[task];
        if state.class != Class::Fair || self.cpu_sets.is_single(state.allowed) {
            return None;
        }
        let allowed = self.cpu_sets.cpus(state.allowed);
        let waker = self.cpus[self.here].curr;
        let cpus = self.cpus.iter().enumerate().map(|(cpu, own)| PlacementCpu {
            cpu: cpu as u32,
            capacity: own.capacity,
            capacity_of: own.capacity_of,
            util_avg: own.cfs.avg.util_avg,
            util_est: cfs_util_est(own, &self.gates),
            nr_running: own.nr_running,
            idle: own.is_idle(),
            khz: self.granted_khz(CpuId::of(cpu)),
            allowed: allowed.contains(cpu),
            llc: self.topology.llc_of[cpu].0,
        });
        let facts = PlacementFacts {
            time_ns: self.now - BOOT_NS,
            task: task.0,
            name: self.task_name(task),
            fork,
            prev_cpu: prev_cpu.0,
            waker_cpu: self.here.0,
            waker: (waker != TaskId::IDLE).then_some(waker.0),
            sync: sync && !self.in_interrupt,
            util_avg: state.sa.util_avg,
            util_est: self.task_util_est(task),
            cpus: cpus.collect(),
        };
        let chosen = self.hooks.as_mut()?.select_cpu(&facts);
        match chosen {
            Ok(Some(cpu)) if facts.cpus.get(cpu as usize).is_some_and(|own| own.allowed) => {
                Some((CpuId(cpu), PlacementRule::Custom))
            }
            Ok(Some(cpu)) => {
                let able: Vec<u32> = facts.cpus.iter().filter(|own| own.allowed).map(|own| own.cpu).collect();
                self.fail(format!("task {:?} may not run on CPU {cpu}, only on {able:?}", facts.name));
                None
            }
            Ok(None) => None,
            Err(message) => {
                self.fail(message);
                None
            }
        }
    }
}
