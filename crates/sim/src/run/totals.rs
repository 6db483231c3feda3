//! What a run has measured: from an engine to an outcome.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;

use crate::ids::{CpuId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Doing, Life};
use crate::{Consumed, GroupStat, Outcome};

/// uW x ns in a uJ.
const FJ_PER_UJ: u128 = 1_000_000_000;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// What a task is called.
    pub(crate) fn task_name(&self, task: TaskId) -> String {
        let state = &self.tasks[task];
        match state.sugov {
            Some(policy) => {
                let policy = &self.policies[policy];
                if policy.kworker == Some(task) {
                    format!("kworker/{}:dbs", policy.cpus[0])
                } else {
                    format!("sugov:{}", policy.cpus[0])
                }
            }
            None => self.case.workload.tasks[state.spec as usize].name.clone(),
        }
    }

    /// Everything that was measured from the start of the run up to now.
    pub(crate) fn totals(&mut self) -> Outcome {
        let now = self.now;
        let mut outcome = self.outcome.clone();
        outcome.wall_ns = self.wall_ns();
        outcome.overutilized_ns += self.overutilized.lasts_ns(now);
        for cluster in &mut self.clusters {
            cluster.meter.advance(now);
            outcome.shared_energy_fj.push(cluster.meter.energy_fj());
            let mut asleep_ns = cluster.asleep_ns.clone();
            if let Some(state) = cluster.entered {
                asleep_ns[state] += now - cluster.entered_ns;
            }
            outcome.asleep_ns.push(asleep_ns);
            let all_idle = cluster.all_idle.unwrap_or_default();
            outcome.all_idle_ns.push(all_idle.ns + all_idle.since_ns.map_or(0, |since_ns| now - since_ns));
        }
        outcome.cluster_energy_fj.clone_from(&outcome.shared_energy_fj);
        for cpu in (0..self.cpus.len()).map(CpuId::of) {
            self.account_point(cpu);
            let idle = self.idle_now(cpu);
            outcome.first_idle_ns += self.first_idle_ns(cpu);
            let state = &mut self.cpus[cpu];
            state.meter.advance(now);
            outcome.cluster_energy_fj[state.cluster.index()] += state.meter.energy_fj();
            outcome.busy_ns_by_opp.push(state.at_points.busy_ns().to_vec());
            outcome.time_ns_by_opp.push(state.at_points.time_ns(state.opp, now));
            outcome.idle_ns_by_state.push(state.in_idle.ns().to_vec());
            if let Some((index, ns)) = idle {
                outcome.idle_ns_by_state[cpu.index()][index] += ns;
            }
        }
        // The CPUs' accounts brought these up to now.
        outcome.task_ns_by_cluster.clone_from(&self.outcome.task_ns_by_cluster);
        for (times, task) in outcome.task_ns_by_cluster.iter_mut().zip(&self.tasks) {
            times[task.cluster.index()] += task.cluster_ns;
        }
        outcome.groups = self.group_stats();
        outcome.work_done = self.outcome.work_done;
        outcome.background_work = self.outcome.background_work;
        outcome.floor_energy_fj = u128::from(self.case.machine.floor_uw) * u128::from(outcome.wall_ns);
        let consumed = self.consumers_fj();
        let consumers = self.case.machine.consumers.iter().zip(consumed);
        outcome.consumers = consumers
            .map(|(spec, energy_fj)| Consumed {
                name: spec.name.clone(),
                energy_fj,
                warmup_fj: 0,
                frame_fj: u128::from(spec.frame_uj) * FJ_PER_UJ,
            })
            .collect();
        outcome.points = self.hardware.clusters.iter().map(|cluster| cluster.points.clone()).collect();
        outcome.freq_changes = self.policies.iter().map(|policy| policy.changes).collect();
        outcome.work_left = self
            .tasks
            .iter()
            .map(|task| if let Doing::Work { left, .. } = task.doing { u128::from(left) } else { 0 })
            .sum();
        outcome
    }

    /// Energy of all clusters up to now.
    pub(crate) fn energy_fj(&mut self) -> u128 {
        let now = self.now;
        let clusters = self.clusters.iter_mut().map(|cluster| &mut cluster.meter);
        let meters = clusters.chain(self.cpus.iter_mut().map(|cpu| &mut cpu.meter));
        meters.map(|meter| meter.advance(now)).sum()
    }

    /// Energy of each consumer up to now.
    pub(crate) fn consumers_fj(&mut self) -> Vec<u128> {
        let mut consumed = vec![0; self.case.machine.consumers.len()];
        for budget in self.hardware.packages.iter_mut().filter_map(|package| package.budget.as_mut()) {
            for (index, energy_fj) in budget.consumers_fj(self.now) {
                consumed[index] = energy_fj;
            }
        }
        consumed
    }

    /// What each group's `cpu.stat` reports, without the time that tasks ran.
    fn group_stats(&self) -> Vec<GroupStat> {
        let stat = |group: GroupId| {
            let pool = &self.groups[group].bandwidth;
            GroupStat {
                usage_ns: 0,
                nr_periods: pool.nr_periods,
                nr_throttled: pool.nr_throttled,
                throttled_ns: pool.throttled_time_ns,
                nr_bursts: pool.nr_burst,
                burst_ns: pool.burst_time_ns,
            }
        };
        self.groups.ids().map(stat).collect()
    }

    /// The outcome of a run that has reached its end; `before` is what the warm-up had used.
    pub(crate) fn finish(mut self, before: &Outcome) -> Outcome {
        self.count_activations_left();
        let mut outcome = self.totals();
        self.set_overutilized(false);
        if self.case.workload.nr_main > 0 && self.nr_main_left == 0 {
            outcome.finished_ns = Some(outcome.wall_ns);
        }
        outcome.task_names = self.tasks.ids().map(|task| self.task_name(task)).collect();
        let is_own = |task| !self.tasks[task].is_background && self.tasks[task].sugov.is_none();
        outcome.not_own = self.tasks.ids().filter(|&task| !is_own(task)).map(|task| task.0).collect();
        outcome.task_groups = self.tasks.iter().map(|task| task.group.0.checked_sub(1)).collect();
        outcome.fingerprint = self.journal.fingerprint();
        let lives = |task: TaskId| self.tasks[task].life != Life::Dead;
        outcome.units_fp = self.counted.units(self.case.workload.warmup_ns, self.wall_ns(), lives);
        outcome.subtract(before);
        for (index, times) in outcome.task_ns_by_cluster.iter().enumerate() {
            let task = TaskId::of(index);
            let warmup_ns: u64 = before.task_ns_by_cluster.get(index).map_or(0, |times| times.iter().sum());
            let mut booked_ns = 0;
            let mut book = |mut group: GroupId, ran_ns: u64| {
                let ns = ran_ns.saturating_sub(warmup_ns + booked_ns);
                booked_ns += ns;
                while group != GroupId::ROOT {
                    outcome.groups[group.index() - 1].usage_ns += ns;
                    group = self.groups[group].parent;
                }
            };
            for &(_, group, ran_ns) in self.groups.left.iter().filter(|(of, ..)| *of == task) {
                book(group, ran_ns);
            }
            book(self.tasks[task].group, warmup_ns + times.iter().sum::<u64>());
        }
        outcome
    }
}
