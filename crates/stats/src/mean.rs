//! Means, variance and quantiles of a sample.
//!
//! Sums are compensated (Neumaier), so that the order of the values does not matter to the last printed digit.

/// The sum, compensated for the rounding of each step.
pub fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut total = 0.0_f64;
    let mut lost = 0.0_f64;
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
        total = next;
    }
    // An overflow makes the compensation meaningless (inf - inf).
    if total.is_finite() { total + lost } else { total }
}

/// Arithmetic mean; NaN for no values.
pub fn amean(values: &[f64]) -> f64 {
    sum(values.iter().copied()) / values.len() as f64
}

/// Harmonic mean; NaN for no values or when one is not positive.
pub fn hmean(values: &[f64]) -> f64 {
    if values.is_empty() || values.iter().any(|&value| value.is_nan() || value <= 0.0) {
        return f64::NAN;
    }
    values.len() as f64 / sum(values.iter().map(|value| 1.0 / value))
}

/// Variance about the mean with divisor n - 1; NaN for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let mean = amean(values);
    sum(values.iter().map(|value| (value - mean) * (value - mean))) / (values.len() - 1) as f64
}

/// Standard deviation, the root of [`variance`].
pub fn stddev(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

/// The reciprocals: rates as times. NaN where a rate is not positive.
pub fn reciprocals(values: &[f64]) -> Vec<f64> {
    values.iter().map(|&value| if value > 0.0 { 1.0 / value } else { f64::NAN }).collect()
}

/// The `p` quantile (0 to 1) of sorted values, interpolated linearly between the two nearest order statistics (R's type 7,
/// numpy's default); NaN for no values.
pub fn quantile_sorted(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    if p.is_nan() {
        return f64::NAN;
    }
    let place = p.clamp(0.0, 1.0) * last as f64;
    let below = (place.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The median; NaN for no values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => values[n / 2],
        _ => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
