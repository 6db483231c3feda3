//! mmtests' statistics as coded in its `Stat.pm` (commit 638401e), quirks included.
//!
//! Values arrive best first: ascending when lower is better, descending when higher is. Sums are plain and in that order,
//! because tables are compared byte for byte. NaN stands for "unknown".

use crate::Mean;

/// The mean, plainly summed; NaN for no values, and for a harmonic mean of a value that is not positive.
pub fn mean(values: &[f64], mean: Mean) -> f64 {
    let n = values.len() as f64;
    match mean {
        Mean::Arithmetic => values.iter().fold(0.0, |sum, value| sum + value) / n,
        Mean::Harmonic if values.iter().all(|&value| value > 0.0) => {
            n / values.iter().fold(0.0, |sum, value| sum + 1.0 / value)
        }
        Mean::Harmonic => f64::NAN,
    }
}

/// Standard deviation about the mean; NaN for fewer than two values.
///
/// With the harmonic mean m it is the delta method's `sqrt(sum((1/x - 1/m)^2) * m^4 / n)`, whose divisor is n; with the
/// arithmetic mean the divisor is n - 1.
pub fn stddev(values: &[f64], kind: Mean) -> f64 {
    let center = mean(values, kind);
    let n = values.len() as f64;
    if center.is_nan() || values.len() < 2 {
        return f64::NAN;
    }
    match kind {
        Mean::Arithmetic => {
            (values.iter().fold(0.0, |sum, value| sum + (value - center) * (value - center)) / (n - 1.0)).sqrt()
        }
        Mean::Harmonic => {
            let inverse = 1.0 / center;
            let total = values.iter().fold(0.0, |sum, value| {
                let difference = 1.0 / value - inverse;
                sum + difference * difference
            });
            // Products, not powers: those round alike everywhere.
            let square = center * center;
            (total * (square * square) / n).sqrt()
        }
    }
}

/// Coefficient of variation in percent; 0 when it is unknown.
pub fn coeffvar(deviation: f64, mean: f64) -> f64 {
    if mean.is_nan() || mean == 0.0 {
        return 0.0;
    }
    let deviation = if deviation.is_nan() { 0.0 } else { deviation };
    deviation * 100.0 / mean
}

/// How many of `n` best-first values `percent` covers: truncated, at least one.
pub fn count_of(n: usize, percent: f64) -> usize {
    ((n as f64 * percent / 100.0) as usize).max(1)
}

/// The last of the best `percent`, without interpolation; NaN for no values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    values.get(count_of(values.len(), percent) - 1).copied().unwrap_or(f64::NAN)
}

/// The best `percent` of the values, of which BAmean and BHmean are means.
pub fn best(values: &[f64], percent: f64) -> &[f64] {
    &values[..count_of(values.len(), percent).min(values.len())]
}

/// Half the width of mmtests' interval of the mean: the normal quantile times the standard *deviation*, with the seven
/// significant digits that R prints. Not divided by the root of n.
pub fn mean_interval(deviation: f64) -> f64 {
    if !deviation.is_finite() {
        return f64::NAN;
    }
    let seven = format!("{:.6e}", 1.959963984540054 * rounded(deviation));
    seven.parse().expect("a formatted float is a float")
}

/// `value` with the 15 significant digits that Perl hands to R.
fn rounded(value: f64) -> f64 {
    format!("{value:.14e}").parse().expect("a formatted float is a float")
}

/// Change in percent, positive when `new` is larger.
pub fn pdiff(new: f64, base: f64) -> f64 {
    if new == base || new == 0.0 {
        0.0
    } else if base == 0.0 || base.is_nan() {
        100.0
    } else {
        new * 100.0 / base - 100.0
    }
}

/// Change in percent, positive when `new` is smaller.
pub fn pndiff(new: f64, base: f64) -> f64 {
    if new == base {
        0.0
    } else if new == 0.0 {
        100.0
    } else if base == 0.0 {
        -99.0
    } else {
        100.0 - new * 100.0 / base
    }
}

/// Difference in units of the two half intervals that face each other; beyond ±1 the intervals do not overlap.
pub fn cidiff(new: f64, new_interval: (f64, f64), base: f64, base_interval: (f64, f64)) -> f64 {
    let difference = new - base;
    let width = if new < base {
        new_interval.1 - new + base - base_interval.0
    } else {
        new - new_interval.0 + base_interval.1 - base
    };
    if width == 0.0 { difference } else { difference / width }
}
