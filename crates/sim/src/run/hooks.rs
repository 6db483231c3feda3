//! A governor or a placement policy of the user's own, asked by the engine in place of the kernel's.
//!
//! Plain facts go out, a request comes back. The engine keeps what is the machine's: limits, the frequency table, how a
//! request reaches the hardware (fast switch, or the `sugov:N` kthread). Who answers (a test, Python) is not its business.

use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable, Relation, resolve_freq};
use opplab_kernel::cpufreq::sampling::CpuTimes;
use opplab_kernel::cpufreq::schedutil::{SCHED_CPUFREQ_IOWAIT, cpu_bw_dl};
use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{CpuIdx, Event, PlacementRule, Sink, TaskIdx};
use opplab_model::machine::{Cluster, Cpufreq};

use crate::CaseError;
use crate::cpufreq::policy::{Governor, cfs_util_est, cpu_times, cpu_util_cfs, rq_facts};
use crate::ids::{CpuId, PolicyId, TaskId};
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;
use crate::run::task::Class;

/// One CPU of a cpufreq policy, as a governor sees it. Utilisations are on the scale of `capacity` of the biggest CPU
/// (1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GovernorCpu {
    /// Which CPU.
    pub cpu: CpuIdx,
    /// `arch_scale_cpu_capacity()`.
    pub capacity: u64,
    /// `cpu_util_cfs()`: the fair class's utilisation or its estimate.
    pub util_cfs: u64,
    /// `cpu_util_cfs_boost()`: that, or the runnable signal if it is larger.
    pub util_cfs_boost: u64,
    /// `cpu_util_rt()`.
    pub util_rt: u64,
    /// `cpu_util_dl()`.
    pub util_dl: u64,
    /// `cpu_util_irq()`.
    pub util_irq: u64,
    /// The lower clamp that holds for the run queue; 0 without one.
    pub uclamp_min: u64,
    /// The upper clamp; 1024 without one.
    pub uclamp_max: u64,
    /// Somebody uses clamps.
    pub uclamp_used: bool,
    /// A real-time task is runnable.
    pub rt_runnable: bool,
    /// Runnable tasks.
    pub nr_running: u32,
    /// How often the CPU went idle and stopped its tick.
    pub idle_calls: u64,
    /// `cpu_bw_dl()`: the capacity that the bandwidth of deadline tasks takes, and that of fair tasks' server (v6.12).
    pub bw_dl: u64,
    /// How much time passed, and how much of it idle.
    pub times: CpuTimes,
}

/// What a governor is told at each report of the scheduler (`cpufreq_update_util()`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorFacts {
    /// Simulated time in ns; the kernel's `rq_clock` of the reporting CPU.
    pub time_ns: u64,
    /// The CPU that reports.
    pub cpu: CpuIdx,
    /// A task that waited for I/O wakes (`SCHED_CPUFREQ_IOWAIT`).
    pub iowait: bool,
    /// All CPUs of the cpufreq policy, the first one first.
    pub cpus: Vec<GovernorCpu>,
    /// `policy->cur`: what the driver was last told, in kHz.
    pub cur_khz: u32,
    /// What the governor last asked for, resolved, in kHz; 0 if nothing.
    pub requested_khz: u32,
    /// The lowest frequency, in kHz.
    pub min_khz: u32,
    /// The highest frequency, in kHz.
    pub max_khz: u32,
    /// The frequency at which the CPUs have their capacity, in kHz.
    pub freq_ref_khz: u32,
    /// The driver's frequency table, in kHz, ascending; empty without one.
    pub table_khz: Vec<u32>,
    /// Utilisation is frequency-invariant.
    pub freq_invariant: bool,
    /// The rate limit that schedutil would have here, in us.
    pub rate_limit_us: u32,
}

/// One CPU as a placement policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementCpu {
    /// Which CPU.
    pub cpu: CpuIdx,
    /// `arch_scale_cpu_capacity()`.
    pub capacity: u64,
    /// What other classes leave of it (`capacity_of()`).
    pub capacity_of: u64,
    /// `util_avg` of the fair run queue.
    pub util_avg: u64,
    /// Its estimate.
    pub util_est: u64,
    /// Runnable tasks.
    pub nr_running: u32,
    /// It runs the idle task and nothing is on its way.
    pub idle: bool,
    /// Its clock, in kHz.
    pub khz: u32,
    /// The task may run there.
    pub allowed: bool,
    /// CPUs with an equal number share a last-level cache.
    pub llc: u32,
}

/// What a placement policy is told when a fair task wakes or is born.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementFacts {
    /// Simulated time in ns.
    pub time_ns: u64,
    /// The task's index.
    pub task: TaskIdx,
    /// Its name.
    pub name: String,
    /// It is born, rather than woken.
    pub fork: bool,
    /// Where it ran last, or its parent runs.
    pub prev_cpu: CpuIdx,
    /// The CPU that runs the wake-up.
    pub waker_cpu: CpuIdx,
    /// The task that wakes it; `None` if it is an interrupt on an idle CPU.
    pub waker: Option<TaskIdx>,
    /// The waker is about to sleep.
    pub sync: bool,
    /// Its utilisation.
    pub util_avg: u64,
    /// Its utilisation or its estimate, whichever is larger.
    pub util_est: u64,
    /// All CPUs.
    pub cpus: Vec<PlacementCpu>,
}

/// The user's policies. What is not governed or placed is the kernel's.
pub trait Hooks {
    /// Whether [`Hooks::freq_khz`] decides in place of the case's governor.
    fn governs(&self) -> bool {
        false
    }
    /// Whether [`Hooks::select_cpu`] decides in place of the kernel's placement.
    fn places(&self) -> bool {
        false
    }
    /// The frequency to ask for in kHz; `None` asks for nothing. The driver's table and limits apply to it.
    ///
    /// # Errors
    /// Why the policy failed, in words; the run ends.
    fn freq_khz(&mut self, facts: &GovernorFacts) -> Result<Option<u32>, String> {
        let _ = facts;
        Ok(None)
    }
    /// The CPU where the task is queued; `None` leaves it to the kernel.
    ///
    /// # Errors
    /// Why the policy failed, in words; the run ends.
    fn select_cpu(&mut self, facts: &PlacementFacts) -> Result<Option<CpuIdx>, String> {
        let _ = facts;
        Ok(None)
    }
}

/// What the engine keeps for a policy whose governor is the user's.
pub(crate) struct CustomGovernor {
    limits: FreqLimits,
    table: Option<FreqTable>,
    table_khz: Vec<u32>,
    rate_limit_us: u32,
    requested_khz: u32,
    /// The kthread was woken and did not take the frequency yet.
    work_in_progress: bool,
}

impl CustomGovernor {
    pub(crate) fn new(cluster: &Cluster, driver: &Cpufreq, rate_limit_us: u32) -> Result<Self, CaseError> {
        let khz: Vec<u32> = cluster.opps.iter().map(|opp| opp.khz).collect();
        let limits = FreqLimits { min_khz: khz[0], max_khz: khz[khz.len() - 1] };
        let table = FreqTable::from_khz(&khz).map_err(|error| CaseError(format!("frequency table: {error}")))?;
        Ok(Self {
            limits,
            table: driver.freq_table.then_some(table),
            table_khz: if driver.freq_table { khz } else { Vec::new() },
            rate_limit_us,
            requested_khz: 0,
            work_in_progress: false,
        })
    }

    /// The kthread runs: the frequency to set, if it is another one.
    pub(crate) fn work(&mut self, cur_khz: u32) -> Option<u32> {
        self.work_in_progress = false;
        (self.requested_khz != cur_khz).then_some(self.requested_khz)
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The scheduler reports to a governor of the user's own.
    pub(crate) fn custom_update_util(&mut self, index: PolicyId, cpu: CpuId, flags: u32) {
        let state = &self.policies[index];
        if self.error.is_some() || !(self.driver.dvfs_possible_from_any_cpu || state.cpus.contains(&self.here)) {
            return;
        }
        let Governor::Custom(custom) = &state.governor else { return };
        let cpus = state.cpus.iter().map(|&member| {
            let own = &self.cpus[member];
            let rq = rq_facts(own, &self.gates, self.uclamp_used);
            GovernorCpu {
                cpu: member.0,
                capacity: own.capacity,
                util_cfs: cpu_util_cfs(own, &self.gates, false),
                util_cfs_boost: cpu_util_cfs(own, &self.gates, true),
                util_rt: rq.util_rt,
                util_dl: rq.util_dl,
                util_irq: rq.util_irq,
                uclamp_min: rq.uclamp_min,
                uclamp_max: rq.uclamp_max,
                uclamp_used: rq.uclamp_used,
                rt_runnable: rq.rt_runnable,
                nr_running: own.nr_running,
                idle_calls: own.idle_calls,
                bw_dl: cpu_bw_dl(rq.dl_running_bw),
                times: cpu_times(own, self.now),
            }
        });
        let facts = GovernorFacts {
            time_ns: self.cpus[cpu].clk.clock.saturating_sub(BOOT_NS),
            cpu: cpu.0,
            iowait: flags & SCHED_CPUFREQ_IOWAIT != 0,
            cpus: cpus.collect(),
            cur_khz: state.cur_khz,
            requested_khz: custom.requested_khz,
            min_khz: custom.limits.min_khz,
            max_khz: custom.limits.max_khz,
            freq_ref_khz: self.topology.reference_khz[state.cluster],
            table_khz: custom.table_khz.clone(),
            freq_invariant: self.gates.freq_invariant,
            rate_limit_us: custom.rate_limit_us,
        };
        let Some(hooks) = &mut self.hooks else { return };
        let wanted = match hooks.freq_khz(&facts) {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return,
            Err(message) => return self.fail(message),
        };
        let own = &self.cpus[cpu];
        let (util, max) = (cpu_util_cfs(own, &self.gates, true) as u32, own.capacity as u32);
        let fast_switch = self.driver.fast_switch;
        let Governor::Custom(custom) = &mut self.policies[index].governor else { return };
        let khz = resolve_freq(custom.table.as_ref(), wanted, custom.limits, Relation::L, true);
        if khz == custom.requested_khz {
            return;
        }
        custom.requested_khz = khz;
        let queue = !fast_switch && !std::mem::replace(&mut custom.work_in_progress, true);
        if fast_switch {
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util, max });
            self.fast_switch(index, khz);
        } else if queue {
            self.emit(Event::FreqRequest { cpu: cpu.0, khz, util, max });
            self.queue_sugov_work(index);
        }
    }

    /// The CPU that the user's placement policy chooses for a fair task.
    pub(crate) fn select_task_rq_custom(
        &mut self,
        task: TaskId,
        prev_cpu: CpuId,
        sync: bool,
        fork: bool,
    ) -> Option<(CpuId, PlacementRule)> {
        if self.error.is_some() || !self.hooks.as_ref().is_some_and(|hooks| hooks.places()) {
            return None;
        }
        if !fork {
            self.sync_entity_load_avg(task, prev_cpu);
        }
        let state = &self.tasks[task];
        if state.class != Class::Fair || self.cpu_sets.is_single(state.allowed) {
            return None;
        }
        let allowed = self.cpu_sets.cpus(state.allowed);
        let waker = self.cpus[self.here].curr;
        let cpus = self.cpus.iter().enumerate().map(|(cpu, own)| PlacementCpu {
            cpu: cpu as u32,
            capacity: own.capacity,
            capacity_of: own.capacity_of,
            util_avg: own.cfs.avg.util_avg,
            util_est: cfs_util_est(own, &self.gates),
            nr_running: own.nr_running,
            idle: own.is_idle(),
            khz: self.granted_khz(CpuId::of(cpu)),
            allowed: allowed.contains(cpu),
            llc: self.topology.llc_of[cpu].0,
        });
        let facts = PlacementFacts {
            time_ns: self.now - BOOT_NS,
            task: task.0,
            name: self.task_name(task),
            fork,
            prev_cpu: prev_cpu.0,
            waker_cpu: self.here.0,
            waker: (waker != TaskId::IDLE).then_some(waker.0),
            sync: sync && !self.in_interrupt,
            util_avg: state.sa.util_avg,
            util_est: self.task_util_est(task),
            cpus: cpus.collect(),
        };
        let chosen = self.hooks.as_mut()?.select_cpu(&facts);
        match chosen {
            Ok(Some(cpu)) if facts.cpus.get(cpu as usize).is_some_and(|own| own.allowed) => {
                Some((CpuId(cpu), PlacementRule::Custom))
            }
            Ok(Some(cpu)) => {
                let able: Vec<u32> = facts.cpus.iter().filter(|own| own.allowed).map(|own| own.cpu).collect();
                self.fail(format!("task {:?} may not run on CPU {cpu}, only on {able:?}", facts.name));
                None
            }
            Ok(None) => None,
            Err(message) => {
                self.fail(message);
                None
            }
        }
    }
}
