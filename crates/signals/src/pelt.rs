//! Load tracking of every task and run queue, rebuilt from scheduling and frequency events.
//!
//! ```text
//!  sched_switch        who ran since the last switch, who waits, who sleeps
//!  sched_wakeup[_new]  who became runnable, and where
//!  sched_migrate_task  who moved
//!  sched_waking        what moves a task behind it is its wake-up; a sleeping task that moves without was moved by a balance
//!  cpu_frequency       how fast the dilated clock runs (if the kernel knows the frequency)
//! ```
//! The clock is the trace clock: the kernel reads its own a few microseconds before the event is written. Periods of 1024 us end
//! where the kernel's do if the trace clock is `local` and the scheduler's offset to it is known ([`crate::clock`]).
//!
//! # The error bound
//! [`Sample::error_bound`] bounds the error of `util_avg` from what the events lack; it halves every 32 ms that the
//! signal lives, as all errors do:
//! - the history before the trace: all of the signal;
//! - what a new task begins with: half of the CPU (the queue of its group is not in the trace);
//! - an idle CPU counts a woken task as running from its wake-up on, unless a tick came in between: the time from one to the other;
//! - a running task is preempted at the clock of a wake-up or of a tick: the time from the last wake-up to the switch, if ticks
//!   ([`crate::ticks`]) are not known to have caused it;
//! - a sleeping task leaves a busy queue as of its last tick: half a tick ([`TICK_NS`]);
//! - a CPU runs at a frequency that no event has shown yet: the time that it runs so;
//! - a switch may be recorded later than the clock was read: by the lateness of the trace's events ([`crate::late`]), if that is known;
//! - a task leaves a CPU without a switch that brought it there: the time from its wake-up and the CPU's last switch on, which counts as
//!   running;
//! - a task that moves brings its own bound along;
//! - a sleeping task leaves the queue of its group, of which a balance may have updated it since: the task's part of the queue;
//! - a quota may have stopped a task's group while it slept or waited, or let it go on before it ran, where no event shows it: up to a
//!   period of the quota, if the group used so much that it may have.
//!
//! Not in it: interrupts' time (taken off the task clock), the time from a dequeue to `sched_switch` (a new-idle balance) where the trace
//! lacks `sched_update_nr_running_tp`, and roundings: updates at ticks
//! and balances are not in these events, so results differ by a unit now and then.
//!
//! Task groups are followed as far as they are known ([`PeltReplay::set_groups`]); of others each task counts in its CPU's root
//! queue. Not followed: the part of a delayed dequeue (v6.12) that only `load_avg` and `runnable_avg` see.

use std::collections::{BTreeMap, HashMap};

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{
    HalfLife, HalfLife32, SchedAvg, SeFacts, get_pelt_divider, update_dl_rq_load_avg, update_load_avg_se,
    update_rt_rq_load_avg,
};
use opplab_kernel::profile::{KernelProfile, UtilEstDequeue};
use opplab_kernel::sched::attach::{
    CfsAvg, CfsFacts, LagFacts, init_entity_runnable_average, migrate_se_pelt_lag, post_init_entity_util_avg,
    sync_entity_load_avg,
};
use opplab_kernel::sched::weight::LoadWeight;
use opplab_kernel::util_est::{task_util_est_masked, util_est_dequeue, util_est_enqueue, util_est_update};

use crate::Places;
use crate::decode::{SchedEvent, SchedSink, has_ended, sleeps};
use crate::groups::{GroupFinder, Groups, ROOT};
use crate::ticks::Ticks;
use opplab_trace::{BySchema, Event};

mod queues;

use queues::Queues;

/// A CPU as the replay needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuFacts {
    /// `arch_scale_cpu_capacity()`: 1024 for the biggest.
    pub capacity: u64,
    /// The frequency at which the capacity is reached, in kHz; 0 if the kernel does not follow the frequency (no invariance).
    pub freq_max_khz: u32,
    /// The frequency at the start of the trace, in kHz; 0 for the highest.
    pub freq_khz: u32,
}

impl Default for CpuFacts {
    fn default() -> Self {
        Self { capacity: 1024, freq_max_khz: 0, freq_khz: 0 }
    }
}

/// The replay's values of a task or a run queue after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Event time.
    pub time_ns: u64,
    /// The same on load tracking's clock of that run queue, which slow CPUs stretch.
    pub pelt_ns: u64,
    /// CPU of the run queue, or that the task is on.
    pub cpu: u32,
    /// The task; `None` for a run queue.
    pub pid: Option<i32>,
    /// 0..1024.
    pub util_avg: u64,
    /// 1024 for each task that is always runnable.
    pub runnable_avg: u64,
    /// In units of load weight.
    pub load_avg: u64,
    /// Estimated utilisation.
    pub util_est: u32,
    /// By how much `util_avg` may be wrong, beside [`ROUNDING`]: see the module.
    pub error_bound: u64,
}

/// What [`Sample::error_bound`] does not hold: roundings, updates at other moments than the kernel's, and the microseconds
/// between the clock's reading and the event.
pub const ROUNDING: u64 = 4;

/// A CPU's utilisation as its run queue was last updated: what a governor reads, which updates nothing itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUtil {
    /// Of the fair class, 0..1024.
    pub util_avg: u64,
    /// Of the fair class; 1024 for each task that is always runnable.
    pub runnable_avg: u64,
    /// The sum of the queued tasks' estimates.
    pub util_est: u32,
    /// Of the real-time class.
    pub util_rt: u64,
    /// Of the deadline class.
    pub util_dl: u64,
    /// A real-time task is queued or runs.
    pub rt_runnable: bool,
}

/// Takes the samples.
pub trait Samples {
    /// A signal as it is after an event.
    fn sample(&mut self, sample: &Sample);
}

impl<F: FnMut(&Sample)> Samples for F {
    fn sample(&mut self, sample: &Sample) {
        self(sample)
    }
}

/// Scheduling class, by priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// The stopper threads `migration/N`, which no average counts.
    Stop,
    Deadline,
    RealTime,
    Fair,
}

impl Class {
    fn of_prio(prio: i64) -> Self {
        match prio {
            i64::MIN..=-1 => Class::Deadline,
            0..=99 => Class::RealTime,
            _ => Class::Fair,
        }
    }
}

#[derive(Clone, Debug)]
struct Task {
    pid: i32,
    avg: SchedAvg,
    /// What is not known of the signal: at first a task that always ran until then.
    unknown: SchedAvg,
    weight: u64,
    class: Class,
    cpu: usize,
    on_rq: bool,
    /// Counts in its queue's averages.
    attached: bool,
    /// It was seen on a CPU before this one.
    moved: bool,
    /// It is being woken (`sched_waking` came, its wake-up not yet).
    waking: bool,
    /// When it was woken last, by the first event of it.
    woken_ns: u64,
    /// The group whose queue it is in.
    group: usize,
    /// Its group has used up its quota: no time passes for its signal.
    throttled: bool,
}

#[derive(Clone, Debug)]
struct Cpu {
    clock: RqClock,
    started: bool,
    cfs: CfsAvg,
    unknown: SchedAvg,
    rt: SchedAvg,
    dl: SchedAvg,
    /// Place of the running task; `None` for the idle task.
    curr: Option<usize>,
    /// PELT's now when the running task (or another) left the queue, within the pass through the scheduler that is under way.
    left: Option<u64>,
    /// When a task joined the queue last since the last switch.
    joined_ns: Option<u64>,
    load_weight: u64,
    nr_runnable: u64,
    nr_rt: u64,
    /// The fair class's averages were computed anew since [`PeltReplay::take_changed`].
    changed: bool,
    freq_khz: u32,
    /// The kernel's own scale, where the trace has it.
    freq_scale: Option<u64>,
    /// An event had the frequency, or it does not matter.
    freq_known: bool,
    /// When the running task was switched in.
    since_ns: u64,
    /// When the CPU switched last; 0 before it did.
    switched_ns: u64,
    /// What runs is not known.
    lost: bool,
    /// PELT's now when it was idle last.
    busy_pelt: u64,
    facts: CpuFacts,
    /// The queue's clocks as the kernel recorded them, and when it did.
    recorded: Option<(RqClock, u64)>,
    /// What the run queue's clock is ahead of the trace clock, once a record has it.
    skew_ns: Option<i64>,
}

impl Cpu {
    /// How fast the dilated clock runs: 1024 for the reference.
    fn freq_scale(&self) -> u64 {
        match (self.freq_scale, self.facts.freq_max_khz) {
            (Some(scale), _) => scale,
            (None, 0) => 1024,
            (None, max) => ((u64::from(self.freq_khz) << 10) / u64::from(max)).min(1024),
        }
    }
}

/// A recorded clock holds for events that follow within this time: those of the same pass through the scheduler.
const RECORDED_HOLDS_NS: u64 = 100_000;

/// The signal of something that always ran: the most that an unknown history can be.
fn always_ran<H: HalfLife>(now: u64, capacity: u64) -> SchedAvg {
    let util_avg = capacity.min(1024);
    let util_sum = (u64::from(H::MAX - 1024) * util_avg) as u32;
    SchedAvg { util_sum, util_avg, ..begun_at(now) }
}

/// An empty signal at `now`: the periods end at multiples of 1024 us of PELT's clock.
fn begun_at(now: u64) -> SchedAvg {
    SchedAvg { last_update_time: now & !1023, period_contrib: (now >> 10) as u32 & 1023, ..SchedAvg::default() }
}

/// A busy CPU's queue is updated at each tick, which the trace does not show: HZ=250.
pub const TICK_NS: u64 = 4_000_000;

/// How much a signal of `size` can change in `ns` of PELT's time: half of it in 32 ms, at first 0.0217 of it a ms; to the nearest unit.
fn change_in(size: u64, ns: u64) -> u64 {
    size.min((size.min(1024) * ns.min(1 << 30) * 217 / 1_000_000_000 + 5) / 10)
}

/// Time at a capacity, or the longest that counts where damaged times are that far apart.
fn scaled(ns: u64, capacity: u64) -> u64 {
    ns.saturating_mul(capacity) / 1024
}

/// `util_avg` with the open period: the kernel computes it when a period ends, but when its periods end is not in a trace.
fn open_period<H: HalfLife>(avg: &SchedAvg) -> u64 {
    u64::from(avg.util_sum / get_pelt_divider::<H>(avg))
}

/// Adds to what is not known.
fn widen<H: HalfLife>(unknown: &mut SchedAvg, units: u64) {
    if units == 0 {
        return;
    }
    unknown.util_avg = (unknown.util_avg + units).min(1024);
    unknown.util_sum = (u64::from(get_pelt_divider::<H>(unknown)) * unknown.util_avg) as u32;
}

const NOT_RUNNING: SeFacts = SeFacts { weight: 1 << 20, on_rq: false, runnable: 0, running: false };

/// Rebuilds the signals; feed it with events in time order, as a [`SchedSink`] or by its methods.
pub struct PeltReplay<S, H = HalfLife32> {
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    by_pid: HashMap<i32, usize>,
    /// Place + 1 of small pids, which almost all are.
    by_small_pid: Vec<u32>,
    samples: S,
    /// The time of the last event.
    end_ns: u64,
    offset_ns: i64,
    /// The trace has `sched_waking`.
    wakings: bool,
    ticks: Option<Ticks>,
    /// The trace has shown a tick, so that it shows all.
    ticks_told: bool,
    /// A CPU's tick whose update is to come: an x86 kernel reads its counters first.
    ticking: Option<(u64, u32)>,
    late_ns: u64,
    /// The estimate is updated before load tracking when a task falls asleep.
    estimates_first: bool,
    /// Thread ids of the stoppers.
    stoppers: Vec<i32>,
    groups: Groups,
    /// What a first pass found out of groups.
    finder: GroupFinder,
    queues: Queues,
    /// Records of a run queue's clocks: cpu, clock, clock_task, clock_pelt, lost.
    clock_records: BySchema<Places<5>>,
    half_life: std::marker::PhantomData<H>,
}

impl<S: Samples, H: HalfLife> PeltReplay<S, H> {
    /// A machine with these CPUs. `offset_ns` is what was added to the scheduler's clock: what was added to the trace clock
    /// ([`opplab_trace::Meta::time_offset_ns`]) less what the scheduler's is ahead of that ([`crate::clock`]).
    pub fn new(cpus: &[CpuFacts], offset_ns: i64, samples: S) -> Self {
        let mut this = Self {
            cpus: Vec::new(),
            tasks: Vec::new(),
            by_pid: HashMap::new(),
            by_small_pid: vec![0; 1 << 16],
            samples,
            end_ns: 0,
            offset_ns,
            wakings: false,
            ticks: None,
            ticks_told: false,
            ticking: None,
            late_ns: 0,
            estimates_first: false,
            stoppers: Vec::new(),
            groups: Groups::default(),
            finder: GroupFinder::default(),
            queues: Queues::default(),
            clock_records: BySchema::default(),
            half_life: std::marker::PhantomData,
        };
        cpus.iter().for_each(|facts| this.add_cpu(*facts));
        this
    }

    /// Takes what a [`crate::ticks::TickFinder`] found in a first pass over the trace.
    pub fn set_ticks(&mut self, ticks: Option<Ticks>) {
        self.ticks = ticks;
    }

    /// Takes what a [`crate::late::LateFinder`] found in a first pass over the trace.
    pub fn set_late_ns(&mut self, late_ns: u64) {
        self.late_ns = late_ns;
    }

    /// The thread ids of the stoppers (`migration/N`): by their priority, 0, they look like real-time tasks.
    pub fn set_stoppers(&mut self, pids: impl IntoIterator<Item = i32>) {
        self.stoppers = pids.into_iter().collect();
    }

    fn class(&self, pid: i32, prio: i64) -> Class {
        if prio == 0 && self.stoppers.contains(&pid) { Class::Stop } else { Class::of_prio(prio) }
    }

    /// The traced kernel; the default does what all before v6.12 do.
    pub fn set_kernel(&mut self, profile: &KernelProfile) {
        self.estimates_first = profile.util_est_dequeue == UtilEstDequeue::BeforeUpdate;
    }

    fn add_cpu(&mut self, facts: CpuFacts) {
        let freq_khz = if facts.freq_khz == 0 { facts.freq_max_khz } else { facts.freq_khz };
        self.cpus.push(Cpu {
            clock: RqClock::default(),
            started: false,
            cfs: CfsAvg::default(),
            unknown: SchedAvg::default(),
            rt: SchedAvg::default(),
            dl: SchedAvg::default(),
            curr: None,
            left: None,
            joined_ns: None,
            load_weight: 0,
            nr_runnable: 0,
            nr_rt: 0,
            changed: false,
            freq_khz,
            freq_scale: None,
            freq_known: facts.freq_max_khz == 0,
            since_ns: 0,
            switched_ns: 0,
            lost: false,
            busy_pelt: 0,
            facts,
            recorded: None,
            skew_ns: None,
        });
    }

    /// The samples' taker, which gets those of the tasks that run at the end, too.
    pub fn into_samples(mut self) -> S {
        let running = self.cpus.iter().filter_map(|rq| rq.curr).map(|place| &self.tasks[place]);
        let fair = running.filter(|task| task.class == Class::Fair);
        let last: Vec<Sample> = fair.filter_map(|task| self.peek_task(task.pid, self.end_ns)).collect();
        last.iter().for_each(|sample| self.samples.sample(sample));
        self.samples
    }

    fn cpu_place(&mut self, cpu: u32) -> usize {
        // A CPU that nobody described is like the last that was, or a plain one.
        let cpu = (cpu & 0xffff) as usize;
        if self.cpus.len() <= cpu {
            while self.cpus.len() <= cpu {
                let facts = self.cpus.last().map_or_else(CpuFacts::default, |c| c.facts);
                self.add_cpu(facts);
            }
            self.grow_queues();
        }
        cpu
    }

    fn find(&self, pid: i32) -> Option<usize> {
        match self.by_small_pid.get(pid as usize) {
            Some(&place) => (place as usize).checked_sub(1),
            None => self.by_pid.get(&pid).copied(),
        }
    }

    /// The task `pid`, made with an unknown history if it was never seen.
    fn task(&mut self, pid: i32, prio: i64, cpu: usize) -> usize {
        if let Some(place) = self.find(pid) {
            let class = self.class(pid, prio);
            let weight = LoadWeight::of_prio((prio - 100).clamp(0, 39) as usize).weight;
            let task = &self.tasks[place];
            if task.class != class || task.weight != weight {
                self.change_prio(place, class, weight);
            }
            return place;
        }
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        let weight = LoadWeight::of_prio((prio - 100).clamp(0, 39) as usize).weight;
        let avg = SchedAvg { load_avg: init_entity_runnable_average(weight, true).load_avg, ..begun_at(now) };
        let capacity = self.cpus[cpu].facts.capacity;
        let unknown = always_ran::<H>(now, capacity);
        let class = self.class(pid, prio);
        let place = self.tasks.len();
        self.tasks.push(Task {
            pid,
            avg,
            unknown,
            weight,
            class,
            cpu,
            on_rq: false,
            attached: false,
            moved: false,
            waking: false,
            woken_ns: 0,
            group: self.groups.of(pid),
            throttled: false,
        });
        match self.by_small_pid.get_mut(pid as usize) {
            Some(small) => *small = place as u32 + 1,
            None => {
                self.by_pid.insert(pid, place);
            }
        }
        place
    }

    /// A priority that changed (also for a while, by inheritance): the queue's weight follows. A task of another class takes its part of
    /// the fair averages along, and brings it back aged (fair.c:switched_from_fair(), switched_to_fair(), v6.12).
    fn change_prio(&mut self, place: usize, class: Class, weight: u64) {
        let Task { cpu, on_rq, class: before, .. } = self.tasks[place];
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        self.unthrottle(place, now);
        if before == Class::Fair && class != Class::Fair {
            if on_rq {
                util_est_dequeue(&mut self.cpus[cpu].cfs.avg, &self.tasks[place].avg);
            }
            if self.tasks[place].attached {
                self.detach(place, now);
            }
        }
        let group = self.tasks[place].group;
        if on_rq && before == Class::Fair {
            self.leave_queue(cpu, group, self.tasks[place].weight);
            self.refresh(cpu, group);
        }
        let (task, rq) = (&mut self.tasks[place], &mut self.cpus[cpu]);
        if on_rq {
            rq.nr_rt = rq.nr_rt.saturating_sub(u64::from(before == Class::RealTime));
            rq.nr_rt += u64::from(class == Class::RealTime);
        }
        (task.class, task.weight) = (class, weight);
        if on_rq && class == Class::Fair {
            if before != Class::Fair {
                util_est_enqueue(&mut rq.cfs.avg, &task.avg);
                self.update_task(place, now, false);
                self.attach(place, cpu);
            }
            self.join_queue(cpu, group, weight);
            self.refresh(cpu, group);
        }
    }

    /// The run queue's clock at an event's time.
    #[inline]
    fn clock_ns(&self, cpu: usize, time_ns: u64) -> u64 {
        time_ns.wrapping_sub(self.offset_ns as u64).wrapping_add(self.cpus[cpu].skew_ns.unwrap_or(0) as u64)
    }

    /// Brings the CPU's clocks and queue up to `time_ns`; gives PELT's now.
    #[inline]
    fn update_cpu(&mut self, cpu: usize, time_ns: u64) -> u64 {
        let clock_ns = self.clock_ns(cpu, time_ns);
        let left = self.cpus[cpu].left.is_some();
        let running = self.cpus[cpu].curr.filter(|_| !left).map(|place| self.tasks[place].class);
        let rq = &mut self.cpus[cpu];
        if !rq.started {
            rq.started = true;
            rq.clock = RqClock::new(clock_ns, 0);
            for avg in [&mut rq.cfs.avg, &mut rq.rt, &mut rq.dl] {
                *avg = begun_at(clock_ns);
            }
            rq.unknown = always_ran::<H>(clock_ns, rq.facts.capacity);
        }
        let freq_scale = rq.freq_scale();
        match rq.recorded {
            Some((clock, at)) if time_ns.wrapping_sub(at) < RECORDED_HOLDS_NS => {
                rq.clock =
                    RqClock { clock_idle: rq.clock.clock_idle, clock_pelt_idle: rq.clock.clock_pelt_idle, ..clock };
            }
            _ => {
                rq.clock.update_rq_clock(clock_ns, 0, rq.curr.is_none(), rq.facts.capacity, freq_scale);
            }
        }
        let now = rq.clock.rq_clock_pelt();
        let facts = CfsFacts {
            load_weight: rq.load_weight,
            nr_runnable: rq.nr_runnable,
            has_curr: running == Some(Class::Fair),
        };
        rq.changed |= rq.cfs.update::<H>(now, facts);
        update_rt_rq_load_avg::<H>(now, &mut rq.rt, running == Some(Class::RealTime));
        update_dl_rq_load_avg::<H>(now, &mut rq.dl, running == Some(Class::Deadline));
        if rq.unknown.util_avg != 0 {
            update_load_avg_se::<H>(now, &mut rq.unknown, NOT_RUNNING);
        } else {
            rq.unknown.last_update_time = now;
        }
        now
    }

    /// Brings a task's signal up to its queue's `now`.
    #[inline]
    fn update_task(&mut self, place: usize, now: u64, running: bool) {
        let task = &mut self.tasks[place];
        if task.throttled {
            return;
        }
        let now = self.queues.now(task.cpu, task.group, now);
        update_load_avg_se::<H>(now, &mut task.avg, SeFacts::task(task.weight, task.on_rq, running));
        if task.unknown.util_avg != 0 {
            update_load_avg_se::<H>(now, &mut task.unknown, NOT_RUNNING);
        } else {
            task.unknown.last_update_time = now;
        }
    }

    /// Puts the task into its queue's averages; the queue must be up to date.
    fn attach(&mut self, place: usize, cpu: usize) {
        let group = self.tasks[place].group;
        if self.tasks[place].class == Class::Fair && !self.tasks[place].attached {
            self.refresh(cpu, group);
            let (mut avg, weight) = (self.tasks[place].avg, self.tasks[place].weight);
            self.cfs_mut(cpu, group).attach::<H>(&mut avg, weight);
            self.refresh(cpu, group);
            let (task, rq) = (&mut self.tasks[place], &mut self.cpus[cpu]);
            task.avg = avg;
            rq.changed = true;
            task.unknown.last_update_time = task.avg.last_update_time;
            task.attached = true;
            if task.moved {
                // What is not known of the task is not known of its new queue, too.
                task.unknown.period_contrib = rq.unknown.period_contrib;
                rq.unknown.util_avg = rq.unknown.util_avg.wrapping_add(task.unknown.util_avg);
                rq.unknown.util_sum = rq.unknown.util_sum.saturating_add(task.unknown.util_sum);
            }
        }
    }

    fn enqueue(&mut self, place: usize, cpu: usize) {
        self.attach(place, cpu);
        let task = &mut self.tasks[place];
        task.cpu = cpu;
        if task.class == Class::Fair && !task.on_rq {
            let (group, weight) = (task.group, task.weight);
            util_est_enqueue(&mut self.cpus[cpu].cfs.avg, &task.avg);
            self.refresh(cpu, group);
            self.join_queue(cpu, group, weight);
            self.refresh(cpu, group);
        }
        let (task, rq) = (&mut self.tasks[place], &mut self.cpus[cpu]);
        rq.nr_rt += u64::from(task.class == Class::RealTime && !task.on_rq);
        task.on_rq = true;
    }

    /// fair.c:util_est_dequeue() and util_est_update(), v6.12.
    fn estimate(&mut self, place: usize, sleeps: bool) {
        let task = &mut self.tasks[place];
        let rq = &mut self.cpus[task.cpu];
        if task.on_rq && task.class == Class::Fair {
            util_est_dequeue(&mut rq.cfs.avg, &task.avg);
            util_est_update(&mut task.avg, sleeps, rq.facts.capacity);
        }
    }

    /// Takes the task off its queue; its estimate is done.
    fn dequeue(&mut self, place: usize) {
        let Task { cpu, group, weight, on_rq, class, .. } = self.tasks[place];
        if on_rq && class == Class::Fair {
            self.refresh(cpu, group);
            self.leave_queue(cpu, group, weight);
            self.refresh(cpu, group);
        }
        let task = &mut self.tasks[place];
        let rq = &mut self.cpus[task.cpu];
        if task.on_rq && task.class == Class::RealTime {
            rq.nr_rt = rq.nr_rt.saturating_sub(1);
        }
        task.on_rq = false;
    }

    /// The group of the running task has used up its quota: the task stops, its clock as well (fair.c:throttle_cfs_rq(),
    /// pelt.h:cfs_rq_clock_pelt(), v6.12). Only a CPU that goes idle at that shows it.
    fn throttle(&mut self, place: usize) {
        let task = &mut self.tasks[place];
        if task.group != ROOT {
            let Task { cpu, group, class, on_rq, .. } = *task;
            if class == Class::Fair && on_rq {
                self.throttle_group(cpu, group);
            }
            return;
        }
        if task.class == Class::Fair && task.on_rq && !task.throttled {
            let rq = &mut self.cpus[task.cpu];
            rq.load_weight = rq.load_weight.saturating_sub(task.weight);
            rq.nr_runnable = rq.nr_runnable.saturating_sub(1);
            task.throttled = true;
        }
    }

    /// It runs again, or moves: the queue, in which its part has decayed, gets back what the task still has
    /// (fair.c:unthrottle_cfs_rq(), propagate_entity_load_avg()).
    fn unthrottle(&mut self, place: usize, now: u64) {
        let task = &mut self.tasks[place];
        if !std::mem::take(&mut task.throttled) {
            return;
        }
        let rq = &mut self.cpus[task.cpu];
        rq.load_weight = rq.load_weight.saturating_add(task.weight);
        rq.nr_runnable += 1;
        let mut aged = task.avg;
        update_load_avg_se::<H>(now, &mut aged, NOT_RUNNING);
        if task.attached {
            let cfs = &mut rq.cfs.avg;
            cfs.util_avg += task.avg.util_avg.saturating_sub(aged.util_avg);
            cfs.util_sum = cfs.util_sum.saturating_add(task.avg.util_sum.saturating_sub(aged.util_sum));
        }
        (task.avg.last_update_time, task.avg.period_contrib) = (aged.last_update_time, aged.period_contrib);
        task.unknown.last_update_time = now;
    }

    /// Takes the task out of its queue's averages; its queue must be up to date.
    fn detach(&mut self, place: usize, now: u64) {
        self.update_task(place, now, false);
        let task = &mut self.tasks[place];
        if std::mem::take(&mut task.attached) {
            task.moved = true;
            let Task { cpu, group, avg, weight, .. } = *task;
            self.refresh(cpu, group);
            self.cfs_mut(cpu, group).detach::<H>(&avg, weight);
            self.refresh(cpu, group);
            self.cpus[cpu].changed = true;
        }
    }

    /// A sleeping or dead task leaves its queue, which learns of it at its next update.
    fn remove(&mut self, place: usize, cpu: usize) {
        let Task { group, weight, mut avg, .. } = self.tasks[place];
        self.cfs_mut(cpu, group).remove::<H>(&mut avg, weight);
        self.tasks[place].avg = avg;
        if group != ROOT {
            // When a group's queue is updated next is not known: a balance does it, too.
            widen::<H>(&mut self.cpus[cpu].unknown, avg.util_avg);
        }
    }

    fn tell_task(&mut self, place: usize, time_ns: u64) {
        let task = &self.tasks[place];
        let sample = Sample {
            time_ns,
            pelt_ns: task.avg.last_update_time,
            cpu: task.cpu as u32,
            pid: Some(task.pid),
            util_avg: task.avg.util_avg,
            runnable_avg: task.avg.runnable_avg,
            load_avg: task.avg.load_avg,
            util_est: task_util_est_masked(&task.avg),
            error_bound: task.unknown.util_avg,
        };
        self.samples.sample(&sample);
    }

    fn tell_cpu(&mut self, cpu: usize, time_ns: u64) {
        let rq = &self.cpus[cpu];
        let sample = Sample {
            time_ns,
            pelt_ns: rq.cfs.avg.last_update_time,
            cpu: cpu as u32,
            pid: None,
            util_avg: rq.cfs.avg.util_avg,
            runnable_avg: rq.cfs.avg.runnable_avg,
            load_avg: rq.cfs.avg.load_avg,
            util_est: rq.cfs.avg.util_est,
            error_bound: rq.unknown.util_avg,
        };
        self.samples.sample(&sample);
    }

    /// The time of the run queue's clock in the pass through the scheduler that ends with this switch, and how far from it the clock
    /// may be.
    ///
    /// A task that joins the queue of an idle CPU, or preempts, lets the following `schedule()` skip its update of the clock
    /// (core.c:wakeup_preempt(), rq_clock_skip_update(), v6.12): the time until the switch, idle exit for the most part, counts as
    /// the next task's. If a tick came in between, it has brought the clock forward; a running task may also have been preempted
    /// by the tick alone. Then the switch follows the tick at once.
    fn schedule_time(&mut self, cpu: usize, time_ns: u64, prev_state: u64) -> (u64, u64) {
        let rq = &mut self.cpus[cpu];
        let idle = rq.curr.is_none();
        let Some(joined_ns) = rq.joined_ns.take().filter(|_| idle || !sleeps(prev_state)) else {
            return (time_ns, 0);
        };
        let gap = time_ns.saturating_sub(joined_ns);
        match self.ticks {
            Some(ticks) if ticks.last_before(time_ns) > joined_ns && ticks.caused(time_ns) => {
                // A tick preempts a running task; an idle CPU may as well have been about to switch.
                (time_ns, if idle { gap } else { 0 })
            }
            None if !idle => (time_ns, gap),
            _ => (joined_ns, gap),
        }
    }

    /// The last tick of a busy CPU before `time_ns`, if it is known and nothing was updated since.
    fn tick(&mut self, cpu: usize, time_ns: u64) {
        if self.ticks_told {
            return;
        }
        let Some(tick_ns) = self.ticks.map(|ticks| ticks.last_before(time_ns)) else { return };
        let rq = &self.cpus[cpu];
        if let Some(place) = rq
            .curr
            .filter(|_| rq.left.is_none() && rq.since_ns < tick_ns && self.clock_ns(cpu, tick_ns) > rq.clock.clock)
        {
            let now = self.update_cpu(cpu, tick_ns);
            self.update_task(place, now, true);
            self.refresh(cpu, self.tasks[place].group);
        }
    }

    /// `sched_switch`.
    pub fn switch(&mut self, time_ns: u64, cpu: u32, prev: (i32, i64), prev_state: u64, next: (i32, i64)) {
        let cpu = self.cpu_place(cpu);
        self.tick(cpu, time_ns);
        let (schedule_ns, slack_ns) = self.schedule_time(cpu, time_ns, prev_state);
        let now = self.update_cpu(cpu, schedule_ns);
        let slack = change_in(1024, scaled(slack_ns, self.cpus[cpu].facts.capacity));
        let rq = &mut self.cpus[cpu];
        let ran_ns = time_ns.saturating_sub(std::mem::replace(&mut rq.since_ns, time_ns));
        let switched_ns = std::mem::replace(&mut rq.switched_ns, time_ns);
        // How much a run at an unknown frequency counts is not known.
        let of_freq = if rq.freq_known || prev.0 == 0 { 0 } else { change_in(1024, ran_ns) };
        let of_lost = if std::mem::take(&mut rq.lost) { change_in(1024, ran_ns) } else { 0 };
        let of_late = if prev.0 == 0 { 0 } else { change_in(1024, scaled(self.late_ns, rq.facts.capacity)) };
        widen::<H>(&mut rq.unknown, of_lost + if prev.0 == 0 { slack } else { of_freq + of_late });
        if prev.0 != 0 {
            let place = self.task(prev.0, prev.1, cpu);
            let mut of_unseen = 0;
            if self.cpus[cpu].curr != Some(place) {
                // It ran before the trace, or its switch was lost.
                if switched_ns > 0 {
                    of_unseen = self.comes_unseen(place, cpu, time_ns, now, switched_ns);
                }
                self.enqueue(place, cpu);
            }
            let sleeps = sleeps(prev_state);
            let stopped = !sleeps && self.tasks[place].group != ROOT && self.finder.is_stopped(prev.0, time_ns);
            // A CPU does not idle while a task is runnable on it, whatever an old kernel's state bits mean.
            let leaves = sleeps || (!stopped && next.0 == 0 && prev_state != 0 && self.cpus[cpu].nr_runnable == 1);
            if leaves && self.estimates_first {
                self.estimate(place, true);
            }
            match self.cpus[cpu].left.take() {
                // It ran until it left the queue; a new-idle balance may have taken the time from then to here.
                Some(left) if sleeps => self.update_task(place, left.min(now), true),
                _ => self.update_task(place, now, true),
            }
            if leaves && !self.estimates_first {
                self.estimate(place, true);
            }
            if leaves {
                self.dequeue(place);
            } else if next.0 == 0 || stopped {
                self.throttle(place);
            } else {
                self.refresh(cpu, self.tasks[place].group);
            }
            if has_ended(prev_state) && std::mem::take(&mut self.tasks[place].attached) {
                // core.c:finish_task_switch(), fair.c:task_dead_fair(), v6.12: it leaves like a sleeping task that moves away.
                self.remove(place, cpu);
            }
            widen::<H>(&mut self.tasks[place].unknown, slack + of_freq + of_late + of_lost + of_unseen);
            self.charge_groups(cpu, self.tasks[place].group, ran_ns);
            self.tell_task(place, time_ns);
        }
        self.cpus[cpu].left = None;
        let next_place = (next.0 != 0).then(|| self.task(next.0, next.1, cpu));
        if let Some(place) = next_place {
            if self.tasks[place].cpu != cpu && self.tasks[place].attached {
                // Its migration is not in the trace.
                self.move_task(place, cpu, time_ns);
            }
            self.unthrottle(place, now);
            let group = self.tasks[place].group;
            self.tasks[place].cpu = cpu;
            self.run_in_group(cpu, place, self.cpus[cpu].busy_pelt);
            self.unthrottle_groups(cpu, group, time_ns);
            self.update_task(place, now, false);
            // A wake-up that is not in the trace.
            self.enqueue(place, cpu);
            self.refresh(cpu, group);
            widen::<H>(&mut self.tasks[place].unknown, slack);
            self.tell_task(place, time_ns);
        } else {
            let rq = &mut self.cpus[cpu];
            rq.clock.update_idle_rq_clock_pelt::<H>(rq.cfs.avg.util_sum, rq.rt.util_sum, rq.dl.util_sum);
        }
        if prev.0 == 0 {
            self.cpus[cpu].busy_pelt = now;
        }
        self.cpus[cpu].curr = next_place;
        self.tell_cpu(cpu, time_ns);
    }

    /// A task leaves the CPU that no switch shows to have come there. It ran at most from its wake-up on, and from the CPU's switch before;
    /// how much that may be is not known.
    fn comes_unseen(&mut self, place: usize, cpu: usize, time_ns: u64, now: u64, switched_ns: u64) -> u64 {
        let most_ns = time_ns.saturating_sub(switched_ns.max(self.tasks[place].woken_ns));
        let rq = &self.cpus[cpu];
        let most = scaled(scaled(most_ns, rq.facts.capacity), rq.freq_scale());
        if self.tasks[place].cpu != cpu && self.tasks[place].attached {
            self.move_task(place, cpu, time_ns);
        } else {
            let task = &self.tasks[place];
            let from = now.saturating_sub(most);
            if self.queues.now(cpu, task.group, from) > task.avg.last_update_time {
                self.update_task(place, from, false);
            }
        }
        let unknown = change_in(1024, most);
        widen::<H>(&mut self.cpus[cpu].unknown, unknown);
        // Who came there last has left at some time.
        if let Some(other) = self.cpus[cpu].curr {
            let ran = change_in(1024, time_ns.saturating_sub(switched_ns));
            self.update_task(other, now, true);
            widen::<H>(&mut self.tasks[other].unknown, ran);
        }
        unknown
    }

    /// The running task of `cpu` is there no more, although no switch shows it; when it left, and what runs, is not known.
    fn lost(&mut self, time_ns: u64, cpu: u32) {
        let cpu = self.cpu_place(cpu);
        let now = self.update_cpu(cpu, time_ns);
        let rq = &mut self.cpus[cpu];
        let ran = change_in(1024, time_ns.saturating_sub(std::mem::replace(&mut rq.since_ns, time_ns)));
        (rq.lost, rq.left) = (true, None);
        widen::<H>(&mut rq.unknown, ran);
        if let Some(place) = rq.curr.take() {
            self.update_task(place, now, true);
            self.dequeue(place);
            widen::<H>(&mut self.tasks[place].unknown, ran);
        }
        self.tell_cpu(cpu, time_ns);
    }

    /// `sched_update_nr_running_tp` of a CPU's queue, where a trace has it: a running task that sleeps leaves its queue here, some
    /// time before `sched_switch` shows it.
    ///
    /// `by_cpu` is the CPU that wrote the event. Only when no other task is left (`nr` is 0) does it take long, because the
    /// CPU then looks for work elsewhere first.
    pub fn nr_running(&mut self, time_ns: u64, by_cpu: u32, cpu: u32, change: i64, nr: u64) {
        let cpu_left = cpu;
        let cpu = self.cpu_place(cpu);
        if let Some((tasks, pid)) = self.finder.resumed(cpu, time_ns) {
            self.update_cpu(cpu, time_ns);
            self.resume_groups(cpu, tasks, pid, time_ns);
        }
        if change < 0 && nr == 0 && by_cpu == cpu_left && self.cpus[cpu].curr.is_some() {
            let now = self.update_cpu(cpu, time_ns);
            self.cpus[cpu].left = Some(now);
        }
    }

    /// `sched_waking`: what moves the task before its wake-up is the wake-up; what moves a sleeping task without is a load balance,
    /// which takes tasks whose dequeue was delayed.
    pub fn waking(&mut self, time_ns: u64, pid: i32) {
        self.wakings = true;
        if let Some(place) = self.find(pid) {
            (self.tasks[place].waking, self.tasks[place].woken_ns) = (true, time_ns);
        }
    }

    /// `sched_wakeup`; `new` for `sched_wakeup_new`.
    pub fn wakeup(&mut self, time_ns: u64, pid: i32, prio: i64, cpu: u32, new: bool) {
        let cpu = self.cpu_place(cpu);
        let now = self.update_cpu(cpu, time_ns);
        let place = self.task(pid, prio, cpu);
        self.unthrottle(place, now);
        if !std::mem::take(&mut self.tasks[place].waking) {
            self.tasks[place].woken_ns = time_ns;
        }
        if new && !self.tasks[place].on_rq {
            let group = self.groups.of(pid);
            self.tasks[place].group = group;
            let queue_now = self.queues.now(cpu, group, now);
            // wake_up_new_task() looks at the queue before it is brought up to date for the newcomer.
            let queue = self.cfs_mut(cpu, group).avg;
            let rq = &self.cpus[cpu];
            let task = &mut self.tasks[place];
            task.avg = init_entity_runnable_average(task.weight, true);
            post_init_entity_util_avg(&mut task.avg, task.weight, &queue, rq.facts.capacity);
            task.attached = false;
            task.cpu = cpu;
            task.avg.last_update_time = queue_now;
            // What it starts with depends on the queue of its group, which is not in the trace: up to half of the CPU.
            task.unknown = always_ran::<H>(now, rq.facts.capacity / 2);
            task.moved = true;
        } else if self.tasks[place].attached && self.tasks[place].cpu != cpu {
            // Its migration is not in the trace.
            self.leave_asleep(place, time_ns);
        } else if self.tasks[place].attached && self.cpus[cpu].curr != Some(place) {
            let group = self.tasks[place].group;
            let stopped = group != ROOT && self.finder.is_stopped(pid, time_ns);
            self.wake_in_group(cpu, place, stopped);
            self.update_task(place, now, false);
        }
        self.enqueue(place, cpu);
        if self.tasks[place].group != ROOT && self.finder.is_stopped(pid, time_ns) {
            // fair.c:check_enqueue_throttle(), v6.12: its group had nothing left before it came.
            self.throttle(place);
        }
        self.cpus[cpu].joined_ns = Some(time_ns);
        self.tell_task(place, time_ns);
        self.tell_cpu(cpu, time_ns);
    }

    /// `sched_migrate_task`: a runnable task moves at once, a sleeping one when it wakes there.
    pub fn migrate(&mut self, time_ns: u64, pid: i32, prio: i64, dest: u32) {
        let dest = self.cpu_place(dest);
        let Some(place) = self.find(pid) else { return };
        let _ = self.task(pid, prio, dest);
        if self.tasks[place].cpu == dest {
            return;
        }
        if self.tasks[place].throttled {
            let now = self.update_cpu(self.tasks[place].cpu, time_ns);
            self.unthrottle(place, now);
        }
        if self.tasks[place].on_rq {
            self.leave_throttled(place, time_ns);
            self.move_task(place, dest, time_ns);
            self.enqueue(place, dest);
            self.cpus[dest].joined_ns = Some(time_ns);
            self.tell_cpu(dest, time_ns);
        } else if self.wakings && !self.tasks[place].waking && self.tasks[place].attached {
            self.move_task(place, dest, time_ns);
            self.attach(place, dest);
            self.tell_cpu(dest, time_ns);
        } else {
            self.leave_asleep(place, time_ns);
            self.tasks[place].cpu = dest;
        }
    }

    /// A sleeping task leaves its queue: it catches up with the queue's last update only, and with the idle time since if the CPU
    /// idles; the queue learns of it at its next update (fair.c:migrate_task_rq_fair(), v6.12).
    fn leave_asleep(&mut self, place: usize, time_ns: u64) {
        if !self.tasks[place].attached {
            return;
        }
        let cpu = self.tasks[place].cpu;
        let sched_clock = self.clock_ns(cpu, time_ns);
        let busy = self.cpus[cpu].curr.is_some();
        if busy && !self.ticks_told {
            // Its last update was the last tick: on average half a period ago.
            let tick_ns = self.ticks.map(|ticks| ticks.last_before(time_ns));
            self.update_cpu(cpu, tick_ns.unwrap_or(time_ns.saturating_sub(TICK_NS / 2)));
        }
        let group = self.tasks[place].group;
        let queue = self.cfs_mut(cpu, group).avg;
        let stale = self.stale(cpu, group, self.tasks[place].avg.util_avg);
        let (task, rq) = (&mut self.tasks[place], &mut self.cpus[cpu]);
        (task.attached, task.moved) = (false, true);
        let lag = LagFacts {
            is_idle: rq.curr.is_none(),
            throttled_pelt_idle: self.queues.pelt_idle(cpu, group),
            clock_pelt_idle: rq.clock.clock_pelt_idle,
            clock_idle: rq.clock.clock_idle,
            sched_clock,
            cfs_last_update_time: queue.last_update_time,
        };
        self.remove(place, cpu);
        let (task, rq) = (&mut self.tasks[place], &mut self.cpus[cpu]);
        migrate_se_pelt_lag::<H>(&mut task.avg, task.weight, &lag);
        if task.unknown.util_avg != 0 {
            sync_entity_load_avg::<H>(&mut task.unknown, task.weight, &queue);
        } else {
            task.unknown.last_update_time = task.avg.last_update_time;
        }
        if busy || stale > 0 {
            let slack = stale.max(if busy { change_in(task.avg.util_avg, TICK_NS / 2) } else { 0 });
            widen::<H>(&mut task.unknown, slack);
            widen::<H>(&mut rq.unknown, slack);
        }
    }

    /// Out of the old queue, on the clock of the new one.
    fn move_task(&mut self, place: usize, dest: usize, time_ns: u64) {
        let from = self.tasks[place].cpu;
        let now = self.update_cpu(from, time_ns);
        self.detach(place, now);
        if self.tasks[place].on_rq {
            self.estimate(place, false);
            self.dequeue(place);
        }
        if self.cpus[from].curr == Some(place) {
            self.cpus[from].curr = None;
        }
        let now = self.update_cpu(dest, time_ns);
        let now = self.queues.now(dest, self.tasks[place].group, now);
        let task = &mut self.tasks[place];
        task.cpu = dest;
        task.avg.last_update_time = now;
        task.unknown.last_update_time = now;
    }

    /// A task ends (`sched_process_free`, or a dead task's last switch).
    pub fn exit(&mut self, time_ns: u64, pid: i32) {
        let Some(place) = self.find(pid) else { return };
        let cpu = self.tasks[place].cpu;
        if self.cpus[cpu].curr == Some(place) {
            return;
        }
        let now = self.update_cpu(cpu, time_ns);
        self.unthrottle(place, now);
        self.estimate(place, false);
        self.dequeue(place);
        self.detach(place, now);
        self.tell_cpu(cpu, time_ns);
    }

    /// `cpu_frequency` of `cpu`, written by `by_cpu`.
    ///
    /// The run queue's clock is not brought forward: its next update, of a busy CPU at the latest by a tick, counts all time since
    /// the last one at the new frequency (pelt.h:update_rq_clock_pelt(), v6.12). The CPU that writes has just updated its own.
    pub fn frequency(&mut self, time_ns: u64, by_cpu: u32, cpu: u32, freq_khz: u32) {
        let own = by_cpu == cpu;
        let cpu = self.cpu_place(cpu);
        if self.cpus[cpu].freq_scale.is_some() {
            return;
        }
        if own {
            self.update_cpu(cpu, time_ns);
        } else {
            self.tick(cpu, time_ns);
        }
        let clock_ns = self.clock_ns(cpu, time_ns);
        let rq = &mut self.cpus[cpu];
        if self.ticks.is_none() && rq.curr.is_some() && rq.freq_known && rq.facts.freq_max_khz != 0 {
            // Since when is not known without ticks.
            let open_ns = clock_ns.saturating_sub(rq.clock.clock).min(TICK_NS);
            let part = u64::from(rq.freq_khz.abs_diff(freq_khz)) * open_ns / u64::from(rq.facts.freq_max_khz);
            widen::<H>(&mut rq.unknown, change_in(1024, scaled(part, rq.facts.capacity)));
        }
        (rq.freq_khz, rq.freq_known) = (freq_khz, true);
    }

    /// The kernel's own frequency scale of `cpu`, in place of what `cpu_frequency` shows. The run queue's clock was updated `open_ns` ago
    /// last, and counts the time since at the new scale.
    pub fn freq_scale(&mut self, time_ns: u64, cpu: u32, scale: u64, open_ns: u64) {
        let cpu = self.cpu_place(cpu);
        self.update_cpu(cpu, time_ns.saturating_sub(open_ns));
        let rq = &mut self.cpus[cpu];
        (rq.freq_scale, rq.freq_known) = (Some(scale), true);
    }

    /// Moves all signals of a CPU by `delta` ns in PELT's time.
    fn rebase(&mut self, cpu: usize, delta: u64) {
        let rq = &mut self.cpus[cpu];
        for avg in [&mut rq.cfs.avg, &mut rq.rt, &mut rq.dl, &mut rq.unknown] {
            avg.last_update_time = avg.last_update_time.wrapping_add(delta);
        }
        self.rebase_queues(cpu, delta);
        for task in self.tasks.iter_mut().filter(|task| task.cpu == cpu) {
            task.avg.last_update_time = task.avg.last_update_time.wrapping_add(delta);
            task.unknown.last_update_time = task.unknown.last_update_time.wrapping_add(delta);
        }
    }

    /// The kernel's own clocks of a run queue, where a trace has them (probes on its updates): they replace the trace clock for
    /// what follows at once, and the queue and its running task are brought up to them.
    pub fn clocks(
        &mut self,
        time_ns: u64,
        cpu: u32,
        clock: u64,
        clock_task: u64,
        clock_pelt: u64,
        lost_idle_time: u64,
    ) {
        let cpu = self.cpu_place(cpu);
        let recorded = RqClock { clock, clock_task, clock_pelt, lost_idle_time, ..RqClock::default() };
        let ahead = clock.wrapping_sub(time_ns.wrapping_sub(self.offset_ns as u64)) as i64;
        if self.cpus[cpu].skew_ns.is_none() {
            // The first record: what was on the trace clock until now goes over to the kernel's.
            let before = self.update_cpu(cpu, time_ns);
            self.rebase(cpu, recorded.rq_clock_pelt().wrapping_sub(before));
        }
        let rq = &mut self.cpus[cpu];
        // The clock was read before the record was written: the smallest delay is the best guess.
        rq.skew_ns = Some(rq.skew_ns.unwrap_or(ahead).max(ahead));
        rq.recorded = Some((recorded, time_ns));
        let now = self.update_cpu(cpu, time_ns);
        if let Some(place) = self.cpus[cpu].curr {
            self.update_task(place, now, true);
        }
    }

    /// An update that no event shows: a tick, or a balance that lets the load of an idle CPU decay. Brings the CPU's queue and its
    /// running task up to `time_ns`.
    pub fn update(&mut self, time_ns: u64, cpu: u32) {
        let cpu = self.cpu_place(cpu);
        let now = self.update_cpu(cpu, time_ns);
        if let Some(place) = self.cpus[cpu].curr {
            self.update_task(place, now, true);
        }
    }

    /// Whether the averages of the CPU's fair class were computed anew since the last call: a period of 1024 us ended, a task joined
    /// or left them. Then the kernel calls the governor (fair.c:cfs_rq_util_change(), v6.12).
    pub fn take_changed(&mut self, cpu: u32) -> bool {
        self.cpus.get_mut(cpu as usize).is_some_and(|rq| std::mem::take(&mut rq.changed))
    }

    /// What a governor reads of a CPU, as of the last update; zeros for a CPU that was never seen.
    pub fn cpu_util(&self, cpu: u32) -> CpuUtil {
        self.cpus.get(cpu as usize).map_or_else(CpuUtil::default, |rq| CpuUtil {
            util_avg: rq.cfs.avg.util_avg,
            runnable_avg: rq.cfs.avg.runnable_avg,
            util_est: rq.cfs.avg.util_est,
            util_rt: rq.rt.util_avg,
            util_dl: rq.dl.util_avg,
            rt_runnable: rq.nr_rt != 0,
        })
    }

    /// Runnable tasks of a CPU, of the fair and the real-time class.
    pub fn runnable(&self, cpu: u32) -> u64 {
        self.cpus.get(cpu as usize).map_or(0, |rq| rq.nr_runnable + rq.nr_rt)
    }

    /// Whether some load is left on a CPU (fair.c:cfs_rq_has_blocked(), others_have_blocked()).
    pub fn has_blocked(&self, cpu: u32) -> bool {
        self.cpus.get(cpu as usize).is_some_and(|rq| {
            let fair = &rq.cfs.avg;
            fair.load_avg != 0 || fair.util_avg != 0 || rq.rt.util_avg != 0 || rq.dl.util_avg != 0
        })
    }

    /// A CPU's root queue at `time_ns` with the part of a period that is open, without changing anything; `None` if nothing happened there yet.
    pub fn peek_cpu(&self, cpu: u32, time_ns: u64) -> Option<Sample> {
        let place = cpu as usize;
        let rq = self.cpus.get(place).filter(|rq| rq.started)?;
        let recorded = rq.recorded.filter(|(_, at)| time_ns.wrapping_sub(*at) < RECORDED_HOLDS_NS);
        let mut clock = recorded.map_or(rq.clock, |(clock, _)| clock);
        if recorded.is_none() {
            let clock_ns = self.clock_ns(place, time_ns);
            clock.update_rq_clock(clock_ns, 0, rq.curr.is_none(), rq.facts.capacity, rq.freq_scale());
        }
        let has_curr = rq.curr.is_some_and(|curr| self.tasks[curr].class == Class::Fair);
        let (mut cfs, mut unknown) = (rq.cfs, rq.unknown);
        let now = clock.rq_clock_pelt();
        cfs.update::<H>(now, CfsFacts { load_weight: rq.load_weight, nr_runnable: rq.nr_runnable, has_curr });
        update_load_avg_se::<H>(now, &mut unknown, NOT_RUNNING);
        Some(Sample {
            time_ns,
            pelt_ns: now,
            cpu,
            pid: None,
            util_avg: open_period::<H>(&cfs.avg),
            runnable_avg: cfs.avg.runnable_avg,
            load_avg: cfs.avg.load_avg,
            util_est: cfs.avg.util_est,
            error_bound: unknown.util_avg,
        })
    }

    /// A task's signal at `time_ns` with the part of a period that is open, without changing anything; `None` if the task was never seen.
    pub fn peek_task(&self, pid: i32, time_ns: u64) -> Option<Sample> {
        let task = &self.tasks[self.find(pid)?];
        let mut copy = task.clone();
        let rq = &self.cpus[task.cpu];
        let recorded = rq.recorded.filter(|(_, at)| time_ns.wrapping_sub(*at) < RECORDED_HOLDS_NS);
        let mut clock = recorded.map_or(rq.clock, |(clock, _)| clock);
        if recorded.is_none() {
            let clock_ns = self.clock_ns(task.cpu, time_ns);
            clock.update_rq_clock(clock_ns, 0, rq.curr.is_none(), rq.facts.capacity, rq.freq_scale());
        }
        let running = rq.curr == self.find(pid);
        // A task between two queues waits at the time of the one that it left.
        let passes = copy.attached && !copy.throttled;
        let now = if passes {
            self.queues.now(copy.cpu, copy.group, clock.rq_clock_pelt())
        } else {
            copy.avg.last_update_time
        };
        update_load_avg_se::<H>(now, &mut copy.avg, SeFacts::task(copy.weight, copy.on_rq, running));
        update_load_avg_se::<H>(now, &mut copy.unknown, NOT_RUNNING);
        Some(Sample {
            time_ns,
            pelt_ns: now,
            cpu: copy.cpu as u32,
            pid: Some(pid),
            util_avg: open_period::<H>(&copy.avg),
            runnable_avg: copy.avg.runnable_avg,
            load_avg: copy.avg.load_avg,
            util_est: task_util_est_masked(&copy.avg),
            error_bound: copy.unknown.util_avg,
        })
    }
}

/// The stoppers among named tasks, for [`PeltReplay::set_stoppers`].
pub fn stoppers(names: &BTreeMap<i32, Vec<u8>>) -> Vec<i32> {
    names.iter().filter(|(_, name)| name.starts_with(b"migration/")).map(|(pid, _)| *pid).collect()
}

impl<S: Samples, H: HalfLife> SchedSink for PeltReplay<S, H> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        let time = event.time_ns;
        self.end_ns = time;
        if !matches!(what, SchedEvent::FreqScale { .. })
            && let Some((tick_ns, cpu)) = self.ticking.take()
        {
            self.update(tick_ns, cpu);
        }
        match *what {
            SchedEvent::Timer { tick: true } => (self.ticks_told, self.ticking) = (true, Some((time, event.cpu))),
            SchedEvent::Switch { prev, prev_state, next } => {
                self.switch(time, event.cpu, prev.with_prio(0), prev_state, next.with_prio(0));
            }
            SchedEvent::Lost { cpu, .. } => self.lost(time, cpu),
            SchedEvent::Wakeup { task, target_cpu, new } => {
                let (pid, prio) = task.with_prio(0);
                self.wakeup(time, pid, prio, target_cpu, new);
            }
            SchedEvent::Migrate { pid, prio, dest_cpu, .. } => {
                self.migrate(time, pid, prio.unwrap_or(0).into(), dest_cpu);
            }
            SchedEvent::Frequency { cpu, khz } => self.frequency(time, event.cpu, cpu, khz),
            SchedEvent::FreqScale { cpu, scale, open_ns } => self.freq_scale(time, cpu, scale, open_ns),
            SchedEvent::Free { pid } => self.exit(time, pid),
            SchedEvent::Waking { task } => self.waking(time, task.pid),
            SchedEvent::NrRunning { cpu, change, nr: Some(nr) } => {
                self.nr_running(time, event.cpu, cpu, change, nr as u64);
            }
            SchedEvent::Fork { parent_pid, child_pid, .. } => self.fork(parent_pid, child_pid),
            SchedEvent::Attach { dst_root, dst_id, dst_path, pid } => {
                self.attach_group(time, dst_root, dst_id, &String::from_utf8_lossy(dst_path), pid);
            }
            SchedEvent::Group { root, id, path } => self.name_group(root, id, &String::from_utf8_lossy(path)),
            // Any record of a run queue's clocks: probes on __update_load_avg_cfs_rq() and the like.
            SchedEvent::Other => {
                let names = ["cpu", "clock", "clock_task", "clock_pelt", "lost"];
                let places = self.clock_records.get(event.schema, |schema| Places::new(schema, &names));
                if let [Some(cpu), Some(clock), Some(clock_task), Some(clock_pelt), Some(lost)] =
                    [0, 1, 2, 3, 4].map(|nth| places.find(event, nth).map(|value| value as u64))
                {
                    self.clocks(time, cpu as u32, clock, clock_task, clock_pelt, lost);
                }
            }
            _ => {}
        }
    }
}
