//! Activations of a periodic task that ended late: the next ones followed at once, so that the trace shows one for several.
//!
//! ```text
//!   expiry     |     |     |     |     |
//!   recorded   ==    =============     ==      one of three times the work: three activations, of which two found their timer expired
//! ```
//! Where the next one comes on the grid of the period (`absolute` in rt-app), they are several only if the work of others shows it: a
//! program that leaves out what it is late for has the work of one. Where each next one comes a period after a time at which the task ran
//! late, that time is where one ended and the timer was set anew (`relative`). What shows neither keeps its recorded times.

use std::collections::BTreeMap;

use crate::lost::Activation;

/// The activations of a periodic task that are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    pub period_ns: u64,
    /// After which work each of them but the last ended, ns, by their places.
    pub parts: BTreeMap<usize, Vec<u64>>,
    /// The timer is set anew at each late end.
    pub anew: bool,
    /// How many late ones keep their recorded times.
    pub kept: usize,
}

/// Times and work that differ by less than one in so many parts are alike.
const PERIODS: u64 = 50;
const WORKS: u64 = 6;
/// Fewer activations in time show no period.
const LEAST: usize = 3;
/// More than so many at once are none: the times of a damaged trace.
const MOST: u64 = 10_000;

/// What `all` activations of a task that only timers wake show; `None` without a period.
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
    let part_ends = |nth: usize, nr: u64| -> (usize, Vec<u64>) {
        let at = |part: u64| (u128::from(all[nth].work_ns) * u128::from(part) / u128::from(nr)) as u64;
        (nth, (1..nr).map(at).collect())
    };
    let several = |nth: usize| {
        let (nr, work_ns) = (nr(nth), all[nth].work_ns);
        let fits = |one: u64| work_ns.abs_diff(nr.saturating_mul(one)) <= nr.saturating_mul(one) / WORKS;
        ((2..=MOST).contains(&nr) && awake_ns(nth) > (nr - 1) * period_ns && works.iter().any(|&one| fits(one)))
            .then(|| part_ends(nth, nr))
    };
    // A period before the next one: how long after the expiry the timer was set anew, if it was, and of how long until the sleep.
    let set_anew = |nth: usize| (gaps[nth] - period_ns, all[nth].to_ns.saturating_sub(all[nth].from_ns));
    let anew = on_grid.len() * 2 < over.len()
        && over.len() >= LEAST
        && over.iter().all(|&nth| set_anew(nth).0 > period_ns && set_anew(nth).0 <= set_anew(nth).1);
    let in_two = |nth: usize| {
        let (late_ns, whole_ns) = set_anew(nth);
        let at_ns = (u128::from(all[nth].work_ns) * u128::from(late_ns) / u128::from(whole_ns.max(1))) as u64;
        (late_ns < 2 * period_ns && at_ns > 0).then(|| (nth, vec![at_ns]))
    };
    let parts: BTreeMap<usize, Vec<u64>> = match anew {
        true => over.iter().filter_map(|&nth| in_two(nth)).collect(),
        false if on_grid.len() * 2 >= over.len() => on_grid.into_iter().filter_map(several).collect(),
        false => BTreeMap::new(),
    };
    Some(Late { period_ns, kept: over.len() - parts.len(), anew, parts })
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
        let found = |parts: &[(usize, &[u64])], anew: bool, kept: usize| {
            let ends = |ends: &[u64]| ends.iter().map(|end| end * MS).collect();
            let parts = parts.iter().map(|&(nth, parts)| (nth, ends(parts))).collect();
            Some(Late { period_ns: 10 * MS, parts, anew, kept })
        };
        assert_eq!(of(&on_grid(12)), found(&[(3, &[4, 8])], false, 0));
        // It left out what it was late for.
        assert_eq!(of(&on_grid(4)), found(&[], false, 1));
        let none = found(&[], false, 0);
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 34, 4)]), none, "in time");
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 35, 8), (50, 54, 4), (60, 64, 4)]), none, "asleep");
        // One of 12 ms at each 30 ms, then one of 4: the timer is set anew at 12 ms, and expires 10 ms later.
        let anew = |nr: u64, next: u64| {
            let turn = |turn: u64| [(0, 4, 4), (10, 14, 4), (20, 36, 16)].map(|(a, b, c)| (turn + a, turn + b, c));
            of(&(0..=nr).flat_map(|nth| turn(nth * next)).collect::<Vec<_>>()[..3 * nr as usize + 1])
        };
        assert_eq!(anew(3, 42), found(&[(2, &[12]), (5, &[12]), (8, &[12])], true, 0));
        assert_eq!(anew(2, 42), found(&[], false, 2), "twice may be by chance");
        assert_eq!(anew(3, 48), found(&[], false, 3), "at 38 ms it slept");
        // Times of damaged traces.
        assert_eq!(of(&[(0, 0, 0); 9]), None);
        let far = u64::MAX / MS / 2;
        let damaged = of(&[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (4, far, far), (far, far, 1)]);
        assert_eq!(damaged.expect("a period").parts, BTreeMap::new());
    }
}
