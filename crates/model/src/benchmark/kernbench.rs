//! kernbench: `make -jN` of a kernel.
//!
//! ```text
//!   make ── prepare: short processes, one after the other
//!     ├─ make (a directory) ── mkdir, an archive
//!     │    └─ sh (a file, one of N at a time) ── gcc ── cc1, as
//!     │                                       ── objtool, fixdep, rm, shells that do nothing
//!     └─ link: linker, nm, kallsyms, ... and short processes, one after the other
//! ```
//!
//! Numbers and lengths are those of a recorded build (`constants.toml`); only the compiler's mean length is fitted.

use super::shape::{Program, cycles_ns, of_1024, spread, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const KERNBENCH: Benchmark = Benchmark {
    name: "kernbench",
    about: "kernbench (texts 000 and 002): make prepares, starts a make for each directory, keeps N jobs running (a \
            shell starts the compiler driver, which starts compiler and assembler; then objtool, fixdep, rm and seven \
            shells that do nothing), and links; as recorded. A part of the files is compiled, and so much of the serial \
            parts runs; the time is that of the whole. Leaves out the file system, vfork, and make's wake-ups between \
            the commands of a file.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Elapsed }),
    params: &[
        Param::int("jobs", (1, 100_000), "2", "jobs at one time: N of `make -jN`"),
        Param::int(
            "files_total",
            (1, 1_000_000),
            "2240",
            "files of the whole build: objects of an x86 defconfig vmlinux",
        )
        .calibrated(),
        Param::int("files", (0, 1_000_000), "0", "files that are compiled; 0: 64 a job, at least 400, at most all"),
        Param::int("file_cycles", (1, 1_000_000_000_000), "1100000000", "mean cycles of the compiler for a file")
            .calibrated(),
        Param::int(
            "serial_cycles",
            (0, 1_000_000_000_000_000),
            "29000000000",
            "cycles of what runs alone before and after the files, in the whole build",
        )
        .calibrated(),
        Param::int(
            "process_cycles",
            (1, 1_000_000_000_000),
            "7400000",
            "mean cycles of the other thirteen processes of a file",
        )
        .calibrated(),
        Param::fixed_permille("100"),
    ],
    build: kernbench,
};

/// Lengths of compilers to each other: sixteen equally likely parts.
const COMPILERS: [u64; 16] = [78, 345, 461, 554, 615, 680, 744, 801, 862, 910, 983, 1071, 1223, 1436, 1866, 3318];
/// The same of assemblers.
const ASSEMBLERS: [u64; 16] = [576, 639, 666, 690, 717, 742, 763, 795, 828, 870, 928, 1045, 1156, 1328, 1607, 2615];
/// The same of the short processes that run alone.
const ALONE: [u64; 16] = [215, 244, 270, 282, 293, 305, 317, 331, 346, 369, 401, 476, 598, 686, 1360, 9340];
/// The same of the long processes of the link: the passes of the linker, archives, symbol tables.
const LINKERS: [u64; 18] = [116, 111, 106, 100, 92, 71, 63, 61, 29, 28, 26, 20, 20, 20, 18, 17, 17, 11];

/// Lengths of the small processes of a file, in 1/1000 of their mean: shell, driver, assembler, objtool, fixdep, rm; then
/// each of the seven shells that do nothing.
const SMALL: [u64; 6] = [770, 1200, 2040, 3210, 2030, 570];
const NOTHING: u64 = 460;
const NOTHINGS: u64 = 7;
/// Share of their work that does not scale with the clock, in 1/1000: misses of cold caches.
const SMALL_FIXED: u64 = 170;
/// Cycles of a new process before its exec, in 1/1000 of that mean.
const BEFORE_EXEC: u64 = 110;
/// Cycles of make for each file and for reading a directory's makefile, in 1/1000 of that mean.
const MAKE_FILE: u64 = 730;
const MAKE_DIRECTORY: u64 = 2030;

/// Files of directories that have some: quarters of them; and directories without, for each four of these.
const DIRECTORIES: [u64; 4] = [3, 37, 1, 8];
const EMPTY_DIRECTORIES: u64 = 10;

/// Short processes that run alone in a whole build: before the files (of mean 12.9 million cycles, which `serial_cycles`
/// contains) and in the link (a third as long).
const PREPARE: u64 = 520;
const LINK: u64 = 165;
const PREPARE_CYCLES: u64 = 12_900_000;

/// Templates of the tasks.
const RECIPE: u32 = 1;
const DRIVER: u32 = 2;
const COMPILER: u32 = 3;
const ASSEMBLER: u32 = 4;
const OBJTOOL: u32 = 5;
const FIXDEP: u32 = 6;
const RM: u32 = 7;
const SHELL: u32 = 8;
const ARCHIVE: u32 = 9;
const TOOL: u32 = 10;
const LINKER: u32 = 11;
const EMPTY: u32 = 12;
const REST: u32 = 13;
const DIRECTORY: u32 = 14;

fn kernbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let jobs = params.int("jobs");
    let total = params.int("files_total");
    let files = match params.int("files") {
        0 => (64 * jobs).max(400).min(total),
        files if files > total => return Err(format!("`files` is {files}, but there are {total}")),
        files if files < jobs.min(total) => {
            return Err(format!("`files` is {files}, but {jobs} jobs have one each, as in the whole: give 0 or more"));
        }
        files => files,
    };
    let part = |whole: u64| (u128::from(whole) * u128::from(files) / u128::from(total)) as u64;
    let small_ns = |permille: u64| cycles_ns(machine, params.int("process_cycles").saturating_mul(permille) / 1000);
    let round: u64 = DIRECTORIES.iter().sum();
    let (rounds, rest) = (files / round, files % round);

    // What runs alone. A part of the build has as many fewer processes, not shorter ones.
    let serial_cycles = part(params.int("serial_cycles"));
    let (prepare, link) = (part(PREPARE).max(1), part(LINK).max(1));
    let short_cycles = (PREPARE_CYCLES * prepare + PREPARE_CYCLES / 3 * link).min(serial_cycles / 2);
    let short_ns = cycles_ns(machine, short_cycles) / (prepare + link / 3).max(1);
    let linkers = (part(LINKERS.len() as u64) as usize).max(1);
    let linker_ns = cycles_ns(machine, serial_cycles - short_cycles) / linkers as u64;

    let make = Program::of(|program| {
        program.repeat(prepare, |program| {
            program.child(TOOL);
        });
        program.repeat(rounds, |program| {
            for directory in 0..DIRECTORIES.len() as u32 {
                program.op(Op::SemWait { sem: 0 }).op(Op::Fork { task: DIRECTORY + directory });
            }
            program.repeat(EMPTY_DIRECTORIES, |program| {
                program.op(Op::SemWait { sem: 0 }).op(Op::Fork { task: EMPTY });
            });
        });
        program.op(Op::SemWait { sem: 0 }).op(Op::Fork { task: REST });
        program.repeat(rounds * (DIRECTORIES.len() as u64 + EMPTY_DIRECTORIES) + 1, |program| {
            program.op(Op::WaitChild);
        });
        let between = link / linkers as u64;
        program.repeat(linkers as u64, |program| {
            program.child(LINKER).repeat(between, |program| {
                program.child(RM);
            });
        });
    });
    let mut make = make.task(String::from("make"));
    make.delay_ns = start_ns(seed, 0, 1_000_000);

    let small_fixed = of_1024(SMALL_FIXED);
    let process = |program: &mut Program| {
        program.run(small_ns(BEFORE_EXEC), small_fixed).op(Op::Exec);
    };
    let small = |permille: u64| {
        move |program: &mut Program| {
            process(program);
            program.run(small_ns(permille - BEFORE_EXEC), small_fixed);
        }
    };
    let drawn = |draw: u32, fixed: u16| {
        Program::of(|program| {
            process(program);
            program.draw(draw, fixed);
        })
    };
    let [shell, driver, assembler, objtool, fixdep, rm] = SMALL;
    let recipe = Program::of(|program| {
        small(shell)(program);
        for child in [DRIVER, OBJTOOL, FIXDEP, RM] {
            program.child(child);
        }
        program.repeat(NOTHINGS, |program| {
            program.child(SHELL);
        });
        program.op(Op::SemPost { sem: 0 }).op(Op::Count);
    });
    let driver = Program::of(|program| {
        small(driver)(program);
        program.child(COMPILER).child(ASSEMBLER);
    });
    let archive = Program::of(|program| {
        small(shell)(program);
        program.child(RM).child(RM);
    });
    // While a directory's make waits for a job, its own counts for others.
    let directory = |files: u64| {
        Program::of(|program| {
            small(MAKE_DIRECTORY)(program);
            program.child(SHELL).op(Op::SemPost { sem: 0 });
            program.repeat(files, |program| {
                program.op(Op::SemWait { sem: 0 }).run(small_ns(MAKE_FILE), small_fixed).op(Op::Fork { task: RECIPE });
            });
            program.repeat(files, |program| {
                program.op(Op::WaitChild);
            });
            program.child(ARCHIVE);
        })
        .template(String::from("make-dir"))
    };
    let template = |program: Program, name: &str| program.template(String::from(name));
    let mut tasks = vec![
        make,
        template(recipe, "sh"),
        template(driver, "gcc"),
        template(drawn(0, fixed), "cc1"),
        template(drawn(1, small_fixed), "as"),
        template(Program::of(small(objtool)), "objtool"),
        template(Program::of(small(fixdep)), "fixdep"),
        template(Program::of(small(rm)), "rm"),
        template(Program::of(small(NOTHING)), "sh-nothing"),
        template(archive, "sh-ar"),
        template(drawn(2, small_fixed), "tool"),
        template(drawn(3, fixed), "ld"),
        directory(0),
        directory(rest),
    ];
    tasks.extend(DIRECTORIES.map(directory));
    Ok(Workload {
        tasks,
        semaphores: vec![jobs as u32],
        draws: vec![
            spread(cycles_ns(machine, params.int("file_cycles")), &COMPILERS),
            spread(small_ns(assembler), &ASSEMBLERS),
            spread(short_ns, &ALONE),
            spread(linker_ns, &grouped(&LINKERS, linkers)),
        ],
        duration_ns: Some(600_000_000_000),
        nr_main: 1,
        metric: KERNBENCH.reports.and_then(|reports| reports.metric((total, files))),
        ..Workload::default()
    })
}

/// `groups` lengths in place of `lengths`: the mean of each group of neighbours, in 1/100.
fn grouped(lengths: &[u64], groups: usize) -> Vec<u64> {
    let group = |index: usize| {
        let part = &lengths[index * lengths.len() / groups..(index + 1) * lengths.len() / groups];
        100 * part.iter().sum::<u64>() / part.len() as u64
    };
    (0..groups.min(lengths.len())).map(group).collect()
}
