//! What somebody changes while the run goes on: limits of the frequency, governors, energy-aware placement.
//!
//! A change takes no simulated time: the writer is outside of the run.

use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;
use opplab_model::policy::Policy;

use crate::CaseError;
use crate::cpufreq::freq_policy::{FreqPolicy, Governor};
use crate::cpufreq::intel::IntelSetup;
use crate::ids::PolicyId;
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::setup::{driver_of, freq_policies};
use crate::sched::eas_model::EasState;

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
            for id in self.policies.ids() {
                self.regrant(id);
            }
        }
        let custom = self.hooks.as_ref().is_some_and(|hooks| hooks.governs());
        if !custom {
            let fresh =
                freq_policies(machine, policy, &driver, self.intel.as_ref(), &self.gates, &self.hardware, false)?;
            let ids: Vec<PolicyId> = self.policies.ids().collect();
            let starts = (&policy.governor, &policy.tunables) != (&self.policy.governor, &self.policy.tunables);
            for (id, fresh) in ids.into_iter().zip(fresh) {
                self.change_freq_policy(id, fresh, starts);
            }
        }
        self.eas = EasState::new(machine, &driver, policy, &self.gates, &self.topology)?.ok();
        if self.eas.is_none() && self.overutilized {
            self.set_overutilized(false);
        }
        self.driver = driver;
        Ok(())
    }

    /// cpufreq.c:cpufreq_set_policy(): other limits, or another governor, which starts as at boot.
    fn change_freq_policy(&mut self, id: PolicyId, fresh: FreqPolicy, starts: bool) {
        let state = &mut self.policies[id];
        state.limits = fresh.limits;
        (state.passive, state.amd) = (fresh.passive, fresh.amd);
        if let (Some(hwp), Some(fresh)) = (&mut state.hwp, fresh.hwp) {
            hwp.request = fresh.request;
        }
        let kept = matches!(fresh.governor, Governor::Kernel { .. }) && !starts;
        if !kept {
            state.governor = fresh.governor;
        }
        let (limits, cur_khz) = (state.limits, state.cur_khz);
        let khz = match &mut state.governor {
            Governor::Kernel { state: Some(governor), .. } => governor.limits(limits, cur_khz),
            Governor::Kernel { worker: Worker::Nobody, .. } => None,
            Governor::Fixed(khz) => Some(*khz),
            _ if state.hwp.is_some() => {
                self.hwp_grant(id);
                None
            }
            _ => None,
        };
        // cpufreq_policy_apply_limits().
        let khz = khz.or_else(|| (!limits.contains(cur_khz)).then(|| limits.clamp(cur_khz)));
        if let Some(khz) = khz.filter(|&khz| khz != cur_khz) {
            self.fast_switch(id, khz);
        }
        self.start_thread(id);
    }
}
