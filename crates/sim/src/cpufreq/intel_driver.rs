//! intel_pstate in the engine: what the driver does at reports of the scheduler and at looks of the firmware (its setup: `intel`).

use opplab_kernel::cpufreq::facts::SampleNote;
use opplab_kernel::cpufreq::freq_table::Relation;
use opplab_kernel::cpufreq::intel_pstate::{Counters, HwpRequest, SCHED_CPUFREQ_IDLE_PLACEMENT, SCHED_CPUFREQ_IOWAIT};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::NoTurboCpuinfoMax;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, Sink};

use crate::cpufreq::freq_policy::Governor;
use crate::hardware::hwp::Hwp;
use crate::ids::{CpuId, PackageId, PolicyId, TaskId};
use crate::run::accounts::cycles;
use crate::run::engine::Engine;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// What an enqueue on `cpu` reports besides I/O: the task was placed on an idle CPU.
    pub(crate) fn idle_placement_flag(&self, cpu: CpuId) -> u32 {
        let state = &self.cpus[cpu];
        let reports = self.intel.is_some_and(|intel| intel.reports_idle_placement());
        if reports && state.curr == TaskId::IDLE && state.nr_running == 1 { SCHED_CPUFREQ_IDLE_PLACEMENT } else { 0 }
    }

    /// intel_pstate_update_util(): the driver's own governor without HWP. It does not take reports from other CPUs.
    pub(crate) fn pstate_update_util(&mut self, policy: PolicyId, cpu: CpuId, flags: u32) {
        if self.here != cpu {
            return;
        }
        self.account_point(cpu);
        let Some(intel) = self.intel else { return };
        let state = &self.cpus[cpu];
        let base_khz = self.topology.reference_khz[state.cluster];
        let (aperf, mperf) = state.at_points.counters();
        let counters = Counters { aperf, mperf, tsc: cycles(base_khz, self.now) };
        let time = state.clk.clock;
        let Governor::Pstate(governor) = &mut self.policies[policy].governor else { return };
        let update = governor.update_util(time, flags, self.tick_ns, counters, &intel.globals);
        let khz = u32::try_from(governor.current_pstate.saturating_mul(governor.pstate.scaling)).unwrap_or(0);
        let (load, rule) = (governor.busy_percent, governor.rule);
        if S::DECISIONS && update.sampled {
            let prev_khz = self.policies[policy].cur_khz;
            let note = SampleNote { load, threshold: 0, rule, target_khz: khz };
            self.record(Decision::sample(cpu.0, cpu.0, note, prev_khz, khz));
        }
        if update.pstate.is_some() {
            self.ask(policy, cpu, khz);
        }
    }

    /// intel_pstate_update_util_hwp(): the dynamic boost.
    pub(crate) fn hwp_update_util(&mut self, policy: PolicyId, cpu: CpuId, flags: u32) {
        let time = self.cpus[cpu].clk.clock;
        let local = self.here == cpu;
        let state = &mut self.policies[policy];
        let (Governor::Hwp(active), Some(hwp)) = (&mut state.governor, &state.hwp) else { return };
        let flags = if active.io { flags } else { flags & !SCHED_CPUFREQ_IOWAIT };
        let cached = active.cached;
        let Some(boost) = &mut active.boost else { return };
        if let Some(request) = boost.update_util(time, flags, local, self.tick_ns, cached, hwp.capabilities) {
            self.hwp_write(policy, request);
        }
    }

    /// schedutil's performance levels (intel_cpufreq_adjust_perf(), amd_pstate_adjust_perf()).
    pub(crate) fn adjust_perf(&mut self, policy: PolicyId, cpu: CpuId, min_perf: u64, target_perf: u64, capacity: u64) {
        let by_base = self.gates.profile.no_turbo_cpuinfo_max == NoTurboCpuinfoMax::Base;
        let no_turbo = by_base && self.intel.is_some_and(|intel| intel.globals.no_turbo);
        let state = &mut self.policies[policy];
        let Some(hwp) = &state.hwp else { return };
        let request = match (&mut state.passive, &mut state.amd) {
            (Some(passive), _) => passive
                .adjust_perf(hwp.capabilities, no_turbo, min_perf, target_perf, capacity)
                .then(|| passive.hwp.unwrap_or_default()),
            (None, Some(amd)) => amd.adjust_perf(min_perf, target_perf, capacity),
            (None, None) => None,
        };
        if let Some(request) = request {
            // Guided mode has no desired level, but a lowest one.
            let khz = u32::from(request.desired().max(request.min())) * hwp.scaling_khz();
            let (util, max) = (target_perf as u32, capacity as u32);
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util, max });
            self.hwp_write(policy, request);
        }
    }

    /// The driver asks for a clock.
    fn ask(&mut self, policy: PolicyId, cpu: CpuId, khz: u32) {
        self.emit(Event::FreqRequest { cpu: cpu.0, khz, util: 0, max: 0 });
        self.policies[policy].cur_khz = khz;
        self.begin_switch(policy, khz);
    }

    /// A value is written to MSR_HWP_REQUEST: new bounds hold at once.
    pub(crate) fn hwp_write(&mut self, policy: PolicyId, request: HwpRequest) {
        if let Some(hwp) = &mut self.policies[policy].hwp {
            hwp.request = request;
            if S::DECISIONS {
                self.record_hwp(policy);
            }
            self.hwp_grant(policy);
        }
    }

    fn record_hwp(&mut self, policy: PolicyId) {
        let state = &self.policies[policy];
        if let Some(hwp) = &state.hwp {
            let record = hwp.decision(state.cpus[0]);
            self.record(record);
        }
    }

    /// Asks the package for what the firmware wants.
    pub(crate) fn hwp_grant(&mut self, policy: PolicyId) {
        let Some(hwp) = &self.policies[policy].hwp else { return };
        let khz = hwp.khz();
        self.grant(policy, khz);
        let state = &self.policies[policy];
        let unsettled = state.hwp.as_ref().is_some_and(|hwp| !hwp.is_settled());
        if unsettled {
            self.arm_pcu(state.package);
        }
    }

    /// A frequency under a driver that leaves hardware P-states on: what the driver makes of it.
    pub(crate) fn hwp_desire(&mut self, policy: PolicyId, khz: u32) {
        let state = &mut self.policies[policy];
        let Some(hwp) = &state.hwp else { return };
        let strict = state.governor.is_strict();
        let request = match (&mut state.passive, &mut state.amd) {
            (Some(passive), _) => {
                passive.target(khz, Relation::L, strict);
                passive.hwp.unwrap_or_default()
            }
            (None, Some(amd)) => amd.target(khz, !strict),
            // The governor is the caller's.
            (None, None) => hwp.request.with_desired(hwp.level_of(khz)),
        };
        self.hwp_write(policy, request);
    }

    /// The firmware looks at the CPUs of `package`, except those that sleep and can get no slower.
    pub(crate) fn hwp_look(&mut self, package: PackageId) {
        let mut care = false;
        for index in 0..self.hardware.packages[package].policies.len() {
            let policy = self.hardware.packages[package].policies[index];
            let state = &self.policies[policy];
            let Some(hwp) = &state.hwp else { return };
            let cpu = state.cpus[0];
            let deep_from = self.hardware.deep_from[state.cluster];
            let is_deep = hwp.leaves_out_deep() && self.cpus[cpu].idle.is_down(deep_from);
            let idle = self.cpus[cpu].curr == TaskId::IDLE && !self.is_polling(cpu);
            // Of time in deep states it takes no notice, so that it has nothing to look at until they end.
            if !hwp.follows_load() || is_deep || idle && hwp.is_settled() {
                continue;
            }
            care = true;
            let reference_khz = self.topology.reference_khz[state.cluster];
            self.account_point(cpu);
            let c0_ns = self.cpus[cpu].at_points.executed_ns(reference_khz);
            let deep_ns = self.deep_idle_ns(cpu);
            let state = &mut self.policies[policy];
            let Some(hwp) = &mut state.hwp else { return };
            let before_khz = hwp.khz();
            hwp.look(self.now, deep_ns, c0_ns);
            // The kernel does not hear of it: for a governor the frequency stays what it asked for.
            let khz = hwp.khz();
            if S::DECISIONS && khz != before_khz {
                self.record_hwp(policy);
            }
            self.grant(policy, khz);
        }
        if care {
            self.arm_pcu(package);
        }
    }

    /// `cpu` starts to run tasks, or to poll: the firmware watches it.
    pub(crate) fn hwp_watch(&mut self, cpu: CpuId) {
        let state = &self.policies[self.cpus[cpu].policy];
        if state.hwp.as_ref().is_some_and(Hwp::follows_load) {
            self.arm_pcu(state.package);
        }
    }
}
