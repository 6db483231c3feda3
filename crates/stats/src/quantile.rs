//! Quantiles and tails of the normal and of Student's t distribution; the quantile of integers that is one of them.
//!
//! The former are on `libm`'s erfc and lgamma, so that they are the same on every platform: tails by the incomplete beta function's
//! continued fraction, quantiles by Newton steps between bounds. Good to 1e-10; NaN where the distribution has no value.

use std::f64::consts::{PI, SQRT_2};

/// Degrees of freedom from which Student's t is taken as a corrected normal.
const MANY: f64 = 1e6;

/// The number of ascending ones that so many percent do not exceed (nearest rank).
pub fn nearest_rank(ascending: &[u64], percent: usize) -> Option<u64> {
    let last = ascending.len().checked_sub(1)?;
    Some(ascending[(ascending.len() * percent).div_ceil(100).saturating_sub(1).min(last)])
}

/// The standard normal quantile of `p`, in (0, 1).
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    lower_quantile(p, normal_cdf, density)
}

/// The standard normal distribution function.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// The quantile of `p` of Student's t with `df` degrees of freedom (not necessarily whole).
pub fn t_quantile(p: f64, df: f64) -> f64 {
    // NaN is not positive either.
    if !(0.0..=1.0).contains(&p) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df == f64::INFINITY {
        return normal_quantile(p);
    }
    if p > 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let scale = (ln_gamma_half_step(df / 2.0) - 0.5 * (df * PI).ln()).exp();
    let density = |x: f64| scale * (-0.5 * (df + 1.0) * (x * x / df).ln_1p()).exp();
    lower_quantile(p, |x| t_lower_tail(x, df), density)
}

/// Probability that |t| with `df` degrees of freedom is at least `|t|`: the two-sided p-value.
pub fn t_two_sided(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df == f64::INFINITY {
        return (2.0 * normal_cdf(-t.abs())).min(1.0);
    }
    (2.0 * t_lower_tail(-t.abs(), df)).min(1.0)
}

/// ln Gamma(a + 1/2) - ln Gamma(a), without the loss of digits of a difference where `a` is large.
pub(crate) fn ln_gamma_half_step(a: f64) -> f64 {
    if a < 200.0 {
        return libm::lgamma(a + 0.5) - libm::lgamma(a);
    }
    // Stirling's series; the next term is 17 / (14336 a^7).
    let inverse = 1.0 / a;
    let square = inverse * inverse;
    0.5 * a.ln() - inverse * (0.125 - square * (1.0 / 192.0 - square / 640.0))
}

/// P(T <= t) for t <= 0.
fn t_lower_tail(t: f64, df: f64) -> f64 {
    if t == f64::NEG_INFINITY {
        return 0.0;
    }
    let square = t * t;
    if df >= MANY {
        // Abramowitz and Stegun 26.7.8: the next term is of the order of t^5 / df^2.
        return normal_cdf(t * (1.0 - 0.25 / df) / (1.0 + 0.5 * square / df).sqrt());
    }
    // Both from the sum, so that neither loses digits near 1.
    let (x, rest) = (df / (df + square), square / (df + square));
    0.5 * regularised_beta_half(df / 2.0, x, rest)
}

/// The regularised incomplete beta function I_x(a, 1/2), with `rest` = 1 - x.
fn regularised_beta_half(a: f64, x: f64, rest: f64) -> f64 {
    if rest <= 0.0 {
        return 1.0;
    }
    if x <= 0.0 {
        return 0.0;
    }
    // x^a (1-x)^(1/2) / B(a, 1/2), B(a, 1/2) = Gamma(a) sqrt(pi) / Gamma(a + 1/2).
    let ln_x = if rest < 0.5 { (-rest).ln_1p() } else { x.ln() };
    let front = (a * ln_x + 0.5 * rest.ln() + ln_gamma_half_step(a) - 0.5 * PI.ln()).exp();
    if x < (a + 1.0) / (a + 2.5) {
        front * beta_fraction(a, 0.5, x) / a
    } else {
        1.0 - front * beta_fraction(0.5, a, rest) / 0.5
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for step in 1..100_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut last = 1.0;
        for number in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + number * d);
            c = away_from_zero(1.0 + number / c);
            last = c * d;
            value *= last;
        }
        // One rounding of the factor is as near to 1 as it gets.
        if (last - 1.0).abs() <= 2.0 * f64::EPSILON {
            break;
        }
    }
    value
}

/// The x <= 0 with `cdf(x)` = `p` <= 1/2 of a distribution that is symmetric about 0.
fn lower_quantile(p: f64, cdf: impl Fn(f64) -> f64, density: impl Fn(f64) -> f64) -> f64 {
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p == 0.5 {
        return 0.0;
    }
    let (mut low, mut high) = (-1.0, 0.0);
    while cdf(low) > p {
        high = low;
        low *= 2.0;
        if low == f64::NEG_INFINITY {
            return low;
        }
    }
    let mut x = 0.5 * (low + high);
    for _ in 0..1100 {
        let error = cdf(x) - p;
        if error > 0.0 {
            high = x;
        } else {
            low = x;
        }
        let newton = x - error / density(x);
        // Nearer than the rounding of the tail lets it come, it would never settle.
        if error == 0.0 || (newton - x).abs() <= 1e-13 * x.abs() {
            return newton;
        }
        // Newton's step, or the middle where it leaves the bounds.
        x = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs().max(1e-300), "{got:e} is not {expected:e}");
    }

    #[test]
    fn percentiles_are_numbers_of_the_list() {
        let ranks = [50, 95, 99].map(|percent| nearest_rank(&[1, 2, 3, 4], percent));
        assert_eq!((ranks, nearest_rank(&[], 50)), ([Some(2), Some(4), Some(4)], None));
    }

    #[test]
    fn closed_forms() {
        for p in [1e-9, 0.001, 0.025, 0.3, 0.4999, 0.7, 0.975] {
            // Cauchy, and two degrees of freedom.
            near(t_quantile(p, 1.0), -1.0 / (PI * p).tan());
            near(t_quantile(p, 2.0), (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt());
        }
        near(t_two_sided(1.0, 1.0), 0.5);
        near(t_two_sided(-(2.0_f64).sqrt(), 2.0), 1.0 - (0.5_f64).sqrt());
    }

    #[test]
    fn quantile_and_tail_are_inverse() {
        for df in [0.3, 1.5, 4.0, 17.2, 399.0, 401.0, 1e5, 1e9] {
            for p in [1e-12, 1e-3, 0.05, 0.49] {
                near(0.5 * t_two_sided(t_quantile(p, df), df), p);
            }
        }
        for p in [1e-300, 1e-12, 0.025, 0.49] {
            near(normal_cdf(normal_quantile(p)), p);
        }
    }

    #[test]
    fn many_degrees_of_freedom_are_normal() {
        assert!((t_quantile(0.975, 1e12) - normal_quantile(0.975)).abs() < 1e-11);
        // The first terms of the quantile's expansion, and both sides of the change.
        let z = normal_quantile(0.975);
        for df in [0.999e6, 1.001e6] {
            let expected =
                z + (z.powi(3) + z) / (4.0 * df) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * df * df);
            assert!((t_quantile(0.975, df) - expected).abs() < 1e-10);
        }
        near(t_quantile(0.975, f64::INFINITY), normal_quantile(0.975));
        // The series meets the difference where they change over.
        let (below, above) = (ln_gamma_half_step(200.0 - 1e-9), ln_gamma_half_step(200.0));
        assert!((below - above).abs() < 1e-11);
    }

    #[test]
    fn no_value() {
        for value in [
            normal_quantile(-0.1),
            normal_quantile(f64::NAN),
            normal_cdf(f64::NAN),
            t_quantile(1.1, 3.0),
            t_quantile(0.5, 0.0),
            t_quantile(0.5, f64::NAN),
            t_two_sided(f64::NAN, 3.0),
            t_two_sided(1.0, -1.0),
        ] {
            assert!(value.is_nan());
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(t_quantile(1.0, 5.0), f64::INFINITY);
        assert_eq!(t_two_sided(f64::INFINITY, 5.0), 0.0);
    }
}
