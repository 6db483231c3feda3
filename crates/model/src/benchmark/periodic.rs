//! rt-app-like periodic tasks.

use rand_core::Rng;
use rand_pcg::Pcg64;

use super::{Benchmark, Param, ParamKind, Params};
use crate::machine::Machine;
use crate::workload::{Op, PhaseSpec, SchedPolicy, TaskSpec, Workload};

pub(super) const PERIODIC: Benchmark = Benchmark {
    name: "periodic",
    about: "rt-app-like periodic tasks (text 003): each runs a share of the biggest CPU and waits for a relative timer. \
            Leaves out the cost of rt-app's own calls.",
    reports: None,
    params: &[
        Param::int("tasks", (1, 100_000), "", "number of tasks"),
        Param::new(
            "duty",
            ParamKind::Ints { min: 1, max: 1000 },
            "50",
            "utilisation of the biggest CPU at its reference frequency in 1/1000; of a list, the tasks take one after the other",
        ),
        Param::int("period_us", (1, 3_600_000_000), "16000", "period of each task in us"),
        Param::word(
            "spawn",
            &["biggest-cpus-alternating", "first-cpu"],
            "biggest-cpus-alternating",
            "CPUs on which the tasks are born",
        ),
        Param::word(
            "start",
            &["random", "together"],
            "random",
            "when each task starts: at a random point of its first period, or all at once as rt-app does",
        ),
    ],
    build: periodic,
};

/// Stream of random numbers of the start of task 0; task i has the i-th after it.
const PERIODIC_STREAM: u128 = 0x7065_7269_6f64_6963_0000_0000;

fn periodic(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let period_ns = params.int("period_us") * 1000;
    let duties = params.ints("duty");
    let biggest = machine.clusters.iter().map(|cluster| cluster.capacity).max().unwrap_or(0);
    let spawn_cpus: Vec<u32> = match params.word("spawn") {
        "first-cpu" => vec![0],
        _ => (0..machine.nr_cpus() as u32).filter(|&cpu| machine.cluster_of(cpu).capacity == biggest).collect(),
    };
    if duties.is_empty() || spawn_cpus.is_empty() {
        return Err(String::from("`duty` is empty"));
    }
    let tasks = (0..params.int("tasks") as usize)
        .map(|index| {
            let run_ns = period_ns * duties[index % duties.len()] / 1000;
            // Each task draws from a stream of its own, so that one more task does not move the others.
            let delay_ns = match params.word("start") {
                "together" => 0,
                _ => Pcg64::new(seed.into(), PERIODIC_STREAM + index as u128).next_u64() % period_ns,
            };
            TaskSpec {
                name: format!("task{index}"),
                initial: true,
                delay_ns,
                policy: SchedPolicy::default(),
                class: String::new(),
                cpus: None,
                spawn_cpu: Some(spawn_cpus[index % spawn_cpus.len()]),
                seasoned: false,
                workqueue: None,
                assumed_bandwidth: false,
                ops: vec![
                    Op::LoopBegin { slot: 0, count: None },
                    Op::Run { work_ns: run_ns, fixed: 0 },
                    Op::Timer { timer: 0, period_ns, absolute: false, own: true },
                    Op::Activation { phase: 0, timed: true },
                    Op::LoopEnd { slot: 0, begin: 0 },
                    Op::Exit,
                ],
                loop_slots: 1,
                nr_own_timers: 1,
                phases: vec![PhaseSpec { name: String::new(), run_ns, period_ns }],
            }
        })
        .collect();
    Ok(Workload { name: String::from("periodic"), tasks, ..Workload::default() })
}
