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

/// Grace periods and more that a callback waits: on average half of the one in progress, then one of its own, then the
/// tick that calls it. An assumption.
const WAITS: u64 = 3;

/// Ticks until a grace period first looks for idle CPUs, which is how long most take (kernel/rcu/tree.h:
/// RCU_JIFFIES_TILL_FORCE_QS and kernel/rcu/tree.c:rcu_init_geometry(), v5.9).
fn jiffies_till_first_fqs(hz: u32, nr_cpus: usize) -> u64 {
    1 + u64::from(hz > 250) + u64::from(hz > 500) + nr_cpus as u64 / 256
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// kernel/rcu/tree.c:call_rcu() on `cpu`.
    pub(crate) fn call_rcu(&mut self, cpu: CpuId) {
        let ticks = WAITS * jiffies_till_first_fqs(self.case.policy.hz, self.cpus.len());
        self.cpus[cpu].rcu_until_ns = self.now + ticks * self.tick_ns;
    }

    /// kernel/rcu/tree_plugin.h:rcu_needs_cpu(): whether callbacks wait on `cpu`.
    pub(crate) fn rcu_needs_cpu(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].rcu_until_ns > self.now
    }
}
