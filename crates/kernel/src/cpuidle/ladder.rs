//! The ladder idle governor (drivers/cpuidle/governors/ladder.c, v6.12).
//!
//! One rung at a time: deeper after four sleeps that were longer than twice the state's exit latency, shallower after one
//! that was shorter than that but not shorter than the exit latency itself: for those the kernel's comparison of a signed
//! number with an unsigned one means "long". It knows nothing about timers and suits kernels with a periodic tick. The tick's fate is left as
//! the idle loop proposes it: stop.

use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, IdleState};

/// Long sleeps in a row before going one state deeper.
pub const PROMOTION_COUNT: u32 = 4;
/// Short sleeps in a row before going one state shallower.
pub const DEMOTION_COUNT: u32 = 1;

/// Ladder's state for one CPU (`struct ladder_device`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ladder {
    /// The state used last (`dev->last_state_idx`); `None` before the first selection.
    pub last_index: Option<usize>,
    /// (promotions, demotions) counted so far, one pair a state.
    pub counts: Vec<(u32, u32)>,
    /// Time in the last state, ns.
    pub last_residency_ns: u64,
}

/// What a state asks for before it is left (ladder.c:ladder_enable_device(), v6.12). A polling state 0 was never set
/// up: any sleep leads out of it, at once.
struct Thresholds {
    promotion_count: u32,
    promotion_time_ns: u64,
    demotion_time_ns: u64,
}

impl Thresholds {
    fn of(index: usize, first: usize, states: &[IdleState]) -> Self {
        if index < first {
            return Self { promotion_count: 0, promotion_time_ns: 0, demotion_time_ns: 0 };
        }
        let exit_latency_ns = states[index].exit_latency_ns;
        Self { promotion_count: PROMOTION_COUNT, promotion_time_ns: exit_latency_ns, demotion_time_ns: exit_latency_ns }
    }
}

impl Ladder {
    /// ladder.c:ladder_do_selection(), v6.12.
    fn move_to(&mut self, old: usize, new: usize) -> usize {
        self.counts[old] = (0, 0);
        self.last_index = Some(new);
        new
    }

    fn select_index(&mut self, facts: &IdleFacts<'_>) -> usize {
        let states = facts.states;
        if states.is_empty() {
            return 0;
        }
        self.counts.resize(states.len(), (0, 0));
        let deepest = states.len() - 1;
        let first = usize::from(states[0].polling).min(deepest);
        let last = self.last_index.unwrap_or(first).min(deepest);
        self.last_index = Some(last);
        if facts.latency_req_ns == 0 {
            return self.move_to(last, 0);
        }
        let exit_latency_ns = states[last].exit_latency_ns;
        // The kernel's difference is signed, the thresholds are not: a sleep shorter than the exit latency counts as a
        // very long one.
        let residency_ns = self.last_residency_ns.wrapping_sub(exit_latency_ns);
        let threshold = Thresholds::of(last, first, states);

        if last < deepest
            && !facts.is_disabled(last + 1)
            && residency_ns > threshold.promotion_time_ns
            && states[last + 1].exit_latency_ns <= facts.latency_req_ns
        {
            self.counts[last] = (self.counts[last].0 + 1, 0);
            if self.counts[last].0 >= threshold.promotion_count {
                return self.move_to(last, last + 1);
            }
        }
        if last > first && (facts.is_disabled(last) || exit_latency_ns > facts.latency_req_ns) {
            let allowed = (first + 1..last).rev().find(|&i| states[i].exit_latency_ns <= facts.latency_req_ns);
            return self.move_to(last, allowed.unwrap_or(first));
        }
        if last > first && residency_ns < threshold.demotion_time_ns {
            self.counts[last] = (0, self.counts[last].1 + 1);
            if self.counts[last].1 >= DEMOTION_COUNT {
                return self.move_to(last, last - 1);
            }
        }
        last
    }
}

impl IdleGovernor for Ladder {
    fn name(&self) -> &'static str {
        "ladder"
    }

    /// ladder.c:ladder_select_state(), v6.12.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        IdleChoice { index: self.select_index(facts), stop_tick: true, queried_sleep_length: false }
    }

    /// ladder.c:ladder_reflect(), v6.12.
    fn reflect(&mut self, outcome: &IdleOutcome) {
        self.last_residency_ns = outcome.residency_ns;
        if outcome.index > 0 {
            self.last_index = Some(outcome.index);
        }
    }

    fn reject(&mut self) {
        self.last_residency_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [IdleState; 3] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 100_000, target_residency_ns: 300_000, polling: false },
    ];

    /// Four long sleeps promote (no sleep at all counts as one), one short sleep demotes.
    #[test]
    fn promotion_and_demotion() {
        let mut ladder = Ladder::default();
        let mut sleep = |residency_ns| {
            let facts = IdleFacts {
                states: &STATES,
                disabled: 0,
                utilized: false,
                latency_req_ns: 1_000_000,
                sleep_length_ns: 0,
                delta_tick_ns: 0,
                tick_stopped: false,
                nr_iowaiters: 0,
                tick_ns: 4_000_000,
                now_ns: 0,
            };
            let index = ladder.select(&facts).index;
            ladder.reflect(&IdleOutcome { index, residency_ns, ..IdleOutcome::default() });
            index
        };
        let indices: Vec<usize> =
            [500_000, 500_000, 500_000, 500_000, 500_000, 150_000, 500_000].into_iter().map(&mut sleep).collect();
        assert_eq!(indices, [1, 1, 1, 2, 2, 2, 1]);
    }

    /// A sleep shorter than the exit latency promotes, since the difference wraps.
    #[test]
    fn very_short_sleeps_promote() {
        let mut ladder = Ladder { last_residency_ns: 1_000, ..Ladder::default() };
        let facts = IdleFacts {
            states: &STATES,
            disabled: 0,
            utilized: false,
            latency_req_ns: 1_000_000,
            sleep_length_ns: 0,
            delta_tick_ns: 0,
            tick_stopped: false,
            nr_iowaiters: 0,
            tick_ns: 4_000_000,
            now_ns: 0,
        };
        let indices: Vec<usize> = (0..4).map(|_| ladder.select(&facts).index).collect();
        assert_eq!(indices, [1, 1, 1, 2]);
    }
}
