//! Where deadline tasks go, at a wake-up, pushed and pulled, and what schedutil's worker has of a deadline task
//! (kernel/sched/deadline.c, cpudeadline.c, v6.12).
//!
//! The worker (`sugov:N`) is a deadline task by name only: it preempts every other one, its running is charged to no budget and
//! throttled by none, it has no part in the bandwidth, and admission is not asked ([`SUGOV_RUNTIME_NS`]).
//! Budgets are in `dl_entity`, bandwidths of queues in `dl_bw`.

use super::cpumask::{CpuMask, CpuSet};
use super::domains::SD_WAKE_AFFINE;

pub use crate::cpufreq::schedutil::BW_SHIFT;

/// The runtime that schedutil's worker pretends to need, ns (kernel/sched/cpufreq_schedutil.c:`sugov_kthread_create()`).
pub const SUGOV_RUNTIME_NS: u64 = 1_000_000;
/// The deadline and period that go with [`SUGOV_RUNTIME_NS`], ns.
pub const SUGOV_DEADLINE_NS: u64 = 10_000_000;

/// Whether deadline `one` comes before `other`, as a signed distance (`dl_time_before()`).
#[inline]
pub fn dl_time_before(one: u64, other: u64) -> bool {
    (one.wrapping_sub(other) as i64) < 0
}

/// Runtime by period, in parts of `1 << BW_SHIFT`, truncated (`to_ratio()`); a period of 0 gives 0.
#[inline]
pub fn to_ratio(period_ns: u64, runtime_ns: u64) -> u64 {
    runtime_ns.wrapping_shl(BW_SHIFT).checked_div(period_ns).unwrap_or(0)
}

/// A deadline entity's claim to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlClaim {
    /// The absolute deadline, ns.
    pub deadline: u64,
    /// It is schedutil's worker (`SCHED_FLAG_SUGOV`).
    pub is_sugov: bool,
}

impl DlClaim {
    /// Whether this entity preempts the other one: the worker always does (`dl_entity_preempt()`, v6.12).
    #[inline]
    pub fn preempts(&self, other: &DlClaim) -> bool {
        self.is_sugov || dl_time_before(self.deadline, other.deadline)
    }
}

/// The deadline task that wakes.
#[derive(Clone, Copy, Debug)]
pub struct DlTask<'a> {
    /// The CPU that it belongs to.
    pub cpu: usize,
    /// The CPUs that it may use.
    pub allowed: CpuSet<'a>,
    /// How many those are.
    pub nr_cpus_allowed: u32,
    /// Its claim.
    pub claim: DlClaim,
    /// Runtime by deadline, in parts of `1 << BW_SHIFT` (`dl_density`).
    pub density: u64,
}

/// A deadline task that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DlCurr {
    /// Its claim.
    pub claim: DlClaim,
    /// On how many CPUs it may run.
    pub nr_cpus_allowed: u32,
}

/// The machine's state as the deadline class reads it.
pub trait DeadlineFacts {
    /// The CPUs without a deadline task (`cpudl.free_cpus`).
    fn free(&self) -> CpuSet<'_>;
    /// Of the CPUs with deadline tasks, the one whose earliest deadline is latest, and that deadline (`cpudl_maximum()`).
    fn latest(&self) -> Option<(usize, u64)>;
    /// The earliest deadline on `cpu`, `None` without deadline tasks.
    fn earliest_deadline(&self, cpu: usize) -> Option<u64>;
    /// The deadline task that runs on `cpu`.
    fn curr(&self, cpu: usize) -> Option<DlCurr>;
    /// `arch_scale_cpu_capacity()`.
    fn capacity_orig(&self, cpu: usize) -> u64;
    /// Whether any CPU of the machine differs in capacity.
    fn asym_active(&self) -> bool;
    /// The span and flags of the domain of `cpu` at `level`, 0 the lowest.
    fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)>;
}

impl DlTask<'_> {
    /// Whether the CPU at its highest frequency can serve the task's density (`dl_task_fits_capacity()`).
    #[inline]
    pub fn fits(&self, capacity_orig: u64) -> bool {
        capacity_orig >= self.density >> (BW_SHIFT - 10)
    }
}

/// Fills `later_mask` with the CPUs that the task could go to; whether there are any.
///
/// Free ones that it fits, or if it fits none the biggest of them; without free CPUs the one with the latest deadline.
/// kernel/sched/cpudeadline.c:`cpudl_find()`, v6.12.
pub fn cpudl_find<F: DeadlineFacts>(facts: &F, task: &DlTask<'_>, later_mask: &mut CpuMask) -> bool {
    later_mask.assign_and(facts.free(), task.allowed);
    if !later_mask.as_set().is_empty() {
        if facts.asym_active() {
            keep_fitting(facts, task, later_mask);
        }
        return true;
    }
    let latest = cpudl_later(facts, task);
    if let Some(cpu) = latest {
        later_mask.insert(cpu);
    }
    latest.is_some()
}

/// The CPU with the latest deadline, if the task may use it and comes before (`cpudl_find()` without a mask).
fn cpudl_later<F: DeadlineFacts>(facts: &F, task: &DlTask<'_>) -> Option<usize> {
    let (cpu, deadline) = facts.latest()?;
    (task.allowed.contains(cpu) && dl_time_before(task.claim.deadline, deadline)).then_some(cpu)
}

fn keep_fitting<F: DeadlineFacts>(facts: &F, task: &DlTask<'_>, later_mask: &mut CpuMask) {
    let (mut max_capacity, mut max_cpu) = (0, None);
    let mut at = later_mask.as_set().first();
    while let Some(cpu) = at {
        let capacity = facts.capacity_orig(cpu);
        if !task.fits(capacity) {
            later_mask.remove(cpu);
            if capacity > max_capacity || (cpu == task.cpu && capacity == max_capacity) {
                (max_capacity, max_cpu) = (capacity, Some(cpu));
            }
        }
        at = later_mask.as_set().first_from(cpu.wrapping_add(1));
    }
    if later_mask.as_set().is_empty()
        && let Some(cpu) = max_cpu
    {
        later_mask.insert(cpu);
    }
}

/// The next CPU of both sets after the one that the cursor gave last, around the machine, and the cursor moves there
/// (`cpumask_any_and_distribute()`).
fn any_distribute(set: CpuSet<'_>, other: CpuSet<'_>, cursor: &mut usize) -> Option<usize> {
    let found = set.first_wrap(cursor.wrapping_add(1), |index, word| word & other.word(index));
    if let Some(cpu) = found {
        *cursor = cpu;
    }
    found
}

/// Of the CPUs `found` for a task of `cpu`: `cpu`, the one that looks if that is near, any near one, the one that looks, any.
///
/// `domain` gives span and flags of the domains of `cpu`, the lowest at level 0. The end of kernel/sched/deadline.c:`find_later_rq()`
/// and kernel/sched/rt.c:`find_lowest_rq()`, v6.12.
pub(super) fn nearest<'a>(
    found: CpuSet<'_>,
    cpu: usize,
    this_cpu: usize,
    distribute: &mut usize,
    domain: impl Fn(usize) -> Option<(CpuSet<'a>, u32)>,
) -> Option<usize> {
    if found.contains(cpu) {
        return Some(cpu);
    }
    let this_cpu = Some(this_cpu).filter(|&cpu| found.contains(cpu));
    let mut level = 0;
    while let Some((span, flags)) = domain(level) {
        level += 1;
        if flags & SD_WAKE_AFFINE == 0 {
            continue;
        }
        if let Some(cpu) = this_cpu.filter(|&cpu| span.contains(cpu)) {
            return Some(cpu);
        }
        if let Some(cpu) = any_distribute(found, span, distribute) {
            return Some(cpu);
        }
    }
    this_cpu.or_else(|| any_distribute(found, found, distribute))
}

/// A CPU where the task would run earlier: its own, the waking one if that is near, any near one; `None` if there is none.
///
/// `distribute` is the waking CPU's cursor over CPUs (`distribute_cpu_mask_prev`), `later_mask` a scratch mask.
/// kernel/sched/deadline.c:`find_later_rq()`, v6.12.
pub fn find_later_rq<F: DeadlineFacts>(
    facts: &F,
    task: &DlTask<'_>,
    this_cpu: usize,
    distribute: &mut usize,
    later_mask: &mut CpuMask,
) -> Option<usize> {
    if task.nr_cpus_allowed == 1 || !cpudl_find(facts, task, later_mask) {
        return None;
    }
    nearest(later_mask.as_set(), task.cpu, this_cpu, distribute, |level| facts.domain(task.cpu, level))
}

/// The CPU for a waking deadline task, whose CPU is `task.cpu`: it stays unless a deadline task runs there that it does not
/// preempt or that is pinned, or (with different capacities) the CPU is too small, and a better place is found.
///
/// kernel/sched/deadline.c:`select_task_rq_dl()`, v6.12, for a wake-up (`WF_TTWU`); otherwise the task stays.
pub fn select_task_rq_dl<F: DeadlineFacts>(
    facts: &F,
    task: &DlTask<'_>,
    this_cpu: usize,
    distribute: &mut usize,
    later_mask: &mut CpuMask,
) -> usize {
    let moves = facts.curr(task.cpu).is_some_and(|curr| {
        (curr.nr_cpus_allowed < 2 || !task.claim.preempts(&curr.claim)) && task.nr_cpus_allowed > 1
    });
    let too_small = facts.asym_active() && !task.fits(facts.capacity_orig(task.cpu));
    if !moves && !too_small {
        return task.cpu;
    }
    let later = find_later_rq(facts, task, this_cpu, distribute, later_mask);
    later.filter(|&cpu| is_earliest(facts, task, cpu)).unwrap_or(task.cpu)
}

/// Whether the task would be the first of its class on `cpu` (`dl_task_is_earliest_deadline()`).
fn is_earliest<F: DeadlineFacts>(facts: &F, task: &DlTask<'_>, cpu: usize) -> bool {
    facts.earliest_deadline(cpu).is_none_or(|earliest| dl_time_before(task.claim.deadline, earliest))
}

/// Whether the CPU where `task` woke, and does not run soon, pushes its waiting deadline tasks; `curr` runs there.
///
/// kernel/sched/deadline.c:`task_woken_dl()`, v6.12, whose caller knows that the task does not run and that the CPU does not
/// reschedule.
pub fn task_woken_dl(task: &DlTask<'_>, curr: Option<DlCurr>) -> bool {
    task.nr_cpus_allowed > 1 && curr.is_some_and(|curr| curr.nr_cpus_allowed < 2 || !task.claim.preempts(&curr.claim))
}

/// What a CPU does with the earliest of its deadline tasks that wait and may go elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DlPush {
    /// Nothing: no other CPU runs it earlier.
    Stays,
    /// It comes before the running task, which may go elsewhere itself: the CPU reschedules.
    Resched,
    /// It goes to this CPU.
    To(usize),
}

/// Decides about the task, which waits on `task.cpu`.
///
/// kernel/sched/deadline.c:`push_dl_task()`, `find_lock_later_rq()`, v6.12.
pub fn push_dl_task<F: DeadlineFacts>(
    facts: &F,
    task: &DlTask<'_>,
    this_cpu: usize,
    distribute: &mut usize,
    later_mask: &mut CpuMask,
) -> DlPush {
    let slipped_in =
        |curr: DlCurr| dl_time_before(task.claim.deadline, curr.claim.deadline) && curr.nr_cpus_allowed > 1;
    if facts.curr(task.cpu).is_some_and(slipped_in) {
        return DlPush::Resched;
    }
    let later = find_later_rq(facts, task, this_cpu, distribute, later_mask);
    match later.filter(|&cpu| cpu != task.cpu && is_earliest(facts, task, cpu)) {
        Some(cpu) => DlPush::To(cpu),
        None => DlPush::Stays,
    }
}

/// Whether `this_cpu` pulls the task, the earliest that waits on `task.cpu` and may come; `pulled` is the deadline of the last one
/// that it has pulled.
///
/// kernel/sched/deadline.c:`pull_dl_task()`, v6.12. A running task of another class there is in nobody's way.
pub fn pull_dl_task<F: DeadlineFacts>(facts: &F, task: &DlTask<'_>, this_cpu: usize, pulled: Option<u64>) -> bool {
    let deadline = task.claim.deadline;
    pulled.is_none_or(|pulled| dl_time_before(deadline, pulled))
        && is_earliest(facts, task, this_cpu)
        && !facts.curr(task.cpu).is_some_and(|curr| dl_time_before(deadline, curr.claim.deadline))
}

/// Whether a task that wakes with the deadline of the running task, `curr`, has that one rescheduled: if only that one can go
/// elsewhere.
///
/// kernel/sched/deadline.c:`check_preempt_equal_dl()`, v6.12.
pub fn check_preempt_equal_dl<F: DeadlineFacts>(facts: &F, curr: &DlTask<'_>, task: &DlTask<'_>) -> bool {
    let moves = |task: &DlTask<'_>| task.nr_cpus_allowed > 1 && cpudl_later(facts, task).is_some();
    moves(curr) && !moves(task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_preempts_everyone() {
        let worker = DlClaim { deadline: 100, is_sugov: true };
        let urgent = DlClaim { deadline: 1, is_sugov: false };
        assert!(worker.preempts(&urgent));
        assert!(worker.preempts(&worker));
        assert!(urgent.preempts(&worker), "a later deadline gives way, special or not");
        assert!(!urgent.preempts(&urgent));
    }

    /// Four CPUs in two pairs that share a cache.
    struct Machine {
        free: CpuMask,
        earliest: Vec<Option<u64>>,
        curr: Vec<Option<DlCurr>>,
        all: Vec<u64>,
        pairs: [Vec<u64>; 2],
    }

    impl Machine {
        /// The deadlines of the running tasks, which may go anywhere; each is the earliest of its CPU.
        fn new(running: [Option<u64>; 4]) -> Self {
            let mut free = CpuMask::with_room(4);
            (0..4).for_each(|cpu| free.set(cpu, running[cpu].is_none()));
            let runs = |deadline| DlCurr { claim: DlClaim { deadline, is_sugov: false }, nr_cpus_allowed: 4 };
            let curr = running.map(|deadline| deadline.map(runs)).to_vec();
            Self { free, earliest: running.to_vec(), curr, all: vec![0xf], pairs: [vec![0x3], vec![0xc]] }
        }
    }

    impl DeadlineFacts for Machine {
        fn free(&self) -> CpuSet<'_> {
            self.free.as_set()
        }
        fn latest(&self) -> Option<(usize, u64)> {
            (0..4)
                .filter_map(|cpu| self.earliest[cpu].map(|deadline| (cpu, deadline)))
                .max_by_key(|&(_, deadline)| deadline)
        }
        fn earliest_deadline(&self, cpu: usize) -> Option<u64> {
            self.earliest[cpu]
        }
        fn curr(&self, cpu: usize) -> Option<DlCurr> {
            self.curr[cpu]
        }
        fn capacity_orig(&self, _cpu: usize) -> u64 {
            1024
        }
        fn asym_active(&self) -> bool {
            false
        }
        fn domain(&self, cpu: usize, level: usize) -> Option<(CpuSet<'_>, u32)> {
            match level {
                0 => Some((CpuSet::new(&self.pairs[cpu / 2]), SD_WAKE_AFFINE)),
                1 => Some((CpuSet::new(&self.all), SD_WAKE_AFFINE)),
                _ => None,
            }
        }
    }

    fn waiting(cpu: usize, deadline: u64, allowed: &[u64]) -> DlTask<'_> {
        let (allowed, claim) = (CpuSet::new(allowed), DlClaim { deadline, is_sugov: false });
        DlTask { cpu, allowed, nr_cpus_allowed: allowed.weight(), claim, density: 0 }
    }

    #[test]
    fn a_task_is_pushed_where_it_runs_earlier() {
        let check = |running: [Option<u64>; 4], deadline, allowed: u64, expected| {
            let machine = Machine::new(running);
            let found =
                push_dl_task(&machine, &waiting(0, deadline, &[allowed]), 0, &mut 0, &mut CpuMask::with_room(4));
            assert_eq!(found, expected, "{deadline} beside {running:?}");
        };
        // A CPU without deadline tasks, near before far.
        check([Some(50), None, None, None], 90, 0xf, DlPush::To(1));
        check([Some(50), Some(60), None, None], 90, 0xf, DlPush::To(2));
        check([Some(50), None, None, None], 90, 0x9, DlPush::To(3));
        // The latest of all, if it is later.
        check([Some(50), Some(60), Some(99), Some(70)], 90, 0xf, DlPush::To(2));
        check([Some(50), Some(60), Some(70), Some(80)], 90, 0xf, DlPush::Stays);
        check([Some(50), Some(60), Some(99), Some(95)], 90, 0xb, DlPush::Stays); // Only the very latest is looked at.
        check([Some(50), None, None, None], 90, 0x1, DlPush::Stays);
        // It goes first here, and who runs can go.
        check([Some(50), None, None, None], 40, 0xf, DlPush::Resched);
    }

    #[test]
    fn who_can_not_go_is_no_reason_to_wait() {
        let mut machine = Machine::new([Some(50), None, None, None]);
        machine.curr[0] = machine.curr[0].map(|curr| DlCurr { nr_cpus_allowed: 1, ..curr });
        let all = [0xf];
        let task = waiting(0, 40, &all);
        assert!(task_woken_dl(&task, machine.curr[0]));
        assert_eq!(push_dl_task(&machine, &task, 0, &mut 0, &mut CpuMask::with_room(4)), DlPush::To(1));
        let roaming = Machine::new([Some(50), None, None, None]).curr[0];
        assert!(!task_woken_dl(&task, roaming), "it preempts");
        assert!(task_woken_dl(&waiting(0, 50, &all), roaming));
        assert!(!task_woken_dl(&waiting(0, 50, &all), None));
        assert!(!task_woken_dl(&waiting(0, 50, &[1]), roaming));
    }

    #[test]
    fn a_task_is_pulled_where_it_goes_first() {
        let all = [0xf];
        let check = |running: [Option<u64>; 4], deadline, pulled, expected| {
            let pulls = pull_dl_task(&Machine::new(running), &waiting(0, deadline, &all), 3, pulled);
            assert_eq!(pulls, expected, "{deadline} from {running:?}, after {pulled:?}");
        };
        check([Some(50), None, None, None], 90, None, true);
        check([Some(50), None, None, Some(95)], 90, None, true);
        check([Some(50), None, None, Some(90)], 90, None, false);
        check([Some(50), None, None, None], 90, Some(90), false); // Only an earlier one after another.
        check([Some(50), None, None, None], 90, Some(91), true);
        check([Some(50), None, None, None], 40, None, false); // It runs there at once.
        check([None, None, None, None], 40, None, true); // Another class runs there.
    }

    /// Of two with one deadline the running one goes, if the other can not.
    #[test]
    fn equal_deadlines_preempt_for_one_that_is_pinned() {
        let check = |running: [Option<u64>; 4], curr: u64, task: u64, expected| {
            let (curr, task) = ([curr], [task]);
            let machine = Machine::new(running);
            let preempts = check_preempt_equal_dl(&machine, &waiting(0, 50, &curr), &waiting(0, 50, &task));
            assert_eq!(preempts, expected, "{running:?}");
        };
        let later = [Some(50), Some(90), None, None];
        check(later, 0xf, 0x1, true);
        check(later, 0xf, 0xf, false);
        check(later, 0x1, 0x1, false);
        check([Some(50), Some(40), None, None], 0xf, 0x1, false); // Nowhere to go: only CPUs with deadline tasks count.
    }

    #[test]
    fn ratio_of_the_worker() {
        assert_eq!(to_ratio(SUGOV_DEADLINE_NS, SUGOV_RUNTIME_NS), (1 << BW_SHIFT) / 10);
        assert_eq!(to_ratio(0, 1), 0);
    }
}
