//! Pressure of CPUs by control group and of the whole machine, as the kernel of the run would show it (`cpu.pressure`,
//! `/proc/pressure/cpu`). The arithmetic is crate `kernel`'s; here is which task is in which state.

use opplab_kernel::profile::CpuPressure;
use opplab_kernel::sched::psi::{Change, PsiGroup, PsiLine, psi_freq};
use opplab_kernel::timer_wheel::wheel_expiry;
use opplab_kernel::unit::tick_nsec;
use opplab_model::event::{Event, IDLE_TASK, QueueChange, Sink, TaskState};

use crate::Case;
use crate::run::cpu::BOOT_NS;

/// What `cpu.pressure` has: `some` and `full`.
pub type Pressure = [PsiLine; 2];

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    /// Below the workload's groups: its own one.
    group: Option<u32>,
    running_on: Option<u32>,
    iowait_on: Option<u32>,
    on_cpu: Option<u32>,
    in_iowait: bool,
}

/// Keeps the pressure of a run.
#[derive(Debug)]
pub struct Psi {
    hz: u64,
    parents: Vec<Option<u32>>,
    /// The whole machine, then the workload's groups, with when the work is due that samples them.
    groups: Vec<(PsiGroup, Option<u64>)>,
    next_work_ns: u64,
    tasks: Vec<Task>,
    /// When what counts begins, and the sums up to then.
    from_ns: u64,
    before: Option<Vec<Pressure>>,
}

impl Psi {
    /// Nothing has run yet; `None`: the kernel of the case has no PSI.
    pub fn new(case: &Case) -> Option<Self> {
        let rule = case.policy.profile().map_or(CpuPressure::Absent, |profile| profile.cpu_pressure);
        if rule == CpuPressure::Absent {
            return None;
        }
        let hz = u64::from(case.policy.hz);
        let group = PsiGroup::new(rule, hz, case.machine.nr_cpus(), 0);
        Some(Self {
            hz,
            parents: case.workload.groups.iter().map(|group| group.parent).collect(),
            groups: vec![(group, None); case.workload.groups.len() + 1],
            next_work_ns: u64::MAX,
            tasks: Vec::new(),
            from_ns: case.workload.warmup_ns,
            before: None,
        })
    }

    /// The time of the timer that is armed at `now_ns` for so many jiffies later.
    fn timer_ns(&self, now_ns: u64, delay: u64) -> u64 {
        let tick_ns = tick_nsec(self.hz);
        wheel_expiry((now_ns + BOOT_NS) / tick_ns, delay) * tick_ns - BOOT_NS
    }

    /// Does what is due up to `now_ns`.
    fn work(&mut self, now_ns: u64) {
        while self.next_work_ns <= now_ns {
            let due_ns = self.next_work_ns;
            for index in 0..self.groups.len() {
                let (group, due) = &mut self.groups[index];
                if *due == Some(due_ns) {
                    let again = group.work(due_ns);
                    self.groups[index].1 = again.map(|delay| self.timer_ns(due_ns, delay));
                }
            }
            self.next_work_ns = self.groups.iter().filter_map(|&(_, due)| due).min().unwrap_or(u64::MAX);
        }
    }

    /// Up to now, and over the end of the warm-up.
    fn go_on(&mut self, now_ns: u64) {
        if self.before.is_none() && now_ns >= self.from_ns {
            self.before = Some(self.show(self.from_ns));
        }
        self.work(now_ns);
    }

    fn show(&mut self, now_ns: u64) -> Vec<Pressure> {
        self.work(now_ns);
        self.groups.iter_mut().map(|(group, _)| group.show(now_ns)).collect()
    }

    fn task(&mut self, task: u32) -> &mut Task {
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Task::default());
        }
        &mut self.tasks[index]
    }

    /// kernel/sched/psi.c:psi_task_change(), v6.12: in the task's group, those above, and the machine.
    fn change(&mut self, now_ns: u64, task: u32, cpu: u32, change: Change) {
        let mut at = self.task(task).group;
        loop {
            let index = at.map_or(0, |group| group as usize + 1);
            self.groups[index].0.change(cpu as usize, now_ns, change);
            if self.groups[index].1.is_none() {
                let due_ns = self.timer_ns(now_ns, psi_freq(self.hz));
                self.groups[index].1 = Some(due_ns);
                self.next_work_ns = self.next_work_ns.min(due_ns);
            }
            match at {
                None => return,
                Some(group) => at = self.parents[group as usize],
            }
        }
    }

    /// kernel/sched/psi.c:cgroup_move_task(), v6.12: what the task counts as goes with it to another group.
    fn move_task(&mut self, now_ns: u64, task: u32, group: Option<u32>) {
        let state = *self.task(task);
        if state.group == group {
            return;
        }
        for (is_in, sign) in [(false, -1), (true, 1)] {
            if is_in {
                self.task(task).group = group;
            }
            let counts = [
                (state.running_on, Change { running: sign, ..Change::default() }),
                (state.iowait_on, Change { iowait: sign, ..Change::default() }),
                (state.on_cpu, Change { oncpu: Some(is_in), ..Change::default() }),
            ];
            for (cpu, change) in counts {
                if let Some(cpu) = cpu {
                    self.change(now_ns, task, cpu, change);
                }
            }
        }
    }

    fn ends_iowait(&mut self, now_ns: u64, task: u32) {
        if let Some(cpu) = self.task(task).iowait_on.take() {
            self.change(now_ns, task, cpu, Change { iowait: -1, ..Change::default() });
        }
    }

    fn stops_running(&mut self, now_ns: u64, task: u32) {
        if let Some(cpu) = self.task(task).running_on.take() {
            self.change(now_ns, task, cpu, Change { running: -1, ..Change::default() });
        }
    }

    fn begins_iowait(&mut self, now_ns: u64, task: u32, cpu: u32) {
        self.task(task).iowait_on = Some(cpu);
        self.change(now_ns, task, cpu, Change { iowait: 1, ..Change::default() });
    }

    /// The pressure of the machine and of each group at the end of the run; sums are those since the warm-up.
    pub fn finish(mut self, end_ns: u64) -> (Pressure, Vec<Pressure>) {
        self.go_on(end_ns);
        let mut lines = self.show(end_ns);
        for (now, before) in lines.iter_mut().flatten().zip(self.before.iter().flatten().flatten()) {
            now.total_ns -= before.total_ns;
        }
        // Undefined for the machine, where the file has zeroes.
        lines[0][1] = PsiLine::default();
        let machine = lines.remove(0);
        (machine, lines)
    }
}

impl Sink for Psi {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            // kernel/sched/psi.c:psi_task_switch(), v6.12.
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                self.go_on(now_ns);
                if prev != IDLE_TASK {
                    self.task(prev).on_cpu = None;
                    self.change(now_ns, prev, cpu, Change { oncpu: Some(false), ..Change::default() });
                    if prev_state != TaskState::Running {
                        self.stops_running(now_ns, prev);
                        let in_iowait = prev_state == TaskState::Uninterruptible;
                        self.task(prev).in_iowait = in_iowait;
                        if in_iowait {
                            self.begins_iowait(now_ns, prev, cpu);
                        }
                    }
                }
                if next != IDLE_TASK {
                    self.task(next).on_cpu = Some(cpu);
                    self.change(now_ns, next, cpu, Change { oncpu: Some(true), ..Change::default() });
                }
            }
            // kernel/sched/stats.h:psi_ttwu_dequeue(), v6.12.
            Event::SchedMigrateTask { task, .. } => {
                self.go_on(now_ns);
                self.ends_iowait(now_ns, task);
            }
            _ => {}
        }
    }

    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange) {
        self.go_on(now_ns);
        self.move_task(now_ns, task, group);
        match change {
            QueueChange::In => {
                self.ends_iowait(now_ns, task);
                self.task(task).in_iowait = false;
                if self.task(task).running_on.is_none() {
                    self.task(task).running_on = Some(cpu);
                    self.change(now_ns, task, cpu, Change { running: 1, ..Change::default() });
                }
            }
            QueueChange::Out => self.stops_running(now_ns, task),
            QueueChange::Asleep => {
                if self.task(task).in_iowait && self.task(task).iowait_on.is_none() {
                    self.begins_iowait(now_ns, task, cpu);
                }
            }
        }
    }
}
