//! gitsource: git's own test suite, a chain of short processes.

use super::shape::{Program, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{DeviceSpec, Op, Workload};

pub(super) const GITSOURCE: Benchmark = Benchmark {
    name: "gitsource",
    about: "`make test` of git's source (texts 000 and 002): a shell starts one short command after the other and waits \
            for each; some run in a subshell, some read from the disk. About 400 new processes a second \
            (D. Smythies). A part of the suite runs; the time is that of the whole. Leaves out pipelines and what the \
            suite runs side by side.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Elapsed }),
    params: &[
        Param::int("processes", (9, 10_000_000), "4500", "processes that are simulated, in steps of 9"),
        Param::int(
            "processes_total",
            (1, 1_000_000_000),
            "275000",
            "processes of the whole suite: 400 a second in 688 s, text 000's performance governor",
        ),
        Param::int("command_cycles", (1, 1_000_000_000_000), "6000000", "mean cycles of a command after its exec")
            .calibrated(),
        Param::int("fork_cycles", (1, 1_000_000_000_000), "500000", "cycles of a new process before its exec")
            .calibrated(),
        Param::int("shell_cycles", (1, 1_000_000_000_000), "1200000", "cycles of the shell for each command")
            .calibrated(),
        Param::fixed_permille("50"),
        Param::int("disk_us", (1, 1_000_000), "100", "time of a read from the disk in us").calibrated(),
    ],
    build: gitsource,
};

/// Templates of the tasks.
const COMMAND: u32 = 1;
const READER: u32 = 2;
const SUBSHELL: u32 = 3;

fn gitsource(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |name: &str| cycles_ns(machine, params.int(name));
    let rounds = params.int("processes") / 9;
    let (fork_ns, shell_ns) = (ns("fork_cycles"), ns("shell_cycles"));
    let command = |program: &mut Program| {
        program.run(fork_ns, fixed).op(Op::Exec).draw(0, fixed);
    };
    // A round: four commands, two that read, a subshell with two commands: nine processes.
    let shell = Program::of(|program| {
        program.repeat(rounds, |program| {
            for child in [COMMAND, COMMAND, READER, SUBSHELL, COMMAND, COMMAND, READER] {
                program.draw(1, fixed).child(child).op(Op::Count);
            }
        });
    });
    let subshell = Program::of(|program| {
        program.run(fork_ns, fixed).repeat(2, |program| {
            program.draw(1, fixed).child(COMMAND).op(Op::Count);
        });
    });
    let reader = Program::of(|program| {
        command(program);
        program.op(Op::Io { device: 0, bytes: 4096 }).run(fork_ns / 4, fixed);
    });
    let mut shell = shell.task(String::from("sh"));
    shell.delay_ns = start_ns(seed, 0, 1_000_000);
    Ok(Workload {
        tasks: vec![
            shell,
            Program::of(command).template(String::from("git")),
            reader.template(String::from("grep")),
            subshell.template(String::from("sh-sub")),
        ],
        devices: vec![DeviceSpec {
            service_ns: params.int("disk_us") * 1000,
            per_kib_ns: 2_000,
            bus_per_kib_ns: 0,
            queue_depth: 32,
            irq_cpu: None,
            irq_ns: 0,
        }],
        draws: vec![exponential(ns("command_cycles")), exponential(shell_ns)],
        duration_ns: Some(120_000_000_000),
        nr_main: 1,
        metric: GITSOURCE.reports.and_then(|reports| reports.metric((params.int("processes_total"), 9 * rounds))),
        ..Workload::default()
    })
}
