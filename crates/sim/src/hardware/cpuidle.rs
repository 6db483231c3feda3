//! Idle: which state a CPU enters, when its cluster follows, what an exit costs.
//!
//! ```text
//!   schedule() -> idle   entry latency      resident        exit latency   awake
//!   |---- enter_idle ----|=================|---- leave_idle ---|--- idle_exit ---> handlers, schedule() or idle again
//! ```
//! A wake-up during the entry waits for the rest of it. A cluster state is entered when all CPUs of the cluster are
//! resident in their deepest state.

use opplab_kernel::cpuidle::{IdleChoice, IdleFacts, IdleOutcome};
use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_model::power::{ClusterActivity, CpuActivity};

use crate::hardware::idle_run::{IdleRun, Phase};
use crate::run::agenda::Wait;
use crate::run::cpu::Interrupt;
use crate::run::engine::Engine;

/// PM QoS does not limit the exit latency.
const LATENCY_REQ_NS: u64 = u64::MAX >> 1;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The idle loop of an awake CPU with nothing to run (kernel/sched/idle.c:cpuidle_idle_call()).
    pub(crate) fn enter_idle(&mut self, cpu: u32) {
        let c = cpu as usize;
        let cl = self.cpus[c].cluster as usize;
        let now = self.now;
        let next_tick = self.next_tick_ns();
        let next_timer = self.next_timer_ns(cpu).map(|time| time.max(now) - now);
        let delta_tick = (next_tick - now) as i64;
        // Without any timer (no watchdog) the kernel's is the end of time (tick-sched.c:tick_nohz_next_event(), v6.12).
        let mut sleep_length = next_timer.map_or(i64::MAX - now as i64, |ns| ns as i64);
        if self.rcu_needs_cpu(cpu) && !self.cpus[c].tick_stopped {
            sleep_length = sleep_length.min(delta_tick);
        }
        let states = &self.clusters[cl].idle_states;
        let state = &mut self.cpus[c];
        let facts = IdleFacts {
            states,
            disabled: 0,
            latency_req_ns: LATENCY_REQ_NS,
            sleep_length_ns: sleep_length,
            delta_tick_ns: if state.tick_stopped { sleep_length } else { delta_tick.min(sleep_length) },
            tick_stopped: state.tick_stopped,
            nr_iowaiters: state.nr_iowait,
            tick_ns: self.tick_ns,
            now_ns: now,
        };
        let choice = if states.len() <= 1 && self.gates.single_state_keeps_tick {
            // No governor has a say (kernel/sched/idle.c:cpuidle_idle_call(), v6.12.117).
            IdleChoice { index: 0, stop_tick: state.got_idle_tick, queried_sleep_length: false }
        } else {
            state.idle_governor.select(&facts)
        };
        let entry_ns = self.case.machine.clusters[cl].idle.get(choice.index).map_or(0, |idle| idle.entry_latency_ns);
        if choice.stop_tick || state.tick_stopped {
            // tick_nohz_idle_stop_tick(), v4.17 on: an idle call that retains the tick (tick_nohz_idle_retain_tick())
            // does not count, so that schedutil takes a CPU with short sleeps for busy.
            state.idle_calls += 1;
        }
        if choice.stop_tick && !state.tick_stopped {
            state.tick_stopped = true;
            self.balancer.nohz.nohz_balance_enter_idle(c);
            self.disarm(cpu, Wait::Tick);
            self.rearm_timer(cpu);
        }
        let state = &mut self.cpus[c];
        state.idle = IdleRun {
            phase: Phase::Resident,
            state: choice.index,
            since_ns: now,
            entry_done_ns: now + entry_ns,
            exit_since_ns: 0,
            exit_left_ns: 0,
        };
        state.idle_usage[choice.index].0 += 1;
        self.emit(Event::CpuIdle { cpu, state: choice.index as i32 });
        self.core_rests(cpu, choice.index);
        self.refresh_power(cpu);
        self.cluster_may_sleep(cl as u32);
    }

    /// Begins the exit from idle, `delay_ns` from now at the earliest.
    pub(crate) fn leave_idle(&mut self, cpu: u32, delay_ns: u64) {
        let c = cpu as usize;
        if !self.cpus[c].idle.is_resident() {
            return;
        }
        let cl = self.cpus[c].cluster as usize;
        let now = self.now;
        let cluster = &self.case.machine.clusters[cl];
        let index = self.cpus[c].idle.state;
        let mut exit_ns = cluster.idle.get(index).map_or(0, |idle| idle.wake_ns.unwrap_or(idle.exit_latency_ns));
        exit_ns += self.cluster_wakes(cl as u32);
        if self.case.machine.cluster_idle_together {
            for other in (0..self.clusters.len()).filter(|&other| other != cl) {
                self.cluster_wakes(other as u32);
            }
        }
        let state = &mut self.cpus[c];
        let start = (now + delay_ns).max(state.idle.entry_done_ns);
        state.idle.phase = Phase::Exiting;
        state.idle.exit_since_ns = now;
        state.idle_ns_by_state[index] += now - state.idle.since_ns;
        self.core_works(cpu, index);
        self.refresh_power(cpu);
        if !self.stream.is_held(cpu) {
            self.cpus[c].idle.exit_left_ns = start + exit_ns - now;
        } else if start + exit_ns == now {
            self.idle_exit(cpu);
        } else {
            self.arm(cpu, Wait::IdleExit, start + exit_ns);
        }
    }

    /// How long `cpu` takes to leave the state in which it is or last was, ns.
    pub(crate) fn exit_latency_ns(&self, cpu: u32) -> u64 {
        let state = &self.cpus[cpu as usize];
        let idle = &self.case.machine.clusters[state.cluster as usize].idle;
        idle.get(state.idle.state).map_or(0, |idle| idle.wake_ns.unwrap_or(idle.exit_latency_ns))
    }

    /// An exit from idle stops while another CPU holds the instruction stream.
    pub(crate) fn pause_idle_exit(&mut self, cpu: u32) {
        if !self.cpus[cpu as usize].idle.is_exiting() {
            return;
        }
        if let Some(time) = self.armed_ns(cpu, Wait::IdleExit) {
            self.cpus[cpu as usize].idle.exit_left_ns = time - self.now;
            self.disarm(cpu, Wait::IdleExit);
        }
    }

    /// An exit from idle goes on.
    pub(crate) fn resume_idle_exit(&mut self, cpu: u32) {
        let idle = &self.cpus[cpu as usize].idle;
        if !idle.is_exiting() || self.armed_ns(cpu, Wait::IdleExit).is_some() {
            return;
        }
        if idle.exit_left_ns == 0 {
            self.idle_exit(cpu);
        } else {
            let time = self.now + idle.exit_left_ns;
            self.arm(cpu, Wait::IdleExit, time);
        }
    }

    /// The CPU executes again: it handles what woke it, then schedules or sleeps again.
    pub(crate) fn idle_exit(&mut self, cpu: u32) {
        let c = cpu as usize;
        let now = self.now;
        let got_tick = self.cpus[c].pending.contains(&Interrupt::Tick);
        let state = &mut self.cpus[c];
        state.idle.phase = Phase::Awake;
        let outside = state.idle_ns_by_state.len() - 1;
        state.idle_ns_by_state[outside] += now - state.idle.exit_since_ns;
        state.idle_usage[state.idle.state].1 += now - state.idle.since_ns;
        state.account_ns = now;
        let outcome = IdleOutcome {
            index: state.idle.state,
            residency_ns: now - state.idle.since_ns,
            got_tick,
            poll_time_limit: false,
            now_ns: now,
        };
        state.idle_governor.reflect(&outcome);
        self.emit(Event::CpuIdle { cpu, state: -1 });
        self.clock_after_idle(cpu);
        self.refresh_power(cpu);
        let mut pending = std::mem::take(&mut self.cpus[c].pending);
        for what in pending.drain(..) {
            self.handle(cpu, what);
        }
        if self.cpus[c].pending.is_empty() {
            self.cpus[c].pending = pending;
        }
        self.run_wake_list(cpu);
        self.asked_to_push(cpu);
        if self.cpus[c].nr_running > 0 || self.cpus[c].need_resched {
            self.cpus[c].need_resched = true;
            self.resched.push_back(cpu);
            self.stream_idle_exit(cpu);
        } else {
            self.enter_idle(cpu);
        }
    }

    /// Enters the deepest cluster state if all CPUs of the cluster are in their deepest state.
    fn cluster_may_sleep(&mut self, cluster: u32) {
        let cl = cluster as usize;
        let described = &self.case.machine.clusters[cl];
        if described.cluster_idle.is_empty() || self.clusters[cl].entered.is_some() {
            return;
        }
        if self.all_down(cl) {
            if !self.case.machine.cluster_idle_together {
                self.cluster_sleeps(cluster);
            } else if (0..self.clusters.len()).all(|other| self.all_down(other)) {
                // The hardware waits for the entry latency to be sure.
                self.all_down_since_ns = self.now;
                if self.package_entry_ns() == 0 {
                    self.packages_sleep();
                } else {
                    self.arm_pcu(self.case.machine.cpus[self.case.machine.clusters[cl].cpus[0] as usize].package);
                }
            }
        }
        self.refresh_cluster_power(cluster);
    }

    /// How long all CPUs must be down before the packages of a machine follow together.
    fn package_entry_ns(&self) -> u64 {
        let deepest = self.case.machine.clusters.iter().filter_map(|cluster| cluster.cluster_idle.last());
        deepest.map(|state| state.entry_latency_ns).max().unwrap_or(0)
    }

    fn packages_sleep(&mut self) {
        for cluster in 0..self.clusters.len() as u32 {
            self.cluster_sleeps(cluster);
        }
    }

    /// The control unit of `package` looks whether all CPUs have been down for long enough.
    pub(crate) fn packages_may_sleep(&mut self, package: u32) {
        if !self.case.machine.cluster_idle_together || !(0..self.clusters.len()).all(|cluster| self.all_down(cluster)) {
            return;
        }
        if self.now - self.all_down_since_ns >= self.package_entry_ns() {
            self.packages_sleep();
        } else {
            self.arm_pcu(package);
        }
    }

    /// Whether all CPUs of a cluster are in their deepest state.
    fn all_down(&self, cluster: usize) -> bool {
        let described = &self.case.machine.clusters[cluster];
        let deepest = described.idle.len().saturating_sub(1);
        described.cpus.iter().all(|&cpu| {
            let idle = &self.cpus[cpu as usize].idle;
            idle.is_resident() && idle.state == deepest
        })
    }

    /// Enters the deepest cluster state, if the cluster has any.
    fn cluster_sleeps(&mut self, cluster: u32) {
        let states = self.case.machine.clusters[cluster as usize].cluster_idle.len();
        if let (Some(index), None) = (states.checked_sub(1), self.clusters[cluster as usize].entered) {
            self.clusters[cluster as usize].entered = Some(index);
            self.emit(Event::ClusterIdle { cluster, state: index as i32 });
            self.refresh_cluster_power(cluster);
        }
    }

    /// Leaves the cluster state; gives its exit latency in ns.
    fn cluster_wakes(&mut self, cluster: u32) -> u64 {
        let cl = cluster as usize;
        let Some(entered) = self.clusters[cl].entered.take() else { return 0 };
        self.emit(Event::ClusterIdle { cluster, state: -1 });
        self.refresh_cluster_power(cluster);
        self.case.machine.clusters[cl].cluster_idle[entered].exit_latency_ns
    }

    /// Sets the meter of `cpu` to what its state draws.
    pub(crate) fn refresh_power(&mut self, cpu: u32) {
        let c = cpu as usize;
        let cl = self.cpus[c].cluster;
        let described = &self.case.machine.clusters[cl as usize];
        let shared = self.case.machine.smt_power < 1024 && self.sibling_is_busy(cpu);
        let point = self.hardware.point(cl, self.cpus[c].opp).power();
        let state = &mut self.cpus[c];
        let activity = match state.idle.phase {
            Phase::Awake if state.curr != IDLE_TASK && shared => CpuActivity::BusyPair(self.case.machine.smt_power),
            Phase::Awake if state.curr != IDLE_TASK => CpuActivity::Busy,
            Phase::Resident => CpuActivity::Idle(state.idle.state),
            // Awake in the idle loop, or on the way: as in the shallowest state.
            _ => CpuActivity::Idle(0),
        };
        let power_uw = described.cpu_power_uw(point, activity);
        let was_uw = state.meter.power_uw();
        state.meter.set(self.now, power_uw);
        self.package_power(self.case.machine.cpus[c].package, was_uw, power_uw);
        self.refresh_cluster_power(cl);
    }

    /// Sets the meter of a cluster's shared logic.
    pub(crate) fn refresh_cluster_power(&mut self, cluster: u32) {
        let cl = cluster as usize;
        let described = &self.case.machine.clusters[cl];
        let all_idle = || described.cpus.iter().all(|&cpu| self.cpus[cpu as usize].idle.is_resident());
        let activity = match self.clusters[cl].entered {
            Some(index) => ClusterActivity::Asleep(index),
            None if all_idle() => ClusterActivity::AllIdle,
            None => ClusterActivity::Awake,
        };
        let point = self.hardware.point(cluster, self.cpus[described.cpus[0] as usize].opp).power();
        let power_uw = described.shared_power_uw(point, activity);
        let was_uw = self.clusters[cl].meter.power_uw();
        if was_uw != power_uw {
            self.clusters[cl].meter.set(self.now, power_uw);
            self.package_power(self.case.machine.cpus[described.cpus[0] as usize].package, was_uw, power_uw);
        }
    }

    /// cpuidle's `usage` and `time` of each state of `cpu`: the exit counts to the state, the stay in progress as well.
    pub(crate) fn idle_usage(&self, cpu: u32) -> Vec<(u64, u64)> {
        let state = &self.cpus[cpu as usize];
        let mut usage = state.idle_usage.clone();
        if state.idle.phase != Phase::Awake {
            usage[state.idle.state].1 += self.now - state.idle.since_ns;
        }
        usage
    }

    /// The present idle period of `cpu`: index into its residencies and length in ns so far; `None` if it executes.
    pub(crate) fn idle_now(&self, cpu: u32) -> Option<(usize, u64)> {
        let state = &self.cpus[cpu as usize];
        match state.idle.phase {
            Phase::Awake => None,
            Phase::Resident => Some((state.idle.state, self.now - state.idle.since_ns)),
            Phase::Exiting => Some((state.idle_ns_by_state.len() - 1, self.now - state.idle.exit_since_ns)),
        }
    }
}
