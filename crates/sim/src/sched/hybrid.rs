//! Cores that differ, as the scheduler knows them: Intel's hybrid processors and preferred cores.
//!
//! What a core can do is the machine file's; what the kernel knows of it depends on its version and on SMT. On an Intel hybrid
//! with SMT, and before v6.12 on any, it takes all CPUs for equal and packs tasks on those of higher priority (ITMT); without
//! SMT it knows capacities, and from v6.16 in passive mode an artificial energy model. Not here: processors of other makers,
//! whose capacities the firmware describes.

use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::hybrid::{CORE_SCALING_KHZ, CoreKind, HybridCost, hybrid_perf_table, itmt_priority};
use opplab_kernel::energy_model::EmPerfDomain;
use opplab_kernel::profile::EmCost;
use opplab_kernel::profile::{AmdPrefcore, HybridCapacity, HybridEm, ItmtThreads, KernelProfile};
use opplab_model::machine::{Cluster, Machine};
use opplab_model::policy::Policy;

use crate::CaseError;

/// Whether an Intel hybrid has capacities, which it does not with two threads a core.
fn by_level(machine: &Machine, policy: &Policy, profile: &KernelProfile) -> bool {
    profile.hybrid_capacity == HybridCapacity::ByLevel && !policy.smt_active(machine)
}

/// `arch_scale_cpu_capacity()` of each CPU under the policy that the machine starts with (intel_pstate.c:hybrid_init_cpu_capacity_scaling(), v6.12.117).
pub(crate) fn known_capacities(machine: &Machine, policy: &Policy, profile: &KernelProfile) -> Vec<u64> {
    let known = !machine.is_intel_hybrid() || by_level(machine, policy, profile);
    let capacity = |cpu: u32| if known { machine.cluster_of(cpu).capacity.into() } else { 1024 };
    (0..machine.nr_cpus() as u32).map(capacity).collect()
}

/// The priorities by which tasks are packed, if the driver gives some that differ
/// (intel_pstate.c:intel_pstate_set_itmt_prio(), amd-pstate.c:amd_pstate_init_prefcore(), v6.12.117).
pub(crate) fn packing_priorities(
    machine: &Machine,
    policy: &Policy,
    driver: DriverKind,
    profile: &KernelProfile,
) -> Option<Vec<i32>> {
    let tells = match driver {
        DriverKind::IntelActive | DriverKind::IntelPassive => {
            !(machine.is_intel_hybrid() && by_level(machine, policy, profile))
        }
        DriverKind::Amd(_) => profile.amd_prefcore == AmdPrefcore::Ranked,
        DriverKind::Acpi | DriverKind::Cppc | DriverKind::FirmwareTable => false,
    };
    if !tells {
        return None;
    }
    let nr = machine.cpus.len();
    let levels: Vec<u32> =
        (0..nr as u32).map(|cpu| Some(machine.cluster_of(cpu).cppc?.highest_perf)).collect::<Option<_>>()?;
    if levels.iter().all(|level| *level == levels[0]) {
        return None;
    }
    let ranked = profile.itmt_threads == ItmtThreads::Ranked;
    let priority = |cpu: usize| {
        let siblings = || (0..nr).filter(move |&other| machine.cpus[other].core == machine.cpus[cpu].core);
        let thread = siblings().position(|other| other == cpu).unwrap_or(0) as u32;
        itmt_priority(levels[cpu] as i32, siblings().count() as u32, thread, ranked)
    };
    Some((0..nr).map(priority).collect())
}

/// The kind of a CPU's core: the biggest are P-cores; others that share no last-level cache with one have none
/// (intel_pstate.c:hybrid_has_l3(), v6.16). CPUs of one cluster may be of both kinds.
fn kind_of(machine: &Machine, cpu: u32) -> CoreKind {
    let biggest = machine.clusters.iter().map(|cluster| cluster.capacity).max();
    let is_big = |cluster: &Cluster| Some(cluster.capacity) == biggest;
    let llc = |cpu: u32| machine.cpus[cpu as usize].llc;
    let mut big_cpus = machine.clusters.iter().filter(|cluster| is_big(cluster)).flat_map(|cluster| &cluster.cpus);
    if is_big(machine.cluster_of(cpu)) {
        CoreKind::Performance
    } else if big_cpus.any(|&big| llc(big) == llc(cpu)) {
        CoreKind::Efficient
    } else {
        CoreKind::LowPower
    }
}

/// The performance domains that intel_pstate registers in passive mode; `None` if this kernel registers none
/// (intel_pstate.c:hybrid_register_perf_domain(), v6.16).
///
/// # Errors
/// [`CaseError`] if the machine file lacks HWP's levels.
pub(crate) fn perf_domains(machine: &Machine, profile: &KernelProfile) -> Result<Option<Vec<EmPerfDomain>>, CaseError> {
    let form = match profile.hybrid_em {
        HybridEm::Absent => return Ok(None),
        HybridEm::Scaling => HybridCost::Scaling,
        HybridEm::Kind => HybridCost::Kind,
    };
    let mut domains = Vec::new();
    for cluster in &machine.clusters {
        let failed = |reason: String| CaseError(format!("energy model of cluster {}: {reason}", cluster.name));
        let hwp = cluster.hwp.as_ref().ok_or_else(|| failed(String::from("its levels of HWP are not known")))?;
        let top_khz = cluster.opps.last().map_or(0, |opp| opp.khz);
        let scaling_khz = (top_khz / hwp.highest.max(1)).clamp(1, CORE_SCALING_KHZ);
        for &cpu in &cluster.cpus {
            let states = hybrid_perf_table(form, kind_of(machine, cpu), scaling_khz, cluster.capacity.into())
                .map_err(|error| failed(error.to_string()))?;
            domains.push(EmPerfDomain {
                states,
                cpus: vec![cpu as usize],
                skip_inefficient: false,
                form: EmCost::Performance,
            });
        }
    }
    Ok(Some(domains))
}

#[cfg(test)]
mod tests {
    use opplab_model::file::parse_machine;

    use super::*;

    /// Goal: cores of one cluster differ in kind, as LP-E cores do from E-cores, and in cost by that.
    #[test]
    fn cores_apart_from_the_big_cores_cache_are_low_power_ones() {
        let text = r#"format = 1
            name = "hybrid"
            [topology]
            core = ["0", "1", "2", "3", "4"]
            llc = ["0-2", "3-4"]
            node = ["0-4"]
            package = ["0-4"]
            [[driver]]
            name = "intel_pstate"
            transition_latency_us = 0
            fast_switch = true
            [[cluster]]
            name = "core"
            cpus = "0"
            capacity = 1024
            opp = [{ khz = 4500000 }]
            hwp = { highest = 58, guaranteed = 22, most_efficient = 10, lowest = 5 }
            [[cluster]]
            name = "atom"
            cpus = "1-4"
            capacity = 600
            opp = [{ khz = 3600000 }]
            hwp = { highest = 36, guaranteed = 18, most_efficient = 9, lowest = 5 }
        "#;
        let machine = parse_machine("hybrid.toml", text).unwrap_or_else(|error| panic!("{error}"));
        let kinds = (0..5).map(|cpu| kind_of(&machine, cpu)).collect::<Vec<_>>();
        assert_eq!(kinds[0], CoreKind::Performance);
        assert_eq!(kinds[1..3], [CoreKind::Efficient; 2]);
        assert_eq!(kinds[3..], [CoreKind::LowPower; 2]);
        let profile = KernelProfile { hybrid_em: HybridEm::Kind, ..KernelProfile::at((6, 18)) };
        let domains = perf_domains(&machine, &profile).unwrap_or_else(|error| panic!("{error:?}")).unwrap_or_default();
        let cost = |cpu: usize| domains[cpu].states[0].cost;
        assert_eq!(cost(1), cost(2));
        assert!(cost(0) > cost(1) && cost(1) > cost(3), "{:?}", [cost(0), cost(1), cost(3)]);
    }
}
