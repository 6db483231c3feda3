//! gitsource: git's own test suite, a chain of short processes.
//!
//! ```text
//!   sh (a test) ── git, expr, diff, ...: a command
//!               ── a subshell ── a builtin | a command
//!               ── git with children ── commands and copies of itself
//! ```
//!
//! Numbers and lengths are those of 43 recorded tests (`constants.toml`); only the commands' mean length is fitted.

use super::shape::{Program, cycles_ns, of_1024, spread, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const GITSOURCE: Benchmark = Benchmark {
    name: "gitsource",
    about: "`make test` of git's source (texts 000 and 002): a shell starts one short command after the other and waits \
            for each; some are subshells with a pipe, some start children of their own; as recorded. About 400 new \
            processes a second (D. Smythies). A part of the suite runs; the time is that of the whole. Leaves out \
            vfork, and the disk: the recorded tests read nothing from it.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Elapsed }),
    params: &[
        Param::int("processes", (ROUND, 10_000_000), "4480", "processes that are simulated, in steps of 28"),
        Param::int(
            "processes_total",
            (1, 1_000_000_000),
            "275000",
            "processes of the whole suite: 400 a second in 688 s, text 000's performance governor",
        ),
        Param::int("command_cycles", (1, 1_000_000_000_000), "8600000", "mean cycles of a command after its exec")
            .calibrated(),
        Param::int("fork_cycles", (1, 1_000_000_000_000), "850000", "cycles of a new process before its exec")
            .calibrated(),
        Param::int("shell_cycles", (1, 1_000_000_000_000), "770000", "cycles of the shell for each command")
            .calibrated(),
        Param::fixed_permille("170"),
    ],
    build: gitsource,
};

/// Processes of a round: 16 of the test's shell, 6 of its three subshells, 6 of two commands with children.
const ROUND: u64 = 28;

/// Lengths of commands to each other: sixty-four equally likely parts.
const COMMANDS: [u64; 64] = [
    243, 263, 270, 278, 285, 294, 305, 314, 323, 330, 337, 343, 349, 356, 363, 371, 379, 388, 397, 407, 418, 429, 440,
    452, 465, 480, 496, 514, 532, 552, 580, 605, 631, 660, 697, 738, 774, 804, 832, 856, 879, 902, 929, 957, 986, 1019,
    1055, 1096, 1141, 1193, 1251, 1312, 1371, 1436, 1505, 1584, 1671, 1776, 1901, 2075, 2307, 2660, 3340, 11085,
];
/// The same of commands with children: thirty-two parts. Their mean is 2.3 times as long.
const PARENTS: [u64; 32] = [
    125, 147, 163, 173, 181, 191, 202, 216, 243, 297, 347, 387, 427, 472, 523, 569, 607, 644, 700, 772, 845, 923, 1022,
    1133, 1267, 1408, 1568, 1767, 2020, 2379, 3370, 6865,
];
const PARENT_PERMILLE: u64 = 2300;

/// Templates of the tasks.
const COMMAND: u32 = 1;
const COPY: u32 = 2;
const SUBSHELL: u32 = 3;
const PARENT: u32 = 4;

fn gitsource(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |name: &str| cycles_ns(machine, params.int(name));
    let rounds = params.int("processes") / ROUND;
    let (fork_ns, shell_ns) = (ns("fork_cycles"), ns("shell_cycles"));
    let shell = Program::of(|program| {
        program.repeat(rounds, |program| {
            for child in [
                COMMAND, SUBSHELL, COMMAND, PARENT, COMMAND, COMMAND, COPY, COMMAND, SUBSHELL, COMMAND, COMMAND,
                PARENT, COMMAND, SUBSHELL, COMMAND, COMMAND,
            ] {
                program.run(shell_ns, fixed).child(child);
            }
        });
    });
    let command = Program::of(|program| {
        program.run(fork_ns, fixed).op(Op::Exec).draw(0, fixed).op(Op::Count);
    });
    // A copy of its parent: it does a little and ends.
    let copy = Program::of(|program| {
        program.run(fork_ns + fork_ns / 5, fixed).op(Op::Count);
    });
    // Both ends of its pipe run at one time.
    let subshell = Program::of(|program| {
        program.run(fork_ns, fixed).op(Op::Fork { task: COPY }).run(shell_ns, fixed).op(Op::Fork { task: COMMAND });
        program.op(Op::WaitChild).op(Op::WaitChild).run(shell_ns / 2, fixed).op(Op::Count);
    });
    let parent = Program::of(|program| {
        program.run(fork_ns, fixed).op(Op::Exec).draw(1, fixed);
        for child in [COMMAND, COPY, COMMAND] {
            program.child(child);
        }
        program.op(Op::Count);
    });
    let mut shell = shell.task(String::from("sh"));
    shell.delay_ns = start_ns(seed, 0, 1_000_000);
    let command_ns = ns("command_cycles");
    Ok(Workload {
        tasks: vec![
            shell,
            command.template(String::from("git")),
            copy.template(String::from("sh-copy")),
            subshell.template(String::from("sh-sub")),
            parent.template(String::from("git-parent")),
        ],
        draws: vec![spread(command_ns, &COMMANDS), spread(command_ns * PARENT_PERMILLE / 1000, &PARENTS)],
        duration_ns: Some(120_000_000_000),
        nr_main: 1,
        metric: GITSOURCE.reports.and_then(|reports| reports.metric((params.int("processes_total"), ROUND * rounds))),
        ..Workload::default()
    })
}
