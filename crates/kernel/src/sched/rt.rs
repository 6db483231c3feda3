//! Where real-time tasks go: at a wake-up, and when a run queue has more of them than it can run (kernel/sched/rt.c, cpupri.c,
//! v6.12).
//!
//! Priorities are those of user space (`rt_priority`): 1 to 99, more is more urgent. Pure decisions: who runs where comes in through
//! [`RtFacts`]. Not here: throttling, real-time groups, tasks whose migration is disabled. From public source, without vectors.

use super::cpumask::{CpuMask, CpuSet};
use super::deadline::nearest;

/// The level of a CPU without real-time and deadline tasks (`CPUPRI_NORMAL`).
pub const CPUPRI_NORMAL: u8 = 0;
/// The level of a CPU with a deadline task (`CPUPRI_HIGHER`).
pub const CPUPRI_HIGHER: u8 = 100;

/// A real-time task that looks for a CPU.
#[derive(Clone, Copy, Debug)]
pub struct RtTask<'a> {
    /// The CPU that it belongs to.
    pub cpu: usize,
    /// The CPUs that it may use.
    pub allowed: CpuSet<'a>,
    /// How many those are.
    pub nr_cpus_allowed: u32,
    /// Its priority, 1 to 99.
    pub priority: u8,
}

/// The task that runs on a CPU, if it is none of the fair class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtCurr {
    /// Its priority, 1 to 99; [`CPUPRI_HIGHER`] for a deadline task.
    pub priority: u8,
    /// On how many CPUs it may run.
    pub nr_cpus_allowed: u32,
}

/// The machine's state as the real-time class reads it.
pub trait RtFacts {
    /// The level of `cpu`: the highest priority of its queued real-time tasks, running one included, or [`CPUPRI_NORMAL`], or
    /// [`CPUPRI_HIGHER`] (`cpupri.cpu_to_pri`).
    fn cpupri(&self, cpu: usize) -> u8;
    /// The capacity of `cpu` is not below the task's lower clamp (`rt_task_fits_capacity()`); true where CPUs are alike.
    fn fits(&self, cpu: usize) -> bool;
    /// Whether any CPU of the machine differs in capacity.
    fn asym_active(&self) -> bool;
    /// The span and flags of the domain of `cpu` at `level`, 0 the lowest.
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)>;
}

/// Fills `lowest_mask` with the allowed CPUs of the lowest level below the task's priority; whether there are any. With different
/// capacities those that fit come first, at whatever level.
///
/// kernel/sched/cpupri.c:`cpupri_find()`, `cpupri_find_fitness()`, v6.12.
pub fn cpupri_find<F: RtFacts>(facts: &F, task: &RtTask<'_>, lowest_mask: &mut CpuMask) -> bool {
    if facts.asym_active() && find_level(facts, task, lowest_mask, |cpu| facts.fits(cpu)) {
        return true;
    }
    find_level(facts, task, lowest_mask, |_| true)
}

fn find_level<F: RtFacts>(
    facts: &F,
    task: &RtTask<'_>,
    lowest_mask: &mut CpuMask,
    usable: impl Fn(usize) -> bool,
) -> bool {
    lowest_mask.assign_and(task.allowed, task.allowed);
    let mut lowest = task.priority;
    for cpu in task.allowed.iter() {
        let level = facts.cpupri(cpu);
        if level < lowest && usable(cpu) {
            lowest = level;
        }
    }
    if lowest == task.priority {
        return false;
    }
    for cpu in task.allowed.iter() {
        if facts.cpupri(cpu) != lowest || !usable(cpu) {
            lowest_mask.remove(cpu);
        }
    }
    true
}

/// A CPU where the task would run at once: its own, the one that looks if that is near, any near one; `None` if there is none.
///
/// `this_cpu` is the CPU that looks, `distribute` its cursor over CPUs (`distribute_cpu_mask_prev`), `lowest_mask` a scratch mask.
/// kernel/sched/rt.c:`find_lowest_rq()`, v6.12.
pub fn find_lowest_rq<F: RtFacts>(
    facts: &F,
    task: &RtTask<'_>,
    this_cpu: usize,
    distribute: &mut usize,
    lowest_mask: &mut CpuMask,
) -> Option<usize> {
    if task.nr_cpus_allowed == 1 || !cpupri_find(facts, task, lowest_mask) {
        return None;
    }
    nearest(lowest_mask.as_set(), task.cpu, this_cpu, distribute, |level| facts.domain(task.cpu, level))
}

/// The CPU for a waking or new real-time task, whose CPU is `task.cpu`: it stays unless a real-time task runs there that it does not
/// preempt or that is pinned, or (with different capacities) the CPU is too small, and a better place is found.
///
/// `curr` is the task that runs on `task.cpu`; whether a deadline task counts there is the version's (before v6.12 it does).
/// kernel/sched/rt.c:`select_task_rq_rt()`, v6.12.
pub fn select_task_rq_rt<F: RtFacts>(
    facts: &F,
    task: &RtTask<'_>,
    curr: Option<RtCurr>,
    this_cpu: usize,
    distribute: &mut usize,
    lowest_mask: &mut CpuMask,
) -> usize {
    let moves = curr.is_some_and(|curr| is_in_the_way(task.priority, &curr));
    let fits = |cpu: usize| !facts.asym_active() || facts.fits(cpu);
    if !moves && fits(task.cpu) {
        return task.cpu;
    }
    find_lowest_rq(facts, task, this_cpu, distribute, lowest_mask)
        .filter(|&target| (moves || fits(target)) && facts.cpupri(target) < task.priority)
        .unwrap_or(task.cpu)
}

/// A task of `priority` does not preempt `curr`, or `curr` could not go anywhere else.
fn is_in_the_way(priority: u8, curr: &RtCurr) -> bool {
    curr.nr_cpus_allowed < 2 || curr.priority >= priority
}

/// Whether the queue on which the task woke tries to push tasks away: the task does not run there soon, but might elsewhere.
///
/// The caller knows that the task does not run and `curr` will not be preempted anyway.
/// kernel/sched/rt.c:`task_woken_rt()`, v6.12.
pub fn task_woken_rt(task: &RtTask<'_>, curr: Option<RtCurr>) -> bool {
    task.nr_cpus_allowed > 1 && curr.is_some_and(|curr| is_in_the_way(task.priority, &curr))
}

#[cfg(test)]
mod tests {
    use super::super::domains::SD_WAKE_AFFINE;
    use super::*;
    use proptest::prelude::*;

    /// CPUs of a cache, each with a level and a capacity that does or does not do.
    struct Machine {
        levels: Vec<u8>,
        too_small: u64,
        asym: bool,
        near: [u64; 1],
        all: [u64; 1],
    }

    impl Machine {
        fn new(levels: &[u8]) -> Self {
            let all = [u64::MAX >> (64 - levels.len())];
            Self { levels: levels.to_vec(), too_small: 0, asym: false, near: [0b11], all }
        }
    }

    impl RtFacts for Machine {
        fn cpupri(&self, cpu: usize) -> u8 {
            self.levels[cpu]
        }
        fn fits(&self, cpu: usize) -> bool {
            self.too_small >> cpu & 1 == 0
        }
        fn asym_active(&self) -> bool {
            self.asym
        }
        fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
            match level {
                // CPUs 0 and 1 are near each other.
                0 if cpu < 2 => Some((CpuSet::new(&self.near), SD_WAKE_AFFINE)),
                0 => Some((CpuSet::new(&self.all), 0)),
                1 => Some((CpuSet::new(&self.all), SD_WAKE_AFFINE)),
                _ => None,
            }
        }
    }

    fn woken(cpu: usize, priority: u8, allowed: &[u64]) -> RtTask<'_> {
        let allowed = CpuSet::new(allowed);
        RtTask { cpu, allowed, nr_cpus_allowed: allowed.weight(), priority }
    }

    #[test]
    fn lowest_is_own_then_here_then_near() {
        let check = |levels: &[u8], cpu, this_cpu, allowed: u64, expected| {
            let machine = Machine::new(levels);
            let found =
                find_lowest_rq(&machine, &woken(cpu, 50, &[allowed]), this_cpu, &mut 0, &mut CpuMask::with_room(4));
            assert_eq!(found, expected, "{levels:?} from {cpu}, by {this_cpu}");
        };
        check(&[0, 0, 0, 0], 2, 0, 0xf, Some(2));
        check(&[60, 0, 0, 0], 0, 3, 0xf, Some(1)); // Near goes before the CPU that looks.
        check(&[60, 60, 0, 0], 0, 3, 0xf, Some(3));
        check(&[60, 60, 0, 0], 0, 1, 0xf, Some(2));
        check(&[60, 7, 9, 9], 0, 2, 0xf, Some(1)); // The lowest level only.
        check(&[60, 50, 50, 100], 0, 2, 0xf, None); // An equal one is not lower.
        check(&[60, 0, 0, 0], 0, 2, 0b1, None);
        check(&[60, 0, 0, 0], 0, 2, 0b1001, Some(3));
    }

    #[test]
    fn a_waking_task_leaves_who_it_does_not_preempt() {
        let check = |priority, curr: Option<(u8, u32)>, expected| {
            let level = curr.map_or(0, |curr| curr.0);
            let machine = Machine::new(&[level, 30, 0, 0]);
            let curr = curr.map(|(priority, nr_cpus_allowed)| RtCurr { priority, nr_cpus_allowed });
            let all = [0xf];
            let task = woken(0, priority, &all);
            let chosen = select_task_rq_rt(&machine, &task, curr, 0, &mut 0, &mut CpuMask::with_room(4));
            assert_eq!(chosen, expected, "{priority} meets {curr:?}");
            assert_eq!(task_woken_rt(&task, curr), chosen != 0);
        };
        check(10, None, 0);
        check(50, Some((40, 4)), 0);
        check(50, Some((40, 1)), 2); // The other one could not go.
        check(50, Some((50, 4)), 2);
        check(20, Some((50, 4)), 2);
        check(99, Some((CPUPRI_HIGHER, 1)), 2);
    }

    #[test]
    fn a_small_cpu_is_left_for_a_big_one_only() {
        let check = |too_small, levels: &[u8], expected| {
            let machine = Machine { too_small, asym: true, ..Machine::new(levels) };
            let chosen =
                select_task_rq_rt(&machine, &woken(0, 50, &[0xf]), None, 0, &mut 0, &mut CpuMask::with_room(4));
            assert_eq!(chosen, expected, "{too_small:b} {levels:?}");
        };
        check(0b0011, &[0, 0, 0, 0], 2);
        check(0b0011, &[0, 0, 40, 60], 2); // Fit goes before level.
        check(0b0011, &[0, 0, 60, 60], 0);
        check(0b1111, &[0, 0, 0, 0], 0);
    }

    proptest! {
        /// What is found is allowed and of the lowest level there is.
        #[test]
        fn any_answer_is_the_lowest(levels in proptest::collection::vec(0u8..101, 8), allowed in 1u64..256, cpu in 0usize..8, priority in 1u8..100) {
            let machine = Machine::new(&levels);
            let allowed_words = [allowed];
            let task = woken(cpu, priority, &allowed_words);
            let least = (0..8).filter(|cpu| allowed >> cpu & 1 == 1).map(|cpu| levels[cpu]).min();
            match find_lowest_rq(&machine, &task, 3, &mut 5, &mut CpuMask::with_room(8)) {
                Some(found) => {
                    prop_assert!(allowed >> found & 1 == 1);
                    prop_assert_eq!(Some(levels[found]), least);
                    prop_assert!(levels[found] < priority);
                }
                None => prop_assert!(task.nr_cpus_allowed == 1 || least.is_none_or(|least| least >= priority)),
            }
        }
    }
}
