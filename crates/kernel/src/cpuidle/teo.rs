//! The timer-events-oriented idle governor (drivers/cpuidle/governors/teo.c, v6.12).
//!
//! It trusts the next timer unless wake-ups before it were frequent lately. Each state has a bin with two decaying
//! counts: *hits*, when the wake-up came in the bin that the timer promised, and *intercepts*, when something else
//! woke the CPU so early that the idle time fell in this bin. If intercepts below the deepest candidate outweigh the
//! rest, a shallower state is chosen.
//!
//! v6.6 to v6.10 beside that keep the last nine wake-ups ([`RecentWakeups`]) and look at the CPU's utilisation ([`TeoUtil`]).

use super::teo_parts::{
    Candidate, DECAY_SHIFT, Early, PULSE, RecentWakeups, TeoBin, for_near_timer, intercepted, is_deep_enough,
    measured_ns, time_span_ns, two_states, with_tick,
};
use super::{
    IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, KTIME_MAX, RESIDENCY_THRESHOLD_NS, TeoNearTimer, TeoUtil, within,
};

/// Teo's state for one CPU (`struct teo_cpu`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Teo {
    /// Stays with a deeper state where a timer is near, the tick is stopped and the shallower one is not worth a tick.
    avoids_shallow: bool,
    util: TeoUtil,
    /// The last wake-ups, v6.6 to v6.10.
    pub recent: Option<RecentWakeups>,
    /// The clock at selection; after the wake-up the time in between, ns.
    pub time_span_ns: i64,
    /// Time to the closest timer at selection, ns; `i64::MAX` if it was not asked.
    pub sleep_length_ns: i64,
    /// One bin a state.
    pub bins: Vec<TeoBin>,
    /// Sum over all bins.
    pub total: u32,
    /// Hits beyond a tick, where the deepest state's residency is below one.
    pub tick_hits: u32,
    /// The tick's length as given at the last selection, for the reflection that follows.
    tick_ns: u64,
    /// The last outcome, not digested yet. A new CPU has none; the kernel's zeroed data would count one hit.
    pending: Option<(usize, u64)>,
}

fn decay(count: &mut u32) {
    *count -= *count >> DECAY_SHIFT;
}

impl Default for Teo {
    fn default() -> Self {
        Self::new(TeoNearTimer::Taken, TeoUtil::Dropped)
    }
}

impl Teo {
    /// A CPU that did not idle yet.
    pub fn new(near_timer: TeoNearTimer, util: TeoUtil) -> Self {
        Self {
            avoids_shallow: near_timer == TeoNearTimer::Avoided,
            util,
            recent: None,
            time_span_ns: 0,
            sleep_length_ns: 0,
            bins: Vec::new(),
            total: 0,
            tick_hits: 0,
            tick_ns: 0,
            pending: None,
        }
    }

    /// The same in v6.6 to v6.10.
    pub fn with_recent(near_timer: TeoNearTimer, util: TeoUtil) -> Self {
        Self { recent: Some(RecentWakeups::default()), ..Self::new(near_timer, util) }
    }

    /// Digests the last idle period (teo.c:teo_update(), v6.12 and v6.10).
    fn update(&mut self, last_index: usize, residency_ns: u64, facts: &IdleFacts<'_>) {
        let Some(deepest) = facts.states.last() else { return };
        let measured_ns = if self.time_span_ns >= self.sleep_length_ns {
            u64::MAX
        } else {
            measured_ns(last_index, residency_ns, facts)
        };

        self.total = 0;
        let mut index_timer = 0;
        let mut index_duration = 0;
        for (i, (state, bin)) in facts.states.iter().zip(&mut self.bins).enumerate() {
            decay(&mut bin.hits);
            decay(&mut bin.intercepts);
            self.total = self.total.wrapping_add(bin.hits).wrapping_add(bin.intercepts);
            if within(state.target_residency_ns, self.sleep_length_ns) {
                index_timer = i;
                if state.target_residency_ns <= measured_ns {
                    index_duration = i;
                }
            }
        }
        if deepest.target_residency_ns < facts.tick_ns {
            decay(&mut self.tick_hits);
            self.total = self.total.wrapping_add(self.tick_hits);
            if within(facts.tick_ns, self.sleep_length_ns) {
                // A bin of its own beyond the last state's; it cannot be intercepted.
                index_timer = facts.states.len();
            }
        }
        let place = self.recent.as_mut().map_or(0, RecentWakeups::count_out);
        let beyond_tick = index_timer == facts.states.len() && facts.tick_ns <= measured_ns;
        let early = (index_timer != index_duration).then_some(index_duration);
        if let Some(recent) = self.recent.as_mut().filter(|_| !beyond_tick) {
            recent.note(place, early);
        }
        let count = match early {
            _ if beyond_tick => &mut self.tick_hits,
            None => &mut self.bins[index_duration].hits,
            Some(bin) => &mut self.bins[bin].intercepts,
        };
        *count = count.wrapping_add(PULSE);
        self.total = self.total.wrapping_add(PULSE);
    }
}

impl IdleGovernor for Teo {
    fn name(&self) -> &'static str {
        "teo"
    }

    /// teo.c:teo_select(), v6.12 and v6.10.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        let states = facts.states;
        self.bins.resize(states.len(), TeoBin::default());
        if let Some(recent) = &mut self.recent {
            recent.resize(states.len());
        }
        self.tick_ns = facts.tick_ns;
        if let Some((last_index, residency_ns)) = self.pending.take() {
            self.update(last_index, residency_ns, facts);
        }
        self.time_span_ns = facts.now_ns as i64;
        self.sleep_length_ns = KTIME_MAX as i64;

        let mut queried_sleep_length = false;
        let keep_tick = |index, queried_sleep_length| IdleChoice { index, stop_tick: false, queried_sleep_length };
        if states.len() < 2 {
            return keep_tick(0, false);
        }

        // Half a tick is assumed to the next tick unless the timers are asked.
        let mut delta_tick_ns = (facts.tick_ns / 2) as i64;
        if let Some(index) = self.util.of_two(facts) {
            return two_states(index, delta_tick_ns, facts);
        }

        let Some(candidate) = Candidate::of(&self.bins, facts) else { return keep_tick(0, false) };
        let Candidate { mut index, index0, constraint_index, intercept_sum, hit_sum, all_intercepts } = candidate;

        let duration_ns;
        if index == index0 {
            duration_ns = i128::from(states[index].target_residency_ns);
        } else {
            let tick_intercept_sum = all_intercepts.wrapping_add(self.bins[states.len() - 1].intercepts);
            let recent = self.recent.as_ref();
            let recent_sum = recent.map_or(0, |recent| recent.below(index));
            if let Some(early) = Early::of(intercept_sum, hit_sum, recent_sum, self.total) {
                index = intercepted(&self.bins, recent, (index, early), |i| is_deep_enough(i, facts), facts);
                if index == 0 && recent.is_none() {
                    // Asked only to know after the wake-up whether the guess was right (v6.11).
                    self.sleep_length_ns = facts.sleep_length_ns;
                    return keep_tick(0, true);
                }
            }
            index = self.util.shallower(index.min(constraint_index), facts);
            if index == 0 {
                return keep_tick(0, false);
            }
            if states[0].polling && states[index].target_residency_ns < RESIDENCY_THRESHOLD_NS {
                return keep_tick(index, false);
            }
            queried_sleep_length = true;
            delta_tick_ns = facts.delta_tick_ns;
            self.sleep_length_ns = facts.sleep_length_ns;
            if !within(states[index].target_residency_ns, facts.sleep_length_ns) {
                index = for_near_timer(self.avoids_shallow, index, facts);
            }
            let mostly_before_tick = states[index].target_residency_ns < facts.tick_ns
                && tick_intercept_sum > self.total / 2 + self.total / 8;
            duration_ns =
                if mostly_before_tick { i128::from(facts.tick_ns / 2) } else { i128::from(facts.sleep_length_ns) };
        }

        with_tick(index, index0, duration_ns, delta_tick_ns, queried_sleep_length, facts)
    }

    /// teo.c:teo_reflect(), v6.12.
    fn reflect(&mut self, outcome: &IdleOutcome) {
        self.pending = Some((outcome.index, outcome.residency_ns));
        self.time_span_ns = time_span_ns(outcome, self.time_span_ns, self.sleep_length_ns, self.tick_ns);
    }

    fn reject(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuidle::IdleState;

    const STATES: [IdleState; 4] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 10_000, target_residency_ns: 20_000, polling: false },
        IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
    ];

    fn sleep(teo: &mut Teo, now_ns: &mut u64, residency_ns: u64) -> IdleChoice {
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
            now_ns: *now_ns,
        };
        let choice = teo.select(&facts);
        *now_ns += residency_ns;
        teo.reflect(&IdleOutcome { index: choice.index, residency_ns, now_ns: *now_ns, ..IdleOutcome::default() });
        choice
    }

    /// From v6.6 to v6.18 a stopped tick keeps the CPU in the deep state although a timer comes before its residency.
    #[test]
    fn a_near_timer_without_a_tick() {
        for (near, index) in [(TeoNearTimer::Avoided, 3), (TeoNearTimer::TakenAgain, 2)] {
            let mut teo = Teo::new(near, TeoUtil::Dropped);
            let mut now_ns = 0;
            (0..8).for_each(|_| _ = sleep(&mut teo, &mut now_ns, 50_000_000));
            let facts = IdleFacts {
                states: &STATES,
                disabled: 0,
                utilized: false,
                latency_req_ns: 1_000_000_000,
                sleep_length_ns: 100_000,
                delta_tick_ns: 100_000,
                tick_stopped: true,
                nr_iowaiters: 0,
                tick_ns: 4_000_000,
                now_ns,
            };
            assert_eq!(teo.select(&facts).index, index, "{near:?}");
        }
    }

    /// Far timers that are met lead to the deepest state without tick; early interrupts lead to a shallower one.
    #[test]
    fn intercepts_lead_to_shallower_states() {
        let mut teo = Teo::default();
        let mut now_ns = 1;
        for _ in 0..20 {
            assert_eq!(sleep(&mut teo, &mut now_ns, 50_000_000).index, 3);
        }
        assert!(sleep(&mut teo, &mut now_ns, 50_000_000).stop_tick);
        for _ in 0..20 {
            sleep(&mut teo, &mut now_ns, 60_000);
        }
        let choice = sleep(&mut teo, &mut now_ns, 60_000);
        assert_eq!(choice.index, 2);
        assert!(!choice.stop_tick);
    }
}
