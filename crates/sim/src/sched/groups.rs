//! Task groups: what the engine keeps of them, and of the queue that each has on each CPU (kernel/sched/sched.h: `struct task_group`,
//! `struct cfs_rq`).
//!
//! A group's queue on a CPU has an entity in the queue above. The entities of groups are the first of the table of entities,
//! those of tasks follow, so that one queue holds both.

use std::ops::{Deref, DerefMut, Index, IndexMut};

use opplab_kernel::pelt::SchedAvg;
use opplab_kernel::sched::attach::CfsAvg;
use opplab_kernel::sched::cfs_bandwidth::{CfsBandwidth, QueueBandwidth};
use opplab_kernel::sched::cpumask::CpuMask;
use opplab_kernel::sched::entity::{FairPolicy, SchedEntity};
use opplab_kernel::sched::weight::{LoadWeight, scale_load};
use opplab_model::workload::Workload;

use crate::ids::{CpuId, CpuSetId, GroupId, IdVec, TaskId};
use crate::run::cpu::{BOOT_NS, Cpu};
use crate::run::cpu_sets::CpuSets;
use crate::sched::fair_rq::FairRq;

/// A group below the root.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) parent: GroupId,
    /// Its weight with its scale (`tg->shares`).
    pub(crate) shares: u64,
    pub(crate) idle: bool,
    /// The CPUs that it asks for, and those that its tasks may use; `None`: all.
    own_cpus: Option<CpuSetId>,
    cpus: Option<CpuSetId>,
    isolated: bool,
    /// Clamps of its tasks, with those of the groups above.
    pub(crate) uclamp_min: u16,
    pub(crate) uclamp_max: u16,
    /// Load of its queues as they reported it last (`tg->load_avg`).
    pub(crate) load_avg: i64,
    pub(crate) bandwidth: CfsBandwidth,
    /// When the period timer comes next, or came last.
    pub(crate) period_expires_ns: u64,
    /// CPUs where its queue is throttled, in the order of throttling.
    pub(crate) throttled: Vec<CpuId>,
}

impl Group {
    /// Moves the period timer on to the next point after `now`: that point, and how many periods it went
    /// (hrtimer_forward_now()).
    pub(crate) fn forward(&mut self, now: u64) -> (u64, u64) {
        let overrun = match now.checked_sub(self.period_expires_ns) {
            Some(past_ns) => past_ns / self.bandwidth.period_ns + 1,
            None => 0,
        };
        self.period_expires_ns += overrun * self.bandwidth.period_ns;
        (self.period_expires_ns, overrun)
    }
}

/// A group's queue on a CPU.
pub(crate) struct GroupQueue {
    pub(crate) fair: FairRq,
    pub(crate) cfs: CfsAvg,
    /// The averages of its entity in the queue above.
    pub(crate) sa: SchedAvg,
    /// How many tasks its entity stands for (`se->runnable_weight`).
    pub(crate) runnable: u64,
    pub(crate) bandwidth: QueueBandwidth,
    /// What of [`FairRq::exec_ns`] its quota was charged with.
    pub(crate) charged_ns: u64,
    /// It or so many groups above are throttled here.
    pub(crate) throttle_count: u32,
    /// Since when it counts as throttled, on the run queue's clock.
    pub(crate) throttled_clock: Option<u64>,
    /// Its PELT clock stands still since then, and stood still for so long before.
    pub(crate) throttled_clock_pelt: Option<u64>,
    pub(crate) throttled_clock_pelt_time: u64,
    /// Its tasks that have stopped, in that order (`throttled_limbo_list`, v6.18).
    pub(crate) limbo: Vec<TaskId>,
}

impl GroupQueue {
    /// Its PELT clock stops.
    pub(crate) fn stop_pelt(&mut self, clock_pelt: u64) {
        self.throttled_clock_pelt.get_or_insert(clock_pelt);
    }

    /// It goes on.
    pub(crate) fn resume_pelt(&mut self, clock_pelt: u64) {
        if let Some(since) = self.throttled_clock_pelt.take() {
            self.throttled_clock_pelt_time += clock_pelt - since;
        }
    }
}

/// All groups below the root, and their queues.
#[derive(Default)]
pub(crate) struct Groups {
    nr_cpus: u32,
    groups: Vec<Group>,
    queues: Vec<GroupQueue>,
    /// The sets that tasks have in groups with CPUs of their own: (wanted, group, what they get).
    sets: Vec<(CpuSetId, GroupId, CpuSetId)>,
    /// Where there are isolated partitions: the CPUs that are left to the root, and the last of the workload's sets.
    root_cpus: Option<(CpuSetId, CpuSetId)>,
    /// Tasks that left a group: which one, and how long they had run by then, ns.
    pub(crate) left: Vec<(TaskId, GroupId, u64)>,
}

impl Groups {
    /// The groups of `workload`; `queue` makes an empty queue, which has `first_ns` of its group's quota.
    pub(crate) fn new(
        workload: &Workload,
        nr_cpus: usize,
        cpu_sets: &mut CpuSets,
        mut offset_ns: impl FnMut(u64) -> u64,
        first_ns: i64,
        queue: impl Fn() -> FairRq,
    ) -> Self {
        let mut all = Self { nr_cpus: nr_cpus as u32, ..Self::default() };
        let isolated = workload.isolated_cpus();
        if !isolated.is_empty() {
            let left = (0..nr_cpus).filter(|&cpu| !isolated.contains(&(cpu as u32))).collect();
            let last = CpuSetId::of(workload.cpu_sets.len());
            all.root_cpus = Some((cpu_sets.add(left), last));
        }
        for spec in &workload.groups {
            let parent = spec.parent.map_or(GroupId::ROOT, |parent| GroupId(parent + 1));
            let cpus =
                all.cpus_of(cpu_sets, parent, spec.cpus.map(|own| CpuSetId::of_workload(Some(own))), spec.isolated);
            let above = (parent != GroupId::ROOT).then(|| &all[parent]);
            let (uclamp_min, uclamp_max) = spec.clamps_within(above.map(|above| (above.uclamp_min, above.uclamp_max)));
            let quota = spec.quota;
            let period_ns = quota.map_or(100_000_000, |quota| quota.period_ns);
            let bandwidth = CfsBandwidth::new(
                quota.map(|quota| quota.quota_ns),
                period_ns,
                quota.map_or(0, |quota| quota.burst_ns),
            );
            // The kernel's timers begin with a period's part that is drawn for each.
            let period_expires_ns = if quota.is_some() { offset_ns(period_ns) } else { 0 };
            all.groups.push(Group {
                parent,
                shares: scale_load(spec.shares.into()),
                idle: spec.idle,
                own_cpus: spec.cpus.map(|own| CpuSetId::of_workload(Some(own))),
                cpus,
                isolated: spec.isolated,
                uclamp_min,
                uclamp_max,
                load_avg: 0,
                bandwidth,
                period_expires_ns,
                throttled: Vec::new(),
            });
            let avg = SchedAvg { last_update_time: BOOT_NS, ..SchedAvg::default() };
            all.queues.extend((0..nr_cpus).map(|_| GroupQueue {
                fair: queue(),
                cfs: CfsAvg { avg, ..CfsAvg::default() },
                sa: avg,
                runnable: 0,
                bandwidth: QueueBandwidth { enabled: quota.is_some(), remaining_ns: first_ns, throttled: false },
                charged_ns: 0,
                throttle_count: 0,
                throttled_clock: None,
                throttled_clock_pelt: None,
                throttled_clock_pelt_time: 0,
                limbo: Vec::new(),
            }));
        }
        all
    }

    /// What a group below `parent` has of the CPUs that it asks for; `None`: all.
    fn cpus_of(
        &self,
        cpu_sets: &mut CpuSets,
        parent: GroupId,
        own: Option<CpuSetId>,
        isolated: bool,
    ) -> Option<CpuSetId> {
        let above = match parent {
            GroupId::ROOT => self.root_cpus.map(|(cpus, _)| cpus).filter(|_| !isolated),
            parent => self[parent].cpus,
        };
        match (above, own) {
            (above, None) => above,
            (None, Some(own)) => Some(own),
            (Some(above), Some(own)) => Some(intersection(cpu_sets, own, above).unwrap_or(above)),
        }
    }

    /// A group asks for other CPUs: those below it have what it leaves them (kernel/cgroup/cpuset.c:update_cpumasks_hier(), v6.12).
    pub(crate) fn set_cpus(&mut self, cpu_sets: &mut CpuSets, group: GroupId, own: Option<CpuSetId>) {
        self[group].own_cpus = own;
        for below in self.ids().skip_while(|below| below.0 < group.0) {
            let Group { parent, own_cpus, isolated, .. } = self[below];
            self[below].cpus = self.cpus_of(cpu_sets, parent, own_cpus, isolated);
        }
        self.sets.clear();
    }

    /// Whether there is any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The groups; a group above comes before those in it.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = GroupId> + use<> {
        (1..=self.groups.len() as u32).map(GroupId)
    }

    /// The entities' table, with those of the groups.
    pub(crate) fn entities(&self) -> Entities {
        let of_group = |group: &Group| {
            let policy = if group.idle { FairPolicy::Idle } else { FairPolicy::Normal };
            SchedEntity { is_group: true, ..SchedEntity::new(LoadWeight::new(group.shares), policy) }
        };
        let all: Vec<SchedEntity> =
            self.groups.iter().flat_map(|group| (0..self.nr_cpus).map(move |_| of_group(group))).collect();
        Entities { nr_groups: all.len() as u32, all }
    }

    /// The number of the entity of a group's queue on `cpu`; `None`: the root's has none.
    #[inline]
    pub(crate) fn entity(&self, group: GroupId, cpu: CpuId) -> Option<u32> {
        (group != GroupId::ROOT).then(|| (group.0 - 1) * self.nr_cpus + cpu.0)
    }

    /// The group whose queue the entity stands for; only for those of groups.
    #[inline]
    pub(crate) fn of_entity(&self, entity: u32) -> GroupId {
        GroupId(entity / self.nr_cpus + 1)
    }

    #[inline]
    pub(crate) fn queue(&self, group: GroupId, cpu: CpuId) -> &GroupQueue {
        &self.queues[((group.0 - 1) * self.nr_cpus + cpu.0) as usize]
    }

    #[inline]
    pub(crate) fn queue_mut(&mut self, group: GroupId, cpu: CpuId) -> &mut GroupQueue {
        &mut self.queues[((group.0 - 1) * self.nr_cpus + cpu.0) as usize]
    }

    /// The group and its queue on `cpu`.
    pub(crate) fn both_mut(&mut self, group: GroupId, cpu: CpuId) -> (&mut Group, &mut GroupQueue) {
        let index = (group.0 - 1) as usize;
        (&mut self.groups[index], &mut self.queues[index * self.nr_cpus as usize + cpu.index()])
    }

    /// The queue of `group` on `cpu` and the one that its entity is in, if that is a group's.
    pub(crate) fn with_above(&mut self, group: GroupId, cpu: CpuId) -> (&mut GroupQueue, Option<&mut GroupQueue>) {
        let parent = self[group].parent;
        let index = ((group.0 - 1) * self.nr_cpus + cpu.0) as usize;
        let (above, own) = self.queues.split_at_mut(index);
        let above = self_index(parent, self.nr_cpus, cpu).map(|index| &mut above[index]);
        (&mut own[0], above)
    }

    /// Whether the queue of `group` itself is throttled on `cpu` (`cfs_rq_throttled()`).
    #[inline]
    pub(crate) fn is_throttled(&self, group: GroupId, cpu: CpuId) -> bool {
        group != GroupId::ROOT && self.queue(group, cpu).bandwidth.throttled
    }

    /// Whether it or one above is (`throttled_hierarchy()`).
    #[inline]
    pub(crate) fn in_throttled(&self, group: GroupId, cpu: CpuId) -> bool {
        group != GroupId::ROOT && self.queue(group, cpu).throttle_count > 0
    }

    /// Whether `group` is `above` or below it.
    pub(crate) fn is_within(&self, mut group: GroupId, above: GroupId) -> bool {
        while group.0 > above.0 {
            group = self[group].parent;
        }
        group == above
    }

    /// The CPUs that a task of `group` gets that wants `set` (kernel/cgroup/cpuset.c: what is not in the group's is not given; if
    /// nothing is left, all that the group has).
    pub(crate) fn allowed(&mut self, cpu_sets: &mut CpuSets, set: CpuSetId, group: GroupId) -> CpuSetId {
        let own = match group {
            // Threads of the kernel stay where they are bound.
            GroupId::ROOT => self.root_cpus.filter(|&(_, last)| set <= last).map(|(cpus, _)| cpus),
            group => self[group].cpus,
        };
        let Some(own) = own else { return set };
        if let Some(&(.., known)) = self.sets.iter().find(|&&(wanted, of, _)| (wanted, of) == (set, group)) {
            return known;
        }
        let gets = intersection(cpu_sets, set, own).unwrap_or(own);
        self.sets.push((set, group, gets));
        gets
    }
}

fn self_index(group: GroupId, nr_cpus: u32, cpu: CpuId) -> Option<usize> {
    (group != GroupId::ROOT).then(|| ((group.0 - 1) * nr_cpus + cpu.0) as usize)
}

/// The CPUs that are in both sets; `None`: no CPU is.
fn intersection(cpu_sets: &mut CpuSets, one: CpuSetId, other: CpuSetId) -> Option<CpuSetId> {
    let cpus: CpuMask = cpu_sets.cpus(one).iter().filter(|&cpu| cpu_sets.cpus(other).contains(cpu)).collect();
    (cpus.as_set().weight() > 0).then(|| cpu_sets.add(cpus))
}

impl Index<GroupId> for Groups {
    type Output = Group;

    #[inline]
    fn index(&self, group: GroupId) -> &Group {
        &self.groups[group.index() - 1]
    }
}

impl IndexMut<GroupId> for Groups {
    #[inline]
    fn index_mut(&mut self, group: GroupId) -> &mut Group {
        &mut self.groups[group.index() - 1]
    }
}

/// The queue of `group` on `cpu`: the CPU's own for the root.
#[inline]
pub(crate) fn fair_of<'e>(
    cpus: &'e mut IdVec<CpuId, Cpu>,
    groups: &'e mut Groups,
    group: GroupId,
    cpu: CpuId,
) -> &'e mut FairRq {
    if group == GroupId::ROOT { &mut cpus[cpu].fair } else { &mut groups.queue_mut(group, cpu).fair }
}

/// Its averages.
#[inline]
pub(crate) fn cfs_of<'e>(
    cpus: &'e mut IdVec<CpuId, Cpu>,
    groups: &'e mut Groups,
    group: GroupId,
    cpu: CpuId,
) -> &'e mut CfsAvg {
    if group == GroupId::ROOT { &mut cpus[cpu].cfs } else { &mut groups.queue_mut(group, cpu).cfs }
}

/// The fair class's view of groups' queues, then of tasks.
#[derive(Debug, Default)]
pub(crate) struct Entities {
    all: Vec<SchedEntity>,
    nr_groups: u32,
}

impl Entities {
    pub(crate) fn push(&mut self, entity: SchedEntity) {
        self.all.push(entity);
    }

    /// The number of a task's entity.
    #[inline]
    pub(crate) fn of_task(&self, task: TaskId) -> u32 {
        task.0 + self.nr_groups
    }

    /// The task of an entity; `None`: a group's.
    #[inline]
    pub(crate) fn task(&self, entity: u32) -> Option<TaskId> {
        entity.checked_sub(self.nr_groups).map(TaskId)
    }
}

impl Index<TaskId> for Entities {
    type Output = SchedEntity;

    #[inline]
    fn index(&self, task: TaskId) -> &SchedEntity {
        &self.all[(task.0 + self.nr_groups) as usize]
    }
}

impl IndexMut<TaskId> for Entities {
    #[inline]
    fn index_mut(&mut self, task: TaskId) -> &mut SchedEntity {
        &mut self.all[(task.0 + self.nr_groups) as usize]
    }
}

/// By the entity's number.
impl Index<usize> for Entities {
    type Output = SchedEntity;

    #[inline]
    fn index(&self, entity: usize) -> &SchedEntity {
        &self.all[entity]
    }
}

impl Deref for Entities {
    type Target = [SchedEntity];

    #[inline]
    fn deref(&self) -> &[SchedEntity] {
        &self.all
    }
}

impl DerefMut for Entities {
    #[inline]
    fn deref_mut(&mut self) -> &mut [SchedEntity] {
        &mut self.all
    }
}
