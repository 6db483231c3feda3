//! Hardware P-states: what the firmware of a CPU makes of an HWP request.
//!
//! Intel publishes what the request means, not what the firmware does with it. This is a model of our own:
//!
//! ```text
//!   dt      = time since the last look, without that in states deeper than C1E (C3, C6, ...)
//!   share  += (C0 time / dt - share) dt / (HWP_AVERAGE + dt)        C0 / (C0 + C1), in 1/1024
//!   wanted  = highest x (share - idle) / (full - idle)              `idle` and `full` by the preference (EPP)
//!   level   = wanted within [min, max] of the request, or its desired level, if it has one
//! ```
//! It looks once a millisecond. At an EPP of 128 a CPU that is busy all the time goes from the lowest to the highest clock
//! within some 40 ms; one that is busy for less than a third of the time stays where it is slowest. What a task did
//! elsewhere does not count: a task that migrates starts at the bottom (text 001).
//!
//! The form is that of two logs of a Jasper Lake at an EPP of 128, under two idle governors: one line fits the clock by
//! C0 / (C0 + C1), none by C0 alone (docs/silicon.md). Time in states that give up the clock (C6, C7) is left out there, and
//! here the share stays over it. The line from 0.32 to 1 is off by 17 % (median of 1728 rows of 5 s by CPU); fitted to one
//! log, 0.30 or 0.34, it is off by 15 and 22 % in the other. A threshold in place of the line is off by 48 %.

use std::cmp::Ordering;

use opplab_kernel::cpufreq::intel_pstate::{HwpCapabilities, HwpRequest};
use opplab_model::decision::{Decision, HwpRule};
use opplab_model::machine::{Cluster, HwpCaps};

use crate::ids::CpuId;

/// Time constant of the share's average, ns. Assumed, so that the climb takes as long as reviews of Skylake's Speed
/// Shift saw it take, some 30 ms.
pub(crate) const HWP_AVERAGE_NS: u64 = 12_000_000;
/// The share, in 1/1024, up to which a CPU stays slowest at an EPP of 128: fitted, see above. It is proportional to the EPP.
const IDLE_AT_MIDDLE: u64 = 328;
/// Bits of a share behind the point.
const SHARE_SHIFT: u32 = 20;
/// The preference of the logs.
const MIDDLE_EPP: u64 = 128;

/// How a maker's firmware reads the preference.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Preference {
    /// The share, in 1/1024, from which on EPP 0 has the highest level. From EPP 128 on it is 1; in between it is in
    /// proportion.
    full_least: u64,
    /// Time in states that give up the clock is left out.
    leaves_out_deep: bool,
    /// The preference at which the clock was measured, if it was.
    measured: Option<u64>,
}

impl Preference {
    /// At an EPP of 128 as the logs have it, otherwise assumed.
    pub(crate) const INTEL: Self = Self { full_least: 360, leaves_out_deep: true, measured: Some(MIDDLE_EPP) };
    /// The driver's performance policy is an EPP of 0 with the limits of any other policy
    /// (amd-pstate.c:amd_pstate_epp_update_limit(), v6.15), so 0 means the highest level. No
    /// measurement shows how time in deep states counts.
    pub(crate) const AMD: Self = Self { full_least: 0, leaves_out_deep: false, measured: None };

    /// The shares at which the level is lowest and highest.
    fn line(self, epp: u32) -> (u64, u64) {
        let epp = u64::from(epp);
        let full = self.full_least + (1024 - self.full_least) * epp.min(MIDDLE_EPP) / MIDDLE_EPP;
        (IDLE_AT_MIDDLE * epp / MIDDLE_EPP, full)
    }
}

/// A CPU's hardware P-states.
#[derive(Debug)]
pub(crate) struct Hwp {
    /// MSR_HWP_REQUEST.
    pub(crate) request: HwpRequest,
    pub(crate) capabilities: HwpCapabilities,
    /// kHz a performance level.
    scaling_khz: u32,
    preference: Preference,
    /// Share of C0, on average, in 1/2^20.
    share: u64,
    last_ns: u64,
    last_deep_ns: u64,
    last_c0_ns: u64,
}

/// MSR_HWP_CAPABILITIES of a described machine.
pub(crate) fn capabilities(caps: HwpCaps) -> HwpCapabilities {
    let byte = |level: u32, shift: u32| u64::from(level.min(255)) << shift;
    HwpCapabilities(
        byte(caps.highest, 0) | byte(caps.guaranteed, 8) | byte(caps.most_efficient, 16) | byte(caps.lowest, 24),
    )
}

/// kHz a performance level: the bus clock, or on hybrid processors, whose levels count more than the clock, what makes
/// the highest level the highest clock (rounded).
pub(crate) fn scaling_khz(cluster: &Cluster, top_khz: u32) -> u32 {
    const BUS_KHZ: u32 = 100_000;
    match cluster.hwp {
        Some(caps) if caps.highest > 0 && caps.highest.abs_diff(top_khz / BUS_KHZ) > 1 => {
            ((top_khz + caps.highest / 2) / caps.highest).max(1)
        }
        _ => BUS_KHZ,
    }
}

impl Hwp {
    pub(crate) fn new(caps: HwpCaps, scaling_khz: u32, preference: Preference, now_ns: u64) -> Self {
        Self {
            request: HwpRequest(0),
            capabilities: capabilities(caps),
            scaling_khz,
            preference,
            share: 0,
            last_ns: now_ns,
            last_deep_ns: 0,
            last_c0_ns: 0,
        }
    }

    /// Looks at the time since the last look; `deep_ns` counts time in states that give up the clock, `c0_ns` that in which
    /// the CPU executes: for tasks, or polling.
    pub(crate) fn look(&mut self, now_ns: u64, deep_ns: u64, c0_ns: u64) {
        let deep_dt_ns = deep_ns - self.last_deep_ns;
        assert!(now_ns - self.last_ns >= deep_dt_ns, "no more time asleep than has passed");
        let dt_ns = now_ns - self.last_ns - if self.preference.leaves_out_deep { deep_dt_ns } else { 0 };
        let busy_ns = (c0_ns - self.last_c0_ns).min(dt_ns);
        (self.last_ns, self.last_deep_ns) = (now_ns, deep_ns);
        if dt_ns == 0 {
            return;
        }
        self.last_c0_ns = c0_ns;
        // share + (busy / dt - share) dt / (T + dt)
        let sum = u128::from(self.share) * u128::from(HWP_AVERAGE_NS) + (u128::from(busy_ns) << SHARE_SHIFT);
        self.share = u64::try_from(sum / u128::from(HWP_AVERAGE_NS + dt_ns)).unwrap_or(1 << SHARE_SHIFT);
    }

    /// The level that the load asks for.
    fn wanted(&self) -> u32 {
        let (idle, full) = self.preference.line(self.request.epp().into());
        let above = self.share.saturating_sub(idle << (SHARE_SHIFT - 10));
        let wanted =
            (u64::from(self.capabilities.highest()) * above).div_ceil((full - idle).max(1) << (SHARE_SHIFT - 10));
        if full == 0 { u32::MAX } else { u32::try_from(wanted).unwrap_or(u32::MAX) }
    }

    /// The performance level that the firmware chooses.
    fn level(&self) -> u32 {
        self.choice().0
    }

    /// The same, and what decided.
    fn choice(&self) -> (u32, HwpRule) {
        let (min, max) = (u32::from(self.request.min()), u32::from(self.request.max()));
        let wanted = match self.request.desired() {
            0 => self.wanted(),
            desired => u32::from(desired),
        };
        let level = wanted.max(min).min(max);
        let rule = match level.cmp(&wanted) {
            Ordering::Less => HwpRule::Most,
            Ordering::Greater => HwpRule::Least,
            Ordering::Equal if self.request.desired() != 0 => HwpRule::Desired,
            Ordering::Equal => HwpRule::Demand,
        };
        (level, rule)
    }

    /// The request and what the firmware makes of it, for a sink that wants records.
    pub(crate) fn decision(&self, policy_cpu: CpuId) -> Decision {
        let (level, rule) = self.choice();
        Decision::Hwp {
            policy_cpu: policy_cpu.0,
            least: self.request.min().into(),
            most: self.request.max().into(),
            desired: self.request.desired().into(),
            epp: self.request.epp().into(),
            demand_khz: self.wanted().saturating_mul(self.scaling_khz),
            level,
            hwp_rule: rule as u8,
            level_khz: self.scaling_khz,
        }
    }

    /// The clock that it asks the package for, in kHz.
    pub(crate) fn khz(&self) -> u32 {
        self.level().saturating_mul(self.scaling_khz)
    }

    /// The most that the firmware may choose of its own, in kHz; 0 if the kernel decides.
    pub(crate) fn most_khz(&self) -> u32 {
        if self.request.desired() != 0 { 0 } else { u32::from(self.request.max()).saturating_mul(self.scaling_khz) }
    }

    /// The performance level that reaches `khz`.
    pub(crate) fn level_of(&self, khz: u32) -> i32 {
        i32::try_from(khz.div_ceil(self.scaling_khz)).unwrap_or(i32::MAX).min(255)
    }

    pub(crate) fn scaling_khz(&self) -> u32 {
        self.scaling_khz
    }

    /// Whether the level follows the load: software has not chosen it, and the preference asks for less than the most.
    pub(crate) fn follows_load(&self) -> bool {
        self.request.desired() == 0 && self.preference.line(self.request.epp().into()).1 != 0
    }

    /// The preference, where what the firmware makes of it is assumed and decides: a level that follows the load.
    pub(crate) fn assumed_preference(&self) -> Option<u8> {
        let epp = self.request.epp();
        let decides = self.follows_load() && self.request.min() < self.request.max();
        (decides && self.preference.measured != Some(epp.into())).then_some(epp)
    }

    /// Whether the firmware takes no notice of time in states that give up the clock.
    pub(crate) fn leaves_out_deep(&self) -> bool {
        self.preference.leaves_out_deep
    }

    /// Whether an idle CPU's clock can fall no further.
    pub(crate) fn is_settled(&self) -> bool {
        !self.follows_load() || self.level() <= u32::from(self.request.min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn skylake() -> Hwp {
        let caps = HwpCaps { highest: 39, guaranteed: 24, most_efficient: 10, lowest: 7, ..HwpCaps::default() };
        let mut hwp = Hwp::new(caps, 100_000, Preference::INTEL, 0);
        hwp.request = HwpRequest(0).with_min(10).with_max(39).with_epp(128);
        hwp
    }

    /// The clock after `ms` of being busy for `permille` of the time.
    fn khz_after(hwp: &mut Hwp, from_ms: u64, ms: u64, permille: u64) -> u32 {
        for now_ms in from_ms + 1..=from_ms + ms {
            hwp.look(now_ms * MS, hwp.last_deep_ns, hwp.last_c0_ns + MS * permille / 1000);
        }
        hwp.khz()
    }

    #[test]
    fn busy_cpus_climb_and_idle_ones_fall() {
        let mut hwp = skylake();
        assert_eq!(khz_after(&mut hwp, 0, 5, 1000), 1_000_000);
        let khz = khz_after(&mut hwp, 5, 15, 1000);
        assert!((2_000_000..3_500_000).contains(&khz), "{khz}");
        assert_eq!(khz_after(&mut hwp, 20, 40, 1000), 3_900_000);
        assert!(khz_after(&mut hwp, 60, 10, 0) < 3_900_000);
        assert_eq!(khz_after(&mut hwp, 70, 40, 0), 1_000_000);
        assert!(hwp.is_settled());
    }

    /// The clock in proportion to the share, as the Jasper Lake's logs have it (at an EPP of 128), within a fifth: its
    /// highest clock is 3.3 GHz, the medians of the rows with this share of C0 of the time outside C6 are from the logs.
    #[test]
    fn clock_by_share_is_that_of_the_logs() {
        let caps = HwpCaps { highest: 33, guaranteed: 11, most_efficient: 8, lowest: 8, ..HwpCaps::default() };
        for (permille, logged_mhz) in [(425, 860), (525, 1240), (575, 1390), (625, 1550), (675, 1690), (775, 2340)] {
            let mut hwp = Hwp::new(caps, 100_000, Preference::INTEL, 0);
            hwp.request = HwpRequest(0).with_min(8).with_max(33).with_epp(128);
            let mhz = khz_after(&mut hwp, 0, 500, permille) / 1000;
            assert!(mhz.abs_diff(logged_mhz) * 5 <= logged_mhz, "{permille}: {mhz} for {logged_mhz}");
        }
    }

    /// The lower the preference, the less has to be done for a clock; busy all the time is the highest clock at any.
    #[test]
    fn preference_sets_the_share() {
        let khz = |epp: u32, permille: u64| {
            let mut hwp = skylake();
            hwp.request = hwp.request.with_epp(epp);
            khz_after(&mut hwp, 0, 500, permille)
        };
        for permille in [100, 300, 500, 700, 900] {
            let by_epp = [0, 64, 128, 192, 255].map(|epp| khz(epp, permille));
            assert!(by_epp.is_sorted_by(|a, b| a >= b), "{permille}: {by_epp:?}");
        }
        assert_eq!([0, 128, 255].map(|epp| khz(epp, 1000)), [3_900_000; 3]);
        assert_eq!([khz(0, 360), khz(128, 300), khz(255, 600)], [3_900_000, 1_000_000, 1_000_000]);
    }

    /// AMD's EPP of 0 is its performance policy; a request for a level is kept at any preference.
    #[test]
    fn amd_reads_the_lowest_preference_as_performance() {
        let khz = |epp: u32, permille: u64| {
            let mut hwp = skylake();
            hwp.preference = Preference::AMD;
            hwp.request = hwp.request.with_epp(epp);
            khz_after(&mut hwp, 0, 500, permille)
        };
        assert_eq!([khz(0, 0), khz(0, 10), khz(128, 300)], [3_900_000, 3_900_000, 1_000_000]);
        // All idle time counts.
        let mut hwp = Hwp { preference: Preference::AMD, ..skylake() };
        for now_ms in 1..=600 {
            hwp.look(now_ms * MS, now_ms * MS * 3 / 4, now_ms * MS / 4);
        }
        assert_eq!(hwp.khz(), 1_000_000);
        let mut hwp = skylake();
        (hwp.preference, hwp.request) = (Preference::AMD, hwp.request.with_epp(0).with_desired(20));
        assert_eq!(hwp.khz(), 2_000_000);
        assert!(!hwp.follows_load() && hwp.is_settled());
    }

    #[test]
    fn requests_bound_and_desired_levels_are_kept() {
        let mut hwp = skylake();
        hwp.request = hwp.request.with_min(24);
        assert_eq!(hwp.khz(), 2_400_000);
        hwp.request = hwp.request.with_desired(30);
        assert_eq!(hwp.khz(), 3_000_000);
        hwp.request = hwp.request.with_max(28);
        assert_eq!(hwp.khz(), 2_800_000);
        hwp.look(100, 0, 0);
    }

    /// Busy for a quarter of the time: with the rest in C1 it stays slow, with the rest in C6 it is always busy.
    #[test]
    fn time_in_deep_states_is_left_out() {
        let khz = |deep_permille: u64| {
            let mut hwp = skylake();
            for now_ms in 1..=600 {
                hwp.look(now_ms * MS, now_ms * MS * deep_permille / 1000, now_ms * MS / 4);
            }
            hwp.khz()
        };
        assert_eq!([khz(0), khz(200), khz(750)], [1_000_000, 1_000_000, 3_900_000]);
        // A sleep in C6 leaves the share as it was.
        let mut hwp = skylake();
        let khz = khz_after(&mut hwp, 0, 15, 1000);
        hwp.look(515 * MS, 500 * MS, hwp.last_c0_ns);
        assert_eq!(hwp.khz(), khz);
    }
}
