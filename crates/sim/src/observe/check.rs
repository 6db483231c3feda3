//! The invariant sink: watches a run and reports what cannot be.
//!
//! During the run: time does not go back; a task runs on one CPU at a time and only while it lives; a CPU switches from
//! the task that it ran; idle states are entered and left in turn; utilisation stays within its scale. At the end:
//! residencies sum to wall time x CPUs, energy is what the residencies draw, work done + work left = work given.

use std::collections::BTreeMap;

use opplab_model::event::{Event, IDLE_TASK, Sink, TaskIdx};
use opplab_model::power::CpuActivity;

use crate::{Case, Outcome};

/// util_avg may pass 1024 by the rounding of LOAD_AVG_MAX at short half-lives (see crate `kernel`).
const UTIL_AVG_MAX: u32 = 1026;
/// Violations that are kept in words; more are only counted.
const KEPT: usize = 20;

/// Collects violations.
#[derive(Debug, Default)]
pub struct Check {
    last_ns: u64,
    curr: Vec<TaskIdx>,
    idle: Vec<i32>,
    running_on: BTreeMap<TaskIdx, u32>,
    violations: Vec<String>,
    nr_violations: u64,
    nr_switches: u64,
    nr_migrations: u64,
}

impl Check {
    /// A check of a run on `nr_cpus` CPUs.
    pub fn new(nr_cpus: usize) -> Self {
        Self { curr: vec![IDLE_TASK; nr_cpus], idle: vec![-1; nr_cpus], ..Self::default() }
    }

    fn violation(&mut self, now_ns: u64, what: impl FnOnce() -> String) {
        self.nr_violations += 1;
        if self.violations.len() < KEPT {
            self.violations.push(format!("at {now_ns} ns: {}", what()));
        }
    }

    /// Checks the outcome and gives all violations.
    ///
    /// # Errors
    /// The violations, in words.
    pub fn finish(mut self, case: &Case, outcome: &Outcome) -> Result<(), Vec<String>> {
        let end = outcome.wall_ns;
        let (nr_switches, nr_migrations) = (self.nr_switches, self.nr_migrations);
        let mut expect = |what: String, left: u128, right: u128| {
            if left != right {
                self.violation(end, || format!("{what}: {left} is not {right}"));
            }
        };
        let wall = u128::from(end);
        let sum = |values: &[u64]| values.iter().map(|&value| u128::from(value)).sum::<u128>();
        let mut busy = 0;
        for cpu in 0..case.machine.nr_cpus() {
            let busy_here = sum(&outcome.busy_ns_by_opp[cpu]);
            busy += busy_here;
            expect(format!("busy and idle time of CPU {cpu}"), busy_here + sum(&outcome.idle_ns_by_state[cpu]), wall);
            expect(format!("time at the OPPs of CPU {cpu}"), sum(&outcome.time_ns_by_opp[cpu]), wall);
        }
        let ran = outcome.task_ns_by_cluster.iter().map(|times| sum(times)).sum();
        expect(String::from("time of all tasks and of all CPUs"), ran, busy);
        expect(
            String::from("work done + work left, and work given"),
            outcome.work_done + outcome.work_left,
            outcome.work_given,
        );
        let before = outcome.warmup.counters;
        let (switches, migrations) = (outcome.switches + before.switches, outcome.migrations + before.migrations);
        expect(String::from("switches counted and seen"), switches.into(), nr_switches.into());
        expect(String::from("migrations counted and seen"), migrations.into(), nr_migrations.into());
        for (index, cluster) in case.machine.clusters.iter().enumerate() {
            let (mut cpus, mut varies) = (0, 0);
            let (factor_least, factor_most) = busy_factors(case, index);
            let has_sibling = cluster.cpus.first().is_some_and(|&cpu| case.machine.has_sibling(cpu));
            // The least and the most of an idle state at the clocks of the run.
            let ends = |activity: CpuActivity| {
                let points = || outcome.points[index].iter().map(|point| &point.power);
                let told_uw = |power| cluster.cpu_power_uw(power, activity);
                let least = points().map(|power| told_uw(power).min(case.machine.idle_most_uw(power, has_sibling)));
                (least.min().unwrap_or(0), points().map(told_uw).max().unwrap_or(0))
            };
            let (shallow_least, shallow_most) = ends(CpuActivity::Idle(0));
            let (first_least, first_most) =
                ends(if cluster.polls(0) { CpuActivity::Polling(0) } else { CpuActivity::Idle(0) });
            for &cpu in &cluster.cpus {
                let cpu = cpu as usize;
                for (opp, &ns) in outcome.points[index].iter().zip(&outcome.busy_ns_by_opp[cpu]) {
                    let busy = u128::from(opp.power.busy_uw) * u128::from(ns);
                    cpus += busy * factor_least / 1024;
                    varies += busy * factor_most.div_ceil(1024) - busy * factor_least / 1024;
                }
                let states = &outcome.idle_ns_by_state[cpu];
                for (state, &ns) in states.iter().enumerate().take(cluster.idle.len()).skip(1) {
                    let (least, most) = ends(CpuActivity::Idle(state));
                    cpus += u128::from(least) * u128::from(ns);
                    varies += u128::from(most - least) * u128::from(ns);
                }
                // Idle without any state, the way in and out, and the first state.
                let awake = states.last().map_or(0, |&ns| u128::from(ns));
                let first = states.first().map_or(0, |&ns| u128::from(ns));
                cpus += u128::from(shallow_least) * awake + u128::from(first_least) * first;
                varies +=
                    u128::from(shallow_most - shallow_least) * awake + u128::from(first_most - first_least) * first;
            }
            let shared = || {
                let awake = outcome.points[index].iter().map(|point| point.power.cluster_uw);
                let awake = awake.chain(outcome.points[index].iter().filter_map(|point| point.power.cluster_idle_uw));
                awake.chain(cluster.cluster_idle.iter().map(|state| state.power_uw)).chain(cluster.cluster_idle_uw)
            };
            let (least, most) = (shared().min().unwrap_or(0), shared().max().unwrap_or(0));
            let energy = outcome.cluster_energy_fj[index];
            let alone = cpus + varies;
            // Two busy threads of a core draw less than twice as much, by a rounding down each.
            if case.machine.smt_power < 1024 {
                cpus = cpus * (1024 + u128::from(case.machine.smt_power)) / 2048;
                cpus = cpus.saturating_sub(wall * cluster.cpus.len() as u128);
            }
            let (least, most) = (cpus + u128::from(least) * wall, alone + u128::from(most) * wall);
            if energy < least || energy > most {
                self.violation(end, || {
                    format!("energy of {}: {energy} fJ is not within {least}..{most}", cluster.name)
                });
            }
        }
        for (spec, got) in case.machine.consumers.iter().zip(&outcome.consumers) {
            let least = u128::from(spec.least_uw.min(spec.demand_uw)) * wall;
            let most = u128::from(spec.demand_uw) * wall;
            if got.energy_fj < least || got.energy_fj > most {
                self.violation(end, || {
                    format!("energy of {}: {} fJ is not within {least}..{most}", spec.name, got.energy_fj)
                });
            }
        }
        if self.nr_violations as usize > self.violations.len() {
            self.violations.push(format!("and {} more", self.nr_violations as usize - self.violations.len()));
        }
        if self.violations.is_empty() { Ok(()) } else { Err(self.violations) }
    }
}

/// The least and the most that a program draws of a busy CPU's power on a cluster, in 1/1024.
fn busy_factors(case: &Case, cluster: usize) -> (u128, u128) {
    let named = |name: &str| case.workload.tasks.iter().any(|task| task.class == name);
    let used = case.machine.program_classes.iter().filter(|class| named(&class.name));
    used.map(|class| u128::from(class.on[cluster].power))
        .fold((1024, 1024), |(least, most), power| (least.min(power), most.max(power)))
}

impl Sink for Check {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if now_ns < self.last_ns {
            let last = self.last_ns;
            self.violation(now_ns, || format!("time goes back from {last} ns"));
        }
        self.last_ns = now_ns;
        match *event {
            Event::SchedSwitch { cpu, prev, next, .. } => {
                self.nr_switches += 1;
                let curr = self.curr[cpu as usize];
                if curr != prev {
                    self.violation(now_ns, || format!("CPU {cpu} switches from task {prev}, but ran {curr}"));
                }
                if prev == next {
                    self.violation(now_ns, || format!("CPU {cpu} switches from task {prev} to itself"));
                }
                if curr != IDLE_TASK {
                    self.running_on.remove(&curr);
                }
                self.curr[cpu as usize] = next;
                if next != IDLE_TASK
                    && let Some(other) = self.running_on.insert(next, cpu)
                {
                    self.violation(now_ns, || format!("task {next} runs on CPU {other} and on CPU {cpu}"));
                }
                if next != IDLE_TASK && self.idle[cpu as usize] >= 0 {
                    self.violation(now_ns, || format!("CPU {cpu} runs task {next} in an idle state"));
                }
            }
            Event::SchedMigrateTask { task, orig_cpu, dest_cpu } => {
                self.nr_migrations += 1;
                if orig_cpu == dest_cpu {
                    self.violation(now_ns, || format!("task {task} migrates to CPU {dest_cpu}, where it is"));
                }
            }
            Event::CpuIdle { cpu, state } => {
                if (state >= 0) == (self.idle[cpu as usize] >= 0) {
                    self.violation(now_ns, || format!("CPU {cpu} enters or leaves idle twice"));
                }
                self.idle[cpu as usize] = state;
            }
            Event::PeltSe { cpu, task, util_avg, .. } if util_avg > UTIL_AVG_MAX => {
                self.violation(now_ns, || format!("util_avg of task {task} on CPU {cpu} is {util_avg}"));
            }
            _ => {}
        }
    }
}
