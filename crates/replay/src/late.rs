//! Activations of a periodic task that ended late: the next ones followed at once, so that the trace shows one for several.
//!
//! ```text
//!   expiry     |     |     |     |     |
//!   recorded   ==    =============     ==      one of three times the work: three activations, of which two found their timer expired
//! ```
//! They are several only where the work of others shows it; a program that leaves out what it is late for has the work of one. Then what
//! came next shows whose the timer's time is: on the grid of the period it stays (`absolute` in rt-app), and a period after the last
//! late end it was set anew (`relative`).

use std::collections::BTreeMap;

use crate::lost::Activation;

/// What a periodic task shows of its timer where it was late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Late {
    pub period_ns: u64,
    /// The timer's time is on the grid of its period; otherwise it is set anew where the task is late.
    pub absolute: bool,
    /// Of activations that are several: how many.
    pub parts: BTreeMap<usize, u64>,
    /// So many more activations the task would have had, had it not been late.
    pub more: usize,
}

/// Times and work that differ by less than one in so many parts are alike.
const PERIODS: u64 = 50;
const WORKS: u64 = 6;
/// Fewer activations in time show no period.
const LEAST: usize = 3;

/// What `all` activations of a task that only timers wake show.
pub(crate) fn late(all: &[Activation]) -> Option<Late> {
    // From each expiry to the next.
    let gaps: Vec<u64> = all.windows(2).map(|pair| pair[1].from_ns.saturating_sub(pair[0].from_ns)).collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    // None is shorter than the period; some are a little, where a CPU left idle late.
    let alike = |one: u64, other: u64| one.abs_diff(other) <= other / PERIODS;
    let enough =
        |&&gap: &&u64| sorted.iter().filter(|&&other| alike(other, gap)).count() >= LEAST.max(sorted.len() / 10);
    let least = *sorted.iter().find(enough)?;
    let near: Vec<u64> = sorted.iter().copied().filter(|&gap| alike(gap, least)).collect();
    let period_ns = near[near.len() / 2];
    let in_time = |nth: usize| alike(gaps[nth], period_ns) && all[nth].work_ns > 0;
    let works: Vec<(usize, u64)> =
        (0..gaps.len()).filter(|&nth| in_time(nth)).map(|nth| (nth, all[nth].work_ns)).collect();
    // Awake when the next timer expired.
    let awake_ns = |nth: usize| all[nth].to_ns.saturating_sub(all[nth].from_ns) + period_ns / PERIODS;
    let over: Vec<usize> = (0..gaps.len())
        .filter(|&nth| !alike(gaps[nth], period_ns) && gaps[nth] > period_ns && awake_ns(nth) > period_ns)
        .collect();
    let on_grid = |nth: usize| (gaps[nth] + period_ns / 2) / period_ns * period_ns;
    let is_on_grid = |nth: &&usize| gaps[**nth].abs_diff(on_grid(**nth)) <= period_ns / PERIODS;
    // The last late end, a period before the next expiry.
    let anew =
        |nth: &&usize| gaps[**nth] > 2 * period_ns - period_ns / PERIODS && gaps[**nth] - period_ns <= awake_ns(**nth);
    let most = |those: usize| those * 10 >= over.len() * 9;
    let absolute = match () {
        () if over.is_empty() => return None,
        () if most(over.iter().filter(is_on_grid).count()) => true,
        () if most(over.iter().filter(anew).count()) => false,
        () => return None,
    };
    let mut found = Late { period_ns, absolute, parts: BTreeMap::new(), more: 0 };
    let mut early_ns = 0;
    for &nth in &over {
        let work_ns = all[nth].work_ns;
        let fits = |parts: u64, one: u64| work_ns.abs_diff(parts * one) <= parts * one / WORKS;
        let parts = if absolute {
            let parts = on_grid(nth) / period_ns;
            let is_awake = awake_ns(nth) > (parts - 1) * period_ns;
            (is_awake && works.iter().any(|&(_, one)| fits(parts, one))).then_some(parts)
        } else {
            // As those around it.
            let nearest = works.iter().min_by_key(|(other, _)| other.abs_diff(nth));
            let count = nearest.map(|&(_, one)| ((work_ns + one / 2) / one, one));
            count.filter(|&(parts, one)| fits(parts, one)).map(|(parts, _)| parts)
        };
        let Some(parts) = parts.filter(|&parts| parts >= 2) else { continue };
        if !absolute {
            early_ns += gaps[nth].saturating_sub(parts * period_ns);
        }
        found.parts.insert(nth, parts);
    }
    found.more = (early_ns / period_ns) as usize;
    (!found.parts.is_empty()).then_some(found)
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
        let found =
            |absolute, of: &[(usize, u64)], more| Some(Late { period_ns: 10 * MS, absolute, parts: parts(of), more });
        assert_eq!(of(&on_grid(12)), found(true, &[(3, 3)], 0));
        // It left out what it was late for.
        assert_eq!(of(&on_grid(4)), None);
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 34, 4)]), None, "in time");
        assert_eq!(of(&[(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 35, 8), (60, 64, 4), (70, 74, 4)]), None, "asleep");
        // The first two of three ended 27 ms after they were due to begin: the timer was set anew there.
        let anew = [(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 60, 12), (67, 71, 4), (77, 81, 4)];
        assert_eq!(of(&anew), found(false, &[(3, 3)], 0));
        let slow = [(0, 4, 4), (10, 14, 4), (20, 24, 4), (30, 80, 12), (87, 91, 4), (97, 100, 4)];
        assert_eq!(of(&slow), found(false, &[(3, 3)], 2));
    }
}
