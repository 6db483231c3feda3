//! Speed of the engine: `cargo bench -p opplab-sim`.
//!
//! `ping_pong`: hackbench-like pairs on 8 CPUs, in scheduler events (switches and wake-ups) a second.
//! `juno_eas`: the experiment's heaviest case, in simulated ns a second (1e9 = real time).
//!
//! With the argument `one=CASE` (`one=ping-pong-64`, `one=juno-50`, `one=tbench-epyc`) one case runs once without a timer and prints its number of
//! engine events and its fingerprint: `make bench-instructions` counts the instructions of [`outcome`] in it. The cases of tbench are saturated
//! machines as JSON, so that a change of a machine or of a benchmark's model does not change their work.

#![expect(clippy::print_stdout, reason = "a bench reports")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::Read;

use common::{juno_r2, periodic, ping_pong};
use divan::Bencher;
use divan::counter::ItemsCount;
use flate2::read::GzDecoder;
use opplab_model::case::CaseFile;
use opplab_model::event::NullSink;
use opplab_model::machine::{Cluster, CpuPlace, Machine};
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_sim::{Case, Outcome, run};

#[inline(never)]
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
    let case = juno(nr_tasks, 10_000_000_000);
    bencher.counter(ItemsCount::new(case.duration_ns)).bench(|| outcome(&case));
}

/// Periodic tasks on a Juno under EAS.
fn juno(nr_tasks: u32, duration_ns: u64) -> Case {
    let machine = juno_r2();
    let workload = periodic(&machine, nr_tasks, 50, 1);
    let policy =
        Policy { kernel: String::from("5.18"), energy_model: EnergyModelSource::Registered, ..Policy::default() };
    Case { machine, workload, policy, seed: 1, duration_ns }
}

/// A case of a file, compressed.
fn stored(name: &str, bytes: &[u8]) -> Case {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).expect("a whole file");
    CaseFile::from_json(name, &text).unwrap_or_else(|error| panic!("{error}")).into()
}

/// The case of `one=NAME`: as little simulated time as shows what an event costs.
fn named(name: &str) -> Case {
    match name {
        "ping-pong-8" => pairs(8, 40_000_000),
        "ping-pong-64" => pairs(64, 20_000_000),
        "ping-pong-256" => pairs(256, 10_000_000),
        "ping-pong-4096" => pairs(4096, 3_000_000),
        "juno-10" => juno(10, 4_000_000_000),
        "juno-50" => juno(50, 1_000_000_000),
        "tbench-epyc" => stored(name, include_bytes!("cases/tbench-epyc.json.gz")),
        "tbench-haswell" => stored(name, include_bytes!("cases/tbench-haswell.json.gz")),
        _ => panic!("there is no case {name}"),
    }
}

fn main() {
    match std::env::args().find_map(|argument| argument.strip_prefix("one=").map(str::to_owned)) {
        Some(name) => {
            let outcome = outcome(&named(&name));
            println!("{} {:016x}", outcome.engine_events, outcome.fingerprint);
        }
        None => divan::main(),
    }
}
