//! Open-loop replay: everything happens when it happened, only the frequency is another.
//!
//! The governor of crate `kernel` gets, at each scheduling event and tick of its CPUs, the utilisation that crate `trace` rebuilds from
//! the recorded events; its requests replace the recorded frequencies. What a lower frequency would have delayed is not
//! delayed: that is the closed loop's question.

use std::collections::BTreeSet;

use opplab_kernel::cpufreq::conservative::{Conservative, ConservativeTunables};
use opplab_kernel::cpufreq::dbs::{CpuTimes, DbsPolicy, default_sampling_rate_us, min_sampling_interval_us};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable};
use opplab_kernel::cpufreq::ondemand::{Ondemand, OndemandTunables};
use opplab_kernel::cpufreq::schedutil::{
    CpuFacts, PolicyFacts, RqFacts, SCHED_CPUFREQ_IOWAIT, SugovConfig, SugovFacts, SugovPolicy, SugovRequest,
};
use opplab_kernel::pelt::HalfLife32;
use opplab_kernel::profile::{KernelProfile, Platform};
use opplab_kernel::unit::tick_nsec;
use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::machine::{InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_trace::signals::pelt::{CpuFacts as PeltCpu, PeltReplay, Sample};

use crate::ReplayError;
use crate::events::{Ev, Events, Left, What};
use crate::measure::granted;

/// A no-op taker of samples: the governor asks when it needs one.
type Signals = PeltReplay<fn(&Sample), HalfLife32>;

enum Governor {
    Fixed,
    Schedutil(Box<SugovPolicy>),
    Ondemand(Box<Ondemand>),
    Conservative(Box<Conservative>),
}

struct FreqPolicy {
    cpus: Vec<u32>,
    governor: Governor,
    table: Option<FreqTable>,
    limits: FreqLimits,
    cur_khz: u32,
}

struct CpuState {
    current: TaskIdx,
    capacity: u64,
    idle_calls: u64,
    idle_ns: u64,
    idle_since_ns: u64,
    /// The load-tracking period (1024 us) of the last update that the governor heard of.
    period: u64,
}

struct View<'a> {
    signals: &'a Signals,
    cpus: &'a [CpuState],
    members: &'a [u32],
    now_ns: u64,
}

impl SugovFacts for View<'_> {
    fn cpu(&self, index: usize) -> CpuFacts {
        let cpu = self.members[index];
        let state = &self.cpus[cpu as usize];
        let sample = self.signals.peek_cpu(cpu, self.now_ns).unwrap_or_default();
        let util_cfs = sample.util_avg.max(sample.util_est.into());
        CpuFacts {
            rq: RqFacts { capacity: state.capacity, ..RqFacts::default() },
            util_cfs: util_cfs.min(state.capacity),
            util_cfs_boost: util_cfs.max(sample.runnable_avg).min(state.capacity),
            idle_calls: state.idle_calls,
        }
    }

    fn dl_running_bw(&self, _index: usize) -> u64 {
        0
    }
}

/// The recorded events with the frequencies that `policy` would have asked for.
///
/// # Errors
/// [`ReplayError::Input`] if the governor or the kernel is not known.
pub fn open_loop(
    events: &Events,
    machine: &Machine,
    policy: &Policy,
    start_khz: &[u32],
) -> Result<Events, ReplayError> {
    let mut run = Run::new(machine, policy, start_khz)?;
    let mut list = Vec::with_capacity(events.list.len());
    for policy in &run.policies {
        let what = What::Frequency { cpu: policy.cpus[0], freq_khz: policy.cur_khz };
        list.push(Ev { what, ..events.list[0] });
    }
    let mut next_tick = run.tick_ns;
    for ev in &events.list {
        while next_tick <= ev.time_ns {
            run.tick(next_tick, ev, &mut list);
            next_tick += run.tick_ns;
        }
        if !matches!(ev.what, What::Frequency { .. }) {
            list.push(*ev);
        }
        run.event(ev, events, &mut list);
    }
    Ok(Events { list, ..events.clone() })
}

struct Run<'a> {
    policies: Vec<FreqPolicy>,
    policy_of: Vec<usize>,
    signals: Signals,
    cpus: Vec<CpuState>,
    machine: &'a Machine,
    freq_invariant: bool,
    tick_ns: u64,
    /// Tasks that sleep without a chance to be interrupted: they wait for a device.
    in_iowait: BTreeSet<TaskIdx>,
}

impl<'a> Run<'a> {
    fn new(machine: &'a Machine, policy: &Policy, start_khz: &[u32]) -> Result<Self, ReplayError> {
        let input = |what: String| ReplayError::Input(what);
        let profile = KernelProfile::named(&policy.kernel).ok_or_else(|| {
            let known: Vec<&str> = opplab_kernel::profile::profile_names().collect();
            input(format!("unknown kernel profile {:?}; known: {}", policy.kernel, known.join(", ")))
        })?;
        let platform = match machine.invariance {
            InvarianceSource::FreqChange => Platform::Arm,
            InvarianceSource::CountersAtTick
                if machine.processor.as_ref().is_some_and(|p| p.vendor == "AuthenticAMD") =>
            {
                Platform::Amd
            }
            InvarianceSource::CountersAtTick => Platform::Intel,
        };
        let freq_invariant = policy.invariance != "none" && profile.freq_invariant(platform);
        let tick_ns = tick_nsec(policy.hz.into());
        let described = machine.policies();
        let mut policies = Vec::new();
        for (index, (cluster, cpus)) in described.iter().enumerate() {
            let khz: Vec<u32> = machine.clusters[*cluster as usize].opps.iter().map(|opp| opp.khz).collect();
            let limits = FreqLimits { min_khz: khz[0], max_khz: khz[khz.len() - 1] };
            let table = if machine.cpufreq.freq_table { FreqTable::from_khz(&khz).ok() } else { None };
            let cur_khz = start_khz.get(index).copied().unwrap_or(khz[0]);
            let tunable = |name: &str| policy.tunables.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            let latency = u32::try_from(machine.cpufreq.transition_latency_ns).unwrap_or(u32::MAX);
            let delay_us = profile.rate_limit_us(machine.cpufreq.transition_delay_us, latency);
            let zero = vec![CpuTimes::default(); cpus.len()];
            let sampling_us = default_sampling_rate_us(policy.hz.into(), delay_us);
            let least_us = min_sampling_interval_us(policy.hz.into());
            let (governor, cur_khz) = match policy.governor.as_str() {
                "performance" => (Governor::Fixed, limits.max_khz),
                "powersave" => (Governor::Fixed, limits.min_khz),
                "userspace" => {
                    let wanted = tunable("scaling_setspeed").and_then(|khz| khz.parse().ok()).unwrap_or(limits.max_khz);
                    (Governor::Fixed, granted(&machine.clusters[*cluster as usize].opps, wanted).khz)
                }
                "schedutil" => {
                    let rate_limit_us = tunable("rate_limit_us").and_then(|us| us.parse().ok()).unwrap_or(delay_us);
                    let sugov = SugovPolicy::new(SugovConfig {
                        n_cpus: cpus.len(),
                        cpuinfo: limits,
                        limits,
                        table: table.clone(),
                        fast_switch: true,
                        need_update_limits: false,
                        adjust_perf: false,
                        rate_limit_us,
                        tick_ns,
                        gates: profile.sugov_gates(),
                    });
                    (Governor::Schedutil(Box::new(sugov)), cur_khz)
                }
                "ondemand" => {
                    let mut governor = Ondemand::start(OndemandTunables::new(sampling_us, false), &zero);
                    for (name, value) in &policy.tunables {
                        let fail = |error| input(format!("tunable {name} = {value:?}: {error}"));
                        governor.store(name, value, least_us).map_err(fail)?;
                    }
                    (Governor::Ondemand(Box::new(governor)), cur_khz)
                }
                "conservative" => {
                    let mut governor = Conservative::start(ConservativeTunables::new(sampling_us), cur_khz, &zero);
                    for (name, value) in &policy.tunables {
                        let fail = |error| input(format!("tunable {name} = {value:?}: {error}"));
                        governor.store(name, value, least_us).map_err(fail)?;
                    }
                    (Governor::Conservative(Box::new(governor)), cur_khz)
                }
                other => {
                    let known = opplab_sim::GOVERNORS.join(", ");
                    return Err(input(format!("there is no governor {other:?}; there are {known}")));
                }
            };
            policies.push(FreqPolicy { cpus: cpus.clone(), governor, table, limits, cur_khz });
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
                idle_calls: 0,
                idle_ns: 0,
                idle_since_ns: 0,
                period: 0,
            })
            .collect();
        let signals = PeltReplay::new(&pelt, 0, (|_: &Sample| {}) as fn(&Sample));
        Ok(Self { policies, policy_of, signals, cpus, machine, freq_invariant, tick_ns, in_iowait: BTreeSet::new() })
    }

    /// Feeds the signals, then lets the governor of the event's CPU decide.
    fn event(&mut self, ev: &Ev, events: &Events, out: &mut Vec<Ev>) {
        let nr = self.cpus.len() as u32;
        if ev.cpu >= nr {
            return;
        }
        // PELT reads a clock of 0 as "never".
        let now = ev.time_ns + self.tick_ns;
        let who = |task: TaskIdx| {
            let info = events.tasks.get(task as usize);
            (info.map_or(0, |task| task.pid), info.map_or(120, |task| task.prio))
        };
        let mut flags = 0;
        let touched = match ev.what {
            What::Switch { prev, left, next } => {
                if left == Left::Uninterruptible {
                    self.in_iowait.insert(prev);
                }
                let state = u64::from(left != Left::Runnable);
                self.signals.switch(now, ev.cpu, who(prev), state, who(next));
                let cpu = &mut self.cpus[ev.cpu as usize];
                if next == IDLE_TASK {
                    cpu.idle_since_ns = ev.time_ns;
                    cpu.idle_calls += 1;
                } else if cpu.current == IDLE_TASK {
                    cpu.idle_ns += ev.time_ns - cpu.idle_since_ns;
                }
                cpu.current = next;
                ev.cpu
            }
            What::Wakeup { task, cpu } if cpu < nr => {
                let (pid, prio) = who(task);
                if self.in_iowait.remove(&task) {
                    flags = SCHED_CPUFREQ_IOWAIT;
                }
                self.signals.wakeup(now, pid, prio, cpu, false);
                cpu
            }
            What::WakeupNew { task, cpu } if cpu < nr => {
                let (pid, prio) = who(task);
                self.signals.wakeup(now, pid, prio, cpu, true);
                cpu
            }
            What::Migrate { task, dest_cpu, .. } if dest_cpu < nr => {
                let (pid, prio) = who(task);
                self.signals.migrate(now, pid, prio, dest_cpu);
                return;
            }
            What::Exit { task } => {
                self.signals.exit(now, who(task).0);
                return;
            }
            // The utilisation is the recorded one: it followed the recorded frequency.
            What::Frequency { cpu, freq_khz } if cpu < nr => {
                self.signals.frequency(now, cpu, freq_khz);
                return;
            }
            _ => return,
        };
        self.decide(touched, flags, ev, ev.time_ns, out);
    }

    /// The tick of all busy CPUs.
    fn tick(&mut self, time_ns: u64, near: &Ev, out: &mut Vec<Ev>) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.cpus[cpu as usize].current != IDLE_TASK {
                self.decide(cpu, 0, near, time_ns, out);
            }
        }
    }

    fn decide(&mut self, cpu: u32, flags: u32, near: &Ev, time_ns: u64, out: &mut Vec<Ev>) {
        // fair.c:cfs_rq_util_change(): the governor hears of an update that crossed a period, and of waits for devices.
        let period = std::mem::replace(&mut self.cpus[cpu as usize].period, time_ns >> 20);
        if flags == 0 && period == time_ns >> 20 {
            return;
        }
        let index = self.policy_of[cpu as usize];
        let now_ns = time_ns + self.tick_ns;
        let times: Vec<CpuTimes> = self.policies[index]
            .cpus
            .iter()
            .map(|&member| {
                let state = &self.cpus[member as usize];
                let open = if state.current == IDLE_TASK { time_ns.saturating_sub(state.idle_since_ns) } else { 0 };
                CpuTimes { wall_us: now_ns / 1000, idle_us: (state.idle_ns + open) / 1000, nice_ns: 0 }
            })
            .collect();
        let FreqPolicy { cpus: members, governor, table, limits, cur_khz } = &mut self.policies[index];
        let dbs = DbsPolicy { cur_khz: *cur_khz, limits: *limits, cpuinfo: *limits, table: table.as_ref() };
        let wanted = match governor {
            Governor::Fixed => None,
            Governor::Schedutil(sugov) => {
                let member = members.iter().position(|&other| other == cpu).unwrap_or(0);
                let facts = PolicyFacts {
                    cur_khz: *cur_khz,
                    freq_ref_khz: match self.machine.invariance {
                        InvarianceSource::FreqChange => limits.max_khz,
                        InvarianceSource::CountersAtTick => 0,
                    },
                    freq_invariant: self.freq_invariant,
                    can_update: true,
                };
                let view = View { signals: &self.signals, cpus: &self.cpus, members, now_ns };
                match sugov.update(now_ns, member, flags, &facts, &view) {
                    Some(SugovRequest::FastSwitch { freq_khz }) => Some(freq_khz),
                    _ => None,
                }
            }
            Governor::Ondemand(governor) => {
                if governor.policy_dbs.update_util(now_ns) {
                    let (request, delay_us) = governor.update(&dbs, &times);
                    governor.policy_dbs.sampled(delay_us);
                    request.map(|request| request.resolve(table.as_ref(), *limits))
                } else {
                    None
                }
            }
            Governor::Conservative(governor) => {
                if governor.policy_dbs.update_util(now_ns) {
                    let (request, delay_us) = governor.update(&dbs, &times);
                    governor.policy_dbs.sampled(delay_us);
                    request.map(|request| request.resolve(table.as_ref(), *limits))
                } else {
                    None
                }
            }
        };
        if let Some(khz) = wanted.filter(|khz| *khz != self.policies[index].cur_khz) {
            self.policies[index].cur_khz = khz;
            let what = What::Frequency { cpu: self.policies[index].cpus[0], freq_khz: khz };
            out.push(Ev { time_ns, what, ..*near });
        }
    }
}
