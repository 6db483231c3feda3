//! Speed of the engine: `cargo bench -p opplab-sim`.
//!
//! `ping_pong`: hackbench-like pairs on 8 CPUs, in scheduler events (switches and wake-ups) a second.
//! `juno_eas`: the experiment's heaviest case, in simulated ns a second (1e9 = real time).

#[path = "../tests/common/mod.rs"]
mod common;

use common::{juno_r2, periodic, ping_pong};
use divan::Bencher;
use divan::counter::ItemsCount;
use opplab_model::event::NullSink;
use opplab_model::machine::{Cluster, CpuPlace, Machine};
use opplab_model::policy::{EnergyModelSource, Policy};
use opplab_sim::{Case, Outcome, run};

fn main() {
    divan::main();
}

fn outcome(case: &Case) -> Outcome {
    run(case, &mut NullSink).unwrap_or_else(|error| panic!("{error:?}"))
}

/// `nr` equal CPUs, one last-level cache for 16 of them.
fn smp(nr: u32) -> Machine {
    let mut machine = juno_r2();
    let big = machine.clusters.remove(1);
    machine.name = format!("smp-{nr}");
    machine.clusters = vec![Cluster { cpus: (0..nr).collect(), ..big }];
    machine.cpus = (0..nr).map(|cpu| CpuPlace { cluster: 0, core: cpu, llc: cpu / 16, node: 0, package: 0 }).collect();
    machine
}

/// Every CPU has a pair of tasks that wake each other up without a pause.
fn pairs(nr_cpus: u32, duration_ns: u64) -> Case {
    let policy = Policy { governor: String::from("performance"), ..Policy::default() };
    Case { machine: smp(nr_cpus), workload: ping_pong(nr_cpus, 5_000), policy, seed: 1, duration_ns }
}

#[divan::bench(args = [8, 64, 256], sample_count = 5)]
fn ping_pong_events(bencher: Bencher, nr_cpus: u32) {
    let case = pairs(nr_cpus, 100_000_000);
    let events = outcome(&case).sched_events;
    bencher.counter(ItemsCount::new(events)).bench(|| outcome(&case));
}

/// The start is in it, with its 8192 placements that look at all CPUs.
#[divan::bench(args = [4096], sample_count = 1, sample_size = 1)]
fn ping_pong_events_short(bencher: Bencher, nr_cpus: u32) {
    let case = pairs(nr_cpus, 10_000_000);
    let events = outcome(&case).sched_events;
    bencher.counter(ItemsCount::new(events)).bench(|| outcome(&case));
}

#[divan::bench(args = [10, 50], sample_count = 5)]
fn juno_eas_simulated_ns(bencher: Bencher, nr_tasks: u32) {
    let machine = juno_r2();
    let workload = periodic(&machine, nr_tasks, 50, 1);
    let policy =
        Policy { kernel: String::from("5.18"), energy_model: EnergyModelSource::Registered, ..Policy::default() };
    let case = Case { machine, workload, policy, seed: 1, duration_ns: 10_000_000_000 };
    bencher.counter(ItemsCount::new(case.duration_ns)).bench(|| outcome(&case));
}
