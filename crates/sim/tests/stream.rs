//! The emulated machine: one instruction stream for all CPUs.

use crate::common::{juno_r2, periodic, ping_pong};
use opplab_model::policy::Policy;
use opplab_model::workload::Workload;
use opplab_sim::check::Check;
use opplab_sim::{Case, Outcome, run};

fn emulated(workload: Workload) -> Outcome {
    let mut machine = juno_r2();
    machine.shared_stream = true;
    let case = Case { machine, workload, policy: Policy::default(), seed: 1, duration_ns: 1_000_000_000 };
    let mut check = Check::new(case.machine.nr_cpus());
    let outcome = run(&case, &mut check).unwrap_or_else(|error| panic!("{error:?}"));
    check.finish(&case, &outcome).unwrap_or_else(|violations| panic!("{violations:#?}"));
    outcome
}

#[test]
fn all_cpus_together_do_the_work_of_one() {
    // Ten tasks that want 30 % each of a stream that is there once.
    let outcome = emulated(periodic(&juno_r2(), 10, 300, 1));
    let done_ns = (outcome.work_done >> 20) as u64;
    assert!(done_ns <= outcome.wall_ns, "{done_ns}");
    // Overhead takes the rest.
    assert!(done_ns > outcome.wall_ns * 9 / 10, "{done_ns}");
    let busy: u64 = outcome.busy_ns_by_opp.iter().flatten().sum();
    assert!(busy > outcome.wall_ns * 2, "CPUs without the stream stand still, but they run a task: {busy}");
}

#[test]
fn what_fits_is_done_whatever_the_frequency() {
    let outcomes = (1..9).map(|seed| emulated(periodic(&juno_r2(), 4, 50, seed)));
    let (activations, missed) =
        outcomes.fold((0, 0), |sum, outcome| (sum.0 + outcome.activations, sum.1 + outcome.missed_activations));
    assert!(activations > 8 * 4 * 60, "{activations}");
    // Turns of other CPUs add up to a period now and then.
    assert!(missed * 200 < activations, "{missed} of {activations}");
}

#[test]
fn pairs_that_wake_each_other_go_on() {
    let outcome = emulated(ping_pong(3, 20_000));
    assert!(outcome.counts > 300, "{}", outcome.counts);
}
