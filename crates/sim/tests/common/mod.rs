//! Machines and workloads for tests.
#![allow(dead_code, reason = "each test uses its part")]

use opplab_model::event::{Event, Sink};
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::workload::{ChannelSpec, Op, PhaseSpec, TaskSpec, Workload};

/// The Juno r2 of the catalogue.
pub(crate) fn juno_r2() -> Machine {
    let text = include_str!("../../../../python/opplab/data/machines/juno-r2.toml");
    parse_machine("juno-r2.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// `nr` tasks of `duty_permille` of the biggest CPU every 16 ms, born alternately on the biggest CPUs at points of their
/// first period that `seed` scatters.
pub(crate) fn periodic(machine: &Machine, nr: u32, duty_permille: u64, seed: u64) -> Workload {
    const PERIOD_NS: u64 = 16_000_000;
    let most = machine.clusters.iter().map(|cluster| cluster.capacity).max().unwrap_or(0);
    let big: Vec<u32> = (0..machine.nr_cpus() as u32).filter(|&cpu| machine.cluster_of(cpu).capacity == most).collect();
    let task = |index: u32| TaskSpec {
        name: format!("task-{index}"),
        initial: true,
        delay_ns: scatter(seed, index.into()) % PERIOD_NS,
        spawn_cpu: Some(big[index as usize % big.len()]),
        ops: vec![
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: PERIOD_NS * duty_permille / 1000, fixed: 0 },
            Op::Timer { timer: 0, period_ns: PERIOD_NS, absolute: false, own: true },
            Op::Activation { phase: 0, timed: true },
            Op::LoopEnd { slot: 0, begin: 0 },
        ],
        loop_slots: 1,
        nr_own_timers: 1,
        phases: vec![PhaseSpec { name: String::from("phase"), run_ns: 0, period_ns: PERIOD_NS }],
        ..TaskSpec::default()
    };
    Workload { name: String::from("periodic"), tasks: (0..nr).map(task).collect(), ..Workload::default() }
}

/// When CPU 0's clock changed, and to what, in ns and kHz.
#[derive(Default)]
pub(crate) struct Clocks(pub(crate) Vec<(u64, u32)>);

impl Sink for Clocks {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if let Event::CpuFrequency { cpu: 0, khz } = *event {
            self.0.push((now_ns, khz));
        }
    }
}

/// A number that looks random (splitmix64).
fn scatter(seed: u64, index: u64) -> u64 {
    let mut x = seed.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

/// `pairs` of tasks that send each other a message in turn, with `work_ns` of work a message.
pub(crate) fn ping_pong(pairs: u32, work_ns: u64) -> Workload {
    let task = |pair: u32, side: u32| {
        let (out, back) = (pair * 2 + side, pair * 2 + 1 - side);
        let mut ops = vec![Op::LoopBegin { slot: 0, count: None }];
        if side == 1 {
            ops.push(Op::Recv { channel: back });
        }
        ops.push(Op::Run { work_ns, fixed: 0 });
        ops.push(Op::Send { channel: out, bytes: 100 });
        if side == 0 {
            ops.push(Op::Recv { channel: back });
        }
        ops.push(Op::Count);
        ops.push(Op::LoopEnd { slot: 0, begin: 0 });
        TaskSpec { name: format!("pair{pair}-{side}"), initial: true, ops, loop_slots: 1, ..TaskSpec::default() }
    };
    Workload {
        name: String::from("ping-pong"),
        tasks: (0..pairs).flat_map(|pair| [task(pair, 0), task(pair, 1)]).collect(),
        channels: vec![ChannelSpec { capacity_bytes: 65_536, sync_wakeup: true }; pairs as usize * 2],
        ..Workload::default()
    }
}
