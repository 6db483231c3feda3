//! Which loop answers, and how its CPUs run where those of the recording shared one instruction stream.

use crate::ReplayError;
pub use crate::measure::Streams;
use crate::metrics::Whole;
use crate::rerun::{Births, Change, Comparison, Mode, Replay};

/// A half of a recording, judged by the other one ([`Replay::held_out`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldOut {
    /// By the other half CPUs share the stream.
    pub shared: bool,
    /// How far CPUs apart are from this half.
    pub apart: Whole,
    /// How far the way is that the other half decides on.
    pub taken: Whole,
}

/// Whether CPUs share the stream: CPUs apart are not near as a whole, those that share it are, and these are not less near in residency and
/// energy.
fn shares(apart: &Comparison, sharing: &Comparison) -> bool {
    !Whole::of(apart).is_near() && Whole::of(sharing).is_near() && sharing.is_near() >= apart.is_near()
}

impl Replay {
    /// The self-check, with births as the change will have them: that of CPUs which share the stream, if it is the nearer one.
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub(crate) fn checked(&self, mode: Mode, births: Births) -> Result<Comparison, ReplayError> {
        let apart = self.checked_as_is(mode, births)?;
        if mode == Mode::Open || Whole::of(&apart).is_near() {
            return Ok(apart);
        }
        let Some(replay) = self.on_shared_stream() else { return Ok(apart) };
        let sharing = replay.checked_as_is(mode, births)?;
        let shared = shares(&apart, &sharing);
        let (taken, other) = if shared { (sharing, apart) } else { (apart, sharing) };
        Ok(Comparison { streams: Some(Streams { shared, other: Whole::of(&other) }), ..taken })
    }

    /// How near a closed loop is to one half of the recording if the other half decides whether CPUs share the stream: the second half,
    /// then the first. `None` where the recorded CPUs shared none.
    ///
    /// # Errors
    /// As [`Replay::compare`].
    pub fn held_out(&self) -> Result<Option<[HeldOut; 2]>, ReplayError> {
        let Some(replay) = self.on_shared_stream() else { return Ok(None) };
        let (apart, sharing) = (self.checked_by_half()?, replay.checked_by_half()?);
        let judged = |by: usize| {
            let shared = shares(&apart[by], &sharing[by]);
            let whole = |of: &[Comparison; 2]| Whole::of(&of[1 - by]);
            HeldOut { shared, apart: whole(&apart), taken: whole(if shared { &sharing } else { &apart }) }
        };
        Ok(Some([0, 1].map(judged)))
    }

    /// Compares in the closed loop if its self-check is near the trace, else in the loop whose self-check is nearer: which one
    /// that is, and the self-check of the closed loop if that is not the one. A change of the clocks that makes the open loop do other
    /// work is the closed loop's, if that is near but for latencies, which have their own verdict. What an open loop keeps
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
                let but_latency = Whole { latency_p95: None, ..Whole::of(&closed) };
                if !(open.does_other_work() && but_latency.is_near()) {
                    return Ok((Mode::Open, open, Some(closed)));
                }
            }
        }
        Ok((Mode::Closed, self.changed(closed, change, Mode::Closed)?, None))
    }
}
