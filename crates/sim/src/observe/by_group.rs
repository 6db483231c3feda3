//! What each control group used, waited and missed, and its pressure. A group's figures hold those of the groups in it, as `cpu.stat` does.
//!
//! Energy is that of its tasks ([`TaskEnergy`]): a CPU's to the task that it runs, what a cluster's CPUs share in equal
//! parts to the tasks that run there; idle CPUs and the rest of the machine are nobody's. Groups without a parent, tasks
//! without a group and nobody's part together are the meters' sum.

use opplab_model::event::{Event, QueueChange, Sink, Tee};
use opplab_model::groups::GroupSpec;
use opplab_model::latency::Latencies;

use super::psi::{Pressure, Psi};
use super::task_energy::{TaskEnergy, Used};
use crate::{Case, Outcome};

/// Five percentiles of waits in ns, if there was a wait.
pub type Percentiles = Option<[u64; 5]>;

/// One group's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// Energy of its tasks, fJ.
    pub energy_fj: u128,
    /// Activations that ended.
    pub activations: u64,
    /// Of these, those that ended after the start of the next.
    pub missed_activations: u64,
    /// From wake-ups to running.
    pub latency_ns: Percentiles,
    /// From timers to the end of activations.
    pub response_ns: Percentiles,
    /// `cpu.pressure` at the end of the run, with sums of what is measured; `None`: the kernel has no PSI.
    pub pressure: Option<Pressure>,
}

/// The figures of all groups, and whose the other energy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupShares {
    /// By group of the workload.
    pub groups: Vec<GroupFigures>,
    /// Energy of tasks that are in the root group itself, fJ.
    pub root_fj: u128,
    /// Energy of idle CPUs and of clusters in which nothing runs, fJ.
    pub nobody_fj: u128,
    /// The same of the whole machine (`/proc/pressure/cpu`).
    pub pressure: Option<Pressure>,
}

/// Watches a run that has groups.
#[derive(Debug)]
pub struct ByGroup {
    sink: Tee<TaskEnergy, Latencies>,
    from_ns: u64,
    /// By task: activations, and those that were missed.
    activations: Vec<(u64, u64)>,
    psi: Option<Psi>,
}

impl ByGroup {
    /// Nothing has run yet.
    pub fn new(case: &Case) -> Self {
        let from_ns = case.workload.warmup_ns;
        let sink = Tee(TaskEnergy::from(&case.machine, from_ns), Latencies::from(from_ns));
        Self { sink, from_ns, activations: Vec::new(), psi: Psi::new(case) }
    }

    /// What the groups of the run that ended in `outcome` have to their names.
    pub fn finish(self, groups: &[GroupSpec], outcome: &Outcome) -> GroupShares {
        let Tee(energy, waits) = self.sink;
        let end_ns = outcome.wall_ns + outcome.warmup.wall_ns;
        let (used, nobody_fj) = energy.finish(end_ns);
        let (machine, pressures) = self.psi.map(|psi| psi.finish(end_ns)).unzip();
        let pressure_of = |group: usize| pressures.as_ref().map(|all: &Vec<Pressure>| all[group]);
        let own = |task: usize| outcome.task_groups.get(task).copied().flatten();
        let within = |mut at: Option<u32>, group: usize| loop {
            match at {
                Some(one) if one as usize == group => return true,
                Some(one) => at = groups[one as usize].parent,
                None => return false,
            }
        };
        let energy_of = |used: &[Used], of: &dyn Fn(usize) -> bool| {
            let those = used.iter().enumerate().filter(|(task, _)| of(*task));
            those.map(|(_, used)| used.cpu_fj + used.shared_fj).sum::<u128>()
        };
        let figures = (0..groups.len()).map(|group| {
            let of = |task: usize| within(own(task), group);
            let ended = self.activations.iter().enumerate().filter(|(task, _)| of(*task));
            let (activations, missed_activations) =
                ended.fold((0, 0), |(all, missed), (_, one)| (all + one.0, missed + one.1));
            let (latency_ns, response_ns) = waits.percentiles_of(|task| of(task as usize));
            let energy_fj = energy_of(&used, &of);
            let pressure = pressure_of(group);
            GroupFigures { energy_fj, activations, missed_activations, latency_ns, response_ns, pressure }
        });
        let root_fj = energy_of(&used, &|task| own(task).is_none());
        GroupShares { groups: figures.collect(), root_fj, nobody_fj, pressure: machine }
    }
}

impl Sink for ByGroup {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::Activation { task, slack_ns, .. } = *event
            && now_ns >= self.from_ns
        {
            let task = task as usize;
            if self.activations.len() <= task {
                self.activations.resize(task + 1, (0, 0));
            }
            let (all, missed) = &mut self.activations[task];
            *all += 1;
            *missed += u64::from(slack_ns < 0);
        }
        self.sink.event(now_ns, event);
        if let Some(psi) = &mut self.psi {
            psi.event(now_ns, event);
        }
    }

    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange) {
        if let Some(psi) = &mut self.psi {
            psi.queued(now_ns, cpu, task, group, change);
        }
    }

    fn power(&mut self, now_ns: u64, metered: opplab_model::event::Metered, power_uw: u64) {
        self.sink.power(now_ns, metered, power_uw);
    }
}
