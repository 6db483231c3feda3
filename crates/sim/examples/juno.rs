//! Runs n periodic tasks on a machine file: `juno MACHINE.toml TASKS DUTY_PERMILLE SECONDS [GOVERNOR [KERNEL [EM]]]`.

use opplab_model::event::NullSink;
use opplab_model::policy::{EnergyModelSource, Policy};
use opplab_model::workload::{Op, PhaseSpec, SchedPolicy, TaskSpec, Workload};
use opplab_sim::{Case, run};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).expect("machine file");
    let machine = opplab_model::file::parse_machine(&args[1], &text).unwrap_or_else(|error| panic!("{error}"));
    let tasks: u32 = args[2].parse().expect("tasks");
    let duty: u64 = args[3].parse().expect("duty");
    let seconds: u64 = args[4].parse().expect("seconds");
    let period = 16_000_000;
    let biggest = machine.clusters.iter().map(|cluster| cluster.capacity).max().unwrap_or(0);
    let big: Vec<u32> =
        (0..machine.nr_cpus() as u32).filter(|&cpu| machine.cluster_of(cpu).capacity == biggest).collect();
    let workload = Workload {
        name: "periodic".into(),
        tasks: (0..tasks)
            .map(|index| TaskSpec {
                name: format!("t{index}"),
                initial: true,
                delay_ns: u64::from(index) * 377_000,
                policy: SchedPolicy::default(),
                spawn_cpu: Some(big[index as usize % big.len()]),
                ops: vec![
                    Op::LoopBegin { slot: 0, count: None },
                    Op::Run { work_ns: period * duty / 1000, fixed: 0 },
                    Op::Timer { timer: 0, period_ns: period, absolute: false, own: true },
                    Op::Activation { phase: 0, timed: true },
                    Op::LoopEnd { slot: 0, begin: 0 },
                ],
                loop_slots: 1,
                nr_own_timers: 1,
                phases: vec![PhaseSpec { name: "p".into(), run_ns: 0, period_ns: period }],
                ..TaskSpec::default()
            })
            .collect(),
        ..Workload::default()
    };
    let policy = Policy {
        governor: args.get(5).cloned().unwrap_or("schedutil".into()),
        kernel: args.get(6).cloned().unwrap_or("5.18".into()),
        energy_model: match args.get(7).map(String::as_str) {
            Some("artificial") => EnergyModelSource::Artificial,
            Some("none") => EnergyModelSource::None,
            _ => EnergyModelSource::Registered,
        },
        driver: args.get(8).cloned().unwrap_or_default(),
        ..Policy::default()
    };
    let case = Case { machine, workload, policy, seed: 1, duration_ns: seconds * 1_000_000_000 };
    let started = std::time::Instant::now();
    let outcome = {
        let mut check = opplab_sim::check::Check::new(case.machine.nr_cpus());
        let outcome = run(&case, &mut check).unwrap_or_else(|error| panic!("{error:?}"));
        check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
        run(&case, &mut NullSink)
    }
    .unwrap_or_else(|error| panic!("{error:?}"));
    let wall = started.elapsed().as_secs_f64();
    let joules: Vec<f64> = outcome.cluster_energy_fj.iter().map(|&fj| fj as f64 / 1e15).collect();
    println!(
        "J {joules:.3?} sum {:.3}; activations {} missed {}; switches {} migrations {} freq {:?} over {:.1}%; {} events in {wall:.3} s; fp {:016x}",
        joules.iter().sum::<f64>(),
        outcome.activations,
        outcome.missed_activations,
        outcome.switches,
        outcome.migrations,
        outcome.freq_changes,
        100.0 * outcome.overutilized_ns as f64 / outcome.wall_ns as f64,
        outcome.engine_events,
        outcome.fingerprint
    );
    for (cpu, idle) in outcome.idle_ns_by_state.iter().enumerate() {
        let ms = |ns: &Vec<u64>| ns.iter().map(|ns| ns / 1_000_000).collect::<Vec<_>>();
        println!(
            "cpu{cpu} idle {:?} busy {:?} time {:?}",
            ms(idle),
            ms(&outcome.busy_ns_by_opp[cpu]),
            ms(&outcome.time_ns_by_opp[cpu])
        );
    }
    println!("work given {} done {} left {}", outcome.work_given, outcome.work_done, outcome.work_left);
}
