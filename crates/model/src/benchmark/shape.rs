//! What builders of workloads share: programs put together step by step, lengths drawn from a distribution, work in cycles.
//!
//! Nothing here knows a benchmark.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::machine::Machine;
use crate::workload::{Op, TaskSpec};

/// Sixteen equally likely parts of an exponential distribution of mean 1000: -ln(1 - (i + 1/2) / 16), scaled to the mean.
const EXPONENTIAL: [u64; 16] = [32, 101, 174, 252, 337, 430, 533, 646, 774, 921, 1091, 1296, 1553, 1897, 2419, 3542];

/// Lengths with mean `mean` that spread as waiting times do: most are short, few are long.
pub(super) fn exponential(mean: u64) -> Vec<u64> {
    spread(mean, &EXPONENTIAL)
}

/// Lengths with mean `mean` that are to each other as `parts`.
pub(super) fn spread(mean: u64, parts: &[u64]) -> Vec<u64> {
    let total: u64 = parts.iter().sum();
    let length = |part: &u64| u128::from(mean) * u128::from(*part) * parts.len() as u128 / u128::from(total);
    parts.iter().map(|part| length(part) as u64).collect()
}

/// Processes that have just been started wait for each other, or connect, before they work, ns: two half-lives of load
/// tracking, so that little is left of what a new task is taken for.
pub(super) const READY_NS: u64 = 64_000_000;

/// Work of `cycles` of the machine's biggest CPU, in ns at its reference clock.
pub(super) fn cycles_ns(machine: &Machine, cycles: u64) -> u64 {
    (u128::from(cycles) * 1_000_000 / u128::from(machine.reference_khz())) as u64
}

/// A share in thousandths as one of 1024 parts.
pub(super) fn of_1024(permille: u64) -> u16 {
    (permille.min(1000) * 1024 / 1000) as u16
}

/// A start that differs from run to run: less than `span_ns`, drawn from the `index`-th stream of a seed.
pub(super) fn start_ns(seed: u64, index: u64, span_ns: u64) -> u64 {
    const STREAM: u128 = 0x0073_7461_7274 << 64;
    Pcg64::new(seed.into(), STREAM + u128::from(index)).next_u64() % span_ns.max(1)
}

/// A program under construction. Its steps are added in place.
#[derive(Debug, Default)]
pub(super) struct Program {
    ops: Vec<Op>,
    depth: u16,
    depth_max: u16,
}

impl Program {
    /// The program that `body` adds to an empty one.
    pub(super) fn of(body: impl FnOnce(&mut Self)) -> Self {
        let mut program = Self::default();
        body(&mut program);
        program
    }

    /// Adds one step.
    pub(super) fn op(&mut self, op: Op) -> &mut Self {
        self.ops.push(op);
        self
    }

    /// Adds work of a fixed length.
    pub(super) fn run(&mut self, work_ns: u64, fixed: u16) -> &mut Self {
        self.op(Op::Run { work_ns, fixed })
    }

    /// Adds work of a length from a table.
    pub(super) fn draw(&mut self, draw: u32, fixed: u16) -> &mut Self {
        self.op(Op::RunDraw { draw, fixed })
    }

    /// Adds work whose length is the entry of a list for the round of the innermost loop.
    pub(super) fn listed(&mut self, draw: u32, fixed: u16) -> &mut Self {
        let slot = self.depth - 1;
        self.op(Op::RunListed { draw, slot, fixed })
    }

    /// Adds the start of a child, and the wait for its end.
    pub(super) fn child(&mut self, task: u32) -> &mut Self {
        self.op(Op::Fork { task }).op(Op::WaitChild)
    }

    /// Adds what `body` adds, `count` times over.
    pub(super) fn repeat(&mut self, count: u64, body: impl FnOnce(&mut Self)) -> &mut Self {
        self.looped(Some(count.min(u64::from(u32::MAX)) as u32), body)
    }

    /// Adds what `body` adds, again and again.
    pub(super) fn forever(&mut self, body: impl FnOnce(&mut Self)) -> &mut Self {
        self.looped(None, body)
    }

    fn looped(&mut self, count: Option<u32>, body: impl FnOnce(&mut Self)) -> &mut Self {
        let (slot, begin) = (self.depth, self.ops.len() as u32);
        self.ops.push(Op::LoopBegin { slot, count });
        self.depth += 1;
        self.depth_max = self.depth_max.max(self.depth);
        body(self);
        self.depth -= 1;
        self.op(Op::LoopEnd { slot, begin })
    }

    /// A task that starts with the run.
    pub(super) fn task(&self, name: String) -> TaskSpec {
        TaskSpec { initial: true, ..self.template(name) }
    }

    /// A task that another starts.
    pub(super) fn template(&self, name: String) -> TaskSpec {
        let mut ops = self.ops.clone();
        ops.push(Op::Exit);
        TaskSpec { name, ops, loop_slots: self.depth_max, ..TaskSpec::default() }
    }
}
