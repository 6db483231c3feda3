//! The amd-pstate driver's requests: active, passive and guided mode (drivers/cpufreq/amd-pstate.c, v6.12).
//!
//! | mode | who chooses | request |
//! | --- | --- | --- |
//! | active | the firmware, by preference | limits and EPP, no desired performance: [`AmdCpu::epp_update_limit`] |
//! | passive | a governor | desired performance between the limits: [`AmdCpu::target`], [`AmdCpu::adjust_perf`] |
//! | guided | the firmware, above what a governor asks | the governor's performance as the lower limit |
//!
//! Performance is CPPC's abstract unit, 8 bits. The basics only: no preferred-core ranking, no shared-memory
//! interface, no suspend. Written from reading the driver; there are no vectors of it. Not here: what the firmware
//! makes of a request; CPPC's conversions and efficiency classes ([`crate::cpufreq::cppc`]).

use crate::cpufreq::intel_pstate::PstatePolicy;
use crate::unit::SCHED_CAPACITY_SHIFT;

/// Transition latency that the driver reports, ns.
pub const AMD_PSTATE_TRANSITION_LATENCY_NS: u32 = 20_000;
/// schedutil's rate limit, us.
pub const AMD_PSTATE_TRANSITION_DELAY_US: u32 = 1000;
/// schedutil's rate limit on CPUs that change performance fast (`X86_FEATURE_AMD_FAST_CPPC`), us.
pub const AMD_PSTATE_FAST_CPPC_TRANSITION_DELAY_US: u32 = 600;
/// Preferences by index: default (unused), performance, balance_performance, balance_power, power.
pub const AMD_EPP_VALUES: [u32; 5] = [0, 0x00, 0x80, 0xbf, 0xff];

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

/// What CPPC says about a CPU, in performance units and MHz.
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
    /// driver does not load (amd-pstate.c:amd_pstate_init_freq(), v6.12).
    pub fn freqs(&self) -> Option<AmdFreqs> {
        let scaled = |perf: u32| {
            let ratio = (u64::from(perf) << SCHED_CAPACITY_SHIFT).checked_div(u64::from(self.nominal_perf))? as u32;
            Some((self.nominal_mhz.wrapping_mul(ratio) >> SCHED_CAPACITY_SHIFT).wrapping_mul(1000))
        };
        let freqs = AmdFreqs {
            min_khz: self.lowest_mhz.wrapping_mul(1000),
            lowest_nonlinear_khz: scaled(self.lowest_nonlinear_perf)?,
            nominal_khz: self.nominal_mhz.wrapping_mul(1000),
            max_khz: scaled(self.highest_perf)?,
        };
        let ordered = freqs.min_khz > 0
            && freqs.nominal_khz > 0
            && freqs.min_khz <= freqs.max_khz
            && freqs.min_khz < freqs.lowest_nonlinear_khz
            && freqs.lowest_nonlinear_khz <= freqs.nominal_khz;
        ordered.then_some(freqs)
    }
}

/// A CPU under amd-pstate (`struct amd_cpudata`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmdCpu {
    /// What CPPC says.
    pub perf: AmdPerf,
    /// The mode.
    pub mode: AmdMode,
    /// The highest frequency of the hardware, kHz.
    pub max_khz: u32,
    /// The CPU can boost.
    pub boost_supported: bool,
    /// The request that was written last.
    pub request: AmdCppcRequest,
    /// What the driver reports as the present frequency, kHz.
    pub cur_khz: u32,
    min_limit_perf: u32,
    max_limit_perf: u32,
    max_limit_khz: u32,
}

impl AmdCpu {
    /// A CPU without any request yet, limited by nothing; `None` if the driver would not load.
    pub fn new(perf: AmdPerf, mode: AmdMode) -> Option<Self> {
        let freqs = perf.freqs()?;
        let mut cpu = Self {
            perf,
            mode,
            max_khz: freqs.max_khz,
            boost_supported: perf.highest_perf > perf.nominal_perf,
            request: AmdCppcRequest::default(),
            cur_khz: freqs.nominal_khz,
            min_limit_perf: 0,
            max_limit_perf: 0,
            max_limit_khz: 0,
        };
        cpu.set_limits(freqs.min_khz, freqs.max_khz, true);
        Some(cpu)
    }

    /// Takes over a policy's limits; `boost_enabled` is the policy's switch
    /// (amd-pstate.c:amd_pstate_update_min_max_limit(), v6.12).
    pub fn set_limits(&mut self, min_khz: u32, max_khz: u32, boost_enabled: bool) {
        let top = if self.boost_supported && !boost_enabled { self.perf.nominal_perf } else { self.perf.highest_perf };
        // The product has 32 bits in the kernel, too.
        let share = |khz: u32| khz.wrapping_mul(top).checked_div(self.max_khz).unwrap_or(0);
        self.min_limit_perf = share(min_khz).max(self.perf.lowest_perf);
        self.max_limit_perf = share(max_khz).max(self.min_limit_perf);
        self.max_limit_khz = max_khz;
    }

    /// Carries out a governor's frequency; true if the request has to be written
    /// (amd-pstate.c:amd_pstate_update_freq(), v6.12). `dynamic_switching` is true for governors that follow the load.
    pub fn target(&mut self, freq_khz: u32, dynamic_switching: bool) -> bool {
        if self.max_khz == 0 {
            return false;
        }
        let max_khz = u64::from(self.max_khz);
        let desired = (u64::from(freq_khz) * u64::from(self.perf.highest_perf) + max_khz / 2) / max_khz;
        self.update(u64::from(self.perf.lowest_perf), desired, u64::from(self.perf.highest_perf), dynamic_switching)
    }

    /// schedutil's way: utilisation of a capacity instead of a frequency. The lower limit never goes below the most
    /// efficient level. True if the request has to be written (amd-pstate.c:amd_pstate_adjust_perf(), v6.12).
    pub fn adjust_perf(&mut self, min_perf: u64, target_perf: u64, capacity: u64) -> bool {
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
        self.update(min, desired, max, true)
    }

    /// amd-pstate.c:amd_pstate_update(), v6.12.
    fn update(&mut self, min: u64, desired: u64, max: u64, dynamic_switching: bool) -> bool {
        let (low, high) = (u64::from(self.min_limit_perf), u64::from(self.max_limit_perf));
        // Arguments are 32 bits wide; the upper limit of a clamp wins.
        let cut = |perf: u64| perf & u64::from(u32::MAX);
        let mut min = cut(min).max(low).min(high);
        let mut max = cut(max).max(low).min(high);
        let mut desired = cut(desired).max(min).min(max);
        self.cur_khz = desired.wrapping_mul(u64::from(self.max_limit_khz)).checked_div(max).unwrap_or(0) as u32;
        if self.mode == AmdMode::Guided && dynamic_switching {
            min = desired;
            desired = 0;
        }
        if !self.boost_supported {
            max = max.min(u64::from(self.perf.nominal_perf));
        }
        let previous = self.request;
        self.request = previous.with(8, min).with(16, desired).with(0, max);
        self.request != previous
    }

    /// Active mode: the request after a change of policy, limits or preference; `epp` is the preference in force
    /// (ignored under "performance", which sets 0 and raises the lower limit to the nominal performance)
    /// (amd-pstate.c:amd_pstate_epp_update_limit(), v6.12). True if it has to be written.
    pub fn epp_update_limit(
        &mut self,
        policy: PstatePolicy,
        epp: u8,
        min_khz: u32,
        max_khz: u32,
        boost_enabled: bool,
    ) -> bool {
        self.set_limits(min_khz, max_khz, boost_enabled);
        let top = if self.boost_supported && !boost_enabled { self.perf.nominal_perf } else { self.perf.highest_perf };
        let limit = |perf: u32| perf.max(self.min_limit_perf).min(self.max_limit_perf);
        let max = limit(top);
        let (min, epp) = match policy {
            PstatePolicy::Performance => (self.perf.nominal_perf.min(max), 0),
            PstatePolicy::Powersave => (limit(self.perf.lowest_perf), epp),
        };
        let previous = self.request;
        self.request = previous.with(8, u64::from(min)).with(0, u64::from(max)).with(16, 0).with(24, u64::from(epp));
        self.request != previous
    }
}

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

    fn cpu(mode: AmdMode) -> AmdCpu {
        AmdCpu::new(PERF, mode).expect("a valid CPU")
    }

    #[test]
    fn frequencies_from_performance() {
        let freqs = PERF.freqs().expect("a valid CPU");
        assert_eq!((freqs.min_khz, freqs.nominal_khz, freqs.max_khz), (550_000, 3_400_000, 4_701_000));
        assert_eq!(freqs.lowest_nonlinear_khz, 1_700_000);
        assert!(AmdPerf { nominal_perf: 0, ..PERF }.freqs().is_none());
        assert!(AmdPerf { lowest_mhz: 2000, ..PERF }.freqs().is_none());
    }

    /// Passive asks for the performance; guided makes it the least and leaves the rest to the firmware.
    #[test]
    fn passive_and_guided() {
        let fields = |mode| {
            let mut cpu = cpu(mode);
            assert!(cpu.adjust_perf(0, 512, 1024));
            assert!(!cpu.adjust_perf(0, 512, 1024), "the same request is not written again");
            (cpu.request.min(), cpu.request.desired(), cpu.request.max())
        };
        assert_eq!(fields(AmdMode::Passive), (60, 83, 166));
        assert_eq!(fields(AmdMode::Guided), (83, 0, 166));
    }

    #[test]
    fn targets_are_proportional() {
        let mut cpu = cpu(AmdMode::Passive);
        cpu.target(2_350_000, true);
        assert_eq!((cpu.request.min(), cpu.request.desired(), cpu.request.max()), (20, 83, 166));
        cpu.set_limits(550_000, 2_350_000, true);
        cpu.target(4_701_000, true);
        assert_eq!((cpu.request.desired(), cpu.request.max(), cpu.cur_khz), (82, 82, 2_350_000));
    }

    #[test]
    fn active_mode_sets_limits_and_preference() {
        let mut cpu = cpu(AmdMode::Active);
        let mut check = |policy, epp, boost, expected| {
            cpu.epp_update_limit(policy, epp, 550_000, 4_701_000, boost);
            let request = cpu.request;
            assert_eq!((request.min(), request.desired(), request.max(), request.epp()), expected);
        };
        check(PstatePolicy::Powersave, 0x80, true, (20, 0, 166, 0x80));
        check(PstatePolicy::Performance, 0x80, true, (120, 0, 166, 0));
        check(PstatePolicy::Powersave, 0xbf, false, (20, 0, 120, 0xbf));
    }

    proptest! {
        /// Nothing panics, and a request that was formed is ordered as far as the limits are.
        #[test]
        fn any_input(
            perf: (u32, u32, u32, u32, u32, u32), khz: (u32, u32, u32), util: (u64, u64, u64), boost: bool, epp: u8,
            guided: bool,
        ) {
            let perf = AmdPerf {
                highest_perf: perf.0, nominal_perf: perf.1, lowest_nonlinear_perf: perf.2, lowest_perf: perf.3,
                nominal_mhz: perf.4, lowest_mhz: perf.5,
            };
            let mode = if guided { AmdMode::Guided } else { AmdMode::Passive };
            // Also what the driver would refuse to load for.
            let mut cpu = AmdCpu { perf, max_khz: khz.2, boost_supported: boost, ..self::cpu(mode) };
            cpu.set_limits(khz.0, khz.1, boost);
            cpu.target(khz.2, boost);
            cpu.adjust_perf(util.0, util.1, util.2);
            cpu.epp_update_limit(PstatePolicy::Performance, epp, khz.0, khz.1, boost);
            let _ = AmdCpu::new(perf, mode);
        }

        /// More utilisation never asks for less.
        #[test]
        fn adjust_perf_is_monotonic(min_perf in 0..=1024u64, target in 0..=1024u64, more in 0..=1024u64) {
            let desired = |target| {
                let mut cpu = cpu(AmdMode::Passive);
                cpu.adjust_perf(min_perf, target, 1024);
                assert!(cpu.request.min() <= cpu.request.desired() && cpu.request.desired() <= cpu.request.max());
                cpu.request.desired()
            };
            prop_assert!(desired(target + more) >= desired(target));
        }
    }
}
