//! Open-loop replay: everything happens when it happened, only the frequency is another.
//!
//! The governor of crate `kernel` is told of a CPU whenever the recorded kernel's was ([`crate::calls`]) and reads the utilisation that
//! crate `trace` rebuilds from the recorded events; its requests replace the recorded frequencies. A request that goes through
//! a kthread takes the time that the recorded kthread took. What a lower frequency would have delayed is not delayed: that
//! is the closed loop's question.

use std::collections::BTreeSet;

use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::governor::{self as kernel, GovernorSetup, Report, Request, Worker};
use opplab_kernel::cpufreq::sampling::CpuTimes;
use opplab_kernel::cpufreq::schedutil::{
    BW_SHIFT, CpuFacts, FAIR_SERVER_BW, PolicyFacts, RqFacts, SCHED_CPUFREQ_IOWAIT, SugovDecision, SugovFacts,
};
use opplab_kernel::pelt::HalfLife32;
use opplab_kernel::profile::{FairServer, SingleStateTick};
use opplab_kernel::sched::group::{CpuLoad, scale_rt_capacity};
use opplab_kernel::sched::placement::{CpuCapacity, fits_capacity};
use opplab_kernel::unit::{SCHED_CAPACITY_SHIFT, tick_nsec};
use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::governor::{governor_setup, start_governor};
use opplab_model::machine::{InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_signals::pelt::{CpuFacts as PeltCpu, PeltReplay, Sample};
use opplab_signals::ticks::{EARLY_NS, Ticks};

use crate::ReplayError;
use crate::agree::takes_samples;
use crate::calls::{Kthread, Kworkers, find_ticks};
use crate::events::{Context, Ev, Events, Left, What};
use crate::measure::window_start_ns;
use crate::nohz::{self, Nohz};
use crate::records::Records;

/// A no-op taker of samples: the governor asks when it needs one.
type Signals = PeltReplay<fn(&Sample), HalfLife32>;

struct FreqPolicy {
    cpus: Vec<u32>,
    governor: Box<dyn kernel::Governor>,
    worker: Worker,
    limits: FreqLimits,
    cur_khz: u32,
    kthread: Kthread,
    /// When the request that is under way is in force.
    due_ns: Option<u64>,
}

struct CpuState {
    current: TaskIdx,
    /// Of the current task.
    pid: i32,
    capacity: u64,
    /// A fair task was queued: from then on the fair server has its bandwidth.
    served: bool,
    idle_calls: u64,
    /// It entered an idle state since it ran a task last, at this time.
    entered_ns: Option<u64>,
    /// While it idles, a tick came or was stopped.
    no_tick: bool,
    /// When the averages of other classes than the fair one were updated.
    others_ns: u64,
    /// It has stopped its tick since it ran a task last.
    tickless: bool,
    idle_ns: u64,
    /// It idles, outside of interrupts.
    idle_since_ns: Option<u64>,
}

/// The state of a task in its last switch (include/linux/sched.h).
const EXIT_DEAD: u64 = 0x10;

struct View<'a> {
    signals: &'a Signals,
    cpus: &'a [CpuState],
    members: &'a [u32],
    fair_server: bool,
    records: &'a Records,
    /// Time of the events.
    time_ns: u64,
}

impl SugovFacts for View<'_> {
    fn cpu(&self, index: usize) -> CpuFacts {
        let cpu = self.members[index];
        let state = &self.cpus[cpu as usize];
        let mut util = self.signals.cpu_util(cpu);
        self.records.correct(cpu, self.time_ns, &mut util);
        let util_cfs = util.util_avg.max(util.util_est.into());
        let rq = RqFacts {
            capacity: state.capacity,
            util_rt: util.util_rt,
            util_dl: util.util_dl,
            rt_runnable: util.rt_runnable,
            dl_running_bw: self.dl_running_bw(index),
            ..RqFacts::default()
        };
        CpuFacts {
            rq,
            util_cfs: util_cfs.min(state.capacity),
            util_cfs_boost: util_cfs.max(util.runnable_avg).min(state.capacity),
            idle_calls: state.idle_calls,
        }
    }

    fn dl_running_bw(&self, index: usize) -> u64 {
        let cpu = self.members[index];
        if let Some(bw) = self.records.bw_dl(cpu, self.time_ns) {
            return u64::from(bw) << (BW_SHIFT - SCHED_CAPACITY_SHIFT);
        }
        let served = self.fair_server && self.cpus[cpu as usize].served;
        if served { FAIR_SERVER_BW } else { 0 }
    }
}

impl kernel::View for View<'_> {
    fn times(&self, index: usize) -> CpuTimes {
        let state = &self.cpus[self.members[index] as usize];
        let open_ns = state.idle_since_ns.map_or(0, |since| self.time_ns.saturating_sub(since));
        CpuTimes { wall_us: self.time_ns / 1000, idle_us: (state.idle_ns + open_ns) / 1000, nice_ns: 0 }
    }
}

/// The balancer's machine at a time.
struct Balancer<'r, 'a> {
    run: &'r mut Run<'a>,
    time_ns: u64,
}

impl nohz::Host for Balancer<'_, '_> {
    fn update_blocked(&mut self, here: u32, cpu: u32) -> bool {
        let now_ns = self.run.clock(self.time_ns);
        self.run.signals.update(now_ns, cpu);
        // The averages of the other classes are brought up to date nowhere else, while none of their tasks comes or goes.
        let others = &mut self.run.cpus[cpu as usize].others_ns;
        let decayed = *others >> PERIOD_SHIFT != now_ns >> PERIOD_SHIFT;
        *others = now_ns;
        if self.run.signals.take_changed(cpu) || decayed {
            self.run.call(Call { time_ns: self.time_ns, here, cpu, flags: 0, clock_ns: None });
        }
        self.run.signals.has_blocked(cpu)
    }

    fn is_idle(&self, cpu: u32) -> bool {
        self.run.cpus[cpu as usize].current == IDLE_TASK && self.run.signals.runnable(cpu) == 0
    }

    fn nr_running(&self, cpu: u32) -> u64 {
        self.run.signals.runnable(cpu)
    }

    fn has_reduced_capacity(&self, cpu: u32, imbalance_pct: u32) -> bool {
        let orig = self.run.cpus[cpu as usize].capacity;
        let util = self.run.signals.cpu_util(cpu);
        let whole = CpuCapacity { orig, of: orig, hw_pressure: 0, cpufreq_pressure: 0 };
        let of = scale_rt_capacity(&whole, util.util_rt, util.util_dl, 0);
        let load = CpuLoad { capacity: CpuCapacity { of, ..whole }, ..CpuLoad::default() };
        self.nr_running(cpu) > 0 && !util.rt_runnable && load.has_reduced_capacity(imbalance_pct)
    }

    fn is_misfit(&self, cpu: u32) -> bool {
        let state = &self.run.cpus[cpu as usize];
        let most = self.run.cpus.iter().map(|cpu| cpu.capacity).max();
        let task = self.run.signals.peek_task(state.pid, self.run.clock(self.time_ns));
        let util = task.map_or(0, |task| task.util_avg.max(task.util_est.into()));
        Some(state.capacity) < most && !fits_capacity(util, state.capacity)
    }
}

/// The scheduler tells the governor of `cpu`.
#[derive(Clone, Copy)]
struct Call {
    time_ns: u64,
    /// Who executes.
    here: u32,
    cpu: u32,
    flags: u32,
    /// The scheduler's clock that it was told, if that was recorded.
    clock_ns: Option<u64>,
}

/// A period of load tracking, ns, as a shift.
const PERIOD_SHIFT: u32 = 20;
/// So long a silence is not followed tick by tick.
const SILENT_NS: u64 = 1_000_000_000;
/// A call comes some microseconds before the event that tells of its cause, which an emulator may stretch.
const PASS_NS: u64 = 1_000_000;
/// A call at a tick has no such event, unless the tick preempts.
const TICK_PASS_NS: u64 = 100_000;

/// A decision of schedutil in an open loop, for those who explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDecision {
    /// Time since the trace's first event, ns.
    pub time_ns: u64,
    /// The first CPU of the policy.
    pub policy_cpu: u32,
    /// The CPU that reported.
    pub cpu: u32,
    /// The CPU whose utilisation decided.
    pub deciding_cpu: u32,
    /// Its utilisation of the fair, the real-time and the deadline class.
    pub parts: [u64; 3],
    /// What the policy had asked for, kHz.
    pub prev_khz: u32,
    /// The decision; its CPUs are places in the policy.
    pub decision: SugovDecision,
}

/// The decisions of schedutil under the recorded policy, at the recorded times; not the reports within its rate limit, or of CPUs that
/// may not change the policy.
///
/// # Errors
/// As [`open_loop`]; and if the governor is another one.
pub fn open_decisions(
    events: &Events,
    machine: &Machine,
    policy: &Policy,
    start_khz: &[u32],
) -> Result<Vec<OpenDecision>, ReplayError> {
    if policy.governor != "schedutil" {
        let text = format!("the trace's governor is {}; only decisions of schedutil are explained", policy.governor);
        return Err(ReplayError::Input(text));
    }
    let mut run = Run::new(events, machine, (policy, policy), start_khz)?;
    run.decisions = Some(Vec::new());
    run.all(events);
    Ok(run.decisions.unwrap_or_default())
}

/// The recorded events with the frequencies that `policy` would have asked for, instead of the recorded one.
///
/// # Errors
/// [`ReplayError::Input`] if the governor or the kernel is not known.
pub fn open_loop(
    events: &Events,
    machine: &Machine,
    (recorded, policy): (&Policy, &Policy),
    start_khz: &[u32],
) -> Result<Events, ReplayError> {
    let mut run = Run::new(events, machine, (recorded, policy), start_khz)?;
    run.all(events);
    let mut list = run.out;
    list.sort_by_key(|ev| ev.time_ns);
    Ok(Events { list, ..events.clone() })
}

/// Times are those of the events, but for load tracking and the governors, which get the scheduler's clock.
struct Run<'a> {
    out: Vec<Ev>,
    policies: Vec<FreqPolicy>,
    policy_of: Vec<usize>,
    signals: Signals,
    /// What the kernel recorded of the same.
    records: &'a Records,
    cpus: Vec<CpuState>,
    machine: &'a Machine,
    freq_invariant: bool,
    fair_server: bool,
    /// The scheduler's clock at the first event; load tracking reads 0 as "never".
    clock_ns: u64,
    tick_ns: u64,
    /// Until then the governors only watch, and the recorded frequencies hold: what was before the trace is not known.
    settled_ns: u64,
    next_tick_ns: u64,
    ticks: Option<Ticks>,
    /// A CPU that goes idle stops its tick at once.
    keeps_no_tick: bool,
    /// The trace has `cpu_idle`.
    idle_told: bool,
    /// The trace has the calls of the governor.
    told: bool,
    /// Recorded calls whose event is not seen yet.
    calls: Vec<Call>,
    /// Away while it works.
    nohz: Option<Nohz>,
    /// Ticks so far.
    jiffies: u64,
    /// By CPU that executes: the wake-up that is under way, and since when.
    waking: Vec<Option<(TaskIdx, u64)>>,
    kworkers: Kworkers,
    /// Tasks that sleep without a chance to be interrupted: they wait for a device.
    in_iowait: BTreeSet<TaskIdx>,
    runnable_boost: bool,
    decisions: Option<Vec<OpenDecision>>,
}

impl<'a> Run<'a> {
    fn new(
        events: &'a Events,
        machine: &'a Machine,
        (recorded, policy): (&Policy, &Policy),
        start_khz: &[u32],
    ) -> Result<Self, ReplayError> {
        let profile = policy.profile()?;
        let platform = machine.platform();
        let freq_invariant = policy.invariance != "none" && profile.freq_invariant(platform);
        let tick_ns = tick_nsec(policy.hz.into());
        let described = machine.policies();
        let mut policies = Vec::new();
        for (index, (cluster, cpus)) in described.iter().enumerate() {
            let setup = governor_setup(machine, &machine.cpufreq, policy, *cluster, cpus.len())?;
            let limits = setup.limits;
            let cur_khz = start_khz.get(index).copied().unwrap_or(limits.min_khz);
            let mut governor = start_governor(policy, &GovernorSetup { cur_khz, ..setup })?;
            let worker = governor.entry().worker;
            // A frequency outside of the limits is the recording's.
            let fixed = governor.limits(limits, cur_khz).filter(|_| worker == Worker::Nobody);
            policies.push(FreqPolicy {
                cpus: cpus.clone(),
                governor,
                worker,
                limits,
                cur_khz: fixed.unwrap_or(cur_khz),
                kthread: Kthread::of(events, cpus),
                due_ns: None,
            });
        }
        let nr = machine.nr_cpus();
        let policy_of = |cpu: u32| described.iter().position(|(_, cpus)| cpus.contains(&cpu)).unwrap_or(0);
        let policy_of: Vec<usize> = (0..nr as u32).map(policy_of).collect();
        let pelt: Vec<PeltCpu> = (0..nr)
            .map(|cpu| PeltCpu {
                capacity: machine.cluster_of(cpu as u32).capacity.into(),
                freq_max_khz: if freq_invariant { policies[policy_of[cpu]].limits.max_khz } else { 0 },
                freq_khz: start_khz.get(policy_of[cpu]).copied().unwrap_or(0),
            })
            .collect();
        let cpus = pelt
            .iter()
            .map(|facts| CpuState {
                current: IDLE_TASK,
                capacity: facts.capacity,
                served: false,
                idle_calls: 0,
                entered_ns: None,
                no_tick: false,
                tickless: false,
                others_ns: 0,
                pid: 0,
                idle_ns: 0,
                idle_since_ns: Some(0),
            })
            .collect();
        // A clock of 0 reads as "never".
        let clock_ns = events.sched_clock_ns.unwrap_or(0).max(tick_ns);
        let ticks = find_ticks(events, tick_ns, clock_ns);
        let mut signals = PeltReplay::new(&pelt, 0, (|_: &Sample| {}) as fn(&Sample));
        signals.set_ticks(ticks);
        signals.set_kernel(&profile);
        let stoppers = events.tasks.iter().filter(|task| task.name.starts_with("migration/"));
        signals.set_stoppers(stoppers.map(|task| task.pid));
        let last_tick_ns = ticks.map_or(clock_ns, |ticks| ticks.last_before(clock_ns) + EARLY_NS);
        let told = events.list.iter().any(|ev| matches!(ev.what, What::UpdateUtil { .. }));
        Ok(Self {
            out: Vec::with_capacity(events.list.len()),
            policies,
            policy_of,
            signals,
            records: &events.records,
            cpus,
            machine,
            freq_invariant,
            fair_server: profile.fair_server == FairServer::Present,
            tick_ns,
            settled_ns: window_start_ns(events.duration_ns),
            clock_ns,
            ticks,
            keeps_no_tick: profile.single_state_tick == SingleStateTick::Stopped,
            next_tick_ns: last_tick_ns.saturating_add(tick_ns).saturating_sub(clock_ns),
            idle_told: events.list.iter().any(|ev| matches!(ev.what, What::Idle { .. })),
            told,
            calls: Vec::new(),
            nohz: Some(Nohz::new(machine, policy.hz.into(), &profile)),
            jiffies: 0,
            waking: vec![None; nr],
            kworkers: Kworkers::of(events, |task| takes_samples(events, recorded, task)),
            in_iowait: BTreeSet::new(),
            runnable_boost: profile.sugov_gates().runnable_boost,
            decisions: None,
        })
    }

    fn all(&mut self, events: &Events) {
        for index in 0..self.policies.len() {
            self.set(index, 0);
        }
        for ev in &events.list {
            self.until(ev.time_ns);
            match ev.what {
                What::Frequency { .. } | What::UpdateUtil { .. } => {}
                _ => self.out.push(*ev),
            }
            self.event(ev, events);
        }
        self.until(events.duration_ns.saturating_add(1));
    }

    /// The scheduler's clock at a time of the events.
    fn clock(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add(self.clock_ns)
    }

    /// What happens up to `time_ns` without an event: recorded calls without one, work that is done, ticks.
    fn until(&mut self, time_ns: u64) {
        while let Some(call) =
            self.calls.first().copied().filter(|call| call.time_ns.saturating_add(self.waits_ns(call)) < time_ns)
        {
            self.calls.remove(0);
            self.work_until(call.time_ns);
            self.call(call);
        }
        // Where nothing happens for long, a second of ticks is all that counts.
        let skipped = time_ns.saturating_sub(self.next_tick_ns).saturating_sub(SILENT_NS) / self.tick_ns.max(1);
        self.next_tick_ns += skipped * self.tick_ns;
        while !self.told && self.next_tick_ns <= time_ns {
            self.work_until(self.next_tick_ns);
            self.jiffies = self.next_tick_ns / self.tick_ns.max(1);
            self.tick(self.next_tick_ns);
            self.next_tick_ns += self.tick_ns;
        }
        self.work_until(time_ns);
    }

    /// How long the event that tells of a call's cause may take to come.
    fn waits_ns(&self, call: &Call) -> u64 {
        let tick = self.ticks.is_none_or(|ticks| ticks.caused(self.clock(call.time_ns)));
        if tick { TICK_PASS_NS } else { PASS_NS }
    }

    /// Feeds the signals, then lets the governor decide.
    fn event(&mut self, ev: &Ev, events: &Events) {
        let nr = self.cpus.len() as u32;
        if ev.cpu >= nr {
            return;
        }
        let now = self.clock(ev.time_ns);
        let who = |task: TaskIdx| {
            let info = events.tasks.get(task as usize);
            (info.map_or(0, |task| task.pid), info.map_or(120, |task| task.prio_at(ev.time_ns)))
        };
        if matches!(ev.what, What::Idle { .. }) {
            self.calls_of(ev.cpu);
        }
        self.idle(ev);
        match ev.what {
            // A task that ends leaves its queue's averages after the calls.
            What::Switch { left: Left::Dead, .. } => self.calls_of(ev.cpu),
            // The queue's update comes before the new task joins.
            What::WakeupNew { cpu, .. } => self.calls_before(ev.cpu, cpu),
            _ => {}
        }
        let mut iowait = None;
        let mut new_idle = false;
        match ev.what {
            What::Switch { prev, left, next } => {
                if left == Left::Uninterruptible {
                    self.in_iowait.insert(prev);
                }
                let state = match left {
                    Left::Runnable => 0,
                    Left::Dead => EXIT_DEAD,
                    Left::Asleep | Left::Uninterruptible => 1,
                };
                self.signals.switch(now, ev.cpu, who(prev), state, who(next));
                let cpu = &mut self.cpus[ev.cpu as usize];
                new_idle = next == IDLE_TASK;
                (cpu.current, cpu.pid) = (next, who(next).0);
                cpu.served |= next != IDLE_TASK && who(next).1 >= 100;
            }
            What::Wakeup { task, cpu } if cpu < nr => {
                let (pid, prio) = who(task);
                iowait = self.in_iowait.remove(&task).then_some(cpu);
                self.cpus[cpu as usize].served |= prio >= 100;
                self.signals.wakeup(now, pid, prio, cpu, false);
            }
            What::WakeupNew { task, cpu } if cpu < nr => {
                let (pid, prio) = who(task);
                self.cpus[cpu as usize].served |= prio >= 100;
                self.signals.wakeup(now, pid, prio, cpu, true);
            }
            What::Waking { task } => {
                self.signals.waking(who(task).0);
                self.waking[ev.cpu as usize] = Some((task, ev.time_ns));
                if ev.context != Context::Task
                    && let Some(began_ns) = self.kworkers.began_ns(ev.time_ns, ev.cpu)
                {
                    self.sample(ev.time_ns, ev.cpu, ev.cpu, began_ns);
                }
                return;
            }
            What::Migrate { task, dest_cpu, .. } if dest_cpu < nr => {
                let (pid, prio) = who(task);
                self.signals.migrate(now, pid, prio, dest_cpu);
                self.balance(ev.time_ns, |nohz, host, _| nohz.joined(host, dest_cpu));
                return;
            }
            // The utilisation is the recorded one: it followed the recorded frequency.
            What::Frequency { cpu, freq_khz } if cpu < nr => {
                self.signals.frequency(now, ev.cpu, cpu, freq_khz);
                if ev.time_ns < self.settled_ns {
                    self.follow(self.policy_of[cpu as usize], freq_khz, ev.time_ns);
                }
                return;
            }
            What::UpdateUtil { cpu, flags, clock_ns } if cpu < nr => {
                self.calls.push(Call { time_ns: ev.time_ns, here: ev.cpu, cpu, flags, clock_ns: Some(clock_ns) });
                return;
            }
            _ => return,
        }
        if self.told {
            self.calls_of(ev.cpu);
            return;
        }
        // The governor is told in the midst of a wake-up.
        let told_ns = match ev.what {
            What::Wakeup { task, .. } => {
                let waking = self.waking[ev.cpu as usize].take().filter(|&(woken, _)| woken == task);
                waking
                    .map(|(_, since)| since)
                    .filter(|since| ev.time_ns.saturating_sub(*since) < PASS_NS)
                    .unwrap_or(ev.time_ns)
            }
            _ => ev.time_ns,
        };
        // rt.c:enqueue_top_rt_rq(), deadline.c:__add_running_bw(), __sub_running_bw(), v6.12.
        let of_class = match ev.what {
            What::Wakeup { task, cpu } | What::WakeupNew { task, cpu } if cpu < nr && who(task).1 < 100 => Some(cpu),
            What::Switch { prev, left, .. } if left != Left::Runnable && who(prev).1 < 0 => Some(ev.cpu),
            _ => None,
        };
        if let Some(cpu) = of_class {
            self.call(Call { time_ns: told_ns, here: ev.cpu, cpu, flags: 0, clock_ns: None });
        }
        if let Some(cpu) = iowait {
            self.call(Call { time_ns: told_ns, here: ev.cpu, cpu, flags: SCHED_CPUFREQ_IOWAIT, clock_ns: None });
        }
        self.changed(told_ns, ev.cpu);
        match ev.what {
            What::Switch { .. } if new_idle => {
                self.balance(ev.time_ns, |nohz, host, jiffies| nohz.new_idle(host, ev.cpu, now, jiffies));
                if !self.idle_told {
                    self.stops_tick(ev.cpu);
                }
            }
            What::Wakeup { cpu, .. } | What::WakeupNew { cpu, .. } => {
                self.balance(ev.time_ns, |nohz, host, _| {
                    nohz.wakes(cpu, now);
                    nohz.joined(host, cpu);
                });
            }
            _ => {}
        }
    }

    /// The recorded calls that `here` made up to now.
    fn calls_of(&mut self, here: u32) {
        let (now, later): (Vec<Call>, Vec<Call>) = self.calls.iter().partition(|call| call.here == here);
        self.calls = later;
        now.into_iter().for_each(|call| self.call(call));
    }

    /// The recorded calls that `here` made on `cpu`, but the last.
    fn calls_before(&mut self, here: u32, cpu: u32) {
        let its = |call: &Call| call.here == here && call.cpu == cpu;
        while self.calls.iter().filter(|call| its(call)).count() > 1
            && let Some(at) = self.calls.iter().position(its)
        {
            let call = self.calls.remove(at);
            self.call(call);
        }
    }

    /// Counts idle time as the kernel does: without interrupts that wake somebody.
    fn idle(&mut self, ev: &Ev) {
        let cpu = &mut self.cpus[ev.cpu as usize];
        let enters = match ev.what {
            What::Switch { next, .. } => {
                if next == IDLE_TASK && !self.idle_told {
                    cpu.idle_calls += 1;
                }
                (cpu.entered_ns, cpu.no_tick, cpu.tickless) = (None, false, false);
                next == IDLE_TASK
            }
            What::Idle { entered, .. } => {
                if self.idle_call(ev.cpu as usize, ev.time_ns, entered) {
                    self.balance(ev.time_ns, |nohz, host, jiffies| nohz.tick(host, ev.cpu, jiffies));
                }
                entered
            }
            // An interrupt has begun; the CPU idles again when it says so.
            What::Waking { .. } if self.idle_told => false,
            _ => return,
        };
        let cpu = &mut self.cpus[ev.cpu as usize];
        if enters {
            cpu.idle_since_ns.get_or_insert(ev.time_ns);
        } else if let Some(since) = cpu.idle_since_ns.take() {
            cpu.idle_ns += ev.time_ns.saturating_sub(since);
        }
    }

    /// Counts a call of tick_nohz_idle_stop_tick(); whether a tick came while the CPU idled, at its end. Where no cpuidle governor decides, a CPU that goes idle keeps its tick at first,
    /// and stops it when it goes on to idle after a tick (idle.c:idle_call_stop_or_retain_tick(), v6.12.117).
    fn idle_call(&mut self, cpu: usize, time_ns: u64, entered: bool) -> bool {
        let governed = self.machine.cluster_of(cpu as u32).idle.len() > 1;
        let clock_ns = self.clock(time_ns);
        let base_ns = self.clock_ns;
        let state = &mut self.cpus[cpu];
        if !entered {
            // A tick that was not stopped ends the idle state.
            let stopped = state.no_tick || governed || self.keeps_no_tick;
            let came = state.entered_ns.filter(|_| !stopped).is_some_and(|since| {
                let since = since.saturating_add(base_ns);
                self.ticks
                    .map_or(clock_ns.saturating_sub(since) > self.tick_ns, |ticks| ticks.last_before(clock_ns) >= since)
            });
            state.no_tick |= came;
            return came;
        }
        state.entered_ns = Some(time_ns);
        if governed || self.keeps_no_tick || state.no_tick {
            state.idle_calls += 1;
            self.stops_tick(cpu as u32);
        }
        false
    }

    fn stops_tick(&mut self, cpu: u32) {
        if !std::mem::replace(&mut self.cpus[cpu as usize].tickless, true)
            && let Some(nohz) = &mut self.nohz
        {
            nohz.enter_idle(cpu);
        }
    }

    /// The tick of all busy CPUs.
    fn tick(&mut self, time_ns: u64) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE_TASK {
                self.signals.update(self.clock(time_ns), cpu);
                self.changed(time_ns, cpu);
            }
        }
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE_TASK {
                self.balance(time_ns, |nohz, host, jiffies| nohz.tick(host, cpu, jiffies));
            }
        }
    }

    /// What a tick or a CPU that goes idle makes the balancer do.
    fn balance(&mut self, time_ns: u64, what: impl FnOnce(&mut Nohz, &mut Balancer<'_, 'a>, u64)) {
        if self.told {
            return;
        }
        let jiffies = self.jiffies;
        if let Some(mut nohz) = self.nohz.take() {
            what(&mut nohz, &mut Balancer { run: self, time_ns }, jiffies);
            self.nohz = Some(nohz);
        }
    }

    /// Calls the governors of all CPUs whose averages changed.
    fn changed(&mut self, time_ns: u64, here: u32) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.signals.take_changed(cpu) {
                self.call(Call { time_ns, here, cpu, flags: 0, clock_ns: None });
            }
        }
    }

    /// A governor is told of a CPU.
    fn call(&mut self, call: Call) {
        let Call { time_ns, here, cpu, flags, clock_ns } = call;
        self.signals.update(self.clock(time_ns), cpu);
        let now_ns = clock_ns.unwrap_or(self.clock(time_ns));
        let index = self.policy_of[cpu as usize];
        let FreqPolicy { cpus: members, governor, worker, limits, cur_khz, kthread, due_ns } =
            &mut self.policies[index];
        match worker {
            Worker::Nobody => return,
            // The recorded ones are called when they sampled.
            Worker::Kworker if !self.kworkers.is_empty() => return,
            Worker::Kworker => return self.sample(time_ns, here, cpu, time_ns),
            Worker::Kthread => {}
        }
        let facts = PolicyFacts {
            cur_khz: *cur_khz,
            freq_ref_khz: match self.machine.invariance {
                InvarianceSource::FreqChange => limits.max_khz,
                InvarianceSource::CountersAtTick => 0,
            },
            freq_invariant: self.freq_invariant,
            can_update: self.machine.cpufreq.dvfs_possible_from_any_cpu || members.contains(&here),
        };
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            fair_server: self.fair_server,
            records: self.records,
            time_ns,
        };
        let member = members.iter().position(|&other| other == cpu).unwrap_or(0);
        let report = Report { time_ns: now_ns, cpu: member, flags, policy: facts };
        if time_ns < self.settled_ns {
            governor.update_util(&report, &view, None);
            governor.follow(*cur_khz);
            return;
        }
        let mut made: Option<SugovDecision> = None;
        let request = governor.update_util(&report, &view, Some(&mut made));
        let computed = made.filter(|made| made.max_cap != 0);
        if let (Some(decisions), Some(decision)) = (&mut self.decisions, computed) {
            let deciding = view.cpu(decision.deciding_cpu);
            let fair = if self.runnable_boost { deciding.util_cfs_boost } else { deciding.util_cfs };
            decisions.push(OpenDecision {
                time_ns,
                policy_cpu: members[0],
                cpu,
                deciding_cpu: members[decision.deciding_cpu],
                parts: [fair, deciding.rq.util_rt, deciding.rq.util_dl],
                prev_khz: *cur_khz,
                decision,
            });
        }
        match request {
            Some(Request::FastSwitch { freq_khz }) if freq_khz != *cur_khz => {
                *cur_khz = freq_khz;
                self.set(index, time_ns);
            }
            Some(Request::QueueWork) => {
                let work_ns = self.machine.costs.sugov_work_ns + self.machine.cpufreq.switch_ns;
                *due_ns = Some(kthread.done_ns(time_ns, work_ns));
            }
            _ => {}
        }
    }

    /// A sampling governor is told of `cpu` by `here`; the sample that may be due is taken at `began_ns`.
    fn sample(&mut self, time_ns: u64, here: u32, cpu: u32, began_ns: u64) {
        let now_ns = self.clock(time_ns);
        let FreqPolicy { cpus: members, governor, due_ns, cur_khz, .. } =
            &mut self.policies[self.policy_of[cpu as usize]];
        let policy = PolicyFacts {
            cur_khz: *cur_khz,
            freq_ref_khz: 0,
            freq_invariant: self.freq_invariant,
            can_update: self.machine.cpufreq.dvfs_possible_from_any_cpu || members.contains(&here),
        };
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            fair_server: self.fair_server,
            records: self.records,
            time_ns: began_ns,
        };
        let report = Report { time_ns: now_ns, cpu: 0, flags: 0, policy };
        if governor.update_util(&report, &view, None) == Some(Request::QueueWork) {
            *due_ns = Some(began_ns);
            self.work_until(time_ns);
        }
    }

    /// The recorded frequency holds, as if the governor had asked for it.
    fn follow(&mut self, index: usize, freq_khz: u32, time_ns: u64) {
        let policy = &mut self.policies[index];
        if policy.worker == Worker::Nobody {
            return;
        }
        policy.governor.follow(freq_khz);
        policy.cur_khz = freq_khz;
        self.set(index, time_ns);
    }

    /// The works that are done up to `time_ns`: a kthread sets what its governor wants, a sample is taken.
    fn work_until(&mut self, time_ns: u64) {
        for index in 0..self.policies.len() {
            if let Some(due_ns) = self.policies[index].due_ns.take_if(|due| *due <= time_ns) {
                self.work(index, due_ns);
            }
        }
    }

    fn work(&mut self, index: usize, time_ns: u64) {
        let FreqPolicy { cpus: members, governor, cur_khz, .. } = &mut self.policies[index];
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            fair_server: self.fair_server,
            records: self.records,
            time_ns,
        };
        let wanted = governor.work(*cur_khz, &view);
        let settled = time_ns >= self.settled_ns;
        if let Some(khz) = wanted.filter(|khz| settled && *khz != self.policies[index].cur_khz) {
            self.policies[index].cur_khz = khz;
            self.set(index, time_ns);
        }
    }

    /// The policy's frequency holds from `time_ns` on.
    fn set(&mut self, index: usize, time_ns: u64) {
        let FreqPolicy { cpus, cur_khz, .. } = &self.policies[index];
        let what = What::Frequency { cpu: cpus[0], freq_khz: *cur_khz };
        self.out.push(Ev { time_ns, cpu: cpus[0], current: IDLE_TASK, context: Context::Unknown, what });
    }
}
