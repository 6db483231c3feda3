//! Activations of a periodic task that ended late: the next ones followed at once, so that the trace shows one for several.
//!
//! ```text
//!   expiry     |     |     |     |     |
//!   recorded   ==    =============     ==      one of three times the work: three activations, of which two found their timer expired
//! ```
//! They are several only where the work of others shows it: a program that leaves out what it is late for has the work of one. And only
//! where the next one comes on the grid of the period (`absolute` in rt-app): a timer whose time is set anew at a late end (`relative`)
//! has its recorded times.

use std::collections::BTreeMap;

use crate::lost::Activation;

/// The activations of a periodic task that are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    pub period_ns: u64,
    /// How many, by their places.
    pub parts: BTreeMap<usize, u64>,
}

/// Times and work that differ by less than one in so many parts are alike.
const PERIODS: u64 = 50;
const WORKS: u64 = 6;
/// Fewer activations in time show no period.
const LEAST: usize = 3;
/// More than so many at once are none: the times of a damaged trace.
const MOST: u64 = 10_000;

/// What `all` activations of a task that only timers wake show.
pub(crate) fn late(all: &[Activation]) -> Option<Late> {
    // From each expiry to the next.
    let gaps: Vec<u64> = all.windows(2).map(|pair| pair[1].from_ns.saturating_sub(pair[0].from_ns)).collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    // None is shorter than the period; some are a little, where a CPU left idle late.
    let alike = |one: u64, other: u64| one.abs_diff(other) <= other / PERIODS;
    let nr_alike = |gap: u64| {
        let up_to = |ns: u64| sorted.partition_point(|&other| other <= ns);
        up_to(gap + gap / PERIODS) - up_to(gap - gap / PERIODS - 1)
    };
    let enough = |&&gap: &&u64| gap > 0 && nr_alike(gap) >= LEAST.max(sorted.len() / 10);
    let least = *sorted.iter().find(enough)?;
    let near: Vec<u64> = sorted.iter().copied().filter(|&gap| alike(gap, least)).collect();
    let period_ns = near[near.len() / 2];
    let in_time = |&nth: &usize| alike(gaps[nth], period_ns) && all[nth].work_ns > 0;
    let works: Vec<u64> = (0..gaps.len()).filter(in_time).map(|nth| all[nth].work_ns).collect();
    // Awake when the next timer expired.
    let awake_ns = |nth: usize| all[nth].to_ns.saturating_sub(all[nth].from_ns) + period_ns / PERIODS;
    let is_late = |&nth: &usize| gaps[nth] > period_ns + period_ns / PERIODS && awake_ns(nth) > period_ns;
    let over: Vec<usize> = (0..gaps.len()).filter(is_late).collect();
    let nr = |nth: usize| (gaps[nth] + period_ns / 2) / period_ns;
    let is_on_grid = |nth: &usize| gaps[*nth].abs_diff(nr(*nth) * period_ns) <= period_ns / PERIODS;
    let on_grid: Vec<usize> = over.iter().copied().filter(is_on_grid).collect();
    if on_grid.len() * 2 < over.len() {
        return None;
    }
    let several = |nth: usize| {
        let (nr, work_ns) = (nr(nth), all[nth].work_ns);
        let fits = |one: u64| work_ns.abs_diff(nr.saturating_mul(one)) <= nr.saturating_mul(one) / WORKS;
        ((2..=MOST).contains(&nr) && awake_ns(nth) > (nr - 1) * period_ns && works.iter().any(|&one| fits(one)))
            .then_some((nth, nr))
    };
    let parts: BTreeMap<usize, u64> = on_grid.into_iter().filter_map(several).collect();
    (!parts.is_empty()).then_some(Late { period_ns, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Activations: when each was woken, when it slept and its work, ms.
    fn of(all: &[(u64, u64, u64)]) -> Option<Late> {
        let activation = |&(from, to, work): &(u64, u64, u64)| Activation {
            from_ns: from * MS,
            to_ns: to * MS,
            work_ns: work * MS,
            ..Activation::default()
        };
        late(&all.iter().map(activation).collect::<Vec<_>>())
    }

    #[test]
    fn work_of_several_activations_is_that_of_several() {
        let on_grid = |work: u64| [(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 57, work), (60, 64, 4), (70, 74, 4)];
        let parts = |parts: &[(usize, u64)]| parts.iter().copied().collect::<BTreeMap<_, _>>();
        let found = |of: &[(usize, u64)]| Some(Late { period_ns: 10 * MS, parts: parts(of) });
        assert_eq!(of(&on_grid(12)), found(&[(3, 3)]));
        // It left out what it was late for.
        assert_eq!(of(&on_grid(4)), None);
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 34, 4)]), None, "in time");
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 35, 8), (50, 54, 4), (60, 64, 4)]), None, "asleep");
        // The first two of three ended 27 ms after they were due to begin: the timer was set anew there.
        assert_eq!(
            of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 60, 12), (67, 71, 4), (77, 81, 4)]),
            None,
            "relative"
        );
        // Times of damaged traces.
        assert_eq!(of(&[(0, 0, 0); 9]), None);
        let far = u64::MAX / MS / 2;
        assert_eq!(of(&[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (4, far, far), (far, far, 1)]), None);
    }
}
