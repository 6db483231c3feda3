//! The frequency decisions.

use super::input::{Ev, Machine};
use super::report::RecordingReport;
use super::state::State;

/// What was seen of the decisions.
pub(super) struct Freq {}

impl Freq {
    /// Nothing yet.
    pub(super) fn new(_machine: &Machine) -> Self {
        Self {}
    }
    /// Looks at one event.
    pub(super) fn event(&mut self, _ev: &Ev<'_>, _state: &State<'_>, _report: &mut RecordingReport) {}
}
