//! A comparison metric by metric, and how far each may be believed.
//!
//! A value that the trace does not record is none, with the reason. An open loop keeps the trace's timings, so that times and latencies
//! cannot change in it. A change that is no greater than the error of the replay is not significant.

pub use crate::measure::Whole;
use crate::measure::{Measured, PolicyTimes, alike};
use crate::rerun::{Comparison, Mode};

/// How much a replay's frequency, energy and busy time may be off and still be near, in percent.
pub const TIMES_LIMIT_PERCENT: u64 = 5;
/// The same of counts and of latencies, which few events decide.
pub const COUNTS_LIMIT_PERCENT: u64 = 15;

/// How near the replay of the trace's own policy is to the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the metric's limit.
    Near,
    /// Beyond it.
    NotNear,
    /// Replayed near or not, the changed policy's is of another amount of work ([`Comparison::work_share`], [`Comparison::beyond`]).
    OtherWork,
    /// It is as recorded in this loop, whatever the policy.
    Unchanging,
    /// The trace does not record it.
    Unknown,
    /// It counts from timers, of which a trace has the wake-ups only.
    NoTimers,
}

impl Verdict {
    /// The verdict as people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::NotNear => "not near",
            Self::OtherWork => "not near: of other work",
            Self::Unchanging => "cannot change in this loop",
            Self::Unknown => "not in the trace",
            Self::NoTimers => "no timers in the trace",
        }
    }
}

/// The mean of a number over the runs of a loop, exactly.
#[derive(Debug, Clone, Copy)]
struct Mean {
    sum: u128,
    nr: u128,
}

impl Mean {
    /// `None` without any.
    fn of(values: impl IntoIterator<Item = u64>) -> Option<Self> {
        let (sum, nr) = values.into_iter().fold((0, 0), |(sum, nr), value| (sum + u128::from(value), nr + 1));
        (nr > 0).then_some(Self { sum, nr })
    }

    /// To the nearest.
    fn rounded(self) -> u64 {
        u64::try_from((self.sum + self.nr / 2) / self.nr).unwrap_or(u64::MAX)
    }

    /// How far `other` is from it, times its runs.
    fn off(self, other: u64) -> u128 {
        self.sum.abs_diff(u128::from(other) * self.nr)
    }
}

/// The latency that `percent` of the wake-ups of a run do not exceed, as the mean of the runs that have any.
pub(crate) fn latency_ns(runs: &[Measured], percent: usize) -> Option<u64> {
    let having = runs.iter().filter(|run| !run.latencies_ns.is_empty());
    Mean::of(having.map(|run| run.latency_ns(percent))).map(Mean::rounded)
}

/// One metric of the three runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// What it is, with the policy that it is of.
    pub name: String,
    /// `uJ`, `kHz`, `ns` or empty for counts.
    pub unit: &'static str,
    /// Of the trace.
    pub recorded: Option<u64>,
    /// Of the trace's own policy, replayed: the mean of the runs of a closed loop.
    pub replayed: Option<u64>,
    /// Of the wanted policy, likewise.
    pub changed: Option<u64>,
    /// How near trace and replay are.
    pub verdict: Verdict,
    /// Whether the change is greater than the error; `None` if either is not known.
    pub change_counts: Option<bool>,
    /// Each run of a closed loop, replayed and changed, from which all of the above follows; empty in an open one.
    pub runs: Vec<(u64, Option<u64>)>,
    /// Of the changed policy, if wake-ups of running tasks are lost that the runs keep.
    pub if_lost: Option<u64>,
}

/// The place of each policy in [`alike`]'s order.
fn ranks(measured: &Measured) -> Vec<usize> {
    let order = alike(measured);
    let rank = |policy: &PolicyTimes| order.iter().position(|other| other.cpus == policy.cpus).unwrap_or(0);
    measured.policies.iter().map(rank).collect()
}

/// The policy that has this place in [`alike`]'s order.
fn place(measured: &Measured, rank: usize) -> usize {
    let cpus = alike(measured).get(rank).map(|policy| &policy.cpus);
    measured.policies.iter().position(|policy| Some(&policy.cpus) == cpus).unwrap_or(rank)
}

/// How much the whole of a replay may be off in each of its four numbers and still be near, in parts of 100 000.
pub const WHOLE_LIMIT: u64 = 15_000;

/// Latencies that differ by less are equal: text has times in us, and events of one moment are some ns apart in a trace.
const EQUAL_LATENCY_NS: u64 = 1_000;

impl Whole {
    /// The distances of a comparison.
    pub fn of(comparison: &Comparison) -> Self {
        let (one, other) = (&comparison.recorded, &comparison.check);
        let off = |one: u128, other: u128| match one {
            0 => (other == 0).then_some(0),
            _ => u64::try_from(one.abs_diff(other) * 100_000 / one).ok(),
        };
        let told = |measured: &Measured| -> Vec<u64> {
            let policies = alike(measured).into_iter().zip(alike(one));
            policies.filter(|(_, of)| !comparison.silence.covers(one, of)).map(|(p, _)| p.mean_khz()).collect()
        };
        let sum = |khz: Vec<u64>| khz.into_iter().map(u128::from).sum();
        let busy = |measured: &Measured| -> u128 {
            measured.policies.iter().map(|policy| u128::from(policy.all_busy_ns())).sum()
        };
        let recorded_ns = one.latency_ns(95);
        let late_ns = latency_ns(&comparison.runs.0, 95).unwrap_or(0);
        let late_ns = if recorded_ns.abs_diff(late_ns) < EQUAL_LATENCY_NS { recorded_ns } else { late_ns };
        Self {
            frequency: off(sum(told(one)), sum(told(other))).filter(|_| comparison.is_checked()),
            energy: off(one.total_energy_fj(), other.total_energy_fj()).filter(|_| !comparison.energy_is_silent()),
            busy: off(busy(one), busy(other)),
            latency_p95: off(recorded_ns.into(), late_ns.into()).filter(|_| !comparison.silence.wakeups),
        }
    }

    /// Whether all that is known is within [`WHOLE_LIMIT`], and the frequency is known.
    pub fn is_near(&self) -> bool {
        let all = [self.frequency, self.energy, self.busy, self.latency_p95];
        self.frequency.is_some() && all.into_iter().flatten().all(|off| off <= WHOLE_LIMIT)
    }
}

/// Loops of the recovered timers that ended late, or did not end.
pub(crate) const MISSED: &str = "missed activations";

/// The metrics of a comparison, in the order in which they are shown.
pub fn metrics(comparison: &Comparison, mode: Mode) -> Vec<Metric> {
    let silence = &comparison.silence;
    let work_off = u128::from(comparison.work_off())
        + u128::from(comparison.beyond.share)
        + u128::from(comparison.unsure.kept + comparison.unsure.lost);
    let row =
        |name: String, unit, limit_percent: u64, timing: bool, known: bool, of: &dyn Fn(&Measured) -> Option<u64>| {
            let recorded = of(&comparison.recorded).filter(|_| known);
            let (checks, changes) = &comparison.runs;
            let pairs =
                checks.iter().zip(changes).filter_map(|(check, changed)| Some((of(check)?, Some(of(changed)?))));
            let mut runs: Vec<(u64, Option<u64>)> = pairs.collect();
            if runs.is_empty() {
                runs = checks.iter().filter_map(|check| Some((of(check)?, None))).collect();
            }
            let replayed = Mean::of(runs.iter().map(|run| run.0));
            let changed = Mean::of(runs.iter().filter_map(|run| run.1));
            let off = recorded.zip(replayed).map(|(one, mean)| mean.off(one));
            let verdict = match (recorded.zip(replayed), off) {
                _ if timing && mode == Mode::Open => Verdict::Unchanging,
                (Some(_), _) if comparison.goes_beyond() || (unit == "uJ" && comparison.does_other_work()) => {
                    Verdict::OtherWork
                }
                (Some((one, mean)), Some(off))
                    if off * 100 <= mean.nr * u128::from(one) * u128::from(limit_percent)
                        || (timing && unit == "ns" && off < mean.nr * u128::from(EQUAL_LATENCY_NS)) =>
                {
                    Verdict::Near
                }
                (Some(_), Some(_)) => Verdict::NotNear,
                _ => Verdict::Unknown,
            };
            let changed_by = changed.zip(replayed).map(|(one, other)| one.sum.abs_diff(other.sum));
            // As shares, too: of a replay that is far too high, a share that is less than its error.
            let exceeds = |changed_by: u128, off: u128| match recorded.zip(replayed) {
                Some((one, mean)) if one > 0 => changed_by * u128::from(one) * mean.nr >= off * mean.sum,
                _ => true,
            };
            // Energy of work that only one of the two did.
            let unlike_work = replayed.filter(|_| unit == "uJ").map_or(0, |mean| mean.sum) * work_off / 100_000;
            let change_counts = match verdict {
                Verdict::Unchanging | Verdict::OtherWork => changed.map(|_| false),
                _ => changed_by
                    .zip(off)
                    .map(|(changed_by, off)| changed_by > off + unlike_work && exceeds(changed_by, off)),
            };
            let if_lost = Mean::of(comparison.if_lost.iter().filter_map(of));
            let [replayed, changed, if_lost] = [replayed, changed, if_lost].map(|mean| mean.map(Mean::rounded));
            if mode == Mode::Open {
                runs.clear();
            }
            Metric { name, unit, recorded, replayed, changed, verdict, change_counts, runs, if_lost }
        };
    let energy_known = !comparison.energy_is_silent();
    let energy = |run: &Measured| u64::try_from(run.total_energy_fj() / 1_000_000_000).ok();
    let mut rows = vec![row("energy".into(), "uJ", TIMES_LIMIT_PERCENT, false, energy_known, &energy)];
    let ranks = ranks(&comparison.recorded);
    for (index, policy) in comparison.recorded.policies.iter().enumerate() {
        // In a closed loop it is chance which of equal CPUs tasks find idle first.
        let of = |run: &Measured| match mode {
            Mode::Open => index,
            Mode::Closed => place(run, ranks[index]),
        };
        let known = !silence.frequency.get(index).copied().unwrap_or(false);
        let name = |what: &str| format!("policy{} {what}", policy.cpus[0]);
        let (mean, busy) = (name("mean frequency"), name("busy"));
        let khz = |run: &Measured| Some(run.policies[of(run)].mean_khz());
        let busy_ns = |run: &Measured| Some(run.policies[of(run)].all_busy_ns());
        let changes = |run: &Measured| Some(run.policies[of(run)].changes);
        rows.push(row(mean, "kHz", TIMES_LIMIT_PERCENT, false, known, &khz));
        rows.push(row(busy, "ns", TIMES_LIMIT_PERCENT, true, true, &busy_ns));
        rows.push(row(name("changes"), "", COUNTS_LIMIT_PERCENT, false, known, &changes));
    }
    for percent in [50, 95, 99] {
        let latency = |run: &Measured| (!run.latencies_ns.is_empty()).then(|| run.latency_ns(percent));
        let name = format!("wake-up latency p{percent}");
        rows.push(row(name, "ns", COUNTS_LIMIT_PERCENT, true, !silence.wakeups, &latency));
    }
    if comparison.check.missed.1 > 0 {
        let missed = |run: &Measured| Some(run.missed.0);
        let known = comparison.recorded.missed.1 > 0;
        let mut found = row(MISSED.into(), "", COUNTS_LIMIT_PERCENT, true, known, &missed);
        if found.verdict == Verdict::Unknown {
            found.verdict = Verdict::NoTimers;
        }
        rows.push(found);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::silence::Silence;

    /// Goal: value, verdict and change are of one estimator. Method: two pairs of runs whose percentiles together are not the mean of theirs.
    #[test]
    fn values_and_verdicts_are_of_the_pairs_that_the_change_is_of() {
        let run = |latency_10us: u64, missed: u64| Measured {
            latencies_ns: vec![latency_10us * 10_000; 10],
            missed: (missed, 10),
            ..Measured::default()
        };
        let checks = vec![run(100, 1), run(300, 2)];
        let changes = vec![run(100, 2), run(500, 3)];
        let comparison = |changes: Vec<Measured>| Comparison {
            recorded: run(195, 1),
            check: Measured::mean(&checks),
            changed: (!changes.is_empty()).then(|| Measured::mean(&changes)),
            freq_distance: Vec::new(),
            freq_distance_busy: Vec::new(),
            energy_distance: 0,
            freq_spread: 0,
            energy_spread: 0,
            silence: Silence { frequency: Vec::new(), wakeups: false },
            work_share: None,
            beyond: crate::beyond::Beyond::default(),
            unsure: crate::wakeups::Unsure::default(),
            if_lost: Vec::new(),
            runs: (checks.clone(), changes),
            streams: None,
        };
        let of = |comparison: &Comparison, name: &str| {
            metrics(comparison, Mode::Closed)
                .into_iter()
                .find(|row| row.name == name)
                .unwrap_or_else(|| panic!("{name}"))
        };
        let both = comparison(changes);
        let latency = of(&both, "wake-up latency p99");
        assert_eq!(
            (latency.replayed, latency.changed, latency.verdict),
            (Some(2_000_000), Some(3_000_000), Verdict::Near)
        );
        assert_eq!(latency.change_counts, Some(true));
        let missed = of(&both, "missed activations");
        assert_eq!(missed.runs, [(1, Some(2)), (2, Some(3))]);
        assert_eq!(missed.verdict, Verdict::NotNear, "1.5 is not 1");
        assert_eq!(Whole::of(&both).latency_p95, Some(2_564), "5 of 195");
        // Of ns nothing is near or far.
        let tiny = |latency_ns: u64| Measured { latencies_ns: vec![latency_ns; 10], ..Measured::default() };
        let moment = Comparison { recorded: tiny(2), runs: (vec![tiny(0)], Vec::new()), ..comparison(Vec::new()) };
        assert_eq!(of(&moment, "wake-up latency p99").verdict, Verdict::Near);
        assert_eq!(Whole::of(&moment).latency_p95, Some(0));
        let checked = of(&comparison(Vec::new()), "wake-up latency p99");
        assert_eq!((checked.replayed, checked.changed, checked.runs.len()), (Some(2_000_000), None, 2));
        // Off by 125 of 195, 64 %: a change of 126 of 320, 39 %, is within that.
        let high = Comparison { runs: (vec![run(320, 1)], vec![run(194, 1)]), ..both };
        assert_eq!(of(&high, "wake-up latency p99").change_counts, Some(false));
    }
}
