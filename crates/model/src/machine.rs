//! A described machine: topology, frequencies, idle states, power. Validated; see `file` for the TOML form.
//!
//! Units: kHz, mV, uW, ns. Capacity is 0..1024, 1024 being the biggest CPU at its highest non-boost frequency.

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::cppc::CppcPerfCaps;
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::energy_model::{EmError, EmPerfState, em_create_perf_table};
use opplab_kernel::profile::EmCost;

use crate::cpus::{CpuList, NR_CPUS_MAX, cpus_from, format_cpu_list};
use crate::disk::Disk;
use crate::error::Fault;
use crate::file_table::file_table;
use crate::program_class::ProgramClass;
use crate::range::Range;
use crate::tree::{Node, Table, Value};

file_table! {
    /// One operating performance point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Opp(this) {
        /// Frequency in kHz.
        khz: u32 = clock(),
        /// Supply voltage in mV; 0 if unknown.
        mv: u32 = int(0, 10_000).or(0),
        /// The power of one fully busy CPU here by the registered energy model, in uW (what the kernel sees).
        power_uw: u64 = own_power(),
        /// What one fully busy CPU really draws here, in uW (what the meter sees). Equal to `power_uw` unless given.
        busy_uw: u64 = power().or(this.power_uw),
        /// What the cluster (shared cache, interconnect) draws while any of its CPUs is awake, in uW.
        cluster_uw: u64 = power().or(0),
        /// What a CPU draws here in its shallowest idle state, in uW, where voltage and clock stay on; `None`: the same at
        /// all, that state's `power_uw`.
        idle_uw: Option<u64> = power(),
        /// What the cluster draws here while all its CPUs idle but no cluster state is entered, in uW; `None`:
        /// [`Cluster::cluster_idle_uw`].
        cluster_idle_uw: Option<u64> = power(),
    }
}

file_table! {
    /// One idle state, of a CPU or of a cluster.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct IdleState(this) {
        /// The kernel's name, e.g. `WFI`, `cpu-sleep-0`, `C6`.
        name: String = text(),
        /// Time from the decision to the state, in ns. A wake-up during entry waits for the rest of it.
        entry_latency_ns: u64 = time(),
        /// Time from the wake-up to the first instruction, in ns, as the kernel knows it.
        exit_latency_ns: u64 = time(),
        /// The same as it was measured, where firmware gives the kernel another; `None`: as `exit_latency_ns`.
        wake_ns: Option<u64> = time(),
        /// Shortest stay that is worth it, in ns (the kernel's target_residency).
        target_residency_ns: u64 = time(),
        /// Power of the CPU (or cluster) in this state, in uW.
        power_uw: u64 = own_power(),
    }
}

impl IdleState {
    /// Time from the wake-up to the first instruction, in ns, as it is.
    pub fn wakes_in_ns(&self) -> u64 {
        self.wake_ns.unwrap_or(self.exit_latency_ns)
    }
}

/// How frequencies of a cluster's CPUs are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyShare {
    /// One cpufreq policy for the cluster.
    #[default]
    Shared,
    /// One policy a core (all its threads).
    Core,
    /// One policy a CPU.
    Cpu,
}

file_table! {
    /// CPUs of one kind: same core, same OPPs, same idle states, one voltage rail.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Cluster(this) {
        /// E.g. `A53`.
        name: String = text(),
        /// Its CPUs.
        cpus: CpuList = by(
            "cpus",
            |table, key| cpus_from(table.need(key)?, key),
            |cpus| Some(Node::str(format_cpu_list(cpus)))
        ),
        /// Capacity of each of its CPUs at the highest non-boost OPP.
        capacity: u32 = int(1, 1024),
        /// How frequency is shared.
        policy: PolicyShare = choice(POLICY_SHARE).always(),
        /// ACPI processor power efficiency class, for the artificial energy model.
        efficiency_class: u32 = int(0, 255).or(0),
        /// OPPs by ascending frequency.
        opps: Vec<Opp> = list("opp")
            .needed()
            .not_empty("`opp` is empty; a cluster needs at least one frequency")
            .ordered(ascends, comes_too_late),
        /// Points above the last OPP at which the hardware may run but that software cannot ask for (boost beyond
        /// acpi-cpufreq's P0), ascending; their `power_uw` is not used. Empty: made from [`Cluster::turbo`].
        boost_opps: Vec<Opp> = list("boost_opp")
            .not_empty("`boost_opp` is empty; leave it out where there is no such point")
            .ordered(ascends, comes_too_late),
        /// Idle states of a CPU, shallowest first (index 0 is WFI, C1 or POLL).
        idle: Vec<IdleState> = list("idle").ordered(is_no_shallower, residency_too_short),
        /// Idle states of the cluster. When all its CPUs are in their deepest state it enters the deepest one whose residency
        /// and entry latency fit before the first timer of a CPU (not so with [`Machine::cluster_idle_together`]).
        /// Latencies are on top of those of the CPU's state: 0 where the CPU's state already counts them, as with PSCI,
        /// where the cluster state is also the deepest state of [`Cluster::idle`].
        cluster_idle: Vec<IdleState> = list("cluster_idle").ordered(is_no_shallower, residency_too_short),
        /// Power of the cluster while all its CPUs idle but no cluster state is entered, in uW;
        /// `None`: `Opp::cluster_uw` of the current OPP, as while awake.
        cluster_idle_uw: Option<u64> = power(),
        /// CPPC capabilities in abstract performance units, if the machine has CPPC.
        cppc: Option<CppcCaps> = table().checked(CppcCaps::check),
        /// Highest frequency without turbo in kHz, at which MPERF counts; 0 if unknown.
        base_khz: u32 = int(0, 100_000_000).or(0),
        /// Frequency limits by the number of active cores of the package, ascending in cores; empty if unknown.
        turbo: Vec<TurboBin> = list("turbo").ordered(has_more_cores, bins_too_late),
        /// What HWP reports it can do, if the machine has HWP.
        hwp: Option<HwpCaps> = table(),
    }
}

file_table! {
    /// The highest frequency that is granted while at most a number of cores is active.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TurboBin(this) {
        /// The limit holds up to so many active cores of the package; on an Intel hybrid, of the cluster's kind.
        active_cores: u32 = int(1, NR_CPUS_MAX as i128),
        /// The limit in kHz.
        khz: u32 = int(1, 100_000_000),
    }
}

file_table! {
    /// MSR_HWP_CAPABILITIES (0x771): performance levels of the firmware's own scale, 0..255.
    /// And what the firmware chose of MSR_HWP_REQUEST (0x774).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct HwpCaps(this) {
        /// Highest performance, bits 7:0.
        highest: u32 = int(0, 255),
        /// Guaranteed performance, bits 15:8.
        guaranteed: u32 = int(0, 255),
        /// Most efficient performance, bits 23:16.
        most_efficient: u32 = int(0, 255),
        /// Lowest performance, bits 31:24.
        lowest: u32 = int(0, 255),
        /// EPP of `balance_performance`, where firmware chose it; 0: the kernel's for the model.
        balance_performance: u32 = int(0, 255).or(0),
    }
}

file_table! {
    /// Which processor it is: kernels choose f_max by model.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Processor(this) {
        /// `GenuineIntel`, `AuthenticAMD`, ... as CPUID and /proc/cpuinfo spell it.
        vendor: String = text(),
        /// Family, as /proc/cpuinfo prints it.
        family: u32 = int(0, 4096),
        /// Model, as /proc/cpuinfo prints it.
        model: u32 = int(0, 4096),
        /// Stepping.
        stepping: u32 = int(0, 4096).or(0).always(),
        /// The name that the processor gives itself.
        model_name: String = text().or_empty(),
    }
}

file_table! {
    /// Power limits of one package (RAPL); 0 where unknown. All packages are alike.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PackagePower(this) {
        /// Thermal design power in uW.
        tdp_uw: u64 = power().or(0),
        /// Long-term limit in uW.
        pl1_uw: u64 = power().or(0),
        /// Its averaging window in ns.
        pl1_window_ns: u64 = time().or(0),
        /// Short-term limit in uW.
        pl2_uw: u64 = power().or(0),
        /// Its averaging window in ns.
        pl2_window_ns: u64 = time().or(0),
    }
}

/// The ACPI preferred power management profile (FADT, ACPI 6.4 s5.2.9): what the maker built the machine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PmProfile {
    /// 0.
    #[default]
    Unspecified,
    /// 1.
    Desktop,
    /// 2.
    Mobile,
    /// 3.
    Workstation,
    /// 4.
    EnterpriseServer,
    /// 5.
    SohoServer,
    /// 6.
    AppliancePc,
    /// 7.
    PerformanceServer,
    /// 8.
    Tablet,
}

impl PmProfile {
    /// All profiles with their names in machine files, by number.
    pub const ALL: [(&str, Self); 9] = [
        ("unspecified", Self::Unspecified),
        ("desktop", Self::Desktop),
        ("mobile", Self::Mobile),
        ("workstation", Self::Workstation),
        ("enterprise-server", Self::EnterpriseServer),
        ("soho-server", Self::SohoServer),
        ("appliance-pc", Self::AppliancePc),
        ("performance-server", Self::PerformanceServer),
        ("tablet", Self::Tablet),
    ];

    /// Whether intel_pstate takes it for a server (drivers/cpufreq/intel_pstate.c:intel_pstate_acpi_pm_profile_server(),
    /// v6.12).
    pub fn is_server(self) -> bool {
        matches!(self, Self::EnterpriseServer | Self::PerformanceServer)
    }
}

file_table! {
    /// Who else draws from a package's power budget and makes progress with it: a GPU. It is always busy; what it does is
    /// in proportion to the energy that it gets.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Consumer(this) {
        /// Its name, e.g. `gpu`.
        name: String = text(),
        /// The package that it is in.
        package: u32 = int(0, NR_CPUS_MAX as i128 - 1).or(0),
        /// What it draws when nothing limits it, in uW.
        demand_uw: u64 = power().needed(),
        /// What it gets under a limit even if the CPUs would draw it all, in uW.
        least_uw: u64 = power().or(0),
        /// Energy of a unit of its work (a frame), in uJ.
        frame_uj: u64 = int(1, 1_000_000_000_000),
    }
}

file_table! {
    /// How a package heats up; all packages are alike.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Thermal(this) {
        /// Thermal resistance to the ambient air, in mK/W.
        resistance_mk_per_w: u64 = int(1, 1_000_000),
        /// Heat capacity in mJ/K.
        capacitance_mj_per_k: u64 = int(1, 1_000_000_000),
        /// Temperature of the ambient air in thousandths of a degree Celsius.
        ambient_mc: i64 = int(-100_000, 200_000).or(25_000).always(),
        /// Temperature that is kept, in thousandths of a degree Celsius.
        limit_mc: i64 = int(-100_000, 200_000),
        /// Temperature at the start of a run, in thousandths of a degree Celsius.
        start_mc: i64 = int(-100_000, 200_000).or(this.ambient_mc),
    }
}

file_table! {
    /// CPPC registers of a CPU (ACPI 6.4 s8.4.7.1), abstract performance units and MHz.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CppcCaps(this) {
        /// Highest performance (boost).
        highest_perf: u32 = int(1, u32::MAX as i128),
        /// Nominal performance.
        nominal_perf: u32 = int(1, u32::MAX as i128),
        /// Lowest nonlinear performance.
        lowest_nonlinear_perf: u32 = int(0, u32::MAX as i128).or(0).always(),
        /// Lowest performance.
        lowest_perf: u32 = int(1, u32::MAX as i128),
        /// Frequency at lowest performance in MHz; 0 if unknown.
        lowest_freq_mhz: u32 = int(0, 100_000).or(0).always(),
        /// Frequency at nominal performance in MHz; 0 if unknown.
        nominal_freq_mhz: u32 = int(0, 100_000).or(0).always(),
    }
}

/// Where one CPU sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuPlace {
    /// Index into [`Machine::clusters`].
    pub cluster: u32,
    /// Physical core, dense over the machine; SMT siblings share it.
    pub core: u32,
    /// Last-level cache, dense over the machine.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Package (socket).
    pub package: u32,
}

/// How the running kernel learns the current frequency for invariance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvarianceSource {
    /// `arch_set_freq_scale` at each frequency change (arm64 without counters).
    #[default]
    FreqChange,
    /// APERF/MPERF (or AMU) read at the tick.
    CountersAtTick,
    /// It does not: x86 without these counters, such as many virtual machines.
    Absent,
}

file_table! {
    /// Costs of the machine's own actions, in ns of the running CPU (at any frequency) unless stated otherwise.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Costs(this) {
        /// A context switch. All but the interrupt are code that the CPU executes: times on the biggest CPU at its highest
        /// non-boost frequency, longer on a slower clock.
        context_switch_ns: u64 = time(),
        /// A wake-up: what the waker spends.
        wakeup_ns: u64 = time(),
        /// An inter-processor interrupt, from send to receive.
        ipi_ns: u64 = time(),
        /// A periodic tick.
        tick_ns: u64 = time(),
        /// The work of one slow frequency switch in the sugov kthread, on top of `transition_latency_ns` of waiting.
        sugov_work_ns: u64 = time(),
    }
}

file_table! {
    /// How frequency changes are made.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Cpufreq(this) {
        /// cpuinfo_transition_latency in ns (schedutil derives its rate limit from it).
        transition_latency_ns: u64 = time().needed(),
        /// policy->transition_delay_us that the driver itself sets (schedutil's rate limit in us); 0: none, so that it is
        /// derived from the latency.
        transition_delay_us: u32 = int(0, 10_000_000).or(0),
        /// Whether the driver can switch from the scheduler's context.
        fast_switch: bool = flag().needed(),
        /// How long the hardware takes to change the clock, in ns (a slow switch blocks the kthread as long).
        switch_ns: u64 = time().or(this.transition_latency_ns).always(),
        /// How that time is distributed where it was measured: (percent, ns), from 0 to 100, uniform between two; empty where
        /// only [`Self::switch_ns`] is known.
        switch_quantiles: Vec<(u32, u64)> = by("switch_quantiles_us", switch_quantiles_from, |list| switch_quantiles_node(list)),
        /// Whether any CPU may change any policy's frequency.
        dvfs_possible_from_any_cpu: bool = flag().always(),
        /// Whether requests are resolved against a frequency table (the OPPs). Without one (cppc_cpufreq) any frequency
        /// between the lowest and the highest OPP may be asked for, and the hardware grants the lowest OPP that reaches it.
        freq_table: bool = flag().or(true).always(),
    } given {
        /// The driver: `scmi`, `cppc_cpufreq`, `acpi-cpufreq`, `intel_pstate`, `intel_cpufreq`, ...
        driver: DriverId,
    }
}

const POLICY_SHARE: &[(&str, PolicyShare)] =
    &[("shared", PolicyShare::Shared), ("core", PolicyShare::Core), ("cpu", PolicyShare::Cpu)];

const INVARIANCE: &[(&str, InvarianceSource)] = &[
    ("freq-change", InvarianceSource::FreqChange),
    ("counters-at-tick", InvarianceSource::CountersAtTick),
    ("none", InvarianceSource::Absent),
];

fn ascends(low: &Opp, high: &Opp) -> bool {
    low.khz < high.khz
}

fn comes_too_late(opp: &Opp) -> String {
    format!("OPPs must be in ascending order of frequency; {} kHz comes too late", opp.khz)
}

fn is_no_shallower(before: &IdleState, state: &IdleState) -> bool {
    before.target_residency_ns <= state.target_residency_ns
}

fn residency_too_short(_state: &IdleState) -> String {
    "idle states must be in ascending order of target residency".to_owned()
}

fn has_more_cores(before: &TurboBin, bin: &TurboBin) -> bool {
    before.active_cores < bin.active_cores
}

fn bins_too_late(_bin: &TurboBin) -> String {
    "turbo bins must be in ascending order of active cores".to_owned()
}

impl CppcCaps {
    /// What the kernel's conversions take; `dmi_max_khz` stands in for unknown frequencies.
    pub fn perf_caps(&self, dmi_max_khz: u64) -> CppcPerfCaps {
        let &Self { lowest_perf, nominal_perf, highest_perf, lowest_freq_mhz, nominal_freq_mhz, .. } = self;
        CppcPerfCaps { lowest_perf, nominal_perf, highest_perf, lowest_freq_mhz, nominal_freq_mhz, dmi_max_khz }
    }

    fn check(&self) -> Result<(), &'static str> {
        let ordered = self.lowest_perf <= self.nominal_perf && self.nominal_perf <= self.highest_perf;
        if ordered { Ok(()) } else { Err("`lowest_perf` <= `nominal_perf` <= `highest_perf` does not hold") }
    }
}

/// `switch_quantiles_us`: pairs of percent and us, from 0 to 100 %, both ascending.
fn switch_quantiles_from(table: &Table<'_>, key: &str) -> Result<Vec<(u32, u64)>, Fault> {
    let Some(node) = table.get(key) else { return Ok(Vec::new()) };
    let mut quantiles: Vec<(u32, u64)> = Vec::new();
    for item in node.as_list(key)? {
        let [percent, us] = item.as_list(key)? else {
            return Err(Fault::new(item.at, "a quantile must be [percent, us]"));
        };
        let percent: u32 = percent.as_int("percent", 0, 100)?;
        let ns = us.as_int::<u64>("us", 0, 10_000_000)? * 1000;
        if quantiles.last().is_some_and(|&(before, before_ns)| before >= percent || before_ns > ns) {
            return Err(Fault::new(item.at, "quantiles must ascend, by percent and by time"));
        }
        quantiles.push((percent, ns));
    }
    let percents = quantiles.first().map(|first| first.0).zip(quantiles.last().map(|last| last.0));
    if percents != Some((0, 100)) {
        return Err(Fault::new(node.at, "quantiles must go from [0, us] to [100, us], with their mean as `switch_us`"));
    }
    Ok(quantiles)
}

fn switch_quantiles_node(quantiles: &[(u32, u64)]) -> Option<Node> {
    let pair = |&(percent, ns): &(u32, u64)| Node::list([Node::from(percent), Node::from(ns / 1000)]);
    (!quantiles.is_empty()).then(|| Node::list(quantiles.iter().map(pair)))
}

fn sources_from(table: &Table<'_>, key: &str) -> Result<Vec<(String, String)>, Fault> {
    let Some(node) = table.get(key) else { return Ok(Vec::new()) };
    let Value::Table(entries) = &node.value else {
        return Err(Fault::new(node.at, "`source` must be a table"));
    };
    entries.iter().map(|(key, node)| Ok((key.name.clone(), node.as_str(&key.name)?.to_owned()))).collect()
}

fn sources_node(sources: &[(String, String)]) -> Option<Node> {
    (!sources.is_empty()).then(|| Node::table(sources.iter().map(|(what, source)| (what, Some(Node::str(source))))))
}

impl Cpufreq {
    /// How long one change of the clock takes, in ns; `uniform` is a draw of 32 bits.
    pub fn switch_time_ns(&self, uniform: u32) -> u64 {
        let hundredths = |percent: u32| u64::from(percent) << 32;
        let at = u64::from(uniform) * 100;
        let pair = self.switch_quantiles.windows(2).find(|pair| at < hundredths(pair[1].0));
        let Some(&[(low, low_ns), (high, high_ns)]) = pair else { return self.switch_ns };
        let (done, span) = (at - hundredths(low), hundredths(high) - hundredths(low));
        low_ns + (u128::from(high_ns - low_ns) * u128::from(done) / u128::from(span)) as u64
    }
}

file_table! {
    /// A machine.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Machine(this) {
        /// Its name.
        name: String = text(),
        /// Where its numbers come from, for reports.
        provenance: String = text().or_empty(),
        /// Where invariance comes from.
        invariance: InvarianceSource = choice(INVARIANCE).always(),
        /// What the machine is for by its firmware.
        pm_profile: PmProfile = choice(&PmProfile::ALL),
        /// Power of everything else that is always on and metered, in uW.
        floor_uw: u64 = power(),
        /// Speed of a hardware thread while its sibling is busy, in 1/1024 of its speed alone.
        smt_yield: u32 = int(1, 1024).or(1024).always(),
        /// Whether a cluster state is entered only when all clusters of the machine may enter theirs (sockets of one fabric).
        cluster_idle_together: bool = flag(),
        /// Whether what clusters share (caches, mesh, memory controllers) follows the highest clock of any awake CPU of the
        /// machine, or the last such clock while none is awake, as the uncores of a server's sockets do; otherwise that of
        /// its own CPUs.
        shared_follows_machine: bool = flag(),
        /// Whether all cores of a cluster in one package run at one clock, the highest that an awake one asks for, whatever
        /// their policies are (Intel's client processors; a clock for each core came with Haswell-EP).
        package_clock: bool = flag(),
        /// At which clock the processor's TSC and MPERF count, in kHz, where that is another one than `base_khz`
        /// (MSR_PLATFORM_INFO; a laptop's `base_frequency` is the lower one that its firmware guarantees); 0: the same.
        tsc_khz: u32 = int(0, 100_000_000).or(0),
        /// Cycles of a pause instruction, as in the loop in which an idle CPU polls.
        pause_cycles: u32 = int(1, 1000).or(10),
        /// f_max over the clock of MPERF that kernels form of an Intel processor's turbo registers, in 1/1024. 0: the registers
        /// are not known, and it is formed of [`Cluster::turbo`].
        turbo_freq_ratio: u32 = int(0, 65_535).or(0),
        /// What a second busy thread of a core draws, in 1/1024 of what the first does: 1024 as much again.
        smt_power: u32 = int(0, 1024).or(1024),
        /// True for an emulated machine in which the CPUs share one instruction stream, whatever their frequency or capacity:
        /// one executes at a time, the others stand still. See crate `sim`, `stream.rs`, for who.
        shared_stream: bool = flag().always(),
        /// True for an emulated machine whose CPUs execute in parallel, each as fast whatever its frequency or capacity.
        constant_speed: bool = flag(),
        /// Costs of the machine's own actions.
        costs: Costs = table(),
        /// Which processor it is, where that is known.
        processor: Option<Processor> = table(),
        /// Power limits of a package, where they are known.
        package_power: Option<PackagePower> = table(),
        /// Who else draws from the packages' budgets.
        consumers: Vec<Consumer> = list("consumer"),
        /// Its disks; benchmarks use the first one.
        disks: Vec<Disk> = list("disk"),
        /// How a package heats up, if that is to limit it.
        thermal: Option<Thermal> = table(),
        /// Source of its numbers, as (what, source), in the order of the file.
        sources: Vec<(String, String)> = by("source", sources_from, |list| sources_node(list)),
    } given {
        /// Place of each CPU.
        cpus: Vec<CpuPlace>,
        /// Its clusters.
        clusters: Vec<Cluster>,
        /// Distances between NUMA nodes, row by row (10 on the diagonal).
        numa_distance: Vec<Vec<u32>>,
        /// Frequency changes, with the machine's own driver.
        cpufreq: Cpufreq,
        /// What else the machine can be driven with; a policy chooses by name. See [`Machine::driver`].
        other_drivers: Vec<Cpufreq>,
        /// What kinds of programs make of its cores, in the order of the file.
        program_classes: Vec<ProgramClass>,
        /// Within which ranges its assumed numbers may lie, in the order of the file.
        ranges: Vec<Range>,
    }
}

impl Cluster {
    /// The clock at which a CPU of the cluster has its capacity, at which MPERF counts and in which work is counted: its
    /// highest without boost, whether the OPPs end there or go on. The last OPP where no base is known.
    pub fn reference_khz(&self) -> u32 {
        match self.base_khz {
            0 => self.opps.last().map_or(1, |opp| opp.khz.max(1)),
            base_khz => base_khz,
        }
    }

    /// The energy model that firmware or device tree registers.
    ///
    /// # Errors
    /// Why the kernel refuses it.
    pub fn registered_em(&self, form: EmCost) -> Result<Vec<EmPerfState>, EmError> {
        let points: Vec<(u64, u64)> = self.opps.iter().map(|opp| (u64::from(opp.khz), opp.power_uw)).collect();
        em_create_perf_table(&points, self.capacity.into(), form)
    }

    /// Whether what its busy CPUs draw is known at some operating point; where it is not, no power of the cluster is.
    pub fn has_power(&self) -> bool {
        self.opps.iter().any(|opp| opp.busy_uw != 0)
    }

    /// The highest clock that a CPU of the cluster may get, alone and boosted.
    pub fn highest_khz(&self) -> u32 {
        let bins = self.turbo.iter().map(|bin| bin.khz);
        let points = self.opps.iter().chain(&self.boost_opps).map(|opp| opp.khz);
        points.chain(bins).fold(self.reference_khz(), u32::max)
    }
}

impl Machine {
    /// Whether a CPU in the idle state called `state` watches its own flag, so that who wants it to reschedule writes to
    /// memory and sends no interrupt: MWAIT, and polling (kernel/sched/core.c:resched_curr(), drivers/idle/intel_idle.c
    /// and arch/x86/kernel/acpi/cstate.c:acpi_processor_ffh_cstate_enter(), v6.12). AMD's states below C1 are entered by
    /// a port.
    pub fn wakes_by_memory(&self, state: &str) -> bool {
        let vendor = self.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
        let has_mwait = match vendor {
            "GenuineIntel" => true,
            "AuthenticAMD" | "HygonGenuine" => state == "C1",
            _ => false,
        };
        !self.shared_stream && (has_mwait || state == "POLL")
    }

    /// Whether what an idle CPU asked for last counts for those with which it shares a clock: with one clock for all cores
    /// (since Haswell cores keep their vote in C1E and C6: C. Gough and others, Energy Efficient Servers, 2015, chapter 2;
    /// commit bb18008f8086 reports CPUs that are offline), and for the threads of a core of AMD's, which stays at the clock
    /// of the idle one (spdk/spdk, issue 3389, May 2024).
    pub fn idle_requests_count(&self) -> bool {
        let vendor = self.processor.as_ref().map_or("", |processor| processor.vendor.as_str());
        self.package_clock || matches!(vendor, "AuthenticAMD" | "HygonGenuine")
    }

    /// The clock of the biggest CPU at which work is counted: a ns of work is what it does in a ns at this clock.
    pub fn reference_khz(&self) -> u32 {
        // The first of equal ones, as the engine has it: all of one capacity have one speed at their own reference.
        let biggest = self.clusters.iter().rev().max_by_key(|cluster| cluster.capacity);
        biggest.map_or(1, Cluster::reference_khz)
    }

    /// Whether CPUs execute as fast whatever their frequency or capacity: those of an emulator.
    pub fn speed_is_constant(&self) -> bool {
        self.shared_stream || self.constant_speed
    }

    /// Whether two CPUs of a machine with a policy for each have one clock all the same: threads of a core, and all CPUs of a
    /// cluster in a package that has one.
    pub fn shares_clock(&self, cpu: u32, other: u32) -> bool {
        let (one, two) = (&self.cpus[cpu as usize], &self.cpus[other as usize]);
        one.core == two.core || self.package_clock && (one.package, one.cluster) == (two.package, two.cluster)
    }

    /// Whether some core has more than one thread.
    pub fn has_smt(&self) -> bool {
        let mut cores: Vec<u32> = self.cpus.iter().map(|place| place.core).collect();
        cores.sort_unstable();
        cores.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The family of AMD's processor, as /proc/cpuinfo prints it; `None` for other makers'. Hygon's Dhyana (family 0x18) is Zen, but
    /// not to what asks here: arch/x86/kernel/cpu/hygon.c:init_hygon() leaves `node_reclaim_distance` as it is (v6.7).
    pub fn amd_family(&self) -> Option<u32> {
        self.processor.as_ref().filter(|processor| processor.vendor == "AuthenticAMD").map(|processor| processor.family)
    }

    /// Whether the machine's cores differ and Intel made it.
    pub fn is_intel_hybrid(&self) -> bool {
        let intel = self.processor.as_ref().is_some_and(|processor| processor.vendor == "GenuineIntel");
        intel && self.clusters.iter().any(|cluster| cluster.capacity != self.clusters[0].capacity)
    }

    /// Number of CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Whether a timer that expires anywhere takes the shared stream from its holder, so that a CPU may be left between a tick and
    /// its softirq. QEMU 7.2 does so on arm64; on x86 the holder goes on (as all recordings show it).
    pub fn timers_move_stream(&self) -> bool {
        self.shared_stream && self.invariance == InvarianceSource::FreqChange
    }

    /// How frequency changes are made under driver `name`; an empty name is the machine's own driver.
    pub fn driver(&self, name: &str) -> Option<&Cpufreq> {
        if name.is_empty() || name == self.cpufreq.driver.name {
            return Some(&self.cpufreq);
        }
        self.other_drivers.iter().find(|driver| driver.driver.name == name)
    }

    /// The CPUs by cpufreq policy, as (index of the cluster, CPUs): by cluster, then by core or CPU.
    pub fn policies(&self) -> Vec<(u32, CpuList)> {
        let mut policies = Vec::new();
        for (index, cluster) in (0..).zip(&self.clusters) {
            match cluster.policy {
                PolicyShare::Shared => policies.push((index, cluster.cpus.clone())),
                PolicyShare::Cpu => policies.extend(cluster.cpus.iter().map(|&cpu| (index, vec![cpu]))),
                PolicyShare::Core => {
                    let mut cores: BTreeMap<u32, CpuList> = BTreeMap::new();
                    for &cpu in &cluster.cpus {
                        cores.entry(self.cpus[cpu as usize].core).or_default().push(cpu);
                    }
                    policies.extend(cores.into_values().map(|cpus| (index, cpus)));
                }
            }
        }
        policies
    }

    /// The cluster of `cpu`.
    pub fn cluster_of(&self, cpu: u32) -> &Cluster {
        &self.clusters[self.cpus[cpu as usize].cluster as usize]
    }
}
