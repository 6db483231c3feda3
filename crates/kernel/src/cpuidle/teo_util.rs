//! teo's look at the CPU's utilisation (drivers/cpuidle/governors/teo.c, v6.3 to v6.10): on a CPU that is in use a shallower
//! state is taken than counts and latencies suggest. What is learnt from wake-ups stays.
//!
//! | | v6.3 | v6.4.16, v6.5.3 | v6.6 |
//! | --- | --- | --- | --- |
//! | the timers are asked | before | before | after, if that state is deep enough |
//! | the shallower state | fits the expected sleep | the same | is the next one |
//! | the tick is stopped and the state not worth one | taken | left | left |
//! | the sleep that decides on the tick | as expected before | the middle of the state's bin | as the timers are |

use super::teo_parts::{find_shallower_of, is_deep_enough};
use super::{IdleFacts, TeoUtil};

impl TeoUtil {
    /// Whether the kernel asks for it.
    pub fn looks(self) -> bool {
        matches!(self, Self::Shallower | Self::ShallowerIfOk)
    }

    /// Whether it changes the choice on this CPU.
    pub(super) fn sees_use(self, facts: &IdleFacts<'_>) -> bool {
        self.looks() && facts.utilized
    }

    /// The state below `index` that a CPU in use takes before the timers are asked (teo.c:teo_select(), v6.6).
    pub(super) fn shallower(self, index: usize, facts: &IdleFacts<'_>) -> usize {
        if !self.sees_use(facts) {
            return index;
        }
        let found = find_shallower_without_polling(index, i64::MAX, facts);
        if self == Self::Shallower || is_deep_enough(found, facts) { found } else { index }
    }

    /// The state of a CPU in use that has two, where nothing is weighed (teo.c:teo_select(), v6.6); `None`: it has more, or its
    /// use does not count.
    pub(super) fn of_two(self, facts: &IdleFacts<'_>) -> Option<usize> {
        let has_two = facts.states.len() == 2 && self.sees_use(facts);
        has_two.then(|| shallow_of_two(is_deep_enough(0, facts), facts))
    }
}

/// teo.c:teo_find_shallower_state() with `no_poll`, v6.3.
pub(super) fn find_shallower_without_polling(index: usize, duration_ns: i64, facts: &IdleFacts<'_>) -> usize {
    find_shallower_of(|i| is_usable(i, facts), index, duration_ns, facts)
}

/// State 0 of two, if it is a real one and deep enough (`ok`), or the only one.
pub(super) fn shallow_of_two(ok: bool, facts: &IdleFacts<'_>) -> usize {
    usize::from(!(is_usable(0, facts) && ok || facts.is_disabled(1)))
}

pub(super) fn is_usable(index: usize, facts: &IdleFacts<'_>) -> bool {
    !facts.is_disabled(index) && !facts.is_polling(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::{IdleChoice, IdleState};
    use crate::profile::KernelProfile;

    const STATES: [IdleState; 4] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 10_000, target_residency_ns: 20_000, polling: false },
        IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
    ];

    /// What a CPU that did not idle before chooses: the state, and whether the tick stops.
    fn choice(kernel: &KernelProfile, states: &[IdleState], utilized: bool, times_ns: [i64; 2]) -> (usize, bool) {
        let [sleep_length_ns, delta_tick_ns] = times_ns;
        let facts = IdleFacts {
            states,
            disabled: 0,
            utilized,
            latency_req_ns: 1_000_000_000,
            sleep_length_ns,
            delta_tick_ns,
            tick_stopped: false,
            nr_iowaiters: 0,
            tick_ns: 4_000_000,
            now_ns: 1,
        };
        let IdleChoice { index, stop_tick, .. } = crate::cpuidle::teo(kernel).select(&facts);
        (index, stop_tick)
    }

    fn named(name: &str) -> KernelProfile {
        KernelProfile::named(name).expect("a profile")
    }

    /// Goal: one state shallower in the kernels that had it, in no other unless the proposal is chosen.
    #[test]
    fn by_kernel_and_proposal() {
        let far = [50_000_000, 3_000_000];
        let both = |kernel: &KernelProfile, states| [false, true].map(|utilized| choice(kernel, states, utilized, far));
        for (kernel, in_use) in [
            ("6.2", (3, true)),
            ("6.3", (2, true)),
            ("6.4", (2, true)),
            ("6.4.16", (2, false)),
            ("6.5.3", (2, false)),
            ("6.6", (2, true)),
            ("6.10", (2, true)),
            ("6.11", (3, true)),
        ] {
            assert_eq!(both(&named(kernel), &STATES), [(3, true), in_use], "{kernel}");
        }
        for (kernel, in_use) in [("6.3", (0, true)), ("6.5.3", (0, false)), ("6.6", (0, false))] {
            assert_eq!(both(&named(kernel), &STATES[2..]), [(1, true), in_use], "two states, {kernel}");
        }
        for kernel in ["6.1", "6.12", "6.14", "6.19"] {
            let mut patched = named(kernel);
            patched.proposals.teo_util = true;
            assert_eq!(both(&patched, &STATES)[1].0, 2, "{kernel}");
        }
    }

    /// The look comes before the correction for a tick that goes on: both together go down by one state, not by two.
    #[test]
    fn before_the_tick() {
        for kernel in ["6.3", "6.5.3"] {
            let near = [700_000, 100_000];
            let found = [false, true].map(|utilized| choice(&named(kernel), &STATES, utilized, near));
            assert_eq!(found, [(2, false); 2], "{kernel}");
        }
    }
}
