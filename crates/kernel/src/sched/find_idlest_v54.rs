//! The group that a new task or an exec goes to, as before v5.5 (kernel/sched/fair.c: `find_idlest_group()`, v5.4).
//!
//! Loads of groups are compared with a margin, first of what is queued, then on average. An exec looks for spare capacity
//! before that. Which CPU of the group is taken is in [`super::find_idlest`].

use super::find_idlest::{IdlestFacts, IdlestTask};
use super::group::{DomainView, SchedGroup};
use super::sd_flags::{SD_BALANCE_FORK, SD_NUMA};
use crate::unit::SCHED_CAPACITY_SCALE;

/// The load of a task of nice 0 that always runs (`scale_load_down(NICE_0_LOAD)`).
const NICE_0: u64 = 1024;

/// What is known of a group.
#[derive(Clone, Copy, Debug)]
struct GroupLoad {
    /// The load of what is queued, by capacity.
    runnable: u64,
    /// The average load, by capacity.
    avg: u64,
    /// Of the CPU with the most.
    spare: u64,
}

impl GroupLoad {
    fn of<F: IdlestFacts>(facts: &F, group: &SchedGroup, task: &IdlestTask<'_>) -> Self {
        let (mut runnable, mut avg, mut spare) = (0_u64, 0_u64, 0);
        for cpu in group.span.as_set().iter() {
            let load = facts.cpu(cpu);
            runnable += facts.runnable_load(cpu);
            avg += load.load;
            spare = spare.max(load.capacity.of.saturating_sub(task.cpu_util_without(cpu, &load)));
        }
        let capacity = facts.group_capacity(group.sgc).capacity.max(1);
        let by_capacity = |load: u64| load * SCHED_CAPACITY_SCALE / capacity;
        Self { runnable: by_capacity(runnable), avg: by_capacity(avg), spare }
    }
}

/// The group to go to, `None` to stay in the local one.
///
/// kernel/sched/fair.c:`find_idlest_group()`, v5.4.
pub fn find_idlest_group_v54<'a, F: IdlestFacts>(
    facts: &F,
    domain: &DomainView<'a>,
    task: &IdlestTask<'_>,
    this_cpu: usize,
    sd_flag: u32,
) -> Option<&'a SchedGroup> {
    let over = u64::from(domain.imbalance_pct.saturating_sub(100));
    let imbalance_scale = 100 + over / 2;
    let imbalance = NICE_0 * over / 100;
    let mut this = GroupLoad { runnable: u64::MAX, avg: u64::MAX, spare: 0 };
    let mut idlest: Option<(&SchedGroup, GroupLoad)> = None;
    let mut most_spare: Option<(&SchedGroup, u64)> = None;
    for group in domain.ring() {
        let span = group.span.as_set();
        if !span.intersects(task.allowed) {
            continue;
        }
        let load = GroupLoad::of(facts, group, task);
        if span.contains(this_cpu) {
            this = load;
            continue;
        }
        let is_idler = idlest.is_none_or(|(_, best)| {
            // Much less is queued; or as much, and less was on average.
            best.runnable > load.runnable + imbalance
                || (load.runnable < best.runnable + imbalance && 100 * best.avg > imbalance_scale * load.avg)
        });
        if is_idler {
            idlest = Some((group, load));
        }
        if load.spare > most_spare.map_or(0, |(_, spare)| spare) {
            most_spare = Some((group, load.spare));
        }
    }
    if sd_flag & SD_BALANCE_FORK == 0 {
        // A new task has no utilisation yet that spare capacity could be compared with.
        let half = task.util_avg / 2;
        let spare = most_spare.map_or(0, |(_, spare)| spare);
        if this.spare > half && imbalance_scale * this.spare > 100 * spare {
            return None;
        }
        if spare > half {
            return most_spare.map(|(group, _)| group);
        }
    }
    let (group, best) = idlest?;
    if this.runnable == u64::MAX {
        return Some(group);
    }
    let stays_for_numa = domain.has(SD_NUMA) && best.runnable + imbalance >= this.runnable;
    let is_less_here = best.runnable > this.runnable + imbalance;
    let is_as_much = this.runnable < best.runnable + imbalance && 100 * this.avg < imbalance_scale * best.avg;
    (!stays_for_numa && !is_less_here && !is_as_much).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::cpumask::{CpuMask, CpuSet};
    use crate::sched::find_idlest::IdleInfo;
    use crate::sched::group::{CpuLoad, GroupCapacity};
    use crate::sched::placement::CpuCapacity;
    use crate::sched::sd_flags::SD_BALANCE_EXEC;

    /// Four CPUs in two groups: what is queued, the average load and the utilisation of each.
    struct Four([[u64; 3]; 4]);

    impl IdlestFacts for Four {
        fn cpu(&self, cpu: usize) -> CpuLoad {
            let [_, load, util] = self.0[cpu];
            let capacity = CpuCapacity { orig: 1024, of: 1024, hw_pressure: 0, cpufreq_pressure: 0 };
            CpuLoad { load, util, capacity, ..CpuLoad::default() }
        }
        fn runnable_load(&self, cpu: usize) -> u64 {
            self.0[cpu][0]
        }
        fn is_idle(&self, cpu: usize) -> bool {
            self.0[cpu][0] == 0
        }
        fn is_sched_idle(&self, _cpu: usize) -> bool {
            false
        }
        fn is_idle_without_task(&self, cpu: usize) -> bool {
            self.is_idle(cpu)
        }
        fn idle_info(&self, _cpu: usize) -> IdleInfo {
            IdleInfo::default()
        }
        fn group_capacity(&self, _sgc: usize) -> GroupCapacity {
            GroupCapacity { capacity: 2048, ..GroupCapacity::default() }
        }
        fn domain(&self, _cpu: usize, _level: usize) -> Option<DomainView<'_>> {
            None
        }
        fn n_levels(&self) -> usize {
            0
        }
    }

    /// The first CPU of the group that a task of `util_avg` on CPU 0 goes to.
    fn goes_to(cpus: [[u64; 3]; 4], flags: u32, sd_flag: u32, util_avg: u64) -> Option<usize> {
        let mask = |cpus: [usize; 2]| {
            let mut mask = CpuMask::with_room(4);
            for cpu in cpus {
                mask.insert(cpu);
            }
            mask
        };
        let group = |cpus: [usize; 2], sgc: usize| SchedGroup {
            span: mask(cpus),
            balance_mask: mask(cpus),
            flags: 0,
            weight: 2,
            cores: 2,
            asym_prefer_cpu: 0,
            sgc,
        };
        let groups = [group([0, 1], 0), group([2, 3], 1)];
        let all = [0b1111];
        let domain = DomainView {
            span: CpuSet::new(&all),
            span_weight: 4,
            flags,
            imbalance_pct: 117,
            cache_nice_tries: 0,
            imb_numa_nr: 0,
            groups: &groups,
            local: 0,
            child: None,
            parent_sgc: None,
        };
        let task = IdlestTask {
            cpu: 0,
            on_rq: sd_flag == SD_BALANCE_EXEC,
            is_current: sd_flag == SD_BALANCE_EXEC,
            is_attached: false,
            util_avg,
            util_est: 0,
            runnable_avg: 0,
            h_load: 0,
            allowed: CpuSet::new(&all),
            is_unrestricted: true,
            clamps: None,
        };
        find_idlest_group_v54(&Four(cpus), &domain, &task, 0, sd_flag).and_then(|group| group.span.as_set().first())
    }

    const IDLE: [u64; 3] = [0; 3];

    #[test]
    fn a_child_of_a_shell_that_mostly_sleeps_stays() {
        // 300 of 1024 are queued here: half of that by capacity, less than the margin of 174.
        assert_eq!(goes_to([[300, 300, 300], IDLE, IDLE, IDLE], 0, SD_BALANCE_FORK, 0), Some(2));
        assert_eq!(goes_to([[300, 0, 300], IDLE, IDLE, IDLE], 0, SD_BALANCE_FORK, 0), Some(2));
        assert_eq!(goes_to([[300, 20, 300], IDLE, [0, 30, 0], IDLE], 0, SD_BALANCE_FORK, 0), None);
    }

    #[test]
    fn much_that_is_queued_sends_children_away() {
        assert_eq!(goes_to([[900, 10, 900], IDLE, [0, 30, 0], IDLE], 0, SD_BALANCE_FORK, 0), Some(2));
        // There is more elsewhere.
        assert_eq!(goes_to([IDLE, IDLE, [900, 900, 900], IDLE], 0, SD_BALANCE_FORK, 0), None);
    }

    #[test]
    fn a_node_keeps_its_children_longer() {
        let cpus = [[300, 300, 300], IDLE, IDLE, IDLE];
        assert_eq!(goes_to(cpus, SD_NUMA, SD_BALANCE_FORK, 0), None);
        let cpus = [[900, 900, 900], IDLE, IDLE, IDLE];
        assert_eq!(goes_to(cpus, SD_NUMA, SD_BALANCE_FORK, 0), Some(2));
    }

    #[test]
    fn an_exec_goes_where_the_spare_capacity_is() {
        // Room enough on both sides: it stays, whatever the loads are.
        assert_eq!(goes_to([[900, 900, 600], IDLE, IDLE, IDLE], 0, SD_BALANCE_EXEC, 200), None);
        // None here.
        let full = [900, 900, 1000];
        assert_eq!(goes_to([full, full, IDLE, full], 0, SD_BALANCE_EXEC, 600), Some(2));
        assert_eq!(goes_to([full, full, full, full], 0, SD_BALANCE_EXEC, 600), None);
    }

    #[test]
    fn an_equal_group_is_not_worth_it() {
        let busy = [500, 500, 500];
        assert_eq!(goes_to([busy; 4], 0, SD_BALANCE_FORK, 0), None);
    }
}
