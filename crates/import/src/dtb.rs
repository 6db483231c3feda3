//! Flattened device trees (Devicetree Specification v0.4, chapter 5), and the machine of their `cpus` node:
//! `capacity-dmips-mhz`, `dynamic-power-coefficient`, `operating-points-v2`, `cpu-idle-states`, `cpu-map`.
//!
//! The reader is our own, some hundred lines: the libraries that fit the licence recurse without limit and do not report
//! at which byte a blob is broken. It neither recurses nor trusts an offset.

use std::collections::BTreeMap;

use crate::error::{ImportError, shorten};
use crate::facts::{CpuFacts, Facts, IdleFacts, OppFacts, PolicyFacts, SourceKind};

/// First word of a blob.
pub(crate) const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;
const DEPTH_MAX: usize = 64;
/// Most CPUs of a machine.
const CPU_MAX: usize = 4096;

/// A node, with its place in the list of nodes.
struct DtNode<'a> {
    name: String,
    parent: Option<usize>,
    children: Vec<usize>,
    props: Vec<(&'a str, &'a [u8])>,
}

impl<'a> DtNode<'a> {
    fn prop(&self, name: &str) -> Option<&'a [u8]> {
        self.props.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The first cell of a property.
    fn cell(&self, name: &str) -> Option<u32> {
        self.prop(name).and_then(|value| cells(value).next())
    }

    fn string(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.prop(name)?).ok().map(|text| text.trim_end_matches('\0'))
    }
}

fn cells(value: &[u8]) -> impl Iterator<Item = u32> + '_ {
    value.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
}

struct Blob<'a> {
    file: &'a str,
    bytes: &'a [u8],
}

impl<'a> Blob<'a> {
    fn word(&self, at: usize) -> Result<u32, ImportError> {
        let bytes = at.checked_add(4).and_then(|end| self.bytes.get(at..end));
        let cut =
            || ImportError::byte(self.file, self.bytes.len(), format!("it ends where byte {at} is needed: cut off?"));
        let bytes: [u8; 4] = bytes.ok_or_else(cut)?.try_into().expect("four bytes");
        Ok(u32::from_be_bytes(bytes))
    }

    /// A string that ends with a zero byte.
    fn string(&self, at: usize) -> Result<&'a str, ImportError> {
        let rest = self.bytes.get(at..).unwrap_or(&[]);
        let Some(end) = rest.iter().position(|&byte| byte == 0) else {
            return Err(ImportError::byte(self.file, at, "a name without an end: cut off?"));
        };
        std::str::from_utf8(&rest[..end]).map_err(|_| ImportError::byte(self.file, at, "a name that is not UTF-8"))
    }
}

fn parse<'a>(file: &'a str, bytes: &'a [u8]) -> Result<Vec<DtNode<'a>>, ImportError> {
    let blob = Blob { file, bytes };
    if blob.word(0)? != MAGIC {
        return Err(ImportError::byte(file, 0, "no device tree blob: the magic number is not d00dfeed"));
    }
    let total = blob.word(4)? as usize;
    if total > bytes.len() {
        let message = format!("the blob should have {total} bytes: cut off");
        return Err(ImportError::byte(file, bytes.len(), message));
    }
    let (structs, strings, version) = (blob.word(8)? as usize, blob.word(12)? as usize, blob.word(20)?);
    if blob.word(24)? > 17 || version < 16 {
        return Err(ImportError::byte(file, 20, format!("version {version} is not read; 16 and 17 are")));
    }
    let blob = Blob { file, bytes: &bytes[..total] };
    let mut nodes: Vec<DtNode<'a>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = structs;
    loop {
        let token_at = at;
        let token = blob.word(at)?;
        at += 4;
        match token {
            NOP => {}
            END if open.is_empty() && !nodes.is_empty() => return Ok(nodes),
            BEGIN_NODE => {
                if open.len() >= DEPTH_MAX {
                    return Err(ImportError::byte(
                        file,
                        token_at,
                        format!("nodes are nested more than {DEPTH_MAX} deep"),
                    ));
                }
                if open.is_empty() && !nodes.is_empty() {
                    return Err(ImportError::byte(file, token_at, "a second root node"));
                }
                let name = blob.string(at)?;
                at = (at + name.len() + 1).next_multiple_of(4);
                let index = nodes.len();
                if let Some(&parent) = open.last() {
                    nodes[parent].children.push(index);
                }
                nodes.push(DtNode {
                    name: name.to_owned(),
                    parent: open.last().copied(),
                    children: Vec::new(),
                    props: Vec::new(),
                });
                open.push(index);
            }
            END_NODE => {
                if open.pop().is_none() {
                    return Err(ImportError::byte(file, token_at, "a node ends that did not begin"));
                }
            }
            PROP => {
                let (length, name) = (blob.word(at)? as usize, blob.word(at + 4)? as usize);
                at += 8;
                let Some(value) = blob.bytes.get(at..at.saturating_add(length)) else {
                    return Err(ImportError::byte(
                        file,
                        token_at,
                        format!("a property of {length} bytes passes the end"),
                    ));
                };
                let Some(&node) = open.last() else {
                    return Err(ImportError::byte(file, token_at, "a property outside of any node"));
                };
                nodes[node].props.push((blob.string(strings.saturating_add(name))?, value));
                at = (at + length).next_multiple_of(4);
            }
            other => {
                let message = format!("{other:#x} is no token of a device tree");
                return Err(ImportError::byte(file, token_at, message));
            }
        }
    }
}

struct Tree<'a> {
    nodes: Vec<DtNode<'a>>,
    phandles: BTreeMap<u32, usize>,
}

impl<'a> Tree<'a> {
    fn by_handle(&self, handle: u32) -> Option<&DtNode<'a>> {
        self.phandles.get(&handle).map(|&index| &self.nodes[index])
    }

    fn child(&self, parent: usize, name: &str) -> Option<usize> {
        self.nodes[parent].children.iter().copied().find(|&child| self.nodes[child].name == name)
    }
}

/// Imports a blob.
pub(crate) fn import(name: &str, file: &str, bytes: &[u8]) -> Result<Facts, ImportError> {
    let nodes = parse(file, bytes)?;
    let handle = |node: &DtNode<'_>| node.cell("phandle").or_else(|| node.cell("linux,phandle"));
    let phandles =
        nodes.iter().enumerate().filter_map(|(index, node)| Some((handle(node)?, index))).collect::<BTreeMap<_, _>>();
    let tree = Tree { nodes, phandles };
    let mut facts = Facts::new(name, SourceKind::DeviceTree, file);
    let Some(cpus) = tree.child(0, "cpus") else {
        return Err(ImportError::whole(file, "no node /cpus is in it"));
    };
    if let Some(model) = tree.nodes[0].string("model") {
        facts.notes.push(format!("model of the tree: `{}`", shorten(model)));
    }
    let is_cpu = |&index: &usize| {
        let node = &tree.nodes[index];
        node.string("device_type") == Some("cpu") || node.name.starts_with("cpu@")
    };
    let list: Vec<usize> = tree.nodes[cpus].children.iter().copied().filter(is_cpu).collect();
    if list.is_empty() || list.len() > CPU_MAX {
        return Err(ImportError::whole(file, format!("/cpus has {} CPUs", list.len())));
    }
    facts.tell("cpus", "/cpus/cpu@*, in the order of the tree");
    for (cpu, &index) in (0..).zip(&list) {
        let idle = idle_states(&tree, index, &mut facts);
        facts.cpus.insert(cpu, CpuFacts { idle, ..CpuFacts::default() });
    }
    policies(&tree, &list, &mut facts)?;
    capacities(&tree, &list, &mut facts);
    caches(&tree, &list, &mut facts);
    cpu_map(&tree, cpus, &list, &mut facts);
    Ok(facts)
}

/// WFI, which every ARM CPU has, and the states that the node lists.
fn idle_states(tree: &Tree<'_>, cpu: usize, facts: &mut Facts) -> Vec<IdleFacts> {
    let ns = |node: &DtNode<'_>, name: &str| node.cell(name).map(|us| u64::from(us) * 1000);
    // As arm_idle_driver and the PSCI driver describe it (drivers/cpuidle, v6.12).
    let mut states = vec![IdleFacts {
        name: "WFI".to_owned(),
        entry_latency_ns: 0,
        latency_ns: 1_000,
        residency_ns: 1_000,
        disabled: false,
    }];
    for handle in tree.nodes[cpu].prop("cpu-idle-states").map(cells).into_iter().flatten().take(9) {
        let Some(node) = tree.by_handle(handle) else {
            facts.notes.push(format!("cpu-idle-states names phandle {handle:#x}, which is not there"));
            continue;
        };
        if node.string("status").is_some_and(|status| status != "okay" && status != "ok") {
            continue;
        }
        let name = node.string("idle-state-name").unwrap_or(&node.name);
        let entry = ns(node, "entry-latency-us").unwrap_or(0);
        let exit = ns(node, "exit-latency-us").unwrap_or(0);
        states.push(IdleFacts {
            name: name.to_owned(),
            entry_latency_ns: entry,
            latency_ns: exit,
            residency_ns: ns(node, "min-residency-us").unwrap_or(0),
            disabled: false,
        });
        facts.tell("idle", "/cpus/idle-states; WFI as the kernel's drivers have it");
    }
    states
}

/// OPPs of a CPU: a table's node, or pairs of kHz and uV.
fn opps(tree: &Tree<'_>, cpu: usize, facts: &mut Facts) -> (Option<u32>, bool, Vec<OppFacts>) {
    let node = &tree.nodes[cpu];
    if let Some(handle) = node.cell("operating-points-v2") {
        let Some(&table) = tree.phandles.get(&handle) else {
            facts.notes.push(format!("operating-points-v2 names phandle {handle:#x}, which is not there"));
            return (None, false, Vec::new());
        };
        let mut opps = Vec::new();
        for &child in &tree.nodes[table].children {
            let opp = &tree.nodes[child];
            if opp.string("status") == Some("disabled") {
                continue;
            }
            let Some(hz) = opp.prop("opp-hz").filter(|value| value.len() >= 8) else { continue };
            let hz = cells(hz).take(2).fold(0u64, |hz, cell| hz << 32 | u64::from(cell));
            let Ok(khz) = u32::try_from(hz / 1000) else { continue };
            opps.push(OppFacts {
                khz,
                uv: opp.cell("opp-microvolt").unwrap_or(0),
                power_uw: opp.cell("opp-microwatt").map_or(0, u64::from),
                ..OppFacts::default()
            });
        }
        facts.tell("opps", format!("/{}: opp-hz, opp-microvolt", tree.nodes[table].name));
        let shared = tree.nodes[table].prop("opp-shared").is_some();
        return (Some(handle), shared, opps);
    }
    let pairs: Vec<u32> = node.prop("operating-points").map(cells).into_iter().flatten().collect();
    let opps = pairs.as_chunks::<2>().0.iter().map(|&[khz, uv]| OppFacts { khz, uv, ..OppFacts::default() }).collect();
    if !pairs.is_empty() {
        facts.tell("opps", "/cpus/cpu@*: operating-points");
    }
    (None, false, opps)
}

/// CPUs with one table that is shared, or with one clock, have one policy.
fn policies(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) -> Result<(), ImportError> {
    let mut of_key: BTreeMap<(u32, Vec<u32>), u32> = BTreeMap::new();
    for (cpu, &index) in (0..).zip(list) {
        let node = &tree.nodes[index];
        let (table, shared, mut opps) = opps(tree, index, facts);
        let clock: Vec<u32> = ["clocks", "qcom,freq-domain", "performance-domains", "power-domains"]
            .iter()
            .find_map(|name| node.prop(name))
            .map(|value| cells(value).collect())
            .unwrap_or_default();
        // Without any hint each CPU is alone.
        let key = match (table, shared) {
            (Some(table), true) => (table, Vec::new()),
            _ if clock.is_empty() => (u32::MAX, vec![cpu]),
            _ => (0, clock),
        };
        let first = *of_key.entry(key).or_insert(cpu);
        if let Some(policy) = facts.policies.get_mut(&first) {
            policy.cpus.push(cpu);
            continue;
        }
        opps.sort_by_key(|opp| opp.khz);
        opps.dedup_by_key(|opp| opp.khz);
        opps.retain(|opp| opp.khz != 0);
        if let Some(coefficient) = node.cell("dynamic-power-coefficient") {
            // uW/MHz/V^2 (of.c:_get_power(), v6.12).
            for opp in opps.iter_mut().filter(|opp| opp.power_uw == 0) {
                let mv = u128::from(opp.uv / 1000);
                let power = u128::from(coefficient) * mv * mv * u128::from(opp.khz / 1000) / 1_000_000;
                opp.power_uw = u64::try_from(power).unwrap_or(u64::MAX).min(1 << 40);
            }
            facts.tell("opp power", "dynamic-power-coefficient * V^2 * f (drivers/opp/of.c, v6.12)");
        }
        facts.policies.insert(
            cpu,
            PolicyFacts {
                id: cpu,
                cpus: vec![cpu],
                min_khz: opps.first().map(|opp| opp.khz),
                max_khz: opps.last().map(|opp| opp.khz),
                opps,
                ..PolicyFacts::default()
            },
        );
    }
    if facts.policies.values().all(|policy| policy.opps.is_empty()) {
        facts.notes.push(
            "no operating points: the firmware supplies them at run time (SCMI, SCPI, a hardware table)".to_owned(),
        );
    }
    Ok(())
}

/// `capacity-dmips-mhz` times the highest frequency, scaled so that the biggest CPU has 1024
/// (drivers/base/arch_topology.c:topology_normalize_cpu_scale(), v6.12).
fn capacities(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let raw: Vec<u64> = (0..)
        .zip(list)
        .map(|(cpu, &index)| {
            let dmips = tree.nodes[index].cell("capacity-dmips-mhz").map_or(0, u64::from);
            let policy = facts.policies.values().find(|policy| policy.cpus.contains(&cpu));
            // Without operating points all count alike, as in the kernel before the first policy.
            let mhz = policy.and_then(|policy| policy.max_khz).map_or(1, |khz| u64::from(khz / 1000).max(1));
            dmips * mhz
        })
        .collect();
    let max = raw.iter().copied().max().unwrap_or(0);
    if max == 0 || raw.contains(&0) {
        return;
    }
    for (of_cpu, raw) in facts.cpus.values_mut().zip(raw) {
        of_cpu.capacity = Some((u128::from(raw) * 1024 / u128::from(max)) as u32);
    }
    facts.tell("capacity", "/cpus/cpu@*: capacity-dmips-mhz * highest frequency");
}

/// CPUs whose caches end in one node share the last level.
fn caches(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let last: Vec<Option<usize>> = list
        .iter()
        .map(|&index| {
            let mut at = index;
            let mut found = None;
            for _ in 0..8 {
                let next = tree.nodes[at].cell("next-level-cache").and_then(|handle| tree.phandles.get(&handle));
                let Some(&next) = next else { break };
                found = Some(next);
                at = next;
            }
            found
        })
        .collect();
    if last.iter().any(Option::is_none) {
        return;
    }
    for (cpu, of_cpu) in facts.cpus.values_mut().enumerate() {
        of_cpu.llc = Some((0..).zip(&last).filter(|(_, other)| **other == last[cpu]).map(|(other, _)| other).collect());
    }
    facts.tell("llc", "/cpus/cpu@*: next-level-cache");
}

/// Clusters and threads by `/cpus/cpu-map`.
fn cpu_map(tree: &Tree<'_>, cpus: usize, list: &[usize], facts: &mut Facts) {
    let Some(map) = tree.child(cpus, "cpu-map") else { return };
    let number: BTreeMap<usize, u32> = list.iter().copied().zip(0..).collect();
    // (cluster's node, core's node, CPU) of each leaf.
    let mut places: Vec<(usize, usize, u32)> = Vec::new();
    let mut todo = vec![map];
    while let Some(index) = todo.pop() {
        let node = &tree.nodes[index];
        todo.extend(&node.children);
        let Some(cpu) = node.cell("cpu").and_then(|handle| tree.phandles.get(&handle)).and_then(|at| number.get(at))
        else {
            continue;
        };
        let core = if node.name.starts_with("thread") { node.parent.unwrap_or(index) } else { index };
        places.push((tree.nodes[core].parent.unwrap_or(map), core, *cpu));
    }
    places.sort_by_key(|&(.., cpu)| cpu);
    for &(cluster, core, cpu) in &places {
        let Some(of_cpu) = facts.cpus.get_mut(&cpu) else { continue };
        of_cpu.cluster = Some(places.iter().filter(|place| place.0 == cluster).map(|place| place.2).collect());
        of_cpu.core = Some(places.iter().filter(|place| place.1 == core).map(|place| place.2).collect());
    }
    facts.tell("core", "/cpus/cpu-map");
    facts.tell("cluster", "/cpus/cpu-map");
}
