//! netperf: a stream of messages over the loopback device.

use super::shape::{Program, cycles_ns, of_1024, start_ns};
use super::{Benchmark, Param, Params, Reports};
use crate::machine::Machine;
use crate::metric::MetricRule;
use crate::workload::{ChannelSpec, Op, Workload};

const REPORTS: Reports = Reports { name: "throughput", unit: "Mbit/s", higher_is_better: true, rule: MetricRule::Rate };

const PARAMS: &[Param] = &[
    Param::int("streams", (1, 100_000), "1", "number of senders, each with a receiver of its own"),
    Param::int("message_bytes", (1, 1_000_000), "1024", "length of a message in bytes"),
    Param::int("send_cycles", (1, 1_000_000_000), "2600", "cycles of the sender for each message, without its bytes")
        .calibrated(),
    Param::int(
        "receive_cycles",
        (1, 1_000_000_000),
        "2000",
        "cycles of the receiver for each message, without its bytes",
    )
    .calibrated(),
    Param::int("byte_cycles_permille", (0, 1_000_000), "300", "cycles of a byte on either side in 1/1000").calibrated(),
    Param::fixed_permille("100"),
];

pub(super) const NETPERF_UDP: Benchmark = Benchmark {
    name: "netperf-udp",
    about: "netperf UDP_STREAM over loopback (text 002): the sender never waits, and what finds the receiver's socket \
            full is lost; what is received counts. The sender's cycles hold those of the softirq, which runs on its \
            CPU.",
    reports: Some(REPORTS),
    params: PARAMS,
    build: udp,
};

pub(super) const NETPERF_TCP: Benchmark = Benchmark {
    name: "netperf-tcp",
    about: "netperf TCP_STREAM over loopback (text 002): the sender waits while the receiver's window is full. The \
            sender's cycles hold those of the softirq, which runs on its CPU. Leaves out acknowledgements.",
    reports: Some(REPORTS),
    params: PARAMS,
    build: tcp,
};

fn udp(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    // net.core.rmem_default, of which each message takes twice its length.
    Ok(stream(params, machine, seed, 212_992 / 2, |channel, bytes| Op::TrySend { channel, bytes }))
}

fn tcp(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    // The window that autotuning reaches on loopback: net.ipv4.tcp_rmem's largest, half of it for data.
    Ok(stream(params, machine, seed, 3 << 20, |channel, bytes| Op::Send { channel, bytes }))
}

fn stream(params: &Params, machine: &Machine, seed: u64, window_bytes: u32, send: impl Fn(u32, u32) -> Op) -> Workload {
    let fixed = of_1024(params.int("fixed_permille"));
    let bytes = params.int("message_bytes");
    let ns =
        |name: &str| cycles_ns(machine, params.int(name) + bytes * params.int("byte_cycles_permille") / 1000).max(1);
    let (send_ns, receive_ns) = (ns("send_cycles"), ns("receive_cycles"));
    let streams = params.int("streams") as u32;
    let pair = |channel: u32| {
        let sender = Program::of(|program| {
            program.forever(|program| {
                program.run(send_ns, fixed).op(send(channel, bytes as u32));
            });
        });
        let receiver = Program::of(|program| {
            program.forever(|program| {
                program.op(Op::Recv { channel }).run(receive_ns, fixed).op(Op::Count);
            });
        });
        let mut tasks = [receiver.task(format!("netserver{channel}")), sender.task(format!("netperf{channel}"))];
        tasks[1].delay_ns = start_ns(seed, channel.into(), 1_000_000);
        tasks
    };
    let capacity_bytes = window_bytes.max(bytes as u32);
    Workload {
        tasks: (0..streams).flat_map(pair).collect(),
        channels: vec![ChannelSpec { capacity_bytes, sync_wakeup: true }; streams as usize],
        duration_ns: Some(1_500_000_000),
        warmup_ns: 500_000_000,
        metric: REPORTS.metric((8 * bytes, 1_000_000)),
        ..Workload::default()
    }
}
