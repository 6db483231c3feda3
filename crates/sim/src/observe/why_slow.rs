//! Why CPUs ran below what their tasks needed: a sink that attributes the time of a whole run.
//!
//! What a CPU needs at an instant is known afterwards: the highest utilisation of its fair run queue from then to the end
//! of its busy period, as the operating point that schedutil asks for then, with the headroom of the policy's kernel. That
//! is what it asks for once load tracking has seen what is there; without frequency invariance, of the clock that it has. A CPU that runs a task at a lower clock is slow, and the
//! first of these that holds is the reason:
//!
//! ```text
//!   granted = what scaling_max_freq, max_perf_pct or no_turbo allow
//!   granted < requested -- a limit of the hardware, or the switch is under way
//!   requested < wanted --- the rate limit
//!   wanted < needed ------ a clamp, the governor's kind, a boost that decayed, or a utilisation that lags:
//!                          a new task, one that migrated, one that slept for long, or work that grows
//! ```
//! A migration counts only while the CPU that was left had more utilisation than the present one has, a long sleep only
//! until the task has the utilisation again with which it fell asleep. Without either, work grows faster than it is
//! tracked.
//!
//! The time lost is how much longer the work of a slow stretch took than it would have at the needed clock. Utilisation
//! of other classes is not looked at, the effect of siblings by [`crate::smt_sharing`]. As everything that is measured, it counts from the end
//! of the warm-up on.

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::driver::{AmdMode, DriverKind};
use opplab_kernel::cpufreq::facts::{PerfBound, PolicyFacts, RqFacts, SugovOutcome};
use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpufreq::intel_pstate::PstatePolicy;
use opplab_kernel::cpufreq::schedutil::SugovGates;
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;
use opplab_model::decision::{Decision, GrantLimit};
use opplab_model::event::{CpuIdx, Event, IDLE_TASK, Metered, Sink, TaskIdx, TaskState, UtilReport};
use opplab_model::governor::cpuinfo_max_khz;
use opplab_model::machine::{Cluster, InvarianceSource, Machine};
use opplab_model::policy::Policy;

use crate::cpufreq::amd::highest_khz;
use crate::cpufreq::freq_policy::driver_of;
use crate::run::gates::Gates;
use crate::task_energy::TaskEnergy;
use crate::{Case, Outcome};

/// Why a CPU is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SlowReason {
    /// The turbo bin for so many active cores.
    TurboBin = 0,
    /// The power budget of the package.
    PowerBudget = 1,
    /// Temperature.
    Thermal = 2,
    /// The firmware's own choice (HWP with its energy-performance preference).
    Epp = 3,
    /// The table of operating points ends there.
    OppTable = 4,
    /// What was set holds it: `scaling_max_freq`, `max_perf_pct` or `no_turbo`.
    PolicyLimit = 5,
    /// The frequency was asked for, but the kthread or the hardware is on its way.
    Transition = 6,
    /// The governor wanted more, but the last change was too recent.
    RateLimit = 7,
    /// An upper clamp of utilisation.
    Uclamp = 8,
    /// The governor never changes the frequency.
    FixedGovernor = 9,
    /// The governor samples idle time and has not seen the load, or does not follow it.
    Sampling = 10,
    /// A boost for I/O was there before.
    IowaitBoost = 11,
    /// The task is new: its utilisation has yet to grow.
    NewTask = 12,
    /// The task came from another CPU, which had more utilisation.
    Migration = 13,
    /// The task slept for so long that its utilisation had decayed.
    LongSleep = 14,
    /// The work grew faster than load tracking follows.
    Ramp = 15,
    /// A governor from outside asked for no more.
    CustomGovernor = 16,
}

/// The reasons' names, in the order of their numbers.
pub const SLOW_REASONS: [&str; 17] = [
    "turbo-bin",
    "power-budget",
    "thermal",
    "epp",
    "opp-table",
    "policy-limit",
    "transition",
    "rate-limit",
    "uclamp",
    "fixed-governor",
    "sampling",
    "iowait-boost-decayed",
    "new-task",
    "migration",
    "long-sleep",
    "ramp",
    "custom-governor",
];

/// What holds a CPU whatever the governor.
pub const LIMITS: &[&str] = SLOW_REASONS.split_at(SlowReason::PolicyLimit as usize + 1).0;

/// What shares a row: CPU, running task, reason, clock in kHz.
pub type SlowKey = (CpuIdx, TaskIdx, SlowReason, u32);

/// How long it lasted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlowTime {
    /// Time below the needed clock, in ns.
    pub slow_ns: u64,
    /// Time that the work took longer, in ns.
    pub lost_ns: u64,
    /// What the task used meanwhile by the machine's meters, with its part of what its cluster shares, in fJ.
    pub energy_fj: u128,
}

/// A stretch of a CPU's busy period in which nothing changed.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    ns: u64,
    task: TaskIdx,
    khz: u32,
    util: u32,
    reason: SlowReason,
    energy_fj: u128,
}

#[derive(Debug, Default)]
struct CpuState {
    policy: usize,
    /// The policies of the CPUs that share its clock.
    clocked: Vec<usize>,
    cluster: usize,
    task: Option<TaskIdx>,
    since_ns: u64,
    khz: u32,
    util: u32,
    /// Its own upper clamp lowers what it asks for, whichever CPU of its policy asks for most.
    is_capped: bool,
    busy: Vec<Stretch>,
}

#[derive(Debug, Default)]
struct PolicyState {
    cpus: Vec<CpuIdx>,
    requested_khz: u32,
    wanted_khz: u32,
    /// The same of a driver that takes levels.
    requested_level: u32,
    wanted_level: u32,
    /// When it last asked.
    asked_ns: u64,
    limit: Option<GrantLimit>,
    is_capped: bool,
    /// The governor is one from outside, with reasons of its own.
    is_custom: bool,
    /// When a boost for I/O was last in effect.
    boosted_ns: Option<u64>,
    is_boosted: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct TaskLife {
    util: u32,
    born_ns: Option<u64>,
    /// The last migration, with the utilisation of the CPU that was left.
    migrated: Option<Before>,
    /// When the task fell asleep, with its own utilisation then; until it is woken.
    slept: Option<Before>,
    /// The last wake-up from a long sleep, with the utilisation before it.
    woke_late: Option<Before>,
}

/// What may have lowered a utilisation: when, and what it was before.
#[derive(Debug, Clone, Copy)]
struct Before {
    time_ns: u64,
    util: u32,
}

/// The operating points of `cluster` with boost, in kHz.
fn points(cluster: &Cluster) -> Vec<u32> {
    let opps = cluster.opps.iter().chain(&cluster.boost_opps).map(|opp| opp.khz);
    let mut khz: Vec<u32> = opps.chain(cluster.turbo.iter().map(|bin| bin.khz)).collect();
    khz.sort_unstable();
    khz.dedup();
    khz
}

/// The clock that governors ask for at full utilisation with turbo, without their headroom
/// (cpufreq_schedutil.c:get_capacity_ref_freq(), v6.12): x86 has no `arch_scale_freq_ref()`.
fn full_khz(machine: &Machine, cluster: &Cluster, policy: &Policy) -> u32 {
    match (machine.invariance, policy.profile()) {
        (InvarianceSource::CountersAtTick, Ok(profile)) => {
            cpuinfo_max_khz(machine, &driver_of(machine, policy).driver, (&profile, false), cluster)
        }
        _ => cluster.reference_khz(),
    }
}

/// The highest operating point of `cluster` that `scaling_max_freq`, `max_perf_pct` and `no_turbo` allow, in kHz, where
/// they take some away. In `active` mode a percentage between two P-states is the upper one.
fn set_limit(cluster: &Cluster, policy: &Policy, active: bool) -> Option<u32> {
    let points = points(cluster);
    let top_khz = *points.last()?;
    let mut limit_khz = policy.scaling_max_freq.of(&cluster.name).unwrap_or(top_khz);
    let pct_khz = (u64::from(top_khz) * u64::from(policy.max_perf_pct)).div_ceil(100) as u32;
    let above = points.iter().copied().find(|&khz| active && khz >= pct_khz);
    limit_khz = limit_khz.min(above.unwrap_or(pct_khz));
    if policy.no_turbo && cluster.base_khz > 0 {
        limit_khz = limit_khz.min(cluster.base_khz);
    }
    let allowed = points.iter().copied().rev().find(|&khz| khz <= limit_khz).unwrap_or(points[0]);
    (allowed < top_khz).then_some(allowed)
}

/// Who follows the load with the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follower {
    /// Nobody: the governor never changes the frequency.
    Nobody,
    /// schedutil, or a governor from outside in its place.
    Schedutil,
    /// A governor that takes samples.
    Sampler,
    /// The firmware: the driver's own governor leaves it the choice.
    Firmware,
}

impl Follower {
    /// Of `policy` on `machine`.
    fn of(machine: &Machine, policy: &Policy) -> Self {
        let kind = driver_of(machine, policy).driver.kind;
        let has_hwp = || !policy.no_hwp && machine.clusters.iter().all(|cluster| cluster.hwp.is_some());
        let worker = || GovernorId::named(&policy.governor).map_or(Worker::Nobody, |governor| governor.entry().worker);
        match (kind, PstatePolicy::named(&policy.governor)) {
            (DriverKind::Amd(AmdMode::Active), Some(PstatePolicy::Powersave)) => Self::Firmware,
            (DriverKind::IntelActive, Some(PstatePolicy::Powersave)) if has_hwp() => Self::Firmware,
            (DriverKind::IntelActive, Some(PstatePolicy::Powersave)) => Self::Sampler,
            _ => match worker() {
                Worker::Nobody => Self::Nobody,
                Worker::Kthread => Self::Schedutil,
                Worker::Kworker => Self::Sampler,
            },
        }
    }
}

/// What is set for a run from some time on.
#[derive(Debug)]
struct Settings {
    from_ns: u64,
    follower: Follower,
    /// Of each cluster the point at which a set limit holds it, in kHz.
    limits: Vec<Option<u32>>,
}

/// Attributes slow time; made for one run.
#[derive(Debug)]
pub struct WhySlow {
    cpus: Vec<CpuState>,
    policies: Vec<PolicyState>,
    tasks: Vec<TaskLife>,
    /// Of each cluster: operating points in kHz, the frequency of its capacity as governors have it, its capacity.
    clusters: Vec<(Vec<u32>, u32, u32)>,
    /// Of each cluster: the highest clock that its driver can ask for, in kHz; a turbo bin may be a part of a level above.
    highest_khz: Vec<u32>,
    /// schedutil as the policy's kernel has it.
    gates: SugovGates,
    /// `arch_scale_freq_invariant()`; without it schedutil asks relative to the clock that it has.
    freq_invariant: bool,
    /// Whether the architecture has `arch_scale_freq_ref()`.
    has_freq_ref: bool,
    /// What is set, in order of time.
    settings: Vec<Settings>,
    /// How long an event of a task's life explains a low utilisation: three half-lives of load tracking.
    memory_ns: u64,
    /// Until then nothing counts.
    warmup_ns: u64,
    energy: TaskEnergy,
    rows: BTreeMap<SlowKey, SlowTime>,
}

impl WhySlow {
    /// For a run of `case`, measured from the end of its warm-up on.
    pub fn new(case: &Case) -> Self {
        let machine: &Machine = &case.machine;
        let mut cpus: Vec<CpuState> = (0..machine.nr_cpus()).map(|_| CpuState::default()).collect();
        let mut policies = Vec::new();
        let driver = driver_of(machine, &case.policy);
        for (cluster, members) in machine.policies() {
            for &cpu in &members {
                cpus[cpu as usize].policy = policies.len();
                cpus[cpu as usize].cluster = cluster as usize;
            }
            policies.push(PolicyState { cpus: members, ..PolicyState::default() });
        }
        for cpu in 0..cpus.len() as u32 {
            let policy_of = |other: u32| cpus[other as usize].policy;
            let shares = |index: &usize| policies[*index].cpus.iter().any(|&other| machine.shares_clock(cpu, other));
            let own = policy_of(cpu);
            cpus[cpu as usize].clocked = (0..policies.len()).filter(|index| *index == own || shares(index)).collect();
        }
        let settings = std::iter::once((0, &case.policy))
            .chain(case.policy.changes.iter().map(|change| (u64::from(change.at_ms) * 1_000_000, &change.policy)));
        let settings = settings.map(|(from_ns, policy)| {
            let active = driver_of(machine, policy).driver.kind == DriverKind::IntelActive;
            let limits = machine.clusters.iter().map(|cluster| set_limit(cluster, policy, active)).collect();
            Settings { from_ns, follower: Follower::of(machine, policy), limits }
        });
        let clusters = machine
            .clusters
            .iter()
            .map(|cluster| (points(cluster), full_khz(machine, cluster, &case.policy), cluster.capacity));
        Self {
            cpus,
            policies,
            tasks: Vec::new(),
            clusters: clusters.collect(),
            highest_khz: machine
                .clusters
                .iter()
                .map(|cluster| highest_khz(cluster, &driver).unwrap_or(u32::MAX))
                .collect(),
            gates: case.policy.profile().map_or(SugovGates::V6_12, |profile| profile.sugov_gates()),
            freq_invariant: Gates::new(&case.policy, machine).is_ok_and(|gates| gates.freq_invariant),
            has_freq_ref: machine.invariance == InvarianceSource::FreqChange,
            settings: settings.collect(),
            memory_ns: u64::from(case.policy.half_life_ms()) * 3_000_000,
            warmup_ns: case.workload.warmup_ns,
            energy: TaskEnergy::from(machine, case.workload.warmup_ns),
            rows: BTreeMap::new(),
        }
    }

    /// What was slow in the run that ended with `outcome`.
    pub fn finish(mut self, outcome: &Outcome) -> BTreeMap<SlowKey, SlowTime> {
        for cpu in 0..self.cpus.len() as u32 {
            self.cut(cpu, outcome.warmup.wall_ns + outcome.wall_ns);
            self.end_busy(cpu);
        }
        // Before its first decision a governor from outside looks like schedutil.
        if self.policies.iter().any(|policy| policy.is_custom) {
            for ((cpu, task, reason, khz), time) in std::mem::take(&mut self.rows) {
                let known = if reason > SlowReason::FixedGovernor { SlowReason::CustomGovernor } else { reason };
                let row = self.rows.entry((cpu, task, known, khz)).or_default();
                row.slow_ns += time.slow_ns;
                row.lost_ns += time.lost_ns;
                row.energy_fj += time.energy_fj;
            }
        }
        self.rows
    }

    fn task(&mut self, task: TaskIdx) -> &mut TaskLife {
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, TaskLife::default());
        }
        &mut self.tasks[index]
    }

    /// The policy whose request `cpu` runs at: its own, or a higher one of CPUs that share its clock.
    fn holder(&self, cpu: CpuIdx) -> &PolicyState {
        let own = &self.cpus[cpu as usize];
        let policy = &self.policies[own.policy];
        if own.khz <= policy.requested_khz {
            return policy;
        }
        own.clocked.iter().map(|&index| &self.policies[index]).max_by_key(|other| other.requested_khz).unwrap_or(policy)
    }

    /// The reason that would hold if `cpu` were slow now.
    fn reason(&self, cpu: CpuIdx, task: TaskIdx, now_ns: u64) -> SlowReason {
        let own = &self.cpus[cpu as usize];
        let policy = &self.policies[own.policy];
        let set = self.settings.iter().rev().find(|set| set.from_ns <= now_ns);
        if set.and_then(|set| set.limits[own.cluster]).is_some_and(|limit_khz| own.khz >= limit_khz) {
            return SlowReason::PolicyLimit;
        }
        let holder = self.holder(cpu);
        if own.khz < holder.requested_khz {
            return match holder.limit {
                Some(GrantLimit::TurboBin) => SlowReason::TurboBin,
                Some(GrantLimit::PowerBudget) => SlowReason::PowerBudget,
                Some(GrantLimit::Thermal) => SlowReason::Thermal,
                Some(GrantLimit::Firmware) => SlowReason::Epp,
                Some(GrantLimit::OppTable) => SlowReason::OppTable,
                Some(GrantLimit::NoTurbo) => SlowReason::PolicyLimit,
                Some(GrantLimit::None) | None => SlowReason::Transition,
            };
        }
        let recent = |at: Option<u64>| at.is_some_and(|at| now_ns - at <= self.memory_ns);
        let lowered = |by: Option<Before>, util: u32| by.is_some_and(|by| recent(Some(by.time_ns)) && by.util > util);
        let life = self.tasks.get(task as usize).copied().unwrap_or_default();
        match set.map_or(Follower::Nobody, |set| set.follower) {
            Follower::Nobody => return SlowReason::FixedGovernor,
            Follower::Sampler => return SlowReason::Sampling,
            Follower::Firmware => return SlowReason::Epp,
            Follower::Schedutil => {}
        }
        if policy.is_custom {
            // It has no rate limit and no clamps but its own.
            SlowReason::CustomGovernor
        } else if policy.requested_khz < policy.wanted_khz || policy.requested_level < policy.wanted_level {
            SlowReason::RateLimit
        } else if policy.is_capped || own.is_capped {
            SlowReason::Uclamp
        } else if recent(policy.boosted_ns) && !policy.is_boosted {
            SlowReason::IowaitBoost
        } else if recent(life.born_ns) {
            SlowReason::NewTask
        } else if lowered(life.migrated, own.util) {
            SlowReason::Migration
        } else if lowered(life.woke_late, life.util) {
            SlowReason::LongSleep
        } else {
            SlowReason::Ramp
        }
    }

    /// Ends the present stretch of `cpu`.
    fn cut(&mut self, cpu: CpuIdx, now_ns: u64) {
        let own = &self.cpus[cpu as usize];
        let Some(task) = own.task.filter(|_| own.since_ns < now_ns) else {
            self.cpus[cpu as usize].since_ns = now_ns;
            return;
        };
        let reason = self.reason(cpu, task, own.since_ns);
        let used = self.energy.take(now_ns, task);
        let own = &mut self.cpus[cpu as usize];
        let ns = now_ns.saturating_sub(own.since_ns.max(self.warmup_ns));
        let stretch =
            Stretch { ns, task, khz: own.khz, util: own.util, reason, energy_fj: used.cpu_fj + used.shared_fj };
        own.since_ns = now_ns;
        own.busy.push(stretch);
    }

    fn cut_policy(&mut self, policy: usize, now_ns: u64) {
        for index in 0..self.policies[policy].cpus.len() {
            let cpu = self.policies[policy].cpus[index];
            self.cut(cpu, now_ns);
        }
    }

    /// The busy period is over: what was needed in it is known.
    fn end_busy(&mut self, cpu: CpuIdx) {
        let own = &mut self.cpus[cpu as usize];
        let (opps, ref_khz, capacity) = &self.clusters[own.cluster];
        let mut peak = own.util;
        let mut stretches = std::mem::take(&mut own.busy);
        for stretch in stretches.iter().rev() {
            peak = peak.max(stretch.util).min(*capacity);
            let rq = RqFacts { capacity: (*capacity).into(), ..RqFacts::default() };
            let asked = self.gates.perf(&rq, (peak.into(), peak.into()), None);
            let facts = PolicyFacts {
                cur_khz: stretch.khz,
                freq_ref_khz: if self.has_freq_ref { *ref_khz } else { 0 },
                freq_invariant: self.freq_invariant,
                can_update: true,
            };
            let ref_khz = self.gates.capacity_ref_freq(&facts, *ref_khz);
            let raw_khz = self.gates.raw_freq(asked.util, rq.capacity, ref_khz);
            let above = opps.iter().copied().find(|&khz| khz >= raw_khz);
            let needed = above.or(opps.last().copied()).unwrap_or(0).min(self.highest_khz[own.cluster]);
            if stretch.khz >= needed || stretch.ns == 0 {
                continue;
            }
            let row = self.rows.entry((cpu, stretch.task, stretch.reason, stretch.khz)).or_default();
            row.slow_ns += stretch.ns;
            row.energy_fj += stretch.energy_fj;
            row.lost_ns += (u128::from(stretch.ns) * u128::from(needed - stretch.khz) / u128::from(needed)) as u64;
        }
        stretches.clear();
        self.cpus[cpu as usize].busy = stretches;
    }
}

impl Sink for WhySlow {
    const DECISIONS: bool = true;

    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                self.cut(cpu, now_ns);
                self.energy.event(now_ns, event);
                if prev != IDLE_TASK && prev_state != TaskState::Running {
                    let life = self.task(prev);
                    life.slept = Some(Before { time_ns: now_ns, util: life.util });
                }
                self.cpus[cpu as usize].task = (next != IDLE_TASK).then_some(next);
                if next == IDLE_TASK {
                    self.end_busy(cpu);
                }
            }
            Event::SchedWaking { task, .. } => {
                let half_life_ns = self.memory_ns / 3;
                let life = self.task(task);
                if let Some(slept) = life.slept.take().filter(|slept| now_ns - slept.time_ns > half_life_ns) {
                    life.woke_late = Some(Before { time_ns: now_ns, util: slept.util });
                }
            }
            Event::SchedWakeupNew { task, .. } => self.task(task).born_ns = Some(now_ns),
            Event::SchedMigrateTask { task, orig_cpu, .. } => {
                let util = self.cpus[orig_cpu as usize].util;
                self.task(task).migrated = Some(Before { time_ns: now_ns, util });
            }
            Event::PeltSe { cpu, task, util_avg, .. } => {
                self.cut(cpu, now_ns);
                self.task(task).util = util_avg;
            }
            Event::PeltCfs { cpu, util_avg, .. } => {
                self.cut(cpu, now_ns);
                self.cpus[cpu as usize].util = util_avg;
            }
            Event::CpuFrequency { cpu, khz } => {
                self.cut(cpu, now_ns);
                self.cpus[cpu as usize].khz = khz;
                let policy = &mut self.policies[self.cpus[cpu as usize].policy];
                if policy.requested_khz == 0 {
                    (policy.requested_khz, policy.wanted_khz) = (khz, khz);
                }
            }
            Event::FreqRequest { cpu, khz, .. } => {
                let policy = self.cpus[cpu as usize].policy;
                self.cut_policy(policy, now_ns);
                let state = &mut self.policies[policy];
                (state.requested_khz, state.wanted_khz, state.limit) = (khz, khz, None);
                state.asked_ns = now_ns;
            }
            _ => {}
        }
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        self.energy.power(now_ns, metered, power_uw);
    }

    fn wants_reports(&self) -> bool {
        true
    }

    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        for (cpu, facts) in report.members {
            let asks = |rq: &RqFacts| self.gates.perf(rq, (facts.util_cfs, facts.util_cfs_boost), None).util;
            let is_capped = facts.rq.uclamp_used
                && asks(&facts.rq) < asks(&RqFacts { uclamp_max: SCHED_CAPACITY_SCALE, ..facts.rq });
            if self.cpus[*cpu as usize].is_capped != is_capped {
                self.cut(*cpu, now_ns);
                self.cpus[*cpu as usize].is_capped = is_capped;
            }
        }
    }

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        match *decision {
            Decision::Freq { cpu, outcome, wanted_khz, next_khz, target_perf, bound, iowait_boost, .. } => {
                let index = self.cpus[cpu as usize].policy;
                self.cut_policy(index, now_ns);
                let policy = &mut self.policies[index];
                policy.wanted_khz = wanted_khz.max(next_khz);
                let asks = outcome == SugovOutcome::Requested as u8 || outcome == SugovOutcome::Held as u8;
                if next_khz == 0 && (asks || outcome == SugovOutcome::RateLimited as u8) {
                    policy.wanted_level = target_perf;
                    if asks {
                        policy.requested_level = target_perf;
                    }
                }
                // Performance levels instead of frequencies come as requests of their own.
                if outcome == SugovOutcome::Requested as u8 && next_khz > 0 {
                    // A kthread that is under way takes it along without a request of its own.
                    (policy.requested_khz, policy.limit, policy.asked_ns) = (next_khz, None, now_ns);
                }
                policy.is_capped = bound == PerfBound::UclampMax as u8;
                policy.is_boosted = iowait_boost > 0;
                if policy.is_boosted {
                    policy.boosted_ns = Some(now_ns);
                }
            }
            Decision::Custom { policy_cpu, outcome, next_khz, .. } => {
                let index = self.cpus[policy_cpu as usize].policy;
                self.cut_policy(index, now_ns);
                let policy = &mut self.policies[index];
                policy.is_custom = true;
                if outcome == SugovOutcome::Requested as u8 {
                    // As above: not each has a request of its own.
                    (policy.requested_khz, policy.wanted_khz) = (next_khz, next_khz);
                    (policy.limit, policy.asked_ns) = (None, now_ns);
                }
            }
            Decision::Grant { policy_cpu, requested_khz, limit, delay_ns, .. } => {
                let index = self.cpus[policy_cpu as usize].policy;
                self.cut_policy(index, now_ns);
                let policy = &mut self.policies[index];
                if u64::try_from(delay_ns).is_ok_and(|delay_ns| now_ns - delay_ns < policy.asked_ns) {
                    // It answers an earlier request; the last one is on its way.
                    return;
                }
                policy.limit = Some(limit);
                // The request as the hardware resolved it.
                policy.requested_khz = requested_khz;
                policy.wanted_khz = policy.wanted_khz.max(requested_khz);
            }
            _ => {}
        }
    }
}
