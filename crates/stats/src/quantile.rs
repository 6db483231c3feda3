//! Quantiles and tails of the normal and of Student's t distribution.
//!
//! Thin over `statrs`: what this adds is one Newton step where the library's inverse is not exact to 1e-9, and NaN instead
//! of an error for degrees of freedom that are not positive.

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

/// The standard normal quantile of `p`, in (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let normal = Normal::standard();
    let x = normal.inverse_cdf(p);
    polish(x, p, |x| normal.cdf(x), |x| normal.pdf(x))
}

/// The standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    if x.is_nan() { f64::NAN } else { Normal::standard().cdf(x) }
}

/// The quantile of `p` of Student's t with `df` degrees of freedom (not necessarily whole).
pub fn t_quantile(p: f64, df: f64) -> f64 {
    let Ok(t) = StudentsT::new(0.0, 1.0, df) else { return f64::NAN };
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    // The lower half by symmetry: the library's inverse is better away from 1.
    if p > 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let x = t.inverse_cdf(p);
    polish(x, p, |x| t.cdf(x), |x| t.pdf(x))
}

/// Probability that |t| with `df` degrees of freedom is at least `|t|`: the two-sided p-value.
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, df) {
        Ok(distribution) if !t.is_nan() => (2.0 * distribution.cdf(-t.abs())).min(1.0),
        _ => f64::NAN,
    }
}

/// Newton steps from a good first guess.
fn polish(mut x: f64, p: f64, cdf: impl Fn(f64) -> f64, pdf: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..3 {
        let step = (cdf(x) - p) / pdf(x);
        if !step.is_finite() || !x.is_finite() {
            return x;
        }
        x -= step;
    }
    x
}
