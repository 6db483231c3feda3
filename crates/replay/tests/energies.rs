//! Goal: the energy of a run is one number. Method: random machines, policies and workloads; the engine's meters, its energy by
//! task, what is recomputed from the exported trace, and what replay has for it agree to the femtojoule.

use std::path::Path;

use opplab_model::event::{NullSink, Tee};
use opplab_model::program_class::ClassOn;
use opplab_model::testing::Swarm;
use opplab_replay::energy::{EnergyMeter, TraceEnergy};
use opplab_replay::events::Events;
use opplab_replay::measure::{Clocks, Told, measure};
use opplab_signals::decode::decoded;
use opplab_sim::task_energy::TaskEnergy;
use opplab_sim::{Case, run};
use opplab_timeline::{FIRST_PID, RunTrace};
use opplab_trace::write::trace_dat;
use opplab_trace::{ReadOptions, TraceFile};

fn recomputed(case: &Case, trace: &TraceFile) -> TraceEnergy {
    let mut meter = EnergyMeter::new(&case.machine);
    trace.stream(&ReadOptions::default(), &mut decoded(&mut meter)).expect("events");
    meter.finish()
}

/// What `replay` has by cluster; `None` for a run in which nobody runs.
fn replayed(case: &Case, trace: &TraceFile) -> Option<Vec<u128>> {
    let events = Events::of(trace, Path::new("run")).ok()?;
    let told = Told::of(&events);
    Some(measure(&events, &case.machine, (0, events.duration_ns), Clocks::default(), told, |_| true).energy_fj)
}

/// Equal but for the ns by which a file has events of one moment one after the other.
fn near(found: u128, metered: u128) -> bool {
    found.abs_diff(metered) <= metered / 10_000 + 1_000_000_000
}

#[test]
fn meters_tasks_and_traces_have_one_energy() {
    let swarm = Swarm { nr_cpus_max: 24, nr_tasks_max: 24, duration_ns: (1_000_000, 60_000_000), ..Swarm::default() };
    let (mut runs, mut compared, mut replays) = (0, 0, 0);
    for seed in 0..60 {
        let swarm = Swarm { limits: seed % 2 == 0, ..swarm.clone() };
        let mut case = Case::from(swarm.case(seed));
        // A trace does not have the programs of its tasks.
        let classes = case.machine.program_classes.iter_mut().flat_map(|class| &mut class.on);
        classes.for_each(|on: &mut ClassOn| on.power = 1024);
        // A governor that the drawn driver does not have is refused.
        let Ok(outcome) = run(&case, &mut NullSink) else { continue };
        let trace = RunTrace::new(&case.machine, outcome.task_names.clone(), &case.policy, false);
        let mut sinks = Tee(trace, TaskEnergy::new(&case.machine));
        run(&case, &mut sinks).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
        let Tee(mut trace, used) = sinks;
        let end_ns = outcome.warmup.wall_ns + outcome.wall_ns;
        trace.end(end_ns);
        let (tasks, nobody) = used.finish(end_ns);
        let mut bytes = Vec::new();
        trace_dat(&trace.into_trace(), &mut bytes).expect("a trace.dat");
        let file = TraceFile::from_bytes(bytes, &ReadOptions::default()).expect("a trace");
        let energy = recomputed(&case, &file);
        let clusters: Vec<u128> = energy.clusters.iter().map(|one| one.cpus_fj + one.shared_fj).collect();
        if let Some(replayed) = replayed(&case, &file) {
            assert_eq!(replayed, clusters, "seed {seed}");
            replays += 1;
        }
        if outcome.warmup.wall_ns == 0 {
            for (&found, &metered) in clusters.iter().zip(&outcome.cluster_energy_fj) {
                assert!(near(found, metered), "seed {seed}: {found} and {metered} fJ");
            }
            assert!(near(energy.floor_fj, outcome.floor_energy_fj), "seed {seed}");
        }
        let idle_fj = nobody.total_fj();
        assert!(near(energy.idle_fj, idle_fj), "seed {seed}: {} and {idle_fj} fJ", energy.idle_fj);
        let cpus_fj = nobody.cpu_fj + tasks.iter().map(|task| task.cpu_fj).sum::<u128>();
        assert!(near(energy.clusters.iter().map(|one| one.cpus_fj).sum(), cpus_fj), "seed {seed}: {cpus_fj} fJ");
        for (index, task) in tasks.iter().enumerate() {
            let found = energy.tasks.get(&(FIRST_PID + index as i32)).copied().unwrap_or_default();
            assert!(
                near(found.cpu_fj, task.cpu_fj),
                "seed {seed}, task {index}: {} and {} fJ",
                found.cpu_fj,
                task.cpu_fj
            );
            // Each division has a rest of less than one fJ for each CPU; how often they divide is not the same.
            let (found_fj, shared_fj) = (found.shared_fj, task.shared_fj);
            assert!(near(found_fj, shared_fj), "seed {seed}, task {index}: {found_fj} and {shared_fj} fJ");
            compared += usize::from(task.cpu_fj > 0);
        }
        runs += 1;
        assert_eq!(energy.interval_fj(), (energy.total_fj(), energy.total_fj()), "seed {seed}");
    }
    assert!(runs > 50 && compared > 300 && replays > 40, "{runs} {compared} {replays}");
}
