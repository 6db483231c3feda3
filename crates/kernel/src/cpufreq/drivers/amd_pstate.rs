//! The amd-pstate driver's requests: active, passive and guided mode (drivers/cpufreq/amd-pstate.c; v6.12, and v6.1).
//!
//! | mode | who chooses | request |
//! | --- | --- | --- |
//! | active | the firmware, by preference | limits and EPP, no desired performance: [`AmdCpu::set_policy`] |
//! | passive | a governor | desired performance between the limits: [`AmdCpu::target`], [`AmdCpu::adjust_perf`] |
//! | guided | the firmware, above what a governor asks | the governor's performance as the lower limit |
//!
//! Performance is CPPC's abstract unit, 8 bits. A request goes to a register or, on processors without it, to memory that
//! the firmware shares: [`CppcInterface`]. v6.1 ([`AmdForm::Unlimited`]) has the passive mode only, and the policy's limits
//! do not enter its requests. Not here: suspend and hotplug; what the firmware makes of a request; CPPC's conversions and
//! efficiency classes ([`crate::cpufreq::cppc`]).

use crate::cpufreq::driver::AmdMode;
use crate::cpufreq::driver::{DriverEntry, DriverKind, FastSwitch, Governors};
use crate::cpufreq::intel_pstate::PstatePolicy;
pub use crate::profile::{AmdForm, AmdMinFreq};
use crate::unit::{NSEC_PER_USEC, SCHED_CAPACITY_SHIFT};

/// Transition latency that the driver reports, ns.
pub const AMD_PSTATE_TRANSITION_LATENCY_NS: u32 = 20_000;
/// schedutil's rate limit, us.
pub const AMD_PSTATE_TRANSITION_DELAY_US: u32 = 1000;
/// schedutil's rate limit on CPUs that change performance fast (`X86_FEATURE_AMD_FAST_CPPC`), us.
pub const AMD_PSTATE_FAST_CPPC_TRANSITION_DELAY_US: u32 = 600;
/// Preferences by index: default (unused), performance, balance_performance, balance_power, power.
pub const AMD_EPP_VALUES: [u32; 5] = [0, 0x00, 0x80, 0xbf, 0xff];

/// `MSR_AMD_CPPC_REQ`: what software asks of the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AmdCppcRequest(
    /// The register's value.
    pub u64,
);

impl AmdCppcRequest {
    fn with(self, shift: u32, value: u64) -> Self {
        Self(self.0 & !(0xff << shift) | (value & 0xff) << shift)
    }

    /// Highest performance, bits 7:0.
    pub fn max(self) -> u8 {
        self.0 as u8
    }

    /// Lowest performance, bits 15:8.
    pub fn min(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Desired performance, bits 23:16; 0 leaves the choice to the firmware.
    pub fn desired(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// Energy-performance preference, bits 31:24.
    pub fn epp(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// What CPPC reports of a CPU, in performance units and MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdPerf {
    /// With boost.
    pub highest_perf: u32,
    /// Without boost.
    pub nominal_perf: u32,
    /// The most efficient level.
    pub lowest_nonlinear_perf: u32,
    /// The lowest level.
    pub lowest_perf: u32,
    /// Frequency of `nominal_perf`, MHz.
    pub nominal_mhz: u32,
    /// Frequency of `lowest_perf`, MHz.
    pub lowest_mhz: u32,
}

/// A CPU's frequencies, kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdFreqs {
    /// Of the lowest performance.
    pub min_khz: u32,
    /// Of the most efficient performance.
    pub lowest_nonlinear_khz: u32,
    /// Of the nominal performance.
    pub nominal_khz: u32,
    /// Of the highest performance.
    pub max_khz: u32,
}

impl AmdPerf {
    /// The frequencies, by proportion to the nominal one with a ratio in 1/1024; `None` for values with which the
    /// driver does not load (amd-pstate.c:amd_pstate_init_freq(), v6.12; amd_pstate_cpu_init(), v6.1).
    pub fn freqs(&self, form: AmdForm) -> Option<AmdFreqs> {
        let scaled = |perf: u32| {
            let ratio = u64::from(perf << SCHED_CAPACITY_SHIFT).checked_div(u64::from(self.nominal_perf))?;
            let mhz = match form {
                // The product has 32 bits since v6.10, 64 before.
                AmdForm::Unlimited => (u64::from(self.nominal_mhz).wrapping_mul(ratio) >> SCHED_CAPACITY_SHIFT) as u32,
                AmdForm::Limited => self.nominal_mhz.wrapping_mul(ratio as u32) >> SCHED_CAPACITY_SHIFT,
            };
            Some(mhz.wrapping_mul(1000))
        };
        let freqs = AmdFreqs {
            min_khz: self.lowest_mhz.wrapping_mul(1000),
            lowest_nonlinear_khz: scaled(self.lowest_nonlinear_perf)?,
            nominal_khz: self.nominal_mhz.wrapping_mul(1000),
            max_khz: scaled(self.highest_perf)?,
        };
        let ordered = match form {
            AmdForm::Unlimited => freqs.max_khz <= i32::MAX as u32 && freqs.min_khz <= freqs.max_khz,
            AmdForm::Limited => {
                freqs.min_khz > 0
                    && freqs.nominal_khz > 0
                    && freqs.min_khz <= freqs.max_khz
                    && freqs.min_khz < freqs.lowest_nonlinear_khz
                    && freqs.lowest_nonlinear_khz <= freqs.nominal_khz
            }
        };
        ordered.then_some(freqs)
    }
}

/// What the driver finds on a CPU when it loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdPlatform {
    /// Requests go through shared memory, not through a register (no `X86_FEATURE_CPPC`).
    pub shared_memory: bool,
    /// CPPC's levels and frequencies; `highest_perf` is the CPU's own.
    pub perf: AmdPerf,
    /// The highest level of all cores for the ratio of boost (`amd_get_boost_ratio_numerator()`), since v6.12.
    pub boost_ratio_numerator: u32,
    /// The highest level that the model has (`amd_get_highest_perf()`), before.
    pub model_highest_perf: u32,
    /// The processor has core performance boost (`X86_FEATURE_CPB`).
    pub has_cpb: bool,
    /// The firmware turned boost off (`MSR_K7_HWCR`, bit 25).
    pub cpb_disabled: bool,
    /// The processor changes performance fast (`X86_FEATURE_AMD_FAST_CPPC`).
    pub fast_cppc: bool,
    /// The transition latency that ACPI reports, ns.
    pub transition_latency_ns: Option<u32>,
}

/// Where requests go: a register with all fields, or fields in memory.
pub trait CppcInterface {
    /// Reads `MSR_AMD_CPPC_REQ`.
    fn read_req(&self) -> u64;
    /// Writes `MSR_AMD_CPPC_REQ`.
    fn write_req(&mut self, request: AmdCppcRequest);
    /// Writes the levels into shared memory (`cppc_set_perf()`).
    fn set_perf(&mut self, min: u32, desired: u32, max: u32);
    /// Reads the preference from shared memory (`cppc_get_epp_perf()`).
    ///
    /// # Errors
    /// [`AmdError::Io`] where the firmware has none.
    fn get_epp_perf(&self) -> Result<u64, AmdError>;
    /// Writes the preference into shared memory (`cppc_set_epp_perf()`).
    ///
    /// # Errors
    /// [`AmdError::Io`] where the firmware has none.
    fn set_epp_perf(&mut self, epp: u32) -> Result<(), AmdError>;
}

/// The register alone, or the same fields in shared memory: there the preference is not to be had.
impl CppcInterface for AmdCppcRequest {
    fn read_req(&self) -> u64 {
        self.0
    }
    fn write_req(&mut self, request: AmdCppcRequest) {
        *self = request;
    }
    fn set_perf(&mut self, min: u32, desired: u32, max: u32) {
        *self = self.with(0, max.into()).with(8, min.into()).with(16, desired.into());
    }
    fn get_epp_perf(&self) -> Result<u64, AmdError> {
        Err(AmdError::Io)
    }
    fn set_epp_perf(&mut self, _epp: u32) -> Result<(), AmdError> {
        Err(AmdError::Io)
    }
}

/// Why the driver refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmdError {
    /// The preference is not the user's under "performance".
    Busy,
    /// The registers' values are not usable, or the preference has no name.
    Invalid,
    /// The processor has no boost.
    NotSupported,
    /// The firmware has no preference.
    Io,
}

impl AmdError {
    /// The kernel's number.
    pub fn errno(self) -> i32 {
        match self {
            Self::Busy => -16,
            Self::Invalid => -22,
            Self::NotSupported => -95,
            Self::Io => -5,
        }
    }
}

/// What the cpufreq core keeps of a policy and the driver uses (`struct cpufreq_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdPolicy {
    /// What the driver reports as the present frequency, kHz.
    pub cur_khz: u32,
    /// Lower limit, kHz.
    pub min_khz: u32,
    /// Upper limit, kHz.
    pub max_khz: u32,
    /// The hardware's lowest frequency, kHz.
    pub cpuinfo_min_khz: u32,
    /// The hardware's highest frequency, kHz; that of the nominal level while boost is off.
    pub cpuinfo_max_khz: u32,
    /// The switch of boost.
    pub boost_enabled: bool,
    /// Transition latency, ns; 0 in active mode.
    pub transition_latency_ns: u32,
    /// Least time between two changes for schedutil, us; 0 in active mode.
    pub transition_delay_us: u32,
    /// A governor may change the frequency in the scheduler's context.
    pub fast_switch_possible: bool,
    /// The limits that were asked for last.
    requested: (u32, u32),
}

/// A CPU under amd-pstate (`struct amd_cpudata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdCpu {
    /// Which generation of the driver.
    pub form: AmdForm,
    /// The mode.
    pub mode: AmdMode,
    /// Requests go through shared memory.
    pub shared_memory: bool,
    /// The levels; `highest_perf` is the driver's, not always the CPU's own.
    pub perf: AmdPerf,
    /// The frequencies that belong to them.
    pub freqs: AmdFreqs,
    /// The rank of the core among others, higher is preferred (`prefcore_ranking`).
    pub prefcore_ranking: u32,
    /// The CPU can boost.
    pub boost_supported: bool,
    /// The core's part.
    pub policy: AmdPolicy,
    /// The request that was written last (`cppc_req_cached`).
    pub request: AmdCppcRequest,
    /// Active mode: who is to be pleased; `None` before the first [`AmdCpu::set_policy`].
    pub own_policy: Option<PstatePolicy>,
    /// The preference that was written last, or the error on reading it.
    pub epp_cached: i16,
    /// The firmware's preference at start, or the error on reading it.
    pub epp_default: i16,
    /// Lowest level that limits allow.
    pub min_limit_perf: u32,
    /// Highest level that limits allow.
    pub max_limit_perf: u32,
    /// The limits of which these levels were made, kHz.
    pub min_limit_khz: u32,
    /// The limits of which these levels were made, kHz.
    pub max_limit_khz: u32,
}

impl AmdCpu {
    /// The lower limit that a policy begins with, before user space sets one (amd-pstate.c:amd_pstate_verify(), v7.2).
    pub fn start_limits(&mut self, min_freq: AmdMinFreq) {
        self.policy.min_khz = match min_freq {
            AmdMinFreq::Lowest => self.freqs.min_khz,
            AmdMinFreq::LowestNonlinear => self.freqs.lowest_nonlinear_khz,
        };
    }

    /// The driver takes over a CPU (amd-pstate.c:amd_pstate_cpu_init(), amd_pstate_epp_cpu_init(), v6.12; v6.1).
    ///
    /// # Errors
    /// [`AmdError::Invalid`] where the driver does not load.
    pub fn init(
        form: AmdForm,
        mode: AmdMode,
        platform: &AmdPlatform,
        interface: &impl CppcInterface,
    ) -> Result<Self, AmdError> {
        let mut perf = platform.perf;
        perf.highest_perf = match form {
            AmdForm::Unlimited => platform.model_highest_perf.min(perf.highest_perf),
            AmdForm::Limited => platform.boost_ratio_numerator,
        };
        let freqs = perf.freqs(form).ok_or(AmdError::Invalid)?;
        let limited = form == AmdForm::Limited;
        let active = mode == AmdMode::Active;
        let boost_supported = match form {
            AmdForm::Unlimited => perf.highest_perf > perf.nominal_perf,
            AmdForm::Limited => platform.has_cpb && !platform.cpb_disabled,
        };
        let told_latency_ns = platform.transition_latency_ns.filter(|_| limited);
        let delay_us = told_latency_ns.map_or_else(
            || {
                if limited && platform.fast_cppc {
                    AMD_PSTATE_FAST_CPPC_TRANSITION_DELAY_US
                } else {
                    AMD_PSTATE_TRANSITION_DELAY_US
                }
            },
            |ns| ns / NSEC_PER_USEC as u32,
        );
        let policy = AmdPolicy {
            cur_khz: freqs.min_khz,
            min_khz: freqs.min_khz,
            max_khz: freqs.max_khz,
            cpuinfo_min_khz: freqs.min_khz,
            cpuinfo_max_khz: freqs.max_khz,
            boost_enabled: limited && boost_supported,
            transition_latency_ns: if active { 0 } else { told_latency_ns.unwrap_or(AMD_PSTATE_TRANSITION_LATENCY_NS) },
            transition_delay_us: if active { 0 } else { delay_us },
            fast_switch_possible: !active && !platform.shared_memory,
            requested: (0, u32::MAX),
        };
        let mut cpu = Self {
            form,
            mode,
            shared_memory: platform.shared_memory,
            perf,
            freqs,
            prefcore_ranking: platform.perf.highest_perf,
            boost_supported,
            policy,
            request: AmdCppcRequest::default(),
            own_policy: None,
            epp_cached: 0,
            epp_default: 0,
            min_limit_perf: if limited { perf.lowest_perf } else { 0 },
            max_limit_perf: if limited { perf.highest_perf } else { 0 },
            min_limit_khz: if limited && !active { freqs.min_khz } else { 0 },
            max_limit_khz: if limited && !active { freqs.max_khz } else { 0 },
        };
        if active {
            cpu.epp_default = cpu.get_epp(AmdCppcRequest(0), interface).unwrap_or_else(|error| error.errno() as i16);
            cpu.epp_cached = cpu.epp_default;
            if !cpu.shared_memory {
                cpu.request = AmdCppcRequest(interface.read_req());
            }
        }
        Ok(cpu)
    }

    /// The core has new limits; they take effect with the next request
    /// (amd-pstate.c:amd_pstate_verify(), include/linux/cpufreq.h:cpufreq_verify_within_limits(), v6.12).
    pub fn set_limits(&mut self, min_khz: u32, max_khz: u32) {
        let policy = &mut self.policy;
        policy.requested = (min_khz, max_khz);
        let (low, high) = (policy.cpuinfo_min_khz, policy.cpuinfo_max_khz);
        policy.max_khz = max_khz.max(low).min(high);
        policy.min_khz = min_khz.max(low).min(high).min(policy.max_khz);
    }

    /// The switch of boost (amd-pstate.c:amd_pstate_set_boost(), and the refresh of the limits by the core).
    ///
    /// # Errors
    /// [`AmdError`] for a processor without boost.
    pub fn set_boost(&mut self, on: bool) -> Result<(), AmdError> {
        if !self.boost_supported {
            return Err(match self.form {
                AmdForm::Unlimited => AmdError::Invalid,
                AmdForm::Limited => AmdError::NotSupported,
            });
        }
        let nominal_khz = self.freqs.nominal_khz;
        let policy = &mut self.policy;
        if on {
            policy.cpuinfo_max_khz = self.freqs.max_khz;
        } else if self.form == AmdForm::Unlimited || policy.cpuinfo_max_khz > nominal_khz {
            policy.cpuinfo_max_khz = nominal_khz;
        }
        policy.boost_enabled = self.form == AmdForm::Limited && on;
        let (min_khz, max_khz) = policy.requested;
        self.set_limits(min_khz, max_khz);
        Ok(())
    }

    /// The highest level with the switch of boost as it is.
    fn top_perf(&self) -> u32 {
        let capped = self.boost_supported && !self.policy.boost_enabled;
        if capped { self.perf.nominal_perf } else { self.perf.highest_perf }
    }

    /// amd-pstate.c:amd_pstate_update_min_max_limit(), v6.12.
    fn update_limit_perfs(&mut self) {
        let top = self.top_perf();
        // The product has 32 bits in the kernel, too.
        let share = |khz: u32| khz.wrapping_mul(top).checked_div(self.policy.cpuinfo_max_khz).unwrap_or(0);
        self.min_limit_perf = share(self.policy.min_khz).max(self.perf.lowest_perf);
        self.max_limit_perf = share(self.policy.max_khz).max(self.min_limit_perf);
    }

    fn follow_limits(&mut self) {
        let (min_khz, max_khz) = (self.policy.min_khz, self.policy.max_khz);
        if self.form == AmdForm::Limited && (min_khz, max_khz) != (self.min_limit_khz, self.max_limit_khz) {
            self.update_limit_perfs();
            (self.min_limit_khz, self.max_limit_khz) = (min_khz, max_khz);
        }
    }

    /// Carries out a governor's frequency; true if the request was written (amd-pstate.c:amd_pstate_target(), v6.12).
    /// `dynamic_switching` is true for governors that follow the load.
    pub fn target(&mut self, freq_khz: u32, dynamic_switching: bool, interface: &mut impl CppcInterface) -> bool {
        let written = self.update_freq(freq_khz, dynamic_switching, interface);
        if self.freqs.max_khz != 0 {
            // The core's, at the end of the transition.
            self.policy.cur_khz = freq_khz;
        }
        written
    }

    /// The same in the scheduler's context (amd-pstate.c:amd_pstate_fast_switch(), v6.12).
    pub fn fast_switch(&mut self, freq_khz: u32, dynamic_switching: bool, interface: &mut impl CppcInterface) -> u32 {
        if self.freqs.max_khz == 0 {
            return self.policy.cur_khz;
        }
        self.update_freq(freq_khz, dynamic_switching, interface);
        freq_khz
    }

    /// amd-pstate.c:amd_pstate_update_freq(), v6.12 and v6.1.
    fn update_freq(&mut self, freq_khz: u32, dynamic_switching: bool, interface: &mut impl CppcInterface) -> bool {
        if self.freqs.max_khz == 0 {
            return false;
        }
        self.follow_limits();
        let max_khz = u64::from(self.freqs.max_khz);
        let highest = u64::from(self.perf.highest_perf);
        let desired = (u64::from(freq_khz) * highest + max_khz / 2) / max_khz;
        self.update(u64::from(self.perf.lowest_perf), desired, highest, dynamic_switching, interface)
    }

    /// schedutil's way: utilisation of a capacity instead of a frequency. The lower limit never goes below the most
    /// efficient level. True if the request was written (amd-pstate.c:amd_pstate_adjust_perf(), v6.12 and v6.1).
    pub fn adjust_perf(
        &mut self,
        min_perf: u64,
        target_perf: u64,
        capacity: u64,
        interface: &mut impl CppcInterface,
    ) -> bool {
        self.follow_limits();
        let highest = u64::from(self.perf.highest_perf);
        let share = |perf: u64, otherwise: u64| {
            if perf < capacity {
                highest.wrapping_mul(perf).wrapping_add(capacity).wrapping_sub(1) / capacity
            } else {
                otherwise
            }
        };
        let min = share(min_perf, u64::from(self.perf.lowest_perf)).max(u64::from(self.perf.lowest_nonlinear_perf));
        let max = highest.max(min);
        let desired = share(target_perf, highest).max(min).min(max);
        if self.form == AmdForm::Unlimited {
            let khz = desired.wrapping_mul(u64::from(self.freqs.max_khz)).checked_div(max & u64::from(u32::MAX));
            self.policy.cur_khz = khz.unwrap_or(0) as u32;
        }
        self.update(min, desired, max, true, interface)
    }

    /// amd-pstate.c:amd_pstate_update(), v6.12 and v6.1.
    fn update(
        &mut self,
        min: u64,
        desired: u64,
        max: u64,
        dynamic_switching: bool,
        interface: &mut impl CppcInterface,
    ) -> bool {
        // Arguments are 32 bits wide; the upper limit of a clamp wins.
        let cut = |perf: u64| perf & u64::from(u32::MAX);
        let (mut min, mut max, mut desired) = (cut(min), cut(max), cut(desired));
        if self.form == AmdForm::Limited {
            let (low, high) = (u64::from(self.min_limit_perf), u64::from(self.max_limit_perf));
            min = min.max(low).min(high);
            max = max.max(low).min(high);
            desired = desired.max(min).min(max);
            let khz = desired.wrapping_mul(u64::from(self.max_limit_khz)).checked_div(max);
            self.policy.cur_khz = khz.unwrap_or(0) as u32;
            if self.mode == AmdMode::Guided && dynamic_switching {
                min = desired;
                desired = 0;
            }
            if !self.boost_supported {
                max = max.min(u64::from(self.perf.nominal_perf));
            }
        } else {
            desired = desired.max(min).min(max);
        }
        let previous = self.request;
        self.request = previous.with(8, min).with(16, desired).with(0, max);
        let changed = self.request != previous;
        if changed {
            self.update_perf(min as u32, desired as u32, max as u32, interface);
        }
        changed
    }

    /// amd-pstate.c:amd_pstate_update_perf(), v6.12.
    fn update_perf(&self, min: u32, desired: u32, max: u32, interface: &mut impl CppcInterface) {
        if self.shared_memory {
            interface.set_perf(min, desired, max);
        } else {
            interface.write_req(self.request);
        }
    }

    /// The preference (amd-pstate.c:amd_pstate_get_epp(), v6.12).
    fn get_epp(&self, cached: AmdCppcRequest, interface: &impl CppcInterface) -> Result<i16, AmdError> {
        if self.shared_memory {
            return interface.get_epp_perf().map(|epp| (epp & 0xff) as i16);
        }
        let request = if cached.0 == 0 { AmdCppcRequest(interface.read_req()) } else { cached };
        Ok(i16::from(request.epp()))
    }

    /// Writes a preference (amd-pstate.c:amd_pstate_set_epp(), v6.12).
    ///
    /// # Errors
    /// [`AmdError::Io`] where the firmware has none.
    pub fn set_epp(&mut self, epp: i16, interface: &mut impl CppcInterface) -> Result<(), AmdError> {
        if self.shared_memory {
            self.update_perf(self.min_limit_perf, 0, self.max_limit_perf, interface);
            interface.set_epp_perf(i32::from(epp) as u32)?;
        } else {
            self.request = self.request.with(24, u64::from(epp as u16));
            interface.write_req(self.request);
        }
        self.epp_cached = epp;
        Ok(())
    }

    /// A preference by its place in [`AMD_EPP_VALUES`]; 0 is the firmware's at start
    /// (amd-pstate.c:amd_pstate_set_energy_pref_index(), v6.12).
    ///
    /// # Errors
    /// [`AmdError::Busy`] under "performance", unless it is performance.
    pub fn set_energy_pref_index(&mut self, index: usize, interface: &mut impl CppcInterface) -> Result<(), AmdError> {
        let epp = match index {
            0 if i32::from(self.epp_default) != AmdError::Invalid.errno() => self.epp_default,
            _ => *AMD_EPP_VALUES.get(index).ok_or(AmdError::Invalid)? as i16,
        };
        if epp > 0 && self.own_policy == Some(PstatePolicy::Performance) {
            return Err(AmdError::Busy);
        }
        self.set_epp(epp, interface)
    }

    /// The preference's place in [`AMD_EPP_VALUES`] (amd-pstate.c:amd_pstate_get_energy_pref_index(), v6.12).
    ///
    /// # Errors
    /// [`AmdError`] if it has none.
    pub fn get_energy_pref_index(&self, interface: &impl CppcInterface) -> Result<usize, AmdError> {
        let epp = self.get_epp(AmdCppcRequest(0), interface)?;
        let place = AMD_EPP_VALUES.iter().skip(1).position(|&value| value as i16 == epp);
        place.map(|at| at + 1).ok_or(AmdError::Invalid)
    }

    /// Active mode: the driver's own governor, or limits that changed
    /// (amd-pstate.c:amd_pstate_epp_set_policy(), amd_pstate_epp_update_limit(), v6.12). "performance" sets the
    /// preference 0 and raises the lower limit to the nominal level.
    ///
    /// # Errors
    /// [`AmdError::Io`] where the firmware has no preference.
    pub fn set_policy(&mut self, own: PstatePolicy, interface: &mut impl CppcInterface) -> Result<(), AmdError> {
        self.own_policy = Some(own);
        self.update_limit_perfs();
        let limit = |perf: u32| perf.max(self.min_limit_perf).min(self.max_limit_perf);
        let max = limit(self.top_perf());
        let min = match own {
            PstatePolicy::Performance => self.perf.nominal_perf.min(max),
            PstatePolicy::Powersave => limit(self.perf.lowest_perf),
        };
        let request = self.request.with(8, u64::from(min)).with(0, u64::from(max)).with(16, 0);
        let epp = self.get_epp(request, interface)?;
        let epp = if own == PstatePolicy::Performance { 0 } else { epp };
        self.request = if self.shared_memory { request } else { request.with(24, epp as u64) };
        self.set_epp(epp, interface)?;
        // Never updated in this mode; kept within the limits.
        self.policy.cur_khz = self.policy.min_khz;
        Ok(())
    }
}

/// The active mode, the passive one, and guided, which is the passive one with another request; sysfs calls both amd-pstate.
pub static DRIVERS: &[DriverEntry] = &[
    DriverEntry {
        name: "amd-pstate-epp",
        kind: DriverKind::Amd(AmdMode::Active),
        what: "AMD by CPPC, the firmware chooses (active mode)",
        governors: Governors::Own { passive: "amd-pstate" },
        transition_delay_us: |_| 0,
        ..PASSIVE
    },
    PASSIVE,
    DriverEntry {
        name: "amd-pstate-guided",
        kind: DriverKind::Amd(AmdMode::Guided),
        what: "AMD by CPPC, a governor sets the least, the firmware chooses above it (guided mode)",
        ..PASSIVE
    },
];

const PASSIVE: DriverEntry = DriverEntry {
    name: "amd-pstate",
    kind: DriverKind::Amd(AmdMode::Passive),
    what: "AMD by CPPC, a governor chooses (passive mode)",
    p_states: true,
    table: None,
    governors: Governors::Any,
    fast_switch: FastSwitch::Yes,
    any_cpu: false,
    registers_em: false,
    zero_is_unknown: false,
    transition_delay_us: |_| AMD_PSTATE_TRANSITION_DELAY_US,
    cpuinfo_max_khz: |facts| match facts.cppc {
        Some(cppc) if cppc.nominal_perf > 0 && cppc.highest_perf > cppc.nominal_perf => {
            let nominal_khz = if cppc.nominal_freq_mhz > 0 { cppc.nominal_freq_mhz * 1000 } else { facts.p0_khz };
            // amd-pstate.c:amd_pstate_cpu_boost_update(), v6.12; amd_pstate_set_boost(), v6.1.
            if facts.no_turbo_khz.is_some() {
                return nominal_khz;
            }
            let ratio = (u64::from(cppc.highest_perf) << SCHED_CAPACITY_SHIFT) / u64::from(cppc.nominal_perf);
            ((u64::from(nominal_khz / 1000) * ratio) >> SCHED_CAPACITY_SHIFT) as u32 * 1000
        }
        _ => facts.p0_khz,
    },
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A desktop Zen: nominal 3.4 GHz at 120, boost to 166.
    const PERF: AmdPerf = AmdPerf {
        highest_perf: 166,
        nominal_perf: 120,
        lowest_nonlinear_perf: 60,
        lowest_perf: 20,
        nominal_mhz: 3400,
        lowest_mhz: 550,
    };

    const PLATFORM: AmdPlatform = AmdPlatform {
        shared_memory: false,
        perf: PERF,
        boost_ratio_numerator: 166,
        model_highest_perf: 166,
        has_cpb: true,
        cpb_disabled: false,
        fast_cppc: false,
        transition_latency_ns: None,
    };

    fn cpu(mode: AmdMode) -> AmdCpu {
        let firmware = AmdCppcRequest(0x8000_0000);
        AmdCpu::init(AmdForm::Limited, mode, &PLATFORM, &firmware).expect("a valid CPU")
    }

    #[test]
    fn frequencies_from_performance() {
        let freqs = PERF.freqs(AmdForm::Limited).expect("a valid CPU");
        assert_eq!((freqs.min_khz, freqs.nominal_khz, freqs.max_khz), (550_000, 3_400_000, 4_701_000));
        assert_eq!(freqs.lowest_nonlinear_khz, 1_700_000);
        assert!(AmdPerf { nominal_perf: 0, ..PERF }.freqs(AmdForm::Limited).is_none());
        assert!(AmdPerf { lowest_mhz: 2000, ..PERF }.freqs(AmdForm::Limited).is_none());
        assert!(AmdPerf { lowest_mhz: 2000, ..PERF }.freqs(AmdForm::Unlimited).is_some());
    }

    /// Passive asks for the performance; guided makes it the least and leaves the rest to the firmware.
    #[test]
    fn passive_and_guided() {
        let fields = |mode| {
            let (mut cpu, mut register) = (cpu(mode), AmdCppcRequest(0));
            assert!(cpu.adjust_perf(0, 512, 1024, &mut register));
            assert!(!cpu.adjust_perf(0, 512, 1024, &mut register), "the same request is not written again");
            (register.min(), register.desired(), register.max())
        };
        assert_eq!(fields(AmdMode::Passive), (60, 83, 166));
        assert_eq!(fields(AmdMode::Guided), (83, 0, 166));
    }

    /// Limits enter requests in v6.12, not in v6.1.
    #[test]
    fn targets_are_proportional() {
        let check = |form, limited: (u8, u8)| {
            let mut register = AmdCppcRequest(0);
            let mut cpu = AmdCpu::init(form, AmdMode::Passive, &PLATFORM, &register).expect("a valid CPU");
            cpu.target(2_350_000, true, &mut register);
            assert_eq!((register.min(), register.desired(), register.max()), (20, 83, 166));
            cpu.set_limits(550_000, 2_350_000);
            cpu.target(4_701_000, true, &mut register);
            assert_eq!((register.desired(), register.max()), limited, "{form:?}");
        };
        check(AmdForm::Limited, (82, 82));
        check(AmdForm::Unlimited, (166, 166));
    }

    #[test]
    fn active_mode_sets_limits_and_preference() {
        let (mut cpu, mut register) = (cpu(AmdMode::Active), AmdCppcRequest(0));
        let mut check = |policy, index, boost, expected| {
            cpu.set_boost(boost).expect("it boosts");
            cpu.set_policy(policy, &mut register).expect("a register has a preference");
            let refused = cpu.set_energy_pref_index(index, &mut register).err();
            assert_eq!(refused, (policy == PstatePolicy::Performance).then_some(AmdError::Busy));
            assert_eq!((register.min(), register.desired(), register.max(), register.epp()), expected);
        };
        check(PstatePolicy::Powersave, 2, true, (20, 0, 166, 0x80));
        check(PstatePolicy::Performance, 2, true, (120, 0, 166, 0));
        check(PstatePolicy::Powersave, 3, false, (20, 0, 120, 0xbf));
    }

    proptest! {
        /// Nothing panics, whatever the driver would refuse to load for.
        #[test]
        fn any_input(
            perf: (u32, u32, u32, u32, u32, u32), khz: (u32, u32, u32), util: (u64, u64, u64), boost: bool, epp: u8,
            guided: bool, shared_memory: bool,
        ) {
            let perf = AmdPerf {
                highest_perf: perf.0, nominal_perf: perf.1, lowest_nonlinear_perf: perf.2, lowest_perf: perf.3,
                nominal_mhz: perf.4, lowest_mhz: perf.5,
            };
            let mode = if guided { AmdMode::Guided } else { AmdMode::Passive };
            for form in AmdForm::ALL.iter().copied() {
                let mut register = AmdCppcRequest(0);
                let mut cpu = AmdCpu { form, perf, boost_supported: boost, shared_memory, ..self::cpu(mode) };
                cpu.freqs.max_khz = khz.2;
                cpu.set_limits(khz.0, khz.1);
                cpu.target(khz.2, boost, &mut register);
                cpu.fast_switch(khz.0, boost, &mut register);
                cpu.adjust_perf(util.0, util.1, util.2, &mut register);
                let _ = cpu.set_boost(boost);
                let _ = cpu.set_policy(PstatePolicy::Performance, &mut register);
                let _ = cpu.set_energy_pref_index(epp.into(), &mut register);
                let _ = cpu.get_energy_pref_index(&register);
                let _ = AmdCpu::init(form, mode, &AmdPlatform { perf, boost_ratio_numerator: khz.0, ..PLATFORM }, &register);
            }
        }

        /// More utilisation never asks for less.
        #[test]
        fn adjust_perf_is_monotonic(min_perf in 0..=1024u64, target in 0..=1024u64, more in 0..=1024u64) {
            let desired = |target| {
                let (mut cpu, mut register) = (cpu(AmdMode::Passive), AmdCppcRequest(0));
                cpu.adjust_perf(min_perf, target, 1024, &mut register);
                assert!(register.min() <= register.desired() && register.desired() <= register.max());
                register.desired()
            };
            prop_assert!(desired(target + more) >= desired(target));
        }
    }
}
