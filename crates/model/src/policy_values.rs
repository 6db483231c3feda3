//! The values that a policy's keys have beside numbers and texts.

use opplab_kernel::profile::{DelayDequeue, FairClass, KernelProfile, SelectIdleScan, UtilEst};

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
}

/// A feature of the scheduler that may be switched in debugfs (kernel/sched/features.h).
#[derive(Debug)]
pub struct SchedFeature {
    /// Its name.
    pub name: &'static str,
    /// Whether it is on by default.
    pub is_on: bool,
    /// Whether a kernel has it.
    pub is_in: fn(&KernelProfile) -> bool,
}

/// Those that the engine knows on and off; the others are as the kernel has them.
pub const SCHED_FEATURES: &[SchedFeature] = &[
    SchedFeature { name: "UTIL_EST", is_on: true, is_in: |profile| profile.util_est != UtilEst::Absent },
    SchedFeature { name: "WAKEUP_PREEMPTION", is_on: true, is_in: |_| true },
    SchedFeature { name: "RUN_TO_PARITY", is_on: true, is_in: |profile| profile.fair_class == FairClass::Eevdf },
    SchedFeature { name: "NEXT_BUDDY", is_on: false, is_in: |profile| profile.fair_class == FairClass::Eevdf },
    SchedFeature { name: "DELAY_DEQUEUE", is_on: true, is_in: |profile| profile.delay_dequeue == DelayDequeue::On },
    SchedFeature {
        name: "SIS_UTIL",
        is_on: true,
        is_in: |profile| profile.select_idle_scan == SelectIdleScan::SisUtil,
    },
];

/// The keys of a policy that may change while a run goes on.
pub const CHANGEABLE: &[&str] = &[
    "governor",
    "tunables",
    "eas",
    "epp",
    "scaling_min_freq",
    "scaling_max_freq",
    "min_perf_pct",
    "max_perf_pct",
    "no_turbo",
    "offline_cpus",
    "nosmt",
];
