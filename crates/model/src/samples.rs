//! A sink that keeps the machine's counters of a run.

use crate::counters::Sample;
use crate::event::{Event, Sink};

/// Keeps the samples of a run, one every `period_ns`, the first at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    /// Time between two samples in ns; at least 1.
    pub period_ns: u64,
    /// What was read.
    pub samples: Vec<Sample>,
}

impl Samples {
    /// No samples yet.
    pub fn new(period_ns: u64) -> Self {
        Self { period_ns: period_ns.max(1), samples: Vec::new() }
    }
}

impl Sink for Samples {
    fn event(&mut self, _now_ns: u64, _event: &Event) {}
    fn sample_period_ns(&self) -> u64 {
        self.period_ns
    }
    fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }
}
