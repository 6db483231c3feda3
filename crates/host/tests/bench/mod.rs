//! A made machine as a place of runs: its files, its clock, its chance. What a run does is its kind's.

use opplab_host::HostError;
use opplab_host::clock::Moment;
use opplab_host::compare::bench::{Bench, Ran};
use opplab_host::compare::variants::Variant;
use opplab_host::root::{Made, Root};
use rand_core::Rng as _;
use rand_pcg::Pcg64;

/// A made machine.
pub(crate) struct Machine<K> {
    pub(crate) root: Root,
    pub(crate) now_ns: u64,
    pub(crate) has_power: bool,
    pub(crate) kind: K,
    random: Pcg64,
}

/// A kind of machines.
pub(crate) trait Kind: Sized {
    /// See [`Bench::run`].
    fn run(machine: &mut Machine<Self>, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError>;
}

impl<K> Machine<K> {
    pub(crate) fn of(kind: K, made: Made, seed: u64) -> Self {
        Self { root: Root::Made(made), now_ns: 1, has_power: true, kind, random: Pcg64::new(seed.into(), 1) }
    }

    pub(crate) fn made(&self) -> &Made {
        let Root::Made(made) = &self.root else { unreachable!("it was made so") };
        made
    }

    /// A number of 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl<K: Kind> Bench for Machine<K> {
    fn root(&self) -> &Root {
        &self.root
    }

    fn now(&self) -> Moment {
        Moment { time_ns: self.now_ns, slept_ns: 0 }
    }

    fn time_of_day_s(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    fn rest(&mut self, ns: u64) -> bool {
        self.now_ns += ns;
        true
    }

    fn is_ended(&self) -> bool {
        !self.has_power
    }

    fn run(&mut self, _: &Variant, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError> {
        K::run(self, poll)
    }
}
