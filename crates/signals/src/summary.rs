//! What tables of signals come down to by task, in little memory: for traces whose tables would not fit.
//!
//! The numbers are those of the tables: means, medians and quantiles are exact. Kept are 8 bytes a wait and 16 an activation.

use std::collections::BTreeMap;

use opplab_kernel::pelt::HalfLife;

use crate::activations::Activation;
use crate::pelt::Sample;
use crate::residency::Wait;
use crate::waits::nearest_rank;

/// A period of PELT, in ns.
const PERIOD_NS: f64 = 1_048_576.0;

/// A task with so many activations, whose wake-ups are by this share in percent apart by the median distance within this part in percent,
/// is periodic and has its period as its deadline, unless it sleeps for a set time.
pub const PERIODIC_MIN: usize = 5;
const PERIODIC_SHARE: u64 = 80;
const PERIODIC_WITHIN: u64 = 10;

/// A task's `util_avg` over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct UtilSummary {
    /// The greatest.
    pub max: u64,
    first_ns: u64,
    last: Option<Sample>,
    /// Utilisation times ns.
    area: f64,
}

impl UtilSummary {
    /// Its mean over the time from the first to the last sample.
    pub fn mean(&self) -> f64 {
        let Some(last) = &self.last else { return 0.0 };
        let whole = last.time_ns.saturating_sub(self.first_ns);
        if whole == 0 { last.util_avg as f64 } else { self.area / whole as f64 }
    }
}

/// The mean of a signal that goes from one value to another within so many half-lives, as it does between events: towards a
/// bound, of which each half-life leaves half of the way. Where hardly any time passes, it is the middle.
fn mean_between(from: f64, to: f64, half_lives: f64) -> f64 {
    if half_lives < 0.01 {
        return (from + to) / 2.0;
    }
    let left = (-half_lives).exp2();
    let bound = (to - from * left) / (1.0 - left);
    bound - (bound - from) * (1.0 - left) / (half_lives * std::f64::consts::LN_2)
}

/// Samples of tasks, summed up.
#[derive(Debug)]
pub struct Utils {
    /// By pid.
    pub tasks: BTreeMap<i32, UtilSummary>,
    half_life_ns: f64,
}

impl Utils {
    /// Of signals with this half-life.
    pub fn new<H: HalfLife>() -> Self {
        Self { tasks: BTreeMap::new(), half_life_ns: f64::from(H::PERIOD) * PERIOD_NS }
    }

    /// Takes a sample; those of run queues are left out.
    pub fn sample(&mut self, sample: &Sample) {
        let Some(pid) = sample.pid else { return };
        let of = self.tasks.entry(pid).or_default();
        if let Some(before) = of.last.replace(*sample) {
            let ns = sample.time_ns.saturating_sub(before.time_ns);
            // Each run queue has a clock of its own.
            let tracked = if before.cpu == sample.cpu { sample.pelt_ns.saturating_sub(before.pelt_ns) } else { ns };
            let half_lives = tracked as f64 / self.half_life_ns;
            of.area += ns as f64 * mean_between(before.util_avg as f64, sample.util_avg as f64, half_lives);
        } else {
            of.first_ns = sample.time_ns;
        }
        of.max = of.max.max(sample.util_avg);
    }
}

#[derive(Clone, Debug, Default)]
struct Times {
    waits_ns: Vec<u64>,
    /// Wake-up and response time.
    activations: Vec<(u64, u64)>,
    /// Of these, the response times of those that a run marks as late.
    late_ns: Vec<u64>,
    /// Of the one that is under way at the end: how long it has taken.
    under_way_ns: Option<u64>,
}

/// Waits and activations by task.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    tasks: BTreeMap<i32, Times>,
}

/// How long a task waited for a CPU after wake-ups, and how often it was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of waits after wake-ups.
    pub wakeups: u64,
    /// Their median, 99th percentile and maximum.
    pub waits_ns: [u64; 3],
    /// Number of activations that ended, or were past their deadline at the end of the trace.
    pub activations: u64,
    /// Of these, those that took longer than the deadline, or do; `None` if there is no deadline.
    pub missed: Option<u64>,
}

impl Latencies {
    /// Takes a wait; those after preemptions are left out.
    pub fn wait(&mut self, wait: &Wait) {
        if wait.woken {
            self.tasks.entry(wait.pid).or_default().waits_ns.push(wait.wait_ns);
        }
    }

    /// Takes an activation.
    pub fn activation(&mut self, one: &Activation) {
        let response_ns = one.end_ns.saturating_sub(one.woken_ns);
        let times = self.tasks.entry(one.pid).or_default();
        times.activations.push((one.woken_ns, response_ns));
        if one.late {
            times.late_ns.push(response_ns);
        }
    }

    /// One row a task, by pid, with what is under way at the end. Without a deadline periodic tasks have their period as one.
    pub fn finish(mut self, under_way: &[Activation], known: &Deadlines) -> Vec<(i32, LatencySummary)> {
        for one in under_way {
            self.tasks.entry(one.pid).or_default().under_way_ns = Some(one.end_ns.saturating_sub(one.woken_ns));
        }
        self.tasks.into_iter().map(|(pid, times)| (pid, times.finish(known.of(pid), known.given_ns))).collect()
    }
}

impl Times {
    fn finish(mut self, deadline_ns: Option<u64>, given_ns: Option<u64>) -> LatencySummary {
        self.waits_ns.sort_unstable();
        self.activations.sort_unstable();
        let waits = &self.waits_ns;
        let waits_ns = match waits.last() {
            Some(&max) => [50, 99, 100].map(|percent| nearest_rank(waits, percent).unwrap_or(max)),
            None => [0; 3],
        };
        let deadline_ns = deadline_ns.or_else(|| period_ns(&self.activations));
        if given_ns.is_some() {
            self.late_ns.clear();
        }
        // Those that a run marks, and others by the deadline.
        let over = |deadline: u64| self.activations.iter().filter(|(_, response)| *response > deadline).count() as u64;
        let told = |deadline: u64| self.late_ns.iter().filter(|&&response| response <= deadline).count() as u64;
        let missed = deadline_ns.map(|deadline| over(deadline) + told(deadline));
        let missed = missed.or((!self.late_ns.is_empty()).then_some(self.late_ns.len() as u64));
        let is_due = deadline_ns.is_some_and(|deadline| self.under_way_ns.is_some_and(|so_far| so_far > deadline));
        LatencySummary {
            wakeups: waits.len() as u64,
            waits_ns,
            activations: self.activations.len() as u64 + u64::from(is_due),
            missed: missed.map(|missed| missed + u64::from(is_due)),
        }
    }
}

/// Deadlines that are not made of periods.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// Of all tasks, by the caller.
    pub given_ns: Option<u64>,
    /// By pid, as the trace states them.
    pub stated_ns: BTreeMap<i32, u64>,
}

impl Deadlines {
    /// That of a task, if it is known.
    pub fn of(&self, pid: i32) -> Option<u64> {
        self.given_ns.or_else(|| self.stated_ns.get(&pid).copied())
    }
}

/// Those of `under_way` that are past the deadlines of their tasks; tasks that are in none of `deadlines` get the known one there.
pub fn past_deadline(
    under_way: Vec<Activation>,
    deadlines: &mut BTreeMap<i32, u64>,
    known: &Deadlines,
) -> Vec<Activation> {
    let mut is_late = |one: &Activation| {
        let so_far_ns = one.end_ns.saturating_sub(one.woken_ns);
        let known_ns = deadlines.get(&one.pid).copied().or(known.of(one.pid)).filter(|&limit_ns| so_far_ns > limit_ns);
        deadlines.extend(known_ns.map(|limit_ns| (one.pid, limit_ns)));
        known_ns.is_some()
    };
    under_way.into_iter().filter(|one| is_late(one)).collect()
}

/// The deadlines of tasks by pid: the known ones, or the periods of those that are periodic.
pub fn deadlines(activations: &[Activation], known: &Deadlines) -> BTreeMap<i32, u64> {
    let mut tasks: BTreeMap<i32, Vec<(u64, u64)>> = BTreeMap::new();
    for one in activations {
        tasks.entry(one.pid).or_default().push((one.woken_ns, one.end_ns.saturating_sub(one.woken_ns)));
    }
    let of = |(pid, mut times): (i32, Vec<(u64, u64)>)| {
        times.sort_unstable();
        Some((pid, known.of(pid).or_else(|| period_ns(&times))?))
    };
    tasks.into_iter().filter_map(of).collect()
}

/// The median distance of wake-ups, if most are near it and they follow it rather than the sleeps before them.
fn period_ns(activations: &[(u64, u64)]) -> Option<u64> {
    if activations.len() < PERIODIC_MIN {
        return None;
    }
    let periods: Vec<u64> = activations.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let twice = twice_median(&periods);
    // Damaged times may be far apart.
    let near = |period: &&u64| (2 * u128::from(**period)).abs_diff(twice) * 100 <= u128::from(PERIODIC_WITHIN) * twice;
    let regular = periods.iter().filter(near).count() as u64;
    let period = u64::try_from(twice / 2).unwrap_or(u64::MAX);
    if regular * 100 < PERIODIC_SHARE * periods.len() as u64 || period == 0 {
        return None;
    }
    // Late work moves few wake-ups of a timer off the multiples of its period, and leaves the sleeps of `usleep()` as long as they are.
    let off_period: Vec<u64> = periods.iter().map(|ns| (ns % period).min(period - ns % period)).collect();
    let sleeps: Vec<u64> =
        activations.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0.saturating_add(pair[0].1))).collect();
    let usual = u64::try_from(twice_median(&sleeps) / 2).unwrap_or(u64::MAX);
    let off_usual: Vec<u64> = sleeps.iter().map(|ns| ns.abs_diff(usual).min(period / 2)).collect();
    let (by_timer, by_sleep) = (twice_median(&off_period), twice_median(&off_usual));
    let sum = |off: &[u64]| off.iter().map(|&ns| u128::from(ns)).sum::<u128>();
    // Where most are as regular either way, the others decide.
    let is_timer = match (2 * by_timer < by_sleep, 2 * by_sleep < by_timer) {
        (false, false) => sum(&off_period) <= sum(&off_usual),
        (is_timer, _) => is_timer,
    };
    is_timer.then_some(period)
}

/// Twice the median, which may lie between two; of no values 0.
fn twice_median(values: &[u64]) -> u128 {
    let mut values = values.to_vec();
    values.sort_unstable();
    let at = |index: usize| values.get(index).copied().map_or(0, u128::from);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { 2 * at(half) } else { at(half.saturating_sub(1)) + at(half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pid: i32, wait_ns: u64, woken: bool) -> Wait {
        Wait { pid, cpu: 0, time_ns: 0, wait_ns, woken }
    }

    fn one(woken_ns: u64, end_ns: u64) -> Activation {
        Activation { pid: 7, woken_ns, start_ns: 0, end_ns, running_ns: 0, cpu: 0, preemptions: 0, late: false }
    }

    #[test]
    fn waits_and_deadlines_come_down_to_a_row() {
        let mut latencies = Latencies::default();
        (1..=4).for_each(|ns| latencies.wait(&wait(7, 10 * ns, true)));
        latencies.wait(&wait(7, 1000, false));
        for nth in 0..6u64 {
            let woken_ns = nth * 100 + nth % 2;
            let end_ns = woken_ns + if nth == 3 { 102 } else { 50 };
            latencies.activation(&one(woken_ns, end_ns));
        }
        // What is under way at the end counts when it is past the deadline of 101.
        for (so_far, activations, missed) in [(101, 6, 1), (102, 7, 2)] {
            let last = one(600, 600 + so_far);
            let rows = latencies.clone().finish(&[last], &Deadlines::default());
            let expected = LatencySummary { wakeups: 4, waits_ns: [20, 40, 40], activations, missed: Some(missed) };
            assert_eq!(rows, [(7, expected)]);
            let late = past_deadline(vec![last], &mut BTreeMap::from([(7, 101)]), &Deadlines::default());
            assert_eq!(late.len() as u64, missed - 1);
        }
        let given = Deadlines { given_ns: Some(49), ..Deadlines::default() };
        let stated = Deadlines { stated_ns: BTreeMap::from([(7, 49)]), ..Deadlines::default() };
        for known in [given, stated] {
            assert_eq!(past_deadline(vec![one(0, 50)], &mut BTreeMap::new(), &known).len(), 1);
            assert_eq!(deadlines(&[one(0, 50)], &known), BTreeMap::from([(7, 49)]));
        }
    }

    #[test]
    fn few_or_irregular_wake_ups_have_no_deadline() {
        let far: Vec<(u64, u64)> = (0..20).map(|nth| (nth * (u64::MAX / 20), 0)).collect();
        assert_eq!(period_ns(&far), Some(u64::MAX / 20));
        assert_eq!(period_ns(&[(0, 0), (100, 0), (200, 0), (300, 0)]), None);
        assert_eq!(period_ns(&[(0, 0), (100, 0), (200, 0), (300, 0), (401, 0)]), Some(100));
        assert_eq!(period_ns(&[(0, 0), (100, 0), (250, 0), (300, 0), (301, 0)]), None);
    }

    /// Goal: work that takes longer now and then is late for a timer, which keeps its time, and cannot be late for a sleep that follows it.
    #[test]
    fn a_task_that_sleeps_for_a_set_time_has_no_deadline() {
        let (mut by_timer, mut by_sleep) = (Vec::new(), Vec::new());
        let (mut timer, mut woken) = (0, 0);
        for nth in 0..40 {
            let response = if nth % 13 == 5 { 27_000 } else { 20_000 };
            by_sleep.push((woken, response));
            woken += response + 5_000;
            by_timer.push((timer, response));
            timer += if response > 25_000 { 50_000 } else { 25_000 };
        }
        assert_eq!((period_ns(&by_timer), period_ns(&by_sleep)), (Some(25_000), None));
        // With interrupts that come a bit late.
        by_timer.iter_mut().step_by(3).for_each(|one| one.0 += 40);
        by_sleep.iter_mut().step_by(3).for_each(|one| one.0 += 40);
        assert_eq!((period_ns(&by_timer).is_some(), period_ns(&by_sleep)), (true, None));
    }

    /// Goal: a timer that begins a new row of periods where its work was late is a timer.
    #[test]
    fn a_timer_that_starts_anew_when_it_is_late_has_a_period() {
        let (mut late, mut now) = (Vec::new(), 0);
        for nth in 0..40 {
            let response = if nth % 13 == 5 { 47_000 } else { 20_000 + nth % 4 * 100 };
            late.push((now, response));
            now += if response > 25_000 { 52_000 } else { 25_000 };
        }
        assert_eq!(period_ns(&late), Some(25_000));
    }
}
