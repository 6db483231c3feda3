//! What performance, powersave and userspace share: they do not look at the load, ask once when the limits change, and
//! the hardware holds the request until the next one.

use super::freq_table::{FreqLimits, FreqTable, Relation};
use super::governor::{Governor, GovernorEntry, GovernorSetup, Report, View};
use super::request::FreqRequest;
use crate::cpufreq::facts::Request;
use crate::cpufreq::facts::SugovDecision;

/// The request within limits, of the frequency in kHz that somebody wrote.
type OfLimits = fn(FreqLimits, u32) -> FreqRequest;

/// A governor whose request follows from the limits.
#[derive(Debug)]
pub(super) struct Fixed {
    entry: &'static GovernorEntry,
    table: Option<FreqTable>,
    of_limits: OfLimits,
    limits: FreqLimits,
    setspeed_khz: u32,
    wanted_khz: u32,
    relation: Relation,
}

impl Fixed {
    /// Starts one that asks for `of_limits(limits, setspeed_khz)`.
    pub(super) fn start(
        entry: &'static GovernorEntry,
        setup: &GovernorSetup,
        of_limits: OfLimits,
        setspeed_khz: u32,
    ) -> Box<dyn Governor> {
        Box::new(Self {
            entry,
            table: setup.table.clone(),
            of_limits,
            limits: setup.limits,
            setspeed_khz,
            wanted_khz: 0,
            relation: Relation::L,
        })
    }
}

impl Governor for Fixed {
    fn entry(&self) -> &'static GovernorEntry {
        self.entry
    }

    fn update_util(&mut self, _: &Report, _: &dyn View, _: Option<&mut Option<SugovDecision>>) -> Option<Request> {
        None
    }

    fn limits(&mut self, limits: FreqLimits, cur_khz: u32) -> Option<u32> {
        self.limits = limits;
        let request = (self.of_limits)(limits, self.setspeed_khz);
        self.wanted_khz = request.resolve(self.table.as_ref(), limits);
        self.relation = request.relation;
        (self.wanted_khz != cur_khz).then_some(self.wanted_khz)
    }

    /// cpufreq_userspace.c:cpufreq_set(), v6.12.
    fn retune(&mut self, fresh: &dyn Governor, _: &dyn View) -> Option<u32> {
        let fresh: &Self = (fresh as &dyn core::any::Any).downcast_ref()?;
        self.setspeed_khz = fresh.setspeed_khz;
        self.limits(self.limits, self.wanted_khz)
    }

    fn wanted_khz(&self) -> u32 {
        self.wanted_khz
    }

    fn relation(&self) -> Relation {
        self.relation
    }
}

#[cfg(test)]
mod tests {
    use crate::cpufreq::freq_table::{FreqLimits, FreqTable};
    use crate::cpufreq::{performance, powersave, userspace};

    #[test]
    fn requests_within_limits() {
        let table = FreqTable::from_khz(&[1_000, 1_500, 2_000]).expect("a valid table");
        let limits = FreqLimits { min_khz: 1_200, max_khz: 1_900 };
        let khz = |request: crate::cpufreq::request::FreqRequest| request.resolve(Some(&table), limits);
        assert_eq!(khz(performance::performance_limits(limits)), 1_500);
        assert_eq!(khz(powersave::powersave_limits(limits)), 1_500);
        assert_eq!(userspace::userspace_limits(limits, 1_000).target_khz, 1_200);
        assert_eq!(userspace::userspace_limits(limits, 1_600).target_khz, 1_600);
        assert_eq!(userspace::userspace_limits(limits, 2_000).target_khz, 1_900);
    }
}
