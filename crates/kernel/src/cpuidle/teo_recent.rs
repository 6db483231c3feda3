//! The timer-events-oriented idle governor as it was from v5.14 to v6.5 (drivers/cpuidle/governors/teo.c).
//!
//! It differs from [`super::Teo`], v6.12's, in three things: the timers are always asked, before anything else; the last nine
//! wake-ups are remembered beside the decaying counts, and more than four early ones among them are reason enough for a
//! shallower state; that state is expected to last until the middle of its bin, which decides whether the tick stops.
//! From v6.3 on a CPU in use takes a shallower state ([`TeoUtil`]).

use super::teo_parts::{
    DECAY_SHIFT, Early, PULSE, RecentWakeups, TeoBin, intercepted, measured_ns, time_span_ns, with_tick,
};
use super::teo_util::{find_shallower_without_polling, is_usable, shallow_of_two};
use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, TeoUtil, within};

/// Teo's state for one CPU (`struct teo_cpu`, v6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeoRecent {
    util: TeoUtil,
    /// The clock at selection; after the wake-up the time in between, ns.
    pub time_span_ns: i64,
    /// Time to the closest timer at selection, ns.
    pub sleep_length_ns: i64,
    /// One bin a state.
    pub bins: Vec<TeoBin>,
    /// Sum of hits and intercepts over all bins.
    pub total: u32,
    /// The last wake-ups.
    pub recent: RecentWakeups,
    /// The tick's length as given at the last selection, for the reflection that follows.
    tick_ns: u64,
    /// The last outcome, not digested yet.
    pending: Option<(usize, u64)>,
}

impl Default for TeoRecent {
    fn default() -> Self {
        Self::new(TeoUtil::Ignored)
    }
}

impl TeoRecent {
    /// A CPU that did not idle yet.
    pub fn new(util: TeoUtil) -> Self {
        Self {
            util,
            time_span_ns: 0,
            sleep_length_ns: 0,
            bins: Vec::new(),
            total: 0,
            recent: RecentWakeups::default(),
            tick_ns: 0,
            pending: None,
        }
    }

    /// Digests the last idle period (teo.c:teo_update(), v6.1).
    fn update(&mut self, last_index: usize, residency_ns: u64, facts: &IdleFacts<'_>) {
        if facts.states.is_empty() {
            return;
        }
        let measured_ns = if self.time_span_ns >= self.sleep_length_ns {
            u64::MAX
        } else {
            measured_ns(last_index, residency_ns, facts)
        };

        self.total = 0;
        let (mut index_timer, mut index_duration) = (0, 0);
        for (i, (state, bin)) in facts.states.iter().zip(&mut self.bins).enumerate() {
            bin.hits -= bin.hits >> DECAY_SHIFT;
            bin.intercepts -= bin.intercepts >> DECAY_SHIFT;
            self.total = self.total.wrapping_add(bin.hits).wrapping_add(bin.intercepts);
            if within(state.target_residency_ns, self.sleep_length_ns) {
                index_timer = i;
                if state.target_residency_ns <= measured_ns {
                    index_duration = i;
                }
            }
        }

        let place = self.recent.count_out();
        let early = (index_timer != index_duration).then_some(index_duration);
        self.recent.note(place, early);
        let bin = &mut self.bins[index_duration];
        let count = if early.is_some() { &mut bin.intercepts } else { &mut bin.hits };
        *count = count.wrapping_add(PULSE);
        self.total = self.total.wrapping_add(PULSE);
    }

    /// The candidate, how long it is expected to last, and the first enabled state.
    fn candidate(&self, facts: &IdleFacts<'_>) -> (usize, i64, usize) {
        let states = facts.states;
        let duration_ns = facts.sleep_length_ns;
        if states.len() < 2 {
            return (0, duration_ns, 0);
        }
        let mut index = None;
        if !facts.is_disabled(0) {
            index = Some(0);
            if !within(states[1].target_residency_ns, duration_ns) {
                return (0, duration_ns, 0);
            }
        }
        if let Some((index, duration_ns)) = self.of_two(duration_ns, facts) {
            return (index, duration_ns, 0);
        }
        let (mut index0, mut constraint_index) = (0, 0);
        let (mut intercepts, mut hits) = (0u32, 0u32);
        let mut below = (0, 0);
        for (i, state) in states.iter().enumerate().skip(1) {
            let previous = self.bins[i - 1];
            intercepts = intercepts.wrapping_add(previous.intercepts);
            hits = hits.wrapping_add(previous.hits);
            if facts.is_disabled(i) {
                continue;
            }
            if index.is_none() {
                index = Some(i);
                index0 = i;
            }
            if !within(state.target_residency_ns, duration_ns) {
                break;
            }
            index = Some(i);
            if state.exit_latency_ns <= facts.latency_req_ns {
                constraint_index = i;
            }
            below = (intercepts, hits);
        }
        match index {
            None => (0, duration_ns, index0),
            Some(index) if index == index0 => (index, duration_ns, index0),
            Some(index) => {
                let (index, duration_ns) = self.intercepted(index, duration_ns, below, facts);
                let (index, duration_ns) = self.in_use(index.min(constraint_index), duration_ns, facts);
                (index, duration_ns, index0)
            }
        }
    }

    /// The state below `index` that early wake-ups suggest and how long it is expected to last
    /// (the second part of teo.c:teo_select(), v6.1).
    fn intercepted(
        &self,
        index: usize,
        duration_ns: i64,
        (intercepts, hits): (u32, u32),
        facts: &IdleFacts<'_>,
    ) -> (usize, i64) {
        let Some(early) = Early::of(intercepts, hits, self.recent.below(index), self.total) else {
            return (index, duration_ns);
        };
        let ok = |i| is_long_enough(middle_of_bin(i, facts), facts);
        let found = intercepted(&self.bins, Some(&self.recent), (index, early), ok, facts);
        (found, if found == index { duration_ns } else { middle_of_bin(found, facts) })
    }

    /// What a CPU in use takes instead of state `index`, and how long it is expected to last (teo.c:teo_select(), v6.3 and
    /// v6.5.3).
    fn in_use(&self, index: usize, duration_ns: i64, facts: &IdleFacts<'_>) -> (usize, i64) {
        if !self.util.sees_use(facts) {
            return (index, duration_ns);
        }
        let found = find_shallower_without_polling(index, duration_ns, facts);
        if self.util == TeoUtil::Shallower {
            return (found, duration_ns);
        }
        let span_ns = middle_of_bin(found, facts);
        if is_long_enough(span_ns, facts) { (found, span_ns) } else { (index, duration_ns) }
    }

    /// The same of two states, where nothing is weighed; `None`: there are more, or its use does not count.
    fn of_two(&self, duration_ns: i64, facts: &IdleFacts<'_>) -> Option<(usize, i64)> {
        if facts.states.len() != 2 || !self.util.sees_use(facts) {
            return None;
        }
        if self.util == TeoUtil::Shallower {
            return (0..2).find(|&i| is_usable(i, facts)).map(|index| (index, duration_ns));
        }
        let span_ns = middle_of_bin(0, facts);
        Some((shallow_of_two(is_long_enough(span_ns, facts), facts), span_ns))
    }
}

/// teo.c:teo_middle_of_bin(), v6.1; behind the table the kernel has empty states.
fn middle_of_bin(index: usize, facts: &IdleFacts<'_>) -> i64 {
    let residency_ns = |i: usize| facts.states.get(i).map_or(0, |state| state.target_residency_ns as i64);
    residency_ns(index).wrapping_add(residency_ns(index + 1)) / 2
}

/// teo.c:teo_time_ok(), v6.1.
fn is_long_enough(span_ns: i64, facts: &IdleFacts<'_>) -> bool {
    !facts.tick_stopped || span_ns as u64 >= facts.tick_ns
}

impl IdleGovernor for TeoRecent {
    fn name(&self) -> &'static str {
        "teo"
    }

    /// teo.c:teo_select(), v6.1 and v6.5.3.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        self.bins.resize(facts.states.len(), TeoBin::default());
        self.recent.resize(facts.states.len());
        self.tick_ns = facts.tick_ns;
        if let Some((last_index, residency_ns)) = self.pending.take() {
            self.update(last_index, residency_ns, facts);
        }
        self.time_span_ns = facts.now_ns as i64;
        self.sleep_length_ns = facts.sleep_length_ns;

        let (index, duration_ns, index0) = self.candidate(facts);
        with_tick(index, index0, duration_ns.into(), facts.delta_tick_ns, true, facts)
    }

    /// teo.c:teo_reflect(), v6.1.
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

    const STATES: [IdleState; 3] = [
        IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
        IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
        IdleState { exit_latency_ns: 133_000, target_residency_ns: 600_000, polling: false },
    ];

    /// Five early wake-ups among the last nine lead to a shallower state, whatever the long past suggests.
    #[test]
    fn five_recent_early_wakeups_are_enough() {
        let mut teo = TeoRecent::default();
        let mut now_ns = 1;
        let mut sleep = |residency_ns: u64| {
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
                now_ns,
            };
            let choice = teo.select(&facts);
            now_ns += residency_ns;
            teo.reflect(&IdleOutcome { index: choice.index, residency_ns, now_ns, ..IdleOutcome::default() });
            choice.index
        };
        let indices: Vec<usize> = (0..20).map(|_| sleep(50_000_000)).collect();
        assert_eq!(indices, [2; 20]);
        let indices: Vec<usize> = (0..6).map(|_| sleep(60_000)).collect();
        assert_eq!(indices, [2, 2, 2, 2, 2, 1]);
    }
}
