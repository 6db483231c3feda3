//! Load tracking: invariance against capacity and frequency, and how util_est follows (LISA load_tracking.py,
//! util_tracking.py).

use opplab_model::event::{Event, Sink};
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, TaskSpec, Workload};
use opplab_sim::{Case, run};

use crate::eas_cases::faithful;
use crate::eas_cases::machines::{classes, cluster_of_class, cpus_of_class, first_task, machines};
use crate::eas_cases::recipes::{Phase, task};

/// Behaviour may be off by this much of full scale.
const BEHAVIOUR: f64 = 0.05 * 1024.0;
/// Signals have settled within 10 units of 1024 by then (first order, tau 47.9 ms), in ns.
const SETTLED_NS: u64 = 300_000_000;

/// Extremes of the task's and its run queue's utilisation after settling.
#[derive(Debug)]
struct Envelope {
    task: u32,
    cpu: u32,
    of_task: (u32, u32),
    of_queue: (u32, u32),
}

impl Sink for Envelope {
    fn event(&mut self, now_ns: u64, event: &Event) {
        let widen = |range: &mut (u32, u32), value: u32| *range = (range.0.min(value), range.1.max(value));
        match *event {
            _ if now_ns < SETTLED_NS => {}
            Event::PeltSe { task, util_avg, .. } if task == self.task => widen(&mut self.of_task, util_avg),
            Event::PeltCfs { cpu, util_avg, .. } if cpu == self.cpu => widen(&mut self.of_queue, util_avg),
            _ => {}
        }
    }
}

/// Up to `most` OPPs, the highest among them.
fn some_opps(machine: &Machine, class: u32, most: usize) -> Vec<u32> {
    let khz: Vec<u32> = cluster_of_class(machine, class).opps.iter().map(|opp| opp.khz).collect();
    let nr = khz.len().min(most);
    (0..nr).map(|index| khz[khz.len() - 1 - index * khz.len() / nr]).collect()
}

fn middle(range: (u32, u32)) -> f64 {
    (f64::from(range.0) + f64::from(range.1)) / 2.0
}

/// Goal: utilisation says how much of the biggest CPU a task needs, whichever CPU and frequency it runs at.
#[test]
fn utilisation_does_not_depend_on_cpu_and_frequency() {
    for machine in machines() {
        for class in classes(&machine) {
            let most = some_opps(&machine, class, 8)[0];
            let cpu = cpus_of_class(&machine, class)[0];
            for khz in some_opps(&machine, class, 8) {
                // Half of the capacity at this OPP.
                let duty = (f64::from(class) * f64::from(khz) / f64::from(most) / 1024.0 * 100.0 / 2.0).floor();
                let phase = Phase { duty, loops: 125, judged: true };
                let spec = TaskSpec { cpus: Some(0), ..task("pinned", &[phase]) };
                let workload = Workload {
                    name: "invariance".into(),
                    tasks: vec![spec],
                    cpu_sets: vec![vec![cpu]],
                    ..Workload::default()
                };
                let policy = Policy {
                    governor: String::from("userspace"),
                    tunables: vec![(String::from("scaling_setspeed"), khz.to_string())],
                    ..faithful()
                };
                let mut envelope = Envelope {
                    task: first_task(&machine, "userspace"),
                    cpu,
                    of_task: (u32::MAX, 0),
                    of_queue: (u32::MAX, 0),
                };
                let name = machine.name.clone();
                let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns: 1_950_000_000 };
                run(&case, &mut envelope).unwrap_or_else(|error| panic!("{error:?}"));
                let expected = duty * 10.24;
                let (of_task, of_queue) = (middle(envelope.of_task), middle(envelope.of_queue));
                println!(
                    "invariance {name:11} CPU {cpu} {khz:7} kHz: {expected:6.1} task {of_task:6.1} queue {of_queue:6.1}"
                );
                assert!((of_task - expected).abs() < BEHAVIOUR, "{name} CPU {cpu} at {khz} kHz: {envelope:?}");
                assert!((of_queue - expected).abs() < BEHAVIOUR, "{name} CPU {cpu} at {khz} kHz: {envelope:?}");
            }
        }
    }
}

/// Utilisation and estimate at each sleep, and the average utilisation of each phase.
#[derive(Debug, Default)]
struct Estimates {
    task: u32,
    phase: usize,
    /// (phase, estimate, utilisation).
    sleeps: Vec<(usize, u32, u32)>,
    /// Per phase: sum of utilisation x ns, of estimate x ns, ns.
    sums: Vec<(f64, f64, f64)>,
    util: u32,
    estimate: u32,
    last_ns: u64,
}

impl Estimates {
    fn advance(&mut self, now_ns: u64) {
        let ns = (now_ns - self.last_ns) as f64;
        self.last_ns = now_ns;
        if self.sums.len() <= self.phase {
            self.sums.resize(self.phase + 1, (0.0, 0.0, 0.0));
        }
        let sum = &mut self.sums[self.phase];
        *sum = (sum.0 + f64::from(self.util) * ns, sum.1 + f64::from(self.estimate) * ns, sum.2 + ns);
    }
}

impl Sink for Estimates {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::PeltSe { task, util_avg, .. } if task == self.task => {
                self.advance(now_ns);
                self.util = util_avg;
            }
            Event::UtilEstSe { task, util_est, util_avg, .. } if task == self.task => {
                self.advance(now_ns);
                self.estimate = util_est;
                self.sleeps.push((self.phase, util_est, util_avg));
            }
            Event::Activation { task, phase, .. } if task == self.task => self.phase = usize::from(phase),
            _ => {}
        }
    }
}

/// Goal: util_est rises at once, falls slowly (a quarter of the difference an activation), and is never the smaller.
#[test]
fn util_est_converges() {
    const PERIOD_200: u64 = 200_000_000;
    let steps: &[(f64, u32)] =
        &[(75.0, 25), (50.0, 5), (30.0, 5), (10.0, 5), (5.0, 5), (10.0, 5), (30.0, 5), (50.0, 5), (60.0, 5)];
    // v6.6 has the last activation beside the average; v6.12 has the average alone.
    for kernel in ["6.6", "6.12.117"] {
        for machine in machines() {
            let classes = classes(&machine);
            let big = cpus_of_class(&machine, classes[classes.len() - 1])[0];
            let mut spec = TaskSpec { cpus: Some(0), ..task("util-est", &[]) };
            spec.ops.clear();
            for (index, &(duty, loops)) in steps.iter().enumerate() {
                let begin = spec.ops.len() as u32;
                spec.ops.push(Op::LoopBegin { slot: 0, count: Some(loops) });
                spec.ops.push(Op::Run { work_ns: (duty / 100.0 * PERIOD_200 as f64) as u64, fixed: 0 });
                spec.ops.push(Op::Timer { timer: 0, period_ns: PERIOD_200, absolute: false, own: true });
                spec.ops.push(Op::Activation { phase: index as u16, timed: true });
                spec.ops.push(Op::LoopEnd { slot: 0, begin });
                spec.phases.push(opplab_model::workload::PhaseSpec {
                    name: String::from("step"),
                    run_ns: 0,
                    period_ns: PERIOD_200,
                });
            }
            spec.ops.push(Op::Exit);
            let workload = Workload {
                name: "util-est".into(),
                tasks: vec![spec],
                cpu_sets: vec![vec![big]],
                ..Workload::default()
            };
            let policy = Policy { kernel: kernel.into(), governor: String::from("performance"), ..faithful() };
            let mut seen = Estimates { task: first_task(&machine, "performance"), ..Estimates::default() };
            let at = format!("{kernel} {}", machine.name);
            let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns: 12_900_000_000 };
            run(&case, &mut seen).unwrap_or_else(|error| panic!("{error:?}"));
            // v6.12 estimates a task as of its last update, at most a tick of 4 ms (32 ms halve what is missing) before it sleeps.
            let late = if kernel == "6.12.117" { 1024.0 * (1.0 - 0.5_f64.powf(4.0 / 32.0)) } else { 0.0 };
            for (phase, &(util, estimate, ns)) in seen.sums.iter().enumerate() {
                assert!(estimate + late * ns >= util, "{at} phase {phase}: mean {} < {}", estimate / ns, util / ns);
            }
            assert!(seen.sleeps.len() >= 60, "{at}: {} activations", seen.sleeps.len());
            let mut falls = 0;
            for pair in seen.sleeps.windows(2) {
                let (before, (phase, after, util)) = (f64::from(pair[0].1), pair[1]);
                let (after, util) = (f64::from(after), f64::from(util));
                assert!(1.01 * after >= util - 1.0, "{at} phase {phase}: {pair:?}");
                // Within 1 % nothing changes.
                let margin = 1024.0 / 100.0 + 1.0;
                if util >= before + margin {
                    assert!((after - util).abs() <= 1.0, "{at} phase {phase} rises slowly: {pair:?}");
                } else if util + margin < before {
                    let expected = before - (before - util) / 4.0;
                    assert!((after - expected).abs() <= 2.0, "{at} phase {phase} falls to {expected}: {pair:?}");
                    falls += 1;
                }
            }
            assert!(falls >= 10, "{at}: the estimate fell {falls} times only");
        }
    }
}
