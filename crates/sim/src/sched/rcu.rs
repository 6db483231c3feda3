//! RCU callbacks, as far as idle CPUs see them: a CPU that has some keeps its tick.
//!
//! Freeing a file, a directory entry, credentials or a task queues a callback on the CPU that does it, to be called when a
//! grace period is over: so do an exec, an exit and the parent's wait. Until then the CPU's next event is its next tick (kernel/time/tick-sched.c:tick_nohz_next_event()
//! asks rcu_needs_cpu()), so that idle governors see short sleeps and do not stop the tick.
//!
//! Not here: who reports quiescent states when, for which callbacks wait for a length of time of our own, see
//! [`Engine::call_rcu`].

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::Sink;

use crate::ids::CpuId;
use crate::run::engine::Engine;

/// Halves of grace periods that a callback waits: the rest of the one in progress, one that had begun before the CPU numbered
/// the callback, its own, and the ticks that notice each. Recorded: idle CPUs of Linux 6.12 (250 Hz, six CPUs, a chain of
/// short processes) kept their tick for 28 to 32 ms after an exit where nothing else ran, with grace periods of 8 ms.
const WAITS_HALVES: u64 = 7;

/// Ticks of a grace period: until it first looks for idle CPUs (kernel/rcu/tree.h: RCU_JIFFIES_TILL_FORCE_QS and
/// kernel/rcu/tree.c:rcu_init_geometry(), v5.9), and one more, as timers never expire early. Most end there.
fn grace_period_ticks(hz: u32, nr_cpus: usize) -> u64 {
    let jiffies_till_first_fqs = 1 + u64::from(hz > 250) + u64::from(hz > 500) + nr_cpus as u64 / 256;
    jiffies_till_first_fqs + 1
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// kernel/rcu/tree.c:call_rcu() on `cpu`.
    pub(crate) fn call_rcu(&mut self, cpu: CpuId) {
        let ticks = WAITS_HALVES * grace_period_ticks(self.case.policy.hz, self.cpus.len()) / 2;
        self.cpus[cpu].rcu_until_ns = self.now + ticks * self.tick_ns;
    }

    /// kernel/rcu/tree_plugin.h:rcu_needs_cpu(): whether callbacks wait on `cpu`.
    pub(crate) fn rcu_needs_cpu(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].rcu_until_ns > self.now
    }
}
