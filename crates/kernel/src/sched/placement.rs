//! Where a waking task goes when energy does not decide (kernel/sched/fair.c: `select_task_rq_fair()` and below, v6.12).
//!
//! Pure decisions: what the run queues hold comes in through [`SiblingFacts`], which an engine implements over its own state,
//! so that nothing is copied or allocated in a wake-up. Idle CPUs come as bitmaps; a last-level cache is scanned by words.
//! The slow path of fork and exec is in [`super::find_idlest`], energy-aware placement in `eas`.
//! Not followed: L2 clusters as scheduling groups (`sched_cluster_active`), core scheduling, NUMA balancing's preferred nodes.

use super::cpumask::{CpuSet, cpus_of_word};
pub use super::fitness::*;
use super::group::DomainView;
use super::sd_flags::SD_WAKE_AFFINE;

/// How often a task wakes different tasks (`task_struct::last_wakee`, `wakee_flips`, `wakee_flip_decay_ts`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeFlips {
    /// The task woken last.
    pub last_wakee: Option<u32>,
    /// Changes of wakee, halved once a second.
    pub flips: u32,
    /// When the count was halved last, in jiffies.
    pub decay_ts: u64,
}

impl WakeFlips {
    /// The waker notes whom it wakes.
    ///
    /// kernel/sched/fair.c:`record_wakee()`, v6.12: at most one halving however long ago the last one was.
    #[inline]
    pub fn record_wakee(&mut self, wakee: u32, jiffies: u64, hz: u64) {
        if (jiffies.wrapping_sub(self.decay_ts.wrapping_add(hz)) as i64) > 0 {
            self.flips >>= 1;
            self.decay_ts = jiffies;
        }
        if self.last_wakee != Some(wakee) {
            self.last_wakee = Some(wakee);
            self.flips = self.flips.wrapping_add(1);
        }
    }
}

/// Whether waker and wakee form a one-to-many group that is better spread than pulled together.
///
/// kernel/sched/fair.c:`wake_wide()`, v6.12; `llc_size` is `sd_llc_size` of the waking CPU.
#[inline]
pub fn wake_wide(waker_flips: u32, wakee_flips: u32, llc_size: u32) -> bool {
    let (slave, master) = (waker_flips.min(wakee_flips), waker_flips.max(wakee_flips));
    slave >= llc_size && master >= slave.wrapping_mul(llc_size)
}

/// What `wake_affine()` looks at; `this` is the waking CPU, `prev` the one where the task ran last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeAffineFacts {
    /// The waking CPU is idle (a wake-up from an interrupt).
    pub this_idle: bool,
    /// The previous CPU is idle.
    pub prev_idle: bool,
    /// Both share a last-level cache.
    pub share_cache: bool,
    /// The waker announces that it will sleep at once (`WF_SYNC`).
    pub sync: bool,
    /// Runnable tasks on the waking CPU, the waker included.
    pub nr_running_this: u32,
    /// Entities among them that sleep with a delayed dequeue (`cfs_h_nr_delayed()`).
    pub nr_delayed_this: u32,
    /// `cpu_load()` (cfs `load_avg`) of the waking CPU.
    pub this_load: u64,
    /// `cpu_load()` of the previous CPU.
    pub prev_load: u64,
    /// `task_h_load()` of the woken task.
    pub task_load: u64,
    /// `task_h_load()` of the waker.
    pub current_load: u64,
    /// `capacity_of()` the waking CPU.
    pub this_capacity: u64,
    /// `capacity_of()` the previous CPU.
    pub prev_capacity: u64,
    /// `imbalance_pct` of the domain that holds both CPUs.
    pub imbalance_pct: u32,
    /// A task stays with an idle previous CPU, whoever wakes it (v5.11).
    pub stays_on_idle_prev: bool,
}

/// Which rule of `wake_affine()` decided, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeAffineRule {
    /// The waking CPU is idle and shares the cache: stay on an idle previous CPU, or take the waking one.
    ThisIdle,
    /// The waker is alone and about to sleep.
    SyncAlone,
    /// The previous CPU is idle.
    PrevIdle,
    /// The waker's load is all there is on its CPU and leaves with it.
    SyncLoad,
    /// The loads with the task moved were compared.
    Weight,
}

/// Whether the search for an idle CPU starts at the waking CPU (`true`) or at the previous one, and why.
///
/// The weights are compared as signed 64-bit products that wrap; the load of a task may exceed that of the queue it left.
///
/// kernel/sched/fair.c:`wake_affine()`, `wake_affine_idle()`, `wake_affine_weight()`, v6.12 with the features `WA_IDLE`,
/// `WA_WEIGHT` and `WA_BIAS`.
#[inline]
pub fn wake_affine(facts: &WakeAffineFacts) -> (bool, WakeAffineRule) {
    if facts.this_idle && facts.share_cache {
        return (!facts.prev_idle, WakeAffineRule::ThisIdle);
    }
    if facts.sync && facts.nr_running_this.wrapping_sub(facts.nr_delayed_this) == 1 {
        return (true, WakeAffineRule::SyncAlone);
    }
    if facts.prev_idle && facts.stays_on_idle_prev {
        return (false, WakeAffineRule::PrevIdle);
    }

    let mut this_load = facts.this_load as i64;
    if facts.sync {
        if facts.current_load as i64 > this_load {
            return (true, WakeAffineRule::SyncLoad);
        }
        this_load = this_load.wrapping_sub(facts.current_load as i64);
    }
    let this_eff =
        this_load.wrapping_add(facts.task_load as i64).wrapping_mul(100).wrapping_mul(facts.prev_capacity as i64);
    let bias = 100 + i64::from(facts.imbalance_pct.wrapping_sub(100) / 2);
    let mut prev_eff = (facts.prev_load as i64)
        .wrapping_sub(facts.task_load as i64)
        .wrapping_mul(bias)
        .wrapping_mul(facts.this_capacity as i64);
    if facts.sync {
        prev_eff = prev_eff.wrapping_add(1);
    }
    (this_eff < prev_eff, WakeAffineRule::Weight)
}

/// The domain whose `imbalance_pct` compares the loads in [`wake_affine`]: of the waking CPU's domains, the lowest first, the
/// first one that allows it and holds `prev`. `None` means that the task stays with `prev`.
///
/// kernel/sched/fair.c:`select_task_rq_fair()`, v6.12, the walk for a task that may be pulled to the waking CPU.
#[inline]
pub fn affine_domain<'a>(mut domains: impl Iterator<Item = DomainView<'a>>, prev: usize) -> Option<DomainView<'a>> {
    domains.find(|domain| domain.has(SD_WAKE_AFFINE) && domain.span.contains(prev))
}

/// The machine's state as `select_idle_sibling()` reads it.
pub trait SiblingFacts {
    /// CPUs with nothing to run and no wake-up on its way (`available_idle_cpu()`).
    fn idle(&self) -> CpuSet<'_>;
    /// [`SiblingFacts::idle`] and the CPUs that run nothing but `SCHED_IDLE` tasks (`sched_idle_cpu()`).
    fn idle_or_sched_idle(&self) -> CpuSet<'_>;
    /// The span of `cpu`'s last-level-cache domain (`sd_llc`), `None` if it has no domain.
    fn llc_span(&self, cpu: usize) -> Option<CpuSet<'_>>;
    /// `cpus_share_cache()`: equal `sd_llc_id`.
    fn share_cache(&self, one: usize, other: usize) -> bool;
    /// The hardware threads of `cpu`'s core, `cpu` included (`cpu_smt_mask()`).
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_>;
    /// Whether the machine has more than one hardware thread a core (`sched_smt_active()`).
    fn smt_active(&self) -> bool;
    /// Whether `cpu`'s cache is marked as holding a fully idle core (`test_idle_cores()`); asked only with SMT.
    fn has_idle_cores(&self, cpu: usize) -> bool;
    /// How many CPUs of `cpu`'s cache a search may look at: `nr_idle_scan` (`SIS_UTIL`, v5.19) or what [`SisProp`] allows (before).
    /// `None` if there is no shared state, which means no limit.
    fn nr_idle_scan(&self, cpu: usize) -> Option<u32>;
    /// The span of the lowest domain of `cpu` with CPUs of different capacity (`sd_asym_cpucapacity`), on a machine that
    /// has such (`sched_asym_cpucap_active()`).
    fn asym_span(&self, cpu: usize) -> Option<CpuSet<'_>>;
    /// Whether any CPU of the machine differs in capacity.
    fn asym_active(&self) -> bool;
    /// The capacity of `cpu`; asked only if [`SiblingFacts::asym_active`].
    fn capacity(&self, cpu: usize) -> CpuCapacity;
}

/// The wake-up that `select_idle_sibling()` serves.
#[derive(Clone, Copy, Debug)]
pub struct SiblingQuery<'a> {
    /// Where the task ran last.
    pub prev: usize,
    /// What [`wake_affine`] chose.
    pub target: usize,
    /// `task_struct::recent_used_cpu`.
    pub recent_used_cpu: usize,
    /// The CPUs that the task may use.
    pub allowed: CpuSet<'a>,
    /// `task_util_est()`; used with different capacities.
    pub util: u64,
    /// The task's clamps, `None` if nobody uses clamps.
    pub clamps: Option<Clamps>,
    /// The CPU on which the wake-up runs.
    pub this_cpu: usize,
    /// The waker is a kernel thread bound to one CPU and runs in task context.
    pub this_is_per_cpu_kthread: bool,
    /// Runnable tasks on the waking CPU.
    pub this_nr_running: u32,
}

/// Which rule of `select_idle_sibling()` decided, for `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingRule {
    /// The target was idle.
    TargetIdle,
    /// The previous CPU was idle and shares the target's cache.
    PrevIdle,
    /// A bound kernel thread wakes the task that waited for it.
    PerCpuKthread,
    /// The CPU used before the previous one was idle.
    RecentIdle,
    /// The search over CPUs of different capacity answered.
    Capacity,
    /// An idle sibling of the previous CPU's core.
    IdleSmt,
    /// A fully idle core.
    IdleCore,
    /// An idle CPU of the cache.
    IdleCpu,
    /// Nothing idle was found: the target itself.
    Target,
}

/// What `select_idle_sibling()` decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiblingChoice {
    /// The CPU.
    pub cpu: usize,
    /// The new value of `task_struct::recent_used_cpu`.
    pub recent_used_cpu: usize,
    /// The search for an idle core failed: clear the flag of the target's cache (`set_idle_cores(target, false)`).
    pub clear_idle_cores: bool,
    /// CPUs that the search for any idle CPU looked at, if the limit did not end it; else 0. Up to v5.18 such a search enters the
    /// average cost of scans ([`SisProp::scanned`]).
    pub nr_scanned: u32,
    /// Why.
    pub rule: SiblingRule,
}

/// An idle CPU near `target` for a waking task, or `target` itself.
///
/// kernel/sched/fair.c:`select_idle_sibling()`, v6.12, with the feature `SIS_UTIL` and without L2 clusters. v5.13 to v5.18 search
/// the same way within another limit ([`SisProp`]).
#[inline]
pub fn select_idle_sibling<F: SiblingFacts>(facts: &F, query: &SiblingQuery<'_>) -> SiblingChoice {
    let SiblingQuery { prev, target, recent_used_cpu: recent, .. } = *query;
    let asym = facts.asym_active();
    let idle_like = facts.idle_or_sched_idle();
    let usable = |cpu: usize| {
        idle_like.contains(cpu) && (!asym || util_fits_cpu(query.util, query.clamps, &facts.capacity(cpu)) > 0)
    };
    let mut choice = SiblingChoice {
        cpu: target,
        recent_used_cpu: recent,
        clear_idle_cores: false,
        nr_scanned: 0,
        rule: SiblingRule::Target,
    };
    let chosen = |mut choice: SiblingChoice, cpu: usize, rule: SiblingRule| {
        choice.cpu = cpu;
        choice.rule = rule;
        choice
    };

    if usable(target) {
        return chosen(choice, target, SiblingRule::TargetIdle);
    }
    if prev != target && facts.share_cache(prev, target) && usable(prev) {
        return chosen(choice, prev, SiblingRule::PrevIdle);
    }
    if query.this_is_per_cpu_kthread
        && prev == query.this_cpu
        && query.this_nr_running <= 1
        && (!asym || util_fits_cpu(query.util, query.clamps, &facts.capacity(prev)) > 0)
    {
        return chosen(choice, prev, SiblingRule::PerCpuKthread);
    }
    choice.recent_used_cpu = prev;
    if recent != prev
        && recent != target
        && facts.share_cache(recent, target)
        && query.allowed.contains(recent)
        && usable(recent)
    {
        return chosen(choice, recent, SiblingRule::RecentIdle);
    }
    if asym && let Some(span) = facts.asym_span(target) {
        return match select_idle_capacity(facts, query, span) {
            Some(cpu) => chosen(choice, cpu, SiblingRule::Capacity),
            None => choice,
        };
    }
    let Some(span) = facts.llc_span(target) else { return choice };
    let has_idle_core = facts.smt_active() && facts.has_idle_cores(target);
    if facts.smt_active() && !has_idle_core && facts.share_cache(prev, target) {
        let sibling = facts.smt_mask(prev).first_in(|index, _| {
            let others = if prev / 64 == index { !(1u64 << (prev % 64)) } else { u64::MAX };
            idle_like.word(index) & span.word(index) & query.allowed.word(index) & others
        });
        if let Some(cpu) = sibling {
            return chosen(choice, cpu, SiblingRule::IdleSmt);
        }
    }
    // An overloaded cache is not worth a scan, whatever that flag claims.
    let limit = facts.nr_idle_scan(target);
    if limit == Some(0) {
        return choice;
    }
    if has_idle_core {
        let (core, idle_cpu) = select_idle_core(facts, query, span, target.wrapping_add(1));
        if let Some(cpu) = core {
            return chosen(choice, cpu, SiblingRule::IdleCore);
        }
        choice.clear_idle_cores = true;
        if let Some(cpu) = idle_cpu {
            return chosen(choice, cpu, SiblingRule::IdleCpu);
        }
    } else {
        let (found, nr_scanned) = scan_idle_cpu(span, query.allowed, idle_like, target.wrapping_add(1), limit);
        choice.nr_scanned = nr_scanned;
        if let Some(cpu) = found {
            return chosen(choice, cpu, SiblingRule::IdleCpu);
        }
    }
    choice
}

/// What limits the searches for an idle CPU that one CPU's wake-ups start, up to v5.18 (`SIS_PROP`): the time for which the CPU
/// expects to be idle against what searching costs. Costs are in ns, stamps in jiffies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SisProp {
    /// What a scan cost on average, ns (`avg_scan_cost` of the waking CPU's `sd_llc`).
    pub avg_scan_cost_ns: u64,
    /// What is left of the idle time that the CPU expects, ns (`rq->wake_avg_idle`, v5.14 to v5.18).
    pub wake_avg_idle_ns: u64,
    /// Up to when that has aged (`rq->wake_stamp`).
    pub wake_stamp: u64,
}

impl SisProp {
    /// How many CPUs of a cache with `span_weight` may be looked at if `idle_ns` may go into scanning them, at least 3: the
    /// counter starts at 4 and stops before the last.
    ///
    /// kernel/sched/fair.c:`select_idle_cpu()`, v5.10 and v5.15.
    fn nr(&self, span_weight: u32, idle_ns: u64) -> u32 {
        let cost = self.avg_scan_cost_ns.wrapping_add(1);
        let span_avg = u64::from(span_weight).wrapping_mul(idle_ns);
        let nr = if span_avg > cost.wrapping_mul(4) { span_avg.checked_div(cost).unwrap_or(4) as i32 } else { 4 };
        // A counter that starts at 0 or below does not meet 0 before it wraps.
        if nr <= 0 { u32::MAX } else { nr as u32 - 1 }
    }

    /// The limit of v4.17 to v5.13: a 512th of the CPU's average idle time (`rq->avg_idle`) may be spent on scanning.
    ///
    /// kernel/sched/fair.c:`select_idle_cpu()`, v5.10.
    #[inline]
    pub fn limit(&self, span_weight: u32, avg_idle_ns: u64) -> u32 {
        self.nr(span_weight, avg_idle_ns / 512)
    }

    /// The limit of v5.14 to v5.18, after [`SisProp::age`]: the idle time that is left.
    ///
    /// kernel/sched/fair.c:`select_idle_cpu()`, v5.15.
    #[inline]
    pub fn limit_aged(&self, span_weight: u32) -> u32 {
        self.nr(span_weight, self.wake_avg_idle_ns)
    }

    /// A CPU that has been busy since then expects half as long an idle period with each jiffy.
    ///
    /// kernel/sched/fair.c:`select_idle_cpu()`, v5.15. The stamp stops where nothing is left, as in the kernel.
    #[inline]
    pub fn age(&mut self, jiffies: u64) {
        while self.wake_stamp < jiffies && self.wake_avg_idle_ns != 0 {
            self.wake_stamp += 1;
            self.wake_avg_idle_ns >>= 1;
        }
    }

    /// A wake-up ended an idle period of the CPU, whose average is now `avg_idle_ns`.
    ///
    /// kernel/sched/core.c:`ttwu_do_wakeup()`, v5.15.
    #[inline]
    pub fn idle_ended(&mut self, avg_idle_ns: u64, jiffies: u64) {
        self.wake_stamp = jiffies;
        self.wake_avg_idle_ns = avg_idle_ns / 2;
    }

    /// A scan took `cost_ns`: the average moves by an eighth of the difference, and the time is gone.
    ///
    /// kernel/sched/fair.c:`select_idle_cpu()`, v5.15; before v5.14 nothing reads what is left.
    #[inline]
    pub fn scanned(&mut self, cost_ns: u64) {
        self.wake_avg_idle_ns = self.wake_avg_idle_ns.saturating_sub(cost_ns);
        let diff = cost_ns.wrapping_sub(self.avg_scan_cost_ns) as i64;
        self.avg_scan_cost_ns = self.avg_scan_cost_ns.wrapping_add((diff / 8) as u64);
    }
}

/// `select_idle_sibling()` as 5.10 has it: an idle core, then an idle CPU of the cache within the limit, then an idle thread of the
/// target's core. The scans start at the target.
///
/// [`SiblingFacts::nr_idle_scan`] is what [`SisProp::limit`] allows; before v5.6 CPUs that the task may not use counted, too.
/// The task's `recent_used_cpu` changes only when it was used; 5.10 also sets the waker's when a wake-up may pull, which is the
/// caller's.
/// kernel/sched/fair.c:`select_idle_sibling()`, v5.10. From public source, without vectors.
pub fn select_idle_sibling_v510<F: SiblingFacts>(facts: &F, query: &SiblingQuery<'_>) -> SiblingChoice {
    let SiblingQuery { prev, target, recent_used_cpu: recent, allowed, .. } = *query;
    let asym = facts.asym_active();
    let idle_like = facts.idle_or_sched_idle();
    let usable = |cpu: usize| {
        idle_like.contains(cpu) && (!asym || util_fits_cpu(query.util, query.clamps, &facts.capacity(cpu)) > 0)
    };
    let choose = |cpu: usize, rule: SiblingRule| SiblingChoice {
        cpu,
        recent_used_cpu: recent,
        clear_idle_cores: false,
        nr_scanned: 0,
        rule,
    };
    if usable(target) {
        return choose(target, SiblingRule::TargetIdle);
    }
    if prev != target && facts.share_cache(prev, target) && usable(prev) {
        return choose(prev, SiblingRule::PrevIdle);
    }
    if query.this_is_per_cpu_kthread && prev == query.this_cpu && query.this_nr_running <= 1 {
        return choose(prev, SiblingRule::PerCpuKthread);
    }
    let is_recent = recent != prev && recent != target && facts.share_cache(recent, target);
    if is_recent && allowed.contains(recent) && usable(recent) {
        return SiblingChoice { recent_used_cpu: prev, ..choose(recent, SiblingRule::RecentIdle) };
    }
    if asym && let Some(span) = facts.asym_span(target) {
        return match select_idle_capacity(facts, query, span) {
            Some(cpu) => choose(cpu, SiblingRule::Capacity),
            None => choose(target, SiblingRule::Target),
        };
    }
    let Some(span) = facts.llc_span(target) else { return choose(target, SiblingRule::Target) };
    let mut clear_idle_cores = false;
    if facts.smt_active() && facts.has_idle_cores(target) {
        if let (Some(cpu), _) = select_idle_core(facts, query, span, target) {
            return choose(cpu, SiblingRule::IdleCore);
        }
        clear_idle_cores = true;
    }
    let (idle_cpu, nr_scanned) = scan_idle_cpu(span, allowed, idle_like, target, facts.nr_idle_scan(target));
    let found = |cpu: usize, rule: SiblingRule| SiblingChoice { clear_idle_cores, nr_scanned, ..choose(cpu, rule) };
    if let Some(cpu) = idle_cpu {
        return found(cpu, SiblingRule::IdleCpu);
    }
    // Where all CPUs of the cache were looked at, those of the core were among them.
    if facts.smt_active() && nr_scanned == 0 {
        let keep = |index: usize, _| match idle_like.word(index) {
            0 => 0,
            idle => idle & span.word(index) & allowed.word(index),
        };
        if let Some(cpu) = facts.smt_mask(target).first_in(keep) {
            return found(cpu, SiblingRule::IdleSmt);
        }
    }
    found(target, SiblingRule::Target)
}

/// The first idle CPU of `span` that is allowed, in wrap order from `start`, if it is among the first `limit` candidates,
/// and how many candidates it looked at; 0 if the limit ended it.
///
/// kernel/sched/fair.c:`select_idle_cpu()`, v6.12, the loop without idle cores; a busy candidate counts as looked at.
#[inline]
fn scan_idle_cpu(
    span: CpuSet<'_>,
    allowed: CpuSet<'_>,
    idle: CpuSet<'_>,
    start: usize,
    limit: Option<u32>,
) -> (Option<usize>, u32) {
    let limit = limit.unwrap_or(u32::MAX);
    let within = |cpu: Option<usize>, looked_at: u32| if looked_at <= limit { (cpu, looked_at) } else { (None, 0) };
    if span.first_in(|index, word| word & allowed.word(index) & idle.word(index)).is_none() {
        // All are looked at in vain, in whatever order.
        return within(None, span.weight_and(allowed));
    }
    let mut looked_at = 0;
    for (index, word) in span.wrap_words(start) {
        let candidates = word & allowed.word(index);
        let hit = candidates & idle.word(index);
        if hit != 0 {
            let bit = hit.trailing_zeros();
            looked_at += (candidates & (u64::MAX >> (63 - bit))).count_ones();
            return within(Some(index * 64 + bit as usize), looked_at);
        }
        looked_at += candidates.count_ones();
    }
    within(None, looked_at)
}

/// A fully idle core, named by its first allowed thread in wrap order from `start`; else the first idle thread met.
///
/// kernel/sched/fair.c:`select_idle_cpu()` with `has_idle_core` and `select_idle_core()`, v6.12. The kernel removes a rejected
/// core from a scratch mask; here a thread is passed over if a thread of its core came before it, which needs no mask.
fn select_idle_core<F: SiblingFacts>(
    facts: &F,
    query: &SiblingQuery<'_>,
    span: CpuSet<'_>,
    start: usize,
) -> (Option<usize>, Option<usize>) {
    let (idle, idle_like) = (facts.idle(), facts.idle_or_sched_idle());
    let is_candidate = |cpu: usize| span.contains(cpu) && query.allowed.contains(cpu);
    let mut idle_cpu = None;
    for (index, word) in span.wrap_words(start) {
        for cpu in cpus_of_word(index, word & query.allowed.word(index)) {
            let threads = facts.smt_mask(cpu);
            let distance = |other: usize| (other < start, other);
            if threads.iter().any(|other| other != cpu && is_candidate(other) && distance(other) < distance(cpu)) {
                continue;
            }
            let mut core_idle = true;
            for thread in threads.iter() {
                if !idle.contains(thread) {
                    core_idle = false;
                    if idle_cpu.is_some() {
                        break;
                    }
                    if idle_like.contains(thread) && is_candidate(thread) {
                        idle_cpu = Some(thread);
                        break;
                    }
                } else if idle_cpu.is_none() && is_candidate(thread) {
                    idle_cpu = Some(thread);
                }
            }
            if core_idle {
                return (Some(cpu), idle_cpu);
            }
        }
    }
    (None, idle_cpu)
}

/// The first idle CPU that fits in wrap order from the target; else the best that does not: one where only the minimum clamp
/// is unmet goes before one that is too small, then the larger capacity.
///
/// kernel/sched/fair.c:`select_idle_capacity()`, v6.12.
fn select_idle_capacity<F: SiblingFacts>(facts: &F, query: &SiblingQuery<'_>, span: CpuSet<'_>) -> Option<usize> {
    let idle_like = facts.idle_or_sched_idle();
    let (mut best_fits, mut best_capacity, mut best_cpu) = (0, 0, None);
    for (index, word) in span.wrap_words(query.target) {
        for cpu in cpus_of_word(index, word & query.allowed.word(index) & idle_like.word(index)) {
            let facts_of_cpu = facts.capacity(cpu);
            let fits = util_fits_cpu(query.util, query.clamps, &facts_of_cpu);
            if fits > 0 {
                return Some(cpu);
            }
            let capacity = if fits < 0 { facts_of_cpu.actual() } else { facts_of_cpu.of };
            if fits < best_fits || (fits == best_fits && capacity > best_capacity) {
                (best_fits, best_capacity, best_cpu) = (fits, capacity, Some(cpu));
            }
        }
    }
    best_cpu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::cpumask::CpuMask;
    use proptest::prelude::*;

    #[test]
    fn flips_halve_once_a_second() {
        let mut flips = WakeFlips { last_wakee: Some(1), flips: 9, decay_ts: 0 };
        flips.record_wakee(1, 250, 250);
        assert_eq!(flips.flips, 9, "exactly one second is not yet more than one");
        flips.record_wakee(2, 251, 250);
        assert_eq!(flips, WakeFlips { last_wakee: Some(2), flips: 5, decay_ts: 251 });
    }

    #[test]
    fn scan_limit_counts_busy_candidates() {
        let span = CpuMask::all(8);
        let idle = CpuMask::one(5);
        let scan = |limit| scan_idle_cpu(span.as_set(), span.as_set(), idle.as_set(), 2, limit).0;
        assert_eq!(scan(Some(3)), None);
        assert_eq!(scan(Some(4)), Some(5));
        assert_eq!(scan(None), Some(5));
    }

    /// Eight CPUs that share a cache, threads n and n + 4 of a core.
    #[derive(Clone, Copy)]
    struct Cache {
        idle: [u64; 1],
        smt: [[u64; 1]; 8],
        has_idle_cores: bool,
        nr_idle_scan: u32,
    }

    impl Cache {
        fn with_idle(idle: u64, has_idle_cores: bool) -> Self {
            let smt = std::array::from_fn(|cpu| [0x11 << (cpu % 4)]);
            Self { idle: [idle], smt, has_idle_cores, nr_idle_scan: 8 }
        }
    }

    impl SiblingFacts for Cache {
        fn idle(&self) -> CpuSet<'_> {
            CpuSet::new(&self.idle)
        }
        fn idle_or_sched_idle(&self) -> CpuSet<'_> {
            CpuSet::new(&self.idle)
        }
        fn llc_span(&self, _cpu: usize) -> Option<CpuSet<'_>> {
            Some(CpuSet::new(&[0xff]))
        }
        fn share_cache(&self, _one: usize, _other: usize) -> bool {
            true
        }
        fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
            CpuSet::new(&self.smt[cpu])
        }
        fn smt_active(&self) -> bool {
            true
        }
        fn has_idle_cores(&self, _cpu: usize) -> bool {
            self.has_idle_cores
        }
        fn nr_idle_scan(&self, _cpu: usize) -> Option<u32> {
            Some(self.nr_idle_scan)
        }
        fn asym_span(&self, _cpu: usize) -> Option<CpuSet<'_>> {
            None
        }
        fn asym_active(&self) -> bool {
            false
        }
        fn capacity(&self, _cpu: usize) -> CpuCapacity {
            CpuCapacity::default()
        }
    }

    fn wake(target: usize) -> SiblingQuery<'static> {
        SiblingQuery {
            prev: target,
            target,
            recent_used_cpu: target,
            allowed: CpuSet::new(&[0xff]),
            util: 0,
            clamps: None,
            this_cpu: target,
            this_is_per_cpu_kthread: false,
            this_nr_running: 2,
        }
    }

    #[test]
    fn versions_look_in_different_orders() {
        let check = |idle, has_idle_cores, expected, expected_v510| {
            let cache = Cache::with_idle(idle, has_idle_cores);
            // An idle time that allows only the shortest scan.
            let short = Cache { nr_idle_scan: SisProp::default().limit(8, 0), ..cache };
            let v510 = select_idle_sibling_v510(&short, &wake(0));
            assert_eq!(select_idle_sibling(&cache, &wake(0)).cpu, expected, "6.12, idle {idle:#x}");
            assert_eq!(v510.cpu, expected_v510, "5.10, idle {idle:#x}");
        };
        check(0b0100_0100, true, 2, 2); // Core 2 is idle.
        check(0b0001_0010, false, 4, 1); // 6.12 takes the sibling of the previous CPU before it scans.
        check(0b0010_0000, false, 5, 0); // Beyond the short scan of 5.10: 0, 1 and 2.
        check(0b0001_0000, false, 4, 4); // 5.10 looks at the sibling last.
        check(0, false, 0, 0);
    }

    #[test]
    fn limit_of_5_10() {
        let check = |avg_scan_cost_ns, avg_idle_ns, expected| {
            let prop = SisProp { avg_scan_cost_ns, ..SisProp::default() };
            assert_eq!(prop.limit(8, avg_idle_ns), expected, "{avg_scan_cost_ns} of {avg_idle_ns}");
        };
        check(0, 0, 3);
        check(999, 512_000, 7);
        check(999, 511 * 512, 3); // 8 * 511 is just above four costs: 4 as well.
        let mut prop = SisProp { avg_scan_cost_ns: 80, ..SisProp::default() };
        prop.scanned(0);
        assert_eq!(prop.avg_scan_cost_ns, 70);
        prop.scanned(71);
        assert_eq!(prop.avg_scan_cost_ns, 70, "the signed division truncates");
    }

    #[test]
    fn expected_idle_time_ages_from_5_14_on() {
        let mut prop = SisProp { avg_scan_cost_ns: 99, ..SisProp::default() };
        prop.idle_ended(8_000, 10);
        assert_eq!(prop.limit_aged(8), 8 * 4_000 / 100 - 1);
        prop.age(10);
        assert_eq!(prop.wake_avg_idle_ns, 4_000, "the jiffy of the wake-up");
        prop.age(12);
        assert_eq!((prop.wake_avg_idle_ns, prop.wake_stamp), (1_000, 12));
        prop.scanned(400);
        assert_eq!((prop.wake_avg_idle_ns, prop.avg_scan_cost_ns), (600, 136));
        prop.age(u64::MAX);
        assert_eq!((prop.wake_avg_idle_ns, prop.wake_stamp), (0, 22), "the stamp stops where nothing is left");
        assert_eq!(prop.limit_aged(8), 3);
    }

    #[test]
    fn only_whole_scans_are_counted() {
        let check = |idle, limit, cpu, nr_scanned| {
            let cache = Cache { nr_idle_scan: limit, ..Cache::with_idle(idle, false) };
            let v510 = select_idle_sibling_v510(&cache, &wake(0));
            assert_eq!((v510.cpu, v510.nr_scanned), (cpu, nr_scanned), "idle {idle:#x} within {limit}");
        };
        check(0b0010_0000, 6, 5, 6);
        check(0b0010_0000, 5, 0, 0); // Cut short.
        check(0, 8, 0, 8);
        check(0, 7, 0, 0);
        check(1, 8, 0, 0); // The target is idle: nothing is searched.
        // The later search starts after the target.
        let cache = Cache { nr_idle_scan: 8, ..Cache::with_idle(0b0010_0000, false) };
        assert_eq!(select_idle_sibling(&cache, &wake(0)).nr_scanned, 5);
    }

    fn capacity_of() -> impl Strategy<Value = CpuCapacity> {
        (0..2048u64, 0..2048u64, 0..1024u64, 0..1024u64).prop_map(|(orig, of, hw_pressure, cpufreq_pressure)| {
            CpuCapacity { orig, of, hw_pressure, cpufreq_pressure }
        })
    }

    proptest! {
        /// More room never turns a fit into a miss, without clamps.
        #[test]
        fn more_capacity_never_costs_fit(capacity in capacity_of(), more in 0..1024u64, util in 0..2048u64) {
            let bigger = CpuCapacity { of: capacity.of + more, ..capacity };
            prop_assert!(util_fits_cpu(util, None, &bigger) >= util_fits_cpu(util, None, &capacity));
        }

        #[test]
        fn any_wake_affine_has_an_answer(loads: [u64; 6], pct: u32, flags: [bool; 5], nr: [u32; 2]) {
            let facts = WakeAffineFacts {
                this_idle: flags[0], prev_idle: flags[1], share_cache: flags[2], sync: flags[3],
                nr_running_this: nr[0], nr_delayed_this: nr[1],
                this_load: loads[0], prev_load: loads[1], task_load: loads[2], current_load: loads[3],
                this_capacity: loads[4], prev_capacity: loads[5], imbalance_pct: pct, stays_on_idle_prev: flags[4],
            };
            let (_, rule) = wake_affine(&facts);
            prop_assert_eq!(rule == WakeAffineRule::ThisIdle, flags[0] && flags[2]);
        }

        /// The scan by words finds what the loop over CPUs finds.
        #[test]
        fn scan_agrees_with_the_loop(
            span: [u64; 3], allowed: [u64; 3], idle: [u64; 3], start in 0usize..193, limit in proptest::option::of(1u32..60),
        ) {
            let (span, allowed, idle) = (CpuSet::new(&span), CpuSet::new(&allowed), CpuSet::new(&idle));
            let mut looked_at = 0;
            let expected = (start..192).chain(0..start.min(192))
                .filter(|&cpu| span.contains(cpu) && allowed.contains(cpu))
                .take_while(|_| { looked_at += 1; limit.is_none_or(|limit| looked_at <= limit) })
                .find(|&cpu| idle.contains(cpu));
            prop_assert_eq!(scan_idle_cpu(span, allowed, idle, start, limit).0, expected);
        }
    }
}
