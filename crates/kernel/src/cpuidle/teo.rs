//! The timer-events-oriented idle governor (drivers/cpuidle/governors/teo.c, v6.12).
//!
//! It trusts the next timer unless wake-ups before it were frequent lately. Each state has a bin with two decaying
//! counts: *hits*, when the wake-up came in the bin that the timer promised, and *intercepts*, when something else
//! woke the CPU so early that the idle time fell in this bin. If intercepts below the deepest candidate outweigh the
//! rest, a shallower state is chosen.
//!
//! v6.6 to v6.10 beside that keep the last nine wake-ups ([`RecentWakeups`]) and look at the CPU's utilisation ([`TeoUtil`]).

use super::teo_recent::{NR_RECENT, RecentWakeups};
use super::{
    IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, KTIME_MAX, RESIDENCY_THRESHOLD_NS, TeoNearTimer, TeoUtil, within,
};

/// What one event adds to a count.
pub const PULSE: u32 = 1024;
/// Each update takes 1/8 off every count.
pub const DECAY_SHIFT: u32 = 3;

/// The counts of one state's bin (`struct teo_bin`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TeoBin {
    /// Wake-ups by something else than the timer, with an idle time in this bin.
    pub intercepts: u32,
    /// Wake-ups in the bin that the timer promised.
    pub hits: u32,
}

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

/// How long the CPU slept, without half of the worst-case exit latency of its state, which is taken for the real one.
pub(super) fn measured_ns(last_index: usize, residency_ns: u64, facts: &IdleFacts<'_>) -> u64 {
    let exit_latency_ns = facts.states.get(last_index).map_or(0, |state| state.exit_latency_ns);
    if residency_ns >= exit_latency_ns { residency_ns - exit_latency_ns / 2 } else { residency_ns / 2 }
}

/// Whether the tick ended a sleep that might have lasted until a timer further away than a tick.
pub(super) fn ended_by_tick(outcome: &IdleOutcome, sleep_length_ns: i64, tick_ns: u64) -> bool {
    outcome.got_tick && i128::from(sleep_length_ns) > i128::from(tick_ns)
}

/// What [`Teo::reflect`] and its forebear take for the time between selection and wake-up, ns; a safety net may have ended a
/// sleep that would have lasted until the timer.
pub(super) fn time_span_ns(outcome: &IdleOutcome, selected_ns: i64, sleep_length_ns: i64, tick_ns: u64) -> i64 {
    if outcome.poll_time_limit || ended_by_tick(outcome, sleep_length_ns, tick_ns) {
        return sleep_length_ns;
    }
    (outcome.now_ns as i64).wrapping_sub(selected_ns)
}

/// The deepest enabled state with what the counts below it add up to (the first part of teo.c:teo_select(), v6.12 to v6.19).
pub(super) struct Candidate {
    pub(super) index: usize,
    /// The shallowest enabled state.
    pub(super) index0: usize,
    /// The deepest state that PM QoS allows.
    pub(super) constraint_index: usize,
    pub(super) intercept_sum: u32,
    pub(super) hit_sum: u32,
    /// The intercepts below the deepest state of all.
    all_intercepts: u32,
}

impl Candidate {
    /// `None` if every state is disabled.
    pub(super) fn of(bins: &[TeoBin], facts: &IdleFacts<'_>) -> Option<Self> {
        let mut found = (!facts.is_disabled(0)).then_some((0, 0, 0));
        let (mut index0, mut constraint_index) = (0, 0);
        let (mut intercepts, mut hits) = (0u32, 0u32);
        for (i, state) in facts.states.iter().enumerate().skip(1) {
            intercepts = intercepts.wrapping_add(bins[i - 1].intercepts);
            hits = hits.wrapping_add(bins[i - 1].hits);
            if facts.is_disabled(i) {
                continue;
            }
            if found.is_none() {
                index0 = i;
            }
            if state.exit_latency_ns <= facts.latency_req_ns {
                constraint_index = i;
            }
            found = Some((i, intercepts, hits));
        }
        let (index, intercept_sum, hit_sum) = found?;
        Some(Self { index, index0, constraint_index, intercept_sum, hit_sum, all_intercepts: intercepts })
    }
}

/// The choice among the states from `index0` on for a sleep that is expected to last `duration_ns`, with the next tick in
/// `delta_tick_ns` (the last part of teo.c:teo_select(), v6.12 to v6.19).
pub(super) fn with_tick(
    index: usize,
    index0: usize,
    duration_ns: i128,
    delta_tick_ns: i64,
    queried_sleep_length: bool,
    facts: &IdleFacts<'_>,
) -> IdleChoice {
    let long_sleep = !facts.is_polling(index) && duration_ns >= i128::from(facts.tick_ns);
    let stop_tick = long_sleep || facts.tick_stopped;
    let too_deep = index > index0 && !within(facts.states[index].target_residency_ns, delta_tick_ns);
    let index = if !stop_tick && too_deep { find_shallower_state(index, delta_tick_ns, facts) } else { index };
    IdleChoice { index, stop_tick, queried_sleep_length }
}

/// The choice of a CPU in use with two states (teo.c:teo_select(), v6.6).
pub(super) fn two_states(index: usize, delta_tick_ns: i64, facts: &IdleFacts<'_>) -> IdleChoice {
    if index == 0 {
        return IdleChoice { index, stop_tick: false, queried_sleep_length: false };
    }
    with_tick(index, 0, facts.states[index].target_residency_ns.into(), delta_tick_ns, false, facts)
}

/// The state below `index` for a timer that comes before its residency, if the kernel takes it (teo.c:teo_select(), v6.11).
pub(super) fn for_near_timer(avoids_shallow: bool, index: usize, facts: &IdleFacts<'_>) -> usize {
    let found = find_shallower_state(index, facts.sleep_length_ns, facts);
    if avoids_shallow && !is_deep_enough(found, facts) { index } else { found }
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

/// Sums over the states below a candidate that make a shallower one likely: of all early wake-ups and of the last nine, each
/// where it is reason enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Early {
    intercepts: Option<u32>,
    recent: Option<u32>,
}

impl Early {
    /// `None` where neither is.
    pub(super) fn of(intercepts: u32, hits: u32, recent: u32, total: u32) -> Option<Self> {
        let early = Self {
            intercepts: (intercepts.wrapping_mul(2) > total.wrapping_sub(hits)).then_some(intercepts),
            recent: (recent as usize > NR_RECENT / 2).then_some(recent),
        };
        (early.intercepts.is_some() || early.recent.is_some()).then_some(early)
    }
}

/// The state below `index` that more than half of the early wake-ups suggest, if it is `ok` for a stopped tick (the second
/// part of teo.c:teo_select(), v6.1 to v6.18).
pub(super) fn intercepted(
    bins: &[TeoBin],
    recent: Option<&RecentWakeups>,
    (index, early): (usize, Early),
    ok: impl Fn(usize) -> bool,
    facts: &IdleFacts<'_>,
) -> usize {
    let most = |sum: u32, of: Option<u32>| of.is_none_or(|of| sum.wrapping_mul(2) > of);
    let mut first_suitable = index;
    let (mut intercepts, mut recent_sum) = (0u32, 0u32);
    for i in (0..index).rev() {
        intercepts = intercepts.wrapping_add(bins[i].intercepts);
        recent_sum = recent_sum.wrapping_add(recent.map_or(0, |recent| recent.early[i]));
        let usable = !facts.is_disabled(i);
        if most(intercepts, early.intercepts) && most(recent_sum, early.recent) {
            return if ok(i) && usable { i } else { first_suitable };
        }
        if !usable {
            continue;
        }
        if ok(i) {
            first_suitable = i;
        } else if first_suitable == index {
            break;
        }
    }
    index
}

/// teo.c:teo_state_ok(): a stopped tick wants a state that is worth a tick.
pub(super) fn is_deep_enough(index: usize, facts: &IdleFacts<'_>) -> bool {
    !facts.tick_stopped || facts.states[index].target_residency_ns >= facts.tick_ns
}

/// The deepest enabled state above `index` with a residency within `duration_ns`, or else the shallowest enabled
/// one (teo.c:teo_find_shallower_state(), v6.12).
pub(super) fn find_shallower_state(index: usize, duration_ns: i64, facts: &IdleFacts<'_>) -> usize {
    find_shallower_of(|i| !facts.is_disabled(i), index, duration_ns, facts)
}

/// The same among the states that `usable` gives, for kernels that leave out more than the disabled ones.
pub(super) fn find_shallower_of(
    usable: impl Fn(usize) -> bool,
    index: usize,
    duration_ns: i64,
    facts: &IdleFacts<'_>,
) -> usize {
    let mut found = index;
    for i in (0..index).rev().filter(|&i| usable(i)) {
        found = i;
        if within(facts.states[i].target_residency_ns, duration_ns) {
            break;
        }
    }
    found
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
