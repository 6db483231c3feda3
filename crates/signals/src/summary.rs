//! What tables of signals come down to by task, in little memory: for traces whose tables would not fit.
//!
//! The numbers are those of the tables: means, medians and quantiles are exact. Kept are 8 bytes a wait and 16 an activation.

use std::collections::BTreeMap;

use crate::activations::Activation;
use crate::pelt::Sample;
use crate::residency::Wait;
use crate::waits::nearest_rank;

/// A task with so many activations, of which this share in percent is regular within this part in percent of the median
/// distance, is periodic and has its period as its deadline.
const PERIODIC_MIN: usize = 5;
const PERIODIC_SHARE: u64 = 80;
const PERIODIC_WITHIN: u64 = 10;

/// Of the samples of a task's `util_avg`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtilSummary {
    /// Number of samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The greatest.
    pub max: u64,
}

/// Samples of tasks, summed up.
#[derive(Debug, Default)]
pub struct Utils {
    /// By pid.
    pub tasks: BTreeMap<i32, UtilSummary>,
}

impl Utils {
    /// Takes a sample; those of run queues are left out.
    pub fn sample(&mut self, sample: &Sample) {
        if let Some(pid) = sample.pid {
            let of = self.tasks.entry(pid).or_default();
            of.count += 1;
            of.sum += sample.util_avg;
            of.max = of.max.max(sample.util_avg);
        }
    }
}

#[derive(Debug, Default)]
struct Times {
    waits_ns: Vec<u64>,
    /// Wake-up and response time.
    activations: Vec<(u64, u64)>,
}

/// Waits and activations by task.
#[derive(Debug, Default)]
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
    /// Number of activations.
    pub activations: u64,
    /// Of these, those that took longer than the deadline; `None` if there is no deadline.
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
        self.tasks.entry(one.pid).or_default().activations.push((one.woken_ns, response_ns));
    }

    /// One row a task, by pid. Without a deadline periodic tasks have their period as one.
    pub fn finish(self, deadline_ns: Option<u64>) -> Vec<(i32, LatencySummary)> {
        self.tasks.into_iter().map(|(pid, times)| (pid, times.finish(deadline_ns))).collect()
    }
}

impl Times {
    fn finish(mut self, deadline_ns: Option<u64>) -> LatencySummary {
        self.waits_ns.sort_unstable();
        self.activations.sort_unstable();
        let waits = &self.waits_ns;
        let waits_ns = match waits.last() {
            Some(&max) => [50, 99, 100].map(|percent| nearest_rank(waits, percent).unwrap_or(max)),
            None => [0; 3],
        };
        let deadline_ns = deadline_ns.or_else(|| period_ns(&self.activations));
        let late = |deadline: u64| self.activations.iter().filter(|(_, response)| *response > deadline).count() as u64;
        LatencySummary {
            wakeups: waits.len() as u64,
            waits_ns,
            activations: self.activations.len() as u64,
            missed: deadline_ns.map(late),
        }
    }
}

/// The median distance of wake-ups, if most are near it.
fn period_ns(activations: &[(u64, u64)]) -> Option<u64> {
    if activations.len() < PERIODIC_MIN {
        return None;
    }
    let mut periods: Vec<u64> = activations.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    periods.sort_unstable();
    // Twice the median, which may lie between two.
    let half = periods.len() / 2;
    // Damaged times may be far apart.
    let at = |index: usize| u128::from(periods[index]);
    let twice = if periods.len() % 2 == 1 { 2 * at(half) } else { at(half - 1) + at(half) };
    let near = |period: &&u64| (2 * u128::from(**period)).abs_diff(twice) * 100 <= u128::from(PERIODIC_WITHIN) * twice;
    let regular = periods.iter().filter(near).count() as u64;
    (regular * 100 >= PERIODIC_SHARE * periods.len() as u64).then_some((twice / 2) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pid: i32, wait_ns: u64, woken: bool) -> Wait {
        Wait { pid, cpu: 0, time_ns: 0, wait_ns, woken }
    }

    #[test]
    fn waits_and_deadlines_come_down_to_a_row() {
        let mut latencies = Latencies::default();
        (1..=4).for_each(|ns| latencies.wait(&wait(7, 10 * ns, true)));
        latencies.wait(&wait(7, 1000, false));
        for nth in 0..6u64 {
            let woken_ns = nth * 100 + nth % 2;
            let end_ns = woken_ns + if nth == 3 { 102 } else { 50 };
            let one = Activation { pid: 7, woken_ns, start_ns: 0, end_ns, running_ns: 0, cpu: 0, preemptions: 0 };
            latencies.activation(&one);
        }
        let rows = latencies.finish(None);
        let expected = LatencySummary { wakeups: 4, waits_ns: [20, 40, 40], activations: 6, missed: Some(1) };
        assert_eq!(rows, [(7, expected)]);
    }

    #[test]
    fn few_or_irregular_wake_ups_have_no_deadline() {
        let far: Vec<(u64, u64)> = (0..20).map(|nth| (nth * (u64::MAX / 20), 0)).collect();
        assert_eq!(period_ns(&far), Some(u64::MAX / 20));
        assert_eq!(period_ns(&[(0, 0), (100, 0), (200, 0), (300, 0)]), None);
        assert_eq!(period_ns(&[(0, 0), (100, 0), (200, 0), (300, 0), (401, 0)]), Some(100));
        assert_eq!(period_ns(&[(0, 0), (100, 0), (250, 0), (300, 0), (301, 0)]), None);
    }
}
