//! The group and the queue that a pass pulls from, as before v5.5 (kernel/sched/fair.c: `find_busiest_group()`, v4.19 and v5.4).
//!
//! Loads decide: what is queued on the CPUs of a group, by its capacity. Spare CPUs count only where an idle CPU looks and the
//! busiest group has more tasks than it can handle. The imbalance is an amount of load, raised to that of one task where moving
//! one evens out more than it costs. Google's msm-4.14 ([`BalanceGroups::Similar`]) leaves groups of other capacities alone unless
//! they are overloaded, and then moves at least one task. Not followed: `LB_BIAS` (on by default before v4.20), NUMA balancing.

use super::balance_env::{BalanceFacts, BalanceHost, IdleType, Jiffies, LbEnv, RootDomain, update_group_capacity};
use super::cpumask::CpuSet;
use super::fitness::fits_capacity;
use super::group::{GroupCapacity, SchedGroup, load_by_capacity};
use super::sd_flags::{SD_ASYM_CPUCAPACITY, SD_ASYM_PACKING, SD_PREFER_SIBLING};
use crate::eas_groups::CAPACITY_MARGIN_UP;
use crate::profile::BalanceGroups;
use crate::unit::SCHED_CAPACITY_SCALE;

/// The load of a task of nice 0 that always runs (`scale_load_down(NICE_0_LOAD)`).
const NICE_0: u64 = 1024;

/// A group's state, from least to most pressing (`enum group_type`, v5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum LoadType {
    #[default]
    Other,
    Misfit,
    Imbalanced,
    Overloaded,
}

/// The sums over a group's CPUs (`struct sg_lb_stats`, v5.4).
#[derive(Clone, Copy, Debug, Default)]
struct GroupLoad {
    avg: u64,
    load: u64,
    per_task: u64,
    capacity: u64,
    util: u64,
    nr_running: u32,
    idle_cpus: u32,
    weight: u32,
    /// More tasks than it can handle, or than its sibling has (`group_no_capacity`).
    is_overloaded: bool,
    imbalanced: bool,
    misfit_load: u64,
}

impl GroupLoad {
    fn of<F: BalanceFacts>(
        facts: &F,
        env: &LbEnv<'_>,
        cpus: CpuSet<'_>,
        group: &SchedGroup,
        sgc: &GroupCapacity,
        seen: &mut (bool, bool),
    ) -> Self {
        let tips = facts.energy_aware() && facts.notices_overutilized();
        let idle = facts.idle();
        let mut sum = Self { capacity: sgc.capacity.max(1), weight: group.weight, ..Self::default() };
        for cpu in group.span.as_set().iter().filter(|&cpu| cpus.contains(cpu)) {
            let rq = facts.cpu(cpu);
            sum.load += facts.queued_load(cpu);
            sum.util += rq.util_cfs();
            sum.nr_running += rq.h_nr_queued;
            seen.0 |= rq.nr_running > 1;
            seen.1 |= tips && facts.is_overutilized(cpu, &rq);
            if rq.nr_running == 0 && idle.contains(cpu) {
                sum.idle_cpus += 1;
            }
            if env.sd.has(SD_ASYM_CPUCAPACITY) && sum.misfit_load < rq.misfit_task_load {
                sum.misfit_load = rq.misfit_task_load;
                seen.0 = true;
            }
        }
        sum.avg = load_by_capacity(sum.load, sum.capacity);
        sum.per_task = sum.load.checked_div(sum.nr_running.into()).unwrap_or(0);
        sum.is_overloaded = sum.nr_running > sum.weight && !sum.leaves_room(env);
        sum.imbalanced = sgc.imbalance;
        sum
    }

    fn leaves_room(&self, env: &LbEnv<'_>) -> bool {
        self.capacity * 100 >= self.util * u64::from(env.sd.imbalance_pct)
    }

    /// `group_has_capacity()`.
    fn has_capacity(&self, env: &LbEnv<'_>) -> bool {
        self.nr_running < self.weight || self.capacity * 100 > self.util * u64::from(env.sd.imbalance_pct)
    }

    /// `group_classify()`.
    fn class(&self) -> LoadType {
        match self {
            Self { is_overloaded: true, .. } => LoadType::Overloaded,
            Self { imbalanced: true, .. } => LoadType::Imbalanced,
            Self { misfit_load: 1.., .. } => LoadType::Misfit,
            _ => LoadType::Other,
        }
    }
}

/// The busiest group so far, the local one, and all together.
struct Sums<'a> {
    busiest: Option<(&'a SchedGroup, GroupLoad)>,
    local: GroupLoad,
    local_sgc: GroupCapacity,
    avg: u64,
}

/// `group_smaller_min_cpu_capacity()` and `group_smaller_max_cpu_capacity()`.
fn is_smaller(env: &LbEnv<'_>, capacity: u64, other: u64) -> bool {
    match env.rules.groups {
        BalanceGroups::Similar => capacity.wrapping_mul(CAPACITY_MARGIN_UP) < other.wrapping_mul(1024),
        _ => fits_capacity(capacity, other),
    }
}

/// `group_similar_cpu_capacity()`, msm-4.14: their smallest CPUs differ by less than an eighth.
fn are_similar(one: &GroupCapacity, other: &GroupCapacity) -> bool {
    let (one, other) = (one.min_capacity, other.min_capacity);
    one.abs_diff(other) < one.max(other) >> 3
}

/// `update_sd_pick_busiest()`, v5.4 and msm-4.14.
fn is_busier<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    sums: &Sums<'_>,
    group: &SchedGroup,
    sgc: &GroupCapacity,
    load: &GroupLoad,
) -> bool {
    let nothing = GroupLoad::default();
    let (busiest_group, busiest) = sums.busiest.as_ref().map_or((None, &nothing), |(group, load)| (Some(*group), load));
    // A task that no CPU here helps.
    let helps = is_smaller(env, sgc.max_capacity, sums.local_sgc.max_capacity) && sums.local.has_capacity(env);
    if load.class() == LoadType::Misfit && !helps {
        return false;
    }
    if load.class() != busiest.class() {
        return load.class() > busiest.class();
    }
    if load.avg <= busiest.avg {
        return false;
    }
    if env.sd.has(SD_ASYM_CPUCAPACITY) {
        // Nobody waits there, and the CPUs are bigger.
        if load.nr_running <= load.weight && is_smaller(env, sums.local_sgc.min_capacity, sgc.min_capacity) {
            return false;
        }
        let leaves_others = env.rules.groups == BalanceGroups::Similar && load.class() == LoadType::Other;
        if leaves_others && !are_similar(&sums.local_sgc, sgc) {
            return false;
        }
        if load.class() == LoadType::Misfit && load.misfit_load < busiest.misfit_load {
            return false;
        }
    }
    if !env.sd.has(SD_ASYM_PACKING) || !env.idle.is_idle() {
        return true;
    }
    let rank = |cpu| facts.asym_priority(cpu);
    load.nr_running != 0
        && rank(env.dst_cpu) > rank(group.asym_prefer_cpu)
        && busiest_group.is_none_or(|busiest| rank(busiest.asym_prefer_cpu) > rank(group.asym_prefer_cpu))
}

/// `update_sd_lb_stats()`, v5.4.
fn sums_of<'a, H: BalanceHost>(
    host: &mut H,
    env: &LbEnv<'a>,
    cpus: CpuSet<'_>,
    sgc: &mut [GroupCapacity],
    rd: &mut RootDomain,
    jiffies: Jiffies,
) -> Sums<'a> {
    let sd = env.sd;
    let prefers_sibling = sd.child.is_some_and(|(_, flags)| flags & SD_PREFER_SIBLING != 0);
    let mut sums = Sums { busiest: None, local: GroupLoad::default(), local_sgc: GroupCapacity::default(), avg: 0 };
    let (mut total_load, mut total_capacity, mut seen) = (0, 0, (false, false));
    for group in sd.ring() {
        let is_local = group.span.as_set().contains(env.dst_cpu);
        let is_due = (jiffies.now.wrapping_sub(sgc[group.sgc].next_update) as i64) >= 0;
        if is_local && (env.idle != IdleType::NewlyIdle || is_due) {
            sgc[group.sgc].next_update = jiffies.now.wrapping_add(jiffies.interval);
            update_group_capacity(host, &sd, sgc, env.dst_cpu);
        }
        let mut load = GroupLoad::of(host, env, cpus, group, &sgc[group.sgc], &mut seen);
        if is_local {
            (sums.local, sums.local_sgc) = (load, sgc[group.sgc]);
        } else {
            if prefers_sibling && sums.local.has_capacity(env) && load.nr_running > sums.local.nr_running + 1 {
                load.is_overloaded = true;
            }
            if is_busier(host, env, &sums, group, &sgc[group.sgc], &load) {
                sums.busiest = Some((group, load));
            }
        }
        total_load += load.load;
        total_capacity += load.capacity;
    }
    sums.avg = load_by_capacity(total_load, total_capacity);
    let (overloaded, overutilized) = seen;
    let tips = host.energy_aware() && host.notices_overutilized();
    if sd.parent_sgc.is_none() {
        rd.overloaded = overloaded;
        rd.set_overutilized(tips, overutilized);
    } else if overutilized {
        rd.set_overutilized(tips, true);
    }
    sums
}

/// The load of a task where moving one gains something, else 0 (`fix_small_imbalance()`, v5.4).
fn small_imbalance(env: &LbEnv<'_>, local: &GroupLoad, local_per_task: u64, busiest: &GroupLoad) -> u64 {
    let steps = if local.nr_running != 0 && busiest.per_task > local_per_task { 1 } else { 2 };
    let by_capacity = load_by_capacity(busiest.per_task, busiest.capacity);
    if busiest.avg + by_capacity >= local.avg + by_capacity * steps {
        return busiest.per_task;
    }
    let used = |capacity: u64, per_task: u64, avg: u64| capacity * per_task.min(avg);
    let now = used(busiest.capacity, busiest.per_task, busiest.avg) + used(local.capacity, local_per_task, local.avg);
    let left = busiest.avg.checked_sub(by_capacity).filter(|&left| left > 0);
    let after_busiest = left.map_or(0, |left| used(busiest.capacity, busiest.per_task, left));
    let comes = (busiest.avg * busiest.capacity).min(busiest.per_task * SCHED_CAPACITY_SCALE) / local.capacity;
    let after = after_busiest + used(local.capacity, local_per_task, local.avg + comes);
    // A smaller group that is not full relieves a full one all the same.
    let relieves = env.rules.groups == BalanceGroups::Similar
        && env.sd.has(SD_ASYM_CPUCAPACITY)
        && busiest.class() == LoadType::Overloaded
        && busiest.nr_running > busiest.weight
        && local.nr_running < local.weight
        && local.capacity < busiest.capacity;
    if after / SCHED_CAPACITY_SCALE > now / SCHED_CAPACITY_SCALE || relieves { busiest.per_task } else { 0 }
}

/// How much load to move (`calculate_imbalance()`, v5.4 and msm-4.14).
fn imbalance_of(env: &LbEnv<'_>, sums: &Sums<'_>, busiest: &GroupLoad, dst_per_task: u64) -> u64 {
    let local = &sums.local;
    let mut busiest = *busiest;
    if busiest.class() == LoadType::Imbalanced {
        busiest.per_task = busiest.per_task.min(sums.avg);
    }
    let local_per_task = if local.nr_running == 0 { dst_per_task } else { local.per_task };
    let is_misfit = busiest.class() == LoadType::Misfit;
    let android = env.rules.groups == BalanceGroups::Similar;
    let relieves = android && busiest.class() == LoadType::Overloaded && local.class() <= LoadType::Misfit;
    let is_even = busiest.avg <= sums.avg || local.avg >= sums.avg;
    if !is_misfit && is_even {
        return if relieves { busiest.per_task } else { small_imbalance(env, local, local_per_task, &busiest) };
    }
    let mut above = u64::MAX;
    if busiest.is_overloaded && local.is_overloaded {
        // A group is not emptied below one task a CPU.
        let wanted = u64::from(busiest.nr_running) * SCHED_CAPACITY_SCALE;
        if wanted > busiest.capacity {
            above = (wanted - busiest.capacity) * NICE_0 / busiest.capacity;
        }
    }
    let pull = busiest.avg.wrapping_sub(sums.avg).min(above);
    let room = sums.avg.wrapping_sub(local.avg).wrapping_mul(local.capacity);
    let mut imbalance =
        if android && is_even { 0 } else { pull.wrapping_mul(busiest.capacity).min(room) / SCHED_CAPACITY_SCALE };
    let takes_misfit = !android || env.idle == IdleType::NewlyIdle || local.nr_running < local.weight;
    if is_misfit && takes_misfit {
        imbalance = (imbalance as i64).max(busiest.misfit_load as i64) as u64;
    }
    if imbalance < busiest.per_task {
        if relieves && env.idle.is_idle() {
            return busiest.per_task;
        }
        // It is raised to one task's where that gains something, and else stays as it is.
        return small_imbalance(env, local, local_per_task, &busiest).max(imbalance);
    }
    imbalance
}

/// The group to pull from, if there is an imbalance that matters; `env.imbalance` is the load to move, and
/// `env.src_misfit` whether it is for a task that does not fit.
///
/// kernel/sched/fair.c:`find_busiest_group()`, v5.4.
pub(super) fn find_busiest_group_v54<'a, H: BalanceHost>(
    host: &mut H,
    env: &mut LbEnv<'a>,
    cpus: CpuSet<'_>,
    sgc: &mut [GroupCapacity],
    rd: &mut RootDomain,
    jiffies: Jiffies,
) -> Option<&'a SchedGroup> {
    env.imbalance = 0;
    env.src_misfit = false;
    let sums = sums_of(host, env, cpus, sgc, rd, jiffies);
    if !rd.is_overutilized(host.energy_aware()) {
        return None;
    }
    let (group, busiest) = sums.busiest?;
    let local = &sums.local;
    if env.sd.has(SD_ASYM_PACKING)
        && env.idle.is_idle()
        && host.asym_priority(group.asym_prefer_cpu) <= host.asym_priority(env.dst_cpu)
    {
        env.imbalance = busiest.load as i64;
        return Some(group);
    }
    if busiest.nr_running == 0 {
        return None;
    }
    let is_forced = busiest.class() == LoadType::Imbalanced
        || (env.idle.is_idle() && local.has_capacity(env) && busiest.is_overloaded)
        || busiest.class() == LoadType::Misfit;
    if !is_forced {
        if local.avg >= busiest.avg || local.avg >= sums.avg {
            return None;
        }
        let is_even = match env.idle {
            IdleType::Idle => !busiest.is_overloaded && local.idle_cpus <= busiest.idle_cpus + 1,
            _ => 100 * busiest.avg <= u64::from(env.sd.imbalance_pct) * local.avg,
        };
        if is_even {
            return None;
        }
    }
    env.src_misfit = busiest.class() == LoadType::Misfit;
    let dst = host.cpu(env.dst_cpu);
    let dst_per_task = host.queued_load(env.dst_cpu).checked_div(dst.h_nr_queued.into()).unwrap_or(0);
    env.imbalance = imbalance_of(env, &sums, &busiest, dst_per_task) as i64;
    (env.imbalance != 0).then_some(group)
}

/// The CPU of `group` to pull from: the most load by capacity.
///
/// kernel/sched/fair.c:`find_busiest_queue()`, v5.4.
pub(super) fn find_busiest_queue_v54<F: BalanceFacts>(
    facts: &F,
    env: &LbEnv<'_>,
    cpus: CpuSet<'_>,
    group: &SchedGroup,
) -> Option<usize> {
    let (mut busiest, mut busiest_load, mut busiest_capacity) = (None, 0, 1);
    for cpu in group.span.as_set().iter().filter(|&cpu| cpus.contains(cpu)) {
        let rq = facts.cpu(cpu);
        if env.src_misfit {
            if rq.misfit_task_load > busiest_load {
                (busiest, busiest_load) = (Some(cpu), rq.misfit_task_load);
            }
            continue;
        }
        let is_bigger = || facts.cpu(env.dst_cpu).capacity.of < rq.capacity.of;
        if env.sd.has(SD_ASYM_CPUCAPACITY) && rq.nr_running == 1 && is_bigger() {
            continue;
        }
        let load = facts.queued_load(cpu);
        let is_whole =
            rq.nr_running == 1 && load > env.imbalance as u64 && !rq.has_reduced_capacity(env.sd.imbalance_pct);
        if !is_whole && load.wrapping_mul(busiest_capacity) > rq.capacity.of.wrapping_mul(busiest_load) {
            (busiest, busiest_load, busiest_capacity) = (Some(cpu), load, rq.capacity.of);
        }
    }
    busiest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::balance_env::BalanceRules;
    use crate::sched::cpumask::CpuMask;
    use crate::sched::fitness::CpuCapacity;
    use crate::sched::group::{CpuLoad, DomainView};

    /// Eight idle CPUs of a Pixel 4; nothing else is asked of them.
    struct Idle(CpuMask);

    impl BalanceFacts for Idle {
        fn cpu(&self, _cpu: usize) -> CpuLoad {
            CpuLoad { capacity: CpuCapacity { orig: 861, of: 861, ..CpuCapacity::default() }, ..CpuLoad::default() }
        }
        fn idle(&self) -> CpuSet<'_> {
            self.0.as_set()
        }
        fn ttwu_pending(&self, _cpu: usize) -> bool {
            false
        }
        fn smt_mask(&self, _cpu: usize) -> CpuSet<'_> {
            CpuSet::new(&[])
        }
        fn smt_active(&self) -> bool {
            false
        }
        fn asym_priority(&self, _cpu: usize) -> i32 {
            0
        }
        fn energy_aware(&self) -> bool {
            false
        }
        fn llc_size(&self, _cpu: usize) -> Option<u32> {
            None
        }
    }

    fn capacity_of(each: u64, cpus: u64) -> GroupCapacity {
        GroupCapacity { capacity: each * cpus, min_capacity: each, max_capacity: each, ..GroupCapacity::default() }
    }

    fn with_env<R>(groups: BalanceGroups, idle: IdleType, check: impl FnOnce(&LbEnv<'_>, &SchedGroup) -> R) -> R {
        let group = |cpus: std::ops::Range<usize>, sgc| SchedGroup {
            span: cpus.clone().collect(),
            balance_mask: cpus.clone().collect(),
            flags: 0,
            weight: cpus.len() as u32,
            cores: cpus.len() as u32,
            asym_prefer_cpu: 0,
            sgc,
        };
        let ring = [group(4..7, 0), group(7..8, 1), group(0..4, 2)];
        let all = CpuMask::all(8);
        let sd = DomainView {
            span: all.as_set(),
            span_weight: 8,
            flags: SD_ASYM_CPUCAPACITY,
            imbalance_pct: 125,
            cache_nice_tries: 1,
            imb_numa_nr: 0,
            groups: &ring,
            local: 0,
            child: None,
            parent_sgc: None,
        };
        let mut env = LbEnv::new(sd, 4, idle, 0, 32);
        env.rules = BalanceRules { groups, ..BalanceRules::V6_12 };
        check(&env, &ring[1])
    }

    /// The medium cluster, idle, looks at the big CPU with two tasks: both forms relieve it where it is full, v5.4 always.
    #[test]
    fn tasks_stay_on_bigger_cpus_that_are_not_full() {
        let is_seen = |groups, is_overloaded, each| {
            with_env(groups, IdleType::Idle, |env, group| {
                let local = GroupLoad { capacity: 3 * 861, weight: 3, ..GroupLoad::default() };
                let sums = Sums { busiest: None, local, local_sgc: capacity_of(861, 3), avg: 40 };
                let load = GroupLoad { avg: 200, nr_running: 2, weight: 1, is_overloaded, ..GroupLoad::default() };
                is_busier(&Idle(CpuMask::all(8)), env, &sums, group, &capacity_of(each, 1), &load)
            })
        };
        assert!(is_seen(BalanceGroups::Loads, false, 1024) && is_seen(BalanceGroups::Loads, true, 1024));
        assert!(!is_seen(BalanceGroups::Similar, false, 1024) && is_seen(BalanceGroups::Similar, true, 1024));
        // 982 - 861 = 121 is less than an eighth of 982, 122 of 983 is not.
        assert!(is_seen(BalanceGroups::Similar, false, 982) && !is_seen(BalanceGroups::Similar, false, 983));
    }

    /// Loads that are even by the average of all: a full group gives one task to one that is not, in msm-4.14.
    #[test]
    fn a_full_group_gives_at_least_one_task() {
        let moved = |groups, capacity: u64, imbalanced, idle| {
            with_env(groups, idle, |env, _| {
                let local = GroupLoad { avg: 250, capacity, weight: 3, imbalanced, ..GroupLoad::default() };
                let busiest = GroupLoad {
                    avg: 300,
                    load: 300,
                    per_task: 100,
                    capacity: 1024,
                    nr_running: 3,
                    weight: 1,
                    is_overloaded: true,
                    ..GroupLoad::default()
                };
                let sums = Sums { busiest: None, local, local_sgc: capacity_of(861, 3), avg: 400 };
                imbalance_of(env, &sums, &busiest, 0)
            })
        };
        // By hand: 300 + 100 < 250 + 2 * 100, and moving 100 leaves 100 of 100 used on either side.
        assert_eq!(moved(BalanceGroups::Loads, 3 * 861, false, IdleType::Idle), 0);
        assert_eq!(moved(BalanceGroups::Similar, 3 * 861, false, IdleType::Idle), 100);
        // One that affinity hinders only if it is smaller.
        assert_eq!(moved(BalanceGroups::Similar, 3 * 861, true, IdleType::Idle), 0);
        assert_eq!(moved(BalanceGroups::Similar, 1000, true, IdleType::Idle), 100);
    }
}
