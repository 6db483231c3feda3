//! fio: random reads, one at a time.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{DeviceSpec, Op, Workload};

pub(super) const FIO_RANDREAD: Benchmark = Benchmark {
    name: "fio-randread",
    about: "fio, random reads of 4 KiB with one request at a time (text 004): each job submits, sleeps in iowait, is \
            woken by the completion interrupt and goes on. fio itself looks after its jobs every 10 ms and at the disk's \
            statistics every 250 ms (backend.c, helper_thread.c). Leaves out the device's own variation.",
    reports: Some(Reports { name: "iops", unit: "1/s", higher_is_better: true, rule: MetricRule::Rate }),
    params: &[
        Param::int("jobs", (1, 100_000), "1", "number of jobs"),
        Param::word(
            "pin",
            &["last-cpu", "none"],
            "last-cpu",
            "CPU of the jobs: the machine's last one (CPU 7 of a phone), or any",
        ),
        Param::word(
            "irq",
            &["submitter", "first-cpu"],
            "submitter",
            "CPU that takes the interrupt: that of the submitter, or CPU 0",
        ),
        Param::int("irq_cycles", (0, 1_000_000_000), "0", "cycles of the interrupt itself"),
        Param::word("self", &["any", "first-cpu"], "any", "CPU of fio itself: any, or CPU 0"),
        Param::int("submit_cycles", (1, 1_000_000_000), "50000", "cycles of a job before its request").calibrated(),
        Param::int("complete_cycles", (0, 1_000_000_000), "30000", "cycles of a job after its request").calibrated(),
        Param::fixed_permille("0"),
        Param::int("device_us", (1, 100_000_000), "70", "time of a read on the device in us").calibrated(),
        Param::int("poll_cycles", (1, 1_000_000_000), "20000", "cycles of fio itself each time it looks").calibrated(),
    ],
    build: fio_randread,
};

fn fio_randread(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let fixed = of_1024(params.int("fixed_permille"));
    let ns = |name: &str| cycles_ns(machine, params.int(name));
    let last = machine.nr_cpus() as u32 - 1;
    let pinned = params.word("pin") == "last-cpu";
    let (submit_ns, complete_ns) = (ns("submit_cycles"), ns("complete_cycles"));
    let program = Program::of(|program| {
        program.forever(|program| {
            program.run(submit_ns, fixed).op(Op::Io { device: 0, bytes: 4096 }).run(complete_ns, fixed).op(Op::Count);
        });
    });
    let job = |index: u64| {
        let mut task = program.task(format!("fio{index}"));
        task.delay_ns = start_ns(seed, index, 1_000_000);
        task.cpus = pinned.then_some(0);
        task.spawn_cpu = pinned.then_some(last);
        task
    };
    let poll_ns = ns("poll_cycles");
    let cpu_sets = vec![vec![last], vec![0]];
    let self_cpus = (params.word("self") == "first-cpu").then_some(1);
    let looks = |name: &str, every_ns: u64| {
        let program = Program::of(|program| {
            program.forever(|program| {
                program.run(poll_ns, 0).op(Op::Sleep { ns: every_ns });
            });
        });
        let mut task = program.task(name.to_owned());
        task.cpus = self_cpus;
        task
    };
    let own = [looks("fio", 10_000_000), looks("fio-helper", 250_000_000)];
    Ok(Workload {
        tasks: (0..params.int("jobs")).map(job).chain(own).collect(),
        cpu_sets,
        devices: vec![DeviceSpec {
            service_ns: params.int("device_us") * 1000,
            per_kib_ns: 0,
            bus_per_kib_ns: 0,
            queue_depth: 32,
            irq_cpu: (params.word("irq") == "first-cpu").then_some(0),
            irq_ns: ns("irq_cycles"),
            ..DeviceSpec::default()
        }],
        duration_ns: Some(5_000_000_000),
        warmup_ns: 500_000_000,
        metric: FIO_RANDREAD.reports.and_then(|reports| reports.metric((1, 1))),
        ..Workload::default()
    })
}
