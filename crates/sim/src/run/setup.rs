//! The beginning and the end of a run: from a case to an engine, from an engine to an outcome.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpuidle::{IDLE_GOVERNORS, IdleState, idle_governor};
use opplab_kernel::pelt::{HalfLife, SchedAvg, get_pelt_divider};
use opplab_kernel::sched::attach::CfsAvg;
use opplab_kernel::sched::cfs::{CfsRq, CfsTunables};
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::dl_bw::DlRqBw;
use opplab_kernel::sched::dl_entity::checkparam_dl;
use opplab_kernel::sched::eevdf::EevdfRq;
use opplab_kernel::sched::entity::SchedEntity;
use opplab_kernel::sched::newidle::RqBalance;
use opplab_kernel::sched::placement::{SisProp, WakeFlips};
use opplab_kernel::unit::tick_nsec;
use opplab_kernel::util_est::UtilEstPair;
use opplab_model::event::{Event, Fingerprint, IDLE_TASK, Sink};
use opplab_model::machine::{Cpufreq, Machine};
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use rand_pcg::Pcg64;

use crate::cpufreq::amd::{AMD_PSTATE_EPP, epp_start};
use crate::cpufreq::intel::{ActiveHwp, IntelSetup};
use crate::cpufreq::policy::{FreqPolicy, Governor, governor_of, max_freq_ratios};
use crate::hardware::cpuidle::IdleRun;
use crate::hardware::energy::Meter;
use crate::hardware::grant::Hardware;
use crate::run::engine::{BOOT_NS, ClusterRun, Cpu, Engine, SLOTS_A_CPU};
use crate::run::gates::Gates;
use crate::run::hooks::{CustomGovernor, Hooks};
use crate::run::objects::Objects;
use crate::run::queue::Queue;
use crate::run::stream::Stream;
use crate::run::task::{Doing, Life, Task};
use crate::sched::balance::Balancer;
use crate::sched::clamps::{RqClamps, asks_for_clamps};
use crate::sched::eas::EasState;
use crate::sched::fair::FairRq;
use crate::sched::topology::Topology;
use crate::{Case, CaseError, Consumed, Outcome, Start};

/// uW x ns in a uJ.
const FJ_PER_UJ: u128 = 1_000_000_000;

/// The seed's stream of the engine itself; programs have their own.
const RNG_STREAM: u128 = 0x6f70_706c_6162;

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    pub(crate) fn new(case: &'c Case, sink: &'c mut S, hooks: Option<&'c mut dyn Hooks>) -> Result<Self, CaseError> {
        let machine = &case.machine;
        let policy = &case.policy;
        let nr = machine.nr_cpus();
        if nr == 0 {
            return Err(CaseError(String::from("the machine has no CPU")));
        }
        if case.duration_ns == 0 || case.duration_ns > 1 << 52 {
            return Err(CaseError(format!("a run of {} ns is not possible", case.duration_ns)));
        }
        if case.workload.warmup_ns >= case.duration_ns {
            return Err(CaseError(format!(
                "a warm-up of {} ns leaves nothing of a run of {} ns",
                case.workload.warmup_ns, case.duration_ns
            )));
        }
        if !(24..=10_000).contains(&policy.hz) {
            return Err(CaseError(format!("hz is {}; a kernel has 100, 250, 300 or 1000", policy.hz)));
        }
        check_workload(&case.workload, nr as u32)?;
        let gates = Gates::new(policy, machine)?;
        let mut driver = driver_of(machine, policy).cloned().ok_or_else(|| {
            let known: Vec<&str> = std::iter::once(&machine.cpufreq)
                .chain(&machine.other_drivers)
                .map(|driver| driver.driver.as_str())
                .collect();
            CaseError(format!(
                "machine {} has no driver {:?}; it has {}",
                machine.name,
                policy.driver,
                known.join(", ")
            ))
        })?;
        let idle = idle_governor(&policy.idle_governor).ok_or_else(|| {
            let known: Vec<&str> = IDLE_GOVERNORS.iter().map(|entry| entry.name).collect();
            CaseError(format!("unknown idle governor {:?}; known: {}", policy.idle_governor, known.join(", ")))
        })?;
        let topology = Topology::new(machine);
        let intel = IntelSetup::new(machine, &mut driver, policy, &gates)?;
        let hardware = Hardware::new(machine, &driver, policy.no_turbo, BOOT_NS);
        let tick_ns = tick_nsec(policy.hz.into());
        let mut policies = Vec::new();
        let mut policy_of = vec![0; nr];
        for (cluster, cpus) in machine.policies() {
            for &cpu in &cpus {
                policy_of[cpu as usize] = policies.len() as u32;
            }
            let package = machine.cpus[cpus[0] as usize].package;
            let adjust_perf = intel.is_some_and(|intel| intel.adjust_perf());
            let described = &machine.clusters[cluster as usize];
            let custom = hooks.as_ref().is_some_and(|hooks| hooks.governs());
            let mut governor = if custom {
                let latency_ns = u32::try_from(driver.transition_latency_ns).unwrap_or(u32::MAX);
                let rate_limit_us = gates.profile.rate_limit_us(driver.transition_delay_us, latency_ns);
                Governor::Custom(Box::new(CustomGovernor::new(described, &driver, rate_limit_us)?))
            } else {
                governor_of(machine, &driver, policy, &gates, cluster, cpus.len(), adjust_perf)?
            };
            let (cur_khz, max_khz) = (described.opps[0].khz, described.opps[described.opps.len() - 1].khz);
            let (mut hwp, mut passive) = (None, None);
            if driver.driver == AMD_PSTATE_EPP && !custom {
                let started = epp_start(described, policy, BOOT_NS)?;
                governor = Governor::Hwp(Box::new(ActiveHwp::without_boost(started.request)));
                hwp = Some(started);
            }
            if let Some(intel) = &intel {
                if cpus.len() > 1 {
                    let name = &described.name;
                    return Err(CaseError(format!(
                        "intel_pstate has a policy for each CPU; cluster {name} shares one"
                    )));
                }
                let limits = FreqLimits { min_khz: cur_khz, max_khz };
                let top_khz = hardware.clusters[cluster as usize].top_khz();
                let started = intel.start(described, limits, top_khz, policy, &gates, BOOT_NS)?;
                governor = started.governor.filter(|_| !custom).unwrap_or(governor);
                (hwp, passive) = (started.hwp, started.passive);
            }
            policies.push(FreqPolicy {
                cluster,
                package,
                cpus,
                governor,
                cur_khz,
                switching_khz: None,
                wanted: 0,
                kthread: None,
                hwp,
                passive,
                changes: 0,
            });
        }
        let clusters: Vec<ClusterRun> = machine
            .clusters
            .iter()
            .map(|cluster| {
                let mut meter = Meter::default();
                meter.set(BOOT_NS, 0);
                ClusterRun {
                    idle_states: cluster
                        .idle
                        .iter()
                        .map(|state| IdleState {
                            exit_latency_ns: state.entry_latency_ns + state.exit_latency_ns,
                            target_residency_ns: state.target_residency_ns,
                            polling: state.name == "POLL",
                        })
                        .collect(),
                    entered: None,
                    meter,
                }
            })
            .collect();
        let slice_ns = gates.profile.base_slice_ns() * (1 + u64::from(nr.ilog2().min(3)));
        let cpus = (0..nr)
            .map(|cpu| {
                let cluster = machine.cpus[cpu].cluster;
                let described = &machine.clusters[cluster as usize];
                let capacity = u64::from(described.capacity);
                let mut meter = Meter::default();
                meter.set(BOOT_NS, 0);
                Cpu {
                    cluster,
                    policy: policy_of[cpu],
                    clk: RqClock::new(BOOT_NS, 0),
                    cfs: CfsAvg {
                        avg: SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() },
                        ..CfsAvg::default()
                    },
                    cfs_util_est: UtilEstPair::default(),
                    rt: SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() },
                    dl: SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() },
                    irq: SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() },
                    irq_time_ns: 0,
                    irq_overhead: 0,
                    fair: if gates.eevdf {
                        FairRq::Eevdf(EevdfRq::new(slice_ns, tick_ns))
                    } else {
                        FairRq::Cfs(CfsRq::new(CfsTunables::of_machine(nr as u32)))
                    },
                    fair_served: false,
                    dl_queue: Vec::new(),
                    dl_bw: DlRqBw::default(),
                    rt_queue: Vec::new(),
                    nr_running: 0,
                    nr_iowait: 0,
                    curr: IDLE_TASK,
                    account_ns: BOOT_NS,
                    overhead: 0,
                    capacity,
                    capacity_of: capacity,
                    freq_scale: 1024,
                    busy_ns: 0,
                    aperf: 0,
                    mperf: 0,
                    last_counters: (0, 0),
                    opp: 0,
                    speed: 1,
                    idle: IdleRun::default(),
                    idle_flips: WakeFlips::default(),
                    idle_calls: 0,
                    idle_total_ns: 0,
                    idle_since_ns: BOOT_NS,
                    idle_governor: (idle.new)(&gates.profile),
                    tick_stopped: false,
                    got_idle_tick: false,
                    rcu_until_ns: 0,
                    pending: Vec::new(),
                    wake_list: Vec::new(),
                    timers: Vec::new(),
                    wheel: Vec::new(),
                    need_resched: false,
                    skip_clock_update: false,
                    clamps: RqClamps::new(),
                    stopper_ran: false,
                    rt_push: false,
                    distribute: 0,
                    misfit_task_load: 0,
                    balance: RqBalance {
                        next_balance: BOOT_NS / tick_ns,
                        max_idle_balance_cost: 500_000,
                        avg_idle: 2 * 500_000,
                        ..RqBalance::default()
                    },
                    sis_prop: SisProp {
                        wake_avg_idle_ns: 2 * 500_000,
                        wake_stamp: BOOT_NS / tick_ns,
                        ..SisProp::default()
                    },
                    meter,
                    busy_ns_by_opp: vec![0; hardware.clusters[cluster as usize].points.len()],
                    time_ns_by_opp: vec![0; hardware.clusters[cluster as usize].points.len()],
                    opp_since_ns: BOOT_NS,
                    idle_ns_by_state: vec![0; described.idle.len().max(1) + 1],
                    idle_usage: vec![(0, 0); described.idle.len().max(1)],
                }
            })
            .collect();
        let mut masks = vec![CpuMask::all(nr)];
        masks.extend(case.workload.cpu_sets.iter().map(|set| set.iter().map(|&cpu| cpu as usize).collect()));
        let nr_slots =
            nr * SLOTS_A_CPU as usize + policies.len() + case.workload.devices.len() + hardware.packages.len();
        let single_cpu = masks.iter().map(|mask: &CpuMask| mask.as_set().weight() == 1).collect();
        let max_freq_ratio = max_freq_ratios(machine, policy, &gates)?;
        let eas = EasState::new(machine, &driver, policy, &gates, &topology)?;
        let capacities: Vec<u64> = (0..nr as u32).map(|cpu| machine.cluster_of(cpu).capacity.into()).collect();
        let (hz, jiffies) = (policy.hz.into(), BOOT_NS / tick_ns);
        let balancer = Balancer::new(Rc::clone(&topology.domains), &capacities, hz, jiffies, gates.nohz_next_kick);
        let nr_llcs = topology.llc_masks.len();
        let idle_like = gates.sched_idle_cpu && has_sched_idle(&case.workload);
        let next_sample = S::ENABLED && sink.sample_period_ns() > 0;
        Ok(Self {
            case,
            sink,
            hooks,
            fingerprint: Fingerprint::default(),
            gates,
            topology,
            hardware,
            intel,
            now: BOOT_NS,
            tick_ns,
            dbs_kworkers: false,
            queue: Queue::new(nr_slots),
            here: 0,
            in_interrupt: false,
            cpus,
            clusters,
            all_down_since_ns: 0,
            policies,
            tasks: Vec::new(),
            loops: Vec::new(),
            entities: Vec::new(),
            masks,
            single_cpu,
            driver,
            has_idle_cores: vec![false; nr_llcs],
            nr_idle_scan: vec![None; nr_llcs],
            objects: Objects::new(&case.workload, case.seed),
            resched: VecDeque::new(),
            irq_work: VecDeque::new(),
            timer_seq: 0,
            rng: Pcg64::new(case.seed.into(), RNG_STREAM),
            rt_overload: CpuMask::with_room(nr),
            scratch_mask: CpuMask::with_room(nr),
            dl_free: CpuMask::all(nr),
            dl_crowded: CpuMask::with_room(nr),
            dl_total_bw: 0,
            idle_mask: CpuMask::all(nr),
            idle_like_mask: idle_like.then(|| CpuMask::all(nr)),
            max_freq_ratio,
            stream: Stream::new(machine),
            overutilized: false,
            sd_overutilized: Vec::new(),
            uclamp_used: asks_for_clamps(&case.workload),
            overutilized_since_ns: BOOT_NS,
            eas,
            balancer,
            nr_main_left: case.workload.nr_main,
            next_sample_ns: if next_sample { BOOT_NS } else { u64::MAX },
            nr_decisions: 0,
            outcome: Outcome::default(),
            error: None,
            half_life: PhantomData,
        })
    }

    /// The state from which the run starts.
    pub(crate) fn start_at(mut self, start: &Start) -> Self {
        for (policy, &khz) in self.policies.iter_mut().zip(&start.khz) {
            policy.cur_khz = khz;
        }
        let divider = u64::from(get_pelt_divider::<H>(&SchedAvg::default()));
        for (state, &(util_avg, load_avg)) in self.cpus.iter_mut().zip(&start.blocked) {
            let avg = &mut state.cfs.avg;
            avg.util_avg = u64::from(util_avg).min(state.capacity);
            avg.runnable_avg = avg.util_avg;
            avg.load_avg = load_avg.into();
            (avg.util_sum, avg.runnable_sum) = ((avg.util_avg * divider) as u32, avg.runnable_avg * divider);
            avg.load_sum = avg.load_avg * divider;
        }
        self.dbs_kworkers = start.dbs_kworkers;
        for &(time_ns, cpu) in &start.wheel {
            if let Some(state) = self.cpus.get_mut(cpu as usize) {
                state.wheel.push((BOOT_NS.saturating_add(time_ns), 0, IDLE_TASK));
            }
        }
        for state in &mut self.cpus {
            state.wheel.sort_unstable_by(|one, other| other.cmp(one));
        }
        self
    }

    /// Starts the clocks, the kthreads and the first tasks.
    pub(crate) fn start(&mut self) {
        self.start_packages();
        for policy in 0..self.policies.len() as u32 {
            self.start_policy(policy);
        }
        let case = self.case;
        for (index, spec) in case.workload.tasks.iter().enumerate().filter(|(_, spec)| spec.initial) {
            let cpu = spec.spawn_cpu.unwrap_or(0);
            let task = self.add_task(index as u32, spec, &spec.ops, spec.cpus.map_or(0, |set| set + 1), cpu);
            self.add_timer(cpu, self.now + spec.delay_ns, task);
        }
        let watchdog_ns = self.watchdog_period_ns();
        for cpu in 0..self.cpus.len() as u32 {
            self.refresh_speed(cpu);
            if watchdog_ns > 0 {
                self.add_timer(cpu, self.now + watchdog_ns, IDLE_TASK);
            }
            self.arm_tick(cpu);
            self.enter_idle(cpu);
        }
    }

    /// A task that is not yet started.
    pub(crate) fn add_task(&mut self, index: u32, spec: &TaskSpec, ops: &'c [Op], allowed: u32, cpu: u32) -> u32 {
        let mut task = Task::new(index, spec, ops, allowed, cpu);
        task.loops = self.loops.len() as u32;
        self.loops.resize(self.loops.len() + usize::from(spec.loop_slots), 0);
        self.tasks.push(task);
        self.entities.push(SchedEntity::default());
        self.outcome.task_ns_by_cluster.push(vec![0; self.clusters.len()]);
        self.tasks.len() as u32 - 1
    }

    fn start_policy(&mut self, policy: u32) {
        let fixed = match self.policies[policy as usize].governor {
            Governor::Fixed(khz) => Some(khz),
            Governor::Schedutil(_)
            | Governor::Dbs(_)
            | Governor::Custom(_)
            | Governor::Pstate(_)
            | Governor::Hwp(_) => None,
        };
        let khz = fixed.unwrap_or(self.policies[policy as usize].cur_khz);
        self.slow_switch_done(policy, khz);
        for index in 0..self.policies[policy as usize].cpus.len() {
            let cpu = self.policies[policy as usize].cpus[index];
            let state = &self.cpus[cpu as usize];
            let khz = self.hardware.point(state.cluster, state.opp).khz;
            self.emit(Event::CpuFrequency { cpu, khz });
        }
        let governor = &self.policies[policy as usize].governor;
        let slow = matches!(governor, Governor::Schedutil(_) | Governor::Custom(_)) && !self.driver.fast_switch;
        let samples = matches!(governor, Governor::Dbs(_)) && self.dbs_kworkers;
        if !slow && !samples {
            return;
        }
        // The kthread "sugov:N" of the slow path: SCHED_DEADLINE with SCHED_FLAG_SUGOV.
        let cpus = self.policies[policy as usize].cpus.clone();
        let wanted = &self.case.policy.sugov_cpus;
        let mask: CpuMask =
            if wanted.is_empty() || samples { &cpus } else { wanted }.iter().map(|&cpu| cpu as usize).collect();
        self.single_cpu.push(mask.as_set().weight() == 1);
        self.masks.push(mask);
        let spec = TaskSpec {
            initial: false,
            policy: if samples {
                SchedPolicy::default()
            } else {
                SchedPolicy::Deadline { runtime_ns: 1_000_000, deadline_ns: 10_000_000, period_ns: 10_000_000 }
            },
            ..TaskSpec::default()
        };
        let task = self.add_task(u32::MAX, &spec, &[], self.masks.len() as u32 - 1, cpus[0]);
        let state = &mut self.tasks[task as usize];
        state.sugov = Some(policy);
        state.life = Life::Sleeping;
        if samples {
            self.init_entity_runnable_average(task);
            // It has slept for long.
            self.tasks[task as usize].sa = SchedAvg::default();
        }
        self.policies[policy as usize].kthread = Some(task);
    }

    /// What a task is called.
    pub(crate) fn task_name(&self, task: u32) -> String {
        let state = &self.tasks[task as usize];
        match state.sugov {
            Some(policy) => {
                let policy = &self.policies[policy as usize];
                let samples = matches!(policy.governor, Governor::Dbs(_));
                if samples { format!("kworker/{}:dbs", policy.cpus[0]) } else { format!("sugov:{}", policy.cpus[0]) }
            }
            None => self.case.workload.tasks[state.spec as usize].name.clone(),
        }
    }

    /// Everything that was measured from the start of the run up to now.
    pub(crate) fn totals(&mut self) -> Outcome {
        let now = self.now;
        let mut outcome = self.outcome.clone();
        outcome.wall_ns = self.wall_ns();
        if self.overutilized {
            outcome.overutilized_ns += now - self.overutilized_since_ns;
        }
        outcome.cluster_energy_fj = self
            .clusters
            .iter_mut()
            .map(|cluster| {
                cluster.meter.advance(now);
                cluster.meter.energy_fj()
            })
            .collect();
        for cpu in 0..self.cpus.len() as u32 {
            self.account_point(cpu);
            let idle = self.idle_now(cpu);
            let state = &mut self.cpus[cpu as usize];
            state.meter.advance(now);
            outcome.cluster_energy_fj[state.cluster as usize] += state.meter.energy_fj();
            outcome.busy_ns_by_opp.push(state.busy_ns_by_opp.clone());
            outcome.time_ns_by_opp.push(state.time_ns_by_opp.clone());
            outcome.time_ns_by_opp[cpu as usize][state.opp as usize] += now - state.opp_since_ns;
            outcome.idle_ns_by_state.push(state.idle_ns_by_state.clone());
            if let Some((index, ns)) = idle {
                outcome.idle_ns_by_state[cpu as usize][index] += ns;
            }
        }
        // The CPUs' accounts brought these up to now.
        outcome.task_ns_by_cluster.clone_from(&self.outcome.task_ns_by_cluster);
        for (times, task) in outcome.task_ns_by_cluster.iter_mut().zip(&self.tasks) {
            times[task.cluster as usize] += task.cluster_ns;
        }
        outcome.work_done = self.outcome.work_done;
        outcome.floor_energy_fj = u128::from(self.case.machine.floor_uw) * u128::from(outcome.wall_ns);
        let mut consumed = vec![0; self.case.machine.consumers.len()];
        for budget in self.hardware.packages.iter_mut().filter_map(|package| package.budget.as_mut()) {
            for (index, energy_fj) in budget.consumers_fj(now) {
                consumed[index] = energy_fj;
            }
        }
        let consumers = self.case.machine.consumers.iter().zip(consumed);
        outcome.consumers = consumers
            .map(|(spec, energy_fj)| Consumed {
                name: spec.name.clone(),
                energy_fj,
                frames: (energy_fj / (u128::from(spec.frame_uj) * FJ_PER_UJ)) as u64,
            })
            .collect();
        outcome.points = self.hardware.clusters.iter().map(|cluster| cluster.points.clone()).collect();
        outcome.freq_changes = self.policies.iter().map(|policy| policy.changes).collect();
        outcome.work_left = self
            .tasks
            .iter()
            .map(|task| if let Doing::Work { left, .. } = task.doing { u128::from(left) } else { 0 })
            .sum();
        outcome
    }

    /// The outcome of a run that has reached its end; `before` is what the warm-up had used.
    pub(crate) fn finish(mut self, before: &Outcome) -> Outcome {
        let mut outcome = self.totals();
        self.set_overutilized(false);
        if self.case.workload.nr_main > 0 && self.nr_main_left == 0 {
            outcome.finished_ns = Some(outcome.wall_ns);
        }
        outcome.task_names = (0..self.tasks.len() as u32).map(|task| self.task_name(task)).collect();
        outcome.fingerprint = self.fingerprint.value();
        outcome.subtract(before);
        outcome
    }
}

/// Whether some task of `workload` is ever of SCHED_IDLE.
fn has_sched_idle(workload: &Workload) -> bool {
    let sets = |op: &Op| matches!(op, Op::SetPolicy { policy: SchedPolicy::Idle });
    workload.tasks.iter().any(|task| task.policy == SchedPolicy::Idle || task.ops.iter().any(sets))
}

/// The driver that `policy` names; the machine's own, if none: of two modes the one that has the governor.
fn driver_of<'m>(machine: &'m Machine, policy: &Policy) -> Option<&'m Cpufreq> {
    let own = machine.driver(&policy.driver)?;
    let generic = !["performance", "powersave"].contains(&policy.governor.as_str());
    let passive = match own.driver.as_str() {
        "intel_pstate" => machine.driver("intel_cpufreq"),
        AMD_PSTATE_EPP => machine.driver("amd-pstate"),
        _ => None,
    };
    passive.filter(|_| policy.driver.is_empty() && generic).or(Some(own))
}

/// Refuses what the engine would stumble over.
fn check_workload(workload: &Workload, nr_cpus: u32) -> Result<(), CaseError> {
    let main = workload.tasks.get(..workload.nr_main as usize);
    if main.is_none_or(|tasks| tasks.iter().any(|task| !task.initial)) {
        return Err(CaseError(format!("{} tasks of workload {:?} are to end it", workload.nr_main, workload.name)));
    }
    for (index, set) in workload.cpu_sets.iter().enumerate() {
        if set.is_empty() {
            return Err(CaseError(format!("CPU set {index} of workload {:?} is empty", workload.name)));
        }
        if let Some(cpu) = set.iter().find(|&&cpu| cpu >= nr_cpus) {
            return Err(CaseError(format!(
                "workload {:?} wants CPU {cpu}, the machine has CPUs 0 to {}",
                workload.name,
                nr_cpus - 1
            )));
        }
    }
    let policies = |task: &TaskSpec| -> Vec<SchedPolicy> {
        let set = task.ops.iter().filter_map(|op| if let Op::SetPolicy { policy } = *op { Some(policy) } else { None });
        set.chain([task.policy]).collect()
    };
    for task in &workload.tasks {
        for policy in policies(task) {
            if let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns } = policy
                && !checkparam_dl(runtime_ns, deadline_ns, period_ns)
            {
                return Err(CaseError(format!(
                    "task {:?} asks for SCHED_DEADLINE with a runtime of {runtime_ns} ns, a deadline of {deadline_ns} ns and a period of \
                     {period_ns} ns: needed are 1024 ns <= runtime <= deadline <= period, and a period of 100 us to 4.19 s",
                    task.name
                )));
            }
        }
        let bad = |what: &str| Err(CaseError(format!("task {:?} refers to {what} that does not exist", task.name)));
        if task.cpus.is_some_and(|set| set as usize >= workload.cpu_sets.len()) {
            return bad("a CPU set");
        }
        if let Some(cpu) = task.spawn_cpu.filter(|&cpu| cpu >= nr_cpus) {
            return Err(CaseError(format!("task {:?} starts on CPU {cpu}, which does not exist", task.name)));
        }
        for op in &task.ops {
            let missing = match *op {
                Op::Lock { mutex } | Op::Unlock { mutex } => mutex >= workload.nr_mutexes,
                Op::Wait { cond, mutex } => cond >= workload.nr_conds || mutex >= workload.nr_mutexes,
                Op::Signal { cond } | Op::Broadcast { cond } | Op::Suspend { cond } | Op::Resume { cond } => {
                    cond >= workload.nr_conds
                }
                Op::Barrier { barrier } | Op::SpinBarrier { barrier, .. } => {
                    barrier as usize >= workload.barriers.len()
                }
                Op::RunListed { draw, slot, .. } => {
                    slot >= task.loop_slots || workload.draws.get(draw as usize).is_none_or(Vec::is_empty)
                }
                Op::RunDraw { draw, .. } => workload.draws.get(draw as usize).is_none_or(Vec::is_empty),
                Op::Call { service, .. } | Op::Accept { service, .. } => service >= workload.nr_services,
                Op::SemPost { sem } | Op::SemWait { sem } => sem as usize >= workload.semaphores.len(),
                Op::Timer { timer, own, .. } => timer >= if own { task.nr_own_timers } else { workload.nr_timers },
                Op::Send { channel, .. } | Op::TrySend { channel, .. } | Op::Recv { channel } => {
                    channel as usize >= workload.channels.len()
                }
                Op::Io { device, .. } | Op::IoWork { device, .. } => device as usize >= workload.devices.len(),
                Op::Fork { task } => task as usize >= workload.tasks.len(),
                Op::SetCpus { set: Some(set) } => set as usize >= workload.cpu_sets.len(),
                Op::LoopBegin { slot, .. } => slot >= task.loop_slots,
                Op::LoopEnd { slot, begin } => slot >= task.loop_slots || begin as usize >= task.ops.len(),
                _ => false,
            };
            if missing {
                return bad(&format!("something ({op:?})"));
            }
        }
    }
    Ok(())
}
