//! Whether a task loses wake-ups that come while it runs: what its recording shows.
//!
//! ```text
//!   waker a   ==|==    ====    ==|==    ====    ==|==    it wakes b in each activation; that shows only where b sleeps
//!   kept  b     #########1#########2      ####...        b goes on with what waits: twice the work of one wake-up
//!   lost  b     #########1#       ########3#             b sleeps until the next wake-up comes
//! ```
//! A semaphore or a pipe keeps them, a condition variable (rt-app's `resume`) loses them. A task that in turn wakes its waker can lose
//! none: both would stand still. Where no wake-up is missing, or the task's work is none of one wake-up or the other, it is not known.

use std::collections::BTreeSet;

use crate::costs::median;

/// What a task did from one sleep to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Activation {
    /// When it was woken, and when it slept, ns.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Another task woke it.
    pub by_task: bool,
    /// It is several activations that followed each other at once: after which work each but the last ended, ns.
    pub ends_ns: Vec<u64>,
    pub work_ns: u64,
    /// Whom it woke, by places of tasks, and after which part of its work, ns.
    pub posts: Vec<(usize, u64)>,
}

/// What becomes of wake-ups while a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Pending {
    #[default]
    Unknown,
    Kept,
    Lost,
}

/// What a recording shows of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub pending: Pending,
    /// Wake-ups by this task that were lost: in which of its activations, after which part of its work, and whose.
    pub posts: Vec<(usize, u64, usize)>,
    /// Those of its activations that come again after the recorded ones, for wake-ups that the recording lost.
    pub again: Vec<usize>,
}

/// Fewer missing wake-ups show nothing.
const LEAST: u64 = 3;

/// The tasks that each task wakes, and those that they wake, and so on.
fn reaches(tasks: &[Vec<Activation>]) -> Vec<BTreeSet<usize>> {
    let woken = |task: usize| tasks[task].iter().flat_map(|activation| &activation.posts).map(|&(woken, _)| woken);
    let of = |first: usize| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<usize> = woken(first).collect();
        while let Some(task) = next.pop() {
            if seen.insert(task) {
                next.extend(woken(task));
            }
        }
        seen
    };
    (0..tasks.len()).map(of).collect()
}

/// Wake-ups of `task` by `waker` that do not show: in which activations of the waker, after which part of its work, and in which activation
/// of the task. A waker that woke it in less than half of its activations had no reason in the others.
fn missing(waker: &[Activation], task: usize, woken: &[Activation]) -> Vec<(usize, u64, usize)> {
    let posts = |one: &Activation| {
        one.posts.iter().filter(|&&(of, _)| of == task).map(|&(_, work_ns)| work_ns).collect::<Vec<_>>()
    };
    let post = |one: &Activation| posts(one).first().copied();
    // The last one may not have come to it.
    let Some((_, whole)) = waker.split_last() else { return Vec::new() };
    let ran = whole.iter().filter(|activation| activation.work_ns > 0);
    let (before, without): (Vec<_>, Vec<_>) = ran.map(post).partition(Option::is_some);
    // One of each two, but for how both begin and end.
    if before.len() + 1 < without.len() {
        return Vec::new();
    }
    let before_ns = median(before.into_iter().flatten().collect()).unwrap_or(0);
    let mut found = Vec::new();
    for (nth, activation) in whole.iter().enumerate().filter(|(_, one)| one.work_ns > 0) {
        let (posts, parts) = (posts(activation), activation.ends_ns.len() + 1);
        let length_ns = u128::from(activation.to_ns.saturating_sub(activation.from_ns));
        for part in 0..parts {
            let from_ns = part.checked_sub(1).map_or(0, |before| activation.ends_ns[before]);
            let to_ns = activation.ends_ns.get(part).copied().unwrap_or(activation.work_ns);
            if posts.iter().any(|&post_ns| parts == 1 || (from_ns < post_ns && post_ns <= to_ns)) {
                continue;
            }
            let part_ns = (from_ns + before_ns).min(to_ns);
            let at_ns = activation.from_ns + (length_ns * u128::from(part_ns) / u128::from(activation.work_ns)) as u64;
            let during = woken.partition_point(|one| one.from_ns <= at_ns).checked_sub(1);
            found.extend(during.filter(|&during| at_ns < woken[during].to_ns).map(|during| (nth, part_ns, during)));
        }
    }
    found
}

/// What the work of `woken` shows of wake-ups that came during these of its activations, in their order.
fn pending(woken: &[Activation], during: &[usize]) -> Pending {
    let nr = during.len() as u64;
    if nr < LEAST {
        return Pending::Unknown;
    }
    // Neither the first, which began before, nor the last, which may go on.
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (nth, activation) in woken.iter().enumerate().skip(1).take(woken.len().saturating_sub(2)) {
        if during.binary_search(&nth).is_ok() {
            with.push(activation.work_ns)
        } else {
            without.push(activation.work_ns)
        }
    }
    if (without.len() as u64) < LEAST {
        // One that keeps wake-ups and is too slow for them all the time does not sleep.
        return if with.len() as u64 >= LEAST { Pending::Lost } else { Pending::Unknown };
    }
    let of_one = u128::from(median(without).unwrap_or(0));
    let more = with.iter().map(|&work_ns| u128::from(work_ns)).sum::<u128>();
    let more = more.saturating_sub(of_one * with.len() as u128);
    let all = of_one * u128::from(nr);
    match () {
        () if more * 10 < all * 3 => Pending::Lost,
        () if (all * 7..=all * 13).contains(&(more * 10)) => Pending::Kept,
        () => Pending::Unknown,
    }
}

/// What a recording shows of each of `tasks`.
pub(crate) fn shown(tasks: &[Vec<Activation>]) -> Vec<Shown> {
    let reaches = reaches(tasks);
    let mut all = vec![Shown::default(); tasks.len()];
    let mut more = vec![0; tasks.len()];
    let in_turn = |task: usize| reaches[task].contains(&task);
    for task in 0..tasks.len() {
        if in_turn(task) {
            all[task].pending = Pending::Kept;
            continue;
        }
        let wakers: Vec<usize> = (0..tasks.len()).filter(|&waker| reaches[waker].contains(&task)).collect();
        let woken = |waker: usize| tasks[waker].iter().any(|one| one.posts.iter().any(|&(of, _)| of == task));
        let (&[waker], true) = (
            &wakers.iter().copied().filter(|&waker| woken(waker)).collect::<Vec<_>>()[..],
            tasks[task].iter().skip(1).all(|one| one.by_task),
        ) else {
            continue;
        };
        let found = missing(&tasks[waker], task, &tasks[task]);
        let during: Vec<usize> = found.iter().map(|&(.., during)| during).collect();
        all[task].pending = pending(&tasks[task], &during);
        if all[task].pending == Pending::Lost && !reaches[task].iter().any(|&below| in_turn(below)) {
            more[task] += found.len();
            all[waker].posts.extend(found.into_iter().map(|(nth, work_ns, _)| (nth, work_ns, task)));
        }
    }
    // Wakers before those that they wake: they reach more.
    let mut order: Vec<usize> = (0..tasks.len()).filter(|&task| !in_turn(task)).collect();
    order.sort_by_key(|&task| usize::MAX - reaches[task].len());
    for task in order {
        // Neither the first, which nobody woke, nor the last, which may go on.
        let whole: Vec<usize> =
            (1..tasks[task].len().saturating_sub(1)).filter(|&nth| tasks[task][nth].by_task).collect();
        if whole.is_empty() {
            continue;
        }
        all[task].again = whole.into_iter().cycle().take(more[task]).collect();
        for &nth in &all[task].again {
            for &(woken, _) in &tasks[task][nth].posts {
                more[woken] += 1;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A waker of a period of 10 ms that wakes task 1 in the activations that `wakes` takes, and what task 1 did.
    fn tasks(wakes: impl Fn(u64) -> bool, woken: &[(u64, u64, u64)]) -> Vec<Vec<Activation>> {
        let waker = (0..12).map(|nth| Activation {
            from_ns: nth * 10 * MS,
            to_ns: nth * 10 * MS + 2 * MS,
            work_ns: 2 * MS,
            posts: if wakes(nth) { vec![(1, MS)] } else { Vec::new() },
            ..Activation::default()
        });
        let activation = |&(from, to, work): &(u64, u64, u64)| Activation {
            from_ns: from * MS,
            to_ns: to * MS,
            work_ns: work * MS,
            by_task: true,
            ..Activation::default()
        };
        let first = Activation::default();
        vec![waker.collect(), std::iter::once(first).chain(woken.iter().map(activation)).collect()]
    }

    #[test]
    fn the_work_of_one_wake_up_or_of_two_shows_what_became_of_the_second() {
        // Each second wake-up comes while the task runs: it sleeps then, and has none of it to do.
        let lost: Vec<(u64, u64, u64)> = (0..6).map(|nth| (1 + 20 * nth, 14 + 20 * nth, 5)).collect();
        let found = shown(&tasks(|nth| nth % 2 == 0, &lost));
        assert_eq!(found[1].pending, Pending::Lost);
        assert_eq!(
            found[0].posts.iter().map(|&(nth, work_ns, of)| (nth, work_ns, of)).collect::<Vec<_>>(),
            [1, 3, 5, 7, 9].map(|nth| (nth, MS, 1))
        );
        assert_eq!(found[1].again, [1, 2, 3, 4, 5].map(|nth| nth));
        // Each third one: once with the work of two, and once with that of one.
        let of = |two: u64| -> Vec<(u64, u64, u64)> {
            (0..4).flat_map(|nth| [(1 + 30 * nth, 13 + 30 * nth, two), (21 + 30 * nth, 26 + 30 * nth, 5)]).collect()
        };
        let check = |two: u64, expected: Pending| {
            let found = shown(&tasks(|nth| nth % 3 != 1, &of(two)));
            assert_eq!(found[1].pending, expected, "{two}");
            assert_eq!(found[0].posts.is_empty(), expected != Pending::Lost);
        };
        check(10, Pending::Kept);
        check(5, Pending::Lost);
        check(7, Pending::Unknown);
        // Nothing is missing.
        let quick: Vec<(u64, u64, u64)> = (0..12).map(|nth| (1 + 10 * nth, 4 + 10 * nth, 3)).collect();
        assert_eq!(shown(&tasks(|_| true, &quick)), vec![Shown::default(); 2]);
    }

    /// Goal: who wakes its waker loses nothing.
    #[test]
    fn tasks_that_wake_each_other_keep_all() {
        let mut both =
            tasks(|nth| nth % 2 == 0, &(0..6).map(|nth| (1 + 20 * nth, 14 + 20 * nth, 5)).collect::<Vec<_>>());
        both[1][2].posts = vec![(0, MS)];
        let found = shown(&both);
        assert!(
            found.iter().all(|task| task.pending == Pending::Kept && task.posts.is_empty() && task.again.is_empty())
        );
    }
}
