//! The haltpoll idle governor for guests (drivers/cpuidle/governors/haltpoll.c, v6.12).
//!
//! A guest's halt is expensive, so poll for a while first: state 0 polls for at most [`Haltpoll::poll_limit_ns`],
//! state 1 halts. The window doubles while halts turn out shorter than the maximum and halves when they are longer.

use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome};

/// The module parameters, with the kernel's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HaltpollParams {
    /// Longest polling window, ns.
    pub guest_halt_poll_ns: u32,
    /// Divisor when the window shrinks; 0 sets it to 0 at once.
    pub guest_halt_poll_shrink: u32,
    /// Factor when the window grows.
    pub guest_halt_poll_grow: u32,
    /// The first window above 0, ns.
    pub guest_halt_poll_grow_start: u32,
    /// Whether the window may shrink.
    pub guest_halt_poll_allow_shrink: bool,
}

impl Default for HaltpollParams {
    fn default() -> Self {
        Self {
            guest_halt_poll_ns: 200_000,
            guest_halt_poll_shrink: 2,
            guest_halt_poll_grow: 2,
            guest_halt_poll_grow_start: 50_000,
            guest_halt_poll_allow_shrink: true,
        }
    }
}

/// Haltpoll's state for one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Haltpoll {
    /// The module parameters.
    pub params: HaltpollParams,
    /// The polling window, ns; whoever enters state 0 has to leave it after this time and report `poll_time_limit`.
    pub poll_limit_ns: u64,
    last_index: usize,
    poll_time_limit: bool,
}

impl Haltpoll {
    /// A CPU that did not poll yet.
    pub fn new(params: HaltpollParams) -> Self {
        Self { params, ..Self::default() }
    }

    /// haltpoll.c:adjust_poll_limit(), v6.12. Products are cut to 32 bits.
    fn adjust_poll_limit(&mut self, block_ns: u64) {
        let params = &self.params;
        let longest = u64::from(params.guest_halt_poll_ns);
        if block_ns > self.poll_limit_ns && block_ns <= longest {
            let grown = (self.poll_limit_ns as u32).wrapping_mul(params.guest_halt_poll_grow);
            self.poll_limit_ns = u64::from(grown.max(params.guest_halt_poll_grow_start).min(params.guest_halt_poll_ns));
        } else if block_ns > longest && params.guest_halt_poll_allow_shrink {
            let shrunk = (self.poll_limit_ns as u32).checked_div(params.guest_halt_poll_shrink).unwrap_or(0);
            self.poll_limit_ns = if shrunk < params.guest_halt_poll_grow_start { 0 } else { u64::from(shrunk) };
        }
    }
}

impl IdleGovernor for Haltpoll {
    fn name(&self) -> &'static str {
        "haltpoll"
    }

    /// haltpoll.c:haltpoll_select(), v6.12. With a table of fewer than two states there is nothing to halt in: state 0.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        let choice = |index, stop_tick| IdleChoice { index, stop_tick, queried_sleep_length: false };
        if facts.states.is_empty() || facts.latency_req_ns == 0 {
            return choice(0, false);
        }
        let poll_ended = self.last_index == 0 && self.poll_time_limit;
        if self.poll_limit_ns == 0 || poll_ended {
            return choice(1.min(facts.states.len() - 1), true);
        }
        choice(0, false)
    }

    /// haltpoll.c:haltpoll_reflect(), v6.12.
    fn reflect(&mut self, outcome: &IdleOutcome) {
        self.last_index = outcome.index;
        if outcome.index == 0 {
            self.poll_time_limit = outcome.poll_time_limit;
        } else {
            self.adjust_poll_limit(outcome.residency_ns);
        }
    }

    fn reject(&mut self) {}

    /// 0 is none.
    fn own_poll_limit_ns(&self) -> Option<u64> {
        (self.poll_limit_ns > 0).then_some(self.poll_limit_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short halts open the window in doublings up to the maximum; long halts close it.
    #[test]
    fn window_follows_halts() {
        let mut governor = Haltpoll::default();
        let mut halt = |residency_ns| {
            governor.reflect(&IdleOutcome { index: 1, residency_ns, ..IdleOutcome::default() });
            governor.poll_limit_ns
        };
        let windows: Vec<u64> =
            [60_000, 90_000, 190_000, 200_000, 1_000, 300_000, 300_000, 300_000].into_iter().map(&mut halt).collect();
        assert_eq!(windows, [50_000, 100_000, 200_000, 200_000, 200_000, 100_000, 50_000, 0]);
    }
}
