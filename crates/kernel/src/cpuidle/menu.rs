//! The menu idle governor (drivers/cpuidle/governors/menu.c, v6.12).
//!
//! It predicts the idle time as the smaller of two guesses and takes the deepest state whose target residency fits:
//! the time to the next timer, corrected by how early wake-ups came in the past for timers of that magnitude; and the
//! typical one of the last eight idle intervals, if they were alike.
//!
//! What kernels do differently is [`MenuGates`]: before v6.13 a CPU with tasks that wait for I/O has factors of its own
//! and takes only states that it leaves in a fraction of the predicted time.

use super::{IdleChoice, IdleFacts, IdleGovernor, IdleOutcome, IdleState, KTIME_MAX, RESIDENCY_THRESHOLD_NS};
use crate::profile::{KernelProfile, MenuIowait, MenuLatency, MenuPolling, MenuTimers, MenuTypical};
use crate::unit::NSEC_PER_USEC;

/// Classes of expected idle time: up to 10 us, 100 us, 1 ms, 10 ms, 100 ms, and longer.
pub const BUCKETS: usize = 6;
/// Number of recent intervals that the pattern detector looks at.
pub const INTERVALS: usize = 8;
/// A correction factor of 1 is `RESOLUTION * DECAY`.
pub const RESOLUTION: u32 = 1024;
/// A new sample has the weight 1/8 in a correction factor.
pub const DECAY: u32 = 8;
/// Longer sleeps count as perfectly predicted, ns.
pub const MAX_INTERESTING_NS: u64 = 50_000 * NSEC_PER_USEC;
/// "No typical interval".
const NO_INTERVAL: u32 = u32::MAX;

/// What kernels do differently, each field a gate of [`KernelProfile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MenuGates {
    /// Tasks that wait for I/O.
    pub iowait: MenuIowait,
    /// When the timers are asked.
    pub timers: MenuTimers,
    /// The typical interval.
    pub typical: MenuTypical,
    /// States that take too long to leave.
    pub latency: MenuLatency,
    /// What is better than polling.
    pub polling: MenuPolling,
}

impl From<&KernelProfile> for MenuGates {
    fn from(profile: &KernelProfile) -> Self {
        Self {
            iowait: profile.menu_iowait,
            timers: profile.menu_timers,
            typical: profile.menu_typical,
            latency: profile.menu_latency,
            polling: profile.menu_polling,
        }
    }
}

/// Menu's state for one CPU (`struct menu_device`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    /// Time to the next timer as known at the last selection, ns.
    pub next_timer_ns: u64,
    /// The class of [`Self::next_timer_ns`], [`BUCKETS`] higher with tasks in iowait.
    pub bucket: usize,
    /// Moving averages of measured/expected idle time, in 1/8192; the second half is for CPUs with tasks in iowait.
    pub correction_factor: [u32; 2 * BUCKETS],
    /// The last eight idle intervals in us, a ring; `u32::MAX` where the driver refused.
    pub intervals: [u32; INTERVALS],
    /// Where the next interval goes.
    pub interval_ptr: usize,
    /// The outcome that the next selection has to digest.
    pending: Option<IdleOutcome>,
    last_residency_ns: u64,
    gates: MenuGates,
}

impl Default for Menu {
    /// The state of v6.12.117.
    fn default() -> Self {
        Self::new(MenuGates::from(&KernelProfile::of((6, 12), 117)))
    }
}

impl Menu {
    /// `menu_enable_device()`: all factors 1, no history.
    pub fn new(gates: MenuGates) -> Self {
        Self {
            next_timer_ns: 0,
            bucket: 0,
            correction_factor: [RESOLUTION * DECAY; 2 * BUCKETS],
            intervals: [0; INTERVALS],
            interval_ptr: 0,
            pending: None,
            last_residency_ns: 0,
            gates,
        }
    }
}

/// The class of an expected idle time (menu.c:which_bucket(), v6.12).
pub fn which_bucket(duration_ns: u64) -> usize {
    const LIMITS_US: [u64; BUCKETS - 1] = [10, 100, 1_000, 10_000, 100_000];
    LIMITS_US.iter().take_while(|&&limit_us| duration_ns >= limit_us * NSEC_PER_USEC).count()
}

/// The typical interval in us, or `u32::MAX` if there is none (menu.c:get_typical_interval(), v6.12).
///
/// Takes the mean of all samples if their variance is small, relative to the mean (`mean^2 > 36 * variance`, at least
/// six samples) or absolute (`variance <= 400 us^2`); otherwise drops the largest value and tries again, until six or
/// fewer samples are left. Intervals of 0 are typical only before v6.6. Since v6.15 it drops whichever end is further
/// from the mean, and from then to v6.17 takes the largest of the last six or fewer, if there are four.
pub fn get_typical_interval(intervals: &[u32; INTERVALS], gates: MenuGates) -> u32 {
    let zero_counts = gates.timers == MenuTimers::Always;
    let both_ends = matches!(gates.typical, MenuTypical::BothEndsOrMost | MenuTypical::BothEnds);
    let or_most = matches!(gates.typical, MenuTypical::BothEndsOrMost | MenuTypical::DropLongestOrMost);
    let (mut least, mut most) = (0, if both_ends { u32::MAX - 1 } else { i32::MAX as u32 });
    loop {
        let (mut count, mut sum, mut squares, mut min, mut max) = (0, 0, 0u64, u32::MAX, 0);
        for &value in intervals {
            if (least..=most).contains(&value) {
                count += 1;
                sum += u64::from(value);
                squares = squares.wrapping_add(u64::from(value).wrapping_mul(value.into()));
                (min, max) = (min.min(value), max.max(value));
            }
        }
        if count == 0 || (max == 0 && !zero_counts) {
            return NO_INTERVAL;
        }
        let mean = sum / count as u64;
        let square = mean.wrapping_mul(mean);
        let variance = if both_ends {
            // The mean of the squares less the square of the mean: both are truncated first.
            (squares / count as u64).wrapping_sub(square)
        } else {
            // The sum of the squares about the mean is at most 8 * 2^60, so that it is exact, although its parts wrap.
            let twice = mean.wrapping_mul(sum).wrapping_mul(2);
            squares.wrapping_sub(twice).wrapping_add(square.wrapping_mul(count as u64)) / count as u64
        };
        if variance <= u64::MAX / 36 {
            let relative = square > variance * 36 && count * 4 >= INTERVALS * 3;
            if relative || variance <= 400 {
                return mean as u32;
            }
        }
        if count * 4 <= INTERVALS * 3 {
            let longest = or_most && count >= INTERVALS / 2;
            return if longest { max } else { NO_INTERVAL };
        }
        if both_ends && mean.wrapping_sub(min.into()) > u64::from(max).wrapping_sub(mean) {
            least = min + 1;
        } else {
            most = max - 1;
        }
    }
}

impl Menu {
    /// menu.c:menu_update_intervals(), v6.12.
    fn update_intervals(&mut self, interval_us: u32) {
        self.intervals[self.interval_ptr] = interval_us;
        self.interval_ptr = (self.interval_ptr + 1) % INTERVALS;
    }

    /// Digests the last idle period (menu.c:menu_update(), v6.12).
    fn update(&mut self, outcome: &IdleOutcome, facts: &IdleFacts<'_>) {
        let state = facts.states.get(outcome.index).copied().unwrap_or_default();
        let measured_ns = self.measured_ns(outcome, &state, facts.tick_ns).min(self.next_timer_ns);

        let mut factor = self.correction_factor[self.bucket];
        factor -= factor / DECAY;
        factor += if self.next_timer_ns > 0 && measured_ns < MAX_INTERESTING_NS {
            // At most 1024, as the measured time was limited to the timer's.
            (u64::from(RESOLUTION) * measured_ns / self.next_timer_ns) as u32
        } else {
            RESOLUTION
        };
        self.correction_factor[self.bucket] = factor;
        // Truncates to 32 bits of us, as the kernel's function argument does.
        self.update_intervals((measured_ns / NSEC_PER_USEC) as u32);
    }

    /// How long the CPU was idle, or would have been had the governor not been wrong, ns.
    fn measured_ns(&self, outcome: &IdleOutcome, state: &IdleState, tick_ns: u64) -> u64 {
        if outcome.got_tick && self.next_timer_ns > tick_ns {
            // The tick was left running by mistake; the sleep could have been long.
            9 * MAX_INTERESTING_NS / 10
        } else if state.polling && outcome.poll_time_limit {
            self.next_timer_ns
        } else if outcome.residency_ns > state.exit_latency_ns.wrapping_mul(2) {
            outcome.residency_ns.wrapping_sub(state.exit_latency_ns)
        } else {
            outcome.residency_ns / 2
        }
    }

    /// Tasks that wait for I/O have factors of their own and limit the exit latency.
    fn counts_iowait(&self) -> bool {
        self.gates.iowait == MenuIowait::Counted
    }

    /// The predicted idle time in ns, the time to the next tick or timer in ns, and whether the timers were asked.
    fn predict(&mut self, facts: &IdleFacts<'_>) -> (u64, i64, bool) {
        let typical_ns = u64::from(get_typical_interval(&self.intervals, self.gates)) * NSEC_PER_USEC;
        let group = if self.counts_iowait() && facts.nr_iowaiters > 0 { BUCKETS } else { 0 };
        let asks = match self.gates.timers {
            MenuTimers::Always => true,
            MenuTimers::LongSleeps => typical_ns > RESIDENCY_THRESHOLD_NS,
            MenuTimers::NoTick | MenuTimers::NearTimer => typical_ns > RESIDENCY_THRESHOLD_NS || facts.tick_stopped,
        };
        if !asks {
            self.next_timer_ns = KTIME_MAX;
            self.bucket = group + which_bucket(KTIME_MAX);
            let stuck = facts.tick_stopped && typical_ns < facts.tick_ns;
            return (if stuck { KTIME_MAX } else { typical_ns }, (facts.tick_ns / 2) as i64, false);
        }
        let (sleep_length_ns, delta_tick_ns) =
            if facts.sleep_length_ns < 0 { (0, 0) } else { (facts.sleep_length_ns as u64, facts.delta_tick_ns) };
        self.next_timer_ns = sleep_length_ns;
        self.bucket = group + which_bucket(sleep_length_ns);

        // Rounded to the nearest us; the product wraps at 64 bits and the result is cut to 32, as in C.
        const UNIT: u64 = (RESOLUTION * DECAY) as u64 * NSEC_PER_USEC;
        let corrected = sleep_length_ns.wrapping_mul(u64::from(self.correction_factor[self.bucket]));
        let timer_us = ((UNIT / 2).wrapping_add(corrected) / UNIT) as u32;
        let mut predicted_ns = typical_ns.min(u64::from(timer_us) * NSEC_PER_USEC);
        let timer_is_near =
            self.gates.timers == MenuTimers::NearTimer && sleep_length_ns <= facts.tick_ns.saturating_mul(2);
        if facts.tick_stopped && predicted_ns < facts.tick_ns && !timer_is_near {
            // No tick will correct a state that is too shallow: rather believe the timer.
            predicted_ns = sleep_length_ns;
        }
        (predicted_ns, delta_tick_ns, true)
    }
}

impl IdleGovernor for Menu {
    fn name(&self) -> &'static str {
        "menu"
    }

    /// menu.c:menu_select(), v6.12, and before.
    fn select(&mut self, facts: &IdleFacts<'_>) -> IdleChoice {
        match self.pending.take() {
            Some(outcome) => self.update(&outcome, facts),
            None if self.last_residency_ns == 0 => self.update_intervals(NO_INTERVAL),
            None => {}
        }
        let (mut predicted_ns, delta_tick_ns, queried_sleep_length) = self.predict(facts);
        let states = facts.states;
        let choice = |index: usize, stop_tick: bool| IdleChoice { index, stop_tick, queried_sleep_length };

        let only_state_0 = states.len() <= 1 || facts.latency_req_ns == 0 || {
            let too_deep =
                self.next_timer_ns < states[1].target_residency_ns || facts.latency_req_ns < states[1].exit_latency_ns;
            too_deep && !facts.is_disabled(0)
        };
        if only_state_0 {
            return choice(0, !facts.is_polling(0));
        }

        let counts_iowait = self.counts_iowait();
        let latency_req_ns = if !counts_iowait || facts.tick_stopped {
            facts.latency_req_ns
        } else {
            // Each task in iowait counts ten times (menu.c:performance_multiplier(), v4.20 to v6.11).
            facts.latency_req_ns.min(predicted_ns / (1 + 10 * u64::from(facts.nr_iowaiters)))
        };
        let mut index = None;
        for (i, state) in states.iter().enumerate() {
            if facts.is_disabled(i) {
                continue;
            }
            let so_far = *index.get_or_insert(i);
            if self.gates.latency == MenuLatency::AtOnce && state.exit_latency_ns > latency_req_ns {
                break;
            }
            if state.target_residency_ns <= predicted_ns {
                if state.exit_latency_ns > latency_req_ns {
                    break;
                }
                index = Some(i);
                continue;
            }
            // A short real sleep is better than polling.
            let fits = match self.gates.polling {
                MenuPolling::Latency => state.exit_latency_ns <= latency_req_ns,
                MenuPolling::Predicted => state.exit_latency_ns <= predicted_ns,
                MenuPolling::Threshold => {
                    state.target_residency_ns < RESIDENCY_THRESHOLD_NS && state.exit_latency_ns <= predicted_ns
                }
            };
            if states[so_far].polling && fits && state.target_residency_ns <= self.next_timer_ns {
                predicted_ns = state.target_residency_ns;
                index = Some(i);
                break;
            }
            if predicted_ns < facts.tick_ns {
                break;
            }
            if !facts.tick_stopped {
                // Shallow, with the tick kept: the tick gives another chance to go deeper.
                predicted_ns = states[so_far].target_residency_ns;
                break;
            }
            // No tick is coming: take this one if the timer lies behind its residency, not to be stuck in a shallow one.
            let stuck = states[so_far].target_residency_ns < facts.tick_ns
                && super::within(state.target_residency_ns, delta_tick_ns);
            return choice(if stuck { i } else { so_far }, true);
        }
        let mut index = index.unwrap_or(0);

        let keep_tick = (states[index].polling || predicted_ns < facts.tick_ns) && !facts.tick_stopped;
        if keep_tick && !super::within(states[index].target_residency_ns, delta_tick_ns) {
            // The tick will come before the residency is reached: go up to the deepest state that fits before it,
            // or else to the shallowest enabled one.
            for i in (0..index).rev().filter(|&i| !facts.is_disabled(i)) {
                index = i;
                if super::within(states[i].target_residency_ns, delta_tick_ns) {
                    break;
                }
            }
        }
        choice(index, !keep_tick)
    }

    /// menu.c:menu_reflect(), v6.12.
    fn reflect(&mut self, outcome: &IdleOutcome) {
        self.pending = Some(*outcome);
        self.last_residency_ns = outcome.residency_ns;
    }

    fn reject(&mut self) {
        self.last_residency_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU with a tick in 1 ms that nothing holds back.
    const FACTS: IdleFacts<'static> = IdleFacts {
        states: &[],
        disabled: 0,
        utilized: false,
        latency_req_ns: 1_000_000_000,
        sleep_length_ns: 1_000_000,
        delta_tick_ns: 1_000_000,
        tick_stopped: false,
        nr_iowaiters: 0,
        tick_ns: 4_000_000,
        now_ns: 0,
    };

    fn gates(kernel: &str) -> MenuGates {
        MenuGates::from(&KernelProfile::named(kernel).expect("a kernel"))
    }

    #[test]
    fn buckets_are_decades() {
        let check = |duration_ns, bucket| assert_eq!(which_bucket(duration_ns), bucket, "{duration_ns}");
        check(0, 0);
        check(9_999, 0);
        check(10_000, 1);
        check(999_999, 2);
        check(1_000_000, 3);
        check(99_999_999, 4);
        check(100_000_000, 5);
        check(u64::MAX, 5);
    }

    /// The detector takes the mean of alike samples, forgives two outliers upward, and gives up otherwise.
    #[test]
    fn typical_interval() {
        let check = |intervals, typical| {
            assert_eq!(get_typical_interval(&intervals, gates("6.12.117")), typical, "{intervals:?}")
        };
        check([0; 8], NO_INTERVAL);
        check([100; 8], 100);
        check([100, 101, 99, 100, 100, 100, 5000, 9000], 100);
        check([100, 101, 99, 100, 100, 4000, 5000, 9000], NO_INTERVAL);
        check([10, 30, 10, 30, 10, 30, 10, 30], 20);
        check([u32::MAX; 8], NO_INTERVAL);
        assert_eq!(get_typical_interval(&[0; 8], gates("6.1")), 0);
        // One early wake-up among late ones is an outlier since v6.15.
        let intervals = [10, 5000, 5000, 5001, 5000, 5000, 5002, 9000];
        assert_eq!(get_typical_interval(&intervals, gates("6.12.117")), NO_INTERVAL);
        assert_eq!(get_typical_interval(&intervals, gates("6.18")), 5000);
        // Half of them alike means the longest only in v6.15 and v6.16.
        let intervals = [10, 100, 1000, 3000, 5000, 7000, 8000, 9000];
        assert_eq!(get_typical_interval(&intervals, gates("6.18")), NO_INTERVAL);
        assert!(get_typical_interval(&intervals, gates("6.15")) < 9000);
        check([0, 0, 0, 0, i32::MAX as u32, i32::MAX as u32, i32::MAX as u32, i32::MAX as u32], NO_INTERVAL);
    }

    /// Timers that always hit keep the factor at 1; wake-ups at half the time pull it towards 1/2.
    #[test]
    fn correction_learns_early_wakeups() {
        let states = [
            IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
            IdleState { exit_latency_ns: 1_000, target_residency_ns: 1_000, polling: false },
        ];
        let mut menu = Menu::default();
        let mut now_ns = 0;
        for round in 0..200u64 {
            let facts = IdleFacts {
                states: &states,
                latency_req_ns: 1_000_000,
                sleep_length_ns: 20_000_000,
                tick_ns: 1_000_000,
                now_ns,
                ..FACTS
            };
            let choice = menu.select(&facts);
            // Alternating spans keep the pattern detector quiet.
            let residency_ns = 10_001_000 + if round % 2 == 0 { 9_000_000 } else { 0 } - 4_500_000;
            now_ns += residency_ns;
            menu.reflect(&IdleOutcome { index: choice.index, residency_ns, now_ns, ..IdleOutcome::default() });
        }
        let factor = menu.correction_factor[4];
        assert!((3_700..=4_500).contains(&factor), "{factor}");
    }

    /// A task that waits for I/O keeps a CPU out of a state that takes long to leave, until v6.11.
    #[test]
    fn iowait_limits_the_exit_latency() {
        let states = [
            IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
            IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false },
            IdleState { exit_latency_ns: 100_000, target_residency_ns: 300_000, polling: false },
        ];
        let index = |kernel, nr_iowaiters| {
            let facts = IdleFacts { states: &states, nr_iowaiters, ..FACTS };
            let gates = gates(kernel);
            let mut menu = Menu { intervals: [NO_INTERVAL; INTERVALS], ..Menu::new(gates) };
            let index = menu.select(&facts).index;
            let counts = gates.iowait == MenuIowait::Counted;
            assert_eq!(menu.bucket, if nr_iowaiters > 0 && counts { 9 } else { 3 }, "{kernel}");
            index
        };
        // 1 ms / 11 is shorter than the exit of 100 us.
        for (kernel, waiting) in
            [("6.1", 1), ("6.6", 1), ("6.12", 1), ("6.12.43", 1), ("6.12.44", 2), ("6.13", 2), ("6.18", 2), ("7.1", 2)]
        {
            assert_eq!((index(kernel, 0), index(kernel, 1)), (2, waiting), "{kernel}");
        }
    }

    /// A polling CPU that is expected to wake in 5 us, where the next state is worth it from 10 or from 20 us on.
    #[test]
    fn what_is_better_than_polling() {
        let index = |kernel, exit_us: u64, residency_us: u64| {
            let (exit_latency_ns, target_residency_ns) = (exit_us * 1000, residency_us * 1000);
            let states = [
                IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
                IdleState { exit_latency_ns, target_residency_ns, polling: false },
            ];
            let mut menu = Menu { intervals: [5; INTERVALS], ..Menu::new(gates(kernel)) };
            menu.pending = None;
            menu.last_residency_ns = 1;
            menu.select(&IdleFacts { states: &states, ..FACTS }).index
        };
        let check = |kernel, expected: [usize; 3]| {
            assert_eq!([index(kernel, 2, 10), index(kernel, 2, 20), index(kernel, 8, 10)], expected, "{kernel}");
        };
        // Before it forgot I/O, menu left no state that takes longer to leave than the predicted sleep.
        check("6.12", [1, 1, 0]);
        check("6.12.57", [1, 1, 1]);
        check("6.12.58", [1, 1, 0]);
        check("6.12.64", [1, 0, 0]);
        check("6.14", [1, 1, 1]);
        check("6.18", [1, 1, 0]);
        check("6.19", [1, 0, 0]);
    }

    /// Short sleeps are typical and no tick will come: since v7.0 menu asks for the timer and believes it, since v7.1 only one
    /// that is further than two ticks.
    #[test]
    fn timers_without_the_tick() {
        let states = [
            IdleState { exit_latency_ns: 0, target_residency_ns: 0, polling: true },
            IdleState { exit_latency_ns: 1_000, target_residency_ns: 1_000, polling: false },
            IdleState { exit_latency_ns: 10_000, target_residency_ns: 100_000, polling: false },
        ];
        let select = |kernel, sleep_length_ns| {
            let mut menu = Menu { intervals: [5; INTERVALS], last_residency_ns: 1, ..Menu::new(gates(kernel)) };
            let facts = IdleFacts { states: &states, sleep_length_ns, tick_stopped: true, ..FACTS };
            let choice = menu.select(&facts);
            (choice.index, choice.queried_sleep_length)
        };
        let check = |kernel, near, far| {
            assert_eq!((select(kernel, 1_000_000), select(kernel, 9_000_000)), (near, far), "{kernel}");
        };
        check("6.1", (2, true), (2, true));
        for kernel in ["6.13", "6.18", "6.19"] {
            check(kernel, (2, false), (2, false));
        }
        check("7.0", (2, true), (2, true));
        check("7.1", (1, true), (2, true));
    }

    /// Before v6.6 the timers are asked even where sleeps are short, so that a tick that comes first teaches a long one.
    #[test]
    fn a_tick_among_short_sleeps() {
        let states =
            [IdleState::default(), IdleState { exit_latency_ns: 2_000, target_residency_ns: 2_000, polling: false }];
        let bucket = |gates| {
            let mut menu = Menu::new(gates);
            menu.intervals = [10; INTERVALS];
            let facts = IdleFacts { states: &states, sleep_length_ns: 50_000_000, ..FACTS };
            menu.reflect(&IdleOutcome { index: 1, residency_ns: 10_000, got_tick: false, ..IdleOutcome::default() });
            (menu.select(&facts).queried_sleep_length, menu.next_timer_ns)
        };
        assert_eq!(bucket(gates("6.1")), (true, 50_000_000));
        assert_eq!(bucket(gates("6.6")), (false, KTIME_MAX));
    }
}
