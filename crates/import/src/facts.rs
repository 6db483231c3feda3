//! What a source has about a machine, before anything is made of it.
//!
//! Everything is optional: a turbostat header knows no topology, a device tree knows no turbo. [`Facts::told`] lists
//! where each kind of fact was read; [`crate::machine`] makes a machine of it and reports what is missing.

use std::collections::BTreeMap;

use opplab_kernel::freq_invariance::{FreqRatio, IntelMsrs, IntelTurboModel, arch_max_freq_ratio};
use opplab_model::cpus::CpuList;
use opplab_model::machine::{CppcCaps, PackagePower, PmProfile, Processor};

/// What kind of source it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A dump as the pepc project's tests have them (tar.xz of inline sysfs values, /proc and MSRs).
    Dump,
    /// A copied `/sys` and `/proc` tree, or the live host.
    Tree,
    /// One text with a `path: value|` a line.
    Snapshot,
    /// turbostat's header and table.
    Turbostat,
    /// The kernel's `energy_model` debugfs folder.
    EnergyModel,
    /// A flattened device tree.
    DeviceTree,
    /// LISA's `plat_info.yml`.
    PlatInfo,
    /// Perfetto Wattson's power curves.
    Wattson,
}

impl SourceKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dump => "machine dump",
            Self::Tree => "/sys tree",
            Self::Snapshot => "sysfs snapshot",
            Self::Turbostat => "turbostat log",
            Self::EnergyModel => "energy_model debugfs",
            Self::DeviceTree => "device tree",
            Self::PlatInfo => "LISA plat_info",
            Self::Wattson => "Wattson power curves",
        }
    }
}

/// Kinds of core of a hybrid processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreType {
    /// `cpu_core`: the big cores.
    Core,
    /// `cpu_atom`: the small cores.
    Atom,
    /// `cpu_lowpower`: the small cores outside the main die.
    LowPower,
}

impl CoreType {
    /// Its name, as perf's event source is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Atom => "atom",
            Self::LowPower => "lowpower",
        }
    }
}

/// An idle state as cpuidle shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleFacts {
    /// `POLL`, `C1E`, `cpu-sleep-0`, ...
    pub name: String,
    /// Time to enter in ns, where the source has it apart.
    pub entry_latency_ns: u64,
    /// Exit latency in ns.
    pub latency_ns: u64,
    /// Target residency in ns.
    pub residency_ns: u64,
    /// Switched off by the user or by default.
    pub disabled: bool,
}

/// CPPC as `acpi_cppc/` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CppcFacts {
    /// The registers that machine files keep.
    pub caps: CppcCaps,
    /// Level at which the reference counter counts.
    pub reference_perf: Option<u32>,
}

/// One CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuFacts {
    /// CPUs of its core.
    pub core: Option<CpuList>,
    /// CPUs that share its last-level cache.
    pub llc: Option<CpuList>,
    /// CPUs of its cluster, by a device tree or the ACPI PPTT.
    pub cluster: Option<CpuList>,
    /// NUMA node.
    pub node: Option<u32>,
    /// Physical package.
    pub package: Option<u32>,
    /// `cpu_capacity`, or its like.
    pub capacity: Option<u32>,
    /// A device tree's `capacity-dmips-mhz`.
    pub dmips_mhz: Option<u32>,
    /// Kind of core.
    pub core_type: Option<CoreType>,
    /// CPPC.
    pub cppc: Option<CppcFacts>,
    /// Idle states, shallowest first.
    pub idle: Vec<IdleFacts>,
    /// Model-specific registers by address.
    pub msrs: BTreeMap<u32, u64>,
    /// Energy/performance bias, 0..15.
    pub epb: Option<u64>,
    /// ACPI power efficiency class.
    pub efficiency_class: Option<u32>,
}

/// One operating point of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OppFacts {
    /// Frequency in kHz.
    pub khz: u32,
    /// Voltage in uV; 0 if unknown.
    pub uv: u32,
    /// Power of one busy CPU in uW; 0 if unknown.
    pub power_uw: u64,
    /// Cost, as the kernel's energy model shows it; 0 if unknown.
    pub cost: u64,
    /// The kernel marked it inefficient.
    pub inefficient: bool,
}

/// One cpufreq policy, or what takes its place (a frequency domain, a performance domain).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFacts {
    /// Number in its name, the policy's first CPU.
    pub id: u32,
    /// `related_cpus`.
    pub cpus: CpuList,
    /// `freqdomain_cpus`: CPUs whose clock really is one.
    pub freqdomain: Option<CpuList>,
    /// `scaling_driver`.
    pub driver: Option<String>,
    /// `scaling_governor`.
    pub governor: Option<String>,
    /// `scaling_available_governors`.
    pub governors: Vec<String>,
    /// `cpuinfo_min_freq`.
    pub min_khz: Option<u32>,
    /// `cpuinfo_max_freq`.
    pub max_khz: Option<u32>,
    /// `scaling_min_freq`.
    pub scaling_min_khz: Option<u32>,
    /// `scaling_max_freq`.
    pub scaling_max_khz: Option<u32>,
    /// `base_frequency`.
    pub base_khz: Option<u32>,
    /// `cpuinfo_transition_latency`; `None` where the driver has CPUFREQ_ETERNAL.
    pub transition_latency_ns: Option<u64>,
    /// The table of frequencies or operating points, ascending.
    pub opps: Vec<OppFacts>,
    /// `scaling_boost_frequencies`, ascending.
    pub boost_khz: Vec<u32>,
    /// `boost` or `cpb`: whether boost is on.
    pub boost: Option<bool>,
    /// `energy_performance_preference`.
    pub epp: Option<String>,
    /// Flags of its performance domain in the kernel's energy model.
    pub em_flags: Option<u32>,
}

/// Power that a source measured or modelled for a policy's idle and static parts, in uW.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerPoint {
    /// Number of the policy.
    pub policy: u32,
    /// Frequency in kHz.
    pub khz: u32,
    /// Drawn whatever the CPUs do.
    pub static_uw: u64,
    /// One busy CPU.
    pub active_uw: u64,
    /// One CPU in the first idle state.
    pub idle0_uw: u64,
    /// One CPU in the second idle state.
    pub idle1_uw: u64,
}

/// The facts of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the machine: the source's file name without its ending, unless the source names it.
    pub name: String,
    /// Kind of source.
    pub kind: SourceKind,
    /// The source, as the caller named it.
    pub source: String,
    /// The processor.
    pub processor: Option<Processor>,
    /// The kernel's version line.
    pub kernel: Option<String>,
    /// CPU flags that matter: `aperfmperf`, `hwp`, ...
    pub flags: Vec<String>,
    /// Whether the architecture has a frequency scale at all.
    pub scales_frequency: bool,
    /// The first CPU's `cpu MHz` in /proc/cpuinfo, in kHz: all that there is on a machine without cpufreq.
    pub cpu_mhz_khz: Option<u32>,
    /// CPUs that are online.
    pub cpus: BTreeMap<u32, CpuFacts>,
    /// Policies by number.
    pub policies: BTreeMap<u32, PolicyFacts>,
    /// `intel_pstate/status` or `amd_pstate/status`.
    pub pstate_status: Option<String>,
    /// `intel_pstate/no_turbo`.
    pub no_turbo: Option<bool>,
    /// `intel_pstate/turbo_pct` and `intel_pstate/num_pstates`.
    pub turbo_pct: Option<(u32, u32)>,
    /// `intel_pstate/hwp_dynamic_boost`.
    pub hwp_dynamic_boost: Option<bool>,
    /// The ACPI preferred power management profile.
    pub pm_profile: Option<PmProfile>,
    /// `cpufreq/boost`.
    pub boost: Option<bool>,
    /// schedutil's `rate_limit_us`, if the global or the first policy's file is there.
    pub rate_limit_us: Option<u64>,
    /// `cpuidle/current_driver`.
    pub idle_driver: Option<String>,
    /// `cpuidle/current_governor`.
    pub idle_governor: Option<String>,
    /// Uncore frequency range in kHz.
    pub uncore_khz: Option<(u32, u32)>,
    /// RAPL limits of a package.
    pub package_power: Option<PackagePower>,
    /// Distances between nodes.
    pub numa_distance: Option<Vec<Vec<u32>>>,
    /// Power curves.
    pub power: Vec<PowerPoint>,
    /// By policy: how far its power may be off by what the source has and the curve does not depend on, in percent.
    pub power_percent: BTreeMap<u32, (u32, u32)>,
    /// Where each kind of fact was read, in the order in which it was.
    pub told: Vec<(String, String)>,
    /// What in the source contradicts itself or cannot be used, without being fatal.
    pub notes: Vec<String>,
}

impl Facts {
    /// Nothing read yet.
    pub fn new(name: &str, kind: SourceKind, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            source: source.to_owned(),
            processor: None,
            kernel: None,
            flags: Vec::new(),
            scales_frequency: true,
            cpu_mhz_khz: None,
            cpus: BTreeMap::new(),
            policies: BTreeMap::new(),
            pstate_status: None,
            no_turbo: None,
            turbo_pct: None,
            hwp_dynamic_boost: None,
            pm_profile: None,
            boost: None,
            rate_limit_us: None,
            idle_driver: None,
            idle_governor: None,
            uncore_khz: None,
            package_power: None,
            numa_distance: None,
            power: Vec::new(),
            power_percent: BTreeMap::new(),
            told: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes where a kind of fact was read; the first place stays.
    pub(crate) fn tell(&mut self, what: &str, place: impl Into<String>) {
        if !self.knows(what) {
            self.told.push((what.to_owned(), place.into()));
        }
    }

    /// Notes another place where a kind of fact was read.
    pub(crate) fn tell_too(&mut self, what: &str, place: &str) {
        match self.told.iter_mut().find(|(told, _)| told == what) {
            Some((_, places)) => places.push_str(&format!("; {place}")),
            None => self.told.push((what.to_owned(), place.to_owned())),
        }
    }

    /// Whether a kind of fact was read.
    pub fn knows(&self, what: &str) -> bool {
        self.told.iter().any(|(told, _)| told == what)
    }

    /// Where a kind of fact was read.
    pub fn place(&self, what: &str) -> Option<&str> {
        self.told.iter().find(|(told, _)| told == what).map(|(_, place)| place.as_str())
    }

    /// Gives operating points, (CPU, kHz, uV) measured by `place`, to policies whose frequencies the source lacks: firmware
    /// has them.
    pub fn add_points(&mut self, place: &str, points: &[(u32, u32, u32)]) {
        let mut given = false;
        for policy in self.policies.values_mut().filter(|policy| policy.opps.is_empty() && policy.max_khz.is_none()) {
            let own = points.iter().filter(|(cpu, khz, _)| policy.cpus.contains(cpu) && *khz != 0);
            policy.opps = own.map(|&(_, khz, uv)| OppFacts { khz, uv, ..OppFacts::default() }).collect();
            policy.opps.sort_by_key(|opp| (opp.khz, std::cmp::Reverse(opp.uv)));
            policy.opps.dedup_by_key(|opp| opp.khz);
            policy.min_khz = policy.opps.first().map(|opp| opp.khz);
            policy.max_khz = policy.opps.last().map(|opp| opp.khz);
            given |= policy.max_khz.is_some();
        }
        if given {
            self.tell("opps", place);
            self.capacities_by_dmips();
        }
    }

    /// `capacity-dmips-mhz` times the highest frequency without boost, scaled so that the biggest CPU has 1024
    /// (drivers/base/arch_topology.c:topology_normalize_cpu_scale(), v6.12). Nothing is known where a CPU lacks the first, or
    /// some CPUs the second.
    pub(crate) fn capacities_by_dmips(&mut self) {
        let of_points = |policy: &PolicyFacts| policy.max_khz.is_some();
        if self.policies.values().any(of_points) && !self.policies.values().all(of_points) {
            // What is in the tree does not compare those with points and those without.
            return;
        }
        let raw = self.cpus.iter().map(|(cpu, of_cpu)| {
            let policy = self.policies.values().find(|policy| policy.cpus.contains(cpu));
            // Without operating points all count alike, as in the kernel before the first policy.
            u64::from(of_cpu.dmips_mhz.unwrap_or(0)) * policy.and_then(|policy| policy.max_khz).map_or(1, u64::from)
        });
        let raw: Vec<u64> = raw.collect();
        let max = raw.iter().copied().max().unwrap_or(0);
        if max == 0 || raw.contains(&0) {
            return;
        }
        for (of_cpu, raw) in self.cpus.values_mut().zip(raw) {
            of_cpu.capacity = Some((u128::from(raw) * 1024 / u128::from(max)) as u32);
        }
        self.tell("capacity", "/cpus/cpu@*: capacity-dmips-mhz * highest frequency without boost");
    }

    /// A register of the first CPU that has it, as the kernel reads it on the boot CPU.
    pub fn msr(&self, address: u32) -> Option<u64> {
        self.cpus.values().find_map(|cpu| cpu.msrs.get(&address).copied())
    }

    /// The registers from which kernels compute f_max. Registers that the source does not have count as faulting.
    pub fn intel_msrs(&self) -> IntelMsrs {
        IntelMsrs {
            misc_enable: self.msr(0x1a0),
            atom_core_ratios: self.msr(0x66a),
            atom_core_turbo_ratios: self.msr(0x66c),
            platform_info: self.msr(0xce),
            turbo_ratio_limit: self.msr(0x1ad),
            turbo_ratio_limit1: self.msr(0x1ae),
        }
    }

    /// f_max over the clock of MPERF that kernels form at boot of the registers of an Intel processor, in 1/1024; 0: they
    /// find none and stay without invariance. `None` where the source lacks the registers.
    pub fn turbo_freq_ratio(&self) -> Option<FreqRatio> {
        let processor = self.processor.as_ref().filter(|processor| processor.vendor == "GenuineIntel")?;
        let msrs = self.intel_msrs();
        let by_core = msrs.platform_info.is_some() && msrs.turbo_ratio_limit.is_some();
        let by_atom = msrs.atom_core_ratios.is_some() && msrs.atom_core_turbo_ratios.is_some();
        (by_core || by_atom).then(|| {
            let turbo = msrs.turbo_freq_ratio(IntelTurboModel::of(processor.model));
            turbo.map_or(0, |turbo| arch_max_freq_ratio(turbo, msrs.turbo_disabled()))
        })
    }

    /// The driver of the first policy.
    pub fn driver(&self) -> Option<&str> {
        self.policies.values().find_map(|policy| policy.driver.as_deref())
    }

    /// How many cores of the kind of `cpu` its package has; 0 if the CPU is unknown.
    pub fn cores_like(&self, cpu: u32) -> u32 {
        let Some(of_cpu) = self.cpus.get(&cpu) else { return 0 };
        let alike = |other: &CpuFacts| other.package == of_cpu.package && other.core_type == of_cpu.core_type;
        let mut firsts: Vec<u32> = self
            .cpus
            .iter()
            .filter(|(_, other)| alike(other))
            .map(|(&cpu, other)| other.core.as_ref().and_then(|core| core.first().copied()).unwrap_or(cpu))
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts.len() as u32
    }
}
