//! The beginning of a run: from a case to an engine.

use std::collections::{BTreeSet, VecDeque};
use std::marker::PhantomData;

use opplab_kernel::cpufreq::driver::{AmdMode, DriverKind, Governors};
use opplab_kernel::cpufreq::freq_table::Relation;
use opplab_kernel::cpufreq::governor::{GovernorSetup, Worker};
use opplab_kernel::cpuidle::{IDLE_GOVERNORS, idle_governor};
use opplab_kernel::pelt::{HalfLife, SchedAvg, get_pelt_divider};
use opplab_kernel::profile::{CfsFirstRuntime, CfsPeriodTimer, IntelHwpTarget, ResidualTick, Uclamp, XfsCil};
use opplab_kernel::proposals::Within;
use opplab_kernel::proposals::proposal::parse;
use opplab_kernel::sched::cfs::{CfsRq, CfsTunables};
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::eevdf::EevdfRq;
use opplab_kernel::sched::entity::SchedEntity;
use opplab_kernel::unit::tick_nsec;
use opplab_model::event::{Event, Sink};
use opplab_model::governor::governor_setup;
use opplab_model::machine::{CpuPlace, Cpufreq, Machine};
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload, Workqueue};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng as _;

use crate::cpufreq::amd::{AmdPassive, default_epp, epp_start};
use crate::cpufreq::freq_max::FreqMaxRatios;
use crate::cpufreq::freq_policy::{ActiveHwp, FreqPolicy, Governor, driver_of, governor_of};
use crate::cpufreq::intel::IntelSetup;
use crate::hardware::packages::Hardware;
use crate::ids::{ClusterId, CpuId, CpuSetId, GroupId, IdVec, PackageId, PolicyId, TaskId};
use crate::observe::journal::Journal;
use crate::run::agenda::Agenda;
use crate::run::case_check::check_case;
use crate::run::counted::Counted;
use crate::run::cpu::{BOOT_NS, ClusterRun, Cpu};
use crate::run::cpu_sets::CpuSets;
use crate::run::engine::Engine;
use crate::run::gates::Gates;
use crate::run::hooks::{CustomGovernor, Hooks};
use crate::run::objects::Objects;
use crate::run::resched::Resched;
use crate::run::stream::Stream;
use crate::run::task::{Life, NO_PROGRAM, Task};
use crate::run::timers::{RESIDUAL_TICK_NS, Timer, TimerKind};
use crate::sched::balancer::Balancer;
use crate::sched::eas_model::{EasState, NoEas};
use crate::sched::fair_rq::FairRq;
use crate::sched::groups::Groups;
use crate::sched::hybrid::{known_capacities, packing_priorities};
use crate::sched::idle_cpus::IdleCpus;
use crate::sched::overutilized::OverutilizedState;
use crate::sched::root_domain::RootDomain;
use crate::sched::rq_clamps::asks_for_clamps;
use crate::sched::topology::Topology;
use crate::{Case, CaseError, Outcome, Start, Wakes};

/// The seed's stream of the engine itself; programs have their own.
const RNG_STREAM: u128 = 0x6f70_706c_6162;
/// That of groups' period timers.
const TIMERS_STREAM: u128 = 0x6366_735f_6277;

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    pub(crate) fn new(case: &'c Case, sink: &'c mut S, hooks: Option<&'c mut dyn Hooks>) -> Result<Self, CaseError> {
        check_case(case)?;
        let machine = &case.machine;
        let policy = &case.policy;
        let nr = machine.nr_cpus();
        let gates = Gates::new(policy, machine)?;
        let mut driver = driver_of(machine, policy);
        let capacities = known_capacities(machine, policy, &gates.profile);
        let priorities = packing_priorities(machine, policy, driver.driver.kind, &gates.profile);
        let topology =
            Topology::new(machine, policy, &gates.profile, &case.workload.isolated_cpus(), &capacities, priorities);
        let intel = IntelSetup::new(machine, &mut driver, policy, &gates)?;
        let hardware = Hardware::new(machine, &driver, policy.no_turbo, BOOT_NS);
        let custom = hooks.as_ref().is_some_and(|hooks| hooks.governs());
        let policies = freq_policies(machine, policy, &driver, intel.as_ref(), &gates, &hardware, custom)?;
        let policies: IdVec<PolicyId, FreqPolicy> = policies.into();
        let tick_ns = tick_nsec(policy.hz.into());
        let mut cpus = cpus_at_boot(case, &gates, &hardware, &policies, tick_ns)?;
        for (cpu, &capacity) in cpus.iter_mut().zip(&capacities) {
            (cpu.capacity, cpu.capacity_of) = (capacity, capacity);
        }
        let nr_devices = case.workload.devices.len();
        let (hz, jiffies) = (policy.hz.into(), BOOT_NS / tick_ns);
        let balancer = Balancer::new(&topology, &capacities, hz, jiffies, &gates.profile);
        let mut cpu_sets = CpuSets::new(&topology, &case.workload.cpu_sets);
        let mut timers_rng = Pcg64::new(case.seed.into(), TIMERS_STREAM);
        let interleaved = gates.profile.cfs_period_timer == CfsPeriodTimer::Interleaved;
        let offset_ns = |period_ns: u64| if interleaved { timers_rng.next_u64() % period_ns } else { 0 };
        let first_ns = i64::from(gates.profile.cfs_first_runtime == CfsFirstRuntime::OneNs);
        let queue = || new_fair_rq(&gates, nr, tick_ns);
        let groups = Groups::new(&case.workload, nr, &mut cpu_sets, offset_ns, first_ns, queue);
        let nr_in_domains = topology.excluded.iter().filter(|&&excluded| !excluded).count();
        let nr_llcs = topology.llc_masks.len();
        let idle_like = gates.sched_idle_cpu && has_sched_idle(&case.workload);
        Ok(Self {
            case,
            journal: Journal::new(sink),
            hooks,
            freq_max: FreqMaxRatios::new(machine, policy, &gates)?,
            eas: EasState::new(machine, &driver, policy, &gates, &topology)?.ok(),
            agenda: Agenda::new(nr, policies.len(), nr_devices, hardware.packages.len()),
            gates,
            topology,
            hardware,
            intel,
            now: BOOT_NS,
            rt_period_start_ns: 0,
            tick_ns,
            wakes: Wakes::default(),
            wakes_late: false,
            tick_late_ns: Vec::new(),
            takes_turns: false,
            here: CpuId(0),
            in_interrupt: false,
            cpus,
            clusters: machine.clusters.iter().map(|cluster| ClusterRun::new(cluster, &case.policy)).collect(),
            all_down_since_ns: 0,
            kept_khz: 0,
            policies,
            tasks: IdVec::new(),
            loops: Vec::new(),
            entities: groups.entities(),
            groups,
            cpu_sets,
            driver,
            objects: Objects::new(&case.workload, case.seed),
            resched: Resched::default(),
            irq_work: VecDeque::new(),
            timer_seq: 0,
            rng: Pcg64::new(case.seed.into(), RNG_STREAM),
            rd: RootDomain::new(nr, nr_in_domains),
            idle_cpus: IdleCpus::new(nr, nr_llcs, idle_like),
            stream: Stream::new(machine),
            overutilized: OverutilizedState::new(BOOT_NS),
            sd_overutilized: Vec::new(),
            uclamp_used: asks_for_clamps(case)
                && gates.profile.uclamp == Uclamp::Present
                && !gates.profile.proposals.uclamp_sum,
            balancer,
            policy,
            changes_done: 0,
            nr_main_left: case.workload.nr_main,
            counted: Counted::default(),
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
        if !self.stream.shared {
            self.wakes.clone_from(&start.wakes);
            self.tick_late_ns.clone_from(&start.tick_late_ns);
            self.takes_turns = start.takes_turns;
        }
        self.wakes_late = !start.wakes.is_empty() && !self.stream.shared;
        for &(time_ns, cpu) in &start.wheel {
            if let Some(state) = self.cpus.get_mut(CpuId(cpu)) {
                let latest_ns = BOOT_NS.saturating_add(time_ns);
                state.timers.add_to_wheel(Timer { latest_ns, seq: 0, kind: TimerKind::Kernel });
            }
        }
        self
    }

    /// Starts the clocks, the kthreads and the first tasks.
    pub(crate) fn start(&mut self) {
        self.start_packages();
        for policy in self.policies.ids() {
            // A policy without a CPU online does not exist.
            if self.policies[policy].cpus.iter().any(|&cpu| !self.topology.offline[cpu]) {
                self.start_policy(policy);
            }
        }
        for cpu in self.cpus.ids() {
            self.update_cpu_capacity(cpu);
        }
        self.balancer.sgc = self.topology.domains.group_capacities(|cpu| self.cpus[CpuId::of(cpu)].capacity_of);
        let case = self.case;
        let groups = case.workload.group_of_tasks();
        for (index, spec) in case.workload.tasks.iter().enumerate().filter(|(_, spec)| spec.initial) {
            let cpu = self.spawn_cpu(spec);
            let group = groups[index].map_or(GroupId::ROOT, |group| GroupId(group + 1));
            let task = self.add_task(index as u32, spec, &spec.ops, CpuSetId::of_workload(spec.cpus), cpu, group);
            self.tasks[task].is_background = index >= case.workload.nr_own();
            self.add_timer(cpu, self.now + spec.delay_ns, TimerKind::Wake(task));
        }
        let watchdog_ns = self.watchdog_period_ns();
        for cpu in self.cpus.ids() {
            self.refresh_speed(cpu);
            if self.topology.offline[cpu] {
                self.enter_idle(cpu);
                continue;
            }
            if watchdog_ns > 0 && !self.topology.nohz_full[cpu] {
                self.add_timer(cpu, self.now + watchdog_ns, TimerKind::Watchdog);
            }
            self.arm_tick(cpu);
            self.enter_idle(cpu);
        }
        self.start_remote_ticks();
    }

    /// core.c:sched_tick_start(): the work is unbound, and is taken to stay on the first CPU that has housekeeping.
    fn start_remote_ticks(&mut self) {
        let (topology, cpus) = (&self.topology, || self.cpus.ids());
        let keeps = |cpu: &CpuId| !topology.nohz_full[*cpu] && !topology.offline[*cpu];
        let Some(keeper) = cpus().filter(keeps).min_by_key(|&cpu| topology.excluded[cpu]) else { return };
        let full: Vec<CpuId> = cpus().filter(|&cpu| topology.nohz_full[cpu]).collect();
        if self.gates.profile.residual_tick == ResidualTick::Remote {
            for cpu in full {
                self.add_timer(keeper, self.now + RESIDUAL_TICK_NS, TimerKind::RemoteTick(cpu));
            }
        }
    }

    /// Where the parent of a task of the start runs: CPU 0, or the first that is left to tasks.
    fn spawn_cpu(&self, spec: &TaskSpec) -> CpuId {
        let wanted = spec.spawn_cpu.map(CpuId);
        let usable = |cpu: &CpuId| !self.topology.offline[*cpu];
        wanted
            .filter(usable)
            .or_else(|| self.topology.excluded.ids().find(|&cpu| !self.topology.excluded[cpu]))
            .unwrap_or(CpuId(0))
    }

    /// A task that is not yet started.
    pub(crate) fn add_task(
        &mut self,
        index: u32,
        spec: &TaskSpec,
        ops: &'c [Op],
        wanted: CpuSetId,
        cpu: CpuId,
        group: GroupId,
    ) -> TaskId {
        let mut task = Task::new(index, spec, ops, wanted, cpu);
        task.allowed = self.groups.allowed(&mut self.cpu_sets, wanted, group);
        task.group = group;
        task.program = self.program_of(spec);
        task.is_bound_worker = match spec.workqueue {
            None => false,
            Some(Workqueue::Bound) => true,
            Some(Workqueue::XfsCil) => self.gates.profile.xfs_cil == XfsCil::Bound,
        };
        task.loops = self.loops.len() as u32;
        self.loops.resize(self.loops.len() + usize::from(spec.loop_slots), 0);
        self.tasks.push(task);
        self.entities.push(SchedEntity::default());
        self.outcome.task_ns_by_cluster.push(vec![0; self.clusters.len()]);
        let task = TaskId::of(self.tasks.len() - 1);
        self.journal.policy(self.now - BOOT_NS, task, spec.policy);
        if self.tasks[task].allowed != CpuSetId::ALL {
            self.tell_affinity(task);
        }
        task
    }

    /// The class of programs that `spec` names.
    fn program_of(&self, spec: &TaskSpec) -> u16 {
        if spec.class.is_empty() {
            return NO_PROGRAM;
        }
        let classes = &self.case.machine.program_classes;
        classes.iter().position(|class| class.name == spec.class).map_or(NO_PROGRAM, |index| index as u16)
    }

    fn start_policy(&mut self, policy: PolicyId) {
        self.start_governor(policy);
        self.cpufreq_update_pressure(policy);
        self.start_thread(policy);
    }

    /// The governor starts, and the policy takes the frequency that it has at first.
    pub(super) fn start_governor(&mut self, policy: PolicyId) {
        let state = &mut self.policies[policy];
        let limits = state.limits;
        // cpufreq_start_governor() passes the limits after the start, so that the first report always decides.
        let fixed = match &mut state.governor {
            Governor::Fixed(khz) => Some((*khz, Relation::L)),
            Governor::Kernel { worker, state: Some(governor) } => {
                let khz = governor.limits(limits, state.cur_khz).filter(|_| *worker == Worker::Nobody);
                khz.map(|khz| (khz, governor.relation()))
            }
            _ => None,
        };
        let khz = fixed.map_or(state.cur_khz, |(khz, relation)| self.passive_khz(policy, khz, relation));
        self.slow_switch_done(policy, khz);
        for index in 0..self.policies[policy].cpus.len() {
            let cpu = self.policies[policy].cpus[index];
            let state = &self.cpus[cpu];
            let khz = self.hardware.point(state.cluster, state.opp).khz;
            self.emit(Event::CpuFrequency { cpu: cpu.0, khz });
            self.tell_freq_scale(cpu);
        }
    }

    /// The thread that changes the frequency, where the governor needs one.
    pub(super) fn start_thread(&mut self, policy: PolicyId) {
        let governor = &self.policies[policy].governor;
        let by_kthread = matches!(governor, Governor::Kernel { worker: Worker::Kthread, .. } | Governor::Custom(_));
        let slow = by_kthread && !self.driver.fast_switch;
        let samples = governor.samples();
        let state = &self.policies[policy];
        let has_one = if samples { state.kworker.is_some() } else { state.kthread.is_some() };
        if !slow && !samples || has_one {
            return;
        }
        // The kthread "sugov:N" of the slow path: SCHED_DEADLINE with SCHED_FLAG_SUGOV. Samples are a bound kworker's.
        let cpus = self.policies[policy].cpus.clone();
        let wanted = &self.case.policy.sugov_cpus;
        let mask: CpuMask = if wanted.is_empty() || samples {
            cpus.iter().map(|cpu| cpu.index()).collect()
        } else {
            wanted.iter().map(|&cpu| cpu as usize).collect()
        };
        let mask: CpuMask = mask.as_set().iter().filter(|&cpu| !self.topology.offline[CpuId::of(cpu)]).collect();
        let allowed = self.cpu_sets.add(mask);
        let spec = TaskSpec {
            initial: false,
            policy: if samples {
                SchedPolicy::default()
            } else {
                SchedPolicy::Deadline {
                    runtime_ns: 1_000_000,
                    deadline_ns: 10_000_000,
                    period_ns: 10_000_000,
                    reclaim: false,
                }
            },
            ..TaskSpec::default()
        };
        let first = cpus.iter().copied().find(|&cpu| !self.topology.offline[cpu]).unwrap_or(cpus[0]);
        let task = self.add_task(u32::MAX, &spec, &[], allowed, first, GroupId::ROOT);
        let state = &mut self.tasks[task];
        state.sugov = Some(policy);
        state.life = Life::Sleeping;
        if samples {
            self.init_entity_runnable_average(task);
            // It has slept for long.
            self.tasks[task].sa = SchedAvg::default();
            self.tasks[task].is_bound_worker = true;
            self.policies[policy].kworker = Some(task);
        } else {
            self.policies[policy].kthread = Some(task);
        }
    }
}

/// Whether the kernel of a case has utilisation clamps.
///
/// # Errors
/// [`CaseError`] for a kernel that is not known.
pub(crate) fn has_clamps(case: &Case) -> Result<bool, CaseError> {
    Ok(Gates::new(&case.policy, &case.machine)?.profile.uclamp == Uclamp::Present)
}

/// f_max of each cluster, where the kernel of a case follows the clock.
///
/// # Errors
/// [`CaseError`] for what is not known.
pub(crate) fn freq_max_ratios(case: &Case) -> Result<Option<Vec<u64>>, CaseError> {
    let gates = Gates::new(&case.policy, &case.machine)?;
    let ratios = FreqMaxRatios::new(&case.machine, &case.policy, &gates)?;
    Ok(gates.freq_invariant.then(|| ratios.by_cluster()))
}

/// Whether some task of `workload` is ever of SCHED_IDLE.
fn has_sched_idle(workload: &Workload) -> bool {
    let sets = |op: &Op| matches!(op, Op::SetPolicy { policy: SchedPolicy::Idle });
    workload.tasks.iter().any(|task| task.policy == SchedPolicy::Idle || task.ops.iter().any(sets))
}

/// Why a case runs without energy-aware scheduling; `None` if it has it.
///
/// # Errors
/// [`CaseError`] as of a run.
pub(crate) fn why_no_eas(case: &Case) -> Result<Option<NoEas>, CaseError> {
    check_case(case)?;
    let (machine, policy) = (&case.machine, &case.policy);
    let gates = Gates::new(policy, machine)?;
    let mut driver = driver_of(machine, policy);
    let capacities = known_capacities(machine, policy, &gates.profile);
    let priorities = packing_priorities(machine, policy, driver.driver.kind, &gates.profile);
    let topology =
        Topology::new(machine, policy, &gates.profile, &case.workload.isolated_cpus(), &capacities, priorities);
    IntelSetup::new(machine, &mut driver, policy, &gates)?;
    Ok(EasState::new(machine, &driver, policy, &gates, &topology)?.err())
}

/// Whether real-time tasks of a case avoid CPUs only because its kernel is taken to have CONFIG_UCLAMP_TASK: nothing in the case asks for
/// clamps, and a CPU that such a task may use is below its boost.
///
/// # Errors
/// [`CaseError`] for a kernel that is not known.
pub(crate) fn boosted_by_build(case: &Case) -> Result<bool, CaseError> {
    let (machine, policy, workload) = (&case.machine, &case.policy, &case.workload);
    let gates = Gates::new(policy, machine)?;
    let capacities = known_capacities(machine, policy, &gates.profile);
    let boost = u64::from(policy.sched_util_clamp_min_rt_default.min(policy.sched_util_clamp_min));
    let is_realtime =
        |policy: &SchedPolicy| matches!(policy, SchedPolicy::Fifo { .. } | SchedPolicy::RoundRobin { .. });
    let becomes = |op: &Op| matches!(op, Op::SetPolicy { policy } if is_realtime(policy));
    let chooses = |task: &TaskSpec| {
        let allowed = |cpu: usize| match task.cpus {
            Some(set) => workload.cpu_sets[set as usize].contains(&(cpu as u32)),
            None => true,
        };
        let of = || capacities.iter().enumerate().filter(|(cpu, _)| allowed(*cpu)).map(|(_, &capacity)| capacity);
        of().min() != of().max() && of().min() < Some(boost)
    };
    let mut realtime = workload.tasks.iter().filter(|task| is_realtime(&task.policy) || task.ops.iter().any(becomes));
    Ok(gates.rt_by_clamp && !asks_for_clamps(case) && realtime.any(chooses))
}

/// The preferences of which it is assumed what the firmware makes of them, ascending.
///
/// # Errors
/// [`CaseError`] as of a run.
pub(crate) fn assumed_preferences(case: &Case) -> Result<Vec<u8>, CaseError> {
    check_case(case)?;
    let (machine, policy) = (&case.machine, &case.policy);
    let gates = Gates::new(policy, machine)?;
    let mut driver = driver_of(machine, policy);
    let intel = IntelSetup::new(machine, &mut driver, policy, &gates)?;
    let hardware = Hardware::new(machine, &driver, policy.no_turbo, BOOT_NS);
    let policies = freq_policies(machine, policy, &driver, intel.as_ref(), &gates, &hardware, false)?;
    // A governor whose level is asked for leaves nothing to the firmware.
    let adjust_perf = intel.is_some_and(|intel| intel.adjust_perf());
    let asks = |policy: &FreqPolicy| {
        adjust_perf || policy.passive.is_some_and(|passive| passive.form == IntelHwpTarget::Desired)
    };
    let left = policies.iter().filter(|policy| !asks(policy));
    let found = left.filter_map(|policy| policy.hwp.as_ref()?.assumed_preference());
    Ok(found.collect::<BTreeSet<_>>().into_iter().collect())
}

/// A policy of the case, and those that it changes to.
fn policies_of(case: &Case) -> impl Iterator<Item = &Policy> {
    std::iter::once(&case.policy).chain(case.policy.changes.iter().map(|change| &change.policy))
}

/// Whether a case runs without energy-aware scheduling, and with it under schedutil; tunables and later settings are the governor's.
///
/// # Errors
/// [`CaseError`] as of a run.
pub(crate) fn eas_needs_schedutil(case: &Case) -> Result<bool, CaseError> {
    for policy in policies_of(case) {
        if why_no_eas(&Case { policy: policy.clone(), ..case.clone() })?.is_none() {
            return Ok(false);
        }
    }
    let (tunables, changes) = (Vec::new(), Vec::new());
    let policy = Policy { governor: String::from("schedutil"), tunables, changes, ..case.policy.clone() };
    // A driver may not have that governor.
    Ok(why_no_eas(&Case { policy, ..case.clone() }).is_ok_and(|why| why.is_none()))
}

pub(crate) fn unreached_proposals(case: &Case) -> Result<Vec<(&'static str, Within)>, CaseError> {
    let mut unreached = Vec::new();
    for text in &case.policy.proposals {
        let (entry, _) = parse(text).map_err(|error| CaseError(error.to_string()))?;
        let Some(within) = entry.within else { continue };
        let mut is_reached = false;
        for policy in policies_of(case) {
            is_reached |= match within {
                Within::EnergyAware => why_no_eas(&Case { policy: policy.clone(), ..case.clone() })?.is_none(),
                Within::Governor(name) => policy.governor == name,
                Within::IdleGovernor(name) => policy.idle_governor == name,
            };
        }
        if !is_reached {
            unreached.push((entry.name, within));
        }
    }
    Ok(unreached)
}

/// The frequency policies of the machine as the driver and the governor start them; `custom`: the governor is the caller's.
///
/// # Errors
/// [`CaseError`] for governors, tunables and modes that do not exist on this machine.
pub(super) fn freq_policies(
    machine: &Machine,
    policy: &Policy,
    driver: &Cpufreq,
    intel: Option<&IntelSetup>,
    gates: &Gates,
    hardware: &Hardware,
    custom: bool,
) -> Result<Vec<FreqPolicy>, CaseError> {
    if custom && matches!(driver.driver.governors, Governors::Own { .. }) {
        let name = driver.driver.name;
        return Err(CaseError(format!("driver {name} has the governors performance and powersave, and no other")));
    }
    let adjust_perf = intel.is_some_and(IntelSetup::adjust_perf);
    let mut policies = Vec::new();
    for (cluster, cpus) in machine.policies() {
        let described = &machine.clusters[cluster as usize];
        let amd = AmdPassive::start(
            driver,
            described,
            policy,
            (gates.profile.amd_pstate, gates.profile.amd_min_freq),
            BOOT_NS,
        )?;
        if amd.is_some() && cpus.len() > 1 {
            let name = &described.name;
            return Err(CaseError(format!("amd-pstate has a policy for each CPU; cluster {name} shares one")));
        }
        let adjust_perf = adjust_perf || amd.is_some() && driver.fast_switch;
        let setup = governor_setup(machine, driver, policy, cluster, cpus.len())?;
        let (amd, mut hwp) = amd.unzip();
        let limits = amd.as_ref().map_or(setup.limits, AmdPassive::limits);
        let setup = GovernorSetup { adjust_perf, ..setup };
        let mut governor = match custom {
            true => Governor::Custom(Box::new(CustomGovernor::new(described, setup))),
            false => governor_of(policy, &setup)?,
        };
        let mut passive = None;
        // A policy starts at its lowest.
        let mut cur_khz = limits.min_khz;
        if driver.driver.kind == DriverKind::Amd(AmdMode::Active) {
            let of_active = (gates.profile.amd_min_freq, default_epp(&gates.profile, machine.pm_profile));
            let started = epp_start((described, driver), policy, of_active, BOOT_NS)?;
            governor = Governor::Hwp(Box::new(ActiveHwp::without_boost(started.request)));
            hwp = Some(started);
        }
        if let Some(intel) = intel {
            if cpus.len() > 1 {
                let name = &described.name;
                return Err(CaseError(format!("intel_pstate has a policy for each CPU; cluster {name} shares one")));
            }
            let top_khz = hardware.clusters[ClusterId(cluster)].top_khz();
            let started = intel.start(described, top_khz, (policy, limits), gates, BOOT_NS)?;
            governor = started.governor.filter(|_| !custom).unwrap_or(governor);
            (hwp, passive) = (started.hwp, started.passive);
            cur_khz = cur_khz.max(started.min_khz);
        }
        policies.push(FreqPolicy {
            cluster: ClusterId(cluster),
            package: PackageId(machine.cpus[cpus[0] as usize].package),
            cpus: cpus.into_iter().map(CpuId).collect(),
            governor,
            limits,
            cur_khz,
            switching_khz: None,
            answered_khz: None,
            decided_ns: None,
            switching_for_ns: None,
            wanted: 0,
            kthread: None,
            kworker: None,
            hwp,
            passive,
            amd,
            changes: 0,
        });
    }
    Ok(policies)
}

/// An empty queue of the fair class on a machine of `nr` CPUs.
fn new_fair_rq(gates: &Gates, nr: usize, tick_ns: u64) -> FairRq {
    if gates.eevdf {
        let slice_ns = gates.profile.base_slice_ns() * (1 + u64::from(nr.ilog2().min(3)));
        let mut queue = EevdfRq::new(slice_ns, tick_ns);
        queue.features = gates.features;
        FairRq::Eevdf(queue)
    } else {
        let mut queue = CfsRq::new(CfsTunables::of_machine(nr as u32));
        queue.wakeup_preemption = gates.features.wakeup_preemption;
        FairRq::Cfs(queue)
    }
}

/// The CPUs, all idle.
///
/// # Errors
/// [`CaseError`] if there is no such idle governor.
fn cpus_at_boot(
    case: &Case,
    gates: &Gates,
    hardware: &Hardware,
    policies: &IdVec<PolicyId, FreqPolicy>,
    tick_ns: u64,
) -> Result<IdVec<CpuId, Cpu>, CaseError> {
    let (machine, policy) = (&case.machine, &case.policy);
    let idle = idle_governor(&policy.idle_governor).ok_or_else(|| {
        let known: Vec<&str> = IDLE_GOVERNORS.iter().map(|entry| entry.name).collect();
        CaseError(format!("unknown idle governor {:?}; known: {}", policy.idle_governor, known.join(", ")))
    })?;
    let nr = machine.nr_cpus();
    let mut policy_of = vec![PolicyId(0); nr];
    for (index, policy) in policies.ids().zip(policies) {
        for &cpu in &policy.cpus {
            policy_of[cpu.index()] = index;
        }
    }
    let cpu_at_boot = |(place, policy): (&CpuPlace, PolicyId)| {
        let fair = new_fair_rq(gates, nr, tick_ns);
        let described = &machine.clusters[place.cluster as usize];
        let nr_points = hardware.clusters[ClusterId(place.cluster)].points.len();
        let idle_governor = (idle.new)(&gates.profile);
        Cpu::new(ClusterId(place.cluster), described, policy, nr_points, fair, idle_governor, tick_ns)
    };
    Ok(machine.cpus.iter().zip(policy_of).map(cpu_at_boot).collect())
}
