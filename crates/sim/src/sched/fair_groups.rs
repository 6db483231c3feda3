//! The fair class with task groups: an operation on a task goes up through the queues of its groups to the CPU's own
//! (kernel/sched/fair.c: `for_each_sched_entity()`).
//!
//! ```text
//!   root queue of a CPU:   task A    entity of /web
//!                                        |
//!   queue of /web there:             task B    entity of /web/db
//!                                                  |
//!   queue of /web/db there:                     task C
//! ```
//! A run without groups does not come here: there the CPU's own queue is all there is ([`super::fair`]). Quotas are in
//! [`super::quota`].

use opplab_kernel::pelt::{HalfLife, SchedAvg, SeFacts, update_load_avg_se, update_load_avg_se_scaled};
use opplab_kernel::sched::cfs::Dequeue as CfsDequeue;
use opplab_kernel::sched::eevdf::Dequeue;
use opplab_kernel::sched::weight::LoadWeight;
use opplab_model::event::{Event, Sink};

use crate::ids::{CpuId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::gates::UtilEst;
use crate::run::task::{Class, Enqueue, Life};
use crate::sched::fair_rq::{Count, FairRq};
use crate::sched::groups::{Groups, cfs_of, fair_of};

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// The group whose queue on the entity's CPU the entity is in.
    fn group_of(&self, entity: u32) -> GroupId {
        match self.entities.task(entity) {
            Some(task) => self.tasks[task].group,
            None => self.groups[self.groups.of_entity(entity)].parent,
        }
    }

    /// The group that the entity stands for; `None`: it is a task.
    fn group_below(&self, entity: u32) -> Option<GroupId> {
        self.entities.task(entity).is_none().then(|| self.groups.of_entity(entity))
    }

    pub(super) fn fair_rq(&mut self, group: GroupId, cpu: CpuId) -> &mut FairRq {
        fair_of(&mut self.cpus, &mut self.groups, group, cpu)
    }

    fn is_idle_group(&self, group: GroupId) -> bool {
        group != GroupId::ROOT && self.groups[group].idle
    }

    // ---- averages ----

    /// pelt.h:cfs_rq_clock_pelt(): the clock of a throttled group's queue stands still.
    fn clock_pelt(&self, group: GroupId, cpu: CpuId) -> u64 {
        let now = self.cpus[cpu].clk.rq_clock_pelt();
        if group == GroupId::ROOT {
            return now;
        }
        let queue = self.groups.queue(group, cpu);
        queue.throttled_clock_pelt.unwrap_or(now) - queue.throttled_clock_pelt_time
    }

    /// fair.c:update_cfs_rq_load_avg() of a group's queue, or of the CPU's.
    fn update_queue_avg(&mut self, group: GroupId, cpu: CpuId) -> bool {
        if group == GroupId::ROOT {
            return self.update_cfs_rq_load_avg(cpu);
        }
        let (now, scales) = (self.clock_pelt(group, cpu), self.cpus[cpu].scales());
        let queue = self.groups.queue_mut(group, cpu);
        let facts = queue.fair.facts();
        if self.gates.scaled_contribution {
            queue.cfs.update_scaled::<H>(now, facts, scales)
        } else {
            queue.cfs.update::<H>(now, facts)
        }
    }

    fn sa_mut(&mut self, entity: u32, cpu: CpuId) -> &mut SchedAvg {
        match self.entities.task(entity) {
            Some(task) => &mut self.tasks[task].sa,
            None => &mut self.groups.queue_mut(self.groups.of_entity(entity), cpu).sa,
        }
    }

    /// fair.c:update_load_avg() of an entity in the queue that it is in; `attach`: DO_ATTACH.
    #[inline(never)]
    pub(super) fn update_entity_avg(&mut self, cpu: CpuId, entity: u32, attach: bool) {
        let group = self.group_of(entity);
        let (now, scales) = (self.clock_pelt(group, cpu), self.cpus[cpu].scales());
        let running = self.fair_rq(group, cpu).curr() == Some(entity);
        let se = &self.entities[entity as usize];
        let mut facts = SeFacts::task(se.load.weight, se.on_rq, running);
        if se.sched_delayed {
            facts.runnable = 0;
        } else if let Some(below) = self.group_below(entity) {
            facts.runnable = self.groups.queue(below, cpu).runnable;
        }
        let scaled = self.gates.scaled_contribution;
        let sa = self.sa_mut(entity, cpu);
        if sa.last_update_time != 0 {
            let decayed = if scaled {
                update_load_avg_se_scaled::<H>(now, sa, facts, scales)
            } else {
                update_load_avg_se::<H>(now, sa, facts)
            };
            let sa = *sa;
            if let Some(task) = self.entities.task(entity).filter(|_| decayed) {
                if let UtilEst::Pair(form) = self.gates.util_est {
                    self.tasks[task].util_est.util_change(form);
                }
                if S::ENABLED {
                    self.emit_signal(Event::PeltSe {
                        cpu: cpu.0,
                        task: task.0,
                        load_avg: sa.load_avg as u32,
                        runnable_avg: sa.runnable_avg as u32,
                        util_avg: sa.util_avg as u32,
                    });
                }
            }
        }
        let mut decayed = self.update_queue_avg(group, cpu);
        decayed |= self.propagate(cpu, entity);
        let fresh = attach && self.sa_mut(entity, cpu).last_update_time == 0;
        if fresh && let Some(task) = self.entities.task(entity) {
            let weight = self.entities[task].load.weight;
            cfs_of(&mut self.cpus, &mut self.groups, group, cpu).attach::<H>(&mut self.tasks[task].sa, weight);
        }
        if fresh || decayed {
            if group == GroupId::ROOT {
                self.cpufreq_update_util(cpu, 0);
            }
            self.update_tg_load_avg(group, cpu);
        }
    }

    /// fair.c:propagate_entity_load_avg().
    fn propagate(&mut self, cpu: CpuId, entity: u32) -> bool {
        let Some(below) = self.group_below(entity) else { return false };
        let weight = self.entities[entity as usize].load.weight;
        let (own, above) = self.groups.with_above(below, cpu);
        let cfs = above.map_or(&mut self.cpus[cpu].cfs, |above| &mut above.cfs);
        let load_weight = own.fair.load_weight();
        cfs.propagate::<H>(&mut own.sa, weight, &mut own.cfs, load_weight)
    }

    /// fair.c:update_tg_load_avg().
    fn update_tg_load_avg(&mut self, group: GroupId, cpu: CpuId) {
        if group == GroupId::ROOT {
            return;
        }
        let (now, limited) = (self.now, self.gates.tg_load_ratelimit);
        let (state, queue) = self.groups.both_mut(group, cpu);
        if !limited {
            queue.cfs.last_update_tg_load_avg = 0;
        }
        queue.cfs.update_tg_load_avg(&mut state.load_avg, now);
    }

    /// fair.c:se_update_runnable().
    fn update_runnable(&mut self, cpu: CpuId, entity: u32) {
        if let Some(below) = self.group_below(entity) {
            let queue = self.groups.queue_mut(below, cpu);
            queue.runnable = u64::from(queue.fair.nr_queued() - queue.fair.nr_delayed());
        }
    }

    /// fair.c:update_cfs_group(): the group's entity gets the weight that its part of the group's load gives it.
    fn update_cfs_group(&mut self, cpu: CpuId, entity: u32) {
        let Some(below) = self.group_below(entity) else { return };
        let stands = self.stops_at_queue(below, cpu, Groups::in_throttled);
        let queue = self.groups.queue(below, cpu);
        let load_weight = queue.fair.load_weight();
        if stands || (self.gates.delay_dequeue && load_weight == 0) {
            return;
        }
        let state = &self.groups[below];
        let shares = queue.cfs.calc_group_shares(state.shares, state.load_avg, load_weight);
        let old = self.entities[entity as usize].load.weight;
        if shares == old {
            return;
        }
        // reweight_entity().
        let (parent, now) = (state.parent, self.cpus[cpu].clk.clock_task);
        fair_of(&mut self.cpus, &mut self.groups, parent, cpu).reweight(
            &mut self.entities,
            now,
            entity,
            LoadWeight::new(shares),
        );
        self.charge_quota(parent, cpu);
        let (own, above) = self.groups.with_above(below, cpu);
        let cfs = above.map_or(&mut self.cpus[cpu].cfs, |above| &mut above.cfs);
        cfs.reweight::<H>(&mut own.sa, old, shares);
    }

    /// An entity above a queue that changed: its averages, count and weight.
    pub(super) fn refresh_entity(&mut self, cpu: CpuId, entity: u32) {
        self.update_entity_avg(cpu, entity, false);
        self.update_runnable(cpu, entity);
        self.update_cfs_group(cpu, entity);
    }

    /// fair.c:propagate_entity_cfs_rq(): a task's averages came to or left its queue.
    pub(super) fn propagate_above(&mut self, cpu: CpuId, task: TaskId) {
        let mut group = self.tasks[task].group;
        self.update_tg_load_avg(group, cpu);
        while let Some(entity) = self.groups.entity(group, cpu) {
            self.update_entity_avg(cpu, entity, false);
            group = self.groups[group].parent;
        }
    }

    /// The groups' part of fair.c:__update_blocked_fair(); a group comes before the one that it is in.
    pub(super) fn update_blocked_groups(&mut self, cpu: CpuId) {
        for group in self.groups.ids().rev() {
            if self.update_queue_avg(group, cpu) {
                self.update_tg_load_avg(group, cpu);
            }
            let queue = self.groups.queue(group, cpu);
            let quiet =
                queue.fair.nr_queued() == 0 && !queue.cfs.propagate && queue.sa.load_avg == 0 && queue.sa.util_avg == 0;
            if !quiet && let Some(entity) = self.groups.entity(group, cpu) {
                self.update_entity_avg(cpu, entity, false);
            }
        }
    }

    /// fair.c:task_h_load(): the part of the CPU's load that the task is, through its groups.
    pub(crate) fn task_h_load(&self, task: TaskId) -> u64 {
        let (state, own) = (&self.tasks[task], self.tasks[task].sa.load_avg);
        if state.group == GroupId::ROOT {
            return own;
        }
        let cpu = state.cpu;
        let mut path = Vec::new();
        let mut group = state.group;
        while group != GroupId::ROOT {
            path.push(group);
            group = self.groups[group].parent;
        }
        let mut avg = self.cpus[cpu].cfs.avg.load_avg;
        let mut h_load = avg;
        for &group in path.iter().rev() {
            let queue = self.groups.queue(group, cpu);
            h_load = h_load.wrapping_mul(queue.sa.load_avg) / avg.wrapping_add(1).max(1);
            avg = queue.cfs.avg.load_avg;
        }
        own.wrapping_mul(h_load) / avg.wrapping_add(1).max(1)
    }

    // ---- counts ----

    /// Adds tasks to the counts of the queues from `group` up to the CPU's own, until one is throttled; whether none was.
    pub(super) fn count_up(&mut self, mut group: GroupId, cpu: CpuId, count: Count) -> bool {
        loop {
            self.fair_rq(group, cpu).count(count);
            if self.stops_at_queue(group, cpu, Groups::is_throttled) {
                return false;
            }
            if group == GroupId::ROOT {
                return true;
            }
            group = self.groups[group].parent;
        }
    }

    // ---- in and out ----

    fn enqueue_entity(&mut self, cpu: CpuId, entity: u32, kind: Enqueue) {
        self.update_entity_avg(cpu, entity, true);
        self.update_runnable(cpu, entity);
        self.update_cfs_group(cpu, entity);
        let (group, now) = (self.group_of(entity), self.cpus[cpu].clk.clock_task);
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).enqueue(&mut self.entities, now, entity, kind);
        self.charge_quota(group, cpu);
    }

    /// fair.c:enqueue_task_fair(), its walk; whether no queue on the way is throttled.
    #[inline(never)]
    pub(super) fn enqueue_in_groups(&mut self, cpu: CpuId, task: TaskId, kind: Enqueue) -> bool {
        let entity = self.entities.of_task(task);
        let se = &self.entities[task];
        let wakeup = matches!(kind, Enqueue::Wakeup | Enqueue::WakeupMigrated);
        let count =
            Count { queued: 1, delayed: i32::from(se.sched_delayed && !wakeup), idle: i32::from(se.is_idle_policy()) };
        self.enqueue_from(cpu, entity, kind, count)
    }

    /// The walk from an entity that is not queued; `count`: the tasks that it brings.
    pub(super) fn enqueue_from(&mut self, cpu: CpuId, mut entity: u32, mut kind: Enqueue, mut count: Count) -> bool {
        loop {
            let group = self.group_of(entity);
            if self.entities[entity as usize].on_rq {
                if self.entities[entity as usize].sched_delayed {
                    self.requeue_delayed(cpu, entity);
                }
                break;
            }
            self.enqueue_entity(cpu, entity, kind);
            let is_task = self.entities.task(entity).is_some();
            if !is_task {
                self.fair_rq(group, cpu).count(count);
            }
            if self.fair_rq(group, cpu).nr_entities() == 1 {
                self.check_enqueue_throttle(group, cpu, count);
                self.queue_fills(group, cpu);
            }
            if self.is_idle_group(group) {
                count.idle = count.queued;
            }
            if self.stops_at_queue(group, cpu, Groups::is_throttled) {
                return false;
            }
            kind = Enqueue::Wakeup;
            match self.groups.entity(group, cpu) {
                Some(above) => entity = above,
                None => return true,
            }
        }
        self.refresh_up(cpu, entity, count, false)
    }

    /// The rest of a walk, where entities stay queued; whether no queue on the way is throttled.
    fn refresh_up(&mut self, cpu: CpuId, mut entity: u32, mut count: Count, throttled: bool) -> bool {
        loop {
            self.refresh_entity(cpu, entity);
            let group = self.group_of(entity);
            self.fair_rq(group, cpu).count(count);
            if self.is_idle_group(group) {
                count.idle = count.queued;
            }
            if throttled {
                self.record_throttle_clock(group, cpu);
            }
            if self.stops_at_queue(group, cpu, Groups::is_throttled) {
                return false;
            }
            match self.groups.entity(group, cpu) {
                Some(above) => entity = above,
                None => return true,
            }
        }
    }

    fn requeue_delayed(&mut self, cpu: CpuId, entity: u32) {
        let group = self.group_of(entity);
        if let FairRq::Eevdf(rq) = fair_of(&mut self.cpus, &mut self.groups, group, cpu) {
            rq.requeue_delayed_entity(&mut self.entities, entity);
        }
        self.update_entity_avg(cpu, entity, false);
    }

    /// fair.c:dequeue_entity(); `false`: it stays queued, delayed.
    pub(super) fn dequeue_entity(&mut self, cpu: CpuId, entity: u32, flags: Dequeue) -> bool {
        // A pick that ends a task's delayed dequeue leaves averages to the next update, as in the plain queue.
        if !flags.delayed || self.group_below(entity).is_some() {
            self.update_entity_avg(cpu, entity, false);
        }
        self.update_runnable(cpu, entity);
        let (group, now) = (self.group_of(entity), self.cpus[cpu].clk.clock_task);
        let left = match fair_of(&mut self.cpus, &mut self.groups, group, cpu) {
            FairRq::Eevdf(rq) => {
                let special = flags.special || !self.gates.delay_dequeue;
                rq.dequeue(&mut self.entities, now, entity, Dequeue { special, ..flags })
            }
            FairRq::Cfs(rq) => {
                rq.dequeue(&mut self.entities, now, entity, CfsDequeue { sleep: flags.sleep, save: false });
                true
            }
        };
        self.charge_quota(group, cpu);
        if left {
            if self.fair_rq(group, cpu).nr_entities() == 0 {
                self.return_quota(group, cpu);
                self.queue_empties(group, cpu);
            }
            self.update_cfs_group(cpu, entity);
        }
        left
    }

    /// fair.c:dequeue_entities() from a task, or from a group's entity whose delayed dequeue ends; whether no queue on the way is
    /// throttled.
    #[inline(never)]
    pub(super) fn dequeue_in_groups(&mut self, cpu: CpuId, mut entity: u32, mut flags: Dequeue) -> bool {
        let sleeps = flags.sleep;
        let throttled = self.entities.task(entity).is_some_and(|task| self.tasks[task].throttled);
        let mut count = Count::default();
        let is_task = self.entities.task(entity).is_some();
        if is_task {
            let se = &self.entities[entity as usize];
            let delayed = se.sched_delayed && (flags.delayed || !flags.sleep);
            count = Count { queued: -1, delayed: -i32::from(delayed), idle: -i32::from(se.is_idle_policy()) };
        }
        loop {
            let group = self.group_of(entity);
            if !self.dequeue_entity(cpu, entity, flags) {
                if self.entities.task(entity).is_some() {
                    // set_delayed(): the task counts as asleep in all queues above.
                    if self.stops_at_queue(group, cpu, Groups::is_throttled) {
                        return false;
                    }
                    let count = Count { delayed: 1, ..Count::default() };
                    return group == GroupId::ROOT || self.count_up(self.groups[group].parent, cpu, count);
                }
                break;
            }
            if self.entities.task(entity).is_none() {
                self.fair_rq(group, cpu).count(count);
            }
            if self.is_idle_group(group) {
                count.idle = count.queued;
            }
            if throttled {
                self.record_throttle_clock(group, cpu);
            }
            if self.stops_at_queue(group, cpu, Groups::is_throttled) {
                return false;
            }
            let Some(above) = self.groups.entity(group, cpu) else { return true };
            entity = above;
            if self.fair_rq(group, cpu).load_weight() != 0 {
                if sleeps && !self.stops_at_queue(group, cpu, Groups::in_throttled) {
                    self.set_next_buddy(cpu, entity);
                }
                break;
            }
            flags = Dequeue { sleep: true, special: false, delayed: false };
        }
        self.refresh_up(cpu, entity, count, throttled)
    }

    /// fair.c:set_next_buddy(): a group that lost a task to sleep should run its next one.
    fn set_next_buddy(&mut self, cpu: CpuId, mut entity: u32) {
        loop {
            let se = &self.entities[entity as usize];
            if !se.on_rq || se.is_idle_policy() {
                return;
            }
            let group = self.group_of(entity);
            fair_of(&mut self.cpus, &mut self.groups, group, cpu).set_next(entity);
            match self.groups.entity(group, cpu) {
                Some(above) => entity = above,
                None => return,
            }
        }
    }

    /// A task whose dequeue was delayed wakes where it is: it counts again; whether no queue on the way is throttled.
    #[inline(never)]
    pub(super) fn wake_in_groups(&mut self, cpu: CpuId, task: TaskId) -> bool {
        self.requeue_delayed(cpu, self.entities.of_task(task));
        let group = self.tasks[task].group;
        if self.stops_at_queue(group, cpu, Groups::is_throttled) {
            return false;
        }
        group == GroupId::ROOT
            || self.count_up(self.groups[group].parent, cpu, Count { delayed: -1, ..Count::default() })
    }

    // ---- pick ----

    /// fair.c:update_curr() of a queue.
    pub(super) fn update_curr_in(&mut self, group: GroupId, cpu: CpuId) {
        let now = self.cpus[cpu].clk.clock_task;
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).update_curr(&mut self.entities, now);
        self.charge_quota(group, cpu);
    }

    /// fair.c:pick_task_fair(), with its walk down.
    #[inline(never)]
    pub(super) fn pick_in_groups(&mut self, cpu: CpuId) -> Option<TaskId> {
        'again: loop {
            let mut group = GroupId::ROOT;
            let mut throttled = false;
            if self.cpus[cpu].fair.nr_entities() == 0 {
                return None;
            }
            loop {
                let curr = self.fair_rq(group, cpu).curr();
                if curr.is_some_and(|curr| self.entities[curr as usize].on_rq) {
                    self.update_curr_in(group, cpu);
                }
                if self.check_quota(group, cpu) {
                    if !self.gates.throttle_tasks {
                        continue 'again;
                    }
                    throttled = true;
                }
                let now = self.cpus[cpu].clk.clock_task;
                let picked = match fair_of(&mut self.cpus, &mut self.groups, group, cpu) {
                    FairRq::Eevdf(rq) => rq.pick_entity(&mut self.entities, now),
                    FairRq::Cfs(rq) => rq.pick_task(&mut self.entities, now),
                };
                let entity = picked?;
                if self.entities[entity as usize].sched_delayed {
                    self.dequeue_in_groups(cpu, entity, Dequeue { sleep: true, special: false, delayed: true });
                    if let Some(task) = self.entities.task(entity) {
                        self.balancer.lists.remove(cpu.index(), task.0);
                    }
                    continue 'again;
                }
                match self.entities.task(entity) {
                    Some(task) => {
                        self.tasks[task].throttle_work |= throttled;
                        return Some(task);
                    }
                    None => group = self.groups.of_entity(entity),
                }
            }
        }
    }

    fn put_prev_entity(&mut self, cpu: CpuId, entity: u32) {
        let group = self.group_of(entity);
        if self.entities[entity as usize].on_rq {
            self.update_curr_in(group, cpu);
        }
        self.check_quota(group, cpu);
        if self.entities[entity as usize].on_rq {
            self.update_entity_avg(cpu, entity, false);
        }
        let now = self.cpus[cpu].clk.clock_task;
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).put_prev_entity(&mut self.entities, now);
    }

    fn set_next_entity(&mut self, cpu: CpuId, entity: u32) {
        let (group, now) = (self.group_of(entity), self.cpus[cpu].clk.clock_task);
        if self.entities[entity as usize].on_rq || self.entities.task(entity).is_some() {
            self.update_entity_avg(cpu, entity, false);
        }
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).set_next_entity(&mut self.entities, now, entity);
        self.ensure_quota(group, cpu);
    }

    /// fair.c:put_prev_task_fair(): entities up to the CPU's queue stop, or up to that of `common`, the last one that does.
    #[inline(never)]
    pub(super) fn put_prev_in_groups(&mut self, cpu: CpuId, prev: TaskId, common: GroupId) {
        let mut entity = self.entities.of_task(prev);
        loop {
            self.put_prev_entity(cpu, entity);
            let group = self.group_of(entity);
            match self.groups.entity(group, cpu) {
                Some(above) if group != common => entity = above,
                _ => return,
            }
        }
    }

    /// fair.c:set_next_task_fair(): the same for entities that begin to run.
    #[inline(never)]
    pub(super) fn set_next_in_groups(&mut self, cpu: CpuId, next: TaskId, common: GroupId) {
        let mut entity = self.entities.of_task(next);
        loop {
            self.set_next_entity(cpu, entity);
            let group = self.group_of(entity);
            match self.groups.entity(group, cpu) {
                Some(above) if group != common => entity = above,
                _ => return,
            }
        }
    }

    /// The group nearest to the root whose queue both tasks' entities meet in (fair.c:find_matching_se()), and these.
    pub(crate) fn meet(&self, cpu: CpuId, one: TaskId, other: TaskId) -> (GroupId, u32, u32) {
        let (mut a, mut b) = (self.entities.of_task(one), self.entities.of_task(other));
        loop {
            let (in_a, in_b) = (self.group_of(a), self.group_of(b));
            if in_a == in_b {
                return (in_a, a, b);
            }
            // A group's number is above that of the one that it is in.
            let lower = if in_a.0 > in_b.0 { &mut a } else { &mut b };
            *lower = self.groups.entity(in_a.max(in_b), cpu).unwrap_or(*lower);
        }
    }

    /// fair.c:task_tick_fair(), its walk.
    #[inline(never)]
    pub(super) fn tick_in_groups(&mut self, cpu: CpuId, curr: TaskId) {
        let mut entity = self.entities.of_task(curr);
        loop {
            let (group, now) = (self.group_of(entity), self.cpus[cpu].clk.clock_task);
            fair_of(&mut self.cpus, &mut self.groups, group, cpu).tick(&mut self.entities, now);
            self.charge_quota(group, cpu);
            self.update_entity_avg(cpu, entity, false);
            self.update_cfs_group(cpu, entity);
            self.take_resched(group, cpu);
            match self.groups.entity(group, cpu) {
                Some(above) => entity = above,
                None => return,
            }
        }
    }

    #[inline]
    fn take_resched(&mut self, group: GroupId, cpu: CpuId) {
        if self.fair_rq(group, cpu).take_resched() {
            self.resched_cpu(cpu);
        }
    }

    /// Takes the wishes of a task's queues to reschedule to the CPU.
    #[inline(always)]
    pub(super) fn take_resched_of(&mut self, cpu: CpuId, task: TaskId) {
        if !self.groups.any() {
            return self.propagate_resched(cpu);
        }
        self.take_resched_in_groups(cpu, task);
    }

    #[inline(never)]
    fn take_resched_in_groups(&mut self, cpu: CpuId, task: TaskId) {
        let mut group = self.tasks[task].group;
        loop {
            self.take_resched(group, cpu);
            if group == GroupId::ROOT {
                return;
            }
            group = self.groups[group].parent;
        }
    }

    /// fair.c:check_preempt_wakeup_fair().
    #[inline(never)]
    pub(super) fn check_preempt_in_groups(&mut self, cpu: CpuId, woken: TaskId) -> bool {
        let curr = self.cpus[cpu].curr;
        let stands = self.stops_at_queue(self.tasks[woken].group, cpu, Groups::in_throttled);
        if stands || curr == TaskId::IDLE || curr == woken {
            return false;
        }
        let (group, se, pse) = self.meet(cpu, curr, woken);
        let is_idle = |entity: u32| self.entities[entity as usize].is_idle_policy();
        let special = self.entities[woken].policy != opplab_kernel::sched::entity::FairPolicy::Normal;
        if special && (!is_idle(se) || is_idle(pse)) {
            return false;
        }
        let now = self.cpus[cpu].clk.clock_task;
        fair_of(&mut self.cpus, &mut self.groups, group, cpu).check_preempt_wakeup(&mut self.entities, now, pse);
        self.charge_quota(group, cpu);
        self.fair_rq(group, cpu).take_resched()
    }

    /// The running task of `cpu` gives way to another of the fair class: only the queues below the one where both meet change.
    #[inline]
    pub(crate) fn switch_in_groups(&mut self, cpu: CpuId, prev: TaskId, next: TaskId) -> bool {
        if !self.groups.any() {
            return false;
        }
        let fair = |task: TaskId| task != TaskId::IDLE && self.tasks[task].class == Class::Fair;
        if !fair(prev) || !fair(next) || self.tasks[prev].life == Life::Dead {
            return false;
        }
        let (common, ..) = self.meet(cpu, prev, next);
        self.put_prev_in_groups(cpu, prev, common);
        self.take_resched_of(cpu, prev);
        self.balancer.lists.move_to_head(cpu.index(), next.0);
        self.set_next_in_groups(cpu, next, common);
        self.update_misfit_status(cpu, Some(next));
        self.tasks[next].exec_start_ns = self.now;
        true
    }
}
