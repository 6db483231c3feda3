//! Seeded bootstraps: BCa intervals of a mean and of a ratio of means, and mmtests' subselection.
//!
//! The bias-corrected and accelerated interval follows B. Efron, "Better bootstrap confidence intervals", JASA 82 (1987),
//! with the definitions that scipy.stats.bootstrap uses: ties count half in the bias correction, the acceleration comes from
//! the jackknife of all samples together, and the ends are interpolated quantiles of the resamples.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::mean::{self, quantile_sorted};
use crate::quantile::{normal_cdf, normal_quantile, t_quantile};
use crate::{Interval, Mean, interval};

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of resamples.
    pub resamples: usize,
    /// The user's seed.
    pub seed: u64,
    /// Which of the many bootstraps of a table this is; another stream has independent draws.
    pub stream: u64,
    /// Widen BCa intervals of small samples: the tail of the normal is replaced by that of `sqrt(n/(n-1))` times Student's t
    /// (T. Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69 (2015), section 4.1.2),
    /// n being the smaller sample. Without it, ten values of a skewed distribution are covered 87 times in 100 instead of 95.
    pub expand: bool,
}

impl Plan {
    /// The probability of each tail for samples of `n` values or more.
    fn tail(self, confidence: f64, n: usize) -> f64 {
        let tail = (1.0 - confidence) / 2.0;
        if !self.expand {
            return tail;
        }
        let n = n as f64;
        normal_cdf((n / (n - 1.0)).sqrt() * t_quantile(tail, n - 1.0))
    }

    /// Whether resamples of samples of these sizes reach so far out: the most extreme one must be rarer than the tail.
    /// Those of two or three values do not, so that their quantiles would be the smallest and the largest value.
    fn reaches(self, confidence: f64, sizes: &[usize]) -> bool {
        let rarest: f64 = sizes.iter().map(|&n| (n as f64).powf(-(n as f64))).product();
        sizes.iter().min().is_some_and(|&n| rarest < self.tail(confidence, n))
    }

    fn generator(self) -> Pcg64 {
        Pcg64::new(u128::from(self.seed), u128::from(self.stream))
    }
}

/// An index below `n`, which is not 0.
fn draw(generator: &mut Pcg64, n: usize) -> usize {
    // Multiply and shift: the bias is below n / 2^64.
    ((u128::from(generator.next_u64()) * n as u128) >> 64) as usize
}

/// The mean of a resample, plainly summed: the spread of the resamples dwarfs the rounding.
fn resampled_mean(values: &[f64], generator: &mut Pcg64) -> f64 {
    let n = values.len();
    let mut total = 0.0;
    for _ in 0..n {
        total += values[draw(generator, n)];
    }
    total / n as f64
}

/// BCa interval of the mean; unknown for fewer than two values. Student's t for so few that no resample reaches the ends.
pub fn bca_mean(values: &[f64], mean: Mean, confidence: f64, plan: Plan) -> Interval {
    if values.len() >= 2 && !plan.reaches(confidence, &[values.len()]) {
        return interval::t_interval(values, mean, confidence);
    }
    let (values, inverted) = as_times(values, mean);
    if values.len() < 2 || values.iter().any(|value| value.is_nan()) {
        return Interval::UNKNOWN;
    }
    let mut generator = plan.generator();
    let estimates = (0..plan.resamples).map(|_| resampled_mean(&values, &mut generator)).collect();
    let center = mean::amean(&values);
    let acceleration = acceleration(&[jackknife(&values, |mean| mean)]);
    turned_back(bca(estimates, center, acceleration, plan.tail(confidence, values.len())), inverted)
}

/// BCa interval of mean(`new`) / mean(`base`) of two independent samples; unknown for fewer than two values a side or a mean
/// that is not positive. The delta method's for so few values that no resample reaches the ends.
pub fn bca_ratio(base: &[f64], new: &[f64], mean: Mean, confidence: f64, plan: Plan) -> Interval {
    if base.len().min(new.len()) >= 2 && !plan.reaches(confidence, &[base.len(), new.len()]) {
        return interval::ratio_interval(base, new, mean, confidence);
    }
    let (base, inverted) = as_times(base, mean);
    let (new, _) = as_times(new, mean);
    let (mean_base, mean_new) = (mean::amean(&base), mean::amean(&new));
    if base.len() < 2 || new.len() < 2 || !(mean_base > 0.0 && mean_new > 0.0) {
        return Interval::UNKNOWN;
    }
    let mut generator = plan.generator();
    let estimates = (0..plan.resamples)
        .map(|_| {
            let new = resampled_mean(&new, &mut generator);
            new / resampled_mean(&base, &mut generator)
        })
        .collect();
    let acceleration =
        acceleration(&[jackknife(&base, |mean| mean_new / mean), jackknife(&new, |mean| mean / mean_base)]);
    let tail = plan.tail(confidence, base.len().min(new.len()));
    turned_back(bca(estimates, mean_new / mean_base, acceleration, tail), inverted)
}

fn as_times(values: &[f64], mean: Mean) -> (Vec<f64>, bool) {
    match mean {
        Mean::Arithmetic => (values.to_vec(), false),
        Mean::Harmonic => (mean::reciprocals(values), true),
    }
}

fn turned_back(interval: Interval, inverted: bool) -> Interval {
    if inverted { Interval { low: 1.0 / interval.high, high: 1.0 / interval.low } } else { interval }
}

/// The statistic with each value left out in turn.
fn jackknife(values: &[f64], statistic: impl Fn(f64) -> f64) -> Vec<f64> {
    let n = values.len() as f64;
    let total = mean::sum(values.iter().copied());
    values.iter().map(|value| statistic((total - value) / (n - 1.0))).collect()
}

/// The acceleration from the jackknife of one or more samples.
fn acceleration(jackknifes: &[Vec<f64>]) -> f64 {
    let (mut cubes, mut squares) = (0.0, 0.0);
    for estimates in jackknifes {
        let n = estimates.len() as f64;
        let center = mean::amean(estimates);
        let influence = |estimate: &f64| (n - 1.0) * (center - estimate);
        cubes += mean::sum(estimates.iter().map(|one| influence(one).powi(3))) / n.powi(3);
        squares += mean::sum(estimates.iter().map(|one| influence(one).powi(2))) / n.powi(2);
    }
    if squares > 0.0 { cubes / squares.powf(1.5) / 6.0 } else { 0.0 }
}

/// The interval from the resamples' estimates, `tail` being the probability beyond each end.
fn bca(mut estimates: Vec<f64>, center: f64, acceleration: f64, tail: f64) -> Interval {
    estimates.sort_unstable_by(f64::total_cmp);
    let n = estimates.len() as f64;
    if estimates.first() == estimates.last() {
        // No spread at all (or no resamples): the point is all that there is.
        return estimates.first().map_or(Interval::UNKNOWN, |&value| Interval { low: value, high: value });
    }
    let below = estimates.partition_point(|&one| one < center) as f64;
    let up_to = estimates.partition_point(|&one| one <= center) as f64;
    let bias = normal_quantile(f64::midpoint(below, up_to) / n);
    let end = |p: f64| {
        let shifted = bias + normal_quantile(p);
        quantile_sorted(&estimates, normal_cdf(bias + shifted / (1.0 - acceleration * shifted)))
    };
    Interval { low: end(tail), high: end(1.0 - tail) }
}

/// mmtests' SubAmean and SubHmean: the mean, and half the width of its interval.
///
/// After T. Kalibera, L. Bulej and P. Tuma, "Automated detection of performance regressions: the Mono experience" (2005), as
/// mmtests computes it (`subselection-confidence-interval.py`, commit 638401e): from each iteration, `plan.resamples` draws
/// with replacement of 80 % of its values; the median of their means; the median of the variances (divisor n) of as many
/// further draws. mmtests does not seed its draws, so only this function's numbers are repeatable.
pub fn submean(iterations: &[Vec<f64>], mean: Mean, confidence: f64, plan: Plan) -> (f64, f64) {
    let mut generator = plan.generator();
    let mut medians = Vec::new();
    let mut variances = Vec::new();
    let mut lengths = Vec::new();
    for values in iterations {
        let length = (0.8 * values.len() as f64) as usize;
        if length == 0 {
            continue;
        }
        let mut sample = vec![0.0; length];
        let mut means = Vec::with_capacity(plan.resamples);
        let mut spreads = Vec::with_capacity(plan.resamples);
        for _ in 0..plan.resamples {
            fill(&mut sample, values, &mut generator);
            means.push(mean.of(&sample));
        }
        for _ in 0..plan.resamples {
            fill(&mut sample, values, &mut generator);
            let center = mean::amean(&sample);
            spreads.push(mean::sum(sample.iter().map(|one| (one - center) * (one - center))) / length as f64);
        }
        medians.push(mean::median(&mut means));
        variances.push(mean::median(&mut spreads));
        lengths.push(length as f64);
    }
    let k = medians.len();
    let center = mean::amean(&medians);
    let between = if k > 1 {
        mean::sum(medians.iter().zip(&lengths).map(|(one, length)| (one - center).powi(2) * length)) / (k - 1) as f64
    } else {
        0.0
    };
    let spread = mean::amean(&variances) + between;
    let half = normal_quantile(f64::midpoint(1.0, confidence)) * (spread / mean::sum(lengths)).sqrt();
    (center, half)
}

fn fill(sample: &mut [f64], values: &[f64], generator: &mut Pcg64) {
    for one in sample {
        *one = values[draw(generator, values.len())];
    }
}
