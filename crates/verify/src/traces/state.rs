//! What the records have shown so far: tasks, run queues, CPUs.

use std::collections::{BTreeMap, BTreeSet};

use opplab_kernel::pelt::{HalfLife32, SchedAvg};
use opplab_kernel::sched::attach::CfsAvg;

use super::input::{Ev, Kind, Machine, Recording};

/// A scheduling entity: a task, or a group on a CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Task {
    /// Its thread id; meaningless for a group's entity.
    pub(super) pid: i64,
    /// Load weight at full resolution.
    pub(super) weight: u64,
    /// Its averages after the last record.
    pub(super) avg: SchedAvg,
    /// `load_avg` and `runnable_avg` were recorded (or computed) once.
    pub(super) averages_known: bool,
    /// It was queued at the last update.
    pub(super) on_rq: bool,
    /// Its `load_avg` if somebody set its policy or niceness since the last period ended, which no event shows: one for each
    /// time at which that may have been.
    pub(super) renewed: Vec<u64>,
    /// It is a group's entity.
    pub(super) group: bool,
    /// The queue that it was updated in last.
    pub(super) cfs: Option<u64>,
    /// The CPU of that queue.
    pub(super) cpu: usize,
}

/// A fair run queue: a CPU's root queue or a group's on a CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    /// Its averages after the last record.
    pub(super) avg: CfsAvg,
    /// The averages at the entry of the last update.
    pub(super) before_update: SchedAvg,
    /// Those were known.
    pub(super) before_known: bool,
    /// `load_avg` and `runnable_avg` were recorded (or computed) once.
    pub(super) averages_known: bool,
    /// `util_est` was recorded once.
    pub(super) util_est_known: bool,
    /// Queued tasks at the last update.
    pub(super) h_nr_queued: u64,
    /// Those whose dequeue was delayed.
    pub(super) h_nr_delayed: u64,
}

/// What is under way on a CPU that executes, between two records that belong together.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    /// An update that crossed a period: its `pelt_*` record must follow.
    pub(super) pending: Option<Pending>,
    /// The CPU whose run queue's `util_est` was changed, the value before if it is known, and the new one.
    pub(super) util_est: Option<(usize, Option<u32>, u32)>,
    /// A task that leaves its CPU while it sleeps.
    pub(super) removing: Option<i64>,
    /// A child that was made but not woken yet.
    pub(super) forking: Option<i64>,
    /// The entity that was updated last.
    pub(super) last_se: Option<u64>,
    /// The task that is being woken.
    pub(super) waking: Option<i64>,
    /// The CPU that the waking task leaves.
    pub(super) left_cpu: Option<usize>,
    /// The task that was detached last.
    pub(super) detached: Option<i64>,
    /// Between entry and exit of select_task_rq_fair().
    pub(super) placing: bool,
}

/// An update whose result is to be recorded next.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// `upd_se`, `upd_cfs` or `upd_blk`.
    pub(super) from: Kind,
    /// Address of the entity or queue.
    pub(super) addr: u64,
    /// The state before.
    pub(super) before: SchedAvg,
    /// The time of the update, and what it needs to know.
    pub(super) facts: UpdateFacts,
}

/// The inputs of an update.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpdateFacts {
    /// PELT's now.
    pub(super) now: u64,
    /// Load weight at full resolution.
    pub(super) weight: u64,
    /// `on_rq`.
    pub(super) on_rq: bool,
    /// Runnable count.
    pub(super) runnable: u64,
    /// It (or one of its entities) runs.
    pub(super) running: bool,
}

/// The utilisation of the other classes on a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClassAvg {
    /// As after its last record.
    pub(super) avg: SchedAvg,
    /// A record was seen.
    pub(super) known: bool,
    /// The class's task ran only part of the time since that record.
    pub(super) mixed: bool,
}

/// A CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Cpu {
    /// The task that runs, 0 for the idle task; `None` until the first switch.
    pub(super) curr: Option<i64>,
    /// That task is of the real-time class.
    pub(super) curr_rt: bool,
    /// That task is of the deadline class.
    pub(super) curr_dl: bool,
    /// Runnable tasks, by the last `nr_running` record.
    pub(super) nr_running: Option<u64>,
    /// Real-time tasks that are queued or run.
    pub(super) rt_queued: Vec<i64>,
    /// `cpu_capacity` as recorded last.
    pub(super) capacity_of: Option<u64>,
    /// The real-time class.
    pub(super) rt: ClassAvg,
    /// The deadline class.
    pub(super) dl: ClassAvg,
    /// The capacity scale of the frequency, 0 to 1024.
    pub(super) freq_scale: Option<u64>,
    /// A lower bound of the performance as a record of `sugov_effective_cpu_perf()` or `bw_min` has it: the bandwidth of
    /// deadline tasks and servers.
    pub(super) bw_min: Option<u64>,
    /// The clamps of its run queue (`rq->uclamp[].value`) by the last record; `None`: a kernel or probes without them.
    pub(super) clamps: Option<(u64, u64)>,
    /// Context of execution.
    pub(super) context: Context,
}

/// Everything.
pub(super) struct State<'a> {
    /// The machine.
    pub(super) machine: &'a Machine,
    /// CPUs.
    pub(super) cpus: Vec<Cpu>,
    /// Entities by address.
    pub(super) tasks: BTreeMap<u64, Task>,
    /// Addresses of tasks' entities by thread id.
    pub(super) by_pid: BTreeMap<i64, u64>,
    /// Run queues by address.
    pub(super) queues: BTreeMap<u64, Queue>,
    /// The root queue of each CPU.
    pub(super) root: Vec<Option<u64>>,
    /// Queues that belong to a group.
    pub(super) group_queues: Vec<u64>,
    /// The weights of groups' entities as their updates show them, by address, with the times.
    group_weights: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Records of queues that changed because a group below them did, by CPU and time: the group's entity.
    propagated: BTreeMap<(usize, u64), u64>,
    /// The queue of a group's entity, by its last update.
    pub(super) queue_of_group: BTreeMap<u64, u64>,
    /// By CPU, when its running task changed its class: from the switch to it to the one away from it.
    class_changes: Vec<Vec<(u64, u64)>>,
    /// The weight that a new task shows at its first update.
    pub(super) first_weight: BTreeMap<i64, u64>,
    /// Tasks on their way to a new CPU.
    pub(super) migrating: BTreeMap<i64, usize>,
    /// The root domain's flag; `None` until it is known.
    pub(super) overutilized: Option<bool>,
    /// Tasks that were attached when they were made, before their first update: averages, CPU, queue.
    pub(super) new_tasks: BTreeMap<i64, (SchedAvg, usize, u64)>,
    /// Tasks whose birth was seen, until their first update.
    pub(super) newborn: BTreeSet<i64>,
    /// Tasks that joined a queue in a way that could not be followed, until their next update.
    pub(super) stale: BTreeSet<i64>,
    /// A task of the deadline class ran that has a bandwidth (the governor's threads have none).
    pub(super) deadline_tasks: bool,
    /// The recording holds `pelt_*` records.
    pub(super) has_pelt_events: bool,
}

impl<'a> State<'a> {
    /// Nothing is known yet but what a first look over the events shows about identities.
    pub(super) fn new(recording: &'a Recording) -> Self {
        let machine = &recording.machine;
        let mut group_queues = Vec::new();
        let mut group_entities = BTreeSet::new();
        let mut first_weight = BTreeMap::new();
        let mut group_weights: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for event in recording.events.iter().filter(|event| event.kind() == Kind::UpdSe) {
            match event.u("myq") {
                Some(myq) if myq != 0 => {
                    group_queues.push(myq);
                    group_entities.extend(event.u("se"));
                    if let (Some(se), Some(weight)) = (event.u("se"), event.u("w")) {
                        group_weights.entry(se).or_default().push((event.time_ns(), weight));
                    }
                }
                _ => {
                    if let (Some(pid), Some(weight)) = (event.get("pid"), event.u("w")) {
                        first_weight.entry(pid).or_insert(weight);
                    }
                }
            }
        }
        // fair.c:propagate_entity_load_avg(): the queue's record, at once followed by that of the group's entity in it.
        let mut propagated = BTreeMap::new();
        let mut last: Vec<Option<u64>> = vec![None; machine.n_cpus];
        for event in recording.events.iter().filter(|event| event.cpu() < machine.n_cpus) {
            let before = last[event.cpu()].replace(event.time_ns()).filter(|_| event.kind() == Kind::PeltSe);
            if let (Some(time_ns), Some(se)) = (before, event.u("se").filter(|se| group_entities.contains(se))) {
                propagated.insert((event.cpu(), time_ns), se);
            }
        }
        let mut class_changes = vec![Vec::new(); machine.n_cpus];
        let mut since: Vec<Option<(u64, i32)>> = vec![None; machine.n_cpus];
        let switches = recording.events.iter().filter(|event| event.kind() == Kind::SchedSwitch);
        for event in switches.filter(|event| event.cpu() < machine.n_cpus) {
            let (Some(prev), Some(next)) = (event.get("prev_prio"), event.get("next_prio")) else { continue };
            let began = since[event.cpu()].replace((event.time_ns(), next as i32));
            // 0 to 99 are real-time, below are deadline tasks.
            let class = |prio: i32| (prio >= 0, prio >= 100);
            if let Some((from_ns, _)) = began.filter(|&(_, prio)| class(prio) != class(prev as i32)) {
                class_changes[event.cpu()].push((from_ns, event.time_ns()));
            }
        }
        group_queues.sort_unstable();
        group_queues.dedup();
        Self {
            machine,
            cpus: vec![Cpu::default(); machine.n_cpus],
            tasks: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            queues: BTreeMap::new(),
            root: vec![None; machine.n_cpus],
            group_queues,
            group_weights,
            propagated,
            queue_of_group: BTreeMap::new(),
            class_changes,
            first_weight,
            migrating: BTreeMap::new(),
            overutilized: None,
            new_tasks: BTreeMap::new(),
            newborn: BTreeSet::new(),
            stale: BTreeSet::new(),
            deadline_tasks: false,
            has_pelt_events: recording.events.iter().any(|event| event.kind() == Kind::PeltCfs),
        }
    }

    /// Gives the groups' entities in the queue `addr` the weights that they have by then: after an update an entity gets its part of the
    /// group's shares (fair.c:update_cfs_group(), v6.12), which its next update shows. Not the one that is being updated.
    pub(super) fn reweight_groups(&mut self, addr: u64, time_ns: u64, updated: Option<u64>) {
        for (&se, weights) in self.group_weights.iter().filter(|(se, _)| Some(**se) != updated) {
            let next = weights.get(weights.partition_point(|&(at_ns, _)| at_ns <= time_ns));
            let Some(&(_, weight)) = next else { continue };
            let Some(task) = self.tasks.get_mut(&se).filter(|task| task.cfs == Some(addr)) else { continue };
            if task.weight != weight
                && let Some(queue) = self.queues.get_mut(&addr)
            {
                queue.avg.reweight::<HalfLife32>(&mut task.avg, task.weight, weight);
                task.weight = weight;
            }
        }
    }

    /// The group's entity whose change a record of the queue above shows; `None`: it shows something else.
    pub(super) fn propagated(&self, ev: &Ev<'_>) -> Option<u64> {
        self.propagated.get(&(ev.cpu(), ev.time_ns())).copied()
    }

    /// What a group's entity and the queue that it is in have once the group's utilisation and runnable time are carried to them; their
    /// loads are as before. `None`: some of the averages are not known.
    pub(super) fn propagate(&self, se: u64) -> Option<(SchedAvg, SchedAvg)> {
        let task = self.tasks.get(&se).filter(|task| task.averages_known)?;
        let known = |addr: u64| self.queues.get(&addr).filter(|queue| queue.averages_known).map(|queue| queue.avg);
        let (mut above, mut group) = (known(task.cfs?)?, known(*self.queue_of_group.get(&se)?)?);
        (group.propagate, group.prop_runnable_sum) = (true, 0);
        let mut avg = task.avg;
        above.propagate::<HalfLife32>(&mut avg, task.weight, &mut group, 0);
        Some((avg, above.avg))
    }

    /// Whether the task that runs on `cpu` has another class when it leaves than it came with.
    pub(super) fn changes_class(&self, cpu: usize, time_ns: u64) -> bool {
        let spans = self.class_changes.get(cpu).map_or(&[][..], Vec::as_slice);
        let after = spans.partition_point(|&(from_ns, _)| from_ns <= time_ns);
        after.checked_sub(1).is_some_and(|last| time_ns <= spans[last].1)
    }

    /// The root queue of a CPU, if it was seen.
    pub(super) fn root(&self, cpu: usize) -> Option<&Queue> {
        self.queues.get(&(*self.root.get(cpu)?)?)
    }

    /// The task of a thread id, if its entity was seen.
    pub(super) fn task(&self, pid: i64) -> Option<&Task> {
        self.tasks.get(self.by_pid.get(&pid)?)
    }
}
