//! Random machines, workloads and policies for swarm tests (feature `testing`): anything that files can hold, drawn from
//! a seed, so that a failing case is named by one number.
//!
//! What is drawn is valid: every machine survives the round trip as TOML, every workload passes
//! [`Workload::check`]. Every loop takes time, every lock is given back, and a condition is waited for with its mutex
//! held; tasks may still wait for ever, because the one that would wake them has ended.

use rand_core::Rng;
use rand_pcg::Pcg64;

use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpuidle::IDLE_GOVERNORS;
use opplab_kernel::profile::PROFILES;

use crate::case::CaseFile;
use crate::groups::{GroupSpec, Quota};
use crate::machine::{
    Cluster, Consumer, Costs, CppcCaps, CpuPlace, Cpufreq, HwpCaps, IdleState, InvarianceSource, Machine, Opp,
    PackagePower, PmProfile, PolicyShare, Thermal, TurboBin,
};
use crate::policy::Policy;
use crate::policy_values::{EnergyModelSource, HwpDynamicBoost, Placement};
use crate::program_class::{ClassOn, ProgramClass};
use crate::start::Start;
use crate::workload::{ChannelSpec, DeviceSpec, Op, PhaseSpec, SchedPolicy, TaskSpec, Workload, Workqueue};

/// What may be drawn; narrow it to what is to be tested.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// Most CPUs.
    pub nr_cpus_max: u32,
    /// Most tasks that start with the run.
    pub nr_tasks_max: u32,
    /// Governors to draw from.
    pub governors: Vec<&'static str>,
    /// Kernel profiles to draw from.
    pub kernels: Vec<&'static str>,
    /// Idle governors to draw from.
    pub idle_governors: Vec<&'static str>,
    /// Whether tasks are drawn of classes other than the fair one.
    pub classes: bool,
    /// Whether channels and block devices are drawn.
    pub io: bool,
    /// Shortest and longest simulated time in ns.
    pub duration_ns: (u64, u64),
    /// Whether machines are drawn with what limits a grant (turbo bins, ...).
    pub limits: bool,
}

impl Default for Swarm {
    fn default() -> Self {
        Self {
            nr_cpus_max: 256,
            nr_tasks_max: 200,
            governors: GovernorId::all().map(|known| known.entry().name).collect(),
            kernels: PROFILES.iter().map(|&(name, ..)| name).collect(),
            idle_governors: IDLE_GOVERNORS.iter().map(|entry| entry.name).collect(),
            classes: true,
            io: true,
            duration_ns: (1_000_000, 200_000_000),
            limits: false,
        }
    }
}

/// Draws from one stream of a seed.
struct Draw(Pcg64);

impl Draw {
    fn new(seed: u64, stream: u128) -> Self {
        Self(Pcg64::new(seed.into(), stream))
    }

    /// A number `min..=max`.
    fn int(&mut self, min: u64, max: u64) -> u64 {
        assert!(min <= max);
        let span = u128::from(max - min) + 1;
        min + (u128::from(self.0.next_u64()) % span) as u64
    }

    fn u32(&mut self, min: u32, max: u32) -> u32 {
        self.int(min.into(), max.into()) as u32
    }

    /// A number `min..=max`, each power of two as likely as the next: small ones come often, large ones come.
    fn skewed(&mut self, min: u64, max: u64) -> u64 {
        let bits = self.int(0, u64::from(u64::BITS - (max - min).leading_zeros()));
        min + self.int(0, (1u64 << bits).wrapping_sub(1).min(max - min))
    }

    /// True in `percent` of all draws.
    fn chance(&mut self, percent: u64) -> bool {
        self.int(1, 100) <= percent
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.int(0, items.len() as u64 - 1) as usize].clone()
    }
}

impl Swarm {
    /// A whole case.
    pub fn case(&self, seed: u64) -> CaseFile {
        let machine = self.machine(seed);
        CaseFile {
            experiment: String::from("swarm"),
            benchmark: String::from("random"),
            param: format!("seed={seed}"),
            iteration: 0,
            seed,
            duration_ns: Draw::new(seed, 1).int(self.duration_ns.0, self.duration_ns.1),
            workload: self.workload(seed, &machine).into(),
            policy: self.policy(seed, &machine),
            start: Start::default(),
            machine: machine.into(),
        }
    }

    /// A machine.
    pub fn machine(&self, seed: u64) -> Machine {
        let draw = &mut Draw::new(seed, 2);
        let nr_cpus = draw.skewed(1, self.nr_cpus_max.max(1).into()) as u32;
        let nr_clusters = draw.skewed(1, u64::from(nr_cpus.min(8))) as u32;
        // Threads of a core are numbered as on x86: all first threads before all second ones, or side by side.
        let smt = nr_cpus.is_multiple_of(2 * nr_clusters) && draw.chance(30);
        let interleaved = draw.chance(30);
        let mut cluster_of: Vec<u32> = (0..nr_cpus).map(|cpu| cpu % nr_clusters).collect();
        if !interleaved {
            cluster_of.sort_unstable();
        }
        let mut cpus_of: Vec<Vec<u32>> = vec![Vec::new(); nr_clusters as usize];
        for (cpu, &cluster) in cluster_of.iter().enumerate() {
            cpus_of[cluster as usize].push(cpu as u32);
        }
        let biggest = draw.u32(0, nr_clusters - 1);
        let symmetric = draw.chance(30);
        let clusters: Vec<Cluster> = (0..nr_clusters)
            .map(|index| {
                let capacity = if index == biggest || symmetric { 1024 } else { draw.u32(64, 1024) };
                random_cluster(draw, index, cpus_of[index as usize].clone(), capacity)
            })
            .collect();
        // The two threads of a core are neighbours within their cluster's list.
        let mut core: Vec<u32> = (0..nr_cpus).collect();
        if smt {
            for (next, pair) in cpus_of.iter().flat_map(|cpus| cpus.chunks(2)).enumerate() {
                for &cpu in pair {
                    core[cpu as usize] = next as u32;
                }
            }
        }
        let nr_nodes = if draw.chance(20) { draw.u32(1, nr_clusters) } else { 1 };
        let one_llc = nr_nodes == 1 && draw.chance(30);
        let cpus = (0..nr_cpus as usize)
            .map(|cpu| {
                let cluster = cluster_of[cpu];
                let node = cluster % nr_nodes;
                let llc = if one_llc { 0 } else { cluster };
                CpuPlace { cluster, core: core[cpu], llc, node, package: node }
            })
            .collect();
        let distance = |a: u32, b: u32| if a == b { 10 } else { 10 + 10 * a.abs_diff(b) };
        let invariance = if draw.chance(50) { InvarianceSource::FreqChange } else { InvarianceSource::CountersAtTick };
        let drivers = ["scmi", "cppc_cpufreq"].map(|name| random_driver(draw, name));
        let [cpufreq, cppc] = drivers;
        let cost = |draw: &mut Draw| if draw.chance(30) { 0 } else { draw.skewed(0, 20_000) };
        let mut machine = Machine {
            name: format!("random-{seed}"),
            provenance: String::from("drawn at random"),
            cpus,
            clusters,
            numa_distance: (0..nr_nodes).map(|a| (0..nr_nodes).map(|b| distance(a, b)).collect()).collect(),
            cpufreq,
            other_drivers: vec![cppc],
            invariance,
            costs: Costs {
                context_switch_ns: cost(draw),
                wakeup_ns: cost(draw),
                ipi_ns: cost(draw),
                tick_ns: cost(draw),
                sugov_work_ns: cost(draw),
            },
            floor_uw: draw.skewed(0, 100_000_000),
            smt_yield: if smt { draw.u32(256, 1024) } else { 1024 },
            smt_power: if smt { draw.u32(0, 1024) } else { 1024 },
            cluster_idle_together: draw.chance(20),
            package_clock: draw.chance(20),
            tsc_khz: 0,
            turbo_freq_ratio: 0,
            shared_stream: draw.chance(5),
            ..Machine::default()
        };
        if self.limits {
            limit(&mut Draw::new(seed, 5), &mut machine);
        }
        machine.constant_speed = Draw::new(seed, 10).chance(10);
        let draw = &mut Draw::new(seed, 9);
        machine.shared_follows_machine = draw.chance(20);
        machine.pause_cycles = Draw::new(seed, 11).u32(1, 1000);
        let on = |cluster: &Cluster| ClassOn {
            capacity: cluster.capacity,
            mem_share: draw.u32(0, 1024),
            power: draw.u32(200, 4096),
        };
        let on = machine.clusters.iter().map(on).collect();
        machine.program_classes = vec![ProgramClass { name: String::from("some"), on }];
        machine
    }

    /// A policy that fits the machine.
    pub fn policy(&self, seed: u64, machine: &Machine) -> Policy {
        let draw = &mut Draw::new(seed, 3);
        let models = [EnergyModelSource::None, EnergyModelSource::Registered, EnergyModelSource::Artificial];
        let nr_cpus = machine.nr_cpus() as u32;
        let mut policy = Policy {
            label: String::from("random"),
            kernel: draw.pick(&self.kernels).to_owned(),
            driver: draw.pick(&["", "scmi", "cppc_cpufreq"]).to_owned(),
            governor: draw.pick(&self.governors).to_owned(),
            idle_governor: draw.pick(&self.idle_governors).to_owned(),
            eas: draw.chance(60),
            energy_model: draw.pick(&models),
            hz: draw.pick(&[100, 250, 300, 1000]),
            pelt_half_life_ms: draw.pick(&[8, 16, 32, 32, 32]),
            sugov_cpus: if draw.chance(10) { vec![draw.u32(0, nr_cpus - 1)] } else { Vec::new() },
            no_overutilized: draw.chance(10),
            reversed_energy_model: draw.chance(10),
            placement: if draw.chance(10) { Placement::Random } else { Placement::Kernel },
            irq_time_accounting: Draw::new(seed, 7).chance(30),
            ..Policy::default()
        };
        if machine.driver(&policy.driver).is_some_and(|driver| !driver.dvfs_possible_from_any_cpu) {
            policy.sugov_cpus.clear();
        } else if !policy.sugov_cpus.is_empty() {
            policy.gates.push((String::from("sugov_affinity"), String::from("free")));
        }
        let draw = &mut Draw::new(seed, 14);
        if draw.chance(20) {
            let states = machine.clusters.iter().flat_map(|cluster| &cluster.idle);
            policy.idle_disable = states.filter(|_| draw.chance(40)).map(|state| state.name.clone()).collect();
            policy.cpu_dma_latency_us = draw.skewed(0, 2_000_000_000) as u32;
        }
        if self.limits {
            // A stream of its own: what else is drawn stays the same.
            let draw = &mut Draw::new(seed, 6);
            policy.no_turbo = draw.chance(20);
            if machine.cpufreq.driver.kind == DriverKind::IntelActive {
                policy.driver = draw.pick(&["", "", "intel_pstate", "intel_cpufreq"]).to_owned();
                policy.governor = draw.pick(&["powersave", "powersave", "performance", &policy.governor]).to_owned();
                policy.no_hwp = draw.chance(30);
                policy.idle_boost = policy.driver != "intel_cpufreq" && draw.chance(30);
                policy.epp = draw.pick(&["", "performance", "balance_power", "77", "255"]).to_owned();
                let boosts = [HwpDynamicBoost::Auto, HwpDynamicBoost::On, HwpDynamicBoost::Off];
                policy.hwp_dynamic_boost = draw.pick(&boosts);
            }
        }
        policy
    }

    /// A workload that fits the machine.
    pub fn workload(&self, seed: u64, machine: &Machine) -> Workload {
        let (draw, irqs, cores) = (&mut Draw::new(seed, 4), &mut Draw::new(seed, 8), &mut Draw::new(seed, 11));
        let nr_cpus = machine.nr_cpus() as u32;
        let nr_tasks = draw.skewed(1, self.nr_tasks_max.max(1).into()) as u32;
        let nr_templates = if draw.chance(30) { draw.u32(1, 2) } else { 0 };
        let cpu_sets: Vec<Vec<u32>> = (0..draw.int(0, 3)).map(|_| random_cpus(draw, nr_cpus)).collect();
        let io = if self.io { draw.int(0, 2) } else { 0 };
        let mut workload = Workload {
            name: String::from("random"),
            cpu_sets,
            nr_mutexes: draw.u32(0, 3),
            nr_lines: cores.u32(0, 2),
            smt_yield: cores.chance(30).then(|| cores.u32(1, 1024)),
            nr_conds: draw.u32(0, 3),
            barriers: (0..draw.int(0, 2)).map(|_| draw.skewed(1, nr_tasks.into()) as u32).collect(),
            semaphores: (0..draw.int(0, 2)).map(|_| draw.u32(0, 3)).collect(),
            nr_timers: draw.u32(0, 2),
            cumulative_slack: draw.chance(20),
            channels: (0..io)
                .map(|_| ChannelSpec { capacity_bytes: draw.skewed(1, 65_536) as u32, sync_wakeup: draw.chance(50) })
                .collect(),
            devices: (0..io)
                .map(|_| DeviceSpec {
                    service_ns: draw.skewed(1, 10_000_000),
                    per_kib_ns: draw.skewed(0, 10_000),
                    bus_per_kib_ns: if draw.chance(50) { draw.skewed(0, 10_000) } else { 0 },
                    queue_depth: draw.skewed(1, 256) as u32,
                    irq_cpu: draw.chance(50).then(|| draw.u32(0, nr_cpus - 1)),
                    irq_ns: if irqs.chance(50) { irqs.skewed(0, 200_000) } else { 0 },
                    rq_affinity: irqs.chance(50),
                })
                .collect(),
            nr_services: draw.u32(0, 2),
            draws: (0..draw.int(0, 2))
                .map(|_| (0..draw.int(1, 16)).map(|_| draw.skewed(0, 5_000_000)).collect())
                .collect(),
            ..Workload::default()
        };
        for index in 0..nr_tasks + nr_templates {
            let initial = index < nr_tasks;
            let template = (initial && nr_templates > 0).then_some(nr_tasks);
            let task = self.task(draw, &workload, nr_cpus, index, initial, template);
            workload.tasks.push(task);
        }
        if nr_templates == 0 && draw.chance(20) {
            workload.nr_main = draw.u32(1, nr_tasks);
        }
        let groups = &mut Draw::new(seed, 12);
        if groups.chance(40) {
            random_groups(groups, &mut workload);
            random_moves(&mut Draw::new(seed, 13), &mut workload);
        }
        workload.warmup_ns = if draw.chance(20) { draw.int(1, 999_999) } else { 0 };
        workload.check(nr_cpus as usize).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        workload
    }

    /// A task. `template` is what it may fork.
    fn task(
        &self,
        draw: &mut Draw,
        shared: &Workload,
        nr_cpus: u32,
        index: u32,
        initial: bool,
        template: Option<u32>,
    ) -> TaskSpec {
        let nr_own_timers = draw.u32(0, 2);
        let mut ops: Vec<Op> = Vec::new();
        let mut phases: Vec<PhaseSpec> = Vec::new();
        // What is forked must end, or there would be ever more of them.
        let outer = if initial && draw.chance(60) { None } else { Some(draw.u32(1, 4)) };
        ops.push(Op::LoopBegin { slot: 0, count: outer });
        for _ in 0..draw.int(1, 3) {
            let begin = ops.len() as u32;
            let inner = draw.chance(60);
            if inner {
                ops.push(Op::LoopBegin { slot: 1, count: Some(draw.skewed(1, 200) as u32) });
            }
            // Every loop takes time.
            ops.push(Op::Run { work_ns: draw.skewed(1_000, 30_000_000), fixed: random_fixed(draw) });
            let mut timed = false;
            for _ in 0..draw.int(0, 6) {
                timed |= self.step(draw, &mut ops, shared, nr_own_timers, template);
            }
            ops.push(Op::Activation { phase: phases.len() as u16, timed });
            phases.push(PhaseSpec { name: format!("p{}", phases.len()), run_ns: 0, period_ns: 0 });
            if inner {
                ops.push(Op::LoopEnd { slot: 1, begin });
            }
        }
        ops.push(Op::LoopEnd { slot: 0, begin: 0 });
        ops.push(Op::Exit);
        TaskSpec {
            name: format!("task{index}"),
            initial,
            delay_ns: draw.skewed(0, 30_000_000),
            policy: self.sched_policy(draw),
            class: if index % 3 == 1 { String::from("some") } else { String::new() },
            cpus: random_set(draw, shared),
            spawn_cpu: draw.chance(50).then(|| draw.u32(0, nr_cpus - 1)),
            seasoned: index % 4 == 3,
            workqueue: [None, Some(Workqueue::Bound), None, Some(Workqueue::XfsCil)][index as usize % 4],
            assumed_bandwidth: index % 8 == 7,
            ops,
            loop_slots: 2,
            nr_own_timers,
            phases,
        }
    }

    /// One step, or a few that belong together; whether it was a timer.
    fn step(
        &self,
        draw: &mut Draw,
        ops: &mut Vec<Op>,
        shared: &Workload,
        nr_own_timers: u32,
        template: Option<u32>,
    ) -> bool {
        let index = |draw: &mut Draw, len: usize| draw.u32(0, len as u32 - 1);
        match draw.int(0, 22) {
            0..=2 => {
                let ns = draw.skewed(0, 20_000_000);
                match ns % 8 {
                    1 => ops.push(Op::TimersFrom { ns }),
                    3 => ops.push(Op::SetTimerSlack { ns: ns / 64 }),
                    5 => ops.push(Op::TimersByTick),
                    _ => {}
                }
                ops.push(Op::Sleep { ns });
            }
            3 => ops.push(Op::Run { work_ns: draw.skewed(0, 20_000_000), fixed: random_fixed(draw) }),
            4 => {
                let wall_ns = draw.skewed(0, 5_000_000);
                ops.push(match shared.nr_lines {
                    lines if lines > 0 && wall_ns % 4 == 1 => {
                        Op::Contend { line: (wall_ns / 4) as u32 % lines, hold_ns: wall_ns / 16 }
                    }
                    lines if lines > 0 && wall_ns % 4 == 3 => Op::Share {
                        line: (wall_ns / 4) as u32 % lines,
                        fetch_ns: (wall_ns / 16) as u32,
                        every: (wall_ns / 64) as u32 % 8,
                    },
                    _ => Op::Runtime { wall_ns },
                });
            }
            5..=7 => {
                let own = nr_own_timers > 0 && (shared.nr_timers == 0 || draw.chance(70));
                let nr = if own { nr_own_timers } else { shared.nr_timers };
                if nr > 0 {
                    let timer = draw.u32(0, nr - 1);
                    let period_ns = draw.skewed(0, 32_000_000);
                    ops.push(Op::Timer { timer, period_ns, absolute: draw.chance(30), own });
                    return true;
                }
            }
            8 if shared.nr_mutexes > 0 => {
                let mutex = index(draw, shared.nr_mutexes as usize);
                let work_ns = draw.skewed(0, 2_000_000);
                let unlock = if work_ns % 4 == 3 { Op::HandOver { mutex } } else { Op::Unlock { mutex } };
                ops.extend([Op::Lock { mutex }, Op::Run { work_ns, fixed: 0 }, unlock]);
            }
            9 if shared.nr_mutexes > 0 && shared.nr_conds > 0 => {
                let mutex = index(draw, shared.nr_mutexes as usize);
                let cond = index(draw, shared.nr_conds as usize);
                ops.extend([Op::Lock { mutex }, Op::Wait { cond, mutex }, Op::Unlock { mutex }]);
            }
            10 if shared.nr_conds > 0 => {
                let cond = index(draw, shared.nr_conds as usize);
                let wakes = [Op::Signal { cond }, Op::Broadcast { cond }, Op::Resume { cond }, Op::Suspend { cond }];
                ops.push(draw.pick(&wakes));
            }
            11 if !shared.barriers.is_empty() => {
                ops.push(Op::Barrier { barrier: index(draw, shared.barriers.len()) });
            }
            12 if !shared.semaphores.is_empty() => {
                let sem = index(draw, shared.semaphores.len());
                ops.push(draw.pick(&[Op::SemPost { sem }, Op::SemWait { sem }]));
            }
            13 => {
                let skip = draw.pick(&[Op::Skip { count: 1 }, Op::SkipInTick { count: 1 }]);
                ops.extend([skip, draw.pick(&[Op::Yield, Op::CallRcu]), Op::Count]);
            }
            14 => match draw.int(0, 2) {
                0 => ops.push(Op::SetCpus { set: random_set(draw, shared) }),
                1 => ops.push(Op::SetPolicy { policy: self.sched_policy(draw) }),
                _ => {
                    let clamp = |draw: &mut Draw| draw.chance(60).then(|| draw.int(0, 1024) as u16);
                    ops.push(Op::SetUclamp { min: clamp(draw), max: clamp(draw) });
                }
            },
            15 => {
                if let Some(task) = template {
                    ops.push(Op::Fork { task });
                    if draw.chance(70) {
                        ops.push(Op::WaitChild);
                    }
                }
            }
            16 if !shared.channels.is_empty() => {
                let channel = index(draw, shared.channels.len());
                // A message that is larger than its channel would never fit.
                let most = shared.channels[channel as usize].capacity_bytes;
                let bytes = draw.skewed(1, most.into()) as u32;
                let op =
                    draw.pick(&[Op::Send { channel, bytes }, Op::TrySend { channel, bytes }, Op::Recv { channel }]);
                let back = bytes % shared.channels.len() as u32;
                match op {
                    Op::Send { .. } if bytes % 3 == 1 => ops.push(Op::SendFrom { channel, bytes, back }),
                    Op::Recv { .. } if bytes % 3 == 1 => ops.extend([op, Op::SendBack { bytes: bytes % 1024 }]),
                    op => ops.push(op),
                }
            }
            17 if !shared.devices.is_empty() => {
                let device = index(draw, shared.devices.len());
                let bytes = draw.skewed(1, 1 << 20) as u32;
                ops.push(match draw.u32(0, 2) {
                    0 => Op::Io { device, bytes },
                    1 if shared.nr_services > 0 => {
                        Op::IoEnd { device, bytes, service: draw.u32(0, shared.nr_services - 1) }
                    }
                    _ => Op::IoWork { device, bytes },
                });
            }
            18 if !shared.draws.is_empty() => {
                let (table, fixed) = (index(draw, shared.draws.len()), random_fixed(draw));
                ops.push(if fixed % 2 == 1 {
                    Op::RunListed { draw: table, slot: fixed / 2 % 2, fixed }
                } else {
                    Op::RunDraw { draw: table, fixed }
                });
            }
            19 if !shared.barriers.is_empty() => {
                let barrier = index(draw, shared.barriers.len());
                ops.push(Op::SpinBarrier { barrier, spin_ns: draw.skewed(0, 5_000_000) });
            }
            20 => ops.push(Op::Exec),
            21 if shared.nr_services > 0 => {
                let service = draw.u32(0, shared.nr_services - 1);
                ops.push(Op::Call { service, iowait: draw.chance(50) });
            }
            22 if shared.nr_services > 0 => {
                let service = draw.u32(0, shared.nr_services - 1);
                ops.extend([Op::Accept { service, calls_max: draw.skewed(1, 100) as u32 }, Op::Reply]);
            }
            _ => {}
        }
        false
    }

    fn sched_policy(&self, draw: &mut Draw) -> SchedPolicy {
        let nice = draw.int(0, 39) as i8 - 20;
        if !self.classes || draw.chance(80) {
            return draw.pick(&[SchedPolicy::Other { nice }, SchedPolicy::default(), SchedPolicy::Batch { nice }]);
        }
        match draw.int(0, 3) {
            0 => SchedPolicy::Idle,
            1 => SchedPolicy::Fifo { priority: draw.int(1, 99) as u8 },
            2 => SchedPolicy::RoundRobin { priority: draw.int(1, 99) as u8 },
            _ => {
                let period_ns = draw.int(2_000_000, 50_000_000);
                let deadline_ns = draw.int(1_500_000, period_ns);
                // Few CPUs admit many of them.
                let runtime_ns = draw.int(1_000_000, deadline_ns) / 16;
                SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim: runtime_ns.is_multiple_of(2) }
            }
        }
    }
}

fn random_fixed(draw: &mut Draw) -> u16 {
    if draw.chance(70) { 0 } else { draw.int(0, 1024) as u16 }
}

/// A hierarchy of up to five groups with settings, and tasks in it.
fn random_groups(draw: &mut Draw, workload: &mut Workload) {
    let nr = draw.u32(1, 5);
    for index in 0..nr {
        let parent = (index > 0 && draw.chance(60)).then(|| draw.u32(0, index - 1));
        let above = parent.map_or("", |parent| workload.groups[parent as usize].name.as_str());
        let mut group = GroupSpec { parent, ..GroupSpec::new(format!("{above}/g{index}")) };
        group.idle = draw.chance(10);
        group.shares = if group.idle { 3 } else { draw.skewed(2, 100_000) as u32 };
        group.quota = draw.chance(50).then(|| {
            // Short ones are throttled within a run.
            let period_ns = draw.skewed(1, 1000) * 1_000_000;
            let quota_ns = draw.skewed(1_000_000, 2 * period_ns);
            Quota { quota_ns, period_ns, burst_ns: if draw.chance(30) { draw.int(0, quota_ns) } else { 0 } }
        });
        group.cpus = random_set(draw, workload);
        let alone = parent.is_none() && workload.groups.iter().all(|group| !group.isolated);
        group.isolated = alone && group.cpus.is_some() && draw.chance(40);
        if draw.chance(20) {
            (group.uclamp_min, group.uclamp_max) = (draw.u32(0, 1024) as u16, draw.u32(0, 1024) as u16);
        }
        workload.groups.push(group);
    }
    for task in 0..workload.tasks.len() as u32 {
        if draw.chance(70) {
            workload.groups[draw.u32(0, nr - 1) as usize].tasks.push(task);
        }
    }
}

/// Tasks that move themselves or others between groups in between, or change the groups' CPUs.
fn random_moves(draw: &mut Draw, workload: &mut Workload) {
    let [nr_tasks, nr_groups, nr_sets] =
        [workload.tasks.len(), workload.groups.len(), workload.cpu_sets.len()].map(|nr| nr as u32);
    for task in &mut workload.tasks {
        while draw.chance(40) {
            let place = draw.u32(0, task.ops.len() as u32 - 1);
            let other = draw.chance(60).then(|| draw.u32(0, nr_tasks - 1));
            let group = draw.chance(80).then(|| draw.u32(0, nr_groups - 1));
            let cpus = draw.u32(0, nr_groups - 1);
            let op = if draw.chance(25) && !workload.groups[cpus as usize].isolated {
                let set = (nr_sets > 0 && draw.chance(70)).then(|| draw.u32(0, nr_sets - 1));
                Op::SetGroupCpus { group: cpus, set }
            } else {
                Op::SetGroup { task: other, group }
            };
            task.ops.insert(place as usize, op);
            for op in &mut task.ops {
                if let Op::LoopEnd { begin, .. } = op {
                    *begin += u32::from(*begin >= place);
                }
            }
        }
    }
}

fn random_set(draw: &mut Draw, shared: &Workload) -> Option<u32> {
    (!shared.cpu_sets.is_empty() && draw.chance(30)).then(|| draw.u32(0, shared.cpu_sets.len() as u32 - 1))
}

fn random_cpus(draw: &mut Draw, nr_cpus: u32) -> Vec<u32> {
    let percent = draw.int(10, 90);
    let mut cpus: Vec<u32> = (0..nr_cpus).filter(|_| draw.chance(percent)).collect();
    if cpus.is_empty() {
        cpus.push(draw.u32(0, nr_cpus - 1));
    }
    cpus
}

fn random_driver(draw: &mut Draw, name: &str) -> Cpufreq {
    let transition_latency_ns = draw.skewed(0, 10_000_000);
    Cpufreq {
        driver: DriverId::named(name).expect("a driver"),
        transition_latency_ns,
        transition_delay_us: if draw.chance(70) { 0 } else { draw.skewed(0, 20_000) as u32 },
        fast_switch: draw.chance(50),
        switch_ns: if draw.chance(50) { transition_latency_ns } else { draw.skewed(0, 5_000_000) },
        switch_quantiles: Vec::new(),
        dvfs_possible_from_any_cpu: draw.chance(50),
        freq_table: name != "cppc_cpufreq",
    }
}

fn random_cluster(draw: &mut Draw, index: u32, cpus: Vec<u32>, capacity: u32) -> Cluster {
    let nr_opps = draw.skewed(1, 16);
    let mut opps: Vec<Opp> = Vec::new();
    let mut khz = draw.u32(100, 1000) * 1000;
    let mut power_uw = draw.skewed(1_000, 500_000);
    let mut cluster_uw = draw.skewed(0, 50_000);
    for _ in 0..nr_opps {
        let busy_uw = if draw.chance(50) { power_uw } else { power_uw * draw.int(50, 150) / 100 };
        opps.push(Opp {
            khz,
            mv: if draw.chance(50) { 0 } else { draw.u32(500, 1200) },
            power_uw,
            busy_uw,
            cluster_uw,
            idle_uw: (busy_uw % 3 == 0).then_some(busy_uw / 16),
            cluster_idle_uw: (busy_uw % 5 == 0).then_some(busy_uw / 32),
        });
        khz += draw.u32(1, 400) * 1000;
        // Not every energy model is monotonic; some states are inefficient.
        power_uw += draw.skewed(1, 1_000_000);
        cluster_uw += draw.skewed(0, 20_000);
    }
    let (lowest_khz, highest_khz) = (opps[0].khz, opps[opps.len() - 1].khz);
    let highest_perf = 100 * capacity;
    let lowest_perf = ((u64::from(highest_perf) * u64::from(lowest_khz) / u64::from(highest_khz)) as u32).max(1);
    let (nr_idle, nr_cluster_idle) = (draw.int(0, 4), draw.int(0, 1));
    let mut states = |nr: u64, prefix: &str, latencies: bool| -> Vec<IdleState> {
        let mut residency_ns = 0;
        let mut power_uw = draw.skewed(0, 100_000);
        (0..nr)
            .map(|state| {
                residency_ns += draw.skewed(0, 3_000_000);
                power_uw = draw.int(0, power_uw);
                IdleState {
                    name: format!("{prefix}{state}"),
                    entry_latency_ns: if latencies { draw.skewed(0, 500_000) } else { 0 },
                    exit_latency_ns: if latencies { draw.skewed(0, 2_000_000) } else { 0 },
                    wake_ns: None,
                    target_residency_ns: residency_ns,
                    power_uw,
                }
            })
            .collect()
    };
    let idle = states(nr_idle, "C", true);
    let cluster_idle = states(nr_cluster_idle, "cluster", false);
    Cluster {
        name: format!("cluster{index}"),
        cpus,
        capacity,
        policy: draw.pick(&[PolicyShare::Shared, PolicyShare::Shared, PolicyShare::Core, PolicyShare::Cpu]),
        opps,
        boost_opps: Vec::new(),
        idle,
        cluster_idle,
        base_khz: 0,
        turbo: Vec::new(),
        hwp: None,
        cluster_idle_uw: draw.chance(30).then(|| draw.skewed(0, 50_000)),
        efficiency_class: draw.skewed(0, 255) as u32,
        cppc: Some(CppcCaps {
            highest_perf,
            nominal_perf: highest_perf,
            lowest_nonlinear_perf: lowest_perf,
            lowest_perf,
            lowest_freq_mhz: lowest_khz / 1000,
            nominal_freq_mhz: highest_khz / 1000,
        }),
    }
}

/// Gives a machine turbo bins, budgets and who else draws from them, or Intel's driver. A stream of its own: what else is drawn stays the same.
fn limit(draw: &mut Draw, machine: &mut Machine) {
    for cluster in &mut machine.clusters {
        let top_khz = cluster.opps[cluster.opps.len() - 1].khz;
        if draw.chance(50) {
            cluster.base_khz = draw.pick(&cluster.opps).khz;
        }
        let mut active_cores = 0;
        let mut khz = top_khz + draw.skewed(0, 2_000_000) as u32;
        for _ in 0..draw.int(0, 4) {
            active_cores += draw.skewed(1, 8) as u32;
            cluster.turbo.push(TurboBin { active_cores, khz });
            khz -= draw.skewed(0, u64::from(khz / 3)) as u32;
        }
        if draw.chance(20) {
            let busy_uw = draw.skewed(1, 10_000_000);
            let opp = |khz| Opp {
                khz,
                mv: 0,
                power_uw: busy_uw,
                busy_uw,
                cluster_uw: busy_uw / 2,
                idle_uw: None,
                cluster_idle_uw: None,
            };
            cluster.boost_opps = vec![opp(top_khz + 50_000), opp(top_khz + 333_000)];
        }
        for state in &mut cluster.idle {
            if draw.chance(30) {
                state.name = format!("{}E", state.name);
            }
        }
    }
    machine.smt_power = if draw.chance(50) { 1024 } else { draw.u32(0, 1024) };
    if draw.chance(70) {
        let limit = |draw: &mut Draw| if draw.chance(20) { 0 } else { draw.skewed(1, 20_000_000) };
        let (pl1_uw, pl2_uw) = (limit(draw), limit(draw));
        let (pl1_window_ns, pl2_window_ns) = (draw.skewed(0, 1_000_000_000), 0);
        machine.package_power = Some(PackagePower { tdp_uw: pl1_uw, pl1_uw, pl1_window_ns, pl2_uw, pl2_window_ns });
    }
    let nr_packages = machine.cpus.iter().map(|cpu| cpu.package + 1).max().unwrap_or(1);
    for index in 0..draw.skewed(0, 2) {
        machine.consumers.push(Consumer {
            name: format!("consumer{index}"),
            package: draw.u32(0, nr_packages - 1),
            demand_uw: draw.skewed(0, 10_000_000),
            least_uw: draw.skewed(0, 10_000_000),
            frame_uj: draw.skewed(1, 1_000_000),
        });
    }
    machine.pm_profile = draw.pick(&PmProfile::ALL).1;
    if draw.chance(40) {
        machine.cpufreq.driver = DriverId::named("intel_pstate").expect("a driver");
        machine.other_drivers[0].driver = DriverId::named("intel_cpufreq").expect("a driver");
        let hwp = draw.chance(70);
        for cluster in &mut machine.clusters {
            cluster.policy = PolicyShare::Cpu;
            let mut levels = [(); 4].map(|()| draw.u32(0, 255));
            levels.sort_unstable();
            let [lowest, most_efficient, guaranteed, highest] = levels;
            let caps = HwpCaps { highest, guaranteed, most_efficient, lowest, ..HwpCaps::default() };
            cluster.hwp = hwp.then_some(caps);
        }
    }
    machine.thermal = draw.chance(30).then(|| Thermal {
        resistance_mk_per_w: draw.skewed(1, 100_000),
        capacitance_mj_per_k: draw.skewed(1, 1_000_000),
        ambient_mc: 25_000,
        limit_mc: draw.u32(20_000, 100_000).into(),
        start_mc: draw.u32(20_000, 100_000).into(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{machine_to_toml, parse_machine};

    #[test]
    fn what_is_drawn_is_valid_and_of_many_kinds() {
        let swarm = Swarm { limits: true, ..Swarm::default() };
        let mut most_cpus = 0;
        let mut steps = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let case = swarm.case(seed);
            most_cpus = most_cpus.max(case.machine.nr_cpus());
            let text = machine_to_toml(&case.machine);
            let machine =
                parse_machine("random.toml", &text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
            assert_eq!(machine, *case.machine, "seed {seed}");
            let text = case.to_json();
            let back = CaseFile::from_json("random.json", &text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(back, case, "seed {seed}");
            assert_eq!(swarm.case(seed), case, "seed {seed}");
            for op in case.workload.tasks.iter().flat_map(|task| &task.ops) {
                steps.insert(format!("{op:?}").split([' ', '(']).next().unwrap_or_default().to_owned());
            }
        }
        assert!(most_cpus > 100);
        // Every kind of step is drawn.
        assert_eq!(steps.len(), 51, "{steps:?}");
    }

    #[test]
    fn limits_hold() {
        let swarm = Swarm { nr_cpus_max: 4, nr_tasks_max: 3, classes: false, io: false, ..Swarm::default() };
        for seed in 0..100 {
            let case = swarm.case(seed);
            assert!(case.machine.nr_cpus() <= 4);
            assert!(case.workload.tasks.iter().filter(|task| task.initial).count() <= 3);
            assert!(case.workload.channels.is_empty());
            let fair = |policy: &SchedPolicy| matches!(policy, SchedPolicy::Other { .. } | SchedPolicy::Batch { .. });
            assert!(case.workload.tasks.iter().all(|task| fair(&task.policy)));
        }
    }
}
