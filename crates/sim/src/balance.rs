//! Load balance: periodic, newly idle, on behalf of idle CPUs, and the push of misfit tasks.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{IDLE_TASK, PlacementRule, Sink, TaskIdx};

use crate::engine::{Engine, Interrupt};
use crate::task::Class;

/// Period of updates of the blocked load of idle CPUs (fair.c: LOAD_AVG_PERIOD ms).
const BLOCKED_PERIOD_NS: u64 = 32_000_000;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// fair.c:sched_balance_newidle(): pulls a task for a CPU that runs out of work; returns whether it did.
    pub(crate) fn newidle_balance(&mut self, cpu: u32, _prev: TaskIdx) -> bool {
        self.update_misfit_status(cpu, None);
        self.update_blocked_averages(cpu);
        self.update_cpu_capacity(cpu);
        self.update_overutilized();
        if self.eas.is_some() && !self.overutilized {
            return false;
        }
        self.pull_one(cpu)
    }

    /// Clears (or sets) the overutilised state from all CPUs, as the statistics of the top domain do.
    fn update_overutilized(&mut self) {
        if self.eas.is_some() {
            let any = (0..self.cpus.len() as u32).any(|cpu| self.cpu_overutilized(cpu));
            self.set_overutilized(any);
        }
    }

    /// Pulls one waiting fair task from the CPU with most of them.
    fn pull_one(&mut self, cpu: u32) -> bool {
        let mut busiest = None;
        let mut most = 1;
        for other in 0..self.cpus.len() as u32 {
            let nr = self.cpus[other as usize].fair.nr_queued();
            if other != cpu && nr > most {
                most = nr;
                busiest = Some(other);
            }
        }
        let Some(src) = busiest else { return false };
        let curr = self.cpus[src as usize].curr;
        for task in self.cpus[src as usize].fair.waiting() {
            let allowed = self.masks[self.tasks[task as usize].allowed as usize].as_set();
            if task == curr || !allowed.contains(cpu as usize) || self.entities[task as usize].sched_delayed {
                continue;
            }
            self.pull(task, src, cpu, PlacementRule::Balance);
            return true;
        }
        false
    }

    fn pull(&mut self, task: TaskIdx, src: u32, dest: u32, rule: PlacementRule) {
        if self.cpus[src as usize].idle.is_awake() {
            self.account(src);
        }
        self.update_rq_clock(src);
        self.detach_queued(src, task);
        self.move_queued(task, src, dest, rule);
    }

    /// fair.c:sched_balance_trigger(): at each tick.
    pub(crate) fn trigger_load_balance(&mut self, cpu: u32) {
        let c = cpu as usize;
        self.update_cpu_capacity(cpu);
        if self.cpus[c].curr != IDLE_TASK && self.now >= self.nohz_next_blocked_ns {
            self.nohz_next_blocked_ns = self.now + BLOCKED_PERIOD_NS;
            self.update_idle_blocked();
        }
        if self.now >= self.cpus[c].next_balance_ns {
            let busy = self.cpus[c].curr != IDLE_TASK;
            let weight = self.cpus.len() as u64;
            self.cpus[c].next_balance_ns = self.now + weight * 1_000_000 * if busy { 16 } else { 1 };
            self.update_overutilized();
            if !busy && (self.eas.is_none() || self.overutilized) {
                self.pull_one(cpu);
            }
        }
        // nohz_balancer_kick().
        let busy = self.cpus[c].nr_running >= 2 || self.cpus[c].misfit_task_load > 0;
        if busy && (self.eas.is_none() || self.overutilized) {
            let ilb = self.idle_mask.as_set().iter().next();
            if self.cpus[c].misfit_task_load > 0 && self.push_misfit(cpu) {
                return;
            }
            if let Some(ilb) = ilb {
                let here = self.here;
                self.interrupt(ilb as u32, Interrupt::NohzBalance);
                self.here = here;
            }
        }
    }

    /// fair.c:nohz_idle_balance(): an idle CPU balances for itself and the other idle ones.
    pub(crate) fn nohz_idle_balance(&mut self, cpu: u32) {
        self.update_idle_blocked();
        self.update_overutilized();
        if self.eas.is_some() && !self.overutilized {
            return;
        }
        if self.cpus[cpu as usize].nr_running == 0 {
            self.pull_one(cpu);
        }
    }

    /// Decays what sleeps on idle CPUs (fair.c:update_nohz_stats()).
    fn update_idle_blocked(&mut self) {
        for other in 0..self.cpus.len() as u32 {
            if self.cpus[other as usize].is_idle() {
                self.update_blocked_averages(other);
            }
        }
    }

    /// Active balance of a misfit task to a bigger idle CPU (stopper thread: the running task is pushed).
    fn push_misfit(&mut self, cpu: u32) -> bool {
        let curr = self.cpus[cpu as usize].curr;
        if curr == IDLE_TASK || self.tasks[curr as usize].class != Class::Fair {
            return false;
        }
        let capacity = self.cpus[cpu as usize].capacity_of;
        let allowed = self.masks[self.tasks[curr as usize].allowed as usize].as_set();
        let dest = self
            .idle_mask
            .as_set()
            .iter()
            .filter(|&other| allowed.contains(other) && self.cpus[other].capacity_of * 1024 > capacity * 1078)
            .max_by_key(|&other| (self.cpus[other].capacity_of, std::cmp::Reverse(other)));
        let Some(dest) = dest else { return false };
        self.account(cpu);
        self.update_rq_clock(cpu);
        self.put_prev_task_fair(cpu, curr);
        self.detach_queued(cpu, curr);
        self.detached_current(cpu);
        self.move_queued(curr, cpu, dest as u32, PlacementRule::Misfit);
        self.resched_cpu(cpu);
        true
    }
}
