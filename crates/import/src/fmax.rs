//! What is f_max here, and what would each choice do?
//!
//! Every candidate is given in kHz and as the kernel's ratio to the base frequency in 1/1024; for each kernel profile
//! the report names the one that kernel takes on this processor and from which register or CPPC field, for each
//! candidate the frequency scale at base and at turbo, and where schedutil tips.
//!
//! Integer arithmetic throughout, by the functions of crate `kernel`. Not here: estimates that move while the machine
//! runs (RAPL, recent past), which have no number before a run.

use opplab_kernel::cpufreq::acpi_cpufreq::acpi_max_boost_khz as max_boost_khz;
use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::schedutil::sugov_effective_cpu_perf;
use opplab_kernel::freq_invariance::{
    CPPC_HIGHEST_PERF_PERFORMANCE, FreqMax, FreqMaxFacts, FreqMaxOf, IntelMsrs, IntelTurboModel, TurboLevel, midpoint,
    scale_freq_tick,
};
use opplab_kernel::freq_max::{BaseInstead, FreqMaxRule, FreqMaxSources, NoFreqMax};
use opplab_kernel::profile::{AmdHighestPerf, KernelProfile, PROFILES, Platform};
use opplab_kernel::release::Version;
use opplab_model::governor::cpuinfo_max_khz;
use opplab_model::machine::{Cluster, CppcCaps, InvarianceSource, Machine, Processor, TurboBin};
use opplab_model::tree::Node;
use opplab_model::{node_of_fields, node_table};

use crate::facts::Facts;
use crate::machine::{Imported, acpi_p0_khz};
use crate::msr::{self, TurboForm, turbo_form};

/// What f_max depends on, of a dump or of a machine file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FmaxInput {
    /// The machine's name.
    pub name: String,
    /// The processor; `None`: not x86, or unknown.
    pub processor: Option<Processor>,
    /// What f_max of the boot CPU is made of.
    pub sources: FreqMaxSources,
    /// Turbo bins of the boot CPU.
    pub turbo: Vec<TurboBin>,
    /// Registers, if the source has any.
    pub msrs: Option<IntelMsrs>,
    /// CPPC of each CPU; empty without CPPC.
    pub cppc: Vec<CppcCaps>,
    /// Whether the CPPC limits are abstract on this machine and the table's P0 in kHz, under acpi-cpufreq.
    pub p0_khz: Option<u32>,
    /// `cpuinfo_max_freq` of the boot CPU's policy, kHz; 0 if unknown.
    pub cpuinfo_max_khz: u32,
    /// What schedutil goes by on each cluster; the boot CPU's is among them.
    pub clusters: Vec<ClusterFacts>,
    /// Driver.
    pub driver: String,
    /// Turbo switched off by the user.
    pub no_turbo: bool,
    /// Why no kernel is frequency invariant here.
    pub no_invariance: Option<&'static str>,
    /// Base frequency that cpufreq shows, where it differs from what MPERF counts at, kHz.
    pub base_frequency_khz: Option<u32>,
    /// Kinds of core: (name, base kHz, highest kHz), more than one on a hybrid processor.
    pub kinds: Vec<(String, u32, u32)>,
}

/// What schedutil goes by on a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// The cluster's name.
    pub name: String,
    /// Capacity that the scheduler has for its CPUs, 1..=1024.
    pub capacity: u32,
    /// The frequency that a full CPU asks for, before headroom, kHz (schedutil's f_ref); 0 if unknown.
    pub reference_khz: u32,
    /// Highest frequency without turbo, kHz.
    pub base_khz: u32,
    /// Frequencies of its policies, ascending.
    pub opps_khz: Vec<u32>,
    /// Turbo bins.
    pub turbo_khz: Vec<u32>,
}

/// The kernel whose schedutil the report is about.
const SCHEDUTIL: Version = (6, 12);

impl FmaxInput {
    /// Whether the frequency scale follows the driver's changes, as on other architectures than x86.
    pub(crate) fn follows_changes(&self) -> bool {
        self.processor.is_none() && self.no_invariance.is_none()
    }

    /// Of a dump or another source.
    pub fn of_facts(facts: &Facts, imported: &Imported) -> Self {
        let mut input = Self::of_machine(&imported.machine);
        let first = facts.cpus.keys().next().copied().unwrap_or(0);
        let policy = facts.policies.values().find(|policy| policy.cpus.contains(&first));
        if let Some(khz) = facts.cpus.keys().find_map(|&cpu| msr::platform_info_khz(facts, cpu)) {
            input.sources.base_khz = khz;
        } else if input.platform() == Platform::Intel && imported.machine.clusters[0].base_khz == 0 {
            // The machine's highest frequency may be turbo.
            input.sources.base_khz = 0;
        }
        input.msrs = facts.msr(msr::TURBO_RATIO_LIMIT).or(facts.msr(msr::PLATFORM_INFO)).map(|_| facts.intel_msrs());
        input.cppc = facts.cpus.values().filter_map(|cpu| cpu.cppc.map(|cppc| cppc.caps)).collect();
        input.sources.cppc = input.cppc.first().map(|caps| (caps.highest_perf, caps.nominal_perf));
        input.sources.highest_perfs = input.cppc.iter().map(|caps| caps.highest_perf).collect();
        input.driver = facts.driver().unwrap_or(&input.driver).to_owned();
        input.no_turbo = facts.no_turbo.unwrap_or(false) || facts.boost == Some(false);
        if facts.turbo_freq_ratio() == Some(0) {
            input.no_invariance = Some("base or turbo ratio is 0 in the registers: no invariance");
        }
        if let Some(policy) = policy {
            input.cpuinfo_max_khz = policy.max_khz.unwrap_or(input.cpuinfo_max_khz);
            input.base_frequency_khz = policy.base_khz;
            input.p0_khz = acpi_p0_khz(policy);
        }
        if imported.machine.invariance != InvarianceSource::FreqChange {
            for (shown, cluster) in input.clusters.iter_mut().zip(&imported.machine.clusters) {
                let own = facts.policies.values().find(|policy| policy.cpus.contains(&cluster.cpus[0]));
                shown.reference_khz = own.and_then(|policy| policy.max_khz).unwrap_or(shown.reference_khz);
            }
        }
        input
    }

    /// Of a machine file, under the machine's own driver.
    pub fn of_machine(machine: &Machine) -> Self {
        Self::under(machine, machine.cpufreq.driver, false)
    }

    /// Of a machine file, under one of its drivers, with turbo or without.
    pub fn under(machine: &Machine, driver: DriverId, no_turbo: bool) -> Self {
        let cluster = machine.cluster_of(0);
        let sources = machine.freq_max_sources(cluster, machine.has_smt());
        let base_khz = sources.base_khz;
        let p0_khz = (driver.kind == DriverKind::Acpi).then_some(base_khz);
        let mut kinds: Vec<(String, u32, u32)> = Vec::new();
        for other in &machine.clusters {
            let lone = other.turbo.first().map_or(0, |bin| bin.khz);
            let highest = other.opps.last().map_or(0, |opp| opp.khz).max(lone);
            if !kinds.iter().any(|(_, base, known)| (*base, *known) == (other.base_khz, highest)) {
                kinds.push((other.name.clone(), other.base_khz, highest));
            }
        }
        let cppc: Vec<CppcCaps> =
            (0..machine.nr_cpus() as u32).filter_map(|cpu| machine.cluster_of(cpu).cppc).collect();
        let profile = KernelProfile::at(SCHEDUTIL);
        let hardware_max = |of: &Cluster| cpuinfo_max_khz(machine, &driver, (&profile, no_turbo), of);
        let each_cpu = sources.freq_max_of(&profile, driver.kind) == FreqMaxOf::EachCpu;
        let clusters = machine.clusters.iter().map(|of| ClusterFacts {
            name: of.name.clone(),
            capacity: if each_cpu { of.capacity } else { 1024 },
            // x86 has no arch_scale_freq_ref(): the hardware's maximum counts.
            reference_khz: match machine.invariance {
                InvarianceSource::FreqChange => of.reference_khz(),
                InvarianceSource::CountersAtTick | InvarianceSource::Absent => hardware_max(of),
            },
            base_khz: of.reference_khz(),
            opps_khz: of.opps.iter().map(|opp| opp.khz).collect(),
            turbo_khz: of.turbo.iter().map(|bin| bin.khz).collect(),
        });
        let clusters = clusters.collect();
        Self {
            name: machine.name.clone(),
            processor: machine.processor.clone(),
            sources,
            turbo: cluster.turbo.clone(),
            msrs: None,
            cppc,
            p0_khz,
            cpuinfo_max_khz: hardware_max(cluster),
            clusters,
            driver: driver.name.to_owned(),
            no_turbo,
            no_invariance: (machine.invariance == InvarianceSource::Absent).then_some(match machine.processor {
                Some(_) => "the processor has no APERF and MPERF (flag aperfmperf)",
                None => "the architecture has no frequency scale (arch_scale_freq_capacity())",
            }),
            base_frequency_khz: (machine.tsc_khz != 0).then_some(cluster.base_khz).filter(|&khz| khz != 0),
            kinds,
        }
    }

    fn platform(&self) -> Platform {
        self.sources.platform
    }

    /// Whether kernels take the turbo of one core from its registers.
    fn reads_one_core(&self) -> bool {
        let by_atom = |msrs: IntelMsrs| msrs.atom_core_ratios.is_some() && msrs.atom_core_turbo_ratios.is_some();
        IntelTurboModel::of(self.sources.family_model.1) == IntelTurboModel::Glm || self.msrs.is_some_and(by_atom)
    }

    /// Each policy's own f_max where drivers report changes: clusters that have the same stand together.
    fn own_highest(&self) -> Vec<(String, u32)> {
        let mut own: Vec<(String, u32)> = Vec::new();
        for cluster in self.clusters.iter().filter(|cluster| cluster.reference_khz != 0) {
            match own.iter_mut().find(|(_, khz)| *khz == cluster.reference_khz) {
                Some((names, _)) => names.push_str(&format!(", {}", cluster.name)),
                None => own.push((cluster.name.clone(), cluster.reference_khz)),
            }
        }
        own
    }

    fn driver_kind(&self) -> DriverKind {
        DriverId::named(&self.driver).map_or(DriverKind::FirmwareTable, |driver| driver.kind)
    }
}

/// What acpi-cpufreq may call `cpuinfo_max_freq` of a CPU with `caps` on an AMD machine whose CPUs have `cppc`, the newest
/// kernel's first: each way in which a kernel counts the highest performance, with and without CPPC's nominal frequency.
pub fn acpi_max_khz(p0_khz: u32, processor: Option<&Processor>, caps: &CppcCaps, cppc: &[CppcCaps]) -> Vec<u32> {
    let all: Vec<u32> = cppc.iter().map(|caps| caps.highest_perf).collect();
    let family_model = processor.map_or((0, 0), |processor| (processor.family, processor.model));
    let form = |amd_highest_perf: AmdHighestPerf| KernelProfile { amd_highest_perf, ..KernelProfile::at(SCHEDUTIL) };
    let forms = [AmdHighestPerf::AllCpus, AmdHighestPerf::Model, AmdHighestPerf::Register].map(form);
    let highest = forms.iter().map(|profile| profile.amd_boost_numerator(caps.highest_perf, &all, family_model));
    let khz = highest.flat_map(|highest| {
        [caps.nominal_freq_mhz, 0].map(|mhz| max_boost_khz(p0_khz, mhz, highest, caps.nominal_perf).unwrap_or(p0_khz))
    });
    khz.collect()
}

/// A candidate for f_max.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// `max_P`, `mid`, `max_boost`, `turbo-1-core`, ... as policy files name it.
    pub name: String,
    /// f_max, kHz.
    pub khz: u32,
    /// f_max / f_base in 1/1024.
    pub ratio: u64,
    /// Where the number comes from.
    pub source: String,
    /// Frequency scale (1024 = f_max) of a CPU that is busy at the base frequency.
    pub scale_at_base: u64,
    /// The same at the highest turbo frequency; `None` where no turbo frequency of an x86 machine is known.
    pub scale_at_turbo: Option<u64>,
}

/// What one kernel takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelChoice {
    /// The profile's name.
    pub kernel: &'static str,
    /// The ratio in use; `None`: not frequency invariant.
    pub ratio: Option<u64>,
    /// f_max, kHz.
    pub khz: Option<u32>,
    /// Name of the candidate that this is, if it is one.
    pub candidate: Option<String>,
    /// Which register or field, which model list.
    pub why: String,
}

/// A frequency and the utilisation above which schedutil asks for more; without invariance, of a CPU that runs at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TippingPoint {
    /// The clusters on which that holds, by name.
    pub clusters: String,
    /// The frequency, kHz.
    pub khz: u32,
    /// The capacity of its CPUs, which their utilisation does not exceed.
    pub capacity: u32,
    /// The lowest utilisation (of the capacity) for which schedutil asks for more than that; `None`: it never does.
    pub util: Option<u64>,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FmaxReport {
    /// What it is about.
    pub input: FmaxInput,
    /// Every candidate.
    pub candidates: Vec<Candidate>,
    /// What each kernel profile takes.
    pub kernels: Vec<KernelChoice>,
    /// Where schedutil (6.12) tips, by cluster and frequency; clusters that are alike stand together.
    pub tipping: Vec<TippingPoint>,
    /// What to beware of.
    pub warnings: Vec<String>,
    /// What the numbers mean where two of them look alike.
    pub explanations: Vec<String>,
}

/// Computes the report. `published` are turbo bins of the same processor from another source, such as the catalogue,
/// with that source's name.
pub fn fmax(input: &FmaxInput, published: Option<(&str, &[TurboBin])>) -> FmaxReport {
    let mut report = FmaxReport {
        input: input.clone(),
        candidates: Vec::new(),
        kernels: Vec::new(),
        tipping: Vec::new(),
        warnings: Vec::new(),
        explanations: Vec::new(),
    };
    if input.sources.base_khz == 0 {
        report.warnings.push("the base frequency is missing, so there is no ratio".to_owned());
        return report;
    }
    candidates(&mut report, published);
    kernels(&mut report);
    tipping(&mut report);
    warnings(&mut report);
    report
}

fn push(report: &mut FmaxReport, name: &str, khz: u32, ratio: u64, source: String) {
    let input = &report.input;
    let base = u64::from(input.sources.base_khz);
    let own = (input.platform() == Platform::Arm).then_some(input.sources.base_khz);
    let turbo_khz = input.turbo.iter().map(|bin| bin.khz.max(input.sources.base_khz)).max().or(own);
    let scale = |khz: u32| scale_freq_tick(u64::from(khz), base, ratio).unwrap_or(1024);
    report.candidates.push(Candidate {
        name: name.to_owned(),
        khz,
        ratio,
        source,
        scale_at_base: scale(input.sources.base_khz),
        scale_at_turbo: turbo_khz.map(scale),
    });
}

/// Whether the kernel whose schedutil the report is about is frequency invariant here.
fn is_invariant(report: &FmaxReport) -> bool {
    kernel(report, "", SCHEDUTIL).ratio.is_some() || report.input.follows_changes()
}

/// What schedutil (6.12) asks for at a utilisation of `capacity`, before the frequency table.
fn asks_khz(reference_khz: u32, util: u64, capacity: u32) -> u32 {
    let capacity = u64::from(capacity.max(1));
    (u64::from(reference_khz) * sugov_effective_cpu_perf(util, 0, capacity) / capacity) as u32
}

fn candidates(report: &mut FmaxReport, published: Option<(&str, &[TurboBin])>) {
    let input = report.input.clone();
    let base = input.sources.base_khz;
    let by_cppc = input.platform() == Platform::Amd && !input.cppc.is_empty();
    let base_source = match (by_cppc, &input.msrs) {
        (_, Some(msrs)) if msrs.platform_info.is_some() => "MSR_PLATFORM_INFO (0xce) bits 15:8".to_owned(),
        (true, _) => "P0 of the frequency table (CPPC nominal_perf)".to_owned(),
        _ if input.base_frequency_khz.is_some_and(|shown| shown != base) => "tsc_khz of the machine file".to_owned(),
        _ => "base frequency".to_owned(),
    };
    push(report, FreqMax::MaxP.name(), base, 1024, base_source);
    if input.platform() == Platform::Arm {
        for (name, khz) in input.own_highest().into_iter().filter(|&(_, khz)| khz != base) {
            report.candidates.push(Candidate {
                name: format!("{} of {name}", FreqMax::MaxP.name()),
                khz,
                ratio: 1024,
                source: "its policy's highest frequency".to_owned(),
                scale_at_base: 1024,
                scale_at_turbo: Some(1024),
            });
        }
    }
    if by_cppc {
        let caps = &input.cppc[0];
        let of = |ratio: u64| ((u64::from(base) * ratio) >> 10) as u32;
        let boost = (u64::from(caps.highest_perf) * 1024).checked_div(u64::from(caps.nominal_perf)).unwrap_or(1024);
        let fraction = format!("CPPC highest_perf {} / nominal_perf {}", caps.highest_perf, caps.nominal_perf);
        push(report, FreqMax::Mid.name(), of(midpoint(boost)), midpoint(boost), format!("({fraction} + 1) / 2"));
        push(report, FreqMax::MaxBoost.name(), of(boost), boost, fraction);
    }
    // Turbo bins, of the source itself or published elsewhere.
    let told: &[TurboBin] = &input.turbo;
    let from_cpuinfo = by_cppc && told.len() == 1 && told[0].khz == input.cpuinfo_max_khz;
    let (bins, whose) = match published {
        Some((name, bins)) if told.is_empty() || from_cpuinfo => (bins, format!(", as published ({name})")),
        _ => (if from_cpuinfo { &[] } else { told }, String::new()),
    };
    let levels: Vec<TurboLevel> =
        bins.iter().map(|bin| TurboLevel { active_cores: bin.active_cores, freq_khz: bin.khz }).collect();
    let facts = FreqMaxFacts { base_khz: base, turbo: &levels, n_cores: input.sources.n_cores };
    let variants: &[FreqMax] = if by_cppc {
        &[FreqMax::Mid, FreqMax::MaxBoost]
    } else {
        &[FreqMax::Mid, FreqMax::MaxBoost, FreqMax::Turbo1Core, FreqMax::Turbo4Cores, FreqMax::TurboAllCores]
    };
    if levels.is_empty() {
        return;
    }
    let last = levels.last().map_or(0, |level| level.active_cores);
    for &variant in variants {
        let Some(ratio) = variant.ratio(&facts) else { continue };
        let khz = variant.freq_khz(&facts);
        let name = if by_cppc { format!("{} (MHz)", variant.name()) } else { variant.name().to_owned() };
        let mut source = match variant {
            FreqMax::Mid => format!("({} + {}) / 2 MHz", base / 1000, FreqMax::MaxBoost.freq_khz(&facts) / 1000),
            FreqMax::MaxBoost => "highest turbo bin".to_owned(),
            FreqMax::Turbo1Core => "turbo bin of 1 core".to_owned(),
            FreqMax::Turbo4Cores => format!("turbo bin of {} cores", 4.min(input.sources.n_cores.max(1))),
            _ => format!("turbo bin of {} cores", input.sources.n_cores),
        };
        let cores = match variant {
            FreqMax::Turbo4Cores => 4.min(input.sources.n_cores.max(1)),
            FreqMax::TurboAllCores => input.sources.n_cores,
            _ => 1,
        };
        source.push_str(&upper_bound(last, cores));
        source.push_str(&whose);
        push(report, &name, khz, ratio, source);
    }
    // The bin that the registers' ratio is, where no name has it yet.
    let taken = input.sources.turbo_freq_ratio.filter(|_| !by_cppc);
    let as_bin = |level: &&TurboLevel| u64::from(level.freq_khz) * 1024 / u64::from(base) == taken.unwrap_or(0);
    if let (Some(ratio), Some(level)) = (taken, levels.iter().find(as_bin))
        && !report.candidates.iter().any(|candidate| candidate.ratio == ratio)
    {
        let cores = level.active_cores;
        push(report, &format!("turbo-{cores}-cores"), level.freq_khz, ratio, format!("turbo bin of {cores} cores"));
    }
    if by_cppc
        && let (Some(abstract_boost), Some(mhz_boost)) = (
            report.candidates.iter().find(|candidate| candidate.name == FreqMax::MaxBoost.name()),
            report.candidates.iter().find(|candidate| candidate.name == "max_boost (MHz)"),
        )
        && abstract_boost.khz != mhz_boost.khz
    {
        let caps = &input.cppc[0];
        report.explanations.push(format!(
            "the kernel never sees {} MHz: it has highest_perf {} and nominal_perf {}, steps of {} MHz, so that \
             {} * 1024 / {} = {} and {} kHz * {} >> 10 = {} kHz; the midpoint is ({} + 1024) >> 1 = {}, {} kHz, where \
             the published frequencies give {} MHz",
            mhz_boost.khz / 1000,
            caps.highest_perf,
            caps.nominal_perf,
            format_args!(
                "{}.{:02}",
                base / 1000 / caps.nominal_perf.max(1),
                base / 10 / caps.nominal_perf.max(1) % 100
            ),
            caps.highest_perf,
            caps.nominal_perf,
            abstract_boost.ratio,
            base,
            abstract_boost.ratio,
            abstract_boost.khz,
            abstract_boost.ratio,
            midpoint(abstract_boost.ratio),
            (u64::from(base) * midpoint(abstract_boost.ratio)) >> 10,
            (base / 1000 + mhz_boost.khz / 1000) / 2,
        ));
    }
}

fn kernels(report: &mut FmaxReport) {
    let choices: Vec<KernelChoice> = PROFILES
        .iter()
        .filter(|(.., point)| *point == 0)
        .map(|&(name, version, _)| kernel(report, name, version))
        .collect();
    report.kernels = choices;
}

fn kernel(report: &FmaxReport, name: &'static str, version: Version) -> KernelChoice {
    let input = &report.input;
    let platform = input.platform();
    // By name: Android's is not mainline's.
    let profile = KernelProfile::named(name).unwrap_or_else(|| KernelProfile::at(version));
    let none = |why: String| KernelChoice { kernel: name, ratio: None, khz: None, candidate: None, why };
    if !profile.freq_invariant(platform) {
        let (whose, since) = match platform {
            Platform::Arm => ("such CPUs", "4.15"),
            Platform::Intel => ("this vendor", "5.7"),
            Platform::Amd => ("this vendor", "5.11"),
        };
        return none(format!("no frequency invariance on {whose} before {since}: the scale is always 1024"));
    }
    if input.follows_changes() {
        let mut why = "not x86: the driver reports each change, relative to the policy's highest frequency".to_owned();
        let own = input.own_highest();
        if own.len() > 1 {
            let list: Vec<String> = own.iter().map(|(name, khz)| format!("{name} {} MHz", khz / 1000)).collect();
            why.push_str(&format!(": {}; here the boot CPU's", list.join(", ")));
        }
        let khz = Some(input.cpuinfo_max_khz).filter(|&khz| khz != 0);
        let ratio = khz.and_then(|khz| (u64::from(khz) * 1024).checked_div(u64::from(input.sources.base_khz)));
        return KernelChoice { kernel: name, ratio, khz, candidate: candidate_of(report, ratio, ""), why };
    }
    if let Some(why) = input.no_invariance {
        return none(why.to_owned());
    }
    let taken = match input.sources.taken(&profile, input.driver_kind(), input.no_turbo) {
        Ok(taken) => taken,
        Err(NoFreqMax::NoCppc) => return none("no CPPC capabilities (acpi_cppc): no invariance".to_owned()),
        Err(NoFreqMax::NoBase) => return none("the base frequency is missing: no invariance".to_owned()),
    };
    let mut why = why_of(input, &profile, taken.rule);
    match taken.instead {
        Some(BaseInstead::NoTurbo) => why = format!("turbo is off, so the base frequency; with turbo: {why}"),
        Some(BaseInstead::NoBoost) => {
            why = format!(
                "acpi-cpufreq finds no boost frequency, so the base frequency (arch_set_max_freq_ratio()); with another \
                 driver: {why}"
            );
        }
        None if input.msrs.is_some_and(|msrs| msrs.turbo_disabled()) => {
            why = format!("turbo is off, so the base frequency; with turbo: {why}");
        }
        None => {}
    }
    let khz = (u64::from(input.sources.base_khz) * taken.ratio) >> 10;
    let named = match (taken.instead, taken.rule) {
        (None, FreqMaxRule::Levels(level)) => level.name(),
        (None, FreqMaxRule::Registers) if input.reads_one_core() => FreqMax::Turbo1Core.name(),
        (None, FreqMaxRule::OwnHighest) => FreqMax::MaxBoost.name(),
        _ => "",
    };
    KernelChoice {
        kernel: name,
        ratio: Some(taken.ratio),
        khz: u32::try_from(khz).ok(),
        candidate: candidate_of(report, Some(taken.ratio), named),
        why,
    }
}

/// The name of the candidate with that ratio: `named` if it is that one, else the kernel's own names first.
fn candidate_of(report: &FmaxReport, ratio: Option<u64>, named: &str) -> Option<String> {
    let preferred = [named, FreqMax::Turbo4Cores.name(), FreqMax::Mid.name(), FreqMax::MaxP.name()];
    let with = |name: &str| report.candidates.iter().find(|c| c.name == name && Some(c.ratio) == ratio);
    let first = preferred.iter().find_map(|name| with(name));
    first.or_else(|| report.candidates.iter().find(|c| Some(c.ratio) == ratio)).map(|c| c.name.clone())
}

/// What a turbo frequency of some cores is where the bins are known up to fewer, in words.
fn upper_bound(known: u32, cores: u32) -> String {
    if cores > known { format!("; known only up to {known}, so an upper bound") } else { String::new() }
}

/// From what a kernel has its f_max, in words.
fn why_of(input: &FmaxInput, profile: &KernelProfile, rule: FreqMaxRule) -> String {
    let base_khz = input.sources.base_khz;
    match rule {
        FreqMaxRule::Reported => "the driver reports each change".to_owned(),
        FreqMaxRule::Midpoint(highest_perf) => why_midpoint(input, profile, highest_perf),
        FreqMaxRule::OwnHighest => {
            let kinds: Vec<String> =
                input.kinds.iter().map(|(name, _, max)| format!("{name} {} MHz", max / 1000)).collect();
            format!("no SMT: each CPU its own highest clock (arch_set_cpu_capacity()): {}", kinds.join(", "))
        }
        FreqMaxRule::Levels(_) if input.turbo.is_empty() => {
            "no turbo frequency is known, so the base frequency".to_owned()
        }
        FreqMaxRule::Levels(level) => {
            let known = input.turbo.last().map_or(0, |bin| bin.active_cores);
            let needed = if level == FreqMax::Turbo4Cores { 4.min(input.sources.n_cores.max(1)) } else { 1 };
            format!(
                "{} of the turbo bins, as the registers are not known: {} MHz / base {} MHz{}",
                level.name(),
                level.freq_khz(&input.sources.levels()) / 1000,
                base_khz / 1000,
                upper_bound(known, needed)
            )
        }
        FreqMaxRule::Registers => match &input.msrs {
            Some(msrs) => why_registers(input, msrs),
            None => "turbo_freq_ratio of the machine file, formed of the registers".to_owned(),
        },
    }
}

fn why_registers(input: &FmaxInput, msrs: &IntelMsrs) -> String {
    let model = input.sources.family_model.1;
    let kind = IntelTurboModel::of(model);
    let base = msrs.platform_info.map_or(0, |info| (info >> 8) & 0xff);
    let limit = msrs.turbo_ratio_limit.unwrap_or(0);
    if msrs.atom_core_ratios.is_some() && msrs.atom_core_turbo_ratios.is_some() {
        return "MSR_ATOM_CORE_TURBO_RATIOS (0x66c) / MSR_ATOM_CORE_RATIOS (0x66a): turbo of one core".to_owned();
    }
    let byte = |shift: u64| (limit >> shift) & 0xff;
    match kind {
        IntelTurboModel::Skx => {
            let counts = msrs.turbo_ratio_limit1.unwrap_or(0);
            match (0..8u64).find(|index| (counts >> (8 * index)) & 0xff >= 4) {
                Some(index) => format!(
                    "model {model:#x} is on the Skylake-X list: first group of 0x1ae with at least 4 cores is byte \
                     {index} ({}), 0x1ad byte {index} = {} / 0xce base {base}",
                    (counts >> (8 * index)) & 0xff,
                    byte(8 * index)
                ),
                None => format!(
                    "model {model:#x} is on the Skylake-X list, but no group of 0x1ae has 4 cores: 0x1ad byte 3 = {} / \
                     0xce base {base}",
                    byte(24)
                ),
            }
        }
        IntelTurboModel::Glm => {
            format!("model {model:#x} is on the Goldmont list: first group of 0x1ad = {} / 0xce base {base}", byte(0))
        }
        IntelTurboModel::Knl => {
            format!(
                "model {model:#x} is on the Knights Landing list: start {} less the first difference / 0xce base {base}",
                byte(8)
            )
        }
        IntelTurboModel::Other if byte(24) == 0 => {
            format!(
                "model {model:#x} is on no list: 0x1ad byte 3 (4 cores) is 0, so byte 0 = {} / 0xce base {base}",
                byte(0)
            )
        }
        IntelTurboModel::Other => {
            format!(
                "model {model:#x} is on no list: 0x1ad byte 3 (taken for 4 cores) = {} / 0xce base {base}",
                byte(24)
            )
        }
    }
}

fn why_midpoint(input: &FmaxInput, profile: &KernelProfile, highest_perf: u64) -> String {
    let nominal = input.sources.cppc.map_or(0, |(_, nominal_perf)| nominal_perf);
    let (family, model) = input.sources.family_model;
    let differ = input.sources.highest_perfs.iter().any(|&perf| perf != input.sources.highest_perfs[0]);
    let of = match profile.amd_highest_perf {
        AmdHighestPerf::Register => format!("the first CPU reports highest_perf {highest_perf}"),
        AmdHighestPerf::Model => {
            let list = if highest_perf == 255 { "is not on" } else { "is on" };
            format!("amd_get_highest_perf(): family {family:#x} model {model:#x} {list} the list, so {highest_perf}")
        }
        AmdHighestPerf::AllCpus if differ => {
            format!("CPUs differ in highest_perf (preferred cores), so {highest_perf} is taken")
        }
        AmdHighestPerf::AllCpus => format!("all CPUs report highest_perf {highest_perf}"),
    };
    format!("{of}; midpoint of {highest_perf} / nominal_perf {nominal} and 1")
}

fn tipping(report: &mut FmaxReport) {
    let invariant = is_invariant(report);
    let mut alike: Vec<(ClusterFacts, Vec<String>)> = Vec::new();
    for cluster in report.input.clusters.iter().filter(|cluster| cluster.reference_khz != 0) {
        let facts = ClusterFacts { name: String::new(), ..cluster.clone() };
        match alike.iter_mut().find(|(known, _)| *known == facts) {
            Some((_, names)) => names.push(cluster.name.clone()),
            None => alike.push((facts, vec![cluster.name.clone()])),
        }
    }
    for (ClusterFacts { capacity, reference_khz, base_khz, opps_khz, turbo_khz, .. }, names) in alike {
        let mut points = opps_khz;
        if points.len() > 8 {
            // A table of every 100 MHz shows no more than its landmarks.
            points = points.first().copied().into_iter().chain([base_khz]).chain(turbo_khz).collect();
        }
        points.push(reference_khz);
        points.retain(|&khz| khz <= reference_khz);
        points.sort_unstable();
        points.dedup();
        let asks_more = |khz: u32| {
            // Without invariance the capacity is reached at the current clock and a quarter (get_capacity_ref_freq()).
            let reached_at = if invariant { reference_khz } else { khz + khz / 4 };
            let more = |util: &u64| asks_khz(reached_at, *util, capacity) > khz;
            (0..=u64::from(capacity)).find(more).filter(|_| khz < reference_khz)
        };
        report.tipping.extend(points.into_iter().map(|khz| TippingPoint {
            clusters: names.join(", "),
            khz,
            capacity,
            util: asks_more(khz),
        }));
    }
}

fn warnings(report: &mut FmaxReport) {
    let input = report.input.clone();
    let mut warn = |text: String| report.warnings.push(text);
    if input.no_turbo || input.msrs.is_some_and(|msrs| msrs.turbo_disabled()) {
        warn("turbo is switched off: every candidate above max_P is out of reach".to_owned());
    }
    if input.driver_kind() == DriverKind::Acpi
        && let (Some(p0), Some(caps)) = (input.p0_khz, input.cppc.first())
        && input.platform() == Platform::Amd
        && let may_be = acpi_max_khz(p0, input.processor.as_ref(), caps, &input.cppc)
        && !may_be.contains(&input.cpuinfo_max_khz)
        && let Some(khz) = may_be.first()
    {
        warn(format!("cpuinfo_max_freq is {} kHz, but P0 and CPPC give {khz} kHz", input.cpuinfo_max_khz));
    }
    if let Some(msrs) = &input.msrs {
        let model = input.processor.as_ref().map_or(0, |processor| processor.model);
        let groups = turbo_form(model, msrs.turbo_ratio_limit1) == TurboForm::Groups;
        let facts = input.sources.levels();
        let four = FreqMax::Turbo4Cores.ratio(&facts);
        let taken = msrs.turbo_freq_ratio(IntelTurboModel::of(model));
        if groups && taken.is_some() && four.is_some() && taken != four {
            warn(format!(
                "the registers hold groups of cores (0x1ae), but the kernel's lists do not know model {model:#x}: it \
                 takes {} MHz for the turbo of 4 cores, which is {} MHz",
                taken.map_or(0, |ratio| u64::from(input.sources.base_khz) * ratio / 1024 / 1000),
                FreqMax::Turbo4Cores.freq_khz(&facts) / 1000
            ));
        }
    }
    if let Some(shown) = input.base_frequency_khz.filter(|&shown| shown != input.sources.base_khz) {
        warn(format!(
            "base_frequency is {} MHz, but MPERF and the kernel's ratio count from {} MHz (0xce): ratios are relative to \
             the latter",
            shown / 1000,
            input.sources.base_khz / 1000
        ));
    }
    if let (true, Some(&(_, nominal))) = (input.kinds.len() > 1, input.sources.cppc.as_ref())
        && input.platform() == Platform::Amd
        && let Some(boost) = (CPPC_HIGHEST_PERF_PERFORMANCE * 1024).checked_div(nominal.into())
    {
        // arch/x86/kernel/acpi/cppc.c:amd_get_boost_ratio_numerator(), v6.13.
        warn(format!(
            "cores of other clocks may be AMD's kinds of core, which the source does not show: from 6.13 on kernels that know \
             them take {CPPC_HIGHEST_PERF_PERFORMANCE} for highest_perf of performance cores, so that f_max is {} MHz",
            (u64::from(input.sources.base_khz) * midpoint(boost)) / 1024 / 1000
        ));
    }
    if input.kinds.len() > 1 && input.processor.is_some() {
        let list: Vec<String> =
            input.kinds.iter().map(|(name, base, max)| format!("{name} {}-{} MHz", base / 1000, max / 1000)).collect();
        let of = |profile: KernelProfile| input.sources.freq_max_of(&profile, input.driver_kind());
        let each = PROFILES.iter().find(|&&(_, version, _)| of(KernelProfile::at(version)) == FreqMaxOf::EachCpu);
        let rule = match each {
            Some((name, ..)) => format!("before {name} the boot CPU's f_max counts for all, then each CPU's own"),
            None => "the boot CPU's f_max counts for all CPUs".to_owned(),
        };
        warn(format!(
            "cores differ ({}): {rule}; measured against another's, slower cores never reach a full scale",
            list.join(", ")
        ));
    }
    for choice in report.kernels.clone() {
        if choice.ratio.is_some_and(|ratio| ratio < 1024) {
            report.warnings.push(format!(
                "kernel {}: f_max lies below the base frequency (ratio {}), so that everything from {} kHz on counts as \
                 full speed",
                choice.kernel,
                choice.ratio.unwrap_or(0),
                choice.khz.unwrap_or(0)
            ));
        }
    }
}

node_of_fields! {
    Candidate { name, khz, ratio, scale_at_base, scale_at_turbo, source }
    KernelChoice { kernel, ratio, khz, candidate, why }
    TippingPoint { clusters, khz, capacity, util }
}

impl FmaxReport {
    /// The report as a tree, for JSON.
    pub fn node(&self) -> Node {
        let Self { input, candidates, kernels, tipping, warnings, explanations, .. } = self;
        let bin = |bin: &TurboBin| node_table! { active_cores: bin.active_cores, khz: bin.khz };
        node_table! {
            name: input.name, processor: input.processor.as_ref().map(|processor| &processor.model_name),
            driver: input.driver, base_khz: input.sources.base_khz, cpuinfo_max_khz: input.cpuinfo_max_khz,
            n_cores: input.sources.n_cores, turbo: input.turbo.iter().map(bin).collect::<Vec<_>>(),
            candidates, kernels, tipping, warnings, explanations,
        }
    }
}
