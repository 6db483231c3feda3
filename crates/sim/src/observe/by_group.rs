//! What each control group used, waited and missed, and its pressure. A group's figures hold those of the groups in it, as `cpu.stat` does.
//!
//! Energy is that of its tasks ([`TaskEnergy`]): a CPU's to the task that it runs, what a cluster's CPUs share in equal
//! parts to the tasks that run there; idle CPUs and the rest of the machine are nobody's. Groups without a parent, tasks
//! without a group and nobody's part together are the meters' sum. What a task did before it left a group stays with that group.

use opplab_model::event::{Event, QueueChange, Sink, Tee};
use opplab_model::groups::GroupSpec;
use opplab_model::latency::{Latencies, percentiles};

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
    /// Activations, as [`crate::Counters::activations`].
    pub activations: u64,
    /// Of these, those that were missed.
    pub missed_activations: u64,
    /// From wake-ups to running.
    pub latency_ns: Percentiles,
    /// From timers to the end of activations; of those that were due and had not ended, to that of the run.
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
    /// By task: the group that it is in, if it was queued.
    group_of: Vec<Option<u32>>,
    /// Of groups that tasks left: their energy, fJ.
    left: Vec<(Option<u32>, Used)>,
    /// The group of each wait and response, in their order.
    waits_of: [Vec<Option<u32>>; 2],
    /// Activations, and those that were missed, by group; the root first.
    activations: Vec<(u64, u64)>,
    psi: Option<Psi>,
}

fn place(group: Option<u32>) -> usize {
    group.map_or(0, |group| group as usize + 1)
}

impl ByGroup {
    /// Nothing has run yet.
    pub fn new(case: &Case) -> Self {
        let from_ns = case.workload.warmup_ns;
        let sink = Tee(TaskEnergy::from(&case.machine, from_ns), Latencies::from(from_ns));
        Self {
            sink,
            from_ns,
            group_of: Vec::new(),
            left: Vec::new(),
            waits_of: [Vec::new(), Vec::new()],
            activations: vec![(0, 0); case.workload.groups.len() + 1],
            psi: Psi::new(case),
        }
    }

    /// What the groups of the run that ended in `outcome` have to their names.
    pub fn finish(self, groups: &[GroupSpec], outcome: &Outcome) -> GroupShares {
        let Tee(energy, waits) = self.sink;
        let end_ns = outcome.wall_ns + outcome.warmup.wall_ns;
        let (used, nobody) = energy.finish(end_ns);
        let (machine, pressures) = self.psi.map(|psi| psi.finish(end_ns)).unzip();
        let pressure_of = |group: usize| pressures.as_ref().map(|all: &Vec<Pressure>| all[group]);
        let within = |mut at: Option<u32>, group: usize| loop {
            match at {
                Some(one) if one as usize == group => return true,
                Some(one) => at = groups[one as usize].parent,
                None => return false,
            }
        };
        let last = used.into_iter().enumerate();
        let last = last.map(|(task, used)| (outcome.task_groups.get(task).copied().flatten(), used));
        let mut own_fj = vec![0; groups.len() + 1];
        for (group, used) in self.left.into_iter().chain(last) {
            own_fj[place(group)] += used.total_fj();
        }
        let figures = (0..groups.len()).map(|group| {
            let those: Vec<usize> =
                (0..groups.len()).filter(|&one| within(Some(one as u32), group)).map(|one| one + 1).collect();
            let ended = those.iter().map(|&one| self.activations[one]);
            let (activations, missed_activations) =
                ended.fold((0, 0), |(all, missed), one| (all + one.0, missed + one.1));
            let of = |kind: usize| {
                let pairs = waits.waits()[kind].iter().zip(&self.waits_of[kind]);
                percentiles(pairs.filter(|(_, of)| within(**of, group)).map(|(&(_, wait_ns), _)| wait_ns).collect())
            };
            let (latency_ns, response_ns) = (of(0), of(1));
            let energy_fj = those.iter().map(|&one| own_fj[one]).sum();
            let pressure = pressure_of(group);
            GroupFigures { energy_fj, activations, missed_activations, latency_ns, response_ns, pressure }
        });
        let root_fj = own_fj[0];
        GroupShares { groups: figures.collect(), root_fj, nobody_fj: nobody.total_fj(), pressure: machine }
    }
}

impl ByGroup {
    fn group_of(&self, task: u32) -> Option<u32> {
        self.group_of.get(task as usize).copied().flatten()
    }

    /// Counts an activation.
    fn count(&mut self, task: u32, slack_ns: i64) {
        let group = self.group_of(task);
        let (all, missed) = &mut self.activations[place(group)];
        *all += 1;
        *missed += u64::from(slack_ns < 0);
    }

    /// Notes whose the last wait of each kind is.
    fn give_waits(&mut self) {
        for kind in [0, 1] {
            if let Some(&(task, _)) = self.sink.1.waits()[kind].get(self.waits_of[kind].len()) {
                let group = self.group_of(task);
                self.waits_of[kind].push(group);
            }
        }
    }
}

impl Sink for ByGroup {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::Activation { task, timed: true, slack_ns, .. } = *event
            && now_ns >= self.from_ns
        {
            self.count(task, slack_ns);
        }
        self.sink.event(now_ns, event);
        self.give_waits();
        if let Some(psi) = &mut self.psi {
            psi.event(now_ns, event);
        }
    }

    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange) {
        let before = self.group_of(task);
        if self.group_of.len() <= task as usize {
            self.group_of.resize(task as usize + 1, None);
        }
        if before != group && change != QueueChange::Out {
            let used = self.sink.0.take(now_ns, task);
            self.left.push((before, used));
            self.group_of[task as usize] = group;
        }
        if let Some(psi) = &mut self.psi {
            psi.queued(now_ns, cpu, task, group, change);
        }
    }

    fn timer_due(&mut self, task: u32, due_ns: u64) {
        self.sink.timer_due(task, due_ns);
    }

    fn activation_left(&mut self, now_ns: u64, task: u32, slack_ns: i64, response_ns: u64) {
        self.count(task, slack_ns);
        self.sink.activation_left(now_ns, task, slack_ns, response_ns);
        self.give_waits();
    }

    fn power(&mut self, now_ns: u64, metered: opplab_model::event::Metered, power_uw: u64) {
        self.sink.power(now_ns, metered, power_uw);
    }
}
