//! When the recorded kernel's ticks came.

use crate::events::{Context, Events, What};

/// Interrupts whose first events are no further apart than this count as one phase, ns.
const SHARP_NS: u64 = 4_000;
/// An event that follows the one before on its CPU by less belongs to the same interrupt, ns.
const JOINED_NS: u64 = 25_000;

/// The phase of the tick: time of one tick modulo `tick_ns`, which most interrupts share that woke nobody. `None` if
/// there are too few.
pub(crate) fn phase_ns(events: &Events, tick_ns: u64) -> Option<u64> {
    // Of each CPU: the interrupt under way (start, whether it woke somebody) and its last event.
    let mut under_way: Vec<Option<(u64, bool)>> = vec![None; events.nr_cpus];
    let mut last_ns = vec![0; events.nr_cpus];
    let mut phases: Vec<u64> = Vec::new();
    for ev in &events.list {
        let c = ev.cpu as usize;
        let begins = ev.context == Context::Interrupt || matches!(ev.what, What::Idle { entered: false, .. });
        let joined = ev.time_ns - last_ns[c] < JOINED_NS;
        last_ns[c] = ev.time_ns;
        if let (Some((_, woke)), What::Waking { .. }) = (&mut under_way[c], ev.what) {
            *woke = true;
        }
        if joined && under_way[c].is_some() {
            continue;
        }
        if let Some((start, false)) = under_way[c].take() {
            phases.push(start % tick_ns);
        }
        under_way[c] = begins.then_some((ev.time_ns, false));
    }
    phases.sort_unstable();
    // The most phases within SHARP_NS, around the end of the circle, too.
    let wrapped: Vec<u64> = phases.iter().copied().chain(phases.iter().map(|phase| phase + tick_ns)).collect();
    let count = |&start: &u64| {
        wrapped.partition_point(|&phase| phase <= start + SHARP_NS) - wrapped.partition_point(|&phase| phase < start)
    };
    let start = phases.iter().max_by_key(|&start| (count(start), u64::MAX - start))?;
    (count(start) >= 8).then_some(*start)
}
