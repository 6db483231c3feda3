//! What a comparison counts.

use std::collections::BTreeMap;

use super::input::Recording;
use super::signals::SignalError;

/// The count of one kind of decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KindCount {
    /// Results that are equal in every compared field.
    pub exact: u64,
    /// Results that were compared.
    pub total: u64,
    /// Those that differ, by cause.
    pub misses: BTreeMap<String, u64>,
    /// Records that were not compared, by the input that is missing.
    pub without_input: BTreeMap<String, u64>,
    /// The first difference without a known cause, in words.
    pub first: Option<String>,
    /// Rebuilt signals that leave their stated bound without a known cause.
    pub unexplained: u64,
    /// More in words.
    pub note: Option<String>,
}

/// The kinds whose results follow from recorded integers alone: a single difference is an error.
pub const BIT_EXACT: &[&str] = &[
    "clock_pelt",
    "clock_pelt_idle",
    "compute_energy",
    "effective_perf",
    "freq_scale_ref",
    "next_freq",
    "pd_max_util",
    "pelt_blocked_se",
    "pelt_cfs",
    "pelt_hw",
    "pelt_se",
    "raw_freq",
    "util_est_se",
];

/// The cause of a difference that nothing explains.
pub(super) const UNEXPLAINED: &str = "unexplained";

impl KindCount {
    /// The part that is equal, in parts of a hundred thousand (100 000: all).
    pub fn share_per_100k(&self) -> u64 {
        (self.exact * 100_000).checked_div(self.total).unwrap_or(100_000)
    }

    /// Causes of misses and missing inputs in words.
    pub fn remark(&self) -> String {
        let list = |causes: &BTreeMap<String, u64>| {
            causes.iter().map(|(cause, count)| format!("{count} {cause}")).collect::<Vec<_>>().join(", ")
        };
        let mut parts: Vec<String> = self.note.iter().cloned().collect();
        if !self.misses.is_empty() {
            parts.push(format!("differ: {}", list(&self.misses)));
        }
        if !self.without_input.is_empty() {
            parts.push(format!("not compared: {}", list(&self.without_input)));
        }
        parts.join("; ")
    }
}

/// All counts of one recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingReport {
    /// The recording's name.
    pub recording: String,
    /// The kernel's release.
    pub release: String,
    /// Gaps where the kernel lost events.
    pub lost: u64,
    /// What of the trace is damaged; the counts are of the rest.
    pub damage: Vec<String>,
    /// The counts by kind, in alphabetical order.
    pub kinds: BTreeMap<&'static str, KindCount>,
}

impl RecordingReport {
    pub(super) fn new(recording: &Recording) -> Self {
        let Recording { name, machine, events, .. } = recording;
        let (recording, release) = (name.clone(), machine.release.clone());
        Self { recording, release, lost: events.lost, damage: events.damage.clone(), kinds: BTreeMap::new() }
    }

    pub(super) fn exact(&mut self, kind: &'static str) {
        let count = self.kinds.entry(kind).or_default();
        count.exact += 1;
        count.total += 1;
    }

    pub(super) fn miss(&mut self, kind: &'static str, cause: &str, words: impl FnOnce() -> String) {
        let count = self.kinds.entry(kind).or_default();
        count.total += 1;
        *count.misses.entry(cause.to_owned()).or_default() += 1;
        if count.first.is_none() && cause == UNEXPLAINED {
            count.first = Some(words());
        }
    }

    pub(super) fn without_input(&mut self, kind: &'static str, reason: &str) {
        *self.kinds.entry(kind).or_default().without_input.entry(reason.to_owned()).or_default() += 1;
    }

    /// Counts a comparison; `Err` holds the difference and its cause.
    pub(super) fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        kind: &'static str,
        time_ns: u64,
        expected: T,
        got: T,
        cause: &str,
    ) {
        if expected == got {
            self.exact(kind);
        } else {
            self.miss(kind, cause, || format!("at {time_ns} ns: recorded {expected:?}, computed {got:?}"));
        }
    }

    /// Adds the errors of a rebuilt signal: as many samples as lie within `limit` count as exact.
    pub(super) fn signal(&mut self, kind: &'static str, error: &SignalError, limit: u64) {
        let total = error.differences.len() as u64;
        let exact = error.differences.partition_point(|&difference| difference <= limit) as u64;
        let at = |percent| error.percentile(percent).unwrap_or(0);
        let note = format!(
            "within {limit} of 1024; p50 {} p99 {} max {}; {} not compared: may be wrong by more than that; {} outside of their bound{}{}",
            at(50),
            at(99),
            at(100),
            error.unknown,
            error.beyond,
            if error.stopped > 0 {
                format!(", {} of them by stops of a CPU that its clocks show", error.stopped)
            } else {
                String::new()
            },
            if error.grouped > 0 {
                format!("; {} not proven: the recording has control groups, which are not followed", error.grouped)
            } else {
                String::new()
            }
        );
        let unexplained = error.unexplained();
        self.kinds.insert(kind, KindCount { exact, total, note: Some(note), unexplained, ..KindCount::default() });
    }

    /// The kinds of [`BIT_EXACT`] that differ somewhere.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &KindCount)> {
        self.rows().filter(|(kind, count)| BIT_EXACT.contains(kind) && count.exact != count.total)
    }

    /// What is wrong, in words: numbers that ought to be equal bit by bit, signals outside of the bound that is stated of them.
    pub fn wrong(&self) -> Vec<String> {
        let differ = self.failures().map(|(kind, _)| format!("{kind} differs"));
        let outside = self.rows().filter(|(_, count)| count.unexplained > 0);
        let outside =
            outside.map(|(kind, count)| format!("{kind}: {} outside of their stated bound", count.unexplained));
        differ.chain(outside).collect()
    }

    /// The rows `recording kind exact total share remark`.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &KindCount)> {
        self.kinds.iter().map(|(kind, count)| (*kind, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(error: &SignalError) -> RecordingReport {
        let mut report = RecordingReport::default();
        report.signal("signal_tasks", error, 8);
        report
    }

    #[test]
    fn signals_outside_of_their_bound_are_wrong_unless_a_stop_explains_them() {
        let error = SignalError { differences: vec![0, 1, 30], beyond: 5, stopped: 3, ..SignalError::default() };
        assert_eq!(report(&error).wrong(), ["signal_tasks: 2 outside of their stated bound"]);
        let explained = SignalError { stopped: 5, ..error };
        assert_eq!(report(&explained).wrong(), Vec::<String>::new());
        let remark = report(&explained).kinds["signal_tasks"].remark();
        assert!(remark.contains("5 outside of their bound, 5 of them by stops of a CPU"), "{remark}");
    }

    #[test]
    fn signals_of_control_groups_are_not_proven() {
        let report = report(&SignalError { grouped: 7, ..SignalError::default() });
        assert_eq!(report.wrong(), Vec::<String>::new());
        let remark = report.kinds["signal_tasks"].remark();
        assert!(remark.ends_with("7 not proven: the recording has control groups, which are not followed"), "{remark}");
    }
}
