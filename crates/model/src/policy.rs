//! What is compared: kernel profile, governor and its tunables, energy-aware scheduling, idle governor.

use crate::error::{Fault, Pos};
use crate::machine::Machine;
use crate::variation::Variation;

/// Which energy model the kernel is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnergyModelSource {
    /// None: EAS cannot run.
    None,
    /// The one that the machine's firmware or device tree registers (the OPPs' `power_uw`).
    Registered,
    /// The artificial one from CPPC efficiency classes.
    Artificial,
}

/// How tasks are placed on wake-up; all but the first are for tests and comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// As the kernel does.
    Kernel,
    /// A random allowed CPU.
    Random,
}

/// Whether intel_pstate raises HWP's lower limit after I/O (`intel_pstate/hwp_dynamic_boost`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HwpDynamicBoost {
    /// As the kernel decides: on servers, from v4.18 on.
    Auto,
    /// Yes.
    On,
    /// No.
    Off,
}

/// A limit that is set in sysfs: for all policies, or by cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetLimit {
    /// For the policies of clusters without a limit of their own, kHz; 0: none is set.
    pub all_khz: u32,
    /// By name of the cluster, kHz.
    pub by_cluster: Vec<(String, u32)>,
}

impl SetLimit {
    /// What is set for the policies of a cluster, kHz.
    pub fn of(&self, cluster: &str) -> Option<u32> {
        let own = self.by_cluster.iter().find(|(name, _)| name == cluster);
        own.map(|&(_, khz)| khz).or(Some(self.all_khz).filter(|&khz| khz > 0))
    }

    /// Whether none is set.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// A policy: everything that the user may change on a given machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What the user calls it; also the column of the table.
    pub label: String,
    /// Kernel profile, e.g. `5.18`.
    pub kernel: String,
    /// cpufreq driver; empty: the machine's own.
    pub driver: String,
    /// cpufreq governor, e.g. `schedutil`.
    pub governor: String,
    /// Governor tunables by sysfs name.
    pub tunables: Vec<(String, String)>,
    /// Idle governor: `menu`, `teo`, `ladder`, ...
    pub idle_governor: String,
    /// Whether energy-aware scheduling is switched on (it still needs an energy model).
    pub eas: bool,
    /// The energy model that the kernel is given.
    pub energy_model: EnergyModelSource,
    /// f_max of frequency invariance on x86: `max_P`, `mid`, `max_boost`, ...; empty: the profile's choice.
    pub freq_max: String,
    /// Frequency invariance: `none`, `scaled-contribution`, `time-dilated`; empty: the profile's choice.
    pub invariance: String,
    /// Gates of the kernel profile that are overridden, by name.
    pub gates: Vec<(String, String)>,
    /// What was posted for the kernel and not merged, and is added to it: `NAME` or `NAME:key=value,...`.
    pub proposals: Vec<String>,
    /// Timer frequency (CONFIG_HZ).
    pub hz: u32,
    /// PELT half-life in ms: 8, 16 or 32.
    pub pelt_half_life_ms: u32,
    /// `kernel.watchdog_thresh` in s: each CPU has a timer of 2/5 of it for the soft lockup detector; 0: none.
    pub watchdog_thresh_s: u32,
    /// CONFIG_IRQ_TIME_ACCOUNTING: time in interrupts is not the running task's, and has a utilisation of its own.
    pub irq_time_accounting: bool,
    /// Affinity of the sugov kthreads, one CPU list a policy CPU; empty: the kernel's own.
    pub sugov_cpus: Vec<u32>,
    /// `energy_performance_preference` under HWP: a name or 0 to 255; empty: the firmware's.
    pub epp: String,
    /// Whether I/O raises HWP's lower limit.
    pub hwp_dynamic_boost: HwpDynamicBoost,
    /// SLE 15's boost of tasks placed on an idle CPU, in intel_pstate's own governor (text 001).
    pub idle_boost: bool,
    /// `intel_pstate=no_hwp`: hardware P-states are not used.
    pub no_hwp: bool,
    /// Turbo and boost must not be used (`intel_pstate/no_turbo`, `cpufreq/boost`).
    pub no_turbo: bool,
    /// `scaling_min_freq`.
    pub scaling_min_freq: SetLimit,
    /// `scaling_max_freq`.
    pub scaling_max_freq: SetLimit,
    /// `intel_pstate/min_perf_pct`, in percent of the highest P-state.
    pub min_perf_pct: u32,
    /// `intel_pstate/max_perf_pct`.
    pub max_perf_pct: u32,
    /// How programs vary from run to run.
    pub variation: Variation,
    /// Test switch: overutilised state is never set.
    pub no_overutilized: bool,
    /// Test switch: costs of the energy model are reversed.
    pub reversed_energy_model: bool,
    /// Test switch: how tasks are placed.
    pub placement: Placement,
}

impl Policy {
    /// What a policy is where its file, Python or the command line do not say: programs vary as rt-app's do. A case says all that it
    /// is, and without the key nothing varies: that is the default of cases, and of recorded work.
    #[must_use]
    pub fn of_files() -> Self {
        Self { variation: Variation::RtApp, ..Self::default() }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            label: String::from("schedutil"),
            kernel: String::from("6.12.117"),
            driver: String::new(),
            governor: String::from("schedutil"),
            tunables: Vec::new(),
            idle_governor: String::from("menu"),
            eas: true,
            energy_model: EnergyModelSource::Registered,
            freq_max: String::new(),
            invariance: String::new(),
            gates: Vec::new(),
            proposals: Vec::new(),
            hz: 250,
            pelt_half_life_ms: 32,
            watchdog_thresh_s: 10,
            irq_time_accounting: false,
            sugov_cpus: Vec::new(),
            epp: String::new(),
            hwp_dynamic_boost: HwpDynamicBoost::Auto,
            idle_boost: false,
            no_hwp: false,
            no_turbo: false,
            scaling_min_freq: SetLimit::default(),
            scaling_max_freq: SetLimit::default(),
            min_perf_pct: 0,
            max_perf_pct: 100,
            variation: Variation::None,
            no_overutilized: false,
            reversed_energy_model: false,
            placement: Placement::Kernel,
        }
    }
}

impl Policy {
    /// Refuses a policy that does not fit `machine`; `at` is where it stands.
    ///
    /// # Errors
    /// A [`Fault`] for a driver or a CPU that the machine does not have.
    pub fn check_on(&self, machine: &Machine, at: Pos) -> Result<(), Fault> {
        if machine.driver(&self.driver).is_none() {
            let drivers = std::iter::once(&machine.cpufreq).chain(&machine.other_drivers);
            let what = format!("driver of machine {}", machine.name);
            return Err(Fault::unknown(at, &what, &self.driver, drivers.map(|driver| driver.driver.entry().name)));
        }
        if let Some(cpu) = self.sugov_cpus.iter().find(|&&cpu| cpu as usize >= machine.nr_cpus()) {
            let nr = machine.nr_cpus();
            let message = format!("`sugov_cpus`: CPU {cpu} does not exist: machine {} has {nr} CPUs", machine.name);
            return Err(Fault::new(at, message));
        }
        for (key, limit) in [("scaling_min_freq", &self.scaling_min_freq), ("scaling_max_freq", &self.scaling_max_freq)]
        {
            let clusters = || machine.clusters.iter().map(|cluster| cluster.name.as_str());
            if let Some((name, _)) = limit.by_cluster.iter().find(|(name, _)| !clusters().any(|known| known == name)) {
                let what = format!("cluster of `{key}` on machine {}", machine.name);
                return Err(Fault::unknown(at, &what, name, clusters()));
            }
        }
        for cluster in &machine.clusters {
            let set = (self.scaling_min_freq.of(&cluster.name), self.scaling_max_freq.of(&cluster.name));
            if let (Some(min), Some(max)) = set
                && min > max
            {
                let message =
                    format!("`scaling_min_freq` of {} is {min} kHz, above `scaling_max_freq`, {max}", cluster.name);
                return Err(Fault::new(at, message));
            }
        }
        if self.min_perf_pct > self.max_perf_pct {
            let (min, max) = (self.min_perf_pct, self.max_perf_pct);
            return Err(Fault::new(at, format!("`min_perf_pct` is {min}, above `max_perf_pct`, {max}")));
        }
        Ok(())
    }
}
