//! Machine files: TOML text to [`Machine`] and back.
//!
//! `format = 1` comes first. Units are part of a key's name and may be chosen (`exit_latency_us`, `exit_latency_ns`);
//! what is written back uses the largest unit that is exact. Every table refuses keys that it does not know. Sources of
//! the numbers are data (`[source]`), so they survive the round trip; comments do not.
//!
//! This module does no I/O: the caller reads the file and says its name for messages.

use opplab_kernel::cpufreq::driver::{DriverId, DriverKind};

use crate::disk::{disk_from, disk_node};
use crate::error::{Fault, ModelError, Pos, shorten};
use crate::machine::{
    Cluster, Consumer, Costs, CppcCaps, CpuList, CpuPlace, Cpufreq, HwpCaps, IdleState, InvarianceSource, Machine, Opp,
    PackagePower, PmProfile, PolicyShare, Processor, Thermal, TurboBin,
};
use crate::program_class::{classes_from, classes_node};
use crate::range::{ranges_from, ranges_node};
use crate::tree::{Node, POWER_UW_MAX, Table, parse_toml, to_toml};

/// Most CPUs of a machine.
pub const NR_CPUS_MAX: usize = 4096;

/// Reads a machine file. `file` is its name for messages.
///
/// # Errors
/// The first thing that is wrong, with its place and the nearest valid name.
pub fn parse_machine(file: &str, text: &str) -> Result<Machine, ModelError> {
    parse_toml(text).and_then(|root| machine_from(&root)).map_err(|fault| fault.in_file(file))
}

/// Writes a machine as a machine file that reads back as the same machine.
pub fn machine_to_toml(machine: &Machine) -> String {
    to_toml(&machine_node(machine))
}

/// Reads a CPU list such as `0,3-5`. Order is free, repeats are not.
///
/// # Errors
/// What is wrong with it, at `at`.
pub fn parse_cpu_list(text: &str, at: Pos) -> Result<CpuList, Fault> {
    let bad = |why: &str| Fault::new(at, format!("`{}` is not a CPU list: {why}", shorten(text)));
    let mut cpus: CpuList = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let number = |digits: &str| -> Result<u32, Fault> {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad("write it like `0,3-5`"));
            }
            let cpu: u32 = digits.parse().map_err(|_| bad("a number is too large"))?;
            if cpu as usize >= NR_CPUS_MAX { Err(bad("a number is too large")) } else { Ok(cpu) }
        };
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first.trim())?, number(last.trim())?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(bad("a range runs backwards"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad(&format!("CPU {} is in it twice", pair[0])));
    }
    Ok(cpus)
}

/// Writes a CPU list as `0,3-5`.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut index = 0;
    while index < cpus.len() {
        let mut end = index;
        while end + 1 < cpus.len() && cpus[end + 1] == cpus[end] + 1 {
            end += 1;
        }
        parts.push(if end > index { format!("{}-{}", cpus[index], cpus[end]) } else { cpus[index].to_string() });
        index = end + 1;
    }
    parts.join(",")
}

/// A CPU list as a node: a string as above, or a list of numbers.
pub(crate) fn cpus_from(node: &Node, what: &str) -> Result<CpuList, Fault> {
    let cpus = match &node.value {
        crate::tree::Value::List(items) => {
            let mut cpus: CpuList =
                items.iter().map(|item| item.as_int(what, 0, NR_CPUS_MAX as i128 - 1)).collect::<Result<_, _>>()?;
            cpus.sort_unstable();
            if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Fault::new(node.at, format!("`{what}` has CPU {} twice", pair[0])));
            }
            cpus
        }
        _ => parse_cpu_list(node.as_str(what)?, node.at)?,
    };
    if cpus.is_empty() {
        return Err(Fault::new(node.at, format!("`{what}` is empty")));
    }
    Ok(cpus)
}

/// Refuses a file that is of another format than this reader's.
pub(crate) fn check_format(table: &Table<'_>) -> Result<(), Fault> {
    let node = table.need("format")?;
    let format: i64 = node.as_int("format", i128::from(i64::MIN), i128::from(i64::MAX))?;
    if format == 1 { Ok(()) } else { Err(Fault::new(node.at, format!("`format` is {format}; this version reads 1"))) }
}

const MACHINE_KEYS: &[&str] = &[
    "format",
    "name",
    "provenance",
    "invariance",
    "floor_uw",
    "floor_mw",
    "smt_yield",
    "smt_power",
    "cluster_idle_together",
    "shared_follows_machine",
    "package_clock",
    "shared_stream",
    "constant_speed",
    "numa_distance",
    "topology",
    "driver",
    "costs",
    "processor",
    "pm_profile",
    "package_power",
    "consumer",
    "disk",
    "thermal",
    "cluster",
    "program_class",
    "source",
    "range",
];

const INVARIANCE: &[(&str, InvarianceSource)] = &[
    ("freq-change", InvarianceSource::FreqChange),
    ("counters-at-tick", InvarianceSource::CountersAtTick),
    ("none", InvarianceSource::Absent),
];

/// Converts a tree into a machine.
///
/// # Errors
/// The first thing that is wrong.
pub fn machine_from(root: &Node) -> Result<Machine, Fault> {
    let table = root.as_table("machine", MACHINE_KEYS)?;
    check_format(&table)?;
    let name = table.need_str("name")?.to_owned();
    let clusters_node = table.need("cluster").map_err(|_| Fault::new(table.at, "the machine has no `[[cluster]]`"))?;
    let cluster_nodes = clusters_node.as_list("cluster")?;
    if cluster_nodes.is_empty() {
        return Err(Fault::new(clusters_node.at, "the machine has no clusters, so it has no CPUs"));
    }
    let clusters = cluster_nodes.iter().map(cluster_from).collect::<Result<Vec<_>, _>>()?;
    for (index, cluster) in clusters.iter().enumerate() {
        if clusters[..index].iter().any(|earlier| earlier.name == cluster.name) {
            let message = format!("two clusters are called `{}`", cluster.name);
            return Err(Fault::new(cluster_nodes[index].at, message));
        }
    }
    // A CPU list reaches at most NR_CPUS_MAX - 1.
    let nr_cpus = clusters.iter().filter_map(|cluster| cluster.cpus.last()).max().map_or(0, |&last| last as usize + 1);
    let lists: Vec<&CpuList> = clusters.iter().map(|cluster| &cluster.cpus).collect();
    let places: Vec<Pos> = cluster_nodes.iter().map(|node| node.at).collect();
    let cluster_of = partition(&lists, &places, nr_cpus, "clusters")?;
    if clusters.iter().all(|cluster| cluster.capacity < 1024) {
        let message = "no cluster has capacity 1024; the biggest CPU is the unit of capacity";
        return Err(Fault::new(clusters_node.at, message));
    }
    let (core, llc, node, package) = topology_from(&table, &cluster_of, nr_cpus)?;
    let cpus: Vec<CpuPlace> = (0..nr_cpus)
        .map(|cpu| CpuPlace {
            cluster: cluster_of[cpu],
            core: core[cpu],
            llc: llc[cpu],
            node: node[cpu],
            package: package[cpu],
        })
        .collect();
    let nr_nodes = node.iter().max().map_or(0, |&last| last as usize + 1);
    let numa_distance = numa_distance_from(&table, nr_nodes)?;

    let driver_nodes = table.need("driver").map_err(|_| Fault::new(table.at, "the machine has no `[[driver]]`"))?;
    let mut drivers = driver_nodes.as_list("driver")?.iter().map(driver_from).collect::<Result<Vec<_>, _>>()?;
    if drivers.is_empty() {
        return Err(Fault::new(driver_nodes.at, "the machine has no `[[driver]]`"));
    }
    for (index, driver) in drivers.iter().enumerate() {
        if drivers[..index].iter().any(|earlier| earlier.driver == driver.driver) {
            return Err(Fault::new(driver_nodes.at, format!("driver `{}` is described twice", driver.driver)));
        }
        if driver.driver.kind == DriverKind::Cppc && clusters.iter().any(|cluster| cluster.cppc.is_none()) {
            return Err(Fault::new(driver_nodes.at, "driver `cppc_cpufreq` needs `cppc` in every cluster"));
        }
    }
    let cpufreq = drivers.remove(0);
    let nr_packages = package.iter().max().map_or(0, |&last| last + 1);
    let cluster_names: Vec<String> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
    let program_classes = classes_from(table.get("program_class"), &clusters)?;
    let ranges = ranges_from(table.get("range"), &cluster_names)?;

    let machine = Machine {
        name,
        provenance: table.str_or_empty("provenance")?.to_owned(),
        cpus,
        clusters,
        numa_distance,
        cpufreq,
        other_drivers: drivers,
        invariance: table.choice("invariance", Some(InvarianceSource::FreqChange), INVARIANCE)?,
        costs: costs_from(&table)?,
        floor_uw: table.power_uw("floor")?.unwrap_or(0),
        smt_yield: table.int_or("smt_yield", 1024, 1, 1024)?,
        cluster_idle_together: table.bool_or("cluster_idle_together", false)?,
        shared_follows_machine: table.bool_or("shared_follows_machine", false)?,
        package_clock: table.bool_or("package_clock", false)?,
        smt_power: table.int_or("smt_power", 1024, 0, 1024)?,
        shared_stream: table.bool_or("shared_stream", false)?,
        constant_speed: table.bool_or("constant_speed", false)?,
        processor: table.get("processor").map(processor_from).transpose()?,
        pm_profile: table.choice("pm_profile", Some(PmProfile::default()), &PmProfile::ALL)?,
        package_power: table.get("package_power").map(package_power_from).transpose()?,
        consumers: match table.get("consumer") {
            None => Vec::new(),
            Some(node) => node
                .as_list("consumer")?
                .iter()
                .map(|node| consumer_from(node, nr_packages))
                .collect::<Result<_, _>>()?,
        },
        disks: match table.get("disk") {
            None => Vec::new(),
            Some(node) => node.as_list("disk")?.iter().map(disk_from).collect::<Result<_, _>>()?,
        },
        thermal: table.get("thermal").map(thermal_from).transpose()?,
        program_classes,
        sources: sources_from(&table)?,
        ranges,
    };
    let excluded = machine.ranges.iter().find_map(|range| range.excludes(&machine));
    match (excluded, table.get("range")) {
        (Some(why), Some(node)) => Err(Fault::new(node.at, why)),
        _ => Ok(machine),
    }
}

fn consumer_from(node: &Node, nr_packages: u32) -> Result<Consumer, Fault> {
    let keys = &["name", "package", "demand_uw", "demand_mw", "least_uw", "least_mw", "frame_uj"];
    let table = node.as_table("consumer", keys)?;
    Ok(Consumer {
        name: table.need_str("name")?.to_owned(),
        package: table.int_or("package", 0, 0, i128::from(nr_packages) - 1)?,
        demand_uw: table.power_uw("demand")?.ok_or_else(|| Fault::new(table.at, "`demand_mw` is missing"))?,
        least_uw: table.power_uw("least")?.unwrap_or(0),
        frame_uj: table.need_int("frame_uj", 1, 1_000_000_000_000)?,
    })
}

fn thermal_from(node: &Node) -> Result<Thermal, Fault> {
    let keys = &["resistance_mk_per_w", "capacitance_mj_per_k", "ambient_mc", "limit_mc", "start_mc"];
    let table = node.as_table("thermal", keys)?;
    let ambient_mc = table.int_or("ambient_mc", 25_000, -100_000, 200_000)?;
    Ok(Thermal {
        resistance_mk_per_w: table.need_int("resistance_mk_per_w", 1, 1_000_000)?,
        capacitance_mj_per_k: table.need_int("capacitance_mj_per_k", 1, 1_000_000_000)?,
        ambient_mc,
        limit_mc: table.need_int("limit_mc", -100_000, 200_000)?,
        start_mc: table.int_or("start_mc", ambient_mc, -100_000, 200_000)?,
    })
}

fn processor_from(node: &Node) -> Result<Processor, Fault> {
    let table = node.as_table("processor", &["vendor", "family", "model", "stepping", "model_name"])?;
    Ok(Processor {
        vendor: table.need_str("vendor")?.to_owned(),
        family: table.need_int("family", 0, 4096)?,
        model: table.need_int("model", 0, 4096)?,
        stepping: table.int_or("stepping", 0, 0, 4096)?,
        model_name: table.str_or_empty("model_name")?.to_owned(),
    })
}

fn package_power_from(node: &Node) -> Result<PackagePower, Fault> {
    let table = node.as_table(
        "package_power",
        &[
            "tdp_uw",
            "tdp_mw",
            "pl1_uw",
            "pl1_mw",
            "pl1_window_ns",
            "pl1_window_us",
            "pl1_window_ms",
            "pl2_uw",
            "pl2_mw",
            "pl2_window_ns",
            "pl2_window_us",
            "pl2_window_ms",
        ],
    )?;
    Ok(PackagePower {
        tdp_uw: table.power_uw("tdp")?.unwrap_or(0),
        pl1_uw: table.power_uw("pl1")?.unwrap_or(0),
        pl1_window_ns: table.time_ns("pl1_window")?.unwrap_or(0),
        pl2_uw: table.power_uw("pl2")?.unwrap_or(0),
        pl2_window_ns: table.time_ns("pl2_window")?.unwrap_or(0),
    })
}

fn sources_from(table: &Table<'_>) -> Result<Vec<(String, String)>, Fault> {
    let Some(node) = table.get("source") else { return Ok(Vec::new()) };
    let crate::tree::Value::Table(entries) = &node.value else {
        return Err(Fault::new(node.at, "`source` must be a table"));
    };
    entries.iter().map(|(key, node)| Ok((key.name.clone(), node.as_str(&key.name)?.to_owned()))).collect()
}

/// The part that each CPU belongs to; every CPU 0.. must be in exactly one.
fn partition(parts: &[&CpuList], places: &[Pos], nr_cpus: usize, what: &str) -> Result<Vec<u32>, Fault> {
    let mut part_of: Vec<Option<u32>> = vec![None; nr_cpus];
    for (index, cpus) in parts.iter().enumerate() {
        for &cpu in *cpus {
            let Some(slot) = part_of.get_mut(cpu as usize) else {
                let message = format!("CPU {cpu} does not exist: the machine has {nr_cpus} CPUs, 0-{}", nr_cpus - 1);
                return Err(Fault::new(places[index], message));
            };
            if slot.replace(index as u32).is_some() {
                return Err(Fault::new(places[index], format!("CPU {cpu} is in two {what}")));
            }
        }
    }
    let missing: CpuList = (0..nr_cpus as u32).filter(|&cpu| part_of[cpu as usize].is_none()).collect();
    if !missing.is_empty() {
        let at = places.first().copied().unwrap_or_default();
        let missing = shorten(&format_cpu_list(&missing));
        return Err(Fault::new(at, format!("CPU {missing} is in none of the {what}")));
    }
    Ok(part_of.into_iter().flatten().collect())
}

type Topology = (Vec<u32>, Vec<u32>, Vec<u32>, Vec<u32>);

/// Cores, last-level caches, nodes and packages of each CPU. Left out: each CPU is a core of its own, each cluster has
/// one last-level cache, and there is one node and one package.
fn topology_from(table: &Table<'_>, cluster_of: &[u32], nr_cpus: usize) -> Result<Topology, Fault> {
    let default_core: Vec<u32> = (0..nr_cpus as u32).collect();
    let zeros = vec![0; nr_cpus];
    let Some(node) = table.get("topology") else {
        return Ok((default_core, cluster_of.to_vec(), zeros.clone(), zeros));
    };
    let topology = node.as_table("topology", &["core", "llc", "node", "package"])?;
    let level = |key: &str, default: &[u32]| -> Result<Vec<u32>, Fault> {
        let Some(node) = topology.get(key) else { return Ok(default.to_vec()) };
        let items = node.as_list(key)?;
        let lists = items.iter().map(|item| cpus_from(item, key)).collect::<Result<Vec<_>, _>>()?;
        let places: Vec<Pos> = items.iter().map(|item| item.at).collect();
        if items.is_empty() {
            return Err(Fault::new(node.at, format!("`{key}` is empty")));
        }
        partition(&lists.iter().collect::<Vec<_>>(), &places, nr_cpus, &format!("`{key}` lists"))
    };
    Ok((level("core", &default_core)?, level("llc", cluster_of)?, level("node", &zeros)?, level("package", &zeros)?))
}

fn numa_distance_from(table: &Table<'_>, nr_nodes: usize) -> Result<Vec<Vec<u32>>, Fault> {
    let Some(node) = table.get("numa_distance") else {
        // The kernel's own defaults, LOCAL_DISTANCE and REMOTE_DISTANCE (include/linux/topology.h).
        return Ok((0..nr_nodes).map(|a| (0..nr_nodes).map(|b| if a == b { 10 } else { 20 }).collect()).collect());
    };
    let rows = node.as_list("numa_distance")?;
    if rows.len() != nr_nodes {
        return Err(Fault::new(node.at, format!("`numa_distance` has {} rows for {nr_nodes} nodes", rows.len())));
    }
    let mut distance: Vec<Vec<u32>> = Vec::with_capacity(nr_nodes);
    for (index, row) in rows.iter().enumerate() {
        let cells = row.as_list("numa_distance")?;
        if cells.len() != nr_nodes {
            let message = format!("`numa_distance` has a row of {} cells for {nr_nodes} nodes", cells.len());
            return Err(Fault::new(row.at, message));
        }
        let row_values: Vec<u32> =
            cells.iter().map(|cell| cell.as_int("numa_distance", 10, 254)).collect::<Result<_, _>>()?;
        if row_values[index] != 10 {
            return Err(Fault::new(row.at, "the distance of a node to itself is 10"));
        }
        distance.push(row_values);
    }
    Ok(distance)
}

fn driver_from(node: &Node) -> Result<Cpufreq, Fault> {
    let table = node.as_table(
        "driver",
        &[
            "name",
            "transition_latency_ns",
            "transition_latency_us",
            "transition_latency_ms",
            "transition_delay_us",
            "fast_switch",
            "switch_ns",
            "switch_us",
            "switch_ms",
            "switch_quantiles_us",
            "dvfs_possible_from_any_cpu",
            "freq_table",
        ],
    )?;
    let driver = table.need_str("name")?;
    let Some(driver) = DriverId::named(driver) else {
        let at = table.need("name")?.at;
        return Err(Fault::unknown(at, "cpufreq driver", driver, DriverId::all().map(|known| known.entry().name)));
    };
    let transition_latency_ns = table
        .time_ns("transition_latency")?
        .ok_or_else(|| Fault::new(table.at, "`transition_latency_us` is missing"))?;
    let switch_ns = table.time_ns("switch")?.unwrap_or(transition_latency_ns);
    Ok(Cpufreq {
        driver,
        transition_latency_ns,
        transition_delay_us: table.int_or("transition_delay_us", 0, 0, 10_000_000)?,
        fast_switch: table.need("fast_switch")?.as_bool("fast_switch")?,
        switch_ns,
        switch_quantiles: switch_quantiles_from(&table, switch_ns)?,
        dvfs_possible_from_any_cpu: table.bool_or("dvfs_possible_from_any_cpu", false)?,
        freq_table: table.bool_or("freq_table", true)?,
    })
}

fn costs_from(table: &Table<'_>) -> Result<Costs, Fault> {
    let Some(node) = table.get("costs") else {
        return Ok(Costs { context_switch_ns: 0, wakeup_ns: 0, ipi_ns: 0, tick_ns: 0, sugov_work_ns: 0 });
    };
    let costs = node.as_table(
        "costs",
        &[
            "context_switch_ns",
            "context_switch_us",
            "wakeup_ns",
            "wakeup_us",
            "ipi_ns",
            "ipi_us",
            "tick_ns",
            "tick_us",
            "sugov_work_ns",
            "sugov_work_us",
        ],
    )?;
    Ok(Costs {
        context_switch_ns: costs.time_ns("context_switch")?.unwrap_or(0),
        wakeup_ns: costs.time_ns("wakeup")?.unwrap_or(0),
        ipi_ns: costs.time_ns("ipi")?.unwrap_or(0),
        tick_ns: costs.time_ns("tick")?.unwrap_or(0),
        sugov_work_ns: costs.time_ns("sugov_work")?.unwrap_or(0),
    })
}

const POLICY_SHARE: &[(&str, PolicyShare)] =
    &[("shared", PolicyShare::Shared), ("core", PolicyShare::Core), ("cpu", PolicyShare::Cpu)];

fn cluster_from(node: &Node) -> Result<Cluster, Fault> {
    let table = node.as_table(
        "cluster",
        &[
            "name",
            "cpus",
            "capacity",
            "policy",
            "efficiency_class",
            "opp",
            "boost_opp",
            "idle",
            "cluster_idle",
            "cluster_idle_uw",
            "cluster_idle_mw",
            "cppc",
            "base_khz",
            "turbo",
            "hwp",
        ],
    )?;
    let opps = opps_from(table.need("opp")?, 0)?;
    let last_khz = opps.last().map_or(0, |opp| opp.khz);
    Ok(Cluster {
        name: table.need_str("name")?.to_owned(),
        cpus: cpus_from(table.need("cpus")?, "cpus")?,
        capacity: table.need_int("capacity", 1, 1024)?,
        policy: table.choice("policy", Some(PolicyShare::Shared), POLICY_SHARE)?,
        opps,
        boost_opps: table.get("boost_opp").map_or(Ok(Vec::new()), |node| opps_from(node, last_khz))?,
        idle: idle_from(table.get("idle"), "idle")?,
        cluster_idle: idle_from(table.get("cluster_idle"), "cluster_idle")?,
        cluster_idle_uw: table.power_uw("cluster_idle")?,
        efficiency_class: table.int_or("efficiency_class", 0, 0, 255)?,
        cppc: table.get("cppc").map(cppc_from).transpose()?,
        base_khz: table.int_or("base_khz", 0, 0, 100_000_000)?,
        turbo: turbo_from(table.get("turbo"))?,
        hwp: table.get("hwp").map(hwp_from).transpose()?,
    })
}

fn turbo_from(node: Option<&Node>) -> Result<Vec<TurboBin>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let mut bins: Vec<TurboBin> = Vec::new();
    for item in node.as_list("turbo")? {
        let table = item.as_table("turbo", &["active_cores", "khz"])?;
        let bin = TurboBin {
            active_cores: table.need_int("active_cores", 1, NR_CPUS_MAX as i128)?,
            khz: table.need_int("khz", 1, 100_000_000)?,
        };
        if bins.last().is_some_and(|last| last.active_cores >= bin.active_cores) {
            return Err(Fault::new(item.at, "turbo bins must be in ascending order of active cores"));
        }
        bins.push(bin);
    }
    Ok(bins)
}

fn hwp_from(node: &Node) -> Result<HwpCaps, Fault> {
    let table = node.as_table("hwp", &["highest", "guaranteed", "most_efficient", "lowest"])?;
    let level = |key: &str| table.need_int(key, 0, 255);
    Ok(HwpCaps {
        highest: level("highest")?,
        guaranteed: level("guaranteed")?,
        most_efficient: level("most_efficient")?,
        lowest: level("lowest")?,
    })
}

/// Operating points, ascending, all above `above_khz`.
fn opps_from(node: &Node, above_khz: u32) -> Result<Vec<Opp>, Fault> {
    let items = node.as_list("opp")?;
    if items.is_empty() {
        return Err(Fault::new(node.at, "`opp` is empty; a cluster needs at least one frequency"));
    }
    let mut opps: Vec<Opp> = Vec::with_capacity(items.len());
    for item in items {
        const POWERS: [&str; 10] = [
            "uw",
            "mw",
            "busy_uw",
            "busy_mw",
            "cluster_uw",
            "cluster_mw",
            "idle_uw",
            "idle_mw",
            "cluster_idle_uw",
            "cluster_idle_mw",
        ];
        let table = item.as_table("opp", &[&["khz", "mhz", "mv"], &POWERS[..]].concat())?;
        let khz: u32 = match (table.get("khz"), table.get("mhz")) {
            (Some(khz), None) => khz.as_int("khz", 1, 100_000_000)?,
            (None, Some(mhz)) => mhz.as_int::<u32>("mhz", 1, 100_000)? * 1000,
            (Some(_), Some(mhz)) => return Err(Fault::new(mhz.at, "`khz` and `mhz` are the same key")),
            (None, None) => return Err(Fault::new(table.at, "`khz` is missing")),
        };
        if opps.last().map_or(above_khz, |last| last.khz) >= khz {
            let message = format!("OPPs must be in ascending order of frequency; {khz} kHz comes too late");
            return Err(Fault::new(item.at, message));
        }
        let power_uw = table.power_uw("")?.unwrap_or(0);
        opps.push(Opp {
            khz,
            mv: table.int_or("mv", 0, 0, 10_000)?,
            power_uw,
            busy_uw: table.power_uw("busy")?.unwrap_or(power_uw),
            cluster_uw: table.power_uw("cluster")?.unwrap_or(0),
            idle_uw: table.power_uw("idle")?,
            cluster_idle_uw: table.power_uw("cluster_idle")?,
        });
    }
    Ok(opps)
}

fn idle_from(node: Option<&Node>, what: &str) -> Result<Vec<IdleState>, Fault> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let items = node.as_list(what)?;
    let mut states: Vec<IdleState> = Vec::with_capacity(items.len());
    for item in items {
        let table = item.as_table(
            what,
            &[
                "name",
                "entry_latency_ns",
                "entry_latency_us",
                "entry_latency_ms",
                "exit_latency_ns",
                "exit_latency_us",
                "exit_latency_ms",
                "wake_ns",
                "wake_us",
                "target_residency_ns",
                "target_residency_us",
                "target_residency_ms",
                "uw",
                "mw",
            ],
        )?;
        let target_residency_ns = table.time_ns("target_residency")?.unwrap_or(0);
        if states.last().is_some_and(|last| last.target_residency_ns > target_residency_ns) {
            return Err(Fault::new(item.at, "idle states must be in ascending order of target residency"));
        }
        states.push(IdleState {
            name: table.need_str("name")?.to_owned(),
            entry_latency_ns: table.time_ns("entry_latency")?.unwrap_or(0),
            exit_latency_ns: table.time_ns("exit_latency")?.unwrap_or(0),
            wake_ns: table.time_ns("wake")?,
            target_residency_ns,
            power_uw: table.power_uw("")?.unwrap_or(0),
        });
    }
    Ok(states)
}

fn cppc_from(node: &Node) -> Result<CppcCaps, Fault> {
    let table = node.as_table(
        "cppc",
        &[
            "highest_perf",
            "nominal_perf",
            "lowest_nonlinear_perf",
            "lowest_perf",
            "lowest_freq_mhz",
            "nominal_freq_mhz",
        ],
    )?;
    let max = i128::from(u32::MAX);
    let caps = CppcCaps {
        highest_perf: table.need_int("highest_perf", 1, max)?,
        nominal_perf: table.need_int("nominal_perf", 1, max)?,
        lowest_nonlinear_perf: table.int_or("lowest_nonlinear_perf", 0, 0, max)?,
        lowest_perf: table.need_int("lowest_perf", 1, max)?,
        lowest_freq_mhz: table.int_or("lowest_freq_mhz", 0, 0, 100_000)?,
        nominal_freq_mhz: table.int_or("nominal_freq_mhz", 0, 0, 100_000)?,
    };
    if caps.lowest_perf > caps.nominal_perf || caps.nominal_perf > caps.highest_perf {
        return Err(Fault::new(node.at, "`lowest_perf` <= `nominal_perf` <= `highest_perf` does not hold"));
    }
    Ok(caps)
}

fn quantity(base: &str, value: u64, units: &[(&str, u64)]) -> (String, Option<Node>) {
    let (unit, factor) =
        units.iter().rev().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor)).unwrap_or(&units[0]);
    (format!("{base}{unit}"), Some(Node::from(value / factor)))
}

fn time(base: &str, ns: u64) -> (String, Option<Node>) {
    quantity(base, ns, &[("_ns", 1), ("_us", 1000)])
}

fn int(key: &str, value: impl Into<i128>) -> (String, Option<Node>) {
    (key.to_owned(), Some(Node::from(value)))
}

fn int_unless(key: &str, value: impl Into<i128>, default: i128) -> (String, Option<Node>) {
    let value = value.into();
    (key.to_owned(), (value != default).then(|| Node::from(value)))
}

fn text(key: &str, value: &str) -> (String, Option<Node>) {
    (key.to_owned(), Some(Node::str(value)))
}

fn name_of<T: PartialEq>(names: &[(&str, T)], value: &T) -> Node {
    Node::str(names.iter().find(|(_, candidate)| candidate == value).map_or("", |(name, _)| name))
}

/// The tree of a machine, as [`machine_from`] reads it.
pub fn machine_node(machine: &Machine) -> Node {
    let group = |part: &dyn Fn(&CpuPlace) -> u32| -> Node {
        let nr = machine.cpus.iter().map(part).max().map_or(0, |last| last + 1);
        let mut groups: Vec<CpuList> = vec![Vec::new(); nr as usize];
        for (cpu, place) in machine.cpus.iter().enumerate() {
            groups[part(place) as usize].push(cpu as u32);
        }
        Node::list(groups.iter().map(|cpus| Node::str(format_cpu_list(cpus))))
    };
    let drivers = std::iter::once(&machine.cpufreq).chain(&machine.other_drivers).map(driver_node);
    let costs = &machine.costs;
    Node::table([
        int("format", 1),
        text("name", &machine.name),
        text("provenance", &machine.provenance),
        ("invariance".to_owned(), Some(name_of(INVARIANCE, &machine.invariance))),
        (
            "pm_profile".to_owned(),
            (machine.pm_profile != PmProfile::default()).then(|| name_of(&PmProfile::ALL, &machine.pm_profile)),
        ),
        int("floor_uw", machine.floor_uw),
        int("smt_yield", machine.smt_yield),
        ("cluster_idle_together".to_owned(), machine.cluster_idle_together.then(|| Node::bool(true))),
        ("shared_follows_machine".to_owned(), machine.shared_follows_machine.then(|| Node::bool(true))),
        ("package_clock".to_owned(), machine.package_clock.then(|| Node::bool(true))),
        int_unless("smt_power", machine.smt_power, 1024),
        ("shared_stream".to_owned(), Some(Node::bool(machine.shared_stream))),
        ("constant_speed".to_owned(), machine.constant_speed.then(|| Node::bool(true))),
        (
            "numa_distance".to_owned(),
            Some(Node::list(
                machine.numa_distance.iter().map(|row| Node::list(row.iter().map(|&cell| Node::from(cell)))),
            )),
        ),
        (
            "topology".to_owned(),
            Some(Node::table([
                ("core", Some(group(&|place| place.core))),
                ("llc", Some(group(&|place| place.llc))),
                ("node", Some(group(&|place| place.node))),
                ("package", Some(group(&|place| place.package))),
            ])),
        ),
        ("driver".to_owned(), Some(Node::list(drivers))),
        (
            "costs".to_owned(),
            Some(Node::table([
                time("context_switch", costs.context_switch_ns),
                time("wakeup", costs.wakeup_ns),
                time("ipi", costs.ipi_ns),
                time("tick", costs.tick_ns),
                time("sugov_work", costs.sugov_work_ns),
            ])),
        ),
        (
            "processor".to_owned(),
            machine.processor.as_ref().map(|processor| {
                Node::table([
                    text("vendor", &processor.vendor),
                    int("family", processor.family),
                    int("model", processor.model),
                    int("stepping", processor.stepping),
                    text("model_name", &processor.model_name),
                ])
            }),
        ),
        ("package_power".to_owned(), machine.package_power.as_ref().map(package_power_node)),
        (
            "consumer".to_owned(),
            (!machine.consumers.is_empty()).then(|| Node::list(machine.consumers.iter().map(consumer_node))),
        ),
        ("disk".to_owned(), (!machine.disks.is_empty()).then(|| Node::list(machine.disks.iter().map(disk_node)))),
        ("thermal".to_owned(), machine.thermal.as_ref().map(thermal_node)),
        ("cluster".to_owned(), Some(Node::list(machine.clusters.iter().map(cluster_node)))),
        ("program_class".to_owned(), classes_node(&machine.program_classes, &machine.clusters)),
        (
            "source".to_owned(),
            (!machine.sources.is_empty())
                .then(|| Node::table(machine.sources.iter().map(|(what, source)| (what, Some(Node::str(source)))))),
        ),
        ("range".to_owned(), ranges_node(&machine.ranges)),
    ])
}

fn package_power_node(power: &PackagePower) -> Node {
    let time_unless_0 = |base: &str, ns: u64| if ns == 0 { (base.to_owned(), None) } else { time(base, ns) };
    Node::table([
        int_unless("tdp_uw", power.tdp_uw, 0),
        int_unless("pl1_uw", power.pl1_uw, 0),
        time_unless_0("pl1_window", power.pl1_window_ns),
        int_unless("pl2_uw", power.pl2_uw, 0),
        time_unless_0("pl2_window", power.pl2_window_ns),
    ])
}

fn consumer_node(consumer: &Consumer) -> Node {
    Node::table([
        text("name", &consumer.name),
        int_unless("package", consumer.package, 0),
        int("demand_uw", consumer.demand_uw),
        int_unless("least_uw", consumer.least_uw, 0),
        int("frame_uj", consumer.frame_uj),
    ])
}

fn thermal_node(thermal: &Thermal) -> Node {
    Node::table([
        int("resistance_mk_per_w", thermal.resistance_mk_per_w),
        int("capacitance_mj_per_k", thermal.capacitance_mj_per_k),
        int("ambient_mc", thermal.ambient_mc),
        int("limit_mc", thermal.limit_mc),
        int_unless("start_mc", thermal.start_mc, i128::from(thermal.ambient_mc)),
    ])
}

fn switch_quantiles_node(quantiles: &[(u32, u64)]) -> (String, Option<Node>) {
    let pair = |&(percent, ns): &(u32, u64)| Node::list([Node::from(percent), Node::from(ns / 1000)]);
    let list = (!quantiles.is_empty()).then(|| Node::list(quantiles.iter().map(pair)));
    ("switch_quantiles_us".to_owned(), list)
}

/// `switch_quantiles_us`: pairs of percent and us, from 0 to 100 %, both ascending.
fn switch_quantiles_from(table: &Table<'_>, switch_ns: u64) -> Result<Vec<(u32, u64)>, Fault> {
    let Some(node) = table.get("switch_quantiles_us") else { return Ok(Vec::new()) };
    let mut quantiles: Vec<(u32, u64)> = Vec::new();
    for item in node.as_list("switch_quantiles_us")? {
        let [percent, us] = item.as_list("switch_quantiles_us")? else {
            return Err(Fault::new(item.at, "a quantile must be [percent, us]"));
        };
        let percent: u32 = percent.as_int("percent", 0, 100)?;
        let ns = us.as_int::<u64>("us", 0, 10_000_000)? * 1000;
        if quantiles.last().is_some_and(|&(before, before_ns)| before >= percent || before_ns > ns) {
            return Err(Fault::new(item.at, "quantiles must ascend, by percent and by time"));
        }
        quantiles.push((percent, ns));
    }
    let whole = quantiles.first().is_some_and(|(percent, _)| *percent == 0)
        && quantiles.last().is_some_and(|(percent, _)| *percent == 100);
    if !whole || switch_ns == 0 {
        return Err(Fault::new(node.at, "quantiles must go from [0, us] to [100, us], with their mean as `switch_us`"));
    }
    Ok(quantiles)
}

fn driver_node(driver: &Cpufreq) -> Node {
    Node::table([
        text("name", driver.driver.name),
        time("transition_latency", driver.transition_latency_ns),
        int_unless("transition_delay_us", driver.transition_delay_us, 0),
        ("fast_switch".to_owned(), Some(Node::bool(driver.fast_switch))),
        time("switch", driver.switch_ns),
        switch_quantiles_node(&driver.switch_quantiles),
        ("dvfs_possible_from_any_cpu".to_owned(), Some(Node::bool(driver.dvfs_possible_from_any_cpu))),
        ("freq_table".to_owned(), Some(Node::bool(driver.freq_table))),
    ])
}

fn cluster_node(cluster: &Cluster) -> Node {
    let opp = |opp: &Opp| {
        Node::table([
            int("khz", opp.khz),
            int_unless("mv", opp.mv, 0),
            int("uw", opp.power_uw),
            int_unless("busy_uw", opp.busy_uw, i128::from(opp.power_uw)),
            int_unless("cluster_uw", opp.cluster_uw, 0),
            ("idle_uw".to_owned(), opp.idle_uw.map(Node::from)),
            ("cluster_idle_uw".to_owned(), opp.cluster_idle_uw.map(Node::from)),
        ])
    };
    let idle = |state: &IdleState| {
        Node::table([
            text("name", &state.name),
            time("entry_latency", state.entry_latency_ns),
            time("exit_latency", state.exit_latency_ns),
            state.wake_ns.map_or((String::new(), None), |ns| time("wake", ns)),
            time("target_residency", state.target_residency_ns),
            int("uw", state.power_uw),
        ])
    };
    let states = |states: &[IdleState]| (!states.is_empty()).then(|| Node::list(states.iter().map(idle)));
    let cppc = cluster.cppc.map(|caps| {
        Node::table([
            int("highest_perf", caps.highest_perf),
            int("nominal_perf", caps.nominal_perf),
            int("lowest_nonlinear_perf", caps.lowest_nonlinear_perf),
            int("lowest_perf", caps.lowest_perf),
            int("lowest_freq_mhz", caps.lowest_freq_mhz),
            int("nominal_freq_mhz", caps.nominal_freq_mhz),
        ])
    });
    let turbo =
        cluster.turbo.iter().map(|bin| Node::table([int("active_cores", bin.active_cores), int("khz", bin.khz)]));
    let hwp = cluster.hwp.map(|caps| {
        Node::table([
            int("highest", caps.highest),
            int("guaranteed", caps.guaranteed),
            int("most_efficient", caps.most_efficient),
            int("lowest", caps.lowest),
        ])
    });
    Node::table([
        text("name", &cluster.name),
        text("cpus", &format_cpu_list(&cluster.cpus)),
        int("capacity", cluster.capacity),
        ("policy".to_owned(), Some(name_of(POLICY_SHARE, &cluster.policy))),
        int_unless("efficiency_class", cluster.efficiency_class, 0),
        ("opp".to_owned(), Some(Node::list(cluster.opps.iter().map(opp)))),
        (
            "boost_opp".to_owned(),
            (!cluster.boost_opps.is_empty()).then(|| Node::list(cluster.boost_opps.iter().map(opp))),
        ),
        ("idle".to_owned(), states(&cluster.idle)),
        ("cluster_idle".to_owned(), states(&cluster.cluster_idle)),
        ("cluster_idle_uw".to_owned(), cluster.cluster_idle_uw.map(Node::from)),
        ("cppc".to_owned(), cppc),
        int_unless("base_khz", cluster.base_khz, 0),
        ("turbo".to_owned(), (!cluster.turbo.is_empty()).then(|| Node::list(turbo))),
        ("hwp".to_owned(), hwp),
    ])
}

const _: () = assert!(POWER_UW_MAX <= i64::MAX as i128);
