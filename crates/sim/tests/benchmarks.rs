//! Benchmark models: each runs on every machine of the catalogue without breaking an invariant, and shows the mechanism
//! that it is there for.

#![expect(clippy::disallowed_methods, reason = "the catalogue is a folder")]

use std::path::PathBuf;

use opplab_model::benchmark::{BENCHMARKS, Benchmark, ParamKind, ParamValue, benchmark};
use opplab_model::event::{Event, Sink, Tee};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../python/opplab/data/machines"].iter().collect()
}

fn machine(name: &str) -> Machine {
    let path = folder().join(name).with_extension("toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_machine(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn catalogue() -> Vec<Machine> {
    let entries = std::fs::read_dir(folder()).expect("the catalogue is there");
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| stem(entry.ok()?.path())).collect();
    names.sort_unstable();
    names.iter().map(|name| machine(name)).collect()
}

/// A case of a benchmark; `set` are whole numbers.
fn case(name: &str, set: &[(&str, u64)], machine: Machine, policy: Policy, duration_ms: u64) -> Case {
    let model = benchmark(name).unwrap_or_else(|| panic!("there is no {name}"));
    let given: Vec<(&str, ParamValue)> = set.iter().map(|&(name, value)| (name, ParamValue::Int(value))).collect();
    let mut workload = model.workload(&given, &machine, 1).unwrap_or_else(|why| panic!("{name}: {why}"));
    workload.check(machine.nr_cpus()).unwrap_or_else(|why| panic!("{name}: {why}"));
    workload.warmup_ns = workload.warmup_ns.min(duration_ms * 250_000);
    Case { machine, workload, policy, seed: 1, duration_ns: duration_ms * 1_000_000 }
}

fn policy(governor: &str) -> Policy {
    policy_of("5.9", governor)
}

fn policy_of(kernel: &str, governor: &str) -> Policy {
    Policy { governor: governor.into(), kernel: kernel.into(), ..Policy::default() }
}

/// Runs under the invariant sink.
fn checked(case: &Case) -> Outcome {
    watched(case, Wakeups::default()).0
}

fn watched<S: Sink>(case: &Case, watch: S) -> (Outcome, S) {
    let mut sink = Tee(Check::new(case.machine.nr_cpus()), watch);
    let outcome = run(case, &mut sink).unwrap_or_else(|error| panic!("{}: {error:?}", case.workload.name));
    sink.0.finish(case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    (outcome, sink.1)
}

fn metric(case: &Case, outcome: &Outcome) -> f64 {
    let metric = case.workload.metric.as_ref().expect("the benchmark has a metric");
    metric
        .value(opplab_model::metric::units(outcome.units_fp), outcome.wall_ns, outcome.finished_ns, &outcome.marks_ns)
        .expect("the run is long enough")
}

/// Counts sleeps in the kernel's uninterruptible state, and new tasks.
#[derive(Default)]
struct Wakeups {
    io_sleeps: u64,
    new_tasks: u64,
}

impl Sink for Wakeups {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        match event {
            Event::SchedSwitch { prev_state: opplab_model::event::TaskState::Uninterruptible, .. } => {
                self.io_sleeps += 1;
            }
            Event::SchedWakeupNew { .. } => self.new_tasks += 1,
            _ => {}
        }
    }
}

/// The parameter that says how much runs at one time, if the model has one.
fn size_of(model: &Benchmark) -> Option<&'static str> {
    const SIZES: [&str; 7] = ["tasks", "clients", "jobs", "groups", "streams", "ranks", "threads"];
    let is_number =
        |name: &str| model.params.iter().any(|param| param.name == name && matches!(param.kind, ParamKind::Int { .. }));
    SIZES.into_iter().find(|name| is_number(name))
}

#[test]
fn every_model_keeps_the_invariants_on_every_machine() {
    for machine in catalogue() {
        for model in BENCHMARKS {
            // A group of hackbench is forty tasks.
            let most = if model.name == "hackbench" { 3 } else { (2 * machine.nr_cpus() as u64).min(64) };
            // Longer than what clients of dbench and of tbench wait before they start.
            let duration_ms = match (model.name, machine.nr_cpus()) {
                ("tbench", _) => 130,
                (_, 65..) => 80,
                _ => 100,
            };
            let sizes = size_of(model).map_or_else(Vec::new, |name| vec![(name, 1), (name, most)]);
            let sets: Vec<&[(&str, u64)]> = if sizes.is_empty() { vec![&[]] } else { sizes.chunks(1).collect() };
            for set in sets {
                let case = case(model.name, set, machine.clone(), policy("schedutil"), duration_ms);
                let outcome = checked(&case);
                assert!(outcome.work_done > 0, "{} {set:?} on {} does nothing", model.name, machine.name);
            }
        }
    }
}

#[test]
fn every_default_is_within_its_range() {
    for model in BENCHMARKS {
        for param in model.params {
            let Some(value) = param.default_value() else {
                assert!(param.default.is_empty(), "{} {}: {}", model.name, param.name, param.default);
                continue;
            };
            match (param.kind, value) {
                (ParamKind::Int { min, max }, ParamValue::Int(value)) => {
                    assert!((min..=max).contains(&value), "{} {}", model.name, param.name);
                }
                (ParamKind::Word(words), ParamValue::Word(word)) => assert!(words.contains(&word.as_str())),
                (ParamKind::Ints { min, max }, ParamValue::Ints(values)) => {
                    assert!(values.iter().all(|value| (min..=max).contains(value)));
                }
                other => panic!("{} {}: {other:?}", model.name, param.name),
            }
        }
    }
}

#[test]
fn a_pair_of_tbench_is_never_in_iowait_and_scales_with_the_clock() {
    // Passive, by a kernel whose strict governors leave nothing to the firmware: under that a pair climbs by itself where
    // all cores have one clock.
    let passive =
        |governor: &str| Policy { driver: "intel_cpufreq".into(), kernel: "6.12.117".into(), ..policy(governor) };
    let fast = case("tbench", &[("clients", 1)], machine("skylake-8x-uma"), passive("performance"), 200);
    let slow = Case { policy: passive("powersave"), ..fast.clone() };
    let (outcome, wakeups) = watched(&fast, Wakeups::default());
    assert_eq!(wakeups.io_sleeps, 0);
    // Two wake-ups an exchange.
    assert!(outcome.sched_events > 2 * outcome.counts);
    assert!(metric(&fast, &outcome) > 1.5 * metric(&slow, &checked(&slow)));
}

#[test]
fn gitsource_starts_about_four_hundred_processes_a_second() {
    let case = case("gitsource", &[("processes", 900)], machine("skylake-8x-uma"), policy("performance"), 20_000);
    let (outcome, wakeups) = watched(&case, Wakeups::default());
    let finished_ns = outcome.finished_ns.expect("it ends");
    let rate = wakeups.new_tasks * 1_000_000_000 / finished_ns;
    assert!((300..700).contains(&rate), "{rate} processes a second");
    assert_eq!(outcome.wall_ns, finished_ns);
    assert_eq!(outcome.counts, 896);
}

#[test]
fn kernbench_gains_from_jobs_and_estimates_the_whole_from_a_part() {
    let run = |set: &[(&str, u64)]| {
        let case = case("kernbench", set, machine("skylake-8x-uma"), policy("performance"), 600_000);
        metric(&case, &checked(&case))
    };
    let (two, four, part) = (run(&[("jobs", 2)]), run(&[("jobs", 4)]), run(&[("jobs", 2), ("files", 100)]));
    assert!(two > 1.7 * four, "{two} s with two jobs, {four} s with four");
    assert!((0.95..1.06).contains(&(part / two)), "{part} s from a quarter of the files, {two} s");
}

/// A part with fewer files than jobs has idle jobs that the whole does not have.
#[test]
fn a_part_of_kernbench_has_a_file_for_each_job() {
    let made = |set: &[(&str, u64)]| {
        let given: Vec<_> = set.iter().map(|&(name, value)| (name, ParamValue::Int(value))).collect();
        benchmark("kernbench").expect("it is there").workload(&given, &machine("skylake-8x-uma"), 1).err()
    };
    let why = made(&[("jobs", 160), ("files", 100)]).unwrap_or_default();
    assert!(why.contains("`files` is 100, but 160 jobs"), "{why}");
    assert_eq!(made(&[("jobs", 160), ("files", 160)]), None);
    assert_eq!(made(&[("jobs", 5000), ("files", 2240)]), None);
}

#[test]
fn dbench_waits_for_data_in_iowait_and_for_the_journal_not() {
    let case = case("dbench", &[("clients", 1)], machine("skylake-8x-uma"), policy("performance"), 500);
    let (outcome, wakeups) = watched(&case, Wakeups::default());
    assert!(outcome.counts > 0);
    // One for each flush, two where nothing is to be recorded; the warm-up is a quarter of the run.
    let flushes = outcome.counts * 4 / 3;
    assert!(wakeups.io_sleeps > flushes * 21 / 20 && wakeups.io_sleeps < flushes * 3 / 2, "{}", wakeups.io_sleeps);
}

#[test]
fn sqlite_counts_transactions_of_five_waits_for_the_disk() {
    let case = case("sqlite", &[], machine("skylake-8x-uma"), policy("performance"), 500);
    let (outcome, wakeups) = watched(&case, Wakeups::default());
    assert!(outcome.counts > 350, "{} transactions", outcome.counts);
    // The warm-up is a quarter of the run. Three flushes: the first waits for its data, the others for data and cache.
    let waits = 5 * outcome.counts * 4 / 3;
    assert!(
        wakeups.io_sleeps > waits * 19 / 20 && wakeups.io_sleeps < waits * 21 / 20,
        "{}, {waits}",
        wakeups.io_sleeps
    );
}

#[test]
fn hackbench_ends_and_scales_with_its_groups() {
    let run = |groups: u64| {
        let set = [("groups", groups), ("loops", 20)];
        let case = case("hackbench", &set, machine("juno-r2"), policy_of("5.18", "performance"), 600_000);
        let outcome = checked(&case);
        metric(&case, &outcome)
    };
    let (one, four) = (run(1), run(4));
    assert!((3.0..5.5).contains(&(four / one)), "{one} s with one group, {four} s with four");
}

#[test]
fn hackbench_is_timed_from_when_all_are_ready_and_takes_what_does_not_run_at_its_last_pace() {
    let run = |set: &[(&str, u64)]| {
        let set = [&[("groups", 3), ("loops_total", 400)], set].concat();
        let case = case("hackbench", &set, machine("skylake-8x-uma"), policy("performance"), 600_000);
        let (outcome, wakeups) = watched(&case, Wakeups::default());
        let finished_s = outcome.finished_ns.expect("it ends") as f64 / 1e9;
        (metric(&case, &outcome), finished_s, wakeups.new_tasks)
    };
    let (whole, finished, tasks) = run(&[("loops", 400)]);
    assert_eq!(tasks, 121);
    // 120 forks of 200,000 cycles come before.
    let launch = finished - whole;
    assert!((0.005..0.02).contains(&launch), "{launch} s until all are ready");
    let (part, finished, _) = run(&[("loops", 100)]);
    assert!(finished < 0.4 * whole, "{finished} s for a quarter, {whole} s for all");
    assert!((0.87..1.13).contains(&(part / whole)), "{part} s from a quarter of the loops, {whole} s");
    // Of two runs the last counts.
    let (second, finished, tasks) = run(&[("loops", 100), ("iterations", 2)]);
    assert_eq!(tasks, 241);
    assert!(finished > 0.4 * whole);
    assert!((0.9..1.1).contains(&(second / part)), "{part} s, {second} s in the second run");
}

#[test]
fn fio_is_slower_on_a_slow_clock_and_always_in_iowait() {
    let fast = case("fio-randread", &[], machine("pixel6"), policy_of("6.1", "performance"), 500);
    let slow = Case { policy: policy_of("6.1", "powersave"), ..fast.clone() };
    let (outcome, wakeups) = watched(&fast, Wakeups::default());
    assert!(wakeups.io_sleeps >= outcome.counts);
    assert!(metric(&fast, &outcome) > 1.3 * metric(&slow, &checked(&slow)));
}

/// Goal: text 004: schedutil's thread of the reading cluster costs most where it keeps the other big core awake, and least
/// on the little one that the device's interrupts keep awake.
#[test]
fn the_frequency_thread_is_dearest_beside_the_reader_and_cheapest_at_the_interrupts() {
    let model = benchmark("fio-randread").expect("there is fio");
    let phone = machine("pixel6");
    let word = |name: &str| ParamValue::Word(name.to_owned());
    let given = [
        ("irq", word("first-cpu")),
        ("self", word("first-cpu")),
        ("submit_cycles", ParamValue::Int(104_000)),
        ("complete_cycles", ParamValue::Int(62_400)),
        ("device_us", ParamValue::Int(55)),
    ];
    let workload = model.workload(&given, &phone, 1).unwrap_or_else(|why| panic!("{why}"));
    let power_uw = |sugov_cpu: u32| {
        let policy = Policy { sugov_cpus: vec![sugov_cpu], ..policy_of("6.12.117", "schedutil") };
        // Text 004's patch is on this kernel.
        let gates = [("rate_limit", "latency-x1000-2ms"), ("sugov_affinity", "free")];
        let policy = Policy { gates: gates.map(|(gate, value)| (gate.into(), value.into())).to_vec(), ..policy };
        let (machine, workload) = (phone.clone(), workload.clone());
        let outcome = checked(&Case { machine, workload, policy, seed: 1, duration_ns: 3_000_000_000 });
        outcome.cluster_energy_fj.iter().sum::<u128>() / u128::from(outcome.wall_ns)
    };
    let [beside, reader, little, interrupts] = [6, 7, 1, 0].map(power_uw);
    assert!(beside > reader && beside > little, "{beside} {reader} {little} uW");
    assert!(interrupts < reader && interrupts < little, "{interrupts} {reader} {little} uW");
}

#[test]
fn pgbench_reads_without_sleeping_on_a_disk_and_writes_in_groups() {
    let read = case("pgbench-ro", &[("clients", 4)], machine("skylake-8x-uma"), policy("performance"), 300);
    let (outcome, wakeups) = watched(&read, Wakeups::default());
    assert!(outcome.counts > 1000 && wakeups.io_sleeps == 0);
    let write = |clients: u64| {
        let case = case("pgbench-rw", &[("clients", clients)], machine("skylake-8x-uma"), policy("performance"), 1000);
        metric(&case, &checked(&case))
    };
    // Many commits share a flush of the log.
    assert!(write(8) > 3.0 * write(1));
}

/// mmtests starts one thread for each NUMA node: it is the limit of many clients, until there are more.
#[test]
fn threads_of_pgbench_limit_many_clients() {
    let rate = |set: &[(&str, u64)]| {
        let case = case("pgbench-ro", set, machine("haswell-48x-numa"), policy("performance"), 300);
        metric(&case, &checked(&case))
    };
    let (one, two) = (rate(&[("clients", 24), ("threads", 1)]), rate(&[("clients", 24)]));
    let many = rate(&[("clients", 24), ("threads", 24)]);
    assert!((1.5..2.5).contains(&(two / one)), "{one}, {two} transactions a second with one and two threads");
    assert!(many > 2.0 * two, "{two}, {many} transactions a second with two and 24 threads");
}

#[test]
fn udp_loses_what_finds_no_room_and_tcp_waits() {
    let set = [("send_cycles", 1000), ("receive_cycles", 8000)];
    let run = |name: &str| {
        let case = case(name, &set, machine("skylake-8x-uma"), policy("performance"), 200);
        let outcome = checked(&case);
        (metric(&case, &outcome), outcome.busy_ns_by_opp.iter().flatten().sum::<u64>())
    };
    let ((udp, udp_busy), (tcp, tcp_busy)) = (run("netperf-udp"), run("netperf-tcp"));
    // The receiver sets the pace of both; only the sender over UDP never sleeps.
    assert!((0.8..1.25).contains(&(udp / tcp)), "{udp} Mbit/s and {tcp} Mbit/s");
    assert!(udp_busy > tcp_busy);
}

#[test]
fn ranks_spin_until_all_have_come() {
    let set = [("ranks", 4), ("threads", 4)];
    let run = |name: &str, spin_us: Option<u64>| {
        let model = benchmark(name).expect("it is there");
        let all: Vec<(&str, u64)> = set.into_iter().chain(spin_us.map(|us| ("spin_us", us))).collect();
        let known = |name: &str| model.params.iter().any(|param| param.name == name);
        let set: Vec<(&str, u64)> = all.into_iter().filter(|(name, _)| known(name)).collect();
        let case = case(name, &set, machine("skylake-8x-uma"), policy("performance"), 500);
        let outcome = checked(&case);
        assert!(outcome.counts > 100);
        let busy: u64 = outcome.busy_ns_by_opp.iter().flatten().sum();
        busy as f64 / outcome.wall_ns as f64
    };
    let (mpi, omp) = (run("nas-mpi", None), run("nas-omp", Some(0)));
    assert!(mpi > 3.9, "{mpi} CPUs are busy");
    assert!(omp < mpi, "{omp} CPUs are busy although threads sleep");
}

/// The whole run's time is that of its cycles, whatever part of it runs.
#[test]
fn nas_takes_its_whole_time_from_the_pace_after_the_warm_up() {
    let elapsed = |duration_ms: u64| {
        let case = case("nas-mpi", &[], machine("skylake-8x-uma"), policy("performance"), duration_ms);
        metric(&case, &checked(&case))
    };
    let (part, whole) = (elapsed(400), elapsed(1600));
    assert!((0.98..1.02).contains(&(part / whole)), "{part} s and {whole} s");
    // 4000 * 10^9 cycles on eight hardware threads of at most 4.2 GHz, two of which share a core.
    assert!((4000.0 / 8.0 / 4.2..4000.0 / 4.0 / 2.0).contains(&whole), "{whole} s");
}

/// Old kernels spread ranks over the nodes for most of a second, in which those that share a CPU hold up all; the time is that
/// of the pace after it.
#[test]
fn nas_counts_from_when_the_ranks_are_spread() {
    let elapsed = |kernel: &str| {
        let mut case = case("nas-mpi", &[], machine("broadwell-80x-numa"), policy_of(kernel, "performance"), 9000);
        case.duration_ns = case.workload.duration_ns.expect("the model has one");
        metric(&case, &checked(&case))
    };
    let (old, new) = (elapsed("5.0"), elapsed("6.12"));
    assert!((0.98..1.02).contains(&(old / new)), "{old} s and {new} s");
}

/// Goal: sockets that are 32 apart are not far on AMD from v5.4 on, so that new tasks go to both, and one rank a core is as fast
/// without second threads. Method: the balance of two sockets with and without the gate, and the steps of 64 ranks on 64 cores.
#[test]
fn new_tasks_go_to_both_sockets_of_an_epyc() {
    let run = |gate: Option<&str>, nosmt: bool| {
        let gates = gate.map(|value| ("far_nodes".into(), value.into())).into_iter().collect();
        let policy = Policy { nosmt, gates, ..policy_of("6.12", "performance") };
        let outcome = checked(&case("nas-mpi", &[("ranks", 64)], machine("epyc-7502-2s"), policy, 400));
        let ran = |cluster: usize| outcome.task_ns_by_cluster.iter().map(|clusters| clusters[cluster]).sum::<u64>();
        (ran(1) as f64 / ran(0) as f64, outcome.counts as f64)
    };
    let (both, steps) = run(None, false);
    assert!((0.9..1.1).contains(&both), "{both}");
    let (alone, without_smt) = run(None, true);
    assert!((0.9..1.1).contains(&alone), "{alone}");
    assert!((0.95..1.05).contains(&(without_smt / steps)), "{without_smt} and {steps} steps");
    let (far, _) = run(Some("30"), false);
    assert!(far < 0.5, "{far}");
}

#[test]
fn a_phone_scores_more_on_a_fast_clock() {
    let fast = case("pcmark", &[], machine("pixel4"), policy_of("5.18", "performance"), 4000);
    let slow = Case { policy: policy_of("5.18", "powersave"), ..fast.clone() };
    assert!(metric(&fast, &checked(&fast)) > metric(&slow, &checked(&slow)));
}

#[test]
fn a_warm_up_does_not_count() {
    let whole = case("tbench", &[("clients", 2)], machine("juno-r2"), policy("schedutil"), 100);
    let mut whole = Case { policy: Policy { kernel: String::from("5.18"), ..whole.policy.clone() }, ..whole };
    whole.workload.warmup_ns = 0;
    let mut later = whole.clone();
    later.workload.warmup_ns = 40_000_000;
    let mut before = whole.clone();
    before.duration_ns = 40_000_000;
    let [whole, later, before] = [&whole, &later, &before].map(checked);
    assert_eq!(later.fingerprint, whole.fingerprint);
    assert_eq!(later.wall_ns, 60_000_000);
    assert_eq!(later.counts + before.counts, whole.counts);
    assert_eq!(later.switches + before.switches, whole.switches);
    let energy = |outcome: &Outcome| outcome.cluster_energy_fj.iter().sum::<u128>();
    assert_eq!(energy(&later) + energy(&before), energy(&whole));
}

/// Goal: a sample of ondemand is taken by a kworker of the CPU where it is due, so that who is woken meanwhile goes to another
/// CPU. Method: a pair that wake each other in turn stays under `performance`, and moves under ondemand, with some of its samples.
#[test]
fn a_sample_keeps_its_cpu_for_the_kworker_that_takes_it() {
    let moves = |governor: &str| {
        let set = [("clients", 1), ("launched", 0)];
        let case = case("tbench", &set, machine("epyc-7742-2s"), policy(governor), 400);
        let outcome = checked(&case);
        let threads = outcome.task_names.iter().filter(|name| name.ends_with(":dbs")).count();
        assert_eq!(outcome.not_own.len(), threads);
        (outcome.migrations, threads)
    };
    let (stays, threads) = moves("performance");
    assert!(stays <= 2 && threads == 0, "{stays} moves, {threads} threads");
    let (moved, threads) = moves("ondemand");
    assert!((5..100).contains(&moved), "{moved} moves");
    assert_eq!(threads, 256);
}
