//! Machine files: TOML text to [`Machine`] and back.
//!
//! `format = 1` comes first. Units are part of a key's name and may be chosen (`exit_latency_us`, `exit_latency_ns`);
//! what is written back uses the largest unit that is exact. Every table refuses keys that it does not know. Sources of
//! the numbers are data (`[source]`), so they survive the round trip; comments do not.
//!
//! This module does no I/O: the caller reads the file and gives its name for messages.

use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::drivers::DriverId;

use crate::cpus::{CpuList, cpus_from, format_cpu_list};
use crate::error::{Fault, ModelError, Pos, shorten};
use crate::file_table::FileTable;
use crate::machine::{Cluster, CpuPlace, Cpufreq, IdleState, Machine, Opp};
use crate::program_class::{classes_from, classes_node};
use crate::range::{Bounds, Range, ranges_from, ranges_node};
use crate::tree::{Node, POWER_UW_MAX, Table, parse_toml, to_toml};

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

/// Refuses a file that is of another format than this reader's.
pub(crate) fn check_format(table: &Table<'_>) -> Result<(), Fault> {
    let node = table.need("format")?;
    let format: i64 = node.as_int("format", i128::from(i64::MIN), i128::from(i64::MAX))?;
    if format == 1 { Ok(()) } else { Err(Fault::new(node.at, format!("`format` is {format}; this version reads 1"))) }
}

/// What of a machine is not one key alone, or depends on its clusters.
const MACHINE_KEYS: &[&str] = &["format", "numa_distance", "topology", "driver", "cluster", "program_class", "range"];

/// Converts a tree into a machine.
///
/// # Errors
/// The first thing that is wrong.
pub fn machine_from(root: &Node) -> Result<Machine, Fault> {
    let mut machine = Machine::default();
    let table = machine.read(root, "machine", MACHINE_KEYS)?;
    check_format(&table)?;
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
    let nr_packages = package.iter().max().map_or(0, |&last| last + 1);
    for (node, consumer) in
        table.get("consumer").map_or(Ok(&[][..]), |node| node.as_list("consumer"))?.iter().zip(&machine.consumers)
    {
        if consumer.package >= nr_packages {
            let message = format!("`package` must be at most {}, not {}", nr_packages - 1, consumer.package);
            return Err(Fault::new(node.at, message));
        }
    }
    let cluster_names: Vec<String> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
    machine.program_classes = classes_from(table.get("program_class"), &named(&clusters))?;
    machine.ranges = ranges_from(table.get("range"), &cluster_names)?;
    machine.cpufreq = drivers.remove(0);
    machine.other_drivers = drivers;
    (machine.cpus, machine.clusters, machine.numa_distance) = (cpus, clusters, numa_distance);
    let excluded = machine.ranges.iter().find_map(|range| excludes(range, &machine));
    match (excluded, table.get("range")) {
        (Some(why), Some(node)) => Err(Fault::new(node.at, why)),
        _ => Ok(machine),
    }
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
    let mut driver = Cpufreq::default();
    let table = driver.read(node, "driver", &["name"])?;
    let name = table.need_str("name")?;
    driver.driver = DriverId::named(name).ok_or_else(|| {
        let known = DriverId::all().map(|known| known.entry().name);
        Fault::unknown(table.get("name").map_or(node.at, |node| node.at), "cpufreq driver", name, known)
    })?;
    if driver.switch_ns == 0 && !driver.switch_quantiles.is_empty() {
        return Err(Fault::new(node.at, "`switch_quantiles_us` needs their mean as `switch_us`"));
    }
    Ok(driver)
}

fn driver_node(driver: &Cpufreq) -> Node {
    let name = ("name".to_owned(), Some(Node::str(driver.driver.name)));
    Node::table(std::iter::once(name).chain(driver.entries()))
}

fn cluster_from(node: &Node) -> Result<Cluster, Fault> {
    let mut cluster = Cluster::default();
    let table = cluster.read(node, "cluster", &[])?;
    match (cluster.opps.last(), cluster.boost_opps.first()) {
        (Some(last), Some(first)) if first.khz <= last.khz => {
            let at = table.get("boost_opp").map_or(node.at, |node| node.at);
            Err(Fault::new(at, format!("boost OPPs must be above the OPPs; {} kHz is not", first.khz)))
        }
        _ => Ok(cluster),
    }
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
    let topology = Node::table([
        ("core", Some(group(&|place| place.core))),
        ("llc", Some(group(&|place| place.llc))),
        ("node", Some(group(&|place| place.node))),
        ("package", Some(group(&|place| place.package))),
    ]);
    let row = |row: &Vec<u32>| Node::list(row.iter().map(|&cell| Node::from(cell)));
    let before = [
        ("costs", "numa_distance", Some(Node::list(machine.numa_distance.iter().map(row)))),
        ("costs", "topology", Some(topology)),
        ("costs", "driver", Some(Node::list(drivers))),
        ("source", "cluster", Some(Node::list(machine.clusters.iter().map(FileTable::node)))),
        ("source", "program_class", classes_node(&machine.program_classes, &named(&machine.clusters))),
    ];
    let mut entries = vec![("format".to_owned(), Some(Node::from(1)))];
    for entry in machine.entries() {
        let here = before.iter().filter(|(next, ..)| *next == entry.0);
        entries.extend(here.map(|(_, key, node)| ((*key).to_owned(), node.clone())));
        entries.push(entry);
    }
    entries.push(("range".to_owned(), ranges_node(&machine.ranges)));
    Node::table(entries)
}

/// The names and capacities of clusters.
fn named(clusters: &[Cluster]) -> Vec<(&str, u32)> {
    clusters.iter().map(|cluster| (cluster.name.as_str(), cluster.capacity)).collect()
}

/// The file's numbers that the range is about, where there is one of each machine or of each cluster's point or state.
fn numbers_of(range: &Range, machine: &Machine) -> Vec<u64> {
    let clusters = || {
        let own = |cluster: &&Cluster| range.cluster.as_ref().is_none_or(|name| *name == cluster.name);
        machine.clusters.iter().filter(own)
    };
    let opps = |of: fn(&Opp) -> u64| clusters().flat_map(|cluster| &cluster.opps).map(of).collect();
    let idle = |of: fn(&IdleState) -> u64| clusters().flat_map(|cluster| &cluster.idle).map(of).collect();
    let power = machine.package_power.unwrap_or_default();
    match range.path {
        "floor_uw" => vec![machine.floor_uw],
        "smt_yield" => vec![machine.smt_yield.into()],
        "smt_power" => vec![machine.smt_power.into()],
        "pause_cycles" => vec![machine.pause_cycles.into()],
        "costs.context_switch_ns" => vec![machine.costs.context_switch_ns],
        "costs.wakeup_ns" => vec![machine.costs.wakeup_ns],
        "costs.ipi_ns" => vec![machine.costs.ipi_ns],
        "costs.tick_ns" => vec![machine.costs.tick_ns],
        "costs.sugov_work_ns" => vec![machine.costs.sugov_work_ns],
        "driver.transition_latency_ns" => vec![machine.cpufreq.transition_latency_ns],
        "driver.switch_ns" => vec![machine.cpufreq.switch_ns],
        "package_power.pl1_uw" => vec![power.pl1_uw],
        "package_power.pl2_uw" => vec![power.pl2_uw],
        "cluster.capacity" => clusters().map(|cluster| cluster.capacity.into()).collect(),
        "cluster.opp.uw" => opps(|opp| opp.power_uw),
        "cluster.opp.busy_uw" => opps(|opp| opp.busy_uw),
        "cluster.opp.cluster_uw" => opps(|opp| opp.cluster_uw),
        "cluster.idle.uw" => idle(|state| state.power_uw),
        "cluster.idle.exit_latency_ns" => idle(|state| state.exit_latency_ns),
        "cluster.idle.wake_ns" => idle(|state| state.wake_ns.unwrap_or(state.exit_latency_ns)),
        _ => Vec::new(),
    }
}

/// Why the range cannot hold: none of the numbers that it is about lies in it, or it is of other operating points.
fn excludes(range: &Range, machine: &Machine) -> Option<String> {
    let numbers = numbers_of(range, machine);
    let (low, high) = match &range.bounds {
        Bounds::Between(low, high) => (*low, *high),
        Bounds::PercentByOpp(of) if !numbers.is_empty() && of.len() != numbers.len() => {
            let (key, opps) = (range.key(), numbers.len());
            return Some(format!("range `{key}` has {} pairs for {opps} operating points", of.len()));
        }
        _ => return None,
    };
    let inside = |&number: &u64| (i128::from(low)..=i128::from(high)).contains(&i128::from(number));
    match numbers.first() {
        Some(first) if !numbers.iter().any(inside) => {
            Some(format!("range `{}` = [{low}, {high}] does not hold the file's own number, {first}", range.key()))
        }
        _ => None,
    }
}

const _: () = assert!(POWER_UW_MAX <= i64::MAX as i128);
