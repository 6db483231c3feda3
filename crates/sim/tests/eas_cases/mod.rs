//! The behaviour cases that LISA runs on boards, run on simulated machines: energy-aware placement and slack, misfit
//! migration, util_est, utilisation clamps and invariance of load tracking.
//!
//! The kernel-faithful policy must pass, deliberately broken ones must fail. `--nocapture` shows the tables.
//! Source of the cases: LISA lisa_tests/arm/kernel (ARM-software, 2024), in our own words and with our own optimum.

#![expect(clippy::float_arithmetic, reason = "the judge computes on its own, outside the engine")]
#![expect(clippy::print_stdout, reason = "tables and skipped cases are for the reader")]

mod clamps;
mod judge;
mod machines;
mod misfit;
mod recipes;
mod tracking;

use judge::Judge;
use machines::{classes, first_task, machines};
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::policy_values::Placement;
use opplab_sim::{Case, run};
use recipes::{EasCase, eas_cases, workload};

/// The largest share of late activations, in percent.
const LATE: f64 = 15.0;

/// Runs of each case: the tasks start together, or one after the other at points of the period.
const VARIANTS: u64 = 5;

/// How long rt-app's first thread takes to create one thread, in ns: no two tasks are born at once.
const BIRTH_NS: u64 = 60_000;

/// The policy that a stock kernel follows.
pub(crate) fn faithful() -> Policy {
    Policy { label: String::from("kernel"), ..Policy::default() }
}

/// Policies that are wrong in one way each.
fn broken() -> [Policy; 4] {
    let policy = |label: &str| Policy { label: label.into(), ..faithful() };
    [
        Policy { eas: false, ..policy("EAS off") },
        Policy { no_overutilized: true, ..policy("never overutilised") },
        Policy { reversed_energy_model: true, ..policy("reversed model") },
        Policy { placement: Placement::Random, ..policy("random") },
    ]
}

/// What the judge says of one run.
#[derive(Debug, Clone)]
enum Verdict {
    Skipped(&'static str),
    /// Energy over the optimum and late activations, both in percent; what else is of use.
    Judged {
        excess: f64,
        margin: f64,
        late: f64,
        note: String,
    },
}

impl Verdict {
    fn placement(&self) -> bool {
        !matches!(self, Self::Judged { excess, margin, .. } if excess >= margin)
    }
    fn slack(&self) -> bool {
        !matches!(self, Self::Judged { late, .. } if *late > LATE)
    }
    fn pass(&self) -> bool {
        self.placement() && self.slack()
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = |pass: bool| if pass { "ok" } else { "FAIL" };
        match self {
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Judged { excess, late, .. } => {
                write!(f, "{excess:+6.1} % {:4} late {late:5.1} % {:4}", mark(self.placement()), mark(self.slack()))
            }
        }
    }
}

fn judged(machine: &Machine, case: &EasCase, policy: &Policy, variant: u64) -> Verdict {
    let (workload, length_ns) = workload(case, BIRTH_NS + variant * 1_700_000);
    let run_case = Case {
        machine: machine.clone(),
        workload,
        policy: policy.clone(),
        seed: variant,
        duration_ns: length_ns * 3 / 2,
    };
    let mut judge = Judge::new(case, first_task(machine, &policy.governor));
    run(&run_case, &mut judge).unwrap_or_else(|error| panic!("{error:?}"));
    match judge.energies(machine) {
        None => Verdict::Skipped("no map of tasks to CPUs fits"),
        Some((seen, least)) => {
            assert!(judge.activations() > 20, "{} {}: too few activations", machine.name, case.name);
            let excess = 100.0 * (seen / least - 1.0);
            Verdict::Judged { excess, margin: case.margin, late: judge.late_share(), note: judge.longest() }
        }
    }
}

fn table(policy: &Policy) -> Vec<(String, &'static str, Verdict)> {
    let mut rows = Vec::new();
    for machine in machines() {
        for (name, case) in eas_cases(&machine) {
            for variant in 0..VARIANTS {
                let verdict = match &case {
                    None => Verdict::Skipped("the machine has one class of CPUs"),
                    Some(case) => judged(&machine, case, policy, variant),
                };
                println!("{:18} {:11} {name:24} {verdict}", policy.label, machine.name);
                if let Verdict::Judged { note, .. } = &verdict
                    && !verdict.pass()
                {
                    println!("{:18} {note}", "");
                }
                rows.push((machine.name.clone(), name, verdict));
            }
        }
    }
    rows
}

#[test]
fn duty_cycles_are_those_of_the_recipe() {
    let near = |value: f64, expected: f64| assert!((value - expected).abs() < 0.01, "{value} is not {expected}");
    let [juno_r0, juno_r2, phone, symmetric] = &machines()[..] else { panic!("four machines") };
    near(recipes::little_duty(juno_r0), 20.75);
    near(recipes::little_duty(juno_r2), 19.44);
    near(recipes::big_duty(juno_r0), 43.55);
    near(recipes::big_duty(juno_r2), 37.40);
    near(recipes::big_duty(phone), 73.05);
    near(recipes::big_duty(symmetric), 100.0);
    for (duty, above) in [(5.0, 8.5), (10.0, 16.1), (20.0, 28.2), (36.0, 39.9), (50.0, 42.7), (75.0, 31.1)] {
        assert!((recipes::swing_above(duty) * 10.24 - above).abs() < 0.06, "{duty}");
    }
}

#[test]
fn the_kernels_policy_passes_every_case() {
    let failed: Vec<String> = table(&faithful())
        .iter()
        .filter(|(_, _, verdict)| !verdict.pass())
        .map(|(machine, case, verdict)| format!("{machine} {case}: {verdict}"))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Goal: the cases tell a wrong policy from the kernel's. Since v6.3 misfit tasks are pushed whether or not the system is
/// overutilised, so a kernel that never sees that state is late or dear only where CPUs have to be shared.
#[test]
fn broken_policies_fail_where_energy_counts() {
    let telling = ["TwoBigThreeSmall", "EnergyModelWakeMigration", "RampUp"];
    for policy in broken() {
        let rows = table(&policy);
        let failures = |machine: &str, cases: &[&'static str]| -> Vec<&'static str> {
            let failed = |case: &str| rows.iter().any(|row| row.0 == machine && row.1 == case && !row.2.pass());
            cases.iter().copied().filter(|case| failed(case)).collect()
        };
        let runs = |machine: &str, case: &str| {
            rows.iter().any(|row| row.0 == machine && row.1 == case && matches!(row.2, Verdict::Judged { .. }))
        };
        let mut machines_that_tell = 0;
        for machine in machines().iter().filter(|machine| classes(machine).len() > 1) {
            let names: Vec<&'static str> = eas_cases(machine).iter().map(|case| case.0).collect();
            let failures_here = failures(&machine.name, &names);
            println!("{:18} {:11} fails {failures_here:?}", policy.label, machine.name);
            if !telling.into_iter().all(|case| runs(&machine.name, case)) {
                continue;
            }
            machines_that_tell += 1;
            let failures = failures(&machine.name, &telling);
            assert!(!failures.is_empty(), "{} on {} passes {telling:?}", policy.label, machine.name);
        }
        assert!(machines_that_tell >= 2, "too few machines on which all of {telling:?} run");
    }
}
