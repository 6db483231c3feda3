//! One CPU of a run and one cluster of CPUs: what is known of them at an instant.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpuidle::{IdleGovernor, IdleState};
use opplab_kernel::pelt::SchedAvg;
use opplab_kernel::pelt_scaled::Scales;
use opplab_kernel::sched::attach::CfsAvg;
use opplab_kernel::sched::dl_bw::DlRqBw;
use opplab_kernel::sched::newidle::{MIGRATION_COST_NS, RqBalance};
use opplab_kernel::sched::placement::{CpuCapacity, SisProp, WakeFlips};
use opplab_kernel::util_est::UtilEstPair;
use opplab_model::machine::Cluster;
use opplab_model::policy::Policy;

use crate::hardware::energy::Meter;
use crate::hardware::idle_run::IdleRun;
use crate::ids::{ClusterId, CpuId, PolicyId, TaskId};
use crate::run::accounts::{IdleTimes, PointTimes, Residency};
use crate::run::timers::CpuTimers;
use crate::sched::fair_rq::FairRq;
use crate::sched::proposed::CpuProposed;
use crate::sched::rq_clamps::RqClamps;
use crate::sched::starvation::Starvation;

/// The simulated clock starts here: PELT reads 0 as "never".
pub(crate) const BOOT_NS: u64 = 1 << 30;

/// What an idle CPU has to do when it is awake again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Run the timers that are due.
    Timers,
    /// The tick.
    Tick,
    /// A device's request of a task is complete.
    IoDone {
        /// The task that waits.
        task: TaskId,
        /// Work of the interrupt, in ns of the biggest CPU at its reference frequency.
        irq_ns: u64,
    },
    /// The hardware answers a slow frequency switch.
    SwitchDone(TaskId),
    /// Balance on behalf of idle CPUs.
    NohzBalance,
    /// The softirq of the timer wheel.
    TimerSoftirq,
}

/// One CPU: its run queue, its clock, its idle state. On machines with thousands of CPUs an event finds little of its CPU in
/// the caches: what a wake-up and a switch touch is at the beginning, together.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    pub(crate) curr: TaskId,
    /// Runnable tasks of all classes.
    pub(crate) nr_running: u32,
    pub(crate) cluster: ClusterId,
    pub(crate) policy: PolicyId,
    /// Index of the granted operating point in the cluster's list.
    pub(crate) opp: u32,
    pub(crate) nr_iowait: u32,
    /// Up to when the running task's work is accounted.
    pub(crate) account_ns: u64,
    /// Work that the CPU still has with its own actions before the task goes on, as work of tasks is counted.
    pub(crate) overhead: u64,
    /// That part of it which is interrupts', where their time is accounted. It is burnt first.
    pub(crate) irq_overhead: u64,
    /// Work a ns, << 20.
    pub(crate) speed: u64,
    /// Time that the CPU ran tasks and that `account_point()` has not counted.
    pub(crate) busy_ns: u64,
    pub(crate) need_resched: bool,
    /// A tick asked it to reschedule, which it does when it gets the instruction stream ([`crate::Start::takes_turns`]).
    pub(crate) resched_in_turn: bool,
    /// It is among [`crate::sched::balancer::Balancer::changed`].
    pub(crate) changed: bool,
    /// The next schedule() leaves the queue's clock as it is (RQCF_REQ_SKIP).
    pub(crate) skip_clock_update: bool,
    pub(crate) tick_stopped: bool,
    /// A tick found the CPU idle since the idle task runs (ts->got_idle_tick).
    pub(crate) got_idle_tick: bool,
    /// A fair task was queued, so that the fair server has its bandwidth.
    pub(crate) fair_served: bool,
    /// The stopper took the running task away: the CPU becomes idle by a switch that its idle task does not show.
    pub(crate) stopper_ran: bool,
    /// Another CPU asked it to push real-time tasks.
    pub(crate) rt_push: bool,
    pub(crate) idle: IdleRun,
    /// Who was woken on it last, and whether by a task on another CPU.
    pub(crate) last_woken: (TaskId, bool),
    /// Capacity at the highest frequency (arch_scale_cpu_capacity()).
    pub(crate) capacity: u64,
    /// What it really is, which the kernel need not know.
    pub(crate) work_capacity: u64,
    /// What rt, dl, irq and limits of the frequency leave for the fair class (capacity_of()).
    pub(crate) capacity_of: u64,
    /// What limits of the frequency take of it (cpufreq_get_pressure()).
    pub(crate) cpufreq_pressure: u64,
    pub(crate) clk: RqClock,
    /// arch_scale_freq_capacity().
    pub(crate) freq_scale: u64,
    pub(crate) cfs: CfsAvg,
    pub(crate) fair: FairRq,
    pub(crate) cfs_util_est: UtilEstPair,
    pub(crate) misfit_task_load: u64,
    /// Queued deadline tasks, running one included, by their deadlines; those without budget are not among them.
    pub(crate) dl_queue: Vec<TaskId>,
    /// What deadline tasks take of it, without the server of fair tasks.
    pub(crate) dl_bw: DlRqBw,
    /// Queued real-time tasks by descending priority, then order of arrival.
    pub(crate) rt_queue: Vec<(u8, TaskId)>,
    /// What keeps real-time tasks from starving the fair.
    pub(crate) starvation: Starvation,
    /// Where its choices among equal CPUs go on (distribute_cpu_mask_prev).
    pub(crate) distribute: usize,
    pub(crate) wake_list: Vec<TaskId>,
    pub(crate) timers: CpuTimers,
    pub(crate) balance: RqBalance,
    /// What limits the searches for an idle CPU that wake-ups on this CPU start, before v5.19.
    pub(crate) sis_prop: SisProp,
    /// Whom the CPU's idle task woke.
    pub(crate) idle_flips: WakeFlips,
    pub(crate) idle_calls: u64,
    pub(crate) idle_times: IdleTimes,
    pub(crate) idle_governor: Box<dyn IdleGovernor>,
    /// When the RCU callbacks that the CPU has are done.
    pub(crate) rcu_until_ns: u64,
    pub(crate) pending: Vec<Interrupt>,
    pub(crate) rt: SchedAvg,
    pub(crate) dl: SchedAvg,
    pub(crate) irq: SchedAvg,
    /// Time in interrupts since the start (irq_time_read()), where it is accounted.
    pub(crate) irq_time_ns: u64,
    pub(crate) meter: Meter,
    pub(crate) at_points: PointTimes,
    pub(crate) in_idle: Residency,
    pub(crate) clamps: RqClamps,
    /// What proposals keep of it.
    pub(crate) proposed: CpuProposed,
}

impl Cpu {
    /// What balance and the slow path look at changes, or may: callers are where the kernel locks the queue. `changed` are such CPUs.
    #[inline(always)]
    pub(crate) fn note_change(&mut self, cpu: CpuId, changed: &mut Vec<CpuId>) {
        if !self.changed {
            self.changed = true;
            changed.push(cpu);
        }
    }

    /// How fast it is, as the kernel knows.
    #[inline]
    pub(crate) fn scales(&self) -> Scales {
        Scales { freq_scale: self.freq_scale, cpu_capacity: self.capacity }
    }

    /// What it can do, as placement and balance look at it.
    #[inline]
    pub(crate) fn capacities(&self) -> CpuCapacity {
        CpuCapacity {
            orig: self.capacity,
            of: self.capacity_of,
            hw_pressure: 0,
            cpufreq_pressure: self.cpufreq_pressure,
        }
    }

    /// A CPU that runs its idle task at [`BOOT_NS`]; `nr_points`: operating points of its cluster.
    pub(crate) fn new(
        cluster: ClusterId,
        described: &Cluster,
        policy: PolicyId,
        nr_points: usize,
        fair: FairRq,
        idle_governor: Box<dyn IdleGovernor>,
        tick_ns: u64,
    ) -> Self {
        let capacity = u64::from(described.capacity);
        let avg = SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() };
        let mut meter = Meter::default();
        meter.set(BOOT_NS, 0);
        Self {
            cluster,
            policy,
            clk: RqClock::new(BOOT_NS, 0),
            cfs: CfsAvg { avg, ..CfsAvg::default() },
            cfs_util_est: UtilEstPair::default(),
            rt: avg,
            dl: avg,
            irq: avg,
            irq_time_ns: 0,
            irq_overhead: 0,
            fair,
            fair_served: false,
            dl_queue: Vec::new(),
            dl_bw: DlRqBw::default(),
            rt_queue: Vec::new(),
            starvation: Starvation::default(),
            nr_running: 0,
            nr_iowait: 0,
            curr: TaskId::IDLE,
            account_ns: BOOT_NS,
            overhead: 0,
            capacity,
            work_capacity: capacity,
            capacity_of: capacity,
            cpufreq_pressure: 0,
            freq_scale: 1024,
            busy_ns: 0,
            opp: 0,
            speed: 1,
            idle: IdleRun::default(),
            idle_flips: WakeFlips::default(),
            idle_calls: 0,
            idle_times: IdleTimes::new(BOOT_NS),
            idle_governor,
            tick_stopped: false,
            got_idle_tick: false,
            rcu_until_ns: 0,
            pending: Vec::new(),
            wake_list: Vec::new(),
            timers: CpuTimers::default(),
            need_resched: false,
            resched_in_turn: false,
            changed: true,
            skip_clock_update: false,
            clamps: RqClamps::new(),
            proposed: CpuProposed::default(),
            stopper_ran: false,
            last_woken: (TaskId::IDLE, false),
            rt_push: false,
            distribute: 0,
            misfit_task_load: 0,
            balance: RqBalance {
                next_balance: BOOT_NS / tick_ns,
                max_idle_balance_cost: MIGRATION_COST_NS,
                avg_idle: 2 * MIGRATION_COST_NS,
                ..RqBalance::default()
            },
            sis_prop: SisProp {
                wake_avg_idle_ns: 2 * MIGRATION_COST_NS,
                wake_stamp: BOOT_NS / tick_ns,
                ..SisProp::default()
            },
            meter,
            at_points: PointTimes::new(nr_points, BOOT_NS),
            in_idle: Residency::new(described.idle.len().max(1)),
        }
    }

    /// Runnable tasks as the kernel counts them (rq->nr_running): with those whose dequeue is delayed.
    pub(crate) fn rq_nr_running(&self) -> u32 {
        self.nr_running + self.fair.nr_delayed()
    }

    /// Whether nothing but tasks of SCHED_IDLE is queued (sched_idle_cpu()).
    pub(crate) fn is_sched_idle(&self) -> bool {
        self.nr_running > 0 && self.rq_nr_running() == self.fair.idle_h_nr()
    }

    /// Whether the idle task runs here and nothing is about to change that (idle_cpu()).
    pub(crate) fn is_idle(&self) -> bool {
        self.curr == TaskId::IDLE && self.nr_running == 0 && self.wake_list.is_empty()
    }
}

/// For how long all CPUs of a cluster have idled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AllIdle {
    /// Since when they do.
    pub(crate) since_ns: Option<u64>,
    /// For how long they did before.
    pub(crate) ns: u64,
}

/// Shared state of a cluster.
pub(crate) struct ClusterRun {
    pub(crate) idle_states: Vec<IdleState>,
    /// Those that are disabled, a bit each.
    pub(crate) idle_disabled: u64,
    /// Entered cluster state.
    pub(crate) entered: Option<usize>,
    /// When it entered it.
    pub(crate) entered_ns: u64,
    /// For how long it was in each before.
    pub(crate) asleep_ns: Vec<u64>,
    /// How long all its CPUs have idled outside of such a state, if that has a power of its own.
    pub(crate) all_idle: Option<AllIdle>,
    pub(crate) meter: Meter,
}

impl ClusterRun {
    /// Whether its CPUs may use state `index` where PM QoS allows exit latencies of up to `latency_req_ns`.
    pub(crate) fn allows(&self, index: usize, latency_req_ns: u64) -> bool {
        let is_disabled = index < 64 && self.idle_disabled >> index & 1 != 0;
        !is_disabled && self.idle_states.get(index).is_some_and(|state| state.exit_latency_ns <= latency_req_ns)
    }

    /// A cluster that is awake at [`BOOT_NS`].
    pub(crate) fn new(described: &Cluster, policy: &Policy) -> Self {
        let mut meter = Meter::default();
        meter.set(BOOT_NS, 0);
        let idle_states = described.idle.iter().map(|state| IdleState {
            exit_latency_ns: state.entry_latency_ns + state.exit_latency_ns,
            target_residency_ns: state.target_residency_ns,
            polling: state.name == "POLL",
        });
        let disabled = described.idle.iter().enumerate().filter(|(_, state)| policy.idle_disable.contains(&state.name));
        let idle_disabled = disabled.fold(0, |bits, (index, _)| bits | 1_u64.checked_shl(index as u32).unwrap_or(0));
        let asleep_ns = vec![0; described.cluster_idle.len()];
        let own_power =
            described.cluster_idle_uw.is_some() || described.opps.iter().any(|opp| opp.cluster_idle_uw.is_some());
        let all_idle = own_power.then(AllIdle::default);
        Self {
            idle_states: idle_states.collect(),
            idle_disabled,
            entered: None,
            entered_ns: 0,
            asleep_ns,
            all_idle,
            meter,
        }
    }
}
