//! teo's look at the CPU's utilisation (drivers/cpuidle/governors/teo.c, v6.3 to v6.10): on a CPU that is in use a shallower
//! state is taken than times alone suggest.
//!
//! From public history, without vectors. What is learnt from wake-ups is the governor's underneath; only its choice is
//! changed, where the kernel does that: after the last choice by time, before the tick's fate, which stays.

use super::teo::find_shallower_of;
use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome};

/// A teo with that look.
#[derive(Debug)]
pub struct TeoUtil {
    by_time: Box<dyn IdleGovernor>,
}

impl TeoUtil {
    /// On top of a teo that goes by times alone.
    pub fn new(by_time: Box<dyn IdleGovernor>) -> Self {
        Self { by_time }
    }
}

fn is_usable(index: usize, facts: &IdleFacts<'_>) -> bool {
    !facts.is_disabled(index) && !facts.states[index].polling
}

impl IdleGovernor for TeoUtil {
    fn name(&self) -> &'static str {
        "teo"
    }

    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        let choice = self.by_time.select(facts);
        if !facts.utilized || facts.states.len() < 2 {
            return choice;
        }
        let index = if facts.states.len() == 2 {
            // Nothing is to be weighed: the shallowest usable state.
            (0..2).find(|&i| is_usable(i, facts)).unwrap_or(choice.index)
        } else {
            // teo.c:teo_find_shallower_state() with `no_poll`, v6.3.
            find_shallower_of(|i| is_usable(i, facts), choice.index, facts.sleep_length_ns, facts)
        };
        IdleChoice { index, ..choice }
    }

    fn reflect(&mut self, outcome: &IdleOutcome) {
        self.by_time.reflect(outcome);
    }

    fn reject(&mut self) {
        self.by_time.reject();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::IdleState;
    use crate::profile::KernelProfile;

    const STATES: [IdleState; 4] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 10_000, target_residency_ns: 20_000, polling: false },
        IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
    ];

    fn choices(kernel: &KernelProfile, states: &[IdleState]) -> [usize; 2] {
        [false, true].map(|utilized| {
            let mut teo = crate::cpuidle::teo(kernel);
            let facts = IdleFacts {
                states,
                disabled: 0,
                utilized,
                latency_req_ns: 1_000_000_000,
                sleep_length_ns: 50_000_000,
                delta_tick_ns: 3_000_000,
                tick_stopped: false,
                nr_iowaiters: 0,
                tick_ns: 4_000_000,
                now_ns: 1,
            };
            teo.select(&facts).index
        })
    }

    /// Goal: one state shallower in the kernels that had it, in no other unless the proposal is chosen.
    #[test]
    fn by_kernel_and_proposal() {
        let named = |name| KernelProfile::named(name).expect("a profile");
        assert_eq!(choices(&named("6.1"), &STATES), [3, 3]);
        assert_eq!(choices(&named("6.6"), &STATES), [3, 2]);
        assert_eq!(choices(&named("6.6"), &STATES[2..]), [1, 0]);
        let mut patched = named("6.12");
        assert_eq!(choices(&patched, &STATES), [3, 3]);
        patched.proposals.teo_util = true;
        assert_eq!(choices(&patched, &STATES), [3, 2]);
    }
}
