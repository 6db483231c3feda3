//! Energy-aware placement in the engine.

use opplab_kernel::pelt::HalfLife;
use opplab_model::event::{Sink, TaskIdx};

use crate::engine::Engine;

/// What energy-aware placement needs of the machine.
pub(crate) struct EasState {}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    pub(crate) fn find_energy_efficient_cpu(&mut self, _task: TaskIdx, _prev: u32, _sync: bool) -> Option<u32> {
        None
    }
}
