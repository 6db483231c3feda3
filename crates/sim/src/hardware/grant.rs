//! What the hardware makes of requests: a package grants the least of the request, its turbo bin and its budget's
//! ceiling.
//!
//! ```text
//!   driver's request -> lowest point that reaches it -+
//!   turbo bin for the package's active cores ---------+--> min --> clock of the policy's CPUs
//!   ceiling by power and temperature (`budget`) ------+
//! ```
//! A core is active unless all its threads are in an idle state that gives up its clock and voltage. More active cores
//! lower the bin at once; fewer raise it when the package's control unit looks next, every [`PCU_INTERVAL_NS`]. CPUs
//! that sleep get their clock when they wake up.
//!
//! Not here: what software asks for (see `cpufreq`), and what the points draw (see `points`).

use opplab_kernel::pelt::HalfLife;
use opplab_model::decision::{Decision, GrantLimit};
use opplab_model::event::{Event, Sink};

use crate::hardware::budget::Clocks;
use crate::hardware::hwp::Hwp;
use crate::hardware::packages::PCU_INTERVAL_NS;
use crate::ids::{ClusterId, CpuId, PackageId, PolicyId};
use crate::run::cpu::Cpu;
use crate::run::engine::Engine;

/// How long an idle CPU's last request stands, ns: until some thread of the kernel runs there (a kworker, kcompactd every 0.5 s,
/// RCU's), upon which the governor asks for less. None of these is a task here. An assumption: the longest sleeps of CPUs
/// between two tasks of recorded guests without other work were 0.5, 0.5 and 3.8 s.
const KEPT_NS: u64 = 500_000_000;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Gives the packages their policies.
    pub(crate) fn start_packages(&mut self) {
        for (index, policy) in self.policies.ids().zip(&self.policies) {
            self.hardware.packages[policy.package].policies.push(index);
        }
    }

    /// `cpu` enters idle state `state`, or leaves it if it `works`.
    pub(crate) fn core_changes(&mut self, cpu: CpuId, state: usize, works: bool) {
        let place = self.case.machine.cpus[cpu.index()];
        let package = PackageId(place.package);
        let hardware = &mut self.hardware;
        if state < hardware.deep_from[ClusterId(place.cluster)] {
            return;
        }
        let change = if works { 1 } else { -1 };
        let threads = &mut hardware.awake_threads[place.core as usize];
        *threads = threads.wrapping_add_signed(change);
        if *threads > u32::from(works) {
            return self.shared_clock(cpu);
        }
        let bins = hardware.packages[package].bins(ClusterId(place.cluster));
        bins.active_cores = bins.active_cores.wrapping_add_signed(change);
        let class = bins.class_now();
        if works && class > bins.class {
            bins.class = class;
            self.refresh_caps(package);
        } else if !works && class != bins.class {
            self.arm_pcu(package);
        }
        if self.case.machine.package_clock {
            self.shared_clock(cpu);
        }
    }

    /// Has the control unit of `package` look at the next point of its grid.
    pub(crate) fn arm_pcu(&mut self, package: PackageId) {
        let state = &mut self.hardware.packages[package];
        if !std::mem::replace(&mut state.armed, true) {
            let time_ns = (self.now / PCU_INTERVAL_NS + 1) * PCU_INTERVAL_NS;
            self.arm_package(package, time_ns);
        }
    }

    /// The control unit looks at its package.
    pub(crate) fn pcu(&mut self, package: PackageId) {
        let state = &mut self.hardware.packages[package];
        state.armed = false;
        for bins in &mut state.bins {
            bins.class = bins.class_now();
        }
        self.look_at_budget(package);
        self.refresh_caps(package);
        self.hwp_look(package);
        self.packages_may_sleep(package);
    }

    fn look_at_budget(&mut self, package: PackageId) {
        let hardware = &mut self.hardware;
        let state = &mut hardware.packages[package];
        let Some(budget) = &mut state.budget else { return };
        let mut clocks = Clocks { low_khz: u32::MAX, top_khz: 0, highest_khz: 0 };
        for &policy in &state.policies {
            let policy = &self.policies[policy];
            let points = &hardware.clusters[policy.cluster].points;
            let opp = self.cpus[policy.cpus[0]].opp;
            clocks.low_khz = clocks.low_khz.min(points[0].khz);
            clocks.top_khz = clocks.top_khz.max(points[points.len() - 1].khz);
            // All clocks on the scale of the fastest cluster, which the ceiling is on.
            let own_top = u64::from(points[points.len() - 1].khz.max(1));
            let khz = u64::from(points[opp as usize].khz) * u64::from(state.top_khz) / own_top;
            clocks.highest_khz = clocks.highest_khz.max(khz as u32);
        }
        budget.look(self.now, clocks);
        if budget.needs_care() {
            self.arm_pcu(package);
        }
    }

    /// What CPUs or clusters of `package` draw changes.
    #[inline]
    pub(crate) fn package_power(&mut self, package: PackageId, was_uw: u64, is_uw: u64) {
        if self.hardware.packages[package].budget.is_some() {
            self.budget_power(package, was_uw, is_uw);
        }
    }

    #[inline(never)]
    fn budget_power(&mut self, package: PackageId, was_uw: u64, is_uw: u64) {
        let Some(budget) = &mut self.hardware.packages[package].budget else { return };
        if was_uw != is_uw {
            budget.cpu_power(self.now, was_uw, is_uw);
        }
        if budget.needs_care() {
            self.arm_pcu(package);
        }
    }

    /// Grants again what awake CPUs of `package` asked for, if its limits have changed.
    fn refresh_caps(&mut self, package: PackageId) {
        let hardware = &mut self.hardware;
        let state = &mut hardware.packages[package];
        if !state.find_caps(&hardware.clusters) {
            return;
        }
        for index in 0..state.policies.len() {
            let policy = self.hardware.packages[package].policies[index];
            if self.policies[policy].cpus.iter().any(|&cpu| self.cpus[cpu].idle.is_awake()) {
                self.regrant(policy);
            }
        }
    }

    /// `cpu` wakes up: limits may have changed since it fell asleep.
    pub(crate) fn clock_after_idle(&mut self, cpu: CpuId) {
        if self.hardware.limited {
            self.regrant(self.cpus[cpu].policy);
        }
    }

    /// A CPU begins or ends its rest: its wish for the clock that it shares comes or goes.
    fn shared_clock(&mut self, cpu: CpuId) {
        for index in 0..self.topology.clocked[cpu].len() {
            let other = self.topology.clocked[cpu][index];
            if self.cpus[other].policy != self.cpus[cpu].policy {
                self.run_at_wish(self.cpus[other].policy);
            }
        }
    }

    /// Runs the policy's CPUs at what is allowed of what was asked for, and those that share a clock with them.
    /// True if the policy's clock is another one now.
    pub(crate) fn regrant(&mut self, policy: PolicyId) -> bool {
        let changed = self.run_at_wish(policy);
        let first = self.policies[policy].cpus[0];
        self.shared_clock(first);
        changed
    }

    /// The highest point that a CPU with the same clock wishes, and the policy that does. Threads share their core's, and one at
    /// rest has no vote, unless requests of idle CPUs count: then what it left in its register does, for [`KEPT_NS`].
    fn wish(&self, policy: PolicyId) -> (u32, PolicyId) {
        let state = &self.policies[policy];
        let clocked = &self.topology.clocked[state.cpus[0]];
        let deep_from = self.hardware.deep_from[state.cluster];
        let others = clocked.iter().map(|&cpu| &self.cpus[cpu]).filter(|cpu| cpu.policy != policy);
        let keeps_wishes = self.case.machine.idle_requests_count() && state.hwp.is_none();
        let is_fresh = |cpu: &Cpu| keeps_wishes && self.now.saturating_sub(cpu.balance.idle_stamp) < KEPT_NS;
        let wishes = others
            .filter(|cpu| !cpu.idle.is_down(deep_from) || is_fresh(cpu))
            .map(|cpu| (self.policies[cpu.policy].wanted, cpu.policy));
        wishes.fold((state.wanted, policy), |most, one| if one.0 > most.0 { one } else { most })
    }

    /// Runs the policy's CPUs at what is allowed of what their core was asked for; true if that is another clock.
    fn run_at_wish(&mut self, policy: PolicyId) -> bool {
        let state = &self.policies[policy];
        let cluster = state.cluster;
        let cap = self.hardware.packages[state.package].caps[cluster];
        let point = self.wish(policy).0.min(cap);
        if self.cpus[state.cpus[0]].opp == point {
            return false;
        }
        let khz = self.hardware.point(cluster, point).khz;
        for index in 0..self.policies[policy].cpus.len() {
            let cpu = self.policies[policy].cpus[index];
            self.account_point(cpu);
            let now = self.now;
            let state = &mut self.cpus[cpu];
            state.at_points.leave(state.opp, now);
            state.opp = point;
            self.refresh_speed(cpu);
            self.refresh_power(cpu);
            self.reprogram(cpu);
            self.emit(Event::CpuFrequency { cpu: cpu.0, khz });
        }
        if S::DECISIONS {
            self.record_grant(policy);
        }
        true
    }

    /// Records what the hardware makes of a policy's request, and which limit is in the way.
    pub(crate) fn record_grant(&mut self, policy: PolicyId) {
        let state = &self.policies[policy];
        let (policy_cpu, cluster, wanted) = (state.cpus[0], state.cluster, state.wanted);
        let granted = self.cpus[policy_cpu].opp;
        let khz = |point: u32| self.hardware.point(cluster, point).khz;
        let granted_khz = khz(granted);
        // Under HWP the request is what the firmware may choose at most.
        let most_khz = state.hwp.as_ref().map_or(0, Hwp::most_khz);
        let requested_khz = khz(wanted).max(most_khz.min(self.hardware.clusters[cluster].top_khz()));
        let limit = match () {
            () if granted < wanted => {
                self.hardware.packages[state.package].limit(cluster, &self.hardware.clusters[cluster])
            }
            () if granted_khz < requested_khz => GrantLimit::Firmware,
            () => GrantLimit::None,
        };
        // What is still on its way is not answered by it.
        let answered = state.switching_for_ns.filter(|_| state.switching_khz.is_none());
        let delay_ns = answered.map_or(-1, |decided_ns| (self.now - decided_ns) as i64);
        let by_cpu = self.policies[self.wish(policy).1].cpus[0].0;
        let policy_cpu = policy_cpu.0;
        self.record(Decision::Grant { policy_cpu, requested_khz, granted_khz, limit, delay_ns, by_cpu });
    }
}
