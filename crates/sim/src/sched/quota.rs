//! Quotas of task groups (`cpu.max`): when a queue's runtime is charged, taken and given back, and what throttling does to run
//! queues (kernel/sched/fair.c, CFS bandwidth control). The arithmetic is crate `kernel`'s.
//!
//! ```text
//!   to v6.17:  out of runtime ─► the queue leaves the one above, with all its tasks ─► it comes back with them
//!   v6.18:     out of runtime ─► a task is picked all the same, works for the kernel and stops as it returns to user space ─►
//!                                the next is picked, ... ─► those that stopped are queued again, the last one first
//! ```
//! Where a task works for the kernel, and is not to be stopped: in the CPU's own overhead (switches, wake-ups), and in an op that
//! waits for its end.

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::sched::cfs_bandwidth::{SLACK_PERIOD_NS, SLICE_NS};
use opplab_kernel::sched::eevdf::Dequeue;
use opplab_model::decision::Decision;
use opplab_model::event::Sink;

use crate::ids::{CpuId, GroupId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Enqueue};
use crate::run::timers::TimerKind;
use crate::sched::fair_rq::Count;
use crate::sched::groups::Groups;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Charges the quota of `group` with what its queue on `cpu` ran; a queue that has run out and gets nothing reschedules
    /// (fair.c:__account_cfs_rq_runtime()).
    pub(super) fn charge_quota(&mut self, group: GroupId, cpu: CpuId) {
        if group == GroupId::ROOT {
            return;
        }
        let queue = self.groups.queue_mut(group, cpu);
        let ran_ns = queue.fair.exec_ns() - queue.charged_ns;
        queue.charged_ns += ran_ns;
        if !queue.bandwidth.enabled {
            return;
        }
        queue.bandwidth.remaining_ns -= ran_ns as i64;
        if ran_ns > 0 {
            self.ensure_quota(group, cpu);
        }
    }

    /// fair.c:account_cfs_rq_runtime() of no time.
    pub(super) fn ensure_quota(&mut self, group: GroupId, cpu: CpuId) {
        if group == GroupId::ROOT {
            return;
        }
        let queue = self.groups.queue(group, cpu);
        let bandwidth = queue.bandwidth;
        if !bandwidth.enabled || bandwidth.remaining_ns > 0 || bandwidth.throttled {
            return;
        }
        let runs = queue.fair.curr().is_some();
        if !self.assign_quota(group, cpu, SLICE_NS) && runs {
            self.resched_cpu(cpu);
        }
    }

    /// fair.c:__assign_cfs_rq_runtime(): starts the period timer, too.
    fn assign_quota(&mut self, group: GroupId, cpu: CpuId, target_ns: u64) -> bool {
        let (state, queue) = self.groups.both_mut(group, cpu);
        let enough = state.bandwidth.assign(&mut queue.bandwidth, target_ns);
        self.start_period(group);
        enough
    }

    /// fair.c:start_cfs_bandwidth(): the timer is that of the CPU that starts it.
    fn start_period(&mut self, group: GroupId) {
        let now = self.now;
        let state = &mut self.groups[group];
        if state.bandwidth.quota_ns.is_none() || state.bandwidth.period_active {
            return;
        }
        state.bandwidth.period_active = true;
        let expires_ns = state.forward(now).0;
        self.add_timer(self.here, expires_ns, TimerKind::CfsPeriod(group));
    }

    /// fair.c:sched_cfs_period_timer().
    pub(crate) fn cfs_period_timer(&mut self, cpu: CpuId, group: GroupId) {
        let now = self.now;
        let state = &mut self.groups[group];
        let (expires_ns, overrun) = state.forward(now);
        let any_throttled = !state.throttled.is_empty();
        if !state.bandwidth.period_ends(overrun, any_throttled) {
            state.bandwidth.period_active = false;
            return;
        }
        self.distribute_quota(cpu, group);
        self.add_timer(cpu, expires_ns, TimerKind::CfsPeriod(group));
    }

    /// fair.c:do_sched_cfs_slack_timer().
    pub(crate) fn cfs_slack_timer(&mut self, cpu: CpuId, group: GroupId) {
        let now = self.now;
        let state = &mut self.groups[group];
        let left_ns = state.period_expires_ns.saturating_sub(now);
        if state.bandwidth.slack_ends(left_ns) {
            self.distribute_quota(cpu, group);
        }
    }

    /// fair.c:distribute_cfs_runtime(): the CPU's own queue comes last.
    fn distribute_quota(&mut self, cpu: CpuId, group: GroupId) {
        let mut own = false;
        for on in self.groups[group].throttled.clone() {
            let (state, queue) = self.groups.both_mut(group, on);
            if state.bandwidth.runtime_ns == 0 {
                break;
            }
            if !state.bandwidth.distribute(&mut queue.bandwidth) {
                continue;
            }
            if on == cpu {
                own = true;
            } else {
                self.unthrottle(group, on);
            }
        }
        if own {
            self.unthrottle(group, cpu);
        }
    }

    /// fair.c:return_cfs_rq_runtime(): the queue is empty.
    pub(super) fn return_quota(&mut self, group: GroupId, cpu: CpuId) {
        if group == GroupId::ROOT || !self.groups.queue(group, cpu).bandwidth.enabled {
            return;
        }
        let now = self.now;
        let (state, queue) = self.groups.both_mut(group, cpu);
        let any_throttled = !state.throttled.is_empty();
        let left_ns = state.period_expires_ns.saturating_sub(now);
        if state.bandwidth.return_runtime(&mut queue.bandwidth, any_throttled) && state.bandwidth.start_slack(left_ns) {
            self.add_timer(self.here, now + SLACK_PERIOD_NS, TimerKind::CfsSlack(group));
        }
    }

    /// fair.c:check_enqueue_throttle(): a queue that was empty has a task; `uncounted` of its tasks are not counted above.
    pub(super) fn check_enqueue_throttle(&mut self, group: GroupId, cpu: CpuId, uncounted: Count) {
        if group == GroupId::ROOT {
            return;
        }
        let queue = self.groups.queue(group, cpu);
        if !queue.bandwidth.enabled || queue.bandwidth.throttled || queue.fair.curr().is_some() {
            return;
        }
        self.ensure_quota(group, cpu);
        if self.groups.queue(group, cpu).bandwidth.remaining_ns <= 0 {
            self.throttle(group, cpu, uncounted);
        }
    }

    /// fair.c:check_cfs_rq_runtime(): whether the queue may not run.
    pub(super) fn check_quota(&mut self, group: GroupId, cpu: CpuId) -> bool {
        if group == GroupId::ROOT {
            return false;
        }
        let bandwidth = self.groups.queue(group, cpu).bandwidth;
        if !bandwidth.enabled || bandwidth.remaining_ns > 0 {
            return false;
        }
        bandwidth.throttled || self.throttle(group, cpu, Count::default())
    }

    /// Whether a walk through the groups ends at the queue of `group`, since throttling stops queues and `is_so` of this one.
    pub(super) fn stops_at_queue(
        &self,
        group: GroupId,
        cpu: CpuId,
        is_so: impl Fn(&Groups, GroupId, CpuId) -> bool,
    ) -> bool {
        !self.gates.throttle_tasks && is_so(&self.groups, group, cpu)
    }

    /// fair.c:throttled_lb_pair(), to v6.17: whether tasks of `group` stay where they are, as it is throttled there or here.
    pub(super) fn throttled_lb_pair(&self, group: GroupId, src: CpuId, dst: CpuId) -> bool {
        [src, dst].into_iter().any(|cpu| self.stops_at_queue(group, cpu, Groups::in_throttled))
    }

    /// fair.c:throttle_cfs_rq(), v6.12 and v6.18; `uncounted` of its tasks are not counted above.
    fn throttle(&mut self, group: GroupId, cpu: CpuId, uncounted: Count) -> bool {
        if self.assign_quota(group, cpu, 1) {
            return false;
        }
        self.groups[group].throttled.push(cpu);
        // tg_throttle_down(): the PELT clocks of its queue and of those below stand still, from v6.18 on those of empty queues.
        let clock_pelt = self.cpus[cpu].clk.rq_clock_pelt();
        let stops_queue = !self.gates.throttle_tasks;
        for below in self.groups.ids().filter(|below| below.0 >= group.0) {
            if self.groups.is_within(below, group) {
                let queue = self.groups.queue_mut(below, cpu);
                if queue.throttle_count == 0 && (stops_queue || queue.fair.nr_entities() == 0) {
                    queue.stop_pelt(clock_pelt);
                }
                queue.throttle_count += 1;
            }
        }
        if stops_queue {
            self.leave_with_tasks(group, cpu, uncounted);
        }
        self.groups.queue_mut(group, cpu).bandwidth.throttled = true;
        self.record_throttle(group, cpu, true);
        if stops_queue && (!self.gates.throttled_with_task || self.groups.queue(group, cpu).fair.nr_entities() > 0) {
            self.record_throttle_clock(group, cpu);
        }
        self.update_idle_like(cpu);
        true
    }

    fn record_throttle(&mut self, group: GroupId, cpu: CpuId, throttled: bool) {
        if S::DECISIONS {
            self.record(Decision::Throttle { cpu: cpu.0, group: group.0 - 1, throttled });
        }
    }

    /// The queue of `group` leaves those above, with its tasks (fair.c:throttle_cfs_rq(), v6.12).
    fn leave_with_tasks(&mut self, group: GroupId, cpu: CpuId, uncounted: Count) {
        let mut count = self.groups.queue(group, cpu).fair.counts().less(uncounted).negated();
        let tasks = count;
        let mut entity = self.groups.entity(group, cpu);
        let mut leaves = true;
        let mut at_root = true;
        while let Some(se) = entity {
            let state = self.entities[se as usize];
            if !state.on_rq {
                at_root = false;
                break;
            }
            let above = self.groups[self.groups.of_entity(se)].parent;
            if leaves {
                self.dequeue_entity(cpu, se, Dequeue { sleep: true, special: true, delayed: state.sched_delayed });
            } else {
                self.refresh_entity(cpu, se);
            }
            if state.is_idle_policy() {
                count.idle = count.queued;
            }
            let queue = self.fair_rq(above, cpu);
            queue.count(count);
            leaves &= queue.load_weight() == 0;
            entity = self.groups.entity(above, cpu);
        }
        if at_root {
            let state = &mut self.cpus[cpu];
            state.nr_running = state.nr_running.wrapping_add_signed(tasks.queued - tasks.delayed);
        }
    }

    /// fair.c:unthrottle_cfs_rq(), v6.12 and v6.18.
    fn unthrottle(&mut self, group: GroupId, cpu: CpuId) {
        self.bring_up_to_date(cpu);
        let (clock, clock_pelt) = (self.cpus[cpu].clk.clock, self.cpus[cpu].clk.rq_clock_pelt());
        self.record_throttle(group, cpu, false);
        let (state, queue) = self.groups.both_mut(group, cpu);
        queue.bandwidth.throttled = false;
        state.bandwidth.throttled_time_ns +=
            queue.throttled_clock.take().map_or(0, |since| clock.saturating_sub(since));
        state.throttled.retain(|&on| on != cpu);
        // tg_unthrottle_up(): a group comes before the one that it is in.
        for below in self.groups.ids().rev().take_while(|below| below.0 >= group.0) {
            if self.groups.is_within(below, group) {
                let queue = self.groups.queue_mut(below, cpu);
                queue.throttle_count -= 1;
                if queue.throttle_count == 0 {
                    queue.resume_pelt(clock_pelt);
                    for task in std::mem::take(&mut queue.limbo).into_iter().rev() {
                        self.unthrottle_task(cpu, task);
                    }
                }
            }
        }
        if !self.gates.throttle_tasks {
            self.come_back_with_tasks(group, cpu);
        }
        if self.cpus[cpu].curr == TaskId::IDLE && self.cpus[cpu].fair.nr_entities() > 0 {
            self.resched_cpu(cpu);
        }
    }

    /// The queue of `group` joins those above again, with its tasks (fair.c:unthrottle_cfs_rq(), v6.12).
    fn come_back_with_tasks(&mut self, group: GroupId, cpu: CpuId) {
        let queue = self.groups.queue(group, cpu);
        let (tasks, is_empty) = (queue.fair.counts(), queue.fair.load_weight() == 0);
        let Some(entity) = self.groups.entity(group, cpu).filter(|_| !is_empty) else { return };
        let count = if self.groups[group].idle { Count { idle: tasks.queued, ..tasks } } else { tasks };
        if self.entities[entity as usize].sched_delayed {
            self.dequeue_entity(cpu, entity, Dequeue { sleep: true, special: false, delayed: true });
        }
        if self.enqueue_from(cpu, entity, Enqueue::Wakeup, count) {
            let state = &mut self.cpus[cpu];
            let more = (tasks.queued - tasks.delayed) as u32;
            state.nr_running += more;
            let nr_running = state.rq_nr_running();
            self.balancer.note_overload(nr_running, tasks.queued as u32);
            if more > 0 {
                self.idle_cpus.remove(cpu);
            }
            self.update_idle_like(cpu);
        }
    }

    // ---- task by task (v6.18) ----

    /// The running task returns to user space: it stops if its group has no quota; whether it did (fair.c:throttle_cfs_rq_work()).
    #[cold]
    pub(crate) fn throttle_on_return(&mut self, cpu: CpuId, task: TaskId) -> bool {
        self.tasks[task].throttle_work = false;
        let group = self.tasks[task].group;
        if self.tasks[task].class != Class::Fair || !self.groups.in_throttled(group, cpu) {
            return false;
        }
        self.account(cpu);
        self.update_rq_clock(cpu);
        self.tasks[task].throttled = true;
        self.dequeue_task_fair(cpu, task, true);
        self.cpus[cpu].nr_running -= 1;
        self.groups.queue_mut(group, cpu).limbo.push(task);
        self.update_idle_like(cpu);
        self.resched_cpu(cpu);
        true
    }

    /// A task that had stopped is queued again, without asking for the CPU.
    fn unthrottle_task(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task].throttled = false;
        self.balancer.note_overload(self.cpus[cpu].rq_nr_running() + 1, 1);
        self.cpus[cpu].nr_running += 1;
        self.idle_cpus.remove(cpu);
        self.enqueue_task_fair(cpu, task, Enqueue::Wakeup);
        self.update_idle_like(cpu);
    }

    /// From here on a throttled queue counts as such: it is stopped, or the first of its tasks is (v6.18).
    pub(super) fn record_throttle_clock(&mut self, group: GroupId, cpu: CpuId) {
        if self.groups.is_throttled(group, cpu) {
            let clock = self.cpus[cpu].clk.clock;
            self.groups.queue_mut(group, cpu).throttled_clock.get_or_insert(clock);
        }
    }

    /// fair.c:dequeue_entity(), v6.18: the PELT clock of a throttled queue stands still while it is empty.
    pub(super) fn queue_empties(&mut self, group: GroupId, cpu: CpuId) {
        if self.gates.throttle_tasks && self.groups.in_throttled(group, cpu) {
            let clock_pelt = self.cpus[cpu].clk.rq_clock_pelt();
            self.groups.queue_mut(group, cpu).stop_pelt(clock_pelt);
        }
    }

    /// fair.c:enqueue_entity(): the clocks of a throttled queue that was empty, PELT's from v6.18 on.
    pub(super) fn queue_fills(&mut self, group: GroupId, cpu: CpuId) {
        if group == GroupId::ROOT {
            return;
        }
        if self.gates.throttle_tasks {
            let clock_pelt = self.cpus[cpu].clk.rq_clock_pelt();
            self.groups.queue_mut(group, cpu).resume_pelt(clock_pelt);
        } else {
            self.record_throttle_clock(group, cpu);
        }
    }
}
