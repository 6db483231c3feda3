//! Who used the energy that the machine's meters show: each CPU's goes to the task that it runs, what a cluster's CPUs
//! share goes in equal parts to the tasks that run on them, the rest is nobody's.
//!
//! The powers are the meters' own, so that the sums are theirs, femtojoule for femtojoule. `opplab trace energy` does the
//! same from a trace's events alone; this is what it is held against.

use opplab_model::event::{Event, IDLE_TASK, Metered, Sink};
use opplab_model::machine::Machine;

/// A task's energy in fJ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Of the CPUs while it ran.
    pub cpu_fj: u128,
    /// Of what clusters share.
    pub shared_fj: u128,
}

impl Used {
    /// Both together.
    pub fn total_fj(&self) -> u128 {
        self.cpu_fj + self.shared_fj
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    power_uw: u64,
    since_ns: u64,
}

impl Meter {
    /// The energy up to `now_ns` that was not taken yet, fJ; what was before `from_ns` does not count.
    fn take(&mut self, now_ns: u64, from_ns: u64) -> u128 {
        let since_ns = std::mem::replace(&mut self.since_ns, now_ns).max(from_ns);
        let ns = now_ns.saturating_sub(since_ns);
        u128::from(self.power_uw) * u128::from(ns)
    }
}

/// Keeps the energy of each task of a run.
#[derive(Debug, Clone)]
pub struct TaskEnergy {
    from_ns: u64,
    clusters: Vec<Vec<u32>>,
    cluster_of: Vec<usize>,
    curr: Vec<u32>,
    cpus: Vec<Meter>,
    shared: Vec<Meter>,
    tasks: Vec<Used>,
    nobody: Used,
}

impl TaskEnergy {
    /// Nothing has run yet.
    pub fn new(machine: &Machine) -> Self {
        Self::from(machine, 0)
    }

    /// Keeps what is used from `from_ns` on.
    pub fn from(machine: &Machine, from_ns: u64) -> Self {
        Self {
            from_ns,
            clusters: machine.clusters.iter().map(|cluster| cluster.cpus.clone()).collect(),
            cluster_of: machine.cpus.iter().map(|cpu| cpu.cluster as usize).collect(),
            curr: vec![IDLE_TASK; machine.nr_cpus()],
            cpus: vec![Meter::default(); machine.nr_cpus()],
            shared: vec![Meter::default(); machine.clusters.len()],
            tasks: Vec::new(),
            nobody: Used::default(),
        }
    }

    fn task(&mut self, task: u32) -> &mut Used {
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Used::default());
        }
        &mut self.tasks[index]
    }

    fn settle_cpu(&mut self, cpu: usize, now_ns: u64) {
        let fj = self.cpus[cpu].take(now_ns, self.from_ns);
        match self.curr[cpu] {
            IDLE_TASK => self.nobody.cpu_fj += fj,
            task => self.task(task).cpu_fj += fj,
        }
    }

    fn settle_shared(&mut self, cluster: usize, now_ns: u64) {
        let fj = self.shared[cluster].take(now_ns, self.from_ns);
        if fj == 0 {
            return;
        }
        let running = self.clusters[cluster].iter().map(|&cpu| self.curr[cpu as usize]);
        let tasks: Vec<u32> = running.filter(|&task| task != IDLE_TASK).collect();
        let Some(part) = fj.checked_div(tasks.len() as u128) else {
            self.nobody.shared_fj += fj;
            return;
        };
        let rest = fj - part * tasks.len() as u128;
        for (nth, task) in (0u128..).zip(tasks) {
            // The first have the rest of the division.
            self.task(task).shared_fj += part + u128::from(nth < rest);
        }
    }

    /// What a task used up to `now_ns` that was not taken yet.
    pub(crate) fn take(&mut self, now_ns: u64, task: u32) -> Used {
        for cpu in 0..self.cpus.len() {
            if self.curr[cpu] == task {
                self.settle_cpu(cpu, now_ns);
                self.settle_shared(self.cluster_of[cpu], now_ns);
            }
        }
        std::mem::take(self.task(task))
    }

    /// What each task used up to `end_ns`, and what was nobody's.
    pub fn finish(mut self, end_ns: u64) -> (Vec<Used>, Used) {
        for cpu in 0..self.cpus.len() {
            self.settle_cpu(cpu, end_ns);
        }
        for cluster in 0..self.shared.len() {
            self.settle_shared(cluster, end_ns);
        }
        (self.tasks, self.nobody)
    }
}

impl Sink for TaskEnergy {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::SchedSwitch { cpu, next, .. } = *event {
            let cpu = cpu as usize;
            self.settle_cpu(cpu, now_ns);
            self.settle_shared(self.cluster_of[cpu], now_ns);
            self.curr[cpu] = next;
        }
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        match metered {
            Metered::Cpu(cpu) => {
                self.settle_cpu(cpu as usize, now_ns);
                self.cpus[cpu as usize].power_uw = power_uw;
            }
            Metered::Shared(cluster) => {
                self.settle_shared(cluster as usize, now_ns);
                self.shared[cluster as usize].power_uw = power_uw;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_model::event::TaskState;
    use opplab_model::file::parse_machine;

    const MACHINE: &str = r#"format = 1
        name = "two"
        [[driver]]
        name = "scmi"
        transition_latency_us = 100
        fast_switch = true
        [[cluster]]
        name = "c"
        cpus = "0-1"
        capacity = 1024
        opp = [{ khz = 1000000, mw = 100 }]
        idle = [{ name = "WFI", mw = 5, exit_latency_us = 1, target_residency_us = 1 }]
    "#;

    #[test]
    fn the_shared_part_is_divided_among_those_that_run() {
        let machine = parse_machine("two.toml", MACHINE).expect("a machine");
        let mut sink = TaskEnergy::new(&machine);
        let switch = |cpu, prev, next| Event::SchedSwitch { cpu, prev, prev_state: TaskState::Running, next };
        sink.power(0, Metered::Shared(0), 7);
        sink.power(0, Metered::Cpu(0), 100);
        sink.event(0, &switch(0, IDLE_TASK, 3));
        sink.power(10, Metered::Cpu(1), 50);
        sink.event(10, &switch(1, IDLE_TASK, 1));
        sink.event(15, &switch(0, 3, IDLE_TASK));
        sink.power(15, Metered::Cpu(0), 5);
        sink.event(20, &switch(1, 1, IDLE_TASK));
        let (tasks, nobody) = sink.finish(30);
        // From 10 to 15 both share 35 fJ: 18 and 17.
        assert_eq!(tasks[3], Used { cpu_fj: 15 * 100, shared_fj: 10 * 7 + 18 });
        assert_eq!(tasks[1], Used { cpu_fj: 10 * 50, shared_fj: 17 + 5 * 7 });
        assert_eq!(nobody, Used { cpu_fj: 15 * 5 + 10 * 50, shared_fj: 10 * 7 });
    }
}
