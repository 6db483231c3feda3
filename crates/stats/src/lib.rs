//! Statistics of benchmark results.
//!
//! Student-t intervals of the mean ([`interval`]), Welch's and the paired t-test, BCa bootstrap intervals of the mean and of
//! the ratio ([`bootstrap`]), Holm's correction over a table and Hedges' g ([`test`](mod@test)). What mmtests computes, quirks
//! included, is in `python/opplab/mmtests/statistics.py`, but for what it draws ([`bootstrap::submean`]).
//!
//! Rates (MB/s, transactions/s) are averaged harmonically: the intervals then work on the reciprocals, which are
//! times, where an arithmetic mean, a variance and a t interval are valid, and turns the ends back.
//!
//! What the crate does not do: read or print anything, keep state, or draw randomness that the caller did not seed. The
//! same seed and stream give the same numbers on every machine.

pub mod bootstrap;
pub mod interval;
pub mod mean;
pub mod quantile;
pub mod test;

/// A confidence interval. `low <= high` unless an end is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of an unknown value.
    pub const UNKNOWN: Self = Self { low: f64::NAN, high: f64::NAN };

    /// Whether `value` lies inside or on an end; false when an end is NaN.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Which mean a metric is summarised by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mean {
    /// For quantities that add up: seconds, joules, milliseconds of latency.
    Arithmetic,
    /// For rates: MB/s, transactions/s.
    Harmonic,
}

/// Units of shares.
const SHARES: [&str; 2] = ["%", "percent"];

/// Units of counts, times and energies: more of them may be better, and yet they are no rates.
const AMOUNTS: [&str; 16] =
    ["1", "s", "sec", "seconds", "ms", "msec", "us", "usec", "ns", "nsec", "J", "mJ", "uJ", "kJ", "Wh", "mWh"];

impl Mean {
    /// The mean of a metric in `unit`: more of a rate is better, and it is neither a share nor an amount.
    pub fn of_metric(higher_is_better: bool, unit: &str) -> Self {
        let is_rate = higher_is_better && !SHARES.contains(&unit) && !AMOUNTS.contains(&unit);
        if is_rate { Self::Harmonic } else { Self::Arithmetic }
    }

    /// The mean of `values`; NaN for none, and for a harmonic mean of values that are not all positive.
    pub fn of(self, values: &[f64]) -> f64 {
        match self {
            Self::Arithmetic => mean::amean(values),
            Self::Harmonic => mean::hmean(values),
        }
    }
}
