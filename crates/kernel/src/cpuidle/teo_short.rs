//! The timer-events-oriented idle governor since v6.14 (drivers/cpuidle/governors/teo.c).
//!
//! Beside the bins of [`super::Teo`] it counts short sleeps, and does not ask the timers where these are the majority and
//! a shallow state is the candidate; and it counts sleeps that something ended before a tick, which keep the tick. v6.19
//! rewrote how ticks count ([`TickRule::Counted`]): wake-ups by the tick are counted on their own, and if they dominate,
//! each is a hit of the deepest state. Written from the public sources of both; there are no vectors of them.

use super::teo_parts::{
    Candidate, DECAY_SHIFT, Early, PULSE, TeoBin, ended_by_tick, for_near_timer, intercepted, is_deep_enough,
    measured_ns, two_states, with_tick,
};
use super::{
    IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, KTIME_MAX, RESIDENCY_THRESHOLD_NS, TeoNearTimer, TeoUtil, within,
};

/// Below this latency constraint only shallow states are left, so that the timers need not be asked; ns.
pub const LATENCY_THRESHOLD_NS: u64 = RESIDENCY_THRESHOLD_NS / 2;

/// How wake-ups by the tick count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TickRule {
    /// v6.14 to v6.18: as a sleep that might have been long, where the timer was further away than a tick.
    #[default]
    Artificial,
    /// v6.19: on their own, and counts decay to 0.
    Counted,
}

/// Teo's state for one CPU (`struct teo_cpu`, v6.14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeoShort {
    rule: TickRule,
    avoids_shallow: bool,
    /// No kernel of these looks at it; a proposal does.
    util: TeoUtil,
    /// Time to the closest timer at selection, ns; `i64::MAX` if it was not asked.
    pub sleep_length_ns: i64,
    /// One bin a state.
    pub bins: Vec<TeoBin>,
    /// Sum over all bins.
    pub total: u32,
    /// Wake-ups by the tick.
    pub total_tick: u32,
    /// Intercepts that count for or against the tick.
    pub tick_intercepts: u32,
    /// Wake-ups after short sleeps.
    pub short_idles: u32,
    tick_ns: u64,
    /// The last outcome, not digested yet: the state, the residency in ns, and whether a safety net ended it.
    pending: Option<(usize, u64, bool)>,
    tick_wakeup: bool,
}

impl TeoShort {
    /// A CPU that did not idle yet.
    pub fn new(rule: TickRule, near_timer: TeoNearTimer, util: TeoUtil) -> Self {
        Self {
            rule,
            avoids_shallow: near_timer == TeoNearTimer::Avoided,
            util,
            sleep_length_ns: 0,
            bins: Vec::new(),
            total: 0,
            total_tick: 0,
            tick_intercepts: 0,
            short_idles: 0,
            tick_ns: 0,
            pending: None,
            tick_wakeup: false,
        }
    }

    /// teo.c:teo_decay(), v6.19; before, small counts stay.
    fn decay(&self, count: u32) -> u32 {
        match (count >> DECAY_SHIFT, self.rule) {
            (0, TickRule::Counted) => 0,
            (delta, _) => count - delta,
        }
    }

    /// Digests the last idle period (teo.c:teo_update(), v6.14 and v6.19).
    fn update(&mut self, last_index: usize, residency_ns: u64, artificial: bool, facts: &IdleFacts<'_>) {
        if facts.states.is_empty() {
            return;
        }
        self.short_idles = self.decay(self.short_idles);
        let exit_latency_ns = facts.states.get(last_index).map_or(0, |state| state.exit_latency_ns);
        let measured_ns = if artificial { i64::MAX as u64 } else { measured_ns(last_index, residency_ns, facts) };
        if !artificial && (residency_ns < exit_latency_ns || measured_ns < RESIDENCY_THRESHOLD_NS) {
            self.short_idles = self.short_idles.wrapping_add(PULSE);
        }

        let (mut index_timer, mut index_duration) = (0, 0);
        let mut total = 0u32;
        for (i, state) in facts.states.iter().enumerate() {
            let bin = self.bins[i];
            let bin = TeoBin { hits: self.decay(bin.hits), intercepts: self.decay(bin.intercepts) };
            self.bins[i] = bin;
            total = total.wrapping_add(bin.hits).wrapping_add(bin.intercepts);
            if within(state.target_residency_ns, self.sleep_length_ns) {
                index_timer = i;
                if state.target_residency_ns <= measured_ns {
                    index_duration = i;
                }
            }
        }
        self.total = match self.rule {
            TickRule::Counted => total.wrapping_add(PULSE),
            TickRule::Artificial => self.decay(self.total).wrapping_add(PULSE),
        };
        self.tick_intercepts = self.decay(self.tick_intercepts);
        if self.rule == TickRule::Counted {
            self.total_tick = self.decay(self.total_tick);
            if self.tick_wakeup {
                self.total_tick = self.total_tick.wrapping_add(PULSE);
                if self.total_tick.wrapping_mul(3) > self.total.wrapping_mul(2) {
                    let deepest = &mut self.bins[facts.states.len() - 1].hits;
                    *deepest = deepest.wrapping_add(PULSE);
                    return;
                }
            }
        }

        let bin = &mut self.bins[index_duration];
        if index_timer == index_duration {
            bin.hits = bin.hits.wrapping_add(PULSE);
            return;
        }
        bin.intercepts = bin.intercepts.wrapping_add(PULSE);
        let counts = match self.rule {
            TickRule::Artificial => facts.tick_ns <= measured_ns,
            TickRule::Counted => measured_ns <= facts.tick_ns,
        };
        if counts {
            self.tick_intercepts = self.tick_intercepts.wrapping_add(PULSE);
        }
    }

    /// The state below `index` that more than half of the intercepts suggest (the second part of teo.c:teo_select()).
    fn intercepted(&self, candidate: &Candidate, early: Early, facts: &IdleFacts<'_>) -> usize {
        let Candidate { index, index0, intercept_sum, .. } = *candidate;
        match self.rule {
            TickRule::Counted => {
                let shallowest = (index0..index).find(|&i| is_deep_enough(i, facts)).unwrap_or(index);
                let mut found = index;
                let mut sum = 0u32;
                for i in (shallowest..index).rev() {
                    sum = sum.wrapping_add(self.bins[i].intercepts);
                    if facts.is_disabled(i) {
                        continue;
                    }
                    found = i;
                    if sum.wrapping_mul(2) > intercept_sum {
                        break;
                    }
                }
                found
            }
            TickRule::Artificial => intercepted(&self.bins, None, (index, early), |i| is_deep_enough(i, facts), facts),
        }
    }
}

impl IdleGovernor for TeoShort {
    fn name(&self) -> &'static str {
        "teo"
    }

    /// teo.c:teo_select(), v6.14 and v6.19.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        let states = facts.states;
        self.bins.resize(states.len(), TeoBin::default());
        self.tick_ns = facts.tick_ns;
        if let Some((last_index, residency_ns, artificial)) = self.pending.take() {
            self.update(last_index, residency_ns, artificial, facts);
        }
        self.sleep_length_ns = KTIME_MAX as i64;
        let keep_tick = |index, queried_sleep_length| IdleChoice { index, stop_tick: false, queried_sleep_length };
        if states.len() < 2 {
            return keep_tick(0, false);
        }

        let mut delta_tick_ns = (facts.tick_ns / 2) as i64;
        if let Some(index) = self.util.of_two(facts) {
            return two_states(index, delta_tick_ns, facts);
        }

        let Some(candidate) = Candidate::of(&self.bins, facts) else { return keep_tick(0, false) };
        let Candidate { mut index, index0, constraint_index, intercept_sum, hit_sum, .. } = candidate;
        let mut queried_sleep_length = false;
        let duration_ns;
        if index == index0 {
            duration_ns = i128::from(states[index].target_residency_ns);
        } else {
            if let Some(early) = Early::of(intercept_sum, hit_sum, 0, self.total) {
                index = self.intercepted(&candidate, early, facts);
            }
            index = self.util.shallower(index.min(constraint_index), facts);
            let shallow = index == 0 || states[index].target_residency_ns < RESIDENCY_THRESHOLD_NS;
            let mostly_short = self.short_idles.wrapping_mul(2) >= self.total;
            if shallow && (mostly_short || facts.latency_req_ns < LATENCY_THRESHOLD_NS) {
                return keep_tick(index, false);
            }
            queried_sleep_length = true;
            delta_tick_ns = facts.delta_tick_ns;
            self.sleep_length_ns = facts.sleep_length_ns;
            if index == 0 {
                return keep_tick(0, true);
            }
            if !within(states[index].target_residency_ns, facts.sleep_length_ns) {
                index = for_near_timer(self.avoids_shallow, index, facts);
            }
            let mostly_before_tick = states[index].target_residency_ns < facts.tick_ns
                && self.tick_intercepts > self.total / 2 + self.total / 8;
            duration_ns =
                if mostly_before_tick { i128::from(facts.tick_ns / 2) } else { i128::from(facts.sleep_length_ns) };
        }

        with_tick(index, index0, duration_ns, delta_tick_ns, queried_sleep_length, facts)
    }

    /// teo.c:teo_reflect(), v6.14 and v6.19.
    fn reflect(&mut self, outcome: &IdleOutcome) {
        let by_tick = self.rule == TickRule::Artificial && ended_by_tick(outcome, self.sleep_length_ns, self.tick_ns);
        self.pending = Some((outcome.index, outcome.residency_ns, outcome.poll_time_limit || by_tick));
        self.tick_wakeup = outcome.got_tick;
    }

    fn reject(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::IdleState;

    const STATES: [IdleState; 3] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
    ];

    fn sleep(teo: &mut TeoShort, residency_ns: u64, got_tick: bool) -> IdleChoice {
        let facts = IdleFacts {
            states: &STATES,
            disabled: 0,
            utilized: false,
            latency_req_ns: 1_000_000_000,
            sleep_length_ns: 50_000_000,
            delta_tick_ns: 3_000_000,
            tick_stopped: false,
            nr_iowaiters: 0,
            tick_ns: 4_000_000,
            now_ns: 0,
        };
        let choice = teo.select(&facts);
        teo.reflect(&IdleOutcome { index: choice.index, residency_ns, got_tick, ..IdleOutcome::default() });
        choice
    }

    /// Where sleeps are short the timers are not asked, and the state is shallow.
    #[test]
    fn short_sleeps_do_not_ask_the_timers() {
        for rule in [TickRule::Artificial, TickRule::Counted] {
            let mut teo = TeoShort::new(rule, TeoNearTimer::TakenAgain, TeoUtil::Dropped);
            for _ in 0..20 {
                sleep(&mut teo, 3_000, false);
            }
            let choice = sleep(&mut teo, 3_000, false);
            assert_eq!((choice.index, choice.queried_sleep_length, choice.stop_tick), (1, false, false), "{rule:?}");
        }
    }

    /// In v6.19 ticks that do nothing but wake lead to the deepest state without tick.
    #[test]
    fn ticks_that_dominate_are_hits_of_the_deepest_state() {
        let mut teo = TeoShort::new(TickRule::Counted, TeoNearTimer::TakenAgain, TeoUtil::Dropped);
        for _ in 0..20 {
            sleep(&mut teo, 3_900_000, true);
        }
        assert!(teo.bins[2].hits > teo.bins[2].intercepts);
        assert!(sleep(&mut teo, 3_900_000, true).stop_tick);
    }
}
