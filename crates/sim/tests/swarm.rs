//! Swarm test: random machines, workloads and policies run without breaking an invariant, and twice the same way.
//!
//! The seed of a failing case is printed; `OPPLAB_SEED=N cargo test -p opplab-sim --test all swarm::` runs it alone.

#![expect(clippy::print_stdout, reason = "the seed of a failing case is for the reader")]

use opplab_kernel::cpufreq::GOVERNORS;
use opplab_model::event::{Fingerprint, Tee};
use opplab_model::testing::Swarm;
use opplab_model::workload::{Op, SchedPolicy};
use opplab_sim::by_group::{ByGroup, GroupShares};
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

/// Cases of a test run; `OPPLAB_SWARM=N` runs N, `OPPLAB_SWARM_FROM=M` from seed M on.
const NR_CASES: u64 = 60;
/// Cases with wake-ups of tasks that have blocked, but not left their CPU yet; then cases whose tasks end in the warm-up; with
/// deadline tasks whose group gets other CPUs while they wake; of two CPUs that hand a task to and fro in one instant.
const ONCE_BROKEN: [u64; 10] = [635, 2977, 3260, 3840, 6207, 6832, 6986, 34351, 97519, 101_175];

fn swarm(seed: u64) -> Swarm {
    // Small enough for a test, large enough for every path; one in sixteen is large.
    let (nr_cpus_max, nr_tasks_max) = if seed % 16 == 15 { (256, 400) } else { (24, 40) };
    Swarm {
        nr_cpus_max,
        nr_tasks_max,
        governors: GOVERNORS.iter().map(|known| known.name).collect(),
        duration_ns: (1_000_000, 60_000_000),
        ..Swarm::default()
    }
}

fn check(seed: u64) {
    let file = swarm(seed).case(seed);
    println!(
        "seed {seed}: {} CPUs, {} tasks, {} on {}, {} ns",
        file.machine.nr_cpus(),
        file.workload.tasks.len(),
        file.policy.governor,
        file.policy.kernel,
        file.duration_ns
    );
    let case = Case::from(file);
    let once = || {
        let mut sink = Tee(Tee(Check::new(case.machine.nr_cpus()), Fingerprint::default()), ByGroup::new(&case));
        let outcome = run(&case, &mut sink).map_err(|error| error.0)?;
        let Tee(Tee(checked, fingerprint), by_group) = sink;
        checked.finish(&case, &outcome).map_err(|violations| violations.join("\n"))?;
        check_groups(seed, &case, &outcome, &by_group.finish(&case.workload.groups, &outcome));
        Ok::<_, String>((outcome, fingerprint.value()))
    };
    match (once(), once()) {
        (Ok(first), Ok(second)) => assert_eq!(first, second, "seed {seed} runs in two ways"),
        // Some draws ask for what the engine does not have; it says so, each time alike.
        (Err(first), Err(second)) => {
            assert_eq!(first, second);
            println!("seed {seed} is refused: {first}");
        }
        (first, second) => panic!("seed {seed}: {first:?} and {second:?}"),
    }
}

/// Groups' energies are the meters' sum, pressure is a part of the time, and quotas, which are for fair tasks, hold but for the
/// last tick's overrun.
fn check_groups(seed: u64, case: &Case, outcome: &Outcome, shares: &GroupShares) {
    let all = case.workload.groups.iter().zip(&shares.groups).zip(&outcome.groups);
    let top: u128 = all.clone().filter(|((spec, _), _)| spec.parent.is_none()).map(|((_, own), _)| own.energy_fj).sum();
    let meters: u128 = outcome.cluster_energy_fj.iter().sum();
    assert_eq!(top + shares.root_fj + shares.nobody_fj, meters, "seed {seed}");
    let is_fair = |policy| matches!(policy, SchedPolicy::Other { .. } | SchedPolicy::Batch { .. } | SchedPolicy::Idle);
    let stays_fair = |op: &Op| !matches!(*op, Op::SetPolicy { policy } if !is_fair(policy));
    let fair = case.workload.tasks.iter().all(|task| is_fair(task.policy) && task.ops.iter().all(stays_fair));
    for ((spec, own), stat) in all {
        if let Some([some, full]) = own.pressure {
            // A sample is weighted in jiffies, and may hold what was before the warm-up's end.
            let most_ns = outcome.wall_ns + outcome.warmup.wall_ns;
            assert!(full.total_ns <= some.total_ns && some.total_ns <= most_ns, "seed {seed}: {own:?}");
        }
        if let Some(quota) = spec.quota.filter(|_| fair) {
            let tick_ns = 1_000_000_000 / u64::from(case.policy.hz) + 1;
            let grants_ns = (stat.nr_periods + 2) * quota.quota_ns + quota.burst_ns;
            let slack_ns = 2 * tick_ns * case.machine.nr_cpus() as u64;
            assert!(stat.usage_ns <= grants_ns + slack_ns, "seed {seed}: {} {quota:?} {stat:?}", spec.name);
            assert!(stat.nr_throttled <= stat.nr_periods, "seed {seed}: {stat:?}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may be told what to run")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn random_cases_keep_the_invariants() {
    match number("OPPLAB_SEED") {
        Some(seed) => check(seed),
        None => {
            let first = number("OPPLAB_SWARM_FROM").unwrap_or(0);
            let nr = number("OPPLAB_SWARM").unwrap_or(NR_CASES);
            (first..first.saturating_add(nr)).chain(ONCE_BROKEN).for_each(check);
        }
    }
}
