//! A comparison metric by metric, and how far each may be believed.
//!
//! A value that the trace does not record is none, with the reason. An open loop keeps the trace's timings, so that times and latencies
//! cannot change in it. A change that is no greater than the error of the replay is not significant.

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
    /// It is as recorded in this loop, whatever the policy.
    Unchanging,
    /// The trace does not record it.
    Unknown,
}

impl Verdict {
    /// The verdict as people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::NotNear => "not near",
            Self::Unchanging => "cannot change in this loop",
            Self::Unknown => "not in the trace",
        }
    }
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
    /// Of the trace's own policy, replayed.
    pub replayed: Option<u64>,
    /// Of the wanted policy.
    pub changed: Option<u64>,
    /// How near trace and replay are.
    pub verdict: Verdict,
    /// Whether the change is greater than the error; `None` if either is not known.
    pub change_counts: Option<bool>,
    /// Of each pair of runs of a closed loop, replayed and changed; empty where there is one run, or nothing is changed.
    pub pairs: Vec<(u64, u64)>,
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

/// How far a replay of the trace's own policy is from the trace, CPUs together, in parts of 100 000; `None` where that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    /// Mean frequency of all policies.
    pub frequency: Option<u64>,
    /// Energy.
    pub energy: Option<u64>,
    /// Time that CPUs ran tasks.
    pub busy: Option<u64>,
    /// The latency that 95 % of the wake-ups do not exceed.
    pub latency_p95: Option<u64>,
}

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
            measured.policies.iter().flat_map(|policy| &policy.busy_ns).map(|&ns| u128::from(ns)).sum()
        };
        let late = |measured: &Measured| u128::from(measured.latency_ns(95));
        Self {
            frequency: off(sum(told(one)), sum(told(other))).filter(|_| comparison.is_checked()),
            energy: off(one.total_energy_fj(), other.total_energy_fj()).filter(|_| !comparison.energy_is_silent()),
            busy: off(busy(one), busy(other)),
            latency_p95: off(late(one), late(other)).filter(|_| !comparison.silence.wakeups),
        }
    }

    /// Whether all that is known is within [`WHOLE_LIMIT`], and the frequency is known.
    pub fn is_near(&self) -> bool {
        let all = [self.frequency, self.energy, self.busy, self.latency_p95];
        self.frequency.is_some() && all.into_iter().flatten().all(|off| off <= WHOLE_LIMIT)
    }
}

/// The metrics of a comparison, in the order in which they are shown.
pub fn metrics(comparison: &Comparison, mode: Mode) -> Vec<Metric> {
    let runs = [Some(&comparison.recorded), Some(&comparison.check), comparison.changed.as_ref()];
    let silence = &comparison.silence;
    let row = |name: String, unit, limit_percent, timing: bool, known: bool, of: &dyn Fn(&Measured) -> Option<u64>| {
        let [recorded, replayed, changed] = runs.map(|run| run.and_then(of));
        let recorded = recorded.filter(|_| known);
        let off = recorded.zip(replayed).map(|(one, other)| one.abs_diff(other));
        let verdict = match (recorded, off) {
            _ if timing && mode == Mode::Open => Verdict::Unchanging,
            (Some(one), Some(off)) if off * 100 <= one.saturating_mul(limit_percent) => Verdict::Near,
            (Some(_), Some(_)) => Verdict::NotNear,
            _ => Verdict::Unknown,
        };
        let changed_by = changed.zip(replayed).map(|(one, other)| one.abs_diff(other));
        let change_counts = match verdict {
            Verdict::Unchanging => changed.map(|_| false),
            _ => changed_by.zip(off).map(|(changed_by, off)| changed_by > off),
        };
        let (checks, changes) = &comparison.runs;
        let pairs = checks.iter().zip(changes).filter(|_| mode == Mode::Closed);
        let pairs = pairs.filter_map(|(check, changed)| of(check).zip(of(changed))).collect();
        Metric { name, unit, recorded, replayed, changed, verdict, change_counts, pairs }
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
        let busy_ns = |run: &Measured| Some(run.policies[of(run)].busy_ns.iter().sum());
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
        let name = "missed activations".into();
        rows.push(row(name, "", COUNTS_LIMIT_PERCENT, true, comparison.recorded.missed.1 > 0, &missed));
    }
    rows
}
