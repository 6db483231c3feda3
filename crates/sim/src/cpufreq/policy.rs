//! cpufreq in the engine: policies, governors, fast and slow switches, the sugov kthreads.
//!
//! A fast switch is made where the governor decides. A slow switch wakes the policy's kthread, a special deadline
//! task: it runs, asks the hardware and sleeps until the hardware has answered with the new clock. The kernel knows of that
//! clock once the thread runs again.

use std::any::Any;

use opplab_kernel::cpufreq::facts::Request;
use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, SugovFacts, SugovOutcome};
use opplab_kernel::cpufreq::facts::{CpuTimes, SampleNote};
use opplab_kernel::cpufreq::freq_table::{Relation, cpufreq_pressure};
use opplab_kernel::cpufreq::governor::{self as kernel, Report, Worker};
use opplab_kernel::cpufreq::schedutil::{SCHED_CPUFREQ_IOWAIT, SugovPolicy};
use opplab_kernel::freq_invariance::scale_freq_tick;
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::CpufreqPressure;
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;
use opplab_model::decision::{Decision, FreqContext};
use opplab_model::event::{CpuIdx, Event, Sink, UtilReport};
use opplab_model::machine::InvarianceSource;
use rand_core::Rng;

use crate::cpufreq::freq_max::Tick;
use crate::cpufreq::freq_policy::Governor;
use crate::ids::{ClusterId, CpuId, PolicyId, TaskId};
use crate::run::cpu::{BOOT_NS, Cpu};
use crate::run::engine::Engine;
use crate::run::gates::Gates;
use crate::run::task::{Doing, Life};
use crate::sched::rq_facts::{cpu_times, cpu_util_cfs, dl_running_bw, rq_facts};

/// The governor's view of a policy's CPUs.
pub(crate) struct View<'a> {
    now: u64,
    cpus: &'a [Cpu],
    uclamp_used: bool,
    members: &'a [CpuId],
    gates: &'a Gates,
}

impl SugovFacts for View<'_> {
    #[inline(always)]
    fn cpu(&self, index: usize) -> CpuFacts {
        let cpu = &self.cpus[self.members[index].index()];
        CpuFacts {
            rq: rq_facts(cpu, self.gates, self.uclamp_used),
            util_cfs: cpu_util_cfs(cpu, self.gates, false),
            util_cfs_boost: cpu_util_cfs(cpu, self.gates, true),
            idle_calls: cpu.idle_calls,
        }
    }

    #[inline]
    fn dl_running_bw(&self, index: usize) -> u64 {
        dl_running_bw(&self.cpus[self.members[index].index()], self.gates)
    }
}

impl kernel::View for View<'_> {
    fn times(&self, index: usize) -> CpuTimes {
        cpu_times(&self.cpus[self.members[index].index()], self.now)
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// `arch_scale_freq_ref()`: x86 has none.
    pub(crate) fn arch_scale_freq_ref(&self, cluster: ClusterId) -> u32 {
        match self.case.machine.invariance {
            InvarianceSource::FreqChange => self.topology.reference_khz[cluster],
            InvarianceSource::CountersAtTick | InvarianceSource::Absent => 0,
        }
    }

    /// cpufreq.c:cpufreq_update_pressure(): the policy has other limits.
    pub(crate) fn cpufreq_update_pressure(&mut self, id: PolicyId) {
        if self.gates.profile.cpufreq_pressure == CpufreqPressure::Absent {
            return;
        }
        let policy = &self.policies[id];
        let capacity = self.cpus[policy.cpus[0]].capacity;
        let pressure = cpufreq_pressure(capacity, policy.limits.max_khz, self.arch_scale_freq_ref(policy.cluster));
        for &cpu in &policy.cpus {
            self.cpus[cpu].cpufreq_pressure = pressure;
        }
    }

    /// kernel/sched/sched.h:cpufreq_update_util(): the scheduler reports a change of `cpu`'s utilisation.
    pub(crate) fn cpufreq_update_util(&mut self, cpu: CpuId, flags: u32) {
        let index = self.cpus[cpu].policy;
        if self.journal.wants_reports() {
            self.report_util(index, cpu, flags);
        }
        let intel_flags =
            if self.gates.profile.proposals.intel_iowait_boost { flags } else { flags & !SCHED_CPUFREQ_IOWAIT };
        let (slot, worker) = match &mut self.policies[index].governor {
            Governor::Kernel { worker: Worker::Nobody, .. } | Governor::Fixed(_) => return,
            Governor::Kernel { worker, state } => (state, *worker),
            Governor::Custom(_) => return self.custom_update_util(index, cpu, flags),
            Governor::Pstate(_) => return self.pstate_update_util(index, cpu, intel_flags),
            Governor::Hwp(_) => return self.hwp_update_util(index, cpu, intel_flags),
        };
        let Some(mut governor) = slot.take() else { return };
        let policy = &self.policies[index];
        let can_update = self.driver.dvfs_possible_from_any_cpu || policy.cpus.contains(&self.here);
        let member = policy.cpus.iter().position(|&other| other == cpu).unwrap_or(0);
        let facts = PolicyFacts {
            cur_khz: policy.cur_khz,
            freq_ref_khz: self.arch_scale_freq_ref(policy.cluster),
            freq_invariant: self.gates.freq_invariant,
            can_update,
        };
        let view = self.view(index);
        let report = Report { time_ns: self.cpus[cpu].clk.clock, cpu: member, flags, policy: facts };
        let mut record = None;
        let request = if S::DECISIONS {
            // What it would have been without the rate limit.
            let wanted = governor.update_unlimited(&report, &view);
            let prev_khz = governor.wanted_khz();
            let wanted_khz = wanted.as_ref().map_or(0, |wanted| wanted.next_khz);
            let wait_ns = governor.next_change_ns(wanted_khz).saturating_sub(report.time_ns);
            let mut seen = None;
            let request = governor.update_util(&report, &view, Some(&mut seen));
            let members: Vec<u32> = view.members.iter().map(|cpu| cpu.0).collect();
            let (form, iowait) = (self.gates.sugov.util, flags & SCHED_CPUFREQ_IOWAIT != 0);
            let context = FreqContext { members: &members, form, iowait, prev_khz, wait_ns };
            record = wanted.zip(seen).map(|(wanted, seen)| Decision::freq(&context, &wanted, &seen));
            if seen.is_some_and(|seen| seen.outcome == SugovOutcome::Requested) {
                self.policies[index].decided_ns = Some(self.now);
            }
            request
        } else {
            // Reports are many, and most go to schedutil: its questions are answered in line.
            match (&mut *governor as &mut dyn Any).downcast_mut::<SugovPolicy>() {
                Some(sugov) => sugov.update(report.time_ns, member, flags, &facts, &view),
                None => governor.update_util(&report, &view, None),
            }
        };
        let request = request.map(|request| (request, governor.wanted_khz()));
        if let Governor::Kernel { state, .. } = &mut self.policies[index].governor {
            *state = Some(governor);
        }
        if let Some(record) = record {
            self.record(record);
        }
        let Some((request, next_khz)) = request else { return };
        let util = cpu_util_cfs(&self.cpus[cpu], &self.gates, self.gates.sugov.runnable_boost);
        let max = self.cpus[cpu].capacity;
        match request {
            Request::FastSwitch { freq_khz } => {
                let freq_khz = self.passive_khz(index, freq_khz, Relation::L);
                self.emit(Event::FreqRequest { cpu: cpu.0, khz: freq_khz, util: util as u32, max: max as u32 });
                self.fast_switch(index, freq_khz);
            }
            Request::QueueWork if worker == Worker::Kworker => self.queue_sugov_work(index),
            Request::QueueWork => {
                self.emit(Event::FreqRequest { cpu: cpu.0, khz: next_khz, util: util as u32, max: max as u32 });
                self.queue_sugov_work(index);
            }
            Request::AdjustPerf { min_perf, target_perf, capacity, .. } => {
                self.adjust_perf(index, cpu, min_perf, target_perf, capacity);
            }
        }
    }

    /// Keeps a report, and what a governor would see, whichever governor it is.
    fn report_util(&mut self, index: PolicyId, cpu: CpuId, flags: u32) {
        let view = self.view(index);
        let members: Vec<(CpuIdx, CpuFacts)> =
            view.members.iter().enumerate().map(|(member, cpu)| (cpu.0, view.cpu(member))).collect();
        let clock_ns = self.cpus[cpu].clk.clock.saturating_sub(BOOT_NS);
        let report = UtilReport { here: self.here.0, cpu: cpu.0, flags, clock_ns, members: &members };
        self.journal.report(self.now - BOOT_NS, &report);
    }

    pub(crate) fn view(&self, policy: PolicyId) -> View<'_> {
        View {
            now: self.now,
            cpus: &self.cpus,
            uclamp_used: self.uclamp_used,
            members: &self.policies[policy].cpus,
            gates: &self.gates,
        }
    }

    /// dbs_work_handler(): takes the sample; the frequency to change to, if it is another.
    fn dbs_work_handler(&mut self, index: PolicyId, cpu: CpuId) -> Option<u32> {
        let prev_khz = self.policies[index].cur_khz;
        let (wanted, note) = self.governor_work(index)?;
        if S::DECISIONS
            && let Some(note) = note
        {
            let (policy_cpu, next_khz) = (self.policies[index].cpus[0], wanted.unwrap_or(prev_khz));
            self.record(Decision::sample(policy_cpu.0, cpu.0, note, prev_khz, next_khz));
        }
        if let Some(khz) = wanted {
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util: 0, max: 0 });
        }
        wanted
    }

    /// The work that a governor queued: the frequency to set, if any, and what a sample was decided by; `None` of a governor
    /// that queues none.
    fn governor_work(&mut self, index: PolicyId) -> Option<(Option<u32>, Option<SampleNote>)> {
        let Governor::Kernel { state, .. } = &mut self.policies[index].governor else { return None };
        let mut governor = state.take()?;
        let khz = governor.work(self.policies[index].cur_khz, &self.view(index));
        let (note, relation) = (governor.sample(), governor.relation());
        if let Governor::Kernel { state, .. } = &mut self.policies[index].governor {
            *state = Some(governor);
        }
        Some((khz.map(|khz| self.passive_khz(index, khz, relation)), note))
    }

    /// cpufreq_driver_fast_switch(): the driver is called where the governor decides.
    pub(crate) fn fast_switch(&mut self, policy: PolicyId, khz: u32) {
        self.policies[policy].answered_khz = None;
        self.know_frequency(policy, khz);
        self.begin_switch(policy, khz);
    }

    /// irq_work_queue(): the CPU interrupts itself when it is done with its run queue.
    pub(crate) fn queue_sugov_work(&mut self, policy: PolicyId) {
        self.irq_work.push_back((self.here, policy));
    }

    /// schedutil's sugov_irq_work() and the sampling governors' dbs_irq_work() where they are due: wake the policies' threads.
    #[inline]
    pub(crate) fn run_irq_work(&mut self) {
        if !self.irq_work.is_empty() {
            self.run_all_irq_work();
        }
    }

    #[cold]
    fn run_all_irq_work(&mut self) {
        while let Some((cpu, policy)) = self.irq_work.pop_front() {
            let state = &self.policies[policy];
            let samples = state.governor.samples();
            let Some(kthread) = (if samples { state.kworker } else { state.kthread }) else { continue };
            self.bind_worker(kthread, cpu);
            let here = std::mem::replace(&mut self.here, cpu);
            let was = std::mem::replace(&mut self.in_interrupt, true);
            let state = &mut self.tasks[kthread];
            state.dead_children += 1;
            if matches!(state.life, Life::Sleeping) && state.stage == 0 {
                self.try_to_wake_up(kthread, false);
            }
            (self.here, self.in_interrupt) = (here, was);
        }
    }

    /// One step of a sugov kthread, or of the kworker that takes samples; `true` when it now takes time or sleeps.
    /// `dead_children` counts queued work.
    pub(crate) fn sugov_step(&mut self, kthread: TaskId, policy: PolicyId) -> bool {
        match self.tasks[kthread].stage {
            0 if self.tasks[kthread].dead_children == 0 => {
                self.tasks[kthread].life = Life::Sleeping;
                let cpu = self.tasks[kthread].cpu;
                self.resched_cpu(cpu);
                true
            }
            0 => {
                self.tasks[kthread].dead_children = 0;
                self.tasks[kthread].stage = 1;
                let work_ns = self.case.machine.costs.sugov_work_ns;
                self.tasks[kthread].doing = Doing::Wall { left_ns: work_ns };
                work_ns > 0
            }
            1 if self.policies[policy].kworker == Some(kthread) => {
                self.tasks[kthread].stage = 0;
                let cpu = self.tasks[kthread].cpu;
                // cpufreq_governor.c:gov_cancel_work(): a governor that came meanwhile has no sample.
                if self.policies[policy].governor.samples()
                    && let Some(khz) = self.dbs_work_handler(policy, cpu)
                {
                    self.fast_switch(policy, khz);
                }
                false
            }
            1 => {
                let state = &mut self.policies[policy];
                let cur = state.cur_khz;
                let next = match &mut state.governor {
                    Governor::Custom(custom) => custom.work(cur).map(|khz| self.passive_khz(policy, khz, Relation::L)),
                    _ => self.governor_work(policy).and_then(|(khz, _)| khz),
                };
                self.tasks[kthread].stage = 0;
                let Some(khz) = next else { return false };
                if self.driver.switch_ns == 0 {
                    let state = &mut self.policies[policy];
                    state.switching_for_ns = state.decided_ns.take();
                    self.slow_switch_done(policy, khz);
                    return false;
                }
                self.tasks[kthread].stage = 2;
                self.tasks[kthread].life = Life::Sleeping;
                self.begin_switch(policy, khz);
                let cpu = self.tasks[kthread].cpu;
                self.resched_cpu(cpu);
                true
            }
            _ => {
                // cpufreq.c:cpufreq_freq_transition_end(), v6.12.
                self.tasks[kthread].stage = 0;
                if let Some(khz) = self.policies[policy].answered_khz.take() {
                    self.know_frequency(policy, khz);
                }
                false
            }
        }
    }

    /// Programs the hardware; the clock changes after the driver's switch time.
    pub(crate) fn begin_switch(&mut self, policy: PolicyId, khz: u32) {
        let state = &mut self.policies[policy];
        (state.switching_khz, state.switching_for_ns) = (Some(khz), state.decided_ns.take());
        if self.driver.switch_ns == 0 {
            self.carry_out(policy, khz);
        } else {
            let measured = !self.driver.switch_quantiles.is_empty();
            let draw = if measured { self.rng.next_u32() } else { 0 };
            let switch_ns = self.driver.switch_time_ns(draw);
            self.arm_switch(policy, self.now + switch_ns);
        }
    }

    /// The hardware's clock has changed.
    pub(crate) fn switch_done(&mut self, policy: PolicyId) {
        let Some(khz) = self.policies[policy].switching_khz.take() else { return };
        let kthread = self.policies[policy].kthread.filter(|&task| self.tasks[task].stage == 2);
        match kthread {
            None => self.carry_out(policy, khz),
            Some(task) => {
                self.policies[policy].answered_khz = Some(khz);
                self.carry_out(policy, khz);
                // The answer is an interrupt where the kthread slept.
                self.here = self.tasks[task].cpu;
                let cpu = self.here;
                self.interrupt(cpu, crate::run::cpu::Interrupt::SwitchDone(task));
            }
        }
    }

    pub(crate) fn slow_switch_done(&mut self, policy: PolicyId, khz: u32) {
        self.know_frequency(policy, khz);
        self.carry_out(policy, khz);
    }

    /// The kernel learns of the policy's frequency. Run queues' clocks are not updated for it: the time since the last update
    /// of each counts with the new scale (arch_set_freq_scale()).
    fn know_frequency(&mut self, policy: PolicyId, khz: u32) {
        self.policies[policy].cur_khz = khz;
        self.set_freq_scale(policy, khz);
    }

    /// What a driver's frequency becomes: a request to the package, or one to the firmware.
    fn carry_out(&mut self, policy: PolicyId, khz: u32) {
        let state = &mut self.policies[policy];
        state.switching_khz = None;
        match (&state.governor, &state.hwp) {
            (_, None) => self.grant(policy, khz),
            (Governor::Hwp(_), Some(_)) => self.hwp_grant(policy),
            (_, Some(_)) => self.hwp_desire(policy, khz),
        }
        self.policies[policy].switching_for_ns = None;
    }

    /// intel_cpufreq runs at P-states (intel_cpufreq_target(), intel_cpufreq_fast_switch(), v6.12).
    pub(crate) fn passive_khz(&mut self, policy: PolicyId, khz: u32, relation: Relation) -> u32 {
        let state = &mut self.policies[policy];
        let strict = state.governor.is_strict();
        let Some(passive) = &mut state.passive else { return khz };
        // The highest frequency is the highest level, though levels of a hybrid are no whole kHz.
        let is_top = khz >= self.hardware.clusters[state.cluster].top_khz();
        passive.target(khz, if is_top { Relation::L } else { relation }, strict);
        u32::try_from(passive.frequency_khz()).unwrap_or(khz)
    }

    /// arch_set_freq_scale() / topology_set_freq_scale().
    fn set_freq_scale(&mut self, policy: PolicyId, khz: u32) {
        if !self.gates.freq_invariant || self.case.machine.invariance != InvarianceSource::FreqChange {
            return;
        }
        let state = &self.policies[policy];
        let max = u64::from(self.topology.reference_khz[state.cluster]);
        let scale = (u64::from(khz) << 10) / max;
        // While utilisation was scaled itself, the reference was the policy's own highest frequency
        // (drivers/base/arch_topology.c, v4.17); later a boost may be beyond the reference.
        let scale = if self.gates.scaled_contribution { scale.min(SCHED_CAPACITY_SCALE) } else { scale };
        for index in 0..self.policies[policy].cpus.len() {
            let cpu = self.policies[policy].cpus[index];
            self.cpus[cpu].freq_scale = scale;
            self.tell_freq_scale(cpu);
        }
    }

    /// A CPU's frequency scale, and since when its run queue's clock has not been updated.
    pub(crate) fn tell_freq_scale(&mut self, cpu: CpuId) {
        let state = &self.cpus[cpu];
        let open_ns = self.now.saturating_sub(state.clk.clock.max(BOOT_NS));
        self.journal.freq_scale(self.now - BOOT_NS, cpu, state.freq_scale, open_ns);
    }

    /// The hardware is asked for `khz`: it grants what its limits allow.
    pub(crate) fn grant(&mut self, policy: PolicyId, khz: u32) {
        let state = &mut self.policies[policy];
        let wanted = self.hardware.clusters[state.cluster].of_request(khz, self.driver.freq_table);
        if std::mem::replace(&mut state.wanted, wanted) != wanted {
            state.changes += 1;
            if !self.regrant(policy) && S::DECISIONS {
                self.record_grant(policy);
            }
        }
    }

    /// The clock of `cpu`, in kHz.
    pub(crate) fn granted_khz(&self, cpu: CpuId) -> u32 {
        let state = &self.cpus[cpu];
        self.hardware.point(state.cluster, state.opp).khz
    }

    /// The tick reads the counters of an x86 CPU (arch/x86/kernel/cpu/aperfmperf.c:scale_freq_tick(), v6.12).
    pub(crate) fn scale_freq_tick(&mut self, cpu: CpuId) {
        if !self.gates.freq_invariant {
            return;
        }
        self.account_point(cpu);
        let (acnt, mcnt) = self.cpus[cpu].at_points.counters_at_tick();
        let package = self.case.machine.cpus[cpu.index()].package;
        let is_due = self.freq_max.wants_power(package, self.now);
        let tick = Tick {
            cpu,
            cluster: self.cpus[cpu].cluster,
            package,
            now: self.now,
            acnt,
            mcnt,
            energy_fj: is_due.then(|| self.package_energy(package)),
            active_cores: if self.freq_max.wants_cores() { self.active_cores(package) } else { 0 },
        };
        let ratio = self.freq_max.at_tick(&tick);
        if let Some(scale) = scale_freq_tick(acnt, mcnt, ratio)
            && std::mem::replace(&mut self.cpus[cpu].freq_scale, scale) != scale
        {
            self.tell_freq_scale(cpu);
        }
    }

    /// What a package has drawn since the start, in fJ, with its part of what nobody else draws.
    fn package_energy(&mut self, package: u32) -> u128 {
        let (machine, now) = (&self.case.machine, self.now);
        let nr_packages = machine.cpus.iter().map(|cpu| cpu.package + 1).max().unwrap_or(1);
        let floor_uw = machine.floor_uw / u64::from(nr_packages);
        let mut energy_fj = u128::from(floor_uw) * u128::from(now - BOOT_NS);
        for (cluster, spec) in machine.clusters.iter().enumerate() {
            if machine.cpus[spec.cpus[0] as usize].package == package {
                energy_fj += self.clusters[ClusterId::of(cluster)].meter.advance(now);
                energy_fj += spec.cpus.iter().map(|&cpu| self.cpus[CpuId(cpu)].meter.advance(now)).sum::<u128>();
            }
        }
        energy_fj
    }

    /// Cores of a package of which a thread runs something.
    fn active_cores(&self, package: u32) -> u32 {
        let running = self.case.machine.cpus.iter().zip(self.cpus.iter());
        let mut cores: Vec<u32> = running
            .filter(|(spec, cpu)| spec.package == package && !cpu.is_idle())
            .map(|(spec, _)| spec.core)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len() as u32
    }
}
