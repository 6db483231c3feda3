//! Tests of whether two means differ, Holm's correction for many of them, and the size of an effect.

use crate::interval::LogRatio;
use crate::quantile::{ln_gamma_half_step, t_two_sided};
use crate::{Mean, mean};

/// The result of a t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TTest {
    /// The statistic, positive when the second sample's mean is larger.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// Two-sided p-value.
    pub p: f64,
}

const UNKNOWN: TTest = TTest { t: f64::NAN, df: f64::NAN, p: f64::NAN };

/// Welch's t-test of equal means; unknown for fewer than two values a side. Rates are tested as times, and the sign of t is
/// still that of the rates' difference.
///
/// Two samples without any spread: p is 1 when their means are equal and 0 when not.
pub fn welch(base: &[f64], new: &[f64], mean: Mean) -> TTest {
    if mean == Mean::Harmonic {
        let TTest { t, df, p } = welch(&mean::reciprocals(base), &mean::reciprocals(new), Mean::Arithmetic);
        return TTest { t: -t, df, p };
    }
    if base.len() < 2 || new.len() < 2 {
        return UNKNOWN;
    }
    let (n, m) = (base.len() as f64, new.len() as f64);
    let (u, v) = (mean::variance(base) / n, mean::variance(new) / m);
    let difference = mean::amean(new) - mean::amean(base);
    if u + v == 0.0 {
        return without_spread(difference, n + m - 2.0);
    }
    let t = difference / (u + v).sqrt();
    let df = (u + v) * (u + v) / (u * u / (n - 1.0) + v * v / (m - 1.0));
    TTest { t, df, p: t_two_sided(t, df) }
}

/// The paired t-test of the ratio of the means, on its logarithm: whether it is 1. For runs that share their random numbers,
/// which makes far smaller differences visible than [`welch`] can. See
/// [`paired_interval`](crate::interval::paired_interval) for how, and for when it is unknown.
pub fn paired(base: &[f64], new: &[f64], mean: Mean) -> TTest {
    LogRatio::of_pairs(base, new, mean).map_or(UNKNOWN, of_log_ratio)
}

/// The t-test of the ratio of two independent means, on its logarithm: whether it is 1. See
/// [`ratio_interval`](crate::interval::ratio_interval).
pub fn ratio(base: &[f64], new: &[f64], mean: Mean) -> TTest {
    LogRatio::of_two(base, new, mean).map_or(UNKNOWN, of_log_ratio)
}

fn of_log_ratio(LogRatio { center, error, df }: LogRatio) -> TTest {
    if error == 0.0 {
        return without_spread(if center.abs() > 1e-14 { center } else { 0.0 }, df);
    }
    let t = center / error;
    TTest { t, df, p: t_two_sided(t, df) }
}

fn without_spread(difference: f64, df: f64) -> TTest {
    if difference == 0.0 {
        TTest { t: 0.0, df, p: 1.0 }
    } else {
        TTest { t: f64::INFINITY.copysign(difference), df, p: 0.0 }
    }
}

/// Holm's step-down correction: p-values adjusted for having looked at all of them, in the order given. NaN stays NaN and
/// does not count.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&index| !p_values[index].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let m = order.len();
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p_values[index] * (m - rank) as f64);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

/// Hedges' g: the difference of the means in pooled standard deviations, with the exact correction for small samples;
/// positive when the second sample's mean is larger. NaN for fewer than two values a side and without spread. Rates are
/// compared as times, the sign staying that of the rates.
pub fn hedges_g(base: &[f64], new: &[f64], mean: Mean) -> f64 {
    if mean == Mean::Harmonic {
        return -hedges_g(&mean::reciprocals(base), &mean::reciprocals(new), Mean::Arithmetic);
    }
    if base.len() < 2 || new.len() < 2 {
        return f64::NAN;
    }
    let (n, m) = ((base.len() - 1) as f64, (new.len() - 1) as f64);
    let df = n + m;
    let pooled = ((n * mean::variance(base) + m * mean::variance(new)) / df).sqrt();
    let d = (mean::amean(new) - mean::amean(base)) / pooled;
    let correction = (ln_gamma_half_step((df - 1.0) / 2.0) - (df / 2.0).sqrt().ln()).exp();
    if pooled > 0.0 { d * correction } else { f64::NAN }
}
