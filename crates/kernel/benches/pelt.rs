//! Nanoseconds per load tracking update, schedutil update and energy-aware placement: `cargo bench -p opplab-kernel`.
//!
//! `batch` is the structure of arrays: its times are for one update of one entity, as `se`'s are.
//!
//! With the argument `one=CASE` (`one=se-Across`, `one=schedutil-8`, `one=feec-64`) one case runs some rounds without a timer and prints the number
//! of its updates: `make bench-instructions` counts the instructions of one.

#![expect(clippy::print_stdout, reason = "a bench reports")]

use std::hint::black_box;

use divan::Bencher;
use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable};
use opplab_kernel::cpufreq::schedutil::{SugovConfig, SugovGates, SugovPolicy};
use opplab_kernel::eas::{EasCpu, EasFacts, EasGates, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::{EmPerfDomain, em_create_perf_table};
use opplab_kernel::pelt::{HalfLife32, SchedAvg, SeFacts, update_load_avg_cfs_rq, update_load_avg_se};
use opplab_kernel::pelt_batch::{ON_RQ, PeltBatch, RUNNING};
use opplab_kernel::profile::EmCost;
use opplab_kernel::sched::placement::CpuCapacity;

const NICE_0: u64 = 1024 << 10;
/// Updates in one timed batch.
const BATCH: u64 = 4096;

/// Time steps between updates.
#[derive(Debug, Clone, Copy)]
enum Deltas {
    /// 20 us: most updates stay within a period.
    Within,
    /// 1.1 ms: each crosses one boundary, some two.
    Across,
    /// 1 ns to 16 ms.
    Random,
    /// 1 to 4 ms, as between the enqueues of a busy machine.
    Enqueue,
}

impl std::fmt::Display for Deltas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// The steps of a batch, in ns.
fn deltas(kind: Deltas) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..BATCH)
        .map(|_| {
            // xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match kind {
                Deltas::Within => 20_000,
                Deltas::Across => 1_100_000,
                Deltas::Random => 1 + (state >> 16) % 16_000_000,
                Deltas::Enqueue => 1_000_000 + (state >> 16) % 3_000_000,
            }
        })
        .collect()
}

#[inline(never)]
fn se_update(now: u64, sa: &mut SchedAvg, facts: SeFacts) -> bool {
    update_load_avg_se::<HalfLife32>(now, sa, facts)
}

#[inline(never)]
fn cfs_update(now: u64, sa: &mut SchedAvg, weight: u64, nr_runnable: u64, has_curr: bool) -> bool {
    update_load_avg_cfs_rq::<HalfLife32>(now, sa, weight, nr_runnable, has_curr)
}

fn se_batch(deltas: &[u64], sa: &mut SchedAvg) {
    let facts = black_box(SeFacts::task(NICE_0, true, true));
    for &delta in deltas {
        black_box(se_update(sa.last_update_time + delta, sa, facts));
    }
}

fn cfs_batch(deltas: &[u64], sa: &mut SchedAvg) {
    for &delta in deltas {
        black_box(cfs_update(sa.last_update_time + delta, sa, black_box(3 * NICE_0), 3, true));
    }
}

fn enqueue_batch(deltas: &[u64], clock: &mut RqClock, se: &mut SchedAvg, cfs: &mut SchedAvg) {
    let facts = black_box(SeFacts::task(NICE_0, true, true));
    for &delta in deltas {
        clock.update_rq_clock(clock.clock + delta, 0, false, black_box(1024), black_box(700));
        let now = clock.rq_clock_pelt();
        black_box(se_update(now, se, facts));
        black_box(cfs_update(now, cfs, 3 * NICE_0, 3, true));
    }
}

#[divan::bench(args = [Deltas::Within, Deltas::Across, Deltas::Random])]
fn se(bencher: Bencher, kind: Deltas) {
    let deltas = deltas(kind);
    let mut sa = SchedAvg::default();
    bencher.counter(BATCH).bench_local(|| se_batch(&deltas, &mut sa));
}

#[divan::bench(args = [Deltas::Within, Deltas::Across, Deltas::Random])]
fn cfs(bencher: Bencher, kind: Deltas) {
    let deltas = deltas(kind);
    let mut sa = SchedAvg::default();
    bencher.counter(BATCH).bench_local(|| cfs_batch(&deltas, &mut sa));
}

/// Entities of a batch: as many as tasks of a busy machine.
const ENTITIES: usize = 256;

/// What the entities of a batch do: a third each sleeps, waits and runs.
fn activity() -> Vec<u8> {
    (0..ENTITIES).map(|entity| [0, ON_RQ, ON_RQ | RUNNING][entity * 7 % 3]).collect()
}

#[inline(never)]
fn batch_update(now: u64, batch: &mut PeltBatch<HalfLife32>, activity: &[u8]) -> usize {
    batch.update_load_avg_se(now, activity)
}

fn batch_rounds(deltas: &[u64], batch: &mut PeltBatch<HalfLife32>, activity: &[u8], now: &mut u64) {
    for &delta in &deltas[..BATCH as usize / ENTITIES] {
        *now += delta;
        black_box(batch_update(*now, batch, black_box(activity)));
    }
}

#[divan::bench(args = [Deltas::Within, Deltas::Across, Deltas::Random])]
fn batch(bencher: Bencher, kind: Deltas) {
    let (deltas, activity) = (deltas(kind), activity());
    let (mut batch, mut now) = (PeltBatch::<HalfLife32>::new(ENTITIES, 0, NICE_0), 0);
    bencher.counter(BATCH).bench_local(|| batch_rounds(&deltas, &mut batch, &activity, &mut now));
}

/// No two neighbours share their open period, so that nothing is computed once for several.
#[divan::bench(args = [Deltas::Within, Deltas::Across, Deltas::Random])]
fn batch_apart(bencher: Bencher, kind: Deltas) {
    let (deltas, activity) = (deltas(kind), activity());
    let (mut batch, mut now) = (PeltBatch::<HalfLife32>::new(ENTITIES, 0, NICE_0), 0);
    for entity in 0..ENTITIES {
        batch.set(entity, &SchedAvg { period_contrib: entity as u32 * 5 % 1024, ..SchedAvg::default() }, NICE_0);
    }
    bencher.counter(BATCH).bench_local(|| batch_rounds(&deltas, &mut batch, &activity, &mut now));
}

#[divan::bench]
fn clock_se_cfs(bencher: Bencher) {
    let deltas = deltas(Deltas::Enqueue);
    let (mut clock, mut se, mut cfs) = (RqClock::default(), SchedAvg::default(), SchedAvg::default());
    bencher.counter(BATCH).bench_local(|| enqueue_batch(&deltas, &mut clock, &mut se, &mut cfs));
}

/// A policy of `n_cpus` CPUs under schedutil, which is told of one of them after the other.
struct Schedutil {
    governor: SugovPolicy,
    facts: Vec<CpuFacts>,
    time: u64,
}

impl Schedutil {
    fn new(n_cpus: usize) -> Self {
        let limits = FreqLimits { min_khz: 400_000, max_khz: 3_000_000 };
        let freqs: Vec<u32> = (4..=30).map(|step| step * 100_000).collect();
        let governor = SugovPolicy::new(SugovConfig {
            n_cpus,
            cpuinfo: limits,
            limits,
            table: Some(FreqTable::from_khz(&freqs).expect("a valid table")),
            fast_switch: true,
            need_update_limits: false,
            adjust_perf: false,
            rate_limit_us: 0,
            tick_ns: 4_000_000,
            gates: SugovGates::V6_12,
        });
        Self { governor, facts: vec![CpuFacts::default(); n_cpus], time: 1_000_000_000 }
    }

    fn batch(&mut self) {
        let policy = PolicyFacts { cur_khz: 1_000_000, freq_ref_khz: 0, freq_invariant: true, can_update: true };
        for step in 0..BATCH {
            self.time += 500_000;
            let cpu = step as usize % self.facts.len();
            self.facts[cpu].util_cfs_boost = step % 900;
            self.facts[cpu].idle_calls = step;
            black_box(schedutil_one(&mut self.governor, self.time, cpu, &policy, &self.facts));
        }
    }
}

#[inline(never)]
fn schedutil_one(
    governor: &mut SugovPolicy,
    time: u64,
    cpu: usize,
    policy: &PolicyFacts,
    facts: &[CpuFacts],
) -> Option<Request> {
    governor.update(time, cpu, 0, policy, facts)
}

#[divan::bench(args = [1, 8])]
fn schedutil_update(bencher: Bencher, n_cpus: usize) {
    let mut schedutil = Schedutil::new(n_cpus);
    bencher.counter(BATCH).bench_local(|| schedutil.batch());
}

struct Cpus(Vec<EasCpu>);

impl EasFacts for Cpus {
    #[inline]
    fn cpu(&self, cpu: usize) -> EasCpu {
        self.0[cpu]
    }
    #[inline]
    fn allowed(&self, _cpu: usize) -> bool {
        true
    }
}

#[divan::bench(args = [6, 64])]
fn feec(bencher: Bencher, n_cpus: usize) {
    let placing = Placing::new(n_cpus);
    bencher.bench_local(|| placing.place());
}

/// A task that wakes on a machine of `n_cpus` CPUs of two kinds.
struct Placing {
    domains: [EmPerfDomain; 2],
    facts: Cpus,
    task: EasTask,
}

impl Placing {
    #[inline(never)]
    fn place(&self) -> Option<usize> {
        find_energy_efficient_cpu(&self.domains, black_box(&self.task), false, &self.facts, EasGates::V6_12, &mut ())
    }

    fn new(n_cpus: usize) -> Self {
        let n_little = n_cpus * 2 / 3;
        let points: Vec<(u64, u64)> = (1..=8).map(|step| (step * 250_000, step * step * 40_000)).collect();
        let domain = |cpus: std::ops::Range<usize>, cap| EmPerfDomain {
            states: em_create_perf_table(&points, cap, EmCost::Performance).expect("a valid table"),
            cpus: cpus.collect(),
            skip_inefficient: true,
            form: EmCost::Performance,
        };
        let domains = [domain(n_little..n_cpus, 1024), domain(0..n_little, 400)];
        let cpu = |cpu: usize| {
            let capacity = if cpu < n_little { 400 } else { 1024 };
            let util = (cpu as u64 * 37) % 200;
            EasCpu {
                rq: RqFacts { capacity, ..RqFacts::default() },
                capacity: CpuCapacity { orig: capacity, of: capacity, hw_pressure: 0, cpufreq_pressure: 0 },
                util_avg: util,
                runnable_avg: util,
                util_est: util / 2,
                uclamp_idle: false,
            }
        };
        let facts = Cpus((0..n_cpus).map(cpu).collect());
        let task = EasTask {
            prev_cpu: n_cpus - 1,
            util_avg: 60,
            runnable_avg: 60,
            util_est: 70,
            uclamp_min: 0,
            uclamp_max: 1024,
            queued: false,
        };
        Self { domains, facts, task }
    }
}

/// Rounds of a case that is counted.
const ROUNDS: u64 = 20;

/// Runs one case without a timer; gives the number of its updates.
fn run_one(name: &str) -> u64 {
    let (class, kind) = name.split_once('-').unwrap_or((name, "Within"));
    let deltas = deltas(match kind {
        "Within" => Deltas::Within,
        "Across" => Deltas::Across,
        "Random" => Deltas::Random,
        _ => Deltas::Enqueue,
    });
    let n_cpus: usize = kind.parse().unwrap_or(1);
    let (mut clock, mut se, mut cfs) = (RqClock::default(), SchedAvg::default(), SchedAvg::default());
    let (activity, mut batch, mut now) = (activity(), PeltBatch::<HalfLife32>::new(ENTITIES, 0, NICE_0), 0);
    let (mut schedutil, placing) = (Schedutil::new(n_cpus), Placing::new(n_cpus.max(6)));
    for _ in 0..ROUNDS {
        match class {
            "batch" => batch_rounds(&deltas, &mut batch, &activity, &mut now),
            "se" => se_batch(&deltas, &mut se),
            "cfs" => cfs_batch(&deltas, &mut cfs),
            "schedutil" => schedutil.batch(),
            "feec" => (0..BATCH).for_each(|_| {
                black_box(placing.place());
            }),
            "enqueue" => enqueue_batch(&deltas, &mut clock, &mut se, &mut cfs),
            _ => panic!("there is no case {name}"),
        }
    }
    black_box((se, cfs));
    ROUNDS * BATCH
}

fn main() {
    match std::env::args().find_map(|argument| argument.strip_prefix("one=").map(str::to_owned)) {
        Some(name) => println!("{}", run_one(&name)),
        None => divan::main(),
    }
}
