//! When the timers of a periodic task expired, from when it was woken.
//!
//! ```text
//!   expiry   |         |         |         |         |      t0 + n * period
//!   waking   |+        |  +      |+        |+        |  +   never earlier, often a little later
//! ```
//! A wake-up comes late where its CPU had to wait (for an interrupt to end, for the emulator's one instruction stream). The line
//! that no wake-up is earlier than, and from which all together are least late, is an edge of the lower hull of the
//! points (n, time): the one over their middle. Wake-ups that follow no period stay as they are.

use std::collections::BTreeSet;

use opplab_model::event::{IDLE_TASK, TaskIdx};

use crate::costs::TRAIN_GAP_NS;
use crate::events::Ev;

/// A period is known from so many times between wake-ups.
const PERIOD_OF: usize = 8;
/// Fewer wake-ups in a row show no period.
const LEAST: usize = 6;

/// For each of `wakes` (ascending, ns), when its timer expired, ns.
pub(crate) fn expiries(wakes: &[u64]) -> Vec<u64> {
    let mut expiries = wakes.to_vec();
    let mut first = 0;
    while wakes.len() - first >= LEAST {
        let numbers = row(&wakes[first..]);
        let end = first + numbers.len();
        if numbers.len() >= LEAST {
            straighten(&numbers, &mut expiries[first..end]);
        }
        // The last of a row may be the first of the next.
        first = (end - 1).max(first + 1);
    }
    expiries
}

/// The first wake-ups that are multiples of one period apart, within a quarter of it: the number of each.
fn row(wakes: &[u64]) -> Vec<u64> {
    let mut periods: Vec<u64> = wakes.windows(2).take(PERIOD_OF).map(|pair| pair[1] - pair[0]).collect();
    periods.sort_unstable();
    let period = periods[periods.len() / 2].max(1);
    let mut numbers = vec![0];
    for pair in wakes.windows(2) {
        let apart = pair[1] - pair[0];
        let step = (apart + period / 2) / period;
        if step == 0 || apart.abs_diff(step * period) > period / 4 {
            break;
        }
        numbers.push(numbers[numbers.len() - 1] + step);
    }
    numbers
}

/// Moves `times`, the wake-ups of these `numbers`, onto the line that bounds them from below.
fn straighten(numbers: &[u64], times: &mut [u64]) {
    let mut hull: Vec<(i128, i128)> = Vec::new();
    for (&number, &time) in numbers.iter().zip(times.iter()) {
        let point = (i128::from(number), i128::from(time));
        // The middle one of three is above the line of the others: no bound.
        let above = |a: (i128, i128), b: (i128, i128)| (b.1 - a.1) * (point.0 - a.0) >= (point.1 - a.1) * (b.0 - a.0);
        while hull.len() >= 2 && above(hull[hull.len() - 2], hull[hull.len() - 1]) {
            hull.pop();
        }
        hull.push(point);
    }
    let sum: i128 = numbers.iter().map(|&number| i128::from(number)).sum();
    let nr = numbers.len() as i128;
    // The edge over the middle: its right end is the first point that is not left of it.
    let right = hull.partition_point(|point| point.0 * nr < sum).clamp(1, hull.len() - 1);
    let ((x, y), (to_x, to_y)) = (hull[right - 1], hull[right]);
    for (&number, time) in numbers.iter().zip(times) {
        let line = y + (to_y - y) * (i128::from(number) - x) / (to_x - x);
        *time = u64::try_from(line).unwrap_or(0).min(*time);
    }
}

/// Since when an interrupt that a CPU handles may have waited.
#[derive(Debug)]
pub(crate) struct Trains {
    shared_stream: bool,
    /// When the machine, idle before, began to do what it does.
    began_ns: u64,
    last_ns: u64,
    /// Of each CPU: its last event, the first of those that follow each other closely, and the last one before them.
    cpus: Vec<[u64; 3]>,
}

impl Trains {
    pub(crate) fn new(nr_cpus: usize, shared_stream: bool) -> Self {
        Self { shared_stream, began_ns: 0, last_ns: 0, cpus: vec![[0; 3]; nr_cpus] }
    }

    /// Takes note of `ev`; `all_idle`: nobody runs a task.
    pub(crate) fn event(&mut self, ev: &Ev, all_idle: bool) {
        let now = ev.time_ns;
        if all_idle && now.saturating_sub(self.last_ns) > TRAIN_GAP_NS {
            self.began_ns = now;
        }
        self.last_ns = now;
        if let Some([last, first, before]) = self.cpus.get_mut(ev.cpu as usize) {
            if now.saturating_sub(*last) > TRAIN_GAP_NS {
                (*first, *before) = (now, *last);
            }
            *last = now;
        }
    }

    /// Since when the interrupt in which `ev` happens may have waited: for interrupts of its CPU that came first, and where CPUs
    /// share one instruction stream, for those of other CPUs.
    pub(crate) fn earliest_ns(&self, ev: &Ev) -> u64 {
        let Some(&[_, first, before]) = self.cpus.get(ev.cpu as usize) else { return ev.time_ns };
        match (ev.current == IDLE_TASK, self.shared_stream) {
            (false, _) => ev.time_ns,
            (true, false) => first,
            (true, true) => self.began_ns.max(before),
        }
    }
}

/// Timers that expire so soon after each other may have expired together, ns.
const TOGETHER_NS: u64 = 400_000;
/// So exactly the time of an expiry is known, ns.
const EXACT_NS: u64 = 5_000;

/// Timers of one parent's tasks, which it starts by one clock, may have expired together where they are served no further apart, ns: a turn of
/// a CPU on a shared instruction stream.
const TURN_NS: u64 = 4_000_000;

/// Lets timers expire at one instant that may have: each `expiries[task][n]` comes no earlier than `earliest[task][n]`, but as early as
/// the first one of those around it. `parents`: who forked each task, where that shows that they may be further apart.
pub(crate) fn together(expiries: &mut [Vec<u64>], earliest: &[Vec<u64>], parents: &[Option<TaskIdx>]) {
    let families: BTreeSet<TaskIdx> = parents.iter().flatten().copied().collect();
    for family in families {
        join(expiries, earliest, TURN_NS, |task| parents[task] == Some(family));
    }
    join(expiries, earliest, TOGETHER_NS, |_| true);
}

/// As [`together`], of the tasks that `takes`, within `within_ns`.
fn join(expiries: &mut [Vec<u64>], earliest: &[Vec<u64>], within_ns: u64, takes: impl Fn(usize) -> bool) {
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for (task, times) in expiries.iter().enumerate().filter(|(task, _)| takes(*task)) {
        all.extend(times.iter().enumerate().map(|(nth, &time)| (time, task, nth)));
    }
    all.sort_unstable();
    let mut first_ns = 0;
    for (time, task, nth) in all {
        if time - first_ns <= within_ns && earliest[task][nth] <= first_ns + EXACT_NS {
            expiries[task][nth] = first_ns;
        } else {
            first_ns = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn check(wakes: &[u64], expected: &[u64]) {
        assert_eq!(expiries(wakes), expected);
    }

    #[test]
    fn late_wake_ups_of_a_period_are_moved_to_its_line() {
        let line: Vec<u64> = (0..10).map(|n| 3 * MS + n * 16 * MS).collect();
        let late = [0, 0, MS, 0, 2 * MS, 30_000, 0, 0, 3 * MS, 0];
        let wakes: Vec<u64> = line.iter().zip(late).map(|(time, late)| time + late).collect();
        check(&wakes, &line);
        // A period that was missed.
        let some = |times: &[u64]| -> Vec<u64> {
            times.iter().enumerate().filter(|(n, _)| *n != 5).map(|(_, time)| *time).collect()
        };
        check(&some(&wakes), &some(&line));
    }

    /// Goal: of one parent's tasks those that may have waited since the first one's timer expired with it; others only if they came soon after.
    #[test]
    fn timers_of_one_family_expire_together() {
        let late = [0, MS, 3 * MS, 3 * MS, 5 * MS];
        let check = |parents: [Option<TaskIdx>; 5], earliest: [u64; 5], expected: [u64; 5]| {
            let mut expiries: Vec<Vec<u64>> = late.iter().map(|late| vec![16 * MS + late]).collect();
            let earliest: Vec<Vec<u64>> = earliest.iter().map(|late| vec![16 * MS + late]).collect();
            together(&mut expiries, &earliest, &parents);
            let found: Vec<u64> = expiries.iter().map(|times| times[0] - 16 * MS).collect();
            assert_eq!(found, expected);
        };
        let family = [Some(7), Some(7), None, Some(7), Some(7)];
        check(family, [0; 5], [0, 0, 3 * MS, 0, 5 * MS]);
        check(family, [0, MS, 0, 0, 0], [0, MS, 3 * MS, MS, MS]);
        check([None; 5], [0; 5], late);
    }

    #[test]
    fn other_wake_ups_stay() {
        let wakes = [0, 3 * MS, 4 * MS, 40 * MS, 41 * MS, 90 * MS, 93 * MS, 200 * MS];
        check(&wakes, &wakes);
        check(&[], &[]);
        check(&[5], &[5]);
        check(&[5; 8], &[5; 8]);
    }

    #[test]
    fn one_period_follows_another() {
        let line: Vec<u64> = (0..8).map(|n| n * 16 * MS).chain((1..9).map(|n| 112 * MS + n * 40 * MS)).collect();
        let mut wakes = line.clone();
        wakes[3] += MS;
        wakes[12] += 4 * MS;
        check(&wakes, &line);
    }
}
