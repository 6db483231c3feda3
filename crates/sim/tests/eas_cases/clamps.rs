//! Utilisation clamps (LISA utilclamp.py): a task that asks for a performance in the middle between two OPPs, and uses
//! half of it, runs on a CPU that can grant it, at the frequency that grants it.
//!
//! LISA looks at the frequency when the task starts to run; here it is looked at when the task goes to sleep, since a
//! slow switch takes its time. v6.12 counts a task's clamp only after its class has asked for a frequency
//! (core.c:enqueue_task()), so that the boost comes with a later update, a tick or the rate limit away: a short
//! activation can end before it. That is the kernel's, so there a share of the activations may miss the frequency.

use opplab_model::event::{Event, Sink};
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, Workload};
use opplab_sim::{Case, run};

use crate::eas_cases::faithful;
use crate::eas_cases::machines::{classes, cluster_of_class, first_task, machines};
use crate::eas_cases::recipes::{PERIOD_NS, Phase, task};

/// Activations of a phase, and how many of them are left for settling.
const LOOPS: u32 = 60;
const SETTLING: u32 = 12;

/// Capacities at the OPPs of a class that lie above what smaller classes reach.
fn capacities(machine: &Machine, class: u32) -> Vec<u32> {
    let opps = &cluster_of_class(machine, class).opps;
    let most = u64::from(opps[opps.len() - 1].khz);
    let smaller = classes(machine).into_iter().filter(|&other| other < class).max().unwrap_or(0);
    let all = opps.iter().map(|opp| (u64::from(class) * u64::from(opp.khz) / most) as u32);
    all.filter(|&capacity| capacity > smaller).collect()
}

/// The clamps of the case: 80 % of the middle of the widest gaps of each class, eight at most.
fn clamps(machine: &Machine) -> Vec<u16> {
    let mut clamps = Vec::new();
    for class in classes(machine) {
        let capacities = capacities(machine, class);
        let mut gaps: Vec<(u32, u32)> = capacities.windows(2).map(|pair| (pair[0], pair[1])).collect();
        gaps.sort_by_key(|&(low, high)| std::cmp::Reverse(high - low));
        clamps.extend(gaps.iter().take(2).map(|&(low, high)| ((low + high) / 2 * 4 / 5) as u16));
    }
    clamps
}

/// Activations on a CPU that is too small, and at another frequency than asked for, of those judged; by phase.
#[derive(Debug)]
struct Clamped {
    task: u32,
    cpu: u32,
    phase: usize,
    loops: u32,
    khz: Vec<u32>,
    judged: Vec<u32>,
    small: Vec<u32>,
    wrong: Vec<u32>,
    /// Capacity of each CPU; of each phase: the clamp and the frequency by CPU.
    capacity: Vec<u32>,
    clamps: Vec<u32>,
    wanted_khz: Vec<Vec<u32>>,
}

impl Sink for Clamped {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        match *event {
            Event::CpuFrequency { cpu, khz } => self.khz[cpu as usize] = khz,
            Event::Activation { task, phase, .. } if task == self.task => {
                self.loops = if usize::from(phase) == self.phase { self.loops + 1 } else { 1 };
                self.phase = usize::from(phase);
                // The next loop belongs to the next phase.
                if self.loops == LOOPS {
                    (self.phase, self.loops) = (self.phase + 1, 0);
                }
            }
            Event::SchedSwitch { cpu, prev, prev_state, .. } if prev == self.task => {
                let sleeps = prev_state == opplab_model::event::TaskState::Interruptible;
                if !sleeps || self.loops < SETTLING || self.phase >= self.clamps.len() {
                    return;
                }
                let at = cpu as usize;
                self.cpu = cpu;
                self.judged[self.phase] += 1;
                let capacity = self.capacity[at];
                self.small[self.phase] += u32::from(capacity <= self.clamps[self.phase] && capacity < 1024);
                self.wrong[self.phase] += u32::from(self.khz[at] != self.wanted_khz[self.phase][at]);
            }
            _ => {}
        }
    }
}

/// Goal: clamps reach placement and frequency. Up to v6.7 schedutil adds its headroom to them, later not.
#[test]
fn clamps_decide_placement_and_frequency() {
    let mut failures = Vec::new();
    for (kernel, headroom, may_miss_percent) in [("6.1", 125, 0), ("6.6", 125, 0), ("6.12.117", 100, 50)] {
        for machine in machines() {
            let clamps = clamps(&machine);
            let mut ops = Vec::new();
            // Half of the clamp.
            let duty = |clamp: u16| f64::from(clamp) / 1024.0 * 100.0 / 2.0;
            let phases: Vec<Phase> =
                clamps.iter().map(|&clamp| Phase { duty: duty(clamp), loops: LOOPS, judged: true }).collect();
            let mut spec = task("clamped", &phases);
            let mut phase = 0;
            let mut begin = 0;
            for op in spec.ops {
                match op {
                    Op::LoopBegin { .. } => {
                        ops.push(Op::SetUclamp { min: Some(clamps[phase]), max: Some(clamps[phase]) });
                        begin = ops.len() as u32;
                        phase += 1;
                        ops.push(op);
                    }
                    Op::LoopEnd { slot, .. } => ops.push(Op::LoopEnd { slot, begin }),
                    op => ops.push(op),
                }
            }
            spec.ops = ops;
            let wanted = |clamp: u16, cpu: u32| {
                let cluster = machine.cluster_of(cpu);
                let most = u64::from(cluster.opps[cluster.opps.len() - 1].khz);
                let khz = most * u64::from(clamp) * headroom / 100 / u64::from(cluster.capacity);
                cluster.opps.iter().map(|opp| opp.khz).find(|&opp| u64::from(opp) >= khz).unwrap_or(most as u32)
            };
            let nr = machine.nr_cpus() as u32;
            let zero = vec![0; clamps.len()];
            let mut seen = Clamped {
                task: first_task(&machine, "schedutil"),
                cpu: 0,
                phase: 0,
                loops: 0,
                khz: vec![0; nr as usize],
                judged: zero.clone(),
                small: zero.clone(),
                wrong: zero,
                capacity: (0..nr).map(|cpu| machine.cluster_of(cpu).capacity).collect(),
                clamps: clamps.iter().map(|&clamp| clamp.into()).collect(),
                wanted_khz: clamps.iter().map(|&clamp| (0..nr).map(|cpu| wanted(clamp, cpu)).collect()).collect(),
            };
            let workload = Workload { name: "clamps".into(), tasks: vec![spec], ..Workload::default() };
            let policy = Policy { kernel: kernel.into(), ..faithful() };
            let duration_ns = u64::from(LOOPS) * PERIOD_NS * clamps.len() as u64 * 3 / 2;
            let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns };
            run(&case, &mut seen).unwrap_or_else(|error| panic!("{error:?}"));
            for (phase, &clamp) in clamps.iter().enumerate() {
                let (judged, small, wrong) = (seen.judged[phase], seen.small[phase], seen.wrong[phase]);
                let line = format!(
                    "uclamp {kernel:4} {:11} clamp {clamp:4}: {judged} activations, {small} on too small a CPU, {wrong} at another frequency",
                    machine.name
                );
                println!("{line}");
                assert!(judged + SETTLING + 2 >= LOOPS, "{line}");
                if small > 0 || wrong * 100 > judged * may_miss_percent {
                    failures.push(line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
