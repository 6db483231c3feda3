//! Counters of a machine as a meter reads them: what a run, or a host, has added up so far.
//!
//! A [`Sample`] is a snapshot; meters (crate `meter`) work on the differences of two. It holds no rates and no units of
//! any meter: a RAPL-like counter, turbostat's table and a battery gauge are made of the same samples.

/// Counters of one CPU since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuCounters {
    /// Cycles of the granted clock while the CPU executed (MSR_IA32_APERF).
    pub aperf: u64,
    /// Cycles of the base clock while the CPU executed (MSR_IA32_MPERF).
    pub mperf: u64,
    /// Cycles of the base clock.
    pub tsc: u64,
    /// Time in each idle state in ns, as cpuidle counts it.
    pub idle_ns: Vec<u64>,
    /// How often each idle state was entered.
    pub idle_entries: Vec<u64>,
    /// Energy of the CPU alone in uW x ns (fJ).
    pub energy_fj: u128,
}

/// Counters of the machine at one instant, since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// Time since the start in ns.
    pub time_ns: u64,
    /// By CPU.
    pub cpus: Vec<CpuCounters>,
    /// By cluster: energy of its CPUs and of what they share, in fJ.
    pub cluster_energy_fj: Vec<u128>,
    /// By consumer of the machine that is no CPU (a GPU), in fJ.
    pub consumer_energy_fj: Vec<u128>,
    /// Energy of the rest of the machine in fJ.
    pub floor_energy_fj: u128,
}
