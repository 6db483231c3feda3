//! What is compared between two runs: sums of times and counts over a window of events.
//!
//! Frequencies are counted at the machine's own operating points: a frequency between two of them counts as the higher one, as
//! the hardware grants it. Where the driver has no table, any frequency may be asked for: then the range is cut in [`BINS`].
//!
//! Energy is that of the one integrator ([`crate::energy`]). Two runs are compared by what the recording has: where it has no idle
//! states, those of the other run do not count either ([`Told`]).

use std::collections::BTreeMap;

use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::machine::Machine;
use opplab_signals::waits::{Waits, nearest_rank};

use crate::beyond::Span;
use crate::energy::Integrator;
use crate::events::{Ev, Events, Left, What};

/// Time is counted from the first number up to the second, ns from the first event.
pub type Window = (u64, u64);

/// Equal parts of the range of a driver without a table.
pub const BINS: u32 = 10;

/// After so long what was before the trace is worth 1 % of a load-tracking signal (32 ms half-life).
const HISTORY_NS: u64 = 200_000_000;

/// When what is measured begins: what happened before the trace still counts in the signals of its first moments.
pub(crate) fn window_start_ns(duration_ns: u64) -> u64 {
    HISTORY_NS.min(duration_ns / 5)
}

/// A time, for people.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A cpufreq policy's share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyTimes {
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// From when on its clock is known, if that is within the window, ns: what follows is of the time from then on.
    pub from_ns: Option<u64>,
    /// Time during which its CPUs ran tasks before that, ns.
    pub unclocked_ns: u64,
    /// Upper ends of what is counted together, kHz.
    pub freq_khz: Vec<u32>,
    /// Time at each of them, busy or idle, ns.
    pub time_ns: Vec<u64>,
    /// Time during which a CPU of the policy ran a task at each of them, summed over CPUs, ns.
    pub busy_ns: Vec<u64>,
    /// Frequency times time, kHz ns.
    pub khz_ns: u128,
    /// Changes of frequency, between any two values.
    pub changes: u64,
}

/// A task's share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// Its name.
    pub name: String,
    /// Running time on each class of CPU, ns.
    pub class_ns: Vec<u64>,
    /// Times that it became runnable by a wake-up.
    pub wakeups: u64,
}

/// Where wake-ups put tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placements {
    /// On the CPU where the task slept.
    pub same_cpu: u64,
    /// On another CPU of the same class.
    pub same_class: u64,
    /// On a CPU of another class.
    pub other_class: u64,
}

/// Everything that is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Capacities of the classes of CPUs, ascending.
    pub classes: Vec<u32>,
    /// By cpufreq policy.
    pub policies: Vec<PolicyTimes>,
    /// By task; only tasks that ran.
    pub tasks: BTreeMap<TaskIdx, TaskTimes>,
    /// Of the tasks that count.
    pub placements: Placements,
    /// From wake-up to running, of the tasks that count, ascending, ns.
    pub latencies_ns: Vec<u64>,
    /// Context switches.
    pub switches: u64,
    /// Energy by cluster, fJ.
    pub energy_fj: Vec<u128>,
    /// Work that tasks did in a closed loop, in ns of the biggest CPU << 20; 0 for others, whose events do not show it.
    pub work_done: u128,
    /// Loops that ended with a slack below 0 or were due and did not end, and all loops with a timer that ended or were due.
    pub missed: (u64, u64),
    /// Of a closed loop: from when to when each task of its workload had recorded work, ns.
    pub spans: Vec<Span>,
}

/// Index of the lowest operating point that reaches `khz`; the highest if none does.
pub fn opp_of(freq_khz: &[u32], khz: u32) -> usize {
    freq_khz.partition_point(|&opp| opp < khz).min(freq_khz.len().saturating_sub(1))
}

impl PolicyTimes {
    /// The policy was at `khz` for `ns`.
    fn hold(&mut self, khz: u32, ns: u64) {
        self.time_ns[opp_of(&self.freq_khz, khz)] += ns;
        self.khz_ns += u128::from(khz) * u128::from(ns);
    }

    /// Time during which its CPUs ran tasks, summed over CPUs, also where its clock is not known, ns.
    pub fn all_busy_ns(&self) -> u64 {
        self.busy_ns.iter().sum::<u64>() + self.unclocked_ns
    }

    /// Work that its CPUs did while they ran tasks, by the speed of their cluster, in ns of the biggest CPU * 1024.
    pub(crate) fn work(&self, machine: &Machine) -> Option<u128> {
        let cluster = machine.clusters.iter().find(|cluster| cluster.cpus.contains(&self.cpus[0]))?;
        Some(self.busy_cycles() * u128::from(cluster.capacity) / u128::from(cluster.reference_khz().max(1)))
    }

    /// Cycles while its CPUs ran tasks, kHz ns.
    fn busy_cycles(&self) -> u128 {
        self.freq_khz.iter().zip(&self.busy_ns).map(|(&khz, &ns)| u128::from(khz) * u128::from(ns)).sum()
    }

    /// Mean frequency, kHz.
    pub fn mean_khz(&self) -> u64 {
        let time: u64 = self.time_ns.iter().sum();
        self.khz_ns.checked_div(time.into()).unwrap_or(0) as u64
    }
}

struct CpuState {
    policy: usize,
    class: usize,
    current: TaskIdx,
    since_ns: u64,
}

/// What a recording has of idle CPUs and clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    idle: bool,
    exits: bool,
    clusters: bool,
}

impl Told {
    /// What `events` have.
    pub fn of(events: &Events) -> Self {
        let has = |one: fn(&What) -> bool| events.list.iter().any(|ev| one(&ev.what));
        Self {
            idle: has(|what| matches!(what, What::Idle { .. })),
            exits: has(|what| matches!(what, What::IdleExit { .. })),
            clusters: has(|what| matches!(what, What::ClusterIdle { .. })),
        }
    }
}

/// The clocks of cpufreq policies before their first change.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clocks<'a> {
    /// The frequency, kHz.
    pub start_khz: &'a [u32],
    /// From when on it is that of the recording, ns; `None`: never, and the one that is assumed counts.
    pub known_from_ns: &'a [Option<u64>],
}

impl Clocks<'_> {
    /// When the clock of policy `index` becomes known within the window: its times and energy count from then on.
    fn late_ns(&self, index: usize, window: Window) -> Option<u64> {
        let from_ns = self.known_from_ns.get(index).copied().flatten();
        from_ns.filter(|from_ns| (window.0 + 1..window.1).contains(from_ns))
    }
}

/// From when on clocks are known where policies of equal CPUs may change places: all of them from one time on.
pub(crate) fn known_by_kind(machine: &Machine, known_from_ns: &[Option<u64>]) -> Vec<Option<u64>> {
    let kinds: Vec<Vec<u32>> =
        machine.policies().iter().map(|(cluster, cpus)| no_times(machine, *cluster, cpus).freq_khz).collect();
    let latest = |kind: &Vec<u32>| {
        kinds.iter().zip(known_from_ns).filter(|(other, _)| *other == kind).filter_map(|(_, from_ns)| *from_ns).max()
    };
    kinds.iter().zip(known_from_ns).map(|(kind, from_ns)| from_ns.and(latest(kind))).collect()
}

/// Counts what happens in `window`, of each policy from when on its clock is known; `counts` chooses whose wake-ups and latencies
/// count, `told` which idle states.
pub fn measure(
    events: &Events,
    machine: &Machine,
    window: Window,
    clocks: Clocks<'_>,
    told: Told,
    counts: impl Fn(TaskIdx) -> bool,
) -> Measured {
    let mut count = Count::new(events, machine, window, clocks);
    let energy_fj = energy(events, machine, window, clocks, told);
    let nr = machine.nr_cpus();
    for ev in &events.list {
        let inside = ev.time_ns >= window.0 && ev.time_ns < window.1;
        match ev.what {
            What::Switch { prev, left, next } if (ev.cpu as usize) < nr => {
                let latency = count.switch(ev, prev, left, next).filter(|_| inside && counts(next));
                count.measured.switches += u64::from(inside);
                if let Some(latency_ns) = latency {
                    count.woke(next, ev.cpu, latency_ns);
                }
                count.last_cpu.insert(prev, ev.cpu);
            }
            What::Waking { task } | What::Wakeup { task, .. } | What::WakeupNew { task, .. } => {
                count.waits.woken(task, ev.time_ns)
            }
            What::Frequency { cpu, freq_khz } if (cpu as usize) < nr => {
                count.frequency(ev.time_ns, cpu, freq_khz, inside)
            }
            // What was due and had not ended comes at the end of the window.
            What::Activation { task, slack_ns } if (inside || ev.time_ns == window.1) && counts(task) => {
                count.measured.missed.0 += u64::from(slack_ns < 0);
                count.measured.missed.1 += 1;
            }
            _ => {}
        }
    }
    Measured { energy_fj, ..count.finish() }
}

/// Counting in progress.
struct Count<'a> {
    events: &'a Events,
    window: Window,
    cpus: Vec<CpuState>,
    /// By policy: its frequency in kHz, and since when.
    frequency: Vec<(u32, u64)>,
    /// The CPU where each task last was.
    last_cpu: BTreeMap<TaskIdx, u32>,
    waits: Waits<TaskIdx>,
    measured: Measured,
}

impl<'a> Count<'a> {
    fn new(events: &'a Events, machine: &Machine, window: Window, clocks: Clocks<'_>) -> Self {
        let mut classes: Vec<u32> = machine.clusters.iter().map(|cluster| cluster.capacity).collect();
        classes.sort_unstable();
        classes.dedup();
        let policies = machine.policies();
        let state = |cpu: u32| CpuState {
            policy: policies.iter().position(|(_, cpus)| cpus.contains(&cpu)).unwrap_or(0),
            class: classes.partition_point(|&capacity| capacity < machine.cluster_of(cpu).capacity),
            current: first_task(events, cpu),
            since_ns: window.0,
        };
        let cpus = (0..machine.nr_cpus() as u32).map(state).collect();
        let lowest_khz = |cluster: u32| machine.clusters[cluster as usize].opps[0].khz;
        let khz = policies.iter().enumerate();
        let khz = khz.map(|(index, (cluster, _))| clocks.start_khz.get(index).copied().unwrap_or(lowest_khz(*cluster)));
        let times = |(index, (cluster, cpus)): (usize, &(u32, Vec<u32>))| PolicyTimes {
            from_ns: clocks.late_ns(index, window),
            ..no_times(machine, *cluster, cpus)
        };
        let measured = Measured {
            window_ns: window.1.saturating_sub(window.0),
            policies: policies.iter().enumerate().map(times).collect(),
            classes,
            ..Measured::default()
        };
        let frequency = khz.map(|khz| (khz, window.0)).collect();
        let mut waits = Waits::new(IDLE_TASK);
        (0..).zip(&cpus).for_each(|(cpu, state): (u32, &CpuState)| waits.runs(cpu, state.current));
        Self { events, window, cpus, frequency, last_cpu: BTreeMap::new(), waits, measured }
    }

    /// The time within the window that is nearest.
    fn within(&self, time_ns: u64) -> u64 {
        time_ns.clamp(self.window.0, self.window.1)
    }

    /// Counts the running task of a CPU up to `now`.
    fn settle(&mut self, cpu: usize, now: u64) {
        let state = &mut self.cpus[cpu];
        let since_ns = std::mem::replace(&mut state.since_ns, now);
        let ns = now.saturating_sub(since_ns);
        if state.current == IDLE_TASK || ns == 0 {
            return;
        }
        let khz = self.frequency[state.policy].0;
        let policy = &mut self.measured.policies[state.policy];
        let unclocked_ns = policy.from_ns.map_or(0, |from_ns| from_ns.saturating_sub(since_ns).min(ns));
        policy.unclocked_ns += unclocked_ns;
        policy.busy_ns[opp_of(&policy.freq_khz, khz)] += ns - unclocked_ns;
        let classes = self.measured.classes.len();
        let task = self.measured.tasks.entry(state.current).or_insert_with(|| TaskTimes {
            name: self.events.name(state.current).to_owned(),
            class_ns: vec![0; classes],
            wakeups: 0,
        });
        task.class_ns[state.class] += ns;
    }

    /// Counts the policy's frequency up to `now`.
    fn hold(&mut self, policy: usize, now: u64) {
        let (khz, since_ns) = self.frequency[policy];
        let times = &mut self.measured.policies[policy];
        times.hold(khz, now.saturating_sub(since_ns.max(times.from_ns.unwrap_or(0))));
    }

    /// A CPU changes tasks; how long `next` had waited since it was woken, if it was, ns.
    fn switch(&mut self, ev: &Ev, prev: TaskIdx, left: Left, next: TaskIdx) -> Option<u64> {
        let cpu = ev.cpu as usize;
        self.settle(cpu, self.within(ev.time_ns));
        self.cpus[cpu].current = next;
        let wait = self.waits.switch(ev.cpu, ev.time_ns, (prev, left == Left::Runnable), next);
        wait.filter(|&(_, woken)| woken).map(|(wait_ns, _)| wait_ns)
    }

    /// A woken task runs on `cpu`.
    fn woke(&mut self, task: TaskIdx, cpu: u32, latency_ns: u64) {
        self.measured.latencies_ns.push(latency_ns);
        if let Some(&slept) = self.last_cpu.get(&task).filter(|&&slept| (slept as usize) < self.cpus.len()) {
            let placements = &mut self.measured.placements;
            if slept == cpu {
                placements.same_cpu += 1;
            } else if self.cpus[slept as usize].class == self.cpus[cpu as usize].class {
                placements.same_class += 1;
            } else {
                placements.other_class += 1;
            }
        }
        if let Some(times) = self.measured.tasks.get_mut(&task) {
            times.wakeups += 1;
        }
    }

    /// The clock of the policy of `cpu` becomes `freq_khz`.
    fn frequency(&mut self, time_ns: u64, cpu: u32, freq_khz: u32, inside: bool) {
        let policy = self.cpus[cpu as usize].policy;
        if self.frequency[policy].0 == freq_khz {
            return;
        }
        let now = self.within(time_ns);
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].policy == policy {
                self.settle(cpu, now);
            }
        }
        self.hold(policy, now);
        // The event that shows the clock first is no change between two that are known.
        let times = &mut self.measured.policies[policy];
        times.changes += u64::from(inside && times.from_ns.is_none_or(|from_ns| time_ns > from_ns));
        self.frequency[policy] = (freq_khz, now);
    }

    fn finish(mut self) -> Measured {
        (0..self.cpus.len()).for_each(|cpu| self.settle(cpu, self.window.1));
        (0..self.frequency.len()).for_each(|policy| self.hold(policy, self.window.1));
        self.measured.latencies_ns.sort_unstable();
        self.measured
    }
}

/// A policy of which nothing was counted.
fn no_times(machine: &Machine, cluster: u32, cpus: &[u32]) -> PolicyTimes {
    let opps_khz: Vec<u32> = machine.clusters[cluster as usize].opps.iter().map(|opp| opp.khz).collect();
    let (low, high) = (opps_khz[0], opps_khz[opps_khz.len() - 1]);
    let freq_khz = if machine.cpufreq.freq_table {
        opps_khz
    } else {
        (0..=BINS).map(|step| low + (u64::from(high - low) * u64::from(step) / u64::from(BINS)) as u32).collect()
    };
    let zero = vec![0; freq_khz.len()];
    PolicyTimes { cpus: cpus.to_vec(), freq_khz, time_ns: zero.clone(), busy_ns: zero, ..PolicyTimes::default() }
}

/// Who runs on `cpu` before its first switch.
fn first_task(events: &Events, cpu: u32) -> TaskIdx {
    let first = events.list.iter().filter(|ev| ev.cpu == cpu).find_map(|ev| match ev.what {
        What::Switch { prev, .. } => Some(prev),
        _ => None,
    });
    first.unwrap_or(IDLE_TASK)
}

/// The CPUs that neither switch nor enter or leave an idle state in `events`: they count as idle, in their deepest states.
pub(crate) fn silent_cpus(events: &Events, machine: &Machine) -> Vec<u32> {
    let mut is_silent = vec![true; machine.nr_cpus()];
    let mut to_come = is_silent.len();
    for ev in &events.list {
        if to_come == 0 {
            break;
        }
        let cpu = match ev.what {
            What::Switch { .. } => ev.cpu,
            What::Idle { cpu, .. } => cpu,
            _ => continue,
        };
        if let Some(silent) = is_silent.get_mut(cpu as usize) {
            to_come -= usize::from(std::mem::replace(silent, false));
        }
    }
    (0..).zip(is_silent).filter(|&(_, silent)| silent).map(|(cpu, _)| cpu).collect()
}

/// Energy by cluster, fJ.
fn energy(events: &Events, machine: &Machine, window: Window, clocks: Clocks<'_>, told: Told) -> Vec<u128> {
    let mut sums = Integrator::new(machine, window);
    let nr = machine.nr_cpus() as u32;
    // The integrator's idle task is 0.
    let pid = |task: TaskIdx| if task == IDLE_TASK { 0 } else { (task as i32).saturating_add(1) };
    sums.begin(0);
    let policies = machine.policies();
    for ((_, cpus), &khz) in policies.iter().zip(clocks.start_khz) {
        sums.clock_becomes(0, cpus[0], Some(khz));
    }
    for (index, (_, cpus)) in policies.iter().enumerate() {
        if let Some(from_ns) = clocks.late_ns(index, window) {
            sums.count_from(from_ns, cpus);
        }
    }
    if told.idle {
        for cpu in silent_cpus(events, machine) {
            sums.idle(0, cpu, machine.cluster_of(cpu).idle.len().checked_sub(1));
        }
    }
    for ev in events.list.iter().take_while(|ev| ev.time_ns <= window.1) {
        let now = ev.time_ns;
        match ev.what {
            What::Switch { prev, next, .. } if ev.cpu < nr => sums.switch(now, ev.cpu, pid(prev), pid(next)),
            What::Frequency { cpu, freq_khz } if cpu < nr => sums.clock_becomes(now, cpu, Some(freq_khz)),
            What::Idle { cpu, state } if told.idle && cpu < nr => sums.idle(now, cpu, state),
            What::IdleExit { cpu } if told.exits && cpu < nr => sums.idle_exit(now, cpu),
            What::ClusterIdle { cluster, state } if told.clusters => sums.cluster_idle(now, cluster as usize, state),
            _ => {}
        }
    }
    let clusters = sums.finish(window.1.max(window.0)).clusters;
    clusters.iter().map(|cluster| cluster.cpus_fj + cluster.shared_fj).collect()
}

/// The mean of each number of `of`.
fn mean(of: impl Iterator<Item = u64>, nr: u64) -> u64 {
    u64::try_from(of.map(u128::from).sum::<u128>() / u128::from(nr)).unwrap_or(u64::MAX)
}

impl Measured {
    /// The mean of several runs of one workload on one machine. Of the latencies, which are as many as in a mean run, the distribution stays.
    ///
    /// # Panics
    /// Never, if there is a run.
    pub fn mean(runs: &[Self]) -> Self {
        let nr = runs.len() as u64;
        let of = |value: &dyn Fn(&Self) -> u64| mean(runs.iter().map(value), nr);
        let wide = |value: &dyn Fn(&Self) -> u128| runs.iter().map(value).sum::<u128>() / u128::from(nr);
        let list = |value: &dyn Fn(&Self) -> &[u64]| -> Vec<u64> {
            let length = runs.iter().map(|run| value(run).len()).max().unwrap_or(0);
            (0..length).map(|nth| of(&|run| value(run).get(nth).copied().unwrap_or(0))).collect()
        };
        // Which of several equal policies is the busier one is chance.
        let policy = |nth: usize| PolicyTimes {
            time_ns: list(&|run| &alike(run)[nth].time_ns),
            busy_ns: list(&|run| &alike(run)[nth].busy_ns),
            khz_ns: wide(&|run| alike(run)[nth].khz_ns),
            unclocked_ns: of(&|run| alike(run)[nth].unclocked_ns),
            changes: of(&|run| alike(run)[nth].changes),
            ..alike(&runs[0])[nth].clone()
        };
        let mut policies: Vec<PolicyTimes> = (0..runs[0].policies.len()).map(policy).collect();
        policies.sort_by_key(|policy| policy.cpus.first().copied());
        // Tasks have one number in all runs as long as they are born in one order; their names are sure.
        let called = |run: &Self, name: &str| run.tasks.values().find(|task| task.name == name).cloned();
        let mut tasks: BTreeMap<TaskIdx, TaskTimes> = BTreeMap::new();
        for (task, times) in runs.iter().flat_map(|run| &run.tasks) {
            if tasks.values().any(|known| known.name == times.name) {
                continue;
            }
            let of_task: Vec<TaskTimes> = runs.iter().map(|run| called(run, &times.name).unwrap_or_default()).collect();
            let class_ns = (0..times.class_ns.len())
                .map(|class| mean(of_task.iter().map(|task| task.class_ns.get(class).copied().unwrap_or(0)), nr))
                .collect();
            let wakeups = mean(of_task.iter().map(|task| task.wakeups), nr);
            tasks.insert(*task, TaskTimes { name: times.name.clone(), class_ns, wakeups });
        }
        let mut latencies_ns: Vec<u64> = runs.iter().flat_map(|run| &run.latencies_ns).copied().collect();
        latencies_ns.sort_unstable();
        Self {
            policies,
            tasks,
            placements: Placements {
                same_cpu: of(&|run| run.placements.same_cpu),
                same_class: of(&|run| run.placements.same_class),
                other_class: of(&|run| run.placements.other_class),
            },
            latencies_ns: latencies_ns.into_iter().skip(runs.len() / 2).step_by(runs.len()).collect(),
            switches: of(&|run| run.switches),
            energy_fj: (0..runs[0].energy_fj.len()).map(|cluster| wide(&|run| run.energy_fj[cluster])).collect(),
            work_done: wide(&|run| run.work_done),
            missed: (of(&|run| run.missed.0), of(&|run| run.missed.1)),
            ..runs[0].clone()
        }
    }

    /// Work of all policies ([`PolicyTimes::work`]): a cycle of a small CPU is less than one of a big CPU.
    pub(crate) fn work(&self, machine: &Machine) -> u128 {
        self.policies.iter().filter_map(|policy| policy.work(machine)).sum()
    }

    /// Energy of all clusters, fJ.
    pub fn total_energy_fj(&self) -> u128 {
        self.energy_fj.iter().sum()
    }

    /// The latency that `percent` of the wake-ups do not exceed, ns.
    pub fn latency_ns(&self, percent: usize) -> u64 {
        nearest_rank(&self.latencies_ns, percent).unwrap_or(0)
    }
}

/// The policies, those of one kind of CPU in the order of their busy times (then of the times that their clocks are known for, and
/// of their mean frequencies, which may all be the same): which of several equal CPUs a task finds idle first is chance.
pub fn alike(measured: &Measured) -> Vec<&PolicyTimes> {
    let mut policies: Vec<&PolicyTimes> = measured.policies.iter().collect();
    let mut start = 0;
    while start < policies.len() {
        let (kind, first) = (&policies[start].freq_khz, start);
        start += policies[start..].iter().take_while(|policy| policy.freq_khz == *kind).count();
        policies[first..start].sort_by_key(|policy| (policy.all_busy_ns(), policy.from_ns, policy.mean_khz()));
    }
    policies
}

/// Shares of `parts` in parts of 100 000; all 0 if there is nothing.
pub fn shares_per_100k(parts: &[u64]) -> Vec<u64> {
    let total: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    parts.iter().map(|&part| (u128::from(part) * 100_000).checked_div(total).unwrap_or(0) as u64).collect()
}

/// The greatest difference of two lists of shares, in parts of 100 000.
pub fn distance_per_100k(one: &[u64], other: &[u64]) -> u64 {
    let (one, other) = (shares_per_100k(one), shares_per_100k(other));
    one.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0)
}

/// How far a replay of the trace's own policy is from the trace, CPUs together, in parts of 100 000; `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Mean frequency of all policies.
    pub frequency: Option<u64>,
    /// Energy.
    pub energy: Option<u64>,
    /// Time that CPUs ran tasks.
    pub busy: Option<u64>,
    /// The latency that 95 % of the wake-ups do not exceed.
    pub latency_p95: Option<u64>,
}

/// Which of two self-checks a closed loop is of: that of CPUs apart, or that of CPUs that share the stream as the recorded ones did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// CPUs share the stream.
    pub shared: bool,
    /// How far the other one is from the trace.
    pub other: Whole,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: CPUs at one clock are not taken for each other. Method: three whose clocks differ by a start.
    #[test]
    fn equal_policies_are_told_apart_by_what_they_ran() {
        let policy = |cpu: u32, busy_ns: u64, khz: u64| PolicyTimes {
            cpus: vec![cpu],
            freq_khz: vec![100, 200],
            time_ns: vec![0, 1000],
            busy_ns: vec![0, busy_ns],
            khz_ns: u128::from(1000 * khz),
            ..PolicyTimes::default()
        };
        let of = |policies: [PolicyTimes; 3]| {
            let measured = Measured { policies: policies.into(), ..Measured::default() };
            alike(&measured).into_iter().map(|policy| policy.cpus[0]).collect::<Vec<_>>()
        };
        assert_eq!(of([policy(0, 900, 200), policy(1, 500, 180), policy(2, 0, 190)]), [2, 1, 0]);
        assert_eq!(of([policy(0, 700, 199), policy(1, 400, 200), policy(2, 0, 200)]), [2, 1, 0]);
        // Idle ones are of the same time in both columns of an open loop, whatever their clocks are in one.
        let late = |khz: u64| PolicyTimes { from_ns: Some(500), ..policy(1, 0, khz) };
        assert_eq!(of([policy(0, 0, 150), late(200), policy(2, 900, 200)]), [0, 1, 2]);
        assert_eq!(of([policy(0, 0, 150), late(100), policy(2, 900, 200)]), [0, 1, 2]);
    }

    /// Goal: means are means of ranks, not of names. Method: two runs of two equal policies that swap places.
    #[test]
    fn a_mean_run_has_the_mean_of_its_busier_policies() {
        let policy = |cpu: u32, low_ns: u64| PolicyTimes {
            cpus: vec![cpu],
            freq_khz: vec![100, 200],
            time_ns: vec![low_ns, 100 - low_ns],
            busy_ns: vec![0, 0],
            khz_ns: u128::from(100 * low_ns + 200 * (100 - low_ns)),
            ..PolicyTimes::default()
        };
        let run = |low_ns: [u64; 2], latencies_ns: [u64; 2], energy_fj: u128| Measured {
            window_ns: 100,
            policies: vec![policy(0, low_ns[0]), policy(1, low_ns[1])],
            latencies_ns: latencies_ns.to_vec(),
            energy_fj: vec![energy_fj],
            ..Measured::default()
        };
        let mean = Measured::mean(&[run([90, 10], [1, 5], 10), run([30, 80], [3, 9], 20)]);
        let low_ns: Vec<u64> = mean.policies.iter().map(|policy| policy.time_ns[0]).collect();
        assert_eq!(low_ns, [85, 20]);
        assert_eq!((mean.latencies_ns, mean.energy_fj, mean.window_ns), (vec![3, 9], vec![15], 100));
    }
}
