//! What fair tasks get beside real-time tasks that never sleep: 5 % by throttling before v6.12, 50 ms a second of their server since.

use crate::common::juno_r2;
use opplab_model::event::NullSink;
use opplab_model::machine::{Cluster, Costs, CpuPlace, Machine};
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use opplab_sim::{Case, run};

const MS: u64 = 1_000_000;

/// One CPU without costs.
fn lone_cpu() -> Machine {
    let mut machine = juno_r2();
    let big = machine.clusters.remove(1);
    machine.clusters = vec![Cluster { cpus: vec![0], ..big }];
    machine.cpus = vec![CpuPlace { cluster: 0, core: 0, llc: 0, node: 0, package: 0 }];
    machine.costs = Costs { context_switch_ns: 0, wakeup_ns: 0, ipi_ns: 0, tick_ns: 0, sugov_work_ns: 0 };
    machine
}

fn spin(policy: SchedPolicy, start_ns: u64) -> TaskSpec {
    TaskSpec {
        name: String::from("spin"),
        initial: true,
        policy,
        delay_ns: start_ns,
        spawn_cpu: Some(0),
        ops: vec![Op::Runtime { wall_ns: 1 << 50 }, Op::Exit],
        ..TaskSpec::default()
    }
}

/// What a fair task ran in 10 s beside a real-time one that never sleeps, in ms.
fn fair_ms(kernel: &str, gates: &[(&str, &str)], fair_start_ns: u64) -> u64 {
    let hog = spin(SchedPolicy::Fifo { priority: 50 }, 10 * MS);
    let workload = Workload {
        name: String::from("hog"),
        tasks: vec![hog, spin(SchedPolicy::default(), fair_start_ns)],
        ..Workload::default()
    };
    let policy = Policy {
        kernel: kernel.into(),
        governor: "performance".into(),
        eas: false,
        gates: gates.iter().map(|&(gate, value)| (gate.into(), value.into())).collect(),
        ..Policy::default()
    };
    let case = Case { machine: lone_cpu(), workload, policy, seed: 1, duration_ns: 10_000 * MS };
    let outcome = run(&case, &mut NullSink).unwrap_or_else(|error| panic!("{error:?}"));
    outcome.task_ns_by_cluster[1].iter().sum::<u64>() / MS
}

#[test]
fn real_time_tasks_leave_5_percent_before_v6_12() {
    // At a tick of 4 ms the overrun is the next period's.
    for kernel in ["4.19", "5.15", "6.1"] {
        let ms = fair_ms(kernel, &[], 100 * MS);
        assert!((440..=510).contains(&ms), "{kernel}: {ms}");
    }
}

#[test]
fn the_server_gives_50_ms_a_second_since_v6_12() {
    for kernel in ["6.12.117", "6.18"] {
        let ms = fair_ms(kernel, &[], 100 * MS);
        assert!((430..=560).contains(&ms), "{kernel}: {ms}");
    }
}

#[test]
fn without_either_fair_tasks_starve() {
    for kernel in ["6.1", "6.12.117"] {
        assert_eq!(fair_ms(kernel, &[("rt_throttling", "none")], 100 * MS), 0, "{kernel}");
    }
}
