//! The timer-events-oriented idle governor as it was from v5.14 on (drivers/cpuidle/governors/teo.c, v6.1).
//!
//! It differs from [`super::Teo`], v6.12's, in three things: the timers are always asked, before anything else; the last nine
//! wake-ups are remembered beside the decaying counts, and more than four early ones among them are reason enough for a
//! shallower state; that state is expected to last until the middle of its bin, which decides whether the tick stops.

use super::teo::{DECAY_SHIFT, PULSE, measured_ns, time_span_ns, with_tick};
use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, within};

/// Number of remembered wake-ups.
pub const NR_RECENT: usize = 9;

/// The counts of one state's bin (`struct teo_bin`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TeoRecentBin {
    /// Wake-ups by something else than the timer, with an idle time in this bin.
    pub intercepts: u32,
    /// Wake-ups in the bin that the timer promised.
    pub hits: u32,
    /// Intercepts among the last [`NR_RECENT`] wake-ups.
    pub recent: u32,
}

/// Teo's state for one CPU (`struct teo_cpu`, v6.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TeoRecent {
    /// The clock at selection; after the wake-up the time in between, ns.
    pub time_span_ns: i64,
    /// Time to the closest timer at selection, ns.
    pub sleep_length_ns: i64,
    /// One bin a state.
    pub bins: Vec<TeoRecentBin>,
    /// Sum of hits and intercepts over all bins.
    pub total: u32,
    /// Where in [`Self::recent`] the next wake-up goes.
    pub next_recent_idx: usize,
    /// The bins of the last wake-ups, `None` for those that hit.
    pub recent: [Option<usize>; NR_RECENT],
    /// The tick's length as given at the last selection, for the reflection that follows.
    tick_ns: u64,
    /// The last outcome, not digested yet.
    pending: Option<(usize, u64)>,
}

/// What the states below the candidate suggest (locals of `teo_select()`).
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    intercepts: u32,
    hits: u32,
    recent: u32,
}

impl TeoRecent {
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

        let oldest = &mut self.recent[self.next_recent_idx];
        self.next_recent_idx = (self.next_recent_idx + 1) % NR_RECENT;
        let intercepted = index_timer != index_duration;
        if let Some(bin) = core::mem::replace(oldest, intercepted.then_some(index_duration)) {
            self.bins[bin].recent = self.bins[bin].recent.wrapping_sub(1);
        }
        let bin = &mut self.bins[index_duration];
        if intercepted {
            bin.intercepts = bin.intercepts.wrapping_add(PULSE);
            bin.recent = bin.recent.wrapping_add(1);
        } else {
            bin.hits = bin.hits.wrapping_add(PULSE);
        }
        self.total = self.total.wrapping_add(PULSE);
    }

    /// The state below `index` that early wake-ups suggest and how long it is expected to last
    /// (the second part of teo.c:teo_select(), v6.1); `None` keeps the candidate.
    fn intercepted(&self, index: usize, duration_ns: i64, below: Sums, facts: &IdleFacts<'_>) -> (usize, i64) {
        let by_count = below.intercepts.wrapping_mul(2) > self.total.wrapping_sub(below.hits);
        let by_recent = below.recent as usize > NR_RECENT / 2;
        if !by_count && !by_recent {
            return (index, duration_ns);
        }
        let mut first_suitable = (index, duration_ns);
        let (mut intercepts, mut recent) = (0u32, 0u32);
        for i in (0..index).rev() {
            intercepts = intercepts.wrapping_add(self.bins[i].intercepts);
            recent = recent.wrapping_add(self.bins[i].recent);
            let span_ns = middle_of_bin(i, facts);
            let time_ok = !facts.tick_stopped || span_ns as u64 >= facts.tick_ns;
            let usable = !facts.is_disabled(i);
            let most_recent = !by_recent || recent.wrapping_mul(2) > below.recent;
            let most_of_all = !by_count || intercepts.wrapping_mul(2) > below.intercepts;
            if most_recent && most_of_all {
                return if time_ok && usable { (i, span_ns) } else { first_suitable };
            }
            if !usable {
                continue;
            }
            if time_ok {
                first_suitable = (i, span_ns);
            } else if first_suitable.0 == index {
                break;
            }
        }
        (index, duration_ns)
    }

    /// The candidate, how long it is expected to last, and the first enabled state.
    fn candidate(&mut self, latency_req_ns: u64, facts: &IdleFacts<'_>) -> (usize, i64, usize) {
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
        let (mut index0, mut constraint_index) = (0, 0);
        let (mut sums, mut below) = (Sums::default(), Sums::default());
        for (i, state) in states.iter().enumerate().skip(1) {
            let previous = self.bins[i - 1];
            sums.intercepts = sums.intercepts.wrapping_add(previous.intercepts);
            sums.hits = sums.hits.wrapping_add(previous.hits);
            sums.recent = sums.recent.wrapping_add(previous.recent);
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
            if state.exit_latency_ns <= latency_req_ns {
                constraint_index = i;
            }
            below = sums;
        }
        match index {
            None => (0, duration_ns, index0),
            Some(index) if index == index0 => (index, duration_ns, index0),
            Some(index) => {
                let (index, duration_ns) = self.intercepted(index, duration_ns, below, facts);
                (index.min(constraint_index), duration_ns, index0)
            }
        }
    }
}

/// teo.c:teo_middle_of_bin(), v6.1.
fn middle_of_bin(index: usize, facts: &IdleFacts<'_>) -> i64 {
    let residency_ns = |i: usize| facts.states[i].target_residency_ns as i64;
    residency_ns(index).wrapping_add(residency_ns(index + 1)) / 2
}

impl IdleGovernor for TeoRecent {
    fn name(&self) -> &'static str {
        "teo"
    }

    /// teo.c:teo_select(), v6.1.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        self.bins.resize(facts.states.len(), TeoRecentBin::default());
        self.tick_ns = facts.tick_ns;
        if let Some((last_index, residency_ns)) = self.pending.take() {
            self.update(last_index, residency_ns, facts);
        }
        self.time_span_ns = facts.now_ns as i64;
        self.sleep_length_ns = facts.sleep_length_ns;

        let (index, duration_ns, index0) = self.candidate(facts.latency_req_ns, facts);
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
