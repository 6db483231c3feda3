//! Energy-aware placement before mainline had one: energies of scheduling groups, as in Android's 4.4 to 4.14 kernels
//! (kernel/sched/fair.c of msm-4.14: find_energy_efficient_cpu() with `NO_FIND_BEST_TARGET`, select_energy_cpu_idx(),
//! compute_energy(), calc_sg_energy()).
//!
//! All CPUs on which the task fits are compared, with the one that it ran on. A cluster's energy is that of the cluster
//! as a group and of each of its CPUs as groups of one:
//! ```text
//! energy of a group = busy * power[state] + (1024 - busy) * idle power[idle state]
//! busy              = min(1024, sum over its CPUs of utilisation / capacity[state], in 1/1024)
//! state             = the lowest whose capacity is not below the highest utilisation of the cluster's CPUs
//! ```
//! Only clusters with a candidate count. The task moves if that saves at least 1/64 of the energy with it where it was.
//! Not here: find_best_target(), boosts (schedtune), the sync hint, isolated CPUs.

use crate::eas::{EasExplanation, EasRule};

/// util * 1078 / 1024 must be below the capacity: about 5 % of room (`sysctl_sched_capacity_margin_up`, msm-4.14).
pub const CAPACITY_MARGIN_UP: u64 = 1078;
/// What a move must save, as a right shift of the energy with the task on its previous CPU.
const MARGIN_SHIFT: u32 = 6;
const SCALE: u64 = 1024;

/// One operating point of a group (`struct capacity_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapState {
    /// The capacity of each of its CPUs, 0..1024.
    pub cap: u64,
    /// The power of a busy group, in any unit that all groups share.
    pub power: u64,
}

/// The energy data of a group (`struct sched_group_energy`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupEnergy {
    /// By ascending capacity.
    pub cap_states: Vec<CapState>,
    /// The power of the idle group: awake in the idle loop, then the idle states from the shallowest on.
    pub idle_power: Vec<u64>,
}

/// A cluster: its CPUs share a frequency.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterEnergy {
    /// Its CPUs, ascending.
    pub cpus: Vec<usize>,
    /// The energy data of each of its CPUs.
    pub core: GroupEnergy,
    /// The energy data of what its CPUs share.
    pub cluster: GroupEnergy,
}

/// What is known of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupCpu {
    /// `cpu_util()`: the fair utilisation or its estimate, at most the capacity.
    pub util: u64,
    /// `cpu_util_without()`: the same without the task.
    pub util_without: u64,
    /// `capacity_of()`.
    pub capacity: u64,
    /// `capacity_orig_of()`.
    pub capacity_orig: u64,
    /// Its idle state from 0 on; `None` if it runs something, or runs this code.
    pub idle_state: Option<usize>,
}

/// Whether a CPU has no room left (fair.c:cpu_overutilized(), msm-4.14).
pub fn cpu_overutilized(util: u64, capacity_orig: u64) -> bool {
    capacity_orig.wrapping_mul(SCALE) < util.wrapping_mul(CAPACITY_MARGIN_UP)
}

/// The CPU on which the waking task costs the least (fair.c:find_energy_efficient_cpu(), msm-4.14).
///
/// `is_candidate` are the CPUs that the task may use inside the widest domain that is not overutilised; `task_util` is
/// task_util_est(). Gives the previous CPU if no other is a candidate or none saves enough. `seen` takes note.
pub fn find_energy_efficient_cpu(
    clusters: &[ClusterEnergy],
    prev_cpu: usize,
    task_util: u64,
    cpu: impl Fn(usize) -> GroupCpu,
    is_candidate: impl Fn(usize) -> bool,
    seen: Option<&mut EasExplanation>,
) -> usize {
    let fits = |index: usize| {
        let facts = cpu(index);
        let spare = facts.capacity.saturating_sub(facts.util_without);
        spare.wrapping_mul(SCALE) >= CAPACITY_MARGIN_UP.wrapping_mul(task_util)
    };
    let all = || clusters.iter().flat_map(|cluster| cluster.cpus.iter().copied());
    let mut others: Vec<usize> =
        all().filter(|&index| index != prev_cpu && is_candidate(index) && fits(index)).collect();
    others.sort_unstable();
    let counted: Vec<&ClusterEnergy> = clusters
        .iter()
        .filter(|cluster| cluster.cpus.iter().any(|index| *index == prev_cpu || others.contains(index)))
        .collect();
    let call = Call { clusters: &counted, prev_cpu, task_util, cpu: &cpu };
    let prev_energy = call.energy(prev_cpu);
    let margin = (prev_energy >> MARGIN_SHIFT) as i64;
    let (mut best_cpu, mut best_delta) = (prev_cpu, 0i64);
    for dst_cpu in others {
        let mut delta = call.energy(dst_cpu).wrapping_sub(prev_energy) as i64;
        if delta.unsigned_abs() < margin.unsigned_abs() {
            delta = 0;
        }
        if delta < best_delta {
            (best_cpu, best_delta) = (dst_cpu, delta);
        }
    }
    if let Some(seen) = seen {
        let rule = if best_cpu == prev_cpu { EasRule::Stay } else { EasRule::LessEnergy };
        seen.decided = Some((Some(best_cpu), rule));
    }
    best_cpu
}

/// One placement's unchanging facts.
struct Call<'a, F> {
    clusters: &'a [&'a ClusterEnergy],
    prev_cpu: usize,
    task_util: u64,
    cpu: &'a F,
}

impl<F: Fn(usize) -> GroupCpu> Call<'_, F> {
    /// fair.c:compute_energy(), msm-4.14: all groups with the task on `dst_cpu`. Sums wrap.
    fn energy(&self, dst_cpu: usize) -> u64 {
        let groups = self.clusters.iter().map(|cluster| {
            let highest = cluster.cpus.iter().map(|&cpu| self.util_with(cpu, dst_cpu)).max().unwrap_or(0);
            let alone = cluster
                .cpus
                .iter()
                .map(|cpu| self.calc_sg_energy(&cluster.core, std::slice::from_ref(cpu), highest, cluster, dst_cpu));
            alone.fold(
                self.calc_sg_energy(&cluster.cluster, &cluster.cpus, highest, cluster, dst_cpu),
                u64::wrapping_add,
            )
        });
        groups.fold(0, u64::wrapping_add)
    }

    fn util_with(&self, cpu: usize, dst_cpu: usize) -> u64 {
        let util = (self.cpu)(cpu).util_without;
        if cpu == dst_cpu { util.wrapping_add(self.task_util) } else { util }
    }

    /// fair.c:calc_sg_energy(), msm-4.14.
    fn calc_sg_energy(
        &self,
        data: &GroupEnergy,
        cpus: &[usize],
        highest_util: u64,
        cluster: &ClusterEnergy,
        dst_cpu: usize,
    ) -> u64 {
        // The cluster's table decides the state, with the group's power.
        let table = &cluster.cluster.cap_states;
        let state = table.iter().position(|state| state.cap >= highest_util).unwrap_or(table.len().saturating_sub(1));
        let (Some(shared), Some(own)) = (table.get(state), data.cap_states.get(state)) else { return 0 };
        let norm = |util: u64| if util >= shared.cap { SCALE } else { util.wrapping_mul(SCALE) / shared.cap };
        let busy: u64 =
            cpus.iter().map(|&cpu| norm(self.util_with(cpu, dst_cpu))).fold(0, u64::wrapping_add).min(SCALE);
        let deepest = data.idle_power.len().saturating_sub(1);
        let idle_state = self.group_idle_state(data, cpus, dst_cpu).min(deepest);
        let idle_power = data.idle_power.get(idle_state).copied().unwrap_or(0);
        busy.wrapping_mul(own.power).wrapping_add((SCALE - busy).wrapping_mul(idle_power))
    }

    /// The group's idle state, 0 if it is awake (fair.c:group_idle_state(), msm-4.14): the shallowest of its CPUs'; of a
    /// group that the task leaves or joins a guess from how full it will be.
    fn group_idle_state(&self, data: &GroupEnergy, cpus: &[usize], dst_cpu: usize) -> usize {
        let has = |cpu: usize| cpus.contains(&cpu);
        let now = cpus.iter().map(|&cpu| (self.cpu)(cpu).idle_state.map_or(0, |state| state.saturating_add(1))).min();
        if has(self.prev_cpu) == has(dst_cpu) {
            return now.unwrap_or(0);
        }
        let before: i64 = cpus.iter().map(|&cpu| (self.cpu)(cpu).util as i64).fold(0, i64::wrapping_add);
        let moved = self.task_util as i64;
        let after = if has(self.prev_cpu) { before.wrapping_sub(moved) } else { before.wrapping_add(moved) };
        let max_capacity = cpus.iter().map(|&cpu| (self.cpu)(cpu).capacity as i64).max().unwrap_or(0).max(1);
        if after > max_capacity.wrapping_mul(cpus.len() as i64) {
            return 0;
        }
        // Of the states but the deepest, which is for a group without any utilisation.
        let last = data.idle_power.len().saturating_sub(2) as i64;
        if after <= 0 {
            return (last + 1) as usize;
        }
        (last - (after.wrapping_mul(last) / max_capacity).clamp(0, last)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(points: &[(u64, u64)], idle: &[u64]) -> GroupEnergy {
        let cap_states = points.iter().map(|&(cap, power)| CapState { cap, power }).collect();
        GroupEnergy { cap_states, idle_power: idle.to_vec() }
    }

    /// Two little CPUs (0, 1) and two big ones (2, 3).
    fn machine() -> Vec<ClusterEnergy> {
        vec![
            ClusterEnergy {
                cpus: vec![0, 1],
                core: group(&[(200, 40), (400, 120)], &[10, 8, 5]),
                cluster: group(&[(200, 4), (400, 16)], &[3, 2, 1]),
            },
            ClusterEnergy {
                cpus: vec![2, 3],
                core: group(&[(512, 300), (1024, 1000)], &[80, 60, 40]),
                cluster: group(&[(512, 30), (1024, 100)], &[3, 2, 1]),
            },
        ]
    }

    fn facts(util: [u64; 4], prev_cpu: usize, task_util: u64) -> impl Fn(usize) -> GroupCpu {
        move |cpu| GroupCpu {
            util: util[cpu],
            util_without: if cpu == prev_cpu { util[cpu].saturating_sub(task_util) } else { util[cpu] },
            capacity: if cpu < 2 { 400 } else { 1024 },
            capacity_orig: if cpu < 2 { 400 } else { 1024 },
            idle_state: Some(0),
        }
    }

    #[test]
    fn energies_are_those_of_the_formula() {
        let clusters = machine();
        let one: Vec<&ClusterEnergy> = clusters.iter().take(1).collect();
        let cpu = facts([100, 50, 0, 0], 0, 50);
        let call = Call { clusters: &one, prev_cpu: 0, task_util: 50, cpu: &cpu };
        // At capacity 200: CPU 0 is busy 512/1024, CPU 1 256/1024, the cluster 768/1024. All are in WFI now.
        let busy = 512 * 40 + 256 * 40 + 768 * 4;
        let idle = 512 * 8 + 768 * 8 + 256 * 2;
        assert_eq!(call.energy(0), busy + idle);
        // With the task on CPU 1: as full, but both CPUs' idle states are guesses, here WFI as well.
        assert_eq!(call.energy(1), 256 * 40 + 512 * 40 + 768 * 4 + idle);
    }

    #[test]
    fn small_tasks_go_little_and_large_ones_stay() {
        let check = |util: [u64; 4], prev: usize, task: u64, expected: usize| {
            let target = find_energy_efficient_cpu(&machine(), prev, task, facts(util, prev, task), |_| true, None);
            assert_eq!(target, expected, "{util:?} {prev} {task}");
        };
        check([100, 20, 60, 0], 2, 50, 0);
        // On CPU 0 the cluster would need its higher state.
        check([160, 20, 60, 0], 2, 50, 1);
        // Too large for a little one: the other big CPU, since without utilisation this one is taken to sleep deeper.
        check([0, 0, 500, 0], 2, 500, 3);
        check([0, 0, 510, 0], 2, 500, 2);
        // A full little cluster: 400 - 380 leaves no room for 50 with the margin.
        check([380, 390, 60, 0], 2, 50, 2);
        // Equal places are not worth a move.
        check([60, 0, 0, 0], 0, 50, 0);
    }

    #[test]
    fn only_candidates_are_chosen() {
        let cpu = facts([0, 0, 60, 0], 2, 50);
        assert_eq!(find_energy_efficient_cpu(&machine(), 2, 50, cpu, |cpu| cpu >= 2, None), 2);
    }

    #[test]
    fn the_tipping_point_is_at_95_percent() {
        let check = |util, capacity, over| assert_eq!(cpu_overutilized(util, capacity), over, "{util} of {capacity}");
        check(379, 400, false);
        check(380, 400, true);
        check(972, 1024, false);
        check(973, 1024, true);
    }

    proptest! {
        /// Goal: any facts have an answer, which is a candidate or where the task was.
        #[test]
        fn any_facts_have_a_choice(wild: [u64; 12], prev in 0..4usize, task: u64, mask in 0..16u32, idle: [u8; 4]) {
            let cpu = |cpu: usize| GroupCpu {
                util: wild[cpu],
                util_without: wild[cpu + 4],
                capacity: wild[cpu + 8],
                capacity_orig: wild[cpu + 8],
                idle_state: idle[cpu].checked_sub(1).map(usize::from),
            };
            let chosen = find_energy_efficient_cpu(&machine(), prev, task, cpu, |cpu| mask >> cpu & 1 != 0, None);
            prop_assert!(chosen == prev || mask >> chosen & 1 != 0);
        }
    }
}
