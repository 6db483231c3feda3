//! What drivers report about themselves: what a governor's setup and a machine without better knowledge take from them.
//!
//! ```text
//!   hardware, firmware ─► driver ─► table in its order, cpuinfo's maximum, fast switch, delays ─► governor's setup
//!                           │
//!                           └─ modes: "intel_pstate" has governors of its own, "intel_cpufreq" runs any
//! ```
//! Not here: the drivers' own governors and requests (their files), latencies and what the hardware grants (machines).

use super::freq_table::TableOrder;
use crate::profile::{KernelProfile, Platform, UnknownLatency};

/// `cpuinfo.transition_latency` of a driver that does not know it, ns (include/linux/cpufreq.h, v6.12).
pub const CPUFREQ_ETERNAL: u32 = u32::MAX;
/// The same from v6.18 on.
pub const CPUFREQ_DEFAULT_TRANSITION_LATENCY_NS: u32 = 1_000_000;

/// Whether a driver sets frequencies in the scheduler's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastSwitch {
    /// On usual hardware.
    Yes,
    /// Where each CPU has a policy of its own.
    OwnPolicy,
    /// Never: a kthread has to sleep.
    No,
}

/// Which governors run on a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governors {
    /// Any.
    Any,
    /// The driver's own `performance` and `powersave`; `passive` is the mode that runs any.
    Own {
        /// The other mode's name.
        passive: &'static str,
    },
}

/// The driver's mode (`/sys/devices/system/cpu/amd_pstate/status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmdMode {
    /// The firmware chooses, guided by the preference.
    Active,
    /// A governor chooses.
    Passive,
    /// A governor sets the least, the firmware chooses above it.
    Guided,
}

/// Which driver it is, for what holds for one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// acpi-cpufreq.
    Acpi,
    /// amd-pstate in one of its modes.
    Amd(AmdMode),
    /// cppc_cpufreq.
    Cppc,
    /// intel_pstate in its active mode.
    IntelActive,
    /// intel_pstate in its passive mode, intel_cpufreq.
    IntelPassive,
    /// A table that firmware or device tree gives.
    FirmwareTable,
}

/// What a driver's times are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayFacts {
    /// `cpuinfo.transition_latency`, ns.
    pub transition_latency_ns: u64,
    /// Hardware P-states are in use.
    pub hwp: bool,
}

/// What `cpuinfo_max_freq` is made of.
#[derive(Debug, Clone, Copy)]
pub struct CpuinfoFacts<'a> {
    /// The kernel.
    pub profile: &'a KernelProfile,
    /// How the machine reports its speed.
    pub platform: Platform,
    /// The highest entry of the table, kHz.
    pub p0_khz: u32,
    /// The highest turbo clock, kHz; 0 without.
    pub turbo_khz: u32,
    /// The clock that is left without turbo, kHz, where that is switched off.
    pub no_turbo_khz: Option<u32>,
    /// What CPPC reports of the CPU.
    pub cppc: Option<CppcFacts<'a>>,
}

/// What CPPC reports of a CPU, as far as `cpuinfo_max_freq` goes by it.
#[derive(Debug, Clone, Copy)]
pub struct CppcFacts<'a> {
    /// Of this CPU.
    pub highest_perf: u32,
    /// Of this CPU.
    pub nominal_perf: u32,
    /// MHz; 0: unknown.
    pub nominal_freq_mhz: u32,
    /// Highest performance of each kind of CPU.
    pub highest_perfs: &'a [u32],
    /// The processor's family and model.
    pub family_model: (u32, u32),
}

/// A driver that can be named by a machine or a policy.
#[derive(Debug)]
pub struct DriverEntry {
    /// Its name in `scaling_driver`.
    pub name: &'static str,
    /// Which one it is.
    pub kind: DriverKind,
    /// What it drives, in a line.
    pub what: &'static str,
    /// It calls its frequencies P-states, P0 being the highest.
    pub p_states: bool,
    /// The order of its frequency table; `None`: it has none.
    pub table: Option<TableOrder>,
    /// Which governors run on it.
    pub governors: Governors,
    /// Whether it sets frequencies in the scheduler's context.
    pub fast_switch: FastSwitch,
    /// `dvfs_possible_from_any_cpu`.
    pub any_cpu: bool,
    /// It registers its table's energy model, so that the table knows its inefficient frequencies
    /// (energy_model.c:em_cpufreq_update_efficiencies(), v6.12).
    pub registers_em: bool,
    /// It takes a transition latency of 0 for one that nobody knows (drivers/cpufreq/cpufreq-dt.c:cpufreq_init(), v6.12).
    pub zero_is_unknown: bool,
    /// `policy->transition_delay_us` that it sets, 0: none.
    pub transition_delay_us: fn(&DelayFacts) -> u32,
    /// `cpuinfo.max_freq`, kHz.
    pub cpuinfo_max_khz: fn(&CpuinfoFacts<'_>) -> u32,
}

impl DriverEntry {
    /// A driver of a table of `order` that reports nothing else.
    pub const fn of_table(name: &'static str, what: &'static str, order: TableOrder) -> Self {
        Self {
            name,
            what,
            kind: DriverKind::FirmwareTable,
            p_states: false,
            table: Some(order),
            governors: Governors::Any,
            fast_switch: FastSwitch::No,
            any_cpu: false,
            registers_em: false,
            zero_is_unknown: false,
            transition_delay_us: |_| 0,
            cpuinfo_max_khz: |facts| facts.p0_khz,
        }
    }

    /// Whether it sets frequencies in the scheduler's context, where policies have several CPUs or not.
    pub fn switches_fast(&self, shared: bool) -> bool {
        match self.fast_switch {
            FastSwitch::Yes => true,
            FastSwitch::OwnPolicy => !shared,
            FastSwitch::No => false,
        }
    }

    /// `cpuinfo.transition_latency` where firmware, or clocks and regulators, take `told_ns`.
    pub fn transition_latency_ns(&self, told_ns: u64, profile: &KernelProfile) -> u32 {
        match profile.unknown_latency {
            _ if told_ns != 0 || !self.zero_is_unknown => u32::try_from(told_ns).unwrap_or(u32::MAX),
            UnknownLatency::Eternal => CPUFREQ_ETERNAL,
            UnknownLatency::Millisecond => CPUFREQ_DEFAULT_TRANSITION_LATENCY_NS,
        }
    }

    /// The frequencies, ascending, in the order of its table.
    pub fn in_table_order(&self, mut ascending_khz: Vec<u32>) -> Vec<u32> {
        if self.table == Some(TableOrder::Descending) {
            ascending_khz.reverse();
        }
        ascending_khz
    }
}
