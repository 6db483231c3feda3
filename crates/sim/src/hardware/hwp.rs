//! Hardware P-states: what the firmware of a CPU makes of an HWP request.
//!
//! Intel publishes what the request means, not what the firmware does with it. This is a model of our own:
//!
//! ```text
//!   delivered = APERF of the last look / its time            kHz, over idle time too: C0 residency x clock
//!   demand   += (delivered - demand) dt / (HWP_AVERAGE + dt)
//!   wanted    = demand x 1024 / (256 + 3 EPP)                EPP 0: busy a quarter of the time is enough for more
//!   level     = wanted within [min, max] of the request, or its desired level, if it has one
//! ```
//! It looks once a millisecond. A CPU that is busy all the time goes from the lowest to the highest clock within some
//! 30 ms at an EPP of 128; one that is busy for less than 62 % of the time stays where it is slowest. What a task did
//! elsewhere does not count: a task that migrates starts at the bottom (text 001).

use std::cmp::Ordering;

use opplab_kernel::cpufreq::intel_pstate::{HwpCapabilities, HwpRequest};
use opplab_model::decision::{Decision, HwpRule};
use opplab_model::machine::{Cluster, HwpCaps};

use crate::ids::CpuId;

/// Time constant of the demand's average, ns. Assumed, so that the climb takes as long as reviews of Skylake's Speed
/// Shift saw it take, some 30 ms.
pub(crate) const HWP_AVERAGE_NS: u64 = 12_000_000;
/// Share of C0, in 1/1024, that an EPP of 0 aims at.
const SET_POINT_LEAST: u64 = 256;
/// What each unit of EPP adds to it.
const SET_POINT_PER_EPP: u64 = 3;

/// A CPU's hardware P-states.
#[derive(Debug)]
pub(crate) struct Hwp {
    /// MSR_HWP_REQUEST.
    pub(crate) request: HwpRequest,
    pub(crate) capabilities: HwpCapabilities,
    /// kHz a performance level.
    scaling_khz: u32,
    /// kHz delivered, on average.
    demand_khz: u64,
    last_ns: u64,
    last_aperf: u128,
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
    pub(crate) fn new(caps: HwpCaps, scaling_khz: u32, now_ns: u64) -> Self {
        Self {
            request: HwpRequest(0),
            capabilities: capabilities(caps),
            scaling_khz,
            demand_khz: 0,
            last_ns: now_ns,
            last_aperf: 0,
        }
    }

    /// Looks at the time since the last look; `aperf` counts kHz x ns.
    pub(crate) fn look(&mut self, now_ns: u64, aperf: u128) {
        let dt_ns = now_ns - self.last_ns;
        if dt_ns == 0 {
            return;
        }
        let delivered_khz = i128::try_from((aperf - self.last_aperf) / u128::from(dt_ns)).unwrap_or(0);
        let step = (delivered_khz - i128::from(self.demand_khz)) * i128::from(dt_ns);
        let demand = i128::from(self.demand_khz) + step / i128::from(HWP_AVERAGE_NS + dt_ns);
        self.demand_khz = u64::try_from(demand).unwrap_or(0);
        (self.last_ns, self.last_aperf) = (now_ns, aperf);
    }

    /// The performance level that the firmware chooses.
    fn level(&self) -> u32 {
        self.choice().0
    }

    /// The same, and what decided.
    fn choice(&self) -> (u32, HwpRule) {
        let (min, max) = (u32::from(self.request.min()), u32::from(self.request.max()));
        let wanted = match self.request.desired() {
            0 => {
                let set_point = SET_POINT_LEAST + SET_POINT_PER_EPP * u64::from(self.request.epp());
                let wanted_khz = self.demand_khz * 1024 / set_point;
                u32::try_from(wanted_khz.div_ceil(u64::from(self.scaling_khz))).unwrap_or(u32::MAX)
            }
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
            demand_khz: u32::try_from(self.demand_khz).unwrap_or(u32::MAX),
            level,
            hwp_rule: rule as u8,
            level_khz: self.scaling_khz,
        }
    }

    /// The clock that it asks the package for, in kHz.
    pub(crate) fn khz(&self) -> u32 {
        self.level().saturating_mul(self.scaling_khz)
    }

    /// The most that the firmware may choose of its own, in kHz; 0 if it is told what to do.
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

    /// Whether an idle CPU's clock can fall no further.
    pub(crate) fn is_settled(&self) -> bool {
        self.request.desired() != 0 || self.level() <= u32::from(self.request.min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn skylake() -> Hwp {
        let caps = HwpCaps { highest: 39, guaranteed: 24, most_efficient: 10, lowest: 7 };
        let mut hwp = Hwp::new(caps, 100_000, 0);
        hwp.request = HwpRequest(0).with_min(10).with_max(39).with_epp(128);
        hwp
    }

    /// The clock after `ms` of being busy for `permille` of the time.
    fn khz_after(hwp: &mut Hwp, from_ms: u64, ms: u64, permille: u64) -> u32 {
        for now_ms in from_ms + 1..=from_ms + ms {
            let aperf = hwp.last_aperf + u128::from(hwp.khz()) * u128::from(MS * permille / 1000);
            hwp.look(now_ms * MS, aperf);
        }
        hwp.khz()
    }

    #[test]
    fn busy_cpus_climb_and_idle_ones_fall() {
        let mut hwp = skylake();
        assert_eq!(khz_after(&mut hwp, 0, 5, 1000), 1_000_000);
        let khz = khz_after(&mut hwp, 5, 20, 1000);
        assert!((1_500_000..3_500_000).contains(&khz), "{khz}");
        assert_eq!(khz_after(&mut hwp, 25, 25, 1000), 3_900_000);
        assert!(khz_after(&mut hwp, 50, 10, 0) < 3_900_000);
        assert_eq!(khz_after(&mut hwp, 60, 40, 0), 1_000_000);
        assert!(hwp.is_settled());
    }

    /// The preference decides how busy is busy enough.
    #[test]
    fn preference_sets_the_share() {
        let climbs = |epp: u32, permille: u64| {
            let mut hwp = skylake();
            hwp.request = hwp.request.with_epp(epp);
            khz_after(&mut hwp, 0, 500, permille) > 3_000_000
        };
        assert_eq!([climbs(0, 240), climbs(0, 270)], [false, true]);
        assert_eq!([climbs(128, 600), climbs(128, 680)], [false, true]);
        assert_eq!([climbs(255, 980), climbs(192, 850)], [false, true]);
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
        hwp.look(100, 0);
    }
}
