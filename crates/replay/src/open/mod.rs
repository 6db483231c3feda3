//! Open-loop replay: everything happens when it happened, only the frequency is another.
//!
//! The governor of crate `kernel` is called for a CPU whenever the recorded kernel's was ([`crate::calls`]) and reads the utilisation that
//! crate `trace` rebuilds from the recorded events; its requests replace the recorded frequencies. A request that goes through
//! a kthread takes the time that the recorded kthread took. What a lower frequency would have delayed is not delayed: that
//! is the closed loop's question.

use std::collections::BTreeSet;

use opplab_kernel::cpufreq::freq_table::cpufreq_pressure;
use opplab_kernel::cpufreq::governor::{GovernorSetup, Worker};
use opplab_kernel::cpufreq::schedutil::SCHED_CPUFREQ_IOWAIT;
use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::{CpufreqPressure, FairServer, KernelProfile, SingleStateTick, SugovUtil, Uclamp};
use opplab_kernel::unit::tick_nsec;
use opplab_model::decision::Decision;
use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::governor::{governor_setup, start_governor};
use opplab_model::machine::{InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_signals::pelt::{CpuFacts as PeltCpu, PeltReplay, Sample};
use opplab_signals::ticks::{EARLY_NS, Ticks};
use opplab_signals::with_half_life;

use crate::ReplayError;
use crate::calls::{Kthread, Kworkers, find_ticks, samples_no_less, takes_samples};
use crate::events::{Context, Ev, Events, GroupChange, Left, What};
use crate::measure::window_start_ns;
use crate::nohz::Nohz;
use crate::records::Records;

mod balancer;
mod idle;
mod requests;
mod state;

use requests::Call;
use state::{CpuState, FreqPolicy, Kernels, Signals};

/// So long a silence is not followed tick by tick.
const SILENT_NS: u64 = 1_000_000_000;
/// A call comes some microseconds before the event of its cause, which an emulator may stretch.
const PASS_NS: u64 = 1_000_000;
/// The state of a task in its last switch (include/linux/sched.h).
const EXIT_DEAD: u64 = 0x10;

/// A decision of schedutil in an open loop, for those who explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenDecision {
    /// Time since the trace's first event, ns.
    pub time_ns: u64,
    /// The decision.
    pub decision: Decision,
}

/// The decisions of schedutil under the recorded policy, at the recorded times; not the reports within its rate limit, or of CPUs that
/// may not change the policy. Another governor has none.
///
/// # Errors
/// As [`open_loop`].
pub fn open_decisions(
    events: &Events,
    machine: &Machine,
    policy: &Policy,
    start_khz: &[u32],
) -> Result<Vec<OpenDecision>, ReplayError> {
    if !policy.governor_id().is_ok_and(|governor| governor.energy_aware) {
        return Ok(Vec::new());
    }
    with_half_life!(policy.half_life_ms(), H => {
        let mut run = Run::<H>::new(events, machine, (policy, policy), start_khz)?;
        run.decisions = Some(Vec::new());
        run.all(events);
        Ok(run.decisions.unwrap_or_default())
    })
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
    let mut list = with_half_life!(policy.half_life_ms(), H => {
        let mut run = Run::<H>::new(events, machine, (recorded, policy), start_khz)?;
        run.all(events);
        run.out
    });
    list.sort_by_key(|ev| ev.time_ns);
    Ok(Events { list, ..events.clone() })
}

/// Times are those of the events, but for load tracking and the governors, which get the scheduler's clock.
struct Run<'a, H> {
    out: Vec<Ev>,
    policies: Vec<FreqPolicy>,
    policy_of: Vec<usize>,
    signals: Signals<H>,
    /// What the kernel recorded of the same.
    records: &'a Records,
    cpus: Vec<CpuState>,
    machine: &'a Machine,
    freq_invariant: bool,
    kernels: Kernels,
    /// The scheduler's clock at the first event; load tracking reads 0 as "never".
    clock_ns: u64,
    /// What is added to recorded clocks of run queues: the lift off 0.
    lift_ns: u64,
    /// How long a fast switch takes, where `cpu_frequency` is what the hardware granted, as in a simulated run; a kernel's is the request.
    granted_ns: u64,
    tick_ns: u64,
    /// Until then the governors only watch, and the recorded frequencies hold: what was before the trace is not known.
    settled_ns: u64,
    next_tick_ns: u64,
    ticks: Option<Ticks>,
    /// What a CPU does with its tick where no idle governor decides.
    single_state_tick: SingleStateTick,
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
    util_form: SugovUtil,
    decisions: Option<Vec<OpenDecision>>,
}

impl<'a, H: HalfLife> Run<'a, H> {
    fn new(
        events: &'a Events,
        machine: &'a Machine,
        (recorded, policy): (&Policy, &Policy),
        start_khz: &[u32],
    ) -> Result<Self, ReplayError> {
        let profile = policy.profile()?;
        let platform = machine.platform();
        let freq_invariant =
            policy.invariance != "none" && profile.freq_invariant(platform) && machine.knows_freq_max();
        let tick_ns = tick_nsec(policy.hz.into());
        let described = machine.policies();
        let mut policies = Vec::new();
        let mut samples_then = samples_no_less(recorded, policy);
        for (index, (cluster, cpus)) in described.iter().enumerate() {
            let setup = governor_setup(machine, &machine.cpufreq, policy, *cluster, cpus.len())?;
            let limits = setup.limits;
            let cur_khz = start_khz.get(index).copied().unwrap_or(limits.min_khz);
            let mut governor = start_governor(policy, &GovernorSetup { cur_khz, ..setup })?;
            let worker = governor.entry().worker;
            let own = governor_setup(machine, &machine.cpufreq, recorded, *cluster, cpus.len())?;
            let own = start_governor(recorded, &own)?;
            samples_then &= worker == Worker::Kworker
                && own.entry().worker == Worker::Kworker
                && governor.next_change_ns(cur_khz).is_multiple_of(own.next_change_ns(cur_khz));
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
                sets: None,
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
        let presses =
            profile.cpufreq_pressure == CpufreqPressure::Present && machine.invariance == InvarianceSource::FreqChange;
        let pressure = |cpu: u32, capacity: u64| {
            let reference_khz = if presses { machine.cluster_of(cpu).reference_khz() } else { 0 };
            cpufreq_pressure(capacity, policies[policy_of[cpu as usize]].limits.max_khz, reference_khz)
        };
        let cpus = (0..)
            .zip(&pelt)
            .map(|(cpu, facts)| CpuState {
                current: IDLE_TASK,
                capacity: facts.capacity,
                cpufreq_pressure: pressure(cpu, facts.capacity),
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
        let sched_clock_ns = events.sched_clock_ns.unwrap_or(0);
        let clock_ns = sched_clock_ns.max(tick_ns);
        let ticks = find_ticks(events, tick_ns, clock_ns);
        let mut signals = PeltReplay::new(&pelt, 0, (|_: &Sample| {}) as fn(&Sample));
        signals.set_ticks(ticks);
        signals.set_kernel(&profile);
        let groups = &events.task_groups;
        let first_ns = clock_ns.wrapping_sub(events.first_ns) as i64;
        signals.set_groups(groups.start.clone(), groups.finder.clone().shifted(first_ns));
        let stoppers = events.tasks.iter().filter(|task| task.name.starts_with("migration/"));
        signals.set_stoppers(stoppers.map(|task| task.pid));
        let last_tick_ns = ticks.map_or(clock_ns, |ticks| ticks.last_before(clock_ns) + EARLY_NS);
        let told = events.list.iter().any(|ev| matches!(ev.what, What::UpdateUtil { .. }));
        let served = |profile: &KernelProfile| profile.fair_server == FairServer::Present;
        let own = recorded.profile()?;
        let kernels =
            Kernels { fair_server: (served(&own), served(&profile)), clamps: profile.uclamp == Uclamp::Present };
        Ok(Self {
            out: Vec::with_capacity(events.list.len()),
            policies,
            policy_of,
            signals,
            records: &events.records,
            cpus,
            machine,
            freq_invariant,
            kernels,
            tick_ns,
            settled_ns: window_start_ns(events.duration_ns),
            clock_ns,
            lift_ns: clock_ns - sched_clock_ns,
            granted_ns: if events.is_simulated() { machine.cpufreq.switch_ns } else { 0 },
            ticks,
            single_state_tick: profile.single_state_tick,
            next_tick_ns: last_tick_ns.saturating_add(tick_ns).saturating_sub(clock_ns),
            idle_told: events.list.iter().any(|ev| matches!(ev.what, What::Idle { .. })),
            told,
            calls: Vec::new(),
            nohz: Some(Nohz::new(machine, policy.hz.into(), &profile)),
            jiffies: 0,
            waking: vec![None; nr],
            kworkers: Kworkers::of(events, |task| samples_then && takes_samples(events, recorded, task)),
            in_iowait: BTreeSet::new(),
            util_form: profile.sugov_gates().util,
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
                self.signals.waking(ev.time_ns, who(task).0);
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
            What::Fork { child } => {
                let parent = events.tasks.get(child as usize).and_then(|info| info.parent);
                if let Some(parent) = parent {
                    self.signals.fork(who(parent).0, who(child).0);
                }
            }
            What::Group { change } => match events.task_groups.changes.get(change as usize) {
                Some((_, GroupChange::Attach { hierarchy, id, path, pid })) => {
                    self.signals.attach_group(now, *hierarchy, *id, path, *pid);
                }
                Some((_, GroupChange::Name { hierarchy, id, path })) => self.signals.name_group(*hierarchy, *id, path),
                _ => {}
            },
            // The utilisation is the recorded one: it followed the recorded frequency.
            What::Frequency { cpu, freq_khz } if cpu < nr => {
                self.signals.frequency(now, ev.cpu, cpu, freq_khz);
                let index = self.policy_of[cpu as usize];
                // What was asked for before is recorded, too.
                let under_way = || self.policies[index].kthread.asked_before(ev.time_ns, self.settled_ns);
                if ev.time_ns < self.settled_ns || under_way() {
                    self.follow(index, freq_khz, ev.time_ns);
                }
                return;
            }
            What::UpdateUtil { cpu, flags, clock_ns, nth } if cpu < nr => {
                let clock_ns = clock_ns.saturating_add(self.lift_ns);
                self.calls.push(Call { time_ns: ev.time_ns, here: ev.cpu, cpu, flags, told: Some((clock_ns, nth)) });
                return;
            }
            _ => return,
        }
        if self.told {
            self.calls_of(ev.cpu);
            return;
        }
        // The governor is called in the midst of a wake-up.
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
            self.call(Call { time_ns: told_ns, here: ev.cpu, cpu, flags: 0, told: None });
        }
        if let Some(cpu) = iowait {
            self.call(Call { time_ns: told_ns, here: ev.cpu, cpu, flags: SCHED_CPUFREQ_IOWAIT, told: None });
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_kernel::pelt::HalfLife32;

    /// A lowered `scaling_max_freq` takes capacity from 6.10 on, as in the engine.
    #[test]
    fn a_limit_presses_on_the_capacity() {
        let machine = crate::tests::juno();
        let (events, big) = (Events::default(), machine.cluster_of(1));
        let limit_khz = big.opps[0].khz;
        let lost = |kernel: &str| {
            let mut policy = Policy { kernel: kernel.into(), ..Policy::default() };
            policy.scaling_max_freq.all_khz = limit_khz;
            let run = Run::<HalfLife32>::new(&events, &machine, (&policy, &policy), &[])
                .unwrap_or_else(|error| panic!("{error}"));
            run.cpus[1].cpufreq_pressure
        };
        assert_eq!(lost("6.12.117"), cpufreq_pressure(big.capacity.into(), limit_khz, big.reference_khz()));
        assert!(lost("6.12.117") > 0);
        assert_eq!(lost("6.9"), 0);
    }
}
