//! Intel's hybrid processors as intel_pstate describes them to the scheduler (drivers/cpufreq/intel_pstate.c, v6.12 to v6.19).
//!
//! | machine | what the scheduler knows |
//! | --- | --- |
//! | without SMT | capacities by HWP's highest level (v6.12), an artificial energy model by kind of core (v6.16) |
//! | with SMT | equal capacities; priorities of the cores by HWP's highest level, for `SD_ASYM_PACKING` (ITMT) |
//!
//! Capacities of threads that share a core are not known even roughly, so that there are none. Before v6.12 there were none
//! anywhere. The model's "frequencies" are 2 to 5, fifths of the capacity; a cost only ranks which CPU to load first. From the
//! public sources, without vectors. Not here: how the levels are read, thermal changes of them.

use crate::energy_model::{EM_MAX_POWER, EmError, EmPerfState, em_create_artificial_table};

/// The kinds of core that the model distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreKind {
    /// P-core.
    Performance,
    /// E-core.
    Efficient,
    /// E-core without a last-level cache.
    LowPower,
}

/// How the model's costs are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HybridCost {
    /// v6.16: by the frequency of a level relative to that of a P-core, and a little for the last-level cache. All E-cores
    /// are cheaper than any P-core.
    Scaling,
    /// v6.19: by the kind of core; a P-core is as cheap as an E-core that is used above 60 %.
    Kind,
}

/// kHz a level of cores whose levels are 100 MHz (`INTEL_PSTATE_CORE_SCALING`).
pub const CORE_SCALING_KHZ: u32 = 100_000;
/// States of the model (`HYBRID_EM_STATE_COUNT`).
pub const HYBRID_EM_STATE_COUNT: u64 = 4;

/// The "frequencies" of the states: 40, 60, 80 and 100 % of the capacity (intel_pstate.c:hybrid_active_power()).
const FIRST_STATE: u64 = 2;

/// The cost of a state (intel_pstate.c:hybrid_get_cost(), v6.16 and v6.19). `scaling_khz` is the frequency of one level of
/// HWP on this core.
pub fn hybrid_get_cost(form: HybridCost, kind: CoreKind, scaling_khz: u32, state: u64) -> u64 {
    match form {
        HybridCost::Scaling => {
            let ratio = 100 * u64::from(CORE_SCALING_KHZ) / u64::from(scaling_khz.max(1));
            ratio + state + if kind == CoreKind::LowPower { 0 } else { 2 }
        }
        HybridCost::Kind => {
            state
                + match kind {
                    CoreKind::LowPower => 0,
                    CoreKind::Efficient => 2,
                    CoreKind::Performance => 4,
                }
        }
    }
}

/// The model of one CPU, which is a performance domain of its own (intel_pstate.c:hybrid_register_perf_domain()).
///
/// # Errors
/// [`EmError`] where the kernel refuses the table.
pub fn hybrid_perf_table(
    form: HybridCost,
    kind: CoreKind,
    scaling_khz: u32,
    capacity: u64,
) -> Result<Vec<EmPerfState>, EmError> {
    let states = FIRST_STATE..FIRST_STATE + HYBRID_EM_STATE_COUNT;
    let points: Vec<(u64, u64)> = states.clone().map(|state| (state, EM_MAX_POWER)).collect();
    let costs: Vec<u64> = states.map(|state| hybrid_get_cost(form, kind, scaling_khz, state)).collect();
    em_create_artificial_table(&points, &costs, capacity)
}

/// The packing priority of a core's thread number `thread`, from 0 (arch/x86/kernel/itmt.c:sched_set_itmt_core_prio()).
/// Before v6.5 the second thread of a core comes after whole cores (`ranked_threads`).
pub fn itmt_priority(core_priority: i32, threads: u32, thread: u32, ranked_threads: bool) -> i32 {
    if !ranked_threads {
        return core_priority;
    }
    let place = (thread + 1) as i32;
    core_priority.wrapping_mul(threads as i32) / (place * place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(form: HybridCost, kind: CoreKind, scaling_khz: u32) -> Vec<u64> {
        let table = hybrid_perf_table(form, kind, scaling_khz, 1000).expect("a valid table");
        assert_eq!(table.iter().map(|state| state.performance).collect::<Vec<_>>(), [400, 600, 800, 1000]);
        table.iter().map(|state| state.cost).collect()
    }

    /// v6.16: P-cores (78.7 MHz a level on Alder Lake) always cost more; v6.19: an E-core above 60 % costs as much as an idle
    /// P-core.
    #[test]
    fn costs_of_cores() {
        assert_eq!(costs(HybridCost::Scaling, CoreKind::Performance, 78_741), [130, 131, 132, 133]);
        assert_eq!(costs(HybridCost::Scaling, CoreKind::Efficient, 100_000), [104, 105, 106, 107]);
        assert_eq!(costs(HybridCost::Scaling, CoreKind::LowPower, 100_000), [102, 103, 104, 105]);
        assert_eq!(costs(HybridCost::Kind, CoreKind::Performance, 78_741), [6, 7, 8, 9]);
        assert_eq!(costs(HybridCost::Kind, CoreKind::Efficient, 100_000), [4, 5, 6, 7]);
        assert_eq!(costs(HybridCost::Kind, CoreKind::LowPower, 100_000), [2, 3, 4, 5]);
    }

    #[test]
    fn threads_of_a_core_are_ranked_in_old_kernels() {
        assert_eq!((0..2).map(|thread| itmt_priority(60, 2, thread, true)).collect::<Vec<_>>(), [120, 30]);
        assert_eq!((0..2).map(|thread| itmt_priority(60, 2, thread, false)).collect::<Vec<_>>(), [60, 60]);
    }
}
