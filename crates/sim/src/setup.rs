//! The beginning and the end of a run: from a case to an engine, from an engine to an outcome.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpuidle::{IDLE_GOVERNORS, IdleState, idle_governor};
use opplab_kernel::pelt::{HalfLife, SchedAvg};
use opplab_kernel::sched::attach::CfsAvg;
use opplab_kernel::sched::cfs::{CfsRq, CfsTunables};
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::eevdf::EevdfRq;
use opplab_kernel::sched::entity::SchedEntity;
use opplab_kernel::sched::newidle::RqBalance;
use opplab_kernel::unit::tick_nsec;
use opplab_kernel::util_est::UtilEstPair;
use opplab_model::event::{Event, Fingerprint, IDLE_TASK, Sink};
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use rand_pcg::Pcg64;

use crate::balance::Balancer;
use crate::clamps::{RqClamps, asks_for_clamps};
use crate::cpufreq::{FreqPolicy, Governor, governor_of, max_freq_ratios, policies_of};
use crate::cpuidle::IdleRun;
use crate::eas::EasState;
use crate::energy::Meter;
use crate::engine::{BOOT_NS, ClusterRun, Cpu, Engine, SLOTS_A_CPU};
use crate::fair::FairRq;
use crate::gates::Gates;
use crate::objects::Objects;
use crate::queue::Queue;
use crate::stream::Stream;
use crate::task::{Doing, Life, Task};
use crate::topology::Topology;
use crate::{Case, CaseError, Outcome};

/// The seed's stream of the engine itself; programs have their own.
const RNG_STREAM: u128 = 0x6f70_706c_6162;

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    pub(crate) fn new(case: &'c Case, sink: &'c mut S) -> Result<Self, CaseError> {
        let machine = &case.machine;
        let policy = &case.policy;
        let nr = machine.nr_cpus();
        if nr == 0 {
            return Err(CaseError(String::from("the machine has no CPU")));
        }
        if case.duration_ns == 0 || case.duration_ns > 1 << 52 {
            return Err(CaseError(format!("a run of {} ns is not possible", case.duration_ns)));
        }
        if !(24..=10_000).contains(&policy.hz) {
            return Err(CaseError(format!("hz is {}; a kernel has 100, 250, 300 or 1000", policy.hz)));
        }
        check_workload(&case.workload, nr as u32)?;
        let gates = Gates::new(policy, machine)?;
        let driver = machine.driver(&policy.driver).cloned().ok_or_else(|| {
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
        let tick_ns = tick_nsec(policy.hz.into());
        let mut policies = Vec::new();
        let mut policy_of = vec![0; nr];
        for (cluster, cpus) in policies_of(machine) {
            for &cpu in &cpus {
                policy_of[cpu as usize] = policies.len() as u32;
            }
            let governor = governor_of(machine, &driver, policy, &gates, cluster, cpus.len(), tick_ns)?;
            let cur_khz = machine.clusters[cluster as usize].opps[0].khz;
            policies.push(FreqPolicy {
                cluster,
                cpus,
                governor,
                cur_khz,
                switching_khz: None,
                kthread: None,
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
                    fair: if gates.eevdf {
                        FairRq::Eevdf(EevdfRq::new(slice_ns, tick_ns))
                    } else {
                        FairRq::Cfs(CfsRq::new(CfsTunables::of_machine(nr as u32)))
                    },
                    dl_queue: Vec::new(),
                    rt_queue: Vec::new(),
                    nr_running: 0,
                    nr_iowait: 0,
                    curr: IDLE_TASK,
                    account_ns: BOOT_NS,
                    overhead_ns: 0,
                    capacity,
                    capacity_of: capacity,
                    freq_scale: 1024,
                    aperf: 0,
                    mperf: 0,
                    last_counters: (0, 0),
                    opp: 0,
                    speed: 1,
                    idle: IdleRun::default(),
                    idle_calls: 0,
                    idle_total_ns: 0,
                    idle_since_ns: BOOT_NS,
                    idle_governor: (idle.new)(),
                    tick_stopped: false,
                    pending: Vec::new(),
                    wake_list: Vec::new(),
                    timers: Vec::new(),
                    need_resched: false,
                    clamps: RqClamps::new(),
                    stopper_ran: false,
                    misfit_task_load: 0,
                    balance: RqBalance {
                        next_balance: BOOT_NS / tick_ns,
                        max_idle_balance_cost: 500_000,
                        avg_idle: 2 * 500_000,
                        ..RqBalance::default()
                    },
                    meter,
                    busy_ns_by_opp: vec![0; described.opps.len()],
                    time_ns_by_opp: vec![0; described.opps.len()],
                    opp_since_ns: BOOT_NS,
                    idle_ns_by_state: vec![0; described.idle.len().max(1) + 1],
                }
            })
            .collect();
        let mut masks = vec![CpuMask::all(nr)];
        masks.extend(case.workload.cpu_sets.iter().map(|set| set.iter().map(|&cpu| cpu as usize).collect()));
        let nr_slots = nr * SLOTS_A_CPU as usize + policies.len() + case.workload.devices.len();
        let single_cpu = masks.iter().map(|mask: &CpuMask| mask.as_set().weight() == 1).collect();
        let max_freq_ratio = max_freq_ratios(machine, policy, &gates)?;
        let eas = EasState::new(machine, &driver, policy, &gates, &topology)?;
        let capacities: Vec<u64> = (0..nr as u32).map(|cpu| machine.cluster_of(cpu).capacity.into()).collect();
        let balancer = Balancer::new(Rc::clone(&topology.domains), &capacities, policy.hz.into(), BOOT_NS / tick_ns);
        let nr_llcs = topology.llc_masks.len();
        Ok(Self {
            case,
            sink,
            fingerprint: Fingerprint::default(),
            gates,
            topology,
            now: BOOT_NS,
            tick_ns,
            queue: Queue::new(nr_slots),
            here: 0,
            in_interrupt: false,
            cpus,
            clusters,
            policies,
            tasks: Vec::new(),
            entities: Vec::new(),
            masks,
            single_cpu,
            driver,
            has_idle_cores: vec![false; nr_llcs],
            nr_idle_scan: vec![None; nr_llcs],
            objects: Objects::new(&case.workload),
            resched: VecDeque::new(),
            timer_seq: 0,
            rng: Pcg64::new(case.seed.into(), RNG_STREAM),
            idle_mask: CpuMask::all(nr),
            max_freq_ratio,
            stream: Stream::new(machine.shared_stream),
            overutilized: false,
            uclamp_used: asks_for_clamps(&case.workload),
            overutilized_since_ns: BOOT_NS,
            eas,
            balancer,
            nohz_idle: CpuMask::with_room(nr),
            outcome: Outcome::default(),
            error: None,
            half_life: PhantomData,
        })
    }

    /// The frequency at which each policy starts, in kHz.
    pub(crate) fn start_at(mut self, start_khz: &[u32]) -> Self {
        for (policy, &khz) in self.policies.iter_mut().zip(start_khz) {
            policy.cur_khz = khz;
        }
        self
    }

    /// Starts the clocks, the kthreads and the first tasks.
    pub(crate) fn start(&mut self) {
        for policy in 0..self.policies.len() as u32 {
            self.start_policy(policy);
        }
        let case = self.case;
        for (index, spec) in case.workload.tasks.iter().enumerate().filter(|(_, spec)| spec.initial) {
            let cpu = spec.spawn_cpu.unwrap_or(0);
            let task = self.add_task(index as u32, spec, spec.cpus.map_or(0, |set| set + 1), cpu);
            self.add_timer(cpu, self.now + spec.delay_ns, task);
        }
        for cpu in 0..self.cpus.len() as u32 {
            self.refresh_speed(cpu);
            self.arm_tick(cpu);
            self.enter_idle(cpu);
        }
    }

    fn add_task(&mut self, index: u32, spec: &TaskSpec, allowed: u32, cpu: u32) -> u32 {
        self.tasks.push(Task::new(index, spec, allowed, cpu));
        self.entities.push(SchedEntity::default());
        self.outcome.task_ns_by_cluster.push(vec![0; self.clusters.len()]);
        self.tasks.len() as u32 - 1
    }

    fn start_policy(&mut self, policy: u32) {
        let fixed = match self.policies[policy as usize].governor {
            Governor::Fixed(khz) => Some(khz),
            Governor::Schedutil(_) | Governor::Dbs(_) => None,
        };
        let khz = fixed.unwrap_or(self.policies[policy as usize].cur_khz);
        self.slow_switch_done(policy, khz);
        for index in 0..self.policies[policy as usize].cpus.len() {
            let cpu = self.policies[policy as usize].cpus[index];
            let khz = self.case.machine.cluster_of(cpu).opps[self.cpus[cpu as usize].opp as usize].khz;
            self.emit(Event::CpuFrequency { cpu, khz });
        }
        let slow =
            matches!(self.policies[policy as usize].governor, Governor::Schedutil(_)) && !self.driver.fast_switch;
        if !slow {
            return;
        }
        // The kthread "sugov:N" of the slow path: SCHED_DEADLINE with SCHED_FLAG_SUGOV.
        let cpus = self.policies[policy as usize].cpus.clone();
        let wanted = &self.case.policy.sugov_cpus;
        let mask: CpuMask = if wanted.is_empty() { &cpus } else { wanted }.iter().map(|&cpu| cpu as usize).collect();
        self.single_cpu.push(mask.as_set().weight() == 1);
        self.masks.push(mask);
        let spec = TaskSpec {
            name: format!("sugov:{}", cpus[0]),
            initial: false,
            policy: SchedPolicy::Deadline { runtime_ns: 1_000_000, deadline_ns: 10_000_000, period_ns: 10_000_000 },
            ..TaskSpec::default()
        };
        let task = self.add_task(u32::MAX, &spec, self.masks.len() as u32 - 1, cpus[0]);
        let state = &mut self.tasks[task as usize];
        state.sugov = Some(policy);
        state.life = Life::Sleeping;
        self.policies[policy as usize].kthread = Some(task);
    }

    /// The outcome of a run that has reached its end.
    pub(crate) fn finish(mut self) -> Outcome {
        for cpu in 0..self.cpus.len() as u32 {
            self.account(cpu);
            self.close_idle(cpu);
        }
        let now = self.now;
        self.set_overutilized(false);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.wall_ns = self.wall_ns();
        outcome.cluster_energy_fj = self
            .clusters
            .iter_mut()
            .map(|cluster| {
                cluster.meter.advance(now);
                cluster.meter.energy_fj()
            })
            .collect();
        for cpu in &mut self.cpus {
            cpu.meter.advance(now);
            outcome.cluster_energy_fj[cpu.cluster as usize] += cpu.meter.energy_fj();
            cpu.time_ns_by_opp[cpu.opp as usize] += now - cpu.opp_since_ns;
            outcome.busy_ns_by_opp.push(std::mem::take(&mut cpu.busy_ns_by_opp));
            outcome.time_ns_by_opp.push(std::mem::take(&mut cpu.time_ns_by_opp));
            outcome.idle_ns_by_state.push(std::mem::take(&mut cpu.idle_ns_by_state));
        }
        outcome.floor_energy_fj = u128::from(self.case.machine.floor_uw) * u128::from(outcome.wall_ns);
        outcome.freq_changes = self.policies.iter().map(|policy| policy.changes).collect();
        outcome.task_names = self
            .tasks
            .iter()
            .map(|task| match task.sugov {
                Some(policy) => format!("sugov:{}", self.policies[policy as usize].cpus[0]),
                None => self.case.workload.tasks[task.spec as usize].name.clone(),
            })
            .collect();
        outcome.work_left = self
            .tasks
            .iter()
            .map(|task| if let Doing::Work { left, .. } = task.doing { u128::from(left) } else { 0 })
            .sum();
        outcome.fingerprint = self.fingerprint.value();
        outcome
    }
}

/// Refuses what the engine would stumble over.
fn check_workload(workload: &Workload, nr_cpus: u32) -> Result<(), CaseError> {
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
    for task in &workload.tasks {
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
                Op::Barrier { barrier } => barrier as usize >= workload.barriers.len(),
                Op::SemPost { sem } | Op::SemWait { sem } => sem as usize >= workload.semaphores.len(),
                Op::Timer { timer, own, .. } => timer >= if own { task.nr_own_timers } else { workload.nr_timers },
                Op::Send { channel, .. } | Op::Recv { channel } => channel as usize >= workload.channels.len(),
                Op::Io { device, .. } => device as usize >= workload.devices.len(),
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
