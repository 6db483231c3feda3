//! A governor or a placement policy of the user's own, asked by the engine in place of the kernel's.
//!
//! Plain facts go out, a request comes back. The engine keeps what is the machine's: limits, the frequency table, how a
//! request reaches the hardware (fast switch, or the `sugov:N` kthread). Who answers (a test, Python) is not its business.

use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable};
use opplab_kernel::cpufreq::governor::GovernorSetup;
use opplab_model::event::{CpuIdx, TaskIdx};
use opplab_model::machine::Cluster;

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

/// What a governor gets at each report of the scheduler (`cpufreq_update_util()`).
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
    /// `policy->cur`: what was last asked of the driver, in kHz.
    pub cur_khz: u32,
    /// What the governor last asked for, resolved, in kHz; 0 if nothing.
    pub requested_khz: u32,
    /// The lowest frequency, in kHz.
    pub min_khz: u32,
    /// The highest frequency, in kHz.
    pub max_khz: u32,
    /// The frequency of which schedutil takes a share (`get_capacity_ref_freq()`), in kHz.
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

/// What a placement policy gets when a fair task wakes or is born.
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
    /// The utilisation that the last answer was made of, and the capacity that it is a part of, if the policy gives them.
    fn reason(&mut self) -> Option<(u32, u32)> {
        None
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
    pub(super) limits: FreqLimits,
    pub(super) cpuinfo_max_khz: u32,
    pub(super) table: Option<FreqTable>,
    pub(super) table_khz: Vec<u32>,
    pub(super) rate_limit_us: u32,
    pub(super) requested_khz: u32,
    /// The kthread was woken and did not take the frequency yet.
    pub(super) work_in_progress: bool,
}

impl CustomGovernor {
    /// In place of the kernel's governor that `setup` would start.
    pub(crate) fn new(cluster: &Cluster, setup: GovernorSetup) -> Self {
        let rate_limit_us = setup.rate_limit_us();
        let khz = cluster.opps.iter().map(|opp| opp.khz);
        Self {
            limits: setup.limits,
            cpuinfo_max_khz: setup.cpuinfo.max_khz,
            table_khz: if setup.table.is_some() { khz.collect() } else { Vec::new() },
            table: setup.table,
            rate_limit_us,
            requested_khz: 0,
            work_in_progress: false,
        }
    }

    /// Other limits hold: those that a governor would start with now.
    pub(super) fn change_limits(&mut self, fresh: Self) {
        let Self {
            limits,
            cpuinfo_max_khz,
            rate_limit_us,
            table: _,
            table_khz: _,
            requested_khz: _,
            work_in_progress: _,
        } = fresh;
        (self.limits, self.cpuinfo_max_khz, self.rate_limit_us) = (limits, cpuinfo_max_khz, rate_limit_us);
    }

    /// The kthread runs: the frequency to set, if it is another one.
    pub(crate) fn work(&mut self, cur_khz: u32) -> Option<u32> {
        self.work_in_progress = false;
        (self.requested_khz != cur_khz).then_some(self.requested_khz)
    }
}
