//! kernbench: `make -jN` of a kernel.

use super::shape::{Program, cycles_ns, exponential, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

pub(super) const KERNBENCH: Benchmark = Benchmark {
    name: "kernbench",
    about: "kernbench (texts 000 and 002): make reads its files, keeps N jobs running (a shell starts the compiler \
            driver, which starts compiler and assembler one after the other; then fixdep), and links. A part of the \
            files is compiled, and so much of the serial parts runs; the time is that of the whole. Leaves out the \
            file system and make's recursion.",
    reports: Some(Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Elapsed }),
    params: &[
        Param::int("jobs", (1, 100_000), "2", "jobs at one time: N of `make -jN`"),
        Param::int(
            "files_total",
            (1, 1_000_000),
            "2800",
            "files of the whole build: objects of an x86 defconfig vmlinux",
        )
        .calibrated(),
        Param::int("files", (0, 1_000_000), "0", "files that are compiled; 0: 64 a job, at least 400, at most all"),
        Param::int(
            "file_cycles",
            (1, 1_000_000_000_000),
            "870000000",
            "mean cycles of compiler and assembler for a file",
        )
        .calibrated(),
        Param::int(
            "serial_cycles",
            (0, 1_000_000_000_000_000),
            "29000000000",
            "cycles of what make and the linker do alone, in the whole build",
        )
        .calibrated(),
        Param::int(
            "process_cycles",
            (1, 1_000_000_000_000),
            "3000000",
            "cycles of each small process: shell, driver, fixdep; of make for each file",
        )
        .calibrated(),
        Param::fixed_permille("100"),
    ],
    build: kernbench,
};

/// Templates of the tasks.
const SHELL: u32 = 1;
const DRIVER: u32 = 2;
const COMPILER: u32 = 3;
const ASSEMBLER: u32 = 4;
const FIXDEP: u32 = 5;

fn kernbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |cycles: u64| cycles_ns(machine, cycles);
    let jobs = params.int("jobs");
    let total = params.int("files_total");
    let files = match params.int("files") {
        0 => (64 * jobs).max(400).min(total),
        files if files > total => return Err(format!("`files` is {files}, but there are {total}")),
        files => files,
    };
    let process_ns = ns(params.int("process_cycles"));
    let serial_ns = (u128::from(ns(params.int("serial_cycles"))) * u128::from(files) / u128::from(total)) as u64;
    // Reading the makefiles comes before the first job; the linker, four times as long, after the last one.
    let make = Program::of(|program| {
        program.run(serial_ns / 5, fixed);
        program.repeat(files, |program| {
            program.op(Op::SemWait { sem: 0 }).run(process_ns, fixed).op(Op::Fork { task: SHELL });
        });
        program.repeat(files, |program| {
            program.op(Op::WaitChild);
        });
        program.run(serial_ns - serial_ns / 5, fixed);
    });
    let mut make = make.task(String::from("make"));
    make.delay_ns = start_ns(seed, 0, 1_000_000);
    let process = |program: &mut Program| {
        program.run(process_ns / 4, fixed).op(Op::Exec);
    };
    let small = |program: &mut Program| {
        process(program);
        program.run(process_ns - process_ns / 4, fixed);
    };
    let shell = Program::of(|program| {
        small(program);
        program.child(DRIVER).child(FIXDEP).op(Op::SemPost { sem: 0 }).op(Op::Count);
    });
    let driver = Program::of(|program| {
        small(program);
        program.child(COMPILER).child(ASSEMBLER);
    });
    let drawn = |draw: u32| {
        Program::of(|program| {
            process(program);
            program.draw(draw, fixed);
        })
    };
    let (compiler, assembler) = (drawn(0), drawn(1));
    // The assembler takes about a fifteenth of the time of a file.
    let file_ns = ns(params.int("file_cycles"));
    Ok(Workload {
        tasks: vec![
            make,
            shell.template(String::from("sh")),
            driver.template(String::from("gcc")),
            compiler.template(String::from("cc1")),
            assembler.template(String::from("as")),
            Program::of(small).template(String::from("fixdep")),
        ],
        semaphores: vec![jobs as u32],
        draws: vec![exponential(file_ns - file_ns / 15), exponential(file_ns / 15)],
        duration_ns: Some(600_000_000_000),
        nr_main: 1,
        metric: KERNBENCH.reports.and_then(|reports| reports.metric((total, files))),
        ..Workload::default()
    })
}
