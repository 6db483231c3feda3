//! The engine: pops the next event, advances the clock, hands the event to whom it concerns.
//!
//! Everything that can wait has one slot in the queue (see `queue`). Handlers change state and mark CPUs that must
//! reschedule; `settle` then runs the scheduler on those CPUs until nothing is left to do at this instant.

use std::collections::VecDeque;

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpuidle::{IdleGovernor, IdleState};
use opplab_kernel::pelt::{HalfLife, SchedAvg};
use opplab_kernel::sched::attach::CfsAvg;
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::dl_bw::DlRqBw;
use opplab_kernel::sched::entity::SchedEntity;
use opplab_kernel::sched::newidle::RqBalance;
use opplab_kernel::sched::nohz::nohz_idle_balance;
use opplab_kernel::sched::placement::{SisProp, WakeFlips};
use opplab_kernel::util_est::UtilEstPair;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, Fingerprint, IDLE_TASK, Sink, TaskIdx};
use opplab_model::machine::Cpufreq;
use rand_pcg::Pcg64;

use crate::cpufreq::intel::IntelSetup;
use crate::cpufreq::policy::FreqPolicy;
use crate::hardware::cpuidle::IdleRun;
use crate::hardware::energy::Meter;
use crate::hardware::grant::Hardware;
use crate::run::gates::Gates;
use crate::run::hooks::Hooks;
use crate::run::objects::Objects;
use crate::run::queue::{GROUP, Queue};
use crate::run::task::{Task, WORK_SHIFT};
use crate::sched::balance::Balancer;
use crate::sched::clamps::RqClamps;
use crate::sched::deadline::{DL_TIMER, INACTIVE_TIMER};
use crate::sched::fair::FairRq;
use crate::sched::topology::Topology;
use crate::{Case, CaseError, Outcome};

/// The simulated clock starts here: PELT reads 0 as "never".
pub(crate) const BOOT_NS: u64 = 1 << 30;

/// What a CPU's slots wait for. The order of the variants is the order of events at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Wait {
    /// The earliest timer armed on the CPU.
    Timer = 0,
    /// The end of the running task's op.
    Op = 1,
    /// The end of an idle state's exit.
    IdleExit = 2,
    /// An interrupt from another CPU.
    Ipi = 3,
    /// The tick.
    Tick = 4,
}

/// Slots a CPU has: a group of the queue, so that a CPU's own changes meet there.
pub(crate) const SLOTS_A_CPU: u32 = GROUP as u32;
/// Rank of a finished frequency switch, after the CPUs' slots.
const RANK_SWITCH: u8 = 5;
/// Rank of a device completion.
const RANK_DEVICE: u8 = 6;
/// Rank of a package's control unit.
const RANK_PCU: u8 = 7;

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
        task: TaskIdx,
        /// Work of the interrupt, in ns of the biggest CPU at its reference frequency.
        irq_ns: u64,
    },
    /// The hardware answers a slow frequency switch.
    SwitchDone(TaskIdx),
    /// Balance on behalf of idle CPUs.
    NohzBalance,
    /// The softirq of the timer wheel.
    TimerSoftirq,
}

/// One CPU: its run queue, its clock, its idle state. On machines with thousands of CPUs an event finds little of its CPU in
/// the caches: what a wake-up and a switch touch is at the beginning, together.
#[repr(C, align(64))]
pub(crate) struct Cpu {
    pub(crate) curr: TaskIdx,
    /// Runnable tasks of all classes.
    pub(crate) nr_running: u32,
    pub(crate) cluster: u32,
    pub(crate) policy: u32,
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
    /// Capacity at the highest frequency (arch_scale_cpu_capacity()).
    pub(crate) capacity: u64,
    /// What rt, dl, irq leave for the fair class (capacity_of()).
    pub(crate) capacity_of: u64,
    pub(crate) clk: RqClock,
    /// arch_scale_freq_capacity().
    pub(crate) freq_scale: u64,
    pub(crate) cfs: CfsAvg,
    pub(crate) fair: FairRq,
    pub(crate) cfs_util_est: UtilEstPair,
    pub(crate) misfit_task_load: u64,
    /// Queued deadline tasks, running one included, by their deadlines; those without budget are not among them.
    pub(crate) dl_queue: Vec<TaskIdx>,
    /// What deadline tasks take of it, without the server of fair tasks.
    pub(crate) dl_bw: DlRqBw,
    /// Queued real-time tasks by descending priority, then order of arrival.
    pub(crate) rt_queue: Vec<(u8, TaskIdx)>,
    /// Where its choices among equal CPUs go on (distribute_cpu_mask_prev).
    pub(crate) distribute: usize,
    pub(crate) wake_list: Vec<TaskIdx>,
    /// Armed timers, latest first: (time with slack, sequence, task); that of the soft lockup detector has the idle task.
    pub(crate) timers: Vec<(u64, u64, TaskIdx)>,
    /// The timer wheel: as `timers`, but ticks serve them.
    pub(crate) wheel: Vec<(u64, u64, TaskIdx)>,
    pub(crate) balance: RqBalance,
    /// What limits the searches for an idle CPU that wake-ups on this CPU start, before v5.19.
    pub(crate) sis_prop: SisProp,
    /// Whom the CPU's idle task woke.
    pub(crate) idle_flips: WakeFlips,
    pub(crate) idle_calls: u64,
    /// Time that the idle task ran, up to its last start.
    pub(crate) idle_total_ns: u64,
    /// When the idle task started last.
    pub(crate) idle_since_ns: u64,
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
    /// APERF and MPERF, in kHz x ns while the CPU executes.
    pub(crate) aperf: u128,
    pub(crate) mperf: u128,
    /// Their values at the last tick that read them.
    pub(crate) last_counters: (u128, u128),
    pub(crate) busy_ns_by_opp: Vec<u64>,
    pub(crate) time_ns_by_opp: Vec<u64>,
    pub(crate) opp_since_ns: u64,
    pub(crate) idle_ns_by_state: Vec<u64>,
    /// Entries into each idle state, and ns until the exit was complete.
    pub(crate) idle_usage: Vec<(u64, u64)>,
    pub(crate) clamps: RqClamps,
}

impl Cpu {
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
        self.curr == IDLE_TASK && self.nr_running == 0 && self.wake_list.is_empty()
    }
}

/// Shared state of a cluster.
pub(crate) struct ClusterRun {
    pub(crate) idle_states: Vec<IdleState>,
    /// Entered cluster state.
    pub(crate) entered: Option<usize>,
    pub(crate) meter: Meter,
}

/// A run in progress.
pub(crate) struct Engine<'c, S: Sink, H: HalfLife> {
    pub(crate) case: &'c Case,
    pub(crate) sink: &'c mut S,
    pub(crate) hooks: Option<&'c mut dyn Hooks>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) gates: Gates,
    pub(crate) topology: Topology,
    pub(crate) hardware: Hardware,
    /// intel_pstate's setup, if it is the driver.
    pub(crate) intel: Option<IntelSetup>,
    pub(crate) now: u64,
    pub(crate) tick_ns: u64,
    /// Kworkers take samples.
    pub(crate) dbs_kworkers: bool,
    pub(crate) queue: Queue,
    /// CPU on which the code that runs at this instant runs.
    pub(crate) here: u32,
    /// Whether that code is an interrupt (not the current task's own doing).
    pub(crate) in_interrupt: bool,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) clusters: Vec<ClusterRun>,
    /// Since when all CPUs are in their deepest states, if they are.
    pub(crate) all_down_since_ns: u64,
    pub(crate) policies: Vec<FreqPolicy>,
    pub(crate) tasks: Vec<Task<'c>>,
    /// The loop counters of all tasks.
    pub(crate) loops: Vec<u32>,
    /// The fair class's view of each task.
    pub(crate) entities: Vec<SchedEntity>,
    /// Sets of CPUs by index: 0 is all, then the workload's, then the kthreads'.
    pub(crate) masks: Vec<CpuMask>,
    /// Whether each of the masks has one CPU only.
    pub(crate) single_cpu: Vec<bool>,
    /// The cpufreq driver of the policy.
    pub(crate) driver: Cpufreq,
    /// Of each last-level cache: an idle core may be found there.
    pub(crate) has_idle_cores: Vec<bool>,
    /// Of each last-level cache: how many CPUs a wake-up may look at (`None`: all); from v5.19 on.
    pub(crate) nr_idle_scan: Vec<Option<u32>>,
    pub(crate) objects: Objects,
    pub(crate) resched: VecDeque<u32>,
    /// Work of interrupts that CPUs have raised on themselves: (CPU, frequency policy).
    pub(crate) irq_work: VecDeque<(u32, u32)>,
    pub(crate) timer_seq: u64,
    pub(crate) rng: Pcg64,
    /// CPUs with real-time tasks that wait and may go elsewhere (rd->rto_mask).
    pub(crate) rt_overload: CpuMask,
    pub(crate) scratch_mask: CpuMask,
    /// CPUs without deadline tasks (cpudl.free_cpus).
    pub(crate) dl_free: CpuMask,
    /// CPUs with more than one.
    pub(crate) dl_crowded: CpuMask,
    /// Bandwidth of all deadline tasks together (dl_bw.total_bw), without servers.
    pub(crate) dl_total_bw: u64,
    /// CPUs that run the idle task with nothing queued (idle_cpu()).
    pub(crate) idle_mask: CpuMask,
    /// CPUs with nothing but tasks of SCHED_IDLE (sched_idle_cpu()), and those of `idle_mask`; kept if there are such tasks.
    pub(crate) idle_like_mask: Option<CpuMask>,
    /// Of each cluster: f_max of frequency invariance over the base frequency, << 10 (x86).
    pub(crate) max_freq_ratio: Vec<u64>,
    pub(crate) stream: crate::run::stream::Stream,
    pub(crate) overutilized: bool,
    /// Overutilised scheduling domains (first CPU, number of CPUs), where the kernel notes it of each.
    pub(crate) sd_overutilized: Vec<(usize, u32)>,
    /// uclamp_is_used().
    pub(crate) uclamp_used: bool,
    pub(crate) overutilized_since_ns: u64,
    pub(crate) eas: Option<crate::sched::eas::EasState>,
    pub(crate) balancer: Balancer,
    /// The benchmark's own tasks that have not ended.
    pub(crate) nr_main_left: u32,
    /// When the sink wants the counters next; `u64::MAX`: never.
    pub(crate) next_sample_ns: u64,
    /// Placements that were recorded, to number them.
    pub(crate) nr_decisions: u64,
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<CaseError>,
    pub(crate) half_life: std::marker::PhantomData<H>,
}

impl<'c, S: Sink, H: HalfLife> Engine<'c, S, H> {
    /// Runs to the end of the case.
    pub(crate) fn run(mut self) -> Result<Outcome, CaseError> {
        let end = BOOT_NS + self.case.duration_ns;
        let warmup_end = BOOT_NS + self.case.workload.warmup_ns;
        self.start();
        self.settle();
        let mut before = Outcome::default();
        if warmup_end > BOOT_NS {
            self.run_until(warmup_end);
            before = self.totals();
        }
        self.run_until(end);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.assert_bandwidths();
        Ok(self.finish(&before))
    }

    /// Handles all events up to `end`, or until the benchmark's own tasks have ended. The clock is then there.
    fn run_until(&mut self, end: u64) {
        while let Some(time) = self.queue.peek() {
            if time > end || self.error.is_some() {
                break;
            }
            self.samples_until(time);
            let Some((time, slot)) = self.queue.pop() else { break };
            self.now = time;
            self.outcome.engine_events += 1;
            self.dispatch(slot);
            self.settle();
            if self.nr_main_left == 0 && self.case.workload.nr_main > 0 {
                return;
            }
        }
        self.samples_until(end);
        self.now = end;
    }

    fn dispatch(&mut self, slot: u32) {
        let nr_cpu_slots = self.cpus.len() as u32 * SLOTS_A_CPU;
        if slot >= nr_cpu_slots {
            let index = slot - nr_cpu_slots;
            let nr_policies = self.policies.len() as u32;
            if index < nr_policies {
                self.switch_done(index);
            } else if index < nr_policies + self.case.workload.devices.len() as u32 {
                self.device_done(index - nr_policies);
            } else {
                self.pcu(index - nr_policies - self.case.workload.devices.len() as u32);
            }
            return;
        }
        let cpu = slot / SLOTS_A_CPU;
        match slot % SLOTS_A_CPU {
            0 => self.interrupt(cpu, Interrupt::Timers),
            1 => self.op_end(cpu),
            2 => self.idle_exit(cpu),
            3 => self.ipi(cpu),
            _ => self.interrupt(cpu, Interrupt::Tick),
        }
    }

    /// Schedules on every CPU that was asked to, until none is left.
    pub(crate) fn settle(&mut self) {
        self.run_irq_work();
        if self.stream.shared {
            return self.settle_stream();
        }
        while let Some(cpu) = self.resched.pop_front() {
            if std::mem::take(&mut self.cpus[cpu as usize].need_resched) {
                self.schedule(cpu);
            }
            self.run_irq_work();
        }
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.fingerprint.event(self.now - BOOT_NS, &event);
        if S::ENABLED {
            self.sink.event(self.now - BOOT_NS, &event);
        }
    }

    /// Tells the sink only: events that follow from others.
    pub(crate) fn emit_signal(&mut self, event: Event) {
        if S::ENABLED {
            self.sink.event(self.now - BOOT_NS, &event);
        }
    }

    /// Tells the sink what went into a decision; callers ask `S::DECISIONS` before they gather it.
    pub(crate) fn record(&mut self, decision: Decision) {
        if S::DECISIONS {
            self.sink.decision(self.now - BOOT_NS, &decision);
        }
    }

    pub(crate) fn slot(&self, cpu: u32, wait: Wait) -> u32 {
        cpu * SLOTS_A_CPU + wait as u32
    }

    pub(crate) fn arm(&mut self, cpu: u32, wait: Wait, time_ns: u64) {
        let slot = self.slot(cpu, wait);
        self.queue.set(slot, time_ns, wait as u8);
    }

    pub(crate) fn disarm(&mut self, cpu: u32, wait: Wait) {
        let slot = self.slot(cpu, wait);
        self.queue.clear(slot);
    }

    pub(crate) fn arm_switch(&mut self, policy: u32, time_ns: u64) {
        let slot = self.cpus.len() as u32 * SLOTS_A_CPU + policy;
        self.queue.set(slot, time_ns, RANK_SWITCH);
    }

    pub(crate) fn arm_device(&mut self, device: u32, time_ns: u64) {
        let slot = self.cpus.len() as u32 * SLOTS_A_CPU + self.policies.len() as u32 + device;
        self.queue.set(slot, time_ns, RANK_DEVICE);
    }

    pub(crate) fn arm_package(&mut self, package: u32, time_ns: u64) {
        let others = self.policies.len() + self.case.workload.devices.len();
        let slot = self.cpus.len() as u32 * SLOTS_A_CPU + others as u32 + package;
        self.queue.set(slot, time_ns, RANK_PCU);
    }

    /// Runs `what` on `cpu`: at once if it is awake, else after its exit from idle.
    pub(crate) fn interrupt(&mut self, cpu: u32, what: Interrupt) {
        if self.stream.shared {
            return self.stream_interrupt(cpu, what);
        }
        if self.cpus[cpu as usize].idle.is_awake() {
            self.account(cpu);
            self.handle(cpu, what);
            self.reprogram(cpu);
        } else {
            let pending = &mut self.cpus[cpu as usize].pending;
            if !pending.contains(&what) {
                pending.push(what);
            }
            self.leave_idle(cpu, self.irq_delay_ns(cpu, what));
        }
    }

    /// How long an interrupt keeps an idle CPU before it wakes anybody, or takes to come from another CPU.
    fn irq_delay_ns(&self, cpu: u32, what: Interrupt) -> u64 {
        match what {
            Interrupt::IoDone { irq_ns, .. } if irq_ns > 0 => {
                (irq_ns << WORK_SHIFT).div_ceil(self.base_speed(cpu).max(1))
            }
            Interrupt::NohzBalance => self.case.machine.costs.ipi_ns,
            _ => 0,
        }
    }

    /// The interrupt's work itself; the CPU is awake.
    pub(crate) fn handle(&mut self, cpu: u32, what: Interrupt) {
        self.here = cpu;
        let was = std::mem::replace(&mut self.in_interrupt, true);
        match what {
            Interrupt::Timers => {
                if self.wheel_is_due(cpu) {
                    // A stopped tick comes once for the wheel (tick-sched.c:tick_nohz_stop_tick()).
                    self.tick(cpu);
                }
                self.run_timers(cpu);
                self.raise_timer_softirq(cpu);
            }
            Interrupt::Tick => {
                self.tick(cpu);
                // The tick is a timer like the others (tick_nohz_handler()).
                self.run_timers(cpu);
                self.raise_timer_softirq(cpu);
            }
            Interrupt::TimerSoftirq => self.run_wheel(cpu),
            Interrupt::IoDone { task, irq_ns } => {
                if irq_ns > 0 {
                    self.spend_irq(cpu, irq_ns);
                }
                self.try_to_wake_up(task, false);
            }
            Interrupt::SwitchDone(task) => self.try_to_wake_up(task, false),
            Interrupt::NohzBalance => nohz_idle_balance(self, cpu as usize),
        }
        self.run_irq_work();
        self.in_interrupt = was;
    }

    fn run_timers(&mut self, cpu: u32) {
        while let Some(&(latest, _, task)) = self.cpus[cpu as usize].timers.last() {
            // hrtimer.c:__hrtimer_run_queues(): what may be late is served with whatever comes before it must.
            let time = latest.saturating_sub(self.timer_slack_ns(task));
            if time > self.now {
                break;
            }
            self.cpus[cpu as usize].timers.pop();
            if task == IDLE_TASK {
                self.watchdog_timer(cpu, time);
                continue;
            }
            if task & DL_TIMER != 0 {
                self.dl_task_timer(task & !DL_TIMER);
                continue;
            }
            if task & INACTIVE_TIMER != 0 {
                self.inactive_task_timer(task & !INACTIVE_TIMER);
                continue;
            }
            self.timer_wakes(task, time);
        }
        self.rearm_timer(cpu);
    }

    fn timer_wakes(&mut self, task: TaskIdx, time_ns: u64) {
        if self.tasks[task as usize].life == crate::run::task::Life::New {
            self.wake_up_new_task(task);
        } else {
            self.tasks[task as usize].due_ns = Some(time_ns);
            self.try_to_wake_up(task, false);
        }
    }

    /// Whether the timer wheel of `cpu` has something to serve.
    fn wheel_is_due(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].wheel.last().is_some_and(|&(time, _, _)| time <= self.now)
    }

    /// timer.c:run_local_timers(): the tick has the wheel served when the CPU leaves the interrupt; where CPUs share one stream, that may be
    /// a turn later.
    fn raise_timer_softirq(&mut self, cpu: u32) {
        if !self.wheel_is_due(cpu) {
            return;
        }
        if self.stream.shared {
            self.cpus[cpu as usize].pending.push(Interrupt::TimerSoftirq);
        } else {
            self.run_wheel(cpu);
        }
    }

    /// timer.c:run_timer_softirq().
    fn run_wheel(&mut self, cpu: u32) {
        while self.wheel_is_due(cpu) {
            let Some((time, _, task)) = self.cpus[cpu as usize].wheel.pop() else { break };
            // One of the kernel's own that wakes nobody has had its tick.
            if task != IDLE_TASK {
                self.timer_wakes(task, time);
            }
        }
        self.rearm_timer(cpu);
    }

    /// kernel/watchdog.c:watchdog_timer_fn(), v6.12: arms itself again and has the stopper run, which starts the tick of
    /// an idle CPU again.
    fn watchdog_timer(&mut self, cpu: u32, time_ns: u64) {
        self.add_timer(cpu, time_ns + self.watchdog_period_ns(), IDLE_TASK);
        let costs = self.case.machine.costs;
        if self.cpus[cpu as usize].curr == IDLE_TASK {
            self.restart_tick(cpu);
        } else {
            self.spend(cpu, costs.wakeup_ns + 2 * costs.context_switch_ns);
        }
    }

    /// kernel/watchdog.c:set_sample_period(), v6.12: a fifth of twice the threshold.
    pub(crate) fn watchdog_period_ns(&self) -> u64 {
        u64::from(self.case.policy.watchdog_thresh_s) * 2 * 1_000_000_000 / 5
    }

    /// Arms a timer of `task` on `cpu`, which may be as late as the task's slack (hrtimer_set_expires_range_ns()).
    pub(crate) fn add_timer(&mut self, cpu: u32, time_ns: u64, task: TaskIdx) {
        self.timer_seq += 1;
        let latest_ns = time_ns.saturating_add(self.timer_slack_ns(task));
        let entry = (latest_ns, self.timer_seq, task);
        let by_tick = self.tasks.get(task as usize).is_some_and(|task| task.timers_by_tick);
        let state = &mut self.cpus[cpu as usize];
        let timers = if by_tick { &mut state.wheel } else { &mut state.timers };
        let place = timers.partition_point(|other| *other > entry);
        timers.insert(place, entry);
        self.rearm_timer(cpu);
    }

    /// Forgets the timers of `task` on `cpu` (hrtimer_cancel()).
    pub(crate) fn cancel_timer(&mut self, cpu: u32, task: TaskIdx) {
        let timers = &mut self.cpus[cpu as usize].timers;
        let nr = timers.len();
        timers.retain(|&(_, _, other)| other != task);
        if timers.len() != nr {
            self.rearm_timer(cpu);
        }
    }

    /// How late a timer of `task` may be; one of the kernel's own is not.
    fn timer_slack_ns(&self, task: TaskIdx) -> u64 {
        self.tasks.get(task as usize).map_or(0, |task| task.timer_slack_ns)
    }

    /// When the next timer of `cpu` comes without a tick: one of its own, or if the tick is stopped, the tick that the wheel needs.
    pub(crate) fn next_timer_ns(&self, cpu: u32) -> Option<u64> {
        let state = &self.cpus[cpu as usize];
        let timer = state.timers.last().map(|&(time, _, _)| time);
        let wheel = state.wheel.last().filter(|_| state.tick_stopped);
        let wheel = wheel.map(|&(time, _, _)| time.div_ceil(self.tick_ns) * self.tick_ns);
        timer.into_iter().chain(wheel).min()
    }

    pub(crate) fn rearm_timer(&mut self, cpu: u32) {
        match self.next_timer_ns(cpu) {
            Some(time) => {
                let time = time.max(self.now);
                if self.queue.time_of(self.slot(cpu, Wait::Timer)) != Some(time) {
                    self.arm(cpu, Wait::Timer, time);
                }
            }
            None => self.disarm(cpu, Wait::Timer),
        }
    }

    fn ipi(&mut self, cpu: u32) {
        self.here = cpu;
        if !self.cpus[cpu as usize].idle.is_awake() {
            self.leave_idle(cpu, 0);
            return;
        }
        self.account(cpu);
        self.run_wake_list(cpu);
        self.asked_to_push(cpu);
        if self.cpus[cpu as usize].need_resched {
            self.resched.push_back(cpu);
        }
        self.reprogram(cpu);
    }

    /// Queues the tasks that other CPUs woke on `cpu`.
    pub(crate) fn run_wake_list(&mut self, cpu: u32) {
        self.here = cpu;
        let mut list = std::mem::take(&mut self.cpus[cpu as usize].wake_list);
        let was = std::mem::replace(&mut self.in_interrupt, true);
        for task in list.drain(..) {
            self.activate(task, cpu);
        }
        self.run_irq_work();
        self.in_interrupt = was;
        // Keeps the allocation.
        self.cpus[cpu as usize].wake_list = list;
    }

    /// Asks `cpu` to reschedule; from another CPU by an interrupt.
    pub(crate) fn resched_cpu(&mut self, cpu: u32) {
        if std::mem::replace(&mut self.cpus[cpu as usize].need_resched, true) {
            return;
        }
        self.kick(cpu);
    }

    /// Makes `cpu` look at its run queue and wake list.
    pub(crate) fn kick(&mut self, cpu: u32) {
        let remote = cpu != self.here;
        let ipi_ns = if remote { self.case.machine.costs.ipi_ns } else { 0 };
        if !self.cpus[cpu as usize].idle.is_awake() {
            self.leave_idle(cpu, ipi_ns);
        } else if self.stream.shared {
            self.resched.push_back(cpu);
        } else if remote && ipi_ns > 0 {
            if self.queue.time_of(self.slot(cpu, Wait::Ipi)).is_none() {
                self.arm(cpu, Wait::Ipi, self.now + ipi_ns);
            }
        } else if !remote {
            self.resched.push_back(cpu);
        } else {
            self.arm(cpu, Wait::Ipi, self.now);
        }
    }

    /// Emits a fatal error of the case: the run stops after this event.
    pub(crate) fn fail(&mut self, message: String) {
        if self.error.is_none() {
            self.error = Some(CaseError(message));
        }
    }
}
