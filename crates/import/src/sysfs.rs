//! Facts from a `/sys` tree, wherever that was read from. Paths and meanings: Documentation/ABI/testing/
//! sysfs-devices-system-cpu, Documentation/admin-guide/pm.

use opplab_kernel::cpufreq::driver::CPUFREQ_ETERNAL;
use opplab_model::cpus::CpuList;
use opplab_model::machine::{CppcCaps, PackagePower, PmProfile};

use crate::error::{ImportError, shorten};
use crate::facts::{CoreType, CppcFacts, CpuFacts, Facts, IdleFacts, OppFacts, PolicyFacts};
use crate::tree::{CPU, SysTree};

/// Most idle states that cpuidle allows (CPUIDLE_STATE_MAX, include/linux/cpuidle.h).
pub(crate) const CPUIDLE_STATE_MAX: usize = 10;

/// The number of the ACPI preferred power management profile.
pub(crate) const PM_PROFILE: &str = "/sys/firmware/acpi/pm_profile";

/// Reads the tree into `facts`.
pub(crate) fn read(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    let online = online_cpus(tree)?;
    if online.is_empty() {
        return Err(tree.error(&format!("{CPU}/online"), "no CPU is online, so this is not the tree of a machine"));
    }
    facts.tell("cpus", format!("{CPU}/online"));
    facts.cpus = online.into_iter().map(|cpu| (cpu, CpuFacts::default())).collect();
    core_types(tree, facts)?;
    nodes(tree, facts)?;
    let numbers: Vec<u32> = facts.cpus.keys().copied().collect();
    for cpu in numbers {
        let of_cpu = read_cpu(tree, cpu, facts)?;
        facts.cpus.insert(cpu, of_cpu);
    }
    for id in tree.numbered(&format!("{CPU}/cpufreq"), "policy") {
        if let Some(policy) = read_policy(tree, &format!("{CPU}/cpufreq/policy{id}"), id, facts)? {
            facts.policies.insert(id, policy);
        }
    }
    if facts.policies.is_empty() {
        // Kernels before v4.3, and copies that followed the links of CPUs, have the folder at the CPUs.
        let numbers: Vec<u32> = facts.cpus.keys().copied().collect();
        for cpu in numbers {
            let folder = format!("{CPU}/cpu{cpu}/cpufreq");
            let owned = facts.policies.values().any(|policy| policy.cpus.contains(&cpu));
            if !owned
                && !tree.children(&folder).is_empty()
                && let Some(policy) = read_policy(tree, &folder, cpu, facts)?
            {
                facts.policies.insert(cpu, policy);
            }
        }
    }
    globals(tree, facts)?;
    check_policies(tree, facts)
}

fn online_cpus(tree: &SysTree) -> Result<CpuList, ImportError> {
    if let Some(online) = tree.cpus(&format!("{CPU}/online"))? {
        if let Some(present) = tree.cpus(&format!("{CPU}/present"))?
            && let Some(cpu) = online.iter().find(|cpu| !present.contains(cpu))
        {
            return Err(tree.error(&format!("{CPU}/online"), format!("CPU {cpu} is online but not present")));
        }
        return Ok(online);
    }
    // A snapshot may lack the list.
    let mut online = Vec::new();
    for cpu in tree.numbered(CPU, "cpu") {
        if tree.number(&format!("{CPU}/cpu{cpu}/online"))? != Some(0) {
            online.push(cpu);
        }
    }
    Ok(online)
}

fn core_types(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    for kind in [CoreType::Core, CoreType::Atom, CoreType::LowPower] {
        let path = format!("/sys/devices/cpu_{}/cpus", kind.name());
        let Some(cpus) = tree.cpus(&path)? else { continue };
        for cpu in cpus {
            if let Some(of_cpu) = facts.cpus.get_mut(&cpu) {
                of_cpu.core_type = Some(kind);
            }
        }
        facts.tell("core_type", path);
    }
    Ok(())
}

fn nodes(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    const NODE: &str = "/sys/devices/system/node";
    let mut distances: Vec<Vec<u32>> = Vec::new();
    let mut index = 0;
    for node in tree.numbered(NODE, "node") {
        let path = format!("{NODE}/node{node}/cpulist");
        let cpus = tree.cpus(&path)?.unwrap_or_default();
        let mut any = false;
        for cpu in cpus {
            let Some(of_cpu) = facts.cpus.get_mut(&cpu) else { continue };
            if let Some(other) = of_cpu.node.replace(index) {
                return Err(tree.error(&path, format!("CPU {cpu} is in node {other} too")));
            }
            any = true;
        }
        if !any {
            // A node of memory only.
            continue;
        }
        facts.tell("node", path);
        let path = format!("{NODE}/node{node}/distance");
        let row = tree.numbers(&path)?;
        if !row.is_empty() {
            facts.tell("numa_distance", path);
            distances.push(row);
        }
        index += 1;
    }
    // Rows of a machine with nodes of memory only do not fit; then the kernel's defaults are taken.
    if !distances.is_empty()
        && distances.len() == index as usize
        && distances.iter().all(|row| row.len() == index as usize)
    {
        facts.numa_distance = Some(distances);
    }
    Ok(())
}

fn read_cpu(tree: &SysTree, cpu: u32, facts: &mut Facts) -> Result<CpuFacts, ImportError> {
    let folder = format!("{CPU}/cpu{cpu}");
    let mut of_cpu = facts.cpus.get(&cpu).cloned().unwrap_or_default();
    let list = |name: &str| -> Result<Option<CpuList>, ImportError> {
        let path = format!("{folder}/{name}");
        let Some(cpus) = tree.cpus(&path)? else { return Ok(None) };
        if !cpus.contains(&cpu) {
            return Err(tree.error(&path, format!("CPU {cpu} is not in its own list")));
        }
        Ok(Some(cpus))
    };
    for name in ["topology/thread_siblings_list", "topology/core_cpus_list"] {
        if of_cpu.core.is_none()
            && let Some(core) = list(name)?
        {
            of_cpu.core = Some(core);
            facts.tell("core", format!("{folder}/{name}"));
        }
    }
    if let Some(cluster) = list("topology/cluster_cpus_list")? {
        of_cpu.cluster = Some(cluster);
        facts.tell("cluster", format!("{folder}/topology/cluster_cpus_list"));
    }
    of_cpu.package = tree.number32(&format!("{folder}/topology/physical_package_id"))?;
    if of_cpu.package.is_some() {
        facts.tell("package", format!("{folder}/topology/physical_package_id"));
    }
    let indexes = tree.numbered(&format!("{folder}/cache"), "index");
    if let Some(&last) = indexes.last() {
        let name = format!("cache/index{last}/shared_cpu_list");
        of_cpu.llc = list(&name)?;
        if of_cpu.llc.is_some() {
            facts.tell("llc", format!("{folder}/{name}"));
        }
    }
    if of_cpu.core.is_none() && indexes.contains(&0) {
        // The first-level cache belongs to the core.
        of_cpu.core = list("cache/index0/shared_cpu_list")?;
        if of_cpu.core.is_some() {
            facts.tell("core", format!("{folder}/cache/index0/shared_cpu_list"));
        }
    }
    of_cpu.capacity = tree.number32(&format!("{folder}/cpu_capacity"))?;
    if of_cpu.capacity.is_some() {
        facts.tell("capacity", format!("{folder}/cpu_capacity"));
    }
    of_cpu.epb = tree.number(&format!("{folder}/power/energy_perf_bias"))?;
    of_cpu.cppc = read_cppc(tree, &format!("{folder}/acpi_cppc"))?;
    if of_cpu.cppc.is_some() {
        facts.tell("cppc", format!("{folder}/acpi_cppc"));
    }
    for state in tree.numbered(&format!("{folder}/cpuidle"), "state") {
        let folder = format!("{folder}/cpuidle/state{state}");
        if of_cpu.idle.len() >= CPUIDLE_STATE_MAX {
            return Err(tree.error(&format!("{folder}/name"), "more idle states than cpuidle allows (10)"));
        }
        let name = tree.text(&format!("{folder}/name")).unwrap_or("unnamed").to_owned();
        let us = |name: &str| -> Result<u64, ImportError> {
            Ok(tree.number(&format!("{folder}/{name}"))?.unwrap_or(0).min(u64::from(u32::MAX)) * 1000)
        };
        of_cpu.idle.push(IdleFacts {
            name,
            entry_latency_ns: 0,
            latency_ns: us("latency")?,
            residency_ns: us("residency")?,
            disabled: tree.number(&format!("{folder}/disable"))?.is_some_and(|disable| disable != 0),
        });
        facts.tell("idle", folder);
    }
    Ok(of_cpu)
}

fn read_cppc(tree: &SysTree, folder: &str) -> Result<Option<CppcFacts>, ImportError> {
    let register = |name: &str| tree.number32(&format!("{folder}/{name}"));
    let (Some(highest_perf), Some(nominal_perf)) = (register("highest_perf")?, register("nominal_perf")?) else {
        return Ok(None);
    };
    let caps = CppcCaps {
        highest_perf,
        nominal_perf,
        lowest_nonlinear_perf: register("lowest_nonlinear_perf")?.unwrap_or(0),
        lowest_perf: register("lowest_perf")?.unwrap_or(0),
        lowest_freq_mhz: register("lowest_freq")?.unwrap_or(0),
        nominal_freq_mhz: register("nominal_freq")?.unwrap_or(0),
    };
    Ok(Some(CppcFacts { caps, reference_perf: register("reference_perf")? }))
}

fn read_policy(tree: &SysTree, folder: &str, id: u32, facts: &mut Facts) -> Result<Option<PolicyFacts>, ImportError> {
    let path = |name: &str| format!("{folder}/{name}");
    let text = |name: &str| tree.text(&path(name)).map(str::to_owned);
    let khz = |name: &str| tree.number32(&path(name));
    let mut cpus = tree.cpus(&path("related_cpus"))?.or(tree.cpus(&path("affected_cpus"))?).unwrap_or_else(|| vec![id]);
    cpus.retain(|cpu| facts.cpus.contains_key(cpu));
    if cpus.is_empty() {
        // A policy of CPUs that are offline.
        return Ok(None);
    }
    let ascending = |name: &str| -> Result<Vec<u32>, ImportError> {
        let mut list = tree.numbers(&path(name))?;
        list.sort_unstable();
        list.dedup();
        Ok(list)
    };
    let boost = match tree.number(&path("boost"))? {
        Some(boost) => Some(boost != 0),
        None => tree.number(&path("cpb"))?.map(|cpb| cpb != 0),
    };
    for (what, name) in [
        ("driver", "scaling_driver"),
        ("governor", "scaling_governor"),
        ("cpuinfo_max_freq", "cpuinfo_max_freq"),
        ("base_khz", "base_frequency"),
        ("opps", "scaling_available_frequencies"),
        ("epp", "energy_performance_preference"),
    ] {
        if tree.text(&path(name)).is_some() {
            facts.tell(what, path(name));
        }
    }
    let latency = tree.number(&path("cpuinfo_transition_latency"))?.filter(|&ns| ns != CPUFREQ_ETERNAL.into());
    if latency.is_some() {
        facts.tell("transition_latency", path("cpuinfo_transition_latency"));
    }
    let opps = ascending("scaling_available_frequencies")?;
    let policy = PolicyFacts {
        id,
        cpus,
        freqdomain: tree.cpus(&path("freqdomain_cpus"))?,
        driver: text("scaling_driver"),
        governor: text("scaling_governor"),
        governors: text("scaling_available_governors")
            .map_or_else(Vec::new, |names| names.split_whitespace().map(str::to_owned).collect()),
        min_khz: khz("cpuinfo_min_freq")?,
        max_khz: khz("cpuinfo_max_freq")?,
        scaling_min_khz: khz("scaling_min_freq")?,
        scaling_max_khz: khz("scaling_max_freq")?,
        base_khz: khz("base_frequency")?,
        transition_latency_ns: latency,
        opps: opps.into_iter().map(|khz| OppFacts { khz, ..OppFacts::default() }).collect(),
        boost_khz: ascending("scaling_boost_frequencies")?,
        boost,
        epp: text("energy_performance_preference"),
        em_flags: None,
    };
    if let (Some(min), Some(max)) = (policy.min_khz, policy.max_khz)
        && min > max
    {
        return Err(tree.error(&path("cpuinfo_min_freq"), format!("{min} kHz is above cpuinfo_max_freq, {max} kHz")));
    }
    Ok(Some(policy))
}

fn globals(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    let flag = |path: String| -> Result<Option<bool>, ImportError> { Ok(tree.number(&path)?.map(|value| value != 0)) };
    for driver in ["intel_pstate", "amd_pstate"] {
        let path = format!("{CPU}/{driver}/status");
        if let Some(status) = tree.text(&path) {
            facts.pstate_status = Some(status.to_owned());
            facts.tell("pstate_status", path);
        }
    }
    if let Some(number) = tree.number(PM_PROFILE)? {
        let known = usize::try_from(number).ok().and_then(|at| PmProfile::ALL.get(at));
        let (_, profile) =
            known.ok_or_else(|| tree.error(PM_PROFILE, format!("{number} is no profile of ACPI, which has 0 to 8")))?;
        facts.pm_profile = Some(*profile);
        facts.tell("pm_profile", PM_PROFILE);
    }
    facts.no_turbo = flag(format!("{CPU}/intel_pstate/no_turbo"))?;
    facts.hwp_dynamic_boost = flag(format!("{CPU}/intel_pstate/hwp_dynamic_boost"))?;
    let count = |name: &str| -> Result<Option<u32>, ImportError> {
        Ok(tree.number(&format!("{CPU}/intel_pstate/{name}"))?.and_then(|value| u32::try_from(value).ok()))
    };
    facts.turbo_pct = count("turbo_pct")?.zip(count("num_pstates")?);
    if facts.turbo_pct.is_some() {
        facts.tell("turbo_pct", format!("{CPU}/intel_pstate/turbo_pct"));
    }
    facts.boost = flag(format!("{CPU}/cpufreq/boost"))?;
    for key in ["isolated", "nohz_full"] {
        // The kernel's file has `(null)` where nothing was asked for.
        let path = format!("{CPU}/{key}");
        if let Some(list) = tree.text(&path).filter(|list| !list.starts_with('('))
            && tree.cpus(&path)?.is_some()
        {
            let key = if key == "isolated" { "isolcpus" } else { key };
            facts.notes.push(format!(
                "CPUs {} have {key}= on the kernel's command line: a run has it by its policy, {key}",
                shorten(list)
            ));
        }
    }
    let first = facts.policies.keys().next().copied().unwrap_or(0);
    for path in [
        format!("{CPU}/cpufreq/schedutil/rate_limit_us"),
        format!("{CPU}/cpufreq/policy{first}/schedutil/rate_limit_us"),
    ] {
        if facts.rate_limit_us.is_none() {
            facts.rate_limit_us = tree.number(&path)?;
        }
    }
    facts.idle_driver = tree.text(&format!("{CPU}/cpuidle/current_driver")).map(str::to_owned);
    let governor = tree
        .text(&format!("{CPU}/cpuidle/current_governor"))
        .or_else(|| tree.text(&format!("{CPU}/cpuidle/current_governor_ro")));
    facts.idle_governor = governor.map(str::to_owned);
    for package in tree.children(&format!("{CPU}/intel_uncore_frequency")) {
        let read = |name: &str| tree.number32(&format!("{CPU}/intel_uncore_frequency/{package}/{name}"));
        if let (Some(min), Some(max)) = (read("min_freq_khz")?, read("max_freq_khz")?) {
            facts.uncore_khz = Some((min, max));
            facts.tell("uncore_khz", format!("{CPU}/intel_uncore_frequency/{package}"));
            break;
        }
    }
    powercap(tree, facts)
}

/// RAPL limits of the first package, where `/sys/class/powercap` was copied.
fn powercap(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    let folder = "/sys/class/powercap/intel-rapl:0";
    let mut power = PackagePower::default();
    for constraint in 0..3 {
        let path = |name: &str| format!("{folder}/constraint_{constraint}_{name}");
        let Some(limit_uw) = tree.number(&path("power_limit_uw"))? else { continue };
        let window_ns = tree.number(&path("time_window_us"))?.unwrap_or(0).saturating_mul(1000);
        match tree.text(&path("name")) {
            Some("long_term") => {
                (power.pl1_uw, power.pl1_window_ns) = (limit_uw, window_ns);
                power.tdp_uw = tree.number(&path("max_power_uw"))?.unwrap_or(0);
            }
            Some("short_term") => (power.pl2_uw, power.pl2_window_ns) = (limit_uw, window_ns),
            _ => {}
        }
    }
    if power != PackagePower::default() {
        facts.package_power = Some(power);
        facts.tell("package_power", folder);
    }
    Ok(())
}

/// A CPU in two policies is a contradiction; a CPU in none is noted.
fn check_policies(tree: &SysTree, facts: &mut Facts) -> Result<(), ImportError> {
    let mut owner: std::collections::BTreeMap<u32, u32> = std::collections::BTreeMap::new();
    for policy in facts.policies.values() {
        for &cpu in &policy.cpus {
            if let Some(other) = owner.insert(cpu, policy.id) {
                let path = format!("{CPU}/cpufreq/policy{}/related_cpus", policy.id);
                return Err(tree.error(&path, format!("CPU {cpu} is in policy{other} too")));
            }
        }
    }
    let without: Vec<u32> = facts.cpus.keys().copied().filter(|cpu| !owner.contains_key(cpu)).collect();
    if !without.is_empty() && !facts.policies.is_empty() {
        let list = opplab_model::cpus::format_cpu_list(&without);
        facts.notes.push(format!("CPUs {} have no cpufreq policy", shorten(&list)));
    }
    Ok(())
}
