//! NAS Parallel Benchmarks: ranks or threads that compute and wait for each other.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{Op, Workload};

const REPORTS: Reports = Reports { name: "elapsed", unit: "s", higher_is_better: false, rule: MetricRule::Period };

/// What distinguishes the kernels: mean cycles between two points of synchronisation, spread of a task's work around them
/// in 1/1000, share of the time that is the memory's in 1/1000.
const KERNELS: [(&str, u64, u64, u64); 5] = [
    // Conjugate gradient: two short reductions and a product with a sparse matrix, bound by memory.
    ("cg", 1_500_000, 50, 500),
    // Wavefronts of a triangular solver: many short steps, unevenly filled.
    ("lu", 400_000, 250, 200),
    // Multigrid: long steps on the fine grids, short ones on the coarse, bound by memory.
    ("mg", 2_500_000, 100, 450),
    // Scalar penta-diagonal solver: long, even steps.
    ("sp", 5_000_000, 50, 350),
    // Unstructured adaptive mesh: the load shifts.
    ("ua", 2_000_000, 200, 250),
];
const NAMES: &[&str] = &["cg", "lu", "mg", "sp", "ua"];

const KERNEL: Param = Param::word(
    "kernel",
    NAMES,
    "cg",
    "which kernel: how often it synchronises, how even its work is, how much of it is the memory's",
);
const TOTAL: Param =
    Param::int("total_gcycles", (1, 1_000_000_000), "4000", "cycles of the whole run in 10^9, all tasks together")
        .calibrated();
const FIXED: Param = Param::int(
    "fixed_permille",
    (0, 1001),
    "1001",
    "share of the work that does not scale with the clock, in 1/1000; 1001: the kernel's own",
)
.calibrated();

pub(super) const NAS_MPI: Benchmark = Benchmark {
    name: "nas-mpi",
    about: "NAS kernels with MPI (text 002): ranks compute, then wait for each other without ever sleeping. The time is \
            that of the whole at the pace of the run after its warm-up. Leaves out contention for memory and the pattern \
            of messages: each step waits for all.",
    reports: Some(REPORTS),
    params: &[
        Param::int("ranks", (0, 100_000), "0", "number of ranks; 0: one for each online CPU").of_each_cpu(),
        KERNEL,
        TOTAL,
        FIXED,
    ],
    build: mpi,
};

pub(super) const NAS_OMP: Benchmark = Benchmark {
    name: "nas-omp",
    about: "NAS kernels with OpenMP (text 002): threads compute, then wait for each other, first running, after \
            `spin_us` asleep, as libgomp's do. The time is that of the whole at the pace of the run after its warm-up. \
            Leaves out contention for memory and serial parts.",
    reports: Some(REPORTS),
    params: &[
        Param::int("threads", (0, 100_000), "0", "number of threads; 0: one for each online CPU").of_each_cpu(),
        KERNEL,
        TOTAL,
        FIXED,
        Param::int(
            "spin_us",
            (0, 1_000_000_000),
            "3000",
            "time that a thread waits running, in us: GOMP_SPINCOUNT's default",
        ),
    ],
    build: omp,
};

/// Longer than any run: a wait that never sleeps.
const ALWAYS_NS: u64 = 1 << 52;

fn mpi(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    steps(params, machine, seed, params.int("ranks"), ALWAYS_NS)
}

fn omp(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    steps(params, machine, seed, params.int("threads"), params.int("spin_us") * 1000)
}

/// The climb of clocks and the spreading of ranks are small parts of minutes. Before v5.10 a node may get an eighth of its CPUs too
/// many tasks at birth, and an idle CPU of the other node takes one of them in each interval, up to 2 ms for each CPU.
fn warmup_ns(nr_cpus: u64) -> u64 {
    500_000_000 + nr_cpus * nr_cpus * 100_000
}

fn steps(params: &Params, machine: &Machine, seed: u64, tasks: u64, spin_ns: u64) -> Result<Workload, String> {
    let name = params.word("kernel");
    let Some(&(_, step_cycles, spread, memory)) = KERNELS.iter().find(|kernel| kernel.0 == name) else {
        return Err(format!("there is no kernel {name}"));
    };
    let fixed = of_1024(match params.int("fixed_permille") {
        1001 => memory,
        permille => permille,
    });
    // Sixteen lengths evenly around the mean.
    let length = |index: u64| step_cycles * (1000 * 15 + spread * 2 * index - spread * 15) / (1000 * 15);
    let lengths = (0..16).map(|index| cycles_ns(machine, length(index))).collect();
    let program = Program::of(|program| {
        program.forever(|program| {
            program.draw(0, fixed).op(Op::SpinBarrier { barrier: 0, spin_ns }).op(Op::Count);
        });
    });
    let warmup_ns = warmup_ns(machine.nr_cpus() as u64);
    let task = |index: u64| {
        let mut task = program.task(format!("{name}{index}"));
        task.delay_ns = start_ns(seed, index, 1_000_000);
        task
    };
    // A count is one task's step: the whole has as many as its cycles are steps.
    let scale = (params.int("total_gcycles") * 1_000_000, step_cycles / 1000);
    Ok(Workload {
        tasks: (0..tasks).map(task).collect(),
        barriers: vec![tasks as u32],
        draws: vec![lengths],
        duration_ns: Some(warmup_ns + 1_000_000_000),
        warmup_ns,
        metric: REPORTS.metric(scale),
        ..Workload::default()
    })
}
