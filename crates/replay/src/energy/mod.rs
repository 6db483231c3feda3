//! What a recorded trace cost, and who caused it: the machine's powers, integrated over what the events record.
//!
//! ```text
//!   a CPU        runs a task          busy power of its operating point, to the task
//!                sits in idle state n power of the state, to "idle"
//!                is in the idle loop  as in the shallowest state
//!   a cluster    some CPU is awake    its shared logic at the operating point: to its running tasks in equal parts,
//!                                     to "idle" while there are none
//!                all CPUs idle        idle power, or that of the cluster state when all are in their deepest one
//!   the machine  always               its floor, to "floor"
//! ```
//! All sums are in fJ (uW x ns) and whole, so the parts add up to the total exactly. What hangs on a
//! clock before a CPU's first `cpu_frequency` is not in them: running, polling, idle states of such power, and what an awake cluster
//! shares. It is reported, with the least and the most that it costs at a clock of the machine, boosted ones included. What a CPU did before its first switch, if an idle event comes before that, is not known and
//! reported as a time, as is what it does once its task was seen elsewhere; so is what its cluster shares while no other CPU keeps that awake.
//! An exit from an idle state lies before its event and draws as the shallowest state: from `idle_exit` on where the trace has
//! it, for the exit latency otherwise, as if no wake-up interrupted an entry. A cluster sleeps by `cluster_idle` events, otherwise
//! as soon as all its CPUs are in their deepest state. Simulated runs have both events, so that nothing is left out but
//! devices and the power of programs.

use std::collections::{BTreeMap, BTreeSet};

use opplab_model::machine::{Cluster, Machine};
use opplab_signals::decode::{SchedEvent, SchedSink, with_births_and_ends};
use opplab_trace::Event;

use crate::idle_states::IdleStates;

mod integrate;

pub(crate) use integrate::Integrator;

/// The events that energy follows from; others count for the time only.
///
/// Marks count for the time of residencies, too: a simulated run's trace ends with one. Births and ends show whose a pid is
/// ([`opplab_signals::decode::Threads`]), and they and wake-ups where a task is no more.
pub const EVENTS: [&str; 19] =
    with_births_and_ends(&["cpu_frequency", "power_rail", "print", "tracing_mark_write", "idle_exit", "cluster_idle"]);

/// What idle CPUs count as in a trace without idle states.
pub const NO_STATES: &str =
    "no cpu_idle event: idle CPUs count as in the shallowest state, although they may have been deeper";

/// Steps of the power over time that are kept at most; they are as long as the trace needs.
const STEPS_MAX: usize = 2048;

/// A CPU's share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuEnergy {
    /// While it ran tasks, fJ.
    pub running_fj: u128,
    /// While it was idle, fJ.
    pub idle_fj: u128,
    /// Time that it ran tasks at a known clock, ns.
    pub running_ns: u64,
    /// Time that it was idle and drew a power that is known, ns.
    pub idle_ns: u64,
    /// Running time whose clock is not known, ns.
    pub unknown_ns: u64,
    /// Idle time whose power hangs on a clock that is not known, ns.
    pub idle_unknown_ns: u64,
    /// What both cost at the clocks at which they cost least and most, fJ.
    pub unknown_fj: (u128, u128),
}

impl CpuEnergy {
    /// Whether anything of it is known.
    pub fn is_known(&self) -> bool {
        self.running_ns + self.idle_ns > 0
    }
}

/// A cluster's share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterEnergy {
    /// Its name.
    pub name: String,
    /// Of its CPUs, fJ.
    pub cpus_fj: u128,
    /// Of what they share, fJ.
    pub shared_fj: u128,
    /// Time of that, ns.
    pub shared_ns: u64,
    /// Time for which what they share is not counted, because its clock is not known, or whether a CPU keeps it awake, ns.
    pub unknown_ns: u64,
    /// What that costs at the clocks at which it costs least and most, fJ.
    pub unknown_fj: (u128, u128),
}

/// A task's share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskEnergy {
    /// Of the CPUs while it ran, fJ.
    pub cpu_fj: u128,
    /// Of what the CPUs of a cluster share, fJ.
    pub shared_fj: u128,
    /// Time that it ran at a known clock, ns.
    pub running_ns: u64,
    /// Running time whose clock is not known, ns.
    pub unknown_ns: u64,
}

impl TaskEnergy {
    /// Whether anything of it is known: what ran at no known clock has no energy that is known.
    pub fn is_known(&self) -> bool {
        self.cpu_fj + self.shared_fj > 0 || self.unknown_ns == 0
    }
}

/// A meter of the machine itself, as the trace has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// Its name.
    pub name: String,
    /// First and last reading: time, ns, and energy, uJ.
    pub first: (u64, u64),
    /// The last one.
    pub last: (u64, u64),
}

/// Power over time: energy of each cluster in steps of equal length; the last one ends with what counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps {
    /// When the first begins, ns.
    pub start_ns: u64,
    /// How long each is but the last one, ns.
    pub step_ns: u64,
    /// When the last one ends, ns: with the last of what counts.
    pub end_ns: u64,
    /// By cluster: energy of each step, fJ.
    pub energy_fj: Vec<Vec<u128>>,
}

impl Steps {
    /// Adds `power_uw` from `from_ns` to `to_ns`.
    fn add(&mut self, cluster: usize, from_ns: u64, to_ns: u64, power_uw: u64) {
        while to_ns - self.start_ns > self.step_ns.saturating_mul(STEPS_MAX as u64) {
            // Twice as long steps, half as many.
            self.step_ns *= 2;
            for values in &mut self.energy_fj {
                *values = values.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        self.end_ns = self.end_ns.max(to_ns);
        let values = &mut self.energy_fj[cluster];
        let mut at = from_ns;
        while at < to_ns {
            let nth = (at - self.start_ns) / self.step_ns;
            let end = to_ns.min(self.start_ns + (nth + 1) * self.step_ns);
            if values.len() <= nth as usize {
                values.resize(nth as usize + 1, 0);
            }
            values[nth as usize] += u128::from(power_uw) * u128::from(end - at);
            at = end;
        }
    }

    /// From when to when the step `nth` is, ns.
    fn span(&self, nth: u64) -> (u64, u64) {
        let start = self.start_ns + nth * self.step_ns;
        (start, (start + self.step_ns).min(self.end_ns).max(start))
    }

    /// Mean power of a cluster in each step, uW.
    pub fn power_uw(&self, cluster: usize) -> Vec<f64> {
        let mean = |(nth, &fj): (u64, &u128)| {
            let (start, end) = self.span(nth);
            fj as f64 / (end - start).max(1) as f64
        };
        (0u64..).zip(&self.energy_fj[cluster]).map(mean).collect()
    }

    /// Energy of all clusters between two times, fJ; steps that are partly inside count by their part.
    pub fn between_fj(&self, clusters: &[usize], from_ns: u64, to_ns: u64) -> u128 {
        let mut sum = 0;
        for &cluster in clusters {
            for (nth, &fj) in (0u64..).zip(&self.energy_fj[cluster]) {
                let (start, end) = self.span(nth);
                let inside = to_ns.min(end).saturating_sub(from_ns.max(start));
                sum += fj * u128::from(inside) / u128::from((end - start).max(1));
            }
        }
        sum
    }
}

/// What a trace cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceEnergy {
    /// From the first event to the last, of what counts, ns.
    pub window_ns: u64,
    /// Of all CPUs: time of which no event shows what they did; in no sum and no interval, ns.
    pub unseen_ns: u64,
    /// By CPU.
    pub cpus: Vec<CpuEnergy>,
    /// By cluster.
    pub clusters: Vec<ClusterEnergy>,
    /// By pid, or a thread's number ([`opplab_signals::decode::Threads`]).
    pub tasks: BTreeMap<i32, TaskEnergy>,
    /// Of idle CPUs, and of clusters while none of their CPUs ran a task, fJ.
    pub idle_fj: u128,
    /// The rest of the machine, fJ.
    pub floor_fj: u128,
    /// Meters in the trace.
    pub rails: Vec<Rail>,
    /// Power over time.
    pub steps: Steps,
    /// CPUs that the trace has and the machine has not.
    pub strangers: u32,
    /// The highest clock that is over a percent above what its CPU can have, kHz, after the CPU: it costs what that costs.
    pub too_fast: Option<(u32, u32)>,
    /// Clocks that are no operating points of a machine that runs at no others, kHz, by cluster: they cost what the next higher
    /// one does.
    pub no_opps: Vec<BTreeSet<u32>>,
    /// No event gives an idle state, and idle CPUs cost something.
    pub no_states: bool,
    /// What a recorded kernel's idle states were taken for, where the snapshot does not name them.
    pub states_note: Option<String>,
}

impl TraceEnergy {
    /// Everything, fJ: clusters and the floor.
    pub fn total_fj(&self) -> u128 {
        self.clusters.iter().map(|cluster| cluster.cpus_fj + cluster.shared_fj).sum::<u128>() + self.floor_fj
    }

    /// Whether anything of a cluster is known.
    pub fn is_known(&self, cluster: &ClusterEnergy, described: &Cluster) -> bool {
        cluster.shared_ns > 0 || described.cpus.iter().any(|&cpu| self.cpus[cpu as usize].is_known())
    }

    /// The total if what hangs on unknown clocks cost the least, or the most, fJ.
    pub fn interval_fj(&self) -> (u128, u128) {
        let unknown =
            self.cpus.iter().map(|cpu| cpu.unknown_fj).chain(self.clusters.iter().map(|cluster| cluster.unknown_fj));
        unknown.fold((self.total_fj(), self.total_fj()), |(low, high), (more, most)| (low + more, high + most))
    }

    /// The clusters whose supply a rail is by its name: all those of `CPU`, one of `CPUCL1`, `cpu1`.
    pub fn clusters_of(&self, rail: &str) -> Vec<usize> {
        let name = rail.to_ascii_lowercase();
        let all: Vec<usize> = (0..self.clusters.len()).collect();
        if let Some(found) = all.iter().find(|&&nth| {
            let cluster = self.clusters[nth].name.to_ascii_lowercase();
            !cluster.is_empty() && name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == cluster)
        }) {
            return vec![*found];
        }
        let Some(at) = name.find("cpu") else { return Vec::new() };
        let rest = &name[at + 3..];
        let digits: String = rest.strip_prefix("cl").unwrap_or(rest).chars().take_while(char::is_ascii_digit).collect();
        match digits.parse::<usize>() {
            Ok(nth) if nth < self.clusters.len() => vec![nth],
            Ok(_) => Vec::new(),
            Err(_) if rest.is_empty() || rest.starts_with('_') => all,
            Err(_) => Vec::new(),
        }
    }
}

/// Adds up the energy of a trace, from its first event to its last, of which some cost nothing; feed it with events in order of time,
/// then call [`EnergyMeter::finish`].
pub struct EnergyMeter<'m> {
    sums: Integrator<'m>,
    /// When the last event was.
    end_ns: Option<u64>,
    rails: Vec<Rail>,
    strangers: u32,
    too_fast: Option<(u32, u32)>,
    highest_khz: Vec<u32>,
    no_opps: Vec<BTreeSet<u32>>,
    /// What counts, up to but not including its end.
    window: (u64, u64),
    states: IdleStates,
    /// An idle state was entered, and events of simulated runs are there.
    has: (bool, bool),
}

impl<'m> EnergyMeter<'m> {
    /// Starts with nothing known but the machine.
    pub fn new(machine: &'m Machine) -> Self {
        Self::within(machine, (0, u64::MAX))
    }

    /// Counts from the start of `window` up to its end; feed it with all events: what CPUs and clusters do inside follows from those
    /// outside, too.
    pub fn within(machine: &'m Machine, window: (u64, u64)) -> Self {
        let highest_khz = (0..machine.nr_cpus() as u32).map(|cpu| machine.cluster_of(cpu).highest_khz()).collect();
        Self {
            sums: Integrator::new(machine, window),
            end_ns: None,
            rails: Vec::new(),
            strangers: 0,
            too_fast: None,
            highest_khz,
            no_opps: vec![BTreeSet::new(); machine.clusters.len()],
            window,
            states: IdleStates::default(),
            has: (false, false),
        }
    }

    /// The recording's idle states are `states`.
    pub fn with_idle_states(self, states: IdleStates) -> Self {
        Self { states, ..self }
    }

    fn known(&mut self, cpu: u32) -> bool {
        let known = (cpu as usize) < self.sums.nr_cpus();
        if !known {
            self.strangers = self.strangers.max(cpu.saturating_add(1));
        }
        known
    }

    /// Counts up to the last event of the trace and gives the sums.
    pub fn finish(self) -> TraceEnergy {
        let sums = self.sums.finish(self.end_ns.unwrap_or(0));
        TraceEnergy {
            rails: self.rails,
            strangers: self.strangers,
            too_fast: self.too_fast,
            no_opps: self.no_opps,
            no_states: self.has == (false, false) && sums.idle_fj > 0,
            states_note: self.states.note().filter(|_| self.has == (true, false)),
            ..sums
        }
    }
}

impl SchedSink for EnergyMeter<'_> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        use SchedEvent as E;
        let now = event.time_ns;
        if self.end_ns.is_none() {
            self.sums.begin(now);
        }
        self.end_ns = self.end_ns.max(Some(now));
        match *what {
            E::Switch { prev, next, .. } if self.known(event.cpu) => {
                self.sums.switch(now, event.cpu, prev.pid, next.pid);
            }
            E::Frequency { cpu, khz } if self.known(cpu) => {
                let khz = Some(khz).filter(|&khz| khz > 0);
                let counted = khz.filter(|_| now < self.window.1);
                if let Some(khz) = counted.filter(|&khz| khz - khz / 100 > self.highest_khz[cpu as usize]) {
                    self.too_fast = self.too_fast.filter(|&(_, other)| other >= khz).or(Some((cpu, khz)));
                } else if let Some(khz) = counted.filter(|&khz| !self.sums.has_clock(cpu, khz)) {
                    self.no_opps[self.sums.cluster(cpu)].insert(khz);
                }
                self.sums.clock_becomes(now, cpu, khz);
            }
            E::Lost { cpu, .. } if self.known(cpu) => self.sums.lost(now, cpu),
            E::NotBefore { cpu, pid, since_ns } if self.known(cpu) => self.sums.not_before(cpu, pid, since_ns),
            E::Idle { cpu, state } if self.known(cpu) => {
                self.has.0 |= state.is_some();
                self.sums.idle(now, cpu, state.map(|state| self.states.number(cpu, state)));
            }
            E::IdleExit { cpu } => {
                self.has.1 = true;
                if self.known(cpu) {
                    self.sums.idle_exit(now, cpu);
                }
            }
            E::ClusterIdle { cluster, state } => self.sums.cluster_idle(now, cluster as usize, state),
            E::Rail { name, energy_uj } if (self.window.0..self.window.1).contains(&now) => {
                let name = String::from_utf8_lossy(name);
                let reading = (now, energy_uj);
                let rails = &mut self.rails;
                match rails.iter().position(|rail| rail.name == name) {
                    Some(known) => rails[known].last = reading,
                    None if rails.len() < 1000 => {
                        rails.push(Rail { name: name.into_owned(), first: reading, last: reading });
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use opplab_signals::decode::{Threads, decoded, decoded_threads};
    use opplab_trace::{ReadOptions, TraceFile};

    use super::*;

    /// Two CPUs, one cluster: 1 and 2 GHz, WFI and a deep state, shared logic, a floor.
    const MACHINE: &str = r#"
format = 1
name = "toy"
provenance = "made up"
invariance = "freq-change"
floor_uw = 7000

[[driver]]
name = "scmi"
transition_latency_us = 100
fast_switch = true
switch_us = 100
dvfs_possible_from_any_cpu = true
freq_table = true

[costs]
context_switch_ns = 2000
wakeup_ns = 1000
ipi_ns = 1000
tick_ns = 2000
sugov_work_us = 20

[[cluster]]
name = "little"
cpus = "0-1"
capacity = 1024
policy = "shared"
opp = [
    { khz = 1000000, mv = 800, uw = 100000, cluster_uw = 40000 },
    { khz = 2000000, mv = 900, uw = 300000, cluster_uw = 60000 },
]
idle = [
    { name = "WFI", entry_latency_us = 1, exit_latency_us = 1, target_residency_us = 1, uw = 10000 },
    { name = "off", entry_latency_us = 10, exit_latency_us = 10, target_residency_us = 100, uw = 1000 },
]
cluster_idle = [{ name = "cluster-off", uw = 2000 }]
"#;

    fn energy_of(text: &str, machine: &Machine) -> TraceEnergy {
        let options = ReadOptions::default();
        let file = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).expect("text");
        let mut meter = EnergyMeter::new(machine);
        file.stream(&options, &mut decoded(&mut meter)).expect("events");
        meter.finish()
    }

    fn switch(cpu: u32, us: u32, prev: u32, next: u32) -> String {
        format!(
            "x-0 [{cpu:03}] 0.{us:06}: sched_switch: prev_comm=p{prev} prev_pid={prev} prev_prio=120 prev_state=S ==> \
             next_comm=p{next} next_pid={next} next_prio=120\n"
        )
    }

    #[test]
    fn the_last_step_ends_with_the_trace() {
        let mut steps = Steps { step_ns: 1_000, energy_fj: vec![Vec::new()], ..Steps::default() };
        steps.add(0, 0, 2_500, 3);
        assert_eq!(steps.power_uw(0), [3.0; 3]);
        assert_eq!(steps.between_fj(&[0], 0, 2_500), 3 * 2_500);
        assert_eq!(steps.between_fj(&[0], 2_250, 9_000), 3 * 250);
    }

    #[test]
    fn the_parts_are_the_total() {
        let machine = toy();
        let text = [
            "x-0 [000] 0.000000: cpu_frequency: state=1000000 cpu_id=0\n".to_owned(),
            "x-0 [000] 0.000000: cpu_idle: state=1 cpu_id=1\n".to_owned(),
            switch(0, 0, 0, 7),
            // 100 us: 7 alone at 1 GHz.
            "x-0 [001] 0.000100: cpu_idle: state=4294967295 cpu_id=1\n".to_owned(),
            switch(1, 100, 0, 8),
            // 100 us: 7 and 8 at 1 GHz.
            "x-0 [000] 0.000200: cpu_frequency: state=2000000 cpu_id=0\n".to_owned(),
            // 100 us: both at 2 GHz.
            switch(0, 300, 7, 0),
            switch(1, 300, 8, 0),
            "x-0 [000] 0.000300: cpu_idle: state=1 cpu_id=0\n".to_owned(),
            "x-0 [001] 0.000300: cpu_idle: state=0 cpu_id=1\n".to_owned(),
            // 100 us: one off, one in WFI.
            "x-0 [001] 0.000400: cpu_idle: state=1 cpu_id=1\n".to_owned(),
            // 100 us: both off, and so the cluster.
            "x-0 [001] 0.000500: cpu_idle: state=4294967295 cpu_id=1\n".to_owned(),
        ];
        let energy = energy_of(&text.concat(), &machine);
        // mW x 100 us = 100 nJ, in fJ.
        let unit = 100_000_000u128;
        let task = |pid: i32| energy.tasks[&pid];
        assert_eq!((task(7).cpu_fj, task(7).shared_fj), ((100 + 100 + 300) * unit, (40 + 20 + 30) * unit));
        assert_eq!((task(8).cpu_fj, task(8).shared_fj), ((100 + 300) * unit, (20 + 30) * unit));
        // Exits from "off" take 10 us, in which the CPU draws as in WFI and the cluster is awake.
        let asleep = 90 * (1 + 1 + 2) + 10 * (1 + 10 + 60);
        assert_eq!(energy.idle_fj, (90 + 10 * 10 + 100 * (1 + 10 + 60) + asleep) * unit / 100);
        assert_eq!(energy.floor_fj, 7 * 5 * unit);
        let tasks: u128 = energy.tasks.values().map(|task| task.cpu_fj + task.shared_fj).sum();
        assert_eq!(tasks + energy.idle_fj + energy.floor_fj, energy.total_fj());
        let cpus: u128 = energy.cpus.iter().map(|cpu| cpu.running_fj + cpu.idle_fj).sum();
        assert_eq!(cpus, energy.clusters[0].cpus_fj);
        let steps: u128 = energy.steps.energy_fj[0].iter().sum();
        assert_eq!(steps, energy.total_fj() - energy.floor_fj);
        assert_eq!(energy.steps.between_fj(&[0], 0, 100_000), (100 * (100 + 40) + 90 + 10 * 10) * unit / 100);
        assert_eq!(energy.interval_fj(), (energy.total_fj(), energy.total_fj()));
    }

    /// Goal: what a CPU does once its task was seen elsewhere, and while it is offline, is in no sum, and named as a time.
    #[test]
    fn what_no_event_shows_is_unseen() {
        let machine = toy();
        let of = |text: &str| {
            let (options, mut meter) = (ReadOptions::default(), EnergyMeter::new(&machine));
            let file = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).expect("text");
            file.stream(&options, &mut decoded_threads(&EVENTS, &mut meter, &mut Threads::default())).expect("events");
            let energy = meter.finish();
            (energy.cpus[0].running_ns / 1_000, energy.cpus[0].idle_ns / 1_000, energy.unseen_ns / 1_000)
        };
        let clock = "x-0 [000] 0.000000: cpu_frequency: state=1000000 cpu_id=0\n".to_owned();
        let start = clock + &switch(0, 0, 0, 7) + &switch(1, 0, 8, 0);
        let end = switch(1, 100, 7, 0) + &switch(1, 500, 0, 9);
        // CPU 0: until 40, unknown; with a switch there from 300 on.
        assert_eq!(of(&(start.clone() + &switch(1, 40, 0, 7) + &end)), (40, 0, 460));
        let more = switch(1, 40, 0, 7) + &switch(1, 100, 7, 0) + &switch(0, 300, 6, 0) + &switch(1, 500, 0, 9);
        assert_eq!(of(&(start.clone() + &more)), (40, 200, 260));
        // It leaves CPU 0 first, but was on CPU 1 until 40.
        let first = switch(1, 0, 0, 7) + &switch(1, 40, 7, 0) + &switch(0, 60, 7, 0) + &switch(1, 100, 0, 9);
        assert_eq!(of(&first), (0, 40, 40));
        let clocked = "x-0 [000] 0.000000: cpu_frequency: state=1000000 cpu_id=0\n".to_owned() + &first;
        assert_eq!(of(&clocked), (20, 40, 40));
        let down = "x-5 [001] 0.000200: cpuhp_enter: cpu: 0000 target:   0 step:  84 (takedown_cpu)\n\
                    x-5 [001] 0.000210: cpuhp_exit:  cpu: 0000  state:   4 step:  84 ret: 0\n";
        assert_eq!(of(&(start + &switch(0, 50, 7, 0) + down + &switch(1, 500, 0, 9))), (50, 160, 290));
    }

    #[test]
    fn parts_of_a_trace_are_the_whole() {
        let machine = toy();
        let text = [
            "x-0 [000] 0.000000: cpu_frequency: state=1000000 cpu_id=0\n".to_owned(),
            switch(0, 0, 0, 7),
            "x-0 [001] 0.000010: cpu_idle: state=1 cpu_id=1\n".to_owned(),
            "x-0 [000] 0.000200: cpu_frequency: state=2000000 cpu_id=0\n".to_owned(),
            switch(0, 400, 7, 0),
            "x-0 [000] 0.000500: cpu_idle: state=1 cpu_id=0\n".to_owned(),
            "x-0 [001] 0.000600: cpu_idle: state=4294967295 cpu_id=1\n".to_owned(),
        ];
        let options = ReadOptions::default();
        let part = |until: u64, from_ns: u64| {
            let file = TraceFile::from_bytes(text.concat().into_bytes(), &options).expect("text");
            let mut meter = EnergyMeter::within(&machine, (from_ns, until));
            file.stream(&options, &mut decoded(&mut meter)).expect("events");
            meter.finish()
        };
        let whole = part(u64::MAX, 0);
        assert_eq!(whole.window_ns, 600_000);
        // Before CPU 1's first event, at events, between them, and in the exit from "off" that ends at 600 us.
        for cut_ns in [5_000, 200_000, 250_000, 400_000, 595_000, 600_000, 900_000] {
            let (before, after) = (part(cut_ns, 0), part(u64::MAX, cut_ns));
            assert_eq!(before.window_ns, cut_ns.min(600_000));
            assert_eq!(before.total_fj() + after.total_fj(), whole.total_fj(), "{cut_ns}");
            assert_eq!(before.window_ns + after.window_ns, whole.window_ns);
            assert_eq!(after.cpus[0].unknown_ns, 0);
        }
        // 100 us in which nothing happens: 7 runs at 2 GHz beside a CPU that is off.
        let between = part(350_000, 250_000);
        assert_eq!((between.total_fj(), between.window_ns), ((300 + 1 + 60 + 7) * 100_000_000, 100_000));
        assert_eq!((part(900_000, 700_000).total_fj(), part(900_000, 700_000).window_ns), (0, 0));
    }

    /// Goal: a trace is as long as from its first event to its last, whatever these are. Method: the floor's power over that time.
    #[test]
    fn events_of_any_kind_begin_and_end_a_trace() {
        let other = |us: u32| format!("x-0 [000] 0.{us:06}: softirq_raise: vec=1 [action=TIMER]\n");
        let text = other(0) + &switch(0, 100, 0, 7) + &switch(0, 200, 7, 0);
        let energy = energy_of(&(text + &other(500)), &toy());
        assert_eq!((energy.window_ns, energy.floor_fj), (500_000, 7_000 * 500_000));
        let options = ReadOptions::default();
        let file = TraceFile::from_bytes((other(0) + &other(500)).into_bytes(), &options).expect("text");
        let machine = toy();
        let mut meter = EnergyMeter::new(&machine);
        file.stream(&options, &mut decoded_threads(&EVENTS, &mut meter, &mut Threads::default())).expect("events");
        assert_eq!(meter.finish().window_ns, 500_000);
    }

    #[test]
    fn clocks_that_the_machine_does_not_have_are_noted() {
        let clock = |us: u32, khz: u32| format!("x-0 [000] 0.{us:06}: cpu_frequency: state={khz} cpu_id=0\n");
        let of = |clocks: &[u32]| {
            let text: String = clocks.iter().zip(0..).map(|(&khz, us)| clock(us, khz)).collect();
            energy_of(&text, &toy()).too_fast
        };
        assert_eq!(of(&[1_000_000, 2_001_000]), None, "a turbo clock is shown as one MHz more");
        assert_eq!(of(&[2_400_000, 2_600_000, 2_500_000]), Some((0, 2_600_000)));
    }

    #[test]
    fn idle_without_idle_states_is_noted_where_it_costs_something() {
        // In the shallowest state the CPUs draw nothing, but what they share stays awake.
        let mut machine = toy();
        machine.clusters[0].idle.iter_mut().for_each(|state| state.power_uw = 0);
        let clock = "x-0 [000] 0.000000: cpu_frequency: state=1000000 cpu_id=0\n";
        let runs = [clock.to_owned(), switch(0, 0, 0, 7), switch(0, 100, 7, 0), switch(0, 300, 0, 7)].concat();
        let energy = energy_of(&runs, &machine);
        // 200 us of 40 mW.
        assert_eq!((energy.idle_fj, energy.no_states), (40 * 200 * 1_000_000, true));
        let sleeps = "x-0 [000] 0.000100: cpu_idle: state=1 cpu_id=0\n";
        assert!(!energy_of(&(runs + sleeps), &machine).no_states);
    }

    #[test]
    fn a_clock_that_nobody_told_is_an_interval() {
        let machine = toy();
        let text = switch(0, 0, 0, 7) + &switch(0, 100, 7, 0);
        let energy = energy_of(&text, &machine);
        let unit = 100_000_000u128;
        assert_eq!((energy.cpus[0].unknown_ns, energy.tasks[&7].unknown_ns), (100_000, 100_000));
        assert_eq!(energy.total_fj(), 7 * unit);
        // The CPU's power and what its cluster shares, at the lowest and at the highest operating point.
        assert_eq!(energy.interval_fj(), ((7 + 100 + 40) * unit, (7 + 300 + 60) * unit));
    }

    #[test]
    fn rails_are_found_by_name() {
        let energy = energy_of(
            "x-0 [000] 1.0: power_rail: name=S4M_VDD_CPUCL0 energy_uj=5\nx-0 [000] 2.0: power_rail: name=S4M_VDD_CPUCL0 energy_uj=9\n",
            &toy(),
        );
        assert_eq!(energy.rails[0].last, (2_000_000_000, 9));
        assert_eq!(energy.clusters_of("S4M_VDD_CPUCL0"), [0]);
        assert_eq!(energy.clusters_of("power.cpu"), [0]);
        assert_eq!(energy.clusters_of("VDD_LITTLE"), [0]);
        assert!(energy.clusters_of("S2M_VDD_CPUCL2").is_empty());
        assert!(energy.clusters_of("VSYS_DISPLAY").is_empty());
    }

    fn toy() -> Machine {
        opplab_model::file::parse_machine("toy.toml", MACHINE).expect("a machine")
    }
}
