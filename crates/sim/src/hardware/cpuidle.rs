//! Idle: which state a CPU enters, when its cluster follows, what an exit costs.
//!
//! ```text
//!   schedule() -> idle   entry latency      resident        exit latency   awake
//!   |---- enter_idle ----|=================|---- leave_idle ---|--- idle_exit ---> handlers, schedule() or idle again
//! ```
//! A wake-up during the entry waits for the rest of it. A CPU that polls gives up at its limit and chooses again. A cluster state is entered when all CPUs of the cluster are
//! resident in their deepest state and no timer of theirs is too near.

use opplab_kernel::cpufreq::schedutil::effective_cpu_util;
use opplab_kernel::cpuidle::{
    IdleChoice, IdleFacts, IdleOutcome, IdleStart, IdleState, POLL_IDLE_PAUSES, poll_time_ns,
};
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::{IdleTick, SingleStateTick};
use opplab_kernel::proposals::teo_util::teo_cpu_is_utilized;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, IdleCall, Metered, Sink};
use opplab_model::machine::Machine;
use opplab_model::power::{AtWork, ClusterActivity, CpuState, PointPower};
use rand_core::Rng;

use crate::hardware::idle_run::{IdleRun, Phase};
use crate::ids::{ClusterId, CpuId, PackageId, TaskId};
use crate::run::agenda::Wait;
use crate::run::cpu::{BOOT_NS, Interrupt};
use crate::run::engine::Engine;
use crate::run::task::NO_PROGRAM;
use crate::sched::rq_facts::{cpu_util_cfs, rq_facts};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The idle loop of an awake CPU with nothing to run (kernel/sched/idle.c:cpuidle_idle_call()).
    pub(crate) fn enter_idle(&mut self, cpu: CpuId) {
        let cl = self.cpus[cpu].cluster;
        let now = self.now;
        let utilized = self.gates.idle_looks_at_util && {
            let state = &self.cpus[cpu];
            let facts = rq_facts(state, &self.gates, self.uclamp_used);
            // sched_cpu_util(), v6.3.
            let util = effective_cpu_util(&facts, cpu_util_cfs(state, &self.gates, false)).util;
            teo_cpu_is_utilized(util, state.capacity)
        };
        let next_tick = self.next_tick_ns();
        let next_timer = self.next_timer_ns(cpu).map(|time| time.max(now) - now);
        let delta_tick = (next_tick - now) as i64;
        // Without any timer (no watchdog) the kernel's is the end of time (tick-sched.c:tick_nohz_next_event(), v6.12).
        let mut sleep_length = next_timer.map_or(i64::MAX - now as i64, |ns| ns as i64);
        if self.rcu_needs_cpu(cpu) && !self.cpus[cpu].tick_stopped {
            sleep_length = sleep_length.min(delta_tick);
        }
        let states = &self.clusters[cl].idle_states;
        let state = &mut self.cpus[cpu];
        // tick-sched.c:tick_nohz_stop_sched_tick(), v4.16: the tick is out of the way before the governor is asked.
        let stops_first = self.gates.profile.idle_tick == IdleTick::First;
        let is_stopped = state.tick_stopped || stops_first && sleep_length > self.tick_ns as i64;
        let facts = IdleFacts {
            states,
            disabled: self.clusters[cl].idle_disabled,
            utilized,
            latency_req_ns: self.gates.latency_req_ns,
            sleep_length_ns: sleep_length,
            delta_tick_ns: if is_stopped { sleep_length } else { delta_tick.min(sleep_length) },
            // Those governors have no rule for it.
            tick_stopped: state.tick_stopped && !stops_first,
            nr_iowaiters: state.nr_iowait,
            tick_ns: self.tick_ns,
            now_ns: now,
        };
        let choice = if self.topology.offline[cpu] {
            // play_dead(): the deepest state, and no tick.
            IdleChoice { index: states.len().saturating_sub(1), stop_tick: true, queried_sleep_length: false }
        } else if states.len() <= 1 && self.gates.single_state_tick == SingleStateTick::Retained {
            // No governor is asked (kernel/sched/idle.c:cpuidle_idle_call(), v6.12.117).
            IdleChoice { index: 0, stop_tick: state.got_idle_tick, queried_sleep_length: false }
        } else if states.len() == 1 && self.gates.single_state_tick == SingleStateTick::Kept {
            // Nor here, but it never asks for the tick to stop (commit e5c9ffc6ae1b).
            IdleChoice { index: 0, stop_tick: false, queried_sleep_length: false }
        } else {
            self.journal.idle_call(cpu, IdleCall::Select(&facts));
            state.idle_governor.select(&facts)
        };
        let choice = if stops_first { IdleChoice { stop_tick: is_stopped, ..choice } } else { choice };
        let polls = states.get(choice.index).is_some_and(|state| state.polling) && !self.stream.shared;
        let poll_ns = if polls {
            let look_cycles = POLL_IDLE_PAUSES * u64::from(self.case.machine.pause_cycles);
            let look_ns = look_cycles * 1_000_000 / u64::from(self.granted_khz(cpu).max(1));
            poll_time_ns(&*self.cpus[cpu].idle_governor, &facts, self.gates.profile.poll_limit, look_ns)
        } else {
            None
        };
        let allowed = |&index: &usize| self.clusters[cl].allows(index, self.gates.latency_req_ns);
        let deeper = choice.index + 1..states.len();
        let record = S::DECISIONS.then(|| Decision::Idle {
            cpu: cpu.0,
            state: choice.index as u32,
            // What is deeper than the last one that may be used is as if it were not there.
            nr_states: deeper.clone().rfind(allowed).map_or(deeper.start, |last| last + 1).min(states.len()) as u32,
            residency_ns: states.get(choice.index).map_or(0, |state| state.target_residency_ns),
            deeper_ns: deeper.clone().find(allowed).map_or(0, |index| states[index].target_residency_ns),
            sleep_length_ns: facts.sleep_length_ns,
            delta_tick_ns: facts.delta_tick_ns,
            stop_tick: choice.stop_tick,
            tick_stopped: facts.tick_stopped,
            queried: choice.queried_sleep_length,
        });
        if let Some(record) = record {
            self.record(record);
        }
        let state = &mut self.cpus[cpu];
        let entry_ns =
            self.case.machine.clusters[cl.index()].idle.get(choice.index).map_or(0, |idle| idle.entry_latency_ns);
        if choice.stop_tick || state.tick_stopped {
            // tick_nohz_idle_stop_tick(), v4.17 on: an idle call that retains the tick (tick_nohz_idle_retain_tick())
            // does not count, so that schedutil takes a CPU with short sleeps for busy.
            state.idle_calls += 1;
        }
        if choice.stop_tick && !state.tick_stopped {
            state.tick_stopped = true;
            self.balancer.nohz.nohz_balance_enter_idle(cpu.index());
            self.disarm(cpu, Wait::Tick);
            self.rearm_timer(cpu);
        }
        let state = &mut self.cpus[cpu];
        state.idle = IdleRun {
            phase: Phase::Resident,
            state: choice.index,
            since_ns: now,
            entry_done_ns: now + entry_ns,
            exit_since_ns: 0,
            exit_left_ns: 0,
        };
        state.in_idle.enter(choice.index);
        self.emit(Event::CpuIdle { cpu: cpu.0, state: choice.index as i32 });
        self.core_changes(cpu, choice.index, false);
        self.refresh_power(cpu);
        self.refresh_siblings_of_polling(cpu, choice.index);
        self.cluster_may_sleep(cl);
        if self.is_polling(cpu) {
            self.hwp_watch(cpu);
        }
        if let Some(ns) = poll_ns {
            self.arm(cpu, Wait::IdleExit, now + ns);
        }
    }

    /// Begins the exit from idle, `delay_ns` from now at the earliest.
    pub(crate) fn leave_idle(&mut self, cpu: CpuId, delay_ns: u64) {
        if !self.cpus[cpu].idle.is_resident() {
            return;
        }
        let cl = self.cpus[cpu].cluster;
        let now = self.now;
        let cluster = &self.case.machine.clusters[cl.index()];
        let index = self.cpus[cpu].idle.state;
        let mut exit_ns = if self.wakes_late {
            self.wake_latency_ns(cpu)
        } else {
            cluster.idle.get(index).map_or(0, |idle| idle.wakes_in_ns())
        };
        exit_ns += self.begin_idle_exit(cpu);
        let start = (now + delay_ns).max(self.cpus[cpu].idle.entry_done_ns);
        if !self.stream.is_held(cpu) {
            self.cpus[cpu].idle.exit_left_ns = start + exit_ns - now;
        } else if start + exit_ns == now {
            self.disarm(cpu, Wait::IdleExit);
            self.idle_exit(cpu, false);
        } else {
            self.arm(cpu, Wait::IdleExit, start + exit_ns);
        }
    }

    /// `cpu` is resident no longer; gives what its cluster takes to wake, ns.
    fn begin_idle_exit(&mut self, cpu: CpuId) -> u64 {
        let cl = self.cpus[cpu].cluster;
        let cluster_ns = self.cluster_wakes(cl);
        if self.case.machine.cluster_idle_together {
            for other in self.clusters.ids().filter(|&other| other != cl) {
                self.cluster_wakes(other);
            }
        }
        self.outcome.first_idle_ns += self.first_idle_ns(cpu);
        let now = self.now;
        let state = &mut self.cpus[cpu];
        let index = state.idle.state;
        state.idle.phase = Phase::Exiting;
        state.idle.exit_since_ns = now;
        state.in_idle.leave(index, now - state.idle.since_ns);
        self.emit_signal(Event::IdleExit { cpu: cpu.0 });
        self.core_changes(cpu, index, true);
        self.refresh_power(cpu);
        self.refresh_siblings_of_polling(cpu, index);
        cluster_ns
    }

    /// The exit from idle of `cpu` is complete, or it has polled for as long as it may (poll_state.c:poll_idle(), v6.12).
    pub(crate) fn idle_exit_due(&mut self, cpu: CpuId) {
        let poll_time_limit = self.cpus[cpu].idle.is_resident();
        if poll_time_limit {
            self.begin_idle_exit(cpu);
        }
        self.idle_exit(cpu, poll_time_limit);
    }

    /// How long `cpu` is in an idle state that its governor chose as at boot, where a deeper one may be used.
    pub(crate) fn first_idle_ns(&self, cpu: CpuId) -> u64 {
        let state = &self.cpus[cpu];
        if !state.idle.is_resident() {
            return 0;
        }
        let (own, cluster, usage) = (state.idle.state, &self.clusters[state.cluster], state.in_idle.usage());
        let stay_ns = self.now - state.idle.since_ns;
        let is_allowed = |index| cluster.allows(index, self.gates.latency_req_ns);
        let mut deeper = own + 1..cluster.idle_states.len();
        let is_first = match self.gates.idle_start {
            IdleStart::NoInterval => usage.iter().map(|usage| usage.0).sum::<u64>() == 1 && deeper.any(is_allowed),
            // A sleep that counts for the next state (ladder.c:ladder_select_state(), v6.12), on a CPU that has had none deeper.
            IdleStart::Rungs => {
                let is_long = |state: &IdleState| stay_ns > 2 * state.exit_latency_ns;
                usage.iter().skip(own + 1).all(|usage| usage.0 == 0)
                    && cluster.idle_states.get(own).is_some_and(is_long)
                    && deeper.next().is_some_and(is_allowed)
            }
            IdleStart::AsLater => false,
        };
        if is_first { stay_ns } else { 0 }
    }

    /// How long `cpu` has been in states that give up its clock, ns, with the stay that lasts; without exits.
    pub(crate) fn deep_idle_ns(&self, cpu: CpuId) -> u64 {
        let state = &self.cpus[cpu];
        let deep_from = self.hardware.deep_from[state.cluster];
        let ended = state.in_idle.ns_from(deep_from);
        if state.idle.is_down(deep_from) { ended + (self.now - state.idle.since_ns) } else { ended }
    }

    /// Whether `cpu` polls: idle to the kernel, it executes.
    pub(crate) fn is_polling(&self, cpu: CpuId) -> bool {
        let idle = &self.cpus[cpu].idle;
        idle.is_resident() && self.polls(cpu, idle.state)
    }

    /// Whether `cpu` executes in idle state `state`. CPUs with one instruction stream between them wait for it there.
    fn polls(&self, cpu: CpuId, state: usize) -> bool {
        !self.stream.shared && self.case.machine.cluster_of(cpu.0).polls(state)
    }

    /// How long `cpu` has polled, ns, with the stay that lasts.
    pub(crate) fn polled_ns(&self, cpu: CpuId) -> u64 {
        if !self.polls(cpu, 0) {
            return 0;
        }
        let state = &self.cpus[cpu];
        let lasts_ns = if self.is_polling(cpu) { self.now - state.idle.since_ns } else { 0 };
        state.in_idle.ns()[0] + lasts_ns
    }

    /// How long `cpu` takes to leave the state in which it is or last was, ns.
    pub(crate) fn exit_latency_ns(&self, cpu: CpuId) -> u64 {
        let state = &self.cpus[cpu];
        let idle = &self.case.machine.clusters[state.cluster.index()].idle;
        idle.get(state.idle.state).map_or(0, |idle| idle.wakes_in_ns())
    }

    /// One of the measured times from a wake-up on `cpu`, which is idle, to running, ns; at least 1.
    pub(crate) fn wake_latency_ns(&mut self, cpu: CpuId) -> u64 {
        let (task, by_task) = self.cpus[cpu].last_woken;
        if task != TaskId::IDLE && self.tasks[task].sugov.is_none() {
            let (spec, pc) = (self.tasks[task].spec as usize, self.tasks[task].pc as usize);
            if let Some(&ns) = self.wakes.by_op_ns.get(spec).and_then(|task| task.get(pc)).filter(|&&ns| ns > 0) {
                return ns.into();
            }
        }
        let of_kernel = task == TaskId::IDLE
            || self.tasks[task].sugov.is_some()
            || self.wakes.kernel_tasks.get(self.tasks[task].spec as usize).copied().unwrap_or(true);
        let ns = self.drawn_ns(|engine| {
            let times_ns = if of_kernel { &engine.wakes.kernel_ns } else { &engine.wakes.user_ns };
            &times_ns[usize::from(by_task)]
        });
        ns.max(1)
    }

    /// One of these measured times, ns; 0 if there are none.
    pub(crate) fn drawn_ns(&mut self, of: impl Fn(&Self) -> &Vec<u64>) -> u64 {
        let nr = of(self).len() as u64;
        if nr == 0 {
            return 0;
        }
        let nth = (u64::from(self.rng.next_u32()) * nr) >> 32;
        of(self)[nth as usize]
    }

    /// An exit from idle stops while another CPU holds the instruction stream.
    pub(crate) fn pause_idle_exit(&mut self, cpu: CpuId) {
        if !self.cpus[cpu].idle.is_exiting() {
            return;
        }
        if let Some(time) = self.armed_ns(cpu, Wait::IdleExit) {
            self.cpus[cpu].idle.exit_left_ns = time - self.now;
            self.disarm(cpu, Wait::IdleExit);
        }
    }

    /// An exit from idle goes on.
    pub(crate) fn resume_idle_exit(&mut self, cpu: CpuId) {
        let idle = &self.cpus[cpu].idle;
        if !idle.is_exiting() || self.armed_ns(cpu, Wait::IdleExit).is_some() {
            return;
        }
        if idle.exit_left_ns == 0 {
            self.idle_exit(cpu, false);
        } else {
            let time = self.now + idle.exit_left_ns;
            self.arm(cpu, Wait::IdleExit, time);
        }
    }

    /// The CPU executes again: it handles what woke it, then schedules or sleeps again.
    fn idle_exit(&mut self, cpu: CpuId, poll_time_limit: bool) {
        let now = self.now;
        let got_tick = self.cpus[cpu].pending.contains(&Interrupt::Tick);
        let state = &mut self.cpus[cpu];
        state.idle_times.stop(now, state.nr_iowait > 0);
        state.idle.phase = Phase::Awake;
        state.in_idle.left(state.idle.state, now - state.idle.since_ns, now - state.idle.exit_since_ns);
        state.account_ns = now;
        let outcome = IdleOutcome {
            index: state.idle.state,
            residency_ns: now - state.idle.since_ns,
            got_tick,
            poll_time_limit,
            now_ns: now,
        };
        state.idle_governor.reflect(&outcome);
        self.journal.idle_call(cpu, IdleCall::Reflect(&outcome));
        self.emit(Event::CpuIdle { cpu: cpu.0, state: -1 });
        self.clock_after_idle(cpu);
        self.refresh_own_power(cpu);
        self.assert_shared_power(cpu);
        let mut pending = std::mem::take(&mut self.cpus[cpu].pending);
        for what in pending.drain(..) {
            self.handle(cpu, what);
        }
        if self.cpus[cpu].pending.is_empty() {
            self.cpus[cpu].pending = pending;
        }
        self.run_wake_list(cpu);
        self.asked_to_push(cpu);
        if self.cpus[cpu].nr_running > 0 || self.cpus[cpu].need_resched {
            self.cpus[cpu].need_resched = true;
            self.resched.push(cpu);
            self.stream_idle_exit(cpu);
        } else {
            self.enter_idle(cpu);
        }
    }

    /// Enters a cluster state if all CPUs of the cluster are in their deepest state.
    fn cluster_may_sleep(&mut self, cluster: ClusterId) {
        let described = &self.case.machine.clusters[cluster.index()];
        if described.cluster_idle.is_empty() || self.clusters[cluster].entered.is_some() {
            return;
        }
        if self.all_down(cluster.0) {
            if !self.case.machine.cluster_idle_together {
                if let Some(index) = self.cluster_state_for_sleep(cluster) {
                    self.cluster_sleeps(cluster, index);
                }
            } else if self.clusters.ids().all(|other| self.all_down(other.0)) {
                // The hardware waits for the entry latency to be sure.
                self.all_down_since_ns = self.now;
                if self.package_entry_ns() == 0 {
                    self.packages_sleep();
                } else {
                    self.arm_pcu(self.package_of_cluster(cluster));
                }
            }
        }
    }

    /// The deepest cluster state that is worth it until the first timer of a CPU, as the domain's governor chooses it
    /// (drivers/pmdomain/governor.c:cpu_power_down_ok(), v6.12).
    fn cluster_state_for_sleep(&self, cluster: ClusterId) -> Option<usize> {
        let described = &self.case.machine.clusters[cluster.index()];
        let next_event_ns = |&cpu: &u32| {
            let ticks = !self.cpus[CpuId(cpu)].tick_stopped;
            [self.next_timer_ns(CpuId(cpu)), ticks.then(|| self.next_tick_ns())].into_iter().flatten().min()
        };
        let wakes_ns = described.cpus.iter().filter_map(next_event_ns).min().unwrap_or(u64::MAX);
        let sleep_ns = wakes_ns.saturating_sub(self.now);
        described
            .cluster_idle
            .iter()
            .rposition(|state| state.target_residency_ns.saturating_add(state.entry_latency_ns) <= sleep_ns)
    }

    /// How long all CPUs must be down before the packages of a machine follow together.
    fn package_entry_ns(&self) -> u64 {
        let deepest = self.case.machine.clusters.iter().filter_map(|cluster| cluster.cluster_idle.last());
        deepest.map(|state| state.entry_latency_ns).max().unwrap_or(0)
    }

    fn packages_sleep(&mut self) {
        for cluster in self.clusters.ids() {
            let states = self.case.machine.clusters[cluster.index()].cluster_idle.len();
            if let Some(deepest) = states.checked_sub(1) {
                self.cluster_sleeps(cluster, deepest);
            }
        }
    }

    /// The control unit of `package` looks whether all CPUs have been down for long enough.
    pub(crate) fn packages_may_sleep(&mut self, package: PackageId) {
        if !self.case.machine.cluster_idle_together || !self.clusters.ids().all(|cluster| self.all_down(cluster.0)) {
            return;
        }
        if self.now - self.all_down_since_ns >= self.package_entry_ns() {
            self.packages_sleep();
        } else {
            self.arm_pcu(package);
        }
    }

    /// The package of a cluster's first CPU.
    fn package_of_cluster(&self, cluster: ClusterId) -> PackageId {
        let machine = &self.case.machine;
        PackageId(machine.cpus[machine.clusters[cluster.index()].cpus[0] as usize].package)
    }

    /// Enters a cluster state, unless the cluster is in one.
    fn cluster_sleeps(&mut self, cluster: ClusterId, index: usize) {
        if self.clusters[cluster].entered.is_none() {
            self.clusters[cluster].entered = Some(index);
            self.clusters[cluster].entered_ns = self.now;
            self.emit(Event::ClusterIdle { cluster: cluster.0, state: index as i32 });
            self.refresh_cluster_power(cluster);
        }
    }

    /// Leaves the cluster state; gives what that takes, ns.
    fn cluster_wakes(&mut self, cluster: ClusterId) -> u64 {
        let Some(entered) = self.clusters[cluster].entered.take() else { return 0 };
        let state = &mut self.clusters[cluster];
        state.asleep_ns[entered] += self.now - state.entered_ns;
        self.emit(Event::ClusterIdle { cluster: cluster.0, state: -1 });
        self.refresh_cluster_power(cluster);
        self.case.machine.clusters[cluster.index()].cluster_idle[entered].wakes_in_ns()
    }

    /// Sets the meters of `cpu` and of the shared logic that follows it to what their states draw.
    pub(crate) fn refresh_power(&mut self, cpu: CpuId) {
        self.refresh_own_power(cpu);
        if self.case.machine.shared_follows_machine {
            self.kept_khz = self.awake_khz().flatten().unwrap_or(self.kept_khz);
            for cluster in self.clusters.ids() {
                self.refresh_cluster_power(cluster);
            }
        } else {
            self.refresh_cluster_power(self.cpus[cpu].cluster);
        }
    }

    /// The same of `cpu` alone, which has neither come to nor left an idle state, nor changed its clock: shared logic follows
    /// nothing else.
    pub(crate) fn refresh_own_power(&mut self, cpu: CpuId) {
        let cl = self.cpus[cpu].cluster;
        let mut power_uw = self.cpu_power_uw(cpu.0).unwrap_or(0);
        let state = &mut self.cpus[cpu];
        let program = if state.curr == TaskId::IDLE { NO_PROGRAM } else { self.tasks[state.curr].program };
        if program != NO_PROGRAM && state.idle.is_awake() {
            let class = &self.case.machine.program_classes[usize::from(program)];
            power_uw = power_uw * u64::from(class.on[cl.index()].power) / 1024;
        }
        let was_uw = state.meter.power_uw();
        if was_uw != power_uw {
            state.meter.set(self.now, power_uw);
        }
        self.journal.power(self.now - BOOT_NS, Metered::Cpu(cpu.0), power_uw);
        self.package_power(PackageId(self.case.machine.cpus[cpu.index()].package), was_uw, power_uw);
    }

    /// The meter of the shared logic of `cpu` shows what it draws.
    #[inline]
    pub(crate) fn assert_shared_power(&self, cpu: CpuId) {
        let cluster = self.cpus[cpu].cluster;
        debug_assert_eq!(self.shared_power_uw(cluster.0).unwrap_or(0), self.clusters[cluster].meter.power_uw());
    }

    /// `cpu` enters or leaves `state`: where it spins, the other threads of its core draw less each.
    fn refresh_siblings_of_polling(&mut self, cpu: CpuId, state: usize) {
        let machine = &self.case.machine;
        if machine.smt_power == 1024 || !machine.cluster_of(cpu.0).polls(state) {
            return;
        }
        for index in 0..self.topology.siblings[cpu].len() {
            let other = self.topology.siblings[cpu][index];
            if other != cpu {
                self.refresh_power(other);
            }
        }
    }

    /// Sets the meter of a cluster's shared logic.
    pub(crate) fn refresh_cluster_power(&mut self, cluster: ClusterId) {
        if self.clusters[cluster].all_idle.is_some() {
            self.count_all_idle(cluster);
        }
        let power_uw = self.shared_power_uw(cluster.0).unwrap_or(0);
        let was_uw = self.clusters[cluster].meter.power_uw();
        if was_uw != power_uw {
            self.clusters[cluster].meter.set(self.now, power_uw);
            self.journal.power(self.now - BOOT_NS, Metered::Shared(cluster.0), power_uw);
            self.package_power(self.package_of_cluster(cluster), was_uw, power_uw);
        }
    }

    /// Counts for how long all CPUs of a cluster idle outside of a cluster state.
    fn count_all_idle(&mut self, cluster: ClusterId) {
        let is_asleep = self.clusters[cluster].entered.is_some();
        let idles = !is_asleep && self.cluster_activity(cluster.0) == ClusterActivity::AllIdle;
        if let Some(all_idle) = &mut self.clusters[cluster].all_idle {
            match all_idle.since_ns {
                None if idles => all_idle.since_ns = Some(self.now),
                Some(since_ns) if !idles => {
                    all_idle.since_ns = None;
                    all_idle.ns += self.now - since_ns;
                }
                _ => {}
            }
        }
    }

    /// cpuidle's `usage` and `time` of each state of `cpu`: the exit counts to the state, the stay in progress as well.
    pub(crate) fn idle_usage(&self, cpu: CpuId) -> Vec<(u64, u64)> {
        let state = &self.cpus[cpu];
        let mut usage = state.in_idle.usage().to_vec();
        if state.idle.phase != Phase::Awake {
            usage[state.idle.state].1 += self.now - state.idle.since_ns;
        }
        usage
    }

    /// The present idle period of `cpu`: index into its residencies and length in ns so far; `None` if it executes.
    pub(crate) fn idle_now(&self, cpu: CpuId) -> Option<(usize, u64)> {
        let state = &self.cpus[cpu];
        match state.idle.phase {
            Phase::Awake => None,
            Phase::Resident => Some((state.idle.state, self.now - state.idle.since_ns)),
            Phase::Exiting => Some((state.in_idle.outside(), self.now - state.idle.exit_since_ns)),
        }
    }
}

impl<S: Sink, H: HalfLife> AtWork for Engine<'_, S, H> {
    #[inline]
    fn machine(&self) -> &Machine {
        &self.case.machine
    }

    #[inline]
    fn cpu_state(&self, cpu: u32) -> CpuState {
        let state = &self.cpus[CpuId(cpu)];
        match state.idle.phase {
            Phase::Awake if state.curr != TaskId::IDLE => CpuState::Runs,
            Phase::Resident => CpuState::Resident(state.idle.state),
            Phase::Awake | Phase::Exiting => CpuState::Awake,
        }
    }

    #[inline]
    fn any_sibling(&self, cpu: u32, holds: impl Fn(CpuState) -> bool) -> bool {
        let siblings = &self.topology.siblings[CpuId(cpu)];
        siblings.iter().any(|other| other.0 != cpu && holds(self.cpu_state(other.0)))
    }

    #[inline]
    fn clock(&self, cpu: u32) -> Option<(u32, &PointPower)> {
        let state = &self.cpus[CpuId(cpu)];
        let point = self.hardware.point(state.cluster, state.opp);
        Some((point.khz, &point.power))
    }

    fn follows(&self, cluster: u32, khz: u32) -> PointPower {
        let cluster = ClusterId(cluster);
        self.hardware.point(cluster, self.hardware.clusters[cluster].at_most(khz)).power
    }

    fn kept_khz(&self) -> Option<u32> {
        Some(self.kept_khz)
    }

    #[inline]
    fn cluster_state(&self, cluster: u32) -> Option<usize> {
        self.clusters[ClusterId(cluster)].entered
    }
}
