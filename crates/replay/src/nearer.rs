//! Which loop answers.

use crate::ReplayError;
use crate::metrics::Whole;
use crate::rerun::{Change, Comparison, Mode, Replay};

impl Replay {
    /// Compares in the closed loop if its self-check is near the trace, else in the loop whose self-check is nearer: which one
    /// that is, and the self-check of the closed loop if that is not the one. A change of the clocks that makes the open loop do other
    /// work is the closed loop's, if that is near as a whole. What an open loop keeps
    /// ([`Replay::open_answers`]) is the closed loop's in any case.
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub fn compare_nearer(
        &self,
        change: Option<&Change>,
    ) -> Result<(Mode, Comparison, Option<Comparison>), ReplayError> {
        let births = self.births(change);
        let closed = self.checked(Mode::Closed, births)?;
        if !closed.is_near() && change.is_none_or(|change| self.open_answers(change)) {
            let open = self.checked(Mode::Open, births)?;
            if open.off() < closed.off() {
                let open = self.changed(open, change, Mode::Open)?;
                if !(open.does_other_work() && Whole::of(&closed).is_near()) {
                    return Ok((Mode::Open, open, Some(closed)));
                }
            }
        }
        Ok((Mode::Closed, self.changed(closed, change, Mode::Closed)?, None))
    }
}
