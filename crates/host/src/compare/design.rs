//! The design of an experiment: the order of variants in each block, how many blocks are needed, and the interval of a
//! change.
//!
//! A block has every variant once. Within it the order is drawn from the seed, so that drift hits each variant alike.
//! The change is the mean over blocks of ln(variant / baseline).
//!
//! The rule that ends an experiment is Stein's in two stages (A two-sample test for a linear hypothesis whose power is
//! independent of the variance, 1945). A pilot of n0 blocks gives the deviation s; it alone decides how many blocks
//! follow: N = ceil((t s / h)^2) for a half-width h, with t of n0 - 1 degrees of freedom. The interval is the mean over
//! all N blocks +- t s / sqrt(N), with the same s. Since N depends on s alone, and s does not depend on the mean, the
//! interval holds as often as it promises, however early the experiment ends. An ordinary interval that is looked at after
//! each block, until it is narrow enough, holds less often.

use opplab_stats::Interval;
use opplab_stats::mean::{amean, stddev};
use opplab_stats::quantile::t_quantile;
use rand_core::Rng as _;
use rand_pcg::Pcg64;

/// Share of intervals that hold the truth.
pub const CONFIDENCE: f64 = 0.95;

/// Stream of the generator that orders blocks.
const ORDER_STREAM: u128 = 0x6f72_6465;

/// The order of `n_variants` in a block: it depends on the seed and the block alone, so that a resumed experiment goes
/// on as it would have.
pub fn order(seed: u64, block: u32, n_variants: usize) -> Vec<usize> {
    let mut generator = Pcg64::new(u128::from(seed) << 64 | u128::from(block), ORDER_STREAM);
    let mut order: Vec<usize> = (0..n_variants).collect();
    for last in (1..n_variants).rev() {
        // Fisher and Yates; the bias of the remainder is below 2^-56.
        let other = (generator.next_u64() % (last as u64 + 1)) as usize;
        order.swap(last, other);
    }
    order
}

/// A change against the baseline, from blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// Its interval.
    pub interval: Interval,
    /// Blocks that it is from.
    pub n_blocks: usize,
}

impl Change {
    /// Whether the interval leaves "nothing changes" out.
    pub fn is_clear(&self) -> bool {
        self.interval.low > 1.0 || self.interval.high < 1.0
    }
}

fn t_of(n: usize) -> f64 {
    t_quantile(0.5 + CONFIDENCE / 2.0, n as f64 - 1.0)
}

/// The change by log-ratios of blocks, in the order in which they were measured. The deviation is that of the first
/// `pilot` blocks, as the rule wants it; fewer blocks give theirs.
pub fn change(logs: &[f64], pilot: usize) -> Change {
    let first = logs.get(..pilot).unwrap_or(logs);
    let mean = amean(logs);
    let half =
        if first.len() < 2 { f64::INFINITY } else { t_of(first.len()) * stddev(first) / (logs.len() as f64).sqrt() };
    let interval = Interval { low: (mean - half).exp(), high: (mean + half).exp() };
    Change { ratio: mean.exp(), interval, n_blocks: logs.len() }
}

/// Blocks after which the half-width is at most `within` (0.01: 1 %), by the deviation of the pilot's log-ratios.
pub fn blocks_needed(pilot: &[f64], within: f64) -> u64 {
    needed(stddev(pilot), t_of(pilot.len()), within).max(pilot.len() as u64)
}

fn needed(deviation: f64, t: f64, within: f64) -> u64 {
    let blocks = (t * deviation / within.ln_1p()).powi(2).ceil();
    // NaN and infinite become the most.
    if blocks < 1e9 { blocks as u64 } else { 1_000_000_000 }
}

/// What runs of one variant after each other show of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resolution {
    /// Deviation of the log-ratio of two runs next to each other.
    pub deviation: f64,
    /// Blocks that an interval of +- 1 % takes.
    pub blocks_of_percent: u64,
}

impl Resolution {
    /// From runs of the same variant in sequence. Differences of neighbours count, so that drift does not.
    pub fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.windows(2).filter_map(|pair| Some((pair.last()? / pair.first()?).ln())).collect();
        if logs.len() < 2 || logs.iter().any(|log| !log.is_finite()) {
            return None;
        }
        let deviation = (logs.iter().map(|log| log * log).sum::<f64>() / logs.len() as f64).sqrt();
        let normal = t_quantile(0.5 + CONFIDENCE / 2.0, f64::INFINITY);
        Some(Self { deviation, blocks_of_percent: needed(deviation, normal, 0.01).max(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_each_variant_once_in_an_order_of_its_own() {
        let mut seen = std::collections::BTreeMap::new();
        for block in 0..600 {
            let mut order = order(7, block, 3);
            assert_eq!(order, super::order(7, block, 3));
            *seen.entry(order.clone()).or_insert(0) += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2]);
        }
        // Six orders, 100 each but for chance.
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (70..=130).contains(count)), "{seen:?}");
    }

    /// Goal: the interval is the textbook's. Method: by hand, t of 3 degrees of freedom is 3.1824.
    #[test]
    fn the_interval_is_of_the_pilots_deviation() {
        let logs = [0.01, 0.03, 0.02, 0.04, 0.10];
        let found = change(&logs, 4);
        let (mean, s): (f64, f64) = (0.04, (0.0005f64 / 3.0).sqrt());
        assert!((found.ratio - mean.exp()).abs() < 1e-12);
        let half = 3.182_446 * s / 5f64.sqrt();
        assert!((found.interval.high.ln() - (mean + half)).abs() < 1e-6, "{found:?}");
        assert!(found.is_clear());
        assert_eq!(blocks_needed(&logs[..4], 0.01), ((3.182_446 * s / 0.01f64.ln_1p()).powi(2)).ceil() as u64);
        assert!(!change(&[0.5], 4).is_clear());
    }

    #[test]
    fn runs_of_one_variant_say_what_can_be_resolved() {
        let found = Resolution::of(&[10.0, 10.1, 10.0, 10.1]).expect("enough");
        assert!((found.deviation - 1.01f64.ln()).abs() < 1e-12);
        assert_eq!(found.blocks_of_percent, 4);
        assert_eq!(Resolution::of(&[10.0, 10.1]), None);
        assert_eq!(Resolution::of(&[10.0, 0.0, 1.0]), None);
    }
}
