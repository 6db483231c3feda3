//! The queues of control groups, and what an operation on a task changes in those above it (fair.c: `for_each_sched_entity()`).
//!
//! ```text
//!   root queue of a CPU:   task A    entity of /web
//!                                        |
//!   queue of /web there:             task B, ...
//! ```
//! Updates are those of the path of the task that an event names. A kernel that balances also lets the averages of other groups'
//! queues decay; what that makes of the root queue is in the error bound ([`super`]).

use opplab_kernel::pelt::{HalfLife, SchedAvg, SeFacts, update_load_avg_se};
use opplab_kernel::sched::attach::{CfsAvg, CfsFacts};
use opplab_kernel::sched::weight::scale_load;

use super::{Class, PeltReplay, Samples, begun_at, change_in, open_period};
use crate::groups::{Groups, Quota, ROOT};

/// A group's queue on a CPU, and its entity in the queue above.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) cfs: CfsAvg,
    pub(super) load_weight: u64,
    /// Runnable tasks in it and in the queues below.
    pub(super) nr: u64,
    se: SchedAvg,
    weight: u64,
    on_rq: bool,
    /// `se->runnable_weight`.
    runnable: u64,
    /// Its quota is used up.
    throttled: bool,
    /// It or so many above it are throttled.
    throttle_count: u32,
    /// Its clock stands still here, and stood still for so long.
    frozen_pelt: u64,
    lost_pelt: u64,
    /// PELT's now of the CPU when a task of it stopped running last, and whether the quota may have been used up by then.
    left_pelt: u64,
    left_short: bool,
}

/// What a queue takes of its group's quota at a time (`sched_cfs_bandwidth_slice_us`).
const SLICE_NS: u64 = 5_000_000;

/// What the queues of a group have in common.
#[derive(Clone, Debug)]
struct TaskGroup {
    parent: usize,
    shares: u64,
    /// `tg->load_avg`.
    load_avg: i64,
    quota: Option<Quota>,
    /// When its quota was filled up last, as far as is known, by the run queue's clock, and what of it was used since.
    filled_ns: u64,
    used_ns: u64,
    /// What was used in the period before.
    used_before_ns: u64,
}

/// All groups' queues; of the root's only the place is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    groups: Vec<TaskGroup>,
    /// By CPU, then by group.
    queues: Vec<Vec<Queue>>,
}

impl Queues {
    /// Makes room for the groups that are known by now; shares follow their settings.
    pub(super) fn grow(&mut self, groups: &Groups, nr_cpus: usize) {
        let old = self.groups.len();
        self.groups.extend(groups.list().iter().skip(old).map(|group| TaskGroup {
            parent: group.parent,
            shares: scale_load(group.settings.shares()),
            load_avg: 0,
            quota: group.settings.quota,
            filled_ns: 0,
            used_ns: 0,
            used_before_ns: 0,
        }));
        self.queues.resize_with(self.queues.len().max(nr_cpus), Vec::new);
        for of_cpu in &mut self.queues {
            let from = of_cpu.len();
            // A new group's entity has the weight of all its shares (fair.c:init_tg_cfs_entry()).
            let more = self.groups.iter().skip(from).map(|group| Queue { weight: group.shares, ..Queue::default() });
            of_cpu.extend(more);
        }
    }

    /// PELT's now of a group's queue (pelt.h:cfs_rq_clock_pelt()); `now` is that of the CPU's root queue.
    pub(super) fn now(&self, cpu: usize, group: usize, now: u64) -> u64 {
        if group == ROOT {
            return now;
        }
        let queue = &self.queues[cpu][group];
        let now = if queue.throttle_count > 0 { queue.frozen_pelt } else { now };
        now.wrapping_sub(queue.lost_pelt)
    }

    pub(super) fn get(&self, cpu: usize, group: usize) -> &Queue {
        &self.queues[cpu][group]
    }

    /// Whether the queue's clock stands still.
    pub(super) fn is_throttled(&self, cpu: usize, group: usize) -> bool {
        group != ROOT && self.queues[cpu][group].throttle_count > 0
    }

    /// `cfs_rq->throttled_pelt_idle`.
    pub(super) fn pelt_idle(&self, cpu: usize, group: usize) -> u64 {
        match group {
            ROOT => 0,
            _ if self.is_throttled(cpu, group) => u64::MAX,
            _ => self.queues[cpu][group].lost_pelt,
        }
    }

    fn parent(&self, group: usize) -> usize {
        self.groups[group].parent
    }

    /// Whether `group` is `above` or in it.
    fn is_within(&self, mut group: usize, above: usize) -> bool {
        loop {
            if group == above {
                return true;
            }
            if group == ROOT {
                return false;
            }
            group = self.parent(group);
        }
    }
}

impl<S: Samples, H: HalfLife> PeltReplay<S, H> {
    /// The groups of the trace and who is in them when it begins, and which tasks quotas stopped, by thread id and time.
    pub fn set_groups(&mut self, groups: Groups, finder: crate::groups::GroupFinder) {
        (self.groups, self.finder) = (groups, finder);
        self.grow_queues();
    }

    /// The groups, as far as they were followed.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Makes room for all groups on all CPUs.
    pub(super) fn grow_queues(&mut self) {
        if self.groups.any() {
            self.queues.grow(&self.groups, self.cpus.len());
        }
    }

    /// The averages of the queue of `group` on `cpu`.
    pub(super) fn cfs_mut(&mut self, cpu: usize, group: usize) -> &mut CfsAvg {
        match group {
            ROOT => &mut self.cpus[cpu].cfs,
            _ => {
                self.begin_queue(cpu, group);
                &mut self.queues.queues[cpu][group].cfs
            }
        }
    }

    /// Time begins for a queue when it is first touched.
    fn begin_queue(&mut self, cpu: usize, group: usize) {
        if self.queues.queues[cpu][group].cfs.avg.last_update_time != 0 {
            return;
        }
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        let (own, above) = (self.queues.now(cpu, group, now), self.queues.now(cpu, self.queues.parent(group), now));
        let queue = &mut self.queues.queues[cpu][group];
        (queue.cfs.avg, queue.se) = (begun_at(own.max(1024)), begun_at(above.max(1024)));
    }

    /// Whether the task that runs on `cpu` is in `group` or below it.
    fn runs_in(&self, cpu: usize, group: usize) -> bool {
        let rq = &self.cpus[cpu];
        rq.left.is_none()
            && rq.curr.is_some_and(|curr| {
                self.tasks[curr].class == Class::Fair && self.queues.is_within(self.tasks[curr].group, group)
            })
    }

    /// Brings the queue of `group` on `cpu` and all above it up to date, carries what changed in them upwards, and gives their
    /// entities the weight that their part of the group's load has (fair.c:update_load_avg(), propagate_entity_load_avg(),
    /// update_cfs_group(), v6.12). The root queue is up to date.
    pub(super) fn refresh(&mut self, cpu: usize, mut group: usize) {
        if group == ROOT {
            return;
        }
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        let clock = self.cpus[cpu].clock.clock;
        self.update_queue(cpu, group, now);
        while group != ROOT {
            let parent = self.queues.parent(group);
            if parent != ROOT {
                self.update_queue(cpu, parent, now);
            }
            let running = self.runs_in(cpu, group);
            let above_now = self.queues.now(cpu, parent, now);
            let of_cpu = &mut self.queues.queues[cpu];
            let mut queue = std::mem::take(&mut of_cpu[group]);
            let tg = &mut self.queues.groups[group];
            queue.cfs.update_tg_load_avg(&mut tg.load_avg, clock);
            let facts = SeFacts {
                weight: queue.weight,
                on_rq: queue.on_rq,
                runnable: if queue.on_rq { queue.runnable } else { 0 },
                running: running && queue.on_rq,
            };
            update_load_avg_se::<H>(above_now, &mut queue.se, facts);
            let (above, above_weight) = match parent {
                ROOT => {
                    let rq = &mut self.cpus[cpu];
                    (&mut rq.cfs, &mut rq.load_weight)
                }
                _ => {
                    let above = &mut of_cpu[parent];
                    (&mut above.cfs, &mut above.load_weight)
                }
            };
            let carried = above.propagate::<H>(&mut queue.se, queue.weight, &mut queue.cfs, queue.load_weight);
            queue.runnable = queue.nr;
            if queue.throttle_count == 0 && queue.load_weight != 0 {
                let shares = queue.cfs.calc_group_shares(tg.shares, tg.load_avg, queue.load_weight);
                if shares != queue.weight {
                    above.reweight::<H>(&mut queue.se, queue.weight, shares);
                    if queue.on_rq {
                        *above_weight = above_weight.saturating_sub(queue.weight).saturating_add(shares);
                    }
                    queue.weight = shares;
                }
            }
            of_cpu[group] = queue;
            self.cpus[cpu].changed |= carried && parent == ROOT;
            group = parent;
        }
    }

    fn update_queue(&mut self, cpu: usize, group: usize, now: u64) {
        self.begin_queue(cpu, group);
        let now = self.queues.now(cpu, group, now);
        let has_curr = self.runs_in(cpu, group);
        let queue = &mut self.queues.queues[cpu][group];
        let facts = CfsFacts { load_weight: queue.load_weight, nr_runnable: queue.nr, has_curr };
        queue.cfs.update::<H>(now, facts);
    }

    /// A task of this weight is queued in `group` on `cpu`: the counts and weights up to the root, until a queue is throttled.
    pub(super) fn join_queue(&mut self, cpu: usize, mut group: usize, weight: u64) {
        self.count(cpu, group, 1, weight as i64);
        while group != ROOT {
            let parent = self.queues.parent(group);
            let queue = &mut self.queues.queues[cpu][group];
            if queue.throttled {
                return;
            }
            let more = if std::mem::replace(&mut queue.on_rq, true) { 0 } else { queue.weight };
            self.count(cpu, parent, 1, more as i64);
            group = parent;
        }
    }

    /// A task of this weight leaves it.
    pub(super) fn leave_queue(&mut self, cpu: usize, mut group: usize, weight: u64) {
        self.count(cpu, group, -1, -(weight as i64));
        while group != ROOT {
            let parent = self.queues.parent(group);
            let queue = &mut self.queues.queues[cpu][group];
            if queue.throttled {
                return;
            }
            let empty = queue.load_weight == 0 && std::mem::take(&mut queue.on_rq);
            let less = if empty { queue.weight } else { 0 };
            self.count(cpu, parent, -1, -(less as i64));
            group = parent;
        }
    }

    fn count(&mut self, cpu: usize, group: usize, tasks: i64, weight: i64) {
        let (load_weight, nr) = match group {
            ROOT => {
                let rq = &mut self.cpus[cpu];
                (&mut rq.load_weight, &mut rq.nr_runnable)
            }
            _ => {
                let queue = &mut self.queues.queues[cpu][group];
                (&mut queue.load_weight, &mut queue.nr)
            }
        };
        *load_weight = load_weight.saturating_add_signed(weight);
        *nr = nr.saturating_add_signed(tasks);
    }

    /// The quota of the task's group, or of the nearest one above it that has one, is used up (fair.c:throttle_cfs_rq(), v6.12):
    /// the group leaves the queues above it, and its clock and those of the groups in it stand still.
    pub(super) fn throttle_group(&mut self, cpu: usize, group: usize) {
        if self.queues.is_throttled(cpu, group) {
            return;
        }
        let group = match self.groups.with_quota(group) {
            Some(group) => group,
            None if self.groups.has_settings() => return,
            None => group,
        };
        self.refresh(cpu, group);
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        for below in 1..self.queues.groups.len() {
            if self.queues.is_within(below, group) {
                let queue = &mut self.queues.queues[cpu][below];
                if queue.throttle_count == 0 {
                    queue.frozen_pelt = now;
                }
                queue.throttle_count += 1;
            }
        }
        self.carry_group(cpu, group, false);
        self.queues.queues[cpu][group].throttled = true;
        self.refresh(cpu, self.queues.parent(group));
    }

    /// Its tasks run again: all that is throttled there from `group` up goes on. Its queues on other CPUs may wait on: what they ran
    /// too long is to be made up for first (fair.c:distribute_cfs_runtime(), v6.12).
    pub(super) fn unthrottle_groups(&mut self, cpu: usize, group: usize, time_ns: u64) {
        let mut at = group;
        while at != ROOT {
            if self.queues.get(cpu, at).throttled {
                self.unthrottle_group(cpu, at);
                let clock = self.clock_ns(cpu, time_ns);
                let tg = &mut self.queues.groups[at];
                // Other CPUs' queues go on some time after the first.
                let period_ns = tg.quota.map_or(0, |quota| quota.period_ns);
                if clock.saturating_sub(tg.filled_ns) >= period_ns / 2 {
                    (tg.filled_ns, tg.used_before_ns, tg.used_ns) = (clock, tg.used_ns, 0);
                }
            }
            at = self.queues.parent(at);
        }
    }

    /// So many tasks, `pid` among them, came back to a CPU with the groups that they are in.
    pub(super) fn resume_groups(&mut self, cpu: usize, tasks: u64, pid: Option<i32>, time_ns: u64) {
        let of_pid = pid.and_then(|pid| self.find(pid)).map(|place| self.tasks[place].group);
        if let Some(group) = of_pid {
            self.unthrottle_groups(cpu, group, time_ns);
            return;
        }
        let queues = self.queues.queues.get(cpu).into_iter().flatten().enumerate();
        let all: Vec<usize> =
            queues.filter(|(_, queue)| queue.throttled && queue.nr == tasks).map(|(at, _)| at).collect();
        if let [group] = all[..] {
            self.unthrottle_groups(cpu, group, time_ns);
        }
    }

    /// fair.c:unthrottle_cfs_rq(), v6.12, of a queue whose CPU is up to date.
    fn unthrottle_group(&mut self, cpu: usize, group: usize) {
        let now = self.cpus[cpu].clock.rq_clock_pelt();
        for below in 1..self.queues.groups.len() {
            if self.queues.is_within(below, group) {
                let queue = &mut self.queues.queues[cpu][below];
                queue.throttle_count = queue.throttle_count.saturating_sub(1);
                if queue.throttle_count == 0 {
                    queue.lost_pelt = queue.lost_pelt.wrapping_add(now.saturating_sub(queue.frozen_pelt));
                }
            }
        }
        self.queues.queues[cpu][group].throttled = false;
        self.refresh(cpu, group);
        self.carry_group(cpu, group, true);
        self.refresh(cpu, group);
    }

    /// A task of `group` ran so long on `cpu` and leaves it: what it used of the quotas.
    pub(super) fn charge_groups(&mut self, cpu: usize, mut group: usize, ran_ns: u64) {
        let (pelt, clock) = (self.cpus[cpu].clock.rq_clock_pelt(), self.cpus[cpu].clock.clock);
        let mut short = false;
        let start = group;
        while group != ROOT {
            let slices = self.cpus.len() as u64 * SLICE_NS;
            let tg = &mut self.queues.groups[group];
            if let Some(quota) = tg.quota {
                let periods = clock.saturating_sub(tg.filled_ns) / quota.period_ns;
                if periods > 0 {
                    tg.filled_ns += periods * quota.period_ns;
                    tg.used_before_ns = if periods == 1 { tg.used_ns } else { 0 };
                    tg.used_ns = 0;
                }
                tg.used_ns = tg.used_ns.saturating_add(ran_ns);
                // A queue may keep a slice for itself, and when a period begins is known by and by only.
                short |= tg.used_before_ns.saturating_add(tg.used_ns).saturating_add(slices) >= quota.quota_ns;
            }
            group = tg.parent;
        }
        let mut group = start;
        while group != ROOT {
            let queue = &mut self.queues.queues[cpu][group];
            (queue.left_pelt, queue.left_short) = (pelt, short);
            group = self.queues.parent(group);
        }
    }

    /// A task wakes up where it slept. If it may not run, its group was stopped before: when a task of it left the CPU last
    /// (fair.c:put_prev_entity(), v6.12). If it may, the group may have been stopped and let go in between, which no event shows.
    pub(super) fn wake_in_group(&mut self, cpu: usize, place: usize, stopped: bool) {
        let group = self.tasks[place].group;
        let Some(owner) = self.groups.with_quota(group).filter(|_| !self.queues.is_throttled(cpu, group)) else {
            return;
        };
        let queue = self.queues.get(cpu, owner);
        let (left, now) = (queue.left_pelt, self.cpus[cpu].clock.rq_clock_pelt());
        if left == 0 || now <= left || (!queue.left_short && !stopped) {
            return;
        }
        if stopped {
            self.throttle_group(cpu, group);
            for below in 1..self.queues.groups.len() {
                if self.queues.is_within(below, owner) {
                    let queue = &mut self.queues.queues[cpu][below];
                    let updated = queue.cfs.avg.last_update_time.wrapping_add(queue.lost_pelt);
                    queue.frozen_pelt = left.max(updated).min(queue.frozen_pelt);
                }
            }
        } else {
            self.doubt(cpu, place, owner, now - left);
        }
    }

    /// The queue of a task's group may have stood still for so long, up to a period of its quota.
    fn doubt(&mut self, cpu: usize, place: usize, owner: usize, ns: u64) {
        let period_ns = self.queues.groups[owner].quota.map_or(0, |quota| quota.period_ns);
        let units = change_in(self.tasks[place].avg.util_avg, ns.min(period_ns));
        super::widen::<H>(&mut self.tasks[place].unknown, units);
        super::widen::<H>(&mut self.cpus[cpu].unknown, units);
    }

    /// A runnable task is taken elsewhere by a balance, which leaves those of throttled groups where they are: its group goes on.
    pub(super) fn leave_throttled(&mut self, place: usize, time_ns: u64) {
        let super::Task { cpu, group, .. } = self.tasks[place];
        if self.queues.is_throttled(cpu, group) {
            let now = self.update_cpu(cpu, time_ns);
            let owner = self.groups.with_quota(group).unwrap_or(group);
            self.doubt(cpu, place, owner, now.saturating_sub(self.queues.get(cpu, group).frozen_pelt));
            self.unthrottle_groups(cpu, group, time_ns);
        }
    }

    /// A task runs that had waited for its CPU while that was busy since `busy_pelt`: whether its group was stopped meanwhile, or
    /// since when it is no longer, is shown by no event.
    pub(super) fn run_in_group(&mut self, cpu: usize, place: usize, busy_pelt: u64) {
        let group = self.tasks[place].group;
        let Some(owner) = self.groups.with_quota(group) else { return };
        let (queue, now) = (self.queues.get(cpu, owner), self.cpus[cpu].clock.rq_clock_pelt());
        let since = if queue.throttled { busy_pelt.max(queue.frozen_pelt) } else { queue.left_pelt };
        if self.cpus[cpu].curr.is_some() && since != 0 && (queue.throttled || queue.left_short) {
            self.doubt(cpu, place, owner, now.saturating_sub(since));
        }
    }

    /// Puts a group's entity with all its tasks into the queues above, or takes it out.
    fn carry_group(&mut self, cpu: usize, mut group: usize, joins: bool) {
        let tasks = self.queues.get(cpu, group).nr as i64;
        let mut leaves = !joins;
        while group != ROOT {
            let parent = self.queues.parent(group);
            let queue = &mut self.queues.queues[cpu][group];
            let weight = match joins {
                true if queue.load_weight != 0 && !std::mem::replace(&mut queue.on_rq, true) => queue.weight as i64,
                false if leaves && std::mem::take(&mut queue.on_rq) => -(queue.weight as i64),
                _ => 0,
            };
            self.count(cpu, parent, if joins { tasks } else { -tasks }, weight);
            if parent != ROOT {
                let above = self.queues.get(cpu, parent);
                if above.throttled {
                    return;
                }
                leaves &= above.load_weight == 0;
            }
            group = parent;
        }
    }

    /// `cgroup_attach_task`: the task, and the threads of its process, are in another group from here on
    /// (fair.c:task_change_group_fair(), v6.12): they take their averages along.
    pub fn attach_group(&mut self, time_ns: u64, hierarchy: i64, id: u64, path: &str, pid: i32) {
        let moved = self.groups.attach(hierarchy, id, path, pid);
        self.grow_queues();
        for (pid, group) in moved {
            if let Some(place) = self.find(pid) {
                self.change_group(time_ns, place, group);
            }
        }
    }

    /// `cgroup_mkdir` and `cgroup_rename`.
    pub fn name_group(&mut self, hierarchy: i64, id: u64, path: &str) {
        self.groups.name(hierarchy, id, path);
        self.grow_queues();
    }

    /// `sched_process_fork`: the child is in its parent's group.
    pub fn fork(&mut self, parent: i32, child: i32) {
        let is_thread = self.finder.is_thread(child);
        self.groups.fork(parent, child, is_thread);
        if let Some(place) = self.find(child) {
            let group = self.groups.of(child);
            let task = &mut self.tasks[place];
            // A number that is used again: nothing of the old task is left by now.
            if !task.on_rq && !task.attached {
                task.group = group;
            }
        }
    }

    fn change_group(&mut self, time_ns: u64, place: usize, group: usize) {
        let (cpu, before, weight) = (self.tasks[place].cpu, self.tasks[place].group, self.tasks[place].weight);
        if before == group {
            return;
        }
        let now = self.update_cpu(cpu, time_ns);
        let (was_attached, on_rq) = (self.tasks[place].attached, self.tasks[place].on_rq);
        let fair = self.tasks[place].class == Class::Fair;
        self.unthrottle(place, now);
        let moved = self.tasks[place].moved;
        if was_attached {
            self.detach(place, now);
        }
        if on_rq && fair {
            self.leave_queue(cpu, before, weight);
            self.refresh(cpu, before);
        }
        self.tasks[place].group = group;
        let now = self.queues.now(cpu, group, now);
        let task = &mut self.tasks[place];
        (task.avg.last_update_time, task.unknown.last_update_time) = (now, now);
        if was_attached {
            // The root queue has its part as before, and what is not known of it.
            self.tasks[place].moved = false;
            self.attach(place, cpu);
            self.tasks[place].moved = moved;
        }
        if on_rq && fair {
            self.join_queue(cpu, group, weight);
        }
        self.refresh(cpu, group);
    }

    /// Moves all signals of a CPU's group queues by `delta` ns in PELT's time.
    pub(super) fn rebase_queues(&mut self, cpu: usize, delta: u64) {
        for queue in self.queues.queues.get_mut(cpu).into_iter().flatten() {
            for avg in [&mut queue.cfs.avg, &mut queue.se].into_iter().filter(|avg| avg.last_update_time != 0) {
                avg.last_update_time = avg.last_update_time.wrapping_add(delta);
            }
            queue.frozen_pelt = queue.frozen_pelt.wrapping_add(delta);
        }
    }

    /// By how much a queue's last update may be older than what is known here, in units of a signal of this size.
    pub(super) fn stale(&self, cpu: usize, group: usize, size: u64) -> u64 {
        if group == ROOT {
            return 0;
        }
        let now = self.queues.now(cpu, group, self.cpus[cpu].clock.rq_clock_pelt());
        change_in(size, now.saturating_sub(self.queues.get(cpu, group).cfs.avg.last_update_time))
    }

    /// The signals of a group's queue on a CPU as of their last update: its path, `util_avg`, `runnable_avg` and `load_avg` of the
    /// queue, and the weight of its entity; those that ran there at all.
    pub fn group_queues(&self, cpu: u32) -> Vec<(String, SchedAvg, u64)> {
        let queues = self.queues.queues.get(cpu as usize).into_iter().flatten().zip(self.groups.list()).skip(1);
        let seen = queues.filter(|(queue, _)| queue.cfs.avg.last_update_time != 0);
        let shown = |queue: &Queue| SchedAvg { util_avg: open_period::<H>(&queue.cfs.avg), ..queue.cfs.avg };
        seen.map(|(queue, group)| (group.path.clone(), shown(queue), queue.weight)).collect()
    }
}
