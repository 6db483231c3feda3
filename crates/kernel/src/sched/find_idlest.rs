//! The slow path: where a new task starts and where an exec goes (kernel/sched/fair.c: `sched_balance_find_dst_cpu()`, named
//! `find_idlest_cpu()` up to v6.9; followed as of v6.12).
//!
//! From the widest domain down, the group with the most room is chosen, then a CPU in it. The task's own load is left out of
//! what it looks at. How groups were compared before is [`IdlestGroup`]'s. Not followed: core scheduling and NUMA balancing.

use super::find_idlest_v54::find_idlest_group_v54;
use super::fitness::util_fits_cpu;
use super::group::{DomainView, GroupType, SchedGroup, SgLbStats, adjust_numa_imbalance};
use super::group_sums::GroupSum;
use super::idlest_facts::{IdlestFacts, IdlestTask};
use super::sd_flags::{SD_ASYM_CPUCAPACITY, SD_NUMA};
use crate::profile::IdlestGroup;

/// The statistics of a group for the slow path, over the CPUs that the task may use.
///
/// kernel/sched/fair.c:`update_sg_wakeup_stats()`, v6.12.
#[inline]
pub fn update_sg_wakeup_stats<F: IdlestFacts>(
    facts: &F,
    domain: &DomainView<'_>,
    group: &SchedGroup,
    task: &IdlestTask<'_>,
) -> SgLbStats {
    let is_kept = |_: &&GroupSum| {
        let span = group.span.as_set();
        !(domain.has(SD_ASYM_CPUCAPACITY) || task.is_attached && span.contains(task.cpu))
            && span.is_subset(task.allowed)
    };
    let mut stats = match facts.group_sum(group.sgc).filter(is_kept) {
        Some(sum) => {
            let stats = sum.stats(sum.idle_without);
            debug_assert_eq!(stats, sum_for_wakeup(facts, domain, group, task), "kept sums");
            stats
        }
        None => sum_for_wakeup(facts, domain, group, task),
    };
    let sgc = facts.group_capacity(group.sgc);
    stats.group_capacity = sgc.capacity;
    stats.group_weight = group.weight;
    stats.group_type = stats.group_classify(domain.imbalance_pct, sgc.imbalance);
    if matches!(stats.group_type, GroupType::FullyBusy | GroupType::Overloaded) {
        stats.avg_load = stats.load_by_capacity();
    }
    stats
}

/// The sums over the CPUs of a group (kernel/sched/fair.c:`update_sg_wakeup_stats()`, v6.12).
#[inline(never)]
fn sum_for_wakeup<F: IdlestFacts>(
    facts: &F,
    domain: &DomainView<'_>,
    group: &SchedGroup,
    task: &IdlestTask<'_>,
) -> SgLbStats {
    let asym = domain.has(SD_ASYM_CPUCAPACITY);
    let mut stats = SgLbStats { group_misfit_task_load: u64::from(asym), ..SgLbStats::default() };
    let span = group.span.as_set();
    for cpu in span.iter().filter(|&cpu| task.allowed.contains(cpu)) {
        let load = facts.cpu(cpu);
        let (mut own_load, mut own_runnable) = (0, 0);
        let mut running = 0;
        if task.contributes_to(cpu) {
            (own_load, own_runnable) = (task.h_load, task.runnable_avg);
            running = u32::from(task.on_rq);
        }
        stats.group_load = stats.group_load.wrapping_add(load.load.saturating_sub(own_load));
        stats.group_util = stats.group_util.wrapping_add(task.cpu_util_without(cpu, &load));
        stats.group_runnable = stats.group_runnable.wrapping_add(load.runnable.saturating_sub(own_runnable));
        stats.sum_h_nr_running = stats.sum_h_nr_running.wrapping_add(load.h_nr_queued.wrapping_sub(running));
        let nr_running = load.nr_running.wrapping_sub(running);
        stats.sum_nr_running = stats.sum_nr_running.wrapping_add(nr_running);
        if nr_running == 0 && facts.is_idle_without_task(cpu) {
            stats.idle_cpus += 1;
        }
        if stats.group_misfit_task_load != 0
            && util_fits_cpu(task.util_avg.max(task.util_est), task.clamps, &load.capacity) > 0
        {
            stats.group_misfit_task_load = 0;
        }
    }
    stats
}

/// Whether a candidate beats the best group so far (`update_pick_idlest()`, v6.12, and v5.5 for [`IdlestGroup::Types`]).
#[inline]
fn update_pick_idlest(
    best: &SgLbStats,
    candidate: &SgLbStats,
    form: IdlestGroup,
    has_bigger_cpu: impl FnOnce() -> bool,
) -> bool {
    if candidate.group_type != best.group_type {
        return candidate.group_type < best.group_type;
    }
    match candidate.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => candidate.avg_load < best.avg_load,
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
        GroupType::MisfitTask => has_bigger_cpu(),
        GroupType::HasSpare => {
            candidate.idle_cpus > best.idle_cpus
                || (form != IdlestGroup::Types
                    && candidate.idle_cpus == best.idle_cpus
                    && candidate.group_util < best.group_util)
        }
    }
}

/// The group to go to, `None` to stay in the local one; [`find_idlest_group_v54`] is what [`IdlestGroup::Loads`] has instead.
///
/// kernel/sched/fair.c:`sched_balance_find_dst_group()`, v6.12; `find_idlest_group()`, v5.5 and v5.9, for the other forms.
pub fn sched_balance_find_dst_group<'a, F: IdlestFacts>(
    facts: &F,
    domain: &DomainView<'a>,
    task: &IdlestTask<'_>,
    this_cpu: usize,
    form: IdlestGroup,
) -> Option<&'a SchedGroup> {
    let mut best_stats =
        SgLbStats { avg_load: u32::MAX.into(), group_type: GroupType::Overloaded, ..SgLbStats::default() };
    let mut best: Option<&SchedGroup> = None;
    let mut local = None;
    let max_capacity = |group: &SchedGroup| facts.group_capacity(group.sgc).max_capacity;
    for group in domain.ring() {
        let span = group.span.as_set();
        if !span.intersects(task.allowed) {
            continue;
        }
        let stats = update_sg_wakeup_stats(facts, domain, group, task);
        let has_bigger_cpu = || max_capacity(group) > best.map_or(0, max_capacity);
        if span.contains(this_cpu) {
            local = Some((group, stats));
        } else if update_pick_idlest(&best_stats, &stats, form, has_bigger_cpu) {
            best = Some(group);
            best_stats = stats;
        }
    }
    let best = best?;
    let Some((local_group, local)) = local else { return Some(best) };
    if local.group_type != best_stats.group_type {
        return (local.group_type > best_stats.group_type).then_some(best);
    }
    let goes = match local.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => {
            let (local_load, best_load) = (local.avg_load, best_stats.avg_load);
            let pct = u64::from(domain.imbalance_pct);
            let imbalance = 1024 * u64::from(domain.imbalance_pct.wrapping_sub(100)) / 100;
            let stays_for_numa = domain.has(SD_NUMA) && best_load.wrapping_add(imbalance) >= local_load;
            !stays_for_numa
                && best_load < local_load.wrapping_add(imbalance)
                && local_load.wrapping_mul(100) > pct.wrapping_mul(best_load)
        }
        GroupType::Imbalanced | GroupType::AsymPacking | GroupType::SmtBalance => false,
        GroupType::MisfitTask => max_capacity(best) > max_capacity(local_group),
        GroupType::HasSpare => {
            let (local_idle, best_idle) = (local.idle_cpus, best_stats.idle_cpus);
            let tolerates = |local_group: &SchedGroup| {
                let mut imb_numa_nr = domain.imb_numa_nr;
                if !task.is_unrestricted {
                    imb_numa_nr = imb_numa_nr.min(local_group.span.as_set().weight_and(task.allowed));
                }
                let difference = local_idle.wrapping_sub(best_idle) as i32;
                let running = local.sum_nr_running.wrapping_add(1);
                adjust_numa_imbalance(difference.wrapping_abs(), running, imb_numa_nr as i32) == 0
            };
            let stays_for_numa = domain.has(SD_NUMA)
                && match form {
                    IdlestGroup::NumaImbalance => tolerates(local_group),
                    // A task stays on its node while that has an idle CPU; balance may move it later.
                    _ => local_idle != 0,
                };
            !stays_for_numa && local_idle < best_idle
        }
    };
    goes.then_some(best)
}

/// The CPU to take in a group: a CPU with nothing but `SCHED_IDLE` tasks at once; else the idle one that wakes fastest, of
/// equals the one that became idle last; else the least loaded. `this_cpu` if the task may use none.
///
/// kernel/sched/fair.c:`sched_balance_find_dst_group_cpu()`, v6.12.
pub fn sched_balance_find_dst_group_cpu<F: IdlestFacts>(
    facts: &F,
    group: &SchedGroup,
    task: &IdlestTask<'_>,
    this_cpu: usize,
    form: IdlestGroup,
) -> usize {
    let span = group.span.as_set();
    if group.weight == 1 {
        return span.first().unwrap_or(this_cpu);
    }
    let (mut min_load, mut min_exit_latency, mut latest_stamp) = (u64::MAX, u32::MAX, 0);
    let mut least_loaded = this_cpu;
    let mut shallowest = None;
    for cpu in span.iter().filter(|&cpu| task.allowed.contains(cpu)) {
        if facts.is_sched_idle(cpu) {
            return cpu;
        }
        if facts.is_idle(cpu) {
            let info = facts.idle_info(cpu);
            let is_faster = info.exit_latency_us.is_some_and(|latency| latency < min_exit_latency);
            let is_as_fast = info.exit_latency_us.is_none_or(|latency| latency == min_exit_latency);
            if is_faster || (is_as_fast && info.idle_stamp > latest_stamp) {
                if is_faster {
                    min_exit_latency = info.exit_latency_us.unwrap_or(min_exit_latency);
                }
                latest_stamp = info.idle_stamp;
                shallowest = Some(cpu);
            }
        } else if shallowest.is_none() {
            let load = match form {
                IdlestGroup::Loads => facts.runnable_load(cpu),
                _ => facts.cpu(cpu).load,
            };
            if load < min_load {
                (min_load, least_loaded) = (load, cpu);
            }
        }
    }
    shallowest.unwrap_or(least_loaded)
}

/// The level at which the search starts: the widest domain of `this_cpu` below the first one without `sd_flag`
/// (`SD_BALANCE_FORK` or `SD_BALANCE_EXEC`); `None` if the lowest has no such flag.
///
/// kernel/sched/fair.c:`select_task_rq_fair()`, v6.12, without `WF_TTWU`.
pub fn top_level<F: IdlestFacts>(facts: &F, this_cpu: usize, sd_flag: u32) -> Option<usize> {
    let mut top = None;
    for level in 0..facts.n_levels() {
        match facts.domain(this_cpu, level) {
            None => {}
            Some(domain) if domain.has(sd_flag) => top = Some(level),
            Some(_) => break,
        }
    }
    top
}

/// The CPU for a new task (`SD_BALANCE_FORK`) or for an exec (`SD_BALANCE_EXEC`), from the domain of `this_cpu` at `level` down.
///
/// A task that sleeps elsewhere must be in step with its queue (`sync_entity_load_avg()`) before an exec.
/// kernel/sched/fair.c:`sched_balance_find_dst_cpu()`, v6.12.
pub fn sched_balance_find_dst_cpu<F: IdlestFacts>(
    facts: &F,
    task: &IdlestTask<'_>,
    level: usize,
    this_cpu: usize,
    prev_cpu: usize,
    sd_flag: u32,
    form: IdlestGroup,
) -> usize {
    let (mut cpu, mut new_cpu) = (this_cpu, this_cpu);
    let mut at = Some(level);
    let mut is_first = true;
    while let Some(level) = at {
        let below = level.checked_sub(1);
        let Some(domain) = facts.domain(cpu, level) else {
            at = below;
            continue;
        };
        if std::mem::take(&mut is_first) && !domain.span.intersects(task.allowed) {
            return prev_cpu;
        }
        at = below;
        if !domain.has(sd_flag) {
            continue;
        }
        let group = match form {
            IdlestGroup::Loads => find_idlest_group_v54(facts, &domain, task, cpu, sd_flag),
            _ => sched_balance_find_dst_group(facts, &domain, task, cpu, form),
        };
        let Some(group) = group else { continue };
        new_cpu = sched_balance_find_dst_group_cpu(facts, group, task, cpu, form);
        if new_cpu == cpu {
            continue;
        }
        // Go on below, in the domains of the CPU that was found.
        cpu = new_cpu;
        let is_below =
            |level: &usize| facts.domain(cpu, *level).is_none_or(|smaller| smaller.span_weight < domain.span_weight);
        at = (0..facts.n_levels())
            .take_while(is_below)
            .filter(|&level| facts.domain(cpu, level).is_some_and(|smaller| smaller.has(sd_flag)))
            .last();
    }
    new_cpu
}
