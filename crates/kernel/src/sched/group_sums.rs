//! The sums over groups of CPUs that balance and the slow path look at, kept from one look to the next.
//!
//! The kernel walks over all CPUs of a domain each time. Here a CPU whose queue has changed takes its old part out of the sums of
//! its groups and adds the new one, so that a look costs what has changed since and not what the domain has. Sums wrap as the
//! kernel's do, so that they are equal to the last bit.

use super::cpumask::CpuMask;
use super::group::{CpuLoad, SgLbStats};

/// What a CPU adds to the sums of a group, and such a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSum {
    /// [`CpuLoad::load`].
    pub load: u64,
    /// [`CpuLoad::util_cfs`].
    pub util: u64,
    /// [`CpuLoad::runnable`].
    pub runnable: u64,
    /// [`CpuLoad::nr_running`].
    pub nr_running: u32,
    /// [`CpuLoad::h_nr_queued`].
    pub h_nr_queued: u32,
    /// CPUs with nothing queued that `idle_cpu()` holds idle.
    pub idle: u32,
    /// CPUs with nothing queued that run their idle task and have no wake-up on its way (`idle_cpu_without()`).
    pub idle_without: u32,
    /// CPUs with more than one task.
    pub overloaded: u32,
    /// CPUs of which other classes or limits of the frequency take something.
    pub reduced: u32,
}

impl GroupSum {
    /// The part of a CPU: idle for the balancer, idle but for the task that is placed.
    #[inline]
    pub fn of(load: &CpuLoad, is_idle: bool, is_idle_without: bool) -> Self {
        let is_free = load.nr_running == 0;
        Self {
            load: load.load,
            util: load.util_cfs(),
            runnable: load.runnable,
            nr_running: load.nr_running,
            h_nr_queued: load.h_nr_queued,
            idle: (is_free && is_idle).into(),
            idle_without: (is_free && is_idle_without).into(),
            overloaded: (load.nr_running > 1).into(),
            reduced: (load.capacity.of != load.capacity.orig).into(),
        }
    }

    /// What a look at the CPUs would have summed, with `idle_cpus` by the looker's own rule.
    #[inline]
    pub fn stats(&self, idle_cpus: u32) -> SgLbStats {
        SgLbStats {
            group_load: self.load,
            group_util: self.util,
            group_runnable: self.runnable,
            sum_h_nr_running: self.h_nr_queued,
            sum_nr_running: self.nr_running,
            idle_cpus,
            ..SgLbStats::default()
        }
    }

    /// Takes `old` out and adds `new`.
    #[inline]
    fn replace(&mut self, old: &Self, new: &Self) {
        macro_rules! each {
            ($($field:ident)*) => { $(self.$field = self.$field.wrapping_sub(old.$field).wrapping_add(new.$field);)* };
        }
        each!(load util runnable nr_running h_nr_queued idle idle_without overloaded reduced);
    }
}

/// The sums of all groups with more than one CPU.
#[derive(Clone, Debug)]
pub struct GroupSums {
    parts: Vec<GroupSum>,
    /// Of each CPU, its groups.
    groups_of: Vec<Vec<u32>>,
    sums: Vec<Option<GroupSum>>,
}

impl GroupSums {
    /// All parts are nothing. `spans` are those of `SchedDomains::group_spans()`.
    pub fn new(n_cpus: usize, spans: Vec<Option<&CpuMask>>) -> Self {
        let mut groups_of = vec![Vec::new(); n_cpus];
        let mut sums = Vec::new();
        for (sgc, span) in spans.into_iter().enumerate() {
            // Groups that overlap may have a capacity in common, but not all CPUs.
            let span = span.filter(|span| span.as_set().weight() > 1);
            for cpu in span.iter().flat_map(|span| span.as_set().iter()) {
                groups_of[cpu].push(sgc as u32);
            }
            sums.push(span.map(|_| GroupSum::default()));
        }
        Self { parts: vec![GroupSum::default(); n_cpus], groups_of, sums }
    }

    /// The part of `cpu` is `part` now.
    pub fn set(&mut self, cpu: usize, part: GroupSum) {
        let old = std::mem::replace(&mut self.parts[cpu], part);
        for &sgc in &self.groups_of[cpu] {
            if let Some(sum) = &mut self.sums[sgc as usize] {
                sum.replace(&old, &part);
            }
        }
    }

    /// The sum over the group with this [`super::group::SchedGroup::sgc`], if it is kept.
    #[inline]
    pub fn of(&self, sgc: usize) -> Option<&GroupSum> {
        self.sums.get(sgc)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::domains::{SchedDomains, Topology};
    use proptest::prelude::*;

    proptest! {
        /// Whatever changed, a kept sum is that over the group's CPUs, at each level.
        #[test]
        fn sums_are_those_of_the_groups(changes in proptest::collection::vec((0usize..16, 0u64..2000, 0u32..4), 0..60)) {
            let by = |size: u32| (0..16).map(|cpu| cpu / size).collect::<Vec<u32>>();
            let topology = Topology { core: by(2), cluster: by(2), llc: by(4), node: by(8), ..Topology::flat(16) };
            let domains = SchedDomains::build(&topology);
            let mut sums = GroupSums::new(16, domains.group_spans());
            let mut parts = [GroupSum::default(); 16];
            for (cpu, load, nr_running) in changes {
                let rq = CpuLoad { load, runnable: !load, nr_running, h_nr_queued: nr_running / 2, ..CpuLoad::default() };
                parts[cpu] = GroupSum::of(&rq, nr_running == 0, load == 0);
                sums.set(cpu, parts[cpu]);
            }
            let levels = (0..16).flat_map(|cpu| (0..domains.n_levels(cpu)).map(move |level| (cpu, level)));
            for group in levels.filter_map(|(cpu, level)| domains.domain(cpu, level)).flat_map(|domain| &domain.groups) {
                let mut sum = GroupSum::default();
                group.span.as_set().iter().for_each(|cpu| sum.replace(&GroupSum::default(), &parts[cpu]));
                prop_assert_eq!(sums.of(group.sgc), Some(&sum).filter(|_| group.weight > 1));
            }
        }
    }
}
