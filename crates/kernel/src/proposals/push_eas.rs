//! Energy-aware placement of tasks that do not wake: those that are stuck on a CPU are pushed to a better one.

use super::proposal::{ProposalEntry, Within};
use crate::sched::fitness::{Clamps, CpuCapacity, util_fits_cpu};

/// Whether a task is stuck: it is held below what it could use, by the CPU's capacity or by its own cap.
pub fn is_stuck(util: u64, clamps: Option<Clamps>, capacity: &CpuCapacity) -> bool {
    let capped = clamps.is_some_and(|clamps| clamps.max < 1024 && util >= clamps.max);
    capped || util_fits_cpu(util, clamps, capacity) == 0
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "push-eas",
    what: "A task that is stuck on a CPU is pushed where it costs the least energy, without waiting for its next wake-up.",
    thread: "V. Guittot, sched/fair: Rework EAS to handle more cases, v5 2025-03, \
             https://lore.kernel.org/all/20250314163614.1356125-1-vincent.guittot@linaro.org/; v8 2025-12, \
             https://lkml.iu.edu/hypermail/linux/kernel/2512.1/02847.html",
    differs: "Pushed at ticks only, the running task by the stopper and one waiting task; the choice among CPUs is the kernel's \
              find_energy_efficient_cpu(), not the reworked one. A CPU is not overutilised by a lowest clamp.",
    params: &[],
    excludes: &[],
    needs: None,
    within: Some(Within::EnergyAware),
    apply: |proposals, _| proposals.push_eas = true,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_by_capacity_or_cap() {
        let capacity = |orig| CpuCapacity { orig, of: orig, hw_pressure: 0, cpufreq_pressure: 0 };
        assert!(is_stuck(350, None, &capacity(383)));
        assert!(!is_stuck(250, None, &capacity(383)));
        assert!(is_stuck(250, Some(Clamps { max: 200, ..Clamps::NONE }), &capacity(1024)));
        assert!(!is_stuck(150, Some(Clamps { max: 200, ..Clamps::NONE }), &capacity(1024)));
    }
}
