//! From [`Facts`] to a machine: what the source has is taken as it is, what it lacks is left out or filled from
//! a named default, and [`Imported`] lists both.
//!
//! CPUs are grouped into clusters: same package, same kind of core, same frequencies, idle states and CPPC registers.

use std::collections::{BTreeMap, BTreeSet};

use opplab_kernel::cpufreq::amd_pstate::AMD_PSTATE_TRANSITION_LATENCY_NS;
use opplab_kernel::cpufreq::driver::{DelayFacts, DriverKind};
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::intel_pstate::{EnergyPerfPreference, INTEL_CPUFREQ_TRANSITION_LATENCY_NS};
use opplab_kernel::release;
use opplab_model::cpus::format_cpu_list;
use opplab_model::file::{machine_to_toml, parse_machine};
use opplab_model::machine::{
    Cluster, Costs, CppcCaps, CpuPlace, Cpufreq, HwpCaps, IdleState, InvarianceSource, Machine, Opp, PolicyShare,
    Processor, TurboBin,
};
use opplab_model::range::{Bounds, Range};

use crate::error::ImportError;
use crate::facts::{CoreType, CpuFacts, Facts, PolicyFacts};
use crate::marks::{self, WAKE_PERMILLE, WORST_CASE_NS};
use crate::msr;

/// Step of the operating points that no file lists: the bus clock of Core and Xeon; assumed for CPPC.
const STEP_KHZ: u32 = 100_000;

/// Intel models (family 6) whose cores have one clock: Sandy and Ivy Bridge with their servers, then the clients of Haswell,
/// Broadwell, Skylake, Kaby, Coffee, Whiskey, Amber and Comet Lake, and Gemini and Jasper Lake. The servers from Haswell-EP on have one for each core.
const ONE_CLOCK: &[u32] =
    &[0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x45, 0x46, 0x3d, 0x47, 0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x7a, 0x9c];
const ONE_CLOCK_SOURCE: &str = "[S] by the model: all active cores share one frequency, the highest that one asks for \
     (Intel, Enhanced SpeedStep in the datasheets 328897, 337344 and of the Pentium Silver and Celeron, support article \
     000007073); a clock for each core came with Haswell-EP and is that of servers (D. Hackenberg and others, An Energy \
     Efficiency Feature Survey of the Intel Haswell Processor, 2015)";
/// Clients after them for which no source was read: Ice Lake, Tiger Lake, Rocket Lake.
const ONE_CLOCK_UNKNOWN: &[u32] = &[0x7d, 0x7e, 0x8c, 0x8d, 0xa7];

/// What a pause instruction takes, in cycles, by the processor, with the source.
const PAUSE_BEFORE_SKYLAKE: (u32, &str) = (
    10,
    "[S] by the model: about 10 cycles before Skylake (Intel, Optimization \
     Reference Manual, Pause Latency in Skylake Client Microarchitecture)",
);
const PAUSE_SKYLAKE: (u32, &str) = (
    140,
    "[S] by the model: as many as 140 cycles from Skylake on (Intel, Optimization \
     Reference Manual, Pause Latency in Skylake Client Microarchitecture); 43 ns measured on a Skylake-X (A. Kraus, 2018)",
);
const PAUSE_ZEN2: (u32, &str) =
    (65, "[S] by the model: 65 cycles on Zen 2 (A. Fog, Instruction tables); 90 measured on a Zen 4");
/// Intel models (family 6) of big cores before Skylake, from Nehalem on.
const BEFORE_SKYLAKE: &[u32] =
    &[0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f, 0x2a, 0x2d, 0x3a, 0x3e, 0x3c, 0x3f, 0x45, 0x46, 0x3d, 0x47, 0x4f, 0x56];
/// Those of small cores alone, from Silvermont and Knights Landing on.
const SMALL_CORES: &[u32] =
    &[0x37, 0x4a, 0x4c, 0x4d, 0x57, 0x5a, 0x5c, 0x5d, 0x5f, 0x7a, 0x85, 0x86, 0x96, 0x9c, 0xaf, 0xb6, 0xbe];

/// An imported machine and what it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The machine.
    pub machine: Machine,
    /// What the source lacks and nothing was put in its place.
    pub missing: Vec<String>,
    /// What the source lacks and was filled: (what, name of the default and its value).
    pub defaults: Vec<(String, String)>,
    /// What is noteworthy beside that.
    pub notes: Vec<String>,
}

/// Makes a machine of facts.
///
/// # Errors
/// If the facts name no CPU or contradict each other so that there is no machine.
pub fn to_machine(facts: &Facts) -> Result<Imported, ImportError> {
    if facts.cpus.is_empty() {
        return Err(ImportError::whole(&facts.source, "it names no CPU, so there is no machine in it"));
    }
    let mut maker =
        Maker { facts, missing: Vec::new(), defaults: Vec::new(), marks: Vec::new(), notes: facts.notes.clone() };
    let machine = maker.machine()?;
    // The reader of machine files is the judge of what a machine is.
    let checked = parse_machine(&facts.source, &machine_to_toml(&machine))
        .map_err(|error| ImportError::whole(&facts.source, format!("its contents do not make a machine ({error})")))?;
    Ok(Imported { machine: checked, missing: maker.missing, defaults: maker.defaults, notes: maker.notes })
}

/// What makes CPUs belong together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    package: u32,
    core_type: Option<CoreType>,
    /// The policy, if it is shared by more than a core.
    shared_policy: Option<u32>,
    capacity: Option<u32>,
    min_khz: Option<u32>,
    max_khz: Option<u32>,
    base_khz: Option<u32>,
    opps: Vec<(u32, u32, u64)>,
    idle: Vec<(String, u64, u64)>,
    cppc: Option<[u32; 5]>,
    efficiency_class: Option<u32>,
}

impl Kind {
    /// Whether a level of HWP is 100 MHz: on all but the big cores of hybrid processors (intel_pstate.c:hwp_get_cpu_scaling(),
    /// v6.12).
    fn has_levels_of_100_mhz(&self) -> bool {
        self.core_type != Some(CoreType::Core)
    }
}

struct Maker<'a> {
    facts: &'a Facts,
    missing: Vec<String>,
    defaults: Vec<(String, String)>,
    /// Numbers that are chosen among several facts: (key of the file, where the chosen one was read).
    marks: Vec<(String, String)>,
    notes: Vec<String>,
}

impl Maker<'_> {
    fn default(&mut self, what: &str, value: impl Into<String>) {
        if !self.defaults.iter().any(|(known, _)| known == what) {
            self.defaults.push((what.to_owned(), value.into()));
        }
    }

    fn missing(&mut self, what: &str) {
        if !self.missing.iter().any(|known| known == what) {
            self.missing.push(what.to_owned());
        }
    }

    /// Marks a number with the place of the fact that it was taken from; clusters may have several.
    fn mark(&mut self, key: &str, fact: &str) {
        let Some(place) = self.facts.place(fact) else { return };
        match self.marks.iter_mut().find(|(known, _)| known == key) {
            Some((_, places)) if !places.contains(place) => places.push_str(&format!("; {place}")),
            Some(_) => {}
            None => self.marks.push((key.to_owned(), format!("[S] {place}"))),
        }
    }

    fn policy_of(&self, cpu: u32) -> Option<&PolicyFacts> {
        self.facts.policies.values().find(|policy| policy.cpus.contains(&cpu))
    }

    fn is_x86(&self) -> bool {
        self.facts.processor.is_some()
    }

    fn machine(&mut self) -> Result<Machine, ImportError> {
        let facts = self.facts;
        let ids: Vec<u32> = facts.cpus.keys().copied().collect();
        let dense: BTreeMap<u32, u32> = (0..).zip(&ids).map(|(index, &cpu)| (cpu, index)).collect();
        if ids.last().is_some_and(|&last| last as usize >= ids.len()) {
            let list = format_cpu_list(&ids);
            self.notes.push(format!("online CPUs {list} are numbered 0-{} in the machine", ids.len() - 1));
        }
        let epps: BTreeSet<&str> = facts.policies.values().filter_map(|policy| policy.epp.as_deref()).collect();
        if !epps.is_empty() {
            let epps = Vec::from_iter(epps).join(", ");
            self.notes
                .push(format!("the source's EPP, {epps}, is a setting: a policy has it (`epp`), no machine file"));
        }
        let policy_at: BTreeMap<u32, u32> =
            facts.policies.values().flat_map(|policy| policy.cpus.iter().map(move |&cpu| (cpu, policy.id))).collect();

        let mut kinds: BTreeMap<Kind, Vec<u32>> = BTreeMap::new();
        for (&cpu, of_cpu) in &facts.cpus {
            let policy = policy_at.get(&cpu).and_then(|id| facts.policies.get(id));
            kinds.entry(self.kind(of_cpu, policy)).or_default().push(cpu);
        }
        // In the order of the first CPU.
        let mut groups: Vec<(Kind, Vec<u32>)> = kinds.into_iter().collect();
        groups.sort_by_key(|(_, cpus)| cpus[0]);
        let cluster_of: BTreeMap<u32, u32> =
            (0..).zip(&groups).flat_map(|(index, (_, cpus))| cpus.iter().map(move |&cpu| (cpu, index))).collect();

        let capacities = self.capacities(&groups);
        let (mut clusters, mut names) = (Vec::with_capacity(groups.len()), Vec::new());
        for (index, (kind, cpus)) in groups.iter().enumerate() {
            let name = cluster_name(facts, kind, index, &groups);
            names.push((name.clone(), cpus[0]));
            clusters.push(self.cluster(name, kind, cpus, capacities[index], &dense)?);
        }
        let bare: Vec<&str> = clusters.iter().filter(|one| !one.has_power()).map(|one| one.name.as_str()).collect();
        if !bare.is_empty() {
            let of = if bare.len() == clusters.len() { String::new() } else { format!(" of {}", bare.join(", ")) };
            self.missing(&format!(
                "power of the CPUs{of} at each OPP (simulated energy is unknown until `uw` is given)"
            ));
        }
        if clusters.iter().any(|cluster| cluster.idle.is_empty()) {
            self.missing("idle states");
        }
        if facts.package_power.is_none() && self.is_x86() {
            self.missing("package power limits (RAPL)");
        }
        if clusters.iter().all(|cluster| cluster.turbo.is_empty()) && self.is_x86() {
            self.missing("turbo frequencies by active cores");
        }

        let cpus = self.places(&cluster_of);
        let threads = facts.cpus.values().any(|cpu| cpu.core.as_ref().is_some_and(|core| core.len() > 1));
        let smt_yield = if threads {
            self.default("smt_yield", "smt-0.625: two busy threads do 1.25 times the work of one, assumed");
            640
        } else {
            1024
        };
        let smt_power = if threads {
            self.default("smt_power", "smt-power-1.1: a second busy thread adds a tenth to its core's power, assumed");
            102
        } else {
            1024
        };
        let nodes = cpus.iter().map(|place| place.node).max().map_or(1, |last| last as usize + 1);
        let numa_distance = facts.numa_distance.clone().filter(|rows| rows.len() == nodes).unwrap_or_else(|| {
            (0..nodes).map(|a| (0..nodes).map(|b| if a == b { 10 } else { 20 }).collect()).collect()
        });
        if nodes > 1 && !facts.knows("numa_distance") {
            self.default("numa_distance", "kernel: 10 within a node, 20 between nodes (include/linux/topology.h)");
        }
        let costs = self.costs();
        let cpufreq = self.driver();
        let turbo_freq_ratio = facts.turbo_freq_ratio();
        // Without a turbo ratio in the registers the kernel stays without invariance.
        use DriverKind as D;
        let of_x86 = matches!(cpufreq.driver.kind, D::Acpi | D::Amd(_) | D::IntelActive | D::IntelPassive);
        let is_x86 = self.is_x86() || of_x86 && facts.policies.values().any(|policy| policy.driver.is_some());
        let no_flags = is_x86 && facts.flags.is_empty();
        if no_flags && turbo_freq_ratio != Some(0) {
            self.default("invariance", "counters: the source has no flags of the CPUs (aperfmperf), assumed");
        }
        let has_counters = no_flags || facts.flags.iter().any(|flag| flag == "aperfmperf");
        let invariance = if has_counters && turbo_freq_ratio != Some(0) {
            InvarianceSource::CountersAtTick
        } else if !facts.scales_frequency || is_x86 {
            InvarianceSource::Absent
        } else {
            InvarianceSource::FreqChange
        };
        let turbo_freq_ratio = turbo_freq_ratio.and_then(|ratio| u32::try_from(ratio).ok()).unwrap_or(0);
        if turbo_freq_ratio != 0 {
            self.mark("turbo_freq_ratio", "msr.0x1ad");
        }
        let other_drivers = self.other_drivers(&cpufreq, &clusters);
        // Where the source lies is the user's business; the name of the file is enough.
        let tsc_khz = self.tsc_khz(&clusters);
        let package_clock = self.package_clock();
        let sets_itself =
            matches!(cpufreq.driver.kind, DriverKind::Amd(_)) || clusters.iter().any(|cluster| cluster.hwp.is_some());
        if self.is_x86() && sets_itself && facts.pm_profile.is_none() {
            self.missing(
                "the ACPI profile (pm_profile; taken as unspecified: by it drivers choose their default EPP and the boost after I/O)",
            );
        }
        let pause_cycles = self.pause_cycles();
        let short = self.source_name();
        let shorten = |(what, place): &(String, String)| (what.clone(), place.replace(&facts.source, short));
        let mut sources: Vec<(String, String)> =
            if facts.source == "/" { facts.told.clone() } else { facts.told.iter().map(shorten).collect() };
        sources.extend(self.marks.iter().map(|told| if facts.source == "/" { told.clone() } else { shorten(told) }));
        sources.extend(package_clock.then(|| ("package_clock".to_owned(), ONE_CLOCK_SOURCE.to_owned())));
        sources.extend(pause_cycles.map(|(_, source)| ("pause_cycles".to_owned(), source.to_owned())));
        sources.extend(self.defaults.iter().map(|(what, value)| (format!("default.{what}"), value.clone())));
        let mut machine = Machine {
            name: file_name(&facts.name),
            provenance: self.provenance(),
            cpus,
            clusters,
            numa_distance,
            cpufreq,
            other_drivers,
            invariance,
            costs,
            smt_yield,
            smt_power,
            package_clock,
            pause_cycles: pause_cycles.unwrap_or(PAUSE_BEFORE_SKYLAKE).0,
            tsc_khz,
            turbo_freq_ratio,
            pm_profile: facts.pm_profile.unwrap_or_default(),
            processor: facts.processor.clone(),
            package_power: facts.package_power,
            sources,
            ranges: self.power_ranges(&names),
            ..Machine::default()
        };
        marks::complete(&mut machine);
        Ok(machine)
    }

    /// How far the power of each cluster may be off, by what the source has of it.
    fn power_ranges(&self, clusters: &[(String, u32)]) -> Vec<Range> {
        let of_cluster = |(name, first): &(String, u32)| {
            let (low, high) = *self.facts.power_percent.get(&self.policy_of(*first)?.id)?;
            let bounds = Bounds::Percent(low, high);
            Some(Range { path: "cluster.opp.uw", cluster: Some(name.clone()), bounds })
        };
        clusters.iter().filter_map(of_cluster).collect()
    }

    fn provenance(&self) -> String {
        let facts = self.facts;
        let named = facts.processor.as_ref().filter(|processor| !processor.model_name.is_empty());
        let cpu = named.map_or(String::new(), |processor| format!("{}; ", processor.model_name));
        format!("{cpu}imported from {} {}", facts.kind.name(), self.source_name())
    }

    fn source_name(&self) -> &str {
        self.facts.source.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/")
    }

    fn kind(&self, of_cpu: &CpuFacts, policy: Option<&PolicyFacts>) -> Kind {
        let core = of_cpu.core.as_deref().unwrap_or(&[]);
        let shared = policy.filter(|policy| policy.cpus.len() > 1 && policy.cpus.iter().any(|cpu| !core.contains(cpu)));
        Kind {
            package: of_cpu.package.unwrap_or(0),
            core_type: of_cpu.core_type,
            shared_policy: shared.map(|policy| policy.id),
            capacity: of_cpu.capacity,
            min_khz: policy.and_then(|policy| policy.min_khz),
            max_khz: policy.and_then(|policy| policy.max_khz),
            base_khz: policy.and_then(|policy| policy.base_khz),
            opps: policy.map_or_else(Vec::new, |policy| {
                policy.opps.iter().map(|opp| (opp.khz, opp.uv, opp.power_uw)).collect()
            }),
            idle: of_cpu.idle.iter().map(|state| (state.name.clone(), state.latency_ns, state.residency_ns)).collect(),
            // HWP moves the most efficient level about, so it does not separate kinds of CPU.
            cppc: of_cpu.cppc.map(|cppc| {
                let caps = cppc.caps;
                [caps.highest_perf, caps.nominal_perf, caps.lowest_perf, caps.lowest_freq_mhz, caps.nominal_freq_mhz]
            }),
            efficiency_class: of_cpu.efficiency_class,
        }
    }

    /// Capacity of each group: as read; of a hybrid processor by highest performance; or all alike.
    fn capacities(&mut self, groups: &[(Kind, Vec<u32>)]) -> Vec<u32> {
        let told: Vec<u32> = groups.iter().filter_map(|(kind, _)| kind.capacity).filter(|&cap| cap > 0).collect();
        if told.len() == groups.len() {
            let max = told.iter().copied().max().unwrap_or(1024);
            if max != 1024 {
                self.notes.push(format!("capacities are scaled so that the biggest, {max}, is 1024"));
            }
            let scaled = told.iter().map(|&capacity| (u64::from(capacity) * 1024 / u64::from(max)) as u32);
            return scaled.map(|capacity| capacity.clamp(1, 1024)).collect();
        }
        let hybrid = groups.iter().any(|(kind, _)| kind.core_type != groups[0].0.core_type);
        let highest: Vec<u32> = groups.iter().filter_map(|(kind, cpus)| self.highest_perf(kind, cpus[0])).collect();
        if hybrid && highest.len() == groups.len() {
            let max = highest.iter().copied().max().unwrap_or(1).max(1);
            self.default(
                "cluster.capacity",
                "hybrid-by-highest-perf: 1024 * highest_perf / greatest highest_perf (intel_pstate.c, v6.12)",
            );
            let scaled = highest.iter().map(|&perf| (u64::from(perf) * 1024 / u64::from(max)) as u32);
            return scaled.map(|capacity| capacity.clamp(1, 1024)).collect();
        }
        // Without a processor's name it is a phone's or a board's, whose kinds of core differ; the same kind may be in several
        // packages and policies.
        let anywhere = |kind: &Kind| Kind { package: 0, shared_policy: None, ..kind.clone() };
        let differ = groups.iter().any(|(kind, _)| anywhere(kind) != anywhere(&groups[0].0));
        if hybrid || (self.facts.processor.is_none() && differ) {
            self.missing("capacity of the kinds of core (1024 for all)");
        }
        vec![1024; groups.len()]
    }

    /// The highest performance of a CPU, by CPPC or HWP.
    fn highest_perf(&self, kind: &Kind, cpu: u32) -> Option<u32> {
        let by_register = || msr::hwp_caps_of(self.facts, cpu).map(|caps| caps.highest);
        let by_clock = || kind.max_khz.filter(|_| kind.has_levels_of_100_mhz()).map(|khz| khz / STEP_KHZ);
        kind.cppc.map(|caps| caps[0]).or_else(by_register).or_else(by_clock)
    }

    fn cluster(
        &mut self,
        name: String,
        kind: &Kind,
        cpus: &[u32],
        capacity: u32,
        dense: &BTreeMap<u32, u32>,
    ) -> Result<Cluster, ImportError> {
        let facts = self.facts;
        let first = cpus[0];
        let of_cpu = &facts.cpus[&first];
        let policy = self.policy_of(first).cloned();
        let share = match &policy {
            Some(_) if kind.shared_policy.is_some() => PolicyShare::Shared,
            Some(policy) if policy.cpus.len() > 1 => PolicyShare::Core,
            Some(_) => PolicyShare::Cpu,
            None if self.is_x86() => {
                self.default("cluster.policy", "policy-per-cpu: one policy a CPU, as x86 drivers have");
                PolicyShare::Cpu
            }
            None => PolicyShare::Shared,
        };
        if let Some(policy) = &policy
            && let Some(domain) = policy.freqdomain.as_ref().filter(|domain| domain.len() > policy.cpus.len())
        {
            let list = format_cpu_list(domain);
            let note = format!("CPUs {list} have one clock (freqdomain_cpus) but policies of their own, and so on");
            if !self.notes.iter().any(|known| known.contains("freqdomain_cpus")) {
                self.notes.push(note);
            }
        }
        if let Some(policy) = policy.as_ref().filter(|policy| !policy.boost_khz.is_empty()) {
            let list: Vec<String> = policy.boost_khz.iter().map(|&khz| (f64::from(khz) / 1000.0).to_string()).collect();
            let is_on = policy.boost.or(facts.boost) == Some(true);
            let why = if is_on {
                "it is on: add them to `opp`"
            } else {
                "it is off by default: with it on, add them to `opp`"
            };
            self.notes.push(format!("{name}: boost's points, {} MHz, are left out; {why}", list.join(", ")));
        }
        let is_small = matches!(kind.core_type, Some(CoreType::Atom | CoreType::LowPower));
        let mut turbo = msr::turbo_of(facts, first);
        if !turbo.is_empty() {
            self.mark("cluster.turbo", if is_small { "msr.0x650" } else { "msr.0x1ad" });
        }
        let cppc = of_cpu.cppc.map(|cppc| cppc.caps);
        let base_khz = self.base_khz(first, is_small, policy.as_ref(), cppc);
        let max_khz = policy.as_ref().and_then(|policy| policy.max_khz).unwrap_or(0);
        // Small cores have bins of their own, in a register that most dumps lack.
        if is_small && turbo.is_empty() && max_khz != 0 {
            turbo.push(TurboBin { active_cores: 1, khz: max_khz });
            self.mark("cluster.turbo", "cpuinfo_max_freq");
        }
        // The P-state of acpi-cpufreq that stands for turbo is no clock of it.
        let p0_khz = policy.as_ref().and_then(acpi_p0_khz).unwrap_or(0);
        // Where boost has points of its own, software asks for them.
        let boosts_itself = policy.as_ref().is_none_or(|policy| policy.boost_khz.is_empty());
        if turbo.is_empty() && boosts_itself && base_khz != 0 && max_khz > base_khz && max_khz != p0_khz + 1000 {
            // All that is known is the frequency of a lone core.
            turbo.push(TurboBin { active_cores: 1, khz: max_khz });
            self.default(
                "cluster.turbo",
                "lone-core-only: cpuinfo_max_freq with one core active; what more cores get is unknown: they get the same, and no \
                 range or draw holds less",
            );
        }
        let is_base = base_khz != 0 && max_khz <= base_khz.max(p0_khz) + 1000;
        if turbo.is_empty() && boosts_itself && is_base && self.has_turbo(policy.as_ref()) {
            self.default(
                "cluster.turbo",
                "unknown: turbo or boost is there, its clocks are not: no run or draw has more than the base clock",
            );
        }
        let mut hwp = msr::hwp_caps_of(facts, first);
        if let Some(caps) = &mut hwp {
            self.mark("cluster.hwp", "msr.0x771");
            if let Some(epp) = self.epp_of_firmware(policy.as_ref(), first) {
                caps.balance_performance = epp;
                self.mark("cluster.hwp.balance_performance", "msr.0x774");
            }
        } else if let Some(policy) = policy.as_ref().filter(|policy| self.runs_hwp(policy)) {
            hwp = self.hwp_by_clock(kind, policy, base_khz, cppc);
        }
        if kind.efficiency_class.is_some() {
            self.mark("cluster.efficiency_class", "efficiency_class");
        }
        let opps = self.opps(cpus, policy.as_ref(), cppc, base_khz, &turbo)?;
        Ok(Cluster {
            name,
            cpus: cpus.iter().map(|cpu| dense[cpu]).collect(),
            capacity,
            policy: share,
            opps,
            boost_opps: Vec::new(),
            idle: self.idle(of_cpu, policy.as_ref()),
            cluster_idle: Vec::new(),
            cluster_idle_uw: None,
            efficiency_class: kind.efficiency_class.unwrap_or(0),
            cppc: cppc.filter(|caps| {
                caps.highest_perf > 0 && caps.lowest_perf <= caps.nominal_perf && caps.nominal_perf <= caps.highest_perf
            }),
            base_khz,
            turbo,
            hwp,
        })
    }

    /// Whether a processor of x86 can boost, on or off: acpi-cpufreq has its file `boost` on such processors only
    /// (acpi-cpufreq.c:acpi_cpufreq_boost_init(), v6.12).
    fn has_turbo(&self, policy: Option<&PolicyFacts>) -> bool {
        let stands = |policy: &PolicyFacts| policy.opps.last().map(|top| top.khz) != acpi_p0_khz(policy);
        let by_policy = policy.is_some_and(|policy| policy.boost.is_some() || stands(policy));
        let by_flags = self.facts.flags.iter().any(|flag| flag == "ida" || flag == "cpb");
        self.is_x86() && (self.facts.boost.is_some() || by_policy || by_flags)
    }

    /// Whether intel_pstate has hardware P-states on: it has these two files only then
    /// (intel_pstate.c:hwp_cpufreq_attrs, v6.12), and the register faults without them.
    fn runs_hwp(&self, policy: &PolicyFacts) -> bool {
        let kind = policy.driver.as_deref().and_then(DriverId::named).map(|driver| driver.kind);
        let is_intel = matches!(kind, Some(DriverKind::IntelActive | DriverKind::IntelPassive));
        let has_levels = self.facts.msr(msr::HWP_CAPABILITIES).is_some();
        is_intel && (policy.epp.is_some() || policy.base_khz.is_some() || has_levels)
    }

    /// HWP's levels where its register (0x771) is not known: by CPPC, which firmware takes from it, or in steps of 100 MHz,
    /// which the big cores of hybrid processors do not have. The guaranteed level is that of the base clock.
    fn hwp_by_clock(
        &mut self,
        kind: &Kind,
        policy: &PolicyFacts,
        base_khz: u32,
        cppc: Option<CppcCaps>,
    ) -> Option<HwpCaps> {
        let max_khz = policy.max_khz.filter(|&khz| khz > 0);
        let known = max_khz.filter(|_| base_khz > 0).and_then(|max_khz| {
            let (highest, most_efficient, lowest, words) = match cppc.filter(|caps| caps.highest_perf > 0) {
                Some(caps) => (
                    caps.highest_perf,
                    caps.lowest_nonlinear_perf,
                    caps.lowest_perf,
                    "levels-by-cppc: as acpi_cppc has them",
                ),
                None if kind.has_levels_of_100_mhz() => {
                    let least = policy.min_khz? / 100_000;
                    (
                        max_khz / 100_000,
                        least,
                        least,
                        "levels-by-clock: 100 MHz each, the most efficient and the lowest cpuinfo_min_freq",
                    )
                }
                None => return None,
            };
            let guaranteed = (u64::from(base_khz) * u64::from(highest) + u64::from(max_khz) / 2) / u64::from(max_khz);
            let caps =
                HwpCaps { highest, guaranteed: guaranteed as u32, most_efficient, lowest, balance_performance: 0 };
            (highest <= 255 && caps.guaranteed <= highest).then_some((caps, words))
        });
        match known {
            Some((caps, words)) => {
                let words =
                    format!("{words}, and the guaranteed one by the base clock, as register 0x771 is not known");
                self.default("cluster.hwp", words);
                Some(caps)
            }
            None => {
                let whose = kind.core_type.map_or(String::new(), |core_type| format!(" of {} cores", core_type.name()));
                self.missing(&format!("levels of hardware P-states{whose} (HWP, register 0x771): simulated without HWP and its preferences"));
                None
            }
        }
    }

    /// The EPP that sysfs calls `balance_performance`, where it is not the number that the dump's kernel has for the
    /// model: firmware chose it.
    fn epp_of_firmware(&self, policy: Option<&PolicyFacts>, cpu: u32) -> Option<u32> {
        policy?.epp.as_deref().filter(|&name| name == "balance_performance")?;
        let epp = msr::epp_of(self.facts, cpu)?;
        let model = self.facts.processor.as_ref().filter(|processor| processor.family == 6)?.model;
        let words = self.facts.kernel.as_deref().unwrap_or("").split_ascii_whitespace();
        let version = words.filter_map(release::parse).map(|release| release.version).next();
        let by_kernel = version.map(|version| EnergyPerfPreference::of_model(-1, model, version).epp_values[2]);
        (epp != 0 && by_kernel != Some(epp)).then_some(epp)
    }

    /// The highest frequency without turbo: by cpufreq, the registers, the table, intel_pstate's share of turbo, CPPC or the
    /// processor's name, in this order; 0 where none has it.
    fn base_khz(&mut self, cpu: u32, is_small: bool, policy: Option<&PolicyFacts>, cppc: Option<CppcCaps>) -> u32 {
        if let Some(khz) = policy.and_then(|policy| policy.base_khz) {
            self.mark("cluster.base_khz", "base_khz");
            return khz;
        }
        // The registers are of the big cores, whatever CPU they are read on.
        let by_register = match is_small {
            true => self.facts.cpus.keys().find_map(|&other| msr::base_khz(self.facts, other)),
            false => msr::base_khz(self.facts, cpu),
        };
        if let Some((khz, address)) = by_register {
            if !is_small {
                self.mark("cluster.base_khz", &format!("msr.{address:#x}"));
                return khz;
            }
            self.default(
                "cluster.base_khz",
                "small-cores-0.73: of small cores 0.73 of the big ones', as on Alder and Raptor Lake (0.71 to 0.75), assumed",
            );
            return (u64::from(khz) * 73 / 100 + 50_000) as u32 / STEP_KHZ * STEP_KHZ;
        }
        if let Some(p0) = policy.and_then(acpi_p0_khz) {
            self.mark("cluster.base_khz", "opps");
            return p0;
        }
        let pstate = policy.filter(|policy| policy.driver.as_deref().is_some_and(|name| name.starts_with("intel_")));
        let min_khz = pstate.and_then(|policy| policy.min_khz);
        if let Some(khz) = min_khz.zip(self.facts.turbo_pct).and_then(|(min, pct)| base_of_turbo_pct(min, pct)) {
            self.mark("cluster.base_khz", "turbo_pct");
            return khz;
        }
        if let Some(caps) = cppc.filter(|caps| caps.nominal_freq_mhz != 0) {
            self.mark("cluster.base_khz", "cppc");
            return caps.nominal_freq_mhz.saturating_mul(1000);
        }
        let named = self.facts.processor.as_ref().and_then(|processor| named_khz(&processor.model_name));
        if let Some(khz) = named.filter(|_| pstate.is_some()) {
            self.default("cluster.base_khz", "model-name: the frequency in the processor's name");
            return khz;
        }
        if pstate.is_some() {
            self.missing("the base frequency (base_khz; f_max and the frequency scale count from it)");
        }
        0
    }

    /// Whether all cores have one clock, by the model; of an Intel client of which that is not known it is missing.
    fn package_clock(&mut self) -> bool {
        let intel = |processor: &&Processor| processor.vendor == "GenuineIntel" && processor.family == 6;
        let model = self.facts.processor.as_ref().filter(intel).map_or(0, |processor| processor.model);
        if ONE_CLOCK_UNKNOWN.contains(&model) {
            self.missing("whether all cores have one clock (package_clock; taken as a clock for each core)");
        }
        ONE_CLOCK.contains(&model)
    }

    /// What a pause instruction takes, in cycles.
    fn pause_cycles(&mut self) -> Option<(u32, &'static str)> {
        let of = |&Processor { ref vendor, family, model, .. }: &Processor| match vendor.as_str() {
            "GenuineIntel" if family == 6 && BEFORE_SKYLAKE.contains(&model) => Some(PAUSE_BEFORE_SKYLAKE),
            "GenuineIntel" if family > 6 || (model >= 0x4e && !SMALL_CORES.contains(&model)) => Some(PAUSE_SKYLAKE),
            "AuthenticAMD" if family > 0x17 || (family == 0x17 && model >= 0x30) => Some(PAUSE_ZEN2),
            _ => None,
        };
        let known = self.facts.processor.as_ref().and_then(of);
        if known.is_none() && self.is_x86() {
            self.default("pause_cycles", "pause-10: ten cycles, as of cores before Skylake, assumed");
        }
        known
    }

    /// The same where `clusters[0]` has another base clock: what its firmware guarantees.
    fn tsc_khz(&mut self, clusters: &[Cluster]) -> u32 {
        let first = self.facts.cpus.keys().next();
        let khz = first.and_then(|&cpu| msr::platform_info_khz(self.facts, cpu)).unwrap_or(0);
        if khz == 0 || clusters.first().is_none_or(|first| [0, khz].contains(&first.base_khz)) {
            return 0;
        }
        self.mark("tsc_khz", "msr.0xce");
        khz
    }

    fn opps(
        &mut self,
        cpus: &[u32],
        policy: Option<&PolicyFacts>,
        cppc: Option<CppcCaps>,
        base_khz: u32,
        turbo: &[TurboBin],
    ) -> Result<Vec<Opp>, ImportError> {
        let plain =
            |khz: u32| Opp { khz, mv: 0, power_uw: 0, busy_uw: 0, cluster_uw: 0, idle_uw: None, cluster_idle_uw: None };
        if let Some(policy) = policy.filter(|policy| !policy.opps.is_empty()) {
            let told = policy.opps.iter().map(|opp| {
                let point = self.facts.power.iter().find(|point| point.policy == policy.id && point.khz == opp.khz);
                Opp {
                    khz: opp.khz,
                    mv: opp.uv / 1000,
                    power_uw: opp.power_uw,
                    busy_uw: opp.power_uw,
                    cluster_uw: point.map_or(0, |point| point.static_uw),
                    idle_uw: point.map(|point| point.idle0_uw),
                    cluster_idle_uw: None,
                }
            });
            return Ok(told.filter(|opp| opp.khz != 0).collect());
        }
        let lone = turbo.iter().map(|bin| bin.khz).max().unwrap_or(base_khz);
        let min = policy.and_then(|policy| policy.min_khz).unwrap_or(0);
        let max = policy.and_then(|policy| policy.max_khz).unwrap_or(lone);
        // The clock of an instant stands for a machine without cpufreq only, not for a cpufreq that reports 0.
        let told_0 = policy.is_some_and(|policy| policy.max_khz == Some(0));
        if let Some(khz) = self.facts.cpu_mhz_khz.filter(|_| max == 0 && !told_0) {
            self.default("cluster.opp", "cpu-mhz: one frequency, `cpu MHz` of /proc/cpuinfo, as there is no cpufreq");
            return Ok(vec![plain(khz)]);
        }
        if max == 0 {
            let instead = "tables of operating points alone make a machine, with --clusters";
            let whose = match cpus.len() == self.facts.cpus.len() {
                true => "any CPU".to_owned(),
                false => format!("CPUs {}", format_cpu_list(cpus)),
            };
            return Err(ImportError::whole(
                &self.facts.source,
                format!("it has no frequency of {whose} (firmware may have them); {instead}"),
            ));
        }
        let driver = policy.and_then(|policy| policy.driver.as_deref()).and_then(DriverId::named);
        let mut khz: Vec<u32> = Vec::new();
        if matches!(driver.map(|driver| driver.kind), Some(DriverKind::Cppc | DriverKind::Amd(_))) {
            // Performance levels are continuous: steps stand for what is between the named ones.
            khz.extend([min, max, base_khz]);
            if let Some(caps) = cppc.filter(|caps| caps.nominal_perf != 0) {
                let nonlinear =
                    u64::from(base_khz) * u64::from(caps.lowest_nonlinear_perf) / u64::from(caps.nominal_perf);
                khz.push(nonlinear as u32);
            }
            self.default(
                "cluster.opp",
                "cppc-levels: lowest, lowest nonlinear, nominal and highest performance, and every 100 MHz between",
            );
            khz.extend((min / STEP_KHZ + 1..=max / STEP_KHZ).map(|step| step * STEP_KHZ).filter(|_| min != 0));
        } else {
            if min == 0 {
                self.missing("the lowest frequency");
            }
            let low = if min == 0 { max } else { min };
            khz.extend((low..=max).step_by(STEP_KHZ as usize));
            khz.push(max);
            self.default("cluster.opp", "ratio-steps: every 100 MHz from cpuinfo_min_freq to cpuinfo_max_freq");
        }
        khz.retain(|&khz| khz != 0 && khz >= min && khz <= max);
        khz.sort_unstable();
        khz.dedup();
        Ok(khz.into_iter().map(plain).collect())
    }

    fn idle(&mut self, of_cpu: &CpuFacts, policy: Option<&PolicyFacts>) -> Vec<IdleState> {
        let point = policy.and_then(|policy| self.facts.power.iter().find(|point| point.policy == policy.id)).copied();
        let mut states: Vec<IdleState> = Vec::new();
        let mut deepest_ns = 0;
        for (index, state) in of_cpu.idle.iter().enumerate() {
            if state.disabled {
                let note = format!("idle state {} is disabled and left out", state.name);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                continue;
            }
            if state.residency_ns < deepest_ns {
                let note = format!("idle state {} has a shorter target residency than the one before", state.name);
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
            deepest_ns = deepest_ns.max(state.residency_ns);
            // Device trees and intel_idle's tables have the worst case, for the governor to be safe with.
            let worst_case = state.latency_ns >= WORST_CASE_NS;
            if worst_case {
                let why =
                    "wake-share: 0.3 of the told exit latency, which is the worst case, where that is 100 us or more";
                self.default("cluster.idle.wake", why);
            }
            states.push(IdleState {
                name: state.name.clone(),
                entry_latency_ns: state.entry_latency_ns,
                exit_latency_ns: state.latency_ns,
                wake_ns: worst_case.then_some(state.latency_ns * WAKE_PERMILLE / 1000),
                target_residency_ns: deepest_ns,
                power_uw: match (point, index) {
                    (Some(point), 0) => point.idle0_uw,
                    (Some(point), _) => point.idle1_uw,
                    (None, _) => 0,
                },
            });
        }
        if !states.is_empty() && point.is_none() {
            self.missing("power of the idle states");
        }
        states
    }

    fn places(&mut self, cluster_of: &BTreeMap<u32, u32>) -> Vec<CpuPlace> {
        let facts = self.facts;
        for (what, known) in [
            ("topology.core", facts.knows("core")),
            ("topology.llc", facts.knows("llc")),
            ("topology.node", facts.knows("node")),
            ("topology.package", facts.knows("package")),
        ] {
            if !known {
                let value = match what {
                    "topology.core" => "core-per-cpu: no SMT",
                    "topology.llc" => "llc-per-package: one last-level cache a package",
                    "topology.node" => "one-node",
                    _ => "one-package",
                };
                self.default(what, value);
            }
        }
        // Groups are given as lists; the first CPU of a list names it.
        let mut dense: [BTreeMap<u32, u32>; 4] = Default::default();
        let mut place = |level: usize, key: u32| {
            let next = dense[level].len() as u32;
            *dense[level].entry(key).or_insert(next)
        };
        let first = |list: &Option<Vec<u32>>, other: u32| {
            list.as_ref()
                .and_then(|list| list.iter().copied().find(|cpu| facts.cpus.contains_key(cpu)))
                .unwrap_or(other)
        };
        facts
            .cpus
            .iter()
            .map(|(&cpu, of_cpu)| CpuPlace {
                cluster: cluster_of[&cpu],
                core: place(0, first(&of_cpu.core, cpu)),
                llc: if facts.knows("llc") {
                    place(1, first(&of_cpu.llc, cpu))
                } else {
                    // As the kernel takes it (drivers/base/arch_topology.c:cpu_coregroup_mask(), v6.12).
                    place(1, u32::MAX - of_cpu.package.unwrap_or(0))
                },
                node: place(2, of_cpu.node.unwrap_or(0)),
                package: place(3, of_cpu.package.unwrap_or(0)),
            })
            .collect()
    }

    fn costs(&mut self) -> Costs {
        if self.is_x86() {
            self.default("costs", "costs-x86: orders of magnitude of a 2-4 GHz core, assumed");
            Costs { context_switch_ns: 1_000, wakeup_ns: 500, ipi_ns: 500, tick_ns: 1_000, sugov_work_ns: 10_000 }
        } else {
            self.default("costs", "costs-arm: as juno-r2, assumed");
            Costs { context_switch_ns: 2_000, wakeup_ns: 1_000, ipi_ns: 1_000, tick_ns: 2_000, sugov_work_ns: 20_000 }
        }
    }

    fn driver(&mut self) -> Cpufreq {
        let facts = self.facts;
        let told = facts.driver().unwrap_or("");
        let entry = DriverId::named(told).unwrap_or_else(|| {
            let vendor = facts.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
            // Intel's own driver shows no table of frequencies.
            let has_table = facts.policies.values().any(|policy| !policy.opps.is_empty());
            let name = match vendor {
                "GenuineIntel" if !has_table => "intel_pstate",
                "" => "cpufreq-dt",
                _ => "acpi-cpufreq",
            };
            let why = match told {
                "" => "no driver is named".to_owned(),
                told => format!("the source's driver {told} is not modelled"),
            };
            self.default("driver.name", format!("driver-by-vendor: {name} ({why})"));
            DriverId::named(name).expect("a driver of the registry")
        });
        let mut latencies: Vec<Option<u64>> =
            facts.policies.values().map(|policy| policy.transition_latency_ns).collect();
        latencies.sort_unstable();
        latencies.dedup();
        let longest = latencies.last().copied().flatten();
        if let (Some(ns), true) = (longest, latencies.len() > 1) {
            let us = ns as f64 / 1000.0;
            self.notes.push(format!("the policies' transition latencies differ; all have the longest, {us} us"));
        }
        let transition_latency_ns = longest.unwrap_or_else(|| {
            let mut why = String::from("latency-0: the source has none");
            if entry.zero_is_unknown {
                why += "; the driver then reports CPUFREQ_ETERNAL, from v6.18 on 1 ms (gate unknown_latency)";
            }
            self.default("driver.transition_latency", why);
            0
        });
        let shared = facts.policies.values().any(|policy| policy.cpus.len() > 1);
        self.default("driver.fast_switch", "by-driver: as the driver's source in v6.12 does on usual hardware");
        let hwp = facts.flags.iter().any(|flag| flag == "hwp");
        let transition_delay_us = (entry.transition_delay_us)(&DelayFacts { transition_latency_ns, hwp });
        let mut driver = cpufreq(entry, shared, transition_latency_ns, transition_delay_us);
        driver.fast_switch &= self.has_request_register(entry);
        driver
    }

    /// Whether requests of `driver` go to a register: AMD's older processors share memory with the firmware instead, which no
    /// fast switch can reach (amd-pstate.c:amd_pstate_cpu_init(), v6.12). Without any flags nothing is known against it.
    fn has_request_register(&self, driver: DriverId) -> bool {
        let flags = &self.facts.flags;
        !matches!(driver.kind, DriverKind::Amd(_)) || flags.is_empty() || flags.iter().any(|flag| flag == "cppc")
    }

    /// Intel's and AMD's drivers have modes on the same hardware, of which the source ran one.
    fn other_drivers(&mut self, own: &Cpufreq, clusters: &[Cluster]) -> Vec<Cpufreq> {
        let mut others = Vec::new();
        let hwp = clusters.iter().any(|cluster| cluster.hwp.is_some());
        let has_register = DriverId::named("amd-pstate").is_some_and(|driver| self.has_request_register(driver));
        let mut add = |driver: &str, transition_latency_ns: u64| {
            if let Some(entry) = DriverId::named(driver).filter(|entry| *entry != own.driver) {
                let delay_us = (entry.transition_delay_us)(&DelayFacts { transition_latency_ns, hwp });
                let mut other = cpufreq(entry, false, transition_latency_ns, delay_us);
                other.fast_switch &= has_register || !matches!(entry.kind, DriverKind::Amd(_));
                others.push(other);
            }
        };
        if matches!(own.driver.kind, DriverKind::IntelActive | DriverKind::IntelPassive) {
            add("intel_pstate", 0);
            // As the dumps in passive mode show it too.
            add("intel_cpufreq", INTEL_CPUFREQ_TRANSITION_LATENCY_NS.into());
        }
        let vendor = self.facts.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
        let has_cppc = clusters.iter().any(|cluster| cluster.cppc.is_some());
        // Firmware with CPPC registers lets amd-pstate take over from acpi-cpufreq.
        let is_amd = matches!(own.driver.kind, DriverKind::Amd(_))
            || (own.driver.kind == DriverKind::Acpi && vendor == "AuthenticAMD" && has_cppc);
        if is_amd {
            add("amd-pstate", AMD_PSTATE_TRANSITION_LATENCY_NS.into());
            add("amd-pstate-epp", 0);
            add("amd-pstate-guided", AMD_PSTATE_TRANSITION_LATENCY_NS.into());
        }
        if !others.is_empty() {
            let modes = if is_amd { "amd" } else { "intel" };
            self.default("driver.other", format!("{modes}-modes: the driver's other mode on the same hardware"));
        }
        others
    }
}

/// What a driver does by its source.
fn cpufreq(entry: DriverId, shared: bool, transition_latency_ns: u64, transition_delay_us: u32) -> Cpufreq {
    Cpufreq {
        driver: entry,
        transition_latency_ns,
        transition_delay_us,
        fast_switch: entry.switches_fast(shared),
        switch_ns: transition_latency_ns,
        switch_quantiles: Vec::new(),
        dvfs_possible_from_any_cpu: entry.any_cpu,
        freq_table: entry.table.is_some(),
    }
}

/// acpi-cpufreq's P0. Firmware of Intel appends a P-state 1 MHz above the base frequency that stands for turbo.
pub(crate) fn acpi_p0_khz(policy: &PolicyFacts) -> Option<u32> {
    let top = policy.opps.last()?.khz;
    let below = policy.opps.len().checked_sub(2).map(|index| policy.opps[index].khz);
    Some(match below {
        Some(below) if below + 1000 == top => below,
        _ => top,
    })
}

fn cluster_name(facts: &Facts, kind: &Kind, index: usize, groups: &[(Kind, Vec<u32>)]) -> String {
    let one_package = groups.iter().all(|(other, _)| other.package == kind.package);
    let mut name = match (kind.core_type, facts.processor.is_some()) {
        (Some(core_type), _) if one_package => core_type.name().to_owned(),
        (Some(core_type), _) => format!("pkg{}-{}", kind.package, core_type.name()),
        (None, true) => format!("pkg{}", kind.package),
        (None, false) => format!("cluster{index}"),
    };
    let base = |other: &Kind| (other.package, other.core_type);
    if groups.iter().filter(|(other, _)| base(other) == base(kind)).count() > 1 && facts.processor.is_some() {
        name.push_str(&format!("-{index}"));
    }
    name
}

/// A name that is a file name too.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}

/// The highest frequency without turbo, in kHz, by intel_pstate's `turbo_pct`: what is no turbo of `num_pstates` levels of
/// 100 MHz from the lowest on. `None` where several levels have that share (intel_pstate.c:show_turbo_pct(), v6.12).
fn base_of_turbo_pct(min_khz: u32, (turbo_pct, num_pstates): (u32, u32)) -> Option<u32> {
    let share = |levels: u64| 100 - ((((levels << 8) / u64::from(num_pstates)) * 100) >> 8);
    let mut found = (1..=u64::from(num_pstates.min(255))).filter(|&levels| share(levels) == u64::from(turbo_pct));
    let levels = found.next().filter(|_| found.next().is_none())?;
    min_khz.checked_add(u32::try_from(levels - 1).ok()?.checked_mul(100_000)?)
}

/// The frequency in an Intel processor's name, in kHz: `... @ 2.60GHz`.
fn named_khz(model_name: &str) -> Option<u32> {
    let (_, clock) = model_name.rsplit_once('@')?;
    let ghz: f64 = clock.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (0.1..=10.0).contains(&ghz).then(|| (ghz * 1e3).round() as u32 * 1000)
}
