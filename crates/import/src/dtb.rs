//! Flattened device trees (Devicetree Specification v0.4, chapter 5), and the machine of their `cpus` node:
//! `capacity-dmips-mhz`, `dynamic-power-coefficient`, `operating-points-v2`, `cpu-idle-states`, `cpu-map`. Properties of
//! CPUs, operating points and idle states that are not read are named in a note.
//!
//! The reader is our own, some hundred lines: the libraries that fit the licence recurse without limit and do not report
//! at which byte a blob is broken. It neither recurses nor trusts an offset.

use std::collections::{BTreeMap, BTreeSet};

use opplab_model::cpus::format_cpu_list;

use crate::error::{ImportError, shorten};
use crate::facts::{CpuFacts, Facts, IdleFacts, OppFacts, PolicyFacts, SourceKind};
use crate::sysfs::CPUIDLE_STATE_MAX;

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

    /// As of_device_is_available() has it.
    fn is_available(&self) -> bool {
        self.string("status").is_none_or(|status| status == "okay" || status == "ok")
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

    /// The power domains of a node: provider, cells with the phandle, name.
    fn power_domains(&self, node: &DtNode<'a>) -> Vec<(&DtNode<'a>, Vec<u32>, Option<&'a str>)> {
        let mut rest: Vec<u32> = node.prop("power-domains").map(cells).into_iter().flatten().collect();
        let mut names = node.string("power-domain-names").unwrap_or("").split('\0').filter(|name| !name.is_empty());
        let mut found = Vec::new();
        while let Some(provider) = rest.first().and_then(|&handle| self.by_handle(handle)) {
            let length = 1 + provider.cell("#power-domain-cells").unwrap_or(0) as usize;
            let later = rest.split_off(length.min(rest.len()));
            found.push((provider, rest, names.next()));
            rest = later;
        }
        found
    }
}

fn note(facts: &mut Facts, text: String) {
    if !facts.notes.contains(&text) {
        facts.notes.push(text);
    }
}

fn mhz(khz: &[u32]) -> String {
    let list: Vec<String> = khz.iter().map(|&khz| f64::from(khz) / 1000.0).map(|mhz| mhz.to_string()).collect();
    format!("{} MHz", list.join(", "))
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
    let mut list: Vec<usize> = tree.nodes[cpus].children.iter().copied().filter(is_cpu).collect();
    let is_used = |facts: &mut Facts, index: usize| {
        let node = &tree.nodes[index];
        let status = node.string("status").filter(|_| !node.is_available()).unwrap_or("okay");
        // of_get_next_cpu_node() goes over those that fail; RISC-V takes none that is disabled, the others do (v6.12).
        let is_riscv = node.string("compatible").is_some_and(|names| names.contains("riscv"));
        let is_used = !(status.starts_with("fail") || is_riscv && status != "okay");
        if status != "okay" {
            let what = if is_used { "is taken, as the kernel brings it up" } else { "is left out, as in the kernel" };
            note(facts, format!("{} has the status `{}` and {what}", node.name, shorten(status)));
        }
        is_used
    };
    list.retain(|&index| is_used(&mut facts, index));
    if list.is_empty() || list.len() > CPU_MAX {
        return Err(ImportError::whole(file, format!("/cpus has {} CPUs", list.len())));
    }
    facts.tell("cpus", "/cpus/cpu@*, in the order of the tree");
    for (cpu, &index) in (0..).zip(&list) {
        let idle = idle_states(&tree, index, &mut facts);
        let dmips_mhz = tree.nodes[index].cell("capacity-dmips-mhz");
        facts.cpus.insert(cpu, CpuFacts { idle, dmips_mhz, ..CpuFacts::default() });
    }
    facts.tell("idle", "WFI as the kernel's drivers have it");
    policies(&tree, &list, &mut facts);
    facts.capacities_by_dmips();
    caches(&tree, &list, &mut facts);
    cpu_map(&tree, cpus, &list, &mut facts);
    numa(&tree, &list, &mut facts);
    not_read(&tree, &list, &mut facts);
    Ok(facts)
}

/// Phandles of a CPU's idle states: those of its own power domain, then those that it lists behind as many
/// (drivers/of/cpu.c:of_get_cpu_state_node(), v6.12).
fn state_handles(tree: &Tree<'_>, cpu: usize) -> Vec<u32> {
    let node = &tree.nodes[cpu];
    let of = |node: &DtNode<'_>, name: &str| node.prop(name).map(cells).into_iter().flatten().collect::<Vec<u32>>();
    let domains = tree.power_domains(node);
    let mut handles = domains.first().map_or_else(Vec::new, |(domain, ..)| of(domain, "domain-idle-states"));
    handles.extend(of(node, "cpu-idle-states").into_iter().skip(handles.len()));
    handles
}

/// WFI, which every ARM CPU has, and the states of the node (drivers/cpuidle/dt_idle_states.c:init_state_node(), v6.12).
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
    let handles = state_handles(tree, cpu);
    if handles.len() >= CPUIDLE_STATE_MAX {
        let text = format!("{} has more idle states than cpuidle takes; the last are left out", tree.nodes[cpu].name);
        note(facts, text);
    }
    for handle in handles.into_iter().take(CPUIDLE_STATE_MAX - 1) {
        let Some(node) = tree.by_handle(handle) else {
            note(facts, format!("cpu-idle-states names phandle {handle:#x}, which is not there"));
            continue;
        };
        let (entry, exit) = (ns(node, "entry-latency-us"), ns(node, "exit-latency-us"));
        // The kernel's exit latency is that of a wake-up at the worst moment, or else the sum of both.
        let times = match (ns(node, "wakeup-latency-us"), entry, exit) {
            (Some(wakeup), _, exit) => {
                let exit = exit.unwrap_or(wakeup).min(wakeup);
                Some((wakeup - exit, exit))
            }
            (None, Some(entry), Some(exit)) => Some((entry, exit)),
            _ => None,
        };
        let (Some((entry, exit)), Some(residency_ns)) = (times, ns(node, "min-residency-us")) else {
            let why = "lacks a latency or min-residency-us";
            note(facts, format!("idle state {} {why}: the kernel takes no state of its CPUs but WFI", node.name));
            states.truncate(1);
            break;
        };
        let name = node.string("idle-state-name").unwrap_or(&node.name);
        states.push(IdleFacts {
            name: name.to_owned(),
            entry_latency_ns: entry,
            latency_ns: exit,
            residency_ns,
            disabled: !node.is_available(),
        });
        let parent = node.parent.map_or("", |parent| &tree.nodes[parent].name);
        facts.tell("idle", format!("/cpus/{parent}; WFI as the kernel's drivers have it"));
    }
    let method = tree.nodes[cpu].string("enable-method").filter(|method| *method != "psci");
    if let Some(method) = method.filter(|_| states.len() > 1) {
        let method = shorten(method);
        note(facts, format!("enable-method is `{method}`: cpuidle's PSCI driver takes no state of such a CPU"));
    }
    states
}

/// The operating points of a CPU.
#[derive(Default)]
struct Table {
    handle: Option<u32>,
    shared: bool,
    opps: Vec<OppFacts>,
    boost_khz: Vec<u32>,
    /// `None`: CPUFREQ_ETERNAL.
    latency_ns: Option<u64>,
}

/// OPPs of a CPU: a table's node, or pairs of kHz and uV.
fn table(tree: &Tree<'_>, cpu: usize, facts: &mut Facts) -> Table {
    let node = &tree.nodes[cpu];
    // The CPU's own key is of the older binding, which the kernel reads in any case.
    let own_ns = node.cell("clock-latency").map(u64::from);
    let Some(handle) = node.cell("operating-points-v2") else {
        let pairs: Vec<u32> = node.prop("operating-points").map(cells).into_iter().flatten().collect();
        let opps: Vec<OppFacts> =
            pairs.as_chunks::<2>().0.iter().map(|&[khz, uv]| OppFacts { khz, uv, ..OppFacts::default() }).collect();
        if !pairs.is_empty() {
            facts.tell("opps", "/cpus/cpu@*: operating-points");
        }
        let volts: Vec<u32> = opps.iter().map(|opp| opp.uv).collect();
        let latency_ns = latency(tree, node, "clock-latency", own_ns, &volts, facts);
        return Table { opps, latency_ns, ..Table::default() };
    };
    let Some(&index) = tree.phandles.get(&handle) else {
        facts.notes.push(format!("operating-points-v2 names phandle {handle:#x}, which is not there"));
        return Table::default();
    };
    let of_table = &tree.nodes[index];
    let mut found = Table { handle: Some(handle), shared: of_table.prop("opp-shared").is_some(), ..Table::default() };
    let (mut volts, mut disabled, mut fused, mut clock_ns) = (Vec::new(), Vec::new(), 0, own_ns);
    for opp in of_table.children.iter().map(|&child| &tree.nodes[child]) {
        let hz = opp.prop("opp-hz").filter(|value| value.len() >= 8);
        let hz = hz.map(|hz| cells(hz).take(2).fold(0u64, |hz, cell| hz << 32 | u64::from(cell)));
        let Some(khz) = hz.and_then(|hz| u32::try_from(hz / 1000).ok()) else {
            note(facts, format!("/{}/{} has no opp-hz and is left out", of_table.name, opp.name));
            continue;
        };
        if !opp.is_available() {
            disabled.push(khz);
            continue;
        }
        fused += usize::from(opp.prop("opp-supported-hw").is_some());
        clock_ns = clock_ns.max(opp.cell("clock-latency-ns").map(u64::from));
        // The target, and maybe the least and the most.
        volts.extend(opp.prop("opp-microvolt").map(cells).into_iter().flatten().take(3));
        if opp.prop("turbo-mode").is_some() {
            found.boost_khz.push(khz);
            continue;
        }
        found.opps.push(OppFacts {
            khz,
            uv: opp.cell("opp-microvolt").unwrap_or(0),
            power_uw: opp.cell("opp-microwatt").map_or(0, u64::from),
            ..OppFacts::default()
        });
    }
    if !disabled.is_empty() {
        note(facts, format!("/{}: {} disabled and left out", of_table.name, mhz(&disabled)));
    }
    if fused > 0 {
        let which = format!("/{}: {fused} operating points have opp-supported-hw", of_table.name);
        note(facts, format!("{which}: all are in the machine; take out those that your chip's fuses forbid"));
    }
    found.latency_ns = latency(tree, node, &format!("/{}: clock-latency-ns", of_table.name), clock_ns, &volts, facts);
    facts.tell("opps", format!("/{}: opp-hz, opp-microvolt", of_table.name));
    found
}

/// The transition latency: the clock's and the regulator's (drivers/opp/core.c:dev_pm_opp_get_max_transition_latency(),
/// v6.12).
fn latency(
    tree: &Tree<'_>,
    cpu: &DtNode<'_>,
    place: &str,
    clock_ns: Option<u64>,
    volts: &[u32],
    facts: &mut Facts,
) -> Option<u64> {
    let supply = cpu.cell("cpu0-supply").or_else(|| cpu.cell("cpu-supply")).and_then(|handle| tree.by_handle(handle));
    let mut regulator_ns = None;
    if let (Some(supply), Some(low), Some(high)) = (supply, volts.iter().min(), volts.iter().max()) {
        // uV/us (drivers/regulator/core.c:_regulator_set_voltage_time(), v6.12).
        let ramp = supply.cell("regulator-ramp-delay").filter(|&ramp| ramp != 0);
        let us = ramp.map(|ramp| (high - low).div_ceil(ramp)).or_else(|| supply.cell("regulator-settling-time-us"));
        regulator_ns = us.map(|us| u64::from(us) * 1000);
        if us.is_none() {
            let text = "the regulator's time to change the voltage is not in the transition latency: \
                        cpu-supply has neither regulator-ramp-delay nor regulator-settling-time-us";
            note(facts, text.to_owned());
        }
    }
    let sum = clock_ns.unwrap_or(0) + regulator_ns.unwrap_or(0);
    if sum == 0 {
        return None;
    }
    let mut places: Vec<&str> = Vec::new();
    places.extend(clock_ns.map(|_| place));
    places.extend(regulator_ns.map(|_| "cpu-supply's time from the lowest to the highest voltage"));
    facts.tell("transition_latency", places.join(" and "));
    Some(sum)
}

/// CPUs with one table that is shared, or with one clock, have one policy.
fn policies(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let mut of_key: BTreeMap<(u32, Vec<u32>), u32> = BTreeMap::new();
    let any = |name: &str| list.iter().any(|&index| tree.nodes[index].prop(name).is_some());
    // With the older binding all CPUs share what the first has (drivers/cpufreq/cpufreq-dt.c, v6.12).
    let all_share = !any("operating-points-v2") && any("operating-points");
    for (cpu, &index) in (0..).zip(list) {
        let node = &tree.nodes[index];
        let found = table(tree, index, facts);
        let clock: Vec<u32> = ["clocks", "qcom,freq-domain", "performance-domains"]
            .iter()
            .find_map(|name| node.prop(name))
            .map(|value| cells(value).collect())
            .or_else(|| {
                // Others are about power, not about performance.
                let domains = tree.power_domains(node);
                domains.into_iter().find(|(.., name)| *name == Some("perf")).map(|(_, cells, _)| cells)
            })
            .unwrap_or_default();
        // Without any hint each CPU is alone.
        let key = match (found.handle, found.shared) {
            (Some(table), true) => (table, Vec::new()),
            _ if clock.is_empty() => (u32::MAX, vec![cpu]),
            _ => (0, clock),
        };
        let first = if all_share && key.0 == u32::MAX { 0 } else { *of_key.entry(key).or_insert(cpu) };
        if let Some(policy) = facts.policies.get_mut(&first) {
            policy.cpus.push(cpu);
            continue;
        }
        let mut opps = found.opps;
        opps.sort_by_key(|opp| opp.khz);
        opps.dedup_by_key(|opp| opp.khz);
        opps.retain(|opp| opp.khz != 0);
        power(node, &mut opps, facts);
        let mut boost_khz = found.boost_khz;
        boost_khz.sort_unstable();
        facts.policies.insert(
            cpu,
            PolicyFacts {
                id: cpu,
                cpus: vec![cpu],
                min_khz: opps.first().map(|opp| opp.khz),
                max_khz: opps.last().map(|opp| opp.khz),
                transition_latency_ns: found.latency_ns,
                opps,
                boost_khz,
                ..PolicyFacts::default()
            },
        );
    }
    let without: Vec<u32> = facts
        .policies
        .values()
        .filter(|policy| policy.opps.is_empty())
        .flat_map(|policy| policy.cpus.clone())
        .collect();
    if !without.is_empty() {
        let why = "the firmware supplies them at run time (SCMI, SCPI, a hardware table)";
        facts.notes.push(format!("no operating points of CPUs {}: {why}", format_cpu_list(&without)));
    }
}

/// Power of the points: their own where the lowest has it, else by the CPU's coefficient
/// (drivers/opp/of.c:dev_pm_opp_of_register_em(), v6.12).
fn power(cpu: &DtNode<'_>, opps: &mut [OppFacts], facts: &mut Facts) {
    if opps.first().is_some_and(|opp| opp.power_uw != 0) {
        facts.tell("opp power", "opp-microwatt");
        if opps.iter().any(|opp| opp.power_uw == 0) {
            let text = "some points lack opp-microwatt, which the lowest has: the kernel registers no energy model";
            note(facts, text.to_owned());
        }
        return;
    }
    let Some(coefficient) = cpu.cell("dynamic-power-coefficient") else { return };
    for opp in opps {
        // uW/MHz/V^2 (of.c:_get_power(), v6.12).
        let mv = u128::from(opp.uv / 1000);
        let power = u128::from(coefficient) * mv * mv * u128::from(opp.khz / 1000) / 1_000_000;
        opp.power_uw = u64::try_from(power).unwrap_or(u64::MAX).min(1 << 40);
    }
    facts.tell("opp power", "dynamic-power-coefficient * V^2 * f (drivers/opp/of.c, v6.12)");
}

/// CPUs whose caches end in one node share the last level.
fn caches(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let last: Vec<Option<usize>> = list
        .iter()
        .map(|&index| {
            let mut at = index;
            let mut found = None;
            for _ in 0..8 {
                let next = tree.nodes[at].cell("l2-cache").or_else(|| tree.nodes[at].cell("next-level-cache"));
                let next = next.and_then(|handle| tree.phandles.get(&handle));
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
    places.dedup_by_key(|&mut (.., cpu)| cpu);
    if places.len() != list.len() {
        note(facts, "cpu-map lacks CPUs and is not read, as in the kernel".to_owned());
        return;
    }
    // Sockets lie directly in the map, if there are any (drivers/base/arch_topology.c:parse_socket(), v6.12).
    let sockets: Vec<usize> =
        tree.nodes[map].children.iter().copied().filter(|&at| tree.nodes[at].name.starts_with("socket")).collect();
    let socket_of = |mut at: usize| {
        while at != map && tree.nodes[at].parent != Some(map) {
            at = tree.nodes[at].parent.unwrap_or(map);
        }
        (0..).zip(&sockets).find(|(_, socket)| **socket == at).map(|(number, _)| number)
    };
    for &(cluster, core, cpu) in &places {
        let Some(of_cpu) = facts.cpus.get_mut(&cpu) else { continue };
        of_cpu.cluster = Some(places.iter().filter(|place| place.0 == cluster).map(|place| place.2).collect());
        of_cpu.core = Some(places.iter().filter(|place| place.1 == core).map(|place| place.2).collect());
        of_cpu.package = socket_of(cluster);
    }
    facts.tell("core", "/cpus/cpu-map");
    facts.tell("cluster", "/cpus/cpu-map");
    if !sockets.is_empty() {
        facts.tell("package", "/cpus/cpu-map");
    }
}

/// NUMA nodes of the CPUs and their distances (drivers/of/of_numa.c, v6.12).
fn numa(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let ids: Vec<Option<u32>> = list.iter().map(|&index| tree.nodes[index].cell("numa-node-id")).collect();
    if ids.iter().any(Option::is_none) {
        return;
    }
    // In the order of the first CPU, as machines number them.
    let mut order: Vec<u32> = Vec::new();
    for (of_cpu, id) in facts.cpus.values_mut().zip(ids.into_iter().flatten()) {
        let known = order.iter().position(|&known| known == id);
        let at = known.unwrap_or_else(|| {
            order.push(id);
            order.len() - 1
        });
        of_cpu.node = Some(at as u32);
    }
    facts.tell("node", "/cpus/cpu@*: numa-node-id");
    let map = tree.child(0, "distance-map").and_then(|map| tree.nodes[map].prop("distance-matrix"));
    let Some(map) = map else { return };
    let mut rows: Vec<Vec<u32>> =
        (0..order.len()).map(|a| (0..order.len()).map(|b| if a == b { 10 } else { 20 }).collect()).collect();
    let triples: Vec<u32> = cells(map).collect();
    for &[a, b, distance] in triples.as_chunks::<3>().0 {
        let at = |id: u32| order.iter().position(|&known| known == id);
        let (Some(from), Some(to)) = (at(a), at(b)) else { continue };
        rows[from][to] = distance;
        if b > a {
            rows[to][from] = distance;
        }
    }
    facts.numa_distance = Some(rows);
    facts.tell("numa_distance", "/distance-map");
}

/// Properties that are read, or that are not about clocks, power, idle states or topology; those of a CPU, of an
/// operating point and of an idle state. A star stands for any ending.
const KNOWN: [&[&str]; 3] = [
    &[
        "device_type",
        "compatible",
        "reg",
        "status",
        "enable-method",
        "cpu-release-addr",
        "#cooling-cells",
        "cpu-supply",
        "cpu0-supply",
        "clocks",
        "clock-names",
        "clock-latency",
        "assigned-clock*",
        "qcom,freq-domain",
        "performance-domains",
        "power-domains",
        "power-domain-names",
        "next-level-cache",
        "l2-cache",
        "i-cache-*",
        "d-cache-*",
        "i-tlb-*",
        "d-tlb-*",
        "tlb-*",
        "cache-*",
        "mmu-type",
        "riscv,*",
        "capacity-dmips-mhz",
        "dynamic-power-coefficient",
        "operating-points-v2",
        "operating-points",
        "cpu-idle-states",
        "numa-node-id",
        "nvmem-cell*",
        "resets",
    ],
    &["opp-hz", "opp-microvolt", "opp-microwatt", "clock-latency-ns", "turbo-mode", "status", "opp-supported-hw"],
    &[
        "compatible",
        "idle-state-name",
        "entry-latency-us",
        "exit-latency-us",
        "wakeup-latency-us",
        "min-residency-us",
        "status",
        "arm,psci-suspend-param",
        "riscv,sbi-suspend-param",
    ],
];

/// Names what the tree has of the CPUs and nothing here reads.
fn not_read(tree: &Tree<'_>, list: &[usize], facts: &mut Facts) {
    let mut names: [BTreeSet<String>; 3] = Default::default();
    let mut add = |kind: usize, node: &DtNode<'_>| {
        let is_known = |name: &str| {
            let matches = |known: &&str| known.strip_suffix('*').map_or(name == *known, |stem| name.starts_with(stem));
            name.ends_with("phandle") || KNOWN[kind].iter().any(matches)
        };
        for (name, _) in node.props.iter().filter(|(name, _)| !is_known(name)) {
            names[kind].insert(shorten(name));
        }
    };
    let mut together: BTreeSet<&str> = BTreeSet::new();
    for &index in list {
        let node = &tree.nodes[index];
        add(0, node);
        let table = node.cell("operating-points-v2").and_then(|handle| tree.by_handle(handle));
        table.into_iter().flat_map(|table| &table.children).for_each(|&opp| add(1, &tree.nodes[opp]));
        state_handles(tree, index).iter().filter_map(|&handle| tree.by_handle(handle)).for_each(|state| add(2, state));
        // The domains that hold the CPU's own have states of several CPUs.
        let mut domain = tree.power_domains(node).first().map(|&(domain, ..)| domain);
        for _ in 0..DEPTH_MAX {
            domain = domain.and_then(|domain| tree.power_domains(domain).first().map(|&(outer, ..)| outer));
            let states = domain.and_then(|domain| domain.prop("domain-idle-states")).map(cells).into_iter().flatten();
            together.extend(states.filter_map(|handle| tree.by_handle(handle)).map(|state| state.name.as_str()));
        }
    }
    if !together.is_empty() {
        let list: Vec<&str> = together.into_iter().collect();
        note(facts, format!("idle states of several CPUs together are left out: {}", list.join(", ")));
    }
    let kinds = ["CPUs", "operating points", "idle states"].iter().zip(&names).filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = kinds
        .map(|(kind, names)| format!("{} of {kind}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")))
        .collect();
    if !parts.is_empty() {
        note(facts, format!("not read: {}", parts.join("; ")));
    }
}
