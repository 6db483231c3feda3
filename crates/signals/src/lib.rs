//! The kernel's signals from a recorded trace: load tracking of tasks and run queues, and how good the reconstruction is.
//!
//! [`samples`] replays every update that the kernel itself recorded (with entry state and result) and counts how many come out
//! the same. [`pelt`] needs no such records: it rebuilds the signals from `sched_switch`, `sched_wakeup`, `sched_migrate_task`
//! and `cpu_frequency` alone. [`residency`] sums up times: frequencies, idle states, running times, wake-up latencies ([`waits`]);
//! [`activations`] are the spans from wake-up to sleep; [`ticks`] finds the ticks, which no event records; [`late`] how
//! late events are; [`half_life`] what half-life the kernel had; [`groups`] which control groups there are and who is in them; [`summary`] what they come down to by task; [`clock`] is what the scheduler's clock has on the trace's.
//!
//! Each takes events of whatever format as [`decode`] decodes them, once for all that listen in a pass ([`decode::SchedSink`]).
//! The arithmetic is that of crate `opplab-kernel`; nothing is computed twice.

pub mod activations;
pub mod clock;
pub mod decode;
pub mod groups;
pub mod half_life;
pub mod late;
pub mod pelt;
pub mod residency;
pub mod samples;
pub mod summary;
pub mod ticks;
pub mod waits;

use opplab_trace::{Event, Schema};

/// Places of fields in a schema, looked up once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places<const N: usize> {
    places: [Option<usize>; N],
}

impl<const N: usize> Places<N> {
    /// Of fewer fields than `N` the rest has no places.
    pub(crate) fn new(schema: &Schema, names: &[&str]) -> Self {
        let mut places = [None; N];
        places.iter_mut().zip(names).for_each(|(place, name)| *place = schema.field_index(name));
        Self { places }
    }

    /// The integer of field `nth`; 0 if there is none.
    #[inline]
    pub(crate) fn get(&self, event: &Event<'_>, nth: usize) -> i64 {
        self.find(event, nth).unwrap_or(0)
    }

    /// The integer of field `nth`, if there is one.
    #[inline]
    pub(crate) fn find(&self, event: &Event<'_>, nth: usize) -> Option<i64> {
        self.places[nth].and_then(|place| event.int(place))
    }

    /// The bytes of field `nth`.
    #[inline]
    pub(crate) fn text<'e>(&self, event: &Event<'e>, nth: usize) -> Option<&'e [u8]> {
        self.places[nth].and_then(|place| event.str(place))
    }
}
