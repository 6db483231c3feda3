//! tbench: pairs of a client and a server that answer each other over loopback sockets.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, Op, Workload};

pub(super) const TBENCH: Benchmark = Benchmark {
    name: "tbench",
    about: "tbench4 with mmtests' client-tiny load (texts 000 and 002): each client sends a request over a loopback \
            socket and waits for its server's answer, without any pause; wake-ups are synchronous. The sizes of the \
            exchanges are those of the load file, in random order. Leaves out what softirqs and TCP's \
            acknowledgements do on other CPUs.",
    reports: Some(Reports { name: "throughput", unit: "MB/s", higher_is_better: true, rule: MetricRule::Rate }),
    params: &[
        Param::int("clients", (1, 100_000), "1", "number of clients, each with a server of its own"),
        Param::int(
            "exchange_cycles",
            (1, 1_000_000_000),
            "14000",
            "cycles of one exchange without the bytes, client and server together",
        )
        .calibrated(),
        Param::int(
            "byte_cycles_permille",
            (0, 1_000_000),
            "800",
            "cycles of a byte, copied in and out again on both sides, in 1/1000",
        )
        .calibrated(),
        Param::int("server_permille", (0, 1000), "500", "share of the server in the cycles, in 1/1000").calibrated(),
        Param::int(
            "after_permille",
            (0, 900),
            "300",
            "share of either side's work that comes after its wake-up of the other: the rest of the softirq and of the \
             system call, and the next one up to its sleep, in 1/1000",
        )
        .calibrated(),
        Param::fixed_permille("0"),
    ],
    build: tbench,
};

/// Bytes of an exchange, both ways, as often as in client-tiny: of 3573 lines, 646 of 4 KiB read and 77 written, 129 of
/// 60 KiB, 96 of 64 KiB, and small ones (dbench 4.0, client.txt lines 601 to 4173).
const EXCHANGE_BYTES: [u64; 32] = [
    65_636, 61_500, 4_150, 4_150, 4_150, 4_150, 4_150, 4_150, 4_150, 700, 300, 300, 300, 250, 250, 250, 180, 180, 180,
    180, 180, 180, 180, 121, 121, 121, 121, 121, 84, 84, 84, 84,
];

/// Megabytes (2^20 bytes) that the 3573 lines of client-tiny are counted as, in millionths.
const PASS_MB_PPM: u64 = 18_234_000;
const PASS_EXCHANGES: u64 = 3573;

fn tbench(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let clients = params.int("clients") as u32;
    let server = params.int("server_permille");
    let fixed = of_1024(params.int("fixed_permille"));
    let after = params.int("after_permille");
    let lengths = |side: u64, part: u64| -> Vec<u64> {
        let share = side * part / 1000;
        let cycles = |bytes: u64| params.int("exchange_cycles") + bytes * params.int("byte_cycles_permille") / 1000;
        EXCHANGE_BYTES.iter().map(|&bytes| cycles_ns(machine, cycles(bytes) * share / 1000)).collect()
    };
    let pair = |pair: u32| {
        let (request, answer) = (2 * pair, 2 * pair + 1);
        let client = Program::of(|program| {
            program.forever(|program| {
                program
                    .draw(0, fixed)
                    .op(Op::Send { channel: request, bytes: 128 })
                    .draw(2, fixed)
                    .op(Op::Recv { channel: answer })
                    .op(Op::Count);
            });
        });
        let server = Program::of(|program| {
            program.forever(|program| {
                program
                    .op(Op::Recv { channel: request })
                    .draw(1, fixed)
                    .op(Op::Send { channel: answer, bytes: 128 })
                    .draw(3, fixed);
            });
        });
        let mut tasks = [server.task(format!("tbench_srv{pair}")), client.task(format!("tbench{pair}"))];
        tasks[1].delay_ns = start_ns(seed, pair.into(), 1_000_000);
        tasks
    };
    Ok(Workload {
        tasks: (0..clients).flat_map(pair).collect(),
        channels: vec![ChannelSpec { capacity_bytes: 1 << 20, sync_wakeup: true }; 2 * clients as usize],
        draws: vec![
            lengths(1000 - server, 1000 - after),
            lengths(server, 1000 - after),
            lengths(1000 - server, after),
            lengths(server, after),
        ],
        duration_ns: Some(1_500_000_000),
        warmup_ns: 500_000_000,
        metric: TBENCH.reports.and_then(|reports| reports.metric((PASS_MB_PPM, PASS_EXCHANGES * 1_000_000))),
        ..Workload::default()
    })
}
