//! What a benchmark reports: one number of a run, computed from what the engine counted.
//!
//! The engine counts ([`crate::workload::Op::Count`], the time, when the benchmark's own tasks had ended); the number is
//! computed here, after the run. Energy and power are not metrics of a benchmark: every run has them.

use crate::error::Fault;
use crate::op::Args;
use crate::tree::Node;

/// What counts of units are shifted by that have parts of them.
pub const UNIT_SHIFT: u32 = 20;

/// A count of units that is shifted.
pub fn units(units_fp: u128) -> f64 {
    units_fp as f64 / f64::from(1u32 << UNIT_SHIFT)
}

/// A number that a benchmark reports of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name, e.g. `throughput`.
    pub name: String,
    /// Its unit, e.g. `MB/s`.
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// How it is computed.
    pub rule: MetricRule,
    /// Factor, as numerator and denominator.
    pub scale: (u64, u64),
    /// Counts whose times the rule needs, in ascending order.
    pub marks: Vec<u64>,
}

/// How a metric is computed, before [`Metric::scale`] is applied. Times are s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricRule {
    /// Counts a second.
    Rate,
    /// Time until the benchmark's own tasks had ended.
    Elapsed,
    /// Time for a count.
    Period,
    /// Time of a whole of which a part runs: from the first of three marks until the benchmark's own tasks had ended, and the
    /// time between the other two [`Metric::scale`] times, for what does not run.
    Extrapolated,
}

impl MetricRule {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rate, Self::Elapsed, Self::Period, Self::Extrapolated];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Elapsed => "elapsed",
            Self::Period => "period",
            Self::Extrapolated => "extrapolated",
        }
    }

    /// Whether it measures from the start of the run to its end, so that there is no warm-up.
    pub fn is_of_a_whole(self) -> bool {
        matches!(self, Self::Elapsed | Self::Extrapolated)
    }

    /// How many marks it needs.
    fn nr_marks(self) -> usize {
        if self == Self::Extrapolated { 3 } else { 0 }
    }
}

impl Metric {
    /// The metric of a run of `wall_ns` after the warm-up in which `units` (parts of them, too) were done and the
    /// benchmark's own tasks had ended after `finished_ns`, with the marks at `marks_ns`; `None` if the run was too
    /// short for it.
    pub fn value(&self, units: f64, wall_ns: u64, finished_ns: Option<u64>, marks_ns: &[u64]) -> Option<f64> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let factor = self.scale.0 as f64 / self.scale.1 as f64;
        let value = match self.rule {
            MetricRule::Extrapolated => {
                let &[start, from, to] = marks_ns else { return None };
                return Some(seconds(finished_ns? - start) + seconds(to - from) * factor);
            }
            MetricRule::Rate if wall_ns > 0 => units / seconds(wall_ns),
            MetricRule::Elapsed => seconds(finished_ns?),
            MetricRule::Period if units > 0.0 => seconds(wall_ns) / units,
            MetricRule::Rate | MetricRule::Period => return None,
        };
        Some(value * factor)
    }

    /// The list that stands for it in a case.
    pub(crate) fn node(&self) -> Node {
        let better = if self.higher_is_better { "higher" } else { "lower" };
        let (num, den) = self.scale;
        let fixed = [
            Node::str(&self.name),
            Node::str(&self.unit),
            Node::str(better),
            Node::str(self.rule.name()),
            Node::from(num),
            Node::from(den),
        ];
        Node::list(fixed.into_iter().chain(self.marks.iter().map(|&mark| Node::from(mark))))
    }

    /// The metric that a list stands for.
    pub(crate) fn from_node(node: &Node) -> Result<Self, Fault> {
        let mut args = Args::new(node, "metric")?;
        let number_max = 1 << 60;
        let mut metric = Self {
            name: args.word.to_owned(),
            unit: args.next()?.as_str("metric")?.to_owned(),
            higher_is_better: {
                let node = args.next()?;
                match node.as_str("metric")? {
                    "higher" => true,
                    "lower" => false,
                    other => return Err(Fault::unknown(node.at, "direction", other, ["higher", "lower"])),
                }
            },
            rule: {
                let node = args.next()?;
                let word = node.as_str("metric")?;
                let known = MetricRule::ALL.iter().find(|rule| rule.name() == word);
                *known.ok_or_else(|| {
                    Fault::unknown(node.at, "rule", word, MetricRule::ALL.iter().map(|rule| rule.name()))
                })?
            },
            scale: (args.int(number_max)?, args.int(number_max)?),
            marks: Vec::new(),
        };
        while !args.rest.is_empty() {
            metric.marks.push(args.int(number_max)?);
        }
        args.end()?;
        Ok(metric)
    }

    /// Refuses what can not be computed.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub(crate) fn check(&self, nr_main: u32, warmup_ns: u64) -> Result<(), String> {
        if self.scale.1 == 0 {
            return Err(format!("the factor of {} is divided by 0", self.name));
        }
        if self.rule.is_of_a_whole() && nr_main == 0 {
            return Err(format!("{} is a time until tasks end, but no task is the benchmark's own", self.name));
        }
        if self.rule.is_of_a_whole() && warmup_ns > 0 {
            return Err(format!("{} is a time from the start of the run: it can not have a warm-up", self.name));
        }
        let ascending = self.marks.is_sorted_by(|a, b| a < b);
        if self.marks.len() != self.rule.nr_marks() || !ascending || self.marks.first() == Some(&0) {
            return Err(format!("{}: {} marks in ascending order are needed", self.name, self.rule.nr_marks()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: MetricRule, scale: (u64, u64), finished_ns: Option<u64>, expected: Option<f64>) {
        let metric = Metric { name: "m".into(), unit: "1".into(), higher_is_better: true, rule, scale, marks: vec![] };
        assert_eq!(metric.value(50.0, 2_000_000_000, finished_ns, &[]), expected, "{rule:?} {scale:?}");
    }

    #[test]
    fn values_follow_from_counts_and_times() {
        check(MetricRule::Rate, (1, 1), None, Some(25.0));
        check(MetricRule::Rate, (3, 2), None, Some(37.5));
        check(MetricRule::Period, (1000, 1), None, Some(40.0));
        check(MetricRule::Elapsed, (10, 1), Some(1_500_000_000), Some(15.0));
        check(MetricRule::Elapsed, (10, 1), None, None);
    }

    #[test]
    fn nothing_counted_gives_no_time_for_a_count() {
        let metric = Metric {
            name: "m".into(),
            unit: "s".into(),
            higher_is_better: false,
            rule: MetricRule::Period,
            scale: (1, 1),
            marks: vec![],
        };
        assert_eq!(metric.value(0.0, 1, None, &[]), None);
        assert_eq!(metric.check(0, 0), Ok(()));
        let elapsed = Metric { rule: MetricRule::Elapsed, ..metric };
        assert!(elapsed.check(0, 0).is_err());
        assert!(elapsed.check(1, 5).is_err());
        assert_eq!(elapsed.check(1, 0), Ok(()));
    }

    #[test]
    fn what_does_not_run_takes_the_pace_between_two_marks() {
        let metric = Metric {
            name: "m".into(),
            unit: "s".into(),
            higher_is_better: false,
            rule: MetricRule::Extrapolated,
            scale: (900, 50),
            marks: vec![1, 51, 101],
        };
        let of = |finished_ns, marks_ns: &[u64]| metric.value(101.0, 9, finished_ns, marks_ns);
        // 0.5 s run, and 18 times 0.1 s.
        let marks_ns = [1_000_000_000, 1_300_000_000, 1_400_000_000];
        assert!((of(Some(1_500_000_000), &marks_ns).expect("it has run") - 2.3).abs() < 1e-9);
        assert_eq!(of(None, &marks_ns), None);
        assert_eq!(of(Some(1_500_000_000), &marks_ns[..2]), None);
        assert_eq!(metric.check(1, 0), Ok(()));
        assert!(metric.check(0, 0).is_err());
        assert!(metric.check(1, 5).is_err());
        for marks in [vec![], vec![1, 2], vec![1, 3, 2], vec![0, 1, 2]] {
            assert!(Metric { marks, ..metric.clone() }.check(1, 0).is_err());
        }
        assert!(Metric { rule: MetricRule::Rate, ..metric }.check(1, 0).is_err());
    }
}
