//! Power of CPUs and clusters, integrated exactly: uW x ns = fJ.
//!
//! A CPU draws its state's power (busy at an OPP, or an idle state); a cluster draws its shared logic's power.
//! Energy is added up whenever a power changes. Transitions between idle states draw what the shallowest idle state
//! draws (see LIMITATIONS.md).

/// One meter: a power that changes in steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meter {
    power_uw: u64,
    since_ns: u64,
    energy_fj: u128,
}

impl Meter {
    /// The power is `power_uw` from `now_ns` on.
    pub(crate) fn set(&mut self, now_ns: u64, power_uw: u64) {
        self.advance(now_ns);
        self.power_uw = power_uw;
    }

    /// The present power.
    pub(crate) fn power_uw(&self) -> u64 {
        self.power_uw
    }

    /// Integrates up to `now_ns` and gives the energy so far.
    pub(crate) fn advance(&mut self, now_ns: u64) -> u128 {
        assert!(now_ns >= self.since_ns, "time may not go back");
        self.energy_fj += u128::from(self.power_uw) * u128::from(now_ns - self.since_ns);
        self.since_ns = now_ns;
        self.energy_fj
    }

    pub(crate) fn energy_fj(&self) -> u128 {
        self.energy_fj
    }
}
