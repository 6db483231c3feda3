//! What the forms of teo share: the bins with their counts, the last wake-ups, and steps of their choice
//! (drivers/cpuidle/governors/teo.c, v5.14 to v6.19).

use super::{IdleChoice, IdleFacts, IdleOutcome, within};

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

/// Number of remembered wake-ups.
pub const NR_RECENT: usize = 9;

/// The last wake-ups, and which of them were early (`recent_idx` of `struct teo_cpu`, v5.14 to v6.10).
///
/// From v6.6 on a wake-up beyond the tick leaves its place as it was, so that an early one there is counted out again and the
/// count wraps around (teo.c:teo_update(), v6.10; commit 449914398083 removed it for that).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentWakeups {
    /// Early ones among them, by bin (`recent` of `struct teo_bin`).
    pub early: Vec<u32>,
    /// Where the next one goes.
    pub next: usize,
    /// The bins of the last ones, `None` for those that hit.
    pub bins: [Option<usize>; NR_RECENT],
}

impl RecentWakeups {
    pub(super) fn resize(&mut self, states: usize) {
        self.early.resize(states, 0);
    }

    /// Counts out the oldest, whose place the next one takes: gives the place.
    pub(super) fn count_out(&mut self) -> usize {
        let place = self.next;
        self.next = (place + 1) % NR_RECENT;
        if let Some(early) = self.bins[place].and_then(|bin| self.early.get_mut(bin)) {
            *early = early.wrapping_sub(1);
        }
        place
    }

    /// Counts one with the bin that it was early in.
    pub(super) fn note(&mut self, place: usize, bin: Option<usize>) {
        self.bins[place] = bin;
        if let Some(early) = bin.and_then(|bin| self.early.get_mut(bin)) {
            *early = early.wrapping_add(1);
        }
    }

    /// How many were early below a state.
    pub(super) fn below(&self, index: usize) -> u32 {
        self.early[..index].iter().fold(0, |sum, &early| sum.wrapping_add(early))
    }
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
    pub(super) all_intercepts: u32,
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
