//! What is compared: kernel profile, governor and its tunables, energy-aware scheduling, idle governor.

use std::collections::BTreeSet;

use opplab_kernel::cpufreq::governor::Worker;
use opplab_kernel::profile::{Platform, SugovAffinity};

use crate::cpus::format_cpu_list;
use crate::error::{Fault, Pos};
use crate::machine::{Cpufreq, Machine};
pub use crate::policy_keys::Policy;
use crate::policy_values::SCHED_FEATURES;
use crate::variation::Variation;

impl Policy {
    /// What a policy is where its file, Python or the command line are silent: programs vary as rt-app's do. A case states all that it
    /// is, and without the key nothing varies: that is the default of cases, and of recorded work.
    #[must_use]
    pub fn of_files() -> Self {
        Self { variation: Variation::RtApp, ..Self::default() }
    }

    /// Whether `cpu` is online.
    pub fn is_online(&self, machine: &Machine, cpu: u32) -> bool {
        let core = |of: u32| machine.cpus[of as usize].core;
        let is_second_thread = || (0..cpu).any(|other| core(other) == core(cpu));
        !self.offline_cpus.contains(&cpu) && (!self.nosmt || !is_second_thread())
    }

    /// Whether cores of `machine` start with two threads, as drivers see it (`sched_smt_active()`).
    pub fn smt_active(&self, machine: &Machine) -> bool {
        !self.nosmt && machine.has_smt()
    }

    /// Whether `cpu` is in scheduling domains, and open to tasks that name no CPU.
    pub fn runs_tasks(&self, machine: &Machine, cpu: u32) -> bool {
        !self.isolcpus.contains(&cpu) && self.is_online(machine, cpu)
    }

    /// Whether the scheduler's feature `name` is on.
    pub fn has_feature(&self, name: &str) -> bool {
        let off = |set: &&String| set.strip_prefix("NO_") == Some(name) || *set == name;
        match self.sched_features.iter().rev().find(off) {
            Some(set) => set == name,
            None => SCHED_FEATURES.iter().any(|feature| feature.name == name && feature.is_on),
        }
    }

    /// Refuses a policy that does not fit `machine`; `at` is where it stands.
    ///
    /// # Errors
    /// A [`Fault`] for a driver or a CPU that the machine does not have.
    pub fn check_on(&self, machine: &Machine, at: Pos) -> Result<(), Fault> {
        let Some(driver) = machine.driver(&self.driver) else {
            let drivers = std::iter::once(&machine.cpufreq).chain(&machine.other_drivers);
            let what = format!("driver of machine {}", machine.name);
            return Err(Fault::unknown(at, &what, &self.driver, drivers.map(|driver| driver.driver.entry().name)));
        };
        if let Ok(profile) = self.profile() {
            for set in &self.sched_features {
                let name = set.strip_prefix("NO_").unwrap_or(set);
                if SCHED_FEATURES.iter().any(|feature| feature.name == name && !(feature.is_in)(&profile)) {
                    let kernel = &self.kernel;
                    return Err(Fault::new(
                        at,
                        format!("`sched_features`: kernel {kernel} has no {name} that opplab can switch"),
                    ));
                }
            }
        }
        let nr = machine.nr_cpus();
        let lists = [
            ("sugov_cpus", &self.sugov_cpus),
            ("offline_cpus", &self.offline_cpus),
            ("isolcpus", &self.isolcpus),
            ("nohz_full", &self.nohz_full),
        ];
        for (key, cpus) in lists {
            if let Some(cpu) = cpus.iter().find(|&&cpu| cpu as usize >= nr) {
                let message = format!("`{key}`: CPU {cpu} does not exist: machine {} has {nr} CPUs", machine.name);
                return Err(Fault::new(at, message));
            }
        }
        self.check_sugov_cpus(machine, driver, at)?;
        if self.nosmt && !machine.has_smt() {
            return Err(Fault::new(at, format!("`nosmt`: machine {} has one thread a core", machine.name)));
        }
        if self.offline_cpus.contains(&0) && machine.platform() != Platform::Arm {
            return Err(Fault::new(at, String::from("`offline_cpus`: CPU 0 of an x86 machine stays online")));
        }
        if !(0..nr as u32).any(|cpu| self.is_online(machine, cpu)) {
            return Err(Fault::new(at, String::from("`offline_cpus`: no CPU is left online")));
        }
        if (0..nr as u32).all(|cpu| self.nohz_full.contains(&cpu) || !self.is_online(machine, cpu)) {
            return Err(Fault::new(at, String::from("`nohz_full`: no CPU is left for timekeeping and housekeeping")));
        }
        if !(0..nr as u32).any(|cpu| self.runs_tasks(machine, cpu)) {
            return Err(Fault::new(at, String::from("`isolcpus`, `offline_cpus`: no CPU is left for other tasks")));
        }
        let states = || machine.clusters.iter().flat_map(|cluster| &cluster.idle).map(|state| state.name.as_str());
        if let Some(name) = self.idle_disable.iter().find(|name| !states().any(|known| known == *name)) {
            let what = format!("idle state of machine {}", machine.name);
            let known: BTreeSet<&str> = states().collect();
            return Err(Fault::unknown(at, &what, name, known));
        }
        if self.sched_util_clamp_min > self.sched_util_clamp_max {
            let (min, max) = (self.sched_util_clamp_min, self.sched_util_clamp_max);
            let message = format!("`sched_util_clamp_min` is {min}, above `sched_util_clamp_max`, {max}");
            return Err(Fault::new(at, message));
        }
        for (key, limit) in [("scaling_min_freq", &self.scaling_min_freq), ("scaling_max_freq", &self.scaling_max_freq)]
        {
            let clusters = || machine.clusters.iter().map(|cluster| cluster.name.as_str());
            if let Some((name, _)) = limit.by_cluster.iter().find(|(name, _)| !clusters().any(|known| known == name)) {
                let what = format!("cluster of `{key}` on machine {}", machine.name);
                return Err(Fault::unknown(at, &what, name, clusters()));
            }
        }
        for cluster in &machine.clusters {
            let set = (self.scaling_min_freq.of(&cluster.name), self.scaling_max_freq.of(&cluster.name));
            if let (Some(min), Some(max)) = set
                && min > max
            {
                let message =
                    format!("`scaling_min_freq` of {} is {min} kHz, above `scaling_max_freq`, {max}", cluster.name);
                return Err(Fault::new(at, message));
            }
        }
        if self.min_perf_pct > self.max_perf_pct {
            let (min, max) = (self.min_perf_pct, self.max_perf_pct);
            return Err(Fault::new(at, format!("`min_perf_pct` is {min}, above `max_perf_pct`, {max}")));
        }
        self.changes.iter().try_for_each(|change| change.policy.check_on(machine, at))
    }

    /// Refuses `sugov_cpus` where the kernel does: it binds schedutil's threads for good to the CPUs of their cpufreq policies before
    /// v6.14, and later where the driver needs one of them (cpufreq_schedutil.c:sugov_kthread_create(), v6.12 and v6.14).
    fn check_sugov_cpus(&self, machine: &Machine, driver: &Cpufreq, at: Pos) -> Result<(), Fault> {
        let has_threads =
            !driver.fast_switch && self.governor_id().is_ok_and(|id| id.entry().worker == Worker::Kthread);
        let free = self.profile().is_ok_and(|profile| profile.sugov_affinity == SugovAffinity::Free);
        let any_cpu = driver.dvfs_possible_from_any_cpu;
        if self.sugov_cpus.is_empty() || !has_threads || free && any_cpu {
            return Ok(());
        }
        let policies = machine.policies();
        let moved = |cpus: &[u32]| {
            cpus.iter().any(|cpu| !self.sugov_cpus.contains(cpu))
                || self.sugov_cpus.iter().any(|cpu| !cpus.contains(cpu))
        };
        let Some((_, cpus)) = policies.iter().find(|(_, cpus)| moved(cpus)) else { return Ok(()) };
        let (thread, cpus, wanted) = (cpus[0], format_cpu_list(cpus), format_cpu_list(&self.sugov_cpus));
        let (kernel, name, driver) = (&self.kernel, &machine.name, driver.driver.entry().name);
        let refused = format!(
            "`sugov_cpus`: the kernel refuses CPUs {wanted} for sugov:{thread}, which it binds to CPUs {cpus} of its policy"
        );
        Err(Fault::new(
            at,
            if any_cpu {
                format!(
                    "{refused}: gate sugov_affinity is `bound` in kernel {kernel}. A patched kernel has \
                     --gate sugov_affinity=free, in files gates = {{ sugov_affinity = \"free\" }}"
                )
            } else {
                format!("{refused}: {driver} of machine {name} does not have dvfs_possible_from_any_cpu")
            },
        ))
    }
}
