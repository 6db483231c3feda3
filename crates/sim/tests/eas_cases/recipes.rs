//! The workloads of the placement cases: duty cycles by recipe, phases, rt-app-like programs.
//!
//! A duty cycle is in percent of the biggest CPU at its highest frequency; it is an amount of work.

use opplab_model::machine::Machine;
use opplab_model::workload::{Op, PhaseSpec, TaskSpec, Workload};

use crate::eas_cases::machines::{classes, cluster_of_class, cpus_of_class};

/// Period of every task, in ns.
pub(crate) const PERIOD_NS: u64 = 16_000_000;

/// One phase of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase {
    /// Duty cycle in percent.
    pub(crate) duty: f64,
    /// Activations.
    pub(crate) loops: u32,
    /// Not a buffer.
    pub(crate) judged: bool,
}

/// How far a first-order low-pass with PELT's time constant swings above the mean, for a duty cycle in percent of full
/// scale, in percent of full scale.
pub(crate) fn swing_above(duty: f64) -> f64 {
    let half = f64::powf(0.5, 1.0 / 32.0);
    let tau_ms = 1.048_576 * half / (1.0 - half);
    let period = 16.0 / tau_ms;
    let duty = duty / 100.0;
    100.0 * ((1.0 - (-duty * period).exp()) / (1.0 - (-period).exp()) - duty)
}

/// A task of about half a little CPU, in the middle between two of its OPPs.
pub(crate) fn little_duty(machine: &Machine) -> f64 {
    let cluster = cluster_of_class(machine, classes(machine)[0]);
    let khz: Vec<f64> = cluster.opps.iter().map(|opp| f64::from(opp.khz)).collect();
    let most = khz[khz.len() - 1];
    let pair = khz.windows(2).find(|pair| pair[1] > 0.5 * most).unwrap_or_else(|| panic!("one OPP"));
    let scale = 100.0 * f64::from(cluster.capacity) / 1024.0;
    let target = (pair[0] + pair[1]) / 2.0 / most * scale;
    // LISA divides the swing once too often; it is part of the recipe.
    let swing = swing_above(target) / 10.24;
    let duty = (target - swing) / 1.25;
    let needs = (duty + swing) * 1.25 / scale * most;
    assert!(pair[0] < needs && needs < pair[1], "{needs} is not within {pair:?}");
    duty
}

/// A task of the second biggest class, or nearly 80 % of the biggest.
pub(crate) fn big_duty(machine: &Machine) -> f64 {
    let classes = classes(machine);
    let [.., second, biggest] = classes[..] else { return 100.0 };
    let duty = 100.0 * f64::from(second) / 1024.0;
    let high = 80.0 * f64::from(biggest) / 1024.0;
    if duty + swing_above(duty) >= high { 0.95 * high - swing_above(0.95 * high) } else { duty }
}

/// `duty` percent of a little CPU.
pub(crate) fn scaled_for_little(machine: &Machine, duty: f64) -> f64 {
    duty * f64::from(classes(machine)[0]) / 1024.0
}

/// A case: its tasks, each a list of phases, and by how many percent its energy may exceed the optimum.
pub(crate) struct EasCase {
    pub(crate) name: &'static str,
    pub(crate) tasks: Vec<Vec<Phase>>,
    pub(crate) margin: f64,
}

/// What comes before the phases that are judged.
#[derive(Clone, Copy)]
enum Prefix {
    /// The first phase, for twice the settling time of PELT.
    Settle,
    /// 100 ms of next to nothing, which resets util_est.
    Reset,
}

fn phases(prefix: Prefix, steps: &[(f64, f64)]) -> Vec<Phase> {
    let phase = |duty: f64, seconds: f64, judged: bool| Phase {
        duty,
        loops: (seconds * 1e9 / PERIOD_NS as f64).round() as u32,
        judged,
    };
    let buffer = match prefix {
        Prefix::Settle => phase(steps[0].0, 0.664, false),
        Prefix::Reset => phase(0.01, 0.1, false),
    };
    std::iter::once(buffer).chain(steps.iter().map(|&(duty, seconds)| phase(duty, seconds, true))).collect()
}

/// From `low` to `high` in steps of 5; the last step is `high`.
fn ramp(low: f64, high: f64) -> Vec<f64> {
    let mut duties = Vec::new();
    let mut duty = low;
    while duty < high {
        duties.push(duty);
        duty += 5.0;
    }
    duties.push(high);
    duties
}

/// The placement cases; `None`: not for this machine.
pub(crate) fn eas_cases(machine: &Machine) -> Vec<(&'static str, Option<EasCase>)> {
    let (little, big) = (little_duty(machine), big_duty(machine));
    let lowest = scaled_for_little(machine, 10.0);
    let small = || phases(Prefix::Reset, &[(little, 1.0)]);
    let large = || phases(Prefix::Reset, &[(big, 1.0)]);
    let up: Vec<(f64, f64)> = ramp(lowest, big).into_iter().map(|duty| (duty, 0.5)).collect();
    let mut down = vec![];
    let mut duty = big;
    while duty > lowest {
        down.push((duty, 0.5));
        duty -= 5.0;
    }
    down.push((lowest, 0.5));
    let classes = classes(machine);
    let migration = (classes.len() > 1).then(|| {
        let nr_big = cpus_of_class(machine, classes[classes.len() - 1]).len();
        let idle = scaled_for_little(machine, 20.0);
        let steps = [(idle, 2.0), (big, 2.0), (idle, 2.0), (big, 2.0)];
        vec![phases(Prefix::Reset, &steps); nr_big]
    });
    let case = |name: &'static str, tasks: Option<Vec<Vec<Phase>>>, margin: f64| {
        (name, tasks.map(|tasks| EasCase { name, tasks, margin }))
    };
    vec![
        case("OneSmallTask", Some(vec![small()]), 5.0),
        case("ThreeSmallTasks", Some(vec![small(), small(), small()]), 20.0),
        case("TwoBigTasks", Some(vec![large(), large()]), 5.0),
        case("TwoBigThreeSmall", Some(vec![large(), large(), small(), small(), small()]), 5.0),
        case("EnergyModelWakeMigration", migration, 5.0),
        case("RampUp", Some(vec![phases(Prefix::Reset, &up)]), 15.0),
        case("RampDown", Some(vec![phases(Prefix::Settle, &down)]), 18.0),
    ]
}

/// The program of a task: rt-app's loop of work and timer, phase by phase.
pub(crate) fn task(name: &str, phases: &[Phase]) -> TaskSpec {
    let mut ops = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        let begin = ops.len() as u32;
        let work_ns = (phase.duty / 100.0 * PERIOD_NS as f64).round() as u64;
        ops.push(Op::LoopBegin { slot: 0, count: Some(phase.loops) });
        ops.push(Op::Run { work_ns, fixed: 0 });
        ops.push(Op::Timer { timer: 0, period_ns: PERIOD_NS, absolute: false, own: true });
        ops.push(Op::Activation { phase: index as u16, timed: true });
        ops.push(Op::LoopEnd { slot: 0, begin });
    }
    ops.push(Op::Exit);
    let spec = |phase: &Phase| PhaseSpec {
        name: String::from("phase"),
        run_ns: (phase.duty / 100.0 * PERIOD_NS as f64).round() as u64,
        period_ns: PERIOD_NS,
    };
    TaskSpec {
        name: name.into(),
        initial: true,
        ops,
        loop_slots: 1,
        nr_own_timers: 1,
        phases: phases.iter().map(spec).collect(),
        ..TaskSpec::default()
    }
}

/// The workload of a case and how long it takes if nothing is late, in ns.
///
/// `stagger_ns`: each task starts so much later than the one before.
pub(crate) fn workload(case: &EasCase, stagger_ns: u64) -> (Workload, u64) {
    let described = |(index, phases): (usize, &Vec<Phase>)| TaskSpec {
        delay_ns: index as u64 * stagger_ns,
        ..task(&format!("task-{index}"), phases)
    };
    let tasks = case.tasks.iter().enumerate().map(described).collect();
    let length = |phases: &Vec<Phase>| phases.iter().map(|phase| u64::from(phase.loops) * PERIOD_NS).sum::<u64>();
    let longest = case.tasks.iter().map(length).max().unwrap_or(0);
    (Workload { name: case.name.into(), tasks, ..Workload::default() }, longest)
}
