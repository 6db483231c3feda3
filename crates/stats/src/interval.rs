//! Student-t confidence intervals of a mean.

use crate::quantile::t_quantile;
use crate::{Interval, Mean, mean};

/// Student-t interval of the mean of `values` at `confidence` (e.g. 0.95); unknown for fewer than two values.
///
/// For [`Mean::Harmonic`] the interval of the mean reciprocal, turned back: it is not symmetric about the harmonic mean, and
/// its upper end is infinite when the reciprocal's lower end is not positive.
pub fn t_interval(values: &[f64], mean: Mean, confidence: f64) -> Interval {
    match mean {
        Mean::Arithmetic => arithmetic(values, confidence),
        Mean::Harmonic => {
            let inverse = arithmetic(&mean::reciprocals(values), confidence);
            if inverse.low.is_nan() {
                return Interval::UNKNOWN;
            }
            let high = if inverse.low > 0.0 { 1.0 / inverse.low } else { f64::INFINITY };
            Interval { low: 1.0 / inverse.high, high }
        }
    }
}

fn arithmetic(values: &[f64], confidence: f64) -> Interval {
    let n = values.len();
    let spread = mean::stddev(values);
    if n < 2 || spread.is_nan() {
        return Interval::UNKNOWN;
    }
    let center = mean::amean(values);
    let half = t_quantile(f64::midpoint(1.0, confidence), (n - 1) as f64) * spread / (n as f64).sqrt();
    Interval { low: center - half, high: center + half }
}

/// Interval of the ratio of the means of pairs, mean(`new`) / mean(`base`), e.g. of runs with the same seed: Student's t on
/// the logarithm, with the spread of what each pair adds to it (the ratio estimator of W. Cochran, "Sampling Techniques",
/// 3rd ed. (1977), section 6.4). It holds the ratio, and 1 exactly where [`paired`](crate::test::paired) does not reject it.
/// Unknown for fewer than two pairs, for samples of different lengths, and where a mean is not positive.
pub fn paired_interval(base: &[f64], new: &[f64], mean: Mean, confidence: f64) -> Interval {
    let Some(LogRatio { center, error, df }) = LogRatio::of_pairs(base, new, mean) else { return Interval::UNKNOWN };
    let half = t_quantile(f64::midpoint(1.0, confidence), df) * error;
    Interval { low: (center - half).exp(), high: (center + half).exp() }
}

/// The logarithm of a ratio of two means, its standard error and degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogRatio {
    pub(crate) center: f64,
    pub(crate) error: f64,
    pub(crate) df: f64,
}

impl LogRatio {
    /// Of values of which those of equal index belong together; None where it is unknown.
    pub(crate) fn of_pairs(base: &[f64], new: &[f64], mean: Mean) -> Option<Self> {
        if mean == Mean::Harmonic {
            let times = Self::of_pairs(&mean::reciprocals(base), &mean::reciprocals(new), Mean::Arithmetic)?;
            return Some(Self { center: -times.center, ..times });
        }
        let n = base.len();
        let (mean_base, mean_new) = (mean::amean(base), mean::amean(new));
        if n < 2 || n != new.len() || !(mean_base > 0.0 && mean_new > 0.0) {
            return None;
        }
        let added: Vec<f64> = base.iter().zip(new).map(|(base, new)| new / mean_new - base / mean_base).collect();
        let spread = mean::stddev(&added);
        // What is left by rounding is no spread: pairs that all have one ratio.
        let spread = if spread > 1e-14 { spread } else { 0.0 };
        Some(Self { center: (mean_new / mean_base).ln(), error: spread / (n as f64).sqrt(), df: (n - 1) as f64 })
    }

    /// Of independent values; None where it is unknown.
    pub(crate) fn of_two(base: &[f64], new: &[f64], mean: Mean) -> Option<Self> {
        if mean == Mean::Harmonic {
            let times = Self::of_two(&mean::reciprocals(base), &mean::reciprocals(new), Mean::Arithmetic)?;
            return Some(Self { center: -times.center, ..times });
        }
        let (n, m) = (base.len() as f64, new.len() as f64);
        let (mean_base, mean_new) = (mean::amean(base), mean::amean(new));
        if base.len() < 2 || new.len() < 2 || !(mean_base > 0.0 && mean_new > 0.0) {
            return None;
        }
        // Relative variances of the two means.
        let u = mean::variance(base) / n / (mean_base * mean_base);
        let v = mean::variance(new) / m / (mean_new * mean_new);
        let df = if u + v > 0.0 { (u + v) * (u + v) / (u * u / (n - 1.0) + v * v / (m - 1.0)) } else { n + m - 2.0 };
        Some(Self { center: (mean_new / mean_base).ln(), error: (u + v).sqrt(), df })
    }
}

/// Interval of the ratio of two independent means, mean(`new`) / mean(`base`), by the delta method on the logarithm with
/// Welch's degrees of freedom. It holds 1 exactly where [`ratio`](crate::test::ratio) does not reject it. Unknown for fewer
/// than two values a side, and where a mean is not positive.
pub fn ratio_interval(base: &[f64], new: &[f64], mean: Mean, confidence: f64) -> Interval {
    let Some(LogRatio { center, error, df }) = LogRatio::of_two(base, new, mean) else { return Interval::UNKNOWN };
    let half = if error > 0.0 { t_quantile(f64::midpoint(1.0, confidence), df) * error } else { 0.0 };
    Interval { low: (center - half).exp(), high: (center + half).exp() }
}
