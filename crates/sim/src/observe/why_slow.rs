//! Why CPUs ran below what their tasks needed: a sink that attributes the time of a whole run.
//!
//! What a CPU needs at an instant is known afterwards: the highest utilisation of its fair run queue from then to the end
//! of its busy period, with the kernel's headroom of 1.25, as an operating point. That is what the governor asks for once
//! load tracking has seen what is there. A CPU that runs a task at a lower clock is slow, and the first of these that
//! holds is the reason:
//!
//! ```text
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

use opplab_kernel::cpufreq::facts::SugovOutcome;
use opplab_model::decision::{Decision, GrantLimit};
use opplab_model::event::{CpuIdx, Event, IDLE_TASK, Metered, Sink, TaskIdx, TaskState};
use opplab_model::machine::Machine;

use crate::Outcome;
use crate::task_energy::TaskEnergy;

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
    /// The frequency was asked for, but the kthread or the hardware is on its way.
    Transition = 5,
    /// The governor wanted more, but the last change was too recent.
    RateLimit = 6,
    /// An upper clamp of utilisation.
    Uclamp = 7,
    /// The governor never changes the frequency.
    FixedGovernor = 8,
    /// The governor samples idle time and has not seen the load, or does not follow it.
    Sampling = 9,
    /// A boost for I/O was there before.
    IowaitBoost = 10,
    /// The task is new: its utilisation has yet to grow.
    NewTask = 11,
    /// The task came from another CPU, which had more utilisation.
    Migration = 12,
    /// The task slept for so long that its utilisation had decayed.
    LongSleep = 13,
    /// The work grew faster than load tracking follows.
    Ramp = 14,
}

/// The reasons' names, in the order of their numbers.
pub const SLOW_REASONS: [&str; 15] = [
    "turbo-bin",
    "power-budget",
    "thermal",
    "epp",
    "opp-table",
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
];

/// What holds a CPU whatever the governor.
pub const LIMITS: &[&str] = SLOW_REASONS.split_at(SlowReason::OppTable as usize + 1).0;

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
    cluster: usize,
    task: Option<TaskIdx>,
    since_ns: u64,
    khz: u32,
    util: u32,
    busy: Vec<Stretch>,
}

#[derive(Debug, Default)]
struct PolicyState {
    cpus: Vec<CpuIdx>,
    requested_khz: u32,
    wanted_khz: u32,
    limit: Option<GrantLimit>,
    is_capped: bool,
    has_decided: bool,
    has_sampled: bool,
    /// The firmware chose frequencies.
    has_firmware: bool,
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

/// Attributes slow time; made for one run.
#[derive(Debug)]
pub struct WhySlow {
    cpus: Vec<CpuState>,
    policies: Vec<PolicyState>,
    tasks: Vec<TaskLife>,
    /// Of each cluster: OPPs in kHz, the frequency of its capacity, its capacity.
    clusters: Vec<(Vec<u32>, u32, u32)>,
    /// How long an event of a task's life explains a low utilisation: three half-lives of load tracking.
    memory_ns: u64,
    /// Until then nothing counts.
    warmup_ns: u64,
    energy: TaskEnergy,
    rows: BTreeMap<SlowKey, SlowTime>,
}

impl WhySlow {
    /// For a run on `machine` with load tracking's half-life, measured from `warmup_ns` on.
    pub fn new(machine: &Machine, pelt_half_life_ms: u32, warmup_ns: u64) -> Self {
        let mut cpus: Vec<CpuState> = (0..machine.nr_cpus()).map(|_| CpuState::default()).collect();
        let mut policies = Vec::new();
        for (cluster, members) in machine.policies() {
            for &cpu in &members {
                cpus[cpu as usize].policy = policies.len();
                cpus[cpu as usize].cluster = cluster as usize;
            }
            policies.push(PolicyState { cpus: members, ..PolicyState::default() });
        }
        let clusters = machine.clusters.iter().map(|cluster| {
            let khz: Vec<u32> = cluster.opps.iter().map(|opp| opp.khz).collect();
            (khz, cluster.reference_khz(), cluster.capacity)
        });
        Self {
            cpus,
            policies,
            tasks: Vec::new(),
            clusters: clusters.collect(),
            memory_ns: u64::from(pelt_half_life_ms) * 3_000_000,
            warmup_ns,
            energy: TaskEnergy::from(machine, warmup_ns),
            rows: BTreeMap::new(),
        }
    }

    /// What was slow in the run that ended with `outcome`.
    pub fn finish(mut self, outcome: &Outcome) -> BTreeMap<SlowKey, SlowTime> {
        for cpu in 0..self.cpus.len() as u32 {
            self.cut(cpu, outcome.warmup.wall_ns + outcome.wall_ns);
            self.end_busy(cpu);
        }
        // Before its first decision a governor looks like one that never decides.
        let early: Vec<SlowKey> =
            self.rows.keys().copied().filter(|&(_, _, reason, _)| reason == SlowReason::FixedGovernor).collect();
        for (cpu, task, reason, khz) in early {
            let policy = &self.policies[self.cpus[cpu as usize].policy];
            let known = match (policy.has_firmware, policy.has_sampled, policy.has_decided) {
                (true, ..) => SlowReason::Epp,
                (_, true, _) => SlowReason::Sampling,
                (.., true) => SlowReason::NewTask,
                _ => continue,
            };
            let time = self.rows.remove(&(cpu, task, reason, khz)).unwrap_or_default();
            let row = self.rows.entry((cpu, task, known, khz)).or_default();
            row.slow_ns += time.slow_ns;
            row.lost_ns += time.lost_ns;
            row.energy_fj += time.energy_fj;
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

    /// The reason that would hold if `cpu` were slow now.
    fn reason(&self, cpu: CpuIdx, task: TaskIdx, now_ns: u64) -> SlowReason {
        let own = &self.cpus[cpu as usize];
        let policy = &self.policies[own.policy];
        if own.khz < policy.requested_khz {
            return match policy.limit {
                Some(GrantLimit::TurboBin) => SlowReason::TurboBin,
                Some(GrantLimit::PowerBudget) => SlowReason::PowerBudget,
                Some(GrantLimit::Thermal) => SlowReason::Thermal,
                Some(GrantLimit::Firmware) => SlowReason::Epp,
                Some(GrantLimit::OppTable) => SlowReason::OppTable,
                Some(GrantLimit::None) | None => SlowReason::Transition,
            };
        }
        let recent = |at: Option<u64>| at.is_some_and(|at| now_ns - at <= self.memory_ns);
        let lowered = |by: Option<Before>, util: u32| by.is_some_and(|by| recent(Some(by.time_ns)) && by.util > util);
        let life = self.tasks.get(task as usize).copied().unwrap_or_default();
        if policy.requested_khz < policy.wanted_khz {
            SlowReason::RateLimit
        } else if policy.is_capped {
            SlowReason::Uclamp
        } else if policy.has_sampled {
            SlowReason::Sampling
        } else if !policy.has_decided {
            SlowReason::FixedGovernor
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
            let raw = u64::from(*ref_khz) * u64::from(peak + peak / 4) / u64::from((*capacity).max(1));
            let above = opps.iter().copied().find(|&khz| u64::from(khz) >= raw);
            let needed = above.or(opps.last().copied()).unwrap_or(0);
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
            }
            _ => {}
        }
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        self.energy.power(now_ns, metered, power_uw);
    }

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        match *decision {
            Decision::Freq {
                cpu, outcome, wanted_khz, next_khz, util_sum, uclamp_max, max_cap, iowait_boost, ..
            } => {
                let index = self.cpus[cpu as usize].policy;
                self.cut_policy(index, now_ns);
                let policy = &mut self.policies[index];
                policy.has_decided = true;
                policy.wanted_khz = wanted_khz.max(next_khz);
                // Performance levels instead of frequencies come as requests of their own.
                if outcome == SugovOutcome::Requested as u8 && next_khz > 0 {
                    // A kthread that is under way takes it along without a request of its own.
                    (policy.requested_khz, policy.limit) = (next_khz, None);
                }
                policy.is_capped = uclamp_max < max_cap && util_sum + util_sum / 4 > uclamp_max;
                policy.is_boosted = iowait_boost > 0;
                if policy.is_boosted {
                    policy.boosted_ns = Some(now_ns);
                }
            }
            Decision::Sample { policy_cpu, .. } => {
                self.policies[self.cpus[policy_cpu as usize].policy].has_sampled = true
            }
            Decision::Grant { policy_cpu, requested_khz, limit, .. } => {
                let index = self.cpus[policy_cpu as usize].policy;
                self.cut_policy(index, now_ns);
                let policy = &mut self.policies[index];
                policy.limit = Some(limit);
                policy.has_firmware |= limit == GrantLimit::Firmware;
                // The request as the hardware resolved it.
                policy.requested_khz = requested_khz;
                policy.wanted_khz = policy.wanted_khz.max(requested_khz);
            }
            _ => {}
        }
    }
}
