//! One pass of the load balancer: is it this CPU's turn, which group is busiest, by how much, which queue, which tasks
//! (kernel/sched/fair.c: `sched_balance_rq()`, named `load_balance()` up to v6.9; followed as of v6.12, with what older versions
//! do otherwise as [`BalanceRules`]).
//!
//! Decisions are pure functions over [`BalanceFacts`]; the pass moves tasks through [`BalanceHost`]. When passes happen is in
//! [`super::newidle`]. Nothing is allocated in a steady state: the pass works in a [`BalanceScratch`] that the caller keeps.
//! Not followed: NUMA balancing, core scheduling and bandwidth throttling.

use super::balance_env::{
    BalanceFacts, BalanceHost, BalanceRules, BalanceTask, BalanceTunables, IdleType, Jiffies, LbEnv, MigrationType,
    RootDomain, update_group_capacity,
};
use super::balance_v54::{find_busiest_group_v54, find_busiest_queue_v54};
use super::cpumask::{CpuMask, CpuSet};
use super::fitness::{capacity_greater, fits_capacity, util_fits_cpu};
use super::group::{
    CpuLoad, DomainView, GroupCapacity, GroupType, SchedGroup, SgLbStats, adjust_numa_imbalance, load_by_capacity,
};
use super::group_sums::GroupSum;
use super::sd_flags::{
    SD_ASYM_CPUCAPACITY, SD_ASYM_PACKING, SD_NUMA, SD_PREFER_SIBLING, SD_SHARE_CPUCAPACITY, SD_SHARE_LLC,
};
use crate::profile::{
    ActiveBalance, BalanceGroups, BalanceMargin, DetachLoad, KernelProfile, NewidleBail, SmtCacheHot,
};

/// Buffers that passes use again.
#[derive(Clone, Debug, Default)]
pub struct BalanceScratch {
    cpus: CpuMask,
    detached: Vec<u32>,
}

/// The sums over a domain (`struct sd_lb_stats`).
#[derive(Clone, Copy, Debug)]
pub struct SdLbStats<'a> {
    /// The busiest group, if there is one to pull from, and its sums.
    pub busiest: Option<(&'a SchedGroup, SgLbStats)>,
    /// The local group.
    pub local: Option<&'a SchedGroup>,
    /// The local group's sums.
    pub local_stat: SgLbStats,
    /// The local group's capacities.
    pub local_sgc: GroupCapacity,
    /// All load.
    pub total_load: u64,
    /// All capacity.
    pub total_capacity: u64,
    /// Load by capacity over the domain, times 1024, once it is needed.
    pub avg_load: u64,
    /// Tasks should be spread over the siblings of the busiest group's domain.
    pub prefer_sibling: bool,
}

/// Whether no other thread of `cpu`'s core is busy (`is_core_idle()`).
#[inline]
pub fn is_core_idle<F: BalanceFacts>(facts: &F, cpu: usize) -> bool {
    let idle = facts.idle();
    let busy = |index: usize, word: u64| {
        let others = if index == cpu / 64 { !(1 << (cpu % 64)) } else { u64::MAX };
        word & !idle.word(index) & others
    };
    facts.smt_mask(cpu).first_in(busy).is_none()
}

/// Whether `cpu` may pull by priority in this domain (`sched_use_asym_prio()`).
fn uses_asym_prio<F: BalanceFacts>(facts: &F, sd: &DomainView<'_>, cpu: usize) -> bool {
    sd.has(SD_ASYM_PACKING) && (!facts.smt_active() || sd.has(SD_SHARE_CPUCAPACITY) || is_core_idle(facts, cpu))
}

/// Whether `one` has the higher priority (`sched_asym_prefer()`).
fn prefers<F: BalanceFacts>(facts: &F, one: usize, other: usize) -> bool {
    facts.asym_priority(one) > facts.asym_priority(other)
}

/// The statistics of a group and whether it was seen overloaded and overutilised.
///
/// kernel/sched/fair.c:`update_sg_lb_stats()`, v6.12. `cpus` are the CPUs that take part.
pub fn update_sg_lb_stats<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    cpus: CpuSet<'_>,
    group: &SchedGroup,
    sgc: &GroupCapacity,
    is_local: bool,
) -> (SgLbStats, bool, bool) {
    let tips = facts.energy_aware() && facts.notices_overutilized();
    let sees_misfits = |sum: &&GroupSum| env.sd.has(SD_ASYM_CPUCAPACITY) || env.idle.is_idle() && sum.reduced != 0;
    let is_kept = |sum: &&GroupSum| !tips && (is_local || !sees_misfits(sum)) && group.span.as_set().is_subset(cpus);
    let (mut stats, overloaded, overutilized) = match facts.group_sum(group.sgc).filter(is_kept) {
        Some(sum) => {
            let stats = sum.stats(sum.idle);
            let all = (stats, sum.overloaded != 0, false);
            debug_assert_eq!(all, sum_for_balance(facts, env, cpus, group, is_local, tips), "kept sums");
            all
        }
        None => sum_for_balance(facts, env, cpus, group, is_local, tips),
    };
    stats.group_capacity = sgc.capacity;
    stats.group_weight = group.weight;
    if !is_local && env.idle.is_idle() {
        let is_smt = group.flags & SD_SHARE_CPUCAPACITY != 0;
        let one_busy = stats.group_weight.wrapping_sub(stats.idle_cpus) == 1;
        stats.group_asym_packing = stats.sum_h_nr_running != 0
            && (!is_smt || one_busy)
            && uses_asym_prio(facts, &env.sd, env.dst_cpu)
            && prefers(facts, env.dst_cpu, group.asym_prefer_cpu);
        stats.group_smt_balance = is_smt && stats.sum_h_nr_running > 1 && env.rules.groups >= BalanceGroups::Cores;
    }
    if env.rules.groups < BalanceGroups::Runnable {
        stats.group_runnable = 0;
    }
    stats.group_type = stats.group_classify(env.sd.imbalance_pct, sgc.imbalance);
    if stats.group_type == GroupType::Overloaded {
        stats.avg_load = stats.load_by_capacity();
    }
    (stats, overloaded, overutilized)
}

/// The sums over the CPUs of a group, and whether one is overloaded or, if that `tips` the balance, overutilised
/// (kernel/sched/fair.c:`update_sg_lb_stats()`, v6.12).
fn sum_for_balance<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    cpus: CpuSet<'_>,
    group: &SchedGroup,
    is_local: bool,
    tips: bool,
) -> (SgLbStats, bool, bool) {
    let mut stats = SgLbStats::default();
    let (mut overloaded, mut overutilized) = (false, false);
    let idle = facts.idle();
    for cpu in group.span.as_set().iter().filter(|&cpu| cpus.contains(cpu)) {
        let rq = facts.cpu(cpu);
        stats.group_load = stats.group_load.wrapping_add(rq.load);
        stats.group_util = stats.group_util.wrapping_add(rq.util_cfs());
        stats.group_runnable = stats.group_runnable.wrapping_add(rq.runnable);
        stats.sum_h_nr_running = stats.sum_h_nr_running.wrapping_add(rq.h_nr_queued);
        stats.sum_nr_running = stats.sum_nr_running.wrapping_add(rq.nr_running);
        overloaded |= rq.nr_running > 1;
        overutilized = overutilized || tips && facts.is_overutilized(cpu, &rq);
        if rq.nr_running == 0 && idle.contains(cpu) {
            stats.idle_cpus += 1;
            continue;
        }
        if is_local {
            continue;
        }
        if env.sd.has(SD_ASYM_CPUCAPACITY) {
            if stats.group_misfit_task_load < rq.misfit_task_load {
                stats.group_misfit_task_load = rq.misfit_task_load;
                overloaded = true;
            }
        } else if env.idle.is_idle() && rq.h_nr_queued == 1 && rq.has_reduced_capacity(env.sd.imbalance_pct) {
            stats.group_misfit_task_load = stats.group_misfit_task_load.max(rq.load);
        }
    }
    (stats, overloaded, overutilized)
}

/// Whether one of the groups is an SMT core and the other is not (`smt_vs_nonsmt_groups()`).
fn smt_vs_nonsmt(one: &SchedGroup, other: &SchedGroup) -> bool {
    (one.flags ^ other.flags) & SD_SHARE_CPUCAPACITY != 0
}

/// Whether a candidate is busier than the busiest group so far.
///
/// kernel/sched/fair.c:`update_sd_pick_busiest()`, v6.12.117 (whose test of the idle core for misfits 6.12.0 lacks).
fn update_sd_pick_busiest<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    sds: &SdLbStats<'_>,
    group: &SchedGroup,
    sgc: &GroupCapacity,
    stats: &SgLbStats,
) -> bool {
    if stats.sum_h_nr_running == 0 {
        return false;
    }
    if env.sd.has(SD_ASYM_CPUCAPACITY) {
        let dst_capacity = facts.cpu(env.dst_cpu).capacity.of;
        let (is_larger_here, is_larger_there) = match env.rules.margin {
            BalanceMargin::FivePercent => {
                (capacity_greater(dst_capacity, sgc.max_capacity), capacity_greater(sgc.min_capacity, dst_capacity))
            }
            // group_smaller_max_cpu_capacity(), group_smaller_min_cpu_capacity(), v5.10: groups, not CPUs, by a quarter.
            BalanceMargin::Quarter => (
                fits_capacity(sgc.max_capacity, sds.local_sgc.max_capacity),
                fits_capacity(sds.local_sgc.min_capacity, sgc.min_capacity),
            ),
        };
        // A task that the destination cannot help.
        if stats.group_type == GroupType::MisfitTask
            && (!env.dst_core_idle || !is_larger_here || sds.local_stat.group_type != GroupType::HasSpare)
        {
            return false;
        }
        // Nobody waits there, and the CPUs are bigger.
        if stats.group_type <= GroupType::FullyBusy && is_larger_there {
            return false;
        }
    }
    // The kernel begins with a group that has spare capacity and more idle CPUs than any.
    let Some((busiest_group, busiest)) = &sds.busiest else { return true };
    if stats.group_type != busiest.group_type {
        return stats.group_type > busiest.group_type;
    }
    let has_fewer_idle = || {
        stats.idle_cpus < busiest.idle_cpus
            || (stats.idle_cpus == busiest.idle_cpus && stats.sum_nr_running > busiest.sum_nr_running)
    };
    let is_busier_full = || {
        let busiest_is_smt = busiest_group.flags & SD_SHARE_CPUCAPACITY != 0;
        stats.avg_load > busiest.avg_load || (stats.avg_load == busiest.avg_load && !busiest_is_smt)
    };
    match stats.group_type {
        GroupType::Overloaded => stats.avg_load > busiest.avg_load,
        GroupType::Imbalanced => false,
        GroupType::AsymPacking => prefers(facts, busiest_group.asym_prefer_cpu, group.asym_prefer_cpu),
        GroupType::MisfitTask => stats.group_misfit_task_load > busiest.group_misfit_task_load,
        GroupType::SmtBalance if stats.idle_cpus != 0 || busiest.idle_cpus != 0 => has_fewer_idle(),
        GroupType::SmtBalance | GroupType::FullyBusy => is_busier_full(),
        // An SMT core with one task is not emptied for the sake of it.
        GroupType::HasSpare if env.rules.groups >= BalanceGroups::Cores && smt_vs_nonsmt(busiest_group, group) => {
            group.flags & SD_SHARE_CPUCAPACITY == 0 || stats.sum_h_nr_running > 1
        }
        GroupType::HasSpare => has_fewer_idle(),
    }
}

/// How many CPUs a wake-up may look at for an idle one: fewer the more the cache's CPUs are used, none from 85 % on.
///
/// ```text
/// x = sum_util / llc_size        nr = llc_size * (1024 - min(1024, x^2 pct^2 / (10000 * 1024))) / 1024
/// ```
///
/// `None` if this pass does not know: a newly idle CPU, or a domain that is not the cache's. `llc_size` is not 0.
/// kernel/sched/fair.c:`update_idle_cpu_scan()`, v6.12.
pub fn update_idle_cpu_scan(
    idle: IdleType,
    llc_size: u32,
    span_weight: u32,
    imbalance_pct: u32,
    sum_util: u64,
) -> Option<u32> {
    if idle == IdleType::NewlyIdle || span_weight != llc_size || llc_size == 0 {
        return None;
    }
    let (size, pct) = (u64::from(llc_size), u64::from(imbalance_pct));
    let x = sum_util / size;
    let used = x.wrapping_mul(x).wrapping_mul(pct).wrapping_mul(pct) / (10_000 * 1024);
    let left = 1024u64.wrapping_sub((used as i64).min(1024) as u64);
    Some((left.wrapping_mul(size) / 1024) as u32)
}

/// Adds up the domain and picks the busiest group; writes the root domain's state at the widest domain.
///
/// kernel/sched/fair.c:`update_sd_lb_stats()`, v6.12. Each group's statistics are shown to `watch`.
pub fn update_sd_lb_stats<'a, H: BalanceHost>(
    host: &mut H,
    env: &mut LbEnv<'a>,
    cpus: CpuSet<'_>,
    sgc: &mut [GroupCapacity],
    rd: &mut RootDomain,
    jiffies: Jiffies,
    mut watch: impl FnMut(&SchedGroup, &SgLbStats, bool, bool),
) -> SdLbStats<'a> {
    let mut sds = SdLbStats {
        busiest: None,
        local: None,
        local_stat: SgLbStats::default(),
        local_sgc: GroupCapacity::default(),
        total_load: 0,
        total_capacity: 0,
        avg_load: 0,
        prefer_sibling: false,
    };
    env.dst_core_idle = !host.smt_active() || is_core_idle(host, env.dst_cpu);
    let (mut overloaded, mut overutilized, mut sum_util) = (false, false, 0u64);
    let sd = env.sd;
    host.update_group_sums();
    for group in sd.ring() {
        let is_local = group.span.as_set().contains(env.dst_cpu);
        if is_local {
            sds.local = Some(group);
            let is_due = (jiffies.now.wrapping_sub(sgc[group.sgc].next_update) as i64) >= 0;
            if env.idle != IdleType::NewlyIdle || is_due {
                sgc[group.sgc].next_update = jiffies.now.wrapping_add(jiffies.interval);
                update_group_capacity(host, &sd, sgc, env.dst_cpu);
                host.update_group_sums();
            }
        }
        let (stats, saw_overloaded, saw_overutilized) =
            update_sg_lb_stats(host, env, cpus, group, &sgc[group.sgc], is_local);
        watch(group, &stats, saw_overloaded, saw_overutilized);
        overloaded |= saw_overloaded;
        overutilized |= saw_overutilized;
        if is_local {
            (sds.local_stat, sds.local_sgc) = (stats, sgc[group.sgc]);
        } else if update_sd_pick_busiest(host, env, &sds, group, &sgc[group.sgc], &stats) {
            sds.busiest = Some((group, stats));
        }
        sds.total_load = sds.total_load.wrapping_add(stats.group_load);
        sds.total_capacity = sds.total_capacity.wrapping_add(stats.group_capacity);
        sum_util = sum_util.wrapping_add(stats.group_util);
    }
    sds.prefer_sibling = sds.busiest.is_some_and(|(group, _)| group.flags & SD_PREFER_SIBLING != 0);
    let tips = host.energy_aware() && host.notices_overutilized();
    if sd.parent_sgc.is_none() {
        rd.overloaded = overloaded;
        rd.set_overutilized(tips, overutilized);
    } else if overutilized {
        rd.set_overutilized(tips, true);
    }
    if let Some(llc_size) = host.llc_size(env.dst_cpu)
        && let Some(nr) = update_idle_cpu_scan(env.idle, llc_size, sd.span_weight, sd.imbalance_pct, sum_util)
    {
        host.set_nr_idle_scan(env.dst_cpu, nr);
    }
    sds
}

/// The difference in tasks between groups, by cores (`sibling_imbalance()`, v6.12); before v6.6 a busy CPU asks, too, and cores do
/// not count.
fn sibling_imbalance(env: &LbEnv<'_>, busiest: (&SchedGroup, &SgLbStats), local: (&SchedGroup, &SgLbStats)) -> i64 {
    let (nr_busiest, nr_local) = (busiest.1.sum_nr_running, local.1.sum_nr_running);
    if env.rules.groups < BalanceGroups::Cores {
        return nr_busiest.saturating_sub(nr_local).into();
    }
    if !env.idle.is_idle() || nr_busiest == 0 {
        return 0;
    }
    let (cores_busiest, cores_local) = (busiest.0.cores, local.0.cores);
    if cores_busiest == cores_local {
        return nr_busiest.saturating_sub(nr_local).into();
    }
    let wanted = cores_local.wrapping_mul(nr_busiest);
    let mut imbalance = i64::from(wanted.saturating_sub(cores_busiest.wrapping_mul(nr_local)));
    let cores = i64::from(cores_local) + i64::from(cores_busiest);
    imbalance = (2 * imbalance + cores) / cores;
    if imbalance <= 1 && nr_local == 0 && nr_busiest > 1 {
        imbalance = 2;
    }
    imbalance
}

/// How much to move, and of what.
///
/// kernel/sched/fair.c:`calculate_imbalance()`, v6.12. Unsigned differences wrap in 32 or 64 bits where the kernel's do.
fn calculate_imbalance(env: &mut LbEnv<'_>, sds: &mut SdLbStats<'_>) {
    let (Some((busiest_group, busiest)), Some(local_group)) = (sds.busiest, sds.local) else {
        env.imbalance = 0;
        return;
    };
    let local = &mut sds.local_stat;
    let mut decide = |migration_type, imbalance| {
        env.migration_type = migration_type;
        env.imbalance = imbalance;
    };
    match busiest.group_type {
        GroupType::MisfitTask if env.sd.has(SD_ASYM_CPUCAPACITY) => return decide(MigrationType::Misfit, 1),
        GroupType::MisfitTask => return decide(MigrationType::Load, busiest.group_misfit_task_load as i64),
        GroupType::AsymPacking => return decide(MigrationType::Task, busiest.sum_h_nr_running.into()),
        GroupType::SmtBalance | GroupType::Imbalanced => return decide(MigrationType::Task, 1),
        _ => {}
    }

    if local.group_type == GroupType::HasSpare {
        if busiest.group_type > GroupType::FullyBusy && !env.sd.has(SD_SHARE_LLC) {
            let room = local.group_capacity.saturating_sub(local.group_util) as i64;
            if env.idle.is_idle() && room == 0 {
                return decide(MigrationType::Task, 1);
            }
            return decide(MigrationType::Util, room);
        }
        let mut imbalance = if busiest.group_weight == 1 || sds.prefer_sibling {
            sibling_imbalance(env, (busiest_group, &busiest), (local_group, local))
        } else {
            i64::from(local.idle_cpus.wrapping_sub(busiest.idle_cpus))
        };
        if env.sd.has(SD_NUMA) {
            let running = local.sum_nr_running.wrapping_add(1);
            imbalance = adjust_numa_imbalance(imbalance as i32, running, env.sd.imb_numa_nr as i32).into();
        }
        env.migration_type = MigrationType::Task;
        env.imbalance = imbalance >> 1;
        return;
    }

    if local.group_type < GroupType::Overloaded {
        local.avg_load = local.load_by_capacity();
        if local.avg_load >= busiest.avg_load {
            env.imbalance = 0;
            return;
        }
        sds.avg_load = load_by_capacity(sds.total_load, sds.total_capacity);
        if local.avg_load >= sds.avg_load {
            env.imbalance = 0;
            return;
        }
    }
    let excess = busiest.avg_load.wrapping_sub(sds.avg_load).wrapping_mul(busiest.group_capacity);
    let room = sds.avg_load.wrapping_sub(local.avg_load).wrapping_mul(local.group_capacity);
    env.migration_type = MigrationType::Load;
    env.imbalance = (excess.min(room) / 1024) as i64;
}

/// The group to pull from, if there is an imbalance that matters; `env.imbalance` is how much.
///
/// kernel/sched/fair.c:`sched_balance_find_src_group()`, v6.12, after [`update_sd_lb_stats`]. `energy_pd`: the root
/// domain has performance domains and the system is energy-aware.
pub fn sched_balance_find_src_group<'a>(
    env: &mut LbEnv<'a>,
    sds: &mut SdLbStats<'a>,
    rd: &RootDomain,
    energy_aware: bool,
) -> Option<&'a SchedGroup> {
    env.imbalance = 0;
    let (group, busiest) = sds.busiest?;
    if !is_imbalance(env, sds, group, &busiest, rd, energy_aware) {
        return None;
    }
    calculate_imbalance(env, sds);
    (env.imbalance != 0).then_some(group)
}

/// The decision matrix of `sched_balance_find_src_group()`: does the difference between the groups matter?
fn is_imbalance(
    env: &LbEnv<'_>,
    sds: &mut SdLbStats<'_>,
    group: &SchedGroup,
    busiest: &SgLbStats,
    rd: &RootDomain,
    energy_aware: bool,
) -> bool {
    if busiest.group_type == GroupType::MisfitTask {
        return true;
    }
    if !rd.is_overutilized(energy_aware) {
        return false;
    }
    if matches!(busiest.group_type, GroupType::AsymPacking | GroupType::Imbalanced) {
        return true;
    }
    let local = &sds.local_stat;
    if local.group_type > busiest.group_type {
        return false;
    }
    if local.group_type == GroupType::Overloaded {
        if local.avg_load >= busiest.avg_load {
            return false;
        }
        sds.avg_load = load_by_capacity(sds.total_load, sds.total_capacity);
        let local_scaled = u64::from(env.sd.imbalance_pct).wrapping_mul(local.avg_load);
        if local.avg_load >= sds.avg_load || busiest.avg_load.wrapping_mul(100) <= local_scaled {
            return false;
        }
    }
    let Some(local_group) = sds.local else { return false };
    if sds.prefer_sibling
        && local.group_type == GroupType::HasSpare
        && sibling_imbalance(env, (group, busiest), (local_group, local)) > 1
    {
        return true;
    }
    if busiest.group_type == GroupType::Overloaded {
        return true;
    }
    if !env.idle.is_idle() {
        return false;
    }
    if busiest.group_type == GroupType::SmtBalance && smt_vs_nonsmt(local_group, group) {
        return true;
    }
    if busiest.group_weight > 1 && local.idle_cpus <= busiest.idle_cpus.wrapping_add(1) {
        return false;
    }
    busiest.sum_h_nr_running != 1
}

/// The CPU of `group` to pull from.
///
/// kernel/sched/fair.c:`sched_balance_find_src_rq()`, v6.12.
pub fn sched_balance_find_src_rq<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    cpus: CpuSet<'_>,
    group: &SchedGroup,
) -> Option<usize> {
    let (mut busiest, mut busiest_load, mut busiest_capacity, mut busiest_util, mut busiest_nr) = (None, 0, 1, 0, 0);
    let pct = env.sd.imbalance_pct;
    for cpu in group.span.as_set().iter().filter(|&cpu| cpus.contains(cpu)) {
        let rq = facts.cpu(cpu);
        let nr_running = rq.h_nr_queued;
        if nr_running == 0 {
            continue;
        }
        let capacity = rq.capacity.of;
        if nr_running == 1 {
            let is_too_small = || {
                let dst_capacity = facts.cpu(env.dst_cpu).capacity.of;
                match env.rules.margin {
                    BalanceMargin::FivePercent => !capacity_greater(dst_capacity, capacity),
                    BalanceMargin::Quarter => dst_capacity < capacity,
                }
            };
            if env.sd.has(SD_ASYM_CPUCAPACITY) && is_too_small() {
                continue;
            }
            if uses_asym_prio(facts, &env.sd, cpu) && prefers(facts, cpu, env.dst_cpu) {
                continue;
            }
        }
        let is_busier = match env.migration_type {
            MigrationType::Load => {
                let is_whole = nr_running == 1 && rq.load > env.imbalance as u64 && !rq.has_reduced_capacity(pct);
                let is_busier = rq.load.wrapping_mul(busiest_capacity) > capacity.wrapping_mul(busiest_load);
                if !is_whole && is_busier {
                    (busiest_load, busiest_capacity) = (rq.load, capacity);
                }
                !is_whole && is_busier
            }
            MigrationType::Util => {
                let util = rq.util_cfs_boost();
                let is_busier = nr_running > 1 && util > busiest_util;
                if is_busier {
                    busiest_util = util;
                }
                is_busier
            }
            MigrationType::Task => {
                let is_busier = nr_running > busiest_nr;
                busiest_nr = busiest_nr.max(nr_running);
                is_busier
            }
            MigrationType::Misfit => {
                let is_busier = rq.misfit_task_load > busiest_load;
                busiest_load = busiest_load.max(rq.misfit_task_load);
                is_busier
            }
        };
        if is_busier {
            busiest = Some(cpu);
        }
    }
    busiest
}

/// Whether the CPU should balance for its group: a newly idle one always; else the first idle CPU on an idle core, the first
/// idle thread, or the group's first CPU.
///
/// kernel/sched/fair.c:`should_we_balance()`, v6.12. `cpus` are the CPUs that take part.
pub fn should_we_balance<F: BalanceFacts>(facts: &F, env: &LbEnv<'_>, cpus: CpuSet<'_>) -> bool {
    if !cpus.contains(env.dst_cpu) {
        return false;
    }
    if env.idle == IdleType::NewlyIdle {
        return env.rules.newidle_stays || facts.cpu(env.dst_cpu).nr_running == 0 && !facts.ttwu_pending(env.dst_cpu);
    }
    let balance_mask = env.local_group().balance_mask.as_set();
    let idle = facts.idle();
    let mut idle_thread = None;
    for cpu in balance_mask.iter().filter(|&cpu| cpus.contains(cpu) && idle.contains(cpu)) {
        if env.rules.groups < BalanceGroups::Cores || env.sd.has(SD_SHARE_CPUCAPACITY) || is_core_idle(facts, cpu) {
            return cpu == env.dst_cpu;
        }
        idle_thread.get_or_insert(cpu);
    }
    idle_thread.or_else(|| balance_mask.first()) == Some(env.dst_cpu)
}

/// Whether the running task of the source should be pushed by its CPU's stopper.
///
/// kernel/sched/fair.c:`need_active_balance()`, v6.12.
pub fn need_active_balance<F: BalanceFacts>(facts: &F, env: &LbEnv<'_>) -> bool {
    let sd = &env.sd;
    let idle = env.idle.is_idle();
    if idle
        && uses_asym_prio(facts, sd, env.dst_cpu)
        && (prefers(facts, env.dst_cpu, env.src_cpu) || !uses_asym_prio(facts, sd, env.src_cpu))
    {
        return true;
    }
    let counts = env.migration_type == MigrationType::Task || env.rules.active == ActiveBalance::Any;
    if counts && env.nr_balance_failed > sd.cache_nice_tries.wrapping_add(2) {
        return true;
    }
    is_active_wanted(facts, env)
}

/// Whether it is wanted by its kind, however often passes failed (`voluntary_active_balance()`, v5.5 to v5.11).
fn is_active_wanted<F: BalanceFacts>(facts: &F, env: &LbEnv<'_>) -> bool {
    let sd = &env.sd;
    let idle = env.idle.is_idle();
    let src = facts.cpu(env.src_cpu);
    if idle && src.h_nr_queued == 1 && src.has_reduced_capacity(sd.imbalance_pct) {
        let dst_capacity = facts.cpu(env.dst_cpu).capacity.of;
        if src.capacity.of.wrapping_mul(sd.imbalance_pct.into()) < dst_capacity.wrapping_mul(100) {
            return true;
        }
    }
    env.migration_type == MigrationType::Misfit || env.src_misfit
}

/// Whether the task's cache contents are worth keeping (`task_hot()`, v6.12).
fn task_hot(env: &LbEnv<'_>, task: &BalanceTask<'_>, dst_nr_running: u32, src_clock_task: u64, cost_ns: i64) -> bool {
    if !task.is_fair || task.is_idle_policy || (env.sd.has(SD_SHARE_CPUCAPACITY) && !env.rules.smt_hot) {
        return false;
    }
    if dst_nr_running != 0 && task.is_next_buddy {
        return true;
    }
    match cost_ns {
        -1 => true,
        0 => false,
        cost_ns => (src_clock_task.wrapping_sub(task.exec_start) as i64) < cost_ns,
    }
}

/// Whether the task may go from the source to the destination; notes in `env` what affinity forbids.
///
/// kernel/sched/fair.c:`can_migrate_task()`, v6.12.
fn can_migrate_task<H: BalanceHost>(
    host: &H,
    env: &mut LbEnv<'_>,
    cpus: CpuSet<'_>,
    task: &BalanceTask<'_>,
    src_clock_task: u64,
    tunables: &BalanceTunables,
) -> bool {
    if task.is_per_cpu_kthread {
        return false;
    }
    if !task.allowed.contains(env.dst_cpu) {
        env.flags.some_pinned = true;
        if env.idle == IdleType::NewlyIdle || env.flags.dst_pinned || env.flags.active_lb {
            return false;
        }
        let group = env.local_group().balance_mask.as_set();
        let other = group.first_in(|index, word| word & cpus.word(index) & task.allowed.word(index));
        if let Some(cpu) = other {
            env.flags.dst_pinned = true;
            env.new_dst_cpu = Some(cpu);
        }
        return false;
    }
    env.flags.all_pinned = false;
    if task.is_running {
        return false;
    }
    if env.flags.active_lb {
        return true;
    }
    let dst_nr_running = host.cpu(env.dst_cpu).nr_running;
    !task_hot(env, task, dst_nr_running, src_clock_task, tunables.migration_cost_ns)
        || env.nr_balance_failed > env.sd.cache_nice_tries
}

/// Takes one task, the last in the list that may go, and gives it to the destination.
///
/// kernel/sched/fair.c:`detach_one_task()`, v6.12: the active balance.
pub fn detach_one_task<H: BalanceHost>(
    host: &mut H,
    env: &mut LbEnv<'_>,
    cpus: CpuSet<'_>,
    tunables: &BalanceTunables,
) -> Option<u32> {
    let clock_task = host.clock_task(env.src_cpu);
    let mut at = host.last_task(env.src_cpu);
    while let Some(task) = at {
        let facts = host.task(task, env.dst_cpu);
        if can_migrate_task(host, env, cpus, &facts, clock_task, tunables) {
            host.detach_task(task, env.src_cpu, env.dst_cpu);
            return Some(task);
        }
        at = host.task_before(task);
    }
    None
}

/// Takes tasks from the end of the source's list until the imbalance is met; they are appended to `detached` in that order.
///
/// kernel/sched/fair.c:`detach_tasks()`, v6.12. A load must not exceed the imbalance after it is halved for each failed pass.
pub fn detach_tasks<H: BalanceHost>(
    host: &mut H,
    env: &mut LbEnv<'_>,
    cpus: CpuSet<'_>,
    tunables: &BalanceTunables,
    detached: &mut Vec<u32>,
) {
    let src = env.src_cpu;
    if host.cpu(src).nr_running <= 1 {
        env.flags.all_pinned = false;
        return;
    }
    if env.imbalance <= 0 {
        return;
    }
    let clock_task = host.clock_task(src);
    while let Some(task) = host.last_task(src) {
        if env.idle.is_idle() && host.cpu(src).nr_running <= 1 {
            break;
        }
        env.loop_nr = env.loop_nr.wrapping_add(1);
        if env.loop_nr > env.loop_max {
            break;
        }
        if env.loop_nr > env.loop_break {
            env.loop_break = env.loop_break.wrapping_add(tunables.nr_migrate_break);
            env.flags.need_break = true;
            break;
        }
        let facts = host.task(task, env.dst_cpu);
        let amount = can_migrate_task(host, env, cpus, &facts, clock_task, tunables)
            .then(|| amount_to_move(env, &facts, || host.cpu(src)))
            .flatten();
        let Some(left) = amount else {
            host.move_to_head(src, task);
            continue;
        };
        env.imbalance = left;
        host.detach_task(task, src, env.dst_cpu);
        detached.push(task);
        if (tunables.preemption && env.idle == IdleType::NewlyIdle) || env.imbalance <= 0 {
            break;
        }
    }
}

/// The imbalance that is left after this task, or `None` if it must stay.
fn amount_to_move(env: &LbEnv<'_>, task: &BalanceTask<'_>, src: impl FnOnce() -> CpuLoad) -> Option<i64> {
    let bounded = |amount: u64| {
        let has_failed = env.nr_balance_failed > env.sd.cache_nice_tries;
        let relaxed = match env.rules.detach {
            DetachLoad::Halved => amount >> env.nr_balance_failed.min(63),
            DetachLoad::HalfUntilFailed if has_failed => 0,
            DetachLoad::HalfUntilFailed | DetachLoad::Half => amount / 2,
        };
        (relaxed <= env.imbalance as u64).then(|| env.imbalance.wrapping_sub(amount as i64))
    };
    match env.migration_type {
        MigrationType::Load => bounded(task.h_load.max(1)),
        MigrationType::Util => bounded(task.util),
        MigrationType::Task => Some(env.imbalance.wrapping_sub(1)),
        MigrationType::Misfit => (util_fits_cpu(task.util, task.clamps, &src().capacity) <= 0).then_some(0),
    }
}

/// The part of a domain's state that a pass changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassState {
    /// `sd->nr_balance_failed`.
    pub nr_balance_failed: u32,
    /// `sd->balance_interval`, ms.
    pub balance_interval: u64,
    /// `sd->min_interval`, ms.
    pub min_interval: u64,
    /// `sd->max_interval`, ms.
    pub max_interval: u64,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Tasks moved.
    pub ld_moved: u32,
    /// It was this CPU's turn: balancing goes on in the next domain.
    pub continue_balancing: bool,
    /// Where tasks were pulled from last.
    pub src_cpu: Option<usize>,
    /// What the last imbalance was of, for `explain`.
    pub migration_type: MigrationType,
    /// How large it was before tasks moved, for `explain`.
    pub imbalance: i64,
}

/// An interval that met pinned tasks grows up to this, ms (`MAX_PINNED_INTERVAL`).
const MAX_PINNED_INTERVAL: u64 = 512;

/// How the pass ended, which decides what is noted down.
enum End {
    /// Tasks moved, or there was an imbalance that could not be met.
    Unbalanced,
    /// There was nothing to do.
    Balanced,
    /// All tasks were pinned.
    AllPinned,
    /// The running task may not come here.
    OnePinned,
}

/// One pass of `this_cpu` over a domain.
///
/// `active` are the CPUs that take part in balancing (`cpu_active_mask`).
/// kernel/sched/fair.c:`sched_balance_rq()`, v6.12.
#[expect(clippy::too_many_arguments, reason = "the state of the domain, its groups and the root domain live apart")]
pub fn sched_balance_rq<H: BalanceHost>(
    host: &mut H,
    sd: DomainView<'_>,
    state: &mut PassState,
    sgc: &mut [GroupCapacity],
    rd: &mut RootDomain,
    active: CpuSet<'_>,
    this_cpu: usize,
    idle: IdleType,
    jiffies: Jiffies,
    tunables: &BalanceTunables,
    scratch: &mut BalanceScratch,
) -> Pass {
    let BalanceScratch { cpus, detached } = scratch;
    cpus.assign_and(sd.span, active);
    let mut env = LbEnv::new(sd, this_cpu, idle, state.nr_balance_failed, tunables.nr_migrate_break);
    env.rules = tunables.rules;
    let by_load = env.rules.groups < BalanceGroups::Types;
    let mut pass = Pass {
        ld_moved: 0,
        continue_balancing: true,
        src_cpu: None,
        migration_type: MigrationType::Load,
        imbalance: 0,
    };
    let mut moved_all = 0;
    let mut started_active = false;

    let end = 'redo: loop {
        if !should_we_balance(host, &env, cpus.as_set()) {
            pass.continue_balancing = false;
            break End::Balanced;
        }
        let src = if by_load {
            find_busiest_group_v54(host, &mut env, cpus.as_set(), sgc, rd, jiffies)
                .and_then(|group| find_busiest_queue_v54(host, &env, cpus.as_set(), group))
        } else {
            let mut sds = update_sd_lb_stats(host, &mut env, cpus.as_set(), sgc, rd, jiffies, |_, _, _, _| {});
            sched_balance_find_src_group(&mut env, &mut sds, rd, host.energy_aware())
                .and_then(|group| sched_balance_find_src_rq(host, &env, cpus.as_set(), group))
        };
        let Some(src) = src else {
            break End::Balanced;
        };
        env.src_cpu = src;
        pass.src_cpu = Some(src);
        (pass.migration_type, pass.imbalance) = (env.migration_type, env.imbalance);
        moved_all = 0;
        env.flags.all_pinned = true;
        let src_nr_running = host.cpu(src).nr_running;
        if src_nr_running > 1 {
            env.loop_max = tunables.nr_migrate.min(src_nr_running);
            loop {
                detached.clear();
                detach_tasks(host, &mut env, cpus.as_set(), tunables, detached);
                moved_all += detached.len() as u32;
                for &task in detached.iter().rev() {
                    host.attach_task(task, env.dst_cpu);
                }
                if std::mem::take(&mut env.flags.need_break) {
                    continue;
                }
                if env.flags.dst_pinned
                    && env.imbalance > 0
                    && let Some(dst) = env.new_dst_cpu
                {
                    cpus.remove(env.dst_cpu);
                    env.dst_cpu = dst;
                    env.flags.dst_pinned = false;
                    env.loop_nr = 0;
                    env.loop_break = tunables.nr_migrate_break;
                    continue;
                }
                break;
            }
            if let Some(parent) = sd.parent_sgc
                && env.flags.some_pinned
                && env.imbalance > 0
            {
                sgc[parent].imbalance = true;
            }
            if env.flags.all_pinned {
                cpus.remove(src);
                if cpus.as_set().is_subset(env.local_group().balance_mask.as_set()) {
                    break End::AllPinned;
                }
                env.loop_nr = 0;
                env.loop_break = tunables.nr_migrate_break;
                continue 'redo;
            }
        }
        if moved_all != 0 {
            state.nr_balance_failed = 0;
            env.nr_balance_failed = 0;
            break End::Unbalanced;
        }
        if idle != IdleType::NewlyIdle && env.migration_type != MigrationType::Misfit {
            state.nr_balance_failed = state.nr_balance_failed.wrapping_add(1);
            env.nr_balance_failed = state.nr_balance_failed;
        }
        if need_active_balance(host, &env) {
            if !host.curr_may_run_on(src, this_cpu) {
                break End::OnePinned;
            }
            env.flags.all_pinned = false;
            started_active = host.start_active_balance(src, this_cpu);
            if started_active && env.rules.active == ActiveBalance::Any {
                // The next pass moves a cache-hot task, too.
                state.nr_balance_failed = sd.cache_nice_tries.wrapping_add(1);
            }
        }
        break End::Unbalanced;
    };

    match end {
        End::Unbalanced => {
            let backs_off = env.rules.active == ActiveBalance::Any;
            if !started_active || if backs_off { is_active_wanted(host, &env) } else { need_active_balance(host, &env) }
            {
                state.balance_interval = state.min_interval;
            } else if backs_off && state.balance_interval < state.max_interval {
                state.balance_interval = state.balance_interval.wrapping_mul(2);
            }
            pass.ld_moved = moved_all;
            return pass;
        }
        End::Balanced => {
            // The flag stays if the pinned tasks are all that is left.
            if let Some(parent) = sd.parent_sgc
                && !env.flags.all_pinned
            {
                sgc[parent].imbalance = false;
            }
            state.nr_balance_failed = 0;
        }
        End::AllPinned => state.nr_balance_failed = 0,
        End::OnePinned => {}
    }
    let grows = (env.flags.all_pinned && state.balance_interval < MAX_PINNED_INTERVAL)
        || state.balance_interval < state.max_interval;
    if env.idle != IdleType::NewlyIdle && env.migration_type != MigrationType::Misfit && grows {
        state.balance_interval = state.balance_interval.wrapping_mul(2);
    }
    pass
}

impl KernelProfile {
    /// What load balance decides otherwise than v6.12's.
    pub fn balance_rules(&self) -> BalanceRules {
        BalanceRules {
            groups: self.balance_groups,
            detach: self.detach_load,
            active: self.active_balance,
            margin: self.balance_margin,
            smt_hot: self.smt_cache_hot == SmtCacheHot::Yes,
            newidle_stays: self.newidle_bail == NewidleBail::GoesOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::domains::{SchedDomains, Topology};
    use crate::sched::placement::CpuCapacity;
    use crate::sched::task_list::TaskLists;
    use proptest::prelude::*;

    /// Eight CPUs with some tasks; a task's fields follow from its number and the seed.
    struct Machine {
        domains: SchedDomains,
        smt: Vec<CpuMask>,
        lists: TaskLists,
        home: Vec<Option<usize>>,
        idle: CpuMask,
        allowed: Vec<[u64; 1]>,
        seed: u64,
        pushed: Vec<(usize, usize)>,
    }

    impl Machine {
        fn new(smt: bool, homes: &[usize], allowed: &[u64], seed: u64) -> Self {
            let mut topology = Topology::flat(8);
            if smt {
                topology.core = (0..8).map(|cpu| cpu / 2).collect();
                topology.cluster = topology.core.clone();
            }
            topology.llc = (0..8).map(|cpu| cpu / 4).collect();
            let mut machine = Self {
                domains: SchedDomains::build(&topology),
                smt: topology
                    .core
                    .iter()
                    .map(|&core| (0..8).filter(|&cpu| topology.core[cpu] == core).collect())
                    .collect(),
                lists: TaskLists::new(8),
                home: vec![None; homes.len()],
                idle: CpuMask::all(8),
                allowed: allowed.iter().map(|mask| [mask | 1]).collect(),
                seed,
                pushed: Vec::new(),
            };
            for (task, &cpu) in homes.iter().enumerate() {
                machine.attach_task(task as u32, cpu);
            }
            machine
        }

        fn draw(&self, of: u64) -> u64 {
            (self.seed ^ of).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
                >> 44
        }

        fn count(&self, cpu: usize) -> u32 {
            self.home.iter().filter(|home| **home == Some(cpu)).count() as u32
        }
    }

    impl BalanceFacts for Machine {
        fn cpu(&self, cpu: usize) -> CpuLoad {
            let n = self.count(cpu);
            let is_even = self.seed == 0;
            CpuLoad {
                load: u64::from(n) * 1024,
                util: if is_even { u64::from(n) * 100 } else { self.draw(cpu as u64) % 1200 },
                runnable: u64::from(n) * 700,
                util_est: 0,
                nr_running: n,
                h_nr_queued: n,
                capacity: CpuCapacity {
                    orig: 1024,
                    of: if is_even { 1024 } else { 1 + self.draw(cpu as u64 + 99) % 1024 },
                    ..CpuCapacity::default()
                },
                misfit_task_load: 0,
                clamps: None,
            }
        }
        fn idle(&self) -> CpuSet<'_> {
            self.idle.as_set()
        }
        fn ttwu_pending(&self, _cpu: usize) -> bool {
            false
        }
        fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
            self.smt[cpu].as_set()
        }
        fn smt_active(&self) -> bool {
            self.smt[0].as_set().weight() > 1
        }
        fn asym_priority(&self, cpu: usize) -> i32 {
            cpu as i32
        }
        fn energy_aware(&self) -> bool {
            false
        }
        fn llc_size(&self, cpu: usize) -> Option<u32> {
            self.domains.llc(cpu).map(|domain| domain.span_weight)
        }
    }

    impl BalanceHost for Machine {
        fn task(&self, task: u32, _dst: usize) -> BalanceTask<'_> {
            let draw = self.draw(u64::from(task) + 1000);
            BalanceTask {
                h_load: 1024,
                util: draw % 1024,
                clamps: None,
                exec_start: draw,
                allowed: CpuSet::new(&self.allowed[task as usize]),
                is_running: self.home[task as usize].and_then(|cpu| self.lists.first(cpu)) == Some(task),
                is_idle_policy: false,
                is_fair: true,
                is_per_cpu_kthread: draw.is_multiple_of(16),
                is_next_buddy: false,
            }
        }
        fn last_task(&self, cpu: usize) -> Option<u32> {
            self.lists.last(cpu)
        }
        fn task_before(&self, task: u32) -> Option<u32> {
            self.lists.before(task)
        }
        fn move_to_head(&mut self, cpu: usize, task: u32) {
            self.lists.move_to_head(cpu, task);
        }
        fn clock_task(&mut self, _cpu: usize) -> u64 {
            700_000
        }
        fn detach_task(&mut self, task: u32, src: usize, dst: usize) {
            assert_eq!(self.home[task as usize], Some(src));
            assert!(!self.task(task, dst).is_running && CpuSet::new(&self.allowed[task as usize]).contains(dst));
            self.lists.remove(src, task);
            self.home[task as usize] = None;
            self.idle.set(src, self.count(src) == 0);
        }
        fn attach_task(&mut self, task: u32, dst: usize) {
            assert_eq!(self.home[task as usize], None);
            self.lists.add(dst, task);
            self.home[task as usize] = Some(dst);
            self.idle.set(dst, false);
        }
        fn curr_may_run_on(&self, src: usize, dst: usize) -> bool {
            let curr = self.lists.first(src);
            curr.is_none_or(|task| CpuSet::new(&self.allowed[task as usize]).contains(dst))
        }
        fn start_active_balance(&mut self, src: usize, dst: usize) -> bool {
            self.pushed.push((src, dst));
            true
        }
        fn update_cpu_capacity(&mut self, cpu: usize) -> u64 {
            self.cpu(cpu).capacity.of
        }
        fn set_nr_idle_scan(&mut self, cpu: usize, nr_idle_scan: u32) {
            assert!(nr_idle_scan <= self.domains.llc(cpu).map_or(1, |domain| domain.span_weight));
        }
    }

    fn rules(kernel: &str) -> BalanceTunables {
        let profile = crate::profile::KernelProfile::named(kernel).expect("a profile");
        BalanceTunables { rules: profile.balance_rules(), ..BalanceTunables::default() }
    }

    /// Ten light tasks on eight CPUs, four and six a cache: who evens that out, and by what.
    #[test]
    fn versions_even_out_siblings_in_their_own_ways() {
        let pulled = |kernel| {
            let mut machine = Machine::new(false, &[0, 1, 2, 3, 4, 4, 5, 5, 6, 7], &[0xff; 10], 0);
            let mut sgc = machine.domains.group_capacities(|_| 1024);
            let domains = machine.domains.clone();
            let sd = domains.view(0, domains.n_levels(0) - 1).expect("the widest");
            let mut state = PassState { min_interval: 8, max_interval: 16, ..PassState::default() };
            let pass = sched_balance_rq(
                &mut machine,
                sd,
                &mut state,
                &mut sgc,
                &mut RootDomain::default(),
                CpuMask::all(8).as_set(),
                0,
                IdleType::NotIdle,
                Jiffies::default(),
                &rules(kernel),
                &mut BalanceScratch::default(),
            );
            (pass.ld_moved > 0).then_some((pass.migration_type, pass.imbalance))
        };
        // 6 and 4 times 1024 on 4096 each: a fourth of 1024 above the average, times the group's capacity.
        assert_eq!(pulled("4.19"), Some((MigrationType::Load, 1024)));
        assert_eq!(pulled("5.4"), Some((MigrationType::Load, 1024)));
        assert_eq!(pulled("5.5"), Some((MigrationType::Task, 1)));
        assert_eq!(pulled("6.5"), Some((MigrationType::Task, 1)));
        // A busy CPU leaves that to idle ones.
        assert_eq!(pulled("6.6"), None);
        assert_eq!(pulled("6.12.117"), None);
    }

    /// A task of load 1000 against imbalances, after passes that failed.
    #[test]
    fn versions_bound_the_load_that_moves() {
        let domains = SchedDomains::build(&Topology::flat(2));
        let moves = |kernel, imbalance, failed| {
            let sd = domains.view(0, 0).expect("one level");
            let mut env = LbEnv::new(sd, 0, IdleType::Idle, failed, 32);
            (env.rules, env.imbalance) = (rules(kernel).rules, imbalance);
            let machine = Machine::new(false, &[0], &[0xff], 0);
            let task = BalanceTask { h_load: 1000, ..machine.task(0, 1) };
            amount_to_move(&env, &task, CpuLoad::default).is_some()
        };
        let bounds =
            |kernel| [moves(kernel, 999, 0), moves(kernel, 500, 0), moves(kernel, 499, 1), moves(kernel, 1, 2)];
        assert_eq!(bounds("5.4"), [true, true, false, false]);
        assert_eq!(bounds("5.9"), [true, true, false, true]);
        assert_eq!(bounds("5.10"), [false, false, false, false]);
        assert!(moves("5.10", 500, 1) && moves("5.10", 1, 10));
    }

    proptest! {
        /// Passes of every CPU over every domain lose no task, move only what may move, and never empty an idle CPU's source.
        #[test]
        fn passes_keep_the_tasks(
            smt: bool,
            tasks in proptest::collection::vec((0usize..8, prop_oneof![Just(0xffu64), 0u64..256]), 0..40),
            seed: u64,
            idle_type in 0u8..3,
            failed in 0u32..8,
            kernel in prop_oneof![Just("4.19"), Just("5.4"), Just("5.6"), Just("5.9"), Just("5.15"), Just("6.5"), Just("6.12.117")],
        ) {
            let (homes, allowed): (Vec<usize>, Vec<u64>) = tasks.into_iter().unzip();
            let mut machine = Machine::new(smt, &homes, &allowed, seed);
            let mut sgc = machine.domains.group_capacities(|cpu| machine.cpu(cpu).capacity.of);
            let domains = machine.domains.clone();
            let mut scratch = BalanceScratch::default();
            let mut rd = RootDomain::default();
            let active = CpuMask::all(8);
            for cpu in 0..8 {
                let idle = match (machine.idle.as_set().contains(cpu), idle_type) {
                    (false, _) => IdleType::NotIdle,
                    (true, 0) => IdleType::NewlyIdle,
                    (true, _) => IdleType::Idle,
                };
                for level in 0..domains.n_levels(cpu) {
                    let sd = domains.view(cpu, level).expect("the level exists");
                    let mut state = PassState { nr_balance_failed: failed, balance_interval: 8, min_interval: 8, max_interval: 16 };
                    let before = machine.home.clone();
                    let pass = sched_balance_rq(
                        &mut machine, sd, &mut state, &mut sgc, &mut rd, active.as_set(), cpu, idle, Jiffies::default(),
                        &rules(kernel), &mut scratch,
                    );
                    prop_assert!(machine.home.iter().all(Option::is_some), "no task is lost");
                    let moved = machine.home.iter().zip(&before).filter(|(now, before)| now != before).count();
                    prop_assert_eq!(moved, pass.ld_moved as usize);
                    if let (Some(src), true) = (pass.src_cpu, moved != 0 && idle.is_idle()) {
                        prop_assert!(machine.count(src) >= 1);
                    }
                    if idle == IdleType::NewlyIdle {
                        prop_assert!(moved <= 1, "a preemptible kernel takes one");
                        prop_assert!(state.nr_balance_failed <= failed.max(sd.cache_nice_tries + 1));
                    }
                    prop_assert!(machine.pushed.iter().all(|&(src, dst)| src != dst));
                }
            }
        }
    }
}
