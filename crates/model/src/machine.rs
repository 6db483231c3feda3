//! A described machine: topology, frequencies, idle states, power. Validated; see `file` for the TOML form.
//!
//! Units: kHz, mV, uW, ns. Capacity is 0..1024, 1024 being the biggest CPU at its highest non-boost frequency.

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::driver::DriverId;
use opplab_kernel::energy_model::{EmError, EmPerfState, em_create_perf_table};
use opplab_kernel::profile::EmCost;

use crate::disk::Disk;
use crate::program_class::ProgramClass;
use crate::range::Range;

/// A set of CPUs by index, in ascending order without repeats.
pub type CpuList = Vec<u32>;

/// One operating performance point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opp {
    /// Frequency in kHz.
    pub khz: u32,
    /// Supply voltage in mV; 0 if unknown.
    pub mv: u32,
    /// What the registered energy model says one fully busy CPU draws here, in uW (what the kernel sees).
    pub power_uw: u64,
    /// What one fully busy CPU really draws here, in uW (what the meter sees). Equal to `power_uw` unless given.
    pub busy_uw: u64,
    /// What the cluster (shared cache, interconnect) draws while any of its CPUs is awake, in uW.
    pub cluster_uw: u64,
    /// What a CPU draws here in its shallowest idle state, in uW, where voltage and clock stay on; `None`: the same at
    /// all, that state's `power_uw`.
    pub idle_uw: Option<u64>,
    /// What the cluster draws here while all its CPUs idle but no cluster state is entered, in uW; `None`:
    /// [`Cluster::cluster_idle_uw`].
    pub cluster_idle_uw: Option<u64>,
}

/// One idle state, of a CPU or of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// The kernel's name, e.g. `WFI`, `cpu-sleep-0`, `C6`.
    pub name: String,
    /// Time from the decision to the state, in ns. A wake-up during entry waits for the rest of it.
    pub entry_latency_ns: u64,
    /// Time from the wake-up to the first instruction, in ns, as the kernel is told.
    pub exit_latency_ns: u64,
    /// The same as it was measured, where firmware tells the kernel another; `None`: as `exit_latency_ns`.
    pub wake_ns: Option<u64>,
    /// Shortest stay that is worth it, in ns (the kernel's target_residency).
    pub target_residency_ns: u64,
    /// Power of the CPU (or cluster) in this state, in uW.
    pub power_uw: u64,
}

/// How frequencies of a cluster's CPUs are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyShare {
    /// One cpufreq policy for the cluster.
    Shared,
    /// One policy a core (all its threads).
    Core,
    /// One policy a CPU.
    Cpu,
}

/// CPUs of one kind: same core, same OPPs, same idle states, one voltage rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// E.g. `A53`.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuList,
    /// Capacity of each of its CPUs at the highest non-boost OPP.
    pub capacity: u32,
    /// How frequency is shared.
    pub policy: PolicyShare,
    /// OPPs by ascending frequency.
    pub opps: Vec<Opp>,
    /// Points above the last OPP at which the hardware may run but that software cannot ask for (boost beyond
    /// acpi-cpufreq's P0), ascending; their `power_uw` is not used. Empty: made from [`Cluster::turbo`].
    pub boost_opps: Vec<Opp>,
    /// Idle states of a CPU, shallowest first (index 0 is WFI, C1 or POLL).
    pub idle: Vec<IdleState>,
    /// Idle states of the cluster, entered when all its CPUs are in their deepest state long enough.
    /// Latencies are on top of those of the CPU's state: 0 where the CPU's state already counts them, as with PSCI,
    /// where the cluster state is also the deepest state of [`Cluster::idle`].
    pub cluster_idle: Vec<IdleState>,
    /// Power of the cluster while all its CPUs idle but no cluster state is entered, in uW;
    /// `None`: `Opp::cluster_uw` of the current OPP, as while awake.
    pub cluster_idle_uw: Option<u64>,
    /// ACPI processor power efficiency class, for the artificial energy model.
    pub efficiency_class: u32,
    /// CPPC capabilities in abstract performance units, if the machine has CPPC.
    pub cppc: Option<CppcCaps>,
    /// Highest frequency without turbo in kHz, at which MPERF counts; 0 if unknown.
    pub base_khz: u32,
    /// Frequency limits by the number of active cores of the package, ascending in cores; empty if unknown.
    pub turbo: Vec<TurboBin>,
    /// What HWP says it can do, if the machine has HWP.
    pub hwp: Option<HwpCaps>,
}

/// The highest frequency that is granted while at most a number of cores is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurboBin {
    /// The limit holds up to so many active cores of the package.
    pub active_cores: u32,
    /// The limit in kHz.
    pub khz: u32,
}

/// MSR_HWP_CAPABILITIES (0x771): performance levels of the firmware's own scale, 0..255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HwpCaps {
    /// Highest performance, bits 7:0.
    pub highest: u32,
    /// Guaranteed performance, bits 15:8.
    pub guaranteed: u32,
    /// Most efficient performance, bits 23:16.
    pub most_efficient: u32,
    /// Lowest performance, bits 31:24.
    pub lowest: u32,
}

/// Which processor it is: kernels choose f_max by model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processor {
    /// `GenuineIntel`, `AuthenticAMD`, ... as CPUID and /proc/cpuinfo spell it.
    pub vendor: String,
    /// Family, as /proc/cpuinfo prints it.
    pub family: u32,
    /// Model, as /proc/cpuinfo prints it.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
    /// The name that the processor gives itself.
    pub model_name: String,
}

/// Power limits of one package (RAPL); 0 where unknown. All packages are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackagePower {
    /// Thermal design power in uW.
    pub tdp_uw: u64,
    /// Long-term limit in uW.
    pub pl1_uw: u64,
    /// Its averaging window in ns.
    pub pl1_window_ns: u64,
    /// Short-term limit in uW.
    pub pl2_uw: u64,
    /// Its averaging window in ns.
    pub pl2_window_ns: u64,
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

/// Who else draws from a package's power budget and makes progress with it: a GPU. It is always busy; what it does is
/// in proportion to the energy that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name, e.g. `gpu`.
    pub name: String,
    /// The package that it is in.
    pub package: u32,
    /// What it draws when nothing limits it, in uW.
    pub demand_uw: u64,
    /// What it gets under a limit even if the CPUs would draw it all, in uW.
    pub least_uw: u64,
    /// Energy of a unit of its work (a frame), in uJ.
    pub frame_uj: u64,
}

/// How a package heats up; all packages are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thermal {
    /// Thermal resistance to the ambient air, in mK/W.
    pub resistance_mk_per_w: u64,
    /// Heat capacity in mJ/K.
    pub capacitance_mj_per_k: u64,
    /// Temperature of the ambient air in thousandths of a degree Celsius.
    pub ambient_mc: i64,
    /// Temperature that is kept, in thousandths of a degree Celsius.
    pub limit_mc: i64,
    /// Temperature at the start of a run, in thousandths of a degree Celsius.
    pub start_mc: i64,
}

/// CPPC registers of a CPU (ACPI 6.4 s8.4.7.1), abstract performance units and MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CppcCaps {
    /// Highest performance (boost).
    pub highest_perf: u32,
    /// Nominal performance.
    pub nominal_perf: u32,
    /// Lowest nonlinear performance.
    pub lowest_nonlinear_perf: u32,
    /// Lowest performance.
    pub lowest_perf: u32,
    /// Frequency at lowest performance in MHz; 0 if unknown.
    pub lowest_freq_mhz: u32,
    /// Frequency at nominal performance in MHz; 0 if unknown.
    pub nominal_freq_mhz: u32,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvarianceSource {
    /// `arch_set_freq_scale` at each frequency change (arm64 without counters).
    FreqChange,
    /// APERF/MPERF (or AMU) read at the tick.
    CountersAtTick,
    /// It does not: x86 without these counters, such as many virtual machines.
    Absent,
}

/// Costs of the machine's own actions, in ns of the running CPU (at any frequency) unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A context switch. All but the interrupt are code that the CPU executes: times on the biggest CPU at its highest
    /// non-boost frequency, longer on a slower clock.
    pub context_switch_ns: u64,
    /// A wake-up: what the waker spends.
    pub wakeup_ns: u64,
    /// An inter-processor interrupt, from send to receive.
    pub ipi_ns: u64,
    /// A periodic tick.
    pub tick_ns: u64,
    /// The work of one slow frequency switch in the sugov kthread, on top of `transition_latency_ns` of waiting.
    pub sugov_work_ns: u64,
}

/// How frequency changes are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpufreq {
    /// The driver: `scmi`, `cppc_cpufreq`, `acpi-cpufreq`, `intel_pstate`, `intel_cpufreq`, ...
    pub driver: DriverId,
    /// cpuinfo_transition_latency in ns (schedutil derives its rate limit from it).
    pub transition_latency_ns: u64,
    /// policy->transition_delay_us that the driver itself sets (schedutil's rate limit in us); 0: none, so that it is
    /// derived from the latency.
    pub transition_delay_us: u32,
    /// Whether the driver can switch from the scheduler's context.
    pub fast_switch: bool,
    /// How long the hardware takes to change the clock, in ns (a slow switch blocks the kthread as long).
    pub switch_ns: u64,
    /// How that time is distributed where it was measured: (percent, ns), from 0 to 100, uniform between two; empty where
    /// only [`Self::switch_ns`] is known.
    pub switch_quantiles: Vec<(u32, u64)>,
    /// Whether any CPU may change any policy's frequency.
    pub dvfs_possible_from_any_cpu: bool,
    /// Whether requests are resolved against a frequency table (the OPPs). Without one (cppc_cpufreq) any frequency
    /// between the lowest and the highest OPP may be asked for, and the hardware grants the lowest OPP that reaches it.
    pub freq_table: bool,
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

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where its numbers come from, for reports.
    pub provenance: String,
    /// Place of each CPU.
    pub cpus: Vec<CpuPlace>,
    /// Its clusters.
    pub clusters: Vec<Cluster>,
    /// Distances between NUMA nodes, row by row (10 on the diagonal).
    pub numa_distance: Vec<Vec<u32>>,
    /// Frequency changes, with the machine's own driver.
    pub cpufreq: Cpufreq,
    /// What else the machine can be driven with; a policy chooses by name. See [`Machine::driver`].
    pub other_drivers: Vec<Cpufreq>,
    /// Where invariance comes from.
    pub invariance: InvarianceSource,
    /// Costs of the machine's own actions.
    pub costs: Costs,
    /// Power of everything else that is always on and metered, in uW.
    pub floor_uw: u64,
    /// Speed of a hardware thread while its sibling is busy, in 1/1024 of its speed alone.
    pub smt_yield: u32,
    /// What a second busy thread of a core draws, in 1/1024 of what the first does: 1024 as much again.
    pub smt_power: u32,
    /// Whether a cluster state is entered only when all clusters of the machine may enter theirs (sockets of one fabric).
    pub cluster_idle_together: bool,
    /// Whether what clusters share (caches, mesh, memory controllers) follows the highest clock of any awake CPU of the
    /// machine, as the uncores of a server's sockets do; otherwise that of its own CPUs.
    pub shared_follows_machine: bool,
    /// Whether all cores of a cluster in one package run at one clock, the highest that an awake one asks for, whatever
    /// their policies are (Intel's client processors; a clock for each core came with Haswell-EP).
    pub package_clock: bool,
    /// True for an emulated machine in which the CPUs share one instruction stream, whatever their frequency or capacity:
    /// one executes at a time, the others stand still. See crate `sim`, `stream.rs`, for who.
    pub shared_stream: bool,
    /// True for an emulated machine whose CPUs execute in parallel, each as fast whatever its frequency or capacity.
    pub constant_speed: bool,
    /// Which processor it is, where that is known.
    pub processor: Option<Processor>,
    /// What the firmware says the machine is for.
    pub pm_profile: PmProfile,
    /// Power limits of a package, where they are known.
    pub package_power: Option<PackagePower>,
    /// Who else draws from the packages' budgets.
    pub consumers: Vec<Consumer>,
    /// Its disks; benchmarks use the first one.
    pub disks: Vec<Disk>,
    /// How a package heats up, if that is to limit it.
    pub thermal: Option<Thermal>,
    /// What kinds of programs make of its cores, in the order of the file.
    pub program_classes: Vec<ProgramClass>,
    /// Source of its numbers, as (what, source), in the order of the file.
    pub sources: Vec<(String, String)>,
    /// Within which ranges its assumed numbers may lie, in the order of the file.
    pub ranges: Vec<Range>,
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

    /// Whether some core has more than one thread.
    pub fn has_smt(&self) -> bool {
        let mut cores: Vec<u32> = self.cpus.iter().map(|place| place.core).collect();
        cores.sort_unstable();
        cores.windows(2).any(|pair| pair[0] == pair[1])
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
