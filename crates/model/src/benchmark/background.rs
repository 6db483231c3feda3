//! What a system does beside the workload: tasks that sleep and run as those of an idle system did.

use super::shape::{Program, cycles_ns, start_ns};
use crate::machine::Machine;
use crate::workload::{Op, TaskSpec, Workload};

/// Background tasks, learnt from a recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Background {
    /// CPUs of the machine that was recorded.
    pub nr_cpus: u32,
    /// What ran on them.
    pub tasks: Vec<BackgroundTask>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// Its name.
    pub name: String,
    /// The one CPU that it may use; `None`: all.
    pub cpu: Option<u32>,
    /// How long it sleeps, one after the other, in ns.
    pub wait_ns: Vec<u64>,
    /// What it does then, drawn as from a deck of cards, in cycles of the machine's biggest CPU.
    pub cycles: Vec<u64>,
}

/// The recorded CPU whose threads `cpu` has: on a machine with more CPUs than were recorded those besides the first repeat.
fn recorded(cpu: u32, nr_cpus: u32) -> u32 {
    if cpu < nr_cpus || nr_cpus < 2 { cpu.min(nr_cpus.saturating_sub(1)) } else { 1 + (cpu - 1) % (nr_cpus - 1) }
}

impl Background {
    /// Adds the tasks to a workload of `machine`, behind its own. They begin at times drawn from the seed.
    pub fn add_to(&self, workload: &mut Workload, machine: &Machine, seed: u64) {
        for task in &self.tasks {
            let Some(cpu) = task.cpu else {
                self.add(workload, machine, seed, task, None);
                continue;
            };
            for place in (0..machine.nr_cpus() as u32).filter(|&place| recorded(place, self.nr_cpus) == cpu) {
                self.add(workload, machine, seed, task, Some(place));
            }
        }
    }

    fn add(&self, workload: &mut Workload, machine: &Machine, seed: u64, task: &BackgroundTask, cpu: Option<u32>) {
        let draw = workload.draws.len() as u32;
        workload.draws.push(task.cycles.iter().map(|&cycles| cycles_ns(machine, cycles).max(1)).collect());
        let program = Program::of(|program| {
            program.forever(|program| {
                for &ns in &task.wait_ns {
                    program.op(Op::Sleep { ns }).draw(draw, 0);
                }
            });
        });
        let cpus = cpu.map(|cpu| {
            workload.cpu_sets.push(vec![cpu]);
            workload.cpu_sets.len() as u32 - 1
        });
        let mean_ns = task.wait_ns.iter().sum::<u64>() / task.wait_ns.len().max(1) as u64;
        workload.tasks.push(TaskSpec {
            delay_ns: start_ns(seed, 1_000_000 + u64::from(workload.nr_background), mean_ns),
            cpus,
            spawn_cpu: cpu,
            seasoned: true,
            ..program.task(task.name.clone())
        });
        workload.nr_background += 1;
    }
}

/// The workload whose background tasks of offline CPUs may use all others, as the workers of a CPU that goes may
/// (workqueue.c:unbind_workers(), v6.12); `None` if there are none.
pub fn moved_off_offline(workload: &Workload, machine: &Machine, online: impl Fn(u32) -> bool) -> Option<Workload> {
    let background = &workload.tasks[workload.nr_own()..];
    let is_off = |set: &u32| !workload.cpu_sets[*set as usize].iter().any(|&cpu| online(cpu));
    let off: Vec<u32> = background.iter().filter_map(|task| task.cpus).filter(is_off).collect();
    if off.is_empty() {
        return None;
    }
    let others: Vec<u32> = (0..machine.nr_cpus() as u32).filter(|&cpu| online(cpu)).collect();
    let mut moved = workload.clone();
    for set in off {
        moved.cpu_sets[set as usize].clone_from(&others);
    }
    Some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_cpu_repeat_on_more_cpus() {
        assert_eq!((0..9).map(|cpu| recorded(cpu, 4)).collect::<Vec<_>>(), [0, 1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!((0..3).map(|cpu| recorded(cpu, 1)).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
